/* arrays.h - rules for a data set that was read: every byte is there, reading again gives the same. */
#ifndef OT_TESTS_FUZZ_ARRAYS_H
#define OT_TESTS_FUZZ_ARRAYS_H

#include "runtime/data/data.h"
#include "tests/fuzz/fuzz.h"

/* Opens the path; NULL where that failed or there is no such part.  A set: its bytes are read, its counts agree,
 * its check is made, and opening it again gives the same. */
ot_dataset *fuzz_open(const char *path, ot_split split);

/* Arrays a and b hold the same. */
void fuzz_same(const ot_tensor *a, const ot_tensor *b);

#endif
