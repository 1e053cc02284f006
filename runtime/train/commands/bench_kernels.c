/* bench_kernels.c - bench --kernels: what every kernel of an update or of a prediction takes, beside what the device can do.
 *
 * Kernels are measured one by one, between events on a device; the whole run is measured as it runs otherwise, on a
 * device by replays of its captured graphs.  A kernel's floor is what the measured ceilings allow: its operations by the
 * matrix product, or its bytes by the sum of two arrays of that size, whichever takes longer. */
#include "ops/kernels/fused.h"
#include "runtime/train/commands/bench_kernels.h"

#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/train/run/nodes.h"

enum { WARM = 2, RUNS = 20, FEWEST = 3, REPLAYS = 10, SHOWN = 40 };

static const double enough = 1; /* seconds of a measurement */

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for the table of kernels"); }

/* ---- running ----------------------------------------------------------------------------- */

/* What is measured: updates, or predictions. */
typedef struct subject {
    ot_trainer *t;
    const ot_plan *plan;
    ot_exec *exec;
    bool updates;
    int batches; /* of a run */
} subject;

/* A run without copying data to the device: it computes with the last batch again. */
static ot_status run_once(const subject *x, ot_error *err)
{
    for (int i = 0; i < x->batches - x->updates; i++) OT_TRY(ot_exec_batch(x->exec, err));
    return x->updates ? ot_exec_step(x->exec, err) : OT_OK;
}

static ot_status settled_run(const subject *x, double *seconds, ot_error *err)
{
    const ot_trainer *t = x->t;
    double begun = ot_seconds();
    OT_TRY(run_once(x, err));
    if (t->x.device) OT_TRY(t->x.device->backend->wait(t->x.device, err));
    *seconds = ot_seconds() - begun;
    return OT_OK;
}

/* steps: of the plan, whose times m has room for. */
static ot_status time_kernels(const subject *x, size_t steps, ot_timing *m, ot_kernel_table *k, ot_error *err)
{
    double one, all = 0;
    ot_status s = ot_exec_measure(x->exec, m, err);
    for (int i = -WARM; i < RUNS && (i < FEWEST || all < enough) && !s; i++) {
        if (!i) m->batches = m->updates = 0, memset(m->spent, 0, steps * sizeof *m->spent);
        s = settled_run(x, &one, err);
        if (i >= 0 && !s) all += one, k->runs++;
    }
    ot_error ignored = { 0 };
    (void)ot_exec_measure(x->exec, NULL, &ignored);
    k->eager = k->runs ? all / k->runs : 0;
    return s;
}

/* Measures runs between two events, enough to take some time and to keep the device's queue filled. */
static ot_status time_between(const subject *x, void *const event[2], double *seconds, ot_error *err)
{
    ot_device *d = x->t->x.device;
    const ot_backend *b = d->backend;
    double all = 0, some;
    int64_t n = 0, runs = 1;
    OT_TRY(run_once(x, err)); /* the capture, where it has not been done */
    OT_TRY(run_once(x, err));
    for (int i = 0; i < REPLAYS && (i < FEWEST || all < enough); i++) {
        OT_TRY(b->event_record(d, event[0], err));
        for (int64_t k = 0; k < runs; k++) OT_TRY(run_once(x, err));
        OT_TRY(b->event_record(d, event[1], err));
        OT_TRY(b->event_seconds(d, event[0], event[1], &some, err));
        if (i) all += some, n += runs; /* the first finds out how many */
        else if (some > 0 && some < enough / REPLAYS) runs = (int64_t)(1.2 * enough / REPLAYS / some) + 1;
    }
    *seconds = n ? all / (double)n : 0;
    return OT_OK;
}

static ot_status time_replay(const subject *x, ot_kernel_table *k, ot_error *err)
{
    void *event[2] = { NULL };
    ot_device *d = x->t->x.device;
    ot_status s = d->backend->event_new(d, &event[0], err);
    if (!s) s = d->backend->event_new(d, &event[1], err);
    if (!s) s = time_between(x, event, &k->replay, err);
    for (int i = 0; i < 2; i++) d->backend->event_free(d, event[i]);
    return s;
}

/* ---- rows -------------------------------------------------------------------------------- */

static void print_values(FILE *f, ot_value *const *v, int n)
{
    char shape[128];
    for (int i = 0; i < n; i++)
        if (v[i]) fprintf(f, "%s%s ", ot_dtype_name(v[i]->dtype), ot_shape_text(&v[i]->shape, shape));
        else fputs("- ", f);
}

