/* choice.c - test rows of Where, Clip, Cast, Dropout. */
#include "tests/ops/case.h"

const ot_case ot_cases_Where[] = {
    { .name = "values", .in = "bool[3]~1,0,1 f32[3]~1,2,3 f32[3]~4,5,6", .out = "f32[3]", .y = "1,5,3", .dx = "- 1,0,1 0,1,0" },
    { .name = "broadcast_data", .in = "bool[2,3,4] f32[4] f32[3,1]", .out = "f32[2,3,4]" },
    { .name = "broadcast_condition", .in = "bool[3,1] f32[2,3,4] f32[]", .out = "f32[2,3,4]" },
    { .name = "scalars", .in = "bool[40,50] f32[]=1 f32[]=0", .out = "f32[40,50]" },
    { .name = "ints", .in = "bool[3]~1,0,1 i64[3]~9007199254740993,2,3 i64[1]~-1", .out = "i64[3]", .y = "9007199254740993,-1,3" },
    { .name = "bools", .in = "bool[2]~1,0 bool[2]~0,0 bool[2]~1,1", .out = "bool[2]", .y = "0,1" },
    { .name = "hides_nan", .in = "bool[2]~0,1 f32[2]~nan,1 f32[2]~2,nan", .out = "f32[2]", .y = "2,1" },
    { .name = "half", .in = "bool[7] f16[7] f16[7]", .out = "f16[7]", .grad16 = true },
    { .name = "empty", .in = "bool[0] f32[1] f32[]", .out = "f32[0]" },
    { .name = "condition_type", .in = "f32[2] f32[2] f32[2]", .fail = OT_E_MODEL },
    { .name = "clash", .in = "bool[2] f32[3] f32[3]", .fail = OT_E_MODEL },
    { 0 },
};

const ot_case ot_cases_Clip[] = {
    { .name = "bounds", .in = "f32[5]~-2,-1,0,1,2 f32[]=-1 f32[]=1", .out = "f32[5]", .y = "-1,-1,0,1,1", .dx = "0,0,1,0,0" },
    { .name = "min_only", .in = "f32[3]~-2,0,2 f32[]=-1", .out = "f32[3]", .y = "-1,0,2" },
    { .name = "max_only", .in = "f32[3]~-2,0,2 - f32[]=1", .out = "f32[3]", .y = "-2,0,1" },
    { .name = "none", .in = "f32[3]~-inf,0,inf", .out = "f32[3]", .y = "-inf,0,inf", .no_grad = "infinities" },
    { .name = "crossed", .in = "f32[3]~-2,0,2 f32[]=2 f32[]=1", .out = "f32[3]", .y = "1,1,1", .dx = "0,0,0" },
    { .name = "nan", .in = "f32[2]~nan,3 f32[]=-1 f32[]=1", .out = "f32[2]", .y = "nan,1", .no_grad = "NaN" },
    { .name = "fed_bounds", .in = "f32[3]~-2,0,2 f32[]~-1 f32[]~1", .out = "f32[3]", .y = "-1,0,1", .dx = "0,1,0 1 1" },
    { .name = "bound_of_rank_1", .in = "f32[3,4] f32[1]=-0.5 f32[1]=0.5", .out = "f32[3,4]" },
    { .name = "int8", .in = "i8[4]~-128,-2,2,127 i8[]=-100", .out = "i8[4]", .y = "-100,-2,2,127" },
    { .name = "uint64", .in = "u64[2]~18446744073709551615,3 u64[]=4", .out = "u64[2]", .y = "18446744073709551615,4" },
    { .name = "int64_max", .in = "i64[2]~-5,9007199254740993 - i64[]=7", .out = "i64[2]", .y = "-5,7" },
    { .name = "half", .in = "f16[9] f16[]=-0.25 -", .out = "f16[9]" },
    { .name = "empty", .in = "f32[0,3] f32[]=0", .out = "f32[0,3]" },
    { .name = "bound_shape", .in = "f32[3] f32[3]=0", .fail = OT_E_MODEL },
    { .name = "bound_type", .in = "f32[3] f64[]=0", .fail = OT_E_MODEL },
    { 0 },
};

