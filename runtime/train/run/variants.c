/* variants.c - several plans of one slot, for graphs that depend on the data of a batch.
 *
 * Memory  A new plan makes the session allocate its memory again, for all plans; weights and state are copied.
 *         A slot keeps MOST plans; the least recently used one is freed, but never the one that determines the layout of the
 *         state. */
#include "runtime/train/run/variants.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

struct ot_variant {
    ot_decisions decided;
    ot_plan *plan;
    ot_exec *exec;
    int64_t used; /* the slot's count of choices when it was chosen last */
};

static const void *current(void *user, const ot_value *v)
{
    ot_session *x = user;
    const ot_slot *lead = x->lead >= 0 ? &x->slot[x->lead] : NULL;
    const ot_plan *p = lead ? ot_variants_at(lead, 0) : NULL;
    const ot_value *s = p ? ot_same_state(p, v) : NULL;
    ot_exec *e = lead ? lead->variant ? lead->variant[0].exec : lead->exec : NULL;
    if (!s || !e || s->slab != OT_SLAB_STATE) return NULL;
    void *copy = ot_arena_alloc(x->scratch ? x->scratch : x->a, ot_bytes(&v->shape, v->dtype) + 1);
    ot_error none = { 0 };
    return copy && ot_exec_read(e, s, copy, &none) == OT_OK ? copy : NULL;
}

/* The configuration of a plan for the batch in the feeders' buffers. */
static void configure(ot_session *x, ot_slot *q, ot_config *c, ot_feed *feeds, ot_decisions *d)
{
    for (int i = 0; i < q->feeders->n; i++) feeds[i].sample = q->feeders->f[i].buffer;
    c->feeds = feeds;
    c->decisions = d;
    c->state = current;
    c->user = x;
}

static ot_status add(ot_session *x, ot_slot *q, ot_plan *p, const ot_decisions *d, ot_error *err)
{
    if (!q->variant) q->variant = ot_arena_alloc(x->a, MOST * sizeof *q->variant);
    if (!q->variant) return ot_fail(err, OT_E_NOMEM, "no memory for plans");
    q->variant[q->n_variants++] = (ot_variant){ .decided = *d, .plan = p, .used = q->chosen };
    q->plan = p;
    return OT_OK;
}

ot_status ot_variants_sample(ot_session *x, ot_feeders *fs, int64_t batch, ot_feed *feeds, ot_error *err)
{
    int64_t *index = ot_arena_alloc(x->a, (size_t)(batch + 1) * sizeof *index);
    if (!index) return ot_fail(err, OT_E_NOMEM, "no memory for a batch");
    for (int64_t i = 0; i < batch; i++) index[i] = fs->samples > 0 ? i % fs->samples : 0;
    OT_TRY(ot_feeders_check(fs, index, batch, err));
    for (int i = 0; i < fs->n; i++) {
        ot_feeder *f = &fs->f[i];
        OT_TRY(ot_feeder_prepare(f, batch, x->a, err));
        if (!f->whole) OT_TRY(ot_feeder_take(f, index, batch, OT_NOT_AUGMENTED, f->buffer, x->threads, err));
        feeds[i].sample = f->buffer;
    }
    return OT_OK;
}

ot_status ot_variants_plan(ot_session *x, ot_slot *q, ot_config *c, ot_feed *feeds, ot_status s, ot_error *err)
{
    ot_error second = { 0 };
    ot_decisions d = { 0 };
    ot_plan *p = NULL;
    bool both = s == OT_OK && q->plan->graph->room->branches > 0;
    if (x->device || (!both && s != OT_E_MODEL)) return s;
    if (ot_variants_sample(x, q->feeders, q->batch, feeds, &second)) return s;
    configure(x, q, c, feeds, &d);
    ot_status r =
        ot_plan_new(x->model->file->graph, c, x->lead < 0 ? NULL : ot_variants_at(&x->slot[x->lead], 0), &p, &second);
    if (r || !d.n) { /* the reason was not a data-dependent value */
        if (r && !both && d.wanted) s = (*err = second).status;
        if (p) ot_plan_free(p);
        ot_decisions_free(&d);
        return s;
    }
    if (both) ot_plan_free(q->plan);
    *err = (ot_error){ 0 };
    return add(x, q, p, &d, err);
}

