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

bool ot_loss_left_out(const ot_spec *loss) { return ot_spec_num(loss, "weight") == 0; }

bool ot_loss_joins(const ot_spec *list, int i)
{
    for (int k = 0; k < i; k++)
        if (ot_loss_find(list[k].name)->takes != OT_TAKES_NOTHING && !ot_loss_left_out(&list[k]) &&
            ot_spec_shares(&list[k], &list[i]))
            return true;
    return false;
}

int ot_loss_default_axis(int rank) { return rank == 3 ? 2 : rank > 1; }

/* A label that one loss of an output ignores is no class for the others. */
static ot_status share_ignored(ot_spec *list, int n, ot_arena *a, ot_error *err)
{
    for (int i = 0; i < n * n; i++) {
        const ot_spec *from = &list[i / n];
        ot_spec *to = &list[i % n];
        const ot_param *given = ot_spec_find(from, "ignore_index"), *own = ot_spec_find(to, "ignore_index");
        if (!given || from == to || !ot_spec_shares(from, to) || !ot_entry_key(to->entry, "ignore_index")) continue;
        if (own && own->num != given->num)
            return ot_fail(
                err, OT_E_USAGE,
                "losses %s and %s of output '%s' have ignore_index=%s and ignore_index=%s; use the same number",
                from->name, to->name, to->output, given->text, own->text);
        if (own) continue;
        ot_param *p = ot_arena_alloc(a, sizeof *p * (size_t)(to->n + 1));
        if (!p) return ot_fail(err, OT_E_NOMEM, "no memory for losses");
        if (to->n) memcpy(p, to->param, (size_t)to->n * sizeof *p);
        p[to->n++] = *given;
        to->param = p;
    }
    return OT_OK;
}

ot_status ot_losses_settle(ot_spec *list, int n, const char *const *outputs, ot_arena *a, ot_error *err)
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
    return share_ignored(list, n, a, err);
}
