/* batchnorm.c - BatchNorm and its gradient: sums of chunks, sums over the chunks, then the result; if a channel is
 * short enough for one block, in one launch.
 *
 * Chunks depend on the shape only.  If the channels are innermost, a block has up to 32 adjacent packs of 16 bytes of
 * them; else it processes one channel.  With tensors of different layouts elements are loaded one at a time.
 *
 * Memory    workspace: two sums per chunk and channel, three factors per channel
 * Numerics  f32 (f64 for f64) within a chunk, f64 over the chunks; scale, bias and statistics may be wider than x */
#include "ops/kernels/batchnorm.h"

#include <stdlib.h>

#include "ops/cuda/batchnorm.cuh"
#include "ops/cuda/group.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/types.h"

enum { THREADS = 256, BATCH = 8, FINISH_CHANNELS = 8, BLOCKS = 1024 };

/* A block computes whole channels if that takes a thread at most this many iterations.  It then has few adjacent
 * packs, so that more threads share a channel, and there are more blocks. */
enum { WHOLE_TURNS = 16, WHOLE_TURNS_LAST = 32, WHOLE_PACKS = 4 };

typedef struct norm_state {
    ot_gpu_fn *sums, *finish, *apply; /* whole: the launch `sums` does everything */
    bool last, whole;
    int lanes, ct; /* ct: adjacent packs of channels */
    int64_t chunk, chunks, tiles;
} norm_state;

typedef struct norm_node {
    const ot_value *x, *dy, *y, *scale;
    int64_t C, P, rows;
    bool gradient;
} norm_node;

static norm_node node_of(const ot_node *n, bool gradient)
{
    norm_node r = { .x = n->in[gradient],
                    .dy = gradient ? n->in[0] : NULL,
                    .y = n->out[0],
                    .scale = n->in[1 + gradient],
                    .P = 1,
                    .gradient = gradient };
    r.C = r.x->shape.dim[1];
    for (int d = 2; d < r.x->shape.rank; d++) r.P *= r.x->shape.dim[d];
    r.rows = r.x->shape.dim[0] * r.P;
    return r;
}

static bool is_last(const norm_node *r, const ot_value *v) { return r->P == 1 || (v && v->layout == OT_CHANNELS_LAST); }

static bool can(const ot_node *n, bool gradient, const char **why)
{
    norm_node r = node_of(n, gradient);
    for (int i = 1 + gradient; i < n->n_in; i++)
        if (n->in[i]->dtype != r.scale->dtype) return ot_refuse(why, "scale and statistics have different types");
    if (!ot_is_float(r.x->dtype) || !ot_is_float(r.scale->dtype)) return ot_refuse(why, "only floats");
    return ot_cuda_type_can(r.x->dtype, why) && ot_cuda_type_can(r.scale->dtype, why);
}

static bool norm_can(const ot_node *n, const char **why) { return can(n, false, why); }
static bool dx_can(const ot_node *n, const char **why) { return can(n, true, why); }

static void choose(const norm_node *r, norm_state *s)
{
    int lanes = ot_lanes(r->x->dtype);
    s->last = is_last(r, r->y ? r->y : r->x);
    bool alike = is_last(r, r->x) == s->last && (!r->dy || is_last(r, r->dy) == s->last);
    s->lanes = alike && (s->last ? r->C : r->P) % lanes == 0 ? lanes : 1;
    for (s->ct = 1; s->last && s->ct < 32 && s->ct * s->lanes < r->C;) s->ct *= 2;
    int few = s->ct < WHOLE_PACKS ? s->ct : WHOLE_PACKS;
    int64_t whole = s->last ? THREADS / few * WHOLE_TURNS_LAST : (int64_t)THREADS * s->lanes * WHOLE_TURNS;
    s->whole = r->rows > 0 && r->rows <= whole;
    if (s->whole) s->ct = few;
    s->tiles = s->last ? (r->C / s->lanes + s->ct - 1) / s->ct : r->C;
    int64_t unit = (int64_t)THREADS / s->ct * BATCH * (s->last ? 1 : s->lanes); /* elements of one load of a block */
    int64_t most = s->tiles < BLOCKS && s->tiles > 0 ? BLOCKS / s->tiles : 1;
    s->chunk = (r->rows + most - 1) / most;
    s->chunk = s->chunk > 0 ? (s->chunk + unit - 1) / unit * unit : unit;
    if (s->whole && s->chunk < r->rows) s->chunk = r->rows;
    s->chunks = (r->rows + s->chunk - 1) / s->chunk;
}

