/* unary.c - operators of one input that are one row of functions.h.
 *
 * Spec    ai.onnx, the newest form of each; older ones differ in element types only.
 * Grad    by the row.  Elu, Celu, Selu, LeakyRelu, ThresholdedRelu: at 0 the slope of the negative side. */

#include "ops/onnx/elementwise.h"

#define AT(field) offsetof(ot_fn_attrs, field)

static const ot_attr alpha_001[] = { { "alpha", OT_FLOAT, AT(p), 0.01, NULL }, { 0 } };
static const ot_attr alpha_1[] = { { "alpha", OT_FLOAT, AT(p), 1, NULL }, { 0 } };
static const ot_attr hard_sigmoid[] = {
    { "alpha", OT_FLOAT, AT(p), 0.2, NULL }, { "beta", OT_FLOAT, AT(q), 0.5, NULL }, { 0 },
};
static const ot_attr selu[] = {
    { "alpha", OT_FLOAT, AT(p), 1.67326319217681884765625, NULL },
    { "gamma", OT_FLOAT, AT(q), 1.05070102214813232421875, NULL },
    { 0 },
};
static const ot_attr shrink[] = {
    { "lambd", OT_FLOAT, AT(p), 0.5, NULL }, { "bias", OT_FLOAT, AT(q), 0, NULL }, { 0 },
};

/* U(operator, since, row, types) without, P(operator, since, row, types, attributes) with parameters. */
#define F OT_SET_FLOAT
#define S OT_SET_FLOAT | OT_SET_SIGNED
#define N OT_SET_NUMBER
#define UNARY(U, P)                                                                                \
    U(Abs, 13, Abs, N) U(Acos, 22, Acos, F) U(Acosh, 22, Acosh, F) U(Asin, 22, Asin, F)            \
    U(Asinh, 22, Asinh, F) U(Atan, 22, Atan, F) U(Atanh, 22, Atanh, F)                             \
    U(BitwiseNot, 18, BitNot, OT_SET_INT) U(Ceil, 13, Ceil, F) U(Cos, 22, Cos, F)                 \
    U(Cosh, 22, Cosh, F) U(Erf, 13, Erf, F) U(Exp, 13, Exp, F) U(Floor, 13, Floor, F)              \
    U(HardSwish, 22, HardSwish, F) U(Log, 13, Log, F) U(Mish, 22, Mish, F) U(Neg, 13, Neg, S)      \
    U(Reciprocal, 13, Reciprocal, F) U(Relu, 14, Relu, S) U(Round, 22, Round, F)                   \
    U(Sigmoid, 13, Sigmoid, F) U(Sign, 13, Sign, N) U(Sin, 22, Sin, F) U(Sinh, 22, Sinh, F)        \
    U(Softplus, 22, Softplus, F) U(Softsign, 22, Softsign, F) U(Sqrt, 13, Sqrt, F)                 \
    U(Tan, 22, Tan, F) U(Tanh, 13, Tanh, F)                                                        \
    P(Celu, 12, Celu, F, alpha_1) P(Elu, 22, Elu, F, alpha_1)                                      \
    P(HardSigmoid, 22, HardSigmoid, F, hard_sigmoid) P(LeakyRelu, 16, LeakyRelu, F, alpha_001)     \
    P(Selu, 22, Selu, F, selu) P(Shrink, 9, Shrink, N, shrink) P(Swish, 24, Swish, F, alpha_1)     \
    P(ThresholdedRelu, 22, ThresholdedRelu, F, alpha_1)

#define LOWER(op, since, row, ...) static void op##_lower(ot_build *b) { ot_elementwise_lower(b, OT_FN_##row); }
UNARY(LOWER, LOWER)

#define PLAIN(op, version, row, set)                                                               \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "T", .T = set }, .since = version, .in = { 1, 1 }, .out = { 1, 1 }, \
        .infer = ot_elementwise_infer, .lower = op##_lower,                                        \
    };
#define WITH(op, version, row, set, attributes)                                                    \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "T", .T = set }, .since = version, .in = { 1, 1 }, .out = { 1, 1 }, \
        .attrs = attributes, .attr_size = sizeof(ot_fn_attrs), .infer = ot_elementwise_infer, .lower = op##_lower,     \
    };
UNARY(PLAIN, WITH)

/* ---- operators that choose their row ---------------------------------------------- */

typedef struct gelu_attrs { int64_t approximate; } gelu_attrs;

static const char *const approximations[] = { "none", "tanh", NULL };
static const ot_attr gelu[] = {
    { "approximate", OT_ENUM, offsetof(gelu_attrs, approximate), 0, approximations }, { 0 },
};

static void gelu_lower(ot_build *b)
{
    const gelu_attrs *a = b->node->attrs;
    int row = a->approximate ? OT_FN_GeluTanh : OT_FN_Gelu;
    ot_yield(b, 0, ot_map1(b, row, 0, 0, b->node->in[0]));
}

const ot_op ot_op_Gelu = {
    .name = "Gelu", .types = { "T", .T = OT_SET_FLOAT }, .since = 20, .in = { 1, 1 }, .out = { 1, 1 }, .attrs = gelu,
    .attr_size = sizeof(gelu_attrs), .infer = ot_elementwise_infer, .lower = gelu_lower,
};

static void detach_lower(ot_build *b) { ot_yield(b, 0, ot_map1(b, OT_FN_Detach, 0, 0, b->node->in[0])); }

const ot_op ot_op_Detach = {
    .name = "Detach", .types = { "T", .T = OT_SET_NUMBER }, .in = { 1, 1 }, .out = { 1, 1 }, .flags = OT_INTERNAL,
    .infer = ot_elementwise_infer, .lower = detach_lower, .grad_zero = "the program detached it",
};

static void isnan_lower(ot_build *b) { ot_elementwise_lower(b, OT_FN_IsNaN); }
static void not_lower(ot_build *b) { ot_elementwise_lower(b, OT_FN_Not); }

const ot_op ot_op_IsNaN = {
    .name = "IsNaN", .types = { "T", .T = OT_SET_FLOAT | OT_SET_FLOAT8 }, .since = 20, .in = { 1, 1 }, .out = { 1, 1 },
    .infer = ot_elementwise_infer_truth, .lower = isnan_lower,
};

const ot_op ot_op_Not = {
    .name = "Not", .types = { "b" }, .since = 1, .in = { 1, 1 }, .out = { 1, 1 },
    .infer = ot_elementwise_infer_truth, .lower = not_lower,
};

typedef struct isinf_attrs { int64_t positive, negative; } isinf_attrs;

static const ot_attr isinf_rows[] = {
    { "detect_positive", OT_INT, offsetof(isinf_attrs, positive), 1, NULL },
    { "detect_negative", OT_INT, offsetof(isinf_attrs, negative), 1, NULL },
    { 0 },
};

static void isinf_lower(ot_build *b)
{
    const isinf_attrs *a = b->node->attrs;
    ot_yield(b, 0, ot_map1(b, OT_FN_IsInf, a->positive != 0, a->negative != 0, b->node->in[0]));
}

const ot_op ot_op_IsInf = {
    .name = "IsInf", .types = { "T", .T = OT_SET_FLOAT | OT_SET_FLOAT8 },
    .since = 20, .in = { 1, 1 }, .out = { 1, 1 }, .attrs = isinf_rows,
    .attr_size = sizeof(isinf_attrs), .infer = ot_elementwise_infer_truth, .lower = isinf_lower,
};
