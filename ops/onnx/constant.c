/* constant.c - Constant: a tensor from attributes; ConstantOfShape: a tensor filled with one element.
 *
 * Spec    ai.onnx Constant 1 to 25 and ConstantOfShape 9 to 25.  The importer converts Constant nodes to values, and
 *         sparse_value to dense tensors; this operator is for function bodies. */
#include "ops/kernels/move.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct constant_attrs {
    ot_blob value;
    double value_float;
    ot_floats value_floats;
    int64_t value_int;
    ot_ints value_ints;
} constant_attrs;

#define NO_INT (-0x1p62) /* marks a missing attribute; not a value that files use */

#define AT(field) offsetof(constant_attrs, field)
static const ot_attr constant_rows[] = {
    { "value", OT_TENSOR, AT(value), 0, NULL },
    { "value_float", OT_FLOAT, AT(value_float), NAN, NULL },
    { "value_floats", OT_FLOATS, AT(value_floats), 0, NULL },
    { "value_int", OT_INT, AT(value_int), NO_INT, NULL },
    { "value_ints", OT_INTS, AT(value_ints), 0, NULL },
    { 0 },
};
#undef AT

static ot_status known(ot_node *n, ot_dtype t, int rank, int64_t size, const void *data, ot_error *err)
{
    ot_shape s = { .rank = rank, .dim = { size } };
    void *own = ot_node_alloc(n, ot_bytes(&s, t) + 1);
    if (!own) return ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    if (size) memcpy(own, data, ot_bytes(&s, t));
    n->out[0]->data = own;
    n->out[0]->role = OT_CONST;
    return ot_set(n->out[0], t, &s);
}

static ot_status constant_infer(ot_node *n, ot_error *err)
{
    const constant_attrs *a = n->attrs;
    float f = (float)a->value_float;
    if (a->value.data || a->value.dtype != OT_UNDEFINED) {
        if (!a->value.data && ot_numel(&a->value.shape)) return ot_node_fail(n, err, "value has no data");
        if (!a->value.data) return known(n, a->value.dtype, 0, 0, NULL, err);
        n->out[0]->data = a->value.data;
        n->out[0]->role = OT_CONST;
        return ot_set(n->out[0], a->value.dtype, &a->value.shape);
    }
    if (a->value_floats.v) return known(n, OT_F32, 1, a->value_floats.n, a->value_floats.v, err);
    if (a->value_ints.v) return known(n, OT_I64, 1, a->value_ints.n, a->value_ints.v, err);
    if (a->value_int != (int64_t)NO_INT) return known(n, OT_I64, 0, 1, &a->value_int, err);
    if (!isnan(a->value_float)) return known(n, OT_F32, 0, 1, &f, err);
    return ot_node_fail(n, err, "no value; expected one of value, value_float(s), value_int(s)");
}

static void constant_lower(ot_build *b)
{
    const ot_value *y = b->node->out[0];
    if (!ot_broken(b)) ot_yield(b, 0, ot_graph_const_of(b->graph, y->name, y->dtype, &y->shape, y->data));
}

const ot_op ot_op_Constant = {
    .name = "Constant",
    .since = 25,
    .in = { 0, 0 },
    .out = { 1, 1 },
    .attrs = constant_rows,
    .attr_size = sizeof(constant_attrs),
    .infer = constant_infer,
    .lower = constant_lower,
    .grad_zero = "it has no inputs",
};

/* ---- ConstantOfShape ------------------------------------------------------- */

typedef struct filled_attrs {
    ot_blob value;
} filled_attrs;

static const ot_attr filled_rows[] = {
    { "value", OT_TENSOR, offsetof(filled_attrs, value), 0, NULL },
    { 0 },
};

static ot_dtype filled_dtype(const filled_attrs *a) { return a->value.data ? a->value.dtype : OT_F32; }

static ot_status filled_infer(ot_node *n, ot_error *err)
{
    const filled_attrs *a = n->attrs;
    ot_shape y;
    OT_TRY(ot_shape_input(n, 0, &y, err));
    if (a->value.data && ot_numel(&a->value.shape) != 1)
        return ot_node_fail(n, err, "value has %lld elements; expected 1", (long long)ot_numel(&a->value.shape));
    if (!ot_shape_fits(&y, filled_dtype(a))) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], filled_dtype(a), &y);
}

static void filled_lower(ot_build *b)
{
    const filled_attrs *a = b->node->attrs;
    float zero = 0;
    ot_value *v = ot_scalar_bytes(b, filled_dtype(a), a->value.data ? a->value.data : &zero);
    ot_yield(b, 0, ot_expand(b, v, &b->node->out[0]->shape));
}

const ot_op ot_op_ConstantOfShape = {
    .name = "ConstantOfShape",
    .types = { "i" },
    .since = 25,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .nondiff = 1,
    .attrs = filled_rows,
    .attr_size = sizeof(filled_attrs),
    .infer = filled_infer,
    .lower = filled_lower,
    .grad_zero = "a shape does not depend on the values",
    .gives = "=value",
};
