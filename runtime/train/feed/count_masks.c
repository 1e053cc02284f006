/* count_masks.c - how often every class number occurs in masks that are in files: for class_weights=auto, pos_weight=auto and
 * --classes auto.  Every mask is read once, by several threads. */
#include "runtime/train/feed/masks.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/train/options/cpus.h"

/* The masks that one thread counts. */
typedef struct part {
    ot_draw_room room;
    uint8_t *drawn;
    int64_t count[256];
    int64_t bad, first; /* masks that could not be read; the first of them, -1: none */
    ot_error why;       /* of that */
} part;

static ot_status count_one(const ot_array *a, const ot_feeder *f, int64_t i, part *p, ot_error *err)
{
    if (f) {
        OT_TRY(ot_mask_draw(f, OT_NOT_AUGMENTED, i, &p->room, p->drawn, err));
        for (int64_t k = 0, n = ot_feeder_drawn_bytes(f); k < n; k++) p->count[p->drawn[k]]++;
        return OT_OK;
    }
    ot_image x;
    OT_TRY(a->source->read(a->source, a->row ? a->row[i] : i, 1, &p->room.source, &x, err));
    for (int64_t y = 0; y < x.height; y++)
        for (int64_t k = 0; k < x.width; k++) p->count[x.data[y * x.stride + k]]++;
    return OT_OK;
}

static void count_part(const ot_array *a, const ot_feeder *f, int64_t from, int64_t to, int64_t some, part *p)
{
    p->first = -1;
    if (f && !(p->drawn = malloc((size_t)ot_feeder_drawn_bytes(f) + 1))) {
        p->first = from;
        ot_fail(&p->why, OT_E_NOMEM, "no memory to count masks");
        return;
    }
    for (int64_t i = from; i < to; i++) {
        ot_error why = { 0 };
        ot_status s = count_one(a, f, i * a->t.dim[0] / some, p, &why);
        if (!s) continue;
        if (p->bad++ && s != OT_E_NOMEM) continue;
        p->first = i;
        p->why = why;
        if (s == OT_E_NOMEM) return;
    }
}

ot_status ot_masks_count(const ot_array *a, const ot_feeder *f, const ot_settings *s, int64_t n, int64_t count[256],
                         ot_error *err)
{
    int64_t bad = 0;
    int parts = s->threads > 0 ? s->threads : ot_cpus_read().threads;
    if (parts > n) parts = n < 1 ? 1 : (int)n;
    OT_TRY(ot_threads_make(parts, err));
    part *list = calloc((size_t)parts, sizeof *list);
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory to count masks");
#pragma omp parallel for num_threads(parts) schedule(static) if (parts > 1)
    for (int t = 0; t < parts; t++) count_part(a, f, n * t / parts, n * (t + 1) / parts, n, &list[t]);
    memset(count, 0, 256 * sizeof *count);
    const part *first = NULL;
    for (int t = 0; t < parts; t++) {
        for (int v = 0; v < 256; v++) count[v] += list[t].count[v];
        bad += list[t].bad;
        if (list[t].first >= 0 && !first) first = &list[t];
        if (list[t].why.status == OT_E_NOMEM) first = &list[t], bad = INT64_MAX / 2;
    }
    ot_status status = OT_OK;
    if (first && bad > s->skip_bad) status = ot_fail(err, first->why.status, "%s", first->why.text);
    for (int t = 0; t < parts; t++) {
        ot_draw_room_free(&list[t].room);
        free(list[t].drawn);
    }
    free(list);
    return status;
}

enum { LOOKED_AT = 64 };

ot_status ot_masks_ignored(const ot_adapt_env *e, const ot_feeder *f, ot_error *err)
{
    const ot_mask *m = f->mask;
    int64_t count[256], n = f->src->t.dim[0], some = n < LOOKED_AT ? n : LOOKED_AT, all = 0, out = 0;
    if (!e->measure || !m || (!m->voids && m->except < 0)) return OT_OK;
    for (bool again = true; again; some = n) {
        OT_TRY(ot_masks_count(f->src, f, e->s, some, count, err));
        all = out = 0;
        for (int v = 0; v < 256; v++) {
            all += count[v];
            out += v == m->except || (v == OT_MASK_VOID && m->voids) ? count[v] : 0;
        }
        again = all && out == all && some < n; /* then every mask is looked at */
        if (!again) break;
    }
    if (!out) return OT_OK;
    if (out == all)
        return ot_fail(
            err, OT_E_DATA,
            "%s: all pixels of all %lld masks are ignored (%s): nothing would train; classes are the numbers from 0 to %lld",
            f->src->t.name, (long long)n, m->voids ? "their value is 255" : "ignore_index", (long long)m->most);
    ot_adapt_note(e, "%s: %.3g %% of the pixels of %s%lld masks are ignored (%s)", f->src->t.name,
                  100 * (double)out / (double)all, some < n ? "some " : "all ", (long long)some,
                  m->voids ? "255" : "ignore_index");
    return OT_OK;
}
