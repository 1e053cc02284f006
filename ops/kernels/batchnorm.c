/* batchnorm.c - BatchNorm: normalises a batch per channel with its own statistics; and the gradient.
 *
 * Shapes    x, y: (N, C, ...), rank 2 or more   scale, bias, mean, var, invstd: (C)
 * Grad      xh = (x - mean) invstd over the m elements of a channel:
 *           dbias = sum dy   dscale = sum dy xh   dx = scale invstd (dy - dbias/m - xh dscale/m)
 * Numerics  two passes over x: mean, then squares of deviations; partial sums are f64. */
#include "ops/kernels/batchnorm.h"
#include "ops/kernels/map.h"

static ot_status per_channel(const ot_node *n, int first, int last, const ot_shape *x, ot_error *err)
{
    for (int i = first; i <= last; i++) {
        const ot_shape *s = &n->in[i]->shape;
        if (s->rank != 1 || s->dim[0] != x->dim[1])
            return ot_node_fail(n, err, "input %d must have one value per channel, %lld", i, (long long)x->dim[1]);
    }
    return OT_OK;
}

static ot_status norm_infer(ot_node *n, ot_error *err)
{
    const ot_value *x = n->in[0];
    if (x->shape.rank < 2) return ot_node_fail(n, err, "x has rank %d; expected 2 or more", x->shape.rank);
    OT_TRY(per_channel(n, 1, 2, &x->shape, err));
    for (int i = 1; i < n->n_out; i++) ot_like(n->out[i], n->in[1]);
    return ot_like(n->out[0], x);
}

static ot_status dx_infer(ot_node *n, ot_error *err)
{
    OT_TRY(per_channel(n, 2, 4, &n->in[1]->shape, err));
    for (int i = 1; i < n->n_out; i++) ot_like(n->out[i], n->in[2]);
    return ot_like(n->out[0], n->in[1]);
}

/* dL/dmean and dL/dvar contribute to dx: mean = sum x / m, var = sum (x - mean)^2 / m. */
static ot_value *statistics_grad(ot_build *b, ot_value *dx)
{
    ot_value *x = b->node->in[0], *dmean = ot_dout(b, 1), *dvar = ot_dout(b, 2);
    if ((!dmean && !dvar) || !dx) return dx;
    ot_shape s = { .rank = x->shape.rank };
    for (int d = 0; d < s.rank; d++) s.dim[d] = d == 1 ? x->shape.dim[1] : 1;
    double m = (double)ot_numel(&x->shape) / (double)x->shape.dim[1];
    ot_value *scale = ot_scalar(b, x->dtype, 1 / m), *d = NULL;
    if (dmean) d = ot_view(b, ot_cast(b, dmean, x->dtype), &s);
    if (dvar) {
        ot_value *away = ot_map2(b, OT_FN_Sub, 0, 0, x, ot_view(b, ot_cast(b, b->node->out[1], x->dtype), &s));
        ot_value *twice =
            ot_map2(b, OT_FN_Mul, 0, 0, ot_scalar(b, x->dtype, 2), ot_view(b, ot_cast(b, dvar, x->dtype), &s));
        ot_value *v = ot_map2(b, OT_FN_Mul, 0, 0, away, twice);
        d = d ? ot_map2(b, OT_FN_Add, 0, 0, v, d) : v;
    }
    return ot_map2(b, OT_FN_Add, 0, 0, dx, ot_map2(b, OT_FN_Mul, 0, 0, d, scale));
}

static void norm_grad(ot_build *b)
{
    const ot_node *n = b->node;
    ot_value *dy = ot_dout(b, 0);
    if (!dy) { /* only the statistics are used */
        ot_value *zero = ot_expand(b, ot_scalar(b, n->in[0]->dtype, 0), &n->in[0]->shape);
        ot_set_din(b, 0, statistics_grad(b, zero));
        return;
    }
    ot_node *d = ot_emit_n(b, &ot_op_BatchNormDx, n->attrs, OT_IN(dy, n->in[0], n->in[1], n->out[1], n->out[3]), 3);
    if (!d) return;
    if (ot_wants(b, 0)) ot_set_din(b, 0, statistics_grad(b, d->out[0]));
    if (ot_wants(b, 1)) ot_set_din(b, 1, d->out[1]);
    if (ot_wants(b, 2)) ot_set_din(b, 2, d->out[2]);
}

static void words(FILE *f, const void *attrs) { (void)f, (void)attrs; }

const ot_op ot_op_BatchNorm = {
    .name = "BatchNorm",
    .types = { "TUU", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT },
    .in = { 3, 3 },
    .out = { 4, 4 },
    .flops_each = 7,
    .flags = OT_INTERNAL | OT_FUSES,
    .attr_size = sizeof(ot_batch_norm),
    .infer = norm_infer,
    .grad = norm_grad,
    .half = OT_HALF_NORM,
    .words = words,
};

const ot_op ot_op_BatchNormDx = {
    .name = "BatchNormDx",
    .types = { "TTUUU", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT },
    .in = { 5, 5 },
    .out = { 3, 3 },
    .flops_each = 10,
    .flags = OT_INTERNAL | OT_FUSES,
    .attr_size = sizeof(ot_batch_norm),
    .infer = dx_infer,
    .words = words,
};
