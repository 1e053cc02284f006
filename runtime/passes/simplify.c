/* simplify.c - removes dead, repeated and redundant nodes.
 *
 * View   of a View reads the first one's input; one that keeps the shape disappears
 * Map    reads the operand of an expansion, or of a cast to more bits
 * Dot    reads a matrix instead of its transposed copy, cast or not; a transposed result is that of exchanged factors
 * Copy   of a Copy reads the first one's input; a joined or padded value that is transposed is joined of transposed parts
 * Sum    of padded parts is one Copy; gathered rows are added to another gradient in place
 * Loss   a cross-entropy and its gradient are one node
 * All    nodes equal in operator, attributes and inputs become one; what nothing reads is removed */
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/copy.h"
#include "ops/kernels/crossentropy.h"
#include "ops/kernels/dot.h"
#include "ops/kernels/map.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/take.h"
#include "ops/kernels/view.h"
#include "ops/op.h"
#include "runtime/passes/passes.h"

/* The replacement of v: replacements are kept in `now` and resolved when inputs are read, so that the pass stays
 * linear. */
static ot_value *resolve(ot_value **now, ot_value *v)
{
    while (v && now[v->id] && now[v->id] != v) v = now[v->id];
    return v;
}

static void resolve_all(ot_plan *p, ot_value **now)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_outputs; i++) g->outputs[i] = resolve(now, g->outputs[i]);
    for (int i = 0; i < g->n_assigns; i++) g->assigns[i].value = resolve(now, g->assigns[i].value);
    for (int i = 0; i < p->n_kept; i++) p->kept[i] = resolve(now, p->kept[i]);
    for (int i = 0; i < p->n_weights; i++) p->weights[i]->grad = resolve(now, p->weights[i]->grad);
    ot_value **fixed[] = { &p->loss, &p->grad_norm, &p->correct, &p->counted, &p->divisor };
    for (int i = 0; i < OT_LEN(fixed); i++) *fixed[i] = resolve(now, *fixed[i]);
}

/* A View of a View reads the first one's input; one that keeps the shape is its input. */
static void shorten_view(ot_node *n, ot_value **now)
{
    if (n->op != &ot_op_View) return;
    ot_value *x = n->in[0];
    while (x->producer && x->producer->op == &ot_op_View && x->producer->phase == n->phase) x = x->producer->in[0];
    n->in[0] = x;
    if (ot_shape_eq(&x->shape, &n->out[0]->shape) && x->dtype == n->out[0]->dtype) now[n->out[0]->id] = x;
}

/* ---- expanding for a Map ------------------------------------------------------ */

/* Is c an expansion of its input?  *small: the input's shape, with ones at repeated axes. */
static bool is_expand(const ot_node *c, ot_shape *small)
{
    const ot_copy *a = c->attrs;
    if (c->op != &ot_op_Copy || a->n != 1 || a->piece[0].src) return false;
    const ot_piece *p = a->piece;
    int64_t dense = 1;
    *small = a->shape;
    for (int d = a->shape.rank - 1; d >= 0; d--) {
        if (p->dst[d] || p->extent[d] != a->shape.dim[d]) return false;
        if (p->extent[d] == 1) continue;
        if (p->stride[d] == 0) small->dim[d] = 1;
        else if (p->stride[d] != dense) return false;
        else dense *= p->extent[d];
    }
    return dense == ot_numel(&c->in[0]->shape) && dense < ot_numel(&a->shape);
}

/* A Map broadcasts by itself: it reads the operand of an expansion. */
static void read_unexpanded(ot_graph *g, ot_node *n)
{
    if (n->op != &ot_op_Map || !n->out[0]) return;
    for (int i = 0; i < n->n_in; i++) {
        ot_shape small, all;
        if (!n->in[i]->producer || !is_expand(n->in[i]->producer, &small)) continue;
        all = small; /* the other operands must still span the result */
        for (int k = 0; k < n->n_in; k++)
            if (k != i && !ot_broadcast(&all, &n->in[k]->shape, &all)) return;
        if (!ot_shape_eq(&all, &n->out[0]->shape)) continue;
        ot_build b = { .graph = g, .node = n };
        g->cursor = n;
        g->phase = n->phase;
        ot_value *x = ot_view(&b, n->in[i]->producer->in[0], &small);
        g->cursor = NULL;
        g->phase = OT_PHASE_BATCH;
        if (x) n->in[i] = x;
    }
}

