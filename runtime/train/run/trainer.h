/* trainer.h - a training: its data, plans, counters, log; and the functions that the files of train/run share. */
#ifndef OT_TRAINER_H
#define OT_TRAINER_H

#include <signal.h>

#include "runtime/train/run/files.h"
#include "runtime/train/run/folder.h"
#include "runtime/train/run/history.h"
#include "runtime/train/run/best.h"
#include "runtime/train/run/log.h"
#include "runtime/train/run/watch.h"
#include "runtime/train/run/meter.h"
#include "runtime/train/options/schedules.h"
#include "runtime/train/run/session.h"

/* Update number `step` (from 0): the in_epoch-th of its epoch. */
typedef struct ot_update_record {
    int64_t step, epoch, in_epoch, samples;
    double rate, momentum; /* learning rate, momentum */
    double loss, norm;     /* means over its batches: the loss, and the gradient norm (NaN: not computed) */
    double head[OT_HEADS]; /* the same of each single loss */
    bool skipped;          /* loss or gradients were NaN or infinite, with --on-nonfinite skip; or it is uncounted */
    bool uncounted;        /* all labels of its batches are ignored: the update was not computed */
} ot_update_record;

/* A batch that was submitted and not yet collected. */
typedef struct ot_flight {
    ot_update_record update;
    int batch, counted; /* this batch of the update, from 0; those of the update that are given */
    int batches;        /* of the update, with those in which nothing counts */
} ot_flight;

/* Metrics of one output besides loss and accuracy. */
typedef struct ot_measured {
    ot_meter meter;
    int output, feeder; /* index of the output in the graph; index of its target in the set's feeders */
    void *answers;      /* a batch of the output */
} ot_measured;

/* A set that the model is evaluated on, and the result of the last evaluation. */
typedef struct ot_scored {
    ot_dataset *data; /* NULL: there is none */
    ot_feeders fs;
    int slot, rest;                         /* of its full batches, of the short one; -1: none */
    const char *split;                      /* "val", "test" */
    double loss, accuracy;                  /* NaN: none */
    double head[OT_HEADS], right[OT_HEADS]; /* means of the single losses, their accuracies; NaN: none */
    bool all; /* every metric is measured; else those of --monitor and --metrics, and of outputs that are values */
    int n_measured;
    ot_measured measured[OT_HEADS];
    struct ot_detail *detail; /* detail.c: classes and worst samples of the last evaluation; NULL: none */
} ot_scored;

/* A plan for tensors of the caller with these names, types and shapes (steps.c). */
typedef struct ot_batch_shape {
    ot_want want; /* TRAIN, PREDICT */
    ot_dataset *d;
    ot_feeders *fs;
    int64_t batch, *index; /* 0, 1 .. batch - 1 */
    ot_tensor *own;        /* copies of the first batch that trained, for the proof of a written file; else NULL */
} ot_batch_shape;

typedef struct ot_kept_statistics ot_kept_statistics;

/* Training with the algorithm in the file (file_training.c). */
typedef struct ot_file_training {
    bool used;                         /* else the options are used */
    ot_model model;                    /* with the graph of the algorithm */
    int model_inputs;                  /* inputs of the model itself, which those of the algorithm follow */
    ot_graph *graph;                   /* that of `model`, if it starts from the file's initialization; else NULL */
    const char *line, *initialization; /* lines for the user; NULL: there is nothing to say */
} ot_file_training;

struct ot_trainer {
    /* The model: `m` is one of as_read, loaded, cut and file_training.model, or a changed copy of it (unfold.c, lora.c). */
    const ot_model *m;       /* the model that trains */
    const ot_model *as_read; /* the caller's model, which checkpoints are compared with */
    const ot_model *loaded;  /* as_read, or a copy with an edited graph (untie.c): its file gets the new weights */
    ot_imported *remade;     /* the file with an edited graph (untie.c); NULL: not edited */
    ot_model cut;            /* --output: the model that ends at these tensors; file NULL: not used */
    ot_file_training file_training;
    ot_imported *taught_by; /* --teacher; NULL: none */
    ot_teacher teacher;     /* the same for plans */

