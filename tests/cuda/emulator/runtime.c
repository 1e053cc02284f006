/* runtime.c - the CUDA runtime: memory, devices, copies, kernels.  streams.c has the rest. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/emulator/emulator.h"

#define FAILS(name, error, ...) \
    if (emulator_call(name, __VA_ARGS__)) return emulator_error(error)

static __thread cudaError_t last;
static __thread int device; /* the current one */

int emulator_device(void) { return device; }

cudaError_t emulator_error(cudaError_t e) { return last = e; }

/* ---- memory ------------------------------------------------------------------- */

typedef struct block {
    struct block *next;
    char *at;
    size_t n;
    bool host;
    int device;
} block;
static block *blocks;

static block *find(const void *p, size_t n, bool host)
{
    for (block *b = blocks; b; b = b->next)
        if (b->host == host && (host || b->device == device) && (const char *)p >= b->at &&
            (const char *)p + n <= b->at + b->n)
            return b;
    return NULL;
}

enum { PAGE = 4096 }; /* blocks have pages of their own, which can be protected */

void emulator_protect(bool on)
{
    for (block *b = blocks; b; b = b->next)
        if (!b->host && mprotect(b->at, (b->n + PAGE - 1) / PAGE * PAGE, on ? PROT_NONE : PROT_READ | PROT_WRITE)) {
            perror("emulator: mprotect");
            abort();
        }
}

bool emulator_is_device(const void *p, size_t n) { return find(p, n, false) != NULL; }

/* Bytes of the device; ONNXTRAIN_EMULATOR_MEMORY says how many MiB. */
static size_t memory(void)
{
    const char *mib = getenv("ONNXTRAIN_EMULATOR_MEMORY");
    return mib ? (size_t)atoll(mib) << 20 : (size_t)1 << 34;
}

static size_t in_use(void)
{
    size_t n = 0;
    for (const block *b = blocks; b; b = b->next) n += b->host ? 0 : b->n;
    return n;
}

