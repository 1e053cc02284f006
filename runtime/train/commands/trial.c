/* trial.c - what `check` finds out by doing: memory at batch sizes, what is slow, a step and an export.
 *
 * With data the step takes the first samples; without, numbers of its own.  The export goes to a file without a name in
 * $TMPDIR, is read back, and is gone. */
#include "runtime/train/commands/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/kernel.h"
#include "runtime/optimizers/optimizers.h"
#include "runtime/train/run/unfold.h"

static const double most_work = 1e11;               /* multiplications: a few seconds */
static const int64_t most_moved = INT64_C(1) << 30; /* bytes of values in a step */
static const int64_t most_bytes = INT64_C(1) << 28; /* of a file that is written to be thrown away */

/* ---- memory -------------------------------------------------------------------------- */

int64_t ot_tried_bytes(const ot_trainer *t, const ot_plan *p)
{
    return p->state_bytes + p->scratch_bytes + p->const_bytes + t->m->bytes + (t->taught_by ? t->taught_by->bytes : 0);
}

static ot_status plan_at(ot_trainer *t, bool with_data, int64_t batch, ot_plan **out, ot_error *err)
{
    ot_dry_run r;
    ot_settings s = t->s;
    if (!with_data) {
        s.batch = batch;
        s.memory_limit = 0;
        OT_TRY(ot_dry_run_plan(t->m, &s, t->x.device, t->a, &r, err));
        *out = r.plan;
        return r.batch == batch ? OT_OK : ot_fail(err, OT_E_MODEL, "the model needs its own batch size");
    }
    ot_config c = ot_session_config(&t->s, OT_WANT_TRAIN, t->x.threads);
    ot_feed *feeds = ot_arena_alloc(t->a, sizeof *feeds * (size_t)(t->train.n + 1));
    if (!feeds) return ot_fail(err, OT_E_NOMEM, "no memory to plan");
    ot_feeders_feeds(&t->train, batch, feeds);
    c.feeds = feeds;
    c.n_feeds = t->train.n;
    c.device = t->x.device;
    c.accumulate = t->s.accumulate;
    return ot_plan_new(t->m->file->graph, &c, NULL, out, err);
}

/* A batch of one, the training's, four of the training's: those that can be planned. */
static void measure(ot_trainer *t, bool with_data, int64_t batch, const ot_plan *planned, ot_tried *out)
{
    int64_t size[OT_TRIED_SIZES] = { 1, batch, 4 * batch };
    for (int i = batch == 1; i < OT_TRIED_SIZES; i++) {
        ot_plan *p = NULL;
        ot_error none = { 0 };
        bool there = size[i] == batch || plan_at(t, with_data, size[i], &p, &none) == OT_OK;
        if (!there && none.status == OT_E_NOMEM) { /* what is short for a moment and what is too large say the same */
            none = (ot_error){ 0 };
            there = plan_at(t, with_data, size[i], &p, &none) == OT_OK;
        }
        if (there) {
            out->memory[out->n_memory].batch = size[i];
            out->memory[out->n_memory++].bytes = ot_tried_bytes(t, p ? p : planned);
        }
        ot_plan_free(p);
    }
}

/* ---- speed ----------------------------------------------------------------------------- */

static double work_of(const ot_plan *p, const ot_op *op)
{
    double work = 0;
    for (int i = 0; i < p->n_batch_steps; i++) {
        const ot_step *s = &p->batch_steps[i];
        bool ref = s->kernel && !strcmp(s->kernel->name, "ref");
        if (s->node->op->flags & OT_ALIAS) continue; /* the same bytes under another shape */
        if (!op || (ref && s->node->op == op)) work += (double)ot_node_work(s->node);
    }
    return work;
}

static ot_status find_slow(ot_trainer *t, const ot_plan *p, ot_tried *out, ot_error *err)
{
    enum { NAMED = 3 };
    double all = work_of(p, NULL), slow = 0;
    for (int i = 0; ot_op_at(i); i++) slow += work_of(p, ot_op_at(i));
    out->slow_ops = "";
    out->slow = all > 0 ? (int)(100 * slow / all) : 0;
    double below = INFINITY;
    for (int k = 0; k < NAMED && out->slow; k++) {
        const ot_op *most = NULL;
        for (int i = 0; ot_op_at(i); i++) {
            double w = work_of(p, ot_op_at(i));
            if (w > 0 && w < below && (!most || w > work_of(p, most))) most = ot_op_at(i);
        }
        if (!most || work_of(p, most) < all / 20) break;
        below = work_of(p, most);
        const char *text = ot_arena_printf(t->a, "%s%s%s", out->slow_ops, k ? ", " : "", most->name);
        if (!text) return ot_fail(err, OT_E_NOMEM, "no memory for the names of operators");
        out->slow_ops = text;
    }
    return OT_OK;
}

/* ---- a step ------------------------------------------------------------------------------ */

static ot_status step_with_data(ot_trainer *t, ot_tried *out, ot_error *err)
{
    OT_TRY(ot_session_allocate(&t->x, err));
    t->order.shuffled = false;
    OT_TRY(ot_trainer_update(t, 0, err));
    OT_TRY(ot_trainer_settle(t, err));
    out->loss = t->last_loss;
    return OT_OK;
}

static bool askable(const ot_dry_run *r)
{
    for (int i = 0; i < r->n_feeds; i++)
        if (r->feeds[i].dtype == OT_STRING || ot_dtype_bits(r->feeds[i].dtype) < 8) return false;
    return true;
}

