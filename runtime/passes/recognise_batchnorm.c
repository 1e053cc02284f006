/* recognise_batchnorm.c - a decomposed BatchNormalization with stored statistics becomes one BatchNormalization.
 *
 *     (x - m) g / sqrt(v + epsilon) + b       x (g r) + (b - m (g r)) with r = 1 / sqrt(v + epsilon)
 *
 * and algebraically equal forms: the arithmetic between x and the result is expanded into products of x and parameters,
 * which must be x r g, - m r g and b, g and b being optional.  Parameters have one value per channel, in any shape with
 * other axes of one.  The channels are axis 1 of x, or its last one, whose elements a Flatten then makes rows.
 *
 * Runs before initializers are classified: m and v are statistics, as with the operator, and options such as --bn
 * apply.  The momentum, which the decomposed form does not contain, is ONNX's default. PyTorch exports a BatchNorm as
 * the operator in every mode.  A decomposed one with the names of its parts, in which a factor and a shift are computed
 * before they are combined with x, is a frozen one of torchvision or a detector, whose scale and bias are buffers.  Not
 * recognised: an m or v that the file lists as a parameter; statistics with other readers; a factor and a shift that
 * the exporter folded, which are ordinary parameters. */
#include <limits.h>
#include <string.h>

#include "ops/kernels/batchnorm.h"
#include "runtime/passes/recognise.h"

/* ---- sums of products ---------------------------------------------------------------- */

enum {
    MOST_LEAVES = 4,
    INVERSE = 8,
    X = 16,
    MOST_FACTORS = 5,
    MOST_PRODUCTS = 4,
    MOST_NODES = 40,
    MOST_CHAIN = 6,
    MOST_DEPTH = 12
};

/* c times factors, in ascending order: the number of a leaf, INVERSE + that of the leaf v for 1 / sqrt(v + epsilon),
 * or X. */
typedef struct product {
    double c;
    int n, factor[MOST_FACTORS];
} product;

typedef struct sum {
    int n;
    product p[MOST_PRODUCTS];
    ot_shape shape;
} sum;

typedef struct pieces {
    int n_leaves, n_nodes;
    ot_value *leaf[MOST_LEAVES];     /* tensors of the file */
    const ot_node *node[MOST_NODES]; /* nodes that compute with them; the last computed first */
    int64_t channels;                /* 0: unknown */
    double epsilon[MOST_LEAVES];
    int behind; /* number of axes of x after the channels; -1: unknown */
    int rank;   /* the highest rank of a parameter combined with x */
} pieces;

/* A BatchNormalization: its operands and its nodes. */
typedef struct norm {
    pieces with;
    ot_node *last;
    ot_value *x, *scale, *bias, *mean, *var;
    double epsilon;
    bool ahead; /* x times a factor, then plus a shift, both computed before */
    bool refused;
} norm;

static bool times(const sum *a, const sum *b, sum *y)
{
    sum s = { .shape = y->shape };
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            const product *p = &a->p[i], *q = &b->p[k];
            if (s.n == MOST_PRODUCTS || p->n + q->n > MOST_FACTORS) return false;
            product *r = &s.p[s.n++];
            *r = *p;
            r->c *= q->c;
            for (int j = 0; j < q->n; j++) {
                int at = r->n++;
                for (; at > 0 && r->factor[at - 1] > q->factor[j]; at--) r->factor[at] = r->factor[at - 1];
                r->factor[at] = q->factor[j];
            }
        }
    *y = s;
    return true;
}

static bool plus(const sum *a, const sum *b, double sign, sum *y)
{
    sum s = *a;
    if (a->n + b->n > MOST_PRODUCTS) return false;
    s.shape = y->shape;
    for (int i = 0; i < b->n; i++) {
        s.p[s.n] = b->p[i];
        s.p[s.n++].c *= sign;
    }
    *y = s;
    return true;
}

static sum one(double c, int factor)
{
    return (sum){ .n = 1, .p = { { .c = c, .n = factor >= 0, .factor = { factor } } } };
}

