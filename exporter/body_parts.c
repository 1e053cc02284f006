/* body_parts.c - attributes and constant tensors of a body. */
#include "exporter/body.h"

/* ---- attributes -------------------------------------------------------------------------- */

void ot_attr_drop(Onnx__NodeProto *n, const char *name)
{
    size_t kept = 0;
    for (size_t k = 0; k < n->n_attribute; k++)
        if (strcmp(ot_text(n->attribute[k]->name), name) != 0) n->attribute[kept++] = n->attribute[k];
    n->n_attribute = kept;
}

void ot_attr_set_int(ot_body *b, Onnx__NodeProto *n, const char *name, int64_t v)
{
    Onnx__AttributeProto *a = ot_attr_find(n, name);
    if (!a) {
        Onnx__AttributeProto **list = ot_body_alloc(b, (n->n_attribute + 1) * sizeof *list);
        a = ot_message_attribute(b->arena, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
        if (!a) b->no_memory = true;
        if (!list || !a) return;
        if (n->n_attribute) memcpy(list, n->attribute, n->n_attribute * sizeof *list);
        list[n->n_attribute++] = a;
        n->attribute = list;
    }
    a->has_type = a->has_i = 1;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->i = v;
    a->ref_attr_name = NULL;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool can_be_fed(const ot_body *b, const ot_name *v)
{
    /* From IR version 4 on an initializer that is an input is a default that callers may replace. */
    return v->tensor && v->input && b->model->ir_version >= 4;
}

Onnx__TensorProto *ot_body_constant(ot_body *b, const ot_name *v, bool *own)
{
    bool ignored;
    if (!own) own = &ignored;
    *own = true;
    for (int hops = 0; hops < 1000 && v && v->makers == 1 && !v->gone; hops++) {
        *own &= v->n_use == 1;
        if (v->tensor) return can_be_fed(b, v) ? NULL : v->tensor;
        if (!v->maker) return NULL;
        if (ot_item_is(v->maker, "Constant")) {
            Onnx__AttributeProto *a = ot_attr_find(v->maker->n, "value");
            return a && !(a->ref_attr_name && *a->ref_attr_name) ? a->t : NULL;
        }
        if (!ot_item_is(v->maker, "Identity")) return NULL;
        v = ot_item_in(b, v->maker, 0);
    }
    return NULL;
}

ot_status ot_body_types(ot_body *b, const ot_graph *typed)
{
    b->types = (ot_table){ .arena = b->arena };
    for (int i = 0; typed && i < typed->n_values; i++) {
        const ot_value *v = typed->values[i];
        if (!ot_table_find(&b->types, v->name) && !ot_table_set(&b->types, v->name, v))
            return ot_fail(b->err, OT_E_NOMEM, "export: no memory");
    }
    for (const ot_name *v = b->names; v; v = v->next) b->can_be_fed |= can_be_fed(b, v);
    return OT_OK;
}

const ot_value *ot_body_value(const ot_body *b, const ot_name *v)
{
    return v && v->makers == 1 ? ot_table_find(&b->types, v->text) : NULL;
}

bool ot_body_known(ot_body *b, const ot_name *v, ot_blob *out, ot_status *status)
{
    const Onnx__TensorProto *t = ot_body_constant(b, v, NULL);
    *status = OT_OK;
    if (t) {
        *status = ot_body_decode(b, t, out);
        return *status == OT_OK;
    }
    /* What the inference has folded.  It did so for one batch size, and took every initializer for a constant. */
    const ot_value *k = b->can_be_fed || !v || v->fed || v->tensor || !v->maker ? NULL : ot_body_value(b, v);
    if (!k || !k->data || k->role != OT_CONST) return false;
    *out = (ot_blob){ .dtype = k->dtype, .shape = k->shape, .data = k->data, .source = -1 };
    return true;
}

ot_status ot_body_decode(const ot_body *b, const Onnx__TensorProto *t, ot_blob *out)
{
    if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL && t->raw_data.len) {
        Onnx__TensorProto here = *t; /* has got new bytes */
        here.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
        here.n_external_data = 0;
        return ot_body_decode(b, &here, out);
    }
    ot_error found = { 0 };
    ot_status s = ot_tensor_decode(b->m->file, b->arena, t, ot_text(t->name), out, NULL, &found);
    if (s == OT_OK) return OT_OK;
    return ot_fail(b->err, s, "export: %-s", found.status ? found.text : "its external data cannot be opened");
}

void ot_body_payload(ot_body *b, Onnx__TensorProto *t, ot_dtype dtype, const ot_shape *s, void *bytes)
{
    if (!bytes) {
        b->no_memory = true;
        return;
    }
    ot_message_payload(t, ot_bytes(s, dtype), bytes);
    t->has_data_type = true;
    t->data_type = (int32_t)dtype;
    int64_t *dims = ot_body_alloc(b, (size_t)(s->rank + 1) * sizeof *dims);
    if (!dims) return;
    for (int k = 0; k < s->rank; k++) dims[k] = s->dim[k];
    t->dims = dims;
    t->n_dims = (size_t)s->rank;
}

/* Up to IR version 3 every initializer is listed as an input too. */
static bool list_as_input(ot_body *b, ot_name *v, ot_dtype dtype, const ot_shape *s)
{
    Onnx__GraphProto *g = b->frames->graph;
    v->input = ot_message_value(b->arena, v->text, dtype, s->rank, s->dim, NULL);
    if (ot_message_push(b->arena, &g->input, &g->n_input, &b->cap_input, v->input)) return true;
    b->no_memory = true;
    return false;
}

ot_name *ot_body_initializer(ot_body *b, const char *stem, ot_dtype dtype, const ot_shape *s, void *bytes)
{
    Onnx__GraphProto *g = b->frames->graph;
    ot_name *v = ot_body_new(b, stem);
    Onnx__TensorProto *t = v && bytes ? ot_message_tensor(b->arena, v->text, dtype, s) : NULL;
    if (!ot_message_push(b->arena, &g->initializer, &g->n_initializer, &b->cap_initializer, t)) {
        b->no_memory = true;
        return NULL;
    }
    ot_message_payload(t, ot_bytes(s, dtype), bytes);
    v->tensor = t;
    v->frame = b->frames;
    v->makers = 1;
    return b->model->ir_version >= 4 || list_as_input(b, v, dtype, s) ? v : NULL;
}
