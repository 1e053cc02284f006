/* quantize.c - rows of the quantising operators. */
#include "case.h"

#define NO_GRAD .no_grad = "an integer has no gradient"

const ot_case ot_cases_QuantizeLinear[] = {
    { .name = "plain", .in = "f32[6]~0,2,3,1000,-254,-1000 f32[]~2 u8[]~128", .out = "u8[6]", .y = "128,129,130,255,1,0", NO_GRAD },
    { .name = "to_even", .in = "f32[4]~0.5,1.5,2.5,-0.5 f32[]~1", .out = "u8[4]", .y = "0,2,2,0", NO_GRAD },
    { .name = "signed", .in = "f32[4]~1,-1,300,-300 f32[1]~0.5 i8[1]~3", .out = "i8[4]", .y = "5,1,127,-128", NO_GRAD },
    { .name = "sixteen", .in = "f32[3]~1,1e6,-1e6 f32[]~1 i16[]~5", .out = "i16[3]", .y = "6,32767,-32768", NO_GRAD },
    { .name = "sixteen_unsigned", .in = "f32[3]~1,1e6,-1e6 f32[]~1 u16[]~5", .out = "u16[3]", .y = "6,65535,0", NO_GRAD },
    { .name = "axis", .in = "f32[1,2,2]~1,2,3,4 f32[2]~1,2 u8[2]~0,10", .out = "u8[1,2,2]", .y = "1,2,12,12", NO_GRAD },
    { .name = "negative_axis", .attrs = "axis=-1", .in = "f32[2,2]~1,2,3,4 f32[2]~1,2", .out = "u8[2,2]", .y = "1,1,3,2", NO_GRAD },
    { .name = "blocked", .attrs = "axis=1 block_size=2", .in = "f32[1,3]~4,8,9 f32[1,2]~4,3", .out = "u8[1,3]", .y = "1,2,3", NO_GRAD },
    { .name = "output_dtype", .attrs = "output_dtype=3", .in = "f32[2]~1,-1 f32[]~1", .out = "i8[2]", .y = "1,-1", NO_GRAD },
    { .name = "integers", .in = "i32[2]~10,-3 f32[]~2 i8[]~0", .out = "i8[2]", .y = "5,-2", NO_GRAD },
    { .name = "small_float", .in = "f32[2]~3,-1 f32[]~2 f8e5m2[]~0", .out = "f8e5m2[2]", .y = "1.5,-0.5", .no_grad = "its input is rounded" },
    { .name = "empty", .in = "f32[0,3] f32[]~2", .out = "u8[0,3]", NO_GRAD },
    { .name = "bad_scale", .in = "f32[2,3] f32[2]~1,1", .fail = OT_E_MODEL },
    { .name = "bad_type", .attrs = "output_dtype=7", .in = "f32[2,3] f32[]~1", .fail = OT_E_MODEL },
    { .name = "bad_axis", .attrs = "axis=2", .in = "f32[2,3] f32[3]~1,1,1", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_DequantizeLinear[] = {
    { .name = "plain", .in = "u8[4]~0,3,128,255 f32[]~2 u8[]~128", .out = "f32[4]", .y = "-256,-250,0,254", NO_GRAD },
    { .name = "no_zero_point", .in = "i8[2]~-128,127 f32[1]~0.5", .out = "f32[2]", .y = "-64,63.5", NO_GRAD },
    { .name = "axis", .in = "u8[1,2,2]~1,2,3,4 f32[2]~1,2 u8[2]~0,1", .out = "f32[1,2,2]", .y = "1,2,4,6", NO_GRAD },
    { .name = "blocked", .attrs = "axis=0 block_size=2", .in = "i8[3,1]~1,2,3 f32[2,1]~10,100", .out = "f32[3,1]", .y = "10,20,300", NO_GRAD },
    { .name = "large", .in = "i32[2]~2000000001,5 f32[]~1 i32[]~2000000000", .out = "f32[2]", .y = "1,-1999999995", NO_GRAD },
    { .name = "half", .in = "i8[1]~3 f16[]~0.5", .out = "f16[1]", .y = "1.5", NO_GRAD },
    { .name = "small_float", .in = "f8e4m3fn[2]~1.5,-2 f32[]~2", .out = "f32[2]", .y = "3,-4", NO_GRAD },
    { .name = "bad_zero_point", .in = "u8[2] f32[]~1 i8[]~0", .fail = OT_E_MODEL },
    { .name = "bad_block", .attrs = "block_size=2", .in = "u8[2,4] f32[2,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_DynamicQuantizeLinear[] = {
    { .name = "plain", .in = "f32[6]~0,2,-3,-2.5,1.34,0.5", .out = "u8[6] f32[] u8[]", .y = "153,255,0,26,221,179", NO_GRAD },
    { .name = "positive", .in = "f32[2]~1,2.55", .out = "u8[2] f32[] u8[]", .y = "100,255", NO_GRAD },
    { .name = "bad_type", .in = "f16[2]", .out = "u8[2] f32[] u8[]", .fail = OT_E_MODEL },
    { 0 }
};
