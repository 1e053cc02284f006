/* lora.h - low-rank adapters (LoRA) beside layers whose own weights are frozen (Hu et al. 2021). */
#ifndef OT_LORA_H
#define OT_LORA_H

#include "runtime/base/registry.h"
#include "runtime/graph/graph.h"

extern const ot_registry ot_loras; /* one entry: the keys of --lora */

enum { OT_LORA_A, OT_LORA_B, OT_LORA_PARTS };

/* The adapter of one weight W.  Linear layers: y = x W + s x A B with W (in, out), A (in, r), B (r, out).  Convolutions: A are
 * r filters like those of W, B (out, r, 1 ...) a convolution of kernel 1. */
typedef struct ot_lora {
    const char *name; /* of the weight; of its graph */
    int weight;       /* source */
    ot_dtype dtype;
    bool conv;
    bool turned; /* the file has W as (out, in); of a convolution it always has */
    int64_t in, out;
    ot_shape shape[OT_LORA_PARTS];
    const void *start[OT_LORA_PARTS]; /* of ot_lora_insert, in dtype */
    int first;                        /* source of A; B follows */
} ot_lora;

extern const char *const ot_lora_part[OT_LORA_PARTS]; /* suffixes of the weight's name */

/* The weights of g that get an adapter: of Gemm, MatMul, and convolutions without groups, that such layers alone read.
 * targets: a glob over names of weights or nodes; NULL: all of Gemm and MatMul.  skip: names of weights that get none.
 * *n of them, of g's arena; NULL: no memory, recorded.  *shared: how many other nodes read, too. */
ot_lora *ot_lora_find(ot_graph *g, const char *targets, const char *const *skip, int n_skip, int64_t rank, int *n,
                      int *shared);

/* Inserts the adapters: their results, times `scale`, are added to those of the layers; Dropout acts on what A reads. */
ot_status ot_lora_insert(ot_graph *g, const ot_lora *l, int n, double scale, double dropout);

#endif
