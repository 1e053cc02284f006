/* resample.cu - resamples an axis with a table: a thread computes VECTOR adjacent elements.
 *
 * RANK axes are in use, AXIS is the resampled one; SUM is the type of weights and sums. */
#include "resample.cuh"

#if VECTOR > 1
typedef ot_u128 word;
#else
typedef T_STORED word;
#endif

OT_KERNEL(interp, ot_interp_args, 256)
{
    const ot_num *start = (const ot_num *)a.start, *taps = (const ot_num *)a.from;
    const SUM    *weight = (const SUM *)a.weight, *add = (const SUM *)a.add;
    OT_GRID_LOOP(v, a.words) {
        ot_num rest = (ot_num)v, from = 0, i = 0;
        SUM    sum[VECTOR];
#pragma unroll
        for (int d = OT_INTERP_AXES - 1; d >= OT_INTERP_AXES - RANK; d--) {
            ot_num q = d > OT_INTERP_AXES - RANK ? OT_DIVIDE_BY(rest, a.n[d]) : 0, k = rest - q * (ot_num)a.n[d].n;
            if (d == AXIS) i = k;
            else from += k * (ot_num)a.stride[d];
            rest = q;
        }
#pragma unroll
        for (int e = 0; e < VECTOR; e++) sum[e] = add[i];
        for (ot_num t = start[i]; t < start[i + 1]; t++) {
            word w = *(const word *)((const T_STORED *)a.x + from + taps[t]);
#pragma unroll
            for (int e = 0; e < VECTOR; e++) sum[e] += weight[t] * (SUM)OT_LD(T, &w, e);
        }
        word w;
#pragma unroll
        for (int e = 0; e < VECTOR; e++) OT_ST(T, &w, e, (CLS)sum[e]);
        ((word *)a.y)[v] = w;
    }
}
