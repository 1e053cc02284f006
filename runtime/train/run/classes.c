/* classes.c - names of the classes: in a model's metadata as onnxtrain.classes, in a table as texts.
 *
 * A table of texts numbers its classes by itself, in alphabetical order, so one that holds fewer of them numbers them
 * otherwise.  The model keeps the numbers it was trained with.
 *
 * Format  The names are those of one target.  A model with one output has them as a list, a model with several as an object:
 *         the list of each output that has names.  A list in a model with several outputs is of none in particular. */

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/classifier.h"
#include "runtime/losses/losses.h"
#include "runtime/losses/tails.h"
#include "runtime/train/feed/bind_inputs.h"
#include "runtime/train/feed/declared.h"
#include "runtime/train/run/trainer.h"

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for the names of classes"); }

/* Writes v as a string, and releases it. */
static ot_status spell(json_t *v, ot_arena *a, const char **out, ot_error *err)
{
    char *text = ot_json_dump(v, JSON_COMPACT);
    *out = text ? ot_arena_strdup(a, text) : NULL;
    free(text);
    json_decref(v);
    return *out ? OT_OK : no_memory(err);
}

static json_t *list_of(const char *const *name, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) ot_json_add(&list, json_string(name[i]));
    return list;
}

/* The class names that a model records; *out NULL: none, or not JSON. */
static ot_status recorded(const ot_model *m, json_t **out, ot_error *err)
{
    const char *text = ot_import_metadata(m->file, OT_CLASSES_KEY);
    *out = NULL;
    return text && ot_json_parse(text, strlen(text), out) ? no_memory(err) : OT_OK;
}

static const ot_value *output_named(const ot_graph *g, const char *name)
{
    for (int i = 0; name && i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i]->name, name)) return g->outputs[i];
    return NULL;
}

/* Whether the names of its classes are recorded under the output's name. */
static bool is_by_output(const ot_trainer *t, const char *output)
{
    const ot_graph *g = t->loaded->file->graph;
    return g->n_outputs > 1 && output_named(g, output);
}

/* The output of target a of d; NULL: none. */
static const char *output_for(const ot_trainer *t, const ot_dataset *d, const ot_array *a)
{
    const ot_graph *g = t->m->file->graph;
    for (int i = 0; i < g->n_outputs; i++)
        if (ot_target_of(d, g->outputs[i]->name) == a) return g->outputs[i]->name;
    return ot_target_plain(d) == a && g->n_outputs ? g->outputs[ot_trainer_plain_output(t)]->name : NULL;
}

/* The target to which the class names of d belong; NULL: several, or none. */
static const ot_array *named_target(const ot_dataset *d)
{
    const ot_array *only = NULL;
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        if (d->array[i].role != OT_ARRAY_TARGET) continue;
        if (ot_dataset_string_column(d, &d->array[i])) return &d->array[i];
        only = &d->array[i];
        n++;
    }
    return n == 1 ? only : NULL;
}

ot_status ot_classes_text(const ot_trainer *t, ot_arena *a, const char **out, ot_error *err)
{
    const ot_dataset *d = t->data;
    *out = NULL;
    if (!d || !d->class_name || d->n_classes < 1) return OT_OK;
    const ot_array *target = named_target(d);
    const char *output = target ? output_for(t, d, target) : NULL;
    json_t *list = list_of(d->class_name, d->n_classes), *all = list;
    if (is_by_output(t, output)) {
        all = json_object();
        ot_json_set(&all, output, list);
    }
    return spell(all, a, out, err);
}

/* ---- of a training --------------------------------------------------------------------- */

/* The loss of a target; NULL: unknown. */
static const ot_loss_kind *loss_of(const ot_trainer *t, const ot_feeder *f)
{
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    const ot_plan_options *o = &t->s.options;
    const ot_spec *l = f->output ? ot_loss_on(t, f->output) : NULL;
    if (!l && o->n_losses == 1) l = &o->losses[0];
    if (l) return ot_loss_find(l->name);
    for (int i = 0; i < p->n_defaults && i < OT_HEADS; i++)
        if (p->n_defaults == 1 || (f->output && !strcmp(p->defaults[i].output, f->output)))
            return ot_loss_find(p->defaults[i].name);
    return NULL;
}

/* Does the target have values, neither class numbers nor probabilities? */
static bool of_values(const ot_trainer *t, const ot_feeder *f)
{
    const ot_loss_kind *l = loss_of(t, f);
    return l && l->takes == OT_TAKES_VALUES && ot_is_float(f->dtype) && !f->adds_up[0] && !f->adds_up[1];
}

