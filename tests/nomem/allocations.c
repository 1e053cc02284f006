/* allocations.c - the linker redirects every allocation of our own objects to these functions; libraries keep theirs.
 *
 * Pieces of an arena count, too: where its chunks end is chance, so each piece may be the one that finds no chunk.
 * What the C library allocates on our behalf (streams, copies of text, locales) fails as it does, with ENOMEM; a stream
 * into memory is made here, so that its growth counts. */
#include "nomem.h"

#include <errno.h>
#include <execinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

enum { DEPTH = 12, DIFFERENT = 3, SLOTS = 1 << 16 };

static bool on, after, recording, failed;
static long asked, fail_at = -1;
static void *stack[DEPTH];
static int depth;
static uint64_t seen[SLOTS];
static long different[SLOTS], n_different;

/* ---- which one ------------------------------------------------------------------ */

static void remember(long number)
{
    void *at[DEPTH];
    uint64_t h = 1469598103934665603u;
    int n = backtrace(at, 2 + DIFFERENT);
    for (int i = 2; i < n; i++) h = (h ^ (uint64_t)(uintptr_t)at[i]) * 1099511628211u;
    for (uint64_t k = h;; k++) {
        uint64_t *s = &seen[k % SLOTS];
        if (*s == h) return;
        if (*s) continue;
        if (n_different == SLOTS / 2) fail_msg("more places than there is room for");
        *s = h;
        different[n_different++] = number;
        return;
    }
}

/* Loops of several threads allocate nothing, so a plain count is enough. */
static bool fails(void)
{
    if (!on) return false;
    long number = asked++;
    if (recording) remember(number);
    if (number != fail_at && !(after && fail_at >= 0 && number > fail_at)) return false;
    if (!failed) depth = backtrace(stack, DEPTH);
    failed = true;
    errno = ENOMEM;
    return true;
}

void allocations_begin(long at, bool and_after)
{
    fail_at = at;
    after = and_after;
    failed = false;
    asked = 0;
    recording = at < 0;
    if (recording) {
        memset(seen, 0, sizeof seen);
        n_different = 0;
    }
    on = true;
}

long allocations_end(void)
{
    on = false;
    return asked;
}

bool allocations_failed(void) { return failed; }

void allocations_show(void) { backtrace_symbols_fd(stack, depth, 2); }

long allocations_different(long **at)
{
    *at = different;
    return n_different;
}

/* ---- the calls --------------------------------------------------------------------- */

#define REPLACED(result, none, name, params, args)                  \
    result __real_##name params;                                    \
    result __wrap_##name params;                                    \
    result __wrap_##name params { return fails() ? none : __real_##name args; }

REPLACED(void *, NULL, malloc, (size_t n), (n))
REPLACED(void *, NULL, calloc, (size_t n, size_t m), (n, m))
REPLACED(void *, NULL, realloc, (void *p, size_t n), (p, n))
REPLACED(void *, NULL, aligned_alloc, (size_t a, size_t n), (a, n))
REPLACED(int, ENOMEM, posix_memalign, (void **p, size_t a, size_t n), (p, a, n))
REPLACED(char *, NULL, strdup, (const char *s), (s))
REPLACED(char *, NULL, strndup, (const char *s, size_t n), (s, n))
REPLACED(FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode))
REPLACED(FILE *, NULL, fdopen, (int fd, const char *mode), (fd, mode))
REPLACED(void *, NULL, fdopendir, (int fd), (fd))
REPLACED(char *, NULL, realpath, (const char *path, char *real), (path, real))
REPLACED(locale_t, (locale_t)0, newlocale, (int mask, const char *name, locale_t base), (mask, name, base))
REPLACED(void *, NULL, ot_arena_alloc, (ot_arena * a, size_t n), (a, n))
REPLACED(void *, NULL, ot_arena_struct, (ot_arena * a, size_t n), (a, n))
REPLACED(void *, NULL, ot_arena_copy, (ot_arena * a, const void *p, size_t n), (a, p, n))
REPLACED(char *, NULL, ot_arena_strdup, (ot_arena * a, const char *s), (a, s))

char *__wrap_ot_arena_printf(ot_arena *a, const char *fmt, ...) OT_PRINTF(2, 3);
char *__wrap_ot_arena_printf(ot_arena *a, const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    if (fails()) return NULL;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    char *copy = n < 0 ? NULL : __real_ot_arena_strdup(a, text);
    if (n >= 0) free(text);
    return copy;
}

int __wrap_asprintf(char **text, const char *fmt, ...) OT_PRINTF(2, 3);
int __wrap_asprintf(char **text, const char *fmt, ...)
{
    va_list ap;
    if (fails()) return -1;
    va_start(ap, fmt);
    int n = vasprintf(text, fmt, ap);
    va_end(ap);
    return n;
}

/* ---- streams into memory ------------------------------------------------------------ */

typedef struct stream {
    char **text;
    size_t *size, room;
} stream;

static ssize_t stream_write(void *cookie, const char *bytes, size_t n)
{
    stream *s = cookie;
    if (*s->size + n + 1 > s->room) {
        size_t room = 2 * (*s->size + n + 1);
        char *wide = fails() ? NULL : __real_realloc(*s->text, room);
        if (!wide) return 0;
        *s->text = wide;
        s->room = room;
    }
    memcpy(*s->text + *s->size, bytes, n);
    *s->size += n;
    (*s->text)[*s->size] = '\0';
    return (ssize_t)n;
}

static int stream_close(void *cookie)
{
    free(cookie);
    return 0;
}

FILE *__wrap_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size)
{
    stream *s = fails() ? NULL : __real_calloc(1, sizeof *s);
    if (!s) return NULL;
    *s = (stream){ .text = text, .size = size, .room = 1 };
    *text = __real_calloc(1, 1);
    *size = 0;
    FILE *f = fopencookie(s, "w", (cookie_io_functions_t){ .write = stream_write, .close = stream_close });
    if (f) setvbuf(f, NULL, _IONBF, 0); /* as it is there: what has no room is known to the call that writes it */
    return f;
}

/* ---- no waiting for the disk --------------------------------------------------------- */

/* The machine does not fail here; tests/calls makes these calls fail.  Thousands of files would wait for the disk for half of the time. */
int fsync(int fd);
int fsync(int fd)
{
    (void)fd;
    return 0;
}

int fdatasync(int fd);
int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

void allocations_open(void)
{
    void *warm[1];
    (void)backtrace(warm, 1); /* loads its library the first time */
    json_set_alloc_funcs(__wrap_malloc, free);
}
