/* recurrent_steps_base.c - the steps of Recurrent for every machine. */
#include "ops/cpu/recurrent_steps.inc"

OT_RECURRENT_STEPS(base)
