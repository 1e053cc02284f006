/* emit.c - a form in the newest opset -> a node of the graph.
 *
 * While the graph is built, value->mark holds a guess of each value's element type: upgrades that turn an attribute
 * into an input need the type of the constant they make. */
#include "importer/build.h"

/* ---- element types ------------------------------------------------------------------ */

ot_dtype ot_hint(const ot_value *v)
{
    if (!v) return OT_F32;
    if (v->dtype != OT_UNDEFINED) return v->dtype;
    return v->mark ? (ot_dtype)v->mark : OT_F32;
}

void ot_hints_clear(ot_graph *g)
{
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
}

/* Which input has the type of the outputs where the operator does not say: the first whose letter is T, else the first. */
static int typed_like(const ot_op *op)
{
    const char *letters = op->types.in ? op->types.in : "", *t = strchr(letters, 'T');
    return t ? (int)(t - letters) : 0;
}

static ot_dtype output_type(const ot_form *f, const ot_op *op)
{
    int like = typed_like(op);
    if (!op->gives) return ot_hint(f->n_in > like ? f->in[like] : NULL);
    if (*op->gives != '=') return *op->gives == 'b' ? OT_BOOL : OT_I64;
    for (int i = 0; i < f->n_attr; i++)
        if (!strcmp(f->attr[i]->name, op->gives + 1))
            return (ot_dtype)(f->attr[i]->t ? f->attr[i]->t->data_type : (int32_t)f->attr[i]->i);
    return OT_F32;
}

/* ---- what is not supported --------------------------------------------------------------- */

static ot_status count_unsupported(ot_form *f)
{
    ot_job *j = f->job;
    const char *key = ot_arena_printf(j->f->arena, "%s\1%s", f->domain, f->op);
    if (!key) return OT_E_NOMEM;
    ot_unsupported *u = ot_table_find(&j->unsupported, key);
    if (!u) {
        if (!(u = ot_job_alloc(j, sizeof *u)) || !ot_table_set(&j->unsupported, key, u)) return OT_E_NOMEM;
        *u = (ot_unsupported){ f->op, f->domain, f->name, 0, NULL };
        if (j->last_unsupported) j->last_unsupported->next = u;
        else j->first_unsupported = u;
        j->last_unsupported = u;
    }
    u->nodes++;
    return OT_OK;
}

/* A node in its place; outputs of the file that depend on it are not available. */
static ot_status stand_in(ot_form *f)
{
    const ot_op *op = &ot_op_Unsupported;
    char *attrs = ot_job_alloc(f->job, op->attr_size);
    for (const ot_attr *row = op->attrs; attrs && row->name; row++) {
        const char *text = ot_arena_strdup(f->scope->graph->arena, strcmp(row->name, "op") ? f->domain : f->op);
        if (!text) return OT_E_NOMEM;
        memcpy(attrs + row->offset, &text, sizeof text);
    }
    ot_node *n = attrs ? ot_graph_node(f->scope->graph, op, f->name, attrs, f->in, f->n_in, f->n_out) : NULL;
    for (int i = 0; n && i < n->n_out; i++) f->out[i] = n->out[i];
    return ot_status_of(n);
}

/* Its subgraphs may contain unsupported operators too, and all are reported at once. */
static ot_status unsupported(ot_form *f)
{
    ot_graph *unused;
    for (int i = 0; i < f->n_attr; i++)
        if (f->attr[i]->g)
            OT_TRY(ot_subgraph_build(f->job, f->scope, f->attr[i]->g, f->name, f->attr[i]->name, &unused));
    OT_TRY(count_unsupported(f));
    return stand_in(f);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static ot_status check_arity(const ot_form *f, const ot_op *op)
{
    if (f->n_in > op->in.max) return ot_form_finding(f, "%d inputs; at most %d are allowed", f->n_in, op->in.max);
    if (f->n_out > op->out.max) return ot_form_finding(f, "%d outputs; at most %d are allowed", f->n_out, op->out.max);
    for (int i = 0; i < op->in.min; i++)
        if (i >= f->n_in || !f->in[i]) return ot_form_finding(f, "required input %d is missing", i);
    return OT_OK;
}

ot_status ot_form_emit(ot_form *f)
{
    const ot_op *op = ot_find_op(f->domain, f->op);
    if (!op) return unsupported(f);
    OT_TRY(check_arity(f, op));
    void *attrs = ot_job_alloc(f->job, op->attr_size);
    if (!attrs) return OT_E_NOMEM;
    ot_attr_defaults(op, attrs);
    OT_TRY(ot_attrs_fill(f, op, attrs));
    int n_out = f->n_out > op->out.min ? f->n_out : op->out.min;
    ot_node *n = ot_graph_node(f->scope->graph, op, f->name, attrs, f->in, f->n_in, n_out);
    if (!n) return OT_E_NOMEM;
    for (int i = 0; i < n->n_out; i++) {
        if (i < f->n_out && *f->out_name[i]) {
            f->out[i] = n->out[i];
            n->out[i]->mark = output_type(f, op);
        } else if (i > 0) { /* not used; output 0 is always there */
            n->out[i]->producer = NULL;
            n->out[i] = NULL;
        }
    }
    return OT_OK;
}
