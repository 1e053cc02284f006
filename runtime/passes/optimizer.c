/* optimizer.c - gradient accumulation, norm, clipping, and one update per weight by a formula of runtime/optimizers.
 *
 * If updates may be skipped (fp16, --on-nonfinite skip), the graph decides: every value that the update assigns is
 * selected between new and old, and a state counts the updates that took place.  With --on-nonfinite skip so are the running
 * statistics; of several batches for an update, which move them one after the other, each keeps those that are not finite.
 *
 * --unfreeze: the values of a weight and its states are selected likewise, by the number of the update; its own count of
 * updates begins when it does.
 *
 * --ema: a state per weight and running statistic has its exponential moving average, as AveragedModel of PyTorch with
 * use_buffers: the first update sets it, every later one moves it by 1 - decay.
 *
 * --swa: the same states are the mean of the weights after update swa_after + swa_every, swa_after + 2 swa_every ..., and after the
 * last one.  Until the first of these they are equal to the weights. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/kernels/reduce.h"
#include "runtime/optimizers/update.h"
#include "runtime/passes/evidence.h"
#include "runtime/passes/lossscale.h"

/* All updates of a plan: x is the current one. */
typedef struct updates {
    ot_plan *p;
    const ot_config *c;
    const ot_optimizer *how;
    ot_spec spec; /* the user's keys, followed by the defaults of `how` */
    ot_update x;
    ot_value *unscale; /* factor for gradients, f32; NULL: 1 */
    ot_value *factor;  /* factor that clips their norm; NULL: none */
    int layers;        /* --layer-decay: the last layer */
    ot_value *moves;   /* --ema, --swa: what an average takes of the new value, f64; NULL: there are none */
} updates;

/* Is it "norms" or "biases", or does a glob match? */
static bool no_decay(const ot_config *c, const ot_value *w)
{
    char slot = w->slot_op ? ot_slot_at(w->slot_op, w->slot_input) : '-';
    bool is_norm = strchr("no", slot) != NULL, is_bias = strchr("BAo", slot) || (slot == 'a' && w->shape.rank == 1);
    for (int i = 0; i < c->options.n_no_decay; i++) {
        const char *k = c->options.no_decay[i];
        if ((!strcmp(k, "norms") && is_norm) || (!strcmp(k, "biases") && is_bias) || ot_pattern_rank(k, w->name) >= 0)
            return true;
    }
    return false;
}

/* By the most specific pattern; the last of several equally specific ones. */
static double lr_scale(const ot_config *c, const ot_value *w)
{
    double s = 1;
    int best = 0;
    for (int i = 0; i < c->options.n_lr_scale; i++) {
        int rank = ot_pattern_rank(c->options.lr_scale[i], w->name);
        if (rank >= best) best = rank, s = c->options.lr_scale_by[i];
    }
    return s;
}

static bool decays_by_layer(const ot_config *c) { return c->options.layer_decay > 0 && c->options.layer_decay != 1; }

/* --layer-decay: of a weight in no layer that could be found as of the first. */
static double layer_scale(const updates *all, const ot_value *w)
{
    if (!decays_by_layer(all->c)) return 1;
    return pow(all->c->options.layer_decay, all->layers - (w->layer < 0 ? 0 : w->layer));
}

/* Updates before the weight begins to train (--unfreeze): of the most specific pattern, as lr_scale. */
static double updates_before(const ot_config *c, const ot_value *w)
{
    int64_t epoch = 1;
    int best = 0;
    for (int i = 0; i < c->options.n_unfreeze; i++) {
        int rank = ot_pattern_rank(c->options.unfreeze[i], w->name);
        if (rank >= best) best = rank, epoch = c->options.unfreeze_at[i];
    }
    return (double)(epoch - 1) * (double)c->epoch_updates;
}

static ot_value *knob(ot_graph *g, const char *name)
{
    ot_value *v = ot_graph_value(g, name, OT_INPUT, OT_F64, &OT_SCALAR);
    ot_graph_input(g, v);
    return v;
}

