/* cpu.c - compares the CPU's kernels of FusedAttention with the reference: shapes, masks, strides, and equal bits for
 * any number of threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/attention.h"
#include "tests/attend/cpu.h"
#include "tests/ops/harness.h"

typedef struct shape {
    int64_t B, H, T, S, D, E, group;
} shape;

/* Whole and odd blocks of 64 queries and keys, whole and odd vectors of channels; the reference is slow. */
static const shape shapes[] = {
    { 1, 1, 1, 1, 8, 8, 1 },     { 2, 3, 1, 37, 16, 16, 1 }, { 1, 2, 37, 1, 16, 8, 1 },
    { 2, 4, 5, 5, 3, 7, 2 },     { 1, 1, 63, 65, 9, 20, 1 }, { 1, 8, 17, 17, 32, 32, 4 },
    { 1, 2, 130, 130, 8, 8, 2 }, { 1, 1, 9, 9, 128, 64, 1 }, { 1, 2, 3, 70, 64, 128, 1 },
};

enum mask { NONE, CAUSAL, TRUTH, TRUTH_ROWS, ADDED, HIDDEN_ADDED, BOTH, PER_HEAD, WEAK, ZERO_ROWS, MASKS };
static const char *const mask_names[] = { "no mask",
                                          "causal",
                                          "truth values for columns",
                                          "truth values that hide rows",
                                          "added",
                                          "-inf added",
                                          "truth values and causal",
                                          "added per head",
                                          "hidden by little",
                                          "-inf added to whole rows, which are zeros" };
enum places { DENSE, HEADS_INSIDE, PACKED, ODD, JOINT, PLACES };
static const char *const place_names[] = { "dense", "heads inside", "packed", "steps of 3", "gradients in one" };

typedef struct setting {
    shape s;
    enum mask mask;
    enum places places;
    ot_dtype type;
} setting;

typedef struct net {
    ot_error err;
    ot_graph *g;
    ot_value *q, *k, *v, *dy, *mask;
    ot_node *y, *dx;
    memory m;
    char name[200];
} net;

/* The position of (B, H, T, D) in a value of its own, by kind; its shape. */
static ot_attention_lie lie(enum places p, int64_t B, int64_t H, int64_t T, int64_t D, int64_t group, ot_shape *s)
{
    int64_t h = H / group;
    switch (p) {
    case HEADS_INSIDE:
    case JOINT: *s = (ot_shape){ 4, { B, T, h, D } }; return (ot_attention_lie){ 0, { T * h * D, D, h * D, 1 }, group };
    case PACKED: /* the middle of three */
        *s = (ot_shape){ 3, { B, T, 3 * h * D } };
        return (ot_attention_lie){ h * D, { T * 3 * h * D, D, 3 * h * D, 1 }, group };
    case ODD: /* channels in steps, tokens backwards */
        *s = (ot_shape){ 2, { B * h * T, 3 * D } };
        return (ot_attention_lie){ (T - 1) * 3 * D + 1, { h * T * 3 * D, T * 3 * D, -3 * D, 3 }, group };
    default: *s = (ot_shape){ 4, { B, h, T, D } }; return (ot_attention_lie){ 0, { h * T * D, T * D, D, 1 }, group };
    }
}

/* dq, dk and dv become parts of one value, in this order for each sample. */
static void join(ot_attention_places *p)
{
    ot_shape *s = p->shape;
    int64_t from = 0, all = 0;
    for (int i = 0; i < 3; i++) all += ot_numel(&s[i]) / p->s.B;
    for (int i = 0; i < 3; i++) {
        p->out[i].src = from;
        p->out[i].stride[0] = all;
        p->to[i] = 0;
        from += ot_numel(&s[i]) / p->s.B;
    }
    s[0] = (ot_shape){ 2, { p->s.B, all } };
}

static ot_value *fed(net *t, ot_dtype type, const ot_shape *s)
{
    ot_value *v = ot_graph_value(t->g, "x", OT_INPUT, type, s);
    ot_graph_input(t->g, v);
    return v;
}

static ot_value *mask_of(net *t, const setting *c)
{
    const shape *s = &c->s;
    switch (c->mask) {
    case TRUTH: return fed(t, OT_BOOL, &(ot_shape){ 4, { s->B, 1, 1, s->S } });
    case TRUTH_ROWS:
    case BOTH: return fed(t, OT_BOOL, &(ot_shape){ 2, { s->T, s->S } });
    case WEAK: return fed(t, OT_BOOL, &(ot_shape){ 2, { s->T, 1 } });
    case ADDED:
    case ZERO_ROWS:
    case HIDDEN_ADDED: return fed(t, OT_F32, &(ot_shape){ 3, { 1, s->T, s->S } });
    case PER_HEAD: return fed(t, OT_F32, &(ot_shape){ 4, { s->B, s->H, s->T, 1 } });
    default: return NULL;
    }
}

