/* augmenting.c - draws samples of a training with --augment: pictures of bytes, and masks, which follow their geometry.
 *
 * A picture goes from the layout of its set to (H,W,C) bytes of the size that the model wants, is augmented, and leaves
 * in the layout that the feeder draws: the batch is then converted and scaled as without augmentation, by the host or by
 * the plan. */

#include <string.h>

#include "runtime/train/feed/augmenting.h"

static const ot_fit as_it_is = { .mode = OT_FIT_STRETCH, .filter = OT_BILINEAR };

static int64_t bytes_of(const ot_picture *p) { return p->h * p->w * p->c; }

/* ---- which feeders -------------------------------------------------------------------- */

/* Pictures of bytes that can be augmented: of 1 to 4 channels. */
static bool has_pictures(const ot_feeder *f, ot_picture *from, ot_picture *at)
{
    if (f->target || f->whole || f->src == &f->own || f->src->t.dtype != OT_U8 || f->src->t.rank < 3) return false;
    if (!ot_picture_of(f->src, from)) return false;
    *at = *from;
    if (f->redraw) at->h = f->to.h, at->w = f->to.w;
    at->channels_last = true;
    bool sides = at->h > 1 && at->w > 1 && at->h <= OT_IMAGE_SIDE && at->w <= OT_IMAGE_SIDE;
    return sides && at->c >= 1 && at->c <= OT_IMAGE_CHANNELS && at->h * at->w < INT32_MAX &&
           from->h * from->w < INT32_MAX;
}

/* A target with an element, or a few, for each pixel: the number per pixel; 0: it is none. */
static int64_t planes_of(const ot_feeder *f, const ot_picture *p)
{
    const ot_tensor *t = &f->src->t;
    int r = t->rank;
    bool plain = f->target && !f->whole && t->dtype != OT_STRING && ot_dtype_bits(t->dtype) >= 8;
    if (!plain || r < 3 || t->dim[r - 2] != p->h || t->dim[r - 1] != p->w) return 0;
    int64_t n = 1;
    for (int i = 1; i < r - 2; i++) n *= t->dim[i];
    return n;
}

static ot_image image_of(const ot_picture *p, void *bytes)
{
    return (ot_image){ bytes, p->h, p->w, (int)p->c, p->w * p->c };
}

static size_t rounded(int64_t n) { return (size_t)(n + 63) / 64 * 64; }

static ot_status attach(const ot_adapt_env *e, int threads, const ot_feeders *fs, ot_feeder *f,
                        const ot_augmenting *like, ot_error *err)
{
    ot_augmenting *g = ot_arena_alloc(e->a, sizeof *g);
    if (!g) return ot_fail(err, OT_E_NOMEM, "no memory to prepare the data");
    *g = *like;
    ot_image to = image_of(&g->at, NULL);
    size_t own = ot_augment_scratch(g->list, &as_it_is, g->from.h, g->from.w, &to);
    g->seed = e->s->seed;
    g->samples = fs->samples;
    g->threads = threads < 1 ? 1 : threads;
    if (own == SIZE_MAX) return ot_fail(err, OT_E_NOMEM, "input '%s': the image is too large", f->name);
    g->room = own + 2 * rounded(bytes_of(&g->at)) + rounded(bytes_of(&g->from)) + rounded(g->at.h * g->at.w * 4);
    f->augment = g;
    return OT_OK;
}

static ot_status add_pictures(const ot_adapt_env *e, int threads, ot_feeders *fs, ot_feeder *f,
                              const ot_augmenting *like, ot_error *err)
{
    OT_TRY(attach(e, threads, fs, f, like, err));
    ot_adapt_note(e, "input '%s': training images are augmented: %s", f->name, ot_augment_text(like->list));
    for (int i = 0; i < fs->n; i++) {
        ot_feeder *q = &fs->f[i];
        ot_augmenting mask = *like;
        if (!(mask.planes = planes_of(q, &like->at)) || q->augment) continue;
        OT_TRY(attach(e, threads, fs, q, &mask, err));
        ot_adapt_note(e, "target '%s' follows the geometry of the images of '%s'", q->src->t.name, f->name);
    }
    return OT_OK;
}

ot_status ot_adapt_augment(const ot_adapt_env *e, int threads, ot_feeders *fs, ot_error *err)
{
    const ot_settings *s = e->s;
    int found = 0;
    bool automatic = true;
    for (int i = 0; i < s->n_augment; i++)
        automatic &= !strcmp(s->augment[i].name, "auto") || !strcmp(s->augment[i].name, "none");
    for (int i = 0; s->n_augment && i < fs->n; i++) {
        ot_augment *list;
        ot_augmenting one = { 0 };
        if (!has_pictures(&fs->f[i], &one.from, &one.at)) continue;
        found++;
        OT_TRY(ot_augment_make(s->augment, s->n_augment, one.at.h, one.at.w, (int)one.at.c, e->a, &list, err));
        one.list = list;
        if (ot_augment_steps(list)) OT_TRY(add_pictures(e, threads, fs, &fs->f[i], &one, err));
    }
    if (found || automatic) {
        if (!found && s->n_augment && strcmp(s->augment[0].name, "none"))
            ot_adapt_note(e, "--augment auto: the data has no images of bytes (uint8); nothing is augmented");
        return OT_OK;
    }
    return ot_fail(
        err, OT_E_USAGE,
        "--augment %s: needs images of bytes (uint8) of 1 to 4 channels, (N,H,W), (N,C,H,W) or (N,H,W,C); the data has none",
        s->augment[0].name);
}

