/* dnn_pieces.c - operations of the emulated cuDNN for attention and beside norms: products, pointwise operations, reductions, views.
 *
 * A tensor between two operations is rounded to its type, as in engines that pass it to the matrix units. */
#include <library_types.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/dnn.h"
#include "tests/cuda/emulator/elements.h"

bool dnn_is_piece(const dnn *op)
{
    return op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
           op->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
           op->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
           op->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

int dnn_piece_links(const dnn *op, int name[4])
{
    int list[4], n = 0;
    switch (op->type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        list[n++] = CUDNN_ATTR_OPERATION_MATMUL_ADESC, list[n++] = CUDNN_ATTR_OPERATION_MATMUL_BDESC;
        list[n++] = CUDNN_ATTR_OPERATION_MATMUL_CDESC;
        break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        list[n++] = CUDNN_ATTR_OPERATION_REDUCTION_XDESC, list[n++] = CUDNN_ATTR_OPERATION_REDUCTION_YDESC;
        break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        list[n++] = CUDNN_ATTR_OPERATION_RESHAPE_XDESC, list[n++] = CUDNN_ATTR_OPERATION_RESHAPE_YDESC;
        break;
    default:
        list[n++] = CUDNN_ATTR_OPERATION_POINTWISE_XDESC, list[n++] = CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
        list[n++] = CUDNN_ATTR_OPERATION_POINTWISE_TDESC, list[n++] = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
    }
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (dnn_find(op, list[i])) name[kept++] = list[i];
    return kept;
}

/* ---- extents ----------------------------------------------------------------------------- */

int64_t dnn_place(const dnn_tensor *t, int64_t i)
{
    int64_t at = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        at += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return at;
}

static int64_t count(const dnn_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->dim[d];
    return n;
}

/* Every axis of x has y's extent or 1. */
static bool spreads(const dnn_tensor *x, const dnn_tensor *y)
{
    bool ok = x->rank == y->rank;
    for (int d = 0; d < y->rank && ok; d++) ok = x->dim[d] == y->dim[d] || x->dim[d] == 1;
    return ok;
}

/* Rows of a, what is summed over, columns of b; the axes in front are those of all three. */
static bool multiplies(const dnn_tensor *a, const dnn_tensor *b, const dnn_tensor *c)
{
    int r = c->rank;
    bool ok = a->rank == r && b->rank == r && a->dim[r - 2] == c->dim[r - 2] && a->dim[r - 1] == b->dim[r - 2] &&
              b->dim[r - 1] == c->dim[r - 1];
    for (int d = 0; d < r - 2 && ok; d++) ok = a->dim[d] == c->dim[d] && b->dim[d] == c->dim[d];
    return ok;
}

/* The number of inputs of a pointwise operation; 0: it is not emulated. */
static int inputs(int64_t mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_EXP: return 1;
    case CUDNN_POINTWISE_GEN_INDEX: return 1;
    case CUDNN_POINTWISE_RELU_FWD: return 1;
    case CUDNN_POINTWISE_SWISH_FWD: return 1;
    case CUDNN_POINTWISE_ADD: return 2;
    case CUDNN_POINTWISE_SUB: return 2;
    case CUDNN_POINTWISE_MUL: return 2;
    case CUDNN_POINTWISE_DIV: return 2;
    case CUDNN_POINTWISE_CMP_GE: return 2;
    case CUDNN_POINTWISE_CMP_GT: return 2;
    case CUDNN_POINTWISE_BINARY_SELECT: return 3;
    default: return 0;
    }
}

static int64_t mode_of(const dnn *op)
{
    return dnn_number(dnn_to(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), CUDNN_ATTR_POINTWISE_MODE, 0);
}

static int64_t reduction_of(const dnn *op)
{
    return dnn_number(dnn_to(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC), CUDNN_ATTR_REDUCTION_OPERATOR, 0);
}

cudnnStatus_t dnn_check_piece(const dnn *op)
{
    int name[4], n = dnn_piece_links(op, name);
    dnn_tensor t[4], *y = &t[n - 1];
    for (int i = 0; i < n; i++) t[i] = dnn_tensor_of(dnn_to(op, name[i]));
    bool ok = true;
    switch (op->type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: ok = multiplies(&t[0], &t[1], y); break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        if (reduction_of(op) != CUDNN_REDUCE_TENSOR_MAX && reduction_of(op) != CUDNN_REDUCE_TENSOR_ADD)
            return CUDNN_STATUS_NOT_SUPPORTED;
        ok = spreads(y, &t[0]);
        break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        ok = count(&t[0]) == count(y) && dnn_place(&t[0], count(y) - 1) == dnn_place(y, count(y) - 1);
        break;
    default:
        if (!inputs(mode_of(op))) return CUDNN_STATUS_NOT_SUPPORTED;
        ok = n == inputs(mode_of(op)) + 1;
        for (int i = 0; i < n && ok; i++) ok = spreads(&t[i], y);
    }
    return ok ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
}

