/* convolve.c - Convolve, ConvolveDx, ConvolveDw by oneDNN.
 *
 * x and y are read and written in either layout; the primitive computes channels last and reorders plain operands
 * inside.  Weights are stored in ONNX's order and reordered to the primitive's in every step: they are small compared
 * with activations. */
#include "ops/cpu/onednn.h"

static bool all_positive(const ot_value *v)
{
    for (int d = 0; d < v->shape.rank; d++)
        if (v->shape.dim[d] <= 0 || v->shape.dim[d] >= INT32_MAX) return false;
    return true;
}

static bool can(const ot_node *n, const char **why)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (!v) continue;
        if (v->dtype != OT_F32) {
            *why = "only float32";
            return false;
        }
        if (!all_positive(v)) {
            *why = "an empty or huge tensor";
            return false;
        }
    }
    const ot_convolve *a = n->attrs;
    if (n->out[0] == NULL) {
        *why = "dw is not needed";
        return false;
    }
    const ot_value *x = n->op == &ot_op_Convolve ? n->in[0] : n->op == &ot_op_ConvolveDx ? n->out[0] : n->in[1];
    const ot_value *y = n->op == &ot_op_Convolve ? n->out[0] : n->in[0];
    for (int j = 0; j < a->window.nd; j++) {
        const ot_window *w = &a->window;
        int64_t span = (y->shape.dim[2 + j] - 1) * w->stride[j] + (w->kernel[j] - 1) * w->dilation[j] + 1;
        if (span - x->shape.dim[2 + j] - w->pad_lo[j] + w->stride[j] <= 0) {
            *why = "some rows of x are in no window";
            return false;
        }
    }
    return true;
}

/* F(4x4, 3x3) needs a third of the products, but blocked tensors: it is faster if two reorders are small compared
 * with the products, and padded lanes do not cost the gain. */
static bool winograd_pays(const ot_conv_call *c)
{
    const ot_window *w = &c->attrs->window;
    int64_t C = c->x->shape.dim[1], M = c->y->shape.dim[1];
    if (ot_numel(&c->y->shape) / M < 256) return false;
    if (w->nd != 2 || c->attrs->group != 1 || C < 64 || M < 64 || C % 16 || M % 16) return false;
    for (int j = 0; j < 2; j++)
        if (w->kernel[j] != 3 || w->stride[j] != 1 || w->dilation[j] != 1 || w->pad_lo[j] > 1 || w->pad_hi[j] > 1)
            return false;
    return true;
}

static ot_status prepare(const ot_node *n, ot_prep *p, ot_conv_call *c)
{
    ot_script *s;
    OT_TRY(ot_script_new(n, p, &s));
    c->attrs = n->attrs;
    c->winograd = !p->precise && winograd_pays(c);
    ot_status e = c->winograd ? ot_script_conv(s, c, p) : OT_E_DEVICE;
    if (e == OT_E_DEVICE) {
        c->winograd = false;
        e = ot_script_conv(s, c, p);
    }
    if (e == OT_E_DEVICE) {
        c->direct_any = true; /* this primitive has no channels-last form */
        e = ot_script_conv(s, c, p);
    }
    if (e != OT_OK) {
        ot_script_free(s);
        return ot_fail(p->err, e, "%s: %s: oneDNN has no such convolution", n->name, n->op->name);
    }
    p->state = s;
    return OT_OK;
}

static ot_status forward_prepare(const ot_node *n, ot_prep *p)
{
    bool bias = n->n_in > 2 && n->in[2];
    return prepare(n, p,
                   &(ot_conv_call){ .kind = OT_CONV_FORWARD,
                                    .x = n->in[0],
                                    .w = n->in[1],
                                    .y = n->out[0],
                                    .x_arg = OT_ARG_IN,
                                    .w_arg = OT_ARG_IN + 1,
                                    .y_arg = OT_ARG_OUT,
                                    .b_arg = bias ? OT_ARG_IN + 2 : OT_ARG_NONE });
}

static ot_status dx_prepare(const ot_node *n, ot_prep *p)
{
    return prepare(n, p,
                   &(ot_conv_call){ .kind = OT_CONV_DX,
                                    .x = n->out[0],
                                    .w = n->in[1],
                                    .y = n->in[0],
                                    .x_arg = OT_ARG_OUT,
                                    .w_arg = OT_ARG_IN + 1,
                                    .y_arg = OT_ARG_IN,
                                    .b_arg = OT_ARG_NONE });
}

static ot_status dw_prepare(const ot_node *n, ot_prep *p)
{
    bool bias = n->n_out > 1 && n->out[1];
    return prepare(n, p,
                   &(ot_conv_call){ .kind = OT_CONV_DW,
                                    .x = n->in[1],
                                    .w = n->out[0],
                                    .y = n->in[0],
                                    .x_arg = OT_ARG_IN + 1,
                                    .w_arg = OT_ARG_OUT,
                                    .y_arg = OT_ARG_IN,
                                    .b_arg = bias ? OT_ARG_OUT + 1 : OT_ARG_NONE });
}

const ot_kernel ot_onednn_Convolve = { .name = "onednn",
                                       .can = can,
                                       .prepare = forward_prepare,
                                       .run = ot_script_run,
                                       .release = ot_script_free,
                                       .any_layout = true };
const ot_kernel ot_onednn_ConvolveDx = { .name = "onednn",
                                         .can = can,
                                         .prepare = dx_prepare,
                                         .run = ot_script_run,
                                         .release = ot_script_free,
                                         .any_layout = true };
const ot_kernel ot_onednn_ConvolveDw = { .name = "onednn",
                                         .can = can,
                                         .prepare = dw_prepare,
                                         .run = ot_script_run,
                                         .release = ot_script_free,
                                         .any_layout = true };
