/* softmaxcrossentropyloss.c - SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss.
 *
 * Spec    ai.onnx SoftmaxCrossEntropyLoss 12, 13; NegativeLogLikelihoodLoss 12, 13, 22.
 * Shapes  x: (N, C, d1..dk)  target: (N, d1..dk)  weight: (C)  loss: rank 0 or (N, d1..dk)
 *         log_prob: (N, C, d1..dk) */
#include "ops/kernels/crossentropy.h"
#include "ops/onnx/batching.h"

typedef struct ot_scel {
    int64_t ignore_index, reduction;
} ot_scel;

/* ONNX gives ignore_index no default; this one is not a valid label. */
#define NO_INDEX (-0x1p62)

static const char *const reductions[] = { "none", "sum", "mean", NULL };

static const ot_attr attrs[] = {
    { "ignore_index", OT_INT, offsetof(ot_scel, ignore_index), NO_INDEX, NULL },
    { "reduction", OT_ENUM, offsetof(ot_scel, reduction), OT_REDUCTION_MEAN, reductions },
    { 0 },
};

/* Labels in the file are class numbers, or the ignored number. */
static ot_status labels_fit(const ot_node *n, ot_error *err)
{
    const ot_value *t = n->in[1];
    int64_t ignored = ((const ot_scel *)n->attrs)->ignore_index;
    for (int64_t i = 0, total = ot_is_const(t) ? ot_numel(&t->shape) : 0; i < total; i++) {
        int64_t v = ot_get_i64(t->data, t->dtype, i);
        if (v != ignored && (v < 0 || v >= n->in[0]->shape.dim[1]))
            return ot_node_fail(n, err, "input 1 ('%s') has label %lld at position %lld, but there are %lld classes",
                                t->name, (long long)v, (long long)i, (long long)n->in[0]->shape.dim[1]);
    }
    return OT_OK;
}

static ot_status loss_infer(ot_node *n, ot_error *err)
{
    const ot_value *x = n->in[0];
    const ot_shape *t = &n->in[1]->shape;
    char sx[128], st[128];
    if (x->shape.rank < 2) return ot_node_fail(n, err, "x has rank %d; expected 2 or more", x->shape.rank);
    ot_shape y = { .rank = 1, .dim = { x->shape.dim[0] } };
    for (int d = 2; d < x->shape.rank; d++) y.dim[y.rank++] = x->shape.dim[d];
    if (!ot_shape_eq(t, &y))
        return ot_node_fail(n, err, "x is %s and the target %s; the target must have the shape of x without axis 1",
                            ot_shape_text(&x->shape, sx), ot_shape_text(t, st));
    if (n->n_in > 2 && n->in[2] && (n->in[2]->shape.rank != 1 || n->in[2]->shape.dim[0] != x->shape.dim[1]))
        return ot_node_fail(n, err, "weights must have one value per class, %lld", (long long)x->shape.dim[1]);
    OT_TRY(labels_fit(n, err));
    if (((const ot_scel *)n->attrs)->reduction != OT_REDUCTION_NONE) y = OT_SCALAR;
    if (n->n_out > 1) ot_like(n->out[1], x);
    return ot_set(n->out[0], x->dtype, &y);
}

static void lower(ot_build *b, bool log_input)
{
    const ot_node *n = b->node;
    const ot_scel *a = n->attrs;
    ot_cross_entropy c = { .axis = 1,
                           .reduction = a->reduction,
                           .log_input = log_input,
                           .has_ignore = a->ignore_index != (int64_t)NO_INDEX,
                           .ignore_index = a->ignore_index };
    bool logp = n->n_out > 1 && n->out[1];
    int n_in = n->n_in > 2 && n->in[2] ? 3 : 2;
    ot_node *k = ot_emit_n(b, &ot_op_CrossEntropy, &c, n->in, n_in, logp ? 2 : 1);
    if (!k) return;
    ot_yield(b, 0, ot_cast(b, k->out[0], n->out[0]->dtype)); /* f32 if x has 16 bits */
    if (logp) ot_yield(b, 1, k->out[1]);
}

static void softmax_lower(ot_build *b) { lower(b, false); }
static void nll_lower(ot_build *b) { lower(b, true); }

/* A loss in the graph is the mean over all counted elements of the batch, as in a file exported with an open batch
 * size. */
static bool loss_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    if (!ot_batch_has(n, 0) || !ot_batch_has(n, 1) || ot_batch_has(n, 2)) return false;
    for (int i = 0; i < 2; i++)
        if (!(r->in[i] = ot_batch_move(b, n->in[i], 0))) return false;
    ot_batch_on(r, n, 0);
    if (!own[0].rank) r->mark[0] = 0;
    return true;
}

const ot_op ot_op_SoftmaxCrossEntropyLoss = {
    .name = "SoftmaxCrossEntropyLoss",
    .types = { "TxT", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 13,
    .in = { 2, 3 },
    .out = { 1, 2 },
    .nondiff = 1u << 1 | 1u << 2,
    .attrs = attrs,
    .attr_size = sizeof(ot_scel),
    .infer = loss_infer,
    .lower = softmax_lower,
    .flags = OT_WHOLE_BATCH,
    .batch = loss_batch,
};

const ot_op ot_op_NegativeLogLikelihoodLoss = {
    .name = "NegativeLogLikelihoodLoss",
    .types = { "TxT", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 2, 3 },
    .out = { 1, 1 },
    .nondiff = 1u << 1 | 1u << 2,
    .attrs = attrs,
    .attr_size = sizeof(ot_scel),
    .infer = loss_infer,
    .lower = nll_lower,
    .flags = OT_WHOLE_BATCH,
    .batch = loss_batch,
};
