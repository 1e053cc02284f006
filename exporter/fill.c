/* fill.c - turns a weight that a ConstantOfShape fills into a Constant, and gives a bias to a convolution without
 * one.
 *
 * A file may leave its weights out and fill them with one number.  Such a tensor has no bytes in the file that a
 * trained value could replace: the node becomes a Constant with the same name and output, and nothing else changes. */
#include "exporter/untie.h"

#include <stdlib.h>
#include <string.h>

#include "exporter/remake.h"

/* A weight's, or a norm's parameter's. */
static bool is_slot(const Onnx__NodeProto *n, size_t input)
{
    const ot_op *op = ot_find_op(ot_domain(n->domain), ot_text(n->op_type));
    char slot = op ? ot_slot_at(op, (int)input) : '-';
    return ot_slot_is_strong(slot) || slot == 'n' || slot == 'o';
}

/* Tensors of initializers and Constants by name, and the names that are read as weights. */
typedef struct names {
    ot_table tensor, slot;
} names;

static bool index_names(const Onnx__GraphProto *g, ot_arena *a, names *x)
{
    *x = (names){ { .arena = a }, { .arena = a } };
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t in = 0; in < g->node[i]->n_input; in++)
            if (is_slot(g->node[i], in) && !ot_table_set(&x->slot, g->node[i]->input[in], g->node[i])) return false;
    return ot_graph_tensors(g, &x->tensor);
}

static bool decode(const Onnx__TensorProto *t, ot_arena *a, ot_blob *out)
{
    ot_error found = { 0 };
    return t && ot_tensor_decode(NULL, a, t, "ConstantOfShape", out, NULL, &found) == OT_OK;
}

/* What it makes: shape, and the one element. */
static bool read_fill(const names *x, const Onnx__NodeProto *n, ot_arena *a, ot_shape *shape, ot_blob *element)
{
    static const float zero = 0;
    ot_blob b;
    if (!ot_node_is(n, "ConstantOfShape") || n->n_input != 1 || n->n_output != 1) return false;
    if (!decode(ot_table_find(&x->tensor, n->input[0]), a, &b) || b.dtype != OT_I64 || b.shape.rank != 1 ||
        b.shape.dim[0] > OT_MAX_RANK)
        return false;
    *shape = (ot_shape){ .rank = (int)b.shape.dim[0] };
    for (int d = 0; d < shape->rank; d++) {
        shape->dim[d] = ot_get_i64(b.data, b.dtype, d);
        if (shape->dim[d] < 1) return false;
    }
    *element = (ot_blob){ .dtype = OT_F32, .shape = { .rank = 1, .dim = { 1 } }, .data = &zero };
    if (n->n_attribute && !decode(n->attribute[0]->t, a, element)) return false;
    return ot_is_float(element->dtype) && ot_numel(&element->shape) == 1 && ot_shape_fits(shape, element->dtype);
}

ot_filled *ot_filled_find(const ot_imported *m, ot_arena *a, int *n)
{
    const ot_file *f = m->file;
    const Onnx__GraphProto *g = f->model->graph;
    ot_filled *list = ot_arena_alloc(a, sizeof *list * (g->n_node + 1));
    names x;
    ot_shape shape;
    ot_blob element;
    *n = 0;
    if (!list || !index_names(g, a, &x)) return NULL;
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *k = g->node[i];
        if (read_fill(&x, k, a, &shape, &element) && ot_table_find(&x.slot, k->output[0]))
            list[(*n)++] = (ot_filled){ .name = k->output[0], .node = i };
    }
    return list;
}

