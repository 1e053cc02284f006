/* file.c - the model file and the data files beside it.
 *
 * External data must be in the model's folder or below it.  A location is refused by
 * its components (empty, absolute, ".."), then opened so that the kernel keeps it below the folder
 * (openat2).  A link that leads out is followed in one case: the model is itself a link, and both
 * lead into the same folder, as model stores lay out their files.
 *
 * Memory  Large ranges are mapped read-only: pages that are not accessed are never read, and
 *         ot_import_release releases the others.  Like a mapped data set, the file must not change
 *         while it is in use (ot_import_intact checks that); truncating it ends the
 *         process.  Small ranges are read, at any alignment.  Equal ranges share memory; all ranges of one
 *         file together may be twice its size. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "importer/internal.h"
#include "runtime/base/io.h"

/* A range of a data file that has been read. */
typedef struct range {
    struct range *next;
    uint64_t offset, length;
    const void *bytes;
} range;

enum { BUCKETS = 256, LARGE = 1 << 16 /* bytes; ranges from here on are mapped */ };

typedef struct ot_data_file {
    struct ot_data_file *next;
    const char *location, *first; /* first: the first tensor with this location */
    int fd;                       /* -1: could not be opened */
    bool lent;                    /* fd is the caller's */
    const char *why;              /* then: the reason */
    int users;
    uint64_t size, taken;
    struct timespec changed;
    char *map;              /* all of it; NULL: none of its ranges is mapped */
    range *bucket[BUCKETS]; /* by offset */
} ot_data_file;

#define REASON(number) strerror_r((number), (char[128]){ 0 }, 128)

/* ---- the model ----------------------------------------------------------------- */

static const char *folder_of(ot_arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return ".";
    return slash == path ? "/" : ot_arena_printf(a, "%.*s", (int)(slash - path), path);
}

/* The folder of the file that the path leads to, when the path is a link. */
static const char *linked_folder(ot_arena *a, const char *path)
{
    struct stat st;
    char real[PATH_MAX];
    if (lstat(path, &st) || !S_ISLNK(st.st_mode) || !realpath(path, real)) return NULL;
    return folder_of(a, real);
}

#define FROM_PYTHON "a file of PyTorch or a pickle; export the model to ONNX first (torch.onnx.export)"

/* Of a zip archive, by the name of its first member. */
static bool first_member_ends(const uint8_t *b, size_t n, const char *end)
{
    enum { LENGTH = 26, NAME = 30 };
    size_t m = n < NAME ? 0 : b[LENGTH] + 256u * b[LENGTH + 1], k = strlen(end);
    return m >= k && n - NAME >= m && !memcmp(b + NAME + m - k, end, k);
}

/* What a file is that cannot be read as a model; NULL: nothing known here. */
static const char *other_format(const uint8_t *b, size_t n)
{
    static const struct {
        const char *begins;
        size_t n;
        const char *what;
    } known[] = {
        { "PK\3\4", 4, "a zip archive, such as .npz; are the model and --data swapped?" },
        { "\x80\2", 2, FROM_PYTHON },
        { "\x80\4", 2, FROM_PYTHON },
        { "\x80\5", 2, FROM_PYTHON },
        { "version https://git-lfs", 23, "a pointer of Git LFS; fetch the file itself with 'git lfs pull'" },
        { "\x93NUMPY", 6, "a .npy array; are the model and --data swapped?" },
        { "\x1f\x8b", 2, "gzip; decompress it first" },
        { "\x89HDF", 4, "HDF5 (Keras); convert it to ONNX first" },
        { "\0\0\x08", 3, "an idx file, as of MNIST; are the model and --data swapped?" },
    };
    if (n > 4 && !memcmp(b, "PK\3\4", 4) && first_member_ends(b, n, "/data.pkl")) return FROM_PYTHON;
    if (n > 4 && !memcmp(b, "PK\3\4", 4) && first_member_ends(b, n, "metadata.json"))
        return "a file of Keras; export the model with model.export('net.onnx', format='onnx')";
    if (n > 8 && !memcmp(b + 4, "TFL3", 4)) return "TensorFlow Lite; convert it to ONNX first (tf2onnx)";
    if (n > 9 && !memcmp(b + 4, "\0\0\0\0{\"", 6))
        return "safetensors, which has weights but no graph; export the model to ONNX";
    for (int i = 0; i < OT_LEN(known); i++)
        if (n >= known[i].n && !memcmp(b, known[i].begins, known[i].n)) return known[i].what;
    for (size_t i = 0; i < n && i < 256; i++)
        if ((b[i] < ' ' && !strchr("\t\n\r\f", b[i])) || b[i] == 0x7F || !b[i]) return NULL;
    return "text";
}

