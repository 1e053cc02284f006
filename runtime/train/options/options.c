/* options.c - the one table of options.
 *
 * Help, config keys and the program's arguments are made from it.  To add an option: a row here, and for
 * trainings a field in ot_settings and a line in settings.c; README.md. */

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/train/options/options.h"
#include "runtime/train/options/specs.h"

/* AUTO: an INT, or "auto"; MAYBE: a text, or "true" */
typedef enum kind { FLAG, TEXT, INT, AUTO, NUM, CHOICE, MAYBE } kind;

typedef struct row {
    ot_option_info info;
    kind kind;
    double min, max;   /* INT, AUTO and NUM */
    const char *plain; /* the help without what holds if the option is not given; NULL: it does not say that */
    const char *other; /* what other commands do without it; NULL: nothing */
} row;

#define FIT   (OT_CMD_TRAIN | OT_CMD_FIND_LR | OT_CMD_GRAD | OT_CMD_PLAN | OT_CMD_CHECK | OT_CMD_BENCH) /* what makes a training plan */
#define MOVES (FIT & ~OT_CMD_GRAD)                                       /* what takes steps, or plans to */
#define WHOLE (OT_CMD_TRAIN | OT_CMD_PLAN | OT_CMD_CHECK)                /* what plans a whole training */
#define GRAPH (FIT | OT_CMD_EVAL | OT_CMD_INSPECT)                       /* what the graph means */
#define FED   (FIT | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_RUN)                           /* what opens data */
#define LOGS  (OT_CMD_REPORT | OT_CMD_COMPARE)                             /* what reads logs of runs only */
#define X(code, bit, ...) | (bit)
#define ALL   ((0 OT_COMMAND_LIST(X)) & ~(OT_CMD_HELP | OT_CMD_COMPLETION | LOGS)) /* X is there until the table ends */

#define DEPLOY (OT_CMD_TRAIN | OT_CMD_EXPORT)
#define RUNS  (OT_CMD_TRAIN | OT_CMD_RESUME)                             /* what a run may change when it continues */
#define FIXED (ALL & ~OT_CMD_RESUME) /* what a run cannot change when it continues */
#define TEXTS (OT_CMD_DATA | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_FIND_LR | OT_CMD_BENCH | OT_CMD_CHECK | OT_CMD_INSPECT | OT_CMD_PLAN | OT_CMD_OPS | OT_CMD_ENV)

#define BASIC  true
#define REPEAT true
/*        name  letter  argument  default  group  help  commands  repeats  basic  kind  min  max */
#define ROW(NAME, LETTER, ARGUMENT, DEFAULT, GROUP, HELP, COMMANDS, REPEATS, IS_BASIC, KIND, MIN, MAX)           \
    { .info.name = NAME, .info.letter = LETTER, .info.argument = ARGUMENT, .info.value = DEFAULT,                 \
      .info.group = GROUP, .info.commands = SWEPT(COMMANDS), .info.repeats = REPEATS, .info.basic = IS_BASIC,     \
      .info.optional = (KIND) == MAYBE, .kind = KIND, .min = MIN, .max = MAX, .info.help = HELP }
/* help: with what holds without the option, which the help of `resume` leaves out */
#define OR(text, without) text " (" without ")", .plain = text
#define OTHERS(text, does) text, .other = does /* help, and what is said where the option does not apply */
#define SWEPT(commands) ((commands) | ((commands) & OT_CMD_TRAIN ? OT_CMD_SWEEP : 0)) /* a sweep trains */

