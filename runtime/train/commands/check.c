/* check.c - the commands check and plan: describe a training without running it. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/kernels/fused.h"
#include "runtime/train/commands/inspect.h"
#include "runtime/train/run/file_training.h"
#include "runtime/train/run/nodes.h"
#include "runtime/train/commands/trial.h"
#include "runtime/train/run/unfold.h"

/* A training that was planned, with data or without. */
typedef struct planned {
    ot_trainer *t; /* with data */
    ot_dry_run r;  /* without */
    const ot_plan *plan;
    int64_t batch;
    ot_tried tried; /* check alone */
} planned;

static void drop(planned *p)
{
    ot_plan_free(p->r.plan);
    ot_trainer_free(p->t);
}

static ot_status make(const ot_model *m, const ot_options *o, planned *p, ot_error *err)
{
    *p = (planned){ 0 };
    OT_TRY(ot_trainer_begin(m, o, NULL, &p->t, err));
    ot_trainer *t = p->t;
    if (t->s.folds && !t->s.fold)
        return ot_fail(err, OT_E_USAGE, "--folds %d trains several models; use one of them, such as --folds 1/%d",
                       t->s.folds, t->s.folds);
    if (t->s.training_info && !t->s.data)
        return ot_fail(err, OT_E_USAGE, "--training-info needs --data, because it describes a training on it");
    OT_TRY(ot_trainer_open_teacher(t, err));
    OT_TRY(ot_trainer_use_file_training(t, err));
    ot_status reviewed = ot_trainer_review(t, false, err), s;
    if (reviewed && reviewed != OT_E_MODEL) return reviewed;
    if (t->s.data) {
        s = ot_trainer_open(t, err);
        if (!s) s = ot_trainer_explain(t, ot_trainer_plan(t, err), err);
        if (!s) {
            p->plan = t->x.slot[t->x.lead].plan;
            p->batch = t->batch;
        }
        return s ? s : reviewed;
    }
    OT_TRY(ot_trainer_unfold(t, false, err));
    t->s.options.swa_every = t->s.swa > 0; /* the plan is that of any interval */
    m = t->m;
    ot_error why = { 0 };
    if (!t->file_training.used)
        (void)ot_dry_run_together(m, &t->s, t->a, &t->findings, &why); /* what does not go there does not go below */
    why = (ot_error){ 0 };
    s = ot_dry_run_plan(m, &t->s, t->x.device, t->a, &p->r, &why);
    if (s == OT_E_MODEL && t->x.device && t->s.device == OT_DEVICE_AUTO) { /* as a training would */
        ot_error ignored = { 0 };
        s = ot_dry_run_plan(m, &t->s, NULL, t->a, &p->r, &ignored);
        if (!s) t->x.device_line = "device: cpu";
        else s = why.status;
    }
    if (s && ot_trainer_explain(t, s, &why)) ot_fail(err, s, "%s", why.text);
    p->plan = p->r.plan;
    p->batch = p->r.batch;
    if (!s) s = ot_trainer_join(t, p->plan, err);
    if (!s && t->s.memory_limit && p->r.bytes > t->s.memory_limit)
        s = ot_limit_exceeded(p->r.bytes, t->s.memory_limit, err);
    if (!s) ot_limit_note(&t->findings, p->plan, p->r.unlimited, t->s.memory_limit);
    return s ? s : reviewed;
}

/* ---- check -------------------------------------------------------------------------- */

