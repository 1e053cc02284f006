/* fuse_attention.c - attention reads q, k and v, and writes y and gradients, with strides: the Copies that split and
 * transpose heads, repeat them for query groups, slice a joint projection or join its gradients are removed.
 *
 * Views and whole single-piece Copies are followed from the operator's inputs back to their source, and from its
 * outputs on to their readers, as long as strides can express the operand and the kernel that computes dense operands
 * takes it there (a library may not).  A Copy that only joins results of one operator is removed too: they are written where
 * they belong in the joint value.
 *
 * Memory  An operand is read inside a tensor of at most MOST times its elements, because that whole tensor stays
 *         live. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/attention.h"
#include "ops/kernels/copy.h"
#include "ops/kernel.h"
#include "runtime/passes/fuse.h"
#include "runtime/passes/recognise.h"

enum { MOST = 4, B = 0, H = 1, RESULTS = 3 };

/* The axes of a Copy with strides on both sides; `from` is dense: row-major. */
typedef struct turn {
    int rank;
    int64_t extent[OT_MAX_RANK], from[OT_MAX_RANK], to[OT_MAX_RANK], src;
} turn;

typedef struct operand {
    ot_value *v;
    ot_attention_lie at;
    int64_t n[4]; /* steps along each axis; heads in groups */
} operand;

/* ---- strides through a Copy --------------------------------------------------------- */

/* Adds an axis; axes are ordered by decreasing stride. */
static void turn_add(turn *t, int64_t extent, int64_t from, int64_t to)
{
    int d = t->rank++;
    for (; d > 0 && t->from[d - 1] < from; d--)
        t->extent[d] = t->extent[d - 1], t->from[d] = t->from[d - 1], t->to[d] = t->to[d - 1];
    t->extent[d] = extent, t->from[d] = from, t->to[d] = to;
}

/* The map from a Copy's output to its input; false: it is not one whole piece. */
static bool turn_back(const ot_node *n, turn *t)
{
    const ot_copy *a = n->attrs;
    const ot_shape *s = &n->out[0]->shape;
    int64_t out[OT_MAX_RANK];
    if (a->n != 1 || !ot_shape_eq(&a->shape, s) || !ot_numel(s)) return false;
    const ot_piece *p = a->piece;
    *t = (turn){ .src = p->src };
    ot_strides(s, out);
    for (int d = 0; d < s->rank; d++) {
        if (p->dst[d] || p->extent[d] != s->dim[d]) return false;
        if (s->dim[d] > 1) turn_add(t, s->dim[d], out[d], p->stride[d]);
    }
    return true;
}

/* The map from the input of a piece to the Copy's output; false: the piece is not all of that input, once. */
static bool turn_on(const ot_node *n, const ot_piece *p, turn *t)
{
    const ot_shape *s = &n->out[0]->shape;
    int64_t out[OT_MAX_RANK], dense = 1;
    if (p->src || !ot_shape_eq(&((const ot_copy *)n->attrs)->shape, s) || !ot_numel(s)) return false;
    *t = (turn){ .src = 0 };
    ot_strides(s, out);
    for (int d = 0; d < s->rank; d++) {
        t->src += p->dst[d] * out[d];
        if (p->extent[d] > 1) turn_add(t, p->extent[d], p->stride[d], out[d]);
    }
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->from[d] != dense) return false;
        dense *= t->extent[d];
    }
    return dense == ot_numel(&n->in[p->in]->shape);
}

/* Do the pieces of a Copy fill its output?  They do not overlap. */
static bool is_filled(const ot_node *n)
{
    const ot_copy *a = n->attrs;
    int64_t all = 0;
    for (int64_t i = 0; i < a->n; i++) {
        int64_t some = 1;
        for (int d = 0; d < a->shape.rank; d++) some *= a->piece[i].extent[d];
        all += some;
    }
    return all == ot_numel(&a->shape);
}

/* Heads over two axes, of which the inner one has stride 0 on the other side, are groups. */
static void find_groups(operand *x, const turn *t)
{
    for (int d = 1; d < t->rank && x->at.heads == 1; d++)
        if (t->from[d] == x->at.stride[H] && !t->to[d] && t->extent[d] < x->n[H] && x->n[H] % t->extent[d] == 0) {
            x->at.heads = t->extent[d];
            x->n[H] /= t->extent[d];
            x->at.stride[H] *= t->extent[d];
        }
}

