/* arena.c - memory with one lifetime: many small pieces, freed together.
 *
 * Memory  Chunks come from calloc, so fresh pages of a large piece are zero without being touched.
 *         A piece larger than a quarter of a chunk gets a chunk of its own. */
#include "runtime/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 1 << 20 };

typedef struct chunk {
    struct chunk *next;
    unsigned char *at, *end; /* the unused part */
} chunk;

struct ot_arena {
    chunk *head; /* the chunk being filled, then older ones */
    size_t used;
    size_t next_size;
};

ot_arena *ot_arena_new(void)
{
    ot_arena *a = calloc(1, sizeof *a);
    if (a) a->next_size = FIRST_CHUNK;
    return a;
}

void ot_arena_free(ot_arena *a)
{
    if (!a) return;
    for (chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(a);
}

static chunk *chunk_new(size_t room)
{
    if (room > PTRDIFF_MAX - sizeof(chunk) - ALIGN) return NULL;
    size_t n = sizeof(chunk) + ALIGN + room;
    chunk *c = calloc(1, n);
    if (!c) return NULL;
    c->at = (unsigned char *)(c + 1);
    c->end = (unsigned char *)c + n;
    return c;
}

/* Allocates `n` bytes at a multiple of `align` (a power of two); NULL: c is full. */
static void *chunk_take(chunk *c, size_t n, size_t align)
{
    size_t gap = (align - (uintptr_t)c->at % align) % align;
    size_t room = (size_t)(c->end - c->at);
    if (gap > room || n > room - gap) return NULL;
    void *p = c->at + gap;
    c->at += gap + n;
    return p;
}

static void *take(ot_arena *a, size_t n, size_t align)
{
    if (n == 0) n = 1; /* an allocation of 0 bytes still has an address */
    void *p = a->head ? chunk_take(a->head, n, align) : NULL;
    if (!p) {
        bool own = n > a->next_size / 4;
        chunk *c = chunk_new(own ? n : a->next_size);
        if (!c) return NULL;
        if (own && a->head) { /* continue with the chunk that has space */
            c->next = a->head->next;
            a->head->next = c;
        } else {
            c->next = a->head;
            a->head = c;
        }
        if (!own && a->next_size < LARGEST_CHUNK) a->next_size *= 2;
        p = chunk_take(c, n, align);
    }
    a->used += (n + align - 1) / align * align;
    return p;
}

void *ot_arena_alloc(ot_arena *a, size_t n) { return take(a, n, ALIGN); }

void *ot_arena_struct(ot_arena *a, size_t n) { return take(a, n, _Alignof(max_align_t)); }

void *ot_arena_copy(ot_arena *a, const void *p, size_t n)
{
    void *q = take(a, n, ALIGN);
    if (q && n) memcpy(q, p, n);
    return q;
}

char *ot_arena_strdup(ot_arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *q = take(a, n, 1);
    if (q) memcpy(q, s, n);
    return q;
}

char *ot_arena_printf(ot_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *q = n < 0 ? NULL : take(a, (size_t)n + 1, 1);
    if (q) vsnprintf(q, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return q;
}

bool ot_arena_line(ot_arena *a, const char **lines, const char *fmt, va_list ap)
{
    char line[1024];
    ot_vtext(line, sizeof line, fmt, ap);
    const char *all = ot_arena_printf(a, "%s%s%s", *lines, **lines ? "\n" : "", line);
    if (all) *lines = all;
    return all;
}

const char *ot_arena_names(ot_arena *a, const char *const *name, int n)
{
    enum { MOST = 6 };
    const char *s = "";
    for (int i = 0; i < n && i < MOST && s; i++)
        s = ot_arena_printf(a, "%s%s'%s'", s, i ? ", " : "", *name[i] ? name[i] : "(unnamed)");
    return s && n > MOST ? ot_arena_printf(a, "%s and %d more", s, n - MOST) : s;
}

size_t ot_arena_used(const ot_arena *a) { return a->used; }