/* Gradients of several batches are summed in a state; the update phase reads their mean. */
static void accumulate(ot_plan *p, ot_update *x, int times)
{
    for (int i = 0; i < p->n_weights; i++) {
        ot_value *w = p->weights[i];
        x->w = x->file_w = w;
        ot_value *sum = moment(x, OT_STATE_ACCUMULATED, 0);
        w->grad = keep(x, sum, add(x, sum, scaled(x, ot_cast(&x->b, w->grad, w->dtype), 1.0 / times)));
    }
}

static void forget(ot_plan *p, ot_update *x)
{
    ot_graph *g = p->graph;
    for (int i = 0, n = g->n_assigns; i < n; i++) {
        ot_value *s = g->assigns[i].state;
        if (s->kind != OT_STATE_ACCUMULATED) continue;
        ot_graph_assign(g, s, ot_expand(&x->b, ot_scalar(&x->b, s->dtype, 0), &s->shape));
    }
}

/* Reads a gradient that was only cast before its cast: the update casts by itself. */
static ot_value *uncast(ot_value *g)
{
    ot_value *narrow = ot_cast_from(g);
    return narrow && (narrow->dtype == OT_F16 || narrow->dtype == OT_BF16) && g->dtype == OT_F32 ? narrow : g;
}

/* The sum of v[0..n), by as many as a Map reads at a time: the Maps of a level do not wait for each other, and on a device are
 * one launch.  v: overwritten. */
static ot_value *sum_of(ot_update *x, ot_value **v, int n)
{
    while (n > 1) {
        int sums = 0;
        for (int i = 0; i < n; sums++) {
            ot_value *sum = v[i++];
            while (i < n && i % OT_MAP_IN) sum = add(x, sum, v[i++]);
            v[sums] = sum;
        }
        n = sums;
    }
    return v[0];
}

/* 1 divided by the root of the number of elements that copy the same one: their squares add up to that of the parameter. */
static ot_value *shares_of(ot_update *x, const ot_value *w)
{
    int64_t groups = 0, n = ot_numel(&w->shape);
    ot_graph *g = x->b.graph;
    const int32_t *group = ot_copies_of(g, w, &groups);
    int32_t *count = ot_graph_alloc(g, (size_t)(groups + 1) * sizeof *count);
    float *share = ot_graph_alloc(g, (size_t)n * sizeof *share);
    if (!group || !count || !share) return NULL;
    for (int64_t i = 0; i < n; i++) count[group[i]]++;
    for (int64_t i = 0; i < n; i++) share[i] = 1 / sqrtf((float)count[group[i]]);
    return ot_graph_const_of(g, w->name, OT_F32, &w->shape, share);
}

/* The L2 norm over all gradients, in f32 (f64 for f64 weights).  What an exporter wrote more than once counts once. */
static ot_value *global_norm(ot_plan *p, ot_update *x, const ot_config *c)
{
    ot_value **sums = ot_graph_alloc(p->graph, (size_t)p->n_weights * sizeof *sums);
    int n = 0;
    for (int i = 0; i < p->n_weights && sums; i++) {
        ot_value *g = p->weights[i]->grad, *share;
        if (!g) return NULL;
        if (p->weights[i]->copy) continue;
        if (ot_holds_copies(p->weights[i]) && (share = shares_of(x, p->weights[i])))
            g = mul(x, g, ot_cast(&x->b, share, g->dtype));
        ot_reduce a = { .kind = OT_REDUCE_SUMSQ, .axes = ((int64_t)1 << g->shape.rank) - 1, .wide = 1 };
        ot_value *s = ot_emit(&x->b, &ot_op_Reduce, &a, OT_IN(g));
        s = ot_cast(&x->b, s, OT_F64);
        double before = c ? updates_before(c, p->weights[i]) : 0;
        if (before > 0 && x->t)
            s = ot_map3(&x->b, OT_FN_Where, 0, 0, ot_map2(&x->b, OT_FN_Greater, 0, 0, x->t, wide(x, before)), s,
                        wide(x, 0));
        sums[n++] = s;
    }
    return n ? root(x, sum_of(x, sums, n)) : NULL;
}