/* Transfers operand x from one side of t to the other; false: its strides there are not regular. */
static bool follow(operand *x, const turn *t)
{
    operand y = *x;
    int64_t start[OT_MAX_RANK], end[OT_MAX_RANK], rest = x->at.src;
    find_groups(&y, t);
    y.at.src = t->src;
    for (int d = 0; d < t->rank; d++) {
        start[d] = end[d] = rest / t->from[d];
        rest %= t->from[d];
        y.at.src += start[d] * t->to[d];
    }
    if (rest) return false;
    for (int a = 0; a < 4; a++) {
        int64_t s = y.at.stride[a];
        y.at.stride[a] = 0;
        if (s < 0) return false;
        if (y.n[a] == 1) continue;
        for (int d = 0; d < t->rank; d++) {
            int64_t steps = s / t->from[d];
            s %= t->from[d];
            y.at.stride[a] += steps * t->to[d];
            if (steps > t->extent[d]) return false;
            end[d] += steps * (y.n[a] - 1);
        }
        if (s) return false;
    }
    for (int d = 0; d < t->rank; d++)
        if (end[d] >= t->extent[d]) return false; /* a step that is carried to the next axis */
    *x = y;
    return true;
}

/* Follows v back to its source; true: through at least one Copy. */
static bool follow_input(operand *x)
{
    operand at = *x;
    int64_t most = MOST * ot_numel(&x->v->shape);
    bool any = false;
    turn t;
    for (;;) {
        const ot_node *n = at.v->producer;
        if (n && n->op == &ot_op_View) {
            at.v = n->in[0];
        } else if (n && n->op == &ot_op_Copy && turn_back(n, &t) && follow(&at, &t)) {
            at.v = n->in[((const ot_copy *)n->attrs)->piece->in];
            if (ot_numel(&at.v->shape) <= most) *x = at, any = true;
        } else {
            return any;
        }
    }
}

/* ---- nodes --------------------------------------------------------------------------- */

typedef struct fuser {
    ot_graph *g;
    const bool *kept;
    int *readers;     /* by value id */
    ot_node **reader; /* by value id: the last that is no FusedAttentionDx with v as its y */
    ot_node **dx;     /* by value id: the FusedAttentionDx with v as its y */
    const ot_device *device;
} fuser;

static const ot_kernel *kernel_of(const fuser *f, const ot_node *n)
{
    const char *why;
    return ot_kernel_for(n, f->device, false, &why);
}

static ot_status know(fuser *f)
{
    size_t n = (size_t)f->g->n_values + 1;
    f->readers = ot_graph_alloc(f->g, n * sizeof *f->readers);
    f->reader = ot_graph_alloc(f->g, n * sizeof(ot_node *));
    f->dx = ot_graph_alloc(f->g, n * sizeof(ot_node *));
    if (!f->readers || !f->reader || !f->dx) return f->g->err->status;
    for (ot_node *k = f->g->first; k; k = k->next)
        for (int i = 0; i < k->n_in; i++) {
            if (!k->in[i]) continue;
            f->readers[k->in[i]->id]++;
            *(k->op == &ot_op_FusedAttentionDx && i == 4 ? &f->dx[k->in[i]->id] : &f->reader[k->in[i]->id]) = k;
        }
    return OT_OK;
}

/* Does v have this one reader, and at most a FusedAttentionDx beside it? */
static bool alone(const fuser *f, const ot_value *v)
{
    return !f->kept[v->id] && f->reader[v->id] && f->readers[v->id] == 1 + (f->dx[v->id] != NULL);
}

/* Follows the value of n operands to the one computed from it alone; true: through at least one Copy. */
static bool follow_output(const fuser *f, operand *x, int n)
{
    operand at[RESULTS];
    ot_value *v = x->v;
    bool any = false;
    turn t;
    memcpy(at, x, (size_t)n * sizeof *x);
    while (alone(f, v)) {
        ot_node *k = f->reader[v->id];
        bool copy = k->op == &ot_op_Copy && k->n_in == 1 && ((const ot_copy *)k->attrs)->n == 1 &&
                    turn_on(k, ((const ot_copy *)k->attrs)->piece, &t) && is_filled(k);
        if ((!copy && k->op != &ot_op_View) || k->phase != x->v->producer->phase) break;
        for (int i = 0; i < n && copy; i++) copy = follow(&at[i], &t), at[i].v = k->out[0];
        if (!copy && k->op == &ot_op_Copy) break;
        v = k->out[0];
        if (copy) memcpy(x, at, (size_t)n * sizeof *x), any = true;
    }
    return any;
}

