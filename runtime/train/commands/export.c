/* export.c - the deployable form: `export`, and --deploy behind a training.
 *
 * Before the file appears, its answers in evaluation mode are compared with those of the file it was made from, on one
 * batch of numbers in [0, 1), and of the strings that the file holds: its categories and labels. */

#include <fcntl.h>
#include <math.h>
#include <string.h>

#include "exporter/deploy.h"
#include "ops/op.h"
#include "runtime/base/random.h"
#include "runtime/train/run/files.h"
#include "runtime/train/run/dry_run.h"
#include "runtime/train/feed/preprocess.h"
#include "runtime/train/run/variants.h"
#include "runtime/train/run/trainer.h"

typedef struct deployment {
    const ot_model *m;
    const ot_options *o;
    const ot_callbacks *cb;
    ot_arena *a;
    ot_settings s;
    bool fold, half;
    ot_feed *feeds;
    int n_feeds;
    ot_tensor *in;
    json_t *record;       /* onnxtrain.preprocess of that file; NULL: none */
    ot_tensors answers;   /* of it */
    const ot_node *draws; /* a node of random numbers that evaluation computes too; NULL: none */
    double difference;
    int64_t batch; /* of the training behind which it is exported; 0: none */
} deployment;

static void say(const deployment *d, ot_level level, const char *fmt, ...) OT_PRINTF(3, 4);

static void say(const deployment *d, ot_level level, const char *fmt, ...)
{
    char line[1200];
    if (!d->cb || !d->cb->message) return;
    va_list ap;
    va_start(ap, fmt);
    ot_vtext(line, sizeof line, fmt, ap);
    va_end(ap);
    d->cb->message(d->cb->user, level, line);
}

static const ot_node *drawing_node(const ot_graph *g)
{
    const ot_node *found = NULL;
    for (const ot_node *n = g->first; n && !found; n = n->next) {
        if (n->op->flags & OT_RANDOM && !(n->op->flags & OT_IN_TRAINING)) found = n;
        for (int i = 0; ot_subgraph(n, i) && !found; i++) found = drawing_node(ot_subgraph(n, i));
    }
    return found;
}

/* ---- answers ------------------------------------------------------------------------- */

enum { MOST_BATCHES = 24, LARGEST_BATCH = 64 };

static void add_batch(int64_t *list, int *n, int64_t batch)
{
    for (int i = 0; i < *n; i++)
        if (list[i] == batch) return;
    if (*n < MOST_BATCHES) list[(*n)++] = batch;
}

/* The batches that the comparison tries: 2, or 1, as some files can only be run with one of them (in float16, which is slow here, 1
 * first); the one of the training; sizes of tensors in the file, as a constant of it may have been made for a batch. */
static int batches_of(const deployment *d, int64_t *list)
{
    const ot_graph *g = d->m->file->graph;
    int n = 0;
    add_batch(list, &n, d->half ? 1 : 2);
    add_batch(list, &n, d->half ? 2 : 1);
    if (d->batch > 0) add_batch(list, &n, d->batch);
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        for (int k = 0; k < v->shape.rank && ot_is_const(v); k++)
            if (v->shape.dim[k] > 2 && v->shape.dim[k] <= LARGEST_BATCH) add_batch(list, &n, v->shape.dim[k]);
    }
    return n;
}

/* Inputs of the first batch size with which the file can be run. */
static ot_status sizes_find(deployment *d, ot_error *err)
{
    int64_t list[MOST_BATCHES];
    ot_error first = { 0 };
    for (int i = 0, n = batches_of(d, list); i < n; i++) {
        ot_error e = { 0 };
        if (!ot_dry_run_inputs(d->m, &d->s, list[i], d->a, &d->feeds, &d->n_feeds, &e)) return OT_OK;
        if (!i) first = e;
        if (e.status != OT_E_MODEL) break;
    }
    return ot_fail(err, first.status, "%s", first.text);
}

/* Number of strings in the constants of g; *word: the string at that position, in the order of the values. */
static int64_t words_of(const ot_graph *g, int64_t place, const char **word)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        if (v->dtype != OT_STRING || !ot_is_const(v)) continue;
        int64_t size = ot_numel(&v->shape);
        if (place >= n && place < n + size) *word = ((const char *const *)v->data)[place - n];
        n += size;
    }
    return n;
}

