/* onnxtrain.h - train an ONNX model and write it back.
 *
 * This is the whole public interface; what is not declared here may change.
 *
 *     ot_error    err = {0};
 *     ot_model   *m   = NULL;
 *     ot_options *o   = ot_options_new();
 *     ot_trainer *t   = NULL;
 *
 *     if (ot_options_set(o, "data", "mnist", &err) || ot_options_set(o, "lr", "0.01", &err) ||
 *         ot_model_load("lenet.onnx", &m, &err) || ot_trainer_new(m, o, NULL, &t, &err) ||
 *         ot_trainer_run(t, &err) || ot_trainer_export(t, "lenet-trained.onnx", &err))
 *         puts(err.text);
 *
 * Rules for every function
 *   Errors     return ot_status, 0 on success.  *err (if given) is of the last call: empty after a success, else the
 *              returned status and the first cause.  Nothing here exits, prints, or touches global state.
 *   NULL       where an object, a name, data or a place for results is needed: OT_E_USAGE, or "no"
 *              from a function without a status; nothing is read or written through it.  err, a
 *              callback, and arguments documented as optional may be NULL.
 *   Ownership  ot_X_free frees what ot_X_new or ot_X_load returned; NULL is allowed.
 *              "Borrowed" pointers stay the caller's and are not kept after return, unless the function says until when.
 *   Threads    one object, one thread at a time.  Several objects that were made one after the other may use one model in
 *              different threads.  OpenMP distributes the work over as many threads as the option
 *              "threads" says, independent of the caller's own settings; by default as many as there are processors, or
 *              as the CPU quota allows.  How long waiting threads spin is a setting of the process: GOMP_SPINCOUNT=1000
 *              in its environment, set before it starts, keeps a busy machine usable and costs little on an idle one.
 *   Memory     failed allocations of the library return OT_E_NOMEM.  oneDNN and OpenMP abort the process if theirs
 *              fail, so before each call the library checks that enough memory can be allocated (RLIMIT_AS,
 *              RLIMIT_DATA, strict overcommit: 16 MiB for a primitive; for a run 16 MiB, 4 for each thread, stacks),
 *              else returns OT_E_NOMEM; and planned memory is compared with what the machine and its control groups
 *              (v1, v2) have left.  Two risks remain: other threads of the process may allocate between check and use,
 *              and the kernel may kill a process when promised memory is not available.  With RLIMIT_AS, glibc's 64 MiB
 *              of address space for each allocating thread count: MALLOC_ARENA_MAX=1 in the environment avoids them;
 *              the program sets it. */
#ifndef ONNXTRAIN_H
#define ONNXTRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OT_API   __attribute__((visibility("default")))
#define OT_CHECK __attribute__((warn_unused_result))
#else
#define OT_API
#define OT_CHECK
#endif

#define OT_VERSION "0.1.0"

/* Version of the library that is loaded, "0.1.0"; OT_VERSION is that of the header.  Static string. */
OT_API const char *ot_version(void);

/* ---- status -------------------------------------------------------------- */

/* The numbers are the exit codes of the program. */
#define OT_STATUS_LIST(X)                                          \
    X(OK,            0, "no error")                                \
    X(E_INTERNAL,    1, "internal error")                          \
    X(E_USAGE,       2, "invalid argument or option")              \
    X(E_MODEL,       3, "model is invalid or cannot be trained")   \
    X(E_DATA,        4, "data does not fit")                       \
    X(E_NOMEM,       5, "out of memory")                           \
    X(E_DIVERGED,    6, "training diverged")                       \
    X(E_IO,          7, "file could not be read or written")       \
    X(E_DISTRIBUTED, 8, "distributed run failed")                  \
    X(E_DEVICE,      9, "device is missing or failed")

typedef enum ot_status {
#define X(code, number, text) OT_##code = number,
    OT_STATUS_LIST(X)
#undef X
} ot_status;

#define OT_ERROR_TEXT 4096

/* Belongs to the caller.  Every function that takes one sets it. */
typedef struct ot_error {
    ot_status status;
    char text[OT_ERROR_TEXT]; /* "node 'conv1': Conv: x has 3 channels; w with group 1 needs 2" */
} ot_error;

OT_API const char *ot_status_text(ot_status s); /* static string */

/* Makes a name printable: control characters and bytes that are not UTF-8 become escapes ("\\n", "\\x1b").  Texts of
 * errors, messages and commands are printable already; names of tensors and paths are as in the files. Returns buf,
 * truncated to n bytes; text may be NULL. */
