/* profile.c - --profile: times of kernels, by nodes of the ONNX file, as a table, profile.json, .csv and trace.json.
 *
 * Updates of full batches are measured, each from an idle machine to its end; evaluations, checkpoints and short batches
 * in between are not. */
#include "ops/kernels/fused.h"
#include "runtime/train/run/profile.h"

#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/train/run/ceilings.h"
#include "runtime/train/run/device.h"
#include "runtime/train/run/nodes.h"

enum { WARM = 3, SHOWN = 20 };

typedef struct ot_profile ot_profile;

struct ot_profile {
    int64_t left;   /* updates that are still to be measured; 0: it is over */
    int64_t warm;   /* updates before the first of them */
    int64_t done;   /* measured */
    double seconds; /* of these */
    ot_slot *slot;  /* of full batches */
    ot_exec *exec;
    const ot_plan *plan;
    ot_timing timing;
    ot_ceilings ceilings;
    ot_node_table table;
    double *moving; /* by row: seconds of an update that its kernels need to move their bytes */
};

/* ---- measuring --------------------------------------------------------------------------- */

ot_status ot_profile_open(ot_trainer *t, ot_error *err)
{
    int64_t n = t->s.profile, left = t->total - t->step;
    if (!n) return OT_OK;
    ot_profile *p = t->profile = ot_arena_alloc(t->a, sizeof *p);
    if (!p) return ot_fail(err, OT_E_NOMEM, "no memory for the profile");
    p->left = n < left ? n : left;
    p->warm = left - p->left < WARM ? left - p->left : WARM;
    OT_TRY(ot_ceilings_measure(&t->x, &p->ceilings, err));
    ot_trainer_say(
        t, OT_INFO,
        "--profile: %lld update%s after the first %lld; measured ceilings: %.4g GFLOP/s (%s product of %lld x "
        "%lld matrices), %.4g GB/s (sum of two arrays), %.4g GB/s in caches",
        (long long)p->left, p->left == 1 ? "" : "s", (long long)p->warm, p->ceilings.flops / 1e9,
        ot_precision_name(t->s.options.precision), (long long)p->ceilings.product, (long long)p->ceilings.product,
        p->ceilings.bytes / 1e9, p->ceilings.cached / 1e9);
    return OT_OK;
}

/* Does update u of the epoch consist of full batches, as many as --accumulate says? */
static bool is_full(const ot_trainer *t, int64_t u)
{
    int64_t first;
    int n;
    ot_trainer_batches(t, u, &first, &n);
    return n == t->s.accumulate && ot_trainer_batch_size(t, first + n - 1) == t->batch;
}

/* Finds the slot of full batches, and allocates the times of its plan. */
static ot_status begin(ot_trainer *t, ot_error *err)
{
    int at;
    ot_profile *p = t->profile;
    OT_TRY(ot_session_plan(&t->x, OT_WANT_TRAIN, &t->train, t->batch, t->s.accumulate, &at, err));
    p->slot = &t->x.slot[at];
    p->exec = p->slot->exec;
    p->plan = p->slot->plan;
    size_t n = (size_t)(p->plan->n_batch_steps + p->plan->n_update_steps) + 1;
    p->timing.spent = ot_arena_alloc(t->a, n * sizeof *p->timing.spent);
    p->timing.began = ot_arena_alloc(t->a, n * sizeof *p->timing.began);
    return p->timing.spent && p->timing.began ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the profile");
}

static ot_status measured_update(ot_trainer *t, int64_t u, ot_error *err)
{
    ot_profile *p = t->profile;
    int64_t updates = p->timing.updates;
    OT_TRY(ot_trainer_settle(t, err));
    if (!p->exec) OT_TRY(begin(t, err));
    OT_TRY(ot_exec_measure(p->exec, &p->timing, err));
    double begun = ot_seconds();
    ot_status s = ot_trainer_update(t, u, err);
    if (!s) s = ot_trainer_settle(t, err);
    double seconds = ot_seconds() - begun;
    ot_error ignored = { 0 };
    (void)ot_exec_measure(p->exec, NULL, &ignored);
    if (p->timing.updates == updates) return s; /* stopped, or another plan because of its data */
    p->seconds += seconds;
    p->done++;
    p->left--;
    return s;
}

