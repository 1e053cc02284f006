/* rounding.c - quantised and back is one rounding that a gradient passes.
 *
 * A QuantizeLinear makes an integer, through which no gradient flows.  Where a DequantizeLinear with the
 * same scale and zero point follows, the two stand for a rounding: it reads what was quantised,
 * and rounds by itself.  The values stay the same, bit for bit. */
#include <string.h>

#include "ops/quantize.h"
#include "runtime/passes/passes.h"

static bool same(const ot_value *a, const ot_value *b)
{
    if (a == b) return true;
    return a && b && ot_is_const(a) && ot_is_const(b) && a->dtype == b->dtype && ot_shape_eq(&a->shape, &b->shape) &&
           !memcmp(a->data, b->data, ot_bytes(&a->shape, a->dtype));
}

/* The QuantizeLinear that n undoes; NULL: none.  Small floats need no help: a cast between floats has a gradient. */
static const ot_node *undone(const ot_node *n)
{
    const ot_node *q = n->op == &ot_op_DequantizeLinear ? n->in[0]->producer : NULL;
    if (!q || q->op != &ot_op_QuantizeLinear || ot_is_float(n->in[0]->dtype) || !ot_is_float(q->in[0]->dtype)) return NULL;
    const ot_dequantize *a = n->attrs;
    const ot_quantize   *b = q->attrs;
    bool single = ot_numel(&n->in[1]->shape) == 1;
    if (a->block_size != b->block_size || (a->axis != b->axis && !(single && !a->block_size))) return NULL;
    if (!same(n->in[1], q->in[1])) return NULL;
    return same(n->n_in > 2 ? n->in[2] : NULL, q->n_in > 2 ? q->in[2] : NULL) ? q : NULL;
}

static ot_status join(ot_graph *g, ot_node *n, const ot_node *q)
{
    ot_dequantize     *a = ot_node_alloc(n, sizeof *a);
    ot_value         **in = ot_graph_alloc(g, (size_t)n->n_in * sizeof *in);
    const ot_quantize *b = q->attrs;
    if (!a || !in) return g->err->status;
    *a = *(const ot_dequantize *)n->attrs;
    a->through = n->in[0]->dtype;
    a->divide = b->precision ? (ot_dtype)b->precision : q->in[1]->dtype;
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    in[0] = q->in[0];
    n->in = in;
    n->attrs = a;
    return OT_OK;
}

ot_status ot_pass_rounding(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    (void)c;
    for (ot_node *n = g->first; n; n = n->next) {
        const ot_node *q = undone(n);
        if (q) OT_TRY(join(g, n, q));
    }
    return g->err->status;
}
