/* absorb.c - predictions: a scale and a shift of channels behind a convolution become part of its weight and bias, as those of a
 * BatchNormalization in evaluation mode.  They are computed once (settle.c).
 *
 *     (w * x + b) f + t   ->   (w f) * x + (b f + t)
 *
 * Numerics  the factor is applied before the products are rounded instead of after. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/kernels/map.h"
#include "runtime/passes/passes.h"

typedef struct pass {
    ot_graph *g;
    const ot_plan *p;
    int *readers; /* by value id: nodes */
    bool *steady; /* by value id: depends on weights and constants only */
} pass;

static void look(const pass *x)
{
    const ot_graph *g = x->g;
    for (int i = 0; i < g->n_values; i++) x->steady[i] = ot_settled_bytes(g, g->values[i]) != NULL;
    for (const ot_node *n = g->first; n; n = n->next) {
        bool all = n->n_in > 0 && !(n->op->flags & OT_RANDOM);
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i]) x->readers[n->in[i]->id]++;
            all = all && (!n->in[i] || x->steady[n->in[i]->id]);
        }
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k]) x->steady[n->out[k]->id] = all;
    }
}

/* The Map that alone reads y, a product with (row Mul) or a sum of (row Add) y and one value per channel, *by; NULL: none. */
static ot_node *next_of(const pass *x, const ot_node *n, int row, ot_value **by)
{
    const ot_value *y = n->out[0];
    if (x->readers[y->id] != 1 || ot_plan_reads(x->p, y)) return NULL;
    for (ot_node *k = n->next; k; k = k->next) {
        int at = k->n_in == 2 && k->in[1] == y;
        if (k->n_in < 1 || k->in[at] != y) continue;
        const ot_program *m = k->attrs;
        if (k->op != &ot_op_Map || k->n_in != 2 || m->n_inst != 1 || m->inst[0].row != row || k->phase != n->phase)
            return NULL;
        ot_value *f = k->in[!at];
        int rank = y->shape.rank, lead = rank - f->shape.rank;
        bool ok = f->dtype == OT_F32 && k->out[0]->dtype == OT_F32 && x->steady[f->id] && lead >= 0 && lead <= 1 &&
                  f->shape.dim[1 - lead] == y->shape.dim[1] && ot_numel(&f->shape) == y->shape.dim[1] &&
                  ot_shape_eq(&k->out[0]->shape, &y->shape) && !ot_plan_reads(x->p, k->out[0]);
        if (!ok) return NULL;
        *by = f;
        return k;
    }
    return NULL;
}

/* v, of M elements, in the shape (M, 1 ...) of that rank. */
static ot_value *column(ot_build *b, ot_value *v, int rank)
{
    ot_shape s = { .rank = rank };
    for (int d = 0; d < rank; d++) s.dim[d] = d ? 1 : ot_numel(&v->shape);
    return ot_view(b, v, &s);
}

/* Replaces the Map k by its operand. */
static void skip(ot_graph *g, ot_node *k, ot_value *y)
{
    ot_graph_replace(g, k->out[0], y);
    ot_graph_remove(g, k);
}

static ot_status absorb(const pass *x, ot_node *n)
{
    ot_graph *g = x->g;
    ot_value *f = NULL, *t = NULL, *w = n->in[1], *bias = n->n_in > 2 ? n->in[2] : NULL;
    ot_node *scale = next_of(x, n, OT_FN_Mul, &f), *shift = next_of(x, scale ? scale : n, OT_FN_Add, &t);
    if ((!scale && !shift) || w->dtype != OT_F32 || !x->steady[w->id] || (bias && !x->steady[bias->id])) return OT_OK;
    ot_build b = { .graph = g, .node = n };
    ot_value **in = ot_graph_alloc(g, 3 * sizeof *in);
    if (!in) return g->err->status;
    /* f and t are made before what reads them, which may be behind n: n moves there. */
    ot_node *last = shift ? shift : scale;
    ot_graph_remove(g, n);
    ot_graph_link(g, n, last);
    n->out[0]->producer = n;
    g->cursor = n;
    in[0] = n->in[0];
    in[1] = f ? ot_map2(&b, OT_FN_Mul, 0, 0, w, column(&b, f, w->shape.rank)) : w;
    if (f && bias) bias = ot_map2(&b, OT_FN_Mul, 0, 0, bias, column(&b, f, 1));
    if (t) t = column(&b, t, 1);
    in[2] = bias && t ? ot_map2(&b, OT_FN_Add, 0, 0, bias, t) : t ? t : bias;
    g->cursor = NULL;
    if (g->err->status != OT_OK) return g->err->status;
    n->in = in;
    n->n_in = in[2] ? 3 : 2;
    if (scale) skip(g, scale, n->out[0]);
    if (shift) skip(g, shift, n->out[0]);
    return g->err->status;
}

/* The convolutions, in order; NULL: no memory. */
static ot_node **convolutions(const ot_graph *g, int *count)
{
    ot_node **list = calloc((size_t)g->n_nodes + 1, sizeof *list);
    for (ot_node *n = g->first; n && list; n = n->next)
        if (n->op == &ot_op_Convolve && n->graph == g) list[(*count)++] = n;
    return list;
}

ot_status ot_pass_absorb(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    size_t values = (size_t)g->n_values + 1;
    int n = 0;
    if (!c->settled || p->like) return OT_OK;
    pass x = {
        .g = g, .p = p, .readers = calloc(values, sizeof *x.readers), .steady = calloc(values, sizeof *x.steady)
    };
    ot_node **list = convolutions(g, &n);
    ot_status s =
        x.readers && x.steady && list ? OT_OK : ot_fail(g->err, OT_E_NOMEM, "no memory to simplify convolutions");
    if (s == OT_OK) look(&x);
    for (int i = 0; i < n && s == OT_OK; i++) s = absorb(&x, list[i]);
    free(x.readers);
    free(x.steady);
    free(list);
    return s;
}
