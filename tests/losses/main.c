/* main.c - CrossEntropy and its gradient: compares the reference with central differences, and kernels with the
 * reference.
 *
 *     test_losses                    the reference, and the CPU's kernels
 *     test_losses --cuda             every kernel of the device
 *     test_losses --compile sm_90a   those of our own for a device that is described */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/kernels/crossentropy.h"
#include "tests/ops/harness.h"

#define NO_WEIGHT OT_BOOL
enum { IGNORED = 1 }; /* the class that ignore_index names */

typedef struct row {
    const char *name;
    ot_shape x;
    int axis;
    ot_dtype type, target, weight; /* the reference is checked with x in f64; a target of floats: probabilities */
    ot_reduction reduction;
    double smoothing;
    bool ignore, log_input, logp;
    double tol;
} row;

#define MEAN OT_REDUCTION_MEAN
#define SUM OT_REDUCTION_SUM
#define NONE OT_REDUCTION_NONE
#define S2(a, b) { 2, { a, b } }
#define S3(a, b, c) { 3, { a, b, c } }

static const row rows[] = {
    { "classes", S2(5, 7), 1, OT_F32, OT_I64, NO_WEIGHT, MEAN, 0, false, false, false, 1e-5 },
    { "classes along the first axis", S2(7, 5), 0, OT_F32, OT_I32, NO_WEIGHT, MEAN, 0, false, false, false, 1e-5 },
    { "classes in bytes", S3(2, 4, 6), 1, OT_F32, OT_U8, OT_F32, SUM, 0, true, false, true, 1e-5 },
    { "smooth", S2(6, 8), 1, OT_F32, OT_I64, NO_WEIGHT, MEAN, 0.1, false, false, false, 1e-5 },
    { "smooth, weights, some ignored", S2(9, 5), 1, OT_F32, OT_I64, OT_F32, MEAN, 0.2, true, false, false, 1e-5 },
    { "smooth, of pixels, for each", S3(3, 5, 10), 1, OT_F32, OT_I32, OT_F64, NONE, 0.3, true, false, true, 1e-5 },
    { "smooth to the end", S2(4, 6), 1, OT_F32, OT_I64, OT_F16, MEAN, 1, false, false, false, 1e-5 },
    { "probabilities", S2(5, 12), 1, OT_F32, OT_F32, NO_WEIGHT, MEAN, 0, false, false, false, 1e-5 },
    { "probabilities, smooth, weights", S2(5, 12), 1, OT_F32, OT_F32, OT_F32, MEAN, 0.1, false, false, true, 1e-5 },
    { "probabilities in f64, weights in bf16", S2(5, 9), 1, OT_F32, OT_F64, OT_BF16, SUM, 0.1, false, false, false,
      1e-5 },
    { "probabilities of pixels, for each", S3(2, 6, 9), 1, OT_F32, OT_F16, OT_F64, NONE, 0, false, false, false, 1e-5 },
    { "probabilities along the last axis", S3(2, 3, 33), 2, OT_F32, OT_F32, NO_WEIGHT, MEAN, 0.1, false, false, false,
      1e-5 },
    { "logarithms", S2(6, 5), 1, OT_F32, OT_I64, OT_F32, MEAN, 0, true, true, false, 1e-5 },
    { "logarithms, smooth", S2(6, 5), 1, OT_F32, OT_I64, OT_F64, MEAN, 0.1, false, true, false, 1e-5 },
    { "logarithms, probabilities, for each", S3(2, 5, 3), 1, OT_F32, OT_F32, OT_F32, NONE, 0.1, false, true, true,
      1e-5 },
    { "f64", S2(7, 11), 1, OT_F64, OT_I64, OT_F32, MEAN, 0.1, true, false, true, 1e-10 },
    { "f64, probabilities", S3(2, 7, 5), 1, OT_F64, OT_F32, OT_F32, NONE, 0.1, false, false, true, 1e-10 },
    { "bf16", S2(9, 16), 1, OT_BF16, OT_I64, NO_WEIGHT, MEAN, 0, false, false, false, 1e-5 },
    { "bf16, smooth, weights in f32, logp", S2(9, 19), 1, OT_BF16, OT_I32, OT_F32, MEAN, 0.1, true, false, true, 1e-5 },
    { "bf16, probabilities in f32", S2(9, 16), 1, OT_BF16, OT_F32, OT_BF16, SUM, 0.1, false, false, true, 1e-5 },
    { "f16, of pixels, for each", S3(2, 7, 20), 1, OT_F16, OT_I64, OT_F32, NONE, 0.1, true, false, true, 1e-5 },
    { "f16, logarithms", S2(6, 24), 1, OT_F16, OT_I64, OT_F16, MEAN, 0, false, true, false, 1e-5 },
    { "one sample, one class", S2(1, 1), 1, OT_F32, OT_I64, OT_F32, MEAN, 0.1, false, false, true, 1e-5 },
    /* More than a block; more samples than one block adds; rows that fit in no thread's registers. */
    { "more than a block", S2(130, 70), 1, OT_F32, OT_I64, OT_F64, MEAN, 0.1, true, false, false, 1e-5 },
    { "more than a block, probabilities", S2(130, 70), 1, OT_F32, OT_F32, NO_WEIGHT, MEAN, 0, false, false, true,
      1e-5 },
    { "more than a chunk of samples", S2(17000, 3), 1, OT_F32, OT_I64, OT_F32, MEAN, 0.1, true, false, false, 1e-5 },
    { "more than a chunk of pixels", S3(2, 3, 8500), 1, OT_F32, OT_F32, OT_F32, MEAN, 0.1, false, false, true, 1e-5 },
    { "a warp per pixel", S3(3, 150, 40), 1, OT_F32, OT_I64, OT_F32, MEAN, 0.1, true, false, true, 1e-5 },
    { "a block per row", S2(3, 4099), 1, OT_F32, OT_I64, OT_F32, MEAN, 0.1, false, false, true, 2e-5 },
    { "a block per row in bf16", S2(3, 20000), 1, OT_BF16, OT_F32, OT_F32, MEAN, 0.1, false, false, false, 2e-5 },
    { "a row of many turns", S2(2, 50001), 1, OT_F32, OT_I64, OT_F32, MEAN, 0.1, false, false, false, 5e-5 },
};

