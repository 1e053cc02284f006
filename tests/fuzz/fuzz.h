/* fuzz.h - functions that the fuzz targets share: a scratch folder, and rules for any input.
 *
 * A target is one file with ot_fuzz().  fuzz.c calls it for every input, checks that the scratch folder has no other
 * files afterwards than those declared here, and empties it. */
#ifndef OT_TESTS_FUZZ_H
#define OT_TESTS_FUZZ_H

#include "runtime/base/base.h"

/* The target: n bytes of input.  May return at any place; must release what it holds. */
void ot_fuzz(const uint8_t *p, size_t n);

/* Words that mutators insert: NULL-terminated, of the target or none. */
extern const char *const fuzz_words[];

/* Path of a file of the scratch folder, valid for this input.  May name a subfolder that fuzz_subfolder made. */
const char *fuzz_path(const char *name); /* the target may make it; a pattern such as "out/?*" for any in out */
const char *fuzz_write(const char *name, const void *p, size_t n); /* made now, replaced if it is there */
const char *fuzz_subfolder(const char *name);

/* A rule of the program: if broken, ends the process with the text. */
#define FUZZ_HOLD(rule, ...) \
    do {                     \
        if (!(rule)) fuzz_broken(#rule, __VA_ARGS__); \
    } while (0)
_Noreturn void fuzz_broken(const char *rule, const char *fmt, ...) OT_PRINTF(2, 3);

/* Rules for any call that may fail: the status returned is err's, a failure has a text, a success none.  Returns s.
 * The first failure is the result of the input (fuzz_answer).  With FUZZ_SAY in the environment every failure is
 * printed to stderr. */
ot_status fuzz_status(const char *call, ot_status s, const ot_error *err);
ot_status fuzz_answer(void);
void fuzz_answered(ot_status s); /* another than the first failure */

/* Splits the input in two: the last two bytes are the length of the second part, which precedes them; it is empty if
 * that exceeds the input. */
typedef struct fuzz_pair {
    const uint8_t *a, *b;
    size_t na, nb;
} fuzz_pair;
fuzz_pair fuzz_split(const uint8_t *p, size_t n);

#endif
