/* copy.cu - boxes of words: a unit is 256 threads with EACH words, in the order of the output.
 *
 * WORD is the type that moves (1 to 16 bytes), RANK the number of axes in use, MANY: the boxes are in a table. */
#include "copy.cuh"

#define UNIT (256 * EACH)

/* The last box that begins at or before the unit. */
OT_DEVICE int box_of(const ot_copy_box *box, int n, ot_i64 unit)
{
    int lo = 0;
    for (int hi = n; hi - lo > 1;) {
        int middle = lo + (hi - lo) / 2;
        if (box[middle].unit <= unit) lo = middle;
        else hi = middle;
    }
    return lo;
}

OT_KERNEL(copy, ot_copy_args, 256)
{
#if MANY
    const ot_copy_box *box = a.table;
#else
    const ot_copy_box *box = a.box;
#endif
    union { unsigned char byte[16]; WORD word; } fill; /* in the arguments its bytes are not aligned for a word */
    WORD *y = (WORD *)a.y;
#pragma unroll
    for (int i = 0; i < 16; i++) fill.byte[i] = a.fill[i];
    for (ot_i64 unit = OT_BLOCK; unit < a.units; unit += OT_BLOCKS) {
        const ot_copy_box *b = box + box_of(box, a.n, unit);
        const WORD        *x = b->in < 0 ? 0 : (const WORD *)a.in[b->in];
        ot_num             first = (ot_num)(unit - b->unit) * UNIT + OT_THREAD, to[EACH];
        WORD               w[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            ot_num v = first + e * 256, from = (ot_num)b->from;
            to[e] = -1;
            if (v >= (ot_num)b->count) continue;
            to[e] = (ot_num)b->to;
#pragma unroll
            for (int d = OT_COPY_AXES - 1; d > OT_COPY_AXES - RANK; d--) {
                ot_num q = OT_DIVIDE_BY(v, b->axis[d].n), k = v - q * (ot_num)b->axis[d].n.n;
                to[e] += k * (ot_num)b->axis[d].t;
                from += k * (ot_num)b->axis[d].f;
                v = q;
            }
            to[e] += v * (ot_num)b->axis[OT_COPY_AXES - RANK].t;
            from += v * (ot_num)b->axis[OT_COPY_AXES - RANK].f;
            w[e] = x ? x[from] : fill.word;
        }
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (to[e] >= 0) y[to[e]] = w[e];
    }
}
