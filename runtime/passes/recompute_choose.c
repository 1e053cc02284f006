/* recompute_choose.c - which values of the forward part are dropped, and computed again in the backward part.
 *
 * The memory of a choice is simulated: the order of steps that it leads to, the interval in which each value is live, the
 * bytes that are live at each step.  Values that are live at the peak are dropped, those first that free most bytes for
 * their cost, and the simulation is repeated.  Dropped values that are computed from one another become live together when the
 * last of them is needed; the bytes of such a union are limited, so that values between unions are kept (the checkpoints of
 * "Training Deep Nets with Sublinear Memory Cost", Chen et al. 2016).  Several limits are tried; the cheapest choice wins. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/passes/recompute.h"

/* A device moves a byte in the time of about this many floating-point operations. */
static const double operations_per_byte = 16;

enum {
    SMALL = 16,       /* a result this many times smaller than an operand is small */
    CLOSURE = 256,    /* most steps that run again for one more dropped value */
    RETURNED = 256,   /* most dropped values that are tried again as kept ones */
    PARTS = 64,       /* of the peak: about what is dropped between two simulations */
    PARTS_CHEAP = 16, /* of the peak: the most bytes of a union where only cheap values are dropped */
    LARGE = 2048,     /* steps of a plan for which fewer choices are tried */
    PARTS_LARGE = 16, /* then */
    LINK = 8          /* a value this many times smaller than the limit of the unions joins none */
};

typedef struct ot_again_choice {
    int store;
    int64_t gain; /* bytes at the peak */
    double cost;
} ot_again_choice;

static int64_t padded(int64_t n) { return (n + 63) / 64 * 64; }

/* ---- what is known of the plan --------------------------------------------------------- */

static ot_again_store *store_of(const ot_again *w, const ot_value *v) { return &w->store[w->store_of[v->id]]; }

static const ot_step *step_at(const ot_plan *p, int t)
{
    return t < p->n_batch_steps ? &p->batch_steps[t] : &p->update_steps[t - p->n_batch_steps];
}

static int64_t bytes_of(const ot_value *v)
{
    return v->dtype == OT_STRING ? 0 : padded((int64_t)ot_bytes(&v->shape, v->dtype));
}

static bool is_small(const ot_node *n, const ot_value *y)
{
    int64_t most = 0;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (v && (v->role == OT_TEMP || v->role == OT_INPUT) && bytes_of(v) > most) most = bytes_of(v);
    }
    return SMALL * bytes_of(y) <= most;
}

static void enter_outputs(ot_again *w, int t)
{
    const ot_node *n = w->step[t].node;
    bool view = n->op->flags & OT_ALIAS && n->in[0]->layout == OT_PLAIN;
    for (int i = 0; i < n->n_out; i++) {
        const ot_value *y = n->out[i];
        if (!y) continue;
        w->made[y->id] = t;
        if (view && i == 0) {
            w->store_of[y->id] = w->store_of[n->in[0]->id];
        } else {
            ot_again_store *s = &w->store[y->id];
            s->temporary = y->role == OT_TEMP;
            s->bytes = bytes_of(y);
            s->small = is_small(n, y);
        }
        if (!w->step[t].forward) store_of(w, y)->fixed = true;
    }
}

