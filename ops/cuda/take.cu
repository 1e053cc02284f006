/* take.cu - gathers rows by index, in words of type WORD, EACH of them per thread.
 *
 * The row of an index that is out of range is reported and filled with zeros. */
#include "take.cuh"

OT_KERNEL(take, ot_take_args, 256)
{
    const WORD *x = (const WORD *)a.x;
    WORD       *y = (WORD *)a.y, zero = { 0 };
    for (ot_i64 unit = OT_BLOCK * 256 * EACH; unit < a.words; unit += OT_BLOCKS * 256 * EACH) {
        WORD w[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            ot_num v = (ot_num)unit + e * 256 + OT_THREAD;
            w[e] = zero;
            if (v >= (ot_num)a.words) continue;
            ot_num i = OT_DIVIDE_BY(v, a.row), o = OT_DIVIDE_BY(i, a.m);
            ot_i64 place = OT_LD(INDEX, a.index, i - o * (ot_num)a.m.n);
            if (place < -a.n || place >= a.n) ot_report(a.fault, a.step, OT_FAULT_INDEX, place);
            else w[e] = x[((place < 0 ? place + a.n : place) + o * a.n) * a.row.n + (v - i * (ot_num)a.row.n)];
        }
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            ot_i64 v = unit + e * 256 + OT_THREAD;
            if (v < a.words) y[v] = w[e];
        }
    }
}
