/* contact_sheet.c - `data --preview`: samples, and beside each what --augment makes of it in the first epochs of a training, as a
 * PNG.  Masks are drawn over their images: a colour for each class but 0, white for what counts nowhere. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/io.h"
#include "runtime/picture/picture.h"
#include "runtime/train/commands/contact_sheet.h"
#include "runtime/train/feed/augmenting.h"
#include "runtime/train/feed/masks.h"
#include "runtime/train/options/options.h"
#include "runtime/train/run/files.h"

enum { ROWS = 8, VARIANTS = 7, SMALL = 64, LARGE = 192, GAP = 4, MARGIN = 12, WHITE = 255, USUAL = 224 };

typedef struct sheet {
    const ot_dataset *d;
    ot_settings s;
    ot_normalize z;
    ot_feeder f[2]; /* of the images, as if a model took them as they are; of their masks */
    bool masks;
    ot_mask mask;
    ot_feeders fs;
    ot_arena *a;
    ot_picture from;
    int64_t side_h, side_w; /* of a tile */
    const char *notes;
} sheet;

/* ---- tiles ---------------------------------------------------------------------------- */

/* Small images are enlarged by a whole factor, large ones reduced. */
static void choose_tile(sheet *x)
{
    int64_t longer = x->from.h > x->from.w ? x->from.h : x->from.w,
            by = longer < SMALL ? (SMALL + longer - 1) / longer : 1;
    x->side_h = x->from.h * by;
    x->side_w = x->from.w * by;
    if (longer <= LARGE) return;
    x->side_h = x->from.h * LARGE / longer;
    x->side_w = x->from.w * LARGE / longer;
    if (x->side_h < 1) x->side_h = 1;
    if (x->side_w < 1) x->side_w = 1;
}

/* The colour of a class as in PASCAL VOC: its bits, from the lowest, are the highest of red, green, blue in turn. */
static int colour_of(int class, int channel)
{
    int v = 0;
    for (int bit = 0; bit < 3; bit++) v |= (class >> (3 * bit + channel) & 1) << (7 - bit);
    return v;
}

/* A sample in the layout of its array to a tile of R, G, B.  mask: a class for each pixel; NULL: there is none. */
static ot_status put_tile(const sheet *x, const uint8_t *bytes, const uint8_t *mask, const ot_image *tile,
                          ot_error *err)
{
    ot_picture p = x->from;
    int64_t n = p.h * p.w, colours = p.c < 3 ? 1 : 3;
    ot_fit fit = { .mode = OT_FIT_STRETCH, .filter = x->side_h < p.h ? OT_BILINEAR : OT_NEAREST };
    uint8_t *rgb = malloc((size_t)n * 3);
    size_t room = ot_image_fit_scratch(&fit, p.h, p.w, tile);
    void *scratch = rgb && room < SIZE_MAX ? malloc(room) : NULL;
    ot_image from = { rgb, p.h, p.w, 3, p.w * 3 };
    for (int64_t i = 0; i < n * 3 && scratch; i++) {
        int64_t c = colours == 1 ? 0 : i % 3;
        rgb[i] = p.channels_last ? bytes[i / 3 * p.c + c] : bytes[c * n + i / 3];
        int class = mask ? mask[i / 3] : 0;
        if (class) rgb[i] = (uint8_t)((rgb[i] + (class == OT_MASK_VOID ? WHITE : colour_of(class, (int)(i % 3)))) / 2);
    }
    if (scratch) ot_image_fit(&fit, &from, tile, scratch);
    ot_status s = scratch ? OT_OK : ot_fail(err, OT_E_NOMEM, "--preview: no memory for an image");
    free(scratch);
    free(rgb);
    return s;
}

/* Draws sample `index` unchanged, or augmented as after `given` other samples. */
static ot_status draw_image(const sheet *x, int64_t index, int64_t given, ot_draw_room *room, uint8_t *to,
                            ot_error *err)
{
    const ot_feeder *f = &x->f[0];
    int64_t one = x->from.h * x->from.w * x->from.c;
    if (f->src->source) return ot_feeder_draw(f, given, index, room, to, err);
    if (given >= 0) ot_augmenting_draw(f, index, given, to, 0);
    else memcpy(to, (const uint8_t *)f->src->t.data + ot_array_at(f->src, index * one), (size_t)one);
    return OT_OK;
}