    /* Changed parts of the model. */
    struct {
        struct ot_classifier *list; /* --classes, --freeze-backbone: the last layers (classifier.c) */
        int n;
        bool replaced; /* some of them, by --classes */
    } classifiers;
    struct {
        struct ot_lora *adapter; /* --lora (lora.c) */
        int n;
        ot_graph *graph; /* with adapters; NULL: none */
    } lora;
    struct {
        struct ot_unfolded *list; /* --unfold-bn: restored BatchNormalizations (unfold.c) */
        int n;
    } unfolded;

    const ot_options *o;
    ot_callbacks cb;
    ot_arena *a;
    ot_settings s;
    const char *notes;    /* how the data are used, a line each */
    ot_findings findings; /* about the model and the plans */
    ot_review review;

    ot_dataset *data;
    ot_feeders train;
    ot_scored eval;            /* evaluated after each epoch; of `eval`: all sets that the command evaluates on */
    ot_scored test;            /* evaluated at the end, if `eval` is a validation set */
    bool has_val;              /* `eval` is a validation set: it decides the best epoch, early stop and plateaus */
    json_t *record, *measured; /* onnxtrain.preprocess of the model, of this training; NULL: none */
    ot_normalize normalize;
    bool same_set;     /* the evaluation set is the training set */
    int split_classes; /* --val-split, --folds: classes that are split in equal shares; 0: not by class */
    ot_session x;
    bool dry;           /* written files get no name */
    int proof;          /* slot that the written file is compared with; -1: none */
    const char *saving; /* path of the file that is being written */

    /* How an epoch is divided.  Shuffled: full batches, then a short one; else all are full. */
    int64_t batch, full, rest; /* samples of a batch, full batches, samples of the short batch (0: none) */
    int64_t updates, total;    /* of an epoch, of the run */
    int64_t epochs;
    int64_t *index;             /* samples of a batch */
    ot_permutation order;       /* of an epoch */
    ot_permutation ahead_order; /* of epoch ahead_epoch, whose batches are drawn in advance; n 0: none */
    int64_t ahead_epoch;
    int64_t bad_samples; /* that cannot be read */

    ot_schedule schedule;
    ot_log log;
    ot_epoch_table table; /* epochs.csv */
    ot_history *history;  /* the part of the log that report.html shows; NULL: none yet */
    struct {              /* by the clock, when each was last written */
        double checkpoint, histograms;
        double report; /* report.html; negative: it cannot be written */
        int64_t checkpoint_step;
    } written;
    double epoch_began;         /* by the clock */
    int64_t tokens;             /* of a sample that is a sequence of tokens; 0: samples have none */
    struct ot_profile *profile; /* --profile: until its table is written; NULL: none */
    ot_error lost;              /* the first file that could not be written while the training continued */
    const ot_config_file *configs;
    ot_folder folder; /* of the run; path NULL: none */
    volatile sig_atomic_t cancelled;

    /* Updates in flight and completed ones. */
    struct {
        ot_flight list[OT_RUNS]; /* by number of the batch, modulo OT_RUNS */
        int64_t given, taken;    /* numbers of batches */
        ot_update_record update; /* whose batches are being collected */
    } flights;
    ot_status (*done)(ot_trainer *t, const ot_update_record *now, ot_error *err); /* called for each; NULL: no call */

    /* Counters */
    int64_t given, step, epoch, samples; /* updates submitted; updates, epochs, samples completed */
    int64_t overflows;                   /* consecutive updates with gradients that are not finite */
    int64_t skipped;                     /* skipped updates of the run */
    int64_t uncounted;                   /* those of them whose labels are all ignored */
    bool partly_counted;                 /* an update with such a batch among others was reported */
    struct {
        double began, seconds; /* the first step, by the clock; seconds since then */
        double busy;           /* seconds within steps */
        double busy_before;    /* `busy` of the run that this one continues */
        double last_step;      /* when it was completed, by the clock */
    } clock;
    struct { /* sums over the epoch's updates without the skipped ones */
        int64_t updates;
        double loss, head[OT_HEADS]; /* the loss, and each single loss */
    } epoch_sum;
    double first_loss, last_loss; /* of the first update, if this process computed it, and of the last */
    ot_result result;
    ot_best best;
    const char *ends; /* why the run ends before its last update; NULL: it does not */

