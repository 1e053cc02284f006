/* batchrules.c - for every operator, how it runs over several micro-batches at once: one rule each, as vmap has them.
 *
 * A file made for a batch of one means one function of one sample.  A value that holds several of them has one axis
 * that is longer (batching.h).  A rule says that an operator, as it is or with that axis apart, gives for each micro-batch
 * what it gave for one; where no rule fits, rebatch.c runs the operator once for each.  Results are checked by shape
 * there, so a rule that is refused costs nothing but time.
 *
 * Those that are meant for a whole batch see all of it: BatchNormalization, the losses that are means over samples. */
#include "runtime/passes/batching.h"

#include <stdio.h>
#include <string.h>

#include "ops/kernels/move.h"

/* ---- what rules share ----------------------------------------------------------- */

static bool given(const ot_node *n, int i) { return i < n->n_in && n->in[i]; }
static bool has_batch(const ot_node *n, int i) { return given(n, i) && n->in[i]->mark; }

/* Is input 0 the only one with a batch, and no list of scalars? */
static bool first_alone(const ot_node *n)
{
    for (int i = 1; i < n->n_in; i++)
        if (has_batch(n, i)) return false;
    return has_batch(n, 0) && n->in[0]->mark != OT_ALONE;
}

static bool direct(ot_batched *r, const ot_node *n, int axis)
{
    for (int i = 0; i < n->n_out; i++) r->mark[i] = ot_on_axis(axis);
    return true;
}

static bool explicit_at(ot_batched *r, int at)
{
    r->explicit_at = at;
    return true;
}

/* Is v a single number from which an output is made?  A loss: the mean over micro-batches is its. */
static bool is_loss(const ot_graph *g, const ot_value *v)
{
    for (int k = 0; k < g->n_outputs; k++)
        for (const ot_value *w = g->outputs[k]; w && ot_numel(&w->shape) == 1; w = w->producer && w->producer->n_in ? w->producer->in[0] : NULL)
            if (w == v) return true;
    return false;
}

/* n acts along axis `a` of input i: where that is the batch of the file, it mixes the samples of one. */
static void mixes(ot_batching *b, const ot_node *n, int i, int a)
{
    ot_shape s = ot_own_shape(b, n->in[i]);
    if (is_loss(b->g, n->out[0])) return;
    if (s.dim[a] != b->from || b->mixing++) return;
    b->mixed = n->name;
    b->mixed_op = n->op->name;
}

/* Input 0 of an operator that acts along the axes `set` of it and leaves `gone` of them out. */
static bool along(ot_batching *b, const ot_node *n, int64_t set, int64_t gone, ot_batched *r)
{
    if (!first_alone(n)) return false;
    int a = ot_batch_axis(n->in[0]);
    if (!(set >> a & 1)) return direct(r, n, a - __builtin_popcountll((uint64_t)gone & ((UINT64_C(1) << a) - 1)));
    r->in[0] = ot_batch_full(b, n->in[0]);
    return r->in[0] && explicit_at(r, 0);
}

/* The same of one whose results there depend on all elements along them. */
static bool mixed_along(ot_batching *b, const ot_node *n, int64_t set, int64_t gone, ot_batched *r)
{
    if (!along(b, n, set, gone, r)) return false;
    if (r->explicit_at >= 0) mixes(b, n, 0, ot_batch_axis(n->in[0]));
    return true;
}

/* Another operator does it. */
static bool other_op(ot_batching *b, ot_batched *r, const char *name)
{
    r->op = ot_find_op("", name);
    r->attrs = ot_graph_alloc(b->g, r->op->attr_size + 1);
    if (r->attrs) ot_attr_defaults(r->op, r->attrs);
    return r->attrs != NULL;
}

static bool is_op(const ot_node *n, const char *name) { return !strcmp(n->op->name, name); }

/* ---- element-wise ---------------------------------------------------------------- */

/* The operand whose place the others take: the largest. */
static int leader(const ot_batching *b, const ot_node *n)
{
    int     best = -1;
    int64_t most = -1;
    for (int i = 0; i < n->n_in; i++) {
        if (!has_batch(n, i)) continue;
        ot_shape s = ot_own_shape(b, n->in[i]);
        if (ot_numel(&s) <= most) continue;
        most = ot_numel(&s);
        best = i;
    }
    return best;
}

/* The axis of a result of y's rank where operand `lead` has its batch; among so many axes from the left that broadcast. */
static int axis_in(const ot_batching *b, const ot_value *lead, const ot_shape *y)
{
    ot_shape s = ot_own_shape(b, lead);
    return lead->mark == OT_ALONE ? 0 : ot_batch_axis(lead) + y->rank - s.rank;
}

