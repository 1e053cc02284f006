/* device.c - a CUDA device: properties, memory, stream, captured graphs, faults.
 *
 * One stream executes all work, so its order is the order of the calls; large uploads come by a second one, which it waits
 * for.  A described device is a text in the form in
 * which cuDNN writes a device's properties (JSON); plans and kernels can be made for it, and nothing can be run. */
#include "runtime/backends/cuda/internal.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Profiler ranges: headers only, without a library; some installations of CUDA lack them. */
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define OT_NVTX 1
#endif

static ot_gpu *gpu_of(const ot_device *d) { return (ot_gpu *)(uintptr_t)d; }

/* CUDA's calls are about the device that is current in the calling thread, which may not be the one that opened this
 * device, and the program around the library may have chosen another. */
static ot_gpu *current(const ot_device *d)
{
    ot_gpu *g = gpu_of(d);
    if (g->index >= 0) (void)cudaSetDevice(g->index); /* a failure is that of the call that follows */
    return g;
}

/* The same, for work: a kernel of ours that comes next does not follow one of ours. */
static ot_gpu *submits(const ot_device *d)
{
    ot_gpu *g = current(d);
    g->follows = false;
    return g;
}

cudaStream_t ot_gpu_stream(ot_device *d) { return submits(d)->stream; }
int ot_gpu_arch(const ot_device *d) { return gpu_of(d)->arch; }
int ot_gpu_units(const ot_device *d) { return gpu_of(d)->units; }
bool ot_gpu_described(const ot_device *d) { return gpu_of(d)->index < 0; }
const char *ot_gpu_description(ot_device *d) { return gpu_of(d)->description; }

/* A library is about to submit something, perhaps. */
void *ot_gpu_get(const ot_device *d, ot_gpu_slot s) { return submits(d)->slot[s].handle; }

void ot_gpu_set(ot_device *d, ot_gpu_slot s, void *handle, void (*release)(void *handle))
{
    gpu_of(d)->slot[s].handle = handle;
    gpu_of(d)->slot[s].release = release;
}

int64_t ot_gpu_blocks(const ot_device *d, int64_t n, int64_t each)
{
    int64_t want = (n + each - 1) / each, most = (int64_t)gpu_of(d)->units * 16;
    return want < most ? want : most;
}

/* ---- finding ------------------------------------------------------------------ */

static ot_status describe_failure(cudaError_t e, ot_error *err)
{
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0) return ot_fail(err, OT_E_DEVICE, "no NVIDIA driver");
    if (e == cudaErrorInsufficientDriver)
        return ot_fail(err, OT_E_DEVICE,
                       "the NVIDIA driver is too old: it supports CUDA %d.%d, but this build needs "
                       "%d.%d",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (e == cudaErrorNoDevice || e == cudaSuccess)
        return ot_fail(err, OT_E_DEVICE, "an NVIDIA driver is installed, but no GPU was found");
    return ot_gpu_check(e, "the NVIDIA driver", err);
}

static int gpu_count(ot_error *err)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaSuccess && n > 0) return n;
    cudaGetLastError();
    describe_failure(e, err);
    return 0;
}

/* cuDNN keeps its interface within a major version; it must not be older than the version at build time. */
static ot_status check_libraries(ot_error *err)
{
    size_t have = cudnnGetVersion();
    if (have / 10000 != CUDNN_VERSION / 10000 || have < 90000)
        return ot_fail(err, OT_E_DEVICE, "cuDNN %zu.%zu.%zu is installed, but this build needs cuDNN %d", have / 10000,
                       have / 100 % 100, have % 100, CUDNN_MAJOR);
    return OT_OK;
}

/* A number of the description; 0 if missing. */
static int64_t number_in(const char *json, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(json, quoted);
    return at ? strtoll(at + strlen(quoted), NULL, 10) : 0;
}

static ot_status read_description(ot_gpu *g, ot_error *err)
{
    const char *name = strstr(g->description, "\"deviceName\":\"");
    if (name) sscanf(name + 14, "%127[^\"]", g->name);
    g->arch = (int)number_in(g->description, "deviceVer") / 10;
    g->units = (int)number_in(g->description, "multiProcessorCount");
    g->memory = number_in(g->description, "totalGlobalMem");
    if (g->arch < 50 || g->units < 1)
        return ot_fail(err, OT_E_DEVICE, "the description of a device lacks deviceVer or multiProcessorCount");
    return OT_OK;
}

