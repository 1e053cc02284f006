/* softmax.cu - softmax along one axis, and its gradient; the geometry of group.cuh.
 *
 * LOG: log-softmax.  GRADIENT: the kernel that this text is compiled for. */
#include "group.cuh"
#include "softmax.cuh"

#if !GRADIENT

OT_KERNEL(softmax_rows, ot_softmax_axis_args, BOUNDS)
{
    OT_SHARED(ACC, shared, OT_GROUP_SHARED);
    OT_EACH_BLOCK_OF_SAMPLES(first, a.samples) {
        ot_line l = line_of(first, a.samples, a.n, a.step);
        ACC     max = LOWEST, sum = 0, v[LANES];
        OT_KEEP(x, a.x, &l, a.step);
        OT_EACH_PACK(&l, i) {
            OT_OPEN(x, a.x, &l, i, a.step, -OT_INF, v);
            softmax_more(v, &max, &sum);
        }
        softmax_join(&max, &sum, shared);
        ACC lse = log(sum);
        OT_EACH_PACK(&l, i) {
            OT_OPEN(x, a.x, &l, i, a.step, -OT_INF, v);
            for (int e = 0; e < LANES; e++) v[e] = LOG ? v[e] - max - lse : exp(v[e] - max) / sum;
            put(a.y, &l, i, a.step, v);
        }
    }
}

#else

/* dx = y (dy - sum y dy); log: dx = dy - exp(y) sum dy. */
OT_KERNEL(softmax_rows_dx, ot_softmax_axis_args, BOUNDS)
{
    OT_SHARED(ACC, shared, OT_GROUP_SHARED);
    OT_EACH_BLOCK_OF_SAMPLES(first, a.samples) {
        ot_line l = line_of(first, a.samples, a.n, a.step);
        ACC     sum = 0, v[LANES], g[LANES];
        OT_KEEP(y, a.x, &l, a.step);
        OT_KEEP(dy, a.dy, &l, a.step);
        OT_EACH_PACK(&l, i) {
            OT_OPEN(y, a.x, &l, i, a.step, 0, v);
            OT_OPEN(dy, a.dy, &l, i, a.step, 0, g);
            for (int e = 0; e < LANES; e++) sum += LOG ? g[e] : g[e] * v[e];
        }
        sum = group_sum(sum, shared);
        OT_EACH_PACK(&l, i) {
            OT_OPEN(y, a.x, &l, i, a.step, 0, v);
            OT_OPEN(dy, a.dy, &l, i, a.step, 0, g);
            for (int e = 0; e < LANES; e++) g[e] = LOG ? g[e] - exp(v[e]) * sum : v[e] * (g[e] - sum);
            put(a.y, &l, i, a.step, g);
        }
    }
}

#endif
