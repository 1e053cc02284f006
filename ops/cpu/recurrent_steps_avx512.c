/* recurrent_steps_avx512.c - the steps of Recurrent for machines with AVX-512. */
#include "ops/cpu/recurrent_steps.inc"

OT_RECURRENT_STEPS(avx512)
