/* main.c - every system call of a command that writes files fails once and is killed once.
 *
 *     test_calls PROGRAM FIXTURES [--every K] [--full] [--only TEXT] [--jobs N]
 *     test_calls --short TEST...    other test programs, while every read is short or interrupted */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/calls/judge.h"

enum { MOST_JOBS = 1 << 16, MOST_WORDS = 64 };

static const char *program, *fixtures, *only = "";
static int every = 1, workers = 2;
static bool full;
static char root[64];

typedef struct counts {
    int jobs, missed, bad, kills, refused, went_on;
} counts;
static counts *shared; /* of all workers */

/* ---- running ------------------------------------------------------------------------------- */

/* The state of a worker: a folder, and the file with the program's output. */
typedef struct place {
    char folder[96], said[96];
} place;

static place place_of(int worker)
{
    place p;
    snprintf(p.folder, sizeof p.folder, "%s/%d", root, worker);
    snprintf(p.said, sizeof p.said, "%s/%d.said", root, worker);
    mkdir(p.folder, 0777);
    return p;
}

static bool run(const place *p, const char *command, const fault *f, outcome *o)
{
    char words[1200];
    const char *argv[MOST_WORDS] = { program };
    int n = 1;
    snprintf(words, sizeof words, "%s", command);
    for (char *w = strtok(words, " "); w && n < MOST_WORDS - 1; w = strtok(NULL, " ")) argv[n++] = w;
    return inject(argv, p->folder, p->said, f, false, o);
}

