/* wide.h - loops over pixels: built for AVX2 too, and chosen when the program starts.  Without fused multiply-add: the same bits. */
#ifndef OT_PICTURE_WIDE_H
#define OT_PICTURE_WIDE_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif
#define INLINE static inline __attribute__((always_inline))

#endif
