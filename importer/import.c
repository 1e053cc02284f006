/* import.c - ONNX file -> graph: the walk over a checked file.
 *
 * A body (the file's graph, a subgraph, a function) is built in a scope that maps its names to
 * values; subgraphs see the scope around them, functions see their inputs only.  Findings do not
 * stop the walk: everything wrong with a file is told at once.
 *
 * Memory  Values borrow their bytes from the ot_file, which lives as long as the ot_imported. */
#include <stdio.h>
#include <stdlib.h>

#include "importer/build.h"

enum { INLINED_NODES = 200000, NEWEST_IR = 14, NEWEST_OPSET = 28, LISTED = 3000 };

const char ot_absent_mark = 0;

void *ot_job_alloc(ot_job *j, size_t n)
{
    void *p = ot_arena_alloc(j->f->arena, n ? n : 1);
    if (!p) ot_fail_more(j->found, OT_E_NOMEM, "no memory");
    return p;
}

void ot_note(ot_job *j, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)ot_arena_line(j->f->arena, &j->notes, fmt, ap);
    va_end(ap);
}

/* ---- scopes --------------------------------------------------------------------------- */

bool ot_scope_bind(ot_job *j, ot_scope *s, const char *name, ot_value *v)
{
    if (ot_table_set(&s->values, name, v ? (void *)v : OT_ABSENT)) return true;
    ot_fail_more(j->found, OT_E_NOMEM, "no memory");
    return false;
}

ot_value *ot_scope_find(const ot_scope *s, const char *name, bool *absent)
{
    *absent = false;
    for (; s; s = s->up) {
        void *v = ot_table_find(&s->values, name);
        if (v) return (*absent = v == OT_ABSENT) ? NULL : v;
    }
    return NULL;
}

int64_t ot_scope_version(const ot_job *j, const ot_scope *s, const char *domain)
{
    for (size_t i = 0; i < s->n_opset; i++)
        if (!strcmp(ot_domain(s->opset[i]->domain), domain)) return s->opset[i]->version;
    return *domain ? 1 : j->m->opset;
}

/* Inside functions names are cut: they are for people, and a long one called often is a bomb. */
const char *ot_scope_name(const ot_scope *s, const char *name)
{
    if (!*s->prefix) return ot_arena_strdup(s->graph->arena, name);
    return ot_arena_printf(s->graph->arena, "%s%.300s", s->prefix, name);
}

/* ---- bodies ----------------------------------------------------------------------------- */

/* A node's name for people: its own, or that of its first output. */
static const char *node_name(const Onnx__NodeProto *n)
{
    if (n->name && *n->name) return n->name;
    for (size_t i = 0; i < n->n_output; i++)
        if (*n->output[i]) return n->output[i];
    return ot_text(n->op_type);
}

static bool form_new(ot_job *j, ot_scope *s, const Onnx__NodeProto *n, ot_form *f)
{
    *f = (ot_form){ .job = j, .scope = s, .op = ot_text(n->op_type), .domain = ot_domain(n->domain),
                    .n_in = (int)n->n_input, .n_out = (int)n->n_output, .n_listed = (int)n->n_output,
                    .cap_in = (int)n->n_input + 8 };
    f->version = ot_scope_version(j, s, f->domain);
    f->name = *s->prefix ? ot_arena_printf(j->f->arena, "%s%.300s", s->prefix, node_name(n)) : node_name(n);
    f->in = ot_job_alloc(j, (size_t)f->cap_in * sizeof *f->in);
    f->out = ot_job_alloc(j, (n->n_output + 1) * sizeof *f->out);
    f->out_name = ot_job_alloc(j, (n->n_output + 1) * sizeof *f->out_name);
    if (!f->name || !f->in || !f->out || !f->out_name) return false;
    for (int i = 0; i < f->n_in; i++) {
        bool absent = !*n->input[i];
        if (!absent) f->in[i] = ot_scope_find(s, n->input[i], &absent);
        if (!f->in[i] && !absent)
            ot_fail_more(j->found, OT_E_MODEL, "%.200s: %.60s: input '%.200s' is not known here", f->name, f->op,
                         n->input[i]);
    }
    for (int i = 0; i < f->n_out; i++) f->out_name[i] = n->output[i];
    while (f->n_in && !f->in[f->n_in - 1]) f->n_in--;
    while (f->n_out && !*f->out_name[f->n_out - 1]) f->n_out--;
    if (!ot_attributes_resolve(j, s, n, &f->attr, &f->n_attr)) return false;
    f->cap_attr = f->n_attr;
    return true;
}

