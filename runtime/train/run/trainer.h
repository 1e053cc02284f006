/* trainer.h - a training: its data, plans, counters, log. */
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
    double rate, momentum;
    double loss, norm;     /* what it came to: the mean over its batches; NaN norm: there is none */
    double head[OT_HEADS]; /* the single losses, likewise */
    bool skipped;          /* loss or gradients were no numbers, and --on-nonfinite skip; or it is uncounted */
    bool uncounted;        /* nothing of a target counts in one of its batches: it was not computed */
} ot_update_record;

/* A batch that was given and not taken. */
typedef struct ot_flight {
    ot_update_record update;
    int batch, batches;
} ot_flight;

/* What is measured of one output besides loss and accuracy. */
typedef struct ot_measured {
    ot_meter meter;
    int output, feeder; /* of the graph; its target's, of the set */
    void *answers;      /* a batch of the output */
} ot_measured;

/* A set that the model is evaluated on, and what came out last. */
typedef struct ot_scored {
    ot_dataset *data; /* NULL: there is none */
    ot_feeders fs;
    int slot, rest;        /* of its full batches, of the short one; -1: none */
    const char *split;     /* "val", "test" */
    double loss, accuracy; /* NaN: none */
    double head[OT_HEADS],
        right[OT_HEADS]; /* of the single losses: means, and the shares of right answers; NaN: none */
    bool all;            /* everything is measured; else what --monitor and --metrics say, and of values */
    int n_measured;
    ot_measured measured[OT_HEADS];
    struct ot_detail *detail; /* detail.c: classes and worst samples of the last evaluation; NULL: none */
} ot_scored;

/* Tensors of a caller whose names, types and shapes are these (steps.c). */
typedef struct ot_batch_shape {
    ot_want want; /* TRAIN, PREDICT */
    ot_dataset *d;
    ot_feeders *fs;
    int64_t batch, *index; /* 0, 1 .. batch - 1 */
    ot_tensor *
        own; /* copies of the first batch that was trained, which the proof of a written file computes with; else NULL */
} ot_batch_shape;

typedef struct ot_kept_statistics ot_kept_statistics;

struct ot_trainer {
    const ot_model *m;       /* that trains: `loaded`, or `cut`, or a copy of one of them that was changed (unfold.c) */
    const ot_model *as_read; /* as the caller read it, which a checkpoint is for */
    const ot_model *loaded;  /* that, or with edits to its graph (untie.c): what is written */
    ot_model cut;            /* --output: that model, ending there; file NULL: it is not cut */
    ot_model own;            /* with the training algorithm of the file; file NULL: the options say how it trains */
    int own_inputs;          /* then: inputs of the model itself, those of the algorithm follow */
    ot_graph *own_graph;     /* its graph, where that starts from the file's initialization; else NULL */
    const char *own_line,
        *initialize_line;   /* who says how it trains, and from where, where the file has an algorithm; else NULL */
    ot_imported *taught_by; /* --teacher; NULL: none */
    ot_teacher teacher;     /* the same for plans */
    const ot_options *o;
    ot_callbacks cb;
    ot_arena *a;
    ot_settings s;
    const char *notes;    /* what was done with the data, a line each */
    ot_findings findings; /* about the model and the plans */
    ot_review review;

    ot_dataset *data;
    ot_feeders train;
    ot_scored eval;            /* after each epoch; of `eval`: all that the command evaluates on */
    ot_scored test;            /* at the end, where `eval` is a validation set */
    bool has_val;              /* `eval` is one: it decides which epoch is the best, when to stop, and the plateaus */
    json_t *record, *measured; /* onnxtrain.preprocess of the model, of this training; NULL: none */
    ot_normalize normalize;
    bool same_set;     /* what is evaluated on is what trains */
    int split_classes; /* --val-split, --folds: values of the target, each of which gave the same fraction */
    ot_session x;
    bool dry;           /* what is written gets no name */
    int proof;          /* slot the written file is compared with; -1: none */
    const char *saving; /* path of the file that is being written */

