/* bits.c - Bits: a copy of bytes. */
#include "ops/cuda/kernels.h"

static ot_status bits_run(const ot_call *c)
{
    const ot_value *x = c->node->in[0];
    return c->device->backend->copy(c->device, c->out[0], c->in[0], (int64_t)ot_bytes(&x->shape, x->dtype), c->err);
}

const ot_kernel ot_cuda_Bits = { .name = "cuda", .run = bits_run };
