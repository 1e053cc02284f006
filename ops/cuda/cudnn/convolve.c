/* convolve.c - Convolve, ConvolveDx, ConvolveDw by cuDNN.
 *
 * x, w and y are plain or channels last; engines that need another layout transpose in their workspace. A bias is a
 * second operation of the graph, on the f32 sums, and so are the functions of a Map behind y or dx: a sum, an activation, the
 * gradient of ReLU.  db, which cuDNN's graphs for dw do not compute, is summed by our own kernel (channelsum.cu). */
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/convolve.h"
#include "ops/cuda/channelsum.h"
#include "ops/cuda/cudnn/cudnn.h"
#include "ops/cuda/kernels.h"
#include "ops/kernels/fused.h"

/* The three roles of tensors, for each of the three operators.  With a Map behind it the result is between two operations. */
typedef struct roles {
    const ot_value *x, *w, *y, *b;
    ot_cudnn_at x_at, w_at, y_at, b_at;
} roles;

static bool is_fused(const ot_node *n) { return !strcmp(n->op->name, "Fused"); }

static roles roles_of(const ot_node *n)
{
    const ot_fused_part *op = is_fused(n) ? ot_fused_op(n) : NULL;
    ot_cudnn_at in[3], out = { op ? OT_CUDNN_VIRTUAL : OT_CUDNN_OUT, 0 };
    for (int i = 0; i < 3; i++) in[i] = (ot_cudnn_at){ OT_CUDNN_IN, op ? op->in[i] : i };
    if (op) n = op->node;
    const char *name = n->op->name;
    if (!strcmp(name, "Convolve"))
        return (roles){ n->in[0], n->in[1], n->out[0], ot_node_in(n, 2), in[0], in[1], out, in[2] };
    if (!strcmp(name, "ConvolveDx")) return (roles){ n->out[0], n->in[1], n->in[0], NULL, out, in[1], in[0], in[2] };
    return (roles){ n->in[1], n->out[0], n->in[0], NULL, in[1], out, in[0], in[2] };
}

/* The padding after x that cuDNN's formula for the extent of y needs; below 0: windows that do not reach the end of
 * x. */
static int64_t pad_behind(const ot_window *w, int j, int64_t x, int64_t y)
{
    int64_t reach = (y - 1) * w->stride[j] + (w->kernel[j] - 1) * w->dilation[j] + 1;
    return reach - x - w->pad_lo[j];
}

static bool can(const ot_node *n, const char **why)
{
    const ot_convolve *a = n->attrs;
    cudnnDataType_t t;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (!v) continue;
        if (!ot_cudnn_type(v->dtype, &t) || v->dtype != n->in[0]->dtype)
            return ot_refuse(why, "cuDNN needs floats of one type");
        if (ot_numel(&v->shape) == 0) return ot_refuse(why, "an empty tensor");
    }
    if (!n->out[0]) return ot_refuse(why, "dw is not needed");
    roles r = roles_of(n);
    for (int j = 0; j < a->window.nd; j++) {
        if (a->window.pad_lo[j] < 0) return ot_refuse(why, "a negative padding");
        if (pad_behind(&a->window, j, r.x->shape.dim[2 + j], r.y->shape.dim[2 + j]) + a->window.stride[j] <= 0)
            return ot_refuse(why, "some rows of x are in no window");
    }
    return true;
}

/* With few channels on both sides, tiles of matrix units are mostly padding, and the heuristics choose engines that
 * do not use them; the time is then that of reading x once, which our own kernel does.  With many outputs (the first
 * convolution of an image network: 3 to 64) the other side fills the tiles. */
static bool yields(const ot_node *n, const char **why)
{
    const ot_convolve *a = n->attrs;
    roles r = roles_of(n);
    int64_t C = r.w->shape.dim[1], M = r.w->shape.dim[0] / (a->group > 0 ? a->group : 1);
    if (C >= 8 || M >= 32) return false;
    *why = "few channels: a kernel that reads x once is faster";
    return true;
}

