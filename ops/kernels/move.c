/* move.c - functions that operators for moving, indexing and reducing share. */
#include "ops/kernels/move.h"

#include "ops/kernels/scatter.h"
#include "ops/kernels/reduce.h"

ot_status ot_axes_input(const ot_node *n, int i, int rank, int64_t *set, ot_ints *list, ot_error *err)
{
    ot_ints axes;
    int a;
    *set = 0;
    OT_TRY(ot_const_ints(n, i, &axes, err));
    for (int k = 0; k < axes.n; k++) {
        OT_TRY(ot_node_axis(n, axes.v[k], rank, &a, err));
        if (*set >> a & 1) return ot_node_fail(n, err, "axis %d is given twice", a);
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
        if (dims.v[d] < 0) return ot_node_fail(n, err, "invalid size %lld on axis %d", (long long)dims.v[d], d);
        out->dim[d] = dims.v[d];
    }
    return OT_OK;
}

ot_status ot_index_check(const ot_node *n, int i, int64_t first, int64_t step, int64_t lo, int64_t hi, ot_error *err)
{
    const ot_value *v = n->in[i];
    if (!ot_is_const(v)) return OT_OK;
    for (int64_t k = first, total = ot_numel(&v->shape); k < total; k += step) {
        int64_t x = ot_get_i64(v->data, v->dtype, k);
        if (x < lo || x > hi)
            return ot_node_fail(n, err, "input %d ('%s') has value %lld at position %lld; expected %lld to %lld", i,
                                v->name, (long long)x, (long long)k, (long long)lo, (long long)hi);
    }
    return OT_OK;
}

ot_value *ot_counts(ot_build *b, ot_value *v, int64_t most)
{
    if (ot_broken(b)) return NULL;
    if (v->dtype != OT_I32) v = ot_cast(b, v, OT_I64);
    if (ot_is_const(v)) return v;
    ot_flat_index a = { .kind = OT_FLAT_TUPLES, .no_negative = 1, .x = { .rank = 1, .dim = { most + 1 } } };
    int64_t n = v->shape.dim[0];
    return ot_emit(b, &ot_op_FlatIndex, &a, OT_IN(ot_view(b, v, &(ot_shape){ .rank = 2, .dim = { n, 1 } })));
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

void *ot_const_alloc(ot_build *b, const ot_shape *s, ot_dtype t)
{
    if (ot_broken(b)) return NULL;
    return ot_graph_alloc(b->graph, ot_bytes(s, t) + 1);
}

ot_along ot_along_axis(const ot_shape *x, int64_t axis)
{
    ot_along r = { 1, x->dim[axis], 1 };
    for (int d = 0; d < axis; d++) r.outer *= x->dim[d];
    for (int d = (int)axis + 1; d < x->rank; d++) r.inner *= x->dim[d];
    return r;
}
