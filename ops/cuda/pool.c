/* pool.c - PoolMax, PoolAvg and their gradients: a thread per pixel and 16 bytes of channels, in any layout; PoolMax also with ReLU
 * after it, and its gradient with that of ReLU before it.
 *
 * If every tensor has its channels last, a thread computes 16 bytes of channels; else one element.
 * Numerics  sums in f32 (f64 for f64 and integers), in the order of the windows */
#include "ops/kernels/pool.h"

#include <stdlib.h>
#include <string.h>

#include "ops/cuda/kernels.h"
#include "ops/cuda/group.h"
#include "ops/cuda/pool.cuh"
#include "ops/cuda/types.h"
#include "ops/kernels/fused.h"

enum { THREADS = 128 };

typedef enum stage { MAX, MAX_DX, AVG, AVG_DX } stage;

typedef struct pool_state {
    ot_gpu_fn *f;
    int lanes;
} pool_state;

/* x has the pixels that windows slide over, y a pixel per window: in both directions. */
typedef struct pool_node {
    const ot_pool *a;
    const ot_value *x, *y, *where, *indices;
} pool_node;

static pool_node node_of(const ot_node *n, stage s)
{
    pool_node p = { .a = n->attrs };
    if (s == MAX) p.where = n->out[1], p.indices = n->n_out > 2 ? n->out[2] : NULL;
    if (s == MAX_DX) p.where = n->in[1];
    p.x = s == MAX || s == AVG ? n->in[0] : n->out[0];
    p.y = s == MAX || s == AVG ? n->out[0] : n->in[0];
    if (s == MAX && !p.y) p.y = p.where ? p.where : p.indices;
    return p;
}

static bool is_last(const ot_value *v) { return v && v->layout == OT_CHANNELS_LAST; }

static int lanes_of(const pool_node *p)
{
    int lanes = ot_is_float(p->x->dtype) ? ot_lanes(p->x->dtype) : 1;
    bool all = is_last(p->x) && is_last(p->y) && (!p->where || is_last(p->where));
    return all && p->x->shape.dim[1] % lanes == 0 ? lanes : 1;
}

/* The result of a window of padding only, as in the reference. */
static const char *least(ot_dtype t)
{
    if (t == OT_F64) return "-(double)ot_bits_f32(0x7f800000u)";
    if (ot_is_float(t)) return "-ot_bits_f32(0x7f800000u)";
    return t == OT_U8 ? "0" : t == OT_I8 ? "-128" : "-9223372036854775807ll - 1";
}

static void pool_text(const pool_node *p, stage s, bool relu, int lanes, ot_text *t)
{
    ot_dtype type = p->x->dtype;
    ot_window w;
    ot_window_3d(&p->a->window, &w);
    bool wide = ot_numel(&p->x->shape) > INT32_MAX || ot_numel(&p->y->shape) > INT32_MAX;
    ot_text_add(t,
                "#define STAGE %d\n#define T %s\n#define CLS %s\n#define ACC %s\n#define LANES %d\n#define INDEX %s\n",
                s, ot_cuda_type(type), ot_cuda_class(type), ot_is_float(type) && type != OT_F64 ? "float" : "double",
                lanes, wide ? "ot_i64" : "int");
    ot_text_add(t, "#define RELU %d\n", relu);
    ot_text_add(t, "#define BOUNDS %d%s\n", THREADS,
                type == OT_F64 || s == AVG_DX ? ", 1" : ""); /* both contain divisions in a loop */
    ot_text_add(t, "#define X_LAST %d\n#define Y_LAST %d\n#define WHERE_LAST %d\n#define INDICES_LAST %d\n",
                is_last(p->x), is_last(p->y), is_last(p->where), is_last(p->indices));
    for (int j = 0; j < 3; j++)
        ot_text_add(t, "#define K%d %lld\n#define S%d %lld\n#define D%d %lld\n", j, (long long)w.kernel[j], j,
                    (long long)w.stride[j], j, (long long)w.dilation[j]);
    bool bytes = !p->where || p->where->dtype == OT_U8;
    ot_text_add(t, "#define WHERE_TYPE %s\n#define WHERE_BYTES %d\n#define INCLUDE_PAD %d\n#define LEAST (%s)\n",
                bytes ? "u8" : "i32", bytes, p->a->include_pad != 0, least(type));
}

static bool pool_can(const ot_node *n, const char **why) { return ot_cuda_type_can(n->in[0]->dtype, why); }

static ot_status prepare(const ot_node *n, ot_prep *p, stage s, bool relu)
{
    static const char *const entries[] = { "pool_max", "pool_max_dx", "pool_avg", "pool_avg_dx" };
    pool_node node = node_of(n, s);
    pool_state *st = calloc(1, sizeof *st);
    ot_text text = { 0 };
    if (!st) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    st->lanes = lanes_of(&node);
    pool_text(&node, s, relu, st->lanes, &text);
    ot_status done = ot_gpu_compile(p->device, "pool.cu", text.text, entries[s], &st->f, p->err);
    ot_text_free(&text);
    if (done == OT_OK) p->state = st;
    else free(st);
    return done;
}

