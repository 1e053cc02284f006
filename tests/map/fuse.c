/* fuse.c - the fuse pass on random graphs of Maps: the same bits as without it, and far fewer nodes; for a device Reduces
 * run programs too.
 *
 * A graph is a random mix of element-wise rows over inputs of several types and broadcast shapes, with
 * casts to narrower types on the way, results read several times, and nodes that must not be fused
 * between them.  It runs node by node through the reference before and after the pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"
#include "runtime/passes/passes.h"
#include "tests/map/map_tests.h"
#include "tests/ops/harness.h"

enum { N_INPUTS = 6, N_NODES = 60 };

static const ot_dtype types[] = { OT_F32, OT_F32, OT_F64, OT_I32, OT_BOOL, OT_F16 };

static int pick(dice *d, int n) { return (int)(dice_roll(d) * n); }

/* x times its coordinate along an axis, plus a random number of its place. */
static ot_value *by_position(ot_build *b, dice *d, ot_value *x)
{
    ot_class cls = ot_class_of(x->dtype);
    ot_program m = {
        .n_in = 3, .in_class = { (uint8_t)cls, OT_CLASS_U64, OT_CLASS_U64 }, .n_out = 1, .out_dtype = { (uint8_t)x->dtype },
        .n_inst = 5, .out = { 7 },
        .inst = {
            { .row = OT_FN_Index, .cls = (uint8_t)cls, .arg = { -1, -1, -1, -1, -1 }, .p = pick(d, 3) },
            { .row = OT_FN_Mul, .cls = (uint8_t)cls, .arg = { 0, 3, -1, -1, -1 } },
            { .row = OT_FN_Random, .cls = OT_CLASS_F32, .arg = { 1, 2, -1, -1, -1 }, .p = pick(d, 9) },
            { .row = OT_FN_Convert, .cls = (uint8_t)cls, .arg = { 5, -1, -1, -1, -1 } },
            { .row = OT_FN_Add, .cls = (uint8_t)cls, .arg = { 4, 6, -1, -1, -1 } },
        },
    };
    ot_node *n = ot_map_emit_program(b, &m, (ot_value *[]){ x, ot_graph_seed(b->graph), ot_graph_counter(b->graph) });
    return n ? n->out[0] : NULL;
}

/* Rows that every kernel computes exactly alike, so that comparisons downstream agree. */
static ot_value *random_row(ot_build *b, dice *d, ot_value *x, ot_value *y, ot_value *z)
{
    static const int ones[] = {
        OT_FN_Neg, OT_FN_Abs, OT_FN_Softsign, OT_FN_Round, OT_FN_Relu, OT_FN_Copy, OT_FN_Square
    };
    static const int twos[] = { OT_FN_Add, OT_FN_Sub, OT_FN_Mul, OT_FN_Max, OT_FN_Min, OT_FN_Greater, OT_FN_Equal };
    static const ot_dtype to[] = { OT_F32, OT_F16, OT_BF16, OT_F64, OT_I8, OT_BOOL, OT_U8 };
    switch (pick(d, 7)) {
    case 6: return by_position(b, d, x);
    case 0: return ot_map1(b, ones[pick(d, OT_LEN(ones))], 0, 0, x);
    case 1: return ot_cast(b, x, to[pick(d, OT_LEN(to))]);
    case 2: return ot_map3(b, OT_FN_Where, 0, 0, ot_map2(b, OT_FN_Less, 0, 0, x, y), y, z);
    case 3: return ot_map2(b, OT_FN_Mul, 0, 0, x, ot_scalar(b, x->dtype, 0.75));
    default: return ot_map2(b, twos[pick(d, OT_LEN(twos))], 0, 0, x, y);
    }
}

