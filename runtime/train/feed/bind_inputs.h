/* bind_inputs.h - matches the arrays of a data set to the inputs and targets of a graph. */
#ifndef OT_BIND_INPUTS_H
#define OT_BIND_INPUTS_H

#include <jansson.h>

#include "importer/import.h"
#include "runtime/train/feed/feeder.h"
#include "runtime/train/options/options.h"

/* What a graph's output looks like for one batch. */
typedef struct ot_output {
    const char *name;
    ot_dtype dtype;
    ot_shape shape;
    int batch_axis; /* the axis of the samples; -1: no axis has their number */
    /* Rows of the output for each sample, if its first axis is batch and time flattened, sample by sample; else 0. */
    int64_t rows;
    /* The tensor whose first two axes are flattened into such rows, if its samples are not its first axis; NULL: none. */
    const char *mixed;
    bool sole; /* larger batches cannot be planned: the output of a batch of one belongs to that sample */
} ot_output;

/* How a data set is matched to a graph. */
typedef struct ot_adapt_env {
    const ot_graph *graph; /* as imported */
    const ot_settings *s;
    ot_normalize *normalize;
    const json_t *preprocess;   /* of the model's metadata (preprocess.h): used for images in files; NULL: none */
    const ot_feeders *training; /* of the training set, whose sizes this set has too; NULL: none, or it is this set */
    const ot_imported *file;    /* the model, for the metadata of other tools (declared.h); NULL: none */
    bool measure;               /* --normalize mean,std is measured on this set: it is the training set */
    bool beside;                /* an evaluation set beside a training set: --normalize may apply to that one alone */
    bool file_training;         /* the algorithm in the file trains: its inputs are targets ... */
    int model_inputs;           /* ... and follow this many inputs of the model */
    bool as_is;                 /* `run`: arrays are fed whole, matched by name alone */
    bool predicts;              /* targets may be missing */
    ot_arena *a;
    const char **notes;    /* gets lines for the user; NULL: no lines are made */
    ot_findings *findings; /* gets warnings; NULL: no warnings are made */
} ot_adapt_env;

/* Sets o->input to the inputs of the graph that need data.  Errors: OT_E_NOMEM. */
ot_status ot_adapt_wanted(const ot_graph *g, ot_arena *a, ot_data_options *o, ot_error *err);

/* The feeder of that input in the training set, if it reads files; else NULL. */
const ot_feeder *ot_adapt_like(const ot_adapt_env *e, const char *input);

/* Feeders for every input the graph needs.  Errors: OT_E_DATA: arrays are missing or do not fit, all
 * findings at once; OT_E_USAGE: --normalize was given, but no array can be scaled. */
ot_status ot_adapt_inputs(const ot_adapt_env *e, const ot_dataset *d, ot_feeders *out, ot_error *err);

/* Adds feeders for the targets that the losses need and checks every label; notes the outputs without a target and the
 * unused arrays.  A loss without an output's name gets the output of the only target.  outputs: n of them.
 * Errors: OT_E_DATA (a target is missing, has a wrong shape or a label out of range, or is unused), OT_E_USAGE. */
ot_status ot_adapt_targets(const ot_adapt_env *e, const ot_output *outputs, int n, ot_feeders *fs, ot_error *err);

/* target_values.c: targets by their names. */
bool ot_target_is_named(const ot_array *a);           /* the array is called "target_<output>" */
const ot_array *ot_target_plain(const ot_dataset *d); /* the target without an output's name; NULL: none */
const ot_array *ot_target_of(const ot_dataset *d, const char *output); /* "target_<output>"; NULL: none */

/* How many classes the target has: labels are 0 to *n - 1, or a sample has *n values.  rank: of the output, -1: unknown;
 * axis: of its classes; loss: NULL: none is given; s: with how many threads masks in files are counted, and how many may be
 * unreadable.  count_classes.c.  Errors: OT_E_DATA: they are no classes. */
ot_status ot_count_classes(const ot_dataset *d, const ot_array *target, int rank, int axis, const ot_spec *loss,
                           const ot_settings *s, int64_t *n, ot_error *err);

/* Whether the class numbers of a target, besides `skip`, are 1 to `classes`, where classes count from 0.  text: what to say of it,
 * also where they are 1 to another number; else "".  A mapped array is not looked at. */
bool ot_labels_from_one(const ot_array *target, int64_t skip, int64_t classes, char *text, size_t size);

/* Are all values 0 or 1?  *both (or NULL): whether both occur.  false for a mapped array, which is not read. */
bool ot_zeros_and_ones(const ot_array *a, bool *both);

/* Does f scale bytes to values from 0 to 1?  false if its source is not bytes. */
bool ot_feeds_shares(const ot_feeder *f);

/* Is no value negative, and do they sum to 1 along `axis` of every sample?  A mapped array is not looked at: false. */
bool ot_adds_up(const ot_array *a, const ot_shape *sample, int axis);

/* Says which arrays nothing uses; in `run` targets need no use. */
void ot_adapt_idle(const ot_adapt_env *e, const ot_feeders *fs);

/* NaN is data in inputs that the model asks IsNaN of. */
void ot_adapt_gaps(const ot_graph *g, ot_dataset *d);
bool ot_adapt_has_gaps(const ot_graph *g, const ot_value *input);

/* Whether all that the model does with this graph input begins with a scaler. */
bool ot_adapt_is_scaled(const ot_graph *g, const ot_value *input);

/* features.c: the axis, 1 or 2, that has the features of an input of rank 3; -1: the graph does not say it. */
int ot_adapt_features(const ot_graph *g, const ot_value *input);

/* Every element of an array that a Gather of the graph looks up is one of its rows; of a mapped one that is left to
 * ot_feeders_check.  Errors: OT_E_DATA. */
ot_status ot_adapt_lookups(const ot_adapt_env *e, ot_feeders *fs, ot_error *err);

/* Rows of the smallest table that a Gather looks elements of this graph input up in; 0: unknown, or none. */
int64_t ot_adapt_rows(const ot_graph *g, const ot_value *input);

/* balance.c: class_weights=auto and pos_weight=auto get their numbers from f, the target in the training set (e->measure);
 * those that have them stay.  Errors: OT_E_USAGE: e is of another set. */
ot_status ot_adapt_balance(const ot_adapt_env *e, ot_spec *loss, const ot_feeder *f, ot_error *err);

void ot_adapt_note(const ot_adapt_env *e, const char *fmt, ...) OT_PRINTF(2, 3);

/* Draws picture x of geometry `from` as `to`: channels repeated or joined to grey, edges padded
 * with zeros where a few pixels are missing, else resized bilinearly.  y: (C,H,W). */
void ot_redraw(const uint8_t *x, const ot_picture *from, const ot_picture *to, uint8_t *y);

bool ot_is_pad(const ot_picture *from, const ot_picture *to); /* padded, not resized */

#endif
