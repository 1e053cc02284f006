/* batch_size.c - --batch-size auto and --memory-limit: the memory that plans need.
 *
 * --batch-size auto makes the plans of a training for one power of two after another, without recomputation, in a temporary
 * session: no device memory is allocated and nothing runs. */
#include <math.h>
#include <stdio.h>

#include "runtime/train/feed/draw.h"
#include "runtime/train/run/trainer.h"

static const double MIB = 1 << 20;

/* The bytes that a batch size needs, and the available ones. */
typedef struct needs {
    int64_t bytes, limit;
} needs;

/* --memory-limit limits everything that is planned; the available memory limits only what is not allocated yet. */
static int64_t bytes_of(const ot_trainer *t, const ot_session *x, int64_t batch)
{
    if (x->device) return ot_session_bytes(x);
    return t->s.memory_limit ? ot_trainer_planned_bytes(t, x, batch)
                             : ot_session_bytes(x) + ot_trainer_average_bytes(t, x);
}

static int64_t limit_of(const ot_trainer *t)
{
    int64_t there = ot_memory_available();
    if (t->s.memory_limit) return t->s.memory_limit;
    if (t->x.device) {
        ot_device_info i;
        t->x.device->backend->info(t->x.device, &i);
        there = i.free;
    }
    return there / 10 * 9;
}

static ot_status measure(ot_trainer *t, int64_t batch, int64_t *bytes, ot_error *err)
{
    ot_session x;
    ot_status s = ot_session_open(&x, t->m, &t->s, &t->x, err);
    x.sets_limit = t->x.sets_limit;
    if (!s) s = ot_trainer_plan_batch(t, &x, batch, err);
    if (!s) *bytes = bytes_of(t, &x, batch);
    ot_session_close(&x);
    return s;
}

static ot_status too_little(const ot_trainer *t, int64_t batch, const needs *is, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "batch size %lld needs %.1f MiB, but %s is %.1f MiB", (long long)batch,
                   (double)is->bytes / MIB,
                   t->s.memory_limit ? "--memory-limit" : "nine tenths of the available memory",
                   (double)is->limit / MIB);
}

ot_status ot_trainer_choose_batch(ot_trainer *t, ot_error *err)
{
    needs is = { .limit = limit_of(t) }, next = is;
    int64_t batch = 1, n = t->train.samples;
    while (batch < 32 && 2 * batch <= n) batch *= 2;
    for (;; batch /= 2) { /* down to one that fits */
        OT_TRY(measure(t, batch, &is.bytes, err));
        if (is.bytes <= is.limit) break;
        next.bytes = is.bytes;
        if (batch == 1) return too_little(t, batch, &is, err);
    }
    while (!next.bytes && 2 * batch <= n) { /* or up, as far as it fits */
        int64_t bytes;
        ot_error e = { 0 };
        ot_status s = measure(t, 2 * batch, &bytes, &e);
        if (s == OT_E_NOMEM) break; /* too large to be planned */
        if (s) return ot_fail(err, s, "%-s", e.text);
        if (bytes > is.limit) next.bytes = bytes;
        else is.bytes = bytes, batch *= 2;
    }
    t->s.batch = batch;
    char more[160] = "";
    if (next.bytes)
        snprintf(more, sizeof more, "; %lld would need %.1f MiB", (long long)(2 * batch), (double)next.bytes / MIB);
    else snprintf(more, sizeof more, "; the training set has %lld samples", (long long)n);
    ot_trainer_say(t, OT_INFO, "--batch-size auto: %lld needs %.1f of %.1f MiB (%s)%s", (long long)batch,
                   (double)is.bytes / MIB, (double)is.limit / MIB,
                   t->s.memory_limit ? "--memory-limit" : "nine tenths of the available memory", more);
    return OT_OK;
}

static int64_t needed_by(const ot_trainer *t) { return t->x.device ? ot_session_bytes(&t->x) : t->planned; }

/* Number of decimals for a size in MiB: more for small networks. */
static int decimals(int64_t bytes) { return bytes < 10 * (int64_t)MIB ? 3 : 1; }

