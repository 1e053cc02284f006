/* concat.c - Concat: concatenates tensors along an axis.
 *
 * Spec    ai.onnx Concat 4, 11, 13.
 * Grad    of Copy */
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct concat_attrs {
    int64_t axis;
} concat_attrs;

static const ot_attr concat_rows[] = {
    { "axis", OT_INT, offsetof(concat_attrs, axis), OT_REQUIRED, NULL },
    { 0 },
};

static ot_status concat_infer(ot_node *n, ot_error *err)
{
    ot_shape y = n->in[0]->shape;
    int axis;
    OT_TRY(ot_node_axis(n, ((const concat_attrs *)n->attrs)->axis, y.rank, &axis, err));
    for (int i = 1; i < n->n_in; i++) {
        const ot_value *x = n->in[i];
        if (!x) return ot_node_fail(n, err, "input %d is missing", i);
        bool fits = x->shape.rank == y.rank && x->dtype == n->in[0]->dtype;
        for (int d = 0; fits && d < y.rank; d++) fits = d == axis || x->shape.dim[d] == y.dim[d];
        if (!fits) {
            char a[128], c[128];
            return ot_node_fail(n, err, "input %d is %s %s and input 0 %s %s; only axis %d may differ", i,
                                ot_dtype_name(x->dtype), ot_shape_text(&x->shape, a), ot_dtype_name(n->in[0]->dtype),
                                ot_shape_text(&n->in[0]->shape, c), axis);
        }
        if (!ot_add(y.dim[axis], x->shape.dim[axis], &y.dim[axis]))
            return ot_node_fail(n, err, "the result is too large");
    }
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void concat_lower(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_shape *y = &n->out[0]->shape;
    int axis;
    int64_t at = 0;
    ot_piece *p = ot_pieces(b, n->n_in);
    ot_axis(((const concat_attrs *)n->attrs)->axis, y->rank, &axis);
    for (int i = 0; p && i < n->n_in; i++) {
        static const int64_t one[OT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 }, zero[OT_MAX_RANK];
        const ot_shape *x = &n->in[i]->shape;
        ot_piece_box(&p[i], x, zero, one, x->dim);
        p[i].in = i;
        p[i].dst[axis] = at;
        at += x->dim[axis];
    }
    ot_yield(b, 0, ot_copy_emit(b, y, 0, p, n->n_in, n->in, n->n_in));
}

static bool concat_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    int along_axis, lead = ot_batch_leader(b, n);
    if (n->in[lead]->mark == OT_ALONE || !ot_axis(ot_attr_get(n, "axis", 0), own[0].rank, &along_axis)) return false;
    int axis = ot_batch_axis(n->in[lead]);
    bool as_is = axis != along_axis;
    for (int i = 0; i < n->n_in; i++)
        if (!(r->in[i] = as_is ? ot_batch_spread(b, n->in[i], axis) : ot_batch_full(b, n->in[i]))) return false;
    if (as_is) return ot_batch_on(r, n, axis);
    ot_attr_set(n->op, r->attrs, "axis", along_axis + 1);
    return ot_batch_explicit(r, 0);
}

const ot_op ot_op_Concat = {
    .name = "Concat",
    .types = { "T", .T = OT_SET_COMMON },
    .slots = "j",
    .since = 13,
    .in = { 1, OT_VARIADIC },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = concat_rows,
    .attr_size = sizeof(concat_attrs),
    .infer = concat_infer,
    .lower = concat_lower,
    .flags = OT_MOVES,
    .half = OT_HALF_FOLLOWS,
    .batch = concat_batch,
};