/* ---- what parameters alone give --------------------------------------------------------- */

/* A constant of one element, and its converted copies. */
static const ot_value *number(const ot_value *v, double *x)
{
    while (v->producer && (v->producer->op == &ot_op_Cast || v->producer->op == &ot_op_Identity))
        v = v->producer->in[0];
    return ot_recognise_scalar(v, x) && v->said != OT_SAID_PARAMETER ? v : NULL;
}

/* Does v have one value per channel, or a single one? */
static bool per_channel(pieces *s, const ot_shape *shape)
{
    int64_t n = ot_numel(shape);
    if (n == 1) return true;
    if (!s->channels) s->channels = n;
    for (int d = 0; d < shape->rank; d++)
        if (shape->dim[d] != 1 && shape->dim[d] != n) return false;
    return n == s->channels;
}

static bool joined(pieces *s, const ot_shape *a, const ot_shape *b, ot_shape *y)
{
    return ot_broadcast(a, b, y) && per_channel(s, y);
}

/* A list of integers: a constant, or a concatenation of constants.  Its length; -1: it is no such list. */
static int list_of(const ot_value *v, int64_t *list, int n)
{
    if (!v) return -1;
    if (ot_is(v->producer, &ot_op_Concat)) {
        for (int i = 0; i < v->producer->n_in && n >= 0; i++)
            n = v->producer->in[i] && ot_is_const(v->producer->in[i]) ? list_of(v->producer->in[i], list, n) : -1;
        return n;
    }
    if (!ot_is_const(v) || !ot_is_int(v->dtype) || n + ot_numel(&v->shape) > OT_MAX_RANK) return -1;
    for (int64_t i = 0; i < ot_numel(&v->shape); i++) list[n++] = ot_get_i64(v->data, v->dtype, i);
    return n;
}

/* The shape that n, which only inserts or moves axes of one element, gives to x. */
static bool moved_shape(const ot_node *n, const ot_shape *x, ot_shape *y)
{
    int64_t to[OT_MAX_RANK];
    bool gone[OT_MAX_RANK] = { false };
    int at, n_to;
    if (n->op == &ot_op_Identity) {
        *y = *x;
        return true;
    }
    if (n->n_in < 2 || (n_to = list_of(n->in[1], to, 0)) < 0) return false;
    *y = (ot_shape){ .rank = n->op == &ot_op_Reshape     ? n_to
                             : n->op == &ot_op_Unsqueeze ? x->rank + n_to
                                                         : x->rank - n_to };
    if (y->rank < 0 || y->rank > OT_MAX_RANK) return false;
    if (n->op == &ot_op_Reshape) {
        for (int d = 0; d < n_to; d++) y->dim[d] = to[d] == 1 ? 1 : ot_numel(x);
        return ot_numel(y) == ot_numel(x);
    }
    bool more = n->op == &ot_op_Unsqueeze;
    for (int i = 0; i < n_to; i++) {
        if (!ot_axis(to[i], more ? y->rank : x->rank, &at) || gone[at]) return false;
        gone[at] = true;
    }
    for (int d = 0, e = 0; d < (more ? y->rank : x->rank); d++) {
        if (!gone[d]) {
            if (more) y->dim[d] = x->dim[e++];
            else y->dim[e++] = x->dim[d];
        } else if (more) {
            y->dim[d] = 1;
        }
    }
    return ot_numel(y) == ot_numel(x);
}

static bool moves(const ot_node *n)
{
    return ot_is(n, &ot_op_Reshape) || ot_is(n, &ot_op_Unsqueeze) || ot_is(n, &ot_op_Squeeze) ||
           ot_is(n, &ot_op_Identity);
}

static bool take_node(pieces *s, const ot_node *n)
{
    for (int i = 0; i < s->n_nodes; i++)
        if (s->node[i] == n) return true;
    if (s->n_nodes == MOST_NODES) return false;
    s->node[s->n_nodes++] = n;
    return true;
}

