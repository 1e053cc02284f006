/* ctc.c - connectionist temporal classification.
 *
 * Shapes  z: (N, T, C) log-probabilities or logits, t: (N, L) class numbers, shorter ones padded at their end with
 *         negative numbers or the blank.  With l' = (blank, t1, blank, t2 ... blank), S = 2 L + 1 states:
 *             a[t, s] = logp[t, l'[s]] + log(exp a[t-1, s] + exp a[t-1, s-1] + exp a[t-1, s-2])
 *         where the last term applies to a label that differs from the previous one.  A sample's loss is minus the
 *         logarithm of the sum over its last two states at its last step.  Arrays input_lengths and target_lengths (N),
 *         if the data has them, give the length of each.  The steps are unrolled in the graph: gradients and kernels
 *         are those of its operators.
 * Numerics  log 0 is a large negative number, so that no difference is NaN
 * Source  Graves et al. 2006, equations 6 to 8; means, padding and zero_infinity as torch.nn.CTCLoss */
#include <math.h>
#include <string.h>

#include "runtime/losses/loss.h"

#define NEVER (-1e30)

/* log(exp a + exp b) */
static ot_value *log_add(ot_loss *x, ot_value *a, ot_value *b)
{
    ot_value *apart = row(x, OT_FN_Neg, row(x, OT_FN_Abs, sub(x, a, b)));
    return add(x, row2(x, OT_FN_Max, a, b), row(x, OT_FN_Softplus, apart));
}

static ot_value *whole(ot_loss *x, double v) { return ot_scalar(&x->b, OT_I64, v); }

static ot_value *slice(ot_loss *x, ot_value *v, int64_t axis, int64_t from, int64_t to)
{
    return ot_emit(
        &x->b, &ot_op_Slice, NULL,
        OT_IN(v, ot_ints_const(&x->b, &from, 1), ot_ints_const(&x->b, &to, 1), ot_ints_const(&x->b, &axis, 1)));
}

static ot_value *along(ot_loss *x, const ot_op *op, int64_t axis, ot_value *a, ot_value *c)
{
    ot_graph *g = x->b.graph;
    ot_node *n = g->err->status == OT_OK ? ot_graph_node(g, op, op->name, NULL, OT_IN(a, c), 1) : NULL;
    if (n) ot_set_attr(n, "axis", axis);
    return n && ot_node_infer(n, g->err) == OT_OK ? n->out[0] : NULL;
}

/* a and c, interleaved along the last axis. */
static ot_value *behind(ot_loss *x, ot_value *a, ot_value *c) { return along(x, &ot_op_Concat, 1, a, c); }

static ot_value *fill(ot_loss *x, ot_dtype t, int64_t rows, int64_t columns, double v)
{
    return ot_expand(&x->b, ot_scalar(&x->b, t, v), &(ot_shape){ .rank = 2, .dim = { rows, columns } });
}

/* The index s for every element (n, s). */
static ot_value *places(ot_loss *x, int64_t n)
{
    int64_t *v = ot_graph_alloc(x->b.graph, (size_t)n * sizeof *v);
    for (int64_t i = 0; v && i < n; i++) v[i] = i;
    return v ? ot_graph_const(x->b.graph, "places", OT_I64, &(ot_shape){ .rank = 2, .dim = { 1, n } }, v) : NULL;
}

typedef struct ctc {
    int64_t N, T, C, L, S;
    ot_value *label;  /* (N, S): l' */
    ot_value *length; /* (N, 1): labels of each target */
    ot_value *steps;  /* (N, 1): steps of each sample; NULL: all T */
    ot_value *skips;  /* (N, S): does a[t-1, s-2] count? */
} ctc;

/* l', lengths and skips, from the padded target. */
static bool prepare(ot_loss *x, ctc *k)
{
    double blank = ot_spec_num(x->how, "blank");
    ot_value *t = ot_cast(&x->b, ot_view(&x->b, x->t, &(ot_shape){ .rank = 2, .dim = { k->N, k->L } }), OT_I64);
    ot_value *is =
        row2(x, OT_FN_And, row2(x, OT_FN_GreaterOrEqual, t, whole(x, 0)), row2(x, OT_FN_NotEqual, t, whole(x, blank)));
    ot_value *lengths = x->array(x->user, "target_lengths"), *column = places(x, k->L);
    if (lengths)
        is = row2(x, OT_FN_And, is,
                  row2(x, OT_FN_Less, column, ot_view(&x->b, lengths, &(ot_shape){ .rank = 2, .dim = { k->N, 1 } })));
    k->length = ot_loss_sum_axis(x, ot_cast(&x->b, is, OT_I64), 1, true);
    t = where(x, is, t, whole(x, blank));
    /* (N, L, 2): a blank, then the label */
    ot_shape pair = { .rank = 3, .dim = { k->N, k->L, 1 } }, flat = { .rank = 2, .dim = { k->N, 2 * k->L } };
    ot_value *pairs = along(x, &ot_op_Concat, 2, ot_expand(&x->b, whole(x, blank), &pair), ot_view(&x->b, t, &pair));
    k->label = behind(x, ot_view(&x->b, pairs, &flat), fill(x, OT_I64, k->N, 1, blank));
    ot_value *before = behind(x, fill(x, OT_I64, k->N, 2, blank), slice(x, k->label, 1, 0, k->S - 2));
    k->skips = row2(x, OT_FN_And, row2(x, OT_FN_NotEqual, k->label, whole(x, blank)),
                    row2(x, OT_FN_NotEqual, k->label, before));
    k->steps = x->array(x->user, "input_lengths");
    if (k->steps) k->steps = ot_view(&x->b, k->steps, &(ot_shape){ .rank = 2, .dim = { k->N, 1 } });
    return k->skips != NULL;
}

