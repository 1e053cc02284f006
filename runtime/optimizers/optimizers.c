/* optimizers.c - the registry. */
#include "runtime/optimizers/optimizers.h"

#include <string.h>

static const ot_entry *const entries[] = {
#define X(name) &ot_optimizer_##name.entry,
    OT_OPTIMIZERS(X)
#undef X
        NULL
};

const ot_registry ot_optimizers = { "optimizer", "the rules by which gradients change weights (--optimizer)", entries };

const ot_optimizer *ot_optimizer_find(const char *name)
{
    static const ot_optimizer *const list[] = {
#define X(name) &ot_optimizer_##name,
        OT_OPTIMIZERS(X)
#undef X
    };
    for (int i = 0; i < OT_LEN(list); i++)
        if (!strcmp(list[i]->entry.name, name)) return list[i];
    return NULL;
}

bool ot_optimizer_defaults(const ot_spec *o, double *lr, double *momentum)
{
    const ot_optimizer *k = ot_optimizer_find(o->name);
    ot_spec whole = *o;
    if (!k) return false;
    whole.entry = &k->entry;
    *lr = ot_spec_num(&whole, "lr");
    *momentum = k->moves ? ot_spec_num(&whole, k->moves) : 0;
    return true;
}
