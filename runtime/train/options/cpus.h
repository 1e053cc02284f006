/* cpus.h - how many threads the machine has for this process; has them made. */
#ifndef OT_TRAIN_CPUS_H
#define OT_TRAIN_CPUS_H

#include "runtime/base/base.h"

typedef struct ot_cpus {
    int processors; /* that it may run on: its affinity */
    double quota;   /* processors' worth of time that its control groups grant, the least of all levels; 0: no limit */
    int threads;    /* what --threads is by default; at least 1 */
} ot_cpus;

ot_cpus ot_cpus_read(void);

/* " (of 2 processors; the CPU quota is 1.5)" where the quota decides, else "".  Returns buf. */
const char *ot_cpus_text(const ot_cpus *c, char buf[96]);

/* Has OpenMP make the threads on which the calling thread's regions run.  Where one cannot be made OpenMP ends the process;
 * so as many are made, and ended, before.  Errors: OT_E_NOMEM. */
ot_status ot_threads_make(int threads, ot_error *err);

/* Bytes that a run may need besides the planned ones: stacks of threads that OpenMP ends and starts again, and what oneDNN
 * and OpenMP allocate while they run. */
int64_t ot_threads_room(int threads);

/* The parts, for tests.  root: in front of /proc/self and of the mount points that it names; "" is the system.
 * Quota of the control groups (version 1 and 2) that the process is in and of all above them; 0: no limit. */
double ot_cpu_quota(const char *root);
int ot_threads_for(int processors, double quota);

#endif
