/* reduce.cu - Reduce: sums of rows (the innermost axis is reduced) or of columns (it is kept).
 *
 * Rows: GROUP threads share a result, lane after lane along its terms.  Columns: COLUMNS threads are along the results
 * and the others of the block along the terms.  A result of many terms is split into chunks, whose sums reduce_join.cu
 * adds.  Every sum is a tree that depends only on the shape.
 *
 * Numerics  RUN terms are summed in LANE, then joined in ACC: float32 terms by float32 and double. */
enum { RUN = 16 };

/* The V neighbours of term number i of the result at `base`, added to lane. */
OT_DEVICE void add_term(const ot_reduce_call *c, const ot_map_uniform *u, ot_num base, ot_i64 i, LANE lane[V])
{
    CLS    v[V];
    ot_i64 none;
    map_values(&c->map, u, base + reduce_place(c->gone, GONE, (ot_num)i, &none), v);
    OT_UNROLL
    for (int j = 0; j < V; j++)
        if (!WHOLE || V == 1 || i * V + j < c->map.n) lane[j] = (LANE)JOIN(lane[j], TERM(v[j]));
}

/* acc: the terms first, first + step, ... < end of the result at `base`, one sum for each of KV neighbours. */
OT_DEVICE void sum_terms(const ot_reduce_call *c, const ot_map_uniform *u, ot_num base, ot_i64 first, ot_i64 end, int step, ACC acc[KV])
{
    for (; first < end; first += (ot_i64)RUN * step) {
        LANE lane[V];
        OT_UNROLL
        for (int j = 0; j < V; j++) lane[j] = (LANE)START;
        if (first + (ot_i64)(RUN - 1) * step < end) {
            OT_UNROLL_BY(UNROLL)
            for (int r = 0; r < RUN; r++) add_term(c, u, base, first + (ot_i64)r * step, lane);
        } else {
            for (ot_i64 i = first; i < end; i += step) add_term(c, u, base, i, lane);
        }
        OT_UNROLL
        for (int j = 0; j < V; j++) acc[j % KV] = JOIN(acc[j % KV], (ACC)lane[j]);
    }
}

OT_DEVICE void put(const ot_reduce_call *c, ot_i64 result, ot_i64 chunk, ACC v)
{
    if (c->chunks > 1) c->partial[chunk * c->results + result] = v;
    else reduce_store(c, result, v);
}

#if COLUMNS

OT_KERNEL(reduce, ot_reduce_args, 256)
{
    OT_SHARED(ACC, sums, 256 * KV);
    int x = OT_THREAD % COLUMNS, y = OT_THREAD / COLUMNS;
    for (ot_i64 unit = OT_BLOCK; unit < a.units; unit += OT_BLOCKS) {
        const ot_reduce_call *c = a.calls ? &a.calls[a.chunks[2 * unit]] : &a.one;
        ot_i64                steps = c->results / KV, tiles = (steps + COLUMNS - 1) / COLUMNS, none;
        ot_i64 tile = a.calls ? (ot_i64)a.chunks[2 * unit + 1] : unit % tiles, chunk = a.calls ? 0 : unit / tiles;
        ot_i64         k = tile * COLUMNS + x;
        ot_map_uniform u;
        map_uniform(&c->map, &u);
        ot_i64 first = chunk * c->chunk, end = first + c->chunk < c->terms ? first + c->chunk : c->terms;
        ACC    acc[KV];
        OT_UNROLL
        for (int j = 0; j < KV; j++) acc[j] = START;
        if (k < steps) sum_terms(c, &u, reduce_place(c->kept, KEPT, (ot_num)k, &none), first + y, end, 256 / COLUMNS, acc);
        OT_UNROLL
        for (int j = 0; j < KV; j++) sums[OT_THREAD * KV + j] = acc[j];
        OT_SYNC();
        for (int i = OT_THREAD; i < COLUMNS * KV; i += 256) {
            ACC v = sums[i];
            for (int r = 1; r < 256 / COLUMNS; r++) v = JOIN(v, sums[r * COLUMNS * KV + i]);
            if (tile * COLUMNS * KV + i < c->results) put(c, tile * COLUMNS * KV + i, chunk, v);
        }
        OT_SYNC();
    }
}

#else

/* Result number `result`, or a chunk of it, by GROUP threads; idle: threads without a result that take part in
 * exchanges. */
OT_DEVICE void sum_row(const ot_reduce_call *c, ot_i64 result, ot_i64 chunk, int idle, ACC *sums)
{
    ot_i64 first = chunk * c->chunk, end = first + c->chunk < c->terms ? first + c->chunk : c->terms, none;
    ACC    acc[1] = { START };
    if (!idle) {
        ot_map_uniform u;
        map_uniform(&c->map, &u);
        sum_terms(c, &u, reduce_place(c->kept, KEPT, (ot_num)result, &none), first + OT_THREAD % GROUP, end, GROUP, acc);
    }
    ACC v = reduce_warp(acc[0], GROUP < 32 ? GROUP : 32);
#if GROUP == 256
    if (OT_THREAD % 32 == 0) sums[OT_THREAD / 32] = v;
    OT_SYNC();
    v = sums[0];
    for (int w = 1; w < 8; w++) v = JOIN(v, sums[w]);
    OT_SYNC();
#endif
    if (!idle && OT_THREAD % GROUP == 0) put(c, result, chunk, v);
}

OT_KERNEL(reduce, ot_reduce_args, 256)
{
    OT_SHARED(ACC, sums, 8);
    for (ot_i64 block = OT_BLOCK; block * (256 / GROUP) < a.units; block += OT_BLOCKS) {
        ot_i64 unit = block * (256 / GROUP) + OT_THREAD / GROUP;
        if (a.calls) { /* GROUP is 256 */
            sum_row(&a.calls[a.chunks[2 * unit]], 0, a.chunks[2 * unit + 1], 0, sums);
            continue;
        }
        for (int i = 0; i < PER; i++) {
            ot_i64 result = unit % a.one.results * PER + i;
            sum_row(&a.one, result, unit / a.one.results, unit >= a.units || result >= a.one.results, sums);
        }
    }
}

#endif
