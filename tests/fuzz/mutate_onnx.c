/* mutate_onnx.c - models that still are models: operators, names, attributes, types, shapes and payloads are
 * changed so that most of what is made is read, and much of it planned.
 *
 * One mutation is one to four steps.  Five in ten steps know what ONNX means, three change any field of any
 * message; one input in ten is changed as bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "importer/internal.h"
#include "ops/op.h"
#include "tests/fuzz/message.h"
#include "tests/fuzz/mutate.h"

typedef Onnx__GraphProto graph;
typedef Onnx__NodeProto node;
typedef Onnx__TensorProto tensor;
typedef Onnx__AttributeProto attribute;
typedef Onnx__ValueInfoProto value;

/* A message with its fields at their defaults, on the heap. */
static void *fresh(const ProtobufCMessageDescriptor *d)
{
    return protobuf_c_message_unpack(d, NULL, 0, (const uint8_t *)"");
}

#define PICK(all, type) ((void *)message_pick(all, &onnx__##type##__descriptor))

/* ---- names ------------------------------------------------------------------------ */

/* The name of some value: borrowed, until the tree changes. */
static const char *some_value(const messages *all)
{
    for (int tries = 0; tries < 4; tries++) {
        node *n = PICK(all, node_proto);
        value *v = PICK(all, value_info_proto);
        tensor *t = PICK(all, tensor_proto);
        switch (mutate_below(4)) {
        case 0:
            if (n && n->n_output) return n->output[mutate_below(n->n_output)];
            break;
        case 1:
            if (n && n->n_input) return n->input[mutate_below(n->n_input)];
            break;
        case 2:
            if (t && t->name) return t->name;
            break;
        default:
            if (v && v->name) return v->name;
        }
    }
    return "";
}

static void new_name(char name[32]) { snprintf(name, 32, "v%u", (unsigned)mutate_below(1000)); }

static const ot_op *some_op(void)
{
    static int n;
    while (ot_op_at(n)) n++;
    for (;;) {
        const ot_op *o = ot_op_at((int)mutate_below((size_t)n));
        if (!(o->flags & OT_INTERNAL)) return o;
    }
}

/* ---- tensors and shapes -------------------------------------------------------------- */

static int64_t some_extent(int64_t v) { return mutate_chance(75) ? (int64_t)mutate_below(6) : mutate_integer(v); }

/* The payload becomes as long as shape and type say, where that is not much. */
static void fit(tensor *t)
{
    int64_t n = 1, bits = ot_dtype_bits((ot_dtype)t->data_type);
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0 || !ot_mul(n, t->dims[i], &n)) return;
    if (bits <= 0 || n > 4096) return;
    size_t bytes = (size_t)(n * bits + 7) / 8;
    uint8_t *p = calloc(1, bytes + 8);
    if (!p) return;
    size_t old = t->has_raw_data ? t->raw_data.len : 0;
    for (size_t i = 0; i < bytes; i++)
        p[i] = old ? t->raw_data.data[i % old] : (uint8_t)(i % (size_t)(bits < 8 ? 1 : bits / 8) ? 0 : mutate_below(4));
    if (t->data_type == OT_F32 && !old)
        for (int64_t i = 0; i < n; i++) memcpy(p + 4 * i, &(float){ (float)mutate_below(9) * 0.25f - 1 }, 4);
    free(t->raw_data.data);
    free(t->float_data), free(t->int32_data), free(t->int64_data), free(t->double_data), free(t->uint64_data);
    t->float_data = NULL, t->int32_data = NULL, t->int64_data = NULL, t->double_data = NULL, t->uint64_data = NULL;
    t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
    t->has_raw_data = true;
    t->raw_data = (ProtobufCBinaryData){ bytes, p };
}

static void change_dims(tensor *t)
{
    if (t->n_dims && mutate_chance(70)) {
        size_t i = mutate_below(t->n_dims);
        t->dims[i] = some_extent(t->dims[i]);
        return;
    }
    if (t->n_dims && mutate_chance(50)) {
        t->n_dims--;
        return;
    }
    int64_t *dims = realloc(t->dims, (t->n_dims + 1) * sizeof *dims);
    if (!dims) return;
    t->dims = dims;
    t->dims[t->n_dims++] = some_extent(1);
}

