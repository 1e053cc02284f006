/* draw.h - the first stage of a feeder: samples as images of bytes, of the size that the model takes. */
#ifndef OT_DRAW_H
#define OT_DRAW_H

#include "runtime/train/feed/bind_inputs.h"

/* What one thread needs to draw; zeroed at first.  Its memory is kept for the next sample. */
typedef struct ot_draw_room {
    ot_image_room source;
    void *scratch;
    size_t size;
    int64_t sample, height,
        width; /* the image that was drawn last, + 1, and its size: its mask has the same; 0: none was */
} ot_draw_room;

void ot_draw_room_free(ot_draw_room *r);

/* At least n bytes of scratch.  Errors: OT_E_NOMEM. */
ot_status ot_draw_reserve(ot_draw_room *r, size_t n, const ot_image *from, ot_error *err);

/* Is this feeder drawn by a loader: is a sample more work than its copy? */
bool ot_feeder_loads(const ot_feeder *f);

bool ot_feeders_load(const ot_feeders *fs); /* any of them */

int64_t ot_feeder_drawn_bytes(const ot_feeder *f); /* of one sample; 0: nothing is drawn */

/* to: the sample as f->gather expects it: (C,H,W), or (H,W,C) of a source.  A function of (f, given, sample) alone; given
 * OT_NOT_AUGMENTED: as in an evaluation, without anything random.  Errors: those of ot_image_source.read. */
ot_status ot_feeder_draw(const ot_feeder *f, int64_t given, int64_t sample, ot_draw_room *room, uint8_t *to,
                         ot_error *err);

/* Why a sample cannot be drawn, in err; nothing if it can. */
void ot_feeder_try(const ot_feeder *f, int64_t sample, ot_draw_room *room, ot_error *err);

#endif
