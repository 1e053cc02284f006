/* main.c - FusedAttention and its gradient: compares the reference with central differences, and a device's kernels
 * with the reference.
 *
 *     test_attend                    the reference
 *     test_attend --cpu              the CPU's kernels (cpu.c)
 *     test_attend --cuda             every kernel of the device
 *     test_attend --compile sm_90a   those of our own for a device that is described */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/attention.h"
#include "tests/attend/cpu.h"
#include "tests/ops/harness.h"

typedef struct row {
    const char *name;
    int64_t B, H, T, S, D, E;
    const char *
        mask; /* "": none; "b" bool, "f" added, "h" f32 added, 0 or -1e9, "z" added, 0 or -inf, with zero_rows: then the extents */
    bool causal;
    ot_dtype type; /* on a device; the reference is checked in f64 */
    double tol;
} row;

static const row rows[] = {
    { "plain", 2, 3, 5, 7, 4, 6, "", false, OT_F32, 1e-5 },
    { "causal", 2, 2, 9, 9, 3, 3, "", true, OT_F32, 1e-5 },
    { "one token", 1, 1, 1, 1, 1, 1, "", true, OT_F32, 1e-5 },
    { "truth values", 2, 3, 4, 5, 4, 4, "b2,1,4,5", false, OT_F32, 1e-5 },
    { "truth values that hide a row", 1, 2, 4, 5, 4, 4, "b4,5", false, OT_F64, 1e-9 },
    { "added", 2, 3, 4, 5, 4, 4, "f2,1,1,5", false, OT_F32, 1e-5 },
    { "added and causal", 1, 2, 6, 6, 5, 4, "f6,6", true, OT_F64, 1e-9 },
    { "16 bits", 1, 2, 6, 6, 8, 8, "f6", true, OT_F16, 2e-3 },
    { "more than a tile", 1, 2, 70, 41, 64, 64, "", false, OT_F32, 2e-5 },
    { "more than a tile, causal", 1, 1, 67, 67, 40, 64, "", true, OT_F32, 2e-5 },
    { "more than a tile, masked", 1, 2, 37, 75, 24, 16, "b1,2,1,75", false, OT_F32, 2e-5 },
    { "wide heads", 1, 1, 35, 19, 100, 72, "", false, OT_F32, 2e-5 },
    { "heads of 192", 1, 1, 18, 19, 192, 192, "", true, OT_F32, 2e-5 },
    { "heads of 256", 1, 1, 17, 9, 256, 256, "", false, OT_F32, 2e-5 },
    { "heads of 337", 1, 1, 3, 9, 337, 300, "", true, OT_F32, 2e-5 },
    { "wide heads in bf16", 1, 1, 20, 33, 96, 96, "", true, OT_BF16, 2e-2 },
    { "f16, causal, 64", 1, 1, 37, 37, 64, 64, "", true, OT_F16, 4e-3 },
    { "bf16, causal, 128", 1, 1, 19, 19, 128, 128, "", true, OT_BF16, 3e-2 },
    { "f16, odd and causal", 1, 2, 21, 35, 16, 24, "", true, OT_F16, 4e-3 },
    { "bf16, added to columns", 2, 3, 9, 14, 32, 64, "f2,1,1,14", false, OT_BF16, 2e-2 },
    { "f16, added to pairs", 2, 2, 11, 7, 16, 8, "f11,7", false, OT_F16, 4e-3 },
    { "bf16, hidden by addition", 2, 2, 12, 20, 64, 64, "h2,1,1,20", false, OT_BF16, 2e-2 },
    { "bf16, added for each head", 1, 3, 6, 5, 8, 8, "f1,3,6,5", false, OT_BF16, 2e-2 },
    { "bf16, truth values", 1, 2, 10, 13, 8, 16, "b10,13", false, OT_BF16, 2e-2 },
    { "rows that see nothing", 2, 2, 5, 9, 8, 6, "z2,1,5,9", false, OT_F32, 1e-5 },
    { "a sample that sees nothing", 2, 2, 70, 37, 8, 8, "z2,1,1,37", false, OT_F32, 2e-5 },
    { "f64", 1, 1, 33, 18, 80, 66, "", false, OT_F64, 1e-9 },
};

typedef struct test {
    const row *r;
    ot_error err;
    ot_graph *g;
    ot_value *in[5]; /* q k v dy mask */
    ot_node *y, *dx;
    memory m;
} test;

static ot_value *input(test *t, ot_dtype type, ot_shape s)
{
    ot_value *v = ot_graph_value(t->g, "x", OT_INPUT, type, &s);
    ot_graph_input(t->g, v);
    return v;
}

static ot_value *make_mask(test *t, ot_dtype type)
{
    if (!*t->r->mask) return NULL;
    ot_shape s = { .rank = 0 };
    const char *at = t->r->mask + 1;
    for (char *end; *at; at = *end ? end + 1 : end) s.dim[s.rank++] = strtoll(at, &end, 10);
    return input(t, *t->r->mask == 'b' ? OT_BOOL : *t->r->mask == 'h' ? OT_F32 : type, s);
}

