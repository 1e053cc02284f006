/* loop.c - runs a training: epochs, evaluation, log, run folder, the best model. */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/run/checkpoint.h"
#include "runtime/train/run/detail.h"
#include "runtime/train/run/events.h"
#include "runtime/train/run/histograms.h"
#include "runtime/train/options/metrics.h"
#include "runtime/train/run/nodes.h"
#include "runtime/train/run/profile.h"
#include "runtime/train/run/report.h"
#include "runtime/train/run/device.h"
#include "runtime/train/run/trainer.h"

/* ---- log ------------------------------------------------------------------------------ */

json_t *ot_options_json(const ot_options *o)
{
    json_t *all = json_object();
    const ot_option_info *row;
    for (int i = 0; (row = ot_option_at(i)); i++) {
        int n = ot_options_count(o, row->name);
        if (n == 1) ot_json_set(&all, row->name, ot_json_text(ot_options_nth(o, row->name, 0)));
        if (n < 2) continue;
        json_t *list = json_array();
        for (int k = 0; k < n; k++) ot_json_add(&list, ot_json_text(ot_options_nth(o, row->name, k)));
        ot_json_set(&all, row->name, list);
    }
    return all;
}

static void log_resume(ot_trainer *t)
{
    const char *slash = strrchr(t->resumed, '/');
    ot_log_write(&t->log, json_pack("{s:s, s:s, s:I, s:I, s:s, s:o, s:s, s:i, s:I}", "event", "resume", "version",
                                    OT_VERSION, "step", (json_int_t)t->step, "epoch", (json_int_t)t->epoch + 1, "file",
                                    slash ? slash + 1 : t->resumed, "options", ot_options_json(t->o), "device",
                                    ot_device_name(&t->s, t->x.device, t->a), "threads", t->x.threads, "steps",
                                    (json_int_t)t->total));
}

/* The planned memory by purpose, in bytes. */
static json_t *memory_by_kind(const ot_trainer *t)
{
    const ot_session *x = &t->x;
    const ot_plan *p = x->slot[x->lead].plan;
    int64_t weights = 0, averages = 0, optimizer = 0, statistics = 0;
    for (int i = 0; i < p->n_states; i++) {
        const ot_value *v = p->states[i];
        *(v->role == OT_WEIGHT          ? &weights
          : v->kind == OT_STATE_AVERAGE ? &averages
          : v->kind == OT_STATE_OF_FILE ? &statistics
                                        : &optimizer) += (int64_t)ot_bytes(&v->shape, v->dtype);
    }
    int64_t sets =
        ot_trainer_set_bytes(t->data) + ot_trainer_set_bytes(t->eval.data) + ot_trainer_set_bytes(t->test.data);
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)weights, "optimizer states",
        (json_int_t)optimizer, "running statistics", (json_int_t)statistics, "averaged weights", (json_int_t)averages,
        "activations and gradients", (json_int_t)x->scratch_bytes, "data", (json_int_t)sets, "model file",
        (json_int_t)(t->m->bytes + (t->taught_by ? t->taught_by->bytes : 0)), "constants", (json_int_t)x->const_bytes);
}

/* Where the memory of activations, gradients and workspaces is largest, and the nodes of the file whose results are kept then.
 * NULL: no memory. */
static json_t *memory_at_peak(const ot_trainer *t, ot_arena *a)
{
    enum { MOST_NODES = 40 };
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    ot_node_table table;
    ot_error e = { 0 };
    int n;
    if (ot_node_table_new(t->x.model->file->graph, p, a, &table, &e)) return NULL;
    const ot_node_row **held = ot_node_table_held(&table, a, &n);
    if (!held) return NULL;
    json_t *list = json_array(), *out = json_pack("{s:I, s:i}", "bytes", (json_int_t)table.peak, "count", n);
    for (int i = 0; i < n && i < MOST_NODES; i++)
        ot_json_add(&list, json_pack("{s:o, s:s, s:I}", "node", ot_json_text(held[i]->name), "operator", held[i]->op,
                                     "bytes", (json_int_t)held[i]->held));
    if (table.n_steps) {
        ot_json_set(&out, "node", ot_json_text(table.row[table.of[table.peak_step]].name));
        ot_json_set(&out, "stage", json_string(ot_stage_names[ot_plan_step(p, table.peak_step)->node->stage]));
    }
    ot_json_set(&out, "nodes", list);
    return out;
}

