/* roialign.c - RoiAlign: pools regions of an image at points between its elements.
 *
 * Spec    ai.onnx RoiAlign 10, 16, 22: avg and max, both coordinate modes.  max is the standard's: of the elements
 *         around each point, times their weights.  max with sampling_ratio 0 needs constant rois, which determine the
 *         number of points.
 * Shapes  x: (N, C, H, W)  rois: (R, 4)  batch_indices: (R)   y: (R, C, output_height, output_width)
 * Grad    to x, and to the corners of the rois (the number of points of a bin is not differentiable). With
 *         sampling_ratio the points are samples (sample.c).  Without, the mean over a bin is one weight per row times
 *         one per column of the image, whatever the number of points: two matrix products. */
#include "ops/kernels/arith.h"
#include "ops/kernels/move.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/sample.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

enum { AVG, MAX };
enum { HALF_PIXEL, OUTPUT_HALF_PIXEL };
enum { MOST_POINTS = 4096, MOST_BINS = 1 << 20 }; /* along one side: of a bin, of a region */

typedef struct roialign_attrs {
    int64_t transformation, mode, height, width, ratio;
    double scale;
} roialign_attrs;

static const char *const transformations[] = { "half_pixel", "output_half_pixel", NULL };
static const char *const modes[] = { "avg", "max", NULL };

#define AT(field) offsetof(roialign_attrs, field)
static const ot_attr roialign_rows[] = {
    { "coordinate_transformation_mode", OT_ENUM, AT(transformation), HALF_PIXEL, transformations },
    { "mode", OT_ENUM, AT(mode), AVG, modes },
    { "output_height", OT_INT, AT(height), 1, NULL },
    { "output_width", OT_INT, AT(width), 1, NULL },
    { "sampling_ratio", OT_INT, AT(ratio), 0, NULL },
    { "spatial_scale", OT_FLOAT, AT(scale), 1, NULL },
    { 0 },
};
#undef AT

