/* check.c - checks of a model's structure that need no knowledge of operators.
 *
 * All findings are reported, not only the first.  Every name must be present and unique in its body; use before
 * definition is found while the graph is built (body.c).
 *
 * Spec    ONNX IR.md and its checker, except for what does no harm: sorted nodes, graph names, unused domains,
 *         initializers among the inputs, value_info. */
#include "importer/build.h"

enum { MOST_ATTRIBUTES = 1000, MOST_DOMAINS = 1000 }; /* far above any real one: they are searched one by one */

typedef struct check {
    ot_error *found;
    ot_arena *arena;
    const char *where; /* "" or "function 'f': " or "subgraph 'then_branch' of 'if1': " */
    bool in_function;
} check;

#define FINDING(c, ...) ot_fail_more((c)->found, OT_E_MODEL, __VA_ARGS__)

/* ---- names -------------------------------------------------------------------------- */

static const char made;

/* Adds a name that is given here; a second time is a finding. */
static void give(const check *c, ot_table *names, const char *name, const char *what)
{
    if (!*name) {
        FINDING(c, "%s%s has no name", c->where, what);
    } else if (ot_table_find(names, name)) {
        FINDING(c, "%s%s '%.200s': duplicate name", c->where, what, name);
    } else if (!ot_table_set(names, name, &made)) {
        ot_fail_more(c->found, OT_E_NOMEM, "no memory");
    }
}

/* ---- attributes ------------------------------------------------------------------------ */

static void check_graph(const check *outer, const Onnx__GraphProto *g, const char *where, bool top);

static void check_attribute(const check *c, const Onnx__NodeProto *n, const Onnx__AttributeProto *a, ot_table *names)
{
    const char *node = n->name && *n->name ? n->name : n->n_output ? n->output[0] : ot_text(n->op_type);
    const char *what = ot_arena_printf(c->arena, "node '%.200s': attribute", node);
    give(c, names, ot_text(a->name), what ? what : "attribute");
    if (a->ref_attr_name && *a->ref_attr_name) {
        if (!c->in_function)
            FINDING(c, "%snode '%.200s': attribute '%.100s' refers to '%.100s', but is not in a function", c->where,
                    node, ot_text(a->name), a->ref_attr_name);
        return;
    }
    for (size_t i = 0; i < a->n_graphs + (a->g != NULL); i++) {
        const char *where =
            ot_arena_printf(c->arena, "%.300ssubgraph '%.100s' of '%.200s': ", c->where, ot_text(a->name), node);
        if (where) check_graph(c, i < a->n_graphs ? a->graphs[i] : a->g, where, false);
    }
}

/* ---- nodes ------------------------------------------------------------------------------- */

static void check_node(const check *c, const Onnx__NodeProto *n, size_t at, ot_table *names)
{
    if (!n->op_type || !*n->op_type) FINDING(c, "%snode %zu '%.200s' has no op_type", c->where, at, ot_text(n->name));
    if (!n->n_output)
        FINDING(c, "%snode %zu '%.200s' (%.60s) has no outputs", c->where, at, ot_text(n->name), ot_text(n->op_type));
    for (size_t i = 0; i < n->n_output; i++)
        if (*n->output[i]) give(c, names, n->output[i], "result");
    if (n->n_attribute > MOST_ATTRIBUTES) {
        FINDING(c, "%snode %zu '%.200s' has %zu attributes, which is too many", c->where, at, ot_text(n->name),
                n->n_attribute);
        return;
    }
    ot_table attributes = { .arena = c->arena };
    for (size_t i = 0; i < n->n_attribute; i++) check_attribute(c, n, n->attribute[i], &attributes);
}

/* ---- graphs ------------------------------------------------------------------------------- */

static const char *kind_of(const Onnx__TypeProto *t)
{
    switch (t->value_case) {
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE: return "a sequence";
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE: return "a map";
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE: return "optional";
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE: return "a sparse tensor";
    case ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE: return "opaque";
    default: return "without a type";
    }
}

