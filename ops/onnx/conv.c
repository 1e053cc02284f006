/* conv.c - Conv: ONNX's convolution.
 *
 * Spec    ai.onnx Conv 1, 11, 22: 1 to 3 spatial axes.
 * Shapes  x: (N, C, i1..id)  w: (M, C/group, k1..kd)  b: (M), optional  y: (N, M, o1..od)  (convolve.c) */
#include "ops/kernels/convolve.h"
#include "ops/onnx/batching.h"

#define AT(field) offsetof(ot_conv, field)
const ot_attr ot_conv_rows[] = {
    { "auto_pad", OT_ENUM, AT(window.auto_pad), OT_PAD_NOTSET, ot_auto_pads },
    { "dilations", OT_INTS, AT(window.dilations), 0, NULL },
    { "group", OT_INT, AT(group), 1, NULL },
    { "kernel_shape", OT_INTS, AT(window.kernel), 0, NULL },
    { "pads", OT_INTS, AT(window.pads), 0, NULL },
    { "strides", OT_INTS, AT(window.strides), 0, NULL },
    { 0 },
};
#undef AT

ot_status ot_conv_resolve(const ot_node *n, ot_convolve *c, ot_shape *y, ot_error *err)
{
    const ot_conv *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape, *w = &n->in[1]->shape;
    int64_t want;
    if (x->rank < 3 || w->rank != x->rank)
        return ot_node_fail(n, err, "x has rank %d and w rank %d; both need the same rank, 3 or more", x->rank,
                            w->rank);
    if (a->group < 1 || w->dim[0] % a->group)
        return ot_node_fail(n, err, "w has %lld filters; group %lld must divide them", (long long)w->dim[0],
                            (long long)a->group);
    if (!ot_mul(w->dim[1], a->group, &want) || x->dim[1] != want)
        return ot_node_fail(n, err, "x has %lld channels; w with group %lld needs %lld", (long long)x->dim[1],
                            (long long)a->group, (long long)want);
    *c = (ot_convolve){ .group = a->group };
    *y = (ot_shape){ .rank = x->rank, .dim = { x->dim[0], w->dim[0] } };
    OT_TRY(ot_window_resolve(n, &a->window, &w->dim[2], x, &c->window, &y->dim[2], err));
    for (int j = 0; j < a->window.kernel.n; j++)
        if (a->window.kernel.v[j] != w->dim[2 + j])
            return ot_node_fail(n, err, "kernel_shape has %lld, but w has %lld", (long long)a->window.kernel.v[j],
                                (long long)w->dim[2 + j]);
    return OT_OK;
}

static ot_status conv_infer(ot_node *n, ot_error *err)
{
    ot_convolve c;
    ot_shape y;
    OT_TRY(ot_conv_resolve(n, &c, &y, err));
    if (n->n_in > 2 && n->in[2] && (n->in[2]->shape.rank != 1 || n->in[2]->shape.dim[0] != y.dim[1]))
        return ot_node_fail(n, err, "b must have one value per filter, %lld", (long long)y.dim[1]);
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void conv_lower(ot_build *b)
{
    ot_convolve c;
    ot_shape y;
    if (ot_conv_resolve(b->node, &c, &y, b->graph->err) == OT_OK)
        ot_yield(b, 0, ot_emit(b, &ot_op_Convolve, &c, b->node->in, b->node->n_in));
}

const ot_op ot_op_Conv = {
    .name = "Conv",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-WB",
    .since = 22,
    .in = { 2, 3 },
    .out = { 1, 1 },
    .rank = OT_RANK_FILTERS,
    .attrs = ot_conv_rows,
    .attr_size = sizeof(ot_conv),
    .infer = conv_infer,
    .lower = conv_lower,
    .flags = OT_PRODUCT,
    .half = OT_HALF_PRODUCT,
    .batch = ot_batch_first,
};
