/* stream.c - reads bytes in order from a file, plain, gzip or Zstandard.
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
#ifdef OT_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

/* Deflate expands by at most 1032; a block of Zstandard of 4 bytes is 128 KiB at most. */
enum { DEFLATE_MOST = 1032, ZSTD_MOST = 32768, BUFFER = 256 << 10 };

#define REASON(number) strerror_r((number), (char[128]){0}, 128)

typedef struct file {
    int fd;
    int64_t at; /* the next byte of the file */
    bool gzip;
    bool within; /* a gzip member or a frame of Zstandard; a file may have several */
    z_stream z;  /* of Zstandard: the packed bytes alone */
#ifdef OT_HAVE_ZSTD
    ZSTD_DStream *zstd;
#endif
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

#ifdef OT_HAVE_ZSTD
static int64_t read_zstd(ot_stream *s, void *p, int64_t n, ot_error *err)
{
    file *x = s->state;
    ZSTD_outBuffer out = { p, (size_t)n, 0 };
    while (out.pos < out.size) {
        if (!x->z.avail_in && refill(s, x, err)) return -1;
        ZSTD_inBuffer in = { x->z.next_in, x->z.avail_in, 0 };
        size_t before = out.pos;
        if (!in.size && !x->within) break;
        size_t code = ZSTD_decompressStream(x->zstd, &out, &in);
        x->z.next_in += in.pos;
        x->z.avail_in -= (unsigned)in.pos;
        if (ZSTD_isError(code)) {
            bool memory = ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation;
            ot_fail(err, memory ? OT_E_NOMEM : OT_E_DATA,
                    memory ? "%s: no memory to unpack it (%s)" : "%s: the compressed data is damaged (%s)", s->name,
                    ZSTD_getErrorName(code));
            return -1;
        }
        x->within = code > 0;
        if (!in.size && out.pos == before && x->within) {
            ot_fail(err, OT_E_DATA, "%s: the compressed data is damaged (it is truncated)", s->name);
            return -1;
        }
    }
    return (int64_t)out.pos;
}

static bool zstd_start(ot_stream *s, file *x)
{
    s->read = read_zstd;
    return (x->zstd = ZSTD_createDStream()) != NULL;
}

static void zstd_end(file *x) { ZSTD_freeDStream(x->zstd); }
#else
static bool zstd_start(ot_stream *s, file *x)
{
    (void)s, (void)x;
    return false;
}

static void zstd_end(file *x) { (void)x; }
#endif

/* How a file is packed, by its first bytes. */
typedef enum packing { UNPACKED, GZIP, ZSTANDARD } packing;

static packing packing_of(const unsigned char head[4])
{
    static const unsigned char zstd[4] = { 0x28, 0xB5, 0x2F, 0xFD };
    return !memcmp(head, zstd, 4) ? ZSTANDARD : head[0] == 0x1F && head[1] == 0x8B ? GZIP : UNPACKED;
}

static bool start(ot_stream *s, file *x, packing how)
{
    s->read = how == GZIP ? read_gzip : read_plain;
    if (how == UNPACKED) return true;
    if (!(x->buffer = malloc(BUFFER))) return false;
    if (how == ZSTANDARD) return zstd_start(s, x);
    return x->gzip = inflateInit2(&x->z, 16 + MAX_WBITS) == Z_OK;
}

/* Takes ownership of fd. */
static ot_status open_file(ot_stream *s, int fd, packing how, ot_error *err)
{
    file *x = calloc(1, sizeof *x);
    if (!x || !start(s, x, how)) {
        if (x) free(x->buffer);
        free(x);
        return ot_fail(err, OT_E_NOMEM, "%s: no memory to read it", s->name);
    }
    x->fd = fd;
    s->state = x;
    return OT_OK;
}

static ot_status examine(ot_stream *s, int fd, ot_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", s->name, REASON(errno));
    if (!S_ISREG(st.st_mode))
        return ot_fail(err, OT_E_IO, "%s: is %s", s->name,
                       S_ISDIR(st.st_mode) ? "a folder; expected a file"
                                           : "not a regular file; write what a pipe has into a file first");
    unsigned char head[4] = { 0 };
    int64_t got = ot_read_at(fd, head, 4, 0), size = st.st_size;
    packing how = packing_of(head);
    if (got < 0) return ot_fail(err, ot_failed_call(errno), "%s: cannot be read: %s", s->name, REASON(errno));
#ifndef OT_HAVE_ZSTD
    if (how == ZSTANDARD)
        return ot_fail(
            err, OT_E_DATA,
            "%s: is compressed with Zstandard, which this program was built without: decompress it first, or "
            "build with libzstd-dev",
            s->name);
#endif
    if (how && !ot_mul(size, how == GZIP ? DEFLATE_MOST : ZSTD_MOST, &size)) size = INT64_MAX;
    s->most = size;
    s->packed = how ? st.st_size : 0;
    return open_file(s, fd, how, err);
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
    zstd_end(x);
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
