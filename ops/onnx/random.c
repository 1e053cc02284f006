/* random.c - RandomNormal, RandomUniform, their Like forms, Bernoulli, Multinomial.
 *
 * Spec    ai.onnx 1 to 22 (Bernoulli 15, 22; Multinomial 7, 22).  The attribute seed is ignored: random numbers depend
 *         on the run's seed, the number of the batch, and the position of the node in the graph.
 * Shapes  Multinomial: x (N, C), logarithms of probabilities  y (N, sample_size)
 * Numerics  normal numbers by Box and Muller, from two uniform ones; Multinomial selects the largest of x + Gumbel
 *           noise, which is class c with probability softmax(x)[c].
 * Grad    none: a sample is not a differentiable function of its probabilities. */
#include <math.h>
#include <stddef.h>

#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/topkindex.h"
#include "ops/onnx/batching.h"

/* Random streams do not overlap with Dropout's or with each other: one stream per value and purpose. */
enum { SECOND = 0x800000 };

typedef struct random_attrs {
    ot_ints shape;
    double first, second; /* mean and scale, or low and high */
    double seed;
    int64_t dtype, sample_size;
} random_attrs;

#define AT(field) offsetof(random_attrs, field)
static const ot_attr normal_rows[] = {
    { "dtype", OT_INT, AT(dtype), 0, NULL },    { "mean", OT_FLOAT, AT(first), 0, NULL },
    { "scale", OT_FLOAT, AT(second), 1, NULL }, { "seed", OT_FLOAT, AT(seed), 0, NULL },
    { "shape", OT_INTS, AT(shape), 0, NULL },   { 0 },
};
static const ot_attr uniform_rows[] = {
    { "dtype", OT_INT, AT(dtype), 0, NULL },  { "high", OT_FLOAT, AT(second), 1, NULL },
    { "low", OT_FLOAT, AT(first), 0, NULL },  { "seed", OT_FLOAT, AT(seed), 0, NULL },
    { "shape", OT_INTS, AT(shape), 0, NULL }, { 0 },
};
static const ot_attr bernoulli_rows[] = {
    { "dtype", OT_INT, AT(dtype), 0, NULL },
    { "seed", OT_FLOAT, AT(seed), 0, NULL },
    { 0 },
};
static const ot_attr multinomial_rows[] = {
    { "dtype", OT_INT, AT(dtype), OT_I32, NULL },
    { "sample_size", OT_INT, AT(sample_size), 1, NULL },
    { "seed", OT_FLOAT, AT(seed), 0, NULL },
    { 0 },
};
#undef AT

/* ---- drawing --------------------------------------------------------------- */

/* Uniform numbers in [0, 1), f32 of shape s; each `stream` of a node is independent. */
static ot_value *draw(ot_build *b, const ot_shape *s, int stream)
{
    if (ot_broken(b)) return NULL;
    ot_program m = {
        .n_in = 3,
        .in_class = { OT_CLASS_I64, OT_CLASS_U64, OT_CLASS_U64 },
        .n_inst = 1,
        .n_out = 1,
        .out = { 3 },
        .out_dtype = { OT_F32 },
        .inst = { { .row = OT_FN_Random,
                    .cls = OT_CLASS_F32,
                    .arg = { 1, 2, -1, -1, -1 },
                    .p = OT_STREAM_DROPOUT + b->node->out[0]->id + stream } },
    };
    ot_value *in[] = { ot_expand(b, ot_scalar(b, OT_U8, 0), s), ot_graph_seed(b->graph), ot_graph_counter(b->graph) };
    if (!in[0] || !in[1] || !in[2]) return NULL;
    ot_node *n = ot_map_emit_program(b, &m, in);
    return n ? n->out[0] : NULL;
}

static ot_value *with(ot_build *b, int row, ot_value *x, double v)
{
    return x ? ot_map2(b, row, 0, 0, x, ot_scalar(b, x->dtype, v)) : NULL;
}

/* Random numbers in the type of computation: f64 only if the result is f64. */
static ot_value *uniform(ot_build *b, const ot_shape *s, ot_dtype t, int stream)
{
    ot_value *u = draw(b, s, stream);
    return u ? ot_cast(b, u, t == OT_F64 ? OT_F64 : OT_F32) : NULL;
}

