/* nodes.c - assigns the kernels of a plan to nodes of the ONNX file. */
#include "ops/kernels/fused.h"
#include "runtime/train/run/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"

const char *const ot_stage_names[OT_STAGES] = { "forward", "backward", "update" };

const ot_step *ot_plan_step(const ot_plan *p, int i)
{
    return i < p->n_batch_steps ? &p->batch_steps[i] : &p->update_steps[i - p->n_batch_steps];
}

double ot_node_sum(const double stage[OT_STAGES]) { return stage[0] + stage[1] + stage[2]; }

/* ---- names --------------------------------------------------------------------------- */

typedef struct entry {
    const char *name; /* NULL: free */
    const char *op;
    int row; /* -1: none yet */
} entry;

typedef struct names {
    const ot_plan *p;
    ot_arena *a;
    ot_node_table *t;
    entry *at;
    size_t mask;
    const ot_node **reader; /* by source: the first node of the file that reads it */
    int n_sources;
    const ot_value **weight; /* by value id: the only weight that the value serves to update */
    bool *several;           /* by value id: there are more of them */
} names;

static entry *find(names *x, const char *name)
{
    size_t h = 5381;
    for (const char *c = name; *c; c++) h = h * 33 + (unsigned char)*c;
    while (x->at[h & x->mask].name && strcmp(x->at[h & x->mask].name, name)) h++;
    return &x->at[h & x->mask];
}

static int count_nodes(const ot_graph *g)
{
    int n = g->n_nodes;
    for (const ot_node *k = g->first; k; k = k->next)
        for (int i = 0; ot_subgraph(k, i); i++) n += count_nodes(ot_subgraph(k, i));
    return n;
}

static int count_sources(const ot_graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i]->source >= n) n = g->values[i]->source + 1;
    return n;
}

/* Nodes of the file and its subgraphs, by name; and the nodes that read its tensors. */
static void enter(names *x, const ot_graph *g)
{
    for (const ot_node *k = g->first; k; k = k->next) {
        entry *e = find(x, k->name);
        if (!e->name) *e = (entry){ k->name, k->op->name, -1 };
        for (int i = 0; i < k->n_in; i++) {
            int s = k->in[i] ? k->in[i]->source : -1;
            if (s >= 0 && s < x->n_sources && !x->reader[s]) x->reader[s] = k;
        }
        for (int i = 0; ot_subgraph(k, i); i++) enter(x, ot_subgraph(k, i));
    }
}

/* ---- updates --------------------------------------------------------------------------- */

static void serve(names *x, const ot_value *v, const ot_value *w, bool several)
{
    if (several || (x->weight[v->id] && x->weight[v->id] != w)) x->several[v->id] = true;
    else x->weight[v->id] = w;
}

/* Finds the weight that each kernel of the update works for, from the assigned values backwards. */
static void find_weights(names *x)
{
    const ot_plan *p = x->p;
    for (int i = 0; i < p->graph->n_assigns; i++) {
        const ot_assign *a = &p->graph->assigns[i];
        const ot_value *w = a->state->of ? a->state->of : a->state;
        serve(x, a->value, w, w->role != OT_WEIGHT);
    }
    for (int i = x->t->n_steps - 1; i >= 0; i--) {
        const ot_node *n = ot_plan_step(p, i)->node;
        if (n->stage != OT_STAGE_UPDATE) continue;
        for (int o = 0; o < n->n_out; o++)
            for (int k = 0; k < n->n_in && n->out[o]; k++) {
                const ot_value *w = x->weight[n->out[o]->id];
                bool several = x->several[n->out[o]->id];
                if (n->in[k] && n->in[k]->producer && (w || several)) serve(x, n->in[k], w, several);
            }
    }
}

static const ot_node *reader_of(const names *x, const ot_value *w)
{
    return w && w->source >= 0 && w->source < x->n_sources ? x->reader[w->source] : NULL;
}

static const char *update_name(const names *x, const ot_node *n)
{
    for (int o = 0; o < n->n_out; o++) {
        const ot_node *r = n->out[o] && !x->several[n->out[o]->id] ? reader_of(x, x->weight[n->out[o]->id]) : NULL;
        if (r) return r->name;
    }
    return "(optimizer)";
}

/* ---- rows -------------------------------------------------------------------------------- */

