/* exporters.c - forms that one exporting program writes. */
#include "runtime/passes/exporters.h"

#include <string.h>

#include "ops/op.h"
#include "runtime/passes/evidence.h"

static bool made_by(const ot_graph *g, const char *program)
{
    return g->made_by && !strncmp(g->made_by, program, strlen(program));
}

/* ---- tf2onnx: recurrent layers ------------------------------------------------ */

/* A layer of TensorFlow has one bias; ONNX's operator adds two, of the input and of the state.  tf2onnx writes [bias,
 * zeros], and zeros alone for a layer without a bias.  If the zeros trained, they would get the gradient of the bias, so
 * that it would move by two steps in one.
 * Zeros alone for GRU and RNN may also be an untrained bias, which starts at zero; that of an LSTM starts at 1 for one
 * gate.  A GRU that resets after the product (reset_after) has two biases in TensorFlow, too. */
ot_bias ot_recurrent_bias(const ot_graph *g, const ot_value *v, const ot_node *n, int input)
{
    enum { BIAS = 3 };
    bool known = ot_is(n, &ot_op_LSTM) || ot_is(n, &ot_op_RNN) ||
                 (ot_is(n, &ot_op_GRU) && !ot_attr_get(n, "linear_before_reset", 0));
    if (!known || input != BIAS || !made_by(g, "tf2onnx") || v->shape.rank != 2 || v->shape.dim[1] % 2)
        return OT_BIAS_WHOLE;
    int64_t size = v->shape.dim[1], half = size / 2;
    bool zero = true;
    for (int64_t i = 0, count = ot_numel(&v->shape); i < count; i++) {
        if (ot_get_f64(v->data, v->dtype, i) == 0) continue;
        if (i % size >= half) return OT_BIAS_WHOLE;
        zero = false;
    }
    return zero && ot_is(n, &ot_op_LSTM) ? OT_BIAS_NONE : OT_BIAS_ONE;
}

/* A stateful layer of Keras keeps its state in a variable that has a row for each sample of the batch and is no parameter.  Of a
 * parameter, a row for all samples, tf2onnx makes copies. */
bool ot_is_kept_state(const ot_graph *g, const ot_value *v, const ot_node *n, int input)
{
    enum { INITIAL_H = 5 };
    bool state = input >= INITIAL_H && n && ot_slot_at(n->op, input) == 'h';
    return state && made_by(g, "tf2onnx") && v->shape.rank == 3 && v->shape.dim[1] > 1 && !ot_holds_copies(v);
}

/* ---- tf2onnx: BatchNormalization ---------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(name, list[i])) return true;
    return false;
}

/* TensorFlow computes a BatchNormalization in the scope "batchnorm".  tf2onnx folds scale and shift, which keep the names of the
 * nodes that computed them: mul for a scale with gamma, else Rsqrt; sub for a shift with beta, else mul_2 or, also without gamma,
 * mul_1. */
ot_norm_fold ot_folded_norm(const ot_graph *g, const ot_value *v)
{
    static const char *const parameters[] = { "mul:0", "sub:0", "mul_2:0" };
    static const char *const statistics[] = { "Rsqrt:0", "mul_1:0" };
    static const char scope[] = "batchnorm";
    const char *last = strrchr(v->name, '/'), *before = last;
    if (!last || !made_by(g, "tf2onnx")) return OT_NORM_FOLD_NONE;
    while (before > v->name && before[-1] != '/') before--;
    if (strncmp(before, scope, sizeof scope - 1) != 0) return OT_NORM_FOLD_NONE;
    return is_one_of(last + 1, parameters, OT_LEN(parameters))   ? OT_NORM_FOLD_PARAMETER
           : is_one_of(last + 1, statistics, OT_LEN(statistics)) ? OT_NORM_FOLD_STATISTIC
                                                                 : OT_NORM_FOLD_NONE;
}

/* ---- Keras with PyTorch: BatchNormalization ---------------------------------------- */

/* The only reader of v, a few Casts aside; NULL: none, or several. */
static const ot_node *reader_of(const ot_graph *g, const ot_value *v, ot_only_reader *only, const void *user)
{
    enum { MOST_CASTS = 4 };
    const ot_node *n = only(user, g, v);
    for (int i = 0; i < MOST_CASTS && (ot_is(n, &ot_op_Cast) || ot_is(n, &ot_op_Identity)); i++)
        n = only(user, g, n->out[0]);
    return n;
}

