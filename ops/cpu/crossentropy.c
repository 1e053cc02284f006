/* crossentropy.c - CrossEntropy and its gradient for f32 logits.
 *
 * Memory    workspace: one f64 per sample.  The gradient may replace the logits: a sample's loss is computed before
 * Numerics  log-sum-exp in f32 lanes, losses added in f64 in the order of the samples */
#include "ops/kernels/crossentropy.h"

#include <string.h>

#include "ops/cpu/vector.h"
#include "ops/kernel.h"
#include "ops/kernels/move.h"
#include "ops/kernels/softmax.h"

typedef struct entropy {
    const ot_cross_entropy *a;
    ot_along v;
    const float *x, *weight;
    const void *target;
    ot_dtype target_type;
    float all; /* sum of the class weights */
} entropy;

static entropy loss_of(const ot_call *c, int x)
{
    const ot_node *n = c->node;
    entropy l = { .a = n->attrs,
                  .x = c->in[x],
                  .target = c->in[x + 1],
                  .target_type = n->in[x + 1]->dtype,
                  .weight = n->n_in > x + 2 ? c->in[x + 2] : NULL };
    double sum = 0;
    l.v = ot_along_axis(&n->in[x]->shape, l.a->axis);
    for (int64_t i = 0; i < l.v.n; i++) sum += l.weight ? (double)l.weight[i] : 1;
    l.all = (float)sum;
    return l;
}

static int64_t label_of(const entropy *l, int64_t r)
{
    int64_t t = l->target_type == OT_I64 ? ((const int64_t *)l->target)[r] : ot_get_i64(l->target, l->target_type, r);
    return l->a->has_ignore && t == l->a->ignore_index ? -1 : t;
}

/* Checks every label before any is used; returns the sum of the weights of the counted ones. */
static ot_status denominator(const entropy *l, const ot_call *c, double *out)
{
    int64_t rows = l->v.outer * l->v.inner;
    double sum = 0;
    *out = (double)rows;
    if (l->a->probs) return OT_OK;
    for (int64_t r = 0; r < rows; r++) {
        int64_t t = label_of(l, r);
        if (t >= 0 && t < l->v.n) sum += l->weight ? (double)l->weight[t] : 1;
        else if (t != -1 || !(l->a->has_ignore && ot_get_i64(l->target, l->target_type, r) == l->a->ignore_index))
            return ot_fail(c->err, OT_E_DATA, "%s: label %lld at sample %lld is outside 0..%lld", c->node->name,
                           (long long)t, (long long)r, (long long)(l->v.n - 1));
    }
    *out = sum;
    return OT_OK;
}

/* The last elements of a row, filled up to whole vectors: of 10 classes each would be a call of expf. */
enum { TAIL = 16 };

OT_ALWAYS int64_t take_tail(const float *x, int64_t n, float tail[TAIL])
{
    int64_t whole = n / TAIL * TAIL;
    for (int i = 0; i < TAIL; i++) tail[i] = -INFINITY;
    memcpy(tail, x + whole, (size_t)(n - whole) * sizeof *x);
    return whole;
}

OT_ALWAYS float sum_exp(const float *x, int64_t n, float max)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += expf(x[i] - max);
    return sum;
}

OT_WIDE static float log_sum_row(const float *x, int64_t n)
{
    float max = -INFINITY, tail[TAIL];
    int64_t whole = take_tail(x, n, tail);
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    float sum = sum_exp(x, whole, max);
    if (whole < n) sum += sum_exp(tail, TAIL, max);
    return max + logf(sum);
}

/* ---- samples next to each other, whose classes are `step` elements apart ---- */

/* Computed together, in lanes; filled up to whole vectors. */
enum { COLUMNS = 64 };

static int64_t columns_up(int64_t m) { return (m + TAIL - 1) / TAIL * TAIL; }

OT_WIDE static void log_sum_columns(const float *x, int64_t n, int64_t step, int64_t m, float lse[COLUMNS])
{
    float max[COLUMNS], sum[COLUMNS] = { 0 }, v[COLUMNS] = { 0 };
    int64_t width = columns_up(m);
    for (int64_t k = 0; k < width; k++) max[k] = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        memcpy(v, x + i * step, (size_t)m * sizeof *v);
#pragma omp simd
        for (int64_t k = 0; k < width; k++) max[k] = v[k] > max[k] ? v[k] : max[k];
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(v, x + i * step, (size_t)m * sizeof *v);
#pragma omp simd
        for (int64_t k = 0; k < width; k++) sum[k] += expf(v[k] - max[k]);
    }
#pragma omp simd
    for (int64_t k = 0; k < width; k++) lse[k] = max[k] + logf(sum[k]);
}

