/* inject.c - stops system calls of another process with a filter (seccomp) and changes them as its tracer (ptrace).
 *
 * Only calls that touch files stop; all others run at full speed, so that a run costs about what it costs alone. */
#include "tests/calls/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN(list) ((int)(sizeof(list) / sizeof *(list)))

/* ---- the calls ------------------------------------------------------------------------ */

typedef enum kind {
    PATH_FIRST = 1,
    PATH_SECOND = 2,
    TRANSFER = 4
} kind; /* the argument with a path; the third argument is a length */

typedef struct call {
    long number;
    const char *name;
    int kind;
    int errors[6];
} call;

static const call calls[] = {
    { SYS_openat, "openat", PATH_SECOND, { EMFILE, ENOSPC, EIO, EINTR, ENOMEM } },
    { SYS_read, "read", TRANSFER, { EIO, EINTR } },
    { SYS_pread64, "pread64", TRANSFER, { EIO, EINTR } },
    { SYS_write, "write", TRANSFER, { ENOSPC, EIO, EINTR, EDQUOT } },
    { SYS_pwrite64, "pwrite64", TRANSFER, { ENOSPC, EIO, EINTR, EDQUOT } },
    { SYS_readv, "readv", 0, { EIO, EINTR } },
    { SYS_writev, "writev", 0, { ENOSPC, EIO, EINTR, EDQUOT } },
    { SYS_lseek, "lseek", 0, { EIO } },
    { SYS_fsync, "fsync", 0, { EIO, ENOSPC, EINTR, EDQUOT } },
    { SYS_fdatasync, "fdatasync", 0, { EIO, ENOSPC, EINTR, EDQUOT } },
    { SYS_fchmod, "fchmod", 0, { EIO, EPERM } },
    { SYS_fchmodat, "fchmodat", PATH_SECOND, { EIO, EPERM } },
    { SYS_close, "close", 0, { EIO, EINTR, ENOSPC, EDQUOT } },
    { SYS_fstat, "fstat", 0, { EIO, ENOMEM } },
    { SYS_statx, "statx", PATH_SECOND, { EIO, ENOMEM } },
#ifdef SYS_newfstatat
    { SYS_newfstatat, "newfstatat", PATH_SECOND, { EIO, ENOMEM } },
#endif
    { SYS_faccessat, "faccessat", PATH_SECOND, { EIO, ENOMEM } },
#ifdef SYS_faccessat2
    { SYS_faccessat2, "faccessat2", PATH_SECOND, { EIO, ENOMEM } },
#endif
    { SYS_readlinkat, "readlinkat", PATH_SECOND, { EIO } },
    { SYS_getdents64, "getdents64", 0, { EIO } },
    { SYS_ftruncate, "ftruncate", 0, { EIO, EINTR } },
    { SYS_fallocate, "fallocate", 0, { ENOSPC, EIO, EINTR } },
    { SYS_flock, "flock", 0, { ENOLCK, EINTR } },
    { SYS_linkat, "linkat", PATH_SECOND, { ENOSPC, EDQUOT, EIO, ENOENT, EPERM } },
    { SYS_symlinkat, "symlinkat", 0, { ENOSPC, EIO } },
    { SYS_renameat2, "renameat2", PATH_SECOND, { ENOSPC, EDQUOT, EIO } },
#ifdef SYS_renameat
    { SYS_renameat, "renameat", PATH_SECOND, { ENOSPC, EDQUOT, EIO } },
#endif
    { SYS_unlinkat, "unlinkat", PATH_SECOND, { EIO, EPERM } },
    { SYS_mkdirat, "mkdirat", PATH_SECOND, { ENOSPC, EDQUOT, EIO } },
#ifdef SYS_open /* the older names, where an architecture has them */
    { SYS_open, "open", PATH_FIRST, { EMFILE, ENOSPC, EIO, EINTR, ENOMEM } },
    { SYS_stat, "stat", PATH_FIRST, { EIO, ENOMEM } },
    { SYS_lstat, "lstat", PATH_FIRST, { EIO, ENOMEM } },
    { SYS_access, "access", PATH_FIRST, { EIO, ENOMEM } },
    { SYS_readlink, "readlink", PATH_FIRST, { EIO } },
    { SYS_rename, "rename", PATH_FIRST, { ENOSPC, EDQUOT, EIO } },
    { SYS_link, "link", PATH_FIRST, { ENOSPC, EDQUOT, EIO } },
    { SYS_unlink, "unlink", PATH_FIRST, { EIO, EPERM } },
    { SYS_rmdir, "rmdir", PATH_FIRST, { EIO } },
    { SYS_mkdir, "mkdir", PATH_FIRST, { ENOSPC, EDQUOT, EIO } },
    { SYS_chmod, "chmod", PATH_FIRST, { EIO, EPERM } },
#endif
};

