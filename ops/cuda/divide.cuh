/* divide.cuh - offsets in tensors: numbers of 32 or 64 bits (WIDE), and division by numbers known while planning.
 *
 * Narrow numbers stay below 2^31 and are divided by a multiplication and a shift.
 *
 * Source  Granlund, Montgomery: Division by invariant integers using multiplication (PLDI 1994). */
#ifndef OT_DIVIDE
#define OT_DIVIDE

typedef struct ot_divider {
    long long    n;
    unsigned int mul, shift; /* v / n is the high word of v * mul, plus v, shifted */
} ot_divider;

#ifdef OT_PRELUDE

#if WIDE
typedef ot_i64 ot_num;
#define OT_DIVIDE_BY(v, d) ((v) / (d).n)
#else
typedef int ot_num;
#define OT_DIVIDE_BY(v, d) ((int)((ot_mulhi_u32((ot_u32)(v), (d).mul) + (ot_u32)(v)) >> (d).shift))
#endif

#else

/* n: at least 1; of no use for narrow numbers from 2^31. */
static inline ot_divider ot_divider_of(long long n)
{
    ot_divider d = { .n = n };
    if (n < 1 || n > 0x7fffffff) return d;
    while (1ll << d.shift < n) d.shift++;
    d.mul = (unsigned int)(((unsigned long long)((1ll << d.shift) - n) << 32) / (unsigned long long)n + 1);
    return d;
}

#endif
#endif