OT_API const char *ot_shown(const char *text, char *buf, size_t n);

/* ---- tensors ------------------------------------------------------------- */

#define OT_MAX_RANK 8

/* Element types.  The numbers are those of ONNX's TensorProto.DataType. */
typedef enum ot_dtype {
    OT_UNDEFINED = 0,
    OT_F32 = 1,
    OT_U8 = 2,
    OT_I8 = 3,
    OT_U16 = 4,
    OT_I16 = 5,
    OT_I32 = 6,
    OT_I64 = 7,
    OT_STRING = 8,
    OT_BOOL = 9,
    OT_F16 = 10,
    OT_F64 = 11,
    OT_U32 = 12,
    OT_U64 = 13,
    OT_BF16 = 16,
    OT_F8E4M3FN = 17,
    OT_F8E4M3FNUZ = 18,
    OT_F8E5M2 = 19,
    OT_F8E5M2FNUZ = 20,
    OT_U4 = 21,
    OT_I4 = 22,
    OT_F4E2M1 = 23,
    OT_F8E8M0 = 24,
    OT_U2 = 25,
    OT_I2 = 26
} ot_dtype;

/* A named view of memory: row-major, dense, on the host.  Ownership is documented by each function. */
typedef struct ot_tensor {
    const char *name; /* of a graph input, output or initializer */
    ot_dtype dtype;
    int rank;
    int64_t dim[OT_MAX_RANK];
    void *data;
} ot_tensor;

/* A list of tensors that owns their memory. */
typedef struct ot_tensors {
    int n;
    ot_tensor *t;
    void *owner;
} ot_tensors;
OT_API void ot_tensors_free(ot_tensors *ts); /* leaves it empty */

/* ---- models ---------------------------------------------------------------- */

typedef struct ot_model ot_model;

/* Reads and checks an ONNX file.  All findings are in err->text at once.
 * Errors: OT_E_MODEL, OT_E_IO, OT_E_NOMEM. */
OT_API OT_CHECK ot_status ot_model_load(const char *path, ot_model **out, ot_error *err);
OT_API void ot_model_free(ot_model *m);

/* Inputs and outputs of the graph: name, dtype, shape (-1: unknown or symbolic), data NULL; for an input that is a
 * sequence or optional, those of its elements.  Borrowed from the model; false: there is no i-th. */
OT_API bool ot_model_input(const ot_model *m, int i, ot_tensor *out);
OT_API bool ot_model_output(const ot_model *m, int i, ot_tensor *out);

/* Initializers (and tensors of Constant nodes) as in the file, data included, borrowed.  Their names are unique: the
 * plain name if it is unique in the file, else, inside a subgraph, "node/branch/name"; if that exists too, the later
 * one is numbered, "name#2".  The names of the main graph are unchanged. */
OT_API bool ot_model_initializer(const ot_model *m, int i, ot_tensor *out);

/* ---- options --------------------------------------------------------------- */

/* Options are strings with the names of the command line, without the dashes: ("batch-size", "64"). */
typedef struct ot_options ot_options;

/* The commands of the program: the bit for ot_option_info.commands, the name, the largest number of words besides
 * options (with these, the form shown by the help), the meaning of the first word (NULL: none is needed), one line. */
