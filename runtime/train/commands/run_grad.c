/* run_grad.c - the commands run and grad: arrays in, arrays out. */

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/train/commands/inspect.h"
#include "runtime/train/commands/predict.h"
#include "runtime/train/run/folder.h"
#include "runtime/train/run/trainer.h"

static ot_status take_tensor(ot_arena *a, const char *name, ot_exec *x, const ot_value *v, ot_tensor *out,
                             ot_error *err)
{
    *out = (ot_tensor){ .name = ot_arena_strdup(a, name), .dtype = v->dtype, .rank = v->shape.rank };
    memcpy(out->dim, v->shape.dim, sizeof out->dim);
    out->data = ot_arena_alloc(a, ot_bytes(&v->shape, v->dtype) + 1);
    if (!out->name || !out->data) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", name);
    OT_TRY(ot_exec_read(x, v, out->data, err));
    char **text = out->data;
    for (int64_t i = 0, n = v->dtype == OT_STRING ? ot_numel(&v->shape) : 0; i < n; i++)
        if (!(text[i] = ot_arena_strdup(a, text[i]))) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", name);
    return OT_OK;
}

void ot_tensors_free(ot_tensors *ts)
{
    if (!ts) return;
    if (ts->owner) ot_arena_free(ts->owner);
    *ts = (ot_tensors){ 0 };
}

/* ---- run ------------------------------------------------------------------------- */

/* Sizes may come from data: a plan with everything known.  The first failure is the one to tell. */
static ot_status plan_for_bytes(ot_session *x, ot_feeders *fs, int *slot, ot_error *err)
{
    ot_error again = { 0 };
    ot_status s = OT_OK;
    for (int i = 0; i < fs->n && !s; i++) {
        s = ot_feeder_prepare(&fs->f[i], 1, x->a, &again);
        fs->f[i].known = !s;
    }
    if (!s) s = ot_session_plan(x, OT_WANT_RUN, fs, 1, 1, slot, &again);
    if (s == OT_E_MODEL) {
        ot_error third = { 0 };
        x->partial = true;
        s = ot_session_plan(x, OT_WANT_RUN, fs, 1, 1, slot, &third);
    }
    if (!s) *err = (ot_error){ 0 };
    if (s == OT_E_DATA) *err = again; /* with these data it is they that do not fit */
    return s ? err->status : OT_OK;
}

static void say_lines(const ot_callbacks *cb, const char *lines, ot_arena *a)
{
    while (cb && cb->message && *lines) {
        size_t n = strcspn(lines, "\n");
        const char *one = ot_arena_printf(a, "%.*s", (int)n, lines);
        if (one) cb->message(cb->user, OT_INFO, one);
        lines += n + (lines[n] == '\n');
    }
}

/* In training mode a file gives a sample other outputs with other samples beside it, or at random. */
static ot_status say_modes(const ot_model *m, const ot_settings *s, ot_arena *a, const ot_callbacks *cb, ot_error *err)
{
    ot_plan p;
    ot_findings f = { .a = a };
    ot_review r = { .findings = &f, .eval = true };
    if (s->options.eval_mode || !cb || !cb->message) return OT_OK;
    OT_TRY(ot_classified(m, s, &p, err));
    ot_review_graph(p.graph, m->file->producer, &r);
    ot_graph_free(p.graph);
    if (r.norms)
        cb->message(cb->user, OT_WARNING,
                    "BatchNormalization has training_mode=1 in the file: it uses the batch "
                    "statistics of --data; use --mode eval for the running statistics");
    if (r.dropouts)
        cb->message(cb->user, OT_WARNING,
                    "Dropout has training_mode=true in the file: elements are dropped at "
                    "random; use --mode eval to disable it");
    return OT_OK;
}

/* A sequence is there by its elements: NAME/0 ... */
static bool is_spread(const ot_plan *p, const ot_value *v)
{
    size_t n = strlen(v->name);
    for (int i = 0; i < p->n_spread; i++)
        if (!strncmp(p->spread[i], v->name, n) && p->spread[i][n] == '/' && !strchr(p->spread[i] + n + 1, '/'))
            return true;
    return false;
}

static void say_left_out(const ot_callbacks *cb, const ot_value *v, ot_arena *a)
{
    const char *line = ot_arena_printf(a, "output '%s' is omitted: %s", v->name, v->left_out);
    if (cb && cb->message && line) cb->message(cb->user, OT_WARNING, line);
}

static void say_warnings(const ot_callbacks *cb, const ot_plan *p, ot_arena *a)
{
    for (int i = 0; i < p->findings.n && cb && cb->message; i++) {
        const char *line =
            p->findings.list[i].severity == OT_FINDING_WARNING ? ot_finding_line(&p->findings.list[i], a) : NULL;
        if (line) cb->message(cb->user, OT_WARNING, line);
    }
}

