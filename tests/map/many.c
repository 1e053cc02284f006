/* many.c - several Maps of one program, and several Reduces of whole tensors, as one launch on the device: the same
 * bits as with one launch each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"
#include "tests/map/map_tests.h"
#include "tests/ops/harness.h"

enum { CALLS = 6, IN = 4, OUT = 2 };

static const int64_t sizes[CALLS] = { 5, 4096, 4097, 2, 100003, 64 };

typedef struct buffer {
    void *host, *device;
    size_t bytes;
} buffer;

typedef struct job {
    ot_device *d;
    ot_node *node[CALLS];
    ot_prep prep[CALLS];
    ot_call call[CALLS];
    buffer in[CALLS][IN], out[CALLS][OUT], work[CALLS];
    const void *in_at[CALLS][IN];
    void *out_at[CALLS][OUT];
} job;

static bool make_buffer(ot_device *d, buffer *b, const ot_value *v, dice *roll, ot_error *err)
{
    b->bytes = ot_bytes(&v->shape, v->dtype);
    b->host = calloc(1, b->bytes + 1);
    for (int64_t i = 0; roll && i < ot_numel(&v->shape); i++)
        ot_set_f64(b->host, v->dtype, i, dice_roll(roll) * 2 - 0.5);
    return d->backend->alloc(d, (int64_t)b->bytes, &b->device, err) == OT_OK &&
           d->backend->upload(d, b->device, b->host, (int64_t)b->bytes, err) == OT_OK &&
           d->backend->wait(d, err) == OT_OK;
}

/* Prepares every node, with random inputs; scalars are shared by all calls. */
static bool prepare(job *j, const ot_kernel *k, ot_error *err)
{
    dice roll = { 3 };
    for (int c = 0; c < CALLS; c++) {
        const ot_node *n = j->node[c];
        j->prep[c] = (ot_prep){ .threads = 1, .err = err, .device = j->d };
        if (k->prepare(n, &j->prep[c]) != OT_OK) return false;
        for (int i = 0; i < n->n_in; i++) {
            bool again = c > 0 && n->in[i] == j->node[0]->in[i];
            if (again) j->in[c][i] = j->in[0][i];
            else if (!make_buffer(j->d, &j->in[c][i], n->in[i], &roll, err)) return false;
            j->in_at[c][i] = j->in[c][i].device;
        }
        for (int o = 0; o < n->n_out; o++) {
            if (!make_buffer(j->d, &j->out[c][o], n->out[o], NULL, err)) return false;
            j->out_at[c][o] = j->out[c][o].device;
        }
        if (j->prep[c].work && j->d->backend->alloc(j->d, (int64_t)j->prep[c].work, &j->work[c].device, err) != OT_OK)
            return false;
        j->call[c] = (ot_call){ .node = n,
                                .in = j->in_at[c],
                                .out = j->out_at[c],
                                .work = j->work[c].device,
                                .state = j->prep[c].state,
                                .threads = 1,
                                .err = err,
                                .device = j->d,
                                .step = c };
    }
    return true;
}

/* Results to the host; true: the same as before (before: the first time there is nothing to compare). */
static bool fetch(job *j, bool compare, ot_error *err)
{
    bool same = true;
    for (int c = 0; c < CALLS; c++)
        for (int o = 0; o < j->node[c]->n_out; o++) {
            buffer *b = &j->out[c][o];
            char *got = malloc(b->bytes + 1);
            if (j->d->backend->download(j->d, got, b->device, (int64_t)b->bytes, err) != OT_OK ||
                j->d->backend->wait(j->d, err) != OT_OK)
                same = false;
            if (compare && memcmp(got, b->host, b->bytes)) {
                printf("many: %s of %lld elements: output %d differs from what the call gives alone\n",
                       j->node[c]->op->name, (long long)sizes[c], o);
                same = false;
            }
            memcpy(b->host, got, b->bytes);
            if (j->d->backend->zero(j->d, b->device, (int64_t)b->bytes, err) != OT_OK) same = false;
            free(got);
        }
    return same;
}

static bool run_group(job *j, const ot_grouped *many, ot_error *err)
{
    const ot_call *calls[CALLS];
    const ot_node *nodes[CALLS];
    void *device = NULL;
    for (int c = 0; c < CALLS; c++) calls[c] = &j->call[c], nodes[c] = j->node[c];
    size_t bytes = many->bytes(nodes, CALLS);
    char *table = guarded_new(bytes);
    many->fill(calls, CALLS, table);
    bool ok = guarded_intact(table, bytes) && j->d->backend->alloc(j->d, (int64_t)bytes, &device, err) == OT_OK &&
              j->d->backend->upload(j->d, device, table, (int64_t)bytes, err) == OT_OK &&
              many->run(calls, CALLS, device) == OT_OK && j->d->backend->wait(j->d, err) == OT_OK;
    j->d->backend->free(j->d, device);
    guarded_free(table);
    return ok;
}

