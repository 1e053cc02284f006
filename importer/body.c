/* body.c - builds the nodes and values of a body: the file's graph, a subgraph or a function.
 *
 * A scope maps the body's names to values.  A subgraph also sees the scopes around it; a function sees its inputs only.
 * Findings do not stop the walk: all of a file's findings are reported at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "importer/build.h"

/* A node's name in messages: its own, or that of its first output. */
static const char *node_name(const Onnx__NodeProto *n)
{
    if (n->name && *n->name) return n->name;
    for (size_t i = 0; i < n->n_output; i++)
        if (*n->output[i]) return n->output[i];
    return ot_text(n->op_type);
}

static ot_status form_new(ot_job *j, ot_scope *s, const Onnx__NodeProto *n, ot_form *f)
{
    *f = (ot_form){ .job = j,
                    .scope = s,
                    .op = ot_text(n->op_type),
                    .domain = ot_domain(n->domain),
                    .n_in = (int)n->n_input,
                    .n_out = (int)n->n_output,
                    .n_listed = (int)n->n_output,
                    .cap_in = (int)n->n_input + 8 };
    f->version = ot_scope_version(j, s, f->domain);
    f->name = *s->prefix ? ot_arena_printf(j->f->arena, "%s%.300s", s->prefix, node_name(n)) : node_name(n);
    f->in = ot_job_alloc(j, (size_t)f->cap_in * sizeof *f->in);
    f->out = ot_job_alloc(j, (n->n_output + 1) * sizeof *f->out);
    f->out_name = ot_job_alloc(j, (n->n_output + 1) * sizeof *f->out_name);
    if (!f->name || !f->in || !f->out || !f->out_name) return OT_E_NOMEM;
    for (int i = 0; i < f->n_in; i++) {
        bool absent = !*n->input[i];
        if (!absent) f->in[i] = ot_scope_find(s, n->input[i], &absent);
        if (!f->in[i] && !absent)
            ot_fail_more(j->found, OT_E_MODEL, "%.300s: unknown input '%.200s'", ot_form_who(f), n->input[i]);
    }
    for (int i = 0; i < f->n_out; i++) f->out_name[i] = n->output[i];
    while (f->n_in && !f->in[f->n_in - 1]) f->n_in--;
    while (f->n_out && !*f->out_name[f->n_out - 1]) f->n_out--;
    OT_TRY(ot_attributes_resolve(j, s, n, &f->attr, &f->n_attr));
    f->cap_attr = f->n_attr;
    return OT_OK;
}

/* Gives the values of an emitted form their names in the scope. */
static ot_status bind_outputs(ot_form *f)
{
    ot_scope *s = f->scope;
    for (int i = 0; i < f->n_out; i++) {
        const char *name = f->out_name[i];
        if (!*name) continue;
        ot_value *v = f->out[i];
        /* After a finding there may be none; a value without a producer keeps the walk going. */
        if (!v) v = f->out[i] = ot_graph_value(s->graph, name, OT_TEMP, OT_UNDEFINED, NULL);
        if (!v) return OT_E_NOMEM;
        if (v->role == OT_TEMP) {
            v->name = ot_scope_name(s, name);
            if (!v->name) return ot_fail_more(f->job->found, OT_E_NOMEM, "%s: no memory", f->name);
        }
        OT_TRY(ot_scope_bind(f->job, s, name, v));
    }
    return OT_OK;
}

/* A rewriting makes the outputs that the operator has; a file may name more, which is a finding. */
static void check_outputs(ot_form *f)
{
    int made = 0;
    while (made < f->n_out && f->out[made]) made++;
    for (int i = made; i < f->n_out && made; i++)
        if (*f->out_name[i] && !f->out[i]) {
            ot_fail_more(f->job->found, OT_E_MODEL, "%.300s: %d outputs; at most %d are allowed", ot_form_who(f),
                         f->n_out, made);
            return;
        }
}

