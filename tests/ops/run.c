/* run.c - the one runner of operator tests; case.h describes the checks of a row.
 *
 *     test_ops [PREFIX]          test_ops Conv.gr  runs every row whose name begins so
 *     test_ops --compile sm_90a [PREFIX]   only prepares those kernels, for a device that is described (compile.c)
 *     test_ops --every=4 ...     of each operator's rows the first, the fifth ...; --every=4+1: the second, the sixth ...
 *     test_ops --types           every input of every operator in every element type (types.c)
 *     test_ops --cuda [PREFIX]   the device's kernels instead of the CPU's, of gradients as well, in f64 and f32 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/map.h"
#include "runtime/passes/passes.h"
#include "tests/ops/harness.h"

/* One row, built as a graph. */
typedef struct test {
    const ot_case *row;
    const ot_op   *op;
    char           name[128];
    ot_error       err;
    ot_graph      *g;
    ot_node       *n;
    ot_value      *in[MAX_IN], *out[MAX_OUT];
    operand       *text;             /* of the inputs */
    int            n_in, n_out;
    bool           differentiable[MAX_IN]; /* float, fed, and a gradient may flow there */
    ot_device     *device;           /* NULL: the CPU */
    bool           described;        /* which is not there: kernels are prepared and not run */
} test;

/* How a row is built. */
typedef enum mode { FORWARD, GRADIENT_F64, GRADIENT_F32, GRADIENT_F16, GRADIENT_BF16 } mode;

typedef struct totals { int rows, failed, kernels, gradients; } totals;

static bool fail(const test *t, const char *what)
{
    printf("%s: %s%s%s\n", t->name, what, t->err.status ? ": " : "", t->err.text);
    return false;
}

/* ---- building ------------------------------------------------------------------- */

static ot_dtype widened(ot_dtype t, mode how)
{
    return how == GRADIENT_F64 && (t == OT_F32 || t == OT_F16 || t == OT_BF16) ? OT_F64 : t;
}

/* The type of values that gradients are made for. */
static ot_dtype flowing(mode how)
{
    return how == GRADIENT_F32 ? OT_F32 : how == GRADIENT_F16 ? OT_F16 : how == GRADIENT_BF16 ? OT_BF16 : OT_F64;
}

static void fill(const test *t, const operand *o, ot_dtype type, void *bytes, dice *d)
{
    for (int64_t i = 0; i < ot_numel(&o->shape); i++) {
        double v = o->source == RANDOM ? o->lo + (o->hi - o->lo) * dice_roll(d) : o->v[o->n == 1 ? 0 : i];
        if (o->source == RANDOM && ot_is_float(type)) v += v > 0 ? t->row->off : -t->row->off;
        if (o->source == RANDOM && !ot_is_float(type)) v = floor(v);
        if (ot_is_float(type)) ot_set_f64(bytes, type, i, ot_is_float(o->dtype) && o->dtype != OT_F64 ? (double)(float)v : v);
        else ot_set_f64(bytes, type, i, v);
    }
}

/* Empty ones; no row feeds strings. */
static void *strings_of(const test *t, const operand *o)
{
    int64_t      n = ot_numel(&o->shape);
    const char **list = ot_graph_alloc(t->g, (size_t)(n + 1) * sizeof *list);
    for (int64_t i = 0; i < n; i++) list[i] = "";
    return list;
}

