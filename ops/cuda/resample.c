/* resample.c - Resample in any layout: y is computed in memory order.
 *
 * Numerics  weights and sums are f32, f64 for f64. */
#include "ops/kernels/resample.h"

#include <stdlib.h>
#include <string.h>

#include "ops/cuda/resample.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/types.h"

enum { THREADS = 256, NARROW = 1 << 30 };

typedef struct plan {
    ot_gpu_fn *f;
    ot_interp_args a; /* offsets into the table instead of its addresses */
    size_t from, weight, add;
    char table[];
} plan;

/* An axis of y: its extent, the strides of y and x; of_table: it is the resampled one. */
typedef struct axis {
    int64_t n, y, x;
    bool of_table;
} axis;

static bool interp_can(const ot_node *n, const char **why) { return ot_cuda_type_can(n->in[0]->dtype, why); }

static int by_stride(const void *p, const void *q)
{
    const axis *a = p, *b = q;
    return a->y != b->y ? (a->y < b->y) - (a->y > b->y) : a->of_table - b->of_table;
}

/* Sorts y's axes in the order of its memory and merges them where both sides allow; returns their number. */
static int axes_of(const ot_node *n, axis *list)
{
    const ot_resample *a = n->attrs;
    const ot_value *x = n->in[0], *y = n->out[0];
    int64_t xs[OT_MAX_RANK], ys[OT_MAX_RANK];
    int count = 0, m = 0;
    ot_value_strides(x, xs);
    ot_value_strides(y, ys);
    for (int d = 0; d < y->shape.rank; d++)
        if (y->shape.dim[d] != 1 || d == a->axis) list[count++] = (axis){ y->shape.dim[d], ys[d], xs[d], d == a->axis };
    qsort(list, (size_t)count, sizeof *list, by_stride);
    for (int d = 1; d < count; d++) {
        axis *last = &list[m];
        if (!last->of_table && !list[d].of_table && last->y == list[d].y * list[d].n &&
            last->x == list[d].x * list[d].n)
            *last = (axis){ last->n * list[d].n, list[d].y, list[d].x, false };
        else list[++m] = list[d];
    }
    return m + 1;
}

static void put_num(char *table, int64_t i, int64_t v, bool wide)
{
    if (wide) ((int64_t *)(void *)table)[i] = v;
    else ((int32_t *)(void *)table)[i] = (int32_t)v;
}

static void put_real(char *table, int64_t i, double v, bool f64)
{
    if (f64) ((double *)(void *)table)[i] = v;
    else ((float *)(void *)table)[i] = (float)v;
}

/* The table in the kernel's form. */
static void fill_table(plan *p, const ot_resample *a, int64_t stride, bool wide, bool f64)
{
    for (int64_t i = 0; i <= a->size; i++) put_num(p->table, i, a->start[i], wide);
    for (int64_t t = 0; t < a->start[a->size]; t++) {
        put_num(p->table + p->from, t, a->from[t] * stride, wide);
        put_real(p->table + p->weight, t, a->weight[t], f64);
    }
    for (int64_t i = 0; i < a->size; i++) put_real(p->table + p->add, i, a->add ? a->add[i] : 0, f64);
}

static int64_t padded(int64_t bytes) { return (bytes + 15) / 16 * 16; }

static ot_status interp_prepare(const ot_node *n, ot_prep *prep)
{
    const ot_resample *a = n->attrs;
    ot_dtype t = n->in[0]->dtype;
    axis list[OT_MAX_RANK];
    int bytes = ot_dtype_bits(t) / 8, vector = 1, rank = axes_of(n, list), at = 0;
    int64_t taps = a->start[a->size], total = ot_numel(&n->out[0]->shape);
    bool wide = total >= NARROW || ot_numel(&n->in[0]->shape) >= NARROW || taps >= NARROW, f64 = t == OT_F64;
    int num = wide ? 8 : 4, real = f64 ? 8 : 4;
    size_t from = (size_t)padded((a->size + 1) * num), weight = from + (size_t)padded(taps * num),
           add = weight + (size_t)padded(taps * real), end = add + (size_t)padded(a->size * real);
    if (!total) return OT_OK;
    plan *p = calloc(1, sizeof *p + end);
    if (!p) return ot_fail(prep->err, OT_E_NOMEM, "%s: Resample: no memory for %lld taps", n->name, (long long)taps);
    p->from = from;
    p->weight = weight;
    p->add = add;
    while (!list[at].of_table) at++;
    fill_table(p, a, list[at].x, wide, f64);

    /* Several elements at once if they are adjacent on both sides, in every row. */
    const axis *last = &list[rank - 1];
    int64_t most = 16 / bytes;
    bool fits = !last->of_table && last->x == 1 && last->n % most == 0;
    for (int d = 0; d < rank - 1; d++) fits = fits && list[d].x % most == 0;
    if (fits) vector = (int)most;
    p->a.words = total / vector;
    for (int d = 0; d < rank; d++) {
        int to = OT_INTERP_AXES - rank + d;
        p->a.n[to] = ot_divider_of(d == rank - 1 ? list[d].n / vector : list[d].n);
        p->a.stride[to] = d == rank - 1 ? list[d].x * vector : list[d].x;
    }
    ot_text prefix = { 0 };
    ot_text_add(&prefix,
                "#define T %s\n#define CLS %s\n#define SUM %s\n#define T_STORED %s\n#define WIDE %d\n#define RANK %d\n"
                "#define AXIS %d\n#define VECTOR %d\n",
                ot_cuda_type(t), ot_cuda_class(t), f64 ? "double" : "float",
                bytes == 2 ? "ot_u16"
                : f64      ? "double"
                           : "float",
                wide, rank, OT_INTERP_AXES - rank + at, vector);
    ot_status s = ot_gpu_compile(prep->device, "resample.cu", prefix.text, "interp", &p->f, prep->err);
    ot_text_free(&prefix);
    if (s != OT_OK) {
        free(p);
        return s;
    }
    prep->state = p;
    prep->table = p->table;
    prep->table_bytes = end;
    return OT_OK;
}

static ot_status interp_run(const ot_call *c)
{
    const plan *p = c->state;
    const char *table = c->table;
    if (!p) return OT_OK;
    ot_interp_args a = p->a;
    a.x = c->in[0];
    a.y = c->out[0];
    a.start = table;
    a.from = table + p->from;
    a.weight = table + p->weight;
    a.add = table + p->add;
    return ot_gpu_launch(c->device, p->f, ot_gpu_blocks(c->device, a.words, THREADS), THREADS, 0, &a, c->err);
}

const ot_kernel ot_cuda_Resample = {
    .name = "cuda",
    .can = interp_can,
    .prepare = interp_prepare,
    .run = interp_run,
    .release = free,
    .any_layout = true,
};
