/* cudnn.c - graphs for cuDNN: descriptors, and the memory they are bound to when they run.  Plans are made in plan.c.
 * */
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cudnn/graph.h"

/* ---- the library for a device ----------------------------------------------------------- */

static void free_handle(void *handle) { cudnnDestroy(handle); }
static void free_properties(void *d) { cudnnBackendDestroyDescriptor(d); }

cudnnHandle_t ot_cudnn_handle(ot_device *d)
{
    cudnnHandle_t handle = ot_gpu_get(d, OT_GPU_CUDNN);
    if (handle || ot_gpu_described(d)) return handle;
    if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) return NULL;
    if (cudnnSetStream(handle, ot_gpu_stream(d)) != CUDNN_STATUS_SUCCESS) {
        cudnnDestroy(handle);
        return NULL;
    }
    ot_gpu_set(d, OT_GPU_CUDNN, handle, free_handle);
    return handle;
}

/* The properties of a described device; NULL: cuDNN does not read them. */
static ot_cudnn_desc properties_of(ot_device *d)
{
    ot_cudnn_desc p = ot_gpu_get(d, OT_GPU_CUDNN_PROPERTIES);
    if (p || cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &p) != CUDNN_STATUS_SUCCESS) return p;
    const char *text = ot_gpu_description(d);
    cudnnStatus_t s = cudnnBackendSetAttribute(p, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                               (int64_t)strlen(text) + 1, text);
    if (s == CUDNN_STATUS_SUCCESS) s = cudnnBackendFinalize(p);
    if (s != CUDNN_STATUS_SUCCESS) {
        cudnnBackendDestroyDescriptor(p);
        return NULL;
    }
    ot_gpu_set(d, OT_GPU_CUDNN_PROPERTIES, p, free_properties);
    return p;
}

cudnnStatus_t ot_cudnn_target(ot_device *d, ot_cudnn_desc x, int handle, int properties)
{
    if (ot_gpu_described(d)) {
        ot_cudnn_desc p = properties_of(d);
        if (properties < 0) return CUDNN_STATUS_SUCCESS;
        return cudnnBackendSetAttribute(x, (cudnnBackendAttributeName_t)properties, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                        &p);
    }
    cudnnHandle_t h = ot_cudnn_handle(d);
    if (handle < 0) return CUDNN_STATUS_SUCCESS;
    return cudnnBackendSetAttribute(x, (cudnnBackendAttributeName_t)handle, CUDNN_TYPE_HANDLE, 1, &h);
}

/* ---- graphs ------------------------------------------------------------------------------ */

ot_cudnn *ot_cudnn_new(const ot_node *n, ot_prep *p)
{
    if (ot_gpu_described(p->device) ? !properties_of(p->device) : !ot_cudnn_handle(p->device)) {
        p->refused = "cuDNN does not support this device";
        return NULL;
    }
    ot_cudnn *g = calloc(1, sizeof *g);
    if (!g) {
        ot_fail(p->err, OT_E_NOMEM, "%s: no memory for a graph", n->name);
        return NULL;
    }
    g->node = n;
    g->type = n->in[0]->dtype;
    return g;
}

static void forget_descriptors(ot_cudnn *g)
{
    while (g->n_desc) cudnnBackendDestroyDescriptor(g->desc[--g->n_desc]);
    ot_text_free(&g->key);
}

void ot_cudnn_free(void *state)
{
    ot_cudnn *g = state;
    if (!g) return;
    forget_descriptors(g);
    if (g->pack) cudnnBackendDestroyDescriptor(g->pack);
    free(g);
}

void ot_cudnn_planned(ot_cudnn *g, ot_cudnn_desc plan)
{
    forget_descriptors(g);
    g->plan = plan;
}

ot_cudnn_desc ot_cudnn_make(ot_cudnn *g, cudnnBackendDescriptorType_t type)
{
    ot_cudnn_desc d = NULL;
    if (g->status) return NULL;
    if (g->n_desc == OT_LEN(g->desc)) g->status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    else g->status = cudnnBackendCreateDescriptor(type, &d);
    if (g->status) return NULL;
    ot_text_add(&g->key, "%d=%d\n", g->n_desc, (int)type);
    return g->desc[g->n_desc++] = d;
}

