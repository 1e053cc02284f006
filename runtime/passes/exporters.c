/* exporters.c - forms that one exporting program writes. */
#include "runtime/passes/exporters.h"

#include <string.h>

#include "ops/op.h"

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