static ot_status run_filled(const ot_model *m, const ot_settings *s, const ot_dataset *d, ot_arena *a,
                            const ot_callbacks *cb, ot_tensors *out, ot_error *err)
{
    ot_session x;
    ot_feeders fs;
    ot_numbers ignored;
    ot_error e1 = { 0 };
    int slot = 0;
    ot_normalize z;
    const char *notes = "";
    ot_adapt_env e = { .graph = m->file->graph, .s = s, .normalize = &z, .as_is = true, .a = a, .notes = &notes };
    OT_TRY(ot_normalize_parse(s->normalize, &z, err));
    OT_TRY(say_modes(m, s, a, cb, err));
    OT_TRY(ot_adapt_inputs(&e, d, &fs, err));
    ot_adapt_idle(&e, &fs);
    say_lines(cb, notes, a);
    ot_status r = ot_session_open(&x, m, s, NULL, &e1);
    if (!r) r = ot_session_plan(&x, OT_WANT_RUN, &fs, 1, 1, &slot, &e1);
    if (r == OT_E_MODEL) r = plan_for_bytes(&x, &fs, &slot, &e1);
    if (r) ot_fail(err, r, "%s", e1.text);
    if (!r) r = ot_session_allocate(&x, err);
    if (!r) r = ot_session_batch(&x, slot, NULL, &ignored, err);
    const ot_graph *g = r ? NULL : x.slot[slot].plan->graph;
    int own = m->file->graph->n_outputs;
    if (!r) say_warnings(cb, x.slot[slot].plan, a);
    out->t = ot_arena_alloc(out->owner, sizeof *out->t * (size_t)((g ? g->n_outputs : 0) + 1));
    if (!r && !out->t) r = ot_fail(err, OT_E_NOMEM, "no memory for the outputs");
    for (int i = 0; !r && i < g->n_outputs; i++) {
        const ot_value *v = g->outputs[i];
        if (v->left_out && is_spread(x.slot[slot].plan, v)) continue;
        if (v->left_out) say_left_out(cb, v, a);
        else
            r = take_tensor(out->owner, i < own ? m->outputs[i] : x.slot[slot].plan->spread[i - own], x.slot[slot].exec,
                            v, &out->t[out->n++], err);
    }
    ot_session_close(&x);
    return r;
}

static ot_status run_set(const ot_model *m, const ot_settings *s, const ot_dataset *d, ot_arena *a,
                         const ot_callbacks *cb, ot_tensors *out, ot_error *err)
{
    ot_model filled;
    ot_dataset fed;
    OT_TRY(ot_model_fill(m, d, a, &filled, &fed, err));
    ot_status r = run_filled(&filled, s, &fed, a, cb, out, err);
    if (filled.file != m->file) ot_model_cut_drop(&filled);
    return r;
}

static ot_status run_with(const ot_model *m, const ot_options *o, const ot_dataset *d, const ot_callbacks *cb,
                          ot_tensors *out, ot_error *err)
{
    ot_settings s;
    ot_arena *a = ot_arena_new();
    *out = (ot_tensors){ .owner = ot_arena_new() };
    ot_error first = { 0 };
    ot_status r = a && out->owner ? OT_OK : ot_fail(&first, OT_E_NOMEM, "no memory to run the model");
    if (!r) r = ot_settings_read(o, m->outputs, a, &s, &first);
    if (!r) r = run_set(m, &s, d, a, cb, out, &first);
    if (a) ot_arena_free(a);
    if (!r) return OT_OK;
    ot_tensors_free(out);
    return ot_fail(err, r, "%s", first.text);
}

ot_status ot_run(const ot_model *m, const ot_options *o, const ot_tensor *in, int n, ot_tensors *out, ot_error *err)
{
    OT_GIVEN(out);
    *out = (ot_tensors){ 0 };
    OT_GIVEN(m);
    OT_GIVEN(o);
    OT_TRY(ot_tensors_given(in, n, err));
    ot_array *list = calloc((size_t)n + 1, sizeof *list);
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory to run the model");
    for (int i = 0; i < n; i++) list[i] = (ot_array){ .t = in[i], .whole = true };
    ot_dataset d = { .name = "the call", .n = n, .array = list };
    ot_status s = run_with(m, o, &d, NULL, out, err);
    free(list);
    return s;
}

