/* softmax.c - rows of Softmax, LogSoftmax and the losses over classes. */
#include "case.h"

const ot_case ot_cases_Softmax[] = {
    { .name = "plain", .in = "f32[1,2]~0,0", .out = "f32[1,2]", .y = "0.5,0.5", .dx = "0,0" },
    { .name = "rows", .in = "f32[5,10]", .out = "f32[5,10]" },
    { .name = "axis_zero", .attrs = "axis=0", .in = "f32[5,7]", .out = "f32[5,7]" },
    { .name = "middle", .attrs = "axis=1", .in = "f32[2,5,7]", .out = "f32[2,5,7]" },
    { .name = "image", .attrs = "axis=1", .in = "f32[2,3,8,9]", .out = "f32[2,3,8,9]" },
    { .name = "long", .in = "f32[3,1000](-9,9)", .out = "f32[3,1000]", .no_grad = "rows has it" },
    { .name = "saturated", .in = "f32[1,2]~1000,-1000", .out = "f32[1,2]", .y = "1,0", .dx = "0,0" },
    { .name = "masked", .in = "f32[1,3]~0,-inf,0", .out = "f32[1,3]", .y = "0.5,0,0.5", .no_grad = "not finite" },
    { .name = "scalar", .in = "f32[]~3", .out = "f32[]", .y = "1", .dx = "0" },
    { .name = "empty", .in = "f32[0,3]", .out = "f32[0,3]" },
    { .name = "no_classes", .in = "f32[3,0]", .out = "f32[3,0]" },
    { .name = "double", .in = "f64[2,3]", .out = "f64[2,3]" },
    { .name = "half", .in = "f16[1,2]~0,0", .out = "f16[1,2]", .y = "0.5,0.5" },
    { .name = "odd_rows", .in = "f32[7,131]", .out = "f32[7,131]" },
    { .name = "rows_of_a_block", .in = "f32[2,2503]", .out = "f32[2,2503]" },
    { .name = "rows_of_a_large_block", .in = "f32[2,10001]", .out = "f32[2,10001]", .tol = 1e-4, .no_grad = "rows_of_a_block has it" },
    { .name = "rows_beyond_registers", .in = "f32[2,54321]", .out = "f32[2,54321]" },
    { .name = "long_axis_zero", .attrs = "axis=0", .in = "f32[900,5]", .out = "f32[900,5]" },
    { .name = "long_axis_beyond_registers", .attrs = "axis=1", .in = "f32[2,1500,3]", .out = "f32[2,1500,3]" },
    { .name = "half_rows", .in = "f16[5,136](-4,4)", .out = "f16[5,136]" },
    { .name = "half_odd_rows", .in = "f16[5,77](-4,4)", .out = "f16[5,77]" },
    { .name = "half_middle", .attrs = "axis=1", .in = "f16[2,9,5](-4,4)", .out = "f16[2,9,5]" },
    { .name = "bfloat_odd_rows", .in = "bf16[3,1031](-4,4)", .out = "bf16[3,1031]" },
    { .name = "double_long", .in = "f64[3,1201](-9,9)", .out = "f64[3,1201]", .no_grad = "rows_of_a_block has it" },
    { .name = "bad_axis", .attrs = "axis=2", .in = "f32[2,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_LogSoftmax[] = {
    { .name = "plain", .in = "f32[1,2]~0,0", .out = "f32[1,2]", .y = "-0.69314718056,-0.69314718056", .dx = "0,0" },
    { .name = "rows", .in = "f32[5,10]", .out = "f32[5,10]" },
    { .name = "middle", .attrs = "axis=1", .in = "f32[2,5,7]", .out = "f32[2,5,7]" },
    { .name = "image", .attrs = "axis=-3", .in = "f32[2,3,8,9]", .out = "f32[2,3,8,9]" },
    { .name = "saturated", .in = "f32[1,2]~1000,-1000", .out = "f32[1,2]", .y = "0,-2000", .no_grad = "beyond differences" },
    { .name = "double", .in = "f64[2,3]", .out = "f64[2,3]" },
    { .name = "rows_of_a_block", .in = "f32[2,2503]", .out = "f32[2,2503]" },
    { .name = "rows_beyond_registers", .in = "f32[2,54321]", .out = "f32[2,54321]", .no_grad = "rows_of_a_block has it" },
    { .name = "half_odd_rows", .in = "f16[5,77](-4,4)", .out = "f16[5,77]" },
    { .name = "bad_axis", .attrs = "axis=-3", .in = "f32[2,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_SoftmaxCrossEntropyLoss[] = {
    { .name = "plain", .in = "f32[1,2]~0,0 i64[1]~1", .out = "f32[]", .y = "0.69314718056", .dx = "0.5,-0.5 -" },
    { .name = "mean", .in = "f32[4,5] i64[4]~1,0,4,2", .out = "f32[]" },
    { .name = "sum", .attrs = "reduction=sum", .in = "f32[4,5] i64[4]~1,0,4,2", .out = "f32[]" },
    { .name = "none", .attrs = "reduction=none", .in = "f32[4,5] i64[4]~1,0,4,2", .out = "f32[4]" },
    { .name = "int32_labels", .in = "f32[4,5] i32[4]~1,0,4,2", .out = "f32[]" },
    { .name = "weighted", .in = "f32[4,3] i64[4]~1,0,2,2 f32[3](0.5,2)", .out = "f32[]" },
    { .name = "weighted_none", .attrs = "reduction=none", .in = "f32[4,3] i64[4]~1,0,2,2 f32[3](0.5,2)", .out = "f32[4]" },
    { .name = "ignored", .attrs = "ignore_index=0", .in = "f32[4,3] i64[4]~1,0,2,2", .out = "f32[]" },
    { .name = "ignored_outside", .attrs = "ignore_index=-1", .in = "f32[4,3] i64[4]~1,-1,2,-1 f32[3](0.5,2)", .out = "f32[]" },
    { .name = "ignored_none", .attrs = "ignore_index=2 reduction=none", .in = "f32[2,3]~0,0,0,1,2,3 i64[2]~2,2", .out = "f32[2]", .y = "0,0",
      .dx = "0,0,0,0,0,0 -" },
    { .name = "pixels", .in = "f32[2,3,4,5] i64[2,4,5]=1", .out = "f32[]" },
    { .name = "pixels_none", .attrs = "reduction=none", .in = "f32[2,3,4] i64[2,4]~0,1,2,0,1,2,0,1 f32[3](0.5,2)", .out = "f32[2,4]" },
    { .name = "log_prob", .in = "f32[4,5] i64[4]~1,0,4,2", .out = "f32[] f32[4,5]" },
    { .name = "log_prob_pixels", .attrs = "ignore_index=1", .in = "f32[2,3,4] i64[2,4]~0,1,2,0,1,2,0,1", .out = "f32[] f32[2,3,4]" },
    { .name = "double", .in = "f64[4,5] i64[4]~1,0,4,2", .out = "f64[]" },
    { .name = "many_classes", .in = "f32[3,900](-5,5) i64[3]~899,0,17", .out = "f32[]", .no_grad = "mean has it" },
    { .name = "label_too_large", .in = "f32[2,3] i64[2]~0,3", .out = "f32[]", .fail_run = OT_E_DATA },
    { .name = "label_negative", .in = "f32[2,3] i64[2]~-1,0", .out = "f32[]", .fail_run = OT_E_DATA },
    { .name = "label_negative_not_ignored", .attrs = "ignore_index=-100", .in = "f32[2,3] i64[2]~-1,0", .out = "f32[]", .fail_run = OT_E_DATA },
    { .name = "bad_target", .in = "f32[2,3] i64[3]", .fail = OT_E_MODEL },
    { .name = "bad_weights", .in = "f32[2,3] i64[2] f32[2]", .fail = OT_E_MODEL },
    { .name = "bad_rank", .in = "f32[3] i64[3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_NegativeLogLikelihoodLoss[] = {
    { .name = "plain", .in = "f32[2,2]~-1,-2,-3,-4 i64[2]~1,0", .out = "f32[]", .y = "2.5", .dx = "0,-0.5,-0.5,0 -" },
    { .name = "sum", .attrs = "reduction=sum", .in = "f32[4,5] i64[4]~1,0,4,2", .out = "f32[]" },
    { .name = "none", .attrs = "reduction=none", .in = "f32[4,5] i64[4]~1,0,4,2 f32[5](0.5,2)", .out = "f32[4]" },
    { .name = "weighted", .in = "f32[4,3] i64[4]~1,0,2,2 f32[3](0.5,2)", .out = "f32[]" },
    { .name = "ignored", .attrs = "ignore_index=2", .in = "f32[4,3] i64[4]~1,0,2,2 f32[3](0.5,2)", .out = "f32[]" },
    { .name = "pixels", .in = "f32[2,3,4,5] i64[2,4,5]=2", .out = "f32[]" },
    { .name = "minus_infinity_elsewhere", .in = "f32[1,2]~-inf,-1 i64[1]~1", .out = "f32[]", .y = "1", .no_grad = "not finite" },
    { .name = "label_too_large", .in = "f32[2,3] i64[2]~0,3", .out = "f32[]", .fail_run = OT_E_DATA },
    { .name = "bad_target", .in = "f32[2,3] i64[3]", .fail = OT_E_MODEL },
    { 0 }
};
