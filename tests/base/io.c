/* io.c - reading files and replacing them, with failures at every stage. */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"

static char folder[64], target[128];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/onnxtrain-io-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(target, sizeof target, "%s/out.bin", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[512];
    chmod(folder, 0700);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.')) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (unlink(path)) rmdir(path);
    }
    if (d) closedir(d);
    return rmdir(folder);
}

static int files_there(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d) closedir(d);
    return n;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void assert_holds(const char *path, const char *text)
{
    void *p;
    size_t n;
    ot_error e = { 0 };
    assert_int_equal(ot_read_file(path, 1 << 20, &p, &n, &e), OT_OK);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(p, text, n);
    free(p);
}

static void reading(void **state)
{
    (void)state;
    void *p;
    size_t n;
    char pipe_path[160];
    put(target, "hello");
    assert_holds(target, "hello");
    put(target, "");
    assert_holds(target, "");
    put(target, "hello");
    ot_error e = { 0 };
    assert_int_equal(ot_read_file(target, 4, &p, &n, &e), OT_E_IO);
    assert_null(p);
    assert_non_null(strstr(e.text, target));
    e = (ot_error){ 0 };
    assert_int_equal(ot_read_file(folder, 100, &p, &n, &e), OT_E_IO);
    assert_non_null(strstr(e.text, "folder"));
    e = (ot_error){ 0 };
    assert_int_equal(ot_read_file("/dev/zero", 100, &p, &n, &e), OT_E_IO);
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    e = (ot_error){ 0 };
    assert_int_equal(ot_read_file(pipe_path, 100, &p, &n, &e), OT_E_IO); /* and it does not wait */
    e = (ot_error){ 0 };
    assert_int_equal(ot_read_file("/nowhere/x", 100, &p, &n, &e), OT_E_IO);
    assert_non_null(strstr(e.text, "No such file"));
}

static void replacing(void **state)
{
    (void)state;
    ot_replace *r;
    ot_error e = { 0 };
    put(target, "old");
    chmod(target, 0640);
    assert_int_equal(ot_replace_begin(target, &r, &e), OT_OK);
    assert_int_equal(ot_replace_write(r, "new ", 4, &e), OT_OK);
    assert_int_equal(ot_replace_write(r, NULL, 0, &e), OT_OK);
    assert_int_equal(ot_replace_write(r, "text", 4, &e), OT_OK);
    assert_holds(target, "old");
    assert_int_equal(ot_replace_sync(r, &e), OT_OK);
    void *p;
    size_t n;
    assert_int_equal(ot_read_open(ot_replace_fd(r), target, 100, &p, &n, &e), OT_OK);
    assert_string_equal(p, "new text");
    free(p);
    assert_int_equal(files_there(), 1); /* it has no name yet */
    assert_int_equal(ot_replace_commit(r, &e), OT_OK);
    assert_holds(target, "new text");
    struct stat st;
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(files_there(), 1);
}

static void large_pieces_keep_their_order(void **state)
{
    (void)state;
    enum { N = 300000 };
    unsigned char *want = malloc(N);
    size_t at = 0, n;
    ot_replace *r;
    ot_error e = { 0 };
    void *got;
    for (int i = 0; i < N; i++) want[i] = (unsigned char)(i * 7 + i / 251);
    assert_int_equal(ot_replace_begin(target, &r, &e), OT_OK);
    for (size_t piece = 1; at < N; piece = piece * 3 % 100003 + 1) {
        size_t k = piece < N - at ? piece : N - at;
        assert_int_equal(ot_replace_write(r, want + at, k, &e), OT_OK);
        at += k;
    }
    assert_int_equal(ot_replace_commit(r, &e), OT_OK);
    assert_int_equal(ot_read_file(target, N, &got, &n, &e), OT_OK);
    assert_int_equal(n, N);
    assert_memory_equal(got, want, N);
    free(got);
    free(want);
}

