/* export.c - writes trained tensors into a copy of the user's file.
 *
 * The bytes of the file are patched: the payload of each tensor is replaced, and the lengths of the messages around
 * it are corrected.  The result is imported again and every tensor compared bit for bit before it replaces any file.
 *
 * Memory  The old bytes and the new payloads are borrowed; the new file is streamed; reading it back takes what
 *         importing it took, and the check computes with the weights where they were read to.  Pages of data files
 *         are given back as soon as they are compared: the check computes with the bytes they are equal to. */
#include "exporter/export.h"

#include <stdlib.h>
#include <string.h>

#include "exporter/patch.h"
#include "importer/internal.h"
#include "runtime/base/io.h"

typedef struct writing {
    const ot_imported *m;
    const ot_export_options *o;
    const char *path;
    ot_pending new;
    ot_patch patch;
    const void **payload;   /* of every source: the old data where nothing changed */
    const void **of_tensor; /* by order: the payload it was given; NULL: none */
    bool changed;           /* a tensor is */
    ot_error *err;
} writing;

/* ---- payloads ----------------------------------------------------------------------- */

/* Gives back the pages of a tensor that was looked at. */
static void forget(const ot_imported *m, const ot_source *s)
{
    if (s->external) ot_import_release(m);
}

static ot_status tensor_patch(writing *x, const ot_export_tensor *t)
{
    const ot_imported *m = x->m;
    if (t->source < 0 || t->source >= m->n_sources || !t->bytes)
        return ot_fail(x->err, OT_E_INTERNAL, "export: unknown tensor %d", t->source);
    const ot_source *s = &m->sources[t->source];
    if (s->dtype == OT_STRING) return ot_fail(x->err, OT_E_INTERNAL, "export: %s: contains strings", s->name);
    const void *payload;
    OT_TRY(ot_payload_merge(x->patch.arena, s, t->bytes, &payload, x->err));
    if (payload == s->data) return OT_OK;
    x->changed = true;
    if (s->order < 0 || (size_t)s->order >= x->patch.n_tensor)
        return ot_fail(x->err, OT_E_INTERNAL, "export: %s: is not stored in the file on its own", s->name);
    x->payload[t->source] = payload;
    const void *earlier = x->of_tensor[s->order];
    if (earlier) {
        /* A function called twice: one tensor in the file, which can hold one value. */
        if (memcmp(earlier, payload, ot_bytes(&s->shape, s->dtype)) != 0)
            return ot_fail(x->err, OT_E_INTERNAL, "export: %s: is given two values", s->name);
        return OT_OK;
    }
    x->of_tensor[s->order] = payload;
    if (s->external) return OT_OK; /* external.c's */
    return ot_payload_edit(&x->patch, x->patch.tensor[s->order], s, payload, x->err);
}

static ot_status file_patch(writing *x, int n, const ot_export_tensor *t)
{
    ot_patch_walk(&x->patch);
    size_t tensors = x->patch.n_tensor + 1, sources = (size_t)x->m->n_sources + 1;
    x->payload = ot_arena_alloc(x->patch.arena, sources * sizeof *x->payload);
    x->of_tensor = ot_arena_alloc(x->patch.arena, tensors * sizeof *x->of_tensor);
    if (x->patch.no_memory || !x->payload || !x->of_tensor)
        return ot_fail(x->err, OT_E_NOMEM, "%s: no memory to write it", x->path);
    for (int i = 0; i < x->m->n_sources; i++) x->payload[i] = x->m->sources[i].data;
    for (int i = 0; i < n; i++) {
        OT_TRY(tensor_patch(x, &t[i]));
        forget(x->m, &x->m->sources[t[i].source]);
    }
    for (int i = 0; x->o && i < x->o->n_metadata; i++) {
        const ot_export_metadata *e = &x->o->metadata[i];
        if (!x->changed && e->with_changes) continue;
        if (e->value) OT_TRY(ot_metadata_edit(&x->patch, e->key, e->value, x->err));
        else OT_TRY(ot_metadata_drop(&x->patch, e->key, x->err));
    }
    return ot_external_write(&x->patch, x->m, x->payload, &x->new, x->err);
}

