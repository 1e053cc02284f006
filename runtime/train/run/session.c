/* session.c - a few plans over one set of weights, their memory, and batches fed to them. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/train/feed/loader.h"
#include "runtime/train/options/cpus.h"
#include "runtime/train/run/device.h"
#include "runtime/train/run/session.h"
#include "runtime/train/run/variants.h"

ot_config ot_session_config(const ot_settings *s, ot_want want, int threads)
{
    return (ot_config){
        .want = want, .options = s->options, .accumulate = 1, .threads = threads, .saves_memory = !s->memory_limit
    };
}

int ot_session_threads(const ot_settings *s) { return s->threads > 0 ? s->threads : ot_cpus_read().threads; }

ot_status ot_session_open(ot_session *x, const ot_model *m, const ot_settings *s, const ot_session *beside,
                          ot_error *err)
{
    *x = (ot_session){
        .model = m, .s = s, .seed = s->seed, .lead = -1, .device_line = "", .borrows_device = beside != NULL
    };
    x->threads = ot_session_threads(s);
    x->a = ot_arena_new();
    if (!x->a) return ot_fail(err, OT_E_NOMEM, "no memory for plans");
    if (beside) x->device = beside->device, x->made = beside->made;
    else {
        ot_status r = ot_device_open(s, x->a, &x->device, &x->device_line, err);
        if (r) ot_session_close(x);
        if (r) return r;
    }
    if (!x->device || beside) return OT_OK;
    ot_device_info i;
    x->device->backend->info(x->device, &i);
    x->sets_limit = i.free / 8;
    return OT_OK;
}

void ot_session_close(ot_session *x)
{
    for (int i = 0; i < x->n_supplies; i++) {
        if (!x->supply[i].loads) continue;
        ot_loader_free(x->supply[i].feeders->loader);
        x->supply[i].feeders->loader = NULL;
    }
    ot_queue_close(x);
    ot_session_unbind(x);
    for (int i = x->n - 1; i >= 0; i--) ot_variants_free(&x->slot[i]);
    if (x->device && !x->borrows_device) x->device->backend->close(x->device);
    if (x->a) ot_arena_free(x->a);
    *x = (ot_session){ .lead = -1, .device_line = "", .samples = OT_NOT_AUGMENTED };
}

/* ---- how arrays reach the plans --------------------------------------------------- */

/* On a device, bytes are sent as bytes and converted there; a small set of samples is on the device as a whole. */
static void choose_way(ot_session *x, const ot_feeder *f, int64_t samples, ot_way *way, ot_feed_set *set)
{
    *way = f->whole ? OT_WAY_WHOLE : OT_WAY_BATCH;
    if (!x->device || !ot_feeder_set(f, samples, set)) return;
    int64_t bytes, one = ot_dtype_bits(set->dtype) / 8 * set->elements;
    if (samples > 0 && !ot_feeder_loads(f) && !f->augment && ot_mul(one, samples, &bytes) && bytes <= x->sets_limit) {
        *way = OT_WAY_SET;
        x->sets_limit -= bytes;
        return;
    }
    set->samples = 0;
    bool ready = set->dtype == f->dtype && !set->scale && !set->permute[2] && !f->redraw && !f->augment;
    *way = ready ? OT_WAY_BATCH : OT_WAY_RAW;
}

static ot_supply *supply_of(ot_session *x, ot_feeders *fs, ot_error *err)
{
    for (int i = 0; i < x->n_supplies; i++)
        if (x->supply[i].feeders == fs) return &x->supply[i];
    ot_supply *y = &x->supply[x->n_supplies];
    size_t n = (size_t)fs->n + 1;
    *y = (ot_supply){ .feeders = fs,
                      .way = ot_arena_alloc(x->a, n * sizeof *y->way),
                      .set = ot_arena_alloc(x->a, n * sizeof *y->set),
                      .offset = ot_arena_alloc(x->a, n * sizeof *y->offset) };
    if (!y->way || !y->set || !y->offset) {
        ot_fail(err, OT_E_NOMEM, "no memory for plans");
        return NULL;
    }
    for (int i = 0; i < fs->n; i++) choose_way(x, &fs->f[i], fs->data ? fs->samples : 0, &y->way[i], &y->set[i]);
    x->n_supplies++;
    return y;
}

static int64_t padded(int64_t n) { return (n + 255) / 256 * 256; }

static int64_t set_bytes(const ot_supply *y, int i)
{
    return ot_dtype_bits(y->set[i].dtype) / 8 * y->set[i].elements * y->set[i].samples;
}

