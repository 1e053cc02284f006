/* predict.h - what commands besides predict need of it. */
#ifndef OT_PREDICT_H
#define OT_PREDICT_H

#include "runtime/losses/tails.h"
#include "runtime/train/run/trainer.h"

/* `run` for data of which images are in files: batch by batch, all outputs with a value for each sample to the .npz that -o
 * names. */
ot_status ot_run_images(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err);

/* How an output has the class of each pixel. */
typedef struct ot_mask_form {
    int64_t classes, h, w; /* scores of so many classes; 1: one score, or the number itself */
    bool last;             /* (H,W,C) */
    bool numbers;          /* of integers: the class */
    double above;          /* one score: class 1 above it */
} ot_mask_form;

/* s: (N,C,H,W), (N,H,W,C) or (N,H,W) of all samples; images: their size at the input, or NULL: C comes first.  false: it has none. */
bool ot_mask_form_of(const ot_shape *s, ot_dtype type, ot_tail_kind tail, const ot_picture *images, ot_mask_form *out);

/* Whether n masks can be written below `folder`, each with the name of its file (NULL: its number) below `images`.  Errors:
 * OT_E_USAGE (two would have one name, or one would replace its image), OT_E_DATA, OT_E_NOMEM. */
ot_status ot_mask_names(int64_t n, const char *(*file)(const void *user, int64_t i), const void *user,
                        const char *images, const char *folder, ot_error *err);

/* Writes the mask of one sample, v: its output; pixels: room for h * w.  Errors: OT_E_IO, OT_E_NOMEM. */
ot_status ot_mask_write(const ot_mask_form *m, const double *v, uint8_t *pixels, const char *folder, const char *file,
                        int64_t sample, ot_error *err);

#endif
