/* reduce_join.cu - Reduce: adds the sums of the chunks of a result, by JOINERS threads.  Of several calls those with
 * one chunk are finished already. */
OT_KERNEL(reduce_join, ot_reduce_args, 256)
{
    for (ot_i64 block = OT_BLOCK; block * (256 / JOINERS) < a.units; block += OT_BLOCKS) {
        ot_i64                i = block * (256 / JOINERS) + OT_THREAD / JOINERS;
        const ot_reduce_call *c = a.calls && i < a.units ? &a.calls[i] : a.calls ? a.calls : &a.one;
        ot_i64                result = a.calls ? 0 : i;
        ACC                   v = START;
        int                   idle = i >= a.units || c->chunks == 1;
        if (!idle)
            for (ot_i64 k = OT_THREAD % JOINERS; k < c->chunks; k += JOINERS) v = JOIN(v, c->partial[k * c->results + result]);
        v = reduce_warp(v, JOINERS);
        if (!idle && OT_THREAD % JOINERS == 0) reduce_store(c, result, v);
    }
}
