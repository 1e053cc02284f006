/* row_tiles_avx2.c - 1x1 and depthwise convolutions for machines with AVX2. */
#include "ops/cpu/row_tiles.inc"

OT_ROWS_TILES(avx2)
