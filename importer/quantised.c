/* quantised.c - rewrites a quantised operator into the plain one between DequantizeLinear and QuantizeLinear; it
 * trains as those do.
 *
 * Spec    ai.onnx QLinearConv, QLinearMatMul 10, 21; com.microsoft 1 of ONNX Runtime 1.32: QGemm, QLinear*,
 *         MatMulNBits, DynamicQuantizeMatMul, DynamicQuantizeLSTM, MatMulIntegerToFloat, NhwcMaxPool
 *
 * 4-bit weights are stored two to a byte.  ONNX packs its 4-bit types the same way, so the bytes are used as they
 * are. */
#include "importer/build.h"

#define IN(...) (ot_value *[]){ __VA_ARGS__ }, (int)(sizeof((ot_value *[]){ __VA_ARGS__ }) / sizeof(ot_value *))

static ot_status made(ot_form *f, ot_value *v)
{
    f->out[0] = v;
    f->done = true;
    return ot_status_of(v);
}

static ot_value *input(const ot_form *f, int i) { return i < f->n_in ? f->in[i] : NULL; }

/* The tensor that inputs i, i + 1 and i + 2 (optional) describe. */
static ot_value *dequantised(ot_form *f, int i, int64_t axis)
{
    return ot_form_before_int(f, "DequantizeLinear", IN(f->in[i], f->in[i + 1], input(f, i + 2)), "axis", axis);
}

/* y, quantised by inputs i and i + 1. */
static ot_status quantised(ot_form *f, ot_value *y, int i)
{
    ot_value *scale = f->in[i], *zero = input(f, i + 1);
    f->op = "QuantizeLinear";
    f->domain = "";
    f->n_attr = 0;
    f->n_in = 3;
    f->in[0] = y;
    f->in[1] = scale;
    f->in[2] = zero;
    return ot_status_of(y);
}

/* ---- products --------------------------------------------------------------------------- */

ot_status ot_qlinear_matmul(ot_form *f)
{
    OT_TRY(ot_form_require(f, 0xff));
    ot_value *a = dequantised(f, 0, -2), *b = dequantised(f, 3, -1);
    if (!a || !b) return OT_E_NOMEM;
    return quantised(f, ot_form_before(f, "MatMul", IN(a, b)), 6);
}

/* The product of both scales: a number where they are, so that the bias can train. */
static ot_value *step_of(ot_form *f, ot_value *a, ot_value *b)
{
    if (!ot_is_const(a) || !ot_is_const(b) || a->dtype != OT_F32 || b->dtype != OT_F32 || ot_numel(&a->shape) != 1)
        return ot_form_before(f, "Mul", IN(a, b));
    int64_t n = ot_numel(&b->shape);
    float *p = ot_job_alloc(f->job, (size_t)n * sizeof *p + 1);
    for (int64_t i = 0; p && i < n; i++) p[i] = *(const float *)a->data * ((const float *)b->data)[i];
    return p ? ot_graph_const(f->scope->graph, "", OT_F32, &b->shape, p) : NULL;
}

/* A bias of integers in steps of the product of both scales. */
static ot_value *bias_of(ot_form *f, ot_value *bias, ot_value *scale_a, ot_value *scale_b)
{
    ot_value *step = step_of(f, scale_a, scale_b);
    return step ? ot_form_before_int(f, "DequantizeLinear", IN(bias, step), "axis", 0) : NULL;
}

/* Node `name` with the attributes of f.  The channels of input 0 and of the result may lie at the end of `rank` axes, as com.microsoft
 * has them. */
static ot_value *spatial(ot_form *f, const char *name, ot_value **in, int n, bool last, int rank)
{
    ot_form_drop(f, "channels_last");
    if (last) in[0] = ot_channels(f, in[0], rank, true);
    ot_value *y = in[0] ? ot_form_before_like(f, name, in, n) : NULL;
    return last ? ot_channels(f, y, rank, false) : y;
}

