/* form.c - reads and changes a node before it is emitted; the functions that the rows of upgrade.c use. */
#include <stdio.h>

#include "importer/build.h"

#define TYPE(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

enum { NEWEST = 1 << 20 }; /* above every row of the table */

const char *ot_form_who(const ot_form *f)
{
    const char *s =
        strcmp(f->name, f->op) != 0 ? ot_arena_printf(f->job->f->arena, "%.200s: %.60s", f->name, f->op) : NULL;
    return s ? s : f->op;
}

ot_status ot_form_finding(const ot_form *f, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    ot_vtext(text, sizeof text, fmt, ap);
    va_end(ap);
    ot_fail_more(f->job->found, OT_E_MODEL, "%.300s: %s", ot_form_who(f), text);
    return OT_E_MODEL;
}

/* ---- attributes -------------------------------------------------------------------- */

static int place_of(const ot_form *f, const char *name)
{
    int i = 0;
    while (i < f->n_attr && strcmp(ot_text(f->attr[i]->name), name)) i++;
    return i;
}

const ot_attribute *ot_form_get(const ot_form *f, const char *name)
{
    int i = place_of(f, name);
    return i < f->n_attr ? f->attr[i] : NULL;
}

int64_t ot_form_int(const ot_form *f, const char *name, int64_t dflt)
{
    const ot_attribute *a = ot_form_get(f, name);
    return a && a->has_i ? a->i : dflt;
}

double ot_form_float(const ot_form *f, const char *name, double dflt)
{
    const ot_attribute *a = ot_form_get(f, name);
    return a && a->has_f ? (double)a->f : dflt;
}

bool ot_form_says(const ot_form *f, const char *name, const char *text)
{
    const ot_attribute *a = ot_form_get(f, name);
    return a && a->s.len == strlen(text) && !memcmp(a->s.data, text, a->s.len);
}

void ot_form_drop(ot_form *f, const char *name)
{
    int i = place_of(f, name);
    if (i == f->n_attr) return;
    memmove(f->attr + i, f->attr + i + 1, (size_t)(f->n_attr - i - 1) * sizeof *f->attr);
    f->n_attr--;
}

/* A fresh attribute in place of any of that name. */
static ot_attribute *add(ot_form *f, const char *name, int type)
{
    ot_attribute *a = ot_job_alloc(f->job, sizeof *a);
    if (!a) return NULL;
    *a = (ot_attribute)ONNX__ATTRIBUTE_PROTO__INIT;
    a->name = ot_arena_strdup(f->job->f->arena, name);
    a->has_type = true;
    a->type = (Onnx__AttributeProto__AttributeType)type;
    ot_form_drop(f, name);
    if (f->n_attr == f->cap_attr) {
        const ot_attribute **wider = ot_job_alloc(f->job, (size_t)(f->n_attr + 8) * sizeof *wider);
        if (!wider) return NULL;
        if (f->n_attr) memcpy(wider, f->attr, (size_t)f->n_attr * sizeof *wider);
        f->attr = wider;
        f->cap_attr = f->n_attr + 8;
    }
    f->attr[f->n_attr++] = a;
    return a->name ? a : NULL;
}

ot_status ot_form_set_int(ot_form *f, const char *name, int64_t v)
{
    ot_attribute *a = add(f, name, TYPE(INT));
    if (!a) return OT_E_NOMEM;
    a->has_i = true;
    a->i = v;
    return OT_OK;
}

ot_status ot_form_set_float(ot_form *f, const char *name, float v)
{
    ot_attribute *a = add(f, name, TYPE(FLOAT));
    if (!a) return OT_E_NOMEM;
    a->has_f = true;
    a->f = v;
    return OT_OK;
}

ot_status ot_form_set_text(ot_form *f, const char *name, const char *text)
{
    ot_attribute *a = add(f, name, TYPE(STRING));
    if (!a) return OT_E_NOMEM;
    a->has_s = true;
    a->s.len = strlen(text);
    a->s.data = (uint8_t *)ot_arena_strdup(f->job->f->arena, text);
    return ot_status_of(a->s.data);
}

ot_status ot_form_set_ints(ot_form *f, const char *name, const int64_t *v, size_t n)
{
    ot_attribute *a = add(f, name, TYPE(INTS));
    if (!a || !(a->ints = ot_job_alloc(f->job, n * sizeof *v))) return OT_E_NOMEM;
    if (n) memcpy(a->ints, v, n * sizeof *v);
    a->n_ints = n;
    return OT_OK;
}

/* ---- inputs -------------------------------------------------------------------------- */

