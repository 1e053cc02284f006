/* take.c - Take: gathers rows by index, in the widest words that divide them. */
#include "ops/kernels/move.h"
#include "ops/kernels/take.h"

#include "ops/cuda/kernels.h"
#include "ops/cuda/take.cuh"
#include "ops/cuda/types.h"
#include "ops/kernels/scatter.h"

enum { THREADS = 256, MANY = 4, NARROW = 1 << 30 };

typedef struct sizes {
    ot_along x;
    int64_t m, row, words;
    int each;
    const char *word;
} sizes; /* row, words: in words */

static sizes sizes_of(const ot_node *n, const ot_device *d)
{
    static const char *const names[] = { "unsigned char", "ot_u16", "ot_u32", "ot_u64", "ot_u128" };
    const ot_value *x = n->in[0];
    sizes s = { .x = ot_along_axis(&x->shape, ((const ot_take *)n->attrs)->axis), .m = ot_numel(&n->in[1]->shape) };
    int64_t bytes = s.x.inner * (ot_dtype_bits(x->dtype) / 8);
    int k = 0;
    while (k < 4 && bytes % (2 << k) == 0) k++;
    s.word = names[k];
    s.row = bytes >> k;
    s.words = s.x.outer * s.m * s.row;
    s.each = s.words >= (int64_t)ot_gpu_units(d) * THREADS * 16 ? MANY : 1;
    return s;
}

static ot_status take_prepare(const ot_node *n, ot_prep *p)
{
    sizes s = sizes_of(n, p->device);
    ot_text prefix = { 0 };
    ot_gpu_fn *f;
    ot_text_add(&prefix, "#define WORD %s\n#define INDEX %s\n#define WIDE %d\n#define EACH %d\n", s.word,
                ot_cuda_type(n->in[1]->dtype), s.words >= NARROW, s.each);
    ot_status r = ot_gpu_compile(p->device, "take.cu", prefix.text, "take", &f, p->err);
    ot_text_free(&prefix);
    p->state = f; /* belongs to the device */
    return r;
}

static ot_status take_run(const ot_call *c)
{
    sizes s = sizes_of(c->node, c->device);
    if (!s.words) return OT_OK;
    ot_take_args a = { .x = c->in[0],
                       .index = c->in[1],
                       .y = c->out[0],
                       .fault = c->device->fault,
                       .words = s.words,
                       .n = s.x.n,
                       .m = ot_divider_of(s.m),
                       .row = ot_divider_of(s.row),
                       .step = c->step };
    return ot_gpu_launch(c->device, c->state, ot_gpu_blocks(c->device, s.words, THREADS * s.each), THREADS, 0, &a,
                         c->err);
}

const ot_kernel ot_cuda_Take = { .name = "cuda", .prepare = take_prepare, .run = take_run };
