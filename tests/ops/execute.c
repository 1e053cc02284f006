/* execute.c - runs graphs node by node on guarded memory, and kernels against the reference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/harness.h"

/* With the address sanitizer a read of the guard bytes ends the test; without it a write is noticed afterwards. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
static bool watched;
void guards_watch(void) { watched = true; }
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
enum { watched = 0 };
void guards_watch(void) {}
#endif

void *guarded_new(size_t bytes)
{
    size_t all = (bytes + 2 * GUARD + 63) / 64 * 64;
    unsigned char *p = aligned_alloc(64, all);
    if (!p) {
        perror("test_ops");
        exit(1);
    }
    memset(p, 0xA5, all);
    if (watched) {
        ASAN_POISON_MEMORY_REGION(p, GUARD);
        ASAN_POISON_MEMORY_REGION(p + GUARD + bytes, all - GUARD - bytes);
    }
    return p + GUARD;
}

bool guarded_intact(const void *p, size_t bytes)
{
    const unsigned char *b = p;
    for (int i = 0; i < GUARD && !watched; i++)
        if (b[-1 - i] != 0xA5 || b[bytes + (size_t)i] != 0xA5) return false;
    return true;
}

void guarded_free(void *p)
{
    if (p) free((char *)p - GUARD);
}

/* ---- memory of a graph --------------------------------------------------------- */

memory memory_new(const ot_graph *g)
{
    memory m = { .at = calloc((size_t)g->n_values + 1, sizeof *m.at), .n = g->n_values };
    return m;
}

void memory_free(memory *m)
{
    for (int i = 0; i < m->n; i++) guarded_free(m->at[i]);
    free(m->at);
    *m = (memory){ 0 };
}

void *memory_of(memory *m, const ot_value *v)
{
    if (!v) return NULL;
    if (v->role == OT_CONST && v->data) return (void *)(uintptr_t)v->data;
    if (!m->at[v->id]) m->at[v->id] = guarded_new(ot_bytes(&v->shape, v->dtype));
    return m->at[v->id];
}

bool memory_guarded(const memory *m, const ot_value *v)
{
    return !v || !m->at[v->id] || guarded_intact(m->at[v->id], ot_bytes(&v->shape, v->dtype));
}

/* ---- running ------------------------------------------------------------------- */

ot_status kernel_run(const ot_kernel *k, const ot_node *n, const void *const *in, void *const *out, int threads,
                     bool *intact, ot_error *err)
{
    ot_prep p = { .threads = threads, .err = err };
    *intact = true;
    if (k->prepare && k->prepare(n, &p) != OT_OK) return err->status;
    void *work = p.work ? guarded_new(p.work) : NULL;
    ot_call c = { .node = n, .in = in, .out = out, .work = work, .state = p.state, .threads = threads, .err = err };
    ot_status s = k->run(&c);
    if (k->release && p.state) k->release(p.state);
    if (work) *intact = guarded_intact(work, p.work);
    guarded_free(work);
    return s;
}

ot_status graph_run(const ot_graph *g, const ot_node *last, memory *m, ot_error *err)
{
    for (const ot_node *n = g->first; n; n = n->next) {
        const void *in[64] = { NULL };
        void *out[64] = { NULL };
        bool intact;
        const ot_kernel *k = ot_ref_kernel(n->op);
        if (!k) return ot_fail(err, OT_E_INTERNAL, "%s has no reference kernel", n->op->name);
        for (int i = 0; i < n->n_in; i++) in[i] = memory_of(m, n->in[i]);
        for (int i = 0; i < n->n_out; i++) out[i] = memory_of(m, n->out[i]);
        ot_status s = kernel_run(k, n, in, out, 1, &intact, err);
        if (s != OT_OK) return s;
        if (!intact) return ot_fail(err, OT_E_INTERNAL, "the reference of %s writes around its workspace", n->op->name);
        for (int i = 0; i < n->n_out; i++)
            if (!memory_guarded(m, n->out[i]))
                return ot_fail(err, OT_E_INTERNAL, "the reference of %s writes around output %d", n->op->name, i);
        if (n == last) break;
    }
    return OT_OK;
}

/* ---- comparing ----------------------------------------------------------------- */

/* What storing in t costs, relative to a number of size 1. */
static double epsilon(ot_dtype t, double tol)
{
    switch (t) {
    case OT_F16: return tol > 2e-3 ? tol : 2e-3;
    case OT_BF16: return tol > 1.6e-2 ? tol : 1.6e-2;
    case OT_F64: return 1e-10;
    case OT_F32: return tol;
    default: return 0.26; /* 8-bit floats */
    }
}

