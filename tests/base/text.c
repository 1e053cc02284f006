/* text.c - text for users: like printf, but names cannot forge a line or control a terminal. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text(const char *fmt, ...)
{
    static char out[4096];
    va_list ap;
    va_start(ap, fmt);
    int n = ot_vtext(out, sizeof out, fmt, ap);
    va_end(ap);
    assert_int_equal(n, strlen(out));
    return out;
}

/* Conversions that are used, against printf. */
static void as_printf(void **state)
{
    (void)state;
    char want[1000];
    const char *long_text = "a rather long text";
#define SAME(...) (snprintf(want, sizeof want, __VA_ARGS__), assert_string_equal(text(__VA_ARGS__), want))
    SAME("plain");
    SAME("%d %i %u %x %08lx %lld %llu %zu %c|%%", -3, 4, 5u, 0xbeefu, 0xabcdefl, -7ll, 8ull, (size_t)9, 'c');
    SAME("%5d|%-5d|%+d|%05d|%*d|%-*d", 1, 2, 3, 4, 6, 5, 6, 7);
    SAME("%hhd %hd %ld %jd %td", (signed char)-1, (short)-2, -3l, (intmax_t)-4, (ptrdiff_t)-5);
    SAME("%g %.9g %12.3f %e %.*f %.2f %%", 1.5, 0.1, 3.25, 1e300, 3, 2.0, 12.345);
    SAME("%.0f %f", 1e300, -1e300);
    SAME("%s|%10s|%-10s|%.4s|%-10.4s|%.*s|%*.*s", "a", "b", "c", long_text, long_text, 3, long_text, 9, 2, long_text);
    SAME("%s %s %s", "größe", "大", "𝄞");
    SAME("%32.12s|%-32s|%s", "abcdefghijklmnop", "a/b:c;0", "");
#undef SAME
}

static void escapes(void **state)
{
    (void)state;
    assert_string_equal(text("a %s b", "x\nonnxtrain: all is well\r\t"), "a x\\nonnxtrain: all is well\\r\\t b");
    assert_string_equal(text("[%s]", "\x1b[31m\x07\x7f\x01"), "[\\x1b[31m\\x07\\x7f\\x01]");
    assert_string_equal(text("[%s]", "\xc2\x9b"
                                     "31m"),
                        "[\\u009b31m]"); /* C1: CSI */
    assert_string_equal(text("[%s]", "\xe2\x80\xae"
                                     "txt.exe"),
                        "[\\u202etxt.exe]"); /* writes backwards */
    assert_string_equal(text("[%s]", "\xff\xfe a\xc3 \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80"),
                        "[\\xff\\xfe a\\xc3 \\xc0\\xaf \\xed\\xa0\\x80 \\xf5\\x80\\x80\\x80]"); /* no UTF-8 */
    assert_string_equal(text("%c%c", '\x1b', 'x'), "\\x1bx");
    assert_string_equal(text("%-6s|%6s|", "\n", "\n"), "\\n    |    \\n|");
    assert_string_equal(text("%-6s|%6s|", "Fläche", "m²"), "Fläche|    m²|"); /* columns, not bytes */
    assert_string_equal(text("%-5s|", "\u91cf"), "\u91cf   |");
    assert_string_equal(text("%.3s|", "ab\xc3\xa9"), "ab|"); /* half a character is none */
    assert_string_equal(text("%.4s|", "ab\xc3\xa9z"), "ab\xc3\xa9|");
    assert_string_equal(text("%.3s|", "ab\xc3"), "ab|"); /* what follows a cut is not looked at */
}

/* The format's own lines stay, and a text that is made of lines. */
static void lines(void **state)
{
    (void)state;
    assert_string_equal(text("%s:\n  %s", "a\nb", "c\nd"), "a\\nb:\n  c\\nd");
    assert_string_equal(text("%s: %-s", "a\nb", "c\nd\x1b"), "a\\nb: c\nd\\x1b");
    assert_string_equal(text("%s", "c\nd\x1b"), "c\nd\\x1b");
}

static void errors(void **state)
{
    (void)state;
    ot_error e = { 0 }, again = { 0 };
    ot_fail_more(&e, OT_E_MODEL, "node '%s': bad", "n\nonnxtrain: all is well");
    ot_fail_more(&e, OT_E_MODEL, "node '%s': bad", "\x1b]0;x\x07");
    assert_string_equal(e.text, "node 'n\\nonnxtrain: all is well': bad\nnode '\\x1b]0;x\\x07': bad");
    ot_fail(&again, e.status, "%s", e.text);
    assert_string_equal(again.text, e.text);
}

static void prints(void **state)
{
    (void)state;
    char *out = NULL, *name = malloc(10001);
    size_t n;
    FILE *f = open_memstream(&out, &n);
    memset(name, 'n', 10000);
    name[10000] = 0;
    name[5000] = '\n';
    ot_print(f, "%s\n", name);
    ot_print(f, "%s", "a\nb");
    fclose(f);
    assert_int_equal(n, 10000 + 1 + 1 + 4);
    assert_memory_equal(out + 4999, "n\\nn", 4);
    assert_string_equal(out + 10002, "a\\nb");
    free(out);
    free(name);
}

/* A short buffer ends after a whole character, at any size. */
static void cut(void **state)
{
    (void)state;
    const char *name = "ab\xc3\xa9\xe5\xa4\xa7\xf0\x9d\x84\x9e\nz";
    char want[64], got[64], back[64];
    ot_shown(name, want, sizeof want);
    assert_string_equal(want, "ab\xc3\xa9\xe5\xa4\xa7\xf0\x9d\x84\x9e\\nz");
    for (size_t n = 1; n <= strlen(want) + 1; n++) {
        memset(got, 'X', sizeof got);
        ot_shown(name, got, n);
        assert_true(strlen(got) < n && strlen(got) + 4 >= n);
        assert_int_equal(strncmp(got, want, strlen(got)), 0);
        assert_string_equal(ot_shown(got, back, sizeof back), got); /* UTF-8 still */
        assert_int_equal(got[n], 'X');
    }
    assert_string_equal(ot_shown(NULL, got, sizeof got), "");
    assert_string_equal(ot_shown("x", NULL, 0), "");
}

static void columns(void **state)
{
    static const struct {
        const char *text;
        int width;
        const char *want;
    } row[] = {
        { "cat", 5, "cat  " },
        { "aeroplane", 9, "aeroplane" },
        { "aeroplane", 8, "aeropla…" },
        { "", 3, "   " },
        { "Lkw \xc3\xbc", 7, "Lkw \xc3\xbc  " },
        { "\xc3\xbc\xc3\xbc\xc3\xbc", 2, "\xc3\xbc…" },
        { "\xe5\xa4\xa7\xe5\xa4\xa7", 5, "\xe5\xa4\xa7\xe5\xa4\xa7 " }, /* two columns each */
        { "\xe5\xa4\xa7\xe5\xa4\xa7", 3, "\xe5\xa4\xa7…" },
        { "e\xcc\x81", 2, "e\xcc\x81 " }, /* an accent of its own */
        { "a\nb", 5, "a\\nb " },
        { NULL, 2, "  " },
    };
    char got[64];
    (void)state;
    for (int i = 0; i < OT_LEN(row); i++)
        assert_string_equal(ot_shown_in(row[i].text, row[i].width, got, sizeof got), row[i].want);
}

int ot_test_text(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_printf), cmocka_unit_test(escapes), cmocka_unit_test(lines),   cmocka_unit_test(errors),
        cmocka_unit_test(prints),    cmocka_unit_test(cut),     cmocka_unit_test(columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
