/* zip.c - members of a zip archive: found through its directory, read where they are.
 *
 * Spec    Members are stored or deflated, zip64 or not; they are found through the central directory, which must be
 *         right before the end record.  Refused: encrypted members, other methods, overlapping members, a local header
 *         that differs from the directory, split archives, and archives preceded by other bytes.
 * Memory  The declared size of a member, and of all together, is limited to what deflate could expand the whole file
 *         to: a forged directory is refused before memory is allocated.
 * Source  PKWARE's APPNOTE 6.3. */
#include "runtime/data/zip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEFLATE_MOST = 1032,
    BUFFER = 256 << 10,
    LOCAL = 30,
    CENTRAL = 46,
    END = 22,
    END64 = 56,
    LOCATOR64 = 20,
    MOST_COMMENT = 0xFFFF,
    MOST_NAME = 0xFFFF,
    ENCRYPTED = 1 | 1 << 6 | 1 << 13 /* bits of the flags: encrypted in any way */
};

static uint32_t u16(const unsigned char *b) { return b[0] | (uint32_t)b[1] << 8; }
static uint32_t u32(const unsigned char *b) { return u16(b) | u16(b + 2) << 16; }
static uint64_t u64(const unsigned char *b) { return u32(b) | (uint64_t)u32(b + 4) << 32; }

/* Reads exactly n bytes at offset `at`. */
static ot_status read_at(const ot_zip *z, const char *name, void *p, int64_t n, int64_t at)
{
    int64_t got = ot_read_at(z->fd, p, n, at);
    if (got == n) return OT_OK;
    return ot_fail(z->err, OT_E_IO, "%s%s%s: %s%s", z->path, *name ? ": " : "", name,
                   got < 0 ? "cannot be read: " : "the file shrank while it was read",
                   got < 0 ? strerror_r(errno, (char[128]){ 0 }, 128) : "");
}

static ot_status damaged(const ot_zip *z, const char *what)
{
    return ot_fail(z->err, OT_E_DATA, "%s: the archive is damaged: %s", z->path, what);
}

/* ---- one member's bytes ------------------------------------------------------------- */

static ot_status bad_member(const ot_zip_member *m, const char *what)
{
    return ot_fail(m->z->err, OT_E_DATA, "%s: %s: the archive is damaged: %s", m->z->path, m->name, what);
}

/* Up to n bytes; fewer only at the end of the compressed stream. */
static ot_status inflate_some(ot_zip_member *m, unsigned char *p, int64_t n, int64_t *made)
{
    z_stream *s = &m->stream;
    s->next_out = p;
    s->avail_out = (unsigned)n;
    while (s->avail_out && !m->ended) {
        if (!s->avail_in && m->left) {
            int64_t some = m->left < BUFFER ? m->left : BUFFER;
            OT_TRY(read_at(m->z, m->name, m->buffer, some, m->at));
            s->next_in = m->buffer;
            s->avail_in = (unsigned)some;
            m->at += some;
            m->left -= some;
        }
        int code = inflate(s, Z_SYNC_FLUSH);
        if (code == Z_MEM_ERROR)
            return ot_fail(m->z->err, OT_E_NOMEM, "%s: %s: no memory to unpack it", m->z->path, m->name);
        if (code != Z_OK && code != Z_STREAM_END) return bad_member(m, "the compressed data is invalid");
        m->ended = code == Z_STREAM_END;
    }
    *made = n - s->avail_out;
    return OT_OK;
}

/* All bytes have been returned: the stream must end here too, and the checksum must match. */
static ot_status member_end(ot_zip_member *m)
{
    unsigned char more;
    int64_t made = 0;
    if (m->part) return OT_OK;
    if (m->method == OT_ZIP_DEFLATED) OT_TRY(inflate_some(m, &more, 1, &made));
    if (made || m->left || m->stream.avail_in) return bad_member(m, "a member is larger than its directory entry says");
    return m->sum == m->crc ? OT_OK : bad_member(m, "a checksum is wrong");
}

