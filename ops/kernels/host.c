/* host.c - fills the table of host.h, finds the CUDA module and passes the table to it. */
#include "ops/kernels/host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ot_host table = { .size = sizeof(ot_host),
                               .version = OT_VERSION,
                               .fail = ot_fail,
#define ROW(result, name, params, args) .name = name,
                               OT_HOST_CALLS(ROW) OT_HOST_CALLS_VOID(ROW)
#undef ROW
};

/* A file in the folder of the binary that contains this function: the program, or the library. */
static bool beside(char *path, size_t n, const char *folder, const char *name)
{
    Dl_info here;
    if (!dladdr(&table, &here) || !here.dli_fname) return false;
    char *real = realpath(here.dli_fname, NULL);
    char *slash = real ? strrchr(real, '/') : NULL;
    bool ok = slash && snprintf(path, n, "%.*s/%s%s", (int)(slash - real), real, folder, name) < (int)n;
    free(real);
    if (!ok) return false;
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}

const ot_backend *ot_backend_find(ot_error *err)
{
    static const ot_backend *found;
    static const char name[] = "libonnxtrain-cuda.so";
    const ot_backend *known = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    if (known) return known;

    char path[4096];
    const char *given = getenv("ONNXTRAIN_CUDA_MODULE");
    const char *file = given && *given                                                                     ? given
                       : beside(path, sizeof path, "", name) || beside(path, sizeof path, "../lib/", name) ? path
                                                                                                           : name;
    known = ot_backend_load(file, &table, err); /* loading twice gives the same module */
    if (known) __atomic_store_n(&found, known, __ATOMIC_RELEASE);
    return known;
}

const ot_backend *ot_backend_usable(ot_error *err)
{
    const char *given = getenv("ONNXTRAIN_CUDA_MODULE");
    if ((!given || !*given) && !dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
        ot_fail(err, OT_E_DEVICE, "no NVIDIA driver");
        return NULL;
    }
    return ot_backend_find(err);
}
