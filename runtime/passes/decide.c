/* decide.c - data-dependent decisions while a plan is made.
 *
 * Memory  values computed for the batch are kept until the graph is unrolled: a loop evaluates its condition after
 *         every iteration. */
#include "runtime/passes/decide.h"

#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"

typedef struct ot_decider {
    ot_plan *plan;
    const ot_config *c;
    ot_decisions *d;
    int next;  /* decisions replayed so far */
    void **at; /* by value id: computed bytes */
    int n;
} decider;

void ot_decisions_free(ot_decisions *d)
{
    for (int i = 0; i < d->n; i++) free(d->list[i].bytes);
    free(d->list);
    *d = (ot_decisions){ 0 };
}

bool ot_decisions_same(const ot_decisions *a, const ot_decisions *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const ot_decision *x = &a->list[i], *y = &b->list[i];
        if (x->made != y->made || x->dtype != y->dtype || !ot_shape_eq(&x->shape, &y->shape)) return false;
        if (!x->made && memcmp(x->bytes, y->bytes, ot_bytes(&x->shape, x->dtype)) != 0) return false;
    }
    return true;
}

/* The bytes of weights and statistics: initial or current. */
static bool is_state(const ot_value *v) { return v->role == OT_WEIGHT || v->role == OT_STATE; }

/* ---- values that lead to the loss -------------------------------------------------- */

static void want(char *need, const ot_value *v)
{
    if (v) need[v->id] = 1;
}

/* All values of g that subgraphs of n read; g contains every tensor of the file. */
static void want_subgraphs(const ot_graph *g, const ot_node *n, char *need)
{
    const ot_graph *s;
    for (int j = 0; (s = ot_subgraph(n, j)); j++) {
        for (int i = 0; i < s->n_outputs; i++)
            if (ot_graph_has(g, s->outputs[i])) want(need, s->outputs[i]);
        for (const ot_node *k = s->first; k; k = k->next) {
            for (int i = 0; i < k->n_in; i++)
                if (ot_graph_has(g, k->in[i])) want(need, k->in[i]);
            want_subgraphs(g, k, need);
        }
    }
}

/* Is a loss applied to output i of the file?  If neither losses nor targets name an output, any output may have one. */
static bool has_loss(const ot_config *c, const char *name)
{
    bool named = false;
    for (int i = 0; i < c->options.n_losses; i++) {
        if (!c->options.losses[i].output) return true;
        named = true;
        if (!strcmp(c->options.losses[i].output, name)) return true;
    }
    for (int i = 0; i < c->n_feeds && !c->options.n_losses; i++) {
        if (!c->feeds[i].target || strncmp(c->feeds[i].name, "target_", 7)) continue;
        named = true;
        if (!strcmp(c->feeds[i].name + 7, name)) return true;
    }
    return !named;
}

