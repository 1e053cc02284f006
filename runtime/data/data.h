/* data.h - data sets on the host: arrays with a sample axis, and the selection of batches.
 *
 * A data set is a list of arrays.  An array of "samples" kind has the sample axis first; one of "whole" kind is fed
 * unchanged with every batch.  This folder depends on no model: runtime/train/feed/bind_inputs.c matches arrays to the
 * inputs of a graph. */
#ifndef OT_DATA_H
#define OT_DATA_H

#include "runtime/base/io.h"
#include "runtime/base/registry.h"
#include "runtime/picture/image.h"
#include "runtime/picture/picture.h"

typedef enum ot_array_role { OT_ARRAY_INPUT, OT_ARRAY_TARGET } ot_array_role;

/* What one thread needs to read samples of sources; zeroed at first.  Its memory is kept for the next sample. */
typedef struct ot_image_room {
    uint8_t *bytes; /* of a file */
    size_t size;
    ot_pixels pixels;
} ot_image_room;

void ot_image_room_free(ot_image_room *r);

/* The part and form of a recording that a model needs. */
typedef struct ot_sound_want {
    int channels;   /* 1: the mean of all; else the number in the file, or a file of one channel is repeated */
    bool last;      /* (length, channels), else (channels, length) */
    int64_t length; /* values of each channel */
    double place;   /* which part of a longer recording: in [0, 1), from the first to the last; negative: the middle */
    int rate;       /* the required sample rate of the file, in Hz */
} ot_sound_want;

/* Samples that are made when they are needed: images or recordings in files. */
typedef struct ot_image_source ot_image_source;
struct ot_image_source {
    /* Row `row` as upright bytes of so many channels (1, 3, or 4 with alpha), in `room` until it is used again.  Any thread may call it, with
     * a room of its own.  Errors: OT_E_DATA (damaged, too large), OT_E_IO, each with the file's name; OT_E_NOMEM. */
    ot_status (*read)(const ot_image_source *s, int64_t row, int channels, ot_image_room *room, ot_image *out,
                      ot_error *err);
    /* The size of the upright image of a row, from its header; NULL: only `read` tells it. */
    ot_status (*size)(const ot_image_source *s, int64_t row, ot_image_room *room, int64_t *height, int64_t *width,
                      ot_error *err);
    int64_t height, width; /* of the images that were examined when the set was opened; 0: they differ */
    const char *(*name)(const ot_image_source *s, int64_t row); /* of the file, below `folder` */
    const char *folder;                                         /* or archive */
    int channels; /* 1: those are grey, or class numbers of masks; else 3.  Of recordings: the most that one has */
    bool alpha;   /* of those some have transparency */
    /* Recordings: then `read` is NULL.  Row `row` as `want` says.  Threads, errors: as of `read`. */
    ot_status (*read_sound)(const ot_image_source *s, int64_t row, const ot_sound_want *want, ot_image_room *room,
                            float *to, ot_error *err);
    int rate; /* of recordings, in Hz */
};

typedef struct ot_array {
    ot_tensor t;        /* name: as in the file; "" for formats without names (idx): matched by role */
    ot_array_role role; /* target: "target", "target_<output>", labels of idx */
    bool whole;         /* not divided into batches */
    bool flat;          /* its elements in a row: an input of as many elements gets them in its own shape */
    bool gaps;          /* NaN marks missing values, which the model replaces */
    bool picture;       /* bytes of pixels, (N,H,W), (N,H,W,C) or (N,C,H,W): --normalize applies */
    bool mapped;        /* t.data are pages of a file, read when they are used; or windows over tokens: they may be more
                         * than memory holds, and are checked batch by batch (ot_array_within) */
    int64_t stride;     /* elements from the beginning of one row to that of the next; 0: rows are contiguous */
    const ot_image_source *source; /* then t.data is NULL, mapped is set, and t is uint8 of (N, 0, 0, channels), or of
                                    * recordings float32 of (N, 0, channels) */
    int64_t frames;                /* of recordings: of the longest */
    bool same;                     /* every sample is row 0 */
    const int64_t *row;            /* the row of t.data in which each sample is; NULL: sample i is row i */
} ot_array;

