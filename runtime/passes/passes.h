/* passes.h - the pipeline, in order.
 *
 *     file -importer-> graph -passes-> plan -exec-> weights -exporter-> file
 *
 * A plan is built for concrete shapes: the model's graph is cloned, and the passes below turn the
 * clone into a list of kernels with memory.  A trainer keeps a few plans (the training batch, a
 * short last batch, an evaluation batch) over one set of weights. */
#ifndef OT_PASSES_H
#define OT_PASSES_H

#include "runtime/backends/backend.h"
#include "runtime/base/findings.h"
#include "runtime/base/registry.h"
#include "runtime/graph/graph.h"
#include "runtime/losses/tails.h"

/*    pass       description                                                                    */
#define OT_PASSES(P)                                                                                                 \
    P(classify,    "classifies initializers as weight, statistic or constant, with the reason")                            \
    P(rebatch,     "sets the input shapes from the data; combines several batches of a fixed size")                            \
    P(infer,       "infers types and shapes; folds constants")                      \
    P(fake_quant,  "QuantizeLinear and DequantizeLinear in a row are one rounding with a straight-through gradient") \
    P(pieces,      "replaces Softmax, Sigmoid, Tanh, Softplus and BatchNormalization that the exporter wrote as several operators")                                     \
    P(train_mode,  "sets BatchNormalization and Dropout to training mode; updates running statistics")                                   \
    P(teacher,     "joins the graph of a teacher in evaluation mode (--teacher)")                                   \
    P(loss,        "adds targets, losses and metrics; combines a loss with the last operator")                        \
    P(dropout,     "adds Dropout before the classifier (--add-dropout)")                                                   \
    P(prune,       "keeps only what the results need")                                                               \
    P(batch_input, "assembles batches from the data set, converted and scaled, in the plan")                               \
    P(lower,       "lowers operators to kernel operators")                                                                          \
    P(recognise,   "replaces normalizations, activations and attention that consist of several kernel operators")                                       \
    P(precision,   "chooses the precision; inserts casts")                                                    \
    P(autodiff,    "adds the gradient of each trained weight")                                                            \
    P(optimizer,   "adds accumulation, gradient norm, clipping and the update of each weight")                                            \
    P(fold_scale,  "predictions: scales and shifts that follow convolutions become part of their weights") \
    P(project,     "joins the product of inputs and weights with the recurrent operator that reads it") \
    P(simplify,    "removes unused, repeated and redundant nodes")                                                            \
    P(pad,         "on a device: pads rows of large products, and channels of images, to multiples of 16 bytes")  \
    P(fuse,        "fuses element-wise operators")                                                                     \
    P(layout,      "chooses layouts; inserts conversions")                                                       \
    P(epilogue,    "joins operators with the Map before or after them, if one kernel computes both")          \
    P(schedule,    "orders the nodes and chooses a kernel for each")                                                        \
    P(memory,      "assigns memory")                                                                                    \
    P(recompute,   "computes values of the forward part again in the backward part, if memory is limited")

/* ---- what is wanted -------------------------------------------------------- */

typedef enum ot_want {
    OT_WANT_RUN,     /* the outputs of the file, as it is written */
    OT_WANT_PREDICT, /* outputs in evaluation mode, by weights that may have been trained */
    OT_WANT_EVAL,    /* outputs, loss and metrics in evaluation mode */
    OT_WANT_GRAD,    /* loss and gradients in training mode; Dropout as the options say */
    OT_WANT_TRAIN    /* loss, gradients, update */
} ot_want;

typedef enum ot_precision { OT_FP32, OT_TF32, OT_PREC_BF16, OT_PREC_FP16 } ot_precision;

typedef enum ot_bn { OT_BN_AUTO, OT_BN_TRAIN, OT_BN_FROZEN } ot_bn;

