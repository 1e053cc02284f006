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

/* The layout of images whose channels are moved for the input: their shape alone can mean two. */
static bool is_moved(const ot_feeder *f, ot_picture *p)
{
    const int64_t *d = f->src->t.dim, *m = f->gather.permute;
    if (f->redraw || f->src->t.rank != 4 || m[1] != 1) return false;
    bool last = m[0] == d[1] * d[2] && m[2] == d[3], first = m[0] == d[1] && m[2] == d[2] * d[3];
    *p = last ? (ot_picture){ d[1], d[2], d[3], true } : (ot_picture){ d[2], d[3], d[1], false };
    return last != first;
}

/* Images of bytes with 1 to 4 channels can be augmented. */
static bool has_pictures(const ot_feeder *f, ot_picture *from, ot_picture *at)
{
    if (f->target || f->whole || f->src == &f->own || f->src->t.dtype != OT_U8 || f->src->t.rank < 3) return false;
    if (f->src->source) *from = f->to;
    else if (!is_moved(f, from) && !ot_picture_of(f->src, from)) return false;
    *at = *from;
    if (f->redraw) at->h = f->to.h, at->w = f->to.w;
    at->channels_last = true;
    bool sides = at->h > 1 && at->w > 1 && at->h <= OT_IMAGE_SIDE && at->w <= OT_IMAGE_SIDE;
    return sides && at->c >= 1 && at->c <= OT_IMAGE_CHANNELS && at->h * at->w < INT32_MAX &&
           from->h * from->w < INT32_MAX;
}

/* Does a target of h x w have an element for each pixel of p, or for each square of pixels? */
static bool divides(const ot_picture *p, int64_t h, int64_t w)
{
    return h > 1 && w > 1 && p->h % h == 0 && p->w % w == 0 && p->h / h == p->w / w;
}

/* How the elements of a target correspond to the pixels of p.  The size of p is tried before smaller sizes, and the order of
 * axes of the images before the other order. */
static ot_pixels_of pixels_of(const ot_feeder *f, const ot_picture *p, bool channels_last)
{
    const ot_tensor *t = &f->src->t;
    bool plain = f->target && !f->whole && t->dtype != OT_STRING && ot_dtype_bits(t->dtype) >= 8;
    if (f->mask) return (ot_pixels_of){ f->from.h == p->h && f->from.w == p->w, p->h, p->w, 1 };
    for (int way = 0; way < 4 && plain; way++) {
        bool last = t->rank > 3 && (way % 2) != channels_last;
        int y = t->rank - 2 - last;
        if (y < 1 || !divides(p, t->dim[y], t->dim[y + 1]) || (way < 2 && t->dim[y] != p->h)) continue;
        ot_pixels_of q = { 1, t->dim[y], t->dim[y + 1], last ? t->dim[t->rank - 1] : 1 };
        for (int i = 1; i < y; i++) q.planes *= t->dim[i];
        return q;
    }
    return (ot_pixels_of){ 0 };
}

/* Is the target an image?  It has rank 4 or more with several long axes, or two axes in the proportions of p. */
static bool is_spatial(const ot_feeder *f, const ot_picture *p)
{
    const ot_tensor *t = &f->src->t;
    int sides = 0;
    for (int i = 1; i < t->rank; i++) sides += t->dim[i] > 1;
    bool alike = t->rank == 3 && t->dim[1] * p->w == t->dim[2] * p->h;
    return f->target && !f->whole && (f->mask || (sides > 1 && (alike || t->rank > 3)));
}