/* The files of an array of masks, read as images instead.  In the arena; NULL: no memory. */
const ot_array *ot_pictures_of_masks(const ot_array *masks, ot_arena *arena);

typedef struct ot_columns ot_columns;
typedef struct ot_windows ot_windows;

/* Masked language modelling: masked tokens of a sequence are predicted, instead of the next token. */
typedef struct ot_masking {
    double p;      /* probability of a token; 0: none is masked */
    int64_t token; /* the mask token; -1: not given */
    int64_t kinds; /* of ot_dataset: tokens from 0 that may replace others */
} ot_masking;

/* A part of an image that is a sample of its own (ot_dataset_tile). */
typedef struct ot_image_part {
    int64_t image, parts;    /* the sample that it was, and of how many parts */
    int64_t height, width;   /* of the image; 0: it cannot be read */
    int64_t top, left, h, w; /* which pixels of it */
    bool last;               /* of the image's parts */
} ot_image_part;

/* VAL: only folders and archives of images have one, and tables with a column that names it. */
typedef enum ot_split { OT_SPLIT_TRAIN, OT_SPLIT_TEST, OT_SPLIT_VAL, OT_SPLITS } ot_split;

typedef struct ot_dataset {
    ot_arena *arena;  /* owns the arrays' bytes */
    const char *name; /* "mnist", or the path */
    int64_t samples;
    int n;
    ot_array *array;
    int n_classes;                 /* 0: unknown */
    const char *const *class_name; /* NULL: unknown */
    uint64_t hash;                 /* fingerprint of names, shapes and bytes */
    /* Fingerprint of the choice of samples, if the set is a part of another; it does not depend on how a model encodes a
     * table.  0: not a part. */
    uint64_t split;
    uint64_t cells;       /* of a table: fingerprint of its float inputs before they are standardised; 0: no table */
    uint64_t mapped_hash; /* the part of `hash` for mapped arrays, set by the reader: sizes and times of the files */
    ot_columns *table;    /* of CSV: its columns; else NULL */
    struct ot_read_from *from; /* the files it was read from */
    const char *column;        /* of CSV: the name of the target, or several; NULL: it has none */
    const char *rule;          /* why that column, where nothing names it: "the last one"; else NULL */
    /* JSON: how inputs are made from the files (kind, columns, ...), written into a trained model as onnxtrain.preprocess;
     * NULL: arrays are fed unchanged. */
    const char *preprocess;
    bool
        only_names; /* `preprocess` names columns and changes no value: a file with unchanged weights needs no record */
    const char *notes;   /* lines for the user about how the files are read; NULL: none */
    struct ot_map *map;  /* mapped files */
    ot_masking masking;  /* of windows: the target is the tokens themselves, some of which are masked in the input */
    ot_windows *windows; /* of samples that are windows over one sequence of tokens; else NULL */
    const struct ot_data_options *options; /* while it is opened; NULL afterwards */
    struct ot_members *members;            /* the files that sources read; owned; NULL: there are none */
    unsigned lacks;                        /* bits 1 << ot_split: parts that its folder or archive does not have */
    ot_split of;                           /* the part that was requested */
    bool several;                          /* it was read from several files of arrays */
    bool renumbers;                        /* class numbers follow the sorted names; ot_dataset_number changes them */
    bool labelled;             /* the class numbers in the file were the names (whole numbers), not their indices */
    const int64_t *origin;     /* of a part of a set: the number of each sample in the whole; NULL: not a part */
    const ot_image_part *tile; /* samples are parts of images; NULL: they are not */
} ot_dataset;

bool ot_is_folder(const char *path);

/* "people.csv: the target is column 'income', the last one (change with --target)" of a table that has a target, in a; else *line is
 * NULL.  OT_E_NOMEM. */
