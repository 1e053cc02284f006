/* kernel.h - the interface of kernels: how one backend computes one kernel operator. */
#ifndef OT_KERNEL_H
#define OT_KERNEL_H

#include "ops/op.h"
#include "runtime/backends/backend.h"

/* The context in which a kernel runs. */
typedef struct ot_call {
    const ot_node *node;
    const void *const *in; /* in[i]: bytes of node->in[i], NULL if missing */
    void *const *out;      /* out[i]: bytes of node->out[i], NULL if not needed */
    void *work;            /* workspace, 64-byte aligned; NULL if none was requested */
    void *state;           /* what prepare made */
    int threads;
    ot_error *err;     /* for faults while running (an index out of range) */
    ot_device *device; /* NULL: the CPU.  Else all addresses are on this device, and run submits work to it */
    const void *table; /* the bytes that prepare requested, in device memory */
    int step;          /* number of this call in the plan, for ot_fault */
} ot_call;

#define OT_BF16_PRODUCT "bfloat16" /* ot_prep.how of a product that rounds its operands so */

/* The context of prepare, with its results. */
typedef struct ot_prep {
    int threads;
    bool precise; /* prefer the algorithm with the smallest rounding error over the fastest of one precision */
    size_t work;  /* out: bytes of workspace */
    void *state;  /* out: freed by release */
    ot_error *err;
    ot_device *device;   /* NULL: the CPU */
    bool tf32;           /* f32 operands of products may be rounded to 11 bits */
    bool bf16;           /* ... to 8 bits, those of bfloat16; asked of the CPU only */
    bool settled;        /* weights do not change while the plan lives: see ot_settled_bytes */
    size_t held;         /* out: bytes of weights that `state` has in another form */
    int variant;         /* the variant: 0 is the first choice, up to variants - 1 */
    int variants;        /* out: the number of variants; 0 is the same as 1 */
    const char *refused; /* out: why the kernel cannot run it, for reasons that `can` does not know (the
                               * device, a library's answer); prepare then returns OT_OK and leaves nothing, and the
                               * next candidate is tried.  Static */
    char how[48];        /* out: the name of the chosen variant, for `onnxtrain plan`; "": there is one only */
    const void *table;   /* out: constant bytes, of `state`, that every run reads; copied to the device once */
    size_t table_bytes;
} ot_prep;

/* Adds a part to a workspace of *work bytes: where it begins, at a multiple of 64. */
static inline size_t ot_work_part(size_t *work, size_t bytes)
{
    size_t at = (*work + 63) / 64 * 64;
    *work = at + bytes;
    return at;
}

static inline size_t ot_work_floats(size_t *work, int64_t n) { return ot_work_part(work, (size_t)n * sizeof(float)); }

/* Several calls of one kernel in one launch, such as the updates of many weights.  No call reads or writes what
 * another writes (schedule and memory plan ensure it). */
typedef struct ot_grouped {
    bool (*joins)(const ot_node *a, const ot_node *b);                       /* may these two be in one group? */
    size_t (*bytes)(const ot_node *const *n, int count);                     /* of the group's table */
    void (*fill)(const ot_call *const *c, int count, void *table);           /* once, when addresses are known */
    ot_status (*run)(const ot_call *const *c, int count, const void *table); /* the table in device memory */
} ot_grouped;

typedef struct ot_kernel {
    const char *name; /* "ref", "cpu", "onednn" */

    /* Can it run this node (types, shapes, attributes, layouts)?  *why receives a static reason if not.  NULL:
     * always. */
    bool (*can)(const ot_node *n, const char **why);

    /* Low priority: it can run the node, but later candidates without this are tried first. *why receives the static
     * reason.  NULL: never. */
    bool (*yields)(const ot_node *n, const char **why);

    /* A library decides: prepare may refuse a node that `can` accepts (ot_prep.refused). */
    bool may_refuse;

    /* Descriptors, algorithm, workspace; once per plan.  NULL: nothing to prepare. */
    ot_status (*prepare)(const ot_node *n, ot_prep *p);

    /* One execution.  Allocates nothing.  Equal inputs give equal bits for an equal number of threads. */
    ot_status (*run)(const ot_call *c);

    void (*release)(void *state);

    /* Bit i: any output of input i's type and shape may share memory with input i: the kernel reads an element of
     * the input before it writes that element of any output. */
    uint32_t inplace;

    const ot_grouped *many; /* NULL: no grouping */

    /* Reads and writes values in any layout.  false: plain only; the layout pass inserts conversions. */
    bool any_layout;

    /* For convolutions that accept any layout: the preferred one, weights (M, k1..kd, C) or (M, C, k1..kd) included.
     * NULL: channels last, with plain weights. */
    ot_layout (*wants)(const ot_node *n, bool tf32);
} ot_kernel;

/* For `can`: refuses a node, for a static reason. */
static inline bool ot_refuse(const char **why, const char *reason)
{
    *why = reason;
    return false;
}

/* For `can` of a kernel that computes in float32: whether v is missing or of that type. */
static inline bool ot_f32_can(const ot_value *v, const char **why)
{
    return !v || v->dtype == OT_F32 || ot_refuse(why, "only float32");
}

/* Candidates for an operator on a device (NULL: the CPU, whose last candidate is always the reference), best first,
 * NULL-terminated.  A lowered operator has none. */
const ot_kernel *const *ot_kernels(const ot_op *op, const ot_device *d);

/* The first candidate that can run n, low-priority ones last; ref_only: only the reference.  NULL: none, *why is the
 * reason of the last one. */
const ot_kernel *ot_kernel_for(const ot_node *n, const ot_device *d, bool ref_only, const char **why);

const ot_kernel *ot_ref_kernel(const ot_op *op); /* NULL: it is lowered */

/* Declares ot_ref_<Name>, ot_cpu_<Name> (and ot_samples_<Name>) and ot_cuda_<Name> as declared in list.h; the last are in the CUDA module. */
#define OT_KERNEL_DECL_0(device, name)
#define OT_KERNEL_DECL_1(device, name) extern const ot_kernel ot_##device##_##name;
#define OT_KERNEL_DECL_2(device, name) extern const ot_kernel ot_##device##_##name, ot_samples_##name;
#define OT_DECLARE(name, r, c, g) \
    OT_KERNEL_DECL_##r(ref, name) OT_KERNEL_DECL_##c(cpu, name) OT_KERNEL_DECL_##g(cuda, name)
OT_OPS(OT_DECLARE)
#undef OT_DECLARE

/* Element strides of v by logical axis, in its layout. */
void ot_value_strides(const ot_value *v, int64_t stride[OT_MAX_RANK]);

#endif
