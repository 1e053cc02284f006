/* pad.c - on a device: results of large matrix products get longer rows, images more channels.
 *
 * Matrix units read and write 16 bytes at a time.  Rows whose length is no multiple of that, such as the logits of 50257 tokens in
 * 16 bits, make a product take four times as long (6.6 ms instead of 1.6, measured on an H100 for 8192 x 768 x 50257).  So the
 * factor that gives a result its columns is padded with zeros, and what reads the result reads longer rows:
 *
 *     View             of the same rows is padded too
 *     CrossEntropy     knows the number of classes (crossentropy.h); its gradient is padded with zeros, and read so by
 *       Dot            which multiplies the columns that are 0 by rows that are 0, or has a longer result itself
 *       Reduce         of columns, which has a longer result
 *     all others       read a copy without the padding: in a product itself it is NaN where the left factor is infinite
 *
 * So the gradient of a padded product is computed from padded rows, and only gradients of the size of a weight are copied.
 *
 * The same holds for the channels of an image in the first convolution, if they are stored last: cuDNN pads them too, in a
 * workspace of its own, for every product (conv1 of ResNet-50 took 3.6 of 41 ms on an H100).
 *
 * Numerics  a product of padded gradients adds zeros to its sums. */
#include <string.h>

#include "ops/kernels/convolve.h"
#include "ops/kernels/copy.h"
#include "ops/kernels/crossentropy.h"
#include "ops/kernels/dot.h"
#include "ops/kernels/reduce.h"
#include "runtime/passes/passes.h"

enum {
    ALIGNED = 16,      /* bytes that matrix units load at once */
    ROUND = 64,        /* elements: padded rows are a multiple */
    LEAST_COMMON = 128 /* columns of the left factor: below that a copy costs as much as it gains */
};
static const double least_work = 8e6; /* operations of a product for each multiprocessor: a few microseconds */

typedef struct padding {
    ot_plan *p;
    bool tf32;
    double least; /* operations */
} padding;

static int64_t rounded(int64_t n) { return (n + ROUND - 1) / ROUND * ROUND; }
static int64_t *last_of(ot_shape *s) { return &s->dim[s->rank - 1]; }
static int64_t length_of(const ot_value *v) { return v->shape.dim[v->shape.rank - 1]; }

/* v with `axis` extended to n by zeros, or cut to n; made at the graph's cursor. */
static ot_value *resized(ot_build *b, ot_value *v, int axis, int64_t n)
{
    ot_shape s = v->shape, box = s;
    int64_t start[OT_MAX_RANK] = { 0 }, step[OT_MAX_RANK];
    ot_piece *piece = ot_pieces(b, 1);
    if (!piece) return NULL;
    for (int d = 0; d < s.rank; d++) step[d] = 1;
    s.dim[axis] = n;
    if (n < box.dim[axis]) box.dim[axis] = n;
    ot_piece_box(piece, &v->shape, start, step, box.dim);
    return ot_copy_emit(b, &s, 0, piece, 1, &v, 1);
}

/* A padded copy of v that is made before n; NULL: none. */
static ot_value *earlier_copy(const ot_node *n, const ot_value *v, const ot_shape *s)
{
    for (const ot_node *k = n->prev; k && k != v->producer; k = k->prev) {
        const ot_copy *a = k->attrs;
        if (k->op != &ot_op_Copy || k->in[0] != v || k->phase != n->phase || a->n != 1 || a->fill != 0) continue;
        const ot_piece *p = &a->piece[0];
        int64_t stride[OT_MAX_RANK];
        bool whole = p->src == 0 && ot_shape_eq(&a->shape, s);
        ot_strides(&v->shape, stride);
        for (int d = 0; d < s->rank && whole; d++)
            whole =
                p->dst[d] == 0 && p->extent[d] == v->shape.dim[d] && (p->extent[d] < 2 || p->stride[d] == stride[d]);
        if (whole) return k->out[0];
    }
    return NULL;
}

/* Input i of n is padded along `axis` to `length`. */
static void pad_input(ot_node *n, int i, int axis, int64_t length)
{
    ot_graph *g = n->graph;
    ot_build b = { .graph = g, .node = n };
    ot_shape s = n->in[i]->shape;
    s.dim[axis] = length;
    g->cursor = n;
    ot_value *v = earlier_copy(n, n->in[i], &s);
    if (!v) v = resized(&b, n->in[i], axis, s.dim[axis]);
    g->cursor = NULL;
    if (v) n->in[i] = v;
}

