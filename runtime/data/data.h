/* data.h - data sets on the host: arrays with a sample axis, and how a batch is cut from them.
 *
 * A data set is a list of arrays.  An array of "samples" kind has the sample axis first; one of
 * "whole" kind is fed as it is with every batch.  Nothing here knows a model: runtime/train/feed/bind_inputs.c
 * matches arrays to the inputs of a graph. */
#ifndef OT_DATA_H
#define OT_DATA_H

#include "runtime/base/io.h"
#include "runtime/base/registry.h"

typedef enum ot_array_role { OT_ARRAY_INPUT, OT_ARRAY_TARGET } ot_array_role;

typedef struct ot_array {
    ot_tensor t;        /* name: as in the file; "" for formats without names (idx): matched by role */
    ot_array_role role; /* target: "target", "target_<output>", labels of idx */
    bool whole;         /* not cut into batches */
    bool gaps;          /* NaN stands for what is missing, and the model fills it in */
    bool picture;       /* bytes of pixels, (N,H,W), (N,H,W,C) or (N,C,H,W): --normalize applies */
} ot_array;

typedef struct ot_columns ot_columns;

typedef struct ot_dataset {
    ot_arena *arena;  /* owns the arrays' bytes */
    const char *name; /* "mnist", or the path */
    int64_t samples;
    int n;
    ot_array *array;
    int n_classes;                 /* 0: unknown */
    const char *const *class_name; /* NULL: unknown */
    uint64_t hash;                 /* fingerprint of names, shapes and bytes */
    const ot_columns *table;       /* of CSV: its columns; else NULL */
    struct ot_read_from *from;     /* the files it was read from */
    const char *column;            /* of CSV: the one that is the target */
    bool last;                     /* and it is so because it is the last */
} ot_dataset;

/* Of a table with a header: some of its names are numbers, as where a row of data was taken for it. */
bool ot_dataset_odd_header(const ot_dataset *d);

typedef enum ot_split { OT_SPLIT_TRAIN, OT_SPLIT_TEST } ot_split;

/* Opens a named set or a path.  OT_SPLIT_TEST: the set's own test part; *out is NULL and
 * the status OT_OK when it has none.  `search`: more folders to look named sets up in, NULL-ended,
 * or NULL.  Errors: OT_E_DATA (malformed; file and place named), OT_E_IO, OT_E_NOMEM. */
extern const ot_registry ot_data_sources; /* what `spec` may be: named sets, formats of files */
extern const ot_registry ot_data_sets;    /* the named sets alone */

ot_status ot_dataset_open(const char *spec, ot_split split, const char *const *search, ot_dataset **out, ot_error *err);
void ot_dataset_free(ot_dataset *d);

/* Makes the array (of a table: the column) `name` the target in place of the one that was, and counts samples anew
 * (--target).  Errors: OT_E_DATA, listing the names there are. */
ot_status ot_dataset_target(ot_dataset *d, const char *name, ot_error *err);

/* Two tables, one to train on and d to evaluate on: the same columns, and the same number for the same class; the names of
 * classes are borrowed from `like`.  Others are left alone.  Errors: OT_E_DATA: the first column or class that differs. */
ot_status ot_dataset_match(ot_dataset *d, const ot_dataset *like, ot_error *err);

/* The classes get the numbers that they have in name[0..n), borrowed, which `from` says: a table's texts; a set without
 * names takes them to be shown.  One with names that is no table is left alone.  Errors: OT_E_DATA: a class that is not among
 * them; d is as it was. */
ot_status ot_dataset_number(ot_dataset *d, const char *const *name, int n, const char *from, ot_error *err);

/* The line of its file that a sample of a table stands in, from 1; 0: the data set is no table. */
int64_t ot_dataset_line(const ot_dataset *d, int64_t sample);

/* What training and evaluation ask of data and `run` does not: finite values.  Alone an input of nothing but zeros and
 * negative infinities passes: a mask that is added to scores.  Errors: OT_E_DATA naming array and sample. */
