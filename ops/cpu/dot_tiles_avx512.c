/* dot_tiles_avx512.c - matrix products of packed operands for machines with AVX-512. */
#include "ops/cpu/dot_tiles.inc"

OT_DOT_TILES(avx512)
