/* classifier.c - replaces the last linear layer before an output by a new one for another number of classes.
 *
 * The tensors of the layer become others of the same names; shapes that the file declares after it, and the constants of Reshape,
 * follow.  An operator there that has a constant for each class is refused: it would be of the old classes. */
#include "exporter/classifier.h"

#include <math.h>
#include <string.h>

#include "exporter/remake.h"
#include "runtime/base/random.h"

enum { LARGEST = 1 << 30 }; /* of the 2 GiB that a file may have */

/* One replacement in the file. */
typedef struct edit {
    ot_remake *x;
    const Onnx__GraphProto *g;
    const ot_classifier *h;
    uint64_t seed;
    const ot_table *tensor; /* of initializers and Constants, by name */
    ot_table after;         /* names of tensors that follow from the layer */
} edit;

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for the new last layer"); }

/* ---- tensors ------------------------------------------------------------------------------------ */

static void put_bytes(Onnx__TensorProto *t, size_t n, const void *bytes)
{
    ot_message_payload(t, n, bytes);
    t->has_data_location = false; /* in the model file, wherever it was */
}

/* The initializer of that name, or the Constant, becomes t. */
static ot_status put_tensor(edit *e, const char *name, Onnx__TensorProto *t, ot_error *err)
{
    for (size_t i = 0; i < e->g->n_initializer; i++)
        if (!strcmp(ot_text(e->g->initializer[i]->name), name))
            return ot_remake_replace(e->x, OT_GRAPH_INITIALIZER, i, &t->base, err);
    for (size_t i = 0; i < e->g->n_node; i++) {
        const Onnx__NodeProto *k = e->g->node[i];
        if (!ot_constant_tensor(k) || strcmp(k->output[0], name) != 0) continue;
        Onnx__NodeProto now = *k;
        if (!ot_message_constant(e->x->patch.arena, &now, t)) return no_memory(err);
        return ot_remake_node(e->x, i, &now, err);
    }
    return ot_fail(err, OT_E_INTERNAL, "%s: internal error: tensor '%s' is missing", e->x->f->path, name);
}

/* ---- declared shapes ------------------------------------------------------------------------------ */

/* v with `now` elements along an axis. */
static ot_status put_info(edit *e, uint32_t field, size_t index, const Onnx__ValueInfoProto *v, int axis, int64_t now,
                          ot_error *err)
{
    ot_arena *a = e->x->patch.arena;
    const Onnx__TensorShapeProto *s = v->type->tensor_type->shape;
    Onnx__ValueInfoProto info = *v;
    Onnx__TypeProto of = *v->type;
    Onnx__TypeProto__Tensor type = *of.tensor_type;
    Onnx__TensorShapeProto shape = *s;
    Onnx__TensorShapeProto__Dimension dim = *s->dim[axis];
    shape.dim = ot_arena_copy(a, s->dim, sizeof *s->dim * s->n_dim);
    if (!shape.dim) return no_memory(err);
    shape.dim[axis] = &dim;
    dim.value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    dim.dim_value = now;
    type.shape = &shape;
    of.tensor_type = &type;
    info.type = &of;
    return ot_remake_replace(e->x, field, index, &info.base, err);
}

/* The shape of a tensor; NULL: not declared. */
static const Onnx__TensorShapeProto *shape_of(const Onnx__ValueInfoProto *v)
{
    bool tensor = v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && v->type->tensor_type;
    return tensor ? v->type->tensor_type->shape : NULL;
}

/* Which of these is the number of classes: the one that is equal; of several the layer's own axis, else the last.  -1: none. */
static int axis_of_classes(const edit *e, const int64_t *dim, int n)
{
    int last = -1;
    for (int d = 0; d < n; d++)
        if (dim[d] == e->h->classes) last = d;
    return e->h->spatial && n > 2 && dim[1] == e->h->classes ? 1 : last;
}

static ot_status put_infos(edit *e, uint32_t field, Onnx__ValueInfoProto *const *list, size_t n, ot_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const Onnx__TensorShapeProto *s = shape_of(list[i]);
        const char *name = ot_text(list[i]->name);
        int64_t dim[OT_MAX_RANK];
        int axis = -1;
        if (!s || s->n_dim < 1 || s->n_dim > OT_MAX_RANK) continue;
        for (size_t d = 0; d < s->n_dim; d++)
            dim[d] = s->dim[d]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                         ? s->dim[d]->dim_value
                         : -1;
        if (!strcmp(name, e->h->weight)) axis = e->h->axis;
        else if (e->h->bias && !strcmp(name, e->h->bias)) axis = e->h->bias_axis;
        else if (ot_table_find(&e->after, name)) axis = axis_of_classes(e, dim, (int)s->n_dim);
        if (axis < 0 || axis >= (int)s->n_dim || dim[axis] != e->h->classes) continue;
        OT_TRY(put_info(e, field, i, list[i], axis, e->h->now, err));
    }
    return OT_OK;
}

