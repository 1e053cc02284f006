/* epilogue.c - an operator and the Map before or behind it become one node (ops/kernels/fused.h), if the device has a
 * kernel that computes both: the value between them is not stored.
 *
 *     Map -> operator      at its first operand: the gradient of an activation, a sum of gradients
 *     operator -> Map      of its first result, with another shape at most: an activation, a residual
 *
 * All pairs of the first kind are tried before those of the second: few operators take a Map in front of them, and one between two
 * operators is theirs.
 *
 * Then the gradient of a ReLU that is part of such a node reads a bit for each element instead of ReLU's result, if the kernels of
 * both take that.
 *
 * At the end kernels that may refuse a node when it is prepared are tried: what they refuse becomes two nodes again.  The node is
 * at the place of the later one if nothing reads the results of the earlier one before, else at that of the earlier one
 * if all other operands exist by then. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/kernels/fused.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/tune.h"

enum { MOST_VIEWS = 4 };
enum { REACH = 64 }; /* nodes that one is moved over at most: values live longer then */

/* What was joined, for separating it again. */
typedef struct join {
    ot_node *node; /* NULL: separated */
    ot_node *first, *second;
    int n_views;
    ot_node *view[MOST_VIEWS]; /* that were removed, in order */
    bool settled;              /* a kernel has prepared it as it is */
} join;

typedef struct pass {
    ot_plan *p;
    const ot_config *c;
    ot_graph *g;
    bool *kept;   /* by value id: read by other than nodes */
    int *readers; /* by value id */
    join *joins;  /* as many as there are operators, at most */
    int n_joins;
} pass;

/* One attempt: parts in order. */
typedef struct attempt {
    ot_node *first, *second;
    ot_value *between, *seen; /* the result of `first` that `second` reads, as it is or through views as `seen` */
    int n_views;
    ot_node *view[MOST_VIEWS];
    bool views_stay; /* something else reads `seen` */
    ot_fused f;
    ot_node node; /* in no list */
    ot_value *in[OT_FUSED_IN], *out[OT_FUSED_OUT];
} attempt;

static void count_readers(const pass *x)
{
    const ot_plan *p = x->p;
    const ot_value *one[] = { p->loss, p->grad_norm, p->correct, p->counted, p->divisor };
    for (const ot_node *n = x->g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) x->readers[n->in[i]->id]++;
    for (int i = 0; i < x->g->n_outputs; i++) x->kept[x->g->outputs[i]->id] = true;
    for (int i = 0; i < x->g->n_assigns; i++) x->kept[x->g->assigns[i].value->id] = true;
    for (int i = 0; i < p->n_kept; i++) x->kept[p->kept[i]->id] = true;
    for (int i = 0; i < OT_LEN(one); i++)
        if (one[i]) x->kept[one[i]->id] = true;
}

/* ---- the place -------------------------------------------------------------------------- */

static bool reads(const ot_node *n, const ot_node *maker)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->producer == maker) return true;
    return false;
}

/* The views through which `seen` is `between`. */
static bool is_view_between(const ot_node *k, const attempt *a)
{
    for (int i = 0; i < a->n_views; i++)
        if (a->view[i] == k) return true;
    return false;
}

/* The place: node `second`, or `first`; NULL: neither. */
static ot_node *place(const attempt *a)
{
    bool down = true, up = true; /* first moves down, second moves up */
    int n = 0;
    for (const ot_node *k = a->first->next; k != a->second; k = k->next) {
        if (!k || ++n > REACH) return NULL;
        bool view = is_view_between(k, a);
        down = down && ((view && !a->views_stay) || !reads(k, a->first));
        up = up && (view || !reads(a->second, k));
    }
    return down ? a->second : up ? a->first : NULL;
}

/* ---- the node --------------------------------------------------------------------------- */

