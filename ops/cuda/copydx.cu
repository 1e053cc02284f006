/* copydx.cu - CopyDx by gathering: a thread finds the elements of dy that were copied from its element of dx, and adds
 * them.
 *
 * Element j of dx gets dy at every coordinate k of every box with to + sum k[d] * t[d] = j.  Axes come with the longest
 * stride first: the range of the following axes leaves an interval for k[d], usually of one number.  Boxes are added in
 * order, which makes the result deterministic.  LOOPS opens a loop for every axis in use, ENDS closes them.  MANY boxes
 * are in a table; a block first selects those that contain its elements.  PER elements share one byte, and are computed
 * by one thread. */
#include "copydx.cuh"
#if SMALL
#include "small.cuh"
#endif

/* The coordinates along an axis that can lead to `rest` elements behind the box's first.  Without branches: loops
 * nest deep enough. */
OT_DEVICE void interval(const ot_copyadd_axis *x, ot_num rest, ot_num *lo, ot_num *hi)
{
    ot_num last = (ot_num)x->extent - 1, reach = (ot_num)x->reach, t = (ot_num)x->t;
    ot_num most = OT_DIVIDE_BY(rest, x->by), more = rest - reach + t - 1;
    ot_num least = OT_DIVIDE_BY(more > 0 ? more : 0, x->by);
    *lo = t == 0 ? 0 : reach < t ? most : least;
    *hi = t == 0 || most > last ? last : most;
}

/* A loop over k of axis d.  Updates `rest` and `at` (in dy), and restores them at the end. */
#define OPEN(d)                                                                     \
    ot_num k##d, hi##d;                                                             \
    interval(&b->axis[d], rest, &k##d, &hi##d);                                     \
    rest -= k##d * (ot_num)b->axis[d].t;                                          \
    at += k##d * (ot_num)b->axis[d].f;                                              \
    _Pragma("unroll 1") /* usually one number */                                 \
    for (; k##d <= hi##d; k##d++) {
#define CLOSE(d)                                                                    \
        rest -= (ot_num)b->axis[d].t;                                             \
        at += (ot_num)b->axis[d].f;                                                 \
    }                                                                               \
    rest += k##d * (ot_num)b->axis[d].t;                                          \
    at -= k##d * (ot_num)b->axis[d].f;

OT_DEVICE SUM add_box(const ot_copyadd_box *b, const void *dy, ot_num j, SUM sum)
{
    ot_num rest = j - (ot_num)b->to, at = (ot_num)b->from;
    if (rest < 0 || j > (ot_num)b->end) return sum;
    LOOPS
    if (rest == 0) sum += (SUM)OT_LD(T, dy, at);
    ENDS
    return sum;
}

#if MANY
/* Selects, in order, those of the table's boxes first to first + 255 that contain elements lo to hi; returns their
 * number. */
OT_DEVICE int pick(const ot_copyadd_box *box, int n, int first, ot_i64 lo, ot_i64 hi, int *picked, int *counts)
{
    int    i = first + OT_THREAD, lane = OT_THREAD % 32, warp = OT_THREAD / 32;
    int    touches = i < n && box[i].to <= hi && box[i].end >= lo;
    ot_u32 all = OT_BALLOT(touches);
    if (lane == 0) counts[warp] = ot_popcount(all);
    OT_SYNC();
    int at = ot_popcount(all & ((1u << lane) - 1)), total = 0;
    for (int w = 0; w < 8; w++) {
        if (w < warp) at += counts[w];
        total += counts[w];
    }
    if (touches) picked[at] = i;
    OT_SYNC();
    return total;
}
#endif

#if PER > 1
#define EACH_OF_BYTE OT_UNROLL_BY(1) for (int place = 0; place < PER; place++)
#define PLACE place
#else
#define EACH_OF_BYTE
#define PLACE 0
#endif

OT_KERNEL(copyadd, ot_copyadd_args, 256)
{
#if MANY
    OT_SHARED(int, picked, 256);
    OT_SHARED(int, counts, 8);
#endif
    for (ot_i64 first = OT_BLOCK * 256 * PER; first < a.elements; first += OT_BLOCKS * 256 * PER) {
        EACH_OF_BYTE {
            ot_i64 j = first + OT_THREAD * PER + PLACE;
            SUM    sum = 0;
#if MANY
            for (int i = 0; i < a.n; i += 256) {
                int found = pick(a.table, a.n, i, first, first + 256 * PER - 1, picked, counts);
                for (int p = 0; p < found && j < a.elements; p++) sum = add_box(a.table + picked[p], a.dy, (ot_num)j, sum);
                OT_SYNC();
            }
#else
            for (int i = 0; i < a.n && j < a.elements; i++) sum = add_box(&a.box[i], a.dy, (ot_num)j, sum);
#endif
            if (j < a.elements) OT_ST(T, a.dx, j, (CLS)sum);
        }
    }
}
