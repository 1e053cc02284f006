/* batchnorm.c - BatchNorm and BatchNormDx by cuDNN: one kernel each, compiled for the shape; with the Map behind or before
 * them one kernel too, for the functions that cuDNN 9.19 plans:
 *
 *     BatchNorm, then y = f(y) or f(y + z) with f Relu or Swish
 *     dy where y > 0 (else 0: the gradient of Relu), stored if another node reads it, then BatchNormDx
 *
 * It also plans the second with dy + dz in place of dy, but does not run it: cuDNN 9.19 on an H100 answers BAD_PARAM,
 * "nullptr == params.gmem_dy".  It plans neither a sum alone, nor the gradient of Relu as such: y > 0 is a comparison that dy is multiplied by.  So an
 * infinite dy gives NaN, not 0, where y is 0.
 *
 * Numerics  cuDNN does not return the population variance, but updates a running one: running (1 - f) + f unbiased
 *           variance. From a running variance of 0 and with f = (m - 1)/m, m elements per channel, that is the
 *           population variance. */
#include "ops/kernels/batchnorm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cudnn/cudnn.h"
#include "ops/cuda/kernels.h"
#include "ops/kernels/fused.h"

/* The operator, whose types and shapes count, and where its operands are among those of the node that runs. */
typedef struct wires {
    const ot_node *n;
    int in[5], out[4]; /* -1: not stored */
} wires;

static wires wires_of(const ot_node *n)
{
    wires w = { .n = n };
    const ot_fused_part *op = NULL;
    if (!strcmp(n->op->name, "Fused")) op = ot_fused_op(n), w.n = op->node;
    for (int i = 0; i < w.n->n_in; i++) w.in[i] = op ? op->in[i] : i;
    for (int k = 0; k < w.n->n_out; k++) w.out[k] = op ? op->out[k] : w.n->out[k] ? k : -1;
    return w;
}

static bool can_norm(const ot_value *x, const ot_value *y, const ot_value *scale, const char **why)
{
    cudnnDataType_t t;
    if (!ot_cudnn_type(x->dtype, &t) || x->dtype == OT_F64)
        return ot_refuse(why, "cuDNN supports normalization in f32, f16 and bf16 only");
    if (scale->dtype != OT_F32) return ot_refuse(why, "cuDNN keeps statistics in f32");
    if (!y) return ot_refuse(why, "the result is not needed");
    if (x->shape.rank > 5) return ot_refuse(why, "more than three spatial axes");
    if (x->layout != y->layout) return ot_refuse(why, "x and y have different layouts");
    if (ot_numel(&x->shape) <= x->shape.dim[1]) return ot_refuse(why, "one element per channel");
    return true;
}

static bool forward_can(const ot_node *n, const char **why) { return can_norm(n->in[0], n->out[0], n->in[1], why); }

static bool dx_can(const ot_node *n, const char **why)
{
    if (n->in[0]->layout != n->in[1]->layout) return ot_refuse(why, "x and dy have different layouts");
    return can_norm(n->in[1], n->out[0], n->in[2], why);
}

/* A list of C numbers of f32, beside x. */
static ot_cudnn_desc list(ot_cudnn *g, const ot_value *x, ot_cudnn_place place, int64_t i)
{
    return ot_cudnn_channels(g, x, x->shape.dim[1], CUDNN_DATA_FLOAT, (ot_cudnn_at){ place, i });
}

/* Output `o` of the node that runs, or, if it is not needed (-1), bytes of our own workspace. */
static ot_cudnn_desc list_out(ot_cudnn *g, int o, const ot_value *x, size_t *own)
{
    if (o >= 0) return list(g, x, OT_CUDNN_OUT, o);
    int64_t at = (int64_t)*own;
    *own += ((size_t)x->shape.dim[1] * sizeof(float) + 255) / 256 * 256;
    return list(g, x, OT_CUDNN_WORK, at);
}

/* ---- forward -------------------------------------------------------------------------------- */

typedef struct state {
    ot_cudnn *g;
    float *zeros;
} state;

static void norm_release(void *p)
{
    state *s = p;
    ot_cudnn_free(s->g);
    free(s->zeros);
    free(s);
}

static void add_variance(ot_cudnn *g, const wires *w, ot_cudnn_desc op, size_t *own)
{
    const ot_value *x = w->n->in[0];
    double m = (double)ot_numel(&x->shape) / (double)x->shape.dim[1];
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC,
                  ot_cudnn_number(g, x, (float)((m - 1) / m)));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, list(g, x, OT_CUDNN_TABLE, 0));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, list(g, x, OT_CUDNN_TABLE, 0));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, list_out(g, -1, x, own));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, list(g, x, OT_CUDNN_OUT, w->out[2]));
}

