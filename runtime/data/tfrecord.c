/* tfrecord.c - TensorFlow's files of records, each a tf.Example: features with lists of bytes, floats or integers.
 *
 * Spec    A record is its length (u64, little endian), the masked CRC-32C of that, a message, its masked CRC-32C.  Example: 1
 *         Features; Features: 1 map of name to Feature; Feature: 1 BytesList, 2 FloatList, 3 Int64List, each with 1 repeated.
 * Shapes  A feature with equally many elements in all records becomes (records, elements), (records) if it is one; encoded
 *         images are decoded when they are needed; bytes of equal length are uint8, other UTF-8 is strings.
 * Memory  The records are walked twice, first to count: arrays are allocated for the counted values.  Messages are not built.
 * Source  tensorflow/core/lib/io/record_writer.h, tensorflow/core/example/example.proto. */
#include "runtime/base/crc32c.h"
#include "runtime/data/internal.h"
#include "runtime/data/members.h"
#include "runtime/data/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 12, TAIL = 4, MOST_FEATURES = 1024, LONGEST_TEXT = 1 << 16, MOST_SHARDS = 99999 };

typedef enum kind { NONE, BYTES, FLOATS, INTEGERS } kind; /* as the fields of Feature */

typedef struct feature {
    const char *name;
    kind kind;
    int64_t least, most;       /* elements */
    int64_t shortest, longest; /* bytes of the only one */
    int64_t total;             /* of all of them */
    int64_t records;           /* that have it */
    bool image, text, mixed;   /* mixed: of several kinds */
    int array;                 /* -1: none */
    int64_t *member;           /* images: which file of d->members each is */
    uint8_t *bytes;            /* images of packed files: their bytes */
} feature;

typedef struct job {
    ot_dataset *d;
    const char *path, **shard;
    int n_shards, n;
    feature *list;
    int64_t records;
    uint64_t hash;
    bool packed; /* one of the files is */
    bool fill;   /* the second walk */
    ot_crc32c crc;
    /* the record at hand */
    const char *file;
    int at;         /* of its shard */
    int64_t number; /* in the file */
    int64_t begin;  /* of its content in the file */
    const uint8_t *content;
    ot_error *err;
} job;

static ot_status bad(const job *j, const char *what)
{
    return ot_fail(j->err, OT_E_DATA, "%s: record %lld: %s", j->file, (long long)j->number, what);
}

static ot_status no_memory(const job *j) { return ot_fail(j->err, OT_E_NOMEM, "%s: no memory", j->path); }

static uint64_t u64(const uint8_t *b)
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++) n |= (uint64_t)b[i] << 8 * i;
    return n;
}

static uint32_t u32(const uint8_t *b)
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

bool ot_is_tfrecord(const unsigned char *head)
{
    ot_crc32c c;
    ot_crc32c_init(&c);
    return ot_crc32c_masked(&c, head, 8) == u32(head + 8);
}

/* ---- values ------------------------------------------------------------------------- */

typedef struct value {
    kind kind;
    ot_wire list;
    int64_t count;
    ot_wire only; /* BYTES: the first */
} value;

static bool is_floats(const ot_wire_field *f)
{
    return f->type == OT_WIRE_32 || (f->type == OT_WIRE_BYTES && (f->bytes.end - f->bytes.p) % 4 == 0);
}

static ot_status count_values(const job *j, value *v)
{
    ot_wire w = v->list;
    ot_wire_field f;
    while (ot_wire_next(&w, &f)) {
        uint64_t ignored;
        if (f.number != 1) continue;
        if (v->kind == BYTES ? f.type != OT_WIRE_BYTES : v->kind == FLOATS ? !is_floats(&f) : f.type == OT_WIRE_32)
            return bad(j, "a list of values is malformed");
        if (v->kind == BYTES && !v->count) v->only = f.bytes;
        if (v->kind == FLOATS) v->count += (f.bytes.end - f.bytes.p) / 4;
        else if (v->kind == BYTES || f.type == OT_WIRE_VARINT) v->count++;
        else if (f.type != OT_WIRE_BYTES) return bad(j, "a list of values is malformed");
        else
            while (ot_wire_varint(&f.bytes, &ignored)) v->count++;
        if (f.bytes.bad) return bad(j, "a list of values is malformed");
    }
    return w.bad ? bad(j, "a list of values is malformed") : OT_OK;
}

