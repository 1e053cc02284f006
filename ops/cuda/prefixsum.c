/* prefixsum.c - PrefixSum: a block per line.
 *
 * Numerics  floats are summed in f64 like the reference, within a block by a fixed tree. */
#include <stdlib.h>

#include "ops/cuda/prefixsum.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/types.h"
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/prefixsum.h"

enum { THREADS = 128 };

static bool prefix_sum_can(const ot_node *n, const char **why) { return ot_cuda_type_can(n->in[0]->dtype, why); }

static ot_status prefix_sum_prepare(const ot_node *n, ot_prep *p)
{
    ot_dtype t = n->in[0]->dtype;
    ot_text prefix = { 0 };
    ot_gpu_fn *f;
    ot_text_add(&prefix, "#define T %s\n#define CLS %s\n#define ACC %s\n", ot_cuda_type(t), ot_cuda_class(t),
                ot_is_float(t) ? "double" : ot_cuda_class(t));
    ot_status s = ot_gpu_compile(p->device, "prefixsum.cu", prefix.text, "prefix_sum", &f, p->err);
    ot_text_free(&prefix);
    p->state = f; /* belongs to the device */
    return s;
}

static ot_status prefix_sum_run(const ot_call *c)
{
    const ot_prefix_sum *at = c->node->attrs;
    ot_along r = ot_along_axis(&c->node->in[0]->shape, at->axis);
    ot_prefix_sum_args a = { .x = c->in[0],
                             .y = c->out[0],
                             .lines = r.outer * r.inner,
                             .n = r.n,
                             .inner = r.inner,
                             .exclusive = at->exclusive != 0,
                             .reverse = at->reverse != 0 };
    if (!r.n) return OT_OK;
    return ot_gpu_launch(c->device, c->state, ot_gpu_blocks(c->device, a.lines, 1), THREADS, 0, &a, c->err);
}

const ot_kernel ot_cuda_PrefixSum = {
    .name = "cuda", .can = prefix_sum_can, .prepare = prefix_sum_prepare, .run = prefix_sum_run, .inplace = 1
};
