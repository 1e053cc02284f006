/* new.h - makes ONNX files of well-known networks with fresh weights. */
#ifndef OT_NEW_H
#define OT_NEW_H

#include "runtime/base/base.h"

#define OT_NEW_OPSET_MIN 7
#define OT_NEW_OPSET_MAX 25

/* 0 everywhere is the kind's own choice. */
typedef struct ot_new_options {
    int            opset;                   /* 7..25 (the kind's: 17, or 20) */
    int64_t        classes;                 /* extent of the output's last axis (the kind's: 10, 1000, a vocabulary) */
    int64_t        channels, height, width; /* of the input (the kind's) */
    double         scale;                   /* multiplies the number of filters or hidden units (1) */
    int64_t        batch;                   /* 0: symbolic, "N" */
    uint64_t       seed;
    int            n_hidden;                /* mlp: its hidden layers (128, 64) */
    const int64_t *hidden;
    int64_t        tokens, layers;          /* gpt2, bert: length of a sequence, number of blocks */
} ot_new_options;

typedef struct ot_new_kind {
    const char *name, *text; /* "lenet", one line for the help */
} ot_new_kind;

/* The i-th kind in the order of the help; NULL after the last. */
const ot_new_kind *ot_new_kind_at(int i);

/* Writes the model to `path`, complete or not at all.  The same kind, options and seed give the
 * same bytes.  o may be NULL.  Errors: OT_E_USAGE (no such kind, an option out of range, a picture
 * too small for the network), OT_E_IO, OT_E_NOMEM. */
ot_status ot_new_model(const char *kind, const ot_new_options *o, const char *path, ot_error *err);

#endif