/* A Map widens what it reads by itself: it reads the operand of a cast to more bits. */
static void read_uncast(ot_node *n)
{
    for (int i = 0; n->op == &ot_op_Map && i < n->n_in; i++) {
        ot_value *from = ot_cast_from(n->in[i]);
        if (from && n->in[i]->producer->phase == n->phase && ot_is_float(n->in[i]->dtype) &&
            ot_dtype_bits(from->dtype) >= 16 && ot_dtype_bits(from->dtype) < ot_dtype_bits(n->in[i]->dtype))
            n->in[i] = from;
    }
}

/* ---- transposing for a Dot ------------------------------------------------------ */

/* Is n a Copy that only swaps the last two axes of its input? */
static bool is_swap(const ot_node *n)
{
    const ot_copy *a = n->attrs;
    int64_t step[OT_MAX_RANK];
    if (n->op != &ot_op_Copy || n->n_in != 1 || a->n != 1 || a->piece->src) return false;
    const ot_shape *x = &n->in[0]->shape, *y = &a->shape;
    if (y->rank < 2 || x->rank != y->rank) return false;
    ot_strides(x, step);
    for (int d = 0; d < y->rank; d++) {
        int from = d < y->rank - 2 ? d : 2 * y->rank - 3 - d;
        if (a->piece->dst[d] || a->piece->extent[d] != y->dim[d] || y->dim[d] != x->dim[from]) return false;
        if (y->dim[d] > 1 && a->piece->stride[d] != step[from]) return false;
    }
    return true;
}

static ot_dot *own_attrs(ot_graph *g, ot_node *n)
{
    ot_dot *a = ot_graph_alloc(g, sizeof *a);
    if (a) n->attrs = memcpy(a, n->attrs, sizeof *a);
    return a;
}

/* Two nodes in a row change places: what each computes stays, but for the type and shape of the value between them. */
static void exchange(ot_node *first, ot_node *second)
{
    const ot_node was = *first;
    ot_value *between = first->out[0];
    ot_shape shape = second->op == &ot_op_Copy ? second->out[0]->shape : first->in[0]->shape;
    ot_dtype type = second->op == &ot_op_Copy ? first->in[0]->dtype : second->out[0]->dtype;
    first->op = second->op, first->attrs = second->attrs, first->name = second->name, first->made = second->made;
    second->op = was.op, second->attrs = was.attrs, second->name = was.name, second->made = was.made;
    between->shape = shape, between->dtype = type;
}

/* Between a transposed copy and a cast the value has the narrower type: fewer bytes are moved, and a Dot behind or before
 * them meets the copy. */
static void swap_narrow(ot_node *n, const int *uses)
{
    ot_node *before = n->n_in ? n->in[0]->producer : NULL;
    if (!before || before->phase != n->phase || !n->out[0] || uses[n->in[0]->id] > 1) return;
    const ot_value *cast = is_swap(n) ? n->in[0] : is_swap(before) ? n->out[0] : NULL;
    const ot_value *from = cast ? ot_cast_from(cast) : NULL;
    if (!from || !ot_is_float(cast->dtype)) return;
    if (cast == n->in[0] ? ot_dtype_bits(from->dtype) < ot_dtype_bits(cast->dtype)
                         : ot_dtype_bits(cast->dtype) < ot_dtype_bits(from->dtype))
        exchange(before, n);
}

/* A Dot with op(x) replaces a transposed copy of x. */
static void read_unswapped(ot_graph *g, ot_node *n)
{
    for (int i = 0; i < 2 && n->op == &ot_op_Dot; i++) {
        ot_dot *a;
        if (!n->in[i]->producer || !is_swap(n->in[i]->producer) || !(a = own_attrs(g, n))) continue;
        n->in[i] = n->in[i]->producer->in[0];
        *(i ? &a->tb : &a->ta) ^= 1;
    }
}

