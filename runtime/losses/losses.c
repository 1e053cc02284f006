/* losses.c - the registry. */
#include "runtime/losses/losses.h"

#include <string.h>

static const ot_entry *const entries[] = {
#define X(name) &ot_loss_kind_##name.entry,
    OT_LOSSES(X)
#undef X
        NULL
};

const ot_registry ot_losses = { "loss", "the functions that training minimises (--loss)", entries };

const ot_loss_kind *ot_loss_find(const char *name)
{
    static const ot_loss_kind *const list[] = {
#define X(name) &ot_loss_kind_##name,
        OT_LOSSES(X)
#undef X
    };
    for (int i = 0; i < OT_LEN(list); i++)
        if (!strcmp(list[i]->entry.name, name)) return list[i];
    return NULL;
}

bool ot_loss_joins(const ot_spec *list, int i)
{
    for (int k = 0; k < i; k++)
        if (ot_loss_find(list[k].name)->takes != OT_TAKES_NOTHING && ot_spec_num(&list[k], "weight") != 0 &&
            ot_spec_shares(&list[k], &list[i]))
            return true;
    return false;
}

ot_status ot_losses_settle(ot_spec *list, int n, const char *const *outputs, ot_error *err)
{
    for (int i = 0; i < n; i++) {
        ot_spec *l = &list[i];
        if (n > 1 && !l->output && outputs && outputs[0] && !outputs[1]) l->output = outputs[0];
        for (int k = 0; k < i; k++) {
            if (!ot_spec_shares(&list[k], l)) continue;
            if (!l->output) return ot_fail(err, OT_E_USAGE, "two losses name no output; use OUTPUT=%s", l->name);
            if (!strcmp(list[k].name, l->name))
                return ot_fail(err, OT_E_USAGE, "output '%s' has loss %s twice", l->output, l->name);
        }
    }
    return OT_OK;
}
