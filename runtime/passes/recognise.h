/* recognise.h - parts of the recognise pass, and what they know of a graph of kernel operators. */
#ifndef OT_RECOGNISE_H
#define OT_RECOGNISE_H

#include "runtime/passes/passes.h"

/* Who reads the values of a graph, by id: how many times (outputs count as more than once), and the last that does.
 * Of values made since then nothing is known. */
typedef struct ot_readers {
    int known;
    int *times;
    ot_node **last;
} ot_readers;

ot_status ot_recognise_readers(ot_graph *g, ot_readers *r);

/* The node that alone reads v; NULL: there is none, or nothing is known. */
ot_node *ot_recognise_reader(const ot_readers *r, const ot_value *v);

/* The row of a Map of one instruction; -1: n is no such node, or NULL. */
int ot_recognise_row(const ot_node *n);

/* v as a number, where it is a constant of one float element. */
bool ot_recognise_scalar(const ot_value *v, double *x);

/* recognise_norm.c: puts a LayerNorm where rows are normalised in pieces; *any: at least one. */
ot_status ot_recognise_norms(ot_graph *g, const ot_config *c, bool *any);

/* recognise_activation.c: puts one row of a Map where Gelu, Swish, HardSwish or Mish stands in pieces; *any: at least one. */
ot_status ot_recognise_activations(ot_graph *g, bool *any);

/* y stands for v from now on, and has its name. */
void ot_recognise_take_over(ot_graph *g, ot_value *v, ot_value *y);

/* pieces_loss.c: puts a CrossEntropy where one stands in pieces, in a graph of ONNX's operators with shapes.  Marks values. */
ot_status ot_recognise_losses(ot_graph *g);

/* recognise_batchnorm.c: puts a BatchNormalization where one with stored statistics stands in pieces, in a graph of ONNX's operators
 * that is not classified yet; *found: how many; *frozen: how many of those are PyTorch's frozen ones (OT_SAID_FROZEN).  Marks nodes and values. */
ot_status ot_recognise_batch_norms(ot_graph *g, int *found, int *frozen);

#endif
