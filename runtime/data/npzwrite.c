/* npzwrite.c - writes arrays as .npz: a zip of stored members, the same bytes for the same arrays.
 *
 * Spec    PKWARE's APPNOTE 6.3: local header, data, central directory, end record; zip64 if a size, an offset or the
 *         count needs it.  UTF-8 names are flagged; data begins at a multiple of 64 bytes, so that a reader may map it.
 * Source  NumPy Enhancement Proposal 1 (the members). */
#include "runtime/base/io.h"
#include "runtime/data/data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

enum {
    LOCAL = 30,
    CENTRAL = 46,
    END = 22,
    END64 = 56,
    LOCATOR64 = 20,
    ALIGN = 64,
    PAD_ID = 0xD935, /* an extra field of zeros, as zipalign names it */
    NPY_ROOM = 512
};

typedef struct bytes {
    unsigned char *p;
} bytes;

static void put(bytes *b, uint64_t v, int size)
{
    for (int i = 0; i < size; i++) *b->p++ = (unsigned char)(v >> (8 * i));
}

typedef struct member {
    char *name;           /* owned */
    int64_t offset, size; /* of the local header; of header and elements */
    int64_t data_bytes;
    const void *data; /* the elements as written */
    uint32_t *points; /* of strings: malloc; else NULL */
    uint32_t crc;
    bool utf8;
    int npy_bytes;
    unsigned char npy[NPY_ROOM]; /* the .npy header */
} member;

static const char *code_of(ot_dtype t)
{
    switch (t) {
    case OT_F32: return "<f4";
    case OT_F64: return "<f8";
    case OT_F16: return "<f2";
    case OT_I8: return "|i1";
    case OT_I16: return "<i2";
    case OT_I32: return "<i4";
    case OT_I64: return "<i8";
    case OT_U16: return "<u2";
    case OT_U32: return "<u4";
    case OT_U64: return "<u8";
    case OT_BOOL: return "|b1";
    case OT_U8: return "|u1";
    case OT_BF16: return "<u2"; /* raw, as read from data sets */
    case OT_F8E4M3FN:
    case OT_F8E4M3FNUZ:
    case OT_F8E5M2:
    case OT_F8E5M2FNUZ:
    case OT_F8E8M0: return "|u1";
    default: return NULL;
    }
}

static bool is_ascii(const char *s)
{
    while (*s && (unsigned char)*s < 0x80) s++;
    return !*s;
}

/* "\x93NUMPY", version 1.0, and the dict, padded to a multiple of 64 bytes. */
static void make_header(member *m, const ot_tensor *t, const char *code)
{
    char dict[NPY_ROOM];
    int n = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", code);
    for (int i = 0; i < t->rank; i++)
        n += snprintf(dict + n, sizeof dict - (size_t)n, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    n += snprintf(dict + n, sizeof dict - (size_t)n, "%s), }", t->rank == 1 ? "," : "");
    m->npy_bytes = (10 + n + 1 + ALIGN - 1) / ALIGN * ALIGN;
    bytes b = { m->npy };
    memcpy(b.p, "\x93NUMPY\x01", 8); /* with the minor version's zero */
    b.p += 8;
    put(&b, (uint64_t)m->npy_bytes - 10, 2);
    memcpy(b.p, dict, (size_t)n);
    memset(b.p + n, ' ', (size_t)(m->npy_bytes - 10 - n));
    m->npy[m->npy_bytes - 1] = '\n';
}

/* The next code point of UTF-8; invalid bytes represent themselves. */
static uint32_t next_point(const unsigned char **p)
{
    const unsigned char *s = *p;
    int more = *s < 0xC0 ? 0 : *s < 0xE0 ? 1 : *s < 0xF0 ? 2 : *s < 0xF8 ? 3 : 0;
    uint32_t c = more ? *s & (0x3Fu >> more) : *s;
    for (int i = 1; i <= more; i++) {
        if (s[i] >> 6 != 2) { /* not a valid character */
            *p = s + 1;
            return *s;
        }
        c = c << 6 | (s[i] & 0x3F);
    }
    *p = s + more + 1;
    return c;
}

/* Strings as in numpy: the code points of each in four bytes, shorter ones padded with zeros. */
static ot_status make_points(member *m, const ot_tensor *t, int64_t n, int64_t *longest, const char *path,
                             ot_error *err)
{
    const char *const *text = t->data;
    int64_t all;
    *longest = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t length = 0;
        for (const unsigned char *p = (const unsigned char *)text[i]; *p; length++) (void)next_point(&p);
        if (length > *longest) *longest = length;
    }
    if (!ot_mul(n, *longest, &all) || !ot_mul(all, 4, &m->data_bytes) ||
        !(m->points = calloc((size_t)all + 1, sizeof *m->points)))
        return ot_fail(err, OT_E_NOMEM, "%s: no memory for the strings of '%s'", path, m->name);
    for (int64_t i = 0; i < n; i++) {
        uint32_t *to = m->points + i * *longest;
        for (const unsigned char *p = (const unsigned char *)text[i]; *p;) *to++ = next_point(&p);
    }
    m->data = m->points;
    return OT_OK;
}