int64_t ot_zip_read(ot_zip_member *m, void *p, int64_t n)
{
    int64_t done = 0;
    if (n > m->wanted) n = m->wanted;
    while (done < n) {
        int64_t some = n - done < 1 << 28 ? n - done : 1 << 28, made = some;
        unsigned char *to = (unsigned char *)p + done;
        if (m->method == OT_ZIP_DEFLATED ? inflate_some(m, to, some, &made) : read_at(m->z, m->name, to, some, m->at))
            return -1;
        if (made < some) {
            bad_member(m, "a member is smaller than its directory entry says");
            return -1;
        }
        if (m->method == OT_ZIP_STORED) m->at += some, m->left -= some;
        m->sum = (uint32_t)crc32_z(m->sum, to, (size_t)some);
        done += some;
    }
    m->wanted -= done;
    if (done && !m->wanted && member_end(m)) return -1;
    return done;
}

ot_status ot_zip_begin(ot_zip_member *m)
{
    if (m->method == OT_ZIP_STORED) return OT_OK;
    m->buffer = malloc(BUFFER);
    if (m->buffer && inflateInit2(&m->stream, -MAX_WBITS) == Z_OK) return OT_OK;
    free(m->buffer);
    m->buffer = NULL;
    return ot_fail(m->z->err, OT_E_NOMEM, "%s: %s: no memory to unpack it", m->z->path, m->name);
}

void ot_zip_end(ot_zip_member *m)
{
    if (m->buffer) inflateEnd(&m->stream);
    free(m->buffer);
    m->buffer = NULL;
}

/* ---- the directory ------------------------------------------------------------------ */

/* Reads the 64-bit extra field: those of size, packed size and offset that do not fit in 32 bits, in this order. */
static ot_status widen(const ot_zip_member *m, const unsigned char *extra, uint32_t n, uint64_t *field[3])
{
    for (uint32_t at = 0; at + 4 <= n;) {
        uint32_t id = u16(extra + at), len = u16(extra + at + 2), from = at + 4;
        if (len > n - from) return bad_member(m, "an extra field is truncated");
        for (int i = 0; id == 1 && i < 3; i++) {
            if (*field[i] != 0xFFFFFFFF) continue;
            if (from + 8 > at + 4 + len) return bad_member(m, "64-bit sizes are missing");
            *field[i] = u64(extra + from);
            from += 8;
        }
        if (id == 1) return OT_OK;
        at += 4 + len;
    }
    return OT_OK;
}

/* One entry of the directory, of which `left` bytes exist; *taken: its length.  text: room for its name. */
static ot_status read_entry(const ot_zip *z, const unsigned char *b, int64_t left, char *text, ot_zip_member *m,
                            int64_t *taken)
{
    if (left < CENTRAL || memcmp(b, "PK\1\2", 4)) return damaged(z, "the directory is truncated");
    uint32_t name = u16(b + 28), extra = u16(b + 30), flags = u16(b + 8);
    *taken = CENTRAL + (int64_t)name + extra + u16(b + 32);
    if (*taken > left) return damaged(z, "the directory is truncated");
    memcpy(text, b + CENTRAL, name);
    text[name] = '\0';
    uint64_t size = u32(b + 24), packed = u32(b + 20), header = u32(b + 42);
    *m = (ot_zip_member){ .z = z, .name = text, .length = name, .method = u16(b + 10), .crc = u32(b + 16) };
    if (memchr(text, 0, name)) return bad_member(m, "a name contains a zero byte");
    if (flags & ENCRYPTED)
        return ot_fail(z->err, OT_E_DATA, "%s: %s: is encrypted, which is not supported", z->path, m->name);
    if (m->method != OT_ZIP_STORED && m->method != OT_ZIP_DEFLATED)
        return ot_fail(z->err, OT_E_DATA,
                       "%s: %s: unsupported compression method %u%s; expected stored or deflated "
                       "members",
                       z->path, m->name, m->method,
                       m->method == 14   ? " (lzma)"
                       : m->method == 12 ? " (bzip2)"
                       : m->method == 93 ? " (zstd)"
                                         : "");
    OT_TRY(widen(m, b + CENTRAL + name, extra, (uint64_t *[]){ &size, &packed, &header }));
    if (header > INT64_MAX || packed > INT64_MAX || size > INT64_MAX)
        return bad_member(m, "the sizes of a member are "
                             "inconsistent or too large");
    m->header = (int64_t)header;
    m->packed = (int64_t)packed;
    m->size = (int64_t)size;
    return OT_OK;
}

