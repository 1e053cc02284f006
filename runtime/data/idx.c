/* idx.c - reads the format of MNIST: a big-endian header, then elements.
 *
 * Spec    0, 0, type, rank; rank sizes of 32 bits; elements, in row-major order.
 * Source  Yann LeCun, Corinna Cortes, Christopher Burges: the MNIST database of handwritten digits. */
#include "runtime/data/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ot_dtype type_of(unsigned char code)
{
    switch (code) {
    case 0x08: return OT_U8;
    case 0x09: return OT_I8;
    case 0x0B: return OT_I16;
    case 0x0C: return OT_I32;
    case 0x0D: return OT_F32;
    case 0x0E: return OT_F64;
    default: return OT_UNDEFINED;
    }
}

/* Type and shape; *taken: bytes of the header. */
static ot_status read_header(ot_stream *s, ot_dtype *type, ot_shape *of, int64_t *taken, ot_error *err)
{
    unsigned char head[4], size[4 * OT_MAX_RANK];
    OT_TRY(ot_stream_read(s, head, sizeof head, "the header", err));
    ot_dtype t = type_of(head[2]);
    if (head[0] || head[1] || !t)
        return ot_fail(err, OT_E_DATA, "%s: is not an idx file: it starts with %02x %02x %02x %02x", s->name, head[0],
                       head[1], head[2], head[3]);
    ot_shape shape = { .rank = head[3] };
    if (shape.rank < 1 || shape.rank > OT_MAX_RANK)
        return ot_fail(err, OT_E_DATA, "%s: has rank %d, expected 1 to %d", s->name, shape.rank, OT_MAX_RANK);
    OT_TRY(ot_stream_read(s, size, 4 * shape.rank, "the header", err));
    for (int i = 0; i < shape.rank; i++) {
        const unsigned char *b = size + 4 * i;
        shape.dim[i] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
    }
    *type = t;
    *of = shape;
    *taken = 4 + 4 * shape.rank;
    return OT_OK;
}

static ot_status read_from(ot_stream *s, ot_dataset *d, ot_array *a, ot_error *err)
{
    ot_dtype t = OT_UNDEFINED;
    ot_shape shape = { 0 };
    int64_t taken = 0;
    OT_TRY(read_header(s, &t, &shape, &taken, err));
    OT_TRY(ot_array_alloc(d, a, t, &shape, s->most - taken, s->name, err));
    int64_t n = ot_array_elements(a);
    int each = ot_dtype_bits(t) / 8;
    OT_TRY(ot_stream_read(s, a->t.data, n * each, "the elements", err));
    OT_TRY(ot_stream_end(s, err));
    ot_swap_bytes(a->t.data, n, each);
    return OT_OK;
}

/* One idx file into array `a`. */
static ot_status read_idx(const char *path, ot_dataset *d, ot_array *a, ot_error *err)
{
    ot_stream s;
    OT_TRY(ot_dataset_note(d, path, err));
    OT_TRY(ot_stream_open(&s, path, err));
    ot_status status = read_from(&s, d, a, err);
    ot_stream_close(&s);
    return status;
}

/* Replaces the last occurrence of `from` in the file name; both have the same length. */
static bool rename_part(char *path, const char *from, const char *to)
{
    char *name = strrchr(path, '/'), *at = NULL;
    for (char *p = strstr(name ? name + 1 : path, from); p; p = strstr(p + 1, from)) at = p;
    if (at) memcpy(at, to, strlen(to));
    return at != NULL;
}

/* The labels beside the images: the same name, compressed or not.  NULL: not found. */
static ot_status labels_beside(ot_dataset *d, const char *images, char **labels, ot_error *err)
{
    char *path = ot_arena_printf(d->arena, "%s.gz", images);
    *labels = NULL;
    if (!path) return ot_fail(err, OT_E_NOMEM, "%s: no memory", images);
    if (!rename_part(path, "images", "labels")) return OT_OK;
    rename_part(path, "idx3", "idx1");
    size_t n = strlen(images);
    bool packed = n > 3 && !strcmp(images + n - 3, ".gz");
    path[n] = 0;
    if (access(path, F_OK) != 0) path[packed ? n - 3 : n] = packed ? 0 : '.';
    if (access(path, F_OK) == 0) *labels = path;
    return OT_OK;
}

/* Elements along the first axis, according to the header. */
static ot_status count_of(const char *path, int64_t *n, ot_error *err)
{
    ot_stream s;
    ot_dtype t;
    ot_shape shape = { 0 };
    int64_t taken;
    OT_TRY(ot_stream_open(&s, path, err));
    ot_status status = read_header(&s, &t, &shape, &taken, err);
    ot_stream_close(&s);
    *n = shape.dim[0];
    return status;
}

/* Unpacked data can be a thousand times as large: both headers are checked before either file is unpacked. */
static ot_status check_counts(const char *images, const char *labels, ot_error *err)
{
    int64_t x = 0, y = 0;
    OT_TRY(count_of(images, &x, err));
    OT_TRY(count_of(labels, &y, err));
    if (x != y)
        return ot_fail(err, OT_E_DATA, "%s: has %lld labels, but %s has %lld images", labels, (long long)y, images,
                       (long long)x);
    return OT_OK;
}

static ot_status read_labels(const char *path, ot_dataset *d, ot_error *err)
{
    ot_array *a = ot_dataset_add(d, "target");
    if (!a) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    a->role = OT_ARRAY_TARGET;
    return read_idx(path, d, a, err);
}

ot_status ot_idx_open(const char *path, ot_dataset *d, ot_error *err)
{
    char *labels;
    OT_TRY(labels_beside(d, path, &labels, err));
    ot_array *a = ot_dataset_add(d, "");
    if (!a) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    if (labels) OT_TRY(check_counts(path, labels, err));
    OT_TRY(read_idx(path, d, a, err));
    a->picture = a->t.dtype == OT_U8 && (a->t.rank == 3 || a->t.rank == 4);
    return labels ? read_labels(labels, d, err) : OT_OK;
}

/* The first usual spelling of the name that exists, in the arena; NULL: none. */
static ot_status find_part(ot_dataset *d, const char *folder, const char *prefix, const char *part, char **found,
                           ot_error *err)
{
    static const char *const end[] = { "", ".gz" };
    *found = NULL;
    for (int i = 0; i < 4 && !*found; i++) {
        char *path = ot_arena_printf(d->arena, "%s/%s-%s-ubyte%s", folder, prefix, part, end[i % 2]);
        if (!path) return ot_fail(err, OT_E_NOMEM, "%s: no memory", folder);
        if (i >= 2) rename_part(path, "s-idx", "s.idx");
        if (access(path, F_OK) == 0) *found = path;
    }
    return OT_OK;
}

ot_status ot_idx_folder(const char *folder, const char *prefix, ot_dataset *d, bool *found, ot_error *err)
{
    char *images, *labels;
    OT_TRY(find_part(d, folder, prefix, "images-idx3", &images, err));
    OT_TRY(find_part(d, folder, prefix, "labels-idx1", &labels, err));
    *found = images != NULL;
    if (!images) return OT_OK;
    if (!labels)
        return ot_fail(err, OT_E_DATA, "%s: the file of labels is missing; expected %s-labels-idx1-ubyte", images,
                       prefix);
    return ot_idx_open(images, d, err);
}
