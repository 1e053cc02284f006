/* settings.c - what a set of options comes to: numbers, things, lists. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/losses/losses.h"
#include "runtime/optimizers/optimizers.h"
#include "runtime/passes/lora.h"
#include "runtime/train/options/options.h"
#include "runtime/picture/augment.h"
#include "runtime/train/options/schedules.h"
#include "runtime/train/options/specs.h"
#include "runtime/train/options/metrics.h"

/* A whole number from 1, of epochs, updates, classes. */
static bool counts(const char *text, double *n)
{
    return ot_number(text, n) && *n >= 1 && *n <= 1e9 && *n == floor(*n);
}

/* The part of text in front of `end`; NULL with an error: no memory. */
static const char *head_of(const char *text, const char *end, ot_arena *a, ot_error *err)
{
    const char *head = ot_arena_printf(a, "%.*s", (int)(end - text), text);
    if (!head) ot_fail(err, OT_E_NOMEM, "no memory for options");
    return head;
}

/* --name X for the optimizer's parameter `key`. */
static ot_status short_form(const ot_options *o, const char *name, const char *key, ot_settings *s, ot_arena *a,
                            ot_error *err)
{
    if (!ot_options_get(o, name)) return OT_OK;
    if (ot_entry_key(s->options.optimizer.entry, key))
        return ot_spec_set(&s->options.optimizer, key, ot_options_num(o, name), a, err);
    return ot_fail(err, OT_E_USAGE, "--%s: optimizer %s has no %s", name, s->options.optimizer.name, key);
}

static ot_status check_optimizer(const ot_spec *t, ot_error *err)
{
    const ot_optimizer *o = ot_optimizer_find(t->name);
    const char *why = o->refuses ? o->refuses(t) : NULL;
    return why ? ot_fail(err, OT_E_USAGE, "--optimizer %s: %s", t->name, why) : OT_OK;
}

static ot_status read_device(const char *device, ot_settings *s, ot_error *err)
{
    const char *digits = strncmp(device, "cuda:", 5) ? "" : device + 5;
    bool number = *digits && strlen(digits) < 5 && !digits[strspn(digits, "0123456789")];
    s->device = !strcmp(device, "cpu") ? OT_DEVICE_CPU : !strcmp(device, "auto") ? OT_DEVICE_AUTO : OT_DEVICE_CUDA;
    s->device_index = number ? atoi(digits) : 0;
    if (s->device != OT_DEVICE_CUDA || !strcmp(device, "cuda") || number) return OT_OK;
    return ot_fail(err, OT_E_USAGE, "--device: invalid value '%s'; expected auto, cpu, cuda or cuda:N", device);
}

static ot_status read_dropout(const ot_options *o, double *out, ot_error *err)
{
    const char *text = ot_options_get(o, "dropout");
    double p;
    *out = -1;
    if (!strcmp(text, "file")) return OT_OK;
    if (!strcmp(text, "off")) {
        *out = 0;
        return OT_OK;
    }
    if (!ot_number(text, &p) || !(p >= 0 && p < 1))
        return ot_fail(err, OT_E_USAGE, "--dropout: invalid value '%s'; expected file, off, or a ratio below 1", text);
    *out = p;
    return OT_OK;
}

static ot_status read_added_dropout(const ot_options *o, double *out, ot_error *err)
{
    *out = ot_options_get(o, "add-dropout") ? ot_options_num(o, "add-dropout") : 0;
    return *out < 1 ? OT_OK
                    : ot_fail(err, OT_E_USAGE, "--add-dropout: invalid value '%s'; expected a ratio below 1",
                              ot_options_get(o, "add-dropout"));
}

