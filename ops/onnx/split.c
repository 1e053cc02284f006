/* split.c - Split: splits a tensor into parts along an axis.
 *
 * Spec    ai.onnx Split 13, 18.  Sizes come from its input, else from num_outputs (the last part is the smaller one),
 *         else the parts are equal.
 * Grad    of Copy */
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct split_attrs {
    int64_t axis, num_outputs;
} split_attrs;

#define LEFT_OUT (-0x1p62)

static const ot_attr split_rows[] = {
    { "axis", OT_INT, offsetof(split_attrs, axis), 0, NULL },
    { "num_outputs", OT_INT, offsetof(split_attrs, num_outputs), LEFT_OUT, NULL },
    { 0 },
};

static ot_status split_infer(ot_node *n, ot_error *err)
{
    const split_attrs *a = n->attrs;
    ot_shape y = n->in[0]->shape;
    ot_ints sizes;
    int axis;
    int64_t at = 0;
    OT_TRY(ot_node_axis(n, a->axis, y.rank, &axis, err));
    int64_t total = y.dim[axis], parts = n->n_out;
    bool given = n->n_in > 1 && n->in[1];
    OT_TRY(ot_const_ints(n, 1, &sizes, err));
    if (given && sizes.n != parts) return ot_node_fail(n, err, "%d sizes for %lld outputs", sizes.n, (long long)parts);
    bool equal = a->num_outputs == (int64_t)LEFT_OUT;
    if (!given && !equal && a->num_outputs != parts)
        return ot_node_fail(n, err, "num_outputs is %lld; there are %lld outputs", (long long)a->num_outputs,
                            (long long)parts);
    if (!given && equal && total % parts)
        return ot_node_fail(n, err, "axis %d has %lld elements, which cannot be divided into %lld equal parts", axis,
                            (long long)total, (long long)parts);
    int64_t each = total / parts + (total % parts != 0);
    for (int i = 0; i < parts; i++) {
        int64_t size = given ? sizes.v[i] : total - at < each ? total - at : each;
        if (size < 0 || size > total - at)
            return ot_node_fail(n, err, "part %d has %lld elements; %lld of axis %d are left", i, (long long)size,
                                (long long)(total - at), axis);
        at += size;
        y.dim[axis] = size;
        if (n->out[i]) ot_set(n->out[i], n->in[0]->dtype, &y);
    }
    if (at != total)
        return ot_node_fail(n, err, "the parts have %lld elements; axis %d has %lld", (long long)at, axis,
                            (long long)total);
    return OT_OK;
}

static void split_lower(ot_build *b)
{
    static const int64_t one[OT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    const ot_node *n = b->node;
    int64_t start[OT_MAX_RANK] = { 0 }, each = 0;
    ot_ints sizes = { 0, NULL };
    int axis;
    ot_axis(((const split_attrs *)n->attrs)->axis, n->in[0]->shape.rank, &axis);
    if (ot_const_ints(n, 1, &sizes, b->graph->err) != OT_OK) return;
    int64_t total = n->in[0]->shape.dim[axis];
    each = total / n->n_out + (total % n->n_out != 0);
    for (int i = 0; i < n->n_out; i++) {
        int64_t left = total - start[axis], size = sizes.n ? sizes.v[i] : left < each ? left : each;
        if (n->out[i]) {
            ot_piece *p = ot_pieces(b, 1);
            if (!p) return;
            ot_piece_box(p, &n->in[0]->shape, start, one, n->out[i]->shape.dim);
            ot_yield(b, i, ot_copy_emit(b, &n->out[i]->shape, 0, p, 1, n->in, 1));
        }
        start[axis] += size;
    }
}

const ot_op ot_op_Split = {
    .name = "Split",
    .types = { "Ti", .T = OT_SET_COMMON },
    .slots = ">-",
    .since = 18,
    .in = { 1, 2 },
    .out = { 1, OT_VARIADIC },
    .nondiff = 1u << 1,
    .attrs = split_rows,
    .attr_size = sizeof(split_attrs),
    .infer = split_infer,
    .lower = split_lower,
    .flags = OT_MOVES,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_by_axis,
};
