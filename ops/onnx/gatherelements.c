/* gatherelements.c - GatherElements, ScatterElements: one element per index, along an axis.
 *
 * Spec    ai.onnx GatherElements 11, 13; ScatterElements 11 to 18.
 *         Negative indices count from the end; an index out of
 *         range is an error of the file if it is constant, else of the run.
 * Grad    of Take and Scatter: repeated indices add, reductions as PyTorch's. */
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/take.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct along_attrs {
    int64_t axis, reduction;
} along_attrs;

static const ot_attr gather_rows[] = {
    { "axis", OT_INT, offsetof(along_attrs, axis), 0, NULL },
    { 0 },
};

static const ot_attr scatter_rows[] = {
    { "axis", OT_INT, offsetof(along_attrs, axis), 0, NULL },
    { "reduction", OT_ENUM, offsetof(along_attrs, reduction), OT_SCATTER_NONE, ot_scatter_reductions },
    { 0 },
};

static ot_status along_check(ot_node *n, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape, *index = &n->in[1]->shape;
    int axis;
    char a[128], c[128];
    OT_TRY(ot_node_axis(n, ((const along_attrs *)n->attrs)->axis, x->rank, &axis, err));
    bool fits = index->rank == x->rank;
    for (int d = 0; fits && d < x->rank; d++) fits = d == axis || index->dim[d] <= x->dim[d];
    if (!fits)
        return ot_node_fail(n, err, "indices %s do not fit %s along axis %d", ot_shape_text(index, a),
                            ot_shape_text(x, c), axis);
    return ot_index_check(n, 1, 0, 1, -x->dim[axis], x->dim[axis] - 1, err);
}

static ot_flat_index along(const ot_node *n)
{
    ot_flat_index a = { .kind = OT_FLAT_ALONG, .x = n->in[0]->shape };
    int axis = 0;
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
    ot_value *x = ot_as_list(b, b->node->in[0], ot_numel(&a.x));
    ot_yield(b, 0, ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(x, ot_flat_indices(b, &a))));
}

static ot_status scatter_elements_infer(ot_node *n, ot_error *err)
{
    OT_TRY(along_check(n, err));
    if (!ot_shape_eq(&n->in[1]->shape, &n->in[2]->shape))
        return ot_node_fail(n, err, "updates need the shape of the indices");
    return ot_like(n->out[0], n->in[0]);
}

static void scatter_elements_lower(ot_build *b)
{
    ot_flat_index a = along(b->node);
    int64_t m = ot_numel(&b->node->in[1]->shape);
    ot_scatter p = { ((const along_attrs *)b->node->attrs)->reduction };
    ot_value *x = ot_as_matrix(b, b->node->in[0], ot_numel(&a.x), 1), *u = ot_as_matrix(b, b->node->in[2], m, 1);
    ot_yield(b, 0,
             ot_view(b, ot_emit(b, &ot_op_Scatter, &p, OT_IN(x, ot_as_list(b, ot_flat_indices(b, &a), m), u)), &a.x));
}

static bool elements_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int axis;
    if (!ot_axis(ot_attr_get(n, "axis", 0), n->in[0]->shape.rank, &axis)) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->mark == OT_ALONE || !(r->in[i] = ot_batch_full(b, n->in[i]))) return false;
    ot_attr_set(n->op, r->attrs, "axis", axis + 1);
    return ot_batch_explicit(r, 0);
}

const ot_op ot_op_GatherElements = {
    .name = "GatherElements",
    .types = { "Tx", .T = OT_SET_COMMON },
    .slots = "G-",
    .since = 13,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = gather_rows,
    .attr_size = sizeof(along_attrs),
    .infer = gather_elements_infer,
    .lower = gather_elements_lower,
    .batch = elements_batch,
};

const ot_op ot_op_ScatterElements = {
    .name = "ScatterElements",
    .types = { "TxT", .T = OT_SET_COMMON },
    .slots = "-",
    .since = 18,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .nondiff = 1u << 1,
    .attrs = scatter_rows,
    .attr_size = sizeof(along_attrs),
    .infer = scatter_elements_infer,
    .lower = scatter_elements_lower,
    .batch = elements_batch,
};