bool values_close(const char *name, const char *what, ot_dtype t, int64_t n, const void *got, const void *want, double tol)
{
    for (int64_t i = 0; i < n; i++) {
        double a = ot_get_f64(got, t, i), b = ot_get_f64(want, t, i);
        bool same = a == b || (isnan(a) && isnan(b));
        if (!same && ot_is_float(t)) same = fabs(a - b) <= epsilon(t, tol) * (fabs(b) > 1 ? fabs(b) : 1);
        if (same) continue;
        printf("%s: %s: element %lld is %.9g, should be %.9g\n", name, what, (long long)i, a, b);
        return false;
    }
    return true;
}

/* ---- kernels against the reference ---------------------------------------------- */

typedef struct trial {
    const char      *name;
    const ot_node   *n;
    const ot_kernel *k;
    memory          *m;
    double           tol;
    int              threads;
    unsigned         in_last, out_last; /* channels last: which inputs, which outputs */
    int              inplace, into;     /* output `into` shares the memory of input `inplace`; -1: none */
    ot_device       *device;            /* NULL: the CPU */
    int              variant;           /* which of the kernel's ways */
    int              variants;          /* out: how many there are; 0: the kernel refused */
} trial;

/* Copies v's elements between row-major and the layout that v has now. */
static void relayout(const ot_value *v, void *stored, void *plain, bool to_stored)
{
    int64_t s[OT_MAX_RANK], p[OT_MAX_RANK], at[OT_MAX_RANK] = { 0 };
    int size = ot_dtype_bits(v->dtype) / 8;
    ot_value_strides(v, s);
    ot_strides(&v->shape, p);
    for (int64_t k = 0, n = ot_numel(&v->shape); k < n; k++) {
        int64_t is = 0, ip = 0;
        for (int d = 0; d < v->shape.rank; d++) is += at[d] * s[d], ip += at[d] * p[d];
        char *a = (char *)stored + is * size, *b = (char *)plain + ip * size;
        memcpy(to_stored ? a : b, to_stored ? b : a, (size_t)size);
        for (int d = v->shape.rank - 1; d >= 0; d--) {
            if (++at[d] < v->shape.dim[d]) break;
            at[d] = 0;
        }
    }
}

static void set_layouts(const trial *t, bool on)
{
    for (int i = 0; i < t->n->n_in; i++)
        if (t->n->in[i] && t->n->in[i]->shape.rank >= 3 && (t->in_last >> i & 1))
            t->n->in[i]->layout = on ? OT_CHANNELS_LAST : OT_PLAIN;
    for (int i = 0; i < t->n->n_out; i++)
        if (t->n->out[i] && t->n->out[i]->shape.rank >= 3 && (t->out_last >> i & 1))
            t->n->out[i]->layout = on ? OT_CHANNELS_LAST : OT_PLAIN;
}

static bool check_outputs(const trial *t, void **out, const char *what)
{
    bool ok = true;
    for (int i = 0; i < t->n->n_out && ok; i++) {
        const ot_value *v = t->n->out[i];
        if (!v) continue;
        size_t size = ot_bytes(&v->shape, v->dtype);
        if (!guarded_intact(out[i], size)) {
            printf("%s: %s: writes around output %d\n", t->name, what, i);
            return false;
        }
        void *plain = guarded_new(size);
        if (v->layout == OT_PLAIN && size) memcpy(plain, out[i], size);
        else relayout(v, out[i], plain, false);
        ok = values_close(t->name, what, v->dtype, ot_numel(&v->shape), plain, memory_of(t->m, v), t->tol);
        guarded_free(plain);
    }
    return ok;
}

