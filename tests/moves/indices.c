/* indices.c - Take, TakeDx, Scatter, FlatIndex, TopKIndex and Resample of many sizes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/kernels/resample.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/topkindex.h"
#include "ops/kernels/take.h"
#include "tests/moves/moves.h"

/* ---- rows by index ----------------------------------------------------------------- */

/* m indices of n places; some: how many places are really named, 0: all. */
typedef struct rows {
    const char *name;
    ot_dtype type, index;
    int64_t outer, n, inner, m, some;
} rows;

static const rows sizes[] = {
    { "one", OT_F32, OT_I64, 1, 7, 5, 1, 0 },
    { "few", OT_F32, OT_I32, 3, 9, 4, 20, 0 },
    { "border", OT_F32, OT_I64, 2, 5, 3, 64, 0 },
    { "rows", OT_F32, OT_I64, 1, 300, 24, 500, 0 },
    { "halves", OT_F16, OT_I64, 1, 40, 16, 100, 0 },
    { "brains", OT_BF16, OT_I32, 2, 40, 3, 100, 0 },
    { "doubles", OT_F64, OT_I64, 1, 40, 5, 100, 0 },
    { "bytes", OT_U8, OT_I64, 2, 90, 7, 200, 0 },
    { "longs", OT_I64, OT_I64, 1, 90, 2, 300, 0 },
    { "one_place", OT_F32, OT_I64, 1, 60, 6, 900, 1 },
    { "two_places", OT_F32, OT_I64, 1, 200, 2, 1500, 2 },
    { "by_digits", OT_F32, OT_I64, 1, 200, 2, 2500, 0 },
    { "by_two_digits", OT_F32, OT_I32, 1, 50257, 1, 5000, 0 },
    { "by_three_digits", OT_F32, OT_I64, 1, 90000, 1, 3000, 0 },
    { "many_alike", OT_F32, OT_I64, 1, 1000, 1, 5000, 3 },
    { "elements", OT_I32, OT_I64, 1, 3000, 1, 4000, 40 },
};

static ot_value *indices(ot_graph *g, dice *d, const rows *r, bool negative)
{
    ot_shape s = vector(r->m);
    int64_t *v = ot_graph_alloc(g, (size_t)(r->m + 1) * sizeof *v);
    for (int64_t i = 0; i < r->m; i++) {
        int64_t place = r->some ? pick(d, r->some) * (r->n / r->some) : pick(d, r->n);
        ot_set_i64(v, r->index, i, negative && pick(d, 4) == 0 ? place - r->n : place);
    }
    return ot_graph_const(g, "index", r->index, &s, v);
}

static void take_trial(trials *t, dice *d, const rows *r)
{
    char name[128];
    ot_graph *g = graph_new();
    ot_value *in[] = { numbers(g, d, r->type, (ot_shape){ 3, { r->outer, r->n, r->inner } }, -8, 8),
                       indices(g, d, r, true) };
    ot_take a = { .axis = 1 };
    snprintf(name, sizeof name, "Take.%s", r->name);
    try_node(t, name, g, &ot_op_Take, &a, in, 2);

    g = graph_new();
    in[0] = numbers(g, d, r->type, (ot_shape){ 3, { r->outer, r->m, r->inner } }, -1, 1);
    in[1] = indices(g, d, r, true);
    ot_take_dx b = { .axis = 1, .shape = { 3, { r->outer, r->n, r->inner } } };
    snprintf(name, sizeof name, "TakeDx.%s", r->name);
    try_node(t, name, g, &ot_op_TakeDx, &b, in, 2);
}

/* Whole numbers, whose sums are exact: the reference rounds at every step, kernels need not. */
static void make_whole(ot_value *x)
{
    void *bytes = (void *)(uintptr_t)x->data;
    for (int64_t i = 0; i < ot_numel(&x->shape); i++)
        ot_set_f64(bytes, x->dtype, i, floor(ot_get_f64(bytes, x->dtype, i)));
}

static void put_trial(trials *t, dice *d, const rows *r, int64_t op)
{
    char name[128];
    rows i64 = *r;
    ot_graph *g = graph_new();
    bool product = op == OT_SCATTER_MUL && ot_is_float(r->type); /* of numbers near 1, which stay what they are */
    double lo = product ? 0.99 : -8, hi = product ? 1.01 : 8;
    i64.index = OT_I64;
    ot_value *in[] = { numbers(g, d, r->type, (ot_shape){ 2, { r->n, r->inner } }, lo, hi), indices(g, d, &i64, false),
                       numbers(g, d, r->type, (ot_shape){ 2, { r->m, r->inner } }, lo, hi) };
    ot_scatter a = { .op = op };
    if (op == OT_SCATTER_ADD) make_whole(in[0]), make_whole(in[2]);
    if ((op == OT_SCATTER_MIN || op == OT_SCATTER_MAX) && ot_is_float(r->type))
        ot_set_f64((void *)(uintptr_t)in[2]->data, r->type, 0, NAN);
    snprintf(name, sizeof name, "Scatter.%s.%d", r->name, (int)op);
    try_node(t, name, g, &ot_op_Scatter, &a, in, 3);
}