static ot_status copy_list(const ot_options *o, const char *name, ot_arena *a, int *n, const char *const **out,
                           ot_error *err)
{
    int count = ot_options_count(o, name), used = 0, most = 0;
    for (int i = 0; i < count; i++)
        for (const char *p = ot_options_nth(o, name, i); p; p = strchr(p + 1, ',')) most++;
    const char **list = ot_arena_alloc(a, sizeof *list * (size_t)(most + 1));
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory for options");

    /* Only --no-decay is a list in itself: names of initializers may hold commas. */
    bool split = !strcmp(name, "no-decay");
    for (int i = 0; i < count; i++) {
        const char *p = ot_options_nth(o, name, i);
        do {
            size_t k = split ? strcspn(p, ",") : strlen(p);
            char *one = ot_arena_printf(a, "%.*s", (int)k, p);
            if (!one) return ot_fail(err, OT_E_NOMEM, "no memory for options");
            if (!*one) return ot_fail(err, OT_E_USAGE, "--%s: empty name", name);
            list[used++] = one;
            p += k + (p[k] == ',');
        } while (split && *p);
    }
    *n = used;
    *out = list;
    return OT_OK;
}

/* "auto" beside patterns. */
static ot_status read_untie(const ot_options *o, ot_arena *a, ot_settings *s, ot_error *err)
{
    const char *const *all;
    int n;
    OT_TRY(copy_list(o, "untie", a, &n, &all, err));
    const char **list = ot_arena_alloc(a, sizeof *list * (size_t)(n + 1));
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    for (int i = 0; i < n; i++) {
        if (!strcmp(all[i], "auto")) s->untie_auto = true;
        else list[s->n_untie++] = all[i];
    }
    s->untie = list;
    return OT_OK;
}

/* "PATTERN=X"; the last '=' counts, patterns may hold others. */
static ot_status read_lr_scales(const ot_options *o, ot_arena *a, ot_settings *s, ot_error *err)
{
    int n = ot_options_count(o, "lr-scale");
    const char **pattern = ot_arena_alloc(a, sizeof *pattern * (size_t)(n + 1));
    double *by = ot_arena_alloc(a, sizeof *by * (size_t)(n + 1));
    if (!pattern || !by) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    for (int i = 0; i < n; i++) {
        const char *text = ot_options_nth(o, "lr-scale", i), *eq = strrchr(text, '=');
        if (!eq || eq == text || !ot_number(eq + 1, &by[i]) || by[i] < 0)
            return ot_fail(err, OT_E_USAGE, "--lr-scale: expected PATTERN=X with X at least 0, got '%s'", text);
        if (!(pattern[i] = head_of(text, eq, a, err))) return OT_E_NOMEM;
    }
    s->options.n_lr_scale = n;
    s->options.lr_scale = pattern;
    s->options.lr_scale_by = by;
    return OT_OK;
}

/* "rank=8,alpha=16" */
static ot_status read_lora(const ot_options *o, ot_arena *a, ot_settings *s, ot_error *err)
{
    const char *text = ot_options_get(o, "lora");
    const char *how = text ? ot_arena_printf(a, "%s:%s", ot_loras.entries[0]->name, text) : NULL;
    if (!text) return OT_OK;
    return how ? ot_spec_parse(how, &ot_loras, NULL, a, &s->lora, err)
               : ot_fail(err, OT_E_NOMEM, "no memory for options");
}

/* "auto", N, or "OUTPUT=" before either; the last '=' counts. */
static ot_status read_classes(const ot_options *o, ot_arena *a, ot_settings *s, ot_error *err)
{
    int n = ot_options_count(o, "classes");
    ot_classes_wish *list = ot_arena_alloc(a, sizeof *list * (size_t)(n + 1));
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    for (int i = 0; i < n; i++) {
        const char *text = ot_options_nth(o, "classes", i), *eq = strrchr(text, '='), *value = eq ? eq + 1 : text;
        double count = 0;
        if (strcmp(value, "auto") && !counts(value, &count))
            return ot_fail(err, OT_E_USAGE,
                           "--classes: invalid value '%s'; expected a number of classes, auto, or OUTPUT=N", text);
        list[i] = (ot_classes_wish){ .output = eq ? head_of(text, eq, a, err) : NULL, .n = (int64_t)count };
        if (eq && !list[i].output) return OT_E_NOMEM;
        for (int k = 0; k < i; k++)
            if (!strcmp(list[k].output ? list[k].output : "", list[i].output ? list[i].output : ""))
                return ot_fail(err, OT_E_USAGE, "--classes %s: is given twice for one output", text);
    }
    s->n_classes = n;
    s->classes = list;
    return OT_OK;
}

