/* build.c - the functions with which lowerings and gradients build nodes.
 *
 * Every call checks the graph's sticky error first, so a rule needs no checks of its own. */
#include "ops/op.h"

#include <string.h>

#include "ops/kernels/copy.h"
#include "ops/kernels/dot.h"
#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"

static bool broken(const ot_build *b) { return b->graph->err && b->graph->err->status != OT_OK; }

ot_node *ot_emit_n(ot_build *b, const ot_op *op, const void *attrs, ot_value *const *in, int n_in, int n_out)
{
    if (broken(b)) return NULL;
    ot_node *n = ot_graph_node(b->graph, op, b->node ? b->node->name : op->name, attrs, in, n_in, n_out);
    if (!n || ot_node_infer(n, b->graph->err) != OT_OK) return NULL;
    for (int i = 0; i < n_out; i++)
        if (!ot_shape_known(&n->out[i]->shape) || !ot_shape_fits(&n->out[i]->shape, n->out[i]->dtype)) {
            ot_node_fail(n, b->graph->err, "the result is too large to describe");
            return NULL;
        }
    return n;
}

ot_value *ot_emit(ot_build *b, const ot_op *op, const void *attrs, ot_value *const *in, int n_in)
{
    ot_node *n = ot_emit_n(b, op, attrs, in, n_in, 1);
    return n ? n->out[0] : NULL;
}

void ot_yield(ot_build *b, int output, ot_value *v)
{
    if (!broken(b)) b->yield[output] = v;
}

bool ot_wants(const ot_build *b, int input) { return input < b->node->n_in && b->node->in[input] && b->wants[input]; }

ot_value *ot_dout(const ot_build *b, int output) { return output < b->node->n_out ? b->dout[output] : NULL; }

void ot_set_din(ot_build *b, int input, ot_value *dx)
{
    if (!broken(b)) b->din[input] = dx;
}

/* ---- constants ------------------------------------------------------------- */

ot_value *ot_scalar(ot_build *b, ot_dtype t, double v)
{
    uint64_t bytes = 0;
    if (broken(b)) return NULL;
    ot_set_f64(&bytes, t, 0, v);
    return ot_graph_const(b->graph, "", t, &OT_SCALAR, &bytes);
}

ot_value *ot_ints_const(ot_build *b, const int64_t *v, int n)
{
    if (broken(b)) return NULL;
    return ot_graph_const(b->graph, "", OT_I64, &(ot_shape){ .rank = 1, .dim = { n } }, v);
}

/* ---- element-wise ---------------------------------------------------------- */

/* The type of a function's result: bool for comparisons, else that of the first operand that is not bool (Where's
 * data, a mask's factor). */
static ot_value *map(ot_build *b, int row, double p, double q, ot_value *const *in, int n)
{
    if (broken(b)) return NULL;
    ot_dtype t = OT_BOOL;
    for (int i = n - 1; i >= 0; i--)
        if (in[i] && in[i]->dtype != OT_BOOL) t = in[i]->dtype;
    return ot_map_emit(b, row, p, q, in, n, ot_fn_is_compare(row) ? OT_BOOL : t);
}

ot_value *ot_map1(ot_build *b, int row, double p, double q, ot_value *a) { return map(b, row, p, q, OT_IN(a)); }

ot_value *ot_map2(ot_build *b, int row, double p, double q, ot_value *a, ot_value *c)
{
    return map(b, row, p, q, OT_IN(a, c));
}

ot_value *ot_map3(ot_build *b, int row, double p, double q, ot_value *a, ot_value *c, ot_value *d)
{
    return map(b, row, p, q, OT_IN(a, c, d));
}

ot_value *ot_cast(ot_build *b, ot_value *x, ot_dtype t)
{
    if (broken(b)) return NULL;
    return x->dtype == t ? x : ot_map_emit(b, OT_FN_Copy, 0, 0, &x, 1, t);
}

/* ---- shapes ---------------------------------------------------------------- */

ot_value *ot_view(ot_build *b, ot_value *x, const ot_shape *s)
{
    if (broken(b)) return NULL;
    return ot_shape_eq(&x->shape, s) ? x : ot_emit(b, &ot_op_View, &(ot_view_attrs){ *s }, OT_IN(x));
}

ot_value *ot_sum(ot_build *b, ot_value *x, const int64_t *axes, int n, bool keepdims)
{
    if (broken(b)) return NULL;
    ot_reduce a = { .kind = OT_REDUCE_SUM, .keepdims = keepdims };
    for (int i = 0; i < n; i++) a.axes |= (int64_t)1 << axes[i];
    return n ? ot_emit(b, &ot_op_Reduce, &a, OT_IN(x)) : x;
}

ot_value *ot_sum_to(ot_build *b, ot_value *x, const ot_shape *s, bool wide)
{
    if (broken(b) || ot_shape_eq(&x->shape, s)) return broken(b) ? NULL : x;
    ot_reduce a = { .kind = OT_REDUCE_SUM, .keepdims = 1, .wide = wide };
    int lead = x->shape.rank - s->rank;
    for (int d = 0; d < x->shape.rank; d++)
        if (d < lead || s->dim[d - lead] != x->shape.dim[d]) a.axes |= (int64_t)1 << d;
    ot_value *y = a.axes ? ot_emit(b, &ot_op_Reduce, &a, OT_IN(x)) : x;
    return y ? ot_view(b, y, s) : NULL;
}

/* A Copy with one piece that covers the output. */
static ot_value *copy_one(ot_build *b, ot_value *x, const ot_shape *out, const int64_t *stride)
{
    ot_piece *p = ot_graph_alloc(b->graph, sizeof *p);
    if (!p) return NULL;
    for (int d = 0; d < out->rank; d++) {
        p->stride[d] = stride[d];
        p->extent[d] = out->dim[d];
    }
    return ot_emit(b, &ot_op_Copy, &(ot_copy){ .shape = *out, .n = 1, .piece = p }, OT_IN(x));
}

ot_value *ot_expand(ot_build *b, ot_value *x, const ot_shape *s)
{
    if (broken(b) || ot_shape_eq(&x->shape, s)) return broken(b) ? NULL : x;
    int64_t xs[OT_MAX_RANK], stride[OT_MAX_RANK] = { 0 };
    int lead = s->rank - x->shape.rank;
    ot_strides(&x->shape, xs);
    for (int d = lead; d < s->rank; d++) stride[d] = x->shape.dim[d - lead] == 1 ? 0 : xs[d - lead];
    return copy_one(b, x, s, stride);
}

ot_value *ot_transpose(ot_build *b, ot_value *x, const int *perm)
{
    if (broken(b)) return NULL;
    int64_t xs[OT_MAX_RANK], stride[OT_MAX_RANK];
    ot_shape s = { .rank = x->shape.rank };
    bool moved = false;
    ot_strides(&x->shape, xs);
    for (int d = 0; d < s.rank; d++) {
        s.dim[d] = x->shape.dim[perm[d]];
        stride[d] = xs[perm[d]];
        moved |= perm[d] != d;
    }
    return moved ? copy_one(b, x, &s, stride) : x;
}

ot_value *ot_matmul(ot_build *b, ot_value *a, bool ta, ot_value *c, bool tc)
{
    return ot_emit(b, &ot_op_Dot, &(ot_dot){ ta, tc }, OT_IN(a, c));
}
