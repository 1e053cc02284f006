/* schedules.c - the learning rate of every update: a formula and a row for each schedule.
 *
 * Spec    k counts updates (or epochs) from 0, b is the optimizer's learning rate; the comment above each function has its formula.
 *         With a warm-up of W: b (f + (1 - f) k / W) for k < W, then the schedule at k - W.  Defaults are PyTorch's where it
 *         has one. */

#include "runtime/train/options/schedules.h"

#include <math.h>
#include <string.h>

typedef struct ot_schedule_kind {
    ot_entry entry;
    double (*rate)(const ot_schedule *s, double k);
    double (*momentum)(const ot_schedule *s, double k); /* NULL: the momentum does not change */
    void (*feedback)(ot_schedule *s, double loss);      /* NULL: the schedule depends on k alone */
} ot_schedule_kind;

/* ---- keys ------------------------------------------------------------------------ */

/* Every schedule has these. */
#define EVERY                                                                                                                          \
    { "warmup", "0", NULL, "updates of a linear warm-up before the schedule begins", .kind = OT_KEY_WHOLE, OT_KEY_COUNT_FROM(0) },                 \
    { "warmup_start_factor", "0", NULL, "factor on the learning rate at the start of the warm-up", .kind = OT_KEY_NUMBER, OT_KEY_FROM(0, 1) },         \
    { "per", "update", NULL, "unit of all counts", .kind = OT_KEY_WORD, .words = "update epoch" }

#define COUNT(name, meaning)       { name, NULL, "number of updates after the warmup", meaning, .kind = OT_KEY_WHOLE, OT_KEY_COUNT_FROM(1) }
#define FACTOR(name, dflt, meaning) { name, dflt, NULL, meaning, .kind = OT_KEY_NUMBER, OT_KEY_FROM(0, 1) }
#define SOME(name, dflt, meaning)  { name, dflt, NULL, meaning, .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) }

/* The value of a COUNT. */
static double count(const ot_schedule *s, const char *key)
{
    double n = ceil((double)s->total / (double)s->per) - s->warmup;
    return ot_spec_find(s->spec, key) ? ot_spec_num(s->spec, key) : n > 1 ? n : 1;
}

static double num(const ot_schedule *s, const char *key) { return ot_spec_num(s->spec, key); }

/* ---- schedules --------------------------------------------------------------------- */

/* b */
static double constant(const ot_schedule *s, double k)
{
    (void)k;
    return s->base;
}

static const ot_key constant_keys[] = { EVERY, OT_KEYS_END };

/* b gamma^floor(k / step_size) */
static double step(const ot_schedule *s, double k)
{
    return s->base * pow(num(s, "gamma"), floor(k / num(s, "step_size")));
}

static const ot_key step_keys[] = {
    EVERY,
    { "step_size", NULL, NULL, "updates between two reductions", .kind = OT_KEY_WHOLE, OT_KEY_COUNT_FROM(1) },
    SOME("gamma", "0.1", "factor of each reduction"),
    OT_KEYS_END,
};

/* b gamma^(milestones <= k) */
static double multistep(const ot_schedule *s, double k)
{
    const ot_param *p = ot_spec_find(s->spec, "milestones");
    double passed = 0;
    for (int i = 0; i < p->n; i++) passed += p->list[i] <= k;
    if (!p->list) passed = p->num <= k;
    return s->base * pow(num(s, "gamma"), passed);
}

static const ot_key multistep_keys[] = {
    EVERY,
    { "milestones", NULL, NULL, "updates at which the rate is reduced", .kind = OT_KEY_WHOLE, .count = OT_KEY_RISING,
      OT_KEY_COUNT_FROM(0) },
    SOME("gamma", "0.1", "factor of each reduction"),
    OT_KEYS_END,
};

/* b gamma^k */
static double exponential(const ot_schedule *s, double k) { return s->base * pow(num(s, "gamma"), k); }

static const ot_key exponential_keys[] = {
    EVERY,
    { "gamma", NULL, NULL, "factor of each update", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) },
    OT_KEYS_END,
};

