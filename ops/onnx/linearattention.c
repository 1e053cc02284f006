/* linearattention.c - LinearAttention: a state of keys times values, updated and read token by token.
 *
 * Spec    ai.onnx LinearAttention 27.
 * Shapes  query: (B, T, Hq K)   key: (B, T, Hk K)   value: (B, T, Hk V)   state: (B, Hk, K, V)   y: (B, T, Hq V)
 *         decay: (B, T, Hk) or (B, T, Hk K), gated rules   beta: (B, T, Hk) or (B, T, 1), delta rules
 * Grad    of every input
 * Numerics  the state is f32, or f64 for f64
 * Memory  tokens are unrolled: their number counts like a loop's iterations. */
#include "ops/kernels/copy.h"
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"

#include <stddef.h>

typedef struct linear_attrs {
    int64_t chunk_size, kv_num_heads, q_num_heads, update_rule;
    double scale;
} linear_attrs;

static const char *const rules[] = { "linear", "gated", "delta", "gated_delta", NULL };

static const ot_attr linear_rows[] = {
    { "chunk_size", OT_INT, offsetof(linear_attrs, chunk_size), 64,
      NULL }, /* a hint for implementations; does not change the result */
    { "kv_num_heads", OT_INT, offsetof(linear_attrs, kv_num_heads), OT_REQUIRED, NULL },
    { "q_num_heads", OT_INT, offsetof(linear_attrs, q_num_heads), OT_REQUIRED, NULL },
    { "scale", OT_FLOAT, offsetof(linear_attrs, scale), 0, NULL },
    { "update_rule", OT_ENUM, offsetof(linear_attrs, update_rule), 3, rules },
    { 0 },
};

enum { QUERY, KEY, VALUE, STATE, DECAY, BETA };

typedef struct sizes {
    int64_t B, T, Hq, Hk, K, V;
} sizes;

/* Is input i (B, T, one of the two numbers)? */
static ot_status per_token(const ot_node *n, int i, const sizes *z, int64_t width, int64_t other, ot_error *err)
{
    const ot_shape *s = &n->in[i]->shape;
    char text[128];
    if (s->rank == 3 && s->dim[0] == z->B && s->dim[1] == z->T && (s->dim[2] == width || s->dim[2] == other))
        return OT_OK;
    return ot_node_fail(n, err, "input %d is %s; expected [%lld,%lld,%lld]", i, ot_shape_text(s, text), (long long)z->B,
                        (long long)z->T, (long long)width);
}

static ot_status measure(const ot_node *n, sizes *z, ot_error *err)
{
    const linear_attrs *a = n->attrs;
    const ot_shape *q = &n->in[QUERY]->shape, *v = &n->in[VALUE]->shape;
    bool gated = a->update_rule & 1, delta = a->update_rule & 2;
    if (a->q_num_heads < 1 || a->kv_num_heads < 1 || a->q_num_heads % a->kv_num_heads)
        return ot_node_fail(n, err, "%lld query heads do not match %lld key heads", (long long)a->q_num_heads,
                            (long long)a->kv_num_heads);
    if (q->rank != 3 || v->rank != 3 || q->dim[2] % a->q_num_heads || v->dim[2] % a->kv_num_heads || q->dim[1] < 1)
        return ot_node_fail(n, err, "query, key and value must be (batch, tokens, heads * channels)");
    *z = (sizes){ .B = q->dim[0],
                  .T = q->dim[1],
                  .Hq = a->q_num_heads,
                  .Hk = a->kv_num_heads,
                  .K = q->dim[2] / a->q_num_heads,
                  .V = v->dim[2] / a->kv_num_heads };
    OT_TRY(per_token(n, KEY, z, z->Hk * z->K, z->Hk * z->K, err));
    OT_TRY(per_token(n, VALUE, z, z->Hk * z->V, z->Hk * z->V, err));
    if (!ot_node_in(n, DECAY) != !gated || !ot_node_in(n, BETA) != !delta)
        return ot_node_fail(n, err,
                            "decay is for the gated rules and beta for the delta rules, where they are "
                            "required; this rule is %s",
                            rules[a->update_rule]);
    if (gated) OT_TRY(per_token(n, DECAY, z, z->Hk, z->Hk * z->K, err));
    if (delta) OT_TRY(per_token(n, BETA, z, z->Hk, 1, err));
    ot_shape state = { .rank = 4, .dim = { z->B, z->Hk, z->K, z->V } };
    if (ot_node_in(n, STATE) && !ot_shape_eq(&n->in[STATE]->shape, &state))
        return ot_node_fail(n, err,
                            "past_state does not match key and "
                            "value");
    return OT_OK;
}

static ot_status linear_infer(ot_node *n, ot_error *err)
{
    sizes z;
    OT_TRY(measure(n, &z, err));
    ot_dtype t = n->in[QUERY]->dtype;
    ot_set(n->out[0], t, &(ot_shape){ .rank = 3, .dim = { z.B, z.T, z.Hq * z.V } });
    if (n->n_out > 1)
        ot_set(n->out[1], ot_node_in(n, STATE) ? n->in[STATE]->dtype : t,
               &(ot_shape){ .rank = 4, .dim = { z.B, z.Hk, z.K, z.V } });
    return OT_OK;
}

