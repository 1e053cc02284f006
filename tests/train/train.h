/* train.h - the groups of tests of runtime/train. */
#ifndef TEST_TRAIN_H
#define TEST_TRAIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/base.h"

int test_things(void);
int test_options(void);
int test_schedules(void);
int test_adapt(void);
int test_epochs(void);
int test_findings(void);
int test_log(void);
int test_precision(void);
int test_cpus(void);
int test_trainer(void);
int test_misuse(void);
int test_best(void);
int test_runner(void);
int test_steps(void);

#define LENET OT_SOURCE_ROOT "/models/lenet.onnx"

/* LeNet, and options with one thread.  0: both are there. */
int open_lenet(ot_model **m, ot_options **o);

/* A new folder, and both gone.  0: done. */
int open_folder(char folder[32]);
int close_folder(const char *folder);

/* Writes an .npz of n generated digits, "input" of the rank 2 or 4 with values from 0 to `most`, and "target", 0 to 9 in turn. */
int write_digits(const char *path, int n, int rank, float most);

ot_status set_pair(ot_options *o, const char *pair, ot_error *err); /* "name=value" */

#define assert_ok(expr, err)                                                                       \
    do {                                                                                           \
        ot_status ok_ = (expr);                                                                    \
        if (ok_ != OT_OK) fail_msg("%s", (err).text);                                              \
    } while (0)

#define assert_near(a, b, eps)                                                                     \
    do {                                                                                           \
        double a_ = (a), b_ = (b);                                                                 \
        if (!(a_ - b_ <= (eps) && b_ - a_ <= (eps))) fail_msg("%.17g is not %.17g", a_, b_);       \
    } while (0)

#define assert_says(err, part)                                                                     \
    do {                                                                                           \
        if (!strstr((err).text, part)) fail_msg("'%s' does not say '%s'", (err).text, part);       \
    } while (0)

#endif
