/* convolve_tiles_avx512.c - the work on a strip of a convolution for machines with AVX-512. */
#include "ops/cpu/convolve_tiles.inc"

OT_STRIP_TILES(avx512)
