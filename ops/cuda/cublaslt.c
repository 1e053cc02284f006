/* cublaslt.c - Dot by cuBLASLt, alone or with the Map behind it: a residual (beta = 1), GELU of the tanh form with its operand
 * stored for the gradient, and the gradient of that GELU.  Its ReLU is not used: NVIDIA's documents do not say what becomes of
 * NaN, and a 0 would hide a network that has diverged.
 *
 * The library is column-major: the row-major y (M, N) is the column-major (N, M), so y^T = op(b)^T . op(a)^T is
 * computed, with b as the first operand.  The bias is then along the rows of the result, as the epilogue requires.
 *
 * Numerics  f32 adds in f32 and reads its operands as they are, unless the plan allows tf32; f16 and bf16 add in f32.
 *           No sum depends on the order of blocks: if K is split, the parts are stored in the workspace in the type of
 *           computation and added by a second step.
 * Memory    descriptors and algorithm are made once per plan; the workspace is the algorithm's own, part of the plan.
 *           The heuristic's algorithms are stored on disk, so that every run chooses among the same ones. */
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/kernels.h"
#include "ops/kernels/dot.h"
#include "ops/kernels/fused.h"

enum { ALGORITHMS = 16 };

/* The product without pointers: the key of the file with its algorithms. */
typedef struct lt_problem {
    char format[8];
    int64_t M, N, K, batches;
    int64_t a_step, b_step, y_step; /* elements from one batch to the next; 0: the same for all */
    int64_t ta, tb, dtype, tf32, epilogue, residual, work; /* work: limit on an algorithm's workspace in bytes */
} lt_problem;

/* What is computed, and which input or output of the node each operand is; -1: none. */
typedef struct lt_form {
    const ot_node *dot;
    int a, b, bias, residual, aux_in, y, aux_out;
    cublasLtEpilogue_t epilogue;
} lt_form;

typedef struct lt_dot {
    cublasLtHandle_t handle; /* the device's */
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, y;
    cublasLtMatmulAlgo_t algo;
    size_t work;
    bool f64;
    lt_form form;
} lt_dot;

static ot_status failed(cublasStatus_t s, const char *what, ot_error *err)
{
    return ot_fail(err, s == CUBLAS_STATUS_ALLOC_FAILED ? OT_E_NOMEM : OT_E_DEVICE, "%s: %s", what,
                   cublasLtGetStatusName(s));
}

#define TRY_LT(call)                                                   \
    do {                                                               \
        cublasStatus_t status_ = (call);                               \
        if (status_ != CUBLAS_STATUS_SUCCESS) return status_;          \
    } while (0)

/* ---- the node ---------------------------------------------------------------------- */

static bool with_aux(cublasLtEpilogue_t e)
{
    return e == CUBLASLT_EPILOGUE_GELU_AUX || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || e == CUBLASLT_EPILOGUE_DGELU;
}

/* The epilogue of a function; DEFAULT: there is none. */
static cublasLtEpilogue_t epilogue_of(int row, bool bias, bool stored)
{
    if (row == OT_FN_GeluTanh && stored) return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    if (row == OT_FN_GeluTanh) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    if (row == OT_FN_GeluTanh_da && !bias && !stored) return CUBLASLT_EPILOGUE_DGELU;
    return CUBLASLT_EPILOGUE_DEFAULT;
}

/* false: cuBLASLt has no such functions. */
static bool add_functions(lt_form *f, const ot_node *n, const char **why)
{
    const ot_fused_part *map = ot_fused_behind(n), *dot = ot_fused_op(n);
    const ot_value *y = f->dot->out[0];
    bool stored = dot->out[0] >= 0;
    ot_chain c;
    *why = "cuBLASLt has no epilogue for these functions";
    if (!map || !ot_fused_like(map->node, y, true) || !ot_chain_of(map->node, ot_fused_between(n), &c) || !c.n)
        return false;
    int last = c.n - 1, row = c.step[last].row, other = c.step[last].other;
    if (c.n == 2 && (c.step[0].row != OT_FN_Add || c.step[0].other < 0 || stored)) return false;
    if (c.n > 2) return false;
    f->y = map->out[0];
    if (c.n == 2 || row == OT_FN_Add) f->residual = c.step[0].other < 0 ? -1 : map->in[c.step[0].other];
    if (row == OT_FN_Add) return c.n == 1 && !stored && f->residual >= 0;
    f->epilogue = epilogue_of(row, f->bias >= 0, stored);
    if (f->epilogue == CUBLASLT_EPILOGUE_DGELU) f->aux_in = other < 0 ? -1 : map->in[other];
    if (stored) f->aux_out = dot->out[0];
    *why = "cuBLASLt stores GELU's operand in rows of 8 elements";
    if (with_aux(f->epilogue) && (y->shape.dim[y->shape.rank - 1] % 8 || (c.n == 2 && f->aux_in >= 0))) return false;
    *why = "cuBLASLt has no epilogue for these functions";
    return f->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
}

