/* cutter.c - cuts a normalised text into words: the pre-tokenizer of tokenizer.json as stages, of which each cuts the parts that
 * the one before it makes.
 *
 * Contract  A part goes through all stages before the next part is looked at, so no stage keeps a list. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/internal.h"

enum { MOST_STAGES = 8, DEEPEST = 4 };

typedef enum stage_kind { CUT, METASPACE, BYTE_LEVEL } stage_kind;
typedef enum matcher { BY_WORD, BY_CHARACTER, BY_TEXT, BY_REGEX } matcher;
typedef enum behavior { REMOVED, ISOLATED, CONTIGUOUS, WITH_PREVIOUS, WITH_NEXT } behavior;
typedef enum scheme { ALWAYS, FIRST, NEVER } scheme;

typedef struct stage {
    stage_kind kind;
    matcher matcher;
    behavior behavior;
    bool invert;
    ot_word word;                /* the end of what matches at a place; the place itself: nothing */
    bool (*belongs)(uint32_t c); /* characters that match */
    const char *text;            /* that matches, or what replaces a blank */
    size_t n;
    ot_regex *regex;
    scheme scheme; /* of what is put in front of a part */
    bool split;
    ot_buffer part;
} stage;

struct ot_cutter {
    ot_arena *a;
    const char *name;
    stage stage[MOST_STAGES];
    int n;
    bool bytes;
    ot_word_taker *take;
    void *user;
};

/* ---- reading ----------------------------------------------------------------------------------------- */

static ot_status no_memory(const ot_cutter *c, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", c->name);
}

static ot_status add(ot_cutter *c, stage s, ot_error *err)
{
    if (c->bytes) return ot_text_unsupported(c->name, "part of a pre-tokenizer:", "a part after ByteLevel", err);
    if (c->n == MOST_STAGES)
        return ot_fail(err, OT_E_DATA, "%s: its pre-tokenizer has more than %d parts", c->name, MOST_STAGES);
    c->stage[c->n++] = s;
    c->bytes = s.kind == BYTE_LEVEL;
    return OT_OK;
}

static ot_status read_behavior(const ot_cutter *c, const json_t *v, behavior *out, ot_error *err)
{
    static const char *const names[] = { "Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext" };
    const char *how = ot_config_text(v, "behavior");
    for (int i = 0; how && i < OT_LEN(names); i++)
        if (!strcmp(how, names[i])) return *out = (behavior)i, OT_OK;
    return ot_text_unsupported(c->name, "behavior of a pre-tokenizer:", how, err);
}

static ot_status read_split(ot_cutter *c, const json_t *v, ot_error *err)
{
    const json_t *pattern = json_object_get(v, "pattern");
    const char *regex = ot_config_text(pattern, "Regex"), *text = ot_config_text(pattern, "String");
    stage s = { .invert = ot_config_flag(v, "invert", false) };
    OT_TRY(read_behavior(c, v, &s.behavior, err));
    if ((!regex || !*regex) && (!text || !*text))
        return ot_fail(err, OT_E_DATA, "%s: a pre-tokenizer Split has no pattern", c->name);
    if (text) {
        s.matcher = BY_TEXT;
        s.text = ot_arena_strdup(c->a, text);
        s.n = strlen(text);
        return s.text ? add(c, s, err) : no_memory(c, err);
    }
    s.word = ot_pattern(regex);
    s.matcher = s.word ? BY_WORD : BY_REGEX;
    if (!s.word) {
        char *own = ot_arena_strdup(c->a, regex);
        if (!own) return no_memory(c, err);
        OT_TRY(ot_regex_new(own, c->name, c->a, &s.regex, err));
    }
    return add(c, s, err);
}

static ot_status read_metaspace(ot_cutter *c, const json_t *v, ot_error *err)
{
    static const char *const names[] = { "always", "first", "never" };
    const char *mark = ot_config_text(v, "replacement"), *how = ot_config_text(v, "prepend_scheme");
    stage s = { .kind = METASPACE, .split = ot_config_flag(v, "split", true) };
    /* Older files have add_prefix_space instead. */
    int scheme_at = ot_config_flag(v, "add_prefix_space", true) ? ALWAYS : NEVER;
    if (how)
        for (scheme_at = 0; scheme_at < OT_LEN(names) && strcmp(how, names[scheme_at]);) scheme_at++;
    if (scheme_at == OT_LEN(names)) return ot_text_unsupported(c->name, "prepend_scheme of Metaspace:", how, err);
    s.scheme = (scheme)scheme_at;
    s.text = ot_arena_strdup(c->a, mark && *mark ? mark : "\xE2\x96\x81");
    if (!s.text) return no_memory(c, err);
    s.n = strlen(s.text);
    if (ot_character(s.text, s.n) != s.n)
        return ot_fail(err, OT_E_DATA, "%s: the replacement of Metaspace is more than one character", c->name);
    return add(c, s, err);
}