#define OT_COMMAND_LIST(X)                                                                                             \
    X(TRAIN, 1, train, 1, "MODEL --data DATA [-o FILE]", "a model file, such as lenet.onnx",                           \
      "train; the default command; DATA: mnist, cifar10 ... or a file")                                                \
    X(RESUME, 8192, resume, 2, "DIR [MODEL] [--epochs N]", "the folder of a run, such as runs/lenet-1",                          \
      "continue a run from its last checkpoint, or train it longer")                                                   \
    X(EVAL, 2, eval, 1, "MODEL|RUN --data DATA", "a model, or the folder of a run",                                    \
      "loss, accuracy, confusion matrix; of a run with its own data and options")                                      \
    X(PREDICT, 2097152, predict, 16, "MODEL DATA [-o FILE]", "a model",                                               \
      "classes and probabilities, or values, for each sample: CSV, JSON, NPZ")                                          \
    X(FIND_LR, 131072, find_lr, 1, "MODEL --data DATA", "a model", "try rising learning rates and suggest one")         \
    X(SWEEP, 1048576, sweep, 16, "MODEL --data DATA --grid NAME=A,B ...", "a model",                                   \
      "train with each combination of options, one after another, and compare them")                                   \
    X(RUN, 4, run, 1, "MODEL --data FILE -o FILE", "a model", "run the model as the file has it; outputs by name")     \
    X(GRAD, 8, grad, 1, "MODEL --data FILE -o FILE", "a model", "gradient of the loss for each trained initializer")   \
    X(EXPORT, 1024, export, 1, "MODEL -o FILE", "a model", "write the model for inference, without training parts")    \
    X(CHECK, 16, check, 1, "MODEL [--data DATA]", "a model", "whether and how the model can be trained")               \
    X(INSPECT, 32, inspect, 1, "MODEL", "a model", "which initializers train, and why; --graph: all nodes")            \
    X(PLAN, 64, plan, 1, "MODEL [--data DATA]", "a model", "kernels and memory of a training step")                    \
    X(BENCH, 524288, bench, 1, "MODEL [--data DATA]", "a model", "time of training steps and predictions")             \
    X(NEW, 256, new, 1, "KIND -o FILE", "the kind of model, such as lenet", "a network with fresh weights")            \
    X(DATA, 4194304, data, 16, "DATA [--val DATA] [--preview FILE.png] | fetch NAME", "a data set, such as mnist, or a file",        \
      "arrays, classes and repeated samples of a data set; its images before and after --augment; fetch: download a named set")                     \
    X(OPS, 128, ops, 0, "", NULL, "supported operators")                                                               \
    X(ENV, 512, env, 0, "", NULL, "libraries and machine")                                                             \
    X(REPORT, 16384, report, 1, "RUN [--plots]", "the folder of a run, such as runs/lenet-1",                                                \
      "write RUN/report.html: summary, curves, evaluations, options")                                                    \
    X(COMPARE, 32768, compare, 16, "RUN RUN ...", "the folders of runs, such as runs/lenet-1 runs/lenet-2",            \
      "runs side by side: best, last, time, options that differ")                                                        \
    X(HELP, 2048, help, 2, "[TOPIC [NAME]]", NULL, "names, keys and defaults, by topic; --man: the manual page")       \
    X(COMPLETION, 4096, completion, 1, "bash|zsh|fish", "the shell: bash, zsh or fish",                                \
      "print a script that completes commands, options and their values")

enum { /* the commands that an option applies to */
#define X(code, bit, name, words, arguments, needs, meaning) OT_CMD_##code = (bit),
       OT_COMMAND_LIST(X)
#undef X
};

typedef struct ot_command_info {
    const char *name; /* "eval" */
    unsigned bit;     /* OT_CMD_EVAL */
    int words;        /* besides options, at most */
    const char *arguments;
    const char *needs; /* meaning of the first word; NULL: none is needed */
    const char *meaning;
} ot_command_info;

OT_API const ot_command_info *ot_command_at(int i);              /* in the order of the help; NULL: end */
OT_API const ot_command_info *ot_command_find(const char *name); /* NULL: no such command */

/* One row of the option table, from which help, config keys and completion are generated. */
typedef struct ot_option_info {
    const char *name;     /* "batch-size" */
    char letter;          /* 'o' for -o; 0: none */
    const char *argument; /* "N", "FILE", "sgd|adam|adamw"; NULL: a flag */
    const char *value;    /* the default as a string; NULL: none */
    const char *group;    /* "Data" */
    const char *help;     /* one line */
    unsigned commands;    /* OT_CMD_* */
    bool repeats;         /* may be repeated */
    bool basic;           /* listed in the short help */
    bool optional;        /* the argument, "[=DIR]", may be missing: the value is then "true" */
} ot_option_info;

OT_API const ot_option_info *ot_option_at(int i);              /* NULL: end */
OT_API const ot_option_info *ot_option_find(const char *name); /* NULL: unknown */
OT_API const char *ot_option_nearest(const char *name);        /* within two edits; NULL: none */

OT_API ot_options *ot_options_new(void); /* NULL: no memory */
OT_API void ot_options_free(ot_options *o);

/* Sets one option; of options that do not repeat, the last value is used.  Flags are "true" or "false". "config"
 * reads a file of `key = value` lines; options set directly override it. Errors: OT_E_USAGE (unknown name, malformed
 * or impossible value), OT_E_IO (config). */
