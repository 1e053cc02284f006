/* findings.c - collects the findings about the model and its plans, and prints them. */

#include <string.h>

#include "runtime/train/run/dry_run.h"
#include "runtime/train/run/file_training.h"
#include "runtime/train/run/trainer.h"

static ot_status no_memory(ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM,
                   "no memory for the findings about the "
                   "model");
}

ot_status ot_trainer_review(ot_trainer *t, bool eval, ot_error *err)
{
    ot_plan p;
    t->findings = (ot_findings){ .a = t->a };
    t->review = (ot_review){ .findings = &t->findings, .eval = eval, .unfolds = t->s.unfold_bn };
    t->review.part = t->file_training.used || t->cut.file;
    if (!eval && !t->file_training.used) OT_TRY(ot_trainer_remake(t, err));
    OT_TRY(ot_classified(t->m, &t->s, &p, err));
    if (!eval) ot_find_lines(&t->findings, OT_FINDING_NOTE, t->m->file->notes); /* about its export, for training */
    if (!eval) ot_trainer_note_file_training(t);
    ot_review_graph(p.graph, t->m->file->producer, &t->review);
    ot_graph_free(p.graph);
    const char *errors = ot_findings_text(&t->findings, OT_FINDING_ERROR);
    if (!errors) return no_memory(err);
    return *errors ? ot_fail(err, OT_E_MODEL, "%s", errors) : OT_OK;
}

ot_status ot_trainer_explain(const ot_trainer *t, ot_status s, ot_error *err)
{
    const ot_review *r = &t->review;
    if (s != OT_E_MODEL || r->weights || !(r->quantised || t->m->file->fixed)) return s;
    *err = (ot_error){ 0 };
    if (!r->quantised)
        return ot_fail(err, s,
                       "nothing to train: %s have no gradient. Fit them again in the program that created the "
                       "model; linear models and networks can be trained here",
                       t->m->file->fixed);
    return ot_fail(err, s, "nothing to train: %s %d weights of the model %s quantised: %s",
                   r->quantised > 1 ? "all" : "the", r->quantised, r->quantised > 1 ? "are" : "is",
                   ot_remedy_quantised);
}

/* A tenth is much less than what a network has in weights, and more than what a few norms left in floats have. */
static void warn_of_little(ot_trainer *t, const ot_plan *p)
{
    int64_t trained = 0, all = t->review.quantised_elements;
    if (t->s.options.n_train || t->s.options.n_freeze || t->s.options.n_only) return; /* as asked */
    for (int i = 0; i < p->n_weights; i++) {
        trained += ot_numel(&p->weights[i]->shape);
        if (p->weights[i]->stored) all += ot_numel(&p->weights[i]->shape);
    }
    for (int i = 0; i < t->m->file->n_sources; i++)
        if (ot_is_float(t->m->file->sources[i].dtype)) all += ot_numel(&t->m->file->sources[i].shape);
    if (trained < all / 10)
        ot_find(&t->findings, OT_FINDING_WARNING, NULL,
                "see 'onnxtrain inspect' for the reasons; use --train PATTERN "
                "to train initializers by name",
                "almost nothing is trained: %lld of %lld parameters", (long long)trained, (long long)all);
}

ot_status ot_trainer_join(ot_trainer *t, const ot_plan *p, ot_error *err)
{
    if (p->n_weights && !t->file_training.used) warn_of_little(t, p);
    ot_find_all(&t->findings, &p->findings);
    for (int i = 0; i < t->x.n; i++) {
        const ot_findings *f = &t->x.slot[i].plan->findings;
        for (int k = 0; k < f->n; k++)
            if (f->list[k].severity == OT_FINDING_WARNING)
                ot_find_all(&t->findings, &(ot_findings){ .n = 1, .list = &f->list[k] });
    }
    return t->findings.lost ? no_memory(err) : OT_OK;
}

void ot_trainer_say_findings(const ot_trainer *t, bool all)
{
    ot_trainer_say_lines(t, OT_WARNING, ot_findings_text(&t->findings, OT_FINDING_WARNING));
    if (all) ot_trainer_say_lines(t, OT_INFO, ot_findings_text(&t->findings, OT_FINDING_NOTE));
}
