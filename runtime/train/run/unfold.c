/* unfold.c - --unfold-bn: convolutions train with a BatchNormalization of their own, which the file does not get.
 *
 *     model ─classify→ which (passes/unfold.c) ─a few batches→ statistics ─→ a copy of the model, which trains ─fold→ weight, bias
 *
 * With mean m and variance v of what a convolution computes, the norm starts with scale sqrt(v + epsilon) and bias m: in
 * evaluation mode the copy answers as the file does.  Folding is the inverse: what did not train keeps its bytes.
 *
 * Numerics  statistics and folding in double. */
#include "runtime/train/run/unfold.h"

#include <math.h>
#include <string.h>

#include "runtime/passes/unfold.h"
#include "runtime/train/run/dry_run.h"
#include "runtime/train/run/lora.h"

enum { BATCHES = 8 }; /* that the statistics are of */

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for --unfold-bn"); }

/* ---- statistics ------------------------------------------------------------------- */

/* Sums over samples of the means and mean squares of the channels of one convolution. */
typedef struct sums {
    double *mean, *square;
    int64_t samples;
} sums;

/* What the plan says of one convolution for a batch: its outputs i (means) and i + 1 (variances within samples). */
static ot_status add_batch(ot_session *x, int slot, int i, sums *s, ot_arena *a, ot_error *err)
{
    const ot_graph *g = x->slot[slot].plan->graph;
    const ot_value *m = g->outputs[i], *v = g->outputs[i + 1];
    int64_t samples = m->shape.dim[0], channels = m->shape.dim[1];
    void *means = ot_arena_alloc(a, ot_bytes(&m->shape, m->dtype) + 1),
         *vars = ot_arena_alloc(a, ot_bytes(&v->shape, v->dtype) + 1);
    if (!means || !vars) return no_memory(err);
    OT_TRY(ot_exec_read(x->slot[slot].exec, m, means, err));
    OT_TRY(ot_exec_read(x->slot[slot].exec, v, vars, err));
    for (int64_t k = 0; k < samples * channels; k++) {
        double mean = ot_get_f64(means, m->dtype, k);
        s->mean[k % channels] += mean;
        s->square[k % channels] += mean * mean + ot_get_f64(vars, v->dtype, k);
    }
    s->samples += samples;
    return OT_OK;
}

static ot_status run_batches(ot_trainer *t, ot_session *x, int n, sums *s, ot_error *err)
{
    int slot;
    int64_t samples = t->train.samples, full = samples / t->batch,
            batches = full < 1         ? 1
                      : full < BATCHES ? full
                                       : BATCHES;
    ot_numbers ignored;
    OT_TRY(ot_session_plan(x, OT_WANT_RUN, &t->train, t->batch, 1, &slot, err));
    for (int k = 0; k < t->train.n; k++)
        OT_TRY(ot_feeder_prepare(&t->train.f[k], t->batch, t->x.a, err)); /* not of x, which goes */
    OT_TRY(ot_session_allocate(x, err));
    ot_permutation_shuffle(&t->order, t->s.seed, 0);
    for (int64_t b = 0; b < batches; b++) {
        ot_arena *a = ot_arena_new();
        for (int64_t i = 0; i < t->batch; i++) t->index[i] = ot_permutation_at(&t->order, (b * t->batch + i) % samples);
        ot_status r = a ? ot_session_batch(x, slot, t->index, &ignored, err) : no_memory(err);
        for (int i = 0; !r && i < n; i++) r = add_batch(x, slot, 2 * i, &s[i], a, err);
        if (a) ot_arena_free(a);
        OT_TRY(r);
    }
    return OT_OK;
}

