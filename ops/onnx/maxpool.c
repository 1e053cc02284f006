/* maxpool.c - MaxPool.
 *
 * Spec    ai.onnx MaxPool 8, 10, 11, 12, 22; the second output counts elements of all of x.
 * Shapes  x: (N, C, i1..id)  y, indices: (N, C, o1..od)
 * Grad    to the first maximum of each window (pool.c).
 *
 * A Relu right before the pool moves after it, to the smaller tensor: both are monotone, so the values are the same.
 * The gradient is the same too: in a window of negative elements Relu's gradient is zero. */
#include "ops/kernels/map.h"
#include "ops/kernels/pool.h"
#include "ops/onnx/batching.h"

typedef struct ot_maxpool {
    ot_window_attrs window;
    int64_t storage_order;
} ot_maxpool;

#define AT(field) offsetof(ot_maxpool, field)
static const ot_attr attrs[] = {
    { "auto_pad", OT_ENUM, AT(window.auto_pad), OT_PAD_NOTSET, ot_auto_pads },
    { "ceil_mode", OT_INT, AT(window.ceil_mode), 0, NULL },
    { "dilations", OT_INTS, AT(window.dilations), 0, NULL },
    { "kernel_shape", OT_INTS, AT(window.kernel), OT_REQUIRED, NULL },
    { "pads", OT_INTS, AT(window.pads), 0, NULL },
    { "storage_order", OT_INT, AT(storage_order), 0, NULL },
    { "strides", OT_INTS, AT(window.strides), 0, NULL },
    { 0 },
};
#undef AT

static ot_status resolve(const ot_node *n, ot_pool *p, ot_error *err)
{
    const ot_maxpool *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    if (x->rank < 3) return ot_node_fail(n, err, "x has rank %d; expected 3 or more", x->rank);
    if (a->window.kernel.n != x->rank - 2)
        return ot_node_fail(n, err, "kernel_shape has %d values; x needs %d", a->window.kernel.n, x->rank - 2);
    *p = (ot_pool){ .column_major = a->storage_order != 0 };
    return ot_window_resolve(n, &a->window, a->window.kernel.v, x, &p->window, p->out, err);
}

static ot_status maxpool_infer(ot_node *n, ot_error *err)
{
    ot_pool p;
    OT_TRY(resolve(n, &p, err));
    ot_shape y = n->in[0]->shape;
    for (int j = 0; j < p.window.nd; j++) y.dim[2 + j] = p.out[j];
    if (n->n_out > 1) ot_set(n->out[1], OT_I64, &y);
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* The input of Relu, if x is a Relu with a single reader. */
static ot_value *before_relu(const ot_value *x)
{
    const ot_node *n = x->producer;
    if (!n || n->op != &ot_op_Map) return NULL;
    const ot_program *m = n->attrs;
    bool relu = m->n_in == 1 && m->n_inst == 1 && m->n_out == 1 && m->out[0] == 1 && m->inst[0].row == OT_FN_Relu;
    return relu && n->in[0]->dtype == x->dtype && ot_shape_eq(&n->in[0]->shape, &x->shape) ? n->in[0] : NULL;
}

/* Does every window contain an element of x?  In a window of padding only, -inf and Relu(-inf) would differ. */
static bool never_empty(const ot_pool *p, const ot_shape *x)
{
    for (int j = 0; j < p->window.nd; j++) {
        int64_t end = (p->out[j] - 1) * p->window.stride[j] - p->window.pad_lo[j];
        if (p->window.dilation[j] != 1 || p->window.pad_lo[j] >= p->window.kernel[j] || end >= x->dim[2 + j])
            return false;
    }
    return true;
}

static void maxpool_lower(ot_build *b)
{
    const ot_node *n = b->node;
    ot_pool p;
    bool indices = n->n_out > 1 && n->out[1];
    if (resolve(n, &p, b->graph->err) != OT_OK) return;
    ot_value *inner = indices || !never_empty(&p, &n->in[0]->shape) ? NULL : before_relu(n->in[0]);
    ot_node *k = ot_emit_n(b, &ot_op_PoolMax, &p, inner ? &inner : n->in, 1, indices ? 3 : 2);
    if (!k) return;
    ot_yield(b, 0, inner ? ot_map1(b, OT_FN_Relu, 0, 0, k->out[0]) : k->out[0]);
    if (indices) ot_yield(b, 1, k->out[2]);
}

const ot_op ot_op_MaxPool = {
    .name = "MaxPool",
    .types = { "T", .T = OT_SET_FLOAT | OT_TYPE(OT_I8) | OT_TYPE(OT_U8) },
    .slots = "-",
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 2 },
    .rank = OT_RANK_KEPT,
    .attrs = attrs,
    .attr_size = sizeof(ot_maxpool),
    .infer = maxpool_infer,
    .lower = maxpool_lower,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_first,
};