/* ---- without a session -------------------------------------------------------------- */

/* Samples that every input accepts: floats between -1 and 1; integers, which may be rows of a table or sizes, 1. */
static ot_status make_samples(ot_feed *feeds, int n, ot_arena *a, ot_error *err)
{
    enum { LARGEST = 1 << 26 }; /* bytes: larger inputs are data, not sizes or conditions, and get no sample */
    for (int i = 0; i < n; i++) {
        ot_feed *f = &feeds[i];
        if (f->sample || f->dtype == OT_STRING || ot_bytes(&f->shape, f->dtype) > LARGEST) continue;
        void *p = ot_arena_alloc(a, ot_bytes(&f->shape, f->dtype) + 1);
        if (!p) return ot_fail(err, OT_E_NOMEM, "no memory for numbers to plan with");
        for (int64_t k = 0, all = ot_numel(&f->shape); k < all; k++)
            ot_set_f64(p, f->dtype, k, ot_is_float(f->dtype) ? (double)(k * 37 % 101) / 50 - 1 : 1);
        f->sample = p;
    }
    return OT_OK;
}

ot_status ot_plan_any(const ot_graph *g, ot_config *c, ot_feed *feeds, bool infer, ot_arena *a, ot_plan **out,
                      ot_error *err)
{
    ot_error reported = { 0 };
    for (int way = 0; way < 4; way++) { /* bit 0: with data-dependent values; bit 1: some outputs may be missing */
        ot_error e = { 0 };
        ot_decisions d = { 0 };
        if (way & 1 && c->device) continue;
        if (way == 1) OT_TRY(make_samples(feeds, c->n_feeds, a, err));
        c->decisions = way & 1 ? &d : NULL;
        c->partial = way & 2;
        ot_status s = infer ? ot_plan_infer(g, c, out, &e) : ot_plan_new(g, c, NULL, out, &e);
        if (!way || (way == 1 && d.wanted)) reported = e;
        ot_decisions_free(&d);
        c->decisions = NULL;
        if (!s) return OT_OK;
        if (s != OT_E_MODEL) break;
    }
    return ot_fail(err, reported.status, "%s", reported.text);
}

/* ---- choosing --------------------------------------------------------------------- */

/* Copies the weights and states of plan p to `copy`, or back. */
static ot_status copy_states(ot_session *x, const ot_plan *p, ot_exec *e, bool restore, void **copy, ot_error *err)
{
    for (int i = 0; i < p->n_states; i++) {
        const ot_value *v = p->states[i];
        if (!restore && !(copy[i] = ot_arena_alloc(x->scratch, ot_bytes(&v->shape, v->dtype) + 1)))
            return ot_fail(err, OT_E_NOMEM, "no memory for one more plan");
        OT_TRY(restore ? ot_exec_write(e, v, copy[i], err) : ot_exec_read(e, v, copy[i], err));
    }
    return OT_OK;
}

/* Allocates the memory of all plans again. */
static ot_status reallocate(ot_session *x, ot_error *err)
{
    ot_slot *lead = &x->slot[x->lead];
    ot_plan *first = ot_variants_at(lead, 0);
    ot_exec *e = *ot_variants_exec(lead, 0);
    void **copy = ot_arena_alloc(x->scratch, ((size_t)first->n_states + 1) * sizeof *copy);
    if (!copy) return ot_fail(err, OT_E_NOMEM, "no memory for one more plan");
    OT_TRY(copy_states(x, first, e, false, copy, err));
    ot_session_unbind(x);
    OT_TRY(ot_session_bind(x, err));
    return copy_states(x, first, *ot_variants_exec(lead, 0), true, copy, err);
}

