/* test.h - functions that the files of tests/base share. */
#ifndef OT_TESTS_BASE_H
#define OT_TESTS_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/base.h"

int ot_test_errors(void);
int ot_test_arena(void);
int ot_test_shape(void);
int ot_test_dtype(void);
int ot_test_io(void);
int ot_test_random(void);
int ot_test_keyed_hash(void);
int ot_test_text(void);
int ot_test_memory(void);

#endif