/* Gives the values of an emitted form their names in the scope. */
static bool bind_outputs(ot_form *f)
{
    ot_scope *s = f->scope;
    for (int i = 0; i < f->n_out; i++) {
        const char *name = f->out_name[i];
        if (!*name) continue;
        ot_value *v = f->out[i];
        /* After a finding there may be none; a value without a producer keeps the walk going. */
        if (!v) v = f->out[i] = ot_graph_value(s->graph, name, OT_TEMP, OT_UNDEFINED, NULL);
        if (!v) return false;
        if (v->role == OT_TEMP) {
            v->name = ot_scope_name(s, name);
            if (!v->name) return ot_fail_more(f->job->found, OT_E_NOMEM, "%s: no memory", f->name), false;
        }
        if (!ot_scope_bind(f->job, s, name, v)) return false;
    }
    return true;
}

/* A rewriting makes the outputs that the operator has; a file may name more.  false: no memory. */
static bool made_all(ot_form *f)
{
    int made = 0;
    while (made < f->n_out && f->out[made]) made++;
    for (int i = made; i < f->n_out && made; i++)
        if (*f->out_name[i] && !f->out[i])
            return ot_fail_more(f->job->found, OT_E_MODEL, "%.200s: %s: %d outputs; at most %d belong there", f->name, f->op, f->n_out, made), true;
    return true;
}

static bool node_build(ot_job *j, ot_scope *s, const Onnx__NodeProto *n)
{
    if (++j->nodes > j->most_nodes) {
        if (j->nodes == j->most_nodes + 1)
            ot_fail_more(j->found, OT_E_MODEL, "with its functions inlined the model has more than %lld nodes",
                         (long long)j->most_nodes);
        return false;
    }
    const Onnx__FunctionProto *fn;
    if (!ot_function_find(j, n, &fn)) return false;
    if (fn) return ot_function_inline(j, s, n, fn);
    if (!*ot_domain(n->domain) && !strcmp(ot_text(n->op_type), "Constant")) return ot_constant_build(j, s, n);
    ot_form f;
    if (!form_new(j, s, n, &f)) return false;
    if (!ot_traced_inputs(&f, n) || !ot_upgrade(&f)) return false;
    if (f.done ? !made_all(&f) : !ot_form_emit(&f)) return false;
    return ot_traced_outputs(&f, n) && bind_outputs(&f);
}

bool ot_body_build(ot_job *j, ot_scope *s, Onnx__NodeProto *const *node, size_t n)
{
    const int *order = ot_sort_nodes(j->f->arena, node, n, s->path, j->found);
    if (!order) return false;
    for (size_t i = 0; i < n; i++)
        if (!node_build(j, s, node[order[i]])) return false;
    return true;
}

/* ---- graphs ------------------------------------------------------------------------------- */

