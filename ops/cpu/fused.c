/* fused.c - Fused on the CPU. */
#include "ops/kernel.h"
#include "ops/kernels/fused.h"

static bool can(const ot_node *n, const char **why)
{
    (void)n;
    *why = "no kernel computes these together";
    return false;
}

const ot_kernel ot_cpu_Fused = { .name = "cpu", .can = can };
