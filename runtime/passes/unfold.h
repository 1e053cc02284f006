/* unfold.h - a BatchNormalization behind convolutions that took theirs in when they were exported. */
#ifndef OT_UNFOLD_H
#define OT_UNFOLD_H

#include "runtime/graph/graph.h"

enum { OT_UNFOLDED_SCALE, OT_UNFOLDED_BIAS, OT_UNFOLDED_MEAN, OT_UNFOLDED_VAR, OT_UNFOLDED_PARTS };

/* One convolution.  Values are named by their id: a clone of a graph has the same. */
typedef struct ot_unfolded {
    const char *name; /* the convolution's; its graph's */
    int y;            /* value: what it computes */
    int weight, bias; /* sources */
    ot_dtype dtype;   /* f32 or f64 */
    int64_t channels;
    const void *start[OT_UNFOLDED_PARTS]; /* of ot_unfold_insert: (channels) each, in dtype */
    int first;                            /* source of the scale; bias, mean and variance follow */
} ot_unfolded;

/* "norm.scale" ...: behind the name of the weight, what they are called. */
extern const char *const ot_unfolded_part[OT_UNFOLDED_PARTS];

/* The epsilon of the normalisation that is put in. */
#define OT_UNFOLD_EPSILON 1e-5

/* Did an exporter compute weight and bias of this convolution from those of a norm behind it?  By the names that it gave them.
 * producer: as the file says; named: some tensors of the file have the names of the program that was exported. */
bool ot_took_a_norm_in(const ot_node *n, const char *producer, bool named);

/* Do tensors of g have names of the program that was exported: "fc.weight"? */
bool ot_unfold_named(const ot_graph *g);

/* The convolutions of g, which pass classify has been over, that get a norm: those that took one in by their names; where no
 * name tells and g has no BatchNormalization, each with a bias whose result goes to an activation, a pooling, or an Add.
 * Weight and bias are tensors of the file that only this node reads, and the weight trains.  Marks values.
 * *n of them, of g's arena; NULL: no memory, recorded.  *shared: others share theirs with another node. */
ot_unfolded *ot_unfold_find(ot_graph *g, const char *producer, int *n, int *shared);

/* Sources of the weights of convolutions that took a norm in, by their names, and have no bias: it was zero, and left out.  Of g's
 * arena; NULL: no memory, recorded. */
int *ot_unfold_without_bias(ot_graph *g, const char *producer, int *n);

/* g gets other outputs: for each of u, in order, the mean of what it computes over all axes behind the channels (N, C, 1 ...),
 * and the mean of the squared distance to that. */
ot_status ot_unfold_measure(ot_graph *g, const ot_unfolded *u, int n);

/* The convolutions lose their bias and get a BatchNormalization with these starts behind them. */
ot_status ot_unfold_insert(ot_graph *g, const ot_unfolded *u, int n);

#endif