/* (op(a) . op(b))^T = op(b)^T . op(a)^T: the Copy becomes a Dot, and the Dot before it is not needed any more. */
static void make_swapped(ot_graph *g, ot_node *n, const int *uses)
{
    const ot_node *dot = is_swap(n) ? n->in[0]->producer : NULL;
    if (!dot || dot->op != &ot_op_Dot || dot->phase != n->phase || uses[n->in[0]->id] > 1 ||
        (dot->n_in > 2 && dot->in[2]))
        return;
    const ot_dot *t = dot->attrs;
    ot_dot *a = ot_graph_alloc(g, sizeof *a);
    ot_value **in = ot_graph_alloc(g, 2 * sizeof *in);
    if (!a || !in) return;
    *a = (ot_dot){ .ta = !t->tb, .tb = !t->ta };
    in[0] = dot->in[1];
    in[1] = dot->in[0];
    n->op = &ot_op_Dot;
    n->attrs = a;
    n->in = in;
    n->n_in = 2;
}

/* ---- copies of copies ------------------------------------------------------------- */

/* The Copy that makes v, for this reader only; NULL: none. */
static const ot_node *copied_for(const ot_value *v, const ot_node *reader, const int *uses)
{
    const ot_node *n = v ? v->producer : NULL;
    bool fits = n && n->op == &ot_op_Copy && n->phase == reader->phase && uses[v->id] == 1 && n->out[0] == v;
    return fits ? n : NULL;
}

/* Is the Copy one piece, all of its output? */
static bool is_whole(const ot_copy *a)
{
    bool whole = a->n == 1;
    for (int d = 0; d < a->shape.rank && whole; d++)
        whole = !a->piece->dst[d] && a->piece->extent[d] == a->shape.dim[d];
    return whole;
}

/* Makes p, which reads a value of that shape, read where the whole piece `before` copied it from; false: strides cannot say it. */
static bool read_through(ot_piece *p, int rank, const ot_shape *shape, const ot_piece *before)
{
    int axis[OT_MAX_RANK];
    int64_t step[OT_MAX_RANK], at[OT_MAX_RANK];
    if (!ot_piece_axes(p, rank, shape, axis, step, at)) return false;
    p->src = before->src;
    for (int a = 0; a < shape->rank; a++) p->src += at[a] * before->stride[a];
    for (int d = 0; d < rank; d++) p->stride[d] = axis[d] < 0 ? 0 : step[d] * before->stride[axis[d]];
    return true;
}

static ot_piece *own_pieces(ot_graph *g, const ot_copy *a)
{
    ot_piece *p = ot_graph_alloc(g, (size_t)a->n * sizeof *p);
    return p ? memcpy(p, a->piece, (size_t)a->n * sizeof *p) : NULL;
}

static void set_copy(ot_graph *g, ot_node *n, const ot_copy *a)
{
    ot_copy *own = ot_graph_alloc(g, sizeof *own);
    if (!own) return;
    *own = *a;
    n->attrs = own;
}

/* A Copy of parts of a transposed, sliced or expanded value reads the parts where that was copied from. */
static void read_uncopied(ot_graph *g, ot_node *n, const int *uses)
{
    ot_piece *piece = NULL; /* made once: a join of thousands of slices has as many pieces */
    for (int i = 0; n->op == &ot_op_Copy && i < n->n_in; i++) {
        const ot_copy *a = n->attrs;
        const ot_node *c = copied_for(n->in[i], n, uses);
        if (!c || !is_whole(c->attrs)) continue;
        const ot_piece *from = ((const ot_copy *)c->attrs)->piece;
        bool ok = true;
        for (int64_t k = 0; k < a->n && ok; k++) {
            ot_piece one = a->piece[k];
            ok = one.in != i || read_through(&one, a->shape.rank, &n->in[i]->shape, from);
        }
        if (!ok) continue;
        if (!piece) {
            piece = own_pieces(g, a);
            ot_value **in = piece ? ot_graph_alloc(g, (size_t)n->n_in * sizeof(ot_value *)) : NULL;
            if (!in) return;
            memcpy(in, n->in, (size_t)n->n_in * sizeof(ot_value *));
            n->in = in;
            set_copy(g, n, &(ot_copy){ a->shape, a->fill, a->n, piece });
        }
        for (int64_t k = 0; k < a->n; k++)
            if (piece[k].in == i) read_through(&piece[k], a->shape.rank, &n->in[i]->shape, from);
        n->in[i] = c->in[0];
    }
}

