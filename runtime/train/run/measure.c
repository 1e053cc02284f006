/* measure.c - chooses the metrics of each output by its target, and adds the batches of an evaluation to them. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/options/metrics.h"
#include "runtime/train/run/trainer.h"

/* The output that a target is of, by the model's names: in a plan another operator may compute it.  -1: it is not among the plan's. */
static int output_of(const ot_trainer *t, const ot_plan *p, const ot_feeder *f)
{
    const char *name = f->output ? f->output : strncmp(f->name, "target_", 7) ? NULL : f->name + 7;
    for (int i = 0; i < p->graph->n_outputs && t->m->outputs[i]; i++)
        if (!name || !strcmp(t->m->outputs[i], name)) return i;
    return -1;
}

static ot_meter_scale scale_of(ot_tail_kind k)
{
    return k == OT_TAIL_SOFTMAX || k == OT_TAIL_SIGMOID ? OT_SCALE_PROBABILITIES
           : k == OT_TAIL_LOG_SOFTMAX                   ? OT_SCALE_LOGS
                                                        : OT_SCALE_LOGITS;
}

/* The shape of an output by samples: rows that belong to one have the target's leading axes, (N*T,C) is (N,T,C). */
static ot_shape by_samples(const ot_shape *s, const ot_feeder *f, int64_t batch)
{
    ot_shape out = { .rank = 1, .dim = { batch } };
    for (int64_t n = batch; f->by_rows && n != s->dim[0] && out.rank <= f->sample.rank; out.rank++)
        n *= out.dim[out.rank] = f->sample.dim[out.rank - 1];
    if (!f->by_rows || out.rank + s->rank - 1 > OT_MAX_RANK) return *s;
    memcpy(out.dim + out.rank, s->dim + 1, (size_t)(s->rank - 1) * sizeof *s->dim);
    out.rank += s->rank - 1;
    return out;
}

/* Is y the shape of the target with one more axis, at `axis`?  y: (N, ...); target: of one sample, without N. */
static bool fits(const ot_shape *y, const ot_shape *sample, int axis)
{
    if (y->rank != sample->rank + 2) return false;
    for (int i = 1, k = 0; i < y->rank; i++)
        if (i != axis && y->dim[i] != sample->dim[k++]) return false;
    return true;
}

/* Whether right answers of an output are counted: its loss is over classes, or binary. */
static bool is_counted(const ot_plan *p, const char *output)
{
    bool named = false;
    for (int k = 0; k < p->n_heads; k++) {
        if (strcmp(p->head[k].output, output)) continue;
        if (p->head[k].right >= 0) return true;
        named = true;
    }
    return !named && p->counted;
}

/* Sets the kind, scale and shape of m for an output; false: the output is not measured. */
static bool look_at(const ot_trainer *t, const ot_slot *q, const ot_feeder *f, int output, ot_meter *m)
{
    const ot_value *y = q->plan->graph->outputs[output];
    const char *name = t->m->outputs[output];
    if (f->whole || f->batch_axis || y->shape.rank < 1 || q->batch < 1) return false;
    const ot_shape shape = by_samples(&y->shape, f, q->batch), *s = &shape;
    int64_t per = ot_numel(s) / q->batch, each = ot_numel(&f->sample);
    bool counted = is_counted(q->plan, name);
    if (s->dim[0] != q->batch || !ot_is_float(y->dtype)) return false;
    *m = (ot_meter){ .scale = scale_of(q->plan->tails[output]), .inner = 1, .columns = each, .classes = 1 };
    m->mask = s->rank >= 4;
    m->exponential = q->plan->exponential && q->plan->exponential[output];
    if (f->gather.scale && !f->as_input) m->unit = f->normalize.std, m->units = f->normalize.channels;
    if (per == each) {
        bool by_class = q->plan->by_class && q->plan->by_class[output];
        m->kind = f->binary && counted && !by_class ? OT_METER_BINARY : OT_METER_VALUES;
        m->labels = s->rank == 2 ? each : 1;
        if (by_class) return m->scale == OT_SCALE_PROBABILITIES; /* scores are not in the unit of the target */
        return !(m->kind == OT_METER_VALUES && counted);
    }
    int axis = fits(s, &f->sample, 1) ? 1 : fits(s, &f->sample, s->rank - 1) ? s->rank - 1 : 0;
    if (!axis || !ot_is_int(f->dtype) || !counted) return false;
    m->kind = OT_METER_CLASSES;
    m->classes = s->dim[axis];
    for (int i = axis + 1; i < s->rank; i++) m->inner *= s->dim[i];
    m->columns = each / m->inner; /* labels of a sample before the class axis */
    m->text = s->rank == 3 && axis == 2;
    return m->classes > 1;
}

