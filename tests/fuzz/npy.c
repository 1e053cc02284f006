/* npy.c - one .npy, plain or in gzip. */
#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { "'descr'", "'fortran_order'", "'shape'", "<f4", ">i8", "|b1", "|O", "<U4", NULL };

void ot_fuzz(const uint8_t *p, size_t n)
{
    const char *path = fuzz_write("x.npy", p, n);
    ot_dataset_free(fuzz_open(path, OT_SPLIT_TRAIN));
    fuzz_mapped(path);
}
