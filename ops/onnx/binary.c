/* binary.c - element-wise operators of two or more inputs: arithmetic, comparison, logic, bits.
 *
 * Spec    ai.onnx, the newest version of each.  Integer division truncates, and gives 0 for a division by 0.
 * Shapes  inputs broadcast; PRelu's slope broadcasts to x only.
 * Grad    Max and Min of several inputs are computed pairwise: two equal inputs get half each. Pow with a constant
 *         exponent becomes a product such as x * x where possible. */

#include <math.h>

#include "ops/onnx/batching.h"
#include "ops/onnx/elementwise.h"

#define I OT_SET_INT
#define N OT_SET_NUMBER
#define L OT_TYPE(OT_BOOL)
#define BINARY(B, T)                                                                                            \
    B(Add, 14, Add, N, "aa", OT_HALF_FOLLOWS) B(BitwiseAnd, 18, BitAnd, I, "-", OT_HALF_NEVER)                  \
    B(BitwiseOr, 18, BitOr, I, "-", OT_HALF_NEVER) B(BitwiseXor, 18, BitXor, I, "-", OT_HALF_NEVER)             \
    B(Div, 14, Div, N, "dd", OT_HALF_FOLLOWS) B(Mul, 14, Mul, N, "xx", OT_HALF_FOLLOWS)                         \
    B(Sub, 14, Sub, N, "dd", OT_HALF_FOLLOWS) T(And, 7, And, L) T(Greater, 13, Greater, N)                      \
    T(GreaterOrEqual, 16, GreaterOrEqual, N) T(Less, 13, Less, N) T(LessOrEqual, 16, LessOrEqual, N)            \
    T(Or, 7, Or, L) T(Xor, 7, Xor, L)

#define LOWER(op, since, row, ...) static void op##_lower(ot_build *b) { ot_elementwise_lower(b, OT_FN_##row); }
BINARY(LOWER, LOWER)

#define NUMBER(op, version, row, set, letters, narrow)                                             \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "T", .T = set }, .slots = letters, .since = version, .in = { 2, 2 }, .out = { 1, 1 }, \
        .half = narrow, .rank = OT_RANK_GREATEST, .batch = ot_batch_pointwise, .infer = ot_elementwise_infer, .lower = op##_lower, \
    };
#define TRUTH(op, version, row, set)                                                               \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "T", .T = set }, .since = version, .in = { 2, 2 }, .out = { 1, 1 }, \
        .gives = "b", .rank = OT_RANK_GREATEST, .batch = ot_batch_pointwise, .infer = ot_elementwise_infer_truth, .lower = op##_lower,                    \
        .grad_zero = "a boolean is piecewise constant",                                        \
    };
BINARY(NUMBER, TRUTH)

/* Only Equal also compares strings. */
static ot_status equal_infer(ot_node *n, ot_error *err)
{
    if (n->in[0]->dtype == OT_STRING) return ot_op_StringEqual.infer(n, err);
    return ot_elementwise_infer_truth(n, err);
}

static void equal_lower(ot_build *b)
{
    const ot_node *n = b->node;
    if (n->in[0]->dtype == OT_STRING) ot_yield(b, 0, ot_emit(b, &ot_op_StringEqual, NULL, n->in, 2));
    else ot_elementwise_lower(b, OT_FN_Equal);
}

const ot_op ot_op_Equal = {
    .name = "Equal",
    .types = { "T", .T = OT_SET_COMMON | OT_TYPE(OT_STRING) },
    .since = 19,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .rank = OT_RANK_GREATEST,
    .infer = equal_infer,
    .lower = equal_lower,
    .grad_zero = "a boolean is piecewise constant",
    .gives = "b",
    .batch = ot_batch_pointwise,
};

/* ---- any number of inputs ------------------------------------------------------- */

static ot_value *chain(ot_build *b, int row)
{
    const ot_node *n = b->node;
    ot_value *y = n->in[0];
    for (int i = 1; i < n->n_in; i++) y = ot_map2(b, row, 0, 0, y, n->in[i]);
    return y;
}