OT_API OT_CHECK ot_status ot_options_set(ot_options *o, const char *name, const char *value, ot_error *err);
/* The value as given, else the default that ot_option_info has.  NULL: neither; "epochs" and "batch-size" are such, whose
 * defaults follow from other options and the command. */
OT_API const char *ot_options_get(const ot_options *o, const char *name);

OT_API const char *ot_options_nth(const ot_options *o, const char *name,
                                  int i); /* the i-th value as given; NULL: fewer values */

/* Refuses options that do not apply to a command (one OT_CMD_).  Errors: OT_E_USAGE. */
OT_API OT_CHECK ot_status ot_options_check(const ot_options *o, unsigned command, ot_error *err);

typedef struct ot_trainer ot_trainer;

/* ---- callbacks --------------------------------------------------------------- */

typedef enum ot_level { OT_INFO, OT_WARNING, OT_DETAIL } ot_level;

typedef struct ot_progress {
    int64_t step, steps;        /* updates done and to do in total */
    int64_t epoch, epochs;      /* from 1 */
    int64_t in_epoch, of_epoch; /* updates of this epoch */
    double loss;                /* mean since the beginning of the epoch */
    const char *losses;         /* of several heads, at the end of an epoch: "cls 1.2, reg 0.9"; else NULL; borrowed */
    double accuracy;            /* of the training batches so far; NaN: none */
    double rate;                /* samples per second */
    int64_t tokens;             /* of a sample of a sequence model; 0: it is none */
    double seconds, left;       /* since the first step; remaining, NaN: unknown */
    bool epoch_ends;
    bool evaluating;  /* a step of the evaluation, not of the training */
    const char *file; /* of a download: the file, of which step and steps are bytes; else NULL; borrowed */
} ot_progress;

/* The end of an epoch, after its evaluation. */
typedef struct ot_epoch {
    int64_t epoch, epochs, step; /* from 1; updates done */
    double lr, train_loss;       /* of the last update; mean over the epoch; NaN: unknown */
    const char *split;           /* what loss and accuracy are of: "val", "test"; NULL: no evaluation; borrowed */
    double loss, accuracy;       /* NaN: none */
    double seconds;              /* of this epoch with its evaluation */
    bool best;                   /* of those so far */
    const char *metric;          /* the option "monitor", if it is neither loss nor accuracy; else NULL; borrowed */
    double value;                /* of this metric; NaN: none */
} ot_epoch;

/* Any may be NULL.  They are called by ot_trainer_run (message by every function that takes them) in the thread of the call,
 * between two updates; what they are given is valid until they return.  Within one, ot_trainer_cancel, _evaluate, _predict, _export,
 * _result and the functions for weights may be called for the trainer. */
typedef struct ot_callbacks {
    void *user;
    void (*message)(void *user, ot_level level, const char *text); /* one line without a newline */
    void (*progress)(void *user, const ot_progress *p);            /* after every update */
    void (*log)(void *user, const char *line, size_t n);           /* a JSON object and a newline */
    void (*epoch)(void *user, const ot_epoch *e);                  /* replaces the message about its evaluation */
    void (*trains)(void *user, ot_trainer *t); /* of a series: t trains now, and can be cancelled; NULL: none */
} ot_callbacks;

/* ---- training ---------------------------------------------------------------- */

typedef struct ot_result {
    const char *
        reason; /* "not started", "running"; "finished", "early stop", "time limit", "cancelled"; "failed", "diverged"; borrowed */
    int64_t steps, epochs;
    const char *split; /* what loss and accuracy are of: "val", "test" at the last evaluation; "train": without one */
    double loss; /* mean over the set, or over the updates of the last epoch; of the last ot_trainer_step; NaN: none */
    double accuracy; /* of the last evaluation; NaN: none */
    double best;     /* of the best epoch; NaN: none */
    int64_t best_epoch;
    double seconds, samples_per_second;
    int64_t planned_bytes, peak_bytes;
    const char *model_path;  /* the last file that ot_trainer_export wrote; NULL: none; borrowed */
    const char *run_dir;     /* NULL: none; borrowed */
    const char *best_path;   /* the best model; NULL: none; borrowed */
    const char *best_metric; /* what best is: "val accuracy", "val loss", "training loss"; NULL: no best; borrowed */
    const char *const *evaluation; /* options with which ot_eval_text measures the written model as the training did:
                                    * name and value in turn, ends with NULL.  After ot_trainer_export; else NULL; borrowed */
    const char *model_data;        /* names of the data files of model_path, beside it; NULL: none; borrowed */
    int64_t evaluated;             /* updates after which loss and accuracy of `split` were measured */
    int64_t checkpoint;            /* updates in the newest checkpoint of run_dir; 0: it has none */
    const char *metric;            /* as ot_epoch.metric; borrowed */
    double value;                  /* of this metric, with loss and accuracy; NaN: none */
} ot_result;

