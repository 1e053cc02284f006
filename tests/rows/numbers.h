/* numbers.h - seeded numbers with a guard behind them, for tests of kernels. */
#ifndef OT_TEST_NUMBERS_H
#define OT_TEST_NUMBERS_H

#include <stdint.h>
#include <stdlib.h>

enum { GUARD = 64 };
static const float untouched = 777;

static uint64_t seed;

static inline uint32_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static inline int64_t upto(int64_t most) { return 1 + draw() % most; }

/* n numbers between -1 and 1, and a guard behind them. */
static inline float *numbers(int64_t n)
{
    float *p = aligned_alloc(64, (size_t)(n + GUARD + 15) / 16 * 64);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)draw() / (1u << 30) - 1;
    for (int64_t i = n; i < n + GUARD; i++) p[i] = untouched;
    return p;
}

static inline void check_guard(const float *p, int64_t n)
{
    for (int64_t i = n; i < n + GUARD; i++) assert_true(p[i] == untouched);
}

#endif
