/* registry.c - named choices of users, their keys, and checks of the keys' values. */
#include "runtime/base/registry.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

/* ---- names ------------------------------------------------------------------------------------ */

int ot_edit_distance(const char *a, const char *b, int limit)
{
    enum { MOST = 40 };
    size_t n = strlen(a), m = strlen(b);
    if (n > MOST || m > MOST) return limit + 1;

    int d[MOST + 1][MOST + 1];
    for (size_t i = 0; i <= n; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m] < limit + 1 ? d[n][m] : limit + 1;
}

const ot_entry *ot_registry_find(const ot_registry *r, const char *name)
{
    for (const ot_entry *const *e = r->entries; *e; e++)
        if (!strcmp((*e)->name, name)) return *e;
    return NULL;
}

const ot_key *ot_entry_key(const ot_entry *e, const char *name)
{
    for (const ot_key *k = e->keys; k && k->name; k++)
        if (!strcmp(k->name, name)) return k;
    return NULL;
}

const char *ot_registry_names(const ot_registry *r, ot_arena *a)
{
    const char *s = "";
    for (const ot_entry *const *e = r->entries; *e && s; e++)
        s = ot_arena_printf(a, "%s%s%s", s, *s ? ", " : "", (*e)->name);
    return s ? s : "";
}

const char *ot_entry_key_names(const ot_entry *e, ot_arena *a)
{
    const char *s = "";
    for (const ot_key *k = e->keys; k && k->name && s; k++) s = ot_arena_printf(a, "%s%s%s", s, *s ? " " : "", k->name);
    return s ? s : "";
}

ot_status ot_registry_unknown(const ot_registry *r, const char *what, const char *name, ot_arena *a, ot_error *err)
{
    const char *near = NULL;
    int best = 3;
    for (const ot_entry *const *e = r->entries; *e; e++) {
        int d = strcasecmp(name, (*e)->name) ? ot_edit_distance(name, (*e)->name, 2) : 0;
        if (d < best) best = d, near = (*e)->name;
    }
    if (near)
        return ot_fail(err, OT_E_USAGE, "unknown %s '%s'; did you mean '%s'? There are %s", what, name, near,
                       ot_registry_names(r, a));
    return ot_fail(err, OT_E_USAGE, "unknown %s '%s'; supported: %s", what, name, ot_registry_names(r, a));
}

/* ---- what was chosen -------------------------------------------------------------------------- */

const ot_param *ot_spec_find(const ot_spec *t, const char *key)
{
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->param[i].key, key)) return &t->param[i];
    return NULL;
}

const char *ot_spec_text(const ot_spec *t, const char *key)
{
    const ot_param *p = ot_spec_find(t, key);
    const ot_key *k = p || !t->entry ? NULL : ot_entry_key(t->entry, key);
    return p ? p->text : k ? k->dflt : NULL;
}

double ot_spec_num(const ot_spec *t, const char *key)
{
    const ot_param *p = ot_spec_find(t, key);
    if (p && !isnan(p->num)) return p->num;
    const ot_key *k = t->entry ? ot_entry_key(t->entry, key) : NULL;
    assert(k || !t->entry); /* callers that read a number have checked the keys */
    return k && k->dflt ? ot_key_number(k->dflt) : (double)NAN;
}

bool ot_spec_flag(const ot_spec *t, const char *key) { return ot_spec_num(t, key) == 1; }

bool ot_spec_shares(const ot_spec *a, const ot_spec *b)
{
    return a->output == b->output || (a->output && b->output && !strcmp(a->output, b->output));
}

bool ot_spec_is(const ot_spec *t, const char *key, const char *word)
{
    const char *text = ot_spec_text(t, key);
    return text && !strcmp(text, word);
}

/* ---- values ----------------------------------------------------------------------------------- */

