/* order.cu - sorts indices by the row that they address, equal ones in order.
 *
 * KEY is an unsigned type for rows and positions.  An index out of range (NEGATIVE: ones from the end are in range) is
 * reported and becomes row n, after all others.  Few indices are sorted in one launch: each thread counts those before
 * its own.  Many are sorted by digits of 8 bits, lowest first: `count` counts them per block, `spread` moves each to
 * the position given by the counts of its digit. */
#include "order.cuh"

OT_DEVICE KEY key_of(const ot_order_args *a, ot_i64 i)
{
    ot_i64 v = OT_LD(INDEX, a->index, i);
    if (v >= (NEGATIVE ? -a->n : 0) && v < a->n) return (KEY)(v < 0 ? v + a->n : v);
    ot_report(a->fault, a->step, OT_FAULT_INDEX, v);
    return (KEY)a->n;
}

OT_KERNEL(rank, ot_order_args, 256)
{
    OT_SHARED(KEY, tile, 256);
    ot_i64 i = OT_BLOCK * 256 + OT_THREAD, before = 0;
    KEY    own = i < a.m ? key_of(&a, i) : 0;
    for (ot_i64 first = 0; first < a.m; first += 256) {
        tile[OT_THREAD] = first + OT_THREAD < a.m ? key_of(&a, first + OT_THREAD) : ~(KEY)0;
        OT_SYNC();
        for (int j = 0; j < 256; j++) before += tile[j] < own + (first + j < i);
        OT_SYNC();
    }
    if (i >= a.m) return;
    ((KEY *)a.to)[before] = own;
    ((KEY *)a.to_order)[before] = (KEY)i;
}

OT_KERNEL(count, ot_order_args, 256)
{
    OT_SHARED(int, count, 256);
    ot_i64 end = (OT_BLOCK + 1) * a.tile;
    count[OT_THREAD] = 0;
    OT_SYNC();
    for (ot_i64 i = OT_BLOCK * a.tile + OT_THREAD; i < end && i < a.m; i += 256) {
        KEY k = a.from ? ((const KEY *)a.from)[i] : key_of(&a, i);
        ot_atomic_add(&count[k >> a.shift & 255], 1);
    }
    OT_SYNC();
    a.count[OT_BLOCK * 256 + OT_THREAD] = count[OT_THREAD];
}

/* Sum of v over the preceding threads. */
OT_DEVICE ot_i64 sum_in_front(ot_i64 v, ot_i64 *totals)
{
    ot_i64 upto = v, front = 0;
    int    lane = OT_THREAD % 32, warp = OT_THREAD / 32;
    for (int d = 1; d < 32; d *= 2) {
        ot_i64 from = OT_SHUFFLE_UP(upto, d);
        if (lane >= d) upto += from;
    }
    if (lane == 31) totals[warp] = upto;
    OT_SYNC();
    for (int w = 0; w < warp; w++) front += totals[w];
    OT_SYNC();
    return front + upto - v;
}

OT_KERNEL(spread, ot_order_args, 256)
{
    OT_SHARED(ot_i64, base, 257);          /* where the next key of a digit goes; 256: no key */
    OT_SHARED(int, here, 8 * 257);         /* keys of a digit in each warp */
    OT_SHARED(ot_i64, totals, 8);
    int    lane = OT_THREAD % 32, warp = OT_THREAD / 32;
    ot_i64 all = 0, front = 0, end = (OT_BLOCK + 1) * a.tile;
    for (int b = 0; b < a.blocks; b++) {
        int n = a.count[b * 256 + OT_THREAD];
        if (b < OT_BLOCK) front += n;
        all += n;
    }
    base[OT_THREAD] = front + sum_in_front(all, totals);
    for (int w = 0; w < 8; w++) here[w * 257 + OT_THREAD] = 0;
    OT_SYNC();
    for (ot_i64 first = OT_BLOCK * a.tile; first < end && first < a.m; first += 256) {
        ot_i64 i = first + OT_THREAD;
        KEY    k = i >= a.m ? 0 : a.from ? ((const KEY *)a.from)[i] : key_of(&a, i);
        int    digit = i < a.m ? (int)(k >> a.shift & 255) : 256;
        ot_u32 same = OT_MATCH((ot_u32)digit);
        int    mine = ot_popcount(same & ((1u << lane) - 1));
        if (mine == 0) here[warp * 257 + digit] = ot_popcount(same);
        OT_SYNC();
        if (i < a.m) {
            ot_i64 to = base[digit] + mine;
            for (int w = 0; w < warp; w++) to += here[w * 257 + digit];
            ((KEY *)a.to)[to] = k;
            ((KEY *)a.to_order)[to] = a.from ? ((const KEY *)a.from_order)[i] : (KEY)i;
        }
        OT_SYNC();
        for (int w = 0; w < 8; w++) {
            base[OT_THREAD] += here[w * 257 + OT_THREAD];
            here[w * 257 + OT_THREAD] = 0;
        }
        OT_SYNC();
    }
}
