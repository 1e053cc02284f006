/* tensorscatter.c - TensorScatter: writes rows into a cache, from a given position for each sample.
 *
 * Spec    ai.onnx TensorScatter 24.
 * Shapes  past_cache: (B, .., S, ..)  update: (B, .., L, ..), L at most S  write_indices: (B)   y: that of past_cache
 * Grad    of Scatter: zero for overwritten rows, dy for the written ones. */
#include "ops/kernels/arith.h"
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"

#include <stddef.h>

enum { LINEAR, CIRCULAR };

typedef struct cache_attrs {
    int64_t axis, mode;
} cache_attrs;

static const char *const modes[] = { "linear", "circular", NULL };

static const ot_attr cache_rows[] = {
    { "axis", OT_INT, offsetof(cache_attrs, axis), -2, NULL },
    { "mode", OT_ENUM, offsetof(cache_attrs, mode), LINEAR, modes },
    { 0 },
};

static ot_status cache_axis(const ot_node *n, int *axis, ot_error *err)
{
    const cache_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape, *u = &n->in[1]->shape;
    char s[128], t[128];
    if (!ot_axis(a->axis, x->rank, axis) || *axis == 0)
        return ot_node_fail(n, err, "axis %lld is invalid for a cache of rank %d (it cannot be the first)",
                            (long long)a->axis, x->rank);
    bool fits = u->rank == x->rank;
    for (int d = 0; fits && d < x->rank; d++) fits = d == *axis ? u->dim[d] <= x->dim[d] : u->dim[d] == x->dim[d];
    if (!fits)
        return ot_node_fail(n, err, "an update of shape %s does not match a cache of shape %s", ot_shape_text(u, s),
                            ot_shape_text(x, t));
    if (n->n_in < 3 || !n->in[2]) return OT_OK;
    if (n->in[2]->shape.rank != 1 || n->in[2]->shape.dim[0] != x->dim[0])
        return ot_node_fail(n, err, "write_indices are %s; expected one for each of %lld samples",
                            ot_shape_text(&n->in[2]->shape, s), (long long)x->dim[0]);
    return a->mode == CIRCULAR ? OT_OK : ot_index_check(n, 2, 0, 1, 0, x->dim[*axis] - u->dim[*axis], err);
}

static ot_status cache_infer(ot_node *n, ot_error *err)
{
    int axis;
    OT_TRY(cache_axis(n, &axis, err));
    return ot_like(n->out[0], n->in[0]);
}

static void cache_lower(ot_build *b)
{
    ot_value *x = b->node->in[0], *u = b->node->in[1], *from = ot_node_in(b->node, 2);
    int axis;
    if (cache_axis(b->node, &axis, b->graph->err) != OT_OK) return;
    int64_t S = x->shape.dim[axis], L = u->shape.dim[axis], B = x->shape.dim[0], between = 1, inner = 1;
    for (int d = 1; d < axis; d++) between *= x->shape.dim[d];
    for (int d = axis + 1; d < x->shape.rank; d++) inner *= x->shape.dim[d];
    if (!ot_numel(&u->shape)) {
        ot_yield(b, 0, x);
        return;
    }
    bool circular = ((const cache_attrs *)b->node->attrs)->mode == CIRCULAR;
    ot_value *at = ot_line(b, OT_I64, NULL, L, 2, 3);
    if (from) {
        from =
            circular ? ot_map2(b, OT_FN_IMod, 0, 0, from, ot_scalar(b, OT_I64, (double)S)) : ot_counts(b, from, S - L);
        at = ot_plus(b, at, ot_view(b, from, &(ot_shape){ .rank = 3, .dim = { B, 1, 1 } }));
        if (circular) at = ot_map2(b, OT_FN_IMod, 0, 0, at, ot_scalar(b, OT_I64, (double)S));
    }
    at = ot_plus(b, at, ot_times_by(b, ot_line(b, OT_I64, NULL, between, 1, 3), (double)S));
    at = ot_plus(b, at, ot_times_by(b, ot_line(b, OT_I64, NULL, B, 0, 3), (double)(between * S)));
    at = ot_view(b, at, &(ot_shape){ .rank = 1, .dim = { B * between * L } });
    ot_value *rows = ot_view(b, x, &(ot_shape){ .rank = 2, .dim = { B * between * S, inner } });
    u = ot_view(b, u, &(ot_shape){ .rank = 2, .dim = { B * between * L, inner } });
    ot_yield(b, 0,
             ot_view(b, ot_emit(b, &ot_op_Scatter, &(ot_scatter){ OT_SCATTER_NONE }, OT_IN(rows, at, u)), &x->shape));
}

const ot_op ot_op_TensorScatter = {
    .name = "TensorScatter",
    .types = { "TTi", .T = OT_SET_BYTE },
    .slots = "-",
    .since = 24,
    .in = { 2, 3 },
    .out = { 1, 1 },
    .nondiff = 1u << 2,
    .attrs = cache_rows,
    .attr_size = sizeof(cache_attrs),
    .infer = cache_infer,
    .lower = cache_lower,
};
