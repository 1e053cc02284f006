/* unary.c - test rows of the operators of one input. */
#include "tests/ops/case.h"

#define EXTREMES "f32[8]~-inf,-1000,-90,-0.0,0,90,1000,inf"

/* Every operator: a vector longer than a vector register, a broadcastable nothing, a scalar, half floats. */
#define COMMON(range, away)                                                                        \
    { .name = "nchw", .in = "f32[2,3,4,5]" range, .out = "f32[2,3,4,5]", .off = away },            \
    { .name = "empty", .in = "f32[2,0,3]", .out = "f32[2,0,3]" },                                  \
    { .name = "scalar", .in = "f32[]" range, .out = "f32[]", .off = away },                        \
    { .name = "half", .in = "f16[19]" range, .out = "f16[19]", .off = away, .grad16 = true },      \
    { .name = "bfloat", .in = "bf16[3,5]" range, .out = "bf16[3,5]", .off = away },                \
    { .name = "double", .in = "f64[3,5]" range, .out = "f64[3,5]", .off = away }
#define ROWS(op, range, away, ...) \
    const ot_case ot_cases_##op[] = { COMMON(range, away), __VA_ARGS__, { 0 } };

#define NO_TERMS { .name = "vector", .in = "f32[1031]", .out = "f32[1031]" }

ROWS(Abs, "", 0.1,
    { .name = "values", .in = "f32[5]~-2,-0.0,0,3,-inf", .out = "f32[5]", .y = "2,0,0,3,inf", .no_grad = "a kink and an infinity" },
    { .name = "kink", .in = "f32[3]~-2,0,3", .out = "f32[3]", .y = "2,0,3", .dx = "-1,0,1" },
    { .name = "int8", .in = "i8[4]~-128,-3,0,5", .out = "i8[4]", .y = "-128,3,0,5" },
    { .name = "int64", .in = "i64[2]~-9007199254740000,7", .out = "i64[2]", .y = "9007199254740000,7" })
ROWS(Neg, "", 0,
    { .name = "int32", .in = "i32[3]~-2147483648,5,0", .out = "i32[3]", .y = "-2147483648,-5,0" })
ROWS(Sign, "", 0.1,
    { .name = "values", .in = "f32[4]~-2,0,0.5,inf", .out = "f32[4]", .y = "-1,0,1,1", .no_grad = "a step at 0" },
    { .name = "unsigned", .in = "u8[2]~0,255", .out = "u8[2]", .y = "0,1" })
ROWS(Sqrt, "(0.2,4)", 0, { .name = "values", .in = "f32[4]~0,4,-1,inf", .out = "f32[4]", .y = "0,2,nan,inf", .no_grad = "infinite at 0" })
ROWS(Reciprocal, "", 0.3, { .name = "values", .in = "f32[3]~4,-0.5,0", .out = "f32[3]", .y = "0.25,-2,inf", .no_grad = "infinite at 0" })
ROWS(Exp, "", 0, { .name = "extremes", .in = EXTREMES, .out = "f32[8]", .no_grad = "overflows" })
ROWS(Log, "(0.2,4)", 0, { .name = "values", .in = "f32[4]~0,1,-1,inf", .out = "f32[4]", .y = "-inf,0,nan,inf", .no_grad = "infinite at 0" })
ROWS(Erf, "(-3,3)", 0, { .name = "extremes", .in = EXTREMES, .out = "f32[8]", .y = "-1,-1,-1,-0,0,1,1,1", .no_grad = "infinities" })
ROWS(Tanh, "(-3,3)", 0, { .name = "extremes", .in = EXTREMES, .out = "f32[8]", .y = "-1,-1,-1,-0,0,1,1,1", .no_grad = "infinities" })
ROWS(Sigmoid, "(-4,4)", 0,
    { .name = "extremes", .in = EXTREMES, .out = "f32[8]", .y = "0,0,8.194e-40,0.5,0.5,1,1,1", .no_grad = "infinities" },
    { .name = "slopes", .in = "f32[4]~-1000,0,1000,90", .out = "f32[4]", .dx = "0,0.25,0,0" })
ROWS(Relu, "", 0.1,
    { .name = "values", .in = "f32[5]~-2,0,3,nan,inf", .out = "f32[5]", .y = "0,0,3,nan,inf", .no_grad = "NaN" },
    { .name = "kink", .in = "f32[3]~-1,0,2", .out = "f32[3]", .dx = "0,0,1" },
    { .name = "int32", .in = "i32[3]~-5,0,6", .out = "i32[3]", .y = "0,0,6" })
