/* pad.c - Pad: adds a frame around x, or removes elements where pads are negative.
 *
 * Spec    ai.onnx Pad 11, 13, 18, 19, 21, 23, 24, 25, all modes.  pads and axes must be constants;
 *         the value need not be.  reflect and wrap repeat x as often as the pads require.
 * Grad    dx: dy added at the positions read, mirrored and repeated ones too.  dvalue: sum of the frame. */
#include "ops/kernels/copy.h"
#include "ops/kernels/move.h"
#include "ops/onnx/batching.h"

#include <stddef.h>

enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };
enum { PIECES_AT_ONCE = 4096 };

typedef struct pad_attrs {
    int64_t mode;
} pad_attrs;

static const char *const modes[] = { "constant", "reflect", "edge", "wrap", NULL };

static const ot_attr pad_rows[] = {
    { "mode", OT_ENUM, offsetof(pad_attrs, mode), PAD_CONSTANT, modes },
    { 0 },
};

/* The number of elements added before and after each axis; negative: removed. */
typedef struct frame {
    int64_t before[OT_MAX_RANK], after[OT_MAX_RANK];
} frame;

static ot_status pad_frame(const ot_node *n, frame *f, ot_shape *y, ot_error *err)
{
    const ot_shape *x = &n->in[0]->shape;
    ot_ints pads, axes;
    int64_t set, mode = ((const pad_attrs *)n->attrs)->mode;
    OT_TRY(ot_const_ints(n, 1, &pads, err));
    OT_TRY(ot_axes_input(n, 3, x->rank, &set, &axes, err));
    bool named = n->n_in > 3 && n->in[3];
    int m = named ? axes.n : x->rank;
    if (pads.n != 2 * m) return ot_node_fail(n, err, "%d pads, expected %d", pads.n, 2 * m);
    *y = *x;
    *f = (frame){ { 0 }, { 0 } };
    for (int i = 0; i < m; i++) {
        int d = i;
        if (named) ot_axis(axes.v[i], x->rank, &d);
        f->before[d] = pads.v[i];
        f->after[d] = pads.v[i + m];
        if (!ot_add(y->dim[d], pads.v[i], &y->dim[d]) || !ot_add(y->dim[d], pads.v[i + m], &y->dim[d]) ||
            y->dim[d] < 0 || -f->before[d] > x->dim[d] || -f->after[d] > x->dim[d])
            return ot_node_fail(n, err, "pads %lld and %lld of axis %d with %lld elements", (long long)pads.v[i],
                                (long long)pads.v[i + m], d, (long long)x->dim[d]);
        if (mode != PAD_CONSTANT && x->dim[d] == 0 && y->dim[d] > 0)
            return ot_node_fail(n, err, "axis %d is empty, so nothing can be repeated", d);
    }
    return OT_OK;
}

static ot_status pad_infer(ot_node *n, ot_error *err)
{
    frame f;
    ot_shape y;
    const ot_value *x = n->in[0], *value = ot_node_in(n, 2);
    OT_TRY(pad_frame(n, &f, &y, err));
    if (value && (value->dtype != x->dtype || ot_numel(&value->shape) != 1))
        return ot_node_fail(n, err, "the value must be one %s", ot_dtype_name(x->dtype));
    if (!ot_shape_fits(&y, x->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], x->dtype, &y);
}

/* ---- lowering -------------------------------------------------------------- */

/* One run of an axis of y: from dst on, `extent` elements read from src on in steps. */
typedef struct run {
    int64_t dst, src, step, extent;
} run;

/* The position in x's n elements of coordinate v of the infinitely extended axis. */
static int64_t source(int64_t v, int64_t n, int64_t mode)
{
    if (v >= 0 && v < n) return v;
    if (mode == PAD_EDGE || n == 1) return v < 0 ? 0 : n - 1;
    int64_t period = mode == PAD_WRAP ? n : 2 * (n - 1);
    v %= period;
    if (v < 0) v += period;
    return v < n ? v : period - v;
}

