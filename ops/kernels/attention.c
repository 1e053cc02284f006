/* attention.c - FusedAttention: softmax(scale q.k^T + mask) v.
 *
 * Shapes    attention.h
 * Grad      p = exp(score - top) / sum, dp = dy.v^T, ds = p (dp - sum dy y), 0 where a score is `hidden`
 *           dq = scale ds.k   dk = scale ds^T.q   dv = p^T.dy
 * Memory    the gradient recomputes the scores: only y, top and sum are stored
 * Source    Dao et al. 2022 */
#include "ops/kernels/attention.h"

#include <math.h>
#include <stddef.h>

static const ot_attr rows[] = {
    { "scale", OT_FLOAT, offsetof(ot_attention, scale), 1, NULL },
    { "causal", OT_INT, offsetof(ot_attention, causal), 0, NULL },
    { "hidden", OT_FLOAT, offsetof(ot_attention, hidden), -1e9, NULL },
    { "zero_rows", OT_INT, offsetof(ot_attention, zero_rows), 0, NULL },
    { 0 },
};

void ot_attention_sizes_of(const ot_node *n, ot_attention_sizes *s)
{
    const ot_attention *a = n->attrs;
    if (a->at) {
        *s = a->at->s;
        return;
    }
    int first = ot_attention_q(n);
    const ot_shape *q = &n->in[first]->shape, *v = &n->in[first + 2]->shape;
    *s = (ot_attention_sizes){
        .B = q->dim[0], .H = q->dim[1], .T = q->dim[2], .S = v->dim[2], .D = q->dim[3], .E = v->dim[3]
    };
}

static ot_attention_lie dense(int64_t heads, int64_t tokens, int64_t channels)
{
    return (ot_attention_lie){ .stride = { heads * tokens * channels, tokens * channels, channels, 1 }, .heads = 1 };
}

ot_attention_lie ot_attention_in(const ot_node *n, int i)
{
    const ot_attention *a = n->attrs;
    const int64_t *d = n->in[i]->shape.dim;
    return a->at ? a->at->in[i] : dense(d[1], d[2], d[3]);
}

ot_attention_lie ot_attention_out(const ot_node *n, int i)
{
    const ot_attention *a = n->attrs;
    if (a->at) return a->at->out[i]; /* the output may be missing: result i is a part of another */
    const int64_t *d = n->out[i]->shape.dim;
    return dense(d[1], d[2], d[3]);
}

int ot_attention_to(const ot_node *n, int i)
{
    const ot_attention *a = n->attrs;
    int to = a->at ? a->at->to[i] : i;
    return to >= 0 && to < n->n_out && n->out[to] ? to : -1;
}

void ot_attention_mask_strides(const ot_shape *mask, int64_t stride[4])
{
    int64_t own[OT_MAX_RANK];
    ot_strides(mask, own);
    for (int d = 0; d < 4; d++) {
        int at = d - (4 - mask->rank);
        stride[d] = at < 0 || mask->dim[at] == 1 ? 0 : own[at];
    }
}

/* Are all elements of an operand within the value? */
static bool fits(const ot_attention_lie *l, const int64_t extent[4], const ot_shape *value)
{
    int64_t low = l->src, high = l->src;
    for (int d = 0; d < 4; d++) {
        int64_t steps = d == 1 ? (extent[1] - 1) / l->heads : extent[d] - 1;
        *(l->stride[d] < 0 ? &low : &high) += steps * l->stride[d];
    }
    return low >= 0 && high < ot_numel(value);
}

/* The same for a node with operands of its own. */
static ot_status check_places(ot_node *n, ot_error *err)
{
    const ot_attention_places *at = ((const ot_attention *)n->attrs)->at;
    const ot_attention_sizes *z = &at->s;
    const int64_t q[4] = { z->B, z->H, z->T, z->D }, k[4] = { z->B, z->H, z->S, z->D },
                  v[4] = { z->B, z->H, z->S, z->E }, y[4] = { z->B, z->H, z->T, z->E };
    const int64_t *forward[] = { q, k, v },
                  *backward[] = { y, q, k, v, y }, *const *in = ot_attention_q(n) ? backward : forward;
    for (int i = 0; i < (ot_attention_q(n) ? 5 : 3); i++)
        if (!fits(&at->in[i], in[i], &n->in[i]->shape))
            return ot_node_fail(n, err,
                                "internal error: input %d is not "
                                "within its value",
                                i);
    for (int i = 0; i < (ot_attention_q(n) ? 3 : 1); i++) {
        int to = ot_attention_to(n, i);
        if (to >= 0 && !fits(&at->out[i], ot_attention_q(n) ? forward[i] : y, &at->shape[to]))
            return ot_node_fail(n, err, "internal error: output %d is not within its value", i);
    }
    return OT_OK;
}

