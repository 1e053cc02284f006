/* norm.c - rows of the normalisations. */
#include "case.h"

const ot_case ot_cases_BatchNormalization[] = {
    { .name = "plain", .attrs = "epsilon=0", .in = "f32[1,2,1,1]~3,4 f32[2]~2,1 f32[2]~1,0 f32[2]~1,2 f32[2]~4,1", .out = "f32[1,2,1,1]", .y = "3,2" },
    { .name = "image", .in = "f32[2,3,4,5] f32[3] f32[3] f32[3] f32[3](0.5,2)", .out = "f32[2,3,4,5]" },
    { .name = "features", .in = "f32[4,3] f32[3] f32[3] f32[3] f32[3](0.5,2)", .out = "f32[4,3]" },
    { .name = "epsilon", .attrs = "epsilon=0.3", .in = "f32[2,3,4] f32[3] f32[3] f32[3] f32[3](0.5,2)", .out = "f32[2,3,4]" },
    { .name = "volume", .in = "f32[1,2,2,3,2] f32[2] f32[2] f32[2] f32[2](0.5,2)", .out = "f32[1,2,2,3,2]" },
    { .name = "training", .attrs = "training_mode=1", .in = "f32[2,3,4,5] f32[3] f32[3] f32[3]=0 f32[3]=1",
      .out = "f32[2,3,4,5] f32[3] f32[3]" },
    { .name = "training_known", .attrs = "training_mode=1 epsilon=0", .in = "f32[2,1]~1,3 f32[1]~2 f32[1]~5 f32[1]=0 f32[1]=1",
      .out = "f32[2,1]", .y = "3,7", .no_grad = "epsilon 0 on two values has no gradient but 0" },
    { .name = "training_features", .attrs = "training_mode=1 momentum=0.3", .in = "f32[6,3] f32[3] f32[3] f32[3]=0.5 f32[3]=2",
      .out = "f32[6,3] f32[3] f32[3]" },
    { .name = "training_line", .attrs = "training_mode=1", .in = "f32[3,2,5] f32[2] f32[2] f32[2]=0 f32[2]=1", .out = "f32[3,2,5]" },
    { .name = "training_volume", .attrs = "training_mode=1", .in = "f32[2,2,2,3,2] f32[2] f32[2] f32[2]=0 f32[2]=1", .out = "f32[2,2,2,3,2]" },
    { .name = "training_wide", .attrs = "training_mode=1", .in = "f32[4,70,5,5] f32[70] f32[70] f32[70]=0 f32[70]=1",
      .out = "f32[4,70,5,5] f32[70] f32[70]", .no_grad = "training has it" },
    { .name = "training_long", .attrs = "training_mode=1", .in = "f32[40,3,20,20](3,4) f32[3] f32[3] f32[3]=0 f32[3]=1",
      .out = "f32[40,3,20,20] f32[3] f32[3]", .tol = 1e-4, .no_grad = "training has it" },
    { .name = "training_packs", .attrs = "training_mode=1", .in = "f32[5,40,8,9](1,3) f32[40] f32[40] f32[40]=0 f32[40]=1",
      .out = "f32[5,40,8,9]", .tol = 1e-4 },
    { .name = "training_half", .attrs = "training_mode=1", .in = "f16[5,16,7,8] f32[16] f32[16] f32[16]=0 f32[16]=1", .out = "f16[5,16,7,8]" },
    { .name = "double", .attrs = "training_mode=1", .in = "f64[2,3,4] f64[3] f64[3] f64[3]=0 f64[3]=1", .out = "f64[2,3,4]" },
    { .name = "half", .attrs = "epsilon=0", .in = "f16[1,1]~3 f16[1]~2 f16[1]~1 f16[1]~1 f16[1]~4", .out = "f16[1,1]", .y = "3" },
    { .name = "bad_scale", .in = "f32[1,2,1,1] f32[3] f32[2] f32[2] f32[2]", .fail = OT_E_MODEL },
    { .name = "bad_rank", .in = "f32[2] f32[2] f32[2] f32[2] f32[2]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_LayerNormalization[] = {
    { .name = "plain", .attrs = "epsilon=0", .in = "f32[1,2]~1,3 f32[2]~2,3 f32[2]~0,1", .out = "f32[1,2]", .y = "-2,4",
      .no_grad = "epsilon 0 on two values has no gradient but 0" },
    { .name = "tokens", .in = "f32[2,4,6] f32[6] f32[6]", .out = "f32[2,4,6]" },
    { .name = "no_bias", .in = "f32[5,7] f32[7]", .out = "f32[5,7]" },
    { .name = "bias_left_out", .in = "f32[5,7] f32[7] -", .out = "f32[5,7]" },
    { .name = "two_axes", .attrs = "axis=1", .in = "f32[3,4,5] f32[4,5] f32[4,5]", .out = "f32[3,4,5]" },
    { .name = "all_axes", .attrs = "axis=0", .in = "f32[3,4] f32[3,4] f32[3,4]", .out = "f32[3,4]" },
    { .name = "negative_axis", .attrs = "axis=-2", .in = "f32[3,4,5] f32[4,5]", .out = "f32[3,4,5]" },
    { .name = "statistics", .in = "f32[3,5] f32[5] f32[5]", .out = "f32[3,5] f32[3,1] f32[3,1]" },
    { .name = "scale_broadcasts", .attrs = "axis=1", .in = "f32[3,4,5] f32[5] f32[4,1]", .out = "f32[3,4,5]" },
    { .name = "scale_of_one", .in = "f32[3,5] f32[1] f32[1]", .out = "f32[3,5]" },
    { .name = "epsilon", .attrs = "epsilon=0.4", .in = "f32[3,5] f32[5]", .out = "f32[3,5]" },
    { .name = "wide", .in = "f32[70,300](2,3) f32[300] f32[300]", .out = "f32[70,300]", .tol = 1e-4, .no_grad = "tokens has it" },
    { .name = "double", .in = "f64[3,5] f64[5] f64[5]", .out = "f64[3,5]" },
    { .name = "half", .attrs = "epsilon=0", .in = "f16[1,2]~1,3 f16[2]~1,1", .out = "f16[1,2]", .y = "-1,1",
      .no_grad = "epsilon 0 on two values has no gradient but 0" },
    { .name = "rows_of_a_block", .in = "f32[19,3000](1,3) f32[3000] f32[3000]", .out = "f32[19,3000]", .tol = 1e-4 },
    { .name = "odd_rows_of_a_block", .in = "f32[5,4001] f32[4001] f32[4001]", .out = "f32[5,4001]", .tol = 1e-4 },
    { .name = "rows_too_long_for_sums", .in = "f32[9,14001] f32[14001] f32[14001]", .out = "f32[9,14001]", .tol = 1e-4 },
    { .name = "rows_beyond_registers", .in = "f32[2,45004] f32[45004] f32[45004]", .out = "f32[2,45004]", .tol = 1e-4 },
    { .name = "many_rows", .in = "f32[9001,12] f32[12] f32[12]", .out = "f32[9001,12]", .tol = 1e-4 },
    { .name = "half_rows", .in = "f16[5,72] f16[72] f16[72]", .out = "f16[5,72]" },
    { .name = "bfloat_odd_rows", .in = "bf16[5,77] bf16[77] bf16[77]", .out = "bf16[5,77]" },
    { .name = "no_rows", .in = "f32[0,5] f32[5] f32[5]", .out = "f32[0,5]" },
    { .name = "bad_axis", .attrs = "axis=2", .in = "f32[3,5] f32[5]", .fail = OT_E_MODEL },
    { .name = "bad_scale", .in = "f32[3,5] f32[4]", .fail = OT_E_MODEL },
    { .name = "scale_too_large", .in = "f32[1,5] f32[3,5]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_RMSNormalization[] = {
    { .name = "plain", .attrs = "epsilon=0", .in = "f32[1,2]~1,7 f32[2]~5,5", .out = "f32[1,2]", .y = "1,7" },
    { .name = "tokens", .in = "f32[2,4,6] f32[6]", .out = "f32[2,4,6]" },
    { .name = "two_axes", .attrs = "axis=1", .in = "f32[3,4,5] f32[4,5]", .out = "f32[3,4,5]" },
    { .name = "scale_broadcasts", .attrs = "axis=1", .in = "f32[3,4,5] f32[5]", .out = "f32[3,4,5]" },
    { .name = "wide", .in = "f32[70,300] f32[300]", .out = "f32[70,300]", .tol = 1e-4, .no_grad = "tokens has it" },
    { .name = "bad_scale", .in = "f32[3,5] f32[4]", .fail = OT_E_MODEL },
    { 0 }
};
