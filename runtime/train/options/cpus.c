/* cpus.c - how many threads the machine has for this process; has them made.
 *
 * More threads than processors wait for each other, and under a quota it is worse: all of them run until the time of a
 * period is spent, then none does.  So the default is the lesser of the affinity and of what the control groups grant.
 *
 * Source  the kernel's cgroup-v2 (cpu.max) and sched-bwc (cpu.cfs_*). */
#include "runtime/train/options/cpus.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the quota of one group -------------------------------------------------------- */

/* The first two numbers of a file; "max" is -1.  false: they are not there. */
static bool two_numbers(const char *path, double *a, double *b)
{
    char text[64];
    FILE *f = fopen(path, "r");
    int n = f ? fscanf(f, "%63s %lf", text, b) : 0;
    if (f) fclose(f);
    if (n < 1) return false;
    *a = strcmp(text, "max") ? strtod(text, NULL) : -1;
    return n == 2;
}

/* Of the group in folder dir; 0: it has none. */
static double quota_of(const char *dir)
{
    char path[2 * 4096];
    double quota = -1, period = 0, ignored;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    if (!two_numbers(path, &quota, &period)) {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
        (void)two_numbers(path, &quota, &ignored);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        (void)two_numbers(path, &period, &ignored);
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

static double lesser(double a, double b) { return a == 0 || (b != 0 && b < a) ? b : a; }

static void take_lesser(const char *dir, void *least) { *(double *)least = lesser(*(double *)least, quota_of(dir)); }

double ot_cpu_quota(const char *root)
{
    double least = 0;
    ot_cgroups(root, "cpu", take_lesser, &least);
    return least;
}

/* ---- together ------------------------------------------------------------------------ */

/* A part of a processor is worth a thread from a half on: below, the thread is in the way of the others more often than
 * it runs. */
int ot_threads_for(int processors, double quota)
{
    int n = quota > 0 && quota < processors ? (int)(quota + 0.5) : processors;
    return n < 1 ? 1 : n;
}

/* The mask must be as wide as the kernel's, which does not say how wide that is. */
static int processors(void)
{
    int n = 0;
    for (int width = 1024; !n && width <= 1 << 20; width *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)width);
        size_t bytes = CPU_ALLOC_SIZE((size_t)width);
        if (!set) break;
        if (!sched_getaffinity(0, bytes, set)) n = CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
    }
    return n > 0 ? n : 1;
}

ot_cpus ot_cpus_read(void)
{
    ot_cpus c = { .processors = processors(), .quota = ot_cpu_quota("") };
    c.threads = ot_threads_for(c.processors, c.quota);
    return c;
}

/* ---- making them --------------------------------------------------------------------- */

static void *wait_for(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

ot_status ot_threads_make(int threads, ot_error *err)
{
    if (threads < 2) return OT_OK;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *made = calloc((size_t)threads, sizeof *made);
    int n = 0, number = made ? 0 : ENOMEM;
    pthread_mutex_lock(&gate); /* all are there before the first ends */
    while (!number && n < threads - 1)
        if (!(number = pthread_create(&made[n], NULL, wait_for, &gate))) n++;
    pthread_mutex_unlock(&gate);
    while (n > 0) pthread_join(made[--n], NULL);
    free(made);
    pthread_mutex_destroy(&gate);
    if (!number && !ot_memory_fits(OT_LIBRARY_ROOM)) number = ENOMEM;
    if (number)
        return ot_fail(err, OT_E_NOMEM, "out of memory: cannot create %d threads (%s); use fewer --threads", threads,
                       strerror(number));
    /* A thread's first allocation reserves 64 MiB of address space where they are free (glibc's arenas), and leaves what is
     * then too little; so they come first, and what is counted later is what is left. */
#pragma omp parallel num_threads(threads)
    {
        void *volatile first = malloc(1);
        free(first);
    }
    return OT_OK;
}

int64_t ot_threads_room(int threads)
{
    pthread_attr_t a;
    size_t stack = 8 << 20;
    if (!pthread_getattr_default_np(&a)) {
        (void)pthread_attr_getstacksize(&a, &stack);
        (void)pthread_attr_destroy(&a);
    }
    /* Of two threads none is ended: a region has both, or one alone. */
    return OT_LIBRARY_ROOM + threads * (INT64_C(4) << 20) + (threads > 2 ? (threads - 2) * (int64_t)stack : 0);
}

const char *ot_cpus_text(const ot_cpus *c, char buf[96])
{
    *buf = '\0';
    if (c->threads < c->processors)
        snprintf(buf, 96, " (of %d processors; the CPU quota is %.4g)", c->processors, c->quota);
    return buf;
}
