/* take.c - Take: gathers rows by index; TakeDx: adds rows to the positions that they were gathered from.
 *
 * Shapes  Take: x: (o.., n, r..)  index: (i..)  y: (o.., i.., r..)
 *         TakeDx: dy: (o.., i.., r..)  index: (i..)  dx: attrs.shape
 * Grad    each other; a row gathered twice gets both gradients. */
#include "ops/kernels/take.h"

static ot_status check_index(ot_node *n, ot_error *err)
{
    ot_dtype t = n->in[1]->dtype;
    if (t == OT_I32 || t == OT_I64) return OT_OK;
    return ot_node_fail(n, err, "indices are %s; expected int32 or int64", ot_dtype_name(t));
}

/* The shape of the result of Take on x. */
static bool taken(const ot_shape *x, const ot_shape *index, int64_t axis, ot_shape *y)
{
    if (axis < 0 || axis >= x->rank || x->rank - 1 + index->rank > OT_MAX_RANK) return false;
    *y = (ot_shape){ .rank = 0 };
    for (int d = 0; d < axis; d++) y->dim[y->rank++] = x->dim[d];
    for (int d = 0; d < index->rank; d++) y->dim[y->rank++] = index->dim[d];
    for (int d = (int)axis + 1; d < x->rank; d++) y->dim[y->rank++] = x->dim[d];
    return true;
}

static ot_status take_infer(ot_node *n, ot_error *err)
{
    const ot_take *a = n->attrs;
    const ot_value *x = n->in[0];
    ot_shape y;
    OT_TRY(check_index(n, err));
    if (!taken(&x->shape, &n->in[1]->shape, a->axis, &y))
        return ot_node_fail(n, err,
                            "axis %lld of rank %d with indices of rank %d: the result would have more than %d axes",
                            (long long)a->axis, x->shape.rank, n->in[1]->shape.rank, OT_MAX_RANK);
    if (ot_dtype_bits(x->dtype) < 8)
        return ot_node_fail(n, err, "elements of type %s cannot be moved", ot_dtype_name(x->dtype));
    if (!ot_shape_fits(&y, x->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], x->dtype, &y);
}

static void take_grad(ot_build *b)
{
    const ot_take *a = b->node->attrs;
    ot_take_dx t = { .axis = a->axis, .shape = b->node->in[0]->shape };
    ot_set_din(b, 0, ot_emit(b, &ot_op_TakeDx, &t, OT_IN(ot_dout(b, 0), b->node->in[1])));
}

static ot_status take_add_infer(ot_node *n, ot_error *err)
{
    const ot_take_dx *a = n->attrs;
    const ot_value *dy = n->in[0];
    ot_shape y;
    OT_TRY(check_index(n, err));
    if (!taken(&a->shape, &n->in[1]->shape, a->axis, &y) || !ot_shape_eq(&y, &dy->shape)) {
        char from[128], to[128];
        return ot_node_fail(n, err, "%s does not match rows of %s", ot_shape_text(&dy->shape, from),
                            ot_shape_text(&a->shape, to));
    }
    if (!ot_dtype_bits(dy->dtype) || !ot_shape_fits(&a->shape, dy->dtype))
        return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], dy->dtype, &a->shape);
}

static void take_add_grad(ot_build *b)
{
    const ot_take_dx *a = b->node->attrs;
    ot_set_din(b, 0, ot_emit(b, &ot_op_Take, &(ot_take){ a->axis }, OT_IN(ot_dout(b, 0), b->node->in[1])));
}

/* The rows that are taken are read. */
static double bytes(const ot_node *n) { return ot_value_bytes(n->in[1]) + 2 * ot_value_bytes(n->out[0]); }

static ot_status fault(const ot_node *n, int64_t value, ot_error *err)
{
    long long dim = n->in[0]->shape.dim[((const ot_take *)n->attrs)->axis];
    return ot_fail(err, OT_E_DATA, "%s: index %lld is out of range; expected %lld to %lld", n->name, (long long)value,
                   -dim, dim - 1);
}

const ot_op ot_op_Take = {
    .name = "Take",
    .types = { "Tx", .T = OT_SET_BYTE },
    .in = { 2, 2 },
    .out = { 1, 1 },
    .flops_each = OT_NO_FLOPS,
    .bytes = bytes,
    .flags = OT_INTERNAL,
    .nondiff = 1u << 1,
    .attr_size = sizeof(ot_take),
    .infer = take_infer,
    .grad = take_grad,
    .half = OT_HALF_TAKE,
    .fault = fault,
};

const ot_op ot_op_TakeDx = {
    .name = "TakeDx",
    .types = { "Tx", .T = OT_SET_BYTE },
    .in = { 2, 2 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .nondiff = 1u << 1,
    .attr_size = sizeof(ot_take_dx),
    .infer = take_add_infer,
    .grad = take_add_grad,
};