/* m + (b - m)(1 + cos(pi k / T_max)) / 2,  m = eta_min */
static double half_wave(double from, double to, double part)
{
    static const double pi = 3.14159265358979323846;
    return to + (from - to) * (1 + cos(pi * part)) / 2;
}

static double cosine(const ot_schedule *s, double k)
{
    return half_wave(s->base, num(s, "eta_min"), k / count(s, "T_max"));
}

static const ot_key cosine_keys[] = {
    EVERY,
    COUNT("T_max", "updates until the rate is eta_min"),
    SOME("eta_min", "0", "minimum of the rate"),
    OT_KEYS_END,
};

/* The same within periods of T_0, T_0 T_mult, ... updates. */
static double restarts(const ot_schedule *s, double k)
{
    double period = count(s, "T_0"), mult = num(s, "T_mult");
    if (mult == 1) {
        k = fmod(k, period);
    } else {
        for (; k >= period; period *= mult) k -= period;
    }
    return half_wave(s->base, num(s, "eta_min"), k / period);
}

static const ot_key restarts_keys[] = {
    EVERY,
    COUNT("T_0", "updates until the first restart"),
    { "T_mult", "1", NULL, "factor on the length of each following period", .kind = OT_KEY_WHOLE,
      OT_KEY_COUNT_FROM(1) },
    SOME("eta_min", "0", "minimum of the rate"),
    OT_KEYS_END,
};

/* b (s + (e - s) min(k, n) / n),  s, e the factors, n = total_iters */
static double linear(const ot_schedule *s, double k)
{
    double n = count(s, "total_iters"), part = fmin(k, n) / n;
    return s->base * (num(s, "start_factor") + (num(s, "end_factor") - num(s, "start_factor")) * part);
}

static const ot_key linear_keys[] = {
    EVERY,
    FACTOR("start_factor", "1", "factor on the learning rate at the start"),
    FACTOR("end_factor", "0", "factor on the rate at the end"),
    COUNT("total_iters", "updates between the two"),
    OT_KEYS_END,
};

/* b (1 - min(k, n) / n)^power */
static double polynomial(const ot_schedule *s, double k)
{
    double n = count(s, "total_iters");
    return s->base * pow(1 - fmin(k, n) / n, num(s, "power"));
}

static const ot_key polynomial_keys[] = {
    EVERY,
    COUNT("total_iters", "updates until the learning rate is 0"),
    SOME("power", "1", "exponent of the part of the updates that is left"),
    OT_KEYS_END,
};

/* Up to max_lr at pct_start, down to max_lr / div_factor / final_div_factor: two phases between three values. */
static double cycle(const ot_schedule *s, double k, double start, double middle, double end)
{
    double total = count(s, "total_steps");
    double top = num(s, "pct_start") * total - 1, last = total - 1;
    bool straight = ot_spec_is(s->spec, "anneal_strategy", "linear");
    double from = start, to = middle, part;
    if (k <= top && top > 0) {
        part = k / top;
    } else {
        if (top < 0) top = 0;
        from = middle, to = end;
        part = last > top ? (k - top) / (last - top) : 1;
    }
    if (part > 1) part = 1;
    return straight ? from + (to - from) * part : half_wave(from, to, part);
}

static double onecycle(const ot_schedule *s, double k)
{
    double most = ot_spec_find(s->spec, "max_lr") ? num(s, "max_lr") : s->base;
    double first = most / num(s, "div_factor");
    return cycle(s, k, first, most, first / num(s, "final_div_factor"));
}

static double onecycle_momentum(const ot_schedule *s, double k)
{
    double most = num(s, "max_momentum");
    return cycle(s, k, most, num(s, "base_momentum"), most);
}

