/* vector.h - loops that the compiler builds for several instruction sets, chosen when the program starts.
 *
 * OT_WIDE is for functions that consist of long loops over float arrays.  Its sums keep a
 * fixed order for a machine: lanes first, then rows.  On machines other than x86-64 it is empty. */
#ifndef OT_CPU_VECTOR_H
#define OT_CPU_VECTOR_H

#include <math.h>

#include "runtime/base/base.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__)
#define OT_WIDE __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3", "no-trapping-math", "no-math-errno")))
#if __GLIBC_PREREQ(2, 35)
/* glibc's vector functions, which gcc uses in simd loops (map_loops.inc). */
extern float(expf)(float) __attribute__((__simd__("notinbranch"), const, nothrow));
extern float(logf)(float) __attribute__((__simd__("notinbranch"), const, nothrow));
extern float(tanhf)(float) __attribute__((__simd__("notinbranch"), const, nothrow));
#endif
#else
#define OT_WIDE
#endif

#ifdef __clang__ /* warnings about loops that do not vectorise there are not needed */
#pragma GCC diagnostic ignored "-Wpass-failed"
#endif

/* Eight lanes, for loops that the compiler does not vectorise: comparisons return 0 or -1 per lane. */
typedef float ot_f8 __attribute__((vector_size(32)));
typedef int32_t ot_i8 __attribute__((vector_size(32)));

/* Usable in loops that are built by hand for each instruction set (files named after it). */
enum { OT_CPU_BASE, OT_CPU_AVX2, OT_CPU_AVX512 };

static inline int ot_instruction_set(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return OT_CPU_AVX512;
    if (avx2) return OT_CPU_AVX2;
#endif
    return OT_CPU_BASE;
}

/* Floats of whole cache lines. */
static inline int64_t ot_floats_up(int64_t n) { return (n + 15) / 16 * 16; }

/* From row to row of n floats: an odd number of cache lines, so that rows that are used together are in different sets of the L1 cache.
 * Rows of a product's first operand that are a multiple of 1 KiB apart share sets: of 100 GFLOP/s a core of AMD's Zen 3 reached 88, at
 * multiples of 2 KiB 62 and of 4 KiB 40. */
static inline int64_t ot_floats_apart(int64_t n) { return ot_floats_up(n) | 16; }
static inline bool ot_floats_share_sets(int64_t step) { return step % 256 == 0; }

#define OT_ALWAYS static inline __attribute__((always_inline))

#endif