static const row table[] = {
#define G "Data"
    ROW("data", 0, "DATASET|PATH", NULL, G,
        "training set: a name or a path; several files of arrays: once for each, NAME=PATH names its array",
        FED | OT_CMD_RESUME, REPEAT, BASIC, TEXT, 0, 0),
    ROW("val", 0, "DATASET|PATH", NULL, G, "validation set, evaluated after each epoch; several times as --data",
        WHOLE | OT_CMD_RESUME | OT_CMD_DATA | OT_CMD_EVAL, REPEAT, 0, TEXT, 0, 0),
    ROW("val-split", 0, "F", NULL, G,
        "fraction of the training set kept back for validation, stratified by class and chosen by --seed; of windows of rows (--length) the last ones of each series",
        WHOLE | OT_CMD_EVAL, 0, 0, NUM, 0, 1),
    ROW("split", 0, "COLUMN", NULL, G,
        "CSV column that names the part of each row: train, val (also valid, validation, dev) or test; it is not used as an input",
        WHOLE | OT_CMD_EVAL | OT_CMD_DATA, 0, 0, TEXT, 0, 0),
    ROW("folds", 0, "K|k/K", NULL, G,
        "cross-validation: K trainings, each validated on another part of the training set, stratified by class; "
        "k/K: the k-th alone",
        WHOLE | OT_CMD_EVAL, 0, 0, TEXT, 0, 0),
    ROW("test", 0, "DATASET|PATH", NULL, G,
        "test set (built-in data sets include one): evaluated at the end; without validation samples after each epoch; "
        "several times as --data",
        WHOLE | OT_CMD_RESUME | OT_CMD_DATA | OT_CMD_EVAL, REPEAT, 0, TEXT, 0, 0),
    ROW("normalize", 0, "1/255|mean,std|imagenet|none|auto|M,S", NULL, G,
        "scaling of image bytes (uint8); without it 1/255 for images and built-in data sets, none for .npz and .npy arrays; "
        "auto: mean and deviation of the training set, of arrays of floats too, recorded in the model; "
        "of a CSV: mean,std standardises its numbers, none does not",
        FED, 0, 0, TEXT, 0, 0),
    ROW("image-size", 0, "N|HxW", NULL, G,
        "height and width to which images in files are resized, if the model leaves them open; recorded in the model (default: "
        "as recorded or in the model's metadata, else the size of the images if all have one, else 224)",
        FED, 0, 0, TEXT, 0, 0),
    ROW("normalize-target", 0, "auto|mean,std|none", "auto", G,
        "scaling of targets that are values, recorded in the model: (target - mean)/std of the training set; auto: for losses of "
        "distances (mse, l1, huber, smooth_l1) where a table's numbers are standardised, or its inputs are images, recordings or strings; predict and the metrics "
        "are in the unit of the data; none: never, and predict gives the outputs themselves",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT, 0, 0, CHOICE, 0, 0),
    ROW("augment", 0, "NAME[:key=value,...],...", NULL, G,
        "random changes of training images, in the given order: auto, flip, crop, ...; masks follow the geometry",
        (MOVES & ~(OT_CMD_PLAN | OT_CMD_CHECK)) | OT_CMD_DATA, REPEAT, BASIC, TEXT, 0, 0),
    ROW("preview", 0, "FILE.png", NULL, G,
        "data: write samples as a contact sheet; with --augment, beside each what it becomes in the first epochs",
        OT_CMD_DATA, 0, BASIC, TEXT, 0, 0),
    ROW("to", 0, "DIR", NULL, G,
        "data fetch: folder for the set's folder (default: the user's own of those searched for named sets)",
        OT_CMD_DATA, 0, 0, TEXT, 0, 0),
    ROW("mirror", 0, "URL", NULL, G, "data fetch: address of a folder with the same files, https, http or file:///...",
        OT_CMD_DATA, 0, 0, TEXT, 0, 0),
    ROW("target", 0, "NAME", "target", G,
        "array or CSV column with the target; image: the images themselves (autoencoder); of a CSV also several: a,b, or "
        "OUTPUT=a;OUTPUT=b,c",
        FIT | OT_CMD_DATA | OT_CMD_EVAL | OT_CMD_PREDICT, 0, 0, TEXT, 0, 0),
    ROW("inputs", 0, "COLUMNS", NULL, G,
        "CSV columns to use: a,b, or -a for all but a, or INPUT=a,b;INPUT=c (default: by names and types, or as recorded in "
        "the model; auto: by names and types); the column of text, or a,b for pairs of two; of arrays INPUT=ARRAY;INPUT=ARRAY",
        FIT | OT_CMD_DATA | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_RUN, 0, 0, TEXT, 0, 0),
    ROW("categories", 0, "COLUMN,...", NULL, G,
        "CSV columns whose values are categories, such as ids that are numbers: one-hot or numbered from 0, as strings are; the "
        "target: its numbers are names of classes; recorded in the model",
        FIT | OT_CMD_DATA | OT_CMD_EVAL, 0, 0, TEXT, 0, 0),
    ROW("passthrough", 0, "COLUMN,...", NULL, G,
        "CSV columns of numbers that are not standardised, such as sample weights", FIT | OT_CMD_DATA | OT_CMD_EVAL, 0,
        0, TEXT, 0, 0),
    ROW("permute", 0, "NAME=AXES", NULL, G,
        "order of the axes of an array, as numpy.transpose: x=0,3,1,2 moves channels from last to first (automatic where "
        "the shapes leave no doubt)",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT, REPEAT, 0, TEXT, 0, 0),
    ROW("skip-bad", 0, "N", "0", G,
        "files of images or recordings that may be damaged, unreadable or missing: each is listed, and the next one of the set is used instead (predict: it is "
        "omitted)",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_RESUME, 0, 0, INT, 0, 1e9),
    ROW("text", 0, "bytes|chars", NULL, G,
        "tokens of a text file (bytes if the model has at least 256 tokens, else characters), or of a table's column of text",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_DATA, 0, 0, CHOICE, 0, 0),
    ROW("tokenizer", 0, "PATH", NULL, G,
        "tokenizer of a text, or of a table's column of text: tokenizer.json, vocab.txt, vocab.json with merges.txt, a .model of "
        "SentencePiece, or a folder with one of them",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_DATA, 0, 0, TEXT, 0, 0),
    ROW("length", 0, "N", NULL, G,
        "tokens per sample of a text, if the model leaves it open (1024; of a table's column of text the longest, up to 512); values per channel of a recording (the longest); "
        "of a table of numbers: each sample is a window of N rows, as of a time series",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_DATA, 0, 0, INT, 1, 1e9),
    ROW("stride", 0, "N", NULL, G,
        "tokens from one sample of a text to the next (the length of a sample); rows from one window of a table to the next (1)",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_DATA, 0, 0, INT, 1, 1e15),
    ROW("ahead", 0, "N", NULL, G,
        "of windows of rows (--length): the target is that of N rows after the last one (1), and its column is an input too; 0: of the last one",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_DATA, 0, 0, INT, 0, 1e9),
    ROW("group", 0, "COLUMN", NULL, G,
        "of windows of rows (--length): column that names the time series of each row, so that no window reaches from one series into another; "
        "it is an input only if --inputs names it; recorded in the model",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_DATA, 0, 0, TEXT, 0, 0),
    ROW("no-shuffle", 0, NULL, NULL, G,
        "keep the order of the samples; at the end start again with the first, also within an update", FIT, 0, 0, FLAG,
        0, 0),
    ROW("drop-last", 0, NULL, NULL, G, "skip the last batch of an epoch if it is not full", MOVES, 0, 0, FLAG, 0, 0),
#undef G
#define G "Training"
    ROW("loss", 0, "[OUTPUT=]LOSS", NULL, G,
        "loss function; without it, the one that follows from target and output; predict: the one that the model was "
        "trained with, which says whether the outputs are classes, and along which axis (default: as recorded)",
        GRAPH | OT_CMD_PREDICT, REPEAT, BASIC, TEXT, 0, 0),
    ROW("output", 0, "TENSOR", NULL, G,
        "train this inner tensor instead of the model's outputs; the written file keeps its outputs", FIT | OT_CMD_EVAL,
        REPEAT, 0, TEXT, 0, 0),
    ROW("optimizer", 0, "NAME[:key=value,...]", "adamw", G, "update rule", FIT, 0, BASIC, TEXT, 0, 0),
    ROW("lr", 0, "X", NULL, G, "learning rate; same as lr of --optimizer", FIT & ~OT_CMD_FIND_LR, 0, BASIC, NUM, 0,
        INFINITY),
    ROW("lr-range", 0, "MIN,MAX", "1e-7,10", G, "find-lr: first and last learning rate; --steps N of them (100)",
        OT_CMD_FIND_LR, 0, 0, TEXT, 0, 0),
    ROW("momentum", 0, "X", NULL, G, "same as momentum of --optimizer", FIT, 0, 0, NUM, 0, 1),
    ROW("weight-decay", 0, "X", NULL, G, "same as weight_decay of --optimizer", FIT, 0, 0, NUM, 0, INFINITY),
    ROW("l1", 0, "X", NULL, G,
        "L1 penalty: X times the sign of a weight is added to its gradient; --no-decay exempts from it too", FIT, 0, 0,
        NUM, 0, INFINITY),
    ROW("no-decay", 0, "norms,biases|GLOB", NULL, G, "weights without weight decay and L1 penalty", FIT, REPEAT, 0,
        TEXT, 0, 0),
    ROW("schedule", 0, "NAME[:key=value,...]", "constant", G, "learning rate schedule; every one has warmup=N",
        FIT & ~OT_CMD_FIND_LR, 0, BASIC, TEXT, 0, 0),
    ROW("batch-size", 0, "N|auto", NULL, G,
        "samples per batch (32); auto, in a training: the largest power of two whose plan fits the memory",
        FED | OT_CMD_NEW, 0, BASIC, AUTO, 1, 1e9),
    ROW("epochs", 0, "N", NULL, G, OR("passes over the training set", "10"), WHOLE | OT_CMD_RESUME, 0, BASIC, INT, 1,
        1e15),
    ROW("steps", 0, "N", NULL, G, "number of updates; with --epochs, training ends at whichever comes first",
        MOVES | OT_CMD_RESUME, 0, BASIC, INT, 1, 1e15),
    ROW("grid", 0, "NAME=VALUE,VALUE", NULL, G,
        "sweep: values of an option, separated by bars where they contain commas; with --random also a range A..B or "
        "log:A..B",
        OT_CMD_SWEEP, REPEAT, 0, TEXT, 0, 0),
    ROW("random", 0, "N", NULL, G, "sweep: N trainings with values of --grid drawn by --seed", OT_CMD_SWEEP, 0, 0, INT,
        1, 10000),
    ROW("metrics", 0, "auto|all", "auto", G,
        OTHERS("what evaluations measure: loss, accuracy and errors of values; or all metrics that fit the outputs",
               "eval measures all metrics that fit the outputs"),
        OT_CMD_TRAIN, 0, 0, CHOICE, 0, 0),
    ROW("monitor", 0, "[OUTPUT.]METRIC", NULL, G,
        OR("metric of the validation samples, of one output, that decides which epoch is the best",
           "accuracy if there is one, else loss; for masks, iou counts small classes as much as large ones"),
        OT_CMD_TRAIN, 0, 0, TEXT, 0, 0),
    ROW("patience", 0, "N", NULL, G, "stop after N epochs without an improvement of the monitored metric", RUNS, 0, 0,
        INT, 1, 1e9),
    ROW("min-delta", 0, "X", NULL, G, "with --patience: smallest improvement of the monitored metric that counts", RUNS,
        0, 0, NUM, 0, INFINITY),
    ROW("time-limit", 0, "TIME", NULL, G, "stop after this time (30s, 5min, 2h) with a checkpoint", RUNS, 0, 0, TEXT, 0,
        0),
    ROW("overfit-batch", 0, "[=N]", NULL, G,
        "a test of model, loss and learning rate: train on the first N batches (1) over and over, without evaluation; a "
        "line at the end has the verdict; the model is written only if -o is given",
        WHOLE, 0, 0, MAYBE, 0, 0),
    ROW("accumulate", 0, "N", "1", G, "batches per update (gradient accumulation)", FIT, 0, 0, INT, 1, 1e9),
    ROW("clip-norm", 0, "X", NULL, G, "maximum global norm of the gradients; 0: no limit", FIT, 0, 0, NUM, 0, INFINITY),
    ROW("clip-value", 0, "X", NULL, G, "maximum absolute value of a gradient element; 0: no limit", FIT, 0, 0, NUM, 0,
        INFINITY),
    ROW("lookahead", 0, "N[:alpha=X]", NULL, G,
        "every N updates, move a slow copy of the weights by X (0.5) of the distance to them, and continue from it",
        MOVES, 0, 0, TEXT, 0, 0),
    ROW("ema", 0, "DECAY", NULL, G,
        "exponential moving average of weights and running statistics; evaluation and the written models use it", WHOLE,
        0, 0, NUM, 0, 0.9999999),
    ROW("swa", 0, "EPOCH|FRACTION[:per=update]", NULL, G,
        "stochastic weight averaging: mean of the weights at the end of each epoch (or after each update) from EPOCH or that "
        "fraction of the run on; evaluation and the written models use it",
        WHOLE, 0, 0, TEXT, 0, 0),
    ROW("teacher", 0, "FILE[:key=value,...]", NULL, G,
        "teacher for distillation: an ONNX model whose outputs are targets too; see 'onnxtrain help teacher'",
        FIT | OT_CMD_RESUME, 0, 0, TEXT, 0, 0),
    ROW("seed", 0, "N", "0", G, "seed for shuffling, dropout and new weights", FIXED, 0, BASIC, INT, 0,
        9007199254740992.0),
    ROW("initialize", 0, "auto|always|never", "auto", G,
        "initialization stored in the file (TrainingInfoProto): auto runs it if the model is untrained",
        MOVES & ~OT_CMD_BENCH, 0, 0, CHOICE, 0, 0),
    ROW("on-nonfinite", 0, "stop|skip", "stop", G,
        "if the loss or a gradient is NaN or infinite: stop, or skip the update", WHOLE, 0, 0, CHOICE, 0, 0),
#undef G
#define G "The graph"
    ROW("train", 0, "GLOB", NULL, G, "initializers to train in addition to those found automatically", GRAPH, REPEAT, 0,
        TEXT, 0, 0),
    ROW("freeze", 0, "GLOB", NULL, G, "initializers not to train", GRAPH, REPEAT, BASIC, TEXT, 0, 0),
    ROW("lr-scale", 0, "GLOB=X", NULL, G,
        "factor on the learning rate of the named initializers; of several that match, an exact name counts, else the last",
        FIT, REPEAT, 0, TEXT, 0, 0),
    ROW("layer-decay", 0, "X", "1", G, "factor on the learning rate per layer, from the output back", FIT, 0, 0, NUM,
        0.000001, 1),
    ROW("unfreeze", 0, "GLOB@EPOCH", NULL, G, "initializers that are frozen until that epoch", MOVES, REPEAT, 0, TEXT,
        0, 0),
    ROW("classes", 0, "N|auto|OUTPUT=N", NULL, G,
        "replace the last linear layer by a new one for N classes, if it has another number; auto: for those of the data; new: "
        "extent of the output",
        FIT | OT_CMD_NEW, REPEAT, BASIC, TEXT, 0, 0),
    ROW("freeze-backbone", 0, NULL, NULL, G,
        "train only the last linear layer before each output, and what --train or --unfreeze names", FIT, 0, BASIC,
        FLAG, 0, 0),
    ROW("lora", 0, "KEY=VALUE,...", NULL, G,
        "train adapters of low rank beside frozen weights, and merge them in the file: rank=8,alpha=16; see 'onnxtrain help lora'",
        MOVES, 0, 0, TEXT, 0, 0),
    ROW("bn", 0, "auto|train|frozen", "auto", G,
        "BatchNormalization in training: batch statistics (train) or running statistics (frozen)", GRAPH, 0, 0, CHOICE,
        0, 0),
    ROW("bn-variance", 0, "population|unbiased", "population", G, "variance that updates the running variance", GRAPH,
        0, 0, CHOICE, 0, 0),
    ROW("tie", 0, NULL, NULL, G,
        "train tensors that are copies of another weight, transposed or not, as one with it: the exporter wrote a tied weight twice",
        GRAPH, 0, 0, FLAG, 0, 0),
    ROW("untie", 0, "auto|GLOB", NULL, G,
        "give each layer its own copy of a shared initializer, in the file too; auto: where the exporter merged equal tensors",
        MOVES, REPEAT, 0, TEXT, 0, 0),
    ROW("unfold-bn", 0, NULL, NULL, G,
        "train convolutions with a folded BatchNormalization as Conv and BatchNormalization; fold them again in the file",
        MOVES, 0, 0, FLAG, 0, 0),
    ROW("dropout", 0, "file|off|P", "file", G, "Dropout in training: as in the file, off, or with ratio P", GRAPH, 0, 0,
        TEXT, 0, 0),
    ROW("add-dropout", 0, "P", NULL, G,
        "add Dropout with ratio P before the classifier, in training only; the file is unchanged", MOVES, 0, 0, NUM, 0,
        1),
    ROW("quantized-scales", 0, "keep|recompute", "keep", G,
        "scales of trained integer weights: the file's, or recomputed from the weights", GRAPH, 0, 0, CHOICE, 0, 0),
    ROW("mode", 0, "file|eval", "file", G, "run: training_mode as in the file, or evaluation mode", OT_CMD_RUN, 0, 0,
        CHOICE, 0, 0),
#undef G
#define G "Machine"
    ROW("device", 0, "auto|cpu|cuda[:N]", "auto", G, "cpu, cuda, cuda:N, or auto", ALL, 0, BASIC, TEXT, 0, 0),
    ROW("device-description", 0, "FILE", NULL, G,
        "plan: plan for the GPU that the file describes (cuDNN's JSON of device properties); it need not be present",
        OT_CMD_PLAN, 0, 0, TEXT, 0, 0),
    ROW("threads", 0, "N", NULL, G, OR("number of CPU threads", "all processors, or the CPU quota"), ALL, 0, 0, INT, 1,
        4096),
    ROW("workers", 0, "N", NULL, G,
        "threads that decode images ahead of the training (as many as --threads); 0: the training waits for each batch",
        FIT | OT_CMD_EVAL | OT_CMD_PREDICT | OT_CMD_RUN | OT_CMD_RESUME, 0, 0, INT, 0, 1024),
    ROW("cache", 0, "memory|none", "memory", G,
        "memory: decoded images are kept for later epochs, within --memory-limit, else half of the free memory",
        OT_CMD_TRAIN | OT_CMD_FIND_LR | OT_CMD_RESUME, 0, 0, CHOICE, 0, 0),
    ROW("tune", 0, NULL, NULL, G, "measure all kernels for each operator once on the GPU and use the fastest",
        FED | OT_CMD_GRAD, 0, 0, FLAG, 0, 0),
    ROW("memory-limit", 0, "SIZE", NULL, G,
        "limit of the planned memory (500MiB, 2GiB; on a GPU: its own); above it, values are recomputed in the backward pass; --batch-size auto avoids that",
        OT_CMD_TRAIN | OT_CMD_FIND_LR | OT_CMD_RESUME | OT_CMD_PLAN | OT_CMD_CHECK, 0, 0, TEXT, 0, 0),
    ROW("batch-sizes", 0, "N,N,...", "1,8,32", G, "bench: batch sizes to measure", OT_CMD_BENCH, 0, BASIC, TEXT, 0, 0),
    ROW("threads-list", 0, "N,N,...", NULL, G, OR("bench: numbers of CPU threads to measure", "--threads"),
        OT_CMD_BENCH, 0, BASIC, TEXT, 0, 0),
    ROW("measure", 0, "both|training|prediction", "both", G,
        "bench: training steps, predictions, or first those and then these", OT_CMD_BENCH, 0, BASIC, CHOICE, 0, 0),
    ROW("kernels", 0, NULL, NULL, G,
        "bench: time of each kernel of a training step and of a prediction, beside what the device reaches at best",
        OT_CMD_BENCH, 0, 0, FLAG, 0, 0),
    ROW("precision", 0, "fp32|tf32|bf16|fp16|auto", "fp32", G,
        "type for matrix products, convolutions and activations; weights stay float32; CPU: bf16 rounds operands of large products only, tf32 and fp16 have no effect",
        FIXED, 0, 0, CHOICE, 0, 0),
#undef G
#define G "Output"
    ROW("o", 'o', "FILE", NULL, G,
        OR("output file: trained model, outputs, predictions (.csv, .json, .jsonl, .npz; FOLDER/: a mask of each image) or gradients; find-lr: the curve as SVG or, by its name, PNG",
           "<model>-trained.onnx"),
        OT_CMD_TRAIN | OT_CMD_RESUME | OT_CMD_PREDICT | OT_CMD_FIND_LR | OT_CMD_RUN | OT_CMD_GRAD | OT_CMD_NEW |
            OT_CMD_EXPORT,
        0, BASIC, TEXT, 0, 0),
    ROW("select", 0, "last|best", "last", G,
        "weights of the output file, or those that 'eval RUN' evaluates: of the last epoch or the best",
        OT_CMD_TRAIN | OT_CMD_EVAL, 0, 0, CHOICE, 0, 0),
    ROW("run-dir", 0, "DIR", NULL, G, OR("run folder, or none", "runs/<model>-<n>"), OT_CMD_TRAIN, 0, 0, TEXT, 0, 0),
    ROW("checkpoint-every", 0, "TIME|Nsteps|Nepochs|none", "5min", G,
        "how often the run folder gets a checkpoint, to continue from with 'onnxtrain resume', the first after 30 s at the latest; also written at the end and on signals",
        RUNS, 0, 0, TEXT, 0, 0),
    ROW("keep", 0, "N", "2", G, "number of checkpoints to keep", RUNS, 0, 0, INT, 1, 1000),
    ROW("log", 0, "FILE", NULL, G, "log file in JSON lines: start, step, eval, end; - is standard output",
        OT_CMD_TRAIN | OT_CMD_RESUME, 0, BASIC, TEXT, 0, 0),
    ROW("log-every", 0, "N", NULL, G,
        "print a progress line every N updates; without a terminal, instead of one every ten seconds", RUNS, 0, 0, INT,
        1, 1e15),
    ROW("tensorboard", 0, "[=DIR]", NULL, G,
        "write TensorBoard event files, into tensorboard/ of the run folder or into DIR", RUNS | WHOLE, 0, 0, MAYBE, 0,
        0),
    ROW("tensorboard-histograms", 0, "TIME|Nsteps|Nepochs", NULL, G,
        "with --tensorboard: how often histograms of weights and gradients are written", RUNS | WHOLE, 0, 0, TEXT, 0,
        0),
    ROW("profile", 0, "[=N]", NULL, G,
        "measure N updates, by default 10, by node of the model: a table, and profile.csv, profile.json, trace.json in the run folder",
        RUNS, 0, 0, MAYBE, 0, 0),
    ROW("plots", 0, "[=svg|png[:scale=X]]", NULL, G,
        "write the charts of report.html as files too, SVG or PNG, into plots/ of the run folder", RUNS | OT_CMD_REPORT,
        REPEAT, 0, MAYBE, 0, 0),
    ROW("training-info", 0, NULL, NULL, G,
        "write the training algorithm and the optimizer state into the model (TrainingInfoProto), to continue training from it",
        WHOLE, 0, 0, FLAG, 0, 0),
    ROW("deploy", 0, "FILE", NULL, G,
        "also write the model for inference: BatchNormalization in inference mode, no Dropout, no losses",
        OT_CMD_TRAIN | OT_CMD_RESUME, 0, 0, TEXT, 0, 0),
    ROW("fold", 0, NULL, NULL, G, "export, --deploy: fold BatchNormalization into the layer before it", DEPLOY, 0, 0,
        FLAG, 0, 0),
    ROW("fp16", 0, NULL, NULL, G,
        "export, --deploy: convert weights and safe operators to float16; inputs and outputs keep their types", DEPLOY,
        0, 0, FLAG, 0, 0),
    ROW("metadata", 0, "KEY=VALUE", NULL, G, "export, --deploy: add a metadata entry", DEPLOY, REPEAT, 0, TEXT, 0, 0),
    ROW("csv", 0, NULL, NULL, G, "find-lr, bench: print CSV", OT_CMD_FIND_LR | OT_CMD_BENCH, 0, 0, FLAG, 0, 0),
    ROW("task", 0, "auto|classes|labels|values", "auto", G,
        "predict: what outputs are: scores of classes, probabilities of labels that exclude nothing, or values",
        OT_CMD_PREDICT, 0, BASIC, CHOICE, 0, 0),
    ROW("top", 0, "N", "1", G, "predict: number of classes for each sample, the most probable first", OT_CMD_PREDICT, 0,
        BASIC, INT, 1, 1000),
    ROW("copy", 0, "COLUMNS", NULL, G, "predict: columns of the table that are written beside the predictions: id,date",
        OT_CMD_PREDICT, 0, BASIC, TEXT, 0, 0),
    ROW("prompt", 0, "TEXT", NULL, G, "predict: continue this text, token by token, and print it", OT_CMD_PREDICT, 0,
        BASIC, TEXT, 0, 0),
    ROW("tokens", 0, "N", "200", G, "--prompt: number of tokens to generate", OT_CMD_PREDICT, 0, BASIC, INT, 1, 1e9),
    ROW("temperature", 0, "X", "1", G,
        "--prompt: divides the scores before they become probabilities; 0: take the most "
        "probable token",
        OT_CMD_PREDICT, 0, BASIC, NUM, 0, 1000),
    ROW("top-k", 0, "N", NULL, G, "--prompt: draw from the N most probable tokens only", OT_CMD_PREDICT, 0, BASIC, INT,
        1, 1e9),
    ROW("top-p", 0, "X", "1", G, "--prompt: draw from the most probable tokens that have this probability together",
        OT_CMD_PREDICT, 0, BASIC, NUM, 0, 1),
    ROW("json", 0, NULL, NULL, G, "print JSON", TEXTS, 0, 0, FLAG, 0, 0),
    ROW("graph", 0, NULL, NULL, G, "inspect: print all nodes of the graph", OT_CMD_INSPECT, 0, 0, FLAG, 0, 0),
    ROW("why", 0, NULL, NULL, G, "plan: print why faster kernels were not used", OT_CMD_PLAN, 0, 0, FLAG, 0, 0),
    ROW("markdown", 0, NULL, NULL, G, "help: print tables in Markdown", OT_CMD_HELP, 0, 0, FLAG, 0, 0),
    ROW("man", 0, NULL, NULL, G, "help: print the manual page (roff)", OT_CMD_HELP, 0, 0, FLAG, 0, 0),
    ROW("quiet", 'q', NULL, NULL, G, "print warnings and errors only", ALL | LOGS, 0, 0, FLAG, 0, 0),
    ROW("verbose", 'v', NULL, NULL, G, "print all decisions", ALL | LOGS, 0, 0, FLAG, 0, 0),
    ROW("config", 0, "FILE", NULL, G,
        "file of lines 'key = value' with these option names; command-line options take precedence", ALL, 0, 0, TEXT, 0,
        0),
#undef G
#define G "New models"
    ROW("opset", 0, "N", NULL, G, "opset of the file ('onnxtrain help new KIND' has the defaults)", OT_CMD_NEW, 0, 0,
        INT, 1, 1000),
    ROW("layers", 0, "N", NULL, G, "gpt2, bert: number of blocks", OT_CMD_NEW, 0, 0, INT, 1, 65536),
    ROW("input", 0, "CxHxW", NULL, G, "channels, height and width of the input; gpt2, bert: number of tokens",
        OT_CMD_NEW, 0, 0, TEXT, 0, 0),
    ROW("scale", 0, "X", NULL, G, "factor on the number of filters or hidden units", OT_CMD_NEW, 0, 0, NUM, 0, 1e6),
    ROW("hidden", 0, "N,N,...", NULL, G, "mlp: its hidden layers", OT_CMD_NEW, 0, 0, TEXT, 0, 0),
#undef G
};

