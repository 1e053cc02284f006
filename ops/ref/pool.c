/* pool.c - PoolMax, PoolAvg and their gradients, the plain loops. */
#include "ops/kernels/pool.h"

#include <math.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/ref/element.h"

/* One (n, c) plane at a time; three spatial axes. */
typedef struct ot_plane {
    int64_t in[3], out[3], I, O, planes;
    ot_window w;
} ot_plane;

static ot_plane plane_of(const ot_pool *a, const ot_shape *x, const ot_shape *y)
{
    ot_plane p = { .planes = x->dim[0] * x->dim[1] };
    ot_spatial_3d(x, p.in);
    ot_spatial_3d(y, p.out);
    ot_window_3d(&a->window, &p.w);
    p.I = p.in[0] * p.in[1] * p.in[2];
    p.O = p.out[0] * p.out[1] * p.out[2];
    return p;
}

/* Calls body for every (plane, o, f, i): output position o, window element f, input position i inside x. */
#define FOR_WINDOW(p, o, f, i)                                                                      \
    for (int64_t f = 0, i = 0; f < p->w.kernel[0] * p->w.kernel[1] * p->w.kernel[2]; f++)            \
        if ((i = position(p, o, f)) >= 0)

OT_INLINE int64_t position(const ot_plane *p, int64_t o, int64_t f)
{
    int64_t at = 0, step = 1;
    for (int j = 2; j >= 0; j--) {
        int64_t i = (o % p->out[j]) * p->w.stride[j] + (f % p->w.kernel[j]) * p->w.dilation[j] - p->w.pad_lo[j];
        if (i < 0 || i >= p->in[j]) return -1;
        at += i * step;
        step *= p->in[j];
        o /= p->out[j];
        f /= p->w.kernel[j];
    }
    return at;
}

/* Window elements in the padding count, those beyond it never do. */
static int64_t counted(const ot_plane *p, int64_t o)
{
    int64_t n = 1;
    for (int j = 2; j >= 0; j--) {
        int64_t first = (o % p->out[j]) * p->w.stride[j] - p->w.pad_lo[j], k = 0;
        for (int64_t f = 0; f < p->w.kernel[j]; f++) k += first + f * p->w.dilation[j] < p->in[j] + p->w.pad_hi[j];
        n *= k;
        o /= p->out[j];
    }
    return n;
}

static int64_t column_major(const ot_plane *p, int64_t i)
{
    int64_t at = 0, step = p->I;
    for (int j = 2; j >= 0; j--) {
        step /= p->in[j];
        at += (i % p->in[j]) * step;
        i /= p->in[j];
    }
    return at;
}

/* ---- maximum ----------------------------------------------------------------- */

static void put_where(void *where, ot_dtype t, int64_t i, int64_t f)
{
    if (!where) return;
    if (t == OT_U8) ((uint8_t *)where)[i] = (uint8_t)(f < 0 ? 255 : f);
    else ((int32_t *)where)[i] = (int32_t)f;
}

static int64_t get_where(const void *where, ot_dtype t, int64_t i)
{
    if (t != OT_U8) return ((const int32_t *)where)[i];
    uint8_t f = ((const uint8_t *)where)[i];
    return f == 255 ? -1 : f;
}

OT_INLINE void maximum(ot_dtype t, const ot_plane *p, const ot_call *c, bool columns)
{
    const ot_node *n = c->node;
    void *where = c->out[1];
    int64_t *indices = n->n_out > 2 ? c->out[2] : NULL;
    double least = ot_is_float(t) ? -(double)INFINITY : t == OT_U8 ? 0 : t == OT_I8 ? -128 : -0x1p63;
    for (int64_t z = 0; z < p->planes; z++)
        for (int64_t o = 0; o < p->O; o++) {
            double best = least;
            int64_t from = -1, at = -1;
            FOR_WINDOW(p, o, f, i)
            {
                double v = ot_load(c->in[0], t, z * p->I + i);
                if (from < 0 || v > best || (v != v && best == best)) {
                    best = v;
                    from = f;
                    at = i;
                }
            }
            if (c->out[0]) ot_store(c->out[0], t, z * p->O + o, best);
            if (n->out[1]) put_where(where, n->out[1]->dtype, z * p->O + o, from);
            if (indices) indices[z * p->O + o] = at < 0 ? -1 : z * p->I + (columns ? column_major(p, at) : at);
        }
}

