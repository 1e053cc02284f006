/* range.c - Range: numbers from start to limit.
 *
 * Spec    ai.onnx Range 11, 27.  start, limit and delta must be constant.
 * Grad    none: its inputs are constants. */
#include "ops/kernels/move.h"

#include <math.h>

static ot_status range_infer(ot_node *n, ot_error *err)
{
    ot_dtype t = n->in[0]->dtype;
    for (int i = 0; i < 3; i++)
        if (!ot_is_const(n->in[i]) || ot_numel(&n->in[i]->shape) != 1 || n->in[i]->dtype != t)
            return ot_node_fail(n, err, "start, limit and delta must be numbers of one type, known before the run");
    double start = ot_get_f64(n->in[0]->data, t, 0), limit = ot_get_f64(n->in[1]->data, t, 0),
           delta = ot_get_f64(n->in[2]->data, t, 0);
    double count = delta != 0 ? ceil((limit - start) / delta) : (double)NAN;
    if (ot_is_int(t) && delta != 0) { /* exact where doubles are not */
        int64_t d = ot_get_i64(n->in[2]->data, t, 0), span;
        if (d == INT64_MIN ||
            __builtin_sub_overflow(ot_get_i64(n->in[1]->data, t, 0), ot_get_i64(n->in[0]->data, t, 0), &span))
            return ot_node_fail(n, err, "start %g, limit %g, delta %g are not a valid range", start, limit, delta);
        int64_t by = d < 0 ? -d : d, way = d < 0 ? -span : span;
        count = way > 0 ? (double)((way - 1) / by + 1) : 0;
    }
    if (!(count < 0x1p56))
        return ot_node_fail(n, err, "start %g, limit %g, delta %g are not a valid range", start, limit, delta);
    ot_shape y = { .rank = 1, .dim = { count > 0 ? (int64_t)count : 0 } };
    if (!ot_shape_fits(&y, t)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], t, &y);
}

static void range_lower(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_value *y = n->out[0];
    ot_dtype t = y->dtype;
    void *bytes = ot_const_alloc(b, &y->shape, t);
    if (!bytes) return;
    double start = ot_get_f64(n->in[0]->data, t, 0), delta = ot_get_f64(n->in[2]->data, t, 0);
    int64_t first = ot_is_int(t) ? ot_get_i64(n->in[0]->data, t, 0) : 0,
            by = ot_is_int(t) ? ot_get_i64(n->in[2]->data, t, 0) : 0;
    for (int64_t i = 0; i < y->shape.dim[0]; i++)
        if (ot_is_int(t)) ot_set_i64(bytes, t, i, first + i * by);
        else ot_set_f64(bytes, t, i, start + (double)i * delta);
    ot_yield(b, 0, ot_graph_const_of(b->graph, y->name, t, &y->shape, bytes));
}

const ot_op ot_op_Range = {
    .name = "Range",
    .types = { "T", .T = OT_SET_FLOAT | OT_TYPE(OT_I16) | OT_SET_INDEX },
    .since = 11,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .nondiff = 7,
    .infer = range_infer,
    .lower = range_lower,
    .grad_zero = "its inputs are constants",
};
