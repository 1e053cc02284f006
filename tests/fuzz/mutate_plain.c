/* mutate_plain.c - bytes, and words of the target. */
#include "tests/fuzz/mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t most, unsigned seed)
{
    mutate_seed(seed);
    return mutate_bytes(p, n, most);
}
