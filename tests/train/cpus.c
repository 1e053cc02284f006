/* cpus.c - the default number of threads: quotas of control groups from files as the kernel writes them; and OpenMP's
 * settings, which stay the caller's. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/options/cpus.h"
#include "tests/train/train.h"

/* A tree of files under a folder of the test's own: pairs of path and text. */
typedef struct tree {
    const char *file[16][2];
    double quota;
    const char *what;
} tree;

static void put(const char *root, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *c = full + strlen(root) + 1; *c; c++)
        if (*c == '/') *c = '\0', (void)mkdir(full, 0777), *c = '/';
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define SELF "/proc/self/"
#define V2_MOUNT(root) "29 23 0:26 " root " /sys/fs/cgroup rw,nosuid shared:9 master:3 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT(root) "25 23 0:21 / /proc rw - proc proc rw\n31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"       \
                       "35 31 0:33 " root " /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                     \
                       "36 31 0:34 " root " /sys/fs/cgroup/cpu,cpuacct rw shared:4 - cgroup cgroup rw,cpu,cpuacct\n"
#define V1 "/sys/fs/cgroup/cpu,cpuacct"

static const tree trees[] = {
    { { { NULL, NULL } }, 0, "no files at all" },
    { { { SELF "cgroup", "0::/\n" }, { SELF "mountinfo", V2_MOUNT("/") } }, 0, "version 2: the root has no limit" },
    { { { SELF "cgroup", "0::/\n" },
        { SELF "mountinfo", V2_MOUNT("/") },
        { "/sys/fs/cgroup/cpu.max", "150000 100000\n" } },
      1.5,
      "version 2: a container sees its own group as the root" },
    { { { SELF "cgroup", "0::/a.slice/b\n" },
        { SELF "mountinfo", V2_MOUNT("/") },
        { "/sys/fs/cgroup/a.slice/cpu.max", "max 100000\n" },
        { "/sys/fs/cgroup/a.slice/b/cpu.max", "50000 200000\n" } },
      0.25,
      "version 2: the group's own" },
    { { { SELF "cgroup", "0::/a.slice/b\n" },
        { SELF "mountinfo", V2_MOUNT("/") },
        { "/sys/fs/cgroup/a.slice/cpu.max", "200000 100000\n" },
        { "/sys/fs/cgroup/a.slice/b/cpu.max", "max 100000\n" } },
      2,
      "version 2: that of the group around it" },
    { { { SELF "cgroup", "0::/a/b/c\n" },
        { SELF "mountinfo", V2_MOUNT("/") },
        { "/sys/fs/cgroup/a/cpu.max", "300000 100000\n" },
        { "/sys/fs/cgroup/a/b/cpu.max", "100000 100000\n" },
        { "/sys/fs/cgroup/a/b/c/cpu.max", "200000 100000\n" } },
      1,
      "version 2: the least of three" },
    { { { SELF "cgroup", "0::/docker/0123\n" },
        { SELF "mountinfo", V2_MOUNT("/docker/0123") },
        { "/sys/fs/cgroup/cpu.max", "100000 100000\n" },
        { "/sys/fs/cgroup/docker/0123/cpu.max", "900000 100000\n" } },
      1,
      "version 2: the mount hides what is above the group" },
    { { { SELF "cgroup", "0::/docker/01234\n" },
        { SELF "mountinfo", V2_MOUNT("/docker/0123") },
        { "/sys/fs/cgroup/cpu.max", "100000 100000\n" } },
      1,
      "version 2: a group beside the mounted one" },
    { { { SELF "cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/docker/1\n0::/\n" },
        { SELF "mountinfo", V1_MOUNT("/") },
        { V1 "/cpu.cfs_quota_us", "-1\n" },
        { V1 "/cpu.cfs_period_us", "100000\n" },
        { V1 "/docker/1/cpu.cfs_quota_us", "250000\n" },
        { V1 "/docker/1/cpu.cfs_period_us", "100000\n" } },
      2.5,
      "version 1: the group's own" },
    { { { SELF "cgroup", "4:cpu,cpuacct:/docker/1\n" },
        { SELF "mountinfo", V1_MOUNT("/") },
        { V1 "/docker/cpu.cfs_quota_us", "100000\n" },
        { V1 "/docker/cpu.cfs_period_us", "50000\n" },
        { V1 "/docker/1/cpu.cfs_quota_us", "-1\n" },
        { V1 "/docker/1/cpu.cfs_period_us", "100000\n" } },
      2,
      "version 1: that of the group around it" },
    { { { SELF "cgroup", "4:cpu,cpuacct:/docker/1\n" },
        { SELF "mountinfo", V1_MOUNT("/docker/1") },
        { V1 "/cpu.cfs_quota_us", "100000\n" },
        { V1 "/cpu.cfs_period_us", "100000\n" } },
      1,
      "version 1: the mount hides what is above the group" },
    { { { SELF "cgroup", "3:cpuset:/a\n" },
        { SELF "mountinfo", V1_MOUNT("/") },
        { V1 "/a/cpu.cfs_quota_us", "100000\n" },
        { V1 "/a/cpu.cfs_period_us", "100000\n" } },
      0,
      "version 1: cpuset is not cpu" },
    { { { SELF "cgroup", "4:cpu:/a\n0::/b\n" },
        { SELF "mountinfo", V1_MOUNT("/") V2_MOUNT("/") },
        { V1 "/a/cpu.cfs_quota_us", "300000\n" },
        { V1 "/a/cpu.cfs_period_us", "100000\n" },
        { "/sys/fs/cgroup/b/cpu.max", "200000 100000\n" } },
      2,
      "both versions: the lesser" },
    { { { SELF "cgroup", "nonsense\n\n::\n0::\n0::/a\n" },
        { SELF "mountinfo", "x\n - \n1 2 3 / / rw - cgroup2\n" V2_MOUNT("/") },
        { "/sys/fs/cgroup/a/cpu.max", "100000 0\n" },
        { "/sys/fs/cgroup/cpu.max", "-5 x\n" } },
      0,
      "nonsense grants everything" },
};

