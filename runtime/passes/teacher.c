/* teacher.c - joins the graph of a teacher to that of a training (--teacher).
 *
 * The teacher is planned by itself, in evaluation mode and with every initializer a constant, up to where losses are added.  Its
 * nodes then read what the model's inputs read, and its outputs are learnt from (pass loss).  A plan for evaluation has none. */
#include <stdio.h>
#include <string.h>

#include "ops/op.h"
#include "runtime/passes/control.h"
#include "runtime/passes/passes.h"

static bool is_fed(const ot_graph *g, const ot_value *v)
{
    return v->role == OT_INPUT && !v->data && v != g->seed && v != g->counter;
}

/* Can feed f of the model be an input like v? */
static bool fits(const ot_feed *f, const ot_value *v)
{
    if (f->dtype != v->dtype) return false;
    if (v->shape.rank < 0) return true;
    bool same = f->shape.rank == v->shape.rank;
    for (int d = 0; d < v->shape.rank && same; d++)
        same = v->shape.dim[d] < 0 || v->shape.dim[d] == f->shape.dim[d] || (d == 0 && !f->whole);
    return same;
}

/* Axes of a sample with more than one element; planes of colours, (3, H, W), are one of them less. */
static int extent(const ot_shape *s)
{
    int n = 0;
    for (int d = 1; d < s->rank; d++) n += s->dim[d] != 1;
    return n - (s->rank == 4 && s->dim[1] == 3 && s->dim[3] != 3);
}

/* Has a sample of f the elements of v's in the same order, such as an image and the same image flat?  *s: f's shape as v's then.
 * The order of channels that are last is unknown. */
static bool fits_reshaped(const ot_feed *f, const ot_value *v, ot_shape *s)
{
    *s = v->shape;
    if (f->whole || f->dtype != v->dtype || s->rank < 2 || f->shape.rank < 2) return false;
    s->dim[0] = f->shape.dim[0];
    for (int d = 1; d < s->rank; d++)
        if (s->dim[d] < 0) return false;
    return ot_shape_fits(s, f->dtype) && ot_numel(s) == ot_numel(&f->shape) && extent(s) <= 2 && extent(&f->shape) <= 2;
}

/* The model's feed for input v of the teacher, and its shape there: by name, else the only one that fits; -1: none. */
static int find_feed(const ot_plan *p, const ot_config *c, const ot_value *v, ot_shape *shape)
{
    int found[2] = { -1, -1 }, n[2] = { 0, 0 }, named = -1;
    ot_shape s, reshaped;
    for (int k = 0; k < c->n_feeds; k++) {
        const ot_feed *f = &c->feeds[k];
        if (f->target || (!p->fed[k] && !f->data)) continue;
        if (!strcmp(f->name, v->name)) named = k;
        if (fits(f, v)) found[0] = k, n[0]++;
        else if (fits_reshaped(f, v, &s)) found[1] = k, n[1]++, reshaped = s;
    }
    int by = n[0] == 1 ? 0 : !n[0] && n[1] == 1, at = named >= 0 ? named : n[by] == 1 ? found[by] : -1;
    if (at < 0) return -1;
    *shape = c->feeds[at].shape;
    if (!fits(&c->feeds[at], v) && fits_reshaped(&c->feeds[at], v, &reshaped)) *shape = reshaped;
    return at;
}

static ot_status no_feed(const ot_plan *p, const ot_config *c, const ot_value *v)
{
    char shape[128], list[600] = "";
    size_t at = 0;
    for (int k = 0; k < c->n_feeds && at < sizeof list; k++)
        if (!c->feeds[k].target && p->fed[k])
            at += (size_t)snprintf(list + at, sizeof list - at, "%s'%.100s' %s%s", at ? ", " : "", c->feeds[k].name,
                                   ot_dtype_name(c->feeds[k].dtype), ot_shape_text(&c->feeds[k].shape, shape));
    return ot_fail(
        p->graph->err, OT_E_MODEL,
        "--teacher %s: its input '%s', %s%s, matches no input of the model by name, and not exactly one by shape: %s",
        c->options.teacher->path, v->name, ot_dtype_name(v->dtype), ot_shape_text(&v->shape, shape), list);
}

