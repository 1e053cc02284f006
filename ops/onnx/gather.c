/* gather.c - Gather: selects slices of x along an axis by index.
 *
 * Spec    ai.onnx Gather 1, 11, 13.  Negative indices count from the end.
 * Shapes  x: (o.., n, r..)  indices: (i..)   y: (o.., i.., r..)
 * Grad    dx: dy added at the gathered positions. Constant indices in equal steps become a Copy, others a Take, which
 *         checks them at run time. */
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"

#include <stddef.h>

#include "ops/kernels/take.h"
#include "ops/onnx/batching.h"

typedef struct gather_attrs {
    int64_t axis;
} gather_attrs;

static const ot_attr gather_rows[] = {
    { "axis", OT_INT, offsetof(gather_attrs, axis), 0, NULL },
    { 0 },
};

static ot_status gather_infer(ot_node *n, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape, *index = &n->in[1]->shape;
    ot_shape y = { .rank = 0 };
    int axis;
    OT_TRY(ot_node_axis(n, ((const gather_attrs *)n->attrs)->axis, x->rank, &axis, err));
    if (x->rank - 1 + index->rank > OT_MAX_RANK)
        return ot_node_fail(n, err, "a result of %d axes; at most %d are supported", x->rank - 1 + index->rank,
                            OT_MAX_RANK);
    for (int d = 0; d < axis; d++) y.dim[y.rank++] = x->dim[d];
    for (int d = 0; d < index->rank; d++) y.dim[y.rank++] = index->dim[d];
    for (int d = axis + 1; d < x->rank; d++) y.dim[y.rank++] = x->dim[d];
    OT_TRY(ot_index_check(n, 1, 0, 1, -x->dim[axis], x->dim[axis] - 1, err));
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* Are the constant indices first, first + step, first + 2 step ...? */
static bool in_steps(const ot_value *index, int64_t dim, int64_t *first, int64_t *step)
{
    int64_t n = ot_is_const(index) ? ot_numel(&index->shape) : 0, last = 0;
    if (!n) return false;
    *step = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t v = ot_get_i64(index->data, index->dtype, i);
        if (v < 0) v += dim;
        if (i == 0) *first = v;
        if (i == 1) *step = v - last;
        if (i > 1 && v - last != *step) return false;
        last = v;
    }
    return true;
}

/* Strings: their indices in x are gathered and select the strings. */
static void gather_strings(ot_build *b)
{
    ot_value *x = b->node->in[0];
    int64_t *number = ot_broken(b) ? NULL : ot_graph_alloc(b->graph, ot_bytes(&x->shape, OT_I64) + 1);
    if (!number) return;
    for (int64_t i = 0, n = ot_numel(&x->shape); i < n; i++) number[i] = i;
    ot_value *which = ot_emit(b, &ot_op_Gather, b->node->attrs,
                              OT_IN(ot_graph_const_of(b->graph, "", OT_I64, &x->shape, number), b->node->in[1]));
    ot_yield(b, 0, ot_emit(b, &ot_op_StringTake, NULL, OT_IN(x, which)));
}

static void gather_lower(ot_build *b)
{
    if (b->node->in[0]->dtype == OT_STRING) {
        gather_strings(b);
        return;
    }
    static const int64_t one[OT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    ot_value *x = b->node->in[0], *index = b->node->in[1];
    int axis;
    int64_t start[OT_MAX_RANK] = { 0 }, step[OT_MAX_RANK], first = 0, by = 1;
    ot_axis(((const gather_attrs *)b->node->attrs)->axis, x->shape.rank, &axis);
    if (!in_steps(index, x->shape.dim[axis], &first, &by)) {
        if (index->dtype != OT_I32) index = ot_cast(b, index, OT_I64);
        ot_yield(b, 0, ot_emit(b, &ot_op_Take, &(ot_take){ axis }, OT_IN(x, index)));
        return;
    }
    ot_shape s = x->shape;
    ot_piece *p = ot_pieces(b, 1);
    if (!p) return;
    for (int d = 0; d < s.rank; d++) step[d] = one[d];
    start[axis] = first;
    step[axis] = by;
    s.dim[axis] = ot_numel(&index->shape);
    ot_piece_box(p, &x->shape, start, step, s.dim);
    ot_yield(b, 0, ot_view(b, ot_copy_emit(b, &s, 0, p, 1, &x, 1), &b->node->out[0]->shape));
}

/* Both have a batch: each micro-batch's indices select rows of that micro-batch. */
static bool gathered_both(ot_batching *b, const ot_node *n, int axis, ot_batched *r)
{
    ot_value *x = ot_batch_full(b, n->in[0]), *index = ot_batch_full(b, n->in[1]);
    ot_shape one;
    if (axis || !x || !index || index->dtype != OT_I64 || !ot_with_axis(&index->shape, index->shape.rank, 1, &one))
        return false;
    if (!ot_batch_other_op(b, r, &ot_op_GatherND)) return false;
    ot_attr_set(r->op, r->attrs, "batch_dims", 1);
    r->in[0] = x;
    r->in[1] = ot_batch_reshape(b, index, &one, index->mark);
    return r->in[1] && ot_batch_explicit(r, 0);
}

static bool gather_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    ot_shape s = ot_own_shape(b, n->in[0]), index = ot_own_shape(b, n->in[1]);
    int axis;
    if (!ot_axis(ot_attr_get(n, "axis", 0), s.rank, &axis)) return false;
    if (ot_batch_has(n, 0) && ot_batch_has(n, 1)) return gathered_both(b, n, axis, r);
    if (ot_batch_has(n, 1)) {
        if (n->in[1]->mark != OT_ALONE) return ot_batch_on(r, n, axis + ot_batch_axis(n->in[1]));
        return s.rank == 1 ? ot_batch_on(r, n, OT_ALONE - 1) : axis == 0 && ot_batch_explicit(r, 0);
    }
    int a = ot_batch_axis(n->in[0]);
    if (!ot_batch_first_alone(n)) return false;
    if (a != axis) return ot_batch_on(r, n, a < axis ? a : a - 1 + index.rank);
    r->in[0] = ot_batch_full(b, n->in[0]);
    ot_attr_set(n->op, r->attrs, "axis", axis + 1);
    return r->in[0] && ot_batch_explicit(r, 0);
}

const ot_op ot_op_Gather = {
    .name = "Gather",
    .types = { "Tx", .T = OT_SET_COMMON | OT_TYPE(OT_STRING) },
    .slots = "G-",
    .since = 13,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = gather_rows,
    .attr_size = sizeof(gather_attrs),
    .infer = gather_infer,
    .lower = gather_lower,
    .flags = OT_MOVES,
    .half = OT_HALF_FOLLOWS,
    .batch = gather_batch,
};
