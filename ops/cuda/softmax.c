/* softmax.c - SoftmaxAxis and its gradient: a group of threads per row.
 *
 * Memory    rows of up to some 50000 elements stay in registers between the passes over them (group.c)
 * Numerics  f32 (f64 for f64); maximum and sum in one pass, the sum rescaled when the maximum grows */
#include "ops/kernels/move.h"
#include "ops/kernels/softmax.h"

#include <stdlib.h>

#include "ops/cuda/group.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/softmax.cuh"
#include "ops/cuda/types.h"

typedef struct rows_state {
    ot_gpu_fn *f;
    ot_group g;
} rows_state;

static bool rows_can(const ot_node *n, const char **why)
{
    if (!ot_is_float(n->out[0]->dtype)) return ot_refuse(why, "only floats");
    return ot_cuda_type_can(n->out[0]->dtype, why);
}

static ot_status prepare(const ot_node *n, ot_prep *p, bool gradient)
{
    const ot_softmax_axis *a = n->attrs;
    const ot_value *y = n->out[0];
    ot_along v = ot_along_axis(&y->shape, a->axis);
    rows_state *s = calloc(1, sizeof *s);
    ot_text prefix = { 0 };
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    s->g = v.inner == 1 ? ot_group_rows(v.n, y->dtype, 1 + gradient)
                        : ot_group_columns(v.outer * v.inner, v.n, 1 + gradient);
    ot_group_text(&s->g, y->dtype, &prefix);
    ot_text_add(&prefix, "#define LOG %d\n#define GRADIENT %d\n", a->log != 0, gradient);
    ot_status st = ot_gpu_compile(p->device, "softmax.cu", prefix.text, gradient ? "softmax_rows_dx" : "softmax_rows",
                                  &s->f, p->err);
    ot_text_free(&prefix);
    if (st == OT_OK) p->state = s;
    else free(s);
    return st;
}

static ot_status rows_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, false); }
static ot_status dx_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, true); }

static ot_status launch(const ot_call *c, const void *x, const void *dy)
{
    const ot_softmax_axis *at = c->node->attrs;
    const rows_state *s = c->state;
    ot_along v = ot_along_axis(&c->node->out[0]->shape, at->axis);
    ot_softmax_axis_args a = {
        .x = x, .dy = dy, .y = c->out[0], .samples = v.outer * v.inner, .n = v.n, .step = v.inner
    };
    if (v.n == 0) return OT_OK;
    return ot_gpu_launch(c->device, s->f, ot_gpu_blocks(c->device, a.samples, ot_group_samples(&s->g)), s->g.threads, 0,
                         &a, c->err);
}

static ot_status rows_run(const ot_call *c) { return launch(c, c->in[0], NULL); }
static ot_status dx_run(const ot_call *c) { return launch(c, c->in[1], c->in[0]); }

const ot_kernel ot_cuda_SoftmaxAxis = {
    .name = "cuda", .can = rows_can, .prepare = rows_prepare, .run = rows_run, .release = free, .inplace = 1
};
const ot_kernel ot_cuda_SoftmaxAxisDx = {
    .name = "cuda", .can = rows_can, .prepare = dx_prepare, .run = dx_run, .release = free, .inplace = 3
};
