/* teacher.c - distillation: the loss of an output also measures how far it is from that of a teacher.
 *
 *     (1 - weight) * loss + weight * T^2 * KL(softmax(teacher / T) || softmax(output / T))
 *
 * over the class axis, for losses over classes; for losses over binary elements the divergence of the two Bernoulli distributions
 * sigmoid(teacher / T) and sigmoid(output / T); for other losses weight * the mean squared difference.  The divergence is a mean over
 * samples and positions (a sum with reduction=sum), without the positions whose class number the loss ignores.
 *
 * Source  Hinton et al. 2015 */
#include "runtime/losses/loss.h"

#include <string.h>

#include "ops/kernels/softmax.h"

static const ot_key keys[] = {
    { "temperature", "2", NULL, "what logits are divided by before the distributions are compared",
      .kind = OT_KEY_NUMBER, OT_KEY_ABOVE(0) },
    { "weight", "0.5", NULL,
      "weight of the distance from the teacher's output in the loss; the loss of the target has the rest",
      .kind = OT_KEY_NUMBER, OT_KEY_FROM(0, 1) },
    { "output", NULL, "the output of the same name, else the only one of the same shape",
      "output of the teacher to learn from", .kind = OT_KEY_TEXT, .words = "NAME" },
    OT_KEYS_END,
};
static const ot_entry distillation = { "FILE", "the model in an ONNX file, in evaluation mode and frozen", keys };
static const ot_entry *const entries[] = { &distillation, NULL };

const ot_registry ot_teachers = { "teacher", "a model for distillation, and its keys (--teacher)", entries };

/* The axis of z of the values of a distribution; -1: there is none. */
static int distribution(ot_loss *x)
{
    const ot_loss_kind *k = x->kind;
    if (k->takes == OT_TAKES_SEQUENCES) return x->z->shape.rank - 1;
    if (k->takes == OT_TAKES_CLASSES || k->takes == OT_TAKES_NUMBERS ||
        (k->takes == OT_TAKES_EITHER && ot_loss_has_classes(x)))
        return ot_loss_axis(x);
    return -1;
}

/* Is z logits of binary elements?  bce alone acts on probabilities. */
static bool is_binary(const ot_loss *x)
{
    bool sigmoid = x->kind->undoes & OT_TAIL_BIT(SIGMOID);
    return sigmoid && (x->joined || strcmp(x->kind->entry.name, "bce"));
}

/* The teacher's output as z is: logits where z is, its batch axis first. */
static ot_value *teachers_z(ot_loss *x, ot_value *v, bool logits)
{
    ot_tail tail = ot_tail_find(v);
    char a[128], c[128];
    bool undo = logits && tail.kind != OT_TAIL_NONE && !ot_spec_is(x->how, "tail", "none");
    ot_value *z = ot_loss_batch_first(x, undo ? ot_tail_undo(&x->b, &tail) : v);
    if (!z || ot_shape_eq(&z->shape, &x->z->shape)) return z ? ot_cast(&x->b, z, x->z->dtype) : NULL;
    ot_fail(x->b.graph->err, OT_E_MODEL, "--teacher: output '%s' of the teacher is %s, but output '%s' is %s", v->name,
            ot_shape_text(&z->shape, a), x->out->name, ot_shape_text(&x->z->shape, c));
    return NULL;
}

static ot_value *log_softmax(ot_loss *x, ot_value *z, int axis, double temperature)
{
    ot_value *v = mul(x, z, num(x, 1 / temperature));
    return v ? ot_emit(&x->b, &ot_op_SoftmaxAxis, &(ot_softmax_axis){ .axis = axis, .log = 1 }, OT_IN(v)) : NULL;
}

/* Mean of the positions, or their sum; ignored ones are not counted. */
static ot_value *over_positions(ot_loss *x, ot_value *v, int axis)
{
    int64_t ignored;
    if (!v || !ot_loss_has_classes(x) || x->kind->takes == OT_TAKES_SEQUENCES || !ot_loss_ignored(x, &ignored))
        return ot_loss_reduce(x, v, 0);
    ot_value *counts = row2(x, OT_FN_NotEqual, ot_loss_labels(x, axis), ot_scalar(&x->b, OT_I64, (double)ignored));
    counts = ot_view(&x->b, ot_cast(&x->b, counts, v->dtype), &v->shape);
    ot_value *sum = ot_loss_sum_all(x, mul(x, v, counts));
    return ot_spec_is(x->how, "reduction", "sum") ? sum : quo(x, sum, ot_loss_sum_all(x, counts));
}

ot_value *ot_loss_taught(ot_loss *x, ot_value *own, const ot_spec *how, ot_value *teacher)
{
    double t = ot_spec_num(how, "temperature"), weight = ot_spec_num(how, "weight");
    int axis = distribution(x);
    bool binary = axis < 0 && is_binary(x);
    if (ot_broken(&x->b)) return NULL;
    ot_value *z = teachers_z(x, teacher, axis >= 0 || binary), *far;
    if (!z) return NULL;
    if (axis >= 0) {
        ot_value *p = log_softmax(x, z, axis, t), *q = log_softmax(x, x->z, axis, t);
        far = over_positions(x, ot_loss_sum_axis(x, mul(x, row(x, OT_FN_Exp, p), sub(x, p, q)), axis, false), axis);
    } else if (binary) { /* softplus(q) - softplus(p) - sigmoid(p) (q - p) */
        ot_value *p = mul(x, z, num(x, 1 / t)), *q = mul(x, x->z, num(x, 1 / t));
        far = sub(x, row(x, OT_FN_Softplus, q), row(x, OT_FN_Softplus, p));
        far = ot_loss_reduce(x, sub(x, far, mul(x, row(x, OT_FN_Sigmoid, p), sub(x, q, p))), 0);
    } else {
        ot_value *d = sub(x, x->z, z);
        far = ot_loss_reduce(x, mul(x, d, d), 0);
        t = 1;
    }
    ot_find(x->findings, OT_FINDING_NOTE, NULL, NULL,
            "output '%s' learns from output '%s' of the teacher: %g x loss %s + %g x %s", x->out->name, teacher->name,
            1 - weight, x->kind->entry.name, weight * t * t,
            axis >= 0 || binary ? "Kullback-Leibler divergence" : "mean squared difference");
    if (!far || !own) return NULL;
    return add(x, mul(x, own, num(x, 1 - weight)), mul(x, far, num(x, weight * t * t)));
}