/* The name of the row that a kernel belongs to; NULL: no memory. */
static const char *row_name(names *x, const ot_node *n)
{
    if (n->made && !strcmp(n->made, "optimizer")) return update_name(x, n);
    if (n->made && (!strcmp(n->made, "loss") || !strcmp(n->made, "autodiff"))) return "(loss)";
    if (n->made && !strcmp(n->made, "batch_input")) return "(data)";
    if (n->made) return ot_arena_printf(x->a, "(%s)", n->made);
    if (find(x, n->name)->name) return n->name;
    const ot_node *r = n->n_in && n->in[0] ? reader_of(x, n->in[0]) : NULL;
    return r ? r->name : n->op == &ot_op_Copy ? "(layout)" : n->name; /* a conversion of a weight; of another value */
}

static int row_of(names *x, const ot_node *n)
{
    const char *name = row_name(x, n);
    entry *e = name ? find(x, name) : NULL;
    if (!e) return -1;
    if (!e->name) *e = (entry){ name, "", -1 };
    if (e->row < 0) {
        e->row = x->t->n++;
        x->t->row[e->row] = (ot_node_row){ .name = e->name, .op = e->op };
    }
    return e->row;
}

static void add_kernel(ot_node_row *r, const ot_step *s)
{
    char text[64], title[48];
    size_t n = strlen(r->kernels);
    snprintf(text, sizeof text, "%s %s", s->kernel ? s->kernel->name : "-", ot_node_title(s->node, title));
    for (const char *at = r->kernels; (at = strstr(at, text)); at++)
        if (at[strlen(text)] == ',' || !at[strlen(text)]) return;
    if (n + strlen(text) + 3 < sizeof r->kernels)
        snprintf(r->kernels + n, sizeof r->kernels - n, "%s%s", n ? ", " : "", text);
}

static void add_step(ot_node_row *r, const ot_step *s)
{
    ot_stage stage = s->node->stage;
    r->steps++;
    r->flops[stage] += ot_node_flops(s->node);
    r->bytes[stage] += ot_node_bytes(s->node);
    if (!(s->node->op->flags & OT_ALIAS)) add_kernel(r, s);
}

/* ---- memory ------------------------------------------------------------------------------- */

static const ot_value *base_of(const ot_value *v) { return v->base ? v->base : v; }

/* When the memory of each base of the scratch slab is first written and last read; by value id. */
static void lives(const ot_plan *p, int n, int *from, int *to)
{
    const ot_graph *g = p->graph;
    for (int i = 0; i < g->n_values; i++) from[i] = to[i] = -1;
    for (int t = 0; t < n; t++) {
        const ot_node *k = ot_plan_step(p, t)->node;
        for (int i = 0; i < k->n_in + k->n_out; i++) {
            const ot_value *v = i < k->n_in ? k->in[i] : k->out[i - k->n_in];
            if (!v || base_of(v)->slab != OT_SLAB_SCRATCH) continue;
            if (from[base_of(v)->id] < 0) from[base_of(v)->id] = t;
            to[base_of(v)->id] = t;
        }
    }
    for (int i = 0; i < p->n_kept + g->n_outputs; i++) {
        const ot_value *v = base_of(i < p->n_kept ? p->kept[i] : g->outputs[i - p->n_kept]);
        if (from[v->id] >= 0) to[v->id] = n - 1;
    }
    for (int i = 0; i < p->n_copies; i++)
        if (from[base_of(p->copies[i].value)->id] >= 0) to[base_of(p->copies[i].value)->id] = n - 1;
}

static int64_t bytes_of(const ot_value *v) { return (int64_t)ot_bytes(&v->shape, v->dtype); }

