/* graph.h - values, nodes, and the arena that owns them.
 *
 * A graph is in static single assignment: a value has one producer.  State that outlives a step
 * (weights, optimizer moments, running statistics) is a value of role OT_WEIGHT or OT_STATE that
 * is read like other values; a new value is given by an assignment (ot_graph_assign),
 * carried out in place by the memory plan.
 *
 * Invariants, checked by verify.c:
 *   I1  every input of a node is produced earlier in the list, or has no producer.
 *   I2  v->producer->out[v->port] == v for every value with a producer.
 *   I3  after infer every value has a known dtype and shape whose bytes fit in int64_t.
 *   I4  a value with data has role OT_CONST, OT_WEIGHT or OT_STATE, and no producer or a folded one.
 *   I5  a weight or a state is identified by the tensor of the file that it comes from (source), or by the weight that
 *       it belongs to and its kind (of, kind).  The identity is unique within a graph and the same in all plans of a
 *       model.  Names are for users (options, arrays of data, reports) and for the exporter: they need not be unique,
 *       and values made by the program are never looked up by name.
 *   I6  inputs and outputs of a kernel operator have the types and shapes of its rule (op.h).
 *
 * Errors stick (graph->err): after the first failure builders return NULL and do nothing, so a
 * pass may check once at its end. */
#ifndef OT_GRAPH_H
#define OT_GRAPH_H

#include "runtime/base/base.h"

typedef struct ot_op ot_op; /* ops/op.h */
typedef struct ot_node ot_node;
typedef struct ot_value ot_value;
typedef struct ot_graph ot_graph;
typedef struct ot_stored ot_stored; /* passes/stored.h */

typedef enum ot_role {
    OT_TEMP,   /* produced by a node */
    OT_INPUT,  /* fed by the caller at every run */
    OT_CONST,  /* constant */
    OT_WEIGHT, /* trained */
    OT_STATE   /* changes without being trained: running statistics, moments, counters */
} ot_role;

/* The kind of a state that training makes, other than those of the file, and its name for users:
 * "<weight>/momentum", or "onnxtrain.updates" for one of the whole training. */
#define OT_STATE_KINDS(X)                                                              \
    X(ACCUMULATED, "accumulated") /* gradients, or losses, of the batches of an update */ \
    X(MASTER, "master")           /* f32 master of a weight in half precision */             \
    X(MOMENTUM, "momentum")                                                            \
    X(M, "m")                     /* averages of gradients, of their squares, ... */   \
    X(V, "v")                                                                          \
    X(V_MAX, "v_max")                                                                  \
    X(MEAN, "mean")                                                                    \
    X(SUM, "sum")                                                                      \
    X(DELTA, "delta")                                                                  \
    X(U, "u")                                                                          \
    X(MU, "mu")                   /* a running product */                              \
    X(AVERAGE, "average")         /* of a weight or a statistic over updates (--ema, --swa) */ \
    X(SLOW, "slow")               /* the weight at the last synchronisation (--lookahead) */ \
    X(UPDATES, "updates")         /* number of updates that took place */                                \
    X(LOSS_SCALE, "loss_scale")                                                        \
    X(LOSS_SCALE_COUNT, "loss_scale_count") /* successful updates in a row */

typedef enum ot_state_kind {
    OT_STATE_OF_FILE, /* or not a state */
#define X(kind, text) OT_STATE_##kind,
    OT_STATE_KINDS(X)
#undef X
        OT_STATE_KIND_COUNT
} ot_state_kind;

typedef enum ot_said {
    OT_SAID_NOTHING,
    OT_SAID_PARAMETER,
    OT_SAID_BUFFER,
    OT_SAID_FROZEN /* judged by the form of a decomposed norm */
} ot_said;

/* The kind of an input of the file that is not a tensor; its dtype and shape are then those of its elements. */
enum { OT_INPUT_LIST = 1, OT_INPUT_OPTIONAL = 2 };