/* Sets the layout of the inbox, which is sent with every batch of the slot: ot_inbox, index, batches. */
static ot_status lay_inbox(ot_session *x, ot_slot *q, ot_error *err)
{
    const ot_supply *y = q->supply;
    q->offset = ot_arena_alloc(x->a, (size_t)(q->feeders->n + 1) * sizeof *q->offset);
    if (!q->offset) return ot_fail(err, OT_E_NOMEM, "no memory for plans");
    q->inbox_bytes = (int64_t)sizeof(ot_inbox) + (q->plan->index ? q->batch * (int64_t)sizeof(int64_t) : 0);
    for (int i = 0; i < q->feeders->n; i++) {
        const ot_feeder *f = &q->feeders->f[i];
        if (y->way[i] != OT_WAY_BATCH && y->way[i] != OT_WAY_RAW) continue;
        q->offset[i] = padded(q->inbox_bytes);
        q->inbox_bytes =
            q->offset[i] + (y->way[i] == OT_WAY_RAW ? ot_dtype_bits(y->set[i].dtype) / 8 * y->set[i].elements * q->batch
                                                    : ot_feeder_bytes(f, q->batch));
    }
    if (q->inbox_bytes > x->inbox_bytes) x->inbox_bytes = q->inbox_bytes;
    return OT_OK;
}

void ot_session_configure(ot_session *x, ot_slot *q, ot_config *c, ot_feed *feeds)
{
    ot_feeders *fs = q->feeders;
    ot_feeders_feeds(fs, q->batch, feeds);
    for (int i = 0; i < fs->n; i++)
        if (q->supply->way[i] == OT_WAY_RAW || q->supply->way[i] == OT_WAY_SET) feeds[i].set = &q->supply->set[i];
    *c = ot_session_config(x->s, q->want, x->threads);
    c->device = x->device;
    c->feeds = feeds;
    c->n_feeds = fs->n;
    c->accumulate = q->accumulate;
    c->epoch_updates = x->epoch_updates;
    c->schedules_momentum = x->moves_momentum;
    c->tune = x->s->tune;
    c->partial = x->partial;
    c->fixed = x->fixed && !x->device;
    c->settled = c->fixed && x->settled && !x->s->memory_limit;
    c->scratch_limit = x->scratch_limit;
}

static ot_status try_plan(ot_session *x, ot_slot *q, ot_error *err)
{
    ot_config c;
    ot_feed *feeds = ot_arena_alloc(x->a, sizeof *feeds * (size_t)(q->feeders->n + 1));
    q->supply = feeds ? supply_of(x, q->feeders, err) : NULL;
    if (!q->supply) return ot_fail(err, OT_E_NOMEM, "no memory for plans");
    ot_session_configure(x, q, &c, feeds);
    ot_status s = ot_plan_new(x->model->file->graph, &c, x->lead < 0 ? NULL : ot_variants_at(&x->slot[x->lead], 0),
                              &q->plan, err);
    return ot_variants_plan(x, q, &c, feeds, s, err);
}

/* If planning fails, tries again without the outputs that cannot be computed: perhaps none of them has a loss.  Not for `run`, which
 * gives all outputs and first tries another way. */
static ot_status make_plan(ot_session *x, ot_slot *q, ot_error *err)
{
    ot_error again = { 0 };
    ot_status s = try_plan(x, q, err);
    if (s != OT_E_MODEL || x->partial || q->want == OT_WANT_RUN) return s;
    x->partial = true;
    s = try_plan(x, q, &again);
    x->partial = s == OT_OK;
    if (!s) *err = (ot_error){ 0 };
    return s ? err->status : OT_OK;
}

/* Says how long samples may be, where that is the reason. */
static ot_status explain(ot_session *x, ot_slot *q, ot_status s, ot_error *err)
{
    ot_config c;
    ot_feed *feeds = ot_arena_alloc(x->a, sizeof *feeds * (size_t)(q->feeders->n + 1));
    if (!feeds) return s;
    ot_session_configure(x, q, &c, feeds);
    return ot_session_explain_length(x, &c, s, err);
}

/* --device auto: a model that the device has no kernels for (texts, say) runs on the CPU, and a message says so. */
static ot_status make_first_plan(ot_session *x, ot_slot *q, ot_error *err)
{
    ot_error why = { 0 }, other = { 0 };
    ot_device *d = x->device;
    int64_t limit = x->sets_limit;
    ot_status s = make_plan(x, q, &why);
    if (s == OT_E_MODEL && d && !x->borrows_device && x->s->device == OT_DEVICE_AUTO) {
        x->device = NULL;
        x->n_supplies = 0;
        s = make_plan(x, q, &other);
        if (s == OT_OK) {
            d->backend->close(d);
            const char *line = ot_arena_printf(x->a, "device: cpu (%s)", why.text);
            x->device_line = line ? line : "device: cpu";
            return OT_OK;
        }
        x->device = d;
        x->n_supplies = 0;
        x->sets_limit = limit;
    }
    if (!s) return OT_OK;
    ot_fail(err, why.status, "%s", why.text);
    return why.status == OT_E_MODEL ? explain(x, q, why.status, err) : why.status;
}

