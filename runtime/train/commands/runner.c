/* runner.c - runs a model as its file has it, on whole arrays: once (ot_run), or again and again (ot_runner).
 *
 * An application is a model planned for inputs of certain types and shapes.  A runner keeps the last few, so that a run with
 * shapes that it knows copies the inputs, runs, and copies the outputs.  Where sizes come from the values of the inputs
 * themselves, or inputs are sequences or optional, an application is good for one run only. */
#include <stdlib.h>
#include <string.h>

#include "runtime/train/commands/inspect.h"
#include "runtime/train/commands/runner.h"
#include "runtime/train/run/trainer.h"

enum { MOST_KEPT = 8 };

typedef struct application {
    ot_arena *a;
    ot_dataset d; /* the arrays, whose data are renewed in every run */
    ot_model cut; /* the model for these inputs: another than the caller's where some are sequences or optional */
    bool cuts;
    ot_dataset fed;
    ot_feeders fs;
    ot_session x;
    int slot;
    bool open, once;
    int64_t used; /* the runner's count of runs at the last one */
} application;

struct ot_runner {
    ot_arena *a;
    const ot_model *m;
    ot_settings s;
    application *kept[MOST_KEPT];
    int n;
    int64_t runs;
};

/* ---- results ---------------------------------------------------------------------- */

void ot_tensors_free(ot_tensors *ts)
{
    if (!ts) return;
    if (ts->owner) ot_arena_free(ts->owner);
    *ts = (ot_tensors){ 0 };
}

/* A sequence is there by its elements: NAME/0 ... */
static bool is_spread(const ot_plan *p, const ot_value *v)
{
    size_t n = strlen(v->name);
    for (int i = 0; i < p->n_spread; i++)
        if (!strncmp(p->spread[i], v->name, n) && p->spread[i][n] == '/' && !strchr(p->spread[i] + n + 1, '/'))
            return true;
    return false;
}

/* ---- messages --------------------------------------------------------------------- */

static void say_lines(const ot_callbacks *cb, const char *lines, ot_arena *a)
{
    while (cb && cb->message && *lines) {
        size_t n = strcspn(lines, "\n");
        const char *one = ot_arena_printf(a, "%.*s", (int)n, lines);
        if (one) cb->message(cb->user, OT_INFO, one);
        lines += n + (lines[n] == '\n');
    }
}

/* In training mode the outputs of a sample depend on the other samples of the batch, or on random numbers. */
static ot_status say_modes(const ot_model *m, const ot_settings *s, ot_arena *a, const ot_callbacks *cb, ot_error *err)
{
    ot_plan p;
    ot_findings f = { .a = a };
    ot_review r = { .findings = &f, .eval = true };
    if (s->options.eval_mode || !cb || !cb->message) return OT_OK;
    OT_TRY(ot_classified(m, s, &p, err));
    ot_review_graph(p.graph, m->file->producer, &r);
    ot_graph_free(p.graph);
    if (r.norms)
        cb->message(cb->user, OT_WARNING,
                    "BatchNormalization has training_mode=1 in the file: it uses the batch "
                    "statistics of --data; use --mode eval for the running statistics");
    if (r.dropouts)
        cb->message(cb->user, OT_WARNING,
                    "Dropout has training_mode=true in the file: elements are dropped at "
                    "random; use --mode eval to disable it");
    return OT_OK;
}

static void say_left_out(const ot_callbacks *cb, const ot_value *v, ot_arena *a)
{
    const char *line = ot_arena_printf(a, "output '%s' is omitted: %s", v->name, v->left_out);
    if (cb && cb->message && line) cb->message(cb->user, OT_WARNING, line);
}

static void say_warnings(const ot_callbacks *cb, const ot_plan *p, ot_arena *a)
{
    for (int i = 0; i < p->findings.n && cb && cb->message; i++) {
        const char *line =
            p->findings.list[i].severity == OT_FINDING_WARNING ? ot_finding_line(&p->findings.list[i], a) : NULL;
        if (line) cb->message(cb->user, OT_WARNING, line);
    }
}

/* ---- an application --------------------------------------------------------------- */

/* Sizes may come from data: a plan with everything known.  The first failure is the one to tell. */
static ot_status plan_for_bytes(application *p, ot_error *err)
{
    ot_session *x = &p->x;
    ot_error again = { 0 };
    ot_status s = OT_OK;
    p->once = true;
    for (int i = 0; i < p->fs.n && !s; i++) {
        s = ot_feeder_prepare(&p->fs.f[i], 1, x->a, &again);
        p->fs.f[i].known = !s;
    }
    if (!s) s = ot_session_plan(x, OT_WANT_RUN, &p->fs, 1, 1, &p->slot, &again);
    if (s == OT_E_MODEL) {
        ot_error third = { 0 };
        x->partial = true;
        s = ot_session_plan(x, OT_WANT_RUN, &p->fs, 1, 1, &p->slot, &third);
    }
    if (!s) *err = (ot_error){ 0 };
    if (s == OT_E_DATA) *err = again; /* with these data it is they that do not fit */
    return s ? err->status : OT_OK;
}