ot_status ot_dataset_target_line(const ot_dataset *d, ot_arena *a, const char **line, ot_error *err);

/* Columns of a table that predictions repeat (predict --copy). */
typedef struct ot_copied_columns {
    int n;
    int64_t rows;
    const char **name;
    const char *const *text; /* (rows, n) fields as in the file, but with decimal points for decimal commas */
} ot_copied_columns;

/* columns: names such as "id,date" (predict --copy).  Reads the file again; names and texts are a's.  Errors: OT_E_USAGE: d is not
 * a table of one file; OT_E_DATA: no such column; OT_E_IO: the file has changed; OT_E_NOMEM. */
ot_status ot_dataset_copy_columns(const ot_dataset *d, const char *columns, ot_arena *a, ot_copied_columns *out,
                                  ot_error *err);

/* Of a table with a header: some column names are numbers, as if the first row of data were taken for a header. */
bool ot_dataset_odd_header(const ot_dataset *d);

/* The column whose strings are the class numbers of array a (NULL: of a target); NULL: they are no strings. */
const char *ot_dataset_string_column(const ot_dataset *d, const ot_array *a);

/* The classes of target a, by the data set or by the model: how many (0: unknown), and their names or NULL.  Strings of one column
 * of a table say nothing of its other targets. */
int ot_dataset_classes(const ot_dataset *d, const ot_array *a, const char *const **name);

/* The column of numbers that element e of a sample of array a is; NULL: it is something else, or recorded in the model. */
const char *ot_dataset_number_column(const ot_dataset *d, const ot_array *a, int64_t e);

/* The names of the columns that target a of a table with a header is made of, in its order, in d; NULL: there are none. */
const char *const *ot_dataset_target_columns(const ot_dataset *d, const ot_array *a, int *n);

/* What to say of columns that were taken in the file's order: the model records none, or none of these, or they have no names;
 * NULL: they were not, or neither the table nor the model has names. */
const char *ot_dataset_in_order(const ot_dataset *d);

/* An input of the model that the data are for. */
typedef struct ot_data_input {
    const char *name;
    ot_dtype dtype;
    ot_shape shape; /* with the axis of samples, as in the file; -1: open */
    int64_t rows;   /* of the table that its elements are looked up in: the vocabulary; 0: unknown, or there is none */
    bool gaps;      /* the model fills in missing values, which are NaN */
    bool scales;    /* the model begins with a scaler of it */
} ot_data_input;

enum { OT_MAP_FROM = 256 << 20 };

typedef struct ot_data_options {
    const char *const *search;  /* more folders to search for named sets, NULL-terminated, or NULL */
    const ot_data_input *input; /* of the model, in its order, those that are fed; n_inputs 0: unknown */
    int n_inputs;
    const char *target;     /* --target; NULL: the format's own rule */
    const char *preprocess; /* ot_dataset.preprocess of the set that the model was trained on; NULL: the data decide */
    bool unlabelled;        /* for predictions: a target may be missing */
    bool described;         /* for the command data: a table's target may have gaps, which are NaN or OT_IGNORED */
    bool skips;             /* --skip-bad: a file that a table names may be missing, and fails when it is read */
    bool part;              /* samples are kept back from it after opening: ot_dataset_fit measures on the others */
    bool alone;             /* not for training: what is neither recorded nor given is not measured on it */
    const char *columns;    /* which columns of a table go to which input (--inputs); NULL: by their names and kinds */
    const char *categories; /* columns of a table whose values are categories (--categories); NULL: by what they hold */
    const char *passed;     /* columns whose numbers stay as they are (--passthrough); NULL: none is named */
    const char *normalize;  /* --normalize, for tables; NULL: not given */
    const char *parts;      /* column whose cells name the part of each row (--split); NULL: all rows are one part */
    const char *group; /* column whose cells name the time series of each row (--group); NULL: as recorded, or one */
    int64_t length,
        stride;     /* tokens or rows of a sample, and from one sample to the next (--length, --stride); 0: not given */
    int64_t ahead;  /* of such rows: from the last one to that of the target (--ahead) */
    bool has_ahead; /* ahead is given; else it is that of the model, or 1 */
    const char *text;      /* "bytes", "chars": the tokens of a text file (--text); NULL: not given */
    const char *tokenizer; /* file or folder (--tokenizer); NULL: not given */
    ot_masking masking;    /* --augment mask; p 0: not given, and the model's record applies */
    /* The training set, if it was opened from the same path: its `lacks` says which parts do not exist.  Else NULL. */
    const struct ot_dataset *training;
    int64_t map_from; /* a .npy of at least so many bytes is mapped, not read; 0: OT_MAP_FROM */
} ot_data_options;