/* "PATTERN@EPOCH"; the last '@' counts. */
static ot_status read_unfreeze(const ot_options *o, ot_arena *a, ot_settings *s, ot_error *err)
{
    int n = ot_options_count(o, "unfreeze");
    const char **pattern = ot_arena_alloc(a, sizeof *pattern * (size_t)(n + 1));
    int64_t *at = ot_arena_alloc(a, sizeof *at * (size_t)(n + 1));
    if (!pattern || !at) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    for (int i = 0; i < n; i++) {
        const char *text = ot_options_nth(o, "unfreeze", i), *sign = strrchr(text, '@');
        double epoch;
        if (!sign || sign == text || !counts(sign + 1, &epoch))
            return ot_fail(err, OT_E_USAGE, "--unfreeze: expected PATTERN@EPOCH with an epoch from 1, got '%s'", text);
        at[i] = (int64_t)epoch;
        if (!(pattern[i] = head_of(text, sign, a, err))) return OT_E_NOMEM;
    }
    s->options.n_unfreeze = n;
    s->options.unfreeze = pattern;
    s->options.unfreeze_at = at;
    return OT_OK;
}

static ot_status read_losses(const ot_options *o, const char *const *outputs, ot_arena *a, ot_settings *s,
                             ot_error *err)
{
    int n = ot_options_count(o, "loss");
    s->options.losses = ot_arena_alloc(a, sizeof *s->options.losses * (size_t)(n + 1));
    if (!s->options.losses) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    for (int i = 0; i < n; i++)
        OT_TRY(ot_spec_parse(ot_options_nth(o, "loss", i), &ot_losses, outputs, a, &s->options.losses[i], err));
    ot_error why = { 0 };
    if (ot_losses_settle(s->options.losses, n, outputs, a, &why))
        return ot_fail(err, why.status, "--loss: %-s", why.text);
    s->options.n_losses = n;
    return OT_OK;
}

/* Where a step ends: at a comma outside of brackets before another name, not before the next key; else at the end. */
static const char *step_end(const char *text)
{
    int depth = 0;
    for (; *text; text++) {
        depth += (*text == '[') - (*text == ']');
        if (*text == ',' && !depth && text[1 + strcspn(text + 1, ",:=")] != '=') break;
    }
    return text;
}

static ot_status read_augment(const ot_options *o, ot_arena *a, ot_settings *s, ot_error *err)
{
    int given = ot_options_count(o, "augment"), most = given;
    for (int i = 0; i < given; i++)
        for (const char *c = ot_options_nth(o, "augment", i); *c; c++) most += *c == ',';
    ot_spec *list = ot_arena_alloc(a, sizeof *list * (size_t)(most + 1));
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory for the options");
    s->augment = list;
    s->n_augment = 0;
    for (int i = 0; i < given; i++)
        for (const char *at = ot_options_nth(o, "augment", i), *end;; at = end + 1) {
            end = step_end(at);
            const char *step = ot_arena_printf(a, "%.*s", (int)(end - at), at);
            if (!step) return ot_fail(err, OT_E_NOMEM, "no memory for the options");
            OT_TRY(ot_spec_parse(step, &ot_augmentations, NULL, a, &list[s->n_augment++], err));
            if (!*end) break;
        }
    return OT_OK;
}

/* "N" or "N:alpha=X". */
static ot_status read_lookahead(const ot_options *o, ot_settings *s, ot_error *err)
{
    static const char alpha[] = "alpha=";
    const char *text = ot_options_get(o, "lookahead"), *key = text ? strchr(text, ':') : NULL;
    char head[32] = "";
    double n = 0;
    if (!text) return OT_OK;
    size_t digits = key ? (size_t)(key - text) : strlen(text);
    if (digits < sizeof head) snprintf(head, sizeof head, "%.*s", (int)digits, text);
    s->options.lookahead_alpha = 0.5;
    bool good = counts(head, &n);
    if (good && key)
        good = !strncmp(key + 1, alpha, sizeof alpha - 1) &&
               ot_number(key + sizeof alpha, &s->options.lookahead_alpha) && s->options.lookahead_alpha > 0 &&
               s->options.lookahead_alpha <= 1;
    s->options.lookahead = (int64_t)n;
    if (good) return OT_OK;
    return ot_fail(
        err, OT_E_USAGE,
        "--lookahead: invalid value '%s'; expected a number of updates, and ':alpha=X' after it with X above 0 and "
        "at most 1",
        text);
}

