/* resize.c - Resize: resamples axes.
 *
 * Spec    ai.onnx Resize 10 to 19, every mode, antialias, axes, aspect ratio policies; Upsample is imported as Resize.
 *         Scales and sizes must be constants.  nearest_mode opset_10 is the importer's name for the behaviour of
 *         Resize-10: floor for an axis that grows, ceil for one that shrinks.
 *         align_corners and tf_crop_and_resize use the integer size of the result where n * scale is not whole, as the
 *         text, PyTorch and ONNX Runtime do.  The standard's own reference uses n * scale: by_product is the importer's
 *         attribute for files that it made.
 * Shapes  size = floor(n * scale), the product in float32, or as given
 * Grad    by the transposed weights.  Outside of x (tf_crop_and_resize) the gradient is zero.
 *         Each axis is one Resample, those that shrink most first; integers by nearest are Takes. */
#include "ops/kernels/resample.h"
#include "ops/kernels/move.h"

#include <math.h>
#include <stddef.h>

#include "ops/kernels/take.h"
#include "ops/onnx/batching.h"

enum { NEAREST, LINEAR, CUBIC };
enum { HALF_PIXEL, HALF_PIXEL_SYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, TF_CROP, TF_HALF_PIXEL };
enum { ROUND_FLOOR, ROUND_CEIL, FLOOR, CEIL, OPSET_10 };
enum { STRETCH, NOT_LARGER, NOT_SMALLER };

typedef struct resize_attrs {
    int64_t antialias, transformation, exclude_outside, policy, mode, nearest, by_product;
    double cubic_a, extrapolation;
    ot_ints axes;
} resize_attrs;

static const char *const transformations[] = { "half_pixel",           "half_pixel_symmetric",
                                               "pytorch_half_pixel",   "align_corners",
                                               "asymmetric",           "tf_crop_and_resize",
                                               "tf_half_pixel_for_nn", NULL };
static const char *const modes[] = { "nearest", "linear", "cubic", NULL };
static const char *const nearests[] = { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "opset_10", NULL };
static const char *const policies[] = { "stretch", "not_larger", "not_smaller", NULL };

#define AT(field) offsetof(resize_attrs, field)
static const ot_attr resize_rows[] = {
    { "antialias", OT_INT, AT(antialias), 0, NULL },
    { "axes", OT_INTS, AT(axes), 0, NULL },
    { "by_product", OT_INT, AT(by_product), 0, NULL },
    { "coordinate_transformation_mode", OT_ENUM, AT(transformation), HALF_PIXEL, transformations },
    { "cubic_coeff_a", OT_FLOAT, AT(cubic_a), -0.75, NULL },
    { "exclude_outside", OT_INT, AT(exclude_outside), 0, NULL },
    { "extrapolation_value", OT_FLOAT, AT(extrapolation), 0, NULL },
    { "keep_aspect_ratio_policy", OT_ENUM, AT(policy), STRETCH, policies },
    { "mode", OT_ENUM, AT(mode), NEAREST, modes },
    { "nearest_mode", OT_ENUM, AT(nearest), ROUND_FLOOR, nearests },
    { 0 },
};
#undef AT

/* The resampling of one axis. */
typedef struct stretch {
    int64_t size;
    double scale, from, to; /* from, to: region of interest */
} stretch;

/* ---- sizes ----------------------------------------------------------------- */

static const ot_value *given(const ot_node *n, int i)
{
    const ot_value *v = ot_node_in(n, i);
    return v && !(ot_shape_known(&v->shape) && ot_numel(&v->shape) == 0) ? v : NULL;
}

static ot_status list_of(const ot_node *n, const ot_value *v, const char *what, int count, ot_error *err)
{
    if (!ot_is_const(v)) return ot_node_fail(n, err, "%s must be known before the run", what);
    if (v->shape.rank != 1 || v->shape.dim[0] != count)
        return ot_node_fail(n, err, "%lld %s; expected %d", (long long)ot_numel(&v->shape), what, count);
    return OT_OK;
}

