/* fuzz.c - the entry point of libFuzzer, and the functions of fuzz.h.
 *
 * Files are made in a folder of this process below $TMPDIR, else /dev/shm, else /tmp. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_NAMES = 24, LONGEST = 512 };

static char folder[LONGEST];
static pid_t owner;
static char known[MOST_NAMES][LONGEST]; /* files and folders of this input */
static int n_known;
static ot_status answer;

void fuzz_broken(const char *rule, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "\n== broken: %s: ", rule);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

ot_status fuzz_status(const char *call, ot_status s, const ot_error *err)
{
    FUZZ_HOLD(s == err->status, "%s returned %d, err says %d: %s", call, (int)s, (int)err->status, err->text);
    FUZZ_HOLD((s == OT_OK) == !*err->text, "%s: status %d with the text '%s'", call, (int)s, err->text);
    FUZZ_HOLD(memchr(err->text, 0, sizeof err->text), "%s: the text has no end", call);
    FUZZ_HOLD(s != OT_E_INTERNAL, "%s: internal error: %s", call, err->text);
    if (s && getenv("FUZZ_SAY")) fprintf(stderr, "%s: %d: %s\n", call, (int)s, err->text);
    if (!answer) answer = s;
    return s;
}

ot_status fuzz_answer(void) { return answer; }

void fuzz_answered(ot_status s) { answer = s; }

fuzz_pair fuzz_split(const uint8_t *p, size_t n)
{
    size_t nb = n >= 2 ? (size_t)p[n - 2] << 8 | p[n - 1] : 0;
    if (n < 2 || nb > n - 2) return (fuzz_pair){ p, p + n, n, 0 };
    return (fuzz_pair){ p, p + n - 2 - nb, n - 2 - nb, nb };
}

/* ---- the scratch folder -------------------------------------------------------- */

/* Removes the files in the folder.  An unknown name breaks the rule. */
static void sweep(const char *path, bool hold)
{
    DIR *d = opendir(path);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char name[2 * LONGEST];
        struct stat st;
        bool expected = false;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        for (int i = 0; i < n_known; i++) expected |= !fnmatch(known[i], name, FNM_PATHNAME);
        FUZZ_HOLD(expected || !hold, "the file %s is left behind", name);
        if (!lstat(name, &st) && S_ISDIR(st.st_mode)) {
            sweep(name, hold);
            rmdir(name);
        } else {
            unlink(name);
        }
    }
    closedir(d);
}

static void leave(void)
{
    if (owner != getpid()) return; /* a child */
    sweep(folder, false);
    rmdir(folder);
}

static void enter(void)
{
    const char *below = getenv("TMPDIR");
    if (!below || !*below) below = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
    snprintf(folder, sizeof folder, "%s/onnxtrain-fuzz-XXXXXX", below);
    if (!mkdtemp(folder)) {
        fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        exit(1);
    }
    owner = getpid();
    atexit(leave);
}

const char *fuzz_path(const char *name)
{
    char path[2 * LONGEST];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (int i = 0; i < n_known; i++)
        if (!strcmp(known[i], path)) return known[i];
    if (n_known == MOST_NAMES || strlen(path) >= LONGEST) abort();
    return strcpy(known[n_known++], path);
}

const char *fuzz_subfolder(const char *name)
{
    const char *path = fuzz_path(name);
    if (mkdir(path, 0700)) abort();
    return path;
}

const char *fuzz_write(const char *name, const void *p, size_t n)
{
    const char *path = fuzz_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, p, n) != (ssize_t)n || close(fd)) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    return path;
}

/* ---- libFuzzer ------------------------------------------------------------------ */

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (!*folder) enter();
    n_known = 0;
    answer = OT_OK;
    ot_fuzz(p, n);
    sweep(folder, true);
    return 0;
}

/* ---- what the machine has ------------------------------------------------------- */

/* Replaces the library's function (-Wl,--wrap): on a large machine a plan of any size would be made. */
int64_t __wrap_ot_memory_available(void);
int64_t __wrap_ot_memory_available(void) { return (int64_t)32 << 20; }