ot_status ot_session_plan(ot_session *x, ot_want want, ot_feeders *fs, int64_t batch, int accumulate, int *out,
                          ot_error *err)
{
    for (int i = 0; i < x->n; i++) {
        const ot_slot *q = &x->slot[i];
        if (q->want == want && q->feeders == fs && q->batch == batch && q->accumulate == accumulate) {
            *out = i;
            return OT_OK;
        }
    }
    if (x->n == OT_SLOTS)
        return ot_fail(err, OT_E_INTERNAL, "internal error: a session has at most %d plans", OT_SLOTS);

    ot_slot *q = &x->slot[x->n];
    *q = (ot_slot){ .want = want, .batch = batch, .accumulate = accumulate, .feeders = fs };
    int supplies = x->n_supplies;
    ot_status s = x->lead < 0 ? make_first_plan(x, q, err) : make_plan(x, q, err);
    if (s) x->n_supplies = supplies;
    if (s) return s;
    if (x->lead < 0) x->lead = x->n;
    if (q->plan->state_bytes > x->state_bytes) x->state_bytes = q->plan->state_bytes;
    if (q->plan->scratch_bytes > x->scratch_bytes) x->scratch_bytes = q->plan->scratch_bytes;
    if (q->plan->const_bytes > x->const_bytes) x->const_bytes = q->plan->const_bytes;
    *out = x->n++;
    return x->device ? lay_inbox(x, q, err) : OT_OK;
}

/* ---- memory ------------------------------------------------------------------------- */

static ot_status limit_slot(ot_session *x, ot_slot *q, ot_error *err)
{
    ot_config c;
    ot_feed *feeds = ot_arena_alloc(x->a, sizeof *feeds * (size_t)(q->feeders->n + 1));
    if (!feeds) return ot_fail(err, OT_E_NOMEM, "no memory for plans");
    ot_session_configure(x, q, &c, feeds);
    for (int k = 0; k < ot_variants_count(q); k++) {
        ot_plan *p = ot_variants_at(q, k);
        OT_TRY(ot_plan_limit(p, &c, err));
        if (p->scratch_bytes > x->scratch_bytes) x->scratch_bytes = p->scratch_bytes;
    }
    return OT_OK;
}

ot_status ot_session_limit(ot_session *x, int64_t scratch, ot_error *err)
{
    x->scratch_limit = scratch;
    x->scratch_bytes = 0;
    for (int i = 0; i < x->n; i++) OT_TRY(limit_slot(x, &x->slot[i], err));
    return OT_OK;
}

/* The largest batch cut by these feeders; smaller ones share its memory. */
static int64_t largest(const ot_session *x, const ot_feeders *fs)
{
    int64_t most = 0;
    for (int i = 0; i < x->n; i++)
        if (x->slot[i].feeders == fs && x->slot[i].batch > most) most = x->slot[i].batch;
    return most;
}

static int64_t batch_bytes(const ot_feeders *fs, int64_t batch)
{
    int64_t bytes = 0;
    for (int i = 0; i < fs->n; i++)
        if (!ot_add(bytes, ot_feeder_bytes(&fs->f[i], batch), &bytes)) return INT64_MAX;
    return ot_feeders_load(fs) && !ot_add(bytes, ot_loader_bytes(fs, batch), &bytes) ? INT64_MAX : bytes;
}

/* From so many bytes on (some 20 us of a bus) a batch is sent while the device still computes the one before. */
enum { SENT_AHEAD = 1 << 20 };

int64_t ot_session_inbox_bytes(const ot_session *x)
{
    return padded(x->inbox_bytes) * (x->inbox_bytes >= SENT_AHEAD ? 2 : 1);
}

void *ot_session_ahead(const ot_session *x, int64_t bytes)
{
    return bytes >= SENT_AHEAD ? (char *)ot_memory_room(x->memory) + padded(x->inbox_bytes) : NULL;
}

/* Device memory besides slabs and constants: the inbox and that of the next batch, whole arrays, sets.  Sets their offsets;
 * returns the bytes. */