    /* How an epoch is cut.  Shuffled: full batches, then a short one; else all are full. */
    int64_t batch, full, rest; /* samples, batches, samples of the short batch (0: none) */
    int64_t updates, total;    /* of an epoch, of the run */
    int64_t epochs;
    int64_t *index;             /* of a batch */
    ot_permutation order;       /* of an epoch */
    ot_permutation ahead_order; /* of another one, ahead_epoch, whose batches are drawn ahead; none: n is 0 */
    int64_t ahead_epoch;
    int64_t bad_samples; /* that could not be read */

    ot_schedule schedule;
    ot_log log;
    ot_epoch_table table;       /* epochs.csv */
    ot_history *history;        /* what report.html has of the log; NULL: not yet, or none */
    double reported;            /* when report.html was written, by the clock */
    double epoch_began;         /* by the clock */
    int64_t tokens;             /* of a sample of integers in a row; 0: there are none */
    struct ot_profile *profile; /* --profile: until its table is there; NULL: none */
    ot_error lost;              /* what could not be written while the training went on: the first */
    const ot_config_file *configs;
    ot_folder folder; /* of the run; path NULL: none */
    volatile sig_atomic_t cancelled;

    /* Updates: given to the device, and over. */
    ot_flight flight[OT_RUNS]; /* by number of the batch */
    int64_t flights_given, flights_taken;
    ot_update_record now;                                                         /* whose batches are being taken */
    ot_status (*done)(ot_trainer *t, const ot_update_record *now, ot_error *err); /* NULL: nobody asks */

    /* counters */
    int64_t given, step, epoch, samples; /* updates given, and over */
    int64_t overflows;                   /* updates in a row whose gradients were not finite */
    double began, seconds;               /* the first step, by the clock; since then */
    double busy, taken_at;               /* seconds within steps; when the last was over */
    double busy_before;                  /* of those, in the run that this one continues */
    double epoch_loss;                   /* sum over the epoch's updates, but for those that were skipped */
    int64_t epoch_counted;               /* how many that are */
    int64_t skipped;                     /* updates in all that were left out */
    int64_t uncounted;                   /* those of them of whose targets nothing counts */
    double epoch_head[OT_HEADS];         /* of the single losses, likewise */
    double first_loss, last_loss;        /* of the first update, if this process did it, and of the last */
    ot_result result;
    ot_best best;
    const char *ends; /* why the run ends before its last update; NULL: it does not */
    bool by_steps;    /* fed by ot_trainer_step */
    ot_batch_shape *shapes[OT_SLOTS],
        *shape; /* of the caller's tensors, of steps and predictions; that of this step (steps.c) */
    int n_shapes;
    ot_kept_statistics *kept; /* before a step; NULL: not yet */
    bool tiles;               /* predictions see all of an image, in parts that are samples (ot_dataset_tile) */
    bool doubted;             /* said: an output looks like probabilities, and its graph does not show it */
    bool searches;            /* for a learning rate: nothing is evaluated */
    bool predicts;            /* without a loss: a data set needs no targets, a plan has the outputs alone */
    const char *resumed;      /* checkpoint that the run continues from; NULL: it starts */
    double checkpoint_at;     /* when the last checkpoint was written, and after which update */
    int64_t checkpoint_step;
    double histograms_at; /* when the last histograms were written, by the clock */
    int64_t log_bytes[2]; /* resumed: of the run's log, and of --log, at the checkpoint; -1: unknown */
    int64_t planned;      /* bytes */
    int64_t *confusion;   /* classes x classes, [target][answer]; NULL: not counted */
    int64_t classes;
    ot_imported *remade; /* m, or what it is a copy of, with edits to its graph (untie.c); NULL: as it is */
    struct ot_classifier *classifier; /* --classes, --freeze-backbone: last layers before outputs */
    int n_classifiers;
    struct ot_lora *adapter; /* --lora: m is a copy of the model with these; lora.c */
    int n_adapters;
    ot_graph *adapted;            /* its graph; NULL: none */
    bool own_classes;             /* the names of the classes are labels in the graph (labels.c) */
    bool new_classes;             /* some were replaced */
    struct ot_unfolded *unfolded; /* --unfold-bn: m is a copy of the model with these norms; unfold.c */
    int n_unfolded;
    void **copies; /* of file states, for those who ask by name; NULL: not yet */
    void **plain;  /* --ema, --swa: bytes of the states of the file while their averages stand in them; NULL: none do */
    void *answers; /* an evaluation batch's output, where they are counted */
};

