/* convolve_tiles_avx2.c - the work on a strip of a convolution for machines with AVX2. */
#include "ops/cpu/convolve_tiles.inc"

OT_STRIP_TILES(avx2)
