/* fuse.c - chains and trees of Maps become one Map, a Map before a Reduce becomes part of the Reduce (fuse_reduce.c);
 * Copies around attention are removed (fuse_attention.c).
 *
 * Maps of one shape that feed each other form a group; a group runs as one program at the place of one of its nodes, so
 * intermediate values are never stored.  Values that other nodes read become outputs of the program; scalar constants
 * become immediates; scalars that a few instructions compute (learning rates) are recomputed by every reader.
 *
 * Two neighbouring groups are joined in one of two ways.  Down: the earlier one moves to the place of
 * the later one, if no other node reads its results before that.  Up: the later one moves to the place
 * of the earlier one, if all its other inputs exist by then.  Both keep every edge pointing forward,
 * so no cycle can arise, and each costs the inputs or the readers of one group.
 *
 * Numerics  The same operations on the same values: a result that was stored in a narrower type on
 *           the way is rounded to it by a Convert. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/map.h"
#include "runtime/passes/fuse.h"

enum {
    REACH = 64,  /* nodes that a group is moved over at most: values would live longer than they save */
    MEMBERS = 48 /* nodes of a group */
};

typedef struct group {
    int at;              /* the list position it runs at */
    int n, inst;         /* members; instructions and conversions, at most */
    int member[MEMBERS]; /* list positions, ascending */
} group;

/* A scalar is recomputed by every reader if it takes at most this many instructions and inputs. */
enum { PULL_INST = 12, PULL_IN = 4 };

typedef struct fuse {
    ot_graph *g;
    ot_plan *plan;
    int n_nodes;
    ot_node **node; /* by list position */
    int *group_of;  /* by list position; -1: no Map */
    group *groups;  /* by the position of the first member */
    int *first_use; /* by value id: its readers are use[first_use[id]] .. use[first_use[id+1]-1] */
    int *use;       /* list positions */
    bool *kept;     /* by value id: read by other than nodes */
    int *maker;     /* by value id: list position of its node; -1: none */
} fuse;

/* ---- what reads what --------------------------------------------------------------- */

static void fuse_free(fuse *f)
{
    free(f->node);
    free(f->group_of);
    free(f->groups);
    free(f->first_use);
    free(f->use);
    free(f->kept);
    free(f->maker);
}

static void mark_kept(fuse *f)
{
    const ot_graph *g = f->g;
    const ot_plan *p = f->plan;
    const ot_value *one[] = { p->loss, p->grad_norm, p->correct, p->counted, p->divisor };
    for (int i = 0; i < g->n_outputs; i++) f->kept[g->outputs[i]->id] = true;
    for (int i = 0; i < g->n_assigns; i++) f->kept[g->assigns[i].value->id] = true;
    for (int i = 0; i < p->n_kept; i++) f->kept[p->kept[i]->id] = true;
    for (int i = 0; i < OT_LEN(one); i++)
        if (one[i]) f->kept[one[i]->id] = true;
}

static ot_status fuse_init(fuse *f)
{
    ot_graph *g = f->g;
    int edges = 0, at = 0;
    for (const ot_node *n = g->first; n; n = n->next) f->n_nodes++, edges += n->n_in;
    size_t nodes = (size_t)f->n_nodes + 1, values = (size_t)g->n_values + 2;
    f->node = calloc(nodes, sizeof *f->node);
    f->group_of = calloc(nodes, sizeof *f->group_of);
    f->groups = calloc(nodes, sizeof *f->groups);
    f->first_use = calloc(values, sizeof *f->first_use);
    f->use = calloc((size_t)edges + 1, sizeof *f->use);
    f->kept = calloc(values, sizeof *f->kept);
    f->maker = malloc(values * sizeof *f->maker);
    if (!f->node || !f->group_of || !f->groups || !f->first_use || !f->use || !f->kept || !f->maker)
        return ot_fail(g->err, OT_E_NOMEM, "no memory to fuse element-wise operators");
    for (size_t i = 0; i < values; i++) f->maker[i] = -1;
    for (ot_node *n = g->first; n; n = n->next, at++) {
        f->node[at] = n;
        n->mark = at;
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k]) f->maker[n->out[k]->id] = at;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]) f->first_use[n->in[i]->id + 2]++;
    }
    for (size_t i = 2; i < values; i++) f->first_use[i] += f->first_use[i - 1];
    for (at = 0; at < f->n_nodes; at++) /* shifts first_use down by one place */
        for (int i = 0; i < f->node[at]->n_in; i++)
            if (f->node[at]->in[i]) f->use[f->first_use[f->node[at]->in[i]->id + 1]++] = at;
    mark_kept(f);
    return OT_OK;
}