static ot_status roialign_infer(ot_node *n, ot_error *err)
{
    const roialign_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape, *rois = &n->in[1]->shape, *batch = &n->in[2]->shape;
    char s[128], t[128];
    if (x->rank != 4) return ot_node_fail(n, err, "x is %s; expected (N, C, H, W)", ot_shape_text(x, s));
    if (rois->rank != 2 || rois->dim[1] != 4 || batch->rank != 1 || batch->dim[0] != rois->dim[0])
        return ot_node_fail(n, err, "rois are %s and batch_indices %s; expected (R, 4) and (R)", ot_shape_text(rois, s),
                            ot_shape_text(batch, t));
    if (a->height < 1 || a->width < 1 || a->height > MOST_BINS || a->width > MOST_BINS || a->ratio < 0 ||
        a->ratio > MOST_POINTS)
        return ot_node_fail(n, err, "invalid output_height %lld, output_width %lld or sampling_ratio %lld",
                            (long long)a->height, (long long)a->width, (long long)a->ratio);
    if (a->mode == MAX && !a->ratio && !ot_is_const(n->in[1]))
        return ot_node_fail(n, err, "mode max with sampling_ratio 0: rois must be known before the run");
    if (rois->dim[0] && (!x->dim[0] || !x->dim[2] || !x->dim[3]))
        return ot_node_fail(n, err, "x of shape %s is empty", ot_shape_text(x, s));
    OT_TRY(ot_index_check(n, 2, 0, 1, 0, x->dim[0] - 1, err));
    ot_shape y = { .rank = 4, .dim = { rois->dim[0], x->dim[1], a->height, a->width } };
    if (!ot_shape_fits(&y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* ---- bins ------------------------------------------------------------------ */

/* One direction: the start of the regions, and the extent of a bin, (R, 1) each. */
typedef struct side {
    int64_t size, bins;
    ot_value *start, *bin;
} side;

static ot_value *column(ot_build *b, ot_value *x, int64_t i)
{
    struct {
        int64_t axis;
    } gather = { 1 };
    return ot_emit(b, &ot_op_Gather, &gather, OT_IN(x, ot_scalar(b, OT_I64, (double)i)));
}

static side side_of(ot_build *b, ot_value *rois, int k)
{
    const roialign_attrs *a = b->node->attrs;
    side s = { .size = b->node->in[0]->shape.dim[k ? 3 : 2], .bins = k ? a->width : a->height };
    double offset = a->transformation == HALF_PIXEL ? -0.5 : 0;
    if (ot_broken(b)) return s;
    ot_shape list = { .rank = 2, .dim = { rois->shape.dim[0], 1 } };
    ot_value *from = ot_view(b, column(b, rois, k ? 0 : 1), &list), *to = ot_view(b, column(b, rois, k ? 2 : 3), &list);
    ot_value *span = ot_times_by(b, ot_minus(b, to, from), a->scale);
    s.start = ot_plus_by(b, ot_times_by(b, from, a->scale), offset);
    if (a->transformation == OUTPUT_HALF_PIXEL) span = ot_map2(b, OT_FN_Max, 0, 0, span, ot_scalar_like(b, span, 1));
    s.bin = ot_times_by(b, span, 1 / (double)s.bins);
    return s;
}

/* The number of points along a bin if the file does not give it, at least 0: (R, 1). */
static ot_value *count_of(ot_build *b, const side *s)
{
    ot_value *n = ot_map1(b, OT_FN_Ceil, 0, 0, s->bin);
    return ot_map2(b, OT_FN_Max, 0, 0, n, ot_scalar_like(b, n, 0));
}

static ot_value *at_least_one(ot_build *b, ot_value *n)
{
    return ot_map2(b, OT_FN_Max, 0, 0, n, ot_scalar_like(b, n, 1));
}

/* Is a coordinate at most one element outside? */
static ot_value *near(ot_build *b, const side *s, ot_value *at)
{
    return ot_map2(b, OT_FN_And, 0, 0, ot_compare_by(b, OT_FN_GreaterOrEqual, at, -1),
                   ot_compare_by(b, OT_FN_LessOrEqual, at, (double)s->size));
}

/* ---- a number of points that is known ----------------------------------------- */

/* The most points any bin has along one side, of constant rois. */
static int64_t most_points(const ot_node *n, int k)
{
    const roialign_attrs *a = n->attrs;
    const ot_value *rois = n->in[1];
    int64_t most = 1;
    for (int64_t r = 0; r < rois->shape.dim[0]; r++) {
        double from = ot_get_f64(rois->data, rois->dtype, 4 * r + (k ? 0 : 1)),
               to = ot_get_f64(rois->data, rois->dtype, 4 * r + (k ? 2 : 3));
        double points =
            ceil((to - from) * a->scale / (double)(k ? a->width : a->height)) + 1; /* rounding may add one */
        if (points > (double)MOST_POINTS) return MOST_POINTS + 1;
        if (points > (double)most) most = (int64_t)points;
    }
    return most;
}

/* The coordinates of the points (R, bins * G); *in: which are used.  counts: (R, 1) if bins have different numbers
 * of points. */
static ot_value *points(ot_build *b, const side *s, int64_t G, ot_value *counts, ot_value **in)
{
    int64_t n = s->bins * G;
    double *v = ot_broken(b) ? NULL : ot_graph_alloc(b->graph, (size_t)(2 * n + 1) * sizeof *v);
    if (!v) return NULL;
    for (int64_t i = 0; i < n; i++) {
        v[i] = counts ? (double)(i / G) : (double)(i / G) + ((double)(i % G) + 0.5) / (double)G;
        v[n + i] = (double)(i % G) + 0.5;
    }
    ot_dtype t = s->bin->dtype;
    ot_value *at = ot_plus(b, s->start, ot_times(b, ot_line(b, t, v, n, 1, 2), s->bin));
    *in = NULL;
    if (counts) {
        ot_value *i = ot_line(b, t, v + n, n, 1, 2);
        at = ot_plus(b, at, ot_times(b, i, ot_over(b, s->bin, at_least_one(b, counts))));
        *in = ot_map2(b, OT_FN_Less, 0, 0, i, counts);
    }
    return at;
}

/* v, (R, h) or (R, w), over all points: (R, h, w). */
static ot_value *spread(ot_build *b, ot_value *v, int k, int64_t h, int64_t w)
{
    if (ot_broken(b)) return NULL;
    int64_t R = v->shape.dim[0];
    v = ot_view(b, v, &(ot_shape){ .rank = 3, .dim = { R, k ? 1 : h, k ? w : 1 } });
    return ot_expand(b, v, &(ot_shape){ .rank = 3, .dim = { R, h, w } });
}

static ot_value *by_points(ot_build *b, const side s[2], ot_value *batch)
{
    const roialign_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0], *at[2], *in[2], *counts[2] = { NULL, NULL }, *counted = NULL;
    int64_t G[2] = { a->ratio, a->ratio }, R = batch->shape.dim[0], C = x->shape.dim[1];
    for (int k = 0; k < 2 && !a->ratio; k++) {
        G[k] = most_points(b->node, k);
        counts[k] = count_of(b, &s[k]);
        if (G[k] > MOST_POINTS)
            ot_node_fail(b->node, b->graph->err,
                         "rois with more than %d points in a bin are not "
                         "supported",
                         MOST_POINTS);
    }
    for (int k = 0; k < 2; k++) at[k] = points(b, &s[k], G[k], counts[k], &in[k]);
    if (ot_broken(b)) return NULL;
    int64_t h = a->height * G[0], w = a->width * G[1];
    ot_shape list = { .rank = 1, .dim = { R * h * w } }, column = { .rank = 2, .dim = { R * h * w, 1 } };
    ot_value *inside = ot_map2(b, OT_FN_And, 0, 0, spread(b, near(b, &s[0], at[0]), 0, h, w),
                               spread(b, near(b, &s[1], at[1]), 1, h, w));
    if (in[0]) counted = ot_map2(b, OT_FN_And, 0, 0, spread(b, in[0], 0, h, w), spread(b, in[1], 1, h, w));
    ot_sample sample = { .r = 2, .mode = OT_SAMPLE_LINEAR, .padding = OT_SAMPLE_BORDER, .corners = true };
    for (int k = 0; k < 2; k++) {
        sample.n[k] = s[k].size;
        sample.at[k] = ot_view(b, spread(b, at[k], k, h, w), &list);
    }
    ot_value *first = ot_view(b, ot_times_by(b, batch, (double)(s[0].size * s[1].size)),
                              &(ot_shape){ .rank = 3, .dim = { R, 1, 1 } });
    first = ot_view(b, ot_expand(b, first, &(ot_shape){ .rank = 3, .dim = { R, h, w } }), &list);
    ot_value *rows = ot_sample_x(b, x),
             *y = a->mode == AVG ? ot_sample_rows(b, &sample, rows, first) : ot_sample_taps(b, &sample, rows, first);
    if (ot_broken(b)) return NULL;
    y = ot_times(b, y, ot_cast(b, ot_view(b, inside, &column), y->dtype));
    if (a->mode == MAX) y = ot_reduce_axes(b, y, OT_REDUCE_MAX, 3, false);
    if (counted) y = ot_where(b, ot_view(b, counted, &column), y, ot_scalar_like(b, y, -INFINITY));
    y = ot_view(b, y, &(ot_shape){ .rank = 6, .dim = { R, a->height, G[0], a->width, G[1], C } });
    y = ot_reduce_axes(b, y, a->mode == AVG ? OT_REDUCE_SUM : OT_REDUCE_MAX, 1 << 2 | 1 << 4, false);
    if (a->mode == AVG) y = ot_times_by(b, y, 1 / (double)(G[0] * G[1]));
    if (counted)
        y = ot_where(b, ot_compare_by(b, OT_FN_Equal, y, -INFINITY), ot_scalar_like(b, y, 0),
                     y); /* bins of no points */
    return ot_broken(b) ? NULL : ot_transpose(b, y, (int[]){ 0, 3, 1, 2 });
}

/* ---- the mean over any number of points ------------------------------------------ */

/* Weight of element h of the image in each bin: (R, bins, size).  Points are more than half an element apart if a
 * bin has several, so that few reach h: from the one before the first that may. */
static ot_value *weights(ot_build *b, const side *s)
{
    enum { CANDIDATES = 7 };
    if (ot_broken(b)) return NULL;
    ot_shape each = { .rank = 4, .dim = { s->bin->shape.dim[0], 1, 1, 1 } };
    ot_value *n = ot_view(b, count_of(b, s), &each), *some = at_least_one(b, n), *bin = ot_view(b, s->bin, &each);
    if (ot_broken(b)) return NULL;
    ot_value *zero = ot_scalar_like(b, n, 0), *none = ot_compare_by(b, OT_FN_Equal, n, 0);
    ot_value *step = ot_where(b, none, ot_scalar_like(b, n, 1), ot_over(b, bin, some));
    ot_value *start =
        ot_plus(b, ot_view(b, s->start, &each), ot_times(b, bin, ot_line(b, n->dtype, NULL, s->bins, 1, 4)));
    ot_value *h = ot_line(b, n->dtype, NULL, s->size, 2, 4);
    ot_value *i = ot_over(b, ot_minus(b, ot_plus_by(b, h, -1), start), step);
    i = ot_map2(b, OT_FN_Max, 0, 0, ot_plus_by(b, ot_map1(b, OT_FN_Ceil, 0, 0, ot_plus_by(b, i, -0.5)), -1), zero);
    i = ot_plus(b, i, ot_line(b, n->dtype, NULL, CANDIDATES, 3, 4));
    ot_value *at = ot_plus(b, start, ot_times(b, ot_plus_by(b, i, 0.5), step));
    ot_value *counts = ot_map2(b, OT_FN_And, 0, 0, near(b, s, at), ot_map2(b, OT_FN_Less, 0, 0, i, n));
    ot_value *away = ot_map1(b, OT_FN_Abs, 0, 0, ot_minus(b, ot_clip_by(b, at, 0, (double)(s->size - 1)), h));
    ot_value *w = ot_map2(b, OT_FN_Max, 0, 0, ot_plus_by(b, ot_times_by(b, away, -1), 1), zero);
    w = ot_over(b, ot_where(b, counts, w, zero), some);
    return ot_reduce_axes(b, w, OT_REDUCE_SUM, 1 << 3, false);
}

static ot_value *by_weights(ot_build *b, const side s[2], ot_value *batch)
{
    const roialign_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0], *down = weights(b, &s[0]), *across = weights(b, &s[1]);
    if (ot_broken(b)) return NULL;
    int64_t N = x->shape.dim[0], C = x->shape.dim[1], H = x->shape.dim[2], W = x->shape.dim[3], R = batch->shape.dim[0];
    ot_value *its = ot_view(b, batch, &(ot_shape){ .rank = 4, .dim = { R, 1, 1, 1 } });
    its = ot_cast(b, ot_map2(b, OT_FN_Equal, 0, 0, its, ot_line(b, OT_I64, NULL, N, 2, 4)), down->dtype);
    down = ot_times(b, ot_view(b, down, &(ot_shape){ .rank = 4, .dim = { R, a->height, 1, H } }), its);
    down = ot_view(b, down, &(ot_shape){ .rank = 2, .dim = { R * a->height, N * H } });
    if (ot_broken(b)) return NULL;
    x = ot_transpose(b, ot_cast(b, x, down->dtype), (int[]){ 0, 2, 1, 3 });
    ot_value *y = ot_matmul(b, down, false, ot_view(b, x, &(ot_shape){ .rank = 2, .dim = { N * H, C * W } }), false);
    y = ot_view(b, y, &(ot_shape){ .rank = 3, .dim = { R, a->height * C, W } });
    y = ot_view(b, ot_matmul(b, y, false, across, true),
                &(ot_shape){ .rank = 4, .dim = { R, a->height, C, a->width } });
    return ot_broken(b) ? NULL : ot_transpose(b, y, (int[]){ 0, 2, 1, 3 });
}

static void roialign_lower(ot_build *b)
{
    const roialign_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0], *rois = b->node->in[1], *y;
    int64_t N = x->shape.dim[0];
    if (!rois->shape.dim[0]) { /* without regions the value of N does not matter */
        ot_yield(b, 0, ot_expand(b, ot_scalar(b, x->dtype, 0), &b->node->out[0]->shape));
        return;
    }
    rois = ot_cast(b, rois, x->dtype == OT_F64 ? OT_F64 : OT_F32);
    side s[2] = { side_of(b, rois, 0), side_of(b, rois, 1) };
    ot_value *batch = ot_counts(b, b->node->in[2], N - 1);
    if (ot_broken(b)) return;
    y = a->mode == AVG && !a->ratio ? by_weights(b, s, batch) : by_points(b, s, batch);
    ot_yield(b, 0, ot_cast(b, y, x->dtype));
}

