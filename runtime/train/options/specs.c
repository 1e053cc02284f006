/* specs.c - the grammar of things with parameters: name:key=value,key=[1,2]. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/options/specs.h"

#define EVERY_LOSS "weight reduction tail"

const ot_spec_kind ot_losses[] = {
    { "cross_entropy", "class_axis ignore_index class_weights label_smoothing", EVERY_LOSS, NULL, OT_TAKES_CLASSES },
    { "nll", "class_axis ignore_index class_weights", EVERY_LOSS, NULL, OT_TAKES_CLASSES },
    { "bce", "pos_weight", EVERY_LOSS, NULL, OT_TAKES_VALUES },
    { "bce_with_logits", "pos_weight", EVERY_LOSS, NULL, OT_TAKES_VALUES },
    { "mse", "", EVERY_LOSS, NULL, OT_TAKES_VALUES },
    { "l1", "", EVERY_LOSS, NULL, OT_TAKES_VALUES },
    { "huber", "delta", EVERY_LOSS, NULL, OT_TAKES_VALUES },
    { "smooth_l1", "beta", EVERY_LOSS, NULL, OT_TAKES_VALUES },
    { "kl", "log_target", EVERY_LOSS, NULL, OT_TAKES_VALUES },
    { "hinge", "margin p class_axis", EVERY_LOSS, NULL, OT_TAKES_NUMBERS },
    { "focal", "gamma alpha class_axis ignore_index class_weights", EVERY_LOSS, NULL, OT_TAKES_EITHER },
    { "dice", "smooth eps class_axis", EVERY_LOSS, NULL, OT_TAKES_EITHER },
    { "ctc", "blank zero_infinity batch_first", EVERY_LOSS, NULL, OT_TAKES_SEQUENCES },
    { "cosine", "other margin", EVERY_LOSS, NULL, OT_TAKES_VALUES },
    { "triplet", "positive negative margin p eps swap", EVERY_LOSS, "positive negative", OT_TAKES_NOTHING },
    { "contrastive", "other margin p eps", EVERY_LOSS, "other", OT_TAKES_VECTORS },
    { "poisson_nll", "log_input full eps", EVERY_LOSS, NULL, OT_TAKES_VALUES },
    { "gaussian_nll", "var full eps", EVERY_LOSS, "var", OT_TAKES_VALUES },
    { "output", "", EVERY_LOSS, NULL, OT_TAKES_NOTHING },
    { NULL, NULL, NULL, NULL, 0 }
};

const ot_spec_kind *ot_loss_kind(const ot_spec *loss)
{
    const ot_spec_kind *k = ot_losses;
    while (strcmp(k->name, loss->name)) k++;
    return k;
}

#define EVERY_OPTIMIZER "lr weight_decay"
#define ADAM            "beta1 beta2 eps"

const ot_spec_kind ot_optimizers[] = {
    { "sgd", "momentum dampening nesterov", EVERY_OPTIMIZER, NULL, 0 },
    { "adam", ADAM " amsgrad", EVERY_OPTIMIZER, NULL, 0 },
    { "adamw", ADAM " amsgrad", EVERY_OPTIMIZER, NULL, 0 },
    { "adagrad", "lr_decay initial_accumulator_value eps", EVERY_OPTIMIZER, NULL, 0 },
    { "adadelta", "rho eps", EVERY_OPTIMIZER, NULL, 0 },
    { "rmsprop", "alpha eps centered momentum", EVERY_OPTIMIZER, NULL, 0 },
    { "adamax", ADAM, EVERY_OPTIMIZER, NULL, 0 },
    { "nadam", ADAM " momentum_decay decoupled_weight_decay", EVERY_OPTIMIZER, NULL, 0 },
    { "radam", ADAM " decoupled_weight_decay", EVERY_OPTIMIZER, NULL, 0 },
    { "lion", "beta1 beta2", EVERY_OPTIMIZER, NULL, 0 },
    { "lamb", ADAM, EVERY_OPTIMIZER, NULL, 0 },
    { "lars", "momentum eta trust_coefficient eps", EVERY_OPTIMIZER, NULL, 0 },
    { "muon", "momentum nesterov ns_steps", EVERY_OPTIMIZER, NULL, 0 },
    { NULL, NULL, NULL, NULL, 0 }
};

#define EVERY_SCHEDULE "warmup warmup_start_factor per"

const ot_spec_kind ot_schedules[] = {
    { "constant", "", EVERY_SCHEDULE, NULL, 0 },
    { "step", "step_size gamma", EVERY_SCHEDULE, "step_size", 0 },
    { "multistep", "milestones gamma", EVERY_SCHEDULE, "milestones", 0 },
    { "exponential", "gamma", EVERY_SCHEDULE, "gamma", 0 },
    { "cosine", "T_max eta_min", EVERY_SCHEDULE, NULL, 0 },
    { "cosine-restarts", "T_0 T_mult eta_min", EVERY_SCHEDULE, NULL, 0 },
    { "linear", "start_factor end_factor total_iters", EVERY_SCHEDULE, NULL, 0 },
    { "polynomial", "total_iters power", EVERY_SCHEDULE, NULL, 0 },
    { "onecycle",
      "max_lr total_steps pct_start anneal_strategy cycle_momentum base_momentum max_momentum "
      "div_factor final_div_factor",
      EVERY_SCHEDULE, NULL, 0 },
    { "plateau", "mode factor patience threshold threshold_mode cooldown min_lr", EVERY_SCHEDULE, NULL, 0 },
    { NULL, NULL, NULL, NULL, 0 }
};

/* ---- what values are possible ------------------------------------------------- */

