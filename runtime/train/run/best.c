/* best.c - the best epoch of a training, and early stopping. */

#include <math.h>
#include <string.h>

#include "runtime/train/options/metrics.h"
#include "runtime/train/run/trainer.h"

/* The metric by which epochs are compared: --monitor, else the accuracy if there is one, else the loss. */
static int metric_of(const ot_trainer *t)
{
    if (!t->has_val) return OT_METRIC_LOSS;
    if (t->s.monitor >= 0) return t->s.monitor;
    return isnan(t->eval.accuracy) ? OT_METRIC_LOSS : OT_METRIC_ACCURACY;
}

const char *ot_best_watched(const ot_trainer *t)
{
    if (!t->has_val) return "training loss";
    static const char *const name[] = {
#define X(id, name, better, meaning) "val " name,
        OT_METRICS(X)
#undef X
    };
    return t->s.monitor >= 0 ? t->s.watched : name[metric_of(t)];
}

const char *ot_best_monitor(const ot_trainer *t)
{
    if (!t->has_val) return NULL;
    return t->s.monitor >= 0 ? t->s.monitor_name : ot_metrics.entries[metric_of(t)]->name;
}

/* ---- the states of the best epoch -------------------------------------------------------- */

ot_status ot_best_room(ot_trainer *t, ot_error *err)
{
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    if (t->best.state) return OT_OK;
    void **state = ot_arena_alloc(t->a, (size_t)(p->n_states + 1) * sizeof *state);
    bool good = state != NULL;
    for (int i = 0; i < p->n_states && good; i++)
        good = (state[i] = ot_arena_alloc(t->a, ot_bytes(&p->states[i]->shape, p->states[i]->dtype) + 1)) != NULL;
    if (!good) return ot_fail(err, OT_E_NOMEM, "no memory for the weights of the best epoch (--select best)");
    t->best.state = state;
    return OT_OK;
}

static ot_status copy_states(ot_trainer *t, bool back, ot_error *err)
{
    const ot_slot *q = &t->x.slot[t->x.lead];
    for (int i = 0; i < q->plan->n_states; i++)
        OT_TRY(back ? ot_exec_write(q->exec, q->plan->states[i], t->best.state[i], err)
                    : ot_exec_read(q->exec, q->plan->states[i], t->best.state[i], err));
    return OT_OK;
}

ot_status ot_best_use(ot_trainer *t, ot_error *err)
{
    if (!t->best.state || isnan(t->result.best)) return OT_OK;
    OT_TRY(copy_states(t, true, err));
    t->best.used = true;
    if (t->eval.slot < 0) return OT_OK;
    t->result.loss = t->best.loss;
    t->result.accuracy = t->best.accuracy;
    if (t->result.metric) t->result.value = t->result.best;
    t->result.evaluated = t->step; /* they are those of the weights that are written */
    return OT_OK;
}

/* ---- epochs --------------------------------------------------------------------------------- */

/* Writes best.onnx; path NULL: there is no run folder. */
static ot_status write_best(ot_trainer *t, const char **path, ot_error *err)
{
    ot_error e = { 0 };
    *path = NULL;
    if (!ot_trainer_has_folder(t)) return OT_OK;
    *path = ot_arena_printf(t->a, "%s/best.onnx", t->folder.path);
    if (!*path) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    ot_status s = ot_trainer_save(t, &t->folder.fd, "best.onnx", false, NULL, &e);
    if (!s) return OT_OK;
    if (s != OT_E_IO && s != OT_E_NOMEM) return ot_fail(err, s, "%s/%-s", t->folder.path, e.text);
    ot_trainer_say(t, OT_WARNING, "%s/%-s; training continues", t->folder.path, e.text);
    ot_fail(&t->lost, s, "%s/%-s", t->folder.path, e.text);
    *path = NULL;
    return OT_OK;
}

bool ot_best_looks(const ot_trainer *t) { return t->eval.slot >= 0 || t->s.select_best || t->s.patience; }

