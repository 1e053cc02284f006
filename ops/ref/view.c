/* view.c - View where x and y do not share memory. */
#include "ops/kernel.h"

#include <string.h>

static ot_status view_run(const ot_call *c)
{
    const ot_value *x = c->node->in[0];
    size_t n = ot_bytes(&x->shape, x->dtype);
    if (n && c->out[0] != c->in[0]) memcpy(c->out[0], c->in[0], n);
    return OT_OK;
}

const ot_kernel ot_ref_View = { .name = "ref", .run = view_run, .inplace = 1 };
