/* main.c - runs nodes of moving kernels: on the CPU, on a device, or through the compiler only. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/moves/moves.h"

int64_t pick(dice *d, int64_t n) { return (int64_t)(dice_roll(d) * (double)n); }
int64_t between(dice *d, int64_t lo, int64_t hi) { return lo + pick(d, hi - lo + 1); }
ot_shape vector(int64_t n) { return (ot_shape){ 1, { n } }; }

ot_graph *graph_new(void)
{
    static ot_error err;
    err = (ot_error){ 0 };
    ot_graph *g = ot_graph_new(&err);
    if (g) return g;
    printf("no graph: %s\n", err.text);
    exit(1);
}

ot_value *numbers(ot_graph *g, dice *d, ot_dtype t, ot_shape s, double lo, double hi)
{
    int64_t n = ot_numel(&s);
    void *bytes = ot_graph_alloc(g, ot_bytes(&s, t) + 1);
    for (int64_t i = 0; i < n; i++) {
        double v = lo + (hi - lo) * dice_roll(d);
        ot_set_f64(bytes, t, i, ot_is_float(t) ? v : floor(v));
    }
    return ot_graph_const(g, "x", t, &s, bytes);
}

static ot_node *make_node(trials *t, const char *name, ot_graph *g, const ot_op *op, const void *attrs,
                          ot_value *const *in, int n_in)
{
    ot_node *n = ot_graph_node(g, op, name, attrs, in, n_in, 1);
    if (n && ot_node_infer(n, g->err) == OT_OK) return n;
    printf("%s: %s\n", name, g->err->text);
    t->failed++;
    return NULL;
}

void try_node(trials *t, const char *name, ot_graph *g, const ot_op *op, const void *attrs, ot_value *const *in,
              int n_in)
{
    ot_node *n = make_node(t, name, g, op, attrs, in, n_in);
    memory m = memory_new(g);
    int runs = -1;
    if (n && t->described) runs = kernels_prepare(name, n, t->device);
    else if (n && graph_run(g, NULL, &m, g->err) == OT_OK) runs = kernels_compare(name, n, &m, 1e-5, t->device);
    else if (n) printf("%s: %s\n", name, g->err->text);
    if (runs < 0) printf("FAIL %s\n", name), t->failed++;
    else t->runs += runs;
    memory_free(&m);
    ot_graph_free(g);
}

/* Does kernel k report the fault, and write nothing outside its output? */
static bool reports(trials *t, const char *name, const ot_kernel *k, const ot_node *n)
{
    const void *in[4] = { NULL };
    void *copies[4] = { NULL }, *out;
    ot_error err = { 0 };
    int variants;
    bool intact = true, ok;
    size_t size = ot_bytes(&n->out[0]->shape, n->out[0]->dtype);
    for (int i = 0; i < n->n_in; i++) {
        size_t bytes = ot_bytes(&n->in[i]->shape, n->in[i]->dtype);
        copies[i] = guarded_new(bytes);
        if (bytes) memcpy(copies[i], n->in[i]->data, bytes);
        in[i] = copies[i];
    }
    out = guarded_new(size);
    ot_status s = t->device ? kernel_run_on(t->device, k, n, in, &out, 0, &variants, &intact, &err)
                            : kernel_run(k, n, in, &out, 1, &intact, &err);
    ok = s != OT_OK && intact && guarded_intact(out, size);
    if (!ok) printf("%s by %s: %s\n", name, k->name, s == OT_OK ? "nothing was reported" : "writes around its memory");
    for (int i = 0; i < n->n_in; i++) guarded_free(copies[i]);
    guarded_free(out);
    return ok;
}

void must_report(trials *t, const char *name, ot_graph *g, const ot_op *op, const void *attrs, ot_value *const *in,
                 int n_in)
{
    ot_node *n = make_node(t, name, g, op, attrs, in, n_in);
    for (const ot_kernel *const *k = n && !t->described ? ot_kernels(op, t->device) : NULL; k && *k; k++, t->runs++)
        if (!reports(t, name, *k, n)) t->failed++;
    ot_graph_free(g);
}

int main(int argc, char **argv)
{
    bool on_device = argc > 1 && !strcmp(argv[1], "--cuda"), compile = argc > 2 && !strcmp(argv[1], "--compile");
    trials t = { .described = compile };
    if (on_device || compile) {
        int code = device_open(compile ? argv[2] : NULL, &t.device);
        if (code) return code;
    }
    test_boxes(&t);
    test_indices(&t);
    if (compile) t.failed += compiled_badly(t.device, argv[2]);
    printf("%d kernel runs, %d failed\n", t.runs, t.failed);
    if (t.device) t.device->backend->close(t.device);
    return t.failed || !t.runs;
}
