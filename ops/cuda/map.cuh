/* map.cuh - arguments that map.c passes to map.cu.
 *
 * The sizes are #defined by the text that map_print.c makes: V elements per thread at a time, MAP_OPERANDS inputs and
 * outputs, MAP_STRIDED of them (and of the logical position) that are not contiguous, MAP_RANK merged axes, MAP_LOGICAL
 * axes whose coordinate is needed, WIDE positions of 64 bits. map.c writes the same fields, in the same order, as words
 * of 64 bits. */
#include "divide.cuh"

/* One call. */
typedef struct ot_map_call {
    void  *at[MAP_OPERANDS];
    ot_i64 n; /* elements of an output */
#if MAP_STRIDED
    ot_divider axis[MAP_RANK]; /* outermost first */
    ot_i64     stride[MAP_STRIDED][MAP_RANK];
#endif
#if MAP_LOGICAL
    struct { ot_i64 step, n; } logical[MAP_LOGICAL];
#endif
} ot_map_call;

/* A call; or several, whose chunks are pairs of a call and a number of a chunk in it. */
typedef struct ot_map_args {
    const ot_map_call *calls;   /* NULL: `one` */
    const ot_u32      *chunks;
    ot_i64             n_chunks;
    ot_i64             vectors; /* of V elements, in a chunk */
    ot_map_call        one;
} ot_map_args;

/* ---- V elements as they are stored ----------------------------------------------- */

/* shift: a stored unit contains 1 << shift elements. */
#define MAP_PACK(t, stored, shift, align)                                                               \
    typedef struct OT_ALIGN(align) map_##t { stored e[V >> shift]; } map_##t;                            \
    OT_DEVICE map_##t map_read_##t(const void *p, ot_num i, ot_i64 n)                                        \
    {                                                                                                   \
        map_##t       x;                                                                                \
        const stored *from = (const stored *)p + (i >> shift);                                           \
        OT_GLOBAL(from);                                                                                 \
        if ((ot_i64)i + V <= n) return *(const map_##t *)from;                                           \
        ot_i64 left = (n - (ot_i64)i + (1 << shift) - 1) >> shift;                                       \
        OT_UNROLL                                                                                       \
        for (int j = 0; j < V >> shift; j++) x.e[j] = j < left ? from[j] : (stored)0;                     \
        return x;                                                                                       \
    }                                                                                                   \
    OT_DEVICE void map_write_##t(void *p, ot_num i, ot_i64 n, map_##t x)                                     \
    {                                                                                                   \
        stored *to = (stored *)p + (i >> shift);                                                         \
        ot_i64  left = (n - (ot_i64)i + (1 << shift) - 1) >> shift;                                      \
        OT_GLOBAL(to);                                                                                  \
        if ((ot_i64)i + V <= n) {                                                                       \
            *(map_##t *)to = x;                                                                         \
            return;                                                                                     \
        }                                                                                               \
        OT_UNROLL                                                                                       \
        for (int j = 0; j < V >> shift; j++)                                                            \
            if (j < left) to[j] = x.e[j];                                                               \
    }

/* ---- positions ---------------------------------------------------------------------- */

#if MAP_STRIDED
/* The position of element i of the merged axes in every strided operand. */
OT_DEVICE void map_offsets(const ot_map_call *m, ot_num i, ot_i64 offset[MAP_STRIDED])
{
    OT_UNROLL
    for (int s = 0; s < MAP_STRIDED; s++) offset[s] = 0;
    OT_UNROLL
    for (int d = MAP_RANK - 1; d >= 0; d--) {
        ot_num over = d ? OT_DIVIDE_BY(i, m->axis[d]) : 0, k = i - over * (ot_num)m->axis[d].n;
        OT_UNROLL
        for (int s = 0; s < MAP_STRIDED; s++) offset[s] += (ot_i64)k * m->stride[s][d];
        i = over;
    }
}
#endif