static ot_value *clipped(ot_update *x, const ot_config *c, ot_value *g, ot_value *factor)
{
    if (c->options.clip_norm > 0) g = mul(x, g, ot_cast(&x->b, factor, g->dtype));
    if (c->options.clip_value > 0)
        g = ot_map3(&x->b, OT_FN_Clip, 0, 0, g, ot_scalar(&x->b, g->dtype, -c->options.clip_value),
                    ot_scalar(&x->b, g->dtype, c->options.clip_value));
    return g;
}

/* A weight stored in half precision trains through an f32 master copy. */
static ot_value *master(ot_update *x)
{
    ot_value *w = x->file_w;
    if (w->dtype == OT_F32 || w->dtype == OT_F64) return w;
    ot_graph *g = x->b.graph;
    int64_t n = ot_numel(&w->shape);
    float *data = ot_graph_alloc(g, (size_t)n * sizeof *data);
    for (int64_t i = 0; data && i < n; i++) data[i] = (float)ot_get_f64(w->data, w->dtype, i);
    ot_value *m = data ? ot_graph_state(g, OT_STATE_MASTER, w, OT_F32, &w->shape, 0) : NULL;
    if (m) m->data = data;
    return m;
}

/* --lookahead: every k updates the slow weight moves by a part of the way to the new weight, which becomes it.
 * Source  Zhang et al. 2019 */
static ot_value *look_ahead(updates *all, ot_value *now)
{
    ot_update *x = &all->x;
    const ot_plan_options *o = &all->c->options;
    ot_value *slow = moment(x, OT_STATE_SLOW, 0);
    if (!slow || !now) return NULL;
    slow->data = x->w->data;
    ot_value *every = wide(x, (double)o->lookahead);
    ot_value *due = ot_map2(&x->b, OT_FN_Equal, 0, 0, ot_map2(&x->b, OT_FN_FloorMod, 0, 0, x->t, every), wide(x, 0));
    ot_value *moved = add(x, slow, scaled(x, sub(x, now, slow), o->lookahead_alpha));
    (void)keep(x, slow, ot_map3(&x->b, OT_FN_Where, 0, 0, due, moved, slow));
    return ot_map3(&x->b, OT_FN_Where, 0, 0, due, moved, now);
}

/* What an average takes of the new value. */
static ot_value *average_moves(ot_update *x, const ot_plan_options *o)
{
    if (o->ema > 0)
        return ot_map3(&x->b, OT_FN_Where, 0, 0, ot_map2(&x->b, OT_FN_LessOrEqual, 0, 0, x->t, wide(x, 1)), wide(x, 1),
                       wide(x, 1 - o->ema));
    ot_value *since = sub(x, x->t, wide(x, (double)o->swa_after)), *every = wide(x, (double)o->swa_every);
    ot_value *n = ot_map1(&x->b, OT_FN_Ceil, 0, 0, quo(x, since, every));
    ot_value *counts = ot_map2(&x->b, OT_FN_Equal, 0, 0, mul(x, n, every), since),
             *last = ot_map2(&x->b, OT_FN_Equal, 0, 0, x->t, wide(x, (double)o->swa_last));
    ot_value *part = ot_map3(&x->b, OT_FN_Where, 0, 0, ot_map2(&x->b, OT_FN_Or, 0, 0, counts, last),
                             quo(x, wide(x, 1), n), wide(x, 0));
    return ot_map3(&x->b, OT_FN_Where, 0, 0, ot_map2(&x->b, OT_FN_LessOrEqual, 0, 0, n, wide(x, 1)), wide(x, 1), part);
}