ot_status ot_profile_update(ot_trainer *t, int64_t u, ot_error *err)
{
    ot_profile *p = t->profile;
    if (!p || !p->left) return ot_trainer_update(t, u, err);
    if (p->warm > 0 || !is_full(t, u)) {
        p->warm -= p->warm > 0;
        return ot_trainer_update(t, u, err);
    }
    OT_TRY(measured_update(t, u, err));
    return p->left ? OT_OK : ot_profile_close(t, err);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static double row_seconds(const ot_node_row *r) { return ot_node_sum(r->seconds); }

static int by_seconds(const void *a, const void *b)
{
    const ot_node_row *const *x = a, *const *y = b;
    double d = row_seconds(*y) - row_seconds(*x);
    return d > 0 ? 1 : d < 0 ? -1 : *x < *y ? -1 : 1;
}

/* Operations and bytes of an update, which has `accumulate` batches. */
static double per_update(const ot_trainer *t, const double stage[OT_STAGES])
{
    return t->s.accumulate * (stage[OT_STAGE_FORWARD] + stage[OT_STAGE_BACKWARD]) + stage[OT_STAGE_UPDATE];
}

static double kernel_seconds(const ot_profile *p)
{
    double sum = 0;
    for (int i = 0; i < p->table.n; i++) sum += row_seconds(&p->table.row[i]);
    return sum;
}

/* Adds up the seconds in which the kernels of each node can move their data, from memory or from a cache of that size. */
static void find_moving(const ot_trainer *t)
{
    const ot_profile *p = t->profile;
    for (int i = 0; i < p->table.n_steps; i++) {
        double bytes = ot_node_bytes(ot_plan_step(p->plan, i)->node), rate = ot_ceilings_rate(&p->ceilings, bytes);
        if (rate > 0) p->moving[p->table.of[i]] += bytes / rate * (i < p->plan->n_batch_steps ? t->s.accumulate : 1);
    }
}

/* The larger of the shares of the two ceilings; *of: its name, "compute" or "memory". */
static double ceiling_share(const ot_trainer *t, const ot_node_row *r, const char **of)
{
    const ot_profile *p = t->profile;
    double s = row_seconds(r), flops = 0, bytes = 0;
    if (s > 0 && p->ceilings.flops > 0) flops = per_update(t, r->flops) / s / p->ceilings.flops;
    if (s > 0) bytes = p->moving[r - p->table.row] / s;
    *of = flops >= bytes ? "compute" : "memory";
    return flops >= bytes ? flops : bytes;
}

/* ---- the table -------------------------------------------------------------------------------- */

static void say_row(const ot_trainer *t, const char *name, const char *op, const ot_node_row *r, const char *end)
{
    const ot_profile *p = t->profile;
    double s = row_seconds(r), update = p->seconds / (double)p->done;
    ot_trainer_say(t, OT_INFO, "%-20.20s %-12.12s %8.3f %5.1f %8.3f %8.3f %8.3f %8.3g %8.3g %6.3g  %s", name, op,
                   s * 1e3, 100 * s / update, r->seconds[0] * 1e3, r->seconds[1] * 1e3, r->seconds[2] * 1e3,
                   per_update(t, r->flops) / 1e9, s > 0 ? per_update(t, r->flops) / s / 1e9 : 0.0,
                   s > 0 ? per_update(t, r->bytes) / s / 1e9 : 0.0, end);
}

static void add_row(ot_node_row *to, const ot_node_row *r)
{
    for (int k = 0; k < OT_STAGES; k++) {
        to->seconds[k] += r->seconds[k];
        to->flops[k] += r->flops[k];
        to->bytes[k] += r->bytes[k];
    }
}

static void say_table(const ot_trainer *t, const ot_node_row *const *sorted)
{
    const ot_profile *p = t->profile;
    double update = p->seconds / (double)p->done, kernels = kernel_seconds(p), at_most;
    ot_node_row rest = { 0 };
    char more[40], end[160];
    ot_trainer_say(t, OT_INFO, "profile of %lld update%s: %.3f ms per update, %.3f ms (%.1f %%) in kernels",
                   (long long)p->done, p->done == 1 ? "" : "s", update * 1e3, kernels * 1e3, 100 * kernels / update);
    ot_trainer_say(t, OT_INFO, "%-20s %-12s %8s %5s %8s %8s %8s %8s %8s %6s  %s", "node", "operator", "ms", "%",
                   "forward", "backward", "update", "GFLOP", "GFLOP/s", "GB/s", "ceiling, kernels");
    for (int i = 0; i < p->table.n; i++) {
        const char *of;
        const ot_node_row *r = sorted[i];
        if (i >= SHOWN) {
            add_row(&rest, r);
            continue;
        }
        at_most = ceiling_share(t, r, &of);
        snprintf(end, sizeof end, "%3.0f %% %s, %s", 100 * at_most, of, r->kernels);
        say_row(t, r->name, r->op, r, end);
    }
    snprintf(more, sizeof more, "(%d more)", p->table.n - SHOWN);
    if (p->table.n > SHOWN) say_row(t, more, "", &rest, "");
    ot_trainer_say(t, OT_INFO, "%-33s %8.3f %5.1f", "(batches and the rest)", (update - kernels) * 1e3,
                   100 * (update - kernels) / update);
}

/* ---- files --------------------------------------------------------------------------------------- */

static json_t *json_row(const ot_trainer *t, const ot_node_row *r)
{
    const char *of;
    double share = ceiling_share(t, r, &of), s = row_seconds(r);
    json_t *o = json_pack("{s:o, s:s, s:s}", "node", ot_json_text(r->name), "operator", r->op, "kernels", r->kernels);
    ot_json_real(&o, "ms", s * 1e3);
    for (int k = 0; k < OT_STAGES; k++) {
        char key[24];
        snprintf(key, sizeof key, "%s_ms", ot_stage_names[k]);
        ot_json_real(&o, key, r->seconds[k] * 1e3);
    }
    ot_json_real(&o, "flops", per_update(t, r->flops));
    ot_json_real(&o, "bytes", per_update(t, r->bytes));
    ot_json_real(&o, "share_of_ceiling", share);
    ot_json_set(&o, "ceiling", json_string(of));
    return o;
}

static json_t *json_profile(const ot_trainer *t, const ot_node_row *const *sorted)
{
    const ot_profile *p = t->profile;
    json_t *o = json_pack("{s:o, s:s, s:i, s:I, s:I, s:i}", "model", ot_json_text(t->m->file->path), "device",
                          ot_device_name(&t->s, t->x.device, t->a), "threads", t->x.threads, "batch_size",
                          (json_int_t)t->batch, "updates", (json_int_t)p->done, "accumulate", t->s.accumulate);
    json_t *list = json_array();
    ot_json_real(&o, "update_ms", p->seconds / (double)p->done * 1e3);
    ot_json_real(&o, "kernels_ms", kernel_seconds(p) * 1e3);
    ot_json_real(&o, "ceiling_flops_per_second", p->ceilings.flops);
    ot_json_real(&o, "ceiling_bytes_per_second", p->ceilings.bytes);
    ot_json_real(&o, "ceiling_cached_bytes_per_second", p->ceilings.cached);
    for (int i = 0; i < p->table.n; i++) ot_json_add(&list, json_row(t, sorted[i]));
    ot_json_set(&o, "nodes", list);
    return o;
}

static void print_csv(const ot_trainer *t, const ot_node_row *const *sorted, FILE *f)
{
    fputs("node,operator,kernels,ms,forward_ms,backward_ms,update_ms,flops,bytes,share_of_ceiling,ceiling\n", f);
    for (int i = 0; i < t->profile->table.n; i++) {
        const char *of;
        const ot_node_row *r = sorted[i];
        double share = ceiling_share(t, r, &of);
        ot_csv_text(r->name, f), fprintf(f, ",%s,", r->op), ot_csv_text(r->kernels, f);
        fprintf(f, ",%.6g,%.6g,%.6g,%.6g,%.9g,%.9g,%.4g,%s\n", row_seconds(r) * 1e3, r->seconds[0] * 1e3,
                r->seconds[1] * 1e3, r->seconds[2] * 1e3, per_update(t, r->flops), per_update(t, r->bytes), share, of);
    }
}

/* Writes the last measured update in Chrome's trace format, which Perfetto opens; times in microseconds. */
static json_t *json_trace(const ot_profile *p)
{
    json_t *list = json_array();
    double shift = 0, end = 0;
    for (int i = 0; i < p->table.n_steps; i++) {
        const ot_step *s = ot_plan_step(p->plan, i);
        const ot_node_row *r = &p->table.row[p->table.of[i]];
        char shape[128] = "", title[48];
        if (i == p->plan->n_batch_steps) shift = end;
        double at = shift + p->timing.began[i];
        double took = p->timing.spent[i] / (double)(i < p->plan->n_batch_steps ? p->timing.batches : p->timing.updates);
        if (i + 1 < p->table.n_steps && i + 1 != p->plan->n_batch_steps)
            took = p->timing.began[i + 1] - p->timing.began[i]; /* of that update; else the mean */
        if (at + took > end) end = at + took;
        if (s->node->op->flags & OT_ALIAS) continue;
        if (s->node->n_out && s->node->out[0]) ot_shape_text(&s->node->out[0]->shape, shape);
        json_t *one =
            json_pack("{s:o, s:s, s:s, s:i, s:i, s:{s:s, s:s, s:s, s:s}}", "name", ot_json_text(r->name), "cat",
                      ot_stage_names[s->node->stage], "ph", "X", "pid", 1, "tid", 1, "args", "operator", r->op,
                      "kernel", s->kernel->name, "of", ot_node_title(s->node, title), "shape", shape);
        ot_json_real(&one, "ts", at * 1e6);
        ot_json_real(&one, "dur", took * 1e6);
        ot_json_add(&list, one);
    }
    return json_pack("{s:o, s:s}", "traceEvents", list, "displayTimeUnit", "ms");
}

static ot_status write_file(const ot_trainer *t, const char *name, const char *text, ot_error *err)
{
    return text ? ot_replace_file(t->folder.fd, t->folder.path, name, text, strlen(text), err)
                : ot_fail(err, OT_E_NOMEM, "no memory for %s", name);
}

static ot_status write_json(const ot_trainer *t, const char *name, json_t *v, ot_error *err)
{
    char *text = v ? ot_json_dump(v, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(v);
    ot_status s = write_file(t, name, text, err);
    free(text);
    return s;
}

static ot_status write_files(const ot_trainer *t, const ot_node_row *const *sorted, ot_error *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (f) print_csv(t, sorted, f);
    bool whole = f && ot_memstream_close(f);
    ot_status s = write_file(t, "profile.csv", whole ? text : NULL, err);
    free(text);
    if (!s) s = write_json(t, "profile.json", json_profile(t, sorted), err);
    return s ? s : write_json(t, "trace.json", json_trace(t->profile), err);
}

/* A file that cannot be written does not end the training. */
static ot_status show(ot_trainer *t, ot_error *err)
{
    ot_profile *p = t->profile;
    ot_error e = { 0 };
    const ot_node_row **sorted;
    OT_TRY(ot_node_table_new(t->x.model->file->graph, p->plan, t->a, &p->table, err));
    ot_node_table_time(&p->table, p->plan, &p->timing);
    sorted = ot_arena_alloc(t->a, sizeof *sorted * (size_t)(p->table.n + 1));
    p->moving = ot_arena_alloc(t->a, sizeof *p->moving * (size_t)(p->table.n + 1));
    if (!sorted || !p->moving) return ot_fail(err, OT_E_NOMEM, "no memory for the profile");
    find_moving(t);
    for (int i = 0; i < p->table.n; i++) sorted[i] = &p->table.row[i];
    qsort(sorted, (size_t)p->table.n, sizeof *sorted, by_seconds);
    say_table(t, sorted);
    if (!t->folder.path) return OT_OK;
    ot_status s = write_files(t, sorted, &e);
    if (!s) {
        ot_trainer_say(t, OT_INFO, "profile: %s/profile.csv, profile.json; trace.json is for ui.perfetto.dev",
                       t->folder.path);
        return OT_OK;
    }
    ot_trainer_say(t, OT_WARNING, "%-s; training continues", e.text);
    ot_fail(&t->lost, s, "%-s", e.text);
    return OT_OK;
}

ot_status ot_profile_close(ot_trainer *t, ot_error *err)
{
    ot_profile *p = t->profile;
    if (!p) return OT_OK;
    t->profile = NULL;
    if (!p->done) {
        ot_trainer_say(t, OT_WARNING, "--profile: no update with full batches was measured");
        return OT_OK;
    }
    t->profile = p;
    ot_status s = show(t, err);
    t->profile = NULL;
    return s;
}
