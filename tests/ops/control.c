/* control.c - rows of control flow; what it does with branches stands in tests/passes. */
#include "tests/ops/case.h"

extern const ot_case ot_cases_If[];
const ot_case ot_cases_If[] = {
    { .name = "no_branches", .in = "bool[]=1", .out = "f32[1]", .fail = OT_E_MODEL },
    { 0 }
};
