/* pool.c - rows of the pooling operators. */
#include "case.h"

const ot_case ot_cases_MaxPool[] = {
    { .name = "plain", .attrs = "kernel_shape=[2,2]", .in = "f32[1,1,3,3]~1,2,3,4,9,6,7,8,5", .out = "f32[1,1,2,2]", .y = "9,9,9,9",
      .dx = "0,0,0,0,4,0,0,0,0" },
    { .name = "first_of_ties", .attrs = "kernel_shape=[2]", .in = "f32[1,1,2]~3,3", .out = "f32[1,1,1]", .y = "3", .dx = "1,0" },
    { .name = "strided", .attrs = "kernel_shape=[2,2] strides=[2,2]", .in = "f32[2,3,6,8]", .out = "f32[2,3,3,4]" },
    { .name = "overlapping", .attrs = "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]", .in = "f32[2,3,7,6]", .out = "f32[2,3,4,3]" },
    { .name = "asymmetric", .attrs = "kernel_shape=[3,2] pads=[0,1,2,0]", .in = "f32[1,2,5,4]", .out = "f32[1,2,5,4]" },
    { .name = "ceil", .attrs = "kernel_shape=[3,3] strides=[2,2] ceil_mode=1", .in = "f32[1,2,6,8]", .out = "f32[1,2,3,4]" },
    { .name = "ceil_drops_last", .attrs = "kernel_shape=[1,1] strides=[2,2] ceil_mode=1", .in = "f32[1,1,2,2]~1,2,3,4", .out = "f32[1,1,1,1]",
      .y = "1" },
    { .name = "ceil_pads", .attrs = "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1", .in = "f32[1,2,6,6]", .out = "f32[1,2,4,4]" },
    { .name = "dilated", .attrs = "kernel_shape=[2,2] dilations=[2,3]", .in = "f32[1,2,6,7]", .out = "f32[1,2,4,4]" },
    { .name = "dilated_padded", .attrs = "kernel_shape=[3,3] dilations=[2,2] pads=[2,2,2,2] strides=[2,2]", .in = "f32[1,2,7,7]",
      .out = "f32[1,2,4,4]" },
    { .name = "many_channels", .attrs = "kernel_shape=[2,2] strides=[2,2]", .in = "f32[2,150,4,4]", .out = "f32[2,150,2,2]",
      .no_grad = "strided has it" },
    { .name = "packs", .attrs = "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]", .in = "f32[2,24,9,8]", .out = "f32[2,24,5,4]" },
    { .name = "half_packs", .attrs = "kernel_shape=[2,2]", .in = "f16[2,24,5,4]", .out = "f16[2,24,4,3]" },
    { .name = "large_window", .attrs = "kernel_shape=[17,16]", .in = "f32[1,2,18,18]", .out = "f32[1,2,2,3]" },
    { .name = "line", .attrs = "kernel_shape=[3] strides=[2]", .in = "f32[2,3,9]", .out = "f32[2,3,4]" },
    { .name = "volume", .attrs = "kernel_shape=[2,2,2] strides=[1,2,1]", .in = "f32[1,2,3,4,3]", .out = "f32[1,2,2,2,2]" },
    { .name = "same_upper", .attrs = "kernel_shape=[3,3] strides=[2,2] auto_pad=SAME_UPPER", .in = "f32[1,2,5,6]", .out = "f32[1,2,3,3]" },
    { .name = "same_lower", .attrs = "kernel_shape=[2,2] auto_pad=SAME_LOWER", .in = "f32[1,1,2,2]~1,2,3,4", .out = "f32[1,1,2,2]",
      .y = "1,2,3,4", .dx = "1,1,1,1" },
    { .name = "indices", .attrs = "kernel_shape=[2,2] strides=[2,2]", .in = "f32[2,2,4,4]", .out = "f32[2,2,2,2] i64[2,2,2,2]" },
    { .name = "indices_columns", .attrs = "kernel_shape=[2,2] storage_order=1", .in = "f32[1,2,3,4]", .out = "f32[1,2,2,3] i64[1,2,2,3]" },
    { .name = "nan", .attrs = "kernel_shape=[3]", .in = "f32[1,1,4]~1,nan,2,3", .out = "f32[1,1,2]", .y = "nan,nan", .no_grad = "not finite" },
    { .name = "minus_infinity", .attrs = "kernel_shape=[2]", .in = "f32[1,1,2]~-inf,-inf", .out = "f32[1,1,1]", .y = "-inf",
      .no_grad = "not finite" },
    { .name = "bytes", .attrs = "kernel_shape=[2,2]", .in = "u8[1,1,2,2]~1,200,3,4", .out = "u8[1,1,1,1]", .y = "200" },
    { .name = "signed_bytes", .attrs = "kernel_shape=[2,2]", .in = "i8[1,1,2,2]~-5,-7,-3,-9", .out = "i8[1,1,1,1]", .y = "-3" },
    { .name = "half", .attrs = "kernel_shape=[2]", .in = "f16[1,1,2]~0.5,0.25", .out = "f16[1,1,1]", .y = "0.5" },
    { .name = "no_samples", .attrs = "kernel_shape=[2,2]", .in = "f32[0,3,4,4]", .out = "f32[0,3,3,3]" },
    { .name = "no_kernel_shape", .in = "f32[1,1,4,4]", .fail = OT_E_MODEL },
    { .name = "window_too_big", .attrs = "kernel_shape=[5,2]", .in = "f32[1,1,4,4]", .fail = OT_E_MODEL },
    { .name = "bad_rank", .attrs = "kernel_shape=[2]", .in = "f32[4,4]", .fail = OT_E_MODEL },
    { .name = "zero_window", .attrs = "kernel_shape=[0,2]", .in = "f32[1,1,4,4]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_AveragePool[] = {
    { .name = "plain", .attrs = "kernel_shape=[2,2]", .in = "f32[1,1,2,3]~1,2,3,4,5,6", .out = "f32[1,1,1,2]", .y = "3,4" },
    { .name = "strided", .attrs = "kernel_shape=[2,2] strides=[2,2]", .in = "f32[2,3,6,8]", .out = "f32[2,3,3,4]" },
    { .name = "pads", .attrs = "kernel_shape=[3,3] pads=[1,1,1,1]", .in = "f32[2,3,5,4]", .out = "f32[2,3,5,4]" },
    { .name = "packs", .attrs = "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]", .in = "f32[2,24,9,8]", .out = "f32[2,24,5,4]" },
    { .name = "pads_left_out", .attrs = "kernel_shape=[2] pads=[1,1]", .in = "f32[1,1,2]~2,4", .out = "f32[1,1,3]", .y = "2,3,4" },
    { .name = "pads_counted", .attrs = "kernel_shape=[2] pads=[1,1] count_include_pad=1", .in = "f32[1,1,2]~2,4", .out = "f32[1,1,3]",
      .y = "1,3,2" },
    { .name = "asymmetric", .attrs = "kernel_shape=[3,2] pads=[0,1,2,0] count_include_pad=1", .in = "f32[1,2,5,4]", .out = "f32[1,2,5,4]" },
    { .name = "ceil", .attrs = "kernel_shape=[3] strides=[2] ceil_mode=1", .in = "f32[1,1,4]~1,2,3,5", .out = "f32[1,1,2]", .y = "2,4" },
    { .name = "ceil_counted", .attrs = "kernel_shape=[3] strides=[3] pads=[1,0] ceil_mode=1 count_include_pad=1",
      .in = "f32[1,1,4]~3,6,4,8", .out = "f32[1,1,2]", .y = "3,6" },
    { .name = "ceil_plane", .attrs = "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1", .in = "f32[1,2,6,6]", .out = "f32[1,2,4,4]" },
    { .name = "ceil_plane_counted", .attrs = "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1 count_include_pad=1",
      .in = "f32[1,2,6,6]", .out = "f32[1,2,4,4]" },
    { .name = "dilated", .attrs = "kernel_shape=[2,2] dilations=[2,3]", .in = "f32[1,2,6,7]", .out = "f32[1,2,4,4]" },
    { .name = "many_channels", .attrs = "kernel_shape=[2,2]", .in = "f32[2,150,4,4]", .out = "f32[2,150,3,3]", .no_grad = "plain has it" },
    { .name = "line", .attrs = "kernel_shape=[3] strides=[2]", .in = "f32[2,3,9]", .out = "f32[2,3,4]" },
    { .name = "volume", .attrs = "kernel_shape=[2,2,2] strides=[1,2,1]", .in = "f32[1,2,3,4,3]", .out = "f32[1,2,2,2,2]" },
    { .name = "same_upper", .attrs = "kernel_shape=[3,3] strides=[2,2] auto_pad=SAME_UPPER", .in = "f32[1,2,5,6]", .out = "f32[1,2,3,3]" },
    { .name = "double", .attrs = "kernel_shape=[2,2]", .in = "f64[1,2,3,3]", .out = "f64[1,2,2,2]" },
    { .name = "half", .attrs = "kernel_shape=[2]", .in = "f16[1,1,2]~0.5,0.25", .out = "f16[1,1,1]", .y = "0.375" },
    { .name = "no_samples", .attrs = "kernel_shape=[2,2]", .in = "f32[0,3,4,4]", .out = "f32[0,3,3,3]" },
    { .name = "no_kernel_shape", .in = "f32[1,1,4,4]", .fail = OT_E_MODEL },
    { .name = "bad_strides", .attrs = "kernel_shape=[2,2] strides=[1,1,1]", .in = "f32[1,1,4,4]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_GlobalAveragePool[] = {
    { .name = "plain", .in = "f32[1,2,1,2]~1,2,3,5", .out = "f32[1,2,1,1]", .y = "1.5,4", .dx = "0.5,0.5,0.5,0.5" },
    { .name = "plane", .in = "f32[2,3,7,7]", .out = "f32[2,3,1,1]" },
    { .name = "line", .in = "f32[2,3,7]", .out = "f32[2,3,1]" },
    { .name = "volume", .in = "f32[2,3,2,3,2]", .out = "f32[2,3,1,1,1]" },
    { .name = "nothing_to_pool", .in = "f32[2,3]", .out = "f32[2,3]" },
    { .name = "no_samples", .in = "f32[0,3,2,2]", .out = "f32[0,3,1,1]" },
    { .name = "bad_rank", .in = "f32[3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_GlobalMaxPool[] = {
    { .name = "ties", .in = "f32[1,2,1,2]~1,2,5,5", .out = "f32[1,2,1,1]", .y = "2,5", .dx = "0,1,0.5,0.5" },
    { .name = "plane", .in = "f32[2,3,7,7]", .out = "f32[2,3,1,1]" },
    { .name = "line", .in = "f32[2,3,7]", .out = "f32[2,3,1]" },
    { .name = "bad_rank", .in = "f32[3]", .fail = OT_E_MODEL },
    { 0 }
};
