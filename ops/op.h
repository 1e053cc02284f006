/* op.h - the definition of an operator.
 *
 * ops/onnx/<name>.c and ops/kernels/<name>.c define each operator once, without devices, in a constant ot_op: its
 * signature, attributes, shape rule, and either how it is lowered to other operators or its gradient.  ops/ref/,
 * ops/cpu/ and ops/cuda/ contain kernels.  ops/list.h lists all operators. */
#ifndef OT_OP_H
#define OT_OP_H

#include <math.h>
#include <stdio.h>

#include "runtime/graph/graph.h"

/* ---- attributes ---------------------------------------------------------- */

typedef struct ot_ints {
    int n;
    const int64_t *v;
} ot_ints; /* arena memory; n 0: missing */
typedef struct ot_floats {
    int n;
    const float *v;
} ot_floats;
typedef struct ot_blob {
    ot_dtype dtype;
    ot_shape shape;
    const void *data;
    int source;
} ot_blob; /* a tensor */
typedef struct ot_strings {
    int n;
    const char *const *v;
} ot_strings;

/* The C type of the field at `offset`: OT_INT int64_t · OT_FLOAT double · OT_ENUM int64_t (index
 * into names) · OT_TEXT const char* · OT_INTS ot_ints · OT_FLOATS ot_floats · OT_TEXTS ot_strings ·
 * OT_TENSOR ot_blob · OT_GRAPH ot_graph*. */
typedef enum ot_attr_kind {
    OT_INT,
    OT_FLOAT,
    OT_ENUM,
    OT_TEXT,
    OT_INTS,
    OT_FLOATS,
    OT_TEXTS,
    OT_TENSOR,
    OT_GRAPH
} ot_attr_kind;

#define OT_REQUIRED ((double)-INFINITY) /* as a default */

/* One ONNX attribute: where the importer stores it, and its default. */
typedef struct ot_attr {
    const char *name; /* NULL terminates the rows */
    ot_attr_kind kind;
    size_t offset;            /* into the operator's attribute struct */
    double dflt;              /* OT_INT, OT_FLOAT, OT_ENUM; others start zeroed.  OT_REQUIRED: mandatory in a file */
    const char *const *names; /* OT_ENUM: NULL-ended, index = stored value */
} ot_attr;

/* ---- building: lowering and gradients ------------------------------------ */

/* Builds nodes that replace one node, or its backward pass.  Errors stick: after the first failure every call is a
 * no-op that returns NULL, so rules need no error checks. */
typedef struct ot_build {
    ot_graph *graph;
    const ot_node *node; /* the node being lowered or differentiated */
    ot_value **yield;    /* lowering: the replacement of node->out[i] */
    ot_value **dout;     /* gradient: dL/d(out[i]), NULL: none */
    ot_value **din;      /* gradient: result, dL/d(in[i]) */
    const bool *wants;   /* gradient: is dL/d(in[i]) needed? */
    bool again;          /* the new nodes will be differentiated themselves: by a gradient, or lowering: twice */
    const struct ot_device *device; /* lowering: for ot_has_kernel */
} ot_build;

#define OT_IN(...)                                     \
    (ot_value *[]){ __VA_ARGS__ },                     \
    (int)(sizeof((ot_value *[]){ __VA_ARGS__ }) / sizeof(ot_value *))

/* Has the graph failed?  For rules that must look at values they made. */
static inline bool ot_broken(const ot_build *b) { return b->graph->err && b->graph->err->status != OT_OK; }

/* Emits a node, infers its outputs.  attrs: of the operator's type, copied; NULL: its defaults. */
ot_value *ot_emit(ot_build *b, const ot_op *op, const void *attrs, ot_value *const *in, int n_in);
ot_node *ot_emit_n(ot_build *b, const ot_op *op, const void *attrs, ot_value *const *in, int n_in, int n_out);