static void log_start(ot_trainer *t)
{
    ot_arena *a = ot_arena_new();
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    int64_t trained = 0, all = 0;
    for (int i = 0; i < p->n_weights; i++) {
        trained += ot_numel(&p->weights[i]->shape);
        if (p->weights[i]->stored) all += ot_numel(&p->weights[i]->shape);
    }
    for (int i = 0; i < t->m->file->n_sources; i++)
        if (ot_is_float(t->m->file->sources[i].dtype)) all += ot_numel(&t->m->file->sources[i].shape);
    const char *device = ot_device_name(&t->s, t->x.device, t->a);
    json_t *e = json_pack("{s:s, s:s, s:o, s:o, s:s*, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "event", "start",
                          "version", OT_VERSION, "model", ot_json_text(t->m->file->path), "options",
                          ot_options_json(t->o), "device", device, "threads", t->x.threads, "precision",
                          ot_precision_name(t->s.options.precision), "parameters", (json_int_t)all, "trained",
                          (json_int_t)trained, "samples", (json_int_t)t->train.samples, "batch_size",
                          (json_int_t)t->batch, "steps", (json_int_t)t->total, "planned_bytes", (json_int_t)t->planned);
    ot_json_set(&e, "memory", memory_by_kind(t));
    ot_json_set(&e, "memory_at_peak", a ? memory_at_peak(t, a) : NULL);
    ot_arena_free(a);
    ot_log_write(&t->log, e);
}

/* "cls 1.2, reg 0.9": the losses v of a plan with several, each divided by n; "": it has one. */
static const char *losses_text(const ot_plan *p, const double *v, double n, char buf[600])
{
    size_t at = 0;
    *buf = '\0';
    for (int k = 0; k < p->n_heads && at < 500; k++)
        at += (size_t)snprintf(buf + at, 600 - at, "%s%.60s %.4g", k ? ", " : "", p->head[k].name, v[k] / n);
    return buf;
}

/* best: the name of the metric in which the epoch is the best so far; NULL: it is not the best. */
static void log_eval(ot_trainer *t, const ot_scored *y, int64_t epoch, const char *best)
{
    json_t *e = json_pack("{s:s, s:I, s:I, s:s, s:I}", "event", "eval", "step", (json_int_t)t->step, "epoch",
                          (json_int_t)epoch, "split", y->split, "samples", (json_int_t)y->fs.samples);
    ot_log_scores(&e, t, y);
    if (t->s.monitor >= 0 && !json_object_get(e, t->s.monitor_name)) { /* of one of several outputs */
        double v = ot_measure_value(t, y, t->s.monitor);
        if (!isnan(v)) ot_json_real(&e, t->s.monitor_name, v);
    }
    if (best) ot_json_set(&e, "best", json_string(best));
    if (best && ot_best_monitor(t)) ot_json_set(&e, "monitor", json_string(ot_best_monitor(t)));
    ot_log_write(&t->log, e);
}

static void log_end(ot_trainer *t)
{
    const ot_result *r = &t->result;
    json_t *e = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "event", "end", "reason", r->reason, "steps",
                          (json_int_t)t->step, "planned_bytes", (json_int_t)r->planned_bytes, "peak_bytes",
                          (json_int_t)r->peak_bytes, "rss_peak", (json_int_t)ot_rss_peak(), "rss_before_model",
                          (json_int_t)t->m->rss_before, "samples", (json_int_t)t->samples);
    ot_json_real(&e, "seconds", r->seconds);
    ot_json_real(&e, "samples_per_second", r->samples_per_second);
    if (t->clock.busy > t->clock.busy_before && (!t->x.device || t->train.loader))
        ot_json_real(&e, "data_wait", t->x.waited / (t->clock.busy - t->clock.busy_before));
    if (!isnan(r->best)) ot_json_real(&e, "best", r->best);
    else ot_json_set(&e, "best", json_null());
    if (!isnan(r->best)) {
        ot_json_set(&e, "best_metric", json_string(r->best_metric));
        ot_json_set(&e, "best_epoch", json_integer(r->best_epoch));
        if (ot_best_monitor(t) && !strcmp(r->best_metric, ot_best_watched(t)))
            ot_json_set(&e, "monitor", json_string(ot_best_monitor(t)));
    }
    ot_json_set(&e, "selected", json_string(t->best.used ? "best" : "last"));
    ot_log_write(&t->log, e);
}

