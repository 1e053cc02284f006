/* streams.c - the CUDA runtime: streams, capture into graphs, events.
 *
 * Work submitted to a stream is stored and executed when the program waits for it (or when there is much of it), in
 * order of submission; or it is recorded while the stream is captured.  A second stream's is executed when the first one
 * waits for it and, every other time, as soon as it may be. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/emulator/emulator.h"

#define FAILS(name, error, ...) \
    if (emulator_call(name, __VA_ARGS__)) return emulator_error(error)

cudaError_t emulator_error(cudaError_t e); /* runtime.c: what cudaGetLastError will say */

enum { MOST = 4096 }; /* kept pieces of work */

typedef struct task {
    struct task *next;
    bool kernel; /* of the module: emulator_submit_launch */
    emulator_work *work;
    size_t bytes;
    char what[];
} task;
typedef struct list {
    task *first, **end;
    int n;
} list;

struct CUgraph_st {
    list tasks;
};
struct CUgraphExec_st {
    list tasks;
};
struct CUstream_st {
    struct CUstream_st *next;
    int device;
    cudaGraph_t capture;
    bool beside; /* there was a stream of the device already */
    int marks;
    bool follows; /* the last work was a kernel of the module */
    list kept;
};
struct CUevent_st {
    double seconds;
    long long set, done;
    cudaStream_t stream; /* where it was recorded last */
};

static cudaStream_t streams;

int emulator_live(int more)
{
    static int live;
    return live += more;
}

/* ---- lists of work --------------------------------------------------------------- */

static bool add(list *l, emulator_work *work, const void *what, size_t bytes, bool kernel)
{
    task *t = malloc(sizeof *t + bytes);
    if (!t) return false;
    *t = (task){ .work = work, .bytes = bytes, .kernel = kernel };
    memcpy(t->what, what, bytes);
    if (!l->first) l->end = &l->first;
    *l->end = t;
    l->end = &t->next;
    l->n++;
    return true;
}

