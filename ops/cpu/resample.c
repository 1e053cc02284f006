/* resample.c - Resample of float32: rows weighted and added, or elements along the innermost axis. */
#include "ops/kernels/resample.h"

#include "ops/kernels/box.h"

enum { SMALL = 1 << 14 };

static bool interp_can(const ot_node *n, const char **why)
{
    const ot_value *x = n->in[0];
    if (!ot_f32_can(x, why)) return false;
    if (x->shape.rank > 2 && x->layout != n->out[0]->layout) return ot_refuse(why, "x and y have different layouts");
    return true;
}

/* x in memory order is (outer, n, inner) around the axis. */
static int64_t outer_of(const ot_value *x, int64_t axis, int64_t *inner)
{
    int64_t xs[OT_MAX_RANK];
    ot_value_strides(x, xs);
    *inner = xs[axis];
    int64_t block = *inner * x->shape.dim[axis];
    return block ? ot_numel(&x->shape) / block : 0;
}

/* Row i of y: `inner` elements of x's rows at x. */
static void row(const ot_resample *a, int64_t i, const float *x, int64_t inner, float *restrict y)
{
    float add = a->add ? (float)a->add[i] : 0;
    int64_t k = a->start[i], end = a->start[i + 1];
    if (k == end || add != 0)
        for (int64_t r = 0; r < inner; r++) y[r] = add;
    else {
        const float *restrict u = x + a->from[k] * inner;
        float w = (float)a->weight[k++];
        if (k < end) { /* the first two at once: linear interpolation has no more */
            const float *restrict v = x + a->from[k] * inner;
            float z = (float)a->weight[k++];
#pragma omp simd
            for (int64_t r = 0; r < inner; r++) y[r] = w * u[r] + z * v[r];
        } else {
#pragma omp simd
            for (int64_t r = 0; r < inner; r++) y[r] = w * u[r];
        }
    }
    for (; k < end; k++) {
        const float *restrict u = x + a->from[k] * inner;
        float w = (float)a->weight[k];
#pragma omp simd
        for (int64_t r = 0; r < inner; r++) y[r] += w * u[r];
    }
}

static void line(const ot_resample *a, const float *x, float *y)
{
    for (int64_t i = 0; i < a->size; i++) {
        float s = a->add ? (float)a->add[i] : 0;
        for (int64_t k = a->start[i]; k < a->start[i + 1]; k++) s += (float)a->weight[k] * x[a->from[k]];
        y[i] = s;
    }
}

static ot_status interp_run(const ot_call *c)
{
    const ot_resample *a = c->node->attrs;
    const float *x = c->in[0];
    float *y = c->out[0];
    int64_t inner, n = c->node->in[0]->shape.dim[a->axis], outer = outer_of(c->node->in[0], a->axis, &inner);
    int64_t tasks = inner == 1 ? outer : outer * a->size;
    int threads = outer * inner * (a->size + a->start[a->size]) < SMALL ? 1 : c->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        int64_t lo, hi;
        ot_part(tasks, part, threads, &lo, &hi);
        for (int64_t i = lo; i < hi; i++)
            if (inner == 1) line(a, x + i * n, y + i * a->size);
            else row(a, i % a->size, x + i / a->size * n * inner, inner, y + i * inner);
    }
    return OT_OK;
}

const ot_kernel ot_cpu_Resample = { .name = "cpu", .can = interp_can, .run = interp_run, .any_layout = true };
