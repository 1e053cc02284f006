/* recurrent.c - Recurrent and its gradient, the plain loops.  Numerics: f64, states between steps too. */
#include "ops/kernels/recurrent.h"

#include <math.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/ref/element.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double load_or_zero(const void *p, ot_dtype t, int64_t i) { return p ? ot_get_f64(p, t, i) : 0; }

/* The steps of sample n. */
static int64_t steps_of(const ot_call *c, int lens, int64_t T, int64_t n)
{
    const ot_value *v = ot_node_in(c->node, lens);
    return v ? ot_get_i64(c->in[lens], v->dtype, n) : T;
}

/* ---- forward ---------------------------------------------------------------------- */

/* x: what the inputs add to the gates, then the gates.  a: what the state adds.  h, c: the state, before and after. */
static void unit_step(ot_cell cell, double x[4], const double a[4], double *h, double *c)
{
    switch (cell) {
    case OT_CELL_LSTM:
        for (int g = 0; g < 3; g++) x[g] = sigmoid(x[g] + a[g]);
        x[3] = tanh(x[3] + a[3]);
        *c = x[2] * *c + x[0] * x[3];
        *h = x[1] * tanh(*c);
        return;
    case OT_CELL_GRU:
        for (int g = 0; g < 2; g++) x[g] = sigmoid(x[g] + a[g]);
        x[2] = tanh(x[2] + x[1] * a[2]);
        *c = a[2];
        *h = (1 - x[0]) * x[2] + x[0] * *h;
        return;
    case OT_CELL_TANH: *h = x[0] = tanh(x[0] + a[0]); return;
    case OT_CELL_RELU: *h = x[0] = x[0] + a[0] <= 0 ? 0 : x[0] + a[0]; return;
    }
}

/* What the inputs of step t of sample n add to element k of its gates. */
OT_INLINE double from_inputs(ot_dtype type, const ot_call *c, const ot_recurrent_sizes *z, int64_t t, int64_t n,
                             int64_t k)
{
    double sum = 0;
    if (c->in[OT_REC_X]) return ot_load(c->in[OT_REC_X], type, (t * z->N + n) * z->G * z->H + k);
    for (int64_t i = 0; i < z->I; i++)
        sum += ot_load(c->in[OT_REC_W], type, k * z->I + i) *
               ot_load(c->in[OT_REC_INPUTS], type, (t * z->N + n) * z->I + i);
    return sum;
}

/* One step of sample n; `a` has room for all gates. */
OT_INLINE void step(ot_dtype type, const ot_call *c, int64_t t, int64_t n, double *h, double *cell, double *a)
{
    const ot_recurrent *at = c->node->attrs;
    ot_recurrent_sizes z = ot_recurrent_sizes_of(c->node);
    const void *b = c->node->n_in > OT_REC_B ? c->in[OT_REC_B] : NULL;
    void *cells = c->node->n_out > OT_REC_CELLS ? c->out[OT_REC_CELLS] : NULL;
    for (int64_t k = 0; k < z.G * z.H; k++) {
        a[k] = load_or_zero(b, type, z.G * z.H + k);
        for (int64_t u = 0; u < z.H; u++) a[k] += ot_load(c->in[OT_REC_R], type, k * z.H + u) * h[u];
    }
    for (int64_t u = 0; u < z.H; u++) {
        double x[4], from[4];
        int64_t row = (t * z.N + n) * z.G * z.H + u;
        for (int64_t g = 0; g < z.G; g++) {
            x[g] = from_inputs(type, c, &z, t, n, g * z.H + u) + load_or_zero(b, type, g * z.H + u);
            from[g] = a[g * z.H + u];
        }
        unit_step((ot_cell)at->cell, x, from, &h[u], &cell[u]);
        for (int64_t g = 0; g < z.G && c->out[OT_REC_GATES]; g++)
            ot_store(c->out[OT_REC_GATES], type, row + g * z.H, x[g]);
        if (cells) ot_store(cells, type, (t * z.N + n) * z.H + u, cell[u]);
    }
}

