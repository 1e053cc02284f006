/* averages.c - --ema, --swa: replaces the trained weights by their averages, for an evaluation or a file.
 *
 * The averages are states of the plan (pass optimizer).  Their numbers are written over weights and statistics, whose bytes are
 * kept on the host meanwhile, so that every plan, the proof of a written file and the exporter see the averaged model. */
#include <stdlib.h>

#include "ops/op.h"
#include "runtime/train/run/trainer.h"

static const ot_plan *plan_of(const ot_trainer *t, const ot_session *x)
{
    return x->lead < 0 || !ot_averages(&t->s.options) ? NULL : x->slot[x->lead].plan;
}

static const ot_plan *lead_plan(const ot_trainer *t) { return plan_of(t, &t->x); }

ot_status ot_trainer_place_averages(ot_trainer *t, ot_error *err)
{
    const double from = t->s.swa;
    ot_plan_options *o = &t->s.options;
    if (!(from > 0)) return OT_OK;
    int64_t every = t->s.swa_updates ? 1 : t->updates, whole = t->s.swa_updates ? t->total : t->epochs;
    int64_t first = from < 1           ? (int64_t)(from * (double)whole)
                    : t->s.swa_updates ? ((int64_t)from - 1) * t->updates
                                       : (int64_t)from - 1;
    if (first >= whole)
        return ot_fail(err, OT_E_USAGE, "--swa %g: the run has %lld epoch%s; the average would never begin", from,
                       (long long)t->epochs, t->epochs == 1 ? "" : "s");
    o->swa_after = first * every;
    o->swa_every = every;
    o->swa_last = t->total;
    return OT_OK;
}

int64_t ot_trainer_average_bytes(const ot_trainer *t, const ot_session *x)
{
    const ot_plan *p = plan_of(t, x);
    int64_t bytes = 0;
    for (int i = 0; p && i < p->n_states; i++)
        if (p->states[i]->kind == OT_STATE_AVERAGE)
            bytes += (int64_t)ot_bytes(&p->states[i]->of->shape, p->states[i]->of->dtype);
    return bytes;
}

/* Saves the state that belongs to `average`, and overwrites it with the average. */
static ot_status replace(ot_trainer *t, const ot_value *average, void **kept, ot_error *err)
{
    ot_exec *e = t->x.slot[t->x.lead].exec;
    const ot_value *v = average->of;
    size_t n = ot_bytes(&average->shape, average->dtype), own = ot_bytes(&v->shape, v->dtype);
    void *bytes = malloc(n + 1);
    *kept = malloc(own + 1);
    ot_status s = bytes && *kept ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the average of '%s'", v->name);
    if (!s) s = ot_exec_read(e, v, *kept, err);
    if (!s) s = ot_exec_read(e, average, bytes, err);
    for (int64_t i = 0, m = ot_numel(&v->shape); !s && v->dtype != average->dtype && i < m; i++) /* to fewer bits */
        ot_set_f64(bytes, v->dtype, i, ot_get_f64(bytes, average->dtype, i));
    if (!s) s = ot_exec_write(e, v, bytes, err);
    free(bytes);
    if (!s) return OT_OK;
    free(*kept);
    *kept = NULL;
    return s;
}

ot_status ot_trainer_use_averages(ot_trainer *t, ot_error *err)
{
    const ot_plan *p = lead_plan(t);
    if (!p || t->plain) return OT_OK;
    t->plain = calloc((size_t)p->n_states + 1, sizeof *t->plain);
    ot_status s = t->plain ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for averages");
    for (int i = 0; i < p->n_states && !s; i++)
        if (p->states[i]->kind == OT_STATE_AVERAGE) s = replace(t, p->states[i], &t->plain[i], err);
    return s ? ot_trainer_put_back(t, s, err) : OT_OK;
}

ot_status ot_trainer_put_back(ot_trainer *t, ot_status so_far, ot_error *err)
{
    const ot_plan *p = lead_plan(t);
    ot_status s = OT_OK;
    ot_error e = { 0 };
    for (int i = 0; p && t->plain && i < p->n_states; i++) {
        if (t->plain[i] && !s) s = ot_exec_write(t->x.slot[t->x.lead].exec, p->states[i]->of, t->plain[i], &e);
        free(t->plain[i]);
    }
    free(t->plain);
    t->plain = NULL;
    return so_far ? so_far : s ? ot_fail(err, s, "%-s", e.text) : OT_OK;
}