static int64_t lay_room(ot_session *x)
{
    int64_t end = ot_session_inbox_bytes(x);
    for (int k = 0; k < x->n_supplies; k++) {
        ot_supply *y = &x->supply[k];
        for (int i = 0; i < y->feeders->n; i++) {
            if (y->way[i] != OT_WAY_SET && y->way[i] != OT_WAY_WHOLE) continue;
            y->offset[i] = end;
            end += padded(y->way[i] == OT_WAY_SET ? set_bytes(y, i) : ot_feeder_bytes(&y->feeders->f[i], 1));
        }
    }
    return end;
}

int64_t ot_session_set_bytes(const ot_session *x)
{
    int64_t bytes = 0;
    for (int k = 0; k < x->n_supplies; k++)
        for (int i = 0; i < x->supply[k].feeders->n; i++)
            if (x->supply[k].way[i] == OT_WAY_SET) bytes += set_bytes(&x->supply[k], i);
    return bytes;
}

bool ot_session_has_set(const ot_session *x, const ot_feeders *fs)
{
    bool all = true;
    for (int k = 0; k < x->n_supplies; k++)
        for (int i = 0; i < fs->n && x->supply[k].feeders == fs; i++)
            all &= x->supply[k].way[i] == OT_WAY_SET || x->supply[k].way[i] == OT_WAY_WHOLE;
    return all;
}

int64_t ot_session_bytes(const ot_session *x)
{
    int64_t bytes = x->state_bytes + x->scratch_bytes + x->const_bytes;
    if (x->device) return bytes + ot_session_inbox_bytes(x) + ot_session_set_bytes(x);
    for (int i = 0; i < x->n; i++) {
        bool first = true;
        for (int k = 0; k < i; k++) first &= x->slot[k].feeders != x->slot[i].feeders;
        if (first && !ot_add(bytes, batch_bytes(x->slot[i].feeders, largest(x, x->slot[i].feeders)), &bytes))
            return INT64_MAX;
    }
    return bytes;
}

/* The largest value of all plans, in bytes; NULL: no value needs memory. */
static const ot_value *largest_value(const ot_session *x)
{
    const ot_value *most = NULL;
    size_t bytes = 0;
    for (int i = 0; i < x->n; i++) {
        const ot_graph *g = x->slot[i].plan->graph;
        for (int k = 0; k < g->n_values; k++) {
            const ot_value *v = g->values[k];
            bool there = v->slab == OT_SLAB_STATE || v->slab == OT_SLAB_SCRATCH || v->slab == OT_SLAB_FED;
            if (!there || v->base != v || v->dtype == OT_STRING || ot_bytes(&v->shape, v->dtype) <= bytes) continue;
            most = v;
            bytes = ot_bytes(&v->shape, v->dtype);
        }
    }
    return most;
}

/* The system would rather end the process later than refuse memory now. */
static ot_status check_memory(const ot_session *x, ot_error *err)
{
    bool borrows = x->lender && x->lender->memory && ot_memory_lends(x->lender->memory) >= x->scratch_bytes;
    int64_t needed = ot_session_bytes(x) - (borrows ? x->scratch_bytes : 0), there = ot_memory_available(), all;
    bool fits = ot_add(needed, x->room, &all) && ot_memory_fits(all);
    if (needed <= there && fits) return OT_OK;
    const ot_value *v = largest_value(x);
    char shape[128], most[512] = "";
    bool batches = false;
    for (int i = 0; i < x->n; i++) batches |= x->slot[i].batch > 1;
    if (v)
        snprintf(most, sizeof most, "; the largest value is '%.300s', %s%s: %zu MiB", v->name, ot_dtype_name(v->dtype),
                 ot_shape_text(&v->shape, shape), ot_bytes(&v->shape, v->dtype) >> 20);
    char room[128] = "";
    if (needed <= there)
        snprintf(room, sizeof room, ", and %lld MiB of address space for threads and libraries",
                 (long long)(x->room >> 20));
    return ot_fail(err, OT_E_NOMEM, "out of memory: %lld MiB are needed%s, %lld MiB are available%s%s",
                   (long long)(needed >> 20), room, (long long)(there >> 20), most,
                   batches ? "; use a smaller --batch-size" : "");
}

/* ---- binding ------------------------------------------------------------------------ */

static void feed_to(ot_exec *e, const ot_value *v, const void *p)
{
    if (v) ot_exec_feed(e, v, p);
}

static void feed(ot_slot *q, const ot_value *v, const void *p) { feed_to(q->exec, v, p); }

