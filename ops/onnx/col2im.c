/* col2im.c - Col2Im: sums columns of blocks into an image (the adjoint of im2col).
 *
 * Spec    ai.onnx Col2Im 18: 1 to 3 spatial axes.  Both shapes must be constant.
 * Shapes  x: (N, C * product of k.., number of blocks)  image_shape: (i1..id)  block_shape: (k1..kd)   y: (N, C,
 *         i1..id)
 * Grad    the blocks of dy: the operator is a CopyDx, whose gradient is the Copy that extracts the blocks. */
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/kernels/window.h"
#include "ops/onnx/batching.h"

static const ot_attr attrs[] = {
    { "dilations", OT_INTS, offsetof(ot_window_attrs, dilations), 0, NULL },
    { "pads", OT_INTS, offsetof(ot_window_attrs, pads), 0, NULL },
    { "strides", OT_INTS, offsetof(ot_window_attrs, strides), 0, NULL },
    { 0 },
};

/* The window, the blocks along each axis, and y. */
static ot_status resolve(const ot_node *n, ot_window *w, int64_t *blocks, ot_shape *y, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    ot_shape image, block;
    int64_t size, count = 1, C = x->rank == 3 ? x->dim[1] : 0;
    char s[128];
    OT_TRY(ot_shape_input(n, 1, &image, err));
    OT_TRY(ot_shape_input(n, 2, &block, err));
    if (image.rank != block.rank || image.rank > OT_WINDOW_AXES)
        return ot_node_fail(n, err, "an image of %d axes and blocks of %d; both need the same number, 1 to %d",
                            image.rank, block.rank, OT_WINDOW_AXES);
    *y = (ot_shape){ .rank = 2 + image.rank, .dim = { x->dim[0] } };
    for (int j = 0; j < image.rank; j++) y->dim[2 + j] = image.dim[j];
    OT_TRY(ot_window_resolve(n, n->attrs, block.dim, y, w, blocks, err));
    for (int j = 0; j < image.rank; j++)
        if (!ot_mul(count, blocks[j] > 0 ? blocks[j] : 0, &count)) return ot_node_fail(n, err, "too many blocks");
    if (!ot_shape_fits(&block, OT_I8)) return ot_node_fail(n, err, "the blocks are too large");
    size = ot_numel(&block);
    if (x->rank != 3 || C % size || x->dim[2] != count)
        return ot_node_fail(n, err, "x is %s; expected (N, a multiple of %lld, %lld)", ot_shape_text(x, s),
                            (long long)size, (long long)count);
    y->dim[1] = C / size;
    if (!ot_shape_fits(y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return OT_OK;
}

static ot_status col2im_infer(ot_node *n, ot_error *err)
{
    ot_window w;
    int64_t blocks[OT_WINDOW_AXES];
    ot_shape y;
    OT_TRY(resolve(n, &w, blocks, &y, err));
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* The blocks, of `blocks`, whose element k is on the axis: the first is *lo; returns their number. */
static int64_t reaching(const ot_window *w, int j, int64_t k, int64_t blocks, int64_t image, int64_t *lo)
{
    int64_t at = k * w->dilation[j] - w->pad_lo[j], s = w->stride[j]; /* of block 0 */
    int64_t hi = at >= image ? -1 : (image - 1 - at) / s;
    *lo = at < 0 ? (-at + s - 1) / s : 0;
    if (hi > blocks - 1) hi = blocks - 1;
    return hi < *lo ? 0 : hi - *lo + 1;
}

/* One piece per element of the block; axes on which every element of every block is inside need only one piece. */
static int64_t pieces_of(const ot_window *w, const int64_t *blocks, const ot_shape *y, int64_t *each)
{
    int64_t count = 1, lo;
    for (int j = 0; j < w->nd; j++) {
        bool whole = reaching(w, j, 0, blocks[j], y->dim[2 + j], &lo) == blocks[j] &&
                     reaching(w, j, w->kernel[j] - 1, blocks[j], y->dim[2 + j], &lo) == blocks[j];
        each[j] = whole ? 1 : w->kernel[j];
        if (!ot_mul(count, each[j], &count)) return INT64_MAX;
    }
    return count;
}

/* dims of columns: (N C, k1.., L1..). */
static bool make_piece(const ot_window *w, const int64_t *blocks, const ot_shape *y, const int64_t *each, int64_t index,
                       ot_piece *p)
{
    int nd = (int)w->nd;
    int64_t step = 1, lo = 0;
    bool any = true;
    for (int j = nd - 1; j >= 0; j--) {
        int64_t k = index % each[j], image = y->dim[2 + j];
        index /= each[j];
        p->dst[1 + j] = k;
        p->extent[1 + j] = each[j] == 1 ? w->kernel[j] : 1;
        p->stride[1 + j] = w->dilation[j] * step;
        p->extent[1 + nd + j] = reaching(w, j, k, blocks[j], image, &lo);
        p->dst[1 + nd + j] = lo;
        p->stride[1 + nd + j] = w->stride[j] * step;
        p->src += (lo * w->stride[j] + k * w->dilation[j] - w->pad_lo[j]) * step;
        any &= p->extent[1 + nd + j] > 0;
        step *= image;
    }
    p->extent[0] = y->dim[0] * y->dim[1];
    p->stride[0] = step;
    return any && p->extent[0] > 0;
}

static void col2im_lower(ot_build *b)
{
    ot_window w;
    int64_t blocks[OT_WINDOW_AXES], each[OT_WINDOW_AXES];
    ot_shape y;
    if (resolve(b->node, &w, blocks, &y, b->graph->err) != OT_OK) return;
    int64_t n = pieces_of(&w, blocks, &y, each), used = 0;
    ot_piece *p = ot_pieces(b, n);
    if (!p) return;
    ot_shape columns = { .rank = 1 + 2 * (int)w.nd, .dim = { y.dim[0] * y.dim[1] } };
    for (int j = 0; j < w.nd; j++) {
        columns.dim[1 + j] = w.kernel[j];
        columns.dim[1 + w.nd + j] = blocks[j];
    }
    for (int64_t i = 0; i < n; i++) {
        p[used] = (ot_piece){ 0 };
        used += make_piece(&w, blocks, &y, each, i, &p[used]);
    }
    ot_value *x = ot_view(b, b->node->in[0], &columns);
    ot_yield(b, 0, ot_emit(b, &ot_op_CopyDx, &(ot_copy){ .shape = y, .n = used, .piece = p }, OT_IN(x)));
}

const ot_op ot_op_Col2Im = {
    .name = "Col2Im",
    .types = { "Tii", .T = OT_SET_NUMBER },
    .slots = "-",
    .since = 18,
    .in = { 3, 3 },
    .out = { 1, 1 },
    .nondiff = 6,
    .attrs = attrs,
    .attr_size = sizeof(ot_window_attrs),
    .infer = col2im_infer,
    .lower = col2im_lower,
    .batch = ot_batch_first,
};