/* ---- what follows from the layer -------------------------------------------------------------------- */

/* Does a subgraph, or one in it, read what follows? */
static bool reads_after(const edit *e, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            if (ot_table_find(&e->after, g->node[i]->input[k])) return true;
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_attribute; k++)
            if (g->node[i]->attribute[k]->g && reads_after(e, g->node[i]->attribute[k]->g)) return true;
    return false;
}

static bool depends(const edit *e, const Onnx__NodeProto *n)
{
    for (size_t k = 0; k < n->n_input; k++)
        if (ot_table_find(&e->after, n->input[k])) return true;
    for (size_t k = 0; k < n->n_attribute; k++)
        if (n->attribute[k]->g && reads_after(e, n->attribute[k]->g)) return true;
    return false;
}

static size_t readers_of(const edit *e, const char *name)
{
    size_t readers = 0;
    for (size_t i = 0; i < e->g->n_node; i++)
        for (size_t k = 0; k < e->g->node[i]->n_input; k++) readers += !strcmp(e->g->node[i]->input[k], name);
    return readers;
}

static ot_status refuse(const edit *e, const Onnx__NodeProto *n, const char *why, ot_error *err)
{
    return ot_fail(
        err, OT_E_MODEL,
        "--classes: the last layer before output '%s', node '%s' (%s), cannot be replaced: node '%s' (%s) after it "
        "%s; train with --output on a tensor before it",
        e->h->output, e->h->node, e->h->op, ot_text(n->name), ot_text(n->op_type), why);
}

/* The sizes of a Reshape (or of an Expand, a Resize), a constant: input k of node i. */
static ot_status put_sizes(edit *e, size_t i, size_t k, const Onnx__TensorProto *t, const ot_blob *old, ot_error *err)
{
    ot_arena *a = e->x->patch.arena;
    const Onnx__NodeProto *n = e->g->node[i];
    int64_t dim[OT_MAX_RANK];
    int rank = (int)ot_numel(&old->shape);
    if (rank > OT_MAX_RANK) return OT_OK;
    for (int d = 0; d < rank; d++) dim[d] = ot_get_i64(old->data, old->dtype, d);
    int axis = axis_of_classes(e, dim, rank);
    if (axis < 0) return OT_OK; /* -1, or of other axes */
    dim[axis] = e->h->now;
    int64_t *bytes = ot_arena_copy(a, dim, sizeof *dim * (size_t)rank);
    if (!bytes) return no_memory(err);
    Onnx__TensorProto now = *t;
    put_bytes(&now, sizeof *dim * (size_t)rank, bytes);
    if (readers_of(e, n->input[k]) == 1) return put_tensor(e, n->input[k], &now, err);
    const char *name = ot_remake_name(e->x, n->input[k], "classes", 1);
    if (!name) return no_memory(err);
    OT_TRY(ot_remake_copy(e->x, &now, name, err));
    return ot_remake_input(e->x, i, (int)k, name, err);
}

/* Until opset 5 the sizes of a Reshape are an attribute. */
static ot_status put_attribute(edit *e, size_t i, ot_error *err)
{
    const Onnx__NodeProto *n = e->g->node[i];
    Onnx__NodeProto now = *n;
    Onnx__AttributeProto shape;
    for (size_t k = 0; k < n->n_attribute; k++) {
        const Onnx__AttributeProto *a = n->attribute[k];
        int axis = strcmp(ot_text(a->name), "shape") || a->n_ints > OT_MAX_RANK
                       ? -1
                       : axis_of_classes(e, a->ints, (int)a->n_ints);
        if (axis < 0) continue;
        shape = *a;
        shape.ints = ot_arena_copy(e->x->patch.arena, a->ints, sizeof *a->ints * a->n_ints);
        now.attribute = ot_arena_copy(e->x->patch.arena, n->attribute, sizeof *n->attribute * n->n_attribute);
        if (!shape.ints || !now.attribute) return no_memory(err);
        shape.ints[axis] = e->h->now;
        now.attribute[k] = &shape;
        return ot_remake_node(e->x, i, &now, err);
    }
    return OT_OK;
}

static ot_status follow_node(edit *e, size_t i, ot_error *err)
{
    const Onnx__NodeProto *n = e->g->node[i];
    if (*ot_domain(n->domain)) return refuse(e, n, "is of another domain and may depend on the classes", err);
    for (size_t k = 0; k < n->n_attribute; k++)
        if (n->attribute[k]->g) return refuse(e, n, "has a subgraph that may depend on the classes", err);
    if (ot_node_is(n, "Reshape") && n->n_input == 1) return put_attribute(e, i, err);
    for (size_t k = 0; k < n->n_input; k++) {
        const Onnx__TensorProto *t = ot_table_find(e->tensor, n->input[k]);
        ot_blob b;
        ot_error ignored = { 0 };
        if (!t || (e->h->bias && !strcmp(n->input[k], e->h->bias))) continue;
        bool sizes = k && (ot_node_is(n, "Reshape") || ot_node_is(n, "Expand") || ot_node_is(n, "Resize")) &&
                     t->data_type == OT_I64;
        if (sizes && !ot_tensor_decode(NULL, e->x->patch.arena, t, "shape", &b, NULL, &ignored)) {
            OT_TRY(put_sizes(e, i, k, t, &b, err));
            continue;
        }
        for (size_t d = 0; d < t->n_dims; d++)
            if (t->dims[d] == e->h->classes && e->h->classes > 1)
                return refuse(e, n, "has a constant with a value for each class", err);
    }
    return OT_OK;
}

