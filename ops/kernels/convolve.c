/* convolve.c - Convolve, ConvolveDx, ConvolveDw: N-dimensional cross-correlation and its gradients.
 *
 * Shapes  x: (N, C, i1..id)  w: (M, C/group, k1..kd)  b: (M)  y: (N, M, o1..od)
 *         oj = (ij + pad_lo + pad_hi - dilation*(kj-1) - 1) / stride + 1, rounded down
 * Grad    y is linear in x and in w, so the three operators are each other's gradients:
 *         Convolve(x,w):    dx = ConvolveDx(dy,w)    dw = ConvolveDw(dy,x)   db = sum of dy
 *         ConvolveDx(v,w):  dv = Convolve(g,w)       dw = ConvolveDw(v,g)
 *         ConvolveDw(v,x):  dv = Convolve(x,g)       dx = ConvolveDx(v,g) */
#include "ops/kernels/convolve.h"

static ot_status channels_fit(const ot_node *n, const ot_shape *x, const ot_shape *w, int64_t group, ot_error *err)
{
    int64_t want;
    if (x->rank < 3 || w->rank != x->rank)
        return ot_node_fail(n, err, "x has rank %d and w rank %d; both need the same rank, 3 or more", x->rank,
                            w->rank);
    if (group < 1 || w->dim[0] % group)
        return ot_node_fail(n, err, "w has %lld filters; group %lld must divide them", (long long)w->dim[0],
                            (long long)group);
    if (!ot_mul(w->dim[1], group, &want) || x->dim[1] != want)
        return ot_node_fail(n, err, "x has %lld channels; w with group %lld needs %lld", (long long)x->dim[1],
                            (long long)group, (long long)want);
    return OT_OK;
}

