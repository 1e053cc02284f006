/* deformconv.c - DeformConv: a convolution whose taps are displaced by offsets.
 *
 * Spec    ai.onnx DeformConv 19, 22: 1 to 3 spatial axes.
 * Shapes  x: (N, C, i1..id)  w: (M, C/group, k1..kd)  offset: (N, offset_group * K * d, o1..od), K the product of k..
 *         b: (M)  mask: (N, offset_group * K, o1..od)   y: (N, M, o1..od)
 * Grad    of samples, a product and a sum.  Points outside of x are zero; offsets there have the slope towards the
 *         edge. */
#include "ops/kernels/arith.h"
#include "ops/kernels/move.h"
#include "ops/kernels/sample.h"
#include "ops/kernels/window.h"
#include "ops/onnx/batching.h"

typedef struct deform_attrs {
    ot_window_attrs window;
    int64_t group, offset_group;
} deform_attrs;

#define AT(field) offsetof(deform_attrs, field)
static const ot_attr attrs[] = {
    { "dilations", OT_INTS, AT(window.dilations), 0, NULL },
    { "group", OT_INT, AT(group), 1, NULL },
    { "kernel_shape", OT_INTS, AT(window.kernel), 0, NULL },
    { "offset_group", OT_INT, AT(offset_group), 1, NULL },
    { "pads", OT_INTS, AT(window.pads), 0, NULL },
    { "strides", OT_INTS, AT(window.strides), 0, NULL },
    { 0 },
};
#undef AT

/* Is input i (N, channels, o..)? */
static bool per_point(const ot_node *n, int i, int64_t groups, int64_t each, const ot_shape *y)
{
    const ot_shape *s = &n->in[i]->shape;
    int64_t channels;
    if (s->rank != y->rank || s->dim[0] != y->dim[0] || !ot_mul(groups, each, &channels) || s->dim[1] != channels)
        return false;
    for (int d = 2; d < s->rank; d++)
        if (s->dim[d] != y->dim[d]) return false;
    return true;
}