const Onnx__TypeProto__Tensor *ot_type_tensor(const Onnx__TypeProto *t, int *list)
{
    *list = 0;
    if (t && t->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE)
        *list |= OT_INPUT_OPTIONAL, t = t->optional_type->elem_type;
    if (t && t->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE)
        *list |= OT_INPUT_LIST, t = t->sequence_type->elem_type;
    return t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? t->tensor_type : NULL;
}

/* Inputs of the file are fed by arrays, so they are tensors of a type we have, or sequences of such. */
static void check_input_type(const check *c, const Onnx__ValueInfoProto *v)
{
    const char *name = ot_text(v->name);
    int list;
    const Onnx__TypeProto__Tensor *t = ot_type_tensor(v->type, &list);
    if (!t) {
        FINDING(c, "%sinput '%.200s' is %s%s; supported are tensors, sequences of tensors, and optionals of these",
                c->where, name, v->type ? kind_of(v->type) : "without a type",
                list ? " of another type than tensor" : "");
        return;
    }
    int32_t type = t->elem_type;
    if (type != OT_STRING && (type <= 0 || type > OT_I2 || !ot_dtype_bits((ot_dtype)type)))
        FINDING(c, "%sinput '%.200s': element type %d is not supported", c->where, name, type);
    const Onnx__TensorShapeProto *s = t->shape;
    if (s && s->n_dim > OT_MAX_RANK)
        FINDING(c, "%sinput '%.200s': %zu dimensions; at most %d are supported", c->where, name, s->n_dim, OT_MAX_RANK);
    int64_t bytes = 1;
    for (size_t i = 0; s && i < s->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *d = s->dim[i];
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && d->dim_value > 0 &&
            (!ot_mul(bytes, d->dim_value, &bytes) || bytes > INT64_MAX / 16)) {
            FINDING(c, "%sinput '%.200s': the shape is too large", c->where, name);
            return;
        }
    }
}

/* names: given before it, and here. */
static void check_body(const check *outer, const Onnx__GraphProto *g, const char *where, bool top, ot_table *before)
{
    check c = { outer->found, outer->arena, where, outer->in_function };
    ot_table names = *before, inputs = { .arena = c.arena };
    for (size_t i = 0; i < g->n_initializer; i++) give(&c, &names, ot_text(g->initializer[i]->name), "initializer");
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const Onnx__TensorProto *v = g->sparse_initializer[i]->values;
        give(&c, &names, v ? ot_text(v->name) : "", "sparse initializer");
    }
    for (size_t i = 0; i < g->n_input; i++) {
        const char *name = ot_text(g->input[i]->name);
        bool fed = !ot_table_find(&names, name);
        give(&c, &inputs, name, "input");
        if (fed && top) check_input_type(&c, g->input[i]);
        if (fed && *name && !ot_table_set(&names, name, &made)) ot_fail_more(c.found, OT_E_NOMEM, "no memory");
    }
    for (size_t i = 0; i < g->n_node; i++) check_node(&c, g->node[i], i, &names);
    for (size_t i = 0; i < g->n_output; i++) {
        const char *name = ot_text(g->output[i]->name);
        if (!*name) FINDING(&c, "%soutput %zu has no name", where, i);
        if (top && *name && !ot_table_find(&names, name))
            FINDING(&c, "%soutput '%.200s' is produced by no node", where, name);
    }
    *before = names;
}

static void check_graph(const check *outer, const Onnx__GraphProto *g, const char *where, bool top)
{
    ot_table names = { .arena = outer->arena };
    check_body(outer, g, where, top, &names);
    if (top && !g->n_output) FINDING(outer, "%sthe graph has no outputs", where);
}

/* ---- functions ------------------------------------------------------------------------------- */