/* The Constant that replaces node k. */
static ot_status spell_out(ot_remake *x, const names *known, size_t at, size_t *room, ot_error *err)
{
    ot_arena *a = x->patch.arena;
    const Onnx__NodeProto *k = x->f->model->graph->node[at];
    ot_shape shape;
    ot_blob element;
    if (!read_fill(known, k, a, &shape, &element))
        return ot_fail(err, OT_E_INTERNAL, "%s: is not a ConstantOfShape with a constant shape", ot_text(k->name));
    size_t n = ot_bytes(&shape, element.dtype), each = (size_t)ot_dtype_bits(element.dtype) / 8;
    uint8_t *raw = n <= *room ? ot_arena_alloc(a, n + 1) : NULL;
    if (n > *room)
        return ot_fail(err, OT_E_MODEL,
                       "--train %s: with the tensors filled by ConstantOfShape the ONNX "
                       "file would be too large",
                       k->output[0]);
    Onnx__NodeProto now = *k;
    Onnx__TensorProto *t = raw ? ot_message_tensor(a, NULL, element.dtype, &shape) : NULL;
    if (!t || !ot_message_constant(a, &now, t)) return ot_fail(err, OT_E_NOMEM, "--train %s: no memory", k->output[0]);
    *room -= n;
    for (size_t i = 0; i < n; i += each) memcpy(raw + i, element.data, each);
    ot_message_payload(t, n, raw);
    return ot_remake_node(x, at, &now, err);
}

ot_status ot_fill(const ot_imported *m, const ot_filled *list, int n, ot_imported **out, ot_error *err)
{
    ot_remake x;
    size_t room = (size_t)1 << 30; /* of the 2 GiB that a file may have */
    OT_TRY(ot_remake_begin(&x, m, err));
    names known;
    ot_status s =
        index_names(x.f->model->graph, x.patch.arena, &known) ? OT_OK : ot_fail(err, OT_E_NOMEM, "--train: no memory");
    for (int i = 0; i < n && !s; i++)
        if (list[i].wanted) s = spell_out(&x, &known, list[i].node, &room, err);
    if (!s) s = ot_remake_finish(&x, out, err);
    ot_remake_end(&x);
    return s;
}

/* ---- biases --------------------------------------------------------------------------- */

static ot_status give_bias(ot_remake *x, size_t node, const Onnx__TensorProto *weight, ot_error *err)
{
    size_t n = weight->n_dims ? (size_t)weight->dims[0] * (size_t)ot_dtype_bits((ot_dtype)weight->data_type) / 8 : 0;
    uint8_t *zeros = ot_arena_alloc(x->patch.arena, n + 1);
    const char *name = ot_remake_name(x, ot_text(weight->name), "bias", 1);
    ot_shape channels = { .rank = 1, .dim = { weight->n_dims ? weight->dims[0] : 0 } };
    Onnx__TensorProto *t = ot_message_tensor(x->patch.arena, name, (ot_dtype)weight->data_type, &channels);
    if (!zeros || !name || !t) return ot_fail(err, OT_E_NOMEM, "no memory to change the graph");
    ot_message_payload(t, n, zeros);
    OT_TRY(ot_remake_copy(x, t, name, err));
    return ot_remake_more(x, node, name, err);
}

ot_status ot_give_biases(const ot_imported *m, const int *weights, int n, ot_imported **out, ot_error *err)
{
    ot_remake x;
    const Onnx__GraphProto *g = ((const ot_file *)m->file)->model->graph;
    int made = 0;
    *out = NULL;
    OT_TRY(ot_remake_begin(&x, m, err));
    ot_table of = { .arena = x.patch.arena };
    ot_status s = OT_OK;
    for (int i = 0; i < n && !s; i++) {
        const Onnx__TensorProto *t = ot_remake_tensor(&x, weights[i]);
        if (!ot_table_set(&of, ot_text(t->name), t)) s = ot_fail(err, OT_E_NOMEM, "no memory to change the graph");
    }
    for (size_t i = 0; i < g->n_node && !s; i++) {
        const Onnx__NodeProto *k = g->node[i];
        const Onnx__TensorProto *t = k->n_input == 2 && ot_node_is(k, "Conv") ? ot_table_find(&of, k->input[1]) : NULL;
        if (t) s = give_bias(&x, i, t, err), made++;
    }
    if (!s && made) s = ot_remake_finish(&x, out, err);
    ot_remake_end(&x);
    return s;
}
