/* checkpoint.c - writes the state of a training to checkpoint-<step>.npz, and continues from it. */

#include "runtime/train/run/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops/op.h"
#include "runtime/losses/losses.h"
#include "runtime/train/run/device.h"

enum { FORMAT = 2, MOST_FILES = 4096 };

/* X(name, field): the numbers of a trainer that a checkpoint has; integers, then real numbers. */
#define OT_COUNTERS(X)              \
    X(step, t->step)                \
    X(epoch, t->epoch)              \
    X(samples, t->samples)          \
    X(overflows, t->overflows)      \
    X(epoch_counted, t->epoch_sum.updates) \
    X(skipped, t->skipped)          \
    X(uncounted, t->uncounted)      \
    X(random_counter, t->x.counter) \
    X(schedule_bad, t->schedule.bad) \
    X(schedule_cooldown, t->schedule.cooldown) \
    X(best_epoch, t->result.best_epoch) \
    X(best_stale, t->best.stale)

#define OT_REALS(X)                      \
    X(seconds, t->clock.seconds)               \
    X(busy_seconds, t->clock.busy)             \
    X(epoch_loss, t->epoch_sum.loss)         \
    X(last_loss, t->last_loss)           \
    X(schedule_rate, t->schedule.rate)   \
    X(schedule_best, t->schedule.best)   \
    X(best, t->result.best)              \
    X(loss, t->result.loss)              \
    X(accuracy, t->result.accuracy)      \
    X(best_loss, t->best.loss)           \
    X(best_accuracy, t->best.accuracy)

struct ot_checkpoint {
    ot_arena *a;
    ot_folder folder;
    ot_dataset *arrays;
    const char *path; /* of the file */
    const char *run;  /* its array `run`: key \0 value \0 key ...; see write_text */
    int64_t run_bytes;
    const char *base; /* folder that the paths of its options are relative to; "": the current one */
};

/* ---- fingerprints ------------------------------------------------------------------- */

/* A fingerprint of the tensors and operators of a file. */
static uint64_t model_hash(const ot_imported *m)
{
    uint64_t h = 0;
    for (int i = 0; i < m->n_sources; i++) {
        const ot_source *s = &m->sources[i];
        h = ot_hash(h, s->name, strlen(s->name));
        h = ot_hash(h, s->shape.dim, (size_t)s->shape.rank * sizeof *s->shape.dim);
        if (s->dtype != OT_STRING && s->data) h = ot_hash(h, s->data, ot_bytes(&s->shape, s->dtype));
        if (s->external) ot_import_release(m);
    }
    for (const ot_node *n = m->graph->first; n; n = n->next) h = ot_hash(h, n->op->name, strlen(n->op->name));
    return h;
}

/* ---- array `run`: strings ------------------------------------------------------------------ */

typedef struct text {
    FILE *f;
    char *p;
    size_t n;
} text;

static void pair(text *x, const char *key, const char *value)
{
    fwrite(key, 1, strlen(key) + 1, x->f);
    fwrite(value, 1, strlen(value) + 1, x->f);
}

static void number(text *x, const char *key, unsigned long long v)
{
    char s[32];
    snprintf(s, sizeof s, "%llu", v);
    pair(x, key, s);
}

static const char *find(const ot_checkpoint *c, const char *key)
{
    const char *p = c->run, *end = p + c->run_bytes;
    while (p < end) {
        const char *value = p + strlen(p) + 1;
        if (value >= end) return NULL;
        if (!strcmp(p, key)) return value;
        p = value + strlen(value) + 1;
    }
    return NULL;
}

/* The values of an option with which a resumed run continues: as given, or as they were chosen. */
static void write_option(ot_trainer *t, text *x, const ot_option_info *row)
{
    char key[64];
    snprintf(key, sizeof key, "--%s", row->name);
    if (t->s.batch_auto && !strcmp(row->name, "batch-size")) {
        number(x, key, (unsigned long long)t->batch);
        return;
    }
    if (!strcmp(row->name, "precision") && ot_options_count(t->o, row->name)) {
        pair(x, key, ot_precision_name(t->s.options.precision)); /* the choice of auto, which may have been measured */
        return;
    }
    if (t->s.swa > 0 && t->s.swa < 1 && !strcmp(row->name, "swa") && t->s.options.swa_after % t->updates == 0) {
        fprintf(x->f, "%s%c%lld%s%c", key, '\0', (long long)(t->s.options.swa_after / t->updates + 1),
                t->s.swa_updates ? ":per=update" : "",
                '\0'); /* the epoch in which it began, if the run becomes longer */
        return;
    }
    bool loss = !strcmp(row->name, "loss"); /* in the order of the settings' */
    for (int k = 0; k < ot_options_count(t->o, row->name); k++) {
        if (!loss) {
            pair(x, key, ot_options_nth(t->o, row->name, k));
            continue;
        }
        fwrite(key, 1, strlen(key) + 1, x->f);
        ot_loss_spell(x->f, t, k);
        fputc('\0', x->f);
    }
}

