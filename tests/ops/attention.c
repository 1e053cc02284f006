/* attention.c - rows of Attention (every kind of mask, grouped heads, caches, the output of scores) and of related
 * operators. */
#include "tests/ops/case.h"

#define Q "f32[2,2,3,4] "
#define KV "f32[2,2,3,4] f32[2,2,3,5]"
#define Y "f32[2,2,3,5]"

extern const ot_case ot_cases_Attention[];
const ot_case ot_cases_Attention[] = {
    { .name = "plain", .in = Q KV, .out = Y },
    { .name = "scale", .attrs = "scale=0.7", .in = Q KV, .out = Y },
    { .name = "one_key", .in = "f32[1,1,2,3] f32[1,1,1,3] f32[1,1,1,2]=1,2", .out = "f32[1,1,2,2]", .y = "1,2,1,2" },
    { .name = "three_axes", .attrs = "q_num_heads=2 kv_num_heads=2", .in = "f32[2,3,8] f32[2,4,8] f32[2,4,6]", .out = "f32[2,3,6]" },
    { .name = "groups", .in = "f32[2,4,3,4] " KV, .out = "f32[2,4,3,5]" },
    { .name = "one_group_three_axes", .attrs = "q_num_heads=3 kv_num_heads=1", .in = "f32[2,2,12] f32[2,4,4] f32[2,4,2]", .out = "f32[2,2,6]" },
    { .name = "causal", .attrs = "is_causal=1", .in = Q KV, .out = Y },
    { .name = "causal_wide", .attrs = "is_causal=1", .in = "f32[1,2,2,4] f32[1,2,5,4] f32[1,2,5,3]", .out = "f32[1,2,2,3]" },
    { .name = "window", .attrs = "left_window_size=1 right_window_size=0", .in = Q KV, .out = Y },
    { .name = "window_causal", .attrs = "is_causal=1 left_window_size=1 right_window_size=2", .in = "f32[1,1,4,2] f32[1,1,4,2] f32[1,1,4,2]", .out = "f32[1,1,4,2]" },
    { .name = "window_right", .attrs = "right_window_size=1", .in = "f32[1,1,4,2] f32[1,1,4,2] f32[1,1,4,2]", .out = "f32[1,1,4,2]" },
    { .name = "bool_mask", .in = Q KV " bool[3,3]=1,0,1,1,1,0,0,1,1", .out = Y },
    { .name = "bool_mask_fed", .in = Q KV " bool[2,1,3,3]~1,0,1,1,1,0,0,1,1,1,0,0,1,1,1,0,0,1", .out = Y },
    { .name = "rows_of_nothing", .in = "f32[1,1,2,2] f32[1,1,2,2] f32[1,1,2,2]=1,2,3,4 bool[2,2]=0,0,1,0", .out = "f32[1,1,2,2]", .y = "0,0,1,2" },
    { .name = "rows_of_nothing_fed", .in = "f32[1,1,2,2] f32[1,1,2,2] f32[1,1,2,2] bool[2,2]~0,0,1,0", .out = "f32[1,1,2,2]" },
    { .name = "float_mask", .in = Q KV " f32[3,3]", .out = Y },
    { .name = "float_mask_heads", .in = Q KV " f32[2,1,3]", .out = Y },
    { .name = "minus_inf", .in = "f32[1,1,2,2] f32[1,1,2,2] f32[1,1,2,2]=1,2,3,4 f32[2,2]=-inf,-inf,0,-inf", .out = "f32[1,1,2,2]", .y = "0,0,1,2" },
    { .name = "minus_inf_fed", .in = "f32[1,1,2,2] f32[1,1,2,2] f32[1,1,2,2] f32[2,2]~-inf,-inf,0,-inf", .out = "f32[1,1,2,2]",
      .dx = "0,0,0,0 0,0,0,0 1,1,0,0 -" },
    { .name = "short_mask", .in = Q "f32[2,2,3,4] f32[2,2,3,5] f32[3,2]", .out = Y },
    { .name = "short_bool_mask", .in = Q KV " bool[3,2]~1,0,1,1,0,1", .out = Y },
    { .name = "causal_and_bool", .attrs = "is_causal=1", .in = Q KV " bool[3,3]~0,1,1,1,0,1,1,1,0", .out = Y },
    { .name = "causal_and_float", .attrs = "is_causal=1", .in = Q KV " f32[2,3,3]", .out = Y },
    { .name = "past", .in = Q KV " - f32[2,2,2,4] f32[2,2,2,5]", .out = Y },
    { .name = "past_present", .attrs = "is_causal=1", .in = Q KV " - f32[2,2,2,4] f32[2,2,2,5]", .out = Y " f32[2,2,5,4] f32[2,2,5,5]" },
    { .name = "past_mask_groups", .attrs = "q_num_heads=4 kv_num_heads=2", .in = "f32[1,3,8] f32[1,2,4] f32[1,2,6] f32[3,4] f32[1,2,2,2] f32[1,2,2,3]",
      .out = "f32[1,3,12] f32[1,2,4,2] f32[1,2,4,3] f32[1,4,3,4]" },
    { .name = "lengths", .in = Q KV " - - - i64[2]~2,3", .out = Y },
    { .name = "lengths_causal", .attrs = "is_causal=1", .in = Q KV " - - - i64[2]~2,3", .out = Y },
    { .name = "lengths_window", .attrs = "left_window_size=0 right_window_size=1", .in = "f32[2,1,2,2] f32[2,1,4,2] f32[2,1,4,2] - - - i64[2]~3,4", .out = "f32[2,1,2,2]" },
    { .name = "softcap", .attrs = "softcap=0.5", .in = Q KV, .out = Y },
    { .name = "shown_raw", .in = Q KV, .out = Y " - - f32[2,2,3,3]" },
    { .name = "shown_capped", .attrs = "softcap=0.5 qk_matmul_output_mode=1", .in = Q KV " f32[3,3]", .out = Y " - - f32[2,2,3,3]" },
    { .name = "shown_biased", .attrs = "softcap=0.5 qk_matmul_output_mode=2", .in = Q KV " f32[3,3]", .out = Y " - - f32[2,2,3,3]" },
    { .name = "shown_probabilities", .attrs = "qk_matmul_output_mode=3", .in = Q KV " bool[3,3]~1,0,1,0,0,0,0,1,1", .out = Y " - - f32[2,2,3,3]" },
    { .name = "precision", .attrs = "softmax_precision=11", .in = Q KV, .out = Y },
    { .name = "halves", .in = "f16[1,2,3,4] f16[1,2,3,4] f16[1,2,3,4]", .out = "f16[1,2,3,4]", .tol = 1e-2 },
    { .name = "no_heads", .in = "f32[2,3,8] f32[2,4,8] f32[2,4,6]", .out = "f32[2,3,6]", .fail = OT_E_MODEL },
    { .name = "other_batch", .in = "f32[2,2,3,4] f32[1,2,3,4] f32[1,2,3,4]", .out = "f32[2,2,3,4]", .fail = OT_E_MODEL },
    { .name = "odd_groups", .in = "f32[1,3,3,4] f32[1,2,3,4] f32[1,2,3,4]", .out = "f32[1,3,3,4]", .fail = OT_E_MODEL },
    { .name = "long_mask", .in = Q KV " f32[3,4]", .out = Y, .fail = OT_E_MODEL },
    { .name = "one_past", .in = Q KV " - f32[2,2,2,4]", .out = Y, .fail = OT_E_MODEL },
    { .name = "past_and_lengths", .in = Q KV " - f32[2,2,2,4] f32[2,2,2,5] i64[2]=1,1", .out = Y, .fail = OT_E_MODEL },
    { .name = "mode", .attrs = "qk_matmul_output_mode=4", .in = Q KV, .out = Y, .fail = OT_E_MODEL },
    { .name = "precision_of_ints", .attrs = "softmax_precision=7", .in = Q KV, .out = Y, .fail = OT_E_MODEL },
    { 0 }
};

