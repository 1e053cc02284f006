/* kernels.c - the kernels of a device: texts are compiled by threads while a plan is made; launching.
 *
 * ot_gpu_compile only names a kernel.  A text that is not on disk waits for a thread; the caller that needs a kernel (the
 * end of a plan, the first launch) compiles what waits too, so that everything works without a thread.  A text is compiled
 * once for all of its entries.  NVRTC: "multiple threads can invoke NVRTC API functions concurrently", as long as no two
 * use one program.  The device's own calls (loading) are the calling thread's, in the order of the requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backends/cuda/internal.h"

/* ---- compiling ------------------------------------------------------------------- */

void ot_gpu_kernels_open(ot_gpu *g)
{
    ot_gpu_kernels *k = &g->kernels;
    k->end = &k->images;
    k->fns_end = &k->fns;
    /* With default attributes these have nothing that could fail. */
    (void)pthread_mutex_init(&k->lock, NULL);
    (void)pthread_cond_init(&k->more, NULL);
    (void)pthread_cond_init(&k->done, NULL);
}

/* Under the lock: a text that waits, `wanted` before others; it is then this thread's. */
static ot_gpu_image *take(ot_gpu_kernels *k, ot_gpu_image *wanted)
{
    ot_gpu_image *i = wanted && wanted->progress == OT_GPU_WAITS ? wanted : k->images;
    while (i && i->progress != OT_GPU_WAITS) i = i->next;
    if (i) i->progress = OT_GPU_COMPILES;
    return i;
}

/* Under the lock, which is open meanwhile: compiles a text that was taken. */
static void compile(ot_gpu *g, ot_gpu_image *i)
{
    ot_gpu_kernels *k = &g->kernels;
    ot_error err = { 0 };
    pthread_mutex_unlock(&k->lock);
    i->failed = ot_gpu_image_compile(g, i, &err);
    if (i->failed) i->words = strdup(err.text);
    pthread_mutex_lock(&k->lock);
    i->progress = OT_GPU_COMPILED;
    pthread_cond_broadcast(&k->done);
}

