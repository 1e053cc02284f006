/* row_tiles_base.c - 1x1 and depthwise convolutions for any machine. */
#include "ops/cpu/row_tiles.inc"

OT_ROWS_TILES(base)
