/* predict_outputs.c - what each output of a model predicts for a sample: classes, labels or values, and with which names.
 *
 * Task  --task, else labels from which the graph selects one (labels.c), else the loss that it was trained with (recorded_loss.c),
 *       else a Sigmoid or Softmax at its end, else names of classes. */
#include "runtime/train/commands/predict_outputs.h"

#include <string.h>

#include "runtime/losses/loss.h"
#include "runtime/train/commands/predict.h"

enum { MOST_COLUMNS = 4096 };

static const char *const task_names[] = { "auto", "classes", "labels", "values" };

typedef struct predicting {
    ot_trainer *t;
    ot_prediction_form form;
    ot_task asked;
    ot_prediction_lines *lines;
} predicting;

ot_task ot_task_asked(const ot_options *o)
{
    const char *text = ot_options_get(o, "task");
    for (int i = 0; i < OT_LEN(task_names); i++)
        if (!strcmp(text, task_names[i])) return (ot_task)i;
    return OT_TASK_AUTO;
}

/* The axis of the classes of an output that has them at several places of a sample, which lie along the first one; -1: unknown.
 * made: as the operator has it that makes the output; n: the names of classes. */
static int class_axis(const ot_prediction *a, const ot_spec *loss, int made, int n)
{
    int last = a->shape.rank - 1, axis = made;
    if (a->shape.rank < 2) return -1;
    if (loss && ot_spec_find(loss, "class_axis"))
        axis = ot_axis((int64_t)ot_spec_num(loss, "class_axis"), a->shape.rank, &axis) ? axis : -1;
    else if (axis < 0 && (n == a->shape.dim[1]) != (n == a->shape.dim[last])) return n == a->shape.dim[1] ? 1 : last;
    else if (axis < 0) return ot_loss_default_axis(a->shape.rank);
    return axis == a->axis ? -1 : axis < a->axis ? axis + 1 : axis;
}

/* Sets positions and classes of an output.  A single score per sample is that of class 1. */
static void find_places(ot_prediction *a, const ot_spec *loss, int made, int names)
{
    int64_t most = 0;
    for (int d = 1; d < a->shape.rank; d++)
        if (a->shape.dim[d] > most) most = a->shape.dim[d];
    bool one = a->shape.dim[0] == a->samples && (a->each == most || a->shape.rank == 1);
    int axis = one ? -1 : class_axis(a, loss, made, names);
    a->places = a->inner = 1;
    a->classes = ot_is_float(a->dtype) && one ? a->each : 0;
    if (one || axis < 0 || !ot_is_float(a->dtype) || a->shape.dim[axis] < 2) return;
    a->classes = a->shape.dim[axis];
    a->places = a->each / a->classes;
    for (int d = axis + 1; d < a->shape.rank; d++) a->inner *= a->shape.dim[d];
}

/* The target of an output in the data; NULL: none. */
static const ot_array *target_for(const ot_trainer *t, const ot_dataset *d, const char *output)
{
    const ot_array *own = ot_target_of(d, output);
    return own || strcmp(output, t->m->outputs[ot_trainer_plain_output(t)]) ? own : ot_target_plain(d);
}

/* Sets the class axis and the class names: those of the model, else of the data. */
static ot_status find_classes(const predicting *j, ot_prediction *a, ot_error *err)
{
    const ot_dataset *d = j->t->eval.data;
    const char *const *name, *const *data_name;
    int n;
    OT_TRY(ot_trainer_find_labels(j->t, err));
    OT_TRY(ot_classes_of(j->t->loaded, a->name, j->t->a, &name, &n, err));
    int of_data = ot_dataset_classes(d, target_for(j->t, d, a->name), &data_name);
    if (!n) name = data_name, n = name ? of_data : 0;
    find_places(a, ot_loss_on(j->t, a->name), j->t->x.slot[j->t->eval.slot].plan->class_axes[a->output], n);
    a->class_name = n && n == (a->classes == 1 ? 2 : a->classes) ? name : NULL;
    a->known = a->class_name || (a->classes > 1 && of_data == a->classes);
    return OT_OK;
}