/* Inputs with their bytes: constants as OT_CONST, fed ones as OT_INPUT; for gradients as OT_WEIGHT. */
static bool make_inputs(test *t, mode how)
{
    dice d = dice_of(t->name);
    const char *s = t->row->in ? t->row->in : "";
    for (t->n_in = 0; *s; t->n_in++) {
        int i = t->n_in;
        if (i == MAX_IN || !parse_operand(&s, &t->text[i])) return false;
        while (*s == ' ') s++;
        const operand *o = &t->text[i];
        t->in[i] = NULL;
        if (o->source == LEFT_OUT) continue;
        ot_dtype type = widened(o->dtype, how);
        void *bytes = ot_graph_alloc(t->g, ot_bytes(&o->shape, type) + 1);
        if (type != OT_STRING) fill(t, o, type, bytes, &d);
        else bytes = strings_of(t, o);
        bool no_flow = ot_is_nondiff(t->op, i);
        t->differentiable[i] = how != FORWARD && o->source != CONSTANT && type == flowing(how) && !no_flow;
        ot_role role = o->source == CONSTANT || type == OT_STRING ? OT_CONST : t->differentiable[i] ? OT_WEIGHT : OT_INPUT;
        t->in[i] = ot_graph_value(t->g, "x", role, type, &o->shape);
        t->in[i]->data = bytes;
        t->in[i]->source = i; /* weights are identified by their tensor of the file */
        if (role == OT_INPUT) ot_graph_input(t->g, t->in[i]);
    }
    return true;
}

/* By the rules of a graph an OT_INPUT has no data: its bytes move to the memory before a run. */
static void hide_inputs(test *t, const void *bytes[MAX_IN])
{
    for (int i = 0; i < t->n_in; i++) {
        bytes[i] = t->in[i] ? t->in[i]->data : NULL;
        if (t->in[i] && t->in[i]->role == OT_INPUT) t->in[i]->data = NULL;
    }
}

static bool make_node(test *t)
{
    char *attrs = ot_graph_alloc(t->g, t->op->attr_size + 1);
    const char *s = t->row->out ? t->row->out : "f32[]";
    bool asked[MAX_OUT];
    operand *o = ot_graph_alloc(t->g, sizeof *o);
    ot_attr_defaults(t->op, attrs);
    if (!parse_attrs(t->row->attrs, t->op, t->g, attrs)) return false;
    for (t->n_out = 0; *s; t->n_out++) {
        if (t->n_out == MAX_OUT || !parse_output(&s, o)) return false;
        asked[t->n_out] = o->source != LEFT_OUT;
        while (*s == ' ') s++;
    }
    if (t->n_in < t->op->in.min || t->n_in > t->op->in.max || t->n_out < t->op->out.min || t->n_out > t->op->out.max)
        return fail(t, "the row has more or fewer inputs or outputs than the operator allows");
    t->n = ot_graph_node(t->g, t->op, t->row->name, t->op->attr_size ? attrs : NULL, t->in, t->n_in, t->n_out);
    if (!t->n) return fail(t, "no node");
    for (int i = 0; i < t->n_out; i++) {
        t->out[i] = t->n->out[i];
        if (!asked[i]) t->n->out[i] = t->out[i] = NULL;
    }
    return true;
}

static bool build(test *t, mode how, const void *bytes[MAX_IN])
{
    t->err = (ot_error){ 0 };
    t->g = ot_graph_new(&t->err);
    if (!t->g || !make_inputs(t, how)) return fail(t, "inputs");
    hide_inputs(t, bytes);
    return make_node(t);
}

static void fill_memory(const test *t, memory *m, const void *bytes[MAX_IN])
{
    for (int i = 0; i < t->n_in; i++) {
        const ot_value *v = t->in[i];
        if (!v || v->role == OT_CONST) continue;
        size_t size = ot_bytes(&v->shape, v->dtype);
        if (size) memcpy(memory_of(m, v), bytes[i], size);
    }
    if (t->g->seed) *(uint64_t *)memory_of(m, t->g->seed) = 7;
    if (t->g->counter) *(uint64_t *)memory_of(m, t->g->counter) = 3;
}

/* ---- forward -------------------------------------------------------------------- */

