/* transpose.cu - a box whose innermost axes differ on both sides, by tiles in shared memory.
 *
 * A tile is ROWS by COLUMNS words; along the rows x is dense, along the columns y.  PITCH, from column to column,
 * avoids bank conflicts in both directions. */
#include "copy.cuh"

OT_KERNEL(transpose, ot_transpose_args, 256)
{
    OT_SHARED(WORD, tile, COLUMNS * PITCH);
    const WORD *x = (const WORD *)a.x;
    WORD       *y = (WORD *)a.y;
    for (ot_i64 i = OT_BLOCK; i < a.tiles; i += OT_BLOCKS) {
        ot_num q = OT_DIVIDE_BY((ot_num)i, a.across), o = OT_DIVIDE_BY(q, a.down);
        int    c0 = (int)((ot_num)i - q * (ot_num)a.across.n) * COLUMNS, r0 = (int)(q - o * (ot_num)a.down.n) * ROWS;
        ot_i64 to = a.to + r0 * a.t + c0, from = a.from + c0 * a.f + r0;
        for (int d = a.n - 1; d >= 0; d--) {
            ot_num next = OT_DIVIDE_BY(o, a.outer[d].n), k = o - next * (ot_num)a.outer[d].n.n;
            to += k * a.outer[d].t;
            from += k * a.outer[d].f;
            o = next;
        }
#pragma unroll
        for (int e = OT_THREAD; e < ROWS * COLUMNS; e += 256) {
            int r = e % ROWS, c = e / ROWS;
            if (r0 + r < a.rows && c0 + c < a.columns) tile[c * PITCH + r] = x[from + c * a.f + r];
        }
        OT_SYNC();
#pragma unroll
        for (int e = OT_THREAD; e < ROWS * COLUMNS; e += 256) {
            int c = e % COLUMNS, r = e / COLUMNS;
            if (r0 + r < a.rows && c0 + c < a.columns) y[to + r * a.t + c] = tile[c * PITCH + r];
        }
        OT_SYNC();
    }
}
