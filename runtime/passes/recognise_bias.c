/* recognise_bias.c - a MatMul and the Add of a bias behind it become one Dot, as a Gemm is: kernels add the bias to the
 * product's elements before they store them, and what follows reads the sum instead of the product.
 *
 *     Dot [-> View] -> Add, whose other operand is a weight, or a constant, with an element for each column
 *
 * Numerics  One addition of the same numbers; in 16 bits the product is not rounded before it. */
#include <math.h>

#include "ops/kernel.h"
#include "ops/kernels/map.h"
#include "runtime/passes/recognise.h"

/* The Dot whose result v is, with another shape at most; NULL: none, or something else reads it. */
static ot_node *dot_of(const ot_readers *r, ot_value *v)
{
    int64_t columns = v->shape.rank ? v->shape.dim[v->shape.rank - 1] : 0;
    while (v->producer && v->producer->op == &ot_op_View && ot_recognise_reader(r, v)) v = v->producer->in[0];
    ot_node *n = v->producer;
    bool is = n && n->op == &ot_op_Dot && n->n_in == 2 && ot_recognise_reader(r, v);
    return is && n->out[0]->shape.dim[n->out[0]->shape.rank - 1] == columns ? n : NULL;
}

/* May a value with these elements be added in 16 bits?  A mask has numbers that are too large. */
static bool is_moderate(const ot_value *v)
{
    enum { MOST = 1 << 15 };
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i++)
        if (!(fabs(ot_get_f64(v->data, v->dtype, i)) <= MOST)) return false;
    return true;
}

/* A weight, or in predictions a constant, with an element for each of the columns; with another shape at most, as exporters write
 * equal biases once. */
static bool is_bias(const ot_value *v, int64_t columns)
{
    const ot_shape *s = &v->shape;
    if (!s->rank || s->dim[s->rank - 1] != columns || ot_numel(s) != columns) return false;
    while (v->producer && v->producer->op == &ot_op_View) v = v->producer->in[0];
    return v->role == OT_WEIGHT || (v->role == OT_CONST && v->data && ot_is_float(v->dtype) && is_moderate(v));
}

static void put_bias(ot_graph *g, ot_node *add, const ot_node *dot, ot_value *bias)
{
    ot_build b = { .graph = g, .node = dot };
    const ot_shape *s = &dot->out[0]->shape;
    ot_shape flat = { 1, { s->dim[s->rank - 1] } };
    g->cursor = add;
    g->phase = add->phase;
    ot_value *y = ot_emit(&b, &ot_op_Dot, dot->attrs, OT_IN(dot->in[0], dot->in[1], ot_view(&b, bias, &flat)));
    if (y) y = ot_view(&b, y, &add->out[0]->shape);
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (y) ot_graph_replace(g, add->out[0], y);
}

ot_status ot_recognise_biases(ot_graph *g, const ot_config *c, bool *any)
{
    ot_readers readers;
    OT_TRY(ot_recognise_readers(g, &readers));
    for (ot_node *n = g->first; n && g->err->status == OT_OK; n = n->next) {
        if (ot_recognise_row(n) != OT_FN_Add) continue;
        const ot_value *y = n->out[0];
        if (!ot_is_float(y->dtype) || (c->device && y->dtype == OT_F64)) continue; /* cuBLASLt has no bias in f64 */
        for (int i = 0; i < 2; i++) {
            ot_value *product = n->in[i], *bias = n->in[1 - i];
            ot_node *dot = dot_of(&readers, product);
            if (!dot || bias->dtype != y->dtype || dot->phase != n->phase || dot->out[0]->dtype != y->dtype ||
                !ot_shape_eq(&product->shape, &y->shape) || !is_bias(bias, y->shape.dim[y->shape.rank - 1]))
                continue;
            put_bias(g, n, dot, bias);
            *any = true;
            break;
        }
    }
    return g->err->status;
}