/* Can operands broadcast to y as they are, with the batch on `axis`? */
static bool meet(const ot_batching *b, const ot_node *n, const ot_shape *y, int axis, int operands)
{
    for (int i = 0; i < operands; i++) {
        if (!given(n, i)) continue;
        ot_shape s = ot_own_shape(b, n->in[i]);
        if (s.rank > y->rank) return false;
        ot_shape p = ot_padded_shape(&s, y->rank);
        if (p.dim[axis] != (n->in[i]->mark ? y->dim[axis] : 1)) return false;
    }
    return true;
}

static bool point(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    const ot_shape *y = &own[0];
    int             operands = is_op(n, "CastLike") ? 1 : n->n_in, lead = leader(b, n);
    if (lead >= operands) return false;
    if (!y->rank) return direct(r, n, OT_ALONE - 1);
    int  axis = axis_in(b, n->in[lead], y);
    bool as_is = meet(b, n, y, axis, operands);
    for (int i = 0; i < operands; i++) {
        if (!given(n, i)) continue;
        ot_value *v = n->in[i];
        ot_shape  s = ot_own_shape(b, v), p = ot_padded_shape(&s, y->rank), wide;
        if (v->mark) {
            v = ot_batch_placed(b, v, y->rank, axis);
            if (v && !as_is) v = ot_batch_apart(b, v, &p, axis);
        } else if (!as_is && s.rank >= y->rank - axis) {
            if (!ot_with_axis(&s, axis - (y->rank - s.rank), 1, &wide)) return false;
            v = ot_batch_reshape(b, v, &wide, 0);
        }
        if (!(r->in[i] = v)) return false;
    }
    return as_is ? direct(r, n, axis) : explicit_at(r, axis);
}

static bool expanded(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    const ot_shape *y = &own[0];
    if (!has_batch(n, 0) || !y->rank) return false;
    ot_shape s = ot_own_shape(b, n->in[0]), p = ot_padded_shape(&s, y->rank), to;
    int      axis = axis_in(b, n->in[0], y);
    ot_value *x = ot_batch_placed(b, n->in[0], y->rank, axis);
    bool     as_is = p.dim[axis] == y->dim[axis];
    if (!x) return false;
    if (!as_is && !(x = ot_batch_apart(b, x, &p, axis))) return false;
    if (!(as_is ? ot_joined_shape(b, y, ot_on_axis(axis), &to) : ot_with_axis(y, axis, b->count, &to))) return false;
    r->in[0] = x;
    r->in[1] = ot_batch_shape(b, &to);
    return as_is ? direct(r, n, axis) : explicit_at(r, axis);
}

/* ---- along an axis ----------------------------------------------------------------- */

/* An attribute `axis`; layer norms and flattening Softmax act on all axes from there on. */
static bool by_axis(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    if (!first_alone(n)) return false;
    int  rank = n->in[0]->shape.rank, axis;
    bool rest = is_op(n, "LayerNormalization") || is_op(n, "RMSNormalization") || ot_attr_get(n, "flatten", 0);
    bool keeps = ot_attr_get(n, "keepdims", 1);
    if (!ot_axis(ot_attr_get(n, "axis", 0), rank, &axis)) return false;
    int64_t set = rest ? ((INT64_C(1) << rank) - 1) & ~((INT64_C(1) << axis) - 1) : INT64_C(1) << axis;
    if (rest)
        for (int i = 1; i < n->n_out; i++)
            if (n->out[i]) return false;
    if (!(is_op(n, "Split") ? along : mixed_along)(b, n, set, keeps ? 0 : set, r)) return false;
    if (r->explicit_at >= 0) ot_attr_set(n->op, r->attrs, "axis", axis + 1);
    return true;
}

static bool cumulated(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int axis;
    if (!first_alone(n) || !ot_is_const(n->in[1])) return false;
    if (!ot_axis(ot_get_i64(n->in[1]->data, n->in[1]->dtype, 0), n->in[0]->shape.rank, &axis)) return false;
    if (!mixed_along(b, n, INT64_C(1) << axis, 0, r)) return false;
    int64_t shifted = axis + 1;
    if (r->explicit_at >= 0) r->in[1] = ot_graph_const(b->g, "", OT_I64, &OT_SCALAR, &shifted);
    return true;
}

/* DFT: along an axis, and along the last, which holds real and imaginary part. */
static bool transformed(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int rank = n->in[0]->shape.rank, axis = rank - 2;
    if (!first_alone(n) || rank < 2) return false;
    if (given(n, 2) && (!ot_is_const(n->in[2]) || !ot_axis(ot_get_i64(n->in[2]->data, n->in[2]->dtype, 0), rank, &axis))) return false;
    if (!mixed_along(b, n, INT64_C(1) << axis | INT64_C(1) << (rank - 1), 0, r)) return false;
    int64_t shifted = axis + 1;
    if (given(n, 2) && r->explicit_at >= 0) r->in[2] = ot_graph_const(b->g, "", OT_I64, &OT_SCALAR, &shifted);
    return true;
}

