/* gaps.c - inputs whose missing elements the model fills in itself.
 *
 * An imputer, as pipelines of scikit-learn have one, asks IsNaN of its input.  NaN in such an input is data. */
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