/* relu: what its gradient reads. */
static ot_status run(const ot_call *c, stage s, const void *relu)
{
    const pool_state *st = c->state;
    pool_node n = node_of(c->node, s);
    ot_pool_args a = { .x = c->in[0],
                       .y = c->out[0],
                       .relu = relu,
                       .N = n.x->shape.dim[0],
                       .C = n.x->shape.dim[1],
                       .column_major = n.a->column_major != 0 };
    int64_t in[3], out[3];
    ot_window w;
    ot_window_3d(&n.a->window, &w);
    ot_spatial_3d(&n.x->shape, in);
    ot_spatial_3d(&n.y->shape, out);
    for (int j = 0; j < 3; j++) {
        a.in[j] = (int)in[j];
        a.out[j] = (int)out[j];
        a.pad_lo[j] = (int)w.pad_lo[j];
        a.edge[j] = (int)(in[j] + w.pad_hi[j]);
    }
    if (s == MAX) a.where = c->out[1], a.indices = c->node->n_out > 2 ? c->out[2] : NULL;
    if (s == MAX_DX) a.where = (void *)(uintptr_t)c->in[1];
    int64_t work = ot_numel(s == MAX || s == AVG ? &n.y->shape : &n.x->shape) / st->lanes;
    return ot_gpu_launch(c->device, st->f, ot_gpu_blocks(c->device, work, THREADS), THREADS, 0, &a, c->err);
}

#define KERNEL(op, stage)                                                                             \
    static ot_status op##_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, stage, false); } \
    static ot_status op##_run(const ot_call *c) { return run(c, stage, NULL); }                        \
    const ot_kernel ot_cuda_##op = { .name = "cuda", .can = pool_can, .prepare = op##_prepare, .run = op##_run, \
                                       .release = free, .any_layout = true };
KERNEL(PoolMax, MAX)
KERNEL(PoolMaxDx, MAX_DX)
KERNEL(PoolAvg, AVG)
KERNEL(PoolAvgDx, AVG_DX)

/* ---- with ReLU ------------------------------------------------------------------------------- */

static bool is_forward(const ot_node *n) { return !strcmp(ot_fused_op(n)->node->op->name, "PoolMax"); }

/* The Map is ReLU of y, or its gradient, and nothing else.  *y: what the gradient reads, an operand of the Map. */
static bool relu_of(const ot_node *n, int *y)
{
    const ot_fused_part *map = is_forward(n) ? ot_fused_behind(n) : ot_fused_before(n);
    ot_chain c;
    if (!map || !ot_chain_of(map->node, is_forward(n) ? ot_fused_between(n) : -1, &c) || c.n != 1) return false;
    *y = c.step[0].other;
    return c.step[0].row == (is_forward(n) ? OT_FN_Relu : OT_FN_Relu_da);
}

static bool same(const ot_value *a, const ot_value *b)
{
    return a->dtype == b->dtype && a->layout == b->layout && ot_shape_eq(&a->shape, &b->shape);
}

static bool fused_can(const ot_node *n, const char **why)
{
    const ot_fused *f = n->attrs;
    const ot_fused_part *op = ot_fused_op(n);
    int y = -1;
    *why = "only ReLU beside PoolMax";
    if (strcmp(op->node->op->name, "PoolMax") != 0 && strcmp(op->node->op->name, "PoolMaxDx") != 0) return false;
    if (f->mask_out >= 0 || f->masked || f->part[0].out[f->between] >= 0 || !relu_of(n, &y)) return false;
    if (!pool_can(op->node, why)) return false;
    if (is_forward(n)) return same(ot_fused_behind(n)->node->out[0], op->node->out[0]);
    const ot_node *map = ot_fused_before(n)->node;
    return y >= 0 && same(map->in[y], map->out[0]) && same(map->in[!y], map->out[0]);
}

static ot_status fused_prepare(const ot_node *n, ot_prep *p)
{
    return prepare(ot_fused_op(n)->node, p, is_forward(n) ? MAX : MAX_DX, true);
}

static ot_status fused_run(const ot_call *c)
{
    ot_fused_call call;
    int y = 0;
    ot_fused_call_of(c, &call);
    if (is_forward(c->node)) return run(&call.call, MAX, NULL);
    relu_of(c->node, &y);
    const ot_fused_part *map = ot_fused_before(c->node);
    call.in[0] = c->in[map->in[!y]];
    return run(&call.call, MAX_DX, c->in[map->in[y]]);
}

const ot_kernel ot_pool_Fused = {
    .name = "cuda", .can = fused_can, .prepare = fused_prepare, .run = fused_run, .release = free, .any_layout = true
};
