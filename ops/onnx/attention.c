/* attention.c - Attention: softmax(scale Q.K^T + mask) V, with a cache, grouped heads and several kinds of mask.
 *
 * Spec    ai.onnx Attention 23, 24, 25.
 * Shapes  Q: (B, Hq, T, D) or (B, T, Hq D)   K, V: (B, Hk, s, D), (B, Hk, s, E), or of rank 3 likewise
 *         past: (B, Hk, P, .)   present: (B, Hk, S = P + s, .)   Y: like Q, with E for D   scores: (B, Hq, T, S)
 * Grad    of Q, K, V, both pasts and a float mask
 *
 * The keys that a query attends to are given by one bool tensor (bool mask, causal, window, lengths), which replaces
 * hidden scores by a large negative number, and by a float mask that is added.  The result of a row without any visible
 * key is replaced by 0 after the second product, so that passes/recognise.c matches the plain cases. A float mask may
 * contain -inf: rows of -inf only are added as 0, so that no NaN reaches the gradient. */
#include "ops/kernels/copy.h"
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/softmax.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct attention_attrs {
    double scale, softcap;
    int64_t is_causal, q_num_heads, kv_num_heads, qk_matmul_output_mode, softmax_precision, left_window_size,
        right_window_size;
} attention_attrs;

static const ot_attr rows[] = {
    { "scale", OT_FLOAT, offsetof(attention_attrs, scale), 0, NULL },
    { "softcap", OT_FLOAT, offsetof(attention_attrs, softcap), 0, NULL },
    { "is_causal", OT_INT, offsetof(attention_attrs, is_causal), 0, NULL },
    { "q_num_heads", OT_INT, offsetof(attention_attrs, q_num_heads), 0, NULL },
    { "kv_num_heads", OT_INT, offsetof(attention_attrs, kv_num_heads), 0, NULL },
    { "qk_matmul_output_mode", OT_INT, offsetof(attention_attrs, qk_matmul_output_mode), 0, NULL },
    { "softmax_precision", OT_INT, offsetof(attention_attrs, softmax_precision), 0, NULL },
    { "left_window_size", OT_INT, offsetof(attention_attrs, left_window_size), -1, NULL },
    { "right_window_size", OT_INT, offsetof(attention_attrs, right_window_size), -1, NULL },
    { 0 },
};

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS };
enum { RAW, CAPPED, BIASED, PROBABILITIES };

typedef struct sizes {
    int64_t B, Hq, Hk, T, S, P, D, E;
} sizes;

/* (B, H, T, D) of a tensor of rank 4, or of rank 3 with `heads`. */
static ot_status four(const ot_node *n, int i, int64_t heads, ot_shape *s, ot_error *err)
{
    const ot_shape *x = &n->in[i]->shape;
    *s = *x;
    if (x->rank == 4 && (!heads || heads == x->dim[1])) return OT_OK;
    if (x->rank != 3)
        return ot_node_fail(n, err,
                            "input %d has rank %d; expected 3, or 4 with the number of heads of "
                            "the node",
                            i, x->rank);
    if (heads < 1 || x->dim[2] % heads)
        return ot_node_fail(n, err, "input %d has %lld channels, which cannot be divided into %lld heads", i,
                            (long long)x->dim[2], (long long)heads);
    *s = (ot_shape){ .rank = 4, .dim = { x->dim[0], heads, x->dim[1], x->dim[2] / heads } };
    return OT_OK;
}

static ot_status check_mask(const ot_node *n, const sizes *z, ot_error *err)
{
    const ot_value *m = ot_node_in(n, MASK), *l = ot_node_in(n, LENGTHS);
    ot_shape scores = { .rank = 4, .dim = { z->B, z->Hq, z->T, z->S } }, mask, all;
    char a[128], c[128];
    if (m) {
        mask = m->shape;
        if (mask.rank && mask.dim[mask.rank - 1] < z->S) mask.dim[mask.rank - 1] = z->S; /* is padded */
        if (!mask.rank || !ot_broadcast(&mask, &scores, &all) || !ot_shape_eq(&all, &scores))
            return ot_node_fail(n, err, "the mask is %s, the scores are %s", ot_shape_text(&m->shape, a),
                                ot_shape_text(&scores, c));
    }
    if (!l) return OT_OK;
    if (ot_node_in(n, PAST_KEY)) return ot_node_fail(n, err, "nonpad_kv_seqlen and past_key cannot be used together");
    if (l->shape.rank != 1 || l->shape.dim[0] != z->B)
        return ot_node_fail(n, err, "nonpad_kv_seqlen is %s; expected [%lld]", ot_shape_text(&l->shape, a),
                            (long long)z->B);
    return OT_OK;
}