static bool check_shapes(const test *t)
{
    const char *s = t->row->out;
    operand *o = ot_graph_alloc(t->g, sizeof *o);
    for (int i = 0; i < t->n_out; i++) {
        char a[128], b[128];
        if (!parse_output(&s, o)) return false;
        if (o->source == LEFT_OUT) continue;
        const ot_value *y = t->out[i];
        if (y->dtype == o->dtype && ot_shape_eq(&y->shape, &o->shape)) continue;
        printf("%s: output %d is %s%s, should be %s%s\n", t->name, i, ot_dtype_name(y->dtype), ot_shape_text(&y->shape, a),
               ot_dtype_name(o->dtype), ot_shape_text(&o->shape, b));
        return false;
    }
    return true;
}

static bool check_values(const test *t, memory *m, const char *text, const ot_value *y, const char *what)
{
    double *v = malloc(MAX_VALUES * sizeof *v);
    int n = MAX_VALUES;
    const char *s = text;
    bool ok = v && parse_numbers(&s, v, &n);
    if (ok && n != ot_numel(&y->shape)) {
        printf("%s: %s has %d values, should have %lld\n", t->name, what, n, (long long)ot_numel(&y->shape));
        ok = false;
    }
    void *want = ot_graph_alloc(t->g, ot_bytes(&y->shape, y->dtype) + 1);
    for (int i = 0; ok && i < n; i++) {
        bool tiny = ot_is_float(y->dtype) && ot_dtype_bits(y->dtype) == 8; /* inf means inf */
        if (tiny) ((uint8_t *)want)[i] = (uint8_t)ot_float_encode(v[i], y->dtype, false);
        else ot_set_f64(want, y->dtype, i, v[i]);
    }
    double tol = y->dtype == OT_F64 ? 1e-10 : 1e-5;
    ok = ok && values_close(t->name, what, y->dtype, n, memory_of(m, y), want, tol);
    free(v);
    return ok;
}

static bool must_fail(const test *t, ot_status got, ot_status want)
{
    if (got == want) return true;
    printf("%s: status %d (%s), should fail with %d\n", t->name, got, t->err.text, want);
    return false;
}

/* Every kernel of every node against the reference's results. */
static bool compare_all(const test *t, memory *m, totals *sum)
{
    for (const ot_node *n = t->g->first; n; n = n->next) {
        int some = t->described ? kernels_prepare(t->name, n, t->device) : kernels_compare(t->name, n, m, t->row->tol > 0 ? t->row->tol : 1e-5, t->device);
        if (some < 0) return false;
        sum->kernels += some;
    }
    return true;
}

/* Is what op says about ranks alone (.rank) what infer says? */
static bool rank_holds(test *t)
{
    const ot_node *n = t->n;
    int first = n->n_in && n->in[0] ? n->in[0]->shape.rank : -1, most = -1, y = n->out[0] ? n->out[0]->shape.rank : -1, said = y;
    for (int i = 0; i < n->n_in; i++) most = n->in[i] && n->in[i]->shape.rank > most ? n->in[i]->shape.rank : most;
    switch (n->op->rank) {
    case OT_RANK_OPEN: break;
    case OT_RANK_KEPT: said = first; break;
    case OT_RANK_GREATEST: said = most; break;
    case OT_RANK_PRODUCT: said = n->in[0]->shape.rank < 2 || n->in[1]->shape.rank < 2 ? y : most; break;
    case OT_RANK_FILTERS: said = n->in[1]->shape.rank == first ? first : -1; break;
    case OT_RANK_TWO: said = 2; break;
    }
    return y < 0 || said == y || fail(t, "another rank than the operator says");
}