static void test_faults(trials *t)
{
    static const int64_t wrong[] = { 40, -41, INT64_MAX, INT64_MIN };
    for (int i = 0; i < OT_LEN(wrong); i++)
        for (int m = 100; m <= 3000; m += 2900) {
            dice d = dice_of("fault");
            rows r = { "fault", OT_F32, OT_I64, 1, 40, 6, m, 0 };
            int64_t at = pick(&d, m);
            ot_graph *g = graph_new();
            ot_value *in[] = { numbers(g, &d, OT_F32, (ot_shape){ 2, { 40, 6 } }, -1, 1), indices(g, &d, &r, true),
                               NULL };
            ((int64_t *)(uintptr_t)in[1]->data)[at] = wrong[i];
            must_report(t, "Take.fault", g, &ot_op_Take, &(ot_take){ 0 }, in, 2);

            g = graph_new();
            in[0] = numbers(g, &d, OT_F32, (ot_shape){ 2, { m, 6 } }, -1, 1);
            in[1] = indices(g, &d, &r, true);
            ((int64_t *)(uintptr_t)in[1]->data)[at] = wrong[i];
            must_report(t, "TakeDx.fault", g, &ot_op_TakeDx, &(ot_take_dx){ 0, { 2, { 40, 6 } } }, in, 2);

            g = graph_new();
            in[0] = numbers(g, &d, OT_F32, (ot_shape){ 2, { 40, 6 } }, -1, 1);
            in[1] = indices(g, &d, &r, false);
            in[2] = numbers(g, &d, OT_F32, (ot_shape){ 2, { m, 6 } }, -1, 1);
            ((int64_t *)(uintptr_t)in[1]->data)[at] = i == 1 ? -1 : wrong[i];
            must_report(t, "Scatter.fault", g, &ot_op_Scatter, &(ot_scatter){ OT_SCATTER_ADD }, in, 3);

            g = graph_new();
            in[0] = indices(g, &d, &r, true);
            ((int64_t *)(uintptr_t)in[0]->data)[at] = wrong[i];
            ot_flat_index a = { .kind = OT_FLAT_ALONG, .x = vector(40) };
            must_report(t, "FlatIndex.fault", g, &ot_op_FlatIndex, &a, in, 1);
        }
}

/* ---- places ------------------------------------------------------------------------- */

static void test_places(trials *t)
{
    dice d = dice_of("places");
    ot_graph *g = graph_new();
    ot_value *index = numbers(g, &d, OT_I32, (ot_shape){ 4, { 3, 9, 5, 11 } }, -7, 7);
    ot_flat_index along = { .kind = OT_FLAT_ALONG, .axis = 2, .x = { 4, { 4, 9, 7, 12 } } };
    try_node(t, "FlatIndex.along", g, &ot_op_FlatIndex, &along, &index, 1);
    g = graph_new();
    index = numbers(g, &d, OT_I64, (ot_shape){ 4, { 3, 4, 50, 2 } }, -5, 5);
    ot_flat_index tuples = { .kind = OT_FLAT_TUPLES, .batch = 2, .x = { 5, { 3, 4, 5, 6, 7 } } };
    try_node(t, "FlatIndex.tuples", g, &ot_op_FlatIndex, &tuples, &index, 1);
}

/* ---- the best ------------------------------------------------------------------------- */

