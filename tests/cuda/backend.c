/* backend.c - kernels that threads compile while a plan is made: once per text, several at a time, the same files and
 * the same errors as without threads, and nothing left behind, whatever allocation or thread there is none for; launches
 * that begin before the kernel in front of them ends. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/backends/cuda/internal.h"

/* ---- what the backend's files call instead (CMakeLists.txt) ------------------------- */

static _Atomic long allocations, fail_from; /* 0: none fails */
static _Atomic bool fail_after;             /* all behind it too */
static _Atomic bool no_threads;

static bool fails(void)
{
    long n = ++allocations;
    return fail_from && (n == fail_from || (fail_after && n > fail_from));
}

void *some_malloc(size_t n);
void *some_calloc(size_t n, size_t each);
void *some_realloc(void *p, size_t n);
char *some_strdup(const char *s);
int some_thread(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x);

void *some_malloc(size_t n) { return fails() ? NULL : malloc(n); }
void *some_calloc(size_t n, size_t each) { return fails() ? NULL : calloc(n, each); }
void *some_realloc(void *p, size_t n) { return fails() ? NULL : realloc(p, n); }
char *some_strdup(const char *s) { return fails() ? NULL : strdup(s); }
int some_thread(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x)
{
    return no_threads ? 11 : pthread_create(t, a, f, x);
}

/* ---- helpers ------------------------------------------------------------------------ */

static char folder[] = "/tmp/ot-compilers-XXXXXX", path[512];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The next device keeps its kernels in `name`, which is empty. */
static ot_device *open_device(const char *name, int threads)
{
    char command[600];
    ot_error err = { 0 };
    ot_device *d;
    snprintf(command, sizeof command, "rm -rf %s", in_folder(name));
    assert_int_equal(system(command), 0);
    setenv("XDG_CACHE_HOME", in_folder(name), 1);
    if (ot_gpu_backend.open(0, NULL, &d, &err) != OT_OK) fail_msg("%s", err.text);
    d->threads = threads;
    return d;
}

/* Programs compiled so far, and the most that were compiled at one time. */
static int compiled(int *at_once)
{
    char line[512];
    int n = 0, now = 0;
    FILE *f = fopen(in_folder("log"), "r");
    assert_non_null(f);
    *at_once = 0;
    while (fgets(line, sizeof line, f)) {
        const char *comma = strstr(line, ", ");
        if (!strstr(line, "nvrtcCompileProgram") || !comma || sscanf(comma, ", %d at once", &now) != 1) continue;
        n++;
        if (now > *at_once) *at_once = now;
    }
    fclose(f);
    return n;
}

static ot_status ask(ot_device *d, int text, const char *entry, ot_gpu_fn **f, ot_error *err)
{
    char prefix[128];
    snprintf(prefix, sizeof prefix, "#define KEY ot_u32\n#define INDEX i64\n#define NEGATIVE %d\n", text);
    return ot_gpu_compile(d, "order.cu", prefix, entry, f, err);
}

static void ready(ot_device *d)
{
    ot_error err = { 0 };
    if (d->backend->ready(d, &err) != OT_OK) fail_msg("%s", err.text);
}

/* ---- tests -------------------------------------------------------------------------- */

static void one_compilation_of_a_text(void **unused)
{
    (void)unused;
    static const char *const entry[] = { "rank", "count", "spread", "rank" };
    ot_error err = { 0 };
    ot_gpu_fn *f[4];
    int at_once, before = compiled(&at_once);
    ot_device *d = open_device("once", 2);
    for (int i = 0; i < 4; i++) assert_int_equal(ask(d, 0, entry[i], &f[i], &err), OT_OK);
    ready(d);
    assert_int_equal(compiled(&at_once) - before, 1);
    assert_ptr_equal(f[0], f[3]);
    assert_ptr_not_equal(f[0], f[1]);
    assert_ptr_not_equal(f[0]->kernel, f[1]->kernel);
    d->backend->close(d);
}

static bool logged(const char *words)
{
    char line[512];
    bool found = false;
    FILE *f = fopen(in_folder("log"), "r");
    while (f && fgets(line, sizeof line, f)) found |= strstr(line, words) != NULL;
    if (f) fclose(f);
    return found;
}