/* Are the names of labels or columns distinct?  Only then they can be keys of a JSON object. */
static bool are_distinct(const ot_prediction *a)
{
    const char *const *name = a->task == OT_TASK_LABELS ? a->class_name : a->column;
    for (int64_t i = 0; name && i < a->each; i++)
        for (int64_t k = 0; k < i; k++)
            if (!strcmp(name[i], name[k])) return false;
    return true;
}

/* The scale of the scores of an output: from the activation at its end, else from the loss that it was trained with. */
static ot_tail_kind tail_of(ot_tail_kind is, const ot_spec *loss)
{
    if (is != OT_TAIL_NONE || !loss) return is;
    return !strcmp(loss->name, "bce") ? OT_TAIL_SIGMOID : !strcmp(loss->name, "nll") ? OT_TAIL_LOG_SOFTMAX : is;
}

/* The task of an output that was trained with a loss; OT_TASK_AUTO: the loss does not determine it. */
static ot_task task_by(const ot_spec *loss, const ot_prediction *a)
{
    const ot_loss_kind *l = loss ? ot_loss_find(loss->name) : NULL;
    if (!l) return OT_TASK_AUTO;
    bool binary = l->undoes & OT_TAIL_BIT(SIGMOID),
         classes = l->takes == OT_TAKES_CLASSES || l->takes == OT_TAKES_NUMBERS;
    if (a->classes == 1) return binary ? OT_TASK_CLASSES : OT_TASK_AUTO;
    if (binary && !(l->undoes & OT_TAIL_BIT(SOFTMAX))) return OT_TASK_LABELS; /* each is yes or no */
    return classes || l->takes == OT_TAKES_EITHER ? OT_TASK_CLASSES : OT_TASK_AUTO;
}

static void choose_task(const predicting *j, ot_prediction *a)
{
    int64_t classes = a->classes;
    bool normed = a->tail == OT_TAIL_SOFTMAX || a->tail == OT_TAIL_LOG_SOFTMAX;
    bool selected = j->t->labels_in_graph && a->class_name; /* the graph itself selects one of them */
    a->task = j->asked != OT_TASK_AUTO ? j->asked : selected ? OT_TASK_CLASSES : task_by(ot_loss_on(j->t, a->name), a);
    if (a->task == OT_TASK_AUTO && a->tail == OT_TAIL_SIGMOID) a->task = classes > 1 ? OT_TASK_LABELS : OT_TASK_CLASSES;
    if (a->task == OT_TASK_AUTO) a->task = a->known || (normed && classes > 1) ? OT_TASK_CLASSES : OT_TASK_VALUES;
    if (!classes || (a->places > 1 && a->task != OT_TASK_CLASSES)) a->task = OT_TASK_VALUES;
}

/* Whether its places are the tokens of texts whose words are known, so that there is a class for each word. */
static void find_words(const predicting *j, ot_prediction *a)
{
    const ot_feeders *fs = &j->t->eval.fs;
    const ot_dataset *d = j->t->eval.data;
    int64_t n, length = ot_dataset_words(d, 0, &n) ? ot_dataset_tokens(d) : 0;
    a->by_word = a->task == OT_TASK_CLASSES && j->form != OT_FORM_NPZ && length == a->places;
    for (int64_t i = 0; i < fs->samples && a->by_word; i++) {
        (void)ot_dataset_words(d, i, &n);
        if (n > j->lines->most) j->lines->most = n;
    }
}