static ot_status unpack(ot_file *f, ot_error *err)
{
    ProtobufCMessage *m;
    ot_error why = { 0 };
    f->payloads.bytes = f->bytes;
    if (ot_guard_unpack(&onnx__model_proto__descriptor, f->bytes, f->n, f->path, &f->payloads, &f->budget, &m, &why)) {
        const char *other = why.status == OT_E_MODEL ? other_format(f->bytes, f->n) : NULL;
        if (other)
            return ot_fail(err, OT_E_MODEL, "%s: is not an ONNX file: it looks like %s (%s)", f->path, other, why.text);
        return ot_fail(err, why.status, "%s%s", why.text,
                       why.status == OT_E_MODEL ? ": not an ONNX file, or damaged" : "");
    }
    f->model = (Onnx__ModelProto *)m;
    return OT_OK;
}

/* A file without a name is this process's own: nothing changes it, and its pages are in memory since it was written. */
static ot_status map_unnamed(ot_file *f, int fd, ot_error *err)
{
    struct stat st;
    void *bytes = MAP_FAILED;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size <= OT_LARGEST_FILE)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    f->mapped = bytes != MAP_FAILED;
    if (f->mapped) f->n = (size_t)st.st_size;
    else OT_TRY(ot_read_open(fd, f->path, OT_LARGEST_FILE, &bytes, &f->n, err));
    f->bytes = bytes;
    return OT_OK;
}

static ot_status open_in(ot_file *f, const char *path, const ot_unnamed *u, ot_error *err)
{
    void *bytes;
    f->path = ot_arena_strdup(f->arena, path);
    f->dir = folder_of(f->arena, path);
    f->unnamed = u;
    if (!f->path || !f->dir) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    if (u) {
        OT_TRY(map_unnamed(f, u->fd, err));
    } else {
        f->real_dir = linked_folder(f->arena, path);
        OT_TRY(ot_read_file(path, OT_LARGEST_FILE, &bytes, &f->n, err));
        f->bytes = bytes;
    }
    f->id_known = u ? ot_file_of_open(u->fd, &f->id) : ot_file_of(AT_FDCWD, path, &f->id);
    if (!f->n) return ot_fail(err, OT_E_MODEL, "%s: the file is empty", path);
    return unpack(f, err);
}

/* NULL: no memory. */
static ot_file *new_file(void)
{
    ot_arena *a = ot_arena_new();
    ot_file *f = a ? ot_arena_alloc(a, sizeof *f) : NULL;
    if (f) f->arena = a;
    else ot_arena_free(a);
    return f;
}

ot_status ot_file_again(const ot_file *f, void *bytes, size_t n, ot_file **out, ot_error *err)
{
    ot_file *again = new_file();
    *out = NULL;
    if (!again) {
        free(bytes);
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", f->path);
    }
    again->bytes = bytes;
    again->n = n;
    again->path = ot_arena_strdup(again->arena, f->path);
    again->dir = ot_arena_strdup(again->arena, f->dir);
    again->real_dir = f->real_dir ? ot_arena_strdup(again->arena, f->real_dir) : NULL;
    again->id = f->id;
    again->id_known = f->id_known;
    bool named = again->path && again->dir && (again->real_dir || !f->real_dir);
    ot_status s = named ? unpack(again, err) : ot_fail(err, OT_E_NOMEM, "%s: no memory", f->path);
    if (s != OT_OK) ot_file_free(again);
    else *out = again;
    return s;
}

