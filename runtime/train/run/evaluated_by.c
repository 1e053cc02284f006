/* evaluated_by.c - the options with which `eval` evaluates a written model as its training did. */
#include <stdlib.h>
#include <string.h>

#include "runtime/train/run/trainer.h"

/* Options that the written model records, so that an evaluation does not need them. */
typedef struct recorded {
    bool inputs;  /* scaling, and of images their size */
    bool columns; /* which columns of a table its inputs take, and how */
} recorded;

/* The kinds of the inputs are looked up in the text: jansson ends the process where it has no memory for a long number, and this
 * is called when the training is done. */
static recorded recorded_by(const ot_trainer *t)
{
    static const char key[] = "\"kind\"", array[] = "\"array\"";
    recorded r = { 0 };
    const char *text =
        t->data && t->data->preprocess ? t->data->preprocess : ot_import_metadata(t->loaded->file, OT_PREPROCESS_KEY);
    for (text = text ? strstr(text, key) : NULL; text; text = strstr(text, key)) {
        text += sizeof key - 1;
        text += strspn(text, ": \t\n");
        r.inputs = true;
        r.columns |= t->data && t->data->table && strncmp(text, array, sizeof array - 1) != 0;
    }
    return r;
}

/* Whether `eval` needs option o: it affects how the data are read, and the model does not record it. */
static bool is_needed(const ot_option_info *o, const recorded *r)
{
    static const char *const sets[] = { "test", "val", "val-split", "folds" }, /* see ot_evaluated_by */
        *const columns[] = { "inputs", "categories", "passthrough" };
    static const char *const outputs[] = { "output", "loss" };
    bool needed = (o->commands & OT_CMD_EVAL) && !strcmp(o->group, "Data");
    for (int i = 0; i < OT_LEN(sets); i++) needed &= strcmp(o->name, sets[i]) != 0;
    for (int i = 0; i < OT_LEN(columns); i++) needed &= !r->columns || strcmp(o->name, columns[i]) != 0;
    if (r->inputs) needed &= strcmp(o->name, "normalize") != 0;
    needed &= strcmp(o->name, "normalize-target") != 0; /* a target that is scaled is recorded */
    for (int i = 0; i < OT_LEN(outputs); i++) needed |= !strcmp(o->name, outputs[i]);
    return needed;
}

typedef struct list {
    const char **text;
    int n;
} list;

static void add(list *l, const char *name, const char *value)
{
    l->text[l->n++] = name;
    l->text[l->n++] = value;
}

ot_status ot_evaluated_by(const ot_trainer *t, const char *const **out, ot_error *err)
{
    const ot_option_info *o;
    const char *const *losses, *text;
    int most = 4; /* pairs beside those of the options: --val-split, --folds, --seed and the end */
    for (int i = 0; (o = ot_option_at(i)); i++) most += ot_options_count(t->o, o->name);
    list l = { ot_arena_alloc(t->a, sizeof(char *) * 2 * (size_t)most), 0 };
    if (!l.text) return ot_fail(err, OT_E_NOMEM, "no memory for the options of an evaluation");
    OT_TRY(ot_losses_list(t, &losses, err)); /* a later evaluation has no training set to count */

    recorded r = recorded_by(t);
    for (int i = 0; (o = ot_option_at(i)); i++) {
        if (!is_needed(o, &r)) continue;
        bool spelt = !strcmp(o->name, "loss") && losses;
        for (int k = 0; (text = spelt ? losses[k] : ot_options_nth(t->o, o->name, k)); k++) add(&l, o->name, text);
    }
    const char *set = ot_options_count(t->o, "test") ? "test" : "val";
    for (int k = 0; (text = ot_options_nth(t->o, set, k)); k++) add(&l, "test", text);
    const char *split = !strcmp(t->result.split, "val") ? ot_options_get(t->o, "val-split") : NULL,
               *fold = ot_options_get(t->o, "folds"), *seed = ot_options_nth(t->o, "seed", 0);
    if (split) add(&l, "val-split", split);
    if (fold) add(&l, "folds", fold);
    if ((split || fold) && seed) add(&l, "seed", seed);
    l.text[l.n] = NULL;
    *out = l.text;
    return OT_OK;
}
