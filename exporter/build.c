/* build.c - writes an ONNX model layer by layer.
 *
 * Spec    Operators have the form of the requested opset: Clip's bounds are attributes below 11; with
 *         IR version 3 (opsets 7 and 8) every initializer is listed as an input too.
 * Memory  Everything is in the caller's arena until ot_net_end serializes it. */
#include "exporter/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/messages.h"
#include "runtime/base/io.h"
#include "runtime/base/random.h"

/* Each opset came with an ONNX release, and that with an IR version. */
static int64_t ir_version(int opset)
{
    static const struct {
        int opset, ir;
    } table[] = {
        { 8, 3 },  { 9, 4 },   { 10, 5 },  { 11, 6 },  { 14, 7 },  { 18, 8 },
        { 20, 9 }, { 22, 10 }, { 23, 11 }, { 24, 12 }, { 25, 13 },
    };
    for (int i = 0; i < OT_LEN(table); i++)
        if (opset <= table[i].opset) return table[i].ir;
    return table[OT_LEN(table) - 1].ir;
}

/* ---- memory ---------------------------------------------------------------- */

static void net_fail_memory(ot_net *b)
{
    if (b->status == OT_OK) b->status = ot_fail(b->err, OT_E_NOMEM, "new model: out of memory");
}

static void *net_made(ot_net *b, void *p)
{
    if (!p) net_fail_memory(b);
    return p;
}

static void *net_alloc(ot_net *b, size_t n)
{
    return net_made(b, b->status == OT_OK ? ot_arena_alloc(b->arena, n ? n : 1) : NULL);
}

