/* target_values.c - finds the target of an output, and examines its values: two classes, probabilities. */
#include <math.h>
#include <string.h>

#include "runtime/train/feed/bind_inputs.h"

bool ot_zeros_and_ones(const ot_array *a, bool *both)
{
    const ot_tensor *t = &a->t;
    bool is[2] = { false, false };
    if (a->mapped) return false;
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    for (int64_t i = 0; i < n; i++) {
        double v = ot_get_f64(t->data, t->dtype, ot_array_at(a, i));
        if (v != 0 && v != 1) return false;
        is[v == 1] = true;
    }
    if (both) *both = is[0] && is[1];
    return true;
}

bool ot_adds_up(const ot_array *a, const ot_shape *sample, int axis)
{
    const ot_tensor *t = &a->t;
    int64_t each = ot_numel(sample), n = 1, inner = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    if (a->mapped || axis < 0 || axis >= sample->rank || !each || n % each) return false;
    for (int i = axis + 1; i < sample->rank; i++) inner *= sample->dim[i];
    for (int64_t i = 0, c = sample->dim[axis]; i < n; i++) {
        double sum = 0;
        if (i / inner % c) continue; /* not the first along the axis */
        for (int64_t k = 0; k < c; k++) {
            double v = ot_get_f64(t->data, t->dtype, ot_array_at(a, i + k * inner));
            if (!(v >= 0)) return false;
            sum += v;
        }
        if (fabs(sum - 1) > 1e-3) return false;
    }
    return true;
}

bool ot_feeds_shares(const ot_feeder *f)
{
    const ot_gather *g = &f->gather;
    bool in = f->src->t.dtype == OT_U8 && g->scale;
    for (int i = 0; in && i < g->channels; i++) {
        float first = g->add[i], last = 255 * g->mul[i] + g->add[i];
        in = fminf(first, last) > -1e-5f && fmaxf(first, last) < 1 + 1e-5f;
    }
    return in;
}

bool ot_target_is_named(const ot_array *a) { return !strncmp(a->t.name, "target_", 7); }

/* The array that is a target of no output by its name: "target", or what --target or the format says. */
const ot_array *ot_target_plain(const ot_dataset *d)
{
    const ot_array *plain = NULL;
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        const ot_array *a = &d->array[i];
        if (a->role != OT_ARRAY_TARGET || ot_target_is_named(a)) continue;
        if (!strcmp(a->t.name, "target")) return a;
        plain = a;
        n++;
    }
    return n == 1 ? plain : NULL;
}

/* "target_<output>"; NULL: there is none. */
const ot_array *ot_target_of(const ot_dataset *d, const char *output)
{
    for (int i = 0; i < d->n; i++)
        if (d->array[i].role == OT_ARRAY_TARGET && ot_target_is_named(&d->array[i]) &&
            !strcmp(d->array[i].t.name + 7, output))
            return &d->array[i];
    return NULL;
}