static ot_status by_sizes(const ot_node *n, const ot_value *v, const int *axis, int count, stretch *s, ot_error *err)
{
    const resize_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    double all = NAN;
    OT_TRY(list_of(n, v, "sizes", count, err));
    for (int i = 0; i < count; i++) {
        int64_t size = ot_get_i64(v->data, v->dtype, i), dim = x->dim[axis[i]];
        if (size < 0 || (dim == 0 && size > 0))
            return ot_node_fail(n, err, "invalid size %lld for an axis of size %lld", (long long)size, (long long)dim);
        s[axis[i]].size = size;
        s[axis[i]].scale = dim ? (double)size / (double)dim : 1;
        if (isnan(all) || (a->policy == NOT_LARGER ? s[axis[i]].scale < all : s[axis[i]].scale > all))
            all = s[axis[i]].scale;
    }
    for (int i = 0; i < count && a->policy != STRETCH; i++) {
        if (!(all * (double)x->dim[axis[i]] < 0x1p56)) return ot_node_fail(n, err, "the result is too large");
        s[axis[i]].scale = all;
        s[axis[i]].size = (int64_t)(all * (double)x->dim[axis[i]] + 0.5);
    }
    return OT_OK;
}

static ot_status by_scales(const ot_node *n, const ot_value *v, const int *axis, int count, stretch *s, ot_error *err)
{
    OT_TRY(list_of(n, v, "scales", count, err));
    for (int i = 0; i < count; i++) {
        double scale = ot_get_f64(v->data, v->dtype, i);
        /* The scale is a rounded number: 10 * 0.7f is 7 in float32, as exporters mean it, and 6.99 in double. */
        double size = floor((double)((float)scale * (float)n->in[0]->shape.dim[axis[i]]));
        if (!(isnormal((float)scale) && scale > 0 && size < 0x1p56))
            return ot_node_fail(n, err, "invalid scale %g", scale);
        s[axis[i]].scale = scale;
        s[axis[i]].size = (int64_t)size;
    }
    return OT_OK;
}

/* s: one per axis of x. */
static ot_status stretches(const ot_node *n, stretch *s, ot_error *err)
{
    const resize_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    const ot_value *roi = given(n, 1), *scales = given(n, 2), *sizes = given(n, 3);
    int axis[OT_MAX_RANK], count = a->axes.n ? a->axes.n : x->rank;
    if (count > x->rank) return ot_node_fail(n, err, "%d axes, but x has %d", count, x->rank);
    for (int d = 0; d < x->rank; d++) s[d] = (stretch){ x->dim[d], 1, 0, 1 };
    for (int i = 0; i < count; i++) {
        axis[i] = i;
        if (a->axes.n) OT_TRY(ot_node_axis(n, a->axes.v[i], x->rank, &axis[i], err));
    }
    if (!scales == !sizes) return ot_node_fail(n, err, "expected either scales or sizes");
    OT_TRY(sizes ? by_sizes(n, sizes, axis, count, s, err) : by_scales(n, scales, axis, count, s, err));
    if (a->transformation != TF_CROP) return OT_OK;
    if (!roi) return ot_node_fail(n, err, "tf_crop_and_resize needs roi");
    OT_TRY(list_of(n, roi, "values of roi", 2 * count, err));
    for (int i = 0; i < 2 * count; i++) { /* coordinates stay far inside int64_t */
        double v = ot_get_f64(roi->data, roi->dtype, i);
        if (!(fabs(v) < 0x1p30)) return ot_node_fail(n, err, "invalid value %g in roi", v);
    }
    for (int i = 0; i < count; i++) {
        s[axis[i]].from = ot_get_f64(roi->data, roi->dtype, i);
        s[axis[i]].to = ot_get_f64(roi->data, roi->dtype, i + count);
    }
    return OT_OK;
}