static ot_value *axes_const(ot_batching *b, int64_t set, int by)
{
    int64_t list[OT_MAX_RANK];
    int     m = 0;
    for (int d = 0; d < OT_MAX_RANK; d++)
        if (set >> d & 1) list[m++] = d + by;
    return ot_batch_ints(b, list, m);
}

static bool reduced(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int64_t  set;
    ot_error e = { 0 };
    if (!first_alone(n)) return false;
    int rank = n->in[0]->shape.rank;
    if (ot_axes_input(n, 1, rank, &set, NULL, &e) != OT_OK) return false;
    if (!set && ot_attr_get(n, "noop_with_empty_axes", 0)) return direct(r, n, ot_batch_axis(n->in[0]));
    if (!set) set = (INT64_C(1) << rank) - 1;
    if (!mixed_along(b, n, set, ot_attr_get(n, "keepdims", 1) ? 0 : set, r)) return false;
    r->in[1] = axes_const(b, set, r->explicit_at >= 0);
    r->n_in = 2;
    return true;
}

static bool tiled(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    ot_ints  times;
    ot_error e = { 0 };
    int64_t  list[OT_MAX_RANK + 1] = { 1 }, set = 0;
    if (!first_alone(n) || ot_const_ints(n, 1, &times, &e) != OT_OK || times.n > OT_MAX_RANK) return false;
    for (int d = 0; d < times.n; d++) {
        list[d + 1] = times.v[d];
        if (times.v[d] != 1) set |= INT64_C(1) << d;
    }
    if (!along(b, n, set, 0, r)) return false;
    if (r->explicit_at >= 0) r->in[1] = ot_batch_ints(b, list, times.n + 1);
    return true;
}

static bool framed(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    ot_ints  pads, axes;
    ot_error e = { 0 };
    int64_t  set, acts = 0, list[2 * (OT_MAX_RANK + 1)] = { 0 };
    if (!first_alone(n)) return false;
    int rank = n->in[0]->shape.rank;
    if (ot_const_ints(n, 1, &pads, &e) != OT_OK || ot_axes_input(n, 3, rank, &set, &axes, &e) != OT_OK) return false;
    int m = given(n, 3) ? axes.n : rank;
    if (pads.n != 2 * m) return false;
    for (int i = 0; i < m; i++) {
        int d = i;
        if (given(n, 3)) ot_axis(axes.v[i], rank, &d);
        list[d + 1] = pads.v[i];
        list[d + 1 + rank + 1] = pads.v[i + m];
        if (pads.v[i] || pads.v[i + m]) acts |= INT64_C(1) << d;
    }
    if (!along(b, n, acts, 0, r)) return false;
    if (r->explicit_at < 0) return true;
    r->in[1] = ot_batch_ints(b, list, 2 * (rank + 1));
    if (n->n_in > 3) r->in[3] = NULL;
    return true;
}

static bool sliced(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    ot_ints  starts, ends, axes, steps;
    ot_error e = { 0 };
    int64_t  set, acts = 0, list[4][OT_MAX_RANK];
    int      m = 0;
    if (!first_alone(n)) return false;
    int rank = n->in[0]->shape.rank, a = ot_batch_axis(n->in[0]);
    if (ot_const_ints(n, 1, &starts, &e) != OT_OK || ot_const_ints(n, 2, &ends, &e) != OT_OK || ot_const_ints(n, 4, &steps, &e) != OT_OK ||
        ot_axes_input(n, 3, rank, &set, &axes, &e) != OT_OK || starts.n > rank)
        return false;
    ot_shape s = ot_own_shape(b, n->in[0]);
    for (int i = 0; i < starts.n; i++) {
        int     d = i;
        int64_t step = given(n, 4) ? steps.v[i] : 1;
        if (given(n, 3)) ot_axis(axes.v[i], rank, &d);
        if (d == a && step == 1 && own[0].dim[d] == s.dim[d]) continue; /* it takes all */
        acts |= INT64_C(1) << d;
        list[0][m] = starts.v[i];
        list[1][m] = ends.v[i];
        list[2][m] = d;
        list[3][m++] = step;
    }
    if (!along(b, n, acts, 0, r)) return false;
    for (int i = 0; i < m && r->explicit_at >= 0; i++) list[2][i]++;
    if (!m) r->op = ot_find_op("", "Identity");
    r->n_in = m ? 5 : 1;
    for (int k = 0; k < 4; k++) r->in[k + 1] = ot_batch_ints(b, list[k], m);
    return true;
}

static bool determinant(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int64_t last = has_batch(n, 0) ? INT64_C(3) << (n->in[0]->shape.rank - 2) : 0;
    return last && along(b, n, last, last, r);
}

static bool triangle(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    return has_batch(n, 0) && along(b, n, INT64_C(3) << (n->in[0]->shape.rank - 2), 0, r);
}

