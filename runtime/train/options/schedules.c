/* schedules.c - the learning rate of every update.
 *
 * Spec    k counts updates from 0, b is the optimizer's rate, g gamma.
 *           constant         b
 *           step             b g^floor(k / step_size)
 *           multistep        b g^(milestones <= k)
 *           exponential      b g^k
 *           cosine           m + (b - m)(1 + cos(pi k / T_max)) / 2,  m = eta_min
 *           cosine-restarts  the same within periods of T_0, T_0 T_mult, ... updates
 *           linear           b (s + (e - s) min(k, n) / n),  s, e the factors, n = total_iters
 *           polynomial       b (1 - min(k, n) / n)^power
 *           onecycle         up to max_lr at pct_start, down to max_lr / div_factor /
 * final_div_factor plateau          falls by factor when the loss no longer does With warmup W: b
 * (f + (1 - f) k / W) for k < W, then the schedule at k - W. T_max, T_0, total_iters and
 * total_steps default to the updates after the warm-up, max_lr to b, linear's factors to 1 and 0;
 * the other defaults are PyTorch's. */

#include <math.h>
#include <string.h>

#include "runtime/train/options/schedules.h"

enum {
    CONSTANT,
    STEP,
    MULTISTEP,
    EXPONENTIAL,
    COSINE,
    RESTARTS,
    LINEAR,
    POLYNOMIAL,
    ONECYCLE,
    PLATEAU
};

static const char *const names[] = { "constant",    "step",       "multistep",
                                     "exponential", "cosine",     "cosine-restarts",
                                     "linear",      "polynomial", "onecycle",
                                     "plateau" };

static const double pi = 3.14159265358979323846;

/* What T_max and its like are when they are not given. */
static double rest(const ot_schedule *s)
{
    double n = ceil((double)s->total / (double)s->per) - s->warmup;
    return n > 1 ? n : 1;
}

static double count(const ot_schedule *s, const char *key)
{
    return ot_spec_num(s->spec, key, rest(s));
}

ot_status ot_schedule_init(ot_schedule *s, const ot_spec *t, double base, double momentum,
                           int64_t total, int64_t epoch, ot_error *err)
{
    *s = (ot_schedule){ .spec = t, .base = base, .momentum = momentum, .total = total, .per = 1 };
    while (s->kind < OT_LEN(names) && strcmp(names[s->kind], t->name)) s->kind++;
    if (s->kind == OT_LEN(names))
        return ot_fail(err, OT_E_INTERNAL, "schedule '%s' has no formula", t->name);
    if (!strcmp(ot_spec_text(t, "per", "update"), "epoch")) s->per = epoch > 0 ? epoch : 1;
    s->warmup = ot_spec_num(t, "warmup", 0);
    s->warmup_factor = ot_spec_num(t, "warmup_start_factor", 0);
    s->rate = base;
    s->best = !strcmp(ot_spec_text(t, "mode", "min"), "max") ? -INFINITY : INFINITY;
    if (s->kind == ONECYCLE && ot_spec_flag(t, "cycle_momentum", false) && isnan(momentum))
        return ot_fail(err, OT_E_USAGE, "--schedule onecycle: cycle_momentum needs an optimizer with momentum");
    return OT_OK;
}

bool ot_schedule_moves_momentum(const ot_schedule *s)
{
    /* PyTorch cycles by default; an optimizer that has no momentum is left alone. */
    return s->kind == ONECYCLE && !isnan(s->momentum) &&
           ot_spec_flag(s->spec, "cycle_momentum", s->momentum > 0);
}

/* ---- formulas ------------------------------------------------------------------ */

static double cosine(double from, double to, double part)
{
    return to + (from - to) * (1 + cos(pi * part)) / 2;
}

static double multistep(const ot_schedule *s, double k)
{
    const ot_param *p = ot_spec_find(s->spec, "milestones");
    double passed = 0;
    for (int i = 0; i < p->n; i++) passed += p->list[i] <= k;
    if (!p->list) passed = p->num <= k;
    return s->base * pow(ot_spec_num(s->spec, "gamma", 0.1), passed);
}

