/* convolve_depthwise.c - dw of depthwise convolutions with channels last: sums over all pixels, channel by channel (row_tiles.inc).
 *
 * oneDNN's kernels for AVX2 take 3 to 50 times as long, most where windows are large beside pictures (3x3 in 2x2: 66 instead of 1.3 ms).
 * Threads   channels.  The same bits with any number of threads */
#include "ops/cpu/convolve_weights.h"

#include <stdlib.h>

#include "ops/cpu/row_tiles.h"
#include "ops/kernels/box.h"

typedef struct dw_state {
    const ot_rows_tiles *tiles;
    ot_depth_job job; /* without addresses */
    int x_arg, w_arg, b_arg, y_arg, threads;
} dw_state;

static bool pays(const ot_conv_call *c)
{
    enum { FEWEST = 16 /* channels: a vector of each instruction set */ };
    const ot_window *w = &c->attrs->window;
    int64_t C = c->x->shape.dim[1];
    if (c->kind != OT_CONV_DW || w->nd > 2 || c->attrs->group != C || c->y->shape.dim[1] != C || C < FEWEST)
        return false;
    if (c->x->layout != OT_CHANNELS_LAST || c->y->layout != OT_CHANNELS_LAST || c->w->layout != OT_PLAIN) return false;
    for (int j = 0; j < w->nd; j++)
        if (w->kernel[j] > OT_DEPTH_WIDE) return false;
    return true;
}

static ot_status prepare(const ot_node *n, const ot_conv_call *c, int set, ot_prep *p, void **state)
{
    dw_state *s = calloc(1, sizeof *s);
    *state = s;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    ot_depth_job *j = &s->job;
    s->tiles = ot_rows_tiles_of(set);
    s->x_arg = c->x_arg, s->w_arg = c->w_arg, s->b_arg = c->b_arg, s->y_arg = c->y_arg;
    s->threads = p->threads;
    j->N = c->x->shape.dim[0], j->C = c->x->shape.dim[1];
    ot_conv_plane_of(c->attrs, &c->x->shape, &c->y->shape, &j->p);
    return OT_OK;
}

static void run(const void *state, const ot_call *c)
{
    const dw_state *s = state;
    enum { ALONE = 1 << 14, LINE = 16 /* floats */ };
    ot_depth_job j = s->job;
    j.x = ot_arg_address(c, s->x_arg), j.dy = ot_arg_address(c, s->y_arg);
    j.dw = ot_arg_address(c, s->w_arg), j.db = ot_arg_address(c, s->b_arg);
    int64_t blocks = ot_ceil_div(j.C, LINE), work = j.N * j.C * j.p.out[0] * j.p.out[1] * j.p.kernel[0] * j.p.kernel[1];
    int threads = work < ALONE ? 1 : s->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int t = 0; t < threads; t++) {
        int64_t from, to;
        ot_part(blocks, t, threads, &from, &to);
        if (from < to) s->tiles->depthwise_weights(&j, from * LINE, to * LINE < j.C ? to * LINE : j.C);
    }
}

const ot_dw_kernel ot_dw_depthwise = { .name = "depthwise", .pays = pays, .prepare = prepare, .run = run };