/* Opens the data, checks it against the model, plans every batch size and allocates all memory of the training.
 * Without the option "data" the trainer is for ot_trainer_step only and plans for the first batch.
 *   m, o  borrowed until ot_trainer_free; cb is copied.
 * Errors: OT_E_USAGE, OT_E_MODEL (names nodes), OT_E_DATA, OT_E_NOMEM, OT_E_DEVICE. */
OT_API OT_CHECK ot_status ot_trainer_new(const ot_model *m, const ot_options *o, const ot_callbacks *cb,
                                         ot_trainer **out, ot_error *err);
OT_API void ot_trainer_free(ot_trainer *t);

/* The whole training; writes log and run folder (option "run-dir": runs/<model>-<n> in the current folder; "none").
 * Returns OT_OK when cancelled, too.  If log or best model cannot be written the training continues to its end and then
 * returns the error: ot_result.reason is "finished", and the weights can be exported. Errors: OT_E_DIVERGED (names the
 * step), OT_E_IO, OT_E_USAGE (a file of the run is also an input; another run writes to the folder). */
OT_API OT_CHECK ot_status ot_trainer_run(ot_trainer *t, ot_error *err);

/* The newest usable checkpoint of a run, which ot_trainer_run wrote into its run folder; the folder is locked until it is
 * freed, or by the trainer that continues the run.  Where a newer checkpoint is damaged, cb's message says so.
 *
 *     ot_checkpoint_open("runs/lenet-1", NULL, &c, &err), ot_checkpoint_options(c, o, &err),
 *     ot_model_load(ot_checkpoint_model(c), &m, &err), ot_trainer_new(m, o, NULL, &t, &err),
 *     ot_trainer_resume(t, c, &err), ot_checkpoint_free(c), ot_trainer_run(t, &err) ...
 *
 * Errors: OT_E_USAGE (no run folder, or a run is using it), OT_E_IO (no usable checkpoint), OT_E_NOMEM. */
typedef struct ot_checkpoint ot_checkpoint;
OT_API OT_CHECK ot_status ot_checkpoint_open(const char *run_dir, const ot_callbacks *cb, ot_checkpoint **out,
                                             ot_error *err);
OT_API void ot_checkpoint_free(ot_checkpoint *c);
OT_API const char *ot_checkpoint_model(ot_checkpoint *c); /* path of the model; borrowed; NULL: no memory */

/* Whether m is the model of the run.  Errors: OT_E_MODEL. */
OT_API OT_CHECK ot_status ot_checkpoint_check(const ot_checkpoint *c, const ot_model *m, ot_error *err);

/* Sets the options of the run in o, its "run-dir" and "o" too; those that o has already stay.  Errors: OT_E_USAGE. */
OT_API OT_CHECK ot_status ot_checkpoint_options(const ot_checkpoint *c, ot_options *o, ot_error *err);

/* t, made with the model and options of the run, continues it: ot_trainer_run starts after the update of the checkpoint and
 * leaves the bytes that a run without a stop leaves.  c can be freed then.  A failure leaves t to be freed.
 * Errors: OT_E_MODEL, OT_E_DATA (model or data have changed), OT_E_IO (the checkpoint is of another training). */
OT_API OT_CHECK ot_status ot_trainer_resume(ot_trainer *t, ot_checkpoint *c, ot_error *err);

/* For signal handlers and other threads: the run ends after the current step; on the CPU it drops that step instead
 * if the step has not changed anything yet.  No step is applied in part. */
OT_API void ot_trainer_cancel(ot_trainer *t);

/* One update with the caller's tensors, for a trainer without the option "data": every graph input by name, targets as "target" or
 * "target_<output>"; all with the sample axis first.  batch is read during the call alone; loss may be NULL.  The first batch
 * decides what is trained; later ones may have other shapes (a shorter batch, longer sequences), each of which is planned once, 31
 * at most.  Options about epochs, evaluation, files and the run folder have no effect.  After OT_E_DATA, and on the CPU after
 * OT_E_DIVERGED because of the loss, nothing has changed; after OT_E_DIVERGED because of the gradient norm the weights may be lost.
 * Errors: OT_E_DATA, OT_E_DIVERGED, OT_E_USAGE (too many shapes). */