static void fill(net *t, const setting *c)
{
    dice d = dice_of(t->name);
    for (int i = 0; i < t->g->n_inputs; i++) {
        ot_value *v = t->g->inputs[i];
        int64_t n = ot_numel(&v->shape), wide = c->s.S;
        for (int64_t k = 0; k < n; k++) {
            double x = dice_roll(&d) * 2 - 1;
            void *at = memory_of(&t->m, v);
            /* The row of query 1 is hidden whole. */
            if (v->dtype == OT_BOOL) ot_set_i64(at, OT_BOOL, k, x > -0.3 && (v->shape.rank != 2 || k / wide != 1));
            else if (v == t->mask && c->mask == ZERO_ROWS)
                ot_set_f64(at, v->dtype, k, x > -0.2 && k / wide % 3 != 1 ? x : -INFINITY);
            else if (v == t->mask && c->mask == HIDDEN_ADDED)
                ot_set_f64(at, v->dtype, k, x > -0.2 || k % wide == wide - 1 ? x : -INFINITY);
            else ot_set_f64(at, v->dtype, k, x);
        }
    }
}

static bool build(net *t, const setting *c)
{
    const shape *s = &c->s;
    *t = (net){ .g = NULL };
    snprintf(t->name, sizeof t->name, "(%d,%d,%d,%d,%d,%d) / %d, %s, %s", (int)s->B, (int)s->H, (int)s->T, (int)s->S,
             (int)s->D, (int)s->E, (int)s->group, mask_names[c->mask], place_names[c->places]);
    t->g = ot_graph_new(&t->err);
    ot_attention_places f = { .s = { s->B, s->H, s->T, s->S, s->D, s->E }, .to = { 0, 1, 2 } }, b = f;
    ot_shape q, k, v, y;
    f.in[0] = b.in[1] = b.out[0] = lie(c->places, s->B, s->H, s->T, s->D, 1, &q);
    f.in[1] = b.in[2] = lie(c->places, s->B, s->H, s->S, s->D, s->group, &k);
    f.in[2] = b.in[3] = lie(c->places, s->B, s->H, s->S, s->E, s->group, &v);
    f.out[0] = b.in[0] = b.in[4] = lie(c->places, s->B, s->H, s->T, s->E, 1, &y);
    f.shape[0] = y, b.shape[0] = q;
    b.out[1] = lie(c->places, s->B, s->H, s->S, s->D, 1, &b.shape[1]); /* gradients are of every head */
    b.out[2] = lie(c->places, s->B, s->H, s->S, s->E, 1, &b.shape[2]);
    if (c->places == JOINT) join(&b);
    t->q = fed(t, c->type, &q), t->k = fed(t, c->type, &k), t->v = fed(t, c->type, &v), t->dy = fed(t, c->type, &y),
    t->mask = mask_of(t, c);
    bool plain = c->places == DENSE && s->group == 1;
    ot_attention a = { .scale = 0.6,
                       .causal = c->mask == CAUSAL || c->mask == BOTH,
                       .hidden = c->mask == WEAK ? -2 : -1e9,
                       .zero_rows = c->mask == ZERO_ROWS };
    ot_build at = { .graph = t->g };
    ot_attention_places *places = ot_graph_alloc(t->g, 2 * sizeof *places);
    places[0] = f, places[1] = b;
    a.at = plain ? NULL : &places[0];
    int n = t->mask ? 1 : 0;
    t->y = ot_emit_n(&at, &ot_op_FusedAttention, &a, (ot_value *[]){ t->q, t->k, t->v, t->mask }, 3 + n, 3);
    a.at = plain ? NULL : &places[1];
    if (t->y)
        t->dx = ot_emit_n(&at, &ot_op_FusedAttentionDx, &a,
                          (ot_value *[]){ t->dy, t->q, t->k, t->v, t->y->out[0], t->y->out[1], t->y->out[2], t->mask },
                          7 + n, 3);
    if (!t->dx) return false;
    for (int i = 1; i < 3 && c->places == JOINT; i++) t->dx->out[i] = NULL;
    t->m = memory_new(t->g);
    /* Elements that no head reads or writes are the same on both sides. */
    for (int i = 0; i < 3; i++)
        if (t->dx->out[i]) memset(memory_of(&t->m, t->dx->out[i]), 0xA5, ot_bytes(&t->dx->out[i]->shape, c->type));
    memset(memory_of(&t->m, t->y->out[0]), 0xA5, ot_bytes(&t->y->out[0]->shape, c->type));
    fill(t, c);
    return graph_run(t->g, NULL, &t->m, &t->err) == OT_OK;
}