/* Lowering: does the device have a kernel for op, which other operators could replace?  Not if its gradient is needed as a
 * function: such kernels have no second derivative. */
bool ot_has_kernel(const ot_build *b, const ot_op *op);

/* Lowering: replaces output i by v. */
void ot_yield(ot_build *b, int output, ot_value *v);

/* Gradient. */
bool ot_wants(const ot_build *b, int input);
ot_value *ot_dout(const ot_build *b, int output);      /* NULL if there is no gradient of that output */
void ot_set_din(ot_build *b, int input, ot_value *dx); /* the driver reduces it to the input's shape */

/* Short forms, each in the file of the kernel operator that it emits.  Shapes of operands broadcast as in ONNX. */
ot_value *ot_scalar(ot_build *b, ot_dtype t, double v);                   /* constant of rank 0 */
ot_value *ot_ints_const(ot_build *b, const int64_t *v, int n);            /* int64 constant of rank 1 */
ot_value *ot_map1(ot_build *b, int row, double p, double q, ot_value *a); /* functions.h opcodes */
ot_value *ot_map2(ot_build *b, int row, double p, double q, ot_value *a, ot_value *c);
ot_value *ot_map3(ot_build *b, int row, double p, double q, ot_value *a, ot_value *c, ot_value *d);
ot_value *ot_cast(ot_build *b, ot_value *x, ot_dtype t);
ot_value *ot_view(ot_build *b, ot_value *x, const ot_shape *s); /* same elements, another shape */
ot_value *ot_sum(ot_build *b, ot_value *x, const int64_t *axes, int n, bool keepdims);
ot_value *ot_sum_to(ot_build *b, ot_value *x, const ot_shape *s,
                    bool wide);                                   /* reverses broadcasting; wide: f32 from 16 bits */
ot_value *ot_expand(ot_build *b, ot_value *x, const ot_shape *s); /* broadcasts */
ot_value *ot_transpose(ot_build *b, ot_value *x, const int *perm);
ot_value *ot_matmul(ot_build *b, ot_value *a, bool ta, ot_value *c, bool tc); /* last two axes transposed if set */

/* Records "<node>: <Op>: ..." in the graph's error. */
ot_status ot_node_fail(const ot_node *n, ot_error *err, const char *fmt, ...) OT_PRINTF(3, 4);

/* ---- element types ------------------------------------------------------- */

#define OT_TYPE(t)  (UINT32_C(1) << (t))
#define OT_SET_FLOAT    (OT_TYPE(OT_F32) | OT_TYPE(OT_F64) | OT_TYPE(OT_F16) | OT_TYPE(OT_BF16))
#define OT_SET_SIGNED   (OT_TYPE(OT_I8) | OT_TYPE(OT_I16) | OT_TYPE(OT_I32) | OT_TYPE(OT_I64))
#define OT_SET_UNSIGNED (OT_TYPE(OT_U8) | OT_TYPE(OT_U16) | OT_TYPE(OT_U32) | OT_TYPE(OT_U64))
#define OT_SET_INT      (OT_SET_SIGNED | OT_SET_UNSIGNED)
#define OT_SET_NUMBER   (OT_SET_FLOAT | OT_SET_INT)
#define OT_SET_WIDE     (OT_SET_FLOAT | OT_TYPE(OT_I32) | OT_TYPE(OT_I64) | OT_TYPE(OT_U32) | OT_TYPE(OT_U64))
#define OT_SET_INDEX    (OT_TYPE(OT_I32) | OT_TYPE(OT_I64))
#define OT_SET_COMMON   (OT_SET_NUMBER | OT_TYPE(OT_BOOL)) /* accepted by every operator that moves elements */
#define OT_SET_FLOAT8   (OT_TYPE(OT_F8E4M3FN) | OT_TYPE(OT_F8E4M3FNUZ) | OT_TYPE(OT_F8E5M2) | OT_TYPE(OT_F8E5M2FNUZ) | OT_TYPE(OT_F8E8M0))
#define OT_SET_BYTE     (OT_SET_COMMON | OT_SET_FLOAT8) /* whole bytes */
#define OT_SET_ALL      (OT_SET_BYTE | OT_TYPE(OT_F4E2M1) | OT_TYPE(OT_I4) | OT_TYPE(OT_U4) | OT_TYPE(OT_I2) | OT_TYPE(OT_U2)) /* not strings */