static ot_status convolve_infer(ot_node *n, ot_error *err)
{
    const ot_convolve *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape, *w = &n->in[1]->shape;
    OT_TRY(channels_fit(n, x, w, a->group, err));
    ot_shape y = { .rank = x->rank, .dim = { x->dim[0], w->dim[0] } };
    for (int j = 0; j < x->rank - 2; j++) y.dim[2 + j] = ot_window_out(&a->window, j, x->dim[2 + j]);
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static ot_status dx_infer(ot_node *n, ot_error *err)
{
    const ot_convolve *a = n->attrs;
    OT_TRY(channels_fit(n, &a->like, &n->in[1]->shape, a->group, err));
    return ot_set(n->out[0], n->in[0]->dtype, &a->like);
}

static ot_status dw_infer(ot_node *n, ot_error *err)
{
    const ot_convolve *a = n->attrs;
    OT_TRY(channels_fit(n, &n->in[1]->shape, &a->like, a->group, err));
    if (n->n_out > 1) ot_set(n->out[1], n->in[0]->dtype, &(ot_shape){ .rank = 1, .dim = { a->like.dim[0] } });
    return ot_set(n->out[0], n->in[0]->dtype, &a->like);
}

static ot_value *dx_of(ot_build *b, const ot_convolve *a, ot_value *dy, ot_value *w, const ot_shape *like)
{
    ot_convolve t = *a;
    t.like = *like;
    return ot_emit(b, &ot_op_ConvolveDx, &t, OT_IN(dy, w));
}

static ot_value *dw_of(ot_build *b, const ot_convolve *a, ot_value *dy, ot_value *x, const ot_shape *like)
{
    ot_convolve t = *a;
    t.like = *like;
    return ot_emit(b, &ot_op_ConvolveDw, &t, OT_IN(dy, x));
}

static void convolve_grad(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_convolve *a = n->attrs;
    ot_value *x = n->in[0], *w = n->in[1], *dy = ot_dout(b, 0);

    if (ot_wants(b, 0)) ot_set_din(b, 0, dx_of(b, a, dy, w, &x->shape));
    if (ot_wants(b, 1) && ot_wants(b, 2)) {
        /* One pass over dy computes both. */
        ot_convolve t = *a;
        t.like = w->shape;
        ot_node *both = ot_emit_n(b, &ot_op_ConvolveDw, &t, OT_IN(dy, x), 2);
        if (!both) return;
        ot_set_din(b, 1, both->out[0]);
        ot_set_din(b, 2, both->out[1]);
        return;
    }
    if (ot_wants(b, 1)) ot_set_din(b, 1, dw_of(b, a, dy, x, &w->shape));
    if (ot_wants(b, 2)) {
        int64_t axes[OT_MAX_RANK], k = 0;
        for (int d = 0; d < dy->shape.rank; d++)
            if (d != 1) axes[k++] = d;
        ot_set_din(b, 2, ot_sum(b, dy, axes, (int)k, false));
    }
}

static void dx_grad(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_convolve *a = n->attrs;
    ot_value *dy = n->in[0], *w = n->in[1], *g = ot_dout(b, 0);
    if (ot_wants(b, 0)) ot_set_din(b, 0, ot_emit(b, &ot_op_Convolve, a, OT_IN(g, w)));
    if (ot_wants(b, 1)) ot_set_din(b, 1, dw_of(b, a, dy, g, &w->shape));
}

static void dw_grad(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_convolve *a = n->attrs;
    ot_value *dy = n->in[0], *x = n->in[1], *g = ot_dout(b, 0), *gb = ot_dout(b, 1);
    ot_value *d = NULL;
    if (ot_wants(b, 0)) {
        if (g) d = gb ? ot_emit(b, &ot_op_Convolve, a, OT_IN(x, g, gb)) : ot_emit(b, &ot_op_Convolve, a, OT_IN(x, g));
        else {
            ot_shape s = { .rank = dy->shape.rank };
            for (int i = 0; i < s.rank; i++) s.dim[i] = i == 1 ? dy->shape.dim[1] : 1;
            d = ot_expand(b, ot_view(b, gb, &s), &dy->shape);
        }
        ot_set_din(b, 0, d);
    }
    if (ot_wants(b, 1) && g) ot_set_din(b, 1, dx_of(b, a, dy, g, &x->shape));
}

void ot_conv_sizes_of(const ot_convolve *a, const ot_shape *x, const ot_shape *y, ot_conv_sizes *s)
{
    *s = (ot_conv_sizes){ .N = x->dim[0], .G = a->group, .C = x->dim[1] / a->group, .M = y->dim[1] / a->group };
    ot_spatial_3d(x, s->in);
    ot_spatial_3d(y, s->out);
    ot_window_3d(&a->window, &s->w);
}

void ot_conv_plane_of(const ot_convolve *a, const ot_shape *x, const ot_shape *y, ot_conv_plane *p)
{
    ot_conv_sizes s;
    ot_conv_sizes_of(a, x, y, &s);
    for (int i = 0; i < 2; i++) {
        p->in[i] = s.in[1 + i], p->out[i] = s.out[1 + i];
        p->kernel[i] = s.w.kernel[1 + i], p->stride[i] = s.w.stride[1 + i];
        p->dilation[i] = s.w.dilation[1 + i], p->pad[i] = s.w.pad_lo[1 + i];
    }
}

/* Of weights (M, C, ...): those of one element of axis. */
static int64_t of_axis(const ot_shape *w, int axis) { return w->dim[axis] > 0 ? ot_numel(w) / w->dim[axis] : 0; }

static int64_t inner(const ot_node *n) { return of_axis(&n->in[1]->shape, 0); }
static int64_t dx_inner(const ot_node *n) { return of_axis(&n->in[1]->shape, 1); }

/* Each element of y (of dy) meets the weights of one filter, in all three. */
static double flops_of(const ot_value *y, const ot_value *w, const ot_value *bias)
{
    double n = (double)ot_numel(&y->shape);
    return 2 * n * (double)of_axis(&w->shape, 0) + (bias ? n : 0);
}

static double flops(const ot_node *n) { return flops_of(n->out[0], n->in[1], ot_node_in(n, 2)); }
static double dx_flops(const ot_node *n) { return flops_of(n->in[0], n->in[1], NULL); }

static double dw_flops(const ot_node *n)
{
    const ot_value *db = n->n_out > 1 ? n->out[1] : NULL;
    return n->out[0] ? flops_of(n->in[0], n->out[0], db) : (double)ot_numel(&n->in[0]->shape);
}

static void words(FILE *f, const void *attrs)
{
    const ot_convolve *a = attrs;
    ot_window_words(f, &a->window);
    fprintf(f, " g%lld", (long long)a->group);
}

const ot_op ot_op_Convolve = {
    .name = "Convolve",
    .types = { "T", .T = OT_SET_NUMBER },
    .in = { 2, 3 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL | OT_PRODUCT | OT_FUSES,
    .attr_size = sizeof(ot_convolve),
    .infer = convolve_infer,
    .grad = convolve_grad,
    .half = OT_HALF_PRODUCT,
    .inner = inner,
    .filters = 2,
    .flops = flops,
    .words = words,
};

const ot_op ot_op_ConvolveDx = {
    .name = "ConvolveDx",
    .types = { "T", .T = OT_SET_NUMBER },
    .in = { 2, 2 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL | OT_PRODUCT | OT_FUSES,
    .attr_size = sizeof(ot_convolve),
    .infer = dx_infer,
    .grad = dx_grad,
    .half = OT_HALF_PRODUCT,
    .inner = dx_inner,
    .filters = 2,
    .flops = dx_flops,
    .words = words,
};

const ot_op ot_op_ConvolveDw = {
    .name = "ConvolveDw",
    .types = { "T", .T = OT_SET_NUMBER },
    .in = { 2, 2 },
    .out = { 1, 2 },
    .flags = OT_INTERNAL | OT_PRODUCT | OT_FUSES,
    .attr_size = sizeof(ot_convolve),
    .infer = dw_infer,
    .grad = dw_grad,
    .half = OT_HALF_PRODUCT,
    .filters = 3,
    .flops = dw_flops,
    .words = words,
};
