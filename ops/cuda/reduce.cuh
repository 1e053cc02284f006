/* reduce.cuh - arguments that reduce.c passes to reduce.cu and reduce_join.cu.
 *
 * The operand is the result of a program (map.cuh), V neighbours of the merged axes at a time.  reduce.c #defines
 *   CLS, ACC, LANE      class of the elements; type of sums; type of a thread's sums of a few elements
 *   TERM(v) JOIN(x, y)  an element as a term; two sums together
 *   START STORE(v)      the sum of nothing; a sum into the class that ot_st_<T> takes
 *   WHOLE               1: a whole tensor, element by element, whose last V may be partial
 *   KEPT, GONE          numbers of kept and of reduced merged axes
 *   KV                  V if the neighbours are separate results, else 1
 *   COLUMNS             by columns: threads along the results; else 0, and
 *   GROUP               threads that share a result
 *   PER                 results per thread: those of a byte, if they are smaller
 *   UNROLL              terms whose loads are in flight together
 *   JOINERS             threads that add the chunks of a result
 * and writes the fields as words of 64 bits. */
typedef struct ot_reduce_axis { ot_divider n; ot_i64 x, y; } ot_reduce_axis; /* steps in x, in y */

/* Terms and results are counted in units of a thread's elements at a time. */
typedef struct ot_reduce_call {
    void          *y;
    ACC           *partial; /* [chunks][results]; unused if there is one chunk */
    ot_i64         results, terms, chunk, chunks; /* chunk: terms of one */
    ot_i64         y_step;                        /* KV > 1: between neighbours */
    ot_reduce_axis kept[KEPT + 1], gone[GONE + 1]; /* outermost first; the last is not used */
    ot_map_call    map;
} ot_reduce_call;

/* A call; or several: of one result each, whose units are pairs of a call and a number of a chunk in it; by columns of one chunk
 * each, of a tile. */
typedef struct ot_reduce_args {
    const ot_reduce_call *calls; /* NULL: `one` */
    const ot_u32         *chunks;
    ot_i64                units;
    ot_reduce_call        one;
} ot_reduce_args;

/* The position of number i along the given axes; *y: in the result. */
OT_DEVICE ot_num reduce_place(const ot_reduce_axis *axis, int rank, ot_num i, ot_i64 *y)
{
    ot_i64 x = 0;
    *y = 0;
    OT_UNROLL
    for (int d = rank - 1; d >= 0; d--) {
        ot_num over = d ? OT_DIVIDE_BY(i, axis[d].n) : 0, k = i - over * (ot_num)axis[d].n.n;
        x += (ot_i64)k * axis[d].x;
        *y += (ot_i64)k * axis[d].y;
        i = over;
    }
    return (ot_num)x;
}

/* Stores result number i. */
OT_DEVICE void reduce_store(const ot_reduce_call *c, ot_i64 i, ACC v)
{
    ot_i64 at;
    reduce_place(c->kept, KEPT, (ot_num)(i / KV), &at);
    OT_ST(T, c->y, at + i % KV * c->y_step, STORE(v));
}

/* Over `n` neighbouring threads of a warp, the same in all of them. */
OT_DEVICE ACC reduce_warp(ACC v, int n)
{
    for (int d = n / 2; d > 0; d /= 2) {
        ACC other = OT_SHUFFLE_XOR(v, d);
        v = JOIN(v, other);
    }
    return v;
}
