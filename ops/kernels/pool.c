/* pool.c - PoolMax, PoolAvg and their gradients.
 *
 * Shapes  x: (N, C, i1..id)  y: (N, C, o1..od)
 * Grad    of the maximum: to the first element that attains it; of the average: to every counted element, in equal
 *         parts. */
#include "ops/kernels/pool.h"

int64_t ot_pool_window(const ot_window *w)
{
    int64_t n = 1;
    for (int j = 0; j < w->nd; j++) n *= w->kernel[j];
    return n;
}

static ot_shape pooled(const ot_pool *a, const ot_shape *x)
{
    ot_shape y = *x;
    for (int j = 0; j < a->window.nd; j++) y.dim[2 + j] = a->out[j];
    return y;
}

static ot_status max_infer(ot_node *n, ot_error *err)
{
    (void)err;
    const ot_pool *a = n->attrs;
    ot_shape y = pooled(a, &n->in[0]->shape);
    if (n->n_out > 1) ot_set(n->out[1], ot_pool_window(&a->window) <= 255 ? OT_U8 : OT_I32, &y);
    if (n->n_out > 2) ot_set(n->out[2], OT_I64, &y);
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static ot_status avg_infer(ot_node *n, ot_error *err)
{
    (void)err;
    ot_shape y = pooled(n->attrs, &n->in[0]->shape);
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static ot_status dx_infer(ot_node *n, ot_error *err)
{
    (void)err;
    return ot_set(n->out[0], n->in[0]->dtype, &((const ot_pool *)n->attrs)->like);
}

static void max_grad(ot_build *b)
{
    ot_pool a = *(const ot_pool *)b->node->attrs;
    a.like = b->node->in[0]->shape;
    if (ot_wants(b, 0) && ot_dout(b, 0))
        ot_set_din(b, 0, ot_emit(b, &ot_op_PoolMaxDx, &a, OT_IN(ot_dout(b, 0), b->node->out[1])));
}

static void avg_grad(ot_build *b)
{
    ot_pool a = *(const ot_pool *)b->node->attrs;
    a.like = b->node->in[0]->shape;
    if (ot_wants(b, 0)) ot_set_din(b, 0, ot_emit(b, &ot_op_PoolAvgDx, &a, OT_IN(ot_dout(b, 0))));
}

static void avg_dx_grad(ot_build *b) /* linear: its gradient is the average of g */
{
    if (ot_wants(b, 0)) ot_set_din(b, 0, ot_emit(b, &ot_op_PoolAvg, b->node->attrs, OT_IN(ot_dout(b, 0))));
}

static int64_t inner(const ot_node *n) { return ot_pool_window(&((const ot_pool *)n->attrs)->window); }

static void words(FILE *f, const void *attrs)
{
    const ot_pool *a = attrs;
    ot_window_words(f, &a->window);
    fprintf(f, "%s%s", a->include_pad ? " pads" : "", a->column_major ? " columns" : "");
}

const ot_op ot_op_PoolMax = {
    .name = "PoolMax",
    .types = { "T", .T = OT_SET_NUMBER },
    .in = { 1, 1 },
    .out = { 2, 3 },
    .flags = OT_INTERNAL | OT_FUSES,
    .attr_size = sizeof(ot_pool),
    .infer = max_infer,
    .grad = max_grad,
    .half = OT_HALF_FOLLOWS,
    .inner = inner,
    .words = words,
};

const ot_op ot_op_PoolMaxDx = {
    .name = "PoolMaxDx",
    .types = { "TU", .T = OT_SET_NUMBER, .U = OT_TYPE(OT_U8) | OT_TYPE(OT_I32) },
    .in = { 2, 2 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL | OT_FUSES,
    .nondiff = 1u << 1,
    .attr_size = sizeof(ot_pool),
    .infer = dx_infer,
    .words = words,
};

const ot_op ot_op_PoolAvg = {
    .name = "PoolAvg",
    .types = { "T", .T = OT_SET_NUMBER },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_pool),
    .infer = avg_infer,
    .grad = avg_grad,
    .half = OT_HALF_FOLLOWS,
    .inner = inner,
    .words = words,
};

const ot_op ot_op_PoolAvgDx = {
    .name = "PoolAvgDx",
    .types = { "T", .T = OT_SET_NUMBER },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_pool),
    .infer = dx_infer,
    .grad = avg_dx_grad,
    .words = words,
};