/* Boxes of all micro-batches; each refers to an image of its own micro-batch. */
static bool roi_align_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    ot_shape one = { .rank = 2, .dim = { b->count, 1 } }, all;
    ot_value *index = b->count ? ot_batch_full(b, n->in[2]) : NULL;
    int64_t *first = ot_graph_alloc(b->g, (size_t)b->count * sizeof *first + 1);
    if (!index || !first || index->dtype != OT_I64) return false;
    ot_shape s = ot_own_shape(b, n->in[0]);
    for (int64_t k = 0; k < b->count; k++) first[k] = k * s.dim[0];
    index = ot_batch_emit(b, "Add", OT_IN(index, ot_graph_const_of(b->g, "", OT_I64, &one, first)));
    if (!index) return false;
    all = (ot_shape){ .rank = 1, .dim = { ot_numel(&index->shape) } };
    if (!ot_batch_operands_first(b, n, 7, r)) return false;
    r->in[2] = ot_batch_reshape(b, index, &all, ot_on_axis(0));
    return r->in[2] != NULL;
}

const ot_op ot_op_RoiAlign = {
    .name = "RoiAlign",
    .types = { "TTi", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .nondiff = 1u << 2,
    .attrs = roialign_rows,
    .attr_size = sizeof(roialign_attrs),
    .infer = roialign_infer,
    .lower = roialign_lower,
    .batch = roi_align_batch,
};
