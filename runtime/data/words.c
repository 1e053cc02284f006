/* words.c - the distinct texts of a column, in a table of hashes. */
#include <stdlib.h>
#include <string.h>

#include "runtime/data/table.h"

enum { FIRST = 64 };

static size_t place(const ot_words *w, const char *text)
{
    size_t at = (size_t)ot_keyed_hash(&w->key, text, strlen(text)) & (w->slots - 1);
    while (w->slot[at] && strcmp(w->word[w->slot[at] - 1], text)) at = (at + 1) & (w->slots - 1);
    return at;
}

int ot_words_find(const ot_words *w, const char *text) { return w->slots ? w->slot[place(w, text)] - 1 : -1; }

static void number_all(ot_words *w)
{
    memset(w->slot, 0, w->slots * sizeof *w->slot);
    for (int i = 0; i < w->n; i++) w->slot[place(w, w->word[i])] = i + 1;
}

/* Twice the slots; half of them are filled at most.  The list of words grows with them. */
static ot_status grow(ot_words *w, ot_arena *a, const char *path, ot_error *err)
{
    size_t slots = w->slots ? 2 * w->slots : FIRST;
    if (!w->slots) w->key = ot_hash_key_new();
    int64_t need = (int64_t)(slots * (sizeof *w->slot + sizeof *w->word)) + w->bytes;
    bool fits = w->n < INT32_MAX / 2 && need <= ot_memory_available();
    int *slot = fits ? realloc(w->slot, slots * sizeof *slot) : NULL;
    if (slot) w->slot = slot;
    const char **word = slot ? ot_arena_struct(a, slots / 2 * sizeof *word) : NULL;
    if (!word) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the %d different strings of a column", path, w->n);
    if (w->n) memcpy(word, w->word, (size_t)w->n * sizeof *word);
    w->word = word;
    w->slots = slots;
    number_all(w);
    return OT_OK;
}

ot_status ot_words_add(ot_words *w, const char *text, int most, ot_arena *a, const char *path, ot_error *err)
{
    if (w->full || ot_words_find(w, text) >= 0) return OT_OK;
    if (w->n == most) {
        w->full = true;
        return OT_OK;
    }
    if ((size_t)w->n * 2 >= w->slots) OT_TRY(grow(w, a, path, err));
    size_t n = strlen(text) + 1;
    char *own = ot_arena_struct(a, n);
    if (!own) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the %d different strings of a column", path, w->n);
    memcpy(own, text, n);
    w->bytes += (int64_t)n;
    w->slot[place(w, own)] = w->n + 1;
    w->word[w->n++] = own;
    return OT_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* -12 or 0, but not 012: two such texts are one number only if they are equal. */
static bool is_whole(const char *text)
{
    size_t sign = *text == '-', digits = strspn(text + sign, "0123456789");
    return digits && !text[sign + digits] && (text[sign] != '0' || (digits == 1 && !sign));
}

/* Orders whole numbers, written as is_whole accepts them. */
static int by_number(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t n = strlen(x), m = strlen(y);
    if ((*x == '-') != (*y == '-')) return *x == '-' ? -1 : 1;
    int order = n != m ? (n < m ? -1 : 1) : strcmp(x, y);
    return *x == '-' ? -order : order;
}

void ot_words_sort(ot_words *w)
{
    bool whole = true;
    if (!w->n) return;
    for (int i = 0; i < w->n && whole; i++) whole = is_whole(w->word[i]);
    qsort(w->word, (size_t)w->n, sizeof *w->word, whole ? by_number : by_text);
    number_all(w);
}

void ot_words_free(ot_words *w)
{
    free(w->slot);
    w->slot = NULL;
    w->slots = 0;
}
