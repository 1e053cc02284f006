/* det.c - Det: determinants of square matrices.
 *
 * Spec      ai.onnx Det 11, 22.
 * Shapes    x: (.., m, m)   y: (..)
 * Grad      that of the elimination, which equals the adjugate for every matrix, singular ones too: the pivot is the
 *           largest remaining element, so that a pivot of zero means that all are zero; the division is then by one.
 * Numerics  float16 and bfloat16 are eliminated in float32.
 *
 * One step: det(a) = (-1)^(r+c) a[r][c] det(s), s being a without row r and column c, minus the product of these. */
#include "ops/kernels/arith.h"
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/topkindex.h"
#include "ops/kernels/take.h"
#include "ops/onnx/batching.h"

enum { MOST = 1024 }; /* most rows: each is a step of about twenty nodes */

static ot_status det_infer(ot_node *n, ot_error *err)
{
    ot_shape y = n->in[0]->shape;
    if (y.rank < 2 || y.dim[y.rank - 1] != y.dim[y.rank - 2]) {
        char a[128];
        return ot_node_fail(n, err, "%s has no square matrices", ot_shape_text(&y, a));
    }
    if (y.dim[y.rank - 1] > MOST)
        return ot_node_fail(n, err, "matrices of %lld rows; at most %d are supported", (long long)y.dim[y.rank - 1],
                            MOST);
    y.rank -= 2;
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static ot_value *take(ot_build *b, ot_value *list, ot_value *index)
{
    return ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(list, index));
}

static ot_value *along(ot_build *b, ot_value *x, int64_t rows, int64_t columns)
{
    return ot_broken(b) ? NULL : ot_view(b, x, &(ot_shape){ .rank = 3, .dim = { x->shape.dim[0], rows, columns } });
}

/* 0 .. m-2 without `gap`: (B, m-1). */
static ot_value *others(ot_build *b, ot_value *gap, int64_t m)
{
    ot_value *j = ot_line(b, OT_I64, NULL, m - 1, 1, 2);
    return ot_plus(b, j, ot_cast(b, ot_map2(b, OT_FN_GreaterOrEqual, 0, 0, j, gap), OT_I64));
}

/* a: (B, m, m), m > 1.  Returns s, (B, m-1, m-1); *factor: (B, 1). */
static ot_value *step(ot_build *b, ot_value *a, int64_t B, int64_t m, ot_value **factor)
{
    ot_value *list = ot_view(b, a, &(ot_shape){ .rank = 1, .dim = { B * m * m } });
    ot_value *size = ot_map1(b, OT_FN_Abs, 0, 0, ot_view(b, a, &(ot_shape){ .rank = 2, .dim = { B, m * m } }));
    ot_value *at = ot_emit(b, &ot_op_TopKIndex, &(ot_topk_index){ .axis = 1, .k = 1 }, OT_IN(size));
    ot_value *r = ot_map2(b, OT_FN_IDiv, 0, 0, at, ot_scalar(b, OT_I64, (double)m));
    ot_value *c = ot_minus(b, at, ot_times_by(b, r, (double)m));
    ot_value *first = ot_times_by(b, ot_line(b, OT_I64, NULL, B, 0, 2), (double)(m * m));
    ot_value *rows = ot_plus(b, first, ot_times_by(b, others(b, r, m), (double)m)), *columns = others(b, c, m);

    ot_value *pivot = take(b, list, ot_plus(b, first, at));
    ot_value *row = take(b, list, ot_plus(b, ot_plus(b, first, ot_times_by(b, r, (double)m)), columns));
    ot_value *column = take(b, list, ot_plus(b, rows, c));
    ot_value *rest = take(b, list, ot_plus(b, along(b, rows, m - 1, 1), along(b, columns, 1, m - 1)));

    ot_value *odd = ot_map2(b, OT_FN_BitAnd, 0, 0, ot_plus(b, r, c), ot_scalar(b, OT_I64, 1));
    *factor = ot_where(b, ot_cast(b, odd, OT_BOOL), ot_times_by(b, pivot, -1), pivot);
    ot_value *by = ot_where(b, ot_compare_by(b, OT_FN_Equal, pivot, 0), ot_scalar_like(b, pivot, 1), pivot);
    column = along(b, ot_over(b, column, by), m - 1, 1);
    return ot_minus(b, rest, ot_times(b, column, along(b, row, 1, m - 1)));
}

static void det_lower(ot_build *b)
{
    ot_value *x = b->node->in[0], *y = NULL, *factor = NULL;
    int64_t m = x->shape.dim[x->shape.rank - 1], B = ot_numel(&b->node->out[0]->shape);
    ot_dtype t = x->dtype;
    ot_value *a = ot_view(b, t == OT_F64 ? x : ot_cast(b, x, OT_F32), &(ot_shape){ .rank = 3, .dim = { B, m, m } });
    for (; m > 0 && !ot_broken(b); m--) {
        if (m > 1) a = step(b, a, B, m, &factor);
        else factor = ot_view(b, a, &(ot_shape){ .rank = 2, .dim = { B, 1 } });
        y = y ? ot_times(b, y, factor) : factor;
    }
    if (!y && !ot_broken(b)) y = ot_expand(b, ot_scalar(b, t, 1), &(ot_shape){ .rank = 2, .dim = { B, 1 } });
    ot_yield(b, 0, ot_view(b, ot_cast(b, y, t), &b->node->out[0]->shape));
}

static bool det_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int64_t last = ot_batch_has(n, 0) ? INT64_C(3) << (n->in[0]->shape.rank - 2) : 0;
    return last && ot_batch_along(b, n, last, last, r);
}

const ot_op ot_op_Det = {
    .name = "Det",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .infer = det_infer,
    .lower = det_lower,
    .batch = det_batch,
};
