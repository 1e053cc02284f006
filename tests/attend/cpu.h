/* cpu.h - compares the CPU's kernels of FusedAttention with the reference (cpu.c). */
#ifndef OT_TEST_ATTEND_CPU_H
#define OT_TEST_ATTEND_CPU_H

int attention_cpu(void); /* 0: all agree */

#endif
