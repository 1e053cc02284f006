/* main.c - makes every allocation on every path fail, once alone and once with all later ones.
 *
 *     test_nomem [PATH...]         those with different call stacks
 *     test_nomem --all [PATH...]   each
 *     test_nomem --fork [PATH...]  in processes of their own, so that one crash does not hide the next
 *
 * What must hold each time: OT_E_NOMEM with a text, or success with the right results; a file that is written over
 * another is the old one or the new one, whole; no other file is left than of a run that went well.  That nothing leaks
 * is said by the address sanitizer at the end. */
#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nomem.h"

enum { MOST_FILES = 32 };

/* ---- the folder ---------------------------------------------------------------- */

typedef struct file {
    char name[600];
    char *bytes;
    size_t n;
} file;
typedef struct folder {
    int n;
    file f[MOST_FILES];
} folder;

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *p = NULL;
    if (!f || fseek(f, 0, SEEK_END) || !(p = malloc((size_t)ftell(f) + 1))) fail_msg("%s: cannot be read", path);
    *n = (size_t)ftell(f);
    rewind(f);
    *n = fread(p, 1, *n, f);
    fclose(f);
    return p;
}

static void put_all(const char *path, const file *of)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(of->bytes, 1, of->n, f) != of->n || fclose(f)) fail_msg("%s: cannot be written", path);
}

/* Everything below dir. */
static void look(const char *dir, folder *to)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[600];
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (stat(path, &st)) continue;
        if (S_ISDIR(st.st_mode)) {
            look(path, to);
            continue;
        }
        assert_true(to->n < MOST_FILES);
        file *f = &to->f[to->n++];
        strcpy(f->name, path);
        f->bytes = read_all(path, &f->n);
    }
    closedir(d);
}

static void forget(folder *f)
{
    for (int i = 0; i < f->n; i++) free(f->f[i].bytes);
    f->n = 0;
}

static const file *find(const folder *in, const char *name)
{
    for (int i = 0; i < in->n; i++)
        if (!strcmp(in->f[i].name, name)) return &in->f[i];
    return NULL;
}

static bool same(const file *a, const file *b) { return a->n == b->n && !memcmp(a->bytes, b->bytes, a->n); }

/* Lines: a log has times in it. */
static long lines(const file *f)
{
    long n = 0;
    for (size_t i = 0; i < f->n; i++) n += f->bytes[i] == '\n';
    return n;
}

static void empty(const char *dir, const folder *but)
{
    folder now = { 0 };
    look(dir, &now);
    for (int i = 0; i < now.n; i++)
        if (!find(but, now.f[i].name)) unlink(now.f[i].name);
    forget(&now);
}

/* ---- one path ---------------------------------------------------------------------- */

typedef struct trial {
    const way *p;
    folder before, right; /* the files before and after a successful run */
    file old;             /* what is written over */
    char *text;           /* of the run that went well */
    long tried, bad;
} trial;

static void wrong(trial *t, long at, bool after, const char *what, const char *more)
{
    if (t->bad++ >= 20) return;
    fprintf(stderr, "FAILED: %s, allocation %ld%s: %s %s\n", t->p->name, at, after ? " and all behind it" : "", what,
            more);
    allocations_show();
}

static void clean(trial *t)
{
    empty(".", &t->before);
    if (t->p->out) put_all(t->p->out, &t->old);
}

static void check_folder(trial *t, ot_status s, long at, bool after)
{
    folder now = { 0 };
    char out[600] = "";
    if (t->p->out) snprintf(out, sizeof out, "./%s", t->p->out);
    look(".", &now);
    for (int i = 0; i < now.n; i++) {
        const file *f = &now.f[i], *r = find(&t->right, f->name);
        bool log = strstr(f->name, ".jsonl") || strstr(f->name, ".conf") || strstr(f->name, ".csv");
        bool timed =
            strstr(f->name, "/report.html") || strstr(f->name, "/checkpoint-"); /* seconds of the run are in it */
        if (!r) wrong(t, at, after, "is left:", f->name);
        else if (!strcmp(f->name, out) && s && same(f, &t->old)) continue;
        else if (timed) continue;
        else if (s && log) continue; /* as far as the run went */
        else if (log ? lines(f) != lines(r) : !same(f, r))
            wrong(t, at, after, "is neither the old one nor the right one:", f->name);
    }
    for (int i = 0; i < t->right.n; i++) {
        const char *name = t->right.f[i].name;
        if ((!s || !strcmp(name, out)) && !find(&now, name)) wrong(t, at, after, "is missing:", name);
    }
    forget(&now);
}

static trial *now_trying;
static long now_at;
static bool now_after;

