/* kernels.h - the kernels, of libraries and for special cases, that are candidates before the general one, by operator.
 *
 * OT_CUDA_LIBRARIES_<Op> is a list of "&kernel," for every operator that list.h gives a CUDA kernel; the
 * first that can run a node does. */
#ifndef OT_CUDA_KERNELS_H
#define OT_CUDA_KERNELS_H

#include "ops/kernel.h"
#include "runtime/backends/cuda/gpu.h"

extern const ot_kernel ot_lt_Dot, ot_lt_Fused;                                         /* cublaslt.c */
extern const ot_kernel ot_rows_Fused;                                                  /* layernorm.c */
extern const ot_kernel ot_pool_Fused;                                                  /* pool.c */
extern const ot_kernel ot_dot_Fused;                                                   /* dot.c */
extern const ot_kernel ot_direct_Convolve, ot_direct_ConvolveDx, ot_direct_ConvolveDw; /* convolvedirect.c */
extern const ot_kernel ot_cudnn_Convolve, ot_cudnn_ConvolveDx, ot_cudnn_ConvolveDw;    /* convolve.c */
extern const ot_kernel ot_conv_Fused;                                                  /* convolve.c */
extern const ot_kernel ot_cudnn_BatchNorm, ot_cudnn_BatchNormDx;                       /* batchnorm.c */
extern const ot_kernel ot_cudnn_FusedAttention, ot_cudnn_FusedAttentionDx;             /* attention.c */

/* ot_kernel.wants of every convolution here.  Matrix units read channels last.  cuDNN 9.19's engines for strict f32 and
 * f64 work on plain tensors and transpose others in their workspace: a step of ResNet-50 at batch 32 then needs 5.4 GB
 * with channels last and 2.5 GB plain, as planned for an H200 (0.2 GB with tf32). */
static inline ot_layout ot_cuda_conv_wants(const ot_node *n, bool tf32)
{
    ot_dtype t = n->in[0]->dtype;
    return t == OT_F16 || t == OT_BF16 || (t == OT_F32 && tf32) ? OT_CHANNELS_LAST : OT_PLAIN;
}

#define OT_CUDA_LIBRARIES_TopKIndex
#define OT_CUDA_LIBRARIES_FusedAttention &ot_cudnn_FusedAttention,
#define OT_CUDA_LIBRARIES_FusedAttentionDx &ot_cudnn_FusedAttentionDx,
#define OT_CUDA_LIBRARIES_BatchNorm &ot_cudnn_BatchNorm,
#define OT_CUDA_LIBRARIES_BatchNormDx &ot_cudnn_BatchNormDx,
#define OT_CUDA_LIBRARIES_Bits
#define OT_CUDA_LIBRARIES_Convolve &ot_direct_Convolve, &ot_cudnn_Convolve,
#define OT_CUDA_LIBRARIES_ConvolveDw &ot_direct_ConvolveDw, &ot_cudnn_ConvolveDw,
#define OT_CUDA_LIBRARIES_ConvolveDx &ot_direct_ConvolveDx, &ot_cudnn_ConvolveDx,
#define OT_CUDA_LIBRARIES_Copy
#define OT_CUDA_LIBRARIES_CopyDx
#define OT_CUDA_LIBRARIES_CrossEntropy
#define OT_CUDA_LIBRARIES_CrossEntropyDx
#define OT_CUDA_LIBRARIES_PrefixSum
#define OT_CUDA_LIBRARIES_Dot &ot_lt_Dot,
#define OT_CUDA_LIBRARIES_Fused &ot_lt_Fused, &ot_rows_Fused, &ot_pool_Fused, &ot_dot_Fused, &ot_conv_Fused,
#define OT_CUDA_LIBRARIES_Resample
#define OT_CUDA_LIBRARIES_Map
#define OT_CUDA_LIBRARIES_FlatIndex
#define OT_CUDA_LIBRARIES_PoolAvg
#define OT_CUDA_LIBRARIES_PoolAvgDx
#define OT_CUDA_LIBRARIES_PoolMax
#define OT_CUDA_LIBRARIES_PoolMaxDx
#define OT_CUDA_LIBRARIES_Scatter
#define OT_CUDA_LIBRARIES_Reduce
#define OT_CUDA_LIBRARIES_LayerNorm
#define OT_CUDA_LIBRARIES_LayerNormDx
#define OT_CUDA_LIBRARIES_SoftmaxAxis
#define OT_CUDA_LIBRARIES_SoftmaxAxisDx
#define OT_CUDA_LIBRARIES_Take
#define OT_CUDA_LIBRARIES_TakeDx
#define OT_CUDA_LIBRARIES_View

#endif
