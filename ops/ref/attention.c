/* attention.c - FusedAttention and its gradient, the plain loops.  Numerics: f64 throughout. */
#include "ops/kernels/attention.h"

#include <math.h>

#include "ops/kernel.h"
#include "ops/ref/element.h"

typedef struct view { /* one node, of either operator */
    ot_attention_sizes s;
    const ot_attention *a;
    const void *q, *k, *v, *mask;
    ot_attention_lie at_q, at_k, at_v, at_dy, at_y; /* the last two: of FusedAttentionDx */
    ot_dtype mask_type;
    int64_t mask_stride[4];
} view;

static view view_of(const ot_call *c)
{
    const ot_node *n = c->node;
    const ot_value *mask = ot_attention_mask(n);
    int first = ot_attention_q(n);
    view w = { .a = n->attrs, .q = c->in[first], .k = c->in[first + 1], .v = c->in[first + 2] };
    ot_attention_sizes_of(n, &w.s);
    w.at_q = ot_attention_in(n, first), w.at_k = ot_attention_in(n, first + 1), w.at_v = ot_attention_in(n, first + 2);
    if (first) w.at_dy = ot_attention_in(n, 0), w.at_y = ot_attention_in(n, 4);
    if (mask) {
        w.mask = c->in[n->n_in - 1];
        w.mask_type = mask->dtype;
        ot_attention_mask_strides(&mask->shape, w.mask_stride);
    }
    return w;
}

/* Score of token t for token s in head h (of B * H); *open: it depends on q and k. */
OT_INLINE double score(ot_dtype type, const view *w, int64_t h, int64_t t, int64_t s, bool *open)
{
    const ot_attention_sizes *z = &w->s;
    double sum = 0;
    int64_t q = ot_attention_at(&w->at_q, z->H, h, t, 0), k = ot_attention_at(&w->at_k, z->H, h, s, 0);
    for (int64_t d = 0; d < z->D; d++)
        sum += ot_load(w->q, type, q + d * w->at_q.stride[3]) * ot_load(w->k, type, k + d * w->at_k.stride[3]);
    sum *= w->a->scale;
    *open = !(w->a->causal && s > t);
    if (w->mask) {
        const int64_t *m = w->mask_stride;
        int64_t at = h / z->H * m[0] + h % z->H * m[1] + t * m[2] + s * m[3];
        if (w->mask_type == OT_BOOL) *open = *open && ot_get_i64(w->mask, OT_BOOL, at);
        else sum += ot_get_f64(w->mask, w->mask_type, at);
    }
    return *open ? sum : w->a->hidden;
}

OT_INLINE void attend(ot_dtype type, const view *w, const ot_call *c)
{
    const ot_attention_sizes *z = &w->s;
    ot_dtype wide = type == OT_F64 ? OT_F64 : OT_F32;
    ot_attention_lie at = ot_attention_out(c->node, 0);
    bool open;
    for (int64_t h = 0; h < z->B * z->H; h++)
        for (int64_t t = 0; t < z->T; t++) {
            double top = -INFINITY, sum = 0;
            for (int64_t s = 0; s < z->S; s++) {
                double e = score(type, w, h, t, s, &open);
                top = e > top || isnan(e) ? e : top;
            }
            for (int64_t s = 0; s < z->S; s++) sum += exp(score(type, w, h, t, s, &open) - top);
            bool none = w->a->zero_rows && isnan(sum);
            if (none) top = 0, sum = 1;
            for (int64_t e = 0; e < z->E; e++) {
                double y = 0;
                for (int64_t s = 0; s < z->S && !none; s++)
                    y += exp(score(type, w, h, t, s, &open) - top) / sum *
                         ot_load(w->v, type, ot_attention_at(&w->at_v, z->H, h, s, e));
                ot_store(c->out[0], type, ot_attention_at(&at, z->H, h, t, e), y);
            }
            if (c->node->n_out > 1 && c->out[1]) ot_store(c->out[1], wide, h * z->T + t, top);
            if (c->node->n_out > 2 && c->out[2]) ot_store(c->out[2], wide, h * z->T + t, sum);
        }
}

static ot_status attention_run(const ot_call *c)
{
    view w = view_of(c);
    OT_BY_TYPE(c->node->in[0]->dtype, attend, &w, c);
    return OT_OK;
}

