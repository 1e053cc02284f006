/* target_scale.c - targets that are values, standardised: (target - mean)/std of the training set (--normalize-target).
 *
 * A model learns them in that unit and its outputs are in it; the record in the model's metadata (preprocess.h) says so, by
 * which predict and the metrics are in the unit of the data.  Only losses of distances are scaled: their best answers are the
 * same in any unit. */
#include <math.h>
#include <string.h>

#include "runtime/losses/losses.h"
#include "runtime/losses/tails.h"
#include "runtime/train/feed/preprocess.h"
#include "runtime/train/feed/target_scale.h"

static const double FAR = 10; /* root mean square of values that are said to be far from what a new model gives */

/* The feeder of that output's target in the training set; NULL: none. */
static const ot_feeder *in_training(const ot_adapt_env *e, const char *output)
{
    for (int i = 0; e->training && i < e->training->n; i++) {
        const ot_feeder *f = &e->training->f[i];
        if (f->target && f->output && !strcmp(f->output, output)) return f;
    }
    return NULL;
}

bool ot_target_any_number(const ot_adapt_env *e, const ot_output *output)
{
    for (int i = 0; i < e->graph->n_outputs; i++)
        if (!strcmp(e->graph->outputs[i]->name, output->name))
            return ot_is_float(output->dtype) && ot_made_linear(e->graph->outputs[i]);
    return false;
}

/* Are targets of that output scaled: as the set that trains has them, as the model's metadata say, or by what is measured on d?
 * *recorded: the scaling; its kind is OT_NORMALIZE_NONE where it is still to be measured. */
static bool is_wanted(const ot_adapt_env *e, const ot_dataset *d, const ot_spec *loss, const ot_output *output,
                      ot_normalize *recorded)
{
    ot_normalize z = { 0 };
    *recorded = z;
    if (!output || !ot_is_float(output->dtype) || e->s->target_scale == OT_TARGET_AS_IS) return false;
    if (loss && !ot_loss_find(loss->name)->distance) return false;
    const ot_feeder *f = in_training(e, output->name);
    if (f) *recorded = f->normalize;
    if (f) return f->gather.scale;
    if (e->s->target_scale == OT_TARGET_STANDARD && e->measure) return true;
    if (ot_preprocess_target(e->preprocess, output->name, recorded)) return true;
    /* A table whose inputs this training scales: what the model gave for others says nothing of it. */
    return e->measure && ot_table_is_scaled(d) && ot_target_any_number(e, output);
}

/* Weights move by about the learning rate in an update, whatever the values are: far ones take long to reach. */
static void say_far(const ot_adapt_env *e, const char *name, const ot_array *a)
{
    const ot_tensor *t = &a->t;
    double sum = 0, squares = 0;
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    if (!e->measure || a->mapped || n < 2) return;
    for (int64_t i = 0; i < n; i++) {
        double v = ot_get_f64(t->data, t->dtype, ot_array_at(a, i));
        sum += v;
        squares += v * v;
    }
    double mean = sum / (double)n, size = sqrt(squares / (double)n), off = sqrt(fmax(0, size * size - mean * mean));
    if (isfinite(size) && size >= FAR)
        ot_adapt_note(
            e,
            "target '%s' has mean %.4g and standard deviation %.4g: a model whose outputs begin near 0 trains faster with "
            "--normalize-target mean,std",
            name, mean, off);
}

/* A loss of values whose best answers depend on their unit: a likelihood, an angle. */
static bool needs_unit(const ot_spec *loss)
{
    const ot_loss_kind *k = loss ? ot_loss_find(loss->name) : NULL;
    return k && !k->distance && (k->takes == OT_TAKES_VALUES || k->takes == OT_TAKES_VECTORS);
}

/* --normalize-target mean,std where it cannot be done: refused, unless the target of another loss can have it. */
static ot_status refuse(const ot_adapt_env *e, const ot_spec *loss, const char *name, ot_error *err)
{
    bool other = false;
    for (int i = 0; i < e->s->options.n_losses; i++) other |= ot_loss_find(e->s->options.losses[i].name)->distance;
    if (!other)
        return ot_fail_more(err, OT_E_USAGE,
                            "--normalize-target mean,std: loss %s needs target '%s' in its own unit; use a loss of "
                            "differences (mse, l1, smooth_l1, huber), or remove the option",
                            loss->name, name);
    ot_adapt_note(e, "target '%s' is not standardised: loss %s needs it in its own unit", name, loss->name);
    return OT_OK;
}

ot_status ot_target_scale(const ot_adapt_env *e, const ot_dataset *d, const ot_spec *loss, const ot_output *output,
                          ot_feeder *f, ot_error *err)
{
    char line[256];
    const char *name = d->table && d->column && !strcmp(f->name, "target") ? d->column : f->src->t.name;
    ot_normalize z;
    ot_error bad = { 0 };
    if (f->src->source) return OT_OK; /* images in files are not measured */
    bool given = e->s->target_scale == OT_TARGET_STANDARD, shares = f->adds_up[0] || f->adds_up[1];
    bool wanted = is_wanted(e, d, loss, output, &z), known = z.kind == OT_NORMALIZE_GIVEN;
    if (needs_unit(loss)) return given && !f->binary && !shares ? refuse(e, loss, name, err) : OT_OK;
    if (given && !wanted && !e->measure && !e->training)
        return ot_fail_more(
            err, OT_E_USAGE,
            "--normalize-target mean,std: the model has no record of how target '%s' was scaled, and the "
            "training set is not loaded here",
            name);
    int64_t channels = f->sample.rank == 1 && f->sample.dim[0] <= OT_MAX_CHANNELS ? f->sample.dim[0] : 1;
    if (!wanted || (!known && (f->src->mapped || (!given && (f->binary || shares))))) {
        say_far(e, name, f->src);
        return OT_OK;
    }
    if (!known && ot_normalize_values(&z, f->src, (int)channels, 1, &bad))
        return ot_fail_more(err, bad.status, "target '%s': %s", name, bad.text);
    if (ot_normalize_apply(&z, channels, &f->gather, line, &bad))
        return ot_fail_more(err, bad.status, "target '%s': the model's metadata have another number of columns: %s",
                            name, bad.text);
    f->normalize = z;
    ot_adapt_note(e, "target '%s': %s%s; predict and the metrics are in the unit of the data", name, line,
                  known ? ", as the model's metadata say"
                        : ", measured on the training set (change with --normalize-target)");
    return OT_OK;
}