static const ot_key onecycle_keys[] = {
    EVERY,
    { "max_lr", NULL, "the optimizer's rate", "maximum learning rate", .kind = OT_KEY_NUMBER, OT_KEY_AT_LEAST(0) },
    COUNT("total_steps", "updates of the cycle"),
    FACTOR("pct_start", "0.3", "part of the cycle in which the rate rises"),
    { "anneal_strategy", "cos", NULL, "shape of the two phases", .kind = OT_KEY_WORD, .words = "cos linear" },
    { "cycle_momentum", NULL, "true where the optimizer has a momentum above 0",
      "decrease the momentum while the learning rate increases", .kind = OT_KEY_FLAG },
    { "base_momentum", "0.85", NULL, "momentum at the maximum learning rate", .kind = OT_KEY_NUMBER,
      OT_KEY_FROM_BELOW(0, 1) },
    { "max_momentum", "0.95", NULL, "momentum at the start and the end", .kind = OT_KEY_NUMBER,
      OT_KEY_FROM_BELOW(0, 1) },
    { "div_factor", "25", NULL, "max_lr divided by the initial learning rate", .kind = OT_KEY_NUMBER, OT_KEY_ABOVE(0) },
    { "final_div_factor", "1e4", NULL, "initial learning rate divided by the final one", .kind = OT_KEY_NUMBER,
      OT_KEY_ABOVE(0) },
    OT_KEYS_END,
};

static double plateau(const ot_schedule *s, double k)
{
    (void)k;
    return s->rate;
}

/* The rate falls by factor when the loss no longer does. */
static void watch(ot_schedule *s, double loss)
{
    const ot_spec *t = s->spec;
    bool max = ot_spec_is(t, "mode", "max"), relative = ot_spec_is(t, "threshold_mode", "rel");
    double threshold = ot_spec_num(t, "threshold"), sign = max ? 1 : -1;
    double bar = relative ? s->best * (1 + sign * threshold) : s->best + sign * threshold;
    if (isinf(s->best) || (max ? loss > bar : loss < bar)) {
        s->best = loss;
        s->bad = 0;
    } else {
        s->bad++;
    }
    if (s->cooldown > 0) {
        s->cooldown--;
        s->bad = 0;
    }
    if (s->bad > (int64_t)ot_spec_num(t, "patience")) {
        double next = fmax(s->rate * ot_spec_num(t, "factor"), ot_spec_num(t, "min_lr"));
        if (next < s->rate) s->rate = next;
        s->cooldown = (int64_t)ot_spec_num(t, "cooldown");
        s->bad = 0;
    }
}

static const ot_key plateau_keys[] = {
    EVERY,
    { "mode", "min", NULL,
      "min: the loss is watched; max: the accuracy of the validation samples, or the metric of --monitor if it is one that rises",
      .kind = OT_KEY_WORD, .words = "min max" },
    { "factor", "0.1", NULL, "factor of each reduction", .kind = OT_KEY_NUMBER, OT_KEY_FROM_BELOW(0, 1) },
    { "patience", "10", NULL,
      "evaluations (updates, where nothing is evaluated) without improvement before a reduction", .kind = OT_KEY_WHOLE,
      OT_KEY_COUNT_FROM(0) },
    SOME("threshold", "1e-4", "smallest improvement that counts"),
    { "threshold_mode", "rel", NULL, "threshold is relative to the best value, or absolute", .kind = OT_KEY_WORD,
      .words = "rel abs" },
    { "cooldown", "0", NULL, "evaluations after a reduction that are not counted", .kind = OT_KEY_WHOLE,
      OT_KEY_COUNT_FROM(0) },
    SOME("min_lr", "0", "minimum of the rate"),
    OT_KEYS_END,
};

/* ---- the table ------------------------------------------------------------------------ */

