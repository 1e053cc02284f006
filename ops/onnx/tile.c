/* tile.c - Tile: repeats x along its axes.
 *
 * Spec    ai.onnx Tile 6, 13.  repeats must be constant.
 * Grad    dx = dy summed over the repetitions */
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

static ot_status tile_infer(ot_node *n, ot_error *err)
{
    ot_shape y = n->in[0]->shape;
    ot_ints repeats;
    OT_TRY(ot_const_ints(n, 1, &repeats, err));
    if (repeats.n != y.rank) return ot_node_fail(n, err, "%d repeats for a tensor of rank %d", repeats.n, y.rank);
    for (int d = 0; d < y.rank; d++)
        if (repeats.v[d] < 0 || !ot_mul(y.dim[d], repeats.v[d], &y.dim[d]))
            return ot_node_fail(n, err, "invalid repeats %lld on axis %d", (long long)repeats.v[d], d);
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* An axis repeated r times is two axes, (r, n), of which the first has stride 0 in x; axes that are not repeated are
 * merged with their neighbours.  Three repeated axes need seven axes, so more are done step by step. */
static ot_value *tile_some(ot_build *b, ot_value *x, const int64_t *repeats)
{
    ot_shape wide = { .rank = 0 }, y = x->shape;
    int64_t xs[OT_MAX_RANK];
    bool open = false; /* the last axis of `wide` may be merged with the next one */
    ot_piece *p = ot_pieces(b, 1);
    if (!p) return NULL;
    ot_strides(&x->shape, xs);
    for (int d = 0; d < x->shape.rank; d++) {
        if (repeats[d] != 1) {
            p->stride[wide.rank] = 0;
            wide.dim[wide.rank++] = repeats[d];
            open = false;
        }
        if (!open) wide.dim[wide.rank++] = 1;
        wide.dim[wide.rank - 1] *= x->shape.dim[d];
        p->stride[wide.rank - 1] = xs[d];
        open = true;
        y.dim[d] *= repeats[d];
    }
    for (int d = 0; d < wide.rank; d++) p->extent[d] = wide.dim[d];
    return ot_view(b, ot_copy_emit(b, &wide, 0, p, 1, &x, 1), &y);
}

static void tile_lower(ot_build *b)
{
    ot_value *x = b->node->in[0];
    int rank = x->shape.rank;
    for (int d = 0; d < rank && x;) {
        int64_t part[OT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        for (int some = 0; d < rank && some < 3; d++) {
            ot_ints repeats;
            if (ot_const_ints(b->node, 1, &repeats, b->graph->err) != OT_OK) return;
            part[d] = repeats.v[d];
            some += part[d] != 1;
        }
        x = tile_some(b, x, part);
    }
    ot_yield(b, 0, x);
}

static bool tile_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    ot_ints times;
    ot_error e = { 0 };
    int64_t list[OT_MAX_RANK + 1] = { 1 }, set = 0;
    if (!ot_batch_first_alone(n) || ot_const_ints(n, 1, &times, &e) != OT_OK || times.n > OT_MAX_RANK) return false;
    for (int d = 0; d < times.n; d++) {
        list[d + 1] = times.v[d];
        if (times.v[d] != 1) set |= INT64_C(1) << d;
    }
    if (!ot_batch_along(b, n, set, 0, r)) return false;
    if (r->explicit_at >= 0) r->in[1] = ot_batch_ints(b, list, times.n + 1);
    return true;
}

const ot_op ot_op_Tile = {
    .name = "Tile",
    .types = { "Ti", .T = OT_SET_COMMON },
    .slots = "j-",
    .since = 13,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .infer = tile_infer,
    .lower = tile_lower,
    .flags = OT_MOVES,
    .half = OT_HALF_FOLLOWS,
    .batch = tile_batch,
};
