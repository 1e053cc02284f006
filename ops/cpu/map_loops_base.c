/* map_loops_base.c - the loops of Map for every machine. */
#include "ops/cpu/map_loops.inc"

OT_MAP_LOOPS(base)