/* ---- the run's folder -------------------------------------------------------------------- */

/* Writes options.conf: the resolved options, with the decisions as comments. */
static char *options_text(const ot_trainer *t)
{
    char *text = NULL, *lines = ot_options_lines(t->o);
    size_t size = 0;
    FILE *f = lines ? open_memstream(&text, &size) : NULL;
    if (f) {
        ot_print(f, OT_FOLDER_MARK "%s; model: %s\n%-s", OT_VERSION, t->m->file->path, lines);
        fprintf(
            f,
            "# resume continues with the options in the newest checkpoint, not with this file\n# threads: %d; samples: %lld; updates: %lld\n",
            t->x.threads, (long long)t->train.samples, (long long)t->total);
        for (const char *p = t->notes; p && *p;) {
            size_t n = strcspn(p, "\n");
            fprintf(f, "# %.*s\n", (int)n, p);
            p += n + (p[n] == '\n');
        }
        if (!ot_memstream_close(f)) {
            free(text);
            text = NULL;
        }
    }
    free(lines);
    return text;
}

static ot_status write_options(const ot_trainer *t, ot_error *err)
{
    char *text = options_text(t);
    if (!text) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    ot_status s = ot_replace_file(t->folder.fd, t->folder.path, "options.conf", text, strlen(text), err);
    free(text);
    return s;
}

static ot_status open_log(ot_trainer *t, int at, const char *path, const char *shown, ot_error *err)
{
    ot_inputs in = ot_trainer_inputs(t);
    int fd;
    if (!shown) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    OT_TRY(ot_output_open_log(&in, at, path, false, shown, &fd, err));
    return ot_log_add(&t->log, fd, shown, err);
}

/* Checks that -o, --log and --deploy are not files that the run itself writes to its folder. */
static ot_status check_names(const ot_trainer *t, ot_error *err)
{
    const char *given[] = { t->s.out, t->s.log, ot_options_get(t->o, "deploy") };
    static const char *const name[] = { "-o", "--log", "--deploy" };
    for (int i = 0; ot_folder_files[i]; i++)
        for (int k = 0; k < OT_LEN(given); k++) {
            const char *path = ot_arena_printf(t->a, "%s/%s", t->s.run_dir, ot_folder_files[i]);
            if (!path) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
            bool log_itself = i == 1 && k == 1;
            if (given[k] && !log_itself && ot_path_same(path, given[k]))
                return ot_fail(err, OT_E_USAGE, "%s %s: the run writes this file itself; use another name", name[k],
                               given[k]);
        }
    return OT_OK;
}

/* The end of the last whole line among the first n bytes of a file; -1: it cannot be read. */
static int64_t last_line(int fd, int64_t n)
{
    char some[4096];
    while (n > 0) {
        size_t want = n < (int64_t)sizeof some ? (size_t)n : sizeof some;
        if (ot_read_at(fd, some, (int64_t)want, n - (int64_t)want) != (int64_t)want) return -1;
        for (size_t i = want; i > 0; i--)
            if (some[i - 1] == '\n') return n - (int64_t)(want - i);
        n -= (int64_t)want;
    }
    return 0;
}

/* The log of the run that continues, up to the checkpoint.  A named file may have been written by another run since: of that, whole
 * lines stay. */
static ot_status reopen_log(ot_trainer *t, int i, int at, const char *path, const char *shown, ot_error *err)
{
    ot_inputs in = ot_trainer_inputs(t);
    int fd;
    struct stat st;
    OT_TRY(ot_output_open_log(&in, at, path, true, shown, &fd, err));
    if (fstat(fd, &st)) {
        ot_status s = ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", shown, strerror(errno));
        close(fd);
        return s;
    }
    if (S_ISREG(st.st_mode)) {
        int64_t known = t->log_bytes[i], size = known < 0 || st.st_size < known ? st.st_size : known,
                end = last_line(fd, size);
        if (end != known) ot_trainer_say(t, OT_WARNING, "%s: does not contain all steps before the checkpoint", shown);
        if (end < 0 || (st.st_size > end && ot_truncate(fd, end)) || lseek(fd, 0, SEEK_END) < 0) {
            ot_status s = ot_fail(err, ot_failed_call(errno), "%s: cannot be continued: %s", shown, strerror(errno));
            close(fd);
            return s;
        }
    }
    return ot_log_add(&t->log, fd, shown, err);
}

