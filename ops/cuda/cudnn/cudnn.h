/* cudnn.h - cuDNN's graph interface, as little of it as the kernels use.
 *
 * A kernel's prepare writes a graph: tensors, operations.  ot_cudnn_plan asks the heuristics for engines, drops those
 * that are not deterministic, less precise than required or need too much memory, and makes a plan from the first
 * remaining one, cached on disk.  run passes the addresses to the plan.  A described device makes plans that cannot be
 * run.
 *
 * Tensors have the logical order (N, C, spatial axes) and the strides of the value's layout.  An ot_cudnn_at is the
 * memory that a tensor is bound to at run time. */
#ifndef OT_CUDA_CUDNN_H
#define OT_CUDA_CUDNN_H

#include <cudnn.h>

#include "ops/kernel.h"
#include "ops/kernels/fused.h"

typedef struct ot_cudnn ot_cudnn;
typedef cudnnBackendDescriptor_t ot_cudnn_desc;

/* The memory of a tensor: input i, output i, offset i in the kernel's own workspace or table, or none
 * (a virtual tensor, between two operations of the graph). */
typedef enum ot_cudnn_place {
    OT_CUDNN_IN,
    OT_CUDNN_OUT,
    OT_CUDNN_WORK,
    OT_CUDNN_TABLE,
    OT_CUDNN_VIRTUAL
} ot_cudnn_place;
typedef struct ot_cudnn_at {
    ot_cudnn_place place;
    int64_t i;
} ot_cudnn_at;

/* A graph for node n, empty.  NULL: no memory, or no cuDNN for this device; reported in p. */
ot_cudnn *ot_cudnn_new(const ot_node *n, ot_prep *p);
void ot_cudnn_free(void *g);

/* Does cuDNN have a type for t that the kernels use? */
bool ot_cudnn_type(ot_dtype t, cudnnDataType_t *out);

/* The type of products and sums of t: f32, f64 for f64. */
cudnnDataType_t ot_cudnn_sums(ot_dtype t);

/* ---- tensors.  NULL after a failure, which sticks in g and is reported by ot_cudnn_plan ---------------------- */

/* v in logical order with at least two spatial axes: a rank below 4 gets axes of 1 after N and C. */
ot_cudnn_desc ot_cudnn_tensor(ot_cudnn *g, const ot_value *v, ot_cudnn_at at);

/* Any extents and strides. */
ot_cudnn_desc ot_cudnn_strided(ot_cudnn *g, int rank, const int64_t *dim, const int64_t *stride, cudnnDataType_t t,
                               ot_cudnn_at at);

/* The extents and strides of v in type t; of BOOLEAN in memory a bit is an element.  And virtual. */
ot_cudnn_desc ot_cudnn_like(ot_cudnn *g, const ot_value *v, cudnnDataType_t t, ot_cudnn_at at);
ot_cudnn_desc ot_cudnn_virtual(ot_cudnn *g, const ot_value *v, cudnnDataType_t t);

/* (1, C, 1, 1 ..) for a list of C elements, beside tensors of the rank of v. */
ot_cudnn_desc ot_cudnn_channels(ot_cudnn *g, const ot_value *v, int64_t C, cudnnDataType_t t, ot_cudnn_at at);

/* One f32 passed by value. */
ot_cudnn_desc ot_cudnn_number(ot_cudnn *g, const ot_value *v, float number);

/* ---- operations --------------------------------------------------------------------------------------------- */

ot_cudnn_desc ot_cudnn_make(ot_cudnn *g, cudnnBackendDescriptorType_t type);
void ot_cudnn_set(ot_cudnn *g, ot_cudnn_desc d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  int64_t n, const void *list);
void ot_cudnn_link(ot_cudnn *g, ot_cudnn_desc d, cudnnBackendAttributeName_t name, ot_cudnn_desc to);
void ot_cudnn_finish(ot_cudnn *g, ot_cudnn_desc d);

/* Finishes an operation and adds it to the graph. */
void ot_cudnn_add(ot_cudnn *g, ot_cudnn_desc op);

/* y = mode(x[, b[, t]]), element by element; axis: of GEN_INDEX, else -1.  Returns y. */
ot_cudnn_desc ot_cudnn_pointwise(ot_cudnn *g, cudnnPointwiseMode_t mode, cudnnDataType_t precision, int64_t axis,
                                 const ot_cudnn_desc from[3], ot_cudnn_desc y);

/* The functions of the Map behind the operator of n, from the operator's result v; returns the Map's.  _can: does cuDNN
 * have those of c? */
bool ot_cudnn_behind_can(const ot_chain *c);
ot_cudnn_desc ot_cudnn_behind(ot_cudnn *g, const ot_node *n, ot_cudnn_desc v);

/* ---- plans -------------------------------------------------------------------------------------------------- */

/* Makes a plan from the graph.  own: bytes of the kernel's own workspace (OT_CUDNN_WORK), before the engine's.  Sets
 * p->work, p->variants, p->how.  OT_OK without a plan: p->refused is the reason.  On any failure g is freed. */
ot_status ot_cudnn_plan(ot_cudnn *g, size_t own, ot_prep *p);

/* Submits the plan to the device. */
ot_status ot_cudnn_execute(ot_cudnn *g, const ot_call *c);

/* run and release for kernels that consist of one plan: state is the ot_cudnn. */
ot_status ot_cudnn_run(const ot_call *c);

#endif