const char *ot_net_name(ot_net *b, const char *fmt, ...)
{
    char buf[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    const char *s = b->status == OT_OK ? ot_arena_strdup(b->arena, buf) : NULL;
    if (!s) net_fail_memory(b);
    return s ? s : "";
}

static void net_push(ot_net *b, void *list, size_t *n, size_t *cap, void *item)
{
    if (b->status == OT_OK && !ot_message_push(b->arena, list, n, cap, item)) net_fail_memory(b);
}

static void net_add_input(ot_net *b, Onnx__ValueInfoProto *v)
{
    net_push(b, &b->graph.input, &b->graph.n_input, &b->cap_input, v);
}

/* ---- graph inputs and outputs ---------------------------------------------- */

/* A negative dimension is the symbolic batch "N". */
static Onnx__ValueInfoProto *net_value(ot_net *b, const char *name, ot_dtype t, int rank, const int64_t *dim)
{
    return b->status == OT_OK ? net_made(b, ot_message_value(b->arena, name, t, rank, dim, "N")) : NULL;
}

static int64_t net_batch(const ot_net *b) { return b->o.batch ? b->o.batch : -1; }

static Onnx__ValueInfoProto *net_feature_info(ot_net *b, ot_feature x)
{
    if (x.t) return net_value(b, x.name, OT_F32, 3, (int64_t[]){ net_batch(b), x.t, x.c });
    return net_value(b, x.name, OT_F32, x.h ? 4 : 2, (int64_t[]){ net_batch(b), x.c, x.h, x.w });
}

/* ---- initializers ----------------------------------------------------------- */

/* A new initializer, zero; its elements, or NULL after an error. */
static void *net_bytes(ot_net *b, const char *name, ot_dtype type, int rank, const int64_t *dim, int64_t *count)
{
    int64_t n = 1, bytes;
    bool fits = true;
    for (int i = 0; i < rank; i++) fits = fits && ot_mul(n, dim[i], &n);
    if (!fits || !ot_mul(n, ot_dtype_bits(type) / 8, &bytes) || bytes > INT32_MAX) {
        if (b->status == OT_OK)
            b->status = ot_fail(b->err, OT_E_USAGE, "%s: larger than 2 GiB, the limit of an ONNX file", name);
        return NULL;
    }
    ot_shape s = { .rank = rank };
    for (int i = 0; i < rank; i++) s.dim[i] = dim[i];
    void *data = net_alloc(b, (size_t)bytes);
    Onnx__TensorProto *t = data ? net_made(b, ot_message_tensor(b->arena, name, type, &s)) : NULL;
    if (!t) return NULL;
    ot_message_payload(t, (size_t)bytes, data);
    net_push(b, &b->graph.initializer, &b->graph.n_initializer, &b->cap_initializer, t);
    if (b->model.ir_version < 4) net_add_input(b, net_value(b, name, type, rank, dim));
    *count = n;
    return b->status == OT_OK ? data : NULL;
}

static float *net_tensor(ot_net *b, const char *name, int rank, const int64_t *dim, int64_t *count)
{
    return net_bytes(b, name, OT_F32, rank, dim, count);
}

const char *ot_net_ints(ot_net *b, const char *name, int n, const int64_t *v)
{
    int64_t count, dim = n, *p = net_bytes(b, name, OT_I64, 1, &dim, &count);
    for (int i = 0; p && i < n; i++) p[i] = v[i];
    return name;
}

const char *ot_net_bools(ot_net *b, const char *name, int rank, const int64_t *dim, const uint8_t *v)
{
    int64_t count;
    uint8_t *p = net_bytes(b, name, OT_BOOL, rank, dim, &count);
    if (p) memcpy(p, v, (size_t)count);
    return name;
}

const char *ot_net_filled(ot_net *b, const char *name, int64_t n, float value)
{
    int64_t count;
    float *p = net_tensor(b, name, 1, &n, &count);
    for (int64_t i = 0; p && i < count; i++) p[i] = value;
    return name;
}

/* A scalar input, such as Clip's bounds. */
const char *ot_net_scalar(ot_net *b, const char *name, float value)
{
    int64_t count;
    float *p = net_tensor(b, name, 0, NULL, &count);
    if (p) p[0] = value;
    return name;
}

/* Uniform in ±1/sqrt(fan_in): what Kaiming's rule gives with PyTorch's slope sqrt(5). */
static const char *net_uniform(ot_net *b, const char *name, int rank, const int64_t *dim, int64_t fan_in)
{
    int64_t count;
    float *p = net_tensor(b, name, rank, dim, &count);
    if (!p) return name;
    float bound = (float)(1 / sqrt((double)fan_in));
    uint64_t stream = (uint64_t)OT_STREAM_INIT << 32 | b->tensors++;
    for (int64_t i = 0; i < count; i += 4) {
        uint32_t bits[4];
        ot_philox(b->o.seed, (uint64_t)i / 4, stream, bits);
        for (int64_t j = 0; j < 4 && i + j < count; j++) p[i + j] = bound * (2 * ot_uniform(bits[j]) - 1);
    }
    return name;
}

const char *ot_net_normal(ot_net *b, const char *name, int rank, const int64_t *dim, double deviation)
{
    int64_t count;
    float *p = net_tensor(b, name, rank, dim, &count);
    uint64_t stream = (uint64_t)OT_STREAM_INIT << 32 | b->tensors++;
    for (int64_t i = 0; p && i < count; i += 4) {
        uint32_t bits[4];
        ot_philox(b->o.seed, (uint64_t)i / 4, stream, bits);
        for (int64_t j = 0; j < 4 && i + j < count; j++) { /* two numbers in (0, 1] and [0, 1) make two */
            double r = sqrt(-2 * log(1 - (double)ot_uniform(bits[j & 2])));
            double angle = 6.283185307179586 * (double)ot_uniform(bits[(j & 2) + 1]);
            p[i + j] = (float)(deviation * r * (j & 1 ? sin(angle) : cos(angle)));
        }
    }
    return name;
}

/* ---- nodes ------------------------------------------------------------------- */

/* Outputs are named after the node: name.out, or name.out0 and so on; NULL after an error. */
ot_net_node *ot_net_op(ot_net *b, const char *op, const char *name, int n_out, int n, const char *const *input)
{
    struct node {
        Onnx__NodeProto node;
        Onnx__AttributeProto *attribute[8];
        char *input[8], *output[4];
    } *p = net_alloc(b, sizeof *p);
    if (b->status != OT_OK) return NULL;
    onnx__node_proto__init(&p->node);
    p->node.op_type = ot_message_text(op);
    p->node.name = ot_message_text(name);
    p->node.input = p->input;
    p->node.output = p->output;
    p->node.attribute = p->attribute;
    for (int i = 0; i < n; i++) p->input[i] = ot_message_text(input[i] ? input[i] : "");
    p->node.n_input = (size_t)n;
    for (int i = 0; i < n_out; i++)
        p->output[i] =
            ot_message_text(n_out == 1 ? ot_net_name(b, "%s.out", name) : ot_net_name(b, "%s.out%d", name, i));
    p->node.n_output = (size_t)n_out;
    net_push(b, &b->graph.node, &b->graph.n_node, &b->cap_node, &p->node);
    return b->status == OT_OK ? &p->node : NULL;
}

static Onnx__NodeProto *net_node(ot_net *b, const char *op, const char *name, int n, const char *const *input)
{
    return ot_net_op(b, op, name, 1, n, input);
}

const char *ot_net_result(const ot_net_node *node, int i) { return node ? node->output[i] : ""; }

static Onnx__AttributeProto *net_attribute(ot_net *b, Onnx__NodeProto *node, const char *name,
                                           Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *a = node ? net_made(b, ot_message_attribute(b->arena, name, type)) : NULL;
    return a ? node->attribute[node->n_attribute++] = a : NULL;
}

void ot_net_int(ot_net *b, ot_net_node *node, const char *name, int64_t i)
{
    Onnx__AttributeProto *a = net_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (!a) return;
    a->has_i = 1;
    a->i = i;
}

void ot_net_float(ot_net *b, ot_net_node *node, const char *name, float f)
{
    Onnx__AttributeProto *a = net_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    if (!a) return;
    a->has_f = 1;
    a->f = f;
}

void ot_net_list(ot_net *b, ot_net_node *node, const char *name, int n, const int64_t *i)
{
    Onnx__AttributeProto *a = net_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    int64_t *list = a ? net_alloc(b, (size_t)n * sizeof *list) : NULL;
    if (!list) return;
    memcpy(list, i, (size_t)n * sizeof *list);
    a->n_ints = (size_t)n;
    a->ints = list;
}

void ot_net_text(ot_net *b, ot_net_node *node, const char *name, const char *s)
{
    Onnx__AttributeProto *a = net_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    if (!a) return;
    a->has_s = 1;
    a->s.len = strlen(s);
    a->s.data = (uint8_t *)ot_message_text(s);
}

/* n times the same number: our windows are square. */
static void net_ints(ot_net *b, Onnx__NodeProto *node, const char *name, int n, int64_t value)
{
    ot_net_list(b, node, name, n, (int64_t[]){ value, value, value, value });
}

/* A node of one operand and no attributes; shape as given. */
static ot_feature net_simple(ot_net *b, const char *op, ot_feature x, const char *name)
{
    Onnx__NodeProto *node = net_node(b, op, name, 1, &x.name);
    if (node) x.name = node->output[0];
    return x;
}

static void net_window(ot_net *b, Onnx__NodeProto *node, ot_net_window w)
{
    net_ints(b, node, "kernel_shape", 2, w.kernel);
    net_ints(b, node, "strides", 2, w.stride);
    net_ints(b, node, "pads", 4, w.pad);
}

/* Resolves the window's defaults and the result's extents.  Errors: OT_E_USAGE (it does not fit), or the builder's. */
static ot_status net_slide(ot_net *b, ot_feature *x, const char *name, ot_net_window *w)
{
    if (!w->stride) w->stride = 1;
    if (!w->groups) w->groups = 1;
    int64_t h = x->h + 2 * w->pad - w->kernel, v = x->w + 2 * w->pad - w->kernel;
    if (b->status == OT_OK && (h < 0 || v < 0))
        b->status = ot_fail(b->err, OT_E_USAGE, "%s: a window of %lld does not fit in %lldx%lld; use a larger input",
                            name, (long long)w->kernel, (long long)x->h, (long long)x->w);
    if (b->status != OT_OK) return b->status;
    x->h = h / w->stride + 1;
    x->w = v / w->stride + 1;
    return OT_OK;
}

/* ---- layers ------------------------------------------------------------------ */

ot_feature ot_net_conv(ot_net *b, ot_feature x, const char *name, ot_net_window w)
{
    int64_t in = x.c;
    const char *source = x.name;
    if (net_slide(b, &x, name, &w) != OT_OK) return x;
    int64_t fan = in / w.groups * w.kernel * w.kernel;
    const char *input[3] = { source, ot_net_name(b, "%s.weight", name), ot_net_name(b, "%s.bias", name) };
    net_uniform(b, input[1], 4, (int64_t[]){ w.out, in / w.groups, w.kernel, w.kernel }, fan);
    if (!w.no_bias) net_uniform(b, input[2], 1, &w.out, fan);
    Onnx__NodeProto *node = net_node(b, "Conv", name, w.no_bias ? 2 : 3, input);
    net_window(b, node, w);
    if (w.groups > 1) ot_net_int(b, node, "group", w.groups);
    if (node) x.name = node->output[0];
    x.c = w.out;
    return x;
}

ot_feature ot_net_deconv(ot_net *b, ot_feature x, const char *name, ot_net_window w)
{
    if (!w.stride) w.stride = 1;
    /* Of a transposed convolution every input element reaches out * kernel² results; PyTorch calls
     * that its fan in. */
    int64_t fan = w.out * w.kernel * w.kernel;
    const char *input[3] = { x.name, ot_net_name(b, "%s.weight", name), ot_net_name(b, "%s.bias", name) };
    net_uniform(b, input[1], 4, (int64_t[]){ x.c, w.out, w.kernel, w.kernel }, fan);
    net_uniform(b, input[2], 1, &w.out, fan);
    Onnx__NodeProto *node = net_node(b, "ConvTranspose", name, 3, input);
    net_window(b, node, w);
    if (node) x.name = node->output[0];
    x.c = w.out;
    x.h = (x.h - 1) * w.stride - 2 * w.pad + w.kernel;
    x.w = (x.w - 1) * w.stride - 2 * w.pad + w.kernel;
    return x;
}

ot_feature ot_net_norm(ot_net *b, ot_feature x, const char *name)
{
    const char *input[5] = {
        x.name,
        ot_net_filled(b, ot_net_name(b, "%s.weight", name), x.c, 1),
        ot_net_filled(b, ot_net_name(b, "%s.bias", name), x.c, 0),
        ot_net_filled(b, ot_net_name(b, "%s.running_mean", name), x.c, 0),
        ot_net_filled(b, ot_net_name(b, "%s.running_var", name), x.c, 1),
    };
    Onnx__NodeProto *node = net_node(b, "BatchNormalization", name, 5, input);
    ot_net_float(b, node, "epsilon", 1e-5f);
    ot_net_float(b, node, "momentum", 0.9f);
    if (node) x.name = node->output[0];
    return x;
}

ot_feature ot_net_linear(ot_net *b, ot_feature x, const char *name, int64_t out)
{
    const char *input[3] = { x.name, ot_net_name(b, "%s.weight", name), ot_net_name(b, "%s.bias", name) };
    net_uniform(b, input[1], 2, (int64_t[]){ out, x.c }, x.c);
    net_uniform(b, input[2], 1, &out, x.c);
    Onnx__NodeProto *node = net_node(b, "Gemm", name, 3, input);
    ot_net_int(b, node, "transB", 1);
    if (node) x.name = node->output[0];
    x.c = out;
    return x;
}

ot_feature ot_net_max_pool(ot_net *b, ot_feature x, const char *name, ot_net_window w)
{
    const char *source = x.name;
    if (net_slide(b, &x, name, &w) != OT_OK) return x;
    Onnx__NodeProto *node = net_node(b, "MaxPool", name, 1, &source);
    net_window(b, node, w);
    if (node) x.name = node->output[0];
    return x;
}

ot_feature ot_net_global_pool(ot_net *b, ot_feature x, const char *name)
{
    x = net_simple(b, "GlobalAveragePool", x, name);
    x.h = x.w = 1;
    return x;
}

ot_feature ot_net_flatten(ot_net *b, ot_feature x, const char *name)
{
    Onnx__NodeProto *node = net_node(b, "Flatten", name, 1, &x.name);
    ot_net_int(b, node, "axis", 1);
    if (node) x.name = node->output[0];
    x.c *= x.h * x.w;
    x.h = x.w = 0;
    return x;
}

ot_feature ot_net_relu(ot_net *b, ot_feature x, const char *name) { return net_simple(b, "Relu", x, name); }

ot_feature ot_net_sigmoid(ot_net *b, ot_feature x, const char *name) { return net_simple(b, "Sigmoid", x, name); }

ot_feature ot_net_relu6(ot_net *b, ot_feature x, const char *name)
{
    Onnx__NodeProto *node;
    if (b->o.opset < 11) {
        node = net_node(b, "Clip", name, 1, &x.name);
        ot_net_float(b, node, "min", 0);
        ot_net_float(b, node, "max", 6);
    } else {
        const char *input[3] = { x.name, ot_net_scalar(b, ot_net_name(b, "%s.min", name), 0),
                                 ot_net_scalar(b, ot_net_name(b, "%s.max", name), 6) };
        node = net_node(b, "Clip", name, 3, input);
    }
    if (node) x.name = node->output[0];
    return x;
}

ot_feature ot_net_add(ot_net *b, ot_feature x, ot_feature y, const char *name)
{
    Onnx__NodeProto *node = net_node(b, "Add", name, 2, (const char *[]){ x.name, y.name });
    if (node) x.name = node->output[0];
    return x;
}

int64_t ot_net_scaled(const ot_net *b, int64_t c, int64_t unit)
{
    double units = round((double)c * b->o.scale / (double)unit);
    return units < 1 ? unit : (int64_t)units * unit;
}

/* ---- the file ------------------------------------------------------------------ */

void ot_net_begin(ot_net *b, ot_arena *arena, const char *name, const ot_new_options *o, ot_error *err)
{
    *b = (ot_net){ .arena = arena, .o = *o, .err = err };
    onnx__model_proto__init(&b->model);
    onnx__graph_proto__init(&b->graph);
    onnx__operator_set_id_proto__init(&b->opset);
    b->model.has_ir_version = 1;
    b->model.ir_version = ir_version(o->opset);
    b->model.producer_name = ot_message_text("onnxtrain");
    b->model.producer_version = ot_message_text(OT_VERSION);
    b->model.graph = &b->graph;
    b->graph.name = ot_message_text(name);
    b->opset.domain = ot_message_text("");
    b->opset.has_version = 1;
    b->opset.version = o->opset;
    Onnx__OperatorSetIdProto **list = net_alloc(b, sizeof *list);
    if (!list) return;
    list[0] = &b->opset;
    b->model.n_opset_import = 1;
    b->model.opset_import = list;
}

ot_feature ot_net_input(ot_net *b, bool flat)
{
    ot_feature x = { "input", b->o.channels, b->o.height, b->o.width, 0 };
    if (flat) x = (ot_feature){ "input", x.c * x.h * x.w, 0, 0, 0 };
    net_add_input(b, net_feature_info(b, x));
    return x;
}

ot_feature ot_net_tokens(ot_net *b, const char *name)
{
    net_add_input(b, net_value(b, name, OT_I64, 2, (int64_t[]){ net_batch(b), b->o.tokens }));
    return (ot_feature){ .name = name, .t = b->o.tokens };
}

/* The result of the last node is what the graph gives back, under the name everyone expects. */
static void net_output(ot_net *b, ot_feature y)
{
    Onnx__NodeProto *last = b->graph.node[b->graph.n_node - 1];
    y.name = last->output[0] = ot_message_text("output");
    Onnx__ValueInfoProto **list = net_alloc(b, sizeof *list);
    Onnx__ValueInfoProto *v = net_feature_info(b, y);
    if (!list || !v) return;
    list[0] = v;
    b->graph.n_output = 1;
    b->graph.output = list;
}

ot_status ot_net_end(ot_net *b, ot_feature y, const char *path)
{
    if (b->status == OT_OK) net_output(b, y);
    if (b->status != OT_OK) return b->status;
    size_t n = onnx__model_proto__get_packed_size(&b->model);
    if (n > INT32_MAX) return ot_fail(b->err, OT_E_USAGE, "%s: %zu bytes; the limit of an ONNX file is 2 GiB", path, n);
    uint8_t *bytes = malloc(n);
    if (!bytes) return ot_fail(b->err, OT_E_NOMEM, "%s: no memory for %zu bytes", path, n);
    onnx__model_proto__pack(&b->model, bytes);
    ot_replace *r = NULL;
    ot_status s = ot_replace_begin(path, &r, b->err);
    if (s == OT_OK) s = ot_replace_write(r, bytes, n, b->err);
    if (s == OT_OK) {
        s = ot_replace_commit(r, b->err);
        r = NULL;
    }
    ot_replace_abort(r);
    free(bytes);
    return s;
}
