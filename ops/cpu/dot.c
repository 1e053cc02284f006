/* dot.c - Dot by oneDNN's matrix product: transposes are strides, equal or broadcast leading axes are batches.  By kernels of our own:
 * products whose rows share sets of the caches (dot_packed.c); those of many rows with AVX-512, and in predictions of few rows with
 * weights, which are packed once (convolve_rows.c). */
#include "ops/cpu/dot.h"

#include <stdlib.h>
#include <string.h>

#include "ops/cpu/convolve_rows.h"
#include "ops/cpu/map.h"
#include "ops/cpu/vector.h"
#include "ops/kernels/dot.h"

static bool can(const ot_node *n, const char **why)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (!v) continue;
        if (!ot_f32_can(v, why)) return false;
        for (int d = 0; d < v->shape.rank; d++)
            if (v->shape.dim[d] <= 0 || v->shape.dim[d] >= INT32_MAX) return ot_refuse(why, "an empty or huge tensor");
    }
    return true;
}

/* Dimensions and strides of an operand with its leading axes aligned to rank; flip: last two swapped. */
static void operand(const ot_shape *s, int rank, bool flip, int64_t *dim, int64_t *stride)
{
    int64_t step[OT_MAX_RANK];
    int lead = rank - s->rank;
    ot_strides(s, step);
    for (int d = 0; d < rank; d++) {
        dim[d] = d < lead ? 1 : s->dim[d - lead];
        stride[d] = d < lead ? ot_numel(s) : step[d - lead];
    }
    if (!flip) return;
    int64_t t = dim[rank - 1];
    dim[rank - 1] = dim[rank - 2];
    dim[rank - 2] = t;
    stride[rank - 1] = step[s->rank - 2];
    stride[rank - 2] = step[s->rank - 1];
}

/* Merges leading axes on which both operands agree: oneDNN's fast paths take three axes. */
static void merge(ot_dot_call *c)
{
    int out = 0;
    for (int d = 0; d < c->rank - 2; d++) {
        bool one = c->y_dim[d] == 1;
        if (one) continue;
        bool a = c->a_dim[d] == c->y_dim[d], b = c->b_dim[d] == c->y_dim[d];
        if (out > 0) {
            bool pa = c->a_dim[out - 1] == c->y_dim[out - 1], pb = c->b_dim[out - 1] == c->y_dim[out - 1];
            if (pa == a && pb == b) {
                c->a_dim[out - 1] *= c->a_dim[d], c->a_stride[out - 1] = c->a_stride[d];
                c->b_dim[out - 1] *= c->b_dim[d], c->b_stride[out - 1] = c->b_stride[d];
                c->y_dim[out - 1] *= c->y_dim[d], c->y_stride[out - 1] = c->y_stride[d];
                continue;
            }
        }
        c->a_dim[out] = c->a_dim[d], c->a_stride[out] = c->a_stride[d];
        c->b_dim[out] = c->b_dim[d], c->b_stride[out] = c->b_stride[d];
        c->y_dim[out] = c->y_dim[d], c->y_stride[out] = c->y_stride[d];
        out++;
    }
    for (int d = c->rank - 2; d < c->rank; d++, out++) {
        c->a_dim[out] = c->a_dim[d], c->a_stride[out] = c->a_stride[d];
        c->b_dim[out] = c->b_dim[d], c->b_stride[out] = c->b_stride[d];
        c->y_dim[out] = c->y_dim[d], c->y_stride[out] = c->y_stride[d];
    }
    c->rank = out;
}

/* Rounding an operand costs as much as some 25 products of each of its elements. */
static bool bf16_pays(const ot_dot_call *c)
{
    int64_t m = c->y_dim[c->rank - 2], n = c->y_dim[c->rank - 1], k = c->a_dim[c->rank - 1];
    return m >= 32 && n >= 32 && k >= 32;
}

static ot_dot_call call_of(const ot_node *n, const ot_dot_operands *at, const ot_prep *p)
{
    const ot_dot *t = n->attrs;
    ot_dot_call c = { .rank = n->out[0]->shape.rank,
                      .a_arg = at->a,
                      .b_arg = at->b,
                      .y_arg = at->y,
                      .bias_arg = at->bias,
                      .add_arg = at->add };
    operand(&n->in[0]->shape, c.rank, t->ta, c.a_dim, c.a_stride);
    operand(&n->in[1]->shape, c.rank, t->tb, c.b_dim, c.b_stride);
    operand(&n->out[0]->shape, c.rank, false, c.y_dim, c.y_stride);
    merge(&c);
    c.bf16 = p->bf16 && ot_onednn_has_bf16() && bf16_pays(&c);
    return c;
}

ot_status ot_dot_plan_new(const ot_node *n, const ot_dot_call *d, ot_prep *p, ot_dot_plan *out)
{
    bool packs = ot_dot_packed_pays(d, p->threads);
    strcpy(p->how, d->bf16 ? OT_BF16_PRODUCT : packs ? "packed" : "");
    if (packs) return ot_dot_packed_new(n, d, ot_instruction_set(), p, &out->packed);
    OT_TRY(ot_script_new(n, p, &out->script));
    return ot_script_dot(out->script, d, p);
}

ot_status ot_dot_plan_run(const ot_dot_plan *s, const ot_call *c)
{
    ot_call own = *c;
    own.state = s->script;
    if (s->script) return ot_script_run(&own);
    ot_dot_packed_run(s->packed, c);
    return OT_OK;
}

void ot_dot_plan_free(ot_dot_plan *s)
{
    ot_script_free(s->script);
    free(s->packed);
}

typedef struct dot_state {
    ot_dot_plan product;
    ot_row_conv *rows; /* instead of it; NULL: not */
    cpu_behind behind;
} dot_state;

