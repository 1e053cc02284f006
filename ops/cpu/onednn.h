/* onednn.h - the interface to oneDNN for kernels: scripts of primitives, without oneDNN's types.
 *
 * The C interfaces of oneDNN 2.x and 3.x differ; onednn.c supports both.  A script is made once per plan (prepare) and
 * replayed (run): a list of primitives over memories that are bound to the inputs, outputs and workspace of a call.  If
 * a primitive needs another layout than a tensor has, the script contains a reorder.  Running allocates nothing. */
#ifndef OT_CPU_ONEDNN_H
#define OT_CPU_ONEDNN_H

#include "ops/kernels/convolve.h"
#include "ops/kernel.h"

typedef struct ot_script ot_script;

/* The workspace that the calls below need is added to p->work. */
ot_status ot_script_new(const ot_node *n, ot_prep *p, ot_script **out);
void ot_script_free(void *script);
ot_status ot_script_run(const ot_call *c); /* c->state is the script */

/* Are products of bfloat16, summed in float32, faster than products of float32? */
bool ot_onednn_has_bf16(void);

/* The argument of the node that is a tensor of the primitive: input i, output i, or none. */
enum { OT_ARG_NONE = -1, OT_ARG_IN = 0, OT_ARG_OUT = 16 };

/* The elements of a call's operand; NULL: there is none.  Inputs are not to be written. */
static inline float *ot_arg_address(const ot_call *c, int arg)
{
    if (arg == OT_ARG_NONE) return NULL;
    return arg >= OT_ARG_OUT ? c->out[arg - OT_ARG_OUT] : (float *)(uintptr_t)c->in[arg];
}

typedef enum ot_conv_kind { OT_CONV_FORWARD, OT_CONV_DX, OT_CONV_DW } ot_conv_kind;

/* A convolution of f32 tensors.  Values give shapes and layouts; *_arg are the arguments with their bytes. */
typedef struct ot_conv_call {
    ot_conv_kind kind;
    const ot_convolve *attrs;
    const ot_value *x, *w, *y; /* or their gradients */
    int x_arg, w_arg, b_arg, y_arg;
    bool direct_any; /* with x and y in the layout that oneDNN prefers */
    bool bf16;       /* operands are rounded to bfloat16; sums and results are f32 */
    bool mapped;     /* a Map follows (winograd.c) */
    const void
        *settled; /* OT_CONV_FORWARD: the bytes of w, which do not change: reordered once; NULL: they may change */
} ot_conv_call;

/* OT_E_DEVICE if oneDNN has no such primitive; the script is then unchanged. */
ot_status ot_script_conv(ot_script *s, const ot_conv_call *c, ot_prep *p);

/* y = a . b + bias with leading axes `batch` (extent 1 broadcasts), strides in elements. */
typedef struct ot_dot_call {
    int rank; /* of a, b and y */
    int64_t a_dim[OT_MAX_RANK], a_stride[OT_MAX_RANK];
    int64_t b_dim[OT_MAX_RANK], b_stride[OT_MAX_RANK];
    int64_t y_dim[OT_MAX_RANK], y_stride[OT_MAX_RANK];
    int a_arg, b_arg, bias_arg, y_arg;
    int add_arg; /* a tensor like y that is added to the result */
    bool bf16;   /* a and b are rounded to bfloat16; sums and y are f32 */
} ot_dot_call;

ot_status ot_script_dot(ot_script *s, const ot_dot_call *c, ot_prep *p);

#endif
