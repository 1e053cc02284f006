/* cumprod.c - CumProd: cumulative products along an axis.
 *
 * Spec      ai.onnx CumProd 26.  axis must be constant.
 * Shapes    y: that of x
 * Grad      of products, correct also where elements are zero.  Each round multiplies by the element 1, 2, 4, ...
 *           positions before.
 * Numerics  float16 and bfloat16 are multiplied in float32. */
#include "ops/kernels/arith.h"
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct cumprod_attrs {
    int64_t exclusive, reverse;
} cumprod_attrs;

static const ot_attr cumprod_rows[] = {
    { "exclusive", OT_INT, offsetof(cumprod_attrs, exclusive), 0, NULL },
    { "reverse", OT_INT, offsetof(cumprod_attrs, reverse), 0, NULL },
    { 0 },
};

static ot_status cumprod_infer(ot_node *n, ot_error *err)
{
    int64_t set;
    ot_ints axis;
    OT_TRY(ot_axes_input(n, 1, n->in[0]->shape.rank, &set, &axis, err));
    if (axis.n != 1) return ot_node_fail(n, err, "%d axes, expected 1", axis.n);
    return ot_like(n->out[0], n->in[0]);
}

/* Shifts every element by `by` positions along the axis, shifting in ones. */
static ot_value *shift(ot_build *b, ot_value *x, int axis, int64_t by, bool back)
{
    int64_t start[OT_MAX_RANK] = { 0 }, one[OT_MAX_RANK], extent[OT_MAX_RANK];
    ot_piece *p = ot_pieces(b, 1);
    if (!p || ot_broken(b)) return NULL;
    for (int d = 0; d < x->shape.rank; d++) {
        one[d] = 1;
        extent[d] = x->shape.dim[d] - (d == axis ? by : 0);
    }
    if (back) start[axis] = by < x->shape.dim[axis] ? by : 0;
    ot_piece_box(p, &x->shape, start, one, extent);
    if (!back) p->dst[axis] = by;
    return ot_copy_emit(b, &x->shape, 1, p, 1, &x, 1);
}

static void cumprod_lower(ot_build *b)
{
    const cumprod_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0];
    ot_dtype t = x->dtype;
    bool back = a->reverse != 0;
    ot_ints axis;
    int d = 0;
    if (ot_const_ints(b->node, 1, &axis, b->graph->err) != OT_OK) return;
    ot_axis(axis.v[0], x->shape.rank, &d);
    int64_t n = x->shape.dim[d];
    if (t == OT_F16 || t == OT_BF16) x = ot_cast(b, x, OT_F32);
    if (a->exclusive && n > 0) x = shift(b, x, d, 1, back);
    for (int64_t by = 1; by < n; by *= 2) x = ot_times(b, x, shift(b, x, d, by, back));
    ot_yield(b, 0, ot_cast(b, x, t));
}

const ot_op ot_op_CumProd = {
    .name = "CumProd",
    .types = { "Tx", .T = OT_SET_WIDE },
    .slots = "-",
    .since = 26,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = cumprod_rows,
    .attr_size = sizeof(cumprod_attrs),
    .infer = cumprod_infer,
    .lower = cumprod_lower,
    .batch = ot_batch_cumulated,
};