/* The step with the most live memory, and the values in it. */
static ot_status find_peak(const ot_plan *p, ot_arena *a, ot_node_table *t, ot_error *err)
{
    const ot_graph *g = p->graph;
    int *from = ot_arena_alloc(a, sizeof *from * (size_t)(g->n_values + 1));
    int *to = ot_arena_alloc(a, sizeof *to * (size_t)(g->n_values + 1));
    int64_t *change = ot_arena_alloc(a, sizeof *change * (size_t)(t->n_steps + 2)), live = 0;
    if (!from || !to || !change) return ot_fail(err, OT_E_NOMEM, "no memory for the table of nodes");
    lives(p, t->n_steps, from, to);
    for (int i = 0; i < g->n_values; i++) {
        if (from[i] < 0) continue;
        change[from[i]] += bytes_of(g->values[i]);
        change[to[i] + 1] -= bytes_of(g->values[i]);
    }
    for (int s = 0; s < t->n_steps; s++) {
        live += change[s];
        int64_t all = live + ot_plan_step(p, s)->work_bytes;
        if (all > t->peak) t->peak = all, t->peak_step = s;
    }
    for (int i = 0; i < g->n_values; i++)
        if (from[i] >= 0 && from[i] <= t->peak_step && to[i] >= t->peak_step)
            t->row[t->of[from[i]]].held += bytes_of(g->values[i]);
    if (t->n_steps) t->row[t->of[t->peak_step]].held += ot_plan_step(p, t->peak_step)->work_bytes;
    return OT_OK;
}

/* ---- the table ------------------------------------------------------------------------------ */

ot_status ot_node_table_new(const ot_graph *file, const ot_plan *p, ot_arena *a, ot_node_table *out, ot_error *err)
{
    *out = (ot_node_table){ .n_steps = p->n_batch_steps + p->n_update_steps };
    names x = { .p = p, .a = a, .t = out, .n_sources = count_sources(file) };
    size_t room = 64, values = (size_t)p->graph->n_values + 1;
    while (room < 2 * ((size_t)count_nodes(file) + (size_t)out->n_steps + 8)) room *= 2;
    x.mask = room - 1;
    x.at = ot_arena_alloc(a, room * sizeof *x.at);
    x.reader = ot_arena_alloc(a, sizeof *x.reader * (size_t)(x.n_sources + 1));
    x.weight = ot_arena_alloc(a, values * sizeof *x.weight);
    x.several = ot_arena_alloc(a, values * sizeof *x.several);
    out->row = ot_arena_alloc(a, sizeof *out->row * (size_t)(out->n_steps + 1));
    out->of = ot_arena_alloc(a, sizeof *out->of * (size_t)(out->n_steps + 1));
    if (!x.at || !x.reader || !x.weight || !x.several || !out->row || !out->of)
        return ot_fail(err, OT_E_NOMEM, "no memory for the table of nodes");
    enter(&x, file);
    find_weights(&x);
    for (int i = 0; i < out->n_steps; i++) {
        const ot_step *s = ot_plan_step(p, i);
        if ((out->of[i] = row_of(&x, s->node)) < 0) return ot_fail(err, OT_E_NOMEM, "no memory for the table of nodes");
        add_step(&out->row[out->of[i]], s);
    }
    return find_peak(p, a, out, err);
}

void ot_node_table_time(ot_node_table *t, const ot_plan *p, const ot_timing *m)
{
    double updates = m->updates > 0 ? (double)m->updates : 1;
    for (int r = 0; r < t->n; r++) memset(t->row[r].seconds, 0, sizeof t->row[r].seconds);
    for (int i = 0; i < t->n_steps; i++) {
        int n = ot_plan_step(p, i)->group;
        double all = 0, spent = m->spent[i] / updates;
        for (int k = 0; k < n; k++) all += ot_node_bytes(ot_plan_step(p, i + k)->node);
        for (int k = 0; k < n; k++) {
            const ot_node *node = ot_plan_step(p, i + k)->node;
            double share = all > 0 ? ot_node_bytes(node) / all : k == 0;
            t->row[t->of[i + k]].seconds[node->stage] += spent * share;
        }
        if (n < 1 && spent > 0) t->row[t->of[i]].seconds[ot_plan_step(p, i)->node->stage] += spent;
    }
}

static int by_held(const void *a, const void *b)
{
    const ot_node_row *const *x = a, *const *y = b;
    if ((*x)->held != (*y)->held) return (*x)->held < (*y)->held ? 1 : -1;
    return *x < *y ? -1 : *x > *y;
}

const ot_node_row **ot_node_table_held(const ot_node_table *t, ot_arena *a, int *n)
{
    const ot_node_row **sorted = ot_arena_alloc(a, sizeof *sorted * (size_t)(t->n + 1));
    *n = 0;
    for (int i = 0; sorted && i < t->n; i++)
        if (t->row[i].held > 0) sorted[(*n)++] = &t->row[i];
    if (sorted) qsort(sorted, (size_t)*n, sizeof *sorted, by_held);
    return sorted;
}