const ot_case ot_cases_Cast[] = {
    { .name = "to_double", .attrs = "to=11", .in = "f32[3,4]", .out = "f64[3,4]" },
    { .name = "truncates", .attrs = "to=6", .in = "f32[6]~1.9,-1.9,0.5,nan,3e9,-inf", .out = "i32[6]", .y = "1,-1,0,0,-1294967296,0", .no_grad = "steps" },
    { .name = "to_uint8", .attrs = "to=2", .in = "f32[4]~255.7,256,-1,3", .out = "u8[4]", .y = "255,0,255,3" },
    { .name = "to_uint64", .attrs = "to=13", .in = "f32[3]~1e19,3e19,-1", .out = "u64[3]", .y = "9999999980506447872,18446744073709551615,18446744073709551615" },
    { .name = "to_int64", .attrs = "to=7", .in = "f64[3]~1e30,-1e30,5.5", .out = "i64[3]", .y = "9223372036854775807,-9223372036854775808,5" },
    { .name = "to_bool", .attrs = "to=9", .in = "f32[5]~0,-0.0,0.1,nan,-3", .out = "bool[5]", .y = "0,0,1,1,1" },
    { .name = "from_bool", .attrs = "to=1", .in = "bool[3]~0,1,1", .out = "f32[3]", .y = "0,1,1" },
    { .name = "from_uint8", .attrs = "to=1", .in = "u8[3,1031]", .out = "f32[3,1031]" },
    { .name = "from_uint64", .attrs = "to=1", .in = "u64[2]~18446744073709551615,7", .out = "f32[2]", .y = "1.8446744073709552e19,7" },
    { .name = "from_int64", .attrs = "to=1", .in = "i64[2]~16777217,-3", .out = "f32[2]", .y = "16777216,-3" },
    { .name = "int64_to_int8", .attrs = "to=3", .in = "i64[3]~128,-129,5", .out = "i8[3]", .y = "-128,127,5" },
    { .name = "uint32_to_int16", .attrs = "to=5", .in = "u32[2]~4294967295,70000", .out = "i16[2]", .y = "-1,4464" },
    { .name = "to_half", .attrs = "to=10", .in = "f32[5]~65504,65520,1e-8,2049,-inf", .out = "f16[5]", .y = "65504,inf,0,2048,-inf", .no_grad = "rounds" },
    { .name = "double_to_half", .attrs = "to=10", .in = "f64[2]~1.00048828125000001,2", .out = "f16[2]", .y = "1,2", .no_grad = "rounds" },
    { .name = "half_to_float", .attrs = "to=1", .in = "f16[2,1031](-9,9)", .out = "f32[2,1031]", .grad16 = true },
    { .name = "to_bfloat", .attrs = "to=16", .in = "f32[4]~1.00390625,1.01171875,3e38,nan", .out = "bf16[4]", .y = "1,1.015625,3e38,nan", .no_grad = "rounds" },
    { .name = "bfloat_to_half", .attrs = "to=10", .in = "bf16[35](-9,9)", .out = "f16[35]", .grad16 = true },
    { .name = "to_float8", .attrs = "to=17", .in = "f32[4]~448,1000,nan,0.3", .out = "f8e4m3fn[4]", .y = "448,448,nan,0.3125", .no_grad = "rounds" },
    { .name = "to_float8_unsaturated", .attrs = "to=17 saturate=0", .in = "f32[3]~448,1000,-inf", .out = "f8e4m3fn[3]", .y = "448,nan,nan", .no_grad = "rounds" },
    { .name = "to_float8_infinite", .attrs = "to=19 saturate=0", .in = "f32[3]~1e6,-1e6,1", .out = "f8e5m2[3]", .y = "inf,-inf,1", .no_grad = "rounds" },
    { .name = "from_float8", .attrs = "to=1", .in = "f8e5m2[3]~0.25,inf,-3", .out = "f32[3]", .y = "0.25,inf,-3" },
    { .name = "same", .attrs = "to=1", .in = "f32[3]", .out = "f32[3]" },
    { .name = "empty", .attrs = "to=7", .in = "f32[0,4]", .out = "i64[0,4]" },
    { .name = "to_nothing", .attrs = "to=0", .in = "f32[3]", .fail = OT_E_MODEL },
    { .name = "to_string", .attrs = "to=8", .in = "f32[3]", .fail = OT_E_MODEL },
    { 0 },
};

const ot_case ot_cases_CastLike[] = {
    { .name = "to_double", .in = "f32[3,4] f64[]", .out = "f64[3,4]" },
    { .name = "to_int", .in = "f32[2]~1.5,-2.5 i32[7]", .out = "i32[2]", .y = "1,-2" },
    { .name = "unsaturated", .attrs = "saturate=0", .in = "f32[2]~1e6,1 f8e5m2[1]", .out = "f8e5m2[2]", .y = "inf,1", .no_grad = "rounds" },
    { 0 },
};

/* ratio 1 and 0 have one right answer; between them kernels agree with the reference on the mask, and the
 * gradient is that of the same mask. */
const ot_case ot_cases_Dropout[] = {
    { .name = "evaluation", .in = "f32[3,4]", .out = "f32[3,4] bool[3,4]" },
    { .name = "no_mask", .in = "f32[3,4] f32[]=0.9", .out = "f32[3,4]" },
    { .name = "off", .in = "f32[3]~1,2,3 f32[]=0.9 bool[]=0", .out = "f32[3]", .y = "1,2,3" },
    { .name = "ratio_0", .in = "f32[3]~1,2,3 f32[]=0 bool[]=1", .out = "f32[3] bool[3]", .y = "1,2,3" },
    { .name = "ratio_1", .in = "f32[3]~1,2,3 f32[]=1 bool[]=1", .out = "f32[3] bool[3]", .y = "0,0,0", .dx = "0,0,0" },
    { .name = "half", .in = "f32[6,5,4,3] f32[]=0.5 bool[]=1", .out = "f32[6,5,4,3] bool[6,5,4,3]" },
    { .name = "some", .in = "f32[3,1031] f32[]=0.2 bool[]=1", .out = "f32[3,1031]" },
    { .name = "default_ratio", .in = "f32[5,7] - bool[]=1", .out = "f32[5,7] bool[5,7]" },
    { .name = "float16", .in = "f16[30] f32[]=0.2 bool[]=1", .out = "f16[30]" },
    { .name = "empty", .in = "f32[0,7] f32[]=0.2 bool[]=1", .out = "f32[0,7]" },
    { .name = "bad_ratio", .in = "f32[3] f32[]=1.5 bool[]=1", .fail = OT_E_MODEL },
    { .name = "fed_mode", .in = "f32[3] f32[]=0.5 bool[]~1", .fail = OT_E_MODEL },
    { 0 },
};