static ot_status node_build(ot_job *j, ot_scope *s, const Onnx__NodeProto *n)
{
    if (++j->nodes > j->most_nodes) {
        if (j->nodes == j->most_nodes + 1)
            ot_fail_more(j->found, OT_E_MODEL, "after inlining its functions the model has more than %lld nodes",
                         (long long)j->most_nodes);
        return OT_E_MODEL;
    }
    const Onnx__FunctionProto *fn;
    OT_TRY(ot_function_find(j, n, &fn));
    if (fn) return ot_function_inline(j, s, n, fn);
    if (!*ot_domain(n->domain) && !strcmp(ot_text(n->op_type), "Constant")) return ot_constant_build(j, s, n);
    ot_form f;
    OT_TRY(form_new(j, s, n, &f));
    OT_TRY(ot_traced_inputs(&f, n));
    ot_status made = ot_upgrade(&f);
    if (made == OT_OK && !f.done) made = ot_form_emit(&f);
    else if (made == OT_OK) check_outputs(&f);
    if (made == OT_E_NOMEM) return made;
    /* A finding about this node does not end the walk: placeholders replace its outputs. */
    if (made == OT_OK) OT_TRY(ot_traced_outputs(&f, n));
    return bind_outputs(&f);
}

ot_status ot_body_build(ot_job *j, ot_scope *s, Onnx__NodeProto *const *node, size_t n)
{
    const int *order;
    OT_TRY(ot_sort_nodes(j->f->arena, node, n, s->path, &order, j->found));
    for (size_t i = 0; i < n; i++) OT_TRY(node_build(j, s, node[order[i]]));
    return OT_OK;
}

/* ---- graphs ------------------------------------------------------------------------------- */

/* Shape and symbolic names of an input.  Some writers use a dimension of 0 or less for an unknown one. */
static void read_dims(ot_job *j, const Onnx__TensorShapeProto *shape, ot_value *v)
{
    if (!shape) return;
    v->shape.rank = (int)shape->n_dim;
    const char **names = ot_job_alloc(j, (size_t)OT_MAX_RANK * sizeof *names);
    for (int d = 0; d < v->shape.rank; d++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[d];
        bool known = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value > 0;
        v->shape.dim[d] = known ? dim->dim_value : -1;
        if (names && dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM) names[d] = dim->dim_param;
    }
    v->dim_names = names;
}

/* An initializer that is listed as input `info` too: one of the two is wrong where they differ.  (What value_info says of other values
 * is not read: shapes and types follow from the operators.) */
static void check_listed(ot_job *j, const ot_value *v, const Onnx__ValueInfoProto *info)
{
    char is[256], says[256];
    int list;
    ot_value said = { .shape = { .rank = -1 } };
    const Onnx__TypeProto__Tensor *t = ot_type_tensor(info->type, &list);
    if (!t || list) return;
    if (t->elem_type && t->elem_type != (int32_t)v->dtype)
        ot_fail_more(j->found, OT_E_MODEL, "initializer '%.200s' is %s, but the graph input of that name is %s",
                     v->name, ot_dtype_name(v->dtype), ot_dtype_name((ot_dtype)t->elem_type));
    if (!t->shape || t->shape->n_dim > OT_MAX_RANK) return;
    read_dims(j, t->shape, &said);
    bool same = said.shape.rank == v->shape.rank;
    for (int d = 0; d < said.shape.rank && same; d++)
        same = said.shape.dim[d] < 0 || said.shape.dim[d] == v->shape.dim[d];
    if (!same)
        ot_fail_more(j->found, OT_E_MODEL, "initializer '%.200s' is %s, but the graph input of that name is %s",
                     v->name, ot_shape_text(&v->shape, is), ot_shape_text(&said.shape, says));
}

