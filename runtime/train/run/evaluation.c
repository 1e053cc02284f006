/* evaluation.c - evaluates the model on a set: loss and accuracy, also of each output that has a loss. */

#include <math.h>
#include <stdio.h>

#include "runtime/train/run/detail.h"
#include "runtime/train/options/metrics.h"
#include "runtime/train/run/trainer.h"

/* Sums of an evaluation: a batch's mean loss times its weight (the number that it is a mean over).  single: by head. */
typedef struct tally {
    double loss, weight, correct, counted;
    double head[OT_HEADS], by[OT_HEADS], right[OT_HEADS], of[OT_HEADS];
    const ot_plan *single;
} tally;

/* The weight of a batch's mean loss. */
static double counts_by(double divisor, double otherwise) { return isnan(divisor) ? otherwise : divisor; }

static ot_status take_batch(ot_trainer *t, tally *y, ot_error *err)
{
    int slot;
    ot_numbers n;
    OT_TRY(ot_session_collect(&t->x, &slot, &n, err));
    const ot_slot *q = &t->x.slot[slot];
    double weight = (double)q->batch;
    if (q->plan->counted && q->plan->correct) {
        y->correct += n.correct;
        y->counted += n.counted;
        if (q->plan->n_losses < 2) weight = counts_by(n.divisor, n.counted);
    }
    for (int k = 0; k < q->plan->n_heads; k++)
        if (q->plan->head[k].right >= 0) y->right[k] += n.right[k], y->of[k] += n.of[k];
    for (int k = 0; k < q->plan->n_heads; k++) {
        double by = counts_by(n.divisors[k], weight);
        if (by != weight) y->single = q->plan;
        if (by > 0) y->head[k] += n.head[k] * by, y->by[k] += by;
    }
    if (q->plan->loss && weight > 0) y->loss += n.loss * weight, y->weight += weight;
    return OT_OK;
}

static ot_status evaluate_batch(ot_trainer *t, ot_scored *e, int slot, int64_t first, tally *y, ot_error *err)
{
    const ot_slot *q = &t->x.slot[slot];
    for (int64_t i = 0; i < q->batch; i++) t->index[i] = first + i;
    while (!ot_session_has_room(&t->x)) OT_TRY(take_batch(t, y, err));
    t->x.position = first / t->x.slot[e->slot].batch;
    OT_TRY(ot_session_submit(&t->x, slot, OT_RUN_BATCH, t->index, err));
    OT_TRY(ot_measure_batch(t, e, slot, err)); /* outputs are read before the next run writes them */
    return ot_detail_batch(t, e, slot, err);
}

void ot_trainer_report_evaluation(const ot_trainer *t, const ot_scored *e, int64_t batches, double began)
{
    int64_t batch = t->x.slot[e->slot].batch, of = e->fs.samples / batch + (e->rest >= 0);
    if (!t->cb.progress) return;
    double seconds = ot_seconds() - began;
    ot_progress p = { .step = batches,
                      .steps = of,
                      .epoch = t->epoch + 1,
                      .epochs = t->epochs,
                      .in_epoch = batches,
                      .of_epoch = of,
                      .loss = NAN,
                      .accuracy = NAN,
                      .seconds = seconds,
                      .evaluating = true,
                      .left = batches ? seconds / (double)batches * (double)(of - batches) : (double)NAN };
    if (seconds > 0) p.rate = (double)(batches * batch) / seconds;
    t->cb.progress(t->cb.user, &p);
}

static void take_scores(ot_scored *e, const tally *y)
{
    e->loss = y->weight > 0 ? y->loss / y->weight : (double)NAN;
    e->accuracy = y->counted > 0 ? y->correct / y->counted : (double)NAN;
    for (int k = 0; k < OT_HEADS; k++) {
        e->head[k] = y->by[k] > 0 ? y->head[k] / y->by[k] : (double)NAN;
        e->right[k] = y->of[k] > 0 ? y->right[k] / y->of[k] : (double)NAN;
    }
    if (!y->single || y->single->n_heads != y->single->n_losses) return;
    e->loss = 0;
    for (int k = 0; k < y->single->n_heads; k++) e->loss += y->single->head[k].weight * e->head[k];
}