/* "500MiB", "2GB"; bytes without a unit. */
static ot_status read_size(const ot_options *o, const char *name, int64_t *out, ot_error *err)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = { { "", 1 },       { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 },
                  { "K", 0x1p10 }, { "M", 0x1p20 },   { "G", 0x1p30 },   { "T", 0x1p40 },   { "kB", 1e3 },
                  { "KB", 1e3 },   { "MB", 1e6 },     { "GB", 1e9 },     { "TB", 1e12 } };
    const char *text = ot_options_get(o, name);
    size_t digits = text ? strspn(text, "0123456789.") : 0;
    char head[32];
    double n;
    *out = 0;
    if (!text) return OT_OK;
    if (digits < sizeof head) snprintf(head, sizeof head, "%.*s", (int)digits, text);
    for (int i = 0; digits && digits < sizeof head && ot_number(head, &n) && i < OT_LEN(units); i++)
        if (!strcmp(text + digits, units[i].unit) && n * units[i].bytes >= 1 && n * units[i].bytes <= 0x1p60) {
            *out = (int64_t)(n * units[i].bytes);
            return OT_OK;
        }
    return ot_fail(err, OT_E_USAGE, "--%s: invalid value '%s'; expected a size such as 500MiB or 2GiB", name, text);
}

/* "EPOCH" or "FRACTION", with ":per=update". */
static ot_status read_swa(const ot_options *o, ot_settings *s, ot_error *err)
{
    const char *text = ot_options_get(o, "swa"), *per = text ? strchr(text, ':') : NULL;
    char head[32] = "";
    if (!text) return OT_OK;
    if (s->options.ema > 0) return ot_fail(err, OT_E_USAGE, "--ema and --swa: use one of them");
    size_t n = per ? (size_t)(per - text) : strlen(text);
    if (n < sizeof head) snprintf(head, sizeof head, "%.*s", (int)n, text);
    s->swa_updates = per && !strcmp(per, ":per=update");
    bool good = ot_number(head, &s->swa) && s->swa > 0 && s->swa <= 1e9 && (s->swa < 1 || s->swa == floor(s->swa));
    if (good && (!per || s->swa_updates || !strcmp(per, ":per=epoch"))) return OT_OK;
    return ot_fail(
        err, OT_E_USAGE,
        "--swa: invalid value '%s'; expected an epoch from 1 or a fraction below 1, and ':per=update' after it "
        "to average updates",
        text);
}

/* "FILE:key=value,key=value"; a file's name may have colons. */
static ot_status read_teacher(const ot_options *o, ot_arena *a, ot_settings *s, ot_error *err)
{
    const char *text = ot_options_get(o, "teacher"), *keys = text ? strrchr(text, ':') : NULL;
    if (!text) return OT_OK;
    if (keys && (!strchr(keys, '=') || strchr(keys, '/'))) keys = NULL;
    s->teacher = ot_arena_printf(a, "%.*s", (int)(keys ? keys - text : (long)strlen(text)), text);
    const char *how = ot_arena_printf(a, "%s%s", ot_teachers.entries[0]->name, keys ? keys : "");
    if (!s->teacher || !how) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    if (!*s->teacher) return ot_fail(err, OT_E_USAGE, "--teacher: expected FILE[:key=value,...], got '%s'", text);
    return ot_spec_parse(how, &ot_teachers, NULL, a, &s->learns, err);
}

static ot_target_scale_choice target_scale_of(const char *text)
{
    return !strcmp(text, "none") ? OT_TARGET_AS_IS : !strcmp(text, "mean,std") ? OT_TARGET_STANDARD : OT_TARGET_AUTO;
}

static bool read_side(const char **p, int64_t *out)
{
    enum { LARGEST = 1 << 16 };
    char *end;
    bool digit = **p >= '0' && **p <= '9';
    *out = strtol(*p, &end, 10);
    *p = end;
    return digit && *out >= 1 && *out <= LARGEST;
}