static bool build(test *t, const row *r, ot_dtype type)
{
    *t = (test){ .r = r };
    t->g = ot_graph_new(&t->err);
    ot_build b = { .graph = t->g };
    ot_attention a = { .scale = 0.6, .causal = r->causal, .hidden = -1e9, .zero_rows = *r->mask == 'z' };
    t->in[0] = input(t, type, (ot_shape){ 4, { r->B, r->H, r->T, r->D } });
    t->in[1] = input(t, type, (ot_shape){ 4, { r->B, r->H, r->S, r->D } });
    t->in[2] = input(t, type, (ot_shape){ 4, { r->B, r->H, r->S, r->E } });
    t->in[3] = input(t, type, (ot_shape){ 4, { r->B, r->H, r->T, r->E } });
    t->in[4] = make_mask(t, type);
    int n = t->in[4] ? 1 : 0;
    t->y = ot_emit_n(&b, &ot_op_FusedAttention, &a, (ot_value *[]){ t->in[0], t->in[1], t->in[2], t->in[4] }, 3 + n, 3);
    if (!t->y) return false;
    t->dx = ot_emit_n(
        &b, &ot_op_FusedAttentionDx, &a,
        (ot_value *[]){ t->in[3], t->in[0], t->in[1], t->in[2], t->y->out[0], t->y->out[1], t->y->out[2], t->in[4] },
        7 + n, 3);
    if (!t->dx) return false;
    t->m = memory_new(t->g);
    dice d = dice_of(r->name);
    for (int i = 0; i < 4 + n; i++)
        for (int64_t k = 0; k < ot_numel(&t->in[i]->shape); k++) {
            double v = dice_roll(&d) * 2 - 1;
            /* Hides the first row of "that hide a row" entirely. */
            if (t->in[i]->dtype == OT_BOOL)
                ot_set_i64(memory_of(&t->m, t->in[i]), OT_BOOL, k,
                           v > -0.3 && !(t->in[i]->shape.rank == 2 && k < r->S));
            else if (i == 4 && *r->mask == 'h')
                ot_set_f64(memory_of(&t->m, t->in[i]), t->in[i]->dtype, k, v > -0.3 ? 0 : -1e9);
            else if (i == 4 && *r->mask == 'z') /* the first row of all, and others by chance */
                ot_set_f64(memory_of(&t->m, t->in[i]), t->in[i]->dtype, k, v > -0.3 && k >= r->S ? 0 : -INFINITY);
            else ot_set_f64(memory_of(&t->m, t->in[i]), t->in[i]->dtype, k, v);
        }
    return graph_run(t->g, NULL, &t->m, &t->err) == OT_OK;
}

static void drop(test *t)
{
    memory_free(&t->m);
    ot_graph_free(t->g);
}

/* sum of dy y */
static double objective(test *t)
{
    const double *y, *dy;
    double sum = 0;
    if (graph_run(t->g, t->y, &t->m, &t->err) != OT_OK) return NAN;
    y = memory_of(&t->m, t->y->out[0]), dy = memory_of(&t->m, t->in[3]);
    for (int64_t i = 0; i < ot_numel(&t->in[3]->shape); i++) sum += y[i] * dy[i];
    return sum;
}

static int differences(test *t)
{
    int checked = 0;
    for (int i = 0; i < 3; i++) {
        int64_t n = ot_numel(&t->in[i]->shape), step = (n > 40 ? n / 31 : 1) * OT_SPARSE;
        double *x = memory_of(&t->m, t->in[i]);
        const double *got = memory_of(&t->m, t->dx->out[i]);
        for (int64_t k = 0; k < n; k += step, checked++) {
            double was = x[k], h = 1e-5;
            x[k] = was + h;
            double up = objective(t);
            x[k] = was - h;
            double want = (up - objective(t)) / (2 * h);
            x[k] = was;
            if (fabs(got[k] - want) <= 1e-7 * (1 + fabs(want))) continue;
            printf("%s: gradient of input %d, element %lld: %.9g; differences say %.9g\n", t->r->name, i, (long long)k,
                   got[k], want);
            return -1;
        }
    }
    return checked;
}

/* The number of comparisons (or of kernels prepared) for one node; -1: one failed. */
static int look(const char *arch, test *t, const ot_node *n, ot_device *d)
{
    return arch ? kernels_prepare(t->r->name, n, d) : kernels_compare(t->r->name, n, &t->m, t->r->tol, d);
}

int main(int argc, char **argv)
{
    const char *arch = argc > 2 && !strcmp(argv[1], "--compile") ? argv[2] : NULL;
    bool on_device = arch || (argc > 1 && !strcmp(argv[1], "--cuda"));
    ot_device *d = NULL;
    int failed = 0, counted = 0;
    if (argc > 1 && !strcmp(argv[1], "--cpu")) return attention_cpu();
    if (on_device) {
        int code = device_open(arch, &d);
        if (code) return code;
    }
    for (int i = 0; i < OT_LEN(rows); i++) {
        test t;
        int n = -1, k = 0;
        if (!build(&t, &rows[i], on_device ? rows[i].type : OT_F64)) printf("%s: %s\n", rows[i].name, t.err.text);
        else if (!on_device) n = differences(&t);
        else if ((n = look(arch, &t, t.y, d)) > 0) k = look(arch, &t, t.dx, d);
        if (n <= 0 || k < 0) printf("FAIL %s\n", rows[i].name), failed++;
        else counted += n + k;
        drop(&t);
    }
    if (on_device && !arch) failed += attention_positions(d);
    if (arch) failed += compiled_badly(d, arch);
    printf("%d rows, %d failed; %d comparisons\n", OT_LEN(rows), failed, counted);
    if (d) d->backend->close(d);
    return failed != 0;
}
