/* training.c - TrainingInfoProto: the training that the file itself describes.
 *
 * An algorithm is a second graph: it reads the file's tensors, adds inputs (labels) and initializers (the optimizer's
 * state), and its bindings say which result replaces which initializer.  Both graphs become one, and the bindings its
 * assignments. An algorithm that cannot be used is no finding: the model is imported without it, and ot_training.why
 * has the reason.
 *
 * Spec    onnx.proto, TrainingInfoProto. */
#include <stdio.h>

#include "importer/build.h"

/* Names of the file's graph, for its copy. */
static ot_status copy_names(const ot_scope *from, ot_scope *to)
{
    for (size_t i = 0; i < from->values.cap; i++) {
        const ot_value *v = from->values.key && from->values.key[i] ? from->values.value[i] : NULL;
        if (v && !ot_table_set(&to->values, from->values.key[i], to->graph->values[v->id])) return OT_E_NOMEM;
    }
    return OT_OK;
}

/* What the graph's unsupported operators are, as a finding. */
static void tell_unsupported(ot_job *j)
{
    for (const ot_unsupported *u = j->first_unsupported; u; u = u->next)
        ot_fail_more(j->found, OT_E_MODEL, "operator %.60s%s%.60s is not supported ('%.100s')", u->domain,
                     *u->domain ? "." : "", u->op, u->first);
}

static const char *text_of(const Onnx__StringStringEntryProto *e, bool key) { return ot_text(key ? e->key : e->value); }

/* The initializer that a binding names; NULL: a finding was added. */
static ot_value *bound(ot_job *j, const ot_scope *s, const char *kind, const char *name)
{
    bool absent;
    ot_value *v = ot_scope_find(s, name, &absent);
    if (v && v->source >= 0 && !v->producer && !v->from_constant) return v;
    ot_fail_more(j->found, OT_E_MODEL, "%s: unknown initializer '%.200s'", kind, name);
    return NULL;
}

static void bind_updates(ot_job *j, ot_scope *s, const Onnx__TrainingInfoProto *t)
{
    ot_table keys = { .arena = j->f->arena };
    for (size_t i = 0; i < t->n_update_binding; i++) {
        const char *key = text_of(t->update_binding[i], true), *name = text_of(t->update_binding[i], false);
        bool absent;
        ot_value *state = bound(j, s, "update_binding", key), *now = ot_scope_find(s, name, &absent);
        if (!now) ot_fail_more(j->found, OT_E_MODEL, "update_binding: unknown tensor '%.200s' for '%.200s'", name, key);
        if (ot_table_find(&keys, key))
            ot_fail_more(j->found, OT_E_MODEL, "update_binding: '%.200s' is bound twice", key);
        if (!ot_table_set(&keys, key, t)) ot_fail_more(j->found, OT_E_NOMEM, "no memory");
        if (state && state->dtype == OT_STRING)
            ot_fail_more(j->found, OT_E_MODEL, "update_binding: '%.200s' contains strings, which cannot be trained",
                         key);
        else if (state && now) ot_graph_assign(s->graph, state, now);
    }
}

static ot_status algorithm_build(ot_job *j, const ot_scope *outer, ot_training *out, const Onnx__TrainingInfoProto *t)
{
    static const Onnx__GraphProto nothing = ONNX__GRAPH_PROTO__INIT;
    ot_scope s = *outer;
    ot_graph *file = j->graph;
    int first = file->n_outputs;
    ot_value **once = j->order_value;
    s.values = (ot_table){ .arena = j->f->arena };
    out->graph = s.graph = ot_graph_clone(file, &out->sticky);
    j->order_value = ot_job_alloc(j, (size_t)j->n_order * sizeof *j->order_value + 1);
    if (!s.graph || !j->order_value || copy_names(outer, &s) != OT_OK) return OT_E_NOMEM;
    for (int i = 0; i < file->n_values; i++) s.graph->values[i]->mark = file->values[i]->mark; /* guesses of types */
    j->graph = s.graph;
    ot_status built = ot_graph_build(j, &s, t->algorithm ? t->algorithm : &nothing);
    if (built == OT_OK) bind_updates(j, &s, t);
    s.graph->n_outputs = first; /* the algorithm's are for its bindings */
    ot_hints_clear(s.graph);
    j->graph = file;
    j->order_value = once;
    return built;
}

