/* convolve.c - Convolve, ConvolveDx, ConvolveDw by Winograd's algorithm (winograd.c) where it pays, else by oneDNN; with a Map
 * behind it, 1x1 and depthwise ones by kernels of our own (convolve_rows.c).
 *
 * x and y are read and written in either layout; oneDNN's primitive computes channels last and reorders plain operands
 * inside.  Weights are stored in ONNX's order and reordered to the primitive's in every step: they are small compared
 * with activations.  In predictions they are reordered once. */
#include "ops/cpu/convolve.h"

#include <stdio.h>
#include <stdlib.h>

#include "ops/cpu/convolve_rows.h"
#include "ops/cpu/convolve_weights.h"
#include "ops/cpu/dot.h"
#include "ops/cpu/vector.h"
#include "ops/cpu/winograd.h"

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
        if (!ot_f32_can(v, why)) return false;
        if (!all_positive(v)) return ot_refuse(why, "an empty or huge tensor");
    }
    const ot_convolve *a = n->attrs;
    if (n->out[0] == NULL) return ot_refuse(why, "dw is not needed");
    const ot_value *x = n->op == &ot_op_Convolve ? n->in[0] : n->op == &ot_op_ConvolveDx ? n->out[0] : n->in[1];
    const ot_value *y = n->op == &ot_op_Convolve ? n->out[0] : n->in[0];
    for (int j = 0; j < a->window.nd; j++) {
        const ot_window *w = &a->window;
        int64_t span = (y->shape.dim[2 + j] - 1) * w->stride[j] + (w->kernel[j] - 1) * w->dilation[j] + 1;
        if (span - x->shape.dim[2 + j] - w->pad_lo[j] + w->stride[j] <= 0)
            return ot_refuse(why, "some rows of x are in no window");
    }
    return true;
}

/* Sums of the columns of a matrix: db beside a product. */
typedef struct column_sums {
    int from, to; /* arguments; OT_ARG_NONE: there are none */
    int64_t rows, columns;
    int threads;
} column_sums;

/* One of the first five. */
typedef struct conv_state {
    ot_script *script;
    ot_dot_plan product;
    ot_winograd *winograd;
    ot_row_conv *rows;
    const ot_dw_kernel *dw;
    void *dw_state;
    column_sums db; /* beside the product */
    cpu_behind behind;
} conv_state;

void ot_cpu_convolve_release(void *state)
{
    conv_state *s = state;
    if (!s) return;
    ot_script_free(s->script);
    ot_dot_plan_free(&s->product);
    ot_rows_free(s->rows);
    free(s->winograd);
    free(s->dw_state);
    free(s->behind.map);
    free(s);
}

enum { TOGETHER = 16 }; /* columns: a line of the caches */

static void add_block(const column_sums *s, const float *from, int64_t n, float *to)
{
    double sum[TOGETHER] = { 0 };
    for (int64_t i = 0; i < s->rows; i++, from += s->columns)
        for (int64_t k = 0; k < n; k++) sum[k] += (double)from[k];
    for (int64_t k = 0; k < n; k++) to[k] = (float)sum[k];
}

static void add_columns(const column_sums *s, const ot_call *c)
{
    enum { FEW = 1 << 15 };
    const float *from = ot_arg_address(c, s->from);
    float *to = ot_arg_address(c, s->to);
    int threads = s->rows * s->columns < FEW ? 1 : s->threads;
    if (!to) return;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t k = 0; k < s->columns; k += TOGETHER)
        add_block(s, from + k, s->columns - k < TOGETHER ? s->columns - k : TOGETHER, to + k);
}

ot_status ot_cpu_convolve_run(const ot_call *c, const void *const *map_in)
{
    const conv_state *s = c->state;
    ot_call map = cpu_behind_call(&s->behind, c, map_in);
    const ot_call *behind = s->behind.map ? &map : NULL;
    if (s->rows) return ot_rows_run(s->rows, c, behind);
    if (s->winograd) return ot_winograd_run(s->winograd, c, behind);
    if (s->dw) return s->dw->run(s->dw_state, c), OT_OK;
    ot_call direct = *c;
    direct.state = s->script;
    if (s->script) OT_TRY(ot_script_run(&direct));
    else OT_TRY(ot_dot_plan_run(&s->product, c));
    add_columns(&s->db, c);
    if (behind) cpu_map_all(behind);
    return OT_OK;
}

static ot_status run(const ot_call *c) { return ot_cpu_convolve_run(c, NULL); }

