/* run.c - runs a finished plan; makes no decisions.
 *
 * Memory  ot_memory's slabs and a table of addresses, made once; a run allocates nothing.
 *
 * On a device a phase is submitted step by step the first time (libraries then finish their preparations), captured
 * as a graph the second time and launched from then on: one call per run.  Scalars that the host reads after a run
 * are not in the slab but after the device's fault record, so that one copy returns all of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/kernel.h"
#include "runtime/exec/memory.h"

typedef struct slot { /* a step with its addresses */
    const void **in;
    void **out;
    ot_call call;
    ot_status (*run)(const ot_call *c); /* NULL: nothing to do: a view in place, or run by its group */
    const ot_call **group;              /* calls of a group, at its first step; NULL: none */
    int n_group;
    char *group_table; /* in the device's memory */
    size_t group_bytes;
} slot;

/* For times of kernels on a device: bytes that are cleared at once, and seconds that this may go on; what the submission of
 * a kernel takes as long as that is not known. */
enum { AHEAD = 64 << 20 };
static const double longest = 10e-3, guess = 10e-6;

typedef enum phase { EVERY, UPDATE, STEP, PHASES } phase;

/* loss, grad_norm, correct, counted, divisor, then for each head its loss, correct, counted and divisor: offsets 64, 72 ... of the
 * outbox */
enum { FIXED_RESULTS = 5, OF_HEAD = 4, FIRST_RESULT = 64 };
_Static_assert(FIRST_RESULT + 8 * (FIXED_RESULTS + OF_HEAD * OT_HEADS) <= OT_OUTBOX, "every result has its place");

struct ot_exec {
    const ot_plan *plan;
    ot_device *device; /* NULL: the CPU */
    ot_arena *arena;
    ot_memory *memory;
    bool owns_memory;
    void **at; /* by value id; those of fed inputs change */
    slot *batch_steps, *update_steps;
    ot_timing *timing; /* borrowed; NULL: not measured */
    void **marks;      /* device: events around the kernels of a phase; NULL: never measured */
    int n_marks;
    void *ahead; /* device: memory that is cleared while the kernels of a measured phase are submitted; NULL: none */
    double clearing;      /* seconds of that */
    double submitting[2]; /* seconds in which the kernels of `every`, of the update were submitted the last time */
    const volatile sig_atomic_t *stop; /* borrowed; NULL: cannot be stopped */
    int free;                          /* number of steps of `every` before the first that writes to the state */
    bool stopped;                      /* the last run of `every` */
    bool groups_filled;
    int given[PHASES]; /* runs of a phase so far, up to 2 */
    ot_device_graph *recorded[PHASES];
};

/* ---- addresses ----------------------------------------------------------------------- */

static const ot_value *base_of(const ot_value *v) { return v->base ? v->base : v; }

static const ot_value *result(const ot_exec *x, int i)
{
    const ot_plan *p = x->plan;
    if (i >= FIXED_RESULTS) {
        const ot_head *h = &p->head[(i - FIXED_RESULTS) / OF_HEAD];
        int kept = (int[]){ h->kept, h->right, h->of, h->divisor }[(i - FIXED_RESULTS) % OF_HEAD];
        return kept < 0 ? NULL : p->kept[kept];
    }
    return (const ot_value *[]){ p->loss, p->grad_norm, p->correct, p->counted, p->divisor }[i];
}

static int results(const ot_exec *x) { return FIXED_RESULTS + OF_HEAD * x->plan->n_heads; }

/* The offset of result i in the outbox; -1: it is elsewhere, and copied there. */
static int outbox_of(const ot_exec *x, const ot_value *base)
{
    for (int i = 0; i < results(x); i++) {
        const ot_value *r = result(x, i);
        if (r && base_of(r) == base && base->slab == OT_SLAB_SCRATCH && ot_bytes(&base->shape, base->dtype) <= 8)
            return i;
    }
    return -1;
}