static bool add_operands(attempt *a, int part)
{
    const ot_node *n = a->f.part[part].node;
    for (int i = 0; i < n->n_in; i++) {
        int8_t *to = &a->f.part[part].in[i];
        int k = 0;
        *to = OT_FUSED_NONE;
        if (!n->in[i]) continue;
        if (part && n->in[i] == a->seen) {
            *to = OT_FUSED_BETWEEN;
            continue;
        }
        while (k < a->node.n_in && a->in[k] != n->in[i]) k++;
        if (k == OT_FUSED_IN) return false;
        if (k == a->node.n_in) a->in[a->node.n_in++] = n->in[i];
        *to = (int8_t)k;
    }
    return true;
}

/* Does anything but the other part read result v?  Operators have memory for the first result even if nothing reads it: the gradient
 * of a norm of the network's input. */
static bool is_needed(const pass *x, const attempt *a, const ot_value *v)
{
    if (v == a->between) return a->views_stay || x->kept[v->id] || x->readers[v->id] > 1;
    return x->kept[v->id] || x->readers[v->id] > 0 || v == a->second->out[0];
}

/* Results that are needed are outputs. */
static bool add_results(const pass *x, attempt *a, int part)
{
    const ot_node *n = a->f.part[part].node;
    for (int k = 0; k < n->n_out; k++) {
        const ot_value *v = n->out[k];
        a->f.part[part].out[k] = OT_FUSED_NONE;
        if (!v || !is_needed(x, a, v)) continue;
        if (a->node.n_out == OT_FUSED_OUT) return false;
        a->f.part[part].out[k] = (int8_t)a->node.n_out;
        a->out[a->node.n_out++] = n->out[k];
    }
    return true;
}

static bool assemble(const pass *x, attempt *a)
{
    const ot_node *op = a->f.op ? a->second : a->first;
    a->f.between = a->between->port;
    a->f.mask_out = OT_FUSED_NONE;
    a->f.part[0].node = a->first;
    a->f.part[1].node = a->second;
    a->node = (ot_node){ .op = &ot_op_Fused,
                         .name = op->name,
                         .made = op->made,
                         .stage = a->first->stage > a->second->stage ? a->first->stage : a->second->stage,
                         .graph = x->g,
                         .attrs = &a->f,
                         .in = a->in,
                         .out = a->out,
                         .phase = op->phase };
    if (a->first->n_in > OT_FUSED_IN || a->second->n_in > OT_FUSED_IN) return false;
    if (a->first->n_out > OT_FUSED_OUT || a->second->n_out > OT_FUSED_OUT) return false;
    return add_operands(a, 0) && add_operands(a, 1) && add_results(x, a, 1) && add_results(x, a, 0);
}

/* The next kernel from *k on that can compute it and is not slower than separate ones; NULL: none. */
static const ot_kernel *next_kernel(const ot_node *n, const ot_kernel *const **k)
{
    for (const char *why = NULL; **k; ++*k) {
        const ot_kernel *one = **k;
        if (one == ot_ref_kernel(&ot_op_Fused) || !ot_schedule_can(one, n, &why)) continue;
        if (one->yields && one->yields(n, &why)) continue;
        return *(*k)++;
    }
    return NULL;
}

static bool is_taken(const pass *x, const ot_node *n)
{
    const ot_kernel *const *k = ot_kernels(&ot_op_Fused, x->c->device);
    return next_kernel(n, &k) != NULL;
}

static void forget(pass *x, ot_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) x->readers[n->in[i]->id]--;
    ot_graph_remove(x->g, n);
}

static ot_status put(pass *x, const attempt *a, ot_node *at)
{
    ot_graph *g = x->g;
    g->cursor = at;
    g->phase = a->node.phase;
    ot_node *n = ot_graph_node(g, &ot_op_Fused, a->node.name, &a->f, a->in, a->node.n_in, a->node.n_out);
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (!n) return g->err->status;
    n->made = a->node.made;
    n->stage = a->node.stage;
    for (int i = 0; i < n->n_in; i++) x->readers[n->in[i]->id]++;
    join *j = &x->joins[x->n_joins++];
    *j = (join){ .node = n, .first = a->first, .second = a->second, .n_views = a->views_stay ? 0 : a->n_views };
    for (int k = 0; k < j->n_views; k++) {
        j->view[k] = a->view[k];
        forget(x, a->view[k]);
    }
    forget(x, a->first);
    forget(x, a->second);
    for (int k = 0; k < n->n_out; k++) {
        n->out[k] = a->out[k];
        n->out[k]->producer = n;
        n->out[k]->port = k;
    }
    return OT_OK;
}

