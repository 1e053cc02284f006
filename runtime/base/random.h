/* random.h - Philox4x32-10 (Random123): random numbers by counter, the same on every device. */
#ifndef OT_RANDOM_H
#define OT_RANDOM_H

#include "runtime/base/base.h"

/* Four 32-bit numbers for (key, counter).  Streams separate purposes. */
enum { OT_STREAM_ORDER = 1, OT_STREAM_INIT = 2, OT_STREAM_AUGMENT = 3, OT_STREAM_DROPOUT = 0x10000 };

void ot_philox(uint64_t key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4]);

/* Uniform in [0,1) from 32 random bits, exact in f32 (24 bits). */
static inline float ot_uniform(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; }

/* Standard normal for element i of a stream (Box-Muller over ot_philox). */
double ot_normal(uint64_t key, uint64_t stream, uint64_t i);

/* n elements uniform in ±bound, as a float type; the same for equal (seed, name). */
void ot_fill_uniform(void *to, ot_dtype t, int64_t n, double bound, uint64_t seed, const char *name);

#endif