static void drop(list *l)
{
    for (task *t = l->first, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    *l = (list){ 0 };
}

static void do_first(list *l)
{
    task *t = l->first;
    l->first = t->next;
    l->n--;
    if (!t->kernel) emulator_finish_launch();
    t->work(t->what);
    free(t);
}

static void finish(cudaStream_t s)
{
    while (s->kept.first) do_first(&s->kept);
    emulator_finish_launch();
}

void emulator_finish(void)
{
    for (cudaStream_t s = streams; s; s = s->next) finish(s);
}

/* ---- streams ---------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    FAILS("cudaStreamCreateWithFlags", cudaErrorUnknown, "%u", flags);
    *s = calloc(1, sizeof **s);
    if (!*s) return emulator_error(cudaErrorMemoryAllocation);
    emulator_live(1);
    (*s)->device = emulator_device();
    for (cudaStream_t o = streams; o; o = o->next) (*s)->beside |= o->device == (*s)->device;
    (*s)->next = streams;
    streams = *s;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    finish(s);
    for (cudaStream_t *at = &streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    if (s->capture) cudaGraphDestroy(s->capture);
    emulator_live(-1);
    free(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    FAILS("cudaStreamSynchronize", cudaErrorLaunchFailure, "%d", s->capture != NULL);
    if (s->capture) return emulator_error(cudaErrorStreamCaptureUnsupported);
    finish(s);
    return cudaSuccess;
}

bool emulator_capturing(void *stream) { return ((cudaStream_t)stream)->capture != NULL; }

static cudaError_t keep(cudaStream_t s, emulator_work *work, const void *what, size_t bytes, bool kernel)
{
    if (!add(&s->kept, work, what, bytes, kernel)) return emulator_error(cudaErrorMemoryAllocation);
    if (s->kept.n > MOST) finish(s);
    return cudaSuccess;
}

static void must_be_current(cudaStream_t s, const char *name)
{
    if (s->device == emulator_device()) return;
    fprintf(stderr, "emulator: %s on a stream of device %d while device %d is current\n", name, s->device,
            emulator_device());
    abort();
}

static int submit(void *stream, emulator_work *work, const void *what, size_t bytes, const char *name, bool kernel,
                  bool overlaps)
{
    cudaStream_t s = stream;
    if (!s) {
        fprintf(stderr, "emulator: %s on the default stream\n", name);
        abort();
    }
    must_be_current(s, name);
    if (overlaps && !s->follows) {
        fprintf(stderr, "emulator: %s may begin before its predecessor ends, which is no kernel of the module\n", name);
        abort();
    }
    s->follows = kernel;
    if (emulator_call(name, "%s%s", s->capture ? "recorded" : "run", overlaps ? ", overlaps" : ""))
        return (int)emulator_error(cudaErrorLaunchFailure);
    if (!s->capture) return (int)keep(s, work, what, bytes, kernel);
    return (int)(add(&s->capture->tasks, work, what, bytes, kernel) ? cudaSuccess
                                                                    : emulator_error(cudaErrorMemoryAllocation));
}

int emulator_submit(void *stream, emulator_work *work, const void *what, size_t bytes, const char *name)
{
    return submit(stream, work, what, bytes, name, false, false);
}

int emulator_submit_launch(void *stream, emulator_work *work, const void *what, size_t bytes, const char *name,
                           bool overlaps)
{
    return submit(stream, work, what, bytes, name, true, overlaps);
}

/* ---- graphs ------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    FAILS("cudaStreamBeginCapture", cudaErrorUnknown, "%d", (int)mode);
    if (s->capture || !(s->capture = calloc(1, sizeof *s->capture))) return emulator_error(cudaErrorIllegalState);
    emulator_live(1);
    s->follows = false; /* it is the first node of a graph */
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    s->follows = false;
    *out = s->capture;
    s->capture = NULL;
    if (!*out) return emulator_error(cudaErrorIllegalState);
    if (emulator_call("cudaStreamEndCapture", "%d pieces of work", (*out)->tasks.n)) {
        cudaGraphDestroy(*out);
        *out = NULL;
        return emulator_error(cudaErrorStreamCaptureInvalidated);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags)
{
    *out = NULL;
    FAILS("cudaGraphInstantiate", cudaErrorMemoryAllocation, "%llu", flags);
    cudaGraphExec_t e = calloc(1, sizeof *e);
    bool ok = e != NULL;
    if (ok) emulator_live(1);
    for (const task *t = g->tasks.first; t && ok; t = t->next)
        ok = add(&e->tasks, t->work, t->what, t->bytes, t->kernel);
    if (!ok && e) cudaGraphExecDestroy(e);
    if (!ok) return emulator_error(cudaErrorMemoryAllocation);
    *out = e;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    if (g) drop(&g->tasks);
    if (g) emulator_live(-1);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    if (g) drop(&g->tasks);
    if (g) emulator_live(-1);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s)
{
    must_be_current(s, "cudaGraphLaunch");
    FAILS("cudaGraphLaunch", cudaErrorLaunchFailure, "%d pieces of work", g->tasks.n);
    if (s->capture) return emulator_error(cudaErrorStreamCaptureUnsupported);
    s->follows = false;
    for (const task *t = g->tasks.first; t; t = t->next)
        if (keep(s, t->work, t->what, t->bytes, t->kernel) != cudaSuccess) return cudaErrorMemoryAllocation;
    return cudaSuccess;
}

/* ---- events ----------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    FAILS("cudaEventCreateWithFlags", cudaErrorMemoryAllocation, "%u", flags);
    *e = calloc(1, sizeof **e);
    if (*e) emulator_live(1);
    return *e ? cudaSuccess : emulator_error(cudaErrorMemoryAllocation);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    emulator_finish(); /* what is kept may still set it */
    emulator_live(-1);
    free(e);
    return cudaSuccess;
}

static void stamp(const void *what)
{
    struct timespec t;
    cudaEvent_t e;
    memcpy(&e, what, sizeof e);
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    e->done++;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    cudaError_t r = (cudaError_t)emulator_submit(s, stamp, &e, sizeof e, "cudaEventRecord");
    if (r != cudaSuccess || s->capture) return r;
    e->set++;
    e->stream = s;
    if (s->beside && s->marks++ % 2) finish(s);
    return r;
}

typedef struct awaited {
    cudaEvent_t event;
    long long set;
} awaited;

static void await(const void *what)
{
    awaited a;
    memcpy(&a, what, sizeof a);
    while (a.event->done < a.set && a.event->stream->kept.first) do_first(&a.event->stream->kept);
}

/* An event that was never recorded is not waited for. */
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    awaited a = { e, e->set };
    if (flags || s->capture) return emulator_error(cudaErrorInvalidValue);
    return (cudaError_t)emulator_submit(s, await, &a, sizeof a, "cudaStreamWaitEvent");
}

/* Does no more than it must. */
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    FAILS("cudaEventSynchronize", cudaErrorLaunchFailure, "%s", e->done < e->set ? "waits" : "done");
    while (e->done < e->set && e->stream->kept.first) do_first(&e->stream->kept);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    FAILS("cudaEventElapsedTime", cudaErrorUnknown, "%lld", to->done);
    if (!from->done || to->done < to->set) return emulator_error(cudaErrorNotReady);
    *ms = (float)((to->seconds - from->seconds) * 1e3);
    return cudaSuccess;
}
