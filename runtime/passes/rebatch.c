/* rebatch.c - input shapes as the data has them; a batch size baked into the file follows.
 *
 * Exporters write the batch of the example they traced into inputs and into the constants of Reshape
 * and Expand.  The graph is inferred twice in step: once as the file declares it, once as the data
 * wants it.  A dimension that differs by the ratio of the two batch sizes is where the batch lies; a
 * Reshape whose constant does not follow gets a constant that does; an operand of Concat that was
 * made for the old batch is expanded. */
#include <string.h>

#include "ops/op.h"
#include "runtime/passes/passes.h"

/* ---- binding inputs -------------------------------------------------------- */

/* Which feed is input v's; -1: none. */
static int feed_of(const ot_plan *p, const ot_config *c, const ot_value *v)
{
    for (int i = 0; i < c->n_feeds; i++)
        if (p->fed[i] == v) return i;
    return -1;
}

static bool used(const ot_graph *g, const ot_value *v)
{
    for (const ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] == v) return true;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == v) return true;
    return false;
}

/* Axis 0 may differ from what the file says (a baked batch); any other difference is an error. */
static ot_status bind_input(ot_graph *g, ot_value *v, const ot_feed *f, int64_t *from, int64_t *to)
{
    char            a[128], b[128];
    const ot_shape *s = &f->shape;
    if (f->dtype != v->dtype)
        return ot_fail(g->err, OT_E_DATA, "input '%s' is %s, the data has %s", v->name, ot_dtype_name(v->dtype), ot_dtype_name(f->dtype));
    if (v->shape.rank >= 0) {
        bool fits = s->rank == v->shape.rank;
        for (int d = 0; d < s->rank && fits; d++)
            fits = v->shape.dim[d] < 0 || v->shape.dim[d] == s->dim[d] || (d == 0 && !f->whole);
        if (!fits)
            return ot_fail(g->err, OT_E_DATA, "input '%s' is %s, the data has %s", v->name, ot_shape_text(&v->shape, a), ot_shape_text(s, b));
        if (s->rank && v->shape.dim[0] > 0 && v->shape.dim[0] != s->dim[0]) {
            *from = v->shape.dim[0];
            *to = s->dim[0];
        }
    }
    v->shape = *s;
    return OT_OK;
}

/* What is known before the run is a constant, for the bodies of If and Loop too: the value itself changes. */
static ot_status bind_bytes(ot_plan *p, ot_value *v, const ot_config *c, int feed)
{
    const ot_value *known = ot_graph_const(p->graph, v->name, v->dtype, &v->shape, c->feeds[feed].data);
    if (!known) return p->graph->err->status;
    v->role = OT_CONST;
    v->data = known->data;
    p->fed[feed] = NULL;
    return OT_OK;
}

/* ---- following ------------------------------------------------------------- */

typedef struct ratio { int64_t from, to; } ratio;

/* The axis where `now` is `old` with the batch exchanged; -1: none. */
static int batch_axis(const ot_shape *old, const ot_shape *now, ratio r)
{
    if (old->rank != now->rank) return -1;
    for (int d = 0; d < old->rank; d++)
        if (old->dim[d] != now->dim[d] && old->dim[d] % r.from == 0 && old->dim[d] / r.from * r.to == now->dim[d]) return d;
    return -1;
}

/* Where the batch of axis k of x lands when x is reshaped to s: the axis with as many elements
 * before it. */
static int landing_axis(const ot_shape *x, int k, const ot_shape *s, ratio r)
{
    int64_t before = 1, at = 1;
    for (int d = 0; d < k; d++) before *= x->dim[d];
    for (int d = 0; d < s->rank; d++) {
        if (at == before && s->dim[d] % r.from == 0) return d;
        at *= s->dim[d];
    }
    return -1;
}

/* Reshape and Expand with a constant: the old result with the batch exchanged. */
static ot_status follow_shape(ot_graph *g, ot_node *n, const ot_node *old, ratio r, int *changed)
{
    const ot_value *x0 = old->in[0], *y0 = old->out[0];
    int             k = batch_axis(&x0->shape, &n->in[0]->shape, r);
    if (k < 0 || n->n_in < 2 || !ot_is_const(n->in[1])) return OT_OK;
    int j = !strcmp(n->op->name, "Reshape") ? landing_axis(&x0->shape, k, &y0->shape, r)
                                            : k + y0->shape.rank - x0->shape.rank;
    if (j < 0) return OT_OK;
    int64_t dims[OT_MAX_RANK];
    for (int d = 0; d < y0->shape.rank; d++) dims[d] = y0->shape.dim[d];
    dims[j] = dims[j] / r.from * r.to;
    n->in[1] = ot_graph_const(g, n->in[1]->name, OT_I64, &(ot_shape){ .rank = 1, .dim = { y0->shape.rank } }, dims);
    *changed += 1;
    return g->err->status;
}