static char *outbox_at(const ot_exec *x, int i) { return (char *)x->device->fault + FIRST_RESULT + 8 * i; }

static void *address(const ot_exec *x, const ot_value *v)
{
    const ot_value *b = base_of(v);
    int i = x->device ? outbox_of(x, b) : -1;
    if (i >= 0) return outbox_at(x, i);
    switch (b->slab) {
    case OT_SLAB_STATE: return x->memory->state + b->offset;
    case OT_SLAB_SCRATCH: return x->memory->scratch + b->offset;
    case OT_SLAB_CONST: return x->device ? ot_memory_constant(x->memory, b->data) : (void *)(uintptr_t)b->data;
    default: return x->at[b->id];
    }
}

/* ---- binding ------------------------------------------------------------------------- */

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for the run"); }

/* Data that a kernel's preparation needs in device memory. */
static ot_status bind_table(ot_exec *x, const ot_step *s, slot *k, ot_error *err)
{
    k->call.table = s->table;
    if (!x->device || !s->table_bytes) return OT_OK;
    char *at = ot_memory_table(x->memory, s->table_bytes);
    if (!at) return ot_fail(err, OT_E_INTERNAL, "%s: internal error: its table was not planned", s->node->name);
    k->call.table = at;
    return x->device->backend->upload(x->device, at, s->table, (int64_t)s->table_bytes, err);
}

static ot_status bind_steps(ot_exec *x, const ot_step *steps, int n, int first, slot **out, ot_error *err)
{
    slot *s = *out = ot_arena_alloc(x->arena, (size_t)(n + 1) * sizeof *s);
    if (!s) return no_memory(err);
    for (int i = 0; i < n; i++) {
        const ot_node *k = steps[i].node;
        s[i].in = ot_arena_alloc(x->arena, (size_t)(k->n_in + 1) * sizeof *s[i].in);
        s[i].out = ot_arena_alloc(x->arena, (size_t)(k->n_out + 1) * sizeof *s[i].out);
        if (!s[i].in || !s[i].out) return no_memory(err);
        for (int j = 0; j < k->n_in; j++) s[i].in[j] = k->in[j] ? address(x, k->in[j]) : NULL;
        for (int j = 0; j < k->n_out; j++) s[i].out[j] = k->out[j] ? address(x, k->out[j]) : NULL;
        s[i].run = ot_step_runs(&steps[i]) ? steps[i].kernel->run : NULL;
        s[i].call = (ot_call){ .node = k,
                               .in = s[i].in,
                               .out = s[i].out,
                               .state = steps[i].state,
                               .step = first + i,
                               .work = steps[i].work >= 0 ? x->memory->scratch + steps[i].work : NULL,
                               .device = x->device };
        OT_TRY(bind_table(x, &steps[i], &s[i], err));
    }
    return OT_OK;
}

/* The first step of a group runs all of its steps. */
static ot_status bind_groups(ot_exec *x, const ot_step *steps, int n, slot *s, ot_error *err)
{
    for (int i = 0; i < n; i++) {
        int count = steps[i].group;
        if (count < 2) continue;
        s[i].group = ot_arena_alloc(x->arena, (size_t)count * sizeof *s[i].group);
        if (!s[i].group) return no_memory(err);
        for (int k = 0; k < count; k++) {
            s[i].group[k] = &s[i + k].call;
            s[i + k].run = NULL;
        }
        s[i].n_group = count;
        s[i].group_bytes = ot_group_bytes(&steps[i]);
        s[i].group_table = ot_memory_table(x->memory, s[i].group_bytes);
        if (!s[i].group_table)
            return ot_fail(err, OT_E_INTERNAL,
                           "%s: internal error: the table of its group was not "
                           "planned",
                           steps[i].node->name);
    }
    return OT_OK;
}

/* The tables of groups contain addresses, also of fed values: they are filled before the first run, and again when a
 * feed moves. */
