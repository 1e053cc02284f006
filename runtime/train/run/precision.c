/* precision.c - --precision auto: the fastest precision that agrees with fp32 on the first batch.
 *
 * Loss and gradient of one batch are computed in fp32 and in each candidate, fastest first; the first whose loss and
 * gradient's norm are near those of fp32 is taken.  fp16 is none: bf16 is as fast and needs no scale.  Which CPUs and
 * networks are faster in bf16 differs, so that on the CPU the batch is timed too. */

#include <math.h>
#include <stdlib.h>

#include "runtime/train/run/trainer.h"

/* Allowed relative differences from fp32.  More for gradients, which are sums with cancellation. */
static const double near_loss = 1.0 / 64, near_norm = 1.0 / 16;

/* A candidate on the CPU must be faster by this factor; a smaller difference may be noise. */
static const double gain = 1.15;

typedef struct measured {
    double loss, norm;
    double seconds; /* of a batch, forward and backward */
    int rounded;    /* on the CPU: products computed in bf16 */
} measured;

static ot_status gradient_norm(const ot_slot *q, ot_arena *a, double *norm, ot_error *err)
{
    double sum = 0;
    for (int i = 0; i < q->plan->n_weights; i++) {
        const ot_value *g = q->plan->weights[i]->grad;
        void *bytes = ot_arena_alloc(a, ot_bytes(&g->shape, g->dtype) + 1);
        if (!bytes) return ot_fail(err, OT_E_NOMEM, "no memory for the gradients");
        OT_TRY(ot_exec_read(q->exec, g, bytes, err));
        for (int64_t k = 0, n = ot_numel(&g->shape); k < n; k++) {
            double d = ot_get_f64(bytes, g->dtype, k);
            sum += d * d;
        }
    }
    *norm = sqrt(sum);
    return OT_OK;
}

static ot_status run(ot_trainer *t, ot_session *x, measured *out, ot_error *err)
{
    int slot;
    ot_numbers got;
    ot_feeders *fs = ot_arena_copy(x->a, &t->train, sizeof *fs); /* of its own: what a session prepares goes with it */
    if (fs) fs->f = ot_arena_alloc(x->a, sizeof *fs->f * (size_t)(fs->n + 1));
    if (!fs || !fs->f) return ot_fail(err, OT_E_NOMEM, "no memory for a batch");
    for (int i = 0; i < fs->n; i++) fs->f[i] = t->train.f[i];
    OT_TRY(ot_session_plan(x, OT_WANT_GRAD, fs, t->batch, 1, &slot, err));
    OT_TRY(ot_session_allocate(x, err));
    for (int64_t i = 0; i < t->batch; i++) t->index[i] = i % t->train.samples;
    out->seconds = (double)INFINITY;
    for (int k = 0; k < (x->device ? 1 : 4); k++) { /* the first warms up */
        double start = ot_seconds();
        OT_TRY(ot_session_batch(x, slot, t->index, &got, err));
        out->seconds = fmin(out->seconds, ot_seconds() - start);
    }
    out->loss = got.loss;
    out->rounded = x->slot[slot].plan->bf16_products;
    return gradient_norm(&x->slot[slot], x->a, &out->norm, err);
}

static ot_status measure(ot_trainer *t, ot_precision p, measured *out, ot_error *err)
{
    ot_session x;
    ot_settings s = t->s;
    ot_error first = { 0 };
    s.options.precision = p;
    s.auto_precision = false;
    s.options.dropout = 0; /* the same numbers in every precision */
    ot_status r = ot_session_open(&x, t->m, &s, &t->x, &first);
    if (!r) r = run(t, &x, out, &first);
    ot_session_close(&x);
    return r ? ot_fail(err, r, "--precision auto, %s: %-s", ot_precision_name(p), first.text) : OT_OK;
}

static bool is_near(double a, double b, double part) { return isfinite(a) && fabs(a - b) <= part * fabs(b); }

ot_status ot_trainer_choose_precision(ot_trainer *t, ot_error *err)
{
    static const ot_precision fastest_first[] = { OT_PREC_BF16, OT_TF32 };
    measured want, got;
    if (!t->s.auto_precision) return OT_OK;
    t->s.auto_precision = false;
    OT_TRY(measure(t, OT_FP32, &want, err));
    for (int i = 0; i < (t->x.device ? OT_LEN(fastest_first) : 1); i++) {
        const char *name = ot_precision_name(fastest_first[i]);
        OT_TRY(measure(t, fastest_first[i], &got, err));
        if (!t->x.device && !got.rounded) {
            ot_trainer_say(t, OT_INFO,
                           "precision fp32 (auto): this CPU computes no product of the model faster in bf16");
            return OT_OK;
        }
        if (!t->x.device && got.seconds * gain > want.seconds) {
            ot_trainer_say(t, OT_INFO, "precision fp32 (auto): a batch takes %.3g ms, in %s %.3g ms",
                           1e3 * want.seconds, name, 1e3 * got.seconds);
            return OT_OK;
        }
        bool good = is_near(got.loss, want.loss, near_loss) && is_near(got.norm, want.norm, near_norm);
        ot_trainer_say(t, OT_INFO, "precision %s (auto): loss %.5g, gradient norm %.5g; in fp32 %.5g and %.5g: %s",
                       name, got.loss, got.norm, want.loss, want.norm, good ? "taken" : "differs too much");
        if (!good) continue;
        t->s.options.precision = fastest_first[i];
        return OT_OK;
    }
    ot_trainer_say(t, OT_INFO, "precision fp32 (auto): no lower precision agrees with it");
    return OT_OK;
}