ROWS(LeakyRelu, "", 0.1,
    { .name = "alpha", .attrs = "alpha=0.2", .in = "f32[3,4]", .out = "f32[3,4]", .off = 0.1 },
    { .name = "kink", .attrs = "alpha=0.5", .in = "f32[3]~-2,0,4", .out = "f32[3]", .y = "-1,0,4", .dx = "0.5,0.5,1" })
ROWS(Elu, "(-3,3)", 0.1,
    { .name = "alpha", .attrs = "alpha=0.7", .in = "f32[11](-3,3)", .out = "f32[11]", .off = 0.1 },
    { .name = "extremes", .in = "f32[3]~-inf,1000,-1000", .out = "f32[3]", .y = "-1,1000,-1", .no_grad = "infinities" })
ROWS(Celu, "(-3,3)", 0.1,
    { .name = "alpha", .attrs = "alpha=2.5", .in = "f32[11](-3,3)", .out = "f32[11]", .off = 0.1 })
ROWS(Selu, "(-3,3)", 0.1,
    { .name = "both", .attrs = "alpha=2 gamma=3", .in = "f32[2]~-inf,1", .out = "f32[2]", .y = "-6,3", .no_grad = "infinities" },
    { .name = "gradient", .attrs = "alpha=2 gamma=3", .in = "f32[7](-3,3)", .out = "f32[7]", .off = 0.1 })
ROWS(ThresholdedRelu, "(-3,3)", 0,
    { .name = "alpha", .attrs = "alpha=2", .in = "f32[4]~1.9,2,2.1,-5", .out = "f32[4]", .y = "0,0,2.1,0", .dx = "0,0,1,0" })
ROWS(HardSigmoid, "", 0,
    { .name = "clipped", .attrs = "alpha=0.5 beta=0.6", .in = "f32[3]~-1,1,0", .out = "f32[3]", .y = "0.1,1,0.6", .dx = "0.5,0,0.5" },
    { .name = "wide", .in = "f32[64](-5,5)", .out = "f32[64]" })
ROWS(HardSwish, "(-2.9,2.9)", 0,
    { .name = "values", .in = "f32[5]~-4,-3,0,3,4", .out = "f32[5]", .y = "0,0,0,3,4", .dx = "0,0,0.5,1,1" })
ROWS(Gelu, "(-4,4)", 0,
    { .name = "tanh", .attrs = "approximate=tanh", .in = "f32[5,7](-4,4)", .out = "f32[5,7]" },
    { .name = "tanh_values", .attrs = "approximate=tanh", .in = "f32[3]~-1,0,1", .out = "f32[3]", .y = "-0.158808,0,0.841192" },
    { .name = "erf_values", .in = "f32[3]~-1,0,1", .out = "f32[3]", .y = "-0.15865526,0,0.84134475" },
    { .name = "bad_name", .attrs = "approximate=none", .in = "i64[2]", .fail = OT_E_MODEL })
ROWS(Softplus, "(-4,4)", 0,
    { .name = "extremes", .in = EXTREMES, .out = "f32[8]", .y = "0,0,8.194e-40,0.6931472,0.6931472,90,1000,inf", .no_grad = "infinities" },
    { .name = "slopes", .in = "f32[4]~-1000,0,90,1000", .out = "f32[4]", .dx = "0,0.5,1,1" })
ROWS(Softsign, "", 0.1, { .name = "kink", .in = "f32[3]~-1,0,1", .out = "f32[3]", .y = "-0.5,0,0.5", .dx = "0.25,1,0.25" })
ROWS(Swish, "(-4,4)", 0,
    { .name = "alpha", .attrs = "alpha=1.702", .in = "f32[9](-4,4)", .out = "f32[9]" },
    { .name = "large", .in = "f32[4]~-1000,-90,90,1000", .out = "f32[4]", .y = "-0,-7.37e-38,90,1000" })
ROWS(Mish, "(-4,4)", 0,
    { .name = "large", .in = "f32[4]~-1000,-90,90,1000", .out = "f32[4]", .y = "-0,-7.37e-38,90,1000", .dx = "0,-7.3e-38,1,1" },
    { .name = "values", .in = "f32[3]~-1,0,1", .out = "f32[3]", .y = "-0.30340146,0,0.8650984" })
ROWS(Shrink, "(-3,3)", 0,
    { .name = "both", .attrs = "lambd=1.5 bias=1.5", .in = "f32[5]~-2,-1,0,1,2", .out = "f32[5]", .y = "-0.5,0,0,0,0.5", .dx = "1,0,0,0,1" },
    { .name = "integers", .attrs = "lambd=1.5", .in = "i32[4]~-2,-1,1,2", .out = "i32[4]", .y = "-2,0,0,2" },
    { .name = "unsigned", .attrs = "lambd=1.5", .in = "u8[3]~0,1,2", .out = "u8[3]", .y = "0,0,2" })
