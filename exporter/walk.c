/* walk.c - where the tensors of a file are, in the order of ot_source.order (importer/sources.c). */
#include "exporter/patch.h"

/* Field numbers of onnx.proto. */
enum {
    MODEL_GRAPH = 7,
    MODEL_TRAINING = 20,
    MODEL_FUNCTION = 25,
    TRAINING_INITIALIZATION = 1,
    TRAINING_ALGORITHM = 2,
    FUNCTION_NODE = 7,
    FUNCTION_ATTRIBUTE = 11,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_SPARSE = 15,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_G = 6,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_TENSORS = 10,
    ATTRIBUTE_GRAPHS = 11,
    ATTRIBUTE_SPARSE = 22,
    ATTRIBUTE_SPARSES = 23,
    SPARSE_VALUES = 1,
    SPARSE_INDICES = 2
};

/* Calls `visit` for each message in field `number` of a span, in the order of the wire. */
typedef void visit_span(ot_patch *p, int span, bool ordered);

static void each(ot_patch *p, int span, uint32_t number, visit_span *visit, bool ordered)
{
    ot_field f;
    size_t at = p->span[span].body, end = p->span[span].end;
    while (!p->no_memory && ot_field_next(p->p, &at, end, &f)) {
        if (f.number != number || f.wire != 2) continue;
        int child = ot_patch_span(p, span, &f);
        if (child) visit(p, child, ordered);
    }
}

static void visit_tensor(ot_patch *p, int span, bool ordered)
{
    if (ordered) ot_patch_push(p, &p->tensor, &p->n_tensor, &p->cap_tensor, span);
    else ot_patch_push(p, &p->other, &p->n_other, &p->cap_other, span);
}

static void visit_sparse(ot_patch *p, int span, bool ordered)
{
    (void)ordered; /* sparse tensors have no order */
    each(p, span, SPARSE_VALUES, visit_tensor, false);
    each(p, span, SPARSE_INDICES, visit_tensor, false);
}

static void visit_graph(ot_patch *p, int span, bool ordered);

/* As has_floats of importer/sources.c. */
static bool is_float_of_constant(const ot_patch *p, int span)
{
    static const char name[] = "value_float";
    ot_field f;
    return ot_field_last(p, span, ATTRIBUTE_F, &f) && ot_field_last(p, span, ATTRIBUTE_NAME, &f) &&
           f.end - f.body == sizeof name - 1 && !memcmp(p->p + f.body, name, sizeof name - 1);
}

static void visit_floats(ot_patch *p, int span, bool ordered)
{
    ot_field f;
    bool some = false;
    for (size_t at = p->span[span].body, end = p->span[span].end; ot_field_next(p->p, &at, end, &f);)
        some |= f.number == ATTRIBUTE_FLOATS && f.end > f.body;
    if (!some && !is_float_of_constant(p, span)) return;
    if (!ordered) return;
    p->span[span].floats = true;
    visit_tensor(p, span, ordered);
}

/* Depth is bounded: the importer's guard refuses messages nested deeper than OT_DEEPEST. */
static void visit_attribute(ot_patch *p, int span, bool ordered)
{
    each(p, span, ATTRIBUTE_T, visit_tensor, ordered);
    each(p, span, ATTRIBUTE_TENSORS, visit_tensor, ordered);
    visit_floats(p, span, ordered);
    each(p, span, ATTRIBUTE_G, visit_graph, ordered);
    each(p, span, ATTRIBUTE_GRAPHS, visit_graph, ordered);
    each(p, span, ATTRIBUTE_SPARSE, visit_sparse, false);
    each(p, span, ATTRIBUTE_SPARSES, visit_sparse, false);
}

static void visit_node(ot_patch *p, int span, bool ordered) { each(p, span, NODE_ATTRIBUTE, visit_attribute, ordered); }

static void visit_graph(ot_patch *p, int span, bool ordered)
{
    each(p, span, GRAPH_INITIALIZER, visit_tensor, ordered);
    each(p, span, GRAPH_NODE, visit_node, ordered);
    each(p, span, GRAPH_SPARSE, visit_sparse, false);
}

static void visit_function(ot_patch *p, int span, bool ordered)
{
    each(p, span, FUNCTION_NODE, visit_node, ordered);
    each(p, span, FUNCTION_ATTRIBUTE, visit_attribute, false);
}

static void visit_training(ot_patch *p, int span, bool ordered)
{
    each(p, span, TRAINING_INITIALIZATION, visit_graph, false);
    each(p, span, TRAINING_ALGORITHM, visit_graph, ordered);
}

void ot_patch_walk(ot_patch *p)
{
    each(p, 0, MODEL_GRAPH, visit_graph, true);
    each(p, 0, MODEL_FUNCTION, visit_function, true);
    each(p, 0, MODEL_TRAINING, visit_training, true);
}
