/* normalizer.c - what a tokenizer makes of a text before it is cut into words: the normalizer of tokenizer.json as a list of steps. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/internal.h"

enum { MOST_STEPS = 16, DEEPEST = 4 };

typedef enum step_kind {
    CLEAN,
    SPACE_CJK,
    STRIP_MARKS,   /* those without a width */
    STRIP_ACCENTS, /* marks of all kinds */
    NMT,
    LOWER,
    TO_NFC,
    TO_NFD,
    TO_NFKC,
    TO_NFKD,
    PREPEND,
    REPLACE,
    STRIP,
    PRECOMPILED
} step_kind;

typedef struct step {
    step_kind kind;
    const char *from, *to; /* of REPLACE and PREPEND */
    size_t from_n, to_n;
    ot_regex *regex;  /* of REPLACE, NULL: `from` */
    bool left, right; /* of STRIP */
    ot_charsmap map;  /* of PRECOMPILED */
} step;

struct ot_normalizer {
    ot_arena *a;
    const char *name;
    step step[MOST_STEPS];
    int n;
    ot_buffer text[2];
};

/* ---- reading ----------------------------------------------------------------------------------------- */

static ot_status no_memory(const ot_normalizer *z, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", z->name);
}

static ot_status add(ot_normalizer *z, step s, ot_error *err)
{
    if (z->n == MOST_STEPS)
        return ot_fail(err, OT_E_DATA, "%s: its normalizer has more than %d steps", z->name, MOST_STEPS);
    z->step[z->n++] = s;
    return OT_OK;
}

static ot_status add_kind(ot_normalizer *z, step_kind k, ot_error *err) { return add(z, (step){ .kind = k }, err); }

static const char *copy_text(ot_normalizer *z, const json_t *v, size_t *n)
{
    const char *p = json_string_value(v);
    *n = json_string_length(v);
    return p ? ot_arena_strdup(z->a, p) : NULL;
}

static ot_status read_bert(ot_normalizer *z, const json_t *v, ot_error *err)
{
    bool lower = ot_config_flag(v, "lowercase", true);
    if (ot_config_flag(v, "clean_text", true)) OT_TRY(add_kind(z, CLEAN, err));
    if (ot_config_flag(v, "handle_chinese_chars", true)) OT_TRY(add_kind(z, SPACE_CJK, err));
    if (ot_config_flag(v, "strip_accents", lower)) {
        OT_TRY(add_kind(z, TO_NFD, err));
        OT_TRY(add_kind(z, STRIP_MARKS, err));
    }
    return lower ? add_kind(z, LOWER, err) : OT_OK;
}

static ot_status read_replace(ot_normalizer *z, const json_t *v, ot_error *err)
{
    const json_t *pattern = json_object_get(v, "pattern");
    const json_t *text = json_object_get(pattern, "String"), *regex = json_object_get(pattern, "Regex");
    const json_t *content = json_object_get(v, "content");
    step s = { .kind = REPLACE };
    if (!json_is_string(content) || (!json_string_length(text) && !json_string_length(regex)))
        return ot_fail(err, OT_E_DATA, "%s: a normalizer Replace has no pattern or no content", z->name);
    s.from = copy_text(z, text ? text : regex, &s.from_n);
    s.to = copy_text(z, content, &s.to_n);
    if (!s.from || !s.to) return no_memory(z, err);
    if (!text) OT_TRY(ot_regex_new(s.from, z->name, z->a, &s.regex, err));
    return add(z, s, err);
}

static ot_status read_prepend(ot_normalizer *z, const json_t *v, ot_error *err)
{
    step s = { .kind = PREPEND };
    const json_t *text = json_object_get(v, "prepend");
    if (!json_is_string(text)) return ot_fail(err, OT_E_DATA, "%s: a normalizer Prepend has no text", z->name);
    s.to = copy_text(z, text, &s.to_n);
    return s.to ? add(z, s, err) : no_memory(z, err);
}

static ot_status read_precompiled(ot_normalizer *z, const json_t *v, ot_error *err)
{
    step s = { .kind = PRECOMPILED };
    const char *map = ot_config_text(v, "precompiled_charsmap");
    if (!map || !*map)
        return ot_fail(err, OT_E_DATA, "%s: a normalizer Precompiled has no precompiled_charsmap", z->name);
    OT_TRY(ot_charsmap_read(map, z->name, z->a, &s.map, err));
    return add(z, s, err);
}

static ot_status read(ot_normalizer *z, const json_t *v, int depth, ot_error *err)
{
    static const struct {
        const char *type;
        step_kind kind;
    } plain[] = { { "NFC", TO_NFC },
                  { "NFD", TO_NFD },
                  { "NFKC", TO_NFKC },
                  { "NFKD", TO_NFKD },
                  { "Nmt", NMT },
                  { "Lowercase", LOWER },
                  { "StripAccents", STRIP_ACCENTS } };
    const char *type = ot_config_text(v, "type");
    if (!v || json_is_null(v)) return OT_OK;
    if (type && !strcmp(type, "Sequence") && depth < DEEPEST) {
        const json_t *list = json_object_get(v, "normalizers");
        for (size_t i = 0; i < json_array_size(list); i++) OT_TRY(read(z, json_array_get(list, i), depth + 1, err));
        return OT_OK;
    }
    for (int i = 0; type && i < OT_LEN(plain); i++)
        if (!strcmp(type, plain[i].type)) return add_kind(z, plain[i].kind, err);
    if (type && !strcmp(type, "BertNormalizer")) return read_bert(z, v, err);
    if (type && !strcmp(type, "Replace")) return read_replace(z, v, err);
    if (type && !strcmp(type, "Precompiled")) return read_precompiled(z, v, err);
    if (type && !strcmp(type, "Prepend")) return read_prepend(z, v, err);
    if (type && !strcmp(type, "Strip"))
        return add(z,
                   (step){ .kind = STRIP,
                           .left = ot_config_flag(v, "strip_left", true),
                           .right = ot_config_flag(v, "strip_right", true) },
                   err);
    return ot_text_unsupported(z->name, "normalizer", type, err);
}

