/* epilogue.c - an operator and the Map before or behind it become one node (ops/kernels/fused.h), if the device has a
 * kernel that computes both: the value between them is not stored.
 *
 *     Map -> operator      at its first operand: the gradient of an activation, a sum of gradients
 *     operator -> Map      of its first result, with another shape at most: an activation, a residual
 *
 * Then the gradient of a ReLU that is part of such a node reads a bit for each element instead of ReLU's result, if the kernels of
 * both take that.
 *
 * A kernel that may refuse a node when it is prepared is tried: what it refuses stays two nodes.  The node is
 * at the place of the later one if nothing reads the results of the earlier one before, else at that of the earlier one
 * if all other operands exist by then. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/kernels/fused.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/tune.h"

enum { REACH = 64 }; /* nodes that one is moved over at most: values live longer then */

typedef struct pass {
    ot_plan *p;
    const ot_config *c;
    ot_graph *g;
    bool *kept;   /* by value id: read by other than nodes */
    int *readers; /* by value id */
} pass;

/* One attempt: parts in order. */
typedef struct attempt {
    ot_node *first, *second;
    ot_value *between, *seen; /* the result of `first` that `second` reads, as it is or through views as `seen` */
    bool views_stay;          /* something else reads `seen` */
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
static bool is_view_between(const ot_node *k, const ot_value *seen, const ot_value *between)
{
    for (const ot_value *v = seen; v != between; v = v->producer->in[0])
        if (v->producer == k) return true;
    return false;
}

/* The place: node `second`, or `first`; NULL: neither. */
static ot_node *place(const attempt *a)
{
    bool down = true, up = true; /* first moves down, second moves up */
    int n = 0;
    for (const ot_node *k = a->first->next; k != a->second; k = k->next) {
        if (!k || ++n > REACH) return NULL;
        bool view = is_view_between(k, a->seen, a->between);
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

/* Results that anything else reads are outputs. */
static bool add_results(const pass *x, attempt *a, int part)
{
    const ot_node *n = a->f.part[part].node;
    for (int k = 0; k < n->n_out; k++) {
        const ot_value *v = n->out[k];
        a->f.part[part].out[k] = OT_FUSED_NONE;
        if (!v || (!x->kept[v->id] && x->readers[v->id] <= (v == a->between && !a->views_stay))) continue;
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

/* Is there a kernel that does not refuse it? */
static ot_status is_taken(const pass *x, const ot_node *n, bool *taken)
{
    *taken = false;
    for (const ot_kernel *const *k = ot_kernels(&ot_op_Fused, x->c->device); *k && !*taken; k++) {
        const char *why = NULL;
        if (*k == ot_ref_kernel(&ot_op_Fused) || !(*k)->can || !(*k)->can(n, &why)) continue;
        if ((*k)->yields && (*k)->yields(n, &why)) continue;
        if (!(*k)->may_refuse) {
            *taken = true;
            break;
        }
        ot_prep p = ot_schedule_prep(x->p, x->c, 0);
        OT_TRY((*k)->prepare(n, &p));
        *taken = !p.refused;
        if (p.state && (*k)->release) (*k)->release(p.state);
    }
    return OT_OK;
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
    for (ot_value *v = a->seen, *from; v != a->between && !a->views_stay; v = from) {
        from = v->producer->in[0];
        forget(x, v->producer);
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
    OT_TRY(is_taken(x, &a->node, done));
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
        if (a->seen->layout != OT_PLAIN) return false;
        a->seen = k->out[0];
    }
    return false;
}

static ot_status try_node(pass *x, ot_node *n)
{
    ot_value *dy = n->in[0];
    attempt a = { .second = n, .between = dy, .seen = dy, .f = { .op = 1 } };
    bool done = false;
    if (dy && is_map(x, dy->producer)) {
        a.first = dy->producer;
        OT_TRY(try_pair(x, &a, &done));
    }
    return done || !find_behind(x, n, &a) ? OT_OK : try_pair(x, &a, &done);
}

/* ---- ReLU as bits --------------------------------------------------------------------------- */

/* The operand of a Fused node that only the gradient of ReLU in front of its operator reads; -1: none. */
static int masked_operand(const ot_node *n)
{
    const ot_fused *f = n->attrs;
    const ot_fused_part *before = ot_fused_before(n);
    ot_chain c;
    if (!before || f->masked || !ot_chain_of(before->node, -1, &c) || !c.n) return -1;
    const ot_chain_step *last = &c.step[c.n - 1];
    int at = last->row == OT_FN_Relu_da && last->other >= 0 ? before->in[last->other] : -1, uses = 0;
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
    bool taken = false;
    masks m;
    if (at < 0 || !is_relu(n->in[at])) return OT_OK;
    ot_node *from = n->in[at]->producer;
    ot_value trial = { .name = "", .dtype = OT_U8, .shape = { 1, { (ot_numel(&n->in[at]->shape) + 7) / 8 } } };
    if (!with_bits(&m, n, at, &trial)) return OT_OK;
    OT_TRY(is_taken(x, &m.made, &taken));
    if (taken) OT_TRY(is_taken(x, &m.read, &taken));
    if (!taken) return OT_OK;
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
    if (c->ref_only || c->apart) return OT_OK;
    size_t values = (size_t)x.g->n_values + 1;
    x.kept = calloc(values, sizeof *x.kept);
    x.readers = calloc(values, sizeof *x.readers);
    ot_node **list = operators(x.g, &n);
    ot_status s =
        x.kept && x.readers && list ? OT_OK : ot_fail(x.g->err, OT_E_NOMEM, "no memory to join operators with Maps");
    if (s == OT_OK) count_readers(&x);
    for (int i = 0; i < n && s == OT_OK; i++) s = try_node(&x, list[i]);
    for (ot_node *k = x.g->first; k && s == OT_OK; k = k->next)
        if (k->op == &ot_op_Fused) s = share_mask(&x, k);
    free(x.kept);
    free(x.readers);
    free(list);
    return s;
}
