/* models.c - functions that targets for ONNX files share. */
#include "tests/fuzz/models.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/io.h"
#include "runtime/train/options/options.h"

enum { LARGEST = 1 << 16 };

size_t fuzz_bytes(const ot_tensor *t)
{
    ot_shape s = { .rank = t->rank };
    FUZZ_HOLD(t->rank <= OT_MAX_RANK, "'%s' has rank %d", t->name, t->rank);
    for (int i = 0; i < t->rank; i++) s.dim[i] = t->dim[i];
    return ot_shape_known(&s) && ot_dtype_bits(t->dtype) && ot_shape_fits(&s, t->dtype) ? ot_bytes(&s, t->dtype) : 0;
}

static void walk(const ot_model *m)
{
    volatile uint8_t sink = 0;
    ot_tensor t;
    for (int i = 0; ot_model_input(m, i, &t); i++) FUZZ_HOLD(t.name && !t.data, "input %d", i);
    for (int i = 0; ot_model_output(m, i, &t); i++) FUZZ_HOLD(t.name && !t.data, "output %d", i);
    for (int i = 0; ot_model_initializer(m, i, &t); i++) {
        size_t n = fuzz_bytes(&t);
        FUZZ_HOLD(t.name && (t.data || !n), "initializer %d", i);
        for (size_t k = 0; k < n; k++) sink = ((const uint8_t *)t.data)[k];
    }
    (void)sink;
}

ot_model *fuzz_load(const char *path)
{
    ot_model *m = NULL;
    ot_error e = { 0 };
    ot_status s = fuzz_status("ot_model_load", ot_model_load(path, &m, &e), &e);
    FUZZ_HOLD((s == OT_OK) == (m != NULL), "status %d and %s model", (int)s, m ? "a" : "no");
    if (m) walk(m);
    return m;
}

ot_options *fuzz_options(const char *const *pairs)
{
    static const char *const always[] = { "device", "cpu", "threads", "1", NULL };
    ot_options *o = ot_options_new();
    ot_error e = { 0 };
    for (int i = 0; always[i]; i += 2) FUZZ_HOLD(!ot_options_set(o, always[i], always[i + 1], &e), "%s", e.text);
    for (int i = 0; pairs && pairs[i]; i += 2) FUZZ_HOLD(!ot_options_set(o, pairs[i], pairs[i + 1], &e), "%s", e.text);
    return o;
}

static const char *path_of(const char *name)
{
    const char *const data = OT_SOURCE_ROOT "/tests/fuzz/regressions/train/0-mlp";
    if (!strcmp(name, "data") || !strcmp(name, "val") || !strcmp(name, "test")) return data;
    if (!strcmp(name, "run-dir")) return fuzz_path("run");
    if (!strcmp(name, "o")) return fuzz_path("out.onnx");
    return fuzz_path(name);
}

/* Instead of all values that it has. */
static void put(ot_options *o, const char *name, const char *value)
{
    ot_error e = { 0 };
    ot_options_unset(o, name);
    FUZZ_HOLD(!ot_options_set(o, name, value, &e), "%s", e.text);
}

void fuzz_tame(ot_options *o)
{
    static const char *const most[][2] = {
        { "batch-size", "64" }, { "accumulate", "4" }, { "threads", "1" }, { "epochs", "3" }
    };
    for (int i = 0; ot_option_at(i); i++) {
        const ot_option_info *x = ot_option_at(i);
        bool file =
            x->argument && (strstr(x->argument, "FILE") || strstr(x->argument, "DIR") || strstr(x->argument, "PATH"));
        if (file && strcmp(x->name, "config") && ot_options_get(o, x->name)) put(o, x->name, path_of(x->name));
    }
    for (int i = 0; i < OT_LEN(most); i++) {
        const char *now = ot_options_get(o, most[i][0]);
        if (!now || strtod(now, NULL) > strtod(most[i][1], NULL)) put(o, most[i][0], most[i][1]);
    }
    static const char *const always[][2] = { { "device", "cpu" }, { "steps", "2" } };
    for (int i = 0; i < OT_LEN(always); i++) put(o, always[i][0], always[i][1]);
    if (!ot_options_get(o, "run-dir")) put(o, "run-dir", "none");
    put(o, "data", path_of("data"));
    put(o, "o", path_of("o"));
}

void fuzz_same_files(const char *a, const char *b, const char *what)
{
    void *p = NULL, *q = NULL;
    size_t n = 0, m = 0;
    ot_error e = { 0 };
    FUZZ_HOLD(!ot_read_file(a, 1 << 24, &p, &n, &e) && !ot_read_file(b, 1 << 24, &q, &m, &e), "%s", e.text);
    FUZZ_HOLD(n == m && !memcmp(p, q, n), "%s", what);
    free(p);
    free(q);
}

void *fuzz_made_up(const ot_tensor *t)
{
    size_t bytes = fuzz_bytes(t),
           n = bytes && ot_dtype_bits(t->dtype) ? bytes * 8 / (size_t)ot_dtype_bits(t->dtype) : 0;
    if (bytes > LARGEST || !ot_dtype_bits(t->dtype)) return NULL;
    uint8_t *p = calloc(1, bytes + 1);
    for (size_t i = 0; p && i < n; i++) {
        if (ot_is_float(t->dtype)) ot_set_f64(p, t->dtype, (int64_t)i, (double)((i * 7 + 3) % 13) * 0.25 - 1);
        else ot_set_i64(p, t->dtype, (int64_t)i, (int64_t)((i * 5 + 1) % 3) % (t->dtype == OT_BOOL ? 2 : 3));
    }
    return p;
}

bool fuzz_feed(const ot_model *m, fuzz_fed *f)
{
    ot_tensor t;
    for (f->n = 0; ot_model_input(m, f->n, &t); f->n++) {
        if (f->n == FUZZ_MOST_FED || t.rank < 0) return false;
        for (int i = 0; i < t.rank; i++)
            if (t.dim[i] < 0) t.dim[i] = 2;
        t.data = fuzz_made_up(&t);
        if (!t.data) return false;
        f->t[f->n] = t;
    }
    return true;
}

void fuzz_unfeed(fuzz_fed *f)
{
    for (int i = 0; i < f->n; i++) free(f->t[i].data);
}