#undef X

typedef struct given {
    const char **text;
    int n;
    bool from_config; /* an argument replaces it */
} given;

struct ot_options {
    ot_arena *arena;
    given value[OT_LEN(table)];
    bool in_config;                /* a file is being read */
    const ot_config_file *configs; /* that were read */
};

/* ---- the table ---------------------------------------------------------------- */

const ot_option_info *ot_option_at(int i) { return i >= 0 && i < OT_LEN(table) ? &table[i].info : NULL; }

static int index_of(const char *name)
{
    for (int i = 0; i < OT_LEN(table); i++)
        if (!strcmp(table[i].info.name, name)) return i;
    return -1;
}

const ot_option_info *ot_option_find(const char *name) { return name ? ot_option_at(index_of(name)) : NULL; }

const char *ot_option_wants(const ot_option_info *o, ot_arena *a)
{
    const row *r = &table[index_of(o->name)];
    ot_key k = {
        .kind = OT_KEY_TEXT, .words = o->argument ? o->argument : "true or false", .least = r->min, .most = r->max
    };
    char *words = r->kind == CHOICE ? ot_arena_strdup(a, o->argument) : NULL;
    for (char *c = words; c && *c; c++)
        if (*c == '|') *c = ' ';
    if (words) k.kind = OT_KEY_WORD, k.words = words;
    if (r->kind == INT || r->kind == NUM) k.kind = r->kind == INT ? OT_KEY_WHOLE : OT_KEY_NUMBER;
    if (r->kind == AUTO) k.words = "a whole number of at least 1, or auto";
    const char *wants = ot_key_wants(&k, a);
    return wants ? wants : "";
}

