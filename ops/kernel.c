/* kernel.c - the kernels of operators, and the choice of one for a node. */
#include "ops/kernel.h"

static const struct {
    const ot_op *op;
    const ot_kernel *candidates[4]; /* best first, NULL-terminated */
} kernels[] = {
#define ROW_00(name)
#define ROW_10(name) { &ot_op_##name, { &ot_ref_##name } },
#define ROW_11(name) { &ot_op_##name, { &ot_cpu_##name, &ot_ref_##name } },
#define ROW_12(name) { &ot_op_##name, { &ot_samples_##name, &ot_cpu_##name, &ot_ref_##name } },
#define ROW(name, ref, cpu, cuda) ROW_##ref##cpu(name)
    OT_OPS(ROW)
#undef ROW
        { NULL, { NULL } },
};

const ot_kernel *const *ot_kernels(const ot_op *op, const ot_device *d)
{
    static const ot_kernel *const none[] = { NULL };
    if (d) return d->backend->kernels(op->name);
    for (int i = 0; kernels[i].op; i++)
        if (kernels[i].op == op) return kernels[i].candidates;
    return none;
}

bool ot_has_kernel(const ot_build *b, const ot_op *op) { return !b->again && ot_kernels(op, b->device)[0]; }

const ot_kernel *ot_ref_kernel(const ot_op *op)
{
    const ot_kernel *const *c = ot_kernels(op, NULL);
    while (c[0] && c[1]) c++;
    return c[0];
}

const ot_kernel *ot_kernel_for(const ot_node *n, const ot_device *d, bool ref_only, const char **why)
{
    const ot_kernel *yielding = NULL;
    const char *reason;
    for (const ot_kernel *const *k = ot_kernels(n->op, d); *k; k++) {
        if (((*k)->can && !(*k)->can(n, why)) || (ref_only && k[1])) continue;
        if (!(*k)->yields || !(*k)->yields(n, &reason)) return *k;
        if (!yielding) yielding = *k;
    }
    return yielding;
}

void ot_value_strides(const ot_value *v, int64_t stride[OT_MAX_RANK])
{
    const ot_shape *s = &v->shape;
    if (v->layout == OT_PLAIN || s->rank < 3) {
        ot_strides(s, stride);
        return;
    }
    /* (N, C, i1 .. id) stored as N, i1 .. id, C. */
    int64_t at = s->dim[1];
    stride[1] = 1;
    for (int d = s->rank - 1; d >= 2; d--) {
        stride[d] = at;
        at *= s->dim[d];
    }
    stride[0] = at;
}
