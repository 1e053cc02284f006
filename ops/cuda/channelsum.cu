/* channelsum.cu - sums per channel: first of S parts, then of the parts.
 *
 * T the elements, CLS their class, ACC the sums' type; LAST: channels last.  The parts depend on the shape only, so the
 * result does not depend on the grid. */
#include "channelsum.cuh"

/* The sum of 256 threads' v, of the threads that have t % apart in common; right in threads below `apart`. */
OT_DEVICE ACC sum_apart(ACC v, int apart, ACC *shared)
{
    OT_SYNC();
    shared[OT_THREAD] = v;
    OT_SYNC();
    for (int half = 128; half >= apart; half /= 2) {
        if (OT_THREAD < half) shared[OT_THREAD] += shared[OT_THREAD + half];
        OT_SYNC();
    }
    return shared[OT_THREAD];
}

#ifdef LAST

/* A block per part and 32 channels: a warp reads 32 neighbours of a pixel, eight warps eight pixels. */
OT_KERNEL(channel_parts, ot_channel_sum_args, 256)
{
    OT_SHARED(ACC, shared, 256);
    ot_i64 tiles = (a.C + 31) / 32, pixels = a.N * a.P;
    for (ot_i64 b = OT_BLOCK; b < tiles * a.S; b += OT_BLOCKS) {
        ot_i64 part = b / tiles, c = b % tiles * 32 + OT_THREAD % 32;
        ot_i64 end = pixels * (part + 1) / a.S;
        ACC    sum = 0;
        if (c < a.C)
            for (ot_i64 p = pixels * part / a.S + OT_THREAD / 32; p < end; p += 8) sum += (ACC)OT_LD(T, a.x, p * a.C + c);
        sum = sum_apart(sum, 32, shared);
        if (OT_THREAD < 32 && c < a.C) ((ACC *)a.parts)[part * a.C + c] = sum;
    }
}

#else

/* A block per part and channel: a part is a range of the N C-planes of the channel, read one behind the other. */
OT_KERNEL(channel_parts, ot_channel_sum_args, 256)
{
    OT_SHARED(ACC, shared, 256);
    for (ot_i64 b = OT_BLOCK; b < a.C * a.S; b += OT_BLOCKS) {
        ot_i64 part = b / a.C, c = b % a.C;
        ot_i64 first = a.N * a.P * part / a.S, end = a.N * a.P * (part + 1) / a.S;
        ACC    sum = 0;
        for (ot_i64 i = first + OT_THREAD; i < end; i += 256) sum += (ACC)OT_LD(T, a.x, (i / a.P * a.C + c) * a.P + i % a.P);
        sum = sum_apart(sum, 1, shared);
        if (OT_THREAD == 0) ((ACC *)a.parts)[part * a.C + c] = sum;
    }
}

#endif

OT_KERNEL(channel_total, ot_channel_sum_args, 128)
{
    OT_GRID_LOOP(c, a.C) {
        ACC sum = 0;
        for (ot_i64 s = 0; s < a.S; s++) sum += ((const ACC *)a.parts)[s * a.C + c];
        OT_ST(T, a.y, c, (CLS)sum);
    }
}
