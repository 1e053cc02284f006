/* mutate_zip.c - members of an archive: one is changed, duplicated, renamed or removed, and the archive is written
 * again, stored, with correct sizes and checksums.
 *
 * Spec  APPNOTE of PKWARE, 4.3: local headers, central directory, its end; no zip64. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/fuzz/mutate.h"

enum { MOST_MEMBERS = 64, MOST_NAME = 64, MOST = 1 << 16 };

typedef struct member {
    char name[MOST_NAME];
    uint8_t *data; /* MOST bytes of room */
    size_t n_name, n;
} member;

typedef struct archive {
    member m[MOST_MEMBERS];
    int n;
} archive;

static unsigned u16(const uint8_t *p) { return (unsigned)p[0] | (unsigned)p[1] << 8; }
static unsigned u32(const uint8_t *p) { return u16(p) | u16(p + 2) << 16; }
static uint8_t *put(uint8_t *p, unsigned v, int bytes)
{
    for (int i = 0; i < bytes; i++) *p++ = (uint8_t)(v >> 8 * i);
    return p;
}

static void release(archive *a)
{
    for (int i = 0; i < a->n; i++) free(a->m[i].data);
}

static member *add(archive *a)
{
    if (a->n == MOST_MEMBERS) return NULL;
    member *m = &a->m[a->n];
    *m = (member){ .data = malloc(MOST) };
    if (!m->data) return NULL;
    a->n++;
    return m;
}

/* The bytes of a member, stored or deflated; false: neither, or broken. */
static bool take(member *m, unsigned method, const uint8_t *p, size_t n)
{
    if (method == 0) {
        m->n = n < MOST ? n : MOST;
        memcpy(m->data, p, m->n);
        return true;
    }
    z_stream z = {
        .next_in = (uint8_t *)(uintptr_t)p, .avail_in = (unsigned)n, .next_out = m->data, .avail_out = MOST
    };
    if (method != 8 || inflateInit2(&z, -15)) return false;
    int s = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    m->n = z.total_out;
    return s == Z_STREAM_END;
}

static bool read_archive(archive *a, const uint8_t *p, size_t n)
{
    for (size_t at = 0; at + 30 <= n && !memcmp(p + at, "PK\3\4", 4);) {
        const uint8_t *h = p + at;
        size_t n_name = u16(h + 26), skip = 30 + n_name + u16(h + 28), size = u32(h + 18);
        if (u16(h + 6) & 8 || skip > n - at || size > n - at - skip) break;
        member *m = add(a);
        if (!m) break;
        m->n_name = n_name < MOST_NAME ? n_name : MOST_NAME;
        memcpy(m->name, h + 30, m->n_name);
        if (!take(m, u16(h + 8), h + skip, size)) free(a->m[--a->n].data);
        at += skip + size;
    }
    return a->n > 0;
}

/* One header of a member: local (30 bytes) or central (46). */
static uint8_t *header(uint8_t *p, const member *m, const char *magic, unsigned offset)
{
    bool central = magic[2] == 1;
    unsigned crc = (unsigned)crc32(0, m->data, (unsigned)m->n);
    memcpy(p, magic, 4);
    p = put(p + 4, 20, 2);
    if (central) p = put(p, 20, 2);
    p = put(put(p, 0, 4), 0, 4); /* flags, method; time, date */
    p = put(put(put(p, crc, 4), (unsigned)m->n, 4), (unsigned)m->n, 4);
    p = put(put(p, (unsigned)m->n_name, 2), 0, 2);
    if (central) p = put(put(put(p, 0, 4), 0, 2), 0, 4), p = put(p, offset, 4);
    memcpy(p, m->name, m->n_name);
    return p + m->n_name;
}

static size_t write_archive(const archive *a, uint8_t *p, size_t most)
{
    size_t need = 22;
    unsigned offset[MOST_MEMBERS];
    for (int i = 0; i < a->n; i++) need += 76 + 2 * a->m[i].n_name + a->m[i].n;
    if (need > most) return 0;
    uint8_t *q = p;
    for (int i = 0; i < a->n; i++) {
        offset[i] = (unsigned)(q - p);
        q = header(q, &a->m[i], "PK\3\4", 0);
        memcpy(q, a->m[i].data, a->m[i].n);
        q += a->m[i].n;
    }
    unsigned start = (unsigned)(q - p);
    for (int i = 0; i < a->n; i++) q = header(q, &a->m[i], "PK\1\2", offset[i]);
    unsigned size = (unsigned)(q - p) - start;
    memcpy(q, "PK\5\6", 4);
    q = put(put(put(q + 4, 0, 4), (unsigned)a->n, 2), (unsigned)a->n, 2);
    q = put(put(put(q, size, 4), start, 4), 0, 2);
    return (size_t)(q - p);
}

/* A digit of the shape in an .npy header becomes another, the header keeps its length. */
static void change_shape(member *m)
{
    uint8_t *p = m->n > 10 ? memchr(m->data, '(', m->n < 256 ? m->n : 256) : NULL;
    size_t left = p ? (size_t)(m->data + m->n - p) : 0;
    for (size_t i = 0; i < left && p[i] != ')'; i++)
        if (p[i] >= '0' && p[i] <= '9' && mutate_chance(50)) p[i] = (uint8_t)('0' + mutate_below(10));
}

static void change(archive *a)
{
    member *m = &a->m[mutate_below((size_t)a->n)], *o = &a->m[mutate_below((size_t)a->n)];
    switch (mutate_below(10)) {
    case 0: m->n_name = mutate_bytes((uint8_t *)m->name, m->n_name, MOST_NAME); return;
    case 1: memcpy(m->name, o->name, MOST_NAME), m->n_name = o->n_name; return;
    case 2: memcpy(m->data, o->data, o->n), m->n = o->n; return;
    case 3:
        if (a->n > 1) free(m->data), *m = a->m[--a->n];
        return;
    case 4:
        o = add(a);
        if (!o || o == m) return;
        memcpy(o->data, m->data, m->n);
        o->n = m->n;
        o->n_name = mutate_bytes((uint8_t *)memcpy(o->name, m->name, MOST_NAME), m->n_name, MOST_NAME);
        return;
    case 5:
    case 6: change_shape(m); return;
    default: m->n = mutate_bytes(m->data, m->n, MOST); return;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t most, unsigned seed)
{
    archive a = { .n = 0 };
    size_t made = 0;
    mutate_seed(seed);
    if (mutate_chance(80) && read_archive(&a, p, n)) {
        change(&a);
        made = write_archive(&a, p, most);
    }
    release(&a);
    return made ? made : LLVMFuzzerMutate(p, n, most);
}
