/* recognise_activation.c - decomposed activations become one function of a Map, whose gradient reads x only.
 *
 *     Gelu       x (1 + erf(x / sqrt 2)) / 2
 *     GeluTanh   x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, or sqrt(2/pi) x (1 + 0.044715 x^2) within
 *     Swish      x sigmoid(a x)
 *     HardSwish  x clip(x + 3, 0, 6) / 6, x hardsigmoid(x)
 *     Mish       x tanh(softplus(x))
 *
 * Factors and operands of sums may stand in any order; constants may be factors or divisors anywhere in a product.
 * x is the operand that is read more than once. */
#include <math.h>

#include "ops/kernel.h"
#include "ops/kernels/map.h"
#include "runtime/passes/recognise.h"

static const double SQRT_HALF = 0.70710678118654752, SQRT_2_OVER_PI = 0.79788456080286536, CUBIC = 0.044715;

enum { MOST_FACTORS = 4, MOST_DEPTH = 4 };

/* c factor[0] factor[1] ... */
typedef struct product {
    double c;
    ot_value *factor[MOST_FACTORS];
    int n; /* more than MOST_FACTORS: too many */
} product;

static void add_factors(const ot_readers *r, ot_value *v, int depth, product *p)
{
    double c;
    const ot_node *n = v->producer;
    bool inside = depth == 0 || (depth < MOST_DEPTH && ot_recognise_reader(r, v));
    int row = inside ? ot_recognise_row(n) : -1;
    if (ot_recognise_scalar(v, &c)) {
        p->c *= c;
    } else if (row == OT_FN_Mul) {
        for (int i = 0; i < 2; i++) add_factors(r, n->in[i], depth + 1, p);
    } else if (row == OT_FN_Div && ot_recognise_scalar(n->in[1], &c)) {
        add_factors(r, n->in[0], depth + 1, p);
        p->c /= c;
    } else {
        if (p->n < MOST_FACTORS) p->factor[p->n] = v;
        p->n++;
    }
}

static product factors(const ot_readers *r, ot_value *v, int depth)
{
    product p = { .c = 1 };
    add_factors(r, v, depth, &p);
    return p;
}

/* Equal except for the rounding of a constant stored in that type. */
static bool near(double a, double b, ot_dtype t)
{
    return fabs(a - b) <= fabs(b) * (t == OT_BF16 ? 8e-3 : t == OT_F16 ? 2e-3 : 4e-6);
}

/* If v = c x^degree: the degree; else 0. */
static int power_of(const ot_readers *r, ot_value *v, const ot_value *x, double *c)
{
    product p = factors(r, v, 1);
    int degree = 0;
    for (int i = 0; i < p.n && i < MOST_FACTORS; i++) {
        const ot_node *n = p.factor[i]->producer;
        int row = ot_recognise_row(n);
        if (p.factor[i] == x) degree++;
        else if ((row == OT_FN_Square || row == OT_FN_Cube) && n->in[0] == x) degree += row == OT_FN_Square ? 2 : 3;
        else return 0;
    }
    *c = p.c;
    return p.n <= MOST_FACTORS ? degree : 0;
}

static bool is_scaled(const ot_readers *r, ot_value *v, const ot_value *x, double by)
{
    double c;
    return power_of(r, v, x, &c) == 1 && near(c, by, x->dtype);
}

/* The operand of f(...) + 1 where f is that function; NULL: v is no such sum. */
static ot_value *one_plus(const ot_value *v, int row)
{
    double one;
    for (int i = 0; i < 2 && ot_recognise_row(v->producer) == OT_FN_Add; i++) {
        const ot_node *f = v->producer->in[1 - i]->producer;
        if (ot_recognise_scalar(v->producer->in[i], &one) && one == 1 && ot_recognise_row(f) == row) return f->in[0];
    }
    return NULL;
}

/* v = sqrt(2/pi) (x + 0.044715 x^3)? */
static bool is_gelu_cubic(const ot_readers *r, ot_value *v, const ot_value *x)
{
    double a = 0, b = 0;
    product p = factors(r, v, 1);
    bool inside = p.n == 2 && (p.factor[0] == x || p.factor[1] == x); /* x is the first operand of the sum */
    if ((p.n != 1 && !inside) || !near(p.c, SQRT_2_OVER_PI, x->dtype)) return false;
    const ot_node *sum = p.factor[inside && p.factor[0] == x]->producer;
    for (int i = 0; i < 2 && ot_recognise_row(sum) == OT_FN_Add; i++) {
        bool linear = inside ? ot_recognise_scalar(sum->in[i], &a) : power_of(r, sum->in[i], x, &a) == 1;
        if (linear && a == 1 && power_of(r, sum->in[1 - i], x, &b) == (inside ? 2 : 3)) return near(b, CUBIC, x->dtype);
    }
    return false;
}

