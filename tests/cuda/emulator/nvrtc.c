/* nvrtc.c - NVRTC by the C compiler: a "cubin" is a shared library without a C library: the program that loads it has one. */
#include <dirent.h>
#include <fcntl.h>
#include <nvrtc.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/emulator/emulator.h"

extern char **environ;

struct _nvrtcProgram {
    char folder[64];
    int n;
    char *log;
    void *image;
    size_t bytes;
    bool ptx;
};

/* A version that no NVRTC has: it is part of the name of the folder of compiled kernels, and a GPU must not find these there. */
nvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = 0;
    *minor = 1;
    return NVRTC_SUCCESS;
}

/* 7.5 and ONNXTRAIN_EMULATOR_ARCH (90). */
nvrtcResult nvrtcGetNumSupportedArchs(int *n)
{
    *n = 2;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *archs)
{
    const char *newest = getenv("ONNXTRAIN_EMULATOR_ARCH");
    archs[0] = 75;
    archs[1] = newest ? atoi(newest) : 90;
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult r)
{
    return r == NVRTC_SUCCESS             ? "no error"
           : r == NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION"
                                          : "NVRTC_ERROR (emulated)";
}

static bool put(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f) return false;
    fputs(text, f);
    return !fclose(f);
}

static char *get(const char *folder, const char *name, size_t *n)
{
    char path[512], *bytes = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    bytes = malloc((size_t)size + 1);
    if (bytes) bytes[ *n = fread(bytes, 1, (size_t)size, f)] = 0;
    fclose(f);
    return bytes;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *src, const char *name, int n, const char *const *headers,
                               const char *const *names)
{
    if (emulator_call("nvrtcCreateProgram", "%s with %d headers", name, n)) return NVRTC_ERROR_OUT_OF_MEMORY;
    nvrtcProgram p = calloc(1, sizeof *p);
    if (!p) return NVRTC_ERROR_OUT_OF_MEMORY;
    snprintf(p->folder, sizeof p->folder, "/tmp/ot-emulated-XXXXXX");
    bool ok = mkdtemp(p->folder) && put(p->folder, "kernel.c", src);
    for (int i = 0; i < n && ok; i++) ok = put(p->folder, names[i], headers[i]);
    *out = p;
    return ok ? NVRTC_SUCCESS : NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
}

/* kernel.c in the folder becomes kernel.so, without a C library: the program that loads it has one.  0, or a status of waitpid; -1:
 * the compiler did not run. */
static int compile(const char *folder)
{
    const char *level = getenv("ONNXTRAIN_EMULATOR_OPTIMIZE");
    char optimize[8];
    snprintf(optimize, sizeof optimize, "-O%d", level ? atoi(level) : 1);
    char *argv[] = { "cc",
                     "-std=gnu11",
                     optimize,
                     "-g0",
                     "-fPIC",
                     "-shared",
                     "-fwrapv",
                     "-ffp-contract=off",
                     "-fno-strict-aliasing",
                     "-fsanitize=alignment",
                     "-fsanitize-undefined-trap-on-error",
                     "-Werror=implicit-function-declaration",
                     "-fvisibility=hidden",
                     "-w",
                     "-include",
                     OT_PRELUDE_HOST,
                     "-I.",
                     "-pipe",
                     "-nostdlib",
                     "-fno-use-linker-plugin",
                     "-o",
                     "kernel.so",
                     "kernel.c",
                     NULL };
    posix_spawn_file_actions_t at;
    if (posix_spawn_file_actions_init(&at)) return -1;
    pid_t pid;
    int status = -1;
    if (!posix_spawn_file_actions_addchdir_np(&at, folder) &&
        !posix_spawn_file_actions_addopen(&at, 1, "log", O_WRONLY | O_CREAT | O_TRUNC, 0600) &&
        !posix_spawn_file_actions_adddup2(&at, 1, 2) && posix_spawnp(&pid, "cc", &at, NULL, argv, environ) == 0)
        waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&at);
    return status;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *options)
{
    static _Atomic int running;
    for (int i = 0; i < n; i++) p->ptx |= !strncmp(options[i], "--gpu-architecture=compute_", 27);
    if (emulator_call("nvrtcCompileProgram", "%s, %d at once", p->folder, ++running)) {
        running--;
        return NVRTC_ERROR_COMPILATION;
    }
    int status = compile(p->folder);
    running--;
    size_t bytes = 0;
    p->log = get(p->folder, "log", &bytes);
    p->image = status == 0 ? get(p->folder, "kernel.so", &p->bytes) : NULL;
    return p->image ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *n)
{
    *n = p->log ? strlen(p->log) + 1 : 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *out)
{
    strcpy(out, p->log ? p->log : "");
    return NVRTC_SUCCESS;
}

/* A program for a virtual architecture has PTX only. */
static nvrtcResult image(nvrtcProgram p, char *out, size_t *n)
{
    if (n) *n = p->bytes;
    if (out) memcpy(out, p->image, p->bytes);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *n)
{
    return p->ptx ? NVRTC_ERROR_INVALID_PROGRAM : image(p, NULL, n);
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *out)
{
    return p->ptx ? NVRTC_ERROR_INVALID_PROGRAM : image(p, out, NULL);
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *n) { return image(p, NULL, n); }
nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *out) { return image(p, out, NULL); }

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p)
{
    DIR *folder = opendir((*p)->folder);
    for (struct dirent *e; folder && (e = readdir(folder));)
        if (e->d_name[0] != '.') unlinkat(dirfd(folder), e->d_name, 0);
    if (folder) closedir(folder);
    rmdir((*p)->folder);
    free((*p)->log);
    free((*p)->image);
    free(*p);
    *p = NULL;
    return NVRTC_SUCCESS;
}