/* Moves p, a piece of the value that a transpose reads, to where the transpose puts it; axis: of the value, by axis of the result. */
static void transpose_piece(ot_piece *p, int rank, const int *axis)
{
    const ot_piece was = *p;
    for (int d = 0; d < rank; d++) {
        int a = axis[d];
        p->dst[d] = a < 0 ? 0 : was.dst[a];
        p->extent[d] = a < 0 ? 1 : was.extent[a];
        p->stride[d] = a < 0 ? 0 : was.stride[a];
    }
}

static bool is_empty(const ot_piece *p, int rank)
{
    for (int d = 0; d < rank; d++)
        if (!p->extent[d]) return true;
    return false;
}

/* A transposed value that was joined of parts, or padded, is joined of transposed parts. */
static void join_transposed(ot_graph *g, ot_node *n, const int *uses)
{
    const ot_node *c = n->op == &ot_op_Copy && n->n_in == 1 ? copied_for(n->in[0], n, uses) : NULL;
    const ot_copy *a = n->attrs, *parts = c ? c->attrs : NULL;
    int axis[OT_MAX_RANK];
    int64_t step[OT_MAX_RANK], at[OT_MAX_RANK];
    if (!c || !is_whole(a) || is_whole(parts) || ot_numel(&a->shape) != ot_numel(&parts->shape) ||
        !ot_piece_axes(a->piece, a->shape.rank, &n->in[0]->shape, axis, step, at))
        return;
    for (int d = 0; d < a->shape.rank; d++)
        if (axis[d] < 0 ? a->shape.dim[d] != 1 : step[d] != 1 || at[axis[d]]) return;
    ot_piece *piece = own_pieces(g, parts);
    if (!piece) return;
    for (int64_t k = 0; k < parts->n; k++) {
        if (is_empty(&piece[k], parts->shape.rank)) return;
        transpose_piece(&piece[k], a->shape.rank, axis);
    }
    n->in = c->in;
    n->n_in = c->n_in;
    set_copy(g, n, &(ot_copy){ a->shape, parts->fill, parts->n, piece });
}

/* ---- sums of parts ---------------------------------------------------------------- */

static bool is_sum(const ot_node *n)
{
    const ot_program *m = n->attrs;
    return n->op == &ot_op_Map && m->n_inst == 1 && m->inst[0].row == OT_FN_Add && n->n_in == 2 && n->n_out == 1;
}

enum { MOST_PARTS = 128 };

static bool are_apart(const ot_piece *x, const ot_piece *y, int rank)
{
    for (int d = 0; d < rank; d++)
        if (x->dst[d] + x->extent[d] <= y->dst[d] || y->dst[d] + y->extent[d] <= x->dst[d]) return true;
    return false;
}

static bool are_all_apart(const ot_copy *x, const ot_copy *y)
{
    for (int64_t i = 0; i < x->n; i++)
        for (int64_t k = 0; k < y->n; k++)
            if (!are_apart(&x->piece[i], &y->piece[k], x->shape.rank)) return false;
    return true;
}

/* Is v zeros around parts of other values, for this reader only? */
static bool is_padded(const ot_value *v, const ot_node *reader, const int *uses)
{
    const ot_node *n = v->producer;
    return n && n->op == &ot_op_Copy && n->phase == reader->phase && uses[v->id] == 1 &&
           ((const ot_copy *)n->attrs)->fill == 0 && v->dtype == reader->out[0]->dtype &&
           ot_shape_eq(&v->shape, &reader->out[0]->shape);
}

