/* recognise_norm.c - LayerNormalization and RMSNormalization spelled out in pieces are one RowNorm.
 *
 * What is found, with m = mean(x), d = x - m, v = mean(d d) or, without a mean, mean(x x), over trailing axes:
 *
 *     r = 1 / sqrt(v + epsilon)                  as Div, Reciprocal, Rsqrt or a power
 *     d r, d / sqrt(v + epsilon)                 PyTorch, Paddle; x for d: RMSNormalization
 *     x (r scale) + (bias - m (r scale))         Keras
 *     ... scale + bias                           taken in where they have one value per element of a row
 *
 * The difference may be computed twice (x - m once for the square, once for the result).  Whatever else reads the pieces
 * goes on reading them; pieces that nobody reads are pruned. */
#include "ops/kernel.h"
#include "ops/map.h"
#include "ops/reduce.h"
#include "ops/rownorm.h"
#include "runtime/passes/recognise.h"

/* A division by the deviation of rows. */
typedef struct norm {
    ot_value   *x, *mean;   /* mean: NULL without centering */
    ot_value   *scale, *bias;
    ot_row_norm a;
} norm;

/* The producer of v, where it is a Map of that row. */
static const ot_node *made_by(const ot_value *v, int row)
{
    return v && v->producer && ot_recognise_row(v->producer) == row ? v->producer : NULL;
}

/* v = sum / D over trailing axes of what is returned; *axis: the first of them.  NULL: it is no such mean. */
static const ot_node *mean_of(const ot_value *v, int64_t *axis)
{
    double         by;
    const ot_node *div = made_by(v, OT_ROW_Div), *mul = div ? NULL : made_by(v, OT_ROW_Mul);
    const ot_node *n = div ? div : mul;
    if (!n || !ot_recognise_scalar(n->in[1], &by)) return NULL;
    const ot_node *sum = n->in[0]->producer;
    if (!sum || sum->op != &ot_op_Reduce) return NULL;
    const ot_reduce *a = sum->attrs;
    const ot_shape  *x = &sum->in[0]->shape;
    int64_t          count = 1;
    int              d = x->rank;
    while (d > 0 && a->axes >> (d - 1) & 1) count *= x->dim[--d];
    if (!a->keepdims || a->program || d == x->rank || a->axes != ((int64_t)1 << x->rank) - ((int64_t)1 << d)) return NULL;
    if (div ? by != (double)count : (float)by != 1.0f / (float)count) return NULL;
    if (sum->in[0]->dtype != v->dtype) return NULL;
    *axis = d;
    return sum;
}

/* d = x - mean(x) over the axes from `axis` on?  Then x and the mean. */
static bool is_centered(const ot_value *d, int64_t axis, ot_value **x, ot_value **mean)
{
    int64_t        from = 0;
    const ot_node *sub = made_by(d, OT_ROW_Sub), *sum = sub ? mean_of(sub->in[1], &from) : NULL;
    if (!sum || from != axis || sum->in[0] != sub->in[0] || ((const ot_reduce *)sum->attrs)->kind != OT_REDUCE_SUM) return false;
    *x = sub->in[0];
    *mean = sub->in[1];
    return true;
}

/* s = v + epsilon with v the mean of squares of rows? */
static bool is_variance(const ot_value *s, norm *f)
{
    const ot_node *add = made_by(s, OT_ROW_Add), *sum = NULL;
    for (int i = 0; add && !sum && i < 2; i++)
        if (ot_recognise_scalar(add->in[i], &f->a.epsilon)) sum = mean_of(add->in[1 - i], &f->a.axis);
    if (!sum || !(f->a.epsilon >= 0)) return false;
    ot_value *d = sum->in[0];
    if (((const ot_reduce *)sum->attrs)->kind == OT_REDUCE_SUM) {
        const ot_node *square = made_by(d, OT_ROW_Square), *product = made_by(d, OT_ROW_Mul);
        if (product && product->in[0] == product->in[1]) square = product;
        if (!square) return false;
        d = square->in[0];
    } else if (((const ot_reduce *)sum->attrs)->kind != OT_REDUCE_SUMSQ) {
        return false;
    }
    f->mean = NULL;
    f->x = d;
    f->a.center = is_centered(d, f->a.axis, &f->x, &f->mean);
    return true;
}

/* r = 1 / sqrt(variance + epsilon)? */
static bool is_inverse(const ot_value *r, norm *f)
{
    double         one;
    const ot_node *n = made_by(r, OT_ROW_Rsqrt), *div = made_by(r, OT_ROW_Div), *root = NULL;
    if (n) return is_variance(n->in[0], f);
    n = made_by(r, OT_ROW_Reciprocal);
    if (n) root = made_by(n->in[0], OT_ROW_Sqrt);
    else if (div && ot_recognise_scalar(div->in[0], &one) && one == 1) root = made_by(div->in[1], OT_ROW_Sqrt);
    return root && is_variance(root->in[0], f);
}

