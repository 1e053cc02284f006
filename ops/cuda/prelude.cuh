/* prelude.cuh - the only file with CUDA's own syntax: the names that the texts of this folder use.
 *
 * The texts use the common subset of CUDA C++ and GNU C: one OT_KERNEL per entry, with one struct by value as argument,
 * `a`; no templates, no overloads, explicit casts from void *.  tests/cuda/emulator/prelude_host.h defines the same
 * names for the CPU, so that the tests run the same text without a GPU.
 *
 * Element types have short names: f64 f32 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 b8.  ot_ld_<t>(p, i) gives
 * element i as the type of its class: double (f64), float (other floats), long long (integers, b8), unsigned
 * long long (u64).  ot_st_<t>(p, i, v) stores one of that class, rounding to nearest even, wrapping
 * integers, anything not 0 as true. */
#ifndef OT_PRELUDE
#define OT_PRELUDE

typedef long long          ot_i64;
typedef unsigned long long ot_u64;
typedef unsigned int       ot_u32;
typedef unsigned short     ot_u16;

#ifndef OT_HOST_TWIN

typedef uint4 ot_u128; /* 16 bytes loaded at once; aligned */

#define OT_DEVICE static __device__ __forceinline__
#define OT_KERNEL(name, args_type, threads)                                                              \
    OT_DEVICE void name##_body(const args_type &a);                                                      \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ args_type a)      \
    {                                                                                                    \
        OT_FOLLOW();                                                                                     \
        name##_body(a);                                                                                  \
    }                                                                                                    \
    OT_DEVICE void name##_body(const args_type &a)

/* The first thing that a kernel does.  The kernel in front of it may still run (ot_gpu_launch): global memory is read
 * and written when that one is complete.  Then the kernel behind may be launched, as soon as all blocks of this one
 * are here; not before, so that no more than two run and all that came earlier is complete. */
#if __CUDA_ARCH__ >= 900
#define OT_FOLLOW()                                   \
    asm volatile("griddepcontrol.wait;" ::: "memory"); \
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#else
#define OT_FOLLOW() (void)0
#endif
#define OT_RESTRICT __restrict__
#define OT_ALIGN(bytes) __align__(bytes)
#define OT_GLOBAL(p) __builtin_assume(__isGlobal(p)) /* p, which came out of memory, is of the device's: no look-up */
#define OT_UNROLL _Pragma("unroll") /* unrolls the following loop; arrays that it indexes stay in registers */
#define OT_UNROLL_BY(n) OT_PRAGMA(unroll n)  /* so many iterations at a time: their loads are in flight together */
#define OT_PRAGMA(words) _Pragma(#words)
#define OT_UNROLL_4 _Pragma("unroll 4") /* four iterations at once: their loads are in flight together */

/* The indices of a thread.  Grids and blocks have one axis. */
#define OT_THREAD ((int)threadIdx.x)
#define OT_THREADS ((int)blockDim.x)
#define OT_BLOCK ((ot_i64)blockIdx.x)
#define OT_BLOCKS ((ot_i64)gridDim.x)

#define OT_SHARED(type, name, n) __shared__ type name[n]
#define OT_DYNAMIC_SHARED(type, name)                     \
    extern __shared__ __align__(16) unsigned char ot_dynamic_shared[]; \
    type *name = (type *)ot_dynamic_shared
#define OT_SYNC() __syncthreads()

/* Exchanges within a warp of 32; every thread of the warp calls them. */
#define OT_SHUFFLE_XOR(v, m) __shfl_xor_sync(0xffffffffu, v, m)
#define OT_SHUFFLE_UP(v, d) __shfl_up_sync(0xffffffffu, v, d)
#define OT_SHUFFLE(v, lane) __shfl_sync(0xffffffffu, v, lane)
#define OT_BALLOT(p) __ballot_sync(0xffffffffu, p)
#define OT_MATCH(v) __match_any_sync(0xffffffffu, v) /* the lanes with the same 32-bit v */

OT_DEVICE float  ot_bits_f32(ot_u32 u) { return __uint_as_float(u); }
OT_DEVICE ot_u32 ot_f32_bits(float f) { return __float_as_uint(f); }
OT_DEVICE double ot_bits_f64(ot_u64 u) { return __longlong_as_double((ot_i64)u); }
OT_DEVICE ot_u64 ot_f64_bits(double f) { return (ot_u64)__double_as_longlong(f); }
OT_DEVICE ot_u32 ot_mulhi_u32(ot_u32 x, ot_u32 y) { return __umulhi(x, y); }
OT_DEVICE int    ot_popcount(ot_u32 x) { return __popc(x); }