static ot_status score(ot_trainer *t, ot_scored *e, ot_error *err)
{
    tally y = { 0 };
    int64_t n = e->fs.samples, batch = t->x.slot[e->slot].batch, done = 0;
    double began = ot_seconds();
    OT_TRY(ot_measure_open(t, e, err));
    OT_TRY(ot_detail_open(t, e, err));
    for (; done + batch <= n && !t->cancelled; done += batch) {
        ot_trainer_report_evaluation(t, e, done / batch, began);
        OT_TRY(evaluate_batch(t, e, e->slot, done, &y, err));
    }
    ot_trainer_report_evaluation(t, e, done / batch, began);
    if (done < n && e->rest >= 0 && !t->cancelled) OT_TRY(evaluate_batch(t, e, e->rest, done, &y, err));
    while (ot_session_in_flight(&t->x)) OT_TRY(take_batch(t, &y, err));
    take_scores(e, &y);
    return OT_OK;
}

ot_status ot_trainer_score(ot_trainer *t, ot_scored *e, ot_error *err)
{
    OT_TRY(ot_trainer_use_averages(t, err));
    return ot_trainer_put_back(t, score(t, e, err), err);
}

ot_status ot_trainer_evaluate(ot_trainer *t, double *loss, double *accuracy, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(t);
    if (loss) *loss = NAN;
    if (accuracy) *accuracy = NAN;
    if (t->eval.slot < 0) return ot_fail(err, OT_E_DATA, "no evaluation set; use --val or --test");
    OT_TRY(ot_trainer_score(t, &t->eval, err));
    if (loss) *loss = t->eval.loss;
    if (accuracy) *accuracy = t->eval.accuracy;
    return OT_OK;
}

/* ---- telling -------------------------------------------------------------------------- */

void ot_log_scores(json_t **event, const ot_trainer *t, const ot_scored *e)
{
    const ot_plan *p = t->x.slot[e->slot].plan;
    ot_measure_log(event, t, e);
    ot_json_real(event, ot_metrics.entries[OT_METRIC_LOSS]->name, e->loss);
    if (!isnan(e->accuracy)) ot_json_real(event, ot_metrics.entries[OT_METRIC_ACCURACY]->name, e->accuracy);
    if (!p->n_heads) return;
    json_t *losses = json_object(), *right = json_object();
    for (int k = 0; k < p->n_heads; k++) {
        char name[1000];
        double v = e->head[k], share = e->right[k];
        ot_json_set(&losses, ot_shown(p->head[k].name, name, sizeof name), ot_json_number(v));
        if (!isnan(share)) ot_json_set(&right, ot_shown(p->head[k].output, name, sizeof name), json_real(share));
    }
    ot_json_set(event, "losses", losses);
    if (!right || json_object_size(right)) ot_json_set(event, "accuracies", right);
    else json_decref(right);
}

const char *ot_trainer_accuracies(const ot_trainer *t, const ot_scored *e, char buf[600])
{
    const ot_plan *p = t->x.slot[e->slot].plan;
    double accuracy = e->accuracy;
    int n = 0;
    size_t at = 0;
    *buf = '\0';
    for (int k = 0; k < p->n_heads; k++) n += !isnan(e->right[k]);
    if (n < 2 && !isnan(accuracy)) snprintf(buf, 600, "accuracy %.2f %%", 100 * accuracy);
    for (int k = 0; k < p->n_heads && n > 1 && at < 500; k++)
        if (!isnan(e->right[k]))
            at += (size_t)snprintf(buf + at, 600 - at, "%s%.60s %.2f %%", at ? ", " : "accuracy ", p->head[k].output,
                                   100 * e->right[k]);
    return buf;
}