/* dx may be x. */
OT_WIDE static void softmax_columns(const float *x, float *dx, int64_t n, int64_t step, int64_t m,
                                    const float lse[COLUMNS], const float f[COLUMNS])
{
    float v[COLUMNS] = { 0 };
    int64_t width = columns_up(m);
    for (int64_t i = 0; i < n; i++) {
        memcpy(v, x + i * step, (size_t)m * sizeof *v);
#pragma omp simd
        for (int64_t k = 0; k < width; k++) v[k] = f[k] * expf(v[k] - lse[k]);
        memcpy(dx + i * step, v, (size_t)m * sizeof *v);
    }
}

/* ---- blocks of samples ------------------------------------------------------- */

/* What a thread computes at once: of classes that are next to each other one sample, else up to COLUMNS. */
typedef struct block {
    int64_t row, at, m; /* the first sample, its first element; how many */
    bool counted;       /* one of them is not ignored */
    int64_t label[COLUMNS];
    float lse[COLUMNS];
} block;

static int64_t blocks_of(const entropy *l) { return l->v.outer * ot_ceil_div(l->v.inner, COLUMNS); }

static void begin_block(const entropy *l, int64_t i, block *b)
{
    int64_t inner = l->v.inner, parts = ot_ceil_div(inner, COLUMNS), outer = i / parts, k = i % parts * COLUMNS;
    b->row = outer * inner + k;
    b->at = outer * l->v.n * inner + k;
    b->m = inner - k < COLUMNS ? inner - k : COLUMNS;
    b->counted = false;
    for (k = 0; k < b->m; k++) {
        b->label[k] = l->a->probs ? 0 : label_of(l, b->row + k);
        b->counted |= b->label[k] >= 0;
    }
}

/* Of log-probabilities 0. */
static void log_sums(const entropy *l, block *b)
{
    if (l->a->log_input) memset(b->lse, 0, sizeof b->lse);
    else if (l->v.inner == 1) b->lse[0] = log_sum_row(l->x + b->at, l->v.n);
    else log_sum_columns(l->x + b->at, l->v.n, l->v.inner, b->m, b->lse);
}

/* ---- one sample -------------------------------------------------------------- */

/* The factor of -log p[i], without the label's own weight. */
static float spread(const entropy *l, int64_t at, int64_t i)
{
    float s = (float)l->a->label_smoothing, w = l->weight ? l->weight[i] : 1, share = s / (float)l->v.n;
    if (!l->a->probs) return w * share;
    return w * ((1 - s) * (float)ot_get_f64(l->target, l->target_type, at + i * l->v.inner) + share);
}

static double sample_loss(const entropy *l, int64_t at, int64_t label, float lse)
{
    const float *x = l->x + at;
    double sum = 0;
    if (label >= 0 && !l->a->probs) {
        double own = (1 - l->a->label_smoothing) * (l->weight ? (double)l->weight[label] : 1);
        if (own != 0) sum -= own * (double)(x[label * l->v.inner] - lse);
    }
    if ((l->a->probs || l->a->label_smoothing != 0) && label >= 0)
        for (int64_t i = 0; i < l->v.n; i++) {
            float f = spread(l, at, i);
            if (f != 0) sum -= (double)f * (double)(x[i * l->v.inner] - lse);
        }
    return sum;
}

static bool all_f32(const ot_node *n, int x, const char **why)
{
    const ot_value *w = n->n_in > x + 2 ? n->in[x + 2] : NULL;
    const ot_cross_entropy *a = n->attrs;
    if (a->classes) return ot_refuse(why, "rows are not padded on the CPU");
    return ot_f32_can(n->in[x], why) && ot_f32_can(w, why);
}

static bool can(const ot_node *n, const char **why) { return all_f32(n, 0, why); }

static ot_status prepare(const ot_node *n, ot_prep *p, int x, const ot_value *loss)
{
    const ot_cross_entropy *a = n->attrs;
    ot_along v = ot_along_axis(&n->in[x]->shape, a->axis);
    if (loss) p->work = (size_t)(v.outer * v.inner) * sizeof(double);
    return OT_OK;
}

static ot_status loss_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, 0, n->out[0]); }
static ot_status dx_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, 1, n->n_out > 1 ? n->out[1] : NULL); }

/* The losses of the samples, reduced to y. */
static void reduced(const entropy *l, const double *each, double count, float *y)
{
    double total = 0;
    int64_t rows = l->v.outer * l->v.inner;
    for (int64_t r = 0; r < rows; r++) {
        if (l->a->reduction == OT_REDUCTION_NONE) y[r] = (float)each[r];
        else total += each[r];
    }
    if (l->a->reduction == OT_REDUCTION_MEAN) total /= count;
    if (l->a->reduction != OT_REDUCTION_NONE) y[0] = (float)total;
}

