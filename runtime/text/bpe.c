/* bpe.c - byte pair encoding of a word, from its bytes or its characters: of all neighbours the pair of the lowest rank is merged, the leftmost first,
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

static bool add_symbol(ot_bpe *m, int32_t id)
{
    if (m->n == INT32_MAX / 4 || !make_room(m, (size_t)m->n + 1)) return false;
    m->symbol[m->n] = (struct ot_symbol){ id, m->n - 1, m->n + 1 };
    m->n++;
    return true;
}

/* The n bytes of a character with what is put around it, in m->piece or as they are. */
static bool dress(ot_bpe *m, const char **p, size_t *n, bool is_first, bool is_last)
{
    bool front = m->prefix_n && !is_first, behind = m->suffix_n && is_last;
    if (!front && !behind) return true;
    m->piece.n = 0;
    if (front && !ot_buffer_add(&m->piece, m->prefix, m->prefix_n)) return false;
    if (!ot_buffer_add(&m->piece, *p, *n) || (behind && !ot_buffer_add(&m->piece, m->suffix, m->suffix_n)))
        return false;
    *p = m->piece.p;
    *n = m->piece.n;
    return true;
}

static bool has_bytes(const ot_bpe *m, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (m->byte[(unsigned char)p[i]] < 0) return false;
    return true;
}

/* The characters of a word as symbols; unknown ones wait, so that those in a row become one. */
static bool begin_word(ot_bpe *m, const ot_string_table *vocab, const char *p, size_t n)
{
    bool waiting = false, plain = m->by_byte && !m->prefix_n && !m->suffix_n;
    m->n = 0;
    for (size_t i = 0, k; i < n; i += k) {
        k = m->by_byte ? 1 : ot_character(p + i, n - i);
        const char *q = p + i;
        size_t size = k;
        if (!dress(m, &q, &size, i == 0, i + k == n)) return false;
        int32_t id = plain ? m->byte[(unsigned char)*q] : ot_string_table_get(vocab, q, size);
        if (id >= 0) {
            if (waiting && !add_symbol(m, m->unknown)) return false;
            waiting = false;
            if (!add_symbol(m, id)) return false;
        } else if (m->fallback && has_bytes(m, q, size)) {
            for (size_t b = 0; b < size; b++)
                if (!add_symbol(m, m->byte[(unsigned char)q[b]])) return false;
        } else if (m->unknown >= 0) {
            if (waiting && !m->fuse && !add_symbol(m, m->unknown)) return false;
            waiting = true;
        }
    }
    return !waiting || add_symbol(m, m->unknown);
}

bool ot_bpe_word(ot_bpe *m, const ot_string_table *vocab, const char *p, size_t n, ot_ids *out)
{
    int32_t whole = m->whole ? ot_string_table_get(vocab, p, n) : -1;
    size_t waiting = 0;
    if (whole >= 0) return ot_ids_add(out, whole);
    if (!make_room(m, n < INT32_MAX / 4 ? n : 0) || !begin_word(m, vocab, p, n)) return false;
    if (!m->n) return true;
    m->symbol[m->n - 1].after = -1;
    for (int32_t i = 0; i + 1 < m->n; i++) offer(m, &waiting, i);
    while (waiting) merge(m, &waiting, pop(m->heap, &waiting));
    for (int32_t i = 0; i >= 0; i = m->symbol[i].after)
        if (!ot_ids_add(out, m->symbol[i].id)) return false;
    return true;
}
