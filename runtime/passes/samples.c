/* samples.c - where a file with a fixed batch size has its samples in every value: for outputs with several axes of that size.
 *
 * Rules that combine batches (ot_op.batch) follow whole batches, which may come to lie along an axis of time.  This follows the samples
 * themselves, through one batch: in memory there are `before` groups of all samples, and `after` elements for each, whatever axes are
 * joined with theirs.  An operator without a rule here keeps the axis.  Where that is not so the size decides, as before. */
#include "ops/onnx/batching.h"
#include "runtime/passes/samples.h"

#include <string.h>

/* after: 0: not known. */
typedef struct place {
    int64_t before, after;
} place;

/* Samples are part of this axis, between `lead` groups and `rest` elements of it. */
typedef struct span {
    int axis;
    int64_t lead, rest;
} span;

static bool is_named(const ot_node *n, const char *name) { return !strcmp(n->op->name, name); }

static bool find_axis(const ot_shape *s, place p, int64_t samples, span *out)
{
    int64_t before = 1, after = ot_numel(s);
    for (int d = 0; d < s->rank && p.after && s->dim[d]; d++, before *= s->dim[d - 1]) {
        after /= s->dim[d];
        *out = (span){ d, p.before / before, p.after / after };
        if (p.before % before == 0 && p.after % after == 0 && out->lead * samples * out->rest == s->dim[d]) return true;
    }
    return false;
}

static place along(const ot_shape *s, const span *at)
{
    return (place){ .before = ot_elements(s, 0, at->axis) * at->lead,
                    .after = ot_elements(s, at->axis + 1, s->rank) * at->rest };
}

static int transposed(const ot_node *n, int rank, int a)
{
    ot_ints perm = ot_attr_ints(n, "perm");
    for (int d = 0, from; d < rank; d++) {
        from = rank - 1 - d;
        if ((!perm.n || ot_axis(perm.v[d], rank, &from)) && from == a) return d;
    }
    return -1;
}

/* Rows along one axis are replaced by as many axes as the indices have. */
static int gathered(const ot_node *n, int rank, int a)
{
    int axis;
    if (!ot_axis(ot_attr_get(n, "axis", 0), rank, &axis) || a == axis) return -1;
    return a < axis ? a : a - 1 + n->in[1]->shape.rank;
}

/* The axis of the result that axis a of input i is; -1: none. */
static int result_axis(const ot_node *n, int i, int a)
{
    int rank = n->in[i]->shape.rank, more = n->out[0]->shape.rank - rank;
    if (is_named(n, "Transpose")) return transposed(n, rank, a);
    if (is_named(n, "Gather") && !i) return gathered(n, rank, a);
    if (is_named(n, "MatMul")) return rank < 2 || a == rank - 1 - i ? -1 : a + more; /* not the one that is summed */
    return n->op->batch == ot_batch_pointwise || a == 0 ? a + (a ? more : 0) : more ? -1 : a;
}

static place place_of(const ot_node *n, const place *known, int64_t samples)
{
    const ot_shape *y = &n->out[0]->shape;
    for (int i = 0; i < n->n_in; i++) {
        span at;
        if (!n->in[i]) continue;
        const ot_shape *x = &n->in[i]->shape;
        place p = known[n->in[i]->id];
        if (n->op->batch == ot_batch_viewed && !i && ot_numel(x) == ot_numel(y)) return p;
        if (!find_axis(x, p, samples, &at)) continue;
        int64_t size = x->dim[at.axis];
        at.axis = result_axis(n, i, at.axis);
        if (at.axis >= 0 && at.axis < y->rank && y->dim[at.axis] == size) return along(y, &at);
    }
    return (place){ 0 };
}

ot_status ot_find_samples(ot_graph *g, int64_t samples, int **out)
{
    place *known = ot_graph_alloc(g, (size_t)(g->n_values + 1) * sizeof *known);
    *out = ot_graph_alloc(g, (size_t)(g->n_outputs + 1) * sizeof **out);
    if (!known || !*out) return g->err->status;
    memset(known, 0, (size_t)g->n_values * sizeof *known);
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i];
        if (v->mark && ot_numel(&v->shape)) known[v->id] = (place){ 1, ot_numel(&v->shape) / samples };
    }
    for (const ot_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] && !k) known[n->out[k]->id] = place_of(n, known, samples);
    for (int i = 0; i < g->n_outputs; i++) {
        const ot_value *v = g->outputs[i];
        span at;
        (*out)[i] = find_axis(&v->shape, known[v->id], samples, &at) && at.lead * at.rest == 1 ? at.axis : -1;
    }
    return OT_OK;
}