/* Shape and symbolic names of an input; a dimension of 0 or less is how some writers say unknown. */
static void read_dims(ot_job *j, const Onnx__TensorShapeProto *shape, ot_value *v)
{
    if (!shape) return;
    v->shape.rank = (int)shape->n_dim;
    const char **names = ot_job_alloc(j, (size_t)OT_MAX_RANK * sizeof *names);
    for (int d = 0; d < v->shape.rank; d++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[d];
        bool known = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value > 0;
        v->shape.dim[d] = known ? dim->dim_value : -1;
        if (names && dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
            names[d] = dim->dim_param;
    }
    v->dim_names = names;
}

/* An initializer that is listed as input `info` too: one of the two is wrong where they differ.  (What value_info says of other values
 * is not read: shapes and types follow from the operators.) */
static void check_listed(ot_job *j, const ot_value *v, const Onnx__ValueInfoProto *info)
{
    char     is[256], says[256];
    int      list;
    ot_value said = { .shape = { .rank = -1 } };
    const Onnx__TypeProto__Tensor *t = ot_type_tensor(info->type, &list);
    if (!t || list) return;
    if (t->elem_type && t->elem_type != (int32_t)v->dtype)
        ot_fail_more(j->found, OT_E_MODEL, "initializer '%.200s' is %s; the graph input of that name says %s", v->name, ot_dtype_name(v->dtype),
                     ot_dtype_name((ot_dtype)t->elem_type));
    if (!t->shape || t->shape->n_dim > OT_MAX_RANK) return;
    read_dims(j, t->shape, &said);
    bool same = said.shape.rank == v->shape.rank;
    for (int d = 0; d < said.shape.rank && same; d++) same = said.shape.dim[d] < 0 || said.shape.dim[d] == v->shape.dim[d];
    if (!same)
        ot_fail_more(j->found, OT_E_MODEL, "initializer '%.200s' is %s; the graph input of that name says %s", v->name, ot_shape_text(&v->shape, is),
                     ot_shape_text(&said.shape, says));
}

static bool input_build(ot_job *j, ot_scope *s, const Onnx__ValueInfoProto *info)
{
    const char     *name = ot_text(info->name);
    const ot_value *held = ot_table_find(&s->values, name); /* an initializer: not fed */
    if (held && !s->up && held != (const ot_value *)OT_ABSENT) check_listed(j, held, info);
    if (held) return true;
    ot_value *v = ot_graph_value(s->graph, name, OT_INPUT, OT_UNDEFINED, NULL);
    if (!v) return false;
    /* What a subgraph is fed, its node says. */
    const Onnx__TypeProto__Tensor *t = s->up ? NULL : ot_type_tensor(info->type, &v->list);
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
    bool     told = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    ot_dtype t = told ? (ot_dtype)info->type->tensor_type->elem_type : OT_UNDEFINED;
    ot_graph_output(s->graph, v);
    if (v->dtype != OT_UNDEFINED && t != OT_UNDEFINED && v->dtype != t)
        ot_fail_more(j->found, OT_E_MODEL, "%soutput '%.200s' is %s; the file says %s", s->path, ot_text(info->name), ot_dtype_name(v->dtype),
                     ot_dtype_name(t));
    if (t != OT_UNDEFINED) v->declared = t;
}

bool ot_graph_build(ot_job *j, ot_scope *s, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_initializer; i++) {
        const char *name = ot_text(g->initializer[i]->name);
        ot_value *v = ot_tensor_value(j, s, g->initializer[i], name, OT_FROM_INITIALIZER);
        if (!v || !ot_scope_bind(j, s, name, v)) return false;
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *t = g->sparse_initializer[i];
        ot_value *v = ot_sparse_value(j, s, t, t->values ? ot_text(t->values->name) : "");
        if (!v || !ot_scope_bind(j, s, ot_text(t->values->name), v)) return false;
    }
    for (size_t i = 0; i < g->n_input; i++)
        if (!input_build(j, s, g->input[i])) return false;
    if (!ot_body_build(j, s, g->node, g->n_node)) return false;
    for (size_t i = 0; i < g->n_output; i++) {
        bool absent;
        const char *name = ot_text(g->output[i]->name);
        ot_value *v = ot_scope_find(s, name, &absent);
        if (v) output_declared(j, s, v, g->output[i]);
        else ot_fail_more(j->found, OT_E_MODEL, "%soutput '%.200s' is made by no node", s->path, name);
    }
    return true;
}

ot_graph *ot_subgraph_build(ot_job *j, ot_scope *up, const Onnx__GraphProto *g, const char *node, const char *branch)
{
    ot_scope s = { .up = up, .values = { .arena = j->f->arena }, .call = up->call, .prefix = up->prefix,
                   .opset = up->opset, .n_opset = up->n_opset };
    s.graph = ot_graph_sub(up->graph, branch);
    s.path = ot_arena_printf(j->f->arena, "%.700s%.300s/%.100s/", up->path, node, branch);
    if (!s.graph || !s.path || !ot_graph_build(j, &s, g)) return NULL;
    return s.graph;
}

/* ---- the model ----------------------------------------------------------------------------- */

/* A file without an opset says by its IR version which one it can mean: the newest of its time. */
static int64_t opset_of_ir(int64_t ir)
{
    static const int64_t newest[] = { 1, 1, 1, 8, 9, 10, 11, 14, 18, 20, 22, 23, 24, 25, NEWEST_OPSET };
    return ir < 0 ? 1 : ir < OT_LEN(newest) ? newest[ir] : NEWEST_OPSET;
}