ot_status ot_qlinear_conv(ot_form *f)
{
    bool last = ot_form_int(f, "channels_last", 0) != 0;
    OT_TRY(ot_form_require(f, 0xff));
    int rank = f->in[3]->shape.rank;
    if (last && rank < 3) return ot_form_finding(f, "channels_last needs a weight of known rank");
    ot_value *x = dequantised(f, 0, 1), *w = dequantised(f, 3, 0), *b = NULL;
    if (input(f, 8)) {
        b = bias_of(f, f->in[8], f->in[1], f->in[4]);
        OT_TRY(ot_status_of(b));
    }
    if (!x || !w) return OT_E_NOMEM;
    return quantised(f, spatial(f, "Conv", (ot_value *[]){ x, w, b }, b ? 3 : 2, last, rank), 6);
}

ot_status ot_qgemm(ot_form *f)
{
    ot_form g;
    bool turned = ot_form_int(f, "transB", 0) != 0;
    double alpha = ot_form_float(f, "alpha", 1);
    OT_TRY(ot_form_require(f, 0x1b));
    if (input(f, 6) && alpha != 1) return ot_form_finding(f, "alpha together with a bias is not supported");
    ot_value *a = dequantised(f, 0, 0), *b = dequantised(f, 3, turned ? 0 : 1), *c = NULL;
    if (!a || !b) return OT_E_NOMEM;
    if (input(f, 6)) {
        c = bias_of(f, f->in[6], f->in[1], f->in[4]);
        OT_TRY(ot_status_of(c));
    }
    OT_TRY(ot_form_begin(f, &g, "Gemm", IN(a, b, c), 1));
    if (!c) g.n_in = 2;
    OT_TRY(ot_form_set_int(&g, "transA", ot_form_int(f, "transA", 0)));
    OT_TRY(ot_form_set_int(&g, "transB", turned));
    OT_TRY(ot_form_set_float(&g, "alpha", (float)alpha));
    ot_value *y = ot_form_finish(&g);
    return input(f, 7) ? quantised(f, y, 7) : made(f, y);
}

/* (a - zero) (b - zero), exact, times both scales. */
ot_value *ot_scaled_product(ot_form *f, ot_value *a, ot_value *b, ot_value *zero_a, ot_value *zero_b, ot_value *scale_a,
                            ot_value *scale_b)
{
    ot_value *y = ot_form_before(f, "MatMulInteger", IN(a, b, zero_a, zero_b)),
             *scale = ot_form_before(f, "Mul", IN(scale_a, scale_b));
    if (!y || !scale || !(y = ot_form_before_int(f, "Cast", &y, 1, "to", OT_F32))) return NULL;
    return ot_form_before(f, "Mul", IN(y, scale));
}

static ot_status with_bias(ot_form *f, ot_value *y, ot_value *bias)
{
    OT_TRY(ot_status_of(y));
    return made(f, bias ? ot_form_before(f, "Add", IN(y, bias)) : y);
}

ot_status ot_matmul_integer_to_float(ot_form *f)
{
    OT_TRY(ot_form_require(f, 0xf));
    return with_bias(f, ot_scaled_product(f, f->in[0], f->in[1], input(f, 4), input(f, 5), f->in[2], f->in[3]),
                     input(f, 6));
}

ot_status ot_dynamic_quantize_matmul(ot_form *f)
{
    ot_form g;
    OT_TRY(ot_form_require(f, 7));
    OT_TRY(ot_form_begin(f, &g, "DynamicQuantizeLinear", f->in, 1, 3));
    OT_TRY(ot_status_of(ot_form_finish(&g)));
    return with_bias(f, ot_scaled_product(f, g.out[0], f->in[1], g.out[2], input(f, 3), g.out[1], f->in[2]),
                     input(f, 4));
}

/* v, one number or one for each column of a direction, beside w, (directions, rows, columns): of columns as blocks of all rows. */
static ot_value *beside(ot_form *f, ot_value *v, const ot_value *w)
{
    ot_shape s = { .rank = 3, .dim = { w->shape.dim[0], 1, w->shape.dim[2] } };
    if (!v || v->shape.rank < 2) return v;
    if (!ot_is_const(v) || ot_numel(&v->shape) != ot_numel(&s)) {
        ot_form_finding(f, "scales and zero points must be constants with a number for each column of the weights");
        return NULL;
    }
    return ot_graph_const(f->scope->graph, "", v->dtype, &s, v->data);
}