/* Samples in the data set's own form, for plans that make batches themselves (pass batch_input). */
typedef struct ot_feed_set {
    ot_dtype dtype;
    int64_t samples;    /* of the set, selected by index; 0: the fed samples are the batch, in order */
    int64_t elements;   /* per sample */
    int64_t permute[3]; /* {H, W, C}: a sample is (H,W,C) and becomes (C,H,W); {0}: unchanged */
    bool scale;         /* then element i becomes x * mul[c] + add[c], c = (i / inner) % channels, in f32 or f64 */
    int channels;
    int64_t inner;
    const float *mul, *add;
} ot_feed_set;

/* An array that is fed, as passes see it. */
typedef struct ot_feed {
    const char *name; /* of a graph input; targets: "target" or "target_<output>" */
    bool target;      /* only for losses, even if an input has that name */
    ot_dtype dtype;
    ot_shape shape;     /* as fed for one batch */
    bool whole;         /* no batch axis: the same for every batch */
    const void *sample; /* NULL; else the bytes of one batch, for data-dependent decisions (decide.h).  Borrowed */
    const void *data;   /* NULL; else its bytes: the plan is for these only (data-dependent sizes).  Borrowed */
    bool binary;        /* targets: every value of the data set is 0 or 1 */
    bool varies;        /* and both occur */
    bool named;         /* targets: numbers of texts, such as no and yes */
    bool mixed;         /* targets: probabilities that stand for class numbers (mixup) */
    bool ignores;       /* targets: some class numbers are OT_IGNORED, and no ignore_index is given */
    bool blank;         /* targets: of a batch perhaps every class number is ignored: the mean of nothing is 0 */
    int batch_axis;     /* targets: the sample axis of the output that they belong to */
    bool by_rows;       /* targets: the leading elements of the output's samples are consecutive along its first axis */
    bool adds_up[2];    /* targets: values are not negative, and sum to 1 over the first axis of a sample (the last) */
    bool examined;      /* targets: every value of the data set was looked at for binary and adds_up */
    const ot_feed_set *set; /* NULL: batches are ready-made.  Borrowed while the plan is made */
} ot_feed;

/* Has the plan averages of weights? */
#define ot_averages(options) ((options)->ema > 0 || (options)->swa_every > 0)

/* A model whose outputs a training learns from (--teacher). */
typedef struct ot_teacher {
    const ot_graph *graph; /* of its file; outlives the plans */
    const char *path;
    ot_spec how; /* of ot_teachers (runtime/losses) */
} ot_teacher;

/* The options that apply to every plan of a training or an evaluation: parsed into ot_settings, copied to ot_config. */
typedef struct ot_plan_options {
    int n_losses;
    ot_spec *losses; /* 0: chosen by the loss pass, one per output with a target */
    ot_spec optimizer;
    double clip_norm, clip_value; /* 0: none */
    double l1;                    /* penalty: this times the sum of absolute values of weights */
    int64_t lookahead;            /* updates between synchronisations with slow weights; 0: none */
    double lookahead_alpha;       /* the step of the slow weights */
    double ema;                   /* decay of averaged weights; 0: none */
    /* equal averages: of the weights every swa_every updates after number swa_after, and of those after swa_last; 0: none */
    int64_t swa_after, swa_every, swa_last;
    bool skip_nonfinite; /* an update with a non-finite loss or gradient changes nothing */
    ot_bn bn;
    bool bn_unbiased;   /* running variance as in PyTorch */
    double dropout;     /* < 0: as in the file; 0: off */
    double add_dropout; /* of a Dropout before the classifier; 0: none */
    int n_train;
    const char *const *train; /* globs over initializer names */
    int n_freeze;
    const char *const *freeze;
    int n_no_decay;
    const char *const *no_decay;
    int n_lr_scale;
    const char *const *lr_scale;
    const double *lr_scale_by;
    double layer_decay; /* factor on the rate per layer from the output back; 1: none */
    int n_unfreeze;
    const char *const *unfreeze;
    const int64_t *unfreeze_at; /* epoch, from 1, in which the pattern's weights begin to train */
    int n_only;                 /* > 0: weights are frozen that are not among these, nor match `train` or `unfreeze` */
    const char *const *only;    /* names */
    bool tie;        /* copies of another weight train as one with it, in files that do not list their parameters too */
    bool fit_scales; /* of trained weights that the file stores as integers: computed from them; else as in the file */
    bool eval_mode;  /* run: force evaluation mode */
    bool keep_gradients; /* the host reads them after an update, too */
    bool apart; /* another batch size than the file's: unroll every operator over its batches (found by together.c) */
    ot_precision precision;    /* what f32 operators compute in */
    const ot_teacher *teacher; /* NULL: none */
} ot_plan_options;