/* The form that cuDNN reads; for a device that is present cuDNN reads the properties itself. */
static ot_status describe_real(ot_gpu *g, ot_error *err)
{
    struct cudaDeviceProp p;
    OT_TRY(ot_gpu_check(cudaGetDeviceProperties(&p, g->index), "reading the device properties", err));
    snprintf(g->name, sizeof g->name, "%.127s", p.name);
    g->arch = p.major * 10 + p.minor;
    g->units = p.multiProcessorCount;
    g->memory = (int64_t)p.totalGlobalMem;
    return OT_OK;
}

static void name_libraries(ot_gpu *g)
{
    int driver = 0, runtime = 0, major = 0, minor = 0;
    size_t cudnn = cudnnGetVersion(), lt = cublasLtGetVersion();
    if (g->index >= 0) cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    ot_gpu_compiler_version(&major, &minor);
    snprintf(g->libraries, sizeof g->libraries,
             "CUDA %d.%d, driver %d.%d, NVRTC %d.%d, cuDNN %zu.%zu.%zu, cuBLASLt %zu.%zu.%zu", runtime / 1000,
             runtime % 1000 / 10, driver / 1000, driver % 1000 / 10, major, minor, cudnn / 10000, cudnn / 100 % 100,
             cudnn % 100, lt / 10000, lt / 100 % 100, lt % 100);
    snprintf(g->compiler, sizeof g->compiler, "%s-nvrtc%d.%d", g->arch_text, major, minor);
    snprintf(g->key, sizeof g->key, "%s-%d-nvrtc%d.%d-cudnn%zu-lt%zu", g->arch_text, g->units, major, minor, cudnn, lt);
}

/* ---- opening ------------------------------------------------------------------ */

static void gpu_close(ot_device *d)
{
    ot_gpu *g = gpu_of(d);
    if (!g) return;
    if (current(d)->stream) cudaStreamSynchronize(g->stream);
    for (int i = 0; i < OT_GPU_SLOTS; i++)
        if (g->slot[i].handle && g->slot[i].release) g->slot[i].release(g->slot[i].handle);
    ot_gpu_kernels_close(g);
    if (g->head.fault) cudaFree(g->head.fault);
    if (g->ahead.stream) {
        cudaStreamSynchronize(g->ahead.stream);
        cudaStreamDestroy(g->ahead.stream);
    }
    if (g->ahead.arrived) cudaEventDestroy(g->ahead.arrived);
    if (g->ahead.left) cudaEventDestroy(g->ahead.left);
    if (g->stream) cudaStreamDestroy(g->stream);
    free(g->description);
    free(g);
}

static ot_status open_real(ot_gpu *g, ot_error *err)
{
    int n = gpu_count(err);
    if (!n) return err ? err->status : OT_E_DEVICE;
    if (g->index >= n)
        return ot_fail(err, OT_E_DEVICE, "cuda:%d does not exist; %d device%s found", g->index, n,
                       n == 1 ? " is" : "s are");
    OT_TRY(check_libraries(err));
    OT_TRY(ot_gpu_check(cudaSetDevice(g->index), "choosing the device", err));
    OT_TRY(describe_real(g, err));
    if (g->arch < 75)
        return ot_fail(err, OT_E_DEVICE,
                       "%s: compute capability %d.%d is not supported; the minimum is "
                       "7.5",
                       g->name, g->arch / 10, g->arch % 10);
    OT_TRY(ot_gpu_check(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "creating a stream", err));
    OT_TRY(ot_gpu_check(cudaMalloc(&g->head.fault, OT_OUTBOX), "allocating memory for device errors", err));
    return ot_gpu_check(cudaMemsetAsync(g->head.fault, 0, OT_OUTBOX, g->stream), "allocating memory for device errors",
                        err);
}

static ot_status gpu_open(int index, const char *described, ot_device **out, ot_error *err)
{
    *out = NULL;
    ot_gpu *g = calloc(1, sizeof *g);
    if (!g) return ot_fail(err, OT_E_NOMEM, "no memory for a device");
    g->head.backend = &ot_gpu_backend;
    ot_gpu_kernels_open(g);
    g->index = described ? -1 : index;
    g->description = described ? strdup(described) : NULL;
    ot_status s = described && !g->description ? ot_fail(err, OT_E_NOMEM, "no memory for a device") : OT_OK;
    if (s == OT_OK) s = described ? read_description(g, err) : open_real(g, err);
    if (s == OT_OK) s = ot_gpu_compiler_target(g->arch, g->arch_text, err);
    if (s != OT_OK) {
        gpu_close(&g->head);
        return s;
    }
    const char *overlap = getenv("ONNXTRAIN_CUDA_OVERLAP");
    g->overlaps = ot_gpu_target_arch(g->arch_text) >= 90 && !(overlap && !strcmp(overlap, "0"));
    name_libraries(g);
    *out = &g->head;
    return OT_OK;
}

