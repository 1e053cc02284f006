/* batchnorm.c - BatchNorm and BatchNormDx by cuDNN: one kernel each, compiled for the shape.
 *
 * Numerics  cuDNN does not return the population variance, but updates a running one: running (1 - f) + f unbiased
 *           variance. From a running variance of 0 and with f = (m - 1)/m, m elements per channel, that is the
 *           population variance. */
#include "ops/kernels/batchnorm.h"

#include <stdlib.h>

#include "ops/cuda/cudnn/cudnn.h"
#include "ops/cuda/kernels.h"

static bool can_norm(const ot_value *x, const ot_value *y, const ot_value *scale, const char **why)
{
    cudnnDataType_t t;
    if (!ot_cudnn_type(x->dtype, &t) || x->dtype == OT_F64) {
        *why = "cuDNN supports normalization in f32, f16 "
               "and bf16 only";
        return false;
    }
    if (scale->dtype != OT_F32) {
        *why = "cuDNN keeps statistics in f32";
        return false;
    }
    if (!y) {
        *why = "the result is not needed";
        return false;
    }
    if (x->shape.rank > 5) {
        *why = "more than three spatial axes";
        return false;
    }
    if (x->layout != y->layout) {
        *why = "x and y have different layouts";
        return false;
    }
    if (ot_numel(&x->shape) <= x->shape.dim[1]) {
        *why = "one element per channel";
        return false;
    }
    return true;
}

static bool forward_can(const ot_node *n, const char **why) { return can_norm(n->in[0], n->out[0], n->in[1], why); }

static bool dx_can(const ot_node *n, const char **why)
{
    if (n->in[0]->layout != n->in[1]->layout) {
        *why = "x and dy have different layouts";
        return false;
    }
    return can_norm(n->in[1], n->out[0], n->in[2], why);
}

/* A list of C numbers of f32, beside x. */
static ot_cudnn_desc list(ot_cudnn *g, const ot_value *x, ot_cudnn_place place, int64_t i)
{
    return ot_cudnn_channels(g, x, x->shape.dim[1], CUDNN_DATA_FLOAT, (ot_cudnn_at){ place, i });
}

/* Output o, or, if it is not needed, bytes of our own workspace. */
static ot_cudnn_desc list_out(ot_cudnn *g, const ot_node *n, int o, const ot_value *x, size_t *own)
{
    if (o < n->n_out && n->out[o]) return list(g, x, OT_CUDNN_OUT, o);
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

static void add_variance(ot_cudnn *g, const ot_node *n, ot_cudnn_desc op, size_t *own)
{
    const ot_value *x = n->in[0];
    double m = (double)ot_numel(&x->shape) / (double)x->shape.dim[1];
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC,
                  ot_cudnn_number(g, x, (float)((m - 1) / m)));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, list(g, x, OT_CUDNN_TABLE, 0));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, list(g, x, OT_CUDNN_TABLE, 0));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, list_out(g, n, n->n_out, x, own));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, list(g, x, OT_CUDNN_OUT, 2));
}

static void write_norm(ot_cudnn *g, const ot_node *n, size_t *own)
{
    const ot_batch_norm *a = n->attrs;
    const ot_value *x = n->in[0];
    cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
    ot_cudnn_desc in = ot_cudnn_tensor(g, x, (ot_cudnn_at){ OT_CUDNN_IN, 0 }),
                  y = ot_cudnn_tensor(g, n->out[0], (ot_cudnn_at){ OT_CUDNN_OUT, 0 });
    ot_cudnn_desc op = ot_cudnn_make(g, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    ot_cudnn_set(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    ot_cudnn_set(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, in);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, list(g, x, OT_CUDNN_IN, 1));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, list(g, x, OT_CUDNN_IN, 2));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, ot_cudnn_number(g, x, (float)a->epsilon));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, list_out(g, n, 1, x, own));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, list_out(g, n, 3, x, own));
    if (n->out[2]) add_variance(g, n, op, own);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y);
    ot_cudnn_add(g, op);
}

static ot_status forward_prepare(const ot_node *n, ot_prep *p)
{
    size_t own = 0, C = (size_t)n->in[0]->shape.dim[1];
    state *s = calloc(1, sizeof *s);
    ot_cudnn *g = s && (s->zeros = calloc(C, sizeof *s->zeros)) ? ot_cudnn_new(n, p) : NULL;
    ot_status e = g || p->refused ? OT_OK : OT_E_NOMEM;
    if (!s || !s->zeros) e = ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    if (g) {
        write_norm(g, n, &own);
        e = ot_cudnn_plan(g, own, p); /* frees g unless it makes a plan */
    }
    if (e != OT_OK || p->refused) {
        if (s) norm_release(s);
        return e;
    }
    s->g = g;
    p->state = s;
    if (n->out[2]) {
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

static ot_status dx_prepare(const ot_node *n, ot_prep *p)
{
    const ot_value *x = n->in[1];
    cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    size_t own = 0;
    ot_cudnn *g = ot_cudnn_new(n, p);
    if (!g) return p->refused ? OT_OK : OT_E_NOMEM;
    ot_cudnn_desc dy = ot_cudnn_tensor(g, n->in[0], (ot_cudnn_at){ OT_CUDNN_IN, 0 }),
                  in = ot_cudnn_tensor(g, x, (ot_cudnn_at){ OT_CUDNN_IN, 1 });
    ot_cudnn_desc dx = ot_cudnn_tensor(g, n->out[0], (ot_cudnn_at){ OT_CUDNN_OUT, 0 });
    ot_cudnn_desc op = ot_cudnn_make(g, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
    ot_cudnn_set(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, in);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, dy);
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, list(g, x, OT_CUDNN_IN, 2));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, list(g, x, OT_CUDNN_IN, 3));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, list(g, x, OT_CUDNN_IN, 4));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, list_out(g, n, 1, x, &own));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, list_out(g, n, 2, x, &own));
    ot_cudnn_link(g, op, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx);
    ot_cudnn_add(g, op);
    return ot_cudnn_plan(g, own, p);
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
