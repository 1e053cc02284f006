/* bpe.c - byte-level byte pair encoding of a word: of all neighbours the pair of the lowest rank is merged, the leftmost first,
 * until none is left.
 *
 * Source  Sennrich, Haddow, Birch: Neural Machine Translation of Rare Words with Subword Units (2016); with a heap instead of
 *         a search for each merge, so that a word of any length takes n log n steps. */
#include <stdlib.h>

#include "runtime/text/internal.h"

struct ot_symbol {
    int32_t id; /* -1: merged into its left neighbour */
    int32_t before, after;
};

struct ot_merge {
    int32_t rank, at; /* of the left one */
    int32_t left, right, made;
};

bool ot_ids_add(ot_ids *out, int32_t id)
{
    if (out->n == out->room) {
        int64_t room = 2 * out->room + 64;
        int32_t *wide = realloc(out->id, (size_t)room * sizeof *wide);
        if (!wide) return false;
        out->id = wide;
        out->room = room;
    }
    out->id[out->n++] = id;
    return true;
}

static bool first(const struct ot_merge *a, const struct ot_merge *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(struct ot_merge *heap, size_t *n, struct ot_merge x)
{
    size_t i = (*n)++;
    for (; i && first(&x, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
}

static struct ot_merge pop(struct ot_merge *heap, size_t *n)
{
    struct ot_merge top = heap[0], x = heap[--*n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < *n; i = k) {
        k += k + 1 < *n && first(&heap[k + 1], &heap[k]);
        if (!first(&heap[k], &x)) break;
        heap[i] = heap[k];
    }
    heap[i] = x;
    return top;
}

static bool make_room(ot_bpe *m, size_t n)
{
    if (n <= m->room) return true;
    size_t room = 2 * n;
    struct ot_symbol *s = realloc(m->symbol, room * sizeof *s);
    if (s) m->symbol = s;
    struct ot_merge *h = realloc(m->heap, 3 * room * sizeof *h); /* a merge leaves at most two new ones */
    if (h) m->heap = h;
    if (s && h) m->room = room;
    return s && h;
}

static void offer(ot_bpe *m, size_t *n, int32_t at)
{
    const struct ot_symbol *s = &m->symbol[at];
    if (at < 0 || s->after < 0) return;
    const struct ot_pair *p = ot_pairs_get(&m->merges, s->id, m->symbol[s->after].id);
    if (p) push(m->heap, n, (struct ot_merge){ p->rank, at, s->id, m->symbol[s->after].id, p->made });
}

static void merge(ot_bpe *m, size_t *n, struct ot_merge x)
{
    struct ot_symbol *s = &m->symbol[x.at], *r;
    if (s->id != x.left || s->after < 0 || (r = &m->symbol[s->after])->id != x.right) return; /* no longer there */
    s->id = x.made;
    r->id = -1;
    s->after = r->after;
    if (s->after >= 0) m->symbol[s->after].before = x.at;
    if (s->before >= 0) offer(m, n, s->before);
    offer(m, n, x.at);
}

bool ot_bpe_word(ot_bpe *m, const ot_string_table *vocab, const char *p, size_t n, ot_ids *out)
{
    int32_t whole = m->whole ? ot_string_table_get(vocab, p, n) : -1;
    if (whole >= 0) return ot_ids_add(out, whole);
    if (n > INT32_MAX / 4 || !make_room(m, n)) return false;
    int32_t count = 0;
    size_t waiting = 0;
    for (size_t i = 0; i < n; i++) { /* bytes that are no token are skipped */
        int32_t id = m->byte[(unsigned char)p[i]];
        if (id < 0) continue;
        m->symbol[count] = (struct ot_symbol){ id, count - 1, count + 1 };
        count++;
    }
    if (!count) return true;
    m->symbol[count - 1].after = -1;
    for (int32_t i = 0; i + 1 < count; i++) offer(m, &waiting, i);
    while (waiting) merge(m, &waiting, pop(m->heap, &waiting));
    for (int32_t i = 0; i >= 0; i = m->symbol[i].after)
        if (!ot_ids_add(out, m->symbol[i].id)) return false;
    return true;
}