/* Refuses targets that are images and would not move with the augmented images. */
static ot_status check_followed(const ot_feeders *fs, const ot_augment *list, const ot_picture *p, ot_error *err)
{
    char text[128];
    for (int i = 0; i < fs->n && ot_augment_moves(list); i++) {
        const ot_feeder *f = &fs->f[i];
        ot_shape shape = ot_array_shape(f->src);
        if (!f->augment && f->as_input && f->src->source)
            shape = (ot_shape){ 4, { shape.dim[0], f->to.h, f->to.w, f->to.c } };
        else if (f->augment || !is_spatial(f, p)) continue;
        return ot_fail(
            err, OT_E_USAGE,
            "--augment %s: moves the pixels of images, but target '%s' of shape %s cannot follow: it needs "
            "height and width, as (N,H,W), (N,C,H,W) or (N,H,W,C), equal to the %lldx%lld of the images or a "
            "whole fraction of them; use a target of such a size, or only augmentations that do not move "
            "pixels (--augment jitter)",
            ot_augment_text(list), f->src->t.name, ot_shape_text(&shape, text), (long long)p->h, (long long)p->w);
    }
    return OT_OK;
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
    g->seed = e->s->seed;
    g->samples = fs->samples;
    g->threads = threads < 1 ? 1 : threads;
    f->augment = g;
    if (!ot_augmenting_draws(f)) return OT_OK;
    size_t own = ot_augment_scratch(g->list, &as_it_is, g->from.h, g->from.w, &to);
    if (own == SIZE_MAX) return ot_fail(err, OT_E_NOMEM, "input '%s': the image is too large", f->name);
    g->room = own + 2 * rounded(bytes_of(&g->at)) + rounded(bytes_of(&g->from)) + rounded(g->at.h * g->at.w * 4);
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
        mask.kind = OT_AUGMENTED_MASK;
        mask.pixels = pixels_of(q, &like->at, like->from.channels_last);
        bool other =
            q->src != f->src; /* images beside those of the input, which move with them if they have their size */
        bool sized = q->to.h == f->to.h && q->to.w == f->to.w && q->to.c == f->to.c;
        if (q->as_input && !q->augment && (!other || sized)) { /* what changes values is of the input alone */
            ot_augment *still;
            ot_augmenting same = *like;
            OT_TRY(ot_augment_still(like->list, e->a, &still, err));
            same.list = still;
            OT_TRY(attach(e, threads, fs, q, &same, err));
            continue;
        }
        if (!mask.pixels.planes || q->augment) continue;
        if (like->mixes)
            return ot_fail(err, OT_E_USAGE,
                           "--augment mixup, cutmix: target '%s' has values for each pixel; these cannot be mixed",
                           q->src->t.name);
        OT_TRY(attach(e, threads, fs, q, &mask, err));
        ot_adapt_note(e, "target '%s' follows the geometry of the images of '%s'", q->src->t.name, f->name);
    }
    return OT_OK;
}

/* Warns of targets with several values, which may be positions in the image, if augmentation moves its pixels. */
static ot_status warn_of_values(const ot_adapt_env *e, const ot_feeders *fs, const ot_augment *list, ot_error *err)
{
    for (int i = 0; i < fs->n && e->findings; i++) {
        const ot_feeder *f = &fs->f[i];
        bool values = f->target && !f->whole && !f->augment && ot_is_float(f->dtype) && ot_numel(&f->sample) > 1;
        if (!values || f->binary || f->adds_up[0] || f->adds_up[1]) continue;
        int n;
        const char *const *column = ot_dataset_target_columns(fs->data, f->src, &n);
        const char *names = n ? ot_arena_names(e->a, column, n) : "";
        if (!names) return ot_fail(err, OT_E_NOMEM, "no memory to prepare the data");
        ot_find(e->findings, OT_FINDING_WARNING, NULL,
                "if they are places in the image, use only changes that move no pixels, such as jitter",
                "--augment %s moves the pixels of an image, but not the values of target '%s'%s%s%s",
                ot_augment_text(list), f->src->t.name, n ? " (" : "", names, n ? ")" : "");
    }
    return OT_OK;
}

/* ---- batches that are mixed, and noise -------------------------------------------------- */

/* The output of a target of class numbers, if its loss accepts probabilities too; else NULL. */
static const ot_output *output_of(const ot_adapt_env *e, const ot_feeder *f, const ot_output *outputs, int n)
{
    const ot_output *o = n ? &outputs[0] : NULL;
    const char *loss = "cross_entropy";
    for (int i = 0; i < n && strlen(f->name) > 7; i++)
        if (!strcmp(f->name + 7, outputs[i].name)) o = &outputs[i]; /* target_<output> */
    for (int i = 0; o && i < e->s->options.n_losses; i++) {
        const ot_spec *s = &e->s->options.losses[i];
        if (!s->output || !strcmp(s->output, o->name)) loss = s->name;
    }
    bool takes = !strcmp(loss, "cross_entropy") || !strcmp(loss, "nll");
    return takes && o && o->shape.rank == 2 && o->shape.dim[1] > 1 && f->sample.rank == 0 && !f->ignores ? o : NULL;
}