/* The gradients of the parts of a Split or of Slices, each padded to the whole, are added: the sum is one Copy of all parts. */
static void join_parts(ot_graph *g, ot_node *n, const int *uses)
{
    if (!is_sum(n) || n->in[0] == n->in[1] || !is_padded(n->in[0], n, uses) || !is_padded(n->in[1], n, uses)) return;
    const ot_node *x = n->in[0]->producer, *y = n->in[1]->producer;
    const ot_copy *a = x->attrs, *c = y->attrs;
    if (a->n + c->n > MOST_PARTS || !are_all_apart(a, c)) return;
    ot_copy *all = ot_graph_alloc(g, sizeof *all);
    ot_piece *piece = ot_graph_alloc(g, (size_t)(a->n + c->n) * sizeof *piece);
    ot_value **in = ot_graph_alloc(g, (size_t)(x->n_in + y->n_in) * sizeof(ot_value *));
    if (!all || !piece || !in) return;
    memcpy(piece, a->piece, (size_t)a->n * sizeof *piece);
    memcpy(piece + a->n, c->piece, (size_t)c->n * sizeof *piece);
    for (int64_t i = a->n; i < a->n + c->n; i++) piece[i].in += x->n_in;
    memcpy(in, x->in, (size_t)x->n_in * sizeof(ot_value *));
    memcpy(in + x->n_in, y->in, (size_t)y->n_in * sizeof(ot_value *));
    *all = (ot_copy){ a->shape, 0, a->n + c->n, piece };
    n->op = &ot_op_Copy;
    n->attrs = all;
    n->in = in;
    n->n_in = x->n_in + y->n_in;
}

/* ---- sums with gathered rows ------------------------------------------------------------ */

/* Is v the gradient of gathered rows, for this reader only? */
static bool is_scattered(const ot_value *v, const ot_node *reader, const int *uses)
{
    const ot_node *n = v->producer, *y = reader;
    return n && n->op == &ot_op_TakeDx && n->phase == y->phase && uses[v->id] == 1 &&
           !((const ot_take_dx *)n->attrs)->axis && ot_is_float(v->dtype) && ot_dtype_bits(v->dtype) >= 32 &&
           v->dtype == y->out[0]->dtype && ot_shape_eq(&v->shape, &y->out[0]->shape);
}

/* The gradient of a table that has another use too, as a tied embedding has: rows are added to the other gradient where they
 * belong, instead of to zeros that are added to it then. */
static void add_rows(ot_graph *g, ot_node *n, const int *uses)
{
    int at = !is_sum(n) ? -1 : is_scattered(n->in[1], n, uses) ? 1 : is_scattered(n->in[0], n, uses) ? 0 : -1;
    if (at < 0 || n->in[0] == n->in[1] || !ot_shape_eq(&n->in[!at]->shape, &n->out[0]->shape)) return;
    const ot_node *rows = n->in[at]->producer;
    const ot_shape *s = &n->out[0]->shape;
    int64_t m = ot_numel(&rows->in[1]->shape), width = 1;
    for (int d = 1; d < s->rank; d++) width *= s->dim[d];
    ot_build b = { .graph = g, .node = n };
    ot_flat_index of = { .kind = OT_FLAT_ALONG, .x = { 1, { s->dim[0] } } };
    ot_view_attrs *a = ot_graph_alloc(g, sizeof *a);
    ot_value **in = ot_graph_alloc(g, sizeof *in);
    g->cursor = n;
    g->phase = n->phase;
    ot_value *base = ot_as_matrix(&b, ot_cast(&b, n->in[!at], n->out[0]->dtype), s->dim[0], width);
    ot_value *place = ot_emit(&b, &ot_op_FlatIndex, &of, OT_IN(ot_as_list(&b, rows->in[1], m)));
    ot_value *sum = ot_emit(&b, &ot_op_Scatter, &(ot_scatter){ OT_SCATTER_ADD },
                            OT_IN(base, place, ot_as_matrix(&b, rows->in[0], m, width)));
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (!sum || !a || !in) return;
    *a = (ot_view_attrs){ *s };
    in[0] = sum;
    n->op = &ot_op_View;
    n->attrs = a;
    n->in = in;
    n->n_in = 1;
}

/* ---- a loss and its gradient -------------------------------------------------------- */

static bool is_loss_of(const ot_node *loss, const ot_node *dx, const int *uses)
{
    bool logp = loss->n_out > 1 && loss->out[1] && uses[loss->out[1]->id];
    return loss->op == &ot_op_CrossEntropy && loss->phase == dx->phase && !logp && loss->out[0] &&
           loss->n_in + 1 == dx->n_in && !memcmp(loss->in, dx->in + 1, (size_t)loss->n_in * sizeof *loss->in) &&
           !memcmp(loss->attrs, dx->attrs, dx->op->attr_size);
}

static void move(ot_graph *g, ot_node *n, ot_node *to)
{
    ot_graph_remove(g, n);
    ot_graph_link(g, n, to);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) n->out[i]->producer = n;
}