static ot_status measure(const ot_node *n, sizes *z, ot_error *err)
{
    const attention_attrs *a = n->attrs;
    const ot_value *pk = ot_node_in(n, PAST_KEY), *pv = ot_node_in(n, PAST_VALUE);
    ot_shape q, k, v;
    OT_TRY(four(n, Q, a->q_num_heads, &q, err));
    OT_TRY(four(n, K, a->kv_num_heads, &k, err));
    OT_TRY(four(n, V, a->kv_num_heads, &v, err));
    *z = (sizes){
        .B = q.dim[0], .Hq = q.dim[1], .Hk = k.dim[1], .T = q.dim[2], .S = k.dim[2], .D = q.dim[3], .E = v.dim[3]
    };
    if (n->in[Q]->shape.rank != n->in[K]->shape.rank || n->in[Q]->shape.rank != n->in[V]->shape.rank ||
        k.dim[0] != z->B || v.dim[0] != z->B || k.dim[3] != z->D || v.dim[1] != z->Hk || v.dim[2] != z->S ||
        z->Hk < 1 || z->Hq % z->Hk)
        return ot_node_fail(n, err, "Q, K and V have different shapes");
    if (!pk != !pv) return ot_node_fail(n, err, "past_key and past_value must be given together");
    if (pk) {
        ot_shape want_k = { .rank = 4, .dim = { z->B, z->Hk, 0, z->D } },
                 want_v = { .rank = 4, .dim = { z->B, z->Hk, 0, z->E } };
        z->P = want_k.dim[2] = want_v.dim[2] = pk->shape.rank == 4 ? pk->shape.dim[2] : 0;
        if (!ot_shape_eq(&pk->shape, &want_k) || !ot_shape_eq(&pv->shape, &want_v))
            return ot_node_fail(n, err, "past_key and past_value do not match K and V");
        if (!ot_add(z->S, z->P, &z->S)) return ot_node_fail(n, err, "the result is too large");
    }
    return check_mask(n, z, err);
}

static ot_status attention_infer(ot_node *n, ot_error *err)
{
    const attention_attrs *a = n->attrs;
    ot_dtype t = n->in[Q]->dtype, v = n->in[V]->dtype;
    sizes z;
    OT_TRY(measure(n, &z, err));
    if (a->qk_matmul_output_mode < RAW || a->qk_matmul_output_mode > PROBABILITIES)
        return ot_node_fail(n, err, "qk_matmul_output_mode is %lld; expected 0 to 3",
                            (long long)a->qk_matmul_output_mode);
    if (a->softmax_precision &&
        (a->softmax_precision < 0 || a->softmax_precision > OT_BF16 || !(OT_SET_FLOAT >> a->softmax_precision & 1)))
        return ot_node_fail(n, err, "softmax_precision is type %lld; expected a floating-point type",
                            (long long)a->softmax_precision);
    if (!(a->softcap >= 0) || a->left_window_size < -1 || a->right_window_size < -1)
        return ot_node_fail(n, err, "softcap and the sizes of the window cannot be negative (-1: no window)");
    ot_shape y = { .rank = 4, .dim = { z.B, z.Hq, z.T, z.E } };
    if (n->in[Q]->shape.rank == 3) y = (ot_shape){ .rank = 3, .dim = { z.B, z.T, z.Hq * z.E } };
    ot_set(n->out[0], t, &y);
    if (n->n_out > 1) ot_set(n->out[1], n->in[K]->dtype, &(ot_shape){ .rank = 4, .dim = { z.B, z.Hk, z.S, z.D } });
    if (n->n_out > 2) ot_set(n->out[2], v, &(ot_shape){ .rank = 4, .dim = { z.B, z.Hk, z.S, z.E } });
    if (n->n_out > 3) ot_set(n->out[3], t, &(ot_shape){ .rank = 4, .dim = { z.B, z.Hq, z.T, z.S } });
    return OT_OK;
}

/* ---- Q, K and V ------------------------------------------------------------------ */

static const int heads_first[] = { 0, 2, 1, 3 };

/* (B, T, H D) as (B, H, T, D); a tensor of rank 4 is unchanged. */
static ot_value *split_heads(ot_build *b, ot_value *x, int64_t heads)
{
    if (ot_broken(b) || x->shape.rank == 4) return x;
    const int64_t *d = x->shape.dim;
    return ot_transpose(b, ot_view(b, x, &(ot_shape){ .rank = 4, .dim = { d[0], d[1], heads, d[2] / heads } }),
                        heads_first);
}

