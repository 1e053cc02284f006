/* crossentropy.c - CrossEntropy and its gradient, the plain loops.  Numerics: f64 throughout. */
#include "ops/kernels/crossentropy.h"

#include <math.h>

#include "ops/kernel.h"
#include "ops/ref/element.h"
#include "ops/kernels/move.h"
#include "ops/kernels/softmax.h"

typedef struct entropy {
    const ot_cross_entropy *a;
    ot_along v;
    int64_t next; /* elements from one set of classes to the next */
    const void *x, *target, *weight;
    ot_dtype target_type, weight_type;
} entropy;

static entropy loss_of(const ot_call *c, int x)
{
    const ot_node *n = c->node;
    const ot_cross_entropy *a = n->attrs;
    ot_along v = ot_along_axis(&n->in[x]->shape, a->axis);
    int64_t next = v.n * v.inner;
    v.n = ot_classes(a, n->in[x]);
    return (entropy){ .a = a,
                      .v = v,
                      .next = next,
                      .x = c->in[x],
                      .target = c->in[x + 1],
                      .weight = n->n_in > x + 2 ? c->in[x + 2] : NULL,
                      .target_type = n->in[x + 1]->dtype,
                      .weight_type = n->n_in > x + 2 && n->in[x + 2] ? n->in[x + 2]->dtype : OT_F32 };
}

static double weight_of(const entropy *l, int64_t c) { return l->weight ? ot_load(l->weight, l->weight_type, c) : 1; }

/* The class of sample r; -1: it does not count. */
static ot_status class_of(const entropy *l, int64_t r, int64_t *label, const ot_call *c)
{
    *label = ot_get_i64(l->target, l->target_type, r);
    if (l->a->has_ignore && *label == l->a->ignore_index) *label = -1;
    else if (*label < 0 || *label >= l->v.n)
        return ot_fail(c->err, OT_E_DATA, "%s: label %lld at sample %lld is outside 0..%lld", c->node->name,
                       (long long)*label, (long long)r, (long long)(l->v.n - 1));
    return OT_OK;
}

/* max + log sum exp of row r, or 0 where x is log-probabilities already. */
OT_INLINE double log_sum(ot_dtype t, const entropy *l, int64_t at)
{
    double max = -INFINITY, sum = 0;
    if (l->a->log_input) return 0;
    for (int64_t i = 0; i < l->v.n; i++) {
        double e = ot_load(l->x, t, at + i * l->v.inner);
        if (e > max) max = e;
    }
    for (int64_t i = 0; i < l->v.n; i++) sum += exp(ot_load(l->x, t, at + i * l->v.inner) - max);
    return max + log(sum);
}

/* What -log p[i] is multiplied by in the loss of the sample at `at`. */
static double factor(const entropy *l, int64_t at, int64_t label, int64_t i)
{
    double s = l->a->label_smoothing, share = s / (double)l->v.n;
    double w = weight_of(l, i);
    if (l->a->probs) return w * ((1 - s) * ot_load(l->target, l->target_type, at + i * l->v.inner) + share);
    return w * ((i == label ? 1 - s : 0) + share);
}

/* Sum of the weights of the samples that count. */
static ot_status denominator(const entropy *l, const ot_call *c, double *out)
{
    int64_t rows = l->v.outer * l->v.inner;
    *out = (double)rows;
    if (l->a->probs) return OT_OK;
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t label;
        OT_TRY(class_of(l, r, &label, c));
        if (label >= 0) sum += weight_of(l, label);
    }
    *out = sum;
    return OT_OK;
}

/* y: the loss; NULL: only logp is wanted. */
OT_INLINE ot_status loss(ot_dtype t, const ot_call *c, const entropy *given, void *y, ot_dtype y_type, void *logp)
{
    const entropy l = *given;
    double total = 0, count;
    OT_TRY(denominator(&l, c, &count));
    for (int64_t b = 0; b < l.v.outer; b++)
        for (int64_t k = 0; k < l.v.inner; k++) {
            int64_t r = b * l.v.inner + k, at = b * l.next + k, label = 0;
            double lse = log_sum(t, &l, at), sum = 0;
            if (!l.a->probs) OT_TRY(class_of(&l, r, &label, c));
            for (int64_t i = 0; i < l.v.n; i++) {
                double p = ot_load(l.x, t, at + i * l.v.inner) - lse, f = label < 0 ? 0 : factor(&l, at, label, i);
                if (f != 0) sum -= f * p; /* 0 times an infinite logarithm counts nothing */
                if (logp) ot_store(logp, t, at + i * l.v.inner, p);
            }
            if (l.a->reduction == OT_REDUCTION_NONE && y) ot_store(y, y_type, r, sum);
            total += sum;
        }
    if (l.a->reduction == OT_REDUCTION_MEAN) total /= count;
    if (l.a->reduction != OT_REDUCTION_NONE && y) ot_store(y, y_type, 0, total);
    return OT_OK;
}

OT_INLINE ot_status loss_grad(ot_dtype t, const ot_call *c)
{
    entropy l = loss_of(c, 1);
    double count = 1;
    bool each = l.a->reduction == OT_REDUCTION_NONE;
    if (l.a->reduction == OT_REDUCTION_MEAN) OT_TRY(denominator(&l, c, &count));
    for (int64_t b = 0; b < l.v.outer; b++)
        for (int64_t k = 0; k < l.v.inner; k++) {
            int64_t r = b * l.v.inner + k, at = b * l.next + k, label = 0;
            double lse = log_sum(t, &l, at), sum = 0,
                   g = ot_load(c->in[0], c->node->in[0]->dtype, each ? r : 0) / count;
            if (!l.a->probs) OT_TRY(class_of(&l, r, &label, c));
            for (int64_t i = 0; i < l.v.n && !l.a->log_input && label >= 0; i++) sum += factor(&l, at, label, i);
            for (int64_t i = 0; i < l.v.n; i++) {
                double p = l.a->log_input ? 0 : sum * exp(ot_load(l.x, t, at + i * l.v.inner) - lse);
                double d = label < 0 ? 0 : g * (p - factor(&l, at, label, i));
                ot_store(c->out[0], t, at + i * l.v.inner, d);
            }
            for (int64_t i = l.v.n; i < l.next / l.v.inner; i++) ot_store(c->out[0], t, at + i * l.v.inner, 0);
        }
    return OT_OK;
}

static ot_status each_loss(ot_dtype t, const ot_call *c, int x, int y, void *logp)
{
    entropy l = loss_of(c, x);
    ot_dtype type = c->node->out[y] ? c->node->out[y]->dtype : OT_F32;
    if (t == OT_F32) return loss(OT_F32, c, &l, c->out[y], type, logp);
    return t == OT_F64 ? loss(OT_F64, c, &l, c->out[y], type, logp) : loss(t, c, &l, c->out[y], type, logp);
}

static ot_status loss_run(const ot_call *c)
{
    return each_loss(c->node->in[0]->dtype, c, 0, 0, c->node->n_out > 1 ? c->out[1] : NULL);
}

static ot_status dx_run(const ot_call *c)
{
    ot_dtype t = c->node->in[1]->dtype;
    if (c->node->n_out > 1 && c->out[1]) OT_TRY(each_loss(t, c, 1, 1, NULL));
    return t == OT_F32 ? loss_grad(OT_F32, c) : t == OT_F64 ? loss_grad(OT_F64, c) : loss_grad(t, c);
}

const ot_kernel ot_ref_CrossEntropy = { .name = "ref", .run = loss_run };
const ot_kernel ot_ref_CrossEntropyDx = { .name = "ref", .run = dx_run };
