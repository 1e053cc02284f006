/* unigram.c - unigram models: the pieces of a text whose scores have the largest sum.
 *
 * Source    google/sentencepiece, unigram_model.cc (EncodeOptimized), which Hugging Face's tokenizers follow.
 * Numerics  Scores are added in f64, of SentencePiece's own models in f32 (`single`), so that ties and rounding are theirs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/internal.h"

/* The best way to the end of a prefix. */
typedef struct ot_ending {
    double score;
    int64_t from; /* -1: there is none yet */
    int32_t id;
} ending;

/* ---- pieces ----------------------------------------------------------------------------------------- */

int ot_piece_order(const void *a, const void *b)
{
    const ot_text_piece *x = a, *y = b;
    int c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

ot_piece_range ot_pieces_narrow(const ot_pieces *s, ot_piece_range r, uint32_t depth, unsigned char c)
{
    ot_piece_range out = r;
    for (int side = 0; side < 2; side++) {
        int32_t low = side ? out.low : r.low, high = r.high;
        while (low < high) {
            int32_t mid = low + (high - low) / 2;
            const ot_text_piece *q = &s->list[mid];
            int b = q->n > depth ? (unsigned char)q->p[depth] : -1;
            if (b < c + side) low = mid + 1;
            else high = mid;
        }
        if (side) out.high = low;
        else out.low = low;
    }
    return out;
}

int32_t ot_pieces_exact(const ot_pieces *s, ot_piece_range r, size_t n)
{
    return r.low < r.high && s->list[r.low].n == n ? s->list[r.low].id : -1;
}

/* ---- the best way ------------------------------------------------------------------------------------ */

/* Over the pieces that begin at byte `from`. */
static void extend(ot_unigram *u, const char *text, size_t size, size_t from)
{
    const char *p = text + from;
    size_t left = size - from, one = ot_character(p, left);
    bool single = false; /* a piece is the character alone */
    ot_piece_range r = { 0, u->pieces.n };
    double till = u->best[from].score;
    for (size_t n = 0; n < left && r.low < r.high;) {
        r = ot_pieces_narrow(&u->pieces, r, (uint32_t)n, (unsigned char)p[n]);
        n++;
        int32_t id = ot_pieces_exact(&u->pieces, r, n);
        if (id < 0 || u->score[id] == (double)-INFINITY) continue;
        double all = u->score[id] + till;
        ending *e = &u->best[from + n];
        if (e->from < 0 || all > e->score)
            *e = (ending){ .id = id, .score = u->single ? (double)(float)all : all, .from = (int64_t)from };
        single |= n == one;
    }
    ending *e = &u->best[from + one];
    double all = u->unknown_score + till;
    if (u->single) all = (double)(float)all;
    if (!single && (e->from < 0 || all > e->score))
        *e = (ending){ .id = u->unknown, .score = all, .from = (int64_t)from };
}

bool ot_unigram_run(ot_unigram *u, const char *text, size_t n, ot_piece_taker *take, void *user)
{
    if (n + 1 > u->room) {
        ending *wide = realloc(u->best, 2 * (n + 1) * sizeof *wide);
        if (!wide) return false;
        u->best = wide;
        u->room = 2 * (n + 1);
    }
    for (size_t i = 0; i <= n; i++) u->best[i] = (ending){ .id = -1, .from = -1 };
    for (size_t at = 0; at < n; at += ot_character(text + at, n - at)) extend(u, text, n, at);
    /* The way back, turned around: each ending on it learns where the next one is. */
    int64_t next = -1;
    for (int64_t at = (int64_t)n; at > 0;) {
        int64_t from = u->best[at].from;
        u->best[at].from = next;
        next = at;
        at = from;
    }
    for (int64_t from = 0; next > 0;) {
        if (!take(user, u->best[next].id, text + from, (size_t)(next - from))) return false;
        from = next;
        next = u->best[next].from;
    }
    return true;
}
