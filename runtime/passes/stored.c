/* stored.c - trains weights that a file stores as integers or small floats before a DequantizeLinear.
 *
 * The value of the weight gets floats (number of the file less zero point, times scale), and its DequantizeLinear
 * rounds them by itself, as after pass fake_quant: a step computes with the values that the file will contain, and the
 * gradient passes the rounding (straight-through), 0 where it saturates.  The exported file contains numbers of the
 * stored type again, unchanged where the weight did not change.
 *
 * Scales   the file's; or fitted: largest magnitude / largest integer if all zero points are in the middle, else
 *          (max - min) over the range with a zero point that is exact.  A bias of int32 has the product of two scales:
 *          it follows the weight's. */
#include "runtime/passes/stored.h"

#include <math.h>
#include <string.h>

#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/onnx/quantize.h"
#include "ops/kernels/reduce.h"

bool ot_stored_type(ot_dtype t)
{
    int bits = ot_dtype_bits(t);
    return (ot_is_int(t) && bits <= 32) || (ot_is_float(t) && bits <= 8 && t != OT_F8E8M0);
}

/* ---- elements ------------------------------------------------------------------------- */

static double highest(ot_dtype t)
{
    if (ot_is_float(t)) return ot_float_decode(ot_float_encode(INFINITY, t, true), t);
    return ldexp(1, ot_dtype_bits(t) - ot_is_signed(t)) - 1;
}

static double lowest(ot_dtype t)
{
    if (ot_is_float(t)) return -highest(t);
    return ot_is_signed(t) ? -ldexp(1, ot_dtype_bits(t) - 1) : 0;
}

/* The index of the scale of element i of a weight of shape s. */
static int64_t scale_at(const ot_stored *q, const ot_shape *s, int64_t i)
{
    int64_t inner = 1;
    if (q->axis < 0) return 0;
    for (int d = q->axis + 1; d < s->rank; d++) inner *= s->dim[d];
    int64_t n = s->dim[q->axis], at = i / inner % n;
    if (!q->block) return at;
    int64_t blocks = n / q->block + (n % q->block != 0);
    return (i / inner / n * blocks + at / q->block) * inner + i % inner;
}

static double zero_of(const ot_stored *q, int64_t k)
{
    return q->zero ? ot_get_f64(q->zero->data, q->zero->dtype, k) : 0;
}

/* The value of integer v after DequantizeLinear, in the type of the master. */
static double dequantised(const ot_stored *q, ot_dtype t, double v, int64_t k)
{
    double scale = ot_get_f64(q->scale->data, q->scale->dtype, k), less = v - zero_of(q, k);
    return t == OT_F64 ? less * scale : (double)((float)less * (float)scale);
}

/* x / scale in type t, rounded to an integer if the file stores integers.  Rounds as the kernels do. */
static double quantised(const ot_stored *q, ot_dtype t, double x, double scale)
{
    double u = t == OT_F64 ? x / scale : (double)((float)x / (float)scale);
    return ot_is_float(q->dtype) ? u : rint(u);
}

/* ---- reading ----------------------------------------------------------------------------- */

bool ot_same_elements(const ot_value *a, const ot_value *b)
{
    if (a == b) return true;
    return a && b && ot_is_const(a) && ot_is_const(b) && a->dtype == b->dtype && ot_shape_eq(&a->shape, &b->shape) &&
           !memcmp(a->data, b->data, ot_bytes(&a->shape, a->dtype));
}

static const ot_value *zero_point(const ot_node *n) { return ot_node_in(n, 2); }

bool ot_stored_alike(const ot_node *a, const ot_node *b)
{
    const ot_dequantize *p = a->attrs, *q = b->attrs;
    return p->block_size == q->block_size && p->axis == q->axis && ot_same_elements(a->in[1], b->in[1]) &&
           ot_same_elements(zero_point(a), zero_point(b));
}

/* Shapes of scale and zero point are checked later, by the node; invalid ones are ignored here. */
static bool describe(const ot_value *v, const ot_node *n, ot_stored *q)
{
    const ot_dequantize *a = n->attrs;
    const ot_value *s = n->in[1], *z = zero_point(n);
    *q = (ot_stored){
        .dtype = v->dtype, .axis = -1, .block = a->block_size, .scale = s, .zero = z, .elements = v->data
    };
    if (!ot_is_const(s) || !ot_is_float(s->dtype) || (z && (!ot_is_const(z) || z->dtype != v->dtype))) return false;
    if (z && !ot_shape_eq(&z->shape, &s->shape) && (ot_numel(&z->shape) != 1 || ot_numel(&s->shape) != 1)) return false;
    for (int64_t i = 0, k = ot_numel(&s->shape); i < k; i++) {
        double x = ot_get_f64(s->data, s->dtype, i);
        if (x == 0 || !isfinite(x)) return false; /* symmetric blocks of ONNX Runtime have negative scales */
        if (ot_is_float(v->dtype) && zero_of(q, i) != 0) return false;
    }
    if (!q->block && ot_numel(&s->shape) == 1 && s->shape.rank <= 1) return true;
    if (!ot_axis(a->axis, v->shape.rank, &q->axis) || q->block < 0) return false;
    if (!q->block) return s->shape.rank == 1 && s->shape.dim[0] == v->shape.dim[q->axis];
    for (int d = 0; d < v->shape.rank; d++) {
        int64_t n_of = v->shape.dim[d];
        if (s->shape.rank != v->shape.rank ||
            s->shape.dim[d] != (d == q->axis ? n_of / q->block + (n_of % q->block != 0) : n_of))
            return false;
    }
    return true;
}

