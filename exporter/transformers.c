/* transformers.c - gpt2 and bert of `onnxtrain new`.
 *
 * Shapes  a sequence is (N, T, C); heads have 64 channels each, so scale changes how many there are.
 * Source  GPT-2: Radford et al. 2019, norms in front, output tied to the token table.  BERT: Devlin et al. 2019,
 *         norms behind, one segment, a classifier on the first token.  Initial weights as both have them:
 *         normal with deviation 0.02, GPT-2's projections into the residual smaller by sqrt(2 layers). */
#include "exporter/build.h"

#include <math.h>
#include <stdlib.h>

enum { HEAD = 64, BERT_VOCABULARY = 30522 };

static ot_feature sequence(const ot_net_node *node, ot_feature like, int64_t c)
{
    return (ot_feature){ .name = ot_net_result(node, 0), .t = like.t, .c = c };
}

static ot_feature op2(ot_net *b, const char *op, ot_feature x, const char *y, const char *name)
{
    return sequence(ot_net_op(b, op, name, 1, 2, (const char *[]){ x.name, y }), x, x.c);
}

/* x W + bias, W (C, out) */
static ot_feature dense(ot_net *b, ot_feature x, const char *at, int64_t out, double deviation)
{
    const char *w = ot_net_normal(b, ot_net_name(b, "%s.weight", at), 2, (int64_t[]){ x.c, out }, deviation);
    const char *bias = ot_net_filled(b, ot_net_name(b, "%s.bias", at), out, 0);
    ot_feature y = op2(b, "MatMul", x, w, ot_net_name(b, "%s.matmul", at));
    y.c = out;
    return op2(b, "Add", y, bias, ot_net_name(b, "%s.add", at));
}

static ot_feature layer_norm(ot_net *b, ot_feature x, const char *at)
{
    const char *in[3] = { x.name, ot_net_filled(b, ot_net_name(b, "%s.weight", at), x.c, 1),
                          ot_net_filled(b, ot_net_name(b, "%s.bias", at), x.c, 0) };
    ot_net_node *node = ot_net_op(b, "LayerNormalization", at, 1, 3, in);
    ot_net_int(b, node, "axis", -1);
    ot_net_float(b, node, "epsilon", 1e-5f);
    return sequence(node, x, x.c);
}

/* (N, T, C) to (N, heads, T, 64), or for keys (N, heads, 64, T). */
static const char *heads(ot_net *b, const char *x, const char *shape, const char *at, bool keys)
{
    const int64_t rows[] = { 0, 2, 1, 3 }, columns[] = { 0, 2, 3, 1 };
    ot_net_node *r = ot_net_op(b, "Reshape", ot_net_name(b, "%s.split", at), 1, 2, (const char *[]){ x, shape });
    const char *in = ot_net_result(r, 0);
    ot_net_node *t = ot_net_op(b, "Transpose", ot_net_name(b, "%s.heads", at), 1, 1, &in);
    ot_net_list(b, t, "perm", 4, keys ? columns : rows);
    return ot_net_result(t, 0);
}

/* What the blocks of a network share. */
typedef struct attention {
    const char *split, *join; /* shapes of Reshape */
    const char *scale;        /* 1 / sqrt(64) */
    const char *visible;      /* gpt2: (T, T), what a token may look at; else NULL */
    const char *minus;        /* what the others' scores are */
    const char *mask;         /* bert: added to the scores; else NULL */
    double deviation;         /* of the projection's weights */
} attention;