/* Whether the arrays can be written at the end. */
static ot_status check_arrays(const ot_model *m, const ot_options *o, const char *from, const ot_dataset *d,
                              const char *to, ot_error *err)
{
    ot_arena *a = ot_arena_new();
    const char *what = a ? ot_arena_printf(a, "-o %s", to) : NULL;
    ot_inputs in = {
        .model = m->file, .configs = a ? ot_options_configs(o, a) : NULL, .named = { from }, .data = { d }
    };
    ot_status s = what ? ot_output_check(&in, AT_FDCWD, to, OT_FILE_ARRAYS, what, err)
                       : ot_fail(err, OT_E_NOMEM, "no memory for a path");
    ot_arena_free(a);
    return s;
}

static bool has_images(const ot_dataset *d)
{
    bool any = false;
    for (int i = 0; i < d->n; i++) any |= d->array[i].source != NULL;
    return any;
}

/* Opens data whose samples are files without labels, which `run` needs not.  Errors: OT_E_NOMEM. */
static ot_status find_images(const char *from, bool *are, ot_error *err)
{
    static const ot_data_options unlabelled = { .unlabelled = true, .alone = true };
    ot_dataset *d = NULL;
    ot_error bad = { 0 };
    ot_status s = ot_dataset_open(from, OT_SPLIT_TRAIN, &unlabelled, &d, &bad);
    *are = !s && has_images(d);
    ot_dataset_free(d);
    return s == OT_E_NOMEM ? ot_fail(err, s, "%s", bad.text) : OT_OK;
}

static ot_status run_file(const ot_model *m, const ot_options *o, const char *from, const char *to,
                          const ot_callbacks *cb, ot_error *err)
{
    ot_dataset *d = NULL;
    ot_tensors out;
    ot_error first = { 0 };
    OT_TRY(check_arrays(m, o, from, NULL, to, err));
    ot_status opened = ot_dataset_open(from, OT_SPLIT_TRAIN, NULL, &d, &first);
    bool recorded = ot_import_metadata(m->file, OT_PREPROCESS_KEY), samples = !opened && has_images(d);
    if (recorded)
        samples =
            samples || opened == OT_E_DATA || (!opened && (d->table || d->windows)); /* arrays are fed as they are */
    else if (opened == OT_E_DATA) OT_TRY(find_images(from, &samples, err));
    if (samples) {
        ot_dataset_free(d);
        return ot_run_samples(m, o, cb, err);
    }
    if (opened) return ot_fail(err, opened, "%s", first.text);
    ot_status s = check_arrays(m, o, from, d, to, err);
    if (!s && cb && cb->message && recorded)
        cb->message(cb->user, OT_INFO,
                    "arrays are fed as they are; 'onnxtrain predict' scales them as the model's training did");
    if (!s && cb && cb->message && ot_options_count(o, "batch-size"))
        cb->message(cb->user, OT_WARNING, "--batch-size is ignored: 'run' feeds whole arrays");
    if (!s) s = run_with(m, o, d, cb, &out, err);
    if (!s) {
        s = ot_npz_write(to, out.t, out.n, err);
        ot_tensors_free(&out);
    }
    ot_dataset_free(d);
    return s;
}

ot_status ot_run_file(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    OT_GIVEN(m);
    OT_GIVEN(o);
    const char *to = ot_options_get(o, "o");
    if (!ot_options_count(o, "data"))
        return ot_fail(err, OT_E_USAGE, "--data is missing: name the .npz file with the inputs");
    if (!to) return ot_fail(err, OT_E_USAGE, "-o is missing: name the .npz file to write");
    ot_arena *a = ot_arena_new();
    const char *from = a ? ot_options_joined(o, "data", a) : NULL;
    ot_status s = from ? run_file(m, o, from, to, cb, err) : ot_fail(err, OT_E_NOMEM, "no memory for options");
    ot_arena_free(a);
    return s;
}

/* ---- grad ------------------------------------------------------------------------- */

/* Adds gradients of the batch that has just run, in f64. */
static ot_status add_gradients(const ot_slot *q, double **sum, void *scratch, ot_error *err)
{
    for (int i = 0; i < q->plan->n_weights; i++) {
        const ot_value *g = q->plan->weights[i]->grad;
        if (!g) continue;
        OT_TRY(ot_exec_read(q->exec, g, scratch, err));
        for (int64_t k = 0, n = ot_numel(&g->shape); k < n; k++) sum[i][k] += ot_get_f64(scratch, g->dtype, k);
    }
    return OT_OK;
}

static ot_status make_room(const ot_plan *p, ot_arena *a, double ***sum, void **scratch, ot_error *err)
{
    int64_t most = 1;
    *sum = ot_arena_alloc(a, sizeof **sum * (size_t)(p->n_weights + 1));
    for (int i = 0; *sum && i < p->n_weights; i++) {
        int64_t n = ot_numel(&p->weights[i]->shape);
        (*sum)[i] = ot_arena_alloc(a, (size_t)(n + 1) * sizeof(double));
        if (!(*sum)[i]) *sum = NULL;
        if (n > most) most = n;
    }
    *scratch = ot_arena_alloc(a, (size_t)most * sizeof(double));
    return *sum && *scratch ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the gradients");
}