/* Runs before control flow is unrolled, so that branches and bodies count as if all of them ran. */
static ot_status find_reached(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    char *need = calloc((size_t)g->n_values + 1, 1);
    p->reached = ot_graph_alloc(g, ((size_t)g->n_values + 1) * sizeof *p->reached);
    if (!p->reached || !need) {
        free(need);
        return ot_fail(g->err, OT_E_NOMEM, "no memory for data-dependent values");
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (has_loss(c, g->outputs[i]->name)) want(need, g->outputs[i]);
    for (const ot_node *k = g->last; k; k = k->prev) {
        bool wanted = false;
        for (int i = 0; i < k->n_out; i++) wanted |= k->out[i] && need[k->out[i]->id];
        for (int i = 0; i < k->n_in && wanted; i++) want(need, k->in[i]);
        if (wanted) want_subgraphs(g, k, need);
    }
    for (int i = 0; i < g->n_values; i++)
        if (need[i] && is_state(g->values[i])) p->reached[p->n_reached++] = g->values[i];
    free(need);
    return OT_OK;
}

ot_status ot_decider_new(ot_plan *p, const ot_config *c, decider **out)
{
    *out = NULL;
    if (!c->decisions) return OT_OK;
    if (c->want == OT_WANT_GRAD || c->want == OT_WANT_TRAIN) OT_TRY(find_reached(p, c));
    decider *x = calloc(1, sizeof *x);
    if (!x) return ot_fail(p->graph->err, OT_E_NOMEM, "no memory for data-dependent values");
    *x = (decider){ .plan = p, .c = c, .d = c->decisions };
    p->graph->room->decider = *out = x;
    return OT_OK;
}

void ot_decider_free(decider *x)
{
    if (!x) return;
    for (int i = 0; i < x->n; i++) free(x->at[i]);
    free(x->at);
    x->plan->graph->room->decider = NULL;
    x->d->complete = true;
    free(x);
}

/* ---- values of the batch --------------------------------------------------------- */

/* The bytes of v if known without computing; NULL: unknown. */
static const void *known(const decider *x, const ot_value *v)
{
    if (v->id < x->n && x->at[v->id]) return x->at[v->id];
    for (int i = 0; i < x->c->n_feeds && v->role == OT_INPUT; i++)
        if (x->plan->fed[i] == v) return x->c->feeds[i].sample;
    for (int i = 0, k = 0; i < x->d->n && v->role == OT_INPUT; i++)
        if (x->d->list[i].made && x->plan->made[k++] == v) return x->d->list[i].bytes;
    return v->data;
}

/* The current bytes of a weight or state, kept for later calls. */
static ot_status fetch(decider *x, const ot_value *v, ot_error *err)
{
    const void *now = is_state(v) && !x->at[v->id] && x->c->state ? x->c->state(x->c->user, v) : NULL;
    if (!now) return OT_OK;
    size_t size = ot_bytes(&v->shape, v->dtype);
    if (!(x->at[v->id] = malloc(size + 1))) return ot_fail(err, OT_E_NOMEM, "no memory for data-dependent values");
    memcpy(x->at[v->id], now, size);
    return OT_OK;
}

static ot_status grow(decider *x, const ot_graph *g)
{
    if (g->n_values <= x->n) return OT_OK;
    int n = 2 * g->n_values;
    void **wider = realloc(x->at, (size_t)n * sizeof *wider);
    if (!wider) return ot_fail(g->err, OT_E_NOMEM, "no memory for data-dependent values");
    memset(wider + x->n, 0, (size_t)(n - x->n) * sizeof *wider);
    x->at = wider;
    x->n = n;
    return OT_OK;
}

/* The bytes of the values of a lowered graph. */
typedef struct computed {
    void **at;
    int n;
} computed;

static const void *read_from(const computed *b, const ot_value *v)
{
    return !v ? NULL : v->data ? v->data : b->at[v->id];
}

static ot_status call(const decider *x, const ot_node *n, const ot_kernel *k, computed *b, bool *refused, ot_error *err)
{
    ot_prep prep = { .threads = x->plan->threads, .err = err };
    const void **in = calloc((size_t)n->n_in + 1, sizeof *in);
    void **out = calloc((size_t)n->n_out + 1, sizeof *out), *work = NULL;
    ot_status s = in && out ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory for data-dependent values", n->name);
    for (int i = 0; !s && i < n->n_in; i++) in[i] = read_from(b, n->in[i]);
    for (int i = 0; !s && i < n->n_out; i++) out[i] = n->out[i] ? b->at[n->out[i]->id] : NULL;
    if (!s && k->prepare) s = k->prepare(n, &prep);
    *refused = !s && prep.refused;
    if (!s && !prep.refused && prep.work && !(work = aligned_alloc(64, (prep.work + 63) / 64 * 64)))
        s = ot_fail(err, OT_E_NOMEM, "%s: no memory for data-dependent values", n->name);
    if (!s && !prep.refused)
        s = k->run(&(ot_call){ .node = n,
                               .in = in,
                               .out = out,
                               .work = work,
                               .state = prep.state,
                               .threads = x->plan->threads,
                               .err = err });
    if (k->release && prep.state) k->release(prep.state);
    free(work);
    free(in);
    free(out);
    return s;
}

static ot_status run_node(const decider *x, const ot_node *n, computed *b, ot_error *err)
{
    const char *why;
    bool refused = false;
    const ot_kernel *k = ot_kernel_for(n, NULL, false, &why);
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        size_t size = (ot_bytes(&n->out[i]->shape, n->out[i]->dtype) + 127) / 64 * 64;
        if (!(b->at[n->out[i]->id] = aligned_alloc(64, size)))
            return ot_fail(err, OT_E_NOMEM,
                           "%s: no memory for data-dependent "
                           "values",
                           n->name);
        memset(b->at[n->out[i]->id], 0, size);
    }
    if (!k) return ot_fail(err, OT_E_INTERNAL, "%s: %s has no kernel", n->name, n->op->name);
    OT_TRY(call(x, n, k, b, &refused, err));
    return refused ? call(x, n, ot_ref_kernel(n->op), b, &refused, err) : OT_OK;
}

