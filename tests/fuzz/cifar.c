/* cifar.c - a folder of CIFAR's binary batches.  The last byte says which file the input is; the others that
 * stand before it are one good record each. */
#include <stdio.h>

#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { NULL };

void ot_fuzz(const uint8_t *p, size_t n)
{
    static const char *const name[] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_5.bin",
                                        "test_batch.bin",   "train.bin",        "test.bin" };
    static const uint8_t record[3073];
    char path[64];
    if (!n) return;
    int which = p[n - 1] % OT_LEN(name);
    const char *folder = fuzz_subfolder("cifar");
    for (int i = 0; i < which && which < 5; i++) {
        snprintf(path, sizeof path, "cifar/%s", name[i]);
        fuzz_write(path, record, sizeof record);
    }
    snprintf(path, sizeof path, "cifar/%s", name[which]);
    fuzz_write(path, p, n - 1);
    ot_dataset_free(fuzz_open(folder, OT_SPLIT_TRAIN));
    ot_dataset_free(fuzz_open(folder, OT_SPLIT_TEST));
}