static ot_value *with_past(ot_build *b, ot_value *past, ot_value *x)
{
    if (!past || ot_broken(b)) return x;
    ot_piece *p = ot_pieces(b, 2);
    ot_shape y = x->shape;
    static const int64_t zero[4], one[4] = { 1, 1, 1, 1 };
    if (!p) return NULL;
    y.dim[2] += past->shape.dim[2];
    ot_piece_box(&p[0], &past->shape, zero, one, past->shape.dim);
    ot_piece_box(&p[1], &x->shape, zero, one, x->shape.dim);
    p[1].in = 1;
    p[1].dst[2] = past->shape.dim[2];
    return ot_copy_emit(b, &y, 0, p, 2, OT_IN(past, x));
}

/* Repeats every head of keys or values for each query head of its group. */
static ot_value *for_queries(ot_build *b, ot_value *x, const sizes *z)
{
    if (ot_broken(b) || z->Hq == z->Hk) return x;
    int64_t S = x->shape.dim[2], D = x->shape.dim[3], G = z->Hq / z->Hk;
    ot_shape one = { .rank = 5, .dim = { z->B, z->Hk, 1, S, D } }, all = one;
    all.dim[2] = G;
    return ot_view(b, ot_expand(b, ot_view(b, x, &one), &all), &(ot_shape){ .rank = 4, .dim = { z->B, z->Hq, S, D } });
}

/* ---- masks -------------------------------------------------------------------------- */

typedef struct masks {
    ot_value *open; /* bool: visible keys; NULL: all */
    ot_value *bias; /* added to the scores; NULL: nothing */
    ot_value *some; /* bool, (.., T or 1, 1): rows with a visible key; NULL: all rows */
} masks;

static ot_value *both(ot_build *b, ot_value *m, ot_value *n)
{
    return !m ? n : !n ? m : ot_map2(b, OT_FN_And, 0, 0, m, n);
}

