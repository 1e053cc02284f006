/* untie.h - edits of a file's graph: a tensor that several nodes read becomes one for each; a ConstantOfShape becomes
 * the Constant that it makes; a convolution gets a bias.  Everything else keeps its bytes. */
#ifndef OT_UNTIE_H
#define OT_UNTIE_H

#include "importer/import.h"

/* A tensor, as the caller sees it. */
typedef struct ot_tied {
    int source; /* of the model: an initializer of its graph */
    bool usual; /* many layers start with its values (one number, a recurrent layer's bias): equal values say nothing */
    bool asked; /* every use gets its own, whatever they are; else only uses that an exporter merged */
    int made;   /* set: tensors more than there were; 0: its uses belong together, or there is one */
    const char *op; /* set: the operator of its first use */
} ot_tied;

/* Of a tensor with usual values, uses belong together in the same slot beside the same weights, or, where nothing
 * beside them tells, in the same module by the names of the nodes.  Of any other they do (an embedding and the layer that
 * shares it, a layer that is called twice), but for the same slot of layers that were cloned: in modules of a list,
 * layers.0.fc and layers.1.fc.
 *
 * *made: tensors more.  *out: the model with them, each behind the initializers, named <name>_untied_<n>; NULL: none is
 * more; out NULL: only the list is filled in.  Free with ot_import_free; it reads the external data that m reads. */
ot_status ot_untie(const ot_imported *m, ot_tied *list, int n, int *made, ot_imported **out, ot_error *err);

/* A weight that a ConstantOfShape of constant shape fills, in a slot where weights stand. */
typedef struct ot_filled {
    const char *name; /* of the value; the message's */
    bool wanted;
    size_t node; /* of the graph */
} ot_filled;

/* Those of m, in the arena; NULL: no memory. */
ot_filled *ot_filled_find(const ot_imported *m, ot_arena *a, int *n);

/* The wanted ones become Constant nodes of the same name and output, whose values train and are exported as any.
 * Errors: OT_E_MODEL: together they are too large. */
ot_status ot_fill(const ot_imported *m, const ot_filled *list, int n, ot_imported **out, ot_error *err);

/* Convolutions of the graph whose weight is one of these initializers, and that have no bias, get one of zeros, named
 * <weight>_bias or alike.  *out NULL: there is none. */
ot_status ot_give_biases(const ot_imported *m, const int *weights, int n, ot_imported **out, ot_error *err);

#endif
