/* dot_tiles_base.c - matrix products of packed operands for any machine. */
#include "ops/cpu/dot_tiles.inc"

OT_DOT_TILES(base)
