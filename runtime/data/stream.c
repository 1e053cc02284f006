/* stream.c - reads bytes in order from a file, plain or gzip.
 *
 * Does not use zlib's file functions, which lose data if a read is interrupted. */
#include "runtime/base/io.h"
#include "runtime/data/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

/* Deflate expands by at most 1032. */
enum { DEFLATE_MOST = 1032, BUFFER = 256 << 10 };

#define REASON(number) strerror_r((number), (char[128]){0}, 128)

typedef struct file {
    int fd;
    int64_t at; /* the next byte of the file */
    bool gzip;
    bool within; /* a gzip member; a file may have several */
    z_stream z;
    unsigned char *buffer; /* packed bytes */
} file;

static int64_t read_plain(ot_stream *s, void *p, int64_t n, ot_error *err)
{
    file *x = s->state;
    int64_t got = ot_read_at(x->fd, p, n, x->at);
    if (got < 0) ot_fail(err, ot_failed_call(errno), "%s: cannot be read: %s", s->name, REASON(errno));
    else x->at += got;
    return got;
}

/* Reads more packed bytes after the remaining ones, as many as fit. */
static ot_status refill(const ot_stream *s, file *x, ot_error *err)
{
    unsigned left = x->z.avail_in;
    if (left) memmove(x->buffer, x->z.next_in, left);
    int64_t got = ot_read_at(x->fd, x->buffer + left, BUFFER - left, x->at);
    if (got < 0) return ot_fail(err, ot_failed_call(errno), "%s: cannot be read: %s", s->name, REASON(errno));
    x->at += got;
    x->z.next_in = x->buffer;
    x->z.avail_in = left + (unsigned)got;
    return OT_OK;
}

/* Does another member follow, possibly truncated after its first byte?  Other bytes after the last member are
 * ignored. */
static bool next_member(file *x)
{
    const unsigned char *b = x->z.next_in;
    unsigned n = x->z.avail_in;
    x->within = n && b[0] == 0x1F && (n == 1 || b[1] == 0x8B) && inflateReset(&x->z) == Z_OK;
    return x->within;
}

static int64_t read_gzip(ot_stream *s, void *p, int64_t n, ot_error *err)
{
    file *x = s->state;
    int64_t done = 0;
    while (done < n) {
        unsigned want = n - done < 1 << 28 ? (unsigned)(n - done) : 1 << 28;
        if (x->z.avail_in < 2 && refill(s, x, err)) return -1;
        if (!x->within && !next_member(x)) break;
        bool more = x->z.avail_in > 0;
        x->z.next_out = (unsigned char *)p + done;
        x->z.avail_out = want;
        int code = inflate(&x->z, Z_NO_FLUSH);
        done += want - x->z.avail_out;
        x->within = code != Z_STREAM_END;
        if (code == Z_OK || code == Z_STREAM_END || (code == Z_BUF_ERROR && more)) continue;
        if (code == Z_MEM_ERROR) ot_fail(err, OT_E_NOMEM, "%s: no memory to unpack it", s->name);
        else
            ot_fail(err, OT_E_DATA, "%s: the compressed data is damaged (%s)", s->name,
                    code == Z_BUF_ERROR || !x->z.msg ? "it is truncated" : x->z.msg);
        return -1;
    }
    return done;
}

/* Takes ownership of fd. */
static ot_status open_file(ot_stream *s, int fd, bool gzip, ot_error *err)
{
    file *x = calloc(1, sizeof *x);
    bool made = x && (!gzip || ((x->buffer = malloc(BUFFER)) && inflateInit2(&x->z, 16 + MAX_WBITS) == Z_OK));
    if (!made) {
        if (x) free(x->buffer);
        free(x);
        return ot_fail(err, OT_E_NOMEM, "%s: no memory to read it", s->name);
    }
    x->fd = fd;
    x->gzip = gzip;
    s->state = x;
    s->read = gzip ? read_gzip : read_plain;
    return OT_OK;
}

static ot_status examine(ot_stream *s, int fd, ot_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", s->name, REASON(errno));
    if (!S_ISREG(st.st_mode))
        return ot_fail(err, OT_E_IO, "%s: is %s; expected a regular file", s->name,
                       S_ISDIR(st.st_mode) ? "a folder" : "not a regular file");
    unsigned char head[2] = { 0 };
    int64_t got = ot_read_at(fd, head, 2, 0), size = st.st_size;
    bool gzip = got == 2 && head[0] == 0x1F && head[1] == 0x8B;
    if (got < 0) return ot_fail(err, ot_failed_call(errno), "%s: cannot be read: %s", s->name, REASON(errno));
    if (gzip && !ot_mul(size, DEFLATE_MOST, &size)) size = INT64_MAX;
    s->most = size;
    s->packed = gzip ? st.st_size : 0;
    return open_file(s, fd, gzip, err);
}

ot_status ot_stream_open(ot_stream *s, const char *path, ot_error *err)
{
    *s = (ot_stream){ .name = path };
    /* O_NONBLOCK: a pipe is refused below; opening it must not block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ot_fail(err, ot_failed_call(errno), "%s: cannot be opened: %s", path, REASON(errno));
    ot_status status = examine(s, fd, err);
    if (status) close(fd);
    return status;
}

void ot_stream_close(ot_stream *s)
{
    file *x = s->state;
    if (!x) return;
    close(x->fd);
    if (x->gzip) inflateEnd(&x->z);
    free(x->buffer);
    free(x);
    s->state = NULL;
}

ot_status ot_stream_read(ot_stream *s, void *p, int64_t n, const char *what, ot_error *err)
{
    int64_t got = s->read(s, p, n, err);
    if (got < 0) return err ? err->status : OT_E_DATA;
    if (got < n)
        return ot_fail(err, OT_E_DATA, "%s: ends after %lld of %lld bytes of %s", s->name, (long long)got, (long long)n,
                       what);
    return OT_OK;
}

ot_status ot_stream_end(ot_stream *s, ot_error *err)
{
    char more;
    int64_t got = s->read(s, &more, 1, err);
    if (got < 0) return err ? err->status : OT_E_DATA;
    if (got) return ot_fail(err, OT_E_DATA, "%s: has more bytes than its header says", s->name);
    return OT_OK;
}