static ot_status mix_target(const ot_adapt_env *e, const ot_output *outputs, int n, int threads, ot_feeders *fs,
                            ot_feeder *f, const ot_augmenting *like, ot_error *err)
{
    ot_augmenting g = *like;
    const ot_output *o = output_of(e, f, outputs, n);
    if (ot_is_float(f->dtype)) {
        g.kind = OT_AUGMENTED_VALUES;
        g.noise = 0;
        return attach(e, threads, fs, f, &g, err);
    }
    if (!o)
        return ot_fail(
            err, OT_E_USAGE,
            "--augment mixup, cutmix: target '%s' cannot be mixed; one class number for each sample, with loss "
            "cross_entropy or nll, or values can",
            f->src->t.name);
    g.kind = OT_AUGMENTED_CLASSES;
    OT_TRY(attach(e, threads, fs, f, &g, err));
    f->dtype = OT_F32;
    f->sample = (ot_shape){ 1, { o->shape.dim[1] } };
    f->gather.elements = o->shape.dim[1];
    f->binary = f->varies = f->uncounted = false;
    f->adds_up[0] = f->adds_up[1] = true;
    ot_adapt_note(e, "target '%s': class numbers become probabilities of %lld classes", f->src->t.name,
                  (long long)o->shape.dim[1]);
    return OT_OK;
}

/* Sets up noise on values, and the targets of mixed batches. */
static ot_status add_values(const ot_adapt_env *e, const ot_output *outputs, int n, int threads, ot_feeders *fs,
                            const ot_augment *list, const ot_picture *at, int *found, ot_error *err)
{
    bool mixes = ot_augment_mixes(list);
    ot_augmenting like = {
        .list = list, .kind = OT_AUGMENTED_VALUES, .mixes = mixes, .noise = ot_augment_noise(list), .at = *at
    };
    for (int i = 0; i < fs->n; i++) {
        ot_feeder *f = &fs->f[i];
        bool floats = ot_is_float(f->dtype) && ot_is_float(f->src->t.dtype);
        if (f->whole || f->augment) continue;
        if (f->target) {
            if (mixes) OT_TRY(mix_target(e, outputs, n, threads, fs, f, &like, err));
            continue;
        }
        if (mixes && (!floats || ot_augment_cuts(list)))
            return ot_fail(err, OT_E_USAGE, "--augment %s: input '%s' cannot be mixed; %s",
                           floats ? "cutmix" : "mixup, cutmix", f->name,
                           floats ? "cutmix is for images" : "images and floats can");
        if (!floats || (!mixes && like.noise <= 0)) continue;
        OT_TRY(attach(e, threads, fs, f, &like, err));
        ot_adapt_note(e, "input '%s': training samples are augmented: %s", f->name, ot_augment_text(list));
        ++*found;
    }
    return OT_OK;
}

/* ---- windows over tokens ------------------------------------------------------------------ */

/* Feeders of the tokens themselves, or of the next ones. */
static bool has_tokens(const ot_feeder *f)
{
    return !f->whole && f->src->mapped && !f->src->same && f->sample.rank == 1;
}

static ot_status attach_tokens(const ot_adapt_env *e, const ot_feeders *fs, bool later, ot_error *err)
{
    ot_augmenting like = { .kind = OT_AUGMENTED_TOKENS, .of = fs->data };
    for (int i = 0; i < fs->n; i++) {
        ot_feeder *f = &fs->f[i];
        if (!has_tokens(f)) continue;
        if (!f->augment) OT_TRY(attach(e, 1, fs, f, &like, err));
        f->augment->later |= later;
    }
    return OT_OK;
}

ot_masking ot_masking_of(const ot_settings *s)
{
    ot_masking m = { 0 };
    for (int i = 0; i < s->n_augment; i++) {
        const ot_spec *q = &s->augment[i];
        if (!strcmp(q->name, "mask")) m = (ot_masking){ ot_spec_num(q, "p"), (int64_t)ot_spec_num(q, "token"), 0 };
    }
    return m;
}

