/* plan.c - makes a plan from a graph: heuristics, filters, the plan on disk.
 *
 * Engines   mode A's list is in the order of expected speed; the fallback list, slow engines that support nearly
 *           everything, follows it.  An engine is dropped when its results may differ between runs, when it computes in
 *           fewer bits than allowed (f32 by matrix units is tf32), or when it needs more workspace than a share of the
 *           memory.  A new plan is run once, because there are graphs that cuDNN plans and does not run.
 * Disk      a plan is stored as cuDNN's own text, preceded by its graph.  The folder is keyed by the
 *           device and the library's version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cudnn/graph.h"

enum {
    RULES = 2,         /* version of the choice: when it changes, plans on disk are made again */
    MOST_ENGINES = 96, /* most engines that are examined */
    VARIANTS = 12,     /* most that a tuner may measure: later ones are slower in all experience */
    MEMORY_SHARE = 64  /* of the device's memory: the limit on an engine's workspace */
};

typedef struct filters {
    bool strict, precise;
    int64_t most_work;
} filters;

typedef struct engines {
    ot_cudnn_desc config[MOST_ENGINES];
    int n, heard;
} engines; /* received: before the filters */

/* ---- asking an engine ---------------------------------------------------------------------- */

static ot_cudnn_desc engine_of(ot_cudnn_desc config)
{
    ot_cudnn_desc e = NULL;
    int64_t n = 0;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &e)) return NULL;
    if (!cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &e) &&
        n == 1)
        return e;
    cudnnBackendDestroyDescriptor(e);
    return NULL;
}

static bool note_is_fine(cudnnBackendNumericalNote_t note, const filters *f)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: /* conversion to fewer bits than allowed */
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return !f->strict; /* f32 is converted to tf32 */
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return !f->precise;
    default: return true;
    }
}

static bool passes(ot_cudnn_desc config, const filters *f)
{
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n = 0, work = 0, one = 0;
    ot_cudnn_desc e = engine_of(config);
    bool ok = e && !cudnnBackendGetAttribute(e, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                             CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, note);
    for (int64_t i = 0; i < n && ok; i++) ok = note_is_fine(note[i], f);
    /* Only newer versions report it before the plan is made; the plan reports it in any case. */
    if (ok && !cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one, &work))
        ok = work <= f->most_work;
    if (e) cudnnBackendDestroyDescriptor(e);
    return ok;
}

/* ---- heuristics ------------------------------------------------------------------------------ */

/* Appends the accepted engines of the heuristics' list for one mode. */
static void hear(ot_device *d, ot_cudnn_desc graph, cudnnBackendHeurMode_t mode, const filters *f, engines *list)
{
    ot_cudnn_desc h = NULL, config[MOST_ENGINES];
    int64_t n = 0;
    int made = 0;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &h)) return;
    cudnnStatus_t s =
        cudnnBackendSetAttribute(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    if (!s) s = cudnnBackendSetAttribute(h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (!s) s = ot_cudnn_target(d, h, -1, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
    if (!s) s = cudnnBackendFinalize(h);
    while (!s && made < MOST_ENGINES &&
           !cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[made]))
        made++;
    if (!s)
        s = cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &n, config);
    if (s) n = 0;
    for (int i = 0; i < made; i++) {
        bool there = i < n;
        list->heard += there;
        if (there && list->n < MOST_ENGINES && passes(config[i], f)) list->config[list->n++] = config[i];
        else cudnnBackendDestroyDescriptor(config[i]);
    }
    cudnnBackendDestroyDescriptor(h);
}

/* ---- plans ------------------------------------------------------------------------------------- */

static ot_cudnn_desc plan_new(ot_device *d)
{
    ot_cudnn_desc plan = NULL;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan)) return NULL;
    if (!ot_cudnn_target(d, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)) return plan;
    cudnnBackendDestroyDescriptor(plan);
    return NULL;
}

static int64_t plan_work(ot_cudnn_desc plan)
{
    int64_t work = -1, n = 0;
    if (cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &work))
        return -1;
    return work;
}

/* NULL: the engine does not support the graph after all, or needs too much memory. */
static ot_cudnn_desc plan_of(ot_device *d, ot_cudnn_desc config, const filters *f)
{
    ot_cudnn_desc plan = plan_new(d);
    if (!plan) return NULL;
    cudnnStatus_t s = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (!s) s = cudnnBackendFinalize(plan);
    int64_t work = s ? -1 : plan_work(plan);
    if (work >= 0 && work <= f->most_work) return plan;
    cudnnBackendDestroyDescriptor(plan);
    return NULL;
}