extern const ot_case ot_cases_RotaryEmbedding[];
const ot_case ot_cases_RotaryEmbedding[] = {
    { .name = "halves", .in = "f32[2,2,3,4] f32[2,3,2] f32[2,3,2]", .out = "f32[2,2,3,4]" },
    { .name = "quarter_turn", .in = "f32[1,1,1,4]=1,2,3,4 f32[1,1,2]=0 f32[1,1,2]=1", .out = "f32[1,1,1,4]", .y = "-3,-4,1,2" },
    { .name = "quarter_turn_of_pairs", .attrs = "interleaved=1", .in = "f32[1,1,1,4]=1,2,3,4 f32[1,1,2]=0 f32[1,1,2]=1", .out = "f32[1,1,1,4]", .y = "-2,1,-4,3" },
    { .name = "pairs", .attrs = "interleaved=1", .in = "f32[2,2,3,4] f32[2,3,2] f32[2,3,2]", .out = "f32[2,2,3,4]" },
    { .name = "some_channels", .attrs = "rotary_embedding_dim=4", .in = "f32[2,2,3,6] f32[2,3,2] f32[2,3,2]", .out = "f32[2,2,3,6]" },
    { .name = "some_pairs", .attrs = "rotary_embedding_dim=4 interleaved=1", .in = "f32[2,2,3,7] f32[2,3,2] f32[2,3,2]", .out = "f32[2,2,3,7]" },
    { .name = "positions", .in = "f32[2,2,3,4] f32[5,2] f32[5,2] i64[2,3]~0,4,1,1,1,2", .out = "f32[2,2,3,4]" },
    { .name = "three_axes", .attrs = "num_heads=2", .in = "f32[2,3,8] f32[5,2] f32[5,2] i64[2,3]=0,4,1,1,1,2", .out = "f32[2,3,8]" },
    { .name = "no_heads", .in = "f32[2,3,8] f32[2,3,2] f32[2,3,2]", .out = "f32[2,3,8]", .fail = OT_E_MODEL },
    { .name = "odd", .attrs = "rotary_embedding_dim=3", .in = "f32[2,2,3,4] f32[2,3,2] f32[2,3,2]", .out = "f32[2,2,3,4]", .fail = OT_E_MODEL },
    { .name = "other_tables", .in = "f32[2,2,3,4] f32[2,3,4] f32[2,3,4]", .out = "f32[2,2,3,4]", .fail = OT_E_MODEL },
    { .name = "beyond", .in = "f32[1,1,1,2] f32[2,1] f32[2,1] i64[1,1]~2", .out = "f32[1,1,1,2]", .fail_run = OT_E_DATA },
    { 0 }
};