static ot_status try_pair(pass *x, attempt *a, bool *done)
{
    if (a->first->phase != a->second->phase) return OT_OK;
    a->views_stay = a->seen != a->between && (x->kept[a->seen->id] || x->readers[a->seen->id] > 1);
    ot_node *at = place(a);
    if (!at || !assemble(x, a)) return OT_OK;
    *done = is_taken(x, &a->node);
    return *done ? put(x, a, at) : OT_OK;
}

/* ---- the pairs ---------------------------------------------------------------------------- */

static bool is_map(const pass *x, const ot_node *n) { return n && n->op == &ot_op_Map && n->graph == x->g; }

/* The Map behind n: a reader of its first result, or of a view of it that nothing else reads. */
static bool find_behind(const pass *x, ot_node *n, attempt *a)
{
    *a = (attempt){ .first = n, .between = n->out[0], .seen = n->out[0] };
    ot_node *k = n->next;
    for (int steps = 0; k && a->seen && steps < REACH; k = k->next, steps++) {
        bool hit = false;
        for (int i = 0; i < k->n_in; i++) hit = hit || k->in[i] == a->seen;
        if (!hit) continue;
        a->second = k;
        if (is_map(x, k)) return true;
        if (k->op != &ot_op_View || x->kept[a->seen->id] || x->readers[a->seen->id] > 1) return false;
        if (a->seen->layout != OT_PLAIN || a->n_views == MOST_VIEWS) return false;
        a->view[a->n_views++] = k;
        a->seen = k->out[0];
    }
    return false;
}

static ot_status try_before(pass *x, ot_node *n, bool *done)
{
    ot_value *dy = n->in[0];
    attempt a = { .second = n, .between = dy, .seen = dy, .f = { .op = 1 } };
    if (!dy || !is_map(x, dy->producer)) return OT_OK;
    a.first = dy->producer;
    return try_pair(x, &a, done);
}

static ot_status try_behind(pass *x, ot_node *n, bool *done)
{
    attempt a;
    return find_behind(x, n, &a) ? try_pair(x, &a, done) : OT_OK;
}

/* list: the operators, in order; those that are joined become NULL. */
static ot_status try_all(pass *x, ot_node **list, int n, ot_status (*try)(pass *, ot_node *, bool *))
{
    for (int i = 0; i < n; i++) {
        bool done = false;
        if (list[i]) OT_TRY(try(x, list[i], &done));
        if (done) list[i] = NULL;
    }
    return OT_OK;
}

/* ---- ReLU as bits --------------------------------------------------------------------------- */

/* The operand of a Fused node that the gradient of ReLU in front of its operator reads; -1: none. */
static int relu_operand(const ot_node *n)
{
    const ot_fused_part *before = ot_fused_before(n);
    ot_chain c;
    if (!before || !ot_chain_of(before->node, -1, &c) || !c.n) return -1;
    const ot_chain_step *last = &c.step[c.n - 1];
    return last->row == OT_FN_Relu_da && last->other >= 0 ? before->in[last->other] : -1;
}

/* The same, if nothing else in the node reads it; -1: none. */
static int masked_operand(const ot_node *n)
{
    const ot_fused *f = n->attrs;
    int at = relu_operand(n), uses = 0;
    ot_chain c;
    if (at < 0 || f->masked || !ot_chain_of(ot_fused_before(n)->node, -1, &c)) return -1;
    int y = c.step[c.n - 1].other;
    for (int i = 0; i < c.n - 1; i++) uses += c.step[i].other == y;
    uses += c.start == y;
    for (int p = 0; p < OT_FUSED_PARTS; p++)
        for (int i = 0; i < f->part[p].node->n_in; i++) uses += f->part[p].in[i] == at;
    return uses == 1 ? at : -1;
}

