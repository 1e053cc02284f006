/* winograd_tiles_base.c - the tiles of Winograd convolution for every machine. */
#include "ops/cpu/winograd_tiles.inc"

OT_WINOGRAD_TILES(base)