static ot_status reopen_folder(ot_trainer *t, ot_error *err)
{
    const char *log = ot_arena_printf(t->a, "%s/log.jsonl", t->folder.path);
    t->result.run_dir = t->folder.path;
    if (!log) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    OT_TRY(reopen_log(t, 0, t->folder.fd, "log.jsonl", log, err));
    if (!t->s.log || ot_path_same(log, t->s.log)) return OT_OK;
    return reopen_log(t, 1, AT_FDCWD, t->s.log, t->s.log, err);
}

/* Refuses options that need a run folder if there is none. */
static void say_unused(const ot_trainer *t)
{
    static const char *const name[] = { "checkpoint-every", "keep", "plots" };
    char list[128] = "";
    int n = 0;
    size_t at = 0;
    for (int i = 0; i < OT_LEN(name); i++)
        if (ot_options_nth(t->o, name[i], 0) && (strcmp(name[i], "plots") || t->s.plots.svg || t->s.plots.png > 0))
            at += (size_t)snprintf(list + at, sizeof list - at, "%s--%s", n++ ? ", " : "", name[i]);
    if (n)
        ot_trainer_say(t, OT_WARNING, "--run-dir none: %s ha%s no effect without a run folder", list,
                       n > 1 ? "ve" : "s");
}

static ot_status open_files(ot_trainer *t, ot_error *err)
{
    if (t->resumed) {
        OT_TRY(reopen_folder(t, err));
        return t->folder.path ? write_options(t, err) : OT_OK; /* it may have been given others */
    }
    const char *asked = t->s.run_dir, *log = NULL, *out = ot_trainer_out(t);
    ot_inputs in = ot_trainer_inputs(t);
    if (out && !access(out, F_OK))
        ot_trainer_say(t, OT_INFO, "%s exists and will be replaced at the end (-o gives another name)", out);
    if (asked && !strcmp(asked, "none")) say_unused(t);
    if (!asked || strcmp(asked, "none")) {
        if (asked) OT_TRY(check_names(t, err));
        OT_TRY(ot_folder_open(asked, &in, t->a, &t->folder, err));
        t->result.run_dir = t->folder.path;
        if (t->folder.moved)
            ot_trainer_say(t, OT_INFO, "%s contained an older run, which was renamed to %s", t->folder.path,
                           t->folder.moved);
        log = ot_arena_printf(t->a, "%s/log.jsonl", t->folder.path);
        if (!log) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
        OT_TRY(open_log(t, t->folder.fd, "log.jsonl", log, err));
        OT_TRY(write_options(t, err));
    }
    if (!t->s.log || (log && ot_path_same(log, t->s.log))) return OT_OK;
    return open_log(t, AT_FDCWD, t->s.log, t->s.log, err);
}

/* --tensorboard: opens the event file, in the run's folder or in the given one. */
static ot_status open_events(ot_trainer *t, ot_error *err)
{
    const char *named = t->s.tensorboard;
    if (!named) return OT_OK;
    if (strcmp(named, "true")) {
        OT_TRY(ot_folder_make(named, "--tensorboard", err));
        return ot_events_open(AT_FDCWD, named, named, &t->log.events, err);
    }
    if (!t->folder.path)
        return ot_fail(
            err, OT_E_USAGE,
            "--tensorboard: the training has no run folder (--run-dir none); give a folder: --tensorboard=DIR");
    const char *shown = ot_arena_printf(t->a, "%s/tensorboard", t->folder.path);
    if (!shown) return ot_fail(err, OT_E_NOMEM, "no memory for the run folder");
    OT_TRY(ot_folder_within(t->folder.fd, "tensorboard", shown, err));
    return ot_events_open(t->folder.fd, "tensorboard", shown, &t->log.events, err);
}

/* options.conf and the log make a folder that of a run.  Where they were deleted, more files would only leave a part of it, which
 * nothing reads. */
