/* quantize.c - QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.
 *
 * Spec    ai.onnx QuantizeLinear 10 to 25, DequantizeLinear 10 to 25, DynamicQuantizeLinear 11.
 *         Integers: y = saturate(round to even(x / scale) + zero point).  Small floats: y = cast(x / scale).
 * Shapes  x, y: any   scale, zero point: one value · one per index along `axis` · blocked: that of x with ceil(size /
 *         block_size) indices along `axis`
 * Grad    none through integers.  DequantizeLinear after QuantizeLinear with the same scale becomes fake quantization
 *         (pass fake_quant) with a straight-through gradient, 0 where it saturates.  Small floats: straight-through,
 *         in float32, 0 where it saturates.  Scales and zero points have none. */
#include "ops/onnx/batching.h"
#include "ops/onnx/quantize.h"

#include <math.h>
#include <stddef.h>

#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/take.h"

#define AT(field) offsetof(ot_quantize, field)
static const ot_attr quantize_rows[] = {
    { "axis", OT_INT, AT(axis), 1, NULL },
    { "block_size", OT_INT, AT(block_size), 0, NULL },
    { "output_dtype", OT_INT, AT(output_dtype), 0, NULL },
    { "precision", OT_INT, AT(precision), 0, NULL },
    { "saturate", OT_INT, AT(saturate), 1, NULL },
    { 0 },
};
#undef AT

#define AT(field) offsetof(ot_dequantize, field)
static const ot_attr dequantize_rows[] = {
    { "axis", OT_INT, AT(axis), 1, NULL },
    { "block_size", OT_INT, AT(block_size), 0, NULL },
    { "output_dtype", OT_INT, AT(output_dtype), 0, NULL },
    { 0 },
};
#undef AT

static ot_value *zero_point(const ot_node *n) { return ot_node_in(n, 2); }

static bool is_small(ot_dtype t) { return ot_is_float(t) && ot_dtype_bits(t) <= 8; }

/* ---- shapes ---------------------------------------------------------------- */

/* Does s, the shape of a scale or a zero point, fit x? */
static ot_status fits(const ot_node *n, const ot_shape *s, int64_t at, int64_t block, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    int axis;
    char text[2][128];
    if (block < 0) return ot_node_fail(n, err, "invalid block size %lld", (long long)block);
    if (block == 0 && ot_numel(s) == 1 && s->rank <= 1) return OT_OK;
    OT_TRY(ot_node_axis(n, at, x->rank, &axis, err));
    bool ok = block ? s->rank == x->rank : s->rank == 1 && s->dim[0] == x->dim[axis];
    for (int d = 0; ok && block && d < x->rank; d++)
        ok = s->dim[d] == (d == axis ? x->dim[d] / block + (x->dim[d] % block != 0) : x->dim[d]);
    if (!ok)
        return ot_node_fail(n, err, "scale or zero point of shape %s does not match %s along axis %d%s",
                            ot_shape_text(s, text[0]), ot_shape_text(x, text[1]), axis, block ? " in blocks" : "");
    return OT_OK;
}

static ot_status check(const ot_node *n, int64_t axis, int64_t block, ot_error *err)
{
    const ot_value *zero = zero_point(n);
    if (!ot_is_float(n->in[1]->dtype))
        return ot_node_fail(n, err, "the scale is %s; expected a float", ot_dtype_name(n->in[1]->dtype));
    OT_TRY(fits(n, &n->in[1]->shape, axis, block, err));
    char text[2][128];
    bool single =
        zero && ot_numel(&zero->shape) == 1 && ot_numel(&n->in[1]->shape) == 1; /* [] and [1] are both per tensor */
    if (zero && !single && !ot_shape_eq(&zero->shape, &n->in[1]->shape))
        return ot_node_fail(n, err, "the zero point is %s, but the scale is %s; expected equal shapes",
                            ot_shape_text(&zero->shape, text[0]), ot_shape_text(&n->in[1]->shape, text[1]));
    return OT_OK;
}