static ot_status fill_groups(ot_exec *x, const ot_step *steps, int n, slot *s, ot_error *err)
{
    for (int i = 0; i < n; i++) {
        if (!s[i].group || !s[i].group_bytes) continue;
        void *table = calloc(1, s[i].group_bytes);
        if (!table) return no_memory(err);
        steps[i].kernel->many->fill(s[i].group, s[i].n_group, table);
        ot_status r = x->device->backend->upload(x->device, s[i].group_table, table, (int64_t)s[i].group_bytes, err);
        free(table);
        OT_TRY(r);
    }
    return OT_OK;
}

static ot_status bind(ot_exec *x, ot_error *err)
{
    const ot_plan *p = x->plan;
    OT_TRY(bind_steps(x, p->batch_steps, p->n_batch_steps, 0, &x->batch_steps, err));
    OT_TRY(bind_steps(x, p->update_steps, p->n_update_steps, p->n_batch_steps, &x->update_steps, err));
    if (!x->device) return OT_OK;
    OT_TRY(bind_groups(x, p->batch_steps, p->n_batch_steps, x->batch_steps, err));
    return bind_groups(x, p->update_steps, p->n_update_steps, x->update_steps, err);
}

/* ---- making ---------------------------------------------------------------------------- */

/* The first step of `every` that writes to the state. */
static int first_writer(const ot_plan *p)
{
    for (int i = 0; i < p->n_batch_steps; i++)
        for (int j = 0; j < p->batch_steps[i].node->n_out; j++) {
            const ot_value *v = p->batch_steps[i].node->out[j];
            if (v && base_of(v)->slab == OT_SLAB_STATE) return i;
        }
    return p->n_batch_steps;
}

ot_status ot_exec_new(const ot_plan *p, ot_memory *m, ot_exec **out, ot_error *err)
{
    *out = NULL;
    ot_exec *x = calloc(1, sizeof *x);
    if (!x || !(x->arena = ot_arena_new())) {
        free(x);
        return no_memory(err);
    }
    x->plan = p;
    x->device = p->device;
    x->memory = m;
    x->owns_memory = !m;
    x->free = first_writer(p);
    x->at = ot_arena_alloc(x->arena, (size_t)(p->graph->n_values + 1) * sizeof *x->at);
    ot_status s = x->at ? OT_OK : no_memory(err);
    if (s == OT_OK && !m) s = ot_memory_new(&p, 1, 0, NULL, &x->memory, err);
    if (s == OT_OK) s = bind(x, err);
    if (s != OT_OK) {
        ot_exec_free(x);
        return s;
    }
    *out = x;
    return OT_OK;
}

static void forget(ot_exec *x)
{
    for (int i = 0; i < PHASES; i++) {
        if (x->recorded[i]) x->device->backend->graph_free(x->device, x->recorded[i]);
        x->recorded[i] = NULL;
    }
}

void ot_exec_free(ot_exec *x)
{
    if (!x) return;
    forget(x);
    for (int i = 0; i < x->n_marks; i++) x->device->backend->event_free(x->device, x->marks[i]);
    if (x->ahead) x->device->backend->free(x->device, x->ahead);
    if (x->owns_memory) ot_memory_free(x->memory);
    ot_arena_free(x->arena);
    free(x);
}

/* ---- values ---------------------------------------------------------------------------- */

void *ot_exec_bytes(ot_exec *x, const ot_value *v) { return address(x, v); }

ot_status ot_exec_read(ot_exec *x, const ot_value *v, void *to, ot_error *err)
{
    const ot_value *b = base_of(v);
    if (b->slab == OT_SLAB_CONST) return ot_value_get(NULL, v, b->data, to, err);
    return ot_value_get(x->device, v, address(x, v), to, err);
}

ot_status ot_exec_write(ot_exec *x, const ot_value *v, const void *from, ot_error *err)
{
    return ot_value_put(x->device, v, address(x, v), from, err);
}

