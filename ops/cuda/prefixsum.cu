/* prefixsum.cu - cumulative sums along an axis: a block per line, in chunks of the block's size.
 *
 * CLS is the class of the elements T; sums of floats are taken in ACC, double as in the reference.  Each chunk is
 * summed by a scan over the block in a fixed order, so the result does not depend on the grid. */
#include "prefixsum.cuh"

OT_DEVICE ACC scan(ACC v, ACC *before, ACC *shared)
{
    /* Within the warp, then over the warps' totals; *before: the sum of the preceding threads. */
    ACC from;
    int lane = OT_THREAD % 32, warp = OT_THREAD / 32;
    for (int d = 1; d < 32; d *= 2) {
        from = OT_SHUFFLE_UP(v, d);
        if (lane >= d) v = from + v;
    }
    if (lane == 31) shared[warp] = v;
    from = OT_SHUFFLE_UP(v, 1);
    OT_SYNC();
    ACC front = 0, total = 0;
    for (int w = 0; w < OT_THREADS / 32; w++) {
        if (w == warp) front = total;
        total += shared[w];
    }
    OT_SYNC();
    *before = lane ? front + from : front;
    shared[32] = total;
    return front + v;
}

OT_KERNEL(prefix_sum, ot_prefix_sum_args, 128)
{
    OT_SHARED(ACC, shared, 33);
    for (ot_i64 l = OT_BLOCK; l < a.lines; l += OT_BLOCKS) {
        ot_i64 start = l / a.inner * a.n * a.inner + l % a.inner;
        ACC    sum = 0;
        for (ot_i64 first = 0; first < a.n; first += OT_THREADS) {
            ot_i64 i = first + OT_THREAD, k = a.reverse ? a.n - 1 - i : i;
            ot_i64 at = start + k * a.inner;
            ACC    v = i < a.n ? (ACC)OT_LD(T, a.x, at) : (ACC)0, before;
            ACC    upto = scan(v, &before, shared);
            if (i < a.n) OT_ST(T, a.y, at, (CLS)(sum + (a.exclusive ? before : upto)));
            OT_SYNC();
            sum += shared[32];
            OT_SYNC();
        }
    }
}
