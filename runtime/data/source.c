/* source.c - bytes in order from a file, plain or gzip. */
#include "runtime/base/io.h"
#include "runtime/data/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

/* Deflate makes at most 1032 bytes of one. */
enum { DEFLATE_MOST = 1032 };

#define REASON(number) strerror_r((number), (char[128]){0}, 128)

static int64_t gz_read(ot_source *s, void *p, int64_t n, ot_error *err)
{
    gzFile f = s->state;
    int64_t done = 0;
    while (done < n) {
        int64_t want = n - done < 1 << 28 ? n - done : 1 << 28;
        int got = gzread(f, (char *)p + done, (unsigned)want);
        int code = Z_OK;
        const char *text = gzerror(f, &code);
        if (got < 0 && code == Z_ERRNO) {
            if (errno == EINTR) {
                gzclearerr(f);
                continue;
            }
            ot_fail(err, OT_E_IO, "%s: cannot be read: %s", s->name, REASON(errno));
            return -1;
        }
        if (got < 0 || (got < want && code != Z_OK && code != Z_STREAM_END)) {
            ot_status e = code == Z_MEM_ERROR ? OT_E_NOMEM : OT_E_DATA;
            ot_fail(err, e, "%s: compressed data is damaged (%s)", s->name, text);
            return -1;
        }
        if (got == 0) break;
        done += got;
    }
    return done;
}

ot_status ot_source_open(ot_source *s, const char *path, ot_error *err)
{
    *s = (ot_source){.name = path, .read = gz_read};
    /* O_NONBLOCK: a pipe is refused below instead of waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ot_fail(err, OT_E_IO, "%s: cannot be opened: %s", path, REASON(errno));
    struct stat st;
    ot_status status = OT_OK;
    if (fstat(fd, &st)) {
        status = ot_fail(err, OT_E_IO, "%s: cannot be examined: %s", path, REASON(errno));
    } else if (!S_ISREG(st.st_mode)) {
        status = ot_fail(err, OT_E_IO, "%s: is %s; a regular file is needed", path,
                         S_ISDIR(st.st_mode) ? "a folder" : "no regular file");
    } else {
        unsigned char head[2] = {0};
        int64_t got = ot_read_at(fd, head, 2, 0), size = st.st_size;
        bool gzip = got == 2 && head[0] == 0x1F && head[1] == 0x8B;
        if (got < 0) status = ot_fail(err, OT_E_IO, "%s: cannot be read: %s", path, REASON(errno));
        if (gzip && !ot_mul(size, DEFLATE_MOST, &size)) size = INT64_MAX;
        s->most = size;
        s->packed = gzip ? st.st_size : 0;
        s->state = status ? NULL : gzdopen(fd, "rb");
        if (s->state) {
            fd = -1; /* closed with the stream */
            gzbuffer(s->state, 256 << 10);
        } else if (!status) {
            status = ot_fail(err, OT_E_NOMEM, "%s: no memory to read it", path);
        }
    }
    if (fd >= 0) close(fd);
    return status;
}

void ot_source_close(ot_source *s)
{
    if (s->state) gzclose(s->state);
    s->state = NULL;
}

ot_status ot_source_take(ot_source *s, void *p, int64_t n, const char *what, ot_error *err)
{
    int64_t got = s->read(s, p, n, err);
    if (got < 0) return err ? err->status : OT_E_DATA;
    if (got < n)
        return ot_fail(err, OT_E_DATA, "%s: ends after %lld of the %lld bytes of %s", s->name,
                       (long long)got, (long long)n, what);
    return OT_OK;
}

ot_status ot_source_end(ot_source *s, ot_error *err)
{
    char more;
    int64_t got = s->read(s, &more, 1, err);
    if (got < 0) return err ? err->status : OT_E_DATA;
    if (got) return ot_fail(err, OT_E_DATA, "%s: has more bytes than its header names", s->name);
    return OT_OK;
}
