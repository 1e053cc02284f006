/* reduce.c - Reduce: sum, maximum, minimum or product over a set of axes.
 *
 * Shapes  x: any (with a program: any that broadcast)   y: x without the axes of attrs.axes, or with 1 there
 * Grad    sum: g repeated.  sumsq: 2 g x.  max, min: g in equal parts to every element equal to the result (as
 *         PyTorch's amax).  prod: g times the product of the others, also where some are zero.  Programs are added
 *         after autodiff. */
#include "ops/kernels/reduce.h"

void ot_reduce_x(const ot_node *n, ot_shape *shape, ot_dtype *t)
{
    const ot_program *p = ((const ot_reduce *)n->attrs)->program;
    *shape = n->in[0]->shape;
    *t = p ? (ot_dtype)(p->out_dtype[0] & ~OT_MAP_NO_SATURATE) : n->in[0]->dtype;
    for (int i = 1; i < n->n_in; i++) ot_broadcast(shape, &n->in[i]->shape, shape);
}

static ot_status reduce_infer(ot_node *n, ot_error *err)
{
    const ot_reduce *a = n->attrs;
    ot_shape x, y = { .rank = 0 };
    ot_dtype t;
    if (a->program ? n->n_in != a->program->n_in || a->program->n_out != 1 : n->n_in != 1)
        return ot_node_fail(n, err, "%d inputs do not match the program", n->n_in);
    ot_reduce_x(n, &x, &t);
    if (!ot_dtype_bits(t)) return ot_node_fail(n, err, "%s cannot be reduced", ot_dtype_name(t));
    for (int d = 0; d < x.rank; d++) {
        bool gone = a->axes >> d & 1;
        if (!gone || a->keepdims) y.dim[y.rank++] = gone ? 1 : x.dim[d];
    }
    bool wide = a->wide && (t == OT_F16 || t == OT_BF16);
    return ot_set(n->out[0], wide ? OT_F32 : t, &y);
}

static void reduce_grad(ot_build *b)
{
    const ot_reduce *a = b->node->attrs;
    ot_value *x = b->node->in[0], *y = b->node->out[0], *g = ot_dout(b, 0);
    ot_shape kept = x->shape; /* of y with keepdims */
    int64_t axes[OT_MAX_RANK];
    int n = 0;
    for (int d = 0; d < x->shape.rank; d++)
        if (a->axes >> d & 1) {
            axes[n++] = d;
            kept.dim[d] = 1;
        }
    g = ot_view(b, g, &kept);
    if (a->kind == OT_REDUCE_SUM) {
        ot_set_din(b, 0, ot_expand(b, ot_cast(b, g, x->dtype), &x->shape));
    } else if (a->kind == OT_REDUCE_SUMSQ) {
        ot_value *twice = ot_map2(b, OT_FN_Mul, 0, 0, g, ot_scalar(b, x->dtype, 2));
        ot_set_din(b, 0, ot_map2(b, OT_FN_Mul, 0, 0, twice, x));
    } else if (a->kind == OT_REDUCE_PROD) {
        /* With zeros replaced by ones, p = prod(x') and the number of zeros c, the product of the others is p / x'
         * if c equals the element's own share of c, and 0 elsewhere. */
        ot_value *zero = ot_cast(b, ot_map2(b, OT_FN_Equal, 0, 0, x, ot_scalar(b, x->dtype, 0)), x->dtype);
        ot_value *c = ot_sum(b, zero, axes, n, true);
        ot_value *ones = ot_map2(b, OT_FN_Add, 0, 0, x, zero);
        ot_reduce keep = { .kind = OT_REDUCE_PROD, .axes = a->axes, .keepdims = 1 };
        ot_value *p = ot_emit(b, &ot_op_Reduce, &keep, &ones, 1);
        ot_value *others = ot_map2(b, OT_FN_Div, 0, 0, ot_map2(b, OT_FN_Mul, 0, 0, g, p), ones);
        ot_value *alone = ot_cast(b, ot_map2(b, OT_FN_Equal, 0, 0, c, zero), x->dtype);
        ot_set_din(b, 0, ot_map2(b, OT_FN_Mul, 0, 0, others, alone));
    } else {
        ot_value *hit = ot_cast(b, ot_map2(b, OT_FN_Equal, 0, 0, x, ot_view(b, y, &kept)), x->dtype);
        ot_value *share = ot_map2(b, OT_FN_Div, 0, 0, g, ot_sum(b, hit, axes, n, true));
        ot_set_din(b, 0, ot_map2(b, OT_FN_Mul, 0, 0, hit, share));
    }
}

static void words(FILE *f, const void *attrs)
{
    const ot_reduce *a = attrs;
    fprintf(f, " kind %lld axes %llx", (long long)a->kind, (unsigned long long)a->axes);
}

/* ---- short forms ---------------------------------------------------------------- */

ot_value *ot_sum(ot_build *b, ot_value *x, const int64_t *axes, int n, bool keepdims)
{
    if (ot_broken(b)) return NULL;
    ot_reduce a = { .kind = OT_REDUCE_SUM, .keepdims = keepdims };
    for (int i = 0; i < n; i++) a.axes |= (int64_t)1 << axes[i];
    return n ? ot_emit(b, &ot_op_Reduce, &a, OT_IN(x)) : x;
}

ot_value *ot_sum_to(ot_build *b, ot_value *x, const ot_shape *s, bool wide)
{
    if (ot_broken(b) || ot_shape_eq(&x->shape, s)) return ot_broken(b) ? NULL : x;
    ot_reduce a = { .kind = OT_REDUCE_SUM, .keepdims = 1, .wide = wide };
    int lead = x->shape.rank - s->rank;
    for (int d = 0; d < x->shape.rank; d++)
        if (d < lead || s->dim[d - lead] != x->shape.dim[d]) a.axes |= (int64_t)1 << d;
    ot_value *y = a.axes ? ot_emit(b, &ot_op_Reduce, &a, OT_IN(x)) : x;
    return y ? ot_view(b, y, s) : NULL;
}

/* sqrt(s + z) - z with z = (s == 0): the value is the same, and the slope at 0 is finite, so that products with it are 0. */
ot_value *ot_sqrt_of_squares(ot_build *b, ot_value *s)
{
    ot_value *z = ot_cast(b, ot_map2(b, OT_FN_Equal, 0, 0, s, ot_scalar(b, s->dtype, 0)), s->dtype);
    ot_value *r = ot_map1(b, OT_FN_Sqrt, 0, 0, ot_map2(b, OT_FN_Add, 0, 0, s, z));
    return ot_map2(b, OT_FN_Sub, 0, 0, r, z);
}

static double flops(const ot_node *n)
{
    const ot_reduce *a = n->attrs;
    ot_shape x;
    ot_dtype t;
    ot_reduce_x(n, &x, &t);
    int each = 1 + (a->kind == OT_REDUCE_SUMSQ) + (a->program ? a->program->n_inst : 0);
    return each * (double)ot_numel(&x);
}

const ot_op ot_op_Reduce = {
    .name = "Reduce",
    .types = { "n" },
    .in = { 1, OT_MAP_IN },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_reduce),
    .infer = reduce_infer,
    .grad = reduce_grad,
    .flops = flops,
    .half = OT_HALF_REDUCE,
    .words = words,
};