static void clean(job *j, const ot_kernel *k)
{
    for (int c = 0; c < CALLS; c++) {
        for (int i = 0; i < j->node[c]->n_in; i++) {
            if (c > 0 && j->in[c][i].device == j->in[0][i].device) continue;
            j->d->backend->free(j->d, j->in[c][i].device);
            free(j->in[c][i].host);
        }
        for (int o = 0; o < j->node[c]->n_out; o++) {
            j->d->backend->free(j->d, j->out[c][o].device);
            free(j->out[c][o].host);
        }
        j->d->backend->free(j->d, j->work[c].device);
        if (k->release && j->prep[c].state) k->release(j->prep[c].state);
    }
}

static bool together_as_alone(job *j, ot_error *err)
{
    const ot_kernel *k = ot_kernels(j->node[0]->op, j->d)[0];
    bool ok = true;
    for (int a = 0; a < CALLS; a++) ok = ok && k->many && k->many->joins(j->node[0], j->node[a]);
    if (!ok) {
        printf("many: calls of %s do not join\n", j->node[0]->op->name);
        return false;
    }
    ok = prepare(j, k, err);
    for (int c = 0; c < CALLS && ok; c++) ok = k->run(&j->call[c]) == OT_OK;
    ok = ok && fetch(j, false, err) && run_group(j, k->many, err) && fetch(j, true, err);
    if (!ok) printf("many: %s: %s\n", j->node[0]->op->name, err->text);
    clean(j, k);
    return ok;
}

/* w - rate * g, and g again in 16 bits; `rate` is made of two doubles for all elements. */
static void add_maps(job *j, ot_build *b)
{
    ot_program m = {
        .n_in = 4,
        .in_class = { OT_CLASS_F32, OT_CLASS_F32, OT_CLASS_F64, OT_CLASS_F64 },
        .n_inst = 4,
        .n_out = 2,
        .out = { 7, 1 },
        .out_dtype = { OT_F32, OT_F16 },
        .inst = { { .row = OT_FN_Pow, .cls = OT_CLASS_F64, .arg = { 2, 3, -1, -1, -1 } },
                  { .row = OT_FN_Convert, .cls = OT_CLASS_F32, .arg = { 4, -1, -1, -1, -1 } },
                  { .row = OT_FN_Mul, .cls = OT_CLASS_F32, .arg = { 5, 1, -1, -1, -1 } },
                  { .row = OT_FN_Sub, .cls = OT_CLASS_F32, .arg = { 0, 6, -1, -1, -1 } } },
    };
    ot_shape one = { .rank = 0 };
    ot_value *rate = ot_graph_value(b->graph, "rate", OT_INPUT, OT_F64, &one),
             *t = ot_graph_value(b->graph, "t", OT_INPUT, OT_F64, &one);
    for (int c = 0; c < CALLS; c++) {
        ot_shape s = { .rank = 1, .dim = { sizes[c] } };
        ot_value *w = ot_graph_value(b->graph, "w", OT_INPUT, OT_F32, &s),
                 *g = ot_graph_value(b->graph, "g", OT_INPUT, OT_F32, &s);
        j->node[c] = ot_map_emit_program(b, &m, (ot_value *[]){ w, g, rate, t });
    }
}

/* Sums of squares: those of sizes that four divides join, the others would be another text. */
static void add_reduces(job *j, ot_build *b)
{
    for (int c = 0; c < CALLS; c++) {
        ot_shape s = { .rank = 2, .dim = { 4, sizes[c] } };
        ot_reduce r = { .kind = OT_REDUCE_SUMSQ, .axes = 3 };
        ot_value *x = ot_graph_value(b->graph, "x", OT_INPUT, OT_F32, &s);
        j->node[c] = ot_emit(b, &ot_op_Reduce, &r, &x, 1)->producer;
    }
}

bool test_many(ot_device *d)
{
    bool ok = true;
    for (int which = 0; which < 2; which++) {
        ot_error err = { 0 };
        ot_graph *g = ot_graph_new(&err);
        ot_build b = { .graph = g };
        job *j = calloc(1, sizeof *j);
        j->d = d;
        if (which) add_reduces(j, &b);
        else add_maps(j, &b);
        ok = together_as_alone(j, &err) && ok;
        free(j);
        ot_graph_free(g);
    }
    printf("many: %s\n", ok ? "one by one and together give the same bits" : "FAILED");
    return ok;
}
