/* memory.c - memory left by control groups, from files in the kernel's format; can a number of bytes be allocated? */
#include "test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct tree {
    const char *file[14][2];
    int64_t left;
    const char *what;
} tree;

static void put(const char *root, const char *path, const char *text)
{
    char full[300];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *c = full + strlen(root) + 1; *c; c++)
        if (*c == '/') *c = '\0', mkdir(full, 0700), *c = '/';
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

#define SELF "/proc/self/"
#define V2 "/sys/fs/cgroup"
#define V1 "/sys/fs/cgroup/memory"
#define V2_MOUNT "29 23 0:26 / " V2 " rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT "36 31 0:34 / " V1 " rw shared:4 - cgroup cgroup rw,memory\n"

static const tree trees[] = {
    { { { SELF "cgroup", "0::/\n" }, { SELF "mountinfo", V2_MOUNT } }, INT64_MAX, "version 2: the root has no limit" },
    { { { SELF "cgroup", "0::/a\n" },
        { SELF "mountinfo", V2_MOUNT },
        { V2 "/a/memory.max", "max\n" },
        { V2 "/a/memory.current", "5000\n" } },
      INT64_MAX,
      "version 2: max is no limit" },
    { { { SELF "cgroup", "0::/a\n" },
        { SELF "mountinfo", V2_MOUNT },
        { V2 "/a/memory.max", "9000\n" },
        { V2 "/a/memory.current", "5000\n" } },
      4000,
      "version 2: limit less what is used" },
    { { { SELF "cgroup", "0::/a\n" },
        { SELF "mountinfo", V2_MOUNT },
        { V2 "/a/memory.max", "9000\n" },
        { V2 "/a/memory.current", "8900\n" },
        { V2 "/a/memory.stat", "anon 100\nfile 8800\ninactive_file 8000\n" } },
      8100,
      "version 2: pages of files that nobody uses are given up" },
    { { { SELF "cgroup", "0::/a/b\n" },
        { SELF "mountinfo", V2_MOUNT },
        { V2 "/a/memory.max", "9000\n" },
        { V2 "/a/memory.current", "8000\n" },
        { V2 "/a/b/memory.max", "7000\n" },
        { V2 "/a/b/memory.current", "100\n" } },
      1000,
      "version 2: the group above has less left" },
    { { { SELF "cgroup", "0::/a\n" },
        { SELF "mountinfo", V2_MOUNT },
        { V2 "/a/memory.max", "9000\n" },
        { V2 "/a/memory.current", "9500\n" } },
      0,
      "version 2: more is used than is allowed" },
    { { { SELF "cgroup", "4:memory:/docker/1\n0::/\n" },
        { SELF "mountinfo", V1_MOUNT V2_MOUNT },
        { V1 "/memory.limit_in_bytes", "9223372036854771712\n" },
        { V1 "/memory.usage_in_bytes", "77\n" },
        { V1 "/docker/1/memory.limit_in_bytes", "6000\n" },
        { V1 "/docker/1/memory.usage_in_bytes", "5000\n" },
        { V1 "/docker/1/memory.stat", "cache 3000\ninactive_file 1\ntotal_inactive_file 2000\n" } },
      3000,
      "version 1: of the group and those below it" },
    { { { SELF "cgroup", "3:cpu:/a\n" },
        { SELF "mountinfo", V1_MOUNT },
        { V1 "/a/memory.limit_in_bytes", "1\n" },
        { V1 "/a/memory.usage_in_bytes", "0\n" } },
      INT64_MAX,
      "version 1: another kind's group" },
};

static int removed(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static void groups(void **state)
{
    (void)state;
    for (int i = 0; i < OT_LEN(trees); i++) {
        char root[] = "/tmp/ot-memory-XXXXXX";
        assert_non_null(mkdtemp(root));
        for (int k = 0; k < 14 && trees[i].file[k][0]; k++) put(root, trees[i].file[k][0], trees[i].file[k][1]);
        int64_t got = ot_memory_of_groups(root);
        assert_int_equal(nftw(root, removed, 8, FTW_DEPTH | FTW_PHYS), 0);
        if (got != trees[i].left)
            fail_msg("%s: %lld, wants %lld", trees[i].what, (long long)got, (long long)trees[i].left);
    }
}

/* In a process of its own: limits stay. */
static void limits(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* it takes all address space */
#endif
    for (int i = 0; i < 2; i++) {
        int end = 0;
        pid_t child = fork();
        if (!child) {
            const int64_t MIB = 1 << 20;
            struct rlimit r = { (rlim_t)(1024 * MIB), (rlim_t)(1024 * MIB) };
            bool set = !setrlimit(i ? RLIMIT_DATA : RLIMIT_AS, &r);
            bool right = set && ot_memory_limited() && ot_memory_fits(0) && ot_memory_fits(256 * MIB) &&
                         !ot_memory_fits(2048 * MIB);
            for (int k = 0; k < 100; k++) right &= ot_memory_fits(256 * MIB); /* it is given back */
            if (!i) right &= ot_memory_available() < 1024 * MIB;
            _exit(right ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &end, 0), child);
        assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 0);
    }
}

int ot_test_memory(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(groups), cmocka_unit_test(limits) };
    return cmocka_run_group_tests_name("base.memory", tests, NULL, NULL);
}
