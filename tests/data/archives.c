/* archives.c - forged zip archives: wrong positions, sizes and methods of members; and valid ones that are unusual. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/io.h"

enum { N = 6 };

/* Two arrays of ours, "a" and "b", stored. */
static unsigned char *archive(size_t *n)
{
    static const float x[N] = { 1, 2, 3, 4, 5, 6 };
    ot_tensor t[] = { { .name = "a", .dtype = OT_F32, .rank = 1, .dim = { N }, .data = (void *)(uintptr_t)x },
                      { .name = "b", .dtype = OT_F32, .rank = 1, .dim = { N }, .data = (void *)(uintptr_t)x } };
    char path[128];
    void *p = NULL;
    ot_error e = { 0 };
    snprintf(path, sizeof path, "%s/a.npz", ot_test_folder);
    if (ot_npz_write(path, t, 2, &e) || ot_read_file(path, 1 << 20, &p, n, &e)) fail_msg("%s", e.text);
    return p;
}

/* The k-th occurrence of a record's mark. */
static unsigned char *record(unsigned char *p, size_t n, const char *mark, int k)
{
    for (size_t i = 0; i + 4 <= n; i++)
        if (!memcmp(p + i, mark, 4) && !k--) return p + i;
    fail_msg("no record");
    return NULL;
}

/* why NULL: it must be read as it is. */
static void opens(const unsigned char *p, size_t n, const char *why, const char *what)
{
    char path[128];
    ot_dataset *d = NULL;
    ot_error e = { 0 };
    ot_folder_put("t.npz", p, n);
    snprintf(path, sizeof path, "%s/t.npz", ot_test_folder);
    ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e);
    if (s != (why ? OT_E_DATA : OT_OK) || (why && !strstr(e.text, why))) fail_msg("%s: %d %s", what, s, e.text);
    if (!why) assert_int_equal(d->n, 2);
    ot_dataset_free(d);
}

static void lies(void **state)
{
    (void)state;
    static const struct {
        const char *what, *mark;
        int k, at, value;
        const char *why;
    } row[] = {
        { "nothing", "PK\1\2", 0, 0, 'P', NULL },
        { "method of the directory", "PK\1\2", 1, 10, 12, "bzip2" },
        { "encrypted", "PK\1\2", 0, 8, 1, "is encrypted" },
        { "encrypted, by the local header", "PK\3\4", 0, 6, 1, "header and directory differ" },
        { "method of the local header", "PK\3\4", 0, 8, 8, "header and directory differ" },
        { "name of the local header", "PK\3\4", 1, 30, 'c', "header and directory differ" },
        { "checksum", "PK\1\2", 0, 16, 0x5A, "checksum" },
        { "size", "PK\1\2", 0, 24, 7, "sizes of a member are inconsistent" },
        { "packed size", "PK\1\2", 0, 22, 1, "is outside the file" },
        { "both members at one place", "PK\1\2", 1, 42, 0, "header and directory differ" },
        { "far away", "PK\1\2", 0, 44, 1, "is outside the file" },
        { "one member too few", "PK\5\6", 0, 10, 1, "several" },
        { "place of the directory", "PK\5\6", 0, 16, 0, "the directory is not at its offset" },
        { "a part of several", "PK\5\6", 0, 4, 1, "several" },
        { "64 bits, without a record for it", "PK\5\6", 0, 19, 0xFF, "the directory is not at its offset" },
    };
    size_t n;
    unsigned char *p = archive(&n), *copy = malloc(n + 100);
    for (int i = 0; i < OT_LEN(row); i++) {
        memcpy(copy, p, n);
        record(copy, n, row[i].mark, row[i].k)[row[i].at] = (unsigned char)row[i].value;
        opens(copy, n, row[i].why, row[i].what);
    }
    memcpy(copy, "PK\3\4", 4);
    memcpy(copy + 4, p, n);
    opens(copy, n + 4, "the directory is not at its offset", "bytes before it");
    memcpy(copy, p, n);
    memcpy(copy + n, "note", 4);
    record(copy, n, "PK\5\6", 0)[20] = 4;
    opens(copy, n + 4, NULL, "with a comment");
    record(copy, n, "PK\5\6", 0)[20] = 3;
    opens(copy, n + 4, "no directory found", "with another comment");
    free(copy);
    free(p);
}

static uint64_t number(const unsigned char *b, int size)
{
    uint64_t v = 0;
    for (int i = 0; i < size; i++) v |= (uint64_t)b[i] << 8 * i;
    return v;
}