extern const ot_registry ot_data_sources; /* valid values of `spec`: named sets, file formats */
extern const ot_registry ot_data_sets;    /* the named sets alone */

/* Opens a named set or a path.
 *   spec   the name of a set, or a path; or several files of arrays, one a line, each PATH or NAME=PATH, where NAME is what its
 *          array is called
 *   split  OT_SPLIT_TEST, OT_SPLIT_VAL: the set's own test or validation part; *out is NULL and the status OT_OK when it has none
 *   o      borrowed for the call; NULL: none
 * Free *out with ot_dataset_free.  Errors: OT_E_DATA (malformed; file and place named), OT_E_IO, OT_E_NOMEM. */
ot_status ot_dataset_open(const char *spec, ot_split split, const ot_data_options *o, ot_dataset **out, ot_error *err);
void ot_dataset_free(ot_dataset *d);

/* What follows NAME= in a part of spec; the part itself if it has no name. */
const char *ot_data_path(const char *part);

/* Keeps a fraction of d's samples back (at least one, and one remains), in the order of the file: d loses them, *out has
 * them.  The same for equal (seed, fraction, data).  *classes: of how many classes each gave its share; 0: the target is
 * no class.  *out borrows names, classes and whole arrays of d, and is freed before it.  d keeps its hash; *out's is of
 * the choice too.  Errors: OT_E_DATA (fewer than 2 samples), OT_E_NOMEM: then d is of no use. */
ot_status ot_dataset_split(ot_dataset *d, double fraction, uint64_t seed, ot_dataset **out, int *classes,
                           ot_error *err);

/* The same for one of `folds` parts of d (fold from 1) that are disjoint and together all of it: every class, and the whole,
 * is spread over them evenly to within one sample.  Errors: OT_E_DATA (fewer samples than folds), OT_E_NOMEM. */
ot_status ot_dataset_fold(ot_dataset *d, int fold, int folds, uint64_t seed, ot_dataset **out, int *classes,
                          ot_error *err);

/* Measures on d what its inputs still need (of a table: means, deviations, what replaces missing values), completes the
 * inputs of d and of `part`, which was kept back from it (NULL: nothing was), and sets d->preprocess.  A set that was opened
 * without options.part is complete.  Errors: OT_E_NOMEM. */
ot_status ot_dataset_fit(ot_dataset *d, ot_dataset *part, ot_error *err);

/* Divides the images of an array, which are in files, into parts of the proportions h x w, which are samples then, one after
 * the other.  decode: sizes are those of decoded images, so that a damaged one is one part; else headers tell them.  Errors:
 * OT_E_DATA (too many parts), OT_E_NOMEM. */
ot_status ot_dataset_tile(ot_dataset *d, int array, int64_t h, int64_t w, bool decode, ot_error *err);

/* The number of a sample in the file that it came from. */
int64_t ot_dataset_origin(const ot_dataset *d, int64_t sample);

/* Makes the array (of a table: the column) `name` the target instead of the current one, and counts samples again
 * (--target).  Errors: OT_E_DATA, listing the available names. */
ot_status ot_dataset_target(ot_dataset *d, const char *name, ot_error *err);