/* ---- drawing -------------------------------------------------------------------------- */

/* Planes to channels last. */
static void join(const uint8_t *x, const ot_picture *p, uint8_t *y)
{
    int64_t plane = p->h * p->w;
    if (p->channels_last || p->c == 1) memcpy(y, x, (size_t)bytes_of(p));
    else
        for (int64_t c = 0; c < p->c; c++)
            for (int64_t i = 0; i < plane; i++) y[i * p->c + c] = x[c * plane + i];
}

static void part(const uint8_t *x, const ot_picture *p, uint8_t *y)
{
    int64_t plane = p->h * p->w;
    for (int64_t c = 0; c < p->c; c++)
        for (int64_t i = 0; i < plane; i++) y[c * plane + i] = x[i * p->c + c];
}

static void draw_picture(const ot_feeder *f, const uint8_t *x, const ot_augment_key *key, uint8_t *dst, char *scratch)
{
    const ot_augmenting *g = f->augment;
    uint8_t *image = (uint8_t *)scratch, *planes = image + rounded(bytes_of(&g->at));
    uint8_t *source = planes + rounded(bytes_of(&g->at));
    char *rest = (char *)source + rounded(bytes_of(&g->from)) + rounded(g->at.h * g->at.w * 4);
    bool resized = g->from.h != g->at.h || g->from.w != g->at.w;
    ot_picture now = g->from;
    if (resized && !ot_augment_resizes(g->list)) { /* as without augmentation */
        now = g->at;
        now.channels_last = false;
        ot_redraw(x, &g->from, &now, planes);
        x = planes;
    }
    join(x, &now, source);
    ot_image from = image_of(&now, source), to = image_of(&g->at, image);
    ot_augment_run(g->list, &as_it_is, &from, &to, NULL, key, rest);
    if (f->redraw) ot_redraw(image, &g->at, &f->to, dst); /* grey and colour */
    else if (g->from.channels_last) memcpy(dst, image, (size_t)bytes_of(&g->at));
    else part(image, &g->at, dst);
}

/* Elements of a mask come from where their pixels do; where there was no picture they are 0. */
static void draw_mask(const ot_feeder *f, const char *x, const ot_augment_key *key, char *dst, char *scratch)
{
    const ot_augmenting *g = f->augment;
    int64_t n = g->at.h * g->at.w, size = ot_dtype_bits(f->src->t.dtype) / 8;
    ot_augment_geometry how = { .map = (int32_t *)(void *)scratch };
    ot_picture now = ot_augment_resizes(g->list) ? g->from : g->at;
    ot_image from = image_of(&now, NULL), to = image_of(&g->at, NULL);
    ot_augment_run(g->list, &as_it_is, &from, &to, &how, key, scratch + rounded(n * 4));
    memset(dst, 0, (size_t)(n * g->planes * size));
    for (int64_t p = 0; p < g->planes; p++)
        for (int64_t i = 0; i < n; i++)
            if (how.map[i] >= 0) memcpy(dst + (p * n + i) * size, x + (p * n + how.map[i]) * size, (size_t)size);
}

int64_t ot_augmenting_bytes(const ot_feeder *f)
{
    const ot_augmenting *g = f->augment;
    if (g->planes) return g->planes * g->at.h * g->at.w * (ot_dtype_bits(f->src->t.dtype) / 8);
    return f->redraw ? bytes_of(&f->to) : bytes_of(&g->at);
}

void ot_augmenting_draw(const ot_feeder *f, int64_t index, int64_t given, void *dst, int thread)
{
    const ot_augmenting *g = f->augment;
    int64_t n = 1, size = ot_dtype_bits(f->src->t.dtype) / 8;
    for (int i = 1; i < f->src->t.rank; i++) n *= f->src->t.dim[i];
    const char *x = (const char *)f->src->t.data + ot_array_at(f->src, index * n) * size;
    ot_augment_key key = { g->seed, (uint64_t)(given / g->samples), (uint64_t)index };
    char *scratch = g->scratch + (size_t)thread * g->room;
    if (g->planes) draw_mask(f, x, &key, dst, scratch);
    else draw_picture(f, (const uint8_t *)x, &key, dst, scratch);
}
