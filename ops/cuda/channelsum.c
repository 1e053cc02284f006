/* channelsum.c - sums of (N, C, ...) over all but C.
 *
 * Numerics  f32 sums (f64 for f64) of parts, by a fixed tree within a block; the parts are summed in order. */
#include "ops/cuda/channelsum.h"

#include "ops/cuda/channelsum.cuh"
#include "ops/cuda/types.h"

enum { EACH = 4096, MOST_PARTS = 64 };

ot_status ot_channel_sum_prepare(const ot_value *x, ot_channel_sum *s, ot_prep *p)
{
    ot_text prefix = { 0 };
    int64_t C = x->shape.dim[1], each = ot_numel(&x->shape) / C;
    const char *acc = x->dtype == OT_F64 ? "double" : "float";
    *s = (ot_channel_sum){ .x = x, .S = (each + EACH - 1) / EACH };
    if (s->S > MOST_PARTS) s->S = MOST_PARTS;
    s->work = (size_t)(s->S * C) * (x->dtype == OT_F64 ? sizeof(double) : sizeof(float));
    ot_text_add(&prefix, "#define T %s\n#define CLS %s\n#define ACC %s\n%s", ot_cuda_type(x->dtype),
                ot_cuda_class(x->dtype), acc, x->layout == OT_CHANNELS_LAST ? "#define LAST\n" : "");
    ot_status e = ot_gpu_compile(p->device, "channelsum.cu", prefix.text, "channel_parts", &s->parts, p->err);
    if (e == OT_OK) e = ot_gpu_compile(p->device, "channelsum.cu", prefix.text, "channel_total", &s->total, p->err);
    ot_text_free(&prefix);
    return e;
}

ot_status ot_channel_sum_run(const ot_channel_sum *s, const void *x, void *y, void *work, const ot_call *c)
{
    const ot_shape *d = &s->x->shape;
    ot_channel_sum_args a = { .x = x, .parts = work, .y = y, .N = d->dim[0], .C = d->dim[1], .S = s->S };
    a.P = ot_numel(d) / (a.N * a.C);
    int64_t blocks = s->S * (s->x->layout == OT_CHANNELS_LAST ? (a.C + 31) / 32 : a.C);
    OT_TRY(ot_gpu_launch(c->device, s->parts, blocks, 256, 0, &a, c->err));
    return ot_gpu_launch(c->device, s->total, (a.C + 127) / 128, 128, 0, &a, c->err);
}