/* The others are not in the key either: a header that changes lets be compiled again what includes it. */
static void no_more_headers_than_included(void **unused)
{
    (void)unused;
    ot_error err = { 0 };
    ot_gpu_fn *f;
    ot_device *d = open_device("headers", 1);
    assert_int_equal(ask(d, 0, "rank", &f, &err), OT_OK);
    assert_int_equal(ot_gpu_compile(d, "take.cu", "#error\n", "take", &f, &err), OT_OK);
    assert_int_equal(ot_gpu_compile(d, "take.cu", "#include \"packs.cuh\"\n#error\n", "take", &f, &err), OT_OK);
    assert_int_equal(d->backend->ready(d, &err), OT_E_INTERNAL);
    assert_true(logged("order.cu with 2 headers")); /* prelude.cuh, order.cuh */
    assert_true(logged("take.cu with 3 headers"));  /* and divide.cuh, which take.cuh includes */
    assert_true(logged("take.cu with 4 headers"));
    d->backend->close(d);
}

static void several_at_a_time(void **unused)
{
    (void)unused;
    ot_error err = { 0 };
    ot_gpu_fn *f;
    int at_once;
    compiled(&at_once);
    assert_int_equal(at_once, 1); /* so far */
    ot_device *d = open_device("several", 4);
    for (int i = 0; i < 8; i++) assert_int_equal(ask(d, i, "rank", &f, &err), OT_OK);
    ready(d);
    compiled(&at_once);
    assert_in_range(at_once, 2, 4);
    d->backend->close(d);
}

static void the_same_files(void **unused)
{
    (void)unused;
    ot_error err = { 0 };
    ot_gpu_fn *f;
    char command[1200];
    for (int threads = 1; threads <= 4; threads += 3) {
        ot_device *d = open_device(threads == 1 ? "alone" : "four", threads);
        for (int i = 0; i < 5; i++) assert_int_equal(ask(d, i, "count", &f, &err), OT_OK);
        ready(d);
        d->backend->close(d);
    }
    snprintf(command, sizeof command, "diff -r %s/alone %s/four && [ $(find %s/four -type f | wc -l) = 5 ]", folder,
             folder, folder);
    assert_int_equal(system(command), 0);
}

/* A text that a thread has compiled in vain already is requested by another node of the plan: the plan fails, whatever
 * the threads' timing. */
static void failed_before_the_next_request(void **unused)
{
    (void)unused;
    ot_error err = { 0 };
    ot_gpu_fn *f;
    const char *name, *words;
    int at_once, before = compiled(&at_once);
    ot_device *d = open_device("before", 2);
    assert_int_equal(ot_gpu_compile(d, "order.cu", "#error first\n", "rank", &f, &err), OT_OK);
    assert_true(ot_gpu_compiled(d, 0, &name, &words)); /* waits */
    assert_int_equal(ot_gpu_compile(d, "order.cu", "#error first\n", "rank", &f, &err), OT_OK);
    assert_int_equal(d->backend->ready(d, &err), OT_E_INTERNAL);
    assert_int_equal(compiled(&at_once) - before, 1);
    d->backend->close(d);
}

/* Of two texts that do not compile the first one is reported, once; a launch reports its own. */
static void errors(void **unused)
{
    (void)unused;
    for (int threads = 1; threads <= 3; threads++) {
        ot_error err[4] = { { 0 } };
        ot_gpu_fn *f[3];
        int at_once;
        ot_device *d = open_device("errors", threads);
        assert_int_equal(ask(d, 0, "rank", &f[0], &err[0]), OT_OK);
        assert_int_equal(ot_gpu_compile(d, "order.cu", "#error first\n", "rank", &f[1], &err[0]), OT_OK);
        assert_int_equal(ot_gpu_compile(d, "take.cu", "#error second\n", "take", &f[2], &err[0]), OT_OK);
        assert_int_equal(d->backend->ready(d, &err[0]), OT_E_INTERNAL);
        assert_memory_equal(err[0].text, "order.cu does not compile for sm_90a: NVRTC_ERROR_COMPILATION\n", 62);
        assert_non_null(strstr(err[0].text, "first"));
        assert_int_equal(d->backend->ready(d, &err[1]), OT_OK);
        assert_int_equal(ot_gpu_launch(d, f[2], 1, 32, 0, &at_once, &err[2]), OT_E_INTERNAL);
        assert_non_null(strstr(err[2].text, "second"));
        /* Requested again, it is tried again. */
        int before = compiled(&at_once);
        assert_int_equal(ot_gpu_compile(d, "order.cu", "#error first\n", "rank", &f[1], &err[1]), OT_OK);
        assert_int_equal(d->backend->ready(d, &err[3]), OT_E_INTERNAL);
        assert_int_equal(compiled(&at_once) - before, 1);
        d->backend->close(d);
    }
}