static ot_feature attend(ot_net *b, ot_feature x, const char *at, const attention *s)
{
    ot_feature qkv = dense(b, x, ot_net_name(b, "%s.qkv", at), 3 * x.c, 0.02);
    ot_net_node *parts = ot_net_op(b, "Split", ot_net_name(b, "%s.parts", at), 3, 1, &qkv.name);
    ot_net_int(b, parts, "axis", -1);
    ot_net_int(b, parts, "num_outputs", 3);
    const char *q = heads(b, ot_net_result(parts, 0), s->split, ot_net_name(b, "%s.q", at), false);
    const char *k = heads(b, ot_net_result(parts, 1), s->split, ot_net_name(b, "%s.k", at), true);
    const char *v = heads(b, ot_net_result(parts, 2), s->split, ot_net_name(b, "%s.v", at), false);

    ot_net_node *dot = ot_net_op(b, "MatMul", ot_net_name(b, "%s.scores", at), 1, 2, (const char *[]){ q, k });
    ot_feature y = op2(b, "Mul", sequence(dot, x, x.c), s->scale, ot_net_name(b, "%s.scale", at));
    if (s->visible)
        y = sequence(ot_net_op(b, "Where", ot_net_name(b, "%s.causal", at), 1, 3,
                               (const char *[]){ s->visible, y.name, s->minus }),
                     x, x.c);
    if (s->mask) y = op2(b, "Add", y, s->mask, ot_net_name(b, "%s.mask", at));
    ot_net_node *p = ot_net_op(b, "Softmax", ot_net_name(b, "%s.softmax", at), 1, 1, &y.name);
    ot_net_int(b, p, "axis", -1);
    y = op2(b, "MatMul", sequence(p, x, x.c), v, ot_net_name(b, "%s.values", at));
    ot_net_node *t = ot_net_op(b, "Transpose", ot_net_name(b, "%s.rows", at), 1, 1, &y.name);
    ot_net_list(b, t, "perm", 4, (const int64_t[]){ 0, 2, 1, 3 });
    y = op2(b, "Reshape", sequence(t, x, x.c), s->join, ot_net_name(b, "%s.join", at));
    return dense(b, y, ot_net_name(b, "%s.proj", at), x.c, s->deviation);
}

static ot_feature feed_forward(ot_net *b, ot_feature x, const char *at, const char *approximate, double deviation)
{
    int64_t c = x.c;
    ot_feature y = dense(b, x, ot_net_name(b, "%s.fc", at), 4 * c, 0.02);
    ot_net_node *gelu = ot_net_op(b, "Gelu", ot_net_name(b, "%s.gelu", at), 1, 1, &y.name);
    ot_net_text(b, gelu, "approximate", approximate);
    return dense(b, sequence(gelu, y, y.c), ot_net_name(b, "%s.proj", at), c, deviation);
}

static attention begin(ot_net *b, int64_t c)
{
    return (attention){
        .split = ot_net_ints(b, "split_shape", 4, (int64_t[]){ 0, 0, c / HEAD, HEAD }),
        .join = ot_net_ints(b, "join_shape", 3, (int64_t[]){ 0, 0, c }),
        .scale = ot_net_scalar(b, "score_scale", 1 / sqrtf(HEAD)),
        .deviation = 0.02,
    };
}

/* Rows of a table by token, and a row per position. */
static ot_feature embed(ot_net *b, ot_feature x, int64_t words, int64_t c)
{
    const char *table = ot_net_normal(b, "wte", 2, (int64_t[]){ words, c }, 0.02);
    const char *places = ot_net_normal(b, "wpe", 2, (int64_t[]){ x.t, c }, 0.01);
    ot_feature y = sequence(ot_net_op(b, "Gather", "embed", 1, 2, (const char *[]){ table, x.name }), x, c);
    return op2(b, "Add", y, places, "embed_places");
}

static const char *lower_triangle(ot_net *b, int64_t n)
{
    uint8_t *v = ot_arena_alloc(b->arena, (size_t)(n * n));
    if (!v) return "";
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) v[i * n + j] = 1;
    return ot_net_bools(b, "visible", 2, (int64_t[]){ n, n }, v);
}

