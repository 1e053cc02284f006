/* strings.c - the references of StringEqual and StringTake. */

#include <string.h>

#include "ops/kernel.h"

/* The index in x of element k of y. */
static int64_t offset_of(const ot_shape *x, const ot_shape *y, int64_t k)
{
    int64_t own[OT_MAX_RANK], at = 0;
    int gap = y->rank - x->rank;
    ot_strides(x, own);
    for (int d = y->rank - 1; d >= 0; d--) {
        int64_t i = k % y->dim[d];
        k /= y->dim[d];
        if (d >= gap && x->dim[d - gap] != 1) at += i * own[d - gap];
    }
    return at;
}

static ot_status stringequal_run(const ot_call *c)
{
    const ot_node *n = c->node;
    const char *const *a = c->in[0], *const *b = c->in[1];
    const ot_shape *s = &n->out[0]->shape;
    uint8_t *y = c->out[0];
    for (int64_t k = 0, len = ot_numel(s); k < len; k++)
        y[k] = !strcmp(a[offset_of(&n->in[0]->shape, s, k)], b[offset_of(&n->in[1]->shape, s, k)]);
    return OT_OK;
}

const ot_kernel ot_ref_StringEqual = { .name = "ref", .run = stringequal_run };

static ot_status stringtake_run(const ot_call *c)
{
    const ot_node *n = c->node;
    const char *const *x = c->in[0];
    const char **y = c->out[0];
    const int64_t *index = c->in[1];
    int64_t all = ot_numel(&n->in[0]->shape);
    for (int64_t k = 0, len = ot_numel(&n->out[0]->shape); k < len; k++) {
        if (index[k] < 0 || index[k] >= all)
            return ot_fail(c->err, OT_E_DATA, "%s: index %lld is out of range: there are %lld strings", n->name,
                           (long long)index[k], (long long)all);
        y[k] = x[index[k]];
    }
    return OT_OK;
}

const ot_kernel ot_ref_StringTake = { .name = "ref", .run = stringtake_run };
