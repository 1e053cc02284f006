/* sample.c - samples a tensor at fractional coordinates, with index arithmetic, one Take and a weighted sum.
 *
 * Grad      to the rows through Take; to the coordinates through the weights, which are polynomials of the distance
 *           to the tap below.  The choice of taps is not differentiable: at an element the slope is that of the side
 *           above.
 * Numerics  weights and sums are float32 or float64. */
#include "ops/kernels/sample.h"

#include "ops/kernels/arith.h"
#include "ops/kernels/move.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/take.h"

enum { TAPS = 4, POWERS = 4 };

/* Weight of tap k at distance t from the element below: a polynomial of t. */
typedef struct taps {
    int n, first; /* the offset of the tap `first`, in elements */
    double power[POWERS][TAPS];
} taps;

static const taps kinds[] = {
    [OT_SAMPLE_LINEAR] = { 2, 0, { { 1, 0 }, { -1, 1 } } },
    [OT_SAMPLE_NEAREST] = { 1, 0, { { 1 } } },
    [OT_SAMPLE_CUBIC] = { 4,
                          -1,
                          { { 0, 1, 0, 0 },
                            { -0.75, 0, 0.75, 0 },
                            { 1.5, -2.25, 1.5, -0.75 },
                            { -0.75, 1.25, -1.25, 0.75 } } },
};

ot_value *ot_line(ot_build *b, ot_dtype t, const double *v, int64_t n, int axis, int rank)
{
    ot_shape s = { .rank = rank };
    if (ot_broken(b)) return NULL;
    for (int d = 0; d < rank; d++) s.dim[d] = d == axis ? n : 1;
    void *bytes = ot_graph_alloc(b->graph, ot_bytes(&s, t) + 1);
    if (!bytes) return NULL;
    for (int64_t i = 0; i < n; i++)
        if (v) ot_set_f64(bytes, t, i, v[i]);
        else ot_set_i64(bytes, t, i, i);
    return ot_graph_const_of(b->graph, "", t, &s, bytes);
}

/* x reflected at the borders as often as it crosses one: a triangle wave. */
static ot_value *reflect(ot_build *b, const ot_sample *s, int64_t n, ot_value *x)
{
    double lo = s->corners ? 0 : -0.5, span = s->corners ? (double)(n - 1) : (double)n;
    if (span <= 0) return ot_clip_by(b, x, 0, 0);
    ot_value *m = ot_plus_by(b, x, -lo);
    m = ot_map2(b, OT_FN_FloorMod, 0, 0, m, ot_scalar_like(b, m, 2 * span));
    m = ot_map1(b, OT_FN_Abs, 0, 0, ot_plus_by(b, m, -span));
    return ot_plus_by(b, ot_times_by(b, m, -1), lo + span);
}

/* The coordinate inside the borders that replaces one outside. */
static ot_value *inside(ot_build *b, const ot_sample *s, int64_t n, ot_value *x)
{
    double lo = s->corners ? 0 : -0.5, hi = s->corners ? (double)(n - 1) : (double)n - 0.5;
    if (s->padding == OT_SAMPLE_ZEROS) return x;
    ot_value *out =
        ot_map2(b, OT_FN_Or, 0, 0, ot_compare_by(b, OT_FN_Less, x, lo), ot_compare_by(b, OT_FN_Greater, x, hi));
    return ot_where(b, out, s->padding == OT_SAMPLE_BORDER ? ot_clip_by(b, x, 0, (double)(n - 1)) : reflect(b, s, n, x),
                    x);
}

/* Axis a: the positions of its taps (.., taps, .., M) int64, and their weights; a weight of NULL is 1. */
static void axis_taps(ot_build *b, const ot_sample *s, int a, ot_value **place, ot_value **weight)
{
    const taps *k = &kinds[s->mode];
    int64_t n = s->n[a];
    double offset[TAPS];
    ot_value *x = s->at[a], *w = NULL;
    if (s->mode == OT_SAMPLE_NEAREST) x = ot_map1(b, OT_FN_Round, 0, 0, x);
    if (s->mode != OT_SAMPLE_CUBIC) x = inside(b, s, n, x); /* cubic: each tap separately, below */
    ot_value *low = ot_map1(b, OT_FN_Floor, 0, 0, x), *t = ot_minus(b, x, low);
    if (ot_broken(b)) return;
    for (int i = 0; i < k->n; i++) offset[i] = k->first + i;
    ot_value *at = ot_plus(b, low, ot_line(b, t->dtype, offset, k->n, a, s->r + 1));
    for (int p = s->mode == OT_SAMPLE_CUBIC ? 3 : 1; p >= 0 && k->n > 1; p--) {
        ot_value *c = ot_line(b, t->dtype, k->power[p], k->n, a, s->r + 1);
        w = w ? ot_plus(b, ot_times(b, w, t), c) : c;
    }
    if (s->padding == OT_SAMPLE_ZEROS) {
        ot_value *in = ot_map2(b, OT_FN_And, 0, 0, ot_compare_by(b, OT_FN_GreaterOrEqual, at, 0),
                               ot_compare_by(b, OT_FN_LessOrEqual, at, (double)(n - 1)));
        w = w ? ot_where(b, in, w, ot_scalar_like(b, w, 0)) : ot_cast(b, in, t->dtype);
    } else if (s->padding == OT_SAMPLE_REFLECTION && s->mode == OT_SAMPLE_CUBIC) at = reflect(b, s, n, at);
    *place = ot_cast(b, ot_clip_by(b, at, 0, (double)(n - 1)), OT_I64);
    *weight = w;
}

ot_value *ot_sample_taps(ot_build *b, const ot_sample *s, ot_value *rows, ot_value *first)
{
    ot_value *place = first, *weight = NULL;
    int64_t step = 1;
    ot_shape ws;
    if (ot_broken(b)) return NULL;
    ot_dtype t = rows->dtype == OT_F64 || s->at[0]->dtype == OT_F64 ? OT_F64 : OT_F32;
    for (int a = s->r - 1; a >= 0; a--) {
        ot_value *p = NULL, *w = NULL;
        axis_taps(b, s, a, &p, &w);
        place = ot_plus(b, place, ot_times_by(b, p, (double)step));
        weight = weight && w ? ot_times(b, w, weight) : w ? w : weight;
        step *= s->n[a];
    }
    ot_value *y = ot_cast(b, ot_emit(b, &ot_op_Take, &(ot_take){ 0 }, OT_IN(rows, place)), t);
    if (ot_broken(b) || !weight) return y;
    ws = weight->shape;
    ws.dim[ws.rank++] = 1;
    return ot_times(b, y, ot_cast(b, ot_view(b, weight, &ws), t));
}

ot_value *ot_sample_rows(ot_build *b, const ot_sample *s, ot_value *rows, ot_value *first)
{
    return ot_reduce_axes(b, ot_sample_taps(b, s, rows, first), OT_REDUCE_SUM, ((int64_t)1 << s->r) - 1, false);
}

ot_value *ot_sample_x(ot_build *b, ot_value *x)
{
    if (ot_broken(b)) return NULL;
    int64_t N = x->shape.dim[0], C = x->shape.dim[1], P = 1;
    for (int d = 2; d < x->shape.rank; d++) P *= x->shape.dim[d];
    ot_value *y = ot_transpose(b, ot_view(b, x, &(ot_shape){ .rank = 3, .dim = { N, C, P } }), (int[]){ 0, 2, 1 });
    return ot_view(b, y, &(ot_shape){ .rank = 2, .dim = { N * P, C } });
}
