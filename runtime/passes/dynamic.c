/* dynamic.c - for training, products of dynamically quantised integers become products of floats.
 *
 *    DynamicQuantizeLinear x -> MatMulInteger or ConvInteger with weights -> Cast -> Mul by both scales
 *
 * is the product of two dequantised tensors.  Rewritten with a DequantizeLinear for each, it has a gradient: x gets
 * the straight-through gradient (fake_quant.c), and the weights train like others behind a DequantizeLinear
 * (stored.c).  Integer weights that are only selected or moved (an embedding: Gather, then DequantizeLinear) are
 * dequantised first, for the same reason.
 *
 * Numerics  Sums of floats replace exact integer sums: equal except for rounding.  Plans without training keep the
 *           integers. */
#include <string.h>

#include "ops/onnx/quantize.h"
#include "runtime/passes/stored.h"

/* The only reader of v, at any input; NULL: none, several, or v is an output of the graph. */
static ot_node *reader(const ot_graph *g, const ot_value *v)
{
    ot_node *found = NULL;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == v) return NULL;
    for (ot_node *n = v->producer->next; n; n = n->next)
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i] != v) continue;
            if (found) return NULL;
            found = n;
        }
    return found;
}

typedef struct operand {
    ot_value *q, *scale, *zero;
} operand;

/* Operand i of n, if its scale is one of the two factors in `scales`.  false: it is neither a tensor that was just
 * quantised nor weights with a known scale. */
static bool operand_of(const ot_node *n, int i, const ot_node *scales, operand *o)
{
    const ot_node *d = n->in[i]->producer;
    *o = (operand){ n->in[i], NULL, ot_node_in(n, 2 + i) };
    for (int k = 0; k < 2; k++) {
        ot_value *s = scales->in[k], *other = scales->in[1 - k];
        if (ot_is(d, &ot_op_DynamicQuantizeLinear)) {
            if (o->q == d->out[0] && s == d->out[1] && o->zero == d->out[2]) o->scale = s;
        } else if (ot_is_const(o->q) && ot_is_const(s) && s->dtype == OT_F32 && !ot_is_const(other)) {
            o->scale = s;
        }
    }
    return o->scale != NULL;
}

/* Scale and zero point of weights: one for all, or one per column. */
static bool shapes_fit(const ot_node *n, const operand *w)
{
    const ot_shape *s = &w->scale->shape, *q = &w->q->shape;
    int64_t scales = ot_numel(s), zeros = w->zero ? ot_numel(&w->zero->shape) : scales;
    if (w->q->producer) return true;
    if ((w->zero && !ot_is_const(w->zero)) || zeros != scales) return false;
    if (scales == 1) return s->rank <= 1 && (!w->zero || w->zero->shape.rank <= 1);
    return ot_is(n, &ot_op_MatMulInteger) && q->rank == 2 && s->rank == 1 && scales == q->dim[1] &&
           (!w->zero || w->zero->shape.rank == 1);
}

static ot_value *floats(ot_graph *g, const ot_node *n, const operand *o)
{
    const ot_node *d = o->q->producer; /* the DequantizeLinear rounds it (fake_quant.c) */
    ot_dequantize a = { .axis = -1, .through = d ? OT_U8 : OT_UNDEFINED, .divide = d ? OT_F32 : OT_UNDEFINED };
    ot_node *dq = ot_graph_node(g, &ot_op_DequantizeLinear, n->name, &a,
                                (ot_value *[]){ d ? d->in[0] : o->q, o->scale, o->zero }, o->zero ? 3 : 2, 1);
    return dq ? dq->out[0] : NULL;
}

/* n, an integer product, with its scales. */
static ot_status spell(ot_graph *g, ot_node *n)
{
    ot_node *cast = reader(g, n->out[0]), *mul = ot_is(cast, &ot_op_Cast) ? reader(g, cast->out[0]) : NULL;
    operand a, b;
    if (!ot_is(mul, &ot_op_Mul)) return OT_OK;
    const ot_node *scales = mul->in[mul->in[0] == cast->out[0]]->producer;
    if (!ot_is(scales, &ot_op_Mul) || !operand_of(n, 0, scales, &a) || !operand_of(n, 1, scales, &b)) return OT_OK;
    if (a.scale == b.scale || !a.q->producer || !shapes_fit(n, &b)) return OT_OK;
    bool conv = ot_is(n, &ot_op_ConvInteger); /* which has the attributes of Conv */
    g->cursor = mul;
    ot_value *x = floats(g, n, &a), *w = floats(g, n, &b);
    ot_node *y = x && w ? ot_graph_node(g, conv ? &ot_op_Conv : &ot_op_MatMul, n->name, conv ? n->attrs : NULL,
                                        (ot_value *[]){ x, w }, 2, 1)
                        : NULL;
    g->cursor = NULL;
    if (!y) return g->err->status;
    y->out[0]->name = mul->out[0]->name;
    ot_graph_replace(g, mul->out[0], y->out[0]);
    ot_graph_remove(g, mul);
    ot_graph_remove(g, cast);
    ot_graph_remove(g, n);
    return OT_OK;
}

/* Operators that only move or select elements of their first input. */
static bool picks(const ot_node *n)
{
    return n && n->op->flags & OT_MOVES && n->n_out == 1 && strchr(">G", ot_slot_at(n->op, 0));
}

/* DequantizeLinear dq of elements selected from weights, with one scale for all: the weights are dequantised first,
 * then selected. */
static ot_status hoist(ot_graph *g, ot_node *dq)
{
    ot_node *n = dq->in[0]->producer;
    const ot_dequantize *a = dq->attrs;
    if (!picks(n) || !ot_is_const(n->in[0]) || !ot_is_int(n->in[0]->dtype) || a->block_size ||
        !ot_is_const(dq->in[1]) || ot_numel(&dq->in[1]->shape) != 1)
        return OT_OK;
    ot_value **in = ot_graph_alloc(g, (size_t)n->n_in * sizeof *in);
    if (!in) return g->err->status;
    g->cursor = dq;
    ot_node *first =
        ot_graph_node(g, dq->op, dq->name, a, (ot_value *[]){ n->in[0], dq->in[1], ot_node_in(dq, 2) }, dq->n_in, 1);
    for (int i = 0; first && i < n->n_in; i++) in[i] = i ? n->in[i] : first->out[0];
    ot_node *then = first ? ot_graph_node(g, n->op, n->name, n->attrs, in, n->n_in, 1) : NULL;
    g->cursor = NULL;
    if (!then) return g->err->status;
    then->out[0]->name = dq->out[0]->name;
    ot_graph_replace(g, dq->out[0], then->out[0]);
    bool alone = reader(g, n->out[0]) == dq;
    ot_graph_remove(g, dq);
    if (alone) ot_graph_remove(g, n);
    return OT_OK;
}

ot_status ot_spell_dynamic(ot_graph *g)
{
    for (ot_node *n = g->first, *next; n && g->err->status == OT_OK; n = next) {
        next = n->next;
        if (ot_is(n, &ot_op_DequantizeLinear)) OT_TRY(hoist(g, n));
    }
    for (ot_node *n = g->first, *next; n && g->err->status == OT_OK; n = next) {
        next = n->next;
        if (ot_is(n, &ot_op_MatMulInteger) || ot_is(n, &ot_op_ConvInteger)) {
            ot_node *cast = reader(g, n->out[0]);
            while (next && (next == cast || (cast && next == reader(g, cast->out[0]))))
                next = next->next; /* they may be gone then */
            OT_TRY(spell(g, n));
        }
    }
    return g->err->status;
}
