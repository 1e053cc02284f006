/* resize.c - rows of Resize and NonZero. */
#include "case.h"

const ot_case ot_cases_Resize[] = {
    { .name = "nearest_2x", .in = "f32[1,1,2,2]~1,2,3,4 - f32[4]=1,1,2,2", .out = "f32[1,1,4,4]",
      .y = "1,1,2,2,1,1,2,2,3,3,4,4,3,3,4,4", .dx = "4,4,4,4 - -" },
    { .name = "nearest_sizes", .in = "f32[1,2,4,4] - - i64[4]=1,2,7,3", .out = "f32[1,2,7,3]" },
    { .name = "nearest_ceil", .in = "f32[5] - f32[1]=0.6", .attrs = "nearest_mode=ceil coordinate_transformation_mode=asymmetric", .out = "f32[3]" },
    { .name = "nearest_integers", .in = "i64[4]~1,2,3,4 - f32[1]=0.5", .attrs = "nearest_mode=floor", .out = "i64[2]", .y = "1,3" },
    { .name = "linear_up", .in = "f32[1,2,3,4] - f32[4]=1,1,2,2", .attrs = "mode=linear", .out = "f32[1,2,6,8]" },
    { .name = "linear_values", .in = "f32[2]~1,3 - f32[1]=2", .attrs = "mode=linear", .out = "f32[4]", .y = "1,1.5,2.5,3" },
    { .name = "linear_down", .in = "f32[2,3,6,8] - - i64[2]=3,5", .attrs = "mode=linear axes=[2,3]", .out = "f32[2,3,3,5]" },
    { .name = "linear_corners", .in = "f32[2,3,4,4] - - i64[4]=2,3,7,9", .attrs = "mode=linear coordinate_transformation_mode=align_corners", .out = "f32[2,3,7,9]" },
    { .name = "linear_large", .in = "f32[2,8,30,30] - f32[4]=1,1,2,2", .attrs = "mode=linear", .out = "f32[2,8,60,60]", .no_grad = "large" },
    { .name = "linear_half", .in = "f16[2,8,5,6] - f32[4]=1,1,2,2", .attrs = "mode=linear", .out = "f16[2,8,10,12]", .grad16 = true },
    { .name = "nearest_bfloat", .in = "bf16[2,3,4,5] - f32[4]=1,1,2,1.5", .out = "bf16[2,3,8,7]", .grad16 = true },
    { .name = "pytorch_one", .in = "f32[1,1,4,4] - - i64[4]=1,1,3,1", .attrs = "mode=linear coordinate_transformation_mode=pytorch_half_pixel", .out = "f32[1,1,3,1]" },
    { .name = "symmetric", .in = "f32[7] - f32[1]=0.6", .attrs = "mode=linear coordinate_transformation_mode=half_pixel_symmetric", .out = "f32[4]" },
    { .name = "cubic", .in = "f32[1,1,4,4] - f32[4]=1,1,2,1.5", .attrs = "mode=cubic", .out = "f32[1,1,8,6]" },
    { .name = "cubic_excluded", .in = "f32[1,1,4,4] - f32[4]=1,1,2,1.5", .attrs = "mode=cubic exclude_outside=1 cubic_coeff_a=-0.5", .out = "f32[1,1,8,6]" },
    { .name = "antialias_linear", .in = "f32[1,1,8,9] - f32[4]=1,1,0.4,0.5", .attrs = "mode=linear antialias=1", .out = "f32[1,1,3,4]" },
    { .name = "antialias_cubic", .in = "f32[1,1,8,9] - - i64[4]=1,1,3,4", .attrs = "mode=cubic antialias=1", .out = "f32[1,1,3,4]" },
    { .name = "crop", .in = "f32[1,1,4,4] f32[8]=0,0,0.4,0.6,1,1,1.2,1.7 - i64[4]=1,1,3,3",
      .attrs = "mode=linear coordinate_transformation_mode=tf_crop_and_resize extrapolation_value=10", .out = "f32[1,1,3,3]" },
    { .name = "not_larger", .in = "f32[1,1,2,4] - - i64[2]=7,8", .attrs = "axes=[2,3] keep_aspect_ratio_policy=not_larger", .out = "f32[1,1,4,8]" },
    { .name = "not_smaller", .in = "f32[1,1,2,4] - - i64[2]=7,8", .attrs = "axes=[2,3] keep_aspect_ratio_policy=not_smaller", .out = "f32[1,1,7,14]" },
    { .name = "three_axes", .in = "f32[1,1,2,3,4] - f32[5]=1,1,2,2,0.5", .attrs = "mode=linear", .out = "f32[1,1,4,6,2]" },
    { .name = "same", .in = "f32[1,1,2,3] - f32[4]=1", .attrs = "mode=cubic", .out = "f32[1,1,2,3]" },
    { .name = "empty_batch", .in = "f32[0,1,2,2] - f32[4]=1,1,2,2", .attrs = "mode=linear", .out = "f32[0,1,4,4]" },
    { .name = "neither", .in = "f32[2]", .fail = OT_E_MODEL },
    { .name = "both", .in = "f32[2] - f32[1]=2 i64[1]=4", .fail = OT_E_MODEL },
    { .name = "unknown_scales", .in = "f32[2] - f32[1]~2", .fail = OT_E_MODEL },
    { .name = "zero_scale", .in = "f32[2] - f32[1]=0", .fail = OT_E_MODEL },
    { .name = "wrong_number", .in = "f32[2,2] - f32[1]=2", .fail = OT_E_MODEL },
    { .name = "too_large", .in = "f32[2,2] - f32[2]=1e30,2", .fail = OT_E_MODEL },
    { .name = "from_nothing", .in = "f32[0] - - i64[1]=4", .fail = OT_E_MODEL },
    { .name = "crop_without_roi", .in = "f32[2] - f32[1]=2", .attrs = "coordinate_transformation_mode=tf_crop_and_resize", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_NonZero[] = {
    { .name = "plain", .in = "f32[2,2]=1,0,0,3", .out = "i64[2,2]", .y = "0,1,0,1", .no_grad = "zero by nature" },
    { .name = "bools", .in = "bool[3]=1,0,1", .out = "i64[1,2]", .y = "0,2", .no_grad = "zero by nature" },
    { .name = "none", .in = "i64[3]=0", .out = "i64[1,0]", .no_grad = "zero by nature" },
    { .name = "scalar", .in = "i64[]=5", .out = "i64[0,1]", .no_grad = "zero by nature" },
    { .name = "unknown", .in = "f32[2]~1,2", .fail = OT_E_MODEL },
    { 0 }
};