static ot_status check(ot_node *n, int first, ot_error *err)
{
    if (((const ot_attention *)n->attrs)->at) return check_places(n, err);
    const ot_value *q = n->in[first], *k = n->in[first + 1], *v = n->in[first + 2];
    for (int i = 0; i < 3; i++)
        if (n->in[first + i]->shape.rank != 4 || n->in[first + i]->dtype != q->dtype || !ot_is_float(q->dtype))
            return ot_node_fail(n, err, "q, k and v must be floats of one type, (batch, heads, tokens, channels)");
    const int64_t *a = q->shape.dim, *b = k->shape.dim, *c = v->shape.dim;
    if (a[0] != b[0] || a[0] != c[0] || a[1] != b[1] || a[1] != c[1] || a[3] != b[3] || b[2] != c[2])
        return ot_node_fail(n, err, "q, k and v have different shapes");
    const ot_value *mask = ot_attention_mask(n);
    if (!mask) return OT_OK;
    ot_shape scores = { .rank = 4, .dim = { a[0], a[1], a[2], b[2] } }, all;
    if (!ot_broadcast(&mask->shape, &scores, &all) || !ot_shape_eq(&all, &scores) ||
        (mask->dtype != OT_BOOL && !ot_is_float(mask->dtype)))
        return ot_node_fail(n, err, "the mask does not match the scores");
    return OT_OK;
}

static ot_status attention_infer(ot_node *n, ot_error *err)
{
    OT_TRY(check(n, 0, err));
    ot_attention_sizes s;
    ot_attention_sizes_of(n, &s);
    ot_dtype t = n->in[0]->dtype;
    const ot_attention *a = n->attrs;
    ot_set(n->out[0], t, a->at ? &a->at->shape[0] : &(ot_shape){ .rank = 4, .dim = { s.B, s.H, s.T, s.E } });
    for (int i = 1; i < n->n_out; i++)
        ot_set(n->out[i], t == OT_F64 ? OT_F64 : OT_F32, &(ot_shape){ .rank = 3, .dim = { s.B, s.H, s.T } });
    return OT_OK;
}

static ot_status dx_infer(ot_node *n, ot_error *err)
{
    OT_TRY(check(n, 1, err));
    const ot_attention *a = n->attrs;
    for (int i = 0; i < 3; i++)
        if (n->out[i]) ot_set(n->out[i], n->in[1]->dtype, a->at ? &a->at->shape[i] : &n->in[i + 1]->shape);
    return OT_OK;
}

static void attention_grad(ot_build *b)
{
    const ot_node *n = b->node;
    if (!ot_dout(b, 0)) return; /* only FusedAttentionDx reads top and sum */
    ot_node *d = ot_emit_n(b, &ot_op_FusedAttentionDx, n->attrs,
                           (ot_value *[]){ ot_dout(b, 0), n->in[0], n->in[1], n->in[2], n->out[0], n->out[1], n->out[2],
                                           ot_node_in(n, 3) },
                           n->n_in > 3 ? 8 : 7, 3);
    for (int i = 0; d && i < 3; i++) ot_set_din(b, i, d->out[i]);
}

/* Two products forward; backward the scores again and four more.  The elements of a causal mask count. */
static double products(const ot_node *n, int of_d, int of_e)
{
    ot_attention_sizes s;
    ot_attention_sizes_of(n, &s);
    double scores = (double)s.B * (double)s.H * (double)s.T * (double)s.S;
    return 2 * scores * (of_d * (double)s.D + of_e * (double)s.E);
}

/* The products, for each element of the largest result. */
static int64_t inner(const ot_node *n)
{
    int64_t most = 1;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && ot_numel(&n->out[i]->shape) > most) most = ot_numel(&n->out[i]->shape);
    return (int64_t)ceil(n->op->flops(n) / 2 / (double)most);
}

static double flops(const ot_node *n) { return products(n, 1, 1); }
static double dx_flops(const ot_node *n) { return products(n, 3, 2); }

static void words(FILE *f, const void *attrs)
{
    const ot_attention *a = attrs;
    fprintf(f, "%s%s", a->causal ? " causal" : "", a->zero_rows ? " zero_rows" : "");
}

const ot_op ot_op_FusedAttention = {
    .name = "FusedAttention",
    .types = { "TTTU", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT | OT_TYPE(OT_BOOL) },
    .in = { 3, 4 },
    .out = { 1, 3 },
    .flags = OT_INTERNAL | OT_PRODUCT,
    .nondiff = 1u << 3,
    .attrs = rows,
    .attr_size = sizeof(ot_attention),
    .infer = attention_infer,
    .grad = attention_grad,
    .half = OT_HALF_ATTENTION,
    .inner = inner,
    .flops = flops,
    .words = words,
};

const ot_op ot_op_FusedAttentionDx = {
    .name = "FusedAttentionDx",
    .types = { "TTTTTWWU", .T = OT_SET_FLOAT, .U = OT_SET_FLOAT | OT_TYPE(OT_BOOL) },
    .in = { 7, 8 },
    .out = { 1, 3 },
    .flags = OT_INTERNAL,
    .attrs = rows,
    .attr_size = sizeof(ot_attention),
    .infer = dx_infer,
    .inner = inner,
    .flops = dx_flops,
    .words = words,
};
