/* graph.h - values, nodes, and the arena that owns them.
 *
 * A graph is in static single assignment: a value has one producer.  State that outlives a step
 * (weights, optimizer moments, running statistics) is a value of role OT_WEIGHT or OT_STATE that
 * is read like any other; "from now on it is that value" is an assignment (ot_graph_assign),
 * carried out in place by the memory plan.
 *
 * Invariants, checked by verify.c:
 *   I1  every input of a node is produced earlier in the list, or has no producer.
 *   I2  v->producer->out[v->port] == v for every value with a producer.
 *   I3  after infer every value has a known dtype and shape whose bytes fit in int64_t.
 *   I4  a value with data has role OT_CONST, OT_WEIGHT or OT_STATE, and no producer or a folded one.
 *   I5  a weight or a state is known by what it is: the tensor of the file it comes from (source), or the weight it
 *       was made for and what of it (of, kind).  No two of a graph are the same, and plans of one model agree by it.
 *       Names are for people (options, arrays of data, reports) and for the exporter: they need not be unique, and
 *       nothing that the program made is looked up by one.
 *   I6  what a kernel operator reads and writes has the types and shapes of its rule (op.h).
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
    OT_CONST,  /* never changes */
    OT_WEIGHT, /* trained */
    OT_STATE   /* changes, is not trained: running statistics, moments, counters */
} ot_role;

/* What a state is that training makes, beside what comes from the file, and how people see it: "<weight>/momentum", or
 * "onnxtrain.updates" for one of the whole training. */
#define OT_STATE_KINDS(X)                                                              \
    X(ACCUMULATED, "accumulated") /* gradients, or losses, of the batches of an update */ \
    X(MASTER, "master")           /* f32, of a weight in half precision */             \
    X(MOMENTUM, "momentum")                                                            \
    X(M, "m")                     /* averages of gradients, of their squares, ... */   \
    X(V, "v")                                                                          \
    X(V_MAX, "v_max")                                                                  \
    X(MEAN, "mean")                                                                    \
    X(SUM, "sum")                                                                      \
    X(DELTA, "delta")                                                                  \
    X(U, "u")                                                                          \
    X(MU, "mu")                   /* a running product */                              \
    X(UPDATES, "updates")         /* that took place */                                \
    X(LOSS_SCALE, "loss_scale")                                                        \
    X(LOSS_SCALE_COUNT, "loss_scale_count") /* updates that went well in a row */

typedef enum ot_state_kind {
    OT_STATE_OF_FILE, /* or no state at all */
#define X(kind, text) OT_STATE_##kind,
    OT_STATE_KINDS(X)
#undef X
        OT_STATE_KIND_COUNT
} ot_state_kind;

typedef enum ot_said {
    OT_SAID_NOTHING,
    OT_SAID_PARAMETER,
    OT_SAID_BUFFER,
    OT_SAID_FROZEN /* by how a norm is spelled */
} ot_said;

/* What an input of the file is beside a tensor, if it is: dtype and shape are then those of its elements. */
enum { OT_INPUT_LIST = 1, OT_INPUT_OPTIONAL = 2 };

/* How the elements of a value of rank >= 3 lie in memory.  Shapes are always logical (N, C, ...). */
typedef enum ot_layout {
    OT_PLAIN,        /* row-major */
    OT_CHANNELS_LAST /* N, spatial axes, C */
} ot_layout;