static ot_status member_make(member *m, const ot_tensor *t, const char *path, ot_error *err)
{
    const char *name = t->name ? t->name : "";
    const char *code = code_of(t->dtype);
    ot_shape shape = { .rank = t->rank };
    *m = (member){ .utf8 = ot_is_utf8(name) && !is_ascii(name) };
    char points[32];
    if (!code && t->dtype != OT_STRING)
        return ot_fail(err, OT_E_DATA, "%s: array '%s' is %s, which .npy does not support", path, name,
                       ot_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) shape.dim[i] = t->dim[i];
    if (!ot_shape_known(&shape) || !ot_shape_fits(&shape, t->dtype))
        return ot_fail(err, OT_E_DATA, "%s: array '%s' has no shape that can be written", path, name);
    if (strlen(name) > 60000)
        return ot_fail(err, OT_E_DATA, "%s: the name of an array has %zu bytes; the limit is 60000", path,
                       strlen(name));
    m->data = t->data;
    m->data_bytes = (int64_t)ot_bytes(&shape, t->dtype);
    if (!(m->name = strdup(name))) return ot_fail(err, OT_E_NOMEM, "%s: no memory to write it", path);
    if (!code) {
        int64_t longest;
        OT_TRY(make_points(m, t, ot_numel(&shape), &longest, path, err));
        snprintf(points, sizeof points, "<U%lld", (long long)longest);
        code = points;
    }
    make_header(m, t, code);
    m->size = m->npy_bytes + m->data_bytes;
    m->crc = (uint32_t)crc32_z(0, m->npy, (size_t)m->npy_bytes);
    if (m->data_bytes) m->crc = (uint32_t)crc32_z(m->crc, m->data, (size_t)m->data_bytes);
    return OT_OK;
}

static const int64_t WIDE = 0xFFFFFFFE; /* larger sizes and offsets need zip64 */

/* The part that local and central header share, from "version needed" to the sizes. */
static void put_common(bytes *b, const member *m, bool wide)
{
    put(b, wide ? 45 : 20, 2);
    put(b, m->utf8 ? 0x800 : 0, 2);
    put(b, 0, 2);          /* stored */
    put(b, 0x00210000, 4); /* 1980-01-01 00:00: the same arrays give the same bytes */
    put(b, m->crc, 4);
    put(b, wide ? 0xFFFFFFFF : (uint64_t)m->size, 4);
    put(b, wide ? 0xFFFFFFFF : (uint64_t)m->size, 4);
}

static ot_status write_member(ot_replace *r, member *m, int64_t *at, ot_error *err)
{
    unsigned char head[LOCAL + 20 + 4 + ALIGN];
    const char *name = m->name;
    int64_t length = (int64_t)strlen(name) + 4;
    bool wide = m->size > WIDE;
    m->offset = *at;
    int64_t begin = *at + LOCAL + length + (wide ? 20 : 0) + 4;
    int64_t pad = (ALIGN - begin % ALIGN) % ALIGN;
    bytes b = { head };
    put(&b, 0x04034B50, 4);
    put_common(&b, m, wide);
    put(&b, (uint64_t)length, 2);
    put(&b, (uint64_t)((wide ? 20 : 0) + 4 + pad), 2);
    OT_TRY(ot_replace_write(r, head, (size_t)(b.p - head), err));
    OT_TRY(ot_replace_write(r, name, strlen(name), err));
    OT_TRY(ot_replace_write(r, ".npy", 4, err));
    b.p = head;
    if (wide) {
        put(&b, 1, 2);
        put(&b, 16, 2);
        put(&b, (uint64_t)m->size, 8);
        put(&b, (uint64_t)m->size, 8);
    }
    put(&b, PAD_ID, 2);
    put(&b, (uint64_t)pad, 2);
    memset(b.p, 0, (size_t)pad);
    b.p += pad;
    OT_TRY(ot_replace_write(r, head, (size_t)(b.p - head), err));
    OT_TRY(ot_replace_write(r, m->npy, (size_t)m->npy_bytes, err));
    OT_TRY(ot_replace_write(r, m->data, (size_t)m->data_bytes, err));
    *at = begin + pad + m->size;
    return OT_OK;
}