/* An element of an integer payload: shapes, axes, indices. */
static void change_element(tensor *t)
{
    int bytes = ot_dtype_bits((ot_dtype)t->data_type) / 8;
    if (t->n_int64_data) {
        size_t i = mutate_below(t->n_int64_data);
        t->int64_data[i] = mutate_integer(t->int64_data[i]);
    } else if (bytes && t->has_raw_data && t->raw_data.len >= (size_t)bytes) {
        uint8_t *p = t->raw_data.data + mutate_below(t->raw_data.len / (size_t)bytes) * (size_t)bytes;
        int64_t v = 0;
        memcpy(&v, p, (size_t)bytes < 8 ? (size_t)bytes : 8);
        v = mutate_integer(v);
        memcpy(p, &v, (size_t)bytes < 8 ? (size_t)bytes : 8);
    }
}

static int32_t some_type(void)
{
    static const int32_t common[] = { OT_F32, OT_F32, OT_F64, OT_F16, OT_I64, OT_I64, OT_I32, OT_U8, OT_I8, OT_BOOL };
    return mutate_chance(60) ? common[mutate_below(OT_LEN(common))] : (int32_t)mutate_below(30);
}

static void step_tensor(const messages *all)
{
    tensor *t = PICK(all, tensor_proto);
    if (!t) return;
    switch (mutate_below(4)) {
    case 0: change_dims(t); break;
    case 1: t->has_data_type = true, t->data_type = some_type(); break;
    default: change_element(t); return;
    }
    if (mutate_chance(80)) fit(t);
}

static void step_type(const messages *all)
{
    Onnx__TypeProto__Tensor *t = PICK(all, type_proto__tensor);
    if (!t) return;
    if (mutate_chance(40)) {
        t->has_elem_type = true;
        t->elem_type = some_type();
        return;
    }
    if (!t->shape || !t->shape->n_dim || mutate_chance(15)) {
        if (!t->shape) t->shape = fresh(&onnx__tensor_shape_proto__descriptor);
        Onnx__TensorShapeProto__Dimension *d = fresh(&onnx__tensor_shape_proto__dimension__descriptor);
        if (t->shape && d) message_append(&t->shape->base, "dim", d);
        return;
    }
    Onnx__TensorShapeProto__Dimension *d = t->shape->dim[mutate_below(t->shape->n_dim)];
    int64_t v = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE ? d->dim_value : 1;
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
        d->dim_param != protobuf_c_empty_string)
        free(d->dim_param);
    d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    d->dim_value = some_extent(v);
    if (!mutate_chance(15)) return;
    d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    d->dim_param = strdup(mutate_chance(50) ? "N" : "M");
}

/* An input of a graph gets a value: what depends on it is folded. */
static void step_known(const messages *all)
{
    graph *g = PICK(all, graph_proto);
    tensor *t = fresh(&onnx__tensor_proto__descriptor);
    if (!g || !t || !g->n_input) {
        if (t) protobuf_c_message_free_unpacked(&t->base, NULL);
        return;
    }
    size_t at = mutate_below(g->n_input);
    const value *v = g->input[at];
    const Onnx__TypeProto__Tensor *type =
        v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? v->type->tensor_type : NULL;
    message_text(&t->name, v->name ? v->name : "");
    t->has_data_type = true;
    t->data_type = type ? type->elem_type : OT_F32;
    for (size_t i = 0; type && type->shape && i < type->shape->n_dim; i++) {
        int64_t *dims = realloc(t->dims, (t->n_dims + 1) * sizeof *dims);
        if (!dims) break;
        t->dims = dims;
        const Onnx__TensorShapeProto__Dimension *d = type->shape->dim[i];
        t->dims[t->n_dims++] = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE ? d->dim_value : 2;
    }
    fit(t);
    message_append(&g->base, "initializer", t);
    if (mutate_chance(80)) message_remove(&g->base, "input", at);
}

/* ---- nodes ------------------------------------------------------------------------- */

