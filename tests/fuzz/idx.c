/* idx.c - pictures in idx, and labels beside them: the input is fuzz_split into the two files. */
#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { NULL };

void ot_fuzz(const uint8_t *p, size_t n)
{
    fuzz_pair f = fuzz_split(p, n);
    const char *path = fuzz_write("x-images-idx3-ubyte", f.a, f.na);
    if (f.nb) fuzz_write("x-labels-idx1-ubyte", f.b, f.nb);
    ot_dataset_free(fuzz_open(path, OT_SPLIT_TRAIN));
}
