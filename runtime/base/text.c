/* text.c - formatted text for users, in which no name can forge a line or control a terminal. */
#include "runtime/base/base.h"

#include <string.h>

typedef struct writer {
    char *p;
    size_t cap, n; /* n counts beyond cap */
    FILE *file;    /* NULL: write to p */
} writer;

static void put(writer *w, const char *bytes, size_t n)
{
    if (w->file) fwrite(bytes, 1, n, w->file);
    else if (w->n < w->cap) memcpy(w->p + w->n, bytes, n < w->cap - w->n ? n : w->cap - w->n);
    w->n += n;
}

static void pad(writer *w, size_t n)
{
    while (n--) put(w, " ", 1);
}

/* ---- characters ------------------------------------------------------------ */

/* The character at p and its length in bytes; length 0: invalid UTF-8. */
static size_t decode(const unsigned char *p, size_t n, uint32_t *code)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t k = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
    if (k == 0 || k > n) return 0;
    *code = k == 1 ? *p : *p & (0x7Fu >> k);
    for (size_t i = 1; i < k; i++) {
        if (p[i] >> 6 != 2) return 0;
        *code = *code << 6 | (p[i] & 0x3F);
    }
    return *code < least[k] || *code > 0x10FFFF || *code >> 11 == 0x1B ? 0 : k;
}

