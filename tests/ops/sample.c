/* sample.c - rows of GridSample, AffineGrid, RoiAlign, DeformConv, MaxRoiPool and TensorScatter. */
#include "case.h"

const ot_case ot_cases_GridSample[] = {
    { .name = "linear", .in = "f32[2,3,4,5] f32[2,3,2,2](-1.3,1.3)", .out = "f32[2,3,3,2]" },
    { .name = "linear_corners", .in = "f32[2,3,4,5] f32[2,3,2,2](-1.3,1.3)", .attrs = "align_corners=1", .out = "f32[2,3,3,2]", .cpu = true },
    { .name = "linear_values", .in = "f32[1,1,2,2]~1,2,3,4 f32[1,1,3,2]~0,0,-1,-1,1,0", .out = "f32[1,1,1,3]", .y = "2.5,0.25,1.5",
      .attrs = "mode=linear padding_mode=zeros", .dx = "0.5,0.5,0.25,0.5 -", .cpu = true },
    { .name = "linear_border", .in = "f32[2,3,4,5] f32[2,3,2,2](-2,2)", .attrs = "padding_mode=border", .out = "f32[2,3,3,2]", .cpu = true },
    { .name = "linear_border_corners", .in = "f32[2,3,4,5] f32[2,3,2,2](-2,2)", .attrs = "padding_mode=border align_corners=1", .out = "f32[2,3,3,2]", .cpu = true },
    { .name = "linear_reflection", .in = "f32[2,3,4,5] f32[2,3,2,2](-4,4)", .attrs = "padding_mode=reflection", .out = "f32[2,3,3,2]", .cpu = true },
    { .name = "linear_reflection_corners", .in = "f32[2,3,4,5] f32[2,3,2,2](-4,4)", .attrs = "padding_mode=reflection align_corners=1", .out = "f32[2,3,3,2]", .cpu = true },
    { .name = "nearest", .in = "f32[2,3,4,5] f32[2,3,2,2](-1.3,1.3)", .attrs = "mode=nearest", .out = "f32[2,3,3,2]", .cpu = true },
    { .name = "nearest_border", .in = "f32[1,2,4,5] f32[1,3,4,2](-2,2)", .attrs = "mode=nearest padding_mode=border align_corners=1", .out = "f32[1,2,3,4]", .cpu = true },
    { .name = "nearest_reflection", .in = "f32[1,2,4,5] f32[1,3,4,2](-3,3)", .attrs = "mode=nearest padding_mode=reflection", .out = "f32[1,2,3,4]", .cpu = true },
    { .name = "nearest_integers", .in = "i64[1,1,1,3]~4,5,6 f32[1,1,3,2]~-0.7,0,0.1,0,3,0", .attrs = "mode=nearest", .out = "i64[1,1,1,3]", .y = "4,5,0", .cpu = true },
    { .name = "cubic", .in = "f32[2,2,4,5] f32[2,3,2,2](-1.3,1.3)", .attrs = "mode=cubic", .out = "f32[2,2,3,2]", .cpu = true },
    { .name = "cubic_border", .in = "f32[2,2,4,5] f32[2,3,2,2](-2,2)", .attrs = "mode=cubic padding_mode=border", .out = "f32[2,2,3,2]", .cpu = true },
    { .name = "cubic_reflection", .in = "f32[2,2,4,5] f32[2,3,2,2](-3,3)", .attrs = "mode=cubic padding_mode=reflection align_corners=1", .out = "f32[2,2,3,2]", .cpu = true },
    { .name = "cubic_reflection_edges", .in = "f32[1,1,2,3] f32[1,3,2,2](-4,4)", .attrs = "mode=cubic padding_mode=reflection", .out = "f32[1,1,3,2]", .cpu = true },
    { .name = "volume", .in = "f32[2,2,3,4,3] f32[2,2,3,2,3](-1.3,1.3)", .out = "f32[2,2,2,3,2]", .cpu = true },
    { .name = "volume_nearest", .in = "f32[1,2,3,4,3] f32[1,2,3,2,3](-1.3,1.3)", .attrs = "mode=nearest", .out = "f32[1,2,2,3,2]", .cpu = true },
    { .name = "volume_cubic", .in = "f32[1,2,3,4,3] f32[1,2,1,2,3](-1.3,1.3)", .attrs = "mode=cubic padding_mode=border", .out = "f32[1,2,2,1,2]", .cpu = true },
    { .name = "volume_reflection", .in = "f32[1,2,3,4,3] f32[1,2,2,1,3](-3,3)", .attrs = "padding_mode=reflection align_corners=1", .out = "f32[1,2,2,2,1]", .cpu = true },
    { .name = "line", .in = "f32[2,3,7] f32[2,4,1](-1.3,1.3)", .out = "f32[2,3,4]", .cpu = true },
    { .name = "one_element", .in = "f32[1,2,1,1] f32[1,2,2,2](-3,3)", .attrs = "padding_mode=reflection align_corners=1", .out = "f32[1,2,2,2]", .cpu = true },
    { .name = "half", .in = "f16[1,2,4,4] f16[1,2,2,2]", .out = "f16[1,2,2,2]", .tol = 1e-3, .cpu = true },
    { .name = "half_grid", .in = "f32[1,2,4,4] f16[1,2,2,2]", .out = "f32[1,2,2,2]", .cpu = true },
    { .name = "nowhere", .in = "f32[1,1,2,2] f32[1,1,2,2]~nan,0,inf,0", .attrs = "padding_mode=border", .out = "f32[1,1,1,2]", .no_grad = "NaN", .cpu = true },
    { .name = "no_points", .in = "f32[2,3,4,5] f32[2,0,2,2]", .out = "f32[2,3,0,2]", .cpu = true },
    { .name = "no_batch", .in = "f32[0,3,4,5] f32[0,3,2,2]", .out = "f32[0,3,3,2]", .cpu = true },
    { .name = "no_elements", .in = "f32[1,3,0,5] f32[1,3,2,2]", .fail = OT_E_MODEL },
    { .name = "wrong_grid", .in = "f32[1,3,4,5] f32[1,3,2,3]", .fail = OT_E_MODEL },
    { .name = "wrong_batch", .in = "f32[2,3,4,5] f32[1,3,2,2]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_AffineGrid[] = {
    { .name = "picture", .in = "f32[2,2,3] i64[4]=2,3,3,4", .out = "f32[2,3,4,2]" },
    { .name = "corners", .in = "f32[2,2,3] i64[4]=2,3,3,4", .attrs = "align_corners=1", .out = "f32[2,3,4,2]", .cpu = true },
    { .name = "values", .in = "f32[1,2,3]~1,0,0.5,0,2,0 i64[4]=1,1,2,2", .out = "f32[1,2,2,2]", .y = "0,-1,1,-1,0,1,1,1", .cpu = true },
    { .name = "volume", .in = "f32[2,3,4] i64[5]=2,1,2,3,2", .out = "f32[2,2,3,2,3]", .cpu = true },
    { .name = "volume_corners", .in = "f64[1,3,4] i64[5]=1,1,2,3,1", .attrs = "align_corners=1", .out = "f64[1,2,3,1,3]", .cpu = true },
    { .name = "half", .in = "f16[1,2,3] i64[4]=1,1,3,2", .out = "f16[1,3,2,2]", .tol = 1e-3, .cpu = true },
    { .name = "empty", .in = "f32[2,2,3] i64[4]=2,3,0,4", .out = "f32[2,0,4,2]", .cpu = true },
    { .name = "wrong_theta", .in = "f32[2,2,3] i64[5]=2,1,2,3,2", .fail = OT_E_MODEL },
    { .name = "unknown_size", .in = "f32[2,2,3] i64[4]~2,3,3,4", .fail = OT_E_MODEL },
    { 0 }
};

/* Regions in and across the picture. */
#define ROIS "f32[3,4]~0.3,0.4,4.1,3.3,-2.2,1.1,2.3,5.4,1.7,-3.2,7.9,1.3 i64[3]~0,1,0"

const ot_case ot_cases_RoiAlign[] = {
    { .name = "fixed", .in = "f32[2,3,4,5] " ROIS, .attrs = "output_height=2 output_width=3 sampling_ratio=2", .out = "f32[3,3,2,3]" },
    { .name = "fixed_old", .in = "f32[2,3,4,5] " ROIS, .out = "f32[3,3,2,3]",
      .attrs = "output_height=2 output_width=3 sampling_ratio=2 coordinate_transformation_mode=output_half_pixel", .cpu = true },
    { .name = "scale", .in = "f32[2,3,4,5] " ROIS, .attrs = "output_height=2 output_width=2 sampling_ratio=1 spatial_scale=0.61", .out = "f32[3,3,2,2]", .cpu = true },
    { .name = "adaptive", .in = "f32[2,3,4,5] " ROIS, .attrs = "output_height=2 output_width=3", .out = "f32[3,3,2,3]", .cpu = true },
    { .name = "adaptive_old", .in = "f32[2,3,4,5] " ROIS, .attrs = "output_height=1 output_width=1 coordinate_transformation_mode=output_half_pixel",
      .out = "f32[3,3,1,1]", .cpu = true },
    { .name = "adaptive_values", .in = "f32[1,1,4,4]~0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 f32[1,4]~0.5,0.5,3.5,3.5 i64[1]~0",
      .attrs = "output_height=1 output_width=1", .out = "f32[1,1,1,1]", .y = "7.5", .no_grad = "points lie on elements", .cpu = true },
    { .name = "adaptive_huge", .in = "f32[1,2,3,3] f32[2,4]~-40.2,-30.3,50.1,60.2,-1000.3,-900.1,1000.2,900.4 i64[2]~0,0", .attrs = "output_height=7 output_width=7",
      .out = "f32[2,2,7,7]", .tol = 1e-4, .cpu = true },
    { .name = "adaptive_turned", .in = "f32[1,2,3,3] f32[2,4]~2,2,1,1,1.2,1.2,1.2,1.7 i64[2]~0,0", .attrs = "output_height=2 output_width=2",
      .out = "f32[2,2,2,2]", .no_grad = "kinks", .cpu = true },
    { .name = "max", .in = "f32[2,3,4,5](0.1,1) " ROIS, .attrs = "mode=max output_height=2 output_width=3 sampling_ratio=2", .out = "f32[3,3,2,3]", .cpu = true },
    { .name = "max_adaptive", .in = "f32[2,3,4,5](0.1,1) f32[3,4]=0.3,0.4,4.1,3.3,-2.2,1.1,2.3,5.4,1.7,-3.2,7.9,1.3 i64[3]~0,1,0",
      .attrs = "mode=max output_height=2 output_width=3", .out = "f32[3,3,2,3]", .cpu = true },
    { .name = "max_no_points", .in = "f32[1,1,3,3](0.1,1) f32[1,4]=2,2,1,1 i64[1]=0", .attrs = "mode=max", .out = "f32[1,1,1,1]", .y = "0", .cpu = true },
    { .name = "half", .in = "f16[1,2,4,4] f16[1,4]~0.3,0.4,3.1,3.3 i64[1]~0", .attrs = "output_height=2 sampling_ratio=2", .out = "f16[1,2,2,1]", .tol = 1e-2, .cpu = true },
    { .name = "no_rois", .in = "f32[1,2,4,4] f32[0,4] i64[0]", .attrs = "output_height=2 output_width=2", .out = "f32[0,2,2,2]" },
    { .name = "no_picture", .in = "f32[0,2,4,4] f32[1,4] i64[1]", .fail = OT_E_MODEL },
    { .name = "no_such_picture", .in = "f32[2,2,4,4] f32[1,4] i64[1]~2", .attrs = "sampling_ratio=1", .out = "f32[1,2,1,1]", .fail_run = OT_E_DATA, .cpu = true },
    { .name = "max_unknown", .in = "f32[1,2,4,4] f32[1,4] i64[1]~0", .attrs = "mode=max", .fail = OT_E_MODEL },
    { .name = "max_far", .in = "f32[1,2,4,4] f32[1,4]=0,0,1e9,1 i64[1]~0", .attrs = "mode=max", .fail = OT_E_MODEL },
    { .name = "wrong_rois", .in = "f32[1,2,4,4] f32[1,5] i64[1]~0", .fail = OT_E_MODEL },
    { .name = "no_bins", .in = "f32[1,2,4,4] f32[1,4] i64[1]~0", .attrs = "output_height=0", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_DeformConv[] = {
    { .name = "plain", .in = "f32[2,3,5,4] f32[4,3,2,3] f32[2,12,4,2]", .out = "f32[2,4,4,2]", .cpu = true },
    { .name = "pads", .in = "f32[1,2,4,4] f32[2,2,3,3] f32[1,18,4,4](-2,2) f32[2]", .attrs = "pads=[1,1,1,1]", .out = "f32[1,2,4,4]", .cpu = true },
    { .name = "mask", .in = "f32[1,2,4,4] f32[2,2,2,2] f32[1,8,3,3] - f32[1,4,3,3]", .out = "f32[1,2,3,3]", .cpu = true },
    { .name = "strides", .in = "f32[1,2,7,6] f32[2,2,2,3] f32[1,12,3,2] f32[2] f32[1,6,3,2]", .attrs = "strides=[2,3] pads=[0,1,1,0] dilations=[2,1] kernel_shape=[2,3]",
      .out = "f32[1,2,3,2]", .cpu = true },
    { .name = "offset_groups", .in = "f32[2,4,4,4] f32[3,4,2,2] f32[2,16,3,3] f32[3] f32[2,8,3,3]", .attrs = "offset_group=2", .out = "f32[2,3,3,3]" },
    { .name = "groups", .in = "f32[2,4,4,4] f32[6,2,2,2] f32[2,8,3,3] f32[6]", .attrs = "group=2", .out = "f32[2,6,3,3]", .cpu = true },
    { .name = "groups_of_both", .in = "f32[1,6,3,3] f32[2,3,2,2] f32[1,24,2,2]", .attrs = "group=2 offset_group=3", .out = "f32[1,2,2,2]", .cpu = true },
    { .name = "whole_offsets", .in = "f32[1,1,3,3]~1,2,3,4,5,6,7,8,9 f32[1,1,2,2]~1,1,1,1 f32[1,8,2,2]~0", .out = "f32[1,1,2,2]", .y = "12,16,24,28",
      .dx = "1,2,1,2,4,2,1,2,1 12,16,24,28 -", .cpu = true },
    { .name = "line", .in = "f32[2,2,5] f32[3,2,2] f32[2,2,4]", .out = "f32[2,3,4]", .cpu = true },
    { .name = "volume", .in = "f32[1,2,3,3,3] f32[1,2,2,2,2] f32[1,24,2,2,2] f32[1] f32[1,8,2,2,2]", .out = "f32[1,1,2,2,2]", .cpu = true },
    { .name = "half", .in = "f16[1,2,4,4] f16[2,2,2,2] f16[1,8,3,3] f16[2]", .out = "f16[1,2,3,3]", .tol = 2e-2, .cpu = true },
    { .name = "no_batch", .in = "f32[0,2,4,4] f32[2,2,2,2] f32[0,8,3,3]", .out = "f32[0,2,3,3]", .cpu = true },
    { .name = "wrong_offsets", .in = "f32[1,2,4,4] f32[2,2,2,2] f32[1,8,3,4]", .fail = OT_E_MODEL },
    { .name = "wrong_mask", .in = "f32[1,2,4,4] f32[2,2,2,2] f32[1,8,3,3] - f32[1,8,3,3]", .fail = OT_E_MODEL },
    { .name = "wrong_group", .in = "f32[1,2,4,4] f32[3,1,2,2] f32[1,8,3,3]", .attrs = "group=2", .fail = OT_E_MODEL },
    { .name = "wrong_bias", .in = "f32[1,2,4,4] f32[2,2,2,2] f32[1,8,3,3] f32[3]", .fail = OT_E_MODEL },
    { .name = "too_large_a_window", .in = "f32[1,2,4,4] f32[2,2,5,2] f32[1,8,3,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_MaxRoiPool[] = {
    { .name = "plain", .in = "f32[2,3,6,5] f32[3,5]~0,0,0,4,5,1,1,1,3,4,0,2,0,2,5", .attrs = "pooled_shape=[2,3]", .out = "f32[3,3,2,3]" },
    { .name = "values", .in = "f32[1,1,3,4]~1,2,3,4,5,6,7,8,9,10,11,12 f32[1,5]~0,0,0,3,2", .attrs = "pooled_shape=[2,2]", .out = "f32[1,1,2,2]",
      .y = "6,8,10,12", .dx = "0,0,0,0,0,1,0,1,0,1,0,1 -", .cpu = true },
    { .name = "scale", .in = "f32[1,2,6,6] f32[2,5]~0,1.2,2.4,9.7,8.1,0,-5,-7,20,30", .attrs = "pooled_shape=[3,2] spatial_scale=0.5", .out = "f32[2,2,3,2]", .cpu = true },
    { .name = "outside", .in = "f32[1,1,2,2]~1,2,3,4 f32[2,5]~0,5,5,9,9,0,1,1,0,0", .attrs = "pooled_shape=[1,1]", .out = "f32[2,1,1,1]", .y = "0,4", .cpu = true },
    { .name = "more_bins", .in = "f32[1,2,3,3] f32[1,5]~0,0,0,1,2", .attrs = "pooled_shape=[5,4]", .out = "f32[1,2,5,4]", .cpu = true },
    { .name = "rounded", .in = "f32[1,1,1,6]~1,2,3,4,5,6 f32[1,5]~0,0.5,0,2.4,0", .attrs = "pooled_shape=[1,2]", .out = "f32[1,1,1,2]", .y = "2,3", .cpu = true },
    { .name = "ties", .in = "f32[1,1,1,3]~2,2,2 f32[1,5]~0,0,0,2,0", .attrs = "pooled_shape=[1,1]", .out = "f32[1,1,1,1]", .y = "2", .dx = "0.25,0.5,0.25 -", .cpu = true },
    { .name = "half", .in = "f16[1,2,4,4] f16[1,5]~0,0,0,3,3", .attrs = "pooled_shape=[2,2]", .out = "f16[1,2,2,2]", .cpu = true },
    { .name = "no_rois", .in = "f32[1,2,4,4] f32[0,5]", .attrs = "pooled_shape=[2,2]", .out = "f32[0,2,2,2]", .cpu = true },
    { .name = "no_such_picture", .in = "f32[1,2,4,4] f32[1,5]~1,0,0,3,3", .attrs = "pooled_shape=[1,1]", .out = "f32[1,2,1,1]", .fail_run = OT_E_DATA },
    { .name = "no_such_constant", .in = "f32[1,2,4,4] f32[1,5]=1,0,0,3,3", .attrs = "pooled_shape=[1,1]", .fail = OT_E_MODEL },
    { .name = "no_shape", .in = "f32[1,2,4,4] f32[1,5]", .attrs = "pooled_shape=[2]", .fail = OT_E_MODEL },
    { .name = "wrong_rois", .in = "f32[1,2,4,4] f32[1,4]", .attrs = "pooled_shape=[2,2]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_TensorScatter[] = {
    { .name = "linear", .in = "f32[2,3,5,4] f32[2,3,2,4] i64[2]~3,1", .out = "f32[2,3,5,4]", .cpu = true },
    { .name = "values", .in = "f32[2,3,1]~1,2,3,4,5,6 f32[2,1,1]~7,8 i64[2]~1,2", .out = "f32[2,3,1]", .y = "1,7,3,4,5,8", .dx = "1,0,1,1,1,0 1,1 -" },
    { .name = "start", .in = "f32[2,4,3] f32[2,2,3]", .out = "f32[2,4,3]", .cpu = true },
    { .name = "circular", .in = "f32[2,3,1]~1,2,3,4,5,6 f32[2,2,1]~7,8,9,10 i64[2]~2,4", .attrs = "mode=circular", .out = "f32[2,3,1]", .y = "8,2,7,4,9,10" },
    { .name = "axis", .in = "f32[2,3,2,5] f32[2,3,2,2] i64[2]=3,0", .attrs = "axis=-1", .out = "f32[2,3,2,5]", .cpu = true },
    { .name = "bytes", .in = "u8[1,3,1]~1,2,3 u8[1,1,1]~9 i64[1]~1", .out = "u8[1,3,1]", .y = "1,9,3", .cpu = true },
    { .name = "all", .in = "f32[1,2,2] f32[1,2,2] i64[1]~0", .out = "f32[1,2,2]", .cpu = true },
    { .name = "nothing", .in = "f32[2,2,2] f32[2,0,2] i64[2]~0,1", .out = "f32[2,2,2]", .cpu = true },
    { .name = "beyond", .in = "f32[2,3,1] f32[2,2,1] i64[2]~2,0", .out = "f32[2,3,1]", .fail_run = OT_E_DATA, .cpu = true },
    { .name = "beyond_constant", .in = "f32[2,3,1] f32[2,2,1] i64[2]=2,0", .fail = OT_E_MODEL },
    { .name = "too_long", .in = "f32[2,3,1] f32[2,4,1] i64[2]~0", .fail = OT_E_MODEL },
    { .name = "first_axis", .in = "f32[2,3] f32[1,3]", .attrs = "axis=0", .fail = OT_E_MODEL },
    { .name = "wrong_indices", .in = "f32[2,3,1] f32[2,2,1] i64[1]~0", .fail = OT_E_MODEL },
    { 0 }
};
