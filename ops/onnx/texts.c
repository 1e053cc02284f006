/* texts.c - StringConcat, StringSplit, StringNormalizer, RegexFullMatch: functions of strings that are known while
 * planning.
 *
 * Spec    ai.onnx StringConcat 20, StringSplit 20, StringNormalizer 10, RegexFullMatch 20.
 * Shapes  StringConcat: a, b broadcast;  y
 *         StringSplit: x;  y: (x.., most parts), padded with "";  parts: of x
 *         StringNormalizer: x: (C) or (1, C);  y: the words other than stop words, or one "" if none remains
 *         RegexFullMatch: x;  y: bool
 * Grad    none: strings have none
 *
 * Only ASCII letters change their case, whatever the locale.  Regular expressions are POSIX's with RE2's classes (\\d
 * \\w \\s, in brackets too), groups without a number and lazy repetition, which does not affect full matches. */
#include "ops/kernels/move.h"

#include <ctype.h>
#include <regex.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The elements of input i; NULL: unknown, error recorded. */
static const char *const *texts(const ot_node *n, int i, ot_error *err)
{
    if (ot_is_const(n->in[i])) return n->in[i]->data;
    ot_node_fail(n, err, "input %d ('%s') must be known before the run", i, n->in[i]->name);
    return NULL;
}

/* Makes output i a constant and returns its bytes, zeroed.  NULL: error recorded. */
static void *make(ot_node *n, int i, ot_dtype t, const ot_shape *s, ot_error *err)
{
    if (!ot_shape_fits(s, t)) {
        ot_node_fail(n, err, "the result is too large");
        return NULL;
    }
    void *p = ot_node_alloc(n, ot_bytes(s, t) + 1);
    if (!p || !n->out[i]) return p;
    ot_set(n->out[i], t, s);
    n->out[i]->data = p;
    n->out[i]->role = OT_CONST;
    return p;
}

/* The first n bytes of s. */
static const char *part(ot_node *node, const char *s, size_t n)
{
    char *p = ot_node_alloc(node, n + 1);
    if (p && n) memcpy(p, s, n);
    return p;
}

static void lower(ot_build *b)
{
    for (int i = 0; i < b->node->n_out && !ot_broken(b); i++) {
        ot_value *y = b->node->out[i];
        if (!y) continue;
        ot_value *c = ot_graph_value(b->graph, y->name, OT_CONST, y->dtype, &y->shape);
        if (c) c->data = y->data;
        ot_yield(b, i, c);
    }
}

#define TEXTS(op, version, least, most, results, rows, size, rule)                                                     \
    const ot_op ot_op_##op = {                                                                                         \
        .name = #op, .types = { .in = "s" }, .since = version, .in = { least, most }, .out = { 1, results },           \
        .nondiff = 3, .attrs = rows, .attr_size = size, .infer = rule, .lower = lower,               \
        .grad_zero = "strings have no gradient",                                                                      \
    }

/* ---- StringConcat -------------------------------------------------------------- */

static int64_t offset_of(const ot_shape *x, const ot_shape *y, int64_t k)
{
    int64_t own[OT_MAX_RANK], at = 0;
    int gap = y->rank - x->rank;
    ot_strides(x, own);
    for (int d = y->rank - 1; d >= 0; k /= y->dim[d--])
        if (d >= gap && x->dim[d - gap] != 1) at += k % y->dim[d] * own[d - gap];
    return at;
}

static ot_status concat_infer(ot_node *n, ot_error *err)
{
    const char *const *a = texts(n, 0, err), *const *b = a ? texts(n, 1, err) : NULL;
    ot_shape y;
    if (!b) return OT_E_MODEL;
    if (!ot_broadcast(&n->in[0]->shape, &n->in[1]->shape, &y))
        return ot_node_fail(n, err, "its inputs do not broadcast");
    const char **out = make(n, 0, OT_STRING, &y, err);
    for (int64_t k = 0; out && k < ot_numel(&y); k++) {
        const char *s = a[offset_of(&n->in[0]->shape, &y, k)], *t = b[offset_of(&n->in[1]->shape, &y, k)];
        char *both = ot_node_alloc(n, strlen(s) + strlen(t) + 1);
        if (!both) return OT_E_NOMEM;
        memcpy(both, s, strlen(s));
        memcpy(both + strlen(s), t, strlen(t));
        out[k] = both;
    }
    return out ? OT_OK : OT_E_MODEL;
}

TEXTS(StringConcat, 20, 2, 2, 1, NULL, 0, concat_infer);

/* ---- StringSplit ---------------------------------------------------------------- */

typedef struct split_attrs {
    const char *delimiter;
    int64_t maxsplit;
} split_attrs;