    /* Trainings without --data (steps.c). */
    bool by_steps; /* the caller passes tensors to ot_trainer_step */
    struct {
        ot_batch_shape *list[OT_SLOTS], *now; /* of steps and predictions; the one of the current step */
        int n;
        ot_kept_statistics *kept; /* running statistics before a step; NULL: not saved yet */
    } steps;

    /* Other commands than train. */
    bool tiles;    /* predictions divide an image into overlapping parts, which are samples (ot_dataset_tile) */
    bool doubted;  /* the warning about an output that looks like probabilities was printed (measure.c) */
    bool searches; /* find-lr: nothing is evaluated */
    bool predicts; /* no loss: a data set needs no targets, a plan computes the outputs only */

    const char *resumed;  /* checkpoint that the run continues from; NULL: none */
    int64_t log_bytes[2]; /* resumed: of the run's log, and of --log, at the checkpoint; -1: unknown */
    int64_t planned;      /* bytes */
    bool labels_in_graph; /* the class names are labels in the graph (labels.c) */
    void **copies;        /* of file states, for ot_trainer_weight_at; NULL: not yet */
    void **plain;         /* --ema, --swa: the weights while their averages are in use; NULL: they are not */
};

/* steps.c: the caller's tensors.  OT_ENDLESS: option "steps" of a training that the caller ends. */
#define OT_ENDLESS (INT64_MAX / 2)
void ot_trainer_forget_shapes(ot_trainer *t);

/* evaluation.c: evaluates t's weights on the set and reports progress.  After a cancelled evaluation the results are those of
 * a part of the set. */
ot_status ot_trainer_score(ot_trainer *t, ot_scored *e, ot_error *err);

/* The progress of `batches` of e since `began`. */
void ot_trainer_report_evaluation(const ot_trainer *t, const ot_scored *e, int64_t batches, double began);

/* measure.c: the metrics of a set: begin, add the batch that was submitted, free. */
ot_status ot_measure_open(ot_trainer *t, ot_scored *e, ot_error *err);
ot_status ot_measure_batch(ot_trainer *t, ot_scored *e, int slot, ot_error *err);
void ot_measure_close(ot_scored *e);
/* Call it when the set, if there is one, is planned.  Errors: OT_E_USAGE: evaluations on the set have no metric --monitor, or
 * none for a plateau with mode=max. */
ot_status ot_measure_check(const ot_trainer *t, const ot_scored *e, ot_error *err);
int ot_measure_plateau(const ot_trainer *t); /* the metric of a plateau schedule, if there are validation samples */

/* The value of a metric for the output of --monitor, else for the first output that has it; NaN: none. */
double ot_measure_value(const ot_trainer *t, const ot_scored *e, int metric);

/* Whether feeder i of the set is the target of a measured output.  Sets *output, its index, and kind, scale and shape of *m. */
bool ot_measure_fits(const ot_trainer *t, const ot_scored *e, int i, int *output, ot_meter *m);

/* Adds the metrics to an event, by name; with several outputs, an object "metrics" for each output. */
void ot_measure_log(json_t **event, const ot_trainer *t, const ot_scored *e);

/* loop.c: the options given by the user, by name; a repeated option is a list.  NULL: no memory. */
json_t *ot_options_json(const ot_options *o);

/* Whether there is a run folder to write to.  If it was deleted since the training began, this is reported once, nothing more is
 * written to it, and the run ends with OT_E_IO. */
bool ot_trainer_has_folder(ot_trainer *t);

/* One line for the user. */
void ot_trainer_say(const ot_trainer *t, ot_level level, const char *fmt, ...) OT_PRINTF(3, 4);
void ot_trainer_say_lines(const ot_trainer *t, ot_level level, const char *lines);

/* classes.c: the metadata key of class names, whose value is JSON, so that names may have any character: a list, or in a model
 * with several outputs one list for each. */
#define OT_CLASSES_KEY "onnxtrain.classes"
/* The class names of the training set as such JSON; *out NULL: it has none. */
ot_status ot_classes_text(const ot_trainer *t, ot_arena *a, const char **out, ot_error *err);

