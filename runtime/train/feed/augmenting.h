/* augmenting.h - augmentation of the samples of a training: which feeders it is for, and how a sample is drawn. */
#ifndef OT_AUGMENTING_H
#define OT_AUGMENTING_H

#include "runtime/picture/augment.h"
#include "runtime/train/feed/bind_inputs.h"

/* How samples of one feeder are drawn: pictures, or a target whose elements are of their pixels (a mask). */
struct ot_augmenting {
    const ot_augment *list;
    uint64_t seed;
    int64_t samples;     /* of an epoch */
    ot_picture from, at; /* of the pictures: as the set has them; as they are augmented, channels last */
    int64_t planes;      /* a target: elements of a sample for each pixel; 0: these are the pictures */
    int threads;
    size_t room; /* bytes of scratch per thread */
    char *scratch;
};

/* Sets `augment` of the feeders that --augment is for; fs: of the training set, with its targets.  Errors: OT_E_USAGE: a
 * step that no array of the set is fit for. */
ot_status ot_adapt_augment(const ot_adapt_env *e, int threads, ot_feeders *fs, ot_error *err);

/* dst: bytes of sample `index` as f->drawn describes them.  given: samples that the training was given before this one, which says
 * the epoch; thread: below f->augment->threads, one call at a time each. */
void ot_augmenting_draw(const ot_feeder *f, int64_t index, int64_t given, void *dst, int thread);

/* Bytes of a drawn sample. */
int64_t ot_augmenting_bytes(const ot_feeder *f);

#endif