/* Token t of x, as a tensor of rank 4 with the batch first. */
static ot_value *token(ot_build *b, ot_value *x, int64_t t, int64_t i, int64_t j, int64_t k)
{
    static const int64_t one[OT_MAX_RANK] = { 1, 1, 1 };
    int64_t start[OT_MAX_RANK] = { 0, t };
    ot_piece *p = ot_broken(b) ? NULL : ot_pieces(b, 1);
    if (!p) return NULL;
    ot_shape y = x->shape;
    y.dim[1] = 1;
    ot_piece_box(p, &x->shape, start, one, y.dim);
    return ot_view(b, ot_copy_emit(b, &y, 0, p, 1, &x, 1), &(ot_shape){ .rank = 4, .dim = { y.dim[0], i, j, k } });
}

/* One token: updates and reads *state; (B, Hk, Hq / Hk, V). */
static ot_value *step(ot_build *b, ot_value *const *in, const sizes *z, int64_t t, ot_value **state)
{
    ot_value *v = token(b, in[VALUE], t, z->Hk, 1, z->V), *s = *state;
    if (ot_broken(b)) return NULL;
    if (in[DECAY])
        s = ot_map2(b, OT_FN_Mul, 0, 0, s,
                    ot_map1(b, OT_FN_Exp, 0, 0, token(b, in[DECAY], t, z->Hk, in[DECAY]->shape.dim[2] / z->Hk, 1)));
    if (in[BETA]) {
        ot_value *known = ot_matmul(b, token(b, in[KEY], t, z->Hk, 1, z->K), false, s, false);
        v = ot_map2(b, OT_FN_Mul, 0, 0, token(b, in[BETA], t, in[BETA]->shape.dim[2], 1, 1),
                    ot_map2(b, OT_FN_Sub, 0, 0, v, known));
    }
    s = ot_map2(b, OT_FN_Add, 0, 0, s, ot_map2(b, OT_FN_Mul, 0, 0, token(b, in[KEY], t, z->Hk, z->K, 1), v));
    *state = s;
    return ot_matmul(b, token(b, in[QUERY], t, z->Hk, z->Hq / z->Hk, z->K), false, s, false);
}

/* All tokens' results, (B, T, Hq V). */
static ot_value *gather_tokens(ot_build *b, ot_value *const *y, const sizes *z)
{
    static const int64_t zero[OT_MAX_RANK], one[OT_MAX_RANK] = { 1, 1, 1 };
    ot_shape all = { .rank = 3, .dim = { z->B, z->T, z->Hq * z->V } }, each = all;
    ot_piece *p = ot_broken(b) ? NULL : ot_pieces(b, z->T);
    ot_value **line = ot_broken(b) ? NULL : ot_graph_alloc(b->graph, (size_t)z->T * sizeof *line);
    each.dim[1] = 1;
    for (int64_t t = 0; p && line && t < z->T; t++) {
        line[t] = ot_view(b, y[t], &each);
        ot_piece_box(&p[t], &each, zero, one, each.dim);
        p[t].in = t;
        p[t].dst[1] = t;
    }
    return p && line && !ot_broken(b) ? ot_copy_emit(b, &all, 0, p, z->T, line, (int)z->T) : NULL;
}

static void linear_lower(ot_build *b)
{
    enum { NODES = 32 }; /* the approximate number per token, with their values */
    const ot_node *n = b->node;
    sizes z;
    if (measure(n, &z, b->graph->err) != OT_OK) return;
    if (z.T > b->graph->room->copies / NODES) {
        ot_node_fail(n, b->graph->err, "sequences of %lld tokens are too long: there would be too many nodes",
                     (long long)z.T);
        return;
    }
    b->graph->room->copies -= z.T * NODES;
    ot_dtype wide = n->in[QUERY]->dtype == OT_F64 ? OT_F64 : OT_F32;
    double scale = ((const linear_attrs *)n->attrs)->scale;
    ot_value *in[BETA + 1], **y = ot_graph_alloc(b->graph, (size_t)z.T * sizeof *y);
    for (int i = 0; i <= BETA; i++) in[i] = ot_node_in(n, i) ? ot_cast(b, n->in[i], wide) : NULL;
    ot_shape shape = { .rank = 4, .dim = { z.B, z.Hk, z.K, z.V } };
    ot_value *state = in[STATE] ? in[STATE] : ot_expand(b, ot_scalar(b, wide, 0), &shape);
    for (int64_t t = 0; y && t < z.T; t++) y[t] = step(b, in, &z, t, &state);
    ot_value *all = y ? gather_tokens(b, y, &z) : NULL;
    if (ot_broken(b)) return;
    all = ot_map2(b, OT_FN_Mul, 0, 0, all, ot_scalar(b, wide, scale != 0 ? scale : 1 / sqrt((double)(z.K ? z.K : 1))));
    ot_yield(b, 0, ot_cast(b, all, n->out[0]->dtype));
    if (n->n_out > 1 && n->out[1]) ot_yield(b, 1, ot_cast(b, state, n->out[1]->dtype));
}

const ot_op ot_op_LinearAttention = {
    .name = "LinearAttention",
    .types = { "TTTUTT", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT },
    .slots = "-",
    .since = 27,
    .in = { 3, 6 },
    .out = { 1, 2 },
    .attrs = linear_rows,
    .attr_size = sizeof(linear_attrs),
    .infer = linear_infer,
    .lower = linear_lower,
};
