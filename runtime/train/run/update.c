/* update.c - one update: its batches given, and what it came to.
 *
 * On a device updates are given ahead of what is known of them: a loss that is no number ends the run a few updates
 * later, with the number of the update that it belongs to, and the weights are then not written.  Updates that may be
 * skipped (--on-nonfinite skip, fp16) are skipped by the plan itself; here it is only said.  A batch of whose targets nothing
 * counts (ignore_index) is not given, and adds 0 to loss and gradient of its update; an update of such batches alone is not
 * given at all.  Where the next update waits for the loss of this one (the CPU, a plateau of the training's own loss, single
 * steps) each is taken before the next is given. */

#include <math.h>
#include <string.h>

#include "runtime/train/feed/draw.h"
#include "runtime/train/run/trainer.h"

/* fp16: a loss scale halved so often in a row is 0. */
enum { MOST_OVERFLOWS = 150 };

/* ---- samples ------------------------------------------------------------------------- */

/* Batches of update u of an epoch: first .. first + n. */
void ot_trainer_batches(const ot_trainer *t, int64_t u, int64_t *first, int *n)
{
    int64_t all = t->full + (t->rest > 0), left = all - u * t->s.accumulate;
    *first = u * t->s.accumulate;
    *n = (!t->s.shuffle && !t->s.overfit) || left > t->s.accumulate ? t->s.accumulate : (int)left;
}

int64_t ot_trainer_batch_size(const ot_trainer *t, int64_t k)
{
    if (t->by_steps) return t->steps.now->batch;
    return t->s.shuffle && k >= t->full ? t->rest : t->batch;
}

/* Samples of batch k of the epoch; k counts on over epochs where nothing is shuffled. */
static void fill_index(ot_trainer *t, int64_t k, int64_t size)
{
    int64_t n = t->train.samples;
    for (int64_t j = 0; j < size; j++) {
        int64_t at = k * t->batch + j;
        t->index[j] = t->s.shuffle ? ot_permutation_at(&t->order, at) : at % n;
    }
}

static int64_t batches_of_epoch(const ot_trainer *t) { return t->full + (t->rest > 0); }

/* The order of an epoch that may not have begun. */
static const ot_permutation *order_of(ot_trainer *t, int64_t epoch)
{
    if (t->s.overfit) epoch = 0;
    if (epoch == (t->s.overfit ? 0 : t->epoch)) return &t->order;
    if (epoch != t->ahead_epoch) ot_permutation_shuffle(&t->ahead_order, t->s.seed, (uint64_t)epoch);
    t->ahead_epoch = epoch;
    return &t->ahead_order;
}

/* ot_ahead of the training: batch `position`, counted over its epochs. */
static bool training_ahead(void *user, int64_t position, int64_t most, int64_t *index, int64_t *n, int64_t *given)
{
    ot_trainer *t = user;
    bool within = t->s.shuffle || t->s.overfit;
    int64_t all = batches_of_epoch(t), epoch = within ? position / all : 0, k = within ? position % all : position;
    int64_t samples = t->train.samples;
    if (within ? epoch >= t->epochs : position >= t->total * t->s.accumulate) return false;
    *n = ot_trainer_batch_size(t, k);
    if (*n > most) return false;
    const ot_permutation *order = t->s.shuffle ? order_of(t, epoch) : NULL;
    for (int64_t j = 0; j < *n; j++) {
        int64_t at = k * t->batch + j;
        index[j] = order ? ot_permutation_at(order, at) : at % samples;
    }
    *given = epoch * samples + k * t->batch;
    return true;
}

/* ot_ahead of an evaluation: batches of `most` samples in order, over and over. */
static bool evaluation_ahead(void *user, int64_t position, int64_t most, int64_t *index, int64_t *n, int64_t *given)
{
    const ot_feeders *fs = user;
    int64_t first = position % ((fs->samples + most - 1) / most) * most;
    *n = fs->samples - first < most ? fs->samples - first : most;
    for (int64_t j = 0; j < *n; j++) index[j] = first + j;
    *given = OT_NOT_AUGMENTED;
    return true;
}