static void closed_too_early(void **unused)
{
    (void)unused;
    ot_error err = { 0 };
    ot_gpu_fn *f;
    int at_once, before = compiled(&at_once);
    ot_device *d = open_device("early", 3);
    for (int i = 0; i < 20; i++) assert_int_equal(ask(d, i, "rank", &f, &err), OT_OK);
    d->backend->close(d);
    assert_in_range(compiled(&at_once) - before, 0, 19);
}

static void without_threads(void **unused)
{
    (void)unused;
    ot_error err = { 0 };
    ot_gpu_fn *f;
    no_threads = true;
    ot_device *d = open_device("none", 8);
    for (int i = 0; i < 3; i++) assert_int_equal(ask(d, i, "rank", &f, &err), OT_OK);
    ready(d);
    assert_non_null(f->kernel);
    d->backend->close(d);
    no_threads = false;
}

static void each_allocation_fails(void **unused)
{
    (void)unused;
    for (int after = 0; after < 2; after++) {
        long tried = 0;
        bool reached = true;
        for (long n = 1; reached; n++, tried += reached) {
            ot_device *d = open_device("fails", 1 + (int)n % 2);
            ot_error err = { 0 };
            ot_gpu_fn *f;
            ot_status s = OT_OK;
            allocations = 0;
            fail_after = after;
            fail_from = n;
            for (int i = 0; i < 2 && s == OT_OK; i++) s = ask(d, i, "rank", &f, &err);
            if (s == OT_OK) s = d->backend->ready(d, &err);
            reached = allocations >= n;
            fail_from = 0;
            if (s != OT_OK && s != OT_E_NOMEM) fail_msg("allocation %ld: %d, %s", n, s, err.text);
            assert_int_equal(s, err.status);
            if (s == OT_OK) assert_non_null(f->kernel);
            assert_int_equal(ask(d, 1, "rank", &f, &(ot_error){ 0 }), OT_OK); /* now there is memory */
            ready(d);
            d->backend->close(d);
        }
        printf("allocations that fail: %ld%s\n", tried, after ? " with all behind them" : "");
        assert_in_range(tried, 8, 1000);
    }
}

/* ---- launches that overlap ---------------------------------------------------------- */

typedef struct put_args {
    int *at;
    int n;
} put_args;

enum { N = 40 };

#define PUT                                                                                     \
    "typedef struct put_args { int *at; int n; } put_args;\nOT_KERNEL(put, put_args, 64)\n"      \
    "{ if (OT_THREAD < a.n) a.at[OT_THREAD] = a.at[OT_THREAD] * 3 + OT_THREAD; }\n"

static const char puts_right[] = PUT;
static const char puts_at_once[] = "#undef OT_FOLLOW\n#define OT_FOLLOW() (void)0\n" PUT;
static const char puts_late[] =
    "#undef OT_FOLLOW\n#define OT_FOLLOW() (**(int *const *)args = 1, ot_emulated_at->follow())\n" PUT;

static void put(ot_device *d, ot_gpu_fn *f, const put_args *a)
{
    ot_error err = { 0 };
    if (ot_gpu_launch(d, f, 1, 64, 0, a, &err) != OT_OK) fail_msg("%s", err.text);
}

static ot_gpu_fn *put_of(ot_device *d, const char *text)
{
    ot_error err = { 0 };
    ot_gpu_fn *f;
    assert_int_equal(ot_gpu_compile(d, "divide.cuh", text, "put", &f, &err), OT_OK);
    ready(d);
    return f;
}

/* Launches logged as these words so far. */
static int launched(const char *how)
{
    char line[512];
    int n = 0;
    FILE *f = fopen(in_folder("log"), "r");
    while (f && fgets(line, sizeof line, f)) n += strstr(line, " put ") && !strcmp(strstr(line, " put ") + 5, how);
    if (f) fclose(f);
    return n;
}