/* ---- the same elements --------------------------------------------------------------- */

/* Reshape, Flatten, Squeeze, Unsqueeze: the axis of the result with as many elements before it. */
static bool viewed(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    const ot_shape *y = &own[0];
    ot_value       *x = n->in[0];
    if (!has_batch(n, 0)) return false;
    ot_shape s = ot_own_shape(b, x), to;
    int64_t  before = x->mark == OT_ALONE ? 1 : ot_elements(&s, 0, ot_batch_axis(x)), at = 1;
    int      axis = -1;
    for (int d = 0; d < y->rank; d++) { /* the last axis is what most operators act along */
        if (at == before && (axis < 0 || (y->dim[d] == 1 && y->dim[axis] != 1)) && (d == 0 || d < y->rank - 1 || y->dim[d] == 1)) axis = d;
        at *= y->dim[d];
    }
    if (!y->rank) axis = OT_ALONE - 1;
    else if (axis < 0) {
        axis = 0;
        x = ot_batch_move(b, x, 0);
    }
    if (!x || !ot_joined_shape(b, y, ot_on_axis(axis), &to)) return false;
    if (!other_op(b, r, "Reshape")) return false;
    ot_attr_set(r->op, r->attrs, "allowzero", 1);
    r->n_in = 2;
    r->in[0] = x;
    r->in[1] = ot_batch_shape(b, &to);
    return direct(r, n, axis);
}

static bool transposed(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)b;
    ot_ints perm = ot_attr_ints(n, "perm");
    int     a = ot_batch_axis(n->in[0]), rank = own[0].rank;
    if (!first_alone(n)) return false;
    for (int d = 0, from; d < rank; d++) {
        if (!perm.n) from = rank - 1 - d;
        else if (!ot_axis(perm.v[d], rank, &from)) return false;
        if (from == a) return direct(r, n, d);
    }
    return false;
}

static bool joined(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    int along_axis, lead = leader(b, n);
    if (n->in[lead]->mark == OT_ALONE || !ot_axis(ot_attr_get(n, "axis", 0), own[0].rank, &along_axis)) return false;
    int  axis = ot_batch_axis(n->in[lead]);
    bool as_is = axis != along_axis;
    for (int i = 0; i < n->n_in; i++)
        if (!(r->in[i] = as_is ? ot_batch_spread(b, n->in[i], axis) : ot_batch_full(b, n->in[i]))) return false;
    if (as_is) return direct(r, n, axis);
    ot_attr_set(n->op, r->attrs, "axis", along_axis + 1);
    return explicit_at(r, 0);
}

/* ---- by index ------------------------------------------------------------------------ */

/* Both have a batch: each micro-batch's indices into its own rows. */
static bool gathered_both(ot_batching *b, const ot_node *n, int axis, ot_batched *r)
{
    ot_value *x = ot_batch_full(b, n->in[0]), *index = ot_batch_full(b, n->in[1]);
    ot_shape  one;
    if (axis || !x || !index || index->dtype != OT_I64 || !ot_with_axis(&index->shape, index->shape.rank, 1, &one)) return false;
    if (!other_op(b, r, "GatherND")) return false;
    ot_attr_set(r->op, r->attrs, "batch_dims", 1);
    r->in[0] = x;
    r->in[1] = ot_batch_reshape(b, index, &one, index->mark);
    return r->in[1] && explicit_at(r, 0);
}

static bool gathered(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    ot_shape s = ot_own_shape(b, n->in[0]), index = ot_own_shape(b, n->in[1]);
    int      axis;
    if (!ot_axis(ot_attr_get(n, "axis", 0), s.rank, &axis)) return false;
    if (has_batch(n, 0) && has_batch(n, 1)) return gathered_both(b, n, axis, r);
    if (has_batch(n, 1)) {
        if (n->in[1]->mark != OT_ALONE) return direct(r, n, axis + ot_batch_axis(n->in[1]));
        return s.rank == 1 ? direct(r, n, OT_ALONE - 1) : axis == 0 && explicit_at(r, 0);
    }
    int a = ot_batch_axis(n->in[0]);
    if (!first_alone(n)) return false;
    if (a != axis) return direct(r, n, a < axis ? a : a - 1 + index.rank);
    r->in[0] = ot_batch_full(b, n->in[0]);
    ot_attr_set(n->op, r->attrs, "axis", axis + 1);
    return r->in[0] && explicit_at(r, 0);
}

static bool by_elements(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int axis;
    if (!ot_axis(ot_attr_get(n, "axis", 0), n->in[0]->shape.rank, &axis)) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->mark == OT_ALONE || !(r->in[i] = ot_batch_full(b, n->in[i]))) return false;
    ot_attr_set(n->op, r->attrs, "axis", axis + 1);
    return explicit_at(r, 0);
}

