/* messages.c - ONNX messages in an arena. */
#include "exporter/messages.h"

#include <string.h>

/* ---- new ones ------------------------------------------------------------------------ */

Onnx__ValueInfoProto *ot_message_value(ot_arena *a, const char *name, ot_dtype t, int rank, const int64_t *dim,
                                       const char *symbol)
{
    struct value {
        Onnx__ValueInfoProto info;
        Onnx__TypeProto type;
        Onnx__TypeProto__Tensor tensor;
        Onnx__TensorShapeProto shape;
        Onnx__TensorShapeProto__Dimension dim[OT_MAX_RANK], *list[OT_MAX_RANK];
    } *v = ot_arena_alloc(a, sizeof *v);
    if (!v) return NULL;
    onnx__value_info_proto__init(&v->info);
    onnx__type_proto__init(&v->type);
    onnx__type_proto__tensor__init(&v->tensor);
    onnx__tensor_shape_proto__init(&v->shape);
    v->info.name = ot_message_text(name);
    v->info.type = &v->type;
    v->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type.tensor_type = &v->tensor;
    v->tensor.has_elem_type = true;
    v->tensor.elem_type = (int32_t)t;
    v->tensor.shape = &v->shape;
    v->shape.n_dim = (size_t)rank;
    v->shape.dim = v->list;
    for (int i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *d = v->list[i] = &v->dim[i];
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = dim[i] < 0 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                   : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (dim[i] < 0) d->dim_param = ot_message_text(symbol);
        else d->dim_value = dim[i];
    }
    return &v->info;
}

Onnx__TensorProto *ot_message_tensor(ot_arena *a, const char *name, ot_dtype t, const ot_shape *s)
{
    Onnx__TensorProto *p = ot_arena_alloc(a, sizeof *p);
    int64_t *dims = p ? ot_arena_copy(a, s->dim, sizeof s->dim) : NULL;
    if (!dims) return NULL;
    onnx__tensor_proto__init(p);
    p->name = ot_message_text(name);
    p->has_data_type = true;
    p->data_type = (int32_t)t;
    p->n_dims = (size_t)s->rank;
    p->dims = dims;
    return p;
}

void ot_message_payload(Onnx__TensorProto *t, size_t n, const void *bytes)
{
    t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
    t->n_string_data = t->n_external_data = 0;
    t->has_raw_data = true;
    t->raw_data = (ProtobufCBinaryData){ n, (uint8_t *)(uintptr_t)bytes };
}

Onnx__AttributeProto *ot_message_attribute(ot_arena *a, const char *name, Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *p = ot_arena_alloc(a, sizeof *p);
    if (!p) return NULL;
    onnx__attribute_proto__init(p);
    p->name = ot_message_text(name);
    p->has_type = true;
    p->type = type;
    return p;
}

bool ot_message_constant(ot_arena *a, Onnx__NodeProto *n, Onnx__TensorProto *t)
{
    Onnx__AttributeProto *value = ot_message_attribute(a, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR),
                         **list = ot_arena_alloc(a, sizeof *list);
    if (!value || !list) return false;
    value->t = t;
    *list = value;
    n->op_type = ot_message_text("Constant");
    n->n_input = 0;
    n->n_attribute = 1;
    n->attribute = list;
    return true;
}

Onnx__StringStringEntryProto *ot_message_entry(ot_arena *a, const char *key, const char *value)
{
    Onnx__StringStringEntryProto *e = ot_arena_alloc(a, sizeof *e);
    if (!e) return NULL;
    onnx__string_string_entry_proto__init(e);
    e->key = ot_message_text(key);
    e->value = ot_message_text(value);
    return e;
}

bool ot_message_push(ot_arena *a, void *list, size_t *n, size_t *cap, void *item)
{
    void **at;
    memcpy(&at, list, sizeof at); /* fields are pointers of many types */
    if (!item) return false;
    if (*n >= *cap) {
        size_t more = 2 * *n + 16;
        void **wide = ot_arena_alloc(a, more * sizeof *wide);
        if (!wide) return false;
        if (*n) memcpy(wide, at, *n * sizeof *wide);
        memcpy(list, &wide, sizeof wide);
        at = wide;
        *cap = more;
    }
    at[(*n)++] = item;
    return true;
}

/* ---- reading ------------------------------------------------------------------------- */

bool ot_node_is(const Onnx__NodeProto *n, const char *op)
{
    return !*ot_domain(n->domain) && !strcmp(ot_text(n->op_type), op);
}

Onnx__AttributeProto *ot_attr_find(const Onnx__NodeProto *n, const char *name)
{
    for (size_t k = 0; k < n->n_attribute; k++)
        if (!strcmp(ot_text(n->attribute[k]->name), name)) return n->attribute[k];
    return NULL;
}

int64_t ot_attr_int(const Onnx__NodeProto *n, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = ot_attr_find(n, name);
    return a ? a->i : otherwise;
}

double ot_attr_float(const Onnx__NodeProto *n, const char *name, double otherwise)
{
    const Onnx__AttributeProto *a = ot_attr_find(n, name);
    return a ? (double)a->f : otherwise;
}

Onnx__TensorProto *ot_constant_tensor(const Onnx__NodeProto *n)
{
    const Onnx__AttributeProto *a = ot_node_is(n, "Constant") && n->n_output == 1 ? ot_attr_find(n, "value") : NULL;
    return a ? a->t : NULL;
}

bool ot_graph_tensors(const Onnx__GraphProto *g, ot_table *by_name)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        if (!ot_table_set(by_name, ot_text(g->initializer[i]->name), g->initializer[i])) return false;
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__TensorProto *t = ot_constant_tensor(g->node[i]);
        if (t && !ot_table_set(by_name, g->node[i]->output[0], t)) return false;
    }
    return true;
}
