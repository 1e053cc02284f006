/* together.c - tests a changed fixed batch size: computes two batches of the file's size together and separately.
 *
 * The rules of ot_op.batch adapt every operator to more than one batch of the file's size.  This file compares the outputs of
 * finished plans, in inference mode, on generated inputs, on the CPU.  If the outputs differ, the rules are not used:
 * every operator runs once for each of the file's batches (ot_settings.apart), and a finding says so.
 *
 * Numerics  Batches of another size are summed in another order.  A difference of more than a thousandth of the largest output
 *           is not rounding. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"
#include "runtime/train/run/dry_run.h"
#include "runtime/train/run/trainer.h"

static const double rounding = 1e-3;

/* One plan, and its run. */
typedef struct side {
    ot_plan *plan;
    ot_exec *exec;
} side;

typedef struct trial {
    const ot_model *m;
    ot_settings s;
    ot_arena *a;
    int n;
    const ot_feed *one, *two; /* inputs of one batch of the file, and of two */
    void **bytes;             /* of two; of what is the same for both: once */
    side apart, together;
    ot_memory *memory;
    double most; /* multiplications that are worth the answer; 0: any number */
    bool too_long;
    double off;         /* the largest difference as part of the largest answer */
    const char *output; /* where that is */
} trial;

/* Generates values that every input accepts: floats between -1 and 1; integers, which may be rows of a table, 0 or 1. */
static void fill(void *p, ot_dtype t, int64_t n, uint64_t *seed)
{
    for (int64_t i = 0; i < n; i++) {
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double u = (double)(*seed >> 11) * 0x1p-53;
        ot_set_f64(p, t, i, ot_is_float(t) ? 2 * u - 1 : u < 0.5);
    }
}

static ot_status plan(trial *x, const ot_feed *feeds, const ot_plan *like, ot_plan **out, ot_error *err)
{
    ot_config c = ot_session_config(&x->s, OT_WANT_RUN, ot_session_threads(&x->s));
    c.feeds = feeds;
    c.n_feeds = x->n;
    c.options.eval_mode = true;
    c.options.precision = OT_FP32;
    c.partial = true;
    return ot_plan_new(x->m->file->graph, &c, like, out, err);
}

/* Would the test take long?  Each batch is computed twice. */
static bool takes_long(const trial *x)
{
    const ot_plan *p = x->together.plan;
    enum { MOST_BYTES = 1 << 28 }; /* moving more of them takes as long */
    double work = 0;
    for (int i = 0; i < p->n_batch_steps && x->most > 0; i++) work += 2 * (double)ot_node_work(p->batch_steps[i].node);
    return x->most > 0 && (work > x->most || p->scratch_bytes > MOST_BYTES);
}

static ot_status make(trial *x, ot_error *err)
{
    uint64_t seed = 1;
    x->bytes = ot_arena_alloc(x->a, sizeof *x->bytes * (size_t)(x->n + 1));
    if (!x->bytes) return ot_fail(err, OT_E_NOMEM, "no memory to test a batch");
    OT_TRY(plan(x, x->one, NULL, &x->apart.plan, err));
    OT_TRY(plan(x, x->two, x->apart.plan, &x->together.plan, err));
    x->too_long = takes_long(x);
    if (x->too_long) return ot_fail(err, OT_E_NOMEM, "no time to test a batch");
    const ot_plan *both[] = { x->apart.plan, x->together.plan };
    if (both[0]->state_bytes + both[1]->scratch_bytes > ot_memory_available() / 2)
        return ot_fail(err, OT_E_NOMEM, "no memory to test a batch");
    OT_TRY(ot_memory_new(both, 2, 0, NULL, &x->memory, err));
    OT_TRY(ot_exec_new(both[0], x->memory, &x->apart.exec, err));
    OT_TRY(ot_exec_new(both[1], x->memory, &x->together.exec, err));
    for (int i = 0; i < x->n; i++) {
        x->bytes[i] = ot_arena_alloc(x->a, ot_bytes(&x->two[i].shape, x->two[i].dtype) + 1);
        if (!x->bytes[i]) return ot_fail(err, OT_E_NOMEM, "no memory to test a batch");
        fill(x->bytes[i], x->two[i].dtype, ot_numel(&x->two[i].shape), &seed);
    }
    return OT_OK;
}

