/* flatindex.c - FlatIndex: a thread per index. */
#include "ops/kernels/scatter.h"

#include "ops/cuda/kernels.h"
#include "ops/cuda/flatindex.cuh"
#include "ops/cuda/types.h"

enum { THREADS = 256 };

static ot_status places_prepare(const ot_node *n, ot_prep *p)
{
    ot_text prefix = { 0 };
    ot_gpu_fn *f;
    ot_text_add(&prefix, "#define INDEX %s\n", ot_cuda_type(n->in[0]->dtype));
    ot_status s = ot_gpu_compile(p->device, "flatindex.cu", prefix.text, "places", &f, p->err);
    ot_text_free(&prefix);
    p->state = f; /* belongs to the device */
    return s;
}

static ot_status places_run(const ot_call *c)
{
    const ot_flat_index *a = c->node->attrs;
    const ot_shape *s = &c->node->in[0]->shape, *y = &c->node->out[0]->shape;
    ot_shape rows = a->x; /* the tensor whose strides are used */
    int64_t xs[OT_MAX_RANK];
    bool along = a->kind == OT_FLAT_ALONG;
    ot_flat_index_args g = { .index = c->in[0],
                             .place = c->out[0],
                             .fault = c->device->fault,
                             .elements = ot_numel(y),
                             .rank = y->rank,
                             .q = along ? 1 : (int)s->dim[s->rank - 1],
                             .no_negative = a->no_negative != 0,
                             .step = c->step };
    if (!along) rows.rank = (int)a->batch + g.q;
    ot_strides(&rows, xs);
    for (int d = 0; d < y->rank; d++) {
        g.y[d] = y->dim[d];
        g.stride[d] = along ? (d == a->axis ? 0 : xs[d]) : d < a->batch ? xs[d] : 0;
    }
    for (int j = 0; j < g.q; j++) {
        int d = along ? (int)a->axis : (int)a->batch + j;
        g.n[j] = a->x.dim[d];
        g.step_of[j] = xs[d];
    }
    return ot_gpu_launch(c->device, c->state, ot_gpu_blocks(c->device, g.elements, THREADS), THREADS, 0, &g, c->err);
}

const ot_kernel ot_cuda_FlatIndex = { .name = "cuda", .prepare = places_prepare, .run = places_run };
