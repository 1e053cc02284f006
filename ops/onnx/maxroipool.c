/* maxroipool.c - MaxRoiPool: the largest element of each bin of a region.
 *
 * Spec    ai.onnx MaxRoiPool 1, 22.  Corners are rounded (halves away from zero) and belong to the region; a region has
 *         one element at least.  Bins outside of x are 0.
 * Shapes  x: (N, C, H, W)  rois: (R, 5), each the index of an image and two corners   y: (R, C, h, w)
 * Grad    to x, in equal parts to equal maxima.  rois have none: they are rounded. The maxima of boxes of 1, 2, 4, ...
 *         elements along each axis are computed for all of x; four of these boxes cover a bin. */
#include "ops/kernels/arith.h"
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/take.h"

#include <stddef.h>

typedef struct roi_attrs {
    ot_ints pooled;
    double scale;
} roi_attrs;

static const ot_attr roi_rows[] = {
    { "pooled_shape", OT_INTS, offsetof(roi_attrs, pooled), OT_REQUIRED, NULL },
    { "spatial_scale", OT_FLOAT, offsetof(roi_attrs, scale), 1, NULL },
    { 0 },
};

static ot_status roi_infer(ot_node *n, ot_error *err)
{
    const roi_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape, *rois = &n->in[1]->shape;
    char s[128], t[128];
    if (x->rank != 4 || rois->rank != 2 || rois->dim[1] != 5)
        return ot_node_fail(n, err, "x is %s and rois %s; expected (N, C, H, W) and (R, 5)", ot_shape_text(x, s),
                            ot_shape_text(rois, t));
    if (a->pooled.n != 2 || a->pooled.v[0] < 1 || a->pooled.v[1] < 1 || a->pooled.v[0] > 1 << 20 ||
        a->pooled.v[1] > 1 << 20)
        return ot_node_fail(n, err, "pooled_shape must be a height and a width, 1 to %d", 1 << 20);
    if (rois->dim[0] && (!x->dim[0] || !x->dim[2] || !x->dim[3]))
        return ot_node_fail(n, err, "x of shape %s is empty", ot_shape_text(x, s));
    if (ot_is_const(n->in[1]))
        for (int64_t r = 0; r < rois->dim[0]; r++) {
            double k = ot_get_f64(n->in[1]->data, n->in[1]->dtype, 5 * r);
            if (!(k >= 0 && k < (double)x->dim[0]))
                return ot_node_fail(n, err,
                                    "region %lld is of image %g, but "
                                    "there are %lld",
                                    (long long)r, k, (long long)x->dim[0]);
        }
    ot_shape y = { .rank = 4, .dim = { rois->dim[0], x->dim[1], a->pooled.v[0], a->pooled.v[1] } };
    if (!ot_shape_fits(&y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* ---- boxes ----------------------------------------------------------------- */

/* Shifts v, (N, H, W, C), by `by` positions towards the start of an axis. */
static ot_value *moved(ot_build *b, ot_value *v, int axis, int64_t by)
{
    int64_t start[4] = { 0 }, one[4] = { 1, 1, 1, 1 }, extent[4];
    ot_piece *p = ot_pieces(b, 1);
    if (!p || ot_broken(b)) return NULL;
    for (int d = 0; d < 4; d++) extent[d] = v->shape.dim[d] - (d == axis ? by : 0);
    start[axis] = by;
    ot_piece_box(p, &v->shape, start, one, extent);
    return ot_copy_emit(b, &v->shape, -INFINITY, p, 1, &v, 1);
}

static int levels(int64_t size)
{
    int n = 1;
    while (size >> n) n++;
    return n;
}

/* Rows (levels of H * levels of W * N * H * W, C). */
static ot_value *boxes(ot_build *b, ot_value *x)
{
    struct {
        int64_t axis;
    } first = { 0 };
    int lh = levels(x->shape.dim[2]), lw = levels(x->shape.dim[3]);
    ot_value *down = ot_transpose(b, x, (int[]){ 0, 2, 3, 1 }),
             **all = ot_graph_alloc(b->graph, (size_t)(lh * lw) * sizeof *all);
    if (!all) return NULL;
    for (int i = 0; i < lh; i++) {
        ot_value *across = down;
        for (int j = 0; j < lw; j++) {
            all[i * lw + j] = across;
            if (j + 1 < lw) across = ot_map2(b, OT_FN_Max, 0, 0, across, moved(b, across, 2, (int64_t)1 << j));
        }
        if (i + 1 < lh) down = ot_map2(b, OT_FN_Max, 0, 0, down, moved(b, down, 1, (int64_t)1 << i));
    }
    ot_value *y = lh * lw > 1 ? ot_emit(b, &ot_op_Concat, &first, all, lh * lw) : all[0];
    return ot_broken(b)
               ? NULL
               : ot_view(b, y,
                         &(ot_shape){ .rank = 2, .dim = { ot_numel(&y->shape) / x->shape.dim[1], x->shape.dim[1] } });
}

/* ---- bins ------------------------------------------------------------------ */

/* A corner in elements of x: (R, 1) int64, far from overflow. */
static ot_value *corner(ot_build *b, ot_value *rois, int64_t column)
{
    struct {
        int64_t axis;
    } gather = { 1 };
    ot_value *v = ot_emit(b, &ot_op_Gather, &gather, OT_IN(rois, ot_ints_const(b, &column, 1)));
    v = ot_times_by(b, v, ((const roi_attrs *)b->node->attrs)->scale);
    ot_value *half = ot_map1(b, OT_FN_Floor, 0, 0, ot_plus_by(b, ot_map1(b, OT_FN_Abs, 0, 0, v), 0.5));
    v = ot_times(b, half, ot_map1(b, OT_FN_Sign, 0, 0, v));
    return ot_cast(b, ot_clip_by(b, v, -0x1p30, 0x1p30), OT_I64);
}

static ot_value *most(ot_build *b, ot_value *x, double v)
{
    return ot_map2(b, OT_FN_Max, 0, 0, x, ot_scalar_like(b, x, v));
}

/* Along one axis of x: the two boxes of each bin, (2, R, bins): their level times `level` plus their position times
 * `step`. *empty: (R, bins). */
static ot_value *bins(ot_build *b, ot_value *rois, int k, int64_t size, int64_t count, int64_t level, int64_t step,
                      ot_value **empty)
{
    ot_value *start = corner(b, rois, k ? 1 : 2), *end = corner(b, rois, k ? 3 : 4);
    ot_value *extent = most(b, ot_plus_by(b, ot_minus(b, end, start), 1), 1),
             *bin = ot_line(b, OT_I64, NULL, count, 1, 2);
    ot_value *by = ot_scalar(b, OT_I64, (double)count);
    ot_value *from = ot_plus(b, start, ot_map2(b, OT_FN_IDiv, 0, 0, ot_times(b, bin, extent), by));
    ot_value *to = ot_plus_by(b, ot_times(b, ot_plus_by(b, bin, 1), extent), (double)(count - 1));
    to = ot_plus(b, start, ot_map2(b, OT_FN_IDiv, 0, 0, to, by));
    from = ot_clip_by(b, from, 0, (double)size);
    to = ot_clip_by(b, to, 0, (double)size);
    *empty = ot_map2(b, OT_FN_LessOrEqual, 0, 0, to, from);
    from = ot_clip_by(b, from, 0, (double)(size - 1));
    ot_value *length = most(b, ot_minus(b, to, from), 1), *which = NULL, *power = NULL;
    if (ot_broken(b)) return NULL;
    for (int l = 1; l < levels(size); l++) {
        ot_value *more = ot_cast(b, ot_compare_by(b, OT_FN_GreaterOrEqual, length, (double)((int64_t)1 << l)), OT_I64);
        which = which ? ot_plus(b, which, more) : more;
        more = ot_times_by(b, more, (double)((int64_t)1 << (l - 1)));
        power = power ? ot_plus(b, power, more) : more;
    }
    ot_shape each = { .rank = 3, .dim = { 1, rois->shape.dim[0], count } };
    ot_value *last = power ? ot_minus(b, ot_plus(b, from, length), ot_plus_by(b, power, 1)) : from;
    ot_value *second = ot_line(b, OT_I64, (double[]){ 0, 1 }, 2, 0, 3);
    ot_value *at = ot_plus(b, ot_view(b, from, &each), ot_times(b, second, ot_view(b, ot_minus(b, last, from), &each)));
    at = ot_times_by(b, at, (double)step);
    return which ? ot_plus(b, at, ot_times_by(b, ot_view(b, which, &each), (double)level)) : at;
}

static void roi_lower(ot_build *b)
{
    const roi_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0], *rois = b->node->in[1], *none[2];
    int64_t N = x->shape.dim[0], H = x->shape.dim[2], W = x->shape.dim[3], R = rois->shape.dim[0];
    int64_t h = a->pooled.v[0], w = a->pooled.v[1];
    if (!R) {
        ot_yield(b, 0, ot_expand(b, ot_scalar(b, x->dtype, 0), &b->node->out[0]->shape));
        return;
    }
    rois = ot_cast(b, rois, rois->dtype == OT_F64 ? OT_F64 : OT_F32);
    struct {
        int64_t axis;
    } gather = { 1 };
    ot_value *batch = ot_emit(b, &ot_op_Gather, &gather, OT_IN(rois, ot_scalar(b, OT_I64, 0)));
    batch = ot_counts(b, ot_cast(b, batch, OT_I64), N - 1);
    ot_value *down = bins(b, rois, 0, H, h, levels(W) * N * H * W, W, &none[0]);
    ot_value *across = bins(b, rois, 1, W, w, N * H * W, 1, &none[1]);
    ot_value *place =
        ot_times_by(b, ot_view(b, batch, &(ot_shape){ .rank = 5, .dim = { 1, 1, R, 1, 1 } }), (double)(H * W));
    place = ot_plus(b, place, ot_view(b, down, &(ot_shape){ .rank = 5, .dim = { 2, 1, R, h, 1 } }));
    place = ot_plus(b, place, ot_view(b, across, &(ot_shape){ .rank = 5, .dim = { 1, 2, R, 1, w } }));
    ot_value *y = ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(boxes(b, x), place));
    y = ot_reduce_axes(b, y, OT_REDUCE_MAX, 3, false);
    ot_value *empty = ot_map2(b, OT_FN_Or, 0, 0, ot_view(b, none[0], &(ot_shape){ .rank = 4, .dim = { R, h, 1, 1 } }),
                              ot_view(b, none[1], &(ot_shape){ .rank = 4, .dim = { R, 1, w, 1 } }));
    y = ot_where(b, empty, ot_scalar(b, x->dtype, 0), y);
    if (!ot_broken(b)) ot_yield(b, 0, ot_transpose(b, y, (int[]){ 0, 3, 1, 2 }));
}

const ot_op ot_op_MaxRoiPool = {
    .name = "MaxRoiPool",
    .types = { "TT", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = roi_rows,
    .attr_size = sizeof(roi_attrs),
    .infer = roi_infer,
    .lower = roi_lower,
};