/* The class names of a written model. */
typedef enum ot_classes_kind {
    OT_CLASSES_KEPT,    /* those of the file */
    OT_CLASSES_NAMED,   /* those of the data */
    OT_CLASSES_COLUMNS, /* the columns of labels */
    OT_CLASSES_GONE     /* none: it was trained on values, to which the file's names do not apply */
} ot_classes_kind;
/* *out NULL where kind is KEPT or GONE. */
ot_status ot_trainer_classes_text(const ot_trainer *t, ot_arena *a, ot_classes_kind *kind, const char **out,
                                  ot_error *err);

/* What the model records without the outputs of last layers that are replaced, in the trainer's arena; *out NULL: nothing. */
ot_status ot_classes_kept(const ot_trainer *t, const char **out, ot_error *err);

/* recorded_loss.c: the metadata key of the values of --loss, a JSON list of strings. */
#define OT_LOSS_KEY "onnxtrain.loss"
/* Writes loss k of the options, with numbers in place of auto, so that it does not depend on the data. */
void ot_loss_spell(FILE *f, const ot_trainer *t, int k);
/* All losses of the options in this form, ending with NULL, in the trainer's arena; *out NULL: there are none. */
ot_status ot_losses_list(const ot_trainer *t, const char *const **out, ot_error *err);
/* The same as JSON, in arena a; *out NULL: no loss was given, and the model has no record that must be replaced. */
ot_status ot_losses_text(const ot_trainer *t, ot_arena *a, const char **out, ot_error *err);
/* If the options have no loss, sets those that the model records.  Errors: OT_E_NOMEM. */
ot_status ot_losses_take(ot_trainer *t, ot_error *err);
/* evaluated_by.c: the options with which `eval` evaluates the written model as this training did, without those that the model
 * records: name, value, name ... NULL, in the trainer's arena.  Errors: OT_E_NOMEM. */
ot_status ot_evaluated_by(const ot_trainer *t, const char *const **out, ot_error *err);
/* The loss of the options on this output of the model; NULL: none. */
const ot_spec *ot_loss_on(const ot_trainer *t, const char *output);

/* Sets ot_feeders.ahead of the sets, from which loaders predict the next batches. */
void ot_trainer_look_ahead(ot_trainer *t);

/* The metadata key of ot_dataset.preprocess: how inputs are made from files. */
#define OT_PREPROCESS_KEY "onnxtrain.preprocess"

/* The class names that the model has for an output (NULL: unknown), in arena a; *n 0: the metadata have none or are invalid.
 * Errors: OT_E_NOMEM. */
ot_status ot_classes_of(const ot_model *m, const char *output, ot_arena *a, const char *const **out, int *n,
                        ot_error *err);

/* Sets t->labels_in_graph: the names of the classes are labels that the graph selects from.  Training cannot change them, and
 * they need no record.  Errors: OT_E_NOMEM. */
ot_status ot_trainer_find_labels(ot_trainer *t, ot_error *err);

/* Gives the classes of d the numbers that the model has for them.  trains: unknown classes are a warning, and d keeps its
 * numbers.  Errors: OT_E_DATA: a class that the model does not have. */
ot_status ot_trainer_number_classes(ot_trainer *t, ot_dataset *d, bool trains, ot_error *err);
/* The class names of an output whose target is that feeder of e: those of the data, else of the model; *n 0: there are none.
 * Errors: OT_E_NOMEM. */
ot_status ot_trainer_class_names(const ot_trainer *t, const ot_scored *e, int feeder, const char *output,
                                 const char *const **name, int *n, ot_error *err);
/* Notes the number of each class of a table, and class sizes.  Errors: OT_E_NOMEM. */
ot_status ot_trainer_note_classes(ot_trainer *t, ot_error *err);

/* Adds loss and accuracy of an evaluation to an event; if the plan has several losses also the objects "losses" and
 * "accuracies", by name. */
void ot_log_scores(json_t **event, const ot_trainer *t, const ot_scored *e);

/* "accuracy 93.20 %", or a list by name if several outputs have one; "": none has. */
const char *ot_trainer_accuracies(const ot_trainer *t, const ot_scored *e, char buf[600]);

/* Prints the findings: warnings, then notes (with `all`). */
void ot_trainer_say_findings(const ot_trainer *t, bool all);