struct ot_value {
    const char *name; /* ONNX's name, or one made from the node's; never NULL */
    int id;           /* index in graph->values */
    ot_dtype dtype;   /* OT_UNDEFINED before infer */
    ot_shape shape;   /* rank -1 before infer */
    ot_role role;
    ot_layout layout;
    ot_node *producer;   /* NULL: none */
    int port;            /* which output of the producer */
    const void *data;    /* OT_CONST: its bytes.  OT_WEIGHT, OT_STATE: its bytes at the start.
                           * Borrowed from the model or owned by the graph's arena. */
    int source;          /* which tensor of the file it comes from (model.h), -1: none */
    ot_value *of;        /* states that training makes: for which weight; NULL: for all */
    ot_state_kind kind;  /* and what they are */
    ot_dtype declared;   /* of an output of a graph of the file: the type it says; OT_UNDEFINED: none */
    int list;            /* of an input of the file: OT_INPUT_*, until the data say what there is (train/lists.c) */
    ot_said said;        /* of a tensor of the file: what the exporter calls it */
    bool differentiated; /* a Gradient is asked for by it: what is computed from it is not folded until that is there */
    bool from_constant;  /* the value of a Constant node of the file */
    const char *why;     /* set by classify: why it is trained or not; NULL: not asked */
    const ot_op *slot_op;
    int slot_input; /* set by classify: the slot that decided; NULL: none */
    const char
        *left_out;  /* of an output of the file: why it cannot be computed; it is empty then.  NULL: it is there */
    bool table;     /* set by classify: it trains by its name and place, though its values look like a table's */
    bool undecided; /* set by classify: a constant by its place alone, under a name that may be a parameter's */
    const ot_stored *stored;      /* set by classify: the file keeps it in integers; NULL: as it is here */
    ot_value *grad;               /* set by autodiff; NULL: none */
    const char *const *dim_names; /* inputs of the file: symbolic names by axis; may be NULL */

    /* Written by passes/memory.c, read by exec/. */
    ot_value *base; /* whose memory it shares (a view, a result in place); itself: its own */
    int slab;       /* OT_SLAB_*, of a base */
    int64_t offset; /* bytes into the slab, of a base */
    int mark;       /* scratch of whichever pass runs */
};

