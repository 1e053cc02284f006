/* copy.c - Copy: assembles a tensor from boxes of others; CopyDx: its adjoint.
 *
 * Shapes  Copy: in: any, of one type   y: attrs.shape      CopyDx: dy: any   dx: attrs.shape
 * Grad    Copy: each element of an input gets the sum over its copies: a Copy with the axes reversed if no element was
 *         read twice, with a Reduce before it if axes were repeated (stride 0), else a CopyDx.  CopyDx: Copy with the
 *         same pieces. */
#include "ops/kernels/copy.h"

#include <stdlib.h>
#include <string.h>

#include "ops/kernels/reduce.h"

/* ---- pieces ---------------------------------------------------------------- */

ot_piece *ot_pieces(ot_build *b, int64_t n)
{
    int64_t bytes;
    if (b->graph->err && b->graph->err->status != OT_OK) return NULL;
    if (n > INT32_MAX || !ot_mul(n ? n : 1, (int64_t)sizeof(ot_piece), &bytes)) {
        if (b->node) ot_node_fail(b->node, b->graph->err, "too many pieces");
        return NULL;
    }
    return ot_graph_alloc(b->graph, (size_t)bytes);
}

void ot_piece_box(ot_piece *p, const ot_shape *x, const int64_t *start, const int64_t *step, const int64_t *extent)
{
    int64_t xs[OT_MAX_RANK];
    ot_strides(x, xs);
    p->src = 0;
    for (int d = 0; d < x->rank; d++) {
        p->src += start[d] * xs[d];
        p->stride[d] = step[d] * xs[d];
        p->extent[d] = extent[d];
    }
}

bool ot_piece_axes(const ot_piece *p, int rank, const ot_shape *in, int axis[OT_MAX_RANK], int64_t step[OT_MAX_RANK],
                   int64_t at[OT_MAX_RANK])
{
    int64_t is[OT_MAX_RANK];
    bool used[OT_MAX_RANK] = { false };
    if (ot_numel(in) == 0) return false;
    ot_strides(in, is);
    for (int a = 0; a < in->rank; a++) at[a] = p->src / is[a] % in->dim[a];
    for (int d = 0; d < rank; d++) {
        axis[d] = -1;
        step[d] = 0;
        if (p->extent[d] < 2 || p->stride[d] == 0) continue;
        /* From the outermost axis in: the first whose stride divides and that has enough elements. */
        for (int a = 0; a < in->rank && axis[d] < 0; a++) {
            int64_t s = p->stride[d] / is[a];
            if (in->dim[a] < 2 || used[a] || p->stride[d] % is[a]) continue;
            int64_t end = at[a] + (p->extent[d] - 1) * s;
            if (end < 0 || end >= in->dim[a]) continue;
            axis[d] = a;
            step[d] = s;
            used[a] = true;
        }
        if (axis[d] < 0) return false;
    }
    return true;
}

/* Does the piece read all of x in order, and write all of y in order? */
static bool piece_is_view(const ot_piece *p, const ot_shape *y, const ot_shape *x)
{
    int64_t ys[OT_MAX_RANK];
    if (ot_numel(x) != ot_numel(y) || p->src != 0) return false;
    ot_strides(y, ys);
    for (int d = 0; d < y->rank; d++)
        if (p->extent[d] != y->dim[d] || (y->dim[d] > 1 && p->stride[d] != ys[d])) return false;
    return true;
}

ot_value *ot_copy_emit(ot_build *b, const ot_shape *shape, double fill, const ot_piece *piece, int64_t n,
                       ot_value *const *in, int n_in)
{
    if ((b->graph->err && b->graph->err->status != OT_OK) || !piece) return NULL;
    if (n == 1 && piece_is_view(piece, shape, &in[piece->in]->shape)) return ot_view(b, in[piece->in], shape);
    ot_copy a = { .shape = *shape, .fill = fill, .n = n, .piece = piece };
    return ot_emit(b, &ot_op_Copy, &a, in, n_in);
}

/* Is the box inside dense, and are all elements that it reads or adds to within `flat` elements? */
static bool piece_fits(const ot_piece *p, const ot_shape *dense, int64_t flat)
{
    int64_t lo = p->src, hi = p->src, end, span;
    bool empty = false;
    for (int d = 0; d < dense->rank; d++) {
        if (p->dst[d] < 0 || p->extent[d] < 0 || !ot_add(p->dst[d], p->extent[d], &end) || end > dense->dim[d])
            return false;
        empty |= p->extent[d] == 0;
        if (p->extent[d] < 2) continue;
        if (!ot_mul(p->extent[d] - 1, p->stride[d], &span)) return false;
        if (!(span < 0 ? ot_add(lo, span, &lo) : ot_add(hi, span, &hi))) return false;
    }
    return empty || (lo >= 0 && hi < flat);
}

