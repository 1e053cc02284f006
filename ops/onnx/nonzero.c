/* nonzero.c - NonZero: the coordinates of the elements other than zero.
 *
 * Spec    ai.onnx NonZero 9, 13.  Their number is a size, so x must be known while planning, or be a decision
 *         (passes/decide.h).
 * Shapes  x: any   y: (rank, number of non-zero elements) int64, in row-major order */
#include "ops/kernels/move.h"

static bool is_zero(const ot_value *x, int64_t i)
{
    return ot_is_float(x->dtype) ? ot_get_f64(x->data, x->dtype, i) == 0 : ot_get_i64(x->data, x->dtype, i) == 0;
}

static ot_status nonzero_infer(ot_node *n, ot_error *err)
{
    const ot_value *x = n->in[0];
    int64_t count = 0, at = 0, total = ot_numel(&x->shape), xs[OT_MAX_RANK];
    if (!ot_is_const(x) || !ot_dtype_bits(x->dtype))
        return ot_node_fail(n, err, "x must be known before the run, because the number of nonzero elements is a size");
    ot_strides(&x->shape, xs);
    for (int64_t i = 0; i < total; i++) count += !is_zero(x, i);
    ot_shape y = { .rank = 2, .dim = { x->shape.rank, count } };
    if (!ot_shape_fits(&y, OT_I64)) return ot_node_fail(n, err, "the result is too large");
    int64_t *out = ot_node_alloc(n, ot_bytes(&y, OT_I64) + 1);
    if (!out) return ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    for (int64_t i = 0; i < total; i++) {
        if (is_zero(x, i)) continue;
        for (int d = 0; d < x->shape.rank; d++) out[d * count + at] = i / xs[d] % x->shape.dim[d];
        at++;
    }
    n->out[0]->data = out;
    n->out[0]->role = OT_CONST;
    return ot_set(n->out[0], OT_I64, &y);
}

static void nonzero_lower(ot_build *b)
{
    const ot_value *y = b->node->out[0];
    if (!ot_broken(b)) ot_yield(b, 0, ot_graph_const_of(b->graph, y->name, y->dtype, &y->shape, y->data));
}

const ot_op ot_op_NonZero = {
    .name = "NonZero",
    .types = { "T", .T = OT_SET_COMMON },
    .since = 13,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_COUNTED,
    .nondiff = 1,
    .infer = nonzero_infer,
    .lower = nonzero_lower,
    .grad_zero = "the output contains indices",
    .gives = "i",
};