static void gpu_info(ot_device *d, ot_device_info *out)
{
    ot_gpu *g = gpu_of(d);
    size_t there = 0, all = 0;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", g->name);
    snprintf(out->libraries, sizeof out->libraries, "%s", g->libraries);
    snprintf(out->key, sizeof out->key, "%s", g->key);
    out->memory = out->free = g->memory;
    out->units = g->units;
    if (current(d)->index >= 0 && cudaMemGetInfo(&there, &all) == cudaSuccess) out->free = (int64_t)there;
}

/* ---- memory ------------------------------------------------------------------- */

static ot_status no_memory(ot_device *d, cudaError_t e, int64_t bytes, ot_error *err)
{
    ot_device_info i;
    cudaGetLastError();
    if (e != cudaErrorMemoryAllocation) return ot_gpu_check(e, "allocating on the device", err);
    gpu_info(d, &i);
    return ot_fail(err, OT_E_NOMEM,
                   "out of memory on %s: %lld MiB are needed, but %lld MiB are available; use a "
                   "smaller --batch-size",
                   i.name, (long long)(bytes >> 20), (long long)(i.free >> 20));
}

static ot_status gpu_alloc(ot_device *d, int64_t bytes, void **out, ot_error *err)
{
    (void)current(d);
    cudaError_t e = cudaMalloc(out, (size_t)(bytes > 0 ? bytes : 1));
    if (e == cudaSuccess) return OT_OK;
    *out = NULL;
    return no_memory(d, e, bytes, err);
}

static void gpu_free(ot_device *d, void *p)
{
    (void)current(d);
    if (p) cudaFree(p);
}

static ot_status gpu_alloc_host(ot_device *d, int64_t bytes, void **out, ot_error *err)
{
    (void)current(d);
    cudaError_t e = cudaHostAlloc(out, (size_t)(bytes > 0 ? bytes : 1), cudaHostAllocDefault);
    if (e == cudaSuccess) return OT_OK;
    *out = NULL;
    cudaGetLastError();
    return ot_fail(err, OT_E_NOMEM, "no %lld bytes of pinned memory: %s", (long long)bytes, cudaGetErrorString(e));
}

static void gpu_free_host(ot_device *d, void *p)
{
    (void)current(d);
    if (p) cudaFreeHost(p);
}

/* ---- work --------------------------------------------------------------------- */

static ot_status move(ot_device *d, void *to, const void *from, int64_t n, enum cudaMemcpyKind kind, const char *what,
                      ot_error *err)
{
    if (n <= 0) return OT_OK;
    return ot_gpu_check(cudaMemcpyAsync(to, from, (size_t)n, kind, submits(d)->stream), what, err);
}

static ot_status gpu_upload(ot_device *d, void *to, const void *host, int64_t n, ot_error *err)
{
    return move(d, to, host, n, cudaMemcpyHostToDevice, "copying to the device", err);
}

static ot_status open_ahead(ot_gpu *g, ot_error *err)
{
    const char *what = "creating a stream for uploads";
    cudaEvent_t *event[] = { &g->ahead.arrived, &g->ahead.left };
    for (int i = 0; i < 2; i++)
        if (!*event[i]) OT_TRY(ot_gpu_check(cudaEventCreateWithFlags(event[i], cudaEventDisableTiming), what, err));
    return ot_gpu_check(cudaStreamCreateWithFlags(&g->ahead.stream, cudaStreamNonBlocking), what, err);
}

/* The second stream fills `by` when the last bytes have left it, the first one empties it when the new ones are there.
 * A wait for an event that was never recorded is none. */
static ot_status gpu_upload_ahead(ot_device *d, void *to, void *by, const void *host, int64_t n, ot_error *err)
{
    const char *what = "copying to the device";
    ot_gpu *g = submits(d);
    if (n <= 0) return OT_OK;
    if (!g->ahead.stream) OT_TRY(open_ahead(g, err));
    OT_TRY(ot_gpu_check(cudaStreamWaitEvent(g->ahead.stream, g->ahead.left, 0), what, err));
    OT_TRY(ot_gpu_check(cudaMemcpyAsync(by, host, (size_t)n, cudaMemcpyHostToDevice, g->ahead.stream), what, err));
    OT_TRY(ot_gpu_check(cudaEventRecord(g->ahead.arrived, g->ahead.stream), what, err));
    OT_TRY(ot_gpu_check(cudaStreamWaitEvent(g->stream, g->ahead.arrived, 0), what, err));
    OT_TRY(move(d, to, by, n, cudaMemcpyDeviceToDevice, what, err));
    return ot_gpu_check(cudaEventRecord(g->ahead.left, g->stream), what, err);
}

