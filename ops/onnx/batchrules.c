/* batchrules.c - functions that rules for several micro-batches share, and the rules of families of operators.
 *
 * A file made for a batch of one defines a function of one sample.  A value for several samples has one longer axis
 * (batching.h).  A rule computes, with the same operator or with that axis separated, the result of the operator for
 * each micro-batch, like vmap's batching rules; if no rule applies, rebatch.c repeats the operator.  The shapes of
 * results are checked there, so a rejected rule costs only time.
 *
 * Operators intended for a whole batch (OT_WHOLE_BATCH) see all of it: BatchNormalization, losses that are means
 * over samples. */
#include "ops/onnx/batching.h"

#include <string.h>

/* ---- what rules share ----------------------------------------------------------- */

bool ot_batch_given(const ot_node *n, int i) { return i < n->n_in && n->in[i]; }

bool ot_batch_has(const ot_node *n, int i) { return ot_batch_given(n, i) && n->in[i]->mark; }

bool ot_batch_first_alone(const ot_node *n)
{
    for (int i = 1; i < n->n_in; i++)
        if (ot_batch_has(n, i)) return false;
    return ot_batch_has(n, 0) && n->in[0]->mark != OT_ALONE;
}

bool ot_batch_on(ot_batched *r, const ot_node *n, int axis)
{
    for (int i = 0; i < n->n_out; i++) r->mark[i] = ot_on_axis(axis);
    return true;
}

bool ot_batch_explicit(ot_batched *r, int at)
{
    r->explicit_at = at;
    return true;
}

/* Is v a single number from which an output is computed?  A loss: its mean over micro-batches is taken. */
static bool is_loss(const ot_graph *g, const ot_value *v)
{
    for (int k = 0; k < g->n_outputs; k++)
        for (const ot_value *w = g->outputs[k]; w && ot_numel(&w->shape) == 1;
             w = w->producer && w->producer->n_in ? w->producer->in[0] : NULL)
            if (w == v) return true;
    return false;
}

void ot_batch_mixes(ot_batching *b, const ot_node *n, int i, int a)
{
    ot_shape s = ot_own_shape(b, n->in[i]);
    if (is_loss(b->g, n->out[0])) return;
    if (s.dim[a] != b->from || b->mixing++) return;
    b->mixed = n->name;
    b->mixed_op = n->op->name;
}

bool ot_batch_along(ot_batching *b, const ot_node *n, int64_t set, int64_t gone, ot_batched *r)
{
    if (!ot_batch_first_alone(n)) return false;
    int a = ot_batch_axis(n->in[0]);
    if (!(set >> a & 1)) return ot_batch_on(r, n, a - __builtin_popcountll((uint64_t)gone & ((UINT64_C(1) << a) - 1)));
    r->in[0] = ot_batch_full(b, n->in[0]);
    return r->in[0] && ot_batch_explicit(r, 0);
}

bool ot_batch_mixed_along(ot_batching *b, const ot_node *n, int64_t set, int64_t gone, ot_batched *r)
{
    if (!ot_batch_along(b, n, set, gone, r)) return false;
    if (r->explicit_at >= 0) ot_batch_mixes(b, n, 0, ot_batch_axis(n->in[0]));
    return true;
}

bool ot_batch_other_op(ot_batching *b, ot_batched *r, const ot_op *op)
{
    r->op = op;
    r->attrs = ot_graph_alloc(b->g, r->op->attr_size + 1);
    if (r->attrs) ot_attr_defaults(r->op, r->attrs);
    return r->attrs != NULL;
}

int ot_batch_leader(const ot_batching *b, const ot_node *n)
{
    int best = -1;
    int64_t most = -1;
    for (int i = 0; i < n->n_in; i++) {
        if (!ot_batch_has(n, i)) continue;
        ot_shape s = ot_own_shape(b, n->in[i]);
        if (ot_numel(&s) <= most) continue;
        most = ot_numel(&s);
        best = i;
    }
    return best;
}

int ot_batch_axis_in(const ot_batching *b, const ot_value *lead, const ot_shape *y)
{
    ot_shape s = ot_own_shape(b, lead);
    return lead->mark == OT_ALONE ? 0 : ot_batch_axis(lead) + y->rank - s.rank;
}

bool ot_batch_meet(const ot_batching *b, const ot_node *n, const ot_shape *y, int axis, int operands)
{
    for (int i = 0; i < operands; i++) {
        if (!ot_batch_given(n, i)) continue;
        ot_shape s = ot_own_shape(b, n->in[i]);
        if (s.rank > y->rank) return false;
        ot_shape p = ot_padded_shape(&s, y->rank);
        if (p.dim[axis] != (n->in[i]->mark ? y->dim[axis] : 1)) return false;
    }
    return true;
}

bool ot_batch_operands_first(ot_batching *b, const ot_node *n, unsigned set, ot_batched *r)
{
    for (int i = 0; i < n->n_in; i++) {
        if (!(set >> i & 1) && ot_batch_has(n, i)) return false;
        if (set >> i & 1 && ot_batch_given(n, i) && !(r->in[i] = ot_batch_spread(b, n->in[i], 0))) return false;
    }
    return ot_batch_on(r, n, 0);
}

/* ---- element-wise ---------------------------------------------------------------- */

