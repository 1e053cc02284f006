/* order.c - the order of samples in an epoch.
 *
 * Source  Knuth, Algorithm P (shuffling); Lemire: Fast random integer generation in an interval
 *         (2019) for bounded numbers without bias. */
#include "runtime/base/random.h"
#include "runtime/data/data.h"

typedef struct stream {
    uint64_t key, next; /* of Philox; `next` counts calls */
    uint64_t spare;
    int left; /* spare numbers: 0 or 1 */
} stream;

static uint64_t draw(stream *s)
{
    if (s->left) {
        s->left = 0;
        return s->spare;
    }
    uint32_t r[4];
    ot_philox(s->key, s->next++, OT_STREAM_ORDER, r);
    s->spare = (uint64_t)r[3] << 32 | r[2];
    s->left = 1;
    return (uint64_t)r[1] << 32 | r[0];
}

/* Uniform in 0..n-1; n > 0. */
static uint64_t below(stream *s, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;
    wide m = (wide)draw(s) * n;
    if ((uint64_t)m < n) {
        uint64_t least = (0 - n) % n;
        while ((uint64_t)m < least) m = (wide)draw(s) * n;
    }
    return (uint64_t)(m >> 64);
}

void ot_order(uint64_t seed, uint64_t epoch, int64_t n, int64_t *order)
{
    uint32_t r[4];
    ot_philox(seed, epoch, OT_STREAM_ORDER, r); /* every epoch a key of its own */
    stream s = { .key = (uint64_t)r[1] << 32 | r[0] };
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)below(&s, (uint64_t)i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}