const char *ot_option_nearest(const char *name)
{
    static const struct {
        const char *name, *here;
    } elsewhere[] = {
        { "learning-rate", "lr" },
        { "learning_rate", "lr" },
        { "lrate", "lr" },
        { "rate", "lr" },
        { "batch", "batch-size" },
        { "bs", "batch-size" },
        { "batchsize", "batch-size" },
        { "batch_size", "batch-size" },
        { "epoch", "epochs" },
        { "num-epochs", "epochs" },
        { "num_epochs", "epochs" },
        { "optim", "optimizer" },
        { "opt", "optimizer" },
        { "wd", "weight-decay" },
        { "criterion", "loss" },
        { "out", "o" },
        { "dataset", "data" },
    };
    const char *near = NULL;
    int best = 3;
    for (int i = 0; name && i < OT_LEN(elsewhere); i++)
        if (!strcmp(name, elsewhere[i].name)) return elsewhere[i].here;
    for (int i = 0; name && i < OT_LEN(table); i++) {
        int d = ot_edit_distance(name, table[i].info.name, 2);
        /* Two edits away from a name of two letters is everything. */
        if (d < best && d < (int)strlen(table[i].info.name)) best = d, near = table[i].info.name;
    }
    return near;
}

/* ---- a set of options ----------------------------------------------------------- */

