/* remake.c - edits a file's graph in memory and imports the result. */
#include "exporter/remake.h"

#include <stdlib.h>
#include <string.h>

enum { INPUTS_UNTIL_IR = 4 };

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory to change the graph"); }

ot_status ot_remake_begin(ot_remake *x, const ot_imported *m, ot_error *err)
{
    const ot_file *f = m->file;
    ot_field graph, node;
    size_t n = 0;
    *x = (ot_remake){ .m = m, .f = f };
    OT_TRY(ot_patch_begin(&x->patch, f, err));
    x->node = ot_arena_alloc(x->patch.arena, sizeof *x->node * (f->model->graph->n_node + 1));
    if (!x->node) {
        ot_remake_end(x);
        return no_memory(err);
    }
    for (size_t at = 0; ot_field_next(f->bytes, &at, f->n, &graph);) {
        if (graph.number != OT_MODEL_GRAPH || graph.wire != 2) continue;
        int span = x->graph = ot_patch_span(&x->patch, 0, &graph);
        for (size_t k = graph.body; span && ot_field_next(f->bytes, &k, graph.end, &node);)
            if (node.number == OT_GRAPH_NODE && node.wire == 2 && n < f->model->graph->n_node)
                x->node[n++] = ot_patch_span(&x->patch, span, &node);
    }
    if (x->patch.no_memory) {
        ot_remake_end(x);
        return no_memory(err);
    }
    if (n != f->model->graph->n_node) {
        ot_remake_end(x);
        return ot_fail(err, OT_E_INTERNAL,
                       "%s: internal error: %zu nodes in the "
                       "file, %zu read",
                       f->path, n, f->model->graph->n_node);
    }
    return OT_OK;
}

void ot_remake_end(ot_remake *x)
{
    ot_patch_free(&x->patch);
    *x = (ot_remake){ 0 };
}

const Onnx__TensorProto *ot_remake_tensor(const ot_remake *x, int source) { return x->f->origins[source].tensor; }

/* ---- names ---------------------------------------------------------------------------- */

static bool index_names(ot_remake *x, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        if (!ot_table_set(&x->names, ot_text(g->initializer[i]->name), g)) return false;
    for (size_t i = 0; i < g->n_input; i++)
        if (!ot_table_set(&x->names, ot_text(g->input[i]->name), g)) return false;
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        for (size_t k = 0; k < n->n_output; k++)
            if (!ot_table_set(&x->names, n->output[k], g)) return false;
        for (size_t k = 0; k < n->n_attribute; k++) {
            if (n->attribute[k]->g && !index_names(x, n->attribute[k]->g)) return false;
            for (size_t m = 0; m < n->attribute[k]->n_graphs; m++)
                if (!index_names(x, n->attribute[k]->graphs[m])) return false;
        }
    }
    return true;
}

const char *ot_remake_name(ot_remake *x, const char *name, const char *what, int n)
{
    if (!x->names.arena) {
        x->names.arena = x->patch.arena;
        if (!index_names(x, x->f->model->graph)) return NULL;
    }
    for (;; n++) {
        const char *s = ot_arena_printf(x->patch.arena, "%s_%s_%d", name, what, n);
        if (!s) return NULL;
        if (!ot_table_find(&x->names, s)) return ot_table_set(&x->names, s, x) ? s : NULL;
    }
}

/* ---- edits ----------------------------------------------------------------------------- */

/* A field of a message, in the patch's memory; NULL: no memory. */
static uint8_t *field_bytes(ot_remake *x, uint32_t number, const void *text, const ProtobufCMessage *message, size_t *n)
{
    size_t body = message ? protobuf_c_message_get_packed_size(message) : strlen(text);
    uint8_t *out = body < INT32_MAX ? ot_arena_alloc(x->patch.arena, body + 20) : NULL;
    if (!out) return NULL;
    *n = ot_varint_write(out, number << 3 | 2);
    *n += ot_varint_write(out + *n, body);
    if (message) protobuf_c_message_pack(message, out + *n);
    else memcpy(out + *n, text, body);
    *n += body;
    return out;
}

static ot_status add_to(ot_remake *x, int span, uint32_t number, const ProtobufCMessage *message, ot_error *err)
{
    size_t n, end = x->patch.span[span].end;
    uint8_t *bytes = field_bytes(x, number, NULL, message, &n);
    if (!bytes) return no_memory(err);
    ot_patch_edit(&x->patch, span, end, end, bytes, n);
    return OT_OK;
}

static ot_status add_field(ot_remake *x, uint32_t number, const ProtobufCMessage *message, ot_error *err)
{
    return add_to(x, x->graph, number, message, err);
}

ot_status ot_remake_field(ot_remake *x, uint32_t number, const ProtobufCMessage *message, ot_error *err)
{
    return add_to(x, 0, number, message, err);
}