/* "N" or "HxW". */
static ot_status read_image_size(const ot_options *o, ot_settings *s, ot_error *err)
{
    const char *text = ot_options_get(o, "image-size"), *p = text;
    if (!text) return OT_OK;
    bool good = read_side(&p, &s->image_height);
    s->image_width = s->image_height;
    if (good && *p == 'x') p++, good = read_side(&p, &s->image_width);
    return good && !*p ? OT_OK
                       : ot_fail(err, OT_E_USAGE,
                                 "--image-size: invalid value '%s'; expected N or HxW (height x width), such as 128 or "
                                 "96x160",
                                 text);
}

/* Options of a single value that may be missing, and sets of data. */
static ot_status read_texts(const ot_options *o, ot_arena *a, ot_settings *s, ot_error *err)
{
    s->data = ot_options_joined(o, "data", a);
    s->val = ot_options_joined(o, "val", a);
    s->test = ot_options_joined(o, "test", a);
    if (!s->data != !ot_options_count(o, "data") || !s->val != !ot_options_count(o, "val") ||
        !s->test != !ot_options_count(o, "test"))
        return ot_fail(err, OT_E_NOMEM, "no memory for options");
    s->normalize =
        ot_options_nth(o, "normalize", 0); /* nth, not get: no default, so that only the user's values count */
    s->target_scale = target_scale_of(ot_options_get(o, "normalize-target"));
    s->target = ot_options_nth(o, "target", 0);
    s->columns = ot_options_nth(o, "inputs", 0);
    s->categories = ot_options_get(o, "categories");
    s->passed = ot_options_get(o, "passthrough");
    s->text = ot_options_get(o, "text");
    s->tokenizer = ot_options_get(o, "tokenizer");
    s->out = ot_options_get(o, "o");
    s->run_dir = ot_options_get(o, "run-dir");
    s->log = ot_options_get(o, "log");
    s->tensorboard = ot_options_get(o, "tensorboard");
    if (s->tensorboard && !strcmp(s->tensorboard, "false")) s->tensorboard = NULL;
    if (s->log && !strcmp(s->log, "-")) s->log = NULL; /* the callback has the lines */
    s->options.eval_mode = !strcmp(ot_options_get(o, "mode"), "eval");
    s->json = ot_options_flag(o, "json");
    s->why = ot_options_flag(o, "why");
    s->description = ot_options_get(o, "device-description");
    s->training_info = ot_options_flag(o, "training-info");
    s->unfold_bn = ot_options_flag(o, "unfold-bn");
    s->freeze_backbone = ot_options_flag(o, "freeze-backbone");
    s->tune = ot_options_flag(o, "tune");
    s->graph = ot_options_flag(o, "graph");
    s->quiet = ot_options_flag(o, "quiet");
    s->verbose = ot_options_flag(o, "verbose");
    s->shuffle = !ot_options_flag(o, "no-shuffle");
    s->drop_last = ot_options_flag(o, "drop-last");
    s->options.skip_nonfinite = !strcmp(ot_options_get(o, "on-nonfinite"), "skip");
    return OT_OK;
}

const char *ot_precision_name(ot_precision p)
{
    static const char *const name[] = {
        [OT_FP32] = "fp32", [OT_TF32] = "tf32", [OT_PREC_BF16] = "bf16", [OT_PREC_FP16] = "fp16"
    };
    return name[p];
}

static void read_precision(const ot_options *o, ot_settings *s)
{
    const char *p = ot_options_get(o, "precision");
    s->auto_precision = !strcmp(p, "auto");
    s->options.precision = !strcmp(p, "tf32")   ? OT_TF32
                           : !strcmp(p, "bf16") ? OT_PREC_BF16
                           : !strcmp(p, "fp16") ? OT_PREC_FP16
                                                : OT_FP32;
}

