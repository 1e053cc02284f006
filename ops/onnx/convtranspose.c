/* convtranspose.c - ConvTranspose: transposed convolution, the input gradient of a convolution.
 *
 * Spec    ai.onnx ConvTranspose 1, 11, 22: 1 to 3 spatial axes; output_shape overrides pads.
 * Shapes  x: (N, C, i1..id)  w: (C, M/group, k1..kd)  b: (M), optional  y: (N, M, o1..od)
 *         oj = stride (ij - 1) + output_padding + (kj - 1) dilation + 1 - pad_lo - pad_hi
 * Grad    of its kernel, ConvolveDx (convolve.c) */
#include "ops/kernels/convolve.h"
#include "ops/kernels/map.h"
#include "ops/onnx/batching.h"

typedef struct ot_conv_transpose {
    ot_window_attrs window;
    int64_t group;
    ot_ints output_padding, output_shape;
} ot_conv_transpose;

#define AT(field) offsetof(ot_conv_transpose, field)
static const ot_attr attrs[] = {
    { "auto_pad", OT_ENUM, AT(window.auto_pad), OT_PAD_NOTSET, ot_auto_pads },
    { "dilations", OT_INTS, AT(window.dilations), 0, NULL },
    { "group", OT_INT, AT(group), 1, NULL },
    { "kernel_shape", OT_INTS, AT(window.kernel), 0, NULL },
    { "output_padding", OT_INTS, AT(output_padding), 0, NULL },
    { "output_shape", OT_INTS, AT(output_shape), 0, NULL },
    { "pads", OT_INTS, AT(window.pads), 0, NULL },
    { "strides", OT_INTS, AT(window.strides), 0, NULL },
    { 0 },
};
#undef AT

/* Pads and extent of output axis j, whose input has `in` elements. */
static ot_status resolve_axis(const ot_node *n, int j, int64_t in, ot_window *w, int64_t *out, ot_error *err)
{
    const ot_conv_transpose *a = n->attrs;
    int64_t extra = a->output_padding.n ? a->output_padding.v[j] : 0, nd = w->nd;
    if (in < 1 || in >= (int64_t)1 << 31 || extra < 0 || extra >= (int64_t)1 << 31)
        return ot_node_fail(n, err, "spatial axis %d has %lld elements and output padding %lld", j, (long long)in,
                            (long long)extra);
    int64_t full = w->stride[j] * (in - 1) + (w->kernel[j] - 1) * w->dilation[j] + 1;
    bool same = a->window.auto_pad == OT_PAD_SAME_UPPER || a->window.auto_pad == OT_PAD_SAME_LOWER;
    if (a->output_shape.n || same) {
        *out = a->output_shape.n ? a->output_shape.v[a->output_shape.n - nd + j] : in * w->stride[j];
        if (*out < 1 || *out >= (int64_t)1 << 31)
            return ot_node_fail(n, err, "invalid output_shape value %lld", (long long)*out);
        int64_t total = full + extra - *out;
        if (total < 0) total = 0;
        w->pad_lo[j] = a->window.auto_pad == OT_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    } else {
        int64_t hi = a->window.auto_pad == OT_PAD_NOTSET && a->window.pads.n ? a->window.pads.v[nd + j] : 0;
        w->pad_lo[j] = a->window.auto_pad == OT_PAD_NOTSET && a->window.pads.n ? a->window.pads.v[j] : 0;
        *out = full + extra - w->pad_lo[j] - hi;
        if (*out < 1)
            return ot_node_fail(n, err, "pads leave nothing of spatial axis %d: %lld elements", j, (long long)*out);
    }
    /* The extra padding that makes the convolution from y to x exact; negative if its windows skip rows of y. */
    w->pad_hi[j] = full - *out - w->pad_lo[j];
    if (w->pad_hi[j] < 0 && (*out + w->pad_lo[j] - full) / w->stride[j] == 0) w->pad_hi[j] = 0;
    return OT_OK;
}

static ot_status resolve(const ot_node *n, ot_convolve *c, ot_error *err)
{
    const ot_conv_transpose *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape, *w = &n->in[1]->shape;
    int nd = x->rank - 2;
    int64_t M;
    if (x->rank < 3 || w->rank != x->rank)
        return ot_node_fail(n, err, "x has rank %d and w rank %d; both need the same rank, 3 or more", x->rank,
                            w->rank);
    if (w->dim[0] != x->dim[1])
        return ot_node_fail(n, err, "x has %lld channels; w needs %lld", (long long)x->dim[1], (long long)w->dim[0]);
    if (a->group < 1 || x->dim[1] % a->group || !ot_mul(w->dim[1], a->group, &M))
        return ot_node_fail(n, err, "group %lld must divide the %lld channels of x", (long long)a->group,
                            (long long)x->dim[1]);
    if (n->n_in > 2 && n->in[2] && (n->in[2]->shape.rank != 1 || n->in[2]->shape.dim[0] != M))
        return ot_node_fail(n, err, "b must have one value per channel of y, %lld", (long long)M);
    *c = (ot_convolve){ .group = a->group };
    OT_TRY(ot_window_lists(n, &a->window, &w->dim[2], nd, &c->window, err));
    if ((a->output_padding.n && a->output_padding.n != nd) ||
        (a->output_shape.n && a->output_shape.n != nd && a->output_shape.n != nd + 2))
        return ot_node_fail(n, err, "output_padding and output_shape need %d values", nd);
    for (int j = 0; j < a->window.kernel.n; j++)
        if (a->window.kernel.v[j] != w->dim[2 + j])
            return ot_node_fail(n, err, "kernel_shape has %lld, but w has %lld", (long long)a->window.kernel.v[j],
                                (long long)w->dim[2 + j]);
    c->like = (ot_shape){ .rank = x->rank, .dim = { x->dim[0], M } };
    for (int j = 0; j < nd; j++) OT_TRY(resolve_axis(n, j, x->dim[2 + j], &c->window, &c->like.dim[2 + j], err));
    return OT_OK;
}

static ot_status infer(ot_node *n, ot_error *err)
{
    ot_convolve c;
    OT_TRY(resolve(n, &c, err));
    return ot_set(n->out[0], n->in[0]->dtype, &c.like);
}

static void lower(ot_build *b)
{
    const ot_node *n = b->node;
    ot_convolve c;
    if (resolve(n, &c, b->graph->err) != OT_OK) return;
    ot_value *y = ot_emit(b, &ot_op_ConvolveDx, &c, OT_IN(n->in[0], n->in[1]));
    if (n->n_in > 2 && n->in[2]) {
        ot_shape s = { .rank = c.like.rank };
        for (int d = 0; d < s.rank; d++) s.dim[d] = d == 1 ? c.like.dim[1] : 1;
        y = ot_map2(b, OT_FN_Add, 0, 0, y, ot_view(b, n->in[2], &s));
    }
    ot_yield(b, 0, y);
}

const ot_op ot_op_ConvTranspose = {
    .name = "ConvTranspose",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-WB",
    .since = 22,
    .in = { 2, 3 },
    .out = { 1, 1 },
    .rank = OT_RANK_FILTERS,
    .attrs = attrs,
    .attr_size = sizeof(ot_conv_transpose),
    .infer = infer,
    .lower = lower,
    .flags = OT_PRODUCT,
    .half = OT_HALF_PRODUCT,
    .batch = ot_batch_first,
};