static bool by_tuples(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int64_t dims = ot_attr_get(n, "batch_dims", 0);
    int     last = n->in[1]->shape.rank - 1;
    if (n->in[0]->mark == OT_ALONE || n->in[1]->mark == OT_ALONE) return false;
    if (!has_batch(n, 0) && !dims && ot_batch_axis(n->in[1]) < last) return direct(r, n, ot_batch_axis(n->in[1]));
    for (int i = 0; i < 2; i++)
        if (!(r->in[i] = ot_batch_full(b, n->in[i]))) return false;
    ot_attr_set(n->op, r->attrs, "batch_dims", dims + 1);
    return explicit_at(r, 0);
}

/* ScatterND knows no batch: the number of the micro-batch becomes the first index. */
static bool scattered(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    for (int i = 0; i < 3; i++)
        if (n->in[i]->mark == OT_ALONE || !(r->in[i] = ot_batch_full(b, n->in[i]))) return false;
    ot_shape all = r->in[1]->shape, first = { .rank = all.rank };
    int64_t *number = ot_graph_alloc(b->g, (size_t)b->count * sizeof *number);
    if (!number || all.rank < 2) return false;
    for (int64_t k = 0; k < b->count; k++) number[k] = k;
    for (int d = 0; d < first.rank; d++) first.dim[d] = d ? 1 : b->count;
    all.dim[all.rank - 1] = 1;
    ot_value *numbers = ot_batch_expand(b, ot_graph_const_of(b->g, "", OT_I64, &first, number), &all);
    ot_node  *c = numbers ? ot_graph_node(b->g, ot_find_op("", "Concat"), "", NULL, OT_IN(numbers, r->in[1]), 1) : NULL;
    if (!c) return false;
    ot_set_attr(c, "axis", all.rank - 1);
    if (ot_node_infer(c, b->g->err) != OT_OK) return false;
    r->in[1] = c->out[0];
    return explicit_at(r, 0);
}

static bool one_hot(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)b;
    int axis, a = ot_batch_axis(n->in[0]);
    if (!first_alone(n) || !ot_axis(ot_attr_get(n, "axis", -1), own[0].rank, &axis)) return false;
    return direct(r, n, a < axis ? a : a + 1);
}

/* ---- products -------------------------------------------------------------------------- */

static bool matrix(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    ot_shape s = ot_own_shape(b, n->in[0]), w = ot_own_shape(b, n->in[1]);
    int      rank = s.rank > w.rank ? s.rank : w.rank, lead = leader(b, n);
    for (int i = 0; i < 2; i++)
        if (n->in[i]->mark == OT_ALONE) return false;
    if (!has_batch(n, 1) && w.rank <= 2) { /* rows times a matrix */
        if (s.rank == 1) return (r->in[0] = ot_batch_full(b, n->in[0])) && explicit_at(r, 0);
        int a = ot_batch_axis(n->in[0]);
        if (a == s.rank - 1) r->in[0] = ot_batch_move(b, n->in[0], a = 0);
        return r->in[0] && direct(r, n, a);
    }
    if (s.rank < 2 || w.rank < 2) return false;
    if (rank == 2 && has_batch(n, 0) && has_batch(n, 1) && !ot_batch_axis(n->in[0]) && ot_batch_axis(n->in[1]) == 1 && !b->pairs) b->pairs = n->name;
    if (has_batch(n, 0) && has_batch(n, 1) && ot_batch_axis(n->in[0]) == s.rank - 1 && ot_batch_axis(n->in[1]) == w.rank - 2) mixes(b, n, 0, s.rank - 1);
    int axis = axis_in(b, n->in[lead], &(ot_shape){ .rank = rank });
    if (!has_batch(n, 1) && axis == rank - 2) return direct(r, n, axis);
    ot_shape y = own[0];
    bool     as_is = axis < rank - 2 && meet(b, n, &y, axis, 2);
    for (int i = 0; i < 2; i++) {
        ot_shape p = ot_padded_shape(i ? &w : &s, rank);
        if (!has_batch(n, i)) continue;
        r->in[i] = ot_batch_placed(b, n->in[i], rank, as_is ? axis : 0);
        if (r->in[i] && !as_is) r->in[i] = ot_batch_apart(b, r->in[i], &p, 0);
        if (!r->in[i]) return false;
    }
    return as_is ? direct(r, n, axis) : explicit_at(r, 0);
}

static bool gemm(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    if (!has_batch(n, 0) || has_batch(n, 1) || n->in[0]->mark == OT_ALONE) return false;
    if (!(r->in[0] = ot_batch_move(b, n->in[0], ot_attr_get(n, "transA", 0) ? 1 : 0))) return false;
    if (!given(n, 2)) return direct(r, n, 0);
    ot_shape s = ot_own_shape(b, n->in[2]), p = ot_padded_shape(&s, 2);
    if (p.dim[0] != (n->in[2]->mark ? own[0].dim[0] : 1)) return false;
    if (n->in[2]->mark && !(r->in[2] = ot_batch_placed(b, n->in[2], 2, 0))) return false;
    return direct(r, n, 0);
}