/* Checks that two tables, one for training and d for evaluation, have the same columns, and gives classes the same
 * numbers; the names of classes are borrowed from `like`.  Other data sets are unchanged.  Errors: OT_E_DATA: the
 * first column or class that differs. */
ot_status ot_dataset_match(ot_dataset *d, const ot_dataset *like, ot_error *err);

/* Gives classes their numbers in name[0..n), borrowed; `from` is the source of these names, for messages.  A table's
 * strings are mapped; a set without names gets the names for display; a set with names that is not a table is
 * unchanged.  labels: where all names are whole numbers, a target of whole numbers has these, not indices, and is mapped
 * too; so is, in ot_dataset_match, another set that is compared with d.  Errors: OT_E_DATA: a class that is not among them; d is
 * unchanged. */
ot_status ot_dataset_number(ot_dataset *d, const char *const *name, int n, bool labels, const char *from,
                            ot_error *err);

/* Where the first token of each word is among the tokens of a sample; -1: it has none, or is truncated.  *n: words.  NULL: samples are
 * no lists of words. */
const int32_t *ot_dataset_words(const ot_dataset *d, int64_t sample, int64_t *n);
int64_t ot_dataset_tokens(const ot_dataset *d); /* of each sample of such a data set */

/* The line in the file of a sample of a table (of a window of rows: its last one), from 1; 0: the data set is not a table. */
int64_t ot_dataset_line(const ot_dataset *d, int64_t sample);
int64_t ot_dataset_line_of(const ot_dataset *d, const ot_array *a,
                           int64_t e); /* the same, of element e of all samples of a */

/* Is d a table of one file whose rows do not lie on consecutive lines (empty lines between them, line ends in quotes)? */
bool ot_dataset_has_gaps(const ot_dataset *d);

/* Checks that values are finite, for training and evaluation (`run` accepts all).  The only exception is an input of
 * zeros and negative infinities: a mask that is added to scores.  Errors: OT_E_DATA naming array and sample. */
ot_status ot_dataset_check(const ot_dataset *d, ot_error *err);
ot_status ot_array_check(const ot_array *a, ot_error *err); /* the same for one array */

/* The same for sample i, called `number`, of a mapped array, and whether its elements fit into type t (ot_array_fits). */
ot_status ot_array_check_sample(const ot_array *a, int64_t i, int64_t number, ot_dtype t, ot_error *err);

/* Samples index[0..n) of a mapped array will be read: their pages, and no others, are fetched from the file together. */
void ot_array_fetch(const ot_array *a, const int64_t *index, int64_t n);

/* Was d read from that file?  *path: the name it was opened by. */
bool ot_dataset_reads(const ot_dataset *d, ot_file_id id, const char **path);

/* All files that d reads, `most` of them in ids.  How many there are, or, with most 0, an upper limit. */
int64_t ot_dataset_files(const ot_dataset *d, ot_file_id *ids, int64_t most);

const ot_array *ot_dataset_find(const ot_dataset *d, const char *name); /* borrowed, or NULL */
static inline bool ot_array_is_sound(const ot_array *a) { return a->source && a->source->read_sound; } /* recordings */
ot_shape ot_array_shape(const ot_array *a);

/* Where element i of the array, counted in row-major order of its shape, is in t.data. */
int64_t ot_array_at(const ot_array *a, int64_t i);

/* The sample order of an epoch: a permutation of 0..n-1 that depends on (seed, epoch, n) only. */
void ot_order(uint64_t seed, uint64_t epoch, int64_t n, int64_t *order);

/* The order of an epoch, place by place.  Up to so many samples it is that of ot_order; of more it is computed, and needs
 * no memory. */
enum { OT_MOST_LISTED = 1 << 22 };

typedef struct ot_permutation {
    int64_t n;
    int64_t *list; /* NULL: computed, of rows x columns >= n places */
    int64_t rows, columns;
    uint64_t key;
    bool shuffled; /* else place i has sample i */
} ot_permutation;

