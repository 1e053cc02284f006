/* softmax.c - SoftmaxAxis: softmax or its logarithm along one axis.
 *
 * Shapes    x, y: any, of rank 1 or more
 * Grad      dx = y (dy - sum y dy)       log: dx = dy - exp(y) sum dy; reads y, not x
 * Numerics  the maximum is subtracted; sums are f64 in the reference, blocked f32 elsewhere */
#include "ops/kernels/softmax.h"

#include "ops/kernels/map.h"

static ot_status rows_infer(ot_node *n, ot_error *err)
{
    (void)err;
    return ot_like(n->out[0], n->in[0]);
}

/* Exporters of attention append Where(IsNaN(y), 0, y) to the softmax of rows that a mask may hide entirely.  The
 * gradient uses that result instead of y: hidden rows then get zero, with y they would get NaN.  NULL: there is
 * none. */
static ot_value *without_nan(const ot_node *n)
{
    ot_value *y = n->out[0], *hit = NULL;
    int near = 16;
    for (ot_node *k = n->next; k && near--; k = k->next) {
        const ot_program *p = k->op == &ot_op_Map ? k->attrs : NULL;
        if (!p || p->n_inst != 1) continue;
        const ot_inst *i = p->inst;
        if (i->row == OT_FN_IsNaN && k->in[i->arg[0]] == y) hit = k->out[0];
        if (!hit || i->row != OT_FN_Where || k->in[i->arg[0]] != hit || k->in[i->arg[2]] != y) continue;
        const ot_value *zero = k->in[i->arg[1]];
        if (ot_is_const(zero) && ot_numel(&zero->shape) == 1 && ot_get_f64(zero->data, zero->dtype, 0) == 0)
            return k->out[0];
    }
    return NULL;
}

static void rows_grad(ot_build *b)
{
    const ot_softmax_axis *a = b->node->attrs;
    ot_value *y = a->log ? NULL : without_nan(b->node);
    ot_set_din(b, 0, ot_emit(b, &ot_op_SoftmaxAxisDx, b->node->attrs, OT_IN(ot_dout(b, 0), y ? y : b->node->out[0])));
}

static void words(FILE *f, const void *attrs)
{
    const ot_softmax_axis *a = attrs;
    fprintf(f, " axis %lld%s", (long long)a->axis, a->log ? " log" : "");
}

const ot_op ot_op_SoftmaxAxis = {
    .name = "SoftmaxAxis",
    .types = { "T", .T = OT_SET_FLOAT },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flops_each = 5,
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_softmax_axis),
    .infer = rows_infer,
    .grad = rows_grad,
    .half = OT_HALF_SOFTMAX,
    .words = words,
};

const ot_op ot_op_SoftmaxAxisDx = {
    .name = "SoftmaxAxisDx",
    .types = { "T", .T = OT_SET_FLOAT },
    .in = { 2, 2 },
    .out = { 1, 1 },
    .flops_each = 4,
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_softmax_axis),
    .infer = rows_infer,
    .words = words,
};
