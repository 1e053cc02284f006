/* kernel.h - how one backend computes one kernel operator. */
#ifndef OT_KERNEL_H
#define OT_KERNEL_H

#include "ops/op.h"
#include "runtime/backends/backend.h"

/* What a kernel sees while it runs. */
typedef struct ot_call {
    const ot_node *node;
    const void *const *in; /* in[i]: bytes of node->in[i], NULL if left out */
    void *const *out;      /* out[i]: bytes of node->out[i], NULL if nobody asked */
    void *work;            /* workspace, 64-byte aligned; NULL if none was asked for */
    void *state;           /* what prepare made */
    int threads;
    ot_error *err;     /* for values found while running (an index out of range) */
    ot_device *device; /* NULL: the CPU.  Else all addresses are its, and run gives it work */
    const void *table; /* the bytes prepare asked for, in the device's memory */
    int step;          /* number of this call in the plan, for ot_fault */
} ot_call;

/* What prepare asks for. */
typedef struct ot_prep {
    int threads;
    bool precise; /* among algorithms of one precision take that of least rounding, not the fastest */
    size_t work;  /* out: bytes of workspace */
    void *state;  /* out: released by release */
    ot_error *err;
    ot_device *device;   /* NULL: the CPU */
    bool tf32;           /* f32 products may be taken of operands rounded to 11 bits */
    int variant;         /* which of the ways to do it: 0 the first choice, up to variants - 1 */
    int variants;        /* out: how many there are; 0 and 1 are the same */
    const char *refused; /* out: why the kernel cannot do it after all, for reasons that `can` does not see (the
                               * device, what a library answers); prepare returns OT_OK and leaves nothing, and the
                               * next candidate is asked.  Static */
    char how[48];        /* out: which way was taken, for `onnxtrain plan`; "": there is one only */
    const void *table;   /* out: bytes that every run reads, of `state`; copied to the device once */
    size_t table_bytes;
} ot_prep;

/* Several calls of one kernel as one piece of work: the updates of many weights in one launch.  No call
 * reads or writes what another writes (the schedule sees to that, the memory plan keeps it so). */
typedef struct ot_grouped {
    bool (*joins)(const ot_node *a, const ot_node *b);                       /* may they be in one group? */
    size_t (*bytes)(const ot_node *const *n, int count);                     /* of the group's table */
    void (*fill)(const ot_call *const *c, int count, void *table);           /* once, when addresses are known */
    ot_status (*run)(const ot_call *const *c, int count, const void *table); /* the table in the device's memory */
} ot_grouped;

typedef struct ot_kernel {
    const char *name; /* "ref", "cpu", "onednn" */

    /* Can it run this node (types, shapes, attributes, layouts)?  *why receives a static reason
     * when not.  NULL: always. */
    bool (*can)(const ot_node *n, const char **why);

    /* It can, but a candidate behind it is expected to be faster: it is asked after those that do not yield.
     * *why receives the static reason.  NULL: never. */
    bool (*yields)(const ot_node *n, const char **why);

    /* Descriptors, algorithm, workspace; once per plan.  NULL: nothing to prepare. */
    ot_status (*prepare)(const ot_node *n, ot_prep *p);

    /* One execution.  Allocates nothing.  The same inputs give the same bits for equal threads. */
    ot_status (*run)(const ot_call *c);

    void (*release)(void *state);

    /* Bit i: any output of input i's type and shape may lie in the same memory as input i: the
     * kernel has read an element of the input before it writes that element of any output. */
    uint32_t inplace;

    const ot_grouped *many; /* NULL: each call by itself */

    /* Reads and writes values in any layout.  false: plain only; the layout pass converts. */
    bool any_layout;

    /* Convolutions that take any layout: the one in which they are fastest, weights (M, k1..kd, C) or (M, C, k1..kd)
     * included.  NULL: channels last, with plain weights. */
    ot_layout (*wants)(const ot_node *n, bool tf32);
} ot_kernel;

/* Candidates for an operator on a device (NULL: the CPU, where the reference is always last), best first,
 * NULL-ended.  A lowered operator has none. */
const ot_kernel *const *ot_kernels(const ot_op *op, const ot_device *d);

/* The first candidate that can run n, those that yield behind the others; ref_only: only the reference.  NULL: none, *why says why the
 * last one cannot. */
const ot_kernel *ot_kernel_for(const ot_node *n, const ot_device *d, bool ref_only, const char **why);

const ot_kernel *ot_ref_kernel(const ot_op *op); /* NULL: it is lowered */

/* Declares ot_ref_<Name>, ot_cpu_<Name> and ot_cuda_<Name> where list.h promises them; the last are in the
 * CUDA module. */
#define OT_KERNEL_DECL_0(sym)
#define OT_KERNEL_DECL_1(sym) extern const ot_kernel sym;
#define OT_DECLARE(name, ref, cpu, cuda) \
    OT_KERNEL_DECL_##ref(ot_ref_##name) OT_KERNEL_DECL_##cpu(ot_cpu_##name) OT_KERNEL_DECL_##cuda(ot_cuda_##name)
OT_OPS(OT_DECLARE)
#undef OT_DECLARE

/* Element strides of v by logical axis, as its layout has it. */
void ot_value_strides(const ot_value *v, int64_t stride[OT_MAX_RANK]);

#endif
