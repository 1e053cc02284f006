/* dot.c - Dot: the matrix product, batched, transposed by stride, with an optional bias.
 *
 * Shapes  a: (..., M, K)  b: (..., K, N), each with its last two axes swapped if ta, tb
 *         bias: (N)  y: (..., M, N); leading axes broadcast
 * Grad    da = dy . op(b)^T   db = op(a)^T . dy, transposed where the operand was; dbias = sum of dy */
#include "ops/kernels/dot.h"

static ot_status dot_infer(ot_node *n, ot_error *err)
{
    const ot_dot *t = n->attrs;
    const ot_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape;
    if (a->rank < 2 || b->rank < 2)
        return ot_node_fail(n, err, "the operands have ranks %d and %d; expected 2 or more", a->rank, b->rank);
    ot_shape ba = { .rank = a->rank - 2 }, bb = { .rank = b->rank - 2 }, y;
    for (int d = 0; d < ba.rank; d++) ba.dim[d] = a->dim[d];
    for (int d = 0; d < bb.rank; d++) bb.dim[d] = b->dim[d];
    char sa[128], sb[128];
    int64_t M = a->dim[a->rank - (t->ta ? 1 : 2)], K = a->dim[a->rank - (t->ta ? 2 : 1)];
    int64_t L = b->dim[b->rank - (t->tb ? 1 : 2)], N = b->dim[b->rank - (t->tb ? 2 : 1)];
    if (K != L || !ot_broadcast(&ba, &bb, &y))
        return ot_node_fail(n, err, "%s%s and %s%s cannot be multiplied", ot_shape_text(a, sa),
                            t->ta ? " transposed" : "", ot_shape_text(b, sb), t->tb ? " transposed" : "");
    y.dim[y.rank++] = M;
    y.dim[y.rank++] = N;
    if (n->n_in > 2 && n->in[2] && (n->in[2]->shape.rank != 1 || n->in[2]->shape.dim[0] != N))
        return ot_node_fail(n, err, "the bias is %s; expected [%lld]", ot_shape_text(&n->in[2]->shape, sa),
                            (long long)N);
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void dot_grad(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_dot *t = n->attrs;
    ot_value *a = n->in[0], *c = n->in[1], *dy = ot_dout(b, 0);
    if (ot_wants(b, 0)) ot_set_din(b, 0, t->ta ? ot_matmul(b, c, t->tb, dy, true) : ot_matmul(b, dy, false, c, !t->tb));
    if (ot_wants(b, 1)) ot_set_din(b, 1, t->tb ? ot_matmul(b, dy, true, a, t->ta) : ot_matmul(b, a, !t->ta, dy, false));
    if (ot_wants(b, 2)) ot_set_din(b, 2, dy); /* the driver sums over the axes along which the bias was broadcast */
}

static int64_t inner(const ot_node *n)
{
    const ot_shape *a = &n->in[0]->shape;
    return a->dim[a->rank - (((const ot_dot *)n->attrs)->ta ? 2 : 1)];
}

static double flops(const ot_node *n)
{
    double y = (double)ot_numel(&n->out[0]->shape);
    return 2 * y * (double)inner(n) + (ot_node_in(n, 2) ? y : 0);
}

static void words(FILE *f, const void *attrs)
{
    const ot_dot *a = attrs;
    fprintf(f, "%s%s", a->ta ? " ta" : "", a->tb ? " tb" : "");
}

/* ---- short forms ---------------------------------------------------------------- */

ot_value *ot_matmul(ot_build *b, ot_value *a, bool ta, ot_value *c, bool tc)
{
    return ot_emit(b, &ot_op_Dot, &(ot_dot){ ta, tc }, OT_IN(a, c));
}

const ot_op ot_op_Dot = {
    .name = "Dot",
    .types = { "T", .T = OT_SET_NUMBER },
    .in = { 2, 3 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL | OT_PRODUCT | OT_FUSES,
    .attr_size = sizeof(ot_dot),
    .infer = dot_infer,
    .grad = dot_grad,
    .half = OT_HALF_PRODUCT,
    .inner = inner,
    .flops = flops,
    .words = words,
};
