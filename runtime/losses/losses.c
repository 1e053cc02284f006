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