/* Is v the result of ReLU behind an operator, in one node? */
static bool is_relu(const ot_value *v)
{
    const ot_node *n = v->producer;
    ot_chain c;
    if (!n || n->op != &ot_op_Fused || !ot_fused_behind(n)) return false;
    const ot_fused_part *map = ot_fused_behind(n);
    return map->out[0] == v->port && ot_chain_of(map->node, ot_fused_between(n), &c) && c.n &&
           c.step[c.n - 1].row == OT_FN_Relu;
}

/* Both nodes with the bits in place of y; they are in no list. */
typedef struct masks {
    ot_fused made_f, read_f;
    ot_node made, read;
    ot_value *out[OT_FUSED_OUT], *in[OT_FUSED_IN];
} masks;

static bool with_bits(masks *m, const ot_node *n, int at, ot_value *bits)
{
    const ot_node *from = n->in[at]->producer;
    m->made_f = *(const ot_fused *)from->attrs;
    m->read_f = *(const ot_fused *)n->attrs;
    m->made = *from;
    m->read = *n;
    memcpy(m->out, from->out, (size_t)from->n_out * sizeof *m->out);
    memcpy(m->in, n->in, (size_t)n->n_in * sizeof *m->in);
    if (m->made_f.mask_out < 0) {
        if (from->n_out == OT_FUSED_OUT) return false;
        m->made_f.mask_out = m->made.n_out++;
        m->out[m->made_f.mask_out] = bits;
    }
    m->in[at] = m->out[m->made_f.mask_out];
    m->read_f.masked = true;
    m->made.attrs = &m->made_f, m->made.out = m->out;
    m->read.attrs = &m->read_f, m->read.in = m->in;
    return true;
}

static void *kept_copy(ot_graph *g, const void *from, size_t bytes)
{
    void *to = ot_graph_alloc(g, bytes);
    return to ? memcpy(to, from, bytes) : NULL;
}

/* The gradient reads the bits, if the kernels of both nodes take them. */
static ot_status share_mask(pass *x, ot_node *n)
{
    ot_graph *g = x->g;
    int at = masked_operand(n);
    masks m;
    if (at < 0 || !is_relu(n->in[at])) return OT_OK;
    ot_node *from = n->in[at]->producer;
    ot_value trial = { .name = "", .dtype = OT_U8, .shape = { 1, { (ot_numel(&n->in[at]->shape) + 7) / 8 } } };
    if (!with_bits(&m, n, at, &trial)) return OT_OK;
    if (!is_taken(x, &m.made) || !is_taken(x, &m.read)) return OT_OK;
    ot_value *bits = m.made.n_out > from->n_out ? ot_graph_value(g, from->name, OT_TEMP, OT_U8, &trial.shape) : NULL;
    with_bits(&m, n, at, bits);
    m.made.attrs = kept_copy(g, &m.made_f, sizeof m.made_f);
    m.made.out = kept_copy(g, m.out, (size_t)m.made.n_out * sizeof *m.out);
    m.read.attrs = kept_copy(g, &m.read_f, sizeof m.read_f);
    m.read.in = kept_copy(g, m.in, (size_t)m.read.n_in * sizeof *m.in);
    if (g->err->status != OT_OK) return g->err->status;
    if (bits) bits->producer = from, bits->port = m.made_f.mask_out;
    *from = m.made;
    *n = m.read;
    return OT_OK;
}

/* ---- refusals ------------------------------------------------------------------------------- */

