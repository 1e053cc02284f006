/* gpu.h - services of the CUDA backend for kernels: compiling text, launching, the libraries' handles. */
#ifndef OT_GPU_H
#define OT_GPU_H

#include <cuda_runtime_api.h>

#include "runtime/backends/backend.h"

/* ---- text that grows ------------------------------------------------------- */

/* Generated source.  Errors stick: after one, adding does nothing and the text is NULL. */
typedef struct ot_text {
    char *text;
    size_t n, cap;
    bool failed;
} ot_text;

void ot_text_add(ot_text *t, const char *fmt, ...) OT_PRINTF(2, 3);
void ot_text_free(ot_text *t);

/* The backend; its kernels are set by the module's entry (ops/cuda/host.c). */
extern ot_backend ot_gpu_backend;

/* ---- kernels of our own ------------------------------------------------------- */

/* A compiled function; belongs to the device. */
typedef struct ot_gpu_fn ot_gpu_fn;

/* `entry` of `file` (a text of ops/cuda/, embedded) after `prefix` (generated lines: #define, functions; NULL: none).
 * Threads compile it while the plan is made; `ready` of backend.h and the first launch wait, and report what failed
 * (OT_E_INTERNAL: the compiler's messages).  The same text is compiled once per device, whatever the entry, and cached
 * on disk between runs.  An OT_KERNEL has one struct by value, at most 4000 bytes. */
ot_status ot_gpu_compile(ot_device *d, const char *file, const char *prefix, const char *entry, ot_gpu_fn **out,
                         ot_error *err);

/* Launches `blocks` blocks of `threads` threads.  args: the struct, copied now.  shared: bytes of OT_DYNAMIC_SHARED.
 * 0 blocks: nothing. */
ot_status ot_gpu_launch(ot_device *d, ot_gpu_fn *f, int64_t blocks, int threads, size_t shared, const void *args,
                        ot_error *err);

/* Lets blocks of f have up to `bytes` of OT_DYNAMIC_SHARED; needed above 48 KiB.  When the kernel is loaded,
 * OT_E_DEVICE: the GPU has less. */
ot_status ot_gpu_allow_shared(ot_device *d, ot_gpu_fn *f, size_t bytes, ot_error *err);

/* The number of blocks for n elements when a block processes `each` at a time in a grid-stride loop: enough to fill
 * the device a few times, at most as many as there are elements for. */
int64_t ot_gpu_blocks(const ot_device *d, int64_t n, int64_t each);

/* ---- the device --------------------------------------------------------------- */

/* The device's stream; the device is then the current one of the calling thread. */
cudaStream_t ot_gpu_stream(ot_device *d);
int ot_gpu_arch(const ot_device *d);          /* 90: compute capability 9.0 */
int ot_gpu_units(const ot_device *d);         /* multiprocessors */
bool ot_gpu_described(const ot_device *d);    /* not present: plans only */
const char *ot_gpu_description(ot_device *d); /* cuDNN's form of a device's properties, JSON */

/* A library's handle, created at first use; stored in one of the device's slots and released with it. */
typedef enum ot_gpu_slot {
    OT_GPU_CUDNN_PLANS, /* released before their handle */
    OT_GPU_CUDNN,
    OT_GPU_CUDNN_PROPERTIES,
    OT_GPU_CUBLASLT,
    OT_GPU_SLOTS
} ot_gpu_slot;
void *ot_gpu_get(const ot_device *d, ot_gpu_slot s);
void ot_gpu_set(ot_device *d, ot_gpu_slot s, void *handle, void (*release)(void *handle));

/* A file of the cache folder for this device and these libraries: read into malloc'ed memory (NULL: missing), and
 * replaced.  A failed write is ignored. */
void *ot_gpu_cache_read(ot_device *d, const char *name, size_t *n);
void ot_gpu_cache_write(ot_device *d, const char *name, const void *bytes, size_t n);

/* The name of a cache file for these bytes: 32 hex digits and the suffix. */
void ot_gpu_cache_name(const void *bytes, size_t n, const char *suffix, char out[64]);

/* OT_E_DEVICE with the action that failed and CUDA's message; OT_OK for success. */
ot_status ot_gpu_check(cudaError_t e, const char *what, ot_error *err);

#endif