/* The tensors that it starts from are its own; nothing of it trains. */
static ot_status initialization_build(ot_job *j, const ot_scope *outer, ot_training *out,
                                      const Onnx__TrainingInfoProto *t)
{
    ot_scope s = {
        .values = { .arena = j->f->arena }, .prefix = "", .path = "", .opset = outer->opset, .n_opset = outer->n_opset
    };
    ot_graph *file = j->graph;
    int sources = j->m->n_sources, *sets = ot_job_alloc(j, (t->n_initialization_binding + 1) * sizeof *sets);
    ot_value **once = j->order_value;
    j->order_value = ot_job_alloc(j, (size_t)j->n_order * sizeof *j->order_value + 1);
    out->initialization = s.graph = ot_graph_new(&out->sticky);
    if (!sets || !j->order_value || !s.graph) return OT_E_NOMEM;
    j->graph = s.graph;
    ot_status built = ot_graph_build(j, &s, t->initialization);
    j->graph = file;
    j->order_value = once;
    j->m->n_sources = sources;
    for (int i = 0; i < s.graph->n_values; i++) s.graph->values[i]->source = -1;
    if (s.graph->n_inputs)
        ot_fail_more(j->found, OT_E_MODEL,
                     "the initialization has an input, '%.200s', but must "
                     "have none",
                     s.graph->inputs[0]->name);
    s.graph->n_outputs = 0;
    ot_scope trained = { .graph = out->graph, .values = { .arena = j->f->arena } };
    for (int i = 0; i < out->graph->n_values; i++) /* initializers go by their names */
        if (out->graph->values[i]->source >= 0 &&
            !ot_table_set(&trained.values, out->graph->values[i]->name, out->graph->values[i]))
            return OT_E_NOMEM;
    for (size_t i = 0; built == OT_OK && i < t->n_initialization_binding; i++) {
        const char *key = text_of(t->initialization_binding[i], true),
                   *name = text_of(t->initialization_binding[i], false);
        bool absent;
        const ot_value *of = bound(j, &trained, "initialization_binding", key);
        ot_value *v = ot_scope_find(&s, name, &absent);
        if (!v)
            ot_fail_more(j->found, OT_E_MODEL, "initialization_binding: its graph has no tensor '%.200s' for '%.200s'",
                         name, key);
        if (!v || !of) continue;
        sets[s.graph->n_outputs] = of->source;
        ot_graph_output(s.graph, v);
    }
    ot_hints_clear(s.graph);
    out->sets = sets;
    return built;
}

ot_status ot_training_build(ot_job *j, const ot_scope *s)
{
    const Onnx__ModelProto *m = j->f->model;
    ot_error *found = ot_job_alloc(j, sizeof *found), *theirs = j->found;
    ot_training *out = ot_job_alloc(j, sizeof *out);
    ot_job was = *j;
    int sources = j->m->n_sources;
    size_t updates = 0;
    for (size_t i = 0; i < m->n_training_info; i++) updates += m->training_info[i]->n_update_binding;
    if (!updates) {
        ot_note(j, "training information in the file (TrainingInfoProto) updates nothing and is ignored");
        return OT_OK;
    }
    if (!found || !out) return OT_E_NOMEM;
    j->m->training = out;
    j->found = found;
    j->unsupported = (ot_table){ .arena = j->f->arena };
    j->first_unsupported = j->last_unsupported = NULL;
    const Onnx__TrainingInfoProto *t = m->training_info[0];
    if (m->n_training_info > 1)
        ot_fail_more(found, OT_E_MODEL,
                     "it has %zu parts to be run in sequence; only one is "
                     "supported",
                     m->n_training_info);
    else ot_check_training(m, t, found);
    ot_status built = found->status;
    if (built == OT_OK) built = algorithm_build(j, s, out, t);
    bool initialized = built == OT_OK && found->status == OT_OK && t->n_initialization_binding;
    if (initialized && t->initialization) built = initialization_build(j, s, out, t);
    else if (initialized)
        ot_fail_more(found, OT_E_MODEL,
                     "initialization_binding: the file has "
                     "no initialization graph");
    tell_unsupported(j);
    if (out->sticky.status != OT_OK) ot_fail_more(found, out->sticky.status, "%s", out->sticky.text);
    j->found = theirs;
    j->unsupported = was.unsupported;
    j->first_unsupported = was.first_unsupported;
    j->last_unsupported = was.last_unsupported;
    if (found->status == OT_E_NOMEM || (built != OT_OK && found->status == OT_OK))
        return ot_fail_more(theirs, OT_E_NOMEM, "no memory");
    if (found->status == OT_OK) return ot_sources_name(j);
    j->m->n_sources = sources;
    ot_graph_free(out->graph);
    ot_graph_free(out->initialization);
    *out = (ot_training){ .why = ot_arena_strdup(j->f->arena, found->text) };
    return ot_status_of(out->why);
}