static ot_status run_all(decider *x, const ot_graph *s, ot_value *const *origin, ot_error *err)
{
    computed b = { calloc((size_t)s->n_values + 1, sizeof *b.at), s->n_values };
    ot_status st = b.at ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for data-dependent values");
    for (const ot_node *k = s->first; k && !st; k = k->next) st = run_node(x, k, &b, err);
    for (int i = 0; !st && i < s->n_outputs; i++) {
        size_t size = ot_bytes(&origin[i]->shape, origin[i]->dtype);
        void *copy = x->at[origin[i]->id] = malloc(size + 1);
        if (!copy) st = ot_fail(err, OT_E_NOMEM, "no memory for data-dependent values");
        else if (size) memcpy(copy, read_from(&b, s->outputs[i]), size);
    }
    for (int i = 0; i < b.n && b.at; i++) free(b.at[i]);
    free(b.at);
    return st;
}

/* The copy of v in s: a constant if its bytes are known, else the result of a node of s. */
static ot_value *copied(const decider *x, ot_graph *s, ot_value *v, ot_value **twin)
{
    if (!v || twin[v->id]) return v ? twin[v->id] : NULL;
    const void *p = known(x, v);
    if (!p) return NULL;
    ot_value *c = twin[v->id] = ot_graph_value(s, v->name, OT_CONST, v->dtype, &v->shape);
    if (c) c->data = p;
    return c;
}

/* Copies into s the nodes from `first` to `last` whose results are needed and unknown; origin[i] is the value that
 * output i of s is a copy of. */
static ot_status copy_cone(decider *x, ot_graph *g, ot_graph *s, ot_node *first, ot_node *last, const char *need,
                           ot_value **twin, ot_value **origin)
{
    for (ot_node *k = first; k; k = k == last ? NULL : k->next) {
        bool wanted = false;
        for (int i = 0; i < k->n_out; i++) wanted |= k->out[i] && need[k->out[i]->id];
        if (!wanted) continue;
        bool drops = k->op == &ot_op_Dropout;
        if (drops ? ot_dropout_acts(x->c, k) : (k->op->flags & OT_RANDOM) != 0)
            return ot_node_fail(k, g->err,
                                "sizes or control flow depend on its random numbers, so no plan can be made%s",
                                !drops                      ? ""
                                : x->c->want == OT_WANT_RUN ? "; use --mode eval"
                                                            : "; use --dropout off");
        ot_value **in = ot_graph_alloc(g, (size_t)(k->n_in + 1) * sizeof *in);
        for (int i = 0; in && i < k->n_in; i++)
            if (k->in[i]) OT_TRY(fetch(x, k->in[i], g->err));
        for (int i = 0; in && i < k->n_in; i++)
            if (k->in[i] && !(in[i] = copied(x, s, k->in[i], twin)))
                return g->err->status != OT_OK ? g->err->status
                                               : ot_node_fail(k, g->err,
                                                              "data-dependent sizes need '%s', "
                                                              "which is unknown before the run",
                                                              k->in[i]->name);
        ot_node *c = in ? ot_graph_node(s, k->op, k->name, k->attrs, in, k->n_in, k->n_out) : NULL;
        if (!c) return g->err->status;
        for (int i = 0; i < k->n_out; i++)
            if (!k->out[i]) c->out[i]->producer = NULL, c->out[i] = NULL;
        OT_TRY(ot_node_infer(c, g->err));
        bool norm = k->op == &ot_op_BatchNormalization;
        if (norm) ot_mark_fed(g);
        OT_TRY(ot_set_mode_as(x->c, k, norm && k->in[0]->mark == OT_FED, s, c));
        for (int i = 0; i < k->n_out && i < c->n_out; i++) {
            if (!c->out[i]) continue;
            twin[k->out[i]->id] = c->out[i];
            origin[s->n_outputs] = k->out[i];
            ot_graph_output(s, c->out[i]);
        }
    }
    return g->err->status;
}

