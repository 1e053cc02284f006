/* data.c - the command data: what a data set holds. Arrays with their ranges, classes with their counts, samples that occur twice.
 *
 * Two samples are the same if all their input arrays have the same bytes; their targets may differ, which is counted too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/commands/contact_sheet.h"
#include "runtime/train/commands/inspect.h"
#include "runtime/train/run/log.h"

enum { MOST_CLASSES = 1 << 16, SHOWN_CLASSES = 40, BAR = 24, PARTS = 3 };

/* A range of numbers, and how they spread. */
typedef struct spread {
    double low, high, mean, std;
    int64_t n, nan;
} spread;

typedef struct class_counts {
    int64_t *count; /* by class, from 0 */
    int n;          /* 0: the array has no classes */
    const char *const *name;
    int named; /* so many of them have names */
    int64_t ignored;
} class_counts;

/* A target of several columns of 0 and 1 of a table. */
typedef struct label_counts {
    int n; /* 0: the array is something else */
    const char *const *name;
    int64_t *count; /* of 1 */
} label_counts;

typedef struct key {
    uint64_t inputs, target;
    int part;
} key;

typedef struct part {
    const char *name; /* "training", "val", "test" */
    ot_dataset *d;    /* NULL: there is none */
    int64_t inside;   /* samples whose inputs another sample of this part has, too */
    int64_t before;   /* samples whose inputs a sample of the training part has */
    int64_t torn;     /* samples whose inputs an earlier sample of any part has with another target */
} part;

typedef struct job {
    const ot_options *o;
    ot_arena *a;
    part part[PARTS];
    bool compared; /* samples were compared */
} job;

/* ---- arrays ------------------------------------------------------------------------------ */

static int64_t elements(const ot_array *a)
{
    ot_shape s = ot_array_shape(a);
    return ot_numel(&s);
}

static bool has_numbers(const ot_array *a) { return a->t.data && a->t.dtype != OT_STRING && !a->mapped; }

static spread spread_of(const ot_dataset *d, const ot_array *a)
{
    spread s = { .low = INFINITY, .high = -INFINITY };
    double square = 0;
    bool named = a->role == OT_ARRAY_TARGET && ot_dataset_string_column(d, a); /* gaps of it have no number */
    for (int64_t i = 0, all = elements(a); i < all; i++) {
        double v = ot_get_f64(a->t.data, a->t.dtype, ot_array_at(a, i)), off;
        if (named && v == OT_IGNORED) continue;
        if (!isfinite(v)) {
            s.nan++;
            continue;
        }
        s.low = fmin(s.low, v);
        s.high = fmax(s.high, v);
        off = v - s.mean;
        s.mean += off / (double)++s.n;
        square += off * (v - s.mean);
    }
    s.std = s.n ? sqrt(square / (double)s.n) : 0;
    return s;
}

/* Counts the samples that have each of several labels. */
static ot_status count_labels(job *j, const ot_dataset *d, const ot_array *a, label_counts *out, ot_error *err)
{
    int n = 0;
    *out = (label_counts){ 0 };
    if (a->role != OT_ARRAY_TARGET || !has_numbers(a) || !ot_is_int(a->t.dtype)) return OT_OK;
    out->name = ot_dataset_target_columns(d, a, &n);
    if (!out->name || n < 2) return OT_OK;
    out->count = ot_arena_alloc(j->a, sizeof *out->count * (size_t)n);
    if (!out->count) return ot_fail(err, OT_E_NOMEM, "no memory to count labels");
    memset(out->count, 0, sizeof *out->count * (size_t)n);
    out->n = n;
    for (int64_t i = 0, all = elements(a); i < all; i++)
        out->count[i % n] += ot_get_i64(a->t.data, a->t.dtype, ot_array_at(a, i)) != 0;
    return OT_OK;
}