static ot_status write_text(ot_trainer *t, text *x, ot_error *err)
{
    const char *out = ot_trainer_out(t);
    char here[PATH_MAX];
    const ot_option_info *row;
    if (!getcwd(here, sizeof here)) here[0] = '\0';
    x->f = open_memstream(&x->p, &x->n);
    if (!x->f || !out) return ot_fail(err, OT_E_NOMEM, "no memory for a checkpoint");
    number(x, "format", FORMAT);
    pair(x, "version", OT_VERSION);
    pair(x, "model", t->loaded->file->path);
    number(x, "model hash", model_hash(t->as_read->file));
    number(x, "data hash", t->data->hash);
    if (t->taught_by) number(x, "teacher hash", model_hash(t->taught_by));
    number(x, "evaluation hash", t->has_val ? t->eval.data->hash : 0);
    number(x, "updates", (unsigned long long)t->total);
    if (t->s.val_split > 0 || t->s.folds) {
        number(x, "split hash", t->eval.data->hash);
        number(x, "split samples", t->eval.data->split);
    }
    if (t->result.best_metric) pair(x, "best metric", t->result.best_metric);
    number(x, "samples", (unsigned long long)t->train.samples);
    pair(x, "folder", here);
    pair(x, "run folder", t->folder.path);
    pair(x, "out", out);
    pair(x, "device", ot_device_name(&t->s, t->x.device, t->a));
    number(x, "threads", (unsigned long long)t->x.threads);
    number(x, "rank", 0);
    number(x, "world size", 1);
    for (int i = 0; (row = ot_option_at(i)); i++) write_option(t, x, row);
    bool good = ot_memstream_close(x->f);
    x->f = NULL;
    return good ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for a checkpoint");
}

/* ---- writing -------------------------------------------------------------------------- */

static ot_status add_scalar(ot_npz *z, const char *name, ot_dtype type, void *v, ot_error *err)
{
    return ot_npz_add(z, &(ot_tensor){ .name = name, .dtype = type, .data = v }, err);
}

static ot_status add_row(ot_npz *z, const char *name, ot_dtype type, int64_t n, void *v, ot_error *err)
{
    return ot_npz_add(z, &(ot_tensor){ .name = name, .dtype = type, .rank = 1, .dim = { n }, .data = v }, err);
}