/* Finds the unknown values that v, which has a producer, depends on.  Walks the list of nodes backwards only as far
 * as unresolved values remain, so that a loop pays for its last iteration and not for all.  Returns the first node
 * needed. */
static ot_node *mark_needed(const decider *x, const ot_value *v, char *need)
{
    ot_node *first = v->producer;
    int open = 1; /* values whose producers come earlier */
    need[v->id] = 1;
    for (ot_node *k = v->producer; k && open; k = k->prev) {
        bool wanted = false;
        for (int i = 0; i < k->n_out; i++) {
            if (!k->out[i] || !need[k->out[i]->id]) continue;
            wanted = true;
            open--;
        }
        if (!wanted) continue;
        first = k;
        for (int i = 0; i < k->n_in; i++) {
            const ot_value *in = k->in[i];
            if (!in || need[in->id] || known(x, in)) continue;
            need[in->id] = 1;
            open += in->producer != NULL;
        }
    }
    return first;
}

static ot_status compute(decider *x, ot_graph *g, ot_value *v, const void **out)
{
    OT_TRY(grow(x, g));
    OT_TRY(fetch(x, v, g->err));
    *out = known(x, v);
    if (*out) return OT_OK;
    if (!v->producer)
        return ot_fail(g->err, OT_E_MODEL,
                       "'%s' determines sizes or control flow, but is unknown "
                       "before the run",
                       v->name);
    size_t n = (size_t)g->n_values + 1;
    char *need = calloc(n, 1);
    ot_value **twin = calloc(n, sizeof *twin), **origin = calloc(n, sizeof *origin);
    ot_graph *s = need && twin && origin ? ot_graph_sub(g, "") : NULL;
    ot_status st = s ? OT_OK : ot_fail(g->err, OT_E_NOMEM, "no memory for data-dependent values");
    if (!st) {
        ot_node *first = mark_needed(x, v, need);
        st = copy_cone(x, g, s, first, v->producer, need, twin, origin);
    }
    if (!st) st = ot_lower(s, NULL);
    if (!st) st = run_all(x, s, origin, g->err);
    free(need);
    free(twin);
    free(origin);
    if (!st) *out = known(x, v);
    return st;
}

/* ---- decisions ---------------------------------------------------------------------- */

static ot_status add(decider *x, ot_graph *g, bool made, const ot_value *v, const void *bytes)
{
    enum { MOST = 4096 }; /* each takes time proportional to the length of the graph so far */
    ot_decisions *d = x->d;
    size_t size = ot_bytes(&v->shape, v->dtype);
    if (d->n == MOST)
        return ot_fail(g->err, OT_E_MODEL,
                       "'%s': more than %d data-dependent decisions in one batch; a "
                       "Loop may not end",
                       v->name, MOST);
    if (d->n == d->cap) {
        int cap = d->cap ? 2 * d->cap : 16;
        ot_decision *wider = realloc(d->list, (size_t)cap * sizeof *wider);
        if (!wider) return ot_fail(g->err, OT_E_NOMEM, "no memory for data-dependent values");
        d->list = wider;
        d->cap = cap;
    }
    void *copy = malloc(size + 1);
    if (!copy) return ot_fail(g->err, OT_E_NOMEM, "no memory for data-dependent values");
    if (size) memcpy(copy, bytes, size);
    d->list[d->n++] = (ot_decision){ made, v->dtype, v->shape, copy };
    return OT_OK;
}

static ot_status replayed(decider *x, const ot_node *n, bool made, const ot_decision **out)
{
    if (x->next >= x->d->n || x->d->list[x->next].made != made)
        return ot_fail(x->plan->graph->err, OT_E_INTERNAL,
                       "%s: the batch needs another plan than the one chosen for "
                       "it",
                       n->name);
    *out = &x->d->list[x->next++];
    return OT_OK;
}

