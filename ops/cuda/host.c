/* host.c - the module's side of ops/kernels/host.h: forwarders with the names of the core's functions; the kernels;
 * the entry. */
#include "ops/kernels/host.h"

#include <stdio.h>
#include <string.h>

#include "ops/cuda/kernels.h"
#include "runtime/backends/cuda/gpu.h"

static const ot_host *host;

ot_status ot_fail(ot_error *err, ot_status s, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return host->fail(err, s, "%s", text);
}

#define ROW(result, name, params, args) \
    result name params { return host->name args; }
OT_HOST_CALLS(ROW)
#undef ROW
#define ROW(result, name, params, args) \
    result name params { host->name args; }
OT_HOST_CALLS_VOID(ROW)
#undef ROW

/* ---- kernels ----------------------------------------------------------------- */

enum { CANDIDATES = 6 };

/* Library kernels before our own. */
static const struct {
    const char *op;
    const ot_kernel *candidates[CANDIDATES + 1];
} kernels[] = {

#define ROW_0(name)
#define ROW_1(name) { #name, { OT_CUDA_LIBRARIES_##name &ot_cuda_##name, NULL } },
#define ROW(name, ref, cpu, cuda) ROW_##cuda(name)
    OT_OPS(ROW)
#undef ROW
        { NULL, { NULL } },
};

static const ot_kernel *const *find_kernels(const char *op)
{
    static const ot_kernel *const none[] = { NULL };
    for (int i = 0; kernels[i].op; i++)
        if (!strcmp(kernels[i].op, op)) return kernels[i].candidates;
    return none;
}

__attribute__((visibility("default"))) const ot_backend *ot_backend_cuda(const void *table);

const ot_backend *ot_backend_cuda(const void *table)
{
    const ot_host *h = table;
    if (h->size != sizeof *h || strcmp(h->version, OT_VERSION) != 0) return NULL;
    host = h;
    ot_gpu_backend.kernels = find_kernels;
    return &ot_gpu_backend;
}