bool ot_stored_widen(ot_graph *g, ot_value *v, const ot_node *reader)
{
    ot_stored q, *kept;
    if (!ot_stored_type(v->dtype) || !describe(v, reader, &q)) return false;
    ot_dtype t = q.scale->dtype == OT_F64 ? OT_F64 : OT_F32;
    if (!ot_shape_fits(&v->shape, t)) return false;
    void *floats = ot_graph_alloc(g, ot_bytes(&v->shape, t) + 1);
    kept = ot_graph_alloc(g, sizeof *kept);
    if (!floats || !kept) return false;
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i++)
        ot_set_f64(floats, t, i, dequantised(&q, t, ot_get_f64(v->data, q.dtype, i), scale_at(&q, &v->shape, i)));
    *kept = q;
    v->stored = kept;
    v->dtype = t;
    v->data = floats;
    return true;
}

void ot_stored_restore(ot_value *v)
{
    v->dtype = v->stored->dtype;
    v->data = v->stored->elements;
    v->stored = NULL;
}

bool ot_stored_read(ot_graph *g, ot_node *n)
{
    ot_dequantize *a = ot_graph_alloc(g, sizeof *a);
    if (!a) return false;
    *a = *(const ot_dequantize *)n->attrs;
    a->through = n->in[0]->stored->dtype;
    a->divide = n->in[0]->dtype;
    n->attrs = a;
    return true;
}

/* ---- scales that follow the weights ---------------------------------------------------------- */

static bool symmetric(const ot_stored *q)
{
    double middle = ot_is_signed(q->dtype) ? 0 : ldexp(1, ot_dtype_bits(q->dtype) - 1);
    for (int64_t i = 0, n = ot_numel(&q->scale->shape); i < n; i++)
        if (zero_of(q, i) != middle) return false;
    return true;
}

/* Is s a tensor of the file that is read only as scale or zero point of v?  (NULL: there is none.) */
static bool own(const ot_graph *g, const ot_uses *u, const ot_value *s, const ot_value *v)
{
    if (!s) return true;
    for (int k = u->first[s->id]; k < u->first[s->id + 1]; k++)
        if (u->list[k].node->in[0] != v || u->list[k].node->graph != g) return false;
    return s->source >= 0 && !u->output[s->id];
}

/* Does a body of an If, Loop or Scan read v?  The nodes that compute a new scale stand outside. */
static bool is_captured(const ot_graph *g, const ot_uses *u, const ot_value *v)
{
    for (int k = u->first[v->id]; k < u->first[v->id + 1]; k++)
        if (u->list[k].node->graph != g) return true;
    return false;
}

/* May the scale of v, and its zero point if that moves, follow the elements of v?  Once: a fitted one is not fitted again. */
static bool may_fit(const ot_graph *g, const ot_uses *u, const ot_value *v)
{
    const ot_stored *q = v->stored;
    return v->role == OT_WEIGHT && q && !q->block && !q->fitted && own(g, u, q->scale, v) && !is_captured(g, u, v) &&
           (!ot_stored_moves(v) || (q->zero && own(g, u, q->zero, v)));
}

/* Adds the int32 biases of the layers that read dw, the dequantised w; false: one of them cannot follow w's scale. */
static bool biases_at(const ot_graph *g, const ot_uses *u, const ot_value *w, const ot_value *dw, ot_value **list,
                      int *n_list, int most)
{
    for (int k = u->first[dw->id]; k < u->first[dw->id + 1]; k++) {
        const ot_slot_use *at = &u->list[k];
        const ot_value *bias = at->input == 1 ? ot_node_in(at->node, 2) : NULL;
        const ot_node *db = bias ? bias->producer : NULL;
        if (!db || db->op != &ot_op_DequantizeLinear) continue;
        ot_value *b = db->in[0];
        if (!b->stored || b->stored->dtype != OT_I32 || !may_fit(g, u, b) || *n_list == most ||
            ot_numel(&b->stored->scale->shape) != ot_numel(&w->stored->scale->shape))
            return false;
        list[(*n_list)++] = b;
    }
    return true;
}