ot_options *ot_options_new(void)
{
    ot_options *o = calloc(1, sizeof *o);
    if (o) o->arena = ot_arena_new();
    if (o && !o->arena) {
        free(o);
        return NULL;
    }
    return o;
}

void ot_options_free(ot_options *o)
{
    if (!o) return;
    ot_arena_free(o->arena);
    free(o);
}

/* value is one of the words of "a|b|c". */
static bool is_choice(const char *words, const char *value)
{
    size_t n = strlen(value);
    for (;;) {
        size_t k = strcspn(words, "|");
        if (k == n && !memcmp(words, value, n)) return true;
        if (!words[k]) return false;
        words += k + 1;
    }
}

static ot_status check_value(const row *r, const char *value, ot_error *err)
{
    double v = 0;
    bool integer = r->kind != NUM;
    const char *dashes = strlen(r->info.name) == 1 ? "-" : "--";
    char lo[OT_NUMBER_TEXT], hi[OT_NUMBER_TEXT];
    switch (r->kind) {
    case FLAG:
        if (strcmp(value, "true") && strcmp(value, "false"))
            return ot_fail(err, OT_E_USAGE, "%s%s: expected true or false, got '%s'", dashes, r->info.name, value);
        return OT_OK;
    case AUTO:
        if (!strcmp(value, "auto")) return OT_OK;
        /* fallthrough */
    case INT:
    case NUM:
        if (!ot_number(value, &v) || isnan(v) || (integer && v != floor(v)))
            return ot_fail(err, OT_E_USAGE, "%s%s: '%s' is not a %snumber", dashes, r->info.name, value,
                           integer ? "whole " : "");
        if (v < r->min || v > r->max || isinf(v)) {
            if (isinf(r->max))
                return ot_fail(err, OT_E_USAGE, "%s%s: %s is out of range; the minimum is %s", dashes, r->info.name,
                               value, ot_number_text(r->min, lo));
            return ot_fail(err, OT_E_USAGE, "%s%s: %s is out of range; expected %s to %s", dashes, r->info.name, value,
                           ot_number_text(r->min, lo), ot_number_text(r->max, hi));
        }
        return OT_OK;
    case CHOICE:
        if (!is_choice(r->info.argument, value))
            return ot_fail(err, OT_E_USAGE, "%s%s: invalid value '%s'; expected one of: %s", dashes, r->info.name,
                           value, r->info.argument);
        return OT_OK;
    case TEXT:
    case MAYBE:
        if (!*value) return ot_fail(err, OT_E_USAGE, "%s%s: the value is empty", dashes, r->info.name);
        return OT_OK;
    }
    return OT_OK;
}