static ot_status max_run(const ot_call *c)
{
    const ot_pool *a = c->node->attrs;
    ot_shape y = c->node->in[0]->shape;
    for (int j = 0; j < a->window.nd; j++) y.dim[2 + j] = a->out[j];
    ot_plane p = plane_of(a, &c->node->in[0]->shape, &y);
    OT_BY_TYPE(c->node->in[0]->dtype, maximum, &p, c, a->column_major != 0);
    return OT_OK;
}

/* Iterates over dx and the windows that contain each element: sums in f64, rounded once. */
OT_INLINE void maximum_grad(ot_dtype t, const ot_plane *p, const ot_call *c)
{
    ot_dtype wt = c->node->in[1]->dtype;
    for (int64_t z = 0; z < p->planes; z++)
        for (int64_t o = 0; o < p->O; o++) {
            int64_t f = get_where(c->in[1], wt, z * p->O + o);
            int64_t i = f < 0 ? -1 : position(p, o, f);
            if (i < 0) continue;
            ot_store(c->out[0], t, z * p->I + i,
                     ot_load(c->out[0], t, z * p->I + i) + ot_load(c->in[0], t, z * p->O + o));
        }
}

static ot_status max_dx_run(const ot_call *c)
{
    const ot_value *dx = c->node->out[0];
    ot_plane p = plane_of(c->node->attrs, &dx->shape, &c->node->in[0]->shape);
    size_t bytes = ot_bytes(&dx->shape, dx->dtype);
    if (bytes) memset(c->out[0], 0, bytes);
    OT_BY_TYPE(dx->dtype, maximum_grad, &p, c);
    return OT_OK;
}

/* ---- average ------------------------------------------------------------------ */

static int64_t divisor(const ot_plane *p, int64_t o, bool include_pad)
{
    int64_t n = 0;
    if (include_pad) return counted(p, o);
    FOR_WINDOW(p, o, f, i) n++;
    return n;
}

OT_INLINE void average(ot_dtype t, const ot_plane *p, const ot_call *c, bool include_pad)
{
    for (int64_t o = 0; o < p->O; o++) {
        int64_t n = divisor(p, o, include_pad);
        for (int64_t z = 0; z < p->planes; z++) {
            double sum = 0;
            FOR_WINDOW(p, o, f, i) sum += ot_load(c->in[0], t, z * p->I + i);
            ot_store(c->out[0], t, z * p->O + o, n ? sum / (double)n : 0);
        }
    }
}

static ot_status avg_run(const ot_call *c)
{
    const ot_pool *a = c->node->attrs;
    ot_plane p = plane_of(a, &c->node->in[0]->shape, &c->node->out[0]->shape);
    OT_BY_TYPE(c->node->out[0]->dtype, average, &p, c, a->include_pad != 0);
    return OT_OK;
}

OT_INLINE void average_grad(ot_dtype t, const ot_plane *p, const ot_call *c, bool include_pad)
{
    for (int64_t o = 0; o < p->O; o++) {
        int64_t n = divisor(p, o, include_pad);
        for (int64_t z = 0; z < p->planes && n; z++) {
            double part = ot_load(c->in[0], t, z * p->O + o) / (double)n;
            FOR_WINDOW(p, o, f, i)
            ot_store(c->out[0], t, z * p->I + i, ot_load(c->out[0], t, z * p->I + i) + part);
        }
    }
}

static ot_status avg_dx_run(const ot_call *c)
{
    const ot_pool *a = c->node->attrs;
    const ot_value *dx = c->node->out[0];
    ot_plane p = plane_of(a, &dx->shape, &c->node->in[0]->shape);
    size_t bytes = ot_bytes(&dx->shape, dx->dtype);
    if (bytes) memset(c->out[0], 0, bytes);
    OT_BY_TYPE(dx->dtype, average_grad, &p, c, a->include_pad != 0);
    return OT_OK;
}

const ot_kernel ot_ref_PoolMax = { .name = "ref", .run = max_run };
const ot_kernel ot_ref_PoolMaxDx = { .name = "ref", .run = max_dx_run };
const ot_kernel ot_ref_PoolAvg = { .name = "ref", .run = avg_run };
const ot_kernel ot_ref_PoolAvgDx = { .name = "ref", .run = avg_dx_run };
