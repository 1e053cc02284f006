/* internal.h - the CUDA backend's device, for its own files. */
#ifndef OT_GPU_INTERNAL_H
#define OT_GPU_INTERNAL_H

#include <pthread.h>

#include "runtime/backends/cuda/gpu.h"

struct ot_gpu_fn {
    struct ot_gpu_fn *next;
    char name[64]; /* hash of its text, as in the cache folder */
    char entry[48];
    cudaLibrary_t library; /* NULL for a described device */
    cudaKernel_t kernel;
    char *report; /* the compiler's report on registers and spills; NULL: none */
};

typedef struct ot_gpu {
    struct ot_device head;
    int index; /* -1: described */
    char *description;
    char name[128];
    int arch, units;
    char arch_text[24]; /* "sm_90a"; "compute_120": NVRTC knows no such device yet, the driver compiles PTX for it */
    int64_t memory;
    char libraries[256], key[96];
    char compiler[48]; /* what compiled kernels depend on besides their text, as a folder's name: "sm_90a-nvrtc13.0" */
    cudaStream_t stream;
    ot_gpu_fn *fns;
    struct {
        void *handle;
        void (*release)(void *handle);
    } slot[OT_GPU_SLOTS];
    bool recording;
} ot_gpu;

/* compile.c */
void ot_gpu_fns_free(ot_gpu *g);
bool ot_gpu_compiled(ot_device *d, int i, const char **name, const char **words);

/* The texts of ops/cuda/, embedded by the build; NULL-terminated. */
typedef struct ot_gpu_file {
    const char *name;
    const char *text;
} ot_gpu_file;
extern const ot_gpu_file ot_gpu_files[];

/* NVRTC's version, for the key of the cache. */
void ot_gpu_compiler_version(int *major, int *minor);

/* What NVRTC compiles for a device of compute capability arch (90: 9.0): its own code, or that of the nearest older device
 * that it knows, as PTX where the major number is another one.  OT_E_DEVICE: it knows only newer ones. */
ot_status ot_gpu_compiler_target(int arch, char out[24], ot_error *err);

#endif