static ot_cudnn_desc convolution(ot_cudnn *g, const ot_convolve *a, const roles *r)
{
    ot_cudnn_desc d = ot_cudnn_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t sums = ot_cudnn_sums(r->x->dtype);
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t n = a->window.nd < 2 ? 2 : a->window.nd, lead = n - a->window.nd;
    int64_t stride[3] = { 1, 1, 1 }, dilation[3] = { 1, 1, 1 }, lo[3] = { 0 }, hi[3] = { 0 };
    for (int j = 0; j < a->window.nd; j++) {
        int64_t behind = pad_behind(&a->window, j, r->x->shape.dim[2 + j], r->y->shape.dim[2 + j]);
        stride[j + lead] = a->window.stride[j];
        dilation[j + lead] = a->window.dilation[j];
        lo[j + lead] = a->window.pad_lo[j];
        hi[j + lead] = behind > 0 ? behind : 0;
    }
    ot_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    ot_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    ot_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    ot_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, stride);
    ot_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, dilation);
    ot_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, lo);
    ot_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, hi);
    ot_cudnn_finish(g, d);
    return d;
}

/* Attribute names of the three operations. */
typedef struct names {
    cudnnBackendDescriptorType_t op;
    cudnnBackendAttributeName_t x, w, y, conv, alpha, beta;
} names;

static const names forward_names = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
};
static const names dx_names = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
};
static const names dw_names = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
};

static ot_cudnn_desc tensor(ot_cudnn *g, const ot_value *v, ot_cudnn_at at)
{
    return at.place == OT_CUDNN_VIRTUAL ? ot_cudnn_virtual(g, v, ot_cudnn_sums(v->dtype)) : ot_cudnn_tensor(g, v, at);
}

/* Returns the result. */
static ot_cudnn_desc add_convolution(ot_cudnn *g, const names *k, const roles *r, ot_cudnn_desc conv)
{
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    bool f64 = r->x->dtype == OT_F64; /* the factors have the type of the sums */
    ot_cudnn_at y_at = r->y_at;
    if (r->b) y_at.place = OT_CUDNN_VIRTUAL;
    ot_cudnn_desc x = tensor(g, r->x, r->x_at), w = tensor(g, r->w, r->w_at), y = tensor(g, r->y, y_at);
    ot_cudnn_desc op = ot_cudnn_make(g, k->op);
    ot_cudnn_link(g, op, k->x, x);
    ot_cudnn_link(g, op, k->w, w);
    ot_cudnn_link(g, op, k->y, y);
    ot_cudnn_link(g, op, k->conv, conv);
    ot_cudnn_set(g, op, k->alpha, f64 ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT, 1, f64 ? (const void *)&one : &one_f);
    ot_cudnn_set(g, op, k->beta, f64 ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT, 1, f64 ? (const void *)&zero : &zero_f);
    ot_cudnn_add(g, op);
    return k == &forward_names ? y : k == &dx_names ? x : w;
}

/* Returns y. */
static ot_cudnn_desc add_bias(ot_cudnn *g, const roles *r, ot_cudnn_desc sums)
{
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    ot_cudnn_type(r->b->dtype, &type);
    ot_cudnn_desc b = ot_cudnn_channels(g, r->y, r->y->shape.dim[1], type, r->b_at);
    return ot_cudnn_pointwise(g, CUDNN_POINTWISE_ADD, ot_cudnn_sums(r->y->dtype), -1,
                              (const ot_cudnn_desc[]){ sums, b, NULL }, tensor(g, r->y, r->y_at));
}

/* NULL: as ot_cudnn_new. */
static ot_cudnn *graph_of(const ot_node *n, ot_prep *p, const names *k)
{
    roles r = roles_of(n);
    ot_cudnn *g = ot_cudnn_new(n, p);
    if (!g) return NULL;
    const void *attrs = is_fused(n) ? ot_fused_op(n)->node->attrs : n->attrs;
    ot_cudnn_desc v = add_convolution(g, k, &r, convolution(g, attrs, &r));
    if (r.b) v = add_bias(g, &r, v);
    if (is_fused(n)) ot_cudnn_behind(g, n, v);
    return g;
}

static ot_status prepare(const ot_node *n, ot_prep *p, const names *k)
{
    ot_cudnn *g = graph_of(n, p, k);
    return g ? ot_cudnn_plan(g, 0, p) : p->refused ? OT_OK : OT_E_NOMEM;
}

static ot_status forward_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, &forward_names); }
static ot_status dx_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, &dx_names); }