static void copy_floats(const value *v, uint8_t *to)
{
    ot_wire w = v->list;
    ot_wire_field f;
    while (ot_wire_next(&w, &f)) {
        if (f.number != 1) continue;
        for (const uint8_t *p = f.bytes.p; p < f.bytes.end; p += 4, to += 4) memcpy(to, &(uint32_t){ u32(p) }, 4);
    }
}

static void copy_integers(const value *v, int64_t *to)
{
    ot_wire w = v->list;
    ot_wire_field f;
    uint64_t x;
    while (ot_wire_next(&w, &f)) {
        if (f.number != 1) continue;
        if (f.type == OT_WIRE_VARINT) *to++ = (int64_t)f.value;
        else
            while (ot_wire_varint(&f.bytes, &x)) *to++ = (int64_t)x;
    }
}

static bool is_text(const ot_wire *w)
{
    uint32_t point;
    if (w->end - w->p > LONGEST_TEXT) return false;
    for (const uint8_t *p = w->p; p < w->end;) {
        int n = ot_utf8((const char *)p, (size_t)(w->end - p), &point);
        if (!n || (point < 32 && point != '\n' && point != '\t' && point != '\r')) return false;
        p += n;
    }
    return true;
}

/* ---- first walk: features and their sizes --------------------------------------------------------- */

static feature *find(job *j, const ot_wire *key, int hint)
{
    size_t n = (size_t)(key->end - key->p);
    for (int k = 0; k < j->n; k++) {
        feature *f = &j->list[(hint + k) % j->n];
        if (strlen(f->name) == n && !memcmp(f->name, key->p, n)) return f;
    }
    return NULL;
}

static ot_status new_feature(job *j, const ot_wire *key, const value *v, feature **out)
{
    size_t n = (size_t)(key->end - key->p);
    if (j->n == MOST_FEATURES)
        return ot_fail(j->err, OT_E_DATA, "%s: has more than %d features", j->path, MOST_FEATURES);
    if (memchr(key->p, 0, n)) return bad(j, "the name of a feature contains a zero");
    char *name = ot_arena_alloc(j->d->arena, n + 1);
    if (!name) return no_memory(j);
    memcpy(name, key->p, n);
    ot_pixels x;
    ot_error none = { 0 };
    size_t bytes = (size_t)(v->only.end - v->only.p);
    *out = &j->list[j->n++];
    **out =
        (feature){ .name = name, .kind = v->kind, .least = v->count, .shortest = INT64_MAX, .text = true, .array = -1 };
    (*out)->image = v->kind == BYTES && v->count == 1 && bytes >= HEAD &&
                    (!ot_picture_size(v->only.p, bytes, &x, &none) || x.format || ot_picture_missing(v->only.p, bytes));
    return OT_OK;
}

static ot_status survey(job *j, const ot_wire *key, const value *v, int hint)
{
    feature *f = find(j, key, hint);
    if (!f) OT_TRY(new_feature(j, key, v, &f));
    if (f->records > j->records) return bad(j, "has a feature twice");
    if (f->records < j->records) f->least = 0; /* an earlier record has none */
    f->records = j->records + 1;
    f->mixed |= f->kind != v->kind;
    if (v->count < f->least) f->least = v->count;
    if (v->count > f->most) f->most = v->count;
    if (v->kind != BYTES) return OT_OK;
    int64_t n = v->only.end - v->only.p;
    if (n < f->shortest) f->shortest = n;
    if (n > f->longest) f->longest = n;
    f->total += n;
    f->text = f->text && is_text(&v->only);
    return OT_OK;
}

/* ---- second walk: their values ----------------------------------------------------------- */