static int take_leaf(pieces *s, ot_value *v)
{
    if (v->producer || v->role != OT_CONST || !v->data || v->source < 0 || !ot_is_float(v->dtype) ||
        ot_numel(&v->shape) < 2)
        return -1;
    if ((s->n_leaves && s->leaf[0]->dtype != v->dtype) || !per_channel(s, &v->shape)) return -1;
    for (int i = 0; i < s->n_leaves; i++)
        if (s->leaf[i] == v) return i;
    if (s->n_leaves == MOST_LEAVES) return -1;
    s->leaf[s->n_leaves] = v;
    return s->n_leaves++;
}

static bool add_of(pieces *s, ot_value *v, int depth, sum *y);

/* 1 / sqrt(variance + epsilon). */
static bool inverse_root(pieces *s, const ot_value *v, sum *y)
{
    double epsilon = 0;
    const ot_node *n = v->producer;
    sum x = { 0 };
    if (moves(n)) {
        if (!take_node(s, n) || !inverse_root(s, n->in[0], &x)) return false;
        *y = x;
        return moved_shape(n, &x.shape, &y->shape);
    }
    for (int i = 0; i < 2 && ot_is(n, &ot_op_Add); i++) {
        const ot_value *e = number(n->in[i], &epsilon);
        sum var = { 0 };
        if (!e || !(epsilon >= 0)) continue;
        if (!take_node(s, n) || !add_of(s, n->in[1 - i], 0, &var) || var.n != 1 || var.p[0].n != 1 || var.p[0].c != 1 ||
            var.p[0].factor[0] >= INVERSE)
            return false;
        int leaf = var.p[0].factor[0];
        for (int k = 0; k < s->n_leaves; k++)
            if (s->epsilon[k] >= 0 && k != leaf) return false;
        if (s->epsilon[leaf] >= 0 && s->epsilon[leaf] != epsilon) return false;
        s->epsilon[leaf] = epsilon;
        *y = one(1, INVERSE + leaf);
        return joined(s, &var.shape, &e->shape, &y->shape);
    }
    return false;
}

/* 1 / v */
static bool inverse_of(pieces *s, const ot_value *v, int depth, sum *y)
{
    const ot_node *n = v->producer;
    double half;
    if (!n || depth > MOST_DEPTH || !take_node(s, n)) return false;
    if (moves(n)) {
        sum x = { 0 };
        if (!inverse_of(s, n->in[0], depth + 1, &x)) return false;
        *y = x;
        return moved_shape(n, &x.shape, &y->shape);
    }
    if (ot_is(n, &ot_op_Sqrt)) return inverse_root(s, n->in[0], y);
    return ot_is(n, &ot_op_Pow) && number(n->in[1], &half) && half == 0.5 && inverse_root(s, n->in[0], y);
}

/* n, with two operands whose sums a and b are known; divided: b is inverted. */
static bool combine(pieces *s, const ot_node *n, const sum *a, const sum *b, sum *y)
{
    if (!joined(s, &a->shape, &b->shape, &y->shape)) return false;
    if (ot_is(n, &ot_op_Add) || ot_is(n, &ot_op_Sub)) return plus(a, b, ot_is(n, &ot_op_Add) ? 1 : -1, y);
    return times(a, b, y);
}

static bool is_arithmetic(const ot_node *n)
{
    return ot_is(n, &ot_op_Add) || ot_is(n, &ot_op_Sub) || ot_is(n, &ot_op_Mul) || ot_is(n, &ot_op_Div);
}

