/* maxunpool.c - MaxUnpool: puts maxima back at the positions that MaxPool returned, zeros elsewhere.
 *
 * Spec    ai.onnx MaxUnpool 9, 11, 22.  With output_shape, which must be constant, the indices still refer to the shape
 *         computed from kernel, strides and pads, which is placed at the start of the result, as in the standard's
 *         reference implementation.
 * Shapes  x, indices: (N, C, i1..id)   y: (N, C, (i-1) * stride - pads + k ..) or output_shape
 * Grad    dx = dy at the indices (each of several for one element, of which the last is written). */
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/window.h"

static const ot_attr attrs[] = {
    { "kernel_shape", OT_INTS, offsetof(ot_window_attrs, kernel), OT_REQUIRED, NULL },
    { "pads", OT_INTS, offsetof(ot_window_attrs, pads), 0, NULL },
    { "strides", OT_INTS, offsetof(ot_window_attrs, strides), 0, NULL },
    { 0 },
};

/* inner: the shape that the indices refer to. */
static ot_status resolve(const ot_node *n, ot_shape *inner, ot_shape *y, ot_error *err)
{
    const ot_window_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    int nd = x->rank - 2;
    ot_window w;
    if (!ot_shape_eq(x, &n->in[1]->shape)) return ot_node_fail(n, err, "the indices must have the shape of x");
    if (nd < 1 || a->kernel.n != nd)
        return ot_node_fail(n, err, "kernel_shape has %d values; x has %d spatial axes", a->kernel.n, nd);
    OT_TRY(ot_window_lists(n, a, a->kernel.v, nd, &w, err));
    *inner = (ot_shape){ .rank = x->rank, .dim = { x->dim[0], x->dim[1] } };
    for (int j = 0; j < nd; j++) {
        int64_t size = w.kernel[j] - (a->pads.n ? a->pads.v[j] + a->pads.v[nd + j] : 0), span;
        if (!ot_mul(x->dim[2 + j] - 1, w.stride[j], &span) || !ot_add(size, span, &size) || size < 0)
            return ot_node_fail(n, err, "spatial axis %d has an invalid size", j);
        inner->dim[2 + j] = size;
    }
    *y = *inner;
    if (n->n_in > 2 && n->in[2]) OT_TRY(ot_shape_input(n, 2, y, err));
    bool fits = y->rank == inner->rank;
    for (int d = 0; fits && d < y->rank; d++) fits = d < 2 ? y->dim[d] == inner->dim[d] : y->dim[d] >= inner->dim[d];
    if (!fits) {
        char s[128], t[128];
        return ot_node_fail(n, err, "output_shape is %s, but the indices are for %s", ot_shape_text(y, s),
                            ot_shape_text(inner, t));
    }
    if (!ot_shape_fits(y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return ot_index_check(n, 1, 0, 1, 0, ot_numel(inner) - 1, err);
}

static ot_status maxunpool_infer(ot_node *n, ot_error *err)
{
    ot_shape inner, y;
    OT_TRY(resolve(n, &inner, &y, err));
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void maxunpool_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    ot_shape inner, y;
    int64_t start[OT_MAX_RANK] = { 0 }, one[OT_MAX_RANK];
    if (resolve(b->node, &inner, &y, b->graph->err) != OT_OK) return;
    int64_t m = ot_numel(&x->shape), total = ot_numel(&inner);
    ot_value *zeros = ot_expand(b, ot_scalar(b, x->dtype, 0), &(ot_shape){ .rank = 2, .dim = { total, 1 } });
    ot_value *place =
        total ? ot_counts(b, ot_view(b, b->node->in[1], &(ot_shape){ .rank = 1, .dim = { m } }), total - 1) : NULL;
    ot_value *v = zeros;
    if (place)
        v = ot_emit(b, &ot_op_Scatter, &(ot_scatter){ OT_SCATTER_NONE },
                    OT_IN(zeros, place, ot_view(b, x, &(ot_shape){ .rank = 2, .dim = { m, 1 } })));
    v = ot_view(b, v, &inner);
    ot_piece *p = ot_pieces(b, 1);
    if (!p) return;
    for (int d = 0; d < inner.rank; d++) one[d] = 1;
    ot_piece_box(p, &inner, start, one, inner.dim);
    ot_yield(b, 0, ot_shape_eq(&inner, &y) ? v : ot_copy_emit(b, &y, 0, p, 1, &v, 1));
}

const ot_op ot_op_MaxUnpool = {
    .name = "MaxUnpool",
    .types = { "Tii", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 2, 3 },
    .out = { 1, 1 },
    .nondiff = 6,
    .attrs = attrs,
    .attr_size = sizeof(ot_window_attrs),
    .infer = maxunpool_infer,
    .lower = maxunpool_lower,
};
