/* runtime.c - the CUDA runtime: memory, one kind of stream, events, capture into graphs, kernels.
 *
 * Work given to a stream is done at once and in order, or recorded while the stream is captured. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/cuda/emulator/emulator.h"

#define FAILS(name, error, ...) \
    if (emulator_call(name, __VA_ARGS__)) return last = error

static __thread cudaError_t last;

/* ---- memory ------------------------------------------------------------------- */

typedef struct block { struct block *next; char *at; size_t n; bool host; } block;
static block *blocks;

static block *find(const void *p, size_t n, bool host)
{
    for (block *b = blocks; b; b = b->next)
        if (b->host == host && (const char *)p >= b->at && (const char *)p + n <= b->at + b->n) return b;
    return NULL;
}

bool emulator_is_device(const void *p, size_t n) { return find(p, n, false) != NULL; }

static cudaError_t allocate(void **out, size_t n, bool host)
{
    block *b = calloc(1, sizeof *b);
    if (!b || !(b->at = aligned_alloc(256, (n + 255) / 256 * 256))) {
        free(b);
        return last = cudaErrorMemoryAllocation;
    }
    memset(b->at, 0xCD, n);
    b->n = n;
    b->host = host;
    b->next = blocks;
    blocks = b;
    *out = b->at;
    return cudaSuccess;
}

static cudaError_t give_back(void *p, bool host)
{
    for (block **b = &blocks; *b; b = &(*b)->next)
        if ((*b)->at == p && (*b)->host == host) {
            block *gone = *b;
            *b = gone->next;
            free(gone->at);
            free(gone);
            return cudaSuccess;
        }
    fprintf(stderr, "emulator: memory is freed that is not there\n");
    abort();
}

cudaError_t cudaMalloc(void **p, size_t n)
{
    FAILS("cudaMalloc", cudaErrorMemoryAllocation, "%zu", n);
    return allocate(p, n, false);
}

cudaError_t cudaFree(void *p) { return p ? give_back(p, false) : cudaSuccess; }

cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags)
{
    FAILS("cudaHostAlloc", cudaErrorMemoryAllocation, "%zu %u", n, flags);
    return allocate(p, n, true);
}

cudaError_t cudaFreeHost(void *p) { return p ? give_back(p, true) : cudaSuccess; }

cudaError_t cudaMemGetInfo(size_t *there, size_t *all)
{
    *there = (size_t)1 << 33;
    *all = (size_t)1 << 34;
    return cudaSuccess;
}

/* ---- devices -------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    FAILS("cudaGetDeviceCount", cudaErrorNoDevice, "1");
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int i)
{
    FAILS("cudaSetDevice", cudaErrorInvalidDevice, "%d", i);
    return i == 0 ? cudaSuccess : (last = cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int i)
{
    FAILS("cudaGetDeviceProperties", cudaErrorInvalidDevice, "%d", i);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated GPU");
    p->major = 9;
    p->multiProcessorCount = 2; /* few, so that loops over the grid are seen to go round */
    p->totalGlobalMem = (size_t)1 << 34;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *v)
{
    *v = 13000;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *v)
{
    *v = CUDART_VERSION;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e) { return e == cudaSuccess ? "no error" : e == cudaErrorMemoryAllocation ? "out of memory" : "emulated failure"; }
const char *cudaGetErrorName(cudaError_t e) { return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError"; }

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last;
    last = cudaSuccess;
    return e;
}

/* ---- streams and graphs ------------------------------------------------------------ */

