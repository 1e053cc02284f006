/* recognise.h - parts of the recognise pass, and what they know of a graph of kernel operators. */
#ifndef OT_RECOGNISE_H
#define OT_RECOGNISE_H

#include "runtime/passes/passes.h"

/* The row of a Map of one instruction; -1: n is no such node, or NULL. */
int ot_recognise_row(const ot_node *n);

/* v as a number, where it is a constant of one float element. */
bool ot_recognise_scalar(const ot_value *v, double *x);

/* recognise_norm.c: puts a RowNorm where rows are normalised in pieces; *any: at least one. */
ot_status ot_recognise_norms(ot_graph *g, const ot_config *c, bool *any);

#endif
