/* feeder.c - makes batches of the samples of a data set. */

#include <string.h>

#include "runtime/train/feed/augmenting.h"
#include "runtime/train/feed/draw.h"
#include "runtime/train/feed/masks.h"

void ot_feeders_feeds(const ot_feeders *fs, int64_t batch, ot_feed *list)
{
    for (int i = 0; i < fs->n; i++) {
        const ot_feeder *f = &fs->f[i];
        list[i] = (ot_feed){ .name = f->name,
                             .target = f->target,
                             .dtype = f->dtype,
                             .shape = f->sample,
                             .whole = f->whole && !f->as_is,
                             .binary = f->binary,
                             .varies = f->varies,
                             .named = f->named,
                             .mixed = f->augment && f->augment->kind == OT_AUGMENTED_CLASSES,
                             .ignores = f->ignores,
                             .blank = f->mask && (f->mask->voids || f->mask->except >= 0),
                             .batch_axis = f->batch_axis,
                             .by_rows = f->by_rows,
                             .adds_up = { f->adds_up[0], f->adds_up[1] },
                             .examined = f->target && !f->src->mapped && !f->as_input,
                             .data = f->known ? f->buffer : NULL };
        if (f->whole) continue;
        list[i].shape.rank++;
        memcpy(list[i].shape.dim + 1, f->sample.dim, sizeof *f->sample.dim * (size_t)f->sample.rank);
        list[i].shape.dim[0] = batch;
    }
}

int64_t ot_feeders_baked(const ot_feeders *fs, const ot_graph *file)
{
    int64_t baked = 0;
    for (int i = 0; i < fs->n; i++)
        for (int k = 0; k < file->n_inputs && !fs->f[i].whole && !fs->f[i].target; k++) {
            const ot_value *v = file->inputs[k];
            if (!strcmp(v->name, fs->f[i].name) && v->shape.rank > 0 && v->shape.dim[0] > 0) baked = v->shape.dim[0];
        }
    return baked;
}

/* Does one of these samples have a class number that is not ignored? */
static bool any_counts(const ot_feeder *f, int64_t samples, const int64_t *index, int64_t n)
{
    const ot_tensor *t = &f->src->t;
    int64_t each = 1;
    for (int d = 0; d < t->rank; d++) each *= t->dim[d];
    each /= samples;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < each; k++)
            if (ot_get_i64(t->data, t->dtype, ot_array_at(f->src, index[i] * each + k)) != f->ignored) return true;
    return false;
}

const ot_feeder *ot_feeders_uncounted(const ot_feeders *fs, const int64_t *index, int64_t n)
{
    for (int i = 0; i < fs->n; i++)
        if (fs->f[i].uncounted && !any_counts(&fs->f[i], fs->samples, index, n)) return &fs->f[i];
    return NULL;
}

/* Bytes of a drawn sample, an intermediate form between array and batch; 0: there is none. */
static int64_t drawn_bytes(const ot_feeder *f)
{
    return ot_augmenting_draws(f) ? ot_augmenting_bytes(f) : ot_feeder_drawn_bytes(f);
}

int64_t ot_feeder_bytes(const ot_feeder *f, int64_t batch)
{
    int64_t n = (int64_t)ot_bytes(&f->sample, f->dtype), all, room = ot_augmenting_room(f);
    if (f->whole) return n;
    return ot_add(n, drawn_bytes(f), &all) && ot_mul(all, batch, &all) && ot_add(all, room, &all) ? all : INT64_MAX;
}