/* C0, DEL, C1, line separators of Unicode, and bidirectional controls. */
static bool controls(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

/* Columns of a terminal; East Asian characters and pictures take two. */
static int columns_of(uint32_t c)
{
    static const uint32_t wide[][2] = { { 0x1100, 0x115F },   { 0x2E80, 0xA4CF },  { 0xAC00, 0xD7A3 },
                                        { 0xF900, 0xFAFF },   { 0xFE30, 0xFE6F },  { 0xFF00, 0xFF60 },
                                        { 0x1F300, 0x1FAFF }, { 0x20000, 0x3FFFD } };
    if (c >= 0x300 && c <= 0x36F) return 0; /* accents of the character before */
    for (int i = 0; i < OT_LEN(wide); i++)
        if (c >= wide[i][0] && c <= wide[i][1]) return 2;
    return 1;
}

/* n bytes of text; `lines`: keep line ends.  Returns how many columns of a terminal they take. */
static size_t put_shown(writer *w, const char *text, size_t n, bool lines)
{
    size_t columns = 0;
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    char escape[12];
    while (p < end) {
        uint32_t c = 0;
        size_t k = decode(p, (size_t)(end - p), &c);
        if (k && (!controls(c) || (lines && c == '\n'))) {
            put(w, (const char *)p, k);
            columns += (size_t)columns_of(c);
        } else {
            const char *format = !k || c < 0x80 ? "\\x%02x" : "\\u%04x";
            if (k && (c == '\n' || c == '\r' || c == '\t'))
                snprintf(escape, sizeof escape, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
            else snprintf(escape, sizeof escape, format, k ? c : *p);
            put(w, escape, strlen(escape));
            columns += strlen(escape);
        }
        p += k ? k : 1;
    }
    return columns;
}

int ot_utf8(const char *p, size_t n, uint32_t *out) { return n ? (int)decode((const unsigned char *)p, n, out) : 0; }

bool ot_is_utf8(const char *text)
{
    uint32_t c;
    for (int n; *text; text += n)
        if (!(n = ot_utf8(text, strnlen(text, 4), &c))) return false;
    return true;
}

int ot_utf8_put(uint32_t c, char to[4])
{
    if (c < 0x80) return to[0] = (char)c, 1;
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    to[0] = (char)((0xFF00 >> (more + 1) & 0xFF) | c >> 6 * more);
    for (int i = 1; i <= more; i++) to[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3F));
    return more + 1;
}

/* ---- formats --------------------------------------------------------------- */

/* One conversion of a format, with '*' replaced. */
typedef struct spec {
    char text[32];
    bool left;
    int width, precision; /* precision -1: none */
    char length;          /* 'H' hh, 'h', 'l', 'q' ll, 'z', 'j', 't'; 0: none */
    char kind;
} spec;

static int read_number(const char **f)
{
    int v = 0;
    while (**f >= '0' && **f <= '9' && v < 100000) v = 10 * v + *(*f)++ - '0';
    return v;
}

static void put_string(writer *w, const spec *s, const char *text, bool whole)
{
    if (!text) text = "(null)";
    size_t n = s->precision < 0 ? strlen(text) : strnlen(text, (size_t)s->precision);
    /* Truncates at a character boundary.  Bytes after the limit are not read: the text may end there without a 0. */
    uint32_t c;
    if (s->precision >= 0 && n == (size_t)s->precision)
        for (size_t back = 1; back < 4 && back <= n; back++) {
            unsigned char b = (unsigned char)text[n - back];
            if (b >> 6 == 2) continue;
            size_t length = b >= 0xF0 ? 4 : b >= 0xE0 ? 3 : 2;
            if (b >= 0xC0 && back < length && decode((const unsigned char *)text + n - back, back, &c) == 0) n -= back;
            break;
        }
    writer count = { .cap = 0 };
    bool lines = whole || (s->left && s->width == 0);
    size_t columns = put_shown(&count, text, n, lines);
    size_t fill = (size_t)s->width > columns ? (size_t)s->width - columns : 0;
    if (!s->left) pad(w, fill);
    put_shown(w, text, n, lines);
    if (s->left) pad(w, fill);
}

/* A number, formatted by printf. */
#define NUMBER(type) (put_number(w, snprintf(out, sizeof out, s->text, va_arg(*ap, type)), out))

static void put_number(writer *w, int n, const char *out)
{
    if (n > 0) put(w, out, strlen(out));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void put_value(writer *w, const spec *s, va_list *ap, bool whole)
{
    char out[512];
    switch (s->kind) {
    case 's': put_string(w, s, va_arg(*ap, const char *), whole); return;
    case 'c':
        out[0] = (char)va_arg(*ap, int);
        put_shown(w, out, 1, false);
        return;
    case 'p': NUMBER(void *); return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A': NUMBER(double); return;
    default: break;
    }
    if (s->length == 'l') NUMBER(long);
    else if (s->length == 'q' || s->length == 'j') NUMBER(long long);
    else if (s->length == 'z' || s->length == 't') NUMBER(size_t);
    else NUMBER(int);
}
#pragma GCC diagnostic pop

/* Parses the conversion after a '%'; returns the rest of the format. */
static const char *read_spec(const char *f, spec *s, va_list *ap)
{
    const char *flags = f;
    *s = (spec){ .precision = -1 };
    while (*f && strchr("-+ #0", *f)) s->left |= *f++ == '-';
    int n_flags = (int)(f - flags);
    if (*f == '*') f++, s->width = va_arg(*ap, int);
    else s->width = read_number(&f);
    if (s->width < 0) s->left = true, s->width = -s->width;
    if (*f == '.') {
        f++;
        if (*f == '*') f++, s->precision = va_arg(*ap, int);
        else s->precision = read_number(&f);
        if (s->precision < 0) s->precision = -1;
    }
    const char *length = f;
    while (*f && strchr("hlzjt", *f)) f++;
    int n_length = (int)(f - length);
    s->length = n_length ? *length : 0;
    if (n_length == 2) s->length = *length == 'l' ? 'q' : 'H';
    s->kind = *f;
    char width[12] = "", precision[13] = "";
    if (s->width) snprintf(width, sizeof width, "%d", s->width % 400);
    if (s->precision >= 0) snprintf(precision, sizeof precision, ".%d", s->precision % 100);
    snprintf(s->text, sizeof s->text, "%%%.*s%s%s%.*s%c", n_flags > 5 ? 5 : n_flags, flags, width, precision, n_length,
             length, s->kind ? s->kind : 'd');
    return *f ? f + 1 : f;
}

/* whole: strings keep their lines. */
static void format(writer *w, const char *fmt, bool whole, va_list given)
{
    va_list ap;
    va_copy(ap, given);
    while (*fmt) {
        size_t n = strcspn(fmt, "%");
        put(w, fmt, n);
        fmt += n;
        if (!*fmt) break;
        if (fmt[1] == '%') {
            put(w, "%", 1);
            fmt += 2;
            continue;
        }
        spec s;
        fmt = read_spec(fmt + 1, &s, &ap);
        put_value(w, &s, &ap, whole);
    }
    va_end(ap);
}

/* Terminates the text; a truncated one after its last whole character. */
static void finish(writer *w)
{
    size_t n = w->n < w->cap ? w->n : w->cap, back = n;
    uint32_t c;
    if (w->n > w->cap) {
        while (back > 0 && (unsigned char)w->p[back - 1] >> 6 == 2) back--;
        if (back > 0 && (unsigned char)w->p[back - 1] >= 0xC0 &&
            !decode((unsigned char *)w->p + back - 1, n - back + 1, &c))
            n = back - 1;
    }
    w->p[n] = '\0';
}

int ot_vtext(char *buf, size_t cap, const char *fmt, va_list ap)
{
    writer w = { .p = buf, .cap = cap ? cap - 1 : 0 };
    format(&w, fmt, !strcmp(fmt, "%s"), ap);
    if (cap) finish(&w);
    return w.n < INT32_MAX ? (int)w.n : INT32_MAX;
}

void ot_print(FILE *f, const char *fmt, ...)
{
    writer w = { .file = f };
    va_list ap;
    va_start(ap, fmt);
    format(&w, fmt, false, ap);
    va_end(ap);
}

const char *ot_shown(const char *text, char *buf, size_t n)
{
    writer w = { .p = buf, .cap = n ? n - 1 : 0 };
    if (!buf || !n) return "";
    put_shown(&w, text ? text : "", text ? strlen(text) : 0, false);
    finish(&w);
    return buf;
}

/* Bytes of the beginning of text that takes at most `width` columns; *used: how many it takes. */
static size_t beginning(const char *text, int width, int *used)
{
    size_t at = 0, n = strlen(text);
    *used = 0;
    for (uint32_t c; at < n;) {
        int size = ot_utf8(text + at, n - at, &c), more = size > 0 ? columns_of(c) : 1;
        if (*used + more > width) break;
        *used += more;
        at += size > 0 ? (size_t)size : 1;
    }
    return at;
}

const char *ot_shown_in(const char *text, int width, char *buf, size_t n)
{
    char all[512];
    int used;
    ot_shown(text, all, sizeof all);
    size_t k = beginning(all, width, &used);
    bool cut = all[k] != 0;
    if (cut) k = beginning(all, width - 1, &used), used++;
    snprintf(buf, n, "%.*s%s%*s", (int)k, all, cut ? "…" : "", width - used, "");
    return buf;
}

bool ot_ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcasecmp(text + n - m, end);
}
