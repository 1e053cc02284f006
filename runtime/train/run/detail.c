/* detail.c - an evaluation by class, and its samples with the highest loss.
 *
 * The loss of a sample is that of its answer: minus the logarithm of the right class's probability (mean over the labels
 * of a sample), or the mean squared error.  It is what --loss says for the usual losses, and orders the samples for all. */

#include "runtime/train/run/detail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/io.h"
#include "runtime/train/run/thumbnail.h"

enum { MOST_CLASSES = 1024, MOST_SCORES = 1 << 20, WORST = 12, MOST_VALUES = 8 };

static const char file_name[] = "evaluation.json";

typedef struct bad_sample {
    int64_t index; /* in the set */
    double loss, target, answer, probability;
} bad_sample;

typedef struct ot_detail {
    ot_meter kind; /* of the answers; it sums nothing */
    int output, feeder;
    void *answers;      /* a batch of the output */
    int64_t *confusion; /* classes x classes, [target][answer]; NULL: there are no classes */
    bad_sample worst[WORST];
    int n;
    int64_t step;
    bool written;
} ot_detail;

void ot_detail_close(ot_scored *e)
{
    if (!e->detail) return;
    free(e->detail->answers);
    free(e->detail->confusion);
    free(e->detail);
    e->detail = NULL;
}

static int64_t classes_of(const ot_meter *m) { return m->kind == OT_METER_CLASSES ? m->classes : 2; }

ot_status ot_detail_open(ot_trainer *t, ot_scored *e, ot_error *err)
{
    ot_detail d = { .feeder = -1, .step = t->step };
    ot_detail_close(e);
    if (!t->folder.path || t->file_training.used || (t->x.device && !t->s.all_metrics)) return OT_OK;
    for (int i = 0; i < e->fs.n && d.feeder < 0; i++)
        if (ot_measure_fits(t, e, i, &d.output, &d.kind)) d.feeder = i;
    if (d.feeder < 0) return OT_OK;
    const ot_slot *q = &t->x.slot[e->slot];
    const ot_value *y = q->plan->graph->outputs[d.output];
    int64_t c = classes_of(&d.kind);
    if (c > MOST_CLASSES || ot_numel(&y->shape) / q->batch > MOST_SCORES) return OT_OK;
    e->detail = malloc(sizeof d);
    if (!e->detail) return ot_fail(err, OT_E_NOMEM, "no memory for the worst samples");
    *e->detail = d;
    e->detail->answers = malloc(ot_bytes(&y->shape, y->dtype) + 1);
    if (d.kind.kind != OT_METER_VALUES) e->detail->confusion = calloc((size_t)(c * c), sizeof *d.confusion);
    if (e->detail->answers && (e->detail->confusion || d.kind.kind == OT_METER_VALUES)) return OT_OK;
    ot_detail_close(e);
    return ot_fail(err, OT_E_NOMEM, "no memory for the confusion matrix");
}

/* ---- samples -------------------------------------------------------------------------- */

/* Adds the loss of element i of the target to *s; false: the element is ignored. */
static bool judge(ot_detail *d, ot_dtype type, const void *target, ot_dtype of, int64_t i, bad_sample *s)
{
    const ot_meter *m = &d->kind;
    ot_judged j;
    if (m->kind == OT_METER_VALUES) {
        s->answer = ot_meter_prediction(m, ot_get_f64(d->answers, type, i));
        s->target = ot_get_f64(target, of, i);
        s->loss += (s->answer - s->target) * (s->answer - s->target);
        return true;
    }
    if (!ot_meter_judge(m, d->answers, type, target, of, i, &j)) return false;
    if (!j.odd) d->confusion[j.label * classes_of(m) + j.best]++;
    s->loss += j.loss;
    s->target = (double)j.label, s->answer = (double)j.best, s->probability = j.probability;
    return true;
}

/* Inserts a sample into the list of worst samples: highest loss first; equal ones in the order of samples. */
static void keep_worst(ot_detail *d, const bad_sample *s)
{
    if (isnan(s->loss) || (d->n == WORST && s->loss <= d->worst[WORST - 1].loss)) return;
    int k = d->n < WORST ? d->n++ : WORST - 1;
    for (; k > 0 && d->worst[k - 1].loss < s->loss; k--) d->worst[k] = d->worst[k - 1];
    d->worst[k] = *s;
}

ot_status ot_detail_batch(ot_trainer *t, ot_scored *e, int slot, ot_error *err)
{
    ot_detail *d = e->detail;
    if (!d) return OT_OK;
    const ot_slot *q = &t->x.slot[slot];
    const ot_value *y = q->plan->graph->outputs[d->output];
    ot_feeder *f = &e->fs.f[d->feeder];
    OT_TRY(ot_exec_read(q->exec, y, d->answers, err));
    OT_TRY(ot_feeder_take(f, t->index, q->batch, OT_NOT_AUGMENTED, f->buffer, 1, err));
    int64_t per = d->kind.columns * (d->kind.kind == OT_METER_CLASSES ? d->kind.inner : 1);
    for (int64_t i = 0; i < q->batch; i++) {
        bad_sample s = { .index = t->index[i] };
        int64_t counted = 0;
        for (int64_t k = i * per; k < (i + 1) * per; k++) counted += judge(d, y->dtype, f->buffer, f->dtype, k, &s);
        if (!counted) continue;
        s.loss /= (double)counted;
        keep_worst(d, &s);
    }
    return OT_OK;
}