typedef enum value_kind { FLAG, WORD, OUTPUT, WHOLE, NUMBER } value_kind;

/* How many values a key has: one, a list, one or a list, one or a list that never falls. */
typedef enum value_count { ONE, LIST, EITHER, RISING } value_count;

/* Keys mean the same in whatever thing they stand. */
typedef struct key_row {
    const char *keys;  /* separated by blanks */
    value_kind kind;
    value_count count;
    const char *words; /* WORD: separated by blanks */
    double least, most;
    bool above, below; /* least, most themselves are not possible */
} key_row;

#define AT_LEAST(v)     .least = (v), .most = INFINITY
#define ABOVE(v)        .least = (v), .most = INFINITY, .above = true
#define FROM(v, w)      .least = (v), .most = (w)
#define FROM_BELOW(v, w) .least = (v), .most = (w), .below = true
#define ANY             .least = -INFINITY, .most = INFINITY
#define EXACT           0x1p53 /* whole numbers up to here are exact in a double */

/* Ranges are PyTorch's where it has one.  Where it has none, what no formula survives is left out: a running
 * average that weighs above 1, a decay that grows. */
static const key_row rows[] = {
    { "reduction", WORD, ONE, .words = "mean sum" },
    { "tail", WORD, ONE, .words = "auto none softmax logsoftmax sigmoid" },
    { "weight margin", NUMBER, ONE, ANY },
    { "class_axis", WHOLE, ONE, FROM(-OT_MAX_RANK, OT_MAX_RANK - 1) },
    { "ignore_index", WHOLE, ONE, FROM(-EXACT, EXACT) },
    { "class_weights", NUMBER, LIST, AT_LEAST(0) },
    { "pos_weight", NUMBER, EITHER, AT_LEAST(0) },
    { "label_smoothing", NUMBER, ONE, FROM(0, 1) },
    { "delta", NUMBER, ONE, ABOVE(0) },
    { "beta", NUMBER, ONE, AT_LEAST(0) },
    { "p", WHOLE, ONE, FROM(1, 2) },
    { "smooth", NUMBER, ONE, AT_LEAST(0) },
    { "blank", WHOLE, ONE, FROM(0, EXACT) },
    { "other positive negative var", OUTPUT, ONE, ANY },
    { "log_target log_input full swap zero_infinity batch_first", FLAG, ONE, ANY },

    { "lr weight_decay dampening eps lr_decay initial_accumulator_value momentum_decay eta "
      "trust_coefficient",
      NUMBER, ONE, AT_LEAST(0) },
    { "momentum alpha", NUMBER, ONE, FROM(0, 1) },
    { "beta1 beta2 base_momentum max_momentum", NUMBER, ONE, FROM_BELOW(0, 1) },
    { "rho", NUMBER, ONE, FROM(0, 1) },
    { "ns_steps", WHOLE, ONE, FROM(1, 99) },
    { "nesterov amsgrad centered decoupled_weight_decay cycle_momentum", FLAG, ONE, ANY },

    { "warmup patience cooldown", WHOLE, ONE, FROM(0, EXACT) },
    { "step_size T_max T_0 T_mult total_iters total_steps", WHOLE, ONE, FROM(1, EXACT) },
    { "milestones", WHOLE, RISING, FROM(0, EXACT) },
    { "per", WORD, ONE, .words = "update epoch" },
    { "anneal_strategy", WORD, ONE, .words = "cos linear" },
    { "mode", WORD, ONE, .words = "min max" },
    { "threshold_mode", WORD, ONE, .words = "rel abs" },
    { "warmup_start_factor start_factor end_factor pct_start", NUMBER, ONE, FROM(0, 1) },
    { "factor", NUMBER, ONE, FROM_BELOW(0, 1) },
    { "gamma power eta_min max_lr min_lr threshold", NUMBER, ONE, AT_LEAST(0) },
    { "div_factor final_div_factor", NUMBER, ONE, ABOVE(0) },
};