/* The average of v, a weight or a statistic, that is `now` after this update; in f32 where v has fewer bits. */
static void average(updates *all, ot_value *v, ot_value *now)
{
    ot_update *x = &all->x;
    ot_graph *g = x->b.graph;
    ot_dtype type = v->dtype == OT_F64 ? OT_F64 : OT_F32;
    int64_t n = ot_numel(&v->shape);
    if (!all->moves || !ot_is_float(v->dtype)) return;
    void *start = v->data ? ot_graph_alloc(g, ot_bytes(&v->shape, type)) : NULL;
    ot_value *state = ot_graph_state(g, OT_STATE_AVERAGE, v, type, &v->shape, 0);
    if (!state || !now) return;
    for (int64_t i = 0; start && i < n; i++) ot_set_f64(start, type, i, ot_get_f64(v->data, v->dtype, i));
    state->data = start;
    ot_value *part = ot_cast(&x->b, all->moves, type), *rest = ot_cast(&x->b, sub(x, wide(x, 1), all->moves), type);
    (void)keep(x, state, add(x, mul(x, rest, state), mul(x, part, ot_cast(&x->b, now, type))));
}

static bool is_statistic(const ot_value *v) { return v->role == OT_STATE && v->kind == OT_STATE_OF_FILE; }

static ot_value *is_finite(ot_update *x, ot_value *v)
{
    ot_value *size = ot_map1(&x->b, OT_FN_Abs, 0, 0, ot_cast(&x->b, v, OT_F64));
    return ot_map2(&x->b, OT_FN_LessOrEqual, 0, 0, size, wide(x, DBL_MAX));
}

/* Running statistics: what the batch assigns to them, where it does. */
static void average_statistics(updates *all)
{
    ot_graph *g = all->p->graph;
    for (int i = 0, n = g->n_values; i < n && all->moves; i++) {
        ot_value *v = g->values[i], *now = NULL;
        if (!is_statistic(v)) continue;
        for (int k = 0; k < g->n_assigns && !now; k++)
            if (g->assigns[k].state == v) now = g->assigns[k].value;
        if (now) average(all, v, now);
    }
}

/* Running statistics that the batch assigns: old ones where the update is skipped (ok), or (ok NULL) where the new ones are not
 * finite. */
static void guard_statistics(updates *all, ot_value *ok)
{
    ot_update *x = &all->x;
    ot_graph *g = all->p->graph;
    for (int i = 0; i < g->n_assigns; i++) {
        ot_assign *a = &g->assigns[i];
        if (!is_statistic(a->state) || !ot_is_float(a->state->dtype)) continue;
        a->value = ot_map3(&x->b, OT_FN_Where, 0, 0, ok ? ok : is_finite(x, a->value), a->value, a->state);
        if (!a->value) return;
    }
}

static void update(updates *all, ot_value *w)
{
    ot_update *x = &all->x;
    const ot_config *c = all->c;
    double scale = lr_scale(c, w) * layer_scale(all, w), before = updates_before(c, w);
    ot_value *ok = x->ok, *t = x->t;
    x->file_w = w;
    x->w = master(x);
    if (!x->w) return;
    x->g = ot_cast(&x->b, w->grad, x->w->dtype);
    if (all->unscale) x->g = mul(x, x->g, narrow(x, all->unscale));
    x->g = clipped(x, c, x->g, all->factor);
    bool plain = no_decay(c, w);
    if (c->options.l1 > 0 && !plain)
        x->g = add(x, x->g, scaled(x, ot_map1(&x->b, OT_FN_Sign, 0, 0, x->w), c->options.l1));
    x->decay = plain ? 0 : par(x, "weight_decay");
    x->lr = scale == 1 ? all->p->knobs.lr : mul(x, all->p->knobs.lr, wide(x, scale));
    if (before > 0) {
        ot_value *begun = ot_map2(&x->b, OT_FN_Greater, 0, 0, t, wide(x, before));
        x->ok = ok ? ot_map2(&x->b, OT_FN_And, 0, 0, ok, begun) : begun;
        x->t = larger(x, sub(x, t, wide(x, before)), wide(x, 1));
    }
    ot_value *now = all->how->build(x);
    if (now && c->options.lookahead) now = look_ahead(all, now);
    if (!now) return;
    if (x->w != w) keep(x, x->w, now);
    average(all, w, now);
    keep(x, w, ot_cast(&x->b, now, w->dtype));
    x->ok = ok;
    x->t = t;
}

