/* words.c - cuts a text into words, as the regular expressions of known tokenizers do.
 *
 * Source  the expressions stand in the tokenizer.json of the models; the functions follow them alternative by alternative,
 *         leftmost first, as a backtracking engine does. */
#include <string.h>

#include "runtime/text/internal.h"

static uint32_t at(const char *p, const char *end, int *n)
{
    uint32_t c = 0;
    *n = p < end ? ot_utf8(p, (size_t)(end - p), &c) : 0;
    return c;
}

static bool is_other(uint32_t c) { return !ot_is_blank(c) && !ot_is_letter(c) && !ot_is_digit(c); }

/* The end of the characters that belong. */
static const char *run(const char *p, const char *end, bool (*belongs)(uint32_t), int most)
{
    for (int n; most-- && p < end; p += n)
        if (!belongs(at(p, end, &n))) break;
    return p;
}

enum { ALL = INT32_MAX };

/* 's 't 're 've 'm 'll 'd; p itself: none.  folded: in any case, also the long s. */
static const char *contraction(const char *p, const char *end, bool folded)
{
    static const char *const tail[] = { "s", "t", "re", "ve", "m", "ll", "d" };
    if (*p != '\'') return p;
    size_t left = (size_t)(end - p) - 1;
    if (folded && left >= 2 && !memcmp(p + 1, "\xC5\xBF", 2)) return p + 3;
    for (int i = 0; i < OT_LEN(tail); i++) {
        size_t n = strlen(tail[i]), k = 0;
        while (k < n && k < left &&
               (folded && p[1 + k] >= 'A' && p[1 + k] <= 'Z' ? p[1 + k] + 32 : p[1 + k]) == tail[i][k])
            k++;
        if (k == n) return p + 1 + n;
    }
    return p;
}

/* \s+(?!\S)|\s+ : blanks, without the last one if a word follows. */
static const char *blanks(const char *p, const char *end)
{
    const char *stop = run(p, end, ot_is_blank, ALL), *last = stop;
    if (stop == end) return stop;
    do last--;
    while ((*last & 0xC0) == 0x80);
    return last > p ? last : stop;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
const char *ot_word_gpt2(const char *p, const char *end)
{
    static bool (*const sort[])(uint32_t) = { ot_is_letter, ot_is_digit, is_other };
    const char *q = contraction(p, end, false), *from = p + (*p == ' ');
    if (q > p) return q;
    for (int i = 0; i < OT_LEN(sort); i++)
        if ((q = run(from, end, sort[i], ALL)) > from) return q;
    return blanks(p, end);
}

static bool is_line(uint32_t c) { return c == '\r' || c == '\n'; }

/* The end of \s*[\r\n]+ ; p itself: no match. */
static const char *lines(const char *p, const char *end)
{
    const char *stop = run(p, end, ot_is_blank, ALL), *last = stop;
    while (last > p && !is_line((unsigned char)last[-1])) last--;
    return last;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,D}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static const char *word_of(const char *p, const char *end, int digits)
{
    int n;
    uint32_t c = at(p, end, &n);
    const char *q = contraction(p, end, true), *from = p + (*p == ' ');
    if (q > p) return q;
    if (ot_is_letter(c)) return run(p, end, ot_is_letter, ALL);
    if (!is_line(c) && !ot_is_digit(c) && (q = run(p + n, end, ot_is_letter, ALL)) > p + n) return q;
    if (ot_is_digit(c)) return run(p, end, ot_is_digit, digits);
    if ((q = run(from, end, is_other, ALL)) > from) return run(q, end, is_line, ALL);
    q = lines(p, end);
    return q > p ? q : blanks(p, end);
}

static const char *llama3(const char *p, const char *end) { return word_of(p, end, 3); }
static const char *qwen2(const char *p, const char *end) { return word_of(p, end, 1); }

static const struct {
    const char *regex;
    ot_word word;
} patterns[] = {
    { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", ot_word_gpt2 },
    { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
      "\\s+(?!\\S)|\\s+",
      llama3 },
    { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
      "\\s+(?!\\S)|\\s+",
      qwen2 },
};

ot_word ot_pattern(const char *regex)
{
    for (int i = 0; i < OT_LEN(patterns); i++)
        if (!strcmp(regex, patterns[i].regex)) return patterns[i].word;
    return NULL;
}

static bool is_sign(uint32_t c) { return !ot_is_word(c) && !ot_is_joiner(c) && !ot_is_blank(c); }
static bool is_joined(uint32_t c) { return ot_is_word(c) || ot_is_joiner(c); }

const char *ot_word_plain(const char *p, const char *end)
{
    const char *q = run(p, end, is_joined, ALL);
    return q > p ? q : run(p, end, is_sign, ALL);
}