static int number_of(const ot_cudnn *g, ot_cudnn_desc d)
{
    for (int i = 0; i < g->n_desc; i++)
        if (g->desc[i] == d) return i;
    return -1;
}

static int size_of(cudnnBackendAttributeType_t t)
{
    switch (t) {
    case CUDNN_TYPE_INT64: return 8;
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_FRACTION: return (int)sizeof(cudnnFraction_t);
    case CUDNN_TYPE_BOOLEAN: return 1;
    default: return 4; /* enumerations, f32 */
    }
}

/* The key contains everything that is set: two graphs with one key are the same graph. */
void ot_cudnn_set(ot_cudnn *g, ot_cudnn_desc d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  int64_t n, const void *list)
{
    if (g->status) return;
    g->status = cudnnBackendSetAttribute(d, name, type, n, list);
    const unsigned char *byte = list;
    ot_text_add(&g->key, "%d.%d=", number_of(g, d), (int)name);
    for (int64_t i = 0; i < n * size_of(type); i++) ot_text_add(&g->key, "%02x", byte[i]);
    ot_text_add(&g->key, "\n");
}

void ot_cudnn_link(ot_cudnn *g, ot_cudnn_desc d, cudnnBackendAttributeName_t name, ot_cudnn_desc to)
{
    if (g->status) return;
    g->status = cudnnBackendSetAttribute(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
    ot_text_add(&g->key, "%d.%d>%d\n", number_of(g, d), (int)name, number_of(g, to));
}

void ot_cudnn_finish(ot_cudnn *g, ot_cudnn_desc d)
{
    if (!g->status) g->status = cudnnBackendFinalize(d);
}

void ot_cudnn_add(ot_cudnn *g, ot_cudnn_desc op)
{
    ot_cudnn_finish(g, op);
    if (g->status) return;
    if (g->n_op == OT_LEN(g->op)) g->status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    else g->op[g->n_op++] = op;
}

/* ---- tensors ------------------------------------------------------------------------------ */

bool ot_cudnn_type(ot_dtype t, cudnnDataType_t *out)
{
    switch (t) {
    case OT_F64: {
        *out = CUDNN_DATA_DOUBLE;
        return true;
    }
    case OT_F32: {
        *out = CUDNN_DATA_FLOAT;
        return true;
    }
    case OT_F16: {
        *out = CUDNN_DATA_HALF;
        return true;
    }
    case OT_BF16: {
        *out = CUDNN_DATA_BFLOAT16;
        return true;
    }
    default: return false;
    }
}

cudnnDataType_t ot_cudnn_sums(ot_dtype t) { return t == OT_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; }

typedef struct extents {
    int rank;
    int64_t dim[OT_MAX_RANK], stride[OT_MAX_RANK];
} extents;

/* If both layouts are the same bytes, it is described as channels last: more engines accept that. */
static void extents_of(const ot_value *v, extents *e)
{
    int rank = v->shape.rank, lead = rank < 4 ? 4 - rank : 0; /* axes of 1 after N and C */
    ot_value as = { .layout = v->layout, .shape = { .rank = rank + lead } };
    for (int d = 0; d < as.shape.rank; d++)
        as.shape.dim[d] = d < 2 ? v->shape.dim[d] : d < 2 + lead ? 1 : v->shape.dim[d - lead];
    int64_t pixels = ot_numel(&as.shape) / (as.shape.dim[0] * as.shape.dim[1]);
    if (as.shape.dim[1] == 1 || pixels == 1) as.layout = OT_CHANNELS_LAST;
    e->rank = as.shape.rank;
    memcpy(e->dim, as.shape.dim, sizeof e->dim);
    ot_value_strides(&as, e->stride);
}

/* Bytes from the first to the last element. */
static size_t span(const extents *e, cudnnDataType_t t)
{
    int64_t last = 0, bits = t == CUDNN_DATA_BOOLEAN  ? 1
                             : t == CUDNN_DATA_DOUBLE ? 64
                             : t == CUDNN_DATA_FLOAT  ? 32
                                                      : 16;
    for (int d = 0; d < e->rank; d++) last += (e->dim[d] - 1) * e->stride[d];
    return (size_t)((last + 1) * bits + 7) / 8;
}

static ot_cudnn_desc tensor(ot_cudnn *g, const extents *e, cudnnDataType_t t, ot_cudnn_at at, const float *number)
{
    ot_cudnn_desc d = ot_cudnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    bool yes = true;
    int64_t uid = g->n_desc, alignment = 16; /* the memory plan aligns to more */
    ot_cudnn_set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t);
    ot_cudnn_set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, e->rank, e->dim);
    ot_cudnn_set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, e->rank, e->stride);
    ot_cudnn_set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    ot_cudnn_set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (number) ot_cudnn_set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    else if (at.place == OT_CUDNN_VIRTUAL)
        ot_cudnn_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    ot_cudnn_finish(g, d);
    if (g->status || (at.place == OT_CUDNN_VIRTUAL && !number)) return d;
    if (g->n_bound == OT_LEN(g->bound)) {
        g->status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
        return NULL;
    }
    g->uid[g->n_bound] = uid;
    g->bound[g->n_bound] = at;
    if (number) g->number[g->n_bound] = *number;
    else g->bytes[g->n_bound] = span(e, t);
    g->n_bound++;
    return d;
}