static ot_status input_build(ot_job *j, ot_scope *s, const Onnx__ValueInfoProto *info)
{
    const char *name = ot_text(info->name);
    const ot_value *held = ot_table_find(&s->values, name); /* an initializer: not fed */
    if (held && !s->up && held != (const ot_value *)OT_ABSENT) check_listed(j, held, info);
    if (held) return OT_OK;
    ot_value *v = ot_graph_value(s->graph, name, OT_INPUT, OT_UNDEFINED, NULL);
    if (!v) return OT_E_NOMEM;
    /* The types of a subgraph's inputs follow from its node. */
    int list = 0;
    const Onnx__TypeProto__Tensor *t = s->up ? NULL : ot_type_tensor(info->type, &list);
    v->list = (unsigned)list & 15;
    if (t) {
        v->dtype = (ot_dtype)t->elem_type;
        read_dims(j, t->shape, v);
    }
    ot_graph_input(s->graph, v);
    return ot_scope_bind(j, s, name, v);
}

/* Its type is compared when it is known (passes/infer.c); here already where it is. */
static void output_declared(ot_job *j, ot_scope *s, ot_value *v, const Onnx__ValueInfoProto *info)
{
    bool told = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    ot_dtype t = told ? (ot_dtype)info->type->tensor_type->elem_type : OT_UNDEFINED;
    ot_graph_output(s->graph, v);
    if (v->dtype != OT_UNDEFINED && t != OT_UNDEFINED && v->dtype != t)
        ot_fail_more(j->found, OT_E_MODEL, "%soutput '%.200s' is %s, but the file declares %s", s->path,
                     ot_text(info->name), ot_dtype_name(v->dtype), ot_dtype_name(t));
    if (t != OT_UNDEFINED) v->declared = t;
}

ot_status ot_graph_build(ot_job *j, ot_scope *s, const Onnx__GraphProto *g)
{
    const char *first = "";
    int sparse = 0;
    for (size_t i = 0; i < g->n_initializer; i++) {
        const char *name = ot_text(g->initializer[i]->name);
        ot_value *v = ot_tensor_value(j, s, g->initializer[i], name, OT_FROM_INITIALIZER);
        OT_TRY(ot_status_of(v));
        OT_TRY(ot_scope_bind(j, s, name, v));
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *t = g->sparse_initializer[i];
        ot_value *v = ot_sparse_value(j, s, t, t->values ? ot_text(t->values->name) : "");
        OT_TRY(ot_status_of(v));
        OT_TRY(ot_scope_bind(j, s, ot_text(t->values->name), v));
        if (ot_is_float(v->dtype) && !sparse++) first = ot_text(t->values->name);
    }
    if (sparse)
        ot_note(
            j,
            "sparse initializers do not train (%d, first: '%.200s'): they are constants; to train one, store it as a dense initializer",
            sparse, first);
    for (size_t i = 0; i < g->n_input; i++) OT_TRY(input_build(j, s, g->input[i]));
    OT_TRY(ot_body_build(j, s, g->node, g->n_node));
    for (size_t i = 0; i < g->n_output; i++) {
        bool absent;
        const char *name = ot_text(g->output[i]->name);
        ot_value *v = ot_scope_find(s, name, &absent);
        if (v) output_declared(j, s, v, g->output[i]);
        else ot_fail_more(j->found, OT_E_MODEL, "%soutput '%.200s' is produced by no node", s->path, name);
    }
    return OT_OK;
}

ot_status ot_subgraph_build(ot_job *j, ot_scope *up, const Onnx__GraphProto *g, const char *node, const char *branch,
                            ot_graph **out)
{
    ot_scope s = { .up = up,
                   .values = { .arena = j->f->arena },
                   .call = up->call,
                   .prefix = up->prefix,
                   .opset = up->opset,
                   .n_opset = up->n_opset };
    s.graph = ot_graph_sub(up->graph, branch);
    s.path = ot_arena_printf(j->f->arena, "%.700s%.300s/%.100s/", up->path, node, branch);
    if (!s.graph || !s.path) return OT_E_NOMEM;
    OT_TRY(ot_graph_build(j, &s, g));
    *out = s.graph;
    return OT_OK;
}