static ot_status read_config(ot_options *o, const char *path, ot_error *err);

ot_status ot_options_set(ot_options *o, const char *name, const char *value, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(o);
    OT_GIVEN(name);
    OT_GIVEN(value);
    int i = index_of(name);
    if (i < 0) {
        const char *near = ot_option_nearest(name);
        return near ? ot_fail(err, OT_E_USAGE, "unknown option '%s'; did you mean '%s'?", name, near)
                    : ot_fail(err, OT_E_USAGE, "unknown option '%s'", name);
    }
    const row *r = &table[i];
    given *g = &o->value[i];
    OT_TRY(check_value(r, value, err));
    if (!strcmp(name, "config")) {
        if (o->in_config) return ot_fail(err, OT_E_USAGE, "a config file cannot include another one");
        return read_config(o, value, err);
    }
    if (o->in_config && g->n && !g->from_config) return OT_OK;
    if (!o->in_config && g->from_config) g->n = 0;
    if (!r->info.repeats) g->n = 0;

    const char **text = ot_arena_alloc(o->arena, sizeof *text * (size_t)(g->n + 1));
    const char *copy = ot_arena_strdup(o->arena, value);
    if (!text || !copy) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    for (int k = 0; k < g->n; k++) text[k] = g->text[k];
    text[g->n++] = copy;
    g->text = text;
    g->from_config = o->in_config;
    return OT_OK;
}

