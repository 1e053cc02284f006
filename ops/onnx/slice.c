/* slice.c - Slice: every step-th element from start to end, along some axes.
 *
 * Spec    ai.onnx Slice 10, 11, 13.  starts, ends, axes and steps must be constants.  Negative starts and ends count
 *         from the end of the axis; then both are clamped to it: with a negative step the start to an element.
 * Grad    dx = dy at the selected positions, 0 elsewhere */
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

typedef struct box {
    int64_t start[OT_MAX_RANK], step[OT_MAX_RANK], extent[OT_MAX_RANK];
} box;

static int64_t clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

/* One axis of `dim` elements. */
static void slice_axis(int64_t dim, int64_t start, int64_t end, int64_t step, box *x, int d)
{
    /* A step longer than the axis selects one element, whatever its length. */
    step = clamp(step, -dim - 1, dim + 1);
    if (start < 0) start += dim;
    if (end < 0) end += dim;
    if (step > 0) {
        start = clamp(start, 0, dim);
        end = clamp(end, 0, dim);
        x->extent[d] = end > start ? (end - start - 1) / step + 1 : 0;
    } else {
        /* The start is an element: before the axis it is the first one.  (numpy selects none then.) */
        start = clamp(start, 0, dim - 1);
        end = clamp(end, -1, dim - 1);
        x->extent[d] = dim && start > end ? (start - end - 1) / -step + 1 : 0;
    }
    x->start[d] = x->extent[d] ? start : 0;
    x->step[d] = step;
}

static ot_status slice_box(const ot_node *n, box *x, ot_error *err)
{
    ot_ints starts, ends, axes, steps;
    const ot_shape *s = &n->in[0]->shape;
    int64_t set;
    OT_TRY(ot_const_ints(n, 1, &starts, err));
    OT_TRY(ot_const_ints(n, 2, &ends, err));
    OT_TRY(ot_axes_input(n, 3, s->rank, &set, &axes, err));
    OT_TRY(ot_const_ints(n, 4, &steps, err));
    bool named = n->n_in > 3 && n->in[3], stepped = n->n_in > 4 && n->in[4];
    if (ends.n != starts.n || (named && axes.n != starts.n) || (stepped && steps.n != starts.n))
        return ot_node_fail(n, err, "%d starts, %d ends, %d axes and %d steps; the numbers must be equal", starts.n,
                            ends.n, named ? axes.n : starts.n, stepped ? steps.n : starts.n);
    if (starts.n > s->rank) return ot_node_fail(n, err, "%d starts for a tensor of rank %d", starts.n, s->rank);
    for (int d = 0; d < s->rank; d++) {
        x->start[d] = 0;
        x->step[d] = 1;
        x->extent[d] = s->dim[d];
    }
    for (int i = 0; i < starts.n; i++) {
        int d = i;
        if (named) ot_axis(axes.v[i], s->rank, &d);
        if (stepped && steps.v[i] == 0) return ot_node_fail(n, err, "step 0 on axis %d", d);
        slice_axis(s->dim[d], starts.v[i], ends.v[i], stepped ? steps.v[i] : 1, x, d);
    }
    return OT_OK;
}

static ot_status slice_infer(ot_node *n, ot_error *err)
{
    box x;
    ot_shape y = { .rank = n->in[0]->shape.rank };
    OT_TRY(slice_box(n, &x, err));
    for (int d = 0; d < y.rank; d++) y.dim[d] = x.extent[d];
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void slice_lower(ot_build *b)
{
    box x;
    ot_piece *p = ot_pieces(b, 1);
    if (!p || slice_box(b->node, &x, b->graph->err) != OT_OK) return;
    ot_piece_box(p, &b->node->in[0]->shape, x.start, x.step, x.extent);
    ot_yield(b, 0, ot_copy_emit(b, &b->node->out[0]->shape, 0, p, 1, b->node->in, 1));
}

static bool slice_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    ot_ints starts, ends, axes, steps;
    ot_error e = { 0 };
    int64_t set, acts = 0, list[4][OT_MAX_RANK];
    int m = 0;
    if (!ot_batch_first_alone(n)) return false;
    int rank = n->in[0]->shape.rank, a = ot_batch_axis(n->in[0]);
    if (ot_const_ints(n, 1, &starts, &e) != OT_OK || ot_const_ints(n, 2, &ends, &e) != OT_OK ||
        ot_const_ints(n, 4, &steps, &e) != OT_OK || ot_axes_input(n, 3, rank, &set, &axes, &e) != OT_OK ||
        starts.n > rank)
        return false;
    ot_shape s = ot_own_shape(b, n->in[0]);
    for (int i = 0; i < starts.n; i++) {
        int d = i;
        int64_t step = ot_batch_given(n, 4) ? steps.v[i] : 1;
        if (ot_batch_given(n, 3)) ot_axis(axes.v[i], rank, &d);
        if (d == a && step == 1 && own[0].dim[d] == s.dim[d]) continue; /* it takes all */
        acts |= INT64_C(1) << d;
        list[0][m] = starts.v[i];
        list[1][m] = ends.v[i];
        list[2][m] = d;
        list[3][m++] = step;
    }
    if (!ot_batch_along(b, n, acts, 0, r)) return false;
    for (int i = 0; i < m && r->explicit_at >= 0; i++) list[2][i]++;
    if (!m) r->op = &ot_op_Identity;
    r->n_in = m ? 5 : 1;
    for (int k = 0; k < 4; k++) r->in[k + 1] = ot_batch_ints(b, list[k], m);
    return true;
}

const ot_op ot_op_Slice = {
    .name = "Slice",
    .types = { "TU", .T = OT_SET_COMMON, .U = OT_SET_INDEX },
    .slots = ">----",
    .since = 13,
    .in = { 3, 5 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .nondiff = 0x1e,
    .infer = slice_infer,
    .lower = slice_lower,
    .flags = OT_MOVES,
    .half = OT_HALF_FOLLOWS,
    .batch = slice_batch,
};
