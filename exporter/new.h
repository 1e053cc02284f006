/* new.h - makes ONNX files of well-known networks with fresh weights. */
#ifndef OT_NEW_H
#define OT_NEW_H

#include "runtime/base/registry.h"

#define OT_NEW_OPSET_MIN 7
#define OT_NEW_OPSET_MAX 25

/* No network beyond these fits into the 2 GiB of a file; and their products do not overflow. */
#define OT_NEW_EXTENT_MAX 65536
#define OT_NEW_SCALE_MAX  64.0

enum { OT_NEW_HIDDEN = 64 }; /* hidden layers, at most */

/* 0 everywhere is the kind's own choice. */
typedef struct ot_new_options {
    int opset;                       /* 7..25 (the kind's: 17, or 20) */
    int64_t classes;                 /* extent of the output's last axis (the kind's: 10, 1000, a vocabulary) */
    int64_t channels, height, width; /* of the input (the kind's) */
    double scale;                    /* multiplies the number of filters or hidden units (1) */
    int64_t batch;                   /* 0: symbolic, "N" */
    uint64_t seed;
    int n_hidden; /* mlp: its hidden layers (128, 64) */
    const int64_t *hidden;
    int64_t tokens, layers; /* gpt2, bert: length of a sequence, number of blocks */
} ot_new_options;

/* The kinds, with the keys that each takes: their defaults are those of the options. */
extern const ot_registry ot_recipes;

/* Whole numbers above 0: "3x32x32" or "128,64".  Returns how many, -1: something else, or more than `most`. */
int ot_new_numbers(const char *text, char between, int64_t *list, int most);

/* Writes the model to `path`, complete or not at all.  The same kind, options and seed give the
 * same bytes.  o may be NULL.  Errors: OT_E_USAGE (no such kind, an option out of range, a picture
 * too small for the network), OT_E_IO, OT_E_NOMEM. */
ot_status ot_new_model(const char *kind, const ot_new_options *o, const char *path, ot_error *err);

#endif