/* The names of the columns of a target in which each column says whether one class applies to the sample; *n 0: another kind of target. */
static const char *const *label_columns(const ot_trainer *t, const ot_feeder *f, int *n)
{
    const ot_loss_kind *l = loss_of(t, f);
    const char *const *name = ot_dataset_target_columns(t->data, &t->data->array[f->array], n);
    bool classes = l && l->takes != OT_TAKES_VALUES && l->takes != OT_TAKES_VECTORS,
         shares = f->binary || f->adds_up[0] || f->adds_up[1] || (l && l->shares);
    if (!name || *n < 2 || !classes || !shares || ot_numel(&f->sample) != *n) *n = 0;
    return name;
}

/* What a training records about the classes of one target. */
typedef struct said {
    ot_classes_kind kind;
    const char *const *name; /* where kind is NAMED or COLUMNS */
    int n;
} said;

/* alone: it is the only target. */
static said say_of(const ot_trainer *t, const ot_feeder *f, bool alone)
{
    const ot_dataset *d = t->data;
    said x = { OT_CLASSES_KEPT, NULL, 0 };
    if (of_values(t, f)) return (said){ .kind = OT_CLASSES_GONE };
    if ((x.name = label_columns(t, f, &x.n)) && x.n) return (said){ OT_CLASSES_COLUMNS, x.name, x.n };
    x.n = 0;
    if (alone || ot_dataset_string_column(d, &d->array[f->array]))
        x.n = d->table || d->renumbers || t->classifiers.replaced ? ot_dataset_classes(d, &d->array[f->array], &x.name)
                                                                  : 0;
    if (x.name && x.n > 0) x.kind = OT_CLASSES_NAMED; /* else their numbers are known */
    return x;
}

/* Sets x[i] to what is recorded about the target of feeder i of the training. */
static void say_all(const ot_trainer *t, said *x, int of[OT_CLASSES_GONE + 1])
{
    const ot_feeder *first = NULL;
    bool alone = true; /* arrays of lengths are of the same output */
    for (int i = 0; i < t->train.n; i++) {
        const ot_feeder *f = &t->train.f[i];
        if (!f->target) continue;
        if (first && f->output && first->output) alone &= !strcmp(f->output, first->output);
        if (!first) first = f;
    }
    for (int i = 0; i < t->train.n; i++) {
        if (!t->train.f[i].target) continue;
        x[i] = say_of(t, &t->train.f[i], alone);
        of[x[i].kind]++;
    }
}

/* The record of a model with several outputs: for each that trains what x has, for the others what the file had. */
static ot_status spell_by_output(const ot_trainer *t, const said *x, const json_t *was, ot_arena *a, const char **out,
                                 ot_error *err)
{
    json_t *now = json_is_object(was) ? json_deep_copy(was) : json_object();
    for (int i = 0; i < t->train.n; i++) {
        const ot_feeder *f = &t->train.f[i];
        if (!f->target || !f->output) continue;
        if (x[i].kind == OT_CLASSES_GONE) json_object_del(now, f->output);
        if (x[i].n) ot_json_set(&now, f->output, list_of(x[i].name, x[i].n));
    }
    *out = NULL;
    if (!now || json_object_size(now)) return spell(now, a, out, err);
    json_decref(now);
    return OT_OK;
}

ot_status ot_trainer_classes_text(const ot_trainer *t, ot_arena *a, ot_classes_kind *kind, const char **out,
                                  ot_error *err)
{
    int of[OT_CLASSES_GONE + 1] = { 0 };
    json_t *was;
    bool by_output = false;
    *kind = OT_CLASSES_KEPT;
    *out = NULL;
    if (t->labels_in_graph || !t->data) return OT_OK;
    said *x = ot_arena_alloc(a, sizeof *x * (size_t)(t->train.n + 1));
    if (!x) return no_memory(err);
    say_all(t, x, of);
    for (int i = 0; i < t->train.n; i++) by_output |= t->train.f[i].target && is_by_output(t, t->train.f[i].output);
    OT_TRY(recorded(t->loaded, &was, err));
    ot_status s = OT_OK;
    bool named = of[OT_CLASSES_NAMED] || of[OT_CLASSES_COLUMNS], split = by_output && json_is_object(was),
         gone = of[OT_CLASSES_GONE] && (split || !of[OT_CLASSES_KEPT]);
    if (by_output && (named || (gone && split))) {
        s = spell_by_output(t, x, was, a, out, err);
    } else {
        for (int i = 0; i < t->train.n && !*out && !s; i++)
            if (t->train.f[i].target && x[i].n) s = spell(list_of(x[i].name, x[i].n), a, out, err);
    }
    if (*out) *kind = of[OT_CLASSES_NAMED] ? OT_CLASSES_NAMED : OT_CLASSES_COLUMNS;
    else if (gone && ot_import_metadata(t->loaded->file, OT_CLASSES_KEY)) *kind = OT_CLASSES_GONE;
    json_decref(was);
    return s;
}

