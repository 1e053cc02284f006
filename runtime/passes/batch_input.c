/* batch_input.c - batches are selected from a data set, converted and scaled inside the plan.
 *
 * An input of a plan on a device need not be a finished batch.  It may be all samples of a data set in device
 * memory, from which an index selects, or the samples of a batch in the data set's own form (image bytes).  The plan
 * then does what runtime/data/gather.c does on the host: a Take, a View, a Copy and a Map precede the readers of the
 * input, and are fused like other nodes.
 *
 * Shapes    data: (samples, elements); index: (batch); the input's shape follows. */
#include <string.h>

#include "ops/kernels/map.h"
#include "ops/kernels/take.h"
#include "runtime/passes/passes.h"

typedef struct ctx {
    ot_plan *p;
    ot_build b;
    int64_t batch;
} ctx;

static ot_value *new_input(ctx *x, const char *name, ot_dtype t, const ot_shape *s)
{
    ot_graph *g = x->p->graph;
    ot_value *v = ot_graph_value(g, name, OT_INPUT, t, s);
    if (v) ot_graph_input(g, v);
    return v;
}

static ot_value *pick(ctx *x, ot_value *data)
{
    ot_plan *p = x->p;
    if (!p->index) p->index = new_input(x, "batch/index", OT_I64, &(ot_shape){ 1, { x->batch } });
    return ot_emit(&x->b, &ot_op_Take, &(ot_take){ .axis = 0 }, OT_IN(data, p->index));
}

/* (batch, H, W, C) to (batch, C, H, W). */
static ot_value *permute(ctx *x, ot_value *v, const int64_t hwc[3])
{
    static const int last_to_first[] = { 0, 3, 1, 2 };
    v = ot_view(&x->b, v, &(ot_shape){ 4, { x->batch, hwc[0], hwc[1], hwc[2] } });
    return v ? ot_transpose(&x->b, v, last_to_first) : NULL;
}

/* Computed in f64 for an f64 result, else in f32, as on the host. */
static ot_value *scale(ctx *x, ot_value *v, const ot_feed_set *set, ot_dtype to)
{
    ot_graph *g = x->p->graph;
    ot_dtype t = to == OT_F64 ? OT_F64 : OT_F32;
    int64_t period = set->channels * set->inner;
    bool one = set->channels == 1;
    ot_shape rows = { 4, { x->batch, set->elements / period, set->channels, set->inner } };
    ot_shape each = { 2, { set->channels, 1 } };
    ot_value *mul = ot_graph_const(g, "", OT_F32, one ? &OT_SCALAR : &each, set->mul);
    ot_value *add = ot_graph_const(g, "", OT_F32, one ? &OT_SCALAR : &each, set->add);
    if (!one) v = ot_view(&x->b, v, &rows);
    v = ot_map2(&x->b, OT_FN_Mul, 0, 0, ot_cast(&x->b, v, t), ot_cast(&x->b, mul, t));
    return ot_map2(&x->b, OT_FN_Add, 0, 0, v, ot_cast(&x->b, add, t));
}

/* Replaces the input of feed f by values computed from its samples; the samples become the input. */
static ot_status make(ctx *x, const ot_feed *f, ot_value **fed)
{
    ot_plan *p = x->p;
    ot_graph *g = p->graph;
    const ot_feed_set *set = f->set;
    ot_value *v = *fed;
    char *name = ot_graph_alloc(g, strlen(f->name) + sizeof "/samples");
    if (!name) return g->err->status;
    memcpy(name, f->name, strlen(f->name));
    memcpy(name + strlen(f->name), "/samples", sizeof "/samples");
    x->batch = f->shape.dim[0];
    g->cursor = g->first;
    ot_value *data =
        new_input(x, name, set->dtype, &(ot_shape){ 2, { set->samples ? set->samples : x->batch, set->elements } });
    ot_value *y = set->samples ? pick(x, data) : data;
    if (y && set->permute[2]) y = permute(x, y, set->permute);
    if (y && set->scale) y = scale(x, y, set, v->dtype);
    if (y) y = ot_view(&x->b, ot_cast(&x->b, y, v->dtype), &v->shape);
    g->cursor = NULL;
    if (!y) return g->err->status;
    ot_graph_replace(g, v, y);
    p->sets[p->n_sets++] = (ot_made_input){ .input = v, .data = data };
    *fed = data;
    return g->err->status;
}

ot_status ot_pass_batch_input(ot_plan *p, const ot_config *c)
{
    ctx x = { .p = p, .b = { .graph = p->graph } };
    p->sets = ot_graph_alloc(p->graph, (size_t)(c->n_feeds + 1) * sizeof *p->sets);
    if (!p->sets) return p->graph->err->status;
    for (int i = 0; i < c->n_feeds; i++)
        if (c->feeds[i].set && p->fed[i]) OT_TRY(make(&x, &c->feeds[i], &p->fed[i]));
    return OT_OK;
}