static ot_value *normal(ot_build *b, const ot_shape *s, ot_dtype t)
{
    ot_value *u = uniform(b, s, t, 0), *v = uniform(b, s, t, SECOND);
    if (!u || !v) return NULL;
    ot_value *one = ot_scalar(b, u->dtype, 1);
    ot_value *log = ot_map1(b, OT_FN_Log, 0, 0, ot_map2(b, OT_FN_Sub, 0, 0, one, u)); /* 1 - u is never 0 */
    ot_value *radius = ot_map1(b, OT_FN_Sqrt, 0, 0, with(b, OT_FN_Mul, log, -2));
    ot_value *angle = ot_map1(b, OT_FN_Cos, 0, 0, with(b, OT_FN_Mul, v, 6.283185307179586));
    return radius && angle ? ot_map2(b, OT_FN_Mul, 0, 0, radius, angle) : NULL;
}

/* ---- RandomNormal, RandomUniform --------------------------------------------- */

static ot_status random_infer(ot_node *n, ot_error *err)
{
    const random_attrs *a = n->attrs;
    ot_shape s = { .rank = a->shape.n };
    ot_dtype t = a->dtype ? (ot_dtype)a->dtype : OT_F32;
    if (n->n_in) {
        s = n->in[0]->shape;
        if (!a->dtype) t = n->in[0]->dtype;
    } else {
        if (!a->shape.v) return ot_node_fail(n, err, "the required attribute 'shape' is missing");
        if (a->shape.n > OT_MAX_RANK) return ot_node_fail(n, err, "a shape of %d axes", a->shape.n);
        for (int d = 0; d < s.rank; d++) {
            s.dim[d] = a->shape.v[d];
            if (s.dim[d] < 0) return ot_node_fail(n, err, "invalid size %lld on axis %d", (long long)s.dim[d], d);
        }
    }
    if (a->dtype < 0 || a->dtype > OT_I2 || !ot_is_float(t)) return ot_node_fail(n, err, "expected a float type");
    if (!ot_shape_fits(&s, t)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], t, &s);
}

static void normal_lower(ot_build *b)
{
    const random_attrs *a = b->node->attrs;
    const ot_value *y = b->node->out[0];
    ot_value *v = with(b, OT_FN_Add, with(b, OT_FN_Mul, normal(b, &y->shape, y->dtype), a->second), a->first);
    if (v) ot_yield(b, 0, ot_cast(b, v, y->dtype));
}

static void uniform_lower(ot_build *b)
{
    const random_attrs *a = b->node->attrs;
    const ot_value *y = b->node->out[0];
    ot_value *v =
        with(b, OT_FN_Add, with(b, OT_FN_Mul, uniform(b, &y->shape, y->dtype, 0), a->second - a->first), a->first);
    if (v) ot_yield(b, 0, ot_cast(b, v, y->dtype));
}

static bool random_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    ot_shape y;
    if (n->n_in && !ot_batch_has(n, 0)) r->in[0] = ot_batch_spread(b, n->in[0], 0);
    if (n->n_in) return r->in[0] && r->in[0]->mark != OT_ALONE && ot_batch_on(r, n, ot_batch_axis(r->in[0]));
    int64_t *list = ot_graph_alloc(b->g, OT_MAX_RANK * sizeof *list);
    if (!list || !ot_joined_shape(b, &own[0], ot_on_axis(0), &y)) return false;
    for (int d = 0; d < y.rank; d++) list[d] = y.dim[d];
    *(ot_ints *)((char *)r->attrs + ot_attr_of(n->op, "shape")->offset) = (ot_ints){ y.rank, list };
    return ot_batch_on(r, n, 0);
}

#define RANDOM(op, inputs, rows, rule)                                                             \
    const ot_op ot_op_##op = {                                                                     \
        .name = #op, .types = { "*" }, .since = 22, .in = { inputs, inputs }, .out = { 1, 1 }, .flags = OT_RANDOM | OT_WHOLE_BATCH, .batch = random_batch, \
        .nondiff = 1, .attrs = rows, .attr_size = sizeof(random_attrs), .infer = random_infer,     \
        .lower = rule, .grad_zero = "random numbers do not depend on inputs",                           \
    };

RANDOM(RandomNormal, 0, normal_rows, normal_lower)
RANDOM(RandomNormalLike, 1, normal_rows, normal_lower)
RANDOM(RandomUniform, 0, uniform_rows, uniform_lower)
RANDOM(RandomUniformLike, 1, uniform_rows, uniform_lower)

