/* evidence.h - what the name and the values of one initializer say about it: a parameter, or a constant of the computation? */
#ifndef OT_EVIDENCE_H
#define OT_EVIDENCE_H

#include "runtime/graph/graph.h"

typedef enum ot_pattern {                  /* what the values of a tensor look like */
                          OT_PATTERN_NONE, /* nothing in particular: as weights look */
                          OT_PATTERN_COPIES, /* as weights look, each of them more than once: rows that an exporter took from a table beforehand */
                          OT_PATTERN_ONE,   /* a single element */
                          OT_PATTERN_EQUAL, /* every element the same */
                          OT_PATTERN_MASK,  /* 0 and -1e4 or less: what is added to attention scores */
                          OT_PATTERN_STEPS, /* each line along the last axis an arithmetic or geometric progression: positions, frequencies */
                          OT_PATTERN_FEW,   /* few distinct values: grids, anchors, windows, masks of 0 and 1 */
                          OT_PATTERN_ANGLES /* sines and cosines of the same angles: position tables */
} ot_pattern;

/* v->data: float elements. */
ot_pattern ot_pattern_of(const ot_value *v);

/* Did an exporter make v, a weight, by copying elements of a parameter?  v->data: float elements. */
bool ot_holds_copies(const ot_value *v);

/* Which elements of v are copies of one another: a number below *groups for each element, in the order of v.  Owned by the arena of g;
 * NULL without memory. */
const int32_t *ot_copies_of(ot_graph *g, const ot_value *v, int64_t *groups);

/* The parameter that v, under a name that an exporter made up, is a copy of: with its elements in order, or turned (two axes
 * swapped), as exporters write the second use of a tied embedding.  NULL: none, or the file does not list its parameters: then
 * two tensors are two weights.  Both train, and stay equal. */
ot_value *ot_original_of(const ot_graph *g, const ot_value *v, bool *turned);

/* Is v such a copy?  Before roles are known, too. */
bool ot_copies_listed(const ot_graph *g, const ot_value *v);

/* Likewise in a file that does not list its parameters: the tensor under a name of the module's own.  The two train apart. */
ot_value *ot_twin_of(const ot_graph *g, const ot_value *v, bool *turned);

/* For messages: "a mask", "a table of few distinct values"; OT_PATTERN_NONE: "". */
const char *ot_pattern_name(ot_pattern p);

/* Did an exporter make this name up, for a tensor that it computed or that a program wrote as a literal?  Parameters
 * have the name that they have in the program ("layer1.0.weight"), unless they were transposed or folded. */
bool ot_name_is_made(const char *name);

/* Is the name that of a change of type, computed while exporting?  ("_to_copy_10") */
bool ot_name_is_converted(const char *name);
bool ot_values_are_whole(const ot_value *v); /* each a whole number: counts, validity, ids */

/* Is the name that of a product, difference, quotient or root, computed while exporting?  ("mul_3") */
bool ot_name_is_computed(const char *name);

/* Is the name that of rows chosen from a table, while exporting?  Tables of embeddings are parameters. */
bool ot_name_is_looked_up(const char *name);

/* A path of identifiers with a dot, as modules of PyTorch name their parameters: "head.bias". */
bool ot_name_is_path(const char *name);

/* Does the program's own name say that the tensor is a table and no parameter?  ("relative_coords_table") */
bool ot_name_is_table(const char *name);

#endif