/* The int32 biases of the layers with weight w; false: one of them cannot follow w's scale. */
static bool biases_of(const ot_graph *g, const ot_uses *u, const ot_value *w, ot_value **list, int *n_list, int most)
{
    *n_list = 0;
    for (int k = u->first[w->id]; k < u->first[w->id + 1]; k++) {
        const ot_node *n = u->list[k].node;
        if (n->op == &ot_op_DequantizeLinear && !biases_at(g, u, w, n->out[0], list, n_list, most)) return false;
    }
    return true;
}

static ot_value *by(ot_build *b, int row, ot_value *x, double v)
{
    return ot_broken(b) ? NULL : ot_map2(b, row, 0, 0, x, ot_scalar(b, x->dtype, v));
}

/* The scale of w as a value, and its zero point if that changes too; fit() computes the same on the host. */
static ot_value *fitted_scale(ot_build *b, ot_value *w, ot_value **zero)
{
    const ot_stored *q = w->stored;
    int64_t all = ((int64_t)1 << w->shape.rank) - 1, over = q->axis < 0 ? all : all & ~((int64_t)1 << q->axis);
    double low = lowest(q->dtype), high = highest(q->dtype);
    ot_value *s, *from = NULL, *file = ot_cast(b, (ot_value *)(uintptr_t)q->scale, w->dtype);
    *zero = NULL;
    if (symmetric(q)) {
        s = ot_reduce_axes(b, ot_map1(b, OT_FN_Abs, 0, 0, w), OT_REDUCE_MAX, over, false);
        s = by(b, OT_FN_Div, s, ot_is_signed(q->dtype) ? high : high - ldexp(1, ot_dtype_bits(q->dtype) - 1));
    } else {
        from = by(b, OT_FN_Min, ot_reduce_axes(b, w, OT_REDUCE_MIN, over, false), 0);
        s = by(b, OT_FN_Max, ot_reduce_axes(b, w, OT_REDUCE_MAX, over, false), 0);
        if (!ot_broken(b)) s = by(b, OT_FN_Div, ot_map2(b, OT_FN_Sub, 0, 0, s, from), high - low);
    }
    if (ot_broken(b)) return NULL;
    s = ot_view(b, s, &q->scale->shape);
    s = ot_cast(b, ot_map3(b, OT_FN_Where, 0, 0, by(b, OT_FN_Greater, s, 0), s, file), q->scale->dtype);
    if (!from || ot_broken(b)) return s;
    ot_value *z = ot_map2(b, OT_FN_Div, 0, 0, ot_view(b, from, &q->scale->shape), ot_cast(b, s, w->dtype));
    z = ot_map2(b, OT_FN_Quantize, low, high, ot_map1(b, OT_FN_Neg, 0, 0, z), ot_scalar(b, w->dtype, low));
    *zero = ot_cast(b, z, q->dtype);
    if (!ot_broken(b) && q->zero) *zero = ot_view(b, *zero, &q->zero->shape);
    return s;
}

/* Every DequantizeLinear of w reads these; they are computed before the first. */
static void give(const ot_uses *u, const ot_value *w, ot_value *scale, ot_value *zero)
{
    for (int k = u->first[w->id]; k < u->first[w->id + 1]; k++) {
        const ot_node *n = u->list[k].node;
        if (n->op != &ot_op_DequantizeLinear || u->list[k].input) continue;
        n->in[1] = scale;
        if (zero && n->n_in > 2) n->in[2] = zero;
    }
}

static bool set_fitted(ot_graph *g, ot_value *v, const ot_value *like)
{
    ot_stored *q = ot_graph_alloc(g, sizeof *q);
    if (!q) return false;
    *q = *v->stored;
    q->fitted = true;
    q->like = like;
    v->stored = q;
    return true;
}

enum { MOST_BIASES = 64 };

static ot_status fit_weight(ot_graph *g, const ot_uses *u, ot_value *w, ot_value **bias, int n)
{
    ot_build b = { .graph = g };
    ot_value *zero, *file = (ot_value *)(uintptr_t)w->stored->scale;
    g->cursor = g->first; /* weights have no producers */
    ot_value *s = fitted_scale(&b, w, &zero);
    for (int i = 0; i < n && s; i++) {
        ot_value *own_scale = (ot_value *)(uintptr_t)bias[i]->stored->scale;
        ot_value *grown = ot_map2(&b, OT_FN_Div, 0, 0, ot_cast(&b, s, OT_F32), ot_cast(&b, file, OT_F32));
        if (!ot_broken(&b)) grown = ot_view(&b, grown, &own_scale->shape);
        if (!ot_broken(&b)) grown = ot_map2(&b, OT_FN_Mul, 0, 0, ot_cast(&b, own_scale, OT_F32), grown);
        if (!ot_broken(&b)) give(u, bias[i], ot_cast(&b, grown, own_scale->dtype), NULL);
        if (!set_fitted(g, bias[i], w)) break;
    }
    g->cursor = NULL;
    if (s && !ot_broken(&b)) give(u, w, s, zero);
    (void)set_fitted(g, w, NULL); /* errors stick in the graph */
    return g->err->status;
}

