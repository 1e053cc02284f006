/* scatter.cu - rows joined where they go, in the order of their indices.
 *
 * The indices have been sorted by place (order.cu).  `parts`: a thread joins one column of a chunk of rows; what
 * began and ended in the chunk goes to y, what crosses a border becomes a part.  `joins`: where a place begins in a
 * chunk and continues, its parts are joined.  Chunks have one size, so the result depends on nothing else.
 *
 * KEY is order.cu's.  JOIN(a, b) of SUM combines updates, FRESH: y is not read.  CLS is the class of T. */
#include "scatter.cuh"

enum { CHUNK = OT_SCATTER_CHUNK, AT_ONCE = 8 };

/* The column and the chunk of a thread. */
typedef struct share { ot_num column, chunk, outer; } share;

OT_DEVICE share share_of(const ot_scatter_args *a, ot_i64 i)
{
    ot_num v = (ot_num)i, rest = OT_DIVIDE_BY(v, a->inner);
    share  s;
    s.column = v - rest * (ot_num)a->inner.n;
    s.outer = OT_DIVIDE_BY(rest, a->chunks);
    s.chunk = rest - s.outer * (ot_num)a->chunks.n;
    return s;
}

OT_DEVICE void put(const ot_scatter_args *a, share s, KEY place, SUM v)
{
    if ((ot_i64)place >= a->n) return; /* an index out of range */
    ot_i64 at = (s.outer * a->n + (ot_i64)place) * a->inner.n + s.column;
#if !FRESH
    SUM there = (SUM)OT_LD(T, a->y, at);
    v = JOIN(there, v);
#endif
    OT_ST(T, a->y, at, (CLS)v);
}

/* For each chunk: the part continued from the previous (0), the part continued in the next (1). */
OT_DEVICE SUM *part(const ot_scatter_args *a, share s, ot_i64 chunk, int which)
{
    return (SUM *)a->part + ((s.outer * a->chunks.n + chunk) * 2 + which) * a->inner.n + s.column;
}

OT_KERNEL(parts, ot_scatter_args, 256)
{
    const KEY *key = (const KEY *)a.key, *position = (const KEY *)a.position;
    OT_GRID_LOOP(i, a.threads) {
        share  s = share_of(&a, i);
        ot_i64 first = (ot_i64)s.chunk * CHUNK, end = first + CHUNK < a.m ? first + CHUNK : a.m;
        KEY    at = key[first];
        int    from_before = first > 0 && key[first - 1] == at;
        SUM    sum = 0;
        for (ot_i64 e = first; e < end; e += AT_ONCE) {
            KEY k[AT_ONCE];
            SUM v[AT_ONCE];
#pragma unroll
            for (int g = 0; g < AT_ONCE; g++) {
                ot_i64 row = e + g < end ? e + g : end - 1;
                k[g] = key[row];
                v[g] = (SUM)OT_LD(T, a.x, (s.outer * a.m + (ot_i64)position[row]) * a.inner.n + s.column);
            }
#pragma unroll
            for (int g = 0; g < AT_ONCE; g++) {
                if (e + g >= end) continue;
                if (k[g] == at) {
                    sum = e + g == first ? v[g] : JOIN(sum, v[g]);
                    continue;
                }
                if (from_before) *part(&a, s, s.chunk, 0) = sum;
                else put(&a, s, at, sum);
                from_before = 0;
                at = k[g];
                sum = v[g];
            }
        }
        if (from_before) *part(&a, s, s.chunk, 0) = sum;
        else if (end < a.m && key[end] == at) *part(&a, s, s.chunk, 1) = sum;
        else put(&a, s, at, sum);
    }
}

OT_KERNEL(joins, ot_scatter_args, 256)
{
    const KEY *key = (const KEY *)a.key;
    OT_GRID_LOOP(i, a.threads) {
        share  s = share_of(&a, i);
        ot_i64 first = (ot_i64)s.chunk * CHUNK, end = first + CHUNK;
        if (end >= a.m || key[end] != key[end - 1]) continue; /* nothing continues from here */
        KEY at = key[end];
        if (first > 0 && key[first - 1] == at) continue; /* it began before */
        ot_i64 lo = end + 1, hi = a.m;                   /* the first update of another row */
        while (lo < hi) {
            ot_i64 middle = lo + (hi - lo) / 2;
            if (key[middle] == at) lo = middle + 1;
            else hi = middle;
        }
        SUM    sum = *part(&a, s, s.chunk, 1);
        ot_i64 last = (lo - 1) / CHUNK;
#pragma unroll 8
        for (ot_i64 c = s.chunk + 1; c <= last; c++) {
            SUM v = *part(&a, s, c, 0);
            sum = JOIN(sum, v);
        }
        put(&a, s, at, sum);
    }
}
