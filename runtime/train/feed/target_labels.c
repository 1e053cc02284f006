/* target_labels.c - checks the elements of targets before the first step: class numbers, shares from 0 to 1, strings. */
#include "runtime/train/feed/target_labels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

ot_takes ot_wanted_takes(const ot_wanted *w)
{
    if (!w->loss) return OT_TAKES_EITHER;
    return ot_spec_find(w->loss, "other") ? OT_TAKES_VECTORS : ot_loss_find(w->loss->name)->takes;
}

/* The first class whose name consists of several labels, such as comedy|drama beside comedy; NULL: none. */
static const char *several_labels(const ot_wanted *w)
{
    const char *const *name;
    int n = ot_dataset_classes(w->data, w->array, &name);
    for (int i = 0; name && i < n && n <= 4096; i++) {
        size_t first = strcspn(name[i], "|,;");
        for (int k = 0; first && name[i][first] && k < n; k++)
            if (!strncmp(name[k], name[i], first) && !name[k][first]) return name[i];
    }
    return NULL;
}

/* The option that gives the output as many classes as the data have; for one output, --classes auto. */
static const char *another_head(const ot_adapt_env *e, const ot_wanted *w, char text[256])
{
    const char *several = several_labels(w);
    if (several) {
        snprintf(text, 256, "; '%.60s' looks like several labels: use a column of 0 and 1 for each label", several);
        return text;
    }
    static const char replaces[] = "replaces the last layer by a new one for the classes of the data";
    if (e->graph->n_outputs < 2) snprintf(text, 256, "; --classes auto %s", replaces);
    else snprintf(text, 256, "; --classes %.60s=N, with the number of classes, %s", w->output->name, replaces);
    return text;
}

ot_status ot_target_check_names(const ot_adapt_env *e, const ot_wanted *w, int64_t classes, ot_error *err)
{
    const ot_dataset *d = w->data;
    const char *const *name, *column = ot_dataset_string_column(d, w->array);
    char head[256], which[80] = "";
    int n = ot_dataset_classes(d, w->array, &name);
    bool named = (d->table || d->renumbers) && name;
    if (!e->measure || e->s->n_classes || !named || n >= classes || classes < 2) return OT_OK;
    if (e->graph->n_outputs > 1) snprintf(which, sizeof which, "%.60s=", w->output->name);
    return ot_fail_more(err, OT_E_DATA,
                        "target '%s' has %d class%s, but output '%s' has %lld%s; --classes %s%lld keeps it",
                        column      ? column
                        : d->column ? d->column
                                    : w->array->t.name,
                        n, n == 1 ? "" : "es", w->output->name, (long long)classes, another_head(e, w, head), which,
                        (long long)classes);
}

/* The name of the target, and in `where` the line or sample of element i of n. */
static const char *place_of(const ot_wanted *w, int64_t i, int64_t n, int64_t samples, char where[64])
{
    int64_t at = samples > 0 ? i / (n / samples) : i, line = samples > 0 ? ot_dataset_line_of(w->data, w->array, i) : 0;
    if (line) snprintf(where, 64, "line %lld", (long long)line);
    else snprintf(where, 64, "sample %lld", (long long)ot_dataset_origin(w->data, at));
    return line ? w->data->column : w->array->t.name;
}

/* A mapped array is checked batch by batch. */
static ot_status check_later(const ot_adapt_env *e, const ot_wanted *w, int64_t classes, int64_t skip, ot_feeder *f,
                             ot_error *err)
{
    f->range = (ot_range){ .least = 0, .most = classes - 1, .except = skip };
    f->range.why = ot_arena_printf(e->a, "as target '%s' it must be 0 to %lld, because output '%s' has %lld classes",
                                   w->array->t.name, (long long)classes - 1, w->output->name, (long long)classes);
    return f->range.why ? OT_OK : ot_fail_more(err, OT_E_NOMEM, "no memory to prepare the data");
}