/* The memory layout of values of rank >= 3.  Shapes are always logical (N, C, ...). */
typedef enum ot_layout {
    OT_PLAIN,        /* row-major */
    OT_CHANNELS_LAST /* N, spatial axes, C */
} ot_layout;

/* A graph has many: small fields are bits. */
struct ot_value {
    const char *name;  /* ONNX's name, or one derived from the node's; never NULL */
    ot_node *producer; /* NULL: none */
    const void *data;  /* OT_CONST: its bytes.  OT_WEIGHT, OT_STATE: its initial bytes.
                             * Borrowed from the model or owned by the graph's arena. */
    ot_value *of;      /* states that training makes: their weight (AVERAGE: or statistic); NULL: the whole training */
    ot_value *grad;    /* set by autodiff; NULL: none */
    const char *left_out; /* of an output of the file: why it cannot be computed; it is then empty.  NULL: it can */
    const char *const *dim_names; /* inputs of the file: symbolic names by axis; may be NULL */
    const ot_value *labels;       /* a list of constants: what the file calls its columns, classes; NULL: nothing */
    const char *why;              /* set by classify: the reason for its role; NULL: not classified */
    const ot_op *slot_op;         /* set by classify: the slot that decided; NULL: none */
    const ot_stored *stored;      /* set by classify: quantised in the file; NULL: as it is here */
    ot_shape shape;               /* rank -1 before infer */
    int id;                       /* index in graph->values */
    int port;                     /* which output of the producer */
    int source;                   /* index of the tensor of the file that it comes from (model.h), -1: none */
    int slot_input;               /* with slot_op */
    int layer;                    /* of a weight, with --layer-decay: depth of its node (layers.c); -1: unknown */
    int mark;                     /* scratch of the current pass */
    ot_dtype dtype;               /* OT_UNDEFINED before infer */
    ot_dtype declared;            /* of an output of a graph of the file: its declared type; OT_UNDEFINED: none */
    ot_role role : 4;
    ot_layout layout : 4;
    ot_said said : 4;        /* of a tensor of the file: its name in the exporter's signature */
    unsigned list : 4;       /* of an input of the file: OT_INPUT_*, until the data determine it (train/run/lists.c) */
    ot_state_kind kind : 8;  /* of a state that training makes */
    unsigned slab : 4;       /* OT_SLAB_*, of a base; written by passes/memory.c */
    bool differentiated : 1; /* a Gradient by it exists: what depends on it is not folded until that is built */
    bool from_constant : 1;  /* the value of a Constant node of the file */
    bool table : 1;          /* set by classify: trains by name and use, though its values look like a table's */
    bool undecided : 1;      /* set by classify: constant by use only, though its name may be a parameter's */
    bool copy : 1;           /* set by autodiff: of a weight: a copy of another one, with its gradient */
    bool half : 1;           /* set by classify: of a weight: the second half of its last axis stays as it is */
    bool second : 1; /* of an adapter: the second of its two matrices, of the same layer as the first (lora.c) */

    /* Written by passes/memory.c, read by exec/. */
    ot_value *base; /* the base whose memory it shares (a view, an in-place result); itself: its own memory */
    int64_t offset; /* bytes into the slab, of a base */
};

enum {
    OT_SLAB_NONE,    /* needs no memory: never read */
    OT_SLAB_STATE,   /* weights, statistics, moments: outlives the step */
    OT_SLAB_SCRATCH, /* activations, gradients */
    OT_SLAB_FED,     /* an input: the caller's bytes */
    OT_SLAB_CONST    /* v->data */
};

/* When a node runs. */
typedef enum ot_phase {
    OT_PHASE_BATCH, /* for every batch */
    OT_PHASE_UPDATE /* once per optimizer update, after its batches */
} ot_phase;

/* The part of a training that a node belongs to.  A node that reads a later part's values is of that part. */
typedef enum ot_stage { OT_STAGE_FORWARD, OT_STAGE_BACKWARD, OT_STAGE_UPDATE, OT_STAGES } ot_stage;