static void enter(ot_again *w, const ot_plan *p)
{
    const ot_graph *g = p->graph;
    for (int i = 0; i < w->n_values; i++) w->store_of[i] = i, w->made[i] = -1;
    for (int t = 0; t < w->n_steps; t++) {
        const ot_step *s = step_at(p, t);
        ot_node *n = (ot_node *)(uintptr_t)s->node;
        double flops = ot_node_flops(n) / operations_per_byte, bytes = ot_node_bytes(n);
        bool batch = n->phase == OT_PHASE_BATCH;
        w->step[t] = (ot_again_step){ .node = n,
                                      .in = n->in,
                                      .inplace = s->kernel->inplace,
                                      .work = padded(s->work_bytes),
                                      .cost = flops > bytes ? flops : bytes,
                                      .forward = batch && n->stage == OT_STAGE_FORWARD,
                                      .late = batch && n->stage != OT_STAGE_FORWARD };
        w->all += w->step[t].cost;
        enter_outputs(w, t);
        for (int i = 0; i < n->n_in; i++) {
            if (!n->in[i]) continue;
            if (!batch) store_of(w, n->in[i])->fixed = true;
            if (w->step[t].late) store_of(w, n->in[i])->late = true;
        }
    }
    for (int i = 0; i < g->n_assigns; i++) { /* in the memory of their states */
        store_of(w, g->assigns[i].value)->fixed = true;
        store_of(w, g->assigns[i].value)->temporary = false;
    }
    for (int i = 0; i < p->n_kept; i++) store_of(w, p->kept[i])->fixed = store_of(w, p->kept[i])->lasts = true;
    for (int i = 0; i < g->n_outputs; i++) store_of(w, g->outputs[i])->fixed = store_of(w, g->outputs[i])->lasts = true;
}

ot_status ot_again_new(const ot_plan *p, ot_again **out, ot_error *err)
{
    ot_again *w = *out = calloc(1, sizeof *w);
    if (!w) return ot_fail(err, OT_E_NOMEM, "no memory to plan recomputation");
    w->n_steps = p->n_batch_steps + p->n_update_steps;
    w->n_values = p->graph->n_values;
    size_t steps = (size_t)w->n_steps + 1, values = (size_t)w->n_values + 1;
    w->step = calloc(steps, sizeof *w->step);
    w->stamp = calloc(steps, sizeof *w->stamp);
    w->list = calloc(2 * steps, sizeof *w->list);
    w->order = calloc(2 * steps, sizeof *w->order);
    w->live = calloc(2 * steps + 1, sizeof *w->live);
    w->made = calloc(values, sizeof *w->made);
    w->store_of = calloc(values, sizeof *w->store_of);
    w->store = calloc(values, sizeof *w->store);
    w->seen = calloc(values, sizeof *w->seen);
    w->best = calloc(values, sizeof *w->best);
    w->candidate = calloc(values, sizeof *w->candidate);
    if (!w->step || !w->stamp || !w->list || !w->order || !w->live || !w->made || !w->store_of || !w->store ||
        !w->seen || !w->best || !w->candidate)
        return ot_fail(err, OT_E_NOMEM, "no memory to plan recomputation");
    enter(w, p);
    return OT_OK;
}

void ot_again_free(ot_again *w)
{
    if (!w) return;
    void *list[] = { w->step,     w->stamp, w->list, w->order, w->live,     w->made,
                     w->store_of, w->store, w->seen, w->best,  w->candidate };
    for (int i = 0; i < OT_LEN(list); i++) free(list[i]);
    free(w);
}

/* ---- simulation ------------------------------------------------------------------------ */

static bool again(const ot_again_store *s)
{
    return s->temporary && !s->fixed && (s->dropped || (!s->late && !s->small));
}

bool ot_again_reads(const ot_again *w, const ot_value *v) { return again(store_of(w, v)); }

/* Appends step t, and the steps before it whose results have to be computed again for it, to list[n..): those without the
 * stamp, which they get.  most: stops with more.  Returns the number in the list. */
static int need(ot_again *w, int t, int stamp, int n, int most)
{
    int first = n;
    if (w->stamp[t] == stamp) return n;
    w->stamp[t] = stamp;
    w->list[n++] = t;
    for (int k = first; k < n && n - first <= most; k++) {
        const ot_again_step *s = &w->step[w->list[k]];
        for (int i = 0; i < s->node->n_in; i++) {
            int from = s->in[i] ? w->made[s->in[i]->id] : -1;
            if (from < 0 || !again(store_of(w, s->in[i])) || w->stamp[from] == stamp) continue;
            w->stamp[from] = stamp;
            w->list[n++] = from;
        }
    }
    return n;
}