static void aborting_leaves_nothing(void **state)
{
    (void)state;
    ot_replace *r;
    ot_error e = { 0 };
    put(target, "old");
    assert_int_equal(ot_replace_begin(target, &r, &e), OT_OK);
    assert_int_equal(ot_replace_write(r, "new", 3, &e), OT_OK);
    ot_replace_abort(r);
    ot_replace_abort(NULL);
    assert_holds(target, "old");
    assert_int_equal(files_there(), 1);
}

/* A limit of any number of bytes ends some write in the middle; the old file stays. */
static void full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    enum { N = 200000 };
    struct rlimit before, limit;
    char *bytes = calloc(1, N);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    put(target, "old");
    for (rlim_t room = 0; room < N; room += 9973) {
        ot_replace *r;
        ot_error e = { 0 };
        limit = before;
        limit.rlim_cur = room;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(ot_replace_begin(target, &r, &e), OT_OK);
        for (int at = 0; at < N; at += 1000) (void)ot_replace_write(r, bytes + at, 1000, &e);
        ot_status s = ot_replace_commit(r, &e);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(s, OT_E_IO);
        assert_non_null(strstr(e.text, target));
        assert_holds(target, "old");
        assert_int_equal(files_there(), 1);
    }
    signal(SIGXFSZ, handler);
    free(bytes);
}

static void refused_before_anything_is_written(void **state)
{
    (void)state;
    ot_replace *r;
    char path[160];
    const char *bad[] = { "/nowhere/at/all/x", "/dev/null", folder, "/tmp/", "" };
    for (int i = 0; i < OT_LEN(bad); i++) {
        ot_error e = { 0 };
        assert_int_equal(ot_replace_begin(bad[i], &r, &e), OT_E_IO);
        assert_null(r);
    }
    put(target, "old"); /* a file where a folder is needed */
    snprintf(path, sizeof path, "%s/x", target);
    ot_error e = { 0 };
    assert_int_equal(ot_replace_begin(path, &r, &e), OT_E_IO);
    assert_holds(target, "old");
}

