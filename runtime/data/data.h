/* data.h - data sets on the host: arrays with a sample axis, and how a batch is cut from them.
 *
 * A data set is a list of arrays.  An array of "samples" kind has the sample axis first; one of
 * "whole" kind is fed as it is with every batch.  Nothing here knows a model: runtime/train/adapt.c
 * matches arrays to the inputs of a graph. */
#ifndef OT_DATA_H
#define OT_DATA_H

#include "runtime/base/base.h"

typedef enum ot_array_role { OT_ARRAY_INPUT, OT_ARRAY_TARGET } ot_array_role;

typedef struct ot_array {
    ot_tensor     t;        /* name: as in the file; "" for formats without names (idx): matched by role */
    ot_array_role role;     /* target: "target", "target_<output>", labels of idx */
    bool          whole;    /* not cut into batches */
    bool          picture;  /* bytes of pixels, (N,H,W), (N,H,W,C) or (N,C,H,W): --normalize applies */
} ot_array;

typedef struct ot_dataset {
    ot_arena          *arena;      /* owns the arrays' bytes */
    const char        *name;       /* "mnist", or the path */
    int64_t            samples;
    int                n;
    ot_array          *array;
    int                n_classes;  /* 0: unknown */
    const char *const *class_name; /* NULL: unknown */
    uint64_t           hash;       /* fingerprint of names, shapes and bytes */
} ot_dataset;

typedef enum ot_split { OT_SPLIT_TRAIN, OT_SPLIT_TEST } ot_split;

/* Opens a named set or a path (DESIGN 7).  OT_SPLIT_TEST: the set's own test part; *out is NULL and
 * the status OT_OK when it has none.  `search`: more folders to look named sets up in, NULL-ended,
 * or NULL.  Errors: OT_E_DATA (malformed; file and place named), OT_E_IO, OT_E_NOMEM. */
ot_status ot_dataset_open(const char *spec, ot_split split, const char *const *search, ot_dataset **out, ot_error *err);
void      ot_dataset_free(ot_dataset *d);

/* The sample order of an epoch: a permutation of 0..n-1 that depends on (seed, epoch, n) alone. */
void ot_order(uint64_t seed, uint64_t epoch, int64_t n, int64_t *order);

/* One input of a batch: samples order[0..n) of src as the graph wants them. */
typedef struct ot_gather {
    const ot_array *src;
    ot_dtype        dtype;       /* of the result; integers must fit (checked when the data is adapted) */
    int64_t         elements;    /* per sample */
    bool            scale;       /* y = x * mul[c] + add[c] */
    int             channels;    /* length of mul and add; 1: the same for all */
    int64_t         inner;       /* elements per channel plane: c = (i / inner) % channels */
    float           mul[16], add[16];
    int64_t         permute[3];  /* source (H,W,C) to (C,H,W) when permute[0] is not permute[1]; sizes H, W, C; 0: none */
} ot_gather;

void ot_gather_run(const ot_gather *g, const int64_t *index, int64_t n, void *dst, int threads);

/* Writes arrays as .npz (stored, not deflated), atomically.  Names may hold any character. */
ot_status ot_npz_write(const char *path, const ot_tensor *t, int n, ot_error *err);

#endif
