/* backend.h - a device other than the CPU: memory, one stream, events, captured graphs.
 *
 * A backend knows no operator: kernels are passed through by name.  The CPU needs none of this (its memory is the
 * program's, its work is done when a call returns), so "no device" (NULL) means the CPU.
 *
 * Work is executed in the order of submission.  Calls that submit work return at once; errors of the work itself are
 * returned by wait(). */
#ifndef OT_BACKEND_H
#define OT_BACKEND_H

#include "runtime/base/base.h"

typedef struct ot_device ot_device;
typedef struct ot_device_graph ot_device_graph;
struct ot_op;
struct ot_kernel;

/* A fault recorded by a kernel while running: the first one stays. */
typedef struct ot_fault {
    int32_t step;  /* the call's `step` + 1; 0: no fault */
    int32_t kind;  /* the kernel's own code; 0: none */
    int64_t value; /* the invalid number */
} ot_fault;

typedef struct ot_device_info {
    char name[128];       /* "NVIDIA H200" */
    char libraries[256];  /* "CUDA 13.0, driver 13.0, cuDNN 9.19.0, cuBLASLt 13.1" */
    char key[96];         /* the versions that plans of libraries and measured choices depend on, as a file name */
    int64_t memory, free; /* bytes */
    int units;            /* multiprocessors */
} ot_device_info;

typedef struct ot_backend {
    const char *name; /* "cuda" */

    /* Number of devices; 0 with the reason in err (OT_E_DEVICE). */
    int (*count)(ot_error *err);

    /* Opens device `index`.  described: NULL, or the description (device.c) of a device that is not present: plans
     * can be made for it, and nothing run. */
    ot_status (*open)(int index, const char *described, ot_device **out, ot_error *err);
    void (*close)(ot_device *d);
    void (*info)(ot_device *d, ot_device_info *out);

    /* Waits until the kernels that preparations of operators have requested are compiled, and loads them.  Errors: the
     * first one in the order of the requests. */
    ot_status (*ready)(ot_device *d, ot_error *err);

    /* Kernel i of those compiled for the device so far: its name, and the compiler's report (NULL: none).  false:
     * there is no kernel i. */
    bool (*compiled)(ot_device *d, int i, const char **name, const char **words);

    /* Candidates for an operator, best first, NULL-ended; no operator: an empty list. */
    const struct ot_kernel *const *(*kernels)(const char *op);

    /* Memory of the device, aligned to 256 bytes; and page-locked host memory ("pinned"), which the device copies
     * from and to without waiting.  OT_E_NOMEM reports the size. */
    ot_status (*alloc)(ot_device *d, int64_t bytes, void **out, ot_error *err);
    void (*free)(ot_device *d, void *p);
    ot_status (*alloc_host)(ot_device *d, int64_t bytes, void **out, ot_error *err);
    void (*free_host)(ot_device *d, void *p);

    /* Copies.  `host` should be pinned: otherwise upload returns only when the bytes have been read, and download
     * when they have arrived. */
    ot_status (*upload)(ot_device *d, void *to, const void *host, int64_t n, ot_error *err);
    ot_status (*download)(ot_device *d, void *host, const void *from, int64_t n, ot_error *err);
    /* upload through `by`, n bytes of device memory for this alone: they come while work that was submitted before is
     * executed, and get from there to `to` in the order of the submission.  `host` is pinned. */
    ot_status (*upload_ahead)(ot_device *d, void *to, void *by, const void *host, int64_t n, ot_error *err);
    ot_status (*copy)(ot_device *d, void *to, const void *from, int64_t n, ot_error *err);
    ot_status (*zero)(ot_device *d, void *p, int64_t n, ot_error *err);

    /* Waits for all submitted work.  Errors: OT_E_DEVICE. */
    ot_status (*wait)(ot_device *d, ot_error *err);

    /* Records an event in the stream; wait_mark waits for it.  An event is created once and recorded often. */
    ot_status (*event_new)(ot_device *d, void **out, ot_error *err);
    ot_status (*event_record)(ot_device *d, void *mark, ot_error *err);
    ot_status (*event_wait)(ot_device *d, void *mark, ot_error *err);
    ot_status (*event_seconds)(ot_device *d, void *from, void *to, double *seconds, ot_error *err); /* waits for `to` */
    void (*event_free)(ot_device *d, void *mark);

    /* Between begin and end work is captured, not executed; replay launches the captured graph, any number of times. */
    ot_status (*capture_begin)(ot_device *d, ot_error *err);
    ot_status (*capture_end)(ot_device *d, ot_device_graph **out, ot_error *err);
    ot_status (*launch)(ot_device *d, ot_device_graph *r, ot_error *err);
    void (*graph_free)(ot_device *d, ot_device_graph *r);

    /* A named range for profilers, if CUDA's headers for that were present at build time; name NULL ends the
     * innermost one. */
    void (*range)(ot_device *d, const char *name);
} ot_backend;

enum { OT_OUTBOX = 1024 };

/* The first member of every backend's own device struct. */
struct ot_device {
    const ot_backend *backend;
    int threads; /* of the CPU that may compile kernels; 0: one */
    void *fault; /* OT_OUTBOX bytes of device memory, initially zero: one ot_fault, and after
                              * it space for numbers that the host reads after a run */
};

/* The module's only exported entry, "ot_backend_cuda".  host: an ot_host (ops/kernels/host.h), the functions of the
 * core that the module calls; returns NULL if the two were built from different versions. */
typedef const ot_backend *ot_backend_entry(const void *host);

/* Loads a module; it stays loaded.  NULL and the reason (OT_E_DEVICE) on failure. */
const ot_backend *ot_backend_load(const char *file, const void *host, ot_error *err);

#endif
