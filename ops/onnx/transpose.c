/* transpose.c - Transpose: axis d of y is axis perm[d] of x.
 *
 * Spec    ai.onnx Transpose 1, 13, 21, 23, 24, 25.  Without perm the axes are reversed. */
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct transpose_attrs {
    ot_ints perm;
} transpose_attrs;

static const ot_attr transpose_rows[] = {
    { "perm", OT_INTS, offsetof(transpose_attrs, perm), 0, NULL },
    { 0 },
};

/* false: perm is not a permutation of the axes. */
static bool permutation(const ot_node *n, int perm[OT_MAX_RANK])
{
    const ot_ints *p = &((const transpose_attrs *)n->attrs)->perm;
    int rank = n->in[0]->shape.rank;
    unsigned seen = 0;
    if (p->n && p->n != rank) return false;
    for (int d = 0; d < rank; d++) {
        perm[d] = rank - 1 - d;
        if (p->n && !ot_axis(p->v[d], rank, &perm[d])) return false;
        seen |= 1u << perm[d];
    }
    return seen == (1u << rank) - 1;
}

static ot_status transpose_infer(ot_node *n, ot_error *err)
{
    int perm[OT_MAX_RANK];
    ot_shape y = { .rank = n->in[0]->shape.rank };
    if (!permutation(n, perm)) return ot_node_fail(n, err, "perm is not a permutation of %d axes", y.rank);
    for (int d = 0; d < y.rank; d++) y.dim[d] = n->in[0]->shape.dim[perm[d]];
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

static void transpose_lower(ot_build *b)
{
    int perm[OT_MAX_RANK], moved[OT_MAX_RANK], n = 0, last = -1;
    ot_value *x = b->node->in[0];
    const ot_shape *y = &b->node->out[0]->shape;
    bool free = true; /* only axes of size 1 change places */
    permutation(b->node, perm);
    for (int d = 0; d < y->rank; d++)
        if (y->dim[d] != 1) moved[n++] = perm[d];
    for (int d = 0; d < n; d++) {
        free &= moved[d] > last;
        last = moved[d];
    }
    ot_yield(b, 0, free ? ot_view(b, x, y) : ot_transpose(b, x, perm));
}

static bool transpose_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)b;
    ot_ints perm = ot_attr_ints(n, "perm");
    int a = ot_batch_axis(n->in[0]), rank = own[0].rank;
    if (!ot_batch_first_alone(n)) return false;
    for (int d = 0, from; d < rank; d++) {
        if (!perm.n) from = rank - 1 - d;
        else if (!ot_axis(perm.v[d], rank, &from)) return false;
        if (from == a) return ot_batch_on(r, n, d);
    }
    return false;
}

const ot_op ot_op_Transpose = {
    .name = "Transpose",
    .types = { "n" },
    .slots = ">",
    .since = 25,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = transpose_rows,
    .attr_size = sizeof(transpose_attrs),
    .infer = transpose_infer,
    .lower = transpose_lower,
    .flags = OT_MOVES | OT_SAME,
    .half = OT_HALF_FOLLOWS,
    .batch = transpose_batch,
};