static void read_numbers(const ot_options *o, ot_settings *s)
{
    const char *bn = ot_options_get(o, "bn");
    s->batch = ot_options_int(o, "batch-size"); /* of "auto" 0 */
    s->batch_auto = ot_options_get(o, "batch-size") && !strcmp(ot_options_get(o, "batch-size"), "auto");
    s->epochs = ot_options_int(o, "epochs");
    s->length = ot_options_int(o, "length");
    s->stride = ot_options_int(o, "stride");
    s->split_column = ot_options_get(o, "split");
    s->group = ot_options_get(o, "group");
    s->ahead = ot_options_int(o, "ahead");
    s->has_ahead = ot_options_get(o, "ahead") != NULL;
    s->steps = ot_options_int(o, "steps");
    s->accumulate = (int)ot_options_int(o, "accumulate");
    s->threads = (int)ot_options_int(o, "threads");
    s->workers = ot_options_count(o, "workers") ? (int)ot_options_int(o, "workers") : -1;
    s->cache = ot_options_get(o, "cache") && !strcmp(ot_options_get(o, "cache"), "memory");
    s->skip_bad = ot_options_int(o, "skip-bad");
    s->seed = (uint64_t)ot_options_int(o, "seed");
    s->keep = (int)ot_options_int(o, "keep");
    s->patience = ot_options_int(o, "patience");
    s->min_delta = ot_options_num(o, "min-delta");
    s->val_split = ot_options_num(o, "val-split");
    s->all_metrics = !strcmp(ot_options_get(o, "metrics"), "all");
    s->select_best = !strcmp(ot_options_get(o, "select"), "best");
    s->options.clip_norm = ot_options_num(o, "clip-norm");
    s->options.l1 = ot_options_get(o, "l1") ? ot_options_num(o, "l1") : 0;
    s->options.layer_decay = ot_options_num(o, "layer-decay");
    s->options.ema = ot_options_get(o, "ema") ? ot_options_num(o, "ema") : 0;
    s->options.clip_value = ot_options_num(o, "clip-value");
    s->options.bn = !strcmp(bn, "train") ? OT_BN_TRAIN : !strcmp(bn, "frozen") ? OT_BN_FROZEN : OT_BN_AUTO;
    s->options.tie = ot_options_flag(o, "tie");
    s->options.fit_scales = !strcmp(ot_options_get(o, "quantized-scales"), "recompute");
    s->options.bn_unbiased = !strcmp(ot_options_get(o, "bn-variance"), "unbiased");
}

/* "5min", "none"; with `counts` also "100steps", "2epochs". */
static ot_status read_interval(const ot_options *o, const char *name, bool counts, ot_interval *out, ot_error *err)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = { { "s", 1 },    { "min", 60 },   { "h", 3600 }, { "steps", 0 },
                  { "step", 0 }, { "epochs", 0 }, { "epoch", 0 } };
    const char *text = ot_options_get(o, name);
    size_t digits = strspn(text, "0123456789.");
    char head[32];
    double n;
    *out = (ot_interval){ 0 };
    if (!strcmp(text, "none")) return OT_OK;
    snprintf(head, sizeof head, "%.*s", (int)digits, text);
    for (int i = 0; digits && digits < sizeof head && ot_number(head, &n) && n > 0 && n <= 1e12 && i < OT_LEN(units);
         i++) {
        if (strcmp(text + digits, units[i].unit) != 0 || (!counts && !(units[i].seconds > 0))) continue;
        if (units[i].seconds > 0) {
            out->seconds = n * units[i].seconds;
            return OT_OK;
        }
        if (n != floor(n)) break;
        *(units[i].unit[0] == 's' ? &out->steps : &out->epochs) = (int64_t)n;
        return OT_OK;
    }
    return ot_fail(err, OT_E_USAGE, "--%s: invalid value '%s'; expected a time (30s, 5min, 1h)%s or none", name, text,
                   counts ? ", a count (100steps, 1epoch)" : "");
}

static ot_status read_histograms(const ot_options *o, ot_settings *s, ot_error *err)
{
    static const char name[] = "tensorboard-histograms";
    if (!ot_options_nth(o, name, 0)) return OT_OK;
    if (!s->tensorboard) return ot_fail(err, OT_E_USAGE, "--%s needs --tensorboard", name);
    s->options.keep_gradients = true;
    return read_interval(o, name, true, &s->histograms, err);
}

