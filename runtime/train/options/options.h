/* options.h - the option table, and what a set of options comes to. */
#ifndef OT_OPTIONS_H
#define OT_OPTIONS_H

#include "runtime/base/io.h"
#include "runtime/base/registry.h"
#include "runtime/passes/passes.h"

/* How often something happens; 0: never by this measure. */
typedef struct ot_interval {
    double seconds;
    int64_t steps, epochs;
} ot_interval;

typedef enum ot_device_wish { OT_DEVICE_AUTO, OT_DEVICE_CPU, OT_DEVICE_CUDA } ot_device_wish;

/* --classes: a new last layer before an output. */
typedef struct ot_classes_wish {
    const char *output; /* NULL: the one that has the target */
    int64_t n;          /* 0: as many as the data have */
} ot_classes_wish;

/* Options as the parts of a command read them.  Texts belong to the options or to the arena. */
/* --plots: the charts of the report as files. */
typedef struct ot_plots {
    bool svg;
    double png; /* pixels per pixel of the page; 0: no PNG */
} ot_plots;

/* Errors: OT_E_USAGE (a form that is unknown, or that this build cannot write), OT_E_NOMEM. */
ot_status ot_plots_read(const ot_options *o, ot_plots *out, ot_error *err);

extern const ot_registry ot_plot_forms;

/* --normalize-target */
typedef enum ot_target_scale_choice { OT_TARGET_AUTO, OT_TARGET_STANDARD, OT_TARGET_AS_IS } ot_target_scale_choice;

/* The batch size if neither the options nor the file say one. */
enum { OT_DEFAULT_BATCH = 32 };

typedef struct ot_settings {
    /* Values of options of the same or a similar name; NULL: not given. */
    const char *data, *val, *test, *normalize, *target, *columns, *categories, *passed, *out, *run_dir, *log;
    const char *tensorboard;
    const char *description;      /* file that describes a device which this machine does not have; NULL: not given */
    const char *text, *tokenizer; /* --text, --tokenizer; NULL: not given */
    ot_target_scale_choice target_scale;
    int64_t image_height, image_width; /* of images in files; 0: not given */
    const char *split_column;          /* of a table, which names the part of each row; NULL: none does */
    const char *group;                 /* of a table, which names the time series of each row; NULL: not given */
    int64_t length, stride, ahead;     /* of windows over tokens or rows; length, stride 0: not given */
    bool has_ahead;                    /* ahead is given */
    double swa;                        /* first epoch that is averaged, or the fraction of the run before it; 0: none */
    bool swa_updates;                  /* averages updates, not epochs */
    const char *teacher;               /* file of --teacher; NULL: none */
    ot_spec learns;                    /* how the model learns from it */
    int n_outputs;
    const char *const *outputs; /* --output; 0: the model's */
    ot_plan_options options;
    ot_spec schedule;
    int n_augment;
    const ot_spec *augment;  /* --augment, in order */
    int64_t batch;           /* 0: not given */
    bool batch_auto;         /* --batch-size auto; the trainer finds it */
    int64_t memory_limit;    /* bytes; 0: none */
    int64_t epochs;          /* 0: not given */
    int64_t steps;           /* 0: not given */
    int64_t overfit;         /* batches; 0: all */
    int accumulate, threads; /* threads 0: all */
    int workers;             /* threads that load images; -1: not given */
    bool cache;              /* decoded images are kept */
    int64_t skip_bad;        /* images that may be unreadable */
    uint64_t seed;
    bool shuffle, drop_last;
    bool auto_precision;        /* --precision auto: options.precision is chosen by ot_trainer_choose_precision */
    double val_split;           /* 0: none */
    int fold, folds;            /* --folds fold/folds; fold 0: all of them; folds 0: none */
    int monitor;                /* OT_METRIC_; -1: not given */
    const char *monitor_output; /* --monitor names this output; NULL: none */
    const char *monitor_name;   /* the value of --monitor; NULL: not given */
    const char *watched;        /* "val " and that value; NULL: not given */
    int64_t patience;           /* epochs; 0: the run does not stop early */
    double min_delta;           /* smallest change that is an improvement */
    double time_limit;          /* seconds; 0: none */
    bool all_metrics;           /* --metrics all */
    bool select_best;           /* -o gets the best weights, not the last */
    ot_interval checkpoint;
    ot_interval histograms; /* --tensorboard-histograms */
    int keep;               /* checkpoints */
    int64_t profile;        /* updates; 0: none */
    ot_plots plots;
    ot_device_wish device;
    int device_index; /* of CUDA's devices */
    bool unfold_bn, untie_auto, training_info, freeze_backbone;
    ot_spec lora; /* name NULL: none */
    int n_classes;
    const ot_classes_wish *classes;
    int n_permute; /* --permute, as given */
    const char *const *permute;
    int n_untie;
    const char *const *untie;
    bool json, why, graph, verbose, quiet, tune;
} ot_settings;

/* Resolves o.  outputs: names of the model's outputs, NULL-ended, for losses that name one; may be
 * NULL.  Errors: OT_E_USAGE, OT_E_DEVICE, OT_E_NOMEM. */
ot_status ot_settings_read(const ot_options *o, const char *const *outputs, ot_arena *a, ot_settings *out,
                           ot_error *err);

const char *ot_precision_name(ot_precision p); /* as --precision has it */

int ot_options_count(const ot_options *o, const char *name); /* times given */
/* All values of an option, a line each; NULL: it is not given, or there is no memory (then count is above 0). */
const char *ot_options_joined(const ot_options *o, const char *name, ot_arena *a);

void ot_options_unset(ot_options *o, const char *name);        /* as if it had never been given */
int64_t ot_options_int(const ot_options *o, const char *name); /* value or default; checked by set */
double ot_options_num(const ot_options *o, const char *name);
bool ot_options_flag(const ot_options *o, const char *name);

/* What the value of an option must be, in words, in the arena; "" without memory. */
const char *ot_option_wants(const ot_option_info *o, ot_arena *a);

/* The help of an option without what holds if it is not given: "passes over the training set (10)" without "(10)". */
const char *ot_option_plain(const ot_option_info *o);

/* topics.c: the registries that the help has as topics, in its order; by name, which an option or a command may share.
 * NULL: none. */
const ot_registry *ot_topic_at(int i);
const ot_registry *ot_topic_find(const char *name);

extern const ot_registry ot_commands; /* commands.c: the rows of OT_COMMAND_LIST */

/* help.c: an option as the help has it, with the names that its value may be; examples of command lines. */
void ot_option_print(const ot_option_info *o, bool defaults, FILE *f); /* defaults: with what holds without it */
extern const char ot_help_examples[];

/* A config file that options were read from. */
typedef struct ot_config_file {
    const struct ot_config_file *next;
    ot_file_id id;
    const char *path;
} ot_config_file;

/* Those of o, copied; NULL: none. */
const ot_config_file *ot_options_configs(const ot_options *o, ot_arena *a);

/* Every option that was given, as lines of a config file; caller frees with free(). */
char *ot_options_lines(const ot_options *o);

#endif
