/* untie.c - what the options change in the graph of the file itself: --untie, and --train for what ConstantOfShape fills.
 *
 * The model is read again with these edits (exporter/untie.h); what trains and is written from then on is that. */
#include <string.h>

#include "exporter/untie.h"
#include "ops/op.h"
#include "runtime/passes/evidence.h"
#include "runtime/passes/unfold.h"
#include "runtime/train/run/dry_run.h"
#include "runtime/train/run/lora.h"

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory to change the graph"); }

ot_status ot_trainer_take(ot_trainer *t, ot_imported *now, ot_error *err)
{
    ot_model *m = ot_arena_alloc(t->a, sizeof *m);
    ot_imported *before = t->remade;
    if (!m) {
        ot_import_free(now);
        return no_memory(err);
    }
    *m = *t->loaded;
    m->file = now;
    m->bytes = now->bytes;
    t->m = t->loaded = t->x.model = m;
    t->remade = now;
    ot_status s = OT_OK;
    if (t->cut.file) { /* --output: of the new graph */
        ot_model_cut_drop(&t->cut);
        s = ot_model_cut(m, t->s.n_outputs, t->s.outputs, t->a, &t->cut, err);
        if (!s) t->m = t->x.model = &t->cut;
    }
    if (before) ot_import_free(before);
    return s;
}

/* ---- what ConstantOfShape fills ------------------------------------------------------ */

static bool matches(const char *const *pattern, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (ot_pattern_rank(pattern[i], name) >= 0) return true;
    return false;
}

static ot_status fill(ot_trainer *t, ot_error *err)
{
    int n, wanted = 0;
    ot_imported *now = NULL;
    ot_filled *list = ot_filled_find(t->m->file, t->a, &n);
    if (!list) return no_memory(err);
    for (int i = 0; i < n; i++) {
        list[i].wanted = matches(t->s.options.train, t->s.options.n_train, list[i].name) &&
                         !matches(t->s.options.freeze, t->s.options.n_freeze, list[i].name);
        wanted += list[i].wanted;
        const char *name = ot_arena_strdup(t->a, list[i].name);
        if (!name) return no_memory(err);
        if (list[i].wanted)
            ot_find(&t->findings, OT_FINDING_NOTE, name, NULL,
                    "--train: tensors filled by ConstantOfShape are "
                    "trained, and written as Constant nodes of the same "
                    "name");
        else
            ot_find(&t->findings, OT_FINDING_WARNING, name,
                    "use --train NAME to train one; it is written as a "
                    "Constant node",
                    "weights are missing in the file: ConstantOfShape fills them with one number, and they do not "
                    "train");
    }
    if (!wanted) return OT_OK;
    OT_TRY(ot_fill(t->m->file, list, n, &now, err));
    return ot_trainer_take(t, now, err);
}

/* ---- ties --------------------------------------------------------------------------- */

/* Do many layers start with the values of v?  With equal elements, and with the biases of recurrent layers, which are ones for one gate. */
static bool is_usual(const ot_value *v)
{
    const ot_op *op = v->slot_op;
    return ot_pattern_of(v) == OT_PATTERN_EQUAL ||
           (op && strchr(op->slots, 'h') && ot_slot_at(op, v->slot_input) == 'B');
}

/* What may part: what trains, or is a statistic; whatever the option names.  Two nodes read it.  Marks values.  NULL: no memory. */
static ot_tied *candidates(ot_trainer *t, ot_graph *g, bool by_itself, int *n)
{
    ot_tied *list = ot_arena_alloc(t->a, sizeof *list * (size_t)(t->m->file->n_sources + 1));
    *n = 0;
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    for (const ot_node *k = g->first; k; k = k->next)
        for (int i = 0; i < k->n_in; i++)
            if (k->in[i]) k->in[i]->mark++;
    for (int i = 0; list && i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        if (v->source < 0 || v->from_constant || t->m->file->sources[v->source].kind == OT_FROM_ATTRIBUTE || !v->data ||
            !ot_is_float(v->dtype) || v->mark < 2)
            continue;
        bool asked = matches(t->s.untie, t->s.n_untie, v->name), trains = v->role == OT_WEIGHT || v->role == OT_STATE;
        bool bias = t->s.unfold_bn && v->slot_op == &ot_op_Conv && v->slot_input == 2; /* folding needs one for each */
        if (!asked && !(trains && (by_itself || bias))) continue;
        list[(*n)++] = (ot_tied){ .source = v->source, .asked = asked, .usual = is_usual(v) };
    }
    return list;
}

