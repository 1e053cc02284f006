/* scatter.c - FlatIndex: converts indices to rows of a flat tensor; Scatter: writes or combines rows at these.
 *
 * Shapes  FlatIndex: index: (i..) or (i.., q)   place: (i..) int64
 *         Scatter: x: (n, r)  place: (m)  update: (m, r)   y: (n, r)
 * Grad    Scatter, none: dx = dy with zeros at the rows written, dupdate = dy there (each of several updates of one
 *         row).  add: dx = dy.  mul: times the product of the others, also if some are zero. min, max: equal parts to
 *         all elements equal to the result, as PyTorch's scatter_reduce. */
#include "ops/kernels/scatter.h"

#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/kernels/take.h"

const char *const ot_scatter_reductions[] = { "none", "add", "mul", "min", "max", NULL };

ot_value *ot_flat_indices(ot_build *b, const ot_flat_index *a)
{
    ot_value *index = b->node->in[1];
    if (index->dtype != OT_I32) index = ot_cast(b, index, OT_I64);
    return ot_emit(b, &ot_op_FlatIndex, a, OT_IN(index));
}

ot_value *ot_as_matrix(ot_build *b, ot_value *x, int64_t n, int64_t r)
{
    return ot_view(b, x, &(ot_shape){ .rank = 2, .dim = { n, r } });
}

ot_value *ot_as_list(ot_build *b, ot_value *x, int64_t n)
{
    return ot_view(b, x, &(ot_shape){ .rank = 1, .dim = { n } });
}

static ot_status flat_index_infer(ot_node *n, ot_error *err)
{
    const ot_flat_index *a = n->attrs;
    ot_shape y = n->in[0]->shape;
    char from[128], to[128];
    if (n->in[0]->dtype != OT_I32 && n->in[0]->dtype != OT_I64)
        return ot_node_fail(n, err, "indices are %s; expected int32 or int64", ot_dtype_name(n->in[0]->dtype));
    bool fits = a->kind == OT_FLAT_ALONG
                    ? y.rank == a->x.rank && a->axis >= 0 && a->axis < y.rank
                    : y.rank >= 1 && a->batch < y.rank && y.dim[y.rank - 1] + a->batch <= a->x.rank;
    for (int d = 0; fits && d < (a->kind == OT_FLAT_ALONG ? y.rank : a->batch); d++)
        if (a->kind == OT_FLAT_TUPLES) fits = y.dim[d] == a->x.dim[d];
        else fits = d == a->axis || y.dim[d] <= a->x.dim[d];
    if (!fits)
        return ot_node_fail(n, err, "indices of shape %s do not match a tensor of shape %s", ot_shape_text(&y, from),
                            ot_shape_text(&a->x, to));
    if (a->kind == OT_FLAT_TUPLES) y.rank--;
    return ot_set(n->out[0], OT_I64, &y);
}

const ot_op ot_op_FlatIndex = {
    .name = "FlatIndex",
    .types = { "x" },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .nondiff = 1,
    .attr_size = sizeof(ot_flat_index),
    .infer = flat_index_infer,
    .grad_zero = "the output contains indices",
};

/* ---- Scatter ------------------------------------------------------------------- */

static ot_status scatter_infer(ot_node *n, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape, *p = &n->in[1]->shape, *u = &n->in[2]->shape;
    if (x->rank != 2 || p->rank != 1 || u->rank != 2 || u->dim[0] != p->dim[0] || u->dim[1] != x->dim[1] ||
        n->in[1]->dtype != OT_I64 || n->in[2]->dtype != n->in[0]->dtype)
        return ot_node_fail(n, err, "the updates do not match the indexed rows");
    return ot_like(n->out[0], n->in[0]);
}

/* Helpers of the gradient; v: the node's values. */
static ot_value *rows_at(ot_build *b, ot_value *x, ot_value *place)
{
    return ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(x, place));
}

static ot_value *put(ot_build *b, int64_t op, ot_value *x, ot_value *place, ot_value *u)
{
    return ot_emit(b, &ot_op_Scatter, &(ot_scatter){ op }, OT_IN(x, place, u));
}