static bool forward(test *t, totals *sum)
{
    const void *bytes[MAX_IN];
    const ot_case *row = t->row;
    if (!build(t, FORWARD, bytes)) return false;
    ot_status s = ot_node_infer(t->n, &t->err);
    if (s == OT_OK && row->out && !row->fail && !(check_shapes(t) && rank_holds(t))) return false;
    for (int i = 0; i < t->n_out && s == OT_OK; i++)
        if (t->out[i]) ot_graph_output(t->g, t->out[i]);
    if (s == OT_OK) s = ot_lower(t->g, t->device);
    if (row->fail) return must_fail(t, s, row->fail);
    if (s != OT_OK) return fail(t, "infer and lower");
    if (ot_graph_verify(t->g, true, &t->err) != OT_OK) return fail(t, "verify");

    memory m = memory_new(t->g);
    fill_memory(t, &m, bytes);
    s = graph_run(t->g, NULL, &m, &t->err);
    bool ok = row->fail_run ? must_fail(t, s, row->fail_run) : s == OT_OK || fail(t, "reference");
    if (ok && row->y && s == OT_OK) ok = check_values(t, &m, row->y, t->out[0], "y");
    ok = ok && (s != OT_OK || compare_all(t, &m, sum));
    memory_free(&m);
    return ok;
}

ot_status row_try(const ot_op *op, const ot_case *row, ot_error *err)
{
    test       *t = calloc(1, sizeof *t);
    operand    *text = calloc(MAX_IN, sizeof *text);
    const void *bytes[MAX_IN];
    totals      sum = { 0 };
    if (!t || !text) abort();
    t->row = row;
    t->op = op;
    t->text = text;
    snprintf(t->name, sizeof t->name, "%s.%s", op->name, row->name);
    ot_status s = build(t, FORWARD, bytes) ? ot_node_infer(t->n, &t->err) : OT_E_INTERNAL;
    for (int i = 0; i < t->n_out && s == OT_OK; i++)
        if (t->out[i]) ot_graph_output(t->g, t->out[i]);
    if (s == OT_OK) s = ot_lower(t->g, t->device);
    if (s == OT_OK) s = ot_graph_verify(t->g, true, &t->err);
    if (s == OT_OK) {
        memory m = memory_new(t->g);
        fill_memory(t, &m, bytes);
        s = graph_run(t->g, NULL, &m, &t->err);
        if (s == OT_OK && !compare_all(t, &m, &sum)) s = ot_fail(&t->err, OT_E_INTERNAL, "its kernels differ");
        memory_free(&m);
    }
    *err = t->err;
    ot_graph_free(t->g);
    free(text);
    free(t);
    return s;
}

/* ---- gradient ------------------------------------------------------------------- */

/* loss = sum over outputs of y * r, with fixed random r (1 when the row gives dx), plus a weight of its
 * own, so that an operator whose gradient is zero can be differentiated as well. */
static ot_value *make_loss(test *t, ot_dtype type)
{
    ot_build b = { .graph = t->g };
    dice d = dice_of(t->row->name);
    float zero = 0;
    ot_value *extra = ot_graph_value(t->g, "extra", OT_WEIGHT, type, &OT_SCALAR);
    extra->source = MAX_IN;
    extra->data = ot_arena_copy(t->g->arena, &(double){ 0 }, sizeof(double));
    ot_value *loss = ot_map1(&b, OT_FN_Copy, zero, 0, extra);
    for (int k = 0; k < t->n_out; k++) {
        ot_value *y = t->out[k];
        if (!y || y->dtype != type) continue;
        void *r = ot_graph_alloc(t->g, ot_bytes(&y->shape, type) + 8);
        for (int64_t i = 0; i < ot_numel(&y->shape); i++) ot_set_f64(r, type, i, t->row->dx ? 1 : dice_roll(&d) * 2 - 1);
        ot_value *rv = ot_graph_const(t->g, "r", type, &y->shape, r);
        int64_t axes[OT_MAX_RANK];
        for (int i = 0; i < y->shape.rank; i++) axes[i] = i;
        ot_value *part = ot_sum(&b, ot_map2(&b, OT_FN_Mul, 0, 0, y, rv), axes, y->shape.rank, false);
        loss = ot_map2(&b, OT_FN_Add, 0, 0, loss, part);
    }
    return loss;
}