/* X(formula, name, meaning, keys, momentum, feedback) */
#define SCHEDULES(X) \
    X(constant, "constant", "constant learning rate", constant_keys, NULL, NULL) \
    X(step, "step", "multiply by gamma every step_size updates", step_keys, NULL, NULL) \
    X(multistep, "multistep", "multiply by gamma at each milestone", multistep_keys, NULL, NULL) \
    X(exponential, "exponential", "multiply by gamma at each update", exponential_keys, NULL, NULL) \
    X(cosine, "cosine", "half a cosine period", cosine_keys, NULL, NULL) \
    X(restarts, "cosine-restarts", "down half a cosine, with restarts", restarts_keys, NULL, NULL) \
    X(linear, "linear", "linear from one factor to another", linear_keys, NULL, NULL) \
    X(polynomial, "polynomial", "to 0 with a power of the remaining fraction of updates", polynomial_keys, NULL, NULL) \
    X(onecycle, "onecycle", "one cycle: up to max_lr, then down far below the start; momentum cycles inversely", onecycle_keys, onecycle_momentum, NULL) \
    X(plateau, "plateau", "times factor when loss or accuracy stop improving", plateau_keys, NULL, watch)

#define X(formula, name, meaning, keys, momentum, feedback) static const ot_schedule_kind kind_of_##formula = { { name, meaning, keys }, formula, momentum, feedback };
SCHEDULES(X)
#undef X

static const ot_schedule_kind *const kinds[] = {
#define X(formula, name, meaning, keys, momentum, feedback) &kind_of_##formula,
    SCHEDULES(X)
#undef X
};

static const ot_entry *const entries[] = {
#define X(formula, name, meaning, keys, momentum, feedback) &kind_of_##formula.entry,
    SCHEDULES(X)
#undef X
        NULL
};

const ot_registry ot_schedules = { "schedule", "how the learning rate changes from update to update (--schedule)",
                                   entries };

ot_status ot_schedule_init(ot_schedule *s, const ot_spec *t, double base, double momentum, int64_t total, int64_t epoch,
                           ot_error *err)
{
    *s = (ot_schedule){ .spec = t, .base = base, .momentum = momentum, .total = total, .per = 1 };
    for (int i = 0; i < OT_LEN(kinds); i++)
        if (!strcmp(kinds[i]->entry.name, t->name)) s->kind = kinds[i];
    if (!s->kind) return ot_fail(err, OT_E_INTERNAL, "internal error: no formula for schedule '%s'", t->name);
    if (ot_spec_is(t, "per", "epoch")) s->per = epoch > 0 ? epoch : 1;
    s->warmup = ot_spec_num(t, "warmup");
    s->warmup_factor = ot_spec_num(t, "warmup_start_factor");
    s->rate = base;
    s->best = ot_spec_is(t, "mode", "max") ? -INFINITY : INFINITY;
    if (s->kind->momentum && ot_spec_flag(t, "cycle_momentum") && isnan(momentum))
        return ot_fail(err, OT_E_USAGE, "--schedule %s: cycle_momentum needs an optimizer with momentum", t->name);
    for (const ot_key *k = s->kind->entry.keys; k->name && total <= 0; k++)
        if (k->without && !ot_spec_find(t, k->name))
            return ot_fail(err, OT_E_USAGE,
                           "--schedule %s: the number of updates is unknown; set --steps, or the key %s", t->name,
                           k->name);
    return OT_OK;
}

bool ot_schedule_moves_momentum(const ot_schedule *s)
{
    if (!s->kind->momentum || isnan(s->momentum)) return false;
    /* PyTorch cycles by default; an optimizer that has no momentum is left alone. */
    return ot_spec_find(s->spec, "cycle_momentum") ? ot_spec_flag(s->spec, "cycle_momentum") : s->momentum > 0;
}

void ot_schedule_at(const ot_schedule *s, int64_t update, double *rate, double *momentum)
{
    double k = floor((double)update / (double)s->per);
    *momentum = s->momentum;
    if (k < s->warmup) {
        *rate = s->base * (s->warmup_factor + (1 - s->warmup_factor) * k / s->warmup);
        k = 0;
    } else {
        k -= s->warmup;
        *rate = s->kind->rate(s, k);
    }
    if (ot_schedule_moves_momentum(s)) *momentum = s->kind->momentum(s, k);
}

void ot_schedule_feedback(ot_schedule *s, int64_t update, double loss)
{
    if (s->kind->feedback && floor((double)update / (double)s->per) >= s->warmup) s->kind->feedback(s, loss);
}
