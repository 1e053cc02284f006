/* run_grad.c - the commands run and grad: read arrays, compute, write arrays. */

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/train/commands/inspect.h"
#include "runtime/train/commands/predict.h"
#include "runtime/train/commands/runner.h"
#include "runtime/train/run/folder.h"
#include "runtime/train/run/trainer.h"

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
    if (!s) s = ot_run_arrays(m, o, d, cb, &out, err);
    if (!s) {
        s = ot_npz_write(to, out.t, out.n, err);
        ot_tensors_free(&out);
    }
    ot_dataset_free(d);
    return s;
}

ot_status ot_run_file(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    OT_ENTER(err);
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

/* NumPy has no bfloat16, so the user must know the type of such an array. */
static void say_bits(const ot_trainer *t, const ot_plan *p)
{
    const char *first = NULL;
    int n = 0;
    for (int i = 0; i < p->n_weights; i++)
        if (p->weights[i]->dtype == OT_BF16 && !n++) first = t->m->file->sources[p->weights[i]->source].name;
    if (n)
        ot_trainer_say(
            t, OT_INFO,
            "%d gradients are bfloat16, as their weights, and are written as bits in uint16 (first: '%s'); in "
            "NumPy: (g.astype('uint32') << 16).view('float32')",
            n, first);
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
    say_bits(t, q->plan);
    return write_gradients(t, q->plan, sum, loss, batches, err);
}

ot_status ot_grad_file(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(m);
    OT_GIVEN(o);
    ot_trainer *t = NULL;
    ot_error first = { 0 };
    OT_TRY(ot_trainer_begin(m, o, cb, &t, err));
    ot_status s = gradients(t, &first);
    ot_trainer_free(t);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}