static const ot_attr split_rows[] = {
    { "delimiter", OT_TEXT, offsetof(split_attrs, delimiter), 0, NULL },
    { "maxsplit", OT_INT, offsetof(split_attrs, maxsplit), 0, NULL },
    { 0 },
};

/* The next part of *s and its length; *s moves past it.  With white space as separator empty parts are skipped.
 * false: there is none. */
static bool next_part(const char **s, const split_attrs *a, int64_t before, const char **from, size_t *length)
{
    const char *by = a->delimiter && *a->delimiter ? a->delimiter : NULL, *end;
    if (!*s) return false;
    if (!by) *s += strspn(*s, " \t\n\v\f\r");
    if (!by && !**s) return false;
    *from = *s;
    bool last = a->maxsplit > 0 && before >= a->maxsplit;
    if (by) end = last ? NULL : strstr(*s, by);
    else end = last ? NULL : *s + strcspn(*s, " \t\n\v\f\r");
    *length = end ? (size_t)(end - *s) : strlen(*s);
    *s = end ? end + (by ? strlen(by) : 0) : NULL;
    return true;
}

static ot_status split_infer(ot_node *n, ot_error *err)
{
    const char *const *x = texts(n, 0, err), *s, *from;
    const split_attrs *a = n->attrs;
    ot_shape y = n->in[0]->shape;
    size_t length;
    int64_t all = ot_numel(&y), most = 0;
    if (!x) return OT_E_MODEL;
    if (y.rank == OT_MAX_RANK)
        return ot_node_fail(n, err, "x has rank %d; the output would have too many axes", y.rank);
    int64_t *counts = n->n_out > 1 ? make(n, 1, OT_I64, &y, err) : ot_node_alloc(n, (size_t)(all + 1) * sizeof *counts);
    for (int64_t i = 0; counts && i < all; i++) {
        for (s = x[i]; next_part(&s, a, counts[i], &from, &length); counts[i]++) {
        }
        if (counts[i] > most) most = counts[i];
    }
    y.dim[y.rank++] = most;
    const char **out = counts ? make(n, 0, OT_STRING, &y, err) : NULL;
    for (int64_t i = 0; out && i < all; i++) {
        int64_t k = 0;
        for (s = x[i]; next_part(&s, a, k, &from, &length); k++)
            if (!(out[i * most + k] = part(n, from, length))) return OT_E_NOMEM;
        for (; k < most; k++) out[i * most + k] = "";
    }
    return out ? OT_OK : OT_E_MODEL;
}

TEXTS(StringSplit, 20, 1, 1, 2, split_rows, sizeof(split_attrs), split_infer);

/* ---- StringNormalizer ------------------------------------------------------------ */

typedef struct normalizer_attrs {
    int64_t change, sensitive;
    const char *locale;
    ot_strings stop;
} normalizer_attrs;

static const char *const changes[] = { "NONE", "LOWER", "UPPER", NULL };

static const ot_attr normalizer_rows[] = {
    { "case_change_action", OT_ENUM, offsetof(normalizer_attrs, change), 0, changes },
    { "is_case_sensitive", OT_INT, offsetof(normalizer_attrs, sensitive), 0, NULL },
    { "locale", OT_TEXT, offsetof(normalizer_attrs, locale), 0, NULL },
    { "stopwords", OT_TEXTS, offsetof(normalizer_attrs, stop), 0, NULL },
    { 0 },
};