static const char *words_of(const place *p)
{
    static char text[4096];
    FILE *f = fopen(p->said, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = '\0';
    return text;
}

static _Noreturn void stop(const char *what, const char *command, const place *p)
{
    printf("FAILED: %s: %s: %s\n", what, command, words_of(p));
    folder_empty(root);
    rmdir(root);
    exit(1);
}

/* "cp FROM TO", or a command of the program that must succeed. */
static bool prepare(const place *p, const char *command, bool no_tmpfile, outcome *o)
{
    char from[300], words[2][64];
    fault none = { .no_tmpfile = no_tmpfile };
    if (sscanf(command, "cp %63s %63s", words[0], words[1]) != 2) {
        if (!run(p, command, &none, o)) return false;
        if (o->code) stop("what comes first fails", command, p);
        return true;
    }
    snprintf(from, sizeof from, "%s/%s", p->folder, words[0]);
    if (!file_copy(from, p->folder, words[1])) stop("nothing to copy", command, p);
    return true;
}

/* ---- a scene --------------------------------------------------------------------------------- */

static bool set_up(const scene *s, record *r, outcome *o)
{
    place p = place_of(0);
    fault none = { .no_tmpfile = s->no_tmpfile };
    char names[200], path[600];
    *r = (record){ .s = s };
    folder_empty(p.folder);
    snprintf(names, sizeof names, "%s", s->fixtures);
    for (char *w = strtok(names, " "); w; w = strtok(NULL, " ")) {
        snprintf(path, sizeof path, "%.500s/%.80s", fixtures, w);
        if (!file_copy(path, p.folder, w)) stop("no such file", path, &p);
    }
    for (int i = 0; i < 4 && s->before[i]; i++)
        if (!prepare(&p, s->before[i], s->no_tmpfile, o)) return false;
    r->before = files_read(p.folder);
    if (!run(&p, s->command, &none, o)) return false;
    if (o->code != s->code) stop("undisturbed it ends otherwise", s->command, &p);
    r->after = files_read(p.folder);
    const char *why = judge_record(r);
    if (why) stop(why, s->command, &p);
    if (o->calls > MOST_CALLS) stop("more calls than there is room for", s->command, &p);
    return true;
}

static void count(const fault *f, const outcome *o)
{
    __atomic_add_fetch(&shared->jobs, 1, __ATOMIC_RELAXED);
    int *which = f->kind == FAULT_KILL ? &shared->kills : o->code ? &shared->refused : &shared->went_on;
    __atomic_add_fetch(which, 1, __ATOMIC_RELAXED);
}

static void one(const record *r, const place *p, const fault *f)
{
    outcome o, again;
    files_put(&r->before, p->folder);
    run(p, r->s->command, f, &o);
    if ((f->kind == FAULT_ERROR || f->kind == FAULT_KILL) && !o.hit) {
        __atomic_add_fetch(&shared->missed, 1, __ATOMIC_RELAXED);
        return;
    }
    count(f, &o);
    files now = files_read(p->folder);
    const char *why = judge(r, f, &o, words_of(p), &now);
    char first[700] = "";
    if (why) snprintf(first, sizeof first, "%s\n    it said: %.400s", why, words_of(p));
    if (!why && o.code) {
        fault none = { .no_tmpfile = f->no_tmpfile };
        run(p, r->s->command, &none, &again);
        files later = files_read(p->folder);
        why = judge_again(r, again.code, &now, &later);
        if (why) snprintf(first, sizeof first, "%s\n    it said: %.400s", why, words_of(p));
        files_free(&later);
    }
    files_free(&now);
    if (!why) return;
    if (__atomic_add_fetch(&shared->bad, 1, __ATOMIC_RELAXED) > 40) return;
    const char *name = f->at < MOST_CALLS && o.name[f->at] ? o.name[f->at] : "";
    printf("FAILED: %s: call %ld, %s: %s: exit %d: %s\n", r->s->name, f->at, name,
           f->kind == FAULT_KILL   ? "killed"
           : f->kind == FAULT_JOLT ? "short transfers"
                                   : strerrorname_np(f->error),
           o.code, first);
    fflush(stdout);
}

static int jobs_of(const scene *s, const outcome *o, fault *job)
{
    int n = 0;
    job[n++] = (fault){ .kind = FAULT_JOLT, .at = MOST_CALLS, .no_tmpfile = s->no_tmpfile };
    for (long at = 0, k = 0; at < o->calls; at++) {
        if (!full && (!o->inside[at] || k++ % every)) continue;
        const int *errors = inject_errors(o->name[at]);
        int n_errors = 0;
        while (errors[n_errors]) n_errors++;
        for (int e = 0; e < n_errors && n < MOST_JOBS - 1; e++)
            if (full || e == k / every % n_errors)
                job[n++] = (fault){ .kind = FAULT_ERROR, .at = at, .error = errors[e], .no_tmpfile = s->no_tmpfile };
        job[n++] = (fault){ .kind = FAULT_KILL, .at = at, .no_tmpfile = s->no_tmpfile };
    }
    return n;
}

static void play(const record *r, const outcome *o)
{
    static fault job[MOST_JOBS];
    int n = jobs_of(r->s, o, job);
    counts was = *shared;
    fflush(stdout);
    for (int w = 0; w < workers; w++) {
        if (fork()) continue;
        place p = place_of(w);
        for (int i = w; i < n; i += workers) one(r, &p, &job[i]);
        fflush(stdout);
        _exit(0);
    }
    while (wait(NULL) > 0) {
    }
    printf("%-50s %4ld calls, %5d faults: %5d killed, %5d refused, %5d went on; %d wrong\n", r->s->name, o->calls,
           shared->jobs - was.jobs, shared->kills - was.kills, shared->refused - was.refused,
           shared->went_on - was.went_on, shared->bad - was.bad);
    fflush(stdout);
}

/* ---- other tests ------------------------------------------------------------------------------- */

/* They pass as usual: readers continue after a short or interrupted read. */
static int short_reads(int n, char **tests)
{
    static outcome o;
    const fault f = { .kind = FAULT_JOLT_READS };
    place p = place_of(0);
    int bad = 0;
    for (int i = 0; i < n; i++) {
        const char *argv[] = { tests[i], "good", NULL };
        if (!inject(argv, p.folder, p.said, &f, true, &o)) return 77;
        printf("short reads: %s: exit %d, %ld calls\n%s", tests[i], o.code, o.calls, o.code ? words_of(&p) : "");
        bad += o.code != 0 || o.calls < 100;
    }
    return bad ? 1 : 0;
}

static void make_root(void)
{
    strcpy(root, access("/dev/shm", W_OK) ? "/tmp/onnxtrain-calls-XXXXXX" : "/dev/shm/onnxtrain-calls-XXXXXX");
    inject_root = "/onnxtrain-calls-";
    if (mkdtemp(root)) return;
    perror(root);
    exit(1);
}

static int give_up(int code)
{
    folder_empty(root);
    rmdir(root);
    if (code == 77) printf("skipped: system calls: processes cannot be traced here\n");
    return code;
}

/* ---- all of them ------------------------------------------------------------------------------- */

static void read_arguments(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: test_calls PROGRAM FIXTURES [--every K] [--full] [--only TEXT] [--jobs N]\n");
        exit(2);
    }
    program = argv[1];
    fixtures = argv[2];
    for (int i = 3; i < argc; i++) {
        if (!strcmp(argv[i], "--full")) full = true;
        else if (i + 1 < argc && !strcmp(argv[i], "--every")) every = atoi(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--only")) only = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--jobs")) workers = atoi(argv[++i]);
    }
}

int main(int argc, char **argv)
{
    static outcome o;
    setenv("OMP_WAIT_POLICY", "passive", 1); /* the program does not start itself again */
    setenv("ONNXTRAIN_CUDA_MODULE", "none", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    setenv("TMPDIR", "/nowhere", 1); /* a model that could not be written is not written elsewhere */
    if (argc > 2 && !strcmp(argv[1], "--short")) {
        make_root();
        return give_up(short_reads(argc - 2, argv + 2));
    }
    read_arguments(argc, argv);
    make_root();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return give_up(1);
    bool traced = true;
    for (int i = 0; i < N_SCENES && traced; i++) {
        record r;
        if (!strstr(scenes[i].name, only)) continue;
        traced = set_up(&scenes[i], &r, &o);
        if (traced) play(&r, &o);
        files_free(&r.before);
        files_free(&r.after);
    }
    if (!traced) return give_up(77);
    printf("system calls: %d of %d faults leave all files whole; %d calls were not made again\n",
           shared->jobs - shared->bad, shared->jobs, shared->missed);
    return give_up(shared->bad || !shared->jobs);
}
