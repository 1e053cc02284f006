/* reduce.c - rows of the Reduce family. */
#include "case.h"

const ot_case ot_cases_ReduceSum[] = {
    { .name = "all", .in = "f32[2,2]~1,2,3,4", .out = "f32[1,1]", .y = "10", .dx = "1,1,1,1" },
    { .name = "rows", .in = "f32[3,40] i64[1]=1", .attrs = "keepdims=0", .out = "f32[3]" },
    { .name = "columns", .in = "f32[300,40] i64[1]=0", .attrs = "keepdims=0", .out = "f32[40]", .no_grad = "rows has it" },
    { .name = "bias", .in = "f32[4,3,5,5] i64[3]=0,2,3", .attrs = "keepdims=0", .out = "f32[3]" },
    { .name = "middle", .in = "f32[4,5,6] i64[1]=1", .out = "f32[4,1,6]" },
    { .name = "outer_and_inner", .in = "f32[4,5,6] i64[2]=-1,0", .out = "f32[1,5,1]" },
    { .name = "large", .in = "f32[300000]", .out = "f32[1]", .no_grad = "large" },
    { .name = "large_columns", .in = "f32[20000,7] i64[1]=0", .out = "f32[1,7]", .no_grad = "large" },
    { .name = "large_bias", .in = "f32[40,3,700] i64[2]=0,2", .out = "f32[1,3,1]", .no_grad = "large" },
    { .name = "large_half_columns", .in = "f16[7000,16](0,1) i64[1]=0", .out = "f16[1,16]", .no_grad = "large" },
    { .name = "large_bfloat_rows", .in = "bf16[2,80000](0,1) i64[1]=1", .out = "bf16[2,1]", .no_grad = "large" },
    { .name = "large_double", .in = "f64[2,50001] i64[1]=1", .out = "f64[2,1]", .no_grad = "large" },
    { .name = "large_integers", .in = "i32[3,30001] i64[1]=1", .out = "i32[3,1]" },
    { .name = "large_bytes", .in = "u32[9000,48] i64[1]=0", .out = "u32[1,48]" },
    { .name = "large_middle", .in = "f32[6,1500,40] i64[1]=1", .out = "f32[6,1,40]", .no_grad = "large" },
    { .name = "no_axes_no_op", .in = "f32[2,3]", .attrs = "noop_with_empty_axes=1", .out = "f32[2,3]" },
    { .name = "empty_axes", .in = "f32[2,3] i64[0]=", .out = "f32[1,1]" },
    { .name = "empty_axes_no_op", .in = "f32[2,3] i64[0]=", .attrs = "noop_with_empty_axes=1", .out = "f32[2,3]" },
    { .name = "scalar", .in = "f32[]~3", .out = "f32[]", .y = "3" },
    { .name = "of_nothing", .in = "f32[2,0,3] i64[1]=1", .out = "f32[2,1,3]", .y = "0,0,0,0,0,0", .no_grad = "nothing goes in" },
    { .name = "empty_result", .in = "f32[0,3] i64[1]=1", .out = "f32[0,1]" },
    { .name = "integers", .in = "i32[2,2]~1,2,3,4 i64[1]=0", .attrs = "keepdims=0", .out = "i32[2]", .y = "4,6" },
    { .name = "half", .in = "f16[4]~2048,1,1,1", .out = "f16[1]", .y = "2052" },
    { .name = "double", .in = "f64[5,6] i64[1]=0", .out = "f64[1,6]" },
    { .name = "infinity", .in = "f32[3]~1,inf,2", .out = "f32[1]", .y = "inf", .no_grad = "not finite" },
    { .name = "bad_axis", .in = "f32[2] i64[1]=1", .fail = OT_E_MODEL },
    { .name = "axis_twice", .in = "f32[2,3] i64[2]=1,-1", .fail = OT_E_MODEL },
    { .name = "unknown_axes", .in = "f32[2,3] i64[1]~1", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_ReduceMean[] = {
    { .name = "all", .in = "f32[2,2]~1,2,3,6", .out = "f32[1,1]", .y = "3", .dx = "0.25,0.25,0.25,0.25" },
    { .name = "spatial", .in = "f32[2,3,4,5] i64[2]=2,3", .attrs = "keepdims=0", .out = "f32[2,3]" },
    { .name = "bfloat_spatial", .in = "bf16[2,3,4,5] i64[2]=2,3", .out = "bf16[2,3,1,1]", .grad16 = true },
    { .name = "last", .in = "f32[4,7] i64[1]=-1", .out = "f32[4,1]" },
    { .name = "one_element", .in = "f32[4,1] i64[1]=1", .out = "f32[4,1]" },
    { .name = "half_would_overflow", .in = "f16[4]~60000,60000,60000,60000", .out = "f16[1]", .y = "60000" },
    { .name = "integers", .in = "i32[3]~1,2,5", .out = "i32[1]", .y = "2" },
    { .name = "no_integers", .in = "i32[0]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_ReduceMax[] = {
    { .name = "large", .in = "f32[3,50000] i64[1]=1", .out = "f32[3,1]", .no_grad = "large" },
    { .name = "large_integers", .in = "i64[20000,3] i64[1]=0", .out = "i64[1,3]" },
    { .name = "ties", .in = "f32[4]~1,5,5,2", .out = "f32[1]", .y = "5", .dx = "0,0.5,0.5,0" },
    { .name = "rows", .in = "f32[3,40] i64[1]=1", .attrs = "keepdims=0", .out = "f32[3]" },
    { .name = "columns", .in = "f32[70,9] i64[1]=0", .out = "f32[1,9]" },
    { .name = "middle_ties", .in = "f32[1,3,2]~1,4,1,4,0,4 i64[1]=1", .attrs = "keepdims=0", .out = "f32[1,2]", .y = "1,4",
      .dx = "0.5,0.3333333333,0.5,0.3333333333,0,0.3333333333" },
    { .name = "nan", .in = "f32[40]~nan i64[1]=0", .out = "f32[1]", .y = "nan", .no_grad = "not finite" },
    { .name = "of_nothing", .in = "f32[0,2] i64[1]=0", .out = "f32[1,2]", .y = "-inf,-inf", .no_grad = "nothing goes in" },
    { .name = "integers", .in = "i8[3]~-5,-7,-6", .out = "i8[1]", .y = "-5" },
    { .name = "no_integers", .in = "i8[0]", .out = "i8[1]", .y = "-128" },
    { .name = "unsigned", .in = "u64[2]~3,18446744073709551615", .out = "u64[1]", .y = "18446744073709551615" },
    { .name = "bool", .in = "bool[2,2]~0,0,1,0 i64[1]=1", .attrs = "keepdims=0", .out = "bool[2]", .y = "0,1" },
    { 0 }
};

const ot_case ot_cases_ReduceMin[] = {
    { .name = "ties", .in = "f32[4]~1,5,1,1", .out = "f32[1]", .y = "1", .dx = "0.3333333333,0,0.3333333333,0.3333333333" },
    { .name = "rows", .in = "f32[3,40] i64[1]=1", .out = "f32[3,1]" },
    { .name = "columns", .in = "f32[70,9] i64[1]=0", .out = "f32[1,9]" },
    { .name = "of_nothing", .in = "f32[0]", .out = "f32[1]", .y = "inf", .no_grad = "nothing goes in" },
    { .name = "integers", .in = "u8[3]~5,7,6", .out = "u8[1]", .y = "5" },
    { .name = "bool", .in = "bool[2,2]~0,1,1,1 i64[1]=1", .attrs = "keepdims=0", .out = "bool[2]", .y = "0,1" },
    { 0 }
};

const ot_case ot_cases_ReduceProd[] = {
    { .name = "plain", .in = "f32[3]~2,3,4", .out = "f32[1]", .y = "24", .dx = "12,8,6" },
    { .name = "one_zero", .in = "f32[3]~2,0,4", .out = "f32[1]", .y = "0", .dx = "0,8,0" },
    { .name = "two_zeros", .in = "f32[3]~0,0,4", .out = "f32[1]", .y = "0", .dx = "0,0,0" },
    { .name = "rows", .in = "f32[3,5](0.5,1.5) i64[1]=1", .out = "f32[3,1]" },
    { .name = "columns", .in = "f32[5,3](0.5,1.5) i64[1]=0", .out = "f32[1,3]" },
    { .name = "of_nothing", .in = "f32[0,2] i64[1]=0", .out = "f32[1,2]", .y = "1,1", .no_grad = "nothing goes in" },
    { .name = "integers", .in = "i64[3]~2,-3,4", .out = "i64[1]", .y = "-24" },
    { 0 }
};

const ot_case ot_cases_ReduceL1[] = {
    { .name = "all", .in = "f32[2,3]", .out = "f32[1,1]", .off = 0.05 },
    { .name = "axis", .in = "f32[2,3,4] i64[1]=1", .attrs = "keepdims=0", .out = "f32[2,4]", .off = 0.05 },
    { .name = "integers", .in = "i32[3]~1,-2,-5", .out = "i32[1]", .y = "8" },
    { .name = "at_zero", .in = "f32[3]~0,-2,0", .out = "f32[1]", .y = "2", .dx = "0,-1,0" },
    { 0 }
};

const ot_case ot_cases_ReduceL2[] = {
    { .name = "all", .in = "f32[2]~3,4", .out = "f32[1]", .y = "5", .dx = "0.6,0.8" },
    { .name = "axis", .in = "f32[2,3,4] i64[1]=-1", .attrs = "keepdims=0", .out = "f32[2,3]" },
    { .name = "zeros", .in = "f32[3]~0,0,0", .out = "f32[1]", .y = "0", .dx = "0,0,0" },
    { .name = "half_would_overflow", .in = "f16[2]~300,400", .out = "f16[1]", .y = "500" },
    { .name = "integers", .in = "i32[2]~3,4", .out = "i32[1]", .y = "5" },
    { 0 }
};

const ot_case ot_cases_ReduceLogSum[] = {
    { .name = "all", .in = "f32[2,3](0.5,2)", .out = "f32[1,1]" },
    { .name = "axis", .in = "f32[2,3](0.5,2) i64[1]=0", .attrs = "keepdims=0", .out = "f32[3]" },
    { .name = "of_nothing", .in = "f32[2,0] i64[1]=1", .attrs = "keepdims=0", .out = "f32[2]", .y = "-inf,-inf",
      .no_grad = "nothing goes in" },
    { 0 }
};

const ot_case ot_cases_ReduceLogSumExp[] = {
    { .name = "all", .in = "f32[2,3]", .out = "f32[1,1]" },
    { .name = "axis", .in = "f32[2,3,4] i64[1]=1", .attrs = "keepdims=0", .out = "f32[2,4]" },
    { .name = "large", .in = "f32[2]~1000,1000", .out = "f32[1]", .y = "1000.693147", .dx = "0.5,0.5" },
    { .name = "very_small", .in = "f32[2]~-1000,-1000", .out = "f32[1]", .y = "-999.306853", .dx = "0.5,0.5" },
    { .name = "minus_infinity", .in = "f32[2]~-inf,-inf", .out = "f32[1]", .y = "-inf", .no_grad = "not finite" },
    { .name = "one_minus_infinity", .in = "f32[2]~-inf,2", .out = "f32[1]", .y = "2", .dx = "0,1" },
    { .name = "infinity", .in = "f32[2]~inf,2", .out = "f32[1]", .y = "inf", .no_grad = "not finite" },
    { .name = "no_op_axes", .in = "f32[2,3]", .attrs = "noop_with_empty_axes=1", .out = "f32[2,3]" },
    { 0 }
};

const ot_case ot_cases_ReduceSumSquare[] = {
    { .name = "all", .in = "f32[2,3]", .out = "f32[1,1]" },
    { .name = "axes", .in = "f32[2,3,4] i64[2]=0,2", .attrs = "keepdims=0", .out = "f32[3]" },
    { .name = "integers", .in = "i64[3]~1,-2,3", .out = "i64[1]", .y = "14" },
    { 0 }
};