void ot_cpu_dot_release(void *state)
{
    dot_state *s = state;
    if (!s) return;
    ot_dot_plan_free(&s->product);
    ot_rows_free(s->rows);
    free(s->behind.map);
    free(s);
}

/* Few rows with settled weights: packing them, once here and in every product by oneDNN, counts; with very few, weights are read at the
 * speed of memory by either, and threads have no work.
 *
 * Many rows, with AVX-512: of some 160 GFLOP/s oneDNN 2.6 has 33 to 85 where b has 3072 or 5120 columns and 92 to 111 at 2560, these 120 to
 * 170.  At other widths these are 4 % slower to 13 % faster, at multiples of 2048, whose rows share sets, 5 to 24 % slower, and where b is
 * turned up to 43 % slower. */
static bool is_product_of_rows(const ot_node *n, bool settled, int threads, ot_rows_dot *d)
{
    enum {
        FEW = 1024,
        ROWS_PER_THREAD = 24,
        MOST_HELD = 16 << 20,
        MANY = 512,
        MOST_BYTES = 64 << 20,
        FEWEST = 64,
        SETS = 2048
    };
    const ot_dot *t = n->attrs;
    const ot_value *b = n->in[1], *bias = n->n_in > 2 ? n->in[2] : NULL, *y = n->out[0];
    if (t->ta) return false;
    if (bias && ot_numel(&bias->shape) != y->shape.dim[y->shape.rank - 1]) return false;
    int64_t N = y->shape.dim[y->shape.rank - 1], K = n->in[0]->shape.dim[n->in[0]->shape.rank - 1];
    *d = (ot_rows_dot){ .rows = ot_numel(&y->shape) / N,
                        .K = K,
                        .N = N,
                        .b = settled ? ot_settled_bytes(n->graph, b) : NULL,
                        .turned = t->tb };
    if (ot_numel(&b->shape) != K * N || ot_numel(&n->in[0]->shape) != d->rows * K) return false;
    bool few = d->b && d->rows <= FEW && d->rows >= (int64_t)ROWS_PER_THREAD * threads && K * N * 4 <= MOST_HELD;
    bool many = d->rows >= MANY && !t->tb && N >= FEWEST && K >= FEWEST && N % SETS && K * N * 4 <= MOST_BYTES &&
                ot_instruction_set() == OT_CPU_AVX512;
    if (!few) d->b = NULL;
    return few || many;
}

/* Rounded weights are not those that are packed. */
static bool packs_rows(const ot_node *n, const ot_dot_operands *at, const ot_prep *p, ot_rows_dot *d)
{
    return at->add == OT_ARG_NONE && !(p->bf16 && ot_onednn_has_bf16()) &&
           is_product_of_rows(n, p->settled, p->threads, d);
}

bool ot_cpu_dot_takes(const ot_node *n, const ot_node *map, const char **why)
{
    const ot_value *y = n->out[0], *z = map->out[0];
    ot_rows_dot d;
    if (!can(n, why) || !ot_cpu_Map.can(map, why)) return false;
    *why = "the Map changes types, sizes or layouts";
    if (map->n_out != 1 || z->dtype != OT_F32 || z->layout != OT_PLAIN || y->layout != OT_PLAIN ||
        ot_numel(&z->shape) != ot_numel(&y->shape))
        return false; /* the axes may differ: elements are in one order */
    *why = "no product that is computed row by row";
    return is_product_of_rows(n, true, 1, &d);
}

bool ot_cpu_dot_by_rows(const ot_node *n, const ot_node *map, const ot_prep *p)
{
    const char *why;
    ot_rows_dot d;
    return ot_cpu_dot_takes(n, map, &why) && packs_rows(n, &(ot_dot_operands){ .add = OT_ARG_NONE }, p, &d);
}

ot_status ot_cpu_dot_prepare(const ot_node *n, const ot_node *map, const ot_dot_operands *at, ot_prep *p)
{
    dot_state *s = calloc(1, sizeof *s);
    ot_rows_dot d;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    ot_dot_call c = call_of(n, at, p);
    bool rows = packs_rows(n, at, p, &d);
    if (rows) strcpy(p->how, "rows");
    d.x_arg = at->a, d.b_arg = at->b, d.bias_arg = at->bias, d.y_arg = at->y;
    d.mapped = map != NULL;
    ot_status e =
        rows ? ot_rows_product(n, &d, ot_instruction_set(), p, &s->rows) : ot_dot_plan_new(n, &c, p, &s->product);
    if (e == OT_OK) e = cpu_behind_new(map, p, &s->behind);
    p->state = e == OT_OK ? s : NULL;
    if (e != OT_OK) ot_cpu_dot_release(s);
    return e;
}

ot_status ot_cpu_dot_run(const ot_call *c, const void *const *map_in)
{
    const dot_state *s = c->state;
    ot_call map = cpu_behind_call(&s->behind, c, map_in);
    const ot_call *behind = s->behind.map ? &map : NULL;
    if (s->rows) return ot_rows_run(s->rows, c, behind);
    OT_TRY(ot_dot_plan_run(&s->product, c));
    if (behind) cpu_map_all(behind);
    return OT_OK;
}

static ot_status run(const ot_call *c) { return ot_cpu_dot_run(c, NULL); }

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    bool bias = n->n_in > 2 && n->in[2];
    return ot_cpu_dot_prepare(
        n, NULL,
        &(ot_dot_operands){ OT_ARG_IN, OT_ARG_IN + 1, bias ? OT_ARG_IN + 2 : OT_ARG_NONE, OT_ARG_NONE, OT_ARG_OUT }, p);
}

const ot_kernel ot_cpu_Dot = {
    .name = "onednn", .can = can, .prepare = prepare, .run = run, .release = ot_cpu_dot_release
};