static ot_status quantize_infer(ot_node *n, ot_error *err)
{
    const ot_quantize *a = n->attrs;
    const ot_value *zero = zero_point(n);
    ot_dtype y = zero ? zero->dtype : a->output_dtype ? (ot_dtype)a->output_dtype : OT_U8;
    OT_TRY(check(n, a->axis, a->block_size, err));
    if (a->output_dtype < 0 || a->output_dtype > OT_I2 || (a->output_dtype && (ot_dtype)a->output_dtype != y))
        return ot_node_fail(n, err, "output_dtype %lld does not match the zero point of type %s",
                            (long long)a->output_dtype, ot_dtype_name(y));
    bool integer = !ot_is_float(y) && y != OT_BOOL && ot_dtype_bits(y) > 0 && ot_dtype_bits(y) <= 16;
    if (!integer && !is_small(y)) return ot_node_fail(n, err, "quantization to %s is not supported", ot_dtype_name(y));
    if (!ot_is_float(n->in[0]->dtype) && n->in[0]->dtype != OT_I32)
        return ot_node_fail(n, err, "x is %s; expected a float or int32", ot_dtype_name(n->in[0]->dtype));
    if (a->precision && (a->precision < 0 || a->precision > OT_I2 || !ot_is_float((ot_dtype)a->precision)))
        return ot_node_fail(n, err, "precision %lld is not a float type", (long long)a->precision);
    return ot_set(n->out[0], y, &n->in[0]->shape);
}

static ot_status dequantize_infer(ot_node *n, ot_error *err)
{
    const ot_dequantize *a = n->attrs;
    const ot_value *zero = zero_point(n);
    ot_dtype x = n->in[0]->dtype, y = a->output_dtype ? (ot_dtype)a->output_dtype : n->in[1]->dtype;
    OT_TRY(check(n, a->axis, a->block_size, err));
    if (a->output_dtype < 0 || a->output_dtype > OT_I2 || !ot_is_float(y))
        return ot_node_fail(n, err, "output_dtype %lld is not a float type", (long long)a->output_dtype);
    if (a->through) return ot_set(n->out[0], y, &n->in[0]->shape);
    if (!ot_dtype_bits(x) || (ot_is_float(x) && !is_small(x)))
        return ot_node_fail(n, err, "x is %s; expected a quantised type", ot_dtype_name(x));
    if (zero && zero->dtype != x)
        return ot_node_fail(n, err, "x is %s, but the zero point is %s", ot_dtype_name(x), ot_dtype_name(zero->dtype));
    return ot_set(n->out[0], y, &n->in[0]->shape);
}

/* ---- lowering --------------------------------------------------------------- */

/* A scale or zero point, reshaped to broadcast to x. */
static ot_value *spread(ot_build *b, ot_value *v, int64_t at, int64_t block)
{
    const ot_shape *x = &b->node->in[0]->shape;
    ot_shape s = { .rank = x->rank };
    int axis = 0;
    if (!v || ot_broken(b)) return NULL;
    if (block == 0 && ot_numel(&v->shape) == 1) return ot_view(b, v, &OT_SCALAR);
    ot_axis(at, x->rank, &axis);
    for (int d = 0; d < s.rank; d++) s.dim[d] = d == axis ? x->dim[d] : 1;
    if (block == 0) return ot_view(b, v, &s);
    ot_shape line = { .rank = 1, .dim = { x->dim[axis] } };
    int64_t *of = ot_graph_alloc(b->graph, ot_bytes(&line, OT_I64) + 1);
    if (!of) return NULL;
    for (int64_t i = 0; i < x->dim[axis]; i++) of[i] = i / block;
    ot_value *index = ot_graph_const_of(b->graph, "", OT_I64, &line, of);
    if (ot_dtype_bits(v->dtype) < 8)
        v = ot_cast(b, v, ot_is_float(v->dtype) ? OT_F32 : OT_I32); /* packed 4-bit elements cannot be indexed */
    return ot_emit(b, &ot_op_Take, &(ot_take){ axis }, OT_IN(v, index));
}

static ot_dtype wide(ot_dtype t) { return t == OT_F64 ? OT_F64 : OT_F32; }

static ot_value *divide(ot_build *b, ot_value *x, ot_value *scale, ot_dtype t)
{
    if (ot_broken(b)) return NULL;
    ot_value *in[] = { ot_cast(b, x, t), ot_cast(b, scale, t) };
    return ot_map_emit(b, OT_FN_Div, 0, 0, in, 2, t);
}

