/* queue.c - submits runs to a device, and collects their results in order.
 *
 * A run on a device is one copy to it (ot_inbox, index or batch; a large batch is sent while the previous run is executed), one
 * replay of the recorded graph, one copy back (fault, loss, norm).  The host waits only if the queue is full, and then for
 * the older half, while the device works on the other.  The number of runs of a half follows from their duration, so that
 * reports lag by a fifth of a second at most, and the device is not idle between short runs. */

#include <math.h>
#include <string.h>

#include "runtime/train/feed/loader.h"
#include "runtime/train/run/variants.h"

static const double lag = 0.1; /* seconds that a half of the queue may take */

static const ot_backend *backend(const ot_session *x) { return x->device->backend; }

/* ---- making ------------------------------------------------------------------------ */

static ot_status open_device_queue(ot_session *x, ot_error *err)
{
    ot_queue *q = &x->queue;
    int64_t most = (INT64_C(256) << 20) / (OT_OUTBOX + x->inbox_bytes);
    void *p;
    q->most = most > OT_RUNS ? OT_RUNS : most < 2 ? 2 : (int)most;
    q->span = 1;
    q->entry_bytes = (OT_OUTBOX + x->inbox_bytes + 255) / 256 * 256;
    OT_TRY(backend(x)->alloc_host(x->device, q->most * q->entry_bytes, &p, err));
    q->pinned = p;
    for (int i = 0; i < 2; i++) OT_TRY(backend(x)->event_new(x->device, &q->part[i].mark, err));
    return OT_OK;
}

ot_status ot_queue_open(ot_session *x, ot_error *err)
{
    x->queue.most = 1;
    return x->device ? open_device_queue(x, err) : OT_OK;
}

void ot_queue_close(ot_session *x)
{
    ot_queue *q = &x->queue;
    for (int i = 0; i < 2; i++)
        if (q->part[i].mark) backend(x)->event_free(x->device, q->part[i].mark);
    if (q->pinned) backend(x)->free_host(x->device, q->pinned);
    *q = (ot_queue){ 0 };
}

/* ---- submitting -------------------------------------------------------------------- */

bool ot_session_has_room(const ot_session *x)
{
    const ot_queue *q = &x->queue;
    return q->given - q->taken < q->most && q->parts < 2;
}

int64_t ot_session_in_flight(const ot_session *x) { return x->queue.given - x->queue.taken; }

static int64_t given_of(const ot_session *x, const ot_slot *s)
{
    return s->want == OT_WANT_TRAIN ? x->samples : OT_NOT_AUGMENTED;
}

/* Draws the batch; samples that cannot be read are replaced in index. */
static ot_status load(ot_session *x, const ot_slot *s, int64_t *index, ot_error *err)
{
    double began = ot_seconds();
    ot_status status = OT_OK;
    ot_loader *l = s->feeders->loader;
    if (l && index && s->batch <= ot_loader_most(l)) /* larger ones are drawn when they are taken */
        status = ot_loader_take(l, x->position, given_of(x, s), index, s->batch, err);
    if (s->want == OT_WANT_TRAIN) x->waited += ot_seconds() - began;
    return status;
}

/* Fills the inbox, whose layout lay_inbox() of session.c sets: ot_inbox, index, batches. */
static ot_status fill_inbox(const ot_session *x, const ot_slot *s, const int64_t *index, char *inbox, ot_error *err)
{
    int64_t given = given_of(x, s);
    ot_inbox head = { .lr = x->lr, .momentum = x->momentum, .t = x->t, .seed = x->seed, .counter = x->counter };
    memcpy(inbox, &head, sizeof head);
    if (!index) return OT_OK;
    if (s->plan->index) memcpy(inbox + sizeof head, index, (size_t)s->batch * sizeof *index);
    for (int i = 0; i < s->feeders->n; i++) {
        ot_feeder *f = &s->feeders->f[i];
        char *to = inbox + s->offset[i];
        if (s->supply->way[i] == OT_WAY_RAW) OT_TRY(ot_feeder_take_raw(f, index, s->batch, given, to, x->threads, err));
        if (s->supply->way[i] == OT_WAY_BATCH) OT_TRY(ot_feeder_take(f, index, s->batch, given, to, x->threads, err));
    }
    return OT_OK;
}

static ot_status run_kind(ot_exec *e, ot_run_kind kind, ot_error *err)
{
    return kind == OT_RUN_BATCH    ? ot_exec_batch(e, err)
           : kind == OT_RUN_UPDATE ? ot_exec_update(e, err)
                                   : ot_exec_step(e, err);
}

