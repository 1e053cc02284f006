/* random.c - Philox4x32-10 by counter, and normal numbers from it.
 *
 * Source  Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC11). */
#include "runtime/base/random.h"

#include <math.h>
#include <string.h>

#include <Random123/philox.h>

void ot_philox(uint64_t key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4])
{
    philox4x32_ctr_t c = { { (uint32_t)counter_lo, (uint32_t)(counter_lo >> 32), (uint32_t)counter_hi,
                             (uint32_t)(counter_hi >> 32) } };
    philox4x32_key_t k = { { (uint32_t)key, (uint32_t)(key >> 32) } };
    philox4x32_ctr_t r = philox4x32_R(10, c, k);
    memcpy(out, r.v, sizeof r.v);
}

double ot_normal(uint64_t key, uint64_t stream, uint64_t i)
{
    uint32_t r[4];
    ot_philox(key, i, stream, r);
    uint64_t a = (uint64_t)r[1] << 32 | r[0], b = (uint64_t)r[3] << 32 | r[2];
    double u = (double)((a >> 11) + 1) * 0x1p-53; /* (0,1]: its logarithm is finite */
    double v = (double)(b >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586476925 * v);
}

static uint64_t hash_of(const char *name)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 1099511628211u;
    return h;
}

void ot_fill_uniform(void *to, ot_dtype t, int64_t n, double bound, uint64_t seed, const char *name)
{
    uint64_t stream = (uint64_t)OT_STREAM_INIT << 32 | (uint32_t)hash_of(name);
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t bits[4];
        ot_philox(seed, (uint64_t)i / 4, stream, bits);
        for (int64_t k = 0; k < 4 && i + k < n; k++)
            ot_set_f64(to, t, i + k, bound * (2 * (double)ot_uniform(bits[k]) - 1));
    }
}