static bool form_of(const ot_node *n, lt_form *f, const char **why)
{
    const ot_fused_part *op = strcmp(n->op->name, "Fused") ? NULL : ot_fused_op(n);
    *f = (lt_form){
        .dot = op ? op->node : n, .residual = -1, .aux_in = -1, .aux_out = -1, .epilogue = CUBLASLT_EPILOGUE_DEFAULT
    };
    if (strcmp(f->dot->op->name, "Dot") != 0) return ot_refuse(why, "not a matrix product");
    bool bias = f->dot->n_in > 2 && f->dot->in[2];
    f->a = op ? op->in[0] : 0;
    f->b = op ? op->in[1] : 1;
    f->bias = bias ? op ? op->in[2] : 2 : -1;
    f->y = 0;
    if (op && (f->a < 0 || f->b < 0)) return ot_refuse(why, "cuBLASLt has no functions before a product");
    if (op && f->dot->out[0]->dtype == OT_F64) return ot_refuse(why, "cuBLASLt has no epilogues in float64");
    if (op && !add_functions(f, n, why)) return false;
    if (f->epilogue == CUBLASLT_EPILOGUE_DEFAULT && bias) f->epilogue = CUBLASLT_EPILOGUE_BIAS;
    return true;
}

/* ---- what it takes --------------------------------------------------------------- */

/* Do the leading axes of x follow those of y: all of them (all), or none (the same for every batch)? */
static bool follows(const ot_shape *x, const ot_shape *y, bool *all)
{
    int with = 0, without = 0;
    for (int d = 0, e = x->rank - y->rank; d < y->rank - 2; d++, e++) {
        if (y->dim[d] == 1) continue;
        if (e >= 0 && x->dim[e] == y->dim[d]) with++;
        else without++;
    }
    *all = with > 0;
    return !with || !without;
}

/* false: no single stride separates consecutive batches. */
static bool describe(const lt_form *f, lt_problem *p)
{
    const ot_node *n = f->dot;
    const ot_dot *t = n->attrs;
    const ot_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape, *y = &n->out[0]->shape;
    bool a_all, b_all;
    memset(p, 0, sizeof *p);
    memcpy(p->format, "otlt2", 6);
    p->M = y->dim[y->rank - 2];
    p->N = y->dim[y->rank - 1];
    p->K = a->dim[a->rank - (t->ta ? 2 : 1)];
    p->ta = t->ta != 0;
    p->tb = t->tb != 0;
    p->dtype = n->out[0]->dtype;
    p->epilogue = f->epilogue;
    p->residual = f->residual >= 0;
    p->batches = 1;
    for (int d = 0; d < y->rank - 2; d++) p->batches *= y->dim[d];
    if (!follows(a, y, &a_all) || !follows(b, y, &b_all)) return false;
    if (a_all && !b_all && !p->ta) { /* one matrix for all: the batches become rows */
        p->M *= p->batches;
        p->batches = 1;
        a_all = false;
    }
    p->a_step = a_all ? p->M * p->K : 0;
    p->b_step = b_all ? p->K * p->N : 0;
    p->y_step = p->M * p->N;
    return true;
}

static bool known_type(ot_dtype t) { return t == OT_F32 || t == OT_F64 || t == OT_F16 || t == OT_BF16; }

static bool can(const ot_node *node, const char **why)
{
    lt_problem p;
    lt_form f;
    if (!form_of(node, &f, why)) return false;
    const ot_node *n = f.dot;
    if (!known_type(n->out[0]->dtype)) return ot_refuse(why, "only floats of 16, 32 and 64 bits");
    if (!ot_numel(&n->out[0]->shape) || !ot_numel(&n->in[0]->shape)) return ot_refuse(why, "an empty product");
    if (!describe(&f, &p)) return ot_refuse(why, "the batches have no common stride");
    if (p.M > INT32_MAX || p.N > INT32_MAX || p.K > INT32_MAX || p.batches > INT32_MAX)
        return ot_refuse(why, "a size is 2^31 or more");
    if (f.bias >= 0 && p.dtype == OT_F64) return ot_refuse(why, "cuBLASLt adds no bias in float64");
    return true;
}

