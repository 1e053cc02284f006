/* tar.c - lists the files of a tar archive by its headers, and reads them where they lie.
 *
 * Spec    Blocks of 512 bytes: a header with its checksum, the content, padded; a block of zeros ends the archive.  Names
 *         that are too long for a header stand in a member before it: 'L' (GNU) or records of 'x' (pax: path, size).
 * Source  POSIX.1-2017 pax; the GNU tar manual, "Basic Tar Format". */
#include "runtime/base/io.h"
#include "runtime/data/members.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAR_BLOCK = 512, LONGEST = 1 << 16, CHUNK = 64 * TAR_BLOCK };

typedef struct tar {
    ot_members *m;
    int64_t size, at; /* of the file; of the next header */
    int64_t first, n; /* what of the file is in chunk */
    uint8_t chunk[CHUNK];
    char *name;      /* of the next member, from those before it; NULL: its header has it */
    int64_t content; /* likewise its size; -1 */
    ot_error *err;
} tar;

static ot_status damaged(const tar *t, const char *what)
{
    return ot_fail(t->err, OT_E_DATA, "%s: the archive is damaged at byte %lld: %s", t->m->path, (long long)t->at,
                   what);
}

static ot_status unreadable(const ot_members *m, int64_t got, ot_error *err)
{
    return ot_fail(err, OT_E_IO, "%s: %s%s", m->path,
                   got < 0 ? "cannot be read: " : "the file shrank while it was read",
                   got < 0 ? strerror_r(errno, (char[128]){ 0 }, 128) : "");
}

/* The block at t->at; small members share one read. */
static ot_status block(tar *t, const uint8_t **out)
{
    if (t->size - t->at < TAR_BLOCK) return damaged(t, "it is truncated");
    if (t->at < t->first || t->at + TAR_BLOCK > t->first + t->n) {
        int64_t want = t->size - t->at < CHUNK ? t->size - t->at : CHUNK;
        t->first = t->at;
        t->n = ot_read_at(t->m->fd, t->chunk, want, t->at);
        if (t->n < TAR_BLOCK) return unreadable(t->m, t->n, t->err);
    }
    *out = t->chunk + (t->at - t->first);
    return OT_OK;
}

/* Octal digits, or a binary number marked by the top bit; -1: neither. */
static int64_t number(const uint8_t *p, int n)
{
    int64_t v = 0;
    int i = 0;
    if (*p & 0x80) {
        if (*p & 0x7f) return -1;
        for (i = 1; i < n; i++) {
            if (v >> 54) return -1;
            v = v << 8 | p[i];
        }
        return v;
    }
    while (i < n && p[i] == ' ') i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) v = v << 3 | (p[i] - '0');
    return i == n || !p[i] || p[i] == ' ' ? v : -1;
}

static bool is_header(const uint8_t *b)
{
    int64_t sum = 8 * ' ';
    for (int i = 0; i < TAR_BLOCK; i++)
        if (i < 148 || i >= 156) sum += b[i];
    return sum == number(b + 148, 8);
}

static bool is_zero(const uint8_t *b)
{
    for (int i = 0; i < TAR_BLOCK; i++)
        if (b[i]) return false;
    return true;
}

/* The text of a member that describes the next one, malloc'ed. */
static ot_status read_text(tar *t, int64_t size, char **out)
{
    if (size > LONGEST) return damaged(t, "a name is too long");
    char *p = calloc(1, (size_t)size + 1);
    *out = p;
    if (!p) return ot_fail(t->err, OT_E_NOMEM, "%s: no memory for a name", t->m->path);
    int64_t got = ot_read_at(t->m->fd, p, size, t->at + TAR_BLOCK);
    return got == size ? OT_OK : unreadable(t->m, got, t->err);
}

/* Records "length key=value\n". */
static ot_status read_pax(tar *t, char *text, int64_t size)
{
    for (char *p = text, *end = text + size; p < end && *p;) {
        char *rest;
        long n = strtol(p, &rest, 10);
        if (n < 5 || n > end - p || *rest != ' ' || p[n - 1] != '\n')
            return damaged(t, "an extended header is invalid");
        char *key = rest + 1, *value = memchr(key, '=', (size_t)(p + n - key));
        if (!value) return damaged(t, "an extended header is invalid");
        *value++ = p[n - 1] = '\0';
        if (!strcmp(key, "path")) {
            free(t->name);
            if (!(t->name = strdup(value))) return ot_fail(t->err, OT_E_NOMEM, "%s: no memory for a name", t->m->path);
        }
        if (!strcmp(key, "size")) {
            t->content = strtoll(value, &rest, 10);
            if (t->content < 0 || *rest) return damaged(t, "an extended header is invalid");
        }
        if (!strncmp(key, "GNU.sparse", 10)) return damaged(t, "sparse files are not supported");
        p += n;
    }
    return OT_OK;
}