/* dL/dx of element i of input k, by central differences. */
static double slope(test *t, memory *m, const ot_node *last, const ot_value *loss, double *x)
{
    double v = *x, h = 1e-5 * (fabs(v) > 1 ? fabs(v) : 1), up, down;
    *x = v + h;
    if (graph_run(t->g, last, m, &t->err) != OT_OK) return NAN;
    up = *(double *)memory_of(m, loss);
    *x = v - h;
    if (graph_run(t->g, last, m, &t->err) != OT_OK) return NAN;
    down = *(double *)memory_of(m, loss);
    *x = v;
    return (up - down) / (2 * h);
}

static bool check_slopes(test *t, memory *m, int k, const ot_node *last, const ot_value *loss)
{
    const ot_value *x = t->in[k];
    int64_t n = ot_numel(&x->shape), step = n > 48 ? n / 37 : 1; /* a sample of large inputs */
    double *got = guarded_new(ot_bytes(&x->shape, OT_F64));
    size_t size = ot_bytes(&x->shape, OT_F64);
    memset(got, 0, size);
    if (x->grad && size) memcpy(got, memory_of(m, x->grad), size);
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i += step) {
        double want = slope(t, m, last, loss, (double *)memory_of(m, x) + i);
        double scale = fabs(want) > 1 ? fabs(want) : 1;
        ok = fabs(got[i] - want) <= 2e-6 * scale;
        if (!ok)
            printf("%s: gradient of input %d, element %lld: %.9g; differences say %.9g%s\n", t->name, k, (long long)i, got[i],
                   want, x->grad ? "" : " (no gradient was built)");
    }
    guarded_free(got);
    return ok;
}

static bool check_dx(test *t, memory *m)
{
    const char *s = t->row->dx;
    for (int i = 0; i < t->n_in && *s; i++) {
        while (*s == ' ') s++;
        if (*s == '-' && (s[1] == ' ' || !s[1])) {
            s++;
            continue;
        }
        size_t n = strcspn(s, " ");
        char *word = ot_arena_printf(t->g->arena, "%.*s", (int)n, s);
        s += n;
        if (!t->differentiable[i]) return fail(t, "dx is given for an input without gradient");
        if (!t->in[i]->grad) return fail(t, "an input got no gradient");
        if (!check_values(t, m, word, t->in[i]->grad, "dx")) return false;
    }
    return true;
}

/* Builds loss and gradients, runs all by the reference, and looks at what came out: in f64 against differences (or the row's own
 * numbers); in f32, and on a device, every kernel against the reference. */
static bool gradient(test *t, mode how, totals *sum)
{
    const void *bytes[MAX_IN];
    if (!build(t, how, bytes)) return false;
    bool any = false, flows = false;
    for (int i = 0; i < t->n_in; i++) any |= t->differentiable[i];
    if (!any) return true;
    if (ot_node_infer(t->n, &t->err) != OT_OK) return fail(t, "infer for gradients");
    for (int i = 0; i < t->n_out; i++) flows |= t->out[i] && t->out[i]->dtype == flowing(how);
    if (!flows) return true; /* integers and truth values only */
    ot_plan plan = { .graph = t->g, .threads = 1 };
    ot_config config = { .want = OT_WANT_GRAD, .accumulate = 1, .threads = 1 };
    plan.loss = make_loss(t, flowing(how));
    if (!plan.loss || ot_lower(t->g, t->device) != OT_OK) return fail(t, "lower for gradients");
    const ot_node *last = plan.loss->producer;
    if (ot_pass_autodiff(&plan, &config) != OT_OK) return fail(t, "autodiff");
    if (ot_graph_verify(t->g, true, &t->err) != OT_OK) return fail(t, "verify after autodiff");
    memory m = memory_new(t->g);
    fill_memory(t, &m, bytes);
    for (int i = 0; i < t->g->n_values; i++) { /* the loss's own weight */
        const ot_value *v = t->g->values[i];
        if (v->role == OT_WEIGHT && !strcmp(v->name, "extra")) ot_set_f64(memory_of(&m, v), v->dtype, 0, 0);
    }
    bool ok = graph_run(t->g, NULL, &m, &t->err) == OT_OK || fail(t, "reference of the gradients");
    bool exact = how == GRADIENT_F64 && !t->device;
    if (ok && !exact) ok = compare_all(t, &m, sum);
    if (ok && exact && t->row->dx) ok = check_dx(t, &m);
    for (int i = 0; i < t->n_in && ok && !t->row->dx && exact; i++)
        if (t->differentiable[i]) ok = check_slopes(t, &m, i, last, plan.loss);
    for (int i = 0; i < t->n_in; i++) sum->gradients += ok && t->differentiable[i];
    memory_free(&m);
    return ok;
}

