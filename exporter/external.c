/* external.c - writes new data files beside the model where tensors in external data changed.
 *
 * A new data file is the old one with ranges replaced, so offsets and lengths stay.  If tensors share a range and
 * then differ, one keeps the range and the others move to the end.  An existing file is never written: a new one has
 * a checksum in its name, and an existing file of that name with the same bytes is used.  An unchanged data file that
 * the new folder lacks is copied under its own name if that is free.  New files have no name until the model is
 * complete as well.
 *
 * Spec    External data, ONNX: location, offset, length, checksum.  The checksum of a file that changed is dropped.
 * Memory  Data files are streamed, never held. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exporter/patch.h"
#include "importer/internal.h"
#include "runtime/base/io.h"

enum { BLOCK = 1 << 20, ALIGN = 4096 };

/* One tensor's part of a data file. */
typedef struct claim {
    struct claim *next; /* of the same file */
    int span;
    ot_field location, offset; /* the entries; number 0: there is none */
    ot_field checksum;
    uint64_t at, n;             /* range in the old file */
    uint64_t moved;             /* offset in the new file */
    const unsigned char *bytes; /* NULL: unchanged */
    const unsigned char *was;   /* NULL: not known */
    bool leads;                 /* it keeps its place, and others of the same range and bytes with it */
} claim;

typedef struct data_file {
    struct data_file *next;
    const char *location;
    int fd;
    uint64_t size, new_size;
    claim *first, **claim; /* list; then the same sorted by range */
    size_t n;
    bool changed;
} data_file;

typedef struct external {
    ot_patch *p;
    const ot_imported *m;
    ot_pending *to;
    const int *source_of; /* by order; -1: none */
    const void *const *payload;
    data_file *files;
    ot_table by_location;
    ot_error *err;
} external;

static ot_status no_memory(const external *x)
{
    return ot_fail(x->err, OT_E_NOMEM, "%s: no memory to write its external data", x->to->to.path);
}

/* ---- external_data of the tensors -------------------------------------------------------------- */

static const char *text_at(const external *x, const ot_field *f)
{
    char *s = ot_arena_alloc(x->p->arena, f->end - f->body + 1);
    if (s && f->end > f->body) memcpy(s, x->p->p + f->body, f->end - f->body);
    return s;
}

static ot_status file_of(external *x, const char *location, data_file **out)
{
    data_file *d = *out = ot_table_find(&x->by_location, location);
    if (d) return OT_OK;
    const char *why;
    uint64_t size;
    int fd = ot_file_data(x->m->file, location, &size, &why);
    if (fd < 0) return ot_fail(x->err, OT_E_IO, "external data '%.300s': %s", location, why ? why : "no memory");
    d = ot_arena_alloc(x->p->arena, sizeof *d);
    if (!d || !ot_table_set(&x->by_location, location, d)) return no_memory(x);
    *d = (data_file){ .next = x->files, .location = location, .fd = fd, .size = size };
    x->files = *out = d;
    return OT_OK;
}

/* Reads the external_data entries of a tensor into a claim.  *location stays NULL if there is none. */
static ot_status read_entries(external *x, int span, claim *c, const char **location)
{
    ot_field entry, key, value;
    ot_span *s = &x->p->span[span];
    c->n = UINT64_MAX;
    for (size_t at = s->body, end = s->end; ot_field_next(x->p->p, &at, end, &entry);) {
        if (entry.number != OT_TENSOR_EXTERNAL) continue;
        int e = ot_patch_span(x->p, span, &entry);
        s = &x->p->span[span];
        if (!e) return no_memory(x);
        if (!ot_field_last(x->p, e, OT_ENTRY_KEY, &key) || !ot_field_last(x->p, e, OT_ENTRY_VALUE, &value)) continue;
        const char *k = text_at(x, &key), *v = text_at(x, &value);
        if (!k || !v) return no_memory(x);
        if (!strcmp(k, "location")) {
            *location = v;
            c->location = entry;
        } else if (!strcmp(k, "offset")) {
            c->at = strtoull(v, NULL, 10);
            c->offset = entry;
        } else if (!strcmp(k, "length")) c->n = strtoull(v, NULL, 10);
        else if (!strcmp(k, "checksum")) c->checksum = entry;
    }
    return OT_OK;
}

