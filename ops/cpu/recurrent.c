/* recurrent.c - Recurrent and its gradient for f32: packs r once, then computes step by step.
 *
 * Threads   the samples are divided: each thread takes its own through all steps without waiting for the others.  Where they are
 *           few for the threads, or r is larger than a cache, the units are divided instead, and the threads meet at
 *           every step.  The same bits with any number of threads, but for the gradient of the
 *           biases: sums by part of the samples, added in order
 * Memory    workspace: packed r, in front of it w if x is its product with the inputs, two states, and rows of sums for each part of the samples */
#include <stdlib.h>
#include <string.h>

#include "ops/cpu/recurrent_steps.h"
#include "ops/cpu/vector.h"
#include "ops/kernel.h"
#include "ops/kernels/box.h"

enum {
    BLOCK = 16,        /* units are divided by whole blocks */
    MOST_ROWS = 48,    /* samples of a part: their sums stay in the L2 cache, beside r */
    FEW_ROWS = 16,     /* with fewer samples per thread a product waits for r */
    CACHED = 2 << 20,  /* bytes of r up to which every thread may read all of it at every step */
    ALONE = 1 << 18,   /* products less than this in all: one thread */
    TOGETHER = 1 << 17 /* products of a step from which on it is worth a meeting of threads */
};

typedef struct recurrent_state {
    const ot_recurrent_steps *steps;
    ot_recurrent_sizes z;
    bool gradient;
    int threads;
    int64_t groups, parts;            /* of the units, of the samples */
    int64_t strips, depth;            /* of a group's packed w and r: strips of columns, rows */
    int64_t part_work;                /* floats */
    int64_t zeros, bias, spare, work; /* offsets in the workspace, floats; packed w and r come first */
} recurrent_state;

static const ot_recurrent_steps *best_steps(void)
{
    static const ot_recurrent_steps *const steps[] = { &ot_recurrent_steps_base, &ot_recurrent_steps_avx2,
                                                       &ot_recurrent_steps_avx512 };
    return steps[ot_instruction_set()];
}

static bool can(const ot_node *n, const char **why)
{
    ot_recurrent_sizes z = ot_recurrent_sizes_of(n);
    if (!ot_f32_can(n->in[n->op == &ot_op_Recurrent ? OT_REC_R : OT_RECDX_R], why)) return false;
    if (z.I && ((const ot_recurrent *)n->attrs)->cell == OT_CELL_GRU)
        return ot_refuse(why, "GRU does not add the product of the inputs to that of the state");
    if (z.I && z.G * z.H * (z.H + z.I) * (int64_t)sizeof(float) > CACHED)
        return ot_refuse(why, "w and r are larger than a cache: a product of all steps reads w once");
    if (z.T * z.N * z.H == 0) return ot_refuse(why, "an empty tensor");
    return true;
}

/* How units and samples are divided among threads. */
static void divide(recurrent_state *st, int threads)
{
    const ot_recurrent_sizes *z = &st->z;
    int64_t r = z->G * z->H * z->H, blocks = (z->H + BLOCK - 1) / BLOCK;
    st->threads = (double)r * (double)(z->N * z->T) < ALONE ? 1 : threads;
    bool split = z->N < FEW_ROWS * st->threads || r * (int64_t)sizeof(float) > CACHED;
    split = split && st->threads > 1 && z->N * r >= TOGETHER;
    st->groups = !split ? 1 : blocks < st->threads ? blocks : st->threads;
    st->parts = (z->N + MOST_ROWS - 1) / MOST_ROWS;
    if (!split) st->parts = (st->parts + st->threads - 1) / st->threads * st->threads;
    if (st->parts > z->N) st->parts = z->N;
}

