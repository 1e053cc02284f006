/* declared.h - what tools other than this one write into a model's metadata about its images and classes, and what its graph says. */
#ifndef OT_DECLARED_H
#define OT_DECLARED_H

#include "runtime/train/feed/bind_inputs.h"

/* How bytes of c channels are scaled for this input, by mean and deviation (timm, transformers, Deepness, plain lists) or by
 * Image.NominalPixelRange; a note says from where.  false: nothing says it, or not clearly, which a note says too. */
bool ot_declared_range(const ot_adapt_env *e, const char *input, ot_normalize *out);
bool ot_declared_scaling(const ot_adapt_env *e, const char *input, int64_t c, ot_normalize *out);

/* Do models of three channels take blue first (Image.BitmapPixelFormat)? */
bool ot_declared_bgr(const ot_imported *file);

/* Height and width of the images (imgsz of Ultralytics, input_size of timm).  *key: where it stands.  false: nothing says it. */
bool ot_declared_size(const ot_imported *file, int64_t *height, int64_t *width, const char **key);

/* Names of the classes of a classifier (Ultralytics), in a; *n 0: nothing says them.  Errors: OT_E_NOMEM. */
ot_status ot_declared_classes(const ot_imported *file, ot_arena *a, const char *const **out, int *n, ot_error *err);

enum { OT_MOST_CLASSES = 1 << 16 };

/* labels.c: the labels that an output of the graph is one of, integers as decimal text.  *n 0: there are none, or they are 0, 1,
 * 2 ... in order, or outputs have several lists of them.  Errors: OT_E_NOMEM. */
ot_status ot_label_classes(const ot_imported *file, ot_arena *a, const char *const **out, int *n, ot_error *err);

#endif