/* One of these strings; "a" if there are none. */
static const char *word_for(const deployment *d, uint32_t random)
{
    const char *word = "a";
    int64_t n = words_of(d->m->file->graph, -1, &word);
    if (n) words_of(d->m->file->graph, random % n, &word);
    return word;
}

/* Generates inputs: floats in [0, 1), other numbers 0 or 1, strings of the file. */
static ot_status inputs_make(deployment *d, ot_error *err)
{
    d->in = ot_arena_alloc(d->a, sizeof *d->in * (size_t)(d->n_feeds + 1));
    for (int i = 0; d->in && i < d->n_feeds; i++) {
        const ot_feed *f = &d->feeds[i];
        ot_tensor *t = &d->in[i];
        *t = (ot_tensor){ .name = f->name, .dtype = f->dtype, .rank = f->shape.rank };
        memcpy(t->dim, f->shape.dim, sizeof t->dim);
        t->data = ot_arena_alloc(d->a, ot_bytes(&f->shape, f->dtype) + 1);
        if (!t->data) return ot_fail(err, OT_E_NOMEM, "no memory for a batch to compare");
        for (int64_t e = 0, n = ot_numel(&f->shape); e < n; e++) {
            uint32_t r[4];
            ot_philox(0, (uint64_t)e, (uint64_t)i, r);
            if (f->dtype == OT_STRING) ((const char **)t->data)[e] = word_for(d, r[0]);
            else ot_set_f64(t->data, t->dtype, e, ot_is_float(t->dtype) ? (double)ot_uniform(r[0]) : r[0] >> 31);
        }
    }
    return d->in ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for a batch to compare");
}

static ot_status answer(const deployment *d, const ot_model *m, ot_tensors *out, ot_error *err)
{
    ot_options *o = ot_options_new();
    if (!o) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    const char *threads = ot_options_get(d->o, "threads");
    ot_status s = ot_options_set(o, "mode", "eval", err);
    if (!s) s = ot_options_set(o, "device", "cpu", err);
    if (!s && threads) s = ot_options_set(o, "threads", threads, err);
    if (!s) s = ot_run(m, o, d->in, d->n_feeds, out, err);
    ot_options_free(o);
    return s;
}

static double rounding(ot_dtype t) { return t == OT_BF16 ? 5e-2 : t == OT_F16 ? 1e-2 : 0; }

/* The allowed difference of each output, relative to its largest element: for the least precise type of the tensors and
 * of what the graph casts to, as a network exported with autocast does. */
static double tolerance(const deployment *d)
{
    double most = d->half ? 1e-2 : d->fold ? 1e-4 : 1e-5;
    for (int i = 0; i < d->m->file->n_sources; i++) most = fmax(most, rounding(d->m->file->sources[i].dtype));
    for (const ot_node *n = d->m->file->graph->first; n; n = n->next)
        if (n->op == &ot_op_Cast) most = fmax(most, rounding((ot_dtype)ot_attr_get(n, "to", 0)));
    return most;
}

