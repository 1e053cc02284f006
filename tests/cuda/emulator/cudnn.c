/* cudnn.c - cuDNN's graph interface: descriptors store their attributes; a graph is run by loops over them.
 *
 * An attribute has one owner and one type, is set once before its descriptor is finalized, and links only to what is
 * finalized.  The library answers a mistake with a status, and the program would continue with its own kernel: here a
 * bad parameter is reported and ends the program. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/dnn.h"
#include "tests/cuda/emulator/emulator.h"

#define FAILS(name, status, ...) \
    if (emulator_call(name, __VA_ARGS__)) return status

static const uint64_t alive = 0x646573637269626fu;

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }

const char *cudnnGetErrorString(cudnnStatus_t s)
{
    switch (CUDNN_STATUS_CATEGORY((int)s)) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR: return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS (emulated)";
    }
}

void cudnnGetLastErrorString(char *text, size_t n) { snprintf(text, n, "emulated"); }

/* ---- the handle ------------------------------------------------------------------------ */

struct cudnnContext {
    cudaStream_t stream;
};

cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
    FAILS("cudnnCreate", CUDNN_STATUS_NOT_INITIALIZED, " ");
    *h = calloc(1, sizeof **h);
    return *h ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    free(h);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
    FAILS("cudnnSetStream", CUDNN_STATUS_BAD_PARAM, " ");
    h->stream = s;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- attributes: whose they are, of which type, at most how many; needed to finalize ------- */

#define LINK_CONV(o, name) { o, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true }
#define OP_CONV(o, prefix, x, w, y)                                                                    \
    { o, prefix##_ALPHA, CUDNN_TYPE_FLOAT, 1, true }, { o, prefix##_BETA, CUDNN_TYPE_FLOAT, 1, true }, \
    LINK_CONV(o, prefix##_CONV_DESC), LINK_CONV(o, prefix##_##x), LINK_CONV(o, prefix##_##w), LINK_CONV(o, prefix##_##y)
#define LINK(o, name, needed) { o, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, needed }
#define TENSOR CUDNN_BACKEND_TENSOR_DESCRIPTOR
#define CONV CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR
#define POINT CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
#define NORM CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
#define NORM_DX CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR
#define MATMUL CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR
#define REDUCE CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR
#define RESHAPE CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR
#define PLAN CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
#define HEUR CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
#define PACK CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR

static const struct {
    int owner, name, type, most;
    bool needed;
} attributes[] = {
    { TENSOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true },
    { TENSOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, DNN_RANK, true },
    { TENSOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, DNN_RANK, true },
    { TENSOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, true },
    { TENSOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, true },
    { TENSOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, false },
    { TENSOR, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, false },
    { CONV, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, true },
    { CONV, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true },
    { CONV, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, true },
    { CONV, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 3, true },
    { CONV, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 3, true },
    { CONV, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 3, true },
    { CONV, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 3, true },
    OP_CONV(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD, X, W, Y),
    OP_CONV(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA, DX,
            W, DY),
    OP_CONV(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER,
            X, DW, DY),
    { CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, true },
    { CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, true },
    { CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, false },
    { CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, false },
    LINK(POINT, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, true),
    LINK(POINT, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, true),
    LINK(POINT, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, false),
    LINK(POINT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, false),
    LINK(POINT, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, true),
    { CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true },
    LINK(MATMUL, CUDNN_ATTR_OPERATION_MATMUL_ADESC, true),
    LINK(MATMUL, CUDNN_ATTR_OPERATION_MATMUL_BDESC, true),
    LINK(MATMUL, CUDNN_ATTR_OPERATION_MATMUL_CDESC, true),
    LINK(MATMUL, CUDNN_ATTR_OPERATION_MATMUL_DESC, true),
    { CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, true },
    { CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true },
    LINK(REDUCE, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, true),
    LINK(REDUCE, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, true),
    LINK(REDUCE, CUDNN_ATTR_OPERATION_REDUCTION_DESC, true),
    LINK(RESHAPE, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, true),
    LINK(RESHAPE, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, true),
    { NORM, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, true },
    { NORM, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, true },
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, true),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, true),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, true),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, true),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, true),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, true),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, true),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, false),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, false),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, false),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, false),
    LINK(NORM, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, false),
    { NORM_DX, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, true },
    LINK(NORM_DX, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, true),
    LINK(NORM_DX, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, true),
    LINK(NORM_DX, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, true),
    LINK(NORM_DX, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, true),
    LINK(NORM_DX, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, true),
    LINK(NORM_DX, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, true),
    LINK(NORM_DX, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, true),
    LINK(NORM_DX, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, true),
    { CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, DNN_OPS,
      true },
    { CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, true },
    LINK(HEUR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, true),
    { HEUR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, true },
    LINK(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, true),
    { CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, true },
    LINK(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, true),
    LINK(PLAN, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, false),
    { PLAN, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, true },
    { PLAN, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 1 << 20, false },
    { PACK, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 64, true },
    { PACK, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 64, true },
    { PACK, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, true },
};