static ot_status run(trial *x, side *s, int half, ot_error *err)
{
    ot_numbers ignored;
    for (int i = 0; i < x->n; i++) {
        bool cut = !ot_shape_eq(&x->one[i].shape, &x->two[i].shape);
        if (s->plan->fed[i])
            ot_exec_feed(s->exec, s->plan->fed[i],
                         (char *)x->bytes[i] + (cut ? half * (int64_t)ot_bytes(&x->one[i].shape, x->one[i].dtype) : 0));
    }
    OT_TRY(ot_exec_batch(s->exec, err));
    return ot_exec_numbers(s->exec, NULL, &ignored, err);
}

/* Output k of both: of `half` apart, which is that half of the batch's axis together. */
static ot_status read_output(trial *x, side *s, int k, double **out, ot_error *err)
{
    const ot_value *v = s->plan->graph->outputs[k];
    int64_t n = ot_numel(&v->shape);
    void *bytes = ot_arena_alloc(x->a, ot_bytes(&v->shape, v->dtype) + 1);
    *out = ot_arena_alloc(x->a, (size_t)(n + 1) * sizeof **out);
    if (!bytes || !*out) return ot_fail(err, OT_E_NOMEM, "no memory to test a batch");
    OT_TRY(ot_exec_read(s->exec, v, bytes, err));
    for (int64_t i = 0; i < n; i++) (*out)[i] = ot_get_f64(bytes, v->dtype, i);
    return OT_OK;
}

/* The index, in the output for both halves, of element i of the output for one half.  axis -1: the output has no batch axis. */
static int64_t place(const ot_shape *one, int axis, int half, int64_t i)
{
    int64_t after = 1;
    if (axis < 0) return i;
    for (int d = axis; d < one->rank; d++) after *= one->dim[d];
    return i / after * 2 * after + half * after + i % after;
}

static void compare(trial *x, int k, int half, const double *one, const double *both)
{
    const ot_value *v = x->apart.plan->graph->outputs[k], *w = x->together.plan->graph->outputs[k];
    int64_t n = ot_numel(&v->shape);
    double off = 0, most = 1e-6;
    int axis = v->shape.rank || ot_numel(&w->shape) == n ? -1 : 0;
    for (int d = v->shape.rank - 1; d >= 0; d--)
        if (w->shape.dim[d] != v->shape.dim[d]) axis = d;
    for (int64_t i = 0; i < n; i++) {
        double a = one[i], b = both[place(&v->shape, axis, half, i)];
        if (isnan(a) && isnan(b)) continue;
        if (isfinite(a)) most = fmax(most, fabs(a));
        if (a != b) off = isfinite(a - b) ? fmax(off, fabs(a - b)) : (double)INFINITY;
    }
    if (off / most <= x->off) return;
    x->off = off / most;
    x->output = v->name;
}

static ot_status answer(trial *x, ot_error *err)
{
    const ot_graph *g = x->apart.plan->graph;
    double **both = ot_arena_alloc(x->a, (size_t)(g->n_outputs + 1) * sizeof *both), *one;
    if (!both) return ot_fail(err, OT_E_NOMEM, "no memory to test a batch");
    OT_TRY(run(x, &x->together, 0, err));
    for (int k = 0; k < g->n_outputs; k++)
        if (ot_is_float(g->outputs[k]->dtype)) OT_TRY(read_output(x, &x->together, k, &both[k], err));
    for (int half = 0; half < 2; half++) {
        OT_TRY(run(x, &x->apart, half, err));
        for (int k = 0; k < g->n_outputs; k++) {
            if (!ot_is_float(g->outputs[k]->dtype))
                continue; /* a number of a class turns with the last bit of what it follows */
            OT_TRY(read_output(x, &x->apart, k, &one, err));
            compare(x, k, half, one, both[k]);
        }
    }
    return OT_OK;
}