/* Estimates, not measurements: results of the tuner override them.  Below a million multiply-adds the time is that
 * of a launch and of one pass along K, and an algorithm that splits K launches twice.  A matrix times a vector takes
 * the time of reading the matrix, and tiles made for products leave most of their threads idle. */
static bool yields(const ot_node *n, const char **why)
{
    lt_problem p;
    lt_form f;
    if (!form_of(n, &f, why) || !describe(&f, &p)) return false;
    bool small = (double)p.M * (double)p.N * (double)p.K * (double)p.batches < 1 << 20, vector = p.M == 1 || p.N == 1;
    if (small) *why = "less than a million multiply-adds: a small kernel is faster";
    else if (vector) *why = "matrix times vector: a kernel that reads the matrix once is faster";
    return small || vector;
}

/* ---- descriptors ------------------------------------------------------------------ */

static cudaDataType data_type(int64_t t)
{
    return t == OT_F64 ? CUDA_R_64F : t == OT_F32 ? CUDA_R_32F : t == OT_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

#define SET_OP(d, attribute, value) cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_##attribute, &(value), sizeof(value))
#define SET_LAYOUT(d, attribute, value) cublasLtMatrixLayoutSetAttribute(d, CUBLASLT_MATRIX_LAYOUT_##attribute, &(value), sizeof(value))
#define SET_PREFERENCE(d, attribute, value) cublasLtMatmulPreferenceSetAttribute(d, CUBLASLT_MATMUL_PREF_##attribute, &(value), sizeof(value))

/* Every value begins at a multiple of 64 bytes (passes/memory.c); kernels use 16 at most. */
enum { ALIGNMENT = 16 };

/* A row-major (rows, columns) matrix is the column-major (columns, rows). */
static cublasStatus_t matrix(cublasLtMatrixLayout_t *out, const lt_problem *p, int64_t rows, int64_t columns,
                             int64_t step)
{
    int32_t batches = (int32_t)p->batches;
    TRY_LT(cublasLtMatrixLayoutCreate(out, data_type(p->dtype), (uint64_t)columns, (uint64_t)rows, columns));
    TRY_LT(SET_LAYOUT(*out, BATCH_COUNT, batches));
    return SET_LAYOUT(*out, STRIDED_BATCH_OFFSET, step);
}

static cublasStatus_t make_descriptors(lt_dot *s, const lt_problem *p)
{
    cublasComputeType_t compute = p->dtype == OT_F64 ? CUBLAS_COMPUTE_64F
                                  : p->tf32          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N, second = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = (cublasLtEpilogue_t)p->epilogue;
    const void *aligned = (const void *)(uintptr_t)ALIGNMENT; /* only for the heuristic; nothing is read there */
    s->f64 = p->dtype == OT_F64;
    TRY_LT(cublasLtMatmulDescCreate(&s->op, compute, s->f64 ? CUDA_R_64F : CUDA_R_32F));
    TRY_LT(SET_OP(s->op, TRANSA, first));
    TRY_LT(SET_OP(s->op, TRANSB, second));
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) TRY_LT(SET_OP(s->op, EPILOGUE, epilogue));
    if (s->form.bias >= 0) TRY_LT(SET_OP(s->op, BIAS_POINTER, aligned));
    if (with_aux(epilogue)) {
        int64_t ld = p->N, step = p->y_step;
        TRY_LT(SET_OP(s->op, EPILOGUE_AUX_POINTER, aligned));
        TRY_LT(SET_OP(s->op, EPILOGUE_AUX_LD, ld));
        TRY_LT(SET_OP(s->op, EPILOGUE_AUX_BATCH_STRIDE, step));
    }
    TRY_LT(matrix(&s->a, p, p->ta ? p->K : p->M, p->ta ? p->M : p->K, p->a_step));
    TRY_LT(matrix(&s->b, p, p->tb ? p->N : p->K, p->tb ? p->K : p->N, p->b_step));
    return matrix(&s->y, p, p->M, p->N, p->y_step);
}

