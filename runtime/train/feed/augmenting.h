/* augmenting.h - augmentation of the samples of a training: which feeders it is for, and how a sample is drawn. */
#ifndef OT_AUGMENTING_H
#define OT_AUGMENTING_H

#include "runtime/picture/augment.h"
#include "runtime/train/feed/bind_inputs.h"

typedef enum ot_augmented {
    OT_AUGMENTED_PICTURES,
    OT_AUGMENTED_MASK,    /* a target whose elements are of pixels */
    OT_AUGMENTED_VALUES,  /* floats: noise, and means of two samples */
    OT_AUGMENTED_CLASSES, /* class numbers, which become probabilities */
    OT_AUGMENTED_TOKENS   /* windows over tokens: masked, or begun later; evaluations are masked too */
} ot_augmented;

/* The layout of a target with elements for each pixel or square of pixels: (planes, h, w, each).  planes 0: another target. */
typedef struct ot_pixels_of {
    int64_t planes, h, w, each;
} ot_pixels_of;

/* How samples of one feeder are drawn. */
struct ot_augmenting {
    const ot_augment *list;
    ot_augmented kind;
    uint64_t seed;
    bool mixes;           /* samples of a batch are mixed with each other */
    int64_t samples;      /* of an epoch */
    ot_picture from, at;  /* of the pictures: as the set has them; as they are augmented, channels last */
    ot_pixels_of pixels;  /* MASK */
    double noise;         /* VALUES */
    const ot_dataset *of; /* TOKENS: the windows */
    bool later; /* windows begin at a random token within their stride; VALUES: parts of recordings likewise */
    int threads;
    size_t room; /* bytes of scratch per thread */
    char *scratch;
    void *spare; /* mixes: one sample */
};

/* Sets `augment` of the feeders that --augment applies to; fs: of the training set, with its targets.  Errors: OT_E_USAGE: an
 * augmentation that applies to no array of the set. */
ot_status ot_adapt_augment(const ot_adapt_env *e, const ot_output *outputs, int n, int threads, ot_feeders *fs,
                           ot_error *err);

ot_masking ot_masking_of(const ot_settings *s); /* as --augment mask says */

/* Masks the tokens of a set with ot_dataset.masking, in trainings and evaluations.  fs: with its targets.  Errors: OT_E_NOMEM. */
ot_status ot_adapt_masking(const ot_adapt_env *e, ot_feeders *fs, ot_error *err);

bool ot_augmenting_draws(const ot_feeder *f); /* samples are drawn one by one: pictures, masks */

/* Mixes n drawn samples of pictures, of one batch. */
void ot_augmenting_mix(const ot_feeder *f, uint8_t *drawn, int64_t n, int64_t given);

/* dst: the batch of values, or of probabilities. */
void ot_augmenting_values(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads);

/* Changes n samples of a training in place: noise, means of two samples. */
void ot_augmenting_change(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst);

/* Bytes of memory besides drawn samples. */
int64_t ot_augmenting_room(const ot_feeder *f);
ot_status ot_augmenting_prepare(ot_feeder *f, ot_arena *a, ot_error *err);

/* dst: bytes of sample `index` as f->drawn describes them.  given: samples that the training was given before this one, which says
 * the epoch; thread: below f->augment->threads, one call at a time each. */
void ot_augmenting_draw(const ot_feeder *f, int64_t index, int64_t given, void *dst, int thread);

/* Bytes of a drawn sample. */
int64_t ot_augmenting_bytes(const ot_feeder *f);

#endif