static void bind_host(ot_session *x, const ot_slot *q, const ot_plan *p, ot_exec *e)
{
    const ot_step_scalars *k = &p->knobs;
    feed_to(e, k->lr, &x->lr);
    feed_to(e, k->momentum, &x->momentum);
    feed_to(e, k->t, &x->t);
    feed_to(e, k->seed, &x->seed);
    feed_to(e, k->counter, &x->counter);
    for (int i = 0; i < q->feeders->n; i++) feed_to(e, p->fed[i], q->feeders->f[i].buffer);
}

/* Binds the plan to the inbox, which fill_inbox() of queue.c fills, and to whole arrays and sets. */
static void bind_device(ot_session *x, ot_slot *q)
{
    const ot_step_scalars *k = &q->plan->knobs;
    char *room = ot_memory_room(x->memory);
    feed(q, k->lr, room + offsetof(ot_inbox, lr));
    feed(q, k->momentum, room + offsetof(ot_inbox, momentum));
    feed(q, k->t, room + offsetof(ot_inbox, t));
    feed(q, k->seed, room + offsetof(ot_inbox, seed));
    feed(q, k->counter, room + offsetof(ot_inbox, counter));
    feed(q, q->plan->index, room + sizeof(ot_inbox));
    for (int i = 0; i < q->feeders->n; i++) {
        ot_way w = q->supply->way[i];
        bool stays = w == OT_WAY_SET || w == OT_WAY_WHOLE;
        feed(q, q->plan->fed[i], room + (stays ? q->supply->offset[i] : q->offset[i]));
    }
}

/* The samples of a set, a few MiB at a time. */
static ot_status send_set(ot_session *x, ot_feeder *f, const ot_feed_set *set, char *to, ot_error *err)
{
    int64_t one = ot_dtype_bits(set->dtype) / 8 * set->elements, chunk = one ? (INT64_C(8) << 20) / one : 0;
    if (!one || !set->samples) return OT_OK;
    if (chunk < 1) chunk = 1;
    if (chunk > set->samples) chunk = set->samples;
    char *bytes = malloc((size_t)(chunk * one));
    int64_t *index = malloc((size_t)chunk * sizeof *index);
    ot_status s = bytes && index ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for a part of the data");
    for (int64_t i = 0; s == OT_OK && i < set->samples; i += chunk) {
        int64_t n = set->samples - i < chunk ? set->samples - i : chunk;
        for (int64_t k = 0; k < n; k++) index[k] = i + k;
        s = ot_feeder_take_raw(f, index, n, OT_NOT_AUGMENTED, bytes, x->threads, err);
        if (!s) s = x->device->backend->upload(x->device, to + i * one, bytes, n * one, err);
    }
    free(index);
    free(bytes);
    return s;
}

static ot_status send(ot_session *x, ot_supply *y, ot_way way, ot_error *err)
{
    char *room = ot_memory_room(x->memory);
    for (int i = 0; i < y->feeders->n; i++) {
        ot_feeder *f = &y->feeders->f[i];
        if (y->way[i] != way) continue;
        if (way == OT_WAY_SET) OT_TRY(send_set(x, f, &y->set[i], room + y->offset[i], err));
        else OT_TRY(x->device->backend->upload(x->device, room + y->offset[i], f->buffer, ot_feeder_bytes(f, 1), err));
    }
    return OT_OK;
}

ot_status ot_session_renew(ot_session *x, ot_feeders *fs, ot_error *err)
{
    for (int i = 0; i < fs->n; i++) {
        ot_feeder *f = &fs->f[i];
        const ot_array *from = f->src == &f->own ? ot_dataset_find(fs->data, f->own.t.name) : NULL;
        if (from) f->own.t.data = from->t.data;
    }
    for (int i = 0; i < fs->n; i++)
        if (fs->f[i].whole) OT_TRY(ot_feeder_take(&fs->f[i], NULL, 1, OT_NOT_AUGMENTED, fs->f[i].buffer, 1, err));
    for (int i = 0; x->device && i < x->n_supplies; i++)
        if (x->supply[i].feeders == fs) OT_TRY(send(x, &x->supply[i], OT_WAY_WHOLE, err));
    return OT_OK;
}