/* ---- on disk ----------------------------------------------------------------------------------- */

/* A file: "variants engine bytes-of-key\n", the key, cuDNN's text. */
static char *plan_text(ot_cudnn_desc plan, int64_t *n)
{
    *n = 0;
    if (cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, n, NULL) ||
        *n <= 0)
        return NULL;
    char *text = calloc(1, (size_t)*n + 1);
    if (text &&
        !cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, *n, n, text))
        return text;
    free(text);
    return NULL;
}

static void keep(ot_device *d, const ot_text *key, ot_cudnn_desc plan, int variants, int64_t engine)
{
    char name[64], head[64];
    int64_t n;
    char *text = plan_text(plan, &n);
    int h = snprintf(head, sizeof head, "%d %lld %zu\n", variants, (long long)engine, key->n);
    char *file = text ? malloc((size_t)h + key->n + (size_t)n) : NULL;
    if (file) {
        memcpy(file, head, (size_t)h);
        memcpy(file + h, key->text, key->n);
        memcpy(file + h + key->n, text, (size_t)n);
        ot_gpu_cache_name(key->text, key->n, ".cudnn", name);
        ot_gpu_cache_write(d, name, file, (size_t)h + key->n + (size_t)n);
    }
    free(text);
    free(file);
}

static ot_cudnn_desc kept(ot_device *d, const ot_text *key, int *variants, int64_t *engine)
{
    char name[64];
    size_t n, length = 0;
    long long e = 0;
    int h = 0;
    ot_cudnn_desc plan = NULL;
    ot_gpu_cache_name(key->text, key->n, ".cudnn", name);
    char *file = ot_gpu_cache_read(d, name, &n);
    if (file && sscanf(file, "%d %lld %zu%*1[\n]%n", variants, &e, &length, &h) == 3 && h > 0 && length == key->n &&
        (size_t)h + length < n && !memcmp(file + h, key->text, length) && (plan = plan_new(d))) {
        const char *text = file + h + length;
        cudnnStatus_t s = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                                   (int64_t)(n - (size_t)h - length), text);
        if (!s) s = cudnnBackendFinalize(plan);
        if (s) {
            cudnnBackendDestroyDescriptor(plan);
            plan = NULL;
        }
    }
    *engine = e;
    free(file);
    return plan;
}

/* ---- choosing ------------------------------------------------------------------------------------ */

static int64_t engine_number(ot_cudnn_desc config)
{
    ot_cudnn_desc e = engine_of(config);
    int64_t number = -1, n = 0;
    if (e && cudnnBackendGetAttribute(e, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &number)) number = -1;
    if (e) cudnnBackendDestroyDescriptor(e);
    return number;
}

/* Variant 0 is the first engine that makes a plan; the others are those of the list, which may make none. */
static ot_cudnn_desc choose(ot_cudnn *g, ot_prep *p, const filters *f, int64_t *engine)
{
    engines list = { .n = 0 };
    bool made = false;
    ot_cudnn_desc graph = ot_cudnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR), plan = NULL;
    if (!g->status) g->status = ot_cudnn_target(p->device, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, -1);
    if (!g->status)
        g->status = cudnnBackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                             g->n_op, g->op);
    ot_cudnn_finish(g, graph);
    if (g->status) {
        p->refused = "cuDNN does not support this operation";
        return NULL;
    }
    hear(p->device, graph, CUDNN_HEUR_MODE_A, f, &list);
    hear(p->device, graph, CUDNN_HEUR_MODE_FALLBACK, f, &list);
    for (int i = p->variant; i < list.n && !plan && (i == p->variant || p->variant == 0); i++) {
        plan = plan_of(p->device, list.config[i], f);
        made = made || plan;
        if (plan && !ot_gpu_described(p->device) && !ot_cudnn_runs(g, p->device, plan, plan_work(plan))) {
            cudnnBackendDestroyDescriptor(plan);
            plan = NULL;
        }
        if (plan) *engine = engine_number(list.config[i]);
    }
    for (int i = 0; i < list.n; i++) cudnnBackendDestroyDescriptor(list.config[i]);
    p->variants = list.n < VARIANTS ? list.n : VARIANTS;
    if (!plan)
        p->refused = !list.heard ? "cuDNN has no engine for it"
                     : !list.n   ? "no cuDNN engine is deterministic, precise enough and small enough"
                     : !made     ? "cuDNN has engines, but none makes a plan"
                                 : "cuDNN has engines that make plans, but none runs";
    return plan;
}