/* Moves dx in front of loss, with what it needs from between them; false: that depends on the loss. */
static bool move_up(ot_graph *g, ot_node *loss, ot_node *dx)
{
    for (ot_node *k = loss; k != dx->next; k = k->next)
        for (int i = 0; i < k->n_out; i++)
            if (k->out[i]) k->out[i]->mark = k == dx;
    for (ot_node *k = dx; k != loss; k = k->prev) {
        bool needed = false;
        for (int i = 0; i < k->n_out; i++) needed = needed || (k->out[i] && k->out[i]->mark);
        for (int i = 0; i < k->n_in && needed; i++)
            if (k->in[i]) k->in[i]->mark = true;
        k->mark = needed;
    }
    if (loss->out[0]->mark) return false;
    for (ot_node *k = loss->next, *end = dx->next, *next; k != end; k = next) {
        next = k->next;
        if (k->mark) move(g, k, loss);
    }
    return true;
}

/* The gradient's node computes the loss too: at its place if nothing before it reads the loss, else at that of the loss,
 * unless the gradient depends on its value: logits are then read twice. */
static bool join_loss(ot_graph *g, ot_node *loss, ot_node *dx)
{
    bool down = true;
    ot_value **out = ot_graph_alloc(g, 2 * sizeof *out);
    for (const ot_node *k = loss->next; k != dx; k = k->next)
        for (int i = 0; i < k->n_in; i++) down = down && k->in[i] != loss->out[0];
    if (!out || (!down && !move_up(g, loss, dx))) return false;
    ot_graph_remove(g, loss);
    out[0] = dx->out[0], out[1] = loss->out[0];
    out[1]->producer = dx, out[1]->port = 1;
    dx->out = out;
    dx->n_out = 2;
    return true;
}

static void join_losses(ot_graph *g, const int *uses)
{
    bool joined = false;
    for (ot_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->op != &ot_op_CrossEntropy) continue;
        for (ot_node *dx = n->next; dx; dx = dx->next) {
            if (dx->op != &ot_op_CrossEntropyDx || dx->n_out > 1 || !uses[dx->out[0]->id] || !is_loss_of(n, dx, uses))
                continue;
            joined |= join_loss(g, n, dx);
            break;
        }
    }
    for (ot_node *n = g->first; n && joined; n = n->next) /* what reads the loss is of the backward part now */
        for (int i = 0; i < n->n_in; i++) {
            const ot_node *maker = n->in[i] ? n->in[i]->producer : NULL;
            if (maker && maker->stage > n->stage) n->stage = maker->stage;
        }
}

/* Numbers of readers by value id; malloc'ed, NULL: no memory. */
static int *count_uses(const ot_plan *p)
{
    const ot_graph *g = p->graph;
    int *uses = calloc((size_t)g->n_values + 1, sizeof *uses);
    if (!uses) return NULL;
    for (const ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) uses[n->in[i]->id]++;
    for (int i = 0; i < g->n_outputs; i++) uses[g->outputs[i]->id]++;
    for (int i = 0; i < g->n_assigns; i++) uses[g->assigns[i].value->id]++;
    for (int i = 0; i < p->n_kept; i++) uses[p->kept[i]->id]++;
    for (int i = 0; i < p->n_weights; i++)
        if (p->weights[i]->grad) uses[p->weights[i]->grad->id]++;
    return uses;
}

static ot_status fold(ot_plan *p)
{
    ot_graph *g = p->graph;
    int *uses = count_uses(p);
    if (!uses) return ot_fail(g->err, OT_E_NOMEM, "no memory to simplify the graph");
    for (ot_node *n = g->first; n; n = n->next) swap_narrow(n, uses);
    for (ot_node *n = g->first; n; n = n->next) {
        read_unswapped(g, n);
        make_swapped(g, n, uses);
        read_uncopied(g, n, uses);
        join_transposed(g, n, uses);
        join_parts(g, n, uses);
        read_uncast(n);
        add_rows(g, n, uses);
    }
    join_losses(g, uses);
    free(uses);
    return g->err->status;
}

/* ---- equal nodes ----------------------------------------------------------- */