/* v, which depends on no input of the graph, as a sum of products of leaves. */
static bool add_of(pieces *s, ot_value *v, int depth, sum *y)
{
    double c;
    const ot_node *n = v->producer;
    const ot_value *e = number(v, &c);
    sum a = { 0 }, b = { 0 }, minus = one(-1, -1);
    if (e) {
        *y = one(c, -1);
        y->shape = e->shape;
        return true;
    }
    if (!n) {
        int leaf = take_leaf(s, v);
        *y = one(1, leaf);
        y->shape = v->shape;
        return leaf >= 0;
    }
    if (depth > MOST_DEPTH || !take_node(s, n)) return false;
    if (moves(n)) {
        if (!add_of(s, n->in[0], depth + 1, &a)) return false;
        *y = a;
        return moved_shape(n, &a.shape, &y->shape);
    }
    if (ot_is(n, &ot_op_Neg)) {
        if (!add_of(s, n->in[0], depth + 1, &a)) return false;
        y->shape = a.shape;
        return times(&a, &minus, y);
    }
    if (ot_is(n, &ot_op_Reciprocal)) return inverse_of(s, n->in[0], depth + 1, y);
    if (ot_is(n, &ot_op_Pow)) return number(n->in[1], &c) && c == -0.5 && inverse_root(s, n->in[0], y);
    if (!is_arithmetic(n) || !add_of(s, n->in[0], depth + 1, &a)) return false;
    bool known = ot_is(n, &ot_op_Div) ? inverse_of(s, n->in[1], depth + 1, &b) : add_of(s, n->in[1], depth + 1, &b);
    return known && combine(s, n, &a, &b, y);
}

/* ---- from x to the result ------------------------------------------------------------------ */

/* The input of arithmetic n that depends on data; -1: none, or both. */
static int data_input(const ot_node *n)
{
    if (ot_is(n, &ot_op_Neg)) return n->in[0]->mark == OT_FED ? 0 : -1;
    if (!is_arithmetic(n)) return -1;
    bool a = n->in[0]->mark == OT_FED, b = n->in[1]->mark == OT_FED;
    if (a == b || (b && ot_is(n, &ot_op_Div))) return -1;
    return b;
}

/* Records where a parameter of that shape is combined with x. */
static bool meets(pieces *s, const ot_shape *shape)
{
    int behind = 0;
    if (shape->rank > s->rank) s->rank = shape->rank;
    if (ot_numel(shape) == 1) return true;
    while (shape->dim[shape->rank - 1 - behind] == 1) behind++;
    if (s->behind < 0) s->behind = behind;
    return s->behind == behind;
}

/* The output y of n as a sum, given the sum x of its data operand. */
static bool apply(pieces *s, const ot_node *n, const sum *x, sum *y)
{
    int at = data_input(n);
    sum p = one(-1, -1);
    y->shape = (ot_shape){ 0 }; /* the rank of x is unknown */
    if (ot_is(n, &ot_op_Neg)) return times(x, &p, y);
    bool known = ot_is(n, &ot_op_Div) ? inverse_of(s, n->in[1], 0, &p) : add_of(s, n->in[1 - at], 0, &p);
    if (!known || !meets(s, &p.shape)) return false;
    if (ot_is(n, &ot_op_Add)) return plus(x, &p, 1, y);
    if (ot_is(n, &ot_op_Sub)) return at ? plus(&p, x, -1, y) : plus(x, &p, -1, y);
    return times(x, &p, y);
}

static int find(const product *p, int from, int to)
{
    for (int i = 0; i < p->n; i++)
        if (p->factor[i] >= from && p->factor[i] < to) return p->factor[i] - from;
    return -1;
}