OT_INLINE void forward(ot_dtype type, const ot_call *c)
{
    const ot_node *node = c->node;
    const ot_recurrent *at = node->attrs;
    ot_recurrent_sizes z = ot_recurrent_sizes_of(node);
    double *h = c->work, *cell = h + z.H, *a = cell + z.H;
    for (int i = 0; i < node->n_out; i++)
        if (c->out[i]) memset(c->out[i], 0, ot_bytes(&node->out[i]->shape, type));
    for (int64_t n = 0; n < z.N; n++) {
        int64_t steps = steps_of(c, OT_REC_LENS, z.T, n);
        for (int64_t u = 0; u < z.H; u++) {
            h[u] = load_or_zero(node->n_in > OT_REC_H0 ? c->in[OT_REC_H0] : NULL, type, n * z.H + u);
            cell[u] = load_or_zero(node->n_in > OT_REC_C0 ? c->in[OT_REC_C0] : NULL, type, n * z.H + u);
        }
        for (int64_t j = 0; j < steps; j++) {
            int64_t t = at->reverse ? steps - 1 - j : j;
            step(type, c, t, n, h, cell, a);
            for (int64_t u = 0; u < z.H && c->out[OT_REC_Y]; u++)
                ot_store(c->out[OT_REC_Y], type, (t * z.N + n) * z.H + u, h[u]);
        }
        for (int64_t u = 0; u < z.H; u++) {
            if (c->out[OT_REC_H]) ot_store(c->out[OT_REC_H], type, n * z.H + u, h[u]);
            if (node->n_out > OT_REC_C && c->out[OT_REC_C]) ot_store(c->out[OT_REC_C], type, n * z.H + u, cell[u]);
        }
    }
}

/* ---- gradient --------------------------------------------------------------------- */

/* g: the gates.  d: the gradient of x; da: of a.  h, c: the state before the step; `now`: the element of cells.
 * dh, dc: gradients of the state after the step, then the part of those before it that is not through r. */
static void unit_gradient(ot_cell cell, const double g[4], double now, double h, double c, double *dh, double *dc,
                          double d[4], double da[4])
{
    double e, m;
    switch (cell) {
    case OT_CELL_LSTM:
        e = tanh(now);
        m = *dc + *dh * g[1] * (1 - e * e);
        d[0] = m * g[3] * g[0] * (1 - g[0]);
        d[1] = *dh * e * g[1] * (1 - g[1]);
        d[2] = m * c * g[2] * (1 - g[2]);
        d[3] = m * g[0] * (1 - g[3] * g[3]);
        *dc = m * g[2];
        *dh = 0;
        break;
    case OT_CELL_GRU:
        d[0] = *dh * (h - g[2]) * g[0] * (1 - g[0]);
        d[2] = *dh * (1 - g[0]) * (1 - g[2] * g[2]);
        d[1] = d[2] * now * g[1] * (1 - g[1]);
        *dh *= g[0];
        break;
    case OT_CELL_TANH: d[0] = *dh * (1 - g[0] * g[0]), *dh = 0; break;
    case OT_CELL_RELU: d[0] = g[0] <= 0 ? 0 : *dh, *dh = 0; break;
    }
    for (int k = 0; k < 4; k++) da[k] = d[k];
    if (cell == OT_CELL_GRU) da[2] = d[2] * g[1];
}