static bool try_once(trial *t)
{
    const ot_node *n = t->n;
    void *in[64] = { NULL }, *out[64] = { NULL };
    char what[256];
    ot_error err = { 0 };
    bool intact = true, ok = true;
    t->variants = 1;
    snprintf(what, sizeof what, "%s by %s (variant %d, %d threads%s%s%s)", n->op->name, t->k->name, t->variant, t->threads,
             t->in_last ? ", inputs channels last" : "", t->out_last ? ", outputs channels last" : "",
             t->inplace >= 0 ? ", in place" : "");
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        size_t size = ot_bytes(&n->in[i]->shape, n->in[i]->dtype);
        in[i] = guarded_new(size);
        if (n->in[i]->layout == OT_PLAIN && size) memcpy(in[i], memory_of(t->m, n->in[i]), size);
        else if (size) relayout(n->in[i], in[i], memory_of(t->m, n->in[i]), true);
    }
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) out[i] = guarded_new(ot_bytes(&n->out[i]->shape, n->out[i]->dtype));
    if (t->inplace >= 0) {
        guarded_free(out[t->into]);
        out[t->into] = in[t->inplace];
    }
    ot_status s = t->device ? kernel_run_on(t->device, t->k, n, (const void *const *)in, out, t->variant, &t->variants, &intact, &err)
                            : kernel_run(t->k, n, (const void *const *)in, out, t->threads, &intact, &err);
    if (s != OT_OK) {
        printf("%s: %s: %s\n", t->name, what, err.text);
        ok = false;
    } else if (!intact) {
        printf("%s: %s: writes around its workspace\n", t->name, what);
        ok = false;
    } else if (t->variants) {
        ok = check_outputs(t, out, what);
    }
    for (int i = 0; i < n->n_out; i++)
        if (!(i == t->into && t->inplace >= 0)) guarded_free(out[i]);
    for (int i = 0; i < n->n_in; i++) guarded_free(in[i]);
    return ok;
}

static bool may_share(const ot_node *n, int i, int o)
{
    const ot_value *x = n->in[i], *y = n->out[o];
    return x && y && ot_shape_eq(&x->shape, &y->shape) && x->dtype == y->dtype;
}

static int try_kernel(const trial *like)
{
    static const unsigned layouts[][2] = { { ~0u, ~0u }, { ~0u, 0 }, { 0, ~0u }, { 1, ~0u } };
    static int rows; /* of every kernel: the next one takes other variants */
    const char *why = NULL;
    int tried = 0;
    bool ok = true;
    trial t = *like;
    t.inplace = -1;
    t.into = 0;
    if (!t.k->can || t.k->can(t.n, &why)) {
        for (t.threads = 1; t.threads <= (t.device ? 1 : 2); t.threads++) ok &= try_once(&t), tried += t.variants > 0;
        for (t.variant = 1 + rows++ % OT_SPARSE; t.variant < t.variants; t.variant += OT_SPARSE) ok &= try_once(&t), tried++;
        t.variant = 0;
        if (!t.variants) return ok ? tried : -1;
        for (int i = 0; i < t.n->n_in * t.n->n_out && i < 32; i++) {
            t.inplace = i % t.n->n_in;
            t.into = i / t.n->n_in;
            if (t.k->inplace >> t.inplace & 1 && may_share(t.n, t.inplace, t.into)) ok &= try_once(&t), tried++;
        }
    }
    t.inplace = -1;
    t.threads = 2;
    for (int k = 0; k < OT_LEN(layouts) && t.k->any_layout; k++) {
        t.in_last = layouts[k][0];
        t.out_last = layouts[k][1];
        set_layouts(&t, true);
        if (!t.k->can || t.k->can(t.n, &why)) ok &= try_once(&t), tried += t.variants > 0;
        set_layouts(&t, false);
    }
    return ok ? tried : -1;
}

static bool has_strings(const ot_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->dtype == OT_STRING) return true;
    return false;
}

/* Runs by the name of the kernel: who computed. */
static struct { const char *name; int runs; } ran[16];

static void count_runs(const char *kernel, int runs)
{
    int i = 0;
    while (i < OT_LEN(ran) - 1 && ran[i].name && strcmp(ran[i].name, kernel) != 0) i++;
    ran[i].name = kernel;
    ran[i].runs += runs;
}

void kernels_ran(void)
{
    printf("kernels:");
    for (int i = 0; i < OT_LEN(ran) && ran[i].name; i++) printf(" %s %d", ran[i].name, ran[i].runs);
    printf("\n");
}

int kernels_compare(const char *name, const ot_node *n, memory *m, double tol, ot_device *device)
{
    int tried = 0;
    const ot_kernel *ref = ot_ref_kernel(n->op);
    const char *why = "no kernel at all";
    for (const ot_kernel *const *k = ot_kernels(n->op, device); *k && *k != ref; k++) {
        int some = try_kernel(&(trial){ .name = name, .n = n, .k = *k, .m = m, .tol = tol, .device = device });
        if (some < 0) return -1;
        tried += some;
        if (some) count_runs((*k)->name, some);
    }
    if (device && !has_strings(n) && !ot_kernel_for(n, device, false, &why)) {
        printf("%s: %s: the device cannot run it: %s\n", name, n->op->name, why);
        return -1;
    }
    return tried;
}