/* Output k of n gets `length` along `axis`; what reads the old one reads a copy without the padding.  NULL: no memory,
 * recorded. */
static ot_value *pad_output(ot_node *n, int k, int axis, int64_t length)
{
    ot_graph *g = n->graph;
    ot_value *old = n->out[k];
    ot_shape s = old->shape;
    s.dim[axis] = length;
    ot_value *wide = ot_graph_value_named(g, old->name, OT_TEMP, old->dtype, &s);
    if (!wide) return NULL;
    n->out[k] = wide;
    wide->producer = n;
    wide->port = k;
    ot_build b = { .graph = g, .node = n };
    g->cursor = n->next;
    ot_value *copy = resized(&b, wide, axis, old->shape.dim[axis]);
    g->cursor = NULL;
    if (!copy) return NULL;
    old->producer = copy->producer;
    old->port = 0;
    old->producer->out[0] = old;
    copy->producer = NULL;
    return wide;
}

static void spread(const padding *x, ot_value *old, ot_value *wide, bool zeros);

static void pad_view(const padding *x, ot_node *n, ot_value *wide, bool zeros)
{
    ot_value *y = n->out[0];
    ot_shape s = y->shape;
    *last_of(&s) = length_of(wide);
    ot_build b = { .graph = n->graph, .node = n };
    n->graph->cursor = n;
    ot_value *v = ot_view(&b, wide, &s);
    n->graph->cursor = NULL;
    if (v) spread(x, y, v, zeros);
}

static void pad_loss(const padding *x, ot_node *n, int i, ot_value *wide)
{
    ot_cross_entropy *a = ot_graph_alloc(n->graph, sizeof *a);
    if (!a) return;
    memcpy(a, n->attrs, sizeof *a);
    a->classes = length_of(n->in[i]);
    n->attrs = a;
    n->in[i] = wide;
    if (n->op != &ot_op_CrossEntropyDx) return;
    ot_value *old = n->out[0], *dx = pad_output(n, 0, old->shape.rank - 1, length_of(wide));
    if (dx) spread(x, old, dx, true);
}

/* Operand i has padded rows. */
static void pad_product(ot_node *n, int i, ot_value *wide)
{
    const ot_dot *a = n->attrs;
    const ot_value *other = n->in[!i];
    int64_t length = length_of(wide);
    bool common = i ? a->tb : !a->ta; /* rows of the operand run along the axis that is summed */
    n->in[i] = wide;
    if (common) {
        bool rows = i ? a->ta : !a->tb; /* of the other operand, which that axis numbers */
        pad_input(n, !i, other->shape.rank - 1 - rows, length);
        return;
    }
    if (i && ot_node_in(n, 2)) pad_input(n, 2, 0, length);
    pad_output(n, 0, n->out[0]->shape.rank - 1 - !i, length);
}

static bool is_loss(const ot_node *n, int i)
{
    const ot_cross_entropy *a = n->attrs;
    bool dx = n->op == &ot_op_CrossEntropyDx;
    if ((!dx && n->op != &ot_op_CrossEntropy) || i != dx) return false;
    return a->axis == n->in[i]->shape.rank - 1 && !a->probs && !a->classes && (dx || n->n_out < 2 || !n->out[1]);
}

static bool is_column_sum(const ot_node *n, const ot_value *old)
{
    const ot_reduce *a = n->attrs;
    return n->op == &ot_op_Reduce && !a->program && !(a->axes >> (old->shape.rank - 1) & 1);
}

/* `wide` is `old` with padded rows: those readers of `old` that can read it do.  zeros: the padding is 0 whatever is computed. */
static void spread(const padding *x, ot_value *old, ot_value *wide, bool zeros)
{
    ot_graph *g = x->p->graph;
    for (ot_node *n = g->first, *next; n && g->err->status == OT_OK; n = next) {
        next = n->next;
        int at = -1, times = 0;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] == old) at = i, times++;
        if (times != 1) continue;
        g->phase = n->phase;
        if (n->op == &ot_op_View && n->out[0]->dtype == old->dtype && n->out[0]->shape.rank > 0 &&
            length_of(n->out[0]) == length_of(old))
            pad_view(x, n, wide, zeros);
        else if (is_loss(n, at)) pad_loss(x, n, at, wide);
        else if (zeros && n->op == &ot_op_Dot && at < 2 && n->in[!at]->dtype == old->dtype) pad_product(n, at, wide);
        else if (zeros && is_column_sum(n, old)) {
            n->in[at] = wide;
            pad_output(n, 0, n->out[0]->shape.rank - 1, length_of(wide));
        }
        g->phase = OT_PHASE_BATCH;
    }
}

