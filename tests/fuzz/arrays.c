/* arrays.c - rules for a data set that was read. */
#include "tests/fuzz/arrays.h"

#include <string.h>

static size_t bytes_of(const ot_tensor *t)
{
    ot_shape s = { .rank = t->rank };
    FUZZ_HOLD(t->rank >= 0 && t->rank <= OT_MAX_RANK, "'%s' has rank %d", t->name, t->rank);
    memcpy(s.dim, t->dim, sizeof s.dim);
    for (int i = 0; i < t->rank; i++) FUZZ_HOLD(t->dim[i] >= 0, "'%s': extent %d is negative", t->name, i);
    FUZZ_HOLD(ot_shape_fits(&s, t->dtype), "'%s': its bytes do not fit", t->name);
    return ot_bytes(&s, t->dtype);
}

void fuzz_same(const ot_tensor *a, const ot_tensor *b)
{
    FUZZ_HOLD(!strcmp(a->name ? a->name : "", b->name ? b->name : ""), "names '%s' and '%s'", a->name, b->name);
    FUZZ_HOLD(a->dtype == b->dtype && a->rank == b->rank, "types or ranks of '%s'", a->name);
    size_t n = bytes_of(a);
    FUZZ_HOLD(n == bytes_of(b), "sizes of '%s'", a->name);
    FUZZ_HOLD(!memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->rank), "shapes of '%s'", a->name);
    for (size_t i = 0; a->dtype == OT_STRING && i < n / sizeof(char *); i++)
        FUZZ_HOLD(!strcmp(((char **)a->data)[i], ((char **)b->data)[i]), "string %zu of '%s'", i, a->name);
    FUZZ_HOLD(!n || a->dtype == OT_STRING || !memcmp(a->data, b->data, n), "bytes of '%s'", a->name);
}

/* Touches every byte, so that the sanitizer sees an array that is shorter than it says. */
static void read_all(const ot_dataset *d)
{
    volatile uint8_t sink = 0;
    FUZZ_HOLD(d->samples >= 0 && d->n >= 0, "%lld samples, %d arrays", (long long)d->samples, d->n);
    for (int i = 0; i < d->n; i++) {
        const ot_array *a = &d->array[i];
        const uint8_t *p = a->t.data;
        for (size_t k = 0, n = bytes_of(&a->t); k < n; k++) sink = p[k];
        FUZZ_HOLD(a->whole || (a->t.rank > 0 && a->t.dim[0] == d->samples), "'%s' is cut into samples it has not",
                  a->t.name);
    }
    (void)sink;
}

ot_dataset *fuzz_open(const char *path, ot_split split)
{
    ot_dataset *d = NULL, *again = NULL;
    ot_error e = { 0 }, e1 = { 0 }, checked = { 0 };
    ot_status s = fuzz_status("ot_dataset_open", ot_dataset_open(path, split, NULL, &d, &e), &e);
    FUZZ_HOLD(!s || !d, "a set in spite of status %d", (int)s);
    FUZZ_HOLD(s || d || split == OT_SPLIT_TEST, "no set in spite of success");
    if (d) read_all(d);
    FUZZ_HOLD(s == ot_dataset_open(path, split, NULL, &again, &e1), "opened again, the status is another");
    FUZZ_HOLD(!strcmp(e.text, e1.text), "opened again, the text is another: '%s', '%s'", e.text, e1.text);
    if (d) {
        FUZZ_HOLD(again && d->hash == again->hash && d->n == again->n, "opened again, the set is another");
        for (int i = 0; i < d->n; i++) fuzz_same(&d->array[i].t, &again->array[i].t);
        fuzz_status("ot_dataset_check", ot_dataset_check(d, &checked), &checked);
    }
    ot_dataset_free(again);
    return d;
}

void fuzz_mapped(const char *path)
{
    const ot_data_options o = { .map_from = 1 };
    ot_dataset *d = NULL;
    ot_error e = { 0 };
    fuzz_status("ot_dataset_open (mapped)", ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, &e), &e);
    for (int k = 0; d && k < d->n; k++) {
        const ot_array *a = &d->array[k];
        for (int64_t i = 0; a->mapped && !a->whole && i < d->samples && i < 1000; i++) {
            ot_error bad = { 0 };
            fuzz_status("ot_array_check_sample", ot_array_check_sample(a, i, i, OT_F32, &bad), &bad);
        }
    }
    ot_dataset_free(d);
}