ot_status ot_file_open(const char *path, const ot_unnamed *u, ot_file **out, ot_error *err)
{
    *out = NULL;
    ot_file *f = new_file();
    if (!f) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    ot_status s = open_in(f, path, u, err);
    if (s != OT_OK) ot_file_free(f);
    else *out = f;
    return s;
}

void ot_file_free(ot_file *f)
{
    if (!f) return;
    for (ot_data_file *d = f->data_files; d; d = d->next) {
        if (d->map) munmap(d->map, d->size);
        if (d->fd >= 0 && !d->lent) close(d->fd);
    }
    if (f->model) ot_guard_free(&f->model->base, &f->budget);
    free(f->payloads.list);
    if (f->mapped) munmap(f->bytes, f->n);
    else free(f->bytes);
    ot_arena_free(f->arena); /* f is in it */
}

/* ---- containment ------------------------------------------------------------------ */

/* Why an external-data path is refused; NULL: it is not. */
static const char *location_fault(const char *location)
{
    if (!*location) return "must not be empty";
    if (*location == '/') return "must not be absolute";
    for (const char *p = location; p; p = strchr(p, '/'), p = p ? p + 1 : NULL)
        if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/')) return "must not leave the folder of the model";
    return NULL;
}

static int open_location(const ot_file *f, const char *location)
{
    const ot_unnamed *u = f->unnamed;
    if (u) return ot_open_beneath(u->folder, ".", location);
    int fd = ot_open_beneath(AT_FDCWD, f->dir, location);
    if (fd >= 0 || !f->real_dir) return fd;
    if (errno == EXDEV) return ot_open_under(f->dir, location, f->real_dir);
    return errno == ENOENT ? ot_open_beneath(AT_FDCWD, f->real_dir, location) : -1;
}

/* ---- data files -------------------------------------------------------------------- */

static const char *open_data(ot_file *f, ot_data_file *d)
{
    const char *fault = location_fault(d->location);
    if (fault) return fault;
    const ot_unnamed *u = f->unnamed;
    for (int i = 0; u && i < u->n && !d->lent; i++) {
        d->lent = !strcmp(u->data[i].location, d->location);
        if (d->lent) d->fd = u->data[i].fd;
    }
    if (!d->lent) d->fd = open_location(f, d->location);
    if (d->fd < 0 && errno == EXDEV) return "must not lead out of the folder of the model";
    if (d->fd < 0) return ot_arena_printf(f->arena, "cannot be opened: %s", REASON(errno));
    struct stat st;
    const char *why = NULL;
    if (fstat(d->fd, &st)) why = "cannot be examined";
    else if (!S_ISREG(st.st_mode)) why = S_ISDIR(st.st_mode) ? "is a folder" : "is not a regular file";
    if (why) {
        if (!d->lent) close(d->fd);
        d->fd = -1;
        return why;
    }
    d->size = (uint64_t)st.st_size;
    d->changed = st.st_mtim;
    return NULL;
}

static ot_data_file *find_data(ot_file *f, const char *location, const char *tensor)
{
    ot_data_file *d = ot_table_find(&f->data_table, location);
    if (d) return d;
    f->data_table.arena = f->arena;
    d = ot_arena_alloc(f->arena, sizeof *d);
    if (!d || !ot_table_set(&f->data_table, location, d)) return NULL;
    d->location = location;
    d->first = tensor;
    d->fd = -1;
    d->why = open_data(f, d);
    d->next = f->data_files;
    f->data_files = d;
    return d;
}