const char *ot_options_get(const ot_options *o, const char *name)
{
    int i = o && name ? index_of(name) : -1;
    if (i < 0) return NULL;
    return o->value[i].n ? o->value[i].text[o->value[i].n - 1] : table[i].info.value;
}

const char *ot_option_plain(const ot_option_info *o)
{
    const row *r = &table[index_of(o->name)];
    return r->plain ? r->plain : o->help;
}

int ot_options_count(const ot_options *o, const char *name)
{
    int i = index_of(name);
    return i < 0 ? 0 : o->value[i].n;
}

const char *ot_options_nth(const ot_options *o, const char *name, int k)
{
    int i = o && name ? index_of(name) : -1;
    return i < 0 || k < 0 || k >= o->value[i].n ? NULL : o->value[i].text[k];
}

const char *ot_options_joined(const ot_options *o, const char *name, ot_arena *a)
{
    const char *all = ot_options_nth(o, name, 0), *next;
    for (int k = 1; all && (next = ot_options_nth(o, name, k)); k++) all = ot_arena_printf(a, "%s\n%s", all, next);
    return all;
}

void ot_options_unset(ot_options *o, const char *name)
{
    int i = index_of(name);
    if (i >= 0) o->value[i] = (given){ 0 };
}

double ot_options_num(const ot_options *o, const char *name)
{
    const char *text = ot_options_get(o, name);
    double v = 0;
    return text && ot_number(text, &v) ? v : 0;
}