OT_DEVICE float ot_f16_to_f32(ot_u16 h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

OT_DEVICE ot_u16 ot_f32_to_f16(float f)
{
    ot_u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

/* If *p is `old`, it becomes `now`; returns the previous value.  Adds v to *p.  Integers only: sums of floats by
 * atomics would depend on the order. */
OT_DEVICE int  ot_atomic_swap_if(int *p, int old, int now) { return atomicCAS(p, old, now); }
OT_DEVICE void ot_atomic_add(int *p, int v) { atomicAdd(p, v); }

#endif /* OT_HOST_TWIN */

OT_DEVICE float ot_bf16_to_f32(ot_u16 h) { return ot_bits_f32((ot_u32)h << 16); }

OT_DEVICE ot_u16 ot_f32_to_bf16(float f)
{
    ot_u32 u = ot_f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (ot_u16)(u >> 16 | 0x40u); /* NaN stays one */
    return (ot_u16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* ---- elements ---------------------------------------------------------------- */

#define OT_ELEMENT(t, stored, cls)                                                               \
    OT_DEVICE cls  ot_ld_##t(const void *p, ot_i64 i) { return (cls)((const stored *)p)[i]; }      \
    OT_DEVICE void ot_st_##t(void *p, ot_i64 i, cls v) { ((stored *)p)[i] = (stored)v; }

OT_ELEMENT(f64, double, double)
OT_ELEMENT(f32, float, float)
OT_ELEMENT(i8, signed char, ot_i64)
OT_ELEMENT(i16, short, ot_i64)
OT_ELEMENT(i32, int, ot_i64)
OT_ELEMENT(i64, ot_i64, ot_i64)
OT_ELEMENT(u8, unsigned char, ot_i64)
OT_ELEMENT(u16, ot_u16, ot_i64)
OT_ELEMENT(u32, ot_u32, ot_i64)
OT_ELEMENT(u64, ot_u64, ot_u64)

OT_DEVICE ot_i64 ot_ld_b8(const void *p, ot_i64 i) { return ((const unsigned char *)p)[i] != 0; }
OT_DEVICE void   ot_st_b8(void *p, ot_i64 i, ot_i64 v) { ((unsigned char *)p)[i] = v != 0; }
OT_DEVICE float  ot_ld_f16(const void *p, ot_i64 i) { return ot_f16_to_f32(((const ot_u16 *)p)[i]); }
OT_DEVICE void   ot_st_f16(void *p, ot_i64 i, float v) { ((ot_u16 *)p)[i] = ot_f32_to_f16(v); }
OT_DEVICE float  ot_ld_bf16(const void *p, ot_i64 i) { return ot_bf16_to_f32(((const ot_u16 *)p)[i]); }
OT_DEVICE void   ot_st_bf16(void *p, ot_i64 i, float v) { ((ot_u16 *)p)[i] = ot_f32_to_bf16(v); }

/* T is pasted into the names: OT_LD(f32, p, i). */
#define OT_PASTE2(x, y) x##y
#define OT_PASTE(x, y) OT_PASTE2(x, y)
#define OT_LD(t, p, i) OT_PASTE(ot_ld_, t)(p, i)
#define OT_ST(t, p, i, v) OT_PASTE(ot_st_, t)(p, i, v)

/* ---- loops --------------------------------------------------------------------- */

/* i over [0, n), this thread's share of the grid's. */
#define OT_GRID_LOOP(i, n) \
    for (ot_i64 i = OT_BLOCK * OT_THREADS + OT_THREAD; i < (n); i += OT_BLOCKS * OT_THREADS)

/* ---- faults --------------------------------------------------------------------- */

/* ot_fault of runtime/backends/backend.h. */
struct ot_fault_word { int step, kind; ot_i64 value; };

/* The first fault of a run stays.  step: ot_call's. */
OT_DEVICE void ot_report(void *fault, int step, int kind, ot_i64 value)
{
    struct ot_fault_word *w = (struct ot_fault_word *)fault;
    if (ot_atomic_swap_if(&w->step, 0, step + 1) != 0) return;
    w->kind = kind;
    w->value = value;
}

enum { OT_FAULT_INDEX = 1, OT_FAULT_LABEL = 2 };

#endif
