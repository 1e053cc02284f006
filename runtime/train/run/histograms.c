/* histograms.c - weights and gradients as TensorBoard's histograms. */

#include "runtime/train/run/histograms.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/train/run/events.h"

bool ot_histograms_due(const ot_trainer *t, int64_t u)
{
    const ot_interval *every = &t->s.histograms;
    bool epoch_ends = u + 1 == t->updates || t->given == t->total;
    if (!t->log.events) return false;
    if (every->steps && t->given % every->steps == 0) return true;
    if (every->epochs && epoch_ends && (t->epoch + 1) % every->epochs == 0) return true;
    return every->seconds > 0 && ot_seconds() - t->written.histograms >= every->seconds;
}

/* A histogram of the finite elements with buckets of equal width. */
static void count(const void *bytes, ot_dtype type, int64_t n, ot_events_buckets *b)
{
    *b = (ot_events_buckets){ .least = INFINITY, .most = -INFINITY };
    for (int64_t i = 0; i < n; i++) {
        double v = ot_get_f64(bytes, type, i);
        if (!isfinite(v)) continue;
        b->least = fmin(b->least, v);
        b->most = fmax(b->most, v);
        b->n++;
        b->sum += v;
        b->squares += v * v;
    }
    double width = (b->most - b->least) / OT_EVENTS_BUCKETS;
    for (int64_t i = 0; i < n; i++) {
        double v = ot_get_f64(bytes, type, i);
        int at = isfinite(v) && width > 0 ? (int)((v - b->least) / width) : 0;
        if (isfinite(v)) b->count[at < OT_EVENTS_BUCKETS ? at : OT_EVENTS_BUCKETS - 1]++;
    }
}

static ot_status write_one(ot_trainer *t, const ot_slot *q, const char *what, const ot_value *w, const ot_value *v,
                           ot_error *err)
{
    ot_events_buckets b;
    char name[1000], tag[1100];
    void *bytes = malloc(ot_bytes(&v->shape, v->dtype) + 1);
    if (!bytes) return ot_fail(err, OT_E_NOMEM, "no memory for a histogram of '%s'", w->name);
    ot_status s = ot_exec_read(q->exec, v, bytes, err);
    if (!s) count(bytes, v->dtype, ot_numel(&v->shape), &b);
    snprintf(tag, sizeof tag, "%s/%s", what, ot_shown(w->name, name, sizeof name));
    if (!s && b.n) ot_events_histogram(t->log.events, t->step, tag, &b);
    free(bytes);
    return s;
}

ot_status ot_histograms_write(ot_trainer *t, int64_t u, ot_error *err)
{
    int64_t first = (t->given - 1) * t->s.accumulate;
    int n = t->s.accumulate, slot;
    OT_TRY(ot_trainer_settle(t, err));
    if (t->s.shuffle) ot_trainer_batches(t, u, &first, &n);
    OT_TRY(ot_session_plan(&t->x, OT_WANT_TRAIN, &t->train, ot_trainer_batch_size(t, first + n - 1), n, &slot, err));
    const ot_slot *q = &t->x.slot[slot];
    const ot_plan *p = q->plan;
    t->written.histograms = ot_seconds();
    for (int i = 0; i < p->n_weights; i++) {
        OT_TRY(write_one(t, q, "weights", p->weights[i], p->weights[i], err));
        if (p->kept_grad && p->kept_grad[i] >= 0)
            OT_TRY(write_one(t, q, "gradients", p->weights[i], p->kept[p->kept_grad[i]], err));
    }
    return OT_OK;
}