/* Types and shapes of the operands and results; of a group those of its first step.  NULL: no memory. */
static const char *values_of(const ot_node *n, ot_arena *a)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    print_values(f, n->in, n->n_in);
    fputs("-> ", f);
    print_values(f, n->out, n->n_out);
    bool whole = ot_memstream_close(f);
    if (whole && size) text[size - 1] = 0;
    const char *kept = whole ? ot_arena_strdup(a, text) : NULL;
    free(text);
    return kept;
}

static bool same(const ot_kernel_row *a, const ot_kernel_row *b)
{
    return a->stage == b->stage && !strcmp(a->op, b->op) && !strcmp(a->kernel, b->kernel) && !strcmp(a->how, b->how) &&
           !strcmp(a->values, b->values);
}

/* Step i and those that its launch computes with it; their numbers are added to an equal row. */
static ot_status add_step(const subject *x, const ot_node_table *names, const ot_timing *m, int i, ot_arena *a,
                          ot_kernel_table *k, ot_error *err)
{
    const ot_plan *p = x->plan;
    const ot_step *s = ot_plan_step(p, i);
    int64_t runs = x->updates ? m->updates : m->batches;
    int group = s->group > 1 ? s->group : 1;
    double times = i < p->n_batch_steps ? x->batches : 1;
    ot_kernel_row r = { .stage = ot_stage_names[s->node->stage], .count = 1 };
    char title[48];
    r.op = ot_arena_strdup(a, ot_node_title(s->node, title));
    r.kernel = s->kernel->name;
    r.how = group > 1 ? ot_arena_printf(a, "%d in one launch", group) : ot_arena_strdup(a, s->how ? s->how : "");
    r.values = values_of(s->node, a);
    r.node = ot_arena_strdup(a, names->row[names->of[i]].name);
    if (!r.op || !r.how || !r.values || !r.node) return no_memory(err);
    for (int j = 0; j < group; j++) {
        r.flops += times * ot_node_flops(ot_plan_step(p, i + j)->node);
        r.bytes += times * ot_node_bytes(ot_plan_step(p, i + j)->node);
    }
    double rate = ot_ceilings_rate(&k->ceilings, r.bytes / times);
    r.seconds = runs > 0 ? m->spent[i] / (double)runs : 0;
    r.floor = rate > 0 ? r.bytes / rate : 0;
    if (k->ceilings.flops > 0 && r.flops / k->ceilings.flops > r.floor) r.floor = r.flops / k->ceilings.flops;
    k->kernels += r.seconds;
    k->floor += r.floor;
    int at = 0;
    while (at < k->n && !same(&k->row[at], &r)) at++;
    if (at == k->n) {
        k->row[k->n++] = r;
        return OT_OK;
    }
    ot_kernel_row *to = &k->row[at];
    to->count++;
    to->flops += r.flops;
    to->bytes += r.bytes;
    to->seconds += r.seconds;
    to->floor += r.floor;
    return OT_OK;
}

static int by_excess(const void *a, const void *b)
{
    const ot_kernel_row *x = a, *y = b;
    double d = (y->seconds - y->floor) - (x->seconds - x->floor);
    return d > 0 ? 1 : d < 0 ? -1 : strcmp(x->values, y->values);
}

static ot_status make_rows(const subject *x, const ot_timing *m, ot_arena *a, ot_kernel_table *k, ot_error *err)
{
    ot_node_table names;
    OT_TRY(ot_node_table_new(x->t->m->file->graph, x->plan, x->t->a, &names, err));
    k->row = ot_arena_alloc(a, sizeof *k->row * (size_t)(names.n_steps + 1));
    if (!k->row) return no_memory(err);
    for (int i = 0; i < (x->updates ? names.n_steps : x->plan->n_batch_steps); i++) {
        const ot_step *s = ot_plan_step(x->plan, i);
        bool alias = s->node->op->flags & OT_ALIAS && !(ot_node_bytes(s->node) > 0); /* nothing runs */
        if (s->group && !alias) OT_TRY(add_step(x, &names, m, i, a, k, err));
    }
    qsort(k->row, (size_t)k->n, sizeof *k->row, by_excess);
    return OT_OK;
}

