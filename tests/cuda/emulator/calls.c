/* calls.c - counts calls, makes one fail, logs them; of any thread. */
#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/emulator.h"

bool emulator_call(const char *name, const char *fmt, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static long long count, fail_at;
    static const char *fail_name;
    static FILE *log;
    static bool asked;
    pthread_mutex_lock(&lock);
    if (!asked) {
        const char *n = getenv("ONNXTRAIN_EMULATOR_FAIL"), *file = getenv("ONNXTRAIN_EMULATOR_LOG");
        asked = true;
        fail_at = n ? atoll(n) : 0;
        fail_name = n && !isdigit((unsigned char)*n) ? n : NULL;
        log = file ? fopen(file, "w") : NULL;
    }
    bool fails = ++count == fail_at || (fail_name && !strcmp(name, fail_name));
    if (fails) fail_name = NULL; /* the first one */
    if (log) {
        va_list ap;
        fprintf(log, "%lld %s%s ", count, name, fails ? " FAILS" : "");
        va_start(ap, fmt);
        vfprintf(log, fmt, ap);
        va_end(ap);
        fputc('\n', log);
        fflush(log);
    }
    pthread_mutex_unlock(&lock);
    return fails;
}
