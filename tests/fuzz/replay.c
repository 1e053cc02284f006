/* replay.c - runs files through a target without libFuzzer, each in a process of its own:
 *
 *     fuzz_TARGET [--mutate N] FILE|FOLDER...
 *
 * A file passes if the target returns within 20 s of processor time and 1 GiB (sanitizers: 120 s, 4 GiB) and the
 * process wrote nothing to stdout and stderr.  A name "<digit>-<anything>" gives the expected status of the input.
 * With --mutate each is also run N times as the target's mutator changes it, always the same way: a short walk that
 * needs no libFuzzer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
enum { SECONDS = 120, MEBIBYTES = 4096 };
#else
enum { SECONDS = 20, MEBIBYTES = 1024 };
#endif

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { MOST_FILE = 16 << 20, MOST_MUTANT = 1 << 16 };

static int files, bad;

static void blame(const char *path, const char *what)
{
    printf("%s: %s\n", path, what);
    bad++;
}

/* ---- the child ---------------------------------------------------------------- */

static uint8_t *load(const char *path, size_t *n)
{
    uint8_t *p = malloc(MOST_FILE);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = p && fd >= 0 ? read(fd, p, MOST_FILE) : -1;
    if (got < 0) exit(1);
    close(fd);
    *n = (size_t)got;
    uint8_t *exact = realloc(p, *n ? *n : 1); /* a byte beyond is seen by the sanitizer */
    return exact ? exact : p;
}

static void child(const char *path, int mutants)
{
    size_t n;
    uint8_t *p = load(path, &n);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    LLVMFuzzerTestOneInput(p, n);
    if (name[0] >= '0' && name[0] <= '9' && name[1] == '-')
        FUZZ_HOLD((int)fuzz_answer() == name[0] - '0', "answered with %d", (int)fuzz_answer());
    for (int i = 0; i < mutants; i++) {
        uint8_t *q = malloc(MOST_MUTANT);
        if (!q) exit(1);
        size_t m = n < MOST_MUTANT ? n : MOST_MUTANT;
        memcpy(q, p, m);
        for (int k = i % 4; k >= 0; k--) m = LLVMFuzzerCustomMutator(q, m, MOST_MUTANT, (unsigned)(4 * i + k + 1));
        LLVMFuzzerTestOneInput(q, m);
        free(q);
    }
    free(p);
}

/* ---- the parent --------------------------------------------------------------- */

static long resident(pid_t pid)
{
    char path[64], text[128] = "";
    long pages = 0, whole = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    return got > 0 && sscanf(text, "%ld %ld", &whole, &pages) == 2 ? pages * (sysconf(_SC_PAGESIZE) >> 10) >> 10 : 0;
}

/* Waits; true: the child exceeded its memory limit and was killed. */
static bool watch(pid_t pid, int *status)
{
    for (long wait = 1000000;; wait = wait < 50000000 ? wait * 2 : wait) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR)) return false;
        if (resident(pid) > MEBIBYTES) {
            kill(pid, SIGKILL);
            waitpid(pid, status, 0);
            return true;
        }
        nanosleep(&(struct timespec){ .tv_nsec = wait }, NULL);
    }
}

static void say_output(int fd)
{
    char text[8192];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    printf("%.*s\n", n > 0 ? (int)n : 0, text);
}

static void one_file(const char *path, int mutants)
{
    int status = 0;
    char name[] = "/tmp/fuzz-replay-XXXXXX", what[64];
    int out = mkstemp(name);
    if (out < 0) {
        blame(path, "no temporary file");
        return;
    }
    unlink(name);
    files++;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CPU, &(struct rlimit){ SECONDS, SECONDS + 5 });
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        dup2(out, 1);
        dup2(out, 2);
        child(path, mutants);
        exit(0);
    }
    bool fat = watch(pid, &status);
    struct stat st;
    if (fat) {
        blame(path, "needs too much memory");
    } else if (WIFSIGNALED(status)) {
        snprintf(what, sizeof what, "%s", WTERMSIG(status) == SIGXCPU ? "takes too long" : strsignal(WTERMSIG(status)));
        blame(path, what);
    } else if (status) {
        snprintf(what, sizeof what, "ended with %d", WEXITSTATUS(status));
        blame(path, what);
    } else if (!fstat(out, &st) && st.st_size) {
        blame(path, "something was printed:");
    } else {
        close(out);
        return;
    }
    say_output(out);
    close(out);
}

/* After a killed process: removes its files from the scratch folder. */
static int scrap(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    (void)st, (void)kind;
    return w->level ? remove(path) : 0;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void all_below(const char *path, int mutants)
{
    struct stat st;
    char **name = NULL;
    size_t n = 0;
    if (stat(path, &st)) {
        blame(path, strerror(errno));
        return;
    }
    if (!S_ISDIR(st.st_mode)) {
        one_file(path, mutants);
        return;
    }
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char whole[1024];
        if (e->d_name[0] == '.') continue;
        snprintf(whole, sizeof whole, "%s/%s", path, e->d_name);
        char **more = realloc(name, (n + 1) * sizeof *name);
        if (!more || !(more[n++] = strdup(whole))) exit(1);
        name = more;
    }
    if (d) closedir(d);
    if (n) qsort(name, n, sizeof *name, by_name);
    for (size_t i = 0; i < n; i++) {
        all_below(name[i], mutants);
        free(name[i]);
    }
    free(name);
}

int main(int argc, char **argv)
{
    int mutants = 0, first = 1;
    if (argc > 2 && !strcmp(argv[1], "--mutate")) mutants = atoi(argv[2]), first = 3;
    char scratch[] = "/dev/shm/fuzz-XXXXXX", other[] = "/tmp/fuzz-XXXXXX";
    char *below = mkdtemp(scratch) ? scratch : mkdtemp(other);
    if (!below || setenv("TMPDIR", below, 1)) return 1;
    for (int i = first; i < argc; i++) all_below(argv[i], mutants);
    nftw(below, scrap, 8, FTW_DEPTH | FTW_PHYS);
    rmdir(below);
    printf("%d files, %d bad\n", files, bad);
    return bad > 0 || files == 0;
}

/* ---- what libFuzzer would bring ------------------------------------------------- */

/* A few plain changes of bytes. */
size_t LLVMFuzzerMutate(uint8_t *p, size_t n, size_t most)
{
    size_t at = n ? mutate_below(n) : 0;
    switch (mutate_below(5)) {
    case 0: /* a byte more */
        if (n == most) return n;
        memmove(p + at + 1, p + at, n - at);
        p[at] = (uint8_t)mutate_random();
        return n + 1;
    case 1: /* some bytes less */
        if (!n) return n;
        memmove(p + at, p + at + 1, n - at - 1);
        return n - 1;
    case 2: return at;
    case 3:
        if (n) p[at] ^= (uint8_t)(1u << mutate_below(8));
        return n;
    default:
        if (n) p[at] = (uint8_t)mutate_random();
        return n;
    }
}
