/* export.c - trained tensors back into the user's file.
 *
 * The file's own bytes are patched: a tensor's payload is found on the wire, replaced, and lengths
 * around it follow where they must.  What is written is imported again and every tensor compared
 * bit for bit before it takes the place of anything.
 *
 * Memory  The old bytes and the new payloads are borrowed; the new file is streamed; reading it back
 *         takes what importing it took. */
#include "exporter/export.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exporter/patch.h"
#include "importer/internal.h"
#include "runtime/base/io.h"

typedef struct export {
    const ot_imported       *m;
    const ot_export_options *o;
    const char              *path;
    ot_place                 to;
    ot_replace              *r;          /* the new model */
    ot_patch                 patch;
    const void             **payload;    /* of every source: the old data where nothing changed */
    const void             **of_tensor;  /* by order: the payload it was given; NULL: none */
    ot_data_files           *data;
    ot_error                *err;
} export;

/* ---- payloads ----------------------------------------------------------------------- */

static ot_status tensor_patch(export *x, const ot_export_tensor *t)
{
    const ot_imported *m = x->m;
    if (t->source < 0 || t->source >= m->n_sources || !t->bytes)
        return ot_fail(x->err, OT_E_INTERNAL, "export: there is no tensor %d", t->source);
    const ot_source *s = &m->sources[t->source];
    if (s->dtype == OT_STRING) return ot_fail(x->err, OT_E_INTERNAL, "export: %s: holds strings", s->name);
    const void *payload;
    OT_TRY(ot_payload_merge(x->patch.arena, s, t->bytes, &payload, x->err));
    if (payload == s->data) return OT_OK;
    if (s->order < 0 || (size_t)s->order >= x->patch.n_tensor)
        return ot_fail(x->err, OT_E_INTERNAL, "export: %s: has no place of its own in the file", s->name);
    x->payload[t->source] = payload;
    const void *earlier = x->of_tensor[s->order];
    if (earlier) {
        /* A function called twice: one tensor in the file, which can hold one value. */
        if (memcmp(earlier, payload, ot_bytes(&s->shape, s->dtype)) != 0)
            return ot_fail(x->err, OT_E_INTERNAL, "export: %s: was given two values", s->name);
        return OT_OK;
    }
    x->of_tensor[s->order] = payload;
    if (s->external) return OT_OK; /* external.c's */
    return ot_payload_edit(&x->patch, x->patch.tensor[s->order], s, payload, x->err);
}

static ot_status file_patch(export *x, int n, const ot_export_tensor *t)
{
    ot_patch_walk(&x->patch);
    size_t tensors = x->patch.n_tensor + 1, sources = (size_t)x->m->n_sources + 1;
    x->payload = ot_arena_alloc(x->patch.arena, sources * sizeof *x->payload);
    x->of_tensor = ot_arena_alloc(x->patch.arena, tensors * sizeof *x->of_tensor);
    if (x->patch.no_memory || !x->payload || !x->of_tensor)
        return ot_fail(x->err, OT_E_NOMEM, "%s: no memory to write it", x->path);
    for (int i = 0; i < x->m->n_sources; i++) x->payload[i] = x->m->sources[i].data;
    for (int i = 0; i < n; i++) OT_TRY(tensor_patch(x, &t[i]));
    for (int i = 0; x->o && i < x->o->n_metadata; i++)
        OT_TRY(ot_metadata_edit(&x->patch, x->o->metadata[i].key, x->o->metadata[i].value, x->err));
    return ot_external_write(&x->patch, x->m, x->payload, &x->to, &x->data, x->err);
}

/* ---- reading back ---------------------------------------------------------------------- */

static ot_status source_verify(const export *x, int i, const ot_source *is)
{
    const ot_source *was = &x->m->sources[i];
    const void *want = x->payload[i];
    if (was->order >= 0 && (size_t)was->order < x->patch.n_tensor && x->of_tensor[was->order])
        want = x->of_tensor[was->order];
    bool same = !strcmp(was->name, is->name) && was->dtype == is->dtype && was->order == is->order &&
                ot_shape_eq(&was->shape, &is->shape);
    if (same && was->dtype != OT_STRING) {
        size_t n = ot_bytes(&was->shape, was->dtype);
        same = !n || !memcmp(want, is->data, n);
    }
    return same ? OT_OK
                : ot_fail(x->err, OT_E_IO, "%s: '%s' reads back other than it was written; nothing is replaced",
                          x->path, was->name);
}