struct ot_node {
    const ot_op *op;
    const char *name; /* from the ONNX file, or derived from its outputs; never NULL */
    const char *made; /* the pass that made it for no node of the file, or what that was lowered to; NULL: for one */
    ot_stage stage;
    bool again;        /* computes a value of the forward part again (passes/recompute.c) */
    const void *attrs; /* op-specific struct, owned by the arena; NULL if op->attr_size is 0 */
    int n_in, n_out;
    ot_value **in;  /* in[i] == NULL: optional input missing */
    ot_value **out; /* out[i] == NULL: optional output not needed */
    ot_phase phase;
    ot_graph *graph;
    ot_node *prev, *next;
    int mark;
};

static inline bool ot_is(const ot_node *n, const ot_op *op) { return n && n->op == op; }

typedef struct ot_assign {
    ot_value *state, *value;
} ot_assign;

/* Limits on the growth of a graph and its subgraphs together.  A few bytes of a file can request nested loops and
 * constants of any size: the node is refused before they are made. */
typedef struct ot_room {
    size_t most;                  /* bytes of the arena */
    int64_t work;                 /* elements that folding may still compute */
    int64_t copies;               /* nodes and values that may still be copied for the iterations of loops */
    int branches;                 /* If nodes with a data-dependent condition of which both branches are computed */
    struct ot_decider *decider;   /* makes data-dependent decisions (passes/decide.h); NULL: none are possible */
    struct ot_folded *folded;     /* large constants that folding has computed (passes/infer.c) */
    struct ot_findings *findings; /* findings of the plan, for the rules of operators; NULL: not collected */
    const char *at;    /* the node being unrolled, folded, lowered or differentiated, for messages; NULL: none */
    const char *at_op; /* its operator */
} ot_room;

struct ot_graph {
    ot_arena *arena;  /* owns every node and value */
    ot_error *err;    /* the caller's; sticky */
    ot_room *room;    /* shared with subgraphs */
    ot_graph *parent; /* of a subgraph: the graph whose values its nodes may read; else NULL */
    const char *name;
    ot_node *first, *last;
    ot_node *cursor;  /* new nodes are inserted before it; NULL: at the end */
    ot_phase phase;   /* of new nodes */
    ot_stage stage;   /* of new nodes, at least */
    const char *pass; /* that runs; NULL: none */
    ot_value **values;
    int n_values, cap_values;
    ot_value **inputs;
    int n_inputs, cap_inputs;
    ot_value **outputs;
    int n_outputs, cap_outputs;
    ot_assign *assigns;
    int n_assigns, cap_assigns;
    int n_nodes;
    bool listed;              /* the file's signature lists its parameters, some of which it contains by name */
    int lost_parameters;      /* tensors that it lists and that the file does not contain by name */
    bool lost_biases;         /* some of those may be biases */
    bool accounted;           /* operands of products stand for all of those; set by pass classify */
    bool tie;                 /* set by classify: ot_plan_options.tie */
    const char *made_by;      /* the program that wrote the file, as the file names it; NULL: unknown */
    ot_value *seed, *counter; /* u64 scalars that random instructions read; NULL until needed */
};

/* NULL: no memory.  err must outlive the graph.  Its growth is unlimited; a clone's is limited. */
ot_graph *ot_graph_new(ot_error *err);
ot_graph *ot_graph_sub(ot_graph *parent, const char *name); /* shares arena and err with its parent */
void ot_graph_free(ot_graph *g);

/* Puts a node that is in no list before `at`; NULL: at the end. */
void ot_graph_link(ot_graph *g, ot_node *n, ot_node *at);

/* Sets room->at, for messages; NULL: none. */
void ot_graph_at(ot_graph *g, const ot_node *n);

/* A copy of a name.  NULL is recorded: builders check only the graph's error. */
const char *ot_graph_name(ot_graph *g, const char *name);

/* Zeroed; NULL and a recorded error that names room->at: no memory, or beyond the graph's limit. */
void *ot_graph_alloc(ot_graph *g, size_t n);