static void release(void *state)
{
    lt_dot *s = state;
    if (!s) return;
    if (s->op) cublasLtMatmulDescDestroy(s->op);
    if (s->a) cublasLtMatrixLayoutDestroy(s->a);
    if (s->b) cublasLtMatrixLayoutDestroy(s->b);
    if (s->y) cublasLtMatrixLayoutDestroy(s->y);
    free(s);
}

/* ---- algorithms ---------------------------------------------------------------------- */

typedef struct lt_list {
    lt_problem problem;
    int64_t n;
    cublasLtMatmulAlgo_t algo[ALGORITHMS];
} lt_list; /* a file */

/* Queries the library; an empty list if it has no algorithm. */
static cublasStatus_t ask(const lt_dot *s, const lt_problem *p, cublasLtMatmulPreference_t like, lt_list *out)
{
    cublasLtMatmulHeuristicResult_t found[ALGORITHMS];
    uint64_t most = (uint64_t)p->work, allowed = ~(uint64_t)0;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = ALIGNMENT;
    int n = 0;
    if (p->dtype == OT_F32 && !p->tf32)
        allowed &= ~(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32 | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F |
                     CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF);
    if (p->dtype != OT_F64) allowed &= ~(uint64_t)CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F;
    TRY_LT(SET_PREFERENCE(like, MAX_WORKSPACE_BYTES, most));
    TRY_LT(SET_PREFERENCE(like, REDUCTION_SCHEME_MASK, reduction));
    TRY_LT(SET_PREFERENCE(like, IMPL_MASK, allowed));
    TRY_LT(SET_PREFERENCE(like, MIN_ALIGNMENT_A_BYTES, alignment));
    TRY_LT(SET_PREFERENCE(like, MIN_ALIGNMENT_B_BYTES, alignment));
    TRY_LT(SET_PREFERENCE(like, MIN_ALIGNMENT_C_BYTES, alignment));
    TRY_LT(SET_PREFERENCE(like, MIN_ALIGNMENT_D_BYTES, alignment));
    cublasStatus_t answer =
        cublasLtMatmulAlgoGetHeuristic(s->handle, s->op, s->b, s->a, s->y, s->y, like, ALGORITHMS, found, &n);
    if (answer == CUBLAS_STATUS_NOT_SUPPORTED) return CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < n && answer == CUBLAS_STATUS_SUCCESS; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS) out->algo[out->n++] = found[i].algo;
    return answer;
}

/* Keeps those that the library can run within the workspace; sets the size of each. */
static void check(const lt_dot *s, const lt_problem *p, lt_list *list, size_t work[ALGORITHMS])
{
    int64_t kept = 0;
    for (int64_t i = 0; i < list->n; i++) {
        cublasLtMatmulHeuristicResult_t r = { .state = CUBLAS_STATUS_NOT_SUPPORTED };
        cublasLtMatmulAlgo_t algo = list->algo[i];
        if (cublasLtMatmulAlgoCheck(s->handle, s->op, s->b, s->a, s->y, s->y, &algo, &r) != CUBLAS_STATUS_SUCCESS)
            continue;
        if (r.workspaceSize > (size_t)p->work) continue;
        work[kept] = r.workspaceSize;
        list->algo[kept++] = algo;
    }
    list->n = kept;
}

/* The list of an earlier run; false: there is none, or it is incomplete. */
static bool remembered(ot_device *d, const char *name, const lt_problem *p, lt_list *out)
{
    size_t n;
    void *bytes = ot_gpu_cache_read(d, name, &n);
    bool ok = bytes && n == sizeof *out;
    if (ok) memcpy(out, bytes, sizeof *out);
    free(bytes);
    return ok && !memcmp(&out->problem, p, sizeof *p) && out->n > 0 && out->n <= ALGORITHMS;
}

