/* memory.c - assigns every value an offset in a slab.
 *
 * Time is the schedule: the steps of the batch phase, then those of the update phase.  A value is live from the step
 * that computes it to the last that reads it; one that the host reads is live to the end.  Views, in-place results
 * and assignments share the memory of their base.  Bases are placed largest first at the lowest offset where no base
 * live at the same time is placed; for real networks this comes within a few percent of the lower bound (the most
 * bytes live at once).  In graphs with very many values (unrolled loops) the smallest are placed above everything
 * live at their time, ignoring gaps, in near-linear time.  The steps of a group count as one moment: what any of
 * them reads is live to the group's end, what one of them computes from its start.
 *
 * Memory  state slab: weights, statistics, moments, laid out once; scratch slab: everything else, reused by every
 *         plan of a trainer. */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/passes/passes.h"

/* Of every offset, in bytes: cuBLASLt demands workspaces at 256. */
enum { ALIGN = 64, DEVICE_ALIGN = 256 };

typedef struct block { /* one base, or one workspace */
    ot_value *v;       /* NULL: workspace of step */
    ot_step *step;
    int64_t bytes, offset;
    int from, to;
} block;

typedef struct life {
    int from, to, at;
} life; /* by value id; from -1: no producer.  at: the step that computes it */

typedef struct span {
    int from, to;
} span; /* the steps of a group */

static int64_t padded(const ot_plan *p, int64_t n)
{
    int64_t to = p->device ? DEVICE_ALIGN : ALIGN;
    return (n + to - 1) / to * to;
}

static int64_t value_bytes(const ot_value *v) { return (int64_t)ot_bytes(&v->shape, v->dtype); }

static ot_value *base_of(ot_value *v)
{
    while (v->base && v->base != v) v = v->base;
    return v;
}

static ot_step *step_at(ot_plan *p, int t)
{
    return t < p->n_batch_steps ? &p->batch_steps[t] : &p->update_steps[t - p->n_batch_steps];
}

static span group_at(ot_plan *p, int t)
{
    while (step_at(p, t)->group == 0) t--;
    return (span){ t, t + step_at(p, t)->group - 1 };
}

/* Does another call of the group of step t read or write the memory of v? */
static bool others_use(ot_plan *p, int t, ot_value *v)
{
    span g = group_at(p, t);
    for (int u = g.from; u <= g.to; u++) {
        const ot_node *n = step_at(p, u)->node;
        for (int i = 0; i < n->n_in + n->n_out && u != t; i++) {
            ot_value *x = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
            if (x && base_of(x) == base_of(v)) return true;
        }
    }
    return false;
}

/* ---- lifetimes ------------------------------------------------------------- */

static void lifetimes(ot_plan *p, life *l)
{
    int n = p->n_batch_steps + p->n_update_steps;
    for (int i = 0; i < p->graph->n_values; i++) l[i] = (life){ -1, -1, -1 };
    for (int t = 0; t < n; t++) {
        const ot_node *k = step_at(p, t)->node;
        span g = group_at(p, t);
        for (int i = 0; i < k->n_in; i++)
            if (k->in[i]) l[k->in[i]->id].to = g.to;
        for (int i = 0; i < k->n_out; i++)
            if (k->out[i]) l[k->out[i]->id] = (life){ g.from, g.to, t };
    }
    for (int i = 0; i < p->n_kept; i++) l[p->kept[i]->id].to = n;
    for (int i = 0; i < p->graph->n_outputs; i++) l[p->graph->outputs[i]->id].to = n;
    for (int i = 0; i < p->graph->n_assigns; i++) l[p->graph->assigns[i].value->id].to = n;
}

static void share(ot_value *v, ot_value *base, life *l)
{
    base = base_of(base);
    v->base = base;
    if (l[v->id].to > l[base->id].to) l[base->id].to = l[v->id].to;
}

/* ---- sharing --------------------------------------------------------------- */

/* An in-place assignment: the new value is written over the state, by a kernel that allows it, after all other
 * readers have read the state. */
static bool assign_in_place(ot_plan *p, const ot_assign *a, const life *l)
{
    ot_value *v = a->value, *s = a->state;
    if (!v->producer || v->base || v->dtype != s->dtype || !ot_shape_eq(&v->shape, &s->shape) || v->layout != s->layout)
        return false;
    int made = l[v->id].at;
    if (made < 0 || l[s->id].to > group_at(p, made).to || others_use(p, made, s)) return false;
    const ot_step *step = step_at(p, made);
    bool reads = false;
    for (int i = 0; i < step->node->n_in; i++) {
        if (step->node->in[i] != s) continue;
        reads = true;
        if (i >= 32 || !(step->kernel->inplace >> i & 1)) return false;
    }
    return reads || l[s->id].to < l[v->id].from;
}

