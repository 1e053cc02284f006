/* graph.h - declarations that cudnn.c and plan.c share: a graph, later its plan. */
#ifndef OT_CUDA_CUDNN_GRAPH_H
#define OT_CUDA_CUDNN_GRAPH_H

#include "ops/cuda/cudnn/cudnn.h"
#include "runtime/backends/cuda/gpu.h"

enum { OT_CUDNN_BOUND = 16 };

struct ot_cudnn {
    const ot_node *node;
    ot_dtype type;          /* of the node's first input: determines the precision of "strict" */
    cudnnStatus_t status;   /* the first failure while the graph was built */
    ot_text key;            /* everything that was set: the key of the plan on disk */
    ot_cudnn_desc desc[96]; /* freed once the plan exists */
    int n_desc;
    ot_cudnn_desc op[24];
    int n_op;

    int n_bound; /* tensors that are memory */
    int64_t uid[OT_CUDNN_BOUND];
    ot_cudnn_at bound[OT_CUDNN_BOUND];
    size_t bytes[OT_CUDNN_BOUND]; /* from the first to the last element; 0: a number */
    float number[OT_CUDNN_BOUND];

    ot_cudnn_desc plan; /* the device's (plan.c) */
    size_t own, work;   /* bytes: the kernel's own workspace, followed by the engine's */
    ot_cudnn_desc pack; /* of the addresses below */
    void *packed[OT_CUDNN_BOUND], *packed_work;
};

/* NULL: cuDNN does not start, or the device is only described. */
cudnnHandle_t ot_cudnn_handle(ot_device *d);

/* Sets the device that x is for: the attribute `handle` on a GPU, `properties` where one is only described (cuDNN 9.8).  -1: x
 * has no such attribute, and takes the device from what it refers to. */
cudnnStatus_t ot_cudnn_target(ot_device *d, ot_cudnn_desc x, int handle, int properties);

/* Does the plan, whose engine needs `work` bytes, run?  Tried once on memory of its own, whose elements are any; true if there is not
 * enough of it.  Not on a described device. */
bool ot_cudnn_runs(ot_cudnn *g, ot_device *d, ot_cudnn_desc plan, int64_t work);

/* Replaces the graph by the plan. */
void ot_cudnn_planned(ot_cudnn *g, ot_cudnn_desc plan);

#endif