enum { ATTRIBUTES = sizeof attributes / sizeof *attributes };

static size_t bytes_of(int type)
{
    switch (type) {
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_BOOLEAN: return 1;
    case CUDNN_TYPE_INT64: return 8;
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_HANDLE: return sizeof(void *);
    case CUDNN_TYPE_VOID_PTR: return sizeof(void *);
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void *);
    default: return 4;
    }
}

/* ---- descriptors ------------------------------------------------------------------------- */

dnn *dnn_new(int type)
{
    dnn *d = calloc(1, sizeof *d);
    if (d) d->magic = alive, d->type = type, d->users = 1;
    return d;
}

void dnn_use(dnn *d) { d->users++; }

void dnn_drop(dnn *d)
{
    if (!d) return;
    if (d->magic != alive) {
        fprintf(stderr, "emulator: a cuDNN descriptor is freed that is not there\n");
        abort();
    }
    if (--d->users) return;
    d->magic = 0;
    for (int i = 0; i < d->n; i++) {
        for (int64_t k = 0; k < d->value[i].n && d->value[i].type == CUDNN_TYPE_BACKEND_DESCRIPTOR; k++)
            dnn_drop(((dnn **)d->value[i].list)[k]);
        free(d->value[i].list);
    }
    free(d);
}

bool dnn_put(dnn *d, int name, int type, int64_t n, const void *list)
{
    dnn_value v = { .name = name, .type = type, .n = n };
    size_t bytes = (size_t)n * bytes_of(type);
    if (d->n == sizeof d->value / sizeof *d->value || !(v.list = malloc(bytes + 1))) return false;
    memcpy(v.list, list, bytes);
    ((char *)v.list)[bytes] = 0;
    for (int64_t k = 0; k < n && type == CUDNN_TYPE_BACKEND_DESCRIPTOR; k++) dnn_use(((dnn **)v.list)[k]);
    d->value[d->n++] = v;
    return true;
}

const dnn_value *dnn_find(const dnn *d, int name)
{
    for (int i = 0; i < d->n; i++)
        if (d->value[i].name == name) return &d->value[i];
    return NULL;
}

const dnn *dnn_to(const dnn *d, int name)
{
    const dnn_value *v = dnn_find(d, name);
    return v ? *(dnn *const *)v->list : NULL;
}

int64_t dnn_number(const dnn *d, int name, int i)
{
    const dnn_value *v = dnn_find(d, name);
    if (!v || i >= v->n) return 0;
    return v->type == CUDNN_TYPE_INT64     ? ((const int64_t *)v->list)[i]
           : v->type == CUDNN_TYPE_BOOLEAN ? ((const char *)v->list)[i]
                                           : ((const int *)v->list)[i];
}