static ot_status resize_infer(ot_node *n, ot_error *err)
{
    stretch s[OT_MAX_RANK];
    ot_shape y = { .rank = n->in[0]->shape.rank };
    OT_TRY(stretches(n, s, err));
    for (int d = 0; d < y.rank; d++) y.dim[d] = s[d].size;
    if (!ot_shape_fits(&y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* ---- weights --------------------------------------------------------------- */

/* The coordinate of element i of the result on an axis of n. */
static double original(const resize_attrs *a, const stretch *s, int64_t n, int64_t i)
{
    double x = (double)i, in = (double)n, last = (a->by_product ? s->scale * in : (double)s->size) - 1;
    switch (a->transformation) {
    case ASYMMETRIC: return x / s->scale;
    case TF_HALF_PIXEL: return (x + 0.5) / s->scale;
    case ALIGN_CORNERS: return s->size == 1 ? 0 : x * (in - 1) / last;
    case TF_CROP:
        return s->from * (in - 1) +
               (s->size == 1 ? (s->to - s->from) * (in - 1) / 2 : x * (s->to - s->from) * (in - 1) / last);
    case PYTORCH_HALF_PIXEL: return s->size == 1 ? 0 : (x + 0.5) / s->scale - 0.5;
    case HALF_PIXEL_SYMMETRIC: return in / 2 * (1 - (double)s->size / (s->scale * in)) + (x + 0.5) / s->scale - 0.5;
    default: return (x + 0.5) / s->scale - 0.5;
    }
}

static int64_t nearest(const resize_attrs *a, double scale, double x)
{
    double lo = floor(x);
    int64_t mode = a->nearest != OPSET_10 ? a->nearest : scale < 1 ? CEIL : FLOOR;
    switch (mode) {
    case ROUND_CEIL: return (int64_t)(x - lo < 0.5 ? lo : lo + 1);
    case FLOOR: return (int64_t)lo;
    case CEIL: return (int64_t)ceil(x);
    default: return (int64_t)(x - lo <= 0.5 ? lo : lo + 1);
    }
}

/* Weight of an element at distance d. */
static double weight_at(const resize_attrs *a, double d)
{
    double A = a->cubic_a;
    d = fabs(d);
    if (a->mode == LINEAR) return d < 1 ? 1 - d : 0;
    if (d <= 1) return ((A + 2) * d - (A + 3)) * d * d + 1;
    return d < 2 ? ((A * d - 5 * A) * d + 8 * A) * d - 4 * A : 0;
}

static int64_t inside(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* The number of elements with weight on either side.  An axis without output elements has scale 0: no element has
 * weight. */
static int64_t reach(const resize_attrs *a, const stretch *s)
{
    if (s->size == 0) return 0;
    double wide = a->mode == CUBIC ? 2 : 1, by = a->antialias && s->scale < 1 ? s->scale : 1;
    return a->mode == NEAREST ? 1 : (int64_t)ceil(wide / by);
}

/* Appends the taps of element i at t; returns their end. */
static int64_t taps(const resize_attrs *a, const stretch *s, int64_t n, double x, int64_t *from, double *weight,
                    int64_t t)
{
    double by = a->antialias && s->scale < 1 ? s->scale : 1, sum = 0;
    int64_t r = reach(a, s), lo = (int64_t)floor(x), first = t;
    if (a->mode == NEAREST) {
        from[t] = inside(nearest(a, s->scale, x), n);
        weight[t] = 1;
        return t + 1;
    }
    for (int64_t k = lo - r + 1; k <= lo + r; k++) {
        double w = weight_at(a, by * ((double)k - x));
        if (w == 0 || (a->exclude_outside && (k < 0 || k >= n))) continue;
        sum += w;
        if (t > first && from[t - 1] == inside(k, n)) weight[t - 1] += w; /* beyond the edge */
        else {
            from[t] = inside(k, n);
            weight[t++] = w;
        }
    }
    if (a->exclude_outside || by < 1)
        for (int64_t k = first; k < t; k++) weight[k] /= sum;
    return t;
}

/* The table of axis d; false: no memory. */
static bool table(ot_build *b, const resize_attrs *a, const stretch *s, int64_t n, int d, ot_resample *out)
{
    int64_t most = 2 * reach(a, s) < n ? 2 * reach(a, s) : n, all;
    if (!ot_mul(most + 1, s->size, &all) || !ot_mul(all, 8, &(int64_t){ 0 })) {
        ot_node_fail(b->node, b->graph->err, "the table of axis %d is too large", d);
        return false;
    }
    int64_t *start = ot_graph_alloc(b->graph, (size_t)(s->size + 1) * sizeof *start);
    int64_t *from = ot_graph_alloc(b->graph, (size_t)(all + 1) * sizeof *from);
    double *weight = ot_graph_alloc(b->graph, (size_t)(all + 1) * sizeof *weight), *add = NULL;
    if (!start || !from || !weight) return false;
    if (a->transformation == TF_CROP && !(add = ot_graph_alloc(b->graph, (size_t)(s->size + 1) * sizeof *add)))
        return false;
    for (int64_t i = 0, t = 0; i < s->size; i++) {
        double x = original(a, s, n, i);
        if (add && (x < 0 || x > (double)(n - 1))) add[i] = a->extrapolation;
        else t = taps(a, s, n, x, from, weight, t);
        start[i + 1] = t;
    }
    *out = (ot_resample){ .axis = d, .size = s->size, .start = start, .from = from, .weight = weight, .add = add };
    return true;
}

/* ---- lowering -------------------------------------------------------------- */

static ot_value *resample(ot_build *b, const resize_attrs *a, ot_value *x, const stretch *s, int d)
{
    ot_resample t;
    if (ot_broken(b) || !table(b, a, s, x->shape.dim[d], d, &t)) return NULL;
    if (ot_is_float(x->dtype)) return ot_emit(b, &ot_op_Resample, &t, OT_IN(x));
    ot_shape list = { .rank = 1, .dim = { s->size } };
    return ot_emit(b, &ot_op_Take, &(ot_take){ d }, OT_IN(x, ot_graph_const_of(b->graph, "", OT_I64, &list, t.from)));
}

static void resize_emit(ot_build *b, const resize_attrs *a, stretch *s)
{
    ot_value *x = b->node->in[0];
    ot_dtype t = x->dtype;
    bool crop = a->transformation == TF_CROP;
    if (t == OT_F16 || t == OT_BF16) x = ot_cast(b, x, OT_F32);
    else if (!ot_is_float(t) && (a->mode != NEAREST || crop)) x = ot_cast(b, x, OT_F64);
    for (;;) { /* the axis that shrinks most */
        int best = -1;
        for (int d = 0; x && d < x->shape.rank; d++)
            if ((s[d].scale != 1 || s[d].size != x->shape.dim[d] || s[d].from != 0 || s[d].to != 1) &&
                (best < 0 || s[d].scale < s[best].scale))
                best = d;
        if (best < 0) break;
        x = resample(b, a, x, &s[best], best);
        s[best] = (stretch){ s[best].size, 1, 0, 1 };
    }
    ot_yield(b, 0, ot_cast(b, x, t));
}

static void resize_lower(ot_build *b)
{
    stretch s[OT_MAX_RANK];
    if (stretches(b->node, s, b->graph->err) == OT_OK) resize_emit(b, b->node->attrs, s);
}

static bool resize_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    if (!ot_batch_first_alone(n) || ot_attr_get(n, "coordinate_transformation_mode", 0) == TF_CROP) return false;
    ot_ints axes = ot_attr_ints(n, "axes");
    ot_shape s = ot_own_shape(b, n->in[0]);
    int a = ot_batch_axis(n->in[0]);
    if (own[0].dim[a] != s.dim[a] && a) r->in[0] = ot_batch_move(b, n->in[0], a = 0);
    if (!r->in[0] || own[0].dim[a] != s.dim[a]) return false;
    for (int i = 0, d = 0; i < (axes.n ? axes.n : s.rank); i++) {
        d = i;
        if (axes.n && !ot_axis(axes.v[i], s.rank, &d)) return false;
        if (d != a) continue;
        if (ot_batch_given(n, 2) && ot_is_const(n->in[2]) && ot_numel(&n->in[2]->shape) &&
            ot_get_f64(n->in[2]->data, n->in[2]->dtype, i) != 1)
            return false;
        ot_ints sizes = { 0 };
        ot_error e = { 0 };
        if (!ot_batch_given(n, 3) || ot_const_ints(n, 3, &sizes, &e) != OT_OK || sizes.n <= i) continue;
        int64_t list[OT_MAX_RANK];
        for (int k = 0; k < sizes.n; k++) list[k] = sizes.v[k];
        list[i] = r->in[0]->shape.dim[a];
        r->in[3] = ot_batch_ints(b, list, sizes.n);
    }
    return ot_batch_on(r, n, a);
}

const ot_op ot_op_Resize = {
    .name = "Resize",
    .types = { "Trri", .T = OT_SET_COMMON },
    .slots = "~---",
    .since = 19,
    .in = { 1, 4 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .nondiff = 0xe,
    .attrs = resize_rows,
    .attr_size = sizeof(resize_attrs),
    .infer = resize_infer,
    .lower = resize_lower,
    .batch = resize_batch,
};