static void quotas(void **state)
{
    (void)state;
    for (int i = 0; i < OT_LEN(trees); i++) {
        char root[] = "/tmp/ot-cpus-XXXXXX", line[64];
        assert_non_null(mkdtemp(root));
        for (int k = 0; k < 16 && trees[i].file[k][0]; k++) put(root, trees[i].file[k][0], trees[i].file[k][1]);
        double got = ot_cpu_quota(root);
        snprintf(line, sizeof line, "rm -rf %s", root);
        assert_int_equal(system(line), 0);
        if (got != trees[i].quota) fail_msg("%s: quota %g, wants %g", trees[i].what, got, trees[i].quota);
    }
}

static void threads_by_quota(void **state)
{
    (void)state;
    static const struct {
        int processors;
        double quota;
        int threads;
    } row[] = {
        { 2, 0, 2 },   { 1, 0, 1 }, { 2, 1, 1 }, { 2, 0.1, 1 },  { 2, 1.25, 1 },
        { 2, 1.5, 2 }, { 2, 2, 2 }, { 2, 8, 2 }, { 64, 3.4, 3 }, { 64, 3.5, 4 },
    };
    for (int i = 0; i < OT_LEN(row); i++)
        if (ot_threads_for(row[i].processors, row[i].quota) != row[i].threads)
            fail_msg("%d processors, quota %g", row[i].processors, row[i].quota);
    ot_cpus c = { .processors = 8, .quota = 1.5, .threads = 2 };
    char text[96];
    assert_string_equal(ot_cpus_text(&c, text), " (of 8 processors; the CPU quota is 1.5)");
    c.threads = 8;
    assert_string_equal(ot_cpus_text(&c, text), "");
    c = ot_cpus_read();
    assert_true(c.threads >= 1 && c.threads <= c.processors && c.processors <= sysconf(_SC_NPROCESSORS_CONF));
}

/* ---- OpenMP ------------------------------------------------------------------------------- */

enum { MINE = 5 };

typedef struct seen {
    int in_step;
} seen;

static void watch(void *user, const ot_progress *p)
{
    (void)p;
    ((seen *)user)->in_step += omp_get_max_threads() != MINE;
}

/* What a thread that the program starts by itself has, while another trains. */
static void *other_thread(void *user)
{
    *(int *)user = omp_get_max_threads();
    return NULL;
}

static int of_another_thread(void)
{
    pthread_t id;
    int n = 0;
    assert_int_equal(pthread_create(&id, NULL, other_thread, &n), 0);
    assert_int_equal(pthread_join(id, NULL), 0);
    return n;
}

/* A convolution, by oneDNN: planned, trained and written with 1 and 2 threads under a setting of 5. */
static void the_setting_is_the_callers(void **state)
{
    (void)state;
    int was = omp_get_max_threads(), others = of_another_thread();
    omp_set_num_threads(MINE);
    for (int k = 1; k <= 2; k++) {
        char run[] = "/tmp/ot-omp-XXXXXX", out[64], log[64], line[64], count[2] = { (char)('0' + k), 0 };
        seen s = { 0 };
        const ot_callbacks cb = { .user = &s, .progress = watch };
        ot_error err = { 0 };
        ot_model *m = NULL;
        ot_trainer *t = NULL;
        ot_options *o = ot_options_new();
        assert_non_null(mkdtemp(run));
        snprintf(out, sizeof out, "%s/out.onnx", run);
        snprintf(log, sizeof log, "%s/run", run);
        const char *const given[][2] = { { "data", OT_SOURCE_ROOT "/models/data/mnist" },
                                         { "steps", "3" },
                                         { "threads", count },
                                         { "device", "cpu" },
                                         { "run-dir", log },
                                         { "batch-size", "16" } };
        for (int i = 0; i < OT_LEN(given); i++) assert_ok(ot_options_set(o, given[i][0], given[i][1], &err), err);
        assert_ok(ot_model_load(OT_SOURCE_ROOT "/models/lenet.onnx", &m, &err), err);
        assert_ok(ot_trainer_new(m, o, &cb, &t, &err), err);
        assert_int_equal(omp_get_max_threads(), MINE);
        assert_ok(ot_trainer_run(t, &err), err);
        assert_int_equal(omp_get_max_threads(), MINE);
        assert_ok(ot_trainer_export(t, out, &err), err);
        assert_int_equal(omp_get_max_threads(), MINE);
        assert_int_equal(s.in_step, 0);
        assert_int_equal(of_another_thread(), others);
        ot_trainer_free(t);
        ot_model_free(m);
        ot_options_free(o);
        snprintf(line, sizeof line, "rm -rf %s", run);
        assert_int_equal(system(line), 0);
    }
    omp_set_num_threads(was);
}

int test_cpus(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas),
        cmocka_unit_test(threads_by_quota),
        cmocka_unit_test(the_setting_is_the_callers),
    };
    return cmocka_run_group_tests_name("cpus", tests, NULL, NULL);
}
