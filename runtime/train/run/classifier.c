/* classifier.c - --classes and --freeze-backbone: the last linear layer is made for the classes of the data, or trains alone.
 *
 * The model is read again with a new layer (exporter/classifier.h); what trains and is written from then on is that. */
#include <stdio.h>
#include <string.h>

#include "exporter/classifier.h"
#include "runtime/losses/losses.h"
#include "runtime/train/run/trainer.h"

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory to change the last layer"); }

/* ---- which output -------------------------------------------------------------------------- */

static int find_output(const ot_graph *g, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i]->name, name)) return i;
    return -1;
}

/* The type of an output of the file, whose operators are not inferred: of an initializer its own, else the declared one. */
static ot_dtype type_of(const ot_value *v) { return v->dtype == OT_UNDEFINED ? v->declared : v->dtype; }

int ot_trainer_plain_output(const ot_trainer *t)
{
    const ot_graph *g = t->m->file->graph;
    int only = 0, n = 0;
    const ot_spec *l = t->s.options.losses;
    bool alike = t->s.options.n_losses > 0; /* losses on one output */
    for (int i = 1; i < t->s.options.n_losses; i++) alike &= ot_spec_shares(&l[0], &l[i]);
    if (alike && l[0].output) {
        int named = find_output(g, l[0].output);
        if (named >= 0) return named;
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (ot_is_float(type_of(g->outputs[i]))) only = i, n++;
    return n == 1 ? only : 0;
}

/* The loss of the options on that output; NULL: none. */
static const ot_spec *loss_of(const ot_trainer *t, int output)
{
    const char *name = t->m->file->graph->outputs[output]->name;
    for (int i = 0; i < t->s.options.n_losses; i++) {
        const ot_spec *l = &t->s.options.losses[i];
        if (l->output ? !strcmp(l->output, name) : output == ot_trainer_plain_output(t)) return l;
    }
    return NULL;
}

/* ---- how many classes ------------------------------------------------------------------------ */

static ot_status need_data(ot_trainer *t, ot_error *err)
{
    if (!t->s.data && !t->data)
        return ot_fail(err, OT_E_USAGE, "--classes auto needs --data; without it, give the number: --classes 10");
    return ot_trainer_open_training(t, err);
}

static const ot_array *target_of(const ot_trainer *t, int output)
{
    const ot_array *own = ot_target_of(t->data, t->m->file->graph->outputs[output]->name);
    return own || output != ot_trainer_plain_output(t) ? own : ot_target_plain(t->data);
}

/* Binary classification may use one value per sample. */
static bool is_binary(const ot_trainer *t, int output, const ot_classifier *h)
{
    const ot_spec *l = loss_of(t, output);
    return h->classes == 1 && h->now == 2 && (h->sigmoid || (l && ot_loss_find(l->name)->takes != OT_TAKES_CLASSES));
}

static ot_status add_classifier(ot_trainer *t, int output, int64_t classes, ot_error *err)
{
    const ot_value *v = t->m->file->graph->outputs[output];
    ot_classifier *h = &t->classifiers.list[t->classifiers.n];
    const char *name = ot_arena_strdup(t->a, v->name);
    if (!name) return no_memory(err);
    OT_TRY(ot_classifier_find(t->loaded->file, name, t->a, h, err));
    if (h->why)
        return ot_fail(err, OT_E_MODEL, "--classes: the last layer before output '%s' is not found: %s", name, h->why);
    h->now = classes;
    if (!classes) {
        const ot_array *target = target_of(t, output);
        if (!target)
            return ot_fail(err, OT_E_DATA, "%s: --classes auto: the data has no target for output '%s'", t->data->name,
                           name);
        ot_error why = { 0 };
        if (ot_count_classes(t->data, target, v->shape.rank, h->spatial ? 1 : -1, loss_of(t, output), &t->s, &h->now,
                             &why))
            return ot_fail(err, why.status, "%s: %s", t->data->name, why.text);
        char from[200];
        if (ot_labels_from_one(target, OT_IGNORED, h->now - 1, from, sizeof from))
            ot_find(&t->findings, OT_FINDING_WARNING, NULL, NULL,
                    "--classes auto: the new layer has %lld classes, and class 0 has no samples%s", (long long)h->now,
                    from);
        if (is_binary(t, output, h)) h->now = h->classes;
    }
    if (h->sigmoid && h->classes == 1 && h->now > 1)
        return ot_fail(
            err, OT_E_MODEL,
            "--classes: output '%s' is the Sigmoid of one value per sample, which has two classes at most; export the "
            "model without the Sigmoid, or train with --output on the tensor before it",
            name);
    for (int i = 0; i < t->classifiers.n; i++)
        if (t->classifiers.list[i].layer == h->layer && t->classifiers.list[i].now != h->now)
            return ot_fail(err, OT_E_USAGE, "--classes: outputs '%s' and '%s' have the same last layer, '%s'",
                           t->classifiers.list[i].output, name, h->node);
    t->classifiers.n++;
    return OT_OK;
}

/* --classes auto: every output that has a target. */
static ot_status add_by_data(ot_trainer *t, ot_error *err)
{
    const ot_graph *g = t->m->file->graph;
    int before = t->classifiers.n;
    OT_TRY(need_data(t, err));
    for (int i = 0; i < g->n_outputs; i++) {
        bool named = false;
        for (int k = 0; k < t->s.n_classes; k++)
            named |= t->s.classes[k].output && !strcmp(t->s.classes[k].output, g->outputs[i]->name);
        if (!named && target_of(t, i)) OT_TRY(add_classifier(t, i, 0, err));
    }
    return t->classifiers.n > before
               ? OT_OK
               : ot_fail(err, OT_E_DATA, "%s: --classes auto: the data has no target", t->data->name);
}

static ot_status add_wish(ot_trainer *t, const ot_classes_wish *w, ot_error *err)
{
    int output = w->output ? find_output(t->m->file->graph, w->output) : ot_trainer_plain_output(t);
    if (!w->output && !w->n) return add_by_data(t, err);
    if (output < 0) return ot_fail(err, OT_E_USAGE, "--classes: the model has no output '%s'", w->output);
    if (!w->n) OT_TRY(need_data(t, err));
    return add_classifier(t, output, w->n, err);
}

/* ---- the new layer ------------------------------------------------------------------------------ */

/* "fc.weight [1000,512] -> [2,512]"; NULL: no memory. */
static const char *say_tensor(const ot_trainer *t, const char *name, int axis, int64_t now)
{
    const ot_imported *f = t->loaded->file;
    char was[128], is[128];
    for (int i = 0; i < f->n_sources; i++) {
        if (strcmp(f->sources[i].name, name) != 0) continue;
        ot_shape s = f->sources[i].shape;
        ot_shape_text(&s, was);
        if (axis >= 0 && axis < s.rank) s.dim[axis] = now;
        return ot_arena_printf(t->a, "%s %s -> %s", name, was, ot_shape_text(&s, is));
    }
    return name;
}

static ot_status say(ot_trainer *t, const ot_classifier *h, ot_error *err)
{
    if (h->now == h->classes) {
        ot_find(&t->findings, OT_FINDING_NOTE, NULL, NULL,
                "--classes: the last layer '%s' (%s) has %lld class%s already and is kept", h->node, h->op,
                (long long)h->classes, h->classes == 1 ? "" : "es");
        return OT_OK;
    }
    const char *weight = say_tensor(t, h->weight, h->axis, h->now),
               *bias = h->bias ? say_tensor(t, h->bias, h->bias_axis, h->now) : "";
    if (!weight || !bias) return no_memory(err);
    ot_find(&t->findings, OT_FINDING_NOTE, NULL, NULL,
            "--classes: the last layer '%s' (%s) had %lld class%s and is replaced by a new one with %lld: %s%s%s",
            h->node, h->op, (long long)h->classes, h->classes == 1 ? "" : "es", (long long)h->now, weight,
            *bias ? ", " : "", bias);
    return OT_OK;
}

/* Copies the strings of h, which must outlive the model. */
static bool keep(ot_trainer *t, ot_classifier *h)
{
    const char **text[] = { &h->weight, &h->bias, &h->node, &h->op };
    for (int i = 0; i < OT_LEN(text); i++)
        if (*text[i] && !(*text[i] = ot_arena_strdup(t->a, *text[i]))) return false;
    return true;
}

static ot_status replace(ot_trainer *t, ot_error *err)
{
    ot_imported *now = NULL;
    const char *names;
    for (int i = 0; i < t->s.n_classes; i++) OT_TRY(add_wish(t, &t->s.classes[i], err));
    for (int i = 0; i < t->classifiers.n; i++)
        if (!keep(t, &t->classifiers.list[i])) return no_memory(err);
    for (int i = 0; i < t->classifiers.n; i++) {
        bool before = false;
        for (int k = 0; k < i; k++) before |= t->classifiers.list[k].layer == t->classifiers.list[i].layer;
        if (!before) OT_TRY(say(t, &t->classifiers.list[i], err));
    }
    OT_TRY(ot_classes_kept(t, &names, err));
    OT_TRY(ot_classifiers_replace(t->loaded->file, t->classifiers.list, t->classifiers.n, t->s.seed, OT_CLASSES_KEY,
                                  names, &now, err));
    t->classifiers.replaced = now != NULL;
    return now ? ot_trainer_take(t, now, err) : OT_OK;
}

/* ---- --freeze-backbone ------------------------------------------------------------------------------ */

/* Finds the last layer before each output. */
static ot_status find_all(ot_trainer *t, ot_error *err)
{
    const ot_graph *g = t->m->file->graph;
    const char *why = "the model has no output";
    for (int i = 0; i < g->n_outputs; i++) {
        ot_classifier h;
        bool there = false;
        OT_TRY(ot_classifier_find(t->loaded->file, g->outputs[i]->name, t->a, &h, err));
        if (h.why) why = h.why;
        for (int k = 0; k < t->classifiers.n && !h.why; k++) there |= t->classifiers.list[k].layer == h.layer;
        if (h.why || there) continue;
        if (!keep(t, &h)) return no_memory(err);
        t->classifiers.list[t->classifiers.n++] = h;
    }
    return t->classifiers.n
               ? OT_OK
               : ot_fail(err, OT_E_MODEL, "--freeze-backbone: the last layer before output '%s' is not found: %s",
                         g->n_outputs ? g->outputs[0]->name : "", why);
}

static ot_status freeze(ot_trainer *t, ot_error *err)
{
    OT_TRY(find_all(t, err));
    const char **name = ot_arena_alloc(t->a, sizeof *name * 2 * (size_t)(t->classifiers.n + 1));
    int n = 0;
    if (!name) return no_memory(err);
    for (int i = 0; i < t->classifiers.n; i++) {
        const ot_classifier *h = &t->classifiers.list[i];
        name[n++] = h->weight;
        if (h->bias) name[n++] = h->bias;
        ot_find(&t->findings, OT_FINDING_NOTE, h->weight, NULL,
                "--freeze-backbone: only the last linear layer trains, with what --train and --unfreeze name");
    }
    t->s.options.only = name;
    t->s.options.n_only = n;
    return OT_OK;
}

ot_status ot_trainer_classifiers(ot_trainer *t, ot_error *err)
{
    size_t most = (size_t)t->s.n_classes + 2 * (size_t)t->m->file->graph->n_outputs + 1;
    if (!t->s.n_classes && !t->s.freeze_backbone) return OT_OK;
    t->classifiers.n = 0;
    t->classifiers.list = ot_arena_alloc(t->a, sizeof *t->classifiers.list * most);
    if (!t->classifiers.list) return no_memory(err);
    OT_TRY(replace(t, err));
    return t->s.freeze_backbone ? freeze(t, err) : OT_OK;
}

ot_status ot_trainer_check_classes(const ot_trainer *t, const ot_output *outputs, int n, ot_error *err)
{
    char shape[128];
    for (int i = 0; i < t->classifiers.n; i++) {
        const ot_classifier *h = &t->classifiers.list[i];
        for (int k = 0; k < n; k++) {
            bool there = false;
            if (strcmp(outputs[k].name, h->output) || !h->now || h->now == h->classes) continue;
            for (int d = 0; d < outputs[k].shape.rank; d++) there |= outputs[k].shape.dim[d] == h->now;
            if (!there)
                return ot_fail(
                    err, OT_E_MODEL,
                    "--classes: output '%s' is %s with a last layer of %lld classes: an operator after node '%s' "
                    "fixes the number of classes",
                    h->output, ot_shape_text(&outputs[k].shape, shape), (long long)h->now, h->node);
        }
    }
    return OT_OK;
}