/* The weights (directions, columns, rows) of LSTM for input i; their scale and zero point are inputs `at` and at + 1. */
static ot_value *recurrent_weights(ot_form *f, int i, int at)
{
    ot_value *w = f->in[i], *scale = beside(f, f->in[at], w), *zero = beside(f, input(f, at + 1), w);
    bool columns = f->in[at]->shape.rank == 2;
    ot_form g;
    if (!scale || (input(f, at + 1) && !zero)) return NULL;
    if (ot_form_begin(f, &g, "DequantizeLinear", IN(w, scale, zero), 1) || ot_form_set_int(&g, "axis", columns) ||
        (columns && ot_form_set_int(&g, "block_size", w->shape.dim[1])))
        return NULL;
    w = ot_form_finish(&g);
    if (!w || ot_form_begin(f, &g, "Transpose", &w, 1, 1) || ot_form_set_ints(&g, "perm", (int64_t[]){ 0, 2, 1 }, 3))
        return NULL;
    return ot_form_finish(&g);
}

/* ONNX Runtime rounds the inputs and states to 8 bits for each product, with a scale for each; here they are not rounded. */
ot_status ot_dynamic_quantize_lstm(ot_form *f)
{
    OT_TRY(ot_form_require(f, 0x507));
    if (f->in[1]->shape.rank != 3 || f->in[2]->shape.rank != 3 || f->in[8]->shape.rank < 1 || f->in[10]->shape.rank < 1)
        return ot_form_finding(f, "its weights and scales must be tensors of the file");
    for (int i = 1; i <= 2; i++)
        if (!(f->in[i] = recurrent_weights(f, i, 6 + 2 * i)))
            return f->job->found->status == OT_E_MODEL ? OT_E_MODEL : OT_E_NOMEM;
    f->op = "LSTM";
    f->domain = "";
    f->n_in = 8;
    return OT_OK;
}

/* ---- weights in blocks ------------------------------------------------------------------------ */

/* The constant v gets type `t` and another shape for the same bytes. */
static ot_status reinterpret(ot_form *f, ot_value *v, ot_dtype t, int64_t rows, int64_t columns)
{
    ot_shape s = { .rank = 2, .dim = { rows, columns } };
    if (v->dtype == t && ot_shape_eq(&v->shape, &s)) return OT_OK;
    if (!ot_is_const(v) || v->dtype == OT_STRING || ot_bytes(&v->shape, v->dtype) != ot_bytes(&s, t))
        return ot_form_finding(
            f, "its weights and scales must be constants whose shapes follow from bits, N, K and block_size");
    v->dtype = t; /* the tensor of the file itself: what is made of it is written there */
    v->shape = s;
    return OT_OK;
}

/* *out: v's zero points, `blocks` values a row, each row in whole bytes; 2^(bits - 1) where v is NULL. */
static ot_status zeros_of(ot_form *f, ot_value *v, ot_dtype t, int64_t rows, int64_t blocks, ot_value **out)
{
    ot_shape s = { .rank = 2, .dim = { rows, blocks } };
    int64_t bits = ot_dtype_bits(t), row = (blocks * bits + 7) / 8 * 8 / bits;
    if (v && (!ot_is_const(v) || v->dtype != OT_U8 || ot_numel(&v->shape) != row * bits / 8 * rows))
        return ot_form_finding(f, "its zero points must be a constant, packed as the weights are");
    unsigned char *p = ot_job_alloc(f->job, ot_bytes(&s, t) + 1);
    for (int64_t i = 0; p && i < rows * blocks; i++)
        ot_set_i64(p, t, i, v ? ot_get_i64(v->data, t, i / blocks * row + i % blocks) : (int64_t)1 << (bits - 1));
    *out = p ? ot_graph_const(f->scope->graph, "", t, &s, p) : NULL;
    return ot_status_of(*out);
}