static ot_value *constant_like(ot_build *b, const ot_value *x, double v)
{
    return ot_expand(b, ot_scalar(b, x->dtype, v), &x->shape);
}

static ot_value *truth(ot_build *b, ot_value *x, ot_value *y)
{
    if (ot_broken(b)) return NULL;
    return ot_cast(b, ot_map2(b, OT_FN_Equal, 0, 0, x, y), x->dtype);
}

static ot_value *times(ot_build *b, ot_value *x, ot_value *y) { return ot_map2(b, OT_FN_Mul, 0, 0, x, y); }
static ot_value *plus(ot_build *b, ot_value *x, ot_value *y) { return ot_map2(b, OT_FN_Add, 0, 0, x, y); }
static ot_value *over(ot_build *b, ot_value *x, ot_value *y) { return ot_map2(b, OT_FN_Div, 0, 0, x, y); }

/* As in Reduce: zeros are replaced by ones, and quotients that contain another element's zero are masked. */
static void mul_grad(ot_build *b, ot_value *x, ot_value *place, ot_value *u, ot_value *dy)
{
    ot_value *zx = truth(b, x, ot_scalar(b, x->dtype, 0)), *zu = truth(b, u, ot_scalar(b, u->dtype, 0));
    ot_value *count = put(b, OT_SCATTER_ADD, zx, place, zu);
    ot_value *x1 = plus(b, x, zx), *u1 = plus(b, u, zu);
    ot_value *g = times(b, dy, put(b, OT_SCATTER_MUL, x1, place, u1));
    if (ot_wants(b, 0)) ot_set_din(b, 0, times(b, over(b, g, x1), truth(b, count, zx)));
    if (ot_wants(b, 2))
        ot_set_din(b, 2, times(b, over(b, rows_at(b, g, place), u1), truth(b, rows_at(b, count, place), zu)));
}

static void best_grad(ot_build *b, ot_value *x, ot_value *place, ot_value *u, ot_value *dy)
{
    ot_value *y = b->node->out[0];
    ot_value *hx = truth(b, x, y), *hu = truth(b, u, rows_at(b, y, place));
    ot_value *share = over(b, dy, put(b, OT_SCATTER_ADD, hx, place, hu));
    /* A row with no element equal to the result (NaN) divides by zero; its factor is zero as well. */
    if (ot_wants(b, 0)) ot_set_din(b, 0, times(b, share, hx));
    if (ot_wants(b, 2)) ot_set_din(b, 2, times(b, rows_at(b, share, place), hu));
}

static void scatter_grad(ot_build *b)
{
    const ot_scatter *a = b->node->attrs;
    ot_value *x = b->node->in[0], *place = b->node->in[1], *u = b->node->in[2], *dy = ot_dout(b, 0);
    if (a->op == OT_SCATTER_MUL) {
        mul_grad(b, x, place, u, dy);
        return;
    }
    if (a->op == OT_SCATTER_MIN || a->op == OT_SCATTER_MAX) {
        best_grad(b, x, place, u, dy);
        return;
    }
    if (ot_wants(b, 0))
        ot_set_din(b, 0, a->op == OT_SCATTER_ADD ? dy : put(b, OT_SCATTER_NONE, dy, place, constant_like(b, u, 0)));
    if (ot_wants(b, 2)) ot_set_din(b, 2, rows_at(b, dy, place));
}

/* The rows at the places are read and written; the others are copied, if y is not x. */
static double bytes(const ot_node *n)
{
    bool in_place = n->out[0] && n->in[0]->base && n->out[0]->base == n->in[0]->base;
    return ot_value_bytes(n->in[1]) + 3 * ot_value_bytes(n->in[2]) + (in_place ? 0 : 2 * ot_value_bytes(n->in[0]));
}

const ot_op ot_op_Scatter = {
    .name = "Scatter",
    .types = { "TiT", .T = OT_SET_ALL },
    .in = { 3, 3 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .nondiff = 1u << 1,
    .attr_size = sizeof(ot_scatter),
    .bytes = bytes,
    .infer = scatter_infer,
    .grad = scatter_grad,
};