/* Root ignores permissions, so the test continues as another user. */
static void read_only_folder(void **state)
{
    (void)state;
    ot_replace *r;
    ot_error e = { 0 };
    bool root = geteuid() == 0;
    put(target, "old");
    assert_int_equal(chmod(folder, 0555), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    ot_status s = ot_replace_begin(target, &r, &e);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(s, OT_E_IO);
    assert_non_null(strstr(e.text, "denied"));
    assert_holds(target, "old");
    assert_int_equal(files_there(), 1);
}

/* The folder is removed while the file is written. */
static void lost_folder(void **state)
{
    (void)state;
    char inner[96], path[128];
    ot_replace *r;
    ot_error e = { 0 };
    snprintf(inner, sizeof inner, "%s/d", folder);
    snprintf(path, sizeof path, "%s/f", inner);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(ot_replace_begin(path, &r, &e), OT_OK);
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(ot_replace_commit(r, &e), OT_E_IO);
}

static ot_status replace_by_new(int at, const char *path, ot_error *e)
{
    *e = (ot_error){ 0 };
    return ot_replace_file(at, NULL, path, "new", 3, e);
}

static bool is_link(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISLNK(st.st_mode);
}

/* A user's path: what the links lead to is replaced, or comes into being. */
static void links_are_followed(void **state)
{
    (void)state;
    char first[160], second[160], none[160];
    ot_error e;
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    snprintf(none, sizeof none, "%s/none", folder);
    put(target, "old");
    assert_int_equal(symlink("second", first), 0); /* seen from the folder of the link */
    assert_int_equal(symlink(target, second), 0);
    assert_int_equal(replace_by_new(AT_FDCWD, first, &e), OT_OK);
    assert_holds(target, "new");
    assert_true(is_link(first) && is_link(second));
    assert_int_equal(files_there(), 3);
    assert_int_equal(unlink(second), 0);
    assert_int_equal(symlink("none", second), 0);
    assert_true(ot_path_same(first, none) && !ot_path_same(first, target));
    assert_int_equal(replace_by_new(AT_FDCWD, first, &e), OT_OK);
    assert_holds(none, "new");
    assert_true(is_link(first) && is_link(second));
}

static void links_in_an_open_folder_are_replaced(void **state)
{
    (void)state;
    char link_path[160];
    ot_error e;
    int dir = open(folder, O_RDONLY | O_DIRECTORY);
    put(target, "old");
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    assert_int_equal(symlink(target, link_path), 0);
    assert_int_equal(replace_by_new(dir, "link", &e), OT_OK);
    close(dir);
    assert_holds(target, "old");
    assert_holds(link_path, "new");
    assert_false(is_link(link_path));
}

/* Links as /dev/stdout is one; to what is no file; in a circle; of another user where all may write. */
static void links_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *to, *text;
    } bad[] = { { "/dev/null", "is a device" },
                { "/tmp", "is a folder" },
                { "link", "symbolic links" },
                { "nowhere/x", "(a link to nowhere/x): its folder cannot be opened" } };
    char link_path[160], self[48];
    ot_error e;
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    for (int i = 0; i < OT_LEN(bad); i++) {
        assert_int_equal(symlink(bad[i].to, link_path), 0);
        assert_int_equal(replace_by_new(AT_FDCWD, link_path, &e), OT_E_IO);
        assert_non_null(strstr(e.text, bad[i].text));
        assert_true(is_link(link_path));
        assert_int_equal(unlink(link_path), 0);
    }
    put(target, "old");
    int fd = open(target, O_RDWR);
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(self, link_path), 0);
    assert_int_equal(replace_by_new(AT_FDCWD, link_path, &e), OT_E_IO);
    assert_non_null(strstr(e.text, "an open file of a process"));
    assert_int_equal(replace_by_new(AT_FDCWD, self, &e), OT_E_IO);
    close(fd);
    assert_holds(target, "old");
    if (geteuid()) return;
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(symlink(target, link_path), 0);
    assert_int_equal(lchown(link_path, 65534, 65534), 0);
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(replace_by_new(AT_FDCWD, link_path, &e), OT_E_IO);
    assert_non_null(strstr(e.text, "of another user"));
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(replace_by_new(AT_FDCWD, link_path, &e), OT_OK);
    assert_holds(target, "new");
}