/* The element types of an operator's inputs: a letter each, the last one also for further inputs.
 *   T U V  a type of the set of that name; inputs with equal letters have equal types
 *   W      float64 where T is, else float32
 *   n      any of OT_SET_ALL    t  the same, or string    r  any float    x  int32 or int64    (each input for itself)
 *   b      bool    f  float32    i  int64    s  string    *  any; checked by infer */
typedef struct ot_types {
    const char *in;
    uint32_t T, U, V; /* OT_TYPE(...) | ... */
} ot_types;

uint32_t ot_types_of(const ot_op *op, int input); /* those that its letter allows, OT_TYPE(...) | ... */

/* The role of a tensor of the file as an input: a letter for each input, the last one also for further inputs; "-"
 * alone: no input is a parameter.  Pass classify uses these letters.
 * Strong slots, whose tensors train:
 *   W  a weight    B  its bias    M  an operand of a matrix product    A  a term added to one    G  a lookup table
 * Weak slots, where rank, names and values of a tensor decide:
 *   n  an operand of a norm    o  its offset    s  a slope    a  a term    x  a factor    d  a subtrahend or a divisor
 *   e  an exponent
 *   c  selected or compared    j  concatenated, repeated or summed with others    h  the state that a recurrent layer starts from
 * Others:
 *   t  a running statistic     >  forwarded: the readers of the outputs decide     ~  the same, but elements
 *      are blended     -  no parameter */
char ot_slot_at(const ot_op *op, int input);
bool ot_slot_is_strong(char slot);
bool ot_slot_is_weak(char slot);

/* ---- the operator -------------------------------------------------------- */

typedef struct ot_arity {
    int min, max;
} ot_arity;
#define OT_VARIADIC 1000000

enum {
    OT_INTERNAL = 1,    /* not an operator of ONNX files; made by lowering and passes */
    OT_RANDOM = 2,      /* results differ from run to run: never folded, never merged */
    OT_FROM_SHAPES = 4, /* results depend only on the shapes of the inputs */
    OT_LISTS = 8,       /* inputs may be sequences and optionals (sequence.h); elsewhere they are tensors */
    OT_SPELLED = 16,    /* replaced by other nodes while shapes are inferred (passes/control.c), with their gradients */
    OT_COUNTED = 32,    /* the sizes of the results depend on elements of the inputs */
    OT_MOVES = 64,      /* the results consist of elements of input 0, unchanged; for Concat, of all inputs */
    OT_SAME = 128,      /* the result is input 0 with another shape, order of axes or type */
    OT_PRODUCT = 256,   /* a matrix product or a convolution, most of the work of a network; attention's kernel too */
    OT_IN_TRAINING = 512,  /* OT_RANDOM applies in training mode only */
    OT_WHOLE_BATCH = 1024, /* intended for a whole batch: statistics, means over samples, random numbers */
    OT_ALIAS = 2048,       /* the result may share the memory of input 0: the same bytes */
    OT_FUSES = 4096        /* kernels may compute it together with a Map before or behind it (kernels/fused.h) */
};

/* How an operator is treated when most values have 16 bits: in pass precision, and in the fp16 form that the
 * exporter writes. */