/* A product of matrix units whose rows are not whole loads, and large enough. */
static bool wants_rows(const padding *x, const ot_node *n)
{
    if (n->op != &ot_op_Dot) return false;
    const ot_dot *d = n->attrs;
    const ot_value *a = n->in[0], *b = n->in[1], *y = n->out[0];
    int bytes = ot_dtype_bits(y->dtype) / 8;
    int64_t common = a->shape.dim[a->shape.rank - 1 - (d->ta != 0)];
    if (!(bytes == 2 || (x->tf32 && y->dtype == OT_F32)) || b->dtype != y->dtype) return false;
    return length_of(y) * bytes % ALIGNED && common >= LEAST_COMMON &&
           2.0 * (double)ot_numel(&y->shape) * (double)common >= x->least;
}

static void pad_rows(const padding *x, ot_node *n)
{
    const ot_dot *a = n->attrs;
    ot_value *old = n->out[0];
    int64_t length = rounded(length_of(old));
    pad_input(n, 1, n->in[1]->shape.rank - 1 - (a->tb != 0), length);
    if (ot_node_in(n, 2)) pad_input(n, 2, 0, length);
    ot_value *wide = pad_output(n, 0, old->shape.rank - 1, length);
    if (wide) spread(x, old, wide, false);
}

/* ---- channels ---------------------------------------------------------------------- */

/* A large convolution of few channels whose input has no gradient. */
static bool wants_channels(const padding *x, const ot_node *n)
{
    enum { MANY_OUTPUTS = 32 }; /* with fewer, a kernel of our own is faster (ops/cuda/cudnn/convolve.c) */
    if (n->op != &ot_op_Convolve) return false;
    const ot_convolve *a = n->attrs;
    const ot_value *v = n->in[0], *w = n->in[1], *y = n->out[0];
    int bytes = ot_dtype_bits(v->dtype) / 8;
    if (!(bytes == 2 || (x->tf32 && v->dtype == OT_F32)) || w->dtype != v->dtype || a->group != 1) return false;
    if (v->shape.dim[1] * bytes % ALIGNED == 0 || y->shape.dim[1] < MANY_OUTPUTS) return false;
    for (const ot_node *k = n->graph->first; k; k = k->next)
        if (k->op == &ot_op_ConvolveDx && k->in[1] == w) return false;
    return 2.0 * (double)ot_numel(&y->shape) * (double)(ot_numel(&w->shape) / w->shape.dim[0]) >= x->least;
}

static void pad_channels(ot_node *n)
{
    ot_graph *g = n->graph;
    const ot_value *v = n->in[0];
    int64_t unit = ALIGNED * 8 / ot_dtype_bits(v->dtype), channels = (v->shape.dim[1] + unit - 1) / unit * unit;
    for (int i = 0; i < 2; i++) pad_input(n, i, 1, channels);
    for (ot_node *k = n->next; k && g->err->status == OT_OK; k = k->next) {
        if (k->op != &ot_op_ConvolveDw || k->in[1] != v) continue;
        ot_convolve *a = ot_graph_alloc(g, sizeof *a);
        if (!a) return;
        memcpy(a, k->attrs, sizeof *a);
        if (a->group != 1) continue;
        a->like.dim[1] = channels;
        k->attrs = a;
        pad_input(k, 1, 1, channels);
        pad_output(k, 0, 1, channels);
    }
}

ot_status ot_pass_pad(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    bool any = false;
    if (c->ref_only || !c->device) return OT_OK;
    ot_device_info info;
    c->device->backend->info(c->device, &info);
    const padding x = { .p = p, .tf32 = c->options.precision == OT_TF32, .least = least_work * info.units };
    for (ot_node *n = g->first; n && g->err->status == OT_OK; n = n->next) {
        bool rows = wants_rows(&x, n), channels = !rows && wants_channels(&x, n);
        g->phase = n->phase;
        if (rows) pad_rows(&x, n);
        if (channels) pad_channels(n);
        g->phase = OT_PHASE_BATCH;
        any = any || rows || channels;
    }
    if (any) ot_prune(p);
    return g->err->status;
}
