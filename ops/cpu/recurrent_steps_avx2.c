/* recurrent_steps_avx2.c - the steps of Recurrent for machines with AVX2. */
#include "ops/cpu/recurrent_steps.inc"

OT_RECURRENT_STEPS(avx2)
