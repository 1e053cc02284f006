/* build.h - writes an ONNX model layer by layer; the recipes of `onnxtrain new` consist of its calls.
 *
 * A builder's first error sticks and makes the later calls do nothing, so a recipe has no error
 * checks.  Initial weights are PyTorch's defaults: uniform in ±1/sqrt(fan in), norms 1 and 0. */
#ifndef OT_BUILD_H
#define OT_BUILD_H

#include "exporter/new.h"
#include "proto/onnx.pb-c.h"

/* A value of the network: (N, c, h, w); (N, c) where h is 0; a sequence (N, t, c) where t is not. */
typedef struct ot_feature {
    const char *name;
    int64_t c, h, w, t;
} ot_feature;

typedef struct ot_net {
    ot_arena *arena;
    ot_new_options o; /* resolved: nothing is 0 but batch, seed, and what its kind does not have */
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset;
    size_t cap_node, cap_initializer, cap_input;
    uint32_t tensors; /* random tensors made so far: each has its own numbers */
    ot_error *err;
    ot_status status;
} ot_net;

/* A square window. 0: stride 1, no padding, one group. */
typedef struct ot_net_window {
    int64_t out; /* channels of the result; pooling has none */
    int64_t kernel, stride, pad, groups;
    bool no_bias; /* a normalisation follows */
} ot_net_window;

void ot_net_begin(ot_net *b, ot_arena *arena, const char *name, const ot_new_options *o, ot_error *err);
ot_feature ot_net_input(ot_net *b, bool flat);
ot_status ot_net_end(ot_net *b, ot_feature y, const char *path); /* y becomes "output"; writes the file */

/* Layers.  `name` is the node's; its parameters are name.weight, name.bias … */
ot_feature ot_net_conv(ot_net *b, ot_feature x, const char *name, ot_net_window w);
ot_feature ot_net_deconv(ot_net *b, ot_feature x, const char *name, ot_net_window w); /* ConvTranspose */
ot_feature ot_net_norm(ot_net *b, ot_feature x, const char *name);                    /* BatchNormalization */
ot_feature ot_net_linear(ot_net *b, ot_feature x, const char *name, int64_t out);     /* Gemm */
ot_feature ot_net_max_pool(ot_net *b, ot_feature x, const char *name, ot_net_window w);
ot_feature ot_net_global_pool(ot_net *b, ot_feature x, const char *name);
ot_feature ot_net_flatten(ot_net *b, ot_feature x, const char *name);
ot_feature ot_net_relu(ot_net *b, ot_feature x, const char *name);
ot_feature ot_net_relu6(ot_net *b, ot_feature x, const char *name); /* Clip(0, 6) */
ot_feature ot_net_sigmoid(ot_net *b, ot_feature x, const char *name);
ot_feature ot_net_add(ot_net *b, ot_feature x, ot_feature y, const char *name);

/* What layers of other kinds are made of.  Operands before the last may be NULL: missing. */
typedef Onnx__NodeProto ot_net_node;
ot_net_node *ot_net_op(ot_net *b, const char *op, const char *name, int n_out, int n, const char *const *input);
void ot_net_int(ot_net *b, ot_net_node *node, const char *name, int64_t i);
void ot_net_float(ot_net *b, ot_net_node *node, const char *name, float f);
void ot_net_list(ot_net *b, ot_net_node *node, const char *name, int n, const int64_t *i);
void ot_net_text(ot_net *b, ot_net_node *node, const char *name, const char *s);
const char *ot_net_result(const ot_net_node *node, int i); /* name of output i; "" after an error */

/* Initializers; each gives its name back.  Normal: mean 0, Box-Muller over the seed's numbers. */
const char *ot_net_filled(ot_net *b, const char *name, int64_t n, float value);
const char *ot_net_normal(ot_net *b, const char *name, int rank, const int64_t *dim, double deviation);
const char *ot_net_ints(ot_net *b, const char *name, int n, const int64_t *v);
const char *ot_net_bools(ot_net *b, const char *name, int rank, const int64_t *dim, const uint8_t *v);
const char *ot_net_scalar(ot_net *b, const char *name, float value);

/* A graph input (N, t) of token numbers, int64. */
ot_feature ot_net_tokens(ot_net *b, const char *name);

/* A name in the builder's memory. */
const char *ot_net_name(ot_net *b, const char *fmt, ...) OT_PRINTF(2, 3);

/* c channels times the width option, at least 1; rounded to a multiple of `unit`. */
int64_t ot_net_scaled(const ot_net *b, int64_t c, int64_t unit);

/* recipes.c: the network of a kind.  The defaults and ranges of its options are those of its keys. */
typedef struct ot_recipe {
    ot_entry entry;
    bool flat; /* the input is (N, channels * height * width) */
    ot_feature (*build)(ot_net *b, ot_feature x);
} ot_recipe;

const ot_recipe *ot_recipe_find(const char *name); /* NULL: no such kind */

/* transformers.c */
ot_feature ot_recipe_gpt2(ot_net *b, ot_feature x);
ot_feature ot_recipe_bert(ot_net *b, ot_feature x);

#endif