/* ---- small tools ---------------------------------------------------------- */

int ot_edit_distance(const char *a, const char *b, int limit)
{
    enum { MOST = 40 };
    size_t n = strlen(a), m = strlen(b);
    if (n > MOST || m > MOST) return limit + 1;

    int d[MOST + 1][MOST + 1];
    for (size_t i = 0; i <= n; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m] < limit + 1 ? d[n][m] : limit + 1;
}

static char *piece(ot_arena *a, const char *from, size_t n)
{
    return ot_arena_printf(a, "%.*s", (int)n, from);
}

ot_status ot_spec_set(ot_spec *t, const char *key, double v, ot_arena *a, ot_error *err)
{
    ot_param *p = ot_arena_alloc(a, sizeof *p * (size_t)(t->n + 1));
    char *text = ot_arena_printf(a, "%.17g", v);
    if (!p || !text) return ot_fail(err, OT_E_NOMEM, "no memory for options");

    int n = 0;
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->param[i].key, key)) p[n++] = t->param[i];
    p[n++] = (ot_param){ .key = key, .text = text, .num = v };
    t->param = p;
    t->n = n;
    return OT_OK;
}

bool ot_has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; p && *p;) {
        size_t k = strcspn(p, " ");
        if (k == n && !memcmp(p, word, n)) return true;
        p += k;
        p += strspn(p, " ");
    }
    return false;
}

/* ---- values ------------------------------------------------------------------- */

static const key_row *row_of(const char *key)
{
    for (int i = 0; i < OT_LEN(rows); i++)
        if (ot_has_word(rows[i].keys, key)) return &rows[i];
    return NULL;
}

/* "mean sum" -> "mean or sum". */
static const char *alternatives(const char *words, ot_arena *a)
{
    const char *s = "";
    while (s && *words) {
        int n = (int)strcspn(words, " ");
        bool last = !words[n];
        s = ot_arena_printf(a, "%s%s%.*s", s, !*s ? "" : last ? " or " : ", ", n, words);
        words += n + !last;
    }
    return s;
}

static const char *range(const key_row *r, ot_arena *a)
{
    if ((isinf(r->least) && isinf(r->most)) || r->least == -EXACT) return "";
    if (r->above) return ot_arena_printf(a, " above %.17g", r->least);
    if (isinf(r->most) || r->most == EXACT) return ot_arena_printf(a, " of at least %.17g", r->least);
    if (r->below) return ot_arena_printf(a, " of at least %.17g and less than %.17g", r->least, r->most);
    return ot_arena_printf(a, " from %.17g to %.17g", r->least, r->most);
}

const char *ot_key_wants(const char *key, ot_arena *a)
{
    const key_row *r = row_of(key);
    if (!r) return NULL;
    if (r->kind == FLAG) return "true or false";
    if (r->kind == WORD) return alternatives(r->words, a);
    if (r->kind == OUTPUT) return "the name of an output";
    const char *of = range(r, a), *what = r->kind == WHOLE ? "whole number" : "number";
    if (!of) return NULL;
    if (r->count == ONE) return ot_arena_printf(a, "a %s%s", what, of);
    return ot_arena_printf(a, "%sa list of %ss%s%s, such as %s", r->count == LIST ? "" : "a number or ", what, of,
                           r->count == RISING ? " in ascending order" : "", r->kind == WHOLE ? "[8,15]" : "[1,2.5]");
}

