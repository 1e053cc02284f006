/* walk.c - where the tensors of a file are, in the order of ot_source.order (importer/sources.c). */
#include "exporter/patch.h"

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
    each(p, span, OT_SPARSE_VALUES, visit_tensor, false);
    each(p, span, OT_SPARSE_INDICES, visit_tensor, false);
}

static void visit_graph(ot_patch *p, int span, bool ordered);

/* As has_floats of importer/sources.c. */
static bool is_float_of_constant(const ot_patch *p, int span)
{
    static const char name[] = "value_float";
    ot_field f;
    return ot_field_last(p, span, OT_ATTRIBUTE_F, &f) && ot_field_last(p, span, OT_ATTRIBUTE_NAME, &f) &&
           f.end - f.body == sizeof name - 1 && !memcmp(p->p + f.body, name, sizeof name - 1);
}

static void visit_floats(ot_patch *p, int span, bool ordered)
{
    ot_field f;
    bool some = false;
    for (size_t at = p->span[span].body, end = p->span[span].end; ot_field_next(p->p, &at, end, &f);)
        some |= f.number == OT_ATTRIBUTE_FLOATS && f.end > f.body;
    if (!some && !is_float_of_constant(p, span)) return;
    if (!ordered) return;
    p->span[span].floats = true;
    visit_tensor(p, span, ordered);
}

/* Depth is bounded: the importer's guard refuses messages nested deeper than OT_DEEPEST. */
static void visit_attribute(ot_patch *p, int span, bool ordered)
{
    each(p, span, OT_ATTRIBUTE_T, visit_tensor, ordered);
    each(p, span, OT_ATTRIBUTE_TENSORS, visit_tensor, ordered);
    visit_floats(p, span, ordered);
    each(p, span, OT_ATTRIBUTE_G, visit_graph, ordered);
    each(p, span, OT_ATTRIBUTE_GRAPHS, visit_graph, ordered);
    each(p, span, OT_ATTRIBUTE_SPARSE, visit_sparse, false);
    each(p, span, OT_ATTRIBUTE_SPARSES, visit_sparse, false);
}

static void visit_node(ot_patch *p, int span, bool ordered)
{
    each(p, span, OT_NODE_ATTRIBUTE, visit_attribute, ordered);
}

static void visit_graph(ot_patch *p, int span, bool ordered)
{
    each(p, span, OT_GRAPH_INITIALIZER, visit_tensor, ordered);
    each(p, span, OT_GRAPH_NODE, visit_node, ordered);
    each(p, span, OT_GRAPH_SPARSE, visit_sparse, false);
}

static void visit_function(ot_patch *p, int span, bool ordered)
{
    each(p, span, OT_FUNCTION_NODE, visit_node, ordered);
    each(p, span, OT_FUNCTION_ATTRIBUTE, visit_attribute, false);
}

static void visit_training(ot_patch *p, int span, bool ordered)
{
    each(p, span, OT_TRAINING_INITIALIZATION, visit_graph, false);
    each(p, span, OT_TRAINING_ALGORITHM, visit_graph, ordered);
}

void ot_patch_walk(ot_patch *p)
{
    each(p, 0, OT_MODEL_GRAPH, visit_graph, true);
    each(p, 0, OT_MODEL_FUNCTION, visit_function, true);
    each(p, 0, OT_MODEL_TRAINING, visit_training, true);
}