static void write_norm(ot_cudnn *g, const wires *w, ot_cudnn_desc y, size_t *own)
{
    const ot_batch_norm *a = w->n->attrs;
    const ot_value *x = w->n->in[0];
    cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
    ot_cudnn_desc in = ot_cudnn_tensor(g, x, (ot_cudnn_at){ OT_CUDNN_IN, w->in[0] });
    ot_cudnn_desc op = ot_cudnn_make(g, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    ot_cudnn_set(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    ot_cudnn_set(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, in);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, list(g, x, OT_CUDNN_IN, w->in[1]));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, list(g, x, OT_CUDNN_IN, w->in[2]));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, ot_cudnn_number(g, x, (float)a->epsilon));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, list_out(g, w->out[1], x, own));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, list_out(g, w->out[3], x, own));
    if (w->out[2] >= 0) add_variance(g, w, op, own);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y);
    ot_cudnn_add(g, op);
}

static ot_cudnn_desc pointwise(ot_cudnn *g, cudnnPointwiseMode_t mode, ot_cudnn_desc a, ot_cudnn_desc b,
                               ot_cudnn_desc y)
{
    return ot_cudnn_pointwise(g, mode, CUDNN_DATA_FLOAT, -1, (const ot_cudnn_desc[]){ a, b, NULL }, y);
}

/* The functions behind the norm, from its result v. */
static void write_behind(ot_cudnn *g, const ot_node *n, ot_cudnn_desc v)
{
    const ot_value *y = ot_fused_behind(n)->node->out[0];
    const ot_fused *f = n->attrs;
    v = ot_cudnn_behind(g, n, v);
    if (f->mask_out >= 0)
        pointwise(g, CUDNN_POINTWISE_CMP_GT, v, ot_cudnn_number(g, y, 0),
                  ot_cudnn_like(g, y, CUDNN_DATA_BOOLEAN, (ot_cudnn_at){ OT_CUDNN_OUT, f->mask_out }));
}

static ot_status forward_prepare(const ot_node *n, ot_prep *p)
{
    const wires w = wires_of(n);
    size_t own = 0, C = (size_t)w.n->in[0]->shape.dim[1];
    state *s = calloc(1, sizeof *s);
    ot_cudnn *g = s && (s->zeros = calloc(C, sizeof *s->zeros)) ? ot_cudnn_new(n, p) : NULL;
    ot_status e = g || p->refused ? OT_OK : OT_E_NOMEM;
    if (!s || !s->zeros) e = ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    if (g) {
        bool alone = n == w.n;
        ot_cudnn_desc y = alone ? ot_cudnn_tensor(g, n->out[0], (ot_cudnn_at){ OT_CUDNN_OUT, 0 })
                                : ot_cudnn_virtual(g, w.n->out[0], CUDNN_DATA_FLOAT);
        write_norm(g, &w, y, &own);
        if (!alone) write_behind(g, n, y);
        e = ot_cudnn_plan(g, own, p); /* frees g unless it makes a plan */
    }
    if (e != OT_OK || p->refused) {
        if (s) norm_release(s);
        return e;
    }
    s->g = g;
    p->state = s;
    if (w.out[2] >= 0) {
        p->table = s->zeros;
        p->table_bytes = C * sizeof *s->zeros;
    }
    return OT_OK;
}

static ot_status forward_run(const ot_call *c)
{
    const state *s = c->state;
    return ot_cudnn_execute(s->g, c);
}

/* ---- backward ------------------------------------------------------------------------------- */

/* What comes before the norm: dy, where y > 0.  Returns the masked gradient. */
static ot_cudnn_desc write_before(ot_cudnn *g, const ot_node *n)
{
    const ot_fused *f = n->attrs;
    const ot_fused_part *map = ot_fused_before(n);
    const ot_value *const dy = map->node->out[0];
    cudnnDataType_t t = CUDNN_DATA_FLOAT;
    ot_chain c;
    ot_chain_of(map->node, -1, &c);
    ot_cudnn_type(dy->dtype, &t);
    int y = c.step[0].other;
    ot_cudnn_at at = { OT_CUDNN_IN, map->in[y] };
    ot_cudnn_desc v = ot_cudnn_tensor(g, map->node->in[c.start], (ot_cudnn_at){ OT_CUDNN_IN, map->in[c.start] });
    ot_cudnn_desc on = f->masked ? ot_cudnn_like(g, dy, CUDNN_DATA_BOOLEAN, at)
                                 : pointwise(g, CUDNN_POINTWISE_CMP_GT, ot_cudnn_tensor(g, map->node->in[y], at),
                                             ot_cudnn_number(g, dy, 0), ot_cudnn_virtual(g, dy, CUDNN_DATA_BOOLEAN));
    ot_cudnn_desc to = map->out[0] < 0 ? ot_cudnn_virtual(g, dy, t)
                                       : ot_cudnn_tensor(g, dy, (ot_cudnn_at){ OT_CUDNN_OUT, map->out[0] });
    return pointwise(g, CUDNN_POINTWISE_MUL, v, on, to);
}

