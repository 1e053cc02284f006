/* control.c - rows of control flow and of FlexAttention, whose bodies cannot be written in a row: tests/passes and
 * tests/decided test them. */
#include "tests/ops/case.h"

extern const ot_case ot_cases_If[];
const ot_case ot_cases_If[] = {
    { .name = "no_branches", .in = "bool[]=1", .out = "f32[1]", .fail = OT_E_MODEL },
    { 0 }
};

extern const ot_case ot_cases_Loop[];
const ot_case ot_cases_Loop[] = {
    { .name = "no_body", .in = "i64[]=3 bool[]=1 f32[2]", .out = "f32[2]", .fail = OT_E_MODEL },
    { 0 }
};

extern const ot_case ot_cases_Scan[];
const ot_case ot_cases_Scan[] = {
    { .name = "no_body", .attrs = "num_scan_inputs=1", .in = "f32[2,3]", .out = "f32[2,3]", .fail = OT_E_MODEL },
    { 0 }
};

extern const ot_case ot_cases_FlexAttention[];
const ot_case ot_cases_FlexAttention[] = {
    { .name = "heads", .in = "f32[1,3,2,4] f32[1,2,5,4] f32[1,2,5,4]", .out = "f32[1,3,2,4]", .fail = OT_E_MODEL },
    { .name = "channels", .in = "f32[1,2,2,4] f32[1,2,5,3] f32[1,2,5,4]", .out = "f32[1,2,2,4]", .fail = OT_E_MODEL },
    { .name = "precision", .attrs = "softmax_precision=7", .in = "f32[1,2,2,4] f32[1,2,5,4] f32[1,2,5,4]", .out = "f32[1,2,2,4]", .fail = OT_E_MODEL },
    { 0 }
};