static void crashed(int signal)
{
    wrong(now_trying, now_at, now_after, "it crashes:", strsignal(signal));
    void *at[16];
    backtrace_symbols_fd(at, backtrace(at, 16), 2);
    _exit(1);
}

/* false: the path has fewer allocations. */
static bool without_here(trial *t, long at, bool after)
{
    char *text = NULL;
    ot_error err = { 0 };
    clean(t);
    allocations_begin(at, after);
    ot_status s = t->p->go(&text, &err);
    allocations_end();
    t->tried++;
    if (s && s != err.status) wrong(t, at, after, "another status is returned than is told:", err.text);
    else if (s && s != OT_E_NOMEM) wrong(t, at, after, "another status:", err.text);
    else if (s && !*err.text) wrong(t, at, after, "no text", "");
    else if (!s && t->text && (!text || (!t->p->varies && strcmp(text, t->text))))
        wrong(t, at, after, "another text:", text ? text : "none");
    check_folder(t, s, at, after);
    free(text);
    return allocations_failed();
}

static bool forks;

static bool without(trial *t, long at, bool after)
{
    int state = 0;
    pid_t child;
    now_trying = t;
    now_at = at;
    now_after = after;
    signal(SIGSEGV, crashed);
    signal(SIGABRT, crashed);
    if (!forks) return without_here(t, at, after);
    if (!(child = fork())) {
        t->bad = 0;
        bool reached = without_here(t, at, after);
        _exit(t->bad ? 1 : reached ? 0 : 2);
    }
    waitpid(child, &state, 0);
    t->tried++;
    bool good = WIFEXITED(state) && WEXITSTATUS(state) != 1;
    t->bad += !good;
    return !good || WEXITSTATUS(state) != 2;
}

static void run_right(trial *t)
{
    ot_error err = { 0 };
    for (int again = 0; again < 2; again++) { /* the first time libraries prepare themselves */
        free(t->text);
        t->text = NULL;
        clean(t);
        allocations_begin(-1, false);
        ot_status s = t->p->go(&t->text, &err);
        allocations_end();
        if (s) fail_msg("%s: %s", t->p->name, err.text);
    }
    look(".", &t->right);
}

static bool all;

static void each_fails(void **state)
{
    const way *p = *state;
    trial t = { .p = p };
    ot_error err = { 0 };
    if (p->prepare && p->prepare(&err)) fail_msg("%s", err.text);
    look(".", &t.before);
    bool arrays = p->out && strstr(p->out, ".npz"), image = p->out && strstr(p->out, ".png");
    t.old.bytes = read_all(arrays  ? OT_SOURCE_ROOT "/tests/data/fixtures/none.npz"
                           : image ? OT_SOURCE_ROOT "/tests/picture/fixtures/grey.png"
                                   : OT_SOURCE_ROOT "/models/mlp.onnx",
                           &t.old.n);
    run_right(&t);
    long *at, n = allocations_different(&at);
    assert_true(n > 0);
    for (int after = 0; after <= 1; after++) {
        if (all) {
            for (long k = 0; without(&t, k, after);) k++;
            t.tried--; /* the last one went well */
        } else {
            for (long k = after; k < n; k += OT_SPARSE) {
                /* Threads and the clock make a few allocations more or less; where the text varies, so does how often
                 * it grows. */
                bool reached = p->varies;
                for (int again = 0; again < 3 && (!again || !reached); again++) reached |= without(&t, at[k], after);
                if (!reached) wrong(&t, at[k], after, "is not reached in three runs", "");
            }
        }
    }
    printf("%s: %ld of %ld\n", p->name, t.tried - t.bad, t.tried);
    empty(".", &(folder){ 0 });
    forget(&t.before);
    forget(&t.right);
    free(t.old.bytes);
    free(t.text);
    assert_int_equal(t.bad, 0);
}

int main(int argc, char **argv)
{
    char home[] = "/tmp/ot_nomem_XXXXXX", command[64];
    struct CMUnitTest tests[64];
    int n = 0;
    int first = 1;
    for (; first < argc && !strncmp(argv[first], "--", 2); first++) {
        all |= !strcmp(argv[first], "--all");
        forks |= !strcmp(argv[first], "--fork");
    }
    for (int i = 0; i < n_ways; i++) {
        bool asked = argc == first;
        for (int k = first; k < argc; k++) asked |= !strcmp(argv[k], ways[i].name);
        if (asked)
            tests[n++] = (struct CMUnitTest){ ways[i].name, each_fails, NULL, NULL, (void *)(uintptr_t)&ways[i] };
    }
    allocations_open();
    if (!mkdtemp(home) || chdir(home)) return 1;
    int failed = _cmocka_run_group_tests("nomem", tests, (size_t)n, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", home);
    return system(command) || failed;
}