/* Inputs: x, weights (N, blocks, bytes), scales, zero points, order of groups, bias. */
ot_status ot_matmul_nbits(ot_form *f)
{
    int64_t K = ot_form_int(f, "K", 0), N = ot_form_int(f, "N", 0), bits = ot_form_int(f, "bits", 4),
            block = ot_form_int(f, "block_size", 0), all;
    ot_dtype t = bits == 2 ? OT_U2 : bits == 4 ? OT_U4 : bits == 8 ? OT_U8 : OT_UNDEFINED;
    ot_form g;
    OT_TRY(ot_form_require(f, 7));
    if (!t || K < 1 || N < 1 || block < 16 || !ot_add(K, block - 1, &all) || !ot_mul(N, all, &all))
        return ot_form_finding(f, "bits must be 2, 4 or 8, and K, N and block_size (at least 16) are required");
    if (input(f, 4)) return ot_form_finding(f, "a group index (g_idx) is not supported");
    int64_t blocks = (K + block - 1) / block;
    ot_value *w = f->in[1], *scale = f->in[2], *zero;
    OT_TRY(reinterpret(f, w, t, N, blocks * block));
    OT_TRY(reinterpret(f, scale, scale->dtype, N, blocks));
    OT_TRY(zeros_of(f, input(f, 3), t, N, blocks, &zero));
    OT_TRY(ot_form_begin(f, &g, "DequantizeLinear", IN(w, scale, zero), 1));
    OT_TRY(ot_form_set_int(&g, "axis", 1));
    OT_TRY(ot_form_set_int(&g, "block_size", block));
    w = ot_form_finish(&g);
    OT_TRY(ot_status_of(w));
    ot_value *from = ot_form_ints(f, &(int64_t){ 0 }, 1), *to = ot_form_ints(f, &K, 1),
             *axis = ot_form_ints(f, &(int64_t){ 1 }, 1);
    if (blocks * block > K && !(w = ot_form_before(f, "Slice", IN(w, from, to, axis)))) return OT_E_NOMEM;
    if (!(w = ot_form_before(f, "Transpose", &w, 1)) || !(w = ot_form_before(f, "MatMul", IN(f->in[0], w))))
        return OT_E_NOMEM;
    return made(f, input(f, 5) ? ot_form_before(f, "Add", IN(w, f->in[5])) : w);
}

/* Rows of a table in blocks.  Inputs: the table, indices, scales, zero points.  Of bytes it is (rows, columns * bits / 8). */
ot_status ot_gather_blocks(ot_form *f)
{
    int64_t bits = ot_form_int(f, "bits", 4), block = ot_form_int(f, "block_size", 128),
            axis = ot_form_int(f, "quantize_axis", 1);
    ot_form g;
    OT_TRY(ot_form_require(f, 7));
    ot_value *w = f->in[0], *zero = input(f, 3);
    if (w->dtype == OT_U8 && bits != 8) {
        ot_dtype t = bits == 4 ? OT_U4 : bits == 2 ? OT_U2 : OT_UNDEFINED;
        if (!t || !ot_is_const(w) || w->shape.rank != 2 || (axis != 1 && axis != -1) || block < 1)
            return ot_form_finding(
                f, "bits must be 2, 4 or 8, and the table must be a constant with two axes, the last in "
                   "blocks");
        int64_t rows = w->shape.dim[0], columns = w->shape.dim[1] * 8 / bits;
        OT_TRY(reinterpret(f, w, t, rows, columns));
        OT_TRY(zeros_of(f, zero, t, rows, columns / block + (columns % block != 0), &zero));
    }
    OT_TRY(ot_form_begin(f, &g, "DequantizeLinear", IN(w, f->in[2], zero), 1));
    OT_TRY(ot_form_set_int(&g, "axis", axis));
    OT_TRY(ot_form_set_int(&g, "block_size", block));
    w = ot_form_finish(&g);
    OT_TRY(ot_status_of(w));
    return made(f, ot_form_before_int(f, "Gather", IN(w, f->in[1]), "axis", ot_form_int(f, "gather_axis", 0)));
}