/* Finds the member's bytes after its local header, which must agree with the directory; they must end before `end`. */
static ot_status find_bytes(ot_zip_member *m, const unsigned char *entry, int64_t end)
{
    unsigned char head[LOCAL], name[0xFFFF];
    if (m->header > end - LOCAL) return bad_member(m, "a member is outside the file");
    OT_TRY(read_at(m->z, m->name, head, LOCAL, m->header));
    uint32_t n = u16(head + 26);
    m->at = m->header + LOCAL + n + u16(head + 28);
    if (memcmp(head, "PK\3\4", 4) || u16(head + 6) & ENCRYPTED || u16(head + 8) != m->method || n != u16(entry + 28))
        return bad_member(m, "header and directory differ");
    if (m->at > end || m->packed > end - m->at) return bad_member(m, "a member is outside the file");
    OT_TRY(read_at(m->z, m->name, name, n, m->header + LOCAL));
    if (memcmp(name, entry + CENTRAL, n)) return bad_member(m, "header and directory differ");
    if (m->method == OT_ZIP_STORED && m->size != m->packed)
        return bad_member(m, "the sizes of a member are inconsistent or "
                             "too large");
    m->left = m->packed;
    m->wanted = m->size;
    return OT_OK;
}

/* Positions of members, to detect overlaps. */
typedef struct extent {
    int64_t from, to;
} extent;

static int by_place(const void *a, const void *b)
{
    int64_t x = ((const extent *)a)->from, y = ((const extent *)b)->from;
    return (x > y) - (x < y);
}

static ot_status each_member(const ot_zip *z, const unsigned char *b, int64_t n, int64_t count, int64_t end,
                             extent *place, char *text, ot_zip_function *f, void *user)
{
    int64_t budget, at = 0, taken = 0;
    if (!ot_mul(z->size, DEFLATE_MOST, &budget)) budget = INT64_MAX;
    for (int64_t k = 0; k < count; k++, at += taken) {
        ot_zip_member m = { 0 };
        OT_TRY(read_entry(z, b + at, n - at, text, &m, &taken));
        if (m.size > budget)
            return ot_fail(z->err, OT_E_DATA, "%s: %s: claims %lld bytes, more than the archive can contain", z->path,
                           m.name, (long long)m.size);
        budget -= m.size;
        OT_TRY(find_bytes(&m, b + at, end));
        place[k] = (extent){ m.header, m.at + m.packed };
        OT_TRY(f(user, &m));
    }
    if (at != n) return damaged(z, "the directory has more bytes than entries");
    qsort(place, (size_t)count, sizeof *place, by_place);
    for (int64_t k = 1; k < count; k++)
        if (place[k].from < place[k - 1].to) return damaged(z, "two members overlap");
    return OT_OK;
}

/* ---- the end of the file ------------------------------------------------------------- */

/* Contents of the end record: number of entries, and position of the directory. */
typedef struct tail {
    uint64_t count, size, offset;
    int64_t end; /* of the directory */
} tail;

/* The 64-bit end record, whose locator is right before the end record at offset `at`. */
static ot_status find_tail64(const ot_zip *z, int64_t at, tail *t)
{
    unsigned char b[END64], l[LOCATOR64];
    if (at < LOCATOR64 + END64) return damaged(z, "the 64-bit directory is missing");
    OT_TRY(read_at(z, "", l, LOCATOR64, at - LOCATOR64));
    if (memcmp(l, "PK\6\7", 4) || u32(l + 4) || u32(l + 16) > 1 || u64(l + 8) > (uint64_t)(at - LOCATOR64 - END64))
        return damaged(z, "the 64-bit directory is missing");
    OT_TRY(read_at(z, "", b, END64, (int64_t)u64(l + 8)));
    if (memcmp(b, "PK\6\6", 4) || u32(b + 16) || u32(b + 20) || u64(b + 24) != u64(b + 32))
        return damaged(z, "the 64-bit directory is missing");
    *t = (tail){ u64(b + 32), u64(b + 40), u64(b + 48), (int64_t)u64(l + 8) };
    return OT_OK;
}

