/* row_tiles_avx512.c - 1x1 and depthwise convolutions for machines with AVX-512. */
#include "ops/cpu/row_tiles.inc"

OT_ROWS_TILES(avx512)
