/* classifier.h - the last linear layer before an output: found in the graph of a file, and replaced by one for other classes. */
#ifndef OT_CLASSIFIER_H
#define OT_CLASSIFIER_H

#include "importer/import.h"

/* The last Gemm, MatMul or Conv before an output.  Texts are the arena's, or m's. */
typedef struct ot_classifier {
    const char *output;
    const char *why;           /* why there is none that can be replaced, and the rest is empty; NULL: there is one */
    const char *op, *node;     /* "Gemm"; the node's name, or the weight's where it has none */
    const char *weight, *bias; /* initializers, or outputs of Constants; bias NULL: there is none */
    int64_t classes, fan_in;   /* elements along `axis`; the others' product */
    int axis, bias_axis;       /* of the classes */
    size_t layer;              /* the node, of the graph */
    bool spatial;              /* Conv: of its output the classes are axis 1, else the last one */
    bool sigmoid;              /* a Sigmoid follows */
    int64_t now;               /* of ot_classifiers_replace: classes of the new layer */
} ot_classifier;

/* The layer before that tensor, through operators that keep the classes: activations, pooling, Reshape, the Add of a bias.
 * Errors: OT_E_NOMEM. */
ot_status ot_classifier_find(const ot_imported *m, const char *output, ot_arena *a, ot_classifier *out, ot_error *err);

/* *out: m with new weights of those layers, uniform in ±1/sqrt(fan_in) as PyTorch's Linear, from the seed and the names of the
 * tensors.  Shapes of tensors after them, and constants of Reshape, follow; metadata of that key gets the value (NULL: it goes);
 * everything else keeps its bytes.  Layers that have `now` classes stay.  *out NULL: all do.  Free with ot_import_free.
 * Errors: OT_E_MODEL: an operator after the layer depends on the number of classes. */
ot_status ot_classifiers_replace(const ot_imported *m, const ot_classifier *list, int n, uint64_t seed, const char *key,
                                 const char *value, ot_imported **out, ot_error *err);

#endif
