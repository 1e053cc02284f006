/* control.c - rows of control flow; what it does with branches stands in tests/passes. */
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
