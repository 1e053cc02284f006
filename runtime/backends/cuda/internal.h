/* internal.h - the CUDA backend's device, for its own files. */
#ifndef OT_GPU_INTERNAL_H
#define OT_GPU_INTERNAL_H

#include <pthread.h>

#include "runtime/backends/cuda/gpu.h"

typedef enum ot_gpu_progress { OT_GPU_WAITS, OT_GPU_COMPILES, OT_GPU_COMPILED } ot_gpu_progress;

/* The device code of a text, for all of its entries.  What is below `progress` is the compiling thread's until
 * progress is OT_GPU_COMPILED. */
typedef struct ot_gpu_image {
    struct ot_gpu_image *next; /* in the order of the requests */
    const char *file;
    char name[64];            /* hash of its text, as in the cache folder */
    cudaLibrary_t library;    /* NULL: not loaded yet, or a described device */
    bool told;                /* the failure has been reported */
    ot_gpu_progress progress; /* under the lock of the kernels */
    char *source;             /* NULL: read from disk, or no longer needed */
    size_t length;
    void *code; /* NULL: it failed, or the device has it */
    size_t bytes;
    char *report; /* the compiler's report on registers and spills; NULL: none */
    ot_status failed;
    char *words; /* of the failure; NULL: no memory */
} ot_gpu_image;

struct ot_gpu_fn {
    struct ot_gpu_fn *next;
    ot_gpu_image *image;
    char entry[48];
    cudaKernel_t kernel;    /* NULL: not loaded yet, or a described device */
    size_t shared, allowed; /* bytes of dynamic shared memory: requested, and set; 0: none */
};

/* The kernels of a device and the threads that compile them.  kernels.c */
enum { OT_GPU_COMPILERS = 15 };
typedef struct ot_gpu_kernels {
    ot_gpu_image *images, **end;
    ot_gpu_fn *fns, **fns_end;
    pthread_mutex_t lock;
    pthread_cond_t more, done; /* a text waits or nothing more comes; a text is compiled */
    pthread_t thread[OT_GPU_COMPILERS];
    int n_threads;
    bool ends; /* threads return when no text waits */
} ot_gpu_kernels;

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
    struct {
        cudaStream_t stream;       /* NULL: not needed so far */
        cudaEvent_t arrived, left; /* the bytes in the place between; from there */
    } ahead;                       /* uploads beside the work */
    ot_gpu_kernels kernels;
    struct {
        void *handle;
        void (*release)(void *handle);
    } slot[OT_GPU_SLOTS];
    bool recording;
    bool overlaps; /* kernels may begin before the one in front of them ends (kernels.c) */
    bool follows;  /* what the stream was given last is a kernel of ours */
} ot_gpu;

/* kernels.c */
void ot_gpu_kernels_open(ot_gpu *g);
void ot_gpu_kernels_close(ot_gpu *g);
ot_status ot_gpu_ready(ot_device *d, ot_error *err);
bool ot_gpu_compiled(ot_device *d, int i, const char **name, const char **words);

/* compile.c.  A text with its name and nothing compiled; whether it was on disk; its compilation, in any thread. */
ot_status ot_gpu_image_new(const ot_gpu *g, const char *file, const char *prefix, ot_gpu_image **out, ot_error *err);
bool ot_gpu_image_read(const ot_gpu *g, ot_gpu_image *i);
ot_status ot_gpu_image_compile(const ot_gpu *g, ot_gpu_image *i, ot_error *err);
void ot_gpu_image_free(ot_gpu_image *i);

/* The texts of ops/cuda/, embedded by the build; NULL-terminated. */
typedef struct ot_gpu_file {
    const char *name;
    const char *text;
} ot_gpu_file;
extern const ot_gpu_file ot_gpu_files[];

/* NVRTC's version, for the key of the cache. */
void ot_gpu_compiler_version(int *major, int *minor);

/* The compute capability of code for `target` ("sm_90a": 90). */
int ot_gpu_target_arch(const char *target);

/* What NVRTC compiles for a device of compute capability arch (90: 9.0): its own code, or that of the nearest older device
 * that it knows, as PTX where the major number is another one.  OT_E_DEVICE: it knows only newer ones. */
ot_status ot_gpu_compiler_target(int arch, char out[24], ot_error *err);

#endif