/* One plan. */
typedef struct ot_config {
    ot_want want;
    ot_plan_options options;
    int n_feeds;
    const ot_feed *feeds;
    int accumulate;          /* >= 1 */
    int64_t epoch_updates;   /* updates of an epoch, for unfreeze */
    bool schedules_momentum; /* onecycle's cycle_momentum: the momentum changes with the schedule */
    int n_wanted;
    const char *const *wanted; /* run: outputs to compute; 0: all */
    int threads;
    bool ref_only;     /* reference kernels only, for tests */
    ot_device *device; /* the device; NULL: the CPU.  Borrowed, outlives the plan */
    struct ot_decisions
        *decisions; /* data-dependent decisions (decide.h): read, and completed; NULL: none are possible */
    const void *(*state)(void *user, const ot_value *v);
    void *user;   /* for decisions: the current bytes of a weight or state; NULL: as in the file */
    bool partial; /* outputs that cannot be computed are skipped, as long as one remains */
    bool fixed;   /* CPU, no training: weights stay where the model has them, if they lie there as the plan wants */
    bool settled; /* and what depends on them only is computed while planning (settle.c, fold_scale.c) */
    bool tune;    /* measure kernels that have no timing for this device (tune.c) */
    int64_t scratch_limit; /* TRAIN: bytes of the scratch slab above which values are computed again; 0: none */
    bool saves_memory;     /* TRAIN on the CPU, without a limit: large values that cost little are computed again */
} ot_config;

/* ---- the result ------------------------------------------------------------ */

typedef struct ot_kernel ot_kernel;

/* A candidate that was not chosen. */
typedef struct ot_refusal {
    const ot_kernel *kernel;
    const char *why;
} ot_refusal;

/* One node of the schedule. */
typedef struct ot_step {
    const ot_node *node;
    const ot_kernel *kernel;
    const char *how; /* the variant, in the kernel's words; "": it has only one */
    int variant;     /* its number; 0: the first choice */
    double tuned;    /* measured seconds, if it was chosen by timing (tune.c); 0: chosen by the order of candidates */
    int n_refused;   /* earlier candidates that refused, or have lower priority */
    const ot_refusal *refused;
    void *state;  /* the kernel's */
    int64_t work; /* offset of its workspace in the scratch slab; -1: none */
    int64_t work_bytes;
    int64_t held;      /* bytes that its state has, of packed weights */
    const void *table; /* for the kernel's state: memory that a device keeps for it; NULL: none */
    size_t table_bytes;
    int group; /* steps in the launch that starts here (ot_grouped); 1: not grouped; 0: in an earlier group */
} ot_step;

/* Does a step run a kernel?  The result of others is their input's memory. */
bool ot_step_runs(const ot_step *s);

/* Scalars that the host sets before a run; each is an OT_INPUT of rank 0. */
typedef struct ot_step_scalars {
    ot_value *lr, *momentum; /* f64: learning rate; momentum (sgd) or beta1, which a schedule may change */
    ot_value *t; /* f64: number of the update, from 1; NULL: counted in the graph, if updates may be skipped */
    ot_value *seed, *counter; /* u64: for random instructions: key, number of the batch */
} ot_step_scalars;

/* An input whose batches the plan makes from the fed `data`. */
typedef struct ot_made_input {
    const ot_value *input;
    ot_value *data;
} ot_made_input;

/* One of several losses of a plan, without its weight: the output that it acts on and its index among the plan's
 * kept values; likewise its count of correct answers and the number of answers; -1: it has none. */
