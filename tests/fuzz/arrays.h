/* arrays.h - rules for a data set that was read: every byte is readable, reading again gives the same. */
#ifndef OT_TESTS_FUZZ_ARRAYS_H
#define OT_TESTS_FUZZ_ARRAYS_H

#include "runtime/data/data.h"
#include "tests/fuzz/fuzz.h"

/* Opens the path; NULL on failure or if there is no such part.  A data set: reads its bytes, checks its counts, runs
 * its check, and opens it again. */
ot_dataset *fuzz_open(const char *path, ot_split split);

/* Opens the same file so that its arrays are mapped where they can be, and checks their samples. */
void fuzz_mapped(const char *path);

/* Arrays a and b hold the same. */
void fuzz_same(const ot_tensor *a, const ot_tensor *b);

#endif