OT_API OT_CHECK ot_status ot_trainer_step(ot_trainer *t, const ot_tensor *batch, int n, double *loss, ot_error *err);

/* The outputs of the model in evaluation mode with the weights as they are now (with "ema" or "swa": their averages), for the
 * inputs as ot_trainer_step or the data set would give them.  Each shape is planned once.  out: the caller's, ot_tensors_free.
 * Errors: OT_E_DATA, OT_E_USAGE (before the first step; while a device computes), OT_E_NOMEM. */
OT_API OT_CHECK ot_status ot_trainer_predict(ot_trainer *t, const ot_tensor *in, int n, ot_tensors *out, ot_error *err);

/* Loss and accuracy (either may be NULL) of the evaluation set; NaN if there is none.  Errors: OT_E_DATA: no set. */
OT_API OT_CHECK ot_status ot_trainer_evaluate(ot_trainer *t, double *loss, double *accuracy, ot_error *err);

/* Trained weights and running statistics by name (as returned by ot_model_initializer) and in ONNX layout; before the first
 * step of a trainer without data there are none.  get: a view of the trainer's memory, valid until the next call; false, and *out
 * empty: no such tensor.  set: dtype and shape must agree.
 * Weights that the file stores as integers are float32 here. Errors: OT_E_USAGE. */
OT_API int ot_trainer_weight_count(const ot_trainer *t);
OT_API bool ot_trainer_weight_at(ot_trainer *t, int i, ot_tensor *out);
OT_API bool ot_trainer_weight_get(ot_trainer *t, const char *name, ot_tensor *out);
OT_API OT_CHECK ot_status ot_trainer_weight_set(ot_trainer *t, const ot_tensor *w, ot_error *err);

/* Writes the model's file with the trained payloads beside `path` and renames it over `path`.
 *  path  NULL: the option "o", else <model>-trained.onnx in the current folder.  Input files are never overwritten,
 *        nor existing files that are not ONNX.
 * Errors: OT_E_DIVERGED (non-finite weights), OT_E_IO, OT_E_USAGE. */
OT_API OT_CHECK ot_status ot_trainer_export(ot_trainer *t, const char *path, ot_error *err);

/* Whether ot_trainer_export could write `path`, as far as that is known before a training; nothing is written.  ot_trainer_new
 * has checked the option "o".  Errors: those of the path of ot_trainer_export. */
OT_API OT_CHECK ot_status ot_trainer_check_export(ot_trainer *t, const char *path, ot_error *err);

/* Writes the deployable form (ot_export_file) of the file that ot_trainer_export wrote last, with metadata of the
 * training: onnxtrain.input.* is the scaling of images, onnxtrain.classes the names of the classes.
 *  path  NULL: the option "deploy".
 * Errors: OT_E_USAGE (nothing is written yet), those of ot_export_file. */
OT_API OT_CHECK ot_status ot_trainer_deploy(ot_trainer *t, const char *path, ot_error *err);

OT_API void ot_trainer_result(const ot_trainer *t, ot_result *out); /* texts are valid until t's next call */

/* ---- other work ---------------------------------------------------------------- */

/* Runs the graph as in the file, on whole arrays.  Options: mode, threads, device, precision.  *out is written, not freed: free
 * that of an earlier call before.  Arrays of another number type are converted (float64 is rounded; a fraction is no integer).  A sequence is given by its elements,
 * NAME/0, NAME/1 ..., or as input by one tensor NAME split along its first axis; an optional input without a tensor
 * is empty; an output that cannot be computed is skipped, as long as another can. Errors: OT_E_DATA (missing or
 * ill-shaped input), OT_E_MODEL. */
OT_API OT_CHECK ot_status ot_run(const ot_model *m, const ot_options *o, const ot_tensor *in, int n, ot_tensors *out,
                                 ot_error *err);

/* The same again and again: planned once for inputs of the same names, types and shapes (of the last eight such), with weights
 * prepared once.  Inputs whose values decide sizes, sequences and optional inputs are planned in every run.
 *   m, o  borrowed until ot_runner_free.  out: the caller's, ot_tensors_free. */
