/* main.c - all groups of tests of runtime/train. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "tests/train/train.h"

int open_lenet(ot_model **m, ot_options **o)
{
    ot_error err = { 0 };
    *o = ot_options_new();
    return !*o || ot_options_set(*o, "threads", "1", &err) || ot_model_load(LENET, m, &err);
}

int open_folder(char folder[32])
{
    strcpy(folder, "/tmp/ot_train_XXXXXX");
    return !mkdtemp(folder);
}

int close_folder(const char *folder)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int write_digits(const char *path, int n, int rank, float most)
{
    enum { MOST = 20, PIXELS = 784 };
    static float x[MOST * PIXELS];
    static int64_t y[MOST];
    ot_error err = { 0 };
    if (n > MOST) return 1;
    for (int i = 0; i < n * PIXELS; i++) x[i] = (float)((int64_t)i * i * 37 % 101) * most / 100;
    for (int i = 0; i < n; i++) y[i] = i % 10;
    ot_tensor t[2] = { { .name = "input", .dtype = OT_F32, .rank = 4, .dim = { n, 1, 28, 28 }, .data = x },
                       { .name = "target", .dtype = OT_I64, .rank = 1, .dim = { n }, .data = y } };
    if (rank == 2) t[0].rank = 2, t[0].dim[1] = PIXELS;
    return ot_npz_write(path, t, 2, &err);
}

ot_status set_pair(ot_options *o, const char *pair, ot_error *err)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(pair, "="), pair);
    return ot_options_set(o, name, strchr(pair, '=') + 1, err);
}

int main(void)
{
    return test_things() + test_options() + test_schedules() + test_adapt() + test_log() + test_findings() +
           test_trainer() + test_epochs() + test_precision() + test_cpus() + test_misuse() + test_best() +
           test_runner() + test_steps();
}
