/* tails.c - how a graph ends.
 *
 * Exporters put operators that move elements (Squeeze, Reshape, Transpose, Slice, Cast ...) or clip probabilities behind the
 * Softmax or Sigmoid of a network.  A loss is joined with the tail by moving them in front of it: a Softmax of moved
 * elements is the moved Softmax, as long as the elements that it adds up stay together along one axis. */
#include "runtime/passes/tails.h"

#include <stdio.h>
#include <string.h>

static bool is(const ot_node *n, const char *op) { return n && !strcmp(n->op->name, op); }

static const void *attr_of(const ot_node *n, const char *name)
{
    for (const ot_attr *a = n->op->attrs; a && a->name; a++)
        if (!strcmp(a->name, name)) return (const char *)n->attrs + a->offset;
    return NULL;
}

static int64_t attr_int(const ot_node *n, const char *name, int64_t dflt)
{
    const void *at = attr_of(n, name);
    if (at) memcpy(&dflt, at, sizeof dflt);
    return dflt;
}

/* ---- operators that move elements ---------------------------------------------- */

static bool known(const ot_value *v) { return v->shape.rank >= 0 && ot_shape_known(&v->shape); }

static int64_t behind(const ot_shape *s, int axis)
{
    int64_t n = 1;
    for (int d = axis + 1; d < s->rank; d++) n *= s->dim[d];
    return n;
}

/* Each says where an axis of its input is found, whole and in order, in its output; -1: nowhere. */
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
    int     rank = n->in[0]->shape.rank, from;
    ot_ints perm;
    memcpy(&perm, attr_of(n, "perm"), sizeof perm);
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
    if (!ot_axis(attr_int(n, "axis", 0), n->in[0]->shape.rank, &along) || along == axis) return -1;
    return axis < along ? axis : axis + n->in[1]->shape.rank - 1;
}

typedef struct mover {
    const char *op;
    int       (*follow)(const ot_node *n, int axis);
} mover;

static const mover movers[] = {
    { "Identity", stays },    { "Cast", stays },     { "Clip", stays },       { "Squeeze", reshaped }, { "Unsqueeze", reshaped },
    { "Reshape", reshaped },  { "Flatten", reshaped }, { "Transpose", transposed }, { "Slice", sliced },   { "Gather", gathered },
};

/* Clip's bound i; `none` where it has none; NaN: it is not known. */
static double bound(const ot_node *n, int i, double none)
{
    if (n->n_in <= i || !n->in[i]) return none;
    return ot_is_const(n->in[i]) && ot_numel(&n->in[i]->shape) == 1 ? ot_get_f64(n->in[i]->data, n->in[i]->dtype, 0) : NAN;
}

/* It takes the ends off what is a probability: they have no logarithm. */
static bool clips_ends(const ot_node *n)
{
    double lo = bound(n, 1, -INFINITY), hi = bound(n, 2, INFINITY), room = 1e-3;
    return lo <= room && hi >= 1 - room;
}

static const mover *mover_of(const ot_node *n)
{
    for (int i = 0; i < OT_LEN(movers); i++)
        if (is(n, movers[i].op)) {
            bool floats = ot_is_float(n->in[0]->dtype) == ot_is_float(n->out[0]->dtype);
            if (movers[i].follow == gathered && !ot_is_const(n->in[1])) return NULL;
            if (is(n, "Clip") && !clips_ends(n)) return NULL;
            return floats ? &movers[i] : NULL;
        }
    return NULL;
}

/* ---- the tail ------------------------------------------------------------------- */

/* The one axis that a Softmax normalises.  Old forms take all from `axis` on: one of them has elements. */
static int normalised(const ot_node *n)
{
    const ot_shape *s = &n->in[0]->shape;
    int             axis;
    if (!known(n->in[0]) || !ot_axis(attr_int(n, "axis", -1), s->rank, &axis)) return -1;
    if (!attr_int(n, "flatten", 0)) return axis;
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
    if (is(n, "Softmax")) return log ? OT_TAIL_LOG_SOFTMAX : OT_TAIL_SOFTMAX;
    if (is(n, "LogSoftmax") && !log) return OT_TAIL_LOG_SOFTMAX;
    return is(n, "Sigmoid") && !log ? OT_TAIL_SIGMOID : OT_TAIL_NONE;
}