static bool number_fits(const key_row *r, double v)
{
    if (!isfinite(v) || v < r->least || v > r->most) return false;
    if ((r->above && v == r->least) || (r->below && v == r->most)) return false;
    return r->kind != WHOLE || v == floor(v);
}

static bool value_fits(const key_row *r, const ot_param *p)
{
    if (!p->list) {
        if (r->kind == WORD) return ot_has_word(r->words, p->text);
        if (r->kind == OUTPUT) return true;
        if (r->kind == FLAG) return p->num == 0 || p->num == 1;
        return r->count != LIST && number_fits(r, p->num);
    }
    if (r->count == ONE || !p->n) return false;
    for (int i = 0; i < p->n; i++) {
        if (!number_fits(r, p->list[i])) return false;
        if (r->count == RISING && i && p->list[i] < p->list[i - 1]) return false;
    }
    return true;
}

/* ---- parsing ---------------------------------------------------------------- */

typedef struct parser {
    const char *whole; /* for messages */
    const char *sort;
    ot_arena *a;
    ot_error *err;
} parser;

/* "1.5" -> 1.5, "true" -> 1; NaN: a word. */
static double value_of(const char *text)
{
    double v;
    if (!strcmp(text, "true") || !strcmp(text, "True")) return 1;
    if (!strcmp(text, "false") || !strcmp(text, "False")) return 0;
    return ot_number(text, &v) ? v : NAN;
}

static ot_status parse_list(const parser *p, const char *key, const char *from, size_t n,
                            ot_param *out)
{
    double *v = ot_arena_alloc(p->a, (n + 1) * sizeof *v);
    if (!v) return ot_fail(p->err, OT_E_NOMEM, "no memory for options");

    const char *end = from + n;
    while (from < end) {
        size_t k = strcspn(from, ",]");
        const char *first = from + strspn(from, " ");
        char *one = first < from + k ? piece(p->a, first, (size_t)(from + k - first)) : NULL;
        if (!one && first < from + k) return ot_fail(p->err, OT_E_NOMEM, "no memory for options");
        while (one && *one && one[strlen(one) - 1] == ' ') one[strlen(one) - 1] = '\0';
        if (!one || !ot_number(one, &v[out->n]))
            return ot_fail(p->err, OT_E_USAGE, "%s '%s': %s: '%s' is not a number", p->sort, p->whole,
                           key, one ? one : "");
        out->n++;
        from += k + 1;
    }
    out->list = v;
    return OT_OK;
}

/* One key=value; *at is left behind it and its comma. */
static ot_status parse_param(const parser *p, const char **at, ot_param *out)
{
    const char *s = *at;
    size_t k = strcspn(s, "=,");
    if (!k || s[k] != '=')
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': '%.*s' is not key=value", p->sort, p->whole,
                       (int)k, s);
    char *key = piece(p->a, s, k);
    s += k + 1;

    bool list = *s == '[';
    size_t n = list ? strcspn(s, "]") : strcspn(s, ",");
    if (list && s[n] != ']')
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': %s: the list has no ']'", p->sort, p->whole,
                       key ? key : "");
    n += list;
    if (s[n] && s[n] != ',')
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': '%s' follows a list; ',' is needed", p->sort,
                       p->whole, s + n);

    char *text = piece(p->a, s, n);
    if (!key || !text) return ot_fail(p->err, OT_E_NOMEM, "no memory for options");
    if (!*text)
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': %s has no value", p->sort, p->whole, key);
    *out = (ot_param){ .key = key, .text = text, .num = list ? NAN : value_of(text) };
    if (list) OT_TRY(parse_list(p, key, s + 1, n - 2, out));
    *at = s + n + (s[n] == ',');
    if (s[n] == ',' && !**at)
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': nothing follows the last ','", p->sort,
                       p->whole);
    return OT_OK;
}

/* Names a table's entries: "sgd, adam, adamw". */
static const char *names_of(const ot_spec_kind *known, ot_arena *a)
{
    const char *s = "";
    for (int i = 0; known[i].name && s; i++)
        s = ot_arena_printf(a, "%s%s%s", s, i ? ", " : "", known[i].name);
    return s ? s : "";
}

