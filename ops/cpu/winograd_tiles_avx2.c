/* winograd_tiles_avx2.c - the tiles of Winograd convolution for machines with AVX2. */
#include "ops/cpu/winograd_tiles.inc"

OT_WINOGRAD_TILES(avx2)