static ot_graph *random_graph(uint64_t seed, ot_error *err, ot_value *in[N_INPUTS])
{
    static const ot_shape shapes[] = {
        { 3, { 3, 5, 7 } }, { 3, { 3, 5, 7 } }, { 2, { 5, 7 } }, { 3, { 3, 1, 7 } }, { 0, { 0 } }, { 3, { 3, 5, 7 } },
    };
    dice d = { seed };
    ot_graph *g = ot_graph_new(err);
    ot_build b = { .graph = g };
    ot_value *v[N_INPUTS + N_NODES];
    int n = 0;
    for (int i = 0; i < N_INPUTS; i++) {
        v[n++] = in[i] = ot_graph_value(g, "x", OT_INPUT, types[i], &shapes[i]);
        ot_graph_input(g, in[i]);
    }
    for (int i = 0; i < N_NODES; i++) {
        ot_value *x = v[pick(&d, n)], *y = v[n - 1 - pick(&d, n < 5 ? n : 5)], *z = v[pick(&d, n)];
        if (pick(&d, 12) == 0) { /* a node in the way */
            int64_t axis = 0;
            v[n] = x->shape.rank == 3 && x->dtype != OT_BOOL ? ot_sum(&b, x, &axis, 1, true) : x;
        } else {
            v[n] = random_row(&b, &d, x, y, z);
        }
        if (!v[n]) break;
        n++;
        if (pick(&d, 10) == 0) ot_graph_output(g, v[n - 1]);
    }
    ot_graph_output(g, v[n - 1]);
    return g;
}

static bool fill_and_run(ot_graph *g, memory *m, ot_value *const in[N_INPUTS], ot_error *err)
{
    dice d = { 5 };
    *m = memory_new(g);
    for (int i = 0; i < N_INPUTS; i++)
        for (int64_t k = 0; k < ot_numel(&in[i]->shape); k++)
            ot_set_f64(memory_of(m, in[i]), in[i]->dtype, k, types[i] == OT_BOOL ? pick(&d, 2) : dice_roll(&d) * 4 - 2);
    if (g->seed) *(uint64_t *)memory_of(m, g->seed) = 11;
    if (g->counter) *(uint64_t *)memory_of(m, g->counter) = 4;
    return graph_run(g, NULL, m, err) == OT_OK;
}

/* Every kernel of every node agrees with the reference. */
static bool kernels_agree(const ot_graph *g, memory *m, const char *name, ot_device *d)
{
    bool ok = true;
    for (const ot_node *n = g->first; n && ok; n = n->next) ok = kernels_compare(name, n, m, 2e-5, d) >= 0;
    return ok;
}

static int count_programs(const ot_graph *g)
{
    int reduces = 0;
    for (const ot_node *n = g->first; n; n = n->next)
        reduces += n->op == &ot_op_Reduce && ((const ot_reduce *)n->attrs)->program;
    return reduces;
}

/* counts: nodes before and after, Reduces that took a Map upon themselves. */
static bool fused_equals_plain(uint64_t seed, ot_device *d, int counts[3])
{
    ot_error err = { 0 };
    ot_value *in[N_INPUTS];
    memory plain = { 0 }, fused = { 0 };
    char name[64];
    ot_graph *g = random_graph(seed, &err, in);
    ot_plan p = { .graph = g };
    ot_config c = { .device = d };
    snprintf(name, sizeof name, "graph %llu", (unsigned long long)seed);
    if (err.status || !fill_and_run(g, &plain, in, &err)) {
        printf("%s: %s\n", name, err.text);
        return false;
    }
    counts[0] += g->n_nodes;
    bool ok =
        ot_pass_fuse(&p, &c) == OT_OK && ot_graph_verify(g, true, &err) == OT_OK && fill_and_run(g, &fused, in, &err);
    counts[1] += g->n_nodes;
    counts[2] += count_programs(g);
    if (!ok) printf("%s: %s\n", name, err.text);
    for (int i = 0; i < g->n_outputs && ok; i++) {
        const ot_value *y = g->outputs[i];
        ok = !memcmp(memory_of(&plain, y), memory_of(&fused, y), ot_bytes(&y->shape, y->dtype));
        if (!ok) {
            printf("%s: output %d, %s, changed\n", name, i, y->name);
            values_close(name, "fused", y->dtype, ot_numel(&y->shape), memory_of(&fused, y), memory_of(&plain, y), 0);
        }
    }
    ok = ok && kernels_agree(g, &fused, name, d);
    memory_free(&plain);
    memory_free(&fused);
    ot_graph_free(g);
    return ok;
}

bool test_fuse(ot_device *d)
{
    int graphs = d ? 25 : 150, counts[3] = { 0 }, failed = 0;
    for (int seed = 1; seed <= graphs; seed++) failed += !fused_equals_plain((uint64_t)seed, d, counts);
    printf("fuse: %d nodes became %d, %d Reduces run a program; %d of %d graphs differ\n", counts[0], counts[1],
           counts[2], failed, graphs);
    return !failed && counts[1] * 3 < counts[0] * 2 && (counts[2] > 0) == (d != NULL);
}