ot_status ot_adapt_masking(const ot_adapt_env *e, ot_feeders *fs, ot_error *err)
{
    const ot_masking *m = &fs->data->masking;
    if (!(m->p > 0) || !fs->data->windows) return OT_OK;
    for (int i = 0; i < fs->n; i++)
        if (fs->f[i].target && has_tokens(&fs->f[i])) fs->f[i].ignores = true, fs->f[i].ignored = OT_IGNORED;
    ot_adapt_note(e,
                  "%.1f %% of the tokens are predicted; of these 80 %% are masked (token %lld), 10 %% are random ones",
                  100 * m->p, (long long)m->token);
    return attach_tokens(e, fs, false, err);
}

static ot_status augment_windows(const ot_adapt_env *e, const ot_feeders *fs, ot_error *err)
{
    const ot_settings *s = e->s;
    for (int i = 0; i < s->n_augment; i++) {
        const char *name = s->augment[i].name;
        if (!strcmp(name, "mask") || !strcmp(name, "auto") || !strcmp(name, "none")) continue;
        if (strcmp(name, "crop"))
            return ot_fail(err, OT_E_USAGE, "--augment %s: does not apply to a text; mask and crop do", name);
        OT_TRY(attach_tokens(e, fs, true, err));
        ot_adapt_note(e, "--augment crop: each window begins at a random token within its stride");
    }
    return OT_OK;
}

/* Recordings: crop takes a random part of longer ones; auto means crop. */
static ot_status augment_sounds(const ot_adapt_env *e, int threads, ot_feeders *fs, const ot_augment *list, int *found,
                                ot_error *err)
{
    const ot_settings *s = e->s;
    for (int i = 0; i < fs->n; i++) {
        ot_feeder *f = &fs->f[i];
        if (!ot_array_is_sound(f->src)) continue;
        for (int k = 0; k < s->n_augment; k++) {
            const char *name = s->augment[k].name;
            bool crop = !strcmp(name, "crop") || !strcmp(name, "auto");
            if (!strcmp(name, "noise") || !strcmp(name, "mixup") || !strcmp(name, "none")) continue;
            if (!crop)
                return ot_fail(err, OT_E_USAGE, "--augment %s: does not apply to recordings; crop, noise and mixup do",
                               name);
            ot_augmenting like = { .list = list, .kind = OT_AUGMENTED_VALUES };
            if (!f->augment) OT_TRY(attach(e, threads, fs, f, &like, err));
            f->augment->later = true;
            ot_adapt_note(e, "input '%s': a random part of longer recordings is taken", f->name);
            ++*found;
        }
    }
    return OT_OK;
}

static bool any_sounds(const ot_feeders *fs)
{
    bool any = false;
    for (int i = 0; i < fs->n; i++) any |= ot_array_is_sound(fs->f[i].src);
    return any;
}

static ot_status nothing_found(const ot_adapt_env *e, bool automatic, ot_error *err)
{
    const char *name = e->s->augment[0].name;
    if (automatic) {
        if (strcmp(name, "none"))
            ot_adapt_note(e, "--augment auto: the data has no images of bytes (uint8); nothing is augmented");
        return OT_OK;
    }
    bool noise = !strcmp(name, "noise");
    if (noise && ot_spec_num(&e->s->augment[0], "std") == 0) {
        ot_adapt_note(e, "--augment noise: std is 0: nothing is added");
        return OT_OK;
    }
    if (noise)
        return ot_fail(err, OT_E_USAGE,
                       "--augment noise: needs images of bytes (uint8) or inputs of floats; the data has none");
    return ot_fail(
        err, OT_E_USAGE,
        "--augment %s: needs images of bytes (uint8) of 1 to 4 channels, (N,H,W), (N,C,H,W) or (N,H,W,C); the data has none",
        name);
}

