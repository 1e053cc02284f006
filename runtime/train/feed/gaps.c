/* gaps.c - inputs whose missing elements the model fills in itself, and inputs that it scales itself.
 *
 * An imputer, as pipelines of scikit-learn have one, asks IsNaN of its input.  NaN in such an input is data.  A scaler adds or
 * subtracts one constant and multiplies or divides by another, as the importer writes ai.onnx.ml Scaler. */
#include <string.h>

#include "ops/op.h"
#include "runtime/train/feed/bind_inputs.h"

bool ot_adapt_has_gaps(const ot_graph *g, const ot_value *input)
{
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = g->values[i] == input;
    for (const ot_node *n = g->first; n; n = n->next) {
        bool some = false;
        for (int i = 0; i < n->n_in; i++) some |= n->in[i] && n->in[i]->mark;
        if (some && n->op == &ot_op_IsNaN) return true;
        for (int i = 0; i < n->n_out && some && n->op->flags & (OT_MOVES | OT_SAME); i++)
            if (n->out[i]) n->out[i]->mark = 1;
    }
    return false;
}

void ot_adapt_gaps(const ot_graph *g, ot_dataset *d)
{
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        if (v->role != OT_INPUT || v->data || !ot_adapt_has_gaps(g, v)) continue;
        for (int k = 0; k < d->n; k++)
            if (!*d->array[k].t.name || !strcmp(d->array[k].t.name, v->name))
                d->array[k].gaps = d->array[k].role == OT_ARRAY_INPUT;
    }
}

/* ---- scalers ---------------------------------------------------------------------------------- */

/* Arithmetic of x and a constant that does not train: -1: none, 0: x plus or minus it, 1: x multiplied or divided by it. */
static int by_constant(const ot_node *n, const ot_value *x)
{
    bool shift = n->op == &ot_op_Add || n->op == &ot_op_Sub, turns = n->op == &ot_op_Add || n->op == &ot_op_Mul;
    if (!shift && n->op != &ot_op_Mul && n->op != &ot_op_Div) return -1;
    if (n->n_in != 2 || (n->in[0] != x && !turns)) return -1;
    const ot_value *c = n->in[n->in[0] == x];
    return c && c->data && !c->producer && c->role == OT_CONST ? !shift : -1;
}

/* Does node n shift x, and all readers of the result scale it, or the other way round? */
static bool is_scaler(const ot_node *n, const ot_value *x)
{
    int first = by_constant(n, x), second = 0;
    if (first < 0) return false;
    for (const ot_node *next = n->next; next; next = next->next)
        for (int i = 0; i < next->n_in; i++) {
            if (next->in[i] != n->out[0]) continue;
            if (by_constant(next, n->out[0]) != !first) return false;
            second++;
        }
    return second > 0;
}

/* Whether elements that node n reads at input i are in its result unchanged: also behind an imputer, which is a Where. */
static bool moves(const ot_node *n, int i)
{
    if (n->op == &ot_op_Where) return i > 0;
    return n->op == &ot_op_Concat || (i == 0 && n->op->flags & (OT_MOVES | OT_SAME));
}

bool ot_adapt_is_scaled(const ot_graph *g, const ot_value *input)
{
    bool some = false;
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = g->values[i] == input;
    for (const ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++) {
            bool question = n->op == &ot_op_IsNaN || n->op == &ot_op_Equal || n->op->flags & OT_FROM_SHAPES;
            if (!n->in[i] || !n->in[i]->mark || question) continue;
            if (moves(n, i)) {
                for (int k = 0; k < n->n_out; k++)
                    if (n->out[k]) n->out[k]->mark = 1;
            } else if (!is_scaler(n, n->in[i])) {
                return false;
            } else {
                some = true;
            }
        }
    return some;
}