static cudaError_t allocate(void **out, size_t n, bool host)
{
    if (!host && n > memory() - in_use()) return emulator_error(cudaErrorMemoryAllocation);
    block *b = calloc(1, sizeof *b);
    if (!b || !(b->at = aligned_alloc(PAGE, (n + PAGE - 1) / PAGE * PAGE))) {
        free(b);
        return emulator_error(cudaErrorMemoryAllocation);
    }
    memset(b->at, 0xCD, n);
    b->n = n;
    b->host = host;
    b->device = device;
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

/* At the end of the program everything must be released. */
__attribute__((destructor)) static void leaks(void)
{
    size_t n = 0;
    for (const block *b = blocks; b; b = b->next) n += b->n;
    if (!blocks && !emulator_live(0)) return;
    fprintf(stderr, "emulator: %zu bytes and %d streams, graphs, events or libraries are never freed\n", n,
            emulator_live(0));
    _exit(98);
}

cudaError_t cudaMalloc(void **p, size_t n)
{
    FAILS("cudaMalloc", cudaErrorMemoryAllocation, "%zu", n);
    return allocate(p, n, false);
}

/* Freeing waits for submitted work, as in CUDA. */
cudaError_t cudaFree(void *p)
{
    emulator_finish();
    return p ? give_back(p, false) : cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags)
{
    FAILS("cudaHostAlloc", cudaErrorMemoryAllocation, "%zu %u", n, flags);
    return allocate(p, n, true);
}

cudaError_t cudaFreeHost(void *p)
{
    emulator_finish();
    return p ? give_back(p, true) : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *there, size_t *all)
{
    *all = memory();
    *there = *all - in_use();
    return cudaSuccess;
}

/* ---- devices -------------------------------------------------------------------- */

/* ONNXTRAIN_EMULATOR_DEVICES says how many there are. */
static int devices(void)
{
    const char *n = getenv("ONNXTRAIN_EMULATOR_DEVICES");
    return n ? atoi(n) : 1;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = devices();
    FAILS("cudaGetDeviceCount", cudaErrorNoDevice, "1");
    return cudaSuccess;
}

/* Only the first call is one that can fail: it comes before nearly every other call. */
cudaError_t cudaSetDevice(int i)
{
    static bool before;
    if (!before) {
        before = true;
        FAILS("cudaSetDevice", cudaErrorInvalidDevice, "%d", i);
    }
    if (i < 0 || i >= devices()) return emulator_error(cudaErrorInvalidDevice);
    device = i;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int i)
{
    FAILS("cudaGetDeviceProperties", cudaErrorInvalidDevice, "%d", i);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated GPU");
    p->major = 9;
    p->multiProcessorCount = 2; /* few, so that grid-stride loops iterate */
    p->totalGlobalMem = memory();
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

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaSuccess ? "no error" : e == cudaErrorMemoryAllocation ? "out of memory" : "emulated failure";
}

const char *cudaGetErrorName(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last;
    last = cudaSuccess;
    return e;
}

/* ---- copies ------------------------------------------------------------------------ */

typedef struct copy {
    void *to;
    const void *from;
    size_t n;
    int value;
} copy;

static void do_copy(const void *what)
{
    const copy *c = what;
    memmove(c->to, c->from, c->n);
}

typedef struct taken {
    void *to;
    size_t n;
    char bytes[];
} taken;

static void do_taken(const void *what)
{
    taken *t;
    memcpy(&t, what, sizeof t);
    memcpy(t->to, t->bytes, t->n);
    free(t);
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

/* From memory that is not pinned the bytes are copied now; to it they have arrived when the call returns. */
static cudaError_t copy_unpinned(const copy *c, bool to_device, cudaStream_t s)
{
    if (emulator_capturing(s)) {
        fprintf(stderr, "emulator: a recorded copy of memory that is not pinned\n");
        abort();
    }
    if (!to_device) {
        cudaError_t e = (cudaError_t)emulator_submit(s, do_copy, c, sizeof *c, "cudaMemcpyAsync");
        if (e == cudaSuccess) emulator_finish();
        return e;
    }
    taken *t = malloc(sizeof *t + c->n);
    if (!t) return emulator_error(cudaErrorMemoryAllocation);
    t->to = c->to;
    t->n = c->n;
    memcpy(t->bytes, c->from, c->n);
    cudaError_t e = (cudaError_t)emulator_submit(s, do_taken, &t, sizeof t, "cudaMemcpyAsync");
    if (e != cudaSuccess) free(t);
    return e;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s)
{
    copy c = { .to = to, .from = from, .n = n };
    const void *host = kind == cudaMemcpyHostToDevice ? from : kind == cudaMemcpyDeviceToHost ? to : NULL;
    if (kind != cudaMemcpyDeviceToHost) must_be_device(to, n, "cudaMemcpyAsync");
    if (kind != cudaMemcpyHostToDevice) must_be_device(from, n, "cudaMemcpyAsync");
    if (host && !find(host, n, true)) return copy_unpinned(&c, kind == cudaMemcpyHostToDevice, s);
    return (cudaError_t)emulator_submit(s, do_copy, &c, sizeof c, "cudaMemcpyAsync");
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t s)
{
    must_be_device(p, n, "cudaMemsetAsync");
    copy c = { .to = p, .n = n, .value = value };
    return (cudaError_t)emulator_submit(s, do_set, &c, sizeof c, "cudaMemsetAsync");
}

/* ---- kernels ------------------------------------------------------------------------ */

typedef struct kernel {
    struct kernel *next;
    emulator_entry *entry;
    struct ot_emulated **at;
    int bytes;
    size_t shared; /* dynamic, on request; 0: none was made */
    char name[64];
} kernel;
typedef struct library {
    void *handle;
    kernel *kernels;
} library;

cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code, enum cudaJitOption *jit, void **values,
                                unsigned n, enum cudaLibraryOption *options, void **option_values, unsigned n_options)
{
    (void)jit, (void)values, (void)n, (void)options, (void)option_values, (void)n_options;
    FAILS("cudaLibraryLoadData", cudaErrorInvalidSource, " ");
    /* The length of an ELF file: up to the end of its table of sections. */
    const unsigned char *b = code;
    uint64_t sections;
    uint16_t size, count;
    memcpy(&sections, b + 40, 8), memcpy(&size, b + 58, 2), memcpy(&count, b + 60, 2);
    char path[] = "/tmp/ot-emulated-kernel-XXXXXX";
    int fd = mkstemp(path);
    library *l = calloc(1, sizeof *l);
    size_t bytes = (size_t)sections + (size_t)size * count;
    if (fd < 0 || !l || write(fd, code, bytes) != (ssize_t)bytes) return emulator_error(cudaErrorInvalidSource);
    close(fd);
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle) fprintf(stderr, "emulator: %s\n", dlerror());
    unlink(path);
    emulator_live(1);
    *out = (cudaLibrary_t)l;
    return l->handle ? cudaSuccess : emulator_error(cudaErrorInvalidSource);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t lib, const char *name)
{
    FAILS("cudaLibraryGetKernel", cudaErrorSymbolNotFound, "%s", name);
    library *l = (library *)lib;
    kernel *k = calloc(1, sizeof *k);
    char bytes[96];
    if (!k) return emulator_error(cudaErrorMemoryAllocation);
    snprintf(bytes, sizeof bytes, "%s_bytes", name);
    snprintf(k->name, sizeof k->name, "%s", name);
    *(void **)&k->entry = dlsym(l->handle, name);
    k->at = dlsym(l->handle, "ot_emulated_at");
    const int *n = dlsym(l->handle, bytes);
    k->bytes = n ? *n : 0;
    k->next = l->kernels;
    l->kernels = k;
    *out = (cudaKernel_t)k;
    return k->entry && k->at && n ? cudaSuccess : emulator_error(cudaErrorSymbolNotFound);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t lib)
{
    emulator_finish();
    library *l = (library *)lib;
    for (kernel *k = l->kernels, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    if (l->handle) dlclose(l->handle);
    emulator_live(-1);
    free(l);
    return cudaSuccess;
}

/* sm_75, the oldest supported, has the least. */
enum { SHARED_AT_ONCE = 48 << 10, SHARED_ON_REQUEST = 64 << 10 };

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute name, int value)
{
    kernel *k = (kernel *)(uintptr_t)function;
    FAILS("cudaFuncSetAttribute", cudaErrorInvalidDeviceFunction, "%s", k->name);
    if (name != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > SHARED_ON_REQUEST)
        return emulator_error(cudaErrorInvalidValue);
    k->shared = (size_t)value;
    return cudaSuccess;
}