static void read_header(ot_job *j)
{
    const Onnx__ModelProto *m = j->f->model;
    ot_imported *o = j->m;
    o->ir_version = m->has_ir_version ? m->ir_version : 0;
    o->producer = ot_text(m->producer_name);
    o->path = j->f->path;
    o->opset = 0;
    for (size_t i = 0; i < m->n_opset_import; i++)
        if (!*ot_domain(m->opset_import[i]->domain)) o->opset = m->opset_import[i]->version;
    if (!o->opset) {
        o->opset = opset_of_ir(o->ir_version);
        ot_note(j, "the file names no opset; %lld is assumed, from its IR version %lld", (long long)o->opset,
                (long long)o->ir_version);
    }
    if (o->opset > NEWEST_OPSET)
        ot_note(j, "opset %lld is newer than %d; operators are read as of %d", (long long)o->opset, NEWEST_OPSET,
                NEWEST_OPSET);
    if (o->ir_version > NEWEST_IR)
        ot_note(j, "IR version %lld is newer than %d; what it adds is not read", (long long)o->ir_version, NEWEST_IR);
    int listed = 0;
    ot_table inputs = { .arena = j->f->arena };
    for (size_t i = 0; i < m->graph->n_input; i++)
        if (!ot_table_set(&inputs, ot_text(m->graph->input[i]->name), m)) {
            ot_fail_more(j->found, OT_E_NOMEM, "no memory");
            return;
        }
    for (size_t i = 0; i < m->graph->n_initializer; i++)
        listed += ot_table_find(&inputs, ot_text(m->graph->initializer[i]->name)) != NULL;
    if (listed && o->ir_version >= 4)
        ot_note(j, "%d initializer%s listed as graph inputs too; they are not fed", listed, listed > 1 ? "s are" : " is");
}

/* Is there an output that needs none of the operators that are not supported? */
static void mark_unsupported(ot_graph *g)
{
    for (ot_node *n = g->first; n; n = n->next) {
        n->mark = n->op == &ot_op_Unsupported;
        for (const ot_attr *a = n->op->attrs; a && a->name; a++) {
            ot_graph *s = NULL;
            if (a->kind == OT_GRAPH) memcpy(&s, (const char *)n->attrs + a->offset, sizeof s);
            if (s) mark_unsupported(s);
        }
    }
}

static bool some_output_without(ot_graph *g)
{
    bool some = false;
    mark_unsupported(g);
    ot_graph_mark_behind(g);
    for (int i = 0; i < g->n_outputs; i++) some |= !g->outputs[i]->mark;
    ot_hints_clear(g);
    return some;
}

/* "3 operators are not supported: Crop (1 node, first 'crop'), …" */
static void report_unsupported(ot_job *j, ot_error *err)
{
    char   text[LISTED + 400] = "";
    size_t n = 0, total = j->unsupported.n, told = 0;
    for (const ot_unsupported *u = j->first_unsupported; u && n < LISTED; u = u->next, told++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.60s%s%.60s (%d node%s, first '%.100s')", told ? ", " : "",
                              u->domain, *u->domain ? "." : "", u->op, u->nodes, u->nodes > 1 ? "s" : "", u->first);
    if (!total) return;
    if (told < total) snprintf(text + n, sizeof text - n, ", and %zu more", total - told);
    if (j->found->status == OT_OK && some_output_without(j->graph)) {
        ot_note(j, "%zu operator%s not supported: %s; outputs that need %s are left out", total, total > 1 ? "s are" : " is", text,
                total > 1 ? "them" : "it");
        return;
    }
    ot_fail(err, OT_E_MODEL, "%s: %zu operator%s not supported: %s", j->f->path, total,
            total > 1 ? "s are" : " is", text);
}

