/* take.c - Take: gathers rows by index, in the widest words that divide them.  Several small ones, such as the inputs and targets
 * of a batch, are one launch. */
#include "ops/kernels/move.h"
#include "ops/kernels/take.h"

#include "ops/cuda/kernels.h"
#include "ops/cuda/take.cuh"
#include "ops/cuda/types.h"
#include "ops/kernels/scatter.h"

enum { THREADS = 256, MANY = 4, NARROW = 1 << 30, LEAST_UNITS = 16 };

typedef struct sizes {
    ot_along x;
    int64_t m, row, words;
    int word;
} sizes; /* row, words: in words of 1 << word bytes */

static sizes sizes_of(const ot_node *n)
{
    const ot_value *x = n->in[0];
    sizes s = { .x = ot_along_axis(&x->shape, ((const ot_take *)n->attrs)->axis), .m = ot_numel(&n->in[1]->shape) };
    int64_t bytes = s.x.inner * (ot_dtype_bits(x->dtype) / 8);
    while (s.word < 4 && bytes % (2 << s.word) == 0) s.word++;
    s.row = bytes >> s.word;
    s.words = s.x.outer * s.m * s.row;
    return s;
}

/* Words per thread. */
static int each_of(const sizes *s, const ot_device *d)
{
    int64_t units = ot_gpu_units(d) > LEAST_UNITS ? ot_gpu_units(d) : LEAST_UNITS;
    return s->words >= units * THREADS * 16 ? MANY : 1;
}

static int64_t units_of(const sizes *s, int each) { return (s->words + THREADS * each - 1) / (THREADS * each); }

static ot_status take_prepare(const ot_node *n, ot_prep *p)
{
    sizes s = sizes_of(n);
    ot_text prefix = { 0 };
    ot_gpu_fn *f;
    ot_text_add(&prefix, "#define INDEX %s\n#define WIDE %d\n#define EACH %d\n", ot_cuda_type(n->in[1]->dtype),
                s.words >= NARROW, each_of(&s, p->device));
    ot_status r = ot_gpu_compile(p->device, "take.cu", prefix.text, "take", &f, p->err);
    ot_text_free(&prefix);
    p->state = f; /* belongs to the device */
    return r;
}

static ot_take_call call_of(const ot_call *c, const sizes *s)
{
    return (ot_take_call){ .x = c->in[0],
                           .index = c->in[1],
                           .y = c->out[0],
                           .words = s->words,
                           .n = s->x.n,
                           .m = ot_divider_of(s->m),
                           .row = ot_divider_of(s->row),
                           .word = s->word,
                           .step = c->step };
}

static ot_status take_run(const ot_call *c)
{
    sizes s = sizes_of(c->node);
    if (!s.words) return OT_OK;
    ot_take_args a = { .fault = c->device->fault,
                       .units = units_of(&s, each_of(&s, c->device)),
                       .one = call_of(c, &s) };
    return ot_gpu_launch(c->device, c->state, ot_gpu_blocks(c->device, a.units, 1), THREADS, 0, &a, c->err);
}

/* ---- several ------------------------------------------------------------------------ */

/* With one word per thread on every device, and positions of 32 bits. */
static bool is_small(const ot_node *n)
{
    sizes s = sizes_of(n);
    return s.words && s.words < LEAST_UNITS * THREADS * 16;
}

static bool take_joins(const ot_node *a, const ot_node *b)
{
    return is_small(a) && is_small(b) && a->in[1]->dtype == b->in[1]->dtype;
}

/* The calls, then the units: pairs of a call and the number of a unit in it. */
static size_t take_bytes(const ot_node *const *n, int count)
{
    size_t bytes = (size_t)count * sizeof(ot_take_call);
    for (int i = 0; i < count; i++) {
        sizes s = sizes_of(n[i]);
        bytes += (size_t)units_of(&s, 1) * 8;
    }
    return bytes;
}

static void take_fill(const ot_call *const *c, int count, void *table)
{
    ot_take_call *calls = table;
    uint32_t *pair = (uint32_t *)(calls + count);
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        sizes s = sizes_of(c[i]->node);
        calls[i] = call_of(c[i], &s);
        for (uint32_t k = 0; k < (uint32_t)units_of(&s, 1); k++) *pair++ = i, *pair++ = k;
    }
}

static ot_status take_run_many(const ot_call *const *c, int count, const void *table)
{
    ot_device *d = c[0]->device;
    ot_take_args a = { .calls = table,
                       .chunks = (const unsigned *)((const ot_take_call *)table + count),
                       .fault = d->fault };
    for (int i = 0; i < count; i++) {
        sizes s = sizes_of(c[i]->node);
        a.units += units_of(&s, 1);
    }
    return ot_gpu_launch(d, c[0]->state, ot_gpu_blocks(d, a.units, 1), THREADS, 0, &a, c[0]->err);
}

static const ot_grouped many = { .joins = take_joins, .bytes = take_bytes, .fill = take_fill, .run = take_run_many };

const ot_kernel ot_cuda_Take = { .name = "cuda", .prepare = take_prepare, .run = take_run, .many = &many };
