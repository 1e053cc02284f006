/* mutate.c - functions that mutators share. */
#include "tests/fuzz/mutate.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

static uint64_t state;

void mutate_seed(uint64_t seed) { state = seed * 0x9e3779b97f4a7c15u + 0x1234567; }

/* splitmix64 */
uint64_t mutate_random(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

size_t mutate_below(size_t n) { return (size_t)(mutate_random() % n); }

bool mutate_chance(unsigned percent) { return mutate_below(100) < percent; }

int64_t mutate_integer(int64_t v)
{
    static const int64_t hurts[] = { 0,
                                     1,
                                     -1,
                                     2,
                                     3,
                                     4,
                                     5,
                                     7,
                                     8,
                                     16,
                                     31,
                                     32,
                                     63,
                                     64,
                                     255,
                                     256,
                                     1023,
                                     4096,
                                     65535,
                                     65536,
                                     1 << 20,
                                     INT32_MAX,
                                     INT32_MIN,
                                     (int64_t)INT32_MAX + 1,
                                     (int64_t)UINT32_MAX + 1,
                                     (int64_t)UINT32_MAX + 2,
                                     (int64_t)1 << 53,
                                     (int64_t)1 << 62,
                                     INT64_MAX,
                                     INT64_MAX - 1,
                                     INT64_MIN,
                                     INT64_MIN + 1 };
    uint64_t u = (uint64_t)v;
    switch (mutate_below(8)) {
    case 0: return (int64_t)(u + 1);
    case 1: return (int64_t)(u - 1);
    case 2: return (int64_t)(0 - u);
    case 3: return (int64_t)(u ^ (uint64_t)1 << mutate_below(64));
    case 4: return (int64_t)mutate_below(9) - 2;
    case 5: return (int64_t)(mutate_chance(50) ? u * 2 : u / 2);
    default: return hurts[mutate_below(sizeof hurts / sizeof *hurts)];
    }
}

size_t mutate_bytes(uint8_t *p, size_t n, size_t most)
{
    size_t words = 0;
    while (fuzz_words[words]) words++;
    if (!words || !mutate_chance(25)) return LLVMFuzzerMutate(p, n, most);
    const char *word = fuzz_words[mutate_below(words)];
    size_t k = strlen(word), at = mutate_below(n + 1);
    if (mutate_chance(50)) { /* overwrites */
        if (k > most - at) return n;
        memcpy(p + at, word, k);
        return at + k > n ? at + k : n;
    }
    if (k > most - n) return n;
    memmove(p + at + k, p + at, n - at);
    memcpy(p + at, word, k);
    return n + k;
}
