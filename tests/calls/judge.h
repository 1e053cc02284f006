/* judge.h - checks a folder after a command was disturbed. */
#ifndef OT_TESTS_CALLS_JUDGE_H
#define OT_TESTS_CALLS_JUDGE_H

#include "tests/calls/files.h"
#include "tests/calls/inject.h"
#include "tests/calls/scenes.h"

typedef struct record {
    const scene *s;
    files before, after; /* an undisturbed run */
} record;

/* Did an undisturbed run write what the scene expects, and nothing else besides its run folder and log?  Others are
 * compared with it.  NULL: yes.  Else the error; static. */
const char *judge_record(const record *r);
/* After a command that was disturbed; as above. */
const char *judge(const record *r, const fault *f, const outcome *o, const char *said, const files *now);
/* After one more run, undisturbed, in the same folder.  now: before it. */
const char *judge_again(const record *r, int code, const files *now, const files *again);

#endif
