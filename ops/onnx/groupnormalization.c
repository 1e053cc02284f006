/* groupnormalization.c - InstanceNormalization and GroupNormalization.
 *
 * Spec    ai.onnx InstanceNormalization 22, GroupNormalization 21.
 * Shapes  x, y: (N, C, ...)   scale, bias: (C)
 * Grad    by LayerNorm over x seen as (N, groups, elements of a group): an instance is a group of one channel. */

#include "ops/kernels/map.h"
#include "ops/kernels/layernorm.h"
#include "ops/onnx/batching.h"

typedef struct group_attrs {
    double epsilon;
    int64_t groups, stash_type;
} group_attrs;

#define AT(field) offsetof(group_attrs, field)
static const ot_attr instance_rows[] = { { "epsilon", OT_FLOAT, AT(epsilon), 1e-5, NULL }, { 0 } };
static const ot_attr group_rows[] = {
    { "epsilon", OT_FLOAT, AT(epsilon), 1e-5, NULL },
    { "num_groups", OT_INT, AT(groups), OT_REQUIRED, NULL },
    { "stash_type", OT_INT, AT(stash_type), OT_F32, NULL },
    { 0 },
};
#undef AT

static ot_status infer_with(ot_node *n, int64_t groups, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    char text[128];
    if (x->rank < 2) return ot_node_fail(n, err, "x has rank %d; expected at least 2", x->rank);
    if (!ot_is_float(n->in[0]->dtype))
        return ot_node_fail(n, err, "x is %s; expected a float", ot_dtype_name(n->in[0]->dtype));
    for (int i = 1; i < 3; i++)
        if (n->in[i]->shape.rank != 1 || n->in[i]->shape.dim[0] != x->dim[1])
            return ot_node_fail(n, err, "%s is %s; expected one value for each of %lld channels",
                                i == 1 ? "scale" : "bias", ot_shape_text(&n->in[i]->shape, text), (long long)x->dim[1]);
    if (groups < 1 || x->dim[1] % groups)
        return ot_node_fail(n, err, "%lld channels cannot be divided into %lld groups", (long long)x->dim[1],
                            (long long)groups);
    return ot_like(n->out[0], n->in[0]);
}

static ot_status instance_infer(ot_node *n, ot_error *err)
{
    int64_t C = n->in[0]->shape.rank > 1 ? n->in[0]->shape.dim[1] : 1;
    return infer_with(n, C ? C : 1, err);
}

static ot_status group_infer(ot_node *n, ot_error *err)
{
    return infer_with(n, ((const group_attrs *)n->attrs)->groups, err);
}

/* Is v a constant with that number in every element?  Exporters write a GroupNorm as an InstanceNormalization with a
 * scale of ones. */
static bool is_all(const ot_value *v, double x)
{
    bool all = ot_is_const(v);
    for (int64_t i = 0, n = all ? ot_numel(&v->shape) : 0; i < n && all; i++)
        all = ot_get_f64(v->data, v->dtype, i) == x;
    return all;
}

static void lower_with(ot_build *b, int64_t groups)
{
    const ot_node *n = b->node;
    ot_value *x = n->in[0];
    ot_shape s = x->shape, rows = { .rank = 3, .dim = { s.dim[0], groups, 1 } };
    ot_shape channel = { .rank = s.rank - 1, .dim = { s.dim[1], 1, 1, 1, 1, 1, 1, 1 } }; /* (C, 1, ...) */
    ot_layer_norm r = { .axis = 2, .center = 1, .epsilon = ((const group_attrs *)n->attrs)->epsilon };
    for (int d = 1; d < s.rank; d++) rows.dim[2] *= s.dim[d];
    rows.dim[2] /= groups;
    ot_node *k = ot_emit_n(b, &ot_op_LayerNorm, &r, OT_IN(ot_view(b, x, &rows)), 3);
    if (!k) return;
    ot_value *y = ot_view(b, k->out[0], &s);
    if (!is_all(n->in[1], 1)) y = ot_map2(b, OT_FN_Mul, 0, 0, y, ot_view(b, ot_cast(b, n->in[1], x->dtype), &channel));
    if (!is_all(n->in[2], 0)) y = ot_map2(b, OT_FN_Add, 0, 0, y, ot_view(b, ot_cast(b, n->in[2], x->dtype), &channel));
    ot_yield(b, 0, y);
}

static void instance_lower(ot_build *b)
{
    int64_t C = b->node->in[0]->shape.dim[1];
    lower_with(b, C ? C : 1);
}

static void group_lower(ot_build *b) { lower_with(b, ((const group_attrs *)b->node->attrs)->groups); }

const ot_op ot_op_InstanceNormalization = {
    .name = "InstanceNormalization",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-no",
    .since = 22,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = instance_rows,
    .attr_size = sizeof(group_attrs),
    .infer = instance_infer,
    .lower = instance_lower,
    .batch = ot_batch_first,
};

const ot_op ot_op_GroupNormalization = {
    .name = "GroupNormalization",
    .types = { "T", .T = OT_SET_FLOAT },
    .slots = "-no",
    .since = 21,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = group_rows,
    .attr_size = sizeof(group_attrs),
    .infer = group_infer,
    .lower = group_lower,
    .batch = ot_batch_first,
};