dnn_tensor dnn_tensor_of(const dnn *d)
{
    const dnn_value *dims = dnn_find(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    dnn_tensor t = { .rank = (int)dims->n,
                     .type = dnn_cuda_type((int)dnn_number(d, CUDNN_ATTR_TENSOR_DATA_TYPE, 0)),
                     .uid = dnn_number(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0) };
    for (int i = 0; i < t.rank; i++) {
        t.dim[i] = dnn_number(d, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        t.stride[i] = dnn_number(d, CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    t.is_virtual = dnn_number(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
    t.by_value = dnn_number(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0;
    return t;
}

int dnn_cuda_type(int type)
{
    switch (type) {
    case CUDNN_DATA_DOUBLE: return CUDA_R_64F;
    case CUDNN_DATA_FLOAT: return CUDA_R_32F;
    case CUDNN_DATA_HALF: return CUDA_R_16F;
    case CUDNN_DATA_BFLOAT16: return CUDA_R_16BF;
    case CUDNN_DATA_INT32: return CUDA_R_32I; /* between operations only */
    case CUDNN_DATA_BOOLEAN: return CUDA_R_8U;
    default: return -1;
    }
}

/* ---- the interface ------------------------------------------------------------------------- */

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    *out = NULL;
    FAILS("cudnnBackendCreateDescriptor", CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "%d", (int)type);
    *out = dnn_new((int)type);
    return *out ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    dnn_drop(d);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t judged(cudnnStatus_t s, const dnn *d, const char *what, int name)
{
    if (CUDNN_STATUS_CATEGORY((int)s) != CUDNN_STATUS_BAD_PARAM) return s;
    fprintf(stderr, "emulator: %s: status %d for descriptor of type %d, attribute %d\n", what, (int)s, d ? d->type : -1,
            name);
    abort();
}

/* The factors of a convolution have the type of its sums; dnn_check compares them. */
static bool type_fits(int wanted, int given)
{
    return given == wanted || (wanted == CUDNN_TYPE_FLOAT && given == CUDNN_TYPE_DOUBLE);
}

static cudnnStatus_t set(dnn *d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                         const void *list)
{
    if (!d || !list) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (d->final || dnn_find(d, (int)name)) return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < ATTRIBUTES; i++) {
        if (attributes[i].owner != d->type || attributes[i].name != (int)name) continue;
        if (!type_fits(attributes[i].type, (int)type)) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
        if (n < 1 || n > attributes[i].most) return CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
        for (int64_t k = 0; k < n && type == CUDNN_TYPE_BACKEND_DESCRIPTOR; k++) {
            const dnn *to = ((dnn *const *)list)[k];
            if (!to || to->magic != alive || !to->final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
        }
        return dnn_put(d, (int)name, (int)type, n, list) ? CUDNN_STATUS_SUCCESS
                                                         : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }
    return CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t at, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, const void *list)
{
    dnn *d = at;
    FAILS("cudnnBackendSetAttribute", CUDNN_STATUS_BAD_PARAM, "%d %d %d x %lld", d ? d->type : -1, (int)name, (int)type,
          (long long)n);
    return judged(set(d, name, type, n, list), d, "cudnnBackendSetAttribute", (int)name);
}

static cudnnStatus_t finalize(dnn *d)
{
    if (!d) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (d->final) return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < ATTRIBUTES; i++)
        if (attributes[i].owner == d->type && attributes[i].needed && !dnn_find(d, attributes[i].name))
            return CUDNN_STATUS_BAD_PARAM;
    cudnnStatus_t s = dnn_check(d);
    d->final = s == CUDNN_STATUS_SUCCESS;
    return s;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t at)
{
    dnn *d = at;
    FAILS("cudnnBackendFinalize", CUDNN_STATUS_NOT_SUPPORTED, "%d", d ? d->type : -1);
    return judged(finalize(d), d, "cudnnBackendFinalize", 0);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const at, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t *n, void *list)
{
    dnn *d = at;
    FAILS("cudnnBackendGetAttribute", CUDNN_STATUS_NOT_SUPPORTED, "%d %d", d ? d->type : -1, (int)name);
    if (!d || !n) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!d->final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    return dnn_ask(d, (int)name, (int)type, room, n, list);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    const dnn *p = plan, *v = pack;
    if (!h || !p || !v) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (p->type != PLAN || v->type != PACK || !p->final || !v->final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    return dnn_execute(h->stream, p, v);
}