/* ---- Bernoulli --------------------------------------------------------------- */

static ot_status bernoulli_infer(ot_node *n, ot_error *err)
{
    const random_attrs *a = n->attrs;
    ot_dtype t = a->dtype ? (ot_dtype)a->dtype : n->in[0]->dtype;
    if (!ot_is_float(n->in[0]->dtype))
        return ot_node_fail(n, err, "x is %s, expected float probabilities", ot_dtype_name(n->in[0]->dtype));
    if (a->dtype < 0 || a->dtype > OT_I2 || !ot_dtype_bits(t)) return ot_node_fail(n, err, "expected a numeric type");
    return ot_set(n->out[0], t, &n->in[0]->shape);
}

static void bernoulli_lower(ot_build *b)
{
    ot_value *x = b->node->in[0], *u = uniform(b, &x->shape, x->dtype, 0);
    if (u) ot_yield(b, 0, ot_cast(b, ot_map2(b, OT_FN_Less, 0, 0, u, ot_cast(b, x, u->dtype)), b->node->out[0]->dtype));
}

const ot_op ot_op_Bernoulli = {
    .name = "Bernoulli",
    .types = { "T", .T = OT_SET_FLOAT },
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_RANDOM | OT_WHOLE_BATCH,
    .nondiff = 1,
    .attrs = bernoulli_rows,
    .attr_size = sizeof(random_attrs),
    .infer = bernoulli_infer,
    .lower = bernoulli_lower,
    .grad_zero = "a random draw is not differentiable in its probability",
    .batch = random_batch,
};

/* ---- Multinomial -------------------------------------------------------------- */

static ot_status multinomial_infer(ot_node *n, ot_error *err)
{
    const random_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    if (!ot_is_float(n->in[0]->dtype) || x->rank != 2) return ot_node_fail(n, err, "expected log-probabilities (N, C)");
    if (x->dim[1] == 0) return ot_node_fail(n, err, "expected at least one class, got an input of shape (N, 0)");
    if (a->dtype != OT_I32 && a->dtype != OT_I64) return ot_node_fail(n, err, "dtype must be int32 or int64");
    if (a->sample_size < 1) return ot_node_fail(n, err, "invalid sample size %lld", (long long)a->sample_size);
    ot_shape all = { .rank = 3, .dim = { x->dim[0], a->sample_size, x->dim[1] } };
    if (!ot_shape_fits(&all, OT_F64)) return ot_node_fail(n, err, "too many samples");
    return ot_set(n->out[0], (ot_dtype)a->dtype, &(ot_shape){ .rank = 2, .dim = { x->dim[0], a->sample_size } });
}

static void multinomial_lower(ot_build *b)
{
    ot_value *x = b->node->in[0], *y = b->node->out[0];
    ot_shape all = { .rank = 3, .dim = { y->shape.dim[0], y->shape.dim[1], x->shape.dim[1] } };
    ot_shape row = { .rank = 3, .dim = { y->shape.dim[0], 1, x->shape.dim[1] } };
    ot_value *u = uniform(b, &all, x->dtype, 0);
    if (!u) return;
    /* u = 0 has noise -inf: never the largest. */
    ot_value *e = ot_map1(b, OT_FN_Neg, 0, 0, ot_map1(b, OT_FN_Log, 0, 0, u));
    ot_value *noisy =
        ot_map2(b, OT_FN_Sub, 0, 0, ot_cast(b, ot_view(b, x, &row), u->dtype), ot_map1(b, OT_FN_Log, 0, 0, e));
    ot_value *at = ot_emit(b, &ot_op_TopKIndex, &(ot_topk_index){ .axis = 2, .k = 1 }, OT_IN(noisy));
    at = at ? ot_view(b, at, &y->shape) : NULL;
    if (at) ot_yield(b, 0, ot_cast(b, at, y->dtype));
}

const ot_op ot_op_Multinomial = {
    .name = "Multinomial",
    .types = { "T", .T = OT_SET_FLOAT },
    .since = 22,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_RANDOM,
    .nondiff = 1,
    .attrs = multinomial_rows,
    .attr_size = sizeof(random_attrs),
    .infer = multinomial_infer,
    .lower = multinomial_lower,
    .grad_zero = "a random draw is not differentiable in its probabilities",
    .batch = ot_batch_first,
};