/* ---- all rows ------------------------------------------------------------------- */

static bool run(const ot_op *op, const ot_case *row, ot_device *device, bool described, totals *sum)
{
    test *t = calloc(1, sizeof *t);
    operand *text = calloc(MAX_IN, sizeof *text);
    if (!t || !text) return false;
    t->row = row;
    t->op = op;
    t->text = text;
    t->device = device;
    t->described = described;
    snprintf(t->name, sizeof t->name, "%s.%s", op->name, row->name);
    bool ok = forward(t, sum);
    ot_graph_free(t->g);
    t->g = NULL;
    if (ok && !row->fail && !row->fail_run && !row->no_grad) {
        mode last = device && row->grad16 ? GRADIENT_BF16 : GRADIENT_F32;
        for (mode how = GRADIENT_F64; ok && how <= last; how++) {
            ok = gradient(t, how, sum);
            ot_graph_free(t->g);
            t->g = NULL;
        }
    }
    free(text);
    free(t);
    return ok;
}

/* list.h names the suites. */
#define OT_DECLARE(name, ...) extern const ot_case ot_cases_##name[] __attribute__((weak));
OT_ONNX_OPS(OT_DECLARE)
#undef OT_DECLARE

static const struct { const ot_op *op; const ot_case *rows; } suites[] = {
#define OT_SUITE(name, ...) { &ot_op_##name, ot_cases_##name },
    OT_ONNX_OPS(OT_SUITE)
#undef OT_SUITE
};

static void run_all(const char *want, int every, int from, ot_device *device, bool described, totals *sum)
{
    for (int s = 0; s < OT_LEN(suites); s++) {
        if (!suites[s].rows && !*want) printf("FAIL %s has no rows\n", suites[s].op->name), sum->failed++;
        int here = 0; /* rows that are for this device */
        for (const ot_case *c = suites[s].rows; c && c->name; c++) {
            char name[256];
            snprintf(name, sizeof name, "%s.%s", suites[s].op->name, c->name);
            if (strncmp(name, want, strlen(want)) || (device && c->cpu) || here++ % every != from) continue;
            sum->rows++;
            if (!run(suites[s].op, c, device, described, sum)) {
                printf("FAIL %s\n", name);
                sum->failed++;
            }
            fflush(stdout);
        }
    }
}

static int type_table(void)
{
    int cases = 0, answered = 0, refused = 0, failed = 0;
    const ot_op *op;
    for (int i = 0; (op = ot_op_at(i)); i++)
        if (op->in.max && !op->types.in) printf("FAIL %s does not say what types its inputs have\n", op->name), failed++;
    for (int s = 0; s < OT_LEN(suites); s++)
        if (!suites[s].rows || !types_of(suites[s].op, suites[s].rows, &cases, &answered, &refused)) failed++;
    printf("%d operators, %d cases: %d answered, %d refused; %d operators failed\n", OT_LEN(suites), cases, answered, refused, failed);
    return failed || !answered || !refused;
}

/* Does op say of every input that gradients of floats reach what a tensor of the file would be there (.slots)?  Else a weight
 * could stand there and never train. */