static void say_bad(void *user, const char *why)
{
    ot_trainer *t = user;
    json_t *e = json_pack("{s:s, s:I}", "event", "bad_sample", "step", (json_int_t)t->step);
    ot_json_set(&e, "why", ot_json_text(why));
    ot_log_write(&t->log, e);
    t->bad_samples++;
    ot_trainer_say(t, OT_WARNING, "%s; %s", why, t->predicts ? "it is omitted" : "another sample is used instead");
}

void ot_trainer_look_ahead(ot_trainer *t)
{
    ot_feeders *fs[] = { &t->train, &t->eval.fs, &t->test.fs };
    t->ahead_epoch = -1;
    for (int i = 0; i < OT_LEN(fs); i++) {
        if (!fs[i]->n || !ot_feeders_load(fs[i])) continue;
        fs[i]->skip_bad = t->s.skip_bad;
        fs[i]->bad = say_bad;
        fs[i]->bad_user = t;
        fs[i]->again = fs[i] != &t->test.fs;
        if (i) fs[i]->ahead = (ot_ahead){ evaluation_ahead, fs[i] };
        else if (t->ahead_order.n) fs[i]->ahead = (ot_ahead){ training_ahead, t };
    }
}

/* ---- what it came to ------------------------------------------------------------------- */

static ot_status diverged(const ot_trainer *t, int64_t step, const char *what, double v, ot_error *err)
{
    const char *text = isnan(v) ? "NaN" : "infinite";
    if (t->by_steps) /* with a caller's tensors */
        return ot_fail(err, OT_E_DIVERGED,
                       "step %lld: the %s is %s: look for NaN, infinity and very large numbers in the tensors of this "
                       "step; if they have none, use a smaller learning rate ('lr') or 'clip-norm'",
                       (long long)step + 1, what, text);
    if (!step) /* no rate has done anything yet */
        return ot_fail(err, OT_E_DIVERGED,
                       "step 1: the %s is %s before the first update; -o was not written. The cause is in the data or "
                       "the graph: Log or division of 0, Softmax of a fully masked row, very large numbers; use "
                       "'onnxtrain run' to see the outputs for the same data",
                       what, text);
    return ot_fail(err, OT_E_DIVERGED, "step %lld: the %s is %s; -o was not written. Try a smaller --lr or --clip-norm",
                   (long long)step + 1, what, text);
}

/* The update is over: its counters, its line, and whether to go on. */
static ot_status finish(ot_trainer *t, ot_update_record *now, const ot_plan *p, ot_error *err)
{
    bool bad = !now->uncounted && p->grad_norm && !isfinite(now->norm);
    now->skipped = now->uncounted || (t->s.options.skip_nonfinite && (bad || !isfinite(now->loss)));
    t->overflows = bad ? t->overflows + 1 : 0;
    double at = ot_seconds();
    t->clock.seconds = at - t->clock.began;
    t->clock.busy += at - t->clock.last_step;
    t->clock.last_step = at;
    t->samples += now->samples;
    t->step = now->step + 1;
    t->result.steps = t->step;
    t->last_loss = now->loss;
    OT_TRY(t->done ? t->done(t, now, err) : OT_OK);
    if (!isfinite(now->loss) && !now->skipped) return diverged(t, now->step, "loss", now->loss, err);
    if (!bad || now->skipped || (p->loss_scale && t->overflows < MOST_OVERFLOWS)) return OT_OK;
    return diverged(t, now->step, "gradient norm", now->norm, err);
}

static void add_batch(ot_update_record *u, const ot_plan *p, const ot_numbers *n, int batches)
{
    u->loss += n->loss / batches;
    for (int k = 0; k < p->n_heads; k++) u->head[k] += n->head[k] / batches;
}

/* Takes the oldest run; the last of an update ends it. */
static ot_status take_run(ot_trainer *t, ot_error *err)
{
    int slot;
    ot_numbers n;
    ot_flight *f = &t->flights.list[t->flights.taken++ % OT_RUNS];
    OT_TRY(ot_session_collect(&t->x, &slot, &n, err));
    if (!f->batch) t->flights.update = f->update;
    add_batch(&t->flights.update, t->x.slot[slot].plan, &n, f->batches);
    t->flights.update.norm = n.grad_norm;
    return f->batch + 1 == f->counted ? finish(t, &t->flights.update, t->x.slot[slot].plan, err) : OT_OK;
}