/* ---- groups ------------------------------------------------------------------------ */

/* A constant of one element that is exact in a double. */
static bool is_immediate(const ot_value *v, double *value)
{
    if (!ot_is_const(v) || ot_numel(&v->shape) != 1 || !ot_dtype_bits(v->dtype)) return false;
    *value = ot_get_f64(v->data, v->dtype, 0);
    return ot_is_float(v->dtype) || (*value < 0x1p53 && *value > -0x1p53);
}

static bool is_map(const fuse *f, const ot_node *n) { return n && n->op == &ot_op_Map && n->graph == f->g; }

/* Types that only the reference kernel computes would move the whole group to it. */
static bool joins(const ot_node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (v && (ot_dtype_bits(v->dtype) < 8 || (ot_is_float(v->dtype) && ot_dtype_bits(v->dtype) < 16))) return false;
    }
    return true;
}

static const ot_shape *shape_of(const ot_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k]) return &n->out[k]->shape;
    return NULL;
}

/* Where the group of a node, or the node itself, runs. */
static int place(const fuse *f, int at) { return f->group_of[at] < 0 ? at : f->groups[f->group_of[at]].at; }

static bool inside(const fuse *f, const ot_value *v, int a, int b)
{
    const ot_node *p = v->producer;
    if (!is_map(f, p)) return false;
    int of = f->group_of[p->mark];
    return of == a || of == b;
}

/* Does every input of group b from outside of a exist before a runs? */
static bool can_go_up(const fuse *f, int a, int b)
{
    const group *up = &f->groups[a], *low = &f->groups[b];
    for (int m = 0; m < low->n; m++) {
        const ot_node *n = f->node[low->member[m]];
        for (int i = 0; i < n->n_in; i++) {
            const ot_node *p = n->in[i]->producer;
            if (!p || p->graph != f->g || inside(f, n->in[i], a, b)) continue;
            if (place(f, p->mark) >= up->at) return false;
        }
    }
    return true;
}

/* Does every reader of group a outside of b run after b? */
static bool can_go_down(const fuse *f, int a, int b)
{
    const group *up = &f->groups[a], *low = &f->groups[b];
    for (int m = 0; m < up->n; m++) {
        const ot_node *n = f->node[up->member[m]];
        for (int k = 0; k < n->n_out; k++) {
            if (!n->out[k]) continue;
            int id = n->out[k]->id;
            for (int u = f->first_use[id]; u < f->first_use[id + 1]; u++) {
                int reader = f->use[u], of = f->group_of[reader];
                if (of == a || (of == b && of >= 0)) continue;
                if (place(f, reader) <= low->at) return false;
            }
        }
    }
    return true;
}

/* Is v read by nodes other than those of groups a and b? */
static bool leaves(const fuse *f, const ot_value *v, int a, int b)
{
    if (f->kept[v->id]) return true;
    for (int u = f->first_use[v->id]; u < f->first_use[v->id + 1]; u++) {
        int of = f->group_of[f->use[u]];
        if (of < 0 || (of != a && of != b)) return true;
    }
    return false;
}

/* Is the joined program within the limits of map.h? */
static bool fits(const fuse *f, int a, int b)
{
    const ot_value *in[OT_MAP_IN];
    int n_in = 0, n_out = 0;
    if (f->groups[a].n + f->groups[b].n > MEMBERS || f->groups[a].inst + f->groups[b].inst > OT_MAP_INST) return false;
    for (int side = 0; side < 2; side++) {
        const group *gr = &f->groups[side ? b : a];
        for (int m = 0; m < gr->n; m++) {
            const ot_node *n = f->node[gr->member[m]];
            for (int i = 0; i < n->n_in; i++) {
                int k = 0;
                double value;
                if (inside(f, n->in[i], a, b) || is_immediate(n->in[i], &value)) continue;
                while (k < n_in && in[k] != n->in[i]) k++;
                if (k < n_in) continue;
                if (n_in == OT_MAP_IN) return false;
                in[n_in++] = n->in[i];
            }
            for (int k = 0; k < n->n_out; k++)
                if (n->out[k] && leaves(f, n->out[k], a, b) && ++n_out > OT_MAP_OUT) return false;
        }
    }
    return n_out > 0;
}

