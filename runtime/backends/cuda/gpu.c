/* gpu.c - the error of a failed CUDA call, in words. */
#include "runtime/backends/cuda/gpu.h"

ot_status ot_gpu_check(cudaError_t e, const char *what, ot_error *err)
{
    if (e == cudaSuccess) return OT_OK;
    return ot_fail(err, e == cudaErrorMemoryAllocation ? OT_E_NOMEM : OT_E_DEVICE, "%s: %s (%s)", what,
                   cudaGetErrorString(e), cudaGetErrorName(e));
}