static void print_lines(FILE *f, const char *before, const char *lines)
{
    while (lines && *lines) {
        size_t n = strcspn(lines, "\n");
        ot_print(f, "  %s%.*s\n", before, (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

static void print_findings(ot_page *p, const char *before, const ot_findings *f, ot_severity s)
{
    const char *text = ot_findings_text(f, s);
    if (text) print_lines(p->f, before, text);
    else p->lost = true;
}

static int64_t parameters(const ot_plan *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_weights; i++) n += ot_numel(&p->weights[i]->shape);
    return n;
}

/* Returns NULL without memory. */
static json_t *json_findings(const ot_findings *f, const ot_error *found)
{
    json_t *list = f->lost ? NULL : json_array(), *errors = ot_json_lines(found->text), *line;
    size_t k;
    json_array_foreach(errors, k, line)
        ot_json_add(&list, json_pack("{s:s, s:O, s:s, s:i, s:[]}", "severity", ot_severity_name(OT_FINDING_ERROR),
                                     "what", line, "remedy", "", "count", 0, "names"));
    if (!errors) ot_json_add(&list, NULL);
    json_decref(errors);
    for (int i = 0; i < f->n; i++) {
        const ot_finding *x = &f->list[i];
        if (x->severity == OT_FINDING_ERROR) continue; /* among the errors */
        json_t *names = json_array();
        for (int n = 0; n < x->n && n < OT_FINDING_NAMES; n++) ot_json_add(&names, ot_json_text(x->name[n]));
        ot_json_add(&list, json_pack("{s:s, s:s, s:s, s:i, s:o}", "severity", ot_severity_name(x->severity), "what",
                                     x->what, "remedy", x->remedy, "count", x->n, "names", names));
    }
    return list;
}

static void print_tried(ot_page *page, const planned *p)
{
    const ot_tried *x = &p->tried;
    if (x->slow > 10)
        ot_print(page->f,
                 "  slow: about %d %% of the work has no fast kernel (%s); see 'onnxtrain plan "
                 "--why'\n",
                 x->slow, x->slow_ops);
    for (int i = 0; i < x->n_memory; i++)
        ot_print(page->f, "%s%.1f MiB with batches of %lld",
                 i ? ", " : "  memory: ", (double)x->memory[i].bytes / (1 << 20), (long long)x->memory[i].batch);
    if (x->n_memory) ot_print(page->f, "\n");
    if (x->step && x->exported)
        ot_print(page->f, "  tested: one training step (loss %.4g%s) and an export\n", x->loss,
                 p->t->s.data ? "" : " on random inputs");
    else ot_print(page->f, "  tried: %s; %s\n", x->step ? "a step" : "nothing", x->why_not);
}

static void json_tried(ot_page *page, const planned *p)
{
    const ot_tried *x = &p->tried;
    json_t *memory = json_array();
    for (int i = 0; i < x->n_memory; i++)
        ot_json_add(&memory, json_pack("{s:I, s:I}", "batch_size", (json_int_t)x->memory[i].batch, "planned_bytes",
                                       (json_int_t)x->memory[i].bytes));
    ot_json_set(&page->json, "initializers", json_integer(p->plan->n_weights));
    ot_json_set(&page->json, "batch_size", json_integer(p->batch));
    ot_json_set(&page->json, "memory", memory);
    ot_json_set(&page->json, "slow",
                json_pack("{s:i, s:o}", "percent", x->slow, "operators", ot_json_text(x->slow_ops)));
    ot_json_set(&page->json, "tried",
                json_pack("{s:b, s:b, s:o, s:o}", "step", x->step, "export", x->exported, "loss",
                          isfinite(x->loss) && x->step ? json_real(x->loss) : json_null(), "why_not",
                          ot_json_text(x->why_not)));
}

static ot_status write_check(const ot_model *m, const planned *p, bool json, const ot_error *found, char **text,
                             ot_error *err)
{
    ot_page page;
    bool fine = !found->status;
    OT_TRY(ot_page_open(&page, json, err));
    const ot_findings none = { 0 }, *f = p->t ? &p->t->findings : &none;
    const char *adapted = p->t ? p->t->notes : "";
    if (json) {
        ot_json_set(&page.json, "model", ot_json_text(m->file->path));
        ot_json_set(&page.json, "trainable", json_boolean(fine));
        ot_json_set(&page.json, "findings", json_findings(f, found));
        json_t *notes = ot_json_lines(p->r.assumed), *data = ot_json_lines(adapted);
        if (json_array_extend(notes, data)) page.lost = true;
        json_decref(data);
        ot_json_set(&page.json, "notes", notes);
        if (fine) ot_json_set(&page.json, "trained", json_integer(parameters(p->plan)));
        if (fine) json_tried(&page, p);
        return ot_page_close(&page, text, err);
    }
    ot_print(page.f, "%s: opset %lld, %d nodes, %d tensors\n", m->file->path, (long long)m->file->opset,
             m->file->graph->n_nodes, m->file->n_sources);
    if (fine)
        ot_print(page.f, "trainable: %lld parameters in %d initializer%s\n", (long long)parameters(p->plan),
                 p->plan->n_weights, p->plan->n_weights == 1 ? "" : "s");
    if (!fine) ot_print(page.f, "cannot be trained\n"); /* why is the error of the call */
    print_findings(&page, "warning: ", f, OT_FINDING_WARNING);
    print_lines(page.f, "", p->r.assumed);
    print_lines(page.f, "", adapted);
    print_findings(&page, "", f, OT_FINDING_NOTE);
    if (fine) print_tried(&page, p);
    return ot_page_close(&page, text, err);
}

ot_status ot_check_text(const ot_model *m, const ot_options *o, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    OT_GIVEN(m);
    OT_GIVEN(o);
    planned p;
    ot_error found = { 0 };
    *text = NULL;
    ot_status s = make(m, o, &p, &found);
    if (!s && !p.plan->n_weights && !p.plan->own)
        s = ot_fail(&found, OT_E_MODEL, "no initializer can be trained; see 'onnxtrain inspect'");
    if (!s) s = ot_try(p.t, p.r.plan ? &p.r : NULL, &p.tried, &found);
    /* Wrong options and missing files are not findings about the model. */
    if (!s || s == OT_E_MODEL || s == OT_E_DATA) {
        ot_error w = { 0 };
        bool json = p.t && p.t->s.json;
        if (write_check(m, &p, json, &found, text, &w) && !s) s = ot_fail(&found, w.status, "%s", w.text);
    }
    if (s) ot_fail(err, s, "%s", found.text);
    drop(&p);
    return s;
}

/* ---- plan ------------------------------------------------------------------------------ */

static void print_why(FILE *f, const ot_step *s)
{
    if (s->tuned > 0) ot_print(f, "%6s   %s: tuned, %.1f us\n", "", s->kernel->name, s->tuned * 1e6);
    if (*s->how) ot_print(f, "%6s   %s: %s\n", "", s->kernel->name, s->how);
    if (s->group > 1)
        ot_print(f, "%6s   %s: one launch together with the next %d steps\n", "", s->kernel->name, s->group - 1);
    for (int i = 0; i < s->n_refused; i++)
        ot_print(f, "%6s   not %s: %s\n", "", s->refused[i].kernel->name,
                 s->refused[i].why ? s->refused[i].why : "no reason given");
}

static void write_steps(ot_page *p, const ot_step *list, int n, const char *phase, bool why, json_t **all)
{
    char shape[128], title[48];
    for (int i = 0; i < n; i++) {
        const ot_step *s = &list[i];
        const char *op = ot_node_title(s->node, title);
        const ot_value *y = s->node->n_out ? s->node->out[0] : NULL;
        const char *kernel = s->kernel ? s->kernel->name : "-", *of = y ? ot_shape_text(&y->shape, shape) : "";
        if (p->f) {
            ot_print(p->f, "%6d  %-7s %-16s %-8s %-18s %s\n", i, s->node->again ? "again" : phase, op, kernel, of,
                     s->node->name);
            if (why && s->kernel) print_why(p->f, s);
        } else {
            ot_json_add(all, json_pack("{s:s, s:b, s:s, s:s, s:s, s:s, s:o}", "phase", phase, "recomputed",
                                       s->node->again, "operator", op, "kernel", kernel, "how", s->how, "shape", of,
                                       "node", ot_json_text(s->node->name)));
        }
    }
}

/* Writes operations, bytes and memory at the peak by node of the file. */
static void write_nodes(ot_page *p, const ot_node_table *t)
{
    json_t *list = p->f ? NULL : json_array();
    double flops = 0;
    if (p->f)
        ot_print(p->f, "\n%-28s %-16s %10s %10s %10s %10s %10s  %s\n", "node", "operator", "MFLOP fwd", "backward",
                 "update", "MiB moved", "MiB peak", "kernels");
    for (int i = 0; i < t->n; i++) {
        const ot_node_row *r = &t->row[i];
        flops += ot_node_sum(r->flops);
        if (p->f) {
            ot_print(p->f, "%-28s %-16s %10.3f %10.3f %10.3f %10.3f %10.3f  %s\n", r->name, r->op, r->flops[0] / 1e6,
                     r->flops[1] / 1e6, r->flops[2] / 1e6, ot_node_sum(r->bytes) / (1 << 20),
                     (double)r->held / (1 << 20), r->kernels);
            continue;
        }
        json_t *one = json_pack("{s:o, s:s, s:s, s:i, s:I}", "node", ot_json_text(r->name), "operator", r->op,
                                "kernels", r->kernels, "steps", r->steps, "peak_bytes", (json_int_t)r->held);
        for (int k = 0; k < OT_STAGES; k++) {
            char flop_key[32], byte_key[32];
            snprintf(flop_key, sizeof flop_key, "%s_flops", ot_stage_names[k]);
            snprintf(byte_key, sizeof byte_key, "%s_bytes", ot_stage_names[k]);
            ot_json_set(&one, flop_key, json_real(r->flops[k]));
            ot_json_set(&one, byte_key, json_real(r->bytes[k]));
        }
        ot_json_add(&list, one);
    }
    if (!p->f) {
        ot_json_set(&p->json, "nodes", list);
        ot_json_set(&p->json, "peak_live_bytes", json_integer(t->peak));
        return;
    }
    ot_print(p->f, "%.3f GFLOP for one batch and its update\n", flops / 1e9);
}

/* Writes the step with the largest activations, and the nodes that keep most of them. */
static void write_peak(ot_page *p, const ot_plan *q, const ot_node_table *t, ot_arena *a)
{
    enum { NAMED = 5 };
    int n;
    const ot_node_row **held = ot_node_table_held(t, a, &n);
    p->lost |= !held;
    if (!held || !t->n_steps || !t->peak) return;
    const ot_node_row *at = &t->row[t->of[t->peak_step]];
    ot_print(p->f, "peak of the activations: %.3f MiB, in %s of %s; held by", (double)t->peak / (1 << 20),
             ot_stage_names[ot_plan_step(q, t->peak_step)->node->stage], at->name);
    for (int k = 0; k < NAMED && k < n; k++)
        ot_print(p->f, "%s %s %.0f %%", k ? "," : "", held[k]->name, 100 * (double)held[k]->held / (double)t->peak);
    ot_print(p->f, "\n");
}

/* Counts the kernels that run (a group of steps is one), and the bytes that they read and write. */
static int kernels_of(const ot_step *s, int n, double *bytes)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (!ot_step_runs(&s[i])) continue;
        count += s[i].group != 0;
        *bytes += ot_node_bytes(s[i].node);
    }
    return count;
}

static ot_status write_plan(const ot_model *m, const planned *p, char **text, ot_error *err)
{
    ot_page page;
    const ot_plan *q = p->plan;
    const ot_settings *s = &p->t->s;
    double mib = 1 << 20, moved = 0;
    int batch = kernels_of(q->batch_steps, q->n_batch_steps, &moved);
    int update = kernels_of(q->update_steps, q->n_update_steps, &moved);
    ot_node_table nodes;
    OT_TRY(ot_node_table_new(p->t->m->file->graph, q, p->t->a, &nodes, err));
    OT_TRY(ot_page_open(&page, s->json, err));
    json_t *steps = s->json ? json_array() : NULL;
    if (s->json || s->why || s->verbose) {
        write_steps(&page, q->batch_steps, q->n_batch_steps, "batch", s->why, &steps);
        write_steps(&page, q->update_steps, q->n_update_steps, "update", s->why, &steps);
    }
    write_nodes(&page, &nodes);
    int64_t planned_bytes = s->data ? p->t->planned : ot_tried_bytes(p->t, q);
    if (s->json) {
        ot_json_set(&page.json, "model", ot_json_text(m->file->path));
        ot_json_set(&page.json, "device", ot_json_text(p->t->x.device_line));
        ot_json_set(&page.json, "batch_size", json_integer(p->batch));
        ot_json_set(&page.json, "kernels_per_batch", json_integer(batch));
        ot_json_set(&page.json, "kernels_per_update", json_integer(update));
        ot_json_set(&page.json, "moved_bytes", json_real(moved));
        ot_json_set(&page.json, "state_bytes", json_integer(q->state_bytes));
        ot_json_set(&page.json, "scratch_bytes", json_integer(q->scratch_bytes));
        ot_json_set(&page.json, "const_bytes", json_integer(q->const_bytes));
        ot_json_set(&page.json, "planned_bytes", json_integer(planned_bytes));
        ot_json_set(&page.json, "steps", steps);
        ot_json_set(&page.json, "findings", json_findings(&p->t->findings, &(ot_error){ 0 }));
        return ot_page_close(&page, text, err);
    }
    ot_print(page.f, "\nbatch size %lld: %d kernels per batch, %d per update; they read and write %.3f MiB\n",
             (long long)p->batch, batch, update, moved / mib);
    print_lines(page.f, "", p->t->x.device_line);
    print_findings(&page, "warning: ", &p->t->findings, OT_FINDING_WARNING);
    print_lines(page.f, "", p->r.assumed);
    print_findings(&page, "", &p->t->findings, OT_FINDING_NOTE);
    ot_print(page.f, "weights and state  %12.3f MiB\n", (double)q->state_bytes / mib);
    ot_print(page.f, "activations        %12.3f MiB\n", (double)q->scratch_bytes / mib);
    ot_print(page.f, "constants          %12.3f MiB\n", (double)q->const_bytes / mib);
    write_peak(&page, q, &nodes, p->t->a);
    ot_print(page.f, "total planned      %12.3f MiB%s\n", (double)planned_bytes / mib,
             s->data ? ", including the data" : "");
    return ot_page_close(&page, text, err);
}

ot_status ot_plan_text(const ot_model *m, const ot_options *o, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    OT_GIVEN(m);
    OT_GIVEN(o);
    planned p;
    ot_error first = { 0 };
    *text = NULL;
    ot_status s = make(m, o, &p, &first);
    if (!s) s = write_plan(m, &p, text, &first);
    drop(&p);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}