/* Not shuffled.  Its list is in the arena. */
ot_status ot_permutation_new(ot_arena *a, int64_t n, ot_permutation *out, ot_error *err);
void ot_permutation_shuffle(ot_permutation *p, uint64_t seed, uint64_t epoch);
int64_t ot_permutation_at(const ot_permutation *p, int64_t i); /* the sample at place i of 0 .. n - 1 */

/* The number, in the whole sequence, of the token that is element i of the array (counted as in ot_array_at); -1: the
 * samples of d are no windows. */
int64_t ot_dataset_token(const ot_dataset *d, const ot_array *a, int64_t i);

/* A set of one sample for generating text: tokens of the length that the model's input has, else of o->length, else of
 * `usual`.  *token: *length numbers, 0 at first, which the caller changes between batches.  Errors: OT_E_DATA: no input takes
 * tokens; OT_E_USAGE, OT_E_NOMEM. */
ot_status ot_dataset_window(const ot_data_options *o, int64_t usual, ot_dataset **out, int64_t **token, int64_t *length,
                            ot_error *err);

/* How many tokens later sample i of d, windows, may begin and still be its own: less than the stride, and in its part. */
int64_t ot_dataset_slack(const ot_dataset *d, int64_t i);

/* Whether the files that arrays are pages of are what they were when d was opened: reading a file that became shorter would
 * end the process.  Errors: OT_E_IO. */
ot_status ot_dataset_intact(const ot_dataset *d, ot_error *err);

/* Bytes of d in memory; pages of files are not counted. */
int64_t ot_dataset_bytes(const ot_dataset *d);

/* ---- batches --------------------------------------------------------------- */

/* Whether every element of samples index[0..n) of an integer array is in least..most, or `except`.  false: *at is the first
 * that is not, counted as in ot_array_at. */
bool ot_array_within(const ot_array *a, const int64_t *index, int64_t n, int64_t least, int64_t most, int64_t except,
                     int64_t *at);

enum { OT_MAX_CHANNELS = 256 };

/* One input of a batch: samples index[0..n) of src, converted for the graph.  Element i of a result sample is  y = x
 * * mul[c] + add[c]  with c = (i / inner) % channels. */
typedef struct ot_gather {
    const ot_array *src;
    ot_dtype dtype;   /* of the result; integers must fit (checked when inputs are bound) */
    int64_t elements; /* per sample */
    bool scale;       /* apply mul and add */
    int channels;     /* length of mul and add; 1: one for all */
    int64_t inner;    /* result elements per channel plane */
    float mul[OT_MAX_CHANNELS], add[OT_MAX_CHANNELS];
    int64_t permute[3]; /* {H, W, C}: a source sample is (H,W,C), the result (C,H,W); {C,1,H*W}
                                  * is the reverse; {0}: unchanged */
} ot_gather;

/* dst: (n, elements) of g->dtype.  A whole array is taken with n 1 and index 0.  The same bits for
 * any number of threads. */
void ot_gather_run(const ot_gather *g, const int64_t *index, int64_t n, void *dst, int threads);

/* Is every element exactly representable in integer type t, or finite in float type t? Errors: OT_E_DATA naming
 * array, sample and value. */
ot_status ot_array_fits(const ot_array *a, ot_dtype t, ot_error *err);

/* ---- pictures and --normalize ------------------------------------------------ */

/* The image layout of a sample of bytes: flat (one row), (H,W), (H,W,C) or (C,H,W).  false: a has none. */
typedef struct ot_picture {
    int64_t h, w, c;
    bool channels_last; /* (H,W,C); false if c is 1 */
} ot_picture;
bool ot_picture_of(const ot_array *a, ot_picture *out);

/* `1/255` (the default: NULL or ""), `none`, `imagenet`, `mean,std` (measured per channel on the
 * training set), `auto` (the same, and of arrays of floats), or numbers in [0,1] units: `0.13,0.31`, `[0.49,0.48,0.45],[0.25,0.24,0.26]`. */
