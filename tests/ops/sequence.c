/* sequence.c - rows of sequences and optionals: they are not known before the run.  tests/sequences tests how passes
 * replace them. */
#include "tests/ops/case.h"

#define UNKNOWN(op, inputs)                                                              \
    extern const ot_case ot_cases_##op[];                                                \
    const ot_case ot_cases_##op[] = {                                                    \
        { .name = "unknown", .in = inputs, .out = "f32[2]", .fail = OT_E_MODEL }, { 0 }  \
    }

UNKNOWN(OptionalGetElement, "f32[2]");
UNKNOWN(OptionalHasElement, "f32[2]");
UNKNOWN(SequenceAt, "f32[2] i64[]=0");
UNKNOWN(SequenceEmpty, "");
UNKNOWN(SequenceErase, "f32[2] i64[]=0");
UNKNOWN(SequenceInsert, "f32[2] f32[2]");
UNKNOWN(SequenceLength, "f32[2]");
UNKNOWN(SequenceMap, "f32[2]");
UNKNOWN(SplitToSequence, "f32[2]");

extern const ot_case ot_cases_ConcatFromSequence[];
const ot_case ot_cases_ConcatFromSequence[] = {
    { .name = "unknown", .attrs = "axis=0", .in = "f32[2]", .out = "f32[2]", .fail = OT_E_MODEL },
    { 0 }
};

extern const ot_case ot_cases_SequenceConstruct[];
const ot_case ot_cases_SequenceConstruct[] = {
    { .name = "types", .in = "f32[2] f64[2]", .out = "f32[2]", .fail = OT_E_MODEL },
    { 0 }
};

extern const ot_case ot_cases_Optional[];
const ot_case ot_cases_Optional[] = {
    { 0 }
};
