/* recognise_root.c - the root of a sum of squares, as a decomposed standard deviation or norm has it, gets a gradient of 0 where
 * the sum is 0 (ot_sqrt_of_squares), as ReduceL2 is lowered.
 *
 *     Reduce of squares [-> Div, Mul by numbers, Mul by another such sum] -> Sqrt
 *
 * The slope of a root at 0 is infinite, and its product with the slope 0 of the squares NaN, which one row of equal elements would spread
 * to all weights.  PyTorch's std, norm and cosine_similarity have the gradient 0, and exporters decompose them. */
#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"
#include "runtime/passes/recognise.h"

/* Is v x x? */
static bool is_square(const ot_value *v)
{
    const ot_node *n = v->producer;
    int row = ot_recognise_row(n);
    return row == OT_FN_Square || (row == OT_FN_Mul && n->in[0] == n->in[n->n_in - 1]);
}

/* A sum of squares, one times numbers, or the product of two, as cosines have it. */
static bool is_sum_of_squares(const ot_value *v, int depth)
{
    enum { DEEP = 8 };
    const ot_node *n = v->producer;
    double by;
    if (!n || depth > DEEP) return false;
    if (n->op == &ot_op_Reduce) {
        const ot_reduce *a = n->attrs;
        return a->kind == OT_REDUCE_SUMSQ || (a->kind == OT_REDUCE_SUM && is_square(n->in[0]));
    }
    if (n->op == &ot_op_View) return is_sum_of_squares(n->in[0], depth + 1);
    int row = ot_recognise_row(n), numbers = 0;
    if ((row != OT_FN_Div && row != OT_FN_Mul) || n->n_in != 2) return false;
    for (int i = 0; i < 2; i++) {
        bool number = (row == OT_FN_Mul || i) && ot_recognise_scalar(n->in[i], &by);
        if (!number && ((row == OT_FN_Div && i) || !is_sum_of_squares(n->in[i], depth + 1))) return false;
        numbers += number;
    }
    return numbers < 2;
}

static void put_root(ot_graph *g, ot_node *n)
{
    ot_build b = { .graph = g, .node = n };
    g->cursor = n;
    g->phase = n->phase;
    ot_value *y = ot_sqrt_of_squares(&b, n->in[0]);
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (y) ot_graph_replace(g, n->out[0], y);
}

ot_status ot_recognise_roots(ot_graph *g, bool *any)
{
    for (ot_node *n = g->first; n && g->err->status == OT_OK; n = n->next) {
        if (ot_recognise_row(n) != OT_FN_Sqrt || n->in[0]->dtype != n->out[0]->dtype || !is_sum_of_squares(n->in[0], 0))
            continue;
        put_root(g, n);
        *any = true;
    }
    return g->err->status;
}