static ot_status assignments(ot_plan *p, life *l)
{
    ot_graph *g = p->graph;
    p->copies = ot_graph_alloc(g, (size_t)g->n_assigns * sizeof *p->copies);
    if (!p->copies) return g->err->status;
    for (int i = 0; i < g->n_assigns; i++) {
        if (assign_in_place(p, &g->assigns[i], l)) share(g->assigns[i].value, g->assigns[i].state, l);
        else p->copies[p->n_copies++] = g->assigns[i];
    }
    return OT_OK;
}

/* A View shares its input's memory. */
static void share_view(ot_plan *p, int t, life *l)
{
    const ot_node *n = step_at(p, t)->node;
    if (n->op->flags & OT_ALIAS && n->out[0] && n->in[0]->layout == OT_PLAIN) share(n->out[0], n->in[0], l);
}

/* In-place results, if the kernel allows it and the input is not read later. */
static void share_outputs(ot_plan *p, int t, life *l)
{
    const ot_step *s = step_at(p, t);
    const ot_node *n = s->node;
    int end = group_at(p, t).to;
    for (int o = 0; o < n->n_out; o++) {
        ot_value *y = n->out[o];
        if (!y || y->base) continue;
        for (int i = 0; i < n->n_in && i < 32; i++) {
            ot_value *x = n->in[i];
            if (!x || !(s->kernel->inplace >> i & 1) || x->dtype != y->dtype || x->layout != y->layout ||
                !ot_shape_eq(&x->shape, &y->shape))
                continue;
            ot_value *b = base_of(x);
            if (b->role != OT_TEMP || l[b->id].to != end || value_bytes(b) != value_bytes(y) || others_use(p, t, b))
                continue;
            share(y, x, l);
            if (l[b->id].to == end) l[b->id].to = end + 1; /* in use: no second output may have it */
            break;
        }
    }
}

/* ---- placing --------------------------------------------------------------- */

static int larger_first(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->from != y->from ? (x->from > y->from ? 1 : -1) : (x->to > y->to) - (x->to < y->to);
}

/* The lowest offset at which b overlaps no placed block live at the same time.  placed[0..n) is sorted by offset. */
static int64_t lowest_gap(block *const *placed, int n, const block *b)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const block *q = placed[i];
        if (q->to < b->from || q->from > b->to) continue;
        if (q->offset >= at + b->bytes) break;
        if (q->offset + q->bytes > at) at = q->offset + q->bytes;
    }
    return at;
}

/* The end of the memory in use, by time: a segment tree whose node k has the children 2k and 2k + 1, with n (a power
 * of two) leaves.  all: a lower bound for every moment below the node; some: the maximum over them. */
typedef struct skyline {
    int n;
    int64_t *all, *some;
} skyline;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* The highest end in [from, to] within node k, which spans [lo, hi]. */
static int64_t highest(const skyline *s, int k, int lo, int hi, int from, int to)
{
    if (to < lo || hi < from) return 0;
    if (from <= lo && hi <= to) return s->some[k];
    int mid = lo + (hi - lo) / 2;
    return larger(s->all[k],
                  larger(highest(s, 2 * k, lo, mid, from, to), highest(s, 2 * k + 1, mid + 1, hi, from, to)));
}

static void raise_to(skyline *s, int k, int lo, int hi, const block *b)
{
    if (b->to < lo || hi < b->from) return;
    s->some[k] = larger(s->some[k], b->offset + b->bytes);
    if (b->from <= lo && hi <= b->to) {
        s->all[k] = larger(s->all[k], b->offset + b->bytes);
        return;
    }
    int mid = lo + (hi - lo) / 2;
    raise_to(s, 2 * k, lo, mid, b);
    raise_to(s, 2 * k + 1, mid + 1, hi, b);
}