/* steps.c: the caller's tensors.  Option "steps" where the caller ends the training. */
#define OT_ENDLESS (INT64_MAX / 2)
void ot_trainer_forget_shapes(ot_trainer *t);

/* evaluation.c: t's weights on the set; with progress.  A cancelled one leaves numbers of a part of it. */
ot_status ot_trainer_score(ot_trainer *t, ot_scored *e, ot_error *err);

/* The progress of `batches` of e since `began`. */
void ot_trainer_report_evaluation(const ot_trainer *t, const ot_scored *e, int64_t batches, double began);

/* measure.c: opens what is measured on a set, feeds a batch that was submitted, closes. */
ot_status ot_measure_open(ot_trainer *t, ot_scored *e, ot_error *err);
ot_status ot_measure_batch(ot_trainer *t, ot_scored *e, int slot, ot_error *err);
void ot_measure_close(ot_scored *e);
/* OT_E_USAGE: evaluations on the set do not have the metric of --monitor, or none that a plateau of mode=max can watch.  The set is
 * planned, if there is one. */
ot_status ot_measure_check(const ot_trainer *t, const ot_scored *e, ot_error *err);
int ot_measure_plateau(const ot_trainer *t); /* the metric that a schedule watches where there are validation samples */

/* Of the output that --monitor names, else of the first one that has it; NaN: none. */
double ot_measure_value(const ot_trainer *t, const ot_scored *e, int metric);

/* Whether feeder i of the set is the target of an output that is measured: which, and what kind of answers it gives. */
bool ot_measure_fits(const ot_trainer *t, const ot_scored *e, int i, int *output, ot_meter *m);

/* The same numbers into an event, by name; with several outputs an object "metrics" of each output's. */
void ot_measure_log(json_t **event, const ot_trainer *t, const ot_scored *e);

/* loop.c: the options that were given, by name; a list where one repeats.  NULL: no memory. */
json_t *ot_options_json(const ot_options *o);

/* Whether there is a run folder to write to.  One that was deleted since the training began is reported once, is none from then
 * on, and makes the run end with OT_E_IO. */
bool ot_trainer_has_folder(ot_trainer *t);

/* One line for the user. */
void ot_trainer_say(const ot_trainer *t, ot_level level, const char *fmt, ...) OT_PRINTF(3, 4);
void ot_trainer_say_lines(const ot_trainer *t, ot_level level, const char *lines);

/* classes.c: names of classes as JSON in a model's metadata, so that they may hold any character: a list, or in a model with
 * several outputs the list of each. */
#define OT_CLASSES_KEY "onnxtrain.classes"
/* Those of the training set; *out NULL: it has no names. */
ot_status ot_classes_text(const ot_trainer *t, ot_arena *a, const char **out, ot_error *err);

/* What a written model says of its classes. */
typedef enum ot_classes_kind {
    OT_CLASSES_KEPT,    /* what the file says */
    OT_CLASSES_NAMED,   /* the names of the data */
    OT_CLASSES_COLUMNS, /* the columns of labels */
    OT_CLASSES_GONE     /* nothing: it was trained on values, which the file's names are not of */
} ot_classes_kind;
/* *out NULL where kind is KEPT or GONE. */
ot_status ot_trainer_classes_text(const ot_trainer *t, ot_arena *a, ot_classes_kind *kind, const char **out,
                                  ot_error *err);