bool ot_trainer_has_folder(ot_trainer *t)
{
    static const char *const own[] = { "options.conf", "log.jsonl" };
    struct stat st;
    int missing = 0;
    for (int i = 0; t->folder.path && i < OT_LEN(own); i++)
        missing += fstatat(t->folder.fd, own[i], &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
    if (!missing) return t->folder.path != NULL;
    t->lost = (ot_error){ 0 }; /* what could not be written since then has this cause */
    ot_fail(
        &t->lost, OT_E_IO,
        "%s: the run folder, or the log in it, was deleted during training; the log and the checkpoints of this run "
        "are lost",
        t->folder.path);
    ot_trainer_say(t, OT_WARNING, "%-s; training continues, and no more files are written to it", t->lost.text);
    t->folder.path = t->result.run_dir = t->result.best_path = NULL;
    t->result.checkpoint = 0;
    return false;
}

static ot_status open_folder(ot_trainer *t, ot_error *err)
{
    OT_TRY(open_files(t, err));
    int64_t shown = ot_best_looks(t) ? t->epoch : t->step / t->updates; /* without evaluation at the last update */
    if (t->folder.path)
        OT_TRY(ot_epoch_table_open(&t->table, t->folder.fd, t->folder.path, t->resumed ? shown : 0, err));
    return open_events(t, err);
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* The epoch's mean loss so far; NaN: every update was skipped. */
static double epoch_mean(const ot_trainer *t)
{
    return t->epoch_sum.updates ? t->epoch_sum.loss / (double)t->epoch_sum.updates : (double)NAN;
}

static void report(ot_trainer *t, const ot_update_record *now, bool epoch_ends)
{
    char losses[600];
    const ot_plan *plan = t->x.slot[t->x.lead].plan;
    if (!t->cb.progress) return;
    double done = (double)t->step;
    ot_progress p = {
        .step = t->step,
        .steps = t->total,
        .epoch = now->epoch + 1,
        .epochs = t->epochs,
        .in_epoch = now->in_epoch + 1,
        .of_epoch = t->updates,
        .loss = epoch_mean(t),
        .losses = epoch_ends && plan->n_heads
                      ? losses_text(plan, t->epoch_sum.head, (double)t->epoch_sum.updates, losses)
                      : NULL,
        .accuracy = NAN,
        .rate = t->clock.busy > 0 ? (double)t->samples / t->clock.busy : 0,
        .tokens = t->tokens,
        .seconds = t->clock.seconds,
        .left = done > 0 ? t->clock.seconds / done * (double)(t->total - t->step) : (double)NAN,
        .epoch_ends = epoch_ends,
    };
    t->cb.progress(t->cb.user, &p);
}

/* Whether all numbers of an input are rows of one table: tokens, not categories with a table each. */
static bool is_embedded(const ot_trainer *t, const char *input)
{
    const ot_graph *g = t->m->file->graph;
    for (int i = 0; i < g->n_inputs; i++)
        if (!strcmp(g->inputs[i]->name, input)) return ot_adapt_rows(g, g->inputs[i]) > 0;
    return false;
}

/* The number of tokens of a sample: the length of the longest input that is a sequence of tokens. */
static int64_t count_tokens(const ot_trainer *t)
{
    int64_t most = 0;
    for (int i = 0; i < t->train.n; i++) {
        const ot_feeder *f = &t->train.f[i];
        bool tokens = !f->target && !f->whole && ot_is_int(f->dtype) && f->sample.rank == 1 && is_embedded(t, f->name);
        if (tokens && f->sample.dim[0] > most) most = f->sample.dim[0];
    }
    return most;
}

/* The least seconds between two versions of report.html: at the end of epochs, and within one. */
enum { BETWEEN_EPOCHS = 5, WITHIN_EPOCH = 30 };

/* Writes report.html if the last one is older than `seconds` (0: always).  A failure does not end the training. */
static void write_report(ot_trainer *t, int seconds)
{
    ot_error e = { 0 };
    if (t->written.report < 0 || (seconds && ot_seconds() - t->written.report < seconds) || !ot_trainer_has_folder(t))
        return;
    if (!t->history) t->history = calloc(1, sizeof *t->history);
    ot_status s = t->history ? ot_detail_write(t, &e) : ot_fail(&e, OT_E_NOMEM, "no memory for the report");
    if (!s) s = ot_report_write(t->history, t->folder.fd, t->folder.path, &t->s.plots, &e);
    t->written.report = s ? -1 : ot_seconds();
    if (!s) return;
    ot_trainer_say(t, OT_WARNING, "%-s; training continues", e.text);
    ot_fail(&t->lost, s, "%-s", e.text);
}

/* Reports an epoch after its evaluation (if any): epochs.csv, report.html, callback. */
static void show_epoch(ot_trainer *t, int64_t epoch)
{
    const ot_result *r = &t->result;
    json_t *eval = ot_log_take_eval(&t->log);
    double now = ot_seconds();
    ot_epoch e = { .epoch = epoch + 1,
                   .epochs = t->epochs,
                   .step = t->step,
                   .lr = t->log.lr,
                   .train_loss = epoch_mean(t),
                   .split = eval ? r->split : NULL,
                   .loss = eval ? r->loss : (double)NAN,
                   .accuracy = eval ? r->accuracy : (double)NAN,
                   .seconds = now - t->epoch_began,
                   .best = r->best_epoch == epoch + 1,
                   .metric = r->metric,
                   .value = eval ? r->value : (double)NAN };
    ot_epoch_table_row(&t->table, e.epoch, e.step, e.lr, e.train_loss, eval, t->clock.seconds);
    write_report(t, BETWEEN_EPOCHS);
    if (t->cb.epoch) t->cb.epoch(t->cb.user, &e);
    t->epoch_began = now;
    json_decref(eval);
}

static ot_status update_done(ot_trainer *t, const ot_update_record *now, ot_error *err)
{
    int heads = t->x.slot[t->x.lead].plan->n_heads;
    if (!now->in_epoch) memset(&t->epoch_sum, 0, sizeof t->epoch_sum);
    if (now->skipped) t->skipped++;
    else t->epoch_sum.loss += now->loss, t->epoch_sum.updates++;
    for (int k = 0; k < heads && !now->skipped; k++) t->epoch_sum.head[k] += now->head[k];
    if (t->eval.slot < 0) t->result.loss = epoch_mean(t);
    ot_log_step line = { .step = t->step,
                         .epoch = now->epoch + 1,
                         .samples = now->samples,
                         .loss = now->loss,
                         .lr = now->rate,
                         .grad_norm = now->norm,
                         .seconds = t->clock.seconds,
                         .head = heads ? now->head : NULL,
                         .has_norm = isfinite(now->loss) };
    ot_log_write_step(&t->log, &line);
    if (!now->step) t->first_loss = now->loss;
    if (t->eval.slot < 0 && !ot_trainer_watches_epochs(t) && !now->skipped)
        ot_schedule_feedback(&t->schedule, now->step, now->loss);
    if (isfinite(now->loss) || now->skipped) report(t, now, now->in_epoch + 1 == t->updates || t->step == t->total);
    bool ends = now->in_epoch + 1 == t->updates || t->step == t->total;
    if (!ot_best_looks(t) && ends)
        show_epoch(t, now->epoch); /* updates of later epochs may be in flight: nothing waits for them */
    (void)err;
    return OT_OK;
}

/* Evaluates, logs, and prints the result: "epoch 3: val", or "test" of the written model.  *whole: it was not cancelled. */
static ot_status evaluate_on(ot_trainer *t, ot_scored *e, const char *head, int64_t epoch, bool *whole, ot_error *err)
{
    double before = ot_seconds();
    OT_TRY(ot_trainer_score(t, e, err));
    *whole = !t->cancelled;
    if (!*whole) return OT_OK; /* half an evaluation is none */
    log_eval(t, e, epoch, e == &t->eval && ot_best_is(t, epoch_mean(t)) ? ot_best_watched(t) : NULL);
    t->result.split = e->split;
    t->result.loss = e->loss;
    t->result.accuracy = e->accuracy;
    t->result.value = t->result.metric ? ot_measure_value(t, e, t->s.monitor) : (double)NAN;
    t->result.evaluated = t->step;
    char right[600], losses[600], shown[620] = "", other[100] = "";
    if (!isnan(t->result.value)) snprintf(other, sizeof other, ", %.60s %.5g", t->result.metric, t->result.value);
    if (*losses_text(t->x.slot[e->slot].plan, e->head, 1, losses)) snprintf(shown, sizeof shown, " (%s)", losses);
    ot_trainer_accuracies(t, e, right);
    ot_trainer_say(t, t->cb.epoch && !*shown && e == &t->eval ? OT_DETAIL : OT_INFO,
                   "%s%s: loss %.4g%s%s%s%s (%s%lld samples, %.1f s)", head, e->split, e->loss, shown,
                   *right ? ", " : "", right, other, t->same_set && e == &t->eval ? "the same " : "",
                   (long long)e->fs.samples, ot_seconds() - before);
    return OT_OK;
}

/* The end of an epoch: evaluation, plateau, best model.  *whole: false: the evaluation was stopped, and the epoch has not ended.  One
 * that is stopped after it has: an evaluation is logged once. */
static ot_status end_epoch(ot_trainer *t, bool *whole, ot_error *err)
{
    char head[40];
    double mean = epoch_mean(t), watched = mean;
    *whole = true;
    snprintf(head, sizeof head, "epoch %lld: ", (long long)t->epoch + 1);
    if (t->eval.slot >= 0) {
        OT_TRY(evaluate_on(t, &t->eval, head, t->epoch + 1, whole, err));
        if (!*whole) return OT_OK;
        int metric = ot_measure_plateau(t);
        if (t->has_val) watched = metric == OT_METRIC_LOSS ? t->eval.loss : ot_measure_value(t, &t->eval, metric);
        ot_schedule_feedback(&t->schedule, t->step - 1, watched);
    } else if (ot_trainer_watches_epochs(t)) {
        ot_schedule_feedback(&t->schedule, t->step - 1, mean);
    }
    return ot_best_looks(t) ? ot_best_epoch(t, mean, err) : OT_OK;
}

/* Evaluates the test set once, with the weights that are written. */
static ot_status end_run(ot_trainer *t, ot_error *err)
{
    ot_result *r = &t->result;
    bool whole;
    r->epochs = t->epoch + (t->step > t->epoch * t->updates);
    OT_TRY(ot_best_use(t, err));
    if (!t->cancelled) ot_best_say(t);
    if (t->test.slot < 0 || t->cancelled) return OT_OK;
    return evaluate_on(t, &t->test, "", t->best.used ? r->best_epoch : r->epochs, &whole, err);
}

/* --overfit-batch: reports whether the loss of the same few batches fell to zero. */
static void say_overfit(const ot_trainer *t)
{
    double last = epoch_mean(t), first = t->first_loss;
    if (!t->s.overfit || t->cancelled || !(first > 0)) return;
    if (last <= 0.01 * first || last < 1e-4)
        ot_trainer_say(t, OT_INFO,
                       "overfit test passed: the loss fell from %.4g to %.4g: model, loss and learning rate can fit "
                       "this data",
                       first, last);
    else
        ot_trainer_say(t, OT_WARNING,
                       "overfit test: the loss went from %.4g to %.4g, not near zero%s. Suspect the learning rate or "
                       "too few updates (onnxtrain find-lr, --lr, --steps); weights that do not train (onnxtrain "
                       "inspect); targets that do not belong to their inputs; a loss that does not fit the output "
                       "(--loss); Dropout, label smoothing or weight decay, which keep the loss above zero",
                       first, last, last < 0.5 * first ? ", but still falls" : "");
}

/* Reports skipped updates at the end of a run. */
static ot_status say_skipped(ot_trainer *t, ot_error *err)
{
    long long bad = (long long)(t->skipped - t->uncounted), none = (long long)t->uncounted, all = (long long)t->step;
    if (t->skipped && !bad && none == all)
        return ot_fail(err, OT_E_DATA,
                       "all updates were skipped, because their batches have ignored class numbers "
                       "only (ignore_index in --loss); -o was not written");
    if (t->skipped && t->skipped == t->step)
        return ot_fail(err, OT_E_DIVERGED,
                       "all updates were skipped, because the loss or a gradient was NaN or "
                       "infinite (--on-nonfinite skip); -o was not written");
    if (bad)
        ot_trainer_say(t, OT_WARNING,
                       "%lld of %lld updates were skipped, because the loss or a gradient was NaN or "
                       "infinite (--on-nonfinite skip)",
                       bad, all);
    if (none)
        ot_trainer_say(
            t, OT_WARNING,
            "%lld of %lld updates were skipped, because their batches have ignored class numbers only (ignore_index in --loss)",
            none, all);
    return OT_OK;
}

/* Writes a checkpoint.  A failure does not end the training; the run reports it at its end. */
static ot_status keep_checkpoint(ot_trainer *t, ot_error *err)
{
    ot_error e = { 0 };
    OT_TRY(ot_trainer_settle(t, err));
    if (!ot_trainer_has_folder(t)) return OT_OK;
    ot_status s = ot_trainer_checkpoint(t, &e);
    if (s && s != OT_E_IO && s != OT_E_NOMEM) return ot_fail(err, s, "%-s", e.text);
    if (!s) return OT_OK;
    ot_trainer_say(t, OT_WARNING, "%-s; training continues", e.text);
    ot_fail(&t->lost, s, "%-s", e.text);
    return OT_OK;
}

static ot_status checkpoint_if_due(ot_trainer *t, bool epoch_ends, ot_error *err)
{
    return ot_checkpoint_due(t, epoch_ends) ? keep_checkpoint(t, err) : OT_OK;
}

/* Every update is done, and the last epoch is evaluated. */
static bool is_over(const ot_trainer *t) { return t->given >= t->total && t->epoch * t->updates >= t->total; }

static ot_status run_epochs(ot_trainer *t, ot_error *err)
{
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    const char *names[OT_HEADS];
    for (int k = 0; k < p->n_heads; k++) names[k] = p->head[k].name;
    if (p->n_heads) ot_log_name_heads(&t->log, p->n_heads, names);
    OT_TRY(ot_profile_open(t, err));
    t->done = update_done;
    t->tokens = count_tokens(t);
    t->epoch_began = t->written.histograms = t->written.checkpoint = t->best.began = ot_seconds();
    while (!t->cancelled && !is_over(t) && !(t->ends = ot_best_ends(t))) {
        uint64_t order = t->s.overfit ? 0 : (uint64_t)t->epoch;
        if (t->s.shuffle) ot_permutation_shuffle(&t->order, t->s.seed, order);
        int64_t end = (t->epoch + 1) * t->updates < t->total ? (t->epoch + 1) * t->updates : t->total;
        while (t->given < end && !t->cancelled && !t->ends) {
            int64_t u = t->given - t->epoch * t->updates;
            OT_TRY(ot_profile_update(t, u, err));
            if (ot_histograms_due(t, u)) OT_TRY(ot_histograms_write(t, u, err));
            if (t->given < end) OT_TRY(checkpoint_if_due(t, false, err));
            write_report(t, WITHIN_EPOCH);
            if (t->given < end) t->ends = ot_best_ends(t);
        }
        bool looks = ot_best_looks(t) || ot_trainer_watches_epochs(t);
        if (looks || t->cancelled) OT_TRY(ot_trainer_settle(t, err));
        if (t->ends) break;
        bool ended = !t->cancelled;
        if (looks && ended) OT_TRY(end_epoch(t, &ended, err));
        if (!ended) break;
        if (looks) show_epoch(t, t->epoch);
        t->epoch++;
        if (!is_over(t)) OT_TRY(checkpoint_if_due(t, true, err));
    }
    OT_TRY(ot_trainer_settle(t, err));
    OT_TRY(ot_profile_close(t, err));
    if (t->step != t->written.checkpoint_step) OT_TRY(keep_checkpoint(t, err));
    OT_TRY(say_skipped(t, err));
    say_overfit(t);
    return end_run(t, err);
}

ot_status ot_trainer_run(ot_trainer *t, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(t);
    ot_error first = { 0 };
    if (t->by_steps) return ot_fail(err, OT_E_USAGE, "this trainer has no data; set --data");
    if (t->step && !t->resumed) return ot_fail(err, OT_E_USAGE, "this trainer has already run");
    ot_status s = open_folder(t, &first);
    if (!s) {
        t->result.reason = "running";
        if (t->resumed) log_resume(t);
        else log_start(t);
        if (t->log.events && !t->resumed) ot_events_graph(t->log.events, t->loaded->file->graph);
        write_report(t, 0); /* a page to open */
        s = run_epochs(t, &first);
        ot_result *r = &t->result;
        r->reason = s == OT_E_DIVERGED   ? "diverged"
                    : s                  ? "failed"
                    : t->ends            ? t->ends
                    : t->step < t->total ? "cancelled"
                                         : "finished";
        r->steps = t->step;
        r->seconds = t->clock.seconds;
        r->samples_per_second = t->clock.busy > 0 ? (double)t->samples / t->clock.busy : 0;
        log_end(t);
        write_report(t, 0);
    }
    if (t->lost.status && !s) s = ot_fail(&first, t->lost.status, "%s", t->lost.text);
    ot_error io = { 0 };
    if (ot_epoch_table_close(&t->table, &io) && !s) s = ot_fail(&first, io.status, "%s", io.text);
    if (ot_log_close(&t->log, &io) && !s) s = ot_fail(&first, io.status, "%s", io.text);
    if (t->history) ot_history_free(t->history);
    free(t->history);
    t->history = NULL;
    ot_folder_close(&t->folder); /* other runs may use it now */
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}
