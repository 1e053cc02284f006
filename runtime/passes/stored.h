/* stored.h - trains weights that a file stores as integers or small floats before a DequantizeLinear. */
#ifndef OT_STORED_H
#define OT_STORED_H

#include "runtime/passes/passes.h"
#include "runtime/passes/uses.h"

/* How the file stores a weight whose value in the graph is floats; value->stored. */
struct ot_stored {
    ot_dtype dtype;               /* in the file */
    int axis;                     /* of scale and zero point; -1: one value for all */
    int64_t block;                /* elements of axis that share a scale */
    const ot_value *scale, *zero; /* as in the file; zero NULL: 0 everywhere */
    const void *elements;         /* of the file */
    bool fitted;                  /* the scale follows the weight: export writes a new one */
    const ot_value *like;         /* for a bias whose scale follows a weight's: that weight; else NULL */
};

/* invariant.c: states that no iteration of a Loop changes become values from outside. */
ot_status ot_hoist_invariants(ot_graph *g);

/* dynamic.c: products of DynamicQuantizeLinear's results and weights become products of dequantised floats. */
ot_status ot_spell_dynamic(ot_graph *g);

/* Can a DequantizeLinear read trained weights of type t: integers of up to 32 bits, floats of up to 8? */
bool ot_stored_type(ot_dtype t);

/* May v, a tensor of such a type that only `reader`, a DequantizeLinear, and others like it read, train as floats?
 * If so v gets its dequantised elements, a float type and `stored`.  false: v is unchanged, or no memory. */
bool ot_stored_widen(ot_graph *g, ot_value *v, const ot_node *reader);

void ot_stored_restore(ot_value *v); /* before ot_stored_widen */

/* n, a reader of a widened weight, rounds to the file's type by itself.  false: no memory. */
bool ot_stored_read(ot_graph *g, ot_node *n);

bool ot_same_elements(const ot_value *a, const ot_value *b); /* one value, or equal constants; both may be NULL */

/* Do both DequantizeLinear nodes interpret integers in the same way? */
bool ot_stored_alike(const ot_node *a, const ot_node *b);

/* Computes scales of trained weights that have no other readers from the weights; those of their biases follow.
 * u: the uses in the plan's graph. */
ot_status ot_stored_fit(ot_plan *p, const ot_uses *u);

/* What the file will contain for a trained weight with these elements: its numbers to `out`, scales and zero points
 * to arrays of ot_stored_scales() numbers.  Unchanged elements keep the numbers of the file, if the scale is kept.
 * like: the elements of stored->like, if set.  OT_E_DIVERGED: an element is not finite. */
int64_t ot_stored_scales(const ot_value *w);
bool ot_stored_moves(const ot_value *w); /* a fitted zero point differs from the file's */
ot_status ot_stored_write(const ot_value *w, const void *bytes, const void *like, double *scale, double *zero,
                          void *out);

#endif
