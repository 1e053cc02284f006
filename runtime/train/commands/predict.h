/* predict.h - what commands besides predict need of it. */
#ifndef OT_PREDICT_H
#define OT_PREDICT_H

#include "runtime/losses/tails.h"
#include "runtime/train/run/trainer.h"

/* `run` for data that are no arrays of the model: images in files, and what the model's training recorded how to read (tables,
 * texts).  Batch by batch, all outputs with a value for each sample to the .npz that -o names. */
ot_status ot_run_samples(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err);

/* How an output has the class of each pixel. */
typedef struct ot_mask_form {
    int64_t classes, h, w;    /* scores of so many classes; 1: one score, or the number itself */
    bool last;                /* (H,W,C) */
    bool numbers;             /* of integers: the class */
    double above;             /* one score: class 1 above it */
    bool image;               /* no scores: the channels of an image, grey or colour */
    bool bgr;                 /* of an image: blue comes first */
    double times[3], plus[3]; /* of an image: a byte of channel c is value * times[c] + plus[c] */
} ot_mask_form;

/* Which pixels of its image a part has, and where they are at the output: pixel y of the image is at
 * (y + 0.5) * scale[0] + shift[0] - 0.5 of its rows, x likewise of its columns. */
typedef struct ot_mask_place {
    int64_t top, left, h, w;
    double scale[2], shift[2];
} ot_mask_place;

/* s: (N,C,H,W), (N,H,W,C) or (N,H,W) of all samples; images: their size at the input, or NULL: C comes first.  false: it has none. */
bool ot_mask_form_of(const ot_shape *s, ot_dtype type, ot_tail_kind tail, const ot_picture *images, ot_mask_form *out);

/* Makes `folder`.  Whether n masks can be written below it, each with the name of its file (NULL: its number).  Errors: OT_E_USAGE (two
 * would have one name, or one would replace a file that d reads), OT_E_DATA, OT_E_NOMEM, OT_E_IO. */
ot_status ot_mask_names(int64_t n, const char *(*file)(const void *user, int64_t i), const void *user,
                        const ot_dataset *d, const char *folder, ot_error *err);

/* The scores of an image, part by part. */
typedef struct ot_mask_parts {
    int64_t height, width; /* of the mask: the size of the image, times the ratio of output and input */
    int n, room;
    ot_mask_place *place; /* of each part */
    float **v;            /* its output */
} ot_mask_parts;

/* Adds the output of a sample.  Errors: OT_E_NOMEM. */
ot_status ot_mask_add(ot_mask_parts *p, const ot_mask_form *m, const ot_mask_place *at, const double *v, ot_error *err);

/* Writes the mask, or image, of the parts that were added, and forgets them.  Errors: OT_E_IO, OT_E_NOMEM. */
ot_status ot_mask_write(ot_mask_parts *p, const ot_mask_form *m, const char *folder, const char *file, int64_t sample,
                        ot_error *err);

void ot_mask_parts_free(ot_mask_parts *p);

#endif