static ot_status describe_next(tar *t, char type, int64_t size)
{
    char *text = NULL;
    ot_status s = read_text(t, size, &text);
    if (!s && type == 'x') s = read_pax(t, text, size);
    if (s || type == 'x') {
        free(text);
        return s;
    }
    free(t->name);
    t->name = text;
    return OT_OK;
}

static size_t part(const uint8_t *p, size_t most) { return strnlen((const char *)p, most); }

static ot_status add(tar *t, const uint8_t *b, int64_t size)
{
    char own[260], type = (char)b[156], *name = t->name;
    if (!name) {
        size_t n = 0, prefix = memcmp(b + 257, "ustar", 6) ? 0 : part(b + 345, 155);
        if (prefix) memcpy(own, b + 345, prefix), own[prefix] = '/', n = prefix + 1;
        memcpy(own + n, b, part(b, 100));
        own[n + part(b, 100)] = '\0';
        name = own;
    }
    while (name[0] == '.' && name[1] == '/') name += 2;
    size_t n = strlen(name);
    if (!n || !strcmp(name, ".")) return OT_OK;
    if (type == '1' || type == '2')
        return ot_fail(t->err, OT_E_DATA,
                       "%s/%s: is a link; pack the files themselves (tar --dereference --hard-dereference)", t->m->path,
                       name);
    if (type == '5' || name[n - 1] == '/') {
        while (n && name[n - 1] == '/') name[--n] = '\0';
        name[n] = '/';
        return n ? ot_members_add(t->m, name, n + 1, &(ot_packed_file){ .size = -1, .packed = -1 }, t->err) : OT_OK;
    }
    if (type && type != '0' && type != '7') return OT_OK; /* pipes, devices, labels */
    return ot_members_add(t->m, name, n, &(ot_packed_file){ .size = size, .at = t->at + TAR_BLOCK, .packed = -1 },
                          t->err);
}

static ot_status list(tar *t)
{
    for (;;) {
        const uint8_t *b = NULL;
        OT_TRY(block(t, &b));
        if (is_zero(b)) return OT_OK;
        if (!is_header(b)) return damaged(t, "a header is invalid");
        char type = (char)b[156];
        int64_t size = number(b + 124, 12);
        bool describes = type == 'L' || type == 'x' || type == 'K' || type == 'g';
        if (!describes && t->content >= 0) size = t->content;
        if (type == '5' || type == '1' || type == '2') size = 0;
        if (size < 0) return damaged(t, "a size is invalid");
        if (size > t->size - t->at - TAR_BLOCK) return damaged(t, "a file is truncated");
        if (type == 'S') return damaged(t, "sparse files are not supported");
        if (type == 'L' || type == 'x') OT_TRY(describe_next(t, type, size));
        if (!describes) {
            OT_TRY(add(t, b, size));
            free(t->name);
            t->name = NULL;
            t->content = -1;
        }
        t->at += TAR_BLOCK + (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    }
}

static ot_status read_member(const ot_members *m, const ot_packed_file *f, uint8_t *to, ot_error *err)
{
    int64_t got = ot_read_at(m->fd, to, f->size, f->at);
    return got == f->size ? OT_OK : unreadable(m, got, err);
}

ot_status ot_members_tar(const char *path, ot_members **out, ot_error *err)
{
    struct stat st;
    *out = NULL;
    tar *t = calloc(1, sizeof *t);
    ot_members *m = t ? ot_members_new(path) : NULL;
    if (!m) {
        free(t);
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    }
    t->m = m;
    t->err = err;
    t->content = -1;
    m->read = read_member;
    m->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ot_status s = OT_OK;
    if (m->fd < 0 || fstat(m->fd, &st))
        s = ot_fail(err, OT_E_IO, "%s: cannot be opened: %s", path, strerror_r(errno, (char[128]){ 0 }, 128));
    else t->size = st.st_size;
    if (!s) s = list(t);
    if (!s) s = ot_members_sort(m, err);
    free(t->name);
    free(t);
    if (s) ot_members_free(m);
    else *out = m;
    return s;
}