/* Makes a value without a producer.  s may be NULL: shape unknown.  The name is copied; or it lasts as long as the graph. */
ot_value *ot_graph_value(ot_graph *g, const char *name, ot_role role, ot_dtype t, const ot_shape *s);
ot_value *ot_graph_value_named(ot_graph *g, const char *lasting, ot_role role, ot_dtype t, const ot_shape *s);

/* A constant with a copy of the bytes; and one whose bytes are in the graph's arena already. */
ot_value *ot_graph_const(ot_graph *g, const char *name, ot_dtype t, const ot_shape *s, const void *bytes);
ot_value *ot_graph_const_of(ot_graph *g, const char *name, ot_dtype t, const ot_shape *s, const void *bytes);

/* Makes a state for the weight `of` (NULL: for the whole training), initially `start` everywhere.  It must be the
 * first of its kind for that weight. */
ot_value *ot_graph_state(ot_graph *g, ot_state_kind kind, ot_value *of, ot_dtype t, const ot_shape *s, double start);

/* Is v, which may be NULL, a value of g itself?  (Nodes of a subgraph read values of its parents too.) */
static inline bool ot_graph_has(const ot_graph *g, const ot_value *v)
{
    return v && v->id < g->n_values && g->values[v->id] == v;
}

/* Input i of a node, NULL if missing. */
static inline ot_value *ot_node_in(const ot_node *n, int i) { return i < n->n_in ? n->in[i] : NULL; }

/* Makes a node at the cursor with n_out fresh TEMP outputs of unknown type.  attrs is copied
 * (op->attr_size bytes; NULL: the defaults of the operator).  Does not infer. */
ot_node *ot_graph_node(ot_graph *g, const ot_op *op, const char *name, const void *attrs, ot_value *const *in, int n_in,
                       int n_out);

void ot_graph_remove(ot_graph *g, ot_node *n); /* its outputs must be unused */
void ot_graph_input(ot_graph *g, ot_value *v);
void ot_graph_output(ot_graph *g, ot_value *v);
void ot_graph_assign(ot_graph *g, ot_value *state, ot_value *value);

/* Replaces every use of `old` (inputs of nodes, outputs, assignments, also in subgraphs) by `now`.  Walks the graph. */
void ot_graph_replace(ot_graph *g, ot_value *old, ot_value *now);

/* Sets node->mark of every node that depends on a marked one, through subgraphs too, and value->mark of the outputs
 * of marked nodes; clears the marks of other values.  Walks the graph. */
void ot_graph_mark_behind(ot_graph *g);

/* Is v an output, what a state is set to, or read by a node, also of a subgraph?  Walks the graph. */
bool ot_graph_reads(const ot_graph *g, const ot_value *v);

/* A deep copy: own arena, own nodes and values, subgraphs too.  Constant bytes and attribute lists stay
 * the source's, which must outlive the copy.  Its growth is limited by the size of the source.  NULL: no memory, or
 * an error recorded in err. */
ot_graph *ot_graph_clone(const ot_graph *src, ot_error *err);

/* A copy of a subgraph beside it that reads the same values of its parents, and inputs[i] (which may be the parents'
 * too) for its input i.  Takes time and memory proportional to its size.  NULL: no memory, recorded. */
ot_graph *ot_graph_copy_sub(const ot_graph *sub, ot_value *const *inputs);

int64_t ot_graph_size(const ot_graph *g); /* number of nodes and values, subgraphs included */

/* The two inputs of random instructions: the run's key, and the number of the batch. */
ot_value *ot_graph_seed(ot_graph *g);
ot_value *ot_graph_counter(ot_graph *g);

/* verify.c: checks I1, I2, I4, I5.  `typed`: I3 and I6 too. */
ot_status ot_graph_verify(const ot_graph *g, bool typed, ot_error *err);

/* print.c: the stable text form.  Caller frees the string with free(); NULL: no memory. */
char *ot_graph_text(const ot_graph *g);

#endif
