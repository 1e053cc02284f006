/* npy.c - one .npy, plain or in gzip. */
#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { "'descr'", "'fortran_order'", "'shape'", "<f4", ">i8", "|b1", "|O", "<U4", NULL };

/* The same file mapped: the status is that of reading it, but for what only reading sees (values of bool), and every sample can
 * be looked at. */
static void mapped(const char *path)
{
    const ot_data_options o = { .map_from = 1 };
    ot_dataset *d = NULL;
    ot_error e = { 0 };
    fuzz_status("ot_dataset_open (mapped)", ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, &e), &e);
    for (int64_t i = 0; d && d->array[0].mapped && d->array[0].t.rank && i < d->samples && i < 1000; i++) {
        ot_error bad = { 0 };
        fuzz_status("ot_array_check_sample", ot_array_check_sample(d->array, i, i, OT_F32, &bad), &bad);
    }
    ot_dataset_free(d);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    const char *path = fuzz_write("x.npy", p, n);
    ot_dataset_free(fuzz_open(path, OT_SPLIT_TRAIN));
    mapped(path);
}