/* Is the last layer before the output replaced? */
static ot_status is_replaced(const ot_trainer *t, const char *output, bool *is, ot_error *err)
{
    ot_classifier h;
    *is = false;
    OT_TRY(ot_classifier_find(t->loaded->file, output, t->a, &h, err));
    for (int i = 0; i < t->classifiers.n && !h.why; i++)
        *is |= t->classifiers.list[i].layer == h.layer && t->classifiers.list[i].now != t->classifiers.list[i].classes;
    return OT_OK;
}

ot_status ot_classes_kept(const ot_trainer *t, const char **out, ot_error *err)
{
    json_t *was, *now, *list;
    const char *output;
    ot_status s = OT_OK;
    *out = NULL;
    OT_TRY(recorded(t->loaded, &was, err));
    now = json_object();
    json_object_foreach(was, output, list)
    {
        bool gone = false;
        if (!s) s = is_replaced(t, output, &gone, err);
        if (!gone) ot_json_set(&now, output, json_incref(list));
    }
    if (!s && (!now || json_object_size(now))) s = spell(now, t->a, out, err);
    else json_decref(now);
    json_decref(was);
    return s;
}

/* ---- of a model ------------------------------------------------------------------------- */

/* The strings of a list; *n 0: it is not a list of strings. */
static ot_status names_in(const json_t *list, ot_arena *a, const char *const **out, int *n, ot_error *err)
{
    int size = (int)json_array_size(list);
    const char **name = ot_arena_alloc(a, sizeof *name * (size_t)(size + 1));
    if (!name) return no_memory(err);
    for (int i = 0; i < size; i++) {
        const char *one = json_string_value(json_array_get(list, (size_t)i));
        if (!one) return OT_OK;
        if (!(name[i] = ot_arena_strdup(a, one))) return no_memory(err);
    }
    *out = name;
    *n = size;
    return OT_OK;
}

/* The scores of an output, before the activation at its end. */
static const ot_value *scores_of(const ot_value *output)
{
    ot_tail tail = ot_tail_find(output);
    return tail.x ? tail.x : output;
}

/* The class names of an output, or of another output with the same scores; NULL: none. */
static const json_t *list_for(const json_t *all, const ot_graph *g, const char *output)
{
    const ot_value *v = output_named(g, output);
    const json_t *own = output ? json_object_get(all, output) : NULL;
    for (int i = 0; v && !own && i < g->n_outputs; i++)
        if (scores_of(g->outputs[i]) == scores_of(v)) own = json_object_get(all, g->outputs[i]->name);
    return own;
}

ot_status ot_classes_of(const ot_model *m, const char *output, ot_arena *a, const char *const **out, int *n,
                        ot_error *err)
{
    json_t *all;
    *n = 0;
    if (!ot_import_metadata(m->file, OT_CLASSES_KEY)) {
        OT_TRY(ot_label_classes(m->file, a, out, n, err));
        return *n ? OT_OK : ot_declared_classes(m->file, a, out, n, err);
    }
    OT_TRY(recorded(m, &all, err));
    if (!all) return OT_OK;
    const json_t *list = json_is_object(all) ? list_for(all, m->file->graph, output) : all;
    ot_status s = names_in(list, a, out, n, err);
    json_decref(all);
    return s;
}

ot_status ot_trainer_find_labels(ot_trainer *t, ot_error *err)
{
    const char *const *name;
    int n = 0;
    bool recorded = ot_import_metadata(t->loaded->file, OT_CLASSES_KEY) != NULL;
    if (!recorded && !t->classifiers.replaced) OT_TRY(ot_label_classes(t->loaded->file, t->a, &name, &n, err));
    t->labels_in_graph = n > 0;
    return OT_OK;
}

