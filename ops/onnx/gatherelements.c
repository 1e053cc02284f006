/* gatherelements.c - GatherElements, GatherND, ScatterElements, ScatterND: one element or slice per
 * index.
 *
 * Spec    ai.onnx GatherElements 11, 13; GatherND 11 to 13; ScatterElements 11 to 18; ScatterND 11 to 18.
 *         Negative indices count from the end; an index outside is a fault of the file where it is constant, else of the run.
 * Grad    of Take and Scatter: repeated indices add, reductions as PyTorch's. */
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"

#include <stddef.h>

#include "ops/kernels/take.h"

typedef struct along_attrs { int64_t axis, reduction; } along_attrs;

static const char *const reductions[] = { "none", "add", "mul", "min", "max", NULL };

static const ot_attr gather_rows[] = {
    { "axis", OT_INT, offsetof(along_attrs, axis), 0, NULL },
    { 0 }
};

static const ot_attr scatter_rows[] = {
    { "axis",      OT_INT,  offsetof(along_attrs, axis),      0,           NULL },
    { "reduction", OT_ENUM, offsetof(along_attrs, reduction), OT_SCATTER_NONE, reductions },
    { 0 }
};

static ot_value *places(ot_build *b, const ot_flat_index *a)
{
    ot_value *index = b->node->in[1];
    if (index->dtype != OT_I32) index = ot_cast(b, index, OT_I64);
    return ot_emit(b, &ot_op_FlatIndex, a, OT_IN(index));
}

static ot_value *as_rows(ot_build *b, ot_value *x, int64_t n, int64_t r)
{
    return ot_view(b, x, &(ot_shape){ .rank = 2, .dim = { n, r } });
}

static ot_value *as_list(ot_build *b, ot_value *x, int64_t n)
{
    return ot_view(b, x, &(ot_shape){ .rank = 1, .dim = { n } });
}

/* ---- along an axis --------------------------------------------------------- */

static ot_status along_check(ot_node *n, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape, *index = &n->in[1]->shape;
    int             axis;
    char            a[128], c[128];
    if (!ot_axis(((const along_attrs *)n->attrs)->axis, x->rank, &axis))
        return ot_node_fail(n, err, "axis %lld of a tensor of rank %d", (long long)((const along_attrs *)n->attrs)->axis, x->rank);
    bool fits = index->rank == x->rank;
    for (int d = 0; fits && d < x->rank; d++) fits = d == axis || index->dim[d] <= x->dim[d];
    if (!fits)
        return ot_node_fail(n, err, "indices %s do not fit %s along axis %d", ot_shape_text(index, a), ot_shape_text(x, c), axis);
    return ot_index_check(n, 1, 0, 1, -x->dim[axis], x->dim[axis] - 1, err);
}

static ot_flat_index along(const ot_node *n)
{
    ot_flat_index a = { .kind = OT_FLAT_ALONG, .x = n->in[0]->shape };
    int       axis = 0;
    ot_axis(((const along_attrs *)n->attrs)->axis, a.x.rank, &axis);
    a.axis = axis;
    return a;
}

static ot_status gather_elements_infer(ot_node *n, ot_error *err)
{
    OT_TRY(along_check(n, err));
    return ot_set(n->out[0], n->in[0]->dtype, &n->in[1]->shape);
}

static void gather_elements_lower(ot_build *b)
{
    ot_flat_index a = along(b->node);
    ot_value *x = as_list(b, b->node->in[0], ot_numel(&a.x));
    ot_yield(b, 0, ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(x, places(b, &a))));
}

static ot_status scatter_elements_infer(ot_node *n, ot_error *err)
{
    OT_TRY(along_check(n, err));
    if (!ot_shape_eq(&n->in[1]->shape, &n->in[2]->shape)) return ot_node_fail(n, err, "updates need the shape of the indices");
    return ot_like(n->out[0], n->in[0]);
}

static void scatter_elements_lower(ot_build *b)
{
    ot_flat_index a = along(b->node);
    int64_t   m = ot_numel(&b->node->in[1]->shape);
    ot_scatter    p = { ((const along_attrs *)b->node->attrs)->reduction };
    ot_value *x = as_rows(b, b->node->in[0], ot_numel(&a.x), 1), *u = as_rows(b, b->node->in[2], m, 1);
    ot_yield(b, 0, ot_view(b, ot_emit(b, &ot_op_Scatter, &p, OT_IN(x, as_list(b, places(b, &a), m), u)), &a.x));
}

