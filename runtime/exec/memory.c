/* memory.c - the memory of plans that share one state.
 *
 * CPU     the state slab and the scratch slab; constants are not copied.
 * Device  one allocation: state, scratch, fed inputs, constants, kernels' tables.  Constants of equal bytes are stored
 *         once, for all plans. */
#include "runtime/exec/memory.h"

#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"

enum { ALIGN = 256, PARALLEL = 16 << 20 /* bytes of states that several threads fill */ };

static int64_t padded(int64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

/* ---- constants --------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const ot_copied *x = a, *y = b;
    return ((uintptr_t)x->data > (uintptr_t)y->data) - ((uintptr_t)x->data < (uintptr_t)y->data);
}

static int by_content(const void *a, const void *b)
{
    const ot_copied *x = *(ot_copied *const *)a, *y = *(ot_copied *const *)b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static uint64_t hash(const void *bytes, size_t n)
{
    uint64_t h = n, w;
    const char *p = bytes;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    for (; n; n--, p++) h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001B3);
    return h;
}

/* Constants that the steps read, with repetitions; list NULL: only counts. */
static int constants_of(const ot_step *steps, int n, ot_copied *list)
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        const ot_node *k = steps[i].node;
        for (int j = 0; j < k->n_in; j++) {
            const ot_value *v = k->in[j] && k->in[j]->base ? k->in[j]->base : k->in[j];
            size_t bytes = v && v->slab == OT_SLAB_CONST && v->data ? ot_bytes(&v->shape, v->dtype) : 0;
            if (!bytes) continue;
            if (list) list[found] = (ot_copied){ .data = v->data, .bytes = bytes };
            found++;
        }
    }
    return found;
}

static int constants_of_plan(const ot_plan *p, ot_copied *list)
{
    int n = constants_of(p->batch_steps, p->n_batch_steps, list);
    return n + constants_of(p->update_steps, p->n_update_steps, list ? list + n : NULL);
}

/* Assigns every part its offset, from *end on. */
static ot_status place_constants(ot_memory *m, int64_t *end, ot_error *err)
{
    ot_copied **order = malloc((size_t)(m->n_pieces + 1) * sizeof *order);
    if (!order) return ot_fail(err, OT_E_NOMEM, "no memory for the run");
    for (int i = 0; i < m->n_pieces; i++) {
        m->piece[i].hash = hash(m->piece[i].data, m->piece[i].bytes);
        order[i] = &m->piece[i];
    }
    qsort(order, (size_t)m->n_pieces, sizeof *order, by_content);
    for (int i = 0; i < m->n_pieces; i++) {
        const ot_copied *before = i ? order[i - 1] : NULL;
        bool same =
            before && !by_content(&order[i - 1], &order[i]) && !memcmp(before->data, order[i]->data, before->bytes);
        order[i]->offset = same ? before->offset : *end;
        if (!same) *end += padded((int64_t)order[i]->bytes);
    }
    free(order);
    return OT_OK;
}

static ot_status collect_constants(ot_memory *m, const ot_plan *const *plans, int n, ot_error *err)
{
    int all = 0, kept = 0;
    for (int i = 0; i < n; i++) all += constants_of_plan(plans[i], NULL);
    m->piece = calloc((size_t)all + 1, sizeof *m->piece);
    if (!m->piece) return ot_fail(err, OT_E_NOMEM, "no memory for the run");
    for (int i = 0, at = 0; i < n; i++) at += constants_of_plan(plans[i], m->piece + at);
    qsort(m->piece, (size_t)all, sizeof *m->piece, by_address);
    for (int i = 0; i < all; i++) {
        ot_copied *last = kept ? &m->piece[kept - 1] : NULL;
        if (last && last->data == m->piece[i].data) {
            if (m->piece[i].bytes > last->bytes) last->bytes = m->piece[i].bytes;
        } else {
            m->piece[kept++] = m->piece[i];
        }
    }
    m->n_pieces = kept;
    return OT_OK;
}

void *ot_memory_constant(const ot_memory *m, const void *data)
{
    ot_copied key = { .data = data };
    const ot_copied *p = bsearch(&key, m->piece, (size_t)m->n_pieces, sizeof key, by_address);
    return p ? m->block + p->offset : NULL;
}

/* ---- tables -------------------------------------------------------------------------- */

size_t ot_group_bytes(const ot_step *s)
{
    if (s->group < 2) return 0;
    const ot_node **n = malloc((size_t)s->group * sizeof *n);
    if (!n) return 0;
    for (int i = 0; i < s->group; i++) n[i] = s[i].node;
    size_t bytes = s->kernel->many->bytes(n, s->group);
    free(n);
    return bytes;
}

static int64_t tables_of(const ot_step *s, int n)
{
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += padded((int64_t)s[i].table_bytes) + padded((int64_t)ot_group_bytes(&s[i]));
    return bytes;
}

char *ot_memory_table(ot_memory *m, size_t bytes)
{
    char *p = m->block + m->tables;
    if (m->tables + padded((int64_t)bytes) > m->tables_end) return NULL;
    m->tables += padded((int64_t)bytes);
    return p;
}

/* ---- the whole ----------------------------------------------------------------------- */

