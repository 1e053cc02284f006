/* load.c - opens a backend's module with dlopen. */
#include <dlfcn.h>

#include "runtime/backends/backend.h"

const ot_backend *ot_backend_load(const char *file, const void *host, ot_error *err)
{
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        ot_fail(err, OT_E_DEVICE, "%s", dlerror());
        return NULL;
    }
    void *symbol = dlsym(module, "ot_backend_cuda");
    ot_backend_entry *entry;
    *(void **)&entry = symbol; /* POSIX's conversion of an object pointer to a function pointer */
    const ot_backend *b = entry ? entry(host) : NULL;
    if (!b) {
        dlclose(module);
        ot_fail(err, OT_E_DEVICE, "%s: its version differs from that of this program", file);
    }
    return b;
}