ot_status ot_trainer_number_classes(ot_trainer *t, ot_dataset *d, bool trains, ot_error *err)
{
    const char *const *name;
    ot_error other = { 0 };
    int n;
    const ot_array *target = named_target(d);
    OT_TRY(ot_trainer_find_labels(t, err));
    OT_TRY(ot_classes_of(t->loaded, target ? output_for(t, d, target) : NULL, t->a, &name, &n, err));
    /* Names that a target of numbers does not have stay in the model without it. */
    if (!n || (trains && !t->labels_in_graph && !ot_dataset_string_column(d, NULL) && !d->renumbers)) return OT_OK;
    ot_status s = ot_dataset_number(d, name, n, t->labels_in_graph, t->m->file->path, &other);
    if (s != OT_E_DATA || !trains || t->labels_in_graph) return s ? ot_fail(err, s, "%s", other.text) : OT_OK;
    ot_trainer_say(t, OT_WARNING, "%s; the class numbers are remapped to those of the data",
                   other.text); /* another task for the model */
    return OT_OK;
}

ot_status ot_trainer_class_names(const ot_trainer *t, const ot_scored *e, int feeder, const char *output,
                                 const char *const **name, int *n, ot_error *err)
{
    const ot_feeder *f = &e->fs.f[feeder];
    *n = ot_dataset_classes(e->data, &e->data->array[f->array], name);
    if (*n && *name) return OT_OK;
    *name = NULL;
    OT_TRY(ot_classes_of(t->loaded, output, t->a, name, n, err));
    if (!*name || t->classifiers.replaced) *n = 0;
    return OT_OK;
}

static bool has_weights(const ot_trainer *t)
{
    bool has = false;
    for (int k = 0; k < t->s.options.n_losses; k++)
        has = has || ot_spec_find(&t->s.options.losses[k], "class_weights") ||
              ot_spec_find(&t->s.options.losses[k], "pos_weight");
    return has;
}

/* How many samples the largest and the smallest class of a table have. */
static ot_status note_balance(ot_trainer *t, const ot_dataset *d, ot_error *err)
{
    enum { UNBALANCED = 10 };
    const ot_array *y = NULL;
    for (int i = 0; i < d->n && !y; i++)
        if (d->array[i].role == OT_ARRAY_TARGET && d->array[i].t.dtype == OT_I64 && d->array[i].t.rank == 1)
            y = &d->array[i];
    if (!y || d->n_classes < 2) return OT_OK;
    int64_t *count = ot_arena_alloc(t->a, (size_t)d->n_classes * sizeof *count);
    if (!count) return no_memory(err);
    const int64_t *class = y->t.data;
    for (int64_t i = 0; i < y->t.dim[0]; i++)
        if (class[i] >= 0 && class[i] < d->n_classes) count[class[i]]++;
    int most = 0, least = 0;
    for (int i = 1; i < d->n_classes; i++) {
        if (count[i] > count[most]) most = i;
        if (count[i] < count[least]) least = i;
    }
    if (count[most] == count[least]) {
        ot_adapt_note(&(ot_adapt_env){ .a = t->a, .notes = &t->notes }, "%s: class sizes: %lld each", d->name,
                      (long long)count[most]);
        return OT_OK;
    }
    ot_adapt_note(&(ot_adapt_env){ .a = t->a, .notes = &t->notes },
                  "%s: class sizes: from %lld (%.48s) to %lld (%.48s)%s", d->name, (long long)count[least],
                  d->class_name[least], (long long)count[most], d->class_name[most],
                  count[most] > UNBALANCED * count[least] && !has_weights(t)
                      ? "; --loss cross_entropy:class_weights=auto gives small classes more weight"
                      : "");
    return OT_OK;
}

/* The number of each string or label of a table: "cat 0, dog 1". */
ot_status ot_trainer_note_classes(ot_trainer *t, ot_error *err)
{
    enum { SHOWN = 8 };
    const ot_dataset *d = t->data;
    char text[512] = "";
    size_t at = 0;
    if (!d->table || !d->class_name || d->n_classes < 1) return OT_OK;
    const char *column = ot_dataset_string_column(d, NULL);
    if (!column && !d->labelled) return OT_OK; /* of numbers, whatever names the model has for them */
    for (int i = 0; i < d->n_classes && i < SHOWN && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.48s %d", i ? ", " : "", d->class_name[i], i);
    ot_adapt_note(&(ot_adapt_env){ .a = t->a, .notes = &t->notes }, "%s: %s in column '%s' are %d class%s: %s%s",
                  d->name, column ? "strings" : "labels of the model", column ? column : d->column, d->n_classes,
                  d->n_classes == 1 ? "" : "es", text, d->n_classes > SHOWN ? " ..." : "");
    return note_balance(t, d, err);
}