static ot_status gpu_download(ot_device *d, void *host, const void *from, int64_t n, ot_error *err)
{
    return move(d, host, from, n, cudaMemcpyDeviceToHost, "copying from the device", err);
}

static ot_status gpu_copy(ot_device *d, void *to, const void *from, int64_t n, ot_error *err)
{
    return move(d, to, from, n, cudaMemcpyDeviceToDevice, "copying within the device", err);
}

static ot_status gpu_zero(ot_device *d, void *p, int64_t n, ot_error *err)
{
    if (n <= 0) return OT_OK;
    return ot_gpu_check(cudaMemsetAsync(p, 0, (size_t)n, submits(d)->stream), "clearing device memory", err);
}

static ot_status gpu_wait(ot_device *d, ot_error *err)
{
    return ot_gpu_check(cudaStreamSynchronize(current(d)->stream), "running on the device", err);
}

/* ---- marks -------------------------------------------------------------------- */

static ot_status gpu_event_new(ot_device *d, void **out, ot_error *err)
{
    (void)current(d);
    cudaEvent_t e = NULL;
    ot_status s = ot_gpu_check(cudaEventCreateWithFlags(&e, cudaEventDefault), "creating an event", err);
    *out = e;
    return s;
}

static ot_status gpu_event_record(ot_device *d, void *mark, ot_error *err)
{
    return ot_gpu_check(cudaEventRecord(mark, submits(d)->stream), "recording an event", err);
}

static ot_status gpu_event_wait(ot_device *d, void *mark, ot_error *err)
{
    (void)current(d);
    return ot_gpu_check(cudaEventSynchronize(mark), "running on the device", err);
}

static ot_status gpu_event_seconds(ot_device *d, void *from, void *to, double *seconds, ot_error *err)
{
    float ms = 0;
    OT_TRY(gpu_event_wait(d, to, err));
    OT_TRY(ot_gpu_check(cudaEventElapsedTime(&ms, from, to), "measuring time on the device", err));
    *seconds = (double)ms * 1e-3;
    return OT_OK;
}

static void gpu_event_free(ot_device *d, void *mark)
{
    (void)current(d);
    if (mark) cudaEventDestroy(mark);
}

/* ---- recordings ----------------------------------------------------------------- */

static ot_status gpu_capture_begin(ot_device *d, ot_error *err)
{
    ot_gpu *g = submits(d);
    OT_TRY(ot_gpu_check(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeThreadLocal), "recording", err));
    g->recording = true;
    return OT_OK;
}

static ot_status gpu_capture_end(ot_device *d, ot_device_graph **out, ot_error *err)
{
    ot_gpu *g = submits(d);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    *out = NULL;
    g->recording = false;
    OT_TRY(ot_gpu_check(cudaStreamEndCapture(g->stream, &graph), "recording", err));
    ot_status s = ot_gpu_check(cudaGraphInstantiate(&exec, graph, 0), "creating a CUDA graph", err);
    cudaGraphDestroy(graph);
    if (s == OT_OK) *out = (ot_device_graph *)exec;
    return s;
}

static ot_status gpu_launch_graph(ot_device *d, ot_device_graph *r, ot_error *err)
{
    return ot_gpu_check(cudaGraphLaunch((cudaGraphExec_t)r, submits(d)->stream), "launching a CUDA graph", err);
}

static void gpu_graph_free(ot_device *d, ot_device_graph *r)
{
    (void)current(d);
    if (r) cudaGraphExecDestroy((cudaGraphExec_t)r);
}

static void gpu_range(ot_device *d, const char *name)
{
    (void)d;
    (void)name;
#if OT_NVTX
    if (name) nvtxRangePushA(name);
    else nvtxRangePop();
#endif
}

ot_backend ot_gpu_backend = {
    .name = "cuda",
    .count = gpu_count,
    .open = gpu_open,
    .close = gpu_close,
    .info = gpu_info,
    .ready = ot_gpu_ready,
    .compiled = ot_gpu_compiled,
    .alloc = gpu_alloc,
    .free = gpu_free,
    .alloc_host = gpu_alloc_host,
    .free_host = gpu_free_host,
    .upload = gpu_upload,
    .upload_ahead = gpu_upload_ahead,
    .download = gpu_download,
    .copy = gpu_copy,
    .zero = gpu_zero,
    .wait = gpu_wait,
    .event_new = gpu_event_new,
    .event_record = gpu_event_record,
    .event_wait = gpu_event_wait,
    .event_seconds = gpu_event_seconds,
    .event_free = gpu_event_free,
    .capture_begin = gpu_capture_begin,
    .capture_end = gpu_capture_end,
    .launch = gpu_launch_graph,
    .graph_free = gpu_graph_free,
    .range = gpu_range,
};