/* log-probability of the state's label, (T, N, S). */
static ot_value *emissions(ot_loss *x, const ctc *k)
{
    static const int time_first[] = { 1, 0, 2 };
    ot_shape each = { .rank = 3, .dim = { k->T, k->N, k->S } };
    ot_value *p = ot_transpose(&x->b, ot_emit(&x->b, &ot_op_LogSoftmax, NULL, OT_IN(x->z)), time_first);
    return along(x, &ot_op_GatherElements, 2, p, ot_expand(&x->b, k->label, &each));
}

/* Every sample's loss, (N, 1). */
static ot_value *walk(ot_loss *x, const ctc *k)
{
    ot_shape one = { .rank = 2, .dim = { k->N, k->S } };
    ot_value *e = emissions(x, k), *s = places(x, k->S), *never = fill(x, x->z->dtype, k->N, 2, NEVER), *a = NULL;
    for (int64_t t = 0; t < k->T && e; t++) {
        ot_value *now = ot_view(&x->b, slice(x, e, 0, t, t + 1), &one), *next;
        if (!t) {
            a = where(x, row2(x, OT_FN_Less, s, whole(x, 2)), now,
                      num(x, NEVER)); /* the first blank, the first label */
            continue;
        }
        ot_value *padded = behind(x, never, a);
        next = log_add(x, a, slice(x, padded, 1, 1, k->S + 1));
        next = log_add(x, next, where(x, k->skips, slice(x, padded, 1, 0, k->S), num(x, NEVER)));
        next = add(x, next, now);
        a = k->steps ? where(x, row2(x, OT_FN_Less, whole(x, (double)t), k->steps), next, a) : next;
    }
    if (!a) return NULL;
    ot_value *last = mul(x, k->length, whole(x, 2)), *ends[2];
    for (int i = 0; i < 2; i++) /* an empty target has one end state */
        ends[i] =
            ot_loss_sum_axis(x, where(x, row2(x, OT_FN_Equal, s, sub(x, last, whole(x, i))), a, num(x, 0)), 1, true);
    ends[1] = where(x, row2(x, OT_FN_Greater, k->length, whole(x, 0)), ends[1], num(x, NEVER));
    return row(x, OT_FN_Neg, log_add(x, ends[0], ends[1]));
}

static ot_value *ctc_loss(ot_loss *x)
{
    const ot_shape *z = &x->z->shape;
    if (!x->t) {
        ot_loss_fail(x, OT_E_DATA, "the data has no target");
        return NULL;
    }
    if (z->rank != 3) {
        ot_loss_fail(x, OT_E_MODEL, "ctc needs an output (N, T, C) or (T, N, C)");
        return NULL;
    }
    ctc k = { .N = z->dim[0], .T = z->dim[1], .C = z->dim[2], .L = x->t->shape.rank > 1 ? x->t->shape.dim[1] : 1 };
    k.S = 2 * k.L + 1;
    if (x->t->shape.rank > 2 || x->t->shape.dim[0] != k.N) {
        ot_loss_fail(x, OT_E_DATA,
                     "neither of the first two axes has the size of the target; set "
                     "batch_first=true or false to name the batch axis");
        return NULL;
    }
    if (!(ot_spec_num(x->how, "blank") < (double)k.C)) {
        ot_loss_fail(x, OT_E_USAGE, "blank must be a class of the output");
        return NULL;
    }
    if (!prepare(x, &k)) return NULL;
    ot_value *loss = walk(x, &k), *steps = ot_cast(&x->b, k.length, x->z->dtype);
    ot_value *lost = row2(x, OT_FN_Greater, loss, num(x, -NEVER / 2)); /* no alignment: more labels than steps */
    loss = where(x, lost, num(x, ot_spec_flag(x->how, "zero_infinity") ? 0 : INFINITY), loss);
    if (ot_spec_is(x->how, "reduction", "sum")) return ot_loss_reduce(x, loss, 0);
    return ot_loss_reduce(x, quo(x, loss, row2(x, OT_FN_Max, steps, num(x, 1))), 0);
}

static const ot_key keys[] = {
    OT_LOSS_KEYS,
    { "blank", "0", NULL, "class number of the blank", .kind = OT_KEY_WHOLE, OT_KEY_COUNT_FROM(0) },
    { "zero_infinity", "false", NULL, "an infinite loss (more labels than steps) counts as 0", .kind = OT_KEY_FLAG },
    { "batch_first", NULL, "the axis with as many samples as the target", "the output is (N, T, C), else (T, N, C)",
      .kind = OT_KEY_FLAG },
    OT_KEYS_END,
};

const ot_loss_kind ot_loss_kind_ctc = {
    .entry = { "ctc", "label sequences without an alignment (connectionist temporal classification)", keys },
    .build = ctc_loss,
    .takes = OT_TAKES_SEQUENCES,
    .undoes = OT_TAIL_BIT(SOFTMAX) | OT_TAIL_BIT(LOG_SOFTMAX),
    .unlike = OT_TAIL_BIT(SIGMOID),
    .acts_on = "log-probabilities",
    .classes_last = true,
};