ot_status ot_normalizer_new(const json_t *v, const char *name, ot_arena *a, ot_normalizer **out, ot_error *err)
{
    ot_normalizer *z = ot_arena_struct(a, sizeof *z);
    if (!z) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", name);
    *z = (ot_normalizer){ .a = a, .name = name };
    *out = z;
    return read(z, v, 0, err);
}

void ot_normalizer_free(ot_normalizer *z)
{
    if (!z) return;
    free(z->text[0].p);
    free(z->text[1].p);
}

/* ---- running ------------------------------------------------------------------------------------------- */

static bool is_cjk(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/* The rules of SentencePiece's nmt: controls disappear, what separates becomes a blank. */
static bool change_nmt(uint32_t c, ot_buffer *out)
{
    bool gone = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    return gone || ot_buffer_char(out, blank ? ' ' : c);
}

static bool change_character(step_kind k, uint32_t c, ot_buffer *out)
{
    switch (k) {
    case CLEAN:
        if (!c || c == 0xFFFD || ot_is_control(c)) return true;
        return ot_buffer_char(out, ot_is_blank(c) ? ' ' : c);
    case SPACE_CJK:
        if (!is_cjk(c)) return ot_buffer_char(out, c);
        return ot_buffer_add(out, " ", 1) && ot_buffer_char(out, c) && ot_buffer_add(out, " ", 1);
    case NMT: return change_nmt(c, out);
    case STRIP_ACCENTS: return ot_is_accent(c) || ot_buffer_char(out, c);
    default: return ot_is_mark(c) || ot_buffer_char(out, c);
    }
}

static bool replace(const step *s, const char *p, const char *end, ot_buffer *out)
{
    while (p < end) {
        const char *from = p, *stop = NULL;
        for (; from < end; from += ot_character(from, (size_t)(end - from))) {
            if (s->regex) stop = ot_regex_match(s->regex, from, end);
            else if ((size_t)(end - from) >= s->from_n && !memcmp(from, s->from, s->from_n)) stop = from + s->from_n;
            if (stop) break;
        }
        if (!ot_buffer_add(out, p, (size_t)(from - p))) return false;
        if (stop && !ot_buffer_add(out, s->to, s->to_n)) return false;
        p = stop ? stop : end;
    }
    return true;
}

static bool strip(const step *s, const char *p, const char *end, ot_buffer *out)
{
    if (s->left) p = ot_skip_blanks(p, end);
    if (s->right) end = ot_back_over_blanks(p, end);
    return ot_buffer_add(out, p, (size_t)(end - p));
}

/* Whole graphemes of fewer than six bytes by the shortest rule for their beginning, else character by character: as
 * tokenizers' spm_precompiled does, which is not what SentencePiece does. */
static bool precompiled(const ot_charsmap *m, const char *p, size_t n, ot_buffer *out)
{
    const char *to = NULL;
    for (size_t k, i; n; p += k, n -= k) {
        k = ot_grapheme(p, n);
        if (k < 6 && ot_charsmap_find(m, p, p + strnlen(p, k), false, &to)) {
            if (!ot_buffer_add(out, to, strlen(to))) return false;
            continue;
        }
        for (i = 0; i < k;) {
            size_t one = ot_character(p + i, k - i);
            bool ruled = ot_charsmap_find(m, p + i, p + i + strnlen(p + i, one), false, &to);
            if (!(ruled ? ot_buffer_add(out, to, strlen(to)) : ot_buffer_add(out, p + i, one))) return false;
            i += one;
        }
    }
    return true;
}

static bool apply(const step *s, const char *p, size_t n, ot_buffer *out)
{
    uint32_t c;
    out->n = 0;
    if (!n) return true;
    switch (s->kind) {
    case LOWER: return ot_lower_case(p, n, out);
    case TO_NFC:
    case TO_NFD:
    case TO_NFKC:
    case TO_NFKD: return ot_normal_form(s->kind - TO_NFC + OT_NFC, p, n, out);
    case PREPEND: return ot_buffer_add(out, s->to, s->to_n) && ot_buffer_add(out, p, n);
    case REPLACE: return replace(s, p, p + n, out);
    case STRIP: return strip(s, p, p + n, out);
    case PRECOMPILED: return precompiled(&s->map, p, n, out);
    default: break;
    }
    for (int k; n && (k = ot_utf8(p, n, &c)); p += k, n -= (size_t)k)
        if (!change_character(s->kind, c, out)) return false;
    return true;
}

bool ot_normalizer_run(ot_normalizer *z, const char **p, size_t *n)
{
    for (int i = 0; i < z->n; i++) {
        ot_buffer *b = &z->text[i % 2];
        if (!apply(&z->step[i], *p, *n, b)) return false;
        *p = b->p ? b->p : "";
        *n = b->n;
    }
    return true;
}

bool ot_normalizer_tired(const ot_normalizer *z)
{
    for (int i = 0; z && i < z->n; i++)
        if (z->step[i].regex && ot_regex_tired(z->step[i].regex)) return true;
    return false;
}
