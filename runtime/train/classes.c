/* classes.c - names of the classes: in a model's metadata as onnxtrain.classes, in a table as texts.
 *
 * A table of texts numbers its classes by itself, in alphabetical order, so one that holds fewer of them numbers them
 * otherwise.  The model keeps the numbers it was trained with. */

#include <jansson.h>
#include <stdlib.h>

#include "runtime/train/trainer.h"

const char *ot_classes_text(const ot_dataset *d, ot_arena *a)
{
    json_t *list = d && d->class_name && d->n_classes > 0 ? json_array() : NULL;
    for (int i = 0; list && i < d->n_classes; i++) json_array_append_new(list, json_string(d->class_name[i]));
    char       *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    const char *kept = text ? ot_arena_strdup(a, text) : NULL;
    free(text);
    json_decref(list);
    return kept;
}

/* The names in the model; 0: it has none, or something else under that key. */
static int names_of(const ot_model *m, ot_arena *a, const char *const **out)
{
    const char  *text = ot_import_metadata(m->file, OT_CLASSES_KEY);
    json_t      *list = text ? json_loads(text, 0, NULL) : NULL;
    int          n = (int)json_array_size(list);
    const char **name = n ? ot_arena_alloc(a, sizeof *name * (size_t)n) : NULL;
    for (int i = 0; name && i < n; i++) {
        const char *one = json_string_value(json_array_get(list, (size_t)i));
        name[i] = one ? ot_arena_strdup(a, one) : NULL;
        if (!name[i]) name = NULL;
    }
    json_decref(list);
    *out = name;
    return name ? n : 0;
}

ot_status ot_trainer_number_classes(ot_trainer *t, ot_dataset *d, bool trains, ot_error *err)
{
    const char *const *name;
    ot_error           other = { 0 };
    int                n = names_of(t->m, t->a, &name);
    if (!n || (trains && !d->table)) return OT_OK;
    ot_status s = ot_dataset_number(d, name, n, t->m->file->path, &other);
    if (s != OT_E_DATA || !trains) return s ? ot_fail(err, s, "%s", other.text) : OT_OK;
    ot_trainer_say(t, OT_WARNING, "%s; the classes are numbered anew, by the data", other.text); /* another task for the model */
    return OT_OK;
}
