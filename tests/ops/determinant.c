/* determinant.c - rows of Det, CumProd, Col2Im and MaxUnpool. */
#include "case.h"

const ot_case ot_cases_Det[] = {
    { .name = "two", .in = "f32[2,2]~1,2,3,4", .out = "f32[]", .y = "-2", .dx = "4,-3,-2,1", .cpu = true },
    { .name = "batch", .in = "f32[2,3,4,4]", .out = "f32[2,3]", .cpu = true },
    { .name = "seven", .in = "f64[2,7,7]", .out = "f64[2]", .cpu = true },
    { .name = "one", .in = "f32[3,1,1]", .out = "f32[3]", .cpu = true },
    { .name = "order", .in = "f32[3,3]~0,0,1,1,0,0,0,1,0", .out = "f32[]", .y = "1", .dx = "0,0,1,1,0,0,0,1,0" },
    { .name = "singular", .in = "f32[3,3]~1,2,3,2,4,6,1,0,1", .out = "f32[]", .y = "0", .dx = "4,4,-4,-2,-2,2,0,0,0", .cpu = true },
    { .name = "zero_column", .in = "f32[2,2]~0,2,0,3", .out = "f32[]", .y = "0", .dx = "3,0,-2,0", .cpu = true },
    { .name = "rank_one", .in = "f32[3,3]~1,1,1,1,1,1,1,1,1", .out = "f32[]", .y = "0", .dx = "0,0,0,0,0,0,0,0,0", .cpu = true },
    { .name = "zeros", .in = "f32[2,2]~0", .out = "f32[]", .y = "0", .dx = "0,0,0,0", .cpu = true },
    { .name = "half", .in = "f16[3,3]", .out = "f16[]", .tol = 1e-2, .cpu = true },
    { .name = "nothing", .in = "f32[2,0,0]", .out = "f32[2]", .y = "1,1" },
    { .name = "no_batch", .in = "f32[0,3,3]", .out = "f32[0]", .cpu = true },
    { .name = "not_square", .in = "f32[3,2]", .fail = OT_E_MODEL },
    { .name = "vector", .in = "f32[3]", .fail = OT_E_MODEL },
    { .name = "too_many_rows", .in = "f32[0,2000,2000]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_CumProd[] = {
    { .name = "plain", .in = "f32[5]~1,2,3,4,5 i64[]=0", .out = "f32[5]", .y = "1,2,6,24,120", .cpu = true },
    { .name = "axis", .in = "f32[3,7,2] i64[]=1", .out = "f32[3,7,2]" },
    { .name = "negative_axis", .in = "f32[3,7] i32[1]=-1", .out = "f32[3,7]", .cpu = true },
    { .name = "reverse", .in = "f32[3,6] i64[]=1", .attrs = "reverse=1", .out = "f32[3,6]", .cpu = true },
    { .name = "exclusive", .in = "f32[4]~2,3,4,5 i64[]=0", .attrs = "exclusive=1", .out = "f32[4]", .y = "1,2,6,24", .cpu = true },
    { .name = "exclusive_reverse", .in = "f32[4]~2,3,4,5 i64[]=0", .attrs = "exclusive=1 reverse=1", .out = "f32[4]", .y = "60,20,5,1", .cpu = true },
    { .name = "zeros", .in = "f32[2,4]~1,0,2,3,0,4,0,5 i64[]=1", .out = "f32[2,4]", .dx = "1,9,0,0,5,0,0,0 -", .cpu = true },
    { .name = "integers", .in = "i32[4]~3,3,-2,1000000000 i64[]=0", .out = "i32[4]", .y = "3,9,-18,-820130816", .cpu = true },
    { .name = "unsigned", .in = "u64[3]~3,5,7 i64[]=0", .out = "u64[3]", .y = "3,15,105", .cpu = true },
    { .name = "half", .in = "bf16[3,3] i64[]=0", .out = "bf16[3,3]", .tol = 1e-2, .cpu = true },
    { .name = "one", .in = "f32[3,1] i64[]=1", .attrs = "exclusive=1", .out = "f32[3,1]", .y = "1,1,1", .dx = "0,0,0 -", .cpu = true },
    { .name = "empty", .in = "f32[3,0] i64[]=1", .attrs = "exclusive=1", .out = "f32[3,0]", .cpu = true },
    { .name = "no_axis", .in = "f32[3] i64[]=1", .fail = OT_E_MODEL },
    { .name = "unknown_axis", .in = "f32[3] i64[]~0", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Col2Im[] = {
    { .name = "plain", .in = "f32[2,12,6] i64[2]=3,4 i64[2]=2,2", .out = "f32[2,3,3,4]", .cpu = true },
    { .name = "values", .in = "f32[1,2,3]~1,2,3,4,5,6 i64[1]=4 i64[1]=2", .out = "f32[1,1,4]", .y = "1,6,8,6", .dx = "1,1,1,1,1,1 - -", .cpu = true },
    { .name = "apart", .in = "f32[2,12,4] i64[2]=4,5 i64[2]=2,2", .attrs = "strides=[2,3]", .out = "f32[2,3,4,5]", .cpu = true },
    { .name = "pads", .in = "f32[2,18,20] i64[2]=4,4 i64[2]=3,3", .attrs = "pads=[1,0,1,3]", .out = "f32[2,2,4,4]" },
    { .name = "dilations", .in = "f32[1,8,12] i64[2]=6,6 i64[2]=2,4", .attrs = "dilations=[2,1]", .out = "f32[1,1,6,6]", .cpu = true },
    { .name = "one_side", .in = "f32[1,6,12] i64[2]=5,4 i64[2]=3,2", .attrs = "pads=[1,0,1,0] strides=[1,1] dilations=[2,1]", .fail = OT_E_MODEL },
    { .name = "all", .in = "f32[1,6,8] i64[2]=5,5 i64[2]=3,2", .attrs = "pads=[2,1,1,2] strides=[1,2] dilations=[2,3]", .fail = OT_E_MODEL },
    { .name = "all_three", .in = "f32[1,12,6] i64[2]=5,5 i64[2]=3,2", .attrs = "pads=[1,1,0,2] strides=[1,2] dilations=[2,3]", .out = "f32[1,2,5,5]", .cpu = true },
    { .name = "volume", .in = "f32[1,16,12] i64[3]=2,3,4 i64[3]=1,2,2", .attrs = "pads=[0,0,0,0,0,0]", .out = "f32[1,4,2,3,4]", .cpu = true },
    { .name = "integers", .in = "u8[1,2,3]~1,2,3,4,5,6 i64[1]=4 i64[1]=2", .out = "u8[1,1,4]", .y = "1,6,8,6", .cpu = true },
    { .name = "far_pads", .in = "f32[1,2,7] i64[1]=2 i64[1]=2", .attrs = "pads=[3,3]", .out = "f32[1,1,2]", .cpu = true },
    { .name = "half", .in = "f16[1,4,6] i64[2]=3,4 i64[2]=2,2", .out = "f16[1,1,3,4]", .tol = 1e-2, .cpu = true },
    { .name = "no_batch", .in = "f32[0,12,6] i64[2]=3,4 i64[2]=2,2", .out = "f32[0,3,3,4]", .cpu = true },
    { .name = "wrong_blocks", .in = "f32[2,12,5] i64[2]=3,4 i64[2]=2,2", .fail = OT_E_MODEL },
    { .name = "wrong_channels", .in = "f32[2,10,6] i64[2]=3,4 i64[2]=2,2", .fail = OT_E_MODEL },
    { .name = "unknown_shape", .in = "f32[2,12,6] i64[2]~3,4 i64[2]=2,2", .fail = OT_E_MODEL },
    { .name = "too_large", .in = "f32[2,12,6] i64[2]=3,4 i64[2]=2000000000,2000000000", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_MaxUnpool[] = {
    { .name = "plain", .in = "f32[1,1,2,2]~1,2,3,4 i64[1,1,2,2]~5,7,13,15", .attrs = "kernel_shape=[2,2] strides=[2,2]", .out = "f32[1,1,4,4]",
      .y = "0,0,0,0,0,1,0,2,0,0,0,0,0,3,0,4", .cpu = true },
    { .name = "planes", .in = "f32[2,2,2]  i64[2,2,2]~0,3,5,6,8,11,12,15", .attrs = "kernel_shape=[2] strides=[2]", .out = "f32[2,2,4]", .cpu = true },
    { .name = "output_shape", .in = "f32[1,1,2,2]~1,2,3,4 i64[1,1,2,2]~5,7,13,15 i64[4]=1,1,5,5", .attrs = "kernel_shape=[2,2] strides=[2,2]",
      .out = "f32[1,1,5,5]", .y = "0,0,0,0,0,0,1,0,2,0,0,0,0,0,0,0,3,0,4,0,0,0,0,0,0", .dx = "1,1,1,1 - -" },
    { .name = "pads", .in = "f32[1,1,3] i64[1,1,3]~0,1,3", .attrs = "kernel_shape=[3] strides=[2] pads=[1,1]", .out = "f32[1,1,5]", .cpu = true },
    { .name = "constant", .in = "f32[1,1,2] i64[1,1,2]=1,2", .attrs = "kernel_shape=[2] strides=[2]", .out = "f32[1,1,4]", .cpu = true },
    { .name = "twice", .in = "f32[1,1,2]~3,4 i64[1,1,2]~1,1", .attrs = "kernel_shape=[2]", .out = "f32[1,1,3]", .y = "0,4,0", .dx = "1,1 -", .cpu = true },
    { .name = "volume", .in = "f32[1,1,1,2,1] i64[1,1,1,2,1]~3,6", .attrs = "kernel_shape=[2,2,2] strides=[2,2,2]", .out = "f32[1,1,2,4,2]", .cpu = true },
    { .name = "half", .in = "f16[1,1,2] i64[1,1,2]~1,2", .attrs = "kernel_shape=[2] strides=[2]", .out = "f16[1,1,4]", .cpu = true },
    { .name = "no_batch", .in = "f32[0,1,2] i64[0,1,2]", .attrs = "kernel_shape=[2] strides=[2]", .out = "f32[0,1,4]", .cpu = true },
    { .name = "outside", .in = "f32[1,1,2] i64[1,1,2]~1,4", .attrs = "kernel_shape=[2] strides=[2]", .out = "f32[1,1,4]", .fail_run = OT_E_DATA },
    { .name = "outside_constant", .in = "f32[1,1,2] i64[1,1,2]=1,4", .attrs = "kernel_shape=[2] strides=[2]", .fail = OT_E_MODEL },
    { .name = "small_output", .in = "f32[1,1,2] i64[1,1,2]~1,2 i64[3]=1,1,3", .attrs = "kernel_shape=[2] strides=[2]", .fail = OT_E_MODEL },
    { .name = "wrong_indices", .in = "f32[1,1,2] i64[1,2,1]", .attrs = "kernel_shape=[2]", .fail = OT_E_MODEL },
    { 0 }
};
