/* move.c - what the operators that move, index and reduce share. */
#include "ops/move.h"

#include "ops/reduce.h"

ot_status ot_axes_input(const ot_node *n, int i, int rank, int64_t *set, ot_ints *list, ot_error *err)
{
    ot_ints axes;
    int     a;
    *set = 0;
    OT_TRY(ot_const_ints(n, i, &axes, err));
    for (int k = 0; k < axes.n; k++) {
        if (!ot_axis(axes.v[k], rank, &a))
            return ot_node_fail(n, err, "axis %lld; a tensor of rank %d has axes %d to %d", (long long)axes.v[k],
                                rank, -rank, rank - 1);
        if (*set >> a & 1) return ot_node_fail(n, err, "axis %d is named twice", a);
        *set |= (int64_t)1 << a;
    }
    if (list) *list = axes;
    return OT_OK;
}

ot_status ot_shape_input(const ot_node *n, int i, ot_shape *out, ot_error *err)
{
    ot_ints dims;
    OT_TRY(ot_const_ints(n, i, &dims, err));
    if (dims.n > OT_MAX_RANK)
        return ot_node_fail(n, err, "a shape of %d axes; at most %d are supported", dims.n, OT_MAX_RANK);
    *out = (ot_shape){ .rank = dims.n };
    for (int d = 0; d < dims.n; d++) {
        if (dims.v[d] < 0) return ot_node_fail(n, err, "size %lld on axis %d", (long long)dims.v[d], d);
        out->dim[d] = dims.v[d];
    }
    return OT_OK;
}

ot_value *ot_scalar_bytes(ot_build *b, ot_dtype t, const void *bytes)
{
    return ot_broken(b) ? NULL : ot_graph_const(b->graph, "", t, &OT_SCALAR, bytes);
}

ot_value *ot_reduce_axes(ot_build *b, ot_value *x, int64_t kind, int64_t axes, bool keepdims)
{
    if (ot_broken(b)) return NULL;
    if (!axes) return x;
    ot_reduce a = { .kind = kind, .axes = axes, .keepdims = keepdims };
    return ot_emit(b, &ot_op_Reduce, &a, OT_IN(x));
}