/* Counts the classes of a target of whole numbers from 0, fewer than the samples; -100 is ignored. */
static ot_status count_classes(job *j, const ot_dataset *d, const ot_array *a, class_counts *out, ot_error *err)
{
    int64_t all = has_numbers(a) ? elements(a) : 0, most = -1;
    *out = (class_counts){ 0 };
    if (a->role != OT_ARRAY_TARGET || !all) return OT_OK;
    for (int64_t i = 0; i < all; i++) {
        double v = ot_get_f64(a->t.data, a->t.dtype, ot_array_at(a, i));
        if (v == OT_IGNORED) continue;
        if (v != floor(v) || v < 0 || v >= MOST_CLASSES) return OT_OK;
        if (v > (double)most) most = (int64_t)v;
    }
    bool whole = ot_is_int(a->t.dtype) || a->t.dtype == OT_BOOL;
    int known = ot_dataset_classes(d, a, &out->name), n = (int)(known > most + 1 ? known : most + 1);
    if (!whole || n < 1 || (!known && n > d->samples / 2 + 1)) return OT_OK;
    out->count = ot_arena_alloc(j->a, sizeof *out->count * (size_t)n);
    if (!out->count) return ot_fail(err, OT_E_NOMEM, "no memory to count classes");
    memset(out->count, 0, sizeof *out->count * (size_t)n);
    out->n = n;
    out->named = out->name ? known : 0;
    for (int64_t i = 0; i < all; i++) {
        int64_t v = ot_get_i64(a->t.data, a->t.dtype, ot_array_at(a, i));
        if (v == OT_IGNORED) out->ignored++;
        else out->count[v]++;
    }
    return OT_OK;
}

/* ---- duplicates ---------------------------------------------------------------------------- */

static uint64_t sample_hash(const ot_dataset *d, ot_array_role role, int64_t i)
{
    uint64_t h = 0;
    for (int k = 0; k < d->n; k++) {
        const ot_array *a = &d->array[k];
        int64_t each = a->whole || !d->samples ? 0 : elements(a) / d->samples;
        if (a->whole || a->role != role || !each) continue;
        if (a->t.dtype != OT_STRING) {
            int64_t bits = ot_dtype_bits(a->t.dtype), at = ot_array_at(a, i * each) * bits;
            if (bits >= 8) h = ot_hash(h, (const char *)a->t.data + at / 8, (size_t)(each * bits / 8));
            for (int64_t e = 0; bits < 8 && e < each; e++) {
                int64_t v = ot_get_i64(a->t.data, a->t.dtype, ot_array_at(a, i * each + e));
                h = ot_hash(h, &v, sizeof v);
            }
        }
        for (int64_t e = 0; a->t.dtype == OT_STRING && e < each; e++) {
            const char *text = ((char **)a->t.data)[ot_array_at(a, i * each + e)];
            h = ot_hash(h, text, strlen(text) + 1);
        }
    }
    return h;
}

static int by_inputs(const void *x, const void *y)
{
    const key *a = x, *b = y;
    if (a->inputs != b->inputs) return a->inputs < b->inputs ? -1 : 1;
    return a->part - b->part;
}

static bool is_comparable(const ot_dataset *d)
{
    bool any = false;
    for (int k = 0; k < d->n; k++) {
        if (d->array[k].mapped || (!d->array[k].t.data && elements(&d->array[k]))) return false;
        any |= !d->array[k].whole && d->array[k].role == OT_ARRAY_INPUT;
    }
    return any;
}

/* Samples in order of their inputs: equal ones are neighbours, the training part's first. */
static void count_duplicates(job *j, key *list, int64_t n)
{
    qsort(list, (size_t)n, sizeof *list, by_inputs);
    for (int64_t i = 1, first = 0; i < n; i++) {
        if (list[i].inputs != list[first].inputs) {
            first = i;
            continue;
        }
        part *p = &j->part[list[i].part];
        p->inside += list[i - 1].part == list[i].part;
        p->before += list[i].part && !list[first].part;
        p->torn += list[i].target != list[first].target;
    }
}

