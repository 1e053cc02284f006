/* reduce.c - ReduceSum and the nine other reductions: a formula before the Reduce, one after it.
 *
 * Spec      ai.onnx Reduce* 1, 11, 13, 18, 20: axes are an input, constant; missing or empty: all of them, or with
 *           noop_with_empty_axes none, and then the formulas still apply.
 * Grad      of the operators they are lowered to; a norm of zeros has gradient 0.
 * Numerics  float16 and bfloat16 are reduced in float32 and rounded once.  LogSumExp subtracts the maximum. */
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"

#include <float.h>
#include <stddef.h>

#include "ops/kernels/reduce.h"
#include "ops/onnx/batching.h"

typedef struct reduction {
    int64_t keepdims, noop;
} reduction;

static const ot_attr rows[] = {
    { "keepdims", OT_INT, offsetof(reduction, keepdims), 1, NULL },
    { "noop_with_empty_axes", OT_INT, offsetof(reduction, noop), 0, NULL },
    { 0 },
};

/* The axes to reduce, as bits. */
static ot_status axes_of(const ot_node *n, int64_t *set, ot_error *err)
{
    const reduction *a = n->attrs;
    int rank = n->in[0]->shape.rank;
    OT_TRY(ot_axes_input(n, 1, rank, set, NULL, err));
    if (!*set && !a->noop) *set = ((int64_t)1 << rank) - 1;
    return OT_OK;
}

static ot_status infer(ot_node *n, ot_error *err)
{
    const reduction *a = n->attrs;
    const ot_value *x = n->in[0];
    ot_shape y = { .rank = 0 };
    int64_t set;
    if (!ot_dtype_bits(x->dtype)) return ot_node_fail(n, err, "%s cannot be reduced", ot_dtype_name(x->dtype));
    OT_TRY(axes_of(n, &set, err));
    for (int d = 0; d < x->shape.rank; d++) {
        bool gone = set >> d & 1;
        if (!gone || a->keepdims) y.dim[y.rank++] = gone ? 1 : x->shape.dim[d];
    }
    return ot_set(n->out[0], x->dtype, &y);
}

/* ---- lowering -------------------------------------------------------------- */

/* The operand of the formulas: x, in a type that represents their results. */
static ot_value *wide(ot_build *b, bool real)
{
    ot_value *x = b->node->in[0];
    if (x->dtype == OT_F16 || x->dtype == OT_BF16) return ot_cast(b, x, OT_F32);
    return real && !ot_is_float(x->dtype) ? ot_cast(b, x, OT_F64) : x;
}

static ot_value *reduce(ot_build *b, ot_value *x, int64_t kind)
{
    int64_t set = 0;
    if (ot_broken(b) || axes_of(b->node, &set, b->graph->err) != OT_OK) return NULL;
    return ot_reduce_axes(b, x, kind, set, ((const reduction *)b->node->attrs)->keepdims);
}

static void yield(ot_build *b, ot_value *y) { ot_yield(b, 0, ot_cast(b, y, b->node->in[0]->dtype)); }

static void sum_lower(ot_build *b) { ot_yield(b, 0, reduce(b, b->node->in[0], OT_REDUCE_SUM)); }
static void max_lower(ot_build *b) { ot_yield(b, 0, reduce(b, b->node->in[0], OT_REDUCE_MAX)); }
static void min_lower(ot_build *b) { ot_yield(b, 0, reduce(b, b->node->in[0], OT_REDUCE_MIN)); }
static void prod_lower(ot_build *b) { ot_yield(b, 0, reduce(b, b->node->in[0], OT_REDUCE_PROD)); }

static void mean_lower(ot_build *b)
{
    const ot_shape *x = &b->node->in[0]->shape;
    int64_t set, n = 1;
    if (axes_of(b->node, &set, b->graph->err) != OT_OK) return;
    for (int d = 0; d < x->rank; d++)
        if (set >> d & 1) n *= x->dim[d];
    ot_value *s = reduce(b, wide(b, false), OT_REDUCE_SUM);
    if (ot_broken(b)) return;
    if (!n && !ot_is_float(s->dtype)) {
        ot_node_fail(b->node, b->graph->err, "integers cannot be averaged");
        return;
    }
    int row = ot_is_float(s->dtype) ? OT_FN_Div : OT_FN_IDiv;
    yield(b, n == 1 ? s : ot_map2(b, row, 0, 0, s, ot_scalar(b, s->dtype, (double)n)));
}

