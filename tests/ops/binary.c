/* binary.c - test rows of the operators of two or more inputs. */
#include "tests/ops/case.h"

/* Broadcasting from either side, in the middle, against a scalar, against nothing. */
#define BROADCASTS(range)                                                                          \
    { .name = "same", .in = "f32[3,4]" range " f32[3,4]" range, .out = "f32[3,4]" },               \
    { .name = "bias", .in = "f32[2,3,4,5]" range " f32[5]" range, .out = "f32[2,3,4,5]" },         \
    { .name = "channel", .in = "f32[2,3,4,5]" range " f32[3,1,1]" range, .out = "f32[2,3,4,5]" },  \
    { .name = "both", .in = "f32[4,1,3]" range " f32[2,1]" range, .out = "f32[4,2,3]" },           \
    { .name = "left", .in = "f32[7]" range " f32[5,7]" range, .out = "f32[5,7]" },                 \
    { .name = "scalar", .in = "f32[]" range " f32[2,1,3]" range, .out = "f32[2,1,3]" },            \
    { .name = "constant", .in = "f32[3,4]" range " f32[]=1.5", .out = "f32[3,4]" },                \
    { .name = "many", .in = "f32[17,67]" range " f32[17,1]" range, .out = "f32[17,67]" },          \
    { .name = "large", .in = "f32[5,1,41]" range " f32[33,1]" range, .out = "f32[5,33,41]" },     \
    { .name = "empty", .in = "f32[2,0,3] f32[3]", .out = "f32[2,0,3]" },                           \
    { .name = "half", .in = "f16[3,4]" range " f16[4]" range, .out = "f16[3,4]", .grad16 = true }, \
    { .name = "bfloat", .in = "bf16[3,4]" range " bf16[3,1]" range, .out = "bf16[3,4]" },          \
    { .name = "clash", .in = "f32[3,4] f32[3]", .fail = OT_E_MODEL },                              \
    { .name = "types", .in = "f32[3] f64[3]", .fail = OT_E_MODEL }

