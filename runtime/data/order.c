/* order.c - the order of samples in an epoch: a list, or computed place by place where a list would be large.
 *
 * Source  Knuth, Algorithm P (shuffling); Lemire: Fast random integer generation in an interval
 *         (2019) for bounded numbers without bias; Black, Rogaway: Ciphers with arbitrary finite
 *         domains (2002), generalized Feistel network and cycle walking, for what is computed. */
#include "runtime/base/random.h"
#include "runtime/data/data.h"

enum { ROUNDS = 8 };

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

/* ---- one place at a time ------------------------------------------------------------------- */

ot_status ot_permutation_new(ot_arena *a, int64_t n, ot_permutation *out, ot_error *err)
{
    *out = (ot_permutation){ .n = n };
    if (n <= OT_MOST_LISTED) {
        out->list = ot_arena_alloc(a, (size_t)(n > 0 ? n : 1) * sizeof *out->list);
        return out->list ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the order of %lld samples", (long long)n);
    }
    out->rows = 1;
    while (out->rows < n / out->rows) out->rows *= 2;
    out->columns = n / out->rows + 1;
    return OT_OK;
}

void ot_permutation_shuffle(ot_permutation *p, uint64_t seed, uint64_t epoch)
{
    uint32_t r[4];
    p->shuffled = true;
    if (p->list) {
        ot_order(seed, epoch, p->n, p->list);
        return;
    }
    ot_philox(seed, epoch, OT_STREAM_ORDER, r);
    p->key = (uint64_t)r[1] << 32 | r[0];
}

/* A permutation of 0 .. rows * columns - 1: in turn, row and column move round by a random number of the other. */
static int64_t mix(const ot_permutation *p, int64_t at)
{
    uint64_t row = (uint64_t)(at / p->columns), column = (uint64_t)(at % p->columns);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint32_t r[4];
        ot_philox(p->key, i % 2 ? row : column, OT_STREAM_ORDER | i << 32, r);
        uint64_t by = (uint64_t)r[1] << 32 | r[0];
        if (i % 2) column = (column + by % (uint64_t)p->columns) % (uint64_t)p->columns;
        else row = (row + by % (uint64_t)p->rows) % (uint64_t)p->rows;
    }
    return (int64_t)row * p->columns + (int64_t)column;
}

int64_t ot_permutation_at(const ot_permutation *p, int64_t i)
{
    if (!p->shuffled) return i;
    if (p->list) return p->list[i];
    do i = mix(p, i);
    while (i >= p->n); /* beyond the last sample: on along its cycle, which comes back below n */
    return i;
}