static void sum_lower(ot_build *b) { ot_yield(b, 0, chain(b, OT_FN_Add)); }
static void max_lower(ot_build *b) { ot_yield(b, 0, chain(b, OT_FN_Max)); }
static void min_lower(ot_build *b) { ot_yield(b, 0, chain(b, OT_FN_Min)); }

static void mean_lower(ot_build *b)
{
    ot_value *y = chain(b, OT_FN_Add);
    if (y) ot_yield(b, 0, ot_map2(b, OT_FN_Div, 0, 0, y, ot_scalar(b, y->dtype, b->node->n_in)));
}

#define MANY(op, version, rule, set, letters, narrow)                                              \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "T", .T = set }, .slots = letters, .since = version, .in = { 1, OT_VARIADIC }, .out = { 1, 1 }, \
        .half = narrow, .rank = OT_RANK_GREATEST, .batch = ot_batch_pointwise, .infer = ot_elementwise_infer, .lower = rule, \
    };
MANY(Max, 13, max_lower, OT_SET_NUMBER, "c", OT_HALF_FOLLOWS)
MANY(Mean, 13, mean_lower, OT_SET_FLOAT, "j", OT_HALF_NEVER)
MANY(Min, 13, min_lower, OT_SET_NUMBER, "c", OT_HALF_FOLLOWS)
MANY(Sum, 13, sum_lower, OT_SET_FLOAT, "j", OT_HALF_FOLLOWS)

/* ---- Pow ------------------------------------------------------------------------ */

/* y has the type of x, whatever the exponent's type. */
static ot_status pow_infer(ot_node *n, ot_error *err)
{
    ot_shape s;
    for (int i = 0; i < 2; i++)
        if (!n->in[i] || !ot_dtype_bits(n->in[i]->dtype)) return ot_node_fail(n, err, "expected two numbers");
    if (!ot_broadcast(&n->in[0]->shape, &n->in[1]->shape, &s)) {
        char a[128], b[128];
        return ot_node_fail(n, err, "inputs of shape %s and %s do not broadcast", ot_shape_text(&n->in[0]->shape, a),
                            ot_shape_text(&n->in[1]->shape, b));
    }
    return ot_set(n->out[0], n->in[0]->dtype, &s);
}

/* x to a known power; NULL: none of the short forms. */
static ot_value *pow_by(ot_build *b, ot_value *x, double e)
{
    if (e == 1) return x;
    if (e == 2) return ot_map1(b, OT_FN_Square, 0, 0, x);
    if (e == 3) return ot_map1(b, OT_FN_Cube, 0, 0, x);
    if (e == 0.5) return ot_map1(b, OT_FN_Sqrt, 0, 0, x);
    if (e == -1) return ot_map1(b, OT_FN_Reciprocal, 0, 0, x);
    if (e == -0.5) return ot_map1(b, OT_FN_Rsqrt, 0, 0, x);
    return e == 0 || !isfinite(e) ? NULL : ot_map1(b, OT_FN_PowP, e, 0, x);
}

/* Integers to a power that is not an integer: in f64, rounded up slightly, since exact powers must not truncate
 * down. */
static ot_value *pow_wide(ot_build *b, ot_value *x, ot_value *e, ot_dtype t)
{
    ot_value *y = ot_map2(b, OT_FN_Pow, 0, 0, ot_cast(b, x, OT_F64), ot_cast(b, e, OT_F64));
    y = ot_map2(b, OT_FN_Mul, 0, 0, y, ot_scalar(b, OT_F64, 1 + 0x1p-44));
    return y ? ot_cast(b, y, t) : NULL;
}