/* The attributes of n with operands at positions of their own, as they are now. */
static ot_attention_places *places_of(ot_node *n)
{
    ot_attention *a = ot_graph_alloc(n->graph, sizeof *a);
    ot_attention_places *p = ot_graph_alloc(n->graph, sizeof *p);
    int operands = ot_attention_q(n) ? 5 : 3;
    if (!a || !p) return NULL;
    *a = *(const ot_attention *)n->attrs;
    ot_attention_sizes_of(n, &p->s);
    for (int i = 0; i < operands; i++) p->in[i] = ot_attention_in(n, i);
    for (int i = 0; i < (ot_attention_q(n) ? 3 : 1); i++)
        if ((p->to[i] = ot_attention_to(n, i)) >= 0) p->out[i] = ot_attention_out(n, i), p->shape[i] = n->out[i]->shape;
    a->at = p;
    n->attrs = a;
    return p;
}

static void steps(const ot_attention_places *p, const ot_attention_lie *at, bool queries, bool values, int64_t n[4])
{
    n[B] = p->s.B, n[H] = p->s.H / at->heads, n[2] = queries ? p->s.T : p->s.S, n[3] = values ? p->s.E : p->s.D;
}

/* Sets a position if the kernel that computes n stays the same; false: it would not. */
static bool set_position(const fuser *f, const ot_node *n, ot_attention_lie *at, ot_attention_lie to)
{
    const ot_kernel *best = kernel_of(f, n);
    ot_attention_lie was = *at;
    *at = to;
    if (kernel_of(f, n) == best) return true;
    *at = was;
    return false;
}

static void move_inputs(const fuser *f, ot_node *n, ot_attention_places *p)
{
    int q = ot_attention_q(n);
    for (int i = 0; i < (q ? 5 : 3); i++) {
        operand x = { n->in[i], p->in[i], { 0 } };
        steps(p, &x.at, i == q || i < q || i == 4, i == q + 2 || (q && (i == 0 || i == 4)), x.n);
        if (follow_input(&x) && set_position(f, n, &p->in[i], x.at)) n->in[i] = x.v;
    }
}

/* Result i where it is now. */
static operand result_of(const ot_node *n, const ot_attention_places *p, int i)
{
    bool dx = ot_attention_q(n);
    operand x = { n->out[i], p->out[i], { 0 } };
    steps(p, &x.at, i == 0, dx ? i == 2 : true, x.n);
    return x;
}

/* Removes the nodes that compute `last` from `first`, one from another. */
static void remove_between(const fuser *f, ot_value *first, ot_value *last)
{
    while (last != first) {
        ot_node *maker = last->producer;
        last->producer = NULL;
        last = maker->in[0];
        ot_graph_remove(f->g, maker);
    }
}

/* The node's output i becomes v. */
static void set_output(ot_node *n, ot_attention_places *p, int i, ot_value *v)
{
    n->out[i]->producer = NULL;
    n->out[i] = v;
    v->producer = n;
    v->port = i;
    p->shape[i] = v->shape;
}

static ot_status move_outputs(const fuser *f, ot_node *n, ot_attention_places *p)
{
    for (int i = 0; i < (ot_attention_q(n) ? 3 : 1); i++) {
        ot_value *v = n->out[i];
        if (!v) continue;
        operand x = result_of(n, p, i);
        ot_node *dx = f->dx[v->id];
        ot_attention_lie dense = p->out[i];
        if (!follow_output(f, &x, 1) || !set_position(f, n, &p->out[i], x.at)) continue;
        if (dx) {
            ot_attention_places *its = places_of(dx);
            if (!its) return f->g->err->status;
            if (!set_position(f, dx, &its->in[4], x.at)) {
                p->out[i] = dense;
                continue;
            }
            dx->in[4] = x.v;
        }
        remove_between(f, v, x.v);
        set_output(n, p, i, x.v);
    }
    return OT_OK;
}

/* ---- a joint gradient ------------------------------------------------------------------ */

/* Results of one node, as parts of one value. */
typedef struct joint {
    ot_node *copy; /* that joins them */
    int n, result[RESULTS];
    operand part[RESULTS];
} joint;

static ot_value *behind_views(const fuser *f, ot_value *v, ot_phase phase)
{
    while (alone(f, v) && f->reader[v->id]->op == &ot_op_View && f->reader[v->id]->phase == phase)
        v = f->reader[v->id]->out[0];
    return v;
}