extern const ot_case ot_cases_SwiGLU[];
const ot_case ot_cases_SwiGLU[] = {
    { .name = "plain", .in = "f32[2,3] f32[2,3]", .out = "f32[2,3]" },
    { .name = "alpha", .attrs = "alpha=1.7", .in = "f32[2,3] f32[2,3]", .out = "f32[2,3]" },
    { .name = "zero", .in = "f32[2]=0,0 f32[2]=3,5", .out = "f32[2]", .y = "0,0", .dx = "1.5,2.5 0,0" },
    { .name = "two_shapes", .in = "f32[2,3] f32[3]", .out = "f32[2,3]", .fail = OT_E_MODEL },
    { 0 }
};

#define HEADS "q_num_heads=2 kv_num_heads=2 "
#define QKV "f32[2,3,4] f32[2,3,4] f32[2,3,6] "

extern const ot_case ot_cases_LinearAttention[];
const ot_case ot_cases_LinearAttention[] = {
    { .name = "linear", .attrs = HEADS "update_rule=linear", .in = QKV, .out = "f32[2,3,6] f32[2,2,2,3]" },
    { .name = "one_token", .attrs = "q_num_heads=1 kv_num_heads=1 update_rule=linear scale=1", .in = "f32[1,1,2]=1,2 f32[1,1,2]=3,4 f32[1,1,2]=5,6",
      .out = "f32[1,1,2]", .y = "55,66" },
    { .name = "state", .attrs = HEADS "update_rule=linear scale=0.3", .in = QKV "f32[2,2,2,3]", .out = "f32[2,3,6] f32[2,2,2,3]" },
    { .name = "gated", .attrs = HEADS "update_rule=gated", .in = QKV "- f32[2,3,4]", .out = "f32[2,3,6]" },
    { .name = "gated_by_head", .attrs = HEADS "update_rule=gated", .in = QKV "- f32[2,3,2]", .out = "f32[2,3,6] f32[2,2,2,3]" },
    { .name = "delta", .attrs = HEADS "update_rule=delta", .in = QKV "- - f32[2,3,2]", .out = "f32[2,3,6] f32[2,2,2,3]" },
    { .name = "delta_one_beta", .attrs = HEADS "update_rule=delta", .in = QKV "f32[2,2,2,3] - f32[2,3,1]", .out = "f32[2,3,6]" },
    { .name = "gated_delta_groups", .attrs = "q_num_heads=4 kv_num_heads=2", .in = "f32[2,3,8] " "f32[2,3,4] f32[2,3,6] " "f32[2,2,2,3] f32[2,3,4] f32[2,3,2]",
      .out = "f32[2,3,12] f32[2,2,2,3]" },
    { .name = "no_decay", .attrs = HEADS, .in = QKV "- - f32[2,3,2]", .out = "f32[2,3,6]", .fail = OT_E_MODEL },
    { .name = "decay_of_linear", .attrs = HEADS "update_rule=linear", .in = QKV "- f32[2,3,2]", .out = "f32[2,3,6]", .fail = OT_E_MODEL },
    { .name = "heads", .attrs = "q_num_heads=3 kv_num_heads=2 update_rule=linear", .in = "f32[2,3,6] f32[2,3,4] f32[2,3,6]", .out = "f32[2,3,9]", .fail = OT_E_MODEL },
    { .name = "other_state", .attrs = HEADS "update_rule=linear", .in = QKV "f32[2,2,3,2]", .out = "f32[2,3,6]", .fail = OT_E_MODEL },
    { 0 }
};