/* The value of the metric by which epochs are compared, of this epoch; mean: its mean training loss. */
static double value_of(const ot_trainer *t, double mean)
{
    return t->has_val ? ot_measure_value(t, &t->eval, metric_of(t)) : mean;
}

/* By how much the metric is better now. */
static double gain_over(const ot_trainer *t, double before, double now)
{
    return ot_metric_rises(metric_of(t)) ? now - before : before - now;
}

/* Was the metric of the best epoch another one?  The run then continued with another set. */
static bool is_other(const ot_trainer *t)
{
    return t->result.best_metric && strcmp(t->result.best_metric, ot_best_watched(t));
}

bool ot_best_is(const ot_trainer *t, double mean)
{
    double now = value_of(t, mean), gain = gain_over(t, t->result.best, now);
    if (t->has_val && gain == 0 && t->eval.loss < t->best.loss) return true; /* a tie */
    return isfinite(now) && (isnan(t->result.best) || is_other(t) || gain > 0);
}

/* Whether the epoch, the best or not, improves as much as --patience expects. */
static bool improves(const ot_trainer *t, double now, bool best)
{
    if (t->s.min_delta <= 0) return best;
    return isfinite(now) &&
           (isnan(t->best.counted) || is_other(t) || gain_over(t, t->best.counted, now) >= t->s.min_delta);
}

ot_status ot_best_epoch(ot_trainer *t, double mean, ot_error *err)
{
    ot_result *r = &t->result;
    int metric = metric_of(t);
    double now = value_of(t, mean);
    if (t->has_val && t->s.monitor >= 0 && isnan(now) && metric != OT_METRIC_LOSS && isnan(r->best))
        return ot_fail(err, OT_E_USAGE, "--monitor %s: this training has no %s; use --monitor loss", t->s.monitor_name,
                       ot_metrics.entries[metric]->name);
    bool best = ot_best_is(t, mean), counts = improves(t, now, best);
    const char *path = NULL;
    if (best) OT_TRY(write_best(t, &path, err));
    t->best.stale = counts ? 0 : t->best.stale + 1;
    if (counts) t->best.counted = now;
    if (!best) return OT_OK;
    if (t->folder.path && !path) return OT_OK; /* the best of those that could be written stays the best */
    if (t->s.select_best) {
        OT_TRY(ot_best_room(t, err));
        OT_TRY(copy_states(t, false, err));
    }
    t->best.loss = t->eval.slot >= 0 ? t->eval.loss : mean;
    t->best.accuracy = t->eval.slot >= 0 ? t->eval.accuracy : (double)NAN;
    r->best = now;
    r->best_epoch = t->epoch + 1;
    r->best_path = path;
    r->best_metric = ot_best_watched(t);
    return OT_OK;
}

const char *ot_best_ends(const ot_trainer *t)
{
    if (t->s.patience && t->best.stale >= t->s.patience) return "early stop";
    return t->s.time_limit > 0 && ot_seconds() - t->best.began >= t->s.time_limit ? "time limit" : NULL;
}

void ot_best_say(const ot_trainer *t)
{
    const ot_result *r = &t->result;
    char best[200];
    if (isnan(r->best)) return;
    bool percent = strstr(r->best_metric, "accuracy");
    snprintf(best, sizeof best, percent ? "%s %.2f %%" : "%s %.5g", r->best_metric, (percent ? 100 : 1) * r->best);
    if (t->best.used)
        ot_trainer_say(t, OT_INFO, "the written model has the weights of epoch %lld, the best (%s)",
                       (long long)r->best_epoch, best);
    else if (r->epochs == r->best_epoch)
        ot_trainer_say(t, OT_INFO, "the written model has the last weights, of epoch %lld, the best (%s)",
                       (long long)r->best_epoch, best);
    else
        ot_trainer_say(t, OT_INFO,
                       "the written model has the last weights, of epoch %lld; the best was epoch %lld (%s); "
                       "--select best writes it",
                       (long long)r->epochs, (long long)r->best_epoch, best);
}