static bool same_letters(const char *a, const char *b, bool sensitive)
{
    for (; *a && *b; a++, b++) {
        char c = *a, d = *b;
        if (!sensitive && c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        if (!sensitive && d >= 'A' && d <= 'Z') d = (char)(d - 'A' + 'a');
        if (c != d) return false;
    }
    return *a == *b;
}

static ot_status normalizer_infer(ot_node *n, ot_error *err)
{
    const normalizer_attrs *a = n->attrs;
    const char *const *x = texts(n, 0, err);
    ot_shape y = n->in[0]->shape;
    int64_t all, kept = 0;
    if (!x) return OT_E_MODEL;
    if (y.rank < 1 || y.rank > 2 || (y.rank == 2 && y.dim[0] != 1))
        return ot_node_fail(n, err,
                            "x must be a list or a matrix of one "
                            "row");
    all = ot_numel(&y);
    const char **list = ot_node_alloc(n, (size_t)(all + 1) * sizeof *list);
    for (int64_t i = 0; list && i < all; i++) {
        bool stops = false;
        for (int k = 0; k < a->stop.n && !stops; k++) stops = same_letters(x[i], a->stop.v[k], a->sensitive);
        if (stops) continue;
        char *s = ot_node_alloc(n, strlen(x[i]) + 1);
        if (!s) return OT_E_NOMEM;
        for (size_t k = 0; x[i][k]; k++) {
            char c = x[i][k];
            if (a->change == 1 && c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
            if (a->change == 2 && c >= 'a' && c <= 'z') c = (char)(c - 'a' + 'A');
            s[k] = c;
        }
        list[kept++] = s;
    }
    if (list && !kept) list[kept++] = "";
    y.dim[y.rank - 1] = kept;
    const char **out = list ? make(n, 0, OT_STRING, &y, err) : NULL;
    if (out) memcpy(out, list, (size_t)kept * sizeof *out);
    return out ? OT_OK : OT_E_MODEL;
}

TEXTS(StringNormalizer, 10, 1, 1, 1, normalizer_rows, sizeof(normalizer_attrs), normalizer_infer);

/* ---- RegexFullMatch ---------------------------------------------------------------- */

typedef struct regex_attrs {
    const char *pattern;
} regex_attrs;

static const ot_attr regex_rows[] = {
    { "pattern", OT_TEXT, offsetof(regex_attrs, pattern), 0, NULL },
    { 0 },
};

/* The class that \c means in brackets; NULL: the character itself. */
static const char *class_of(char c)
{
    switch (c) {
    case 'd': return "[:digit:]";
    case 'w': return "[:alnum:]_";
    case 's': return "[:space:]";
    default: return NULL;
    }
}

/* Parses [...] at *p as in POSIX: ] first and - last.  false: unterminated, or not expressible in POSIX. */
static bool brackets(const char **p, char **out)
{
    char *o = *out;
    bool minus = false, first = true, closing = false;
    char *at;
    *o++ = *(*p)++;
    if (**p == '^') *o++ = *(*p)++;
    for (at = o; **p && (first || **p != ']'); first = false) {
        if (!strncmp(*p, "[:", 2)) {
            const char *end = strstr(*p, ":]");
            if (!end) return false;
            while (*p < end + 2) *o++ = *(*p)++;
            continue;
        }
        if (**p == '\\') {
            char c = *++*p;
            const char *known = class_of(c);
            if (!c || (isalnum((unsigned char)c) && !known)) return false;
            if (known) o = stpcpy(o, known);
            else if (c == '-') minus = true;
            else if (c == ']') closing = true;
            else *o++ = c;
            ++*p;
            continue;
        }
        *o++ = *(*p)++;
    }
    if (closing) {
        memmove(at + 1, at, (size_t)(o - at));
        *at = ']';
        o++;
    }
    if (minus) *o++ = '-';
    if (**p != ']') return false;
    *o++ = *(*p)++;
    *out = o;
    return true;
}

/* Converts the pattern for regcomp to the buffer; false: it is not expressible in POSIX. */
static bool translate(const char *p, char *o)
{
    o = stpcpy(o, "^(");
    while (*p) {
        if (*p == '[') {
            if (!brackets(&p, &o)) return false;
        } else if (*p == '\\') {
            if (p[1] == 'd') o = stpcpy(o, "[0-9]");
            else if (p[1] == 'D') o = stpcpy(o, "[^0-9]");
            else if (!p[1] || (isalnum((unsigned char)p[1]) && !strchr("wWsSbB", p[1]))) return false;
            else *o++ = '\\', *o++ = p[1];
            p += 2;
        } else if (!strncmp(p, "(?", 2)) {
            if (p[2] != ':') return false;
            *o++ = '(';
            p += 3;
        } else if (strchr("*+?}", *p) && p[1] == '?') { /* as few as possible: equivalent for a full match */
            *o++ = *p;
            p += 2;
        } else {
            *o++ = *p++;
        }
    }
    strcpy(o, ")$");
    return true;
}

static ot_status regex_infer(ot_node *n, ot_error *err)
{
    const char *pattern = ((const regex_attrs *)n->attrs)->pattern;
    const char *const *x = texts(n, 0, err);
    regex_t r;
    if (!x) return OT_E_MODEL;
    if (!pattern) return ot_node_fail(n, err, "the pattern is missing");
    char *posix = ot_node_alloc(n, 10 * strlen(pattern) + 8);
    if (!posix) return OT_E_NOMEM;
    if (!translate(pattern, posix) || regcomp(&r, posix, REG_EXTENDED | REG_NOSUB))
        return ot_node_fail(n, err, "the pattern '%s' is not supported", pattern);
    uint8_t *y = make(n, 0, OT_BOOL, &n->in[0]->shape, err);
    for (int64_t i = 0, all = ot_numel(&n->in[0]->shape); y && i < all; i++) y[i] = !regexec(&r, x[i], 0, NULL, 0);
    regfree(&r);
    return y ? OT_OK : OT_E_MODEL;
}

TEXTS(RegexFullMatch, 20, 1, 1, 1, regex_rows, sizeof(regex_attrs), regex_infer);