static ot_recurrent_part part_of(const recurrent_state *st, int64_t group, int64_t part, float *work)
{
    const ot_recurrent_sizes *z = &st->z;
    ot_recurrent_part p = { .packed = work + group * st->strips * st->depth * st->steps->strip,
                            .work = work + st->work + (group * st->parts + part) * st->part_work };
    ot_part((z->H + BLOCK - 1) / BLOCK, group, st->groups, &p.u, &p.u_end);
    p.u *= BLOCK;
    p.u_end = p.u_end * BLOCK < z->H ? p.u_end * BLOCK : z->H;
    ot_part(z->N, part, st->parts, &p.n, &p.n_end);
    return p;
}

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    recurrent_state *st = calloc(1, sizeof *st);
    if (!st) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    st->steps = best_steps();
    st->z = ot_recurrent_sizes_of(n);
    st->gradient = n->op == &ot_op_RecurrentDx;
    divide(st, p->threads);
    const ot_recurrent_sizes *z = &st->z;
    int64_t blocks = (z->H + BLOCK - 1) / BLOCK, units = (blocks + st->groups - 1) / st->groups * BLOCK,
            rows = (z->N + st->parts - 1) / st->parts, wide = z->G * z->H;
    st->strips = ot_recurrent_strips(st->steps, st->gradient ? units : z->G * units);
    st->depth = st->gradient ? wide : z->I + z->H;
    st->part_work = ot_recurrent_work(z, rows, units, st->gradient);
    st->zeros = st->groups * st->strips * st->depth * st->steps->strip;
    st->bias = st->zeros + ot_floats_up(z->H);
    st->spare = st->bias + ot_floats_up(wide + z->H);
    st->work = st->spare + ot_floats_up(st->gradient ? 2 * z->N * wide : 3 * z->N * z->H);
    p->work = (size_t)(st->work + st->groups * st->parts * st->part_work) * sizeof(float);
    p->state = st;
    return OT_OK;
}

static void pack(const recurrent_state *st, const ot_recurrent_job *j, float *work)
{
    int threads = st->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < st->groups * st->strips; i++) {
        ot_recurrent_part p = part_of(st, i / st->strips, 0, work);
        float *to = work + i * st->depth * st->steps->strip;
        int64_t columns = (p.u_end - p.u) * (st->gradient ? 1 : st->z.G);
        if (i % st->strips < ot_recurrent_strips(st->steps, columns))
            (st->gradient ? st->steps->pack_gradient : st->steps->pack)(j, &p, i % st->strips, to);
    }
}

static void run_steps(const recurrent_state *st, const ot_recurrent_job *j, float *work)
{
    int threads = st->threads;
    int64_t end = st->z.T + st->gradient;
    void (*steps)(const ot_recurrent_job *, const ot_recurrent_part *, int64_t, int64_t) =
        st->gradient ? st->steps->backward : st->steps->forward;
    pack(st, j, work);
    if (st->groups == 1) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t i = 0; i < st->parts; i++) {
            ot_recurrent_part p = part_of(st, 0, i, work);
            steps(j, &p, 0, end);
        }
        return;
    }
    for (int64_t k = 0; k < end; k++) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
        for (int64_t g = 0; g < st->groups; g++)
            for (int64_t i = 0; i < st->parts; i++) {
                ot_recurrent_part p = part_of(st, g, i, work);
                steps(j, &p, k, k + 1);
            }
    }
}

static const void *in(const ot_call *c, int i) { return i < c->node->n_in ? c->in[i] : NULL; }
static void *out(const ot_call *c, int i) { return i < c->node->n_out ? c->out[i] : NULL; }

/* What both operators have. */
static ot_recurrent_job start_job(const ot_call *c, int lens)
{
    const recurrent_state *st = c->state;
    const ot_value *v = ot_node_in(c->node, lens);
    float *zeros = (float *)c->work + st->zeros;
    memset(zeros, 0, (size_t)st->z.H * sizeof *zeros);
    return (ot_recurrent_job){ .a = *(const ot_recurrent *)c->node->attrs,
                               .z = st->z,
                               .lens = in(c, lens),
                               .lens_type = v ? v->dtype : OT_UNDEFINED,
                               .zeros = zeros };
}

static void fill(float *to, const float *from, int64_t n)
{
    if (from) memcpy(to, from, (size_t)n * sizeof *to);
    else memset(to, 0, (size_t)n * sizeof *to);
}

/* What is added to x, then to q: GRU's bias of q is beside, all others are one sum. */
static void join_biases(const recurrent_state *st, const float *b, bool gru, float *to)
{
    int64_t H = st->z.H, wide = st->z.G * H;
    for (int64_t k = 0; k < wide; k++) to[k] = !b ? 0 : gru && k >= 2 * H ? b[k] : b[k] + b[wide + k];
    for (int64_t u = 0; u < H; u++) to[wide + u] = b && gru ? b[wide + 2 * H + u] : 0;
}

