/* layout.c - assigns a layout to every value; conversions are explicit nodes.
 *
 * Convolutions are fastest with channels last (strict f32 on a GPU: channels first), so their outputs get that
 * layout, and kernels that accept any layout follow: Maps, pools, norms, and Copies whose boxes keep their axes
 * (Concat, Slice, Pad along any axis).  A Copy converts for kernels that need the plain (row-major) layout.  Inputs
 * and values that the host reads stay plain; layout_weights.c chooses the layouts of weights.
 *
 * A Copy's input is memory, not a logical tensor: after this pass the strides of its pieces are those of the input's
 * layout, and its shape is that of the output in memory. */
#include <string.h>

#include "ops/kernels/copy.h"
#include "ops/kernel.h"
#include "runtime/passes/passes.h"

bool ot_layout_matters(const ot_shape *s)
{
    int64_t inner = 1;
    for (int d = 2; d < s->rank; d++) inner *= s->dim[d];
    return s->rank >= 3 && s->dim[1] > 1 && inner > 1;
}

static bool last(const ot_value *v) { return v && v->layout == OT_CHANNELS_LAST; }

static void set_last(ot_value *v)
{
    if (v && v->role == OT_TEMP && ot_layout_matters(&v->shape)) v->layout = OT_CHANNELS_LAST;
}

/* ---- converting --------------------------------------------------------------- */

/* Axis d of the memory of a channels-last value is logical axis order(d). */
static int order(int d, int rank) { return d == 0 ? 0 : d == rank - 1 ? 1 : d + 1; }

/* A plain copy of v, made once; `plain`: by value id. */
static ot_value *to_plain(ot_graph *g, ot_node *before, ot_value *v, ot_value **plain)
{
    if (plain[v->id]) return plain[v->id];
    ot_piece *p = ot_graph_alloc(g, sizeof *p);
    if (!p) return NULL;
    ot_value_strides(v, p->stride);
    memcpy(p->extent, v->shape.dim, sizeof p->extent);
    ot_node *after = v->producer ? v->producer->next : g->first;
    g->cursor = after ? after : before;
    g->phase = v->producer ? v->producer->phase : before->phase;
    ot_node *n =
        ot_graph_node(g, &ot_op_Copy, v->name, &(ot_copy){ .shape = v->shape, .n = 1, .piece = p }, OT_IN(v), 1);
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (!n) return NULL;
    ot_set(n->out[0], v->dtype, &v->shape);
    return plain[v->id] = n->out[0];
}

/* A channels-last copy of the plain v, at the end of the graph. */
static ot_value *to_last(ot_graph *g, ot_value *v)
{
    ot_piece *p = ot_graph_alloc(g, sizeof *p);
    ot_copy a = { .shape = v->shape, .n = 1, .piece = p };
    int64_t stride[OT_MAX_RANK];
    if (!p) return NULL;
    ot_strides(&v->shape, stride);
    for (int d = 0; d < v->shape.rank; d++) {
        a.shape.dim[d] = p->extent[d] = v->shape.dim[order(d, v->shape.rank)];
        p->stride[d] = stride[order(d, v->shape.rank)];
    }
    g->phase = v->producer ? v->producer->phase : OT_PHASE_BATCH;
    ot_node *n = ot_graph_node(g, &ot_op_Copy, v->name, &a, OT_IN(v), 1);
    g->phase = OT_PHASE_BATCH;
    if (!n) return NULL;
    ot_set(n->out[0], v->dtype, &v->shape);
    n->out[0]->layout = OT_CHANNELS_LAST;
    return n->out[0];
}

/* ---- copies -------------------------------------------------------------------- */

/* Rewrites piece p, whose strides are those of a plain x, for the layout of x and a channels-last output.  false: an
 * axis of the output does not follow a single axis of x. */
static bool rewrite(ot_piece *p, const ot_value *x, int rank)
{
    int64_t plain[OT_MAX_RANK], real[OT_MAX_RANK], src = p->src, at = 0;
    ot_piece q = *p;
    if (x->shape.rank != rank) return false;
    ot_strides(&x->shape, plain);
    ot_value_strides(x, real);
    for (int d = 0; d < rank; d++) {
        int64_t start = plain[d] ? src / plain[d] : 0;
        if (plain[d]) src -= start * plain[d];
        int64_t step = p->extent[d] > 1 && plain[d] ? p->stride[d] / plain[d] : 0;
        if (p->extent[d] > 1 && step * plain[d] != p->stride[d]) return false;
        int64_t end = start + step * (p->extent[d] - 1);
        if (start >= x->shape.dim[d] || end < 0 || end >= x->shape.dim[d]) return false;
        q.stride[d] = step * real[d];
        at += start * real[d];
    }
    q.src = at;
    *p = q;
    return src == 0;
}

static void permute(ot_piece *p, int rank)
{
    ot_piece q = *p;
    for (int d = 0; d < rank; d++) {
        p->stride[d] = q.stride[order(d, rank)];
        p->dst[d] = q.dst[order(d, rank)];
        p->extent[d] = q.extent[order(d, rank)];
    }
}

static bool wants_last(const ot_kernel *k, const ot_node *n, const ot_config *c)
{
    return !k->wants || k->wants(n, c->options.precision != OT_FP32) == OT_CHANNELS_LAST;
}

/* Is y, a result of n, read first by a convolution that wants channels last?  It, or its library, would make such a copy itself, for
 * every product. Pictures of few channels have kernels that read them plain. */
