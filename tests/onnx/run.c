/* run.c - the ONNX standard's node cases against ours.
 *
 * usage: test_onnx [--ref | --fast] [--only TEXT] [-v] ARCHIVE...
 *
 * Every case is run.  One whose operators are all in ops/list.h must pass; another may pass, or is
 * "not supported yet".  Cases run in a child, so that a crash is that case's failure alone. */
#include "tests/onnx/onnx_tests.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_CASES = 8192, SECONDS = 120 };

typedef struct result {
    int passed;
    char text[400];
} result;

typedef struct record {
    char *folder; /* of the case */
    ot_survey survey;
    result result;
} record;

static record records[MAX_CASES];
static int n_records;
static size_t root_length;
static const char *only;

static int by_folder(const void *a, const void *b)
{
    return strcmp(((const record *)a)->folder, ((const record *)b)->folder);
}

static int collect(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    if (kind != FTW_F || strcmp(path + where->base, "model.onnx") || n_records == MAX_CASES) return 0;
    if (only && !strstr(path + root_length, only)) return 0;
    records[n_records++].folder = strndup(path, (size_t)where->base - 1);
    return 0;
}

static const char *short_name(const record *r) { return r->folder + root_length + 1; }

/* Dropout in training mode is random by its input, not by its operator. */
static bool has_values(const record *r)
{
    const char *name = short_name(r);
    if (strstr(name, "training_dropout") && !strstr(name, "zero_ratio")) return false;
    return !r->survey.random;
}

static int child(int first, int fd, const ot_setting *s)
{
    for (int i = first; i < n_records; i++) {
        static result r;
        memset(&r, 0, sizeof r);
        alarm(SECONDS);
        const char *why = ot_run_case(records[i].folder, s, has_values(&records[i]), r.text, sizeof r.text);
        r.passed = !why;
        if (why && why != r.text) snprintf(r.text, sizeof r.text, "%s", why);
        if (write(fd, &r, sizeof r) != (ssize_t)sizeof r) return 1;
    }
    return 0;
}

static bool read_result(int fd, result *r)
{
    size_t have = 0;
    while (have < sizeof *r) {
        ssize_t n = read(fd, (char *)r + have, sizeof *r - have);
        if (n <= 0) return false;
        have += (size_t)n;
    }
    return true;
}

/* Runs every record from `first`; the index after the last one that has a result. */
static int run_child(int first, const ot_setting *s, bool *clean)
{
    int fd[2], status = 0, i = first;
    fflush(stdout);
    if (pipe(fd)) return -1;
    pid_t pid = fork();
    if (pid < 0) return -1;
    if (!pid) {
        close(fd[0]);
        exit(child(first, fd[1], s));
    }
    close(fd[1]);
    while (i < n_records && read_result(fd[0], &records[i].result)) i++;
    close(fd[0]);
    waitpid(pid, &status, 0);
    *clean = status == 0;
    if (i < n_records) {
        result *r = &records[i++].result;
        r->passed = 0;
        if (WIFSIGNALED(status)) snprintf(r->text, sizeof r->text, "CRASH: %s", strsignal(WTERMSIG(status)));
        else snprintf(r->text, sizeof r->text, "CRASH: exit code %d", WEXITSTATUS(status));
        *clean = true; /* said above */
    }
    return i;
}

/* Counts, prints failures; the number of them. */
static int report(const ot_setting *s, bool verbose)
{
    int wanted = 0, passed = 0, failed = 0, later = 0, other = 0;
    for (int i = 0; i < n_records; i++) {
        const record *r = &records[i];
        const char *kind = "ok";
        if (r->result.passed) passed++, wanted++;
        else if (!strncmp(r->result.text, "CRASH", 5) || (r->survey.supported && r->survey.tensors))
            failed++, wanted++, kind = "FAILED";
        else if (!r->survey.supported) later++, kind = "not supported yet";
        else other++, kind = "sequences and optionals";
        if (verbose || !strcmp(kind, "FAILED")) printf("%-50s %s  %s\n", short_name(r), kind, r->result.text);
        if (verbose && !r->survey.supported) printf("    needs %s\n", r->survey.missing);
    }
    printf("node cases: %d of %d (%s kernels); not supported yet: %d by operator, %d by sequences and optionals\n",
           passed, wanted, s->name, later, other);
    return failed;
}

/* Operators that keep cases from running, with the number of cases. */
static void report_missing(void)
{
    static struct {
        char name[64];
        int n;
    } op[512];
    int n = 0;
    for (int i = 0; i < n_records; i++) {
        if (records[i].result.passed) continue;
        char copy[sizeof records[i].survey.missing], *save = NULL;
        strcpy(copy, records[i].survey.missing);
        for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
            int k = 0;
            while (k < n && strcmp(op[k].name, w)) k++;
            if (k == n && n < 512) snprintf(op[n++].name, sizeof op[0].name, "%s", w);
            if (k < 512) op[k].n++;
        }
    }
    printf("operators missing: %d:", n);
    for (int k = 0; k < n; k++) printf(" %s(%d)", op[k].name, op[k].n);
    printf("\n");
}

static int run_all(const ot_setting *s, bool verbose)
{
    int at = 0;
    bool clean = true;
    for (int i = 0; i < n_records; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/model.onnx", records[i].folder);
        ot_survey_model(path, &records[i].survey);
        if (!records[i].survey.readable) printf("%s: cannot be parsed\n", short_name(&records[i]));
    }
    while (at >= 0 && at < n_records) {
        at = run_child(at, s, &clean);
        if (!clean) break;
    }
    int failed = report(s, verbose);
    report_missing();
    if (at < 0) printf("cannot start a child\n");
    if (!clean) printf("the child did not end well: a leak, or worse\n");
    return failed || at < 0 || !clean;
}

int main(int argc, char **argv)
{
    static const ot_setting settings[] = { { "reference", true, 1 }, { "fast", false, 2 } };
    const ot_setting *s = &settings[1];
    bool verbose = false;
    char root[4096], why[256];
    const char *tmp = getenv("TMPDIR");
    int bad = 0, archives = 0;
    snprintf(root, sizeof root, "%s/onnxtrain-node-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(root)) {
        perror(root);
        return 1;
    }
    root_length = strlen(root);
    for (int i = 1; i < argc && !bad; i++) {
        if (!strcmp(argv[i], "--ref")) s = &settings[0];
        else if (!strcmp(argv[i], "--fast")) s = &settings[1];
        else if (!strcmp(argv[i], "-v")) verbose = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
        else if (!ot_unpack(argv[i], root, why)) printf("%s\n", why), bad = 1;
        else archives++;
    }
    if (!archives) printf("usage: test_onnx [--ref | --fast] [--only TEXT] [-v] ARCHIVE...\n"), bad = 1;
    if (!bad) {
        nftw(root, collect, 32, FTW_PHYS);
        qsort(records, (size_t)n_records, sizeof *records, by_folder);
        if (!n_records) printf("no cases\n");
        bad = !n_records || run_all(s, verbose);
    }
    ot_remove_tree(root);
    for (int i = 0; i < n_records; i++) free(records[i].folder);
    return bad;
}