/* The mask of the node, extended to the number of keys: missing columns are hidden. */
static ot_value *whole_mask(ot_build *b, ot_value *m, int64_t S)
{
    if (ot_broken(b) || m->shape.dim[m->shape.rank - 1] >= S) return m;
    static const int64_t zero[OT_MAX_RANK], one[OT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    ot_piece *p = ot_pieces(b, 1);
    ot_shape y = m->shape;
    if (!p) return NULL;
    ot_piece_box(p, &m->shape, zero, one, m->shape.dim);
    y.dim[y.rank - 1] = S;
    return ot_copy_emit(b, &y, m->dtype == OT_BOOL ? 0 : -(double)INFINITY, p, 1, &m, 1);
}

/* Key j minus query i, (T, S). */
static ot_value *distances(ot_build *b, const sizes *z)
{
    ot_shape s = { .rank = 2, .dim = { z->T, z->S } };
    int64_t *d = ot_broken(b) ? NULL : ot_graph_alloc(b->graph, ot_bytes(&s, OT_I64) + 1);
    for (int64_t i = 0; d && i < z->T; i++)
        for (int64_t j = 0; j < z->S; j++) d[i * z->S + j] = j - i;
    return d ? ot_graph_const_of(b->graph, "", OT_I64, &s, d) : NULL;
}

/* Causality and window: j - i is visible from offset - left to offset + right. */
typedef struct band {
    bool low, high;
    int64_t left, right;
} band;

static band band_of(const attention_attrs *a)
{
    band w = { .low = a->left_window_size >= 0,
               .left = a->left_window_size,
               .high = a->is_causal || a->right_window_size >= 0 };
    w.right = a->is_causal ? 0 : a->right_window_size;
    return w;
}

/* The offset as a constant. */
static ot_value *fixed_band(ot_build *b, const sizes *z, band w)
{
    ot_shape s = { .rank = 2, .dim = { z->T, z->S } };
    uint8_t *m = ot_broken(b) ? NULL : ot_graph_alloc(b->graph, ot_bytes(&s, OT_BOOL) + 1);
    for (int64_t i = 0; m && i < z->T; i++)
        for (int64_t j = 0; j < z->S; j++) {
            int64_t ahead = j - i - z->P;
            m[i * z->S + j] = (!w.low || -ahead <= w.left) && (!w.high || ahead <= w.right);
        }
    return m ? ot_graph_const_of(b->graph, "", OT_BOOL, &s, m) : NULL;
}

/* If every sample has its own length: (B, 1, T, S), hiding the keys after it. */
static ot_value *band_by_lengths(ot_build *b, ot_value *lengths, const sizes *z, band w)
{
    ot_shape each = { .rank = 4, .dim = { z->B, 1, 1, 1 } }, line = { .rank = 1, .dim = { z->S } };
    int64_t *j = ot_broken(b) ? NULL : ot_graph_alloc(b->graph, ot_bytes(&line, OT_I64) + 1);
    if (!j) return NULL;
    for (int64_t k = 0; k < z->S; k++) j[k] = k;
    ot_value *n = ot_view(b, lengths, &each), *d = w.low || w.high ? distances(b, z) : NULL;
    ot_value *m = ot_map2(b, OT_FN_Less, 0, 0, ot_graph_const_of(b->graph, "", OT_I64, &line, j), n);
    if (w.high)
        m = both(b, m,
                 ot_map2(b, OT_FN_LessOrEqual, 0, 0, d,
                         ot_map2(b, OT_FN_Add, 0, 0, n, ot_scalar(b, OT_I64, (double)(w.right - z->T)))));
    if (w.low)
        m = both(b, m,
                 ot_map2(b, OT_FN_LessOrEqual, 0, 0,
                         ot_map2(b, OT_FN_Sub, 0, 0, n, ot_scalar(b, OT_I64, (double)(w.left + z->T))), d));
    return m;
}

/* Does every row of a constant mask have a visible key?  false too if the mask is not constant. */
static bool open_everywhere(const ot_value *m)
{
    if (!ot_is_const(m) || !m->shape.rank) return false;
    int64_t S = m->shape.dim[m->shape.rank - 1], all = ot_numel(&m->shape);
    for (int64_t at = 0; at < all; at += S) {
        bool some = false;
        for (int64_t j = at; j < at + S && !some; j++)
            some = m->dtype == OT_BOOL ? ot_get_i64(m->data, m->dtype, j) != 0
                                       : ot_get_f64(m->data, m->dtype, j) > -(double)INFINITY;
        if (!some) return false;
    }
    return true;
}

static ot_value *rows_with_some(ot_build *b, const masks *m)
{
    if (ot_broken(b)) return NULL;
    if ((!m->open || open_everywhere(m->open)) && (!m->bias || (!m->open && open_everywhere(m->bias)))) return NULL;
    ot_value *seen =
        m->bias ? ot_map2(b, OT_FN_Greater, 0, 0, m->bias, ot_scalar(b, m->bias->dtype, -(double)INFINITY)) : NULL;
    seen = ot_cast(b, both(b, m->open, seen), OT_F32);
    if (ot_broken(b)) return NULL;
    seen = ot_reduce_axes(b, seen, OT_REDUCE_MAX, (int64_t)1 << (seen->shape.rank - 1), true);
    return ot_map2(b, OT_FN_Greater, 0, 0, seen, ot_scalar(b, OT_F32, 0));
}

static masks make_masks(ot_build *b, const sizes *z)
{
    const ot_node *n = b->node;
    ot_value *given = ot_node_in(n, MASK), *lengths = ot_node_in(n, LENGTHS);
    band w = band_of(n->attrs);
    masks m = { 0 };
    if (given) {
        given = whole_mask(b, given, z->S);
        if (n->in[MASK]->dtype == OT_BOOL) m.open = given;
        else m.bias = ot_cast(b, given, n->in[Q]->dtype);
    }
    if (lengths) m.open = both(b, m.open, band_by_lengths(b, lengths, z, w));
    else if (w.low || w.high) m.open = both(b, m.open, fixed_band(b, z, w));
    m.some = rows_with_some(b, &m);
    return m;
}

/* ---- the whole ------------------------------------------------------------------------- */

static ot_value *by(ot_build *b, int row, ot_value *x, double v)
{
    return ot_broken(b) ? NULL : ot_map2(b, row, 0, 0, x, ot_scalar(b, x->dtype, v));
}

/* Replaces hidden scores by a number far below all others. */
static ot_value *hide(ot_build *b, ot_value *scores, ot_value *open, double by_what)
{
    if (!open || ot_broken(b)) return scores;
    return ot_map3(b, OT_FN_Where, 0, 0, open, scores, ot_scalar(b, scores->dtype, by_what));
}

static ot_value *zero_unless(ot_build *b, ot_value *some, ot_value *y)
{
    return !some || ot_broken(b) ? y : ot_map3(b, OT_FN_Where, 0, 0, some, y, ot_scalar(b, y->dtype, 0));
}

/* Scores and softmax; output 3 if requested. */
static ot_value *probabilities(ot_build *b, ot_value *q, ot_value *k, const sizes *z, const masks *m)
{
    const ot_node *n = b->node;
    const attention_attrs *a = n->attrs;
    ot_dtype t = n->in[Q]->dtype, soft = a->softmax_precision ? (ot_dtype)a->softmax_precision : t;
    double scale = a->scale != 0 ? a->scale : 1 / sqrt((double)(z->D ? z->D : 1));
    ot_value *shown = NULL, *scores;
    /* In float16 the product could overflow before it is scaled. */
    if (t == OT_F16) scores = ot_matmul(b, by(b, OT_FN_Mul, q, scale), false, k, true);
    else scores = by(b, OT_FN_Mul, ot_matmul(b, q, false, k, true), scale);
    shown = scores;
    if (a->softcap > 0)
        scores = by(b, OT_FN_Mul, ot_map1(b, OT_FN_Tanh, 0, 0, by(b, OT_FN_Div, scores, a->softcap)), a->softcap);
    if (a->qk_matmul_output_mode == CAPPED) shown = scores;
    if (a->qk_matmul_output_mode == BIASED && n->n_out > 3 && n->out[3]) {
        shown = m->bias ? ot_map2(b, OT_FN_Add, 0, 0, scores, m->bias) : scores;
        shown = hide(b, shown, m->open, -(double)INFINITY);
    }
    if (m->bias) scores = ot_map2(b, OT_FN_Add, 0, 0, scores, zero_unless(b, m->some, m->bias));
    scores = ot_cast(b, hide(b, scores, m->open, t == OT_F16 ? -65504 : -1e9), soft);
    ot_value *p = ot_emit(b, &ot_op_SoftmaxAxis, &(ot_softmax_axis){ .axis = 3 }, OT_IN(scores));
    p = ot_cast(b, p, t);
    if (a->qk_matmul_output_mode == PROBABILITIES) shown = zero_unless(b, m->some, p);
    if (n->n_out > 3 && n->out[3]) ot_yield(b, 3, shown);
    return p;
}

static void attention_lower(ot_build *b)
{
    const ot_node *n = b->node;
    const attention_attrs *a = n->attrs;
    sizes z;
    if (measure(n, &z, b->graph->err) != OT_OK) return;
    ot_value *q = split_heads(b, n->in[Q], a->q_num_heads);
    ot_value *k = with_past(b, ot_node_in(n, PAST_KEY), split_heads(b, n->in[K], a->kv_num_heads));
    ot_value *v = with_past(b, ot_node_in(n, PAST_VALUE), split_heads(b, n->in[V], a->kv_num_heads));
    if (n->n_out > 1 && n->out[1]) ot_yield(b, 1, k);
    if (n->n_out > 2 && n->out[2]) ot_yield(b, 2, v);
    masks m = make_masks(b, &z);
    ot_value *p = probabilities(b, q, for_queries(b, k, &z), &z, &m);
    if (ot_broken(b)) return;
    ot_value *y = ot_matmul(b, ot_cast(b, p, n->in[V]->dtype), false, for_queries(b, v, &z), false);
    y = ot_cast(b, zero_unless(b, m.some, y), n->in[Q]->dtype);
    if (n->in[Q]->shape.rank == 3) y = ot_view(b, ot_transpose(b, y, heads_first), &n->out[0]->shape);
    ot_yield(b, 0, y);
}

/* Q, K, V, the cache and its lengths; a mask broadcasts to the scores, (B, heads, queries, keys). */
static bool attention_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    unsigned set = 0x77;
    if (ot_batch_given(n, MASK)) {
        ot_value *m = n->in[MASK];
        ot_shape s = ot_own_shape(b, m), p = ot_padded_shape(&s, 4);
        if (s.rank > 4 || p.dim[0] != (m->mark || s.rank == 4 ? own[0].dim[0] : 1)) return false;
        if (m->mark && !(r->in[MASK] = ot_batch_placed(b, m, 4, 0))) return false;
        if (!m->mark && p.dim[0] != 1 && !(r->in[MASK] = ot_batch_spread(b, m, 0))) return false;
    }
    for (int i = 0; i < n->n_in; i++)
        if (set >> i & 1 && ot_batch_given(n, i) && !(r->in[i] = ot_batch_spread(b, n->in[i], 0))) return false;
    return ot_batch_on(r, n, 0);
}

const ot_op ot_op_Attention = {
    .name = "Attention",
    .types = { "TTUVTUi", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT, .V = OT_SET_FLOAT | OT_TYPE(OT_BOOL) },
    .slots = "WWWj---",
    .since = 25,
    .in = { 3, 7 },
    .out = { 1, 4 },
    .nondiff = 1u << LENGTHS,
    .attrs = rows,
    .attr_size = sizeof(attention_attrs),
    .infer = attention_infer,
    .lower = attention_lower,
    .batch = attention_batch,
};