static void *work(void *device)
{
    ot_gpu *g = device;
    ot_gpu_kernels *k = &g->kernels;
    pthread_mutex_lock(&k->lock);
    for (;;) {
        ot_gpu_image *i = take(k, NULL);
        if (i) compile(g, i);
        else if (k->ends) break;
        else pthread_cond_wait(&k->more, &k->lock);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* A text waits now.  One thread more for each, up to as many as the plan may use beside its own; where none can be
 * created, the waiting thread compiles. */
static void offer(ot_gpu *g)
{
    ot_gpu_kernels *k = &g->kernels;
    if (k->n_threads < OT_GPU_COMPILERS && k->n_threads + 1 < g->head.threads &&
        pthread_create(&k->thread[k->n_threads], NULL, work, g) == 0)
        k->n_threads++;
    pthread_cond_signal(&k->more);
}

/* Waits for the threads; texts that still wait are compiled before they return, unless there are none in the list. */
static void join(ot_gpu_kernels *k)
{
    pthread_mutex_lock(&k->lock);
    k->ends = true;
    pthread_cond_broadcast(&k->more);
    pthread_mutex_unlock(&k->lock);
    while (k->n_threads) pthread_join(k->thread[--k->n_threads], NULL);
    k->ends = false;
}

static void finish(ot_gpu *g, ot_gpu_image *i)
{
    ot_gpu_kernels *k = &g->kernels;
    pthread_mutex_lock(&k->lock);
    while (i->progress != OT_GPU_COMPILED) {
        ot_gpu_image *mine = take(k, i);
        if (mine) compile(g, mine);
        else pthread_cond_wait(&k->done, &k->lock);
    }
    pthread_mutex_unlock(&k->lock);
}

/* ---- asking for kernels ------------------------------------------------------------- */

/* The text's code: that of an earlier request, from disk, or from a thread later.  Consumes `fresh`. */
static ot_gpu_image *find_image(ot_gpu *g, ot_gpu_image *fresh)
{
    ot_gpu_kernels *k = &g->kernels;
    ot_gpu_image *i = k->images;
    while (i && strcmp(i->name, fresh->name) != 0) i = i->next;
    bool disk = !i && ot_gpu_image_read(g, fresh);
    pthread_mutex_lock(&k->lock);
    if (!i) {
        fresh->progress = disk ? OT_GPU_COMPILED : OT_GPU_WAITS;
        *k->end = fresh;
        k->end = &fresh->next;
        if (!disk) offer(g);
    } else if (i->progress == OT_GPU_COMPILED && i->failed &&
               i->told) { /* in an earlier plan: perhaps there is memory now */
        free(i->words);
        i->words = NULL;
        i->failed = OT_OK;
        i->told = false;
        i->progress = OT_GPU_WAITS;
        offer(g);
    }
    pthread_mutex_unlock(&k->lock);
    if (i) ot_gpu_image_free(fresh);
    return i ? i : fresh;
}

ot_status ot_gpu_compile(ot_device *d, const char *file, const char *prefix, const char *entry, ot_gpu_fn **out,
                         ot_error *err)
{
    ot_gpu *g = (ot_gpu *)d;
    ot_gpu_kernels *k = &g->kernels;
    ot_gpu_image *i;
    *out = NULL;
    ot_gpu_fn *f = calloc(1, sizeof *f);
    if (!f) return ot_fail(err, OT_E_NOMEM, "no memory for a kernel");
    ot_status s = ot_gpu_image_new(g, file, prefix, &i, err);
    if (s != OT_OK) {
        free(f);
        return s;
    }
    f->image = find_image(g, i);
    snprintf(f->entry, sizeof f->entry, "%s", entry);
    for (ot_gpu_fn *old = k->fns; old; old = old->next)
        if (old->image == f->image && !strcmp(old->entry, f->entry)) *out = old;
    if (*out) {
        free(f);
        return OT_OK;
    }
    *k->fns_end = f;
    k->fns_end = &f->next;
    *out = f;
    return OT_OK;
}

/* ---- loading ----------------------------------------------------------------------- */

/* The error of compiling the image's source; OT_OK: it did not fail. */
static ot_status failure(ot_gpu_image *i, ot_error *err)
{
    if (!i->failed) return OT_OK;
    i->told = true;
    return ot_fail(err, i->failed, "%s", i->words ? i->words : "no memory for a kernel");
}

static ot_status load(ot_gpu *g, ot_gpu_fn *f, ot_error *err)
{
    ot_gpu_image *i = f->image;
    (void)ot_gpu_stream(&g->head); /* the device is the current one */
    if (!i->library && g->index >= 0)
        OT_TRY(ot_gpu_check(cudaLibraryLoadData(&i->library, i->code, NULL, NULL, 0, NULL, NULL, 0), "loading a kernel",
                            err));
    free(i->source);
    free(i->code); /* the library has a copy */
    i->source = NULL;
    i->code = NULL;
    if (g->index < 0) return OT_OK;
    if (!f->kernel) OT_TRY(ot_gpu_check(cudaLibraryGetKernel(&f->kernel, i->library, f->entry), f->entry, err));
    if (f->shared <= f->allowed) return OT_OK;
    /* A cudaKernel_t is accepted where a function is. */
    OT_TRY(ot_gpu_check(
        cudaFuncSetAttribute((const void *)f->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)f->shared),
        f->entry, err));
    f->allowed = f->shared;
    return OT_OK;
}

static ot_status settle(ot_gpu *g, ot_gpu_fn *f, ot_error *err)
{
    finish(g, f->image);
    OT_TRY(failure(f->image, err));
    return load(g, f, err);
}

ot_status ot_gpu_ready(ot_device *d, ot_error *err)
{
    ot_gpu *g = (ot_gpu *)d;
    ot_status s = OT_OK;
    for (ot_gpu_image *i = g->kernels.images; i; i = i->next) finish(g, i);
    join(&g->kernels);
    for (ot_gpu_fn *f = g->kernels.fns; f; f = f->next) {
        if (f->image->failed && f->image->told) continue;
        if (s == OT_OK) s = settle(g, f, err);
        f->image->told = f->image->failed != OT_OK; /* one failure is reported for a plan */
    }
    return s;
}

bool ot_gpu_compiled(ot_device *d, int i, const char **name, const char **words)
{
    ot_gpu *g = (ot_gpu *)d;
    const ot_gpu_fn *f = g->kernels.fns;
    while (f && i--) f = f->next;
    if (!f) return false;
    finish(g, f->image);
    *name = f->entry;
    *words = f->image->report;
    return true;
}

void ot_gpu_kernels_close(ot_gpu *g)
{
    ot_gpu_kernels *k = &g->kernels;
    pthread_mutex_lock(&k->lock);
    for (ot_gpu_image *i = k->images; i; i = i->next)
        if (i->progress == OT_GPU_WAITS) i->progress = OT_GPU_COMPILED; /* no longer needed */
    pthread_mutex_unlock(&k->lock);
    join(k);
    for (ot_gpu_fn *f = k->fns, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    for (ot_gpu_image *i = k->images, *next; i; i = next) {
        next = i->next;
        ot_gpu_image_free(i);
    }
    pthread_cond_destroy(&k->done);
    pthread_cond_destroy(&k->more);
    pthread_mutex_destroy(&k->lock);
}

/* ---- launching --------------------------------------------------------------------- */

ot_status ot_gpu_allow_shared(ot_device *d, ot_gpu_fn *f, size_t bytes, ot_error *err)
{
    if (bytes <= 48 << 10 || bytes <= f->shared) return OT_OK;
    f->shared = bytes;
    return f->kernel ? load((ot_gpu *)d, f, err) : OT_OK;
}

/* Programmatic dependent launch: where the stream was given a kernel of ours last, the next one may be launched while
 * that one runs, and waits on the device (OT_KERNEL of ops/cuda/prelude.cuh): "the kernel will use programmatic means
 * to resolve its stream dependency, so that the CUDA runtime should opportunistically allow the grid's execution to
 * overlap with the previous kernel in the stream, if that kernel requests the overlap" (driver_types.h).  The wait
 * returns when the previous grid has completed and its memory is visible; as each of our kernels waits before it lets
 * the next one be launched, all that was submitted before is complete then, too.  A captured launch becomes a graph
 * node whose edge has the type cudaGraphDependencyTypeProgrammatic, which "may only be used between kernel nodes", and
 * leaves its predecessor at cudaGraphKernelNodePortProgrammatic.
 * Not documented is how kernels of libraries begin and end: a kernel behind one of these is launched as ever, and they
 * are launched as they wish, which has to be right behind any kernel. */
ot_status ot_gpu_launch(ot_device *d, ot_gpu_fn *f, int64_t blocks, int threads, size_t shared, const void *args,
                        ot_error *err)
{
    if (blocks <= 0) return OT_OK;
    if (blocks > INT32_MAX)
        return ot_fail(err, OT_E_INTERNAL, "%s: too many blocks: %lld", f->entry, (long long)blocks);
    ot_gpu *g = (ot_gpu *)d;
    bool follows = g->follows;
    cudaStream_t stream = ot_gpu_stream(d);
    if (!f->kernel) OT_TRY(settle(g, f, err));
    void *list[] = { (void *)(uintptr_t)args };
    cudaLaunchAttribute early = { .id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                  .val.programmaticStreamSerializationAllowed = 1 };
    cudaLaunchConfig_t c = { .gridDim = { (unsigned)blocks, 1, 1 },
                             .blockDim = { (unsigned)threads, 1, 1 },
                             .dynamicSmemBytes = shared,
                             .stream = stream,
                             .attrs = &early,
                             .numAttrs = g->overlaps && follows };
    OT_TRY(ot_gpu_check(cudaLaunchKernelExC(&c, (const void *)f->kernel, list), f->entry, err));
    g->follows = true;
    return OT_OK;
}
