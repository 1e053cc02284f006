/* gridsample.c - GridSample: samples x at the points of a grid; AffineGrid: makes such a grid from affine maps.
 *
 * Spec    ai.onnx GridSample 16, 20, 22: linear, nearest, cubic, every padding, any number of spatial axes; AffineGrid
 *         20. size must be constant.
 * Shapes  GridSample: x: (N, C, d1..dr)  grid: (N, o1..or, r), its last axis innermost first   y: (N, C, o1..or)
 *         AffineGrid: theta: (N, r, r + 1)  size: (N, C, d1..dr)   y: (N, d1..dr, r)
 * Grad    of samples (sample.c); with nearest the grid has none.  Integers have none. */
#include "ops/kernels/arith.h"
#include "ops/kernels/move.h"
#include "ops/kernels/sample.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

typedef struct gridsample_attrs {
    int64_t align_corners, mode, padding;
} gridsample_attrs;

static const char *const modes[] = { "linear", "nearest", "cubic", NULL };
static const char *const paddings[] = { "zeros", "border", "reflection", NULL };

#define AT(field) offsetof(gridsample_attrs, field)
static const ot_attr gridsample_rows[] = {
    { "align_corners", OT_INT, AT(align_corners), 0, NULL },
    { "mode", OT_ENUM, AT(mode), OT_SAMPLE_LINEAR, modes },
    { "padding_mode", OT_ENUM, AT(padding), OT_SAMPLE_ZEROS, paddings },
    { 0 },
};
#undef AT