const ot_case ot_cases_Add[] = {
    BROADCASTS(""),
    { .name = "uint8", .in = "u8[3]~250,1,2 u8[]~10", .out = "u8[3]", .y = "4,11,12" },
    { .name = "int64", .in = "i64[2]~9223372036854775807,1 i64[2]~1,1", .out = "i64[2]", .y = "-9223372036854775808,2" },
    { 0 },
};
const ot_case ot_cases_Sub[] = {
    BROADCASTS(""),
    { .name = "int32", .in = "i32[2]~-2147483648,1 i32[2]~1,3", .out = "i32[2]", .y = "2147483647,-2" },
    { 0 },
};
const ot_case ot_cases_Mul[] = {
    BROADCASTS(""),
    { .name = "int16", .in = "i16[2]~300,-2 i16[2]~300,7", .out = "i16[2]", .y = "24464,-14" },
    { 0 },
};
const ot_case ot_cases_Div[] = {
    BROADCASTS("(0.5,2)"),
    { .name = "by_zero", .in = "f32[3]~1,-1,0 f32[3]~0,0,0", .out = "f32[3]", .y = "inf,-inf,nan", .no_grad = "infinite" },
    { .name = "truncates", .in = "i32[4]~7,-7,7,-7 i32[4]~2,2,-2,-2", .out = "i32[4]", .y = "3,-3,-3,3" },
    { .name = "ints_by_zero", .in = "i64[2]~5,-9223372036854775808 i64[2]~0,-1", .out = "i64[2]", .y = "0,-9223372036854775808" },
    { .name = "uint64", .in = "u64[2]~18446744073709551615,6 u64[2]~1,4", .out = "u64[2]", .y = "18446744073709551615,1" },
    { 0 },
};
const ot_case ot_cases_Max[] = {
    BROADCASTS(""),
    { .name = "one", .in = "f32[3]", .out = "f32[3]" },
    { .name = "three", .in = "f32[2,3] f32[3] f32[2,1]", .out = "f32[2,3]" },
    { .name = "tie", .in = "f32[3]~1,2,3 f32[3]~1,5,0", .out = "f32[3]", .y = "1,5,3", .dx = "0.5,0,1 0.5,1,0" },
    { .name = "nan", .in = "f32[3]~nan,1,2 f32[3]~1,nan,1", .out = "f32[3]", .y = "nan,nan,2", .no_grad = "NaN" },
    { .name = "uint64", .in = "u64[2]~18446744073709551615,1 u64[2]~5,7", .out = "u64[2]", .y = "18446744073709551615,7" },
    { 0 },
};
const ot_case ot_cases_Min[] = {
    BROADCASTS(""),
    { .name = "three", .in = "f32[2,3] f32[3] f32[2,1]", .out = "f32[2,3]" },
    { .name = "tie", .in = "f32[3]~1,2,3 f32[3]~1,5,0", .out = "f32[3]", .y = "1,2,0", .dx = "0.5,1,0 0.5,0,1" },
    { .name = "nan", .in = "f32[3]~nan,1,2 f32[3]~1,nan,1", .out = "f32[3]", .y = "nan,nan,1", .no_grad = "NaN" },
    { .name = "int8", .in = "i8[2]~-5,1 i8[2]~5,-7", .out = "i8[2]", .y = "-5,-7" },
    { 0 },
};
const ot_case ot_cases_Sum[] = {
    BROADCASTS(""),
    { .name = "one", .in = "f32[3]", .out = "f32[3]" },
    { .name = "four", .in = "f32[2,3] f32[3] f32[2,1] f32[]", .out = "f32[2,3]" },
    { 0 },
};
const ot_case ot_cases_Mean[] = {
    BROADCASTS(""),
    { .name = "one", .in = "f32[3]", .out = "f32[3]" },
    { .name = "three", .in = "f32[2]~1,2 f32[2]~4,5 f32[1]~1", .out = "f32[2]", .y = "2,2.6666667" },
    { 0 },
};
const ot_case ot_cases_Pow[] = {
    { .name = "same", .in = "f32[3,4](0.3,3) f32[3,4](-2,3)", .out = "f32[3,4]" },
    { .name = "exponent_broadcast", .in = "f32[3,4](0.3,3) f32[4](-2,3)", .out = "f32[3,4]" },
    { .name = "base_broadcast", .in = "f32[4](0.3,3) f32[3,1](-2,3)", .out = "f32[3,4]" },
    { .name = "square", .in = "f32[3,4] f32[]=2", .out = "f32[3,4]" },
    { .name = "cube", .in = "f32[3,4] f32[1]=3", .out = "f32[3,4]" },
    { .name = "half_power", .in = "f32[3](0.5,2) f32[]=0.5", .out = "f32[3]" },
    { .name = "inverse", .in = "f32[3](0.5,2) f32[]=-1", .out = "f32[3]" },
    { .name = "inverse_root", .in = "f32[3](0.5,2) f32[]=-0.5", .out = "f32[3]" },
    { .name = "first", .in = "f32[3] f32[]=1", .out = "f32[3]" },
    { .name = "zeroth", .in = "f32[3]~0,1,2 f32[]=0", .out = "f32[3]", .y = "1,1,1", .dx = "0,0,0" },
    { .name = "odd_power", .in = "f32[3](0.5,2) f32[]=2.7", .out = "f32[3]" },
    { .name = "fourth", .in = "f32[5] f32[]=4", .out = "f32[5]" },
    { .name = "wider_exponent", .in = "f32[3] f32[1,1]=2", .out = "f32[1,3]" },
    { .name = "int_exponent", .in = "f32[3](0.5,2) i64[3]~2,3,-1", .out = "f32[3]" },
    { .name = "at_zero", .in = "f32[4]~0,0,2,-3 f32[4]~0,2,0,2", .out = "f32[4]", .y = "1,0,1,9", .dx = "0,0,0,-6 0,0,0.69314718056,nan" },
    { .name = "int_base", .in = "i32[3]~1,2,3 f32[3]~4,5,6", .out = "i32[3]", .y = "1,32,729" },
    { .name = "ints", .in = "i64[4]~2,-3,5,-1 i64[4]~62,3,-1,-3", .out = "i64[4]", .y = "4611686018427387904,-27,0,-1" },
    { .name = "empty", .in = "f32[0] f32[1]", .out = "f32[0]" },
    { 0 },
};
const ot_case ot_cases_PRelu[] = {
    { .name = "channel", .in = "f32[2,3,4] f32[3,1]", .out = "f32[2,3,4]", .off = 0.05 },
    { .name = "single", .in = "f32[2,3] f32[1]", .out = "f32[2,3]", .off = 0.05 },
    { .name = "kink", .in = "f32[3]~-2,0,2 f32[3]~0.5,0.5,0.5", .out = "f32[3]", .y = "-1,0,2", .dx = "0.5,0.5,1 -2,0,0" },
    { .name = "ints", .in = "i32[2]~-3,4 i32[1]~2", .out = "i32[2]", .y = "-6,4" },
    { .name = "slope_too_big", .in = "f32[3] f32[2,3]", .fail = OT_E_MODEL },
    { 0 },
};
const ot_case ot_cases_Mod[] = {
    { .name = "sign_of_divisor", .in = "i32[4]~-4,7,5,-7 i32[4]~2,-3,8,3", .out = "i32[4]", .y = "0,-2,5,2" },
    { .name = "fmod_ints", .attrs = "fmod=1", .in = "i64[4]~-4,7,5,-7 i64[4]~3,-3,8,3", .out = "i64[4]", .y = "-1,1,5,-1" },
    { .name = "fmod", .attrs = "fmod=1", .in = "f32[3]~-4.3,7.2,5 f32[3]~2.1,-3.4,8", .out = "f32[3]", .y = "-0.1,0.4,5" },
    { .name = "fmod_gradient", .attrs = "fmod=1", .in = "f32[4](5,5.9) f32[4](1.4,1.6)", .out = "f32[4]" },
    { .name = "by_zero", .in = "i32[1]~3 i32[1]~0", .out = "i32[1]", .y = "0" },
    { .name = "unsigned", .in = "u8[2]~250,7 u8[]~9", .out = "u8[2]", .y = "7,7" },
    { 0 },
};
const ot_case ot_cases_BitShift[] = {
    { .name = "left", .attrs = "direction=LEFT", .in = "u8[3]~16,4,1 u8[3]~1,2,9", .out = "u8[3]", .y = "32,16,0" },
    { .name = "right", .attrs = "direction=RIGHT", .in = "u64[2]~18446744073709551615,4 u64[2]~63,64", .out = "u64[2]", .y = "1,0" },
    { 0 },
};

