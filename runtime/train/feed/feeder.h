/* feeder.h - makes the batches of one input or target of the plans from a data set. */
#ifndef OT_FEEDER_H
#define OT_FEEDER_H

#include "runtime/data/data.h"
#include "runtime/passes/passes.h"

typedef struct ot_augmenting ot_augmenting;

/* The allowed numbers of an array that is checked batch by batch (ot_array.mapped). */
typedef struct ot_range {
    int64_t least, most, except; /* least to most, or `except` */
    const char *why;             /* "'wte' has 256 rows"; NULL: they are not checked */
} ot_range;

/* One input or target of the plans, and how a batch of it is made. */
typedef struct ot_feeder {
    const char *name;    /* of the graph input, or "target", "target_<output>" */
    int array;           /* of the data set: which */
    const ot_array *src; /* of the data set, or `own` */
    ot_array own;        /* src with another reading of its bytes, or of its shape */
    const char *output;  /* a target: of which output; NULL: unknown */
    bool target, whole;
    bool as_input; /* a target that is also an input: scaled and augmented like it */
    bool as_is;    /* whole, and its first dimension may differ from the file's */
    bool open;     /* the first dimension is open in the file */
    /* Targets only: */
    bool binary;  /* all values are 0 or 1 */
    bool varies;  /* binary, and both occur */
    bool others;  /* some values are neither 0 nor 1, before augmentation */
    bool named;   /* the classes are strings */
    bool ignores; /* some class numbers are OT_IGNORED */
    /* Some class numbers are `ignored`, and the loss is a mean, which a batch of these alone does not have. */
    bool uncounted;
    int64_t ignored;
    int batch_axis;  /* the axis of the samples in its output */
    bool by_rows;    /* as in ot_feed */
    bool adds_up[2]; /* as in ot_feed, for targets that are probabilities */

    bool known; /* the plans depend on the contents of `buffer` */
    ot_dtype dtype;
    ot_range range;
    ot_shape sample;       /* the shape of one sample; of a whole array: its shape */
    int axis[OT_MAX_RANK]; /* the order of the array's axes that --permute or the model's record gives */
    int axes;              /* 0: neither does */
    ot_gather gather;
    /* Images whose size or number of channels differs from the model's input are redrawn. */
    bool redraw;
    ot_picture from, to;
    struct ot_image_cache *cache; /* of a source, while a loader has one: decoded images; NULL: none are kept */
    ot_augmenting *augment;       /* of a training: random changes of samples (augmenting.h); NULL: none */
    int64_t most;                 /* capacity of `drawn` and `buffer`, in samples */
    ot_array drawn;         /* images of another size, (batch, C, H, W) bytes; else augmented samples as src has them */
    void *buffer;           /* the batch as the plans read it */
    struct ot_mask *mask;   /* a target whose samples are images of class numbers (masks.h); else NULL */
    ot_fit fit;             /* of a source: how its images become `to` ... */
    ot_normalize normalize; /* ... and how these are scaled */
    bool bgr;               /* of a source: blue comes first */
    /* Samples that a loader has drawn: held_index[0..n_held), as `drawn` describes them; NULL: none. */
    const uint8_t *held;
    const int64_t *held_index;
    int64_t n_held;
} ot_feeder;

/* Predicts the batch with number `position` for a loader, which draws it in advance: at most `most` samples in index, their
 * number, and ot_feeder_take's `given`.  false: no batch follows. */
typedef struct ot_ahead {
    bool (*batch)(void *user, int64_t position, int64_t most, int64_t *index, int64_t *n, int64_t *given);
    void *user;
} ot_ahead;

struct ot_loader;

typedef struct ot_feeders {
    const ot_dataset *data;
    int n;
    ot_feeder *f;
    int64_t samples;
    ot_ahead ahead;
    bool again;                               /* its samples are taken in several epochs: decoded images are kept */
    struct ot_loader *loader;                 /* NULL: samples are drawn when they are taken */
    int64_t skip_bad;                         /* how many samples that cannot be read are replaced by others */
    void (*bad)(void *user, const char *why); /* called for each of these; NULL: no call */
    void *bad_user;
} ot_feeders;

/* The feeders as a plan for `batch` samples sees them; list has fs->n. */
void ot_feeders_feeds(const ot_feeders *fs, int64_t batch, ot_feed *list);

/* The first target whose labels in a batch of these samples are all ignored, if its loss is a mean; NULL: none. */
const ot_feeder *ot_feeders_uncounted(const ot_feeders *fs, const int64_t *index, int64_t n);

/* The fixed batch size of the file, from its inputs with samples; 0: the size is open. */
int64_t ot_feeders_baked(const ot_feeders *fs, const ot_graph *file);

int64_t ot_feeder_bytes(const ot_feeder *f, int64_t batch);

/* Makes room for batches of up to `batch` samples; takes a whole array. */
ot_status ot_feeder_prepare(ot_feeder *f, int64_t batch, ot_arena *a, ot_error *err);

/* For `given` below: samples are as the set has them. */
enum { OT_NOT_AUGMENTED = -1 };

/* dst: samples index[0..n) (of a whole array: all of it) as the graph expects them.  given: the number of samples that the
 * training has used before them, over all epochs; or OT_NOT_AUGMENTED.  Errors: those of ot_image_source.read. */
ot_status ot_feeder_take(ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads,
                         ot_error *err);

/* dst: the same samples as the set has them (redrawn, if their size changes); ot_feeder_set describes them and returns
 * false if there is no such form (strings, elements smaller than a byte, whole arrays). */
ot_status ot_feeder_take_raw(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads,
                             ot_error *err);
bool ot_feeder_set(const ot_feeder *f, int64_t samples, ot_feed_set *out);

/* Checks samples index[0..n) of mapped arrays: the files are unchanged, the numbers in range.  Errors: OT_E_DATA, OT_E_IO. */
ot_status ot_feeders_check(const ot_feeders *fs, const int64_t *index, int64_t n, ot_error *err);

#endif
