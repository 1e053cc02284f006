/* map_loops_avx512.c - the loops of Map for machines with AVX-512. */
#include "ops/cpu/map_loops.inc"

OT_MAP_LOOPS(avx512)