const ot_op ot_op_GatherElements = {
    .name = "GatherElements", .types = { "Tx", .T = OT_SET_COMMON }, .since = 13, .in = { 2, 2 }, .out = { 1, 1 }, .nondiff = 1u << 1,
    .attrs = gather_rows, .attr_size = sizeof(along_attrs),
    .infer = gather_elements_infer, .lower = gather_elements_lower,
};

const ot_op ot_op_ScatterElements = {
    .name = "ScatterElements", .types = { "TxT", .T = OT_SET_COMMON },
    .since = 18, .in = { 3, 3 }, .out = { 1, 1 }, .nondiff = 1u << 1,
    .attrs = scatter_rows, .attr_size = sizeof(along_attrs),
    .infer = scatter_elements_infer, .lower = scatter_elements_lower,
};

/* ---- by tuples ------------------------------------------------------------- */

typedef struct tuple_attrs { int64_t batch_dims, reduction; } tuple_attrs;

static const ot_attr gather_nd_rows[] = {
    { "batch_dims", OT_INT, offsetof(tuple_attrs, batch_dims), 0, NULL },
    { 0 }
};

static const ot_attr scatter_nd_rows[] = {
    { "reduction", OT_ENUM, offsetof(tuple_attrs, reduction), OT_SCATTER_NONE, reductions },
    { 0 }
};

/* The shape of what the indices pick. */
static ot_status picked(ot_node *n, ot_shape *y, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape, *index = &n->in[1]->shape;
    int64_t         batch = ((const tuple_attrs *)n->attrs)->batch_dims;
    char            a[128], c[128];
    int64_t q = index->rank > 0 ? index->dim[index->rank - 1] : 0;
    bool    fits = index->rank > 0 && batch >= 0 && batch < index->rank && batch < x->rank && q <= x->rank - batch;
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

/* Rows of x as the tuples count them, their length, and the number of tuples. */
static ot_flat_index tuples(const ot_node *n, int64_t *rows, int64_t *inner, int64_t *m)
{
    const ot_shape *index = &n->in[1]->shape;
    ot_flat_index       a = { .kind = OT_FLAT_TUPLES, .x = n->in[0]->shape };
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
    int64_t   rows, inner, m;
    ot_flat_index a = tuples(b->node, &rows, &inner, &m);
    ot_value *x = as_rows(b, b->node->in[0], rows, inner);
    ot_value *y = ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(x, as_list(b, places(b, &a), m)));
    ot_yield(b, 0, ot_view(b, y, &b->node->out[0]->shape));
}

static ot_status scatter_nd_infer(ot_node *n, ot_error *err)
{
    ot_shape y;
    char     a[128], c[128];
    OT_TRY(picked(n, &y, err));
    if (!ot_shape_eq(&y, &n->in[2]->shape))
        return ot_node_fail(n, err, "updates are %s; %s is needed", ot_shape_text(&n->in[2]->shape, a),
                            ot_shape_text(&y, c));
    return ot_like(n->out[0], n->in[0]);
}

static void scatter_nd_lower(ot_build *b)
{
    int64_t   rows, inner, m;
    ot_flat_index a = tuples(b->node, &rows, &inner, &m);
    ot_scatter    p = { ((const tuple_attrs *)b->node->attrs)->reduction };
    ot_value *x = as_rows(b, b->node->in[0], rows, inner), *u = as_rows(b, b->node->in[2], m, inner);
    ot_yield(b, 0, ot_view(b, ot_emit(b, &ot_op_Scatter, &p, OT_IN(x, as_list(b, places(b, &a), m), u)), &a.x));
}

const ot_op ot_op_GatherND = {
    .name = "GatherND", .types = { "Ti", .T = OT_SET_COMMON }, .since = 13, .in = { 2, 2 }, .out = { 1, 1 }, .nondiff = 1u << 1,
    .attrs = gather_nd_rows, .attr_size = sizeof(tuple_attrs),
    .infer = gather_nd_infer, .lower = gather_nd_lower,
};

const ot_op ot_op_ScatterND = {
    .name = "ScatterND", .types = { "TiT", .T = OT_SET_COMMON }, .since = 18, .in = { 3, 3 }, .out = { 1, 1 }, .nondiff = 1u << 1,
    .attrs = scatter_nd_rows, .attr_size = sizeof(tuple_attrs),
    .infer = scatter_nd_infer, .lower = scatter_nd_lower,
};