/* "10"; "true": the option without a number. */
static ot_status read_profile(const ot_options *o, ot_settings *s, ot_error *err)
{
    enum { DEFAULT = 10 };
    const char *text = ot_options_get(o, "profile");
    double n = DEFAULT;
    if (!text || !strcmp(text, "false")) return OT_OK;
    if (strcmp(text, "true") && !counts(text, &n))
        return ot_fail(err, OT_E_USAGE, "--profile: invalid value '%s'; expected a number of updates, --profile=10",
                       text);
    s->profile = (int64_t)n;
    return OT_OK;
}

/* "5", or "2/5". */
static ot_status read_folds(const ot_options *o, ot_settings *s, ot_error *err)
{
    enum { MOST = 1000 };
    const char *text = ot_options_get(o, "folds"), *slash = text ? strchr(text, '/') : NULL;
    char head[16] = "0";
    double fold = 0, folds = 0;
    if (!text) return OT_OK;
    if (slash) snprintf(head, sizeof head, "%.*s", (int)(slash - text), text);
    bool good = ot_number(head, &fold) && ot_number(slash ? slash + 1 : text, &folds) && folds >= 2 && folds <= MOST &&
                folds == floor(folds) && fold == floor(fold) && fold >= (slash ? 1 : 0) && fold <= folds;
    if (!good)
        return ot_fail(err, OT_E_USAGE,
                       "--folds: invalid value '%s'; expected a number of folds from 2 to %d, or one of them as 2/5",
                       text, MOST);
    if (s->val || s->val_split > 0)
        return ot_fail(err, OT_E_USAGE, "--folds and --%s: use one of them", s->val ? "val" : "val-split");
    s->fold = (int)fold;
    s->folds = (int)folds;
    return OT_OK;
}

/* "true", or a number of batches. */
static ot_status read_overfit(const ot_options *o, ot_settings *s, ot_error *err)
{
    const char *text = ot_options_get(o, "overfit-batch"), *other = NULL;
    double n = 1;
    if (!text || !strcmp(text, "false")) return OT_OK;
    if (strcmp(text, "true") && !counts(text, &n))
        return ot_fail(err, OT_E_USAGE, "--overfit-batch: invalid value '%s'; expected a number of batches", text);
    other = s->folds           ? "folds"
            : s->val           ? "val"
            : s->val_split > 0 ? "val-split"
            : s->test          ? "test"
            : s->patience      ? "patience"
                               : NULL;
    if (other) return ot_fail(err, OT_E_USAGE, "--overfit-batch evaluates nothing: remove --%s", other);
    s->overfit = (int64_t)n;
    return OT_OK;
}

/* METRIC, or OUTPUT.METRIC with the name of an output, which may have points too. */
static ot_status read_monitor(const ot_options *o, const char *const *outputs, ot_arena *a, ot_settings *s,
                              ot_error *err)
{
    const char *text = ot_options_nth(o, "monitor", 0), *point = text ? strrchr(text, '.') : NULL;
    char shown[300];
    bool known = !point || !outputs;
    s->monitor = -1;
    if (!text) return OT_OK;
    for (int i = 0; ot_metrics.entries[i]; i++)
        if (!strcmp(point ? point + 1 : text, ot_metrics.entries[i]->name)) s->monitor = i;
    for (int i = 0; point && outputs && outputs[i]; i++)
        if (strlen(outputs[i]) == (size_t)(point - text) && !strncmp(outputs[i], text, (size_t)(point - text)))
            s->monitor_output = outputs[i], known = true;
    const char *name = point ? point + 1 : text, *set = strncmp(name, "val_", 4) ? NULL : name + 4;
    for (int i = 0; set && s->monitor < 0 && ot_metrics.entries[i]; i++)
        if (!strcmp(set, ot_metrics.entries[i]->name))
            return ot_fail(err, OT_E_USAGE,
                           "--monitor %s: metrics are named without val_ and measured on the validation set (--val, "
                           "--val-split): use --monitor %.*s%s",
                           text, (int)(name - text), text, set);
    if (s->monitor < 0)
        return ot_fail(err, OT_E_USAGE, "--monitor: unknown metric '%s'; see 'onnxtrain help metric'", name);
    if (!known)
        return ot_fail(err, OT_E_USAGE, "--monitor %s: the model has no output '%.*s'", text, (int)(point - text),
                       text);
    ot_shown(text, shown, sizeof shown);
    s->monitor_name = ot_arena_strdup(a, shown);
    s->watched = ot_arena_printf(a, "val %s", shown);
    return s->monitor_name && s->watched ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for options");
}