typedef struct ot_runner ot_runner;
OT_API OT_CHECK ot_status ot_runner_new(const ot_model *m, const ot_options *o, ot_runner **out, ot_error *err);
OT_API OT_CHECK ot_status ot_runner_run(ot_runner *r, const ot_tensor *in, int n, ot_tensors *out, ot_error *err);
OT_API void ot_runner_free(ot_runner *r);

/* ot_run from the option "data" to the option "o" (an .npz).  Errors: those of ot_run, OT_E_USAGE (an option is missing), OT_E_IO. */
OT_API OT_CHECK ot_status ot_run_file(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err);

/* Gradient of the loss per trained initializer, and 'loss', from "data" to "o" (an .npz).  The gradient of a weight
 * named 'loss' is 'loss#2'.  Errors: those of ot_trainer_new, OT_E_IO. */
OT_API OT_CHECK ot_status ot_grad_file(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err);

/* Writes the deployable form of the model to the option "o": BatchNormalization in inference mode or, with "fold",
 * folded into the layer before it; without Dropout, losses, targets and training information; with "fp16", weights
 * and operators that allow it in float16; with "metadata" (KEY=VALUE).  Its outputs in evaluation mode are compared
 * with the model's on one batch before the file appears.  Errors: OT_E_USAGE, OT_E_MODEL (float16 is not precise
 * enough), OT_E_IO, OT_E_NOMEM. */
OT_API OT_CHECK ot_status ot_export_file(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err);

/* The output of the commands, for standard output; JSON with the option "json".  Caller frees with free().  Errors: those of ot_trainer_new, OT_E_IO.  check:
 * OT_E_MODEL, with the text set, if the model cannot be trained.  Its JSON: model, trainable, findings (severity,
 * what, remedy, count, names), notes; if trainable also trained (elements), initializers, batch_size, memory
 * (batch_size, planned_bytes each), slow (percent of the work, operators), tried (step, export, loss, why_not).
 * eval_run: of the folder of a run, with its own options, which o gets where it has none; "select" of the run or of o: the
 * last weights, or best.onnx.  It evaluates on the option "test", or "data" if o has it; else on the run's validation
 * samples, else on the test part of its data, else on all of it.  Further errors: those of ot_checkpoint_open. */
OT_API OT_CHECK ot_status ot_eval_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text,
                                       ot_error *err);
OT_API OT_CHECK ot_status ot_eval_run_text(const char *run_dir, ot_options *o, const ot_callbacks *cb, char **text,
                                           ot_error *err);
/* predict: of each sample of the option "data" the class, its name where known, and its probability, or the values of the
 * outputs: "task", "top"; written to the option "o" (.csv, .json, .jsonl, .npz; *text is NULL then) or as CSV or, with "json",
 * JSON.  A target in the data is not read. */
OT_API OT_CHECK ot_status ot_predict_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text,
                                          ot_error *err);
/* predict with the option "prompt": continues it with "tokens" tokens, one after the other, drawn from the model's scores by
 * "temperature" (0: the most probable), "top-k", "top-p" and "seed".  What a token is follows from the model's metadata,
 * "tokenizer" or "text".  write gets the text piece by piece, the prompt first: whole characters of UTF-8.  Errors: OT_E_USAGE
 * (nothing says what a token is), OT_E_MODEL (no scores for each token), OT_E_DATA (the prompt has no tokens of the model). */
OT_API OT_CHECK ot_status ot_generate(const ot_model *m, const ot_options *o, const ot_callbacks *cb,
                                      void (*write)(void *user, const char *text, size_t n), void *user, ot_error *err);
OT_API OT_CHECK ot_status ot_find_lr_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text,
                                          ot_error *err);
OT_API OT_CHECK ot_status ot_bench_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text,
                                        ot_error *err);
OT_API OT_CHECK ot_status ot_check_text(const ot_model *m, const ot_options *o, char **text, ot_error *err);
OT_API OT_CHECK ot_status ot_inspect_text(const ot_model *m, const ot_options *o, char **text, ot_error *err);
OT_API OT_CHECK ot_status ot_plan_text(const ot_model *m, const ot_options *o, char **text, ot_error *err);
/* What the data set `data` (several files: a line each) contains, and those of the options "val" and "test" or its own test part: arrays with their ranges,
 * classes with their counts, samples that occur twice; with the option "preview" a PNG of images before and after "augment".
 * Errors: OT_E_USAGE (no images for a preview), OT_E_DATA, OT_E_IO, OT_E_NOMEM. */
