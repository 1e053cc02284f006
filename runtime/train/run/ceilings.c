/* ceilings.c - what the device does at best, measured by plans of one operator. */
#include "runtime/train/run/ceilings.h"

#include "ops/op.h"

static const double enough = 0.03; /* seconds of a measurement */
static const double least = 3e-3;  /* seconds of a run that is large enough */
enum { FEWEST = 3, MOST = 1000 };

static ot_status run_once(const ot_session *x, ot_exec *e, double *seconds, ot_error *err)
{
    double begun = ot_seconds();
    OT_TRY(ot_exec_batch(e, err));
    if (x->device) OT_TRY(x->device->backend->wait(x->device, err));
    *seconds = ot_seconds() - begun;
    return OT_OK;
}

/* Seconds of the fastest run. */
static ot_status fastest(const ot_session *x, ot_exec *e, double *best, ot_error *err)
{
    double all = 0, one;
    *best = 0;
    for (int i = 0; i < MOST && (i < FEWEST || all < enough); i++) {
        OT_TRY(run_once(x, e, &one, err));
        all += one;
        if (!i || one < *best) *best = one;
    }
    return OT_OK;
}

/* op over two states of this shape. */
static ot_status time_operator(const ot_session *x, const ot_op *op, const ot_shape *s, double *seconds, ot_error *err)
{
    ot_error e = { 0 };
    ot_plan *p = NULL;
    ot_exec *exec = NULL;
    ot_graph *g = ot_graph_new(&e);
    if (!g) return ot_fail(err, OT_E_NOMEM, "no memory to measure the machine");
    ot_value *a = ot_graph_state(g, OT_STATE_M, NULL, OT_F32, s, 1);
    ot_value *b = ot_graph_state(g, OT_STATE_V, NULL, OT_F32, s, 1);
    ot_node *n = a && b ? ot_graph_node(g, op, op->name, NULL, (ot_value *[]){ a, b }, 2, 1) : NULL;
    if (n) ot_graph_output(g, n->out[0]);
    ot_config c = { .want = OT_WANT_RUN,
                    .options = { .precision = x->s->options.precision, .dropout = -1, .layer_decay = 1 },
                    .accumulate = 1,
                    .threads = x->threads,
                    .device = x->device };
    ot_status r = n ? ot_plan_new(g, &c, NULL, &p, &e) : e.status;
    if (!r) r = ot_exec_new(p, NULL, &exec, &e);
    if (!r) r = fastest(x, exec, seconds, &e);
    ot_exec_free(exec);
    ot_plan_free(p);
    ot_graph_free(g);
    return r ? ot_fail(err, r, "the machine cannot be measured: %-s", e.text) : OT_OK;
}

double ot_ceilings_rate(const ot_ceilings *c, double moved)
{
    double most = 0; /* of the sums from the largest that does not move more on: a short one has mostly waited */
    for (int i = c->n - 1; i >= 0; i--) {
        if (c->rate[i] > most) most = c->rate[i];
        if (c->moved[i] <= moved) break;
    }
    return most;
}

/* Sizes grow until a run takes some time; where memory ends the last one counts. */
ot_status ot_ceilings_measure(const ot_session *x, ot_ceilings *out, ot_error *err)
{
    double seconds = 0;
    ot_status s = OT_OK;
    ot_error e = { 0 };
    *out = (ot_ceilings){ 0 };
    for (int64_t rows = 256; rows <= 8192 && seconds < least && !s; rows *= 2) {
        s = time_operator(x, &ot_op_MatMul, &(ot_shape){ 2, { rows, rows } }, &seconds, &e);
        if (s || !(seconds > 0)) break;
        out->product = rows;
        out->flops = 2.0 * (double)rows * (double)rows * (double)rows / seconds;
    }
    seconds = 0;
    for (int64_t n = 1 << 13; n <= 1 << 25 && (n <= 1 << 19 || seconds < least) && !s; n *= 4) {
        s = time_operator(x, &ot_op_Add, &(ot_shape){ 1, { n } }, &seconds, &e);
        if (s || !(seconds > 0) || out->n == OT_CEILING_SIZES) continue;
        out->moved[out->n] = 12.0 * (double)n;
        out->bytes = out->rate[out->n] = 12.0 * (double)n / seconds;
        if (out->bytes > out->cached) out->cached = out->bytes;
        out->n++;
    }
    return s && s != OT_E_NOMEM ? ot_fail(err, s, "%-s", e.text) : OT_OK;
}
