/* tails.c - finds the Softmax, LogSoftmax or Sigmoid that a graph ends in.
 *
 * Exporters append operators that move elements (Squeeze, Reshape, Transpose, Slice, Cast ...) or clip probabilities
 * to the Softmax or Sigmoid of a network, quantizers round them (a DequantizeLinear that pass fake_quant joined).  A loss
 * is combined with the tail by moving these before it: the Softmax of moved elements equals the moved Softmax, as long as
 * the elements of each sum stay together along one axis.  It is computed without the Clip and without the rounding.
 *
 * Classifiers of scikit-learn end in probabilities that are not from a Softmax: Sigmoids divided by their sum, or 1
 * - p beside p.  Values that sum to 1 are the Softmax of their logarithms, and the logarithm of a Sigmoid is
 * computed without cancellation.  Other values that sum to 1 (shares.h: one network per class, joined and divided by
 * their sum; the mean of several networks) have the logarithm of the value. */
#include "runtime/losses/tails.h"

#include "ops/kernels/map.h"
#include "runtime/losses/shares.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* ---- operators that move elements ---------------------------------------------- */

static bool known(const ot_value *v) { return v->shape.rank >= 0 && ot_shape_known(&v->shape); }

static int64_t behind(const ot_shape *s, int axis)
{
    int64_t n = 1;
    for (int d = axis + 1; d < s->rank; d++) n *= s->dim[d];
    return n;
}

/* Each function returns the axis of the output that contains an axis of the input, whole and in order; -1: none. */
static int stays(const ot_node *n, int axis)
{
    (void)n;
    return axis;
}

static int reshaped(const ot_node *n, int axis)
{
    const ot_shape *x = &n->in[0]->shape, *y = &n->out[0]->shape;
    for (int d = 0; d < y->rank && x->dim[axis] > 1; d++)
        if (y->dim[d] == x->dim[axis] && behind(y, d) == behind(x, axis)) return d;
    return -1;
}

static int transposed(const ot_node *n, int axis)
{
    int rank = n->in[0]->shape.rank, from;
    ot_ints perm = ot_attr_ints(n, "perm");
    for (int d = 0; d < rank; d++) {
        from = rank - 1 - d;
        if (perm.n && !ot_axis(perm.v[d], rank, &from)) return -1;
        if (from == axis) return d;
    }
    return -1;
}

static int sliced(const ot_node *n, int axis)
{
    return n->out[0]->shape.dim[axis] == n->in[0]->shape.dim[axis] ? axis : -1;
}

static int gathered(const ot_node *n, int axis)
{
    int along;
    if (!ot_axis(ot_attr_get(n, "axis", 0), n->in[0]->shape.rank, &along) || along == axis) return -1;
    return axis < along ? axis : axis + n->in[1]->shape.rank - 1;
}

static const ot_mover movers[] = {
    { &ot_op_Identity, stays },
    { &ot_op_Cast, stays },
    { &ot_op_Clip, stays },
    { &ot_op_Squeeze, reshaped },
    { &ot_op_Unsqueeze, reshaped },
    { &ot_op_Reshape, reshaped },
    { &ot_op_Flatten, reshaped },
    { &ot_op_Transpose, transposed },
    { &ot_op_Slice, sliced },
    { &ot_op_Gather, gathered },
    { &ot_op_DequantizeLinear, stays },
};

/* Clip's bound i; `none` if it has none; NaN: unknown. */
double ot_clip_bound(const ot_node *n, int i, double none)
{
    if (n->n_in <= i || !n->in[i]) return none;
    return ot_is_const(n->in[i]) && ot_numel(&n->in[i]->shape) == 1 ? ot_get_f64(n->in[i]->data, n->in[i]->dtype, 0)
                                                                    : (double)NAN;
}

/* Does it clip values that are probabilities?  They then have a logarithm. */
static bool clips_ends(const ot_node *n)
{
    double lo = ot_clip_bound(n, 1, -INFINITY), hi = ot_clip_bound(n, 2, INFINITY), room = 1e-3;
    return lo <= room && hi >= 1 - room;
}

