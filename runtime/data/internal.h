/* internal.h - functions that the readers of this folder share: byte streams, building a data set, formats. */
#ifndef OT_DATA_INTERNAL_H
#define OT_DATA_INTERNAL_H

#include "runtime/data/data.h"

/* ---- streams: bytes in order, from a file (plain, gzip, Zstandard) or an archive's member -- */

typedef struct ot_stream ot_stream;
struct ot_stream {
    const char *name; /* for messages; borrowed */
    int64_t most;     /* upper limit on the number of bytes, with which sizes in a header are compared */
    int64_t packed;   /* of gzip and Zstandard: bytes of the file; else 0 */
    void *state;
    /* Up to n bytes; fewer only at the end.  -1: failed, err is filled. */
    int64_t (*read)(ot_stream *s, void *p, int64_t n, ot_error *err);
};

/* Opens a regular file; gzip and Zstandard are detected by the first bytes.  The caller closes s after OT_OK. */
ot_status ot_stream_open(ot_stream *s, const char *path, ot_error *err);
void ot_stream_close(ot_stream *s);

/* Reads exactly n bytes of `what`, or fails with the number that could be read. */
ot_status ot_stream_read(ot_stream *s, void *p, int64_t n, const char *what, ot_error *err);
/* Checks that nothing follows, and that the data is intact (the checksum of gzip is at the end). */
ot_status ot_stream_end(ot_stream *s, ot_error *err);

/* ---- data sets ------------------------------------------------------------------------------- */

ot_dataset *ot_dataset_new(const char *name); /* NULL: no memory */

/* Adds a line to d->notes.  Errors: OT_E_NOMEM. */
ot_status ot_dataset_tell(ot_dataset *d, ot_error *err, const char *fmt, ...) OT_PRINTF(3, 4);

/* Records a file that d is read from, so that it is not overwritten.  Errors: OT_E_NOMEM. */
ot_status ot_dataset_note(ot_dataset *d, const char *path, ot_error *err);

/* A new array of role input, empty; its name is copied.  NULL: no memory.  Invalidates earlier pointers. */
ot_array *ot_dataset_add(ot_dataset *d, const char *name);

/* Sets a->t's type and shape and allocates zeroed bytes; at most `most` bytes are available to fill it (negative: no
 * limit).  Nothing is allocated for a shape that does not fit. */
ot_status ot_array_alloc(ot_dataset *d, ot_array *a, ot_dtype t, const ot_shape *shape, int64_t most, const char *where,
                         ot_error *err);

/* Sets roles by name, the sample count, and which arrays are whole: those whose first dimension differs from the
 * target's. */
void ot_dataset_arrange(ot_dataset *d);

/* A fingerprint as d->hash, but the same whether a table's numbers are standardised yet or not. */
uint64_t ot_dataset_content(const ot_dataset *d);

/* Sets n_classes if it is unknown, or refuses labels beyond it; then computes the fingerprint. */
ot_status ot_dataset_finish(ot_dataset *d, ot_error *err);

int64_t ot_array_elements(const ot_array *a); /* number of elements, of all samples together */

void ot_swap_bytes(void *p, int64_t n, int size); /* n elements of 2, 4 or 8 bytes; others stay */

/* ---- windows over tokens: windows.c ------------------------------------------------------------ */

/* The pages of a regular file, read only, until d is freed; *bytes NULL: it is empty.  Size and time join d->mapped_hash.
 * Errors: OT_E_IO, OT_E_NOMEM. */
ot_status ot_dataset_map(ot_dataset *d, const char *path, const void **bytes, int64_t *n, ot_error *err);
void ot_dataset_unmap(ot_dataset *d);

/* Makes the samples of d windows over n tokens, which stay until d is freed: an array for every input of d->options that
 * tokens can feed, and "target", each token's successor.  what: "bytes", "tokens", for messages.  Errors: OT_E_DATA: too few
 * tokens, or no input of the model takes them. */
ot_status ot_windows_set(ot_dataset *d, const void *token, ot_dtype type, int64_t n, const char *what, ot_error *err);

/* The contents of the inputs of windows, by their names: the tokens, the next tokens, all 1 (a mask), all 0, 0 1 2 ... */
typedef enum ot_beside { OT_NOT_BESIDE, OT_TOKENS, OT_NEXT, OT_ONES, OT_ZEROS, OT_PLACES } ot_beside;
ot_beside ot_beside_of(const char *name);

/* The input of `o` for tokens; NULL: none.  Errors of ot_windows_set name the inputs. */
const ot_data_input *ot_windows_input(const ot_data_options *o);

/* ot_dataset_split (folds 0) and ot_dataset_fold of a set of windows: the last share of the tokens, or one of `folds` equal
 * shares; no token is in both parts. */
ot_status ot_windows_keep(ot_dataset *d, double fraction, int fold, int folds, ot_dataset **out, ot_error *err);

int64_t ot_windows_bytes(const ot_windows *w);  /* of tokens in memory; NULL: 0 */
int64_t ot_windows_length(const ot_windows *w); /* tokens of a sample */

/* ---- files ------------------------------------------------------------------------------------ */

