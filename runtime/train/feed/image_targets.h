/* image_targets.h - targets in image files that are images, for models that compute an image from an image. */
#ifndef OT_IMAGE_TARGETS_H
#define OT_IMAGE_TARGETS_H

#include "runtime/train/feed/bind_inputs.h"

/* Are the files of target a, of a table, images?  By the loss on that output (NULL: none is given), which takes values for each
 * pixel: a loss of distances, or one of shares where the output has three channels.  Else they are masks. */
bool ot_target_is_image(const ot_dataset *d, const ot_array *a, const ot_spec *loss, const ot_output *output);

/* How such a target is fed, in f; name: of the feed.  Errors, added to err: OT_E_DATA (no input is images, or the loss takes other
 * values), OT_E_USAGE (the scaling has other channels), OT_E_NOMEM. */
ot_status ot_image_target(const ot_adapt_env *e, const ot_feeders *fs, const ot_array *a, const ot_spec *loss,
                          const ot_output *output, const char *name, ot_feeder *f, ot_error *err);

#endif