ot_status ot_session_bind(ot_session *x, ot_error *err)
{
    int n = 0, all = 0;
    for (int i = 0; i < x->n; i++) all += ot_variants_count(&x->slot[i]);
    const ot_plan **plans = calloc((size_t)all + 1, sizeof *plans);
    if (!plans) return ot_fail(err, OT_E_NOMEM, "no memory for plans");
    for (int i = 0; i < x->n; i++) { /* the one that laid the state out first */
        const ot_slot *q = &x->slot[i == 0 ? x->lead : i <= x->lead ? i - 1 : i];
        for (int k = 0; k < ot_variants_count(q); k++) plans[n++] = ot_variants_at(q, k);
    }
    ot_status s =
        ot_memory_new(plans, n, x->device ? lay_room(x) : 0, x->lender ? x->lender->memory : NULL, &x->memory, err);
    free(plans);
    for (int i = 0; i < x->n && !s; i++) {
        ot_slot *q = &x->slot[i];
        for (int k = 0; k < ot_variants_count(q) && !s; k++) {
            ot_plan *p = ot_variants_at(q, k);
            s = ot_exec_new(p, x->memory, ot_variants_exec(q, k), err);
            if (s) break;
            if (p == q->plan) q->exec = *ot_variants_exec(q, k);
            if (x->device) bind_device(x, q);
            else bind_host(x, q, p, *ot_variants_exec(q, k));
        }
    }
    if (!s) s = ot_import_intact(x->model->file, err);
    if (!x->fixed) ot_import_release(x->model->file); /* it is in the slabs */
    return s;
}

void ot_session_unbind(ot_session *x)
{
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < ot_variants_count(&x->slot[i]); k++) {
            ot_exec_free(*ot_variants_exec(&x->slot[i], k));
            *ot_variants_exec(&x->slot[i], k) = x->slot[i].exec = NULL;
        }
    ot_memory_free(x->memory);
    x->memory = NULL;
}

static ot_status make_loaders(ot_session *x, ot_error *err)
{
    for (int i = 0; i < x->n_supplies; i++) {
        ot_supply *y = &x->supply[i];
        int64_t most = largest(x, y->feeders);
        if (y->feeders->loader || !ot_feeders_load(y->feeders) || !most) continue;
        OT_TRY(ot_loader_new(y->feeders, most, x->s->workers < 0 ? x->threads : x->s->workers, &x->images_limit,
                             &y->feeders->loader, err));
        y->loads = true;
    }
    return OT_OK;
}

ot_status ot_session_allocate(ot_session *x, ot_error *err)
{
    if (x->threads > x->made) OT_TRY(ot_threads_make(x->threads, err));
    x->made = x->threads;
    x->room = !x->device && ot_memory_limited() ? ot_threads_room(x->threads) : 0;
    if (!x->device) OT_TRY(check_memory(x, err));
    for (int i = 0; i < x->n; i++) {
        int64_t most = largest(x, x->slot[i].feeders);
        for (int k = 0; k < x->slot[i].feeders->n; k++)
            OT_TRY(ot_feeder_prepare(&x->slot[i].feeders->f[k], most, x->a, err));
    }
    OT_TRY(make_loaders(x, err));
    OT_TRY(ot_session_bind(x, err));
    OT_TRY(ot_queue_open(x, err));
    for (int i = 0; x->device && i < x->n_supplies; i++) {
        OT_TRY(send(x, &x->supply[i], OT_WAY_WHOLE, err));
        OT_TRY(send(x, &x->supply[i], OT_WAY_SET, err));
    }
    return OT_OK;
}

/* ---- plans that come later ------------------------------------------------------------ */

/* Removes the plans from slot n on, and restores the size of the inboxes. */
static void shrink(ot_session *x, int n, int64_t inbox_bytes)
{
    while (x->n > n) {
        const ot_slot *q = &x->slot[--x->n];
        bool last = x->n_supplies && x->supply[x->n_supplies - 1].feeders == q->feeders;
        for (int i = 0; i < x->n && last; i++) last = x->slot[i].feeders != q->feeders;
        x->n_supplies -= last;
        ot_variants_free(&x->slot[x->n]);
    }
    x->inbox_bytes = inbox_bytes;
}

static void put_execs(ot_session *x, int n, ot_exec *const *list)
{
    for (int i = 0, at = 0; i < n; i++)
        for (int k = 0; k < ot_variants_count(&x->slot[i]); k++, at++) {
            *ot_variants_exec(&x->slot[i], k) = list[at];
            if (ot_variants_at(&x->slot[i], k) == x->slot[i].plan) x->slot[i].exec = list[at];
        }
}

/* Memory for all plans beside the old one, whose state it gets. */
static ot_status bind_beside(ot_session *x, const ot_memory *old, ot_error *err)
{
    for (int i = 0; i < x->n; i++) {
        int64_t most = largest(x, x->slot[i].feeders);
        for (int k = 0; k < x->slot[i].feeders->n; k++)
            OT_TRY(ot_feeder_prepare(&x->slot[i].feeders->f[k], most, x->a, err));
    }
    OT_TRY(ot_session_bind(x, err));
    return ot_memory_take_state(x->memory, old, err);
}

