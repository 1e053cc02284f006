/* inject.h - runs a program and makes one of its system calls fail, kills it there, or makes transfers short. */
#ifndef OT_TESTS_INJECT_H
#define OT_TESTS_INJECT_H

#include <stdbool.h>

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_ERROR,      /* call `at` is not made and gives `error` */
    FAULT_KILL,       /* SIGKILL where call `at` begins */
    FAULT_JOLT,       /* every fourth transfer is interrupted before a byte moves (EINTR), every other one is short */
    FAULT_JOLT_READS, /* only reads; only those with an offset, which the C library does not repeat, are interrupted */
} fault_kind;

typedef struct fault {
    fault_kind kind;
    long at;
    int error;
    bool no_tmpfile; /* as on a file system without O_TMPFILE */
} fault;

enum { MOST_CALLS = 4096 };

typedef struct outcome {
    int code;   /* exit code; 128 + signal */
    long calls; /* that touch files, counted from the first relative path on, which skips loading of the program */
    const char *name[MOST_CALLS]; /* of the first so many; NULL behind the last */
    bool inside[MOST_CALLS];      /* FAULT_NONE: it does not concern a relative path, or a file in a folder `root` */
    bool hit;                     /* call `at` was made */
    bool speaks;                  /* and writes to standard output or error */
} outcome;

extern const char *inject_root; /* part of the path of every folder that `inside` refers to */

/* argv[0]: the program, by an absolute path.  It runs in `folder`; what it prints goes to the file `said`.
 * from_write: counting begins with the first write, for programs that use absolute paths.
 * false: this machine does not let one process trace another so. */
bool inject(const char *const argv[], const char *folder, const char *said, const fault *f, bool from_write,
            outcome *out);

/* The errors that call `name` can have, ended by 0. */
const int *inject_errors(const char *name);

#endif