/* untie.c: --untie, and --train for values of ConstantOfShape: t->m becomes the file with a graph edited accordingly.  Adds to the
 * findings.  Errors: OT_E_USAGE: a pattern matches nothing. */
ot_status ot_trainer_remake(ot_trainer *t, ot_error *err);

/* untie.c: makes `now`, which t then owns, the model that trains. */
ot_status ot_trainer_take(ot_trainer *t, ot_imported *now, ot_error *err);

/* classifier.c: --classes replaces the last layer by one with the classes of the data, and opens the data for that;
 * --freeze-backbone chooses the layer that trains.  Adds to the findings.  Errors: OT_E_MODEL: there is no such layer;
 * OT_E_USAGE, OT_E_DATA. */
ot_status ot_trainer_classifiers(ot_trainer *t, ot_error *err);
/* The output of t's model for a loss without an output's name: the first, or the only one of floats. */
int ot_trainer_plain_output(const ot_trainer *t);
/* Errors: OT_E_MODEL: an output has another number of classes. */
ot_status ot_trainer_check_classes(const ot_trainer *t, const ot_output *outputs, int n, ot_error *err);

/* Examines the model and fills findings and review; eval: without findings that concern training only.
 * Errors: OT_E_MODEL: it cannot be trained, with all reasons. */
ot_status ot_trainer_review(ot_trainer *t, bool eval, ot_error *err);

/* Replaces the error of a plan by one in terms of the model, if there is one. */
ot_status ot_trainer_explain(const ot_trainer *t, ot_status s, ot_error *err);

/* Adds the findings of a plan, and the warnings of the session's other plans, to t's. */
ot_status ot_trainer_join(ot_trainer *t, const ot_plan *p, ot_error *err);

/* A trainer that has read its options only. */
ot_status ot_trainer_begin(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_trainer **out,
                           ot_error *err);

/* precision.c: chooses a precision for --precision auto. */
ot_status ot_trainer_choose_precision(ot_trainer *t, ot_error *err);

/* together.c: if the batch size differs from the fixed one of the file, compares two batches of the file's size computed together
 * and separately, in inference mode.  Adds to the findings; if the outputs differ, sets s.apart. */
void ot_trainer_try_together(ot_trainer *t, const ot_feeders *fs);

/* sets.c */
ot_status ot_trainer_open(ot_trainer *t, ot_error *err);          /* all sets of a training */
ot_status ot_trainer_open_training(ot_trainer *t, ot_error *err); /* the training set; nothing if it is open */
/* The set to evaluate on; and the training set if --normalize is measured on it. */
ot_status ot_trainer_open_evaluation_set(ot_trainer *t, ot_error *err);
/* The set for `eval` of a run, from those of its training: --test, else the validation samples, else the test part of the data,
 * else all data. */
ot_status ot_trainer_open_run_set(ot_trainer *t, ot_error *err);

/* How data are matched to the model, from options and metadata. */
ot_adapt_env ot_trainer_adapt_env(ot_trainer *t);

ot_status ot_trainer_plan(ot_trainer *t, ot_error *err);    /* adapts and plans for the open sets */
ot_status ot_trainer_prepare(ot_trainer *t, ot_error *err); /* plans and allocates */

/* Checks, before anything is computed, that --deploy can be carried out: its file can be written, its --metadata can be read.
 * Errors: OT_E_USAGE, OT_E_IO. */
ot_status ot_trainer_check_deploy(ot_trainer *t, ot_error *err);

/* For `eval`: opens the set to evaluate on, adapts, plans and allocates for it alone. */
ot_status ot_trainer_open_evaluation(ot_trainer *t, ot_error *err);

/* For `predict`: the same without targets; t->eval has the set and its plans. */
ot_status ot_trainer_open_prediction(ot_trainer *t, ot_error *err);

/* For `eval` of a run: opens data and plans as its training did, and the set to evaluate on as t->eval.  The weights are
 * those of the model until a checkpoint is read. */
ot_status ot_trainer_open_run(ot_trainer *t, ot_error *err);

/* For `grad`: opens the data, adapts, plans and allocates one slot. */
ot_status ot_trainer_open_gradient(ot_trainer *t, int *slot, ot_error *err);

