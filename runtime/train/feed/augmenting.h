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

/* A sample of a target with elements for each pixel, or for each square of pixels: (planes, h, w, each).  planes 0: it is none. */
typedef struct ot_pixels_of {
    int64_t planes, h, w, each;
} ot_pixels_of;

/* How samples of one feeder are drawn. */
struct ot_augmenting {
    const ot_augment *list;
    ot_augmented kind;
    uint64_t seed;
    bool mixes;           /* batches are */
    int64_t samples;      /* of an epoch */
    ot_picture from, at;  /* of the pictures: as the set has them; as they are augmented, channels last */
    ot_pixels_of pixels;  /* MASK */
    double noise;         /* VALUES */
    const ot_dataset *of; /* TOKENS: the windows */
    bool later;           /* they begin at random within their stride; VALUES: so do parts of recordings */
    int threads;
    size_t room; /* bytes of scratch per thread */
    char *scratch;
    void *spare; /* mixes: one sample */
};

/* Sets `augment` of the feeders that --augment is for; fs: of the training set, with its targets.  Errors: OT_E_USAGE: a
 * step that no array of the set is fit for. */
ot_status ot_adapt_augment(const ot_adapt_env *e, const ot_output *outputs, int n, int threads, ot_feeders *fs,
                           ot_error *err);

ot_masking ot_masking_of(const ot_settings *s); /* as --augment mask says */

/* Masks the tokens of a set that says so, for the training and for evaluations.  fs: with its targets.  Errors: OT_E_NOMEM. */
ot_status ot_adapt_masking(const ot_adapt_env *e, ot_feeders *fs, ot_error *err);

bool ot_augmenting_draws(const ot_feeder *f); /* samples are drawn one by one: pictures, masks */

/* Mixes n drawn samples of pictures, of one batch. */
void ot_augmenting_mix(const ot_feeder *f, uint8_t *drawn, int64_t n, int64_t given);

/* dst: the batch of values, or of probabilities. */
void ot_augmenting_values(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads);

/* What it does to n samples of a training that are there: noise, means of two samples. */
void ot_augmenting_change(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst);

/* Bytes beside drawn samples. */
int64_t ot_augmenting_room(const ot_feeder *f);
ot_status ot_augmenting_prepare(ot_feeder *f, ot_arena *a, ot_error *err);

/* dst: bytes of sample `index` as f->drawn describes them.  given: samples that the training was given before this one, which says
 * the epoch; thread: below f->augment->threads, one call at a time each. */
void ot_augmenting_draw(const ot_feeder *f, int64_t index, int64_t given, void *dst, int thread);

/* Bytes of a drawn sample. */
int64_t ot_augmenting_bytes(const ot_feeder *f);

#endif