/* y = x r g - m r g + b? */
static bool is_norm(const sum *y, norm *f)
{
    const product *px = NULL, *pm = NULL, *pb = NULL;
    pieces *s = &f->with;
    for (int i = 0; i < y->n; i++) {
        const product *p = &y->p[i];
        const product **to = find(p, X, X + 1) >= 0 ? &px : find(p, INVERSE, X) >= 0 ? &pm : &pb;
        if (*to || p->c != (to == &pm ? -1 : 1)) return false;
        *to = p;
    }
    if (!px || !pm || pm->n != px->n || px->n < 2 || px->n > 3 || (pb && (pb->n != 1 || pb->factor[0] >= INVERSE)))
        return false;
    int var = find(px, INVERSE, X), scale = px->n == 3 ? find(px, 0, INVERSE) : -1, mean = -1;
    if (var < 0 || find(pm, INVERSE, X) != var || (px->n == 3 && scale < 0)) return false;
    if (px->n == 2) mean = pm->factor[0];
    else if (pm->factor[0] == scale) mean = pm->factor[1];
    else if (pm->factor[1] == scale) mean = pm->factor[0];
    if (mean < 0 || mean >= INVERSE || mean == var) return false;
    f->var = s->leaf[var];
    f->mean = s->leaf[mean];
    f->scale = scale < 0 ? NULL : s->leaf[scale];
    f->bias = pb ? s->leaf[pb->factor[0]] : NULL;
    f->epsilon = s->epsilon[var];
    return f->var->said != OT_SAID_PARAMETER && f->mean->said != OT_SAID_PARAMETER && s->behind >= 0;
}

/* Is n the last node of a norm?  Uses the shortest path back to an x. */
static bool match(ot_node *n, norm *f)
{
    const ot_node *chain[MOST_CHAIN];
    int length = 0;
    for (const ot_node *k = n; k && length < MOST_CHAIN && data_input(k) >= 0; k = k->in[data_input(k)]->producer)
        chain[length++] = k;
    for (int from = 1; from < length; from++) {
        sum y = one(1, X);
        *f = (norm){ .last = n, .with = { .behind = -1 } };
        for (int i = 0; i < MOST_LEAVES; i++) f->with.epsilon[i] = -1;
        bool good = true;
        for (int i = from; i >= 0 && good; i--) {
            sum x = y;
            good = take_node(&f->with, chain[i]) && apply(&f->with, chain[i], &x, &y);
        }
        f->x = chain[from]->in[data_input(chain[from])];
        f->ahead = from == 1 && ot_is(chain[1], &ot_op_Mul) && ot_is(chain[0], &ot_op_Add);
        if (good && is_norm(&y, f)) return f->x->producer || f->scale || f->bias; /* else the input is normalised */
    }
    return false;
}

/* The length of v's name without its last component, if that component is `part`; else -1. */
static int path_before(const ot_value *v, const char *part)
{
    const char *dot = strrchr(v->name, '.');
    const char *last = dot ? dot + 1 : v->name;
    return strcmp(last, part) ? -1 : (int)(last - v->name);
}

/* Is f a frozen norm of PyTorch, by the names of its tensors? */
static bool is_frozen(const norm *f)
{
    if (!f->ahead || !f->scale || !f->bias || f->scale->said || f->bias->said) return false;
    int n = path_before(f->mean, "running_mean");
    return n >= 0 && path_before(f->var, "running_var") == n && path_before(f->scale, "weight") == n &&
           path_before(f->bias, "bias") == n && !strncmp(f->mean->name, f->var->name, (size_t)n) &&
           !strncmp(f->mean->name, f->scale->name, (size_t)n) && !strncmp(f->mean->name, f->bias->name, (size_t)n);
}

/* ---- checks before all of it is removed ---------------------------------------------------- */

/* Counts the readers of each value of g, by id.  A body of an If, Loop or Scan, and an output, count as more readers than norms can
 * have: a value that they read stays. */
static void count_readers_kept(const ot_graph *g, const ot_graph *in, int *reads)
{
    for (const ot_node *n = in->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++)
            if (ot_graph_has(g, n->in[i])) reads[n->in[i]->id] += g == in ? 1 : 1000;
        for (int i = 0; ot_subgraph(n, i); i++) count_readers_kept(g, ot_subgraph(n, i), reads);
    }
    for (int i = 0; i < in->n_outputs; i++)
        if (ot_graph_has(g, in->outputs[i])) reads[in->outputs[i]->id] += 1000;
}

/* Are all readers of v nodes of norms, except readers of the last node's result? */
static bool is_inside(const int *inside, const int *reads, const ot_value *v) { return inside[v->id] == reads[v->id]; }