typedef enum ot_half {
    OT_HALF_NEVER,   /* computed in 32 bits */
    OT_HALF_PRODUCT, /* reads and writes 16 bits */
    OT_HALF_FOLLOWS, /* writes 16 bits if it reads them: moves elements, or keeps their range */
    OT_HALF_NORM,    /* x and y in 16 bits; parameters and statistics in 32 */
    /* kernels with a rule in pass precision */
    OT_HALF_ATTENTION,
    OT_HALF_TAKE,
    OT_HALF_SOFTMAX,
    OT_HALF_REDUCE,
    OT_HALF_LOSS,
    OT_HALF_MAP,
    OT_HALF_END
} ot_half;

enum { OT_NO_FLOPS = -1 };

/* How many axes output 0 has, as far as it follows from those of the inputs alone. */
typedef enum ot_rank {
    OT_RANK_OPEN,     /* not known without infer */
    OT_RANK_KEPT,     /* as many as input 0 */
    OT_RANK_GREATEST, /* as many as the input that has most: they broadcast */
    OT_RANK_PRODUCT,  /* the same, where each has two at least */
    OT_RANK_FILTERS,  /* as many as input 1 and as input 0 */
    OT_RANK_TWO
} ot_rank;

struct ot_batching;
struct ot_batched;

struct ot_op {
    const char *name;   /* ONNX op_type, or ours */
    const char *domain; /* NULL: ai.onnx */
    int since;          /* the opset version that it implements; importer/upgrade.c converts older files */
    ot_arity in, out;
    ot_types types;    /* of the inputs; in NULL: no inputs */
    const char *slots; /* ot_slot_at; NULL: gradients reach no float input */
    unsigned flags;
    uint32_t nondiff;     /* bit i: input i never has a gradient (indices, shapes) */
    uint32_t quantised;   /* bit i: input i contains quantised integers, as the weights of a quantised file */
    uint32_t spare;       /* bit i: output i is omitted if nothing reads it (pass simplify) */
    uint32_t like;        /* bit i: only the type of input i is read; folding does not need its value */
    const ot_attr *attrs; /* NULL: none */
    size_t attr_size;

    /* The bytes of an attribute struct that are in use, where the end of the struct may not be: nodes store these alone.
     * NULL: attr_size. */
    size_t (*attr_used)(const void *attrs);

    /* Element type of the outputs, for nodes built before types are inferred: 'b' or 'i' as in `types`, or "=NAME",
     * the attribute with the type (missing: float32).  NULL: that of the first input with letter T, else of input 0. */
    const char *gives;

    ot_half half;
    ot_rank rank;

    /* How it computes several micro-batches at once (ops/onnx/batching.h); NULL: repeated once for each. */
    bool (*batch)(struct ot_batching *b, const ot_node *n, const ot_shape *own, struct ot_batched *r);

    /* Sets dtype and shape of every non-NULL output, given inputs with known shapes.  May read in[i]->data if a
     * shape depends on a value; fails if that is not constant.  Called by ot_node_infer after the check of `types`. */
    ot_status (*infer)(ot_node *n, ot_error *err);

    /* Lowered and element-wise operators: builds the node from kernel operators.  NULL: it is a kernel operator. */
    void (*lower)(ot_build *b);

    /* Kernel operators: builds the backward.  NULL with grad_zero NULL: not differentiable. */
    void (*grad)(ot_build *b);
    const char *grad_zero; /* why the gradient is zero everywhere; NULL: it is not */

    /* Kernel operators: the number of input elements per element of the result, or an upper bound; NULL: 1. */
    int64_t (*inner)(const ot_node *n);

    /* Kernel operators: the floating-point operations of n (ot_node_flops); NULL: `flops_each` for every element of its
     * largest tensor (0: 1; OT_NO_FLOPS: none).  Operators that move elements (OT_MOVES) have none. */
    double (*flops)(const ot_node *n);
    int flops_each;

    /* Kernel operators that read or write only some rows of an operand: the bytes that n reads and writes (ot_node_bytes);
     * NULL: those of each tensor. */
    double (*bytes)(const ot_node *n);

