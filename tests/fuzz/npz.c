/* npz.c - an archive of arrays; arrays that were read are written and read again. */
#include <stdlib.h>

#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { "'descr'", "'fortran_order'", "'shape'", "<f4", "target", "x.npy", "|O", NULL };

static void round_trip(const ot_dataset *d)
{
    ot_error e = { 0 };
    const char *path = fuzz_path("y.npz");
    ot_tensor *list = calloc((size_t)d->n + 1, sizeof *list);
    for (int i = 0; list && i < d->n; i++) list[i] = d->array[i].t;
    if (list && !fuzz_status("ot_npz_write", ot_npz_write(path, list, d->n, &e), &e)) {
        ot_dataset *back = fuzz_open(path, OT_SPLIT_TRAIN);
        FUZZ_HOLD(back && back->n == d->n && back->hash == d->hash, "written and read, it is another set");
        for (int i = 0; i < d->n; i++) fuzz_same(&d->array[i].t, &back->array[i].t);
        ot_dataset_free(back);
    }
    free(list);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    ot_dataset *d = fuzz_open(fuzz_write("x.npz", p, n), OT_SPLIT_TRAIN);
    if (d) round_trip(d);
    ot_dataset_free(d);
}