static ot_status gridsample_infer(ot_node *n, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape, *g = &n->in[1]->shape;
    char a[128], c[128];
    bool fits = x->rank >= 3 && g->rank == x->rank && g->dim[0] == x->dim[0] && g->dim[g->rank - 1] == x->rank - 2;
    if (!fits)
        return ot_node_fail(n, err, "a grid of shape %s does not match x of shape %s", ot_shape_text(g, a),
                            ot_shape_text(x, c));
    ot_shape y = { .rank = x->rank, .dim = { x->dim[0], x->dim[1] } };
    for (int d = 2; d < y.rank; d++) y.dim[d] = g->dim[d - 1];
    for (int d = 2; d < y.rank; d++)
        if (x->dim[d] == 0 && ot_numel(g)) return ot_node_fail(n, err, "x of shape %s is empty", ot_shape_text(x, c));
    if (!ot_shape_fits(&y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* Element i of the last axis of x, as a list. */
static ot_value *column(ot_build *b, ot_value *x, int64_t i)
{
    struct {
        int64_t axis;
    } gather = { 1 };
    int64_t r = x->shape.dim[x->shape.rank - 1];
    x = ot_view(b, x, &(ot_shape){ .rank = 2, .dim = { ot_numel(&x->shape) / (r ? r : 1), r } });
    return ot_emit(b, &ot_op_Gather, &gather, OT_IN(x, ot_scalar(b, OT_I64, (double)i)));
}

static void gridsample_lower(ot_build *b)
{
    const gridsample_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0], *grid = b->node->in[1];
    const ot_shape *y = &b->node->out[0]->shape;
    ot_dtype t = x->dtype;
    int64_t N = x->shape.dim[0], C = x->shape.dim[1], P = 1, Q = 1;
    ot_sample s = { .r = x->shape.rank - 2, .mode = a->mode, .padding = a->padding, .corners = a->align_corners != 0 };
    for (int i = 0; i < s.r; i++) {
        s.n[i] = x->shape.dim[2 + i];
        P *= s.n[i];
        Q *= y->dim[2 + i];
    }
    if (grid->dtype != OT_F64) grid = ot_cast(b, grid, OT_F32);
    for (int i = 0; i < s.r && !ot_broken(b); i++) {
        ot_value *g = ot_plus_by(b, column(b, grid, s.r - 1 - i), 1);
        double n = (double)s.n[i];
        s.at[i] =
            s.corners ? ot_times_by(b, g, (n - 1) / 2) : ot_times_by(b, ot_plus_by(b, ot_times_by(b, g, n), -1), 0.5);
    }
    ot_value *first = ot_times_by(b, ot_line(b, OT_I64, NULL, N, 0, 2), (double)P);
    first = ot_view(b, ot_expand(b, first, &(ot_shape){ .rank = 2, .dim = { N, Q } }),
                    &(ot_shape){ .rank = 1, .dim = { N * Q } });
    ot_value *rows = ot_sample_x(b, ot_is_float(t) ? x : ot_cast(b, x, OT_F64));
    ot_value *v = ot_cast(b, ot_sample_rows(b, &s, rows, first), t);
    v = ot_view(b, v, &(ot_shape){ .rank = 3, .dim = { N, Q, C } });
    if (!ot_broken(b)) ot_yield(b, 0, ot_view(b, ot_transpose(b, v, (int[]){ 0, 2, 1 }), y));
}

/* X and the grid. */
static bool grid_sample_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    return ot_batch_operands_first(b, n, 3, r);
}

const ot_op ot_op_GridSample = {
    .name = "GridSample",
    .types = { "TU", .T = OT_SET_COMMON, .U = OT_SET_FLOAT },
    .slots = "-",
    .since = 22,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .attrs = gridsample_rows,
    .attr_size = sizeof(gridsample_attrs),
    .infer = gridsample_infer,
    .lower = gridsample_lower,
    .batch = grid_sample_batch,
};

/* ---- AffineGrid ------------------------------------------------------------ */

typedef struct affinegrid_attrs {
    int64_t align_corners;
} affinegrid_attrs;

static const ot_attr affinegrid_rows[] = {
    { "align_corners", OT_INT, offsetof(affinegrid_attrs, align_corners), 0, NULL },
    { 0 },
};

static ot_status affinegrid_infer(ot_node *n, ot_error *err)
{
    const ot_shape *theta = &n->in[0]->shape;
    ot_shape size, y;
    char a[128], c[128];
    OT_TRY(ot_shape_input(n, 1, &size, err));
    int r = size.rank - 2;
    bool fits =
        r >= 1 && theta->rank == 3 && theta->dim[0] == size.dim[0] && theta->dim[1] == r && theta->dim[2] == r + 1;
    if (!fits)
        return ot_node_fail(n, err, "theta of shape %s does not match an image of shape %s", ot_shape_text(theta, a),
                            ot_shape_text(&size, c));
    y = (ot_shape){ .rank = r + 2, .dim = { size.dim[0] } };
    for (int d = 0; d < r; d++) y.dim[1 + d] = size.dim[2 + d];
    y.dim[r + 1] = r;
    if (!ot_shape_fits(&y, OT_F64)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* Column j of theta times the positions along its axis, plus the last column. */
static void affinegrid_lower(ot_build *b)
{
    bool corners = ((const affinegrid_attrs *)b->node->attrs)->align_corners != 0;
    ot_value *theta = b->node->in[0], *y = NULL;
    const ot_shape *out = &b->node->out[0]->shape;
    ot_dtype t = theta->dtype;
    int r = out->rank - 2;
    ot_shape s = { .rank = out->rank, .dim = { out->dim[0] } };
    for (int d = 1; d <= r; d++) s.dim[d] = 1;
    s.dim[r + 1] = r;
    if (t != OT_F64) theta = ot_cast(b, theta, OT_F32);
    for (int j = r; j >= 0 && !ot_broken(b); j--) {
        ot_value *c = ot_view(b, column(b, theta, j), &s);
        int64_t n = j < r ? out->dim[r - j] : 1;
        double *at = ot_graph_alloc(b->graph, (size_t)(n + 1) * sizeof *at);
        if (!at) return;
        for (int64_t i = 0; i < n; i++)
            at[i] = corners ? n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : 0 : (2 * (double)i + 1) / (double)n - 1;
        if (j < r) c = ot_times(b, c, ot_line(b, theta->dtype, at, n, r - j, r + 2));
        y = y ? ot_plus(b, y, c) : c;
    }
    ot_yield(b, 0, ot_cast(b, ot_expand(b, y, out), t));
}

const ot_op ot_op_AffineGrid = {
    .name = "AffineGrid",
    .types = { "Ti", .T = OT_SET_FLOAT },
    .slots = "-",
    .since = 20,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 1u << 1,
    .attrs = affinegrid_rows,
    .attr_size = sizeof(affinegrid_attrs),
    .infer = affinegrid_infer,
    .lower = affinegrid_lower,
};
