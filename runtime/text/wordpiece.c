/* wordpiece.c - BERT's WordPiece of a word: the longest piece in the vocabulary, then the longest of what is left, with a
 * prefix. */
#include "runtime/text/internal.h"

static int64_t characters(const char *p, size_t n)
{
    int64_t k = 0;
    for (size_t i = 0; i < n; i++) k += (p[i] & 0xC0) != 0x80;
    return k;
}

/* The longest piece that begins at byte `from`; its end, or from: none. */
static size_t longest(ot_wordpiece *m, const ot_string_table *vocab, const char *p, size_t from, size_t n, int32_t *id,
                      bool *memory)
{
    for (size_t stop = n; stop > from; stop--) {
        if (stop < n && (p[stop] & 0xC0) == 0x80) continue;
        m->piece.n = 0;
        if ((from && !ot_buffer_add(&m->piece, m->prefix, m->prefix_n)) ||
            !ot_buffer_add(&m->piece, p + from, stop - from)) {
            *memory = false;
            return from;
        }
        *id = ot_string_table_get(vocab, m->piece.p, m->piece.n);
        if (*id >= 0) return stop;
    }
    return from;
}

bool ot_wordpiece_word(ot_wordpiece *m, const ot_string_table *vocab, const char *p, size_t n, ot_ids *out)
{
    int64_t began = out->n;
    bool memory = true;
    if (characters(p, n) > m->longest) return ot_ids_add(out, m->unknown);
    for (size_t from = 0, stop; from < n; from = stop) {
        int32_t id = -1;
        stop = longest(m, vocab, p, from, n, &id, &memory);
        if (!memory) return false;
        if (stop == from) { /* a word is known as a whole or not at all */
            out->n = began;
            return ot_ids_add(out, m->unknown);
        }
        if (!ot_ids_add(out, id)) return false;
    }
    return true;
}
