/* map.cu - Map: a thread takes V elements at a time through the program.
 *
 * map_print.c made the program: map_uniform() for what is the same for every element, map_vector() for V elements.
 * Expensive uniform registers (MAP_SHARED) are computed by one thread of the block.  Several calls of one program are
 * one launch: a block processes chunks of any of them. */
OT_KERNEL(map, ot_map_args, 256)
{
#if MAP_SHARED
    OT_SHARED(ot_map_uniform, uniform, 1);
#else
    ot_map_uniform uniform[1];
#endif
#if MAP_STRIDED
    const ot_map_call *call = &a.one;
#else
    ot_map_call call[1];
#endif
    ot_u32 which = ~0u;
    for (ot_i64 c = OT_BLOCK; c < a.n_chunks; c += OT_BLOCKS) {
        ot_u32 now = a.calls ? a.chunks[2 * c] : 0;
        ot_i64 chunk = a.calls ? (ot_i64)a.chunks[2 * c + 1] : c;
        if (now != which) { /* the same for all threads of the block */
            which = now;
#if !MAP_STRIDED
            call[0] = a.calls ? a.calls[now] : a.one;
#endif
#if MAP_SHARED
            OT_SYNC(); /* the last call's values are no longer read */
            if (OT_THREAD == 0) map_uniform(call, uniform);
            OT_SYNC();
#else
            map_uniform(call, uniform);
#endif
        }
        ot_i64 end = (chunk + 1) * a.vectors, all = (call->n + V - 1) / V;
        for (ot_i64 v = chunk * a.vectors + OT_THREAD; v < (end < all ? end : all); v += OT_THREADS)
            map_vector(call, uniform, (ot_num)v * V);
    }
}
