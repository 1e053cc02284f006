/* winograd_tiles_avx512.c - the tiles of Winograd convolution for machines with AVX-512. */
#include "ops/cpu/winograd_tiles.inc"

OT_WINOGRAD_TILES(avx512)