/* Whole numbers from a small range, so that ties occur. */
#define COMPARES                                                                                   \
    { .name = "floats", .in = "f32[3]~1,2,3 f32[3]~2,2,2", .out = "bool[3]", .no_grad = "steps" }, \
    { .name = "nan", .in = "f32[2]~nan,1 f32[2]~1,nan", .out = "bool[2]", .no_grad = "NaN" },      \
    { .name = "ints", .in = "i32[3,700] i32[700]", .out = "bool[3,700]" },                         \
    { .name = "uint64", .in = "u64[5,3,7] u64[3,1]", .out = "bool[5,3,7]" },                       \
    { .name = "half", .in = "f16[40] f16[40]", .out = "bool[40]" },                                \
    { .name = "empty", .in = "f32[0,2] f32[2]", .out = "bool[0,2]" }

const ot_case ot_cases_Equal[] = {
    COMPARES,
    { .name = "values", .in = "f32[4]~1,2,nan,-0.0 f32[4]~1,3,nan,0", .out = "bool[4]", .y = "1,0,0,1" },
    { .name = "bools", .in = "bool[2]~1,0 bool[2]~1,1", .out = "bool[2]", .y = "1,0" },
    { 0 },
};
const ot_case ot_cases_Greater[] = { COMPARES, { .name = "values", .in = "f32[3]~1,2,3 f32[]~2", .out = "bool[3]", .y = "0,0,1" }, { 0 } };
const ot_case ot_cases_GreaterOrEqual[] = { COMPARES, { .name = "values", .in = "f32[3]~1,2,3 f32[]~2", .out = "bool[3]", .y = "0,1,1" }, { 0 } };
const ot_case ot_cases_Less[] = { COMPARES, { .name = "values", .in = "f32[3]~1,2,3 f32[]~2", .out = "bool[3]", .y = "1,0,0" }, { 0 } };
const ot_case ot_cases_LessOrEqual[] = { COMPARES, { .name = "values", .in = "f32[3]~1,2,3 f32[]~2", .out = "bool[3]", .y = "1,1,0" }, { 0 } };

#define LOGIC(op, result)                                                                          \
    const ot_case ot_cases_##op[] = {                                                              \
        { .name = "table", .in = "bool[4]~0,0,1,1 bool[4]~0,1,0,1", .out = "bool[4]", .y = result }, \
        { .name = "broadcast", .in = "bool[3,1,700] bool[2,1]", .out = "bool[3,2,700]" },          \
        { 0 },                                                                                     \
    };
LOGIC(And, "0,0,0,1")
LOGIC(Or, "0,1,1,1")
LOGIC(Xor, "0,1,1,0")

#define BITS(op, result)                                                                           \
    const ot_case ot_cases_##op[] = {                                                              \
        { .name = "int8", .in = "i8[2]~-1,6 i8[2]~5,3", .out = "i8[2]", .y = result },             \
        { .name = "broadcast", .in = "u16[3,1,700] u16[2,1]", .out = "u16[3,2,700]" },             \
        { .name = "uint64", .in = "u64[9] u64[9]", .out = "u64[9]" },                              \
        { 0 },                                                                                     \
    };
BITS(BitwiseAnd, "5,2")
BITS(BitwiseOr, "-1,7")
BITS(BitwiseXor, "-6,5")