/* The result of n if that combines its other operand with a tensor of the file in the shape of v; NULL: it does not. */
static const ot_value *with_tensor(const ot_node *n, const ot_op *op, const ot_value *v)
{
    for (int i = 0; i < 2 && ot_is(n, op); i++) {
        const ot_value *w = n->in[i];
        if (w && w->source >= 0 && w->data && w->dtype == v->dtype && ot_shape_eq(&w->shape, &v->shape))
            return n->out[0];
    }
    return NULL;
}

/* Keras computes BatchNormalization from its parts, which the exporter of PyTorch folds into three tensors of one shape.  The
 * mean is a statistic.  A parameter in its place would have the effect of the shift that is added after it. */
bool ot_is_folded_mean(const ot_graph *g, const ot_value *v, const ot_node *n, int input, ot_only_reader *only,
                       const void *user)
{
    if (!made_by(g, "pytorch") || !ot_is(n, &ot_op_Sub) || input != 1 || !n->in[0] || !n->in[0]->producer) return false;
    if (!ot_name_is_made(v->name) || v->shape.rank < 1 || ot_numel(&v->shape) < 2 || reader_of(g, v, only, user) != n)
        return false;
    const ot_value *scaled = with_tensor(reader_of(g, n->out[0], only, user), &ot_op_Mul, v);
    return scaled && with_tensor(reader_of(g, scaled, only, user), &ot_op_Add, v);
}

/* ---- skl2onnx: preprocessing, ensembles ---------------------------------------------------- */

/* A product of what depends on an input with weights of a model.  The matrix of a PCA, fitted before, has a name of its own. */
static bool is_layer(const ot_node *n, int fed)
{
    static const char fitted[] = "transform_matrix";
    if (!ot_is(n, &ot_op_MatMul) && !ot_is(n, &ot_op_Gemm)) return false;
    for (int i = 0; i < 2 && i < n->n_in; i++) {
        const ot_value *w = n->in[i];
        if (!w || w->mark & fed || !(n->in[1 - i] && n->in[1 - i]->mark & fed)) continue;
        if (!w->data) return true; /* computed from the weights */
        if (ot_is_float(w->dtype) && w->shape.rank == 2) return strncmp(w->name, fitted, sizeof fitted - 1) != 0;
    }
    return false;
}

/* Scalers, imputers, power transforms and tables of quantiles are fitted before the model, which a pipeline of scikit-learn
 * fits to their results.  A naive Bayes has no layer: what it computes from an input is the model. */
void ot_mark_preprocessing(ot_graph *g, int fed, int bit, int other)
{
    if (!made_by(g, "skl2onnx")) return;
    for (int i = 0; i < g->n_inputs; i++) g->inputs[i]->mark |= bit;
    for (ot_node *n = g->first; n; n = n->next) { /* bit: from inputs and constants alone */
        bool any = false, all = !is_layer(n, fed) && !ot_subgraph(n, 0);
        for (int i = 0; i < n->n_in; i++) {
            if (!n->in[i] || !(n->in[i]->mark & fed)) continue;
            any |= (n->in[i]->mark & bit) != 0;
            all &= (n->in[i]->mark & bit) != 0;
        }
        for (int i = 0; i < n->n_out && any && all; i++)
            if (n->out[i]) n->out[i]->mark |= bit;
    }
    for (ot_node *n = g->last; n; n = n->prev) { /* other: leads to a layer */
        bool leads = is_layer(n, fed);
        for (int i = 0; i < n->n_out; i++) leads |= n->out[i] && n->out[i]->mark & other;
        for (int i = 0; i < n->n_in && leads; i++)
            if (n->in[i]) n->in[i]->mark |= other;
    }
    for (int i = 0; i < g->n_values; i++) {
        ot_value *v = g->values[i];
        bool both = v->mark & bit && v->mark & other;
        v->mark = (v->mark & ~(bit | other)) | (both ? bit : 0);
    }
}

/* What an ensemble multiplies the results of an estimator with is given, or follows from its errors (AdaBoost). */
bool ot_is_estimator_weight(const ot_graph *g, const ot_value *v, const ot_node *n)
{
    return made_by(g, "skl2onnx") && ot_is(n, &ot_op_Mul) && ot_numel(&v->shape) == 1;
}