ot_status ot_dataset_check(const ot_dataset *d, ot_error *err);
ot_status ot_array_check(const ot_array *a, ot_error *err); /* the same of one array */

/* Whether d was read from that file; *path: then what it was called. */
bool ot_dataset_reads(const ot_dataset *d, ot_file_id id, const char **path);

const ot_array *ot_dataset_find(const ot_dataset *d, const char *name); /* borrowed, or NULL */
ot_shape ot_array_shape(const ot_array *a);

/* The sample order of an epoch: a permutation of 0..n-1 that depends on (seed, epoch, n) alone. */
void ot_order(uint64_t seed, uint64_t epoch, int64_t n, int64_t *order);

/* ---- batches --------------------------------------------------------------- */

enum { OT_MAX_CHANNELS = 16 };

/* One input of a batch: samples index[0..n) of src as the graph wants them.  Element i of a result
 * sample is  y = x * mul[c] + add[c]  with c = (i / inner) % channels. */
typedef struct ot_gather {
    const ot_array *src;
    ot_dtype dtype;   /* of the result; integers must fit (checked when the data is adapted) */
    int64_t elements; /* per sample */
    bool scale;       /* apply mul and add */
    int channels;     /* length of mul and add; 1: the same for all */
    int64_t inner;    /* result elements per channel plane */
    float mul[OT_MAX_CHANNELS], add[OT_MAX_CHANNELS];
    int64_t permute[3]; /* {H, W, C}: a source sample is (H,W,C), the result (C,H,W); {C,1,H*W}
                                  * goes the other way; {0}: as it is */
} ot_gather;

/* dst: (n, elements) of g->dtype.  A whole array is taken with n 1 and index 0.  The same bits for
 * any number of threads. */
void ot_gather_run(const ot_gather *g, const int64_t *index, int64_t n, void *dst, int threads);

/* Whether every element is exactly representable in integer type t; of a float type, whether it stays finite.
 * Errors: OT_E_DATA naming array, sample and value. */
ot_status ot_array_fits(const ot_array *a, ot_dtype t, ot_error *err);

/* ---- pictures and --normalize ------------------------------------------------ */

/* How a sample of bytes lies as a picture: flat (one row), (H,W), (H,W,C) or (C,H,W).  false: a can be none. */
typedef struct ot_picture {
    int64_t h, w, c;
    bool channels_last; /* (H,W,C); false where c is 1 */
} ot_picture;
bool ot_picture_of(const ot_array *a, ot_picture *out);

/* `1/255` (the default: NULL or ""), `none`, `imagenet`, `mean,std` (measured per channel on the
 * training set), or numbers in [0,1] units: `0.13,0.31`, `[0.49,0.48,0.45],[0.25,0.24,0.26]`. */
typedef enum ot_normalize_kind {
    OT_NORMALIZE_NONE,
    OT_NORMALIZE_UNIT,
    OT_NORMALIZE_GIVEN,
    OT_NORMALIZE_MEASURE
} ot_normalize_kind;

typedef struct ot_normalize {
    ot_normalize_kind kind;
    int channels;                                       /* length of mean and std */
    double mean[OT_MAX_CHANNELS], std[OT_MAX_CHANNELS]; /* of pixels in [0,1] */
} ot_normalize;

ot_status ot_normalize_parse(const char *text, ot_normalize *out, ot_error *err); /* OT_E_USAGE */

/* Replaces OT_NORMALIZE_MEASURE by the numbers of `train`; the others stay. */
ot_status ot_normalize_fit(ot_normalize *z, const ot_array *train, ot_error *err);

/* g->scale, channels, mul, add for pictures of c channels, and what it does as one line for the log.
 * g->inner is the caller's: it knows the layout of the result. */
ot_status ot_normalize_apply(const ot_normalize *z, int64_t c, ot_gather *g, char line[256], ot_error *err);

/* ---- writing --------------------------------------------------------------- */

/* Writes arrays as .npz (stored, not deflated), atomically.  Names may hold any character. */
ot_status ot_npz_write(const char *path, const ot_tensor *t, int n, ot_error *err);

#endif
