/* dot_tiles_avx2.c - matrix products of packed operands for machines with AVX2. */
#include "ops/cpu/dot_tiles.inc"

OT_DOT_TILES(avx2)
