/* convolve.c - Convolve, ConvolveDx, ConvolveDw, the plain loops.
 *
 * All three walk the same index set (n, group, m, c, output position, window position) and differ in the tensor, x, w
 * or y, that is accumulated.  Numerics: sums in f64. */
#include "ops/kernels/convolve.h"
#include "ops/kernel.h"
#include "ops/ref/element.h"

/* Flat position of the spatial element, or -1 in the padding. */
OT_INLINE int64_t spatial(const ot_conv_sizes *s, const int64_t q[3], const int64_t k[3])
{
    int64_t at = 0;
    for (int j = 0; j < 3; j++) {
        int64_t i = q[j] * s->w.stride[j] + k[j] * s->w.dilation[j] - s->w.pad_lo[j];
        if (i < 0 || i >= s->in[j]) return -1;
        at = at * s->in[j] + i;
    }
    return at;
}

static void digits(int64_t i, const int64_t base[3], int64_t out[3])
{
    for (int j = 2; j >= 0; j--) {
        out[j] = i % base[j];
        i /= base[j];
    }
}

static int64_t volume(const int64_t v[3]) { return v[0] * v[1] * v[2]; }

/* y[n, m, q] = b[m] + sum over c, k of x w */
OT_INLINE void forward(ot_dtype t, const ot_conv_sizes *s, const void *x, const void *w, const void *b, void *y)
{
    int64_t I = volume(s->in), O = volume(s->out), K = volume(s->w.kernel);
    for (int64_t n = 0; n < s->N; n++)
        for (int64_t m = 0; m < s->G * s->M; m++)
            for (int64_t o = 0; o < O; o++) {
                int64_t q[3], first = (m / s->M) * s->C;
                double sum = b ? ot_load(b, t, m) : 0;
                digits(o, s->out, q);
                for (int64_t f = 0; f < K; f++) {
                    int64_t k[3];
                    digits(f, s->w.kernel, k);
                    int64_t i = spatial(s, q, k);
                    if (i < 0) continue;
                    for (int64_t c = 0; c < s->C; c++)
                        sum += ot_load(x, t, (n * s->G * s->C + first + c) * I + i) *
                               ot_load(w, t, (m * s->C + c) * K + f);
                }
                ot_store(y, t, (n * s->G * s->M + m) * O + o, sum);
            }
}

/* dx[n, c, i] = sum over m and the pairs (q, k) that read i of dy w */
OT_INLINE void input_grad(ot_dtype t, const ot_conv_sizes *s, const void *dy, const void *w, void *dx)
{
    int64_t I = volume(s->in), O = volume(s->out), K = volume(s->w.kernel);
    for (int64_t n = 0; n < s->N; n++)
        for (int64_t c = 0; c < s->G * s->C; c++)
            for (int64_t i = 0; i < I; i++) {
                int64_t at[3], first = (c / s->C) * s->M;
                double sum = 0;
                digits(i, s->in, at);
                for (int64_t f = 0; f < K; f++) {
                    int64_t k[3], o = 0;
                    digits(f, s->w.kernel, k);
                    for (int j = 0; j < 3 && o >= 0; j++) {
                        int64_t d = at[j] + s->w.pad_lo[j] - k[j] * s->w.dilation[j];
                        bool meets = d >= 0 && d % s->w.stride[j] == 0 && d / s->w.stride[j] < s->out[j];
                        o = meets ? o * s->out[j] + d / s->w.stride[j] : -1;
                    }
                    if (o < 0) continue;
                    for (int64_t m = 0; m < s->M; m++)
                        sum += ot_load(dy, t, (n * s->G * s->M + first + m) * O + o) *
                               ot_load(w, t, ((first + m) * s->C + c % s->C) * K + f);
                }
                ot_store(dx, t, (n * s->G * s->C + c) * I + i, sum);
            }
}

/* dw[m, c, k] = sum over n, q of dy x */
OT_INLINE void weight_grad(ot_dtype t, const ot_conv_sizes *s, const void *dy, const void *x, void *dw)
{
    int64_t I = volume(s->in), O = volume(s->out), K = volume(s->w.kernel);
    for (int64_t m = 0; m < s->G * s->M; m++)
        for (int64_t c = 0; c < s->C; c++)
            for (int64_t f = 0; f < K; f++) {
                int64_t k[3], channel = (m / s->M) * s->C + c;
                double sum = 0;
                digits(f, s->w.kernel, k);
                for (int64_t n = 0; n < s->N; n++)
                    for (int64_t o = 0; o < O; o++) {
                        int64_t q[3];
                        digits(o, s->out, q);
                        int64_t i = spatial(s, q, k);
                        if (i >= 0)
                            sum += ot_load(dy, t, (n * s->G * s->M + m) * O + o) *
                                   ot_load(x, t, (n * s->G * s->C + channel) * I + i);
                    }
                ot_store(dw, t, (m * s->C + c) * K + f, sum);
            }
}

OT_INLINE void bias_grad(ot_dtype t, const ot_conv_sizes *s, const void *dy, void *db)
{
    int64_t O = volume(s->out), M = s->G * s->M;
    for (int64_t m = 0; m < M; m++) {
        double sum = 0;
        for (int64_t n = 0; n < s->N; n++)
            for (int64_t o = 0; o < O; o++) sum += ot_load(dy, t, (n * M + m) * O + o);
        ot_store(db, t, m, sum);
    }
}

static ot_status forward_run(const ot_call *c)
{
    const ot_node *n = c->node;
    ot_conv_sizes s;
    ot_conv_sizes_of(n->attrs, &n->in[0]->shape, &n->out[0]->shape, &s);
    OT_BY_TYPE(n->out[0]->dtype, forward, &s, c->in[0], c->in[1], n->n_in > 2 ? c->in[2] : NULL, c->out[0]);
    return OT_OK;
}

static ot_status dx_run(const ot_call *c)
{
    const ot_node *n = c->node;
    ot_conv_sizes s;
    ot_conv_sizes_of(n->attrs, &n->out[0]->shape, &n->in[0]->shape, &s);
    OT_BY_TYPE(n->out[0]->dtype, input_grad, &s, c->in[0], c->in[1], c->out[0]);
    return OT_OK;
}

static ot_status dw_run(const ot_call *c)
{
    const ot_node *n = c->node;
    ot_conv_sizes s;
    ot_conv_sizes_of(n->attrs, &n->in[1]->shape, &n->in[0]->shape, &s);
    ot_dtype t = n->in[0]->dtype;
    if (c->out[0]) OT_BY_TYPE(t, weight_grad, &s, c->in[0], c->in[1], c->out[0]);
    if (n->n_out > 1 && c->out[1]) OT_BY_TYPE(t, bias_grad, &s, c->in[0], c->out[1]);
    return OT_OK;
}

const ot_kernel ot_ref_Convolve = { .name = "ref", .run = forward_run };
const ot_kernel ot_ref_ConvolveDx = { .name = "ref", .run = dx_run };
const ot_kernel ot_ref_ConvolveDw = { .name = "ref", .run = dw_run };