/* Is it fake quantization: a DequantizeLinear that rounds floats, which pass fake_quant made of a QuantizeLinear and it? */
static bool rounds(const ot_node *n)
{
    return ot_is(n, &ot_op_DequantizeLinear) && n->in[0]->dtype == n->out[0]->dtype;
}

const ot_mover *ot_mover_of(const ot_node *n)
{
    for (int i = 0; i < OT_LEN(movers); i++)
        if (ot_is(n, movers[i].op)) {
            bool floats = ot_is_float(n->in[0]->dtype) == ot_is_float(n->out[0]->dtype);
            if (movers[i].follow == gathered && !ot_is_const(n->in[1])) return NULL;
            if (ot_is(n, &ot_op_Clip) && !clips_ends(n)) return NULL;
            if (ot_is(n, &ot_op_DequantizeLinear) && !rounds(n)) return NULL;
            return floats ? &movers[i] : NULL;
        }
    return NULL;
}

/* ---- what sums to 1 --------------------------------------------------------------- */

static const ot_node *producer_in(const ot_node *n, int i)
{
    return n->n_in > i && n->in[i] ? n->in[i]->producer : NULL;
}

/* Does c, a float, say where the sum of x along an axis is 0, as 1 there and 0 elsewhere? */
static bool marks_zero_sum(const ot_value *c, const ot_value *x)
{
    const ot_node *cast = c ? c->producer : NULL, *no, *n;
    if (!ot_is(cast, &ot_op_Cast) || !ot_is_float(c->dtype)) return false;
    no = producer_in(cast, 0);
    n = ot_is(no, &ot_op_Not) ? producer_in(no, 0) : NULL;
    if (!ot_is(n, &ot_op_Cast) || n->out[0]->dtype != OT_BOOL) return false;
    n = producer_in(n, 0);
    return (ot_is(n, &ot_op_ReduceL1) || ot_is(n, &ot_op_ReduceSum)) && n->in[0] == x;
}

/* Does n add to x what changes it only where its sum is 0, so that a division by the sum has a result there? */
static bool guards_sum(const ot_node *n) { return ot_is(n, &ot_op_Add) && marks_zero_sum(n->in[1], n->in[0]); }

/* The sum in s, a sum of x plus what a guard of x added to it. */
static const ot_node *unguarded_sum(const ot_node *s, const ot_node *guard)
{
    const ot_node *more = ot_is(s, &ot_op_Add) ? producer_in(s, 1) : NULL;
    if (!ot_is(more, &ot_op_Mul) || more->in[0] != guard->in[1]) return NULL;
    return ot_is_const(more->in[1]) && ot_numel(&more->in[1]->shape) == 1 ? producer_in(s, 0) : NULL;
}

/* Does n divide by the sum along one axis, *axis as written, which a Max or a guard may keep from 0? */
static bool divides_by_sum(const ot_node *n, int64_t *axis)
{
    const ot_node *s = ot_is(n, &ot_op_Div) ? producer_in(n, 1) : NULL, *guard = producer_in(n, 0);
    const ot_value *x = n->in[0];
    if (ot_is(s, &ot_op_Max)) s = producer_in(s, 0) ? producer_in(s, 0) : producer_in(s, 1);
    if (s && guard && guards_sum(guard)) s = unguarded_sum(s, guard), x = guard->in[0];
    if (!ot_is(s, &ot_op_ReduceL1) && !ot_is(s, &ot_op_ReduceSum)) return false;
    if (s->in[0] != x || s->n_in < 2 || !s->in[1] || !ot_is_const(s->in[1]) || ot_numel(&s->in[1]->shape) != 1)
        return false;
    *axis = ot_get_i64(s->in[1]->data, s->in[1]->dtype, 0);
    return ot_attr_get(s, "keepdims", 1) != 0;
}

/* v = 1 - p, or -p? */
static bool opposite(const ot_value *v, const ot_value *p, bool negated)
{
    const ot_node *n = v->producer;
    if (negated) return ot_is(n, &ot_op_Neg) && n->in[0] == p;
    const ot_value *one = ot_is(n, &ot_op_Sub) && n->in[1] == p ? n->in[0] : NULL;
    return one && ot_is_const(one) && ot_numel(&one->shape) == 1 && ot_get_f64(one->data, one->dtype, 0) == 1;
}