double ot_key_number(const char *text)
{
    double v;
    if (!strcmp(text, "true") || !strcmp(text, "True")) return 1;
    if (!strcmp(text, "false") || !strcmp(text, "False")) return 0;
    return ot_number(text, &v) ? v : (double)NAN;
}

/* Is word one of the words, which are separated by blanks? */
static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; *p;) {
        size_t k = strcspn(p, " ");
        if (k == n && !memcmp(p, word, n)) return true;
        p += k;
        p += strspn(p, " ");
    }
    return false;
}

/* "mean sum" -> "mean or sum". */
static const char *alternatives(const char *words, ot_arena *a)
{
    const char *s = "";
    while (s && *words) {
        int n = (int)strcspn(words, " ");
        bool last = !words[n];
        s = ot_arena_printf(a, "%s%s%.*s", s, !*s ? "" : last ? " or " : ", ", n, words);
        words += n + !last;
    }
    return s;
}

static const char *range(const ot_key *k, ot_arena *a)
{
    if ((isinf(k->least) && isinf(k->most)) || k->least == -OT_KEY_EXACT) return "";
    char low[OT_NUMBER_TEXT], high[OT_NUMBER_TEXT];
    ot_number_text(k->least, low);
    ot_number_text(k->most, high);
    if (k->above && isfinite(k->most)) return ot_arena_printf(a, " above %s and at most %s", low, high);
    if (k->above) return ot_arena_printf(a, " above %s", low);
    if (isinf(k->most) || k->most == OT_KEY_EXACT) return ot_arena_printf(a, " of at least %s", low);
    if (k->below) return ot_arena_printf(a, " of at least %s and less than %s", low, high);
    return ot_arena_printf(a, " from %s to %s", low, high);
}

static const char *numbers_wanted(const ot_key *k, ot_arena *a)
{
    const char *of = range(k, a), *what = k->kind == OT_KEY_WHOLE ? "whole number" : "number";
    if (!of) return NULL;
    if (k->count == OT_KEY_ONE) return ot_arena_printf(a, "a %s%s", what, of);
    return ot_arena_printf(a, "%sa list of %ss%s%s, such as %s", k->count == OT_KEY_LIST ? "" : "a number or ", what,
                           of, k->count == OT_KEY_RISING ? " in ascending order" : "",
                           k->kind == OT_KEY_WHOLE ? "[8,15]" : "[1,2.5]");
}

const char *ot_key_wants(const ot_key *k, ot_arena *a)
{
    if (k->kind == OT_KEY_FLAG) return "true or false";
    if (k->kind == OT_KEY_WORD) return alternatives(k->words, a);
    if (k->kind == OT_KEY_OUTPUT) return "the name of an output";
    if (k->kind == OT_KEY_TEXT) return k->words;
    const char *numbers = numbers_wanted(k, a);
    return numbers && k->also ? ot_arena_printf(a, "%s, or %s", numbers, k->also) : numbers;
}

static bool number_fits(const ot_key *k, double v)
{
    if (!isfinite(v) || v < k->least || v > k->most) return false;
    if ((k->above && v == k->least) || (k->below && v == k->most)) return false;
    return k->kind != OT_KEY_WHOLE || v == floor(v);
}

bool ot_key_fits(const ot_key *k, const ot_param *p)
{
    if (!p->list) {
        if (k->also && !strcmp(p->text, k->also)) return true;
        if (k->kind == OT_KEY_WORD) return has_word(k->words, p->text);
        if (k->kind == OT_KEY_OUTPUT || k->kind == OT_KEY_TEXT) return true;
        if (k->kind == OT_KEY_FLAG) return p->num == 0 || p->num == 1;
        return k->count != OT_KEY_LIST && number_fits(k, p->num);
    }
    if (k->count == OT_KEY_ONE || !p->n) return false;
    for (int i = 0; i < p->n; i++) {
        if (!number_fits(k, p->list[i])) return false;
        if (k->count == OT_KEY_RISING && i && p->list[i] < p->list[i - 1]) return false;
    }
    return true;
}