static void set_value(const messages *all, attribute *a, ot_attr_kind kind)
{
    message_text(&a->ref_attr_name, "");
    free(a->ref_attr_name);
    a->ref_attr_name = NULL;
    a->has_type = true;
    a->type = (int[]){ 2, 1, 3, 3, 7, 6, 8, 4, 5 }[kind]; /* INT FLOAT STRING STRING INTS FLOATS STRINGS TENSOR GRAPH */
    tensor *t = kind == OT_TENSOR && !a->t ? PICK(all, tensor_proto) : NULL;
    graph *g = kind == OT_GRAPH && !a->g ? PICK(all, graph_proto) : NULL;
    switch (kind) {
    case OT_INT: a->has_i = true, a->i = mutate_integer(a->i); return;
    case OT_FLOAT: a->has_f = true, a->f = (float)mutate_below(9) * 0.5f - 1; return;
    case OT_INTS:
        if (!a->n_ints || mutate_chance(30)) {
            int64_t *v = realloc(a->ints, (a->n_ints + 1) * sizeof *v);
            if (v) a->ints = v, v[a->n_ints++] = some_extent(1);
        } else {
            size_t i = mutate_below(a->n_ints);
            a->ints[i] = some_extent(a->ints[i]);
        }
        return;
    case OT_TENSOR:
        if (t) a->t = (tensor *)(void *)message_clone(&t->base);
        return;
    case OT_GRAPH:
        if (g) a->g = (graph *)(void *)message_clone(&g->base);
        return;
    default: return;
    }
}

/* One of the attributes that the operator has: made, or its value changed. */
static void step_attribute(const messages *all)
{
    node *n = PICK(all, node_proto);
    const ot_op *o = n && n->op_type ? ot_find_op(n->domain ? n->domain : "", n->op_type) : NULL;
    int rows = 0;
    while (o && o->attrs && o->attrs[rows].name) rows++;
    if (!rows) return;
    const ot_attr *row = &o->attrs[mutate_below((size_t)rows)];
    attribute *a = NULL;
    size_t at = 0;
    for (size_t i = 0; i < n->n_attribute; i++)
        if (n->attribute[i]->name && !strcmp(n->attribute[i]->name, row->name)) a = n->attribute[at = i];
    if (a && mutate_chance(15)) {
        message_remove(&n->base, "attribute", at);
        return;
    }
    bool made = !a;
    if (made) a = fresh(&onnx__attribute_proto__descriptor);
    if (!a) return;
    if (made) message_text(&a->name, row->name);
    set_value(all, a, row->kind);
    if (row->kind == OT_ENUM && row->names) {
        int words = 0;
        while (row->names[words]) words++;
        const char *word = row->names[mutate_below((size_t)words)];
        free(a->s.data);
        a->has_s = true;
        a->s = (ProtobufCBinaryData){ strlen(word), (uint8_t *)strdup(word) };
    }
    if (made) message_append(&n->base, "attribute", a);
}

static void step_operator(const messages *all)
{
    node *n = PICK(all, node_proto);
    if (!n) return;
    const ot_op *o = some_op();
    message_text(&n->op_type, o->name);
    if (o->domain || n->domain) message_text(&n->domain, o->domain ? o->domain : "");
}

static void step_input(const messages *all)
{
    node *n = PICK(all, node_proto);
    if (!n) return;
    const char *name = mutate_chance(5) ? "" : some_value(all);
    if (n->n_input && mutate_chance(75)) message_text(&n->input[mutate_below(n->n_input)], name);
    else if (n->n_input && mutate_chance(40)) message_remove(&n->base, "input", mutate_below(n->n_input));
    else message_append(&n->base, "input", strdup(name));
}

