/* signal.c - HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix: tables of signal processing.
 *
 * Spec    ai.onnx 17.  Inputs must be constant.  A window of one element is 1.
 * Shapes  windows: size: scalar   y: (size)      MelWeightMatrix: y: (dft_length/2 + 1, num_mel_bins)
 * Grad    none: a table depends on constants alone. */
#include "ops/kernels/move.h"

#include <stddef.h>

typedef struct table_attrs {
    int64_t output_datatype, periodic;
} table_attrs;

static const ot_attr window_rows[] = {
    { "output_datatype", OT_INT, offsetof(table_attrs, output_datatype), OT_F32, NULL },
    { "periodic", OT_INT, offsetof(table_attrs, periodic), 1, NULL },
    { 0 },
};

static const ot_attr mel_rows[] = {
    { "output_datatype", OT_INT, offsetof(table_attrs, output_datatype), OT_F32, NULL },
    { 0 },
};

/* Input i, a constant number; NAN: it is not constant. */
static double number(const ot_node *n, int i)
{
    const ot_value *v = n->in[i];
    return ot_is_const(v) && ot_numel(&v->shape) == 1 ? ot_get_f64(v->data, v->dtype, 0) : (double)NAN;
}

static ot_status set(ot_node *n, const ot_shape *y, ot_error *err)
{
    int64_t t = ((const table_attrs *)n->attrs)->output_datatype;
    if (t < 1 || t > 31 || !(OT_SET_NUMBER >> t & 1))
        return ot_node_fail(n, err, "invalid output_datatype %lld", (long long)t);
    if (!ot_shape_fits(y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], (ot_dtype)t, y);
}

static void *table(ot_build *b)
{
    const ot_value *y = b->node->out[0];
    return ot_broken(b) ? NULL : ot_graph_alloc(b->graph, ot_bytes(&y->shape, y->dtype) + 1);
}

static void yield(ot_build *b, const void *bytes)
{
    const ot_value *y = b->node->out[0];
    if (bytes) ot_yield(b, 0, ot_graph_const_of(b->graph, y->name, y->dtype, &y->shape, bytes));
}

/* ---- windows --------------------------------------------------------------- */

static ot_status window_infer(ot_node *n, ot_error *err)
{
    double size = number(n, 0);
    if (!(size >= 0 && size < 0x1p40))
        return ot_node_fail(n, err,
                            "the size must be a single number of at least 0, "
                            "known before the run");
    return set(n, &(ot_shape){ .rank = 1, .dim = { (int64_t)size } }, err);
}

/* a - b cos(x) + c cos(2x) */
static void window_emit(ot_build *b, double a, double first, double second)
{
    const ot_value *y = b->node->out[0];
    int64_t n = y->shape.dim[0], over = ((const table_attrs *)b->node->attrs)->periodic ? n : n - 1;
    void *bytes = table(b);
    for (int64_t i = 0; i < n && bytes; i++) {
        double x = 6.283185307179586 * (double)i / (double)(over ? over : 1);
        ot_set_f64(bytes, y->dtype, i, n == 1 ? 1 : a - first * cos(x) + second * cos(2 * x));
    }
    yield(b, bytes);
}

static void hann_lower(ot_build *b) { window_emit(b, 0.5, 0.5, 0); }
static void hamming_lower(ot_build *b) { window_emit(b, 25.0 / 46, 21.0 / 46, 0); }
static void blackman_lower(ot_build *b) { window_emit(b, 0.42, 0.5, 0.08); }

#define WINDOW(op, rule)                                                                           \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "x" }, .since = 17, .in = { 1, 1 }, .out = { 1, 1 }, .nondiff = 1, \
        .attrs = window_rows, .attr_size = sizeof(table_attrs), .infer = window_infer,             \
        .lower = rule, .grad_zero = "its input is a constant",                                     \
    };

WINDOW(HannWindow, hann_lower)
WINDOW(HammingWindow, hamming_lower)
WINDOW(BlackmanWindow, blackman_lower)

/* ---- MelWeightMatrix ------------------------------------------------------- */

static double mel(double hertz) { return 2595 * log10(1 + hertz / 700); }
static double hertz(double mel) { return 700 * (pow(10, mel / 2595) - 1); }

/* The index in the spectrum of the start of triangle i; i + 1: of its top. */
static double edge(const ot_node *n, int64_t i)
{
    double low = mel(number(n, 3)), high = mel(number(n, 4));
    double at = hertz(low + (double)i * (high - low) / (number(n, 0) + 2));
    return floor((number(n, 1) + 1) * at / number(n, 2));
}

static ot_status mel_infer(ot_node *n, ot_error *err)
{
    for (int i = 0; i < 5; i++)
        if (!(fabs(number(n, i)) < 0x1p40))
            return ot_node_fail(n, err,
                                "input %d must be a single number known "
                                "before the run",
                                i);
    double bins = number(n, 0), length = number(n, 1), rate = number(n, 2), low = number(n, 3), high = number(n, 4);
    if (bins < 0 || length < 1 || rate < 1 || low < 0 || high < low)
        return ot_node_fail(n, err, "%g bins of a transform of %g elements at %g Hz are invalid for %g to %g Hz", bins,
                            length, rate, low, high);
    ot_shape y = { .rank = 2, .dim = { (int64_t)length / 2 + 1, (int64_t)bins } };
    if (bins > 0 && edge(n, y.dim[1] + 1) >= (double)y.dim[0])
        return ot_node_fail(n, err, "the spectrum ends below %g Hz", high);
    return set(n, &y, err);
}

static void mel_lower(ot_build *b)
{
    const ot_value *y = b->node->out[0];
    int64_t bins = y->shape.dim[1];
    void *bytes = table(b);
    for (int64_t i = 0; i < bins && bytes; i++) {
        int64_t from = (int64_t)edge(b->node, i), top = (int64_t)edge(b->node, i + 1),
                to = (int64_t)edge(b->node, i + 2);
        if (from == top) ot_set_f64(bytes, y->dtype, top * bins + i, 1);
        for (int64_t j = from; j < top; j++)
            ot_set_f64(bytes, y->dtype, j * bins + i, (double)(j - from) / (double)(top - from));
        for (int64_t j = top; j < to; j++)
            ot_set_f64(bytes, y->dtype, j * bins + i, (double)(to - j) / (double)(to - top));
        if (top == to && from < top) ot_set_f64(bytes, y->dtype, top * bins + i, 1);
    }
    yield(b, bytes);
}

const ot_op ot_op_MelWeightMatrix = {
    .name = "MelWeightMatrix",
    .types = { "UUUTT", .T = OT_SET_FLOAT, .U = OT_SET_INDEX },
    .since = 17,
    .in = { 5, 5 },
    .out = { 1, 1 },
    .nondiff = 0x1f,
    .attrs = mel_rows,
    .attr_size = sizeof(table_attrs),
    .infer = mel_infer,
    .lower = mel_lower,
    .grad_zero = "its inputs are constants",
};
