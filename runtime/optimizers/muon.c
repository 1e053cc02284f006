/* muon.c - Muon: orthogonalised steps for matrices: the averaged gradient with all its singular values near 1.
 *
 * Weights of lower rank are updated by AdamW's rule, with the same learning rate and decay.
 *
 * Source  Jordan 2024 */
#include "runtime/optimizers/update.h"

#include "ops/kernels/dot.h"

/* Is the weight stored as (out, in)?  It is if a product reads its transpose. */
static bool stored_out_in(const ot_graph *g, const ot_value *w)
{
    for (const ot_node *n = g->first; n; n = n->next)
        if (n->op == &ot_op_Dot && n->phase == OT_PHASE_BATCH && (n->in[1] == w || ot_cast_from(n->in[1]) == w))
            return ((const ot_dot *)n->attrs)->tb;
    return true;
}

static ot_value *vector(ot_update *x)
{
    ot_value *momentum = x->momentum;
    x->momentum = wide(x, par(x, "beta1"));
    ot_value *now = ot_optimizer_adamw.build(x);
    x->momentum = momentum;
    x->vectors++;
    return now;
}

/* Orthogonalises the averaged gradient by five Newton-Schulz steps on its wide form. */
static ot_value *muon(ot_update *x)
{
    const ot_shape *s = &x->w->shape;
    if (s->rank < 2) return vector(x);
    ot_shape flat = { .rank = 2, .dim = { s->dim[0], ot_numel(s) / (s->dim[0] ? s->dim[0] : 1) } };
    bool tall = flat.dim[0] > flat.dim[1], out_in = s->rank > 2 || stored_out_in(x->b.graph, x->w);
    ot_value *mu = narrow(x, x->momentum), *rest = narrow(x, sub(x, wide(x, 1), x->momentum)),
             *b = moment(x, OT_STATE_MOMENTUM, 0);
    ot_value *m = keep(x, b, add(x, mul(x, mu, b), mul(x, rest, x->g)));
    ot_value *y = ot_spec_flag(x->o, "nesterov") ? add(x, mul(x, rest, x->g), mul(x, mu, m)) : m;
    y = ot_view(&x->b, y, &flat);
    if (tall) y = ot_transpose(&x->b, y, (int[]){ 1, 0 });
    y = quo(x, y, larger(x, ot_update_norm(x, y), num(x, 1e-7)));
    for (int i = 0; i < (int)par(x, "ns_steps"); i++) {
        ot_value *a = ot_matmul(&x->b, y, false, y, true);
        ot_value *c = add(x, scaled(x, a, -4.775), scaled(x, ot_matmul(&x->b, a, false, a, false), 2.0315));
        y = add(x, scaled(x, y, 3.4445), ot_matmul(&x->b, c, false, y, false));
    }
    if (tall) y = ot_transpose(&x->b, y, (int[]){ 1, 0 });
    double out = (double)flat.dim[!out_in], in = (double)flat.dim[out_in];
    double ratio = in > 0 && out > in ? sqrt(out / in) : 1;
    return step_by(x, ot_update_decayed(x), mul(x, x->lr, wide(x, ratio)), ot_view(&x->b, y, s));
}

static const ot_key keys[] = {
    OT_LR("1e-3"),
    OT_DECAY("0.1"),
    { "momentum", "0.95", NULL, "decay of the running average of gradients", .kind = OT_KEY_NUMBER, OT_KEY_FROM(0, 1) },
    { "nesterov", "true", NULL, "Nesterov momentum", .kind = OT_KEY_FLAG },
    { "ns_steps", "5", NULL, "Newton-Schulz steps of the orthogonalisation", .kind = OT_KEY_WHOLE, OT_KEY_FROM(1, 99) },
    { "beta1", "0.9", NULL, "of AdamW, for biases and other vectors: decay of the running average of gradients",
      .kind = OT_KEY_NUMBER, OT_KEY_FROM_BELOW(0, 1) },
    { "beta2", "0.999", NULL,
      "of AdamW, for biases and other vectors: decay of the running average of squared gradients",
      .kind = OT_KEY_NUMBER, OT_KEY_FROM_BELOW(0, 1) },
    { "eps", "1e-8", NULL, "of AdamW, for biases and other vectors: added to the denominator", .kind = OT_KEY_NUMBER,
      OT_KEY_AT_LEAST(0) },
    { "amsgrad", "false", NULL,
      "of AdamW, for biases and other vectors: use the maximum of the averages of squares so far",
      .kind = OT_KEY_FLAG },
    OT_KEYS_END,
};

const ot_optimizer ot_optimizer_muon = {
    { "muon", "orthogonalised momentum, for matrices; the rule of AdamW for biases and other vectors", keys },
    muon,
    "momentum",
    NULL
};