/* Imports what was written and compares it. */
static ot_status written_verify(const export *x)
{
    ot_imported *w = NULL;
    ot_error found = { 0 };
    int n = 0;
    for (const ot_data_files *d = x->data; d; d = d->next) n++;
    struct ot_unnamed_data *data = ot_arena_alloc(x->patch.arena, sizeof *data * (size_t)(n + 1));
    if (!data) return ot_fail(x->err, OT_E_NOMEM, "%s: no memory to read it back", x->path);
    n = 0;
    for (const ot_data_files *d = x->data; d; d = d->next)
        data[n++] = (struct ot_unnamed_data){ d->name, ot_replace_fd(d->r) };
    ot_unnamed u = { .fd = ot_replace_fd(x->r), .folder = x->to.dir, .n = n, .data = data };
    ot_status s = ot_import_unnamed(&u, x->path, &w, &found);
    if (s != OT_OK)
        return ot_fail(x->err, s == OT_E_NOMEM ? s : OT_E_IO, "%s: what was written does not read back: %s", x->path,
                       found.text);
    if (w->n_sources != x->m->n_sources)
        s = ot_fail(x->err, OT_E_IO, "%s: %d tensors read back, %d were written; nothing is replaced", x->path,
                    w->n_sources, x->m->n_sources);
    for (int i = 0; s == OT_OK && i < w->n_sources; i++) s = source_verify(x, i, &w->sources[i]);
    if (s == OT_OK && x->o && x->o->check) s = x->o->check(w, x->o->user, x->err);
    ot_import_free(w);
    return s;
}

/* ---- writing ------------------------------------------------------------------------------ */

static ot_status sink_file(void *to, const void *bytes, size_t n, ot_error *err)
{
    return ot_replace_write(to, bytes, n, err);
}

/* Model and data files get their names: the data first.  Then the data of the model that was replaced goes. */
static ot_status place(export *x)
{
    const char **old = ot_data_old(x->patch.arena, &x->to, ot_replace_fd(x->r), x->m);
    ot_status s = OT_OK;
    for (ot_data_files *d = x->data; d && s == OT_OK; d = d->next) s = ot_replace_place_new(d->r, x->err);
    if (s == OT_OK) s = ot_replace_place(x->r, x->err);
    for (; s == OT_OK && old && *old; old++) unlinkat(x->to.dir, *old, 0); /* one that cannot be removed stays */
    return s;
}

static ot_status file_write(export *x, int n, const ot_export_tensor *t)
{
    size_t size;
    OT_TRY(file_patch(x, n, t));
    OT_TRY(ot_patch_finish(&x->patch, x->path, &size, x->err));
    OT_TRY(ot_patch_stream(&x->patch, sink_file, x->r, x->err));
    OT_TRY(ot_replace_sync(x->r, x->err));
    OT_TRY(written_verify(x));
    return place(x);
}

/* Opens the new model in its folder. */
static ot_status place_open(export *x)
{
    const char *slash = strrchr(x->path, '/'), *base = slash ? slash + 1 : x->path;
    size_t stem = strlen(base);
    OT_TRY(ot_replace_begin_at(x->o && x->o->folder ? *x->o->folder : AT_FDCWD, x->path, &x->r, x->err));
    if (stem > 5 && !strcmp(base + stem - 5, ".onnx")) stem -= 5;
    x->to = (ot_place){ .path = x->path, .dir = ot_replace_folder(x->r), .base = base };
    x->to.stem = ot_arena_printf(x->patch.arena, "%.*s", (int)(stem < 200 ? stem : 200), base);
    return x->to.stem ? OT_OK : ot_fail(x->err, OT_E_NOMEM, "%s: no memory to write it", x->path);
}

ot_status ot_export(const ot_imported *m, const char *path, int n, const ot_export_tensor *t,
                    const ot_export_options *o, ot_error *err)
{
    const ot_file *f = m->file;
    ot_error own = { 0 };
    export x = { .m = m, .o = o, .path = path, .err = err ? err : &own };
    OT_TRY(ot_patch_begin(&x.patch, f->bytes, f->n, x.err));
    ot_status s = place_open(&x);
    if (s == OT_OK) s = file_write(&x, n, t);
    bool there = x.r && ot_replace_placed(x.r);
    for (const ot_data_files *d = x.data; d; d = d->next) {
        if (there) ot_replace_abort(d->r);
        else ot_replace_undo(d->r);
    }
    ot_replace_abort(x.r);
    ot_patch_free(&x.patch);
    return s;
}