/* Places list[done..n) above everything live at their time. */
static bool place_on_top(block *list, int done, int n, int64_t *end)
{
    skyline s = { .n = 1 };
    int last = 0;
    for (int i = 0; i < n; i++) last = list[i].to > last ? list[i].to : last;
    while (s.n <= last) s.n *= 2;
    s.all = calloc(2 * (size_t)s.n, sizeof *s.all);
    s.some = calloc(2 * (size_t)s.n, sizeof *s.some);
    for (int i = 0; i < n && s.all && s.some; i++) {
        block *b = &list[i];
        if (i >= done) b->offset = highest(&s, 1, 0, s.n - 1, b->from, b->to);
        raise_to(&s, 1, 0, s.n - 1, b);
        *end = larger(*end, b->offset + b->bytes);
    }
    bool ok = s.all && s.some;
    free(s.all);
    free(s.some);
    return ok;
}

static bool place(block *list, int n, block **placed, int64_t *end)
{
    enum { MOST_FITTED = 1 << 14 }; /* compares each with all before it */
    int fitted = n < MOST_FITTED ? n : MOST_FITTED;
    *end = 0;
    qsort(list, (size_t)n, sizeof *list, larger_first);
    for (int i = 0; i < fitted; i++) {
        block *b = &list[i];
        b->offset = lowest_gap(placed, i, b);
        *end = larger(*end, b->offset + b->bytes);
        int at = i; /* insertion by offset */
        while (at > 0 && placed[at - 1]->offset > b->offset) placed[at] = placed[at - 1], at--;
        placed[at] = b;
    }
    return fitted == n || place_on_top(list, fitted, n, end);
}

static int collect(ot_plan *p, const life *l, block *list)
{
    int n = 0, steps = p->n_batch_steps + p->n_update_steps;
    for (int i = 0; i < p->graph->n_values; i++) {
        ot_value *v = p->graph->values[i];
        if (base_of(v) != v || v->role != OT_TEMP || !v->producer || l[i].from < 0) continue;
        v->slab = OT_SLAB_SCRATCH;
        list[n++] = (block){ .v = v, .bytes = padded(p, value_bytes(v)), .from = l[i].from, .to = l[i].to };
    }
    for (int t = 0; t < steps; t++) {
        ot_step *s = step_at(p, t);
        span g = group_at(p, t);
        if (s->work > 0) list[n++] = (block){ .step = s, .bytes = padded(p, s->work), .from = g.from, .to = g.to };
    }
    return n;
}

static ot_status scratch(ot_plan *p, const life *l)
{
    size_t cap = (size_t)p->graph->n_values + (size_t)(p->n_batch_steps + p->n_update_steps) + 1;
    block *list = calloc(cap, sizeof *list);
    block **placed = calloc(cap, sizeof *placed);
    int n = list && placed ? collect(p, l, list) : 0;
    bool ok = list && placed && place(list, n, placed, &p->scratch_bytes);
    for (int i = 0; i < n && ok; i++) *(list[i].v ? &list[i].v->offset : &list[i].step->work) = list[i].offset;
    free(list);
    free(placed);
    return ok ? OT_OK : ot_fail(p->graph->err, OT_E_NOMEM, "no memory to plan memory");
}

/* ---- state ----------------------------------------------------------------- */

/* By identity: I5 of graph.h. */
static int by_identity(const void *a, const void *b)
{
    const ot_value *x = *(ot_value *const *)a, *y = *(ot_value *const *)b;
    int xs = x->of ? x->of->source : -1, ys = y->of ? y->of->source : -1;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (xs > ys) - (xs < ys);
}

const ot_value *ot_same_state(const ot_plan *like, const ot_value *v)
{
    ot_value *const *s = bsearch(&v, like->state_index, (size_t)like->n_states, sizeof *s, by_identity);
    return s ? *s : NULL;
}

/* value->mark: whether the plan uses a value; a state that an assignment changes. */
enum { USED = 1, ASSIGNED };

/* As kernels expect it: as malloc aligns. */
static bool aligned(const ot_value *v) { return (uintptr_t)v->data % alignof(max_align_t) == 0; }

/* Kernels read it where it is.  Pages of a data file are aligned as the file has them. */
static ot_status constant(ot_graph *g, ot_value *v)
{
    v->slab = OT_SLAB_CONST;
    if (!v->data || aligned(v)) return OT_OK;
    size_t n = ot_bytes(&v->shape, v->dtype);
    void *p = ot_graph_alloc(g, n);
    if (!p) return g->err->status;
    v->data = memcpy(p, v->data, n);
    return OT_OK;
}

static int by_data(const void *a, const void *b)
{
    const ot_value *x = *(ot_value *const *)a, *y = *(ot_value *const *)b;
    if (x->data != y->data) return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return value_bytes(x) < value_bytes(y) ? 1 : value_bytes(x) > value_bytes(y) ? -1 : 0;
}