/* Adds the result of n that a piece of the Copy is, and nothing else reads; false: it is none. */
static bool add_part(const fuser *f, const ot_node *n, const ot_attention_places *p, const ot_piece *piece, joint *j)
{
    const ot_value *v = j->copy->in[piece->in];
    turn t;
    for (int i = 0; i < RESULTS; i++) {
        if (!n->out[i] || behind_views(f, n->out[i], n->phase) != v || !alone(f, v)) continue;
        operand *x = &j->part[j->n];
        *x = result_of(n, p, i);
        if (!turn_on(j->copy, piece, &t) || !follow(x, &t)) return false;
        x->v = j->copy->out[0];
        j->result[j->n++] = i;
        return true;
    }
    return false;
}

/* The Copy that only joins results of n, output i among them; false: none. */
static bool find_joint(const fuser *f, const ot_node *n, const ot_attention_places *p, int i, joint *j)
{
    const ot_value *v = n->out[i] ? behind_views(f, n->out[i], n->phase) : NULL;
    ot_node *copy = v && alone(f, v) ? f->reader[v->id] : NULL;
    *j = (joint){ .copy = copy };
    if (!copy || copy->op != &ot_op_Copy || copy->phase != n->phase) return false;
    const ot_copy *a = copy->attrs;
    if (a->n < 2 || a->n > RESULTS || copy->n_in != a->n || !is_filled(copy)) return false;
    for (int64_t k = 0; k < a->n; k++)
        if (!add_part(f, n, p, &a->piece[k], j)) return false;
    return true;
}

/* Results that a Copy joins become parts of its output. */
static void join_outputs(const fuser *f, ot_node *n, ot_attention_places *p)
{
    const ot_kernel *best = kernel_of(f, n);
    joint j;
    bool found = false;
    for (int i = 0; i < RESULTS && !found; i++) found = find_joint(f, n, p, i, &j);
    if (!found) return;
    follow_output(f, j.part, j.n);
    const ot_attention_places was = *p;
    int to = RESULTS;
    for (int k = 0; k < j.n; k++) to = j.result[k] < to ? j.result[k] : to;
    for (int k = 0; k < j.n; k++) p->out[j.result[k]] = j.part[k].at, p->to[j.result[k]] = to;
    if (kernel_of(f, n) != best) {
        *p = was;
        return;
    }
    ot_value *all = j.part[0].v;
    remove_between(f, j.copy->out[0], all);
    j.copy->out[0]->producer = NULL;
    for (int k = 0; k < j.n; k++) {
        ot_value *v = n->out[j.result[k]];
        remove_between(f, v, behind_views(f, v, n->phase));
        if (j.result[k] == to) continue;
        v->producer = NULL;
        n->out[j.result[k]] = NULL;
    }
    set_output(n, p, to, all);
    ot_graph_remove(f->g, j.copy);
}

/* Removes Copies and Views that are no longer read. */
static void drop(const fuser *f)
{
    memset(f->readers, 0, (size_t)f->g->n_values * sizeof *f->readers);
    for (const ot_node *n = f->g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) f->readers[n->in[i]->id]++;
    for (ot_node *n = f->g->last, *prev; n; n = prev) {
        prev = n->prev;
        if ((n->op != &ot_op_Copy && n->op != &ot_op_View) || f->readers[n->out[0]->id] || f->kept[n->out[0]->id])
            continue;
        for (int i = 0; i < n->n_in; i++) f->readers[n->in[i]->id]--;
        ot_graph_remove(f->g, n);
    }
}

ot_status ot_fuse_attention(ot_plan *plan, const ot_config *c, const bool *kept)
{
    fuser f = { .g = plan->graph, .kept = kept, .device = c->device };
    bool any = false;
    if (c->ref_only) return OT_OK; /* the reference stays as simple as the definition */
    for (ot_node *n = f.g->first; n; n = n->next) any |= n->op == &ot_op_FusedAttention;
    if (!any) return OT_OK;
    OT_TRY(know(&f));
    for (ot_node *n = f.g->first; n; n = n->next) {
        if ((n->op != &ot_op_FusedAttention && n->op != &ot_op_FusedAttentionDx) ||
            kernel_of(&f, n) == ot_ref_kernel(n->op))
            continue;
        ot_attention_places *p = places_of(n);
        if (!p) return f.g->err->status;
        move_inputs(&f, n, p);
        OT_TRY(move_outputs(&f, n, p));
        if (ot_attention_q(n)) join_outputs(&f, n, p);
    }
    drop(&f);
    return OT_OK;
}
