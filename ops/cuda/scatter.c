/* scatter.c - TakeDx and Scatter: the indices are sorted by row, then updates of a row are combined.
 *
 * Numerics  16-bit floats are combined in f32.  Updates of one row are combined in order within chunks of 32, and the
 *           chunks in order: a fixed tree.
 * Memory    the sorted indices, and two rows per chunk for rows that cross its borders. */
#include "ops/cuda/kernels.h"
#include "ops/cuda/order.h"
#include "ops/cuda/scatter.cuh"
#include "ops/cuda/types.h"
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/take.h"

#include <stdlib.h>

enum { THREADS = 256, NARROW = 1 << 30 };

typedef struct plan {
    ot_order order;
    ot_gpu_fn *parts, *joins; /* joins NULL: one chunk */
    ot_along y;
    int64_t chunks;
} plan;

/* The combined rows: m of type t, into rows of y. */
typedef struct job {
    ot_dtype t;
    ot_along y;
    int64_t m, op;
    bool fresh, negative;
    const ot_value *index;
} job;

static const char *join_of(int64_t op, ot_dtype t)
{
    bool real = ot_is_float(t);
    switch (op) {
    case OT_SCATTER_ADD: return real ? "((a) + (b))" : "((SUM)((ot_u64)(a) + (ot_u64)(b)))";
    case OT_SCATTER_MUL: return real ? "((a) * (b))" : "((SUM)((ot_u64)(a) * (ot_u64)(b)))";
    case OT_SCATTER_MIN: return real ? "((b) < (a) || (b) != (b) ? (b) : (a))" : "((b) < (a) ? (b) : (a))";
    case OT_SCATTER_MAX: return real ? "((b) > (a) || (b) != (b) ? (b) : (a))" : "((b) < (a) ? (a) : (b))";
    default: return "(b)";
    }
}

static ot_status scatter_prepare(const ot_node *n, const job *j, ot_prep *prep)
{
    ot_text prefix = { 0 };
    plan *p = calloc(1, sizeof *p);
    if (!p) return ot_fail(prep->err, OT_E_NOMEM, "%s: %s: no memory", n->name, n->op->name);
    p->y = j->y;
    p->chunks = (j->m + OT_SCATTER_CHUNK - 1) / OT_SCATTER_CHUNK;
    int64_t threads = p->chunks * j->y.outer * j->y.inner;
    ot_status s = ot_order_prepare(&p->order, prep->device, j->index->dtype, j->y.n, j->m, j->negative, prep->err);
    ot_text_add(&prefix,
                "#define T %s\n#define CLS %s\n#define SUM CLS\n#define KEY %s\n#define WIDE %d\n#define FRESH %d\n"
                "#define JOIN(a, b) %s\n",
                ot_cuda_type(j->t), ot_cuda_class(j->t), p->order.key, threads >= NARROW, j->fresh,
                join_of(j->op, j->t));
    if (s == OT_OK) s = ot_gpu_compile(prep->device, "scatter.cu", prefix.text, "parts", &p->parts, prep->err);
    if (s == OT_OK && p->chunks > 1)
        s = ot_gpu_compile(prep->device, "scatter.cu", prefix.text, "joins", &p->joins, prep->err);
    ot_text_free(&prefix);
    if (s != OT_OK) {
        free(p);
        return s;
    }
    prep->state = p;
    prep->work = p->order.work + (size_t)(2 * threads) * (j->t == OT_F64 || !ot_is_float(j->t) ? 8 : 4);
    return OT_OK;
}

/* Combines the rows x, at the indices in[1], with y. */
static ot_status scatter_run(const ot_call *c, const void *x)
{
    const plan *p = c->state;
    ot_scatter_args a = { .x = x,
                          .y = c->out[0],
                          .part = (char *)c->work + p->order.work,
                          .threads = p->chunks * p->y.outer * p->y.inner,
                          .m = p->order.m,
                          .n = p->y.n,
                          .chunks = ot_divider_of(p->chunks),
                          .inner = ot_divider_of(p->y.inner) };
    int64_t blocks = ot_gpu_blocks(c->device, a.threads, THREADS);
    if (p->order.m == 0 || a.threads == 0) return OT_OK;
    OT_TRY(ot_order_run(&p->order, c, c->in[1], c->work, &a.key, &a.position));
    OT_TRY(ot_gpu_launch(c->device, p->parts, blocks, THREADS, 0, &a, c->err));
    return p->joins ? ot_gpu_launch(c->device, p->joins, blocks, THREADS, 0, &a, c->err) : OT_OK;
}

/* ---- TakeDx --------------------------------------------------------------------- */

static bool add_can(const ot_node *n, const char **why) { return ot_cuda_type_can(n->in[0]->dtype, why); }

static ot_status add_prepare(const ot_node *n, ot_prep *p)
{
    const ot_take_dx *a = n->attrs;
    job j = { .t = n->in[0]->dtype,
              .y = ot_along_axis(&a->shape, a->axis),
              .m = ot_numel(&n->in[1]->shape),
              .op = OT_SCATTER_ADD,
              .fresh = true,
              .negative = true,
              .index = n->in[1] };
    return scatter_prepare(n, &j, p);
}

static ot_status add_run(const ot_call *c)
{
    const ot_value *y = c->node->out[0];
    OT_TRY(c->device->backend->zero(c->device, c->out[0], (int64_t)ot_bytes(&y->shape, y->dtype), c->err));
    return scatter_run(c, c->in[0]);
}

/* ---- Scatter --------------------------------------------------------------------------- */

/* Rows that are only moved need no type. */
static ot_dtype moved(ot_dtype t)
{
    int bits = ot_dtype_bits(t);
    return bits == 64 ? OT_I64 : bits == 32 ? OT_I32 : bits == 16 ? OT_I16 : OT_I8;
}

static bool put_can(const ot_node *n, const char **why)
{
    ot_dtype t = n->in[0]->dtype;
    if (((const ot_scatter *)n->attrs)->op != OT_SCATTER_NONE) return ot_cuda_type_can(t, why);
    if (ot_dtype_bits(t) >= 8) return true;
    return ot_refuse(why, "elements of less than a byte are not scattered");
}

static ot_status put_prepare(const ot_node *n, ot_prep *p)
{
    const ot_scatter *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    job j = { .t = a->op == OT_SCATTER_NONE ? moved(n->in[0]->dtype) : n->in[0]->dtype,
              .y = { 1, x->dim[0], x->dim[1] },
              .m = n->in[1]->shape.dim[0],
              .op = a->op,
              .fresh = a->op == OT_SCATTER_NONE,
              .index = n->in[1] };
    return scatter_prepare(n, &j, p);
}

static ot_status put_run(const ot_call *c)
{
    const ot_value *x = c->node->in[0];
    if (c->out[0] != c->in[0])
        OT_TRY(
            c->device->backend->copy(c->device, c->out[0], c->in[0], (int64_t)ot_bytes(&x->shape, x->dtype), c->err));
    return scatter_run(c, c->in[2]);
}

const ot_kernel ot_cuda_TakeDx = {
    .name = "cuda", .can = add_can, .prepare = add_prepare, .run = add_run, .release = free
};
const ot_kernel ot_cuda_Scatter = {
    .name = "cuda", .can = put_can, .prepare = put_prepare, .run = put_run, .release = free, .inplace = 1
};
