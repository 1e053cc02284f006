/* attention_tiles_base.c - the blocks of attention for every machine. */
#include "ops/cpu/attention_tiles.inc"

OT_ATTEND_TILES(base)
