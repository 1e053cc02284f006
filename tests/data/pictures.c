/* pictures.c - images in class folders and in tar files: classes, parts, and what is wrong with them. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/picture/picture.h"

enum { SIDE = 4, PIXELS = 3 * SIDE * SIDE, ROOM = 1 << 16 };

/* A PNG, all of whose bytes are `value`. */
static uint8_t *png(int value, size_t *n)
{
    uint8_t pixels[PIXELS], *out;
    ot_error e = { 0 };
    memset(pixels, value, sizeof pixels);
    if (ot_picture_png(pixels, SIDE, SIDE, 3, &out, n, &e)) fail_msg("%s", e.text);
    return out;
}

static void put_png(const char *name, int value)
{
    size_t n;
    uint8_t *p = png(value, &n);
    char path[256];
    snprintf(path, sizeof path, "%s/%s", ot_test_folder, name);
    for (char *s = path + strlen(ot_test_folder) + 1; (s = strchr(s, '/')); s++) {
        *s = '\0';
        mkdir(path, 0700);
        *s = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
    free(p);
}

static ot_dataset *open_part(const char *path, ot_split split, ot_status expected, ot_error *e)
{
    ot_dataset *d;
    *e = (ot_error){ 0 };
    ot_status s = ot_dataset_open(path, split, NULL, &d, e);
    if (s != expected) fail_msg("status %d: %s", (int)s, e->text);
    return d;
}

static int first_byte(const ot_dataset *d, int64_t i)
{
    const ot_image_source *s = ot_dataset_find(d, "")->source;
    ot_image_room room = { 0 };
    ot_image x;
    ot_error e = { 0 };
    if (s->read(s, i, 3, &room, &x, &e)) fail_msg("%s", e.text);
    assert_int_equal(x.height, SIDE);
    int v = x.data[0];
    ot_image_room_free(&room);
    return v;
}

static void classes_and_parts(void **state)
{
    (void)state;
    ot_error e;
    put_png("set/train/b/1.png", 10);
    put_png("set/train/b/deep/2.png", 20);
    put_png("set/train/a-b/1.png", 30);
    put_png("set/train/a/2.png", 40);
    put_png("set/train/.hidden/2.png", 50);
    put_png("set/Test_Data/b/2.png", 60);
    char path[200];
    snprintf(path, sizeof path, "%s/set", ot_test_folder);
    ot_dataset *d = open_part(path, OT_SPLIT_TRAIN, OT_OK, &e);
    static const int value[] = { 40, 30, 10, 20 };
    const int64_t *y = ot_dataset_find(d, "target")->t.data;
    assert_int_equal(d->samples, 4);
    assert_int_equal(d->n_classes, 3);
    assert_string_equal(d->class_name[0], "a"); /* as a list of folders is sorted, not of paths */
    assert_string_equal(d->class_name[1], "a-b");
    for (int i = 0; i < 4; i++) assert_int_equal(first_byte(d, i), value[i]);
    for (int i = 0; i < 4; i++) assert_int_equal(y[i], i < 2 ? i : 2);
    uint64_t hash = d->hash;
    ot_dataset *v = open_part(path, OT_SPLIT_TEST, OT_OK, &e);
    assert_int_equal(v->samples, 1);
    assert_int_equal(ot_dataset_match(v, d, &e), OT_OK);
    assert_int_equal(*(const int64_t *)ot_dataset_find(v, "target")->t.data, 2);
    ot_dataset_free(v);
    assert_null(open_part(path, OT_SPLIT_VAL, OT_OK, &e));
    ot_dataset_free(d);
    put_png("set/train/b/1.png", 11); /* another time of change */
    d = open_part(path, OT_SPLIT_TRAIN, OT_OK, &e);
    assert_int_not_equal(d->hash, hash);
    ot_dataset_free(d);
}

static void what_is_wrong(void **state)
{
    (void)state;
    ot_error e;
    char path[200], to[200];
    put_png("set/a/1.png", 10);
    put_png("outside.png", 10);
    snprintf(path, sizeof path, "%s/set", ot_test_folder);
    snprintf(to, sizeof to, "%s/set/b", ot_test_folder);
    mkdir(to, 0700);
    put_png("set/c/1.png", 10);
    open_part(path, OT_SPLIT_TRAIN, OT_E_DATA, &e);
    assert_non_null(strstr(e.text, "set/b/: the class has no images"));
    put_png("set/b/1.png", 10);
    snprintf(to, sizeof to, "%s/set/b/link.png", ot_test_folder);
    assert_int_equal(symlink("../c/1.png", to), 0);
    ot_dataset *d = open_part(path, OT_SPLIT_TRAIN, OT_OK, &e);
    assert_int_equal(d->samples, 4);
    ot_dataset_free(d);
    unlink(to);
    assert_int_equal(symlink("../../outside.png", to), 0);
    open_part(path, OT_SPLIT_TRAIN, OT_E_DATA, &e);
    assert_non_null(strstr(e.text, "b/link.png: is a link that leads out"));
    unlink(to);
    put_png("set/\xff/1.png", 10);
    open_part(path, OT_SPLIT_TRAIN, OT_E_DATA, &e);
    assert_non_null(strstr(e.text, "set/\\xff: the name of this class is not UTF-8"));
    put_png("set/top.png", 10);
    open_part(path, OT_SPLIT_TRAIN, OT_E_DATA, &e);
    assert_non_null(strstr(e.text, "is in no class folder"));
}

static void parts_beside_other_folders(void **state)
{
    (void)state;
    ot_error e;
    char path[200], name[220];
    put_png("set/train/a/1.png", 10);
    put_png("set/val/a/1.png", 10);
    put_png("set/more/a/1.png", 10);
    snprintf(path, sizeof path, "%s/set", ot_test_folder);
    open_part(path, OT_SPLIT_TRAIN, OT_E_DATA, &e);
    assert_non_null(strstr(e.text, "'train' and 'val', each with class folders, but also 'more'"));
    /* Classes that are called so: a vehicle, a kind of picture. */
    put_png("vehicles/train/1.png", 10);
    put_png("vehicles/test/1.png", 10);
    put_png("vehicles/bus/1.png", 10);
    snprintf(path, sizeof path, "%s/vehicles", ot_test_folder);
    ot_dataset *d = open_part(path, OT_SPLIT_TRAIN, OT_OK, &e);
    assert_int_equal(d->n_classes, 3);
    ot_dataset_free(d);
    static const struct {
        const char *name, *bytes, *says;
    } packed[] = { { "set.tar.gz", "abcdef", "is a compressed archive" },
                   { "set.tgz", "abcdef", "is a compressed archive" },
                   { "set.csv.xz",
                     "\xfd"
                     "7zXZ\0",
                     "is compressed by xz" },
                   { "set.csv.bz2", "BZh91A", "is compressed by bzip2" },
                   { "set.7z", "7z\xbc\xaf'\x1c", "7-Zip or RAR" },
                   { "set.dat", "abcdef", "idx, tar, zip, or a folder" } };
    for (int i = 0; i < (int)(sizeof packed / sizeof *packed); i++) {
        ot_folder_put(packed[i].name, packed[i].bytes, 6);
        snprintf(name, sizeof name, "%s/%s", ot_test_folder, packed[i].name);
        open_part(name, OT_SPLIT_TRAIN, OT_E_DATA, &e);
        if (!strstr(e.text, packed[i].says)) fail_msg("%s", e.text);
    }
}

/* ---- tar ---- */

static size_t put_header(uint8_t *p, const char *name, size_t size, char type)
{
    unsigned sum = 0;
    memset(p, 0, 512);
    strcpy((char *)p, name);
    snprintf((char *)p + 124, 12, "%011o", (unsigned)size);
    p[156] = (uint8_t)type;
    memcpy(p + 257, "ustar\00000", 8);
    memset(p + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += p[i];
    snprintf((char *)p + 148, 8, "%06o", sum);
    return 512;
}

static size_t put_member(uint8_t *p, const char *name, const void *bytes, size_t n, char type)
{
    size_t at = put_header(p, name, n, type);
    memset(p + at, 0, (n + 511) / 512 * 512);
    if (n) memcpy(p + at, bytes, n);
    return at + (n + 511) / 512 * 512;
}

/* Two classes; the second name is a GNU long name, the third a pax record. */
static size_t make_tar(uint8_t *p)
{
    static const char pax[] = "18 path=b/pax.png\n";
    size_t at = 0, n;
    for (int i = 0; i < 3; i++) {
        uint8_t *image = png(10 * (i + 1), &n);
        if (i == 1) at += put_member(p + at, "././@LongLink", "b/long.png", 11, 'L');
        if (i == 2) at += put_member(p + at, "x", pax, sizeof pax - 1, 'x');
        at += put_member(p + at, i ? "short" : "./a/1.png", image, n, '0');
        free(image);
    }
    memset(p + at, 0, 1024);
    return at + 512;
}

static void put_tar(char path[200], const void *bytes, size_t n)
{
    snprintf(path, 200, "%s/set.tar", ot_test_folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void archives_are_read_in_place(void **state)
{
    (void)state;
    ot_error e;
    char path[200];
    uint8_t *p = calloc(1, ROOM);
    size_t n = make_tar(p);
    put_tar(path, p, n);
    ot_dataset *d = open_part(path, OT_SPLIT_TRAIN, OT_OK, &e);
    assert_int_equal(d->samples, 3);
    assert_int_equal(d->n_classes, 2);
    for (int i = 0; i < 3; i++) assert_int_equal(first_byte(d, i), 10 * (i + 1));
    ot_dataset_free(d);
    for (size_t keep = 0; keep < n; keep += OT_SPARSE) { /* truncations */
        put_tar(path, p, keep);
        open_part(path, OT_SPLIT_TRAIN, OT_E_DATA, &e);
        assert_non_null(strstr(e.text, path));
    }
    free(p);
}

/* Bits of headers and of the images: an error with the file's name, or images as they are. */
static void archives_with_flipped_bits(void **state)
{
    (void)state;
    char path[200];
    uint8_t *p = calloc(1, ROOM);
    size_t n = make_tar(p);
    for (size_t bit = 0; bit < 8 * n; bit += 3 * OT_SPARSE_BITS) {
        ot_dataset *d = NULL;
        ot_error e = { 0 };
        p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        put_tar(path, p, n);
        ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e);
        if (s) assert_true(s == OT_E_DATA && strstr(e.text, path));
        for (int64_t i = 0; d && i < d->samples; i++) {
            const ot_image_source *of = ot_dataset_find(d, "")->source;
            ot_image_room room = { 0 };
            ot_image x;
            ot_status r = of->read(of, i, 3, &room, &x, &e);
            assert_true(!r || (r == OT_E_DATA && strstr(e.text, path)));
            ot_image_room_free(&room);
        }
        ot_dataset_free(d);
        p[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(p);
}

/* ---- zip ---- */

static const char *const zips[] = { "stored", "deflated", "streamed" };

static uint8_t *read_zip(int i, size_t *n, char path[200])
{
    char from[300];
    void *p;
    ot_error e = { 0 };
    snprintf(from, sizeof from, FIXTURES "images-%s.zip", zips[i]);
    snprintf(path, 200, "%s/set.zip", ot_test_folder);
    if (ot_read_file(from, ROOM, &p, n, &e)) fail_msg("%s", e.text);
    return p;
}

static void zips_are_read_in_place(void **state)
{
    (void)state;
    ot_error e;
    char path[200];
    for (int z = 0; z < 3; z++) {
        size_t n;
        uint8_t *p = read_zip(z, &n, path);
        ot_folder_put("set.zip", p, n);
        ot_dataset *d = open_part(path, OT_SPLIT_TRAIN, OT_OK, &e);
        assert_int_equal(d->samples, 3);
        assert_int_equal(d->n_classes, 2);
        for (int i = 0; i < 3; i++) assert_int_equal(first_byte(d, i), 10 * (i + 1));
        ot_dataset_free(d);
        for (size_t keep = 0; keep < n; keep += OT_SPARSE) {
            ot_folder_put("set.zip", p, keep);
            open_part(path, OT_SPLIT_TRAIN, OT_E_DATA, &e);
            assert_non_null(strstr(e.text, path));
        }
        free(p);
    }
}

/* Bits of headers, names and images: an error with the file's name, or the images, since all content has a checksum. */
static void zips_with_flipped_bits(void **state)
{
    (void)state;
    char path[200];
    for (int z = 0; z < 3; z++) {
        size_t n;
        uint8_t *p = read_zip(z, &n, path);
        for (size_t bit = 0; bit < 8 * n; bit += OT_SPARSE_BITS) {
            ot_dataset *d = NULL;
            ot_error e = { 0 };
            p[bit / 8] ^= (uint8_t)(1 << bit % 8);
            ot_folder_put("set.zip", p, n);
            ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, NULL, &d, &e);
            if (s) assert_true(s == OT_E_DATA && strstr(e.text, path));
            for (int64_t i = 0; d && i < d->samples; i++) {
                const ot_image_source *of = ot_dataset_find(d, "")->source;
                ot_image_room room = { 0 };
                ot_image x;
                ot_status r = of->read(of, i, 3, &room, &x, &e);
                assert_true(r ? r == OT_E_DATA && strstr(e.text, path) != NULL : x.data[0] % 10 == 0);
                ot_image_room_free(&room);
            }
            ot_dataset_free(d);
            p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        free(p);
    }
}

static void archives_that_hold_links(void **state)
{
    (void)state;
    ot_error e;
    char path[200];
    uint8_t *p = calloc(1, ROOM);
    size_t n = make_tar(p) - 512;
    n += put_header(p + n, "b/link.png", 0, '1');
    put_tar(path, p, n + 512);
    open_part(path, OT_SPLIT_TRAIN, OT_E_DATA, &e);
    assert_non_null(strstr(e.text, "b/link.png: is a link"));
    n = make_tar(p) - 512;
    n += put_member(p + n, "a/1.png", p, 512, '0');
    put_tar(path, p, n + 512);
    open_part(path, OT_SPLIT_TRAIN, OT_E_DATA, &e);
    assert_non_null(strstr(e.text, "contains a/1.png twice"));
    free(p);
}

int ot_test_pictures(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(classes_and_parts, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(what_is_wrong, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(parts_beside_other_folders, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(archives_are_read_in_place, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(archives_with_flipped_bits, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(zips_are_read_in_place, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(zips_with_flipped_bits, ot_folder_make, ot_folder_remove),
        cmocka_unit_test_setup_teardown(archives_that_hold_links, ot_folder_make, ot_folder_remove),
    };
    return cmocka_run_group_tests_name("pictures", tests, NULL, NULL);
}
