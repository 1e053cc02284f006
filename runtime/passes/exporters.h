/* exporters.h - forms that one exporting program writes, known by the producer's name in the file: what in them is no
 * parameter of the exported model, although an operator reads it as one. */
#ifndef OT_EXPORTERS_H
#define OT_EXPORTERS_H

#include "runtime/graph/graph.h"

typedef enum ot_bias {
    OT_BIAS_WHOLE, /* both halves are parameters, or it is no bias of a recurrent operator */
    OT_BIAS_ONE,   /* the second half represents no parameter */
    OT_BIAS_NONE   /* the layer has no bias */
} ot_bias;

/* v is input `input` of n.  v->data: float elements. */
ot_bias ot_recurrent_bias(const ot_graph *g, const ot_value *v, const ot_node *n, int input);

/* Is v, input `input` of n, the state that a recurrent layer keeps from batch to batch?  v->data: float elements. */
bool ot_is_kept_state(const ot_graph *g, const ot_value *v, const ot_node *n, int input);

typedef enum ot_norm_fold {
    OT_NORM_FOLD_NONE,
    OT_NORM_FOLD_PARAMETER, /* computed from a parameter and statistics */
    OT_NORM_FOLD_STATISTIC  /* computed from statistics alone */
} ot_norm_fold;

/* Is v the scale or the shift of a BatchNormalization that tf2onnx folded? */
ot_norm_fold ot_folded_norm(const ot_graph *g, const ot_value *v);

/* The node that alone reads v; NULL: there are several, or none, or v is an output.  user: of who asks. */
typedef const ot_node *ot_only_reader(const void *user, const ot_graph *g, const ot_value *v);

/* Is v, input `input` of n, the mean of a BatchNormalization in inference mode: (x - v) scale + shift? */
bool ot_is_folded_mean(const ot_graph *g, const ot_value *v, const ot_node *n, int input, ot_only_reader *only,
                       const void *user);

/* Sets `bit` in value->mark of the results of preprocessing: computed from inputs and constants alone, and read on the way
 * to the first layer of the model.  `fed` marks what depends on inputs; `other` is free for use in between. */
void ot_mark_preprocessing(ot_graph *g, int fed, int bit, int other);

/* Is v, which n reads, the weight of one of the estimators of an ensemble? */
bool ot_is_estimator_weight(const ot_graph *g, const ot_value *v, const ot_node *n);

#endif
