/* payload.c - keeps large tensors in memory once: in the messages, not also in the bytes of the file.
 *
 * The guard records where each large raw_data is in the file.  While the messages are unpacked, the pages of the
 * file's bytes that hold it are released as soon as the message has its copy (the copy is aligned, the file's bytes
 * are not).  The exporter reads the bytes of the file through ot_file_piece.
 *
 * Memory  At most one payload is in memory twice at a time.  A payload that cannot be recorded or released stays
 *         twice. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "importer/internal.h"

enum { SMALLEST = 1 << 16 }; /* bytes; smaller payloads stay in the file's bytes too */

void ot_payloads_add(ot_payloads *p, size_t at, size_t n)
{
    if (n < SMALLEST) return;
    if (p->n == p->cap) {
        size_t more = p->cap ? 2 * p->cap : 64;
        ot_payload *wider = realloc(p->list, more * sizeof *wider);
        if (!wider) return;
        p->list = wider;
        p->cap = more;
    }
    p->list[p->n++] = (ot_payload){ at, n, NULL };
}

/* The whole pages inside a payload, which is larger than several. */
static uint8_t *pages_of(const ot_payloads *p, const ot_payload *x, size_t *n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)(p->bytes + x->at) % page;
    size_t skip = before ? page - before : 0;
    *n = x->n > skip ? (x->n - skip) / page * page : 0;
    return p->bytes + x->at + skip;
}

/* Releases the pages of the payload that was unpacked last. */
static void release(ot_payloads *p)
{
    ot_payload *x = p->unpacked;
    size_t n;
    p->unpacked = NULL;
    if (!x) return;
    uint8_t *pages = pages_of(p, x, &n);
    bool same = !memcmp(p->bytes + x->at, x->copy, x->n);
    if (same && n && !madvise(pages, n, MADV_DONTNEED)) {
        p->released += n;
        return;
    }
    x->copy = NULL;
    if (!same) p->next = (size_t)(x - p->list); /* the block was for something else of that size */
}

void ot_payloads_alloc(ot_payloads *p, void *block, size_t n)
{
    if (n < SMALLEST) return;
    /* protobuf-c fills a block before it allocates the next.  It allocates in the order of the file, but does not
     * promise to: contents are compared before pages are released. */
    release(p);
    if (p->next == p->n || p->list[p->next].n != n) return;
    p->unpacked = &p->list[p->next++];
    p->unpacked->copy = block;
}

void ot_payloads_free(ot_payloads *p, const void *block, size_t n)
{
    if (n < SMALLEST) return;
    if (p->unpacked && p->unpacked->copy == block) {
        p->unpacked->copy = NULL;
        p->unpacked = NULL;
    }
    for (size_t i = 0; i < p->next; i++) {
        ot_payload *x = &p->list[i];
        if (x->copy != block) continue;
        memcpy(p->bytes + x->at, x->copy, x->n);
        pages_of(p, x, &n);
        p->released -= n;
        x->copy = NULL;
    }
}

void ot_payloads_end(ot_payloads *p)
{
    size_t n = 0;
    release(p);
    for (size_t i = 0; i < p->n; i++)
        if (p->list[i].copy) p->list[n++] = p->list[i];
    p->n = n;
}

const uint8_t *ot_file_piece(const ot_file *f, size_t at, size_t *n)
{
    const ot_payloads *p = &f->payloads;
    size_t low = 0, high = p->n; /* the first payload that ends behind `at` */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->list[mid].at + p->list[mid].n <= at) low = mid + 1;
        else high = mid;
    }
    const ot_payload *x = low < p->n ? &p->list[low] : NULL;
    bool inside = x && x->at <= at;
    size_t most = !x ? f->n - at : inside ? x->at + x->n - at : x->at - at;
    if (*n > most) *n = most;
    return inside ? x->copy + (at - x->at) : f->bytes + at;
}
