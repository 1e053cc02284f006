/* fused.c - Fused on the CPU: any Map behind a convolution of our own (convolve.c), or behind a product by rows
 * (dot.c); a residual and ReLU or ReLU6 behind BatchNorm, their gradient before its own (batchnorm.c); a residual behind a
 * matrix product (oneDNN) and the gradient of LayerNorm. */
#include "ops/kernels/fused.h"

#include <math.h>
#include <stdlib.h>

#include "ops/cpu/batchnorm.h"
#include "ops/cpu/convolve.h"
#include "ops/cpu/dot.h"
#include "ops/cpu/layernorm.h"
#include "ops/cpu/onednn.h"

/* The functions: [+ other] [then ReLU or ReLU6], or their gradient; operands of the Map, -1: none. */
typedef struct form {
    int add, y; /* y: what the gradient of ReLU reads */
    bool relu;
    float top; /* of ReLU; NaN: none */
} form;

static bool is_relu(int row, int derivative, float *top)
{
    *top = row == OT_FN_Relu6 + derivative ? 6 : NAN;
    return row == OT_FN_Relu + derivative || row == OT_FN_Relu6 + derivative;
}

static bool form_of(const ot_node *n, form *f)
{
    const ot_fused_part *behind = ot_fused_behind(n), *before = ot_fused_before(n);
    ot_chain c;
    *f = (form){ -1, -1, false, NAN };
    if (behind ? !ot_chain_of(behind->node, ot_fused_between(n), &c) : !ot_chain_of(before->node, -1, &c)) return false;
    int last = c.n - 1, i = 0;
    if (c.n > 0 && c.step[0].row == OT_FN_Add && c.step[0].other >= 0) f->add = c.step[i++].other;
    if (i == last && behind && is_relu(c.step[i].row, 0, &f->top)) f->relu = true, i++;
    if (i == last && before && is_relu(c.step[i].row, 1, &f->top)) f->y = c.step[i++].other;
    return i == c.n && i > 0 && (behind || f->y >= 0);
}

static bool base_can(const ot_node *op, const ot_kernel *k, const char **why) { return !k->can || k->can(op, why); }

static bool can(const ot_node *n, const char **why)
{
    const ot_node *op = ot_fused_op(n)->node;
    const ot_fused_part *behind = ot_fused_behind(n), *before = ot_fused_before(n);
    form f;
    *why = "no kernel has these functions beside it";
    const ot_fused *all = n->attrs;
    if (all->mask_out >= 0 || all->masked) return false;
    if (behind && ot_fused_op(n)->out[0] >= 0) return false;
    if (op->op == &ot_op_Convolve && behind) return ot_cpu_convolve_takes(op, behind->node, why);
    bool known = form_of(n, &f);
    if (op->op == &ot_op_Dot && behind && !(known && !f.relu)) return ot_cpu_dot_takes(op, behind->node, why);
    if (!known) return false;
    if (op->op == &ot_op_BatchNorm && behind)
        return ot_fused_like(behind->node, op->out[0], false) && base_can(op, &ot_cpu_BatchNorm, why);
    if (op->op == &ot_op_BatchNormDx && before)
        return ot_fused_like(before->node, op->in[1], false) && op->out[0] && op->out[0]->layout == op->in[1]->layout &&
               base_can(op, &ot_cpu_BatchNormDx, why);
    if (op->op == &ot_op_Dot && behind)
        return ot_fused_like(behind->node, op->out[0], true) && base_can(op, &ot_cpu_Dot, why);
    if (op->op == &ot_op_LayerNormDx && behind)
        return !f.relu && ot_fused_like(behind->node, op->in[1], true) && base_can(op, &ot_cpu_LayerNormDx, why);
    return false;
}

/* The state of the operator's kernel. */
typedef struct fused_state {
    void *of;
    void (*release)(void *of);
} fused_state;

static void release(void *state)
{
    fused_state *s = state;
    if (s->of) s->release(s->of);
    free(s);
}