/* round(u) + zero within the range of integer type t; the result is a float. */
static ot_value *rounded(ot_build *b, ot_value *u, ot_value *zero, ot_dtype t)
{
    if (ot_broken(b)) return NULL;
    ot_dtype w = wide(u->dtype);
    double half = ldexp(1, ot_dtype_bits(t) - ot_is_signed(t));
    zero = zero ? ot_cast(b, zero, w) : ot_scalar(b, w, 0);
    return ot_map2(b, OT_FN_Quantize, ot_is_signed(t) ? -half : 0, half - 1, ot_cast(b, u, w), zero);
}

/* u + zero as a float of type t.  Where it saturates the gradient is 0, as of integers. */
static ot_value *to_small(ot_build *b, ot_value *u, ot_value *zero, ot_dtype t, bool saturate)
{
    if (ot_broken(b)) return NULL;
    ot_dtype w = wide(u->dtype);
    u = ot_cast(b, u, w);
    if (zero) u = ot_map2(b, OT_FN_Add, 0, 0, u, ot_cast(b, zero, w));
    if (ot_broken(b)) return NULL;
    if (saturate || ot_dtype_bits(t) != 8) {
        double most = ot_float_decode(ot_float_encode(INFINITY, t, true), t);
        return ot_cast(b, ot_map3(b, OT_FN_Clip, 1, 0, u, ot_scalar(b, w, -most), ot_scalar(b, w, most)), t);
    }
    ot_program m;
    ot_map_program(&m, OT_FN_Copy, 0, 0, 1, ot_class_of(w), t);
    m.out_dtype[0] |= OT_MAP_NO_SATURATE;
    ot_node *made = ot_map_emit_program(b, &m, &u);
    return made ? made->out[0] : NULL;
}

static void quantize_lower(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_quantize *a = n->attrs;
    ot_dtype t = n->out[0]->dtype;
    ot_value *zero = spread(b, zero_point(n), a->axis, a->block_size);
    ot_value *u = divide(b, n->in[0], spread(b, n->in[1], a->axis, a->block_size),
                         a->precision ? (ot_dtype)a->precision : n->in[1]->dtype);
    if (ot_broken(b)) return;
    if (!ot_is_float(t)) {
        ot_yield(b, 0, ot_cast(b, rounded(b, u, zero, t), t));
        return;
    }
    ot_yield(b, 0, to_small(b, u, zero, t, a->saturate));
}

static void dequantize_lower(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_dequantize *a = n->attrs;
    ot_value *x = n->in[0], *scale = spread(b, n->in[1], a->axis, a->block_size);
    ot_value *zero = spread(b, zero_point(n), a->axis, a->block_size);
    if (ot_broken(b)) return;
    ot_dtype w = wide(scale->dtype);
    if (a->through) { /* a computed scale gets no gradient either */
        if (!ot_is_const(n->in[1])) scale = ot_map1(b, OT_FN_Detach, 0, 0, scale);
        ot_value *u = divide(b, x, scale, a->divide);
        x = ot_is_float(a->through) ? to_small(b, u, zero, a->through, true) : rounded(b, u, zero, a->through);
        x = ot_cast(b, x, w);
        if (zero) x = ot_map2(b, OT_FN_Sub, 0, 0, x, ot_cast(b, zero, w));
    } else if (ot_is_float(x->dtype)) {
        x = ot_cast(b, x, w);
        if (zero) x = ot_map2(b, OT_FN_Sub, 0, 0, x, ot_cast(b, zero, w));
    } else { /* exact: integers are subtracted first */
        if (zero) x = ot_map2(b, OT_FN_Sub, 0, 0, ot_cast(b, x, OT_I64), ot_cast(b, zero, OT_I64));
        x = ot_cast(b, x, w);
    }
    x = ot_map2(b, OT_FN_Mul, 0, 0, x, ot_cast(b, scale, w));
    ot_yield(b, 0, ot_cast(b, x, n->out[0]->dtype));
}