static ot_status add_image(job *j, feature *f, const ot_wire *w)
{
    char name[48];
    ot_members *m = j->d->members;
    int64_t n = w->end - w->p;
    int length = snprintf(name, sizeof name, "record %lld", (long long)j->number);
    ot_packed_file file = { .size = n, .at = j->begin + (w->p - j->content), .packed = j->at };
    if (j->packed) {
        memcpy(f->bytes + f->total, w->p, (size_t)n);
        file.at = (int64_t)(intptr_t)(f->bytes + f->total);
        f->total += n;
    }
    f->member[j->records] = m->n;
    return ot_members_add(m, name, (size_t)length, &file, j->err);
}

static ot_status fill(job *j, const ot_wire *key, const value *v, int hint)
{
    feature *f = find(j, key, hint);
    if (!f || v->kind != f->kind || v->count > f->most || v->count < f->least ||
        (v->kind == BYTES && (v->only.end - v->only.p > f->longest || v->only.end - v->only.p < f->shortest)))
        return ot_fail(j->err, OT_E_IO, "%s: was changed while it was read", j->file);
    if (f->array < 0) return OT_OK;
    ot_tensor *t = &j->d->array[f->array].t;
    size_t n = (size_t)(v->only.end - v->only.p);
    if (f->image) return add_image(j, f, &v->only);
    if (t->dtype == OT_F32) copy_floats(v, (uint8_t *)t->data + 4 * f->most * j->records);
    else if (t->dtype == OT_I64) copy_integers(v, (int64_t *)t->data + f->most * j->records);
    else if (t->dtype == OT_U8) memcpy((uint8_t *)t->data + f->longest * j->records, v->only.p, n);
    else {
        char *text = ot_arena_struct(j->d->arena, n + 1);
        if (!text) return no_memory(j);
        memcpy(text, v->only.p, n);
        text[n] = '\0';
        ((char **)t->data)[j->records] = text;
    }
    return OT_OK;
}

/* ---- records ------------------------------------------------------------------------------- */

static ot_status read_feature(job *j, const ot_wire *entry, int hint)
{
    ot_wire w = *entry, key = { entry->p, entry->p, false }, feature_of = { 0 }; /* a name may be missing: "" */
    ot_wire_field f;
    value v = { 0 };
    while (ot_wire_next(&w, &f)) {
        if (f.type != OT_WIRE_BYTES) continue;
        if (f.number == 1) key = f.bytes;
        if (f.number == 2) feature_of = f.bytes;
    }
    if (w.bad) return bad(j, "a feature is malformed");
    while (ot_wire_next(&feature_of, &f)) {
        if (f.number < BYTES || f.number > INTEGERS || f.type != OT_WIRE_BYTES) continue;
        v.kind = (kind)f.number;
        v.list = f.bytes;
    }
    if (feature_of.bad) return bad(j, "a feature is malformed");
    if (v.kind) OT_TRY(count_values(j, &v));
    if (!v.count) return OT_OK; /* as if it were not there */
    return j->fill ? fill(j, &key, &v, hint) : survey(j, &key, &v, hint);
}

static ot_status read_example(job *j, const uint8_t *p, size_t n)
{
    ot_wire w = { p, p + n, false };
    ot_wire_field f, entry;
    int hint = 0;
    while (ot_wire_next(&w, &f)) {
        if (f.number != 1 || f.type != OT_WIRE_BYTES) continue;
        while (ot_wire_next(&f.bytes, &entry))
            if (entry.number == 1 && entry.type == OT_WIRE_BYTES) OT_TRY(read_feature(j, &entry.bytes, hint++));
        if (f.bytes.bad) return bad(j, "is not a tf.Example");
    }
    return w.bad ? bad(j, "is not a tf.Example") : OT_OK;
}

