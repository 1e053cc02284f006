/* judge.h - what must hold of a folder after a command was disturbed. */
#ifndef OT_TESTS_CALLS_JUDGE_H
#define OT_TESTS_CALLS_JUDGE_H

#include "tests/calls/files.h"
#include "tests/calls/inject.h"
#include "tests/calls/scenes.h"

typedef struct record {
    const scene *s;
    files before, after; /* an undisturbed run */
} record;

/* Whether an undisturbed run wrote what the scene says, and nothing else beside its run folder and log: what the others are held
 * against.  NULL: all is well.  Else what is wrong; static. */
const char *judge_record(const record *r);
/* After a command that was disturbed; as above. */
const char *judge(const record *r, const fault *f, const outcome *o, const char *said, const files *now);
/* After one more run, undisturbed, in the same folder.  now: before it. */
const char *judge_again(const record *r, int code, const files *now, const files *again);

#endif
