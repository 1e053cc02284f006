/* matmul.c - MatMul: numpy's matrix product.
 *
 * Spec    ai.onnx MatMul 1, 9, 13.
 * Shapes  a: (..., M, K)  b: (..., K, N)  y: (..., M, N); leading axes broadcast.  An operand of rank 1 is a row (a) or
 *         a column (b), and y lacks its axis. */
#include "ops/kernels/dot.h"
#include "ops/onnx/batching.h"

static ot_status matrix_shapes(const ot_node *n, ot_shape *a, ot_shape *b, ot_shape *y, ot_error *err)
{
    char sa[128], sb[128];
    *a = n->in[0]->shape;
    *b = n->in[1]->shape;
    if (a->rank < 1 || b->rank < 1)
        return ot_node_fail(n, err, "an operand is a scalar; it must have at least one axis");
    bool row = a->rank == 1, column = b->rank == 1;
    if (row) *a = (ot_shape){ .rank = 2, .dim = { 1, a->dim[0] } };
    if (column) *b = (ot_shape){ .rank = 2, .dim = { b->dim[0], 1 } };
    ot_shape ba = *a, bb = *b;
    ba.rank -= 2;
    bb.rank -= 2;
    if (a->dim[a->rank - 1] != b->dim[b->rank - 2] || !ot_broadcast(&ba, &bb, y))
        return ot_node_fail(n, err, "%s and %s cannot be multiplied", ot_shape_text(&n->in[0]->shape, sa),
                            ot_shape_text(&n->in[1]->shape, sb));
    if (!row) y->dim[y->rank++] = a->dim[a->rank - 2];
    if (!column) y->dim[y->rank++] = b->dim[b->rank - 1];
    return OT_OK;
}

static ot_status matmul_infer(ot_node *n, ot_error *err)
{
    ot_shape a, b, y;
    OT_TRY(matrix_shapes(n, &a, &b, &y, err));
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void matmul_lower(ot_build *build)
{
    const ot_node *n = build->node;
    ot_shape a, b, y;
    if (matrix_shapes(n, &a, &b, &y, build->graph->err) != OT_OK) return;
    int64_t rows = 1, batch = 1;
    for (int d = 0; d < b.rank - 2; d++) batch *= b.dim[d];
    if (batch == 1 && a.rank > 2) {
        /* One matrix for every batch: one product over all rows, and a gradient of b that sums over them. */
        for (int d = 0; d < a.rank - 1; d++) rows *= a.dim[d];
        a = (ot_shape){ .rank = 2, .dim = { rows, a.dim[a.rank - 1] } };
        b = (ot_shape){ .rank = 2, .dim = { b.dim[b.rank - 2], b.dim[b.rank - 1] } };
    }
    ot_value *v = ot_matmul(build, ot_view(build, n->in[0], &a), false, ot_view(build, n->in[1], &b), false);
    if (v) ot_yield(build, 0, ot_view(build, v, &y));
}

static bool matmul_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    ot_shape s = ot_own_shape(b, n->in[0]), w = ot_own_shape(b, n->in[1]);
    int rank = s.rank > w.rank ? s.rank : w.rank, lead = ot_batch_leader(b, n);
    for (int i = 0; i < 2; i++)
        if (n->in[i]->mark == OT_ALONE) return false;
    if (!ot_batch_has(n, 1) && w.rank <= 2) { /* rows times a matrix */
        if (s.rank == 1) return (r->in[0] = ot_batch_full(b, n->in[0])) && ot_batch_explicit(r, 0);
        int a = ot_batch_axis(n->in[0]);
        if (a == s.rank - 1) r->in[0] = ot_batch_move(b, n->in[0], a = 0);
        return r->in[0] && ot_batch_on(r, n, a);
    }
    if (s.rank < 2 || w.rank < 2) return false;
    if (rank == 2 && ot_batch_has(n, 0) && ot_batch_has(n, 1) && !ot_batch_axis(n->in[0]) &&
        ot_batch_axis(n->in[1]) == 1 && !b->pairs)
        b->pairs = n->name;
    if (ot_batch_has(n, 0) && ot_batch_has(n, 1) && ot_batch_axis(n->in[0]) == s.rank - 1 &&
        ot_batch_axis(n->in[1]) == w.rank - 2)
        ot_batch_mixes(b, n, 0, s.rank - 1);
    int axis = ot_batch_axis_in(b, n->in[lead], &(ot_shape){ .rank = rank });
    if (!ot_batch_has(n, 1) && axis == rank - 2) return ot_batch_on(r, n, axis);
    ot_shape y = own[0];
    bool as_is = axis < rank - 2 && ot_batch_meet(b, n, &y, axis, 2);
    for (int i = 0; i < 2; i++) {
        ot_shape p = ot_padded_shape(i ? &w : &s, rank);
        if (!ot_batch_has(n, i)) continue;
        r->in[i] = ot_batch_placed(b, n->in[i], rank, as_is ? axis : 0);
        if (r->in[i] && !as_is) r->in[i] = ot_batch_apart(b, r->in[i], &p, 0);
        if (!r->in[i]) return false;
    }
    return as_is ? ot_batch_on(r, n, axis) : ot_batch_explicit(r, 0);
}

const ot_op ot_op_MatMul = {
    .name = "MatMul",
    .types = { "T", .T = OT_SET_WIDE },
    .slots = "MM",
    .since = 13,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .rank = OT_RANK_PRODUCT,
    .infer = matmul_infer,
    .lower = matmul_lower,
    .flags = OT_PRODUCT,
    .half = OT_HALF_PRODUCT,
    .batch = matmul_batch,
};
