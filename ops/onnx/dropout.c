/* dropout.c - Dropout: sets a random part of x to 0 and scales the rest up.
 *
 * Spec    ai.onnx Dropout 22; ratio and training_mode are constants.  The attribute seed is ignored: random numbers
 *         depend on the run's seed and the position of the node in the graph.
 * Grad    dx = dy * mask / (1 - ratio). */

#include "ops/onnx/batching.h"
#include "ops/onnx/elementwise.h"

typedef struct dropout_attrs {
    int64_t seed;
} dropout_attrs;

static const ot_attr rows[] = { { "seed", OT_INT, offsetof(dropout_attrs, seed), 0, NULL }, { 0 } };

static bool given(const ot_node *n, int i) { return i < n->n_in && n->in[i]; }

static ot_status dropout_infer(ot_node *n, ot_error *err)
{
    if (!ot_is_float(n->in[0]->dtype))
        return ot_node_fail(n, err, "x is %s; expected a float", ot_dtype_name(n->in[0]->dtype));
    for (int i = 1; i < 3; i++) {
        const char *name = i == 1 ? "ratio" : "training_mode";
        if (!given(n, i)) continue;
        if (!ot_is_const(n->in[i])) return ot_node_fail(n, err, "%s must be constant", name);
        if (ot_numel(&n->in[i]->shape) != 1) return ot_node_fail(n, err, "%s must be a scalar", name);
    }
    double ratio = given(n, 1) ? ot_get_f64(n->in[1]->data, n->in[1]->dtype, 0) : 0.5;
    if (!(ratio >= 0 && ratio <= 1)) return ot_node_fail(n, err, "ratio is %g; expected 0 to 1", ratio);
    OT_TRY(ot_like(n->out[0], n->in[0]));
    return n->n_out > 1 && n->out[1] ? ot_set(n->out[1], OT_BOOL, &n->in[0]->shape) : OT_OK;
}

/* true if the random number of the element is at least `ratio`; only the shape of x is read. */
static ot_value *random_mask(ot_build *b, ot_value *x, double ratio)
{
    ot_program m = {
        .n_in = 3, .in_class = { (uint8_t)ot_class_of(x->dtype), OT_CLASS_U64, OT_CLASS_U64 },
        .n_inst = 3, .n_out = 1, .out = { 5 }, .out_dtype = { OT_BOOL },
        .inst = {
            { .row = OT_FN_Random, .cls = OT_CLASS_F32, .arg = { 1, 2, -1, -1, -1 },
              .p = OT_STREAM_DROPOUT + b->node->out[0]->id },
            { .row = OT_FN_Imm, .cls = OT_CLASS_F32, .arg = { -1, -1, -1, -1, -1 }, .p = ratio },
            { .row = OT_FN_GreaterOrEqual, .cls = OT_CLASS_F32, .arg = { 3, 4, -1, -1, -1 } },
        },
    };
    ot_value *in[] = { x, ot_graph_seed(b->graph), ot_graph_counter(b->graph) };
    if (!in[1] || !in[2]) return NULL;
    ot_node *n = ot_map_emit_program(b, &m, in);
    return n ? n->out[0] : NULL;
}

static void dropout_lower(ot_build *b)
{
    const ot_node *n = b->node;
    ot_value *x = n->in[0];
    double ratio = given(n, 1) ? ot_get_f64(n->in[1]->data, n->in[1]->dtype, 0) : 0.5;
    bool acts = given(n, 2) && ot_get_i64(n->in[2]->data, n->in[2]->dtype, 0) != 0 && ratio > 0;
    bool wants_mask = n->n_out > 1 && n->out[1];
    if (!acts) {
        ot_yield(b, 0, x);
        if (wants_mask) ot_yield(b, 1, ot_expand(b, ot_scalar(b, OT_BOOL, 1), &x->shape));
        return;
    }
    ot_value *mask = random_mask(b, x, ratio);
    ot_value *kept = ot_map2(b, OT_FN_Mul, 0, 0, x, mask);
    ot_yield(b, 0, ot_map2(b, OT_FN_Mul, 0, 0, kept, ot_scalar(b, x->dtype, ratio < 1 ? 1 / (1 - ratio) : 0)));
    if (wants_mask) ot_yield(b, 1, mask);
}

const ot_op ot_op_Dropout = {
    .name = "Dropout",
    .types = { "TUb", .T = OT_SET_FLOAT | OT_SET_FLOAT8, .U = OT_SET_FLOAT | OT_SET_FLOAT8 },
    .slots = "-",
    .since = 22,
    .in = { 1, 3 },
    .out = { 1, 2 },
    .rank = OT_RANK_KEPT,
    .flags = OT_RANDOM | OT_IN_TRAINING,
    .nondiff = 6,
    .attrs = rows,
    .attr_size = sizeof(dropout_attrs),
    .infer = dropout_infer,
    .lower = dropout_lower,
    .batch = ot_batch_pointwise,
};