/* ---- dw and db --------------------------------------------------------------------------- */

typedef struct dw_state {
    ot_cudnn *g;
    ot_channel_sum sum;
    bool db;
} dw_state;

static void dw_release(void *state)
{
    dw_state *s = state;
    ot_cudnn_free(s->g);
    free(s);
}

static ot_status dw_prepare(const ot_node *n, ot_prep *p)
{
    dw_state *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    s->db = n->n_out > 1 && n->out[1];
    ot_status e = s->db ? ot_channel_sum_prepare(n->in[0], &s->sum, p) : OT_OK;
    if (e == OT_OK && (s->g = graph_of(n, p, &dw_names))) {
        ot_cudnn *g = s->g;
        s->g = NULL; /* ot_cudnn_plan frees it unless it makes a plan */
        e = ot_cudnn_plan(g, s->db ? s->sum.work : 0, p);
        if (e == OT_OK && !p->refused) s->g = g;
    } else if (e == OT_OK && !p->refused) {
        e = OT_E_NOMEM;
    }
    p->state = s->g ? s : NULL;
    if (!s->g) dw_release(s);
    return e;
}

static ot_status dw_run(const ot_call *c)
{
    dw_state *s = c->state;
    if (s->db && c->out[1]) OT_TRY(ot_channel_sum_run(&s->sum, c->in[0], c->out[1], c->work, c));
    return ot_cudnn_execute(s->g, c);
}

/* ---- with a Map ------------------------------------------------------------------------------ */

/* In 16 bits: cuDNN compiles such engines for matrix units. */
static bool fused_can(const ot_node *n, const char **why)
{
    const ot_node *op = ot_fused_op(n)->node;
    const ot_fused_part *behind = ot_fused_behind(n);
    const ot_fused *f = n->attrs;
    ot_chain c;
    *why = "not a convolution or the gradient of its input";
    if (strcmp(op->op->name, "Convolve") != 0 && strcmp(op->op->name, "ConvolveDx") != 0) return false;
    *why = "cuDNN has no such functions after a convolution";
    if (!behind || ot_fused_op(n)->out[0] >= 0 || f->mask_out >= 0) return false;
    if (op->out[0]->dtype != OT_F16 && op->out[0]->dtype != OT_BF16) return false;
    if (!can(op, why) || !ot_fused_like(behind->node, op->out[0], false)) return false;
    return ot_chain_of(behind->node, ot_fused_between(n), &c) && ot_cudnn_behind_can(&c);
}

static bool fused_yields(const ot_node *n, const char **why) { return yields(ot_fused_op(n)->node, why); }

static ot_status fused_prepare(const ot_node *n, ot_prep *p)
{
    return prepare(n, p, strcmp(ot_fused_op(n)->node->op->name, "Convolve") ? &dx_names : &forward_names);
}

const ot_kernel ot_conv_Fused = { .name = "cudnn",
                                  .can = fused_can,
                                  .yields = fused_yields,
                                  .may_refuse = true,
                                  .prepare = fused_prepare,
                                  .run = ot_cudnn_run,
                                  .release = ot_cudnn_free,
                                  .any_layout = true };
const ot_kernel ot_cudnn_Convolve = { .name = "cudnn",
                                      .can = can,
                                      .yields = yields,
                                      .may_refuse = true,
                                      .prepare = forward_prepare,
                                      .run = ot_cudnn_run,
                                      .release = ot_cudnn_free,
                                      .any_layout = true,
                                      .wants = ot_cuda_conv_wants };
const ot_kernel ot_cudnn_ConvolveDx = { .name = "cudnn",
                                        .can = can,
                                        .yields = yields,
                                        .may_refuse = true,
                                        .prepare = dx_prepare,
                                        .run = ot_cudnn_run,
                                        .release = ot_cudnn_free,
                                        .any_layout = true,
                                        .wants = ot_cuda_conv_wants };
const ot_kernel ot_cudnn_ConvolveDw = { .name = "cudnn",
                                        .can = can,
                                        .yields = yields,
                                        .may_refuse = true,
                                        .prepare = dw_prepare,
                                        .run = dw_run,
                                        .release = dw_release,
                                        .any_layout = true,
                                        .wants = ot_cuda_conv_wants };
