/* ceilings.c - the largest throughput of the device, measured with plans of one operator. */
#include "runtime/train/run/ceilings.h"

#include <stdlib.h>
#include <string.h>

#include "ops/op.h"

static const double enough = 0.03; /* seconds of one measurement */
static const double least = 3e-3;  /* seconds of a run that is large enough */
enum { FEWEST = 3, MOST = 1000, TOGETHER = 50, PATTERN = 1 << 20 };

static ot_status run_on_host(ot_exec *e, double *seconds, ot_error *err)
{
    double begun = ot_seconds();
    OT_TRY(ot_exec_batch(e, err));
    *seconds = ot_seconds() - begun;
    return OT_OK;
}

/* Seconds of `runs` consecutive runs, between two events. */
static ot_status run_on_device(const ot_session *x, ot_exec *e, void *const event[2], int runs, double *seconds,
                               ot_error *err)
{
    const ot_backend *b = x->device->backend;
    OT_TRY(b->event_record(x->device, event[0], err));
    for (int i = 0; i < runs; i++) OT_TRY(ot_exec_batch(e, err));
    OT_TRY(b->event_record(x->device, event[1], err));
    OT_TRY(b->event_seconds(x->device, event[0], event[1], seconds, err));
    *seconds /= runs;
    return OT_OK;
}

/* Seconds of the fastest run; on a device of several short ones together, since one is over before the next is submitted. */
static ot_status fastest(const ot_session *x, ot_exec *e, void *const event[2], double *best, ot_error *err)
{
    double all = 0, one;
    int runs = 1;
    *best = 0;
    for (int i = 0; i < MOST && (i < FEWEST || all < enough); i++) {
        OT_TRY(x->device ? run_on_device(x, e, event, runs, &one, err) : run_on_host(e, &one, err));
        all += one * runs;
        if (!i || one < *best) *best = one;
        if (x->device) runs = one * TOGETHER < least ? TOGETHER : one < least ? (int)(least / one) : 1;
    }
    return OT_OK;
}

static ot_status measure(const ot_session *x, ot_exec *e, double *best, ot_error *err)
{
    void *event[2] = { NULL };
    ot_status s = OT_OK;
    for (int i = 0; i < 2 && x->device && !s; i++) s = x->device->backend->event_new(x->device, &event[i], err);
    if (!s) s = fastest(x, e, event, best, err);
    for (int i = 0; i < 2 && x->device; i++) x->device->backend->event_free(x->device, event[i]);
    return s;
}

/* Random numbers in [-1, 1) in every operand: some devices multiply zeros faster. */
static ot_status fill(const ot_plan *p, ot_exec *e, ot_error *err)
{
    uint64_t x = 0x9E3779B97F4A7C15u;
    for (int i = 0; i < p->n_states; i++) {
        ot_dtype t = p->states[i]->dtype;
        int64_t n = ot_numel(&p->states[i]->shape), have = n < PATTERN ? n : PATTERN, size = ot_dtype_bits(t) / 8;
        char *v = malloc((size_t)((n + 1) * size));
        if (!v) return ot_fail(err, OT_E_NOMEM, "no memory for operands");
        for (int64_t k = 0; k < have; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            ot_set_f64(v, t, k, (double)(int64_t)x * 0x1p-63);
        }
        for (; have < n; have *= 2) memcpy(v + have * size, v, (size_t)((have < n - have ? have : n - have) * size));
        ot_status s = ot_exec_write(e, p->states[i], v, err);
        free(v);
        OT_TRY(s);
    }
    return OT_OK;
}

/* The type in which the device multiplies, so that casts of f32 are not measured. */
static ot_dtype product_type(const ot_session *x)
{
    ot_precision p = x->s->options.precision;
    return !x->device ? OT_F32 : p == OT_PREC_BF16 ? OT_BF16 : p == OT_PREC_FP16 ? OT_F16 : OT_F32;
}

/* A plan of `op` with two states of this shape and type. */
static ot_status time_operator(const ot_session *x, const ot_op *op, const ot_shape *s, ot_dtype t, double *seconds,
                               ot_error *err)
{
    ot_error e = { 0 };
    ot_plan *p = NULL;
    ot_exec *exec = NULL;
    ot_graph *g = ot_graph_new(&e);
    if (!g) return ot_fail(err, OT_E_NOMEM, "no memory to measure the machine");
    ot_value *a = ot_graph_state(g, OT_STATE_M, NULL, t, s, 1);
    ot_value *b = ot_graph_state(g, OT_STATE_V, NULL, t, s, 1);
    ot_node *n = a && b ? ot_graph_node(g, op, op->name, NULL, (ot_value *[]){ a, b }, 2, 1) : NULL;
    if (n) ot_graph_output(g, n->out[0]);
    ot_config c = {
        .want = OT_WANT_RUN,
        .options = { .precision = t == OT_F32 ? x->s->options.precision : OT_FP32, .dropout = -1, .layer_decay = 1 },
        .accumulate = 1,
        .threads = x->threads,
        .device = x->device
    };
    ot_status r = n ? ot_plan_new(g, &c, NULL, &p, &e) : e.status;
    if (!r) r = ot_exec_new(p, NULL, &exec, &e);
    if (!r) r = fill(p, exec, &e);
    if (!r) r = measure(x, exec, seconds, &e);
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
        s = time_operator(x, &ot_op_MatMul, &(ot_shape){ 2, { rows, rows } }, product_type(x), &seconds, &e);
        if (s || !(seconds > 0)) break;
        out->product = rows;
        out->flops = 2.0 * (double)rows * (double)rows * (double)rows / seconds;
    }
    seconds = 0;
    for (int64_t n = 1 << 13; n <= 1 << 25 && (n <= 1 << 19 || seconds < least) && !s; n *= 4) {
        s = time_operator(x, &ot_op_Add, &(ot_shape){ 1, { n } }, OT_F32, &seconds, &e);
        if (s || !(seconds > 0) || out->n == OT_CEILING_SIZES) continue;
        out->moved[out->n] = 12.0 * (double)n;
        out->bytes = out->rate[out->n] = 12.0 * (double)n / seconds;
        if (out->bytes > out->cached) out->cached = out->bytes;
        out->n++;
    }
    return s && s != OT_E_NOMEM ? ot_fail(err, s, "%-s", e.text) : OT_OK;
}
