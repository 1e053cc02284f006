/* gemm.c - Gemm: y = alpha op(a) op(b) + beta c.
 *
 * Spec    ai.onnx Gemm 11, 13; c is optional and broadcasts to y.
 * Shapes  op(a): (M, K)  op(b): (K, N)  y: (M, N) */
#include "ops/kernels/dot.h"
#include "ops/kernels/functions.h"
#include "ops/kernels/map.h"
#include "ops/onnx/batching.h"

typedef struct ot_gemm {
    double alpha, beta;
    int64_t ta, tb;
} ot_gemm;

#define AT(field) offsetof(ot_gemm, field)
static const ot_attr attrs[] = {
    { "alpha", OT_FLOAT, AT(alpha), 1, NULL },
    { "beta", OT_FLOAT, AT(beta), 1, NULL },
    { "transA", OT_INT, AT(ta), 0, NULL },
    { "transB", OT_INT, AT(tb), 0, NULL },
    { 0 },
};
#undef AT

static ot_status gemm_infer(ot_node *n, ot_error *err)
{
    const ot_gemm *g = n->attrs;
    const ot_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape;
    char sa[128], sb[128];
    if (a->rank != 2 || b->rank != 2)
        return ot_node_fail(n, err, "A has rank %d and B rank %d; both need rank 2", a->rank, b->rank);
    ot_shape y = { .rank = 2, .dim = { a->dim[g->ta ? 1 : 0], b->dim[g->tb ? 0 : 1] } }, all;
    if (a->dim[g->ta ? 0 : 1] != b->dim[g->tb ? 1 : 0])
        return ot_node_fail(n, err, "A %s%s and B %s%s cannot be multiplied", ot_shape_text(a, sa),
                            g->ta ? " transposed" : "", ot_shape_text(b, sb), g->tb ? " transposed" : "");
    if (n->n_in > 2 && n->in[2] && (!ot_broadcast(&y, &n->in[2]->shape, &all) || !ot_shape_eq(&y, &all)))
        return ot_node_fail(n, err, "C is %s, which does not broadcast to %s", ot_shape_text(&n->in[2]->shape, sa),
                            ot_shape_text(&y, sb));
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void gemm_lower(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_gemm *g = n->attrs;
    ot_value *a = n->in[0], *w = n->in[1], *c = ot_node_in(n, 2);
    ot_dot t = { g->ta != 0, g->tb != 0 };
    int64_t N = n->out[0]->shape.dim[1];
    if (g->beta == 0) c = NULL;

    ot_shape row = { .rank = 1, .dim = { N } };
    bool is_row = c && ot_numel(&c->shape) == N && c->shape.rank > 0 && c->shape.dim[c->shape.rank - 1] == N;
    if (is_row && g->alpha == 1 && g->beta == 1) {
        ot_yield(b, 0, ot_emit(b, &ot_op_Dot, &t, OT_IN(a, w, ot_view(b, c, &row))));
        return;
    }
    ot_value *y = ot_emit(b, &ot_op_Dot, &t, OT_IN(a, w));
    if (g->alpha != 1) y = ot_map2(b, OT_FN_Mul, 0, 0, y, ot_scalar(b, a->dtype, g->alpha));
    if (c && g->beta != 1) c = ot_map2(b, OT_FN_Mul, 0, 0, c, ot_scalar(b, a->dtype, g->beta));
    ot_yield(b, 0, c ? ot_map2(b, OT_FN_Add, 0, 0, y, c) : y);
}

static bool gemm_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    if (!ot_batch_has(n, 0) || ot_batch_has(n, 1) || n->in[0]->mark == OT_ALONE) return false;
    if (!(r->in[0] = ot_batch_move(b, n->in[0], ot_attr_get(n, "transA", 0) ? 1 : 0))) return false;
    if (!ot_batch_given(n, 2)) return ot_batch_on(r, n, 0);
    ot_shape s = ot_own_shape(b, n->in[2]), p = ot_padded_shape(&s, 2);
    if (p.dim[0] != (n->in[2]->mark ? own[0].dim[0] : 1)) return false;
    if (n->in[2]->mark && !(r->in[2] = ot_batch_placed(b, n->in[2], 2, 0))) return false;
    return ot_batch_on(r, n, 0);
}

const ot_op ot_op_Gemm = {
    .name = "Gemm",
    .types = { "T", .T = OT_SET_WIDE },
    .slots = "MMA",
    .since = 13,
    .in = { 2, 3 },
    .out = { 1, 1 },
    .rank = OT_RANK_TWO,
    .attrs = attrs,
    .attr_size = sizeof(ot_gemm),
    .infer = gemm_infer,
    .lower = gemm_lower,
    .flags = OT_PRODUCT,
    .half = OT_HALF_PRODUCT,
    .batch = gemm_batch,
};
