/* sequence.c - sequences and optionals: lists of values that are known while planning.
 *
 * Spec    ai.onnx SequenceConstruct, SequenceAt, SequenceEmpty, SequenceErase, SequenceInsert, SequenceLength,
 *         ConcatFromSequence 11; SplitToSequence 11, 24; SequenceMap 17; Optional 15; OptionalGetElement,
 *         OptionalHasElement 15, 18.
 * Shapes  a sequence has neither type nor shape: it is the list of inputs of the node that makes it
 * Grad    of the elements; a list has none
 *
 * Only SequenceConstruct and Optional make such lists.  The passes replace the others while shapes are inferred
 * (passes/sequence.c): readers of an element read the element itself, and no step computes a list. */
#include "ops/onnx/sequence.h"

static ot_status list_infer(ot_node *n, ot_error *err)
{
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i]->dtype != n->in[0]->dtype)
            return ot_node_fail(n, err, "element %d is %s and element 0 %s; expected one type", i,
                                ot_dtype_name(n->in[i]->dtype), ot_dtype_name(n->in[0]->dtype));
    return ot_set(n->out[0], OT_UNDEFINED, &(ot_shape){ .rank = -1 });
}

/* The passes have replaced every node whose lists are known. */
static ot_status unknown_infer(ot_node *n, ot_error *err)
{
    return ot_node_fail(n, err, "it uses a sequence or optional that is unknown before the run");
}

bool ot_is_list(const ot_value *v) { return v && v->producer && v->producer->op == &ot_op_SequenceConstruct; }

bool ot_is_optional(const ot_value *v) { return v && v->producer && v->producer->op == &ot_op_Optional; }

const ot_op ot_op_SequenceConstruct = {
    .name = "SequenceConstruct",
    .types = { "T", .T = OT_SET_ALL | OT_TYPE(OT_STRING) },
    .slots = ">",
    .since = 11,
    .in = { 1, OT_VARIADIC },
    .out = { 1, 1 },
    .flags = OT_SPELLED,
    .infer = list_infer,
};

const ot_op ot_op_Optional = {
    .name = "Optional",
    .types = { "*" },
    .slots = ">",
    .since = 15,
    .in = { 0, 1 },
    .out = { 1, 1 },
    .flags = OT_LISTS | OT_SPELLED,
    .infer = list_infer,
};

static const ot_attr empty_rows[] = {
    { "dtype", OT_INT, offsetof(ot_sequence_attrs, dtype), OT_F32, NULL },
    { 0 },
};

static const ot_attr split_rows[] = {
    { "axis", OT_INT, offsetof(ot_sequence_attrs, axis), 0, NULL },
    { "keepdims", OT_INT, offsetof(ot_sequence_attrs, keepdims), 1, NULL },
    { 0 },
};

static const ot_attr concat_rows[] = {
    { "axis", OT_INT, offsetof(ot_sequence_attrs, axis), OT_REQUIRED, NULL },
    { "new_axis", OT_INT, offsetof(ot_sequence_attrs, new_axis), 0, NULL },
    { 0 },
};

static const ot_attr map_rows[] = {
    { "body", OT_GRAPH, offsetof(ot_sequence_attrs, body), OT_REQUIRED, NULL },
    { 0 },
};

/* passive: inputs without a gradient; made: the largest number of outputs; why: why it has no gradient at all. */
#define SPELLED_OUT(op, version, letters, least, most, made, passive, rows, why)                              \
    const ot_op ot_op_##op = {                                                                                \
        .name = #op, .types = { "*" }, .slots = letters, .since = version, .in = { least, most }, .out = { 1, made }, \
        .flags = OT_LISTS | OT_SPELLED, .nondiff = passive, .attrs = rows, .attr_size = sizeof(ot_sequence_attrs),         \
        .infer = unknown_infer, .grad_zero = why                                                              \
    }

SPELLED_OUT(ConcatFromSequence, 11, "j", 1, 1, 1, 0, concat_rows, NULL);
SPELLED_OUT(OptionalGetElement, 18, ">", 1, 1, 1, 0, NULL, NULL);
SPELLED_OUT(OptionalHasElement, 18, NULL, 0, 1, 1, 1, NULL, "its result is a boolean");
SPELLED_OUT(SequenceAt, 11, ">-", 2, 2, 1, 2, NULL, NULL);
SPELLED_OUT(SequenceEmpty, 11, NULL, 0, 0, 1, 0, empty_rows, "it has no inputs");
SPELLED_OUT(SequenceErase, 11, ">-", 1, 2, 1, 2, NULL, NULL);
SPELLED_OUT(SequenceInsert, 11, ">>-", 2, 3, 1, 4, NULL, NULL);
SPELLED_OUT(SequenceLength, 11, NULL, 1, 1, 1, 1, NULL, "its result is a number of elements");
SPELLED_OUT(SequenceMap, 17, "-", 1, OT_VARIADIC, OT_VARIADIC, 0, map_rows, NULL);
SPELLED_OUT(SplitToSequence, 24, ">-", 1, 2, 1, 2, split_rows, NULL);
