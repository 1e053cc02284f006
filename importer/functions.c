/* functions.c - functions of the file are inlined where they are called.
 *
 * A call gets a scope of its own, in which the function's inputs are the caller's values; the
 * function sees nothing else.  An attribute that refers to one of the call is replaced by it, or by
 * the function's default; without either it is omitted.
 *
 * Memory  Recursion is refused, nesting is bounded, and the nodes that calls grow to are counted
 *         (a chain of functions that call twice each would double with every link). */
#include "importer/build.h"

enum { DEEPEST_CALL = 64 };

static const char *key_of(ot_arena *a, const char *domain, const char *name, const char *overload)
{
    return ot_arena_printf(a, "%s\1%s\1%s", ot_domain(domain), ot_text(name), ot_text(overload));
}

ot_status ot_functions_index(ot_job *j)
{
    const Onnx__ModelProto *m = j->f->model;
    j->functions = (ot_table){ .arena = j->f->arena };
    for (size_t i = 0; i < m->n_functions; i++) {
        Onnx__FunctionProto *fn = m->functions[i];
        const char *key = key_of(j->f->arena, fn->domain, fn->name, fn->overload);
        if (!key || !ot_table_set(&j->functions, key, fn)) return OT_E_NOMEM;
    }
    return OT_OK;
}

ot_status ot_function_find(ot_job *j, const Onnx__NodeProto *n, const Onnx__FunctionProto **out)
{
    *out = NULL;
    if (!j->functions.n) return OT_OK;
    const char *key = key_of(j->f->arena, n->domain, n->op_type, n->overload);
    if (!key) return ot_fail_more(j->found, OT_E_NOMEM, "no memory");
    *out = ot_table_find(&j->functions, key);
    return OT_OK;
}

/* ---- attributes -------------------------------------------------------------------- */

static const ot_attribute *referred(const ot_inlining *c, const char *name)
{
    for (int i = 0; i < c->n_attr; i++)
        if (!strcmp(ot_text(c->attr[i]->name), name)) return c->attr[i];
    for (size_t i = 0; i < c->fn->n_attribute_proto; i++)
        if (!strcmp(ot_text(c->fn->attribute_proto[i]->name), name)) return c->fn->attribute_proto[i];
    return NULL;
}

ot_status ot_attributes_resolve(ot_job *j, const ot_scope *s, const Onnx__NodeProto *n, const ot_attribute ***out,
                                int *n_out)
{
    const ot_attribute **list = ot_job_alloc(j, (n->n_attribute + 1) * sizeof *list);
    if (!list) return OT_E_NOMEM;
    int k = 0;
    for (size_t i = 0; i < n->n_attribute; i++) {
        const ot_attribute *a = n->attribute[i];
        if (s->call && a->ref_attr_name && *a->ref_attr_name) {
            const ot_attribute *r = referred(s->call, a->ref_attr_name);
            if (!r) continue; /* the call omits it */
            ot_attribute *named = ot_job_alloc(j, sizeof *named);
            if (!named) return OT_E_NOMEM;
            *named = *r;
            named->name = a->name;
            a = named;
        }
        list[k++] = a;
    }
    *out = list;
    *n_out = k;
    return OT_OK;
}

/* ---- calls --------------------------------------------------------------------------- */

/* Whether the call is legal; OT_E_MODEL: it is not, which was recorded. */
static ot_status check_call(ot_job *j, const ot_scope *s, const Onnx__NodeProto *n, const Onnx__FunctionProto *fn)
{
    for (const ot_inlining *c = s->call; c; c = c->up)
        if (c->fn == fn) return ot_fail_more(j->found, OT_E_MODEL, "function '%.200s' calls itself", ot_text(fn->name));
    if (s->call && s->call->depth == DEEPEST_CALL)
        return ot_fail_more(j->found, OT_E_MODEL, "function '%.200s': calls are nested deeper than %d",
                            ot_text(fn->name), DEEPEST_CALL);
    if (n->n_input > fn->n_input || n->n_output > fn->n_output)
        return ot_fail_more(j->found, OT_E_MODEL,
                            "%.200s: %.60s: %zu inputs and %zu outputs, but the function has %zu and %zu",
                            ot_text(n->name), ot_text(n->op_type), n->n_input, n->n_output, fn->n_input, fn->n_output);
    return OT_OK;
}

