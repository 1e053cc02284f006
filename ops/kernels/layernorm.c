/* layernorm.c - LayerNorm: normalises rows of trailing axes with their own mean and deviation.
 *
 * Shapes    layernorm.h
 * Grad      xh = (x - mean) invstd, g = dy scale, means over the row:
 *           dx = invstd (g - mean(g) - xh mean(g xh)); center off: without mean(g)
 *           dscale = sum over rows of dy xh   dbias = sum over rows of dy
 * Numerics  deviations are squared after the mean is known; f64 in the reference */
#include "ops/kernels/map.h"
#include "ops/kernels/layernorm.h"

static ot_dtype wide(ot_dtype t) { return t == OT_F64 ? OT_F64 : OT_F32; }

/* One per row: x's shape with ones from `axis` on. */
static ot_shape per_row(const ot_shape *x, int64_t axis)
{
    ot_shape s = *x;
    for (int d = (int)axis; d < s.rank; d++) s.dim[d] = 1;
    return s;
}

static int64_t row_length(const ot_shape *x, int64_t axis)
{
    int64_t n = 1;
    for (int d = (int)axis; d < x->rank; d++) n *= x->dim[d];
    return n;
}

bool ot_layer_norm_covers(const ot_value *v, const ot_shape *x, int64_t axis)
{
    if (v->shape.rank < x->rank - axis || v->shape.rank > x->rank) return false;
    for (int d = x->rank - 1, e = v->shape.rank - 1; e >= 0; d--, e--)
        if (v->shape.dim[e] != (d >= axis ? x->dim[d] : 1)) return false;
    return true;
}

static ot_status norm_infer(ot_node *n, ot_error *err)
{
    const ot_layer_norm *a = n->attrs;
    const ot_value *x = n->in[0];
    ot_shape row = per_row(&x->shape, a->axis);
    int64_t D = row_length(&x->shape, a->axis);
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && ot_numel(&n->in[i]->shape) != D)
            return ot_node_fail(n, err, "input %d has %lld elements; a row has %lld", i,
                                (long long)ot_numel(&n->in[i]->shape), (long long)D);
    for (int i = 1; i < n->n_out; i++) ot_set(n->out[i], wide(x->dtype), &row);
    return ot_like(n->out[0], x);
}

static ot_status dx_infer(ot_node *n, ot_error *err)
{
    (void)err;
    const ot_layer_norm *a = n->attrs;
    const ot_value *x = n->in[1];
    ot_shape s = { .rank = 1, .dim = { row_length(&x->shape, a->axis) } };
    ot_dtype t = n->n_in > 4 && n->in[4] ? n->in[4]->dtype : x->dtype;
    for (int i = 1; i < n->n_out; i++) ot_set(n->out[i], t, &s);
    return ot_like(n->out[0], x);
}

static ot_value *mul(ot_build *b, ot_value *x, ot_value *y) { return ot_map2(b, OT_FN_Mul, 0, 0, x, y); }

/* The gradient of x through mean and invstd: dmean / D, and -dinvstd invstd^3 (x - mean) / D. */
static ot_value *statistics_grad(ot_build *b, ot_value *dx)
{
    const ot_node *n = b->node;
    ot_value *x = n->in[0], *mean = n->out[1], *inv = n->out[2], *dmean = ot_dout(b, 1), *dinv = ot_dout(b, 2),
             *d = NULL;
    if ((!dmean && !dinv) || !dx) return dx;
    ot_dtype t = mean->dtype;
    double D = (double)row_length(&x->shape, ((const ot_layer_norm *)n->attrs)->axis);
    if (dmean && ((const ot_layer_norm *)n->attrs)->center) d = dmean;
    if (dinv) {
        ot_value *cube = mul(b, ot_map1(b, OT_FN_Cube, 0, 0, inv), mul(b, dinv, ot_scalar(b, t, -1)));
        ot_value *away = mul(b, cube, ot_map2(b, OT_FN_Sub, 0, 0, ot_cast(b, x, t), mean));
        d = d ? ot_map2(b, OT_FN_Add, 0, 0, away, d) : away;
    }
    if (!d) return dx;
    return ot_map2(b, OT_FN_Add, 0, 0, dx, ot_cast(b, mul(b, d, ot_scalar(b, t, 1 / D)), x->dtype));
}

static void norm_grad(ot_build *b)
{
    const ot_node *n = b->node;
    ot_value *scale = ot_node_in(n, 1), *dy = ot_dout(b, 0);
    if (!dy) { /* only the statistics are used */
        if (ot_wants(b, 0))
            ot_set_din(b, 0, statistics_grad(b, ot_expand(b, ot_scalar(b, n->in[0]->dtype, 0), &n->in[0]->shape)));
        return;
    }
    ot_value *in[5] = { dy, n->in[0], n->out[1], n->out[2], scale };
    ot_node *d = ot_emit_n(b, &ot_op_LayerNormDx, n->attrs, in, scale ? 5 : 4, 3);
    if (!d) return;
    if (ot_wants(b, 0)) ot_set_din(b, 0, statistics_grad(b, d->out[0]));
    if (ot_wants(b, 1)) ot_set_din(b, 1, ot_view(b, d->out[1], &n->in[1]->shape));
    if (ot_wants(b, 2)) ot_set_din(b, 2, ot_view(b, d->out[2], &n->in[2]->shape));
}

static void words(FILE *f, const void *attrs)
{
    const ot_layer_norm *a = attrs;
    fprintf(f, " axis %lld%s", (long long)a->axis, a->center ? " centered" : "");
}

const ot_op ot_op_LayerNorm = {
    .name = "LayerNorm",
    .types = { "TUU", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT },
    .in = { 1, 3 },
    .out = { 3, 3 },
    .flops_each = 7,
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_layer_norm),
    .infer = norm_infer,
    .grad = norm_grad,
    .half = OT_HALF_NORM,
    .words = words,
};

const ot_op ot_op_LayerNormDx = {
    .name = "LayerNormDx",
    .types = { "TTWWU", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT },
    .in = { 4, 5 },
    .out = { 3, 3 },
    .flops_each = 12,
    .flags = OT_INTERNAL | OT_FUSES,
    .attr_size = sizeof(ot_layer_norm),
    .infer = dx_infer,
    .words = words,
};
