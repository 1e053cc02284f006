/* prelude_host.h - the names of ops/cuda/prelude.cuh for the CPU: the same kernel text, compiled as C.
 *
 * A block's threads are coroutines of the emulator (threads.c): a barrier or an exchange in a warp switches to the next
 * one.  One block runs at a time, so shared memory is static. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

#define OT_HOST_TWIN 1
#define OT_DEVICE static inline __attribute__((unused))
#define OT_RESTRICT restrict
#define OT_ALIGN(bytes) __attribute__((aligned(bytes)))
#define OT_GLOBAL(p) (void)(p)
#define OT_UNROLL
#define OT_UNROLL_BY(n)
#define OT_UNROLL_4

typedef struct ot_u128 {
    unsigned x, y, z, w;
} __attribute__((aligned(16))) ot_u128;

/* What the emulator gives a kernel. */
typedef struct ot_emulated {
    long long block, blocks;
    int thread, threads;
    void *shared; /* dynamic */
    void (*barrier)(const char *file, int line);
    void (*exchange)(void *value, int bytes, int lane, const char *file, int line); /* value becomes that of the lane */
    void (*follow)(void); /* until the kernel in front is complete */
} ot_emulated;

__attribute__((weak, visibility("default"))) ot_emulated *ot_emulated_at; /* set by the emulator after loading */

#define OT_KERNEL(name, args_type, threads_of_block)                                      \
    static void name##_body(const args_type a);                                           \
    __attribute__((visibility("default"))) const int name##_bytes = (int)sizeof(args_type); \
    __attribute__((visibility("default"))) void name(const void *args)                     \
    {                                                                                     \
        OT_FOLLOW();                                                                      \
        name##_body(*(const args_type *)args);                                            \
    }                                                                                     \
    static void name##_body(const args_type a)

#define OT_FOLLOW() ot_emulated_at->follow()

#define OT_THREAD (ot_emulated_at->thread)
#define OT_THREADS (ot_emulated_at->threads)
#define OT_BLOCK (ot_emulated_at->block)
#define OT_BLOCKS (ot_emulated_at->blocks)

#define OT_SHARED(type, name, n) static type name[n]
#define OT_DYNAMIC_SHARED(type, name) type *name = (type *)ot_emulated_at->shared
#define OT_SYNC() ot_emulated_at->barrier(__FILE__, __LINE__)

#define OT_EXCHANGE(v, lane)                                                           \
    ({                                                                                 \
        __typeof__((v) + 0) exchanged_ = (v);                                          \
        ot_emulated_at->exchange(&exchanged_, (int)sizeof exchanged_, lane, __FILE__, __LINE__); \
        exchanged_;                                                                    \
    })
#define OT_LANE (OT_THREAD % 32)
#define OT_SHUFFLE_XOR(v, m) OT_EXCHANGE(v, OT_LANE ^ (m))
#define OT_SHUFFLE_UP(v, d) OT_EXCHANGE(v, OT_LANE >= (d) ? OT_LANE - (d) : OT_LANE)
#define OT_SHUFFLE(v, lane) OT_EXCHANGE(v, lane)
#define OT_BALLOT(p) ot_ballot(p)

static inline __attribute__((unused)) unsigned ot_ballot(int p)
{
    unsigned all = 0;
    for (int lane = 0; lane < 32 && lane < OT_THREADS - OT_THREAD / 32 * 32; lane++)
        all |= (unsigned)(OT_EXCHANGE(p != 0, lane) != 0) << lane;
    return all;
}

#define OT_MATCH(v) ot_match(v)
static inline __attribute__((unused)) unsigned ot_match(unsigned v)
{
    unsigned all = 0;
    for (int lane = 0; lane < 32 && lane < OT_THREADS - OT_THREAD / 32 * 32; lane++)
        all |= (unsigned)(OT_EXCHANGE(v, lane) == v) << lane;
    return all;
}

OT_DEVICE float ot_bits_f32(unsigned u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

OT_DEVICE unsigned ot_f32_bits(float f)
{
    unsigned u;
    memcpy(&u, &f, sizeof u);
    return u;
}

OT_DEVICE double ot_bits_f64(unsigned long long u)
{
    double f;
    memcpy(&f, &u, sizeof f);
    return f;
}

OT_DEVICE unsigned long long ot_f64_bits(double f)
{
    unsigned long long u;
    memcpy(&u, &f, sizeof u);
    return u;
}

OT_DEVICE unsigned ot_mulhi_u32(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
OT_DEVICE int ot_popcount(unsigned x) { return __builtin_popcount(x); }

OT_DEVICE int ot_atomic_swap_if(int *p, int old, int now)
{
    int was = *p;
    if (was == old) *p = now;
    return was;
}

OT_DEVICE void ot_atomic_add(int *p, int v) { *p += v; }

OT_DEVICE float ot_f16_to_f32(unsigned short h)
{
    unsigned sign = (unsigned)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31) return ot_bits_f32(sign | 0x7f800000u | m << 13);
    if (e) return ot_bits_f32(sign | (e + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f;
    return sign ? -f : f;
}

OT_DEVICE unsigned short ot_f32_to_f16(float f)
{
    unsigned u = ot_f32_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000u) return (unsigned short)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000u) return (unsigned short)(sign | 0x7c00); /* 65520 and more round to infinity */
    if (a < 0x38800000u) {                                        /* a subnormal number: one addition rounds it */
        float x = ot_bits_f32(a) + 0.5f;
        return (unsigned short)(sign | (ot_f32_bits(x) - 0x3f000000u));
    }
    return (unsigned short)(sign | ((a + 0xfffu + (a >> 13 & 1u)) - 0x38000000u) >> 13);
}
