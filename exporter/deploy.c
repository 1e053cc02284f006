/* deploy.c - the deployable form: the steps in order, then the file.
 *
 *     bytes ─unpack into an arena─ losses ─ mode ─ fold ─ half ─ orphans ─ data file ─ pack ─ read back, compared ─ renamed
 *
 * Memory  The file's messages once more, the tensors that change, nothing else: the new file is streamed. */
#include "exporter/deploy.h"

#include <stdlib.h>

#include "exporter/body.h"

/* ---- messages in an arena -------------------------------------------------------------- */

static void *arena_alloc(void *arena, size_t n) { return ot_arena_alloc(arena, n ? n : 1); }

static void arena_free(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

/* The importer has walked these bytes and unpacked them within a budget.  NULL: no memory. */
static Onnx__ModelProto *unpack(const ot_file *f, ot_arena *a)
{
    ProtobufCAllocator in_arena = { arena_alloc, arena_free, a };
    uint8_t *whole = malloc(f->n);
    for (size_t at = 0, n; whole && at < f->n; at += n) {
        n = f->n - at;
        const uint8_t *piece = ot_file_piece(f, at, &n);
        memcpy(whole + at, piece, n);
    }
    Onnx__ModelProto *model = whole ? onnx__model_proto__unpack(&in_arena, f->n, whole) : NULL;
    free(whole);
    return model;
}

/* ---- the steps ---------------------------------------------------------------------------- */

static void say_mode(ot_body *b, int norms, int dropouts)
{
    if (norms) ot_body_say(b, "%d BatchNormalization set to inference mode", norms);
    if (dropouts) ot_body_say(b, "%d Dropout removed", dropouts);
}

static ot_status graph_deploy(ot_body *b, const ot_deploy_options *o)
{
    int norms = 0, dropouts = 0;
    OT_TRY(ot_body_open(b, NULL));
    OT_TRY(ot_body_types(b, o->typed));
    OT_TRY(ot_deploy_losses(b));
    ot_deploy_mode(b, &norms, &dropouts);
    say_mode(b, norms, dropouts);
    if (o->fold) OT_TRY(ot_deploy_fold(b));
    if (o->half) OT_TRY(ot_deploy_half(b));
    return ot_body_close(b);
}

/* Functions of the file: their bodies may be called many times, so nothing is folded into them. */
static ot_status functions_deploy(ot_body *file)
{
    int norms = 0, dropouts = 0;
    for (size_t k = 0; k < file->model->n_functions; k++) {
        ot_body b = {
            .arena = file->arena, .m = file->m, .model = file->model, .lines = file->lines, .err = file->err
        };
        OT_TRY(ot_body_open(&b, file->model->functions[k]));
        ot_deploy_mode(&b, &norms, &dropouts);
        OT_TRY(ot_body_close(&b));
        file->lines = b.lines;
    }
    if (norms) ot_body_say(file, "%d BatchNormalization in functions set to inference mode", norms);
    if (dropouts) ot_body_say(file, "%d Dropout in functions removed", dropouts);
    return OT_OK;
}

/* Keys of ours are replaced; another key is added only if the file does not have it. */
static ot_status metadata_set(ot_body *b, const ot_export_metadata *e)
{
    Onnx__ModelProto *m = b->model;
    for (size_t k = 0; k < m->n_metadata_props; k++) {
        if (strcmp(ot_text(m->metadata_props[k]->key), e->key) != 0) continue;
        if (ot_metadata_is_ours(e->key)) m->metadata_props[k]->value = ot_message_text(e->value);
        return OT_OK;
    }
    Onnx__StringStringEntryProto **list = ot_body_alloc(b, (m->n_metadata_props + 1) * sizeof *list),
                                 *p = ot_message_entry(b->arena, e->key, e->value);
    if (!list || !p) return ot_fail(b->err, OT_E_NOMEM, "export: no memory");
    if (m->n_metadata_props) memcpy(list, m->metadata_props, m->n_metadata_props * sizeof *list);
    list[m->n_metadata_props++] = p;
    m->metadata_props = list;
    return OT_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct pack_sink {
    ProtobufCBuffer base;
    ot_replace *r;
    ot_status status;
    ot_error *err;
} pack_sink;

static void pack_append(ProtobufCBuffer *to, size_t n, const uint8_t *bytes)
{
    pack_sink *s = (pack_sink *)to;
    if (s->status == OT_OK) s->status = ot_replace_write(s->r, bytes, n, s->err);
}

static ot_status read_back(ot_body *b, const ot_pending *to, const ot_deploy_options *o)
{
    ot_imported *w = NULL;
    OT_TRY(ot_pending_import(to, &w, b->err));
    ot_status s = o->check ? o->check(w, o->user, b->err) : OT_OK;
    ot_import_free(w);
    return s;
}

static ot_status file_write(ot_body *b, ot_pending *to, const ot_deploy_options *o)
{
    OT_TRY(ot_deploy_data(b, to));
    size_t size = b->no_memory ? 0 : onnx__model_proto__get_packed_size(b->model);
    if (b->no_memory) return ot_fail(b->err, OT_E_NOMEM, "%s: no memory to export it", to->to.path);
    if (size > OT_LARGEST_FILE)
        return ot_fail(b->err, OT_E_MODEL, "%s: would have %zu bytes; the limit of an ONNX file is %zu", to->to.path,
                       size, OT_LARGEST_FILE);
    pack_sink sink = { .base = { pack_append }, .r = to->r, .err = b->err };
    onnx__model_proto__pack_to_buffer(b->model, &sink.base);
    OT_TRY(sink.status);
    OT_TRY(ot_replace_sync(to->r, b->err));
    OT_TRY(read_back(b, to, o));
    return ot_pending_place(to, b->m, b->err);
}

static ot_status deploy(ot_body *b, const char *path, const ot_deploy_options *o)
{
    b->model = unpack(b->m->file, b->arena);
    if (!b->model) return ot_fail(b->err, OT_E_NOMEM, "%s: no memory to export it", path);
    OT_TRY(graph_deploy(b, o));
    OT_TRY(functions_deploy(b));
    for (int k = 0; k < o->n_metadata; k++) OT_TRY(metadata_set(b, &o->metadata[k]));
    if (o->n_metadata) ot_body_say(b, "metadata: %d entries", o->n_metadata);
    ot_pending to;
    ot_status s = ot_pending_open(&to, b->arena, path, NULL, b->err);
    if (s == OT_OK) s = file_write(b, &to, o);
    ot_pending_end(&to);
    return s;
}

ot_status ot_deploy(const ot_imported *m, const char *path, const ot_deploy_options *o, ot_arena *a, const char **lines,
                    ot_error *err)
{
    ot_error own = { 0 };
    ot_body b = { .m = (ot_imported *)(uintptr_t)m, .lines = "", .err = err ? err : &own };
    *lines = "";
    if (o->half && !o->typed)
        return ot_fail(err, OT_E_INTERNAL,
                       "internal error: export to float16 needs the types "
                       "of all values");
    b.arena = ot_arena_new();
    if (!b.arena) return ot_fail(err, OT_E_NOMEM, "%s: no memory to export it", path);
    ot_status s = deploy(&b, path, o);
    const char *said = ot_arena_strdup(a, b.lines);
    if (said) *lines = said;
    ot_arena_free(b.arena);
    return s;
}