/* ReLU6, or the Clip(x, 0, 6) as which it is exported? */
static bool is_relu6(const ot_node *n)
{
    double low, high;
    int row = ot_recognise_row(n);
    if (row == OT_FN_Relu6) return true;
    return row == OT_FN_Clip && ot_recognise_scalar(n->in[1], &low) && ot_recognise_scalar(n->in[2], &high) &&
           low == 0 && high == 6;
}

/* v = relu6(x + 3)? */
static bool is_relu6_shifted(const ot_value *v, const ot_value *x)
{
    double three;
    const ot_node *n = v->producer;
    if (!is_relu6(n)) return false;
    const ot_node *sum = n->in[0]->producer;
    for (int i = 0; i < 2 && ot_recognise_row(sum) == OT_FN_Add; i++)
        if (sum->in[i] == x && ot_recognise_scalar(sum->in[1 - i], &three) && three == 3) return true;
    return false;
}

/* The function for c x f, with its parameter; -1: none. */
static int match(const ot_readers *r, double c, ot_value *x, ot_value *f, double *param)
{
    const ot_node *n = f->producer;
    int row = ot_recognise_row(n);
    ot_value *u = one_plus(f, OT_FN_Erf);
    if (u && c == 0.5) return is_scaled(r, u, x, SQRT_HALF) ? OT_FN_Gelu : -1;
    u = one_plus(f, OT_FN_Tanh);
    if (u && c == 0.5) return is_gelu_cubic(r, u, x) ? OT_FN_GeluTanh : -1;
    if (near(c, 1.0 / 6, x->dtype) && is_relu6_shifted(f, x)) return OT_FN_HardSwish;
    if (c != 1) return -1;
    if (row == OT_FN_Sigmoid && power_of(r, n->in[0], x, param) == 1) return OT_FN_Swish;
    if (row == OT_FN_HardSigmoid && n->in[0] == x) {
        const ot_inst *inst = ((const ot_program *)n->attrs)->inst;
        return near(inst->p, 1.0 / 6, x->dtype) && inst->q == 0.5 ? OT_FN_HardSwish : -1;
    }
    if (row == OT_FN_Tanh && ot_recognise_row(n->in[0]->producer) == OT_FN_Softplus && n->in[0]->producer->in[0] == x)
        return OT_FN_Mish;
    return -1;
}

static ot_status put_row(ot_graph *g, ot_node *n, int row, double param, ot_value *x)
{
    ot_build b = { .graph = g, .node = n };
    g->cursor = n;
    g->phase = n->phase;
    ot_value *y = ot_map1(&b, row, param, 0, x);
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (!y) return g->err->status;
    ot_graph_replace(g, n->out[0], y);
    return OT_OK;
}

/* The gradient of ReLU6 is 0 at both bounds, a clamp's is 1. */
static ot_status recognise_relu6(ot_graph *g, bool *any)
{
    for (ot_node *n = g->first; n && g->err->status == OT_OK; n = n->next) {
        if (!is_relu6(n) || n->n_in != 3 || !ot_is_float(n->in[0]->dtype) ||
            !ot_shape_eq(&n->in[0]->shape, &n->out[0]->shape))
            continue;
        OT_TRY(put_row(g, n, OT_FN_Relu6, 0, n->in[0]));
        *any = true;
    }
    return g->err->status;
}

ot_status ot_recognise_activations(ot_graph *g, bool *any)
{
    ot_readers readers;
    OT_TRY(ot_recognise_readers(g, &readers));
    for (ot_node *n = g->first; n && g->err->status == OT_OK; n = n->next) {
        int row = ot_recognise_row(n);
        if (row != OT_FN_Mul && row != OT_FN_Div) continue;
        product p = factors(&readers, n->out[0], 0);
        double param = 0;
        row = -1;
        if (p.n != 2) continue;
        ot_value *x = p.factor[0];
        for (int i = 0; i < 2 && row < 0; i++) {
            x = p.factor[i];
            row = match(&readers, p.c, x, p.factor[1 - i], &param);
        }
        if (row < 0 || !ot_is_float(x->dtype) || x->dtype != n->out[0]->dtype ||
            !ot_shape_eq(&x->shape, &n->out[0]->shape))
            continue;
        OT_TRY(put_row(g, n, row, param, x));
        *any = true;
    }
    return recognise_relu6(g, any);
}