static ot_status loss_run(const ot_call *c)
{
    entropy l = loss_of(c, 0);
    double count, *each = c->work;
    int64_t blocks = blocks_of(&l), step = l.v.inner;
    float *logp = c->node->n_out > 1 ? c->out[1] : NULL;
    int threads = l.v.outer * l.v.inner * l.v.n < 8192 ? 1 : c->threads;
    OT_TRY(denominator(&l, c, &count));
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < blocks; i++) {
        block b;
        begin_block(&l, i, &b);
        log_sums(&l, &b);
        for (int64_t k = 0; k < b.m && each; k++) each[b.row + k] = sample_loss(&l, b.at + k, b.label[k], b.lse[k]);
        for (int64_t j = 0; j < l.v.n && logp; j++)
            for (int64_t k = 0; k < b.m; k++) logp[b.at + j * step + k] = l.x[b.at + j * step + k] - b.lse[k];
    }
    if (c->out[0]) reduced(&l, each, count, c->out[0]);
    return OT_OK;
}

/* dx may be x. */
OT_WIDE static void softmax_times(const float *x, float *dx, int64_t n, float lse, float f)
{
    float tail[TAIL];
    int64_t whole = take_tail(x, n, tail);
#pragma omp simd
    for (int64_t i = 0; i < whole; i++) dx[i] = f * expf(x[i] - lse);
    if (whole == n) return;
#pragma omp simd
    for (int i = 0; i < TAIL; i++) tail[i] = f * expf(tail[i] - lse);
    memcpy(dx + whole, tail, (size_t)(n - whole) * sizeof *dx);
}

/* The sum of the factors of -log p of a sample; *own: the part of its label. */
static float spread_sum(const entropy *l, int64_t at, int64_t label, float *own)
{
    float s = (float)l->a->label_smoothing, sum = 0;
    *own = l->a->probs ? 0 : (1 - s) * (l->weight ? l->weight[label] : 1);
    if (!l->a->probs) return *own + s / (float)l->v.n * l->all;
    for (int64_t i = 0; i < l->v.n; i++) sum += spread(l, at, i);
    return sum;
}

/* Subtracts from the gradient g softmax(x) sum of a sample what its target says. */
static void subtract_target(const entropy *l, float *dx, int64_t at, int64_t label, float own, float g)
{
    float *d = dx + at;
    int64_t n = l->v.n, step = l->v.inner;
    if (label < 0) {
        for (int64_t i = 0; i < n; i++) d[i * step] = 0;
        return;
    }
    if (l->a->probs || l->a->label_smoothing != 0)
        for (int64_t i = 0; i < n; i++) d[i * step] -= g * spread(l, at, i);
    if (!l->a->probs) d[label * step] -= g * own;
}

/* dloss: of one loss, or of each sample; over: what the loss is divided by. */
static void block_grad(const entropy *l, const block *b, float *dx, const float *dloss, double over)
{
    bool many = l->a->reduction == OT_REDUCTION_NONE;
    float g[COLUMNS], own[COLUMNS] = { 0 }, f[COLUMNS] = { 0 };
    for (int64_t k = 0; k < b->m; k++) {
        g[k] = (float)((double)dloss[many ? b->row + k : 0] / over);
        if (b->label[k] >= 0) f[k] = g[k] * spread_sum(l, b->at + k, b->label[k], &own[k]);
    }
    const float *x = l->x + b->at;
    float *d = dx + b->at;
    int64_t n = l->v.n, step = l->v.inner;
    if (l->a->log_input || !b->counted)
        for (int64_t i = 0; i < n; i++) memset(d + i * step, 0, (size_t)b->m * sizeof *d);
    else if (step == 1) softmax_times(x, d, n, b->lse[0], f[0]);
    else softmax_columns(x, d, n, step, b->m, b->lse, f);
    for (int64_t k = 0; k < b->m && b->counted; k++) subtract_target(l, dx, b->at + k, b->label[k], own[k], g[k]);
}

static bool dx_can(const ot_node *n, const char **why) { return all_f32(n, 1, why); }

static ot_status dx_run(const ot_call *c)
{
    entropy l = loss_of(c, 1);
    const float *dloss = c->in[0];
    float *loss = c->node->n_out > 1 ? c->out[1] : NULL;
    double count, *each = c->work;
    int64_t blocks = blocks_of(&l);
    int threads = l.v.outer * l.v.inner * l.v.n < 8192 ? 1 : c->threads;
    OT_TRY(denominator(&l, c, &count));
    double over = l.a->reduction == OT_REDUCTION_MEAN ? count : 1;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < blocks; i++) {
        block b;
        begin_block(&l, i, &b);
        if (b.counted) log_sums(&l, &b);
        for (int64_t k = 0; k < b.m && loss; k++) each[b.row + k] = sample_loss(&l, b.at + k, b.label[k], b.lse[k]);
        block_grad(&l, &b, c->out[0], dloss, over);
    }
    if (loss) reduced(&l, each, count, loss);
    return OT_OK;
}

const ot_kernel ot_cpu_CrossEntropy = { .name = "cpu", .can = can, .prepare = loss_prepare, .run = loss_run };
const ot_kernel ot_cpu_CrossEntropyDx = {
    .name = "cpu", .can = dx_can, .prepare = dx_prepare, .run = dx_run, .inplace = 2
};