static ot_status measure(ot_trainer *t, const ot_unfolded *u, int n, sums *s, ot_error *err)
{
    ot_error sticky = { 0 };
    ot_session x;
    ot_settings plain = t->s;
    ot_graph *g = ot_graph_clone(t->m->file->graph, &sticky);
    if (!g || ot_unfold_measure(g, u, n)) {
        if (g) ot_graph_free(g);
        return ot_fail(err, sticky.status, "--unfold-bn: %s", sticky.text);
    }
    ot_imported file = *t->m->file;
    ot_model m = *t->m;
    file.graph = g;
    m.file = &file;
    plain.options.eval_mode = true;
    plain.options.precision = OT_FP32;
    plain.options.n_losses = 0;
    ot_status r = ot_session_open(&x, &m, &plain, &t->x, err);
    if (!r) r = run_batches(t, &x, n, s, err);
    if (!r && !s->samples) r = ot_fail(err, OT_E_INTERNAL, "--unfold-bn: the data has no sample to measure");
    ot_session_close(&x);
    ot_graph_free(g);
    return r;
}

/* ---- the copy ------------------------------------------------------------------------ */

/* With which the norm does nothing in evaluation mode.  s NULL: mean 0, variance 1. */
static ot_status start(ot_trainer *t, ot_unfolded *u, const sums *s, ot_error *err)
{
    void *p[OT_UNFOLDED_PARTS];
    const ot_source *bias = &t->m->file->sources[u->bias];
    for (int k = 0; k < OT_UNFOLDED_PARTS; k++) {
        p[k] = ot_arena_alloc(t->a, ot_bytes(&bias->shape, u->dtype) + 1);
        if (!p[k]) return no_memory(err);
        u->start[k] = p[k];
    }
    for (int64_t c = 0; c < u->channels; c++) {
        double b = ot_get_f64(bias->data, bias->dtype, c), mean = s ? s->mean[c] / (double)s->samples : b;
        double var = s ? fmax(s->square[c] / (double)s->samples - mean * mean, 0) : 1;
        if (!isfinite(mean) || !isfinite(var))
            return ot_fail(err, OT_E_DIVERGED, "--unfold-bn: %s: the output of the convolution is not finite", u->name);
        ot_set_f64(p[OT_UNFOLDED_VAR], u->dtype, c, var);
        ot_set_f64(p[OT_UNFOLDED_SCALE], u->dtype, c,
                   sqrt(ot_get_f64(p[OT_UNFOLDED_VAR], u->dtype, c) + OT_UNFOLD_EPSILON));
        ot_set_f64(p[OT_UNFOLDED_BIAS], u->dtype, c, mean);
        ot_set_f64(p[OT_UNFOLDED_MEAN], u->dtype, c, mean - b);
    }
    return OT_OK;
}

/* The file's tensors, and behind them the norms'. */
static ot_source *with_norms(ot_trainer *t, ot_unfolded *u, int n)
{
    const ot_imported *f = t->m->file;
    int most = f->n_sources + n * OT_UNFOLDED_PARTS;
    ot_source *s = ot_arena_alloc(t->a, sizeof *s * (size_t)(most + 1));
    if (!s) return NULL;
    if (f->n_sources) memcpy(s, f->sources, sizeof *s * (size_t)f->n_sources);
    for (int i = 0; i < n; i++) {
        u[i].first = f->n_sources + i * OT_UNFOLDED_PARTS;
        for (int k = 0; k < OT_UNFOLDED_PARTS; k++) {
            const char *name = ot_arena_printf(t->a, "%s/%s", f->sources[u[i].weight].name, ot_unfolded_part[k]);
            if (!name) return NULL;
            s[u[i].first + k] = (ot_source){ .name = name,
                                             .dtype = u[i].dtype,
                                             .shape = { .rank = 1, .dim = { u[i].channels } },
                                             .data = u[i].start[k],
                                             .order = -1 };
        }
    }
    return s;
}

