/* safetensors.c - one file of named tensors, read and mapped. */
#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { "\"dtype\":\"BF16\"",  "\"shape\":[2,3]", "\"data_offsets\":[0,24]",
                                   "\"__metadata__\":{}", "\"BOOL\"",        NULL };

void ot_fuzz(const uint8_t *p, size_t n)
{
    const char *path = fuzz_write("x.safetensors", p, n);
    ot_dataset_free(fuzz_open(path, OT_SPLIT_TRAIN));
    fuzz_mapped(path);
}
