/* topkindex.cu - the indices of the k best along an axis.
 *
 * An element becomes a KEY, an unsigned number, smaller for better elements; equal elements are ordered by their
 * indices (LAST: in reverse), so that no two are equal and every sorting method gives one result. k = 1: `best`, TX
 * lines by TY threads.  Else `chunks` sorts chunks of CHUNK elements, a block each, and `merge` merges neighbouring
 * runs, keeping the k best, until one is left. */
#include "topkindex.cuh"

#define KEY_TOP ((KEY)1 << (sizeof(KEY) * 8 - 1))

OT_DEVICE KEY key_at(const void *x, ot_i64 i)
{
    CLS v = OT_LD(T, x, i);
#if REAL
    KEY u = v == 0 ? 0 : BITS(v); /* the two zeros are equal */
    KEY key = v != v ? ~(KEY)0 : u & KEY_TOP ? ~u : u | KEY_TOP;
#else
    KEY key = (KEY)v ^ (SIGNED ? KEY_TOP : 0);
#endif
    return SMALLEST ? key : ~key;
}

OT_DEVICE int before(KEY a, PLACE i, KEY b, PLACE j)
{
    return a < b || (a == b && (LAST ? i > j : i < j));
}

/* The start of line l, in a tensor with n elements along the axis. */
OT_DEVICE ot_i64 start_of(const ot_topk_index_args *a, ot_i64 l, ot_i64 n)
{
    return l / a->inner * n * a->inner + l % a->inner;
}

#ifdef TX
OT_KERNEL(best, ot_topk_index_args, 256)
{
    OT_SHARED(KEY, keys, 256);
    OT_SHARED(PLACE, places, 256);
    int row = ALONG ? OT_THREAD % TY : OT_THREAD / TX, column = ALONG ? OT_THREAD / TY : OT_THREAD % TX;
    int stride = ALONG ? 1 : TX;
    for (ot_i64 first = OT_BLOCK * TX; first < a.lines; first += OT_BLOCKS * TX) {
        ot_i64 l = first + column, start = start_of(&a, l, a.n);
        KEY    key = 0;
        PLACE  place = -1;
        for (ot_i64 i = row; i < a.n && l < a.lines; i += TY) {
            KEY k = key_at(a.x, start + i * a.inner);
            if (place >= 0 && !before(k, (PLACE)i, key, place)) continue;
            key = k;
            place = (PLACE)i;
        }
        keys[OT_THREAD] = key;
        places[OT_THREAD] = place;
        for (int half = TY / 2; half > 0; half /= 2) {
            OT_SYNC();
            if (row >= half) continue;
            int other = OT_THREAD + half * stride;
            if (places[other] < 0 || !before(keys[other], places[other], keys[OT_THREAD], places[OT_THREAD])) continue;
            keys[OT_THREAD] = keys[other];
            places[OT_THREAD] = places[other];
        }
        if (row == 0 && l < a.lines) a.y[l] = places[OT_THREAD];
        OT_SYNC();
    }
}
#endif

#ifdef CHUNK
OT_KERNEL(chunks, ot_topk_index_args, THREADS)
{
    OT_SHARED(KEY, keys, CHUNK);
    OT_SHARED(int, places, CHUNK); /* in the chunk */
    for (ot_i64 run = OT_BLOCK; run < a.lines * a.runs; run += OT_BLOCKS) {
        ot_i64 l = run / a.runs, first = run % a.runs * a.span, start = start_of(&a, l, a.n);
        int    n = (int)(a.n - first < a.span ? a.n - first : a.span), keep = (int)(n < a.k ? n : a.k);
        for (int i = OT_THREAD; i < CHUNK; i += THREADS) { /* missing elements come last */
            keys[i] = i < n ? key_at(a.x, start + (first + i) * a.inner) : ~(KEY)0;
            places[i] = i < n ? i : LAST ? -1 : CHUNK;
        }
        OT_SYNC();
        for (int size = 2; size <= CHUNK; size *= 2)
            for (int step = size / 2; step > 0; step /= 2) {
                for (int p = OT_THREAD; p < CHUNK / 2; p += THREADS) {
                    int i = p / step * step * 2 + p % step, j = i + step;
                    KEY u = keys[i], v = keys[j];
                    int s = places[i], t = places[j];
                    if (before(v, t, u, s) != ((i & size) == 0)) continue;
                    keys[i] = v;
                    keys[j] = u;
                    places[i] = t;
                    places[j] = s;
                }
                OT_SYNC();
            }
        for (int i = OT_THREAD; i < keep; i += THREADS) {
            ot_i64 at = run * (a.k < a.span ? a.k : a.span) + i;
            if (a.to_key) {
                ((KEY *)a.to_key)[at] = keys[i];
                ((PLACE *)a.to_place)[at] = (PLACE)(first + places[i]);
            } else {
                a.y[start_of(&a, l, a.k) + i * a.inner] = places[i];
            }
        }
        OT_SYNC();
    }
}

/* The number of elements of run r: of its `span` of x the k best were kept. */
OT_DEVICE ot_i64 length(const ot_topk_index_args *a, ot_i64 r, ot_i64 span)
{
    ot_i64 n = a->n - r * span < span ? a->n - r * span : span;
    return n < a->k ? n : a->k;
}

/* A thread finds the position of one element: after those before it in its own run and in the other. */
OT_KERNEL(merge, ot_topk_index_args, THREADS)
{
    const KEY   *key = (const KEY *)a.key;
    const PLACE *place = (const PLACE *)a.place;
    ot_i64       room = a.k < a.span ? a.k : a.span, room_to = a.k < 2 * a.span ? a.k : 2 * a.span;
    OT_GRID_LOOP(e, a.lines * a.runs * room) {
        ot_i64 run = e / room, at = e % room, l = run / a.runs, r = run % a.runs, other = r ^ 1, lo = 0;
        if (at >= length(&a, r, a.span)) continue;
        if (other < a.runs) {
            ot_i64 base = (run - r + other) * room, hi = length(&a, other, a.span);
            while (lo < hi) {
                ot_i64 middle = lo + (hi - lo) / 2;
                if (before(key[base + middle], place[base + middle], key[e], place[e])) lo = middle + 1;
                else hi = middle;
            }
        }
        at += lo;
        if (at >= room_to) continue;
        if (a.to_key) {
            ot_i64 to = (l * ((a.runs + 1) / 2) + r / 2) * room_to + at;
            ((KEY *)a.to_key)[to] = key[e];
            ((PLACE *)a.to_place)[to] = place[e];
        } else {
            a.y[start_of(&a, l, a.k) + at * a.inner] = place[e];
        }
    }
}
#endif