/* Updates the address of a fed input in every step that reads it or a view of it. */
static void rebind(const ot_exec *x, slot *s, int n, const ot_value *input)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < s[i].call.node->n_in; j++) {
            const ot_value *v = s[i].call.node->in[j];
            if (v && base_of(v) == input) s[i].in[j] = x->at[input->id];
        }
}

void ot_exec_feed(ot_exec *x, const ot_value *input, const void *bytes)
{
    void *p = (void *)(uintptr_t)bytes;
    if (x->at[input->id] == p) return;
    x->at[input->id] = p;
    rebind(x, x->batch_steps, x->plan->n_batch_steps, input);
    rebind(x, x->update_steps, x->plan->n_update_steps, input);
    x->groups_filled = false;
    forget(x);
}

/* ---- running --------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ot_status clear_ahead(ot_exec *x, int times, ot_error *err)
{
    for (int i = 0; i < times; i++) OT_TRY(x->device->backend->zero(x->device, x->ahead, AHEAD, err));
    return OT_OK;
}

/* Where the device has no memory to clear, times of short kernels include the waits for their submission. */
static ot_status make_ahead(ot_exec *x, ot_error *err)
{
    const ot_backend *b = x->device->backend;
    ot_error ignored = { 0 };
    if (b->alloc(x->device, AHEAD, &x->ahead, &ignored) != OT_OK) return OT_OK;
    OT_TRY(clear_ahead(x, 1, err));
    OT_TRY(b->event_record(x->device, x->marks[0], err));
    OT_TRY(clear_ahead(x, 1, err));
    OT_TRY(b->event_record(x->device, x->marks[1], err));
    OT_TRY(b->event_seconds(x->device, x->marks[0], x->marks[1], &x->clearing, err));
    x->submitting[0] = guess * x->plan->n_batch_steps;
    x->submitting[1] = guess * x->plan->n_update_steps;
    return OT_OK;
}

/* An event measures a kernel only where the kernel has been submitted when the one before it ends. */
static ot_status run_ahead(ot_exec *x, bool every, ot_error *err)
{
    double lead = x->submitting[every ? 0 : 1];
    if (!x->ahead || !(x->clearing > 0)) return OT_OK;
    return clear_ahead(x, 1 + (int)((lead < longest ? lead : longest) / x->clearing), err);
}

ot_status ot_exec_measure(ot_exec *x, ot_timing *t, ot_error *err)
{
    const ot_plan *p = x->plan;
    int n = 1 + (p->n_batch_steps > p->n_update_steps ? p->n_batch_steps : p->n_update_steps);
    if (t && x->device && !x->marks) {
        if (n < 2) n = 2;
        x->marks = ot_arena_alloc(x->arena, (size_t)n * sizeof *x->marks);
        if (!x->marks) return no_memory(err);
        for (; x->n_marks < n; x->n_marks++)
            OT_TRY(x->device->backend->event_new(x->device, &x->marks[x->n_marks], err));
        OT_TRY(make_ahead(x, err));
    }
    x->timing = t;
    return OT_OK;
}

/* A named range for profilers; NULL ends it. */
static void range(const ot_exec *x, const char *name)
{
    if (x->device) x->device->backend->range(x->device, name);
}

static ot_status run_slot(ot_exec *x, slot *s, const ot_step *step, ot_error *err)
{
    s->call.err = err;
    s->call.threads = x->plan->threads;
    if (!s->group) return s->run ? s->run(&s->call) : OT_OK;
    for (int k = 0; k < s->n_group; k++) s[k].call.err = err;
    return step->kernel->many->run(s->group, s->n_group, s->group_table);
}

void ot_exec_stop(ot_exec *x, const volatile sig_atomic_t *stop) { x->stop = stop; }

bool ot_exec_stopped(const ot_exec *x) { return x->stopped; }

static bool ends_here(const ot_exec *x, const slot *s, int i)
{
    return x->stop && s == x->batch_steps && i <= x->free && *x->stop;
}