OT_API OT_CHECK ot_status ot_data_text(const char *data, const ot_options *o, char **text, ot_error *err);
/* Downloads a named data set (four files of mnist, fashion-mnist or kmnist), whose sizes and hashes are known, into the folder NAME of the
 * option "to" (the first of $ONNXTRAIN_DATA, $XDG_DATA_HOME/onnxtrain, ~/.local/share/onnxtrain, where named sets are found), from its own
 * address or from the URL "mirror".  A file appears complete and right, or not at all; those that are there are checked.  Errors:
 * OT_E_USAGE (unknown name, no https, http or file URL), OT_E_IO (network, another size or hash, folder, built without libcurl), OT_E_NOMEM. */
OT_API OT_CHECK ot_status ot_data_fetch(const char *name, const ot_options *o, const ot_callbacks *cb, ot_error *err);
OT_API OT_CHECK ot_status ot_ops_text(const ot_options *o, char **text, ot_error *err);
OT_API OT_CHECK ot_status ot_env_text(const ot_options *o, char **text, ot_error *err);
OT_API OT_CHECK ot_status ot_help_text(bool all, char **text, ot_error *err);

/* The names of a topic ("optimizer", "loss", "schedule", "data", "new", "metric", "command", "option"), or the keys,
 * defaults and ranges of one of its names.  topic NULL: the topics; name NULL: every name.  markdown: as tables.
 * topic may also be a command, an option, or a name that only one topic has; name is NULL then.
 * OT_E_USAGE: unknown topic or name, or a name of several topics; the error lists the known ones. */
OT_API OT_CHECK ot_status ot_help_about(const char *topic, const char *name, bool markdown, char **text, ot_error *err);

/* The manual page (roff, for man), and the completion script of a shell ("bash", "zsh", "fish"; else OT_E_USAGE),
 * with all commands, options and names of the help.  Caller frees with free(). */
OT_API OT_CHECK ot_status ot_man_text(char **text, ot_error *err);
OT_API OT_CHECK ot_status ot_completion_text(const char *shell, char **text, ot_error *err);

/* Writes report.html into the folder of a run: one page, made from the run's log; with the option "plots" its charts in
 * plots/ too.  ot_trainer_run writes it itself, at the latest at its end.  Errors: OT_E_USAGE (no run folder), OT_E_IO. */
OT_API OT_CHECK ot_status ot_report_file(const char *run_dir, const ot_options *o, const ot_callbacks *cb,
                                         ot_error *err);

/* A table of 2 to 16 runs, from their logs; of several trainings by their folder, too; files are passed over.  Caller frees.  Errors: OT_E_USAGE, OT_E_IO. */
OT_API OT_CHECK ot_status ot_compare_text(int n, const char *const *run_dirs, char **text, ot_error *err);

/* Several trainings of m, one after another: the folds of the option "folds" (K), or those of "grid" and "random", each in
 * a run folder of its own below the series' folder (option "run-dir"), which gets a table as CSV too.  *text is the table;
 * caller frees.  A sweep whose folder is there already with the same options continues it.
 *  resumes  the series in the folder "run-dir" continues: what is over stays, what was stopped continues.
 * A cancelled one (ot_callbacks.trains) returns OT_OK with a table of those so far.  Errors: those of ot_trainer_new and _run;
 * of a sweep the first training's where all failed or diverged. */
OT_API OT_CHECK ot_status ot_series_text(const ot_model *m, const ot_options *o, bool resumes, const ot_callbacks *cb,
                                         char **text, ot_error *err);

/* Sets the options of the series in that folder in o, where o has none, and *model to the path of its model; caller frees.
 * *model NULL: it is not the folder of a series.  Errors: OT_E_USAGE (it was started in another folder; o has
 * another value of an option that cannot change now), OT_E_IO. */
OT_API OT_CHECK ot_status ot_series_open(const char *run_dir, ot_options *o, char **model, ot_error *err);

/* Writes a new model ("lenet", "resnet18"; weights by "seed") to the option "o", else to <kind>.onnx in the current folder.  An
 * ONNX file that is there is replaced, any other file is not.  Errors: OT_E_USAGE, OT_E_IO. */
OT_API OT_CHECK ot_status ot_new_file(const char *kind, const ot_options *o, const ot_callbacks *cb, ot_error *err);

#ifdef __cplusplus
}
#endif
#endif
