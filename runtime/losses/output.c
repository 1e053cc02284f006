/* output.c - a graph that computes its own loss. */
#include "runtime/losses/loss.h"

static ot_value *output(ot_loss *x)
{
    char a[128];
    int64_t n = ot_numel(&x->z->shape);
    bool of_batches = x->micro && n == x->micro; /* one of each of the file's batches */
    if (n == 1) return ot_view(&x->b, x->z, &OT_SCALAR);
    /* An output of more than one number for each sample is hardly meant, unless it is named. */
    if (of_batches || x->how->output || (x->z->shape.rank && n == x->z->shape.dim[0]))
        return ot_loss_reduce(x, x->z, 0);
    ot_fail(
        x->b.graph->err, OT_E_USAGE,
        "loss output: output '%s' has shape %s, but the loss is one number, or one for each sample; if it is a loss, "
        "name it: --loss '%s=output' takes the mean of its elements",
        x->out->name, ot_shape_text(&x->z->shape, a), x->out->name);
    return NULL;
}

const ot_loss_kind ot_loss_kind_output = {
    .entry = { "output", "the output of the model is the loss, one number or several that are reduced; no target",
               ot_loss_keys },
    .build = output,
    .takes = OT_TAKES_NOTHING,
};