const ot_case ot_cases_Detach[] = {
    { .name = "values", .in = "f32[4]~-1.5,0,2,inf", .out = "f32[4]", .y = "-1.5,0,2,inf", .no_grad = "none flows back" },
    { .name = "half", .in = "f16[19]", .out = "f16[19]", .no_grad = "none flows back" },
    { .name = "empty", .in = "f32[2,0,3]", .out = "f32[2,0,3]", .no_grad = "none flows back" },
    { .name = "integers", .in = "i64[2]~-3,7", .out = "i64[2]", .y = "-3,7" }, { 0 },
};
ROWS(Floor, "", 0.01, { .name = "values", .in = "f32[4]~-1.5,-0.5,1.5,2", .out = "f32[4]", .y = "-2,-1,1,2", .no_grad = "steps" })
ROWS(Ceil, "", 0.01, { .name = "values", .in = "f32[4]~-1.5,-0.5,1.5,2", .out = "f32[4]", .y = "-1,-0,2,2", .no_grad = "steps" })
ROWS(Round, "(0.1,0.4)", 0, { .name = "half_to_even", .in = "f32[6]~0.5,1.5,2.5,-0.5,-1.5,2.6", .out = "f32[6]", .y = "0,2,2,-0,-2,3", .no_grad = "steps" })
ROWS(Sin, "(-7,7)", 0, NO_TERMS)
ROWS(Cos, "(-7,7)", 0, NO_TERMS)
ROWS(Tan, "", 0, NO_TERMS)
ROWS(Asin, "(-0.9,0.9)", 0, { .name = "outside", .in = "f32[3]~-1,2,0", .out = "f32[3]", .y = "-1.5707964,nan,0", .no_grad = "infinite at the ends" })
ROWS(Acos, "(-0.9,0.9)", 0, { .name = "outside", .in = "f32[3]~1,2,0", .out = "f32[3]", .y = "0,nan,1.5707964", .no_grad = "infinite at the ends" })
ROWS(Atan, "(-9,9)", 0, NO_TERMS)
ROWS(Sinh, "(-3,3)", 0, NO_TERMS)
ROWS(Cosh, "(-3,3)", 0, NO_TERMS)
ROWS(Asinh, "(-9,9)", 0, NO_TERMS)
ROWS(Acosh, "(1.2,9)", 0, { .name = "outside", .in = "f32[2]~1,0.5", .out = "f32[2]", .y = "0,nan", .no_grad = "infinite at 1" })
ROWS(Atanh, "(-0.9,0.9)", 0, { .name = "ends", .in = "f32[3]~-1,1,2", .out = "f32[3]", .y = "-inf,inf,nan", .no_grad = "infinite at the ends" })

const ot_case ot_cases_BitwiseNot[] = {
    { .name = "int8", .in = "i8[3]~0,-1,5", .out = "i8[3]", .y = "-1,0,-6" },
    { .name = "uint8", .in = "u8[3]~0,255,5", .out = "u8[3]", .y = "255,0,250" },
    { .name = "uint64", .in = "u64[1]~0", .out = "u64[1]", .y = "18446744073709551615" },
    { 0 },
};
const ot_case ot_cases_IsNaN[] = {
    { .name = "values", .in = "f32[4]~nan,1,inf,0", .out = "bool[4]", .y = "1,0,0,0" },
    { .name = "half", .in = "f16[2]~nan,1", .out = "bool[2]", .y = "1,0" },
    { 0 },
};
const ot_case ot_cases_IsInf[] = {
    { .name = "both", .in = "f32[4]~-inf,inf,nan,0", .out = "bool[4]", .y = "1,1,0,0" },
    { .name = "positive", .attrs = "detect_negative=0", .in = "f32[3]~-inf,inf,3e38", .out = "bool[3]", .y = "0,1,0" },
    { .name = "negative", .attrs = "detect_positive=0", .in = "f64[3]~-inf,inf,1e300", .out = "bool[3]", .y = "1,0,0" },
    { 0 },
};
const ot_case ot_cases_Not[] = {
    { .name = "values", .in = "bool[2]~0,1", .out = "bool[2]", .y = "1,0" },
    { .name = "large", .in = "bool[3,1021]", .out = "bool[3,1021]" },
    { 0 },
};
