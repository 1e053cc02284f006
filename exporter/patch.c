/* patch.c - applies a list of edits to the bytes of a file. */
#include "exporter/patch.h"

#include <stdlib.h>
#include <string.h>

/* Room for one more of `size` bytes each. */
static bool grow(ot_patch *p, void **list, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return true;
    size_t more = *cap ? 2 * *cap : 64;
    void *wider = more <= SIZE_MAX / size ? realloc(*list, more * size) : NULL;
    if (!wider) {
        p->no_memory = true;
        return false;
    }
    *list = wider;
    *cap = more;
    return true;
}

ot_status ot_patch_begin(ot_patch *p, const ot_file *f, ot_error *err)
{
    *p = (ot_patch){ .f = f, .p = f->bytes, .n = f->n, .arena = ot_arena_new() };
    void *list = p->span;
    if (!p->arena || !grow(p, &list, 0, &p->cap_span, sizeof *p->span)) {
        ot_patch_free(p);
        return ot_fail(err, OT_E_NOMEM, "export: no memory");
    }
    p->span = list;
    p->span[p->n_span++] = (ot_span){ .parent = -1, .end = f->n };
    return OT_OK;
}

void ot_patch_free(ot_patch *p)
{
    ot_arena_free(p->arena);
    free(p->span);
    free(p->tensor);
    free(p->other);
    free(p->edit);
    *p = (ot_patch){ 0 };
}

bool ot_patch_push(ot_patch *p, int **list, size_t *n, size_t *cap, int v)
{
    void *l = *list;
    if (!grow(p, &l, *n, cap, sizeof v)) return false;
    *list = l;
    (*list)[(*n)++] = v;
    return true;
}

int ot_patch_span(ot_patch *p, int parent, const ot_field *f)
{
    void *list = p->span;
    if (!grow(p, &list, p->n_span, &p->cap_span, sizeof *p->span)) return 0;
    p->span = list;
    p->span[p->n_span] = (ot_span){ .parent = parent, .len_at = f->len_at, .body = f->body, .end = f->end };
    return (int)p->n_span++;
}

bool ot_field_last(const ot_patch *p, int span, uint32_t number, ot_field *f)
{
    ot_field each;
    bool found = false;
    for (size_t at = p->span[span].body, end = p->span[span].end; ot_field_next(p->p, &at, end, &each);)
        if (each.number == number) {
            *f = each;
            found = true;
        }
    return found;
}

void ot_patch_edit(ot_patch *p, int span, size_t at, size_t end, const void *bytes, size_t n)
{
    void *list = p->edit;
    if (!grow(p, &list, p->n_edit, &p->cap_edit, sizeof *p->edit)) return;
    p->edit = list;
    p->edit[p->n_edit] = (ot_edit){ at, end, n, bytes, p->n_edit };
    p->n_edit++;
    p->span[span].delta += (int64_t)n - (int64_t)(end - at);
}

/* A length as long on the wire as it was, where it fits: an overlong one stays overlong. */
static void edit_length(ot_patch *p, int span)
{
    ot_span *s = &p->span[span];
    uint64_t length = (uint64_t)((int64_t)(s->end - s->body) + s->delta);
    size_t was = s->body - s->len_at, n = ot_varint_size(length);
    uint8_t *bytes = ot_arena_alloc(p->arena, n > was ? n : was);
    if (!bytes) {
        p->no_memory = true;
        return;
    }
    ot_varint_write(bytes, length);
    for (; n < was; n++) {
        bytes[n - 1] |= 0x80;
        bytes[n] = 0;
    }
    p->span[s->parent].delta += s->delta;
    ot_patch_edit(p, s->parent, s->len_at, s->body, bytes, n);
}

static int by_place(const void *a, const void *b)
{
    const ot_edit *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

ot_status ot_patch_finish(ot_patch *p, const char *path, size_t *size, ot_error *err)
{
    /* A span comes after the one it is in, so backwards all inner deltas are known. */
    for (size_t i = p->n_span; i-- > 1 && !p->no_memory;)
        if (p->span[i].delta) edit_length(p, (int)i);
    if (p->no_memory) return ot_fail(err, OT_E_NOMEM, "%s: no memory to write it", path);
    if (p->n_edit) qsort(p->edit, p->n_edit, sizeof *p->edit, by_place);
    int64_t total = (int64_t)p->n + p->span[0].delta;
    if (total > INT32_MAX)
        return ot_fail(err, OT_E_MODEL, "%s: would have %lld bytes; the limit of an ONNX file is %d", path,
                       (long long)total, INT32_MAX);
    *size = (size_t)total;
    return OT_OK;
}

/* Passes the old bytes [at, end) to the sink. */
static ot_status stream_old(const ot_patch *p, size_t at, size_t end, ot_sink *sink, void *to, ot_error *err)
{
    for (size_t n; at < end; at += n) {
        n = end - at;
        const uint8_t *piece = ot_file_piece(p->f, at, &n);
        OT_TRY(sink(to, piece, n, err));
    }
    return OT_OK;
}

ot_status ot_patch_stream(const ot_patch *p, ot_sink *sink, void *to, ot_error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < p->n_edit; i++) {
        const ot_edit *e = &p->edit[i];
        if (e->at < at || e->end > p->n) return ot_fail(err, OT_E_INTERNAL, "export: edits overlap at byte %zu", e->at);
        OT_TRY(stream_old(p, at, e->at, sink, to, err));
        OT_TRY(sink(to, e->bytes, e->n, err));
        at = e->end;
    }
    return stream_old(p, at, p->n, sink, to, err);
}