static ot_status read_byte_level(ot_cutter *c, const json_t *v, ot_error *err)
{
    bool words = ot_config_flag(v, "use_regex", true);
    stage s = { .kind = BYTE_LEVEL,
                .word = words ? ot_word_gpt2 : NULL,
                .behavior = ISOLATED,
                .scheme = ot_config_flag(v, "add_prefix_space", true) ? ALWAYS : NEVER };
    return add(c, s, err);
}

static ot_status read_punctuation(ot_cutter *c, const json_t *v, ot_error *err)
{
    stage s = { .matcher = BY_CHARACTER, .belongs = ot_is_punctuation, .behavior = ISOLATED };
    if (ot_config_text(v, "behavior")) OT_TRY(read_behavior(c, v, &s.behavior, err));
    return add(c, s, err);
}

static ot_status read_delimiter(ot_cutter *c, const json_t *v, ot_error *err)
{
    const char *text = ot_config_text(v, "delimiter");
    stage s = { .matcher = BY_TEXT, .behavior = REMOVED, .text = text && *text ? ot_arena_strdup(c->a, text) : NULL };
    if (!text || !*text) return ot_fail(err, OT_E_DATA, "%s: a CharDelimiterSplit has no delimiter", c->name);
    s.n = strlen(text);
    return s.text ? add(c, s, err) : no_memory(c, err);
}

static ot_status read(ot_cutter *c, const json_t *v, int depth, ot_error *err)
{
    static const stage blanks = { .matcher = BY_CHARACTER, .belongs = ot_is_blank },
                       words = { .matcher = BY_WORD, .word = ot_word_plain, .invert = true };
    const char *type = ot_config_text(v, "type");
    if (!v || json_is_null(v)) return OT_OK;
    if (!type) return ot_text_unsupported(c->name, "pre-tokenizer", type, err);
    if (!strcmp(type, "Sequence") && depth < DEEPEST) {
        const json_t *list = json_object_get(v, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list); i++) OT_TRY(read(c, json_array_get(list, i), depth + 1, err));
        return OT_OK;
    }
    if (!strcmp(type, "Split")) return read_split(c, v, err);
    if (!strcmp(type, "ByteLevel")) return read_byte_level(c, v, err);
    if (!strcmp(type, "Metaspace")) return read_metaspace(c, v, err);
    if (!strcmp(type, "Punctuation")) return read_punctuation(c, v, err);
    if (!strcmp(type, "CharDelimiterSplit")) return read_delimiter(c, v, err);
    if (!strcmp(type, "Whitespace")) return add(c, words, err);
    if (!strcmp(type, "WhitespaceSplit")) return add(c, blanks, err);
    if (!strcmp(type, "Digits")) {
        bool single = ot_config_flag(v, "individual_digits", false);
        return add(
            c, (stage){ .matcher = BY_CHARACTER, .belongs = ot_is_digit, .behavior = single ? ISOLATED : CONTIGUOUS },
            err);
    }
    if (strcmp(type, "BertPreTokenizer")) return ot_text_unsupported(c->name, "pre-tokenizer", type, err);
    OT_TRY(add(c, blanks, err));
    return add(c, (stage){ .matcher = BY_CHARACTER, .belongs = ot_is_punctuation, .behavior = ISOLATED }, err);
}

ot_status ot_cutter_new(const json_t *v, const char *name, ot_arena *a, ot_cutter **out, ot_error *err)
{
    ot_cutter *c = ot_arena_struct(a, sizeof *c);
    if (!c) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", name);
    *c = (ot_cutter){ .a = a, .name = name };
    *out = c;
    return read(c, v, 0, err);
}

void ot_cutter_free(ot_cutter *c)
{
    for (int i = 0; c && i < c->n; i++) free(c->stage[i].part.p);
}

bool ot_cutter_is_byte_level(const ot_cutter *c) { return c->bytes; }

/* ---- running ------------------------------------------------------------------------------------------- */

/* The end of the match that begins at p; NULL: none does. */
static const char *match_at(const stage *s, const char *p, const char *end)
{
    uint32_t c;
    const char *stop = NULL;
    switch (s->matcher) {
    case BY_WORD: stop = s->word(p, end); return stop > p ? stop : NULL;
    case BY_CHARACTER: {
        int k = ot_utf8(p, (size_t)(end - p), &c);
        return s->belongs(c) ? p + k : NULL;
    }
    case BY_TEXT: return (size_t)(end - p) >= s->n && !memcmp(p, s->text, s->n) ? p + s->n : NULL;
    default: return ot_regex_match(s->regex, p, end);
    }
}

static bool run_stage(ot_cutter *c, int at, const char *p, const char *end, bool first);

/* A part of a stage's text, which may grow before it continues. */
typedef struct waiting {
    const char *p, *end; /* NULL: there is none */
    bool match, merged;
} waiting;