const int *inject_errors(const char *name)
{
    for (int i = 0; i < LEN(calls); i++)
        if (!strcmp(calls[i].name, name)) return calls[i].errors;
    return NULL;
}

static const call *call_of(long number)
{
    for (int i = 0; i < LEN(calls); i++)
        if (calls[i].number == number) return &calls[i];
    return NULL;
}

/* ---- registers ------------------------------------------------------------------------- */

#if defined __x86_64__
static const unsigned architecture = AUDIT_ARCH_X86_64;
typedef struct user_regs_struct registers;
static uint64_t argument(const registers *r, int i) { return i == 0 ? r->rdi : i == 1 ? r->rsi : r->rdx; }
static long number_of(const registers *r) { return (long)r->orig_rax; }
static void set_length(registers *r, uint64_t n) { r->rdx = n; }
static void refuse(registers *r, int error)
{
    r->orig_rax = (unsigned long long)-1;
    r->rax = (unsigned long long)(long long)-error;
}
static bool get(pid_t pid, registers *r) { return !ptrace(PTRACE_GETREGS, pid, NULL, r); }
static bool set(pid_t pid, registers *r) { return !ptrace(PTRACE_SETREGS, pid, NULL, r); }
#elif defined __aarch64__
static const unsigned architecture = AUDIT_ARCH_AARCH64;
enum { NT_CALL = 0x404 };
typedef struct user_regs_struct registers;
static uint64_t argument(const registers *r, int i) { return r->regs[i]; }
static long number_of(const registers *r) { return (long)r->regs[8]; }
static void set_length(registers *r, uint64_t n) { r->regs[2] = n; }
static void refuse(registers *r, int error)
{
    r->regs[8] = UINT64_MAX;
    r->regs[0] = (uint64_t)(int64_t)-error;
}
static bool get(pid_t pid, registers *r)
{
    struct iovec v = { r, sizeof *r };
    return !ptrace(PTRACE_GETREGSET, pid, 1, &v);
}
static bool set(pid_t pid, registers *r)
{
    int number = (int)r->regs[8];
    struct iovec v = { r, sizeof *r }, c = { &number, sizeof number };
    return !ptrace(PTRACE_SETREGSET, pid, NT_CALL, &c) && !ptrace(PTRACE_SETREGSET, pid, 1, &v);
}
#else
static const unsigned architecture = 0; /* none that this knows */
typedef struct registers {
    int none;
} registers;
static uint64_t argument(const registers *r, int i)
{
    (void)r;
    return (uint64_t)i;
}
static long number_of(const registers *r)
{
    (void)r;
    return -1;
}
static void set_length(registers *r, uint64_t n) { (void)r, (void)n; }
static void refuse(registers *r, int error) { (void)r, (void)error; }
static bool get(pid_t pid, registers *r)
{
    (void)pid;
    (void)r;
    return false;
}
static bool set(pid_t pid, registers *r)
{
    (void)pid;
    (void)r;
    return false;
}
#endif

/* ---- the program that is traced ------------------------------------------------------------ */

static bool filter_calls(void)
{
    struct sock_filter f[LEN(calls) + 6];
    unsigned short n = 0;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, architecture, 0, LEN(calls) + 1);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < LEN(calls); i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number,
                                              (unsigned char)(LEN(calls) - i), 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    struct sock_fprog p = { n, f };
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}

enum { CANNOT = 125 };

static _Noreturn void be_traced(const char *const argv[], const char *folder, const char *said)
{
    int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || chdir(folder) || ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(CANNOT);
    raise(SIGSTOP);
    if (!filter_calls()) _exit(CANNOT);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(CANNOT);
}

/* ---- the tracer -------------------------------------------------------------------------------- */

typedef struct tracer {
    const fault *f;
    outcome *out;
    bool from_write, counting;
    long transfers;
    bool filtered;
} tracer;

static void path_of(pid_t pid, const registers *r, const call *c, char *path, size_t n)
{
    struct iovec here = { path, n - 1 },
                 there = { (void *)(uintptr_t)argument(r, c->kind & PATH_FIRST ? 0 : 1), n - 1 };
    ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (got < 0) { /* near the end of a mapping */
        there.iov_len = here.iov_len = 64;
        got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    }
    path[got > 0 ? got : 0] = '\0';
}

/* Whether calls are counted from this one on. */
static bool begins(tracer *t, pid_t pid, const registers *r, const call *c)
{
    char path[256];
    if (t->from_write) return !strcmp(c->name, "write");
    if (!(c->kind & (PATH_FIRST | PATH_SECOND))) return false;
    path_of(pid, r, c, path, sizeof path);
    return *path && *path != '/';
}

