/* things.c - the grammar of things with parameters: name:key=value,key=[1,2]. */

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/things.h"

#define EVERY_LOSS "weight reduction tail"

const ot_thing_kind ot_losses[] = {
    { "cross_entropy", "class_axis ignore_index class_weights label_smoothing", EVERY_LOSS },
    { "nll", "class_axis ignore_index class_weights", EVERY_LOSS },
    { "bce", "pos_weight", EVERY_LOSS },
    { "bce_with_logits", "pos_weight", EVERY_LOSS },
    { "mse", "", EVERY_LOSS },
    { "l1", "", EVERY_LOSS },
    { "huber", "delta", EVERY_LOSS },
    { "smooth_l1", "beta", EVERY_LOSS },
    { "kl", "", EVERY_LOSS },
    { "hinge", "margin class_axis", EVERY_LOSS },
    { "output", "", EVERY_LOSS },
    { NULL, NULL, NULL }
};

#define EVERY_OPTIMIZER "lr weight_decay"
#define ADAM            "beta1 beta2 eps"

const ot_thing_kind ot_optimizers[] = {
    { "sgd", "momentum dampening nesterov", EVERY_OPTIMIZER },
    { "adam", ADAM " amsgrad", EVERY_OPTIMIZER },
    { "adamw", ADAM " amsgrad", EVERY_OPTIMIZER },
    { "adagrad", "lr_decay initial_accumulator_value eps", EVERY_OPTIMIZER },
    { "adadelta", "rho eps", EVERY_OPTIMIZER },
    { "rmsprop", "alpha eps centered momentum", EVERY_OPTIMIZER },
    { "adamax", ADAM, EVERY_OPTIMIZER },
    { "nadam", ADAM " momentum_decay decoupled_weight_decay", EVERY_OPTIMIZER },
    { "radam", ADAM " decoupled_weight_decay", EVERY_OPTIMIZER },
    { "lion", "beta1 beta2", EVERY_OPTIMIZER },
    { "lamb", ADAM, EVERY_OPTIMIZER },
    { "lars", "momentum eta trust_coefficient eps", EVERY_OPTIMIZER },
    { "muon", "momentum nesterov ns_steps", EVERY_OPTIMIZER },
    { NULL, NULL, NULL }
};

#define EVERY_SCHEDULE "warmup warmup_start_factor per"

const ot_thing_kind ot_schedules[] = {
    { "constant", "", EVERY_SCHEDULE },
    { "step", "step_size gamma", EVERY_SCHEDULE },
    { "multistep", "milestones gamma", EVERY_SCHEDULE },
    { "exponential", "gamma", EVERY_SCHEDULE },
    { "cosine", "T_max eta_min", EVERY_SCHEDULE },
    { "cosine-restarts", "T_0 T_mult eta_min", EVERY_SCHEDULE },
    { "linear", "start_factor end_factor total_iters", EVERY_SCHEDULE },
    { "polynomial", "total_iters power", EVERY_SCHEDULE },
    { "onecycle",
      "max_lr total_steps pct_start anneal_strategy cycle_momentum base_momentum max_momentum "
      "div_factor final_div_factor",
      EVERY_SCHEDULE },
    { "plateau", "mode factor patience threshold threshold_mode cooldown min_lr", EVERY_SCHEDULE },
    { NULL, NULL, NULL }
};

/* ---- small tools ---------------------------------------------------------- */

bool ot_number(const char *text, double *v)
{
    if (!*text || strchr(" \t\n\v\f\r", *text)) return false;

    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *end = NULL;
    *v = c ? strtod_l(text, &end, c) : strtod(text, &end);
    if (c) freelocale(c);
    return *end == '\0';
}

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

ot_status ot_thing_set(ot_thing *t, const char *key, double v, ot_arena *a, ot_error *err)
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

/* ---- parsing ---------------------------------------------------------------- */

typedef struct parser {
    const char *whole; /* for messages */
    const char *sort;
    ot_arena *a;
    ot_error *err;
} parser;

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
        while (one && *one && one[strlen(one) - 1] == ' ') one[strlen(one) - 1] = '\0';
        if (!one || !ot_number(one, &v[out->n]))
            return ot_fail(p->err, OT_E_USAGE, "%s '%s': %s: '%s' is no number", p->sort, p->whole,
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
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': '%.*s' is no key=value", p->sort, p->whole,
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
static const char *names_of(const ot_thing_kind *known, ot_arena *a)
{
    const char *s = "";
    for (int i = 0; known[i].name && s; i++)
        s = ot_arena_printf(a, "%s%s%s", s, i ? ", " : "", known[i].name);
    return s ? s : "";
}

static const ot_thing_kind *find_kind(const parser *p, const ot_thing_kind *known, const char *name)
{
    const ot_thing_kind *near = NULL;
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

ot_status ot_thing_parse(const char *text, const char *sort, const ot_thing_kind *known,
                         const char *const *outputs, ot_arena *a, ot_thing *out, ot_error *err)
{
    parser p = { .whole = text, .sort = sort, .a = a, .err = err };
    *out = (ot_thing){ .output = leading_output(text, outputs) };
    const char *s = out->output ? text + strlen(out->output) + 1 : text;

    size_t k = strcspn(s, ":");
    size_t eq = strcspn(s, "=");
    if (eq < k && outputs) return no_output(&p, s, eq, outputs);
    char *name = piece(a, s, k);
    if (!name) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    const ot_thing_kind *kind = find_kind(&p, known, name);
    if (!kind) return OT_E_USAGE;
    out->name = kind->name;
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
        if (ot_thing_find(out, one.key))
            return ot_fail(err, OT_E_USAGE, "%s '%s': %s is given twice", sort, text, one.key);
        param[out->n++] = one;
    }
    return OT_OK;
}