ot_status ot_trainer_settle(ot_trainer *t, ot_error *err)
{
    while (ot_session_in_flight(&t->x)) OT_TRY(take_run(t, err));
    return OT_OK;
}

/* ---- giving ------------------------------------------------------------------------------ */

static ot_status give_batch(ot_trainer *t, int64_t k, int n, ot_run_kind kind, int *slot, ot_error *err)
{
    int64_t size = ot_trainer_batch_size(t, k);
    ot_feeders *fs = t->by_steps ? t->steps.now->fs : &t->train;
    OT_TRY(ot_session_plan(&t->x, OT_WANT_TRAIN, fs, size, n, slot, err));
    if (!t->by_steps) fill_index(t, k, size);
    bool within = t->s.shuffle || t->s.overfit; /* k counts batches of the epoch */
    t->x.samples = (within ? t->epoch * t->train.samples : 0) + k * t->batch;
    t->x.position = (within ? t->epoch * batches_of_epoch(t) : 0) + k;
    OT_TRY(ot_session_submit(&t->x, *slot, kind, t->by_steps ? t->steps.now->index : t->index, err));
    t->x.counter++;
    return OT_OK;
}

/* The first batch of an update has changed nothing yet and can be dropped; the others belong to what it began. */
static ot_status give_stoppable(ot_trainer *t, int64_t k, int n, bool first, int *slot, ot_error *err)
{
    t->x.stop = first && !t->by_steps ? &t->cancelled : NULL;
    ot_status s = give_batch(t, k, n, OT_RUN_BATCH, slot, err);
    t->x.stop = NULL;
    return s;
}

/* A target of which nothing counts in batch k; NULL: there is none. */
static const ot_feeder *uncounted_target(ot_trainer *t, int64_t k)
{
    if (t->by_steps) return NULL;
    int64_t size = ot_trainer_batch_size(t, k);
    fill_index(t, k, size);
    return ot_feeders_uncounted(&t->train, t->index, size);
}

/* How many of the update's batches count; *f: a target of which nothing counts in another one. */
static int count_batches(ot_trainer *t, int64_t first, int n, const ot_feeder **f)
{
    int counted = 0;
    for (int k = 0; k < n; k++) {
        const ot_feeder *none = uncounted_target(t, first + k);
        counted += !none;
        if (none) *f = none;
    }
    return counted;
}

/* The next batch that counts, from k on.  The random numbers of those before it are skipped. */
static int64_t skip_uncounted(ot_trainer *t, int64_t k)
{
    for (; uncounted_target(t, k); k++) t->x.counter++;
    return k;
}

/* Batch by batch: the update is made when the loss is known to be a number, or the plan will see to it.  One that the user
 * stopped in the middle of its first batch was never there. */
static ot_status one_by_one(ot_trainer *t, ot_update_record *now, int64_t first, int n, int counted, ot_error *err)
{
    int slot = -1;
    ot_numbers got = { 0 };
    const uint64_t counter = t->x.counter;
    int64_t at = first;
    for (int k = 0; k < counted; k++, at++) {
        at = skip_uncounted(t, at);
        OT_TRY(give_stoppable(t, at, n, !k, &slot, err));
        OT_TRY(ot_session_collect(&t->x, NULL, &got, err));
        if (t->x.stopped) {
            t->given--;
            t->x.counter = counter;
            return OT_OK;
        }
        add_batch(now, t->x.slot[slot].plan, &got, n);
    }
    t->x.counter = counter + (uint64_t)n;
    if (isfinite(now->loss) || t->s.options.skip_nonfinite) {
        OT_TRY(ot_session_submit(&t->x, slot, OT_RUN_UPDATE, NULL, err));
        OT_TRY(ot_session_collect(&t->x, NULL, &got, err));
        now->norm = got.grad_norm;
    }
    return finish(t, now, t->x.slot[slot].plan, err);
}

