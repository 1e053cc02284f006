/* draw.c - draws samples as images of bytes, in the size of the model's input. */
#include "runtime/train/feed/augmenting.h"
#include "runtime/train/feed/draw.h"
#include "runtime/train/feed/masks.h"
#include "runtime/train/feed/sound.h"

#include <stdlib.h>
#include <string.h>

void ot_draw_room_free(ot_draw_room *r)
{
    ot_image_room_free(&r->source);
    free(r->scratch);
    free(r->base);
    *r = (ot_draw_room){ 0 };
}

bool ot_feeder_loads(const ot_feeder *f) { return f->redraw && f->src->source; }

bool ot_feeder_keeps(const ot_feeder *f) { return ot_feeder_loads(f) && !ot_array_is_sound(f->src); }

bool ot_feeders_load(const ot_feeders *fs)
{
    bool any = false;
    for (int i = 0; i < fs->n; i++) any |= ot_feeder_loads(&fs->f[i]);
    return any;
}

int64_t ot_feeder_drawn_bytes(const ot_feeder *f)
{
    return f->redraw ? f->to.c * f->to.h * f->to.w * (ot_dtype_bits(f->src->t.dtype) / 8) : 0;
}

ot_status ot_draw_reserve(ot_draw_room *r, size_t n, const ot_image *from, ot_error *err)
{
    if (n <= r->size) return OT_OK;
    free(r->scratch);
    r->size = 0;
    if (n == SIZE_MAX || !(r->scratch = malloc(n)))
        return ot_fail(err, OT_E_NOMEM, "no memory to resize an image of %lld x %lld pixels", (long long)from->width,
                       (long long)from->height);
    r->size = n;
    return OT_OK;
}

bool ot_draw_as_decoded(const ot_feeder *f) { return f->augment && ot_augment_resizes(f->augment->list); }

/* Memory for the image before augmentation: in the cache, or in `room`. */
static ot_status base_room(const ot_feeder *f, ot_image *like, ot_draw_room *room, ot_kept **kept, ot_error *err)
{
    size_t n = (size_t)(like->height * like->width * like->channels);
    if ((*kept = ot_image_cache_room(f->cache, like->height, like->width, like->channels))) {
        *like = (*kept)->image;
        return OT_OK;
    }
    if (n > room->base_size) {
        free(room->base);
        room->base_size = 0;
        if (!(room->base = malloc(n))) return ot_fail(err, OT_E_NOMEM, "no memory for an image of '%s'", f->name);
        room->base_size = n;
    }
    like->data = room->base;
    return OT_OK;
}

ot_status ot_draw_base(const ot_feeder *f, int64_t sample, ot_draw_room *room, ot_image *out, int64_t *height,
                       int64_t *width, ot_error *err)
{
    const ot_array *a = f->src;
    const ot_picture *p = f->mask ? &f->from : &f->to;
    const ot_kept *there = ot_image_cache_find(f->cache, sample);
    ot_kept *kept = NULL;
    ot_image from;
    if (there) {
        *out = there->image;
        *height = there->height;
        *width = there->width;
        return OT_OK;
    }
    OT_TRY(a->source->read(a->source, a->row ? a->row[sample] : sample, (int)p->c, &room->source, &from, err));
    *height = from.height;
    *width = from.width;
    if (ot_draw_as_decoded(f)) {
        *out = from;
        if ((kept = ot_image_cache_room(f->cache, from.height, from.width, from.channels))) {
            memcpy(kept->image.data, from.data, (size_t)(from.height * from.stride));
            *out = kept->image;
        }
    } else {
        *out = (ot_image){ NULL, p->h, p->w, (int)p->c, p->w * p->c };
        OT_TRY(ot_draw_reserve(room, ot_image_fit_scratch(&f->fit, from.height, from.width, out), &from, err));
        OT_TRY(base_room(f, out, room, &kept, err));
        ot_image_fit(&f->fit, &from, out, room->scratch);
    }
    if (!kept) return OT_OK;
    kept->height = *height;
    kept->width = *width;
    ot_image_cache_put(f->cache, sample, kept);
    return OT_OK;
}

static void blue_first(uint8_t *x, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++, x += 3) {
        uint8_t red = x[0];
        x[0] = x[2];
        x[2] = red;
    }
}

static ot_status draw_source(const ot_feeder *f, int64_t given, int64_t sample, ot_draw_room *room, uint8_t *to,
                             ot_error *err)
{
    ot_image from, out = { to, f->to.h, f->to.w, (int)f->to.c, f->to.w * f->to.c };
    int64_t height, width;
    OT_TRY(ot_draw_base(f, sample, room, &from, &height, &width, err));
    const ot_augmenting *g = given >= 0 ? f->augment : NULL;
    if (f->target && g && room->sample == sample + 1 && (room->height != height || room->width != width))
        return ot_fail(
            err, OT_E_DATA,
            "%s/%s: the target has %lldx%lld pixels, but its image %lldx%lld: with --augment they must be equal",
            f->src->source->folder, f->src->source->name(f->src->source, f->src->row ? f->src->row[sample] : sample),
            (long long)height, (long long)width, (long long)room->height, (long long)room->width);
    room->height = height;
    room->width = width;
    room->sample = sample + 1;
    size_t n = g ? ot_augment_scratch(g->list, &f->fit, from.height, from.width, &out)
                 : ot_image_fit_scratch(&f->fit, from.height, from.width, &out);
    OT_TRY(ot_draw_reserve(room, n, &from, err));
    if (g) {
        ot_augment_key key = { g->seed, (uint64_t)(given / g->samples), (uint64_t)sample };
        ot_augment_run(g->list, &f->fit, &from, &out, NULL, &key, room->scratch);
    } else {
        ot_image_fit(&f->fit, &from, &out, room->scratch);
    }
    if (f->bgr) blue_first(to, f->to.h * f->to.w);
    return OT_OK;
}

ot_status ot_feeder_draw(const ot_feeder *f, int64_t given, int64_t sample, ot_draw_room *room, uint8_t *to,
                         ot_error *err)
{
    if (f->mask) return ot_mask_draw(f, given, sample, room, to, err);
    if (ot_array_is_sound(f->src)) return ot_sound_draw(f, given, sample, room, to, err);
    if (f->src->source) return draw_source(f, given, sample, room, to, err);
    const uint8_t *x = f->src->t.data;
    ot_redraw(x + sample * f->from.c * f->from.h * f->from.w, &f->from, &f->to, to);
    return OT_OK;
}

void ot_feeder_try(const ot_feeder *f, int64_t sample, ot_draw_room *room, ot_error *err)
{
    const ot_array *a = f->src;
    ot_image out;
    if (f->mask || ot_array_is_sound(a)) {
        uint8_t *to = malloc((size_t)ot_feeder_drawn_bytes(f) + 1);
        room->sample = 0;
        if (to) (void)ot_feeder_draw(f, OT_NOT_AUGMENTED, sample, room, to, err);
        free(to);
    } else if (a->source)
        (void)a->source->read(a->source, a->row ? a->row[sample] : sample, (int)f->to.c, &room->source, &out, err);
}