/* Allocates the array of drawn samples, and memory for drawing them. */
static ot_status prepare_drawn(ot_feeder *f, int64_t batch, ot_arena *a, ot_error *err)
{
    int64_t bytes;
    const ot_picture *q = &f->to;
    f->drawn = (ot_array){ .t = f->src->t, .role = f->src->role, .picture = f->src->picture };
    f->drawn.t.dim[0] = batch;
    if (f->redraw) {
        f->drawn.t.rank = 4;
        bool last = f->src->source != NULL;
        int64_t dim[] = { batch, last ? q->h : q->c, last ? q->w : q->h, last ? q->c : q->w };
        memcpy(f->drawn.t.dim, dim, sizeof dim);
    }
    if (!ot_mul(drawn_bytes(f), batch, &bytes))
        return ot_fail(err, OT_E_NOMEM, "a batch of '%s' is too large", f->name);
    f->drawn.t.data = ot_arena_alloc(a, (size_t)bytes);
    return f->drawn.t.data ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for a batch of '%s'", f->name);
}

ot_status ot_feeder_prepare(ot_feeder *f, int64_t batch, ot_arena *a, ot_error *err)
{
    int64_t bytes, one = (int64_t)ot_bytes(&f->sample, f->dtype);
    if (f->buffer && f->most >= batch) return OT_OK;
    if (!ot_mul(one, f->whole ? 1 : batch, &bytes))
        return ot_fail(err, OT_E_NOMEM, "a batch of '%s' is too large", f->name);
    f->buffer = ot_arena_alloc(a, (size_t)bytes + 64);
    if (!f->buffer) return ot_fail(err, OT_E_NOMEM, "no memory for a batch of '%s'", f->name);
    f->most = batch;
    if (f->whole) OT_TRY(ot_feeder_take(f, NULL, 1, OT_NOT_AUGMENTED, f->buffer, 1, err));
    OT_TRY(ot_augmenting_prepare(f, a, err));
    return f->redraw || ot_augmenting_draws(f) ? prepare_drawn(f, batch, a, err) : OT_OK;
}

/* Draws samples index[0..n) of a source, one after another. */
static ot_status draw_here(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, uint8_t *to,
                           ot_error *err)
{
    ot_draw_room room = { 0 };
    ot_status s = OT_OK;
    for (int64_t i = 0, one = ot_feeder_drawn_bytes(f); i < n && !s; i++)
        s = ot_feeder_draw(f, given < 0 ? given : given + i, index[i], &room, to + i * one, err);
    ot_draw_room_free(&room);
    return s;
}

static bool is_held(const ot_feeder *f, const int64_t *index, int64_t n)
{
    return f->held && f->n_held == n && !memcmp(f->held_index, index, (size_t)n * sizeof *index);
}

/* Converts samples of a source to a batch. */
static ot_status take_source(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads,
                             ot_error *err)
{
    ot_gather g = f->gather;
    ot_array drawn = f->drawn;
    size_t one = (size_t)f->gather.elements * (size_t)ot_dtype_bits(f->dtype) / 8;
    bool values = f->augment && given >= 0 && !ot_augmenting_draws(f);
    bool mixes = f->augment && f->augment->mixes && given >= 0 && !values;
    if (!is_held(f, index, n)) OT_TRY(draw_here(f, index, n, given, drawn.t.data, err));
    else if (mixes) memcpy(drawn.t.data, f->held, (size_t)(ot_feeder_drawn_bytes(f) * n));
    else drawn.t.data = (void *)(uintptr_t)f->held;
    if (mixes) ot_augmenting_mix(f, drawn.t.data, n, given);
    g.src = &drawn;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && n > 1)
    for (int64_t i = 0; i < n; i++) ot_gather_run(&g, &i, 1, (char *)dst + (size_t)i * one, 1);
    if (values) ot_augmenting_change(f, index, n, given, dst);
    if (f->mask) ot_mask_ignore(f, dst, n);
    return OT_OK;
}