ot_cudnn_desc ot_cudnn_tensor(ot_cudnn *g, const ot_value *v, ot_cudnn_at at)
{
    extents e;
    cudnnDataType_t t = CUDNN_DATA_FLOAT;
    extents_of(v, &e);
    if (!ot_cudnn_type(v->dtype, &t) && !g->status) g->status = CUDNN_STATUS_NOT_SUPPORTED;
    return tensor(g, &e, t, at, NULL);
}

ot_cudnn_desc ot_cudnn_strided(ot_cudnn *g, int rank, const int64_t *dim, const int64_t *stride, cudnnDataType_t t,
                               ot_cudnn_at at)
{
    extents e = { .rank = rank };
    memcpy(e.dim, dim, (size_t)rank * sizeof *dim);
    memcpy(e.stride, stride, (size_t)rank * sizeof *stride);
    return tensor(g, &e, t, at, NULL);
}

ot_cudnn_desc ot_cudnn_like(ot_cudnn *g, const ot_value *v, cudnnDataType_t t, ot_cudnn_at at)
{
    extents e;
    extents_of(v, &e);
    return tensor(g, &e, t, at, NULL);
}

ot_cudnn_desc ot_cudnn_virtual(ot_cudnn *g, const ot_value *v, cudnnDataType_t t)
{
    return ot_cudnn_like(g, v, t, (ot_cudnn_at){ OT_CUDNN_VIRTUAL, 0 });
}

ot_cudnn_desc ot_cudnn_channels(ot_cudnn *g, const ot_value *v, int64_t C, cudnnDataType_t t, ot_cudnn_at at)
{
    extents e = { .rank = v->shape.rank < 4 ? 4 : v->shape.rank };
    for (int d = 0; d < e.rank; d++) {
        e.dim[d] = d == 1 ? C : 1;
        e.stride[d] = d == 1 ? 1 : C;
    }
    return tensor(g, &e, t, at, NULL);
}

ot_cudnn_desc ot_cudnn_number(ot_cudnn *g, const ot_value *v, float number)
{
    extents e = { .rank = v->shape.rank < 4 ? 4 : v->shape.rank };
    for (int d = 0; d < e.rank; d++) e.dim[d] = e.stride[d] = 1;
    return tensor(g, &e, CUDNN_DATA_FLOAT, (ot_cudnn_at){ OT_CUDNN_VIRTUAL, 0 }, &number);
}