ot_status ot_kernel_table_new(ot_trainer *t, bool updates, ot_arena *a, ot_kernel_table *out, ot_error *err)
{
    int at = t->eval.slot;
    *out = (ot_kernel_table){ .what = updates ? "an update" : "a prediction" };
    OT_TRY(ot_trainer_settle(t, err));
    if (updates) OT_TRY(ot_session_plan(&t->x, OT_WANT_TRAIN, &t->train, t->batch, t->s.accumulate, &at, err));
    const ot_plan *p = t->x.slot[at].plan;
    subject x = { t, p, t->x.slot[at].exec, updates, updates ? t->s.accumulate : 1 };
    size_t n = (size_t)(p->n_batch_steps + p->n_update_steps) + 1;
    ot_timing m = { .spent = ot_arena_alloc(a, n * sizeof *m.spent) };
    if (!m.spent) return no_memory(err);
    OT_TRY(ot_ceilings_measure(&t->x, &out->ceilings, err));
    OT_TRY(time_kernels(&x, n, &m, out, err));
    if (t->x.device) OT_TRY(time_replay(&x, out, err));
    return make_rows(&x, &m, a, out, err);
}

/* ---- showing ------------------------------------------------------------------------------- */

static double share(const ot_kernel_row *r) { return r->seconds > 0 ? r->floor / r->seconds : 0; }

void ot_kernel_table_print(const ot_kernel_table *k, FILE *f)
{
    double rest = 0;
    fprintf(f, "\nkernels of %s, mean of %d: %.3f ms in kernels, floor %.3f ms", k->what, k->runs, k->kernels * 1e3,
            k->floor * 1e3);
    if (k->replay > 0) fprintf(f, ", %.3f ms as a graph", k->replay * 1e3);
    fprintf(f, "; ceilings: %.4g GFLOP/s, %.4g GB/s, in caches %.4g GB/s\n", k->ceilings.flops / 1e9,
            k->ceilings.bytes / 1e9, k->ceilings.cached / 1e9);
    fprintf(f, "%10s %10s %7s %6s %9s %9s  %s\n", "us", "above", "% of", "count", "GFLOP/s", "GB/s", "kernel");
    for (int i = 0; i < k->n; i++) {
        const ot_kernel_row *r = &k->row[i];
        double s = r->seconds;
        if (i >= SHOWN) rest += s;
        if (i >= SHOWN) continue;
        fprintf(f, "%10.2f %10.2f %7.1f %6d %9.4g %9.4g  %s %s %s, %s: %s%s%s\n", s * 1e6, (s - r->floor) * 1e6,
                100 * share(r), r->count, s > 0 ? r->flops / s / 1e9 : 0.0, s > 0 ? r->bytes / s / 1e9 : 0.0, r->kernel,
                r->op, r->stage, r->node, r->values, *r->how ? "; " : "", r->how);
    }
    if (k->n > SHOWN) fprintf(f, "%10.2f  %d more\n", rest * 1e6, k->n - SHOWN);
}

static json_t *json_row(const ot_kernel_row *r)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:i}", "operator", r->op, "kernel", r->kernel, "how", r->how,
                          "values", r->values, "node", ot_json_text(r->node), "stage", r->stage, "count", r->count);
    ot_json_real(&o, "flops", r->flops);
    ot_json_real(&o, "bytes", r->bytes);
    ot_json_real(&o, "us", r->seconds * 1e6);
    ot_json_real(&o, "floor_us", r->floor * 1e6);
    ot_json_real(&o, "share_of_ceiling", share(r));
    return o;
}

json_t *ot_kernel_table_json(const ot_kernel_table *k)
{
    json_t *o = json_pack("{s:i}", "runs", k->runs), *list = json_array();
    ot_json_real(&o, "kernels_ms", k->kernels * 1e3);
    ot_json_real(&o, "floor_ms", k->floor * 1e3);
    ot_json_real(&o, "eager_ms", k->eager * 1e3);
    ot_json_set(&o, "graph_ms", k->replay > 0 ? json_real(k->replay * 1e3) : json_null());
    ot_json_real(&o, "ceiling_flops_per_second", k->ceilings.flops);
    ot_json_real(&o, "ceiling_bytes_per_second", k->ceilings.bytes);
    ot_json_real(&o, "ceiling_cached_bytes_per_second", k->ceilings.cached);
    for (int i = 0; i < k->n; i++) ot_json_add(&list, json_row(&k->row[i]));
    ot_json_set(&o, "rows", list);
    return o;
}