static ot_status prepare_dot(const ot_node *n, ot_prep *p)
{
    const ot_fused_part *op = ot_fused_op(n), *behind = ot_fused_behind(n);
    bool bias = op->node->n_in > 2 && op->node->in[2];
    form f;
    bool residual = form_of(n, &f) && !f.relu && !ot_cpu_dot_by_rows(op->node, behind->node, p);
    return ot_cpu_dot_prepare(op->node, residual ? NULL : behind->node,
                              &(ot_dot_operands){ .a = OT_ARG_IN + op->in[0],
                                                  .b = OT_ARG_IN + op->in[1],
                                                  .bias = bias ? OT_ARG_IN + op->in[2] : OT_ARG_NONE,
                                                  .add = residual ? OT_ARG_IN + behind->in[f.add] : OT_ARG_NONE,
                                                  .y = OT_ARG_OUT + behind->out[0] },
                              p);
}

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    const ot_node *op = ot_fused_op(n)->node;
    const ot_kernel *k = op->op == &ot_op_BatchNorm     ? &ot_cpu_BatchNorm
                         : op->op == &ot_op_BatchNormDx ? &ot_cpu_BatchNormDx
                                                        : &ot_cpu_LayerNormDx;
    fused_state *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    bool convolve = op->op == &ot_op_Convolve, dot = op->op == &ot_op_Dot;
    s->release = convolve ? ot_cpu_convolve_release : dot ? ot_cpu_dot_release : k->release;
    ot_status e = convolve ? ot_cpu_convolve_prepare(op, ot_fused_behind(n)->node, p)
                  : dot    ? prepare_dot(n, p)
                           : k->prepare(op, p);
    s->of = e == OT_OK ? p->state : NULL;
    p->state = e == OT_OK ? s : NULL;
    if (e != OT_OK) free(s);
    return e;
}

/* The operands of the Map behind; that between the parts is at y, where the Map's result will be. */
static void map_operands(const ot_call *c, const void *y, const void *in[OT_FUSED_IN])
{
    const ot_fused_part *map = ot_fused_behind(c->node);
    for (int i = 0; i < OT_FUSED_IN; i++)
        in[i] = i >= map->node->n_in             ? NULL
                : map->in[i] == OT_FUSED_BETWEEN ? y
                : map->in[i] < 0                 ? NULL
                                                 : c->in[map->in[i]];
}

static ot_status norm_dx_run(const ot_call *c, ot_fused_call *call, const form *f)
{
    const ot_fused_part *map = ot_fused_before(c->node);
    ot_chain chain;
    ot_chain_of(map->node, -1, &chain);
    call->in[0] = c->in[map->in[chain.start]];
    ot_norm_before b = { .dz = f->add < 0 ? NULL : c->in[map->in[f->add]],
                         .y = c->in[map->in[f->y]],
                         .to = map->out[0] < 0 ? call->out[0] : c->out[map->out[0]],
                         .top = f->top };
    return ot_cpu_norm_dx(&call->call, &b);
}

static ot_status run(const ot_call *c)
{
    const ot_fused_part *behind = ot_fused_behind(c->node);
    const ot_op *op = ot_op_of(c->node);
    const fused_state *s = c->state;
    ot_call own = *c;
    ot_fused_call call;
    const void *map_in[OT_FUSED_IN];
    form f;
    own.state = s->of;
    if (op == &ot_op_Dot) {
        map_operands(c, c->out[behind->out[0]], map_in);
        return ot_cpu_dot_run(&own, map_in);
    }
    ot_fused_call_of(&own, &call);
    if (op == &ot_op_Convolve) {
        map_operands(c, call.call.out[0], map_in);
        return ot_cpu_convolve_run(&call.call, map_in);
    }
    form_of(c->node, &f);
    if (op == &ot_op_BatchNormDx) return norm_dx_run(&own, &call, &f);
    const float *add = f.add < 0 ? NULL : c->in[behind->in[f.add]];
    if (op == &ot_op_LayerNormDx) return ot_cpu_layer_norm_dx(&call.call, add);
    return ot_cpu_norm(&call.call, &(ot_norm_behind){ .z = add, .relu = f.relu, .top = f.top });
}

const ot_kernel ot_cpu_Fused = {
    .name = "cpu", .can = can, .prepare = prepare, .run = run, .release = release, .any_layout = true
};