static ot_status compare(deployment *d, double limit, const ot_tensor *was, const ot_tensor *is, ot_error *err)
{
    ot_shape s = { .rank = was->rank };
    memcpy(s.dim, was->dim, sizeof s.dim);
    bool same = was->dtype == is->dtype && was->rank == is->rank &&
                !memcmp(was->dim, is->dim, sizeof *was->dim * (size_t)was->rank);
    if (!same)
        return ot_fail(err, OT_E_INTERNAL, "output '%s' of the exported model has another type or shape", was->name);
    double most = 0, off = 0;
    bool finite = true;
    for (int64_t e = 0, n = ot_numel(&s); e < n; e++) {
        if (was->dtype == OT_STRING) { /* labels: equal, as numbers of classes are */
            most = 1;
            if (strcmp(((char **)was->data)[e], ((char **)is->data)[e]) != 0) off = 1;
            continue;
        }
        double x = ot_get_f64(was->data, was->dtype, e), y = ot_get_f64(is->data, is->dtype, e);
        if (isfinite(x) && isfinite(y)) most = fmax(most, fabs(x)), off = fmax(off, fabs(x - y));
        else finite &= x == y || (isnan(x) && isnan(y));
    }
    off = most > 0 ? off / most : off;
    d->difference = fmax(d->difference, off);
    if (finite && off <= limit) return OT_OK;
    if (d->draws)
        return ot_fail(err, OT_E_MODEL,
                       "node '%s' (%s) draws random numbers in evaluation too: the exported model cannot be compared "
                       "with the original; if it is a Dropout, export the network in evaluation mode",
                       d->draws->name, d->draws->op->name);
    return ot_fail(err, d->half ? OT_E_MODEL : OT_E_INTERNAL,
                   finite ? "output '%s' of the exported model differs from the original by %.2g of its largest "
                            "element; the limit is %.0e%s"
                          : "output '%s' of the exported model is NaN or infinite where the original is not (%.2g, "
                            "%.0e)%s",
                   was->name, off, limit,
                   d->half ? ": float16 is not precise enough for this model; export without "
                             "--fp16"
                           : "");
}

static ot_status check(const ot_imported *written, void *user, ot_error *err)
{
    deployment *d = user;
    const ot_graph *g = written->graph;
    ot_tensors now = { 0 };
    const char **outputs = ot_arena_alloc(d->a, sizeof *outputs * (size_t)(g->n_outputs + 1));
    if (!outputs) return ot_fail(err, OT_E_NOMEM, "no memory to compare");
    for (int i = 0; i < g->n_outputs; i++) outputs[i] = g->outputs[i]->name;
    ot_model copy = { .file = (ot_imported *)(uintptr_t)written, .outputs = outputs };
    ot_status s = answer(d, &copy, &now, err);
    double limit = tolerance(d);
    for (int i = 0, next = 0; !s && i < now.n; i++) { /* both have one order, but some may be gone */
        const ot_tensor *was = NULL;
        for (int k = 0; k < d->answers.n && !was; k++, next++) {
            const ot_tensor *t = &d->answers.t[next % d->answers.n];
            if (!strcmp(t->name, now.t[i].name)) was = t;
        }
        s = was ? compare(d, limit, was, &now.t[i], err)
                : ot_fail(err, OT_E_INTERNAL,
                          "output '%s' of the exported model is "
                          "not in the original",
                          now.t[i].name);
    }
    ot_tensors_free(&now);
    return s;
}

/* ---- metadata ---------------------------------------------------------------------------- */

typedef struct metadata {
    ot_export_metadata *list;
    int n, most;
} metadata;

static void metadata_add(metadata *m, const char *key, const char *value)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->list[i].key, key)) m->list[i].value = value; /* the user's own word comes last */
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->list[i].key, key)) return;
    if (m->n < m->most) m->list[m->n++] = (ot_export_metadata){ .key = key, .value = value };
}

/* --metadata KEY=VALUE */
static ot_status metadata_given(const ot_options *o, ot_arena *a, metadata *m, ot_error *err)
{
    for (int i = 0, n = ot_options_count(o, "metadata"); i < n; i++) {
        const char *text = ot_options_nth(o, "metadata", i), *eq = strchr(text, '=');
        if (!eq || eq == text) return ot_fail(err, OT_E_USAGE, "--metadata: expected KEY=VALUE, got '%s'", text);
        const char *key = ot_arena_printf(a, "%.*s", (int)(eq - text), text);
        if (!key) return ot_fail(err, OT_E_NOMEM, "no memory for options");
        metadata_add(m, key, eq + 1);
    }
    return OT_OK;
}

static const char *numbers(ot_arena *a, const double *v, int n)
{
    const char *text = "";
    for (int i = 0; text && i < n; i++) text = ot_arena_printf(a, "%s%s%.9g", text, i ? "," : "", v[i]);
    return text;
}

