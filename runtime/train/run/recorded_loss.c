/* recorded_loss.c - the losses of a training as texts of --loss: in its checkpoint, and, where the file has other metadata of ours, in those of
 * its model (save.c), where eval and predict find it. */
#include <stdlib.h>
#include <string.h>

#include "runtime/losses/losses.h"
#include "runtime/train/options/specs.h"
#include "runtime/train/run/trainer.h"

/* `value` as the user gave it for l, with the numbers of l in place of auto.  The classes after the last that occurs have weight
 * 1. */
static void spell(FILE *f, const char *value, const ot_spec *l, int64_t classes)
{
    for (int i = 0; i < l->n; i++) {
        const ot_param *p = &l->param[i];
        char spelt[64];
        snprintf(spelt, sizeof spelt, "%.40s=" OT_LOSS_AUTO, p->key);
        const char *at = p->n && !strcmp(p->text, OT_LOSS_AUTO) ? strstr(value, spelt) : NULL;
        if (!at) continue;
        fprintf(f, "%.*s%s=[", (int)(at - value), value, p->key);
        for (int k = 0; k < p->n; k++) fprintf(f, "%s%.17g", k ? "," : "", p->list[k]);
        for (int64_t k = p->n; k < classes; k++) fputs(",1", f);
        fputc(']', f);
        value = at + strlen(spelt);
    }
    fputs(value, f);
}

void ot_loss_spell(FILE *f, const ot_trainer *t, int k)
{
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    const char *value = ot_options_nth(t->o, "loss", k);
    if (k < t->s.options.n_losses) spell(f, value, &t->s.options.losses[k], k < OT_HEADS ? p->weighted_classes[k] : 0);
    else fputs(value, f);
}

/* Loss k of those chosen by the loss pass. */
static char *spell_default(const ot_trainer *t, int k)
{
    const ot_default_loss *d = &t->x.slot[t->x.lead].plan->defaults[k];
    bool only = !t->m->outputs[0] || !t->m->outputs[1];
    char *text = NULL;
    return asprintf(&text, "%s%s%s", only ? "" : d->output, only ? "" : "=", d->name) < 0 ? NULL : text;
}

static char *spell_given(const ot_trainer *t, int k)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (f) ot_loss_spell(f, t, k);
    if (f && ot_memstream_close(f)) return text;
    free(text);
    return NULL;
}

/* Whether the model takes its classes along this axis can only be seen from the target that it was trained with. */
static char *with_axis(char *text, const ot_spec *given, int axis)
{
    char *longer = NULL;
    if (!text || !axis || (given && ot_spec_find(given, "class_axis"))) return text;
    bool keys = (given && given->n) || ot_ends_in(text, ":");
    int n = asprintf(&longer, "%s%sclass_axis=%d", text, !keys ? ":" : ot_ends_in(text, ":") ? "" : ",", axis);
    free(text);
    return n < 0 ? NULL : longer;
}

ot_status ot_losses_list(const ot_trainer *t, const char *const **out, ot_error *err)
{
    int n = t->s.options.n_losses;
    const char **list = n ? ot_arena_alloc(t->a, (size_t)(n + 1) * sizeof *list) : NULL;
    bool all = !n || list;
    for (int k = 0; k < n && all; k++) {
        char *text = spell_given(t, k);
        list[k] = text ? ot_arena_strdup(t->a, text) : NULL;
        all = list[k];
        free(text);
    }
    *out = list;
    return all ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the losses");
}

ot_status ot_losses_text(const ot_trainer *t, ot_arena *a, const char **out, ot_error *err)
{
    int given = t->s.options.n_losses, n = given ? given : t->x.slot[t->x.lead].plan->n_defaults;
    *out = NULL;
    if (!n && !ot_import_metadata(t->loaded->file, OT_LOSS_KEY)) return OT_OK;
    json_t *list = json_array();
    for (int k = 0; k < n; k++) {
        char *one = with_axis(given ? spell_given(t, k) : spell_default(t, k), given ? &t->s.options.losses[k] : NULL,
                              k < OT_HEADS ? t->x.slot[t->x.lead].plan->class_axis[k] : 0);
        ot_json_add(&list, one ? ot_json_text(one) : NULL);
        free(one);
    }
    char *text = ot_json_dump(list, JSON_COMPACT);
    *out = text ? ot_arena_strdup(a, text) : NULL;
    free(text);
    json_decref(list);
    return *out ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the losses of the model");
}

/* list: of texts, each another loss, or a loss on another output of the model.  Errors: OT_E_USAGE (it is something else), OT_E_NOMEM. */
static ot_status losses_in(const json_t *list, const ot_trainer *t, ot_spec *out, ot_error *err)
{
    if (!json_is_array(list)) return ot_fail(err, OT_E_USAGE, "it is not a list");
    for (size_t k = 0; k < json_array_size(list); k++) {
        const char *text = json_string_value(json_array_get(list, k));
        if (!text) return ot_fail(err, OT_E_USAGE, "it is not a list of strings");
        OT_TRY(ot_spec_parse(text, &ot_losses, t->m->outputs, t->a, &out[k], err));
    }
    return ot_losses_settle(out, (int)json_array_size(list), t->m->outputs, t->a, err);
}

ot_status ot_losses_take(ot_trainer *t, ot_error *err)
{
    const char *text = ot_import_metadata(t->m->file, OT_LOSS_KEY);
    json_t *list;
    ot_error other = { 0 };
    if (!text || t->s.options.n_losses) return OT_OK;
    if (ot_json_parse(text, strlen(text), &list)) return ot_fail(err, OT_E_NOMEM, "no memory for the metadata");
    size_t n = json_array_size(list);
    ot_spec *losses = ot_arena_alloc(t->a, (n + 1) * sizeof *losses);
    ot_status s = losses ? losses_in(list, t, losses, &other) : ot_fail(&other, OT_E_NOMEM, "no memory for the losses");
    json_decref(list);
    if (s == OT_E_NOMEM) return ot_fail(err, s, "%-s", other.text);
    if (s) {
        ot_adapt_note(&(ot_adapt_env){ .a = t->a, .notes = &t->notes },
                      "the loss in the model's metadata (" OT_LOSS_KEY ") is ignored: %s", other.text);
        return OT_OK;
    }
    t->s.options.losses = losses;
    t->s.options.n_losses = (int)n;
    return OT_OK;
}

const ot_spec *ot_loss_on(const ot_trainer *t, const char *output)
{
    for (int k = 0; k < t->s.options.n_losses; k++) {
        const ot_spec *l = &t->s.options.losses[k];
        bool only = !l->output && (!t->m->outputs[0] || !t->m->outputs[1]);
        if (only || (l->output && !strcmp(l->output, output))) return l;
    }
    return NULL;
}