static ot_status next_record(job *j, ot_stream *s, ot_file_room *room, int64_t *at, bool *end)
{
    uint8_t head[HEAD];
    int64_t got = s->read(s, head, HEAD, j->err);
    if (got < 0) return OT_E_DATA;
    *end = got == 0;
    if (*end) return OT_OK;
    if (got < HEAD) return bad(j, "is truncated");
    uint64_t n = u64(head);
    if (ot_crc32c_masked(&j->crc, head, 8) != u32(head + 8)) return bad(j, "the checksum of its length is wrong");
    if (n > OT_MEMBER_MOST || (int64_t)n > s->most - *at - HEAD - TAIL)
        return ot_fail(j->err, OT_E_DATA, "%s: record %lld has %llu bytes; the limit is %d, and the end of the file",
                       j->file, (long long)j->number, (unsigned long long)n, OT_MEMBER_MOST);
    if (!ot_file_room_reserve(room, (size_t)n + TAIL)) return no_memory(j);
    got = s->read(s, room->data, (int64_t)n + TAIL, j->err);
    if (got < 0) return OT_E_DATA;
    if (got < (int64_t)n + TAIL) return bad(j, "is truncated");
    if (ot_crc32c_masked(&j->crc, room->data, n) != u32(room->data + n)) return bad(j, "its checksum is wrong");
    j->hash = ot_hash(j->hash, room->data + n, TAIL);
    j->content = room->data;
    j->begin = *at + HEAD;
    *at = j->begin + (int64_t)n + TAIL;
    return read_example(j, room->data, n);
}

static ot_status walk_file(job *j, const char *path, ot_file_room *room)
{
    ot_stream s;
    bool end = false;
    int64_t at = 0;
    j->file = path;
    OT_TRY(ot_stream_open(&s, path, j->err));
    j->packed |= s.packed > 0;
    ot_status status = OT_OK;
    for (j->number = 0; !status && !end; j->number++) {
        status = next_record(j, &s, room, &at, &end);
        j->records += !status && !end;
    }
    if (!status) status = ot_stream_end(&s, j->err);
    ot_stream_close(&s);
    return status && j->err->status ? j->err->status : status;
}

static ot_status walk(job *j, bool filling)
{
    ot_file_room room = { 0 };
    ot_status status = OT_OK;
    j->fill = filling;
    j->records = 0;
    for (j->at = 0; j->at < j->n_shards && !status; j->at++) status = walk_file(j, j->shard[j->at], &room);
    free(room.data);
    return status;
}

/* ---- arrays ----------------------------------------------------------------------------------- */

/* The content of an image, from its file, or from memory where that is packed. */
static ot_status read_image(const ot_members *m, const ot_packed_file *f, uint8_t *to, ot_error *err)
{
    const job *j = m->user;
    if (j->packed) {
        memcpy(to, (const void *)(intptr_t)f->at, (size_t)f->size);
        return OT_OK;
    }
    const char *path = j->shard[f->packed];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int64_t got = fd < 0 ? -1 : ot_read_at(fd, to, f->size, f->at);
    int number = errno;
    if (fd >= 0) close(fd);
    if (got == f->size) return OT_OK;
    return ot_fail(err, got < 0 ? ot_failed_call(number) : OT_E_IO, "%s: %s cannot be read: %s", path, f->name,
                   got < 0 ? strerror_r(number, (char[128]){ 0 }, 128) : "the file was changed while it was in use");
}

static ot_status prepare_images(job *j, feature *f)
{
    ot_dataset *d = j->d;
    if (!d->members) {
        if (!(d->members = ot_members_new(j->path))) return no_memory(j);
        d->members->read = read_image;
        d->members->user = j;
    }
    f->member = ot_arena_alloc(d->arena, (size_t)j->records * sizeof *f->member);
    if (j->packed) f->bytes = ot_arena_alloc(d->arena, (size_t)f->total + 1);
    f->total = 0;
    return f->member && (!j->packed || f->bytes) ? OT_OK : no_memory(j);
}

static ot_status add_array(job *j, feature *f)
{
    bool bytes = f->kind == BYTES, same = f->records == j->records && f->least == f->most && !f->mixed;
    bool raw = f->shortest == f->longest && !f->text && f->longest > 0;
    if (!same)
        return ot_dataset_tell(j->d, j->err, "feature '%s' is not used: %lld to %lld elements in a record%s", f->name,
                               (long long)(f->records < j->records ? 0 : f->least), (long long)f->most,
                               f->mixed ? ", of several types" : "");
    if (bytes && (f->most != 1 || (!f->image && !raw && !f->text)))
        return ot_dataset_tell(j->d, j->err, "feature '%s' is not used: bytes of different lengths", f->name);
    ot_array *a = ot_dataset_add(j->d, f->name);
    if (!a) return no_memory(j);
    f->array = j->d->n - 1;
    a->flat = true;
    if (f->image) return prepare_images(j, f);
    ot_dtype t = f->kind == FLOATS ? OT_F32 : f->kind == INTEGERS ? OT_I64 : raw ? OT_U8 : OT_STRING;
    int64_t each = t == OT_U8 ? f->longest : f->most;
    ot_shape shape = { each > 1 || t == OT_U8 ? 2 : 1, { j->records, each } };
    return ot_array_alloc(j->d, a, t, &shape, -1, j->path, j->err);
}