static ot_status draw_mask(const sheet *x, int64_t index, int64_t given, ot_draw_room *room, uint8_t *to, ot_error *err)
{
    const ot_feeder *f = &x->f[1];
    const ot_tensor *t = &f->src->t;
    int64_t n = x->from.h * x->from.w;
    if (f->src->source) return ot_feeder_draw(f, given, index, room, to, err);
    size_t size = (size_t)ot_dtype_bits(t->dtype) / 8;
    void *drawn = given >= 0 ? malloc((size_t)n * size) : NULL;
    if (given >= 0 && !drawn) return ot_fail(err, OT_E_NOMEM, "--preview: no memory for a mask");
    if (drawn) ot_augmenting_draw(f, index, given, drawn, 0);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = ot_get_i64(drawn ? drawn : t->data, t->dtype, drawn ? i : ot_array_at(f->src, index * n + i));
        to[i] = v >= 0 && v < OT_MASK_VOID ? (uint8_t)v : OT_MASK_VOID;
    }
    free(drawn);
    return OT_OK;
}

/* Draws a row for each sample: unchanged, then as augmented in epoch 1, 2, ... */
static ot_status draw_sheet(sheet *x, int64_t rows, int variants, const ot_image *all, ot_error *err)
{
    int64_t pixels = x->from.h * x->from.w, n = x->d->samples;
    uint8_t *bytes = malloc((size_t)(pixels * (x->from.c + 1))), *mask = bytes ? bytes + pixels * x->from.c : NULL;
    ot_draw_room room = { 0 };
    ot_status s = bytes ? OT_OK : ot_fail(err, OT_E_NOMEM, "--preview: no memory for an image");
    for (int64_t r = 0; r < rows && !s; r++)
        for (int v = 0; v <= variants && !s; v++) {
            int64_t sample = r * n / rows, left = v * (x->side_w + GAP) + (v ? MARGIN : 0);
            ot_image tile = *all;
            tile.data += r * (x->side_h + GAP) * all->stride + left * 3;
            tile.height = x->side_h;
            tile.width = x->side_w;
            int64_t given = v ? (v - 1) * n : OT_NOT_AUGMENTED;
            s = draw_image(x, sample, given, &room, bytes, err);
            if (!s && x->masks) s = draw_mask(x, sample, given, &room, mask, err);
            if (!s) s = put_tile(x, bytes, x->masks ? mask : NULL, &tile, err);
        }
    ot_draw_room_free(&room);
    free(bytes);
    return s;
}

/* ---- the file ------------------------------------------------------------------------- */

static ot_status write_png(const char *path, const ot_image *m, ot_error *err)
{
    uint8_t *png;
    size_t n;
    ot_replace *file = NULL;
    OT_TRY(ot_picture_png(m->data, m->width, m->height, 3, &png, &n, err));
    ot_status s = ot_replace_begin(path, &file, err);
    if (!s) s = ot_replace_write(file, png, n, err);
    free(png);
    if (!s) return ot_replace_commit(file, err);
    ot_replace_abort(file);
    return s;
}

/* The first array of images. */
static const ot_array *find_images(const ot_dataset *d, ot_picture *p)
{
    for (int i = 0; i < d->n; i++) {
        const ot_array *q = &d->array[i];
        const ot_image_source *s = q->source;
        if (ot_array_is_sound(q)) continue;
        if (s && q->role == OT_ARRAY_INPUT) {
            bool same = s->height > 0;
            *p = (ot_picture){ same ? s->height : USUAL, same ? s->width : USUAL, s->channels, s->channels > 1 };
            return q;
        }
        bool bytes = !s && q->role == OT_ARRAY_INPUT && !q->whole && q->t.dtype == OT_U8 && q->t.rank > 2;
        if (bytes && ot_picture_of(q, p) && p->c <= OT_IMAGE_CHANNELS && p->h > 0 && p->w > 0) return q;
    }
    return NULL;
}

/* Class numbers of whole pixels, in an array or in files. */
static const ot_array *find_masks(const sheet *x)
{
    for (int i = 0; i < x->d->n; i++) {
        const ot_array *q = &x->d->array[i];
        const ot_tensor *t = &q->t;
        bool size = t->rank == 3 || (t->rank == 4 && t->dim[1] == 1);
        if (q->role != OT_ARRAY_TARGET || q->whole) continue;
        if (q->source) return x->f[0].src->source ? q : NULL;
        if (size && t->dim[t->rank - 2] == x->from.h && t->dim[t->rank - 1] == x->from.w && ot_is_int(t->dtype) &&
            ot_dtype_bits(t->dtype) >= 8 && !x->f[0].src->source)
            return q;
    }
    return NULL;
}

