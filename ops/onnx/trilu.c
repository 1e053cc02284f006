/* trilu.c - Trilu: a triangle of each matrix, zeros elsewhere.
 *
 * Spec    ai.onnx Trilu 14.  k must be constant.
 * Grad    of a Where with a constant mask: dy in the triangle, zero elsewhere. */
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct trilu_attrs {
    int64_t upper;
} trilu_attrs;

static const ot_attr trilu_rows[] = {
    { "upper", OT_INT, offsetof(trilu_attrs, upper), 1, NULL },
    { 0 },
};

static ot_status trilu_infer(ot_node *n, ot_error *err)
{
    ot_ints k;
    OT_TRY(ot_const_ints(n, 1, &k, err));
    if (k.n > 1 || n->in[0]->shape.rank < 2)
        return ot_node_fail(n, err, "x must have rank 2 or more, and k one element");
    return ot_like(n->out[0], n->in[0]);
}

static void trilu_lower(ot_build *b)
{
    const ot_shape *x = &b->node->in[0]->shape;
    ot_shape s = { .rank = 2, .dim = { x->dim[x->rank - 2], x->dim[x->rank - 1] } };
    bool upper = ((const trilu_attrs *)b->node->attrs)->upper, *mask = ot_const_alloc(b, &s, OT_BOOL);
    ot_ints list;
    if (!mask || ot_const_ints(b->node, 1, &list, b->graph->err) != OT_OK) return;
    int64_t k = list.n ? list.v[0] : 0;
    /* Beyond the corners every diagonal is the same, and nothing overflows. */
    if (k > s.dim[1]) k = s.dim[1];
    if (k < -s.dim[0]) k = -s.dim[0];
    for (int64_t i = 0; i < s.dim[0]; i++)
        for (int64_t j = 0; j < s.dim[1]; j++) mask[i * s.dim[1] + j] = upper ? j - i >= k : j - i <= k;
    ot_value *m = ot_graph_const_of(b->graph, "", OT_BOOL, &s, mask);
    ot_value *zero = ot_scalar(b, b->node->in[0]->dtype, 0);
    ot_yield(b, 0, ot_map3(b, OT_FN_Where, 0, 0, m, b->node->in[0], zero));
}

static bool trilu_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    return ot_batch_has(n, 0) && ot_batch_along(b, n, INT64_C(3) << (n->in[0]->shape.rank - 2), 0, r);
}

const ot_op ot_op_Trilu = {
    .name = "Trilu",
    .types = { "Ti", .T = OT_SET_COMMON },
    .slots = "-",
    .since = 14,
    .in = { 1, 2 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .nondiff = 1u << 1,
    .attrs = trilu_rows,
    .attr_size = sizeof(trilu_attrs),
    .infer = trilu_infer,
    .lower = trilu_lower,
    .batch = trilu_batch,
};