const char *inject_root = "";

static bool is_inside(pid_t pid, const registers *r, const call *c)
{
    char path[256], fd[64];
    if (c->kind & (PATH_FIRST | PATH_SECOND)) {
        path_of(pid, r, c, path, sizeof path);
        return *path && (*path != '/' || strstr(path, inject_root) || strstr(path, "/proc/self/fd/"));
    }
    snprintf(fd, sizeof fd, "/proc/%d/fd/%d", (int)pid, (int)argument(r, 0));
    ssize_t n = readlink(fd, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, inject_root) != NULL;
}

/* A short or interrupted transfer.  Does the length have to be restored afterwards? */
static bool jolt(tracer *t, pid_t pid, registers *r, const call *c)
{
    long k = t->transfers++;
    uint64_t n = argument(r, 2);
    if (k % 4 == 2 && (t->f->kind == FAULT_JOLT || c->number == SYS_pread64)) {
        refuse(r, EINTR);
        set(pid, r);
    }
    if (k % 2 == 0 || n < 2) return false;
    set_length(r, n > 64 ? n / 3 : 1);
    return set(pid, r);
}

/* Handles one stopped call.  Returns how to continue; *length: the length to restore when it ends. */
static enum __ptrace_request stopped(tracer *t, pid_t pid, uint64_t *length)
{
    registers r;
    if (!get(pid, &r)) return PTRACE_CONT;
    const call *c = call_of(number_of(&r));
    if (!c) return PTRACE_CONT;
    if (!t->counting && !(t->counting = begins(t, pid, &r, c))) return PTRACE_CONT;
    if (t->f->no_tmpfile && !strcmp(c->name, "openat") && (argument(&r, 2) & O_TMPFILE) == O_TMPFILE) {
        refuse(&r, EOPNOTSUPP);
        set(pid, &r);
        return PTRACE_CONT;
    }
    long here = t->out->calls++;
    if (here < MOST_CALLS) t->out->name[here] = c->name;
    if (here < MOST_CALLS && t->f->kind == FAULT_NONE) t->out->inside[here] = is_inside(pid, &r, c);
    bool reads = c->number == SYS_read || c->number == SYS_pread64;
    if (c->kind & TRANSFER && argument(&r, 0) > 2 &&
        (t->f->kind == FAULT_JOLT || (t->f->kind == FAULT_JOLT_READS && reads))) {
        *length = argument(&r, 2);
        return jolt(t, pid, &r, c) ? PTRACE_SYSCALL : PTRACE_CONT;
    }
    if ((t->f->kind != FAULT_ERROR && t->f->kind != FAULT_KILL) || here != t->f->at) return PTRACE_CONT;
    t->out->hit = true;
    t->out->speaks = !strcmp(c->name, "write") && argument(&r, 0) < 3;
    if (t->f->kind == FAULT_KILL) {
        kill(pid, SIGKILL);
        return PTRACE_CONT;
    }
    refuse(&r, t->f->error);
    set(pid, &r);
    return PTRACE_CONT;
}

/* One stop of a process or thread; false: it was the last of the program. */
static bool follow(tracer *t, pid_t main_pid, pid_t pid, int status, uint64_t *length)
{
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (pid != main_pid) return true;
        t->out->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return false;
    }
    enum __ptrace_request how = PTRACE_CONT;
    long sig = WSTOPSIG(status);
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
        how = stopped(t, pid, length);
        sig = 0;
    } else if (sig == (SIGTRAP | 0x80)) { /* a shortened call ends */
        registers r;
        if (get(pid, &r)) {
            set_length(&r, *length);
            set(pid, &r);
        }
        sig = 0;
    } else if (status >> 16 || sig == SIGSTOP || sig == SIGTRAP) {
        sig = 0; /* a new thread, the program's start */
    }
    ptrace(how, pid, NULL, (void *)(uintptr_t)sig);
    return true;
}

bool inject(const char *const argv[], const char *folder, const char *said, const fault *f, bool from_write,
            outcome *out)
{
    *out = (outcome){ .code = CANNOT };
    if (architecture == 0) return false;
    pid_t child = fork();
    if (child < 0) return false;
    if (!child) be_traced(argv, folder, said);
    tracer t = { .f = f, .out = out, .from_write = from_write };
    int status;
    uint64_t length = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return false;
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)options)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return false;
    }
    ptrace(PTRACE_CONT, child, NULL, NULL);
    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0 || !follow(&t, child, pid, status, &length)) break;
    }
    return out->code != CANNOT;
}