int64_t ot_options_int(const ot_options *o, const char *name) { return (int64_t)ot_options_num(o, name); }

bool ot_options_flag(const ot_options *o, const char *name)
{
    const char *text = ot_options_get(o, name);
    return text && !strcmp(text, "true");
}

ot_status ot_options_check(const ot_options *o, unsigned command, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(o);
    for (int i = 0; i < OT_LEN(table); i++)
        if (o->value[i].n && !o->value[i].from_config && !(table[i].info.commands & command))
            return ot_fail(
                err, OT_E_USAGE, "%s%s %s%s%s", table[i].info.letter == 'o' ? "-" : "--", table[i].info.name,
                command == OT_CMD_RESUME && table[i].info.commands & OT_CMD_TRAIN
                    ? "cannot be changed when a run is resumed; to change it, start a new run from the model that this "
                      "one wrote"
                    : "does not apply to this command",
                table[i].other ? "; " : "", table[i].other ? table[i].other : "");
    const char *batch = ot_options_nth(o, "batch-size", 0);
    if (batch && !strcmp(batch, "auto") && !(command & (OT_CMD_TRAIN | OT_CMD_FIND_LR)))
        return ot_fail(err, OT_E_USAGE, "--batch-size auto applies to training only; use a number");
    return OT_OK;
}

char *ot_options_lines(const ot_options *o)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    for (int i = 0; i < OT_LEN(table); i++)
        for (int k = 0; k < o->value[i].n; k++) fprintf(f, "%s = %s\n", table[i].info.name, o->value[i].text[k]);
    if (!ot_memstream_close(f)) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- config files ------------------------------------------------------------------ */

typedef struct config_reader {
    ot_options *o;
    const char *path;
    const char *text, *end; /* what is not read yet */
    ot_error *err;
    int line;
    bool too_long;
} config_reader;

/* Called by inih for each pair; 0 makes it stop. */
static int config_pair(void *user, const char *section, const char *name, const char *value)
{
    config_reader *c = user;
    ot_error e = { 0 };
    (void)section; /* config_line lets none through */
    if (!ot_options_set(c->o, name, value, &e)) return 1;
    ot_fail(c->err, e.status, "%s:%d: %-s", c->path, c->line, e.text);
    return 0;
}

/* inih takes the rest of a line that is longer than its buffer for another line. */
static char *config_line(char *buf, int size, void *user)
{
    config_reader *c = user;
    size_t left = (size_t)(c->end - c->text);
    if (!left) return NULL;
    const char *stop = memchr(c->text, '\n', left);
    size_t n = stop ? (size_t)(stop - c->text) + 1 : left;
    c->line++;
    if (n > (size_t)size - 1) {
        ot_fail(c->err, OT_E_USAGE, "%s:%d: the line is longer than %d characters", c->path, c->line, size - 2);
        c->too_long = true;
        return NULL;
    }
    memcpy(buf, c->text, n);
    buf[n] = '\0';
    c->text += n;
    /* An indented line would go on with the one before. */
    size_t blank = strspn(buf, " \t");
    if (blank) memmove(buf, buf + blank, strlen(buf + blank) + 1);
    if (*buf == '[') { /* here, because config_pair is not called for an empty section */
        ot_fail(c->err, OT_E_USAGE, "%s:%d: sections such as %.*s are not supported; expected lines 'key = value'",
                c->path, c->line, (int)strcspn(buf, "\r\n"), buf);
        return NULL;
    }
    return buf;
}

const ot_config_file *ot_options_configs(const ot_options *o, ot_arena *a)
{
    const ot_config_file *all = NULL;
    for (const ot_config_file *c = o->configs; c; c = c->next) {
        ot_config_file *copy = ot_arena_alloc(a, sizeof *copy);
        if (!copy) break; /* without memory for this the caller fails before it writes a file */
        *copy = (ot_config_file){ all, c->id, ot_arena_strdup(a, c->path) };
        all = copy;
    }
    return all;
}

/* A whole file, and which one it is. */
static ot_status open_config(const char *path, ot_config_file *kept, void **text, size_t *n, ot_error *err)
{
    enum { LARGEST = 1 << 24 };
    /* O_NONBLOCK: a pipe is refused instead of waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ot_fail(err, ot_failed_call(errno), "%s: %s", path, strerror(errno));
    ot_status s = ot_file_of_open(fd, &kept->id)
                      ? OT_OK
                      : ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", path, strerror(errno));
    if (!s) s = ot_read_open(fd, path, LARGEST, text, n, err);
    close(fd);
    return s;
}

static ot_status read_config(ot_options *o, const char *path, ot_error *err)
{
    void *text = NULL;
    size_t n = 0;
    ot_config_file *kept = ot_arena_alloc(o->arena, sizeof *kept);
    if (!kept || !(kept->path = ot_arena_strdup(o->arena, path)))
        return ot_fail(err, OT_E_NOMEM, "no memory for options");
    OT_TRY(open_config(path, kept, &text, &n, err));
    kept->next = o->configs;
    o->configs = kept;

    if (memchr(text, 0, n)) {
        free(text);
        return ot_fail(err, OT_E_USAGE, "%s: contains a zero byte; expected a text file", path);
    }
    ot_error first = { 0 };
    config_reader c = { .o = o, .path = path, .err = &first, .text = text, .end = (char *)text + n };
    o->in_config = true;
    int bad = ini_parse_stream(config_line, &c, config_pair, &c);
    o->in_config = false;
    free(text);
    if (first.status) return ot_fail(err, first.status, "%s", first.text);
    if (bad < 0) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    if (bad || c.too_long) return ot_fail(err, OT_E_USAGE, "%s:%d: expected 'key = value'", path, bad);
    return OT_OK;
}