static double restarts(const ot_schedule *s, double k)
{
    double period = count(s, "T_0"), mult = ot_spec_num(s->spec, "T_mult", 1);
    if (mult == 1) {
        k = fmod(k, period);
    } else {
        for (; k >= period; period *= mult) k -= period;
    }
    return cosine(s->base, ot_spec_num(s->spec, "eta_min", 0), k / period);
}

/* Two phases between three values. */
static double cycle(const ot_schedule *s, double k, double start, double middle, double end)
{
    double total = count(s, "total_steps");
    double top = ot_spec_num(s->spec, "pct_start", 0.3) * total - 1, last = total - 1;
    bool linear = !strcmp(ot_spec_text(s->spec, "anneal_strategy", "cos"), "linear");
    double from = start, to = middle, part;
    if (k <= top && top > 0) {
        part = k / top;
    } else {
        if (top < 0) top = 0;
        from = middle, to = end;
        part = last > top ? (k - top) / (last - top) : 1;
    }
    if (part > 1) part = 1;
    return linear ? from + (to - from) * part : cosine(from, to, part);
}

static double onecycle(const ot_schedule *s, double k)
{
    double most = ot_spec_num(s->spec, "max_lr", s->base);
    double first = most / ot_spec_num(s->spec, "div_factor", 25);
    return cycle(s, k, first, most, first / ot_spec_num(s->spec, "final_div_factor", 1e4));
}

static double formula(const ot_schedule *s, double k)
{
    const ot_spec *t = s->spec;
    double n, part;
    switch (s->kind) {
    case STEP:
        return s->base *
               pow(ot_spec_num(t, "gamma", 0.1), floor(k / ot_spec_num(t, "step_size", 1)));
    case MULTISTEP:
        return multistep(s, k);
    case EXPONENTIAL:
        return s->base * pow(ot_spec_num(t, "gamma", 1), k);
    case COSINE:
        return cosine(s->base, ot_spec_num(t, "eta_min", 0), k / count(s, "T_max"));
    case RESTARTS:
        return restarts(s, k);
    case LINEAR:
        n = count(s, "total_iters");
        part = fmin(k, n) / n;
        return s->base *
               (ot_spec_num(t, "start_factor", 1) +
                (ot_spec_num(t, "end_factor", 0) - ot_spec_num(t, "start_factor", 1)) * part);
    case POLYNOMIAL:
        n = count(s, "total_iters");
        return s->base * pow(1 - fmin(k, n) / n, ot_spec_num(t, "power", 1));
    case ONECYCLE:
        return onecycle(s, k);
    case PLATEAU:
        return s->rate;
    default:
        return s->base;
    }
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
        *rate = formula(s, k);
    }
    if (ot_schedule_moves_momentum(s)) {
        double most = ot_spec_num(s->spec, "max_momentum", 0.95);
        *momentum = cycle(s, k, most, ot_spec_num(s->spec, "base_momentum", 0.85), most);
    }
}

void ot_schedule_feedback(ot_schedule *s, int64_t update, double loss)
{
    const ot_spec *t = s->spec;
    if (s->kind != PLATEAU || floor((double)update / (double)s->per) < s->warmup) return;

    bool max = !strcmp(ot_spec_text(t, "mode", "min"), "max");
    bool relative = !strcmp(ot_spec_text(t, "threshold_mode", "rel"), "rel");
    double threshold = ot_spec_num(t, "threshold", 1e-4), sign = max ? 1 : -1;
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
    if (s->bad > (int64_t)ot_spec_num(t, "patience", 10)) {
        double next = fmax(s->rate * ot_spec_num(t, "factor", 0.1), ot_spec_num(t, "min_lr", 0));
        if (next < s->rate) s->rate = next;
        s->cooldown = (int64_t)ot_spec_num(t, "cooldown", 0);
        s->bad = 0;
    }
}