static ot_status find_tail(const ot_zip *z, tail *t)
{
    int64_t n = z->size < END + MOST_COMMENT ? z->size : END + MOST_COMMENT, at = -1;
    unsigned char *b = malloc((size_t)n + 1);
    if (!b) return ot_fail(z->err, OT_E_NOMEM, "%s: no memory", z->path);
    ot_status s = read_at(z, "", b, n, z->size - n);
    for (int64_t i = n - END; i >= 0 && at < 0 && !s; i--)
        if (!memcmp(b + i, "PK\5\6", 4) && i + END + u16(b + i + 20) == n) at = i;
    if (!s && at < 0) {
        unsigned char head[2] = { 0 };
        bool gzip = z->size >= 2 && read_at(z, "", head, 2, 0) == OT_OK && head[0] == 0x1F && head[1] == 0x8B;
        s = gzip
                ? ot_fail(z->err, OT_E_DATA, "%s: is compressed with gzip as a whole; decompress it with gunzip",
                          z->path)
                : ot_fail(z->err, OT_E_DATA, "%s: is truncated or followed by other data: no directory found", z->path);
    }
    if (!s) {
        const unsigned char *e = b + at;
        bool wide = u16(e + 10) == 0xFFFF || u32(e + 12) == 0xFFFFFFFF || u32(e + 16) == 0xFFFFFFFF;
        wide = wide || (at >= LOCATOR64 && !memcmp(e - LOCATOR64, "PK\6\7", 4)); /* some write both records always */
        *t = (tail){ u16(e + 10), u32(e + 12), u32(e + 16), z->size - n + at };
        if (wide) s = find_tail64(z, t->end, t);
        else if (u16(e + 4) || u16(e + 6) || u16(e + 8) != u16(e + 10)) s = damaged(z, "it is one part of several");
    }
    free(b);
    return s;
}

ot_status ot_zip_each(const ot_zip *z, int64_t most, ot_zip_function *f, void *user)
{
    tail t = { 0 };
    OT_TRY(find_tail(z, &t));
    if (t.size > (uint64_t)t.end || t.offset != (uint64_t)t.end - t.size)
        return damaged(z, "the directory is not at its offset");
    if (t.count > (uint64_t)most)
        return ot_fail(z->err, OT_E_DATA, "%s: has more than %lld members", z->path, (long long)most);
    if (t.count > t.size / CENTRAL) return damaged(z, "the directory is truncated");
    unsigned char *b = malloc((size_t)t.size + 1);
    extent *place = malloc((size_t)(t.count + 1) * sizeof *place);
    char *text = malloc(MOST_NAME + 1);
    ot_status s = b && place && text ? read_at(z, "", b, (int64_t)t.size, (int64_t)t.offset)
                                     : ot_fail(z->err, OT_E_NOMEM, "%s: no memory", z->path);
    if (!s) s = each_member(z, b, (int64_t)t.size, (int64_t)t.count, (int64_t)t.offset, place, text, f, user);
    free(text);
    free(place);
    free(b);
    return s;
}

ot_status ot_zip_open(const char *path, ot_zip *z, ot_error *err)
{
    struct stat st;
    *z = (ot_zip){ .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .path = path, .err = err };
    if (z->fd >= 0 && !fstat(z->fd, &st) && S_ISREG(st.st_mode)) {
        z->size = st.st_size;
        return OT_OK;
    }
    ot_zip_close(z);
    return ot_fail(err, OT_E_IO, "%s: cannot be opened as a regular file", path);
}

void ot_zip_close(ot_zip *z)
{
    if (z->fd >= 0) close(z->fd);
    z->fd = -1;
}