extern const ot_case ot_cases_CausalConvWithState[];
const ot_case ot_cases_CausalConvWithState[] = {
    { .name = "plain", .in = "f32[2,3,5] f32[3,1,4]", .out = "f32[2,3,5] f32[2,3,3]" },
    { .name = "sums", .in = "f32[1,1,4]=1,2,3,4 f32[1,1,2]=1", .out = "f32[1,1,4] f32[1,1,1]", .y = "1,3,5,7" },
    { .name = "bias_and_state", .in = "f32[2,3,5] f32[3,1,3] f32[3] f32[2,3,2]", .out = "f32[2,3,5] f32[2,3,2]" },
    { .name = "silu", .attrs = "activation=silu", .in = "f32[2,3,5] f32[3,1,3] - f32[2,3,2]", .out = "f32[2,3,5]" },
    { .name = "short", .attrs = "activation=swish", .in = "f32[2,3,1] f32[3,1,4] - f32[2,3,3]", .out = "f32[2,3,1] f32[2,3,3]" },
    { .name = "size_one", .in = "f32[2,3,5] f32[3,1,1]", .out = "f32[2,3,5] f32[2,3,0]" },
    { .name = "other_state", .in = "f32[2,3,5] f32[3,1,3] - f32[2,3,3]", .out = "f32[2,3,5]", .fail = OT_E_MODEL },
    { .name = "other_channels", .in = "f32[2,3,5] f32[2,1,3]", .out = "f32[2,3,5]", .fail = OT_E_MODEL },
    { 0 }
};