/* If the list is full, frees the least recently used plan. */
static void evict_oldest(ot_session *x, ot_slot *q)
{
    int oldest = q == &x->slot[x->lead]; /* its first plan stays */
    if (q->n_variants < MOST) return;
    for (int i = oldest; i < q->n_variants; i++)
        if (q->variant[i].used < q->variant[oldest].used) oldest = i;
    ot_variant *v = &q->variant[oldest];
    ot_exec_free(v->exec);
    ot_plan_free(v->plan);
    ot_decisions_free(&v->decided);
    memmove(v, v + 1, (size_t)(--q->n_variants - oldest) * sizeof *v);
}

static ot_status make(ot_session *x, ot_slot *q, ot_config *c, ot_decisions *d, ot_error *err)
{
    ot_plan *p;
    evict_oldest(x, q);
    OT_TRY(ot_plan_new(x->model->file->graph, c, ot_variants_at(&x->slot[x->lead], 0), &p, err));
    if (x->scratch_limit && p->scratch_bytes > x->scratch_limit) {
        double needed = (double)p->scratch_bytes / (1 << 20), left = (double)x->scratch_limit / (1 << 20);
        ot_plan_free(p);
        return ot_fail(
            err, OT_E_NOMEM,
            "this batch needs a plan of its own with %.1f MiB of activations, but --memory-limit leaves %.1f MiB",
            needed, left);
    }
    if (p->scratch_bytes > x->scratch_bytes) x->scratch_bytes = p->scratch_bytes;
    if (p->const_bytes > x->const_bytes) x->const_bytes = p->const_bytes;
    OT_TRY(add(x, q, p, d, err));
    return reallocate(x, err);
}

static ot_status choose(ot_session *x, ot_slot *q, ot_decisions *d, bool *taken, ot_error *err)
{
    ot_feed *feeds = ot_arena_alloc(x->scratch, sizeof *feeds * (size_t)(q->feeders->n + 1));
    ot_config c;
    ot_plan *probe = NULL;
    int i = 0, k = 0;
    if (!feeds) return ot_fail(err, OT_E_NOMEM, "no memory for plans");
    ot_session_configure(x, q, &c, feeds);
    configure(x, q, &c, feeds, d);
    OT_TRY(ot_plan_infer(x->model->file->graph, &c, &probe, err));
    ot_plan_free(probe);
    while (i < q->n_variants && !ot_decisions_same(&q->variant[i].decided, d)) i++;
    if (i == q->n_variants) {
        OT_TRY(make(x, q, &c, d, err));
        *taken = true;
        i = q->n_variants - 1;
    }
    ot_variant *v = &q->variant[i];
    v->used = ++q->chosen;
    q->plan = v->plan;
    q->exec = v->exec;
    for (int j = 0; j < d->n; j++) /* values that the host computed from this batch */
        if (d->list[j].made) {
            if (!*taken) {
                void *bytes = v->decided.list[j].bytes;
                v->decided.list[j].bytes = d->list[j].bytes;
                d->list[j].bytes = bytes;
            }
            ot_exec_feed(q->exec, q->plan->made[k++], v->decided.list[j].bytes);
        }
    return OT_OK;
}

ot_status ot_variants_choose(ot_session *x, ot_slot *q, ot_error *err)
{
    ot_decisions d = { 0 };
    bool taken = false;
    if (!q->variant) return OT_OK;
    if (!(x->scratch = ot_arena_new())) return ot_fail(err, OT_E_NOMEM, "no memory for data-dependent values");
    ot_status s = choose(x, q, &d, &taken, err);
    if (!taken) ot_decisions_free(&d);
    ot_arena_free(x->scratch);
    x->scratch = NULL;
    return s;
}

void ot_variants_free(ot_slot *q)
{
    for (int i = ot_variants_count(q) - 1; i >= 0; i--) {
        ot_plan_free(ot_variants_at(q, i));
        if (q->variant) ot_decisions_free(&q->variant[i].decided);
    }
}

/* ---- binding, for session.c --------------------------------------------------------- */

int ot_variants_count(const ot_slot *q) { return q->variant ? q->n_variants : 1; }
ot_plan *ot_variants_at(const ot_slot *q, int i) { return q->variant ? q->variant[i].plan : q->plan; }
ot_exec **ot_variants_exec(ot_slot *q, int i) { return q->variant ? &q->variant[i].exec : &q->exec; }
