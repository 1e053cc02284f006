/* thumbnail.h - a sample as a small picture. */
#ifndef OT_THUMBNAIL_H
#define OT_THUMBNAIL_H

#include "runtime/train/feed/bind_inputs.h"

/* "data:image/png;base64,...", malloc'ed: a sample of the feeder, grey or in colours, of at most 96 x 96 pixels.  Bytes of
 * pictures are shown as they are in the set; other numbers are scaled, the lowest to black and the highest to white.
 * *out NULL: the sample is not a picture.  Uses the feeder's buffer.  Errors: OT_E_NOMEM. */
ot_status ot_thumbnail(ot_feeder *f, int64_t index, int threads, char **out, ot_error *err);

#endif
