/* convolve_tiles_base.c - the work on a strip of a convolution for every machine. */
#include "ops/cpu/convolve_tiles.inc"

OT_STRIP_TILES(base)
