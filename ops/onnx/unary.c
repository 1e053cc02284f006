/* unary.c - element-wise operators of one input, each a function of functions.h.
 *
 * Spec    ai.onnx, the newest version of each; older ones differ in element types only.
 * Grad    by the function's derivative.  Elu, Celu, Selu, LeakyRelu, ThresholdedRelu: at 0 the slope of the negative
 *         side. */

#include "ops/onnx/batching.h"
#include "ops/onnx/elementwise.h"

#define AT(field) offsetof(ot_fn_attrs, field)

static const ot_attr alpha_001[] = { { "alpha", OT_FLOAT, AT(p), 0.01, NULL }, { 0 } };
static const ot_attr alpha_1[] = { { "alpha", OT_FLOAT, AT(p), 1, NULL }, { 0 } };
static const ot_attr hard_sigmoid[] = {
    { "alpha", OT_FLOAT, AT(p), 0.2, NULL },
    { "beta", OT_FLOAT, AT(q), 0.5, NULL },
    { 0 },
};
static const ot_attr selu[] = {
    { "alpha", OT_FLOAT, AT(p), 1.67326319217681884765625, NULL },
    { "gamma", OT_FLOAT, AT(q), 1.05070102214813232421875, NULL },
    { 0 },
};
static const ot_attr shrink[] = {
    { "lambd", OT_FLOAT, AT(p), 0.5, NULL },
    { "bias", OT_FLOAT, AT(q), 0, NULL },
    { 0 },
};

/* U(operator, since, function, types, in 16 bits) without, P(..., attributes) with parameters. */
#define F OT_SET_FLOAT
#define S OT_SET_FLOAT | OT_SET_SIGNED
#define N OT_SET_NUMBER
#define KEEP OT_HALF_FOLLOWS
#define WIDE OT_HALF_NEVER
#define UNARY(U, P)                                                                                             \
    U(Abs, 13, Abs, N, KEEP) U(Acos, 22, Acos, F, WIDE) U(Acosh, 22, Acosh, F, WIDE)                            \
    U(Asin, 22, Asin, F, WIDE) U(Asinh, 22, Asinh, F, WIDE) U(Atan, 22, Atan, F, WIDE)                          \
    U(Atanh, 22, Atanh, F, WIDE) U(BitwiseNot, 18, BitNot, OT_SET_INT, WIDE) U(Ceil, 13, Ceil, F, WIDE)         \
    U(Cos, 22, Cos, F, WIDE) U(Cosh, 22, Cosh, F, WIDE) U(Erf, 13, Erf, F, KEEP) U(Exp, 13, Exp, F, WIDE)       \
    U(Floor, 13, Floor, F, WIDE) U(HardSwish, 22, HardSwish, F, KEEP) U(Log, 13, Log, F, WIDE)                  \
    U(Mish, 22, Mish, F, KEEP) U(Neg, 13, Neg, S, KEEP) U(Reciprocal, 13, Reciprocal, F, WIDE)                  \
    U(Relu, 14, Relu, S, KEEP) U(Round, 22, Round, F, WIDE) U(Sigmoid, 13, Sigmoid, F, KEEP)                    \
    U(Sign, 13, Sign, N, WIDE) U(Sin, 22, Sin, F, WIDE) U(Sinh, 22, Sinh, F, WIDE)                              \
    U(Softplus, 22, Softplus, F, WIDE) U(Softsign, 22, Softsign, F, WIDE) U(Sqrt, 13, Sqrt, F, WIDE)            \
    U(Tan, 22, Tan, F, WIDE) U(Tanh, 13, Tanh, F, KEEP) P(Celu, 12, Celu, F, WIDE, alpha_1)                     \
    P(Elu, 22, Elu, F, KEEP, alpha_1) P(HardSigmoid, 22, HardSigmoid, F, KEEP, hard_sigmoid)                    \
    P(LeakyRelu, 16, LeakyRelu, F, KEEP, alpha_001) P(Selu, 22, Selu, F, KEEP, selu)                            \
    P(Shrink, 9, Shrink, N, WIDE, shrink) P(Swish, 24, Swish, F, KEEP, alpha_1)                                 \
    P(ThresholdedRelu, 22, ThresholdedRelu, F, WIDE, alpha_1)