typedef struct task { struct task *next; emulator_work *work; const char *name; size_t bytes; char what[]; } task;
struct CUgraph_st { task *first, **end; };
struct CUgraphExec_st { task *first; };
struct CUstream_st { cudaGraph_t capture; };

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    FAILS("cudaStreamCreateWithFlags", cudaErrorUnknown, "%u", flags);
    *s = calloc(1, sizeof **s);
    return *s ? cudaSuccess : (last = cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    free(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    FAILS("cudaStreamSynchronize", cudaErrorLaunchFailure, "%d", s->capture != NULL);
    return s->capture ? (last = cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

int emulator_submit(void *stream, emulator_work *work, const void *what, size_t bytes, const char *name)
{
    cudaStream_t s = stream;
    if (emulator_call(name, "%s", s && s->capture ? "recorded" : "run")) return (int)(last = cudaErrorLaunchFailure);
    if (!s) {
        fprintf(stderr, "emulator: %s on the default stream\n", name);
        abort();
    }
    if (!s->capture) {
        work(what);
        return 0;
    }
    task *t = malloc(sizeof *t + bytes);
    if (!t) return (int)(last = cudaErrorMemoryAllocation);
    *t = (task){ .work = work, .name = name, .bytes = bytes };
    memcpy(t->what, what, bytes);
    *s->capture->end = t;
    s->capture->end = &t->next;
    return 0;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    FAILS("cudaStreamBeginCapture", cudaErrorUnknown, "%d", (int)mode);
    if (s->capture || !(s->capture = calloc(1, sizeof *s->capture))) return last = cudaErrorIllegalState;
    s->capture->end = &s->capture->first;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    *out = s->capture;
    s->capture = NULL;
    if (!*out) return last = cudaErrorIllegalState;
    if (emulator_call("cudaStreamEndCapture", " ")) {
        cudaGraphDestroy(*out);
        *out = NULL;
        return last = cudaErrorStreamCaptureInvalidated;
    }
    return cudaSuccess;
}

static void free_tasks(task *t)
{
    while (t) {
        task *next = t->next;
        free(t);
        t = next;
    }
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags)
{
    FAILS("cudaGraphInstantiate", cudaErrorMemoryAllocation, "%llu", flags);
    *out = calloc(1, sizeof **out);
    if (!*out) return last = cudaErrorMemoryAllocation;
    task **end = &(*out)->first;
    for (task *t = g->first; t; t = t->next) {
        task *c = malloc(sizeof *c + t->bytes);
        if (!c) return last = cudaErrorMemoryAllocation;
        memcpy(c, t, sizeof *c + t->bytes);
        c->next = NULL;
        *end = c;
        end = &c->next;
    }
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    if (g) free_tasks(g->first);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    if (g) free_tasks(g->first);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s)
{
    FAILS("cudaGraphLaunch", cudaErrorLaunchFailure, "%d", s->capture != NULL);
    for (task *t = g->first; t; t = t->next) t->work(t->what);
    return cudaSuccess;
}

/* ---- events ----------------------------------------------------------------------- */

struct CUevent_st { double seconds; };

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    FAILS("cudaEventCreateWithFlags", cudaErrorMemoryAllocation, "%u", flags);
    *e = calloc(1, sizeof **e);
    return *e ? cudaSuccess : (last = cudaErrorMemoryAllocation);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    return cudaSuccess;
}

static void stamp(const void *what)
{
    struct timespec t;
    cudaEvent_t     e;
    memcpy(&e, what, sizeof e);
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { return (cudaError_t)emulator_submit(s, stamp, &e, sizeof e, "cudaEventRecord"); }

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    FAILS("cudaEventSynchronize", cudaErrorLaunchFailure, "%f", e->seconds);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    FAILS("cudaEventElapsedTime", cudaErrorUnknown, " ");
    *ms = (float)((to->seconds - from->seconds) * 1e3);
    return cudaSuccess;
}

/* ---- copies ------------------------------------------------------------------------ */

typedef struct copy { void *to; const void *from; size_t n; int value; } copy;

static void do_copy(const void *what)
{
    const copy *c = what;
    memmove(c->to, c->from, c->n);
}

static void do_set(const void *what)
{
    const copy *c = what;
    memset(c->to, c->value, c->n);
}

static void must_be_device(const void *p, size_t n, const char *name)
{
    if (emulator_is_device(p, n)) return;
    fprintf(stderr, "emulator: %s: %zu bytes at %p are not the device's\n", name, n, p);
    abort();
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s)
{
    if (kind != cudaMemcpyDeviceToHost) must_be_device(to, n, "cudaMemcpyAsync");
    if (kind != cudaMemcpyHostToDevice) must_be_device(from, n, "cudaMemcpyAsync");
    const void *host = kind == cudaMemcpyHostToDevice ? from : kind == cudaMemcpyDeviceToHost ? to : NULL;
    if (s->capture && host && !find(host, n, true)) {
        fprintf(stderr, "emulator: a recorded copy of memory that is not pinned\n");
        abort();
    }
    copy c = { .to = to, .from = from, .n = n };
    return (cudaError_t)emulator_submit(s, do_copy, &c, sizeof c, "cudaMemcpyAsync");
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t s)
{
    must_be_device(p, n, "cudaMemsetAsync");
    copy c = { .to = p, .n = n, .value = value };
    return (cudaError_t)emulator_submit(s, do_set, &c, sizeof c, "cudaMemsetAsync");
}

/* ---- kernels ------------------------------------------------------------------------ */

typedef struct kernel { struct kernel *next; emulator_entry *entry; struct ot_emulated **at; int bytes; char name[64]; } kernel;
typedef struct library { void *handle; kernel *kernels; } library;

cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code, enum cudaJitOption *jit, void **values, unsigned n,
                                enum cudaLibraryOption *options, void **option_values, unsigned n_options)
{
    (void)jit, (void)values, (void)n, (void)options, (void)option_values, (void)n_options;
    FAILS("cudaLibraryLoadData", cudaErrorInvalidSource, " ");
    /* The length of an ELF file: behind its table of sections. */
    const unsigned char *b = code;
    uint64_t             sections;
    uint16_t             size, count;
    memcpy(&sections, b + 40, 8), memcpy(&size, b + 58, 2), memcpy(&count, b + 60, 2);
    char     path[] = "/tmp/ot-emulated-kernel-XXXXXX";
    int      fd = mkstemp(path);
    library *l = calloc(1, sizeof *l);
    size_t   bytes = (size_t)sections + (size_t)size * count;
    if (fd < 0 || !l || write(fd, code, bytes) != (ssize_t)bytes) return last = cudaErrorInvalidSource;
    close(fd);
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle) fprintf(stderr, "emulator: %s\n", dlerror());
    unlink(path);
    *out = (cudaLibrary_t)l;
    return l->handle ? cudaSuccess : (last = cudaErrorInvalidSource);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t lib, const char *name)
{
    FAILS("cudaLibraryGetKernel", cudaErrorSymbolNotFound, "%s", name);
    library *l = (library *)lib;
    kernel  *k = calloc(1, sizeof *k);
    char     bytes[96];
    if (!k) return last = cudaErrorMemoryAllocation;
    snprintf(bytes, sizeof bytes, "%s_bytes", name);
    snprintf(k->name, sizeof k->name, "%s", name);
    *(void **)&k->entry = dlsym(l->handle, name);
    k->at = dlsym(l->handle, "ot_emulated_at");
    const int *n = dlsym(l->handle, bytes);
    k->bytes = n ? *n : 0;
    k->next = l->kernels;
    l->kernels = k;
    *out = (cudaKernel_t)k;
    return k->entry && k->at && n ? cudaSuccess : (last = cudaErrorSymbolNotFound);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t lib)
{
    library *l = (library *)lib;
    for (kernel *k = l->kernels, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    if (l->handle) dlclose(l->handle);
    free(l);
    return cudaSuccess;
}

typedef struct launch { kernel *k; unsigned blocks, threads; size_t shared; char args[4096]; } launch;

static void do_launch(const void *what)
{
    const launch *l = what;
    emulator_run(l->k->entry, l->k->at, l->blocks, (int)l->threads, l->shared, l->args);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *function, void **args)
{
    launch l = { .k = (kernel *)(uintptr_t)function, .blocks = c->gridDim.x, .threads = c->blockDim.x, .shared = c->dynamicSmemBytes };
    if (l.k->bytes > 4000 || c->gridDim.y != 1 || c->gridDim.z != 1 || !l.blocks || !l.threads || l.threads > 1024 || l.shared > 227 << 10) return last = cudaErrorInvalidConfiguration;
    memcpy(l.args, args[0], (size_t)l.k->bytes);
    return (cudaError_t)emulator_submit(c->stream, do_launch, &l, sizeof l, l.k->name);
}