static void test_arg(trials *t)
{
    static const struct {
        ot_dtype type;
        int64_t outer, n, inner, k;
        double range;
    } lines[] = {
        { OT_F32, 5, 1, 1, 1, 9 },          { OT_F32, 70, 10, 1, 1, 9 },      { OT_F32, 3, 700, 1, 1, 1e6 },
        { OT_F16, 2, 33, 40, 1, 4 },        { OT_I64, 3, 9, 300, 1, 3 },      { OT_F32, 4, 10, 3, 10, 4 },
        { OT_F32, 2, 100, 1, 7, 9 },        { OT_F64, 2, 1000, 2, 5, 1e9 },   { OT_U8, 2, 2048, 1, 2048, 255 },
        { OT_F32, 1, 2049, 1, 3, 50 },      { OT_F32, 2, 5000, 1, 5000, 90 }, { OT_I32, 1, 6300, 2, 3000, 1e6 },
        { OT_BF16, 1, 10300, 1, 40, 1000 }, { OT_I8, 1, 9000, 1, 2500, 120 }, { OT_U64, 1, 3000, 1, 300, 1e18 },
        { OT_F32, 3, 50, 2, 1, 0 },         { OT_BOOL, 2, 40, 1, 12, 2 },
    };
    for (int i = 0; i < OT_LEN(lines); i++)
        for (int how = 0; how < 4; how++) {
            char name[64];
            dice d = dice_of("arg");
            ot_graph *g = graph_new();
            ot_value *x = numbers(g, &d, lines[i].type, (ot_shape){ 3, { lines[i].outer, lines[i].n, lines[i].inner } },
                                  ot_is_signed(lines[i].type) || ot_is_float(lines[i].type) ? -lines[i].range : 0,
                                  lines[i].range);
            void *bytes = (void *)(uintptr_t)x->data;
            int64_t total = ot_numel(&x->shape);
            for (int s = 0; ot_is_float(lines[i].type) && s < 4 && total > 40; s++) { /* what compares oddly */
                static const double odd[] = { NAN, INFINITY, -INFINITY, -0.0 };
                for (int again = 0; again < 2; again++) ot_set_f64(bytes, lines[i].type, pick(&d, total), odd[s]);
            }
            ot_topk_index a = { .axis = 1, .k = lines[i].k, .smallest = how & 1, .last = how >> 1 };
            snprintf(name, sizeof name, "TopKIndex.%d.%d", i, how);
            try_node(t, name, g, &ot_op_TopKIndex, &a, &x, 1);
        }
}

/* ---- resampling ------------------------------------------------------------------------- */

static void test_interp(trials *t)
{
    static const struct {
        ot_dtype type;
        ot_shape x;
        int64_t axis, size;
    } nodes[] = {
        { OT_F32, { 4, { 2, 8, 5, 7 } }, 2, 11 }, { OT_F32, { 4, { 2, 8, 5, 7 } }, 3, 4 },
        { OT_F32, { 4, { 2, 6, 5, 12 } }, 1, 9 }, { OT_F16, { 4, { 2, 16, 9, 8 } }, 2, 20 },
        { OT_BF16, { 3, { 3, 5, 16 } }, 2, 33 },  { OT_F64, { 5, { 2, 4, 3, 5, 6 } }, 3, 8 },
        { OT_F32, { 1, { 1000 } }, 0, 700 },      { OT_F32, { 4, { 3, 4, 20, 16 } }, 0, 5 },
        { OT_F32, { 4, { 2, 4, 3, 1 } }, 3, 6 },  { OT_F32, { 3, { 4, 1, 32 } }, 1, 1 },
    };
    for (int i = 0; i < OT_LEN(nodes); i++)
        for (int with = 0; with < 2; with++) {
            char name[64];
            dice d = dice_of("interp");
            ot_graph *g = graph_new();
            ot_value *x = numbers(g, &d, nodes[i].type, nodes[i].x, -1, 1);
            int64_t size = nodes[i].size, n = nodes[i].x.dim[nodes[i].axis];
            int64_t *start = ot_graph_alloc(g, (size_t)(size + 1) * sizeof *start),
                    *from = ot_graph_alloc(g, (size_t)(5 * size + 1) * sizeof *from);
            double *weight = ot_graph_alloc(g, (size_t)(5 * size + 1) * sizeof *weight),
                   *add = ot_graph_alloc(g, (size_t)(size + 1) * sizeof *add);
            for (int64_t k = 0; k < size; k++) {
                start[k + 1] = start[k] + pick(&d, 6);
                add[k] = dice_roll(&d);
                for (int64_t tap = start[k]; tap < start[k + 1]; tap++) {
                    from[tap] = pick(&d, n);
                    weight[tap] = dice_roll(&d) - 0.5;
                }
            }
            ot_resample a = { .axis = nodes[i].axis,
                              .size = size,
                              .start = start,
                              .from = from,
                              .weight = weight,
                              .add = with ? add : NULL };
            snprintf(name, sizeof name, "Resample.%d.%d", i, with);
            try_node(t, name, g, &ot_op_Resample, &a, &x, 1);
        }
}

void test_indices(trials *t)
{
    for (int i = 0; i < OT_LEN(sizes); i++) {
        dice d = dice_of(sizes[i].name);
        take_trial(t, &d, &sizes[i]);
        for (int64_t op = OT_SCATTER_NONE; op <= OT_SCATTER_MAX; op++) put_trial(t, &d, &sizes[i], op);
    }
    test_faults(t);
    test_places(t);
    test_arg(t);
    test_interp(t);
}
