/* matmulinteger.c - MatMulInteger and ConvInteger: products of 8-bit integers, exact in 32 bits.
 *
 * Spec    ai.onnx MatMulInteger 10, ConvInteger 10.
 * Shapes  MatMulInteger: a (..., M, K), b (..., K, N); zero points: one, per row of a, per column of b
 *         ConvInteger: as Conv; x's zero point one, w's one or per filter.  Padding is x's zero point. */
#include "ops/kernels/convolve.h"
#include "ops/kernels/dot.h"
#include "ops/kernels/map.h"
#include "ops/onnx/batching.h"

/* x as int32 minus its zero point, which is a vector along `axis` of x's rank or a single number. */
static ot_value *centred(ot_build *b, ot_value *x, ot_value *zero, int axis)
{
    x = ot_cast(b, x, OT_I32);
    if (!zero || !x) return x;
    zero = ot_cast(b, zero, OT_I32);
    if (zero && zero->shape.rank == 1) {
        ot_shape s = { .rank = x->shape.rank };
        for (int d = 0; d < s.rank; d++) s.dim[d] = d == axis ? zero->shape.dim[0] : 1;
        zero = ot_numel(&zero->shape) == 1 ? ot_view(b, zero, &OT_SCALAR) : ot_view(b, zero, &s);
    }
    return ot_map2(b, OT_FN_Sub, 0, 0, x, zero);
}

static bool zero_fits(const ot_value *zero, int64_t n)
{
    return !zero || ot_numel(&zero->shape) == 1 || zero->shape.rank != 1 || zero->shape.dim[0] == n;
}

/* ---- MatMulInteger -------------------------------------------------------------- */

/* The shapes follow MatMul's rule. */
static ot_status matmul_infer(ot_node *n, ot_error *err)
{
    const ot_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape;
    if (a->rank >= 1 && b->rank >= 1 &&
        (!zero_fits(ot_node_in(n, 2), a->rank > 1 ? a->dim[a->rank - 2] : 1) ||
         !zero_fits(ot_node_in(n, 3), b->dim[b->rank - 1])))
        return ot_node_fail(n, err, "a zero point has neither one value nor one per row of A, column of B");
    OT_TRY(ot_op_MatMul.infer(n, err));
    return ot_set(n->out[0], OT_I32, &n->out[0]->shape);
}

static void matmul_lower(ot_build *b)
{
    const ot_node *n = b->node;
    ot_value *a = centred(b, n->in[0], ot_node_in(n, 2), n->in[0]->shape.rank - 2);
    ot_value *c = centred(b, n->in[1], ot_node_in(n, 3), n->in[1]->shape.rank - 1);
    ot_yield(b, 0, ot_emit(b, &ot_op_MatMul, NULL, OT_IN(a, c)));
}

const ot_op ot_op_MatMulInteger = {
    .name = "MatMulInteger",
    .types = { "TUTU", .T = OT_TYPE(OT_I8) | OT_TYPE(OT_U8), .U = OT_TYPE(OT_I8) | OT_TYPE(OT_U8) },
    .since = 10,
    .in = { 2, 4 },
    .out = { 1, 1 },
    .quantised = 3,
    .nondiff = 15,
    .infer = matmul_infer,
    .lower = matmul_lower,
    .grad_zero = "integers",
};

/* ---- ConvInteger ------------------------------------------------------------------ */

static ot_status conv_infer(ot_node *n, ot_error *err)
{
    ot_convolve c;
    ot_shape y;
    OT_TRY(ot_conv_resolve(n, &c, &y, err));
    if ((ot_node_in(n, 2) && ot_numel(&n->in[2]->shape) != 1) || !zero_fits(ot_node_in(n, 3), y.dim[1]))
        return ot_node_fail(n, err, "a zero point has neither one value nor, of w, one per filter");
    return ot_set(n->out[0], OT_I32, &y);
}

static void conv_lower(ot_build *b)
{
    const ot_node *n = b->node;
    ot_convolve c;
    ot_shape y;
    if (ot_conv_resolve(n, &c, &y, b->graph->err) != OT_OK) return;
    ot_value *x = centred(b, n->in[0], ot_node_in(n, 2), 1), *w = centred(b, n->in[1], ot_node_in(n, 3), 0);
    ot_yield(b, 0, ot_emit(b, &ot_op_Convolve, &c, OT_IN(x, w)));
}

const ot_op ot_op_ConvInteger = {
    .name = "ConvInteger",
    .types = { "TUTU", .T = OT_TYPE(OT_I8) | OT_TYPE(OT_U8), .U = OT_TYPE(OT_I8) | OT_TYPE(OT_U8) },
    .since = 10,
    .in = { 2, 4 },
    .out = { 1, 1 },
    .quantised = 3,
    .nondiff = 15,
    .attrs = ot_conv_rows,
    .attr_size = sizeof(ot_conv),
    .infer = conv_infer,
    .lower = conv_lower,
    .grad_zero = "integers",
    .batch = ot_batch_first,
};