static ot_status copy_infer(ot_node *n, ot_error *err)
{
    const ot_copy *a = n->attrs;
    ot_dtype t = n->in[0]->dtype;
    if (!ot_dtype_bits(t)) return ot_node_fail(n, err, "elements of type %s cannot be moved", ot_dtype_name(t));
    if (!ot_shape_known(&a->shape) || !ot_shape_fits(&a->shape, t))
        return ot_node_fail(n, err, "the result is too large");
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i]->dtype != t)
            return ot_node_fail(n, err, "input %d is %s and input 0 %s; expected one type", i,
                                ot_dtype_name(n->in[i]->dtype), ot_dtype_name(t));
    for (int64_t i = 0; i < a->n; i++) {
        const ot_piece *p = &a->piece[i];
        if (p->in < 0 || p->in >= n->n_in || !piece_fits(p, &a->shape, ot_numel(&n->in[p->in]->shape)))
            return ot_node_fail(n, err, "piece %lld is out of range", (long long)i);
    }
    return ot_set(n->out[0], t, &a->shape);
}

static ot_status copy_add_infer(ot_node *n, ot_error *err)
{
    const ot_copy *a = n->attrs;
    ot_dtype t = n->in[0]->dtype;
    if (!ot_dtype_bits(t)) return ot_node_fail(n, err, "elements of type %s cannot be added", ot_dtype_name(t));
    if (!ot_shape_known(&a->shape) || !ot_shape_fits(&a->shape, t))
        return ot_node_fail(n, err, "the result is too large");
    for (int64_t i = 0; i < a->n; i++)
        if (!piece_fits(&a->piece[i], &n->in[0]->shape, ot_numel(&a->shape)))
            return ot_node_fail(n, err, "piece %lld is out of range", (long long)i);
    return ot_set(n->out[0], t, &a->shape);
}

/* ---- gradients ------------------------------------------------------------- */

/* The box of dy that piece p wrote, summed over the axes with stride 0.  *box: the box of the result that belongs to
 * the piece. */
static ot_value *sum_repeats(ot_build *b, ot_value *dy, const ot_piece *p, ot_piece *box)
{
    ot_shape s = { .rank = dy->shape.rank };
    int64_t axes[OT_MAX_RANK], one[OT_MAX_RANK];
    int n = 0;
    *box = *p;
    for (int d = 0; d < s.rank; d++) {
        s.dim[d] = p->extent[d];
        one[d] = 1;
        if (p->extent[d] > 1 && p->stride[d] == 0) axes[n++] = d;
    }
    if (!n) return dy;
    ot_piece *cut = ot_pieces(b, 1);
    if (!cut) return NULL;
    ot_piece_box(cut, &dy->shape, p->dst, one, p->extent);
    dy = ot_copy_emit(b, &s, 0, cut, 1, &dy, 1);
    for (int d = 0; d < s.rank; d++) box->dst[d] = 0;
    for (int i = 0; i < n; i++) box->extent[axes[i]] = 1;
    return ot_sum(b, dy, axes, n, true);
}

/* dx of an input that was read by one piece. */
static ot_value *copy_back(ot_build *b, ot_value *dy, const ot_piece *piece, const ot_shape *x)
{
    ot_piece p, *q = ot_pieces(b, 1);
    int axis[OT_MAX_RANK];
    int64_t step[OT_MAX_RANK], at[OT_MAX_RANK], ds[OT_MAX_RANK];
    ot_value *z = sum_repeats(b, dy, piece, &p);
    if (!q || !z) return NULL;

    int rank = z->shape.rank;
    bool plain = ot_piece_axes(&p, rank, x, axis, step, at);
    for (int d = 0; plain && d < rank; d++) plain = axis[d] < 0 || step[d] == 1 || step[d] == -1;
    if (!plain) {
        *q = p;
        q->in = 0;
        return ot_emit(b, &ot_op_CopyDx, &(ot_copy){ .shape = *x, .n = 1, .piece = q }, &z, 1);
    }
    ot_strides(&z->shape, ds);
    for (int d = 0; d < rank; d++) q->src += p.dst[d] * ds[d];
    for (int a = 0; a < x->rank; a++) {
        q->dst[a] = at[a];
        q->extent[a] = 1;
    }
    for (int d = 0; d < rank; d++) {
        int a = axis[d];
        if (a < 0) continue;
        q->extent[a] = p.extent[d];
        q->stride[a] = ds[d] * step[d];
        if (step[d] < 0) {
            q->src += (p.extent[d] - 1) * ds[d];
            q->dst[a] -= p.extent[d] - 1;
        }
    }
    return ot_copy_emit(b, x, 0, q, 1, &z, 1);
}