static ot_status model_build(ot_job *j)
{
    const Onnx__ModelProto *m = j->f->model;
    ot_check_model(m, j->found);
    if (j->found->status != OT_OK) return j->found->status;
    read_header(j);
    j->graph = j->m->graph = ot_graph_new(&j->f->sticky);
    if (!j->graph) return ot_fail_more(j->found, OT_E_NOMEM, "no memory");
    j->graph->name = ot_text(m->graph->name);
    ot_scope s = { .graph = j->graph, .values = { .arena = j->f->arena }, .prefix = "", .path = "",
                   .opset = m->opset_import, .n_opset = m->n_opset_import };
    bool whole = ot_tensors_order(j) && ot_functions_index(j) && ot_graph_build(j, &s, m->graph) && ot_sources_name(j);
    if (whole) ot_signature_read(j, &s, m->graph);
    if (whole) ot_traced_notes(j);
    if (whole && m->n_training_info && j->found->status == OT_OK) whole = ot_training_build(j, &s);
    ot_file_missing(j->f, j->found);
    if (j->f->sticky.status != OT_OK) ot_fail_more(j->found, j->f->sticky.status, "%s", j->f->sticky.text);
    if (!whole && j->found->status == OT_OK) ot_fail_more(j->found, OT_E_NOMEM, "no memory");
    ot_hints_clear(j->graph);
    return j->found->status;
}

/* Where the file comes from. */
typedef struct from {
    const char       *path;
    const ot_unnamed *unnamed; /* or NULL */
    const ot_file    *again;   /* then with these bytes; or NULL */
    void             *bytes;
    size_t            n;
} from;

static ot_status open_from(const from *x, ot_file **out, ot_error *err)
{
    return x->again ? ot_file_again(x->again, x->bytes, x->n, out, err) : ot_file_open(x->path, x->unnamed, out, err);
}

static ot_status import(const from *x, ot_imported **out, ot_error *err)
{
    const char *path = x->path;
    ot_error own = { 0 };
    if (!err) err = &own; /* what it says is what is returned */
    *out = NULL;
    ot_imported *m = calloc(1, sizeof *m);
    ot_error    *found = calloc(1, sizeof *found);
    ot_file     *f = NULL;
    if (m && found) open_from(x, &f, err);
    else {
        free(x->bytes);
        ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    }
    if (f) {
        /* A node takes ten bytes and more: what the file itself says always fits. */
        ot_job j = { .m = m, .f = f, .found = found, .notes = "", .unsupported = { .arena = f->arena }, .traced = { .arena = f->arena },
                     .most_nodes = INLINED_NODES + (int64_t)f->n / 10 };
        m->file = f;
        ot_status s = model_build(&j);
        m->bytes = (int64_t)(f->n + f->budget.used + ot_arena_used(f->arena) +
                             (m->graph ? ot_arena_used(m->graph->arena) : 0));
        /* What is not supported comes first: a long list of findings must not hide it. */
        if (s != OT_E_NOMEM) report_unsupported(&j, err);
        m->notes = j.notes;
        if (s != OT_OK) ot_fail_more(err, s, "%s: %-s", path, found->text);
    }
    free(found);
    if (err->status == OT_OK) *out = m;
    else ot_import_free(m);
    return err->status;
}

ot_status ot_import(const char *path, ot_imported **out, ot_error *err) { return import(&(from){ .path = path }, out, err); }

ot_status ot_import_unnamed(const ot_unnamed *u, const char *path, ot_imported **out, ot_error *err)
{
    return import(&(from){ .path = path, .unnamed = u }, out, err);
}

ot_status ot_import_again(const ot_imported *m, void *bytes, size_t n, ot_imported **out, ot_error *err)
{
    return import(&(from){ .path = m->path, .again = m->file, .bytes = bytes, .n = n }, out, err);
}

const char *ot_import_rewritten(int i, const char **domain)
{
    int n = 0, ml = 0, ms = 0, preview = 0;
    while (ot_upgrade_at(n)) n++;
    while (ot_ml_at(ml)) ml++;
    while (ot_microsoft_at(ms)) ms++;
    while (ot_preview_training_at(preview)) preview++;
    *domain = i < n ? "" : i < n + ml ? "ai.onnx.ml" : i < n + ml + ms ? "com.microsoft" : "ai.onnx.preview.training";
    if (i < n) return ot_upgrade_at(i);
    if (i < n + ml) return ot_ml_at(i - n);
    if (i < n + ml + ms) return ot_microsoft_at(i - n - ml)->op;
    return i < n + ml + ms + preview ? ot_preview_training_at(i - n - ml - ms) : NULL;
}

void ot_import_free(ot_imported *m)
{
    if (!m) return;
    if (m->training) {
        ot_graph_free(m->training->graph);
        ot_graph_free(m->training->initialization);
    }
    ot_graph_free(m->graph);
    ot_file_free(m->file);
    free(m);
}