ot_status ot_decide_input(ot_graph *g, ot_node *n, int i)
{
    decider *x = g->room->decider;
    const ot_decision *one;
    const void *bytes;
    ot_value *v = n->in[i];
    if (!x)
        return ot_node_fail(n, g->err, "input %d ('%s') depends on data; it must be known before the run", i, v->name);
    if (!ot_dtype_bits(v->dtype))
        return ot_node_fail(n, g->err,
                            "input %d ('%s') is not numeric, but its value is "
                            "needed to make a plan",
                            i, v->name);
    x->d->wanted = true;
    if (x->d->complete) {
        OT_TRY(replayed(x, n, false, &one));
    } else {
        OT_TRY(compute(x, g, v, &bytes));
        OT_TRY(add(x, g, false, v, bytes));
        one = &x->d->list[x->d->n - 1];
    }
    n->in[i] = ot_graph_const(g, v->name, one->dtype, &one->shape, one->bytes);
    return g->err->status;
}

/* Makes output i of n an input of the plan. */
static ot_status make_input(decider *x, ot_graph *g, ot_node *n, int i, const ot_decision *one)
{
    ot_value *v = n->out[i];
    ot_plan *p = x->plan;
    ot_value **list = ot_graph_alloc(p->graph, (size_t)(p->n_made + 1) * sizeof *list);
    if (!list) return g->err->status;
    if (p->n_made) memcpy(list, p->made, (size_t)p->n_made * sizeof *list);
    list[p->n_made++] = v;
    p->made = list;
    v->producer = NULL;
    v->role = OT_INPUT;
    v->dtype = one->dtype;
    v->shape = one->shape;
    n->out[i] = NULL;
    ot_graph_input(p->graph, v);
    return g->err->status;
}

/* The results of n for this batch, as constants of a node beside g. */
static ot_status results(decider *x, ot_graph *g, const ot_node *n, ot_node **out)
{
    ot_graph *s = ot_graph_sub(g, "");
    ot_value **in = s ? ot_graph_alloc(g, (size_t)(n->n_in + 1) * sizeof *in) : NULL;
    for (int i = 0; in && i < n->n_in; i++) {
        const void *bytes = NULL;
        if (!n->in[i]) continue;
        OT_TRY(compute(x, g, n->in[i], &bytes));
        if (!(in[i] = ot_graph_value(s, n->in[i]->name, OT_CONST, n->in[i]->dtype, &n->in[i]->shape)))
            return g->err->status;
        in[i]->data = bytes;
    }
    *out = in ? ot_graph_node(s, n->op, n->name, n->attrs, in, n->n_in, n->n_out) : NULL;
    return *out ? ot_node_infer(*out, g->err) : g->err->status;
}

ot_status ot_decide_outputs(ot_graph *g, ot_node *n, bool *over)
{
    decider *x = g->room->decider;
    ot_node *twin = NULL;
    bool fed = false;
    *over = false;
    for (int i = 0; i < n->n_in; i++) fed |= n->in[i] && !ot_is_const(n->in[i]);
    if (!x || !fed || !(n->op->flags & OT_COUNTED)) return OT_OK;
    x->d->wanted = true;
    if (!x->d->complete) OT_TRY(results(x, g, n, &twin));
    for (int i = 0; i < n->n_out; i++) {
        const ot_decision *one;
        if (!n->out[i]) continue;
        if (twin) OT_TRY(add(x, g, true, twin->out[i], twin->out[i]->data));
        if (twin) one = &x->d->list[x->d->n - 1];
        else OT_TRY(replayed(x, n, true, &one));
        OT_TRY(make_input(x, g, n, i, one));
    }
    *over = true;
    return OT_OK;
}

enum { MOST_SIZES = 4096 }; /* most elements of an input that a rule reads: sizes, scales, a condition per row */

ot_status ot_decide_sizes(ot_graph *g, ot_node *n, bool *some)
{
    *some = false;
    if (n->op->flags & OT_IN_TRAINING) return OT_OK; /* whether a weight trains does not depend on data */
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *v = n->in[i];
        if (!v || ot_is_const(v) || !ot_is_nondiff(n->op, i) || !ot_shape_known(&v->shape) ||
            ot_numel(&v->shape) > MOST_SIZES)
            continue;
        OT_TRY(ot_decide_input(g, n, i));
        *some = true;
    }
    return OT_OK;
}
