/* recurrent.c - rows of LSTM, GRU, RNN. */
#include "case.h"

const ot_case ot_cases_RNN[] = {
    { .name = "plain", .attrs = "hidden_size=1", .in = "f32[2,1,1]~1,2 f32[1,1,1]~0.5 f32[1,1,1]~0.25", .out = "f32[2,1,1,1] f32[1,1,1]",
      .y = "0.46211716,0.80600822" },
    { .name = "sizes", .attrs = "hidden_size=4", .in = "f32[3,2,5] f32[1,4,5] f32[1,4,4] f32[1,8]", .out = "f32[3,1,2,4] f32[1,2,4]" },
    { .name = "reverse", .attrs = "direction=reverse", .in = "f32[2,1,1]~2,1 f32[1,1,1]~0.5 f32[1,1,1]~0.25", .out = "f32[2,1,1,1] f32[1,1,1]",
      .y = "0.80600822,0.46211716" },
    { .name = "bidirectional", .attrs = "direction=bidirectional", .in = "f32[3,2,4] f32[2,3,4] f32[2,3,3] f32[2,6] - f32[2,2,3]",
      .out = "f32[3,2,2,3] f32[2,2,3]" },
    { .name = "batch_first", .attrs = "direction=bidirectional layout=1", .in = "f32[2,3,4] f32[2,3,4] f32[2,3,3] f32[2,6] - f32[2,2,3]",
      .out = "f32[2,3,2,3] f32[2,2,3]" },
    { .name = "lengths", .in = "f32[3,2,1]~1,1,2,2,9,9 f32[1,1,1]~0.5 f32[1,1,1]~0.25 - i32[2]~2,0", .out = "f32[3,1,2,1] f32[1,2,1]",
      .y = "0.46211716,0,0.80600822,0,0,0" },
    { .name = "lengths_reverse", .attrs = "direction=reverse", .in = "f32[3,1,1]~2,1,9 f32[1,1,1]~0.5 f32[1,1,1]~0.25 - i32[1]~2",
      .out = "f32[3,1,1,1] f32[1,1,1]", .y = "0.80600822,0.46211716,0" },
    { .name = "lengths_known", .in = "f32[3,2,2] f32[1,3,2] f32[1,3,3] - i32[2]=3,1", .out = "f32[3,1,2,3] f32[1,2,3]" },
    { .name = "last_only", .in = "f32[4,2,3] f32[1,3,3] f32[1,3,3]", .out = "- f32[1,2,3]" },
    { .name = "clip", .attrs = "clip=0.2", .in = "f32[3,2,2] f32[1,3,2] f32[1,3,3]", .out = "f32[3,1,2,3]" },
    { .name = "one_step", .in = "f32[1,2,2] f32[1,3,2] f32[1,3,3]", .out = "f32[1,1,2,3]" },
    { .name = "many_steps", .in = "f32[37,2,2] f32[1,3,2] f32[1,3,3]", .out = "f32[37,1,2,3]" },
    { .name = "no_steps", .in = "f32[0,2,2] f32[1,3,2] f32[1,3,3]", .out = "f32[0,1,2,3]" },
    { .name = "no_samples", .in = "f32[2,0,2] f32[1,3,2] f32[1,3,3]", .out = "f32[2,1,0,3] f32[1,0,3]" },
    { .name = "double", .in = "f64[3,2,2] f64[1,3,2] f64[1,3,3]", .out = "f64[3,1,2,3]" },
    { .name = "bad_w", .in = "f32[3,2,2] f32[1,3,4] f32[1,3,3]", .fail = OT_E_MODEL },
    { .name = "bad_directions", .attrs = "direction=bidirectional", .in = "f32[3,2,2] f32[1,3,2] f32[1,3,3]", .fail = OT_E_MODEL },
    { .name = "bad_hidden_size", .attrs = "hidden_size=4", .in = "f32[3,2,2] f32[1,3,2] f32[1,3,3]", .fail = OT_E_MODEL },
    { .name = "bad_layout", .attrs = "layout=2", .in = "f32[3,2,2] f32[1,3,2] f32[1,3,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_GRU[] = {
    { .name = "plain", .in = "f32[1,1,1]~1 f32[1,3,1]~0,0,0.5 f32[1,3,1]~0,0,1 - - f32[1,1,1]~0.5", .out = "f32[1,1,1,1] f32[1,1,1]",
      .y = "0.56757450" },
    { .name = "sizes", .in = "f32[3,2,5] f32[1,12,5] f32[1,12,4] f32[1,24]", .out = "f32[3,1,2,4] f32[1,2,4]" },
    { .name = "linear_before_reset", .attrs = "linear_before_reset=1", .in = "f32[3,2,5] f32[1,12,5] f32[1,12,4] f32[1,24] - f32[1,2,4]",
      .out = "f32[3,1,2,4] f32[1,2,4]" },
    { .name = "linear_without_bias", .attrs = "linear_before_reset=1", .in = "f32[3,2,2] f32[1,9,2] f32[1,9,3]", .out = "f32[3,1,2,3]" },
    { .name = "bidirectional", .attrs = "direction=bidirectional", .in = "f32[3,2,2] f32[2,9,2] f32[2,9,3] f32[2,18] i32[2]~3,1 f32[2,2,3]",
      .out = "f32[3,2,2,3] f32[2,2,3]" },
    { .name = "batch_first", .attrs = "layout=1 direction=reverse", .in = "f32[2,3,2] f32[1,9,2] f32[1,9,3] f32[1,18] i32[2]~2,3 f32[2,1,3]",
      .out = "f32[2,3,1,3] f32[2,1,3]" },
    { .name = "clip", .attrs = "clip=0.3", .in = "f32[3,2,2] f32[1,9,2] f32[1,9,3]", .out = "f32[3,1,2,3]" },
    { .name = "bad_r", .in = "f32[3,2,2] f32[1,9,2] f32[1,6,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_LSTM[] = {
    { .name = "plain", .in = "f32[1,1,1]~1 f32[1,4,1]~0,0,0,1 f32[1,4,1]~0,0,0,0 - - f32[1,1,1]~0 f32[1,1,1]~2", .out = "f32[1,1,1,1] f32[1,1,1] f32[1,1,1]",
      .y = "0.44056481" },
    { .name = "sizes", .in = "f32[3,2,5] f32[1,16,5] f32[1,16,4] f32[1,32]", .out = "f32[3,1,2,4] f32[1,2,4] f32[1,2,4]" },
    { .name = "bfloat_sizes", .in = "bf16[3,2,5] bf16[1,16,5] bf16[1,16,4] bf16[1,32]", .out = "bf16[3,1,2,4] bf16[1,2,4] bf16[1,2,4]",
      .tol = 5e-2, .grad16 = true },
    { .name = "cell_only", .in = "f32[3,2,2] f32[1,12,2] f32[1,12,3]", .out = "- - f32[1,2,3]" },
    { .name = "peepholes", .in = "f32[3,2,2] f32[1,12,2] f32[1,12,3] f32[1,24] - f32[1,2,3] f32[1,2,3] f32[1,9]", .out = "f32[3,1,2,3] f32[1,2,3] f32[1,2,3]" },
    { .name = "input_forget", .attrs = "input_forget=1", .in = "f32[3,2,2] f32[1,12,2] f32[1,12,3]", .out = "f32[3,1,2,3]" },
    { .name = "bidirectional", .attrs = "direction=bidirectional",
      .in = "f32[3,2,2] f32[2,12,2] f32[2,12,3] f32[2,24] i32[2]~1,3 f32[2,2,3] f32[2,2,3] f32[2,9]", .out = "f32[3,2,2,3] f32[2,2,3] f32[2,2,3]" },
    { .name = "batch_first", .attrs = "layout=1 direction=bidirectional",
      .in = "f32[2,3,2] f32[2,12,2] f32[2,12,3] f32[2,24] i32[2]~1,3 f32[2,2,3] f32[2,2,3]", .out = "f32[2,3,2,3] f32[2,2,3] f32[2,2,3]" },
    { .name = "reverse_lengths", .attrs = "direction=reverse", .in = "f32[4,2,2] f32[1,12,2] f32[1,12,3] f32[1,24] i32[2]~2,4",
      .out = "f32[4,1,2,3] f32[1,2,3] f32[1,2,3]" },
    { .name = "clip", .attrs = "clip=0.3", .in = "f32[3,2,2] f32[1,12,2] f32[1,12,3]", .out = "f32[3,1,2,3]" },
    { .name = "half", .in = "f16[1,1,1]~1 f16[1,4,1]~0,0,0,1 f16[1,4,1]~0,0,0,0", .out = "f16[1,1,1,1]" },
    { .name = "bad_peepholes", .in = "f32[3,2,2] f32[1,12,2] f32[1,12,3] - - - - f32[1,3]", .fail = OT_E_MODEL },
    { .name = "bad_state", .in = "f32[3,2,2] f32[1,12,2] f32[1,12,3] - - f32[2,2,3]", .fail = OT_E_MODEL },
    { 0 }
};