static void add_masks(sheet *x)
{
    const ot_array *q = find_masks(x);
    if (!(x->masks = q != NULL)) return;
    ot_picture one = { x->from.h, x->from.w, 1, false };
    x->mask = (ot_mask){ .most = OT_MASK_VOID - 1, .except = -1, .voids = true };
    x->f[1] = (ot_feeder){ .name = "target", .src = q, .target = true, .from = one, .to = one };
    x->fs.n = 2;
    if (!q->source) return;
    x->f[1].mask = &x->mask;
    x->f[1].redraw = true;
    x->f[1].fit = (ot_fit){ .mode = OT_FIT_CROP, .filter = OT_NEAREST };
}

static ot_status preview(sheet *x, const char *path, ot_error *err)
{
    const ot_array *q = find_images(x->d, &x->from);
    if (!q)
        return ot_fail(err, OT_E_USAGE, "--preview: %s has no images of bytes (uint8): (N,H,W), (N,C,H,W) or (N,H,W,C)",
                       x->d->name);
    ot_adapt_env e = { .s = &x->s, .normalize = &x->z, .a = x->a, .notes = &x->notes };
    x->f[0] = (ot_feeder){ .name = *q->t.name ? q->t.name : "images", .src = q, .from = x->from, .to = x->from };
    x->f[0].redraw = q->source != NULL;
    x->f[0].fit = (ot_fit){ .mode = OT_FIT_CROP, .filter = OT_BILINEAR };
    x->fs = (ot_feeders){ .data = x->d, .n = 1, .f = x->f, .samples = x->d->samples };
    add_masks(x);
    OT_TRY(ot_adapt_augment(&e, NULL, 0, 1, &x->fs, err));
    int variants = x->f[0].augment ? VARIANTS : 0;
    int64_t rows = x->d->samples < ROWS ? x->d->samples : ROWS;
    if (rows < 1) return ot_fail(err, OT_E_DATA, "--preview: %s has no samples", x->d->name);
    for (int i = 0; i < x->fs.n; i++) {
        ot_augmenting *g = x->f[i].augment;
        if (g && !(g->scratch = ot_arena_alloc(x->a, g->room + 1)))
            return ot_fail(err, OT_E_NOMEM, "--preview: no memory for an image");
    }
    choose_tile(x);
    ot_image all = { .channels = 3,
                     .height = rows * (x->side_h + GAP) - GAP,
                     .width = (variants + 1) * (x->side_w + GAP) - GAP + (variants ? MARGIN : 0) };
    all.stride = all.width * 3;
    all.data = malloc((size_t)(all.stride * all.height));
    if (!all.data) return ot_fail(err, OT_E_NOMEM, "--preview: no memory for the sheet");
    memset(all.data, WHITE, (size_t)(all.stride * all.height));
    ot_status s = draw_sheet(x, rows, variants, &all, err);
    if (!s) s = write_png(path, &all, err);
    free(all.data);
    return s;
}

/* ---- all ------------------------------------------------------------------------------ */

static ot_status check_place(const sheet *x, const ot_options *o, const char *path, ot_error *err)
{
    const char *what = ot_arena_printf(x->a, "--preview %s", path), *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash : path, '.');
    ot_inputs in = { .configs = ot_options_configs(o, x->a), .data = { x->d } };
    if (!what) return ot_fail(err, OT_E_NOMEM, "no memory for a path");
    OT_TRY(ot_output_check(&in, AT_FDCWD, path, OT_FILE_PNG, what, err));
    return !dot || !strcasecmp(dot, ".png")
               ? OT_OK
               : ot_fail(err, OT_E_USAGE, "%s: the output is a PNG; the file name must end in .png", what);
}

ot_status ot_contact_sheet(const ot_dataset *d, const ot_options *o, ot_arena *a, FILE *f, ot_error *err)
{
    const char *path = ot_options_get(o, "preview");
    sheet x = { .d = d, .a = a, .notes = "" };
    OT_TRY(ot_settings_read(o, NULL, a, &x.s, err));
    if (!path) return x.s.n_augment ? ot_fail(err, OT_E_USAGE, "data: --augment needs --preview FILE.png") : OT_OK;
    OT_TRY(check_place(&x, o, path, err));
    OT_TRY(preview(&x, path, err));
    if (!f) return OT_OK;
    ot_print(f, "%s: %lld samples%s\n", path, (long long)(d->samples < ROWS ? d->samples : ROWS),
             x.f[0].augment ? "; beside each, what --augment makes of it in the first epochs" : "");
    if (*x.notes) ot_print(f, "%-s\n", x.notes); /* lines */
    return OT_OK;
}
