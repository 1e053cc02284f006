/* order.c - sorts indices by the row that they address.
 *
 * Memory  two rounds of keys and positions, and the counts of digits. */
#include "ops/cuda/order.h"

#include "ops/cuda/order.cuh"
#include "ops/cuda/types.h"

enum { THREADS = 256, FEW = 2048, TILE = 1024, BLOCKS = 512 };

static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

ot_status ot_order_prepare(ot_order *o, ot_device *d, ot_dtype t, int64_t n, int64_t m, bool negative, ot_error *err)
{
    bool wide = n >= INT32_MAX || m >= INT32_MAX;
    ot_text prefix = { 0 };
    *o = (ot_order){ .key = wide ? "ot_u64" : "ot_u32", .m = m, .n = n, .size = wide ? 8 : 4, .tile = TILE };
    ot_text_add(&prefix, "#define KEY %s\n#define INDEX %s\n#define NEGATIVE %d\n", o->key, ot_cuda_type(t), negative);
    if (m > (int64_t)TILE * BLOCKS) o->tile = ((m + BLOCKS - 1) / BLOCKS + THREADS - 1) / THREADS * THREADS;
    o->blocks = (m + o->tile - 1) / o->tile;
    do o->passes++;
    while (o->passes < 8 && n >> 8 * o->passes); /* of the numbers 0 to n */
    o->work = (size_t)(4 * padded(m * o->size) + padded(o->blocks * 256 * (int64_t)sizeof(int)));
    ot_status s = OT_OK;
    if (m <= FEW) {
        s = ot_gpu_compile(d, "order.cu", prefix.text, "rank", &o->rank, err);
    } else {
        s = ot_gpu_compile(d, "order.cu", prefix.text, "count", &o->count, err);
        if (s == OT_OK) s = ot_gpu_compile(d, "order.cu", prefix.text, "spread", &o->spread, err);
    }
    ot_text_free(&prefix);
    return s;
}

ot_status ot_order_run(const ot_order *o, const ot_call *c, const void *index, void *work, const void **key,
                       const void **position)
{
    int64_t each = padded(o->m * o->size);
    char *at = work;
    ot_order_args a = { .index = index,
                        .to = at,
                        .to_order = at + each,
                        .count = (int *)(void *)(at + 4 * each),
                        .fault = c->device->fault,
                        .m = o->m,
                        .n = o->n,
                        .tile = o->tile,
                        .blocks = (int)o->blocks,
                        .step = c->step };
    if (o->rank) OT_TRY(ot_gpu_launch(c->device, o->rank, (o->m + THREADS - 1) / THREADS, THREADS, 0, &a, c->err));
    for (int p = 0; p < o->passes && !o->rank; p++) {
        if (p) {
            a.from = a.to;
            a.from_order = a.to_order;
            a.to = at + (p % 2 ? 2 : 0) * each;
            a.to_order = at + (p % 2 ? 3 : 1) * each;
        }
        a.shift = 8 * p;
        OT_TRY(ot_gpu_launch(c->device, o->count, o->blocks, THREADS, 0, &a, c->err));
        OT_TRY(ot_gpu_launch(c->device, o->spread, o->blocks, THREADS, 0, &a, c->err));
    }
    *key = a.to;
    *position = a.to_order;
    return OT_OK;
}