static void put(unsigned char **to, uint64_t v, int size)
{
    for (int i = 0; i < size; i++) *(*to)++ = (unsigned char)(v >> 8 * i);
}

/* The directory and the end of ours, written again with every size and offset in 64 bits. */
static void wide(void **state)
{
    (void)state;
    size_t n;
    unsigned char *p = archive(&n), *end = record(p, n, "PK\5\6", 0), *w = malloc(n + 400), *to = w;
    uint64_t begin = number(end + 16, 4), more;
    memcpy(w, p, begin);
    to += begin;
    for (int k = 0; k < 2; k++) {
        const unsigned char *e = record(p, n, "PK\1\2", k);
        size_t name = (size_t)number(e + 28, 2);
        unsigned char *h = to;
        memcpy(to, e, 46 + name);
        memset(h + 20, 0xFF, 8);
        memset(h + 42, 0xFF, 4);
        h[30] = 4 + 3 + 4 + 24;
        to += 46 + name;
        put(&to, 0x7777, 2), put(&to, 3, 2), put(&to, 0, 3); /* an extra field of others before ours */
        put(&to, 1, 2), put(&to, 24, 2);
        put(&to, number(e + 24, 4), 8), put(&to, number(e + 20, 4), 8), put(&to, number(e + 42, 4), 8);
    }
    more = (uint64_t)(to - w);
    put(&to, 0x06064B50, 4), put(&to, 44, 8), put(&to, 45 | 45 << 16, 4), put(&to, 0, 8);
    put(&to, 2, 8), put(&to, 2, 8), put(&to, more - begin, 8), put(&to, begin, 8);
    put(&to, 0x07064B50, 4), put(&to, 0, 4), put(&to, more, 8), put(&to, 1, 4);
    put(&to, 0x06054B50, 4), put(&to, 0, 4), put(&to, 0xFFFFFFFF, 4), put(&to, 0xFFFFFFFF, 4), put(&to, 0xFFFFFFFF, 4),
        put(&to, 0, 2);
    opens(w, (size_t)(to - w), NULL, "64 bits");
    unsigned char *last = record(w, (size_t)(to - w), "PK\1\2", 1) - 8; /* the first member's place: the second's */
    uint64_t second = number(record(p, n, "PK\1\2", 1) + 42, 4);
    unsigned char *place = last;
    put(&place, second, 8);
    opens(w, (size_t)(to - w), "header and directory differ", "64 bits and one place for both");
    place = last;
    put(&place, UINT64_MAX, 8);
    opens(w, (size_t)(to - w), "sizes of a member are inconsistent", "64 bits and nowhere");
    free(w);
    free(p);
}

/* The second member is inside the first, which is a valid member with a whole member as its elements. */
static void overlapping(void **state)
{
    (void)state;
    size_t n, m = 0;
    unsigned char *p = archive(&n);
    const unsigned char *e = record(p, n, "PK\1\2", 0);
    size_t one = (size_t)(record(p, n, "PK\3\4", 1) - p); /* the first member whole */
    ot_tensor t = { .name = "o", .dtype = OT_U8, .rank = 1, .dim = { (int64_t)one }, .data = p };
    char path[128];
    void *q = NULL;
    ot_error err = { 0 };
    snprintf(path, sizeof path, "%s/o.npz", ot_test_folder);
    if (ot_npz_write(path, &t, 1, &err) || ot_read_file(path, 1 << 20, &q, &m, &err)) fail_msg("%s", err.text);
    unsigned char *w = malloc(m + 200), *to = w, *end = record(q, m, "PK\5\6", 0);
    uint64_t begin = number(end + 16, 4), inside = (uint64_t)(record(q, m, "PK\3\4", 1) - (unsigned char *)q);
    memcpy(to, q, (size_t)(end - (unsigned char *)q));
    to += end - (unsigned char *)q;
    memcpy(to, e, 46 + 5);
    to += 42;
    put(&to, inside, 4);
    to += 5;
    uint64_t size = (uint64_t)(to - w) - begin;
    memcpy(to, end, 22);
    to[8] = to[10] = 2;
    to += 12;
    put(&to, size, 4);
    opens(w, (size_t)(to - w) + 6, "overlap", "a member in a member");
    free(w);
    free(q);
    free(p);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, ot_folder_make, ot_folder_remove)

int ot_test_archives(void)
{
    const struct CMUnitTest tests[] = { IN_FOLDER(lies), IN_FOLDER(wide), IN_FOLDER(overlapping) };
    return cmocka_run_group_tests_name("data.archives", tests, NULL, NULL);
}
