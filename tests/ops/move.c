/* move.c - rows of Transpose, Expand, Tile, Concat, Split, Slice, Gather, Pad. */
#include "case.h"

const ot_case ot_cases_Transpose[] = {
    { .name = "default", .in = "f32[2,3]~1,2,3,4,5,6", .out = "f32[3,2]", .y = "1,4,2,5,3,6" },
    { .name = "perm", .in = "f32[2,3,4]", .attrs = "perm=[1,2,0]", .out = "f32[3,4,2]" },
    { .name = "heads", .in = "f32[2,5,3,4]", .attrs = "perm=[0,2,1,3]", .out = "f32[2,3,5,4]" },
    { .name = "large", .in = "f32[3,70,45]", .attrs = "perm=[0,2,1]", .out = "f32[3,45,70]" },
    { .name = "inner_to_front", .in = "f32[33,5,37]", .attrs = "perm=[2,0,1]", .out = "f32[37,33,5]" },
    { .name = "bytes", .in = "u8[40,50]", .out = "u8[50,40]" },
    { .name = "half", .in = "f16[40,50]", .out = "f16[50,40]", .grad16 = true },
    { .name = "double", .in = "f64[40,50]", .out = "f64[50,40]" },
    { .name = "ones_move", .in = "f32[1,3,1,4]", .attrs = "perm=[1,0,3,2]", .out = "f32[3,1,4,1]" },
    { .name = "same", .in = "f32[2,3]", .attrs = "perm=[0,1]", .out = "f32[2,3]" },
    { .name = "six", .in = "f32[2,3,2,3,2,2]", .attrs = "perm=[0,3,5,1,4,2]", .out = "f32[2,3,2,3,2,2]" },
    { .name = "scalar", .in = "f32[]", .out = "f32[]" },
    { .name = "empty", .in = "f32[0,3]", .out = "f32[3,0]" },
    { .name = "repeated", .in = "f32[2,3]", .attrs = "perm=[0,0]", .fail = OT_E_MODEL },
    { .name = "short", .in = "f32[2,3]", .attrs = "perm=[0]", .fail = OT_E_MODEL },
    { .name = "outside", .in = "f32[2,3]", .attrs = "perm=[0,2]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Expand[] = {
    { .name = "rows", .in = "f32[3,1]~1,2,3 i64[2]=3,2", .out = "f32[3,2]", .y = "1,1,2,2,3,3", .dx = "2,2,2" },
    { .name = "new_axes", .in = "f32[3] i64[3]=2,4,3", .out = "f32[2,4,3]" },
    { .name = "bfloat", .in = "bf16[5,1,3] i64[3]=1,4,3", .out = "bf16[5,4,3]", .grad16 = true },
    { .name = "x_is_larger", .in = "f32[2,3] i64[1]=1", .out = "f32[2,3]" },
    { .name = "both_grow", .in = "f32[2,1] i64[2]=1,3", .out = "f32[2,3]" },
    { .name = "scalar", .in = "f32[] i64[2]=2,3", .out = "f32[2,3]" },
    { .name = "to_empty", .in = "f32[1,3] i64[2]=0,3", .out = "f32[0,3]" },
    { .name = "middle", .in = "f32[2,1,3] i64[3]=2,4,3", .out = "f32[2,4,3]" },
    { .name = "does_not_fit", .in = "f32[2,3] i64[2]=3,3", .fail = OT_E_MODEL },
    { .name = "too_large", .in = "f32[1] i64[2]=4611686018427387904,4", .fail = OT_E_MODEL },
    { .name = "unknown_shape", .in = "f32[1] i64[1]~4", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Tile[] = {
    { .name = "plain", .in = "f32[2]~1,2 i64[1]=3", .out = "f32[6]", .y = "1,2,1,2,1,2", .dx = "3,3" },
    { .name = "two_axes", .in = "f32[2,3] i64[2]=2,2", .out = "f32[4,6]" },
    { .name = "one_axis", .in = "f32[2,3,4] i64[3]=1,2,1", .out = "f32[2,6,4]" },
    { .name = "once", .in = "f32[2,3] i64[2]=1,1", .out = "f32[2,3]" },
    { .name = "many_axes", .in = "f32[1,2,1,2,1] i64[5]=2,2,3,2,2", .out = "f32[2,4,3,4,2]" },
    { .name = "nothing", .in = "f32[2,3] i64[2]=0,2", .out = "f32[0,6]" },
    { .name = "integers", .in = "i64[2]~1,2 i64[1]=2", .out = "i64[4]", .y = "1,2,1,2" },
    { .name = "scalar", .in = "f32[] i64[0]=", .out = "f32[]" },
    { .name = "short", .in = "f32[2,3] i64[1]=2", .fail = OT_E_MODEL },
    { .name = "negative", .in = "f32[2] i64[1]=-1", .fail = OT_E_MODEL },
    { .name = "too_large", .in = "f32[8] i64[1]=4611686018427387904", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Concat[] = {
    { .name = "rows", .in = "f32[1,2]~1,2 f32[2,2]~3,4,5,6", .attrs = "axis=0", .out = "f32[3,2]", .y = "1,2,3,4,5,6" },
    { .name = "columns", .in = "f32[2,1] f32[2,3] f32[2,2]", .attrs = "axis=1", .out = "f32[2,6]" },
    { .name = "negative", .in = "f32[2,1,3] f32[2,4,3]", .attrs = "axis=-2", .out = "f32[2,5,3]" },
    { .name = "channels", .in = "f32[2,3,4,4] f32[2,5,4,4]", .attrs = "axis=1", .out = "f32[2,8,4,4]" },
    { .name = "half", .in = "f16[2,3,4] f16[2,5,4]", .attrs = "axis=1", .out = "f16[2,8,4]", .grad16 = true },
    { .name = "one", .in = "f32[2,3]", .attrs = "axis=1", .out = "f32[2,3]" },
    { .name = "with_empty", .in = "f32[2,0] f32[2,3]", .attrs = "axis=1", .out = "f32[2,3]" },
    { .name = "all_empty", .in = "f32[0] f32[0]", .attrs = "axis=0", .out = "f32[0]" },
    { .name = "integers", .in = "i64[2] i64[3]", .attrs = "axis=0", .out = "i64[5]" },
    { .name = "other_axis_differs", .in = "f32[2,3] f32[3,3]", .attrs = "axis=1", .fail = OT_E_MODEL },
    { .name = "ranks_differ", .in = "f32[2,3] f32[3]", .attrs = "axis=0", .fail = OT_E_MODEL },
    { .name = "types_differ", .in = "f32[2] i64[2]", .attrs = "axis=0", .fail = OT_E_MODEL },
    { .name = "bad_axis", .in = "f32[2] f32[2]", .attrs = "axis=1", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Split[] = {
    { .name = "equal", .in = "f32[4]~1,2,3,4", .out = "f32[2] f32[2]", .y = "1,2" },
    { .name = "sizes", .in = "f32[2,6] i64[3]=1,2,3", .attrs = "axis=1", .out = "f32[2,1] f32[2,2] f32[2,3]" },
    { .name = "uneven", .in = "f32[7]", .attrs = "num_outputs=3", .out = "f32[3] f32[3] f32[1]" },
    { .name = "negative", .in = "f32[2,4,3]", .attrs = "axis=-2", .out = "f32[2,2,3] f32[2,2,3]" },
    { .name = "one_unused", .in = "f32[6]", .out = "f32[2] - f32[2]" },
    { .name = "empty_part", .in = "f32[3] i64[2]=0,3", .out = "f32[0] f32[3]" },
    { .name = "of_nothing", .in = "f32[0,2]", .out = "f32[0,2] f32[0,2]" },
    { .name = "does_not_divide", .in = "f32[7]", .out = "f32[4] f32[3]", .fail = OT_E_MODEL },
    { .name = "wrong_sum", .in = "f32[6] i64[2]=2,3", .out = "f32[2] f32[3]", .fail = OT_E_MODEL },
    { .name = "too_much", .in = "f32[6] i64[2]=2,5", .out = "f32[2] f32[5]", .fail = OT_E_MODEL },
    { .name = "wrong_number", .in = "f32[6] i64[2]=2,4", .out = "f32[2] f32[2] f32[2]", .fail = OT_E_MODEL },
    { .name = "negative_size", .in = "f32[6] i64[2]=-2,8", .out = "f32[2] f32[2]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Slice[] = {
    { .name = "plain", .in = "f32[2,4]~1,2,3,4,5,6,7,8 i64[2]=0,1 i64[2]=2,3", .out = "f32[2,2]", .y = "2,3,6,7",
      .dx = "0,1,1,0,0,1,1,0" },
    { .name = "axes", .in = "f32[3,4,5] i64[1]=1 i64[1]=3 i64[1]=1", .out = "f32[3,2,5]" },
    { .name = "negative_axis", .in = "f32[3,4,5] i64[1]=1 i64[1]=3 i64[1]=-1", .out = "f32[3,4,2]" },
    { .name = "half", .in = "f16[4,10] i64[2]=1,9 i64[2]=4,0 i64[2]=0,1 i64[2]=1,-2", .out = "f16[3,5]", .grad16 = true },
    { .name = "to_the_end", .in = "f32[5]~1,2,3,4,5 i64[1]=-2 i64[1]=9223372036854775807", .out = "f32[2]", .y = "4,5" },
    { .name = "back_from_before", .in = "f32[7]~1,2,3,4,5,6,7 i64[1]=-100 i64[1]=-100 i64[1]=0 i64[1]=-1", .out = "f32[1]", .y = "1", .dx = "1,0,0,0,0,0,0 - - - -" },
    { .name = "back_from_nothing", .in = "f32[0] i64[1]=-100 i64[1]=-100 i64[1]=0 i64[1]=-1", .out = "f32[0]" },
    { .name = "steps", .in = "f32[7]~1,2,3,4,5,6,7 i64[1]=1 i64[1]=7 i64[1]=0 i64[1]=3", .out = "f32[2]", .y = "2,5" },
    { .name = "steps_two_axes", .in = "f32[5,6] i64[2]=0,1 i64[2]=5,6 i64[2]=0,1 i64[2]=2,2", .out = "f32[3,3]" },
    { .name = "reversed", .in = "f32[4]~1,2,3,4 i64[1]=-1 i64[1]=-9223372036854775807 i64[1]=0 i64[1]=-1", .out = "f32[4]",
      .y = "4,3,2,1" },
    { .name = "reversed_steps", .in = "f32[2,7] i64[1]=6 i64[1]=0 i64[1]=1 i64[1]=-2", .out = "f32[2,3]" },
    { .name = "clamped", .in = "f32[4]~1,2,3,4 i64[1]=-100 i64[1]=100", .out = "f32[4]", .y = "1,2,3,4" },
    { .name = "huge_step", .in = "f32[4]~1,2,3,4 i64[1]=1 i64[1]=4 i64[1]=0 i64[1]=9223372036854775807", .out = "f32[1]", .y = "2" },
    { .name = "nothing", .in = "f32[4] i64[1]=3 i64[1]=1", .out = "f32[0]" },
    { .name = "of_nothing", .in = "f32[0,2] i64[1]=0 i64[1]=5", .out = "f32[0,2]" },
    { .name = "int32", .in = "f32[4] i32[1]=1 i32[1]=3 i32[1]=0 i32[1]=1", .out = "f32[2]" },
    { .name = "no_axes_with_steps", .in = "f32[6,2] i64[1]=0 i64[1]=6 - i64[1]=2", .out = "f32[3,2]" },
    { .name = "whole", .in = "f32[3,4] i64[1]=0 i64[1]=3", .out = "f32[3,4]" },
    { .name = "step_0", .in = "f32[4] i64[1]=0 i64[1]=4 i64[1]=0 i64[1]=0", .fail = OT_E_MODEL },
    { .name = "axis_twice", .in = "f32[4,4] i64[2]=0 i64[2]=1 i64[2]=1,-1", .fail = OT_E_MODEL },
    { .name = "bad_axis", .in = "f32[4] i64[1]=0 i64[1]=1 i64[1]=1", .fail = OT_E_MODEL },
    { .name = "lengths_differ", .in = "f32[4,4] i64[2]=0 i64[1]=1", .fail = OT_E_MODEL },
    { .name = "unknown_starts", .in = "f32[4] i64[1]~0 i64[1]=1", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Gather[] = {
    { .name = "rows", .in = "f32[4,3] i64[2]~3,-1", .out = "f32[2,3]" },
    { .name = "repeated", .in = "f32[3,2]~1,2,3,4,5,6 i64[4]~2,0,2,2", .out = "f32[4,2]", .y = "5,6,1,2,5,6,5,6",
      .dx = "1,1,0,0,3,3" },
    { .name = "axis_1", .in = "f32[2,4,3] i64[2,2]~0,3,-2,1", .attrs = "axis=1", .out = "f32[2,2,2,3]" },
    { .name = "last_axis", .in = "f32[2,4] i64[3]~0,3,3", .attrs = "axis=-1", .out = "f32[2,3]" },
    { .name = "scalar", .in = "f32[4,3] i64[]~2", .out = "f32[3]" },
    { .name = "known_scalar", .in = "f32[2,4,3] i64[]=-1", .attrs = "axis=1", .out = "f32[2,3]" },
    { .name = "known_steps", .in = "f32[7,2] i64[3]=5,3,1", .out = "f32[3,2]" },
    { .name = "known_repeats", .in = "f32[3,2] i64[4]=1,1,1,1", .out = "f32[4,2]" },
    { .name = "known_any", .in = "f32[5,2] i64[4]=4,0,-5,2", .out = "f32[4,2]" },
    { .name = "int32", .in = "f32[4,3] i32[2]~1,-4", .out = "f32[2,3]" },
    { .name = "no_indices", .in = "f32[4,3] i64[0]=", .out = "f32[0,3]" },
    { .name = "empty_rows", .in = "f32[4,0] i64[2]~1,2", .out = "f32[2,0]" },
    { .name = "integers", .in = "i64[4]~5,6,7,8 i64[2]~3,0", .out = "i64[2]", .y = "8,5" },
    { .name = "embedding", .in = "f32[50,40] i64[8,16]", .out = "f32[8,16,40]" },
    { .name = "embedding_half", .in = "f16[30,16] i64[4,33]", .out = "f16[4,33,16]", .grad16 = true },
    { .name = "embedding_bfloat", .in = "bf16[30,5] i64[7]~3,3,29,0,3,-1,5", .out = "bf16[7,5]", .grad16 = true },
    { .name = "outside", .in = "f32[4] i64[1]~4", .out = "f32[1]", .fail_run = OT_E_DATA },
    { .name = "below", .in = "f32[4] i64[1]~-5", .out = "f32[1]", .fail_run = OT_E_DATA },
    { .name = "known_outside", .in = "f32[4] i64[1]=4", .fail = OT_E_MODEL },
    { .name = "float_indices", .in = "f32[4] f32[1]", .fail = OT_E_MODEL },
    { .name = "bad_axis", .in = "f32[4] i64[1]~0", .attrs = "axis=1", .fail = OT_E_MODEL },
    { .name = "of_scalar", .in = "f32[] i64[1]~0", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Pad[] = {
    { .name = "zeros", .in = "f32[2]~1,2 i64[2]=1,2", .out = "f32[5]", .y = "0,1,2,0,0", .dx = "1,1" },
    { .name = "two_axes", .in = "f32[2,3] i64[4]=1,0,2,1", .out = "f32[5,4]" },
    { .name = "value", .in = "f32[2]~1,2 i64[2]=1,1 f32[]=5", .out = "f32[4]", .y = "5,1,2,5" },
    { .name = "fed_value", .in = "f32[2,2]~1,2,3,4 i64[4]=1,0,0,1 f32[]~5", .out = "f32[3,3]", .y = "5,5,5,1,2,5,3,4,5",
      .dx = "1,1,1,1 - 5" },
    { .name = "value_in_wide_words", .in = "f32[2,8] i64[4]=1,4,0,4 f32[]=5", .out = "f32[3,16]" },
    { .name = "axes", .in = "f32[2,3,4] i64[4]=1,0,0,2 f32[]=0 i64[2]=-1,1", .out = "f32[2,5,5]" },
    { .name = "cut", .in = "f32[4]~1,2,3,4 i64[2]=-1,-1", .out = "f32[2]", .y = "2,3" },
    { .name = "cut_and_pad", .in = "f32[4]~1,2,3,4 i64[2]=-1,1", .out = "f32[4]", .y = "2,3,4,0" },
    { .name = "edge", .in = "f32[3]~1,2,3 i64[2]=2,1", .attrs = "mode=edge", .out = "f32[6]", .y = "1,1,1,2,3,3", .dx = "3,1,2" },
    { .name = "edge_2d", .in = "f32[2,3,4] i64[6]=0,1,2,0,2,1", .attrs = "mode=edge", .out = "f32[2,6,7]" },
    { .name = "reflect", .in = "f32[3]~1,2,3 i64[2]=2,1", .attrs = "mode=reflect", .out = "f32[6]", .y = "3,2,1,2,3,2",
      .dx = "1,3,2" },
    { .name = "reflect_2d", .in = "f32[2,4,4] i64[6]=0,2,1,0,1,3", .attrs = "mode=reflect", .out = "f32[2,7,8]" },
    { .name = "reflect_far", .in = "f32[2]~1,2 i64[2]=3,2", .attrs = "mode=reflect", .out = "f32[7]", .y = "2,1,2,1,2,1,2" },
    { .name = "wrap", .in = "f32[3]~1,2,3 i64[2]=2,1", .attrs = "mode=wrap", .out = "f32[6]", .y = "2,3,1,2,3,1", .dx = "2,2,2" },
    { .name = "wrap_far", .in = "f32[2]~1,2 i64[2]=3,4", .attrs = "mode=wrap", .out = "f32[9]", .y = "2,1,2,1,2,1,2,1,2" },
    { .name = "integers", .in = "i64[2]~1,2 i64[2]=1,0 i64[]=9223372036854775807", .out = "i64[3]",
      .y = "9223372036854775807,1,2" },
    { .name = "of_nothing", .in = "f32[0] i64[2]=1,2", .out = "f32[3]", .y = "0,0,0" },
    { .name = "no_pads", .in = "f32[2,3] i64[4]=0", .out = "f32[2,3]" },
    { .name = "scalar", .in = "f32[] i64[0]=", .out = "f32[]" },
    { .name = "wrong_number", .in = "f32[2,3] i64[2]=1,1", .fail = OT_E_MODEL },
    { .name = "cut_too_much", .in = "f32[2] i64[2]=-2,-1", .fail = OT_E_MODEL },
    { .name = "edge_of_nothing", .in = "f32[0] i64[2]=1,0", .attrs = "mode=edge", .fail = OT_E_MODEL },
    { .name = "value_type", .in = "f32[2] i64[2]=1,1 i64[]=5", .fail = OT_E_MODEL },
    { .name = "too_large", .in = "f32[2] i64[2]=9223372036854775807,1", .fail = OT_E_MODEL },
    { .name = "unknown_pads", .in = "f32[2] i64[2]~1,1", .fail = OT_E_MODEL },
    { 0 }
};
