/* fake_quant.c - QuantizeLinear and DequantizeLinear pairs become fake quantization, with a straight-through
 * gradient.
 *
 * A QuantizeLinear makes integers, through which no gradient flows.  If a DequantizeLinear with the same scale and
 * zero point follows, the pair is a rounding: the DequantizeLinear reads the input of the QuantizeLinear and rounds
 * by itself.  Operators between the two that only move or select elements (an integer MaxPool, a Clip to fewer bits,
 * Reshape) are applied to the rounded floats.  The values stay the same, bit for bit. */
#include <string.h>

#include "ops/onnx/quantize.h"
#include "runtime/passes/stored.h"

/* The QuantizeLinear that n inverts; NULL: none.  8-bit floats need nothing: a cast between floats has a gradient. */
static const ot_node *undone(const ot_node *n)
{
    const ot_node *q = n->op == &ot_op_DequantizeLinear ? n->in[0]->producer : NULL;
    if (!q || q->op != &ot_op_QuantizeLinear || ot_is_float(n->in[0]->dtype) || !ot_is_float(q->in[0]->dtype))
        return NULL;
    const ot_dequantize *a = n->attrs;
    const ot_quantize *b = q->attrs;
    bool single = ot_numel(&n->in[1]->shape) == 1;
    if (a->block_size != b->block_size || (a->axis != b->axis && !(single && !a->block_size))) return NULL;
    if (!ot_same_elements(n->in[1], q->in[1])) return NULL;
    return ot_same_elements(ot_node_in(n, 2), ot_node_in(q, 2)) ? q : NULL;
}

static ot_status join(ot_graph *g, ot_node *n, const ot_node *q)
{
    ot_dequantize *a = ot_node_alloc(n, sizeof *a);
    ot_value **in = ot_graph_alloc(g, (size_t)n->n_in * sizeof *in);
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

/* ---- operators between the two --------------------------------------------------- */

/* Their inputs and outputs share one scale: max pooling and clipping select among their input's values. */
static bool moves(const ot_node *n)
{
    return n && (n->op->flags & OT_MOVES || n->op == &ot_op_MaxPool || n->op == &ot_op_Clip);
}

static ot_value *dequantised(ot_graph *g, const ot_node *dq, ot_value *v)
{
    ot_value *in[] = { v, dq->in[1], ot_node_in(dq, 2) };
    ot_node *n = ot_graph_node(g, &ot_op_DequantizeLinear, dq->name, dq->attrs, in, dq->n_in, 1);
    if (!n || ot_infer_node(g, n) != OT_OK) return NULL;
    const ot_node *q = undone(n);
    return !q || join(g, n, q) == OT_OK ? n->out[0] : NULL;
}

enum { MOST = 100 }; /* movers for one DequantizeLinear: a file can double their number with each Concat */

/* Does v come from a QuantizeLinear that dq inverts, through moving operators only? */
static bool comes_from_floats(const ot_node *dq, ot_value *v, int *left)
{
    const ot_node *n = v->producer;
    if (!n || --*left < 0 || v->dtype != dq->in[0]->dtype) return false;
    if (!moves(n)) {
        ot_node like = *dq;
        ot_value *in[] = { v, dq->in[1], ot_node_in(dq, 2) };
        like.in = in;
        return undone(&like) != NULL;
    }
    for (int i = 1; n->op == &ot_op_Concat && i < n->n_in; i++)
        if (!comes_from_floats(dq, n->in[i], left)) return false;
    return comes_from_floats(dq, n->in[0], left);
}

/* The float form of v, for which the above is true. */
static ot_value *in_floats(ot_graph *g, const ot_node *dq, ot_value *v)
{
    const ot_node *n = v->producer;
    if (!moves(n)) return dequantised(g, dq, v);
    ot_value **in = ot_graph_alloc(g, (size_t)n->n_in * sizeof *in);
    if (!in) return NULL;
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    for (int i = 0; i < n->n_in; i++) {
        bool same_kind = i == 0 || n->op == &ot_op_Concat, bound = n->op == &ot_op_Clip && i && in[i];
        if (same_kind) in[i] = in_floats(g, dq, in[i]);
        else if (bound) in[i] = dequantised(g, dq, in[i]);
        if ((same_kind || bound) && !in[i]) return NULL;
    }
    static const ot_clip through = { .through = true };
    const void *attrs = n->op == &ot_op_Clip ? &through : n->attrs;
    ot_node *twin = ot_graph_node(g, n->op, n->name, attrs, in, n->n_in, n->n_out);
    return twin && ot_infer_node(g, twin) == OT_OK ? twin->out[v->port] : NULL;
}

/* A DequantizeLinear of one scale after moving operators: these operators are applied to floats instead. */
static ot_status move_up(ot_graph *g, ot_node *n)
{
    if (n->op != &ot_op_DequantizeLinear || !moves(n->in[0]->producer) || ot_numel(&n->in[1]->shape) != 1 ||
        !comes_from_floats(n, n->in[0], &(int){ MOST }))
        return OT_OK;
    ot_value **in = ot_graph_alloc(g, sizeof *in);
    g->cursor = n;
    if (in) in[0] = in_floats(g, n, n->in[0]);
    g->cursor = NULL;
    if (!in || !in[0]) return g->err->status;
    n->op = &ot_op_Identity;
    n->attrs = NULL;
    n->in = in;
    n->n_in = 1;
    return OT_OK;
}

ot_status ot_pass_fake_quant(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    (void)c;
    for (ot_node *n = g->first; n; n = n->next) {
        const ot_node *q = undone(n);
        if (q) OT_TRY(join(g, n, q));
        else OT_TRY(move_up(g, n));
    }
    return g->err->status;
}