/* ---- one or two tensors ------------------------------------------------------------------------- */

ot_status ot_qlinear_sum(ot_form *f)
{
    OT_TRY(ot_form_require(f, 0x5b));
    ot_value *a = dequantised(f, 0, 1), *b = dequantised(f, 3, 1);
    if (!a || !b) return OT_E_NOMEM;
    return quantised(f, ot_form_before(f, strcmp(f->op, "QLinearMul") ? "Add" : "Mul", IN(a, b)), 6);
}

ot_status ot_qlinear_unary(ot_form *f)
{
    bool leaky = strcmp(f->op, "QLinearSigmoid") != 0;
    OT_TRY(ot_form_require(f, 0xb));
    ot_value *x = dequantised(f, 0, 1);
    OT_TRY(ot_status_of(x));
    return quantised(f, leaky ? ot_form_before_like(f, "LeakyRelu", &x, 1) : ot_form_before(f, "Sigmoid", &x, 1), 3);
}

/* Below opset 13 the axes from `axis` on would be one. */
ot_status ot_qlinear_softmax(ot_form *f)
{
    int64_t axis = ot_form_int(f, "axis", -1);
    OT_TRY(ot_form_require(f, 0xb));
    if (ot_form_int(f, "opset", 13) < 13 && axis != -1)
        return ot_form_finding(f, "axis %lld is not supported below opset 13", (long long)axis);
    ot_value *x = dequantised(f, 0, 1);
    OT_TRY(ot_status_of(x));
    return quantised(f, ot_form_before_int(f, "Softmax", &x, 1, "axis", axis), 3);
}

/* The axes of a pool's input: what the file says, else two more than the kernel, else those of images. */
static int pooled_rank(const ot_form *f)
{
    const ot_attribute *kernel = ot_form_get(f, "kernel_shape");
    int rank = f->in[0]->shape.rank;
    return rank >= 3 ? rank : kernel && kernel->n_ints < OT_MAX_RANK - 1 ? (int)kernel->n_ints + 2 : 4;
}

ot_status ot_qlinear_pool(ot_form *f)
{
    const char *pool = strstr(f->op, "Global") ? "GlobalAveragePool" : "AveragePool";
    bool last = ot_form_int(f, "channels_last", 0) != 0;
    OT_TRY(ot_form_require(f, 0xb));
    ot_value *x = dequantised(f, 0, 1);
    OT_TRY(ot_status_of(x));
    return quantised(f, spatial(f, pool, &x, 1, last, pooled_rank(f)), 3);
}

ot_status ot_nhwc_max_pool(ot_form *f)
{
    ot_value *x = f->in[0];
    return made(f, spatial(f, "MaxPool", &x, 1, true, pooled_rank(f)));
}

/* Inputs: the condition, three for each tensor, scale and zero point of y. */
ot_status ot_qlinear_where(ot_form *f)
{
    OT_TRY(ot_form_require(f, 0xb7));
    ot_value *a = dequantised(f, 1, 1), *b = dequantised(f, 4, 1);
    if (!a || !b) return OT_E_NOMEM;
    return quantised(f, ot_form_before(f, "Where", IN(f->in[0], a, b)), 7);
}

/* Inputs: scale and zero point of y, then three for each tensor. */
ot_status ot_qlinear_concat(ot_form *f)
{
    int n = (f->n_in - 2 + 2) / 3;
    ot_value **in = ot_job_alloc(f->job, (size_t)(n + 1) * sizeof *in);
    if (!in) return OT_E_NOMEM;
    OT_TRY(ot_form_require(f, 1));
    for (int i = 0; i < n; i++) {
        if (!input(f, 2 + 3 * i) || !input(f, 3 + 3 * i))
            return ot_form_finding(f, "tensor %d or its scale is missing", i);
        in[i] = dequantised(f, 2 + 3 * i, 1);
        OT_TRY(ot_status_of(in[i]));
    }
    return quantised(f, ot_form_before_like(f, "Concat", in, n), 0);
}