typedef struct test {
    const row *r;
    ot_error err;
    ot_graph *g;
    ot_value *x, *target, *weight, *dloss;
    ot_node *loss, *dx, *both; /* both: the gradient and the loss */
    memory m;
} test;

static ot_value *input(test *t, ot_dtype type, const ot_shape *s)
{
    ot_value *v = ot_graph_value(t->g, "x", OT_INPUT, type, s);
    ot_graph_input(t->g, v);
    return v;
}

/* Logits and weights between -2 and 2 and near 1; labels of every class, first and last among them; probabilities that
 * are 0 here and there, and add up to no particular number. */
static void fill(test *t)
{
    dice d = dice_of(t->r->name);
    int64_t C = t->r->x.dim[t->r->axis];
    for (int64_t i = 0; i < ot_numel(&t->x->shape); i++)
        ot_set_f64(memory_of(&t->m, t->x), t->x->dtype, i, dice_roll(&d) * 4 - (t->r->log_input ? 4 : 2));
    for (int64_t i = 0; i < ot_numel(&t->target->shape); i++) {
        double v = dice_roll(&d);
        if (ot_is_float(t->target->dtype))
            ot_set_f64(memory_of(&t->m, t->target), t->target->dtype, i, v < 0.2 ? 0 : v);
        else ot_set_i64(memory_of(&t->m, t->target), t->target->dtype, i, i == 0 ? C - 1 : (int64_t)(v * (double)C));
    }
    for (int64_t i = 0; t->weight && i < C; i++)
        ot_set_f64(memory_of(&t->m, t->weight), t->weight->dtype, i, 0.5 + dice_roll(&d));
    for (int64_t i = 0; i < ot_numel(&t->dloss->shape); i++)
        ot_set_f64(memory_of(&t->m, t->dloss), t->dloss->dtype, i, 1 + dice_roll(&d));
}

static bool build(test *t, const row *r, ot_dtype type)
{
    *t = (test){ .r = r };
    t->g = ot_graph_new(&t->err);
    ot_build b = { .graph = t->g };
    ot_cross_entropy a = { .axis = r->axis,
                           .reduction = r->reduction,
                           .has_ignore = r->ignore,
                           .ignore_index = IGNORED,
                           .label_smoothing = r->smoothing,
                           .probs = ot_is_float(r->target),
                           .log_input = r->log_input };
    ot_shape flat = { .rank = 0 };
    for (int k = 0; k < r->x.rank; k++)
        if (k != r->axis) flat.dim[flat.rank++] = r->x.dim[k];
    t->x = input(t, type, &r->x);
    t->target = input(t, r->target, a.probs ? &r->x : &flat);
    if (r->weight != NO_WEIGHT) t->weight = input(t, r->weight, &(ot_shape){ 1, { r->x.dim[r->axis] } });
    t->dloss = input(t, type == OT_F64 ? OT_F64 : OT_F32, r->reduction == NONE ? &flat : &OT_SCALAR);
    int n = t->weight ? 1 : 0;
    t->loss =
        ot_emit_n(&b, &ot_op_CrossEntropy, &a, (ot_value *[]){ t->x, t->target, t->weight }, 2 + n, r->logp ? 2 : 1);
    t->dx = ot_emit_n(&b, &ot_op_CrossEntropyDx, &a, (ot_value *[]){ t->dloss, t->x, t->target, t->weight }, 3 + n, 1);
    t->both =
        ot_emit_n(&b, &ot_op_CrossEntropyDx, &a, (ot_value *[]){ t->dloss, t->x, t->target, t->weight }, 3 + n, 2);
    if (!t->loss || !t->dx || !t->both) return false;
    t->m = memory_new(t->g);
    fill(t);
    return graph_run(t->g, NULL, &t->m, &t->err) == OT_OK;
}