static int ascending(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Does a step of this kind read the store as computed again? */
static int which(const ot_again *w, ot_again_entry e, const ot_again_store *s)
{
    return (e.again || w->step[e.step].late) && again(s);
}

static void append(ot_again *w, ot_again_entry e)
{
    const ot_again_step *s = &w->step[e.step];
    int at = w->n_order;
    w->order[w->n_order++] = e;
    w->live[at] += s->work;
    w->live[at + 1] -= s->work;
    if (e.again) w->cost += s->cost;
    for (int i = 0; i < s->node->n_in; i++) {
        ot_again_store *x = s->in[i] ? store_of(w, s->in[i]) : NULL;
        if (!x || !x->temporary) continue;
        x->end[which(w, e, x)] = at;
        if (s->forward && !e.again) x->last_forward = at;
        if ((s->late || e.again) && x->first_late < 0) x->first_late = at;
    }
    for (int i = 0; i < s->node->n_out; i++) {
        ot_again_store *y = s->node->out[i] ? store_of(w, s->node->out[i]) : NULL;
        if (!y || !y->temporary) continue;
        if (y->begin[e.again] < 0) y->begin[e.again] = at;
        if (y->end[e.again] < at) y->end[e.again] = at;
    }
}

/* The results of entry `at` that replace an operand in memory, as memory.c does, need no bytes while both are live. */
static void share(ot_again *w, int at)
{
    ot_again_entry e = w->order[at];
    const ot_again_step *s = &w->step[e.step];
    uint32_t free = s->inplace;
    for (int o = 0; o < s->node->n_out && free; o++) {
        const ot_value *y = s->node->out[o];
        if (!y || w->store_of[y->id] != y->id) continue;
        for (int i = 0; i < s->node->n_in && i < 32; i++) {
            const ot_value *v = s->in[i];
            if (!v || !(free >> i & 1) || v->dtype != y->dtype || v->layout != y->layout ||
                !ot_shape_eq(&v->shape, &y->shape))
                continue;
            const ot_again_store *x = store_of(w, v);
            if (!x->temporary || x->fixed || x->end[which(w, e, x)] != at || x->bytes != store_of(w, y)->bytes)
                continue;
            store_of(w, y)->begin[e.again]++;
            free &= ~(UINT32_C(1) << i);
            break;
        }
    }
}

static void measure(ot_again *w)
{
    for (int at = 0; at < w->n_order; at++) share(w, at);
    for (int i = 0; i < w->n_values; i++) {
        ot_again_store *s = &w->store[i];
        if (!s->temporary) continue;
        if (s->lasts && s->begin[0] >= 0) s->end[0] = w->n_order - 1;
        for (int k = 0; k < 2; k++) {
            if (s->begin[k] < 0 || s->end[k] < s->begin[k]) continue;
            w->live[s->begin[k]] += s->bytes;
            w->live[s->end[k] + 1] -= s->bytes;
        }
    }
    int64_t sum = 0;
    w->peak = 0;
    w->at = 0;
    for (int at = 0; at < w->n_order; at++) {
        sum += w->live[at];
        if (sum > w->peak) w->peak = sum, w->at = at;
    }
}

/* The order of steps that the dropped stores lead to, its memory and its cost. */
static void simulate(ot_again *w)
{
    int stamp = ++w->stamps;
    w->n_order = 0;
    w->cost = 0;
    memset(w->live, 0, (2 * (size_t)w->n_steps + 2) * sizeof *w->live);
    for (int i = 0; i < w->n_values; i++) {
        ot_again_store *s = &w->store[i];
        s->begin[0] = s->begin[1] = s->end[0] = s->end[1] = s->last_forward = s->first_late = -1;
    }
    for (int t = 0; t < w->n_steps; t++) {
        const ot_again_step *s = &w->step[t];
        int n = 0;
        for (int i = 0; s->late && i < s->node->n_in; i++) {
            int from = s->in[i] ? w->made[s->in[i]->id] : -1;
            if (from >= 0 && again(store_of(w, s->in[i]))) n = need(w, from, stamp, n, w->n_steps);
        }
        qsort(w->list, (size_t)n, sizeof *w->list, ascending);
        for (int k = 0; k < n; k++) append(w, (ot_again_entry){ w->list[k], true });
        append(w, (ot_again_entry){ t, false });
    }
    measure(w);
}

/* ---- unions ---------------------------------------------------------------------------- */

static int union_of(const ot_again *w, int i)
{
    while (w->store[i].up != i) i = w->store[i].up = w->store[w->store[i].up].up;
    return i;
}

static void unite(ot_again *w, int i, int k)
{
    i = union_of(w, i), k = union_of(w, k);
    if (i == k) return;
    w->store[k].up = i;
    w->store[i].united += w->store[k].united;
}

/* ---- choosing -------------------------------------------------------------------------- */

/* A step that would run again has the operand or the result i: what it adds to the union, and to the memory at the peak. */
static void weigh(ot_again *w, int i, int mark, int64_t link, const ot_again_store *wanted, int64_t *united,
                  int64_t *lost)
{
    const ot_again_store *s = &w->store[i];
    if (!s->temporary || w->seen[i] == mark) return;
    w->seen[i] = mark;
    if (!again(s)) { /* kept longer */
        if (s->begin[0] >= 0 && s->end[0] < w->at && wanted->first_late > w->at) *lost += s->bytes;
        return;
    }
    if (s->bytes < link) return;
    int u = union_of(w, i);
    if (u != i && w->seen[u] == mark) return;
    w->seen[u] = mark;
    *united += w->store[u].united;
}

/* What dropping c->store gains and costs; false: nothing is gained, or its union would have more bytes than `most`.
 * take: it is dropped. */
static bool evaluate(ot_again *w, ot_again_choice *c, int64_t most, int now, bool take)
{
    ot_again_store *s = &w->store[c->store];
    int64_t united = 0, lost = 0, link = most / LINK;
    int mark = ++w->stamps, n;
    s->dropped = true;
    /* Steps that run again already have the stamp of the last simulation; new ones get it, and lose it. */
    n = need(w, w->made[c->store], now, 0, CLOSURE);
    c->cost = 0;
    for (int k = 0; k < n && n <= CLOSURE; k++) {
        const ot_again_step *x = &w->step[w->list[k]];
        c->cost += x->cost;
        for (int i = 0; i < x->node->n_in; i++)
            if (x->in[i]) weigh(w, w->store_of[x->in[i]->id], mark, link, s, &united, &lost);
        for (int i = 0; i < x->node->n_out; i++)
            if (x->node->out[i] && again(store_of(w, x->node->out[i])))
                weigh(w, w->store_of[x->node->out[i]->id], mark, link, s, &united, &lost);
    }
    c->gain = s->bytes - lost;
    bool fine = n <= CLOSURE && c->gain > 0 && united <= most;
    for (int k = 0; k < n && take && fine; k++) {
        const ot_again_step *x = &w->step[w->list[k]];
        for (int i = 0; i < x->node->n_in + x->node->n_out; i++) {
            const ot_value *v = i < x->node->n_in ? x->in[i] : x->node->out[i - x->node->n_in];
            if (v && again(store_of(w, v)) && store_of(w, v)->bytes >= link) unite(w, c->store, w->store_of[v->id]);
        }
    }
    for (int k = 0; k < n && !(take && fine); k++) w->stamp[w->list[k]] = 0;
    s->dropped = take && fine;
    return fine;
}

static int cheapest_first(const void *a, const void *b)
{
    const ot_again_choice *x = a, *y = b;
    double p = x->cost * (double)y->gain, q = y->cost * (double)x->gain;
    if (p != q) return p < q ? -1 : 1;
    return (x->store > y->store) - (x->store < y->store);
}

/* Is the value live at the peak because of the backward part alone, and not computed again before it? */
static bool held(const ot_again *w, const ot_again_store *s)
{
    return s->temporary && !s->fixed && s->late && !s->small && !s->dropped && s->begin[0] >= 0 &&
           s->begin[0] <= w->at && s->last_forward < w->at && s->first_late > w->at;
}

static int parts(const ot_again *w) { return w->n_steps > LARGE ? PARTS_LARGE : PARTS; }

/* Drops some of the values that are live at the peak, after a simulation; false: there is none.  Which ones does not depend on the
 * limit of the memory, so that the least memory found is the same for every limit. */
static bool drop_some(ot_again *w, int64_t most)
{
    int n = 0, now = w->stamps, taken = 0; /* the stamp of the simulation */
    int64_t wanted = w->peak / parts(w);
    for (int i = 0; i < w->n_values; i++) {
        if (!held(w, &w->store[i])) continue;
        w->candidate[n] = (ot_again_choice){ .store = i };
        if (evaluate(w, &w->candidate[n], most, now, false)) n++;
    }
    qsort(w->candidate, (size_t)n, sizeof *w->candidate, cheapest_first);
    for (int k = 0; k < n && (!taken || wanted > 0); k++)
        if (evaluate(w, &w->candidate[k], most, now, true)) wanted -= w->candidate[k].gain, taken++;
    return taken > 0;
}

static void keep_all(ot_again *w)
{
    for (int i = 0; i < w->n_values; i++) {
        w->store[i].dropped = false;
        w->store[i].up = i;
        w->store[i].united = w->store[i].bytes;
    }
}

static int dearest_first(const void *a, const void *b)
{
    const ot_again_choice *x = a, *y = b;
    return -cheapest_first(x, y);
}

/* Dropped values that need not be are kept after all, the most expensive first. */
static void keep_some(ot_again *w, int64_t limit)
{
    int n = 0;
    for (int i = 0; i < w->n_values; i++)
        if (w->store[i].dropped)
            w->candidate[n++] = (ot_again_choice){ i, w->store[i].bytes, w->step[w->made[i]].cost };
    qsort(w->candidate, (size_t)n, sizeof *w->candidate, dearest_first);
    simulate(w);
    for (int k = 0; k < n && k < (w->n_steps > LARGE ? RETURNED / 4 : RETURNED); k++) {
        double cost = w->cost;
        w->store[w->candidate[k].store].dropped = false;
        simulate(w);
        if (w->peak > limit || w->cost >= cost) {
            w->store[w->candidate[k].store].dropped = true;
            w->cost = cost;
        }
    }
}

typedef struct result {
    bool any, fits;
    int64_t peak;
    double cost;
} result;

static void remember(ot_again *w, result *r, int64_t limit)
{
    bool fits = w->peak <= limit;
    bool better = !r->any || (fits && !r->fits) || (fits == r->fits && (fits ? w->cost < r->cost : w->peak < r->peak));
    if (!better) return;
    *r = (result){ true, fits, w->peak, w->cost };
    for (int i = 0; i < w->n_values; i++) w->best[i] = w->store[i].dropped;
}

static void try_unions(ot_again *w, int64_t limit, int64_t most, result *r)
{
    keep_all(w);
    for (int round = 0; round < 4 * parts(w); round++) {
        simulate(w);
        remember(w, r, limit);
        if (w->peak <= limit || !drop_some(w, most)) break;
    }
}

int64_t ot_again_choose_cheap(ot_again *w, double part)
{
    keep_all(w);
    simulate(w);
    int64_t all = w->peak;
    result r = { 0 };
    for (int round = 0; round < parts(w) && w->cost <= part * w->all; round++) {
        remember(w, &r, 0);
        if (!drop_some(w, all / PARTS_CHEAP)) break;
        simulate(w);
    }
    for (int i = 0; i < w->n_values; i++) w->store[i].dropped = w->best[i];
    simulate(w);
    return all;
}

bool ot_again_choose(ot_again *w, int64_t limit)
{
    result r = { 0 };
    keep_all(w);
    simulate(w);
    int64_t all = w->peak;
    for (int64_t most = all; most > 0 && most > all / 256; most /= 2) try_unions(w, limit, most, &r);
    for (int i = 0; i < w->n_values; i++) w->store[i].dropped = w->best[i];
    if (r.fits) keep_some(w, limit);
    simulate(w);
    return r.fits;
}
