/* dft.c - DFT: the discrete Fourier transform along an axis; STFT: of windowed frames of a signal.
 *
 * Spec    ai.onnx DFT 17, 20; STFT 17.  Lengths, steps and axes must be constant.
 * Shapes  DFT: x: (.., n, .., 1 or 2), the last axis contains real and imaginary part   y: (.., m, .., 2), m the
 *         length, or length/2 + 1 onesided; inverse and onesided: y: (.., length, .., 1)
 *         STFT: x: (B, L), (B, L, 1) or
 *         (B, L, 2)  window: (length)   y: (B, frames, m, 2)
 * Grad    of what it is built from: products with constant matrices.
 * Numerics float16 and bfloat16 are transformed in float32.
 *
 * One product if the matrix is small; else n = p q is split: q transforms of length p, a multiplication of each number
 * by its twiddle factor, p transforms of length q. */
#include "ops/kernels/arith.h"
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

enum { DENSE = 1 << 21, LONGEST = 1 << 28 }; /* most elements of a matrix; of a transform */

static const double tau = 6.283185307179586;

/* x: (B, K, c).  y: (B, m, co), the sums of x[k] e^(sign i tau j k / n) times scale.  whole: x is half of a
 * spectrum, and its mirror image is added. */
typedef struct transform {
    int64_t n, m, co;
    int sign;
    bool whole;
} transform;

static ot_value *dense(ot_build *b, ot_value *x, const transform *t)
{
    if (ot_broken(b)) return NULL;
    int64_t B = x->shape.dim[0], K = x->shape.dim[1], c = x->shape.dim[2], all;
    ot_shape s = { .rank = 2, .dim = { K * c, t->m * t->co } };
    if (!ot_mul(s.dim[0], s.dim[1], &all) || !ot_shape_fits(&s, x->dtype)) {
        ot_node_fail(b->node, b->graph->err, "a transform of %lld elements is too large", (long long)t->n);
        return NULL;
    }
    void *v = ot_graph_alloc(b->graph, ot_bytes(&s, x->dtype) + 1);
    if (!v) return NULL;
    for (int64_t k = 0; k < K; k++)
        for (int64_t j = 0; j < t->m; j++) {
            double angle = tau * (double)(j * k % t->n) / (double)t->n, re = cos(angle), im = t->sign * sin(angle);
            double times = t->whole && k > 0 && 2 * k != t->n ? 2 : 1;
            double part[2][2] = { { re * times, im * times }, { -im * times, re * times } };
            for (int64_t i = 0; i < c; i++)
                for (int64_t o = 0; o < t->co; o++)
                    ot_set_f64(v, x->dtype, (k * c + i) * s.dim[1] + j * t->co + o, part[i][o]);
        }
    ot_value *y = ot_view(b, x, &(ot_shape){ .rank = 2, .dim = { B, K * c } });
    y = ot_matmul(b, y, false, ot_graph_const_of(b->graph, "", x->dtype, &s, v), false);
    return ot_view(b, y, &(ot_shape){ .rank = 3, .dim = { B, t->m, t->co } });
}

/* The largest divisor of n up to its root; 1: n is prime. */
static int64_t divisor(int64_t n)
{
    int64_t best = 1;
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0) best = d;
    return best;
}

/* Multiplies number (j, k) of x, (B, q, p, 2), by e^(sign i tau j k / n). */
static ot_value *turn(ot_build *b, ot_value *x, int64_t n, int sign)
{
    if (ot_broken(b)) return NULL;
    int64_t q = x->shape.dim[1], p = x->shape.dim[2], start[4] = { 0, 0, 0, 1 }, step[4] = { 1, 1, 1, -1 };
    ot_shape s = { .rank = 4, .dim = { 1, q, p, 2 } };
    void *re = ot_graph_alloc(b->graph, ot_bytes(&s, x->dtype) + 1),
         *im = ot_graph_alloc(b->graph, ot_bytes(&s, x->dtype) + 1);
    ot_piece *piece = ot_pieces(b, 1);
    if (!re || !im || !piece) return NULL;
    for (int64_t i = 0; i < q * p; i++) {
        double angle = tau * (double)(i / p * (i % p) % n) / (double)n;
        for (int64_t o = 0; o < 2; o++) {
            ot_set_f64(re, x->dtype, 2 * i + o, cos(angle));
            ot_set_f64(im, x->dtype, 2 * i + o, (o ? 1 : -1) * sign * sin(angle));
        }
    }
    ot_piece_box(piece, &x->shape, start, step, x->shape.dim);
    ot_value *swapped = ot_copy_emit(b, &x->shape, 0, piece, 1, &x, 1);
    return ot_plus(b, ot_times(b, x, ot_graph_const_of(b->graph, "", x->dtype, &s, re)),
                   ot_times(b, swapped, ot_graph_const_of(b->graph, "", x->dtype, &s, im)));
}

