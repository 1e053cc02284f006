/* recognise_norm.c - decomposed LayerNormalization and RMSNormalization become one LayerNorm, decomposed
 * BatchNormalization with batch statistics one BatchNorm.
 *
 * Recognised forms, with m = mean(x), d = x - m, v = mean(d d) or, without a mean, mean(x x), over trailing axes
 * (rows), or over all axes except one that is not last (channels, only with a mean):
 *
 *     r = 1 / sqrt(v + epsilon)                  as Div, Reciprocal, Rsqrt or a power
 *     d r, d / sqrt(v + epsilon)                 PyTorch, Paddle; x for d: RMSNormalization
 *     x (r scale) + (bias - m (r scale))         Keras
 *     ... scale + bias                           included if they have one value per element of a row, or per channel
 *
 * The difference may be computed twice (x - m once for the square, once for the result).  Other readers of the
 * intermediate values keep them; unread ones are pruned. */
#include "ops/kernels/batchnorm.h"
#include "ops/kernel.h"
#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/layernorm.h"
#include "runtime/passes/recognise.h"

/* A division by the deviation of rows or channels. */
typedef struct norm {
    ot_value *x, *mean; /* mean: NULL without centering */
    ot_value *scale, *bias;
    ot_layer_norm a;
    int64_t axes; /* bit d: axis d of x is averaged over */
    int channels; /* the one axis that is not averaged; -1: rows of the axes from a.axis on */
} norm;

/* The producer of v, where it is a Map of that row. */
static const ot_node *made_by(const ot_value *v, int row)
{
    return v && v->producer && ot_recognise_row(v->producer) == row ? v->producer : NULL;
}

/* v before operators that change only its shape. */
static ot_value *unviewed(ot_value *v)
{
    while (v->producer && v->producer->op == &ot_op_View) v = v->producer->in[0];
    return v;
}

/* The same for a mean or deviation; its shape where it is combined with x is `meets`. */
static const ot_node *vector_by(ot_value *v, int row) { return v ? made_by(unviewed(v), row) : NULL; }

/* Does v have one element per mean over those axes of x, where it broadcasts to x? */
static bool meets(const ot_value *v, const ot_value *x, int64_t axes)
{
    if (v->shape.rank > x->shape.rank) return false;
    for (int d = x->shape.rank - 1, e = v->shape.rank - 1; d >= 0; d--, e--)
        if ((e >= 0 ? v->shape.dim[e] : 1) != (axes >> d & 1 ? 1 : x->shape.dim[d])) return false;
    return true;
}

/* If v = sum / D over axes of x: x.  NULL: it is no such mean. */
static const ot_node *mean_of(ot_value *v, int64_t *axes)
{
    double by;
    const ot_node *div = vector_by(v, OT_FN_Div), *mul = div ? NULL : vector_by(v, OT_FN_Mul);
    const ot_node *n = div ? div : mul;
    if (!n || !ot_recognise_scalar(n->in[1], &by)) return NULL;
    const ot_node *sum = unviewed(n->in[0])->producer;
    if (!sum || sum->op != &ot_op_Reduce) return NULL;
    const ot_reduce *a = sum->attrs;
    const ot_shape *x = &sum->in[0]->shape;
    int64_t count = 1;
    for (int d = 0; d < x->rank; d++) count *= a->axes >> d & 1 ? x->dim[d] : 1;
    if (a->program || !a->axes) return NULL;
    if (div ? by != (double)count : (float)by != 1.0f / (float)count) return NULL;
    if (sum->in[0]->dtype != v->dtype) return NULL;
    *axes = a->axes;
    return sum;
}

/* d = x - mean(x) over those axes?  Then x and the mean. */
static bool is_centered(const ot_value *d, int64_t axes, ot_value **x, ot_value **mean)
{
    int64_t over = 0;
    const ot_node *sub = made_by(d, OT_FN_Sub), *sum = sub ? mean_of(sub->in[1], &over) : NULL;
    if (!sum || over != axes || sum->in[0] != sub->in[0] || ((const ot_reduce *)sum->attrs)->kind != OT_REDUCE_SUM)
        return false;
    if (!meets(sub->in[1], sub->in[0], axes)) return false;
    *x = sub->in[0];
    *mean = sub->in[1];
    return true;
}