static ot_status resolve(const ot_node *n, ot_window *w, ot_shape *y, ot_error *err)
{
    const deform_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape, *f = &n->in[1]->shape;
    int64_t K = 1, KD = 0, C;
    if (x->rank < 3 || f->rank != x->rank)
        return ot_node_fail(n, err, "x has rank %d and w rank %d; both need the same rank, 3 or more", x->rank,
                            f->rank);
    if (a->group < 1 || a->offset_group < 1 || !ot_mul(f->dim[1], a->group, &C) || C != x->dim[1] ||
        f->dim[0] % a->group || C % a->offset_group)
        return ot_node_fail(n, err,
                            "x has %lld channels, w %lld filters of %lld; group %lld and offset_group %lld do not fit",
                            (long long)x->dim[1], (long long)f->dim[0], (long long)f->dim[1], (long long)a->group,
                            (long long)a->offset_group);
    *y = (ot_shape){ .rank = x->rank, .dim = { x->dim[0], f->dim[0] } };
    OT_TRY(ot_window_resolve(n, &a->window, &f->dim[2], x, w, &y->dim[2], err));
    for (int j = 0; j < w->nd; j++) {
        if (a->window.kernel.n && a->window.kernel.v[j] != f->dim[2 + j])
            return ot_node_fail(n, err, "kernel_shape has %lld, but w has %lld", (long long)a->window.kernel.v[j],
                                (long long)f->dim[2 + j]);
        if (y->dim[2 + j] < 1 || x->dim[2 + j] < 1) return ot_node_fail(n, err, "spatial axis %d of x is empty", j);
        K *= f->dim[2 + j]; /* w is there, so this fits */
    }
    if (!ot_mul(K, w->nd, &KD) || !per_point(n, 2, a->offset_group, KD, y))
        return ot_node_fail(
            n, err, "the offsets do not have %lld channels for each of %lld groups and the extents of the result",
            (long long)KD, (long long)a->offset_group);
    if (ot_node_in(n, 3) && (n->in[3]->shape.rank != 1 || n->in[3]->shape.dim[0] != f->dim[0]))
        return ot_node_fail(n, err, "b must have one value per filter, %lld", (long long)f->dim[0]);
    if (ot_node_in(n, 4) && !per_point(n, 4, a->offset_group, K, y))
        return ot_node_fail(
            n, err, "the mask does not have %lld channels for each of %lld groups and the extents of the result",
            (long long)K, (long long)a->offset_group);
    if (!ot_shape_fits(y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return OT_OK;
}

static ot_status deform_infer(ot_node *n, ot_error *err)
{
    ot_window w;
    ot_shape y;
    OT_TRY(resolve(n, &w, &y, err));
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* Coordinate j of `count` positions of a box of nd extents, times `by`, plus `from`: along axis `axis` of three. */
static ot_value *grid_line(ot_build *b, ot_dtype t, const int64_t *extent, int nd, int j, int64_t count, int64_t by,
                           int64_t from, int axis)
{
    int64_t inner = 1;
    double *v = ot_broken(b) ? NULL : ot_graph_alloc(b->graph, (size_t)(count + 1) * sizeof *v);
    if (!v) return NULL;
    for (int d = j + 1; d < nd; d++) inner *= extent[d];
    for (int64_t i = 0; i < count; i++) v[i] = (double)(i / inner % extent[j] * by + from);
    return ot_line(b, t, v, count, axis, 3);
}

static void deform_lower(ot_build *b)
{
    const deform_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0], *offset = b->node->in[2], *bias = ot_node_in(b->node, 3),
             *mask = ot_node_in(b->node, 4);
    const ot_shape *f = &b->node->in[1]->shape;
    ot_window w;
    ot_shape y;
    if (resolve(b->node, &w, &y, b->graph->err) != OT_OK) return;
    int64_t N = y.dim[0], C = x->shape.dim[1], M = y.dim[1], og = a->offset_group, P = 1, Q = 1, K = 1;
    int nd = (int)w.nd;
    ot_dtype t = x->dtype, ct = t == OT_F64 ? OT_F64 : OT_F32;
    ot_shape groups = x->shape;
    for (int j = 0; j < nd; j++) {
        P *= x->shape.dim[2 + j];
        Q *= y.dim[2 + j];
        K *= w.kernel[j];
    }
    groups.dim[0] = N * og;
    groups.dim[1] = C / og;
    ot_sample s = { .r = nd, .mode = OT_SAMPLE_LINEAR, .padding = OT_SAMPLE_ZEROS };
    ot_shape points = { .rank = 1, .dim = { N * og * K * Q } };
    offset = ot_view(b, ot_cast(b, offset, ct), &(ot_shape){ .rank = 4, .dim = { N * og, K, nd, Q } });
    for (int j = 0; j < nd; j++) {
        struct {
            int64_t axis;
        } gather = { 2 };
        ot_value *at = ot_emit(b, &ot_op_Gather, &gather, OT_IN(offset, ot_scalar(b, OT_I64, j)));
        at = ot_plus(b, at, grid_line(b, ct, w.kernel, nd, j, K, w.dilation[j], 0, 1));
        at = ot_plus(b, at, grid_line(b, ct, &y.dim[2], nd, j, Q, w.stride[j], -w.pad_lo[j], 2));
        s.at[j] = ot_view(b, at, &points);
        s.n[j] = x->shape.dim[2 + j];
    }
    ot_value *first = ot_times_by(b, ot_line(b, OT_I64, NULL, N * og, 0, 2), (double)P);
    first = ot_view(b, ot_expand(b, first, &(ot_shape){ .rank = 2, .dim = { N * og, K * Q } }), &points);
    ot_value *v = ot_sample_rows(b, &s, ot_sample_x(b, ot_view(b, x, &groups)), first);
    if (mask)
        v = ot_times(b, v, ot_view(b, ot_cast(b, mask, ct), &(ot_shape){ .rank = 2, .dim = { points.dim[0], 1 } }));
    v = ot_view(b, ot_cast(b, v, t), &(ot_shape){ .rank = 3, .dim = { N * og, K * Q, C / og } });
    if (ot_broken(b)) return;
    v = ot_transpose(b, v, (int[]){ 0, 2, 1 });
    v = ot_view(b, v, &(ot_shape){ .rank = 4, .dim = { N, a->group, C / a->group * K, Q } });
    ot_value *filter =
        ot_view(b, b->node->in[1], &(ot_shape){ .rank = 3, .dim = { a->group, M / a->group, f->dim[1] * K } });
    v = ot_view(b, ot_matmul(b, filter, false, v, false), &y);
    ot_shape per_filter = { .rank = 1 + nd, .dim = { M, 1, 1, 1 } };
    ot_yield(b, 0, bias ? ot_plus(b, v, ot_view(b, bias, &per_filter)) : v);
}

/* X, offsets and mask. */
static bool deform_conv_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    return ot_batch_operands_first(b, n, 0x15, r);
}

const ot_op ot_op_DeformConv = {
    .name = "DeformConv",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-W-B-",
    .since = 22,
    .in = { 3, 5 },
    .out = { 1, 1 },
    .attrs = attrs,
    .attr_size = sizeof(deform_attrs),
    .infer = deform_infer,
    .lower = deform_lower,
    .batch = deform_conv_batch,
};
