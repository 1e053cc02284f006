/* stored.h - weights that a file keeps in integers behind DequantizeLinear, trained in floats. */
#ifndef OT_STORED_H
#define OT_STORED_H

#include "runtime/passes/passes.h"

/* How the file keeps a weight whose value in the graph has floats; value->stored. */
struct ot_stored {
    ot_dtype dtype;               /* of the integers */
    int axis;                     /* of scale and zero point; -1: one value for all */
    int64_t block;                /* elements of axis that share a scale */
    const ot_value *scale, *zero; /* of the file; zero NULL: 0 everywhere */
    const void *integers;         /* of the file */
    bool fitted;                  /* the scale follows the weight: exporters write a new one */
    const ot_value *like;         /* of a bias with that: the weight whose scale's changes its own follows; else NULL */
};

/* invariant.c: states of loops that no iteration changes are read from outside. */
ot_status ot_hoist_invariants(ot_graph *g);

/* dynamic.c: products of what DynamicQuantizeLinear made and of weights become those of dequantised floats. */
ot_status ot_spell_dynamic(ot_graph *g);

/* May v, an integer of the file that only `reader`, a DequantizeLinear, and others like it read, train in floats?  Then v gets
 * its dequantised elements, a float type and `stored`.  false: it stays as it is, or no memory. */
bool ot_stored_widen(ot_graph *g, ot_value *v, const ot_node *reader);

void ot_stored_restore(ot_value *v); /* as it was before ot_stored_widen */

/* n, a reader of a widened weight, rounds to the file's integers by itself from now on.  false: no memory. */
bool ot_stored_read(ot_graph *g, ot_node *n);

bool ot_same_elements(const ot_value *a, const ot_value *b); /* one value, or constants alike; both may be NULL */

/* Do both DequantizeLinear read integers in the same way? */
bool ot_stored_alike(const ot_node *a, const ot_node *b);

/* Scales of trained weights that nothing else reads are computed from the weights; those of their biases follow. */
ot_status ot_stored_fit(ot_plan *p);

/* What the file will hold of a trained weight that has these elements: its integers to `out`, scales and zero points to arrays
 * of ot_stored_scales() numbers.  Integers of elements that did not change are those of the file, where the scale is kept.
 * like: the elements of stored->like, where there is one.  OT_E_DIVERGED: an element is not finite. */
int64_t ot_stored_scales(const ot_value *w);
bool ot_stored_moves(const ot_value *w); /* a fitted zero point is another than the file's */
ot_status ot_stored_write(const ot_value *w, const void *bytes, const void *like, double *scale, double *zero,
                          void *out);

#endif