/* Refuses --task and --top if no output has classes. */
static ot_status check_task(const predicting *j, bool top, ot_error *err)
{
    bool scores = false, classes = false;
    for (int i = 0; i < j->lines->n; i++) {
        const ot_prediction *a = &j->lines->list[i];
        scores |= a->classes > 0;
        classes |= a->task == OT_TASK_CLASSES;
    }
    if ((j->asked == OT_TASK_CLASSES || j->asked == OT_TASK_LABELS) && !scores)
        return ot_fail(
            err, OT_E_USAGE,
            "--task %s: no output has scores of classes: floats of shape [N,C], [N,1], [N] or, for classes at "
            "each place of a sample, [N,T,C] or [N,C,H,W]",
            task_names[j->asked]);
    if (top && !classes && j->form != OT_FORM_NPZ && j->form != OT_FORM_MASKS)
        return ot_fail(err, OT_E_USAGE, "--top: the outputs are predicted as values%s",
                       scores ? "; if they are scores of classes, add --task classes" : ", which have no classes");
    for (int i = 0; i < j->lines->n && j->asked == OT_TASK_AUTO && j->form != OT_FORM_NPZ; i++) {
        const ot_prediction *a = &j->lines->list[i];
        bool known = ot_loss_on(j->t, a->name) || a->unit.channels || a->column; /* that they are values */
        if (a->task != OT_TASK_VALUES || !a->classes || a->places > 1 || known) continue;
        if (a->classes > 1)
            ot_trainer_say(j->t, OT_INFO, "output '%s': values; if they are scores of classes, use --task classes",
                           a->name);
        else
            ot_trainer_say(
                j->t, OT_INFO,
                "output '%s': a value; if it is the score of class 1 (above 0 is class 1), use --task classes",
                a->name);
    }
    return OT_OK;
}

void ot_prediction_find_unit(ot_trainer *t, bool npz, ot_prediction *a)
{
    ot_normalize z;
    if (a->task != OT_TASK_VALUES || t->s.target_scale == OT_TARGET_AS_IS || !ot_is_float(a->dtype)) return;
    if (!ot_preprocess_target(t->record, a->name, &z)) return;
    if (z.channels != 1 && z.channels != a->each) return;
    char how[160];
    if (npz)
        ot_trainer_say(t, OT_INFO,
                       "output '%s' is written as the model computes it, standardised; for the unit of the data %s",
                       a->name, ot_preprocess_unit(&z, how));
    else a->unit = z;
}

const ot_feeder *ot_prediction_images(const ot_trainer *t)
{
    const ot_feeders *fs = &t->eval.fs;
    for (int i = 0; i < fs->n; i++)
        if (!fs->f[i].target && fs->f[i].src->picture) return &fs->f[i];
    return NULL;
}

static ot_status too_wide(const predicting *j, const ot_prediction *a, ot_error *err)
{
    bool classes = a->task == OT_TASK_CLASSES, csv = j->form == OT_FORM_CSV;
    if (j->form == OT_FORM_NPZ || j->form == OT_FORM_MASKS || (classes && !csv)) return OT_OK;
    int64_t columns = !classes ? a->each : a->by_word ? j->lines->most : a->places;
    if (columns <= MOST_COLUMNS) return OT_OK;
    ot_mask_form mask;
    const ot_feeder *f = ot_prediction_images(j->t);
    bool masks = f && ot_mask_form_of(&a->shape, a->dtype, a->tail, &f->to, &mask);
    return ot_fail(err, OT_E_USAGE, "output '%s' has %lld %s for each sample; write them with -o FILE.%s%s", a->name,
                   (long long)columns, classes ? "classes" : "values", classes ? "jsonl" : "npz",
                   masks ? ", or a mask of each image with -o FOLDER/" : "");
}

