/* cublaslt.c - cuBLASLt: descriptors store their attributes, a product is a loop over them.
 *
 * The heuristic offers an algorithm without workspace, one that splits K and adds the parts from the workspace, and
 * four that must not be used: one that rounds f32 to tf32 without permission if its kind is not masked, one refused,
 * one that needs too much memory, one that its check refuses. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/elements.h"
#include "tests/cuda/emulator/emulator.h"

#define FAILS(name, status, ...) \
    if (emulator_call(name, __VA_ARGS__)) return status

size_t cublasLtGetVersion(void) { return 130100; }

const char *cublasLtGetStatusName(cublasStatus_t s)
{
    switch (s) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    default: return "CUBLAS_STATUS (emulated)";
    }
}

struct cublasLtContext {
    int made;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    FAILS("cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED, " ");
    *h = calloc(1, sizeof **h);
    return *h ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- descriptors -------------------------------------------------------------------- */

typedef struct layout {
    int type, order, batches;
    uint64_t rows, columns;
    int64_t ld, step;
} layout;
typedef struct op {
    int compute, scale, ta, tb, epilogue, bias_type;
    const void *bias;
    void *aux;
    int64_t bias_step, aux_ld, aux_step;
} op;
typedef struct preference {
    uint64_t work, allowed;
    uint32_t reduction, alignment[4];
} preference;

/* A field of a descriptor and the size that its attribute must have. */
#define FIELD(attribute, field) case attribute: at = &d->field, size = sizeof d->field; break
#define STORE(at, size, from, n)                                         \
    if (!(at) || !(from) || (size) != (n)) return CUBLAS_STATUS_INVALID_VALUE; \
    memcpy(at, from, n);                                                 \
    return CUBLAS_STATUS_SUCCESS

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
    FAILS("cublasLtMatrixLayoutCreate", CUBLAS_STATUS_ALLOC_FAILED, "%d %llu %llu %lld", (int)type,
          (unsigned long long)rows, (unsigned long long)columns, (long long)ld);
    layout *d = malloc(sizeof *d);
    if (!d) return CUBLAS_STATUS_ALLOC_FAILED;
    *d = (layout){
        .type = (int)type, .order = CUBLASLT_ORDER_COL, .batches = 1, .rows = rows, .columns = columns, .ld = ld
    };
    *out = (cublasLtMatrixLayout_t)d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a,
                                                const void *from, size_t n)
{
    layout *d = (layout *)l;
    void *at = NULL;
    size_t size = 0;
    FAILS("cublasLtMatrixLayoutSetAttribute", CUBLAS_STATUS_INVALID_VALUE, "%d", (int)a);
    switch ((int)a) {
        FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, order);
        FIELD(CUBLASLT_MATRIX_LAYOUT_LD, ld);
        FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches);
        FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
    default: break;
    }
    STORE(at, size, from, n);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
    FAILS("cublasLtMatmulDescCreate", CUBLAS_STATUS_ALLOC_FAILED, "%d %d", (int)compute, (int)scale);
    op *d = malloc(sizeof *d);
    if (!d) return CUBLAS_STATUS_ALLOC_FAILED;
    *d = (op){ .compute = (int)compute,
               .scale = (int)scale,
               .ta = CUBLAS_OP_N,
               .tb = CUBLAS_OP_N,
               .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
               .bias_type = -1 };
    *out = (cublasLtMatmulDesc_t)d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t m, cublasLtMatmulDescAttributes_t a,
                                              const void *from, size_t n)
{
    op *d = (op *)m;
    void *at = NULL;
    size_t size = 0;
    FAILS("cublasLtMatmulDescSetAttribute", CUBLAS_STATUS_INVALID_VALUE, "%d", (int)a);
    switch ((int)a) {
        FIELD(CUBLASLT_MATMUL_DESC_TRANSA, ta);
        FIELD(CUBLASLT_MATMUL_DESC_TRANSB, tb);
        FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
        FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
        FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type);
        FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, bias_step);
        FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
        FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld);
        FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux_step);
    default: break;
    }
    STORE(at, size, from, n);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    FAILS("cublasLtMatmulPreferenceCreate", CUBLAS_STATUS_ALLOC_FAILED, " ");
    preference *d = malloc(sizeof *d);
    if (!d) return CUBLAS_STATUS_ALLOC_FAILED;
    *d = (preference){ .allowed = ~(uint64_t)0,
                       .reduction = CUBLASLT_REDUCTION_SCHEME_MASK,
                       .alignment = { 256, 256, 256, 256 } };
    *out = (cublasLtMatmulPreference_t)d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t a, const void *from, size_t n)
{
    preference *d = (preference *)p;
    void *at = NULL;
    size_t size = 0;
    FAILS("cublasLtMatmulPreferenceSetAttribute", CUBLAS_STATUS_INVALID_VALUE, "%d", (int)a);
    switch ((int)a) {
        FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, work);
        FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction);
        FIELD(CUBLASLT_MATMUL_PREF_IMPL_MASK, allowed);
        FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment[0]);
        FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment[1]);
        FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment[2]);
        FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment[3]);
    default: break;
    }
    STORE(at, size, from, n);
}