static void check_function(const check *outer, const Onnx__FunctionProto *fn, ot_table *ids)
{
    const char *name = ot_text(fn->name);
    const char *where = ot_arena_printf(outer->arena, "function '%.200s': ", name);
    const char *id = ot_arena_printf(outer->arena, "%s\1%s\1%s", ot_domain(fn->domain), name, ot_text(fn->overload));
    if (!where || !id) {
        ot_fail_more(outer->found, OT_E_NOMEM, "no memory");
        return;
    }
    check c = { outer->found, outer->arena, where, true };
    if (!*name) FINDING(&c, "a function has no name");
    else if (ot_table_find(ids, id)) FINDING(&c, "function '%.200s' is defined twice", name);
    if (!ot_table_set(ids, id, &made)) ot_fail_more(c.found, OT_E_NOMEM, "no memory");
    ot_table names = { .arena = c.arena };
    for (size_t i = 0; i < fn->n_input; i++) give(&c, &names, fn->input[i], "input");
    for (size_t i = 0; i < fn->n_node; i++) check_node(&c, fn->node[i], i, &names);
    for (size_t i = 0; i < fn->n_output; i++)
        if (!ot_table_find(&names, fn->output[i]))
            FINDING(&c, "%soutput '%.200s' is produced by no node", where, fn->output[i]);
}

/* ---- the model ---------------------------------------------------------------------------------- */

static void check_opsets(const check *c, Onnx__OperatorSetIdProto *const *set, size_t n, const char *where)
{
    ot_table domains = { .arena = c->arena };
    if (n > MOST_DOMAINS) {
        FINDING(c, "%sopset_import has %zu entries, which is too many", where, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const char *domain = ot_domain(set[i]->domain);
        const Onnx__OperatorSetIdProto *before = ot_table_find(&domains, domain);
        if (before && before->version != set[i]->version) /* converters write the same one again */
            FINDING(c, "%sthe opset of domain '%.100s' is given twice: %lld and %lld", where, domain,
                    (long long)before->version, (long long)set[i]->version);
        else if (!before && !ot_table_set(&domains, domain, set[i])) ot_fail_more(c->found, OT_E_NOMEM, "no memory");
        if (set[i]->version < 1)
            FINDING(c, "%sinvalid opset %lld for domain '%.100s'", where, (long long)set[i]->version, domain);
    }
}

void ot_check_training(const Onnx__ModelProto *m, const Onnx__TrainingInfoProto *t, ot_error *found)
{
    ot_arena *a = ot_arena_new();
    ot_error known = { 0 }; /* the model has been checked */
    if (!a) {
        ot_fail_more(found, OT_E_NOMEM, "no memory");
        return;
    }
    ot_table names = { .arena = a };
    check_body(&(check){ &known, a, "", false }, m->graph, "", true, &names);
    check c = { found, a, "", false };
    if (t->algorithm) check_body(&c, t->algorithm, "training algorithm: ", true, &names);
    if (t->initialization) check_graph(&c, t->initialization, "initialization: ", true);
    ot_arena_free(a);
}

void ot_check_model(const Onnx__ModelProto *m, ot_error *found)
{
    ot_arena *a = ot_arena_new();
    if (!a) {
        ot_fail_more(found, OT_E_NOMEM, "no memory");
        return;
    }
    check c = { found, a, "", false };
    if (!m->graph) {
        FINDING(&c, "the file has no graph: it is not an ONNX model, or is truncated");
    } else {
        if (m->has_ir_version && m->ir_version < 0) FINDING(&c, "invalid IR version %lld", (long long)m->ir_version);
        check_opsets(&c, m->opset_import, m->n_opset_import, "");
        check_graph(&c, m->graph, "", true);
        ot_table ids = { .arena = a };
        for (size_t i = 0; i < m->n_functions; i++) {
            check_function(&c, m->functions[i], &ids);
            check_opsets(&c, m->functions[i]->opset_import, m->functions[i]->n_opset_import, "a function: ");
        }
    }
    ot_arena_free(a);
}
