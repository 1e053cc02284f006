/* main_bus.c - a file that another program cuts while it is mapped: reading beyond its end is a signal, which ends the program as
 * an I/O error that names the file.
 *
 * The library checks size and time of mapped files before each batch; what is left is a file that is cut within one. A library
 * installs no signal handlers: this is the program's. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "runtime/main_screen.h"

enum { LINE = 8192 };

static uintptr_t hex(const char **p)
{
    uintptr_t v = 0;
    for (;; ++*p) {
        int c = **p, digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return v;
        v = v * 16 + (uintptr_t)digit;
    }
}

/* The file of a line of /proc/self/maps ("7f00-7f10 r--s ... /data/x.npy") if `at` is in its range; else NULL. */
static const char *mapped_file(const char *line, uintptr_t at)
{
    uintptr_t from = hex(&line), to = *line == '-' ? (line++, hex(&line)) : 0;
    return at >= from && at < to ? strchr(line, '/') : NULL;
}

/* Finds the line of a mapping that `at` is in, and writes the message.  Calls only what a signal handler may. */
static bool say_file(uintptr_t at)
{
    static char line[LINE]; /* one thread is here, and its stack may be short */
    static const char begins[] = "\nonnxtrain: ";
    static const char ends[] =
        ": cannot be read any more: it was cut while it was in use, or its disk fails; start again with the new file\n";
    size_t n = 0;
    char c;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && read(fd, &c, 1) == 1) {
        if (c != '\n') {
            if (n < LINE - 1) line[n++] = c;
            continue;
        }
        line[n] = '\0';
        n = 0;
        const char *file = mapped_file(line, at);
        if (!file) continue;
        ssize_t a = write(STDERR_FILENO, begins, sizeof begins - 1), b = write(STDERR_FILENO, file, strlen(file)),
                d = write(STDERR_FILENO, ends, sizeof ends - 1);
        (void)a, (void)b, (void)d;
        return true;
    }
    return false;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
    static atomic_flag told = ATOMIC_FLAG_INIT; /* several threads may read the file */
    (void)context;
    while (info->si_code == BUS_ADRERR && atomic_flag_test_and_set(&told)) pause();
    if (info->si_code == BUS_ADRERR && say_file((uintptr_t)info->si_addr)) _exit(OT_E_IO);
    signal(sig, SIG_DFL); /* the instruction is made again, and ends the program */
}

void screen_catch_bus(void)
{
    struct sigaction a = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    sigemptyset(&a.sa_mask);
    sigaction(SIGBUS, &a, NULL);
}