static void pow_lower(ot_build *b)
{
    const ot_node *n = b->node;
    ot_value *x = n->in[0], *e = n->in[1], *y = NULL;
    if (!ot_is_float(x->dtype) && ot_is_float(e->dtype)) {
        ot_yield(b, 0, pow_wide(b, x, e, x->dtype));
        return;
    }
    bool scalar = ot_is_const(e) && ot_numel(&e->shape) == 1 && e->shape.rank <= x->shape.rank;
    if (scalar && ot_is_float(x->dtype)) y = pow_by(b, x, ot_get_f64(e->data, e->dtype, 0));
    if (!y) y = ot_map_emit(b, OT_FN_Pow, 0, 0, (ot_value *[]){ x, ot_cast(b, e, x->dtype) }, 2, x->dtype);
    ot_yield(b, 0, y);
}

const ot_op ot_op_Pow = {
    .name = "Pow",
    .types = { "TU", .T = OT_SET_FLOAT | OT_SET_INDEX, .U = OT_SET_NUMBER },
    .slots = "-e",
    .since = 15,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .rank = OT_RANK_GREATEST,
    .infer = pow_infer,
    .lower = pow_lower,
    .batch = ot_batch_pointwise,
};

/* ---- PRelu, Mod, BitShift ------------------------------------------------------- */

static ot_status prelu_infer(ot_node *n, ot_error *err)
{
    OT_TRY(ot_elementwise_infer(n, err));
    char a[128], b[128];
    if (!ot_shape_eq(&n->out[0]->shape, &n->in[0]->shape))
        return ot_node_fail(n, err, "slope of shape %s does not broadcast to x of shape %s",
                            ot_shape_text(&n->in[1]->shape, a), ot_shape_text(&n->in[0]->shape, b));
    return OT_OK;
}

static void prelu_lower(ot_build *b) { ot_elementwise_lower(b, OT_FN_PRelu); }

const ot_op ot_op_PRelu = {
    .name = "PRelu",
    .types = { "T", .T = OT_SET_WIDE },
    .slots = "-s",
    .since = 16,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .infer = prelu_infer,
    .lower = prelu_lower,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_pointwise,
};

typedef struct choice {
    int64_t which;
} choice;

static const ot_attr mod_rows[] = { { "fmod", OT_INT, offsetof(choice, which), 0, NULL }, { 0 } };

/* For floats the standard defines the sign of the remainder for fmod only. */
static ot_status mod_infer(ot_node *n, ot_error *err)
{
    if (ot_is_float(n->in[0]->dtype) && !((const choice *)n->attrs)->which)
        return ot_node_fail(n, err, "floats need fmod = 1");
    return ot_elementwise_infer(n, err);
}

static void mod_lower(ot_build *b)
{
    const choice *a = b->node->attrs;
    ot_yield(b, 0,
             ot_map_emit(b, a->which ? OT_FN_FMod : OT_FN_FloorMod, 0, 0, b->node->in, 2, b->node->out[0]->dtype));
}

const ot_op ot_op_Mod = {
    .name = "Mod",
    .types = { "T", .T = OT_SET_NUMBER },
    .slots = "-",
    .since = 13,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .rank = OT_RANK_GREATEST,
    .attrs = mod_rows,
    .attr_size = sizeof(choice),
    .infer = mod_infer,
    .lower = mod_lower,
    .batch = ot_batch_pointwise,
};

static const char *const directions[] = { "LEFT", "RIGHT", NULL };
static const ot_attr shift_rows[] = {
    { "direction", OT_ENUM, offsetof(choice, which), OT_REQUIRED, directions },
    { 0 },
};

static void shift_lower(ot_build *b)
{
    const choice *a = b->node->attrs;
    ot_yield(
        b, 0,
        ot_map_emit(b, a->which ? OT_FN_ShiftRight : OT_FN_ShiftLeft, 0, 0, b->node->in, 2, b->node->out[0]->dtype));
}

const ot_op ot_op_BitShift = {
    .name = "BitShift",
    .types = { "T", .T = OT_SET_INT },
    .since = 11,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .attrs = shift_rows,
    .attr_size = sizeof(choice),
    .infer = ot_elementwise_infer,
    .lower = shift_lower,
    .batch = ot_batch_pointwise,
};
