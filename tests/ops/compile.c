/* compile.c - compiles kernels for described devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/harness.h"

const char *describe_device(const char *arch, char *text, size_t n)
{
    static const struct { const char *arch, *name; int version, units, shared; } known[] = {
        { "sm_80", "NVIDIA A100-SXM4-80GB", 800, 108, 166912 },
        { "sm_90a", "NVIDIA H200", 900, 132, 232448 },
        { "sm_120", "NVIDIA GeForce RTX 5090", 1200, 170, 101376 },
    };
    for (int i = 0; i < OT_LEN(known); i++) {
        if (strcmp(arch, known[i].arch) != 0) continue;
        snprintf(text, n,
                 "{\"cudaDeviceId\":0,\"deviceName\":\"%s\",\"deviceVer\":%d,\"driverVer\":13000,\"multiProcessorCount\":%d,"
                 "\"maxSharedMemoryPerBlockOptin\":%d,\"totalGlobalMem\":34359738368}",
                 known[i].name, known[i].version, known[i].units, known[i].shared);
        return text;
    }
    return NULL;
}

int kernels_prepare(const char *name, const ot_node *n, ot_device *d)
{
    int         prepared = 0;
    const char *why;
    for (const ot_kernel *const *k = ot_kernels(n->op, d); *k; k++) {
        ot_error err = { 0 };
        ot_prep  p = { .threads = 1, .err = &err, .device = d };
        if (strncmp((*k)->name, "cuda", 4) != 0 || ((*k)->can && !(*k)->can(n, &why))) continue;
        if ((*k)->prepare && (*k)->prepare(n, &p) != OT_OK) {
            printf("%s: %s: %s\n", name, n->op->name, err.text);
            return -1;
        }
        if ((*k)->release && p.state) (*k)->release(p.state);
        if (d->backend->ready(d, &err) != OT_OK) {
            printf("%s: %s: %s\n", name, n->op->name, err.text);
            return -1;
        }
        prepared++;
    }
    return prepared;
}

/* Bytes that `name` may spill on `arch`. */
static long allowed(const char *arch, const char *name)
{
    char  line[256], a[64], k[128];
    long  bytes = 0, found;
    FILE *f = fopen(OT_SOURCE_ROOT "/tests/cuda/spills.txt", "r");
    while (f && fgets(line, sizeof line, f))
        if (*line != '#' && sscanf(line, "%63s %127s %ld", a, k, &found) == 3 && !strcmp(a, arch) && !strcmp(k, name)) bytes = found;
    if (f) fclose(f);
    return bytes;
}

/* The largest number in front of `what` in the assembler's report, which has one for every kernel of the text; -1: none. */
static long number_before(const char *words, const char *what)
{
    long largest = -1;
    for (const char *found = words ? strstr(words, what) : NULL; found; found = strstr(found + 1, what)) {
        const char *at = found;
        while (at > words && at[-1] == ' ') at--;
        while (at > words && at[-1] >= '0' && at[-1] <= '9') at--;
        long number = strtol(at, NULL, 10);
        if (number > largest) largest = number;
    }
    return largest;
}

int compiled_badly(ot_device *d, const char *arch)
{
    const char *name, *words;
    int         n = 0, spilling = 0, bad = 0;
    for (; d->backend->compiled(d, n, &name, &words); n++) {
        long spilled = number_before(words, "bytes spill stores");
        if (spilled < 0) {
            printf("%s: %s: the compiler does not say what it spills: %s\n", arch, name, words ? words : "");
            bad++;
        } else if (spilled > allowed(arch, name)) {
            printf("%s: %s: %ld bytes of registers are spilled, %ld are allowed:\n%s", arch, name, spilled, allowed(arch, name), words);
            bad++;
        }
        spilling += spilled > 0;
    }
    printf("compiled for %s: %d kernels, %d spill registers\n", arch, n, spilling);
    return bad;
}