static bool slots_said(const ot_op *op)
{
    const char *letters = op->slots ? op->slots : "";
    int         n = (int)strlen(letters), inputs = op->in.max < OT_VARIADIC ? op->in.max : 1;
    bool        floats = false;
    for (int i = 0; i < inputs; i++) floats |= !ot_is_nondiff(op, i) && ot_types_of(op, i) & OT_TYPE(OT_F32);
    bool whole = n == inputs || !strcmp(letters, "-") || (n && op->in.max == OT_VARIADIC);
    if (op->flags & OT_INTERNAL || (!op->slots && (!floats || op->grad_zero))) return true;
    if (!whole) printf("FAIL %s: .slots says \"%s\"; a letter for each of its %d inputs is needed, or \"-\" where none takes a parameter\n", op->name, letters, inputs);
    for (const char *l = letters; *l && whole; l++)
        if (!strchr("WBMAGnosaxdecjht>~-", *l)) printf("FAIL %s: .slots: letter '%c' is not known\n", op->name, *l), whole = false;
    return whole;
}

/* Over several micro-batches, an element-wise operator is one operator: by the rule of its family, or by one of its own. */
static int batch_rules(void)
{
    static const ot_op *const list[] = {
#define ROW(name, ...) &ot_op_##name,
        OT_ELEMENTWISE_OPS(ROW)
#undef ROW
    };
    int failed = 0;
    for (int i = 0; i < OT_LEN(list); i++)
        if (!list[i]->batch) printf("FAIL %s is element-wise, and has no rule for several micro-batches (.batch)\n", list[i]->name), failed++;
    return failed;
}

static int slot_table(void)
{
    int failed = batch_rules(), strong = 0, weak = 0, carried = 0;
    const ot_op *op;
    for (int i = 0; (op = ot_op_at(i)); i++) {
        failed += !slots_said(op);
        for (const char *l = op->slots ? op->slots : ""; *l; l++) strong += ot_slot_is_strong(*l), weak += ot_slot_is_weak(*l), carried += *l == '>';
    }
    printf("%d strong slots, %d weak, %d carried; %d operators failed\n", strong, weak, carried, failed);
    return failed || !strong || !weak || !carried;
}

int main(int argc, char **argv)
{
    int         every = 1, from = 0;
    if (argc > 1 && !strncmp(argv[1], "--every=", 8)) {
        char *plus;
        every = (int)strtol(argv[1] + 8, &plus, 10);
        from = *plus == '+' ? atoi(plus + 1) : 0;
        argc--, argv++;
    }
    if (every < 1 || from < 0 || from >= every) return 2;
    bool        on_device = argc > 1 && !strcmp(argv[1], "--cuda"), compile = argc > 2 && !strcmp(argv[1], "--compile");
    int         first = compile ? 3 : on_device ? 2 : 1;
    const char *want = argc > first ? argv[first] : "";
    totals      sum = { 0 };
    ot_device  *device = NULL;
    if (!on_device && !compile) guards_watch();
    if (argc > 1 && !strcmp(argv[1], "--types")) return type_table();
    if (argc > 1 && !strcmp(argv[1], "--slots")) return slot_table();
    if (on_device || compile) {
        int code = device_open(compile ? argv[2] : NULL, &device);
        if (code) return code;
    }
    run_all(want, every, from, device, compile, &sum);
    if (!sum.rows && *want) printf("no row begins with '%s'; an operator's rows are asked for as 'Relu.'\n", want);
    if (compile) {
        sum.failed += compiled_badly(device, argv[2]);
        printf("%d rows, %d failed; %d kernels prepared\n", sum.rows, sum.failed, sum.kernels);
    } else {
        if (on_device) kernels_ran();
        printf("%d rows, %d failed; %d kernel runs against the reference, %d gradients\n", sum.rows, sum.failed, sum.kernels,
               sum.gradients);
    }
    if (device) device->backend->close(device);
    return sum.failed || !sum.rows;
}
