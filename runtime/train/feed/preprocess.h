/* preprocess.h - how images become inputs, as a model keeps it in its metadata (onnxtrain.preprocess). */
#ifndef OT_PREPROCESS_H
#define OT_PREPROCESS_H

#include <jansson.h>

#include "runtime/train/feed/bind_inputs.h"

/* JSON of how the feeders make inputs, and targets that are scaled, as text and as a record, which json_decref releases; both NULL: there
 * is nothing to record, or nothing that changes.
 *
 *     {"inputs": {"x": {"kind": "image", "height": 224, "width": 224, "channels": 3, "layout": "NCHW", "resize": "cover",
 *                       "interpolation": "bilinear", "scale": 0.00392, "mean": [...], "std": [...]}}}
 *
 * An array of floats that --normalize auto has measured, or of bytes that --normalize scales, is {"kind": "array", "scale": 1, "mean": [...],
 * "std": [...]}; of bytes scale is 1/255, or 1 if they stay 0..255 (mean 0, std 1).  Of an array to which --permute applies "permute" has the
 * order of its axes, beside these or alone.
 * An input is (pixel * scale - mean) / std, per channel.  table: what a table that names the images has recorded (its other
 * inputs and its target stay; an image keeps its "column"); NULL: there is none.  model: what the model has recorded, which
 * stays where only targets change.  Errors: OT_E_NOMEM. */
ot_status ot_preprocess_text(const ot_feeders *fs, const char *table, const char *model, ot_arena *a, const char **out,
                             json_t **record, ot_error *err);

/* The record in a model's metadata for the functions below; json_decref releases it.  text: NULL gives NULL, there is none.  A text that is
 * not JSON gives null, a record that no input can use.  Errors: OT_E_NOMEM; OT_E_MODEL (the scaling of a target is invalid:
 * predictions would be in another unit). */
ot_status ot_preprocess_read(const char *text, json_t **out, ot_error *err);

/* Targets that are standardised, by their outputs: "targets": {"y": {"mean": [...], "std": [...]}}: an output is
 * (target - mean) / std, per element or with one mean for all.  false: the record does not say. */
bool ot_preprocess_target(const json_t *record, const char *output, ot_normalize *out);

/* The n columns of a table that the training took as the target of that output, of the arena; plain: a target without the name of an
 * output is this one's.  NULL: the record does not say so many.  Errors: OT_E_NOMEM. */
ot_status ot_preprocess_target_columns(const json_t *record, const char *output, bool plain, int64_t n, ot_arena *a,
                                       const char *const **out, ot_error *err);

/* Was the output trained to give an input of images as this is fed: "images": ["y"]? */
bool ot_preprocess_is_image(const json_t *record, const char *output);

/* "multiply by 113560 and add 204980": from such an output to the unit of the data. */
const char *ot_preprocess_unit(const ot_normalize *z, char text[160]);

/* Recordings: {"kind": "audio", "rate": 16000, "channels": 1, "length": 16000, "layout": "NCT"}.  false: the record does not say. */
bool ot_preprocess_sound(const json_t *record, const char *input, int *rate, int64_t *length);

/* The size of the images of that input; false: the record does not say. */
bool ot_preprocess_size(const json_t *record, const char *input, int64_t *height, int64_t *width);

bool ot_preprocess_alpha(const json_t *record, const char *input); /* its images have alpha as a fourth channel */

/* Whether what the record says of that input can be used, or it says nothing.  Of tables and texts: not looked at, their readers
 * refuse what is invalid. */
bool ot_preprocess_is_valid(const json_t *record, const char *input);

/* The order of the `rank` axes of an array for that input, in axis; false: the record does not say. */
bool ot_preprocess_axes(const json_t *record, const char *input, int rank, int *axis);

/* The scaling of that input; false: the record does not say, or is something else.  NULL is allowed. */
bool ot_preprocess_normalize(const json_t *record, const char *input, ot_normalize *out);

#endif
