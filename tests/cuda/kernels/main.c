/* main.c - checks that every operator with a CPU kernel has one on the GPU: nothing falls back within a step. */
#include <stdio.h>
#include <string.h>

#include "ops/kernels/host.h"
#include "ops/kernel.h"

/* Operators without a kernel on the GPU; with the reason. */
static const struct {
    const char *op, *why;
} without[] = {
    { "Recurrent", "its steps are nodes there" },
    { "RecurrentDx", "its steps are nodes there" },
    { "StringEqual", "strings are the host's" },
    { "StringTake", "strings are the host's" },
};

static const char *reason(const char *op)
{
    for (int i = 0; i < OT_LEN(without); i++)
        if (!strcmp(without[i].op, op)) return without[i].why;
    return NULL;
}

int main(void)
{
    ot_error err = { 0 };
    const ot_backend *b = ot_backend_find(&err);
    int cpu = 0, gpu = 0, libraries = 0, failed = 0;
    if (!b) {
        printf("FAIL %s\n", err.text);
        return 1;
    }
    for (int i = 0; ot_op_at(i); i++) {
        const ot_op *op = ot_op_at(i);
        if (!ot_kernels(op, NULL)[0]) continue;
        const ot_kernel *const *k = b->kernels(op->name), *own = NULL;
        for (; *k; k++) {
            if (!strcmp((*k)->name, "cuda")) own = *k;
            else libraries++;
        }
        cpu++;
        gpu += own != NULL;
        if (!own && !reason(op->name)) printf("%s has no kernel on the GPU\n", op->name), failed++;
        if (own && reason(op->name))
            printf("%s has a kernel on the GPU, though %s\n", op->name, reason(op->name)), failed++;
        if (!own && reason(op->name)) printf("not on the GPU: %s: %s\n", op->name, reason(op->name));
    }
    printf("operators: %d have kernels on the CPU, %d of our own on the GPU, and %d of libraries\n", cpu, gpu,
           libraries);
    return failed != 0 || !gpu;
}