static bool read_by_convolution(const ot_node *n, const ot_value *y, const ot_config *c)
{
    enum { NEAR = 256 /* such values are made where they are read */, FEW = 16 };
    const char *why;
    int seen = 0;
    if (!y || y->shape.rank < 3 || (!c->device && y->shape.dim[1] < FEW)) return false;
    for (const ot_node *k = n->next; k && seen < NEAR; k = k->next, seen++)
        for (int i = 0; i < k->n_in; i++) {
            if (k->in[i] != y) continue;
            const ot_kernel *kernel = k->op->filters && i == 0 ? ot_kernel_for(k, c->device, c->ref_only, &why) : NULL;
            return kernel && kernel->any_layout && wants_last(kernel, k, c);
        }
    return false;
}

/* A Copy of channels-last values, or for a convolution, whose pieces keep their axes makes a channels-last value. */
static bool follow_copy(ot_graph *g, ot_node *n, const ot_config *c)
{
    const ot_copy *a = n->attrs;
    ot_value *y = n->out[0];
    bool any = false;
    int rank = y->shape.rank;
    for (int i = 0; i < n->n_in; i++) any |= last(n->in[i]) && n->in[i]->shape.rank == rank;
    if (!ot_layout_matters(&y->shape) || a->n > 4096 || (!any && !read_by_convolution(n, y, c))) return false;
    ot_piece *p = ot_graph_alloc(g, (size_t)a->n * sizeof *p);
    ot_copy *b = ot_graph_alloc(g, sizeof *b);
    if (!p || !b) return false;
    memcpy(p, a->piece, (size_t)a->n * sizeof *p);
    for (int64_t i = 0; i < a->n; i++) {
        bool empty = false;
        for (int d = 0; d < rank; d++) empty |= p[i].extent[d] == 0;
        if (!empty && last(n->in[p[i].in]) && !rewrite(&p[i], n->in[p[i].in], rank)) return false;
        permute(&p[i], rank);
    }
    *b = *a;
    b->piece = p;
    for (int d = 0; d < rank; d++) b->shape.dim[d] = y->shape.dim[order(d, rank)];
    n->attrs = b;
    set_last(y);
    return true;
}

/* ---- the pass ------------------------------------------------------------------- */

/* Outputs of a kernel that accepts any layout get the layout of its channels-last operands of the same rank. */
static void follow(ot_node *n)
{
    for (int o = 0; o < n->n_out; o++) {
        ot_value *y = n->out[o];
        for (int i = 0; y && i < n->n_in; i++)
            if (last(n->in[i]) && n->in[i]->shape.rank == y->shape.rank && n->in[i]->shape.dim[1] == y->shape.dim[1]) {
                set_last(y);
                break;
            }
    }
}

/* The output of a convolution gets the layout that its kernel prefers. */
static void lay_convolution(ot_node *n, const ot_kernel *k, const ot_config *c)
{
    if (wants_last(k, n, c)) set_last(n->out[0]);
}

/* Of plain operands: their elements are gathered as fast as a Copy would order them. */
static void lay_map(ot_node *n, const ot_config *c)
{
    bool read = false;
    for (int o = 0; o < n->n_out; o++) read |= read_by_convolution(n, n->out[o], c);
    for (int o = 0; read && o < n->n_out; o++) set_last(n->out[o]);
}

static ot_status node_layout(ot_plan *p, ot_node *n, const ot_config *c, ot_value **plain)
{
    ot_graph *g = p->graph;
    const char *why;
    const ot_kernel *k = ot_kernel_for(n, c->device, c->ref_only, &why);
    if (n->op == &ot_op_Copy && follow_copy(g, n, c)) return OT_OK;
    if (k && k->any_layout) {
        if (n->op == &ot_op_Map && !c->device) lay_map(n, c);
        if (!n->op->filters) follow(n);
        else if (n->op->filters <= n->n_in) lay_convolution(n, k, c); /* else: dw gets the layout of the weight */
        return OT_OK;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (!last(n->in[i])) continue;
        n->in[i] = to_plain(g, n, n->in[i], plain);
        if (!n->in[i]) return g->err->status;
    }
    return OT_OK;
}

/* Values assigned to a state get the layout of the state. */
static ot_status assign(ot_graph *g, ot_assign *a, ot_value **plain)
{
    if (last(a->value) == last(a->state) || !ot_layout_matters(&a->value->shape)) return OT_OK;
    a->value = last(a->state) ? to_last(g, a->value) : to_plain(g, NULL, a->value, plain);
    return a->value ? OT_OK : g->err->status;
}

/* Values that the host reads are plain. */
static ot_status plain_ends(ot_plan *p, const ot_config *c, ot_value **plain)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_outputs; i++)
        if (last(g->outputs[i]) && !(g->outputs[i] = to_plain(g, NULL, g->outputs[i], plain))) return g->err->status;
    for (int i = 0; i < p->n_kept; i++)
        if (last(p->kept[i]) && !(p->kept[i] = to_plain(g, NULL, p->kept[i], plain))) return g->err->status;
    for (int i = 0; i < g->n_assigns; i++) OT_TRY(assign(g, &g->assigns[i], plain));
    for (int i = 0; c->want == OT_WANT_GRAD && i < p->n_weights; i++)
        if (last(p->weights[i]->grad) && !(p->weights[i]->grad = to_plain(g, NULL, p->weights[i]->grad, plain)))
            return g->err->status;
    return OT_OK;
}

ot_status ot_pass_layout(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    size_t cap = (size_t)g->n_values + 1; /* only existing values need conversions */
    ot_value **plain = ot_graph_alloc(g, cap * sizeof *plain);
    if (!plain) return g->err->status;
    OT_TRY(ot_weight_layout(p, c));
    for (ot_node *n = g->first; n; n = n->next)
        if (n->graph == g) OT_TRY(node_layout(p, n, c, plain));
    return plain_ends(p, c, plain);
}
