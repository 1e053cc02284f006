/* libcuda.c - a driver without a device: the calls that cuDNN makes while it plans for a device that is only described.
 *
 * Code is "loaded" and never run.  Every other function of the driver is in names.c and answers 100, "no device". */
#include <stddef.h>

enum { MOST_THREADS = 0, REGISTERS = 4 }; /* attributes of a function */

static int thing;

static int give(void **out)
{
    *out = &thing;
    return 0;
}

static int attribute(int *value, int which)
{
    *value = which == MOST_THREADS ? 1024 : which == REGISTERS ? 64 : 0;
    return 0;
}

int cuDriverGetVersion(int *v)
{
    *v = 13000;
    return 0;
}

int cuGetErrorName(int e, const char **s)
{
    (void)e;
    *s = "no device";
    return 0;
}

int cuGetErrorString(int e, const char **s) { return cuGetErrorName(e, s); }

int cuLibraryLoadData(void **out) { return give(out); }
int cuLibraryGetKernel(void **out) { return give(out); }
int cuLibraryGetModule(void **out) { return give(out); }
int cuLibraryUnload(void) { return 0; }
int cuKernelGetFunction(void **out) { return give(out); }
int cuKernelSetAttribute(void) { return 0; }
int cuKernelGetAttribute(int *value, int which) { return attribute(value, which); }
int cuModuleLoadData(void **out) { return give(out); }
int cuModuleLoadDataEx(void **out) { return give(out); }
int cuModuleGetFunction(void **out) { return give(out); }
int cuModuleUnload(void) { return 0; }
int cuFuncGetAttribute(int *value, int which) { return attribute(value, which); }
int cuFuncSetAttribute(void) { return 0; }
int cuTensorMapEncodeTiled(void) { return 0; }
int cuTensorMapEncodeIm2col(void) { return 0; }

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n)
{
    *n = 1;
    return 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(n);
}

int cuOccupancyMaxActiveClusters(int *n)
{
    *n = 66;
    return 0;
}