static bool is_closed(const norm *f, const int *inside, const int *reads)
{
    for (int i = 0; i < f->with.n_nodes; i++)
        if (f->with.node[i] != f->last && !is_inside(inside, reads, f->with.node[i]->out[0])) return false;
    return is_inside(inside, reads, f->mean) && is_inside(inside, reads, f->var);
}

/* Rejects norms whose statistics, or values computed from them, have other readers; marks the nodes of the remaining
 * ones. */
static ot_status settle(ot_graph *g, norm *list, int n, const int *reads)
{
    int *inside = ot_graph_alloc(g, (size_t)g->n_values * sizeof *inside);
    for (bool again = inside != NULL; again;) {
        again = false;
        memset(inside, 0, (size_t)g->n_values * sizeof *inside);
        for (ot_node *k = g->first; k; k = k->next) k->mark = 0;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < list[i].with.n_nodes && !list[i].refused; k++) {
                ot_node *piece = (ot_node *)(uintptr_t)list[i].with.node[k];
                for (int j = 0; j < piece->n_in && !piece->mark; j++)
                    if (piece->in[j]) inside[piece->in[j]->id]++;
                piece->mark = 1;
            }
        for (int i = 0; i < n; i++)
            if (!list[i].refused && !is_closed(&list[i], inside, reads)) list[i].refused = again = true;
    }
    return g->err->status;
}

/* ---- ranks --------------------------------------------------------------------------------------- */

/* Ranks by value id, as far as the operators determine them without sizes; -1: unknown. */
static int rank_of(const ot_node *n, const int *rank)
{
    int first = n->n_in && n->in[0] ? rank[n->in[0]->id] : -1, least = INT_MAX, most = -1;
    for (int i = 0; i < n->n_in; i++) {
        int r = n->in[i] ? rank[n->in[i]->id] : -1;
        if (r < least) least = r;
        if (r > most) most = r;
    }
    switch (n->op->rank) {
    case OT_RANK_KEPT: return first;
    case OT_RANK_GREATEST: return least < 0 ? -1 : most;
    case OT_RANK_PRODUCT: return least < 2 ? -1 : most;
    case OT_RANK_FILTERS: return n->in[1]->shape.rank >= 0 ? n->in[1]->shape.rank : first;
    case OT_RANK_TWO: return 2;
    case OT_RANK_OPEN: break;
    }
    return n->op == &ot_op_Reshape && ot_is_const(n->in[1]) ? (int)ot_numel(&n->in[1]->shape) : -1;
}

static int *ranks(ot_graph *g)
{
    int *rank = ot_graph_alloc(g, (size_t)g->n_values * sizeof *rank);
    for (int i = 0; rank && i < g->n_values; i++) rank[i] = g->values[i]->shape.rank;
    for (const ot_node *n = g->first; n && rank; n = n->next)
        if (n->n_out && n->out[0] && rank[n->out[0]->id] < 0) rank[n->out[0]->id] = rank_of(n, rank);
    return rank;
}

/* Are the channels on axis 1 of x, or on its last axis?  *last: only on the last one. */
static bool channels_fit(const norm *f, int rank, bool *last)
{
    const pieces *s = &f->with;
    *last = !s->behind && rank != 2;
    if (rank < 0) return *last && s->rank == 1;
    return rank >= s->rank && rank >= 2 && (*last || rank == s->behind + 2);
}

/* ---- the operator ----------------------------------------------------------------------------------- */

static ot_value *node(ot_graph *g, const norm *f, const ot_op *op, const void *attrs, ot_value *const *in, int n_in)
{
    ot_node *n = ot_graph_node(g, op, f->last->name, attrs, in, n_in, 1);
    return n ? n->out[0] : NULL;
}