/* Equal nodes of constants have one result (infer.c): each memory counts once. */
static ot_status count_constants(ot_plan *p)
{
    ot_graph *g = p->graph;
    ot_value **list = malloc(((size_t)g->n_values + 1) * sizeof *list);
    int n = 0;
    if (!list) return ot_fail(g->err, OT_E_NOMEM, "no memory to plan memory");
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i]->role == OT_CONST && g->values[i]->data) list[n++] = g->values[i];
    qsort(list, (size_t)n, sizeof *list, by_data);
    for (int i = 0; i < n; i++)
        if (!i || list[i]->data != list[i - 1]->data) p->const_bytes += value_bytes(list[i]);
    free(list);
    return OT_OK;
}

static ot_status state(ot_plan *p, bool fixed)
{
    ot_graph *g = p->graph;
    p->states = ot_graph_alloc(g, (size_t)g->n_values * sizeof *p->states);
    p->state_index = ot_graph_alloc(g, (size_t)g->n_values * sizeof *p->state_index);
    if (!p->states || !p->state_index) return g->err->status;
    for (int i = 0; i < g->n_values; i++) {
        ot_value *v = g->values[i];
        if (v->role == OT_INPUT) v->slab = OT_SLAB_FED;
        if (v->role == OT_CONST) OT_TRY(constant(g, v));
        if ((v->role != OT_WEIGHT && v->role != OT_STATE) || !v->mark) continue;
        if (fixed && v->data && v->layout == OT_PLAIN && v->mark == USED && aligned(v)) { /* counted with the file */
            v->slab = OT_SLAB_CONST;
            continue;
        }
        const ot_value *s = p->like ? ot_same_state(p->like, v) : NULL;
        if (p->like && !s && v->data) { /* not used by the training plan */
            OT_TRY(constant(g, v));
            continue;
        }
        if (p->like && !s) return ot_fail(g->err, OT_E_INTERNAL, "state '%s' is not in the training plan", v->name);
        v->slab = OT_SLAB_STATE;
        v->offset = s ? s->offset : p->state_bytes;
        if (!s) p->state_bytes += padded(p, value_bytes(v));
        p->states[p->n_states++] = v;
    }
    memcpy(p->state_index, p->states, (size_t)p->n_states * sizeof *p->states);
    qsort(p->state_index, (size_t)p->n_states, sizeof *p->state_index, by_identity);
    if (p->like) p->state_bytes = p->like->state_bytes;
    return OT_OK;
}

static void mark_used(ot_plan *p)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    for (ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) n->in[i]->mark = USED;
    for (int i = 0; i < g->n_outputs; i++) g->outputs[i]->mark = USED;
    for (int i = 0; i < p->n_kept; i++) p->kept[i]->mark = USED;
    for (int i = 0; i < p->n_reached; i++) p->reached[i]->mark = USED; /* used by another plan of the training */
    for (int i = 0; i < g->n_assigns; i++) {
        g->assigns[i].value->mark = USED;
        g->assigns[i].state->mark = ASSIGNED;
    }
}

/* What an earlier run of the pass left (recompute.c). */
static void forget(ot_plan *p)
{
    p->n_copies = p->n_states = 0;
    p->state_bytes = p->const_bytes = 0;
    for (int i = 0; i < p->graph->n_values; i++) p->graph->values[i]->base = NULL;
    for (int t = 0; t < p->n_batch_steps + p->n_update_steps; t++)
        step_at(p, t)->work = step_at(p, t)->work_bytes ? step_at(p, t)->work_bytes : -1;
}

ot_status ot_pass_memory(ot_plan *p, const ot_config *c)
{
    life *l = calloc((size_t)p->graph->n_values + 1, sizeof *l);
    if (!l) return ot_fail(p->graph->err, OT_E_NOMEM, "no memory to plan memory");
    forget(p);
    mark_used(p);
    lifetimes(p, l);
    int n = p->n_batch_steps + p->n_update_steps;
    for (int t = 0; t < n; t++) share_view(p, t, l);
    ot_status s = assignments(p, l);
    for (int t = 0; t < n; t++) share_outputs(p, t, l);
    for (int i = 0; i < p->graph->n_values; i++) p->graph->values[i]->base = base_of(p->graph->values[i]);
    if (s == OT_OK) s = state(p, c->fixed);
    if (s == OT_OK) s = count_constants(p);
    for (int t = 0; t < n; t++) p->const_bytes += step_at(p, t)->held;
    if (s == OT_OK) s = scratch(p, l);
    free(l);
    return s;
}
