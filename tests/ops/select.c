/* select.c - rows of Unique, NonMaxSuppression and BitCast. */
#include "case.h"

#define CONSTANT "zero by nature"

const ot_case ot_cases_Unique[] = {
    { .name = "sorted", .in = "f32[6]=2,1,1,3,4,3", .out = "f32[4] i64[4] i64[6] i64[4]", .y = "1,2,3,4", .no_grad = CONSTANT },
    { .name = "first", .in = "i64[6]=2,1,1,3,4,3", .attrs = "sorted=0", .out = "i64[4]", .y = "2,1,3,4", .no_grad = CONSTANT },
    { .name = "first_places", .in = "f32[6]=2,1,1,3,4,3", .attrs = "sorted=0", .out = "f32[4] i64[4] i64[6] i64[4]", .y = "2,1,3,4", .no_grad = CONSTANT },
    { .name = "rows", .in = "f32[3,3]=1,0,0,1,0,0,2,3,4", .attrs = "axis=0", .out = "f32[2,3] - i64[3] -", .y = "1,0,0,2,3,4", .no_grad = CONSTANT },
    { .name = "columns", .in = "u8[2,3]=5,1,5,6,1,6", .attrs = "axis=-1", .out = "u8[2,2]", .y = "1,5,1,6", .no_grad = CONSTANT },
    { .name = "flat", .in = "i32[2,2]=3,-1,-1,3", .out = "i32[2]", .y = "-1,3", .no_grad = CONSTANT },
    { .name = "nan", .in = "f32[5]=nan,1,nan,-inf,inf", .out = "f32[4]", .y = "-inf,1,inf,nan", .no_grad = CONSTANT },
    { .name = "unknown", .in = "f32[3]", .fail = OT_E_MODEL },
    { .name = "no_axis", .in = "f32[3]=1,2,3", .attrs = "axis=1", .fail = OT_E_MODEL },
    { 0 }
};

#define BOXES "f32[1,6,4]=0,0,1,1,0,0.1,1,1.1,0,-0.1,1,0.9,0,10,1,11,0,10.1,1,11.1,0,100,1,101 f32[1,1,6]=0.9,0.75,0.6,0.95,0.5,0.3"

const ot_case ot_cases_NonMaxSuppression[] = {
    { .name = "plain", .in = BOXES " i64[1]=3 f32[1]=0.5 f32[1]=0", .out = "i64[3,3]", .y = "0,0,3,0,0,0,0,0,5", .no_grad = CONSTANT },
    { .name = "scores", .in = BOXES " i64[]=3 f32[]=0.5 f32[]=0.4", .out = "i64[2,3]", .y = "0,0,3,0,0,0", .no_grad = CONSTANT },
    { .name = "limit", .in = BOXES " i64[]=1 f32[]=0.5", .out = "i64[1,3]", .y = "0,0,3", .no_grad = CONSTANT },
    { .name = "none", .in = BOXES, .out = "i64[0,3]", .no_grad = CONSTANT },
    { .name = "center", .in = "f32[1,2,4]=0.5,0.5,1,1,0.5,0.6,1,1 f32[1,2,2]=0.9,0.75,0.1,0.2 i64[]=2 f32[]=0.5", .attrs = "center_point_box=1",
      .out = "i64[2,3]", .y = "0,0,0,0,1,1", .no_grad = CONSTANT },
    { .name = "turned", .in = "f32[1,2,4]=1,1,0,0,0,1.1,1,0.1 f32[1,1,2]=0.7,0.75 i64[]=2 f32[]=0.5", .out = "i64[1,3]", .y = "0,0,1", .no_grad = CONSTANT },
    { .name = "unknown", .in = "f32[1,2,4] f32[1,1,2] i64[]=3", .fail = OT_E_MODEL },
    { .name = "wrong_scores", .in = "f32[1,2,4]=1 f32[1,1,3]=1 i64[]=3", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_BitCast[] = {
    { .name = "float", .in = "f32[3]~1,-2,0", .attrs = "to=6", .out = "i32[3]", .y = "1065353216,-1073741824,0", .no_grad = CONSTANT },
    { .name = "to_float", .in = "i32[2]~1065353216,-1073741824", .attrs = "to=1", .out = "f32[2]", .y = "1,-2" },
    { .name = "bytes", .in = "i8[2]~-1,3", .attrs = "to=2", .out = "u8[2]", .y = "255,3" },
    { .name = "half", .in = "f16[2]~1,2", .attrs = "to=16", .out = "bf16[2]", .no_grad = CONSTANT },
    { .name = "same", .in = "f32[2,2]", .attrs = "to=1", .out = "f32[2,2]", .no_grad = CONSTANT },
    { .name = "nibbles", .in = "i4[3]~-1,3,7", .attrs = "to=21", .out = "u4[3]", .y = "15,3,7" },
    { .name = "empty", .in = "f64[0,2]", .attrs = "to=7", .out = "i64[0,2]", .no_grad = CONSTANT },
    { .name = "other_width", .in = "f32[2]", .attrs = "to=7", .fail = OT_E_MODEL },
    { .name = "text", .in = "f32[2]", .attrs = "to=8", .fail = OT_E_MODEL },
    { .name = "no_type", .in = "f32[2]", .attrs = "to=99", .fail = OT_E_MODEL },
    { 0 }
};
