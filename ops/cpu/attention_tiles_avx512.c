/* attention_tiles_avx512.c - the blocks of attention for machines with AVX-512. */
#include "ops/cpu/attention_tiles.inc"

OT_ATTEND_TILES(avx512)