void ot_limit_note(ot_findings *f, const ot_plan *p, int64_t before, int64_t limit)
{
    if (!p->n_recomputed) return;
    ot_find(f, OT_FINDING_NOTE, NULL, NULL,
            "memory: %.*f MiB planned, limit %.*f MiB: %d value%s recomputed in the backward pass (about %.0f %% more "
            "computation)",
            decimals(before), (double)before / MIB, decimals(limit), (double)limit / MIB, p->n_recomputed,
            p->n_recomputed == 1 ? " is" : "s are", 100 * p->recomputed_cost);
}

ot_status ot_limit_exceeded(int64_t needed, int64_t limit, ot_error *err)
{
    int n = decimals(needed);
    double unit = pow(10, n);
    return ot_fail(err, OT_E_NOMEM,
                   "the training needs at least %.*f MiB, with values recomputed in the backward pass, but "
                   "--memory-limit is %.*f MiB; use a smaller --batch-size (auto finds one) with --accumulate",
                   n, ceil((double)needed / MIB * unit) / unit, decimals(limit), (double)limit / MIB);
}

ot_status ot_trainer_keep_limit(ot_trainer *t, ot_error *err)
{
    int64_t limit = t->s.memory_limit, before = needed_by(t), scratch = limit - (before - t->x.scratch_bytes);
    if (!limit) return OT_OK;
    OT_TRY(ot_session_limit(&t->x, scratch > 1 ? scratch : 1, err));
    t->planned = ot_trainer_planned_bytes(t, &t->x, t->batch);
    if (needed_by(t) > limit) return ot_limit_exceeded(needed_by(t), limit, err);
    ot_limit_note(&t->findings, t->x.slot[t->x.lead].plan, before, limit);
    return OT_OK;
}

/* ---- images ------------------------------------------------------------------------------ */

/* The images of sets that may be kept. */
typedef struct kept {
    int64_t images, bytes, all; /* number; bytes of their pixels; bytes of a cache with all of them */
    bool any, decoded;          /* decoded: some are kept in their original size, which is unknown */
} kept;

static void add_kept(kept *k, const ot_feeders *fs)
{
    for (int i = 0; i < fs->n; i++) {
        const ot_feeder *f = &fs->f[i];
        if (!ot_feeder_keeps(f)) continue;
        const ot_picture *p = f->mask ? &f->from : &f->to;
        int64_t one = p->h * p->w * p->c, of;
        k->any = true;
        k->decoded |= ot_draw_as_decoded(f);
        k->images += f->target ? 0 : fs->samples; /* a sample of images and masks, or of a picture twice, is one */
        if (!ot_mul(fs->samples, one, &of) || !ot_add(k->bytes, of, &k->bytes)) k->bytes = INT64_MAX;
        if (!ot_add(k->all, ot_image_cache_bytes(fs->samples, one), &k->all)) k->all = INT64_MAX;
    }
}

void ot_trainer_keep_images(ot_trainer *t)
{
    kept k = { 0 };
    int64_t limit;
    bool limited = t->s.memory_limit && !t->x.device;
    if (!t->s.cache || t->epochs < 2) return;
    add_kept(&k, &t->train);
    add_kept(&k, &t->eval.fs);
    if (!k.any) return;
    limit = limited ? t->s.memory_limit - t->planned
                    : (ot_memory_available() - (t->x.device ? 0 : ot_session_bytes(&t->x))) / 2;
    t->x.images_limit = limit < 0 ? 0 : limit;
    const char *whose = limited ? "--memory-limit" : "half of the free memory";
    double most = (double)t->x.images_limit / MIB, bytes = (double)k.bytes / MIB;
    if (k.decoded)
        ot_trainer_say(t, OT_INFO, "decoded images are kept in memory for later epochs: up to %.1f MiB (%s)", most,
                       whose);
    else if (k.all <= t->x.images_limit)
        ot_trainer_say(t, OT_INFO, "decoded and resized images are kept in memory for later epochs: all %lld, %.1f MiB",
                       (long long)k.images, bytes);
    else
        ot_trainer_say(t, OT_INFO,
                       "decoded and resized images are kept in memory for later epochs: %.1f MiB (%s); all would need "
                       "%.1f MiB, so the rest is decoded again in each epoch",
                       most, whose, bytes);
}