enum { OT_HEADS = 16 };
typedef struct ot_head {
    const char *output, *name;    /* the name: of the output, OUTPUT/LOSS where it has several losses */
    int kept, right, of, divisor; /* among the plan's kept values; -1: none */
    double weight;                /* of this loss in the sum */
} ot_head;

/* A loss without --loss: chosen from the end of an output and its target. */
typedef struct ot_default_loss {
    const char *output, *name;
} ot_default_loss;

typedef struct ot_plan {
    ot_graph *graph; /* the final one; owns everything below */
    ot_error sticky; /* the graph's err while passes run */
    ot_step_scalars knobs;
    int threads;                /* of every run */
    ot_device *device;          /* the device; NULL: the CPU */
    int before_loss;            /* values with a smaller id are those of the file */
    bool described;             /* for ot_plan_describe */
    bool own;                   /* trained by the file's own algorithm: the graph comes with assignments */
    const struct ot_plan *like; /* whose state slab this plan shares; NULL: its own */
    int n_kept;
    ot_value **kept; /* values the host reads after a run: never overwritten */
    int n_copies;
    ot_assign *copies; /* assignments not done in place: copied at the end of their phase */
    ot_value *loss;    /* scalar f32/f64 in the graph; NULL: none */
    int n_losses;      /* the terms of its sum */
    int n_heads;
    ot_head head[OT_HEADS]; /* the losses if there are several; the first OT_HEADS */
    int n_defaults;
    ot_default_loss defaults[OT_HEADS]; /* the first OT_HEADS */
    int64_t weighted_classes
        [OT_HEADS]; /* by loss of the options: the classes that its class_weights or pos_weight are for; 0: none */
    int class_axis
        [OT_HEADS];       /* by loss of the options, else of `defaults`: of outputs with more than two axes; 0: none */
    int64_t micro;        /* number of batches of the file's own size in this batch; 0: it has the file's size */
    int64_t baked;        /* that size, if the batch size differs, as a multiple or not; 0: it has the file's size */
    ot_value *grad_norm;  /* scalar; TRAIN only */
    ot_value *loss_scale; /* fp16: f32 state; an update with a non-finite grad_norm changes only this.  Else NULL */
    ot_value *correct, *counted; /* metrics: scalars f32; NULL: none */
    const char *counted_of;      /* the output that they measure */
    ot_value *divisor; /* EVAL, of a single loss: what its mean divides by; NULL: by `counted`, or the samples */
    int n_weights;
    ot_value **weights; /* trained, in file order */
    int *
        kept_grad; /* keep_gradients: where each weight's gradient is in `kept`; -1: it has none.  NULL: without keep_gradients */
    int n_states;
    ot_value **states;      /* weights, statistics, moments: all in the state slab */
    ot_value **state_index; /* the same, sorted by identity (ot_same_state) */
    int n_targets;
    ot_value **targets; /* inputs that the loss pass made */
    ot_value **fed;     /* by feed of the configuration: the input that reads it; NULL: none */
    int n_sets;
    ot_made_input *sets;
    ot_tail_kind *
        tails; /* by output: what the network ends in there (tails.h), with its pieces joined, else what its loss expects */
    int *class_axes;   /* by output: along which its classes would lie, by the operator that makes it; -1: unknown */
    bool *exponential; /* by output: by its loss it is the logarithm of the prediction; NULL: none is */
    bool *by_class;    /* by output: its target has a probability for each class; NULL: none has */
    int n_spread;
    const char **spread; /* RUN: names of outputs after the file's own: NAME/0 ... for a sequence */
    int n_reached;
    ot_value **reached; /* with data-dependent decisions: weights that lead to the loss in some decision */
    int n_made;
    ot_value **made; /* inputs that the host computes for every batch, in the order of its decisions (decide.h) */
    ot_value *index; /* i64 per sample of the batch: its index in the sets; NULL: not needed */
    int n_batch_steps, n_update_steps;
    ot_step *batch_steps, *update_steps; /* OT_PHASE_BATCH and OT_PHASE_UPDATE nodes in order */
    int64_t state_bytes, scratch_bytes, const_bytes;
    int64_t settled_bytes;   /* of const_bytes: computed from weights while planning (settle.c) */
    int64_t folded_bytes;    /* of settled_bytes: weights that were scaled (fold_scale.c) */
    int bf16_products;       /* on the CPU: matrix products and convolutions whose operands are rounded to bfloat16 */
    int n_recomputed;        /* values of the forward part that are computed again in the backward part */
    double recomputed_cost;  /* by operations and bytes, as a part of all computation without them */
    struct ot_plan *teacher; /* whose constants the graph reads; NULL: there is none */
    int n_taught;
    ot_value **taught;          /* its outputs, in this graph */
    bool learns;                /* an output learns from one of them */
    int taught_from, taught_to; /* ids of its values, the latter excluded */
    ot_findings findings; /* for the user: combined tails, batch size changed from 1 to 64, ...; in the graph's arena */
} ot_plan;