int ot_pair_of(const ot_node *n, bool negated)
{
    if (!ot_is(n, &ot_op_Concat) || n->n_in != 2) return -1;
    for (int i = 0; i < 2; i++) {
        const ot_shape *s = &n->in[i]->shape;
        int axis;
        if (known(n->in[i]) && (!ot_axis(ot_attr_get(n, "axis", 0), s->rank, &axis) || s->dim[axis] != 1)) return -1;
    }
    for (int i = 0; i < 2; i++)
        if (opposite(n->in[1 - i], n->in[i], negated)) return i;
    return -1;
}

/* The tail at n of values that sum to 1, or do after division by their sum: Sigmoids of z and -z; a Sigmoid and 1
 * minus it. */
static bool find_shares(ot_tail *t, const ot_node *n, bool divided)
{
    const ot_node *both = ot_is(n, &ot_op_Sigmoid) ? producer_in(n, 0) : n;
    bool inside = ot_is(n, &ot_op_Sigmoid) && ot_pair_of(both, true) >= 0;
    int of = ot_is(n, &ot_op_Sigmoid) ? -1 : ot_pair_of(both, false);
    if (of >= 0 && !ot_is(producer_in(both, of), &ot_op_Sigmoid)) return false;
    if (!inside && of < 0 && !(divided && ot_is(n, &ot_op_Sigmoid))) return false;
    t->shares = true;
    t->kind = OT_TAIL_SOFTMAX;
    t->x = of >= 0 ? producer_in(both, of)->in[0] : n->in[0];
    t->pair = of >= 0 ? both : NULL;
    t->of = of;
    if ((inside || of >= 0) &&
        !(known(both->out[0]) && ot_axis(ot_attr_get(both, "axis", 0), both->out[0]->shape.rank, &t->axis)))
        t->axis = -1;
    return true;
}

/* Probabilities of another origin (shares.h), with from `least` to `most` moves of t after them, of v after
 * the first `least`. */
static bool find_probabilities(ot_tail *t, int least, int most, const ot_value *v)
{
    for (int i = most; i >= least; i--) {
        ot_value *x = i > least ? t->move[i - 1]->in[0] : (ot_value *)(uintptr_t)v;
        int axis = known(x) ? ot_shares_axis(x) : -1;
        if (axis < 0) continue;
        t->kind = OT_TAIL_SOFTMAX;
        t->probs = true;
        t->x = x;
        t->axis = axis;
        t->n = i;
        return true;
    }
    return false;
}

/* The logarithms whose Softmax is the tail.  Of 0 there is none: probabilities are at least the smallest normal number (of float16
 * the smallest of all), so that smaller ones alone get no gradient. */
static ot_value *log_probabilities(ot_build *b, const ot_tail *t)
{
    double least = t->x->dtype == OT_F16 ? 0x1p-24 : (double)FLT_MIN;
    return ot_map1(b, OT_FN_Log, 0, 0, ot_map2(b, OT_FN_Max, 0, 0, t->x, ot_scalar(b, t->x->dtype, least)));
}

static ot_value *log_shares(ot_build *b, const ot_tail *t)
{
    ot_value *z = t->x, *no = ot_map1(b, OT_FN_Neg, 0, 0, z);
    if (t->pair)
        z = ot_emit(b, t->pair->op, t->pair->attrs, t->of ? (ot_value *[]){ no, z } : (ot_value *[]){ z, no }, 2);
    return ot_map1(b, OT_FN_Neg, 0, 0, ot_map1(b, OT_FN_Softplus, 0, 0, ot_map1(b, OT_FN_Neg, 0, 0, z)));
}

/* ---- the tail ------------------------------------------------------------------- */

