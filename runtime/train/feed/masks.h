/* masks.h - targets in image files: a class number for each pixel of another image of the sample. */
#ifndef OT_MASKS_H
#define OT_MASKS_H

#include "runtime/train/feed/draw.h"

/* 255 marks a pixel that is ignored; in masks of two classes it is class 1. */
enum { OT_MASK_VOID = 255 };

typedef struct ot_mask {
    int64_t most;   /* the largest class number */
    int64_t except; /* another number that may occur, as ignore_index says; -1: there is none */
    bool yes;       /* 255 is class 1 */
    bool voids;     /* 255 is ignored */
} ot_mask;

/* The shape of a sample of masks: height and width of what the output has for each.  Errors: OT_E_DATA: they are not those of
 * the images. */
ot_status ot_mask_shape(const ot_feeders *fs, const ot_output *output, const char *target, ot_shape *out,
                        ot_error *err);

/* Completes f, a target of masks; sample: as ot_mask_shape has given it; loss NULL: the loss pass chooses.  Errors: OT_E_NOMEM. */
ot_status ot_mask_set(const ot_adapt_env *e, const ot_feeders *fs, const ot_spec *loss, const ot_shape *sample,
                      ot_feeder *f, ot_error *err);

/* As ot_feeder_draw: the mask of a sample, resized to its image by nearest pixels, with the geometry of its augmentation.  Errors:
 * also OT_E_DATA (a class that the model has not, another size than the image). */
ot_status ot_mask_draw(const ot_feeder *f, int64_t given, int64_t sample, ot_draw_room *room, uint8_t *to,
                       ot_error *err);

/* How often every value occurs in `some` masks of an array, evenly spaced, as its files have them, or as f draws them (f NULL:
 * not).  As many as --skip-bad says may be unreadable.  Errors: those of ot_mask_draw. */
ot_status ot_masks_count(const ot_array *a, const ot_feeder *f, const ot_settings *s, int64_t some, int64_t count[256],
                         ot_error *err);

/* Notes which share of the pixels of the training set's masks is ignored, by some of them.  Errors: OT_E_DATA: all pixels of all
 * masks are; those of ot_mask_draw. */
ot_status ot_masks_ignored(const ot_adapt_env *e, const ot_feeder *f, ot_error *err);

/* v: n samples as the graph takes them; numbers of pixels that count nowhere become f->ignored. */
void ot_mask_ignore(const ot_feeder *f, void *v, int64_t n);

#endif