/* b joins a; members stay in list order. */
static void join(fuse *f, int a, int b, int at)
{
    group *x = &f->groups[a], *y = &f->groups[b];
    int i = x->n - 1, j = y->n - 1, k = x->n + y->n - 1;
    for (int m = 0; m < y->n; m++) f->group_of[y->member[m]] = a;
    while (j >= 0) x->member[k--] = i >= 0 && x->member[i] > y->member[j] ? x->member[i--] : y->member[j--];
    x->n += y->n;
    x->inst += y->inst;
    x->at = at;
    y->n = 0;
}

static void try_join(fuse *f, int p, int c)
{
    int a = f->group_of[p], b = f->group_of[c];
    if (a == b || f->node[p]->phase != f->node[c]->phase) return;
    if (!ot_shape_eq(shape_of(f->node[p]), shape_of(f->node[c]))) return;
    group *x = &f->groups[a], *y = &f->groups[b];
    if (y->at - x->at > REACH || !fits(f, a, b)) return;
    if (can_go_down(f, a, b)) join(f, a, b, y->at);
    else if (can_go_up(f, a, b)) join(f, a, b, x->at);
}

static void find_groups(fuse *f)
{
    for (int at = 0; at < f->n_nodes; at++) {
        const ot_node *n = f->node[at];
        const ot_program *p = n->attrs;
        f->group_of[at] = -1;
        if (!is_map(f, n) || !shape_of(n) || !joins(n)) continue;
        f->group_of[at] = at;
        f->groups[at] = (group){ .at = at, .n = 1, .inst = p->n_inst + p->n_in, .member = { at } };
    }
    for (int at = 0; at < f->n_nodes; at++) {
        const ot_node *n = f->node[at];
        if (f->group_of[at] < 0) continue;
        for (int i = 0; i < n->n_in; i++) {
            const ot_node *p = n->in[i]->producer;
            if (is_map(f, p) && f->group_of[p->mark] >= 0) try_join(f, p->mark, at);
        }
    }
}

/* ---- one program from several --------------------------------------------------------- */

typedef struct maker {
    const fuse *f;
    int group;
    ot_program m;
    ot_value *in[OT_MAP_IN];
    ot_value *out[OT_MAP_OUT];
    bool immediates; /* may scalar constants become instructions? */
    bool pulls;      /* may scalars be recomputed? */
    bool full;
} maker;

static int add_inst(maker *k, ot_inst inst)
{
    ot_program *m = &k->m;
    for (int i = 0; i < m->n_inst; i++) { /* the same again */
        const ot_inst *o = &m->inst[i];
        if (o->row == inst.row && o->cls == inst.cls && !memcmp(o->arg, inst.arg, sizeof o->arg) && o->p == inst.p &&
            o->q == inst.q)
            return m->n_in + i;
    }
    if (m->n_inst == OT_MAP_INST) {
        k->full = true;
        return 0;
    }
    m->inst[m->n_inst] = inst;
    return m->n_in + m->n_inst++;
}

/* Adding an input moves up the registers of instructions; inputs are therefore found first. */
static int find_input(const maker *k, const ot_value *v, int cls)
{
    for (int i = 0; i < k->m.n_in; i++)
        if (k->in[i] == v && k->m.in_class[i] == cls) return i;
    return -1;
}

/* Is v stored in memory, or is it internal to the program of its group? */
static bool in_memory(const fuse *f, const ot_value *v)
{
    int of = f->maker[v->id] < 0 ? -1 : f->group_of[f->maker[v->id]];
    return of < 0 || leaves(f, v, of, of);
}

/* The node that computes scalar v from few scalars, in the same phase; NULL: v is read from memory.  *inst, *in:
 * what remains of the limits. */
static const ot_node *pullable(const fuse *f, const ot_value *v, ot_phase phase, int *inst, int *in)
{
    if (ot_numel(&v->shape) != 1 || f->kept[v->id] || f->maker[v->id] < 0) return NULL;
    const ot_node *n = f->node[f->maker[v->id]];
    const ot_program *p = n->attrs;
    double value;
    if (n->op != &ot_op_Map || n->phase != phase || n->n_out != 1 || !joins(n)) return NULL;
    for (int i = 0; i < p->n_inst; i++)
        if (p->inst[i].row == OT_FN_Random || p->inst[i].row == OT_FN_Index) return NULL;
    if ((*inst -= p->n_inst + p->n_in) < 0) return NULL;
    for (int i = 0; i < n->n_in; i++) {
        if (is_immediate(n->in[i], &value)) continue;
        if (!pullable(f, n->in[i], phase, inst, in) && (!in_memory(f, n->in[i]) || --*in < 0)) return NULL;
        if (*inst < 0 || *in < 0) return NULL;
    }
    return n;
}