/* Do the axes leave rows, or channels? */
static bool take_axes(norm *f, int rank)
{
    int kept = 0, d = rank;
    while (d > 0 && f->axes >> (d - 1) & 1) d--;
    f->a.axis = d;
    f->channels = -1;
    if (d < rank && f->axes == ((int64_t)1 << rank) - ((int64_t)1 << d)) return true;
    for (int i = 0; i < rank; i++)
        if (!(f->axes >> i & 1)) f->channels = i, kept++;
    return kept == 1;
}

/* s = v + epsilon with v the mean of squares? */
static bool is_variance(ot_value *s, norm *f)
{
    const ot_node *add = vector_by(s, OT_FN_Add), *sum = NULL;
    for (int i = 0; add && !sum && i < 2; i++)
        if (ot_recognise_scalar(add->in[i], &f->a.epsilon)) sum = mean_of(add->in[1 - i], &f->axes);
    if (!sum || !(f->a.epsilon >= 0) || !take_axes(f, sum->in[0]->shape.rank)) return false;
    ot_value *d = sum->in[0];
    if (((const ot_reduce *)sum->attrs)->kind == OT_REDUCE_SUM) {
        const ot_node *square = made_by(d, OT_FN_Square), *product = made_by(d, OT_FN_Mul);
        if (product && product->in[0] == product->in[1]) square = product;
        if (!square) return false;
        d = square->in[0];
    } else if (((const ot_reduce *)sum->attrs)->kind != OT_REDUCE_SUMSQ) {
        return false;
    }
    f->mean = NULL;
    f->x = d;
    f->a.center = is_centered(d, f->axes, &f->x, &f->mean);
    return f->a.center || f->channels < 0;
}

/* r = 1 / sqrt(variance + epsilon)? */
static bool is_inverse(ot_value *r, norm *f)
{
    double one;
    const ot_node *n = vector_by(r, OT_FN_Rsqrt), *div = vector_by(r, OT_FN_Div), *root = NULL;
    if (n) return is_variance(n->in[0], f) && meets(r, f->x, f->axes);
    n = vector_by(r, OT_FN_Reciprocal);
    if (n) root = vector_by(n->in[0], OT_FN_Sqrt);
    else if (div && ot_recognise_scalar(div->in[0], &one) && one == 1) root = vector_by(div->in[1], OT_FN_Sqrt);
    return root && is_variance(root->in[0], f) && meets(r, f->x, f->axes);
}

/* Does v have one value per element of a row, or per channel, where it broadcasts to x? */
static bool covers(const ot_value *v, const norm *f)
{
    if (f->channels < 0) return ot_layer_norm_covers(v, &f->x->shape, f->a.axis);
    return meets(v, f->x, f->axes);
}

/* Is v the dividend of f: x, or x minus its mean? */
static bool is_divided(const ot_value *v, const norm *f)
{
    ot_value *x, *mean;
    return f->a.center ? is_centered(v, f->axes, &x, &mean) && x == f->x : v == f->x;
}

/* d r or d / sqrt(...). */
static bool match_plain(const ot_node *n, norm *f)
{
    const ot_node *root = ot_recognise_row(n) == OT_FN_Div ? vector_by(n->in[1], OT_FN_Sqrt) : NULL;
    if (root) return is_variance(root->in[0], f) && meets(n->in[1], f->x, f->axes) && is_divided(n->in[0], f);
    for (int i = 0; i < 2 && ot_recognise_row(n) == OT_FN_Mul; i++)
        if (is_inverse(n->in[i], f) && is_divided(n->in[1 - i], f)) return true;
    return false;
}

/* w = r, or r scale. */
static bool is_weight(ot_value *w, norm *f)
{
    const ot_node *mul = made_by(w, OT_FN_Mul);
    if (is_inverse(w, f)) return true;
    for (int i = 0; i < 2 && mul; i++) {
        if (!is_inverse(mul->in[i], f)) continue;
        f->scale = mul->in[1 - i];
        return covers(f->scale, f);
    }
    return false;
}

/* x w + (bias - mean w). */
static bool match_shifted(const ot_node *n, norm *f)
{
    for (int i = 0; i < 2 && ot_recognise_row(n) == OT_FN_Add; i++) {
        const ot_node *mul = made_by(n->in[i], OT_FN_Mul), *sub = made_by(n->in[1 - i], OT_FN_Sub);
        const ot_node *shift = sub ? made_by(sub->in[1], OT_FN_Mul) : NULL;
        for (int k = 0; k < 2 && mul && shift; k++) {
            ot_value *w = mul->in[1 - k];
            int at = shift->in[0] == w ? 1 : 0;
            if (shift->in[1 - at] != w || !is_weight(w, f) || !f->a.center) continue;
            if (mul->in[k] != f->x || shift->in[at] != f->mean) continue;
            f->bias = sub->in[0];
            return covers(f->bias, f);
        }
    }
    return false;
}

