/* classes.c - names of the classes: in a model's metadata as onnxtrain.classes, in a table as texts.
 *
 * A table of texts numbers its classes by itself, in alphabetical order, so one that holds fewer of them numbers them
 * otherwise.  The model keeps the numbers it was trained with. */

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/losses/losses.h"
#include "runtime/train/feed/declared.h"
#include "runtime/train/run/trainer.h"

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for the names of classes"); }

static ot_status spell(const char *const *name, int n, ot_arena *a, const char **out, ot_error *err)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) ot_json_add(&list, json_string(name[i]));
    char *text = ot_json_dump(list, JSON_COMPACT);
    *out = text ? ot_arena_strdup(a, text) : NULL;
    free(text);
    json_decref(list);
    return *out ? OT_OK : no_memory(err);
}

ot_status ot_classes_text(const ot_dataset *d, ot_arena *a, const char **out, ot_error *err)
{
    *out = NULL;
    return d && d->class_name && d->n_classes > 0 ? spell(d->class_name, d->n_classes, a, out, err) : OT_OK;
}

/* ---- of a training --------------------------------------------------------------------- */

/* The loss of a target; NULL: it is not known. */
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

/* Numbers that are neither classes nor probabilities of them. */
static bool of_values(const ot_trainer *t, const ot_feeder *f)
{
    const ot_loss_kind *l = loss_of(t, f);
    return l && l->takes == OT_TAKES_VALUES && ot_is_float(f->dtype) && !f->adds_up[0] && !f->adds_up[1];
}

/* Columns of which each says whether a class applies to the sample; *n 0: the target is something else. */
static const char *const *label_columns(const ot_trainer *t, const ot_feeder *f, int *n)
{
    const ot_loss_kind *l = loss_of(t, f);
    const char *const *name = ot_dataset_target_columns(t->data, &t->data->array[f->array], n);
    bool classes = l && l->takes != OT_TAKES_VALUES && l->takes != OT_TAKES_VECTORS,
         shares = f->binary || f->adds_up[0] || f->adds_up[1] || (l && l->shares);
    if (!name || *n < 2 || !classes || !shares || ot_numel(&f->sample) != *n) *n = 0;
    return name;
}

ot_status ot_trainer_classes_text(const ot_trainer *t, ot_arena *a, ot_classes_kind *kind, const char **out,
                                  ot_error *err)
{
    const ot_dataset *d = t->data;
    const ot_feeder *target = NULL;
    int targets = 0, values = 0, n = 0;
    *kind = OT_CLASSES_KEPT;
    *out = NULL;
    for (int i = 0; d && i < t->train.n; i++) {
        const ot_feeder *f = &t->train.f[i];
        if (!f->target) continue;
        target = f;
        targets++;
        values += of_values(t, f);
    }
    if (t->own_classes) return OT_OK;
    if (targets && values == targets) {
        if (ot_import_metadata(t->loaded->file, OT_CLASSES_KEY)) *kind = OT_CLASSES_GONE;
        return OT_OK;
    }
    const char *const *column = targets == 1 ? label_columns(t, target, &n) : NULL;
    *kind = n ? OT_CLASSES_COLUMNS : OT_CLASSES_KEPT;
    if (n) return spell(column, n, a, out, err);
    if (d && (d->table || d->renumbers || t->new_classes)) OT_TRY(ot_classes_text(d, a, out, err));
    if (*out) *kind = OT_CLASSES_NAMED; /* else their numbers are known */
    return OT_OK;
}

/* ---- of a model ------------------------------------------------------------------------- */

static ot_status names_in(const json_t *list, ot_arena *a, const char *const **out, int *n, ot_error *err)
{
    int size = (int)json_array_size(list);
    const char **name = ot_arena_alloc(a, sizeof *name * (size_t)(size + 1));
    if (!name) return no_memory(err);
    for (int i = 0; i < size; i++) {
        const char *one = json_string_value(json_array_get(list, (size_t)i));
        if (!one) return OT_OK; /* something else */
        if (!(name[i] = ot_arena_strdup(a, one))) return no_memory(err);
    }
    *out = name;
    *n = size;
    return OT_OK;
}

ot_status ot_classes_of(const ot_model *m, ot_arena *a, const char *const **out, int *n, ot_error *err)
{
    const char *text = ot_import_metadata(m->file, OT_CLASSES_KEY);
    json_t *list;
    *n = 0;
    if (!text) {
        OT_TRY(ot_label_classes(m->file, a, out, n, err));
        return *n ? OT_OK : ot_declared_classes(m->file, a, out, n, err);
    }
    if (ot_json_parse(text, strlen(text), &list)) return no_memory(err);
    if (!list) return OT_OK;
    ot_status s = names_in(list, a, out, n, err);
    json_decref(list);
    return s;
}

ot_status ot_trainer_own_classes(ot_trainer *t, ot_error *err)
{
    const char *const *name;
    int n = 0;
    bool recorded = ot_import_metadata(t->loaded->file, OT_CLASSES_KEY) != NULL;
    if (!recorded && !t->new_classes) OT_TRY(ot_label_classes(t->loaded->file, t->a, &name, &n, err));
    t->own_classes = n > 0;
    return OT_OK;
}

ot_status ot_trainer_number_classes(ot_trainer *t, ot_dataset *d, bool trains, ot_error *err)
{
    const char *const *name;
    ot_error other = { 0 };
    int n;
    OT_TRY(ot_trainer_own_classes(t, err));
    OT_TRY(ot_classes_of(t->loaded, t->a, &name, &n, err));
    /* Names that a target of numbers does not have stay in the model without it. */
    if (!n || (trains && !t->own_classes && !ot_dataset_string_column(d, NULL) && !d->renumbers)) return OT_OK;
    ot_status s = ot_dataset_number(d, name, n, t->own_classes, t->m->file->path, &other);
    if (s != OT_E_DATA || !trains || t->own_classes) return s ? ot_fail(err, s, "%s", other.text) : OT_OK;
    ot_trainer_say(t, OT_WARNING, "%s; the class numbers are remapped to those of the data",
                   other.text); /* another task for the model */
    return OT_OK;
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
                  count[most] > UNBALANCED * count[least]
                      ? "; --loss cross_entropy:class_weights=auto gives small classes more weight"
                      : "");
    return OT_OK;
}

/* Which number each text or label of a table has: "cat 0, dog 1". */
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