/* Is a letter of an einsum, that of axis a of its operand `part`, summed over? */
static bool is_summed(const char *part, int a, const char *arrow)
{
    for (int i = 0; i <= a; i++)
        if (part[i] < 'A') return false; /* an ellipsis, or another operand */
    return !strchr(arrow, part[a]);
}

/* The operands with a batch get a letter more. */
static bool einsum(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    const ot_attr *a = ot_attr_of(n->op, "equation");
    const char    *text = *(const char *const *)((const char *)n->attrs + a->offset);
    const char    *arrow = text ? strstr(text, "->") : NULL;
    char           extra = 'A';
    if (!arrow) return false;
    while (strchr(text, extra) && extra < 'Z') extra++;
    char *now = ot_graph_alloc(b->g, strlen(text) + (size_t)n->n_in + 2), *to = now;
    if (!now || strchr(text, extra)) return false;
    const char *s = text;
    for (int i = 0; i < n->n_in; i++) {
        if (has_batch(n, i)) *to++ = extra;
        if (has_batch(n, i) && n->in[i]->mark != OT_ALONE && is_summed(s, ot_batch_axis(n->in[i]), arrow)) mixes(b, n, i, ot_batch_axis(n->in[i]));
        while (s < arrow && *s != ',') *to++ = *s++;
        if (s < arrow) *to++ = *s++;
        if (has_batch(n, i) && !(r->in[i] = ot_batch_full(b, n->in[i]))) return false;
    }
    sprintf(to, "->%c%s", extra, arrow + 2);
    memcpy((char *)r->attrs + a->offset, &now, sizeof now);
    return explicit_at(r, 0);
}

/* ---- a batch on axis 0 by nature --------------------------------------------------------- */

static bool batch_first(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    bool norm = is_op(n, "BatchNormalization");
    if (!first_alone(n)) return false;
    for (int i = 1; i < n->n_out && !norm; i++)
        if (n->out[i]) return false; /* MaxPool's indices count through the whole batch */
    r->in[0] = ot_batch_move(b, n->in[0], 0);
    direct(r, n, 0);
    for (int i = 1; i < n->n_out; i++) r->mark[i] = 0;
    return r->in[0] != NULL;
}

/* Operands `set` (bit i: input i) have a batch on axis 0, and so do all results; the others are the same for every sample. */
static bool operands_first(ot_batching *b, const ot_node *n, unsigned set, ot_batched *r)
{
    for (int i = 0; i < n->n_in; i++) {
        if (!(set >> i & 1) && has_batch(n, i)) return false;
        if (set >> i & 1 && given(n, i) && !(r->in[i] = ot_batch_spread(b, n->in[i], 0))) return false;
    }
    return direct(r, n, 0);
}

/* X and where it is read: GridSample's grid; DeformConv's offsets and mask. */
static bool sampled(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    return operands_first(b, n, is_op(n, "GridSample") ? 3 : 0x15, r);
}

/* Q, K, V, the cache and its lengths; a mask meets the scores, (B, heads, queries, keys). */
static bool attended(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    enum { MASK = 3 };
    unsigned set = 0x77;
    if (given(n, MASK)) {
        ot_value *m = n->in[MASK];
        ot_shape  s = ot_own_shape(b, m), p = ot_padded_shape(&s, 4);
        if (s.rank > 4 || p.dim[0] != (m->mark || s.rank == 4 ? own[0].dim[0] : 1)) return false;
        if (m->mark && !(r->in[MASK] = ot_batch_placed(b, m, 4, 0))) return false;
        if (!m->mark && p.dim[0] != 1 && !(r->in[MASK] = ot_batch_spread(b, m, 0))) return false;
    }
    for (int i = 0; i < n->n_in; i++)
        if (set >> i & 1 && given(n, i) && !(r->in[i] = ot_batch_spread(b, n->in[i], 0))) return false;
    return direct(r, n, 0);
}

/* Tables of sines and cosines: for each sample, or rows that positions choose. */
static bool rotated(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    return operands_first(b, n, given(n, 3) ? 9 : 7, r);
}

/* Boxes of all micro-batches; each names a picture of its own micro-batch. */
static bool regions(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    ot_shape  one = { .rank = 2, .dim = { b->count, 1 } }, all;
    ot_value *index = b->count ? ot_batch_full(b, n->in[2]) : NULL;
    int64_t  *first = ot_graph_alloc(b->g, (size_t)b->count * sizeof *first + 1);
    if (!index || !first || index->dtype != OT_I64) return false;
    ot_shape s = ot_own_shape(b, n->in[0]);
    for (int64_t k = 0; k < b->count; k++) first[k] = k * s.dim[0];
    index = ot_batch_emit(b, "Add", OT_IN(index, ot_graph_const_of(b->g, "", OT_I64, &one, first)));
    if (!index) return false;
    all = (ot_shape){ .rank = 1, .dim = { ot_numel(&index->shape) } };
    if (!operands_first(b, n, 7, r)) return false;
    r->in[2] = ot_batch_reshape(b, index, &all, ot_on_axis(0));
    return r->in[2] != NULL;
}

