/* masks.c - targets in image files: their size, their class numbers, and their augmentation with the images. */
#include "runtime/train/feed/masks.h"

#include <math.h>
#include <string.h>

#include "runtime/train/feed/augmenting.h"

/* The feeder of the images to which the masks belong. */
static const ot_feeder *images_of(const ot_feeders *fs)
{
    for (int i = 0; i < fs->n; i++)
        if (!fs->f[i].target && fs->f[i].src->source && fs->f[i].redraw) return &fs->f[i];
    return NULL;
}

/* Is h x w an image size with the proportions of p, and not larger? */
static bool fits(const ot_picture *p, int64_t h, int64_t w)
{
    return h > 0 && w > 0 && h <= p->h && w <= p->w && h * p->w == w * p->h;
}

ot_status ot_mask_shape(const ot_feeders *fs, const ot_output *output, const char *target, ot_shape *out, ot_error *err)
{
    char text[128];
    const ot_feeder *x = images_of(fs);
    const int64_t *d = output ? output->shape.dim : NULL;
    int rank = output ? output->shape.rank : 0;
    if (!x) return ot_fail_more(err, OT_E_DATA, "target '%s' is masks, but no input of the model takes images", target);
    *out = (ot_shape){ 2, { x->to.h, x->to.w } };
    if (!output) return OT_OK;
    int at = rank == 4 && fits(&x->to, d[2], d[3]) ? 2 : rank >= 3 && rank <= 4 && fits(&x->to, d[1], d[2]) ? 1 : 0;
    if (!at)
        return ot_fail_more(err, OT_E_DATA,
                            "target '%s' is masks of images of %lldx%lld, but output '%s' has the shape %s", target,
                            (long long)x->to.h, (long long)x->to.w, output->name, ot_shape_text(&output->shape, text));
    *out = (ot_shape){ 2, { d[at], d[at + 1] } };
    return OT_OK;
}