typedef enum ot_normalize_kind {
    OT_NORMALIZE_NONE,
    OT_NORMALIZE_UNIT,
    OT_NORMALIZE_GIVEN,
    OT_NORMALIZE_MEASURE
} ot_normalize_kind;

typedef struct ot_normalize {
    ot_normalize_kind kind;
    int channels;   /* length of mean and std */
    bool automatic; /* auto: arrays of floats too; of an array: recorded in the trained model */
    bool plain;     /* mean and std are of the values themselves: (x - mean) / std */
    double mean[OT_MAX_CHANNELS], std[OT_MAX_CHANNELS]; /* of pixels in [0,1] */
} ot_normalize;

/* Are the numbers of d standardised by what is measured on it (a table that no record maps), or are its inputs images, recordings or
 * texts, which are scaled too? */
bool ot_table_is_scaled(const ot_dataset *d);

/* Are the deviations positive, and 1/std and mean/std at most 1e18, or of values (plain) numbers that a float can have? */
bool ot_normalize_usable(const ot_normalize *z);

ot_status ot_normalize_parse(const char *text, ot_normalize *out, ot_error *err); /* OT_E_USAGE */

/* Replaces OT_NORMALIZE_MEASURE by the statistics of `train`; other modes are unchanged. */
ot_status ot_normalize_fit(ot_normalize *z, const ot_array *train, ot_error *err);

/* Mean and deviation of the values of an array of floats, for each of `channels`, of which a sample has `inner` elements each
 * before the next one, in z->plain's form.  Errors: OT_E_DATA: a value is not finite. */
ot_status ot_normalize_values(ot_normalize *z, const ot_array *train, int channels, int64_t inner, ot_error *err);

/* The same of images that are seen one after the other: (pixels, channels) bytes. */
typedef struct ot_pixel_counts ot_pixel_counts;
ot_pixel_counts *ot_pixel_counts_new(int64_t channels); /* NULL: no memory, or more than OT_MAX_CHANNELS */
void ot_pixel_counts_free(ot_pixel_counts *n);
void ot_pixel_counts_add(ot_pixel_counts *n, const uint8_t *x, int64_t pixels, int64_t channels);
ot_status ot_normalize_counted(ot_normalize *z, const ot_pixel_counts *n, ot_error *err);

/* Sets g->scale, channels, mul, add for images of c channels, and describes the scaling in one line for the log.
 * g->inner is set by the caller, which chooses the layout of the result. */
ot_status ot_normalize_apply(const ot_normalize *z, int64_t c, ot_gather *g, char line[256], ot_error *err);

/* ---- writing --------------------------------------------------------------- */

/* Writes arrays as .npz (stored, not deflated), atomically.  Names may contain any character. */
ot_status ot_npz_write(const char *path, const ot_tensor *t, int n, ot_error *err);

/* The same, array by array.  folder: an open folder that `path` is relative to, or AT_FDCWD.  The bytes of an added array are
 * written at once and are not borrowed.  place gives the file its name; abort frees z, and removes a file that has no name
 * yet.  full: the failed call failed because the disk is full. */
typedef struct ot_npz ot_npz;
ot_status ot_npz_begin(int folder, const char *path, ot_npz **out, ot_error *err);
ot_status ot_npz_add(ot_npz *z, const ot_tensor *t, ot_error *err);
ot_status ot_npz_place(ot_npz *z, ot_error *err);
bool ot_npz_full(const ot_npz *z);
void ot_npz_abort(ot_npz *z);

/* The arrays of an .npz as they are: nothing is taken as a target or counted as samples.  Checksums are verified.
 * Errors: OT_E_DATA (damaged, truncated), OT_E_IO, OT_E_NOMEM. */
ot_status ot_npz_read(const char *path, ot_dataset **out, ot_error *err);

/* A fingerprint of bytes, continued from seed (0 at first); the same on every machine. */
uint64_t ot_hash(uint64_t seed, const void *p, size_t n);

#endif