static ot_status rebind(ot_session *x, int n, ot_exec **list, ot_error *err)
{
    ot_memory *old = x->memory;
    int held = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < ot_variants_count(&x->slot[i]); k++) {
            list[held++] = *ot_variants_exec(&x->slot[i], k);
            *ot_variants_exec(&x->slot[i], k) = x->slot[i].exec = NULL;
        }
    x->memory = NULL;
    ot_status s = bind_beside(x, old, err);
    if (s) {
        ot_session_unbind(x);
        x->memory = old;
        put_execs(x, n, list);
        return s;
    }
    for (int i = 0; i < held; i++) ot_exec_free(list[i]);
    ot_memory_free(old);
    return OT_OK;
}

ot_status ot_session_grow(ot_session *x, int n, ot_error *err)
{
    int held = 0;
    int64_t inbox_bytes = x->inbox_bytes;
    for (int i = 0; i < n; i++) held += ot_variants_count(&x->slot[i]);
    ot_exec **list = calloc((size_t)held + 1, sizeof *list);
    ot_status s = list ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for plans");
    if (!s && !x->device) s = check_memory(x, err);
    if (!s) s = rebind(x, n, list, err);
    if (s) shrink(x, n, inbox_bytes);
    free(list);
    if (s || !x->device) return s;
    ot_queue_close(x);
    OT_TRY(ot_queue_open(x, err));
    for (int i = 0; i < x->n_supplies; i++) {
        OT_TRY(send(x, &x->supply[i], OT_WAY_WHOLE, err));
        OT_TRY(send(x, &x->supply[i], OT_WAY_SET, err));
    }
    return OT_OK;
}

/* ---- outputs -------------------------------------------------------------------------- */

static ot_output *declared(const ot_graph *g, ot_arena *a, bool *complete)
{
    ot_output *o = ot_arena_alloc(a, sizeof *o * (size_t)(g->n_outputs + 1));
    *complete = true;
    for (int i = 0; o && i < g->n_outputs; i++) {
        const ot_value *v = g->outputs[i];
        o[i] = (ot_output){ .name = v->name, .dtype = v->dtype, .shape = v->shape, .batch_axis = -1 };
        if (v->dtype == OT_UNDEFINED || !ot_shape_known(&v->shape)) *complete = false;
    }
    return o;
}

/* The first axis of n elements, -1: there is none; *sure: it is the first axis and no other has as many. */
static int axis_of(const ot_shape *s, int64_t n, bool *sure)
{
    int first = -1, found = 0;
    for (int d = s->rank - 1; d >= 0; d--)
        if (s->dim[d] == n) first = d, found++;
    *sure = found == 0 || (found == 1 && first == 0);
    return first;
}

/* The tensor behind v, of `all` rows in its first axis, whose samples lie along another axis; NULL: no such one is seen. */
static const char *mixed_rows(const ot_value *v, int64_t all, int64_t batch)
{
    for (const ot_node *n = v->producer; n; n = v->producer) {
        const ot_value *from = NULL;
        for (int i = 0; i < n->n_in && !from; i++)
            if (n->in[i] && n->in[i]->shape.rank > 0 && n->in[i]->shape.dim[0] == all) from = n->in[i];
        if (!from) { /* the rows are made here */
            const ot_value *x = n->n_in ? n->in[0] : NULL;
            for (int d = 0; x && d < x->shape.rank; d++)
                if (x->shape.dim[d] == batch) return d ? x->name : NULL;
            return NULL;
        }
        v = from;
    }
    return NULL;
}

/* Of an output without an axis of the samples: logits flattened over batch and time have that many rows for each. */
static void find_rows(ot_arena *a, const ot_value *larger, int64_t batch, int64_t more, ot_output *o)
{
    int64_t rows = o->shape.rank > 1 && o->batch_axis < 0 ? o->shape.dim[0] / batch : 0;
    if (rows < 2 || o->shape.dim[0] % batch || !larger->shape.rank || larger->shape.dim[0] != rows * more) return;
    o->rows = rows;
    const char *mixed = mixed_rows(larger, rows * more, more); /* of a plan that goes */
    o->mixed = mixed ? ot_arena_printf(a, "%s", mixed) : NULL;
}

/* Whether the file declares the size of this batch for axis d of an output, though its inputs have an open batch: it may be a
 * coincidence.  1 is ignored, because many exporters declare it for a batch axis. */
static bool is_fixed(const ot_graph *g, int output, int d, int64_t batch, int64_t baked)
{
    const ot_shape *s = &g->outputs[output]->shape;
    return !baked && s->rank > d && s->dim[d] > 1 && s->dim[d] == batch;
}