/* recorded_loss.c: the option --loss as a JSON list of texts in a model's metadata. */
#define OT_LOSS_KEY "onnxtrain.loss"
/* Loss k of the options, with numbers in place of auto: it means the same with any data. */
void ot_loss_spell(FILE *f, const ot_trainer *t, int k);
/* The same of all losses of the options, ending with NULL, in the trainer's arena; *out NULL: there are none. */
ot_status ot_losses_list(const ot_trainer *t, const char *const **out, ot_error *err);
/* All of them as JSON, in arena a; *out NULL: none was given, and the model records none, which would be another's. */
ot_status ot_losses_text(const ot_trainer *t, ot_arena *a, const char **out, ot_error *err);
/* Where none is given, those that the model records become those of the options.  Errors: OT_E_NOMEM. */
ot_status ot_losses_take(ot_trainer *t, ot_error *err);
/* evaluated_by.c: names and values of options in turn, ending with NULL, in the trainer's arena: those with which `eval` measures
 * the written model as this training did, without what the model records.  Errors: OT_E_NOMEM. */
ot_status ot_evaluated_by(const ot_trainer *t, const char *const **out, ot_error *err);
/* Of the options, on this output of the model; NULL: none. */
const ot_spec *ot_loss_on(const ot_trainer *t, const char *output);

/* Tells the loaders of the sets what comes next. */
void ot_trainer_look_ahead(ot_trainer *t);

/* How inputs are made of files (ot_dataset.preprocess), in a model's metadata. */
#define OT_PREPROCESS_KEY "onnxtrain.preprocess"

/* The names that the model has for an output (NULL: unknown), in arena a; *n 0: it has none, or something else under that key.
 * Errors: OT_E_NOMEM. */
ot_status ot_classes_of(const ot_model *m, const char *output, ot_arena *a, const char *const **out, int *n,
                        ot_error *err);

/* Sets t->own_classes: the names of the classes are labels that the graph selects from.  Training cannot change them, and
 * they need no record.  Errors: OT_E_NOMEM. */
ot_status ot_trainer_own_classes(ot_trainer *t, ot_error *err);

/* The classes of d get the numbers that the model has for them.  trains: others are a warning, and d keeps its own.
 * Errors: OT_E_DATA: a class that the model does not have. */
ot_status ot_trainer_number_classes(ot_trainer *t, ot_dataset *d, bool trains, ot_error *err);
/* The names of the classes of an output, of which that feeder of e has the target: by the data, else by the model; *n 0: there are
 * none.  Errors: OT_E_NOMEM. */
ot_status ot_trainer_class_names(const ot_trainer *t, const ot_scored *e, int feeder, const char *output,
                                 const char *const **name, int *n, ot_error *err);
/* Which number each string of a table has, and class sizes.  Errors: OT_E_NOMEM. */
ot_status ot_trainer_note_classes(ot_trainer *t, ot_error *err);

/* Of an evaluation the loss and the accuracy, and "losses" and "accuracies": objects of each head's by name, where the plan
 * has several losses. */
void ot_log_scores(json_t **event, const ot_trainer *t, const ot_scored *e);

/* "accuracy 93.20 %", or each head's by name where several have one; "": none has. */
const char *ot_trainer_accuracies(const ot_trainer *t, const ot_scored *e, char buf[600]);

/* What was found, in order of importance: warnings, then notes (with `all`). */
void ot_trainer_say_findings(const ot_trainer *t, bool all);

/* --untie, and --train for what ConstantOfShape fills: t->m becomes the file with its graph edited so.  Adds to the findings.
 * Errors: OT_E_USAGE: a pattern matches nothing.  untie.c */
ot_status ot_trainer_remake(ot_trainer *t, ot_error *err);

/* untie.c: t's model is `now` from here on, which t owns. */
ot_status ot_trainer_take(ot_trainer *t, ot_imported *now, ot_error *err);

