/* calls.c - counts calls, makes one fail, logs them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/emulator/emulator.h"

bool emulator_call(const char *name, const char *fmt, ...)
{
    static long long count, fail_at;
    static FILE *log;
    static bool asked;
    if (!asked) {
        const char *n = getenv("ONNXTRAIN_EMULATOR_FAIL"), *file = getenv("ONNXTRAIN_EMULATOR_LOG");
        asked = true;
        fail_at = n ? atoll(n) : 0;
        log = file ? fopen(file, "w") : NULL;
    }
    bool fails = ++count == fail_at;
    if (log) {
        va_list ap;
        fprintf(log, "%lld %s%s ", count, name, fails ? " FAILS" : "");
        va_start(ap, fmt);
        vfprintf(log, fmt, ap);
        va_end(ap);
        fputc('\n', log);
        fflush(log);
    }
    return fails;
}
