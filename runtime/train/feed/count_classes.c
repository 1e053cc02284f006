/* count_classes.c - how many classes a target has (--classes auto). */

#include <math.h>

#include "runtime/losses/losses.h"
#include "runtime/train/feed/bind_inputs.h"

static bool takes_classes(const ot_spec *loss)
{
    return loss && !ot_spec_find(loss, "other") && ot_loss_find(loss->name)->takes == OT_TAKES_CLASSES;
}

static ot_status not_classes(const ot_array *target, ot_error *err)
{
    return ot_fail(err, OT_E_DATA,
                   "--classes auto: target '%s' contains %s values, not class numbers; give the number of outputs: "
                   "--classes N",
                   target->t.name, ot_dtype_name(target->t.dtype));
}

ot_status ot_count_classes(const ot_dataset *d, const ot_array *target, int rank, int axis, const ot_spec *loss,
                           int64_t *n, ot_error *err)
{
    const ot_tensor *t = &target->t;
    const ot_param *ignore = loss ? ot_spec_find(loss, "ignore_index") : NULL;
    int64_t count = 1, most = -1, skip = ignore && !isnan(ignore->num) ? (int64_t)ignore->num : OT_IGNORED;
    bool floats = ot_is_float(t->dtype);
    if (axis < 0) axis += t->rank;
    if (t->rank > 1 && (t->rank == rank || (floats && rank < 0))) { /* a value for each class */
        *n = t->dim[axis];
        return *n > 0 ? OT_OK : not_classes(target, err);
    }
    if (floats && !takes_classes(loss)) return not_classes(target, err);
    if (target->mapped)
        return ot_fail(err, OT_E_USAGE,
                       "--classes auto: %s is too large to be read as a whole; give the number of outputs: --classes N",
                       d->name);
    for (int i = 0; i < t->rank; i++) count *= t->dim[i];
    for (int64_t i = 0; i < count; i++) {
        double v = ot_get_f64(t->data, t->dtype, ot_array_at(target, i));
        if (v == (double)skip) continue;
        if (!(v >= 0 && v < 1e9) || v != floor(v)) return not_classes(target, err);
        if ((int64_t)v > most) most = (int64_t)v;
    }
    *n = target->t.rank == 1 && d->n_classes > most ? d->n_classes : most + 1;
    return *n > 0 ? OT_OK : not_classes(target, err);
}