enum {
    OT_SLAB_NONE,    /* needs no memory: nobody reads it */
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

struct ot_node {
    const ot_op *op;
    const char *name;  /* from the ONNX file, or made from its outputs; never NULL */
    const void *attrs; /* op-specific struct, owned by the arena; NULL if op->attr_size is 0 */
    int n_in, n_out;
    ot_value **in;  /* in[i] == NULL: optional input left out */
    ot_value **out; /* out[i] == NULL: optional output nobody asked for */
    ot_phase phase;
    ot_graph *graph;
    ot_node *prev, *next;
    int mark;
};

static inline bool ot_is(const ot_node *n, const ot_op *op) { return n && n->op == op; }

typedef struct ot_assign {
    ot_value *state, *value;
} ot_assign;

/* What a graph and its subgraphs may grow to, all together.  A few bytes of a file can ask for loops in loops
 * and constants of any size: they are refused by the node that asks, before they are made. */
typedef struct ot_room {
    size_t most;                /* bytes of the arena */
    int64_t work;               /* elements that folding may still compute */
    int64_t copies;             /* nodes and values that may still be copied for the iterations of loops */
    int branches;               /* choices that data makes between branches of an If that are both computed */
    struct ot_decider *decider; /* who computes what data decides (passes/decide.h); NULL: nothing may depend on it */
    struct ot_findings
        *findings; /* of the plan that is made, for what an operator's rule has to tell; NULL: nobody asks */
    const ot_node
        *at; /* whose spelling out, folding, lowering or gradient is under way, for messages; NULL: nobody's */
} ot_room;

struct ot_graph {
    ot_arena *arena;  /* owns every node and value */
    ot_error *err;    /* the caller's; sticky */
    ot_room *room;    /* shared with subgraphs */
    ot_graph *parent; /* of a subgraph: whose values its nodes may read; else NULL */
    const char *name;
    ot_node *first, *last;
    ot_node *cursor; /* new nodes go before it; NULL: at the end */
    ot_phase phase;  /* of new nodes */
    ot_value **values;
    int n_values, cap_values;
    ot_value **inputs;
    int n_inputs, cap_inputs;
    ot_value **outputs;
    int n_outputs, cap_outputs;
    ot_assign *assigns;
    int n_assigns, cap_assigns;
    int n_nodes;
    int lost_parameters;      /* that the file lists and does not hold by their names */
    bool lost_biases;         /* some of those may be biases */
    ot_value *seed, *counter; /* u64 scalars that random instructions read; NULL until one asks */
};

/* NULL: no memory.  err must outlive the graph.  Its room has no bounds; a clone's has. */
ot_graph *ot_graph_new(ot_error *err);
ot_graph *ot_graph_sub(ot_graph *parent, const char *name); /* shares arena and err with its parent */
void ot_graph_free(ot_graph *g);

/* Zeroed; NULL and a recorded error that names room->at: no memory, or more than the graph's room. */
void *ot_graph_alloc(ot_graph *g, size_t n);

/* Makes a value without a producer.  s may be NULL: shape unknown. */
ot_value *ot_graph_value(ot_graph *g, const char *name, ot_role role, ot_dtype t, const ot_shape *s);

/* A constant with a copy of the bytes; and one whose bytes lie in the graph's arena already. */
ot_value *ot_graph_const(ot_graph *g, const char *name, ot_dtype t, const ot_shape *s, const void *bytes);
ot_value *ot_graph_const_of(ot_graph *g, const char *name, ot_dtype t, const ot_shape *s, const void *bytes);

/* Makes a state for the weight `of` (NULL: for the whole training) that starts at `start` everywhere.
 * There must be none of that kind for it yet. */
ot_value *ot_graph_state(ot_graph *g, ot_state_kind kind, ot_value *of, ot_dtype t, const ot_shape *s, double start);

/* Input i of a node, NULL where it is left out. */
static inline ot_value *ot_node_in(const ot_node *n, int i) { return i < n->n_in ? n->in[i] : NULL; }

/* Makes a node at the cursor with n_out fresh TEMP outputs of unknown type.  attrs is copied
 * (op->attr_size bytes; NULL: the defaults of the operator).  Does not infer. */
ot_node *ot_graph_node(ot_graph *g, const ot_op *op, const char *name, const void *attrs, ot_value *const *in, int n_in,
                       int n_out);

void ot_graph_remove(ot_graph *g, ot_node *n); /* its outputs must be unused by then */
void ot_graph_input(ot_graph *g, ot_value *v);
void ot_graph_output(ot_graph *g, ot_value *v);
void ot_graph_assign(ot_graph *g, ot_value *state, ot_value *value);

/* Every use of `old` (inputs of nodes, outputs, assignments, also in subgraphs) becomes `now`.
 * Walks the graph. */
void ot_graph_replace(ot_graph *g, ot_value *old, ot_value *now);

/* Sets node->mark of every node that depends on one whose mark is set, through subgraphs too, and value->mark of what
 * marked nodes make; other values' marks are cleared.  Walks the graph. */
void ot_graph_mark_behind(ot_graph *g);

/* A deep copy: own arena, own nodes and values, subgraphs too.  Constant bytes and attribute lists stay
 * the source's, which must outlive the copy.  Its room is measured by what the source holds.  NULL: no memory, or
 * an error recorded in err. */
ot_graph *ot_graph_clone(const ot_graph *src, ot_error *err);

/* A copy of a subgraph beside it, reading the same values of its parents, and inputs[i] (of its parents too) for
 * its input i.  Takes time and memory by its size alone.  NULL: no memory, recorded. */
ot_graph *ot_graph_copy_sub(const ot_graph *sub, ot_value *const *inputs);

int64_t ot_graph_size(const ot_graph *g); /* nodes and values, those of subgraphs too */

/* The two inputs of random instructions: the run's key, and the number of the batch. */
ot_value *ot_graph_seed(ot_graph *g);
ot_value *ot_graph_counter(ot_graph *g);

/* verify.c: checks I1, I2, I4, I5.  `typed`: I3 and I6 too. */
ot_status ot_graph_verify(const ot_graph *g, bool typed, ot_error *err);

/* print.c: the stable text form.  Caller frees the string with free(); NULL: no memory. */
char *ot_graph_text(const ot_graph *g);

#endif
