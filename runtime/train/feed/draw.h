/* draw.h - the first stage of a feeder: samples as images of bytes, of the size that the model takes. */
#ifndef OT_DRAW_H
#define OT_DRAW_H

#include "runtime/train/feed/bind_inputs.h"
#include "runtime/train/feed/image_cache.h"

/* What one thread needs to draw; zeroed at first.  Its memory is kept for the next sample. */
typedef struct ot_draw_room {
    ot_image_room source;
    void *scratch;
    size_t size;
    uint8_t *base; /* the image before augmentation, where it is not kept */
    size_t base_size;
    int64_t sample;        /* 1 + the number of the image that was drawn last; 0: none */
    int64_t height, width; /* its size, which its mask must have too */
} ot_draw_room;

void ot_draw_room_free(ot_draw_room *r);

/* At least n bytes of scratch.  Errors: OT_E_NOMEM. */
ot_status ot_draw_reserve(ot_draw_room *r, size_t n, const ot_image *from, ot_error *err);

/* What the augmentation of a sample begins with: its image fitted to f's size, or as it was decoded where resized_crop takes a
 * part of it.  Taken from f->cache, or decoded and kept there as far as there is room.  out: until `room` is used again;
 * *height, *width: of the file's image.  Errors: those of ot_image_source.read. */
ot_status ot_draw_base(const ot_feeder *f, int64_t sample, ot_draw_room *room, ot_image *out, int64_t *height,
                       int64_t *width, ot_error *err);

bool ot_draw_as_decoded(const ot_feeder *f); /* the second of these */

/* Is this feeder drawn by a loader: is a sample more work than its copy? */
bool ot_feeder_loads(const ot_feeder *f);

bool ot_feeders_load(const ot_feeders *fs); /* any of them */

bool ot_feeder_keeps(const ot_feeder *f); /* and may it be kept for later epochs: is it an image? */

int64_t ot_feeder_drawn_bytes(const ot_feeder *f); /* of one sample; 0: nothing is drawn */

/* to: the sample as f->gather expects it: (C,H,W), or (H,W,C) of a source.  A function of (f, given, sample) alone; given
 * OT_NOT_AUGMENTED: as in an evaluation, without anything random.  Errors: those of ot_image_source.read. */
ot_status ot_feeder_draw(const ot_feeder *f, int64_t given, int64_t sample, ot_draw_room *room, uint8_t *to,
                         ot_error *err);

/* Why a sample cannot be drawn, in err; nothing if it can. */
void ot_feeder_try(const ot_feeder *f, int64_t sample, ot_draw_room *room, ot_error *err);

#endif