/* Finds the batch axis of each output: the axis with as many elements as samples.  If that may be a coincidence, the axis that
 * grows with a larger batch (a multiple of the file's fixed batch size), if such a batch can be planned.  doubts: it may always
 * be a coincidence. */
static void find_batch_axes(ot_arena *a, const ot_graph *g, ot_config c, const ot_feeders *fs, int64_t batch,
                            ot_feed *feeds, bool doubts, ot_output *o)
{
    ot_plan *more = NULL;
    ot_error ignored = { 0 };
    bool sure, all = true;
    int64_t baked = ot_feeders_baked(fs, g), step = baked ? baked : 1;
    int64_t larger =
        (batch / step + 1) * step; /* no number of rows for a sample, which may be the size of another axis */
    for (int i = 0; i < g->n_outputs; i++) {
        const ot_shape *s = &o[i].shape;
        o[i].batch_axis = axis_of(s, batch, &sure);
        sure = sure && (o[i].batch_axis < 0 || !(doubts || is_fixed(g, i, 0, batch, baked)));
        bool rows = o[i].batch_axis < 0 && s->rank > 1 && s->dim[0] > batch && s->dim[0] % batch == 0;
        all &= sure && !rows;
        if (rows && s->dim[0] / batch == larger) larger += step;
    }
    if (all) return;
    ot_feeders_feeds(fs, larger, feeds);
    c.feeds = feeds;
    if (ot_plan_infer(g, &c, &more, &ignored)) {
        for (int i = 0; i < g->n_outputs; i++) {
            o[i].sole = true;
            if (o[i].batch_axis >= 0 && is_fixed(g, i, o[i].batch_axis, batch, baked)) o[i].batch_axis = -1;
        }
        return;
    }
    for (int i = 0; i < g->n_outputs && i < more->graph->n_outputs; i++) {
        const ot_shape *s = &more->graph->outputs[i]->shape;
        bool known = s->rank > 0 && s->rank == o[i].shape.rank && s->dim[0] >= 0; /* it may depend on data */
        int axis = o[i].shape.rank > 0 && o[i].shape.dim[0] == batch && !known ? 0 : -1;
        for (int d = s->rank - 1; d >= 0 && s->rank == o[i].shape.rank; d--)
            if (o[i].shape.dim[d] == batch && s->dim[d] == larger) axis = d;
        o[i].batch_axis = axis;
        find_rows(a, more->graph->outputs[i], batch, larger, &o[i]);
    }
    ot_plan_free(more);
}

ot_status ot_session_outputs(ot_session *x, const ot_feeders *fs, int64_t batch, ot_output **out, int *n, ot_error *err)
{
    const ot_graph *g = x->model->file->graph;
    bool complete;
    *n = g->n_outputs;
    *out = declared(g, x->a, &complete);
    ot_feed *feeds = ot_arena_alloc(x->a, sizeof *feeds * (size_t)(fs->n + 1));
    if (!*out || !feeds) return ot_fail(err, OT_E_NOMEM, "no memory for plans");

    /* The declared shapes are often symbolic and sometimes wrong, so they come from a plan (for the CPU on all devices). */
    ot_feeders_feeds(fs, batch, feeds);
    ot_config c = ot_session_config(x->s, OT_WANT_RUN, x->threads);
    c.options.eval_mode = true; /* sizes that depend on a Dropout of the file can be planned */
    c.feeds = feeds;
    c.n_feeds = fs->n;
    ot_plan *p = NULL;
    ot_error first = { 0 };
    ot_status s = ot_plan_new(g, &c, NULL, &p, &first);
    if (s == OT_E_MODEL) {
        ot_feeders own = *fs; /* only the buffers of its feeders may change */
        OT_TRY(ot_variants_sample(x, &own, batch, feeds, err));
        s = ot_plan_any(g, &c, feeds, false, x->a, &p, err);
    } else if (s) {
        ot_fail(err, s, "%s", first.text);
    }
    if (s == OT_E_MODEL) return ot_session_explain_length(x, &c, s, err);
    if (s) return s;
    for (int i = 0; i < g->n_outputs && i < p->graph->n_outputs; i++) {
        (*out)[i].dtype = p->graph->outputs[i]->left_out ? g->outputs[i]->dtype
                                                         : p->graph->outputs[i]->dtype; /* nothing stands there */
        (*out)[i].shape = p->graph->outputs[i]->shape;
    }
    ot_plan_free(p);
    find_batch_axes(x->a, g, c, fs, batch, feeds, x->fixed, *out); /* trainings have targets to compare with */
    return OT_OK;
}