static ot_status dx_prepare(const ot_node *n, ot_prep *p)
{
    const wires w = wires_of(n);
    const ot_value *x = w.n->in[1];
    cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    size_t own = 0;
    ot_cudnn *g = ot_cudnn_new(n, p);
    if (!g) return p->refused ? OT_OK : OT_E_NOMEM;
    ot_cudnn_desc dy = n == w.n ? ot_cudnn_tensor(g, n->in[0], (ot_cudnn_at){ OT_CUDNN_IN, 0 }) : write_before(g, n),
                  in = ot_cudnn_tensor(g, x, (ot_cudnn_at){ OT_CUDNN_IN, w.in[1] });
    ot_cudnn_desc dx = ot_cudnn_tensor(g, w.n->out[0], (ot_cudnn_at){ OT_CUDNN_OUT, w.out[0] });
    ot_cudnn_desc op = ot_cudnn_make(g, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
    ot_cudnn_set(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, in);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, dy);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, list(g, x, OT_CUDNN_IN, w.in[2]));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, list(g, x, OT_CUDNN_IN, w.in[3]));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, list(g, x, OT_CUDNN_IN, w.in[4]));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, list_out(g, w.out[1], x, &own));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, list_out(g, w.out[2], x, &own));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx);
    ot_cudnn_add(g, op);
    return ot_cudnn_plan(g, own, p);
}

/* ---- with a Map ------------------------------------------------------------------------------ */

/* Bits of whole bytes for each pixel. */
static bool mask_can(const ot_fused *f, const ot_value *x)
{
    enum { WORD = 32 };
    return (f->mask_out < 0 && !f->masked) || (x->layout == OT_CHANNELS_LAST && x->shape.dim[1] % WORD == 0);
}

static bool fused_can(const ot_node *n, const char **why)
{
    const wires w = wires_of(n);
    const ot_fused_part *behind = ot_fused_behind(n), *before = ot_fused_before(n);
    ot_chain c;
    *why = "cuDNN has no such functions beside a norm";
    if (!strcmp(w.n->op->name, "BatchNorm") && behind) {
        if (!forward_can(w.n, why) || w.out[0] >= 0 || !ot_fused_like(behind->node, w.n->out[0], false)) return false;
        if (!ot_chain_of(behind->node, ot_fused_between(n), &c) || c.n < 1 || c.n > 2) return false;
        const ot_fused *f = n->attrs;
        int last = c.step[c.n - 1].row;
        if (!mask_can(f, w.n->in[0]) || (f->mask_out >= 0 && last != OT_FN_Relu)) return false;
        return ot_cudnn_behind_can(&c) && (last == OT_FN_Relu || last == OT_FN_Swish) &&
               (c.n == 1 || c.step[0].row == OT_FN_Add);
    }
    if (!strcmp(w.n->op->name, "BatchNormDx") && before) {
        if (!dx_can(w.n, why) || !ot_fused_like(before->node, w.n->in[1], false)) return false;
        return ot_chain_of(before->node, -1, &c) && c.n == 1 && c.step[0].row == OT_FN_Relu_da &&
               c.step[0].other >= 0 && mask_can(n->attrs, w.n->in[1]);
    }
    return false;
}

static void name_bits(const ot_node *n, ot_prep *p)
{
    const ot_fused *f = n->attrs;
    size_t at = strlen(p->how);
    if (!p->refused && (f->mask_out >= 0 || f->masked)) snprintf(p->how + at, sizeof p->how - at, ", ReLU as bits");
}

static ot_status fused_prepare(const ot_node *n, ot_prep *p)
{
    if (!strcmp(wires_of(n).n->op->name, "BatchNorm")) {
        ot_status e = forward_prepare(n, p);
        name_bits(n, p);
        return e;
    }
    state *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    ot_status e = dx_prepare(n, p);
    if (e != OT_OK || p->refused) {
        free(s);
        return e;
    }
    s->g = p->state;
    p->state = s;
    name_bits(n, p);
    return OT_OK;
}

const ot_kernel ot_cudnn_BatchNorm = { .name = "cudnn",
                                       .can = forward_can,
                                       .may_refuse = true,
                                       .prepare = forward_prepare,
                                       .run = forward_run,
                                       .release = norm_release,
                                       .any_layout = true };
const ot_kernel ot_cudnn_BatchNormDx = { .name = "cudnn",
                                         .can = dx_can,
                                         .may_refuse = true,
                                         .prepare = dx_prepare,
                                         .run = ot_cudnn_run,
                                         .release = ot_cudnn_free,
                                         .any_layout = true };
const ot_kernel ot_cuda_Fused = { .name = "cudnn",
                                  .can = fused_can,
                                  .may_refuse = true,
                                  .prepare = fused_prepare,
                                  .run = forward_run,
                                  .release = norm_release,
                                  .any_layout = true };