bool ot_measure_fits(const ot_trainer *t, const ot_scored *e, int i, int *output, ot_meter *m)
{
    const ot_slot *q = &t->x.slot[e->slot];
    const ot_feeder *f = &e->fs.f[i];
    *output = f->target ? output_of(t, q->plan, f) : -1;
    return *output >= 0 && look_at(t, q, f, *output, m);
}

void ot_measure_close(ot_scored *e)
{
    for (int i = 0; i < e->n_measured; i++) {
        ot_meter_close(&e->measured[i].meter);
        free(e->measured[i].answers);
    }
    e->n_measured = 0;
}

ot_status ot_measure_open(ot_trainer *t, ot_scored *e, ot_error *err)
{
    const ot_slot *q = &t->x.slot[e->slot];
    bool all = e->all || t->s.all_metrics || t->s.monitor > OT_METRIC_ACCURACY;
    ot_measure_close(e);
    for (int i = 0; i < e->fs.n && e->n_measured < OT_HEADS && !t->file_training.used; i++) {
        ot_measured *d = &e->measured[e->n_measured];
        *d = (ot_measured){ .feeder = i };
        if (!ot_measure_fits(t, e, i, &d->output, &d->meter)) continue;
        if (!all && d->meter.kind != OT_METER_VALUES) continue;
        const ot_value *y = q->plan->graph->outputs[d->output];
        if (!(d->answers = malloc(ot_bytes(&y->shape, y->dtype) + 1)))
            return ot_fail(err, OT_E_NOMEM, "no memory for metrics");
        e->n_measured++;
        OT_TRY(ot_meter_open(&d->meter, err));
    }
    return OT_OK;
}

/* Warns if an output without an activation at its end gives probabilities: loss and metrics would apply a second Softmax. */
static void doubt(ot_trainer *t, const ot_measured *d)
{
    enum { ENOUGH = 4 };
    const ot_meter *m = &d->meter;
    if (t->doubted || m->scale != OT_SCALE_LOGITS || m->n < ENOUGH || m->shares < m->n || t->s.options.n_losses) return;
    t->doubted = true;
    ot_trainer_say(
        t, OT_WARNING,
        "output '%s': each row is from 0 to 1 and adds up to 1, as probabilities do, but its nodes do not show "
        "it: loss and metrics take it for scores and apply a Softmax; if it has probabilities, --output NAME "
        "takes the tensor with the scores",
        t->m->outputs[d->output]);
}

ot_status ot_measure_batch(ot_trainer *t, ot_scored *e, int slot, ot_error *err)
{
    const ot_slot *q = &t->x.slot[slot];
    for (int i = 0; i < e->n_measured; i++) {
        ot_measured *d = &e->measured[i];
        ot_feeder *f = &e->fs.f[d->feeder];
        const ot_value *y = q->plan->graph->outputs[d->output];
        OT_TRY(ot_exec_read(q->exec, y, d->answers, err));
        OT_TRY(ot_feeder_take(f, t->index, q->batch, OT_NOT_AUGMENTED, f->buffer, 1, err));
        int64_t rows = d->meter.kind == OT_METER_CLASSES ? q->batch * d->meter.columns : q->batch;
        OT_TRY(ot_meter_add(&d->meter, d->answers, y->dtype, f->buffer, f->dtype, rows, err));
        if (d->meter.kind == OT_METER_CLASSES) doubt(t, d);
    }
    return OT_OK;
}

/* The head of an output that has a loss or counts correct answers; -1: none. */
static int head_of(const ot_plan *p, const char *output, int metric)
{
    for (int k = 0; k < p->n_heads; k++)
        if (!strcmp(p->head[k].output, output) && (metric == OT_METRIC_LOSS || p->head[k].right >= 0)) return k;
    return -1;
}