static void drop(test *t)
{
    memory_free(&t->m);
    ot_graph_free(t->g);
}

/* sum of dloss loss */
static double objective(test *t)
{
    const double *loss, *dloss;
    double sum = 0;
    if (graph_run(t->g, t->loss, &t->m, &t->err) != OT_OK) return NAN;
    loss = memory_of(&t->m, t->loss->out[0]), dloss = memory_of(&t->m, t->dloss);
    for (int64_t i = 0; i < ot_numel(&t->dloss->shape); i++) sum += loss[i] * dloss[i];
    return sum;
}

static int differences(test *t)
{
    int checked = 0;
    int64_t n = ot_numel(&t->x->shape), step = n > 1000 ? n / 7 : n > 40 ? n / 31 : 1;
    double *x = memory_of(&t->m, t->x);
    const double *got = memory_of(&t->m, t->dx->out[0]);
    for (int64_t k = 0; k < n; k += step, checked++) {
        double was = x[k], h = 1e-5;
        x[k] = was + h;
        double up = objective(t);
        x[k] = was - h;
        double want = (up - objective(t)) / (2 * h);
        x[k] = was;
        if (fabs(got[k] - want) <= 1e-7 * (1 + fabs(want)) + 1e-9 * fabs(up)) continue; /* what up and down round off */
        printf("%s: gradient, element %lld: %.9g; differences say %.9g\n", t->r->name, (long long)k, got[k], want);
        return -1;
    }
    return checked;
}

/* Comparisons (or kernels prepared) of the nodes; -1: one failed. */
static int look(const row *r, const char *arch, ot_device *d)
{
    test t;
    int all = 0;
    bool built = build(&t, r, r->type);
    const ot_node *nodes[] = { t.loss, t.dx, t.both };
    if (!built) printf("%s: %s\n", r->name, t.err.text);
    for (int i = 0; built && i < OT_LEN(nodes) && all >= 0; i++) {
        int n = arch ? kernels_prepare(r->name, nodes[i], d) : kernels_compare(r->name, nodes[i], &t.m, r->tol, d);
        all = n < 0 || (d && !n) ? -1 : all + n;
    }
    drop(&t);
    return built ? all : -1;
}

/* The node of both has the bits of each. */
static bool is_same(test *t)
{
    size_t x = ot_bytes(&t->x->shape, t->x->dtype), y = ot_bytes(&t->dloss->shape, t->dloss->dtype);
    bool same = !memcmp(memory_of(&t->m, t->both->out[0]), memory_of(&t->m, t->dx->out[0]), x) &&
                !memcmp(memory_of(&t->m, t->both->out[1]), memory_of(&t->m, t->loss->out[0]), y);
    if (!same) printf("%s: gradient and loss in one differ from each\n", t->r->name);
    return same;
}

static int reference(const row *r)
{
    test t;
    int n = -1;
    if (build(&t, r, OT_F64)) n = is_same(&t) ? differences(&t) : -1;
    else printf("%s: %s\n", r->name, t.err.text);
    drop(&t);
    return n;
}

int main(int argc, char **argv)
{
    const char *arch = argc > 2 && !strcmp(argv[1], "--compile") ? argv[2] : NULL;
    bool on_device = arch || (argc > 1 && !strcmp(argv[1], "--cuda"));
    ot_device *d = NULL;
    int failed = 0, differ = 0, counted = 0;
    if (on_device) {
        int code = device_open(arch, &d);
        if (code) return code;
    }
    for (int i = 0; i < OT_LEN(rows); i++) {
        int n = on_device ? 1 : reference(&rows[i]), k = n > 0 ? look(&rows[i], arch, d) : -1;
        if (n <= 0 || k < 0) printf("FAIL %s\n", rows[i].name), failed++;
        else differ += on_device ? 0 : n, counted += k;
    }
    if (arch) failed += compiled_badly(d, arch);
    printf("%d rows, %d failed; %d differences, %d kernels\n", OT_LEN(rows), failed, differ, counted);
    if (d) d->backend->close(d);
    return failed != 0;
}
