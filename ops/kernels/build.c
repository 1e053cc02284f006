/* build.c - the functions with which lowerings and gradients are written; short forms are in the files of their operators.
 *
 * Every call checks the graph's sticky error first, so a rule needs no checks of its own. */
#include "ops/op.h"

ot_node *ot_emit_n(ot_build *b, const ot_op *op, const void *attrs, ot_value *const *in, int n_in, int n_out)
{
    if (ot_broken(b)) return NULL;
    ot_node *n = ot_graph_node(b->graph, op, b->node ? b->node->name : op->name, attrs, in, n_in, n_out);
    if (!n) return NULL;
    n->made = b->node ? b->node->made : b->graph->pass;
    if (b->node && b->node->stage > n->stage) n->stage = b->node->stage;
    if (ot_node_infer(n, b->graph->err) != OT_OK) return NULL;
    for (int i = 0; i < n_out; i++)
        if (!ot_shape_known(&n->out[i]->shape) || !ot_shape_fits(&n->out[i]->shape, n->out[i]->dtype)) {
            ot_node_fail(n, b->graph->err, "the result is too large to describe");
            return NULL;
        }
    return n;
}

ot_value *ot_emit(ot_build *b, const ot_op *op, const void *attrs, ot_value *const *in, int n_in)
{
    ot_node *n = ot_emit_n(b, op, attrs, in, n_in, 1);
    return n ? n->out[0] : NULL;
}

void ot_yield(ot_build *b, int output, ot_value *v)
{
    if (!ot_broken(b)) b->yield[output] = v;
}

bool ot_wants(const ot_build *b, int input) { return input < b->node->n_in && b->node->in[input] && b->wants[input]; }

ot_value *ot_dout(const ot_build *b, int output) { return output < b->node->n_out ? b->dout[output] : NULL; }

void ot_set_din(ot_build *b, int input, ot_value *dx)
{
    if (!ot_broken(b)) b->din[input] = dx;
}

/* ---- constants ------------------------------------------------------------- */

ot_value *ot_scalar(ot_build *b, ot_dtype t, double v)
{
    uint64_t bytes = 0;
    if (ot_broken(b)) return NULL;
    ot_set_f64(&bytes, t, 0, v);
    return ot_graph_const(b->graph, "", t, &OT_SCALAR, &bytes);
}

ot_value *ot_ints_const(ot_build *b, const int64_t *v, int n)
{
    if (ot_broken(b)) return NULL;
    return ot_graph_const(b->graph, "", OT_I64, &(ot_shape){ .rank = 1, .dim = { n } }, v);
}
