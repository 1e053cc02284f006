/* count_classes.c - the number of classes of a target (--classes auto), and its smallest class number. */

#include <math.h>
#include <stdio.h>

#include "runtime/losses/losses.h"
#include "runtime/train/feed/masks.h"

static bool takes_classes(const ot_spec *loss)
{
    return loss && !ot_spec_find(loss, "other") && ot_loss_find(loss->name)->takes == OT_TAKES_CLASSES;
}

/* Multi-label classes: several values 0 or 1 for each sample, with a loss that accepts values. */
static bool multi_label(const ot_tensor *t, const ot_spec *loss)
{
    ot_takes takes = loss ? ot_loss_find(loss->name)->takes : OT_TAKES_CLASSES;
    return t->rank == 2 && (takes == OT_TAKES_EITHER || takes == OT_TAKES_VALUES);
}

static ot_status not_classes(const ot_array *target, ot_error *err)
{
    return ot_fail(err, OT_E_DATA,
                   "--classes auto: target '%s' contains %s values, not class numbers; give the number of outputs: "
                   "--classes N",
                   target->t.name, ot_dtype_name(target->t.dtype));
}

/* Masks in files: 255 is class 1 if the only other value is 0, else it is ignored. */
static ot_status in_masks(const ot_array *masks, int64_t skip, const ot_settings *s, int64_t *n, ot_error *err)
{
    int64_t count[256];
    OT_TRY(ot_masks_count(masks, NULL, s, masks->t.dim[0], count, err));
    *n = 0;
    for (int v = 0; v < OT_MASK_VOID; v++)
        if (count[v] && v != skip) *n = v + 1;
    if (*n < 2 && count[OT_MASK_VOID] && skip != OT_MASK_VOID) *n = 2;
    return *n ? OT_OK : ot_fail(err, OT_E_DATA, "--classes auto: the masks contain no class numbers that count");
}

ot_status ot_count_classes(const ot_dataset *d, const ot_array *target, int rank, int axis, const ot_spec *loss,
                           const ot_settings *s, int64_t *n, ot_error *err)
{
    const ot_tensor *t = &target->t;
    const ot_param *ignore = loss ? ot_spec_find(loss, "ignore_index") : NULL;
    int64_t count = 1, most = -1, skip = ignore && !isnan(ignore->num) ? (int64_t)ignore->num : OT_IGNORED;
    bool floats = ot_is_float(t->dtype);
    if (target->source) return in_masks(target, skip, s, n, err);
    if (axis < 0) axis += t->rank;
    if (t->rank > 1 &&
        (t->rank == rank || (rank < 0 && (floats || multi_label(t, loss))))) { /* a value for each class */
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
    const char *const *name;
    int known = ot_dataset_classes(d, target, &name);
    *n = target->t.rank == 1 && known > most ? known : most + 1;
    return *n > 0 ? OT_OK : not_classes(target, err);
}

bool ot_labels_from_one(const ot_array *target, int64_t skip, int64_t classes, char *text, size_t size)
{
    const ot_tensor *t = &target->t;
    int64_t n = 1, least = INT64_MAX, most = INT64_MIN;
    *text = '\0';
    if (target->mapped || !t->data) return false;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t y = ot_get_i64(t->data, t->dtype, ot_array_at(target, i));
        if (y == skip) continue;
        if (y < least) least = y;
        if (y > most) most = y;
    }
    if (least != 1) return false;
    bool shifted = most == classes;
    snprintf(
        text, size, "; class numbers count from 0, and those of the target are 1 to %lld%s", (long long)most,
        shifted
            ? ": subtract 1 from them, or use names as classes (strings of a table, or its numbers with --categories)"
            : "");
    return shifted;
}
