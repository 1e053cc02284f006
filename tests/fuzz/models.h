/* models.h - functions that targets for ONNX files share. */
#ifndef OT_TESTS_FUZZ_MODELS_H
#define OT_TESTS_FUZZ_MODELS_H

#include "tests/fuzz/fuzz.h"

/* Loads a file and walks through what it has; NULL: refused.  The caller frees. */
ot_model *fuzz_load(const char *path);

/* Name, value, name, value … NULL; on the CPU with one thread.  The caller frees. */
ot_options *fuzz_options(const char *const *pairs);

/* What must not be left to the input, set over it: arguments win over a config file.  Paths become harmless ones ("run",
 * "out.onnx", the data of train/0-mlp), sizes small; two updates on the CPU. */
void fuzz_tame(ot_options *o);

/* The bytes of a tensor, 0 where a dimension is unknown. */
size_t fuzz_bytes(const ot_tensor *t);

/* Both files have the same bytes; else reports `what`. */
void fuzz_same_files(const char *a, const char *b, const char *what);

/* Small values of every sign, of integers those that are axes, shapes and indices; on the heap.  NULL: too large, or of a
 * type without numbers. */
void *fuzz_made_up(const ot_tensor *t);

enum { FUZZ_MOST_FED = 16 };
typedef struct fuzz_fed {
    int n;
    ot_tensor t[FUZZ_MOST_FED + 1]; /* room for a target */
} fuzz_fed;

/* Generated values for every input, unknown extents as 2; false: an input cannot be generated.  Call fuzz_unfeed in
 * any case. */
bool fuzz_feed(const ot_model *m, fuzz_fed *f);
void fuzz_unfeed(fuzz_fed *f);

#endif