/* Whether evaluations on the set have a metric, of that output or (NULL) of any. */
static bool has_metric(const ot_trainer *t, const ot_scored *e, const char *output, int metric)
{
    const ot_plan *p = t->x.slot[e->slot].plan;
    bool heads = output && p->n_heads;
    if (metric == OT_METRIC_LOSS) return heads ? head_of(p, output, metric) >= 0 : p->loss != NULL;
    if (metric == OT_METRIC_ACCURACY) return heads ? head_of(p, output, metric) >= 0 : p->counted != NULL;
    for (int i = 0, at; i < e->fs.n && !t->file_training.used; i++) {
        ot_meter m;
        if (!ot_measure_fits(t, e, i, &at, &m) || !ot_meter_gives(&m, metric)) continue;
        if (!output || !strcmp(t->m->outputs[at], output)) return true;
    }
    return false;
}

int ot_measure_plateau(const ot_trainer *t)
{
    if (!ot_spec_is(&t->s.schedule, "mode", "max")) return OT_METRIC_LOSS;
    return t->s.monitor >= 0 && ot_metric_rises(t->s.monitor) ? t->s.monitor : OT_METRIC_ACCURACY;
}

/* A plateau with mode=max needs a metric that rises: with a loss it would reduce the learning rate while the loss falls. */
static ot_status check_plateau(const ot_trainer *t, const ot_scored *e, ot_error *err)
{
    int metric = ot_measure_plateau(t);
    const char *output = metric == t->s.monitor ? t->s.monitor_output : NULL;
    bool there = e->slot >= 0 && t->has_val && has_metric(t, e, output, metric);
    if (metric == OT_METRIC_LOSS || there) return OT_OK;
    return ot_fail(err, OT_E_USAGE,
                   "--schedule plateau:mode=max: no metric to maximise: %s; use %s, or mode=min to watch the loss",
                   t->has_val ? "no output has an accuracy" : "no validation set",
                   t->has_val ? "--monitor METRIC (see 'onnxtrain help metric')" : "--val or --val-split 0.1");
}

ot_status ot_measure_check(const ot_trainer *t, const ot_scored *e, ot_error *err)
{
    char list[200] = "";
    size_t at = 0;
    const char *output = t->s.monitor_output;
    bool named = t->s.monitor >= 0 && t->has_val && e->slot >= 0;
    if (!named || has_metric(t, e, output, t->s.monitor)) return check_plateau(t, e, err);
    for (int i = 0; i < OT_METRIC_COUNT; i++)
        if (has_metric(t, e, output, i))
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", ot_metrics.entries[i]->name);
    return ot_fail(err, OT_E_USAGE, "--monitor %s: this %s does not have this metric; it has %s", t->s.monitor_name,
                   output ? "output" : "training", at ? list : "none");
}

/* The loss of an output: the weighted sum, if it has several. */
static double loss_on(const ot_plan *p, const ot_scored *e, const char *output)
{
    double sum = 0;
    int n = 0, last = 0;
    for (int k = 0; k < p->n_heads; k++)
        if (!strcmp(p->head[k].output, output)) sum += p->head[k].weight * e->head[k], last = k, n++;
    return n == 1 ? e->head[last] : sum;
}

double ot_measure_value(const ot_trainer *t, const ot_scored *e, int metric)
{
    const ot_plan *p = t->x.slot[e->slot].plan;
    const char *output = metric == t->s.monitor ? t->s.monitor_output : NULL;
    double v = NAN;
    if (metric == OT_METRIC_LOSS) return output && p->n_heads ? loss_on(p, e, output) : e->loss;
    if (metric == OT_METRIC_ACCURACY) {
        int k = output && p->n_heads ? head_of(p, output, metric) : -1;
        return k >= 0 ? e->right[k] : e->accuracy;
    }
    for (int i = 0; i < e->n_measured && isnan(v); i++)
        if (!output || !strcmp(t->m->outputs[e->measured[i].output], output))
            v = ot_meter_value(&e->measured[i].meter, metric);
    return v;
}

void ot_measure_log(json_t **event, const ot_trainer *t, const ot_scored *e)
{
    json_t *heads = e->n_measured > 1 ? json_object() : NULL;
    for (int i = 0; i < e->n_measured; i++) {
        char name[1000];
        json_t *own = heads ? json_object() : NULL;
        for (int k = 0; k < OT_METRIC_COUNT; k++) {
            double v = ot_meter_value(&e->measured[i].meter, k);
            if (!isnan(v)) ot_json_real(heads ? &own : event, ot_metrics.entries[k]->name, v);
        }
        if (heads) ot_json_set(&heads, ot_shown(t->m->outputs[e->measured[i].output], name, sizeof name), own);
    }
    if (heads) ot_json_set(event, "metrics", heads);
}