/* Writes a copy of the model's file with the trained tensors.  folder: an open folder that `path` is relative to, or NULL.
 * proof: the written file must compute the same outputs for a batch as t.  *data (may be NULL): the names of its external data
 * files, in one line; NULL: it has none. */
ot_status ot_trainer_save(ot_trainer *t, const int *folder, const char *path, bool proof, const char **data,
                          ot_error *err);

/* The row-major bytes of a state between two updates: borrowed, or a copy in the arena.  Errors: OT_E_NOMEM, OT_E_DEVICE. */
ot_status ot_trainer_bytes(const ot_trainer *t, ot_arena *a, const ot_value *v, void **out, ot_error *err);

/* How data are read, from the options alone. */
ot_data_options ot_sets_options(const ot_settings *s);

/* For a training without validation samples: --monitor may name the loss alone. */
ot_status ot_sets_check_monitor(const ot_settings *s, ot_error *err);

/* The path of the trained model: -o, or the default; NULL: no memory. */
const char *ot_trainer_out(ot_trainer *t);

/* --swa: sets the updates that are averaged, once the updates of an epoch are known.  Errors: OT_E_USAGE: there are none. */
ot_status ot_trainer_place_averages(ot_trainer *t, ot_error *err);

/* averages.c: --ema, --swa: replaces weights and statistics by their averages, until they are put back; nothing without these
 * options.  What is evaluated and written in between is the averaged model. */
ot_status ot_trainer_use_averages(ot_trainer *t, ot_error *err);
ot_status ot_trainer_put_back(ot_trainer *t, ot_status so_far, ot_error *err); /* so_far, or its own failure */
int64_t ot_trainer_average_bytes(const ot_trainer *t, const ot_session *x); /* for the replaced weights of x's plans */

/* All plans of a training with that batch size, in x; sets how an epoch is divided. */
ot_status ot_trainer_plan_batch(ot_trainer *t, ot_session *x, int64_t batch, ot_error *err);

/* Bytes that a training with the plans of x needs, with its data and files. */
int64_t ot_trainer_planned_bytes(const ot_trainer *t, const ot_session *x, int64_t batch);

/* Reads --teacher, for commands that compute a training loss. */
ot_status ot_trainer_open_teacher(ot_trainer *t, ot_error *err);

/* batch_size.c: --batch-size auto: chooses the largest power of two, up to the size of the training set, whose plans fit
 * --memory-limit or nine tenths of the available memory.  Errors: OT_E_NOMEM: batch size 1 does not fit. */
ot_status ot_trainer_choose_batch(ot_trainer *t, ot_error *err);

/* Plans beyond --memory-limit recompute values in the backward part, and a note says so.  Errors: OT_E_NOMEM: that is not
 * enough. */
ot_status ot_trainer_keep_limit(ot_trainer *t, ot_error *err);

/* Sets how much memory may keep decoded images from epoch to epoch (--cache), and prints it; nothing if no image is decoded or
 * only one epoch trains. */
void ot_trainer_keep_images(ot_trainer *t);

/* The note about a plan that would need `before` bytes without recomputation; the error. */
void ot_limit_note(ot_findings *f, const ot_plan *p, int64_t before, int64_t limit);
ot_status ot_limit_exceeded(int64_t needed, int64_t limit, ot_error *err);

int64_t ot_trainer_set_bytes(const ot_dataset *d); /* in memory; NULL: 0 */

/* The files that t reads. */
ot_inputs ot_trainer_inputs(const ot_trainer *t);

/* Submits update u of epoch t->epoch and collects completed batches; calls t->done for each completed update.
 * Errors: OT_E_DIVERGED. */
ot_status ot_trainer_update(ot_trainer *t, int64_t u, ot_error *err);

/* Waits for all submitted updates. */
ot_status ot_trainer_settle(ot_trainer *t, ot_error *err);

/* Whether a plateau watches the mean training loss of each epoch: with per=epoch, if nothing is evaluated. */
bool ot_trainer_watches_epochs(const ot_trainer *t);

/* Batches of update u of an epoch: first .. first + n; samples of batch k. */
void ot_trainer_batches(const ot_trainer *t, int64_t u, int64_t *first, int *n);
int64_t ot_trainer_batch_size(const ot_trainer *t, int64_t k);

#endif