static bool reversed(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int batch = (int)ot_attr_get(n, "batch_axis", 1);
    r->in[0] = ot_batch_spread(b, n->in[0], batch);
    r->in[1] = ot_batch_spread(b, n->in[1], 0);
    return r->in[0] && r->in[1] && direct(r, n, batch);
}

static bool resized(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    enum { TF_CROP = 5 };
    if (!first_alone(n) || ot_attr_get(n, "coordinate_transformation_mode", 0) == TF_CROP) return false;
    ot_ints  axes = ot_attr_ints(n, "axes");
    ot_shape s = ot_own_shape(b, n->in[0]);
    int      a = ot_batch_axis(n->in[0]);
    if (own[0].dim[a] != s.dim[a] && a) r->in[0] = ot_batch_move(b, n->in[0], a = 0);
    if (!r->in[0] || own[0].dim[a] != s.dim[a]) return false;
    for (int i = 0, d = 0; i < (axes.n ? axes.n : s.rank); i++) {
        d = i;
        if (axes.n && !ot_axis(axes.v[i], s.rank, &d)) return false;
        if (d != a) continue;
        if (given(n, 2) && ot_is_const(n->in[2]) && ot_numel(&n->in[2]->shape) && ot_get_f64(n->in[2]->data, n->in[2]->dtype, i) != 1) return false;
        ot_ints  sizes = { 0 };
        ot_error e = { 0 };
        if (!given(n, 3) || ot_const_ints(n, 3, &sizes, &e) != OT_OK || sizes.n <= i) continue;
        int64_t list[OT_MAX_RANK];
        for (int k = 0; k < sizes.n; k++) list[k] = sizes.v[k];
        list[i] = r->in[0]->shape.dim[a];
        r->in[3] = ot_batch_ints(b, list, sizes.n);
    }
    return direct(r, n, a);
}

static bool recurrent(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    static const int with_state[] = { -1, -1, -1, -1, 0, 1, 1, -1 }; /* X W R B lens h0 c0 P */
    int batch = ot_attr_get(n, "layout", 0) ? 0 : 1;
    for (int i = 1; i < n->n_in; i++) {
        if (!given(n, i)) continue;
        if (with_state[i] < 0 && has_batch(n, i)) return false;
        if (with_state[i] >= 0 && !(r->in[i] = ot_batch_spread(b, n->in[i], with_state[i] ? batch : 0))) return false;
    }
    if (!(r->in[0] = ot_batch_spread(b, n->in[0], batch))) return false;
    direct(r, n, batch);
    if (batch) r->mark[0] = ot_on_axis(2);
    return true;
}

static bool quantised(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int axis = -1;
    if (!first_alone(n) || ot_attr_get(n, "block_size", 0)) return false;
    if (ot_numel(&n->in[1]->shape) != 1 && !ot_axis(ot_attr_get(n, "axis", 1), n->in[0]->shape.rank, &axis)) return false;
    if (ot_batch_axis(n->in[0]) != axis) return direct(r, n, ot_batch_axis(n->in[0]));
    return axis && (r->in[0] = ot_batch_move(b, n->in[0], 0)) && direct(r, n, 0);
}

/* A loss in the graph is the mean over all that is counted in the batch, as it is for one that was exported with an
 * open batch. */
static bool loss(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    if (!has_batch(n, 0) || !has_batch(n, 1) || has_batch(n, 2)) return false;
    for (int i = 0; i < 2; i++)
        if (!(r->in[i] = ot_batch_move(b, n->in[i], 0))) return false;
    direct(r, n, 0);
    if (!own[0].rank) r->mark[0] = 0;
    return true;
}

/* ---- random numbers ------------------------------------------------------------------------ */

static bool drawn(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    ot_shape y;
    if (n->n_in && !has_batch(n, 0)) r->in[0] = ot_batch_spread(b, n->in[0], 0);
    if (n->n_in) return r->in[0] && r->in[0]->mark != OT_ALONE && direct(r, n, ot_batch_axis(r->in[0]));
    int64_t *list = ot_graph_alloc(b->g, OT_MAX_RANK * sizeof *list);
    if (!list || !ot_joined_shape(b, &own[0], ot_on_axis(0), &y)) return false;
    for (int d = 0; d < y.rank; d++) list[d] = y.dim[d];
    *(ot_ints *)((char *)r->attrs + ot_attr_of(n->op, "shape")->offset) = (ot_ints){ y.rank, list };
    return direct(r, n, 0);
}

