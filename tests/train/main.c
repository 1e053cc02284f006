/* main.c - all groups of tests of runtime/train. */

#include "tests/train/train.h"

int open_lenet(ot_model **m, ot_options **o)
{
    ot_error err = { 0 };
    *o = ot_options_new();
    return !*o || ot_options_set(*o, "threads", "1", &err) || ot_model_load(LENET, m, &err);
}

int main(void)
{
    return test_things() + test_options() + test_schedules() + test_adapt() + test_log() + test_findings() +
           test_trainer() + test_epochs() + test_precision() + test_cpus() + test_misuse() + test_best() +
           test_runner() + test_steps();
}