/* What is usually called the target, where no feature is called so. */
static ot_status choose_target(job *j)
{
    static const char *const usual[] = { "label", "labels", "image/class/label", "class" };
    for (int i = 0; i < j->d->n; i++)
        if (!strncmp(j->d->array[i].t.name, "target", 6)) return OT_OK;
    for (int k = 0; k < OT_LEN(usual) && !j->d->several; k++) {
        ot_array *a = NULL;
        for (int i = 0; i < j->d->n; i++)
            if (!strcmp(j->d->array[i].t.name, usual[k])) a = &j->d->array[i];
        if (!a || a->t.dtype == OT_STRING || a->source) continue;
        a->role = OT_ARRAY_TARGET;
        return ot_dataset_tell(j->d, j->err, "%s: the target is feature '%s' (change with --target)", j->path,
                               a->t.name);
    }
    return OT_OK;
}

static ot_status make_arrays(job *j)
{
    OT_TRY(walk(j, false));
    if (!j->records) return ot_fail(j->err, OT_E_DATA, "%s: contains no records", j->path);
    int64_t records = j->records;
    uint64_t hash = j->hash;
    for (int i = 0; i < j->n; i++) OT_TRY(add_array(j, &j->list[i]));
    if (!j->d->n) return ot_fail(j->err, OT_E_DATA, "%s: no feature of its records can be an array", j->path);
    j->hash = 0;
    OT_TRY(walk(j, true));
    if (j->records != records || j->hash != hash)
        return ot_fail(j->err, OT_E_IO, "%s: was changed while it was read", j->path);
    for (int i = 0; i < j->n; i++) {
        feature *f = &j->list[i];
        if (f->array >= 0 && f->image)
            OT_TRY(ot_pictures_array(j->d, &j->d->array[f->array], f->member, records, false, j->err));
    }
    j->d->mapped_hash = ot_hash(j->d->mapped_hash, &hash, sizeof hash);
    OT_TRY(ot_dataset_tell(j->d, j->err, "%s: %lld records%s", j->path, (long long)records,
                           j->n_shards > 1 ? ", of all of its files" : ""));
    return choose_target(j);
}

/* NAME-00000-of-00010 is the first of ten, which are all read.  false: it is one file. */
static bool shards_of(const char *path, int *n)
{
    size_t k = strlen(path);
    char *end;
    if (k < 15 || strncmp(path + k - 15, "-00000-of-", 10)) return false;
    long count = strtol(path + k - 5, &end, 10);
    *n = (int)count;
    return !*end && count > 1 && count <= MOST_SHARDS;
}

ot_status ot_tfrecord_open(const char *path, ot_dataset *d, ot_error *err)
{
    ot_error own = { 0 };
    job *j = ot_arena_alloc(d->arena, sizeof *j);
    if (!j) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    *j = (job){ .d = d, .n_shards = 1, .err = err ? err : &own };
    bool several = shards_of(path, &j->n_shards);
    j->path = ot_arena_strdup(d->arena, path);
    j->shard = ot_arena_alloc(d->arena, (size_t)j->n_shards * sizeof *j->shard);
    j->list = ot_arena_alloc(d->arena, MOST_FEATURES * sizeof *j->list);
    if (!j->path || !j->shard || !j->list) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    for (int i = 0; i < j->n_shards; i++) {
        j->shard[i] =
            several ? ot_arena_printf(d->arena, "%.*s-%05d%s", (int)strlen(path) - 15, path, i, path + strlen(path) - 9)
                    : j->path;
        if (!j->shard[i]) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
        if (i) OT_TRY(ot_dataset_note(d, j->shard[i], err));
    }
    ot_crc32c_init(&j->crc);
    return make_arrays(j);
}