/* The gradients of a ReLU read its result again. */
static void drop_mask(pass *x, ot_node *made)
{
    ot_fused *f = (ot_fused *)(uintptr_t)made->attrs;
    ot_value *bits = made->out[f->mask_out], *y = made->out[ot_fused_behind(made)->out[0]];
    for (int k = 0; k < x->n_joins; k++) {
        ot_node *n = x->joins[k].node;
        if (n == made) x->joins[k].settled = false;
        for (int i = 0; n && i < n->n_in; i++) {
            if (n->in[i] != bits) continue;
            n->in[i] = y;
            ((ot_fused *)(uintptr_t)n->attrs)->masked = false;
            x->joins[k].settled = false;
        }
    }
    bits->producer = NULL;
    f->mask_out = OT_FUSED_NONE;
    made->n_out--; /* the last one */
}

static void link_before(ot_graph *g, ot_node *n, ot_node *at)
{
    ot_graph_link(g, n, at);
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k]) n->out[k]->producer = n, n->out[k]->port = k;
}

static void separate(pass *x, join *j)
{
    ot_node *n = j->node;
    ot_graph_remove(x->g, n);
    link_before(x->g, j->first, n->next);
    for (int k = 0; k < j->n_views; k++) link_before(x->g, j->view[k], n->next);
    link_before(x->g, j->second, n->next);
    j->node = NULL;
}

/* Prepares a node with each kernel that can compute it. */
static ot_status is_refused(const pass *x, const ot_node *n, bool *refused)
{
    const ot_kernel *const *k = ot_kernels(&ot_op_Fused, x->c->device), *one;
    *refused = true;
    while (*refused && (one = next_kernel(n, &k))) {
        ot_prep p = ot_schedule_prep(x->p, x->c, 0);
        if (one->may_refuse) OT_TRY(one->prepare(n, &p));
        *refused = p.refused != NULL;
        if (p.state && one->release) one->release(p.state);
    }
    return OT_OK;
}

/* What a kernel refuses is tried without bits, then separated. */
static ot_status settle(pass *x)
{
    for (int k = 0; k < x->n_joins; k++) {
        join *j = &x->joins[k];
        bool refused = false;
        if (!j->node || j->settled) continue;
        OT_TRY(is_refused(x, j->node, &refused));
        j->settled = !refused;
        if (!refused) continue;
        const ot_fused *f = j->node->attrs;
        ot_node *made = f->mask_out >= 0 ? j->node : f->masked ? j->node->in[relu_operand(j->node)]->producer : NULL;
        if (!made) {
            separate(x, j);
            continue;
        }
        drop_mask(x, made);
        k = -1; /* to those that read it or made it, in front of this one too */
    }
    return OT_OK;
}

/* The operators, in order; NULL: no memory. */
static ot_node **operators(const ot_graph *g, int *count)
{
    ot_node **list = calloc((size_t)g->n_nodes + 1, sizeof *list);
    for (ot_node *n = g->first; n && list; n = n->next)
        if (n->op->flags & OT_FUSES) list[(*count)++] = n;
    return list;
}

ot_status ot_pass_epilogue(ot_plan *p, const ot_config *c)
{
    pass x = { .p = p, .c = c, .g = p->graph };
    int n = 0;
    if (c->ref_only) return OT_OK;
    size_t values = (size_t)x.g->n_values + 1;
    x.kept = calloc(values, sizeof *x.kept);
    x.readers = calloc(values, sizeof *x.readers);
    x.joins = calloc((size_t)x.g->n_nodes + 1, sizeof *x.joins);
    ot_node **list = operators(x.g, &n);
    ot_status s = x.kept && x.readers && x.joins && list
                      ? OT_OK
                      : ot_fail(x.g->err, OT_E_NOMEM, "no memory to join operators with Maps");
    if (s == OT_OK) count_readers(&x);
    if (s == OT_OK) s = try_all(&x, list, n, try_before);
    if (s == OT_OK) s = try_all(&x, list, n, try_behind);
    for (ot_node *k = x.g->first; k && s == OT_OK; k = k->next)
        if (k->op == &ot_op_Fused) s = share_mask(&x, k);
    if (s == OT_OK) s = settle(&x);
    free(x.kept);
    free(x.readers);
    free(x.joins);
    free(list);
    return s;
}