/* Kernel i of a phase has been run, or submitted; -1: the phase begins.  Returns when. */
static ot_status mark(ot_exec *x, int i, int first, double begun, double *before, ot_error *err)
{
    if (x->device) return x->device->backend->event_record(x->device, x->marks[i + 1], err);
    double end = now();
    if (i >= 0) x->timing->spent[first + i] += end - *before;
    if (i >= 0 && x->timing->began) x->timing->began[first + i] = *before - begun;
    *before = end;
    return OT_OK;
}

/* On a device, after a phase: what its events say. */
static ot_status read_marks(ot_exec *x, int first, int n, ot_error *err)
{
    double at = 0, seconds;
    for (int i = 0; i < n; i++) {
        OT_TRY(x->device->backend->event_seconds(x->device, x->marks[i], x->marks[i + 1], &seconds, err));
        x->timing->spent[first + i] += seconds;
        if (x->timing->began) x->timing->began[first + i] = at;
        at += seconds;
    }
    return OT_OK;
}

static ot_status walk(ot_exec *x, slot *s, const ot_step *steps, int n, ot_error *err)
{
    bool timed = x->timing, every = s == x->batch_steps;
    int first = every ? 0 : x->plan->n_batch_steps;
    x->stopped = false;
    if (timed && x->device) OT_TRY(run_ahead(x, every, err));
    double begun = timed ? now() : 0, before = begun;
    if (timed) OT_TRY(mark(x, -1, first, begun, &before, err));
    for (int i = 0; i < n; i++) {
        if (ends_here(x, s, i)) {
            x->stopped = true;
            return OT_OK;
        }
        range(x, steps[i].node->name);
        ot_status status = run_slot(x, &s[i], &steps[i], err);
        range(x, NULL);
        OT_TRY(status);
        if (timed) OT_TRY(mark(x, i, first, begun, &before, err));
    }
    if (!timed) return OT_OK;
    *(every ? &x->timing->batches : &x->timing->updates) += 1;
    x->submitting[every ? 0 : 1] = now() - begun;
    return x->device ? read_marks(x, first, n, err) : OT_OK;
}

/* Assignments of a phase that are not done in place. */
static ot_status carry_out(ot_exec *x, ot_phase of, ot_error *err)
{
    for (int i = 0; i < x->plan->n_copies; i++) {
        const ot_assign *a = &x->plan->copies[i];
        ot_phase made = a->value->producer ? a->value->producer->phase : OT_PHASE_BATCH;
        size_t n = ot_bytes(&a->state->shape, a->state->dtype);
        void *to = address(x, a->state), *from = address(x, a->value);
        if (made != of || !n) continue;
        if (x->device) OT_TRY(x->device->backend->copy(x->device, to, from, (int64_t)n, err));
        else memmove(to, from, n);
    }
    return OT_OK;
}

/* Results that are not in the outbox: in the state, a constant, an input. */
static ot_status copy_results(ot_exec *x, ot_error *err)
{
    for (int i = 0; i < results(x); i++) {
        const ot_value *r = result(x, i);
        if (!r || !address(x, r) || outbox_of(x, base_of(r)) == i) continue;
        OT_TRY(x->device->backend->copy(x->device, outbox_at(x, i), address(x, r),
                                        (int64_t)ot_bytes(&r->shape, r->dtype), err));
    }
    return OT_OK;
}

static ot_status give(ot_exec *x, phase f, ot_error *err)
{
    const ot_plan *p = x->plan;
    if (f != UPDATE) {
        OT_TRY(walk(x, x->batch_steps, p->batch_steps, p->n_batch_steps, err));
        if (x->stopped) return OT_OK;
        OT_TRY(carry_out(x, OT_PHASE_BATCH, err));
    }
    if (f != EVERY) {
        OT_TRY(walk(x, x->update_steps, p->update_steps, p->n_update_steps, err));
        OT_TRY(carry_out(x, OT_PHASE_UPDATE, err));
    }
    return x->device ? copy_results(x, err) : OT_OK;
}