/* How image bytes are scaled: (byte * scale - mean) / std, by channel. */
static void metadata_pictures(const ot_trainer *t, ot_arena *a, metadata *m)
{
    const ot_normalize *z = &t->normalize;
    const double none = 0, one = 1, unit = 1.0 / 255;
    const char *names = "";
    bool scaled = false, given = z->kind == OT_NORMALIZE_GIVEN;
    for (int i = 0; i < t->train.n; i++) scaled |= t->train.f[i].gather.scale;
    for (int i = 0; names && i < t->train.n; i++) {
        const ot_feeder *f = &t->train.f[i];
        bool bytes = !f->target && f->src->t.dtype == OT_U8 && ot_is_float(f->dtype) && f->gather.scale == scaled;
        if (bytes) names = ot_arena_printf(a, "%s%s%s", names, *names ? "," : "", f->name);
    }
    if (names && !*names) return;
    given &= scaled;
    metadata_add(m, "onnxtrain.input.name", names);
    metadata_add(m, "onnxtrain.input.scale", numbers(a, scaled ? &unit : &one, 1));
    metadata_add(m, "onnxtrain.input.mean", given ? numbers(a, z->mean, z->channels) : numbers(a, &none, 1));
    metadata_add(m, "onnxtrain.input.std", given ? numbers(a, z->std, z->channels) : numbers(a, &one, 1));
}

static ot_status metadata_collect(const deployment *d, const ot_trainer *t, metadata *m, ot_error *err)
{
    m->most = ot_options_count(d->o, "metadata") + 8;
    m->list = ot_arena_alloc(d->a, sizeof *m->list * (size_t)m->most);
    if (!m->list) return ot_fail(err, OT_E_NOMEM, "no memory for metadata");
    if (t) metadata_pictures(t, d->a, m);
    const char *classes = NULL;
    if (t) OT_TRY(ot_classes_text(t, d->a, &classes, err));
    if (classes) metadata_add(m, OT_CLASSES_KEY, classes);
    if (t && t->data && t->data->preprocess) metadata_add(m, OT_PREPROCESS_KEY, t->data->preprocess);
    OT_TRY(metadata_given(d->o, d->a, m, err));
    for (int i = 0; i < m->n; i++)
        if (!m->list[i].value) return ot_fail(err, OT_E_NOMEM, "no memory for metadata");
    return OT_OK;
}

