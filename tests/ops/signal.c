/* signal.c - rows of DFT, STFT, the windows and MelWeightMatrix. */
#include "case.h"

const ot_case ot_cases_DFT[] = {
    { .name = "real", .in = "f32[2,7,1]", .out = "f32[2,7,2]", .cpu = true },
    { .name = "complex", .in = "f32[2,6,2]", .out = "f32[2,6,2]", .cpu = true },
    { .name = "values", .in = "f32[4,1]~1,2,3,4", .out = "f32[4,2]", .y = "10,0,-2,2,-2,0,-2,-2", .dx = "4,0,0,0", .cpu = true },
    { .name = "inverse", .in = "f32[2,6,2]", .attrs = "inverse=1", .out = "f32[2,6,2]" },
    { .name = "inverse_values", .in = "f32[4,2]~10,0,-2,2,-2,0,-2,-2", .attrs = "inverse=1", .out = "f32[4,2]", .y = "1,0,2,0,3,0,4,0", .cpu = true },
    { .name = "onesided", .in = "f32[2,7,1]", .attrs = "onesided=1", .out = "f32[2,4,2]", .cpu = true },
    { .name = "onesided_inverse", .in = "f32[2,5,2]", .attrs = "onesided=1 inverse=1", .out = "f32[2,8,1]", .cpu = true },
    { .name = "onesided_inverse_odd", .in = "f32[2,5,2] i64[]=9", .attrs = "onesided=1 inverse=1", .out = "f32[2,9,1]", .cpu = true },
    { .name = "onesided_inverse_values", .in = "f32[3,2]~10,0,-2,2,-2,0", .attrs = "onesided=1 inverse=1", .out = "f32[4,1]", .y = "1,2,3,4", .cpu = true },
    { .name = "onesided_inverse_real", .in = "f32[3,1]~4,0,0", .attrs = "onesided=1 inverse=1", .out = "f32[4,1]", .y = "1,1,1,1", .cpu = true },
    { .name = "axis", .in = "f32[5,3,2] - i64[]=0", .out = "f32[5,3,2]", .cpu = true },
    { .name = "axis_of_four", .in = "f32[2,5,3,1] - i64[]=-3", .attrs = "onesided=1", .out = "f32[2,3,3,2]", .cpu = true },
    { .name = "longer", .in = "f32[2,3,1] i32[]=8", .out = "f32[2,8,2]", .cpu = true },
    { .name = "shorter", .in = "f32[2,9,2] i64[]=4", .out = "f32[2,4,2]", .cpu = true },
    { .name = "split", .in = "f32[2,2048,1]", .out = "f32[2,2048,2]", .no_grad = "large", .tol = 1e-3, .cpu = true },
    { .name = "split_complex", .in = "f64[1,1536,2]", .attrs = "inverse=1", .out = "f64[1,1536,2]", .cpu = true },
    { .name = "split_onesided", .in = "f64[1,3000,1]", .attrs = "onesided=1", .out = "f64[1,1501,2]", .cpu = true },
    { .name = "split_onesided_inverse", .in = "f64[1,1101,2]", .attrs = "onesided=1 inverse=1", .out = "f64[1,2200,1]", .cpu = true },
    { .name = "split_onesided_inverse_odd", .in = "f64[1,1101,1] i64[]=2205", .attrs = "onesided=1 inverse=1", .out = "f64[1,2205,1]", .cpu = true },
    { .name = "half", .in = "f16[2,4,1]", .out = "f16[2,4,2]", .tol = 1e-2, .cpu = true },
    { .name = "one", .in = "f32[2,1,1]", .out = "f32[2,1,2]", .cpu = true },
    { .name = "no_batch", .in = "f32[0,4,1]", .out = "f32[0,4,2]", .cpu = true },
    { .name = "from_nothing", .in = "f32[2,0,1] i64[]=3", .out = "f32[2,3,2]", .cpu = true },
    { .name = "nothing", .in = "f32[2,0,1]", .fail = OT_E_MODEL },
    { .name = "three_parts", .in = "f32[2,4,3]", .fail = OT_E_MODEL },
    { .name = "last_axis", .in = "f32[2,4,2] - i64[]=-1", .fail = OT_E_MODEL },
    { .name = "onesided_complex", .in = "f32[2,4,2]", .attrs = "onesided=1", .fail = OT_E_MODEL },
    { .name = "unknown_length", .in = "f32[2,4,2] i64[]~4", .fail = OT_E_MODEL },
    { .name = "too_long", .in = "f32[2,4,2] i64[]=1000000000000", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_STFT[] = {
    { .name = "window", .in = "f32[2,10,1] i64[]=3 f32[4]", .out = "f32[2,3,3,2]" },
    { .name = "flat", .in = "f32[2,10] i64[]=3 f32[4] i64[]=4", .out = "f32[2,3,3,2]", .cpu = true },
    { .name = "both_sides", .in = "f32[2,9,1] i64[]=2 f32[5]", .attrs = "onesided=0", .out = "f32[2,3,5,2]", .cpu = true },
    { .name = "complex", .in = "f32[2,9,2] i64[]=2 f32[5]", .attrs = "onesided=0", .out = "f32[2,3,5,2]", .cpu = true },
    { .name = "length", .in = "f32[2,10,1] i32[]=6 - i32[]=4", .out = "f32[2,2,3,2]", .cpu = true },
    { .name = "whole", .in = "f32[2,6,1] i64[]=1", .out = "f32[2,1,4,2]", .cpu = true },
    { .name = "values", .in = "f32[1,3,1]~1,2,4 i64[]=1 f32[2]~1,0.5", .out = "f32[1,2,2,2]", .y = "2,0,0,0,4,0,0,0", .cpu = true },
    { .name = "half", .in = "f16[1,8,1] i64[]=4 f16[4]", .out = "f16[1,2,3,2]", .tol = 1e-2, .cpu = true },
    { .name = "no_batch", .in = "f32[0,10,1] i64[]=3 f32[4]", .out = "f32[0,3,3,2]", .cpu = true },
    { .name = "complex_onesided", .in = "f32[2,9,2] i64[]=2 f32[5]", .fail = OT_E_MODEL },
    { .name = "too_short", .in = "f32[2,3,1] i64[]=3 f32[4]", .fail = OT_E_MODEL },
    { .name = "no_step", .in = "f32[2,9,1] i64[]=0 f32[4]", .fail = OT_E_MODEL },
    { .name = "unknown_step", .in = "f32[2,9,1] i64[]~1 f32[4]", .fail = OT_E_MODEL },
    { .name = "two_lengths", .in = "f32[2,9,1] i64[]=1 f32[4] i64[]=5", .fail = OT_E_MODEL },
    { 0 }
};

#define TABLE "it depends on constants alone"

const ot_case ot_cases_HannWindow[] = {
    { .name = "periodic", .in = "i64[]=4", .out = "f32[4]", .y = "0,0.5,1,0.5", .no_grad = TABLE },
    { .name = "symmetric", .in = "i32[]=3", .attrs = "periodic=0", .out = "f32[3]", .y = "0,1,0", .no_grad = TABLE },
    { .name = "double", .in = "i64[1]=4", .attrs = "output_datatype=11", .out = "f64[4]", .y = "0,0.5,1,0.5", .no_grad = TABLE },
    { .name = "integers", .in = "i64[]=4", .attrs = "output_datatype=2", .out = "u8[4]", .y = "0,0,1,0", .no_grad = TABLE },
    { .name = "one", .in = "i64[]=1", .attrs = "periodic=0", .out = "f32[1]", .y = "1", .no_grad = TABLE },
    { .name = "none", .in = "i64[]=0", .out = "f32[0]", .no_grad = TABLE },
    { .name = "negative", .in = "i64[]=-1", .fail = OT_E_MODEL },
    { .name = "unknown", .in = "i64[]~4", .fail = OT_E_MODEL },
    { .name = "text", .in = "i64[]=4", .attrs = "output_datatype=8", .fail = OT_E_MODEL },
    { .name = "too_large", .in = "i64[]=1000000000000000", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_HammingWindow[] = {
    { .name = "periodic", .in = "i64[]=4", .out = "f32[4]", .y = "0.08695652,0.5434783,1,0.5434783", .no_grad = TABLE },
    { .name = "symmetric", .in = "i64[]=3", .attrs = "periodic=0", .out = "f32[3]", .y = "0.08695652,1,0.08695652", .no_grad = TABLE },
    { 0 }
};

const ot_case ot_cases_BlackmanWindow[] = {
    { .name = "periodic", .in = "i64[]=4", .out = "f32[4]", .y = "0,0.34,1,0.34", .no_grad = TABLE },
    { .name = "symmetric", .in = "i64[]=5", .attrs = "periodic=0", .out = "f32[5]", .y = "0,0.34,1,0.34,0", .no_grad = TABLE },
    { 0 }
};

const ot_case ot_cases_MelWeightMatrix[] = {
    { .name = "plain", .in = "i64[]=8 i64[]=16 i64[]=8192 f32[]=0 f32[]=4096", .out = "f32[9,8]", .no_grad = TABLE },
    { .name = "half", .in = "i32[]=3 i32[]=32 i32[]=8000 f16[]=20 f16[]=3000", .attrs = "output_datatype=10", .out = "f16[17,3]", .no_grad = TABLE },
    { .name = "none", .in = "i64[]=0 i64[]=16 i64[]=8192 f32[]=0 f32[]=4096", .out = "f32[9,0]", .no_grad = TABLE },
    { .name = "above", .in = "i64[]=8 i64[]=16 i64[]=8192 f32[]=0 f32[]=20000", .fail = OT_E_MODEL },
    { .name = "turned", .in = "i64[]=8 i64[]=16 i64[]=8192 f32[]=100 f32[]=50", .fail = OT_E_MODEL },
    { .name = "unknown", .in = "i64[]=8 i64[]=16 i64[]~8192 f32[]=0 f32[]=4096", .fail = OT_E_MODEL },
    { 0 }
};