ot_status ot_adapt_augment(const ot_adapt_env *e, const ot_output *outputs, int n, int threads, ot_feeders *fs,
                           ot_error *err)
{
    const ot_settings *s = e->s;
    int found = 0;
    bool automatic = true;
    ot_augment *list = NULL;
    ot_picture at = { .h = 1, .w = 1, .c = 1 };
    if (!s->n_augment) return OT_OK;
    if (fs->data && fs->data->windows) return augment_windows(e, fs, err);
    for (int i = 0; i < s->n_augment; i++)
        automatic &= !strcmp(s->augment[i].name, "auto") || !strcmp(s->augment[i].name, "none");
    for (int i = 0; i < fs->n; i++) {
        ot_augmenting one = { .kind = OT_AUGMENTED_PICTURES };
        if (!has_pictures(&fs->f[i], &one.from, &one.at)) continue;
        found++;
        OT_TRY(ot_augment_make(s->augment, s->n_augment, one.at.h, one.at.w, (int)one.at.c, e->a, &list, err));
        if (found > 1 && ot_augment_cuts(list) && (at.h != one.at.h || at.w != one.at.w))
            return ot_fail(err, OT_E_USAGE, "--augment cutmix: the images of the inputs have different sizes");
        at = one.at;
        one.list = list;
        one.mixes = ot_augment_mixes(list);
        if (ot_augment_steps(list) || one.mixes) OT_TRY(add_pictures(e, threads, fs, &fs->f[i], &one, err));
    }
    if (list) OT_TRY(check_followed(fs, list, &at, err));
    if (list && ot_augment_moves(list)) OT_TRY(warn_of_values(e, fs, list, err));
    bool sounds = any_sounds(fs);
    if (!list && (!automatic || sounds)) {
        OT_TRY(ot_augment_make(s->augment, s->n_augment, 1, 1, 1, e->a, &list, err));
        if (ot_augment_needs_images(list) && !sounds) return nothing_found(e, automatic, err);
    }
    if (list) OT_TRY(add_values(e, outputs, n, threads, fs, list, &at, &found, err));
    if (sounds) OT_TRY(augment_sounds(e, threads, fs, list, &found, err));
    return found ? OT_OK : nothing_found(e, automatic, err);
}

/* ---- drawing -------------------------------------------------------------------------- */

/* Converts planes to channels last. */
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

/* Elements of a mask come from where the middles of their pixels do; where there was no picture they are 0. */
static void draw_mask(const ot_feeder *f, const char *x, const ot_augment_key *key, char *dst, char *scratch)
{
    const ot_augmenting *g = f->augment;
    const ot_pixels_of *q = &g->pixels;
    int64_t n = q->h * q->w, one = q->each * ot_dtype_bits(f->src->t.dtype) / 8;
    ot_augment_geometry how = { .map = (int32_t *)(void *)scratch };
    ot_picture now = ot_augment_resizes(g->list) ? g->from : g->at;
    ot_image from = image_of(&now, NULL), to = image_of(&g->at, NULL);
    ot_augment_run(g->list, &as_it_is, &from, &to, &how, key, scratch + rounded(g->at.h * g->at.w * 4));
    memset(dst, 0, (size_t)(g->pixels.planes * n * one));
    bool each_pixel = q->h == g->at.h && q->w == g->at.w, same = q->h == now.h && q->w == now.w;
    for (int64_t i = 0; i < n; i++) {
        int64_t pixel, k;
        if (each_pixel) {
            pixel = how.map[i];
        } else {
            int64_t row = (2 * (i / q->w) + 1) * g->at.h / (2 * q->h);
            pixel = how.map[row * g->at.w + (2 * (i % q->w) + 1) * g->at.w / (2 * q->w)];
        }
        if (pixel < 0) continue;
        k = same ? pixel : pixel / now.w * q->h / now.h * q->w + pixel % now.w * q->w / now.w;
        for (int64_t p = 0; p < q->planes; p++) memcpy(dst + (p * n + i) * one, x + (p * n + k) * one, (size_t)one);
    }
}

int64_t ot_augmenting_bytes(const ot_feeder *f)
{
    const ot_augmenting *g = f->augment;
    if (g->kind == OT_AUGMENTED_MASK && !f->mask)
        return g->pixels.planes * g->pixels.h * g->pixels.w * g->pixels.each * (ot_dtype_bits(f->src->t.dtype) / 8);
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
    if (g->kind == OT_AUGMENTED_MASK) draw_mask(f, x, &key, dst, scratch);
    else draw_picture(f, (const uint8_t *)x, &key, dst, scratch);
}

/* ---- batches -------------------------------------------------------------------------- */