/* Recognises the format of a file by its first bytes, and adds its arrays to d. */
ot_status ot_dataset_file(const char *path, ot_dataset *d, ot_error *err);

/* several.c: does spec list several files?  Opens all of them. */
bool ot_several(const char *spec);
ot_status ot_several_open(const char *spec, ot_dataset *d, ot_error *err);

/* ---- formats --------------------------------------------------------------------------------- */

/* Images and, if found beside them, labels. */
ot_status ot_idx_open(const char *path, ot_dataset *d, ot_error *err);
/* <folder>/<prefix>-images-idx3-ubyte and its variants (.gz, a dot instead of the dash).  *found: it exists. */
ot_status ot_idx_folder(const char *folder, const char *prefix, ot_dataset *d, bool *found, ot_error *err);

/* One .npy from a stream into array `a`; reads to its end. */
ot_status ot_npy_read(ot_stream *s, ot_dataset *d, ot_array *a, ot_error *err);

/* A .npy of one dimension and integers, where the model has an input for tokens: as ot_tokens_open.  *found: it is one. */
ot_status ot_npy_tokens(const char *path, ot_dataset *d, bool *found, ot_error *err);
/* A .npy of at least options.map_from bytes whose elements are in the file as they are in memory: mapped.  *found: it is one. */
ot_status ot_npy_map(const char *path, ot_dataset *d, bool *found, ot_error *err);
ot_status ot_npz_open(const char *path, ot_dataset *d, ot_error *err);

/* TensorFlow's records of tf.Example; the first of NAME-00000-of-00010 is all of them.  head: the first 12 bytes of a file. */
ot_status ot_tfrecord_open(const char *path, ot_dataset *d, ot_error *err);
bool ot_is_tfrecord(const unsigned char *head);

/* Named tensors; mapped where the file has at least options.map_from bytes. */
ot_status ot_safetensors_open(const char *path, ot_dataset *d, ot_error *err);

/* Images in class folders, of a folder or an archive; pictures.c.  Takes m.  *found: the part exists. */
struct ot_members;
ot_status ot_pictures_open(struct ot_members *m, ot_split split, ot_dataset *d, bool *found, ot_error *err);

/* Makes x an array of n images, files of d->members by their numbers, which stay until d is freed.  masks: their pixels are class
 * numbers.  Errors: OT_E_NOMEM. */
ot_status ot_pictures_array(ot_dataset *d, ot_array *x, const int64_t *member, int64_t n, bool masks, ot_error *err);

/* Images and masks in two folders, below or above those of the parts: images/train/1.jpg, masks/train/1.png.  list: n images of
 * d->members, whose names are compared without the first `skip` bytes.  *is: the set has this layout; *found: the part exists.
 * masks.c */
ot_status ot_masks_open(ot_dataset *d, const int64_t *list, int64_t n, size_t skip, ot_split split, bool *is,
                        bool *found, ot_error *err);

/* beside.c: labels in files beside images, as in webdataset: 000123.jpg, 000123.cls (a class number or a name) or 000123.json ("label",
 * "cls", "class", "target", or what --target names).  Adds "target" and the names of the classes.  list: as above; *is: the
 * first image has such a file. */
ot_status ot_beside_open(ot_dataset *d, const int64_t *list, int64_t n, bool *is, ot_error *err);

int ot_picture_part(const char *name, size_t n); /* the ot_split that a folder of this name is; -1: none */

/* One image file, without a label. */
ot_status ot_picture_open(const char *path, ot_dataset *d, ot_error *err);

bool ot_picture_name(const char *name); /* the name has an ending of images */

/* ot_dataset_number of a set of images in class folders. */
ot_status ot_pictures_number(ot_dataset *d, const char *const *name, int n, const char *from, ot_error *err);

/* labels.c: where all names are whole numbers, a target of them becomes class numbers, and d->labelled is set. */
ot_status ot_labels_match(ot_dataset *d, const char *const *name, int n, const char *from, ot_error *err);

/* The error (OT_E_DATA) of a class that is not one of name[0..n), the classes of `from`. */
ot_status ot_unknown_class(const ot_dataset *d, const char *class, const char *const *name, int n, const char *from,
                           ot_error *err);

/* CIFAR's binary batches in a folder.  *found: the part exists. */
ot_status ot_cifar_folder(const char *folder, ot_split split, ot_dataset *d, bool *found, ot_error *err);

/* Tokens as unsigned numbers without a header (nanoGPT), or behind that of llm.c. */
ot_status ot_tokens_open(const char *path, ot_dataset *d, ot_error *err);

/* A text file as bytes, characters or a tokenizer's tokens. */
ot_status ot_corpus_open(const char *path, ot_dataset *d, ot_error *err);

/* A table, delimited or JSON lines; the column `target`, else, of texts, `label`, else the last, is the target. */
ot_status ot_csv_open(const char *path, ot_dataset *d, ot_error *err);
ot_status ot_table_target(ot_dataset *d, const char *column, ot_error *err);
bool ot_table_has_windows(const ot_columns *t); /* samples are windows of rows, which overlap */
/* Marks the last windows, of each series, that --val-split keeps back; returns how many. */
int64_t ot_row_windows_keep(const ot_columns *t, int64_t samples, double fraction, bool *kept);

#endif
