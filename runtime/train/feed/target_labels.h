/* target_labels.h - a target that a loss needs, and the checks of its elements. */
#ifndef OT_TARGET_LABELS_H
#define OT_TARGET_LABELS_H

#include "runtime/losses/losses.h"
#include "runtime/train/feed/bind_inputs.h"

/* A target that a loss needs. */
typedef struct ot_wanted {
    const ot_spec *loss;     /* NULL: the loss pass chooses */
    const ot_output *output; /* NULL: not known which */
    const ot_array *array;
    const ot_dataset *data; /* that it is in */
    const char *name;       /* of the feed */
    bool lengths;           /* a whole number per sample: how much of its output or target counts */
} ot_wanted;

/* The targets that the loss accepts; without a loss the loss pass chooses one for classes or for values. */
ot_takes ot_wanted_takes(const ot_wanted *w);

/* The first loss on the same output that needs targets from 0 to 1; NULL: none. */
const ot_spec *ot_wanted_loss_of_shares(const ot_adapt_env *e, const ot_wanted *w);

/* The checks below add their error to err: OT_E_DATA, with the line or the sample of the element; OT_E_NOMEM.  Elements of a mapped
 * array are not read: f->range gets what they must be, and they are checked batch by batch.  samples: of the array. */

/* Tables of strings and class folders name all their classes: are they as many as the output has?  Fewer mean that the model is for
 * other classes. */
ot_status ot_target_check_names(const ot_adapt_env *e, const ot_wanted *w, int64_t classes, ot_error *err);

/* Is every class number from 0 to classes - 1, or ignored: ignore_index, by default OT_IGNORED as in PyTorch?  Sets what f ignores. */
ot_status ot_target_check_labels(const ot_adapt_env *e, const ot_wanted *w, int64_t classes, int64_t samples,
                                 ot_feeder *f, ot_error *err);

/* Is every value from 0 to 1, if a loss needs this?  Losses of two classes or of probabilities have no minimum for other targets.
 * Masks in files are not checked here (masks.h). */
ot_status ot_target_check_shares(const ot_adapt_env *e, const ot_wanted *w, int64_t samples, ot_feeder *f,
                                 ot_error *err);

/* Is the column of the target one of numbers?  The numbers of strings are no values: 1 is not nearer to 2 than to 3.  Two strings are
 * accepted as no and yes by losses of two classes. */
ot_status ot_target_check_texts(const ot_wanted *w, ot_error *err);

#endif