static cublasStatus_t find_algorithms(ot_device *d, const lt_dot *s, const lt_problem *p, lt_list *list,
                                      size_t work[ALGORITHMS])
{
    char name[64];
    cublasLtMatmulPreference_t like = NULL;
    ot_gpu_cache_name(p, sizeof *p, ".lt", name);
    if (remembered(d, name, p, list)) {
        int64_t all = list->n;
        check(s, p, list, work);
        if (list->n == all) return CUBLAS_STATUS_SUCCESS; /* else: of another version of the library */
    }
    memset(list, 0, sizeof *list);
    list->problem = *p;
    TRY_LT(cublasLtMatmulPreferenceCreate(&like));
    cublasStatus_t answer = ask(s, p, like, list);
    cublasLtMatmulPreferenceDestroy(like);
    TRY_LT(answer);
    check(s, p, list, work);
    if (list->n) ot_gpu_cache_write(d, name, list, sizeof *list);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the kernel ------------------------------------------------------------------------ */

static void destroy_handle(void *handle) { cublasLtDestroy(handle); }

static cublasStatus_t handle_of(ot_device *d, cublasLtHandle_t *out)
{
    *out = ot_gpu_get(d, OT_GPU_CUBLASLT);
    if (*out) return CUBLAS_STATUS_SUCCESS;
    TRY_LT(cublasLtCreate(out));
    ot_gpu_set(d, OT_GPU_CUBLASLT, *out, destroy_handle);
    return CUBLAS_STATUS_SUCCESS;
}

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    lt_problem problem;
    lt_list list;
    size_t work[ALGORITHMS];
    lt_form form;
    const char *why;
    if (ot_gpu_described(p->device)) { /* the plan is not run */
        snprintf(p->how, sizeof p->how, "algorithm chosen on the GPU");
        return OT_OK;
    }
    form_of(n, &form, &why);
    describe(&form, &problem);
    problem.tf32 = p->tf32 && problem.dtype == OT_F32;
    problem.work = (int64_t)(ot_gpu_arch(p->device) >= 90 ? 32 : 4)
                   << 20; /* the most that Hopper's algorithms request */
    lt_dot *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "no memory for a matrix product");
    s->form = form;
    cublasStatus_t e = handle_of(p->device, &s->handle);
    if (e == CUBLAS_STATUS_SUCCESS) e = make_descriptors(s, &problem);
    if (e == CUBLAS_STATUS_SUCCESS) e = find_algorithms(p->device, s, &problem, &list, work);
    if (e != CUBLAS_STATUS_SUCCESS || p->variant >= list.n) {
        release(s);
        if (e == CUBLAS_STATUS_ALLOC_FAILED) return failed(e, "preparing a cuBLASLt matrix product", p->err);
        p->refused = e != CUBLAS_STATUS_SUCCESS ? cublasLtGetStatusName(e)
                     : list.n                   ? "cuBLASLt has fewer algorithms for it"
                                                : "cuBLASLt has no deterministic algorithm for it";
        return OT_OK;
    }
    s->algo = list.algo[p->variant];
    s->work = p->work = work[p->variant];
    p->variants = (int)list.n;
    p->state = s;
    snprintf(p->how, sizeof p->how, "algorithm %hd of %hd, %u KiB", (short)(p->variant + 1), (short)list.n,
             (unsigned)(s->work >> 10));
    return OT_OK;
}

static ot_status run(const ot_call *c)
{
    static const double one64 = 1, zero64 = 0;
    static const float one32 = 1, zero32 = 0;
    lt_dot *s = c->state;
    const lt_form *f = &s->form;
    const void *one = s->f64 ? (const void *)&one64 : &one32, *zero = s->f64 ? (const void *)&zero64 : &zero32;
    const void *bias = f->bias >= 0 ? c->in[f->bias] : NULL, *residual = f->residual >= 0 ? c->in[f->residual] : NULL;
    const void *aux = f->aux_in >= 0 ? c->in[f->aux_in] : f->aux_out >= 0 ? c->out[f->aux_out] : NULL;
    void *y = c->out[f->y];
    cublasStatus_t e = bias ? SET_OP(s->op, BIAS_POINTER, bias) : CUBLAS_STATUS_SUCCESS;
    if (e == CUBLAS_STATUS_SUCCESS && aux) e = SET_OP(s->op, EPILOGUE_AUX_POINTER, aux);
    if (e == CUBLAS_STATUS_SUCCESS)
        e = cublasLtMatmul(s->handle, s->op, one, c->in[f->b], s->b, c->in[f->a], s->a, residual ? one : zero,
                           residual ? residual : y, s->y, y, s->y, &s->algo, c->work, s->work,
                           ot_gpu_stream(c->device));
    return e == CUBLAS_STATUS_SUCCESS ? OT_OK : failed(e, "cublasLtMatmul", c->err);
}

const ot_kernel ot_lt_Dot = { .name = "cublaslt",
                              .can = can,
                              .yields = yields,
                              .may_refuse = true,
                              .prepare = prepare,
                              .run = run,
                              .release = release };

const ot_kernel ot_lt_Fused = { .name = "cublaslt",
                                .can = can,
                                .yields = yields,
                                .may_refuse = true,
                                .prepare = prepare,
                                .run = run,
                                .release = release };