/* The approximate number of elements that the plain loops of a kernel operator touch for n; its shapes are known. */
int64_t ot_node_work(const ot_node *n);

/* Its floating-point operations (a product and a sum are two), and the bytes of what it reads and writes, each tensor
 * once; of a table only the rows that are gathered.  A view has neither. */
double ot_node_flops(const ot_node *n);
double ot_node_bytes(const ot_node *n);

/* Builds a plan for the model.  `like`: a plan whose state slab this one shares (the same states, at the same
 * offsets); NULL: this plan lays the slab out.  Free with ot_plan_free. */
ot_status ot_plan_new(const ot_graph *model, const ot_config *c, const ot_plan *like, ot_plan **out, ot_error *err);
void ot_plan_free(ot_plan *p);

/* Computes values of the forward part again, until p fits c->scratch_limit or nothing more can be saved; p is a finished
 * plan without recomputation, made with c otherwise. */
ot_status ot_plan_limit(ot_plan *p, const ot_config *c, ot_error *err);

/* Describes a training: the file's operators, the loss as kernel operators, one Gradient, and the updates of the
 * weights from these sources, assigned.  The result does not run. */
ot_status ot_plan_describe(const ot_graph *model, const ot_config *c, const int *sources, int n, ot_plan **out,
                           ot_error *err);

/* The pipeline up to the pass infer: out->graph has the values of the file, by their names, with types and shapes. */
ot_status ot_plan_infer(const ot_graph *model, const ot_config *c, ot_plan **out, ot_error *err);

/* The pipeline up to the pass train_mode, of c->want RUN: the operators of the file in the mode of c->options.eval_mode, every
 * initializer a constant. */
ot_status ot_plan_inference(const ot_graph *model, const ot_config *c, ot_plan **out, ot_error *err);

/* ---- own.c: the file's own algorithm, whose graph has assignments (importer/training.c) ---------- */

ot_status ot_own_classify(ot_plan *p,
                          const ot_config *c); /* what it assigns trains or is a state; nothing else changes */
ot_status ot_own_loss(ot_plan *p);             /* the tensor with respect to which it differentiates */

/* ---- the passes ------------------------------------------------------------ */

#define OT_DECLARE(name, leaves) ot_status ot_pass_##name(ot_plan *p, const ot_config *c);
OT_PASSES(OT_DECLARE)
#undef OT_DECLARE

/* ---- shared by passes ------------------------------------------------------ */

/* layers.c: sets w->layer of every weight, on the graph of ONNX operators. */
ot_status ot_find_layers(ot_plan *p);

/* Infers one node and folds it if it can be. */
ot_status ot_infer_node(ot_graph *g, ot_node *n);

/* Infers every node and unrolls control flow; removes nodes that are constant then. */
ot_status ot_infer_graph(ot_graph *g);

/* The same for the graph of a plan.  c->partial: if a node fails, the outputs that need it are skipped, with a
 * finding (partial.c).  OT_E_MODEL: none would remain. */
ot_status ot_infer_plan(ot_plan *p, const ot_config *c);

/* Skips outputs that need unknown operators. */
ot_status ot_leave_out_unsupported(ot_plan *p);

