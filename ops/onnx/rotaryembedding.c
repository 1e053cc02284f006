/* rotaryembedding.c - RotaryEmbedding: rotates pairs of channels by an angle that depends on the position.
 *
 * Spec    ai.onnx RotaryEmbedding 23.
 * Shapes  x: (B, H, T, D), or (B, T, H D) with num_heads   cos, sin: (B, T, R/2), or (positions, R/2) with position_ids
 *         (B, T) y: like x.  The first R = rotary_embedding_dim channels of a head are rotated, all of them if it is 0
 * Grad    of x, cos and sin */
#include "ops/kernels/copy.h"
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct rotary_attrs {
    int64_t interleaved, num_heads, rotary_embedding_dim;
} rotary_attrs;

static const ot_attr rows[] = {
    { "interleaved", OT_INT, offsetof(rotary_attrs, interleaved), 0, NULL },
    { "num_heads", OT_INT, offsetof(rotary_attrs, num_heads), 0, NULL },
    { "rotary_embedding_dim", OT_INT, offsetof(rotary_attrs, rotary_embedding_dim), 0, NULL },
    { 0 },
};

typedef struct places {
    ot_shape x, table;
    int64_t R;
} places; /* x and tables of rank 4, ready to be multiplied */

static ot_status measure(const ot_node *n, places *p, ot_error *err)
{
    const rotary_attrs *a = n->attrs;
    const ot_value *ids = ot_node_in(n, 3);
    ot_shape x = n->in[0]->shape, cos = n->in[1]->shape;
    int t = x.rank == 4 ? 2 : 1;
    char s[128];
    if (x.rank == 3) { /* -1: the tables are for a whole head (com.microsoft) */
        int64_t half = cos.rank ? cos.dim[cos.rank - 1] : 0, heads = a->num_heads != -1 ? a->num_heads
                                                                     : half > 0         ? x.dim[2] / (2 * half)
                                                                                        : 0;
        if (heads < 1 || x.dim[2] % heads)
            return ot_node_fail(n, err, "x has %lld channels, which cannot be divided into %lld heads",
                                (long long)x.dim[2], (long long)heads);
        x = (ot_shape){ .rank = 4, .dim = { x.dim[0], x.dim[1], heads, x.dim[2] / heads } };
    }
    if (x.rank != 4) return ot_node_fail(n, err, "x has rank %d; expected 3 or 4", x.rank);
    p->x = x;
    p->R = a->rotary_embedding_dim ? a->rotary_embedding_dim : x.dim[3];
    if (p->R < 0 || p->R > x.dim[3] || p->R % 2)
        return ot_node_fail(n, err, "%lld of %lld channels cannot be rotated", (long long)p->R, (long long)x.dim[3]);
    p->table = (ot_shape){ .rank = 4, .dim = { x.dim[0], 1, 1, p->R / 2 } };
    p->table.dim[t] = x.dim[t];
    ot_shape want = { .rank = 3, .dim = { x.dim[0], x.dim[t], p->R / 2 } };
    if (ids) {
        if (ids->shape.rank != 2 || ids->shape.dim[0] != x.dim[0] || ids->shape.dim[1] != x.dim[t])
            return ot_node_fail(n, err, "position_ids are %s; expected (batch, tokens)", ot_shape_text(&ids->shape, s));
        want = (ot_shape){ .rank = 2, .dim = { cos.rank ? cos.dim[0] : 0, p->R / 2 } };
    }
    if (!ot_shape_eq(&cos, &want) || !ot_shape_eq(&n->in[2]->shape, &want))
        return ot_node_fail(n, err, "the tables of cosines and sines do not match x; expected %s",
                            ot_shape_text(&want, s));
    return OT_OK;
}

static ot_status rotary_infer(ot_node *n, ot_error *err)
{
    places p;
    OT_TRY(measure(n, &p, err));
    return ot_like(n->out[0], n->in[0]);
}

