/* flex.c - FlexAttention is expanded while shapes are inferred. */
#include <string.h>

#include "ops/onnx/flexattention.h"
#include "runtime/passes/control.h"
#include "runtime/passes/passes.h"

static ot_value *emit(ot_graph *g, const ot_node *n, const char *op, ot_value *const *in, int n_in)
{
    ot_node *k = ot_graph_node(g, ot_find_op("", op), n->name, NULL, in, n_in, 1);
    return k ? k->out[0] : NULL;
}

static void set_float(ot_node *n, const char *name, double v)
{
    for (const ot_attr *a = n->op->attrs; a && a->name; a++)
        if (!strcmp(a->name, name)) memcpy((char *)(uintptr_t)n->attrs + a->offset, &v, sizeof v);
}

static ot_value *cast(ot_graph *g, const ot_node *n, ot_value *x, ot_dtype to)
{
    ot_value *y = emit(g, n, "Cast", &x, 1);
    if (y) ot_set_attr(y->producer, "to", to);
    return y;
}

static ot_value *sizes(ot_graph *g, const int64_t *v, int64_t n)
{
    return ot_graph_const(g, "", OT_I64, &(ot_shape){ .rank = 1, .dim = { n } }, v);
}

/* Repeats every head for each query head of its group. */
static ot_value *for_queries(ot_graph *g, const ot_node *n, ot_value *x)
{
    const int64_t *d = x->shape.dim, heads = n->in[0]->shape.dim[1];
    int64_t two = 2, all[] = { d[0], d[1], heads / d[1], d[2], d[3] }, joined[] = { d[0], heads, d[2], d[3] };
    if (heads == d[1]) return x;
    x = emit(g, n, "Unsqueeze", OT_IN(x, sizes(g, &two, 1)));
    x = emit(g, n, "Expand", OT_IN(x, sizes(g, all, 5)));
    return emit(g, n, "Reshape", OT_IN(x, sizes(g, joined, 4)));
}

/* Applies the body to x; the shape is unchanged. */
static ot_value *modified(ot_graph *g, const ot_node *n, const ot_graph *body, ot_value *x)
{
    if (!body || !x) return x;
    ot_graph *copy = ot_iteration(g, n, body, &x);
    return copy && ot_splice(g, copy) == OT_OK ? copy->outputs[0] : NULL;
}

ot_status ot_spell_flex(ot_graph *g, ot_node *n, bool *over)
{
    const ot_flex_attrs *a = n->attrs;
    ot_dtype t = n->in[0]->dtype, soft = a->softmax_precision ? (ot_dtype)a->softmax_precision
                                         : t == OT_F64        ? OT_F64
                                                              : OT_F32;
    int64_t D = n->in[0]->shape.dim[3];
    double scale = a->scale != 0 ? a->scale : 1 / sqrt((double)(D ? D : 1)), each = sqrt(fabs(scale));
    uint64_t bytes[2] = { 0 };
    *over = true;
    if (!a->score_mod && !a->prob_mod) {
        OT_TRY(ot_deliver(g, n, 0, "Attention", n->in, 3));
        set_float(n->out[0]->producer, "scale", scale);
        ot_set_attr(n->out[0]->producer, "softmax_precision", soft);
        return OT_OK;
    }
    /* Half of the scale on each side, as in the standard: values in 16 bits stay smaller. */
    ot_set_f64(&bytes[0], t, 0, scale < 0 ? -each : each);
    ot_set_f64(&bytes[1], t, 0, each);
    ot_value *q = emit(g, n, "Mul", OT_IN(n->in[0], ot_graph_const(g, "", t, &OT_SCALAR, &bytes[0])));
    ot_value *k = for_queries(g, n, n->in[1]), *v = for_queries(g, n, n->in[2]);
    k = emit(g, n, "Mul", OT_IN(k, ot_graph_const(g, "", t, &OT_SCALAR, &bytes[1])));
    k = emit(g, n, "Transpose", &k, 1);
    if (!k || !v) return g->err->status;
    static const int64_t last_two[] = { 0, 1, 3, 2 };
    for (const ot_attr *row = k->producer->op->attrs; row->name; row++)
        if (!strcmp(row->name, "perm"))
            *(ot_ints *)(void *)((char *)(uintptr_t)k->producer->attrs + row->offset) = (ot_ints){ 4, last_two };
    ot_value *s = modified(g, n, a->score_mod, cast(g, n, emit(g, n, "MatMul", OT_IN(q, k)), soft));
    s = emit(g, n, "Softmax", &s, 1);
    if (!s) return g->err->status;
    ot_set_attr(s->producer, "axis", -1);
    s = cast(g, n, modified(g, n, a->prob_mod, s), t);
    return s ? ot_deliver(g, n, 0, "MatMul", OT_IN(s, v)) : g->err->status;
}