ot_status ot_mask_set(const ot_adapt_env *e, const ot_feeders *fs, const ot_spec *loss, const ot_shape *sample,
                      ot_feeder *f, ot_error *err)
{
    const ot_picture *p = &images_of(fs)->to;
    const ot_param *ignore = loss ? ot_spec_find(loss, "ignore_index") : NULL;
    ot_mask *m = f->mask = ot_arena_alloc(e->a, sizeof *m);
    if (!m) return ot_fail_more(err, OT_E_NOMEM, "no memory to prepare the data");
    *m = (ot_mask){ .most = f->range.why ? f->range.most : 1,
                    .except = ignore && !isnan(ignore->num) ? (int64_t)ignore->num : -1 };
    f->binary = !f->range.why;
    m->yes = m->most == 1 && m->except != OT_MASK_VOID;
    m->voids = !m->yes && m->except < 0 && m->most < OT_MASK_VOID && ot_is_int(f->dtype);
    f->ignores = m->voids;
    f->ignored = OT_IGNORED;
    f->range.why = NULL;
    f->redraw = true;
    f->from = (ot_picture){ p->h, p->w, 1, false };
    f->to = (ot_picture){ sample->dim[0], sample->dim[1], 1, false };
    f->fit = (ot_fit){ .mode = OT_FIT_CROP, .filter = OT_NEAREST };
    ot_adapt_note(e, "target '%s': masks of %lldx%lld, classes 0 to %lld%s", f->src->t.name, (long long)f->to.h,
                  (long long)f->to.w, (long long)m->most,
                  m->yes     ? "; 255 is class 1"
                  : m->voids ? "; pixels of 255 are ignored"
                             : "");
    return OT_OK;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static size_t rounded(int64_t n) { return (size_t)(n + 63) / 64 * 64; }

static ot_status wrong(const ot_feeder *f, int64_t sample, const char *what, int v, ot_error *err)
{
    const ot_array *a = f->src;
    return ot_fail(err, OT_E_DATA, "%s/%s: the mask contains %d%s%lld%s", a->source->folder,
                   a->source->name(a->source, a->row ? a->row[sample] : sample), v, what, (long long)f->mask->most,
                   f->mask->voids ? ", and 255 for none" : "");
}

static ot_status check(const ot_feeder *f, int64_t sample, uint8_t *x, ot_error *err)
{
    const ot_mask *m = f->mask;
    bool seen[256] = { false };
    for (int64_t i = 0, n = f->to.h * f->to.w; i < n; i++) seen[x[i]] = true;
    for (int v = 0; v < 256; v++)
        if (seen[v] && v > m->most && v != m->except && !(v == OT_MASK_VOID && (m->yes || m->voids)))
            return wrong(f, sample, ", but classes are 0 to ", v, err);
    if (!m->yes || !seen[OT_MASK_VOID]) return OT_OK;
    if (seen[1]) return wrong(f, sample, " and 255, which both would be class 1 of 0 to ", 1, err);
    for (int64_t i = 0, n = f->to.h * f->to.w; i < n; i++) x[i] = x[i] == OT_MASK_VOID;
    return OT_OK;
}

/* The pixels of `from` at the positions of the augmented image; 0 outside. */
static void draw_augmented(const ot_feeder *f, const ot_augment_key *key, const ot_image *from, const ot_image *at,
                           char *scratch)
{
    const ot_augmenting *g = f->augment;
    int64_t n = at->height * at->width;
    ot_augment_geometry how = { .map = (int32_t *)(void *)scratch };
    ot_image shape = *from, to = { NULL, at->height, at->width, (int)g->at.c, at->width * g->at.c };
    shape.channels = to.channels;
    shape.data = NULL;
    ot_augment_run(g->list, &f->fit, &shape, &to, &how, key, scratch + rounded(n * 4));
    for (int64_t i = 0; i < n; i++) {
        int64_t k = how.map[i];
        at->data[i] = k < 0 ? 0 : from->data[k / from->width * from->stride + k % from->width];
    }
}

static void take_nearest(const ot_image *from, const ot_picture *q, uint8_t *to)
{
    for (int64_t i = 0; i < q->h; i++) {
        int64_t y = (2 * i + 1) * from->height / (2 * q->h);
        for (int64_t j = 0; j < q->w; j++)
            *to++ = from->data[y * from->stride + (2 * j + 1) * from->width / (2 * q->w)];
    }
}

ot_status ot_mask_draw(const ot_feeder *f, int64_t given, int64_t sample, ot_draw_room *room, uint8_t *to,
                       ot_error *err)
{
    const ot_array *a = f->src;
    const ot_augmenting *g = given >= 0 ? f->augment : NULL;
    int64_t pixels = f->from.h * f->from.w, height, width;
    ot_image from, at = { NULL, f->from.h, f->from.w, 1, f->from.w };
    OT_TRY(ot_draw_base(f, sample, room, &from, &height, &width, err));
    if (room->sample == sample + 1 && (room->height != height || room->width != width))
        return ot_fail(err, OT_E_DATA, "%s/%s: the mask has %lldx%lld pixels, but its image %lldx%lld",
                       a->source->folder, a->source->name(a->source, a->row ? a->row[sample] : sample),
                       (long long)height, (long long)width, (long long)room->height, (long long)room->width);
    ot_image like = { NULL, at.height, at.width, g ? (int)g->at.c : 1, 0 };
    size_t run = g ? ot_augment_scratch(g->list, &f->fit, from.height, from.width, &like)
                   : ot_image_fit_scratch(&f->fit, from.height, from.width, &at);
    size_t own = rounded(pixels) + rounded(pixels * 4);
    OT_TRY(ot_draw_reserve(room, run < SIZE_MAX - own ? own + run : SIZE_MAX, &from, err));
    at.data = room->scratch;
    char *rest = (char *)room->scratch + rounded(pixels);
    if (g) {
        ot_augment_key key = { g->seed, (uint64_t)(given / g->samples), (uint64_t)sample };
        draw_augmented(f, &key, &from, &at, rest);
    } else {
        ot_image_fit(&f->fit, &from, &at, rest);
    }
    take_nearest(&at, &f->to, to);
    return check(f, sample, to, err);
}

void ot_mask_ignore(const ot_feeder *f, void *v, int64_t n)
{
    int64_t *x = v;
    if (!f->mask->voids || f->dtype != OT_I64) return;
    for (int64_t i = 0, all = n * f->gather.elements; i < all; i++)
        if (x[i] == OT_MASK_VOID) x[i] = f->ignored;
}
