/* attrs.c - attributes of a node -> the operator's struct, by the rows of its ot_op.
 *
 * An unknown attribute, one of another type, and an unknown value are findings: a guess would train a different
 * model than the file describes. */
#include <stdio.h>

#include "importer/build.h"

#define TYPE(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

/* In IR version 1, whose attributes have no type: by the field that is set. */
static int attribute_type(const ot_attribute *a)
{
    if (a->has_type && a->type != TYPE(UNDEFINED)) return a->type;
    if (a->has_f) return TYPE(FLOAT);
    if (a->has_i) return TYPE(INT);
    if (a->has_s) return TYPE(STRING);
    if (a->t) return TYPE(TENSOR);
    if (a->g) return TYPE(GRAPH);
    if (a->n_floats) return TYPE(FLOATS);
    if (a->n_ints) return TYPE(INTS);
    if (a->n_strings) return TYPE(STRINGS);
    return TYPE(UNDEFINED);
}

/* What a row wants, in ONNX's terms. */
static int wanted_type(ot_attr_kind k)
{
    switch (k) {
    case OT_INT: return TYPE(INT);
    case OT_FLOAT: return TYPE(FLOAT);
    case OT_ENUM:
    case OT_TEXT: return TYPE(STRING);
    case OT_INTS: return TYPE(INTS);
    case OT_FLOATS: return TYPE(FLOATS);
    case OT_TEXTS: return TYPE(STRINGS);
    case OT_TENSOR: return TYPE(TENSOR);
    case OT_GRAPH: return TYPE(GRAPH);
    }
    return TYPE(UNDEFINED);
}

static const char *type_name(int type)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&onnx__attribute_proto__attribute_type__descriptor, type);
    return v ? v->name : "of an unknown type";
}

/* A copy in the graph's arena, so that attributes live as long as the graph. */
static const void *keep(ot_form *f, const void *p, size_t n)
{
    void *q = ot_graph_alloc(f->scope->graph, n);
    if (q && n) memcpy(q, p, n);
    return q;
}

static const char *keep_text(ot_form *f, ProtobufCBinaryData s)
{
    char *p = ot_graph_alloc(f->scope->graph, s.len + 1);
    if (p && s.len) memcpy(p, s.data, s.len);
    return p;
}

static ot_status fill_enum(ot_form *f, const ot_attribute *a, const ot_attr *row, int64_t *out)
{
    for (int64_t i = 0; row->names[i]; i++)
        if (strlen(row->names[i]) == a->s.len && !memcmp(row->names[i], a->s.data, a->s.len)) {
            *out = i;
            return OT_OK;
        }
    return ot_form_finding(f, "%s has the unknown value '%.*s'", row->name, (int)(a->s.len < 60 ? a->s.len : 60),
                           a->s.len ? (const char *)a->s.data : "");
}

static ot_status fill_texts(ot_form *f, const ot_attribute *a, ot_strings *out)
{
    const char **v = ot_graph_alloc(f->scope->graph, (a->n_strings + 1) * sizeof *v);
    if (!v) return OT_E_NOMEM;
    for (size_t i = 0; i < a->n_strings; i++) {
        v[i] = keep_text(f, a->strings[i]);
        OT_TRY(ot_status_of(v[i]));
    }
    *out = (ot_strings){ (int)a->n_strings, v };
    return OT_OK;
}

static ot_status fill_tensor(ot_form *f, const ot_attribute *a, ot_blob *out)
{
    ot_job *j = f->job;
    const ot_external *e;
    char what[400];
    snprintf(what, sizeof what, "%.300s: %.60s", ot_form_who(f), a->name);
    OT_TRY(ot_tensor_decode(j->f, j->f->arena, a->t, what, out, &e, j->found));
    if (ot_tensor_index(j, a->t) < 0) return OT_OK; /* an upgrade made it */
    const char *name = f->n_out ? f->out_name[0] : f->name;
    out->source = ot_source_add(j, f->scope, a->t, out, e, name, OT_FROM_CONSTANT);
    return out->source >= 0 ? OT_OK : OT_E_NOMEM;
}

