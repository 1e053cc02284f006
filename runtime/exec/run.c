/* run.c - walks a finished plan; decides nothing.
 *
 * Memory  two slabs and a table of pointers, made once; a run allocates nothing. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/kernel.h"
#include "runtime/exec/exec.h"

typedef struct slot { /* a step with its addresses */
    const void **in;
    void       **out;
    ot_call      call;
    ot_status  (*run)(const ot_call *c); /* NULL: nothing to do, a view in place */
} slot;

struct ot_exec {
    const ot_plan *plan;
    ot_arena      *arena;
    char          *state, *scratch;
    bool           owns_state, owns_scratch;
    void         **at;    /* by value id; fed inputs change */
    slot          *every, *update;
    double        *spent; /* borrowed; NULL: nobody asks */
};

static void *address(const ot_exec *x, const ot_value *v)
{
    const ot_value *b = v->base ? v->base : v;
    switch (b->slab) {
    case OT_SLAB_STATE: return x->state + b->offset;
    case OT_SLAB_SCRATCH: return x->scratch + b->offset;
    case OT_SLAB_CONST: return (void *)(uintptr_t)b->data;
    default: return x->at[b->id];
    }
}

static ot_status bind_steps(ot_exec *x, const ot_step *steps, int n, slot **out, ot_error *err)
{
    slot *s = *out = ot_arena_alloc(x->arena, (size_t)n * sizeof *s);
    if (!s) return ot_fail(err, OT_E_NOMEM, "no memory for the run");
    for (int i = 0; i < n; i++) {
        const ot_node *k = steps[i].node;
        s[i].in = ot_arena_alloc(x->arena, (size_t)(k->n_in + 1) * sizeof *s[i].in);
        s[i].out = ot_arena_alloc(x->arena, (size_t)(k->n_out + 1) * sizeof *s[i].out);
        if (!s[i].in || !s[i].out) return ot_fail(err, OT_E_NOMEM, "no memory for the run");
        for (int j = 0; j < k->n_in; j++) s[i].in[j] = k->in[j] ? address(x, k->in[j]) : NULL;
        for (int j = 0; j < k->n_out; j++) s[i].out[j] = k->out[j] ? address(x, k->out[j]) : NULL;
        bool view = k->op == &ot_op_View && k->out[0]->base == (k->in[0]->base ? k->in[0]->base : k->in[0]);
        s[i].run = view ? NULL : steps[i].kernel->run;
        s[i].call = (ot_call){ .node = k, .in = s[i].in, .out = s[i].out, .state = steps[i].state,
                               .work = steps[i].work >= 0 ? x->scratch + steps[i].work : NULL };
    }
    return OT_OK;
}

/* Weights and statistics start as in the file, everything else at zero. */
static void fill_state(ot_exec *x)
{
    const ot_plan *p = x->plan;
    memset(x->state, 0, (size_t)p->state_bytes);
    for (int i = 0; i < p->n_states; i++) {
        const ot_value *v = p->states[i];
        size_t          n = ot_bytes(&v->shape, v->dtype);
        if (v->data && n) memcpy(x->state + v->offset, v->data, n);
    }
}

static void *slab(int64_t bytes) { return aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64); }

ot_status ot_exec_new(const ot_plan *p, void *state, void *scratch, ot_exec **out, ot_error *err)
{
    *out = NULL;
    ot_exec *x = calloc(1, sizeof *x);
    if (!x || !(x->arena = ot_arena_new())) {
        free(x);
        return ot_fail(err, OT_E_NOMEM, "no memory for the run");
    }
    x->plan = p;
    x->state = state ? state : slab(p->state_bytes);
    x->scratch = scratch ? scratch : slab(p->scratch_bytes);
    x->owns_state = !state;
    x->owns_scratch = !scratch;
    x->at = ot_arena_alloc(x->arena, (size_t)(p->graph->n_values + 1) * sizeof *x->at);
    ot_status s = x->state && x->scratch && x->at
                      ? OT_OK
                      : ot_fail(err, OT_E_NOMEM, "out of memory: the plan wants %lld MiB; a smaller --batch-size wants less",
                                (long long)((p->state_bytes + p->scratch_bytes) >> 20));
    if (s == OT_OK && x->owns_state) fill_state(x);
    if (s == OT_OK) s = bind_steps(x, p->every, p->n_every, &x->every, err);
    if (s == OT_OK) s = bind_steps(x, p->update, p->n_update, &x->update, err);
    if (s != OT_OK) {
        ot_exec_free(x);
        return s;
    }
    *out = x;
    return OT_OK;
}

void ot_exec_free(ot_exec *x)
{
    if (!x) return;
    if (x->owns_state) free(x->state);
    if (x->owns_scratch) free(x->scratch);
    ot_arena_free(x->arena);
    free(x);
}

void *ot_exec_state(ot_exec *x) { return x->state; }

void *ot_exec_bytes(ot_exec *x, const ot_value *v) { return address(x, v); }

/* Rewrites the address of a fed input wherever it, or a view of it, is read. */
static void rebind(const ot_exec *x, slot *s, int n, const ot_value *input)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < s[i].call.node->n_in; j++) {
            const ot_value *v = s[i].call.node->in[j];
            if (v && (v->base ? v->base : v) == input) s[i].in[j] = x->at[input->id];
        }
}

void ot_exec_feed(ot_exec *x, const ot_value *input, const void *bytes)
{
    void *p = (void *)(uintptr_t)bytes;
    if (x->at[input->id] == p) return;
    x->at[input->id] = p;
    rebind(x, x->every, x->plan->n_every, input);
    rebind(x, x->update, x->plan->n_update, input);
}

void ot_exec_measure(ot_exec *x, double *spent) { x->spent = spent; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ot_status walk(slot *s, int n, int threads, double *spent, ot_error *err)
{
    double start = spent ? now() : 0;
    for (int i = 0; i < n; i++) {
        if (!s[i].run) continue;
        s[i].call.err = err;
        s[i].call.threads = threads;
        OT_TRY(s[i].run(&s[i].call));
        if (!spent) continue;
        double end = now();
        spent[i] += end - start;
        start = end;
    }
    return OT_OK;
}

/* Assignments of a phase that could not be made in place. */
static void carry_out(ot_exec *x, ot_phase phase)
{
    for (int i = 0; i < x->plan->n_copies; i++) {
        const ot_assign *a = &x->plan->copies[i];
        ot_phase         made = a->value->producer ? a->value->producer->phase : OT_EVERY;
        size_t           n = ot_bytes(&a->state->shape, a->state->dtype);
        if (made == phase && n) memmove(address(x, a->state), address(x, a->value), n);
    }
}

ot_status ot_exec_every(ot_exec *x, ot_error *err)
{
    OT_TRY(walk(x->every, x->plan->n_every, x->plan->threads, x->spent, err));
    carry_out(x, OT_EVERY);
    return OT_OK;
}

ot_status ot_exec_update(ot_exec *x, ot_error *err)
{
    double *spent = x->spent ? x->spent + x->plan->n_every : NULL;
    OT_TRY(walk(x->update, x->plan->n_update, x->plan->threads, spent, err));
    carry_out(x, OT_UPDATE);
    return OT_OK;
}