static ot_status find_duplicates(job *j, ot_error *err)
{
    int64_t n = 0, at = 0;
    for (int p = 0; p < PARTS; p++) {
        if (j->part[p].d && !is_comparable(j->part[p].d)) return OT_OK;
        if (j->part[p].d) n += j->part[p].d->samples;
    }
    key *list = malloc((size_t)(n + 1) * sizeof *list);
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory to compare samples");
    for (int p = 0; p < PARTS; p++)
        for (int64_t i = 0; j->part[p].d && i < j->part[p].d->samples; i++)
            list[at++] =
                (key){ sample_hash(j->part[p].d, OT_ARRAY_INPUT, i), sample_hash(j->part[p].d, OT_ARRAY_TARGET, i), p };
    count_duplicates(j, list, n);
    free(list);
    j->compared = true;
    return OT_OK;
}

/* ---- text ---------------------------------------------------------------------------------- */

static const char *title(const ot_array *a, char buf[512])
{
    return *a->t.name ? ot_shown(a->t.name, buf, 512) : a->role == OT_ARRAY_TARGET ? "(target)" : "(input)";
}

static void print_array(const ot_dataset *d, const ot_array *a, FILE *f)
{
    char name[512], shape[128];
    ot_shape s = ot_array_shape(a);
    if (ot_array_is_sound(a)) {
        ot_print(f, "  %-16s recordings in files, %d Hz, up to %.3g s\n", title(a, name), a->source->rate,
                 (double)a->frames / a->source->rate);
        return;
    }
    if (a->source) {
        ot_print(f, "  %-16s images in files, decoded to %lld channel%s\n", title(a, name), (long long)a->t.dim[3],
                 a->t.dim[3] == 1 ? "" : "s");
        return;
    }
    ot_print(f, "  %-16s %-8s %-20s %s", title(a, name), ot_dtype_name(a->t.dtype), ot_shape_text(&s, shape),
             a->role == OT_ARRAY_TARGET ? "target"
             : a->whole                 ? "input, whole with every batch"
                                        : "input");
    if (has_numbers(a) && elements(a)) {
        spread v = spread_of(d, a);
        if (v.n) fprintf(f, ", %.6g to %.6g, mean %.6g, std %.6g", v.low, v.high, v.mean, v.std);
        if (v.nan) fprintf(f, ", %lld NaN or infinite", (long long)v.nan);
    }
    fputc('\n', f);
}

/* A line without the name of the set at its beginning, which is in the title. */
static const char *unnamed(const ot_dataset *d, const char *line)
{
    size_t n = strlen(d->name);
    return !strncmp(line, d->name, n) && !strncmp(line + n, ": ", 2) ? line + n + 2 : line;
}

/* The first value that is NaN or infinite, by its place, or another finding of the check before a training; NULL: none. */
static const char *problem_of(const ot_dataset *d, ot_error *e)
{
    *e = (ot_error){ 0 };
    return ot_dataset_check(d, e) ? unnamed(d, e->text) : NULL;
}

/* Writes the notes and warnings that a training with the data set would print. */
static ot_status print_notes(const job *j, const ot_dataset *d, FILE *f, ot_error *err)
{
    const char *line[] = { NULL, d->notes };
    if (!ot_options_nth(j->o, "target", 0)) OT_TRY(ot_dataset_target_line(d, j->a, &line[0], err));
    char classes[40], one[1024], shown[4096];
    size_t k = (size_t)snprintf(classes, sizeof classes, "%d classes:", d->n_classes);
    for (int i = 0; i < OT_LEN(line); i++)
        for (const char *p = line[i]; p && *p;) {
            size_t n = strcspn(p, "\n"), skip = (size_t)(unnamed(d, p) - p);
            snprintf(one, sizeof one, "%.*s", (int)(n - skip), p + skip);
            if (strncmp(p, classes, k))
                fprintf(f, "  %s\n", ot_shown(one, shown, sizeof shown)); /* else: listed below */
            p += n + (p[n] == '\n');
        }
    return OT_OK;
}

