/* random.c - rows of the random operators: shapes and types, and results with probabilities 0 and 1. */
#include "case.h"

#define NO_GRAD .no_grad = "random"

const ot_case ot_cases_RandomNormal[] = {
    { .name = "certain", .attrs = "shape=[2,3] mean=4 scale=0", .in = "", .out = "f32[2,3]", .y = "4,4,4,4,4,4", NO_GRAD },
    { .name = "double", .attrs = "shape=[3] dtype=11", .in = "", .out = "f64[3]", NO_GRAD },
    { .name = "bad_type", .attrs = "shape=[3] dtype=7", .in = "", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_RandomNormalLike[] = {
    { .name = "plain", .in = "f32[2,3]", .out = "f32[2,3]", NO_GRAD },
    { .name = "type", .attrs = "dtype=10 mean=2 scale=0", .in = "i32[2]", .out = "f16[2]", .y = "2,2", NO_GRAD },
    { .name = "bad_type", .in = "i32[3]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_RandomUniform[] = {
    { .name = "certain", .attrs = "shape=[2] low=3 high=3", .in = "", .out = "f32[2]", .y = "3,3", NO_GRAD },
    { .name = "empty", .attrs = "shape=[0,4]", .in = "", .out = "f32[0,4]", NO_GRAD },
    { .name = "bad_shape", .attrs = "shape=[-1]", .in = "", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_RandomUniformLike[] = {
    { .name = "plain", .in = "f64[2,3]", .out = "f64[2,3]", NO_GRAD },
    { .name = "certain", .attrs = "low=1 high=1 dtype=1", .in = "u8[3]", .out = "f32[3]", .y = "1,1,1", NO_GRAD },
    { 0 }
};

const ot_case ot_cases_Bernoulli[] = {
    { .name = "certain", .in = "f32[4]~0,1,0,1", .out = "f32[4]", .y = "0,1,0,1", NO_GRAD },
    { .name = "type", .attrs = "dtype=9", .in = "f64[3]~1,0,1", .out = "bool[3]", .y = "1,0,1", NO_GRAD },
    { .name = "bad_type", .in = "i32[4]", .fail = OT_E_MODEL },
    { 0 }
};

const ot_case ot_cases_Multinomial[] = {
    { .name = "certain", .attrs = "sample_size=2", .in = "f32[2,3]~-inf,0,-inf,-inf,-inf,5", .out = "i32[2,2]", .y = "1,1,2,2", NO_GRAD },
    { .name = "long", .attrs = "sample_size=5 dtype=7", .in = "f64[2,3]", .out = "i64[2,5]", NO_GRAD },
    { .name = "bad_rank", .in = "f32[3]", .fail = OT_E_MODEL },
    { .name = "bad_size", .attrs = "sample_size=0", .in = "f32[2,3]", .fail = OT_E_MODEL },
    { 0 }
};