static const ot_spec_kind *find_kind(const parser *p, const ot_spec_kind *known, const char *name)
{
    const ot_spec_kind *near = NULL;
    int best = 3;
    for (int i = 0; known[i].name; i++) {
        int d = ot_edit_distance(name, known[i].name, 2);
        if (d == 0) return &known[i];
        if (d < best) best = d, near = &known[i];
    }
    if (near)
        ot_fail(p->err, OT_E_USAGE, "unknown %s '%s'; did you mean '%s'?", p->sort, name,
                near->name);
    else
        ot_fail(p->err, OT_E_USAGE, "unknown %s '%s'; there are %s", p->sort, name,
                names_of(known, p->a));
    return NULL;
}

/* The longest output whose name and '=' begin the text. */
static const char *leading_output(const char *text, const char *const *outputs)
{
    const char *best = NULL;
    size_t most = 0;
    for (; outputs && *outputs; outputs++) {
        size_t n = strlen(*outputs);
        if (!strncmp(text, *outputs, n) && text[n] == '=' && (!best || n > most))
            best = *outputs, most = n;
    }
    return best;
}

static ot_status no_output(const parser *p, const char *text, size_t n, const char *const *outputs)
{
    const char *s = "";
    for (int i = 0; outputs && outputs[i] && s; i++)
        s = ot_arena_printf(p->a, "%s%s'%s'", s, i ? ", " : "", outputs[i]);
    return ot_fail(p->err, OT_E_USAGE, "%s '%s': the model has no output '%.*s'; it has %s",
                   p->sort, p->whole, (int)n, text, s && *s ? s : "none");
}

static ot_status check_value(const parser *p, const ot_spec_kind *kind, const ot_param *one)
{
    const key_row *r = row_of(one->key);
    if (!r) return ot_fail(p->err, OT_E_INTERNAL, "nothing says what '%s' may be", one->key);
    if (value_fits(r, one)) return OT_OK;
    const char *wants = ot_key_wants(one->key, p->a);
    if (!wants) return ot_fail(p->err, OT_E_NOMEM, "no memory for options");
    return ot_fail(p->err, OT_E_USAGE, "--%s %s: %s=%s is not possible; %s is needed", p->sort, kind->name, one->key,
                   one->text, wants);
}

ot_status ot_spec_parse(const char *text, const char *sort, const ot_spec_kind *known,
                         const char *const *outputs, ot_arena *a, ot_spec *out, ot_error *err)
{
    parser p = { .whole = text, .sort = sort, .a = a, .err = err };
    *out = (ot_spec){ .output = leading_output(text, outputs) };
    const char *s = out->output ? text + strlen(out->output) + 1 : text;

    size_t k = strcspn(s, ":");
    size_t eq = strcspn(s, "=");
    if (eq < k && outputs) return no_output(&p, s, eq, outputs);
    char *name = piece(a, s, k);
    if (!name) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    const ot_spec_kind *kind = find_kind(&p, known, name);
    if (!kind) return OT_E_USAGE;
    out->name = kind->name;
    if (s[k] && !s[k + 1])
        return ot_fail(err, OT_E_USAGE, "%s '%s': no key=value follows the ':'", sort, text);
    s += k + (s[k] == ':');

    int most = 0;
    for (const char *c = s; *c; c++) most += *c == '=';
    ot_param *param = ot_arena_alloc(a, sizeof *param * (size_t)(most + 1));
    if (!param) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    out->param = param;
    while (*s) {
        ot_param one;
        OT_TRY(parse_param(&p, &s, &one));
        if (!ot_has_word(kind->keys, one.key) && !ot_has_word(kind->common, one.key))
            return ot_fail(err, OT_E_USAGE, "%s '%s': %s has no '%s'; it has %s%s%s", sort, text,
                           kind->name, one.key, kind->keys, *kind->keys && kind->common ? " " : "",
                           kind->common ? kind->common : "");
        if (ot_spec_find(out, one.key))
            return ot_fail(err, OT_E_USAGE, "%s '%s': %s is given twice", sort, text, one.key);
        OT_TRY(check_value(&p, kind, &one));
        param[out->n++] = one;
    }
    for (const char *need = kind->needs; need && *need; need += strcspn(need, " "), need += *need == ' ') {
        char *key = piece(a, need, strcspn(need, " "));
        if (!key) return ot_fail(err, OT_E_NOMEM, "no memory for options");
        if (!ot_spec_find(out, key)) return ot_fail(err, OT_E_USAGE, "--%s %s needs %s=...: %s", sort, kind->name, key, ot_key_wants(key, a));
    }
    return OT_OK;
}