/* OT_E_NOMEM ends the import; another failure is a finding about this attribute. */
static ot_status fill(ot_form *f, const ot_attribute *a, const ot_attr *row, void *field)
{
    double d = a->f;
    ot_ints ints;
    ot_floats floats;
    ot_strings texts;
    ot_blob blob = { .source = -1 };
    int64_t word = 0;
    const void *p;
    ot_graph *body;
    ot_status s;
    switch (row->kind) {
    case OT_INT: memcpy(field, &a->i, sizeof a->i); return OT_OK;
    case OT_FLOAT: memcpy(field, &d, sizeof d); return OT_OK;
    case OT_ENUM:
        memcpy(&word, field, sizeof word);
        OT_TRY(fill_enum(f, a, row, &word));
        memcpy(field, &word, sizeof word);
        return OT_OK;
    case OT_TEXT:
        p = keep_text(f, a->s);
        memcpy(field, &p, sizeof p);
        return ot_status_of(p);
    case OT_INTS:
        ints = (ot_ints){ (int)a->n_ints, keep(f, a->ints, a->n_ints * sizeof *a->ints) };
        memcpy(field, &ints, sizeof ints);
        return ot_status_of(ints.v);
    case OT_FLOATS:
        floats = (ot_floats){ (int)a->n_floats, keep(f, a->floats, a->n_floats * sizeof *a->floats) };
        memcpy(field, &floats, sizeof floats);
        return ot_status_of(floats.v);
    case OT_TEXTS:
        OT_TRY(fill_texts(f, a, &texts));
        memcpy(field, &texts, sizeof texts);
        return OT_OK;
    case OT_TENSOR:
        s = fill_tensor(f, a, &blob);
        memcpy(field, &blob, sizeof blob);
        return s;
    case OT_GRAPH:
        OT_TRY(ot_subgraph_build(f->job, f->scope, a->g, f->name, a->name, &body));
        memcpy(field, &body, sizeof body);
        return OT_OK;
    }
    return OT_OK;
}

static bool has_value(const ot_attribute *a, int type)
{
    return type == TYPE(TENSOR) ? a->t != NULL : type == TYPE(GRAPH) ? a->g != NULL : true;
}

/* Those without which the operator means nothing. */
static void find_required(const ot_form *f, const ot_op *op)
{
    for (const ot_attr *row = op->attrs; row && row->name; row++)
        if (row->dflt == OT_REQUIRED && !ot_form_get(f, row->name))
            ot_fail_more(f->job->found, OT_E_MODEL, "%.300s: the required attribute '%s' is missing", ot_form_who(f),
                         row->name);
}

ot_status ot_attrs_fill(ot_form *f, const ot_op *op, void *attrs)
{
    find_required(f, op);
    for (int i = 0; i < f->n_attr; i++) {
        const ot_attribute *a = f->attr[i];
        const ot_attr *row = op->attrs;
        while (row && row->name && strcmp(row->name, ot_text(a->name))) row++;
        if (!row || !row->name) {
            ot_fail_more(f->job->found, OT_E_MODEL, "%.300s: unknown attribute '%.100s'", ot_form_who(f),
                         ot_text(a->name));
            continue;
        }
        int type = attribute_type(a), wanted = wanted_type(row->kind);
        bool list = wanted == TYPE(INTS) || wanted == TYPE(FLOATS) || wanted == TYPE(STRINGS);
        if (type == TYPE(UNDEFINED) && list) continue; /* an empty list of IR version 1 */
        if (type != wanted || !has_value(a, type)) {
            ot_fail_more(f->job->found, OT_E_MODEL, "%.300s: attribute '%s' is %s; expected %s", ot_form_who(f),
                         row->name, type == wanted ? "empty" : type_name(type), type_name(wanted));
            continue;
        }
        ot_status s = fill(f, a, row, (char *)attrs + row->offset);
        if (s == OT_E_NOMEM || (s != OT_OK && row->kind == OT_GRAPH)) return s;
    }
    return OT_OK;
}