static void l1_lower(ot_build *b)
{
    ot_value *x = wide(b, false);
    if (ot_broken(b)) return;
    yield(b, reduce(b, ot_map1(b, ot_is_float(x->dtype) ? OT_FN_Abs : OT_FN_IAbs, 0, 0, x), OT_REDUCE_SUM));
}

/* The sum of squares; without axes the squares themselves. */
static ot_value *sum_square(ot_build *b, bool real)
{
    ot_value *x = wide(b, real), *y = reduce(b, x, OT_REDUCE_SUMSQ);
    return y == x ? ot_map2(b, OT_FN_Mul, 0, 0, x, x) : y;
}

static void sum_square_lower(ot_build *b) { yield(b, sum_square(b, false)); }

static void l2_lower(ot_build *b)
{
    ot_value *s = sum_square(b, true);
    if (!ot_broken(b)) yield(b, ot_sqrt_of_squares(b, s));
}

static void log_sum_lower(ot_build *b)
{
    yield(b, ot_map1(b, OT_FN_Log, 0, 0, reduce(b, wide(b, true), OT_REDUCE_SUM)));
}

static void log_sum_exp_lower(ot_build *b)
{
    ot_value *x = wide(b, true);
    int64_t set;
    if (ot_broken(b) || axes_of(b->node, &set, b->graph->err) != OT_OK) return;
    double top = x->dtype == OT_F64 ? DBL_MAX : (double)FLT_MAX;
    /* Any number near the maximum is suitable: within the finite numbers, so that infinite elements give infinity
     * and not NaN; rounded, because it cancels out of the result and Round has no gradient. */
    ot_value *m = ot_reduce_axes(b, x, OT_REDUCE_MAX, set, true);
    m = ot_map3(b, OT_FN_Clip, 0, 0, m, ot_scalar(b, x->dtype, -top), ot_scalar(b, x->dtype, top));
    m = ot_map1(b, OT_FN_Round, 0, 0, m);
    ot_value *s = reduce(b, ot_map1(b, OT_FN_Exp, 0, 0, ot_map2(b, OT_FN_Sub, 0, 0, x, m)), OT_REDUCE_SUM);
    if (ot_broken(b)) return;
    yield(b, ot_map2(b, OT_FN_Add, 0, 0, ot_map1(b, OT_FN_Log, 0, 0, s), ot_view(b, m, &s->shape)));
}

static ot_value *axes_const(ot_batching *b, int64_t set, int by)
{
    int64_t list[OT_MAX_RANK];
    int m = 0;
    for (int d = 0; d < OT_MAX_RANK; d++)
        if (set >> d & 1) list[m++] = d + by;
    return ot_batch_ints(b, list, m);
}

static bool reduce_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int64_t set;
    ot_error e = { 0 };
    if (!ot_batch_first_alone(n)) return false;
    int rank = n->in[0]->shape.rank;
    if (ot_axes_input(n, 1, rank, &set, NULL, &e) != OT_OK) return false;
    if (!set && ot_attr_get(n, "noop_with_empty_axes", 0)) return ot_batch_on(r, n, ot_batch_axis(n->in[0]));
    if (!set) set = (INT64_C(1) << rank) - 1;
    if (!ot_batch_mixed_along(b, n, set, ot_attr_get(n, "keepdims", 1) ? 0 : set, r)) return false;
    r->in[1] = axes_const(b, set, r->explicit_at >= 0);
    r->n_in = 2;
    return true;
}

#define REDUCTION(op, opset, rule, set)                                                            \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "Ti", .T = set }, .slots = "-", .since = opset, .in = { 1, 2 }, .out = { 1, 1 }, .nondiff = 1u << 1, \
        .attrs = rows, .attr_size = sizeof(reduction), .batch = reduce_batch, .infer = infer, .lower = rule, \
    };

REDUCTION(ReduceL1, 18, l1_lower, OT_SET_WIDE)
REDUCTION(ReduceL2, 18, l2_lower, OT_SET_WIDE)
REDUCTION(ReduceLogSum, 18, log_sum_lower, OT_SET_FLOAT)
REDUCTION(ReduceLogSumExp, 18, log_sum_exp_lower, OT_SET_FLOAT)
REDUCTION(ReduceMax, 20, max_lower, OT_SET_COMMON)
REDUCTION(ReduceMean, 18, mean_lower, OT_SET_WIDE)
REDUCTION(ReduceMin, 20, min_lower, OT_SET_COMMON)
REDUCTION(ReduceProd, 18, prod_lower, OT_SET_WIDE)
REDUCTION(ReduceSum, 13, sum_lower, OT_SET_WIDE)
REDUCTION(ReduceSumSquare, 18, sum_square_lower, OT_SET_WIDE)
