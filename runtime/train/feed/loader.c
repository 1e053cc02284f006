/* loader.c - a ring of batches: threads draw their samples in order, the owner takes the batches in order. */
#include "runtime/train/feed/loader.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_SLOTS = 8, CHUNK = 16 };
static const int64_t ring_bytes = INT64_C(64) << 20; /* for more than two batches */

typedef struct slot {
    int64_t given;
    int64_t n, *asked, *index; /* the samples; those that were drawn for them */
    int64_t next, done;        /* samples that threads have begun, and ended */
    uint8_t **bytes;           /* by feeder; NULL: nothing is drawn */
    int64_t failed;            /* the first sample that could not be drawn; -1: none */
    ot_error err;              /* of it */
} slot;

typedef struct worker {
    struct ot_loader *l;
    pthread_t thread;
    ot_draw_room room;
} worker;

struct ot_loader {
    ot_feeders *fs;
    int64_t most;
    int n_slots, first, filled; /* slots first .. first + filled are drawn or being drawn */
    int held;                   /* the slot that was taken last, which is not among them; -1: none */
    slot slot[MOST_SLOTS];
    int64_t position; /* of the batch that comes after those */
    uint8_t *bad;     /* by sample: 1 it could not be read, 2 the owner knows */
    int64_t n_bad;
    ot_draw_room room; /* the owner's */
    int n_workers;
    worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    bool quits;
};

/* ---- drawing -------------------------------------------------------------------------------- */

/* Draws the images of one sample for all feeders. */
static ot_status draw_all(ot_loader *l, slot *s, int64_t at, int64_t sample, ot_draw_room *room, ot_error *err)
{
    for (int i = 0; i < l->fs->n; i++) {
        ot_feeder *f = &l->fs->f[i];
        if (s->bytes[i])
            OT_TRY(ot_feeder_draw(f, s->given < 0 ? s->given : s->given + at, sample, room,
                                  s->bytes[i] + at * ot_feeder_drawn_bytes(f), err));
    }
    return OT_OK;
}

static bool may_be_skipped(ot_status s) { return s == OT_E_DATA || s == OT_E_IO; }