/* What decides which epoch is the best, and when to stop. */
static ot_status read_watch(const ot_options *o, const char *const *outputs, ot_arena *a, ot_settings *s, ot_error *err)
{
    ot_interval limit = { 0 };
    OT_TRY(read_monitor(o, outputs, a, s, err));
    OT_TRY(read_folds(o, s, err));
    OT_TRY(read_overfit(o, s, err));
    const char *part = s->val ? "val" : s->test ? "test" : s->val_split > 0 ? "val-split" : s->folds ? "folds" : NULL;
    if (s->split_column && part)
        return ot_fail(err, OT_E_USAGE,
                       "--split and --%s: use one of them; the column of --split names the rows of each part", part);
    if (s->val && s->val_split > 0) return ot_fail(err, OT_E_USAGE, "--val and --val-split: use one of them");
    if (s->val_split >= 1)
        return ot_fail(err, OT_E_USAGE, "--val-split: invalid value '%s'; expected a fraction between 0 and 1",
                       ot_options_get(o, "val-split"));
    if (!ot_options_nth(o, "time-limit", 0)) return OT_OK;
    OT_TRY(read_interval(o, "time-limit", false, &limit, err));
    s->time_limit = limit.seconds;
    return OT_OK;
}

ot_status ot_settings_read(const ot_options *o, const char *const *outputs, ot_arena *a, ot_settings *out,
                           ot_error *err)
{
    ot_settings *s = out;
    *s = (ot_settings){ 0 };
    OT_TRY(read_texts(o, a, s, err));
    OT_TRY(read_image_size(o, s, err));
    read_numbers(o, s);
    read_precision(o, s);
    OT_TRY(read_device(ot_options_get(o, "device"), s, err));
    OT_TRY(read_interval(o, "checkpoint-every", true, &s->checkpoint, err));
    OT_TRY(read_histograms(o, s, err));
    OT_TRY(read_watch(o, outputs, a, s, err));
    OT_TRY(read_profile(o, s, err));
    OT_TRY(ot_plots_read(o, &s->plots, err));
    OT_TRY(read_dropout(o, &s->options.dropout, err));
    OT_TRY(read_added_dropout(o, &s->options.add_dropout, err));
    OT_TRY(copy_list(o, "output", a, &s->n_outputs, &s->outputs, err));
    OT_TRY(read_losses(o, s->n_outputs ? s->outputs : outputs, a, s, err));
    OT_TRY(ot_spec_parse(ot_options_get(o, "optimizer"), &ot_optimizers, NULL, a, &s->options.optimizer, err));
    OT_TRY(short_form(o, "lr", "lr", s, a, err));
    OT_TRY(short_form(o, "momentum", "momentum", s, a, err));
    OT_TRY(short_form(o, "weight-decay", "weight_decay", s, a, err));
    OT_TRY(check_optimizer(&s->options.optimizer, err));
    OT_TRY(ot_spec_parse(ot_options_get(o, "schedule"), &ot_schedules, NULL, a, &s->schedule, err));
    OT_TRY(read_augment(o, a, s, err));
    OT_TRY(copy_list(o, "train", a, &s->options.n_train, &s->options.train, err));
    OT_TRY(copy_list(o, "freeze", a, &s->options.n_freeze, &s->options.freeze, err));
    OT_TRY(copy_list(o, "no-decay", a, &s->options.n_no_decay, &s->options.no_decay, err));
    OT_TRY(copy_list(o, "permute", a, &s->n_permute, &s->permute, err));
    OT_TRY(read_untie(o, a, s, err));
    OT_TRY(read_classes(o, a, s, err));
    OT_TRY(read_lora(o, a, s, err));
    OT_TRY(read_lookahead(o, s, err));
    OT_TRY(read_swa(o, s, err));
    OT_TRY(read_size(o, "memory-limit", &s->memory_limit, err));
    OT_TRY(read_teacher(o, a, s, err));
    OT_TRY(read_unfreeze(o, a, s, err));
    return read_lr_scales(o, a, s, err);
}