/* Every node that depends on the layer; the nodes of a file may be in any order. */
static ot_status follow(edit *e, ot_error *err)
{
    const Onnx__NodeProto *layer = e->g->node[e->h->layer];
    bool *seen = ot_arena_alloc(e->x->patch.arena, e->g->n_node + 1), more = true;
    e->after.arena = e->x->patch.arena;
    if (!seen || !ot_table_set(&e->after, layer->output[0], layer)) return no_memory(err);
    while (more) {
        more = false;
        for (size_t i = 0; i < e->g->n_node; i++) {
            const Onnx__NodeProto *n = e->g->node[i];
            if (seen[i] || i == e->h->layer || !depends(e, n)) continue;
            seen[i] = more = true;
            OT_TRY(follow_node(e, i, err));
            for (size_t k = 0; k < n->n_output; k++)
                if (*n->output[k] && !ot_table_set(&e->after, n->output[k], n)) return no_memory(err);
        }
    }
    return OT_OK;
}

/* ---- the layer ---------------------------------------------------------------------------------------- */

static ot_status put_fresh(edit *e, const char *name, int axis, ot_error *err)
{
    ot_arena *a = e->x->patch.arena;
    const Onnx__TensorProto *t = ot_table_find(e->tensor, name);
    int64_t *dims = t ? ot_arena_alloc(a, sizeof *dims * (t->n_dims + 1)) : NULL;
    ot_shape s = { .rank = t ? (int)t->n_dims : 0 };
    if (!t) return ot_fail(err, OT_E_INTERNAL, "%s: internal error: tensor '%s' is missing", e->x->f->path, name);
    if (!dims) return no_memory(err);
    for (int d = 0; d < s.rank; d++) s.dim[d] = dims[d] = d == axis ? e->h->now : t->dims[d];
    ot_dtype type = (ot_dtype)t->data_type;
    if (!ot_shape_fits(&s, type) || ot_bytes(&s, type) > LARGEST)
        return ot_fail(err, OT_E_MODEL, "--classes %lld: '%s' would be too large for an ONNX file",
                       (long long)e->h->now, name);
    void *bytes = ot_arena_alloc(a, ot_bytes(&s, type) + 1);
    if (!bytes) return no_memory(err);
    ot_fill_uniform(bytes, type, ot_numel(&s), 1 / sqrt((double)e->h->fan_in), e->seed, name);
    Onnx__TensorProto now = *t;
    now.dims = dims;
    put_bytes(&now, ot_bytes(&s, type), bytes);
    return put_tensor(e, name, &now, err);
}

static ot_status replace(edit *e, ot_error *err)
{
    OT_TRY(put_fresh(e, e->h->weight, e->h->axis, err));
    if (e->h->bias) OT_TRY(put_fresh(e, e->h->bias, e->h->bias_axis, err));
    OT_TRY(follow(e, err));
    OT_TRY(put_infos(e, OT_GRAPH_INPUT, e->g->input, e->g->n_input, err));
    OT_TRY(put_infos(e, OT_GRAPH_OUTPUT, e->g->output, e->g->n_output, err));
    return put_infos(e, OT_GRAPH_VALUE_INFO, e->g->value_info, e->g->n_value_info, err);
}

ot_status ot_classifiers_replace(const ot_imported *m, const ot_classifier *list, int n, uint64_t seed, const char *key,
                                 const char *value, ot_imported **out, ot_error *err)
{
    ot_remake x;
    int made = 0;
    *out = NULL;
    OT_TRY(ot_remake_begin(&x, m, err));
    ot_table tensor = { .arena = x.patch.arena };
    ot_status s = ot_graph_tensors(x.f->model->graph, &tensor) ? OT_OK : no_memory(err);
    for (int i = 0; i < n && !s; i++) {
        edit e = { .x = &x, .g = x.f->model->graph, .h = &list[i], .seed = seed, .tensor = &tensor };
        bool before = false; /* another output has the same layer */
        for (int k = 0; k < i; k++) before |= list[k].layer == list[i].layer;
        if (before || list[i].now == list[i].classes) continue;
        s = replace(&e, err);
        made++;
    }
    if (!s && made) s = value ? ot_metadata_edit(&x.patch, key, value, err) : ot_metadata_drop(&x.patch, key, err);
    if (!s && made) s = ot_remake_finish(&x, out, err);
    ot_remake_end(&x);
    return s;
}