/* The step t of sample n; `late`: the step before it, -1: none.  da: room for all gates; db: sums. */
OT_INLINE void step_gradient(ot_dtype type, const ot_call *c, int64_t t, int64_t late, int64_t n, double *dh,
                             double *dc, double *da, double *db)
{
    const ot_recurrent *at = c->node->attrs;
    ot_recurrent_sizes z = ot_recurrent_sizes_of(c->node);
    bool gru = at->cell == OT_CELL_GRU;
    for (int64_t u = 0; u < z.H; u++) {
        double g[4] = { 0 }, d[4] = { 0 }, to[4];
        int64_t state = n * z.H + u, own = t * z.N * z.H + state, row = (t * z.N + n) * z.G * z.H + u;
        double h = late < 0 ? load_or_zero(c->in[OT_RECDX_H0], type, state)
                            : ot_load(c->in[OT_RECDX_Y], type, late * z.N * z.H + state);
        double before = late < 0 ? load_or_zero(c->in[OT_RECDX_C0], type, state)
                                 : load_or_zero(c->in[OT_RECDX_CELLS], type, late * z.N * z.H + state);
        for (int64_t k = 0; k < z.G; k++) g[k] = ot_load(c->in[OT_RECDX_GATES], type, row + k * z.H);
        dh[u] += load_or_zero(c->in[OT_RECDX_DY], type, own);
        unit_gradient((ot_cell)at->cell, g, load_or_zero(c->in[OT_RECDX_CELLS], type, own), h, before, &dh[u], &dc[u],
                      d, to);
        for (int64_t k = 0; k < z.G; k++) {
            da[k * z.H + u] = to[k];
            db[k * z.H + u] += d[k];
            db[(z.G + k) * z.H + u] += to[k];
            if (c->out[OT_RECDX_DX]) ot_store(c->out[OT_RECDX_DX], type, row + k * z.H, d[k]);
            if (gru && c->out[OT_RECDX_DA]) ot_store(c->out[OT_RECDX_DA], type, row + k * z.H, to[k]);
        }
        if (c->out[OT_RECDX_BEFORE]) ot_store(c->out[OT_RECDX_BEFORE], type, own, h);
    }
    for (int64_t u = 0; u < z.H; u++)
        for (int64_t k = 0; k < z.G * z.H; k++) dh[u] += ot_load(c->in[OT_RECDX_R], type, k * z.H + u) * da[k];
}

OT_INLINE void backward(ot_dtype type, const ot_call *c)
{
    const ot_node *node = c->node;
    const ot_recurrent *at = node->attrs;
    ot_recurrent_sizes z = ot_recurrent_sizes_of(node);
    double *dh = c->work, *dc = dh + z.H, *da = dc + z.H, *db = da + z.G * z.H;
    for (int64_t k = 0; k < 2 * z.G * z.H; k++) db[k] = 0;
    for (int i = 0; i < node->n_out; i++)
        if (c->out[i]) memset(c->out[i], 0, ot_bytes(&node->out[i]->shape, type));
    for (int64_t n = 0; n < z.N; n++) {
        int64_t steps = steps_of(c, OT_RECDX_LENS, z.T, n);
        for (int64_t u = 0; u < z.H; u++) {
            dh[u] = load_or_zero(c->in[OT_RECDX_DH], type, n * z.H + u);
            dc[u] = load_or_zero(c->in[OT_RECDX_DC], type, n * z.H + u);
        }
        for (int64_t j = steps - 1; j >= 0; j--)
            step_gradient(type, c, at->reverse ? steps - 1 - j : j,
                          !j            ? -1
                          : at->reverse ? steps - j
                                        : j - 1,
                          n, dh, dc, da, db);
        for (int64_t u = 0; u < z.H; u++) {
            if (c->out[OT_RECDX_DH0]) ot_store(c->out[OT_RECDX_DH0], type, n * z.H + u, dh[u]);
            if (at->cell == OT_CELL_LSTM && c->out[OT_RECDX_DC0])
                ot_store(c->out[OT_RECDX_DC0], type, n * z.H + u, dc[u]);
        }
    }
    for (int64_t k = 0; k < 2 * z.G * z.H && c->out[OT_RECDX_DB]; k++) ot_store(c->out[OT_RECDX_DB], type, k, db[k]);
}

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    ot_recurrent_sizes z = ot_recurrent_sizes_of(n);
    p->work = (size_t)((3 * z.G + 2) * z.H) * sizeof(double);
    return OT_OK;
}

static ot_status forward_run(const ot_call *c)
{
    OT_BY_TYPE(c->node->in[OT_REC_R]->dtype, forward, c);
    return OT_OK;
}

static ot_status dx_run(const ot_call *c)
{
    OT_BY_TYPE(c->node->in[OT_RECDX_R]->dtype, backward, c);
    return OT_OK;
}

const ot_kernel ot_ref_Recurrent = { .name = "ref", .prepare = prepare, .run = forward_run };
const ot_kernel ot_ref_RecurrentDx = { .name = "ref", .prepare = prepare, .run = dx_run };