void ot_file_missing(const ot_file *f, ot_error *found)
{
    for (const ot_data_file *d = f->data_files; d; d = d->next) {
        if (d->fd >= 0) continue;
        char more[32] = "";
        if (d->users > 1) snprintf(more, sizeof more, " and %d more", d->users - 1);
        /* What the file could never mean is its own fault; the rest is the disk's. */
        ot_status s = d->why && !strncmp(d->why, "cannot", 6) ? OT_E_IO : OT_E_MODEL;
        ot_fail_more(found, s, "external data '%.300s' in folder '%.300s': %s; needed by tensor '%.200s'%s",
                     d->location, f->dir, d->why ? d->why : "no memory", d->first, more);
    }
}

/* The pages of the file that hold a large range whose elements are aligned there; NULL: it is to be read. */
static const void *mapped(ot_data_file *d, uint64_t offset, uint64_t length, size_t element)
{
    if (length < LARGE || offset % element) return NULL;
    if (!d->map) {
        void *p = mmap(NULL, d->size, PROT_READ, MAP_PRIVATE, d->fd, 0);
        if (p == MAP_FAILED) return NULL;
        d->map = p;
    }
    return d->map + offset;
}

static ot_status read_range(ot_file *f, ot_data_file *d, const range *r, const char *tensor, const void **out,
                            ot_error *found)
{
    void *p = ot_arena_alloc(f->arena, r->length ? (size_t)r->length : 1);
    *out = p;
    if (!p)
        return ot_fail_more(found, OT_E_NOMEM, "tensor '%.200s': no memory for %llu bytes", tensor,
                            (unsigned long long)r->length);
    if (ot_read_at(d->fd, p, (int64_t)r->length, (int64_t)r->offset) != (int64_t)r->length)
        return ot_fail_more(found, OT_E_IO, "tensor '%.200s': '%.300s' cannot be read", tensor, d->location);
    return OT_OK;
}

ot_status ot_file_external(ot_file *f, const ot_external *e, size_t bytes, size_t element, const char *tensor,
                           const void **out, ot_error *found)
{
    ot_data_file *d = find_data(f, e->location, tensor);
    if (!d) return ot_fail_more(found, OT_E_NOMEM, "%.200s: no memory", tensor);
    d->users++;
    if (d->fd < 0) return OT_E_IO;
    uint64_t offset = (uint64_t)e->offset, length = bytes;
    if (offset > d->size || length > d->size - offset)
        return ot_fail_more(found, OT_E_MODEL,
                            "tensor '%.200s': needs bytes %llu to %llu of '%.300s', but the file has %llu", tensor,
                            (unsigned long long)offset, (unsigned long long)(offset + length), d->location,
                            (unsigned long long)d->size);
    range **head = &d->bucket[offset / 64 % BUCKETS];
    for (range *r = *head; r; r = r->next)
        if (r->offset == offset && r->length == length) {
            *out = r->bytes;
            return OT_OK;
        }
    if (length > 2 * d->size - d->taken)
        return ot_fail_more(found, OT_E_MODEL,
                            "tensor '%.200s': tensors overlap in '%.300s': their total size is more than twice the "
                            "file",
                            tensor, d->location);
    range *r = ot_arena_alloc(f->arena, sizeof *r);
    if (!r) return ot_fail_more(found, OT_E_NOMEM, "tensor '%.200s': no memory", tensor);
    *r = (range){ *head, offset, length, mapped(d, offset, length, element) };
    if (!r->bytes) OT_TRY(read_range(f, d, r, tensor, &r->bytes, found));
    d->taken += length;
    *head = r;
    *out = r->bytes;
    return OT_OK;
}

void ot_import_release(const ot_imported *m)
{
    for (const ot_data_file *d = ((const ot_file *)m->file)->data_files; d; d = d->next)
        if (d->map) (void)madvise(d->map, d->size, MADV_DONTNEED);
}