/* Outputs that are not in the unit of the data, for the program that will read them. */
static void say_units(const deployment *d)
{
    ot_normalize z;
    char how[160];
    for (int i = 0; i < d->m->file->graph->n_outputs; i++) {
        const char *name = d->m->outputs[i];
        if (ot_preprocess_target(d->record, name, &z))
            say(d, OT_INFO, "output '%s' is standardised; for the unit of the data %s", name,
                ot_preprocess_unit(&z, how));
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static ot_status write_file(deployment *d, const char *path, const metadata *md, ot_error *err)
{
    ot_plan *typed = NULL;
    const char *lines = "";
    ot_config c = ot_session_config(&d->s, OT_WANT_RUN, 1);
    c.feeds = d->feeds;
    c.n_feeds = d->n_feeds;
    for (int i = 0; i < d->n_feeds; i++) d->feeds[i].sample = d->in[i].data;
    OT_TRY(ot_plan_any(d->m->file->graph, &c, d->feeds, true, d->a, &typed, err));
    ot_deploy_options o = { .fold = d->fold,
                            .half = d->half,
                            .n_metadata = md->n,
                            .metadata = md->list,
                            .typed = typed->graph,
                            .check = check,
                            .user = d };
    ot_status s = ot_deploy(d->m->file, path, &o, d->a, &lines, err);
    ot_plan_free(typed);
    if (s) return s;
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        say(d, OT_INFO, "%.*s", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
    say(d, OT_INFO, "exported model: %s (outputs in evaluation mode within %.1g of the original)", path, d->difference);
    if (d->draws)
        say(d, OT_WARNING,
            "node '%s' (%s) draws random numbers in every run of the exported model: its outputs differ from run to run; if "
            "it is a Dropout, export the network in evaluation mode",
            d->draws->name, d->draws->op->name);
    say_units(d);
    return OT_OK;
}

/* m: the file; t: the training that wrote it, NULL: none. */
static ot_status deploy(deployment *d, const ot_trainer *t, const char *path, ot_error *err)
{
    metadata md = { 0 };
    OT_TRY(ot_settings_read(d->o, d->m->outputs, d->a, &d->s, err));
    d->s.options.eval_mode = true;
    d->s.options.precision = OT_FP32;
    d->fold = ot_options_flag(d->o, "fold");
    d->half = ot_options_flag(d->o, "fp16");
    d->draws = drawing_node(d->m->file->graph);
    OT_TRY(ot_preprocess_read(ot_import_metadata(d->m->file, OT_PREPROCESS_KEY), &d->record, err));
    OT_TRY(metadata_collect(d, t, &md, err));
    d->batch = t ? t->batch : 0;
    OT_TRY(sizes_find(d, err));
    OT_TRY(inputs_make(d, err));
    OT_TRY(answer(d, d->m, &d->answers, err));
    return write_file(d, path, &md, err);
}

/* Checks that the file may be written: the command does not read it. */
static ot_status check_path(const ot_inputs *in, const char *option, const char *path, ot_arena *a, ot_error *err)
{
    const char *what = ot_arena_printf(a, "%s %s", option, path);
    return what ? ot_output_check(in, AT_FDCWD, path, OT_FILE_MODEL, what, err)
                : ot_fail(err, OT_E_NOMEM, "no memory for a path");
}

static ot_status run(const ot_model *m, const ot_options *o, const ot_callbacks *cb, const ot_trainer *t,
                     const char *path, ot_error *err)
{
    ot_error first = { 0 };
    deployment d = { .m = m, .o = o, .cb = cb, .a = ot_arena_new() };
    if (!d.a) return ot_fail(err, OT_E_NOMEM, "%s: no memory to export it", path);
    ot_inputs in = { .model = m->file, .configs = ot_options_configs(o, d.a) };
    ot_status s = check_path(&in, t ? "--deploy" : "-o", path, d.a, &first);
    if (!s) s = deploy(&d, t, path, &first);
    ot_tensors_free(&d.answers);
    json_decref(d.record);
    ot_arena_free(d.a);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}

ot_status ot_export_file(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(m);
    OT_GIVEN(o);
    const char *path = ot_options_get(o, "o");
    if (!path) return ot_fail(err, OT_E_USAGE, "-o is missing: name the file to write");
    return run(m, o, cb, NULL, path, err);
}

ot_status ot_trainer_check_deploy(ot_trainer *t, ot_error *err)
{
    static const char *const with[] = { "fold", "fp16", "metadata" };
    const char *path = ot_options_get(t->o, "deploy"), *out = ot_trainer_out(t);
    for (int i = 0; i < OT_LEN(with) && !path; i++)
        if (ot_options_count(t->o, with[i]))
            return ot_fail(err, OT_E_USAGE, "--%s applies to the exported model: --deploy FILE is missing", with[i]);
    if (!path) return OT_OK;
    ot_inputs in = ot_trainer_inputs(t);
    metadata md = { 0 };
    const deployment d = { .o = t->o, .a = t->a };
    OT_TRY(metadata_collect(&d, NULL, &md, err));
    if (out && ot_path_same(path, out))
        return ot_fail(err, OT_E_USAGE,
                       "--deploy %s: is the same file as -o; use "
                       "different files",
                       path);
    if (t->s.log && ot_path_same(path, t->s.log))
        return ot_fail(err, OT_E_USAGE, "--deploy %s: is the same file as --log; use different files", path);
    return check_path(&in, "--deploy", path, t->a, err);
}

ot_status ot_trainer_deploy(ot_trainer *t, const char *path, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(t);
    ot_model *m = NULL;
    if (!path) path = ot_options_get(t->o, "deploy");
    if (!path) return ot_fail(err, OT_E_USAGE, "--deploy is missing: name the file to write");
    if (!t->result.model_path)
        return ot_fail(err, OT_E_USAGE,
                       "no model has been written yet; --deploy exports the "
                       "written model");
    OT_TRY(ot_model_load(t->result.model_path, &m, err));
    ot_inputs in = ot_trainer_inputs(t);
    ot_status s = check_path(&in, "--deploy", path, t->a, err);
    if (!s) s = run(m, t->o, &t->cb, t, path, err);
    ot_model_free(m);
    return s;
}