#define LOWER(op, since, row, ...) static void op##_lower(ot_build *b) { ot_elementwise_lower(b, OT_FN_##row); }
UNARY(LOWER, LOWER)

#define PLAIN(op, version, row, set, narrow)                                                       \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "T", .T = set }, .slots = "-", .since = version, .in = { 1, 1 }, .out = { 1, 1 }, \
        .half = narrow, .rank = OT_RANK_KEPT, .batch = ot_batch_pointwise, .infer = ot_elementwise_infer, .lower = op##_lower, \
    };
#define WITH(op, version, row, set, narrow, attributes)                                            \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "T", .T = set }, .slots = "-", .since = version, .in = { 1, 1 }, .out = { 1, 1 }, \
        .attrs = attributes, .attr_size = sizeof(ot_fn_attrs), .half = narrow, .rank = OT_RANK_KEPT, .batch = ot_batch_pointwise, .infer = ot_elementwise_infer, .lower = op##_lower, \
    };
UNARY(PLAIN, WITH)

/* ---- operators that choose their row ---------------------------------------------- */

typedef struct gelu_attrs {
    int64_t approximate;
} gelu_attrs;

static const char *const approximations[] = { "none", "tanh", NULL };
static const ot_attr gelu[] = {
    { "approximate", OT_ENUM, offsetof(gelu_attrs, approximate), 0, approximations },
    { 0 },
};

static void gelu_lower(ot_build *b)
{
    const gelu_attrs *a = b->node->attrs;
    int row = a->approximate ? OT_FN_GeluTanh : OT_FN_Gelu;
    ot_yield(b, 0, ot_map1(b, row, 0, 0, b->node->in[0]));
}

const ot_op ot_op_Gelu = {
    .name = "Gelu",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 20,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = gelu,
    .attr_size = sizeof(gelu_attrs),
    .infer = ot_elementwise_infer,
    .lower = gelu_lower,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_pointwise,
};

static void detach_lower(ot_build *b) { ot_yield(b, 0, ot_map1(b, OT_FN_Detach, 0, 0, b->node->in[0])); }

const ot_op ot_op_Detach = {
    .name = "Detach",
    .types = { "T", .T = OT_SET_NUMBER },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .batch = ot_batch_pointwise,
    .infer = ot_elementwise_infer,
    .lower = detach_lower,
    .grad_zero = "the program detached it",
};

static void isnan_lower(ot_build *b) { ot_elementwise_lower(b, OT_FN_IsNaN); }
static void not_lower(ot_build *b) { ot_elementwise_lower(b, OT_FN_Not); }

const ot_op ot_op_IsNaN = {
    .name = "IsNaN",
    .types = { "T", .T = OT_SET_FLOAT | OT_SET_FLOAT8 },
    .slots = "-",
    .since = 20,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .infer = ot_elementwise_infer_truth,
    .lower = isnan_lower,
    .gives = "b",
    .batch = ot_batch_pointwise,
};

const ot_op ot_op_Not = {
    .name = "Not",
    .types = { "b" },
    .since = 1,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .infer = ot_elementwise_infer_truth,
    .lower = not_lower,
    .gives = "b",
    .batch = ot_batch_pointwise,
};

typedef struct isinf_attrs {
    int64_t positive, negative;
} isinf_attrs;

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
    .name = "IsInf",
    .types = { "T", .T = OT_SET_FLOAT | OT_SET_FLOAT8 },
    .slots = "-",
    .since = 20,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .attrs = isinf_rows,
    .attr_size = sizeof(isinf_attrs),
    .infer = ot_elementwise_infer_truth,
    .lower = isinf_lower,
    .gives = "b",
    .batch = ot_batch_pointwise,
};