/* ---- of the device ------------------------------------------------------------------------------- */

/* Graphs of one key share a plan while the device is open: engines that are compiled take half a second each, and a graph is
 * planned when operators are joined, in the schedule, and again for equal layers. */
typedef struct known {
    struct known *next;
    ot_cudnn_desc plan;
    int variants;
    int64_t engine;
    size_t n;
    char key[];
} known;

static void forget(void *list)
{
    for (known *k = list, *next; k; k = next) {
        next = k->next;
        cudnnBackendDestroyDescriptor(k->plan);
        free(k);
    }
}

static const known *recall(const ot_device *d, const ot_text *key)
{
    const known *k = ot_gpu_get(d, OT_GPU_CUDNN_PLANS);
    while (k && (k->n != key->n || memcmp(k->key, key->text, k->n) != 0)) k = k->next;
    return k;
}

/* Takes the plan; NULL: no memory, and the plan is gone. */
static const known *learn(ot_device *d, const ot_text *key, ot_cudnn_desc plan, int variants, int64_t engine)
{
    known *k = malloc(sizeof *k + key->n);
    if (!k) {
        cudnnBackendDestroyDescriptor(plan);
        return NULL;
    }
    *k = (known){
        .next = ot_gpu_get(d, OT_GPU_CUDNN_PLANS), .plan = plan, .variants = variants, .engine = engine, .n = key->n
    };
    memcpy(k->key, key->text, key->n);
    ot_gpu_set(d, OT_GPU_CUDNN_PLANS, k, forget);
    return k;
}

/* The plan of an equal graph, of an earlier process, or a new one; NULL: p has the reason, or OT_E_NOMEM in *status. */
static const known *find_plan(ot_cudnn *g, ot_prep *p, const filters *f, ot_status *status)
{
    int64_t engine = -1;
    int variants = 0;
    const known *k = recall(p->device, &g->key);
    if (k) return k;
    ot_cudnn_desc plan = kept(p->device, &g->key, &variants, &engine);
    if (!plan) {
        size_t n = g->key.n; /* choose() adds the graph's own descriptor */
        plan = choose(g, p, f, &engine);
        g->key.n = n;
        variants = p->variants;
        if (plan) keep(p->device, &g->key, plan, variants, engine);
    }
    if (!plan) return NULL;
    if (!(k = learn(p->device, &g->key, plan, variants, engine)))
        *status = ot_fail(p->err, OT_E_NOMEM, "no memory for a plan of cuDNN");
    return k;
}

ot_status ot_cudnn_plan(ot_cudnn *g, size_t own, ot_prep *p)
{
    ot_device_info info;
    p->device->backend->info(p->device, &info);
    filters f = { .precise = p->precise,
                  .most_work = info.memory / MEMORY_SHARE,
                  .strict = g->type == OT_F32 && (!p->tf32 || p->precise) };
    if (g->status) {
        p->refused = g->status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                         ? "no memory for cuDNN's descriptors"
                         : "cuDNN does not support this operation";
        ot_cudnn_free(g);
        return OT_OK;
    }
    /* A described device may lack what a real one has (the driver that compiled engines need): its plans are stored
     * separately. */
    ot_text_add(&g->key, "%d %d %d %d %s\n", RULES, p->variant, f.strict, f.precise,
                ot_gpu_described(p->device) ? ot_gpu_description(p->device) : "");
    if (g->key.failed) {
        ot_cudnn_free(g);
        return ot_fail(p->err, OT_E_NOMEM, "no memory for a graph");
    }
    ot_status status = OT_OK;
    const known *k = find_plan(g, p, &f, &status);
    int64_t work = k ? plan_work(k->plan) : -1;
    if (work < 0) {
        if (!p->refused && status == OT_OK) p->refused = "cuDNN has engines, but none makes a plan";
        ot_cudnn_free(g);
        return status;
    }
    p->variants = k->variants;
    ot_cudnn_planned(g, k->plan);
    g->own = (own + 255) / 256 * 256;
    g->work = (size_t)work;
    p->work = g->work ? g->own + g->work : own;
    p->state = g;
    snprintf(p->how, sizeof p->how, "engine %lld, %.1f MiB", (long long)k->engine, (double)work / (1 << 20));
    return OT_OK;
}