/* The loss of the batches of this update: their sum if there are several. */
static ot_value *losses(ot_plan *p, ot_update *x, const ot_config *c)
{
    ot_value *sum =
        c->accumulate > 1 ? ot_graph_state(p->graph, OT_STATE_ACCUMULATED, NULL, p->loss->dtype, &OT_SCALAR, 0) : NULL;
    return sum ? keep(x, sum, add(x, sum, p->loss)) : p->loss;
}

/* Norm, scale and the skip decision; sets x->ok (the update takes place) and x->t (its number). */
static void decide(updates *all, ot_value *loss)
{
    ot_plan *p = all->p;
    ot_update *x = &all->x;
    const ot_config *c = all->c;
    x->t = p->knobs.t;
    p->grad_norm = global_norm(p, x, c);
    if (p->loss_scale) {
        ot_value *scale = ot_cast(&x->b, p->loss_scale, OT_F64);
        p->grad_norm = quo(x, p->grad_norm, scale);
        all->unscale = ot_cast(&x->b, quo(x, wide(x, 1), scale), OT_F32);
    }
    ot_plan_keep(p, p->grad_norm);
    if (p->knobs.t || !p->grad_norm) return;
    ot_value *ok = is_finite(x, p->grad_norm);
    if (c->options.skip_nonfinite) ok = ot_map2(&x->b, OT_FN_And, 0, 0, ok, is_finite(x, loss));
    if (p->loss_scale) ot_loss_scale_update(p, &x->b, ok);
    ot_value *made = ot_graph_state(p->graph, OT_STATE_UPDATES, NULL, OT_F64, &OT_SCALAR, 0);
    x->ok = ok;
    x->t = keep(x, made, add(x, made, wide(x, 1)));
    ot_value *scalars[] = { x->t, x->ok, all->unscale }; /* computed once for all updates */
    for (int i = 0; i < OT_LEN(scalars); i++)
        if (scalars[i]) ot_plan_keep(p, scalars[i]);
}

/* A line per layer: its factor and its weights. */
static void say_layers(const updates *all)
{
    enum { SHOWN = 4 };
    ot_plan *p = all->p;
    for (int k = all->layers; k >= 0; k--) {
        const char *names = "";
        int n = 0;
        for (int i = 0; i < p->n_weights && names; i++) {
            const ot_value *w = p->weights[i];
            if ((w->layer < 0 ? 0 : w->layer) != k || n++ >= SHOWN) continue;
            names = ot_arena_printf(p->graph->arena, "%s%s'%s'", names, n > 1 ? ", " : "", w->name);
        }
        if (n)
            ot_plan_note(p, "--layer-decay: layer %d of %d, learning rate x %.4g: %s%s", k, all->layers,
                         pow(all->c->options.layer_decay, all->layers - k), names ? names : "",
                         n > SHOWN ? " ..." : "");
    }
}

static void say_unfrozen(const updates *all)
{
    const ot_plan_options *o = &all->c->options;
    for (int i = 0; i < o->n_unfreeze; i++) {
        int n = 0;
        for (int k = 0; k < all->p->n_weights; k++) n += ot_pattern_rank(o->unfreeze[i], all->p->weights[k]->name) >= 0;
        ot_plan_note(all->p, "--unfreeze %s: %d weight%s frozen until epoch %lld", o->unfreeze[i], n,
                     n == 1 ? " is" : "s are", (long long)o->unfreeze_at[i]);
    }
}