static bool quantize_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    int axis = -1;
    if (!ot_batch_first_alone(n) || ot_attr_get(n, "block_size", 0)) return false;
    if (ot_numel(&n->in[1]->shape) != 1 && !ot_axis(ot_attr_get(n, "axis", 1), n->in[0]->shape.rank, &axis))
        return false;
    if (ot_batch_axis(n->in[0]) != axis) return ot_batch_on(r, n, ot_batch_axis(n->in[0]));
    return axis && (r->in[0] = ot_batch_move(b, n->in[0], 0)) && ot_batch_on(r, n, 0);
}

const ot_op ot_op_QuantizeLinear = {
    .name = "QuantizeLinear",
    .types = { "*" },
    .slots = ">--",
    .since = 25,
    .in = { 2, 3 },
    .out = { 1, 1 },
    .nondiff = 6,
    .attrs = quantize_rows,
    .attr_size = sizeof(ot_quantize),
    .infer = quantize_infer,
    .lower = quantize_lower,
    .batch = quantize_batch,
};

const ot_op ot_op_DequantizeLinear = {
    .name = "DequantizeLinear",
    .types = { "nrn" },
    .slots = ">--",
    .since = 25,
    .in = { 2, 3 },
    .out = { 1, 1 },
    .quantised = 1,
    .nondiff = 6,
    .attrs = dequantize_rows,
    .attr_size = sizeof(ot_dequantize),
    .infer = dequantize_infer,
    .lower = dequantize_lower,
    .batch = quantize_batch,
};

/* ---- DynamicQuantizeLinear ---------------------------------------------------- */

static ot_status dynamic_infer(ot_node *n, ot_error *err)
{
    if (n->in[0]->dtype != OT_F32)
        return ot_node_fail(n, err, "x is %s; expected float32", ot_dtype_name(n->in[0]->dtype));
    if (ot_numel(&n->in[0]->shape) == 0) return ot_node_fail(n, err, "x is empty");
    OT_TRY(ot_set(n->out[0], OT_U8, &n->in[0]->shape));
    if (n->n_out > 1 && n->out[1]) OT_TRY(ot_set(n->out[1], OT_F32, &OT_SCALAR));
    return n->n_out > 2 && n->out[2] ? ot_set(n->out[2], OT_U8, &OT_SCALAR) : OT_OK;
}

static void dynamic_lower(ot_build *b)
{
    const ot_node *n = b->node;
    ot_value *x = n->in[0], *zero = ot_scalar(b, OT_F32, 0);
    int64_t all = ((int64_t)1 << x->shape.rank) - 1;
    ot_value *max = ot_map2(b, OT_FN_Max, 0, 0, ot_reduce_axes(b, x, OT_REDUCE_MAX, all, false), zero);
    ot_value *min = ot_map2(b, OT_FN_Min, 0, 0, ot_reduce_axes(b, x, OT_REDUCE_MIN, all, false), zero);
    ot_value *scale = divide(b, ot_map2(b, OT_FN_Sub, 0, 0, max, min), ot_scalar(b, OT_F32, 255), OT_F32);
    scale = ot_map3(b, OT_FN_Where, 0, 0, ot_map2(b, OT_FN_Greater, 0, 0, scale, zero), scale,
                    ot_scalar(b, OT_F32, 1)); /* all zero */
    ot_value *from = divide(b, ot_map2(b, OT_FN_Sub, 0, 0, zero, min), scale, OT_F32);
    ot_value *point = ot_cast(b, rounded(b, from, NULL, OT_U8), OT_U8);
    ot_yield(b, 0, ot_cast(b, rounded(b, divide(b, x, scale, OT_F32), point, OT_U8), OT_U8));
    if (n->n_out > 1 && n->out[1]) ot_yield(b, 1, scale);
    if (n->n_out > 2 && n->out[2]) ot_yield(b, 2, point);
}

const ot_op ot_op_DynamicQuantizeLinear = {
    .name = "DynamicQuantizeLinear",
    .types = { "f" },
    .since = 11,
    .in = { 1, 1 },
    .out = { 3, 3 },
    .nondiff = 1,
    .infer = dynamic_infer,
    .lower = dynamic_lower,
    .grad_zero = "integers have no gradient",
};
