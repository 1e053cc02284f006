/* project.c - a Recurrent computes the product of its inputs with their weights itself, a step at a time, if the device's kernel can:
 * what the inputs add to the gates of all steps, often the largest tensor of the network, is neither written nor read.
 *
 *     Recurrent(Dot(inputs, w), r, ...)   ->   Recurrent(-, r, ..., inputs, w)
 *
 * The gradient reads the gates, the inputs and w: it is there before.  With few samples for each thread the product of all steps is
 * faster, since it reads w once; and in bfloat16. */
#include <stdlib.h>

#include "ops/kernels/dot.h"
#include "ops/kernels/recurrent.h"
#include "runtime/passes/tune.h"

enum { FEWEST_SAMPLES = 16 /* for each thread */ };

/* The Dot whose result, through views that nothing else reads, is the x of a Recurrent; NULL: none. */
static ot_node *find_product(const ot_plan *p, const int *readers, const ot_value *x)
{
    while (x && x->producer && x->producer->op == &ot_op_View && readers[x->id] == 1 && !ot_plan_reads(p, x))
        x = x->producer->in[0];
    ot_node *n = x ? x->producer : NULL;
    const ot_dot *a = n && n->op == &ot_op_Dot ? n->attrs : NULL;
    bool plain = a && !a->ta && a->tb && n->n_in == 2 && n->in[0]->shape.rank == 2 && n->in[1]->shape.rank == 2;
    return plain && readers[x->id] == 1 && !ot_plan_reads(p, x) ? n : NULL;
}

static bool is_taken(const ot_node *n, const ot_device *d)
{
    const ot_kernel *const *k = ot_kernels(n->op, d);
    const char *why;
    return *k && *k != ot_ref_kernel(n->op) && ot_schedule_can(*k, n, &why);
}

static ot_status join(ot_plan *p, const ot_config *c, const int *readers, ot_node *n)
{
    ot_graph *g = p->graph;
    ot_build b = { .graph = g };
    ot_recurrent_sizes z = ot_recurrent_sizes_of(n);
    ot_node *product = n->in[OT_REC_X] ? find_product(p, readers, n->in[OT_REC_X]) : NULL;
    if (!product || z.N < (int64_t)FEWEST_SAMPLES * p->threads) return OT_OK;
    ot_value *w = product->in[1], **in = ot_graph_alloc(g, OT_REC_IN * sizeof *in);
    if (!in) return g->err->status;
    for (int i = 0; i < OT_REC_IN; i++) in[i] = ot_node_in(n, i);
    ot_shape steps = { 3, { z.T, z.N, w->shape.dim[1] } };
    ot_value trial = { .name = "", .dtype = w->dtype, .shape = steps };
    ot_node joined = *n;
    in[OT_REC_X] = NULL, in[OT_REC_INPUTS] = &trial, in[OT_REC_W] = w;
    joined.in = in, joined.n_in = OT_REC_IN;
    if (!is_taken(&joined, c->device)) return OT_OK;
    g->cursor = n;
    in[OT_REC_INPUTS] = ot_view(&b, product->in[0], &steps);
    g->cursor = NULL;
    if (g->err->status != OT_OK) return g->err->status;
    n->in = in, n->n_in = OT_REC_IN;
    return OT_OK;
}

ot_status ot_pass_project(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    ot_status s = OT_OK;
    if (c->ref_only || c->device || c->options.precision == OT_PREC_BF16) return OT_OK;
    int *readers = calloc((size_t)g->n_values + 1, sizeof *readers);
    if (!readers) return ot_fail(g->err, OT_E_NOMEM, "no memory to join the products of recurrent networks");
    for (const ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) readers[n->in[i]->id]++;
    for (ot_node *n = g->first; n && !s; n = n->next)
        if (n->op == &ot_op_Recurrent) s = join(p, c, readers, n);
    free(readers);
    return s;
}