/* The knobs as a training's first update has them. */
static void feed_knobs(ot_session *x, ot_exec *e, const ot_step_scalars *k)
{
    double momentum = 0;
    ot_optimizer_defaults(&x->s->options.optimizer, &x->lr, &momentum);
    x->momentum = momentum;
    x->t = 1;
    if (k->lr) ot_exec_feed(e, k->lr, &x->lr);
    if (k->momentum) ot_exec_feed(e, k->momentum, &x->momentum);
    if (k->t) ot_exec_feed(e, k->t, &x->t);
    if (k->seed) ot_exec_feed(e, k->seed, &x->seed);
    if (k->counter) ot_exec_feed(e, k->counter, &x->counter);
}

static ot_status step_alone(ot_trainer *t, const ot_dry_run *r, ot_exec *e, ot_tried *out, ot_error *err)
{
    ot_numbers numbers;
    for (int i = 0; i < r->n_feeds; i++) {
        const ot_feed *f = &r->feeds[i];
        void *p = r->plan->fed[i] ? ot_arena_alloc(t->a, ot_bytes(&f->shape, f->dtype) + 64) : NULL;
        if (!r->plan->fed[i]) continue;
        if (!p) return ot_fail(err, OT_E_NOMEM, "no memory for a batch");
        ot_dry_run_fill(p, f->dtype, ot_numel(&f->shape), 1);
        ot_exec_feed(e, r->plan->fed[i], p);
    }
    feed_knobs(&t->x, e, &r->plan->knobs);
    OT_TRY(ot_exec_batch(e, err));
    OT_TRY(ot_exec_update(e, err));
    OT_TRY(ot_exec_numbers(e, NULL, &numbers, err));
    out->loss = numbers.loss;
    return OT_OK;
}

/* ---- an export ------------------------------------------------------------------------------ */

static const char *folder(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/tmp";
}

static const char *nowhere(ot_trainer *t) { return ot_arena_printf(t->a, "%s/onnxtrain-check.onnx", folder()); }

static bool writes(const ot_trainer *t) { return t->m->bytes <= most_bytes && !access(folder(), W_OK | X_OK); }

/* The tensors of a plan of its own, as ot_trainer_save takes them from the session's. */
static ot_status export_alone(ot_trainer *t, const ot_plan *p, ot_exec *e, ot_error *err)
{
    ot_export_options o = { .dry = true };
    ot_export_tensor *list = ot_arena_alloc(t->a, sizeof *list * (size_t)(p->n_states + 1 + ot_trainer_unfolded(t)));
    const char *path = nowhere(t);
    int n = 0;
    if (!list || !path) return ot_fail(err, OT_E_NOMEM, "no memory to write the model");
    for (int i = 0; i < p->n_states; i++) {
        const ot_value *v = p->states[i];
        if (v->source < 0) continue;
        void *bytes = ot_arena_alloc(t->a, ot_bytes(&v->shape, v->dtype) + 1);
        if (!bytes) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", v->name);
        OT_TRY(ot_exec_read(e, v, bytes, err));
        list[n++] = (ot_export_tensor){ .source = v->source, .bytes = bytes };
    }
    OT_TRY(ot_trainer_fold(t, t->a, list, &n, err));
    return ot_export(t->loaded->file, path, n, list, &o, err);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static ot_status do_alone(ot_trainer *t, const ot_dry_run *r, ot_tried *out, ot_error *err)
{
    ot_exec *e = NULL;
    ot_status s = ot_exec_new(r->plan, NULL, &e, err);
    if (!s) s = step_alone(t, r, e, out, err);
    out->step = !s;
    if (!s && isfinite(out->loss) && writes(t)) {
        s = export_alone(t, r->plan, e, err);
        out->exported = !s;
    }
    ot_exec_free(e);
    return s;
}

static ot_status do_with_data(ot_trainer *t, ot_tried *out, ot_error *err)
{
    const char *path = nowhere(t);
    if (!path) return ot_fail(err, OT_E_NOMEM, "no memory to write the model");
    OT_TRY(step_with_data(t, out, err));
    out->step = true;
    if (!writes(t)) return OT_OK;
    t->dry = true;
    ot_status s = ot_trainer_save(t, NULL, path, true, NULL, err);
    t->dry = false;
    out->exported = !s;
    return s;
}

ot_status ot_try(ot_trainer *t, const ot_dry_run *r, ot_tried *out, ot_error *err)
{
    const ot_plan *p = r ? r->plan : t->x.slot[t->x.lead].plan;
    double work = 0;
    *out = (ot_tried){ .why_not = "", .slow_ops = "" };
    measure(t, !r, r ? r->batch : t->batch, p, out);
    OT_TRY(find_slow(t, p, out, err));
    for (int i = 0; i < p->n_batch_steps; i++) work += (double)ot_node_work(p->batch_steps[i].node);
    if (work * t->s.accumulate > most_work || p->scratch_bytes > most_moved)
        out->why_not = "a step would take more than a few "
                       "seconds";
    else if (2 * ot_tried_bytes(t, p) > ot_memory_available()) out->why_not = "not enough memory";
    else if (r && !askable(r)) out->why_not = "inputs of this type need --data";
    else if (r && t->x.device) out->why_not = "a test on a GPU needs --data";
    if (*out->why_not) return OT_OK;
    OT_TRY(r ? do_alone(t, r, out, err) : do_with_data(t, out, err));
    if (!out->exported)
        out->why_not = !isfinite(out->loss)       ? "the loss on random inputs is not finite; the export was not tested"
                       : t->m->bytes > most_bytes ? "the file is large; the export was not tested"
                                                  : "$TMPDIR or /tmp is not writable";
    return OT_OK;
}
