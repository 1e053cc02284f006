/* gathernd.c - GatherND, ScatterND: one slice per tuple of indices.
 *
 * Spec    ai.onnx GatherND 11 to 13; ScatterND 11 to 18.
 *         Negative indices count from the end; an index out of range is
 *         an error of the file if it is constant, else of the run.
 * Grad    of Take and Scatter: repeated indices add, reductions as PyTorch's. */
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/take.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct tuple_attrs {
    int64_t batch_dims, reduction;
} tuple_attrs;

static const ot_attr gather_nd_rows[] = {
    { "batch_dims", OT_INT, offsetof(tuple_attrs, batch_dims), 0, NULL },
    { 0 },
};

static const ot_attr scatter_nd_rows[] = {
    { "reduction", OT_ENUM, offsetof(tuple_attrs, reduction), OT_SCATTER_NONE, ot_scatter_reductions },
    { 0 },
};

/* The shape of the selected slices. */
static ot_status picked(ot_node *n, ot_shape *y, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape, *index = &n->in[1]->shape;
    int64_t batch = ((const tuple_attrs *)n->attrs)->batch_dims;
    char a[128], c[128];
    int64_t q = index->rank > 0 ? index->dim[index->rank - 1] : 0;
    bool fits = index->rank > 0 && batch >= 0 && batch < index->rank && batch < x->rank && q <= x->rank - batch;
    for (int d = 0; fits && d < batch; d++) fits = index->dim[d] == x->dim[d];
    if (!fits)
        return ot_node_fail(n, err, "indices %s do not fit %s with %lld batch axes", ot_shape_text(index, a),
                            ot_shape_text(x, c), (long long)batch);
    if (index->rank - 1 + x->rank - batch - q > OT_MAX_RANK)
        return ot_node_fail(n, err, "the result would have more than %d axes", OT_MAX_RANK);
    *y = *index;
    y->rank--;
    for (int d = (int)(batch + q); d < x->rank; d++) y->dim[y->rank++] = x->dim[d];
    for (int64_t j = 0; j < q; j++) OT_TRY(ot_index_check(n, 1, j, q, -x->dim[batch + j], x->dim[batch + j] - 1, err));
    return OT_OK;
}

/* The number of rows of x that tuples can address, their length, and the number of tuples. */
static ot_flat_index tuples(const ot_node *n, int64_t *rows, int64_t *inner, int64_t *m)
{
    const ot_shape *index = &n->in[1]->shape;
    ot_flat_index a = { .kind = OT_FLAT_TUPLES, .x = n->in[0]->shape };
    a.batch = ((const tuple_attrs *)n->attrs)->batch_dims;
    int64_t lead = a.batch + index->dim[index->rank - 1];
    *rows = *inner = *m = 1;
    for (int d = 0; d < a.x.rank; d++) *(d < lead ? rows : inner) *= a.x.dim[d];
    for (int d = 0; d < index->rank - 1; d++) *m *= index->dim[d];
    return a;
}

static ot_status gather_nd_infer(ot_node *n, ot_error *err)
{
    ot_shape y;
    OT_TRY(picked(n, &y, err));
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void gather_nd_lower(ot_build *b)
{
    int64_t rows, inner, m;
    ot_flat_index a = tuples(b->node, &rows, &inner, &m);
    ot_value *x = ot_as_matrix(b, b->node->in[0], rows, inner);
    ot_value *y = ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(x, ot_as_list(b, ot_flat_indices(b, &a), m)));
    ot_yield(b, 0, ot_view(b, y, &b->node->out[0]->shape));
}

static ot_status scatter_nd_infer(ot_node *n, ot_error *err)
{
    ot_shape y;
    char a[128], c[128];
    OT_TRY(picked(n, &y, err));
    if (!ot_shape_eq(&y, &n->in[2]->shape))
        return ot_node_fail(n, err, "updates are %s; expected %s", ot_shape_text(&n->in[2]->shape, a),
                            ot_shape_text(&y, c));
    return ot_like(n->out[0], n->in[0]);
}

static void scatter_nd_lower(ot_build *b)
{
    int64_t rows, inner, m;
    ot_flat_index a = tuples(b->node, &rows, &inner, &m);
    ot_scatter p = { ((const tuple_attrs *)b->node->attrs)->reduction };
    ot_value *x = ot_as_matrix(b, b->node->in[0], rows, inner), *u = ot_as_matrix(b, b->node->in[2], m, inner);
    ot_yield(b, 0,
             ot_view(b, ot_emit(b, &ot_op_Scatter, &p, OT_IN(x, ot_as_list(b, ot_flat_indices(b, &a), m), u)), &a.x));
}

static bool gather_nd_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int64_t dims = ot_attr_get(n, "batch_dims", 0);
    int last = n->in[1]->shape.rank - 1;
    if (n->in[0]->mark == OT_ALONE || n->in[1]->mark == OT_ALONE) return false;
    if (!ot_batch_has(n, 0) && !dims && ot_batch_axis(n->in[1]) < last)
        return ot_batch_on(r, n, ot_batch_axis(n->in[1]));
    for (int i = 0; i < 2; i++)
        if (!(r->in[i] = ot_batch_full(b, n->in[i]))) return false;
    ot_attr_set(n->op, r->attrs, "batch_dims", dims + 1);
    return ot_batch_explicit(r, 0);
}

const ot_op ot_op_GatherND = {
    .name = "GatherND",
    .types = { "Ti", .T = OT_SET_COMMON },
    .slots = "G-",
    .since = 13,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = gather_nd_rows,
    .attr_size = sizeof(tuple_attrs),
    .infer = gather_nd_infer,
    .lower = gather_nd_lower,
    .batch = gather_nd_batch,
};

/* ScatterND has no batch axes: the index of the micro-batch becomes the first index. */
static bool scatter_nd_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    for (int i = 0; i < 3; i++)
        if (n->in[i]->mark == OT_ALONE || !(r->in[i] = ot_batch_full(b, n->in[i]))) return false;
    ot_shape all = r->in[1]->shape, first = { .rank = all.rank };
    int64_t *number = ot_graph_alloc(b->g, (size_t)b->count * sizeof *number);
    if (!number || all.rank < 2) return false;
    for (int64_t k = 0; k < b->count; k++) number[k] = k;
    for (int d = 0; d < first.rank; d++) first.dim[d] = d ? 1 : b->count;
    all.dim[all.rank - 1] = 1;
    ot_value *numbers = ot_batch_expand(b, ot_graph_const_of(b->g, "", OT_I64, &first, number), &all);
    ot_node *c = numbers ? ot_graph_node(b->g, &ot_op_Concat, "", NULL, OT_IN(numbers, r->in[1]), 1) : NULL;
    if (!c) return false;
    ot_set_attr(c, "axis", all.rank - 1);
    if (ot_node_infer(c, b->g->err) != OT_OK) return false;
    r->in[1] = c->out[0];
    return ot_batch_explicit(r, 0);
}

const ot_op ot_op_ScatterND = {
    .name = "ScatterND",
    .types = { "TiT", .T = OT_SET_COMMON },
    .slots = "-",
    .since = 18,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .nondiff = 1u << 1,
    .attrs = scatter_nd_rows,
    .attr_size = sizeof(tuple_attrs),
    .infer = scatter_nd_infer,
    .lower = scatter_nd_lower,
    .batch = scatter_nd_batch,
};
