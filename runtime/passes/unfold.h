/* unfold.h - restores a BatchNormalization after convolutions into which one was folded during export. */
#ifndef OT_UNFOLD_H
#define OT_UNFOLD_H

#include "runtime/graph/graph.h"

enum { OT_UNFOLDED_SCALE, OT_UNFOLDED_BIAS, OT_UNFOLDED_MEAN, OT_UNFOLDED_VAR, OT_UNFOLDED_PARTS };

/* One convolution.  Values are identified by id, which is the same in a clone of the graph. */
typedef struct ot_unfolded {
    const char *name; /* of the convolution; of its graph */
    int y;            /* value: its output */
    int weight, bias; /* sources */
    ot_dtype dtype;   /* f32 or f64 */
    int64_t channels;
    const void *start[OT_UNFOLDED_PARTS]; /* of ot_unfold_insert: (channels) each, in dtype */
    int first;                            /* source of the scale; bias, mean and variance follow */
} ot_unfolded;

/* "norm.scale" ...: suffixes of the weight's name, for the names of the norm's tensors. */
extern const char *const ot_unfolded_part[OT_UNFOLDED_PARTS];

/* The epsilon of the inserted norm. */
#define OT_UNFOLD_EPSILON 1e-5

/* Did an exporter compute weight and bias of this convolution from those of a norm after it?  Judged by generated
 * names.  producer: as in the file; named: some tensors of the file have names of the exported program. */
bool ot_took_a_norm_in(const ot_node *n, const char *producer, bool named);

/* Do tensors of g have names of the exported program: "fc.weight"? */
bool ot_unfold_named(const ot_graph *g);

/* The convolutions of g, which pass classify has processed, that get a norm: those with one folded in, judged by
 * names.  If no name shows it and g has no BatchNormalization: each with a bias whose result goes to an activation,
 * a pooling, or an Add.  Weight and bias are tensors of the file that only this node reads, and the weight trains.
 * Marks values.  *n of them, of g's arena; NULL: no memory, recorded.  *shared: others share theirs with another
 * node. */
ot_unfolded *ot_unfold_find(ot_graph *g, const char *producer, int *n, int *shared);

/* Sources of the weights of convolutions with a norm folded in, judged by names, and no bias: it was zero and
 * omitted.  Of g's arena; NULL: no memory, recorded. */
int *ot_unfold_without_bias(ot_graph *g, const char *producer, int *n);

/* Replaces the outputs of g: for each of u, in order, the mean of its output over all axes other than the channels
 * (N, C, 1 ...), and the mean of the squared distance to that. */
ot_status ot_unfold_measure(ot_graph *g, const ot_unfolded *u, int n);

/* Removes the bias of the convolutions and inserts a BatchNormalization with these initial values after them. */
ot_status ot_unfold_insert(ot_graph *g, const ot_unfolded *u, int n);

#endif