ot_cudnn_desc ot_cudnn_pointwise(ot_cudnn *g, cudnnPointwiseMode_t mode, cudnnDataType_t precision, int64_t axis,
                                 const ot_cudnn_desc from[3], ot_cudnn_desc y)
{
    ot_cudnn_desc how = ot_cudnn_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    ot_cudnn_set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    ot_cudnn_set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (axis >= 0) ot_cudnn_set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    cudnnNanPropagation_t nan =
        CUDNN_PROPAGATE_NAN; /* by default ReLU makes 0 of NaN, and hides that a network has diverged */
    if (mode == CUDNN_POINTWISE_RELU_FWD)
        ot_cudnn_set(g, how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    ot_cudnn_finish(g, how);
    ot_cudnn_desc op = ot_cudnn_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from[0]);
    if (from[1]) ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, from[1]);
    if (from[2]) ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, from[2]);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    ot_cudnn_add(g, op);
    return y;
}

bool ot_cudnn_behind_can(const ot_chain *c)
{
    for (int i = 0; i < c->n; i++) {
        const ot_chain_step *s = &c->step[i];
        bool pair = s->row == OT_FN_Add || s->row == OT_FN_Relu_da;
        if (!pair && s->row != OT_FN_Relu && (s->row != OT_FN_Swish || s->p != 1)) return false;
        if (pair != (s->other >= 0)) return false;
    }
    return c->n > 0;
}

/* v where y > 0, else 0: a selection, as 0 times an infinite v is NaN. */
static ot_cudnn_desc select_positive(ot_cudnn *g, const ot_value *like, ot_cudnn_desc v, ot_cudnn_desc y,
                                     ot_cudnn_desc to)
{
    ot_cudnn_desc zero = ot_cudnn_number(g, like, 0), on = ot_cudnn_virtual(g, like, CUDNN_DATA_BOOLEAN);
    ot_cudnn_pointwise(g, CUDNN_POINTWISE_CMP_GT, CUDNN_DATA_FLOAT, -1, (const ot_cudnn_desc[]){ y, zero, NULL }, on);
    return ot_cudnn_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1,
                              (const ot_cudnn_desc[]){ v, zero, on }, to);
}

ot_cudnn_desc ot_cudnn_behind(ot_cudnn *g, const ot_node *n, ot_cudnn_desc v)
{
    const ot_fused_part *map = ot_fused_behind(n);
    const ot_value *y = map->node->out[0];
    ot_chain c;
    ot_chain_of(map->node, ot_fused_between(n), &c);
    for (int i = 0; i < c.n; i++) {
        const ot_chain_step *s = &c.step[i];
        ot_cudnn_desc to = i == c.n - 1 ? ot_cudnn_tensor(g, y, (ot_cudnn_at){ OT_CUDNN_OUT, map->out[0] })
                                        : ot_cudnn_virtual(g, y, CUDNN_DATA_FLOAT),
                      other = s->other < 0 ? NULL
                                           : ot_cudnn_tensor(g, map->node->in[s->other],
                                                             (ot_cudnn_at){ OT_CUDNN_IN, map->in[s->other] });
        if (s->row == OT_FN_Relu_da) {
            v = select_positive(g, y, v, other, to);
            continue;
        }
        cudnnPointwiseMode_t mode = s->row == OT_FN_Add    ? CUDNN_POINTWISE_ADD
                                    : s->row == OT_FN_Relu ? CUDNN_POINTWISE_RELU_FWD
                                                           : CUDNN_POINTWISE_SWISH_FWD;
        v = ot_cudnn_pointwise(g, mode, CUDNN_DATA_FLOAT, -1, (const ot_cudnn_desc[]){ v, other, NULL }, to);
    }
    return v;
}

/* ---- running ------------------------------------------------------------------------------- */

static ot_status failed(const ot_cudnn *g, cudnnStatus_t s, const char *what, ot_error *err)
{
    char words[256] = "";
    cudnnGetLastErrorString(words, sizeof words);
    return ot_fail(err, s == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ? OT_E_NOMEM : OT_E_DEVICE,
                   "%s: cuDNN %s: %s%s%s", g->node->name, what, cudnnGetErrorString(s), *words ? ": " : "", words);
}