/* ---- evaluation.json --------------------------------------------------------------------- */

/* The first values of the sample's inputs. */
static json_t *values_of(const ot_scored *e, int64_t index)
{
    json_t *list = json_array();
    for (int i = 0; i < e->fs.n && json_array_size(list) < MOST_VALUES; i++) {
        ot_feeder *f = &e->fs.f[i];
        if (f->target || f->whole || f->dtype == OT_STRING || ot_dtype_bits(f->dtype) < 8) continue;
        ot_error none = { 0 };
        if (ot_feeder_take(f, &index, 1, OT_NOT_AUGMENTED, f->buffer, 1, &none)) continue;
        for (int64_t k = 0, n = ot_numel(&f->sample); k < n && json_array_size(list) < MOST_VALUES; k++) {
            double v = ot_get_f64(f->buffer, f->dtype, k);
            ot_json_add(&list, ot_json_number(v));
        }
    }
    return list;
}

static ot_status add_sample(ot_trainer *t, const ot_scored *e, const bad_sample *s, json_t **list, ot_error *err)
{
    const ot_meter *m = &e->detail->kind;
    bool one = m->columns * (m->kind == OT_METER_CLASSES ? m->inner : 1) == 1;
    char *picture = NULL;
    json_t *o = json_pack("{s:I}", "sample", (json_int_t)ot_dataset_origin(e->data, s->index));
    ot_json_real(&o, "loss", s->loss);
    const ot_feeder *of = &e->fs.f[e->detail->feeder];
    bool scaled = of->gather.scale && !of->as_input;
    double unit = scaled ? of->normalize.std[0] : 1, origin = scaled ? of->normalize.mean[0] : 0;
    if (one)
        ot_json_real(&o, "target", s->target * unit + origin), ot_json_real(&o, "answer", s->answer * unit + origin);
    if (one && m->kind != OT_METER_VALUES) ot_json_real(&o, "probability", s->probability);
    for (int i = 0; i < e->fs.n && !picture; i++)
        if (!e->fs.f[i].target) {
            ot_status bad = ot_thumbnail(&e->fs.f[i], s->index, t->x.threads, &picture, err);
            if (bad) {
                json_decref(o);
                return bad;
            }
        }
    if (picture) ot_json_set(&o, "picture", json_string(picture));
    else ot_json_set(&o, "values", values_of(e, s->index));
    free(picture);
    ot_json_add(list, o);
    return OT_OK;
}

static json_t *numbers(const int64_t *v, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) ot_json_add(&list, json_integer(v[i]));
    return list;
}

static ot_status add_classes(const ot_trainer *t, const ot_scored *e, const char *output, json_t **o, ot_error *err)
{
    const ot_detail *d = e->detail;
    const char *const *name;
    int64_t n = classes_of(&d->kind);
    int named;
    OT_TRY(ot_trainer_class_names(t, e, d->feeder, output, &name, &named, err));
    json_t *names = json_array(), *matrix = json_array();
    for (int64_t i = 0; i < n; i++) ot_json_add(&matrix, numbers(d->confusion + i * n, n));
    ot_json_set(o, "confusion", matrix);
    for (int64_t i = 0; i < n && n <= named; i++) ot_json_add(&names, ot_json_text(name[i]));
    ot_json_set(o, "classes", names);
    return OT_OK;
}

static ot_status make_text(ot_trainer *t, const ot_scored *e, char **text, ot_error *err)
{
    static const char *const kind[] = {
        [OT_METER_CLASSES] = "classes", [OT_METER_BINARY] = "binary", [OT_METER_VALUES] = "values"
    };
    const ot_detail *d = e->detail;
    char name[1000];
    const char *output = t->m->outputs[d->output]; /* in the plan another operator may compute it */
    json_t *o = json_pack("{s:I, s:s, s:s, s:o}", "step", (json_int_t)d->step, "split", e->split, "kind",
                          kind[d->kind.kind], "output", ot_json_text(ot_shown(output, name, sizeof name))),
           *worst = json_array();
    ot_status s = OT_OK;
    if (d->confusion) s = add_classes(t, e, t->m->outputs[d->output], &o, err);
    for (int i = 0; i < d->n && !s; i++) s = add_sample(t, e, &d->worst[i], &worst, err);
    ot_json_set(&o, "worst", worst);
    *text = s ? NULL : ot_json_dump(o, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(o);
    return s || *text ? s : ot_fail(err, OT_E_NOMEM, "no memory for the worst samples");
}

ot_status ot_detail_write(ot_trainer *t, ot_error *err)
{
    const ot_scored *e = t->test.detail ? &t->test : &t->eval;
    char *text;
    if (!e->detail || e->detail->written) return OT_OK;
    OT_TRY(make_text(t, e, &text, err));
    ot_status s = ot_replace_file(t->folder.fd, t->folder.path, file_name, text, strlen(text), err);
    free(text);
    e->detail->written = !s;
    return s;
}
