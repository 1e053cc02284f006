/* cpu.h - compares the CPU's kernels of FusedAttention with the reference (cpu.c). */
#ifndef OT_TEST_ATTEND_CPU_H
#define OT_TEST_ATTEND_CPU_H

#include "runtime/backends/backend.h"

int attention_cpu(void);

/* The same on a device, of operands that are not dense, in float32 and bfloat16; returns the number of failures. */
int attention_positions(ot_device *d); /* 0: all agree */

#endif