/* Its folder would allow to replace it, and the permissions say not to. */
static void read_only_file(void **state)
{
    (void)state;
    ot_error e;
    bool root = geteuid() == 0;
    put(target, "old");
    assert_int_equal(chmod(target, 0444), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    ot_status s = replace_by_new(AT_FDCWD, target, &e);
    int dir = open(folder, O_RDONLY | O_DIRECTORY);
    ot_error ours;
    ot_status t = replace_by_new(dir, "other", &ours);
    if (!t) t = fchmodat(dir, "other", 0444, 0) ? OT_E_IO : replace_by_new(dir, "other", &ours);
    close(dir);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(s, OT_E_IO);
    assert_non_null(strstr(e.text, "exists and cannot be written"));
    assert_holds(target, "old");
    assert_int_equal(t, OT_OK); /* a file of a run, under any umask */
}

static void odd_names(void **state)
{
    (void)state;
    char path[400], name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    const char *odd[] = { "with space", "línea\nnueva", "%s%n", name };
    for (int i = 0; i < OT_LEN(odd); i++) {
        ot_replace *r;
        ot_error e = { 0 };
        snprintf(path, sizeof path, "%s/%s", folder, odd[i]);
        assert_int_equal(ot_replace_begin(path, &r, &e), OT_OK);
        assert_int_equal(ot_replace_write(r, "x", 1, &e), OT_OK);
        assert_int_equal(ot_replace_commit(r, &e), OT_OK);
        assert_holds(path, "x");
    }
}

/* Two files that appear together: the second name exists already, and the first file is removed again. */
static void together(void **state)
{
    (void)state;
    char path[160];
    int dir = open(folder, O_RDONLY | O_DIRECTORY);
    ot_replace *a, *b;
    ot_error e = { 0 };
    assert_true(dir >= 0);
    assert_int_equal(ot_replace_begin_at(dir, "a", &a, &e), OT_OK);
    assert_int_equal(ot_replace_begin_at(dir, "b", &b, &e), OT_OK);
    assert_int_equal(ot_replace_write(a, "x", 1, &e), OT_OK);
    assert_int_equal(files_there(), 0);
    assert_int_equal(ot_replace_place_new(a, &e), OT_OK);
    assert_true(ot_replace_placed(a));
    snprintf(path, sizeof path, "%s/b", folder);
    put(path, "other");
    assert_int_equal(ot_replace_place_new(b, &e), OT_E_IO);
    assert_false(ot_replace_placed(b));
    ot_replace_undo(a);
    ot_replace_undo(b);
    assert_int_equal(files_there(), 1);
    assert_holds(path, "other");
    /* The folder is moved: a file that was begun in it is completed in it. */
    char moved[160];
    e = (ot_error){ 0 };
    snprintf(moved, sizeof moved, "%s-moved", folder);
    assert_int_equal(ot_replace_begin_at(dir, "c", &a, &e), OT_OK);
    assert_int_equal(rename(folder, moved), 0);
    assert_int_equal(ot_replace_commit(a, &e), OT_OK);
    assert_int_equal(rename(moved, folder), 0);
    assert_int_equal(files_there(), 2);
    close(dir);
}

static void probing(void **state)
{
    (void)state;
    ot_error e = { 0 };
    assert_int_equal(ot_replace_probe(target, 0, &e), OT_OK);
    assert_int_equal(files_there(), 0);
    put(target, "old");
    assert_int_equal(ot_replace_probe(target, 0, &e), OT_OK);
    assert_holds(target, "old");
    assert_int_equal(files_there(), 1);
    const char *bad[] = { "/proc/out.onnx", "/nowhere/x", "/dev/null", folder };
    for (int i = 0; i < OT_LEN(bad); i++) {
        e = (ot_error){ 0 };
        assert_int_equal(ot_replace_probe(bad[i], 0, &e), OT_E_IO);
    }
    e = (ot_error){ 0 };
    assert_int_equal(ot_replace_probe(target, UINT64_MAX, &e), OT_E_IO); /* no disk has that much space */
    assert_non_null(strstr(e.text, "free some space"));
    assert_int_equal(files_there(), 1);
}

static void one_file_many_names(void **state)
{
    (void)state;
    char other[160], linked[160], around[160], none[160];
    snprintf(other, sizeof other, "%s/hard", folder);
    snprintf(linked, sizeof linked, "%s/soft", folder);
    snprintf(around, sizeof around, "%s/../%s/none", folder, strrchr(folder, '/') + 1);
    snprintf(none, sizeof none, "%s/none", folder);
    put(target, "x");
    assert_int_equal(link(target, other), 0);
    assert_int_equal(symlink(target, linked), 0);
    assert_true(ot_path_same(target, other) && ot_path_same(linked, other));
    assert_true(ot_path_same(none, around)); /* there is none yet */
    assert_false(ot_path_same(none, target) || ot_path_same(target, folder));
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int ot_test_io(void)
{
    const struct CMUnitTest io[] = {
        IN_FOLDER(reading),
        IN_FOLDER(replacing),
        IN_FOLDER(large_pieces_keep_their_order),
        IN_FOLDER(aborting_leaves_nothing),
        IN_FOLDER(full_disk_leaves_the_old_file),
        IN_FOLDER(refused_before_anything_is_written),
        IN_FOLDER(read_only_folder),
        IN_FOLDER(lost_folder),
        IN_FOLDER(links_are_followed),
        IN_FOLDER(links_in_an_open_folder_are_replaced),
        IN_FOLDER(links_that_are_refused),
        IN_FOLDER(read_only_file),
        IN_FOLDER(odd_names),
        IN_FOLDER(together),
        IN_FOLDER(probing),
        IN_FOLDER(one_file_many_names),
    };
    return cmocka_run_group_tests(io, NULL, NULL);
}