static void expect(int *x, int times)
{
    for (; times; times--)
        for (int i = 0; i < N; i++) x[i] = x[i] * 3 + i;
}

static void overlapping(const char *switched, int run, int recorded)
{
    ot_error err = { 0 };
    int want[N] = { 0 }, got[N], plain = launched("run\n") + launched("recorded\n"),
        early = launched("run, overlaps\n"), captured = launched("recorded, overlaps\n");
    void *memory;
    ot_device_graph *graph;
    setenv("ONNXTRAIN_CUDA_OVERLAP", switched, 1);
    ot_device *d = open_device("overlaps", 1);
    const ot_backend *b = d->backend;
    ot_gpu_fn *f = put_of(d, puts_right);
    assert_int_equal(b->alloc(d, sizeof want, &memory, &err), OT_OK);
    put_args a = { memory, N };
    assert_int_equal(b->zero(d, memory, sizeof want, &err), OT_OK);
    for (int i = 0; i < 4; i++) put(d, f, &a); /* the first follows no kernel */
    (void)ot_gpu_get(d, OT_GPU_CUDNN);         /* what a library's kernel does */
    for (int i = 0; i < 2; i++) put(d, f, &a);
    assert_int_equal(b->capture_begin(d, &err), OT_OK);
    for (int i = 0; i < 3; i++) put(d, f, &a);
    assert_int_equal(b->capture_end(d, &graph, &err), OT_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(b->launch(d, graph, &err), OT_OK);
    put(d, f, &a);
    assert_int_equal(b->download(d, got, memory, sizeof got, &err), OT_OK);
    assert_int_equal(b->wait(d, &err), OT_OK);
    expect(want, 4 + 2 + 2 * 3 + 1);
    assert_memory_equal(want, got, sizeof want);
    assert_int_equal(launched("run, overlaps\n") - early, run);
    assert_int_equal(launched("recorded, overlaps\n") - captured, recorded);
    assert_int_equal(launched("run\n") + launched("recorded\n") - plain, 10 - run - recorded);
    b->graph_free(d, graph);
    b->free(d, memory);
    b->close(d);
    unsetenv("ONNXTRAIN_CUDA_OVERLAP");
}

static void launches_overlap(void **unused)
{
    (void)unused;
    overlapping("1", 4, 2);
    overlapping("0", 0, 0);
}

/* In a process of its own, which the emulator ends: what it says. */
static void refused(const char *text, int n, const char *words)
{
    int ends[2], status = 0;
    char said[600] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        ot_error err = { 0 };
        void *memory;
        dup2(ends[1], 2);
        ot_device *d = open_device("refused", 1);
        ot_gpu_fn *f = put_of(d, text);
        if (d->backend->alloc(d, 4096, &memory, &err) != OT_OK) _exit(1);
        put_args a = { memory, n };
        for (int i = 0; i < 2; i++) put(d, f, &a);
        _exit(d->backend->wait(d, &err) != OT_OK);
    }
    close(ends[1]);
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(read(ends[0], said, sizeof said - 1) >= 0);
    close(ends[0]);
    if (!WIFSIGNALED(status) || !strstr(said, words)) fail_msg("status %x, '%s'", status, said);
}

static void kernels_wait(void **unused)
{
    (void)unused;
    refused(puts_at_once, 0, "put may begin before");
    refused(puts_at_once, N, "put uses global memory before");
    refused(puts_late, 0, "put uses global memory before");
}

int main(void)
{
    if (!mkdtemp(folder)) return 1;
    setenv("ONNXTRAIN_EMULATOR_LOG", in_folder("log"), 1);
    FILE *log = fopen(path, "w");
    if (log) fclose(log);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_compilation_of_a_text),
        cmocka_unit_test(no_more_headers_than_included),
        cmocka_unit_test(without_threads),
        cmocka_unit_test(several_at_a_time),
        cmocka_unit_test(the_same_files),
        cmocka_unit_test(failed_before_the_next_request),
        cmocka_unit_test(errors),
        cmocka_unit_test(closed_too_early),
        cmocka_unit_test(each_allocation_fails),
        cmocka_unit_test(launches_overlap),
        cmocka_unit_test(kernels_wait),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