static int64_t largest_scratch(const ot_plan *const *plans, int n)
{
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        if (plans[i]->scratch_bytes > most) most = plans[i]->scratch_bytes;
    return most;
}

/* Zeroed; a large one takes no memory until it is written.  *block: what is to be freed. */
static char *slab(int64_t bytes, void **block)
{
    enum { LINE = 64 };
    size_t n = (size_t)bytes + 2 * LINE;
    char *p = *block = calloc(1, n);
    if (!p) return NULL;
    ot_memory_ask_large_pages(p, n);
    return p + (LINE - (uintptr_t)p % LINE) % LINE;
}

static ot_status host_memory(ot_memory *m, int64_t scratch, const ot_memory *lender, ot_error *err)
{
    m->borrows = lender && ot_memory_lends(lender) >= scratch;
    m->scratch_bytes = scratch;
    m->bytes = m->lead->state_bytes + (m->borrows ? 0 : scratch);
    m->state = slab(m->lead->state_bytes, &m->own[0]);
    m->scratch = m->borrows ? lender->scratch : slab(scratch, &m->own[1]);
    if (m->state && m->scratch) return OT_OK;
    return ot_fail(err, OT_E_NOMEM, "out of memory: the plan needs %lld MiB; use a smaller --batch-size",
                   (long long)(m->bytes >> 20));
}

static ot_status device_memory(ot_memory *m, const ot_plan *const *plans, int n, int64_t room, ot_error *err)
{
    const ot_backend *b = m->device->backend;
    int64_t scratch = padded(m->lead->state_bytes), fed = scratch + padded(largest_scratch(plans, n));
    int64_t end = fed + padded(room);
    void *block;
    OT_TRY(collect_constants(m, plans, n, err));
    OT_TRY(place_constants(m, &end, err));
    m->tables = m->tables_end = end;
    for (int i = 0; i < n; i++)
        m->tables_end += tables_of(plans[i]->batch_steps, plans[i]->n_batch_steps) +
                         tables_of(plans[i]->update_steps, plans[i]->n_update_steps);
    m->bytes = m->tables_end;
    OT_TRY(b->alloc(m->device, m->bytes, &block, err));
    m->block = m->state = block;
    m->scratch = m->block + scratch;
    m->room = m->block + fed;
    for (int i = 0; i < m->n_pieces; i++)
        OT_TRY(b->upload(m->device, m->block + m->piece[i].offset, m->piece[i].data, (int64_t)m->piece[i].bytes, err));
    return OT_OK;
}

/* Weights and statistics start with the file's values, other state with zeros. */
static ot_status fill_state(ot_memory *m, ot_error *err)
{
    const ot_plan *p = m->lead;
    ot_device *d = m->device;
    ot_status s = OT_OK;
    if (d) OT_TRY(d->backend->zero(d, m->state, p->state_bytes, err));
    /* The system zeroes every page that is written first: on the CPU by several threads. */
    int threads = d ? 1 : p->threads;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1 && p->state_bytes > PARALLEL)
    for (int i = 0; i < p->n_states; i++) {
        const ot_value *v = p->states[i];
        ot_error own = { 0 };
        if (!v->data || !ot_bytes(&v->shape, v->dtype)) continue;
        if (ot_value_put(d, v, m->state + v->offset, v->data, &own) == OT_OK) continue;
#pragma omp critical
        s = ot_fail(err, own.status, "%s", own.text);
    }
    return s;
}

ot_status ot_memory_new(const ot_plan *const *plans, int n, int64_t room, const ot_memory *lender, ot_memory **out,
                        ot_error *err)
{
    *out = NULL;
    ot_memory *m = calloc(1, sizeof *m);
    if (!m) return ot_fail(err, OT_E_NOMEM, "no memory for the run");
    m->lead = plans[0];
    m->device = plans[0]->device;
    ot_status s =
        m->device ? device_memory(m, plans, n, room, err) : host_memory(m, largest_scratch(plans, n), lender, err);
    if (s == OT_OK) s = fill_state(m, err);
    if (s != OT_OK) {
        ot_memory_free(m);
        return s;
    }
    *out = m;
    return OT_OK;
}

ot_status ot_memory_take_state(ot_memory *m, const ot_memory *from, ot_error *err)
{
    int64_t n = m->lead->state_bytes;
    if (!m->device) {
        memcpy(m->state, from->state, (size_t)n);
        return OT_OK;
    }
    const ot_backend *b = m->device->backend;
    OT_TRY(b->copy(m->device, m->state, from->state, n, err));
    return b->wait(m->device, err);
}

void ot_memory_free(ot_memory *m)
{
    if (!m) return;
    if (m->block) {
        m->device->backend->free(m->device, m->block);
    } else {
        free(m->own[0]);
        free(m->own[1]);
    }
    free(m->piece);
    free(m);
}

void *ot_memory_room(const ot_memory *m) { return m->room; }
void ot_memory_idle(ot_memory *m)
{
    if (!m->device) ot_memory_give_back(m->scratch, (size_t)m->scratch_bytes);
}

int64_t ot_memory_lends(const ot_memory *m) { return m->device ? 0 : m->scratch_bytes; }