/* One value per channel; v NULL: `other` for every channel. */
static ot_value *parameter(ot_graph *g, const norm *f, ot_value *v, double other)
{
    ot_shape s = { .rank = 1, .dim = { f->with.channels } };
    if (v && v->shape.rank == 1) return v;
    if (v)
        return node(g, f, &ot_op_Reshape, NULL,
                    OT_IN(v, ot_graph_const(g, "channels", OT_I64, &(ot_shape){ 1, { 1 } }, s.dim)));
    void *bytes = ot_graph_alloc(g, ot_bytes(&s, f->mean->dtype));
    for (int64_t i = 0; bytes && i < s.dim[0]; i++) ot_set_f64(bytes, f->mean->dtype, i, other);
    return bytes ? ot_graph_const_of(g, "constant", f->mean->dtype, &s, bytes) : NULL;
}

static ot_status put(ot_graph *g, const norm *f, bool channels_last)
{
    ot_batch_normalization a;
    ot_value *y = f->last->out[0], *x = f->x, *z;
    ot_attr_defaults(&ot_op_BatchNormalization, &a);
    a.epsilon = f->epsilon;
    g->cursor = f->last;
    if (channels_last) x = node(g, f, &ot_op_Flatten, &(int64_t){ -1 }, OT_IN(x));
    z = node(g, f, &ot_op_BatchNormalization, &a,
             OT_IN(x, parameter(g, f, f->scale, 1), parameter(g, f, f->bias, 0), parameter(g, f, f->mean, 0),
                   parameter(g, f, f->var, 1)));
    if (channels_last) z = node(g, f, &ot_op_Reshape, NULL, OT_IN(z, node(g, f, &ot_op_Shape, NULL, OT_IN(f->x))));
    g->cursor = NULL;
    if (!z) return g->err->status;
    ot_graph_replace(g, y, z);
    z->name = y->name;
    z->declared = y->declared;
    y->name = f->last->name;
    y->declared = OT_UNDEFINED;
    return g->err->status;
}

/* Removes nodes whose results are no longer read. */
static void drop_pieces(ot_graph *g)
{
    int *reads = ot_graph_alloc(g, (size_t)g->n_values * sizeof *reads);
    if (reads) count_readers_kept(g, g, reads);
    for (ot_node *n = reads ? g->last : NULL, *prev; n; n = prev) {
        prev = n->prev;
        if (!n->mark || reads[n->out[0]->id]) continue;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) reads[n->in[i]->id]--;
        ot_graph_remove(g, n);
    }
}

ot_status ot_recognise_batch_norms(ot_graph *g, int *found, int *frozen)
{
    norm *list = NULL, f;
    int n = 0, room = 0;
    *found = *frozen = 0;
    ot_mark_fed(g);
    for (ot_node *k = g->first; k; k = k->next) k->mark = 0;
    for (ot_node *k = g->last; k; k = k->prev) {
        if (k->mark || k->n_out != 1 || !k->out[0] || !match(k, &f)) continue;
        for (int i = 0; i < f.with.n_nodes; i++) ((ot_node *)(uintptr_t)f.with.node[i])->mark = 1;
        if (n == room) {
            norm *more = ot_graph_alloc(g, (size_t)(room = 2 * room + 8) * sizeof *more);
            if (!more) return g->err->status;
            if (n) memcpy(more, list, (size_t)n * sizeof *list);
            list = more;
        }
        list[n++] = f;
    }
    if (!n) return g->err->status;
    int *reads = ot_graph_alloc(g, (size_t)g->n_values * sizeof *reads), *rank = ranks(g);
    bool last;
    if (!reads || !rank) return g->err->status;
    count_readers_kept(g, g, reads);
    for (int i = 0; i < n; i++) list[i].refused = !channels_fit(&list[i], rank[list[i].x->id], &last);
    OT_TRY(settle(g, list, n, reads));
    for (int i = 0; i < n; i++) {
        if (list[i].refused) continue;
        channels_fit(&list[i], rank[list[i].x->id], &last);
        OT_TRY(put(g, &list[i], last));
        *found += 1;
        if (!is_frozen(&list[i])) continue;
        list[i].scale->said = list[i].bias->said = OT_SAID_FROZEN;
        *frozen += 1;
    }
    if (*found) drop_pieces(g);
    return g->err->status;
}