/* p, and ds / scale (0: the score is constant), of one pair of tokens; delta: sum of dy y of token t. */
OT_INLINE double pair(ot_dtype type, const view *w, const ot_call *c, int64_t h, int64_t t, int64_t s, double delta,
                      double *p)
{
    const ot_attention_sizes *z = &w->s;
    bool open;
    int64_t dy = ot_attention_at(&w->at_dy, z->H, h, t, 0), v = ot_attention_at(&w->at_v, z->H, h, s, 0);
    double dp = 0;
    ot_dtype wide = type == OT_F64 ? OT_F64 : OT_F32;
    *p = exp(score(type, w, h, t, s, &open) - ot_load(c->in[5], wide, h * z->T + t)) /
         ot_load(c->in[6], wide, h * z->T + t);
    for (int64_t e = 0; e < z->E; e++)
        dp += ot_load(c->in[0], type, dy + e * w->at_dy.stride[3]) * ot_load(w->v, type, v + e * w->at_v.stride[3]);
    return open ? *p * (dp - delta) * w->a->scale : 0;
}

OT_INLINE double delta_of(ot_dtype type, const view *w, const ot_call *c, int64_t h, int64_t t)
{
    int64_t dy = ot_attention_at(&w->at_dy, w->s.H, h, t, 0), y = ot_attention_at(&w->at_y, w->s.H, h, t, 0);
    double sum = 0;
    for (int64_t e = 0; e < w->s.E; e++)
        sum +=
            ot_load(c->in[0], type, dy + e * w->at_dy.stride[3]) * ot_load(c->in[4], type, y + e * w->at_y.stride[3]);
    return sum;
}

OT_INLINE void attention_dx(ot_dtype type, const view *w, const ot_call *c)
{
    const ot_attention_sizes *z = &w->s;
    ot_attention_lie at[3] = { 0 };
    void *out[3] = { NULL };
    double p;
    for (int i = 0; i < 3; i++) {
        int to = ot_attention_to(c->node, i);
        if (to >= 0) at[i] = ot_attention_out(c->node, i), out[i] = c->out[to];
    }
    for (int64_t h = 0; h < z->B * z->H; h++) {
        for (int64_t t = 0; t < z->T && out[0]; t++)
            for (int64_t d = 0; d < z->D; d++) {
                double sum = 0, delta = delta_of(type, w, c, h, t);
                for (int64_t s = 0; s < z->S; s++)
                    sum += pair(type, w, c, h, t, s, delta, &p) *
                           ot_load(w->k, type, ot_attention_at(&w->at_k, z->H, h, s, d));
                ot_store(out[0], type, ot_attention_at(&at[0], z->H, h, t, d), sum);
            }
        for (int64_t s = 0; s < z->S && out[1]; s++)
            for (int64_t d = 0; d < z->D; d++) {
                double sum = 0;
                for (int64_t t = 0; t < z->T; t++)
                    sum += pair(type, w, c, h, t, s, delta_of(type, w, c, h, t), &p) *
                           ot_load(w->q, type, ot_attention_at(&w->at_q, z->H, h, t, d));
                ot_store(out[1], type, ot_attention_at(&at[1], z->H, h, s, d), sum);
            }
        for (int64_t s = 0; s < z->S && out[2]; s++)
            for (int64_t e = 0; e < z->E; e++) {
                double sum = 0;
                for (int64_t t = 0; t < z->T; t++) {
                    pair(type, w, c, h, t, s, 0, &p);
                    sum += p * ot_load(c->in[0], type, ot_attention_at(&w->at_dy, z->H, h, t, e));
                }
                ot_store(out[2], type, ot_attention_at(&at[2], z->H, h, s, e), sum);
            }
    }
}

static ot_status attention_dx_run(const ot_call *c)
{
    view w = view_of(c);
    OT_BY_TYPE(c->node->in[1]->dtype, attention_dx, &w, c);
    return OT_OK;
}

const ot_kernel ot_ref_FusedAttention = { .name = "ref", .run = attention_run };
const ot_kernel ot_ref_FusedAttentionDx = { .name = "ref", .run = attention_dx_run };