static void drop(trial *x)
{
    ot_exec_free(x->together.exec);
    ot_exec_free(x->apart.exec);
    ot_memory_free(x->memory);
    ot_plan_free(x->together.plan);
    ot_plan_free(x->apart.plan);
    if (x->a) ot_arena_free(x->a);
}

/* Is there an answer to compare?  What is drawn is another number each time. */
static bool askable(const ot_graph *g, const trial *x)
{
    for (const ot_node *n = g->first; n; n = n->next)
        if (n->op->flags & OT_RANDOM && !(n->op->flags & OT_IN_TRAINING)) return false;
    for (int i = 0; i < x->n; i++)
        if (x->one[i].dtype == OT_STRING || !ot_dtype_bits(x->one[i].dtype)) return false;
    return true;
}

/* Runs the test and adds its result to the findings.  larger: the batch in use is larger than the file's. */
static void try_together(const ot_model *m, ot_settings *s, const ot_feed *one, const ot_feed *two, int n, double most,
                         bool larger, ot_findings *out)
{
    trial x = { .m = m, .s = *s, .a = ot_arena_new(), .n = n, .one = one, .two = two, .most = most };
    ot_error e = { 0 };
    if (x.a && askable(m->file->graph, &x) && make(&x, &e) == OT_OK && answer(&x, &e) == OT_OK) {
        bool same = x.off <= rounding;
        if (same && larger)
            ot_find(out, OT_FINDING_NOTE, NULL, NULL,
                    "the larger batch gives the same outputs as batches of the file's size (largest difference %.2g)",
                    x.off);
        else if (!same)
            ot_find(out, OT_FINDING_WARNING, NULL, "training is faster with the batch size of the file",
                    "output '%s' differs by %.2g of its largest value in a batch larger than the file's: every "
                    "operator now runs once per batch of the file's size, which is correct but slow",
                    x.output, x.off);
        s->options.apart = !same;
        if (!s->data) ot_find_all(out, &x.together.plan->findings); /* there is no larger plan that says it */
    } else if (e.status == OT_E_NOMEM) {
        ot_find(out, OT_FINDING_NOTE, NULL, NULL,
                "the larger batch was not compared with batches of the file's size: %s",
                x.too_long ? "it would take more than a few seconds" : "not enough memory");
    } /* a file that does not go is reported where it is planned */
    drop(&x);
}

void ot_trainer_try_together(ot_trainer *t, const ot_feeders *fs)
{
    ot_feed *one = ot_arena_alloc(t->a, sizeof *one * (size_t)(fs->n + 1)),
            *two = ot_arena_alloc(t->a, sizeof *two * (size_t)(fs->n + 1));
    int64_t from = ot_feeders_baked(fs, t->m->file->graph);
    int n = 0;
    if (!one || !two || !from || from == t->batch) return;
    ot_feeders_feeds(fs, from, one);
    ot_feeders_feeds(fs, 2 * from, two);
    for (int i = 0; i < fs->n; i++) {
        if (one[i].target) continue;
        one[n] = one[i];
        two[n++] = two[i];
    }
    try_together(t->m, &t->s, one, two, n, 0, t->batch > from, &t->findings); /* less than a step */
}

ot_status ot_dry_run_together(const ot_model *m, ot_settings *s, ot_arena *a, ot_findings *out, ot_error *err)
{
    ot_feed *one, *two;
    const ot_graph *g = m->file->graph;
    int n;
    int64_t from = 0;
    OT_TRY(ot_dry_run_inputs(m, s, 1, a, &one, &n, err));
    two = ot_arena_copy(a, one, sizeof *two * (size_t)(n + 1));
    if (!two) return ot_fail(err, OT_E_NOMEM, "no memory to test a batch");
    for (int i = 0; i < n; i++)
        for (int k = 0; k < g->n_inputs; k++)
            if (!strcmp(g->inputs[k]->name, one[i].name) && g->inputs[k]->shape.rank > 0 &&
                g->inputs[k]->shape.dim[0] > 0 && (!from || from == one[i].shape.dim[0])) {
                from = one[i].shape.dim[0];
                two[i].shape.dim[0] = 2 * from;
            }
    if (from) try_together(m, s, one, two, n, 1e11, true, out); /* a few seconds */
    return OT_OK;
}