ot_feature ot_recipe_gpt2(ot_net *b, ot_feature x)
{
    int64_t c = ot_net_scaled(b, 768, HEAD);
    attention s = begin(b, c);
    x = embed(b, x, b->o.classes, c);
    s.visible = lower_triangle(b, x.t);
    s.minus = ot_net_scalar(b, "hidden_score", -1e9f);
    s.deviation = 0.02 / sqrt(2 * (double)b->o.layers);
    for (int i = 0; i < (int)b->o.layers; i++) {
        const char *at = ot_net_name(b, "h%d", i);
        ot_feature y = layer_norm(b, x, ot_net_name(b, "%s.ln_1", at));
        x = ot_net_add(b, x, attend(b, y, ot_net_name(b, "%s.attn", at), &s), ot_net_name(b, "%s.add_1", at));
        y = layer_norm(b, x, ot_net_name(b, "%s.ln_2", at));
        x = ot_net_add(b, x, feed_forward(b, y, ot_net_name(b, "%s.mlp", at), "tanh", s.deviation),
                       ot_net_name(b, "%s.add_2", at));
    }
    x = layer_norm(b, x, "ln_f");
    const char *table = "wte";
    ot_net_node *t = ot_net_op(b, "Transpose", "wte_columns", 1, 1, &table);
    ot_net_list(b, t, "perm", 2, (const int64_t[]){ 1, 0 });
    x = op2(b, "MatMul", x, ot_net_result(t, 0), "logits");
    x.c = b->o.classes;
    return x;
}

/* 0 where attention_mask is 1, a large negative number where it is 0: (N, 1, 1, T). */
static const char *padding(ot_net *b)
{
    ot_feature mask = ot_net_tokens(b, "attention_mask");
    const char *axes = ot_net_ints(b, "mask_axes", 2, (int64_t[]){ 1, 2 });
    ot_net_node *wide = ot_net_op(b, "Unsqueeze", "mask_wide", 1, 2, (const char *[]){ mask.name, axes });
    const char *in = ot_net_result(wide, 0);
    ot_net_node *f = ot_net_op(b, "Cast", "mask_float", 1, 1, &in);
    ot_net_int(b, f, "to", OT_F32);
    ot_net_node *hidden =
        ot_net_op(b, "Sub", "mask_hidden", 1, 2, (const char *[]){ ot_net_scalar(b, "one", 1), ot_net_result(f, 0) });
    return ot_net_result(
        ot_net_op(b, "Mul", "mask_scores", 1, 2,
                  (const char *[]){ ot_net_result(hidden, 0), ot_net_scalar(b, "hidden_score", -1e9f) }),
        0);
}

ot_feature ot_recipe_bert(ot_net *b, ot_feature x)
{
    int64_t c = ot_net_scaled(b, 768, HEAD);
    attention s = begin(b, c);
    s.mask = padding(b);
    x = layer_norm(b, embed(b, x, BERT_VOCABULARY, c), "embed_norm");
    for (int i = 0; i < (int)b->o.layers; i++) {
        const char *at = ot_net_name(b, "layer%d", i);
        x = ot_net_add(b, x, attend(b, x, ot_net_name(b, "%s.attention", at), &s), ot_net_name(b, "%s.add_1", at));
        x = layer_norm(b, x, ot_net_name(b, "%s.norm_1", at));
        x = ot_net_add(b, x, feed_forward(b, x, ot_net_name(b, "%s.mlp", at), "none", 0.02),
                       ot_net_name(b, "%s.add_2", at));
        x = layer_norm(b, x, ot_net_name(b, "%s.norm_2", at));
    }
    const int64_t first = 0;
    ot_net_node *token =
        ot_net_op(b, "Gather", "first_token", 1, 2, (const char *[]){ x.name, ot_net_ints(b, "first", 1, &first) });
    ot_net_int(b, token, "axis", 1);
    const char *in = ot_net_result(token, 0);
    ot_net_node *flat = ot_net_op(b, "Flatten", "first_token_flat", 1, 1, &in);
    ot_net_int(b, flat, "axis", 1);
    ot_feature y = { .name = ot_net_result(flat, 0), .c = c };
    y = ot_net_linear(b, y, "pooler", c);
    ot_net_node *tanh_node = ot_net_op(b, "Tanh", "pooler_tanh", 1, 1, &y.name);
    y.name = ot_net_result(tanh_node, 0);
    return ot_net_linear(b, y, "classifier", b->o.classes);
}