/* The length of the run that begins at coordinate v of the extended axis. */
static int64_t stretch(int64_t v, int64_t n, int64_t mode)
{
    if (v >= 0 && v < n && (v + 1 < n || mode != PAD_REFLECT)) return n - v;
    if (mode == PAD_EDGE || n == 1) return v < 0 ? -v : INT64_MAX;
    int64_t period = mode == PAD_WRAP ? n : 2 * (n - 1), m = v % period;
    if (m < 0) m += period;
    return m < n - (mode == PAD_REFLECT) ? n - m : period - m + 1; /* up to the last element, or down to the first */
}

enum { MOST_RUNS = 1 << 22 }; /* more pieces than a graph can have */

/* The runs of one axis; returns their number, MOST_RUNS for all above.  out == NULL: only counts. */
static int64_t axis_runs(int64_t n, int64_t before, int64_t after, int64_t mode, run *out)
{
    int64_t size = n + before + after, count = 0;
    if (mode == PAD_CONSTANT || (before <= 0 && after <= 0)) {
        int64_t from = before > 0 ? before : 0, to = after > 0 ? size - after : size;
        if (out) *out = (run){ from, from - before, 1, to > from ? to - from : 0 };
        return 1;
    }
    for (int64_t o = 0; o < size && count < MOST_RUNS;) {
        run r = { o, source(o - before, n, mode), 0, 1 };
        if (o + 1 < size) r.step = source(o + 1 - before, n, mode) - r.src;
        int64_t far = stretch(o - before, n, mode);
        r.extent = far < size - o ? far : size - o;
        if (out) out[count] = r;
        count++;
        o += r.extent;
    }
    return count;
}

/* Emits the padding of all axes as one Copy.  *n: the number of pieces. */
static ot_piece *pad_pieces(ot_build *b, const ot_shape *x, const frame *f, int64_t mode, int64_t *n)
{
    int64_t xs[OT_MAX_RANK], count[OT_MAX_RANK];
    run *runs[OT_MAX_RANK];
    *n = 1;
    ot_strides(x, xs);
    for (int d = 0; d < x->rank; d++) {
        count[d] = axis_runs(x->dim[d], f->before[d], f->after[d], mode, NULL);
        runs[d] = ot_graph_alloc(b->graph, (size_t)(count[d] + 1) * sizeof(run));
        if (!runs[d]) return NULL;
        axis_runs(x->dim[d], f->before[d], f->after[d], mode, runs[d]);
        if (!ot_mul(*n, count[d], n)) *n = INT64_MAX;
    }
    ot_piece *p = ot_pieces(b, *n);
    for (int64_t i = 0; p && i < *n; i++) {
        int64_t rest = i;
        for (int d = x->rank - 1; d >= 0; d--) {
            const run *r = &runs[d][rest % count[d]];
            rest /= count[d];
            p[i].dst[d] = r->dst;
            p[i].extent[d] = r->extent;
            p[i].stride[d] = r->step * xs[d];
            p[i].src += r->src * xs[d];
        }
    }
    return p;
}

static ot_shape padded(const ot_shape *x, const frame *f)
{
    ot_shape y = *x;
    for (int d = 0; d < x->rank; d++) y.dim[d] += f->before[d] + f->after[d];
    return y;
}

/* Constant mode with a value known at run time only: the frame is split into two slabs per axis. */
static ot_value *pad_with(ot_build *b, ot_value *x, ot_value *value, const frame *f)
{
    ot_shape y = padded(&x->shape, f);
    int64_t one;
    ot_piece *inner = pad_pieces(b, &x->shape, f, PAD_CONSTANT, &one), *p = ot_pieces(b, 2 * y.rank + 1);
    ot_piece box = { 0 };
    int n = 1;
    if (!inner || !p) return NULL;
    p[0] = *inner;
    box.in = 1;
    for (int d = 0; d < y.rank; d++) box.extent[d] = y.dim[d];
    for (int d = 0; d < y.rank; d++) {
        int64_t lo = inner->dst[d], hi = lo + inner->extent[d];
        p[n] = box;
        p[n++].extent[d] = lo;
        p[n] = box;
        p[n].dst[d] = hi;
        p[n++].extent[d] = y.dim[d] - hi;
        box.dst[d] = lo;
        box.extent[d] = hi - lo;
    }
    return ot_copy_emit(b, &y, 0, p, n, OT_IN(x, value));
}