static bool plain_attrs(const ot_node *n) /* can attributes be compared as bytes? */
{
    for (const ot_attr *a = n->op->attrs; a && a->name; a++)
        if (a->kind != OT_INT && a->kind != OT_FLOAT && a->kind != OT_ENUM) return false;
    return true;
}

static bool same_pieces(const ot_node *a, const ot_node *b)
{
    const ot_copy *x = a->attrs, *y = b->attrs;
    return ot_shape_eq(&x->shape, &y->shape) && x->fill == y->fill && x->n == y->n &&
           (!x->n || !memcmp(x->piece, y->piece, (size_t)x->n * sizeof *x->piece));
}

static bool same(const ot_node *a, const ot_node *b)
{
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out || a->phase != b->phase) return false;
    if (memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in)) return false;
    for (int i = 0; i < a->n_out; i++)
        if (!a->out[i] != !b->out[i]) return false;
    if (a->op == &ot_op_Copy || a->op == &ot_op_CopyDx) return same_pieces(a, b);
    if (!a->op->attr_size) return true;
    size_t bytes = ot_attr_bytes(a->op, a->attrs);
    return bytes == ot_attr_bytes(b->op, b->attrs) && !memcmp(a->attrs, b->attrs, bytes);
}

static uint64_t mixed(uint64_t h, uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u; }

/* Slices of one value differ only in their pieces. */
static uint64_t hash(const ot_node *n)
{
    uint64_t h = (uintptr_t)n->op;
    for (int i = 0; i < n->n_in; i++) h = mixed(h, (uintptr_t)n->in[i]);
    if (n->op == &ot_op_Copy || n->op == &ot_op_CopyDx) {
        const ot_copy *a = n->attrs;
        h = mixed(h, (uint64_t)a->n);
        if (a->n) h = mixed(h, (uint64_t)a->piece[0].src);
        for (int d = 0; d < a->shape.rank && a->n; d++) h = mixed(h, (uint64_t)a->piece[0].dst[d]);
    }
    return h ^ h >> 29;
}

static ot_status merge_equal(ot_plan *p, ot_value **now)
{
    ot_graph *g = p->graph;
    size_t cap = 64;
    while (cap < 2 * (size_t)g->n_nodes) cap *= 2;
    ot_node **seen = calloc(cap, sizeof *seen);
    if (!seen) return ot_fail(g->err, OT_E_NOMEM, "no memory to simplify the graph");
    for (ot_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->n_in; i++) n->in[i] = resolve(now, n->in[i]);
        shorten_view(n, now);
        if (n->op->flags & OT_RANDOM || !plain_attrs(n)) continue;
        size_t at = hash(n) & (cap - 1);
        while (seen[at] && !same(seen[at], n)) at = (at + 1) & (cap - 1);
        if (!seen[at]) seen[at] = n;
        else
            for (int i = 0; i < n->n_out; i++)
                if (n->out[i]) now[n->out[i]->id] = seen[at]->out[i];
    }
    free(seen);
    return OT_OK;
}

/* Leaves out results that nothing reads, of operators that may do without. */
static void drop_unread(ot_plan *p)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    for (const ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) n->in[i]->mark = 1;
    for (int i = 0; i < p->n_kept; i++) p->kept[i]->mark = 1;
    for (int i = 0; i < g->n_outputs; i++) g->outputs[i]->mark = 1;
    for (int i = 0; i < g->n_assigns; i++) g->assigns[i].value->mark = 1;
    for (ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_out && i < 32; i++) {
            if (!(n->op->spare >> i & 1) || !n->out[i] || n->out[i]->mark) continue;
            n->out[i]->producer = NULL;
            n->out[i] = NULL;
        }
}

ot_status ot_pass_simplify(ot_plan *p, const ot_config *c)
{
    (void)c;
    for (ot_node *n = p->graph->first; n; n = n->next) read_unexpanded(p->graph, n);
    OT_TRY(fold(p));
    ot_value **now = calloc((size_t)p->graph->n_values + 1, sizeof *now);
    if (!now) return ot_fail(p->graph->err, OT_E_NOMEM, "no memory to simplify the graph");
    ot_status s = merge_equal(p, now);
    resolve_all(p, now);
    free(now);
    ot_prune(p);
    drop_unread(p);
    return s;
}