/* The teacher's own plan, fed as the model is: feed i is the model's map[i]. */
static ot_status plan_teacher(ot_plan *p, const ot_config *c, int *map)
{
    ot_graph *g = p->graph;
    const ot_teacher *t = c->options.teacher;
    ot_error e = { 0 };
    ot_config q = { .want = OT_WANT_RUN, .accumulate = 1, .threads = c->threads, .device = c->device };
    q.options.eval_mode = true;
    ot_feed *feeds = ot_graph_alloc(g, (size_t)(t->graph->n_inputs + 1) * sizeof *feeds);
    if (!feeds) return g->err->status;
    for (int i = 0; i < t->graph->n_inputs; i++) {
        const ot_value *v = t->graph->inputs[i];
        if (!is_fed(t->graph, v)) continue;
        ot_shape shape;
        int k = find_feed(p, c, v, &shape);
        if (k < 0) return no_feed(p, c, v);
        map[q.n_feeds] = k;
        feeds[q.n_feeds] = c->feeds[k];
        feeds[q.n_feeds].shape = shape;
        feeds[q.n_feeds].set = NULL; /* what the model's input has is ready */
        feeds[q.n_feeds++].name = v->name;
    }
    q.feeds = feeds;
    return ot_plan_inference(t->graph, &q, &p->teacher, &e)
               ? ot_fail(g->err, e.status, "--teacher %s: %-s", t->path, e.text)
               : OT_OK;
}

static ot_value *in_shape(ot_graph *g, ot_value *v, const ot_shape *s)
{
    ot_build b = { .graph = g };
    if (ot_shape_eq(&v->shape, s)) return v;
    return ot_emit(&b, &ot_op_Reshape, NULL, OT_IN(v, ot_ints_const(&b, s->dim, s->rank)));
}

/* What the teacher's inputs are in the model's graph; NULL: a constant that comes along. */
static ot_value **inputs_of(ot_plan *p, const int *map)
{
    ot_graph *g = p->graph, *from = p->teacher->graph;
    ot_value **in = ot_graph_alloc(g, (size_t)(from->n_inputs + 1) * sizeof *in);
    for (int i = 0; i < from->n_inputs && in; i++) {
        ot_value *v = from->inputs[i];
        if (v == from->seed) in[i] = ot_graph_seed(g);
        if (v == from->counter) in[i] = ot_graph_counter(g);
        if (!is_fed(from, v)) continue;
        for (int k = 0; map[k] >= 0; k++)
            if (p->teacher->fed[k] == v) in[i] = in_shape(g, p->fed[map[k]], &v->shape);
    }
    return in;
}

ot_status ot_pass_teacher(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    const ot_teacher *t = c->options.teacher;
    if (!t || (c->want != OT_WANT_TRAIN && c->want != OT_WANT_GRAD) || !g->first) return OT_OK;
    int *map = ot_graph_alloc(g, (size_t)(t->graph->n_inputs + 1) * sizeof *map);
    for (int i = 0; i <= t->graph->n_inputs && map; i++) map[i] = -1;
    if (!map) return g->err->status;
    OT_TRY(plan_teacher(p, c, map));
    ot_graph *from = p->teacher->graph;
    g->room->most += from->room->most;
    g->room->work += from->room->work;
    g->room->copies += from->room->copies;
    ot_node *at = g->first;
    g->cursor = at;
    ot_value **in = inputs_of(p, map);
    g->cursor = NULL;
    if (!in || g->err->status) return g->err->status;
    from->parent = g; /* whose arena the copy is in */
    ot_graph *copy = ot_graph_copy_sub(from, in);
    from->parent = NULL;
    if (!copy) return g->err->status ? g->err->status : ot_fail(g->err, OT_E_NOMEM, "no memory for the teacher");
    for (int i = 0; i < copy->n_values; i++) { /* none of them is of the model's file */
        ot_value *v = copy->values[i];
        v->source = -1;
        v->said = OT_SAID_NOTHING;
        v->why = NULL;
        v->stored = NULL;
    }
    p->n_taught = copy->n_outputs;
    p->taught = copy->outputs;
    p->taught_from = g->n_values;
    g->cursor = at;
    ot_status s = ot_splice(g, copy);
    g->cursor = NULL;
    p->taught_to = g->n_values;
    return s;
}