/* ---- running ------------------------------------------------------------------------------ */

/* The element of x that corresponds to element i of a tensor with y's extents. */
static int64_t beside(const dnn_tensor *x, const dnn_tensor *y, int64_t i)
{
    int64_t k = 0, step = 1;
    for (int d = y->rank - 1; d >= 0; d--) {
        if (x->dim[d] > 1) k += i % y->dim[d] * step;
        step *= x->dim[d];
        i /= y->dim[d];
    }
    return k;
}

/* Of ReLU: by default NaN becomes 0. */
static bool keeps_nan(const dnn *op)
{
    return dnn_number(dnn_to(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), CUDNN_ATTR_POINTWISE_NAN_PROPAGATION,
                      0) == CUDNN_PROPAGATE_NAN;
}

/* index: of GEN_INDEX; of ReLU -1, if NaN stays NaN. */
static double element(int64_t mode, double x, double b, double t, int64_t index)
{
    switch (mode) {
    case CUDNN_POINTWISE_EXP: return exp(x);
    case CUDNN_POINTWISE_GEN_INDEX: return (double)index;
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_CMP_GE: return x >= b;
    case CUDNN_POINTWISE_CMP_GT: return x > b;
    case CUDNN_POINTWISE_RELU_FWD: return x > 0 || (index < 0 && isnan(x)) ? x : 0;
    case CUDNN_POINTWISE_SWISH_FWD: return x / (1 + exp(-x));
    default: return t != 0 ? x : b;
    }
}

static void run_pointwise(const dnn *op, dnn_field *const *f)
{
    int64_t mode = mode_of(op);
    int n = inputs(mode);
    dnn_field *y = f[n];
    int axis = (int)dnn_number(dnn_to(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), CUDNN_ATTR_POINTWISE_AXIS, 0);
    for (int64_t i = 0; i < y->n; i++) {
        double in[3] = { 0 };
        int64_t behind = 1;
        for (int k = 0; k < n; k++) in[k] = f[k]->v[beside(&f[k]->t, &y->t, i)];
        for (int d = y->t.rank - 1; d > axis; d--) behind *= y->t.dim[d];
        int64_t index = i / behind % y->t.dim[axis];
        if (mode == CUDNN_POINTWISE_RELU_FWD) index = keeps_nan(op) ? -1 : 0;
        y->v[i] = element(mode, in[0], in[1], in[2], index);
    }
}

static void run_product(const dnn_field *a, const dnn_field *b, dnn_field *c)
{
    int r = c->t.rank;
    int64_t M = c->t.dim[r - 2], N = c->t.dim[r - 1], K = a->t.dim[r - 1];
    memset(c->v, 0, (size_t)c->n * sizeof *c->v);
    for (int64_t p = 0; p < c->n / (M * N); p++)
        for (int64_t m = 0; m < M; m++)
            for (int64_t k = 0; k < K; k++)
                for (int64_t i = 0; i < N; i++)
                    c->v[(p * M + m) * N + i] += a->v[(p * M + m) * K + k] * b->v[(p * K + k) * N + i];
}

static void run_reduction(const dnn *op, const dnn_field *x, dnn_field *y)
{
    bool most = reduction_of(op) == CUDNN_REDUCE_TENSOR_MAX;
    for (int64_t i = 0; i < y->n; i++) y->v[i] = most ? -(double)INFINITY : 0;
    for (int64_t i = 0; i < x->n; i++) {
        double *to = &y->v[beside(&y->t, &x->t, i)], v = x->v[i];
        if (!most) *to += v;
        else if (v > *to || isnan(v)) *to = v;
    }
}

static void run_reshape(const dnn_field *x, dnn_field *y)
{
    double *memory = calloc((size_t)dnn_place(&x->t, x->n - 1) + 1, sizeof *memory);
    if (!memory) abort();
    for (int64_t i = 0; i < x->n; i++) memory[dnn_place(&x->t, i)] = x->v[i];
    for (int64_t i = 0; i < y->n; i++) y->v[i] = memory[dnn_place(&y->t, i)];
    free(memory);
}

void dnn_run_piece(const dnn *op, dnn_field *const *f)
{
    int name[4];
    dnn_field *y = f[dnn_piece_links(op, name) - 1];
    switch (op->type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: run_product(f[0], f[1], y); break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: run_reduction(op, f[0], y); break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: run_reshape(f[0], y); break;
    default: run_pointwise(op, f);
    }
    if (!y->t.is_virtual || (y->t.type != CUDA_R_16F && y->t.type != CUDA_R_16BF)) return;
    for (int64_t i = 0; i < y->n; i++) {
        uint16_t h;
        emulator_store(&h, y->t.type, 0, y->v[i]);
        y->v[i] = emulator_load(&h, y->t.type, 0);
    }
}