/* ---- reading back ---------------------------------------------------------------------- */

/* The bytes that were written for source i. */
static const void *written_bytes(const writing *x, int i)
{
    int order = x->m->sources[i].order;
    bool given = order >= 0 && (size_t)order < x->patch.n_tensor && x->of_tensor[order];
    return given ? x->of_tensor[order] : x->payload[i];
}

static ot_status source_verify(const writing *x, int i, const ot_source *is)
{
    const ot_source *was = &x->m->sources[i];
    bool same = !strcmp(was->name, is->name) && was->dtype == is->dtype && was->order == is->order &&
                ot_shape_eq(&was->shape, &is->shape);
    if (same && was->dtype != OT_STRING) {
        size_t n = ot_bytes(&was->shape, was->dtype);
        same = !n || !memcmp(written_bytes(x, i), is->data, n);
    }
    return same ? OT_OK
                : ot_fail(x->err, OT_E_IO, "%s: '%s' differs when read back; the existing file is unchanged", x->path,
                          was->name);
}

/* Values that are external data read the bytes that it was compared with. */
static void values_share(const writing *x, ot_imported *w)
{
    for (int i = 0; i < w->graph->n_values; i++) {
        ot_value *v = w->graph->values[i];
        const ot_source *s = v->source < 0 ? NULL : &w->sources[v->source];
        if (s && s->external && v->data == s->data) v->data = written_bytes(x, v->source);
    }
}

/* Imports what was written and compares it. */
static ot_status written_verify(const writing *x)
{
    ot_imported *w = NULL;
    OT_TRY(ot_pending_import(&x->new, &w, x->err));
    ot_status s = OT_OK;
    if (w->n_sources != x->m->n_sources)
        s = ot_fail(x->err, OT_E_IO,
                    "%s: %d tensors were read back, but %d were written; the existing file is "
                    "unchanged",
                    x->path, w->n_sources, x->m->n_sources);
    for (int i = 0; s == OT_OK && i < w->n_sources; i++) {
        s = source_verify(x, i, &w->sources[i]);
        forget(w, &w->sources[i]);
        forget(x->m, &w->sources[i]);
    }
    if (s == OT_OK) values_share(x, w);
    if (s == OT_OK && x->o && x->o->check) s = x->o->check(w, x->o->user, x->err);
    ot_import_free(w);
    return s;
}

/* ---- writing ------------------------------------------------------------------------------ */

static ot_status file_write(writing *x, int n, const ot_export_tensor *t)
{
    size_t size;
    OT_TRY(ot_import_intact(x->m, x->err));
    OT_TRY(file_patch(x, n, t));
    OT_TRY(ot_patch_finish(&x->patch, x->path, &size, x->err));
    OT_TRY(ot_patch_stream(&x->patch, ot_sink_file, x->new.r, x->err));
    OT_TRY(ot_replace_sync(x->new.r, x->err));
    OT_TRY(written_verify(x));
    OT_TRY(ot_import_intact(x->m, x->err));
    return x->o && x->o->dry ? OT_OK : ot_pending_place(&x->new, x->m, x->err);
}

ot_status ot_export(const ot_imported *m, const char *path, int n, const ot_export_tensor *t,
                    const ot_export_options *o, ot_error *err)
{
    const ot_file *f = m->file;
    ot_error own = { 0 };
    writing x = { .m = m, .o = o, .path = path, .err = err ? err : &own };
    OT_TRY(ot_patch_begin(&x.patch, f, x.err));
    ot_status s = ot_pending_open(&x.new, x.patch.arena, path, o ? o->folder : NULL, x.err);
    if (s == OT_OK) s = file_write(&x, n, t);
    ot_pending_end(&x.new);
    ot_patch_free(&x.patch);
    return s;
}
