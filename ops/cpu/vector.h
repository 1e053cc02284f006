/* vector.h - loops that the compiler builds for several instruction sets, chosen when the program starts.
 *
 * OT_WIDE goes before a function whose loops are the work: long, over float arrays.  Its sums keep a
 * fixed order for a machine: lanes first, then rows.  Elsewhere than x86-64 it means nothing. */
#ifndef OT_CPU_VECTOR_H
#define OT_CPU_VECTOR_H

#include <math.h>

#include "runtime/base/base.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__)
#define OT_WIDE __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3", "no-trapping-math", "no-math-errno")))
#if __GLIBC_PREREQ(2, 35)
/* glibc's vector versions, which gcc takes inside simd loops (map_loops.inc). */
extern float(expf)(float) __attribute__((__simd__("notinbranch"), const, nothrow));
#endif
#else
#define OT_WIDE
#endif

#ifdef __clang__ /* what does not vectorise there is no news */
#pragma GCC diagnostic ignored "-Wpass-failed"
#endif

/* Eight lanes, where the compiler does not find them itself: comparisons give 0 or -1 per lane. */
typedef float ot_f8 __attribute__((vector_size(32)));
typedef int32_t ot_i8 __attribute__((vector_size(32)));

/* What loops that are built for each set by hand (files named after it) may use here. */
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

#define OT_ALWAYS static inline __attribute__((always_inline))

#endif
