/* batching.c - the position of micro-batches in a value, and how to move them to another axis. */
#include "ops/onnx/batching.h"

#include <string.h>

/* ---- shapes ------------------------------------------------------------------- */

static bool scaled(const ot_batching *b, int64_t d, int64_t *out)
{
    if (b->count) return ot_mul(d, b->count, out);
    return d % b->from == 0 && ot_mul(d / b->from, b->to, out);
}

bool ot_joined_shape(const ot_batching *b, const ot_shape *s, int mark, ot_shape *out)
{
    *out = *s;
    if (!mark) return true;
    if (mark == OT_ALONE) {
        *out = (ot_shape){ .rank = 1, .dim = { b->count } };
        return b->count != 0;
    }
    return mark <= s->rank && scaled(b, s->dim[mark - 1], &out->dim[mark - 1]);
}

ot_shape ot_own_shape(const ot_batching *b, const ot_value *v)
{
    ot_shape s = v->shape;
    if (v->mark == OT_ALONE) s.rank = 0;
    else if (v->mark)
        s.dim[v->mark - 1] = b->count ? s.dim[v->mark - 1] / b->count : s.dim[v->mark - 1] / b->to * b->from;
    return s;
}

/* s with an axis of n elements inserted before axis `at`; false: too many axes. */
bool ot_with_axis(const ot_shape *s, int at, int64_t n, ot_shape *out)
{
    if (s->rank == OT_MAX_RANK) return false;
    *out = (ot_shape){ .rank = s->rank + 1 };
    for (int d = 0; d < out->rank; d++) out->dim[d] = d < at ? s->dim[d] : d == at ? n : s->dim[d - 1];
    return true;
}

int64_t ot_elements(const ot_shape *s, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= s->dim[d];
    return n;
}

/* s with leading axes of one element, up to `rank`. */
ot_shape ot_padded_shape(const ot_shape *s, int rank)
{
    ot_shape p = { .rank = rank };
    for (int d = 0; d < rank; d++) p.dim[d] = d < rank - s->rank ? 1 : s->dim[d - (rank - s->rank)];
    return p;
}

/* ---- helper nodes ------------------------------------------------------------- */

ot_value *ot_batch_emit(ot_batching *b, const char *op, ot_value *const *in, int n_in)
{
    ot_node *n = ot_graph_node(b->g, ot_find_op("", op), "", NULL, in, n_in, 1);
    return n && ot_node_infer(n, b->g->err) == OT_OK ? n->out[0] : NULL;
}

ot_value *ot_batch_ints(ot_batching *b, const int64_t *list, int n)
{
    return ot_graph_const(b->g, "", OT_I64, &(ot_shape){ .rank = 1, .dim = { n } }, list);
}

ot_value *ot_batch_shape(ot_batching *b, const ot_shape *s) { return ot_batch_ints(b, s->dim, s->rank); }

ot_value *ot_batch_reshape(ot_batching *b, ot_value *v, const ot_shape *s, int mark)
{
    if (v && !ot_shape_eq(&v->shape, s)) v = ot_batch_emit(b, "Reshape", OT_IN(v, ot_batch_shape(b, s)));
    if (v) v->mark = mark;
    return v;
}

ot_value *ot_batch_expand(ot_batching *b, ot_value *v, const ot_shape *s)
{
    if (!v || ot_shape_eq(&v->shape, s)) return v;
    return ot_batch_emit(b, "Expand", OT_IN(v, ot_batch_shape(b, s)));
}

/* Moves the batch of v, of own shape p (its own, or with axes of one element inserted), from axis `at` of that to
 * axis `to`. */
static ot_value *moved(ot_batching *b, ot_value *v, const ot_shape *p, int at, int to)
{
    ot_shape y;
    int lo = at < to ? at : to, hi = at < to ? to : at;
    int64_t before = ot_elements(p, 0, lo), between = ot_elements(p, lo, hi), after = ot_elements(p, hi, p->rank);
    if (!ot_joined_shape(b, p, ot_on_axis(to), &y)) return NULL;
    if (between != 1 && !b->count) return NULL;
    if (between != 1) {
        bool back = to < at;
        ot_shape wide = { .rank = 4, .dim = { before, back ? between : b->count, back ? b->count : between, after } };
        ot_node *t = ot_graph_node(b->g, ot_find_op("", "Transpose"), "", NULL,
                                   OT_IN(ot_batch_reshape(b, v, &wide, v->mark)), 1);
        int64_t *perm = ot_graph_alloc(b->g, 4 * sizeof *perm);
        if (!t || !perm || !t->in[0]) return NULL;
        memcpy(perm, (int64_t[]){ 0, 2, 1, 3 }, 4 * sizeof *perm);
        *(ot_ints *)((char *)(uintptr_t)t->attrs + ot_attr_of(t->op, "perm")->offset) = (ot_ints){ 4, perm };
        if (ot_node_infer(t, b->g->err) != OT_OK) return NULL;
        v = t->out[0];
    }
    return ot_batch_reshape(b, v, &y, ot_on_axis(to));
}

ot_value *ot_batch_move(ot_batching *b, ot_value *v, int axis)
{
    ot_shape s = ot_own_shape(b, v);
    if (v->mark == ot_on_axis(axis)) return v;
    return v->mark == OT_ALONE ? NULL : moved(b, v, &s, ot_batch_axis(v), axis);
}

/* A batched v for operands that broadcast to `rank` axes: moves its batch to axis `axis`. */
ot_value *ot_batch_placed(ot_batching *b, ot_value *v, int rank, int axis)
{
    ot_shape s = ot_own_shape(b, v), p = ot_padded_shape(&s, rank);
    int at = v->mark == OT_ALONE ? axis : ot_batch_axis(v) + rank - s.rank;
    if (v->mark != OT_ALONE && at == axis) return v;
    return moved(b, v, &p, at, axis);
}

/* A batched v, of own shape p, with a separate axis for the micro-batches before axis `at`. */
ot_value *ot_batch_apart(ot_batching *b, ot_value *v, const ot_shape *p, int at)
{
    ot_shape wide;
    if (!b->count || !ot_with_axis(p, at, b->count, &wide)) return NULL;
    return ot_batch_reshape(b, v, &wide, v->mark);
}

/* Any v with a leading axis for the micro-batches; repeated if it is the same for all. */
ot_value *ot_batch_full(ot_batching *b, ot_value *v)
{
    ot_shape s = ot_own_shape(b, v), one, all;
    if (!b->count || !ot_with_axis(&s, 0, 1, &one) || !ot_with_axis(&s, 0, b->count, &all)) return NULL;
    if (!v->mark) return ot_batch_expand(b, ot_batch_reshape(b, v, &one, 0), &all);
    if (v->mark == OT_ALONE) return v;
    v = ot_batch_move(b, v, 0);
    return v ? ot_batch_reshape(b, v, &all, v->mark) : NULL;
}

/* Any v with its batch on `axis`; repeated if it is the same for all. */
ot_value *ot_batch_spread(ot_batching *b, ot_value *v, int axis)
{
    ot_shape one, all, y;
    if (v->mark) return ot_batch_move(b, v, axis);
    if (axis >= v->shape.rank || !b->count || !ot_with_axis(&v->shape, axis, 1, &one) ||
        !ot_with_axis(&v->shape, axis, b->count, &all) || !ot_joined_shape(b, &v->shape, ot_on_axis(axis), &y))
        return NULL;
    return ot_batch_reshape(b, ot_batch_expand(b, ot_batch_reshape(b, v, &one, 0), &all), &y, ot_on_axis(axis));
}