/* Finds the optimizer; only its keys are accepted. */
static ot_status begin(updates *all)
{
    ot_graph *g = all->p->graph;
    const ot_spec *o = &all->c->options.optimizer;
    all->how = ot_optimizer_find(o->name);
    if (!all->how) return ot_registry_unknown(&ot_optimizers, "optimizer", o->name, g->arena, g->err);
    for (int k = 0; k < o->n; k++)
        if (!ot_entry_key(&all->how->entry, o->param[k].key))
            return ot_fail(g->err, OT_E_USAGE, "--optimizer %s has no parameter '%s'; supported: %s", o->name,
                           o->param[k].key, ot_entry_key_names(&all->how->entry, g->arena));
    all->spec = *o;
    all->spec.entry = &all->how->entry;
    all->x = (ot_update){ .b = { .graph = g }, .o = &all->spec, .moves_momentum = all->c->schedules_momentum };
    return OT_OK;
}

/* The file's algorithm computes the updates; the norm of its gradients is reported nevertheless. */
static ot_status own_norm(ot_plan *p)
{
    ot_update x = { .b = { .graph = p->graph } };
    p->grad_norm = p->n_weights ? global_norm(p, &x, NULL) : NULL;
    if (p->grad_norm) ot_plan_keep(p, p->grad_norm);
    return p->graph->err->status;
}

ot_status ot_pass_optimizer(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    p->knobs.seed = g->seed;
    p->knobs.counter = g->counter;
    if (c->want != OT_WANT_TRAIN) return OT_OK;
    if (p->own) return own_norm(p);
    updates all = { .p = p, .c = c };
    ot_update *x = &all.x;
    OT_TRY(begin(&all));
    p->knobs.lr = knob(g, "onnxtrain.lr");
    p->knobs.momentum = x->momentum = knob(g, "onnxtrain.momentum");
    if (!p->loss_scale && !c->options.skip_nonfinite) p->knobs.t = knob(g, "onnxtrain.t");
    for (int i = 0; i < p->n_weights; i++) p->weights[i]->grad = uncast(p->weights[i]->grad);
    if (c->accumulate > 1) accumulate(p, x, c->accumulate);
    if (c->accumulate > 1 && c->options.skip_nonfinite) guard_statistics(&all, NULL);
    ot_value *loss = c->options.skip_nonfinite ? losses(p, x, c) : NULL;
    g->phase = OT_PHASE_UPDATE;
    decide(&all, loss);
    if (c->accumulate <= 1 && c->options.skip_nonfinite && x->ok) guard_statistics(&all, x->ok);
    if (c->options.clip_norm > 0 && p->grad_norm) {
        ot_value *ratio = quo(x, wide(x, c->options.clip_norm), add(x, p->grad_norm, wide(x, 1e-6)));
        all.factor = ot_map2(&x->b, OT_FN_Min, 0, 0, ratio, wide(x, 1));
    }
    for (int i = 0; i < p->n_weights && decays_by_layer(c); i++)
        if (p->weights[i]->layer > all.layers) all.layers = p->weights[i]->layer;
    if (decays_by_layer(c)) say_layers(&all);
    say_unfrozen(&all);
    if (ot_averages(&c->options)) all.moves = average_moves(x, &c->options);
    for (int i = 0; i < p->n_weights && g->err->status == OT_OK; i++) update(&all, p->weights[i]);
    average_statistics(&all);
    if (x->vectors)
        ot_plan_note(p, "--optimizer %s: %d of %d weights are vectors or scalars and use the rule of AdamW",
                     all.how->entry.name, x->vectors, p->n_weights);
    forget(p, x);
    ot_status s = g->err->status == OT_OK && !p->described ? ot_lower(g, c->device) : g->err->status;
    g->phase = OT_PHASE_BATCH;
    return s;
}
