/* map_loops_avx2.c - the loops of Map for machines with AVX2. */
#include "ops/cpu/map_loops.inc"

OT_MAP_LOOPS(avx2)