/* --classes: the last layer becomes a new one, by the classes of the data, which are opened for that. --freeze-backbone: which
 * layer trains.  Adds to the findings.  Errors: OT_E_MODEL: there is no such layer; OT_E_USAGE, OT_E_DATA.  classifier.c */
ot_status ot_trainer_classifiers(ot_trainer *t, ot_error *err);
/* The output of t's model that a loss without a name acts on: the first, or the only one of floats. */
int ot_trainer_plain_output(const ot_trainer *t);
ot_status ot_trainer_check_classes(const ot_trainer *t, const ot_output *outputs, int n,
                                   ot_error *err); /* OT_E_MODEL: an output has another number of classes */

/* Looks at the model and fills findings and review; eval: what matters to training alone is left out.
 * Errors: OT_E_MODEL: it cannot be trained, with every reason. */
ot_status ot_trainer_review(ot_trainer *t, bool eval, ot_error *err);

/* The failure of a plan, in terms of the model where that says more. */
ot_status ot_trainer_explain(const ot_trainer *t, ot_status s, ot_error *err);

/* What a plan that was made first found joins the findings, and the warnings of the session's others. */
ot_status ot_trainer_join(ot_trainer *t, const ot_plan *p, ot_error *err);

/* A trainer that has read its options and nothing else. */
ot_status ot_trainer_begin(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_trainer **out,
                           ot_error *err);

/* --precision auto becomes one; precision.c. */
ot_status ot_trainer_choose_precision(ot_trainer *t, ot_error *err);

/* Where the batch is not the one that the file has baked in: two of the file's batches together against each apart, in
 * inference mode.  What came out joins the findings; if they differ, s.apart is set.  together.c */
void ot_trainer_try_together(ot_trainer *t, const ot_feeders *fs);

/* sets.c: the sets of a training; the training set alone, once; the set to evaluate on (and the training set where
 * --normalize is measured on it); the set of `eval` on a run, chosen of those that its training opened: --test, else the
 * validation samples, else the data's own test part, else all of the data. */
ot_status ot_trainer_open(ot_trainer *t, ot_error *err);
ot_status ot_trainer_open_training(ot_trainer *t, ot_error *err);
ot_status ot_trainer_open_evaluation_set(ot_trainer *t, ot_error *err);
ot_status ot_trainer_open_run_set(ot_trainer *t, ot_error *err);

/* How data are matched to the model, as options and metadata say. */
ot_adapt_env ot_trainer_adapt_env(ot_trainer *t);

ot_status ot_trainer_plan(ot_trainer *t, ot_error *err);    /* adapts and plans for the open sets */
ot_status ot_trainer_prepare(ot_trainer *t, ot_error *err); /* plans and allocates */

/* --deploy, before anything is computed: its file can be written, its parts can be read.  Errors: OT_E_USAGE, OT_E_IO. */
ot_status ot_trainer_check_deploy(ot_trainer *t, ot_error *err);

/* For `eval`: opens the set to evaluate on, adapts, plans and allocates for it alone. */
ot_status ot_trainer_open_evaluation(ot_trainer *t, ot_error *err);

/* For `predict`: the same without targets; t->eval has the set and its plans. */
ot_status ot_trainer_open_prediction(ot_trainer *t, ot_error *err);

/* For `eval` of a run: opens data and plans as its training did, and the set to evaluate on as t->eval; the weights are
 * those of the model until a checkpoint's are read. */
ot_status ot_trainer_open_run(ot_trainer *t, ot_error *err);

/* For `grad`: opens the data, adapts, plans and allocates one slot. */
ot_status ot_trainer_open_gradient(ot_trainer *t, int *slot, ot_error *err);

/* The trained tensors in a copy of the model's file.  folder: an open one that `path` is seen from, or NULL.  proof: it
 * must answer a batch as t does.  *data (may be NULL): the names of its data files, a line; NULL: it has none. */
