/* sound.h - recordings as inputs: [N, T], [N, C, T] or [N, T, C] floats. */
#ifndef OT_FEED_SOUND_H
#define OT_FEED_SOUND_H

#include "runtime/train/feed/draw.h"

/* The feeder of input v, whose array `a` is of recordings.  T: what the file says, else --length, else what was recorded in the
 * training, else the longest.  Errors, added to err: OT_E_DATA: another shape or sample rate; OT_E_USAGE: --length. */
ot_status ot_sound_adapt(const ot_adapt_env *e, const ot_value *v, const ot_array *a, ot_feeder *f, ot_error *err);

/* ot_feeder_draw of such a feeder. */
ot_status ot_sound_draw(const ot_feeder *f, int64_t given, int64_t sample, ot_draw_room *room, uint8_t *to,
                        ot_error *err);

#endif