/* ---- the table ------------------------------------------------------------------------------ */

typedef bool (*rule)(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r);

static const struct { const char *op; rule rule; bool whole; /* meant for a whole batch */ } rules[] = {
    { "ArgMax", by_axis, false }, { "ArgMin", by_axis, false }, { "Hardmax", by_axis, false },
    { "LayerNormalization", by_axis, false }, { "LogSoftmax", by_axis, false }, { "LpNormalization", by_axis, false },
    { "RMSNormalization", by_axis, false }, { "Softmax", by_axis, false }, { "Split", by_axis, false }, { "TopK", by_axis, false },
    { "CumSum", cumulated, false }, { "Pad", framed, false }, { "Slice", sliced, false }, { "Tile", tiled, false },
    { "Trilu", triangle, false },
    { "ReduceL1", reduced, false }, { "ReduceL2", reduced, false }, { "ReduceLogSum", reduced, false },
    { "ReduceLogSumExp", reduced, false }, { "ReduceMax", reduced, false }, { "ReduceMean", reduced, false },
    { "ReduceMin", reduced, false }, { "ReduceProd", reduced, false }, { "ReduceSum", reduced, false },
    { "ReduceSumSquare", reduced, false },
    { "Flatten", viewed, false }, { "Reshape", viewed, false }, { "Squeeze", viewed, false }, { "Unsqueeze", viewed, false },
    { "Concat", joined, false }, { "Expand", expanded, false }, { "Identity", point, false }, { "Transpose", transposed, false },
    { "Gather", gathered, false }, { "GatherElements", by_elements, false }, { "GatherND", by_tuples, false },
    { "OneHot", one_hot, false }, { "ScatterElements", by_elements, false }, { "ScatterND", scattered, false },
    { "Einsum", einsum, false }, { "Gemm", gemm, false }, { "MatMul", matrix, false },
    { "AveragePool", batch_first, false }, { "Conv", batch_first, false }, { "ConvInteger", batch_first, false },
    { "ConvTranspose", batch_first, false }, { "DepthToSpace", batch_first, false }, { "GlobalAveragePool", batch_first, false },
    { "GlobalLpPool", batch_first, false }, { "GlobalMaxPool", batch_first, false }, { "GroupNormalization", batch_first, false },
    { "InstanceNormalization", batch_first, false }, { "LRN", batch_first, false }, { "LpPool", batch_first, false },
    { "MaxPool", batch_first, false }, { "Multinomial", batch_first, false }, { "SpaceToDepth", batch_first, false },
    { "Resize", resized, false }, { "GRU", recurrent, false }, { "LSTM", recurrent, false }, { "RNN", recurrent, false },
    { "Attention", attended, false }, { "Col2Im", batch_first, false }, { "CumProd", cumulated, false },
    { "DFT", transformed, false }, { "STFT", batch_first, false }, { "DeformConv", sampled, false },
    { "Det", determinant, false }, { "GridSample", sampled, false }, { "ReverseSequence", reversed, false }, { "RoiAlign", regions, false },
    { "RotaryEmbedding", rotated, false },
    { "DequantizeLinear", quantised, false }, { "QuantizeLinear", quantised, false },
    { "BatchNormalization", batch_first, true },
    { "NegativeLogLikelihoodLoss", loss, true }, { "SoftmaxCrossEntropyLoss", loss, true },
    { "Bernoulli", drawn, true }, { "RandomNormal", drawn, true }, { "RandomNormalLike", drawn, true },
    { "RandomUniform", drawn, true }, { "RandomUniformLike", drawn, true },
};

static bool element_wise(const ot_op *op)
{
#define ROW(name, ...) if (op == &ot_op_##name) return true;
    OT_ELEMENTWISE_OPS(ROW)
#undef ROW
    return false;
}

bool ot_batch_rule(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    rule f = !b->apart && element_wise(n->op) ? point : NULL;
    for (int i = 0; i < OT_LEN(rules); i++)
        if ((!b->apart || rules[i].whole) && !strcmp(n->op->name, rules[i].op)) f = rules[i].rule;
    *r = (ot_batched){ .op = n->op, .n_in = n->n_in, .explicit_at = -1 };
    if (!f || n->n_out > OT_BATCHED_OUTPUTS) return false;
    r->in = ot_graph_alloc(b->g, (size_t)(n->n_in + 5) * sizeof *r->in);
    r->attrs = ot_graph_alloc(b->g, n->op->attr_size + 1);
    if (!r->in || !r->attrs) return false;
    memcpy(r->in, n->in, (size_t)n->n_in * sizeof *r->in);
    if (n->op->attr_size) memcpy(r->attrs, n->attrs, n->op->attr_size);
    return f(b, n, own, r);
}
