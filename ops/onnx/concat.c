/* concat.c - Concat: tensors one after the other along an axis; Split: the way back.
 *
 * Spec    ai.onnx Concat 4, 11, 13; Split 13, 18.  Split's sizes come from its input, else from
 *         num_outputs (the last part is the smaller one), else the parts are equal. */
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"

#include <stddef.h>

typedef struct concat_attrs { int64_t axis; } concat_attrs;

static const ot_attr concat_rows[] = {
    { "axis", OT_INT, offsetof(concat_attrs, axis), OT_REQUIRED, NULL },
    { 0 }
};

static ot_status concat_infer(ot_node *n, ot_error *err)
{
    ot_shape y = n->in[0]->shape;
    int      axis;
    if (!ot_axis(((const concat_attrs *)n->attrs)->axis, y.rank, &axis))
        return ot_node_fail(n, err, "axis %lld of tensors of rank %d",
                            (long long)((const concat_attrs *)n->attrs)->axis, y.rank);
    for (int i = 1; i < n->n_in; i++) {
        const ot_value *x = n->in[i];
        if (!x) return ot_node_fail(n, err, "input %d is left out", i);
        bool fits = x->shape.rank == y.rank && x->dtype == n->in[0]->dtype;
        for (int d = 0; fits && d < y.rank; d++) fits = d == axis || x->shape.dim[d] == y.dim[d];
        if (!fits) {
            char a[128], c[128];
            return ot_node_fail(n, err, "input %d is %s %s and input 0 %s %s; only axis %d may differ", i,
                                ot_dtype_name(x->dtype), ot_shape_text(&x->shape, a), ot_dtype_name(n->in[0]->dtype),
                                ot_shape_text(&n->in[0]->shape, c), axis);
        }
        if (!ot_add(y.dim[axis], x->shape.dim[axis], &y.dim[axis]))
            return ot_node_fail(n, err, "the result is too large");
    }
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void concat_lower(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_shape *y = &n->out[0]->shape;
    int             axis;
    int64_t         at = 0;
    ot_piece       *p = ot_pieces(b, n->n_in);
    ot_axis(((const concat_attrs *)n->attrs)->axis, y->rank, &axis);
    for (int i = 0; p && i < n->n_in; i++) {
        static const int64_t one[OT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 }, zero[OT_MAX_RANK];
        const ot_shape      *x = &n->in[i]->shape;
        ot_piece_box(&p[i], x, zero, one, x->dim);
        p[i].in = i;
        p[i].dst[axis] = at;
        at += x->dim[axis];
    }
    ot_yield(b, 0, ot_copy_emit(b, y, 0, p, n->n_in, n->in, n->n_in));
}

const ot_op ot_op_Concat = {
    .name = "Concat", .types = { "T", .T = OT_SET_COMMON }, .since = 13, .in = { 1, OT_GROUPED }, .out = { 1, 1 },
    .attrs = concat_rows, .attr_size = sizeof(concat_attrs),
    .infer = concat_infer, .lower = concat_lower,
};

/* ---- Split ----------------------------------------------------------------- */

typedef struct split_attrs { int64_t axis, num_outputs; } split_attrs;

#define LEFT_OUT (-0x1p62)

static const ot_attr split_rows[] = {
    { "axis",        OT_INT, offsetof(split_attrs, axis),        0, NULL },
    { "num_outputs", OT_INT, offsetof(split_attrs, num_outputs), LEFT_OUT, NULL },
    { 0 }
};

static ot_status split_infer(ot_node *n, ot_error *err)
{
    const split_attrs *a = n->attrs;
    ot_shape           y = n->in[0]->shape;
    ot_ints            sizes;
    int                axis;
    int64_t            at = 0;
    if (!ot_axis(a->axis, y.rank, &axis))
        return ot_node_fail(n, err, "axis %lld of a tensor of rank %d", (long long)a->axis, y.rank);
    int64_t total = y.dim[axis], parts = n->n_out;
    bool    given = n->n_in > 1 && n->in[1];
    OT_TRY(ot_const_ints(n, 1, &sizes, err));
    if (given && sizes.n != parts)
        return ot_node_fail(n, err, "%d sizes for %lld outputs", sizes.n, (long long)parts);
    bool equal = a->num_outputs == (int64_t)LEFT_OUT;
    if (!given && !equal && a->num_outputs != parts)
        return ot_node_fail(n, err, "num_outputs is %lld; there are %lld outputs", (long long)a->num_outputs,
                            (long long)parts);
    if (!given && equal && total % parts)
        return ot_node_fail(n, err, "%lld elements of axis %d in %lld equal parts", (long long)total, axis,
                            (long long)parts);
    int64_t each = total / parts + (total % parts != 0);
    for (int i = 0; i < parts; i++) {
        int64_t size = given ? sizes.v[i] : total - at < each ? total - at : each;
        if (size < 0 || size > total - at)
            return ot_node_fail(n, err, "part %d has %lld elements; %lld of axis %d are left", i, (long long)size,
                                (long long)(total - at), axis);
        at += size;
        y.dim[axis] = size;
        if (n->out[i]) ot_set(n->out[i], n->in[0]->dtype, &y);
    }
    if (at != total)
        return ot_node_fail(n, err, "the parts have %lld elements; axis %d has %lld", (long long)at, axis,
                            (long long)total);
    return OT_OK;
}

static void split_lower(ot_build *b)
{
    static const int64_t one[OT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    const ot_node *n = b->node;
    int64_t        start[OT_MAX_RANK] = { 0 }, each = 0;
    ot_ints        sizes = { 0, NULL };
    int            axis;
    ot_axis(((const split_attrs *)n->attrs)->axis, n->in[0]->shape.rank, &axis);
    if (ot_const_ints(n, 1, &sizes, b->graph->err) != OT_OK) return;
    int64_t total = n->in[0]->shape.dim[axis];
    each = total / n->n_out + (total % n->n_out != 0);
    for (int i = 0; i < n->n_out; i++) {
        int64_t left = total - start[axis], size = sizes.n ? sizes.v[i] : left < each ? left : each;
        if (n->out[i]) {
            ot_piece *p = ot_pieces(b, 1);
            if (!p) return;
            ot_piece_box(p, &n->in[0]->shape, start, one, n->out[i]->shape.dim);
            ot_yield(b, i, ot_copy_emit(b, &n->out[i]->shape, 0, p, 1, n->in, 1));
        }
        start[axis] += size;
    }
}

const ot_op ot_op_Split = {
    .name = "Split", .types = { "Ti", .T = OT_SET_COMMON }, .since = 18, .in = { 1, 2 }, .out = { 1, OT_GROUPED }, .nondiff = 1u << 1,
    .attrs = split_rows, .attr_size = sizeof(split_attrs),
    .infer = split_infer, .lower = split_lower,
};