/* A class or label with its share of `all` samples; most: of the largest one. */
static void print_share(int i, const char *of, int64_t count, int64_t all, int64_t most, FILE *f)
{
    char name[256], bar[BAR + 1] = "";
    ot_shown_in(of, 20, name, sizeof name);
    int width = most ? (int)lround((double)count / (double)most * BAR) : 0;
    memset(bar, '#', (size_t)width);
    fprintf(f, "    %5d %s %9lld %6.2f %% %s\n", i, name, (long long)count, all ? 100 * (double)count / (double)all : 0,
            bar);
}

static void print_labels(const label_counts *c, int64_t samples, FILE *f)
{
    fprintf(f, "  %d labels, of which a sample may have any number:\n", c->n);
    for (int i = 0; i < c->n && i < SHOWN_CLASSES; i++) print_share(i, c->name[i], c->count[i], samples, samples, f);
    if (c->n > SHOWN_CLASSES) fprintf(f, "    and %d more\n", c->n - SHOWN_CLASSES);
}

static void print_classes(const class_counts *c, bool table, FILE *f)
{
    int64_t all = 0, most = 0, least = INT64_MAX;
    for (int i = 0; i < c->n; i++) {
        all += c->count[i];
        most = c->count[i] > most ? c->count[i] : most;
        least = c->count[i] < least ? c->count[i] : least;
    }
    fprintf(f, "  %d classes", c->n);
    if (least == most) fputs(", all of one size", f);
    else if (least)
        fprintf(f, ", the largest has %.3g times the samples of the smallest", (double)most / (double)least);
    else fprintf(f, ", some without a sample");
    const char *s = c->ignored == 1 ? "" : "s", *are = c->ignored == 1 ? "is" : "are";
    if (c->ignored && table) fprintf(f, "; %lld %s missing", (long long)c->ignored, are);
    else if (c->ignored) fprintf(f, "; %lld label%s of %d %s ignored", (long long)c->ignored, s, OT_IGNORED, are);
    fputc('\n', f);
    for (int i = 0; i < c->n && i < SHOWN_CLASSES; i++)
        print_share(i, i < c->named ? c->name[i] : "", c->count[i], all, most, f);
    if (c->n > SHOWN_CLASSES) fprintf(f, "    and %d more\n", c->n - SHOWN_CLASSES);
}

static void print_duplicates(const job *j, const part *p, FILE *f)
{
    const char *s = p->d->samples == 1 ? "" : "s";
    if (!p->inside && !p->before) fputs("  no sample repeats the inputs of another one\n", f);
    if (p->inside)
        fprintf(f, "  %lld of %lld sample%s %s the inputs of another one\n", (long long)p->inside,
                (long long)p->d->samples, s, p->inside == 1 ? "repeats" : "repeat");
    if (p != j->part && p->before)
        fprintf(f, "  %lld of %lld sample%s %s in the training part, too: numbers of this part are too good\n",
                (long long)p->before, (long long)p->d->samples, s, p->before == 1 ? "is" : "are");
    if (p->torn)
        fprintf(f, "  %lld of %lld sample%s %s the inputs of another one and a different target\n", (long long)p->torn,
                (long long)p->d->samples, s, p->torn == 1 ? "has" : "have");
}

