/* reversesequence.c - ReverseSequence: the first sequence_lens[b] steps of each sequence in reverse.
 *
 * Spec    ai.onnx ReverseSequence 10.
 * Shapes  x: (T, B, r..) or (B, T, r..)   sequence_lens: (B)   y: that of x
 * Grad    of Take. */
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/kernels/take.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct reverse_attrs {
    int64_t batch_axis, time_axis;
} reverse_attrs;

static const ot_attr reverse_rows[] = {
    { "batch_axis", OT_INT, offsetof(reverse_attrs, batch_axis), 1, NULL },
    { "time_axis", OT_INT, offsetof(reverse_attrs, time_axis), 0, NULL },
    { 0 },
};

static ot_status reverse_infer(ot_node *n, ot_error *err)
{
    const reverse_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape, *l = &n->in[1]->shape;
    if (x->rank < 2 || a->batch_axis < 0 || a->batch_axis > 1 || a->time_axis != 1 - a->batch_axis)
        return ot_node_fail(n, err, "batch and time must be axes 0 and 1");
    if (l->rank != 1 || l->dim[0] != x->dim[a->batch_axis])
        return ot_node_fail(n, err, "expected one length for each of %lld sequences", (long long)x->dim[a->batch_axis]);
    OT_TRY(ot_index_check(n, 1, 0, 1, 0, x->dim[a->time_axis], err));
    return ot_like(n->out[0], n->in[0]);
}

/* Row (t, b) of x comes from row (length - 1 - t, b) within the sequence. */
static void reverse_lower(ot_build *b)
{
    const ot_shape *x = &b->node->in[0]->shape;
    int ta = (int)((const reverse_attrs *)b->node->attrs)->time_axis, ba = 1 - ta;
    int64_t T = x->dim[ta], B = x->dim[ba], inner = 1;
    for (int d = 2; d < x->rank; d++) inner *= x->dim[d];
    ot_shape times = { .rank = 2, .dim = { 1, 1 } }, batches = times, rows = { .rank = 2, .dim = { T * B, inner } };
    times.dim[ta] = T;
    batches.dim[ba] = B;
    int64_t *t = ot_const_alloc(b, &times, OT_I64), *first = ot_const_alloc(b, &batches, OT_I64);
    if (!t || !first) return;
    for (int64_t i = 0; i < T; i++) t[i] = i;
    for (int64_t i = 0; i < B; i++) first[i] = i * (ba == 0 ? T : 1);
    ot_value *time = ot_graph_const_of(b->graph, "", OT_I64, &times, t);
    ot_value *length = ot_view(b, ot_counts(b, b->node->in[1], T), &batches);
    ot_value *back = ot_map2(b, OT_FN_Sub, 0, 0, ot_map2(b, OT_FN_Sub, 0, 0, length, ot_scalar(b, OT_I64, 1)), time);
    ot_value *from = ot_map3(b, OT_FN_Where, 0, 0, ot_map2(b, OT_FN_Less, 0, 0, time, length), back, time);
    from = ot_map2(b, OT_FN_Mul, 0, 0, from, ot_scalar(b, OT_I64, ta == 0 ? (double)B : 1));
    from = ot_map2(b, OT_FN_Add, 0, 0, from, ot_graph_const_of(b->graph, "", OT_I64, &batches, first));
    ot_value *place = ot_view(b, from, &(ot_shape){ .rank = 1, .dim = { T * B } });
    ot_value *y = ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(ot_view(b, b->node->in[0], &rows), place));
    ot_yield(b, 0, ot_view(b, y, x));
}

static bool reverse_sequence_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int batch = (int)ot_attr_get(n, "batch_axis", 1);
    r->in[0] = ot_batch_spread(b, n->in[0], batch);
    r->in[1] = ot_batch_spread(b, n->in[1], 0);
    return r->in[0] && r->in[1] && ot_batch_on(r, n, batch);
}

const ot_op ot_op_ReverseSequence = {
    .name = "ReverseSequence",
    .types = { "Ti", .T = OT_SET_COMMON },
    .slots = "-",
    .since = 10,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = reverse_rows,
    .attr_size = sizeof(reverse_attrs),
    .infer = reverse_infer,
    .lower = reverse_lower,
    .batch = reverse_sequence_batch,
};