static ot_status write_central(ot_replace *r, const member *m, int64_t *at, ot_error *err)
{
    unsigned char head[CENTRAL + 28], extra[32];
    const char *name = m->name;
    bool wide = m->size > WIDE, far = m->offset > WIDE;
    bytes b = { head }, x = { extra };
    if (wide || far) {
        put(&x, 1, 2);
        put(&x, (wide ? 16u : 0) + (far ? 8u : 0), 2);
        if (wide) put(&x, (uint64_t)m->size, 8);
        if (wide) put(&x, (uint64_t)m->size, 8);
        if (far) put(&x, (uint64_t)m->offset, 8);
    }
    size_t more = (size_t)(x.p - extra), length = strlen(name) + 4;
    put(&b, 0x02014B50, 4);
    put(&b, 3 << 8 | 45, 2); /* made on Unix */
    put_common(&b, m, wide || far);
    if (far && !wide) { /* only the offset is in the extra field */
        b.p -= 8;
        put(&b, (uint64_t)m->size, 4);
        put(&b, (uint64_t)m->size, 4);
    }
    put(&b, length, 2);
    put(&b, more, 2);
    put(&b, 0, 6);                       /* no comment, disk 0, no attributes inside */
    put(&b, (uint64_t)0100644 << 16, 4); /* a regular file */
    put(&b, far ? 0xFFFFFFFF : (uint64_t)m->offset, 4);
    OT_TRY(ot_replace_write(r, head, (size_t)(b.p - head), err));
    OT_TRY(ot_replace_write(r, name, strlen(name), err));
    OT_TRY(ot_replace_write(r, ".npy", 4, err));
    OT_TRY(ot_replace_write(r, extra, more, err));
    *at += (int64_t)((size_t)(b.p - head) + length + more);
    return OT_OK;
}

static ot_status write_end(ot_replace *r, int n, int64_t begin, int64_t end, ot_error *err)
{
    unsigned char tail[END64 + LOCATOR64 + END];
    bytes b = { tail };
    uint64_t size = (uint64_t)(end - begin);
    bool wide = n >= 0xFFFF || end > WIDE;
    if (wide) {
        put(&b, 0x06064B50, 4);
        put(&b, END64 - 12, 8);
        put(&b, 3 << 8 | 45, 2);
        put(&b, 45, 2);
        put(&b, 0, 8); /* one disk */
        put(&b, (uint64_t)n, 8);
        put(&b, (uint64_t)n, 8);
        put(&b, size, 8);
        put(&b, (uint64_t)begin, 8);
        put(&b, 0x07064B50, 4);
        put(&b, 0, 4);
        put(&b, (uint64_t)end, 8);
        put(&b, 1, 4);
    }
    put(&b, 0x06054B50, 4);
    put(&b, 0, 4);
    put(&b, wide ? 0xFFFF : (uint64_t)n, 2);
    put(&b, wide ? 0xFFFF : (uint64_t)n, 2);
    put(&b, wide ? 0xFFFFFFFF : size, 4);
    put(&b, wide ? 0xFFFFFFFF : (uint64_t)begin, 4);
    put(&b, 0, 2);
    return ot_replace_write(r, tail, (size_t)(b.p - tail), err);
}

struct ot_npz {
    ot_replace *file;
    char *path; /* for messages */
    int64_t at; /* bytes written */
    int n, room;
    member *member;
};

static void release(ot_npz *z)
{
    for (int i = 0; i < z->n; i++) free(z->member[i].name);
    free(z->member);
    free(z->path);
    free(z);
}

ot_status ot_npz_begin(int folder, const char *path, ot_npz **out, ot_error *err)
{
    *out = NULL;
    ot_npz *z = calloc(1, sizeof *z);
    if (z) z->path = strdup(path);
    if (!z || !z->path) {
        free(z);
        return ot_fail(err, OT_E_NOMEM, "%s: no memory to write it", path);
    }
    ot_status s = ot_replace_begin_at(folder, path, &z->file, err);
    if (s) release(z);
    else *out = z;
    return s;
}

static ot_status grow(ot_npz *z, ot_error *err)
{
    if (z->n < z->room) return OT_OK;
    int room = z->room ? 2 * z->room : 64;
    member *m = realloc(z->member, (size_t)room * sizeof *m);
    if (!m) return ot_fail(err, OT_E_NOMEM, "%s: no memory to write it", z->path);
    z->member = m;
    z->room = room;
    return OT_OK;
}

ot_status ot_npz_add(ot_npz *z, const ot_tensor *t, ot_error *err)
{
    OT_TRY(grow(z, err));
    member *m = &z->member[z->n];
    ot_status s = member_make(m, t, z->path, err);
    if (!s) s = write_member(z->file, m, &z->at, err);
    free(m->points);
    m->points = NULL;
    m->data = NULL;
    if (m->name) z->n++;
    return s;
}

ot_status ot_npz_place(ot_npz *z, ot_error *err)
{
    int64_t begin = z->at;
    for (int i = 0; i < z->n; i++) OT_TRY(write_central(z->file, &z->member[i], &z->at, err));
    OT_TRY(write_end(z->file, z->n, begin, z->at, err));
    return ot_replace_place(z->file, err);
}

bool ot_npz_full(const ot_npz *z) { return ot_replace_full(z->file); }

void ot_npz_abort(ot_npz *z)
{
    if (!z) return;
    ot_replace_abort(z->file);
    release(z);
}

ot_status ot_npz_write(const char *path, const ot_tensor *t, int n, ot_error *err)
{
    ot_npz *z;
    OT_TRY(ot_npz_begin(AT_FDCWD, path, &z, err));
    ot_status s = OT_OK;
    for (int i = 0; i < n && !s; i++) s = ot_npz_add(z, &t[i], err);
    if (!s) s = ot_npz_place(z, err);
    ot_npz_abort(z);
    return s;
}
