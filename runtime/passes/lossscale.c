/* lossscale.c - the loss scale of fp16 training, kept in the graph.
 *
 * Gradients of activations are small and would underflow in f16.  The loss is multiplied by a scale before the
 * backward pass, and gradients are divided by it in the update.  If a gradient is not finite, the update changes
 * only the scale, which is halved; after 2000 successful updates in a row it is doubled.  The host is not involved:
 * scale and count are state, and the update is selected in the graph (optimizer.c).
 *
 * Source  PyTorch's GradScaler: initial scale, factors and interval are its defaults. */
#include <float.h>

#include "ops/kernels/map.h"
#include "runtime/passes/lossscale.h"

/* GRAD_SCALE: the fixed scale of `onnxtrain grad`, which runs once and cannot search for one. */
enum { START = 65536, INTERVAL = 2000, GRAD_SCALE = 1024 };

ot_value *ot_loss_seed(ot_plan *p, const ot_config *c, ot_build *b)
{
    ot_dtype t = p->loss->dtype;
    if (c->options.precision != OT_PREC_FP16) return ot_scalar(b, t, 1);
    if (c->want != OT_WANT_TRAIN) return ot_scalar(b, t, GRAD_SCALE);
    p->loss_scale = ot_graph_state(p->graph, OT_STATE_LOSS_SCALE, NULL, OT_F32, &OT_SCALAR, START);
    return p->loss_scale ? ot_cast(b, p->loss_scale, t) : NULL;
}

void ot_loss_unscale_all(ot_plan *p, const ot_config *c, ot_build *b)
{
    if (c->options.precision != OT_PREC_FP16 || c->want == OT_WANT_TRAIN) return;
    for (int i = 0; i < p->n_weights; i++) {
        ot_value *g = p->weights[i]->grad;
        p->weights[i]->grad = ot_map2(b, OT_FN_Mul, 0, 0, g, ot_scalar(b, g->dtype, 1.0 / (double)GRAD_SCALE));
    }
}

static ot_value *select(ot_build *b, ot_value *cond, ot_value *yes, ot_value *no)
{
    return ot_map3(b, OT_FN_Where, 0, 0, cond, yes, no);
}

void ot_loss_scale_update(ot_plan *p, ot_build *b, ot_value *ok)
{
    ot_graph *g = p->graph;
    ot_value *scale = p->loss_scale, *count = ot_graph_state(g, OT_STATE_LOSS_SCALE_COUNT, NULL, OT_F32, &OT_SCALAR, 0);
    if (!count) return;
    ot_value *zero = ot_scalar(b, OT_F32, 0), *next = ot_map2(b, OT_FN_Add, 0, 0, count, ot_scalar(b, OT_F32, 1));
    ot_value *due = ot_map2(b, OT_FN_GreaterOrEqual, 0, 0, next, ot_scalar(b, OT_F32, INTERVAL));
    ot_value *twice = ot_map2(b, OT_FN_Mul, 0, 0, scale, ot_scalar(b, OT_F32, 2));
    ot_value *half = ot_map2(b, OT_FN_Mul, 0, 0, scale, ot_scalar(b, OT_F32, 0.5));
    ot_value *fits = ot_map2(b, OT_FN_LessOrEqual, 0, 0, twice, ot_scalar(b, OT_F32, (double)FLT_MAX));
    ot_value *larger = select(b, ot_map2(b, OT_FN_And, 0, 0, due, fits), twice, scale);
    ot_graph_assign(g, scale, select(b, ok, larger, half));
    ot_graph_assign(g, count, select(b, ok, select(b, due, zero, next), zero));
}