static ot_value *swap_middle(ot_build *b, ot_value *x, int64_t B, int64_t p, int64_t q, int64_t c)
{
    x = ot_view(b, x, &(ot_shape){ .rank = 4, .dim = { B, p, q, c } });
    return ot_broken(b) ? NULL : ot_transpose(b, x, (int[]){ 0, 2, 1, 3 });
}

/* All of the spectrum of x, (B, n, c): (B, n, 2). */
static ot_value *spectrum(ot_build *b, ot_value *x, int64_t n, int sign)
{
    if (ot_broken(b)) return NULL;
    int64_t B = x->shape.dim[0], c = x->shape.dim[2], p = n * n <= DENSE / (2 * c) ? 1 : divisor(n), q = n / p;
    if (p == 1) return dense(b, x, &(transform){ .n = n, .m = n, .co = 2, .sign = sign });
    x = ot_view(b, swap_middle(b, x, B, p, q, c), &(ot_shape){ .rank = 3, .dim = { B * q, p, c } });
    x = ot_view(b, spectrum(b, x, p, sign), &(ot_shape){ .rank = 4, .dim = { B, q, p, 2 } });
    x = swap_middle(b, turn(b, x, n, sign), B, q, p, 2);
    x = spectrum(b, ot_view(b, x, &(ot_shape){ .rank = 3, .dim = { B * p, q, 2 } }), q, sign);
    return ot_view(b, swap_middle(b, x, B, p, q, 2), &(ot_shape){ .rank = 3, .dim = { B, n, 2 } });
}

/* Elements from .. from + n of axis 1 of x, (B, K, c), backwards where step is -1; zeros beyond its end. */
static ot_value *cut(ot_build *b, ot_value *x, int64_t from, int64_t n, int64_t step)
{
    if (ot_broken(b)) return NULL;
    int64_t K = x->shape.dim[1], start[3] = { 0, from, 0 }, by[3] = { 1, step, 1 };
    ot_shape s = { .rank = 3, .dim = { x->shape.dim[0], n, x->shape.dim[2] } }, box = s;
    ot_piece *piece = ot_pieces(b, 1);
    if (!piece) return NULL;
    if (step > 0 && from + n > K) box.dim[1] = K - from;
    ot_piece_box(piece, &x->shape, start, by, box.dim);
    return ot_copy_emit(b, &s, 0, piece, 1, &x, 1);
}

/* Half a spectrum and its mirror image: (B, n, 2) of (B, n/2 + 1, c). */
static ot_value *mirrored(ot_build *b, ot_value *x, int64_t n)
{
    if (ot_broken(b)) return NULL;
    int64_t half = n / 2 + 1, rest = n - half;
    ot_value *back =
        ot_times(b, cut(b, x, rest, rest, -1), ot_line(b, x->dtype, (double[]){ 1, -1 }, x->shape.dim[2], 2, 3));
    struct {
        int64_t axis;
    } one = { 1 }, two = { 2 };
    x = rest ? ot_emit(b, &ot_op_Concat, &one, OT_IN(x, back)) : x;
    if (ot_broken(b) || x->shape.dim[2] == 2) return x;
    return ot_emit(b, &ot_op_Concat, &two, OT_IN(x, ot_times_by(b, x, 0)));
}

/* x: (B, K, 1 or 2).  y: (B, m, 2), or (B, n, 1) where inverse and onesided. */
static ot_value *transformed(ot_build *b, ot_value *x, int64_t n, bool inverse, bool onesided)
{
    if (ot_broken(b)) return NULL;
    bool real = inverse && onesided;
    transform t = {
        .n = n, .m = onesided && !inverse ? n / 2 + 1 : n, .co = real ? 1 : 2, .sign = inverse ? 1 : -1, .whole = real
    };
    int64_t K = real ? n / 2 + 1 : n, c = x->shape.dim[2];
    if (x->shape.dim[1] != K) x = cut(b, x, 0, K, 1);
    bool small = K * c <= DENSE / (t.m * t.co) || divisor(n) == 1;
    if (small) x = dense(b, x, &t);
    else {
        x = spectrum(b, real ? mirrored(b, x, n) : x, n, t.sign);
        if (t.m != n) x = cut(b, x, 0, t.m, 1);
        if (real && !ot_broken(b))
            x = cut(b, ot_view(b, x, &(ot_shape){ .rank = 3, .dim = { x->shape.dim[0] * n, 2, 1 } }), 0, 1, 1);
    }
    return inverse ? ot_times_by(b, x, 1 / (double)n) : x;
}