/* Samples index[0..n) to `drawn`, in the form of f->drawn, and from there to `batch`, if it is wanted. */
static void draw(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, char *drawn, char *batch,
                 int threads)
{
    int64_t one = drawn_bytes(f), from = f->from.c * f->from.h * f->from.w;
    size_t ready = (size_t)f->gather.elements * (size_t)ot_dtype_bits(f->dtype) / 8;
    ot_gather g = f->gather;
    g.src = &f->drawn;
    int parts = !f->augment ? threads : f->augment->threads < threads ? f->augment->threads : threads;
    if (parts < 1 || n < 2) parts = 1;
#pragma omp parallel for num_threads(parts) schedule(static) if (parts > 1)
    for (int t = 0; t < parts; t++)
        for (int64_t i = n * t / parts; i < n * (t + 1) / parts; i++) {
            if (f->augment && given >= 0) ot_augmenting_draw(f, index[i], given + i, drawn + i * one, t);
            else
                ot_redraw((const uint8_t *)f->src->t.data + ot_array_at(f->src, index[i] * from), &f->from, &f->to,
                          (uint8_t *)drawn + i * one);
            if (batch) ot_gather_run(&g, &i, 1, batch + (size_t)i * ready, 1);
        }
}

static bool is_drawn(const ot_feeder *f, int64_t given) { return f->redraw || (ot_augmenting_draws(f) && given >= 0); }

ot_status ot_feeder_take(ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads,
                         ot_error *err)
{
    static const int64_t first = 0;
    if (!f->whole && f->src->source) return take_source(f, index, n, given, dst, threads, err);
    if (f->augment && !ot_augmenting_draws(f)) {
        ot_augmenting_values(f, index, n, given, dst, threads);
        return OT_OK;
    }
    if (f->whole || !is_drawn(f, given)) {
        ot_gather_run(&f->gather, f->whole ? &first : index, f->whole ? 1 : n, dst, threads);
        return OT_OK;
    }
    if (!f->augment || !f->augment->mixes || given < 0) {
        draw(f, index, n, given, f->drawn.t.data, dst, threads);
        return OT_OK;
    }
    ot_gather g = f->gather;
    size_t one = (size_t)g.elements * (size_t)ot_dtype_bits(f->dtype) / 8;
    g.src = &f->drawn;
    draw(f, index, n, given, f->drawn.t.data, NULL, threads);
    ot_augmenting_mix(f, f->drawn.t.data, n, given);
    for (int64_t i = 0; i < n; i++) ot_gather_run(&g, &i, 1, (char *)dst + (size_t)i * one, 1);
    return OT_OK;
}

bool ot_feeder_set(const ot_feeder *f, int64_t samples, ot_feed_set *out)
{
    ot_dtype from = f->src->t.dtype;
    bool plain = from <= OT_BF16 && from != OT_STRING && f->dtype <= OT_BF16 && f->dtype != OT_STRING;
    if (f->whole || f->mask || !plain || (f->augment && !ot_augmenting_draws(f))) return false;
    *out = (ot_feed_set){ .dtype = from,
                          .samples = samples,
                          .elements = f->gather.elements,
                          .scale = f->gather.scale,
                          .channels = f->gather.channels,
                          .inner = f->gather.inner,
                          .mul = f->gather.mul,
                          .add = f->gather.add };
    memcpy(out->permute, f->gather.permute, sizeof out->permute);
    return true;
}

ot_status ot_feeder_take_raw(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads,
                             ot_error *err)
{
    if (f->src->source) {
        if (!is_held(f, index, n)) OT_TRY(draw_here(f, index, n, given, dst, err));
        else memcpy(dst, f->held, (size_t)(ot_feeder_drawn_bytes(f) * n));
        if (f->augment && given >= 0) ot_augmenting_mix(f, dst, n, given);
        return OT_OK;
    }
    if (is_drawn(f, given)) {
        draw(f, index, n, given, dst, NULL, threads);
        if (f->augment && given >= 0) ot_augmenting_mix(f, dst, n, given);
        return OT_OK;
    }
    ot_gather as_it_is = {
        .src = f->src, .dtype = f->src->t.dtype, .elements = f->gather.elements, .channels = 1, .inner = 1
    };
    ot_gather_run(&as_it_is, index, n, dst, threads);
    return OT_OK;
}