static void *address(ot_cudnn *g, int k, const ot_call *c)
{
    ot_cudnn_at at = g->bound[k];
    switch (at.place) {
    case OT_CUDNN_IN: return (void *)(uintptr_t)c->in[at.i];
    case OT_CUDNN_OUT: return c->out[at.i];
    case OT_CUDNN_WORK: return (char *)c->work + at.i;
    case OT_CUDNN_TABLE: return (char *)(uintptr_t)c->table + at.i;
    default: return &g->number[k];
    }
}

/* The addresses of a step are the same in every run of a plan, so its variant pack is made once. */
static cudnnStatus_t pack(ot_cudnn *g, void *const *addresses, void *work)
{
    cudnnStatus_t s;
    if (g->pack && !memcmp(g->packed, addresses, (size_t)g->n_bound * sizeof *addresses) && g->packed_work == work)
        return CUDNN_STATUS_SUCCESS;
    if (g->pack) cudnnBackendDestroyDescriptor(g->pack);
    g->pack = NULL;
    ot_cudnn_desc d = NULL;
    if ((s = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &d))) return s;
    s = cudnnBackendSetAttribute(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, g->n_bound, g->uid);
    if (!s)
        s = cudnnBackendSetAttribute(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, g->n_bound,
                                     addresses);
    if (!s) s = cudnnBackendSetAttribute(d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &work);
    if (!s) s = cudnnBackendFinalize(d);
    if (s) {
        cudnnBackendDestroyDescriptor(d);
        return s;
    }
    memcpy(g->packed, addresses, (size_t)g->n_bound * sizeof *addresses);
    g->packed_work = work;
    g->pack = d;
    return CUDNN_STATUS_SUCCESS;
}

bool ot_cudnn_runs(ot_cudnn *g, ot_device *d, ot_cudnn_desc plan, int64_t work)
{
    enum { ALIGN = 256 };
    void *addresses[OT_CUDNN_BOUND], *memory = NULL;
    ot_error e = { 0 };
    size_t all = (size_t)work, at = ((size_t)work + ALIGN - 1) / ALIGN * ALIGN;
    for (int k = 0; k < g->n_bound; k++) all += g->bytes[k] + 2 * ALIGN;
    if (d->backend->alloc(d, (int64_t)all, &memory, &e) != OT_OK) return true;
    for (int k = 0; k < g->n_bound; k++) {
        addresses[k] = g->bytes[k] ? (char *)memory + at : (void *)&g->number[k];
        at += (g->bytes[k] + ALIGN - 1) / ALIGN * ALIGN;
    }
    cudnnStatus_t s = pack(g, addresses, work ? memory : NULL);
    if (!s) s = cudnnBackendExecute(ot_cudnn_handle(d), plan, g->pack);
    if (d->backend->wait(d, &e) != OT_OK) s = CUDNN_STATUS_EXECUTION_FAILED;
    d->backend->free(d, memory);
    if (g->pack) cudnnBackendDestroyDescriptor(g->pack);
    g->pack = NULL;
    return !s;
}

ot_status ot_cudnn_execute(ot_cudnn *g, const ot_call *c)
{
    void *addresses[OT_CUDNN_BOUND];
    cudnnHandle_t handle = ot_cudnn_handle(c->device);
    if (!handle) return ot_fail(c->err, OT_E_DEVICE, "%s: cuDNN does not support this device", g->node->name);
    for (int k = 0; k < g->n_bound; k++) addresses[k] = address(g, k, c);
    cudnnStatus_t s = pack(g, addresses, g->work ? (char *)c->work + g->own : NULL);
    if (s) return failed(g, s, "cannot set addresses", c->err);
    s = cudnnBackendExecute(handle, g->plan, g->pack);
    return s ? failed(g, s, "cannot run", c->err) : OT_OK;
}

ot_status ot_cudnn_run(const ot_call *c) { return ot_cudnn_execute(c->state, c); }