/* Notes what a tensor, if it is external, holds of which file. */
static ot_status claim_add(external *x, int span, int order)
{
    ot_field f;
    if (!ot_field_last(x->p, span, OT_TENSOR_LOCATION, &f)) return OT_OK;
    size_t at = f.body;
    if (ot_varint_read(x->p->p, &at, f.end) != 1) return OT_OK;
    claim *c = ot_arena_alloc(x->p->arena, sizeof *c);
    const char *location = NULL;
    if (!c) return no_memory(x);
    OT_TRY(read_entries(x, span, c, &location));
    if (!location) return OT_OK;
    data_file *d;
    OT_TRY(file_of(x, location, &d));
    c->span = span;
    int i = order < 0 ? -1 : x->source_of[order];
    if (i >= 0) {
        const ot_source *s = &x->m->sources[i];
        c->n = ot_bytes(&s->shape, s->dtype);
        c->was = s->data;
        if (x->payload[i] != s->data) c->bytes = x->payload[i];
    }
    if (c->at > d->size) c->at = d->size;
    if (c->n > d->size - c->at) c->n = d->size - c->at;
    c->moved = c->at;
    c->next = d->first;
    d->first = c;
    d->n++;
    d->changed |= c->bytes != NULL;
    return OT_OK;
}

/* ---- places in the new file ------------------------------------------------------------- */

/* By range; in one range the unchanged come first, then as in the file. */
static int by_range(const void *a, const void *b)
{
    const claim *x = *(claim *const *)a, *y = *(claim *const *)b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    if (!x->bytes != !y->bytes) return x->bytes ? 1 : -1;
    return x->span < y->span ? -1 : x->span > y->span;
}

static bool same_range(const claim *a, const claim *b) { return a->at == b->at && a->n == b->n; }

static bool same_bytes(const claim *a, const claim *b)
{
    const unsigned char *x = a->bytes ? a->bytes : a->was, *y = b->bytes ? b->bytes : b->was;
    return x && y && (x == y || !memcmp(x, y, a->n));
}

static void move_to_end(data_file *d, claim *c)
{
    c->moved = (d->new_size + ALIGN - 1) / ALIGN * ALIGN;
    c->leads = true;
    d->new_size = c->moved + c->n;
}

/* Decides where every changed tensor goes: its own place unless another wants other bytes there. */
static ot_status places_find(external *x, data_file *d)
{
    d->claim = ot_arena_alloc(x->p->arena, d->n * sizeof(claim *));
    if (!d->claim) return no_memory(x);
    size_t n = 0;
    for (claim *c = d->first; c; c = c->next) d->claim[n++] = c;
    qsort(d->claim, n, sizeof *d->claim, by_range);
    d->new_size = d->size;
    uint64_t reach = 0; /* end of all ranges before */
    for (size_t i = 0, j; i < n; i = j) {
        claim *lead = d->claim[i];
        for (j = i; j < n && same_range(d->claim[j], lead); j++) {
        }
        bool crossed = lead->n && (reach > lead->at || (j < n && d->claim[j]->at < lead->at + lead->n));
        lead->leads = lead->bytes != NULL;
        if (lead->bytes && crossed) move_to_end(d, lead);
        for (size_t k = i + 1; k < j; k++) {
            claim *c = d->claim[k];
            if (!c->bytes) continue;
            if (same_bytes(c, lead)) c->moved = lead->moved;
            else move_to_end(d, c);
        }
        if (lead->at + lead->n > reach) reach = lead->at + lead->n;
    }
    return OT_OK;
}

/* ---- the bytes of a new data file --------------------------------------------------------- */

static ot_status copy_old(const data_file *d, uint64_t from, uint64_t to, unsigned char *block, ot_sink *sink,
                          void *user, ot_error *err)
{
    while (from < to) {
        size_t want = to - from < BLOCK ? (size_t)(to - from) : BLOCK;
        ssize_t got = pread(d->fd, block, want, (off_t)from);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return ot_fail(err, OT_E_IO, "external data '%.300s': cannot be read: %s", d->location,
                           got ? strerror_r(errno, (char[128]){ 0 }, 128) : "it shrank");
        OT_TRY(sink(user, block, (size_t)got, err));
        from += (uint64_t)got;
    }
    return OT_OK;
}

static ot_status data_stream(const void *what, ot_sink *sink, void *user, ot_error *err)
{
    const data_file *d = what;
    unsigned char *block = malloc(BLOCK);
    if (!block) return ot_fail(err, OT_E_NOMEM, "external data '%.300s': no memory", d->location);
    uint64_t at = 0;
    ot_status s = OT_OK;
    for (size_t i = 0; i < d->n && s == OT_OK; i++) {
        const claim *c = d->claim[i];
        if (!c->leads || c->moved != c->at) continue;
        s = copy_old(d, at, c->at, block, sink, user, err);
        if (s == OT_OK) s = sink(user, c->bytes, c->n, err);
        at = c->at + c->n;
    }
    if (s == OT_OK) s = copy_old(d, at, d->size, block, sink, user, err);
    at = d->size;
    memset(block, 0, ALIGN);
    /* Those that moved: in the order in which they were given their places. */
    for (size_t i = 0; i < d->n && s == OT_OK; i++) {
        const claim *c = d->claim[i];
        if (!c->leads || c->moved == c->at) continue;
        s = sink(user, block, (size_t)(c->moved - at), err);
        if (s == OT_OK) s = sink(user, c->bytes, c->n, err);
        at = c->moved + c->n;
    }
    free(block);
    return s;
}