/* ---- products -------------------------------------------------------------------------- */

enum { WHOLE, SPLIT, TF32, REFUSED, GREEDY, UNCHECKED, KINDS };
enum { SPLITS = 4 };

/* What an algorithm's 64 bytes hold here. */
typedef struct choice {
    uint64_t magic, problem, kind, work, alignment, unused[3];
} choice;
static const uint64_t magic = 0x656d756c61746564u;

typedef struct product {
    op d;
    layout a, b, c;
    double alpha, beta;
    const void *A, *B, *C;
    void *D, *work;
    choice how;
} product;

static uint64_t mixed(uint64_t h, int64_t v) { return (h ^ (uint64_t)v) * 0x100000001b3u; }

/* ---- epilogues: those of NVIDIA's table that the program uses --------------------------- */

static bool has(int e, int a, int b, int c) { return e == a || e == b || e == c; }
static bool adds_bias(int e)
{
    return has(e, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
}
static bool has_aux(int e)
{
    return has(e, CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU);
}
static bool is_gelu(int e)
{
    return has(e, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX) ||
           e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

/* GELU's operand has rows of a multiple of 8 elements, as documented. */
static bool epilogue_fits(const op *d, uint64_t rows, bool f64)
{
    int e = d->epilogue;
    if (e == CUBLASLT_EPILOGUE_DEFAULT) return true;
    if (f64 || (!adds_bias(e) && !has_aux(e) && !is_gelu(e))) return false;
    return !has_aux(e) || (d->aux && d->aux_ld >= (int64_t)rows && d->aux_ld % 8 == 0 && d->aux_step % 8 == 0);
}

/* GELU of the tanh form, and its derivative. */
static double gelu(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
static double gelu_slope(double x)
{
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

/* Everything an algorithm depends on. */
static uint64_t problem_of(const product *p)
{
    const layout *l[] = { &p->a, &p->b, &p->c };
    uint64_t h = 0xcbf29ce484222325u;
    const int of[] = {
        p->d.compute, p->d.scale, p->d.ta, p->d.tb, p->d.epilogue, (int)p->d.aux_ld, (int)p->d.aux_step
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) h = mixed(h, of[i]);
    for (int i = 0; i < 3; i++) {
        h = mixed(mixed(mixed(h, l[i]->type), (int64_t)l[i]->rows), (int64_t)l[i]->columns);
        h = mixed(mixed(mixed(h, l[i]->ld), l[i]->batches), l[i]->step);
    }
    return h;
}

static int64_t inner(const product *p) { return (int64_t)(p->d.ta == CUBLAS_OP_N ? p->a.columns : p->a.rows); }

/* Do the descriptors fit each other? */
static bool consistent(const product *p)
{
    const layout *l[] = { &p->a, &p->b, &p->c };
    uint64_t m = p->d.ta == CUBLAS_OP_N ? p->a.rows : p->a.columns,
             n = p->d.tb == CUBLAS_OP_N ? p->b.columns : p->b.rows;
    uint64_t k = p->d.tb == CUBLAS_OP_N ? p->b.rows : p->b.columns;
    bool f64 = p->a.type == CUDA_R_64F;
    for (int i = 0; i < 3; i++)
        if (l[i]->order != CUBLASLT_ORDER_COL || l[i]->ld < (int64_t)l[i]->rows || !l[i]->rows || !l[i]->columns ||
            l[i]->batches != p->c.batches || l[i]->type != p->a.type)
            return false;
    if (p->c.rows != m || p->c.columns != n || (uint64_t)inner(p) != k) return false;
    if (!epilogue_fits(&p->d, p->c.rows, f64)) return false;
    if (f64) return p->d.compute == CUBLAS_COMPUTE_64F && p->d.scale == CUDA_R_64F;
    if (p->d.scale != CUDA_R_32F) return false;
    return p->d.compute == CUBLAS_COMPUTE_32F ||
           (p->d.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p->a.type == CUDA_R_32F);
}

static double term(const product *p, int64_t batch, int64_t i, int64_t j, int64_t k)
{
    int64_t a = batch * p->a.step + (p->d.ta == CUBLAS_OP_N ? i + k * p->a.ld : k + i * p->a.ld);
    int64_t b = batch * p->b.step + (p->d.tb == CUBLAS_OP_N ? k + j * p->b.ld : j + k * p->b.ld);
    double x = emulator_load(p->A, p->a.type, a), y = emulator_load(p->B, p->b.type, b);
    if (p->how.kind != TF32 && p->d.compute != CUBLAS_COMPUTE_32F_FAST_TF32) return x * y;
    return emulator_rounded(x, 10, -136) * emulator_rounded(y, 10, -136);
}

static double sum(const product *p, int64_t batch, int64_t i, int64_t j)
{
    int64_t k = inner(p);
    double s = 0;
    if (p->how.kind != SPLIT) {
        for (int64_t t = 0; t < k; t++) s += term(p, batch, i, j, t);
        return s;
    }
    int64_t at = ((batch * (int64_t)p->c.columns + j) * (int64_t)p->c.rows + i) * SPLITS;
    for (int q = 0; q < SPLITS; q++) {
        double part = 0;
        for (int64_t t = k * q / SPLITS; t < k * (q + 1) / SPLITS; t++) part += term(p, batch, i, j, t);
        emulator_store(p->work, p->d.scale, at + q, part);
    }
    for (int q = 0; q < SPLITS; q++) s += emulator_load(p->work, p->d.scale, at + q);
    return s;
}

static void multiply(const void *what)
{
    const product *p = what;
    for (int64_t batch = 0; batch < p->c.batches; batch++)
        for (int64_t j = 0; j < (int64_t)p->c.columns; j++)
            for (int64_t i = 0; i < (int64_t)p->c.rows; i++) {
                int64_t at = batch * p->c.step + i + j * p->c.ld;
                double v = p->alpha * sum(p, batch, i, j);
                if (p->beta != 0) v += p->beta * emulator_load(p->C, p->c.type, at);
                int e = p->d.epilogue;
                int64_t aux = batch * p->d.aux_step + i + j * p->d.aux_ld;
                if (adds_bias(e)) v += emulator_load(p->d.bias, p->c.type, batch * p->d.bias_step + i);
                if (e == CUBLASLT_EPILOGUE_DGELU) v *= gelu_slope(emulator_load(p->d.aux, p->c.type, aux));
                else if (has_aux(e)) emulator_store(p->d.aux, p->c.type, aux, v);
                if (is_gelu(e)) v = gelu(v);
                emulator_store(p->D, p->c.type, at, v);
            }
}

/* ---- algorithms -------------------------------------------------------------------------- */

static size_t split_bytes(const product *p)
{
    return (size_t)p->c.rows * p->c.columns * (size_t)p->c.batches * SPLITS * emulator_size(p->d.scale);
}

static product describe(cublasLtMatmulDesc_t m, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t d)
{
    return (product){ .d = *(op *)m, .a = *(layout *)a, .b = *(layout *)b, .c = *(layout *)d };
}

static bool offered(const product *p, const preference *like, int kind, size_t work)
{
    if (kind == TF32)
        return p->d.compute == CUBLAS_COMPUTE_32F && p->a.type == CUDA_R_32F &&
               like->allowed & CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32;
    if (kind == SPLIT)
        return work <= like->work && like->reduction & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE && inner(p) >= SPLITS;
    return true;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t m, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t like_, int most,
                                              cublasLtMatmulHeuristicResult_t *out, int *n)
{
    const preference *like = (const preference *)like_;
    product p = describe(m, a, b, d);
    uint32_t alignment = 256;
    *n = 0;
    FAILS("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED, "%d", most);
    if (!h || most < 1) return CUBLAS_STATUS_INVALID_VALUE;
    if (!consistent(&p) || memcmp(c, d, sizeof(layout)) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < 4; i++)
        if (like->alignment[i] < alignment) alignment = like->alignment[i];
    for (int kind = WHOLE; kind < KINDS && *n < most; kind++) {
        size_t work = kind == SPLIT ? split_bytes(&p) : kind == GREEDY ? (size_t)like->work + 1 : 0;
        choice how = {
            .magic = magic, .problem = problem_of(&p), .kind = (uint64_t)kind, .work = work, .alignment = alignment
        };
        if (!offered(&p, like, kind, work)) continue;
        out[*n] = (cublasLtMatmulHeuristicResult_t){ .workspaceSize = work,
                                                     .wavesCount = 1,
                                                     .state = kind == REFUSED ? CUBLAS_STATUS_NOT_SUPPORTED
                                                                              : CUBLAS_STATUS_SUCCESS };
        memcpy(&out[(*n)++].algo, &how, sizeof how);
    }
    return CUBLAS_STATUS_SUCCESS;
}

static bool made_for(const product *p, const choice *how)
{
    return how->magic == magic && how->problem == problem_of(p) && how->kind < KINDS && how->kind != REFUSED &&
           how->kind != UNCHECKED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t h, cublasLtMatmulDesc_t m, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *out)
{
    product p = describe(m, a, b, d);
    choice how;
    memcpy(&how, algo, sizeof how);
    FAILS("cublasLtMatmulAlgoCheck", CUBLAS_STATUS_NOT_SUPPORTED, "%llu", (unsigned long long)how.kind);
    if (!h || !c || !consistent(&p) || !made_for(&p, &how)) return CUBLAS_STATUS_INVALID_VALUE;
    out->workspaceSize = how.work;
    out->state = CUBLAS_STATUS_SUCCESS;
    return CUBLAS_STATUS_SUCCESS;
}

/* All memory of a matrix must be device memory, with the alignment that the algorithm relies on. */
static void must_hold(const char *name, const void *at, const layout *l, uint64_t alignment)
{
    size_t n = (size_t)((l->batches - 1) * l->step + l->ld * ((int64_t)l->columns - 1) + (int64_t)l->rows) *
               emulator_size(l->type);
    if (emulator_is_device(at, n) && (uintptr_t)at % alignment == 0) return;
    fprintf(stderr, "emulator: cublasLtMatmul: %s: %zu bytes at %p, aligned to %llu, are not the device's\n", name, n,
            at, (unsigned long long)alignment);
    abort();
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t m, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *work, size_t bytes, cudaStream_t stream)
{
    product p = describe(m, a, b, d);
    if (!h || !algo || !consistent(&p) || memcmp(c, d, sizeof(layout)) != 0) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&p.how, algo, sizeof p.how);
    if (!made_for(&p, &p.how) || p.how.work > bytes || (p.how.work && (uintptr_t)work % 256)) /* as documented */
        return CUBLAS_STATUS_INVALID_VALUE;
    p.alpha = emulator_load(alpha, p.d.scale, 0);
    p.beta = emulator_load(beta, p.d.scale, 0);
    p.A = A, p.B = B, p.C = C, p.D = D, p.work = work;
    must_hold("A", A, &p.a, p.how.alignment);
    must_hold("B", B, &p.b, p.how.alignment);
    must_hold("D", D, &p.c, p.how.alignment);
    layout vector = { .type = p.c.type, .batches = p.c.batches, .rows = p.c.rows, .columns = 1, .step = p.d.bias_step };
    if (adds_bias(p.d.epilogue)) must_hold("bias", p.d.bias, &vector, p.how.alignment);
    layout side = p.c;
    side.ld = p.d.aux_ld, side.step = p.d.aux_step;
    if (has_aux(p.d.epilogue)) must_hold("aux", p.d.aux, &side, 16);
    if (p.beta != 0) must_hold("C", C, &p.c, p.how.alignment);
    layout area = { .type = CUDA_R_16F, .batches = 1, .rows = p.how.work / 2, .columns = 1 };
    if (p.how.work) must_hold("workspace", work, &area, 256);
    return emulator_submit(stream, multiply, &p, sizeof p, "cublasLtMatmul") ? CUBLAS_STATUS_EXECUTION_FAILED
                                                                             : CUBLAS_STATUS_SUCCESS;
}