static ot_status check_patterns(const ot_trainer *t, const ot_graph *g, ot_error *err)
{
    for (int i = 0; i < t->s.n_untie; i++) {
        bool hit = false;
        for (int k = 0; k < g->n_values && !hit; k++)
            hit = g->values[k]->source >= 0 && ot_pattern_rank(t->s.untie[i], g->values[k]->name) >= 0;
        if (!hit)
            return ot_fail(err, OT_E_USAGE, "--untie %s: no initializer matches (see 'onnxtrain inspect')",
                           t->s.untie[i]);
    }
    return OT_OK;
}

static void say(ot_trainer *t, const ot_tied *list, int n, bool done)
{
    for (int i = 0; i < n; i++) {
        const ot_source *s = &t->m->file->sources[list[i].source];
        const char *name = ot_arena_printf(t->a, "%s: %d of %s", s->name, list[i].made + 1, list[i].op);
        if (!list[i].made) continue;
        if (done)
            ot_find(&t->findings, OT_FINDING_NOTE, name, NULL,
                    "--untie: shared initializers are copied, one for each layer, in training and in the written file");
        else
            ot_find(&t->findings, OT_FINDING_WARNING, name,
                    "use --untie auto to give each layer its own, in training "
                    "and in the file",
                    "the exporter stored equal tensors once, so layers share one trained initializer");
        if (!name) t->findings.lost = true;
    }
}

static ot_status untie(ot_trainer *t, ot_error *err)
{
    ot_plan p;
    int n = 0, made;
    bool option = t->s.untie_auto || t->s.n_untie || t->s.unfold_bn;
    ot_imported *now = NULL;
    OT_TRY(ot_classified(t->m, &t->s, &p, err));
    ot_status s = check_patterns(t, p.graph, err);
    ot_tied *list = s ? NULL : candidates(t, p.graph, t->s.untie_auto || !option, &n);
    ot_graph_free(p.graph);
    if (s) return s;
    if (!list) return no_memory(err);
    OT_TRY(ot_untie(t->m->file, list, n, &made, option ? &now : NULL, err));
    say(t, list, n, option);
    if ((t->s.untie_auto || t->s.n_untie) && !made)
        ot_find(&t->findings, OT_FINDING_WARNING, NULL, NULL,
                "--untie: nothing to untie: no named or trained "
                "initializer is shared because an exporter merged it");
    return now ? ot_trainer_take(t, now, err) : OT_OK;
}

/* ---- biases for --unfold-bn ------------------------------------------------------------- */

static ot_status give_biases(ot_trainer *t, ot_error *err)
{
    ot_plan p;
    int n, *list;
    ot_imported *now = NULL;
    if (!t->s.unfold_bn) return OT_OK;
    OT_TRY(ot_classified(t->m, &t->s, &p, err));
    list = ot_unfold_without_bias(p.graph, t->m->file->producer, &n);
    ot_status s = list ? ot_give_biases(t->m->file, list, n, &now, err) : no_memory(err);
    ot_graph_free(p.graph);
    if (s || !now) return s;
    ot_find(&t->findings, OT_FINDING_NOTE, NULL, NULL,
            "--unfold-bn: %d convolution%s no bias; the written file has "
            "one, for the folded BatchNormalization",
            n, n > 1 ? "s have" : " has");
    return ot_trainer_take(t, now, err);
}

ot_status ot_trainer_remake(ot_trainer *t, ot_error *err)
{
    OT_TRY(fill(t, err));
    OT_TRY(untie(t, err));
    OT_TRY(give_biases(t, err));
    OT_TRY(ot_trainer_classifiers(t, err));
    return ot_trainer_adapt(t, err);
}