bool ot_batch_pointwise(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    const ot_shape *y = &own[0];
    int operands = ot_is_type_only(n->op, 1) ? 1 : n->n_in, lead = ot_batch_leader(b, n);
    if (lead >= operands) return false;
    if (!y->rank) return ot_batch_on(r, n, OT_ALONE - 1);
    int axis = ot_batch_axis_in(b, n->in[lead], y);
    bool as_is = ot_batch_meet(b, n, y, axis, operands);
    for (int i = 0; i < operands; i++) {
        if (!ot_batch_given(n, i)) continue;
        ot_value *v = n->in[i];
        ot_shape s = ot_own_shape(b, v), p = ot_padded_shape(&s, y->rank), wide;
        if (v->mark) {
            v = ot_batch_placed(b, v, y->rank, axis);
            if (v && !as_is) v = ot_batch_apart(b, v, &p, axis);
        } else if (!as_is && s.rank >= y->rank - axis) {
            if (!ot_with_axis(&s, axis - (y->rank - s.rank), 1, &wide)) return false;
            v = ot_batch_reshape(b, v, &wide, 0);
        }
        if (!(r->in[i] = v)) return false;
    }
    return as_is ? ot_batch_on(r, n, axis) : ot_batch_explicit(r, axis);
}

/* ---- along an axis ----------------------------------------------------------------- */

/* rest: it acts on axis and all axes after it. */
static bool by_axis(ot_batching *b, const ot_node *n, bool rest, ot_batched *r)
{
    if (!ot_batch_first_alone(n)) return false;
    int rank = n->in[0]->shape.rank, axis;
    rest |= ot_attr_get(n, "flatten", 0) != 0;
    bool keeps = ot_attr_get(n, "keepdims", 1);
    if (!ot_axis(ot_attr_get(n, "axis", 0), rank, &axis)) return false;
    int64_t set = rest ? ((INT64_C(1) << rank) - 1) & ~((INT64_C(1) << axis) - 1) : INT64_C(1) << axis;
    if (rest)
        for (int i = 1; i < n->n_out; i++)
            if (n->out[i]) return false;
    if (!(n->op->flags & OT_MOVES ? ot_batch_along : ot_batch_mixed_along)(b, n, set, keeps ? 0 : set, r)) return false;
    if (r->explicit_at >= 0) ot_attr_set(n->op, r->attrs, "axis", axis + 1);
    return true;
}

bool ot_batch_by_axis(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    return by_axis(b, n, false, r);
}

bool ot_batch_from_axis(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    return by_axis(b, n, true, r);
}

bool ot_batch_cumulated(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int axis;
    if (!ot_batch_first_alone(n) || !ot_is_const(n->in[1])) return false;
    if (!ot_axis(ot_get_i64(n->in[1]->data, n->in[1]->dtype, 0), n->in[0]->shape.rank, &axis)) return false;
    if (!ot_batch_mixed_along(b, n, INT64_C(1) << axis, 0, r)) return false;
    int64_t shifted = axis + 1;
    if (r->explicit_at >= 0) r->in[1] = ot_graph_const(b->g, "", OT_I64, &OT_SCALAR, &shifted);
    return true;
}

/* ---- the same elements --------------------------------------------------------------- */

bool ot_batch_viewed(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    const ot_shape *y = &own[0];
    ot_value *x = n->in[0];
    if (!ot_batch_has(n, 0)) return false;
    ot_shape s = ot_own_shape(b, x), to;
    int64_t before = x->mark == OT_ALONE ? 1 : ot_elements(&s, 0, ot_batch_axis(x)), at = 1;
    int axis = -1;
    for (int d = 0; d < y->rank; d++) { /* the last axis, along which most operators act */
        if (at == before && (axis < 0 || (y->dim[d] == 1 && y->dim[axis] != 1)) &&
            (d == 0 || d < y->rank - 1 || y->dim[d] == 1))
            axis = d;
        at *= y->dim[d];
    }
    if (!y->rank) axis = OT_ALONE - 1;
    else if (axis < 0) {
        axis = 0;
        x = ot_batch_move(b, x, 0);
    }
    if (!x || !ot_joined_shape(b, y, ot_on_axis(axis), &to)) return false;
    if (!ot_batch_other_op(b, r, &ot_op_Reshape)) return false;
    ot_attr_set(r->op, r->attrs, "allowzero", 1);
    r->n_in = 2;
    r->in[0] = x;
    r->in[1] = ot_batch_shape(b, &to);
    return ot_batch_on(r, n, axis);
}

/* ---- a batch on axis 0 by nature --------------------------------------------------------- */

bool ot_batch_first(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    bool norm = n->op->flags & OT_WHOLE_BATCH; /* whose other results are statistics */
    if (!ot_batch_first_alone(n)) return false;
    for (int i = 1; i < n->n_out && !norm; i++)
        if (n->out[i]) return false; /* MaxPool's indices count through the whole batch */
    r->in[0] = ot_batch_move(b, n->in[0], 0);
    ot_batch_on(r, n, 0);
    for (int i = 1; i < n->n_out; i++) r->mark[i] = 0;
    return r->in[0] != NULL;
}

/* ---- the rule of a node --------------------------------------------------------------------- */

bool ot_batch_rule(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    bool found = n->op->batch && (!b->apart || n->op->flags & OT_WHOLE_BATCH);
    *r = (ot_batched){ .op = n->op, .n_in = n->n_in, .explicit_at = -1 };
    if (!found || n->n_out > OT_BATCHED_OUTPUTS) return false;
    r->in = ot_graph_alloc(b->g, (size_t)(n->n_in + 5) * sizeof *r->in);
    r->attrs = ot_graph_alloc(b->g, n->op->attr_size + 1);
    if (!r->in || !r->attrs) return false;
    memcpy(r->in, n->in, (size_t)n->n_in * sizeof *r->in);
    if (n->op->attr_size) memcpy(r->attrs, n->attrs, ot_attr_bytes(n->op, n->attrs));
    return n->op->batch(b, n, own, r);
}
