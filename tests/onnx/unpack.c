/* unpack.c - unpacks an archive into a temporary folder, and removes the folder. */
#include "tests/onnx/onnx_tests.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(path, 0700) && errno != EEXIST;
        *slash = '/';
        if (failed) return false;
    }
    return true;
}

static bool write_entry(struct archive *a, const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    static char block[1 << 16];
    la_ssize_t n;
    bool ok = true;
    while (ok && (n = archive_read_data(a, block, sizeof block)) != 0)
        ok = n > 0 && fwrite(block, 1, (size_t)n, f) == (size_t)n;
    return fclose(f) == 0 && ok;
}

bool ot_unpack(const char *archive, const char *folder, char why[256])
{
    struct archive *a = archive_read_new();
    struct archive_entry *entry;
    int r = ARCHIVE_FATAL;
    bool ok = a != NULL;
    if (ok) {
        archive_read_support_filter_all(a);
        archive_read_support_format_tar(a);
        ok = archive_read_open_filename(a, archive, 1 << 16) == ARCHIVE_OK;
    }
    while (ok && (r = archive_read_next_header(a, &entry)) == ARCHIVE_OK) {
        if (archive_entry_filetype(entry) != AE_IFREG) continue;
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/%s", folder, archive_entry_pathname(entry));
        ok = n > 0 && (size_t)n < sizeof path && !strstr(path, "/../") && make_parents(path) && write_entry(a, path);
    }
    ok = ok && r == ARCHIVE_EOF;
    if (!ok) {
        const char *said = a ? archive_error_string(a) : NULL;
        snprintf(why, 256, "%s: %s", archive, said ? said : strerror(errno));
    }
    archive_read_free(a);
    return ok;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

void ot_remove_tree(const char *folder) { nftw(folder, remove_one, 32, FTW_DEPTH | FTW_PHYS); }