static ot_value *pad_emit(ot_build *b, ot_value *x, const frame *f, int64_t mode, double fill)
{
    ot_shape y;
    ot_piece *p;
    int64_t n;
    if (ot_broken(b)) return NULL;
    y = padded(&x->shape, f);
    p = pad_pieces(b, &x->shape, f, mode, &n);
    return ot_copy_emit(b, &y, fill, p, n, &x, 1);
}

static void pad_lower(ot_build *b)
{
    const ot_node *n = b->node;
    int64_t mode = ((const pad_attrs *)n->attrs)->mode, total = 1;
    ot_value *x = n->in[0], *value = ot_node_in(n, 2);
    frame f, part;
    ot_shape y;
    double fill = 0;
    if (pad_frame(n, &f, &y, b->graph->err) != OT_OK) return;
    if (mode == PAD_CONSTANT && value) {
        bool exact = ot_is_const(value);
        if (exact) fill = ot_get_f64(value->data, value->dtype, 0);
        /* Integers beyond 2^53 are not representable as the fill value. */
        if (exact && ot_is_int(value->dtype)) exact = fill > -0x1p53 && fill < 0x1p53;
        if (!exact) {
            ot_yield(b, 0, pad_with(b, x, value, &f));
            return;
        }
    }
    for (int d = 0; d < y.rank; d++)
        if (!ot_mul(total, axis_runs(x->shape.dim[d], f.before[d], f.after[d], mode, NULL), &total)) total = INT64_MAX;
    if (total <= PIECES_AT_ONCE) {
        ot_yield(b, 0, pad_emit(b, x, &f, mode, fill));
        return;
    }
    for (int d = 0; d < y.rank; d++) { /* repeated many times: one axis after the other */
        part = (frame){ { 0 }, { 0 } };
        part.before[d] = f.before[d];
        part.after[d] = f.after[d];
        x = pad_emit(b, x, &part, mode, fill);
    }
    ot_yield(b, 0, x);
}

static bool pad_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    ot_ints pads, axes;
    ot_error e = { 0 };
    int64_t set, acts = 0, list[2 * (OT_MAX_RANK + 1)] = { 0 };
    if (!ot_batch_first_alone(n)) return false;
    int rank = n->in[0]->shape.rank;
    if (ot_const_ints(n, 1, &pads, &e) != OT_OK || ot_axes_input(n, 3, rank, &set, &axes, &e) != OT_OK) return false;
    int m = ot_batch_given(n, 3) ? axes.n : rank;
    if (pads.n != 2 * m) return false;
    for (int i = 0; i < m; i++) {
        int d = i;
        if (ot_batch_given(n, 3)) ot_axis(axes.v[i], rank, &d);
        list[d + 1] = pads.v[i];
        list[d + 1 + rank + 1] = pads.v[i + m];
        if (pads.v[i] || pads.v[i + m]) acts |= INT64_C(1) << d;
    }
    if (!ot_batch_along(b, n, acts, 0, r)) return false;
    if (r->explicit_at < 0) return true;
    r->in[1] = ot_batch_ints(b, list, 2 * (rank + 1));
    if (n->n_in > 3) r->in[3] = NULL;
    return true;
}

const ot_op ot_op_Pad = {
    .name = "Pad",
    .types = { "TiTx", .T = OT_SET_ALL },
    .slots = "-",
    .since = 25,
    .in = { 2, 4 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .nondiff = 1u << 1 | 1u << 3,
    .attrs = pad_rows,
    .attr_size = sizeof(pad_attrs),
    .infer = pad_infer,
    .lower = pad_lower,
    .half = OT_HALF_FOLLOWS,
    .batch = pad_batch,
};