/* Is v what f divides: x, or x less its mean? */
static bool is_divided(const ot_value *v, const norm *f)
{
    ot_value *x, *mean;
    return f->a.center ? is_centered(v, f->a.axis, &x, &mean) && x == f->x : v == f->x;
}

/* d r or d / sqrt(...). */
static bool match_plain(const ot_node *n, norm *f)
{
    const ot_node *root = ot_recognise_row(n) == OT_ROW_Div ? made_by(n->in[1], OT_ROW_Sqrt) : NULL;
    if (root) return is_variance(root->in[0], f) && is_divided(n->in[0], f);
    for (int i = 0; i < 2 && ot_recognise_row(n) == OT_ROW_Mul; i++)
        if (is_inverse(n->in[i], f) && is_divided(n->in[1 - i], f)) return true;
    return false;
}

/* w = r, or r scale. */
static bool is_weight(const ot_value *w, norm *f)
{
    const ot_node *mul = made_by(w, OT_ROW_Mul);
    if (is_inverse(w, f)) return true;
    for (int i = 0; i < 2 && mul; i++) {
        if (!is_inverse(mul->in[i], f)) continue;
        f->scale = mul->in[1 - i];
        return ot_row_norm_covers(f->scale, &f->x->shape, f->a.axis);
    }
    return false;
}

/* x w + (bias - mean w). */
static bool match_shifted(const ot_node *n, norm *f)
{
    for (int i = 0; i < 2 && ot_recognise_row(n) == OT_ROW_Add; i++) {
        const ot_node *mul = made_by(n->in[i], OT_ROW_Mul), *sub = made_by(n->in[1 - i], OT_ROW_Sub);
        const ot_node *shift = sub ? made_by(sub->in[1], OT_ROW_Mul) : NULL;
        for (int k = 0; k < 2 && mul && shift; k++) {
            const ot_value *w = mul->in[1 - k];
            int             at = shift->in[0] == w ? 1 : 0;
            if (shift->in[1 - at] != w || !is_weight(w, f) || !f->a.center) continue;
            if (mul->in[k] != f->x || shift->in[at] != f->mean) continue;
            f->bias = sub->in[0];
            return ot_row_norm_covers(f->bias, &f->x->shape, f->a.axis);
        }
    }
    return false;
}

/* The node that alone reads v, where it is a Map of that row with v as one operand; *other: the other one. */
static ot_node *read_by(const ot_readers *r, const ot_value *v, int row, ot_value **other)
{
    ot_node *n = ot_recognise_reader(r, v);
    if (ot_recognise_row(n) != row || n->n_in != 2) return NULL;
    *other = n->in[n->in[0] == v];
    return n;
}

static bool fits(const ot_value *v, const norm *f)
{
    return v->dtype == f->x->dtype && ot_row_norm_covers(v, &f->x->shape, f->a.axis);
}

/* Puts a RowNorm in front of `last`, whose result it gives. */
static bool put(ot_graph *g, const ot_config *c, ot_node *last, const norm *f)
{
    const char *why;
    ot_build    b = { .graph = g, .node = last };
    if (!ot_is_float(f->x->dtype) || !ot_shape_eq(&f->x->shape, &last->out[0]->shape) || f->x->dtype != last->out[0]->dtype) return false;
    if ((f->scale && !fits(f->scale, f)) || (f->bias && !fits(f->bias, f))) return false;
    ot_value *scale = f->scale;
    g->cursor = last;
    g->phase = last->phase;
    if (f->bias && !scale) scale = ot_expand(&b, ot_scalar(&b, f->x->dtype, 1), &f->bias->shape);
    ot_node *y = ot_emit_n(&b, &ot_op_RowNorm, &f->a, (ot_value *[]){ f->x, scale, f->bias }, f->bias ? 3 : scale ? 2 : 1, 3);
    g->cursor = NULL;
    g->phase = OT_EVERY;
    if (!y || !ot_kernel_for(y, c->device, c->ref_only, &why)) return false;
    ot_graph_replace(g, last->out[0], y->out[0]);
    return true;
}

ot_status ot_recognise_norms(ot_graph *g, const ot_config *c, bool *any)
{
    ot_readers readers;
    OT_TRY(ot_recognise_readers(g, &readers));
    for (ot_node *n = g->first, *next; n && g->err->status == OT_OK; n = next) {
        norm      f = { 0 };
        ot_node  *last = n, *mul, *add;
        ot_value *other;
        next = n->next;
        if (n->n_out != 1 || n->n_in != 2) continue;
        if (match_plain(n, &f)) {
            mul = read_by(&readers, last->out[0], OT_ROW_Mul, &other);
            if (mul && fits(other, &f)) f.scale = other, last = mul;
            add = f.scale ? read_by(&readers, last->out[0], OT_ROW_Add, &other) : NULL;
            if (add && fits(other, &f)) f.bias = other, last = add;
        } else {
            f = (norm){ 0 };
            if (!match_shifted(n, &f)) continue;
        }
        *any |= put(g, c, last, &f);
    }
    return g->err->status;
}
