/* mutate.h - functions that mutators share.
 *
 * A mutator is a file mutate_<name>.c with LLVMFuzzerCustomMutator; the table `targets` assigns one to each target.  It
 * makes inputs of its format that pass the first checks, and passes about every fourth input to LLVMFuzzerMutate, which
 * changes bytes only. */
#ifndef OT_TESTS_MUTATE_H
#define OT_TESTS_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* libFuzzer's, or replay.c's. */
size_t LLVMFuzzerMutate(uint8_t *p, size_t n, size_t most);

/* Changes p in place, returns its new length. */
size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t most, unsigned seed);

/* The generator of one mutation: LLVMFuzzerCustomMutator seeds it. */
void mutate_seed(uint64_t seed);
uint64_t mutate_random(void);
size_t mutate_below(size_t n); /* 0 … n-1; n at least 1 */
bool mutate_chance(unsigned percent);

int64_t mutate_integer(int64_t v);                      /* near, far, or one that is known to hurt */
size_t mutate_bytes(uint8_t *p, size_t n, size_t most); /* LLVMFuzzerMutate, or inserts a word of fuzz_words */

#endif
