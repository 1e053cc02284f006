/* map_loops_base.c - the loops of Map for every machine; those of f64 and integers are only here. */
#define OT_MAP_ALL_CLASSES
#include "ops/cpu/map_loops.inc"

OT_MAP_LOOPS(base)