/* Like ot_infer_graph, up to the node that fails, *at; lists may remain. */
ot_status ot_infer_nodes(ot_graph *g, ot_node **at);

/* If *at is control flow, replaces it by its expansion and sets *at to the first node of that.  Called before a node
 * is inferred, when its inputs are. */
ot_status ot_spell_out(ot_graph *g, ot_node **at);

/* Lowers every node until only kernel operators are left, of those that a lowering may choose from only such as the device has
 * (NULL: the CPU). */
ot_status ot_lower(ot_graph *g, const ot_device *d);

/* Replaces the outputs of n by those in b->yield and removes n; the new nodes are between prev (NULL: the head of
 * the list) and n. */
struct ot_build;
ot_status ot_lower_yield(struct ot_build *b, ot_node *n, ot_node *prev);

/* Keeps v for the host to read after a run.  Returns its index among the kept values; -1: no memory. */
int ot_plan_keep(ot_plan *p, ot_value *v);

/* Is v read by other than nodes: as an output, an assigned or a kept value, a loss or a count? */
bool ot_plan_reads(const ot_plan *p, const ot_value *v);

/* Removes what no kept value, output, assignment or loss needs. */
void ot_prune(ot_plan *p);

/* The state of another plan of the same model that corresponds to v (I5 of graph.h); NULL: none. */
const ot_value *ot_same_state(const ot_plan *like, const ot_value *v);

/* Do the two layouts differ for this shape? */
bool ot_layout_matters(const ot_shape *s);

/* Gives weights, and the operands of their updates, the layouts that convolutions prefer; runs before other layouts
 * are chosen. */
ot_status ot_weight_layout(ot_plan *p, const ot_config *c);

/* Does a pattern over initializer names (with *, ?, [abc]) match?  -1: no.  The more specific the pattern, the larger the
 * number: by its literal characters; an exact name beats every glob. */
int ot_pattern_rank(const char *pattern, const char *name);

/* Adds a finding for the user; this one is about the whole plan. */
ot_findings *ot_plan_findings(ot_plan *p);
void ot_plan_note(ot_plan *p, const char *fmt, ...) OT_PRINTF(2, 3);

/* Is it frozen because an option says so: --freeze, --freeze-backbone, --lora? */
bool ot_frozen(const ot_value *v);
bool ot_frozen_by_name(const ot_value *v); /* by --freeze */

/* value->mark: OT_FED where it depends on an input of the graph, else 0. */
enum { OT_FED = 1 };
void ot_mark_fed(ot_graph *g);

/* Will Dropout n act in the plan?  Its training_mode, where the plan keeps the mode of the file, is a constant. */
bool ot_dropout_acts(const ot_config *c, const ot_node *n);

/* Sets n, a copy in g of a node that the pass train_mode has not seen yet, to the mode that `of` will have.
 * fed: the first input of `of` depends on an input of its graph. */
ot_status ot_set_mode_as(const ot_config *c, const ot_node *of, bool fed, ot_graph *g, ot_node *n);

/* ---- review.c --------------------------------------------------------------- */

typedef struct ot_review {
    ot_findings *findings;
    bool eval;          /* no training is intended: findings about training alone are skipped */
    const bool *unread; /* by source: tensors that are not searched for NaN; NULL: all are */
    bool unfolds;       /* convolutions get a norm while training (unfold.h) */
    bool part;          /* the graph is not the file's whole: it was cut, or has the inputs of a training algorithm */
    int norms, dropouts, draws; /* nodes whose results differ in evaluation mode from the file's; random ones */
    int weights, quantised;     /* initializers of the graph that train; those stored as integers that do not */
    int64_t quantised_elements;
    int roundings; /* nodes that round floats to integers of a scale */
    int modes;     /* nodes that compute in an evaluation what the file does not say, or each time something else */
} ot_review;

extern const char ot_remedy_quantised[];

/* Examines the graph of a file after ot_pass_classify, and adds to out->findings what a user who trains it should
 * know.  producer: as named in the file.  Marks values. */
void ot_review_graph(ot_graph *g, const char *producer, ot_review *out);

#endif