/* ---- names ------------------------------------------------------------------------------- */

/* Whether the location, seen from the new model, is the file itself and not a link to it. */
static ot_status found_from_there(const external *x, const data_file *d, bool *found)
{
    struct stat old, seen;
    bool there = !fstatat(x->to->to.dir, d->location, &seen, AT_SYMLINK_NOFOLLOW);
    if ((!there && errno != ENOENT && errno != ENOTDIR) || fstat(d->fd, &old))
        return ot_fail(x->err, OT_E_IO, "external data '%.300s': cannot be examined: %s", d->location,
                       strerror_r(errno, (char[128]){ 0 }, 128));
    *found = there && old.st_dev == seen.st_dev && old.st_ino == seen.st_ino;
    return OT_OK;
}

/* Finds a name, writes the file unless it is there.  *name: the new location. */
static ot_status data_place(external *x, const data_file *d, const char **name)
{
    ot_content c = { d->new_size, data_stream, d };
    bool own = !d->changed && !strchr(d->location, '/') && strcmp(d->location, x->to->to.base) != 0;
    return ot_pending_data(x->to, &c, own ? d->location : NULL, name, x->err);
}

/* ---- the entries -------------------------------------------------------------------------- */

/* Puts an entry in the place of an old one, or at the end of the tensor. */
static void entry_edit(external *x, int span, const ot_field *old, const char *key, const char *value)
{
    size_t n, end = x->p->span[span].end;
    const uint8_t *entry = ot_entry_bytes(x->p->arena, OT_TENSOR_EXTERNAL, key, value, &n);
    if (entry) ot_patch_edit(x->p, span, old->number ? old->at : end, old->number ? old->end : end, entry, n);
    else x->p->no_memory = true;
}

static void claims_edit(external *x, const data_file *d, const char *name)
{
    char number[24];
    for (size_t i = 0; i < d->n; i++) {
        const claim *c = d->claim[i];
        if (strcmp(name, d->location) != 0) entry_edit(x, c->span, &c->location, "location", name);
        if (c->moved != c->at) {
            snprintf(number, sizeof number, "%llu", (unsigned long long)c->moved);
            entry_edit(x, c->span, &c->offset, "offset", number);
        }
        if (d->changed && c->checksum.number) ot_patch_edit(x->p, c->span, c->checksum.at, c->checksum.end, NULL, 0);
    }
}

/* ---- all of it ------------------------------------------------------------------------------ */

static ot_status all_written(external *x)
{
    for (size_t i = 0; i < x->p->n_tensor; i++)
        if (!x->p->span[x->p->tensor[i]].floats) OT_TRY(claim_add(x, x->p->tensor[i], (int)i));
    for (size_t i = 0; i < x->p->n_other; i++) OT_TRY(claim_add(x, x->p->other[i], -1));
    for (data_file *d = x->files; d; d = d->next) {
        bool found = false;
        if (!d->changed) OT_TRY(found_from_there(x, d, &found));
        if (found) continue;
        const char *name;
        OT_TRY(places_find(x, d));
        OT_TRY(data_place(x, d, &name));
        claims_edit(x, d, name);
    }
    return x->p->no_memory ? no_memory(x) : OT_OK;
}

ot_status ot_external_write(ot_patch *p, const ot_imported *m, const void *const *payload, ot_pending *to,
                            ot_error *err)
{
    external x = { .p = p, .m = m, .to = to, .payload = payload, .by_location = { .arena = p->arena }, .err = err };
    int *source_of = ot_arena_alloc(p->arena, (p->n_tensor + 1) * sizeof *source_of);
    if (!source_of) return no_memory(&x);
    for (size_t i = 0; i < p->n_tensor; i++) source_of[i] = -1;
    for (int i = 0; i < m->n_sources; i++) {
        int order = m->sources[i].order;
        if (order < 0 || (size_t)order >= p->n_tensor || m->sources[i].dtype == OT_STRING) continue;
        /* Several sources are one tensor where a function is called twice; the changed one counts. */
        if (source_of[order] < 0 || payload[i] != m->sources[i].data) source_of[order] = i;
    }
    x.source_of = source_of;
    return all_written(&x);
}