ot_status ot_form_require(const ot_form *f, unsigned inputs)
{
    for (int i = 0; i < 32; i++)
        if (inputs >> i & 1 && (i >= f->n_in || !f->in[i])) return ot_form_finding(f, "input %d is missing", i);
    return OT_OK;
}

ot_status ot_form_set_input(ot_form *f, int i, ot_value *v)
{
    if (!v) return OT_E_NOMEM;
    if (i >= f->cap_in) {
        ot_value **wider = ot_job_alloc(f->job, (size_t)(i + 8) * sizeof *wider);
        if (!wider) return OT_E_NOMEM;
        if (f->n_in) memcpy(wider, f->in, (size_t)f->n_in * sizeof *wider);
        f->in = wider;
        f->cap_in = i + 8;
    }
    while (f->n_in <= i) f->in[f->n_in++] = NULL;
    f->in[i] = v;
    return OT_OK;
}

ot_value *ot_form_const(ot_form *f, ot_dtype t, int rank, int64_t n, const double *v)
{
    ot_shape s = { .rank = rank, .dim = { n } };
    unsigned char *p = ot_job_alloc(f->job, ot_bytes(&s, t) + 1);
    const char *name = ot_arena_printf(f->job->f->arena, "%s/constant", f->name);
    if (!p || !name) return NULL;
    for (int64_t i = 0; i < n; i++) ot_set_f64(p, t, i, v[i]);
    return ot_graph_const(f->scope->graph, name, t, &s, p);
}

ot_value *ot_form_ints(ot_form *f, const int64_t *v, size_t n)
{
    ot_shape s = { .rank = 1, .dim = { (int64_t)n } };
    const char *name = ot_arena_printf(f->job->f->arena, "%s/constant", f->name);
    return name ? ot_graph_const(f->scope->graph, name, OT_I64, &s, v) : NULL;
}

/* ---- nodes around it --------------------------------------------------------------------- */

ot_status ot_form_begin(ot_form *f, ot_form *g, const char *op, ot_value *const *in, int n_in, int n_out)
{
    ot_value **copy = ot_job_alloc(f->job, (size_t)(n_in + 1) * sizeof *copy);
    const char **name = ot_job_alloc(f->job, (size_t)n_out * sizeof *name);
    *g = (ot_form){ .job = f->job,
                    .scope = f->scope,
                    .op = op,
                    .domain = "",
                    .version = NEWEST,
                    .n_in = n_in,
                    .cap_in = n_in,
                    .n_out = n_out,
                    .n_listed = n_out,
                    .in = copy,
                    .out_name = name };
    g->name = ot_arena_printf(f->job->f->arena, "%s/%s", f->name, op);
    g->out = ot_job_alloc(f->job, (size_t)n_out * sizeof *g->out);
    if (!copy || !name || !g->name || !g->out) return OT_E_NOMEM;
    for (int i = 0; i < n_in; i++) copy[i] = in[i];
    for (int i = 0; i < n_out; i++) name[i] = g->name;
    return OT_OK;
}

ot_status ot_form_copy(ot_form *g, const ot_attribute *a)
{
    ot_attribute *own = add(g, ot_text(a->name), a->type);
    char *name = own ? own->name : NULL;
    if (!own) return OT_E_NOMEM;
    *own = *a;
    own->name = name;
    return OT_OK;
}

/* After a finding about the emitted node, placeholders are its outputs. */
ot_value *ot_form_finish(ot_form *g)
{
    while (g->n_in && !g->in[g->n_in - 1]) g->n_in--;
    if (ot_form_emit(g) == OT_E_NOMEM) return NULL;
    for (int i = 0; i < g->n_out; i++)
        if (!g->out[i]) g->out[i] = ot_graph_value(g->scope->graph, g->name, OT_TEMP, OT_UNDEFINED, NULL);
    return g->out[0];
}

ot_value *ot_form_before(ot_form *f, const char *op, ot_value *const *in, int n_in)
{
    ot_form g;
    return ot_form_begin(f, &g, op, in, n_in, 1) == OT_OK ? ot_form_finish(&g) : NULL;
}

ot_value *ot_form_before_int(ot_form *f, const char *op, ot_value *const *in, int n_in, const char *attr, int64_t v)
{
    ot_form g;
    if (ot_form_begin(f, &g, op, in, n_in, 1) || ot_form_set_int(&g, attr, v)) return NULL;
    return ot_form_finish(&g);
}

ot_value *ot_form_before_like(ot_form *f, const char *op, ot_value *const *in, int n_in)
{
    ot_form g;
    if (ot_form_begin(f, &g, op, in, n_in, 1)) return NULL;
    g.attr = f->attr;
    g.n_attr = f->n_attr;
    return ot_form_finish(&g);
}
