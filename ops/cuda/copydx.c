/* copydx.c - CopyDx: each element of dx sums the elements of dy that were copied from it.
 *
 * Numerics  floats are summed in f64 like the reference, piece after piece.  All types: floats of 8 bits and less occur
 *           as gradients of Pad after QuantizeLinear.
 * Memory    no workspace; if there are many boxes, they are in a table. */
#include "ops/kernels/copy.h"

#include <stdlib.h>

#include "ops/kernels/box.h"
#include "ops/cuda/copydx.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/types.h"

enum { THREADS = 256, NARROW = 1 << 30 };

typedef struct plan {
    ot_gpu_fn *f;
    int n;
    bool many;
    ot_copyadd_box box[];
} plan;

/* Piece p as a box whose strides along dx are not negative; false: it is empty. */
static bool box_of(const ot_piece *p, const int64_t *ds, int rank, ot_box *b)
{
    *b = (ot_box){ .rank = rank, .to = p->src };
    for (int d = 0; d < rank; d++) {
        b->extent[d] = p->extent[d];
        b->t[d] = p->stride[d];
        b->f[d] = ds[d];
        b->from += p->dst[d] * ds[d];
        if (p->stride[d] >= 0 || p->extent[d] < 1) continue; /* else from the other end */
        b->to += (p->extent[d] - 1) * p->stride[d];
        b->from += (p->extent[d] - 1) * ds[d];
        b->t[d] = -p->stride[d];
        b->f[d] = -ds[d];
    }
    ot_box_simplify(b);
    return b->count > 0;
}

static ot_copyadd_box args_of(const ot_box *b)
{
    ot_copyadd_box a = { .to = b->to, .from = b->from };
    int64_t reach = 0;
    for (int d = OT_COPYADD_AXES - 1; d >= 0; d--) {
        bool used = d < b->rank;
        a.axis[d] = (ot_copyadd_axis){ .by = ot_divider_of(used && b->t[d] ? b->t[d] : 1),
                                       .t = used ? b->t[d] : 0,
                                       .f = used ? b->f[d] : 0,
                                       .extent = used ? b->extent[d] : 1,
                                       .reach = reach };
        reach += used ? (b->extent[d] - 1) * b->t[d] : 0;
    }
    a.end = b->to + reach;
    return a;
}

/* The number of elements that share a byte, which one thread computes. */
static int per_byte(ot_dtype t) { return ot_dtype_bits(t) < 8 ? 8 / ot_dtype_bits(t) : 1; }

static ot_status add_prepare(const ot_node *n, ot_prep *prep)
{
    const ot_copy *a = n->attrs;
    ot_dtype t = n->in[0]->dtype;
    int64_t ds[OT_MAX_RANK], far = ot_numel(&a->shape) + ot_numel(&n->in[0]->shape);
    int rank = 1;
    ot_text prefix = { 0 };
    plan *p = calloc(1, sizeof *p + (size_t)a->n * sizeof *p->box);
    if (!p) return ot_fail(prep->err, OT_E_NOMEM, "%s: CopyDx: no memory for %lld pieces", n->name, (long long)a->n);
    ot_strides(&n->in[0]->shape, ds);
    for (int64_t i = 0; i < a->n; i++) {
        ot_box b;
        if (!box_of(&a->piece[i], ds, n->in[0]->shape.rank, &b)) continue;
        p->box[p->n++] = args_of(&b);
        rank = b.rank > rank ? b.rank : rank;
    }
    p->many = p->n > OT_COPYADD_FEW || rank > OT_COPYADD_FEW;
    ot_text_add(&prefix, "#define T %s\n#define SMALL %d\n#define PER %d\n#define CLS %s\n#define SUM %s\n",
                ot_cuda_type_any(t), !ot_cuda_type(t), per_byte(t), ot_cuda_class(t),
                ot_is_float(t) ? "double" : "ot_u64");
    ot_text_add(&prefix, "#define WIDE %d\n#define MANY %d\n", far >= NARROW, p->many);
    ot_text_add(&prefix, "#define LOOPS");
    for (int d = 0; d < rank; d++) ot_text_add(&prefix, " OPEN(%d)", d);
    ot_text_add(&prefix, "\n#define ENDS");
    for (int d = rank - 1; d >= 0; d--) ot_text_add(&prefix, " CLOSE(%d)", d);
    ot_text_add(&prefix, "\n");
    ot_status s = ot_gpu_compile(prep->device, "copydx.cu", prefix.text, "copyadd", &p->f, prep->err);
    ot_text_free(&prefix);
    if (s != OT_OK) {
        free(p);
        return s;
    }
    prep->state = p;
    prep->table = p->many ? p->box : NULL;
    prep->table_bytes = p->many ? (size_t)p->n * sizeof *p->box : 0;
    return OT_OK;
}

static ot_status add_run(const ot_call *c)
{
    const plan *p = c->state;
    int64_t elements = ot_numel(&((const ot_copy *)c->node->attrs)->shape);
    ot_copyadd_args a = { .dy = c->in[0], .dx = c->out[0], .table = c->table, .elements = elements, .n = p->n };
    int64_t each = (int64_t)THREADS * per_byte(c->node->in[0]->dtype);
    for (int i = 0; i < p->n && !p->many; i++) a.box[i] = p->box[i];
    return ot_gpu_launch(c->device, p->f, ot_gpu_blocks(c->device, elements, each), THREADS, 0, &a, c->err);
}

const ot_kernel ot_cuda_CopyDx = { .name = "cuda", .prepare = add_prepare, .run = add_run, .release = free };