/* oneDNN 2.6 with AVX2 is wrong about both gradients of a 1x1 convolution with a stride whose x has fewer channels than a vector has
 * lanes, if they are last: it gathers the pixels of x by whole vectors. */
static bool channels_last_is_wrong(const ot_conv_call *c)
{
    enum { LANES = 8 };
    const ot_window *w = &c->attrs->window;
    bool one = true, steps = false;
    for (int j = 0; j < w->nd; j++) one = one && w->kernel[j] == 1, steps = steps || w->stride[j] > 1;
    return one && steps && c->x->shape.dim[1] / c->attrs->group < LANES;
}

static ot_status direct(const ot_node *n, ot_prep *p, ot_conv_call *c, ot_script **s)
{
    OT_TRY(ot_script_new(n, p, s));
    c->direct_any = channels_last_is_wrong(c);
    ot_status e = ot_script_conv(*s, c, p);
    if (e == OT_E_DEVICE && c->bf16) {
        c->bf16 = false;
        e = ot_script_conv(*s, c, p);
    }
    if (e == OT_E_DEVICE) {
        c->direct_any = true; /* this primitive has no channels-last form */
        e = ot_script_conv(*s, c, p);
    }
    return e == OT_OK ? e : ot_fail(p->err, e, "%s: %s: oneDNN has no such convolution", n->name, n->op->name);
}

/* dw of a 1x1 convolution with channels last, or of pictures of one pixel, is a product of matrices whose rows are pixels: oneDNN's
 * gradient of a convolution takes up to twice as long, and for pictures of one pixel, as of squeeze-and-excitation, a millisecond for
 * 300,000 operations. */
static bool is_product(const ot_conv_call *c)
{
    return c->kind == OT_CONV_DW && c->w->layout == OT_PLAIN && ot_conv_is_product(c);
}

static ot_status product(const ot_node *n, ot_prep *p, const ot_conv_call *c, conv_state *s)
{
    int64_t C = c->x->shape.dim[1], M = c->y->shape.dim[1], rows = ot_numel(&c->y->shape) / M;
    ot_dot_call dot = { .rank = 2,
                        .a_dim = { M, rows },
                        .a_stride = { 1, M },
                        .b_dim = { rows, C },
                        .b_stride = { C, 1 },
                        .y_dim = { M, C },
                        .y_stride = { C, 1 },
                        .a_arg = c->y_arg,
                        .b_arg = c->x_arg,
                        .y_arg = c->w_arg,
                        .bias_arg = OT_ARG_NONE,
                        .add_arg = OT_ARG_NONE,
                        .bf16 = c->bf16 };
    s->db = (column_sums){ .from = c->y_arg, .to = c->b_arg, .rows = rows, .columns = M, .threads = p->threads };
    return ot_dot_plan_new(n, &dot, p, &s->product);
}

/* oneDNN 2.6 with AMX is wrong about the bfloat16 dw of a dilated convolution, unless its channels are a multiple of 16;
 * and it divides the columns of x by their remainder to the stride, and where a remainder has no column it sums what was
 * in memory. */
static bool bf16_dw_is_wrong(const ot_conv_call *c)
{
    const ot_window *w = &c->attrs->window;
    for (int j = 0; j < w->nd; j++)
        if (w->dilation[j] > 1 || c->x->shape.dim[2 + j] < w->stride[j]) return true;
    return false;
}

/* Rounding an operand costs as much as some 25 products of each of its elements. */
static bool bf16_pays(const ot_conv_call *c)
{
    if (c->kind == OT_CONV_DW && bf16_dw_is_wrong(c)) return false;
    int64_t C = c->x->shape.dim[1] / c->attrs->group, M = c->y->shape.dim[1] / c->attrs->group, taps = 1;
    for (int d = 2; d < c->w->shape.rank; d++) taps *= c->w->shape.dim[d];
    return C >= 16 && M >= 16 && C * taps >= 64 && M * taps >= 64;
}

/* NULL: none of them is faster than oneDNN. */
static const ot_dw_kernel *dw_kernel(const ot_conv_call *c)
{
    static const ot_dw_kernel *const all[] = { &ot_dw_pixels, &ot_dw_depthwise, &ot_dw_lines };
    for (int i = 0; i < OT_LEN(all) && c->kind == OT_CONV_DW; i++)
        if (all[i]->pays(c)) return all[i];
    return NULL;
}

