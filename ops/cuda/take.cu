/* take.cu - gathers rows by index, in the widest words that divide them, EACH of them per thread.
 *
 * The row of an index that is out of range is reported and filled with zeros. */
#include "take.cuh"

/* The words of one unit. */
#define TAKE_WORDS(name, WORD)                                                                                         \
    OT_DEVICE void name(const ot_take_call *c, void *fault, ot_i64 unit)                                                \
    {                                                                                                                   \
        const WORD *x = (const WORD *)c->x;                                                                             \
        WORD       *y = (WORD *)c->y, zero = { 0 }, w[EACH];                                                            \
        OT_UNROLL                                                                                                       \
        for (int e = 0; e < EACH; e++) {                                                                                \
            ot_num v = (ot_num)(unit * 256 * EACH) + e * 256 + OT_THREAD;                                               \
            w[e] = zero;                                                                                                \
            if (v >= (ot_num)c->words) continue;                                                                        \
            ot_num i = OT_DIVIDE_BY(v, c->row), o = OT_DIVIDE_BY(i, c->m);                                              \
            ot_i64 place = OT_LD(INDEX, c->index, i - o * (ot_num)c->m.n);                                              \
            if (place < -c->n || place >= c->n) ot_report(fault, c->step, OT_FAULT_INDEX, place);                       \
            else w[e] = x[((place < 0 ? place + c->n : place) + o * c->n) * c->row.n + (v - i * (ot_num)c->row.n)];     \
        }                                                                                                               \
        OT_UNROLL                                                                                                       \
        for (int e = 0; e < EACH; e++) {                                                                                \
            ot_i64 v = unit * 256 * EACH + e * 256 + OT_THREAD;                                                         \
            if (v < c->words) y[v] = w[e];                                                                              \
        }                                                                                                               \
    }

TAKE_WORDS(take_1, unsigned char)
TAKE_WORDS(take_2, ot_u16)
TAKE_WORDS(take_4, ot_u32)
TAKE_WORDS(take_8, ot_u64)
TAKE_WORDS(take_16, ot_u128)

OT_KERNEL(take, ot_take_args, 256)
{
    for (ot_i64 u = OT_BLOCK; u < a.units; u += OT_BLOCKS) {
        const ot_take_call *c = a.calls ? &a.calls[a.chunks[2 * u]] : &a.one;
        ot_i64              unit = a.calls ? (ot_i64)a.chunks[2 * u + 1] : u;
        switch (c->word) { /* the same for all threads of the block */
        case 0: take_1(c, a.fault, unit); break;
        case 1: take_2(c, a.fault, unit); break;
        case 2: take_4(c, a.fault, unit); break;
        case 3: take_8(c, a.fault, unit); break;
        default: take_16(c, a.fault, unit);
        }
    }
}