bool ot_augmenting_draws(const ot_feeder *f)
{
    return f->augment && (f->augment->kind == OT_AUGMENTED_PICTURES || f->augment->kind == OT_AUGMENTED_MASK);
}

static size_t spare_bytes(const ot_feeder *f)
{
    if (!f->augment->mixes) return 0;
    return ot_augmenting_draws(f) ? (size_t)ot_augmenting_bytes(f) : ot_bytes(&f->sample, f->dtype);
}

int64_t ot_augmenting_room(const ot_feeder *f)
{
    int64_t room;
    if (!f->augment) return 0;
    return ot_mul((int64_t)f->augment->room, f->augment->threads, &room) && ot_add(room, (int64_t)spare_bytes(f), &room)
               ? room
               : INT64_MAX / 2;
}

ot_status ot_augmenting_prepare(ot_feeder *f, ot_arena *a, ot_error *err)
{
    ot_augmenting *g = f->augment;
    if (!g) return OT_OK;
    if (!g->scratch && g->room) g->scratch = ot_arena_alloc(a, g->room * (size_t)g->threads);
    if (!g->spare && g->mixes) g->spare = ot_arena_alloc(a, spare_bytes(f) + 1);
    bool good = (g->scratch || !g->room) && (g->spare || !g->mixes);
    return good ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for a batch of '%s'", f->name);
}

/* The same for every feeder of a batch. */
static ot_mix mix_of(const ot_augmenting *g, int64_t given)
{
    ot_augment_key key = { g->seed, (uint64_t)(given / g->samples), (uint64_t)(given % g->samples) };
    return ot_augment_mix(g->list, g->at.h, g->at.w, &key);
}

/* Mixes x into y. */
static void mix_bytes(const ot_mix *m, const ot_picture *p, bool last, const uint8_t *x, uint8_t *y)
{
    int64_t n = p->h * p->w * p->c;
    if (!m->cut) {
        float a = (float)m->kept, b = (float)(1 - m->kept);
        for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)(a * (float)y[i] + b * (float)x[i] + 0.5f);
        return;
    }
    int64_t planes = last ? 1 : p->c, wide = last ? p->c : 1;
    for (int64_t c = 0; c < planes; c++)
        for (int64_t i = m->box[0]; i < m->box[0] + m->box[2]; i++) {
            int64_t at = ((c * p->h + i) * p->w + m->box[1]) * wide;
            memcpy(y + at, x + at, (size_t)(m->box[3] * wide));
        }
}

void ot_augmenting_mix(const ot_feeder *f, uint8_t *drawn, int64_t n, int64_t given)
{
    const ot_augmenting *g = f->augment;
    if (!g->mixes || n < 2) return;
    ot_mix m = mix_of(g, given);
    int64_t one = ot_augmenting_bytes(f);
    ot_picture p = f->redraw ? f->to : g->at;
    memcpy(g->spare, drawn + (n - 1) * one, (size_t)one);
    for (int64_t i = n - 1; i >= 0; i--)
        mix_bytes(&m, &p, f->src->source || (!f->redraw && g->from.channels_last), i ? drawn + (i - 1) * one : g->spare,
                  drawn + i * one);
}

static void mix_values(const ot_feeder *f, const ot_mix *m, int64_t n, char *v)
{
    int64_t each = ot_numel(&f->sample), one = (int64_t)ot_bytes(&f->sample, f->dtype);
    memcpy(f->augment->spare, v + (n - 1) * one, (size_t)one);
    for (int64_t i = n - 1; i >= 0; i--) {
        const void *x = i ? v + (i - 1) * one : f->augment->spare;
        for (int64_t k = 0; k < each; k++)
            ot_set_f64(v + i * one, f->dtype, k,
                       m->kept * ot_get_f64(v + i * one, f->dtype, k) + (1 - m->kept) * ot_get_f64(x, f->dtype, k));
    }
}

static void add_noise(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, char *v)
{
    const ot_augmenting *g = f->augment;
    int64_t each = ot_numel(&f->sample), one = (int64_t)ot_bytes(&f->sample, f->dtype);
    for (int64_t i = 0; i < n; i++) {
        ot_augment_key key = { g->seed, (uint64_t)((given + i) / g->samples), (uint64_t)index[i] };
        uint64_t first = (uint64_t)f->array << 40; /* every input has noise of its own */
        for (int64_t k = 0; k < each; k++)
            ot_set_f64(v + i * one, f->dtype, k,
                       ot_get_f64(v + i * one, f->dtype, k) + g->noise * ot_augment_normal(&key, first + (uint64_t)k));
    }
}