static ot_status record(ot_exec *x, phase f, ot_error *err)
{
    const ot_backend *b = x->device->backend;
    ot_error ignored = { 0 };
    OT_TRY(b->capture_begin(x->device, err));
    ot_status s = give(x, f, err);
    ot_status end = b->capture_end(x->device, &x->recorded[f], s ? &ignored : err); /* ends the capture in any case */
    if (s && !end) forget(x);
    return s ? s : end;
}

static ot_status run(ot_exec *x, phase f, ot_error *err)
{
    if (!x->device) return give(x, f, err);
    if (!x->groups_filled) {
        OT_TRY(fill_groups(x, x->plan->batch_steps, x->plan->n_batch_steps, x->batch_steps, err));
        OT_TRY(fill_groups(x, x->plan->update_steps, x->plan->n_update_steps, x->update_steps, err));
        x->groups_filled = true;
    }
    if (x->timing) return give(x, f, err);
    if (!x->given[f]) {
        x->given[f] = 1;
        return give(x, f, err);
    }
    if (!x->recorded[f]) OT_TRY(record(x, f, err));
    range(x, f == EVERY ? "batch" : f == UPDATE ? "update" : "step");
    ot_status s = x->device->backend->launch(x->device, x->recorded[f], err);
    range(x, NULL);
    return s;
}

ot_status ot_exec_batch(ot_exec *x, ot_error *err) { return run(x, EVERY, err); }

ot_status ot_exec_update(ot_exec *x, ot_error *err) { return run(x, UPDATE, err); }

ot_status ot_exec_step(ot_exec *x, ot_error *err) { return run(x, STEP, err); }

/* ---- results --------------------------------------------------------------------------- */

ot_status ot_exec_report(ot_exec *x, void *outbox, ot_error *err)
{
    return x->device->backend->download(x->device, outbox, x->device->fault, OT_OUTBOX, err);
}

/* A kernel's fault, worded by its operator. */
static ot_status fault(const ot_exec *x, const ot_fault *f, ot_error *err)
{
    const ot_plan *p = x->plan;
    ot_error ignored = { 0 };
    int i = f->step - 1;
    bool known = i >= 0 && i < p->n_batch_steps + p->n_update_steps;
    const ot_node *n = !known                 ? NULL
                       : i < p->n_batch_steps ? p->batch_steps[i].node
                                              : p->update_steps[i - p->n_batch_steps].node;
    (void)!x->device->backend->zero(x->device, x->device->fault, sizeof *f, &ignored); /* the device is usable again */
    if (!n)
        return ot_fail(err, OT_E_DEVICE, "device error of kind %d at step %d, value %lld", f->kind, i,
                       (long long)f->value);
    if (n->op->fault) return n->op->fault(n, f->value, err);
    return ot_fail(err, OT_E_DATA, "%s: index %lld is out of range", n->name, (long long)f->value);
}

ot_status ot_exec_numbers(ot_exec *x, const void *outbox, ot_numbers *out, ot_error *err)
{
    double *number[] = { &out->loss, &out->grad_norm, &out->correct, &out->counted, &out->divisor };
    if (outbox) {
        ot_fault f;
        memcpy(&f, outbox, sizeof f);
        if (f.step) return fault(x, &f, err);
    }
    for (int i = 0; i < results(x); i++) {
        const ot_value *r = result(x, i);
        const char *at = outbox ? (const char *)outbox + FIRST_RESULT + 8 * i : NULL;
        double *of_head[] = { out->head, out->right, out->of, out->divisors };
        double *to =
            i < FIXED_RESULTS ? number[i] : of_head[(i - FIXED_RESULTS) % OF_HEAD] + (i - FIXED_RESULTS) / OF_HEAD;
        const void *constant =
            r && base_of(r)->slab == OT_SLAB_CONST ? base_of(r)->data : NULL; /* no kernel reads it: it may not exist */
        *to = r ? ot_get_f64(constant ? constant : at ? at : address(x, r), r->dtype, 0) : (double)NAN;
    }
    return OT_OK;
}
