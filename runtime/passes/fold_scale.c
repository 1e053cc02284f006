/* fold_scale.c - predictions: scales and shifts of channels that follow a convolution become part of its weight and bias, as those
 * of a BatchNormalization in evaluation mode.
 *
 *     (w * x + b) f + t   ->   (w f) * x + (b f + t)
 *
 * What is new depends on weights and constants only, and settle.c computes it while planning.  Float32 only; where the scaled
 * weights of a graph would be more than OT_SETTLED_MOST bytes, which settle.c would leave in every batch, the others stay as
 * they are.
 *
 * Numerics  the factor is applied before the products are rounded instead of after. */
#include <stdlib.h>

#include "ops/kernels/map.h"
#include "runtime/passes/tune.h"

enum { MOST_LINKS = 8 };

typedef struct folding {
    ot_plan *p;
    int *readers;  /* by value id: nodes */
    bool *settled; /* by value id: depends on weights and constants only */
} folding;

/* A Map after a convolution: a product with, or a sum of, one value per channel. */
typedef struct follower {
    ot_node *map;
    int row; /* OT_FN_Mul, OT_FN_Add */
    ot_value *by;
} follower;

static void look(const folding *x)
{
    const ot_graph *g = x->p->graph;
    for (int i = 0; i < g->n_values; i++) x->settled[i] = ot_settled_bytes(g, g->values[i]) != NULL;
    for (const ot_node *n = g->first; n; n = n->next) {
        bool all = n->n_in > 0 && !(n->op->flags & OT_RANDOM);
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i]) x->readers[n->in[i]->id]++;
            all = all && (!n->in[i] || x->settled[n->in[i]->id]);
        }
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k]) x->settled[n->out[k]->id] = all;
    }
}

/* Is v one value for each channel of y, known while planning? */
static bool by_channel(const folding *x, const ot_value *v, const ot_value *y)
{
    int lead = y->shape.rank - v->shape.rank;
    return v->dtype == OT_F32 && x->settled[v->id] && lead >= 0 && lead <= 1 &&
           v->shape.dim[1 - lead] == y->shape.dim[1] && ot_numel(&v->shape) == y->shape.dim[1];
}

/* The Map that alone reads the result of n, if it scales or shifts channels. */
static bool find_follower(const folding *x, const ot_node *n, follower *out)
{
    const ot_value *y = n->out[0];
    if (x->readers[y->id] != 1 || ot_plan_reads(x->p, y)) return false;
    for (ot_node *k = n->next; k; k = k->next) {
        int at = k->n_in == 2 && k->in[1] == y;
        if (k->n_in < 1 || k->in[at] != y) continue;
        const ot_program *m = k->attrs;
        if (k->op != &ot_op_Map || k->n_in != 2 || m->n_inst != 1 || k->phase != n->phase) return false;
        const ot_value *z = k->out[0];
        *out = (follower){ k, m->inst[0].row, k->in[!at] };
        return (out->row == OT_FN_Mul || out->row == OT_FN_Add) && by_channel(x, out->by, y) && z->dtype == OT_F32 &&
               ot_shape_eq(&z->shape, &y->shape) && !ot_plan_reads(x->p, z);
    }
    return false;
}

/* v, of M elements, in the shape (M, 1 ...) of that rank. */
static ot_value *column(ot_build *b, ot_value *v, int rank)
{
    ot_shape s = { .rank = rank };
    for (int d = 0; d < rank; d++) s.dim[d] = d ? 1 : ot_numel(&v->shape);
    return ot_view(b, v, &s);
}

/* a op b; where one is missing, the other. */
static ot_value *joined(ot_build *b, int row, ot_value *p, ot_value *q)
{
    return p && q ? ot_map2(b, row, 0, 0, p, q) : p ? p : q;
}

static ot_status fold(const folding *x, ot_node *n)
{
    ot_graph *g = x->p->graph;
    follower list[MOST_LINKS];
    ot_value *w = n->in[1], *bias = ot_node_in(n, 2), *factor = NULL;
    int count = 0, scales = 0;
    if (w->dtype != OT_F32 || !x->settled[w->id] || (bias && !x->settled[bias->id])) return OT_OK;
    while (count < MOST_LINKS && find_follower(x, count ? list[count - 1].map : n, &list[count]))
        scales += list[count++].row == OT_FN_Mul;
    int64_t bytes = scales ? (int64_t)ot_bytes(&w->shape, w->dtype) : 0;
    if (!count || x->p->folded_bytes + bytes > OT_SETTLED_MOST) return OT_OK;
    x->p->folded_bytes += bytes;
    ot_build b = { .graph = g, .node = n };
    ot_value **in = ot_graph_alloc(g, 3 * sizeof *in);
    if (!in) return g->err->status;
    /* Operands of the Maps may be computed after n: n moves to the last of them, and what is new before n. */
    ot_graph_remove(g, n);
    ot_graph_link(g, n, list[count - 1].map);
    n->out[0]->producer = n;
    g->cursor = n;
    for (int i = 0; i < count; i++) {
        ot_value *by = column(&b, list[i].by, 1);
        if (list[i].row == OT_FN_Add) {
            bias = joined(&b, OT_FN_Add, bias, by);
            continue;
        }
        factor = joined(&b, OT_FN_Mul, factor, by);
        if (bias) bias = ot_map2(&b, OT_FN_Mul, 0, 0, bias, by);
    }
    in[0] = n->in[0];
    in[1] = factor ? ot_map2(&b, OT_FN_Mul, 0, 0, w, column(&b, factor, w->shape.rank)) : w;
    in[2] = bias;
    g->cursor = NULL;
    if (g->err->status != OT_OK) return g->err->status;
    n->in = in;
    n->n_in = bias ? 3 : 2;
    for (int i = 0; i < count; i++) {
        ot_graph_replace(g, list[i].map->out[0], n->out[0]);
        ot_graph_remove(g, list[i].map);
    }
    return g->err->status;
}

/* The convolutions of the graph itself, in order; NULL: no memory. */
static ot_node **convolutions(const ot_graph *g, int *count)
{
    ot_node **list = calloc((size_t)g->n_nodes + 1, sizeof *list);
    *count = 0;
    for (ot_node *n = g->first; n && list; n = n->next)
        if (n->op == &ot_op_Convolve) list[(*count)++] = n;
    return list;
}

ot_status ot_pass_fold_scale(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    size_t values = (size_t)g->n_values + 1;
    int n;
    if (!c->settled || p->like) return OT_OK;
    folding x = { .p = p, .readers = calloc(values, sizeof *x.readers), .settled = calloc(values, sizeof *x.settled) };
    ot_node **list = convolutions(g, &n);
    ot_status s =
        x.readers && x.settled && list ? OT_OK : ot_fail(g->err, OT_E_NOMEM, "no memory to simplify convolutions");
    if (s == OT_OK) look(&x);
    for (int i = 0; i < n && s == OT_OK; i++) s = fold(&x, list[i]);
    free(x.readers);
    free(x.settled);
    free(list);
    return s;
}