/* Channels from, from + step, ... of x. */
static ot_value *channels(ot_build *b, ot_value *x, int64_t from, int64_t step, int64_t count)
{
    int64_t start[OT_MAX_RANK] = { 0, 0, 0, from }, steps[OT_MAX_RANK] = { 1, 1, 1, step };
    ot_piece *p = ot_pieces(b, 1);
    if (!p) return NULL;
    ot_shape y = x->shape;
    y.dim[3] = count;
    ot_piece_box(p, &x->shape, start, steps, y.dim);
    return ot_copy_emit(b, &y, 0, p, 1, &x, 1);
}

/* Concatenates along the last axis. */
static ot_value *joined(ot_build *b, ot_value *const *x, int n)
{
    static const int64_t zero[OT_MAX_RANK], one[OT_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    ot_piece *p = ot_broken(b) ? NULL : ot_pieces(b, n);
    if (!p) return NULL;
    ot_shape y = x[0]->shape;
    int last = y.rank - 1;
    y.dim[last] = 0;
    for (int i = 0; i < n; i++) {
        ot_piece_box(&p[i], &x[i]->shape, zero, one, x[i]->shape.dim);
        p[i].in = i;
        p[i].dst[last] = y.dim[last];
        y.dim[last] += x[i]->shape.dim[last];
    }
    return ot_copy_emit(b, &y, 0, p, n, x, n);
}

static ot_value *table(ot_build *b, int i, const places *p)
{
    const ot_node *n = b->node;
    ot_value *t = n->in[i];
    if (n->n_in > 3 && n->in[3]) t = ot_emit(b, &ot_op_Gather, NULL, OT_IN(t, n->in[3]));
    return ot_broken(b) ? NULL : ot_view(b, t, &p->table);
}

static void rotary_lower(ot_build *b)
{
    bool pairs = ((const rotary_attrs *)b->node->attrs)->interleaved != 0;
    places p;
    if (measure(b->node, &p, b->graph->err) != OT_OK) return;
    int64_t half = p.R / 2, step = pairs ? 2 : 1;
    ot_value *x = ot_view(b, b->node->in[0], &p.x), *cos = table(b, 1, &p), *sin = table(b, 2, &p);
    if (ot_broken(b)) return;
    ot_value *x1 = channels(b, x, 0, step, half), *x2 = channels(b, x, pairs ? 1 : half, step, half);
    ot_value *re =
        ot_map2(b, OT_FN_Sub, 0, 0, ot_map2(b, OT_FN_Mul, 0, 0, cos, x1), ot_map2(b, OT_FN_Mul, 0, 0, sin, x2));
    ot_value *im =
        ot_map2(b, OT_FN_Add, 0, 0, ot_map2(b, OT_FN_Mul, 0, 0, sin, x1), ot_map2(b, OT_FN_Mul, 0, 0, cos, x2));
    if (ot_broken(b)) return;
    ot_value *rest = p.R < p.x.dim[3] ? channels(b, x, p.R, 1, p.x.dim[3] - p.R) : NULL, *y;
    if (pairs) {
        ot_shape each = re->shape, turned = re->shape;
        each.dim[each.rank++] = 1;
        turned.dim[3] = p.R;
        y = joined(b, (ot_value *[]){ ot_view(b, re, &each), ot_view(b, im, &each) }, 2);
        y = ot_broken(b) ? NULL : ot_view(b, y, &turned);
        if (rest) y = joined(b, (ot_value *[]){ y, rest }, 2);
    } else {
        y = joined(b, (ot_value *[]){ re, im, rest }, rest ? 3 : 2);
    }
    if (!ot_broken(b)) ot_yield(b, 0, ot_view(b, y, &b->node->out[0]->shape));
}

/* Tables of sines and cosines: one for each sample, or rows selected by positions. */
static bool rotary_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    return ot_batch_operands_first(b, n, ot_batch_given(n, 3) ? 9 : 7, r);
}

const ot_op ot_op_RotaryEmbedding = {
    .name = "RotaryEmbedding",
    .types = { "TTTi", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 23,
    .in = { 3, 4 },
    .out = { 1, 1 },
    .nondiff = 1u << 3,
    .attrs = rows,
    .attr_size = sizeof(rotary_attrs),
    .infer = rotary_infer,
    .lower = rotary_lower,
    .batch = rotary_batch,
};