ot_status ot_target_check_labels(const ot_adapt_env *e, const ot_wanted *w, int64_t classes, int64_t samples,
                                 ot_feeder *f, ot_error *err)
{
    static const char one[] = "; for an output of one value per sample use --loss bce_with_logits with targets 0 and "
                              "1, or --loss mse";
    const ot_tensor *t = &w->array->t;
    const ot_param *ignore = w->loss ? ot_spec_find(w->loss, "ignore_index") : NULL;
    bool can_ignore = (!w->loss || ot_entry_key(&ot_loss_find(w->loss->name)->entry, "ignore_index")) &&
                      !(ignore && isnan(ignore->num));
    int64_t skip = ignore && can_ignore ? (int64_t)ignore->num : OT_IGNORED, n = 1, ignored = 0;
    if (w->array->mapped) return check_later(e, w, classes, can_ignore ? skip : 0, f, err);
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t y = ot_get_i64(t->data, t->dtype, ot_array_at(w->array, i));
        if (can_ignore && y == skip) {
            ignored++;
            continue;
        }
        if (y >= 0 && y < classes) continue;
        char where[64], head[256], from[160];
        const char *name = place_of(w, i, n, samples, where);
        bool shifted = ot_labels_from_one(w->array, can_ignore ? skip : -1, classes, from, sizeof from);
        return ot_fail_more(
            err, OT_E_DATA, "target '%s': %s has class %lld, but output '%s' has %lld class%s, 0 to %lld%s%s%s", name,
            where, (long long)y, w->output->name, (long long)classes, classes == 1 ? "" : "es", (long long)classes - 1,
            classes == 1 ? one : "", from, y >= 0 && e->measure && !shifted ? another_head(e, w, head) : "");
    }
    f->ignores = ignored && !ignore;
    f->uncounted = ignored && (!w->loss || !ot_spec_is(w->loss, "reduction", "sum"));
    f->ignored = skip;
    if (f->ignores)
        ot_adapt_note(
            e,
            "target '%s': %lld of %lld class numbers are %d and are ignored, as in PyTorch; set ignore_index in --loss to change that",
            t->name, (long long)ignored, (long long)n, OT_IGNORED);
    return OT_OK;
}

const ot_spec *ot_wanted_loss_of_shares(const ot_adapt_env *e, const ot_wanted *w)
{
    for (int k = 0; w->loss && k < e->s->options.n_losses; k++) {
        const ot_spec *t = &e->s->options.losses[k];
        if (ot_spec_shares(t, w->loss) && !ot_loss_left_out(t) && ot_loss_find(t->name)->shares) return t;
    }
    return NULL;
}

ot_status ot_target_check_shares(const ot_adapt_env *e, const ot_wanted *w, int64_t samples, ot_feeder *f,
                                 ot_error *err)
{
    const ot_tensor *t = &w->array->t;
    const ot_spec *loss = ot_wanted_loss_of_shares(e, w);
    int64_t n = 1;
    if (!loss || w->array->source) return OT_OK; /* masks: ot_mask_set */
    if (w->array->mapped) {                      /* batch by batch */
        f->range = (ot_range){ .least = 0, .most = 1, .except = 0 };
        f->range.why = ot_arena_printf(e->a, "loss %s needs targets from 0 to 1", loss->name);
        return f->range.why ? OT_OK : ot_fail_more(err, OT_E_NOMEM, "no memory to prepare the data");
    }
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    for (int64_t i = 0; i < n; i++) {
        double v = ot_get_f64(t->data, t->dtype, ot_array_at(w->array, i));
        char where[64];
        if (!(v < 0 || v > 1)) continue; /* NaN has its own message */
        const char *name = place_of(w, i, n, samples, where);
        return ot_fail_more(
            err, OT_E_DATA,
            "target '%s': %s has %g, but loss %.40s needs targets from 0 to 1 (0 and 1 for two classes)", name, where,
            v, loss->name);
    }
    return OT_OK;
}

ot_status ot_target_check_texts(const ot_wanted *w, ot_error *err)
{
    const ot_dataset *d = w->data;
    char what[100];
    const char *column = ot_dataset_string_column(d, w->array);
    if (!column || !d->class_name) return OT_OK;
    ot_takes t = ot_wanted_takes(w);
    if (d->n_classes == 2 && (!w->loss || t == OT_TAKES_EITHER || t == OT_TAKES_VECTORS ||
                              ot_entry_key(&ot_loss_find(w->loss->name)->entry, "pos_weight")))
        return OT_OK;
    if (w->loss) snprintf(what, sizeof what, "loss %.40s needs numbers", w->loss->name);
    else snprintf(what, sizeof what, "output '%.60s' has one value per sample", w->output ? w->output->name : "");
    return ot_fail_more(err, OT_E_DATA,
                        "column '%s' contains strings, %d classes ('%.60s', '%.60s'%s), but %s: use "
                        "cross_entropy and an output with a value for each class%s, or choose another "
                        "column with --target",
                        column, d->n_classes, d->class_name[0], d->n_classes > 1 ? d->class_name[1] : "",
                        d->n_classes > 2 ? " ..." : "", what,
                        d->n_classes == 2 ? ", or bce_with_logits for two classes" : "");
}