ot_tail ot_tail_find(const ot_value *v)
{
    ot_tail        t = { .axis = -1 };
    const ot_node *n = v->producer;
    bool           log = false, clip = false, clipped_log = false;
    for (; n && n->n_in; n = n->in[0]->producer) {
        if (is(n, "Log") && !log) {
            log = true, clipped_log = clip;
            continue;
        }
        if (!mover_of(n)) break;
        if (t.n == OT_TAIL_MOVES) return (ot_tail){ .axis = -1 };
        clip |= is(n, "Clip");
        t.move[t.n++] = n;
    }
    if (is(n, "LogSoftmax")) clipped_log |= clip;
    t.kind = n ? kind_of(n, log, clipped_log) : OT_TAIL_NONE;
    if (!t.kind) return (ot_tail){ .axis = -1 };
    t.x = n->in[0];
    if (t.kind != OT_TAIL_SIGMOID) t.axis = normalised(n);
    for (int i = t.n - 1; i >= 0 && t.axis >= 0; i--)
        t.axis = known(t.move[i]->in[0]) && known(t.move[i]->out[0]) ? mover_of(t.move[i])->follow(t.move[i], t.axis) : -1;
    return t;
}

const char *ot_tail_name(ot_tail_kind kind)
{
    static const char *const name[] = { "", "Softmax", "LogSoftmax", "Sigmoid" };
    return name[kind];
}

ot_value *ot_tail_undo(ot_build *b, const ot_tail *t)
{
    ot_value *v = t->x;
    for (int i = t->n - 1; i >= 0 && v; i--) {
        const ot_node *n = t->move[i];
        ot_value      *in[8] = { v };
        if (is(n, "Clip") || is(n, "Identity") || n->n_in > OT_LEN(in)) continue;
        for (int k = 1; k < n->n_in; k++) in[k] = n->in[k];
        v = ot_emit(b, n->op, n->attrs, in, n->n_in);
    }
    return v;
}

const char *ot_tail_moves(const ot_tail *t, char *buf, size_t size)
{
    size_t at = 0;
    bool   clip = false;
    *buf = '\0';
    for (int i = t->n - 1; i >= 0 && at < size; i--) {
        const char *op = t->move[i]->op->name;
        if (!strcmp(op, "Identity")) continue;
        clip |= !strcmp(op, "Clip");
        at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : " (behind it: ", op);
    }
    if (at && at < size) snprintf(buf + at, size - at, "%s)", clip ? "; the loss is taken without the Clip" : "");
    return buf;
}

/* ---- which axis the classes lie on ------------------------------------------------ */

/* The axis of its output along which the layer has its outputs; -1: n is no such layer. */
static int layer_axis(const ot_node *n)
{
    if (is(n, "Gemm") || (is(n, "MatMul") && n->in[1]->shape.rank == 2)) return n->out[0]->shape.rank - 1;
    return is(n, "Conv") || is(n, "ConvTranspose") || is(n, "BatchNormalization") ? 1 : -1;
}

/* The input that has the shape of n's output, by element: of a bias, an activation, a norm; NULL: there is none, or several. */
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
    int            n_path = 0, axis = -1;
    for (const ot_node *n = v->producer; n && n_path < FAR; n = v->producer) {
        if (!known(n->out[0]) || !n->n_in || !n->in[0] || !known(n->in[0])) return -1;
        *by = n;
        axis = layer_axis(n);
        if (axis >= 0) break;
        path[n_path++] = n;
        v = mover_of(n) ? n->in[0] : through(n);
        if (!v) return -1;
    }
    for (int i = n_path - 1; i >= 0 && axis >= 0; i--) {
        const mover *m = mover_of(path[i]);
        if (m) axis = m->follow(path[i], axis);
    }
    return axis;
}