ot_status ot_import_intact(const ot_imported *m, ot_error *err)
{
    const ot_file *f = m->file;
    for (const ot_data_file *d = f->data_files; d; d = d->next) {
        struct stat st;
        if (!d->map) continue;
        if (fstat(d->fd, &st))
            return ot_fail(err, OT_E_IO, "%s: external data '%.300s' cannot be examined: %s", f->path, d->location,
                           REASON(errno));
        if ((uint64_t)st.st_size == d->size && st.st_mtim.tv_sec == d->changed.tv_sec &&
            st.st_mtim.tv_nsec == d->changed.tv_nsec)
            continue;
        return ot_fail(err, OT_E_IO,
                       "%s: external data '%.300s' was changed while it was in use; start again with the new file",
                       f->path, d->location);
    }
    return OT_OK;
}

int ot_file_data(ot_file *f, const char *location, uint64_t *size, const char **why)
{
    ot_data_file *d = find_data(f, location, "");
    *size = d ? d->size : 0;
    *why = d ? d->why : "no memory";
    return d ? d->fd : -1;
}

/* ---- for those that write ------------------------------------------------------------- */

bool ot_import_reads(const ot_imported *m, ot_file_id id, const char **name)
{
    const ot_file *f = m->file;
    ot_file_id own;
    *name = f->path;
    if (f->id_known && ot_file_same(f->id, id)) return true;
    for (const ot_data_file *d = f->data_files; d; d = d->next) {
        *name = d->location;
        if (d->fd >= 0 && ot_file_of_open(d->fd, &own) && ot_file_same(own, id)) return true;
    }
    return false;
}

const char *ot_import_data_name(const ot_imported *m, int i)
{
    const ot_data_file *d = ((const ot_file *)m->file)->data_files;
    while (d && i-- > 0) d = d->next;
    return d ? d->location : NULL;
}

const char *ot_import_metadata(const ot_imported *m, const char *key)
{
    const Onnx__ModelProto *p = ((const ot_file *)m->file)->model;
    for (size_t i = 0; i < p->n_metadata_props; i++)
        if (!strcmp(ot_text(p->metadata_props[i]->key), key)) return ot_text(p->metadata_props[i]->value);
    return NULL;
}

static const char *folded(Onnx__StringStringEntryProto *const *list, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(ot_text(list[i]->key), key)) return ot_text(list[i]->value);
    return NULL;
}

const char *ot_import_metadata_folded(const ot_imported *m, const char *key)
{
    const Onnx__ModelProto *p = ((const ot_file *)m->file)->model;
    const char *is = folded(p->metadata_props, p->n_metadata_props, key);
    return is || !p->graph ? is : folded(p->graph->metadata_props, p->graph->n_metadata_props, key);
}

/* The top-level fields alone: their numbers, wire types and lengths up to the last byte. */
int ot_import_is_model(int fd, uint64_t size)
{
    enum { IR_VERSION = 1, GRAPH = 7 };
    bool version = false, graph = false;
    for (uint64_t at = 0; at < size;) {
        unsigned char head[20];
        int64_t got = ot_read_at(fd, head, sizeof head, (int64_t)at);
        uint64_t v[2] = { 0 };
        int n = 0;
        if (got <= 0) return got < 0 ? -1 : 0;
        for (int k = 0; k < 2; k++) { /* the tag; the number or length after it */
            int shift = 0;
            do {
                if (n >= got || shift > 63) return 0;
                v[k] |= (uint64_t)(head[n] & 0x7F) << shift;
                shift += 7;
            } while (head[n++] & 0x80);
            if (k == 0 && (v[0] & 7) != 0 && (v[0] & 7) != 2) break;
        }
        unsigned wire = v[0] & 7;
        if (v[0] < 8 || (wire != 0 && wire != 1 && wire != 2 && wire != 5)) return 0;
        uint64_t body = wire == 2 ? v[1] : wire == 1 ? 8 : wire == 5 ? 4 : 0;
        version |= v[0] == (IR_VERSION << 3);
        graph |= v[0] == (GRAPH << 3 | 2);
        if (body > size - at - (uint64_t)n) return 0;
        at += (uint64_t)n + body;
    }
    return version && graph;
}