/* settled: there will be more runs.  What was planned is allocated, and the arrays of d are in place.  Close it also after an error. */
static ot_status open_application(application *p, const ot_model *m, const ot_settings *s, const ot_dataset *d,
                                  bool settled, const ot_callbacks *cb, ot_error *err)
{
    const char *notes = "";
    ot_normalize z;
    ot_error e1 = { 0 };
    OT_TRY(ot_model_fill(m, d, p->a, &p->cut, &p->fed, err));
    p->cuts = p->once = p->cut.file != m->file;
    ot_adapt_env e = {
        .graph = p->cut.file->graph, .s = s, .normalize = &z, .as_is = true, .a = p->a, .notes = &notes
    };
    OT_TRY(ot_normalize_parse(s->normalize, &z, err));
    OT_TRY(say_modes(&p->cut, s, p->a, cb, err));
    OT_TRY(ot_adapt_inputs(&e, &p->fed, &p->fs, err));
    ot_adapt_idle(&e, &p->fs);
    say_lines(cb, notes, p->a);
    ot_status r = ot_session_open(&p->x, &p->cut, s, NULL, &e1);
    p->open = r == OT_OK;
    p->x.fixed = p->x.settled = settled;
    if (!r) r = ot_session_plan(&p->x, OT_WANT_RUN, &p->fs, 1, 1, &p->slot, &e1);
    if (r == OT_E_MODEL) r = plan_for_bytes(p, &e1);
    if (r) return ot_fail(err, r, "%s", e1.text);
    return ot_session_allocate(&p->x, err);
}

static void close_application(application *p)
{
    if (p->open) ot_session_close(&p->x);
    if (p->cuts) ot_model_cut_drop(&p->cut);
}

static ot_status run_application(application *p, const ot_model *m, const ot_callbacks *cb, ot_tensors *out,
                                 ot_error *err)
{
    ot_numbers ignored;
    OT_TRY(ot_session_batch(&p->x, p->slot, NULL, &ignored, err));
    const ot_plan *plan = p->x.slot[p->slot].plan;
    const ot_graph *g = plan->graph;
    int own = m->file->graph->n_outputs;
    say_warnings(cb, plan, p->a);
    out->t = ot_arena_alloc(out->owner, sizeof *out->t * (size_t)(g->n_outputs + 1));
    if (!out->t) return ot_fail(err, OT_E_NOMEM, "no memory for the outputs");
    for (int i = 0; i < g->n_outputs; i++) {
        const ot_value *v = g->outputs[i];
        if (v->left_out && is_spread(plan, v)) continue;
        if (v->left_out) say_left_out(cb, v, p->a);
        else
            OT_TRY(ot_tensor_of(out->owner, i < own ? m->outputs[i] : plan->spread[i - own], p->x.slot[p->slot].exec, v,
                                &out->t[out->n++], err));
    }
    return OT_OK;
}

static ot_status begin_results(ot_tensors *out, ot_error *err)
{
    *out = (ot_tensors){ .owner = ot_arena_new() };
    return out->owner ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the outputs");
}

/* ---- once ------------------------------------------------------------------------- */

ot_status ot_run_arrays(const ot_model *m, const ot_options *o, const ot_dataset *d, const ot_callbacks *cb,
                        ot_tensors *out, ot_error *err)
{
    ot_settings s;
    application p = { .a = ot_arena_new() };
    ot_error first = { 0 };
    ot_status r = p.a ? begin_results(out, &first) : ot_fail(&first, OT_E_NOMEM, "no memory to run the model");
    if (!r) r = ot_settings_read(o, m->outputs, p.a, &s, &first);
    if (!r) r = open_application(&p, m, &s, d, false, cb, &first);
    if (!r) r = run_application(&p, &p.cut, cb, out, &first);
    close_application(&p);
    ot_arena_free(p.a);
    if (!r) return OT_OK;
    ot_tensors_free(out);
    return ot_fail(err, r, "%s", first.text);
}

/* The tensors of a caller as a data set in arena a, whose names are copied and whose data are not. */
static ot_status arrays_of(const ot_tensor *in, int n, ot_arena *a, ot_dataset *d, ot_error *err)
{
    ot_array *list = ot_arena_alloc(a, sizeof *list * ((size_t)n + 1));
    for (int i = 0; list && i < n; i++) {
        for (int k = 0; k < i; k++)
            if (!strcmp(in[i].name, in[k].name))
                return ot_fail(err, OT_E_DATA, "tensor '%s' is given twice", in[i].name);
        list[i] = (ot_array){ .t = in[i], .whole = true };
        list[i].t.name = ot_arena_strdup(a, in[i].name);
        if (!list[i].t.name) list = NULL;
    }
    *d = (ot_dataset){ .name = "the call", .n = n, .array = list };
    return list ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory to run the model");
}