static ot_status prepare(const ot_node *n, const ot_node *map, ot_prep *p, ot_conv_call *c)
{
    conv_state *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    c->attrs = n->attrs;
    c->mapped = map != NULL;
    c->settled = p->settled && c->kind == OT_CONV_FORWARD ? ot_settled_bytes(n->graph, c->w) : NULL;
    c->bf16 = p->bf16 && ot_onednn_has_bf16() && bf16_pays(c);
    bool pixels = !c->bf16 && ot_rows_pixels_pay(c),
         winograd = !pixels && !p->precise && !c->bf16 && ot_winograd_pays(c),
         rows = pixels || (!winograd && !c->bf16 && (map || ot_rows_windows_pay(c)) && ot_rows_can(c));
    s->dw = winograd || c->bf16 ? NULL : dw_kernel(c);
    s->db.to = OT_ARG_NONE;
    ot_status e = winograd        ? ot_winograd_new(n, c, ot_instruction_set(), p, &s->winograd)
                  : s->dw         ? s->dw->prepare(n, c, ot_instruction_set(), p, &s->dw_state)
                  : rows          ? ot_rows_new(n, c, ot_instruction_set(), p, &s->rows)
                  : is_product(c) ? product(n, p, c, s)
                                  : direct(n, p, c, &s->script);
    snprintf(p->how, sizeof p->how, "%s",
             c->bf16             ? OT_BF16_PRODUCT
             : winograd          ? "Winograd"
             : s->dw             ? s->dw->name
             : rows              ? "rows"
             : s->product.packed ? "packed"
                                 : "oneDNN");
    if (e == OT_OK) e = cpu_behind_new(map, p, &s->behind);
    if (e != OT_OK) ot_cpu_convolve_release(s);
    else p->state = s;
    return e;
}

static ot_conv_call forward_call(const ot_node *n)
{
    bool bias = n->n_in > 2 && n->in[2];
    return (ot_conv_call){ .kind = OT_CONV_FORWARD,
                           .attrs = n->attrs,
                           .x = n->in[0],
                           .w = n->in[1],
                           .y = n->out[0],
                           .x_arg = OT_ARG_IN,
                           .w_arg = OT_ARG_IN + 1,
                           .y_arg = OT_ARG_OUT,
                           .b_arg = bias ? OT_ARG_IN + 2 : OT_ARG_NONE };
}

ot_status ot_cpu_convolve_prepare(const ot_node *n, const ot_node *map, ot_prep *p)
{
    ot_conv_call c = forward_call(n);
    return prepare(n, map, p, &c);
}

bool ot_cpu_convolve_takes(const ot_node *n, const ot_node *map, const char **why)
{
    const ot_value *y = n->out[0], *z = map->out[0];
    ot_conv_call c = forward_call(n);
    if (!can(n, why) || !ot_cpu_Map.can(map, why)) return false;
    *why = "the Map changes types, shapes or layouts";
    if (map->n_out != 1 || z->dtype != OT_F32 || z->layout != y->layout || !ot_shape_eq(&z->shape, &y->shape))
        return false;
    *why = "oneDNN computes it";
    return ot_rows_can(&c) || ot_winograd_pays(&c);
}

static ot_status forward_prepare(const ot_node *n, ot_prep *p) { return ot_cpu_convolve_prepare(n, NULL, p); }

static ot_status dx_prepare(const ot_node *n, ot_prep *p)
{
    return prepare(n, NULL, p,
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
    return prepare(n, NULL, p,
                   &(ot_conv_call){ .kind = OT_CONV_DW,
                                    .x = n->in[1],
                                    .w = n->out[0],
                                    .y = n->in[0],
                                    .x_arg = OT_ARG_IN + 1,
                                    .w_arg = OT_ARG_OUT,
                                    .y_arg = OT_ARG_IN,
                                    .b_arg = bias ? OT_ARG_OUT + 1 : OT_ARG_NONE });
}

const ot_kernel ot_cpu_Convolve = { .name = "cpu",
                                    .can = can,
                                    .prepare = forward_prepare,
                                    .run = run,
                                    .release = ot_cpu_convolve_release,
                                    .any_layout = true };
const ot_kernel ot_cpu_ConvolveDx = {
    .name = "cpu", .can = can, .prepare = dx_prepare, .run = run, .release = ot_cpu_convolve_release, .any_layout = true
};
const ot_kernel ot_cpu_ConvolveDw = {
    .name = "cpu", .can = can, .prepare = dw_prepare, .run = run, .release = ot_cpu_convolve_release, .any_layout = true
};
