/* centercroppad.c - CenterCropPad: crops, or pads with zeros, around the centre.
 *
 * Spec    ai.onnx CenterCropPad 18.  Sizes must be constant.
 * Grad    of Pad. */
#include "ops/kernels/move.h"

#include <stddef.h>
#include <string.h>

typedef struct center_attrs {
    ot_ints axes;
} center_attrs;

static const ot_attr center_rows[] = {
    { "axes", OT_INTS, offsetof(center_attrs, axes), 0, NULL },
    { 0 },
};

static ot_status center_pads(const ot_node *n, int64_t pads[2 * OT_MAX_RANK], ot_shape *y, ot_error *err)
{
    const ot_ints *axes = &((const center_attrs *)n->attrs)->axes;
    ot_shape want;
    *y = n->in[0]->shape;
    OT_TRY(ot_shape_input(n, 1, &want, err));
    if (want.rank != (axes->n ? axes->n : y->rank))
        return ot_node_fail(n, err, "%d sizes for %d axes", want.rank, axes->n ? axes->n : y->rank);
    memset(pads, 0, 2 * OT_MAX_RANK * sizeof *pads);
    for (int i = 0; i < want.rank; i++) {
        int d = i;
        if (axes->n) OT_TRY(ot_node_axis(n, axes->v[i], y->rank, &d, err));
        int64_t more = want.dim[i] - n->in[0]->shape.dim[d];
        pads[d] = more < 0 ? -(-more / 2) : more / 2;
        pads[d + y->rank] = more - pads[d];
        y->dim[d] = want.dim[i];
    }
    return OT_OK;
}

static ot_status center_infer(ot_node *n, ot_error *err)
{
    int64_t pads[2 * OT_MAX_RANK];
    ot_shape y;
    OT_TRY(center_pads(n, pads, &y, err));
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void center_lower(ot_build *b)
{
    int64_t pads[2 * OT_MAX_RANK];
    ot_shape y;
    if (center_pads(b->node, pads, &y, b->graph->err) != OT_OK) return;
    ot_yield(b, 0, ot_emit(b, &ot_op_Pad, NULL, OT_IN(b->node->in[0], ot_ints_const(b, pads, 2 * y.rank))));
}

const ot_op ot_op_CenterCropPad = {
    .name = "CenterCropPad",
    .types = { "Tx", .T = OT_SET_COMMON },
    .slots = "-",
    .since = 18,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = center_rows,
    .attr_size = sizeof(center_attrs),
    .infer = center_infer,
    .lower = center_lower,
};