int ot_normalised_axis(const ot_node *n)
{
    const ot_shape *s = &n->in[0]->shape;
    int axis;
    if (!known(n->in[0]) || !ot_axis(ot_attr_get(n, "axis", -1), s->rank, &axis)) return -1;
    if (!ot_attr_get(n, "flatten", 0)) return axis;
    int found = -1;
    for (int d = axis; d < s->rank; d++) {
        if (s->dim[d] == 1) continue;
        if (found >= 0) return -1;
        found = d;
    }
    return found < 0 ? axis : found;
}

static ot_tail_kind kind_of(const ot_node *n, bool log, bool clipped_log)
{
    if (clipped_log) return OT_TAIL_NONE;
    if (ot_is(n, &ot_op_Softmax)) return log ? OT_TAIL_LOG_SOFTMAX : OT_TAIL_SOFTMAX;
    if (ot_is(n, &ot_op_LogSoftmax) && !log) return OT_TAIL_LOG_SOFTMAX;
    return ot_is(n, &ot_op_Sigmoid) && !log ? OT_TAIL_SIGMOID : OT_TAIL_NONE;
}

/* The axis after n that contains the axis that t normalises, -1: unknown yet.  A division by a sum must be over this
 * axis. */
static int follow(const ot_tail *t, const ot_node *n, int axis)
{
    int64_t along;
    int same;
    if (!known(n->in[0]) || !known(n->out[0])) return -1;
    if (guards_sum(n)) return axis;
    if (!divides_by_sum(n, &along)) return axis < 0 ? -1 : ot_mover_of(n)->follow(n, axis);
    if (!ot_axis(along, n->in[0]->shape.rank, &same)) return -1;
    return same == axis || (axis < 0 && t->shares && !t->pair) ? same : -1;
}

ot_tail ot_tail_find(const ot_value *v)
{
    int64_t along;
    ot_tail t = { .axis = -1 };
    const ot_node *n = v->producer;
    bool log = false, clip = false, clipped_log = false, divided = false;
    int divided_at = -1, log_at = 0; /* moves after it */
    for (; n && n->n_in; n = n->in[0]->producer) {
        if (ot_is(n, &ot_op_Log) && !log) {
            log = true, clipped_log = clip, log_at = t.n;
            v = n->in[0];
            continue;
        }
        bool divides = !divided && !log && divides_by_sum(n, &along);
        bool guards = divided && t.n && t.move[t.n - 1]->in[0]->producer == n && guards_sum(n);
        if (!divides && !guards && !ot_mover_of(n)) break;
        if (t.n == OT_TAIL_MOVES) return (ot_tail){ .axis = -1 };
        if (divides) divided = true, divided_at = t.n;
        clip |= ot_is(n, &ot_op_Clip);
        t.move[t.n++] = n;
    }
    if (ot_is(n, &ot_op_LogSoftmax)) clipped_log |= clip;
    if (!n || log || !find_shares(&t, n, divided)) {
        t.kind = n ? kind_of(n, log, clipped_log) : OT_TAIL_NONE;
        if (!t.kind || (divided && t.kind != OT_TAIL_SOFTMAX)) {
            if (clipped_log || !find_probabilities(&t, log_at, divided ? divided_at : t.n, v))
                return (ot_tail){ .axis = -1 };
            if (log) t.kind = OT_TAIL_LOG_SOFTMAX;
        } else {
            t.x = n->in[0];
            if (t.kind != OT_TAIL_SIGMOID) t.axis = ot_normalised_axis(n);
        }
    }
    for (int i = t.n - 1; i >= 0 && (t.axis >= 0 || t.shares); i--) t.axis = follow(&t, t.move[i], t.axis);
    return t;
}

const char *ot_tail_name(const ot_tail *t)
{
    static const char *const name[] = { "", "Softmax", "LogSoftmax", "Sigmoid" };
    return t->shares  ? "normalised Sigmoid (its probabilities add up to 1)"
           : t->probs ? "probabilities that add up to 1"
                      : name[t->kind];
}