/* An operand of Concat made for the old batch beside one that follows. */
static ot_status follow_concat(ot_graph *g, ot_node *n, const ot_node *old, ratio r, int *changed)
{
    int k = -1;
    for (int i = 0; i < n->n_in && k < 0; i++) k = batch_axis(&old->in[i]->shape, &n->in[i]->shape, r);
    for (int i = 0; i < n->n_in && k >= 0; i++) {
        ot_value *x = n->in[i];
        if (x->shape.dim[k] != old->in[i]->shape.dim[k] || x->shape.dim[k] != 1 || r.from != 1) continue;
        int64_t dims[OT_MAX_RANK];
        for (int d = 0; d < x->shape.rank; d++) dims[d] = d == k ? r.to : x->shape.dim[d];
        ot_value *s = ot_graph_const(g, "", OT_I64, &(ot_shape){ .rank = 1, .dim = { x->shape.rank } }, dims);
        g->cursor = n;
        ot_node *e = ot_graph_node(g, ot_find_op("", "Expand"), n->name, NULL, OT_IN(x, s), 1);
        g->cursor = NULL;
        if (!e) return g->err->status;
        n->in[i] = e->out[0];
        OT_TRY(ot_infer_node(g, e));
        *changed += 1;
    }
    return g->err->status;
}

static ot_status follow(ot_graph *g, ot_graph *old, ratio r, int *changed)
{
    ot_node *o = old->first;
    for (ot_node *n = g->first; n; n = n->next, o = o->next) {
        OT_TRY(ot_spell_out(g, &n));
        if (!strcmp(n->op->name, "Reshape") || !strcmp(n->op->name, "Expand")) OT_TRY(follow_shape(g, n, o, r, changed));
        if (!strcmp(n->op->name, "Concat")) OT_TRY(follow_concat(g, n, o, r, changed));
        OT_TRY(ot_infer_node(g, n));
    }
    return OT_OK;
}

/* The file's own shapes, all through; what it leaves open is as the data has it. */
static ot_graph *as_declared(const ot_plan *p, const ot_config *c, ot_error *err)
{
    const ot_graph *g = p->graph;
    ot_graph *old = ot_graph_clone(g, err);
    for (int i = 0; old && i < old->n_inputs; i++) {
        ot_value      *v = old->inputs[i];
        int            k = feed_of(p, c, g->inputs[i]);
        const ot_feed *f = k < 0 ? NULL : &c->feeds[k];
        if (!f) continue;
        if (v->shape.rank < 0) v->shape = f->shape;
        for (int d = 0; d < v->shape.rank; d++)
            if (v->shape.dim[d] < 0) v->shape.dim[d] = f->shape.dim[d];
    }
    for (ot_node *n = old ? old->first : NULL; n && err->status == OT_OK; n = n->next)
        if (ot_spell_out(old, &n) == OT_OK) ot_infer_node(old, n);
    return old;
}

ot_status ot_pass_rebatch(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    ratio     r = { 0, 0 };
    ot_error  ignored = { 0 };
    ot_graph *old = as_declared(p, c, &ignored);
    ot_status s = OT_OK;
    int       changed = 0;
    for (int i = 0; i < g->n_inputs && s == OT_OK; i++) {
        int            k = feed_of(p, c, g->inputs[i]);
        const ot_feed *f = k < 0 ? NULL : &c->feeds[k];
        if (f) s = bind_input(g, g->inputs[i], f, &r.from, &r.to);
        if (f && f->data && s == OT_OK) s = bind_bytes(p, g->inputs[i], c, k);
        if (!f && g->inputs[i] != g->seed && g->inputs[i] != g->counter && used(g, g->inputs[i]))
            s = ot_fail(g->err, OT_E_DATA, "the data has nothing for input '%s'", g->inputs[i]->name);
    }
    /* A file that does not infer at its own sizes is reported where it fails at ours. */
    if (s == OT_OK && r.from && old && ignored.status == OT_OK) {
        s = follow(g, old, r, &changed);
        if (s == OT_OK && c->want != OT_WANT_RUN)
            ot_plan_note(p, "the model has a fixed batch size of %lld; batches of %lld are computed here (%d shape constant%s adapted)%s", (long long)r.from,
                         (long long)r.to, changed, changed == 1 ? "" : "s", c->want == OT_WANT_TRAIN ? ", and the written file keeps its own" : "");
    }
    ot_graph_free(old);
    return s;
}