/* 'loss' is the loss: the gradient of a weight called so goes by 'loss#2', or the next number that is free. */
static const char *gradient_name(const ot_trainer *t, const ot_plan *p, const ot_value *w)
{
    const ot_source *sources = t->m->file->sources;
    const char *name = sources[w->source].name;
    if (strcmp(name, "loss")) return name;
    for (int number = 2; name; number++) {
        bool free = (name = ot_arena_printf(t->a, "loss#%d", number)) != NULL;
        for (int i = 0; free && i < p->n_weights; i++) free = strcmp(sources[p->weights[i]->source].name, name) != 0;
        if (free) break;
    }
    return name;
}

/* A gradient has its weight's name, type and shape. */
static ot_status write_gradients(ot_trainer *t, const ot_plan *p, double **sum, double loss, int batches, ot_error *err)
{
    ot_tensor *out = ot_arena_alloc(t->a, sizeof *out * (size_t)(p->n_weights + 1));
    double *mean = ot_arena_alloc(t->a, sizeof *mean);
    if (!out || !mean) return ot_fail(err, OT_E_NOMEM, "no memory for the gradients");
    for (int i = 0; i < p->n_weights; i++) {
        const ot_value *w = p->weights[i];
        ot_tensor *g = &out[i];
        *g = (ot_tensor){ .name = gradient_name(t, p, w), .dtype = w->dtype, .rank = w->shape.rank };
        memcpy(g->dim, w->shape.dim, sizeof g->dim);
        g->data = ot_arena_alloc(t->a, ot_bytes(&w->shape, w->dtype) + 1);
        if (!g->name || !g->data) return ot_fail(err, OT_E_NOMEM, "no memory for the gradients");
        for (int64_t k = 0, n = ot_numel(&w->shape); k < n; k++) ot_set_f64(g->data, g->dtype, k, sum[i][k] / batches);
    }
    *mean = loss / batches;
    out[p->n_weights] = (ot_tensor){ .name = "loss", .dtype = OT_F64, .data = mean };
    return ot_npz_write(t->s.out, out, p->n_weights + 1, err);
}

/* One line for all gradients that hold NaN or infinity. */
static void say_nonfinite(const ot_trainer *t, const ot_plan *p, double **sum)
{
    const char *first = NULL;
    int bad = 0;
    for (int i = 0; i < p->n_weights; i++) {
        int64_t k = 0, n = ot_numel(&p->weights[i]->shape);
        while (k < n && isfinite(sum[i][k])) k++;
        if (k < n && !bad++) first = t->m->file->sources[p->weights[i]->source].name;
    }
    if (bad)
        ot_trainer_say(t, OT_WARNING, "%d of %d gradients contain NaN or infinity (first: '%s')", bad, p->n_weights,
                       first);
}

static ot_status gradients(ot_trainer *t, ot_error *err)
{
    double **sum, loss = 0;
    ot_numbers got;
    void *scratch;
    int slot, batches = t->s.accumulate;
    const char *to = t->s.out;
    if (!t->s.data) return ot_fail(err, OT_E_USAGE, "--data is missing: name the .npz file with inputs and targets");
    if (!to) return ot_fail(err, OT_E_USAGE, "-o is missing: name the .npz file to write");
    OT_TRY(check_arrays(t->m, t->o, t->s.data, NULL, to, err));
    OT_TRY(ot_trainer_open_gradient(t, &slot, err));
    OT_TRY(check_arrays(t->m, t->o, t->s.data, t->data, to, err));
    const ot_slot *q = &t->x.slot[slot];
    OT_TRY(make_room(q->plan, t->a, &sum, &scratch, err));
    for (int k = 0; k < batches; k++) {
        for (int64_t i = 0; i < t->batch; i++) t->index[i] = (k * t->batch + i) % t->train.samples;
        OT_TRY(ot_session_batch(&t->x, slot, t->index, &got, err));
        t->x.counter++;
        loss += got.loss;
        OT_TRY(add_gradients(q, sum, scratch, err));
    }
    if (!isfinite(loss)) ot_trainer_say(t, OT_WARNING, "the loss is %s", isnan(loss) ? "NaN" : "infinite");
    say_nonfinite(t, q->plan, sum);
    return write_gradients(t, q->plan, sum, loss, batches, err);
}

ot_status ot_grad_file(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    OT_GIVEN(m);
    OT_GIVEN(o);
    ot_trainer *t = NULL;
    ot_error first = { 0 };
    OT_TRY(ot_trainer_begin(m, o, cb, &t, err));
    ot_status s = gradients(t, &first);
    ot_trainer_free(t);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}
