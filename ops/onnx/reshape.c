/* reshape.c - Reshape: the same elements with another shape.
 *
 * Spec    ai.onnx Reshape 5, 13, 14, 19, 21, 23, 24, 25.
 * Shapes  x: any   shape: (r), constant: 0 copies the size of x's axis (allowzero: is zero), one -1 is inferred   y:
 *         shape */
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct reshape_attrs {
    int64_t allowzero;
} reshape_attrs;

static const ot_attr reshape_rows[] = {
    { "allowzero", OT_INT, offsetof(reshape_attrs, allowzero), 0, NULL },
    { 0 },
};

static ot_status reshape_infer(ot_node *n, ot_error *err)
{
    const reshape_attrs *a = n->attrs;
    const ot_value *x = n->in[0];
    ot_ints want;
    ot_shape y;
    int left = -1;
    int64_t rest = 1, total = ot_numel(&x->shape);
    char text[128];

    OT_TRY(ot_const_ints(n, 1, &want, err));
    if (want.n > OT_MAX_RANK)
        return ot_node_fail(n, err, "a shape of %d axes; at most %d are supported", want.n, OT_MAX_RANK);
    y.rank = want.n;
    for (int d = 0; d < want.n; d++) {
        int64_t size = want.v[d];
        if (size == 0 && !a->allowzero) {
            if (d >= x->shape.rank)
                return ot_node_fail(n, err, "size 0 at axis %d of the shape copies the size of x, but x is %s", d,
                                    ot_shape_text(&x->shape, text));
            size = x->shape.dim[d];
        }
        if (size < -1 || (size == -1 && left >= 0))
            return ot_node_fail(n, err, "invalid size %lld at axis %d of the shape", (long long)size, d);
        if (size == -1) left = d;
        else if (!ot_mul(rest, size, &rest)) return ot_node_fail(n, err, "the shape is too large");
        y.dim[d] = size;
    }
    if (left >= 0) {
        if (rest == 0 || total % rest)
            return ot_node_fail(n, err,
                                "%s has %lld elements, not a multiple of %lld; the size for -1 cannot be "
                                "computed",
                                ot_shape_text(&x->shape, text), (long long)total, (long long)rest);
        y.dim[left] = total / rest;
    } else if (rest != total) {
        char to[128];
        return ot_node_fail(n, err, "x is %s, but the shape is %s; the numbers of elements must be equal",
                            ot_shape_text(&x->shape, text), ot_shape_text(&y, to));
    }
    return ot_set(n->out[0], x->dtype, &y);
}

static void reshape_lower(ot_build *b) { ot_yield(b, 0, ot_view(b, b->node->in[0], &b->node->out[0]->shape)); }

const ot_op ot_op_Reshape = {
    .name = "Reshape",
    .types = { "ti" },
    .slots = ">-",
    .since = 25,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = reshape_rows,
    .attr_size = sizeof(reshape_attrs),
    .infer = reshape_infer,
    .lower = reshape_lower,
    .flags = OT_MOVES | OT_SAME,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_viewed,
};