ot_value *ot_tail_undo(ot_build *b, const ot_tail *t)
{
    ot_value *v = t->shares ? log_shares(b, t) : t->probs ? log_probabilities(b, t) : t->x;
    for (int i = t->n - 1; i >= 0 && v; i--) {
        const ot_node *n = t->move[i];
        ot_value *in[8] = { v };
        if (ot_is(n, &ot_op_Clip) || rounds(n) || ot_is(n, &ot_op_Identity) || ot_is(n, &ot_op_Div) || guards_sum(n) ||
            n->n_in > OT_LEN(in))
            continue;
        for (int k = 1; k < n->n_in; k++) in[k] = n->in[k];
        v = ot_emit(b, n->op, n->attrs, in, n->n_in);
    }
    return v;
}

const char *ot_tail_moves(const ot_tail *t, char *buf, size_t size)
{
    size_t at = 0;
    bool clip = false, round = false;
    *buf = '\0';
    for (int i = t->n - 1; i >= 0 && at < size; i--) {
        const char *op = t->move[i]->op->name;
        if (!strcmp(op, "Identity")) continue;
        clip |= !strcmp(op, "Clip");
        round |= rounds(t->move[i]);
        at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : " (followed by: ", op);
    }
    if (at && at < size)
        snprintf(buf + at, size - at, "%s)",
                 clip && round ? "; the loss is computed without the Clip and the rounding"
                 : clip        ? "; the loss is computed without the Clip"
                 : round       ? "; the loss is computed without the rounding"
                               : "");
    return buf;
}

/* ---- the class axis ----------------------------------------------------------------- */

/* The axis of its output along which the layer has its features; -1: n is no such layer. */
static int layer_axis(const ot_node *n)
{
    if (ot_is(n, &ot_op_Gemm) || (ot_is(n, &ot_op_MatMul) && n->in[1]->shape.rank == 2))
        return n->out[0]->shape.rank - 1;
    return ot_is(n, &ot_op_Conv) || ot_is(n, &ot_op_ConvTranspose) || ot_is(n, &ot_op_BatchNormalization) ? 1 : -1;
}

/* The only input with the shape of n's output, for element-wise operators: a bias, an activation, a norm; NULL:
 * none, or several. */
static const ot_value *through(const ot_node *n)
{
    const ot_value *found = NULL;
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *v = n->in[i];
        if (!v || !v->producer || !known(v) || !ot_shape_eq(&v->shape, &n->out[0]->shape)) continue;
        if (found) return NULL;
        found = v;
    }
    return found;
}

int ot_made_axis(const ot_value *v, const ot_node **by)
{
    enum { FAR = 32 };
    const ot_node *path[FAR];
    int n_path = 0, axis = -1;
    for (const ot_node *n = v->producer; n && n_path < FAR; n = v->producer) {
        if (!known(n->out[0]) || !n->n_in || !n->in[0] || !known(n->in[0])) return -1;
        *by = n;
        axis = layer_axis(n);
        if (axis >= 0) break;
        path[n_path++] = n;
        v = ot_mover_of(n) ? n->in[0] : through(n);
        if (!v) return -1;
    }
    for (int i = n_path - 1; i >= 0 && axis >= 0; i--) {
        const ot_mover *m = ot_mover_of(path[i]);
        if (m) axis = m->follow(path[i], axis);
    }
    return axis;
}

bool ot_made_hard_sigmoid(const ot_value *v)
{
    const ot_node *n = v->producer;
    while (n && ot_mover_of(n)) n = n->in[0]->producer;
    return ot_is(n, &ot_op_HardSigmoid);
}

bool ot_made_linear(const ot_value *v)
{
    for (const ot_node *n = v->producer; n; n = v->producer) {
        if (ot_is(n, &ot_op_Gemm) || ot_is(n, &ot_op_MatMul) || ot_is(n, &ot_op_Conv) || ot_is(n, &ot_op_ConvTranspose))
            return true;
        if (ot_is(n, &ot_op_Add) && n->n_in == 2 && !n->in[0]->producer != !n->in[1]->producer)
            v = n->in[n->in[0]->producer ? 0 : 1];
        else if (ot_mover_of(n) && !ot_is(n, &ot_op_Clip)) v = n->in[0];
        else return false;
    }
    return false;
}
