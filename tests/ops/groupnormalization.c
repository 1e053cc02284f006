/* groupnormalization.c - test rows of InstanceNormalization and GroupNormalization. */
#include "tests/ops/case.h"

const ot_case ot_cases_InstanceNormalization[] = {
    { .name = "image", .in = "f32[2,3,4,5] f32[3] f32[3]", .out = "f32[2,3,4,5]", .tol = 1e-4 },
    { .name = "sequence", .attrs = "epsilon=0.01", .in = "f32[2,3,7] f32[3] f32[3]", .out = "f32[2,3,7]", .tol = 1e-4 },
    { .name = "volume", .in = "f32[1,2,2,3,2] f32[2] f32[2]", .out = "f32[1,2,2,3,2]", .tol = 1e-4 },
    { .name = "values", .in = "f32[1,2,2]~1,3,-2,2 f32[2]~1,2 f32[2]~0,10", .out = "f32[1,2,2]", .y = "-0.999995,0.999995,8.0000025,11.9999975" },
    { .name = "half", .in = "f16[2,3,4,5] f16[3] f16[3]", .out = "f16[2,3,4,5]", .tol = 1e-2, .grad16 = true },
    { .name = "empty", .in = "f32[0,3,4] f32[3] f32[3]", .out = "f32[0,3,4]" },
    { .name = "wrong_scale", .in = "f32[2,3,4] f32[4] f32[3]", .fail = OT_E_MODEL },
    { 0 },
};

const ot_case ot_cases_GroupNormalization[] = {
    { .name = "two", .attrs = "num_groups=2", .in = "f32[3,4,2,2] f32[4] f32[4]", .out = "f32[3,4,2,2]", .tol = 1e-4 },
    { .name = "one", .attrs = "num_groups=1 epsilon=0.01", .in = "f32[2,6,5] f32[6] f32[6]", .out = "f32[2,6,5]", .tol = 1e-4 },
    { .name = "flat", .attrs = "num_groups=2", .in = "f32[3,8] f32[8] f32[8]", .out = "f32[3,8]", .tol = 1e-4 },
    { .name = "half", .attrs = "num_groups=2", .in = "f16[3,4,2,2] f16[4] f16[4]", .out = "f16[3,4,2,2]", .tol = 1e-2, .grad16 = true },
    { .name = "uneven", .attrs = "num_groups=4", .in = "f32[2,6,5] f32[6] f32[6]", .fail = OT_E_MODEL },
    { .name = "none", .attrs = "num_groups=0", .in = "f32[2,6,5] f32[6] f32[6]", .fail = OT_E_MODEL },
    { 0 },
};
