/* feeder.h - how one value that the plans are fed with is made of a data set, batch by batch. */
#ifndef OT_FEEDER_H
#define OT_FEEDER_H

#include "runtime/data/data.h"
#include "runtime/passes/passes.h"

typedef struct ot_augmenting ot_augmenting;

/* What numbers may be, where they are checked batch by batch (ot_array.mapped). */
typedef struct ot_range {
    int64_t least, most, except;
    const char *why; /* "'wte' has 256 rows"; NULL: they are not checked */
} ot_range;

/* One value the plans are fed with, and how a batch of it is made. */
typedef struct ot_feeder {
    const char *name;    /* of the graph input, or "target", "target_<output>" */
    int array;           /* of the data set: which */
    const ot_array *src; /* of the data set, or `own` */
    ot_array own;        /* src with another reading of its bytes, or of its shape */
    const char *output;  /* a target: of which output; NULL: unknown */
    bool target, whole;
    bool as_input; /* a target that is an input as this is fed: scaled alike, and where it is augmented, moved alike */
    bool as_is;    /* whole, and its first dimension may be another than the file's */
    bool open;     /* the file does not say the first dimension */
    bool binary;   /* a target of zeros and ones */
    bool varies;   /* and both occur */
    bool others;   /* a target with other values than these, before augmentation */
    bool named;    /* a target of texts */
    bool ignores;  /* a target some of whose class numbers are OT_IGNORED */
    bool
        uncounted; /* a target some of whose class numbers are `ignored`, and its loss is a mean: of a batch of those alone, of nothing */
    int64_t ignored;
    int batch_axis;  /* a target: of its output, the axis of the samples */
    bool by_rows;    /* a target: as in ot_feed */
    bool adds_up[2]; /* a target of shares: as in ot_feed */
    bool known;      /* plans are made for the bytes of its buffer alone */
    ot_dtype dtype;
    ot_range range;
    ot_shape sample; /* whole: the shape as it is; else that of one sample */
    int axis[OT_MAX_RANK],
        axes; /* the order of the array's axes as --permute, or the model's record of it, gives them; axes 0: neither */
    ot_gather gather;
    /* pictures of another size or number of channels than the model wants */
    bool redraw;
    ot_picture from, to;
    struct ot_image_cache *cache; /* of a source, while a loader has one: decoded images; NULL: none are kept */
    ot_augmenting *augment;       /* of a training: samples are drawn at random (augmenting.h); NULL: they are not */
    int64_t most;                 /* samples `drawn` and `buffer` hold */
    ot_array drawn;       /* pictures of another size, (batch, C, H, W) bytes; else augmented samples as src has them */
    void *buffer;         /* the batch as the plans read it */
    struct ot_mask *mask; /* a target whose samples are images of class numbers (masks.h); else NULL */
    ot_fit fit;           /* of a source: how its images become `to`, and how these are scaled */
    ot_normalize normalize;
    bool bgr; /* of a source: blue comes first */
    /* Samples that a loader has drawn: held_index[0..n_held), as `drawn` describes them; NULL: none. */
    const uint8_t *held;
    const int64_t *held_index;
    int64_t n_held;
} ot_feeder;

/* The batch with number `position`, for a loader that draws it before it is asked for: at most `most` samples in index, how
 * many, and ot_feeder_take's `given`.  false: none follows. */
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
    int64_t skip_bad;                         /* so many samples that cannot be read are replaced by others */
    void (*bad)(void *user, const char *why); /* told of each; NULL: nobody asks */
    void *bad_user;
} ot_feeders;

/* The feeders as a plan for `batch` samples sees them; list has fs->n. */
void ot_feeders_feeds(const ot_feeders *fs, int64_t batch, ot_feed *list);

/* A target of which nothing counts in a batch of these samples, where its loss is a mean; NULL: there is none. */
const ot_feeder *ot_feeders_uncounted(const ot_feeders *fs, const int64_t *index, int64_t n);

/* The batch size that the file has baked in, as its inputs with samples say; 0: it leaves the size open. */
int64_t ot_feeders_baked(const ot_feeders *fs, const ot_graph *file);

int64_t ot_feeder_bytes(const ot_feeder *f, int64_t batch);

/* Makes room for batches of up to `batch` samples; takes a whole array. */
ot_status ot_feeder_prepare(ot_feeder *f, int64_t batch, ot_arena *a, ot_error *err);

/* For `given` below: samples are as the set has them. */
enum { OT_NOT_AUGMENTED = -1 };

/* dst: samples index[0..n) (whole: all of it) as the graph wants them.  given: samples that the training was given before
 * them, counted over its epochs; or OT_NOT_AUGMENTED.  Errors: those of ot_image_source.read. */
ot_status ot_feeder_take(ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads,
                         ot_error *err);

/* dst: the same samples as the set has them (drawn, where their size changes); ot_feeder_set describes them.  false: they
 * cannot be had so (texts, elements smaller than a byte, whole arrays). */
ot_status ot_feeder_take_raw(const ot_feeder *f, const int64_t *index, int64_t n, int64_t given, void *dst, int threads,
                             ot_error *err);
bool ot_feeder_set(const ot_feeder *f, int64_t samples, ot_feed_set *out);

/* Samples index[0..n) of mapped arrays: their files are unchanged, their numbers in range.  Errors: OT_E_DATA, OT_E_IO. */
ot_status ot_feeders_check(const ot_feeders *fs, const int64_t *index, int64_t n, ot_error *err);

#endif
