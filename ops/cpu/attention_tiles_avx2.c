/* attention_tiles_avx2.c - the blocks of attention for machines with AVX2. */
#include "ops/cpu/attention_tiles.inc"

OT_ATTEND_TILES(avx2)
