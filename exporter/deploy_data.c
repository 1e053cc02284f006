/* deploy_data.c - the external data of a deployable file: one new file beside it.
 *
 * Every tensor that was external still is.
 *
 * Spec    External data, ONNX: location, offset, length.
 * Memory  Streamed from the tensors. */
#include "exporter/body.h"

enum { ALIGN = 4096 };

typedef struct piece {
    Onnx__TensorProto *t;
    const void *bytes;
    size_t n;
    uint64_t at;
    bool again; /* shares the bytes of an earlier piece */
} piece;

typedef struct pieces {
    ot_body *b;
    piece *list;
    size_t n, cap;
    uint64_t end;
    ot_table seen; /* address and length -> piece */
} pieces;

/* ---- which tensors ------------------------------------------------------------------------ */

static ot_status piece_add(pieces *p, Onnx__TensorProto *t)
{
    ot_body *b = p->b;
    if (!t || t->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) return OT_OK;
    ot_blob v;
    OT_TRY(ot_body_decode(b, t, &v));
    if (p->n == p->cap) {
        size_t more = p->cap ? 2 * p->cap : 64;
        piece *wide = ot_body_alloc(b, more * sizeof *wide);
        if (!wide) return ot_fail(b->err, OT_E_NOMEM, "export: no memory");
        if (p->n) memcpy(wide, p->list, p->n * sizeof *wide);
        p->list = wide;
        p->cap = more;
    }
    piece q = { .t = t, .bytes = v.data, .n = ot_bytes(&v.shape, v.dtype) };
    const char *key = ot_arena_printf(b->arena, "%p %zu", v.data, q.n);
    const uint64_t *earlier = key ? ot_table_find(&p->seen, key) : NULL;
    q.again = earlier != NULL;
    q.at = earlier ? *earlier : (p->end + ALIGN - 1) / ALIGN * ALIGN;
    if (!earlier) {
        uint64_t *at = ot_body_alloc(b, sizeof *at);
        if (!key || !at || !ot_table_set(&p->seen, key, at)) return ot_fail(b->err, OT_E_NOMEM, "export: no memory");
        *at = q.at;
        p->end = q.at + q.n;
    }
    p->list[p->n++] = q;
    return OT_OK;
}

static ot_status graph_pieces(pieces *p, const Onnx__GraphProto *g);

/* Depth is bounded: the importer's guard refuses messages nested deeper than OT_DEEPEST. */
static ot_status attribute_pieces(pieces *p, const Onnx__AttributeProto *a)
{
    OT_TRY(piece_add(p, a->t));
    for (size_t k = 0; k < a->n_tensors; k++) OT_TRY(piece_add(p, a->tensors[k]));
    for (size_t k = 0; k < a->n_sparse_tensors + 1; k++) {
        const Onnx__SparseTensorProto *s = k < a->n_sparse_tensors ? a->sparse_tensors[k] : a->sparse_tensor;
        if (s) OT_TRY(piece_add(p, s->values));
        if (s) OT_TRY(piece_add(p, s->indices));
    }
    if (a->g) OT_TRY(graph_pieces(p, a->g));
    for (size_t k = 0; k < a->n_graphs; k++) OT_TRY(graph_pieces(p, a->graphs[k]));
    return OT_OK;
}

static ot_status node_pieces(pieces *p, Onnx__NodeProto *const *node, size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (size_t a = 0; a < node[k]->n_attribute; a++) OT_TRY(attribute_pieces(p, node[k]->attribute[a]));
    return OT_OK;
}

static ot_status graph_pieces(pieces *p, const Onnx__GraphProto *g)
{
    for (size_t k = 0; k < g->n_initializer; k++) OT_TRY(piece_add(p, g->initializer[k]));
    for (size_t k = 0; k < g->n_sparse_initializer; k++) {
        OT_TRY(piece_add(p, g->sparse_initializer[k]->values));
        OT_TRY(piece_add(p, g->sparse_initializer[k]->indices));
    }
    return node_pieces(p, g->node, g->n_node);
}

/* ---- the file -------------------------------------------------------------------------------- */

static ot_status stream(const void *what, ot_sink *sink, void *to, ot_error *err)
{
    const pieces *p = what;
    static const char zeros[ALIGN];
    uint64_t at = 0;
    for (size_t k = 0; k < p->n; k++) {
        const piece *q = &p->list[k];
        if (q->again) continue;
        OT_TRY(sink(to, zeros, (size_t)(q->at - at), err));
        OT_TRY(sink(to, q->bytes, q->n, err));
        at = q->at + q->n;
    }
    return OT_OK;
}

static ot_status entries_set(pieces *p, const char *name)
{
    ot_body *b = p->b;
    for (size_t k = 0; k < p->n; k++) {
        const piece *q = &p->list[k];
        Onnx__StringStringEntryProto **list = ot_body_alloc(b, 3 * sizeof *list);
        const char *offset = ot_arena_printf(b->arena, "%llu", (unsigned long long)q->at),
                   *length = ot_arena_printf(b->arena, "%zu", q->n);
        if (!list || !offset || !length || !(list[0] = ot_message_entry(b->arena, "location", name)) ||
            !(list[1] = ot_message_entry(b->arena, "offset", offset)) ||
            !(list[2] = ot_message_entry(b->arena, "length", length)))
            return ot_fail(b->err, OT_E_NOMEM, "export: no memory");
        q->t->external_data = list;
        q->t->n_external_data = 3;
        q->t->has_raw_data = 0;
        q->t->raw_data = (ProtobufCBinaryData){ 0 };
    }
    return OT_OK;
}

ot_status ot_deploy_data(ot_body *b, ot_pending *to)
{
    pieces p = { .b = b, .seen = { .arena = b->arena } };
    const char *name;
    OT_TRY(graph_pieces(&p, b->model->graph));
    for (size_t k = 0; k < b->model->n_functions; k++)
        OT_TRY(node_pieces(&p, b->model->functions[k]->node, b->model->functions[k]->n_node));
    if (!p.n) return OT_OK;
    ot_content c = { p.end, stream, &p };
    OT_TRY(ot_pending_data(to, &c, NULL, &name, b->err));
    ot_body_say(b, "external data: %s", name);
    return entries_set(&p, name);
}