/* A node more: what it makes goes into another one, or out. */
static void step_insert(const messages *all)
{
    graph *g = PICK(all, graph_proto);
    node *n = fresh(&onnx__node_proto__descriptor);
    if (!g || !n) {
        if (n) protobuf_c_message_free_unpacked(&n->base, NULL);
        return;
    }
    const ot_op *o = some_op();
    char name[32];
    new_name(name);
    message_text(&n->op_type, o->name);
    if (o->domain) message_text(&n->domain, o->domain);
    for (int i = 0; i < o->in.min + (int)mutate_below(2) && i < 6; i++)
        message_append(&n->base, "input", strdup(some_value(all)));
    message_append(&n->base, "output", strdup(name));
    node *user = PICK(all, node_proto);
    if (user && user->n_input && mutate_chance(50)) message_text(&user->input[mutate_below(user->n_input)], name);
    else if (g->n_output) message_text(&g->output[mutate_below(g->n_output)]->name, name);
    message_append(&g->base, "node", n);
    if (mutate_chance(50) && g->n_node > 1) { /* the importer sorts; an order of ours is worth a try */
        node *last = g->node[g->n_node - 1];
        size_t to = mutate_below(g->n_node);
        g->node[g->n_node - 1] = g->node[to];
        g->node[to] = last;
    }
}

static void step_version(const messages *all)
{
    Onnx__OperatorSetIdProto *o = PICK(all, operator_set_id_proto);
    if (o)
        o->has_version = true,
        o->version = mutate_chance(90) ? 1 + (int64_t)mutate_below(27) : mutate_integer(o->version);
}

static void step(const messages *all)
{
    switch (mutate_below(16)) {
    case 0: step_operator(all); return;
    case 1:
    case 2: step_input(all); return;
    case 3:
    case 4: step_attribute(all); return;
    case 5:
    case 6: step_tensor(all); return;
    case 7: step_type(all); return;
    case 8: step_known(all); return;
    case 9: step_insert(all); return;
    case 10: step_version(all); return;
    default: message_change_any(all); return;
    }
}

/* ---- libFuzzer ------------------------------------------------------------------------ */

/* NULL: this is no model, or one that is not safe to unpack. */
static ProtobufCMessage *unpack(const uint8_t *p, size_t n)
{
    ot_error ignored = { 0 };
    if (ot_guard_scan(&onnx__model_proto__descriptor, p, n, "a model", &ignored)) return NULL;
    return protobuf_c_message_unpack(&onnx__model_proto__descriptor, NULL, n, p);
}

/* Packs into p and releases m; 0: it does not fit. */
static size_t pack(ProtobufCMessage *m, uint8_t *p, size_t most)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    if (n <= most) protobuf_c_message_pack(m, p);
    protobuf_c_message_free_unpacked(m, NULL);
    return n <= most ? n : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t most, unsigned seed)
{
    static messages all;
    mutate_seed(seed);
    ProtobufCMessage *m = mutate_chance(90) ? unpack(p, n) : NULL;
    if (!m) return mutate_bytes(p, n, most);
    for (size_t i = mutate_below(4) + 1; i > 0; i--) {
        all.n = 0;
        message_walk(&all, m);
        step(&all);
    }
    size_t made = pack(m, p, most);
    return made ? made : mutate_bytes(p, n, most);
}

/* The nodes, initializers, inputs and outputs of both graphs in one: what uses what, later mutations try. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *p, size_t n, const uint8_t *q, size_t m, uint8_t *out, size_t most,
                                 unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *p, size_t n, const uint8_t *q, size_t m, uint8_t *out, size_t most,
                                 unsigned seed)
{
    mutate_seed(seed);
    Onnx__ModelProto *a = (Onnx__ModelProto *)(void *)unpack(p, n), *b = (Onnx__ModelProto *)(void *)unpack(q, m);
    if (a && a->graph && b && b->graph) {
        static const char *const field[] = { "node", "initializer", "input", "output" };
        for (int i = 0; i < OT_LEN(field); i++) {
            const ProtobufCFieldDescriptor *f =
                protobuf_c_message_descriptor_get_field_by_name(&onnx__graph_proto__descriptor, field[i]);
            size_t k = *(size_t *)(void *)((char *)b->graph + f->quantifier_offset);
            ProtobufCMessage **list = *(ProtobufCMessage ***)(void *)((char *)b->graph + f->offset);
            for (size_t j = 0; j < k; j++) message_append(&a->graph->base, field[i], message_clone(list[j]));
        }
    }
    if (b) protobuf_c_message_free_unpacked(&b->base, NULL);
    return a ? pack(&a->base, out, most) : 0;
}