static bool is_empty(const ot_piece *p, int rank)
{
    for (int d = 0; d < rank; d++)
        if (p->extent[d] == 0) return true;
    return false;
}

/* The pieces by the input that they read, in their order: those of input i are pieces[first[i]] to pieces[first[i + 1] - 1].
 * NULL: no memory. */
static ot_piece *by_input(ot_build *b, const ot_copy *a, int64_t *first)
{
    int inputs = b->node->n_in;
    for (int64_t k = 0; k < a->n; k++) first[a->piece[k].in + 1] += !is_empty(&a->piece[k], a->shape.rank);
    for (int i = 0; i < inputs; i++) first[i + 1] += first[i];
    ot_piece *list = ot_pieces(b, first[inputs] + 1);
    for (int64_t k = 0; list && k < a->n; k++) {
        if (is_empty(&a->piece[k], a->shape.rank)) continue;
        ot_piece *p = &list[first[a->piece[k].in]++];
        *p = a->piece[k];
        p->in = 0;
    }
    for (int i = inputs; i > 0; i--) first[i] = first[i - 1];
    first[0] = 0;
    return list;
}

static void copy_grad(ot_build *b)
{
    const ot_copy *a = b->node->attrs;
    ot_value *dy = ot_dout(b, 0);
    int64_t *first = ot_graph_alloc(b->graph, ((size_t)b->node->n_in + 1) * sizeof *first);
    ot_piece *list = first ? by_input(b, a, first) : NULL;
    for (int i = 0; list && i < b->node->n_in; i++) {
        if (!ot_wants(b, i)) continue;
        const ot_shape *x = &b->node->in[i]->shape;
        int64_t n = first[i + 1] - first[i];
        ot_piece *p = list + first[i];
        ot_set_din(b, i,
                   n == 1 ? copy_back(b, dy, p, x)
                          : ot_emit(b, &ot_op_CopyDx, &(ot_copy){ .shape = *x, .n = n, .piece = p }, &dy, 1));
    }
}

static void copy_add_grad(ot_build *b)
{
    const ot_copy *a = b->node->attrs;
    ot_value *g = ot_dout(b, 0);
    ot_set_din(b, 0, ot_copy_emit(b, &b->node->in[0]->shape, 0, a->piece, a->n, &g, 1));
}

/* ---- short forms ---------------------------------------------------------------- */

/* A Copy with one piece that covers the whole output. */
static ot_value *copy_one(ot_build *b, ot_value *x, const ot_shape *out, const int64_t *stride)
{
    ot_piece *p = ot_graph_alloc(b->graph, sizeof *p);
    if (!p) return NULL;
    for (int d = 0; d < out->rank; d++) {
        p->stride[d] = stride[d];
        p->extent[d] = out->dim[d];
    }
    return ot_emit(b, &ot_op_Copy, &(ot_copy){ .shape = *out, .n = 1, .piece = p }, OT_IN(x));
}

ot_value *ot_expand(ot_build *b, ot_value *x, const ot_shape *s)
{
    if (ot_broken(b) || ot_shape_eq(&x->shape, s)) return ot_broken(b) ? NULL : x;
    int64_t xs[OT_MAX_RANK], stride[OT_MAX_RANK] = { 0 };
    int lead = s->rank - x->shape.rank;
    ot_strides(&x->shape, xs);
    for (int d = lead; d < s->rank; d++) stride[d] = x->shape.dim[d - lead] == 1 ? 0 : xs[d - lead];
    return copy_one(b, x, s, stride);
}

ot_value *ot_transpose(ot_build *b, ot_value *x, const int *perm)
{
    if (ot_broken(b)) return NULL;
    int64_t xs[OT_MAX_RANK], stride[OT_MAX_RANK];
    ot_shape s = { .rank = x->shape.rank };
    bool moved = false;
    ot_strides(&x->shape, xs);
    for (int d = 0; d < s.rank; d++) {
        s.dim[d] = x->shape.dim[perm[d]];
        stride[d] = xs[perm[d]];
        moved |= perm[d] != d;
    }
    return moved ? copy_one(b, x, &s, stride) : x;
}

const ot_op ot_op_Copy = {
    .name = "Copy",
    .types = { "T", .T = OT_SET_ALL },
    .in = { 1, OT_VARIADIC },
    .out = { 1, 1 },
    .flags = OT_INTERNAL | OT_MOVES,
    .attr_size = sizeof(ot_copy),
    .infer = copy_infer,
    .grad = copy_grad,
    .half = OT_HALF_FOLLOWS,
};

const ot_op ot_op_CopyDx = {
    .name = "CopyDx",
    .types = { "n" },
    .in = { 1, 1 },
    .out = { 1, 1 },
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_copy),
    .infer = copy_add_infer,
    .grad = copy_add_grad,
};