static ot_status describe_output(const predicting *j, const ot_output *o, int k, ot_prediction *a, ot_error *err)
{
    const ot_slot *q = &j->t->x.slot[j->t->eval.slot];
    const ot_value *v = q->plan->graph->outputs[k];
    int axis = o->rows > 1 ? 0 : o->batch_axis;
    *a = (ot_prediction){ .name = j->t->m->outputs[k],
                          .output = k,
                          .axis = axis,
                          .samples = j->t->eval.fs.samples,
                          .each = ot_numel(&v->shape) / q->batch,
                          .dtype = v->dtype,
                          .tail = tail_of(q->plan->tails[k], ot_loss_on(j->t, j->t->m->outputs[k])) };
    a->shape = v->shape;
    memmove(a->shape.dim + 1, a->shape.dim, sizeof *a->shape.dim * (size_t)axis);
    a->shape.dim[0] = a->samples;
    if (o->rows > 1) a->shape.dim[0] *= o->rows;
    OT_TRY(find_classes(j, a, err));
    choose_task(j, a);
    find_words(j, a);
    bool plain = !strcmp(a->name, j->t->m->outputs[ot_trainer_plain_output(j->t)]);
    if (a->task == OT_TASK_VALUES && a->each > 1)
        OT_TRY(ot_preprocess_target_columns(j->t->record, a->name, plain, a->each, j->t->a, &a->column, err));
    a->distinct = are_distinct(a);
    ot_prediction_find_unit(j->t, j->form == OT_FORM_NPZ, a);
    OT_TRY(too_wide(j, a, err));
    a->bytes = ot_arena_alloc(j->t->a, ot_bytes(&v->shape, v->dtype) + 1);
    a->v = ot_arena_alloc(j->t->a, (size_t)(a->each + 1) * sizeof *a->v);
    a->best = ot_arena_alloc(j->t->a, (size_t)(j->lines->top + 1) * sizeof *a->best);
    if (!ot_is_float(a->dtype)) a->whole = ot_arena_alloc(j->t->a, (size_t)(a->each + 1) * sizeof *a->whole);
    if (j->form == OT_FORM_NPZ) a->all = ot_arena_alloc(j->t->a, ot_bytes(&a->shape, a->dtype) + 1);
    bool all = a->bytes && a->v && a->best && (a->whole || ot_is_float(a->dtype)) && (a->all || j->form != OT_FORM_NPZ);
    return all ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the predictions");
}

/* By value id: does an input reach it?  Others are the same for all samples. */
static bool *find_reached(ot_arena *a, const ot_graph *g)
{
    bool *reached = ot_arena_alloc(a, (size_t)g->n_values + 1);
    for (int i = 0; reached && i < g->n_values; i++) reached[i] = g->values[i]->role == OT_INPUT;
    for (const ot_node *n = g->first; reached && n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            for (int k = 0; n->in[i] && reached[n->in[i]->id] && k < n->n_out; k++)
                if (n->out[k]) reached[n->out[k]->id] = true;
    return reached;
}

ot_status ot_predictions_open(ot_trainer *t, ot_prediction_form form, const ot_options *o, bool runs,
                              ot_prediction_lines *lines, ot_error *err)
{
    predicting j = { .t = t, .form = form, .asked = ot_task_asked(o), .lines = lines };
    const ot_slot *q = &t->x.slot[t->eval.slot];
    ot_output *outputs;
    int n;
    OT_TRY(ot_session_outputs(&t->x, &t->eval.fs, q->batch, &outputs, &n, err));
    lines->list = ot_arena_alloc(t->a, sizeof *lines->list * (size_t)(n + 1));
    const bool *reached = find_reached(t->a, q->plan->graph);
    int64_t fixed = ot_feeders_baked(&t->eval.fs, t->m->file->graph);
    if (!lines->list || !reached) return ot_fail(err, OT_E_NOMEM, "no memory for the predictions");
    for (int k = 0; k < n; k++) {
        const ot_value *v = q->plan->graph->outputs[k];
        int bits = v->left_out ? 0 : ot_dtype_bits(v->dtype);
        bool known = outputs[k].batch_axis >= 0 || outputs[k].rows > 1,
             alone = !known && q->batch == 1 && v->shape.rank > 0 &&
                     (t->eval.fs.samples == 1 || fixed == 1 || outputs[k].sole);
        bool by_sample = (known || alone) && reached[v->id];
        if (alone) outputs[k].rows = v->shape.dim[0]; /* all that it has is the sample's */
        if (outputs[k].batch_axis < 0) outputs[k].batch_axis = 0;
        if (by_sample && bits >= 8) OT_TRY(describe_output(&j, &outputs[k], k, &lines->list[lines->n++], err));
        else
            ot_trainer_say(t, OT_WARNING, "output '%s' is omitted: it has no %s for each sample", t->m->outputs[k],
                           by_sample ? "numbers" : "value");
    }
    if (!lines->n)
        return ot_fail(err, OT_E_MODEL, "no output of the model has a value for each sample; use 'onnxtrain run'%s",
                       runs ? " with the inputs as arrays (.npz)" : "");
    return runs ? OT_OK : check_task(&j, ot_options_count(o, "top") > 0, err);
}