static ot_status give_host(ot_session *x, ot_slot *s, ot_run_kind kind, int64_t *index, ot_numbers *out, ot_error *err)
{
    OT_TRY(load(x, s, index, err));
    double began = ot_seconds();
    for (int i = 0; index && i < s->feeders->n; i++) {
        ot_feeder *f = &s->feeders->f[i];
        if (!f->whole) OT_TRY(ot_feeder_take(f, index, s->batch, given_of(x, s), f->buffer, x->threads, err));
    }
    if (s->want == OT_WANT_TRAIN) x->waited += ot_seconds() - began;
    if (kind != OT_RUN_UPDATE) OT_TRY(ot_variants_choose(x, s, err));
    if (!ot_memory_fits(x->room)) /* libraries would end the process */
        return ot_fail(err, OT_E_NOMEM,
                       "out of memory: a run needs up to %lld MiB for threads and libraries beside "
                       "the planned memory",
                       (long long)(x->room >> 20));
    ot_exec_stop(s->exec, x->stop);
    OT_TRY(run_kind(s->exec, kind, err));
    x->stopped = ot_exec_stopped(s->exec);
    *out = (ot_numbers){ .loss = NAN };
    return x->stopped ? OT_OK : ot_exec_numbers(s->exec, NULL, out, err);
}

static ot_status close_part(ot_session *x, ot_error *err)
{
    ot_queue *q = &x->queue;
    int i = (q->first + q->parts) % 2;
    OT_TRY(backend(x)->event_record(x->device, q->part[i].mark, err));
    q->part[i].end = q->closed = q->given;
    q->parts++;
    return OT_OK;
}

static ot_status give_device(ot_session *x, ot_slot *s, ot_run_kind kind, int64_t *index, char *entry, ot_error *err)
{
    ot_queue *q = &x->queue;
    int64_t bytes = kind == OT_RUN_UPDATE ? (int64_t)sizeof(ot_inbox) : s->inbox_bytes;
    if (!ot_session_in_flight(x)) q->when = ot_seconds();
    int64_t *samples = kind == OT_RUN_UPDATE ? NULL : index;
    OT_TRY(load(x, s, samples, err));
    OT_TRY(fill_inbox(x, s, samples, entry + OT_OUTBOX, err));
    void *inbox = ot_memory_room(x->memory), *ahead = ot_session_ahead(x, bytes);
    OT_TRY(ahead ? backend(x)->upload_ahead(x->device, inbox, ahead, entry + OT_OUTBOX, bytes, err)
                 : backend(x)->upload(x->device, inbox, entry + OT_OUTBOX, bytes, err));
    OT_TRY(run_kind(s->exec, kind, err));
    return ot_exec_report(s->exec, entry, err);
}

ot_status ot_session_submit(ot_session *x, int slot, ot_run_kind kind, int64_t *index, ot_error *err)
{
    ot_queue *q = &x->queue;
    ot_slot *s = &x->slot[slot];
    int e = (int)(q->given % q->most);
    if (!ot_session_has_room(x)) return ot_fail(err, OT_E_INTERNAL, "internal error: the queue is full");
    q->slot[e] = slot;
    if (index && kind != OT_RUN_UPDATE) OT_TRY(ot_feeders_check(s->feeders, index, s->batch, err));
    if (!x->device) {
        OT_TRY(give_host(x, s, kind, index, &q->numbers[e], err));
        q->given++;
        return OT_OK;
    }
    OT_TRY(give_device(x, s, kind, index, q->pinned + e * q->entry_bytes, err));
    q->given++;
    return q->given - q->closed >= q->span ? close_part(x, err) : OT_OK;
}

/* ---- taking ------------------------------------------------------------------------ */

static ot_status wait_part(ot_session *x, ot_error *err)
{
    ot_queue *q = &x->queue;
    if (!q->parts) OT_TRY(close_part(x, err));
    OT_TRY(backend(x)->event_wait(x->device, q->part[q->first].mark, err));
    double now = ot_seconds(), each = (now - q->when) / (double)(q->part[q->first].end - q->arrived);
    double span = each > 0 ? lag / each : q->most;
    q->when = now;
    q->arrived = q->part[q->first].end;
    q->first ^= 1;
    q->parts--;
    q->span = span > q->most / 2 ? q->most / 2 : span < 1 ? 1 : (int)span;
    return OT_OK;
}

ot_status ot_session_collect(ot_session *x, int *slot, ot_numbers *out, ot_error *err)
{
    ot_queue *q = &x->queue;
    int e = (int)(q->taken % q->most);
    if (!ot_session_in_flight(x)) return ot_fail(err, OT_E_INTERNAL, "internal error: no run in flight");
    if (x->device && q->taken == q->arrived) OT_TRY(wait_part(x, err));
    if (slot) *slot = q->slot[e];
    q->taken++;
    if (x->device) return ot_exec_numbers(x->slot[q->slot[e]].exec, q->pinned + e * q->entry_bytes, out, err);
    *out = q->numbers[e];
    return OT_OK;
}

ot_status ot_session_batch(ot_session *x, int slot, int64_t *index, ot_numbers *out, ot_error *err)
{
    OT_TRY(ot_session_submit(x, slot, OT_RUN_BATCH, index, err));
    return ot_session_collect(x, NULL, out, err);
}