/* The only reader of v, if it is a Map of that function with v as one operand; *other: the other one. */
static ot_node *read_by(const ot_readers *r, const ot_value *v, int row, ot_value **other)
{
    ot_node *n = ot_recognise_reader(r, v);
    if (ot_recognise_row(n) != row || n->n_in != 2) return NULL;
    *other = n->in[n->in[0] == v];
    return n;
}

static bool fits(const ot_value *v, const norm *f) { return v->dtype == f->x->dtype && covers(v, f); }

/* One value per channel; v NULL: `other` for every channel. */
static ot_value *per_channel(ot_build *b, ot_value *v, const norm *f, double other)
{
    ot_shape s = { .rank = 1, .dim = { f->x->shape.dim[f->channels] } };
    return v ? ot_view(b, v, &s) : ot_expand(b, ot_scalar(b, f->x->dtype, other), &s);
}

/* Channels are axis 1 of x, or of a view of it. */
static ot_node *batch_norm(ot_build *b, const norm *f)
{
    const ot_shape *x = &f->x->shape;
    ot_shape s = { .rank = f->channels < x->rank - 1 ? 3 : 2, .dim = { 1, x->dim[f->channels], 1 } };
    ot_batch_norm a = { .epsilon = f->a.epsilon };
    for (int d = 0; d < x->rank; d++)
        if (d != f->channels) s.dim[d < f->channels ? 0 : 2] *= x->dim[d];
    ot_value *v = f->channels == 1 ? f->x : ot_view(b, f->x, &s);
    return ot_emit_n(b, &ot_op_BatchNorm, &a,
                     (ot_value *[]){ v, per_channel(b, f->scale, f, 1), per_channel(b, f->bias, f, 0) }, 3, 4);
}

static ot_node *layer_norm(ot_build *b, const norm *f)
{
    ot_value *scale = f->scale;
    if (f->bias && !scale) scale = ot_expand(b, ot_scalar(b, f->x->dtype, 1), &f->bias->shape);
    return ot_emit_n(b, &ot_op_LayerNorm, &f->a, (ot_value *[]){ f->x, scale, f->bias },
                     f->bias ? 3
                     : scale ? 2
                             : 1,
                     3);
}

/* Inserts the operator before `last`, whose result it computes. */
static bool put(ot_graph *g, const ot_config *c, ot_node *last, const norm *f)
{
    const char *why;
    ot_build b = { .graph = g, .node = last };
    if (!ot_is_float(f->x->dtype) || !ot_shape_eq(&f->x->shape, &last->out[0]->shape) ||
        f->x->dtype != last->out[0]->dtype)
        return false;
    if ((f->scale && !fits(f->scale, f)) || (f->bias && !fits(f->bias, f))) return false;
    g->cursor = last;
    g->phase = last->phase;
    ot_node *y = f->channels < 0 ? layer_norm(&b, f) : batch_norm(&b, f);
    ot_value *z = y && ot_kernel_for(y, c->device, c->ref_only, &why) ? ot_view(&b, y->out[0], &f->x->shape) : NULL;
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (!z) return false;
    ot_graph_replace(g, last->out[0], z);
    return true;
}

ot_status ot_recognise_norms(ot_graph *g, const ot_config *c, bool *any)
{
    ot_readers readers;
    OT_TRY(ot_recognise_readers(g, &readers));
    for (ot_node *n = g->first, *next; n && g->err->status == OT_OK; n = next) {
        norm f = { 0 };
        ot_node *last = n, *mul, *add;
        ot_value *other;
        next = n->next;
        if (n->n_out != 1 || n->n_in != 2) continue;
        if (match_plain(n, &f)) {
            mul = read_by(&readers, last->out[0], OT_FN_Mul, &other);
            if (mul && fits(other, &f)) f.scale = other, last = mul;
            add = f.scale ? read_by(&readers, last->out[0], OT_FN_Add, &other) : NULL;
            if (add && fits(other, &f)) f.bias = other, last = add;
        } else {
            f = (norm){ 0 };
            if (!match_shifted(n, &f)) continue;
        }
        *any |= put(g, c, last, &f);
    }
    return g->err->status;
}
