/* index.c - rows of the operators about indices and coordinates. */
#include "case.h"

const ot_case ot_cases_GatherElements[] = {
    { .name = "rows", .in = "f32[3,2]~1,2,3,4,5,6 i64[2,2]~1,2,0,0", .out = "f32[2,2]", .y = "3,6,1,2", .dx = "1,1,1,0,0,1" },
    { .name = "columns", .in = "f32[3,4] i64[3,2]~0,3,-1,1,2,2", .attrs = "axis=1", .out = "f32[3,2]" },
    { .name = "smaller", .in = "f32[3,4,5] i32[2,2,3]~0,1,2,0,1,2,0,1,2,0,1,2", .attrs = "axis=-3", .out = "f32[2,2,3]" },
    { .name = "repeated", .in = "f32[3] i64[4]~1,1,1,-3", .out = "f32[4]" },
    { .name = "nothing", .in = "f32[3,2] i64[0,2]=", .out = "f32[0,2]" },
    { .name = "outside", .in = "f32[3] i64[1]~3", .out = "f32[1]", .fail_run = OT_E_DATA },
    { .name = "too_wide", .in = "f32[3,2] i64[1,3]~0,0,0", .fail = OT_E_MODEL },
    { .name = "ranks_differ", .in = "f32[3,2] i64[2]~0,0", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_GatherND[] = {
    { .name = "elements", .in = "f32[2,2]~1,2,3,4 i64[3,2]~0,0,1,1,0,-2", .out = "f32[3]", .y = "1,4,1", .dx = "2,0,0,1" },
    { .name = "rows", .in = "f32[3,4,5] i64[2,1]~2,0", .out = "f32[2,4,5]" },
    { .name = "batch", .in = "f32[2,3,4] i64[2,1]~1,2", .attrs = "batch_dims=1", .out = "f32[2,4]" },
    { .name = "batch_of_two", .in = "f32[2,3,4,5] i64[2,3,2,1]~0,1,2,3,0,1,2,3,0,1,2,3", .attrs = "batch_dims=2", .out = "f32[2,3,2,5]" },
    { .name = "integers", .in = "i64[3]~5,6,7 i64[1,1]~2", .out = "i64[1]", .y = "7" },
    { .name = "outside", .in = "f32[3] i64[1,1]~3", .out = "f32[1]", .fail_run = OT_E_DATA },
    { .name = "too_long", .in = "f32[3] i64[1,2]~0,0", .fail = OT_E_MODEL },
    { .name = "other_batch", .in = "f32[2,3] i64[3,1]~0,0,0", .attrs = "batch_dims=1", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_ScatterElements[] = {
    { .name = "rows", .in = "f32[3,2]~1,2,3,4,5,6 i64[1,2]~2,0 f32[1,2]~8,9", .out = "f32[3,2]", .y = "1,9,3,4,8,6",
      .dx = "1,0,1,1,0,1 - 1,1" },
    { .name = "columns", .in = "f32[2,4] i64[2,2]~0,-1,1,2 f32[2,2]", .attrs = "axis=1", .out = "f32[2,4]" },
    { .name = "add", .in = "f32[3]~1,2,3 i64[3]~1,1,-3 f32[3]~10,20,30", .attrs = "reduction=add", .out = "f32[3]", .y = "31,32,3",
      .dx = "1,1,1 - 1,1,1" },
    { .name = "add_large", .in = "f32[100,50] i64[2,50]~3 f32[2,50]", .attrs = "reduction=add", .out = "f32[100,50]", .no_grad = "large" },
    { .name = "mul", .in = "f32[3](0.5,2) i64[3]~1,1,0 f32[3](0.5,2)", .attrs = "reduction=mul", .out = "f32[3]" },
    { .name = "mul_zeros", .in = "f32[2]~2,0 i64[3]~0,0,1 f32[3]~0,3,5", .attrs = "reduction=mul", .out = "f32[2]", .y = "0,0",
      .dx = "0,5 - 6,0,0" },
    { .name = "max", .in = "f32[3] i64[3]~1,1,0 f32[3]", .attrs = "reduction=max", .out = "f32[3]" },
    { .name = "max_ties", .in = "f32[2]~5,1 i64[3]~0,0,1 f32[3]~5,5,4", .attrs = "reduction=max", .out = "f32[2]", .y = "5,4",
      .dx = "0.3333333333,0 - 0.3333333333,0.3333333333,1" },
    { .name = "min", .in = "f32[3] i64[3]~1,1,0 f32[3]", .attrs = "reduction=min", .out = "f32[3]" },
    { .name = "integers", .in = "i64[3]~1,2,3 i64[2]~0,0 i64[2]~5,-7", .attrs = "reduction=min", .out = "i64[3]", .y = "-7,2,3" },
    { .name = "outside", .in = "f32[3] i64[1]~-4 f32[1]", .out = "f32[3]", .fail_run = OT_E_DATA },
    { .name = "updates_differ", .in = "f32[3] i64[2]~0,1 f32[1]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_ScatterND[] = {
    { .name = "rows", .in = "f32[4,2] i64[2,1]~1,-1 f32[2,2]", .out = "f32[4,2]" },
    { .name = "elements", .in = "f32[2,2]~1,2,3,4 i64[1,2]~1,0 f32[1]~9", .out = "f32[2,2]", .y = "1,2,9,4", .dx = "1,1,0,1 - 1" },
    { .name = "add", .in = "f32[3,2] i64[3,1]~0,0,2 f32[3,2]", .attrs = "reduction=add", .out = "f32[3,2]" },
    { .name = "mul", .in = "f32[3,2](0.5,2) i64[3,1]~0,0,2 f32[3,2](0.5,2)", .attrs = "reduction=mul", .out = "f32[3,2]" },
    { .name = "max", .in = "f32[3,2] i64[3,1]~0,0,2 f32[3,2]", .attrs = "reduction=max", .out = "f32[3,2]" },
    { .name = "min", .in = "f32[3,2] i64[3,1]~0,0,2 f32[3,2]", .attrs = "reduction=min", .out = "f32[3,2]" },
    { .name = "many_rows", .in = "f32[900,50] i64[300,1]~7 f32[300,50]", .attrs = "reduction=add", .out = "f32[900,50]", .no_grad = "large" },
    { .name = "nothing", .in = "f32[3,2] i64[0,1]= f32[0,2]", .out = "f32[3,2]" },
    { .name = "outside", .in = "f32[3] i64[1,1]~3 f32[1]", .out = "f32[3]", .fail_run = OT_E_DATA },
    { .name = "updates_differ", .in = "f32[3,2] i64[1,1]~0 f32[1,3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_TopK[] = {
    { .name = "largest", .in = "f32[5]~3,1,4,1,5 i64[1]=3", .out = "f32[3] i64[3]", .y = "5,4,3", .dx = "1,0,1,0,1" },
    { .name = "smallest", .in = "f32[5]~3,1,4,1,5 i64[1]=2", .attrs = "largest=0", .out = "f32[2] i64[2]", .y = "1,1",
      .dx = "0,1,0,1,0" },
    { .name = "axis", .in = "f32[6,4,3] i64[1]=2", .attrs = "axis=1", .out = "f32[6,2,3] i64[6,2,3]" },
    { .name = "all", .in = "f32[2,7] i64[1]=7", .out = "f32[2,7] i64[2,7]" },
    { .name = "none", .in = "f32[2,7] i64[1]=0", .out = "f32[2,0] i64[2,0]" },
    { .name = "indices_only", .in = "f32[4]~3,9,9,1 i64[1]=2", .out = "- i64[2]", .no_grad = "no values" },
    { .name = "integers", .in = "u64[3]~1,18446744073709551615,7 i64[1]=2", .out = "u64[2] i64[2]", .y = "18446744073709551615,7" },
    { .name = "too_many", .in = "f32[4] i64[1]=5", .fail = OT_E_MODEL },
    { .name = "unknown_k", .in = "f32[4] i64[1]~2", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_ArgMax[] = {
    { .name = "ties", .in = "f32[4]~1,5,5,2", .out = "i64[1]", .y = "1", .no_grad = "zero by nature" },
    { .name = "last_of_ties", .in = "f32[4]~1,5,5,2", .attrs = "select_last_index=1", .out = "i64[1]", .y = "2", .no_grad = "zero by nature" },
    { .name = "axis", .in = "f32[2,3]~1,7,3,9,5,6", .attrs = "axis=-1 keepdims=0", .out = "i64[2]", .y = "1,0", .no_grad = "zero by nature" },
    { .name = "columns", .in = "f32[2,3]~1,7,3,9,5,6", .attrs = "axis=0", .out = "i64[1,3]", .y = "1,0,1", .no_grad = "zero by nature" },
    { .name = "integers", .in = "i8[3]~-5,-3,-4", .attrs = "keepdims=0", .out = "i64[]", .y = "1", .no_grad = "zero by nature" },
    { .name = "of_nothing", .in = "f32[0]", .fail = OT_E_MODEL },
    { .name = "bad_axis", .in = "f32[2]", .attrs = "axis=1", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_ArgMin[] = {
    { .name = "ties", .in = "f32[4]~1,5,1,2", .out = "i64[1]", .y = "0", .no_grad = "zero by nature" },
    { .name = "last_of_ties", .in = "f32[4]~1,5,1,2", .attrs = "select_last_index=1", .out = "i64[1]", .y = "2", .no_grad = "zero by nature" },
    { .name = "axis", .in = "f32[2,3]~1,7,3,9,5,6", .attrs = "axis=1 keepdims=0", .out = "i64[2]", .y = "0,1", .no_grad = "zero by nature" },
    { 0 }
};

const ot_case ot_cases_CumSum[] = {
    { .name = "plain", .in = "f32[4]~1,2,3,4 i64[]=0", .out = "f32[4]", .y = "1,3,6,10", .dx = "4,3,2,1" },
    { .name = "exclusive", .in = "f32[4]~1,2,3,4 i64[]=0", .attrs = "exclusive=1", .out = "f32[4]", .y = "0,1,3,6", .dx = "3,2,1,0" },
    { .name = "reverse", .in = "f32[4]~1,2,3,4 i64[1]=-1", .attrs = "reverse=1", .out = "f32[4]", .y = "10,9,7,4" },
    { .name = "both", .in = "f32[4]~1,2,3,4 i32[]=0", .attrs = "exclusive=1 reverse=1", .out = "f32[4]", .y = "9,7,4,0" },
    { .name = "middle", .in = "f32[2,3,4] i64[]=1", .out = "f32[2,3,4]" },
    { .name = "integers", .in = "i64[3]~1,2,3 i64[]=0", .out = "i64[3]", .y = "1,3,6" },
    { .name = "nothing", .in = "f32[0] i64[]=0", .out = "f32[0]" },
    { .name = "bad_axis", .in = "f32[3] i64[]=1", .fail = OT_E_MODEL },
    { .name = "unknown_axis", .in = "f32[3] i64[]~0", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_DepthToSpace[] = {
    { .name = "dcr", .in = "f32[1,4,1,2]~1,2,3,4,5,6,7,8", .attrs = "blocksize=2", .out = "f32[1,1,2,4]", .y = "1,3,2,4,5,7,6,8" },
    { .name = "dcr_channels", .in = "f32[2,12,2,3]", .attrs = "blocksize=2", .out = "f32[2,3,4,6]" },
    { .name = "crd", .in = "f32[2,12,2,3]", .attrs = "blocksize=2 mode=CRD", .out = "f32[2,3,4,6]" },
    { .name = "does_not_divide", .in = "f32[1,3,2,2]", .attrs = "blocksize=2", .fail = OT_E_MODEL },
    { .name = "no_block", .in = "f32[1,4,2,2]", .fail = OT_E_MODEL },
    { .name = "rank_3", .in = "f32[4,2,2]", .attrs = "blocksize=2", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_SpaceToDepth[] = {
    { .name = "plain", .in = "f32[1,1,2,4]~1,3,2,4,5,7,6,8", .attrs = "blocksize=2", .out = "f32[1,4,1,2]", .y = "1,2,3,4,5,6,7,8" },
    { .name = "channels", .in = "f32[2,3,4,6]", .attrs = "blocksize=2", .out = "f32[2,12,2,3]" },
    { .name = "does_not_divide", .in = "f32[1,1,3,2]", .attrs = "blocksize=2", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Trilu[] = {
    { .name = "upper", .in = "f32[2,3]~1,2,3,4,5,6", .out = "f32[2,3]", .y = "1,2,3,0,5,6", .dx = "1,1,1,0,1,1" },
    { .name = "lower", .in = "f32[2,3]~1,2,3,4,5,6", .attrs = "upper=0", .out = "f32[2,3]", .y = "1,0,0,4,5,0" },
    { .name = "above", .in = "f32[2,4,4] i64[]=1", .out = "f32[2,4,4]" },
    { .name = "below", .in = "f32[2,4,4] i64[1]=-1", .attrs = "upper=0", .out = "f32[2,4,4]" },
    { .name = "far_away", .in = "f32[2,2] i64[]=-9223372036854775807", .out = "f32[2,2]" },
    { .name = "not_a_number", .in = "f32[2,2]~1,2,nan,4", .out = "f32[2,2]", .y = "1,2,0,4", .no_grad = "not finite" },
    { .name = "integers", .in = "i64[2,2]~1,2,3,4", .out = "i64[2,2]", .y = "1,2,0,4" },
    { .name = "vector", .in = "f32[4]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_OneHot[] = {
    { .name = "last", .in = "i64[3]~0,2,-1 i64[]=3 f32[2]=0,1", .out = "f32[3,3]", .y = "1,0,0,0,0,1,0,0,1", .no_grad = "constants" },
    { .name = "first", .in = "i64[2]~0,2 i64[1]=3 f32[2]=0,1", .attrs = "axis=0", .out = "f32[3,2]", .y = "1,0,0,0,0,1", .no_grad = "constants" },
    { .name = "fed_values", .in = "i64[2]~0,2 i64[1]=3 f32[2]~-1,5", .out = "f32[2,3]", .y = "5,-1,-1,-1,-1,5", .dx = "- - 4,2" },
    { .name = "outside_is_off", .in = "i64[2]~7,-9 i64[]=2 i64[2]=3,4", .out = "i64[2,2]", .y = "3,3,3,3" },
    { .name = "float_indices", .in = "f32[2]~1,0 f32[]=2 f32[2]=0,1", .out = "f32[2,2]", .y = "0,1,1,0", .no_grad = "zero by nature" },
    { .name = "unknown_depth", .in = "i64[2]~0,1 i64[]~2 f32[2]=0,1", .fail = OT_E_MODEL },
    { .name = "negative_depth", .in = "i64[2]~0,1 i64[]=-2 f32[2]=0,1", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Range[] = {
    { .name = "integers", .in = "i64[]=2 i64[]=9 i64[]=3", .out = "i64[3]", .y = "2,5,8", .no_grad = "constants" },
    { .name = "down", .in = "i32[]=5 i32[]=-1 i32[]=-2", .out = "i32[3]", .y = "5,3,1", .no_grad = "constants" },
    { .name = "floats", .in = "f32[]=0 f32[]=1 f32[]=0.25", .out = "f32[4]", .y = "0,0.25,0.5,0.75", .no_grad = "constants" },
    { .name = "nothing", .in = "i64[]=5 i64[]=2 i64[]=1", .out = "i64[0]", .no_grad = "constants" },
    { .name = "no_step", .in = "i64[]=5 i64[]=2 i64[]=0", .fail = OT_E_MODEL },
    { .name = "too_long", .in = "f32[]=0 f32[]=inf f32[]=1", .fail = OT_E_MODEL },
    { .name = "unknown_limit", .in = "i64[]=0 i64[]~2 i64[]=1", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_EyeLike[] = {
    { .name = "plain", .in = "f32[2,3]", .out = "f32[2,3]", .y = "1,0,0,0,1,0", .no_grad = "zero by nature" },
    { .name = "above", .in = "i64[2,3]", .attrs = "k=1 dtype=1", .out = "f32[2,3]", .y = "0,1,0,0,0,1", .no_grad = "zero by nature" },
    { .name = "below", .in = "f32[2,2]", .attrs = "k=-1", .out = "f32[2,2]", .y = "0,0,1,0", .no_grad = "zero by nature" },
    { .name = "outside", .in = "f32[2,2]", .attrs = "k=5", .out = "f32[2,2]", .y = "0,0,0,0", .no_grad = "zero by nature" },
    { .name = "vector", .in = "f32[2]", .fail = OT_E_MODEL },
    { .name = "bad_type", .in = "f32[2,2]", .attrs = "dtype=99", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_ReverseSequence[] = {
    { .name = "time_first", .in = "f32[4,2]~1,2,3,4,5,6,7,8 i64[2]~3,1", .out = "f32[4,2]", .y = "5,2,3,4,1,6,7,8" },
    { .name = "batch_first", .in = "f32[2,4,3] i64[2]~2,4", .attrs = "batch_axis=0 time_axis=1", .out = "f32[2,4,3]" },
    { .name = "known", .in = "f32[3,1] i64[1]=3", .out = "f32[3,1]" },
    { .name = "too_long", .in = "f32[3,1] i64[1]~5", .out = "f32[3,1]", .fail_run = OT_E_DATA },
    { .name = "lengths", .in = "f32[3,2] i64[3]~1,1,1", .fail = OT_E_MODEL },
    { .name = "axes", .in = "f32[3,2,2] i64[2]~1,1", .attrs = "time_axis=2", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Compress[] = {
    { .name = "rows", .in = "f32[3,2]~1,2,3,4,5,6 bool[3]=0,1,1", .attrs = "axis=0", .out = "f32[2,2]", .y = "3,4,5,6", .dx = "0,0,1,1,1,1" },
    { .name = "short", .in = "f32[2,3]~1,2,3,4,5,6 bool[2]=0,1", .attrs = "axis=-1", .out = "f32[2,1]", .y = "2,5" },
    { .name = "flat", .in = "f32[2,2]~1,2,3,4 bool[4]=1,0,0,1", .out = "f32[2]", .y = "1,4" },
    { .name = "none", .in = "f32[2,2] bool[2]=0,0", .attrs = "axis=0", .out = "f32[0,2]" },
    { .name = "too_long", .in = "f32[2] bool[3]=0,0,0", .attrs = "axis=0", .fail = OT_E_MODEL },
    { .name = "unknown", .in = "f32[2] bool[2]~0,1", .attrs = "axis=0", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_CenterCropPad[] = {
    { .name = "crop", .in = "f32[5]~1,2,3,4,5 i64[1]=2", .out = "f32[2]", .y = "2,3" },
    { .name = "pad", .in = "f32[2]~1,2 i64[1]=5", .out = "f32[5]", .y = "0,1,2,0,0" },
    { .name = "both", .in = "f32[4,3] i64[2]=2,6", .out = "f32[2,6]" },
    { .name = "axes", .in = "f32[4,3,2] i64[1]=2", .attrs = "axes=[-3]", .out = "f32[2,3,2]" },
    { .name = "wrong_number", .in = "f32[4,3] i64[1]=2", .fail = OT_E_MODEL },
    { 0 }
};