static bool go_on(ot_cutter *c, int at, const waiting *w, const char *begin, bool first)
{
    return !w->p || run_stage(c, at + 1, w->p, w->end, first && w->p == begin);
}

/* Whether part b is joined with part a in front of it. */
static bool joins(behavior how, const waiting *a, const waiting *b)
{
    if (!a->p) return false;
    return how == CONTIGUOUS      ? a->match == b->match
           : how == WITH_PREVIOUS ? b->match && !a->merged && !a->match
           : how == WITH_NEXT     ? a->match && !a->merged && !b->match
                                  : false;
}

static bool offer(ot_cutter *c, int at, waiting *w, waiting next, const char *begin, bool first)
{
    const stage *s = &c->stage[at];
    if (next.p == next.end) return true;
    next.match = next.match != s->invert;
    if (s->behavior == REMOVED && next.match) return true;
    if (joins(s->behavior, w, &next)) {
        w->end = next.end;
        w->merged = true;
        return true;
    }
    bool good = go_on(c, at, w, begin, first);
    *w = next;
    return good;
}

static bool cut(ot_cutter *c, int at, const char *begin, const char *end, bool first)
{
    const stage *s = &c->stage[at];
    waiting w = { 0 };
    const char *rest = begin; /* the end of the last match */
    for (const char *p = begin; p < end;) {
        const char *stop = match_at(s, p, end);
        if (!stop) {
            p += ot_character(p, (size_t)(end - p));
            continue;
        }
        if (!offer(c, at, &w, (waiting){ rest, p, false, false }, begin, first) ||
            !offer(c, at, &w, (waiting){ p, stop, true, false }, begin, first))
            return false;
        rest = p = stop;
    }
    return offer(c, at, &w, (waiting){ rest, end, false, false }, begin, first) && go_on(c, at, &w, begin, first);
}

/* Blanks become the mark; each mark begins a word. */
static bool run_metaspace(ot_cutter *c, int at, const char *p, const char *end, bool first)
{
    stage *s = &c->stage[at];
    ot_buffer *b = &s->part;
    bool marked = *p == ' ' || ((size_t)(end - p) >= s->n && !memcmp(p, s->text, s->n));
    b->n = 0;
    if (!marked && (s->scheme == ALWAYS || (s->scheme == FIRST && first)) && !ot_buffer_add(b, s->text, s->n))
        return false;
    for (const char *q; p < end; p = q) {
        q = *p == ' ' ? NULL : memchr(p, ' ', (size_t)(end - p));
        if (*p == ' ' ? !ot_buffer_add(b, s->text, s->n) : !ot_buffer_add(b, p, (size_t)((q ? q : end) - p)))
            return false;
        q = *p == ' ' ? p + 1 : q ? q : end;
    }
    const char *from = b->p, *stop = b->p + b->n;
    while (s->split && from < stop) {
        const char *q = from + ot_character(from, (size_t)(stop - from));
        while (q < stop && ((size_t)(stop - q) < s->n || memcmp(q, s->text, s->n)))
            q += ot_character(q, (size_t)(stop - q));
        if (q == stop) break;
        if (!run_stage(c, at + 1, from, q, first && from == b->p)) return false;
        from = q;
    }
    return run_stage(c, at + 1, from, stop, first && from == b->p);
}

/* The bytes themselves are the words' characters: the vocabulary is translated instead. */
static bool run_byte_level(ot_cutter *c, int at, const char *p, const char *end, bool first)
{
    stage *s = &c->stage[at];
    if (s->scheme == ALWAYS && *p != ' ') {
        s->part.n = 0;
        if (!ot_buffer_add(&s->part, " ", 1) || !ot_buffer_add(&s->part, p, (size_t)(end - p))) return false;
        p = s->part.p;
        end = p + s->part.n;
    }
    return s->word ? cut(c, at, p, end, first) : run_stage(c, at + 1, p, end, first);
}

static bool run_stage(ot_cutter *c, int at, const char *p, const char *end, bool first)
{
    if (p == end) return true;
    if (at == c->n) return c->take(c->user, p, (size_t)(end - p));
    switch (c->stage[at].kind) {
    case METASPACE: return run_metaspace(c, at, p, end, first);
    case BYTE_LEVEL: return run_byte_level(c, at, p, end, first);
    default: return cut(c, at, p, end, first);
    }
}

bool ot_cutter_run(ot_cutter *c, const char *p, size_t n, bool first, ot_word_taker *take, void *user)
{
    c->take = take;
    c->user = user;
    return run_stage(c, 0, p, p + n, first);
}

bool ot_cutter_tired(const ot_cutter *c)
{
    for (int i = 0; c && i < c->n; i++)
        if (c->stage[i].regex && ot_regex_tired(c->stage[i].regex)) return true;
    return false;
}