static ot_status make_copy(ot_trainer *t, ot_unfolded *u, int n, ot_error *err)
{
    ot_imported *file = ot_arena_alloc(t->a, sizeof *file);
    ot_model *m = ot_arena_alloc(t->a, sizeof *m);
    ot_source *sources = with_norms(t, u, n);
    ot_error sticky = { 0 };
    if (!file || !m || !sources) return no_memory(err);
    *file = *t->m->file;
    *m = *t->m;
    m->file = file;
    file->sources = sources;
    file->n_sources += n * OT_UNFOLDED_PARTS;
    file->graph = ot_graph_clone(t->m->file->graph, &sticky);
    if (!file->graph || ot_unfold_insert(file->graph, u, n)) {
        if (file->graph) ot_graph_free(file->graph);
        return ot_fail(err, sticky.status, "--unfold-bn: %s", sticky.text);
    }
    file->graph->err = NULL; /* it is complete; sticky goes */
    t->unfolded.list = u;
    t->unfolded.n = n;
    t->m = t->x.model = m;
    return OT_OK;
}

/* A function of the file that is called twice: one tensor in the file is two here, and can hold one value. */
static bool has_one_place(const ot_imported *f, int source)
{
    for (int i = 0; i < f->n_sources; i++)
        if (i != source && f->sources[i].order == f->sources[source].order) return false;
    return f->sources[source].order >= 0;
}

static ot_status choose(ot_trainer *t, ot_unfolded **u, int *n, ot_error *err)
{
    ot_plan p;
    int all, shared, kept = 0;
    OT_TRY(ot_classified(t->m, &t->s, &p, err));
    ot_unfolded *found = ot_unfold_find(p.graph, t->m->file->producer, &all, &shared);
    *u = found ? ot_arena_alloc(t->a, sizeof **u * (size_t)(all + 1)) : NULL;
    for (int i = 0; *u && i < all; i++) {
        if (!has_one_place(t->m->file, found[i].weight) || !has_one_place(t->m->file, found[i].bias)) {
            shared++;
            continue;
        }
        (*u)[kept] = found[i];
        (*u)[kept].name = ot_arena_strdup(t->a, found[i].name);
        if (!(*u)[kept++].name) *u = NULL;
    }
    ot_graph_free(p.graph);
    if (!*u) return no_memory(err);
    *n = kept;
    if (!kept)
        return ot_fail(err, OT_E_USAGE,
                       "--unfold-bn: no convolution with a folded BatchNormalization found: it needs "
                       "a trained weight, a bias of its own, and an activation, a pooling or an Add "
                       "after it%s",
                       shared ? " (some share weight or bias with other layers: see --untie)" : "");
    for (int i = 0; i < kept; i++)
        ot_find(&t->findings, OT_FINDING_NOTE, (*u)[i].name, NULL,
                "--unfold-bn: the convolutions train with their own BatchNormalization, which is folded into weight "
                "and bias when the file is written");
    if (shared)
        ot_find(&t->findings, OT_FINDING_WARNING, NULL, "use --untie to give each its own",
                "--unfold-bn: %d convolution%s weight or bias with other layers and get%s no BatchNormalization",
                shared, shared > 1 ? "s share" : " shares", shared > 1 ? "" : "s");
    return OT_OK;
}

ot_status ot_trainer_unfold(ot_trainer *t, bool measured, ot_error *err)
{
    ot_unfolded *u;
    int n;
    if (!t->s.unfold_bn || t->unfolded.n) return OT_OK;
    OT_TRY(choose(t, &u, &n, err));
    sums *s = ot_arena_alloc(t->a, sizeof *s * (size_t)n);
    if (!s) return no_memory(err);
    for (int i = 0; i < n; i++) {
        s[i].mean = ot_arena_alloc(t->a, sizeof(double) * (size_t)u[i].channels);
        s[i].square = ot_arena_alloc(t->a, sizeof(double) * (size_t)u[i].channels);
        if (!s[i].mean || !s[i].square) return no_memory(err);
    }
    if (measured) OT_TRY(measure(t, u, n, s, err));
    for (int i = 0; i < n; i++) OT_TRY(start(t, &u[i], measured ? &s[i] : NULL, err));
    return make_copy(t, u, n, err);
}