static const ot_node *pulled(const maker *k, const ot_value *v)
{
    int inst = PULL_INST, in = PULL_IN;
    return k->pulls ? pullable(k->f, v, k->f->node[k->f->groups[k->group].at]->phase, &inst, &in) : NULL;
}

static void gather_inputs(maker *k, const ot_node *n)
{
    const ot_program *p = n->attrs;
    double value;
    for (int i = 0; i < n->n_in && !k->full; i++) {
        ot_value *v = n->in[i];
        const ot_node *again;
        if (inside(k->f, v, k->group, k->group) || (k->immediates && is_immediate(v, &value))) continue;
        if ((again = pulled(k, v))) {
            gather_inputs(k, again);
            continue;
        }
        if (find_input(k, v, p->in_class[i]) >= 0) continue;
        if (k->m.n_in == OT_MAP_IN) {
            k->full = true;
            return;
        }
        k->in[k->m.n_in] = v;
        k->m.in_class[k->m.n_in++] = p->in_class[i];
    }
}

/* Is the register always 0 or 1? */
static bool is_truth(const ot_program *m, int reg)
{
    return reg >= m->n_in && ot_fn_is_compare(m->inst[reg - m->n_in].row);
}

/* The register of value v, computed in the program, as class cls reads it after rounding to the type of v. */
static int as_stored(maker *k, int reg, ot_dtype t, int cls)
{
    int from = ot_map_class(&k->m, reg);
    bool exact = t == ot_class_dtype((ot_class)from) || (t == OT_BOOL && is_truth(&k->m, reg));
    if (exact && from == cls) return reg;
    return add_inst(
        k, (ot_inst){
               .row = OT_FN_Convert, .cls = (uint8_t)cls, .arg = { (int8_t)reg, -1, -1, -1, -1 }, .p = exact ? 0 : t });
}

static void append(maker *k, const ot_node *n, int *made);

static int input_register(maker *k, ot_value *v, int cls, int *made)
{
    double value;
    const ot_node *again;
    if (inside(k->f, v, k->group, k->group)) return as_stored(k, made[v->id], v->dtype, cls);
    if (k->immediates && is_immediate(v, &value))
        return add_inst(k,
                        (ot_inst){ .row = OT_FN_Imm, .cls = (uint8_t)cls, .arg = { -1, -1, -1, -1, -1 }, .p = value });
    if ((again = pulled(k, v))) {
        append(k, again, made);
        return k->full ? 0 : as_stored(k, made[v->id], v->dtype, cls);
    }
    return find_input(k, v, cls);
}

/* Appends node n's program; made[id] is the register of each value made so far. */
static void append(maker *k, const ot_node *n, int *made)
{
    const ot_program *p = n->attrs;
    int reg[OT_MAP_IN + OT_MAP_INST];
    for (int i = 0; i < n->n_in && !k->full; i++) reg[i] = input_register(k, n->in[i], p->in_class[i], made);
    for (int i = 0; i < p->n_inst && !k->full; i++) {
        ot_inst inst = p->inst[i];
        for (int a = 0; a < OT_MAP_ARGS; a++)
            if (inst.arg[a] >= 0) inst.arg[a] = (int8_t)reg[inst.arg[a]];
        reg[p->n_in + i] = inst.row == OT_FN_Copy ? inst.arg[0] : add_inst(k, inst);
    }
    for (int o = 0; o < n->n_out && !k->full; o++)
        if (n->out[o]) made[n->out[o]->id] = reg[p->out[o]];
}

/* Makes values of node n that other nodes read outputs of the program. */
static void add_outputs(maker *k, const ot_node *n, const int *made)
{
    const ot_program *p = n->attrs;
    for (int o = 0; o < n->n_out && !k->full; o++) {
        ot_value *v = n->out[o];
        if (!v || !leaves(k->f, v, k->group, k->group)) continue;
        if (k->m.n_out == OT_MAP_OUT) {
            k->full = true;
            return;
        }
        k->out[k->m.n_out] = v;
        k->m.out[k->m.n_out] = (int8_t)made[v->id];
        k->m.out_dtype[k->m.n_out++] = p->out_dtype[o];
    }
}