/* The mean of nothing is no number, and has no gradient: such an update is over as it begins. */
static ot_status leave_out(ot_trainer *t, ot_update_record *now, const ot_feeder *f, int n, ot_error *err)
{
    OT_TRY(ot_trainer_settle(t, err));
    now->uncounted = true;
    now->loss = now->norm = NAN;
    for (int k = 0; k < OT_HEADS; k++) now->head[k] = NAN;
    t->x.counter += (uint64_t)n;
    if (!t->uncounted++)
        ot_trainer_say(t, OT_WARNING,
                       "step %lld: all class numbers of target '%s' in a batch are %lld, which is "
                       "ignored: the loss is undefined, and this update is skipped, as are later ones "
                       "like it",
                       (long long)now->step + 1, f->src->t.name, (long long)f->ignored);
    return finish(t, now, NULL, err);
}

static void say_partly_counted(ot_trainer *t, const ot_update_record *now, const ot_feeder *f)
{
    if (t->partly_counted) return;
    t->partly_counted = true;
    ot_trainer_say(t, OT_WARNING,
                   "step %lld: all class numbers of target '%s' in one of its batches are %lld, which is ignored: the "
                   "batch adds 0 to loss and gradient of the update, as do later ones like it",
                   (long long)now->step + 1, f->src->t.name, (long long)f->ignored);
}

static ot_status ahead(ot_trainer *t, const ot_update_record *now, int64_t first, int n, int counted, ot_error *err)
{
    const uint64_t counter = t->x.counter;
    int64_t at = first;
    for (int k = 0; k < counted; k++, at++) {
        int slot;
        at = skip_uncounted(t, at);
        while (!ot_session_has_room(&t->x)) OT_TRY(take_run(t, err));
        t->flights.list[t->flights.given % OT_RUNS] =
            (ot_flight){ .update = *now, .batch = k, .batches = n, .counted = counted };
        OT_TRY(give_batch(t, at, n, k + 1 < counted ? OT_RUN_BATCH : OT_RUN_STEP, &slot, err));
        t->flights.given++;
    }
    t->x.counter = counter + (uint64_t)n;
    return OT_OK;
}

/* Without an evaluation a plateau watches the loss of the training. */
static bool watches_loss(const ot_trainer *t) { return t->eval.slot < 0 && !strcmp(t->s.schedule.name, "plateau"); }

bool ot_trainer_watches_epochs(const ot_trainer *t)
{
    return watches_loss(t) && ot_spec_is(&t->s.schedule, "per", "epoch");
}

/* The next update's rate waits for this one's loss. */
static bool rate_waits(const ot_trainer *t)
{
    return t->by_steps || (watches_loss(t) && !ot_trainer_watches_epochs(t));
}

ot_status ot_trainer_update(ot_trainer *t, int64_t u, ot_error *err)
{
    ot_update_record now = { .step = t->given, .epoch = t->epoch, .in_epoch = u };
    int64_t first = t->given * t->s.accumulate;
    int n = t->s.accumulate;
    if (t->s.shuffle || t->s.overfit) ot_trainer_batches(t, u, &first, &n);
    for (int k = 0; k < n; k++) now.samples += ot_trainer_batch_size(t, first + k);
    if (t->clock.began == 0)
        t->clock.began = ot_seconds() - t->clock.seconds; /* of a run that continues: as if it had not stopped */
    if (!ot_session_in_flight(&t->x)) t->clock.last_step = ot_seconds();
    ot_schedule_at(&t->schedule, t->given, &now.rate, &now.momentum);
    t->x.lr = now.rate;
    t->x.momentum = now.momentum;
    t->x.t = (double)++t->given;
    const ot_feeder *f = NULL;
    int counted = count_batches(t, first, n, &f);
    if (!counted) return leave_out(t, &now, f, n, err);
    if (counted < n) say_partly_counted(t, &now, f);
    if (!t->x.device) return one_by_one(t, &now, first, n, counted, err);
    OT_TRY(ahead(t, &now, first, n, counted, err));
    return rate_waits(t) ? ot_trainer_settle(t, err) : OT_OK;
}
