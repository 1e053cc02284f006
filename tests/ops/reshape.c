/* reshape.c - rows of Reshape, Flatten, Squeeze, Unsqueeze, Identity, Shape, Size, Constant. */
#include "case.h"

const ot_case ot_cases_Reshape[] = {
    { .name = "plain", .in = "f32[2,3,4] i64[2]=4,6", .out = "f32[4,6]" },
    { .name = "rest", .in = "f32[2,3,4] i64[3]=2,-1,2", .out = "f32[2,6,2]" },
    { .name = "keep", .in = "f32[2,3,4] i64[3]=0,4,0", .fail = OT_E_MODEL },
    { .name = "keep_first", .in = "f32[2,3,4] i64[2]=0,-1", .out = "f32[2,12]" },
    { .name = "values", .in = "f32[2,2]~1,2,3,4 i64[1]=-1", .out = "f32[4]", .y = "1,2,3,4" },
    { .name = "to_scalar", .in = "f32[1,1] i64[0]=", .out = "f32[]" },
    { .name = "from_scalar", .in = "f32[] i64[2]=1,1", .out = "f32[1,1]" },
    { .name = "empty", .in = "f32[0,3] i64[2]=3,0", .attrs = "allowzero=1", .out = "f32[3,0]" },
    { .name = "empty_kept", .in = "f32[0,3] i64[2]=0,3", .out = "f32[0,3]" },
    { .name = "integers", .in = "i32[2,3] i64[1]=6", .out = "i32[6]" },
    { .name = "half", .in = "f16[2,3] i64[2]=3,2", .out = "f16[3,2]", .grad16 = true },
    { .name = "wrong_number", .in = "f32[2,3] i64[1]=5", .fail = OT_E_MODEL },
    { .name = "does_not_divide", .in = "f32[2,3] i64[2]=4,-1", .fail = OT_E_MODEL },
    { .name = "two_rests", .in = "f32[2,3] i64[2]=-1,-1", .fail = OT_E_MODEL },
    { .name = "negative", .in = "f32[2,3] i64[2]=-2,3", .fail = OT_E_MODEL },
    { .name = "rest_of_nothing", .in = "f32[0,3] i64[2]=0,-1", .fail = OT_E_MODEL },
    { .name = "too_large", .in = "f32[2,3] i64[3]=4611686018427387904,4,3", .fail = OT_E_MODEL },
    { .name = "rank_9", .in = "f32[1] i64[9]=1", .fail = OT_E_MODEL },
    { .name = "unknown_shape", .in = "f32[2,3] i64[1]~6", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Flatten[] = {
    { .name = "default", .in = "f32[2,3,4]", .out = "f32[2,12]" },
    { .name = "axis_0", .in = "f32[2,3,4]", .attrs = "axis=0", .out = "f32[1,24]" },
    { .name = "axis_2", .in = "f32[2,3,4]", .attrs = "axis=2", .out = "f32[6,4]" },
    { .name = "axis_end", .in = "f32[2,3,4]", .attrs = "axis=3", .out = "f32[24,1]" },
    { .name = "negative", .in = "f32[2,3,4]", .attrs = "axis=-1", .out = "f32[6,4]" },
    { .name = "scalar", .in = "f32[]", .attrs = "axis=0", .out = "f32[1,1]" },
    { .name = "empty", .in = "f32[0,3,4]", .out = "f32[0,12]" },
    { .name = "bad_axis", .in = "f32[2,3]", .attrs = "axis=3", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Squeeze[] = {
    { .name = "all", .in = "f32[1,3,1,2]", .out = "f32[3,2]" },
    { .name = "axes", .in = "f32[1,3,1,2] i64[1]=2", .out = "f32[1,3,2]" },
    { .name = "negative", .in = "f32[1,3,1,2] i64[2]=-4,-2", .out = "f32[3,2]" },
    { .name = "to_scalar", .in = "f32[1,1]", .out = "f32[]" },
    { .name = "not_one", .in = "f32[1,3] i64[1]=1", .fail = OT_E_MODEL },
    { .name = "bad_axis", .in = "f32[1,3] i64[1]=2", .fail = OT_E_MODEL },
    { .name = "twice", .in = "f32[1,3] i64[2]=0,-2", .fail = OT_E_MODEL },
    { .name = "unknown_axes", .in = "f32[1,3] i64[1]~0", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Unsqueeze[] = {
    { .name = "front", .in = "f32[3,2] i64[1]=0", .out = "f32[1,3,2]" },
    { .name = "two", .in = "f32[3,2] i64[2]=3,1", .out = "f32[3,1,2,1]" },
    { .name = "negative", .in = "f32[3,2] i64[1]=-1", .out = "f32[3,2,1]" },
    { .name = "scalar", .in = "f32[] i64[1]=0", .out = "f32[1]" },
    { .name = "bad_axis", .in = "f32[3] i64[1]=2", .fail = OT_E_MODEL },
    { .name = "twice", .in = "f32[3] i64[2]=0,-3", .fail = OT_E_MODEL },
    { .name = "rank_9", .in = "f32[1,1,1,1,1,1,1,1] i64[1]=0", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Identity[] = {
    { .name = "floats", .in = "f32[2,3]", .out = "f32[2,3]" },
    { .name = "values", .in = "f32[3]~1,-2,3", .out = "f32[3]", .y = "1,-2,3", .dx = "1,1,1" },
    { .name = "integers", .in = "i64[3]", .out = "i64[3]" },
    { .name = "empty", .in = "f32[0]", .out = "f32[0]" },
    { 0 }
};

const ot_case ot_cases_Shape[] = {
    { .name = "default", .in = "f32[2,3,4]", .out = "i64[3]", .y = "2,3,4", .no_grad = "zero by nature" },
    { .name = "start", .in = "f32[2,3,4]", .attrs = "start=1", .out = "i64[2]", .y = "3,4", .no_grad = "zero by nature" },
    { .name = "negative", .in = "f32[2,3,4]", .attrs = "start=-2 end=-1", .out = "i64[1]", .y = "3", .no_grad = "zero by nature" },
    { .name = "clamped", .in = "f32[2,3,4]", .attrs = "start=-9 end=9", .out = "i64[3]", .y = "2,3,4", .no_grad = "zero by nature" },
    { .name = "nothing", .in = "f32[2,3,4]", .attrs = "start=2 end=1", .out = "i64[0]", .no_grad = "zero by nature" },
    { .name = "scalar", .in = "f32[]", .out = "i64[0]", .no_grad = "zero by nature" },
    { 0 }
};

const ot_case ot_cases_Size[] = {
    { .name = "plain", .in = "f32[2,3,4]", .out = "i64[]", .y = "24", .no_grad = "zero by nature" },
    { .name = "scalar", .in = "f32[]", .out = "i64[]", .y = "1", .no_grad = "zero by nature" },
    { .name = "empty", .in = "f32[2,0]", .out = "i64[]", .y = "0", .no_grad = "zero by nature" },
    { 0 }
};

const ot_case ot_cases_Constant[] = {
    { .name = "tensor", .in = "", .attrs = "value=tensor:f32[2]=1,2", .out = "f32[2]", .y = "1,2", .no_grad = "no inputs" },
    { .name = "float", .in = "", .attrs = "value_float=0.5", .out = "f32[]", .y = "0.5", .no_grad = "no inputs" },
    { .name = "floats", .in = "", .attrs = "value_floats=[0.5,1.5]", .out = "f32[2]", .y = "0.5,1.5", .no_grad = "no inputs" },
    { .name = "int", .in = "", .attrs = "value_int=-7", .out = "i64[]", .y = "-7", .no_grad = "no inputs" },
    { .name = "ints", .in = "", .attrs = "value_ints=[3,4]", .out = "i64[2]", .y = "3,4", .no_grad = "no inputs" },
    { .name = "nothing", .in = "", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_ConstantOfShape[] = {
    { .name = "zeros", .in = "i64[2]=2,3", .out = "f32[2,3]", .y = "0,0,0,0,0,0", .no_grad = "constant" },
    { .name = "value", .in = "i64[1]=3", .attrs = "value=tensor:i64[1]=5", .out = "i64[3]", .y = "5,5,5", .no_grad = "constant" },
    { .name = "scalar", .in = "i64[0]=", .attrs = "value=tensor:f32[1]=1.5", .out = "f32[]", .y = "1.5", .no_grad = "constant" },
    { .name = "empty", .in = "i64[2]=2,0", .out = "f32[2,0]", .no_grad = "constant" },
    { .name = "negative", .in = "i64[1]=-2", .fail = OT_E_MODEL },
    { .name = "too_large", .in = "i64[2]=4611686018427387904,4", .fail = OT_E_MODEL },
    { .name = "two_values", .in = "i64[1]=3", .attrs = "value=tensor:i64[2]=5,6", .fail = OT_E_MODEL },
    { .name = "unknown_shape", .in = "i64[1]~3", .fail = OT_E_MODEL },
    { 0 }
};