static ot_status bind_inputs(ot_job *j, const ot_scope *s, ot_scope *body, const Onnx__NodeProto *n,
                             const Onnx__FunctionProto *fn)
{
    for (size_t i = 0; i < fn->n_input; i++) {
        bool absent = true;
        ot_value *v = NULL;
        if (i < n->n_input && *n->input[i]) {
            v = ot_scope_find(s, n->input[i], &absent);
            if (!v && !absent)
                ot_fail_more(j->found, OT_E_MODEL, "%.200s: %.60s: unknown input '%.200s'", ot_text(n->name),
                             ot_text(n->op_type), n->input[i]);
        }
        OT_TRY(ot_scope_bind(j, body, fn->input[i], v));
    }
    return OT_OK;
}

/* What the function calls `inner` is `outer` for the caller: a value of the call (first: the graph's first of them)
 * takes that name, unless it has another already; then an Identity does. */
static ot_status bind_output(ot_job *j, ot_scope *s, const ot_scope *body, int first, const char *inner,
                             const char *outer)
{
    bool absent;
    ot_value *v = ot_scope_find(body, inner, &absent);
    if (!v) {
        ot_fail_more(j->found, OT_E_MODEL, "function output '%.200s' is produced by no node", inner);
        return OT_OK;
    }
    const char *own = ot_scope_name(body, inner), *name = ot_scope_name(s, outer);
    if (!own || !name) return OT_E_NOMEM;
    if (v->role == OT_TEMP && v->id >= first && !strcmp(v->name, own)) {
        v->name = name;
        return ot_scope_bind(j, s, outer, v);
    }
    ot_form f = { .job = j,
                  .scope = s,
                  .op = "Identity",
                  .domain = "",
                  .name = name,
                  .version = 1,
                  .n_in = 1,
                  .n_out = 1,
                  .in = &v,
                  .out = (ot_value *[]){ NULL },
                  .out_name = &outer };
    OT_TRY(ot_form_emit(&f));
    if (f.out[0]) f.out[0]->name = name;
    return ot_scope_bind(j, s, outer, f.out[0] ? f.out[0] : v);
}

ot_status ot_function_inline(ot_job *j, ot_scope *s, const Onnx__NodeProto *n, const Onnx__FunctionProto *fn)
{
    bool legal = check_call(j, s, n, fn) == OT_OK;
    int first = s->graph->n_values;
    ot_inlining call = { .up = s->call, .fn = fn, .depth = s->call ? s->call->depth + 1 : 1 };
    ot_scope body = { .graph = s->graph,
                      .values = { .arena = j->f->arena },
                      .call = &call,
                      .path = s->path,
                      .opset = fn->n_opset_import ? fn->opset_import : s->opset,
                      .n_opset = fn->n_opset_import ? fn->n_opset_import : s->n_opset };
    if (legal) {
        const char *label = n->name && *n->name ? n->name : n->n_output ? n->output[0] : ot_text(fn->name);
        body.prefix = ot_arena_printf(j->f->arena, "%.300s%.100s/", s->prefix, label);
        const ot_attribute **attr;
        OT_TRY(ot_status_of(body.prefix));
        OT_TRY(ot_attributes_resolve(j, s, n, &attr, &call.n_attr));
        call.attr = attr;
        OT_TRY(bind_inputs(j, s, &body, n, fn));
        OT_TRY(ot_body_build(j, &body, fn->node, fn->n_node));
    }
    for (size_t i = 0; i < n->n_output; i++) {
        if (!*n->output[i]) continue;
        if (legal) {
            OT_TRY(bind_output(j, s, &body, first, fn->output[i], n->output[i]));
        } else {
            ot_value *v = ot_graph_value(s->graph, n->output[i], OT_TEMP, OT_UNDEFINED, NULL);
            OT_TRY(ot_status_of(v));
            OT_TRY(ot_scope_bind(j, s, n->output[i], v));
        }
    }
    return OT_OK;
}