/* Do the inputs still broadcast to the shape of the results? */
static bool keeps_shape(const maker *k)
{
    ot_shape s = OT_SCALAR;
    for (int i = 0; i < k->m.n_in; i++)
        if (!ot_broadcast(&s, &k->in[i]->shape, &s)) return false;
    return ot_shape_eq(&s, &k->out[0]->shape);
}

static bool make_program(maker *k, const group *gr, int *made)
{
    for (int m = 0; m < gr->n && !k->full; m++) gather_inputs(k, k->f->node[gr->member[m]]);
    for (int m = 0; m < gr->n && !k->full; m++) {
        append(k, k->f->node[gr->member[m]], made);
        add_outputs(k, k->f->node[gr->member[m]], made);
    }
    return !k->full && k->m.n_out > 0 && keeps_shape(k);
}

/* Replaces the nodes of the group by its program. */
static ot_status replace(fuse *f, int id, int *made)
{
    const group *gr = &f->groups[id];
    ot_graph *g = f->g;
    ot_node *at = f->node[gr->at];
    bool one = ot_numel(shape_of(at)) == 1; /* recomputing scalars has no benefit */
    maker k = { .f = f, .group = id, .immediates = true, .pulls = !one };
    if (!make_program(&k, gr, made)) {
        if (gr->n == 1) return OT_OK;
        k = (maker){ .f = f, .group = id };
        if (!make_program(&k, gr, made)) return OT_OK; /* too large after all: unchanged */
    }
    g->cursor = at;
    g->phase = at->phase;
    ot_node *n = ot_graph_node(g, &ot_op_Map, at->name, &k.m, k.in, k.m.n_in, k.m.n_out);
    g->cursor = NULL;
    g->phase = OT_PHASE_BATCH;
    if (!n) return g->err->status;
    n->mark = gr->at; /* still the group's */
    n->made = at->made;
    n->stage = at->stage;
    OT_TRY(ot_node_infer(n, g->err));
    for (int o = 0; o < k.m.n_out; o++) {
        n->out[o]->producer = NULL;
        n->out[o] = k.out[o];
        k.out[o]->producer = n;
        k.out[o]->port = o;
    }
    for (int m = 0; m < gr->n; m++) ot_graph_remove(g, f->node[gr->member[m]]);
    return OT_OK;
}

/* A single Map is worth replacing if it reads scalars that it can compute itself. */
static bool reads_scalars(const fuse *f, int at)
{
    const ot_node *n = f->node[at];
    for (int i = 0; i < n->n_in; i++) {
        int inst = PULL_INST, in = PULL_IN;
        if (ot_numel(shape_of(n)) > 1 && pullable(f, n->in[i], n->phase, &inst, &in)) return true;
    }
    return false;
}

/* Removes Maps whose results are no longer read: scalars that all readers compute themselves. */
static ot_status drop_dead(fuse *f)
{
    ot_graph *g = f->g;
    bool *read = calloc((size_t)g->n_values + 1, sizeof *read);
    if (!read) return ot_fail(g->err, OT_E_NOMEM, "no memory to fuse element-wise operators");
    for (ot_node *n = g->last, *prev; n; n = prev) {
        bool live = n->op != &ot_op_Map;
        prev = n->prev;
        for (int k = 0; k < n->n_out && !live; k++) {
            const ot_value *v = n->out[k];
            live = v && (read[v->id] || f->kept[v->id]);
        }
        for (int i = 0; i < n->n_in && live; i++)
            if (n->in[i]) read[n->in[i]->id] = true;
        if (!live) ot_graph_remove(g, n);
    }
    free(read);
    return OT_OK;
}

ot_status ot_pass_fuse(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    fuse f = { .g = g, .plan = p };
    int *made = calloc((size_t)g->n_values + 1, sizeof *made);
    ot_status s = made ? fuse_init(&f) : ot_fail(g->err, OT_E_NOMEM, "no memory to fuse element-wise operators");
    if (s == OT_OK) find_groups(&f);
    for (int at = 0; at < f.n_nodes && s == OT_OK; at++)
        if (f.group_of[at] == at && (f.groups[at].n > 1 || reads_scalars(&f, at))) s = replace(&f, at, made);
    if (s == OT_OK) s = drop_dead(&f);
    if (s == OT_OK) s = ot_fuse_reduces(p, c, f.kept);
    if (s == OT_OK) s = ot_fuse_attention(p, c, f.kept);
    fuse_free(&f);
    free(made);
    return s;
}
