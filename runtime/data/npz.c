/* npz.c - numpy's archive of arrays: a zip whose members are .npy files.
 *
 * Spec    Members are stored or deflated; they are found through the central directory.  Refused:
 *         encrypted members, other methods, members that are no .npy, two of one name.  An archive
 *         without members is an empty data set.  libarchive takes a name with backslashes and no
 *         slash to be from Windows and gives it slashes.
 * Memory  No member can claim more than deflate could make of the whole file, nor all together: what
 *         overlapping members would multiply is refused before it is allocated. */
#include "runtime/data/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

enum { DEFLATE_MOST = 1032, MOST_MEMBERS = 1 << 16 };

static ot_status archive_fail(struct archive *z, const char *name, ot_error *err)
{
    int number = archive_errno(z);
    ot_status s = number == EIO ? OT_E_IO : number == ENOMEM ? OT_E_NOMEM : OT_E_DATA;
    const char *text = archive_error_string(z);
    return ot_fail(err, s, "%s: the archive is damaged: %s", name, text ? text : "no reason given");
}

static int64_t member_read(ot_source *s, void *p, int64_t n, ot_error *err)
{
    struct archive *z = s->state;
    int64_t done = 0;
    while (done < n) {
        int64_t want = n - done < 1 << 28 ? n - done : 1 << 28;
        la_ssize_t got = archive_read_data(z, (char *)p + done, (size_t)want);
        if (got == ARCHIVE_RETRY) continue;
        if (got < 0) {
            archive_fail(z, s->name, err);
            return -1;
        }
        if (got == 0) break;
        done += got;
    }
    return done;
}

/* Bytes the member says it has, taken from *budget. */
static ot_status member_size(struct archive_entry *e, const char *name, int64_t *budget,
                             int64_t *size, ot_error *err)
{
    if (!archive_entry_size_is_set(e))
        return ot_fail(err, OT_E_DATA, "%s: its size is not in the archive's directory", name);
    *size = archive_entry_size(e);
    if (*size < 0 || *size > *budget)
        return ot_fail(err, OT_E_DATA, "%s: claims %lld bytes, more than the archive can hold",
                       name, (long long)*size);
    *budget -= *size;
    return OT_OK;
}

static ot_status read_member(struct archive *z, struct archive_entry *e, const char *path,
                             ot_dataset *d, int64_t *budget, ot_error *err)
{
    const char *member = archive_entry_pathname_utf8(e);
    size_t n = member ? strlen(member) : 0;
    if (n < 4 || strcmp(member + n - 4, ".npy"))
        return ot_fail(err, OT_E_DATA, "%s: member '%s' is no .npy array", path,
                       member ? member : "?");
    const char *name = ot_arena_printf(d->arena, "%s: %s", path, member);
    char *array = ot_arena_strdup(d->arena, member);
    if (!name || !array) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    array[n - 4] = 0;
    const char *method = archive_format_name(z);
    if (archive_entry_is_encrypted(e) || !method ||
        (!strstr(method, "(deflation)") && !strstr(method, "(uncompressed)")))
        return ot_fail(err, OT_E_DATA, "%s: is %s; a stored or deflated member is needed", name,
                       archive_entry_is_encrypted(e) ? "encrypted"
                       : method                      ? method
                                                     : "of no known method");
    ot_source s = {.name = name, .state = z, .read = member_read};
    OT_TRY(member_size(e, name, budget, &s.most, err));
    ot_array *a = ot_dataset_add(d, array);
    if (!a) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    return ot_npy_read(&s, d, a, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ot_status check_names(const ot_dataset *d, const char *path, ot_error *err)
{
    if (d->n < 2) return OT_OK;
    const char **name = malloc((size_t)d->n * sizeof *name);
    if (!name) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    for (int i = 0; i < d->n; i++) name[i] = d->array[i].t.name;
    qsort(name, (size_t)d->n, sizeof *name, by_name);
    ot_status s = OT_OK;
    for (int i = 1; i < d->n && !s; i++)
        if (!strcmp(name[i - 1], name[i]))
            s = ot_fail(err, OT_E_DATA, "%s: has two arrays named '%s'", path, name[i]);
    free(name);
    return s;
}

static ot_status read_members(struct archive *z, const char *path, int64_t size, ot_dataset *d,
                              ot_error *err)
{
    int64_t budget;
    if (!ot_mul(size, DEFLATE_MOST, &budget)) budget = INT64_MAX;
    for (int k = 0;; k++) {
        struct archive_entry *e = NULL;
        int rc = archive_read_next_header(z, &e);
        if (rc == ARCHIVE_EOF) break;
        if (rc == ARCHIVE_RETRY) continue;
        if (rc != ARCHIVE_OK) return archive_fail(z, path, err);
        if (k == MOST_MEMBERS)
            return ot_fail(err, OT_E_DATA, "%s: has more than %d members", path, MOST_MEMBERS);
        OT_TRY(read_member(z, e, path, d, &budget, err));
    }
    return check_names(d, path, err);
}

/* How many members the end record counts; 0xFFFF: the zip64 record knows.  -1: there is none.
 * libarchive passes over entries it cannot make sense of, so the count is held against what came. */
static int count_members(int fd, int64_t size)
{
    enum { END = 22, MOST = END + 0xFFFF };
    int64_t n = size < MOST ? size : MOST;
    unsigned char *b = malloc(MOST);
    int count = -1;
    if (b && pread(fd, b, (size_t)n, size - n) == n)
        for (int64_t i = n - END; i >= 0 && count < 0; i--)
            if (!memcmp(b + i, "PK\5\6", 4) && i + END + (b[i + 20] | b[i + 21] << 8) == n)
                count = b[i + 10] | b[i + 11] << 8;
    free(b);
    return count;
}

static ot_status read_archive(int fd, const char *path, int64_t size, ot_dataset *d, ot_error *err)
{
    int count = count_members(fd, size);
    if (count < 0) return ot_fail(err, OT_E_DATA, "%s: is cut off: its directory is missing", path);
    if (count == 0 && size == 22) return OT_OK; /* how numpy writes no arrays */
    struct archive *z = archive_read_new();
    if (!z) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    /* Names are UTF-8; libarchive asks the thread's locale.  Without this one, names in ASCII work. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    ot_status s = OT_OK;
    if (archive_read_support_format_zip_seekable(z) != ARCHIVE_OK ||
        archive_read_open_fd(z, fd, 256 << 10) != ARCHIVE_OK)
        s = archive_fail(z, path, err);
    if (!s) s = read_members(z, path, size, d, err);
    if (!s && count != 0xFFFF && d->n != count)
        s = ot_fail(err, OT_E_DATA, "%s: the archive is damaged: %d of its %d members were found",
                    path, d->n, count);
    archive_read_free(z);
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    return s;
}

ot_status ot_npz_open(const char *path, ot_dataset *d, ot_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        ot_status s = ot_fail(err, OT_E_IO, "%s: cannot be opened as a regular file", path);
        if (fd >= 0) close(fd);
        return s;
    }
    ot_status s = read_archive(fd, path, st.st_size, d, err);
    close(fd);
    return s;
}