/* The outputs of n with so many threads, concatenated. */
static unsigned char *outputs(net *t, const ot_node *n, int threads, size_t *size)
{
    const ot_kernel *k = ot_kernels(n->op, NULL)[0];
    const void *in[8] = { NULL };
    void *out[3] = { NULL };
    bool intact;
    size_t at = 0;
    *size = 0;
    for (int i = 0; i < n->n_in; i++) in[i] = memory_of(&t->m, n->in[i]);
    for (int i = 0; i < 3; i++) {
        if (!n->out[i]) continue;
        size_t bytes = ot_bytes(&n->out[i]->shape, OT_F32);
        out[i] = guarded_new(bytes);
        *size += bytes;
    }
    unsigned char *all = malloc(*size);
    if (kernel_run(k, n, in, out, threads, &intact, &t->err) != OT_OK || !intact || !all) exit(1);
    for (int i = 0; i < 3; i++) {
        if (!n->out[i]) continue;
        size_t bytes = ot_bytes(&n->out[i]->shape, OT_F32);
        memcpy(all + at, out[i], bytes);
        at += bytes;
        guarded_free(out[i]);
    }
    return all;
}

static bool same_bits(net *t, const ot_node *n)
{
    size_t size;
    unsigned char *one = outputs(t, n, 1, &size);
    bool same = true;
    for (int threads = 2; threads <= 7 && same; threads += threads < 3 ? 1 : 4) {
        unsigned char *some = outputs(t, n, threads, &size);
        same = !memcmp(one, some, size);
        if (!same) printf("%s: %s: other bits with %d threads\n", t->name, n->op->name, threads);
        free(some);
    }
    free(one);
    return same;
}

int attention_cpu(void)
{
    int failed = 0, counted = 0;
    for (int i = 0; i < OT_LEN(shapes); i++)
        for (int m = 0; m < MASKS; m++)
            for (int p = 0; p < PLACES; p++) {
                setting c = { shapes[i], (enum mask)m, (enum places)p, OT_F32 };
                net t;
                int n = -1, k = -1;
                if (c.mask == CAUSAL && c.s.T != c.s.S) continue;
                if (p && (m + i) % PLACES != p)
                    continue; /* every kind of operand position with every kind of mask, not with every shape */
                if (!build(&t, &c)) printf("%s: %s\n", t.name, t.err.text);
                else if ((n = kernels_compare(t.name, t.y, &t.m, 2e-5, NULL)) > 0)
                    k = kernels_compare(t.name, t.dx, &t.m, 2e-5, NULL);
                if (n <= 0 || k <= 0 || !same_bits(&t, t.y) || !same_bits(&t, t.dx))
                    printf("FAIL %s\n", t.name), failed++;
                else counted += n + k;
                memory_free(&t.m);
                ot_graph_free(t.g);
            }
    printf("CPU: %d failed; %d comparisons\n", failed, counted);
    return failed != 0;
}

int attention_positions(ot_device *d)
{
    int failed = 0, counted = 0;
    for (int i = 0; i < OT_LEN(shapes); i++)
        for (int p = DENSE + 1; p < PLACES; p++)
            for (int half = 0; half < 2; half++) {
                /* A bool mask for some: cuDNN takes none. */
                setting c = { shapes[i], shapes[i].T != shapes[i].S ? (i % 2 ? TRUTH : NONE) : CAUSAL, (enum places)p,
                              half ? OT_BF16 : OT_F32 };
                double tol = half ? 4e-2 : 2e-5;
                net t;
                int n = -1, k = -1;
                if (!build(&t, &c)) printf("%s: %s\n", t.name, t.err.text);
                else if ((n = kernels_compare(t.name, t.y, &t.m, tol, d)) > 0)
                    k = kernels_compare(t.name, t.dx, &t.m, tol, d);
                if (n <= 0 || k <= 0) printf("FAIL %s, %s\n", t.name, ot_dtype_name(c.type)), failed++;
                else counted += n + k;
                memory_free(&t.m);
                ot_graph_free(t.g);
            }
    printf("positions: %d failed; %d comparisons\n", failed, counted);
    return failed;
}