static ot_status forward_run(const ot_call *c)
{
    const recurrent_state *st = c->state;
    ot_recurrent_job j = start_job(c, OT_REC_LENS);
    int64_t states = st->z.N * st->z.H;
    float *bias = (float *)c->work + st->bias;
    join_biases(st, in(c, OT_REC_B), j.a.cell == OT_CELL_GRU, bias);
    j.bias = bias, j.q_bias = bias + st->z.G * st->z.H;
    j.x = in(c, OT_REC_X), j.r = in(c, OT_REC_R);
    j.inputs = in(c, OT_REC_INPUTS), j.w = in(c, OT_REC_W);
    j.y = out(c, OT_REC_Y), j.h = out(c, OT_REC_H), j.c = out(c, OT_REC_C);
    j.gates = out(c, OT_REC_GATES), j.cells = out(c, OT_REC_CELLS);
    j.state = (float *)c->work + st->spare;
    fill(j.state, in(c, OT_REC_H0), states);
    if (j.a.cell == OT_CELL_LSTM) {
        j.cell = j.state + 2 * states;
        fill(j.cell, in(c, OT_REC_C0), states);
    }
    run_steps(st, &j, c->work);
    return OT_OK;
}

/* The gradient of the biases, (2, G, H), from the sums of the parts. */
static void bias_gradient(const recurrent_state *st, bool gru, float *work, float *db)
{
    const ot_recurrent_sizes *z = &st->z;
    for (int64_t g = 0; g < st->groups; g++) {
        ot_recurrent_part p = part_of(st, g, 0, work);
        int64_t U = p.u_end - p.u;
        for (int64_t i = 0; i < (z->G + gru) * U; i++) {
            int64_t gate = i / U, u = p.u + i % U;
            double sum = 0;
            for (int64_t k = 0; k < st->parts; k++) sum += ((const double *)(void *)part_of(st, g, k, work).work)[i];
            if (gate < z->G) db[gate * z->H + u] = (float)sum;
            if (gate < z->G && !(gru && gate == 2)) db[(z->G + gate) * z->H + u] = (float)sum;
            if (gate == z->G) db[(z->G + 2) * z->H + u] = (float)sum;
        }
    }
}

static ot_status dx_run(const ot_call *c)
{
    const recurrent_state *st = c->state;
    ot_recurrent_job j = start_job(c, OT_RECDX_LENS);
    bool lstm = j.a.cell == OT_CELL_LSTM;
    j.r = in(c, OT_RECDX_R), j.y_in = in(c, OT_RECDX_Y), j.gates_in = in(c, OT_RECDX_GATES),
    j.cells_in = in(c, OT_RECDX_CELLS);
    j.h0 = in(c, OT_RECDX_H0), j.c0 = in(c, OT_RECDX_C0);
    j.dy = in(c, OT_RECDX_DY), j.dh = in(c, OT_RECDX_DH), j.dc = in(c, OT_RECDX_DC);
    j.dx = out(c, OT_RECDX_DX), j.before = out(c, OT_RECDX_BEFORE), j.dh0 = out(c, OT_RECDX_DH0);
    j.dc0 = lstm ? out(c, OT_RECDX_DC0) : NULL;
    j.da = lstm ? NULL : out(c, OT_RECDX_DA);
    j.spare = (float *)c->work + st->spare;
    run_steps(st, &j, c->work);
    if (out(c, OT_RECDX_DB)) bias_gradient(st, j.a.cell == OT_CELL_GRU, c->work, out(c, OT_RECDX_DB));
    return OT_OK;
}

const ot_kernel ot_cpu_Recurrent = {
    .name = "cpu", .can = can, .prepare = prepare, .run = forward_run, .release = free, .inplace = 1u << OT_REC_X
};
const ot_kernel ot_cpu_RecurrentDx = {
    .name = "cpu", .can = can, .prepare = prepare, .run = dx_run, .release = free, .inplace = 1u << OT_RECDX_GATES
};
