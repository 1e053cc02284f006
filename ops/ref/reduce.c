/* reduce.c - Reduce, one element after the other.
 *
 * Numerics  floats in f64 with Neumaier's compensation, integers modulo 2^64.  An empty sum is 0, an
 *           empty product 1, an empty maximum the least value of the type.  NaN wins in max and min. */
#include "ops/kernels/reduce.h"

#include <math.h>

#include "ops/kernel.h"

typedef struct acc {
    double f, lost; /* floats: value, and for sums what rounding took */
    int64_t i;      /* integers; u64 by its bits */
} acc;

static acc acc_start(int64_t kind, ot_dtype t)
{
    acc a = { 0 };
    int bits = ot_dtype_bits(t);
    bool sign = ot_is_signed(t), max = kind == OT_REDUCE_MAX;
    if (kind == OT_REDUCE_PROD) a = (acc){ 1, 0, 1 };
    if (kind == OT_REDUCE_MAX || kind == OT_REDUCE_MIN) {
        a.f = max ? -INFINITY : INFINITY;
        if (t == OT_BOOL) a.i = !max;
        else if (ot_is_int(t)) {
            uint64_t top = UINT64_MAX >> (64 - bits + (sign ? 1 : 0));
            a.i = max ? (sign ? -(int64_t)top - 1 : 0) : (int64_t)top;
        }
    }
    return a;
}

static void acc_float(acc *a, int64_t kind, double v)
{
    if (kind == OT_REDUCE_SUMSQ) v *= v;
    double s = a->f + v;
    switch (kind) {
    case OT_REDUCE_SUM:
    case OT_REDUCE_SUMSQ:
        a->lost += fabs(a->f) >= fabs(v) ? a->f - s + v : v - s + a->f;
        a->f = s;
        break;
    case OT_REDUCE_PROD: a->f *= v; break;
    case OT_REDUCE_MAX: a->f = v > a->f || isnan(v) ? v : a->f; break;
    default: a->f = v < a->f || isnan(v) ? v : a->f; break;
    }
}

static void acc_int(acc *a, int64_t kind, int64_t v, ot_dtype t)
{
    bool less = t == OT_U64 ? (uint64_t)a->i < (uint64_t)v : a->i < v;
    switch (kind) {
    case OT_REDUCE_SUM: a->i = (int64_t)((uint64_t)a->i + (uint64_t)v); break;
    case OT_REDUCE_SUMSQ: a->i = (int64_t)((uint64_t)a->i + (uint64_t)v * (uint64_t)v); break;
    case OT_REDUCE_PROD: a->i = (int64_t)((uint64_t)a->i * (uint64_t)v); break;
    case OT_REDUCE_MAX: a->i = less ? v : a->i; break;
    default: a->i = less ? a->i : v; break;
    }
}

/* The sum of infinities must not become NaN through the compensation. */
static double acc_result(const acc *a) { return isfinite(a->lost) && isfinite(a->f) ? a->f + a->lost : a->f; }

/* Adds the next coordinate over the axes in `set` to *at; false: that was the last one. */
static bool step(int64_t *k, const ot_shape *s, int64_t set, const int64_t *stride, int64_t *at)
{
    for (int d = s->rank - 1; d >= 0; d--) {
        if (!(set >> d & 1)) continue;
        *at += stride[d];
        if (++k[d] < s->dim[d]) return true;
        *at -= stride[d] * s->dim[d];
        k[d] = 0;
    }
    return false;
}

static bool reduce_can(const ot_node *n, const char **why)
{
    for (int i = 0; i < n->n_in && ((const ot_reduce *)n->attrs)->program; i++)
        if (n->in[i]->layout != OT_PLAIN) return ot_refuse(why, "the reference's programs read plain memory");
    return true;
}

/* What is reduced is in[0]; or what a Map makes of the inputs, in the workspace. */
static ot_status reduce_prepare(const ot_node *n, ot_prep *p)
{
    ot_shape s;
    ot_dtype t;
    ot_reduce_x(n, &s, &t);
    if (((const ot_reduce *)n->attrs)->program) p->work = ot_bytes(&s, t);
    return OT_OK;
}

static ot_status run_program(const ot_call *c, const ot_value *x)
{
    ot_value *out[] = { (ot_value *)(uintptr_t)x };
    ot_node map = *c->node;
    ot_call call = *c;
    map.attrs = (void *)(uintptr_t)((const ot_reduce *)c->node->attrs)->program;
    map.out = out;
    call.node = &map;
    call.out = (void *[]){ c->work };
    return ot_ref_Map.run(&call);
}

static ot_status reduce_run(const ot_call *c)
{
    const ot_reduce *a = c->node->attrs;
    const ot_value *y = c->node->out[0], *x = c->node->in[0];
    ot_value made = { .layout = OT_PLAIN };
    ot_dtype t;
    const void *from = c->in[0];
    if (a->program) {
        ot_reduce_x(c->node, &made.shape, &made.dtype);
        OT_TRY(run_program(c, x = &made));
        from = c->work;
    }
    t = x->dtype;
    int64_t xs[OT_MAX_RANK], ys[OT_MAX_RANK], yx[OT_MAX_RANK] = { 0 }, k[OT_MAX_RANK] = { 0 };
    int64_t out = 0, ny = ot_numel(&y->shape), nx = ot_numel(&x->shape);

    ot_value_strides(x, xs);
    ot_value_strides(y, ys);
    for (int d = 0, e = 0; d < x->shape.rank; d++) { /* y's strides by axis of x */
        bool gone = a->axes >> d & 1;
        if (!gone) yx[d] = ys[e];
        e += !gone || a->keepdims;
    }
    for (int64_t i = 0; i < ny; i++) {
        acc s = acc_start(a->kind, t);
        int64_t r[OT_MAX_RANK] = { 0 }, at = 0;
        for (int d = 0; d < x->shape.rank; d++) at += k[d] * xs[d];
        if (nx) do {
                if (ot_is_float(t)) acc_float(&s, a->kind, ot_get_f64(from, t, at));
                else acc_int(&s, a->kind, ot_get_i64(from, t, at), t);
            } while (step(r, &x->shape, a->axes, xs, &at));
        if (ot_is_float(t)) ot_set_f64(c->out[0], y->dtype, out, acc_result(&s));
        else ot_set_i64(c->out[0], t, out, s.i);
        step(k, &x->shape, ~a->axes, yx, &out);
    }
    return OT_OK;
}

const ot_kernel ot_ref_Reduce = {
    .name = "ref", .can = reduce_can, .prepare = reduce_prepare, .run = reduce_run, .any_layout = true
};