    /* The operand that is a convolution's weight (M, C, k...), inputs first, then outputs, from 1; 0: none. */
    int filters;

    /* For operators with several kernels: the attributes that determine the work, as text.  NULL: there is one
     * kernel. */
    void (*words)(FILE *f, const void *attrs);

    /* Records the error for an invalid number that a kernel found on a device.  NULL: an index outside its axis. */
    ot_status (*fault)(const ot_node *n, int64_t value, ot_error *err);
};

static inline bool ot_is_nondiff(const ot_op *op, int i) { return i < 32 && op->nondiff >> i & 1; }
static inline bool ot_is_type_only(const ot_op *op, int i) { return i < 32 && op->like >> i & 1; }

/* Declares ot_op_<Name> for every row of list.h. */
#include "ops/list.h"
#define OT_DECLARE(name, ...) extern const ot_op ot_op_##name;
OT_OPS(OT_DECLARE)
#undef OT_DECLARE

const ot_op *ot_find_op(const char *domain, const char *name); /* NULL: unknown.  domain "" is ai.onnx */
const ot_op *ot_op_at(int i);                                  /* every operator, alphabetical; NULL: after the last */

/* Infers types and shapes of n's outputs.  OT_E_MODEL if an input's element type is not allowed by `types`. */
ot_status ot_node_infer(ot_node *n, ot_error *err);

/* Fills attrs (op->attr_size bytes) with the defaults of the rows. */
void ot_attr_defaults(const ot_op *op, void *attrs);

size_t ot_attr_bytes(const ot_op *op, const void *attrs); /* the bytes of attrs that a node stores */

/* An attribute by its name in ONNX: its row (NULL: the operator does not have it), and its value in a node. */
const ot_attr *ot_attr_of(const ot_op *op, const char *name);
int64_t ot_attr_get(const ot_node *n, const char *name, int64_t dflt); /* OT_INT, OT_ENUM; dflt: if it does not exist */
ot_ints ot_attr_ints(const ot_node *n, const char *name);
ot_graph *ot_attr_graph(const ot_node *n, const ot_attr *a); /* the subgraph that attribute a of n holds; NULL: none */
ot_graph *ot_subgraph(const ot_node *n, int i);              /* the i-th subgraph of n; NULL: it has fewer */
void ot_attr_set(const ot_op *op, void *attrs, const char *name, int64_t v);
void ot_set_attr(ot_node *n, const char *name, int64_t v); /* of a node under construction */

/* Zeroed memory with the lifetime of the node's graph; NULL and a recorded error: no memory. */
void *ot_node_alloc(ot_node *n, size_t bytes);

/* ---- helpers for shape rules --------------------------------------------- */

ot_status ot_like(ot_value *y, const ot_value *x); /* gives y the dtype and shape of x */
ot_status ot_set(ot_value *y, ot_dtype t, const ot_shape *s);
/* Resolves a possibly negative axis; false: out of range. */
bool ot_axis(int64_t axis, int rank, int *out);
/* The same; fails with the node's name if it is out of range. */
ot_status ot_node_axis(const ot_node *n, int64_t axis, int rank, int *out, ot_error *err);
/* Constant integer input i as a list (rank 0 or 1).  Fails with the node's name if it is not constant. */
ot_status ot_const_ints(const ot_node *n, int i, ot_ints *out, ot_error *err);
/* Bytes of a value whose shape is known; NULL: 0. */
static inline double ot_value_bytes(const ot_value *v) { return v ? (double)ot_bytes(&v->shape, v->dtype) : 0; }
bool ot_is_const(const ot_value *v); /* its bytes are known while planning */

/* Where weights do not change while a plan lives: the bytes of v, in its layout, if they are known while planning, being those of a
 * constant, of a weight or of a view of one.  NULL: they are not. */
const void *ot_settled_bytes(const ot_graph *g, const ot_value *v);

#endif