typedef struct launch {
    struct ot_emulated **at;
    emulator_launch l;
} launch;

static void do_launch(const void *what)
{
    const launch *l = what;
    emulator_run(&l->l, l->at);
}

static bool overlaps(const cudaLaunchConfig_t *c)
{
    bool yes = false;
    for (unsigned i = 0; i < c->numAttrs; i++)
        yes |= c->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
               c->attrs[i].val.programmaticStreamSerializationAllowed;
    return yes;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *function, void **args)
{
    kernel *k = (kernel *)(uintptr_t)function;
    if (k->bytes > 4000 || c->gridDim.y != 1 || c->gridDim.z != 1 || !c->gridDim.x || !c->blockDim.x ||
        c->blockDim.x > 1024 || c->dynamicSmemBytes > (k->shared > SHARED_AT_ONCE ? k->shared : SHARED_AT_ONCE))
        return emulator_error(cudaErrorInvalidConfiguration);
    launch l = { .at = k->at,
                 .l = { .name = k->name,
                        .entry = k->entry,
                        .blocks = c->gridDim.x,
                        .threads = (int)c->blockDim.x,
                        .overlaps = overlaps(c),
                        .shared = c->dynamicSmemBytes } };
    memcpy(l.l.args, args[0], (size_t)k->bytes);
    return (cudaError_t)emulator_submit_launch(c->stream, do_launch, &l, sizeof l, k->name, l.l.overlaps);
}