ot_status ot_run(const ot_model *m, const ot_options *o, const ot_tensor *in, int n, ot_tensors *out, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(out);
    *out = (ot_tensors){ 0 };
    OT_GIVEN(m);
    OT_GIVEN(o);
    OT_TRY(ot_tensors_given(in, n, err));
    ot_arena *a = ot_arena_new();
    if (!a) return ot_fail(err, OT_E_NOMEM, "no memory to run the model");
    ot_dataset d;
    ot_status s = arrays_of(in, n, a, &d, err);
    if (!s) s = ot_run_arrays(m, o, &d, NULL, out, err);
    ot_arena_free(a);
    return s;
}

/* ---- again and again -------------------------------------------------------------- */

static void drop(application *p)
{
    if (!p) return;
    close_application(p);
    ot_arena_free(p->a); /* p is in it */
}

ot_status ot_runner_new(const ot_model *m, const ot_options *o, ot_runner **out, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(out);
    *out = NULL;
    OT_GIVEN(m);
    OT_GIVEN(o);
    ot_arena *a = ot_arena_new();
    ot_runner *r = a ? ot_arena_alloc(a, sizeof *r) : NULL;
    ot_error first = { 0 };
    ot_status s = OT_OK;
    if (!r) s = ot_fail(&first, OT_E_NOMEM, "no memory for a runner");
    else *r = (ot_runner){ .a = a, .m = m };
    if (!s) s = ot_settings_read(o, m->outputs, a, &r->s, &first);
    if (s) ot_arena_free(a);
    else *out = r;
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}

void ot_runner_free(ot_runner *r)
{
    if (!r) return;
    for (int i = 0; i < r->n; i++) drop(r->kept[i]);
    ot_arena_free(r->a); /* r is in it */
}

static bool is_like(const ot_tensor *a, const ot_tensor *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank && !strcmp(a->name, b->name);
    for (int i = 0; same && i < a->rank; i++) same = a->dim[i] == b->dim[i];
    return same;
}

/* The application for inputs like these, by its place; -1: there is none. */
static int find(const ot_runner *r, const ot_tensor *in, int n)
{
    for (int i = 0; i < r->n; i++) {
        const ot_dataset *d = &r->kept[i]->d;
        bool same = d->n == n;
        for (int k = 0; same && k < n; k++) same = is_like(&d->array[k].t, &in[k]);
        if (same) return i;
    }
    return -1;
}

static ot_status make(ot_runner *r, const ot_tensor *in, int n, application **out, ot_error *err)
{
    ot_arena *a = ot_arena_new();
    application *p = a ? ot_arena_alloc(a, sizeof *p) : NULL;
    if (!p) {
        if (a) ot_arena_free(a);
        return ot_fail(err, OT_E_NOMEM, "no memory to run the model");
    }
    *p = (application){ .a = a };
    ot_status s = arrays_of(in, n, a, &p->d, err);
    if (!s) s = open_application(p, r->m, &r->s, &p->d, true, NULL, err);
    if (s) drop(p);
    else *out = p;
    return s;
}

/* Gives the application other arrays. */
static ot_status renew(application *p, const ot_tensor *in, ot_error *err)
{
    for (int i = 0; i < p->d.n; i++) p->d.array[i].t.data = in[i].data;
    return ot_session_renew(&p->x, &p->fs, err);
}

/* Where the next application goes: a free place, or that of the one that was not used for the longest time. */
static int place(ot_runner *r)
{
    if (r->n < MOST_KEPT) return r->n++;
    int oldest = 0;
    for (int i = 1; i < r->n; i++)
        if (r->kept[i]->used < r->kept[oldest]->used) oldest = i;
    drop(r->kept[oldest]);
    return oldest;
}

ot_status ot_runner_run(ot_runner *r, const ot_tensor *in, int n, ot_tensors *out, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(out);
    *out = (ot_tensors){ 0 };
    OT_GIVEN(r);
    OT_TRY(ot_tensors_given(in, n, err));
    ot_error first = { 0 };
    int at = find(r, in, n);
    application *p = at < 0 ? NULL : r->kept[at];
    ot_status s = p ? renew(p, in, &first) : make(r, in, n, &p, &first);
    if (!s) s = begin_results(out, &first);
    if (!s) s = run_application(p, &p->cut, NULL, out, &first);
    bool keep = !s && !p->once;
    if (keep && at < 0) r->kept[place(r)] = p;
    if (keep) p->used = ++r->runs;
    if (!keep && at >= 0) r->kept[at] = r->kept[--r->n]; /* what a failed run leaves is not used again */
    if (!keep) drop(p);
    if (!s) return OT_OK;
    ot_tensors_free(out);
    return ot_fail(err, s, "%s", first.text);
}
