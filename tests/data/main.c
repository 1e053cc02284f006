/* main.c - runs the tests of runtime/data; files in memory and in temporary folders. */
#include "test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"

/* test_data [good]: good files alone. */
int main(int argc, char **argv)
{
    bool good = argc > 1 && !strcmp(argv[1], "good");
    return ot_test_formats() + (good ? 0 : ot_test_hostile()) + ot_test_sets() + ot_test_batches() +
           ot_test_normalize() + ot_test_csv() + ot_test_archives() + ot_test_split() + ot_test_views() +
           ot_test_pictures() + ot_test_table() + ot_test_tokens() + ot_test_several() + ot_test_tfrecord() +
           ot_test_texts() + ot_test_sounds();
}

unsigned char *ot_fixture_load(const char *name, size_t *n)
{
    char path[512];
    void *p;
    ot_error e = { 0 };
    snprintf(path, sizeof path, FIXTURES "%s", name);
    if (ot_read_file(path, 1 << 20, &p, n, &e)) fail_msg("%s", e.text);
    return p;
}

void ot_memory_begin(memory_file *m)
{
    m->fd = memfd_create("fixture", MFD_CLOEXEC);
    assert_true(m->fd >= 0);
    snprintf(m->path, sizeof m->path, "/proc/self/fd/%d", m->fd);
}

void ot_memory_set(const memory_file *m, const void *bytes, size_t n)
{
    assert_int_equal(ftruncate(m->fd, 0), 0);
    assert_int_equal(pwrite(m->fd, bytes, n, 0), n);
}

void ot_memory_end(memory_file *m) { close(m->fd); }

char ot_test_folder[64];

int ot_folder_make(void **state)
{
    (void)state;
    strcpy(ot_test_folder, "/tmp/onnxtrain-data-XXXXXX");
    return mkdtemp(ot_test_folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

int ot_folder_remove(void **state)
{
    (void)state;
    return nftw(ot_test_folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Makes the folders in the name, too. */
void ot_folder_put(const char *name, const void *bytes, size_t n)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", ot_test_folder, name);
    for (char *p = path + strlen(ot_test_folder) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}