/* What is predicted of a sample, and its replacement: the same for every feeder. */
static void mask_sample(const ot_feeder *f, const ot_augment_key *key, int64_t n, char *v)
{
    const ot_masking *m = &f->augment->of->masking;
    bool target = f->target || !strcmp(f->name, "labels");
    uint32_t r[4];
    int64_t only = -1, any = 0;
    double most = m->p * 0x1p32;
    for (int64_t k = 0; k < n && !any; k++) {
        ot_augment_bits(key, (uint64_t)k, r);
        any = r[0] < most;
    }
    ot_augment_bits(key, (uint64_t)n, r);
    if (!any) only = (int64_t)((uint64_t)r[0] * (uint64_t)n >> 32); /* a sample without any would teach nothing */
    for (int64_t k = 0; k < n; k++) {
        ot_augment_bits(key, (uint64_t)k, r);
        bool chosen = r[0] < most || k == only;
        int64_t random = (int64_t)((uint64_t)r[2] * (uint64_t)m->kinds >> 32);
        if (target && !chosen) ot_set_f64(v, f->dtype, k, OT_IGNORED);
        if (target || !chosen) continue;
        double u = r[1] * 0x1p-32;
        if (u < 0.9) ot_set_f64(v, f->dtype, k, (double)(u < 0.8 ? m->token : random));
    }
}

static void draw_tokens(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, char *v)
{
    const ot_augmenting *g = f->augment;
    int64_t each = ot_numel(&f->sample), one = (int64_t)ot_bytes(&f->sample, f->dtype);
    const ot_tensor *t = &f->src->t;
    for (int64_t i = 0; i < n; i++) {
        uint32_t r[4];
        ot_augment_key key = { g->seed, given < 0 ? UINT64_MAX : (uint64_t)((given + i) / g->samples),
                               (uint64_t)index[i] };
        ot_augment_bits(&key, (uint64_t)each + 1, r);
        uint64_t slack = g->later && given >= 0 ? (uint64_t)ot_dataset_slack(g->of, index[i]) + 1 : 1;
        int64_t at = ot_array_at(f->src, index[i] * each) + (int64_t)((uint64_t)r[0] * slack >> 32);
        for (int64_t k = 0; k < each; k++)
            ot_set_f64(v + i * one, f->dtype, k, (double)ot_get_i64(t->data, t->dtype, at + k));
        if (g->of->masking.p > 0) mask_sample(f, &key, each, v + i * one);
    }
}

void ot_augmenting_change(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst)
{
    const ot_augmenting *g = f->augment;
    if (g->noise > 0) add_noise(f, index, n, given, dst);
    if (!g->mixes || n < 2) return;
    ot_mix m = mix_of(g, given);
    mix_values(f, &m, n, dst);
}

void ot_augmenting_values(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads)
{
    const ot_augmenting *g = f->augment;
    bool mixes = given >= 0 && g->mixes && n > 1;
    ot_mix m = mixes ? mix_of(g, given) : (ot_mix){ .kept = 1 };
    if (g->kind == OT_AUGMENTED_TOKENS) {
        draw_tokens(f, index, n, given, dst);
        return;
    }
    if (g->kind == OT_AUGMENTED_VALUES) {
        ot_gather_run(&f->gather, index, n, dst, threads);
        if (given >= 0) ot_augmenting_change(f, index, n, given, dst);
        return;
    }
    int64_t classes = f->sample.dim[0];
    const ot_tensor *t = &f->src->t;
    float *y = dst;
    memset(y, 0, (size_t)(n * classes) * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        int64_t other = index[i ? i - 1 : n - 1];
        y[i * classes + ot_get_i64(t->data, t->dtype, ot_array_at(f->src, index[i]))] += (float)m.kept;
        y[i * classes + ot_get_i64(t->data, t->dtype, ot_array_at(f->src, other))] += (float)(1 - m.kept);
    }
}