static ot_value *wide(ot_build *b, ot_value *x) { return x->dtype == OT_F64 ? x : ot_cast(b, x, OT_F32); }

/* A constant scalar, or `other` if it is missing. */
static ot_status scalar_input(const ot_node *n, int i, int64_t other, int64_t *out, ot_error *err)
{
    ot_ints v = { 0 };
    *out = other;
    if (i >= n->n_in || !n->in[i]) return OT_OK;
    OT_TRY(ot_const_ints(n, i, &v, err));
    if (v.n != 1) return ot_node_fail(n, err, "input %d has %d values, expected 1", i, v.n);
    *out = v.v[0];
    return OT_OK;
}

/* ---- DFT ------------------------------------------------------------------- */

typedef struct dft_attrs {
    int64_t inverse, onesided;
} dft_attrs;

static const ot_attr dft_rows[] = {
    { "inverse", OT_INT, offsetof(dft_attrs, inverse), 0, NULL },
    { "onesided", OT_INT, offsetof(dft_attrs, onesided), 0, NULL },
    { 0 },
};

static ot_status dft_resolve(const ot_node *n, int *axis, int64_t *length, ot_shape *y, ot_error *err)
{
    const dft_attrs *a = n->attrs;
    int64_t at;
    *y = n->in[0]->shape;
    int64_t c = y->rank > 1 ? y->dim[y->rank - 1] : 0;
    if (c != 1 && c != 2)
        return ot_node_fail(n, err, "the last axis of x must have 1 element, or 2 for complex numbers");
    if (a->onesided && !a->inverse && c == 2)
        return ot_node_fail(n, err,
                            "onesided needs real numbers, but x is "
                            "complex");
    OT_TRY(scalar_input(n, 2, -2, &at, err));
    OT_TRY(ot_node_axis(n, at, y->rank, axis, err));
    if (*axis == y->rank - 1)
        return ot_node_fail(n, err, "axis %lld is the last, which contains real and imaginary parts", (long long)at);
    int64_t size = y->dim[*axis];
    OT_TRY(scalar_input(n, 1, a->onesided && a->inverse ? 2 * (size - 1) : size, length, err));
    if (*length < 1 || *length > LONGEST)
        return ot_node_fail(n, err, "a transform of %lld elements; expected 1 to %d", (long long)*length, LONGEST);
    y->dim[*axis] = a->onesided && !a->inverse ? *length / 2 + 1 : *length;
    y->dim[y->rank - 1] = a->onesided && a->inverse ? 1 : 2;
    if (!ot_shape_fits(y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return OT_OK;
}

static ot_status dft_infer(ot_node *n, ot_error *err)
{
    int axis;
    int64_t length;
    ot_shape y;
    OT_TRY(dft_resolve(n, &axis, &length, &y, err));
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void dft_lower(ot_build *b)
{
    const dft_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0];
    ot_dtype t = x->dtype;
    int axis, perm[OT_MAX_RANK], rank = x->shape.rank;
    int64_t length, B = 1;
    ot_shape y;
    if (dft_resolve(b->node, &axis, &length, &y, b->graph->err) != OT_OK) return;
    for (int d = 0; d < rank; d++) {
        perm[d] = d;
        if (d != axis && d < rank - 1) B *= x->shape.dim[d];
    }
    perm[axis] = rank - 2; /* swaps the two axes, before and after */
    perm[rank - 2] = axis;
    x = ot_view(b, ot_transpose(b, wide(b, x), perm),
                &(ot_shape){ .rank = 3, .dim = { B, x->shape.dim[axis], x->shape.dim[rank - 1] } });
    x = transformed(b, x, length, a->inverse != 0, a->onesided != 0);
    ot_shape s = y;
    s.dim[axis] = y.dim[rank - 2];
    s.dim[rank - 2] = y.dim[axis];
    x = ot_view(b, x, &s);
    if (!ot_broken(b)) ot_yield(b, 0, ot_cast(b, ot_transpose(b, x, perm), t));
}

/* Along an axis, and along the last, which contains real and imaginary part. */
static bool dft_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int rank = n->in[0]->shape.rank, axis = rank - 2;
    if (!ot_batch_first_alone(n) || rank < 2) return false;
    if (ot_batch_given(n, 2) &&
        (!ot_is_const(n->in[2]) || !ot_axis(ot_get_i64(n->in[2]->data, n->in[2]->dtype, 0), rank, &axis)))
        return false;
    if (!ot_batch_mixed_along(b, n, INT64_C(1) << axis | INT64_C(1) << (rank - 1), 0, r)) return false;
    int64_t shifted = axis + 1;
    if (ot_batch_given(n, 2) && r->explicit_at >= 0) r->in[2] = ot_graph_const(b->g, "", OT_I64, &OT_SCALAR, &shifted);
    return true;
}

const ot_op ot_op_DFT = {
    .name = "DFT",
    .types = { "TUi", .T = OT_SET_FLOAT, .U = OT_SET_INDEX },
    .slots = "-",
    .since = 20,
    .in = { 1, 3 },
    .out = { 1, 1 },
    .nondiff = 6,
    .attrs = dft_rows,
    .attr_size = sizeof(dft_attrs),
    .infer = dft_infer,
    .lower = dft_lower,
    .batch = dft_batch,
};

/* ---- STFT ------------------------------------------------------------------ */

typedef struct stft_attrs {
    int64_t onesided;
} stft_attrs;

static const ot_attr stft_rows[] = {
    { "onesided", OT_INT, offsetof(stft_attrs, onesided), 1, NULL },
    { 0 },
};

typedef struct frames {
    int64_t B, L, c, step, length, count;
} frames;

static ot_status stft_resolve(const ot_node *n, frames *f, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    const ot_value *window = ot_node_in(n, 2);
    char s[128];
    if (x->rank < 2 || x->rank > 3 || (x->rank == 3 && x->dim[2] != 1 && x->dim[2] != 2))
        return ot_node_fail(n, err, "the signal is %s; expected (B, L, 1), or (B, L, 2) for complex numbers",
                            ot_shape_text(x, s));
    if (window && window->shape.rank != 1)
        return ot_node_fail(n, err, "the window is %s; expected a list", ot_shape_text(&window->shape, s));
    *f = (frames){ .B = x->dim[0], .L = x->dim[1], .c = x->rank == 3 ? x->dim[2] : 1 };
    OT_TRY(scalar_input(n, 1, 0, &f->step, err));
    OT_TRY(scalar_input(n, 3, window ? window->shape.dim[0] : f->L, &f->length, err));
    if (window && window->shape.dim[0] != f->length)
        return ot_node_fail(n, err, "the window has %lld elements, but a frame has %lld",
                            (long long)window->shape.dim[0], (long long)f->length);
    if (f->step < 1 || f->length < 1 || f->length > f->L || f->length > LONGEST)
        return ot_node_fail(n, err, "frames of %lld elements with step %lld do not fit a signal of %lld",
                            (long long)f->length, (long long)f->step, (long long)f->L);
    if (((const stft_attrs *)n->attrs)->onesided && f->c == 2)
        return ot_node_fail(n, err,
                            "onesided needs real numbers, but the "
                            "signal is complex");
    f->count = (f->L - f->length) / f->step + 1;
    return OT_OK;
}

static ot_status stft_infer(ot_node *n, ot_error *err)
{
    frames f;
    OT_TRY(stft_resolve(n, &f, err));
    ot_shape y = { .rank = 4,
                   .dim = { f.B, f.count, ((const stft_attrs *)n->attrs)->onesided ? f.length / 2 + 1 : f.length, 2 } };
    if (!ot_shape_fits(&y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void stft_lower(ot_build *b)
{
    ot_value *x = b->node->in[0], *window = ot_node_in(b->node, 2);
    frames f;
    ot_dtype t = x->dtype;
    if (stft_resolve(b->node, &f, b->graph->err) != OT_OK) return;
    ot_shape s = { .rank = 4, .dim = { f.B, f.count, f.length, f.c } };
    ot_piece *p = ot_pieces(b, 1);
    if (!p) return;
    *p = (ot_piece){ .stride = { f.L * f.c, f.count > 1 ? f.step * f.c : 0, f.c, 1 },
                     .extent = { f.B, f.count, f.length, f.c } };
    x = wide(b, x);
    x = ot_copy_emit(b, &s, 0, p, 1, &x, 1);
    if (window) x = ot_times(b, x, ot_view(b, wide(b, window), &(ot_shape){ .rank = 2, .dim = { f.length, 1 } }));
    x = ot_view(b, x, &(ot_shape){ .rank = 3, .dim = { f.B * f.count, f.length, f.c } });
    x = transformed(b, x, f.length, false, ((const stft_attrs *)b->node->attrs)->onesided != 0);
    ot_yield(b, 0, ot_view(b, ot_cast(b, x, t), &b->node->out[0]->shape));
}

const ot_op ot_op_STFT = {
    .name = "STFT",
    .types = { "TUTU", .T = OT_SET_FLOAT, .U = OT_SET_INDEX },
    .slots = "-",
    .since = 17,
    .in = { 2, 4 },
    .out = { 1, 1 },
    .nondiff = 0xa,
    .attrs = stft_rows,
    .attr_size = sizeof(stft_attrs),
    .infer = stft_infer,
    .lower = stft_lower,
    .batch = ot_batch_first,
};