static ot_status compile(const norm_node *r, const norm_state *s, int stage, const char *entry, ot_gpu_fn **f,
                         ot_prep *p)
{
    ot_dtype t = r->x->dtype;
    ot_text text = { 0 };
    ot_text_add(&text,
                "#define STAGE %d\n#define GRADIENT %d\n#define LAST %d\n#define X_LAST %d\n#define DY_LAST %d\n",
                stage, r->gradient, s->last, is_last(r, r->x), is_last(r, r->dy));
    ot_text_add(&text, "#define T %s\n#define ACC %s\n#define TS %s\n#define LANES %d\n#define INDEX %s\n",
                ot_cuda_type(t), t == OT_F64 ? "double" : "float", ot_cuda_type(r->scale->dtype), s->lanes,
                ot_numel(&r->x->shape) > INT32_MAX ? "ot_i64" : "int");
    ot_text_add(&text, "#define CT %d\n#define THREADS %d\n", stage == 1 ? FINISH_CHANNELS : s->ct, THREADS);
    ot_status st = ot_gpu_compile(p->device, "batchnorm.cu", text.text, entry, f, p->err);
    ot_text_free(&text);
    return st;
}

static size_t sums_bytes(const norm_node *r, const norm_state *s)
{
    size_t word = r->x->dtype == OT_F64 ? sizeof(double) : sizeof(float);
    return ((size_t)(s->chunks * 2 * r->C) * word + 63) / 64 * 64;
}

static ot_status prepare(const ot_node *n, ot_prep *p, bool gradient)
{
    norm_node r = node_of(n, gradient);
    norm_state *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    choose(&r, s);
    ot_status st = compile(&r, s, s->whole ? 3 : 0, s->whole ? "batch_norm_whole" : "batch_norm_sums", &s->sums, p);
    if (st == OT_OK && !s->whole) st = compile(&r, s, 1, "batch_norm_finish", &s->finish, p);
    if (st == OT_OK && !s->whole && r.y) st = compile(&r, s, 2, "batch_norm_apply", &s->apply, p);
    if (st != OT_OK) {
        free(s);
        return st;
    }
    p->state = s;
    if (!s->whole) p->work = sums_bytes(&r, s) + 3 * (size_t)r.C * sizeof(double);
    return OT_OK;
}

static ot_status norm_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, false); }
static ot_status dx_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, true); }

static ot_status run(const ot_call *c, const norm_node *r, ot_batch_norm_args *a)
{
    const norm_state *s = c->state;
    a->y = c->out[0];
    a->sums = c->work;
    a->factors = s->whole ? NULL : (char *)c->work + sums_bytes(r, s);
    a->C = r->C;
    a->P = r->P;
    a->rows = r->rows;
    a->chunk = s->chunk;
    a->chunks = (int)s->chunks;
    a->epsilon = ((const ot_batch_norm *)c->node->attrs)->epsilon;
    OT_TRY(ot_gpu_launch(c->device, s->sums, s->tiles * s->chunks, THREADS, 0, a, c->err));
    if (s->whole) return OT_OK;
    OT_TRY(ot_gpu_launch(c->device, s->finish, (r->C + FINISH_CHANNELS - 1) / FINISH_CHANNELS, THREADS, 0, a, c->err));
    if (!s->apply) return OT_OK;
    return ot_gpu_launch(c->device, s->apply, ot_gpu_blocks(c->device, r->rows * r->C / s->lanes, THREADS), THREADS, 0,
                         a, c->err);
}

static ot_status norm_run(const ot_call *c)
{
    norm_node r = node_of(c->node, false);
    ot_batch_norm_args a = {
        .x = c->in[0], .scale = c->in[1], .bias = c->in[2], .mean = c->out[1], .var = c->out[2], .inv = c->out[3]
    };
    return run(c, &r, &a);
}

static ot_status dx_run(const ot_call *c)
{
    norm_node r = node_of(c->node, true);
    ot_batch_norm_args a = { .dy = c->in[0],
                             .x = c->in[1],
                             .scale = c->in[2],
                             .mean_in = c->in[3],
                             .inv_in = c->in[4],
                             .dscale = c->out[1],
                             .dbias = c->out[2] };
    return run(c, &r, &a);
}

const ot_kernel ot_cuda_BatchNorm = {
    .name = "cuda", .can = norm_can, .prepare = norm_prepare, .run = norm_run, .release = free, .any_layout = true
};
const ot_kernel ot_cuda_BatchNormDx = {
    .name = "cuda", .can = dx_can, .prepare = dx_prepare, .run = dx_run, .release = free, .any_layout = true
};
