/* output.c - a graph that computes its own loss. */
#include "runtime/losses/loss.h"

static ot_value *output(ot_loss *x)
{
    char a[128];
    if (x->micro && ot_numel(&x->z->shape) == x->micro)
        return ot_loss_reduce(x, x->z, 0); /* one of each of the file's batches */
    if (ot_numel(&x->z->shape) != 1) {
        ot_fail(x->b.graph->err, OT_E_USAGE,
                "loss output: output '%s' has shape %s; the loss must be a single "
                "element",
                x->out->name, ot_shape_text(&x->z->shape, a));
        return NULL;
    }
    return ot_view(&x->b, x->z, &OT_SCALAR);
}

const ot_loss_kind ot_loss_kind_output = {
    .entry = { "output", "the output of the model is the loss; no target", ot_loss_keys },
    .build = output,
    .takes = OT_TAKES_NOTHING,
};