/* The span that ot_remake_begin made of a part of the graph. */
static int graph_span(const ot_remake *x, const ot_field *graph)
{
    for (int i = 1; i < (int)x->patch.n_span; i++)
        if (!x->patch.span[i].parent && x->patch.span[i].body == graph->body) return i;
    return x->graph;
}

ot_status ot_remake_replace(ot_remake *x, uint32_t number, size_t index, const ProtobufCMessage *message, ot_error *err)
{
    ot_field graph, f;
    size_t n;
    uint8_t *bytes = field_bytes(x, number, NULL, message, &n);
    if (!bytes) return no_memory(err);
    for (size_t at = 0; ot_field_next(x->f->bytes, &at, x->f->n, &graph);) {
        if (graph.number != OT_MODEL_GRAPH || graph.wire != 2) continue;
        int span = graph_span(x, &graph);
        for (size_t k = graph.body; ot_field_next(x->f->bytes, &k, graph.end, &f);)
            if (f.number == number && f.wire == 2 && index-- == 0) {
                ot_patch_edit(&x->patch, span, f.at, f.end, bytes, n);
                return x->patch.no_memory ? no_memory(err) : OT_OK;
            }
    }
    return ot_fail(err, OT_E_INTERNAL, "%s: internal error: a field of the graph is missing", x->f->path);
}

ot_status ot_remake_copy(ot_remake *x, const Onnx__TensorProto *t, const char *name, ot_error *err)
{
    Onnx__TensorProto copy = *t;
    copy.name = ot_message_text(name);
    OT_TRY(add_field(x, OT_GRAPH_INITIALIZER, &copy.base, err));
    if (x->m->ir_version >= INPUTS_UNTIL_IR) return OT_OK;
    const Onnx__ValueInfoProto *info =
        ot_message_value(x->patch.arena, name, (ot_dtype)t->data_type, (int)t->n_dims, t->dims, NULL);
    return info ? add_field(x, OT_GRAPH_INPUT, &info->base, err) : no_memory(err);
}

ot_status ot_remake_input(ot_remake *x, size_t node, int k, const char *name, ot_error *err)
{
    const ot_span s = x->patch.span[x->node[node]];
    ot_field f;
    size_t n;
    uint8_t *bytes = field_bytes(x, OT_NODE_INPUT, name, NULL, &n);
    if (!bytes) return no_memory(err);
    for (size_t at = s.body; ot_field_next(x->patch.p, &at, s.end, &f);)
        if (f.number == OT_NODE_INPUT && k-- == 0) ot_patch_edit(&x->patch, x->node[node], f.at, f.end, bytes, n);
    return x->patch.no_memory ? no_memory(err) : OT_OK;
}

ot_status ot_remake_more(ot_remake *x, size_t node, const char *name, ot_error *err)
{
    size_t n, end = x->patch.span[x->node[node]].end;
    uint8_t *bytes = field_bytes(x, OT_NODE_INPUT, name, NULL, &n);
    if (!bytes) return no_memory(err);
    ot_patch_edit(&x->patch, x->node[node], end, end, bytes, n);
    return x->patch.no_memory ? no_memory(err) : OT_OK;
}

ot_status ot_remake_node(ot_remake *x, size_t node, const Onnx__NodeProto *now, ot_error *err)
{
    const ot_span s = x->patch.span[x->node[node]];
    size_t n = protobuf_c_message_get_packed_size(&now->base);
    uint8_t *bytes = n < INT32_MAX ? ot_arena_alloc(x->patch.arena, n + 1) : NULL;
    if (!bytes) return no_memory(err);
    protobuf_c_message_pack(&now->base, bytes);
    ot_patch_edit(&x->patch, x->node[node], s.body, s.end, bytes, n);
    return x->patch.no_memory ? no_memory(err) : OT_OK;
}

/* ---- the new file ------------------------------------------------------------------------ */

typedef struct memory {
    uint8_t *p;
    size_t n, most;
} memory;

static ot_status to_memory(void *to, const void *bytes, size_t n, ot_error *err)
{
    memory *x = to;
    if (n > x->most - x->n)
        return ot_fail(err, OT_E_INTERNAL,
                       "internal error: the changed graph is longer than "
                       "computed");
    if (n) memcpy(x->p + x->n, bytes, n);
    x->n += n;
    return OT_OK;
}

ot_status ot_remake_finish(ot_remake *x, ot_imported **out, ot_error *err)
{
    memory to = { 0 };
    OT_TRY(ot_patch_finish(&x->patch, x->f->path, &to.most, err));
    to.p = malloc(to.most + 1);
    if (!to.p) return no_memory(err);
    ot_status s = ot_patch_stream(&x->patch, to_memory, &to, err);
    if (s) {
        free(to.p);
        return s;
    }
    return ot_import_again(x->m, to.p, to.n, out, err);
}
