/* unicode.c - what kind of character a code point is, normal forms, lower case: from libutf8proc's tables. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/internal.h"

bool ot_buffer_add(ot_buffer *b, const char *p, size_t n)
{
    if (b->n + n > b->room) {
        size_t room = 2 * b->room + n + 64;
        char *wide = realloc(b->p, room);
        if (!wide) return false;
        b->p = wide;
        b->room = room;
    }
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
    return true;
}

bool ot_buffer_char(ot_buffer *b, uint32_t c)
{
    char s[4];
    return ot_buffer_add(b, s, (size_t)ot_utf8_put(c, s));
}

size_t ot_character(const char *p, size_t left)
{
    static const char length[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4 };
    size_t n = (size_t)length[(unsigned char)*p >> 4];
    return n < left ? n : left;
}

bool ot_is_blank(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool ot_is_joiner(uint32_t c) { return c == 0x200C || c == 0x200D; }

const char *ot_back_over_blanks(const char *from, const char *p)
{
    uint32_t c;
    while (p > from) {
        const char *q = p - 1;
        while (q > from && (*q & 0xC0) == 0x80) q--;
        if (!ot_utf8(q, (size_t)(p - q), &c) || !ot_is_blank(c)) break;
        p = q;
    }
    return p;
}

const char *ot_skip_blanks(const char *p, const char *end)
{
    uint32_t c;
    for (int k; p < end && (k = ot_utf8(p, (size_t)(end - p), &c)) && ot_is_blank(c);) p += k;
    return p;
}

#ifdef OT_HAVE_UTF8PROC

#include <utf8proc.h>

const bool ot_has_unicode = true;

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

bool ot_is_letter(uint32_t c)
{
    if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z';
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool ot_is_digit(uint32_t c)
{
    if (c < 0x80) return c >= '0' && c <= '9';
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

int ot_category(uint32_t c) { return (int)category(c); }

bool ot_is_word(uint32_t c)
{
    if (c < 0x80) return ot_is_letter(c) || ot_is_digit(c) || c == '_';
    utf8proc_category_t k = category(c);
    bool circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
                   (c >= 0x1F170 && c <= 0x1F189); /* letters to Unicode, by category symbols */
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC || circled;
}

uint32_t ot_to_lower(uint32_t c) { return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c); }
uint32_t ot_to_upper(uint32_t c) { return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c); }

bool ot_is_mark(uint32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_MN; }

bool ot_is_accent(uint32_t c)
{
    return c >= 0x80 && category(c) >= UTF8PROC_CATEGORY_MN && category(c) <= UTF8PROC_CATEGORY_ME;
}

bool ot_is_control(uint32_t c)
{
    utf8proc_category_t k = category(c);
    if (c == '\t' || c == '\n' || c == '\r') return false;
    return k >= UTF8PROC_CATEGORY_CC && k <= UTF8PROC_CATEGORY_CO;
}

bool ot_is_punctuation(uint32_t c)
{
    if (c < 0x80) return (c > 32 && c < 48) || (c > 57 && c < 65) || (c > 90 && c < 97) || (c > 122 && c < 127);
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool ot_normal_form(ot_normal form, const char *p, size_t n, ot_buffer *out)
{
    static const utf8proc_option_t option[] = { [OT_NFC] = UTF8PROC_COMPOSE,
                                                [OT_NFD] = UTF8PROC_DECOMPOSE,
                                                [OT_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                                [OT_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT };
    utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t k = utf8proc_map((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, &made,
                                      (utf8proc_option_t)(option[form] | UTF8PROC_STABLE));
    bool good = k >= 0 && ot_buffer_add(out, (const char *)made, (size_t)k);
    free(made);
    return good;
}

bool ot_lower_case(const char *p, size_t n, ot_buffer *out)
{
    uint32_t c;
    for (int k; n && (k = ot_utf8(p, n, &c)); p += k, n -= (size_t)k) {
        if (c == 0x130) { /* its lower case is two characters */
            if (!ot_buffer_add(out, "i\xCC\x87", 3)) return false;
            continue;
        }
        if (!ot_buffer_char(out, c < 0x80 ? (c >= 'A' && c <= 'Z' ? c + 32 : c)
                                          : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c)))
            return false;
    }
    return true;
}

size_t ot_grapheme(const char *p, size_t left)
{
    uint32_t before, c;
    utf8proc_int32_t state = 0;
    size_t n = (size_t)ot_utf8(p, left, &before);
    if (!n) return 1;
    for (int k; n < left && (k = ot_utf8(p + n, left - n, &c)); n += (size_t)k, before = c)
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state)) break;
    return n;
}

#else

const bool ot_has_unicode = false;

bool ot_is_letter(uint32_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
bool ot_is_digit(uint32_t c) { return c >= '0' && c <= '9'; }
bool ot_is_word(uint32_t c) { return ot_is_letter(c) || ot_is_digit(c) || c == '_'; }
int ot_category(uint32_t c) { return (void)c, 0; }
uint32_t ot_to_lower(uint32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }
uint32_t ot_to_upper(uint32_t c) { return c >= 'a' && c <= 'z' ? c - 32 : c; }
bool ot_is_mark(uint32_t c) { return (void)c, false; }
bool ot_is_accent(uint32_t c) { return (void)c, false; }
bool ot_is_control(uint32_t c) { return c < 32; }
bool ot_is_punctuation(uint32_t c) { return c > 32 && !ot_is_letter(c) && !ot_is_digit(c); }
bool ot_normal_form(ot_normal form, const char *p, size_t n, ot_buffer *out)
{
    return (void)form, ot_buffer_add(out, p, n);
}
bool ot_lower_case(const char *p, size_t n, ot_buffer *out) { return ot_buffer_add(out, p, n); }
size_t ot_grapheme(const char *p, size_t left) { return ot_character(p, left); }

#endif