ot_status ot_trainer_save(ot_trainer *t, const int *folder, const char *path, bool proof, const char **data,
                          ot_error *err);

/* The row-major bytes of a state between two updates: where they lie, or a copy in the arena.  Errors: OT_E_NOMEM, OT_E_DEVICE. */
ot_status ot_trainer_bytes(const ot_trainer *t, ot_arena *a, const ot_value *v, void **out, ot_error *err);

/* How data are read, as far as the options alone say. */
ot_data_options ot_sets_options(const ot_settings *s);

/* Where the trained model goes if nobody says otherwise; NULL: no memory. */
const char *ot_trainer_out(ot_trainer *t);

/* --swa: the updates that are averaged, as soon as the epochs are cut.  Errors: OT_E_USAGE: there are none. */
ot_status ot_trainer_place_averages(ot_trainer *t, ot_error *err);

/* --ema, --swa: the averages stand in weights and statistics, until they are put back; nothing without these options.  What is
 * evaluated and written in between is the averaged model.  averages.c */
ot_status ot_trainer_use_averages(ot_trainer *t, ot_error *err);
ot_status ot_trainer_put_back(ot_trainer *t, ot_status so_far, ot_error *err); /* so_far, or its own failure */
int64_t ot_trainer_average_bytes(const ot_trainer *t,
                                 const ot_session *x); /* that are set aside in between, of x's plans */

/* All plans of a training in batches of that size, in x; how an epoch is cut follows. */
ot_status ot_trainer_plan_batch(ot_trainer *t, ot_session *x, int64_t batch, ot_error *err);

/* Bytes that a training with the plans of x plans for, its data and files too. */
int64_t ot_trainer_planned_bytes(const ot_trainer *t, const ot_session *x, int64_t batch);

/* --teacher is read, for commands that compute a training loss. */
ot_status ot_trainer_open_teacher(ot_trainer *t, ot_error *err);

/* --batch-size auto becomes a number: the largest power of two, up to the size of the training set, whose plans fit --memory-limit
 * or nine tenths of the memory that is available.  Errors: OT_E_NOMEM: not even 1 does.  batch_size.c */
ot_status ot_trainer_choose_batch(ot_trainer *t, ot_error *err);

/* Plans beyond --memory-limit compute values again in the backward part, which is a note.  Errors: OT_E_NOMEM: that is not
 * enough. */
ot_status ot_trainer_keep_limit(ot_trainer *t, ot_error *err);

/* Sets how much memory may keep decoded images from epoch to epoch (--cache), and says so; nothing where no image is decoded, or
 * one epoch trains. */
void ot_trainer_keep_images(ot_trainer *t);

/* The note, of a plan that needed `before` bytes without; the error. */
void ot_limit_note(ot_findings *f, const ot_plan *p, int64_t before, int64_t limit);
ot_status ot_limit_exceeded(int64_t needed, int64_t limit, ot_error *err);

int64_t ot_trainer_set_bytes(const ot_dataset *d); /* in memory; NULL: 0 */

/* What t has open for reading. */
ot_inputs ot_trainer_inputs(const ot_trainer *t);

/* Gives one update, the u-th of epoch t->epoch, and takes what has come to an end; each ends in t->done.
 * Errors: OT_E_DIVERGED. */
ot_status ot_trainer_update(ot_trainer *t, int64_t u, ot_error *err);

/* Waits for all that were given. */
ot_status ot_trainer_settle(ot_trainer *t, ot_error *err);

/* Whether a plateau watches the mean training loss of each epoch: with per=epoch, where nothing is evaluated. */
bool ot_trainer_watches_epochs(const ot_trainer *t);

/* Batches of update u of an epoch: first .. first + n; samples of batch k. */
void ot_trainer_batches(const ot_trainer *t, int64_t u, int64_t *first, int *n);
int64_t ot_trainer_batch_size(const ot_trainer *t, int64_t k);

#endif
