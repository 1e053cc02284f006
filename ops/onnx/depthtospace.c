/* depthtospace.c - DepthToSpace and SpaceToDepth: moves channels to blocks of pixels, and back.
 *
 * Spec    ai.onnx DepthToSpace 1, 11, 13 (DCR: the block is the outer part of C; CRD: the inner one);
 *         SpaceToDepth 1, 13.
 * Shapes  (N, C, H, W) <-> (N, C/b/b, H*b, W*b) */
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct block_attrs {
    int64_t blocksize, mode;
} block_attrs;

static const char *const modes[] = { "DCR", "CRD", NULL };

static const ot_attr depth_rows[] = {
    { "blocksize", OT_INT, offsetof(block_attrs, blocksize), OT_REQUIRED, NULL },
    { "mode", OT_ENUM, offsetof(block_attrs, mode), 0, modes },
    { 0 },
};

static const ot_attr space_rows[] = {
    { "blocksize", OT_INT, offsetof(block_attrs, blocksize), OT_REQUIRED, NULL },
    { 0 },
};

static ot_status block_infer(ot_node *n, bool to_space, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    int64_t b = ((const block_attrs *)n->attrs)->blocksize, bb = 1;
    char text[128];
    bool fits = x->rank == 4 && b > 0 && ot_mul(b, b, &bb);
    if (fits) fits = to_space ? x->dim[1] % bb == 0 : x->dim[2] % b == 0 && x->dim[3] % b == 0;
    if (!fits)
        return ot_node_fail(n, err, "x is %s, which cannot be divided into blocks of %lld", ot_shape_text(x, text),
                            (long long)b);
    ot_shape y = { .rank = 4, .dim = { x->dim[0], to_space ? x->dim[1] / bb : 0, 0, 0 } };
    fits = true;
    if (to_space) fits = ot_mul(x->dim[2], b, &y.dim[2]) && ot_mul(x->dim[3], b, &y.dim[3]);
    else {
        fits = ot_mul(x->dim[1], bb, &y.dim[1]);
        y.dim[2] = x->dim[2] / b;
        y.dim[3] = x->dim[3] / b;
    }
    if (!fits) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static ot_status depth_infer(ot_node *n, ot_error *err) { return block_infer(n, true, err); }
static ot_status space_infer(ot_node *n, ot_error *err) { return block_infer(n, false, err); }

static void depth_lower(ot_build *b)
{
    static const int dcr[] = { 0, 3, 4, 1, 5, 2 }, crd[] = { 0, 1, 4, 2, 5, 3 };
    const block_attrs *a = b->node->attrs;
    const ot_shape *y = &b->node->out[0]->shape;
    int64_t s = a->blocksize, c = y->dim[1], h = y->dim[2] / s, w = y->dim[3] / s;
    ot_shape parts = { .rank = 6, .dim = { y->dim[0], s, s, c, h, w } };
    if (a->mode) parts = (ot_shape){ .rank = 6, .dim = { y->dim[0], c, s, s, h, w } };
    ot_value *x = ot_view(b, b->node->in[0], &parts);
    ot_yield(b, 0, ot_view(b, ot_transpose(b, x, a->mode ? crd : dcr), y));
}

static void space_lower(ot_build *b)
{
    static const int perm[] = { 0, 3, 5, 1, 2, 4 };
    const ot_shape *x = &b->node->in[0]->shape;
    int64_t s = ((const block_attrs *)b->node->attrs)->blocksize;
    ot_shape parts = { .rank = 6, .dim = { x->dim[0], x->dim[1], x->dim[2] / s, s, x->dim[3] / s, s } };
    ot_yield(b, 0, ot_view(b, ot_transpose(b, ot_view(b, b->node->in[0], &parts), perm), &b->node->out[0]->shape));
}

const ot_op ot_op_DepthToSpace = {
    .name = "DepthToSpace",
    .types = { "T", .T = OT_SET_COMMON },
    .slots = "-",
    .since = 13,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = depth_rows,
    .attr_size = sizeof(block_attrs),
    .infer = depth_infer,
    .lower = depth_lower,
    .flags = OT_MOVES,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_first,
};

const ot_op ot_op_SpaceToDepth = {
    .name = "SpaceToDepth",
    .types = { "T", .T = OT_SET_COMMON },
    .slots = "-",
    .since = 13,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = space_rows,
    .attr_size = sizeof(block_attrs),
    .infer = space_infer,
    .lower = space_lower,
    .flags = OT_MOVES,
    .half = OT_HALF_FOLLOWS,
    .batch = ot_batch_first,
};
