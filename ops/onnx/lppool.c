/* lppool.c - LpPool and GlobalLpPool: the p-norm of windows, of all pixels.
 *
 * Spec    ai.onnx LpPool 22, GlobalLpPool 22.
 * Shapes  x: (N, C, i1..id)  y: (N, C, o1..od); GlobalLpPool: (N, C, 1..1)
 * A window's sum of |x|^p is the average over all elements, padding included, times the number of elements. */
#include "ops/kernels/map.h"
#include "ops/kernels/pool.h"
#include "ops/kernels/reduce.h"
#include "ops/onnx/batching.h"

typedef struct ot_lppool {
    ot_window_attrs window;
    int64_t p;
} ot_lppool;

#define AT(field) offsetof(ot_lppool, field)
static const ot_attr attrs[] = {
    { "auto_pad", OT_ENUM, AT(window.auto_pad), OT_PAD_NOTSET, ot_auto_pads },
    { "ceil_mode", OT_INT, AT(window.ceil_mode), 0, NULL },
    { "dilations", OT_INTS, AT(window.dilations), 0, NULL },
    { "kernel_shape", OT_INTS, AT(window.kernel), OT_REQUIRED, NULL },
    { "p", OT_INT, AT(p), 2, NULL },
    { "pads", OT_INTS, AT(window.pads), 0, NULL },
    { "strides", OT_INTS, AT(window.strides), 0, NULL },
    { 0 },
};
static const ot_attr global_attrs[] = { { "p", OT_INT, AT(p), 2, NULL }, { 0 } };
#undef AT

static ot_status resolve(const ot_node *n, ot_pool *p, ot_error *err)
{
    const ot_lppool *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    if (x->rank < 3) return ot_node_fail(n, err, "x has rank %d; expected 3 or more", x->rank);
    if (a->p < 1) return ot_node_fail(n, err, "p is %lld; expected at least 1", (long long)a->p);
    if (a->window.kernel.n != x->rank - 2)
        return ot_node_fail(n, err, "kernel_shape has %d values; x needs %d", a->window.kernel.n, x->rank - 2);
    *p = (ot_pool){ .include_pad = 1 };
    OT_TRY(ot_window_resolve(n, &a->window, a->window.kernel.v, x, &p->window, p->out, err));
    /* Enough padding for the last window of ceil_mode: then every window counts all its elements. */
    for (int j = 0; j < p->window.nd; j++) {
        int64_t end = (p->out[j] - 1) * p->window.stride[j] + (p->window.kernel[j] - 1) * p->window.dilation[j] + 1;
        int64_t room = x->dim[2 + j] + p->window.pad_lo[j] + p->window.pad_hi[j];
        if (end > room) p->window.pad_hi[j] += end - room;
    }
    return OT_OK;
}

static ot_status infer(ot_node *n, ot_error *err)
{
    ot_pool p;
    OT_TRY(resolve(n, &p, err));
    ot_shape y = n->in[0]->shape;
    for (int j = 0; j < p.window.nd; j++) y.dim[2 + j] = p.out[j];
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static ot_value *power(ot_build *b, ot_value *x, int64_t p)
{
    if (p == 2) return ot_map1(b, OT_FN_Square, 0, 0, x);
    x = ot_map1(b, OT_FN_Abs, 0, 0, x);
    return p == 1 ? x : ot_map1(b, OT_FN_PowP, (double)p, 0, x);
}

static ot_value *root(ot_build *b, ot_value *x, int64_t p)
{
    if (p == 1) return x;
    return p == 2 ? ot_map1(b, OT_FN_Sqrt, 0, 0, x) : ot_map1(b, OT_FN_PowP, 1 / (double)p, 0, x);
}

static void lower(ot_build *b)
{
    const ot_lppool *a = b->node->attrs;
    ot_value *x = b->node->in[0];
    ot_pool p;
    if (resolve(b->node, &p, b->graph->err) != OT_OK) return;
    ot_value *mean = ot_emit(b, &ot_op_PoolAvg, &p, OT_IN(power(b, x, a->p)));
    ot_value *sum = ot_map2(b, OT_FN_Mul, 0, 0, mean, ot_scalar(b, x->dtype, (double)ot_pool_window(&p.window)));
    ot_yield(b, 0, root(b, sum, a->p));
}

static ot_status global_infer(ot_node *n, ot_error *err)
{
    const ot_lppool *a = n->attrs;
    ot_shape y = n->in[0]->shape;
    if (y.rank < 2) return ot_node_fail(n, err, "x has rank %d; expected 2 or more", y.rank);
    if (a->p < 1) return ot_node_fail(n, err, "p is %lld; expected at least 1", (long long)a->p);
    for (int d = 2; d < y.rank; d++) y.dim[d] = 1;
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void global_lower(ot_build *b)
{
    int64_t p = ((const ot_lppool *)b->node->attrs)->p, axes[OT_MAX_RANK];
    ot_value *x = b->node->in[0];
    int n = 0;
    for (int d = 2; d < x->shape.rank; d++) axes[n++] = d;
    ot_yield(b, 0, root(b, ot_sum(b, power(b, x, p), axes, n, true), p));
}

const ot_op ot_op_LpPool = {
    .name = "LpPool",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = attrs,
    .attr_size = sizeof(ot_lppool),
    .infer = infer,
    .lower = lower,
    .batch = ot_batch_first,
};

const ot_op ot_op_GlobalLpPool = {
    .name = "GlobalLpPool",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = global_attrs,
    .attr_size = sizeof(ot_lppool),
    .infer = global_infer,
    .lower = global_lower,
    .batch = ot_batch_first,
};