static ot_status add_counters(ot_trainer *t, ot_npz *z, ot_error *err)
{
#define X(name, field)                                        \
    {                                                         \
        int64_t v = (int64_t)(field);                         \
        OT_TRY(add_scalar(z, #name, OT_I64, &v, err));        \
    }
    OT_COUNTERS(X)
#undef X
#define X(name, field) OT_TRY(add_scalar(z, #name, OT_F64, &(field), err));
    OT_REALS(X)
#undef X
    OT_TRY(add_row(z, "epoch_losses", OT_F64, OT_HEADS, t->epoch_sum.head, err));
    OT_TRY(add_scalar(z, "last_rate", OT_F64, &t->log.lr, err));
    OT_TRY(add_scalar(z, "monitored", OT_F64, &t->result.value, err));
    OT_TRY(add_scalar(z, "improved", OT_F64, &t->best.counted, err));
    int64_t log[2] = { ot_log_position(&t->log, 0), ot_log_position(&t->log, 1) };
    return add_row(z, "log_bytes", OT_I64, 2, log, err);
}

/* best: the state at the best epoch, not the current one. */
static ot_status add_state(ot_trainer *t, ot_npz *z, int i, const ot_value *v, bool best, ot_error *err)
{
    ot_arena *a = ot_arena_new();
    char *name = a ? ot_arena_printf(a, "%s%d/%s", best ? "best/" : "", i, v->name) : NULL;
    void *bytes = best ? t->best.state[i] : NULL;
    ot_status s = !name  ? ot_fail(err, OT_E_NOMEM, "no memory for '%s' in a checkpoint", v->name)
                  : best ? OT_OK
                         : ot_trainer_bytes(t, a, v, &bytes, err);
    ot_tensor x = { .name = name, .dtype = v->dtype, .rank = v->shape.rank, .data = bytes };
    memcpy(x.dim, v->shape.dim, sizeof x.dim);
    if (!s) s = ot_npz_add(z, &x, err);
    if (a) ot_arena_free(a);
    return s;
}

static ot_status write_members(ot_trainer *t, ot_npz *z, ot_error *err)
{
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    text x = { 0 };
    ot_status s = write_text(t, &x, err);
    if (!s) s = add_row(z, "run", OT_U8, (int64_t)x.n, x.p, err);
    if (x.f) fclose(x.f);
    free(x.p);
    if (!s) s = add_counters(t, z, err);
    for (int i = 0; i < p->n_states && !s; i++) s = add_state(t, z, i, p->states[i], false, err);
    for (int i = 0; i < p->n_states && !s && t->best.state; i++) s = add_state(t, z, i, p->states[i], true, err);
    return s;
}

/* Removes all checkpoints but the newest `keep` and that of step `spared`.  false: none was removed. */
static bool remove_old(const ot_trainer *t, int keep, int64_t spared)
{
    bool some = false;
    int64_t step[MOST_FILES];
    int n = ot_folder_checkpoints(t->folder.fd, step, MOST_FILES, true);
    for (int i = keep; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, OT_FOLDER_CHECKPOINT, (long long)step[i]);
        if (step[i] < t->step && step[i] != spared && !unlinkat(t->folder.fd, name, 0))
            some = true; /* one too many is no failure */
    }
    return some;
}

/* The event has the epoch of the last update, as the event of that step has. */
static void log_checkpoint(ot_trainer *t, const char *name)
{
    json_int_t epoch = t->step ? (t->step - 1) / t->updates + 1 : 1;
    ot_log_write(&t->log, json_pack("{s:s, s:I, s:I, s:s}", "event", "checkpoint", "step", (json_int_t)t->step, "epoch",
                                    epoch, "file", name));
}

/* *full: the call failed because the disk is full. */
static ot_status write_file(ot_trainer *t, const char *name, bool *full, ot_error *err)
{
    ot_npz *z = NULL;
    OT_TRY(ot_npz_begin(t->folder.fd, name, &z, err));
    ot_status s = write_members(t, z, err);
    if (!s) s = ot_npz_place(z, err);
    *full = s && ot_npz_full(z);
    ot_npz_abort(z);
    return s;
}

ot_status ot_trainer_checkpoint(ot_trainer *t, ot_error *err)
{
    char name[64];
    ot_error e = { 0 }, again = { 0 };
    bool full = false;
    int64_t best = isnan(t->result.best) ? -1 : t->result.best_epoch * t->updates;
    if (!t->folder.path) return OT_OK;
    ot_log_sync(&t->log);
    snprintf(name, sizeof name, OT_FOLDER_CHECKPOINT, (long long)t->step);
    ot_status s = write_file(t, name, &full, &e);
    if (full && remove_old(t, 1, best)) s = write_file(t, name, &full, &again); /* the newest one is enough */
    t->written.checkpoint = ot_seconds(); /* also of one that failed: the next one is tried when it is due */
    t->written.checkpoint_step = t->step;
    if (!s) t->result.checkpoint = t->step;
    if (s) return ot_fail(err, s, "%s/%s", t->folder.path, e.text);
    log_checkpoint(t, name);
    (void)remove_old(t, t->s.keep, -1);
    return OT_OK;
}

/* The first checkpoint of a run is early, so that a run of a few minutes can be continued too. */
static const double first_after = 30;

bool ot_checkpoint_due(const ot_trainer *t, bool epoch_ends)
{
    const ot_interval *every = &t->s.checkpoint;
    double seconds = !t->written.checkpoint_step && every->seconds > first_after ? first_after : every->seconds;
    if (!t->folder.path || t->step == t->written.checkpoint_step) return false;
    if (every->steps && t->step % every->steps == 0) return true;
    if (every->epochs && epoch_ends && t->epoch % every->epochs == 0) return true;
    return seconds > 0 && ot_seconds() - t->written.checkpoint >= seconds;
}

/* ---- reading ---------------------------------------------------------------------------- */

static ot_status unusable(const ot_checkpoint *c, ot_error *err, const char *what)
{
    return ot_fail(err, OT_E_IO, "%s: %s", c->path, what);
}

static ot_status read_file(ot_checkpoint *c, int64_t step, ot_error *err)
{
    char name[64];
    snprintf(name, sizeof name, OT_FOLDER_CHECKPOINT, (long long)step);
    c->path = ot_arena_printf(c->a, "%s/%s", c->folder.path, name);
    if (!c->path) return ot_fail(err, OT_E_NOMEM, "no memory for a checkpoint");
    OT_TRY(ot_npz_read(c->path, &c->arrays, err));
    const ot_array *run = ot_dataset_find(c->arrays, "run");
    const char *format;
    if (!run || run->t.dtype != OT_U8 || run->t.rank != 1 || run->t.dim[0] < 1)
        return unusable(c, err, "is not a checkpoint of a run");
    c->run = run->t.data;
    c->run_bytes = run->t.dim[0];
    if (c->run[c->run_bytes - 1]) return unusable(c, err, "is not a checkpoint of a run");
    if (!(format = find(c, "format")) || atoi(format) != FORMAT)
        return unusable(c, err, "was written by another version of onnxtrain, whose checkpoints are not supported");
    return find(c, "model") && find(c, "out") && find(c, "--data") ? OT_OK
                                                                   : unusable(c, err, "is not a checkpoint of a run");
}

static void drop_file(ot_checkpoint *c)
{
    ot_dataset_free(c->arrays);
    c->arrays = NULL;
}

/* Reads the newest checkpoint that is valid.  *none: there is none, which is an error. */
static ot_status read_newest(ot_checkpoint *c, const ot_callbacks *cb, bool *none, ot_error *err)
{
    int64_t step[MOST_FILES];
    int n = ot_folder_checkpoints(c->folder.fd, step, MOST_FILES, false);
    ot_error first = { 0 };
    if (n < 0) return ot_fail(err, ot_failed_call(errno), "%s: cannot be listed: %s", c->folder.path, strerror(errno));
    for (int i = 0; i < n; i++) {
        ot_error e = { 0 };
        ot_status s = read_file(c, step[i], &e);
        if (!s && i && cb && cb->message) {
            ot_error line = { 0 };
            ot_fail(&line, first.status, "%-s; continuing from the checkpoint before it", first.text);
            cb->message(cb->user, OT_WARNING, line.text);
        }
        if (!s) return OT_OK;
        drop_file(c);
        if (s == OT_E_NOMEM) return ot_fail(err, s, "%-s", e.text);
        if (!first.status) ot_fail(&first, s, "%-s", e.text);
    }
    *none = true;
    if (!n) return ot_fail(err, OT_E_IO, "%s: has no checkpoint", c->folder.path);
    return ot_fail(err, OT_E_IO, "%-s; none of the %d checkpoints can be used", first.text, n);
}

/* The run was started in a folder, and its paths are relative to that.  A copy of the whole, at another place, is by itself: if
 * the run folder was `runs/net-1` and is now /b/runs/net-1, the paths are relative to /b. */
static ot_status find_base(ot_checkpoint *c, ot_error *err)
{
    const char *folder = find(c, "folder"), *was = find(c, "run folder");
    char here[PATH_MAX], is[PATH_MAX];
    size_t n, m = was ? strlen(was) : 0;
    if (!realpath(c->folder.path, is))
        return ot_fail(err, ot_failed_call(errno), "%s: %s", c->folder.path, strerror(errno));
    n = strlen(is);
    bool moved_along = m && *was != '/' && n > m && is[n - m - 1] == '/' && !strcmp(is + n - m, was);
    if (moved_along) is[n - m - 1] = '\0';
    c->base = ot_arena_strdup(c->a, moved_along ? is : folder ? folder : "");
    if (!c->base) return ot_fail(err, OT_E_NOMEM, "no memory for a checkpoint");
    if (getcwd(here, sizeof here) && !strcmp(here, *c->base ? c->base : "/")) c->base = "";
    return OT_OK;
}

ot_status ot_checkpoint_find(const char *run_dir, const ot_callbacks *cb, ot_checkpoint **out, bool *none,
                             ot_error *err)
{
    *out = NULL;
    *none = false;
    ot_checkpoint *c = calloc(1, sizeof *c);
    if (c) c->folder.fd = -1, c->a = ot_arena_new();
    if (!c || !c->a) {
        free(c);
        return ot_fail(err, OT_E_NOMEM, "no memory for a checkpoint");
    }
    ot_status s = ot_folder_reopen(run_dir, c->a, &c->folder, err);
    if (!s) s = read_newest(c, cb, none, err);
    if (!s) s = find_base(c, err);
    if (s) ot_checkpoint_free(c);
    else *out = c;
    return s;
}

ot_status ot_checkpoint_open(const char *run_dir, const ot_callbacks *cb, ot_checkpoint **out, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(out);
    *out = NULL;
    OT_GIVEN(run_dir);
    bool none;
    ot_error why = { 0 };
    ot_status s = ot_checkpoint_find(run_dir, cb, out, &none, &why);
    if (!s) return OT_OK;
    return ot_fail(err, s, "%-s%s", why.text, none ? "; start the training again with 'onnxtrain train'" : "");
}

void ot_checkpoint_free(ot_checkpoint *c)
{
    if (!c) return;
    drop_file(c);
    ot_folder_close(&c->folder);
    ot_arena_free(c->a);
    free(c);
}

/* ---- options of the run --------------------------------------------------------------- */

/* Converts a relative path of the run to the current folder.  must_exist: a text that is not an existing path is unchanged. */
static const char *path_then(const ot_checkpoint *c, const char *path, bool must_exist, char *buf, size_t n)
{
    if (*path == '/' || !*c->base) return path;
    int k = snprintf(buf, n, "%s/%s", c->base, path);
    if (k < 0 || (size_t)k >= n) return path;
    return must_exist && access(buf, F_OK) ? path : buf;
}

const char *ot_checkpoint_model(ot_checkpoint *c)
{
    char buf[PATH_MAX];
    return c ? ot_arena_strdup(c->a, path_then(c, find(c, "model"), true, buf, sizeof buf)) : NULL;
}

/* The same for a value of --data: NAME=PATH, or a path that may contain '='. */
static const char *data_then(const ot_checkpoint *c, const char *value, char *buf, size_t n)
{
    const char *whole = path_then(c, value, true, buf, n);
    if (whole != value || !*c->base) return whole;
    for (const char *p = strchr(value, '='); p; p = strchr(p + 1, '=')) {
        char path[PATH_MAX];
        const char *there = path_then(c, p + 1, true, path, sizeof path);
        if (p[1] == '/' || there == p + 1) continue;
        int k = snprintf(buf, n, "%.*s=%s", (int)(p - value), value, there);
        return k > 0 && (size_t)k < n ? buf : value;
    }
    return value;
}

static ot_status set_option(const ot_checkpoint *c, ot_options *o, const char *name, const char *value, ot_error *err)
{
    static const char *const read[] = { "data", "val", "test" }, *const written[] = { "deploy", "log", "teacher" };
    char buf[PATH_MAX];
    for (int i = 0; i < OT_LEN(read); i++)
        if (!strcmp(name, read[i])) value = data_then(c, value, buf, sizeof buf);
    for (int i = 0; i < OT_LEN(written); i++)
        if (!strcmp(name, written[i]) && strcmp(value, "-")) value = path_then(c, value, false, buf, sizeof buf);
    return ot_options_set(o, name, value, err);
}

ot_status ot_checkpoint_options(const ot_checkpoint *c, ot_options *o, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(c);
    OT_GIVEN(o);
    const char *end = c->run + c->run_bytes, *of = NULL;
    char out[PATH_MAX];
    bool given_before = false;
    for (const char *p = c->run, *value; p < end && (value = p + strlen(p) + 1) < end; p = value + strlen(value) + 1) {
        if (strncmp(p, "--", 2)) continue;
        if (!ot_option_find(p + 2))
            return ot_fail(err, OT_E_IO, "%s: has the option %s, which this version does not support", c->path, p);
        if (!of || strcmp(of, p)) of = p, given_before = ot_options_nth(o, p + 2, 0) != NULL; /* those given now win */
        if (given_before || !strcmp(p, "--o") || !strcmp(p, "--run-dir")) continue;
        OT_TRY(set_option(c, o, p + 2, value, err));
    }
    if (!ot_options_nth(o, "o", 0))
        OT_TRY(ot_options_set(o, "o", path_then(c, find(c, "out"), false, out, sizeof out), err));
    return ot_options_set(o, "run-dir", c->folder.path, err);
}

/* ---- a trainer that continues ----------------------------------------------------------- */

static const void *array_of(const ot_checkpoint *c, const char *name, ot_dtype type, int64_t n)
{
    const ot_array *a = ot_dataset_find(c->arrays, name);
    ot_shape s = a ? ot_array_shape(a) : (ot_shape){ 0 };
    return a && a->t.dtype == type && ot_numel(&s) == n ? a->t.data : NULL;
}

/* Checks that no counter is negative or near the limit of its type, or larger than the number of updates allows, and that times
 * and the learning rate are numbers that a run can have. */
static bool fit_together(const ot_trainer *t)
{
    const int64_t most = (int64_t)1 << 40;
#define X(name, field) \
    if ((int64_t)(field) < 0 || (int64_t)(field) > ((int64_t)1 << 60)) return false;
    OT_COUNTERS(X)
#undef X
    const double reals[] = { t->clock.seconds, t->clock.busy, t->schedule.rate };
    for (int i = 0; i < OT_LEN(reals); i++)
        if (!(isfinite(reals[i]) && reals[i] >= 0)) return false;
    return t->step <= most && t->epoch <= t->step / t->updates + 1 && t->epoch_sum.updates <= t->step &&
           t->skipped <= t->step && t->uncounted <= t->skipped && t->overflows <= t->step &&
           t->result.best_epoch <= t->step;
}

static ot_status read_counters(const ot_checkpoint *c, ot_trainer *t, ot_error *err)
{
    const int64_t *i;
    const double *d;
#define X(name, field)                                                                         \
    if (!(i = array_of(c, #name, OT_I64, 1))) return unusable(c, err, "has no counter " #name); \
    field = (__typeof__(field))*i;
    OT_COUNTERS(X)
#undef X
#define X(name, field)                                                                         \
    if (!(d = array_of(c, #name, OT_F64, 1))) return unusable(c, err, "has no counter " #name); \
    field = *d;
    OT_REALS(X)
#undef X
    if (!(d = array_of(c, "epoch_losses", OT_F64, OT_HEADS))) return unusable(c, err, "has no counter epoch_losses");
    memcpy(t->epoch_sum.head, d, sizeof t->epoch_sum.head);
    if (!(i = array_of(c, "log_bytes", OT_I64, 2))) return unusable(c, err, "has no counter log_bytes");
    memcpy(t->log_bytes, i, sizeof t->log_bytes);
    d = array_of(c, "last_rate", OT_F64, 1); /* those of earlier versions have none */
    t->log.lr = d ? *d : (double)NAN;
    if ((d = array_of(c, "monitored", OT_F64, 1))) t->result.value = *d;
    d = array_of(c, "improved", OT_F64, 1);
    t->best.counted = d ? *d : t->result.best;
    return fit_together(t) ? OT_OK : unusable(c, err, "has counters that do not fit together");
}

static ot_status read_state(const ot_checkpoint *c, ot_trainer *t, int i, const ot_value *v, bool best, ot_error *err)
{
    char *name = ot_arena_printf(c->a, "%s%d/%s", best ? "best/" : "", i, v->name);
    const ot_array *a = name ? ot_dataset_find(c->arrays, name) : NULL;
    if (!name) return ot_fail(err, OT_E_NOMEM, "no memory for a checkpoint");
    bool same = a && a->t.rank == v->shape.rank;
    for (int k = 0; same && k < v->shape.rank; k++) same = a->t.dim[k] == v->shape.dim[k];
    same = same && ot_dtype_bits(a->t.dtype) == ot_dtype_bits(v->dtype);
    if (!same)
        return ot_fail(err, OT_E_IO, "%s: does not contain '%s' of this training in its shape", c->path, v->name);
    if (!best) return ot_exec_write(t->x.slot[t->x.lead].exec, v, a->t.data, err);
    memcpy(t->best.state[i], a->t.data, ot_bytes(&v->shape, v->dtype));
    return OT_OK;
}

/* Restores the best epoch, with its states if -o gets them. */
static ot_status read_best(const ot_checkpoint *c, ot_trainer *t, ot_error *err)
{
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    const char *metric = find(c, "best metric");
    if (!metric && !isnan(t->result.best)) return unusable(c, err, "does not say what its best epoch is the best by");
    char shown[64];
    t->result.best_metric = metric ? ot_arena_strdup(t->a, ot_shown(metric, shown, sizeof shown)) : NULL;
    if (metric && !t->result.best_metric) return ot_fail(err, OT_E_NOMEM, "no memory for a run folder");
    if (!t->s.select_best || isnan(t->result.best)) return OT_OK;
    OT_TRY(ot_best_room(t, err));
    for (int i = 0; i < p->n_states; i++) OT_TRY(read_state(c, t, i, p->states[i], true, err));
    return OT_OK;
}

ot_status ot_checkpoint_check(const ot_checkpoint *c, const ot_model *m, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(c);
    OT_GIVEN(m);
    const char *model = find(c, "model hash");
    if (model && strtoull(model, NULL, 10) == model_hash(m->file)) return OT_OK;
    return ot_fail(err, OT_E_MODEL,
                   "%s: is not the model that the run was started with; a run continues with the same model only",
                   m->file->path);
}

/* why: the option that needs the data of the run, and the alternative. */
static ot_status check_data(const ot_checkpoint *c, const ot_trainer *t, const char *why, ot_error *err)
{
    const char *data = find(c, "data hash");
    OT_TRY(ot_checkpoint_check(c, t->as_read, err));
    if (!data || strtoull(data, NULL, 10) != t->data->hash)
        return ot_fail(err, OT_E_DATA, "%s: has changed since the run was started; %s", t->data->name, why);
    return OT_OK;
}

static ot_status check_teacher(const ot_checkpoint *c, const ot_trainer *t, ot_error *err)
{
    const char *teacher = find(c, "teacher hash");
    if ((teacher ? strtoull(teacher, NULL, 10) : 0) != (t->taught_by ? model_hash(t->taught_by) : 0))
        return ot_fail(
            err, OT_E_MODEL,
            "--teacher %s: is not the teacher that the run was started with; a run continues with the same one only",
            t->s.teacher ? t->s.teacher : "");
    return OT_OK;
}

static ot_status check_split(const ot_checkpoint *c, const ot_trainer *t, ot_error *err)
{
    const char *samples = find(c, "split samples"),
               *split = samples ? samples : find(c, "split hash"); /* those of earlier versions have only that */
    const ot_dataset *part = t->s.val_split > 0 || t->s.folds ? t->eval.data : NULL;
    uint64_t now = !part ? 0 : samples ? part->split : part->hash;
    if ((split ? strtoull(split, NULL, 10) : 0) != now)
        return ot_fail(err, OT_E_USAGE,
                       "%s: --val-split would keep other samples back than in this run; a run continues with its own "
                       "--val-split and --seed only",
                       c->path);
    return OT_OK;
}

/* Warns if the number of updates has changed, because a schedule over the whole run changes with it. */
static void say_schedule(const ot_checkpoint *c, const ot_trainer *t)
{
    const char *updates = find(c, "updates");
    ot_schedule was = t->schedule;
    double rate, now, momentum;
    was.total = updates ? strtoll(updates, NULL, 10) : t->total;
    if (was.total == t->total || t->step >= t->total) return; /* the same, or nothing is left to do */
    if (t->s.swa > 0 && t->s.swa < 1)
        ot_trainer_say(
            t, OT_WARNING,
            "--swa %g is now a fraction of %lld updates, not %lld: the average begins at another update, and is "
            "not that of one run of that length",
            t->s.swa, (long long)t->total, (long long)was.total);
    ot_schedule_at(&was, t->step > 0 ? t->step - 1 : 0, &rate, &momentum);
    ot_schedule_at(&t->schedule, t->step > 0 ? t->step - 1 : 0, &now, &momentum);
    if (rate != now)
        ot_trainer_say(
            t, OT_WARNING,
            "schedule %s now spans %lld updates, not %lld: the learning rate continues at %.4g, and was %.4g; the "
            "result is not that of one run of that length",
            t->s.schedule.name, (long long)t->total, (long long)was.total, now, rate);
}

/* Discards the best value if the validation set has changed. */
static void compare_evaluation(const ot_checkpoint *c, ot_trainer *t)
{
    const char *hash = find(c, "evaluation hash");
    if (!hash || strtoull(hash, NULL, 10) == (t->has_val ? t->eval.data->hash : 0)) return;
    ot_trainer_say(t, OT_WARNING,
                   "the validation set is not the one that the run was started with: the best model is chosen again");
    t->result.best = t->best.counted = NAN;
    t->best.stale = 0;
    t->result.best_path = NULL;
}

static void say_progress(ot_trainer *t)
{
    const char *limit = t->s.steps && t->total == t->s.steps ? "--steps" : "--epochs", *out = ot_trainer_out(t);
    if (t->s.patience && t->best.stale >= t->s.patience)
        ot_trainer_say(
            t, OT_INFO,
            "%s: the run has ended, because %lld epochs brought no improvement; use a larger --patience to train "
            "longer",
            t->resumed, (long long)t->best.stale);
    else if (t->step < t->total)
        ot_trainer_say(t, OT_INFO, "continuing from %s: %lld of %lld updates done; trained model: %s", t->resumed,
                       (long long)t->step, (long long)t->total, out ? out : "");
    else
        ot_trainer_say(t, OT_INFO, "%s: all %lld updates are done; use a larger %s to train longer", t->resumed,
                       (long long)t->step, limit);
}

static void say_differences(const ot_checkpoint *c, const ot_trainer *t)
{
    const char *threads = find(c, "threads"), *device = find(c, "device"), *version = find(c, "version");
    const char *now = ot_device_name(&t->s, t->x.device, t->a);
    if (threads && atoi(threads) != t->x.threads)
        ot_trainer_say(
            t, OT_WARNING,
            "the run had %s thread%s and now has %d: the results may differ in rounding from those of a run that was not stopped",
            threads, atoi(threads) == 1 ? "" : "s", t->x.threads);
    if (device && strcmp(device, now))
        ot_trainer_say(
            t, OT_WARNING,
            "the run was on %s and is now on %s: the results may differ in rounding from those of a run that was not stopped",
            device, now);
    if (version && strcmp(version, OT_VERSION))
        ot_trainer_say(t, OT_WARNING,
                       "the run was started by version %s, this is " OT_VERSION ": the results may differ", version);
}

ot_status ot_checkpoint_check_split(const ot_checkpoint *c, const ot_trainer *t, ot_error *err)
{
    return strcmp(t->eval.split, "val") ? OT_OK : check_split(c, t, err);
}

ot_status ot_checkpoint_weights(const ot_checkpoint *c, ot_trainer *t, ot_error *err)
{
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    OT_TRY(check_data(c, t, "use 'onnxtrain eval MODEL --data DATA' with the model of the run", err));
    OT_TRY(ot_checkpoint_check_split(c, t, err));
    for (int i = 0; i < p->n_states; i++) OT_TRY(read_state(c, t, i, p->states[i], false, err));
    return OT_OK;
}

/* A checkpoint or a whole folder that was copied: log and checkpoints go to the copy, and the model to the original's -o. */
static void say_other_run(const ot_checkpoint *c, ot_trainer *t)
{
    const char *run = find(c, "run folder"), *out = ot_trainer_out(t);
    char buf[PATH_MAX];
    struct stat own, other;
    if (!run || !out || fstat(t->folder.fd, &own)) return;
    run = path_then(c, run, false, buf, sizeof buf);
    if (stat(run, &other) || (own.st_dev == other.st_dev && own.st_ino == other.st_ino)) return;
    ot_trainer_say(
        t, OT_WARNING,
        "%s was copied from the run folder %s, which exists too: the copy of that run is continued in %s, and "
        "its model is written to %s (-o gives another name)",
        t->resumed, run, t->folder.path, out);
}

ot_status ot_trainer_resume(ot_trainer *t, ot_checkpoint *c, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(t);
    OT_GIVEN(c);
    if (t->by_steps || t->step || t->folder.path)
        return ot_fail(err, OT_E_USAGE, "only a trainer with data that has not run yet can continue a run");
    const ot_plan *p = t->x.slot[t->x.lead].plan;
    OT_TRY(check_data(c, t, "a run continues with the same data only", err));
    OT_TRY(check_teacher(c, t, err));
    OT_TRY(check_split(c, t, err));
    OT_TRY(read_counters(c, t, err));
    for (int i = 0; i < p->n_states; i++) OT_TRY(read_state(c, t, i, p->states[i], false, err));
    OT_TRY(read_best(c, t, err));
    t->given = t->written.checkpoint_step = t->result.steps = t->result.checkpoint = t->step;
    t->result.evaluated = t->epoch * t->updates < t->step ? t->epoch * t->updates : t->step;
    if (t->eval.slot >= 0 && !isnan(t->result.loss)) t->result.split = t->eval.split;
    if (t->epoch > t->step / t->updates)
        t->epoch = t->step / t->updates; /* it ended within an epoch, and now continues */
    t->result.epochs = t->epoch;
    t->clock.busy_before = t->clock.busy;
    t->resumed = ot_arena_strdup(t->a, c->path);
    t->folder = c->folder;
    t->folder.path = ot_arena_strdup(t->a, c->folder.path);
    c->folder.fd = -1;
    if (!t->resumed || !t->folder.path) return ot_fail(err, OT_E_NOMEM, "no memory for a run folder");
    if (!isnan(t->result.best) && !faccessat(t->folder.fd, "best.onnx", F_OK, 0))
        t->result.best_path = ot_arena_printf(t->a, "%s/best.onnx", t->folder.path);
    else if (!isnan(t->result.best))
        ot_trainer_say(t, OT_WARNING,
                       "%s/best.onnx, the model of epoch %lld, is missing; it is written again after the next better "
                       "epoch only",
                       t->folder.path, (long long)t->result.best_epoch);
    say_other_run(c, t);
    say_differences(c, t);
    say_schedule(c, t);
    compare_evaluation(c, t);
    say_progress(t);
    return OT_OK;
}
