/* norm2.c - rows of the rarer normalisations and poolings, and of integer products. */
#include "case.h"

const ot_case ot_cases_LRN[] = {
    { .name = "plain", .attrs = "size=3", .in = "f32[2,5,3,4](0.5,2)", .out = "f32[2,5,3,4]" },
    { .name = "known", .attrs = "size=1 alpha=3 beta=1 bias=1", .in = "f32[1,2]~1,2", .out = "f32[1,2]", .y = "0.25,0.1538461538" },
    { .name = "even", .attrs = "size=4 alpha=0.5 beta=0.5 bias=2", .in = "f32[2,6,3]", .out = "f32[2,6,3]" },
    { .name = "wider_than_channels", .attrs = "size=9 alpha=0.1", .in = "f32[1,3,2]", .out = "f32[1,3,2]" },
    { .name = "no_size", .in = "f32[1,3,2]", .fail = OT_E_MODEL },
    { .name = "bad_rank", .attrs = "size=3", .in = "f32[3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_LpPool[] = {
    { .name = "plain", .attrs = "kernel_shape=[2]", .in = "f32[1,1,3]~3,4,0", .out = "f32[1,1,2]", .y = "5,4" },
    { .name = "one", .attrs = "kernel_shape=[2,2] p=1 strides=[2,2]", .in = "f32[2,3,4,6]", .out = "f32[2,3,2,3]", .off = 0.1 },
    { .name = "three", .attrs = "kernel_shape=[3] p=3 pads=[1,1]", .in = "f32[1,2,5]", .out = "f32[1,2,5]", .off = 0.1 },
    { .name = "ceil", .attrs = "kernel_shape=[3,3] strides=[2,2] ceil_mode=1", .in = "f32[1,2,6,6]", .out = "f32[1,2,3,3]", .off = 0.1 },
    { .name = "dilated", .attrs = "kernel_shape=[2,2] dilations=[2,2]", .in = "f32[1,2,4,4]", .out = "f32[1,2,2,2]", .off = 0.1 },
    { .name = "bad_p", .attrs = "kernel_shape=[2] p=0", .in = "f32[1,1,3]", .fail = OT_E_MODEL },
    { .name = "no_kernel_shape", .in = "f32[1,1,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_GlobalLpPool[] = {
    { .name = "plain", .in = "f32[1,2,2]~3,4,6,8", .out = "f32[1,2,1]", .y = "5,10", .dx = "0.6,0.8,0.6,0.8" },
    { .name = "one", .attrs = "p=1", .in = "f32[2,3,4,5]", .out = "f32[2,3,1,1]", .off = 0.1 },
    { .name = "three", .attrs = "p=3", .in = "f32[2,3,4]", .out = "f32[2,3,1]", .off = 0.1 },
    { .name = "bad_rank", .in = "f32[3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_LpNormalization[] = {
    { .name = "plain", .in = "f32[1,2]~3,4", .out = "f32[1,2]", .y = "0.6,0.8" },
    { .name = "first_axis", .attrs = "axis=0", .in = "f32[3,4]", .out = "f32[3,4]" },
    { .name = "one", .attrs = "p=1 axis=1", .in = "f32[2,3,4]", .out = "f32[2,3,4]", .off = 0.1 },
    { .name = "zeros", .in = "f32[1,2]~0,0", .out = "f32[1,2]", .y = "0,0", .dx = "1,1" },
    { .name = "bad_p", .attrs = "p=3", .in = "f32[1,2]", .fail = OT_E_MODEL },
    { .name = "bad_axis", .attrs = "axis=2", .in = "f32[1,2]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_MeanVarianceNormalization[] = {
    { .name = "plain", .in = "f32[2,3,4,5]", .out = "f32[2,3,4,5]" },
    { .name = "axes", .attrs = "axes=[1,-1]", .in = "f32[2,3,4]", .out = "f32[2,3,4]" },
    { .name = "known", .attrs = "axes=[0]", .in = "f32[2]~1,3", .out = "f32[2]", .y = "-1,1", .no_grad = "two values have no gradient but 0" },
    { .name = "bad_axis", .in = "f32[2,3]", .fail = OT_E_MODEL },
    { .name = "axis_twice", .attrs = "axes=[0,-2]", .in = "f32[2,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Hardmax[] = {
    { .name = "plain", .in = "f32[2,3]~1,3,2,5,4,5", .out = "f32[2,3]", .y = "0,1,0,1,0,0", .no_grad = "a step function" },
    { .name = "axis", .attrs = "axis=0", .in = "f32[3,1]~1,3,2", .out = "f32[3,1]", .y = "0,1,0", .no_grad = "a step function" },
    { .name = "no_rows", .in = "f32[0,3]", .out = "f32[0,3]", .no_grad = "a step function" },
    { .name = "no_classes", .in = "f32[3,0]", .out = "f32[3,0]", .no_grad = "a step function" },
    { .name = "bad_axis", .attrs = "axis=2", .in = "f32[2,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_MatMulInteger[] = {
    { .name = "plain", .in = "u8[1,2]~200,3 i8[2,1]~-100,5", .out = "i32[1,1]", .y = "-19985" },
    { .name = "zero_points", .in = "u8[1,2]~12,13 u8[2,1]~4,5 u8[]~10 u8[1]~2", .out = "i32[1,1]", .y = "13" },
    { .name = "per_row", .in = "u8[2,1]~12,13 u8[1,2]~4,5 u8[2]~10,11 u8[2]~2,3", .out = "i32[2,2]", .y = "4,4,4,4" },
    { .name = "batched", .in = "u8[3,2,4] i8[4,5]", .out = "i32[3,2,5]" },
    { .name = "bad_zero_point", .in = "u8[2,1] u8[1,2] u8[3]", .fail = OT_E_MODEL },
    { .name = "bad_inner", .in = "u8[2,3] u8[2,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_ConvInteger[] = {
    { .name = "plain", .in = "u8[1,1,2,2]~2,3,4,5 u8[1,1,2,2]=1 u8[]~1", .out = "i32[1,1,1,1]", .y = "10" },
    { .name = "padded", .attrs = "pads=[1,1,1,1]", .in = "u8[1,1,1,1]~7 u8[1,1,2,2]=1 u8[]~5", .out = "i32[1,1,2,2]", .y = "2,2,2,2" },
    { .name = "per_filter", .in = "u8[1,1,1]~3 u8[2,1,1]~5,6 u8[]~1 u8[2]~1,2", .out = "i32[1,2,1]", .y = "8,8" },
    { .name = "bad_zero_point", .in = "u8[1,1,1] u8[2,1,1] u8[2]", .fail = OT_E_MODEL },
    { .name = "bad_channels", .in = "u8[1,3,1] u8[2,1,1]", .fail = OT_E_MODEL },
    { 0 }
};
