/* attention.c - FusedAttention and its gradient for f32, block by block: scores are not stored in memory.
 *
 * Operands are read and written in place, with strides; blocks and products are in attention_tiles.inc.
 * Memory    a copy of one head's operands for every thread
 * Threads   heads; if there are fewer heads than threads, parts of their queries (and, for dk and dv, keys: p is then
 *           computed twice).  Nothing is summed across parts: the same bits with any number of threads. */
#include "ops/cpu/attention_tiles.h"

#include <stdlib.h>

#include "ops/kernels/box.h"
#include "ops/cpu/vector.h"

typedef struct attention_state {
    const ot_attention_tiles *tiles;
    ot_attention_job job; /* without addresses */
    int64_t work;         /* floats per thread */
    int threads;
    int64_t parts; /* of each head's queries, or keys */
} attention_state;

static const ot_attention_tiles *best_tiles(void)
{
    static const ot_attention_tiles *const tiles[] = { &ot_attention_tiles_base, &ot_attention_tiles_avx2,
                                                       &ot_attention_tiles_avx512 };
    return tiles[ot_instruction_set()];
}

static bool can(const ot_node *n, const char **why)
{
    const ot_value *mask = ot_attention_mask(n);
    ot_attention_sizes s;
    ot_attention_sizes_of(n, &s);
    if (!ot_f32_can(n->in[0], why) || !ot_f32_can(n->in[1], why)) return false;
    if (mask && mask->dtype != OT_F32 && mask->dtype != OT_BOOL)
        return ot_refuse(why, "a mask that is neither float32 nor bool");
    if (s.B * s.H * s.T * s.S * s.D * s.E == 0) return ot_refuse(why, "an empty tensor");
    return true;
}

static ot_attention_operand in(const ot_node *n, int i)
{
    return (ot_attention_operand){ .at = ot_attention_in(n, i) };
}
static ot_attention_operand out(const ot_node *n, int i)
{
    return ot_attention_to(n, i) >= 0 ? (ot_attention_operand){ .at = ot_attention_out(n, i) }
                                      : (ot_attention_operand){ 0 };
}

static void describe(const ot_node *n, ot_attention_job *j)
{
    const ot_value *mask = ot_attention_mask(n);
    int q = ot_attention_q(n);
    *j =
        (ot_attention_job){ .a = *(const ot_attention *)n->attrs, .q = in(n, q), .k = in(n, q + 1), .v = in(n, q + 2) };
    ot_attention_sizes_of(n, &j->s);
    if (mask) {
        ot_attention_mask_strides(&mask->shape, j->mask_stride);
        j->truth = mask->dtype == OT_BOOL;
    }
    if (q) j->dy = in(n, 0), j->y = in(n, 4), j->dq = out(n, 0), j->dk = out(n, 1), j->dv = out(n, 2);
    else j->y = out(n, 0);
}

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    attention_state *st = calloc(1, sizeof *st);
    if (!st) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    describe(n, &st->job);
    const ot_attention_sizes *z = &st->job.s;
    bool gradient = ot_attention_q(n), small = z->B * z->H * z->T * z->S * (z->D + z->E) < 1 << 18;
    int64_t heads = z->B * z->H, blocks = ((gradient && z->S > z->T ? z->S : z->T) + 63) / 64;
    st->tiles = best_tiles();
    st->parts = heads >= p->threads || small ? 1 : (p->threads + heads - 1) / heads;
    if (st->parts > blocks) st->parts = blocks;
    st->threads = small ? 1 : heads * st->parts < p->threads ? (int)(heads * st->parts) : p->threads;
    st->work = (ot_attention_work(z, gradient) + 15) / 16 * 16;
    p->work = (size_t)(st->work * st->threads) * sizeof(float);
    p->state = st;
    return OT_OK;
}

/* Part i of a range of n, of whole blocks. */
static void part_of(int64_t n, int64_t i, int64_t parts, int64_t *from, int64_t *to)
{
    ot_part((n + 63) / 64, i, parts, from, to);
    *from *= 64;
    *to = *to * 64 < n ? *to * 64 : n;
}

static void unit(const attention_state *st, const ot_attention_job *j, bool gradient, int64_t i, float *work)
{
    ot_attention_part at = { .head = i / st->parts, .t_end = j->s.T, .s_end = j->s.S, .queries = true, .keys = true },
                      some = at;
    part_of(j->s.T, i % st->parts, st->parts, &some.t, &some.t_end);
    if (!gradient) {
        st->tiles->forward(j, &some, work);
    } else if (st->parts == 1) {
        st->tiles->backward(j, &at, work);
    } else {
        some.keys = at.queries = false;
        if (j->dq.p && some.t < some.t_end) st->tiles->backward(j, &some, work);
        part_of(j->s.S, i % st->parts, st->parts, &at.s, &at.s_end);
        if ((j->dk.p || j->dv.p) && at.s < at.s_end) st->tiles->backward(j, &at, work);
    }
}

static ot_status run(const ot_call *c, ot_attention_job *j, bool gradient)
{
    const attention_state *st = c->state;
    int threads = st->threads;
    if (ot_attention_mask(c->node)) j->mask = c->in[c->node->n_in - 1];
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int k = 0; k < threads; k++) {
        int64_t from, to;
        ot_part(j->s.B * j->s.H * st->parts, k, threads, &from, &to);
        for (int64_t i = from; i < to; i++) unit(st, j, gradient, i, (float *)c->work + k * st->work);
    }
    return OT_OK;
}

static float *bytes(const void *p) { return (float *)(uintptr_t)p; }

static float *result(const ot_call *c, int i)
{
    int to = ot_attention_to(c->node, i);
    return to >= 0 ? c->out[to] : NULL;
}

static ot_status attention_run(const ot_call *c)
{
    ot_attention_job j = ((const attention_state *)c->state)->job;
    j.q.p = bytes(c->in[0]), j.k.p = bytes(c->in[1]), j.v.p = bytes(c->in[2]);
    j.y.p = c->out[0];
    j.top = c->node->n_out > 1 ? c->out[1] : NULL;
    j.sum = c->node->n_out > 2 ? c->out[2] : NULL;
    return run(c, &j, false);
}

static ot_status dx_run(const ot_call *c)
{
    ot_attention_job j = ((const attention_state *)c->state)->job;
    j.dy.p = bytes(c->in[0]), j.q.p = bytes(c->in[1]), j.k.p = bytes(c->in[2]), j.v.p = bytes(c->in[3]),
    j.y.p = bytes(c->in[4]);
    j.top = bytes(c->in[5]), j.sum = bytes(c->in[6]);
    j.dq.p = result(c, 0), j.dk.p = result(c, 1), j.dv.p = result(c, 2);
    return run(c, &j, true);
}

const ot_kernel ot_cpu_FusedAttention = {
    .name = "cpu", .can = can, .prepare = prepare, .run = attention_run, .release = free
};
const ot_kernel ot_cpu_FusedAttentionDx = {
    .name = "cpu", .can = can, .prepare = prepare, .run = dx_run, .release = free
};