/* ---- back into the file ------------------------------------------------------------------ */

int ot_trainer_unfolded(const ot_trainer *t) { return 2 * t->unfolded.n; }

static const void *bytes_of(const ot_export_tensor *list, int n, int source, const void *otherwise)
{
    for (int i = 0; i < n; i++)
        if (list[i].source == source) return list[i].bytes;
    return otherwise;
}

/* What the convolution's weight and bias are with the norm in them. */
static ot_status fold_one(ot_trainer *t, ot_arena *a, const ot_unfolded *u, const ot_export_tensor *list, int n,
                          ot_export_tensor out[2], ot_error *err)
{
    const ot_source *w = &t->m->file->sources[u->weight], *b = &t->m->file->sources[u->bias];
    const void *now[OT_UNFOLDED_PARTS], *weight = bytes_of(list, n, u->weight, w->data);
    void *to = ot_arena_alloc(a, ot_bytes(&w->shape, w->dtype) + 1),
         *bias = ot_arena_alloc(a, ot_bytes(&b->shape, b->dtype) + 1);
    bool moved = false;
    int64_t inner = u->channels ? ot_numel(&w->shape) / u->channels : 0;
    if (!to || !bias) return no_memory(err);
    out[0] = (ot_export_tensor){ u->weight, weight };
    out[1] = (ot_export_tensor){ u->bias, b->data };
    for (int k = 0; k < OT_UNFOLDED_PARTS; k++) {
        now[k] = bytes_of(list, n, u->first + k, u->start[k]);
        moved |= memcmp(now[k], u->start[k], ot_bytes(&b->shape, b->dtype)) != 0;
    }
    if (!moved) return OT_OK;
    out[0].bytes = to;
    out[1].bytes = bias;
    for (int64_t c = 0; c < u->channels; c++) {
        double v[OT_UNFOLDED_PARTS];
        for (int k = 0; k < OT_UNFOLDED_PARTS; k++) v[k] = ot_get_f64(now[k], u->dtype, c);
        double by = v[OT_UNFOLDED_SCALE] / sqrt(v[OT_UNFOLDED_VAR] + OT_UNFOLD_EPSILON);
        for (int64_t i = c * inner; i < (c + 1) * inner; i++)
            ot_set_f64(to, w->dtype, i, ot_get_f64(weight, w->dtype, i) * by);
        ot_set_f64(bias, b->dtype, c, v[OT_UNFOLDED_BIAS] - v[OT_UNFOLDED_MEAN] * by);
    }
    return OT_OK;
}

ot_status ot_trainer_fold(ot_trainer *t, ot_arena *a, ot_export_tensor *list, int *n, ot_error *err)
{
    OT_TRY(ot_trainer_merge(t, a, list, n, err));
    ot_export_tensor *made = ot_arena_alloc(a, sizeof *made * (size_t)(2 * t->unfolded.n + 1));
    int of_file = t->loaded->file->n_sources, kept = 0;
    if (!t->unfolded.n) return OT_OK;
    if (!made) return no_memory(err);
    for (int i = 0; i < t->unfolded.n; i++) OT_TRY(fold_one(t, a, &t->unfolded.list[i], list, *n, &made[2 * i], err));
    for (int i = 0; i < *n; i++) {
        bool replaced = list[i].source >= of_file;
        for (int k = 0; k < t->unfolded.n; k++)
            replaced |= list[i].source == t->unfolded.list[k].weight || list[i].source == t->unfolded.list[k].bias;
        if (!replaced) list[kept++] = list[i];
    }
    memcpy(list + kept, made, sizeof *made * 2 * (size_t)t->unfolded.n);
    *n = kept + 2 * t->unfolded.n;
    return OT_OK;
}
