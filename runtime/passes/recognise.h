/* recognise.h - parts of the recognise pass, and functions to examine a graph of kernel operators. */
#ifndef OT_RECOGNISE_H
#define OT_RECOGNISE_H

#include "runtime/passes/passes.h"

/* The readers of the values of a graph, by id: their number (outputs count as more than one), and the last of them.
 * Unknown for values made since. */
typedef struct ot_readers {
    int known;
    int *times;
    ot_node **last;
} ot_readers;

ot_status ot_recognise_readers(ot_graph *g, ot_readers *r);

/* The only node that reads v; NULL: there is none, or it is unknown. */
ot_node *ot_recognise_reader(const ot_readers *r, const ot_value *v);

/* The function of a Map of one instruction; -1: n is no such node, or NULL. */
int ot_recognise_row(const ot_node *n);

/* v as a number, where it is a constant of one float element. */
bool ot_recognise_scalar(const ot_value *v, double *x);

/* recognise_norm.c: inserts a LayerNorm for decomposed normalisations of rows; *any: at least one. */
ot_status ot_recognise_norms(ot_graph *g, const ot_config *c, bool *any);

/* recognise_activation.c: replaces decomposed Gelu, Swish, HardSwish and Mish by one function of a Map; *any: at
 * least one. */
ot_status ot_recognise_activations(ot_graph *g, bool *any);

/* recognise_root.c: roots of sums of squares have the gradient 0 where the sum is 0; *any: at least one. */
ot_status ot_recognise_roots(ot_graph *g, bool *any);

/* recognise_bias.c: a matrix product and the bias added to it become one Dot; *any: at least one. */
ot_status ot_recognise_biases(ot_graph *g, const ot_config *c, bool *any);

/* Replaces v by y, which gets its name. */
void ot_recognise_take_over(ot_graph *g, ot_value *v, ot_value *y);

/* pieces_loss.c: inserts a CrossEntropy for decomposed ones, in a graph of ONNX's operators with shapes.  Marks
 * values. */
ot_status ot_recognise_losses(ot_graph *g);

/* recognise_batchnorm.c: inserts a BatchNormalization for decomposed ones with stored statistics, in a graph of
 * ONNX's operators before classification; *found: their number; *frozen: how many are PyTorch's frozen ones
 * (OT_SAID_FROZEN).  Marks nodes and values. */
ot_status ot_recognise_batch_norms(ot_graph *g, int *found, int *frozen);

#endif
