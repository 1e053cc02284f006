/* constant.c - values for the data in a file: initializers and Constant nodes.
 *
 * A tensor inside a function or a subgraph is one tensor, however often the function is called or the loop body runs:
 * its value is made once, in the file's graph, where it is classified and trained, and all users read that value. */
#include <stdio.h>

#include "importer/build.h"

/* Keeps the walk going after a finding. */
static ot_value *placeholder(ot_graph *g, const char *name)
{
    return ot_graph_value(g, name, OT_TEMP, OT_UNDEFINED, NULL);
}

static ot_value *value_of(ot_graph *g, const char *name, const ot_blob *b)
{
    ot_value *v = ot_graph_value(g, name, OT_CONST, b->dtype, &b->shape);
    if (!v) return NULL;
    v->data = b->data;
    v->source = b->source;
    return v;
}

ot_value *ot_tensor_value(ot_job *j, ot_scope *s, const Onnx__TensorProto *t, const char *name, int kind)
{
    int at = ot_tensor_index(j, t);
    if (s->call && at >= 0 && j->order_value[at]) return j->order_value[at];
    const ot_external *e;
    ot_blob b;
    char what[512];
    snprintf(what, sizeof what, "%.250s%s '%.200s'", s->path, kind == OT_FROM_INITIALIZER ? "initializer" : "constant",
             name);
    const char *full = ot_scope_name(s, name);
    if (!full) return NULL;
    ot_value *v;
    if (ot_tensor_decode(j->f, j->f->arena, t, what, &b, &e, j->found) == OT_OK) {
        b.source = ot_source_add(j, s, t, &b, e, full, kind);
        v = b.source < 0 ? NULL : value_of(j->graph, full, &b);
        if (v) v->from_constant = kind == OT_FROM_CONSTANT;
        if (v) j->value_of[b.source] = v;
    } else {
        v = placeholder(j->graph, full);
    }
    if (s->call && at >= 0) j->order_value[at] = v;
    return v;
}

ot_value *ot_sparse_value(ot_job *j, ot_scope *s, const Onnx__SparseTensorProto *t, const char *name)
{
    ot_blob b;
    char what[512];
    snprintf(what, sizeof what, "%.250ssparse tensor '%.200s'", s->path, name);
    if (ot_tensor_densify(j->f, j->f->arena, t, what, &b, j->found) != OT_OK) return placeholder(s->graph, name);
    return value_of(s->graph, name, &b);
}

/* The floats of an attribute as a tensor of the file. */
static ot_value *list_value(ot_job *j, ot_scope *s, const ot_attribute *a, const float *data, const ot_shape *shape,
                            const char *name)
{
    int at = ot_tensor_index(j, a);
    ot_blob b = { .dtype = OT_F32, .shape = *shape, .data = data, .source = -1 };
    if (s->call && at >= 0 && j->order_value[at]) return j->order_value[at];
    if (!name) return NULL;
    if (at >= 0 && (b.source = ot_source_add(j, s, a, &b, NULL, name, OT_FROM_ATTRIBUTE)) < 0) return NULL;
    ot_value *v = value_of(at >= 0 ? j->graph : s->graph, name, &b);
    if (v && at >= 0) j->value_of[b.source] = v;
    if (s->call && at >= 0) j->order_value[at] = v;
    return v;
}

ot_value *ot_floats_value(ot_form *f, const ot_attribute *a, const ot_shape *shape)
{
    return list_value(f->job, f->scope, a, a->floats, shape,
                      ot_arena_printf(f->job->f->arena, "%s/%s", f->name, ot_text(a->name)));
}

static ot_value *floats(ot_job *j, ot_scope *s, const ot_attribute *a, bool list, const char *name)
{
    ot_shape shape = { .rank = list, .dim = { list ? (int64_t)a->n_floats : 0 } };
    ot_value *v = list_value(j, s, a, list ? a->floats : &a->f, &shape, ot_scope_name(s, name));
    if (v) v->from_constant = true;
    return v;
}

static ot_value *number(ot_scope *s, const char *name, ot_dtype t, size_t n, bool list, const void *p)
{
    ot_shape shape = { .rank = list, .dim = { list ? (int64_t)n : 0 } };
    return ot_graph_const(s->graph, name, t, &shape, p);
}

static ot_value *strings(ot_job *j, ot_scope *s, const char *name, const ProtobufCBinaryData *p, size_t n, bool list)
{
    ot_blob b = { .dtype = OT_STRING, .shape = { .rank = list, .dim = { list ? (int64_t)n : 0 } }, .source = -1 };
    const char **v = ot_job_alloc(j, (n + 1) * sizeof *v);
    for (size_t i = 0; v && i < n; i++) {
        char *c = ot_job_alloc(j, p[i].len + 1);
        if (!c) return NULL;
        if (p[i].len) memcpy(c, p[i].data, p[i].len);
        v[i] = c;
    }
    b.data = v;
    return v ? value_of(s->graph, name, &b) : NULL;
}

static ot_value *from_attribute(ot_job *j, ot_scope *s, const ot_attribute *a, const char *name)
{
    const char *k = ot_text(a->name);
    if (!strcmp(k, "value") && a->t) return ot_tensor_value(j, s, a->t, name, OT_FROM_CONSTANT);
    if (!strcmp(k, "sparse_value") && a->sparse_tensor) return ot_sparse_value(j, s, a->sparse_tensor, name);
    if (!strcmp(k, "value_float")) return floats(j, s, a, false, name);
    if (!strcmp(k, "value_floats")) return floats(j, s, a, true, name);
    if (!strcmp(k, "value_int")) return number(s, name, OT_I64, 1, false, &a->i);
    if (!strcmp(k, "value_ints")) return number(s, name, OT_I64, a->n_ints, true, a->ints);
    if (!strcmp(k, "value_string")) return strings(j, s, name, &a->s, 1, false);
    if (!strcmp(k, "value_strings")) return strings(j, s, name, a->strings, a->n_strings, true);
    ot_fail_more(j->found, OT_E_MODEL, "constant '%.200s': attribute '%.60s' has no supported value", name, k);
    return placeholder(s->graph, name);
}

ot_status ot_constant_build(ot_job *j, ot_scope *s, const Onnx__NodeProto *n)
{
    const ot_attribute **attr;
    int n_attr;
    if (!n->n_output || !*n->output[0]) return OT_OK;
    OT_TRY(ot_attributes_resolve(j, s, n, &attr, &n_attr));
    if (n->n_input)
        ot_fail_more(j->found, OT_E_MODEL, "constant '%.200s': has %zu inputs, expected none", n->output[0],
                     n->n_input);
    if (n_attr != 1)
        ot_fail_more(j->found, OT_E_MODEL, "constant '%.200s': has %d values, expected one", n->output[0], n_attr);
    ot_value *v = n_attr == 1 ? from_attribute(j, s, attr[0], n->output[0]) : placeholder(s->graph, n->output[0]);
    OT_TRY(ot_status_of(v));
    return ot_scope_bind(j, s, n->output[0], v);
}
