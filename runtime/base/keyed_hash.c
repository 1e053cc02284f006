/* keyed_hash.c - SipHash-2-4.
 *
 * Source  Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012 */
#include "runtime/base/keyed_hash.h"

#include <sys/random.h>
#include <time.h>

ot_hash_key ot_hash_key_new(void)
{
    ot_hash_key key = { { 0 } };
    struct timespec now = { 0 };
    if (getrandom(key.k, sizeof key.k, GRND_NONBLOCK) == (ssize_t)sizeof key.k) return key;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* right after the start of the machine there is no randomness yet */
    return (ot_hash_key){ { (uint64_t)now.tv_sec ^ (uint64_t)now.tv_nsec << 32, (uint64_t)(uintptr_t)&now } };
}

static uint64_t turn(uint64_t x, int by) { return x << by | x >> (64 - by); }

static void rounds(uint64_t v[4], int n)
{
    for (; n; n--) {
        v[0] += v[1], v[2] += v[3];
        v[1] = turn(v[1], 13) ^ v[0], v[3] = turn(v[3], 16) ^ v[2];
        v[0] = turn(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = turn(v[1], 17) ^ v[2], v[3] = turn(v[3], 21) ^ v[0];
        v[2] = turn(v[2], 32);
    }
}

static uint64_t word(const unsigned char *b, size_t n)
{
    uint64_t w = 0;
    for (size_t i = 0; i < n; i++) w |= (uint64_t)b[i] << 8 * i;
    return w;
}

static void take(uint64_t v[4], uint64_t w)
{
    v[3] ^= w;
    rounds(v, 2);
    v[0] ^= w;
}

uint64_t ot_keyed_hash(const ot_hash_key *key, const void *p, size_t n)
{
    const unsigned char *b = p;
    const uint64_t *k = key->k;
    uint64_t v[4] = { k[0] ^ UINT64_C(0x736f6d6570736575), k[1] ^ UINT64_C(0x646f72616e646f6d),
                      k[0] ^ UINT64_C(0x6c7967656e657261), k[1] ^ UINT64_C(0x7465646279746573) };
    size_t i = 0;
    for (; i + 8 <= n; i += 8) take(v, word(b + i, 8));
    take(v, word(b + i, n - i) | (uint64_t)n << 56);
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
