/* optimizers.c - the registry, and functions that several optimizers share. */
#include "runtime/optimizers/update.h"

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

ot_value *ot_update_average(ot_update *x, ot_state_kind kind, ot_value *beta, ot_value *v)
{
    ot_value *s = moment(x, kind, 0), *b = narrow(x, beta), *c = narrow(x, sub(x, wide(x, 1), beta));
    return keep(x, s, add(x, mul(x, b, s), mul(x, c, v)));
}

ot_value *ot_update_decayed(ot_update *x)
{
    if (x->decay == 0) return x->w;
    return mul(x, x->w, narrow(x, sub(x, wide(x, 1), mul(x, x->lr, wide(x, x->decay)))));
}

ot_value *ot_update_norm(ot_update *x, ot_value *v)
{
    int64_t axes[OT_MAX_RANK];
    if (!v) return NULL;
    for (int d = 0; d < v->shape.rank; d++) axes[d] = d;
    return root(x, ot_sum(&x->b, square(x, v), axes, v->shape.rank, false));
}

ot_value *ot_update_trust(ot_update *x, ot_value *a, ot_value *b, ot_value *whole)
{
    ot_value *zero = num(x, 0);
    ot_value *both = ot_map2(&x->b, OT_FN_And, 0, 0, ot_map2(&x->b, OT_FN_Greater, 0, 0, a, zero),
                             ot_map2(&x->b, OT_FN_Greater, 0, 0, b, zero));
    return ot_map3(&x->b, OT_FN_Where, 0, 0, both, whole, num(x, 1));
}

ot_value *ot_cast_from(const ot_value *v)
{
    const ot_node *n = v->producer;
    if (!n || n->op != &ot_op_Map) return NULL;
    const ot_program *m = n->attrs;
    bool copies = m->n_in == 1 && m->n_out == 1 && m->n_inst == 1 && m->inst[0].row == OT_FN_Copy;
    return copies && ot_is_float(n->in[0]->dtype) ? n->in[0] : NULL;
}