ot_status ot_stored_fit(ot_plan *p, const ot_uses *u)
{
    ot_graph *g = p->graph;
    ot_value *bias[MOST_BIASES];
    int n;
    for (int i = 0, all = g->n_values; i < all; i++) {
        ot_value *w = g->values[i];
        if (w->role != OT_WEIGHT || !w->stored || w->stored->dtype == OT_I32) continue;
        if (may_fit(g, u, w) && biases_of(g, u, w, bias, &n, MOST_BIASES)) OT_TRY(fit_weight(g, u, w, bias, n));
        else
            ot_find(
                ot_plan_findings(p), OT_FINDING_WARNING, w->name, NULL,
                "--quantized-scales recompute: these weights keep their scale, because other nodes, the body of an If, "
                "Loop or Scan, an output, or a bias that does not train use it");
    }
    return g->err->status;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* The fitted scale and zero point k of w, given its elements. */
static void fit(const ot_value *w, const void *bytes, double *scale, double *zero, int64_t n)
{
    const ot_stored *q = w->stored;
    double low = lowest(q->dtype), high = highest(q->dtype),
           middle = ot_is_signed(q->dtype) ? 0 : ldexp(1, ot_dtype_bits(q->dtype) - 1);
    bool even = symmetric(q);
    for (int64_t k = 0; k < n; k++) scale[k] = zero[k] = 0; /* max, min so far */
    for (int64_t i = 0, all = ot_numel(&w->shape); i < all; i++) {
        int64_t k = scale_at(q, &w->shape, i);
        double x = ot_get_f64(bytes, w->dtype, i);
        if (even) x = fabs(x);
        if (x > scale[k]) scale[k] = x;
        if (x < zero[k]) zero[k] = x;
    }
    for (int64_t k = 0; k < n; k++) {
        double from = zero[k], range = even ? high - middle : high - low;
        bool wide = w->dtype == OT_F64;
        double s = wide ? (scale[k] - from) / range : (double)(((float)scale[k] - (float)from) / (float)range);
        char one[8];
        if (!(s > 0)) s = ot_get_f64(q->scale->data, q->scale->dtype, k);
        ot_set_f64(one, q->scale->dtype, 0, s);
        scale[k] = ot_get_f64(one, q->scale->dtype, 0);
        zero[k] = even ? middle : fmin(fmax(quantised(q, w->dtype, -from, scale[k]) + low, low), high);
    }
}

int64_t ot_stored_scales(const ot_value *w) { return ot_numel(&w->stored->scale->shape); }

/* Does the fitted zero point change?  A centred one stays, and a bias keeps its own. */
bool ot_stored_moves(const ot_value *w) { return w->stored->dtype != OT_I32 && !symmetric(w->stored); }

ot_status ot_stored_write(const ot_value *w, const void *bytes, const void *like, double *scale, double *zero,
                          void *out)
{
    const ot_stored *q = w->stored, *l = q->like ? q->like->stored : NULL;
    double low = lowest(q->dtype), high = highest(q->dtype);
    int64_t n = ot_stored_scales(w);
    if (q->fitted) fit(l ? q->like : w, l ? like : bytes, scale, zero, n);
    for (int64_t k = 0; k < n; k++) {
        double is = ot_get_f64(q->scale->data, q->scale->dtype, k);
        char one[8];
        if (l)
            ot_set_f64(one, q->scale->dtype, 0,
                       (double)((float)is * ((float)scale[k] / (float)ot_get_f64(l->scale->data, l->scale->dtype, k))));
        if (l) scale[k] = ot_get_f64(one, q->scale->dtype, 0);
        if (!q->fitted) scale[k] = is;
        if (!q->fitted || l) zero[k] = zero_of(q, k);
    }
    for (int64_t i = 0, all = ot_numel(&w->shape); i < all; i++) {
        int64_t k = scale_at(q, &w->shape, i);
        double x = ot_get_f64(bytes, w->dtype, i), was = ot_get_f64(q->elements, q->dtype, i);
        bool same_as_before = !q->fitted && x == dequantised(q, w->dtype, was, k);
        double now = same_as_before ? was : fmin(fmax(quantised(q, w->dtype, x, scale[k]) + zero[k], low), high);
        if (!isfinite(x)) return OT_E_DIVERGED;
        ot_set_f64(out, q->dtype, i, now);
    }
    return OT_OK;
}