/* Draws sample `at` of a slot, or the next one that can be read. */
static ot_status draw_sample(ot_loader *l, slot *s, int64_t at, ot_draw_room *room, ot_error *err)
{
    int64_t sample = s->asked[at], n = l->fs->samples, left = l->fs->skip_bad;
    ot_error first = { 0 };
    for (int64_t k = 0; k <= left && k < n; k++, sample = (sample + 1) % n) {
        ot_error bad = { 0 };
        if (l->bad && __atomic_load_n(&l->bad[sample], __ATOMIC_RELAXED)) continue;
        ot_status status = draw_all(l, s, at, sample, room, &bad);
        s->index[at] = sample;
        if (!status) return OT_OK;
        if (!may_be_skipped(status) || !l->bad) return ot_fail(err, status, "%s", bad.text);
        uint8_t none = 0;
        __atomic_compare_exchange_n(&l->bad[sample], &none, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        first = bad;
    }
    return first.status ? ot_fail(err, first.status, "%s", first.text)
                        : ot_fail(err, OT_E_DATA, "%s: no file can be read", l->fs->data->name);
}

/* Draws a part of a slot's samples, which the caller has begun under the lock. */
static void draw_chunk(ot_loader *l, slot *s, int64_t from, int64_t to, ot_draw_room *room)
{
    ot_error err = { 0 };
    int64_t failed = -1;
    for (int64_t i = from; i < to && failed < 0; i++)
        if (draw_sample(l, s, i, room, &err)) failed = i;
    pthread_mutex_lock(&l->lock);
    if (failed >= 0 && (s->failed < 0 || failed < s->failed)) s->failed = failed, s->err = err;
    s->done += to - from;
    if (s->done == s->n) pthread_cond_broadcast(&l->ready);
    pthread_mutex_unlock(&l->lock);
}

/* Begins a part of slot s; false: all of it is begun.  Under the lock. */
static bool begin_chunk(const ot_loader *l, slot *s, int64_t *from, int64_t *to)
{
    int64_t size = s->n / (4 * (l->n_workers + 1));
    size = size < 1 ? 1 : size > CHUNK ? CHUNK : size;
    *from = s->next;
    *to = s->n - s->next < size ? s->n : s->next + size;
    s->next = *to;
    return *to > *from;
}

/* The oldest slot that has samples left to begin; NULL: none. */
static slot *find_work(ot_loader *l)
{
    for (int i = 0; i < l->filled; i++) {
        slot *s = &l->slot[(l->first + i) % l->n_slots];
        if (s->next < s->n) return s;
    }
    return NULL;
}

static void *work(void *p)
{
    worker *w = p;
    ot_loader *l = w->l;
    /* The step comes first: threads that draw take what processors have left.  0: this thread alone. */
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 5);
    pthread_mutex_lock(&l->lock);
    while (!l->quits) {
        int64_t from, to;
        slot *s = find_work(l);
        if (!s) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        bool begun = begin_chunk(l, s, &from, &to);
        pthread_mutex_unlock(&l->lock);
        if (begun) draw_chunk(l, s, from, to, &w->room);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Waits until every sample of a slot is drawn; the owner draws too.  Under the lock. */
static void finish_slot(ot_loader *l, slot *s)
{
    while (s->done < s->n) {
        int64_t from, to;
        if (!begin_chunk(l, s, &from, &to)) {
            pthread_cond_wait(&l->ready, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        draw_chunk(l, s, from, to, &l->room);
        pthread_mutex_lock(&l->lock);
    }
}

/* ---- making --------------------------------------------------------------------------------- */

static int64_t batch_bytes(const ot_feeders *fs, int64_t most)
{
    int64_t bytes = most * 2 * (int64_t)sizeof(int64_t);
    for (int i = 0; i < fs->n; i++)
        if (ot_feeder_loads(&fs->f[i])) bytes += ot_feeder_drawn_bytes(&fs->f[i]) * most;
    return bytes;
}

static int slots_for(int64_t bytes)
{
    int64_t n = bytes > 0 ? ring_bytes / bytes : MOST_SLOTS;
    return n > MOST_SLOTS ? MOST_SLOTS : n < 3 ? 3 : (int)n;
}

int64_t ot_loader_bytes(const ot_feeders *fs, int64_t most)
{
    int64_t bytes = batch_bytes(fs, most), all;
    return ot_mul(bytes, slots_for(bytes), &all) ? all : INT64_MAX;
}

static ot_status make_slots(ot_loader *l)
{
    const ot_feeders *fs = l->fs;
    for (int k = 0; k < l->n_slots; k++) {
        slot *s = &l->slot[k];
        s->asked = calloc((size_t)l->most + 1, sizeof *s->asked);
        s->index = calloc((size_t)l->most + 1, sizeof *s->index);
        s->bytes = calloc((size_t)fs->n + 1, sizeof *s->bytes);
        if (!s->asked || !s->index || !s->bytes) return OT_E_NOMEM;
        for (int i = 0; i < fs->n; i++)
            if (ot_feeder_loads(&fs->f[i]) &&
                !(s->bytes[i] = malloc((size_t)(ot_feeder_drawn_bytes(&fs->f[i]) * l->most) + 1)))
                return OT_E_NOMEM;
    }
    if (fs->skip_bad && !(l->bad = calloc((size_t)fs->samples + 1, 1))) return OT_E_NOMEM;
    return OT_OK;
}

int64_t ot_loader_most(const ot_loader *l) { return l->most; }

static ot_status make_caches(const ot_loader *l, int64_t *budget, ot_error *err)
{
    for (int i = 0; i < l->fs->n && budget && l->fs->again; i++) {
        ot_feeder *f = &l->fs->f[i];
        if (ot_feeder_keeps(f)) OT_TRY(ot_image_cache_new(l->fs->samples, budget, &f->cache, err));
    }
    return OT_OK;
}

ot_status ot_loader_new(ot_feeders *fs, int64_t most, int workers, int64_t *budget, ot_loader **out, ot_error *err)
{
    *out = NULL;
    ot_loader *l = calloc(1, sizeof *l);
    if (!l) return ot_fail(err, OT_E_NOMEM, "no memory to load images");
    l->fs = fs;
    l->most = most;
    l->held = -1;
    l->n_slots = slots_for(batch_bytes(fs, most));
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    l->worker = calloc((size_t)workers + 1, sizeof *l->worker);
    if (!l->worker || make_slots(l)) {
        ot_loader_free(l);
        return ot_fail(err, OT_E_NOMEM, "no memory to load images");
    }
    ot_status status = make_caches(l, budget, err);
    if (status) {
        ot_loader_free(l);
        return status;
    }
    for (; l->n_workers < workers; l->n_workers++) {
        worker *w = &l->worker[l->n_workers];
        w->l = l;
        int number = pthread_create(&w->thread, NULL, work, w);
        if (!number) continue;
        ot_loader_free(l);
        return ot_fail(err, OT_E_NOMEM,
                       "out of memory: cannot create %d threads to load images (%s); use fewer --workers", workers,
                       strerror_r(number, (char[128]){ 0 }, 128));
    }
    *out = l;
    return OT_OK;
}

static void let_go(ot_loader *l)
{
    for (int i = 0; i < l->fs->n; i++) l->fs->f[i].held = NULL;
    l->held = -1;
}

void ot_loader_free(ot_loader *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->quits = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_workers; i++) {
        pthread_join(l->worker[i].thread, NULL);
        ot_draw_room_free(&l->worker[i].room);
    }
    let_go(l);
    for (int i = 0; i < l->fs->n; i++) {
        ot_image_cache_free(l->fs->f[i].cache);
        l->fs->f[i].cache = NULL;
    }
    for (int k = 0; k < l->n_slots; k++) {
        slot *s = &l->slot[k];
        for (int i = 0; s->bytes && i < l->fs->n; i++) free(s->bytes[i]);
        free(s->bytes);
        free(s->asked);
        free(s->index);
    }
    ot_draw_room_free(&l->room);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->ready);
    pthread_mutex_destroy(&l->lock);
    free(l->bad);
    free(l->worker);
    free(l);
}

/* ---- taking --------------------------------------------------------------------------------- */

/* Adds the next free slot, whose asked[] has n samples, to the ring.  Under the lock. */
static void begin_slot(ot_loader *l, int64_t n, int64_t given)
{
    slot *s = &l->slot[(l->first + l->filled) % l->n_slots];
    s->n = n;
    s->given = given;
    s->next = s->done = 0;
    s->failed = -1;
    l->filled++;
}

static slot *free_slot(ot_loader *l) { return &l->slot[(l->first + l->filled) % l->n_slots]; }

/* Adds the predicted batches to the ring, as far as there are free slots.  Under the lock. */
static void look_ahead(ot_loader *l)
{
    const ot_ahead *a = &l->fs->ahead;
    while (l->n_workers && a->batch && l->filled < l->n_slots) {
        slot *s = free_slot(l);
        int64_t n = 0;
        int64_t given = OT_NOT_AUGMENTED;
        if (!a->batch(a->user, l->position, l->most, s->asked, &n, &given)) break;
        l->position++;
        begin_slot(l, n, given);
    }
    pthread_cond_broadcast(&l->work);
}

static bool is_asked(const slot *s, int64_t given, const int64_t *index, int64_t n)
{
    return s->n == n && s->given == given && !memcmp(s->asked, index, (size_t)n * sizeof *index);
}

/* Discards batches that were drawn in advance for another order.  Under the lock. */
static void drop(ot_loader *l)
{
    for (int i = 0; i < l->filled; i++) { /* what no thread has begun is not begun any more */
        slot *s = &l->slot[(l->first + i) % l->n_slots];
        s->done += s->n - s->next;
        s->next = s->n;
    }
    for (; l->filled; l->filled--, l->first = (l->first + 1) % l->n_slots) finish_slot(l, &l->slot[l->first]);
}

/* Counts the samples that were replaced by others, and reports each once.  In the order of the batches, so that the result does
 * not depend on which thread was first. */
static ot_status count_bad(ot_loader *l, const slot *s, ot_error *err)
{
    ot_feeders *fs = l->fs;
    for (int64_t i = 0; i < s->n && l->bad; i++)
        for (int64_t k = s->asked[i]; k != s->index[i]; k = (k + 1) % fs->samples) {
            ot_error why = { 0 };
            if (l->bad[k] == 2) continue;
            l->bad[k] = 2;
            for (int f = 0; f < fs->n && !why.status; f++)
                if (s->bytes[f]) ot_feeder_try(&fs->f[f], k, &l->room, &why);
            if (++l->n_bad > fs->skip_bad)
                return ot_fail(err, why.status ? why.status : OT_E_DATA,
                               "%s; more than %lld files cannot be read (--skip-bad)", why.text,
                               (long long)fs->skip_bad);
            if (fs->bad) fs->bad(fs->bad_user, why.text);
        }
    return OT_OK;
}

static ot_status take(ot_loader *l, slot *s, int64_t *index, ot_error *err)
{
    if (s->failed >= 0) return ot_fail(err, s->err.status, "%s", s->err.text);
    OT_TRY(count_bad(l, s, err));
    memcpy(index, s->index, (size_t)s->n * sizeof *index);
    for (int i = 0; i < l->fs->n; i++) {
        ot_feeder *f = &l->fs->f[i];
        f->held = s->bytes[i];
        f->held_index = s->index;
        f->n_held = s->n;
    }
    return OT_OK;
}

ot_status ot_loader_take(ot_loader *l, int64_t position, int64_t given, int64_t *index, int64_t n, ot_error *err)
{
    let_go(l);
    pthread_mutex_lock(&l->lock);
    if (!l->filled || !is_asked(&l->slot[l->first], given, index, n)) {
        drop(l);
        memcpy(free_slot(l)->asked, index, (size_t)n * sizeof *index);
        begin_slot(l, n, given);
        l->position = position + 1;
    }
    slot *s = &l->slot[l->first];
    look_ahead(l);
    finish_slot(l, s);
    l->held = l->first;
    l->first = (l->first + 1) % l->n_slots;
    l->filled--;
    pthread_mutex_unlock(&l->lock);
    return take(l, s, index, err);
}