static ot_status print_text(job *j, FILE *f, ot_error *err)
{
    char name[512];
    for (int p = 0; p < PARTS; p++) {
        const ot_dataset *d = j->part[p].d;
        class_counts c;
        ot_error bad;
        const char *problem = d ? problem_of(d, &bad) : NULL;
        if (!d) continue;
        fprintf(f, "%s%s, %s: %lld sample%s\n", p ? "\n" : "", ot_shown(d->name, name, sizeof name), j->part[p].name,
                (long long)d->samples, d->samples == 1 ? "" : "s");
        for (int i = 0; i < d->n; i++) print_array(d, &d->array[i], f);
        if (problem) fprintf(f, "  most models cannot train with this: %s\n", problem);
        OT_TRY(print_notes(j, d, f, err));
        for (int i = 0; i < d->n; i++) {
            label_counts l;
            OT_TRY(count_labels(j, d, &d->array[i], &l, err));
            if (l.n) print_labels(&l, d->samples, f);
            if (l.n) continue;
            OT_TRY(count_classes(j, d, &d->array[i], &c, err));
            bool cells = d->table && ot_array_shape(&d->array[i]).rank == 1; /* not the tokens of a column of tags */
            if (c.n) print_classes(&c, cells, f);
        }
        if (j->compared) print_duplicates(j, &j->part[p], f);
        else fputs("  samples were not compared with each other: they are read from files\n", f);
    }
    return OT_OK;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static json_t *array_json(const ot_dataset *d, const ot_array *a)
{
    json_t *shape = json_array();
    for (int i = 0; i < a->t.rank; i++) ot_json_add(&shape, json_integer(a->t.dim[i]));
    json_t *o =
        json_pack("{s:o, s:s, s:s, s:o}", "name", ot_json_text(a->t.name), "role",
                  a->role == OT_ARRAY_TARGET ? "target" : "input", "type", ot_dtype_name(a->t.dtype), "shape", shape);
    if (!has_numbers(a) || !elements(a)) return o;
    spread v = spread_of(d, a);
    ot_json_real(&o, "min", v.n ? v.low : (double)NAN);
    ot_json_real(&o, "max", v.n ? v.high : (double)NAN);
    ot_json_real(&o, "mean", v.n ? v.mean : (double)NAN);
    ot_json_real(&o, "std", v.n ? v.std : (double)NAN);
    ot_json_set(&o, "not_finite", json_integer(v.nan));
    return o;
}

static ot_status part_json(job *j, const part *p, json_t **to, ot_error *err)
{
    json_t *arrays = json_array(), *o = json_object();
    ot_json_set(&o, "name", ot_json_text(p->d->name));
    ot_json_set(&o, "samples", json_integer(p->d->samples));
    ot_status s = OT_OK;
    for (int i = 0; i < p->d->n && !s; i++) {
        class_counts c;
        json_t *one = array_json(p->d, &p->d->array[i]), *classes = json_array();
        label_counts l;
        json_t *labels = json_array();
        s = count_labels(j, p->d, &p->d->array[i], &l, err);
        for (int k = 0; !s && k < l.n; k++) {
            json_t *of = json_pack("{s:I}", "samples", (json_int_t)l.count[k]);
            ot_json_set(&of, "name", ot_json_text(l.name[k]));
            ot_json_add(&labels, of);
        }
        if (!s && l.n) ot_json_set(&one, "labels", labels);
        else json_decref(labels);
        c = (class_counts){ 0 };
        if (!s && !l.n) s = count_classes(j, p->d, &p->d->array[i], &c, err);
        for (int k = 0; !s && k < c.n; k++) {
            json_t *of = json_pack("{s:i, s:I}", "class", k, "samples", (json_int_t)c.count[k]);
            if (k < c.named) ot_json_set(&of, "name", ot_json_text(c.name[k]));
            ot_json_add(&classes, of);
        }
        if (!s && c.n) ot_json_set(&one, "classes", classes);
        else json_decref(classes);
        ot_json_add(&arrays, one);
    }
    ot_json_set(&o, "arrays", arrays);
    ot_error bad;
    const char *problem = problem_of(p->d, &bad);
    if (problem) ot_json_set(&o, "problem", ot_json_text(problem));
    ot_json_set(&o, "notes", ot_json_lines(p->d->notes ? p->d->notes : ""));
    if (j->compared) {
        ot_json_set(&o, "repeated", json_integer(p->inside));
        ot_json_set(&o, "in_training", json_integer(p->before));
        ot_json_set(&o, "other_target", json_integer(p->torn));
    }
    ot_json_set(to, p->name, o);
    return s;
}

/* ---- all ----------------------------------------------------------------------------------- */

static ot_status open_part(job *j, int p, const char *spec, ot_split split, ot_error *err)
{
    ot_data_options o = { .target = ot_options_nth(j->o, "target", 0),
                          .unlabelled = !ot_options_nth(j->o, "target", 0), /* a target that is named must be there */
                          .described = true,
                          .columns = ot_options_nth(j->o, "inputs", 0),
                          .categories = ot_options_get(j->o, "categories"),
                          .passed = ot_options_get(j->o, "passthrough"),
                          .parts = ot_options_get(j->o, "split"),
                          .group = ot_options_get(j->o, "group"),
                          .length = ot_options_int(j->o, "length"),
                          .stride = ot_options_int(j->o, "stride"),
                          .ahead = ot_options_int(j->o, "ahead"),
                          .has_ahead = ot_options_get(j->o, "ahead") != NULL,
                          .text = ot_options_get(j->o, "text"),
                          .tokenizer = ot_options_get(j->o, "tokenizer") };
    part *x = &j->part[p];
    if (p) o.preprocess = j->part[0].d->preprocess, o.columns = o.categories = o.passed = NULL;
    OT_TRY(ot_dataset_open(spec, split, &o, &x->d, err));
    if (x->d && o.target) OT_TRY(ot_dataset_target(x->d, o.target, err));
    return x->d && p ? ot_dataset_match(x->d, j->part[0].d, err) : OT_OK;
}

static ot_status open_parts(job *j, const char *spec, ot_error *err)
{
    const char *val = ot_options_joined(j->o, "val", j->a), *test = ot_options_joined(j->o, "test", j->a);
    if (!val != !ot_options_count(j->o, "val") || !test != !ot_options_count(j->o, "test"))
        return ot_fail(err, OT_E_NOMEM, "no memory for options");
    j->part[0].name = "training";
    j->part[1].name = "val";
    j->part[2].name = "test";
    OT_TRY(open_part(j, 0, spec, OT_SPLIT_TRAIN, err));
    OT_TRY(open_part(j, 1, val ? val : spec, val ? OT_SPLIT_TRAIN : OT_SPLIT_VAL, err));
    if (!test) return open_part(j, 2, spec, OT_SPLIT_TEST, err);
    OT_TRY(open_part(j, 2, test, OT_SPLIT_TEST, err));
    return j->part[2].d ? OT_OK : open_part(j, 2, test, OT_SPLIT_TRAIN, err);
}

static ot_status describe(job *j, const char *spec, char **text, ot_error *err)
{
    ot_page p;
    OT_TRY(open_parts(j, spec, err));
    OT_TRY(find_duplicates(j, err));
    OT_TRY(ot_page_open(&p, ot_options_flag(j->o, "json"), err));
    ot_status s = p.f ? print_text(j, p.f, err) : OT_OK;
    if (!s) s = ot_contact_sheet(j->part[0].d, j->o, j->a, p.f, err);
    for (int i = 0; i < PARTS && !p.f && !s; i++)
        if (j->part[i].d) s = part_json(j, &j->part[i], &p.json, err);
    ot_status closed = ot_page_close(&p, text, err);
    if (!s) return closed;
    free(*text);
    *text = NULL;
    return s;
}

ot_status ot_data_text(const char *data, const ot_options *o, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    *text = NULL;
    OT_GIVEN(data);
    OT_GIVEN(o);
    job j = { .o = o, .a = ot_arena_new() };
    ot_error first = { 0 };
    if (!j.a) return ot_fail(err, OT_E_NOMEM, "no memory to describe the data");
    ot_status s = describe(&j, data, text, &first);
    for (int p = PARTS - 1; p >= 0; p--) ot_dataset_free(j.part[p].d);
    ot_arena_free(j.a);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}
