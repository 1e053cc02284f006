/* flatindex.cu - converts indices to rows of a flat tensor; an index out of range is reported, and becomes 0. */
#include "flatindex.cuh"

OT_KERNEL(places, ot_flat_index_args, 256)
{
    OT_GRID_LOOP(i, a.elements) {
        ot_i64 at = 0, rest = i;
        for (int d = a.rank - 1; d >= 0; d--) {
            at += rest % a.y[d] * a.stride[d];
            rest /= a.y[d];
        }
        for (int j = 0; j < a.q; j++) {
            ot_i64 v = OT_LD(INDEX, a.index, i * a.q + j);
            if (v < (a.no_negative ? 0 : -a.n[j]) || v >= a.n[j]) ot_report(a.fault, a.step, OT_FAULT_INDEX, v);
            else at += (v < 0 ? v + a.n[j] : v) * a.step_of[j];
        }
        a.place[i] = at;
    }
}
