/* averagepool.c - AveragePool.
 *
 * Spec    ai.onnx AveragePool 7, 10, 11, 19, 22.  Elements that ceil_mode adds beyond the padding are never counted.
 * Shapes  x: (N, C, i1..id)  y: (N, C, o1..od) */
#include "ops/kernels/pool.h"
#include "ops/onnx/batching.h"

typedef struct ot_averagepool {
    ot_window_attrs window;
    int64_t include_pad;
} ot_averagepool;

#define AT(field) offsetof(ot_averagepool, field)
static const ot_attr attrs[] = {
    { "auto_pad", OT_ENUM, AT(window.auto_pad), OT_PAD_NOTSET, ot_auto_pads },
    { "ceil_mode", OT_INT, AT(window.ceil_mode), 0, NULL },
    { "count_include_pad", OT_INT, AT(include_pad), 0, NULL },
    { "dilations", OT_INTS, AT(window.dilations), 0, NULL },
    { "kernel_shape", OT_INTS, AT(window.kernel), OT_REQUIRED, NULL },
    { "pads", OT_INTS, AT(window.pads), 0, NULL },
    { "strides", OT_INTS, AT(window.strides), 0, NULL },
    { 0 },
};
#undef AT

static ot_status resolve(const ot_node *n, ot_pool *p, ot_error *err)
{
    const ot_averagepool *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    if (x->rank < 3) return ot_node_fail(n, err, "x has rank %d; expected 3 or more", x->rank);
    if (a->window.kernel.n != x->rank - 2)
        return ot_node_fail(n, err, "kernel_shape has %d values; x needs %d", a->window.kernel.n, x->rank - 2);
    *p = (ot_pool){ .include_pad = a->include_pad != 0 };
    return ot_window_resolve(n, &a->window, a->window.kernel.v, x, &p->window, p->out, err);
}

static ot_status averagepool_infer(ot_node *n, ot_error *err)
{
    ot_pool p;
    OT_TRY(resolve(n, &p, err));
    ot_shape y = n->in[0]->shape;
    for (int j = 0; j < p.window.nd; j++) y.dim[2 + j] = p.out[j];
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void averagepool_lower(ot_build *b)
{
    ot_pool p;
    if (resolve(b->node, &p, b->graph->err) == OT_OK) ot_yield(b, 0, ot_emit(b, &ot_op_PoolAvg, &p, b->node->in, 1));
}

const ot_op ot_op_AveragePool = {
    .name = "AveragePool",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = attrs,
    .attr_size = sizeof(ot_averagepool),
    .infer = averagepool_infer,
    .lower = averagepool_lower,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_first,
};
