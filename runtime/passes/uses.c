/* uses.c - where the initializers of a graph are used. */
#include "runtime/passes/uses.h"

#include "ops/onnx/control.h"
#include "runtime/passes/evidence.h"
#include "runtime/passes/exporters.h"

/* ---- uses ------------------------------------------------------------------ */

enum { DEEP = 24 }; /* nodes between an initializer and its slot */

/* Was v met in this walk, and no deeper?  There are more ways through a graph than values. */
static bool is_met(const ot_uses *u, const ot_value *v, bool computed, int depth)
{
    if (!depth) ++*u->walk;
    int *seen = &u->seen[2 * v->id + computed], from = *u->walk * (DEEP + 1);
    bool met = *seen >= from && *seen - from <= depth;
    if (!met) *seen = from + depth;
    return met;
}

/* Visits every input that nodes of g, and of the subgraphs below them, read from g: once to count
 * (list NULL), once to fill. */
static void visit_uses(const ot_graph *g, const ot_graph *in, ot_uses *u, int *total)
{
    for (const ot_node *n = in->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++) {
            if (!ot_graph_has(g, n->in[i])) continue;
            if (u->list) u->list[u->first[n->in[i]->id + 1]++] = (ot_slot_use){ n, i };
            else u->first[n->in[i]->id + 2]++, *total += 1;
        }
        for (int i = 0; ot_subgraph(n, i); i++) visit_uses(g, ot_subgraph(n, i), u, total);
    }
}

ot_status ot_find_uses(ot_graph *g, ot_uses *u)
{
    int total = 0;
    *u = (ot_uses){ .first = ot_graph_alloc(g, (size_t)(g->n_values + 2) * sizeof *u->first),
                    .output = ot_graph_alloc(g, (size_t)g->n_values + 1),
                    .seen = ot_graph_alloc(g, ((size_t)g->n_values + 1) * 2 * sizeof *u->seen),
                    .walk = ot_graph_alloc(g, sizeof *u->walk),
                    .passes = ot_graph_alloc(g, sizeof *u->passes) };
    if (!u->first || !u->output || !u->seen || !u->walk || !u->passes) return g->err->status;
    for (int i = 0; i < g->n_outputs; i++)
        if (ot_graph_has(g, g->outputs[i])) u->output[g->outputs[i]->id] = true;
    visit_uses(g, g, u, &total);
    for (int i = 2; i < g->n_values + 2; i++) u->first[i] += u->first[i - 1];
    u->list = ot_graph_alloc(g, (size_t)total * sizeof *u->list);
    if (!u->list) return g->err->status;
    visit_uses(g, g, u, &total);
    return OT_OK;
}

/* ---- reachability ----------------------------------------------------------- */

/* Does any output of n lead to an output of the graph?  (Of an LSTM, the last state alone may be used.) */
static bool reaches(const ot_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->mark & OT_MARK_REACHES) return true;
    return false;
}

/* Values that a subgraph's nodes read from g reach what the owner of the subgraph reaches. */
static void mark_captured(const ot_graph *g, const ot_graph *sub)
{
    for (const ot_node *n = sub->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++)
            if (ot_graph_has(g, n->in[i]) && !ot_is_nondiff(n->op, i)) n->in[i]->mark |= OT_MARK_REACHES;
        for (int i = 0; ot_subgraph(n, i); i++) mark_captured(g, ot_subgraph(n, i));
    }
    for (int i = 0; i < sub->n_outputs; i++)
        if (ot_graph_has(g, sub->outputs[i])) sub->outputs[i]->mark |= OT_MARK_REACHES;
}

/* Do the elements of n's outputs depend on an input of the graph, or on random numbers?  Types and shapes of inputs
 * do not count; bodies of If, Loop and Scan count as dependent on inputs. */
static bool is_fed(const ot_node *n)
{
    bool fed = n->n_in == 0;
    for (int i = 0; i < n->n_in && !(n->op->flags & OT_FROM_SHAPES); i++)
        fed |= n->in[i] && n->in[i]->mark & OT_MARK_FED && !ot_is_type_only(n->op, i);
    return fed || ot_subgraph(n, 0);
}

/* Has c several elements along axis d alone, before an axis along which x has several: one for each colour of a grey picture? */
static bool is_by_channel(const ot_value *x, const ot_value *c, int d)
{
    bool inner = false;
    for (int i = 1; i <= d && i < x->shape.rank; i++) inner |= x->shape.dim[x->shape.rank - i] != 1;
    return inner && d < c->shape.rank && ot_numel(&c->shape) == c->shape.dim[c->shape.rank - 1 - d];
}

/* Does an operand give the other one, or what comes before it, an axis or more elements along one of its axes?  Not the means and
 * deviations of colours, which a grey picture has too where a network expects colours.  Sizes are known (begin_sizes). */
static bool widens(const ot_node *n)
{
    const ot_value *x = n->in[0], *c = n->in[1], *y = n->out[0];
    if (n->n_in != 2 || !x || !c || !y || y->shape.rank < 0) return false;
    if (!(x->mark & OT_MARK_NORMALISED)) x = n->in[1], c = n->in[0];
    for (int d = 0; d < y->shape.rank; d++) { /* from the last axis */
        bool own = d < x->shape.rank;
        if (y->shape.dim[y->shape.rank - 1 - d] != (own ? x->shape.dim[x->shape.rank - 1 - d] : 1))
            return !own || !is_by_channel(x, c, d);
    }
    return false;
}

/* Sizes of what operators that only move elements, and arithmetic with constants, make of the inputs and of constants. */
typedef struct near_inputs {
    ot_shape *input; /* as declared */
    ot_node **node;  /* whose outputs have sizes for now */
    int n_nodes;
} near_inputs;

/* An axis of open size has this many elements for now: more than one. */
enum { OPEN_SIZE = 8191 };

static bool begin_sizes(ot_graph *g, near_inputs *s)
{
    int nodes = 0;
    for (const ot_node *n = g->first; n; n = n->next) nodes++;
    *s = (near_inputs){ .input = ot_graph_alloc(g, (size_t)(g->n_inputs + 1) * sizeof *s->input),
                        .node = ot_graph_alloc(g, (size_t)(nodes + 1) * sizeof *s->node) };
    if (!s->input || !s->node) return false;
    for (int i = 0; i < g->n_inputs; i++) {
        ot_shape *shape = &g->inputs[i]->shape;
        s->input[i] = *shape;
        for (int d = 0; d < shape->rank; d++)
            if (shape->dim[d] < 0) shape->dim[d] = OPEN_SIZE;
    }
    return true;
}

static void forget(ot_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) n->out[i]->shape.rank = -1, n->out[i]->dtype = OT_UNDEFINED;
}

static void add_sizes(ot_node *n, near_inputs *s)
{
    ot_error why = { 0 };
    bool known = n->n_out > 0 && n->out[0] && n->out[0]->shape.rank < 0 && !(n->op->flags & (OT_LISTS | OT_SPELLED));
    for (int i = 0; i < n->n_in && known; i++) known = !n->in[i] || n->in[i]->shape.rank >= 0;
    if (!known) return;
    if (ot_node_infer(n, &why) == OT_OK) s->node[s->n_nodes++] = n;
    else forget(n);
}

static void end_sizes(ot_graph *g, const near_inputs *s)
{
    for (int i = 0; i < g->n_inputs; i++) g->inputs[i]->shape = s->input[i];
    for (int i = 0; i < s->n_nodes; i++) forget(s->node[i]);
}

/* Is v computed from initializers through a bounded function: a Sigmoid or Tanh (a gate), a Softmax (shares of a sum)? */
static bool is_gate(const ot_value *v, int depth)
{
    const ot_node *n = v->producer;
    if (!n || v->mark & OT_MARK_FED || depth > 4) return false;
    if (n->op == &ot_op_Sigmoid || n->op == &ot_op_HardSigmoid || n->op == &ot_op_Tanh || n->op == &ot_op_Softmax)
        return true;
    char slot = ot_slot_at(n->op, 0);
    for (int i = 0; i < n->n_in && (ot_slot_is_arithmetic(slot) || (slot == '>' && !i)); i++)
        if (n->in[i] && is_gate(n->in[i], depth + 1)) return true;
    return false;
}

void ot_mark_uses(ot_graph *g)
{
    near_inputs sizes;
    if (!begin_sizes(g, &sizes)) return;
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    for (int i = 0; i < g->n_inputs; i++) g->inputs[i]->mark |= OT_MARK_NORMALISED | OT_MARK_FED;
    for (ot_node *n = g->first; n; n = n->next) {
        bool fed = is_fed(n);
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] && fed) n->out[i]->mark |= OT_MARK_FED;
        bool arith = ot_slot_is_arithmetic(ot_slot_at(n->op, 0)), any = false, all = true;
        for (int i = 0; i < n->n_in; i++) {
            const ot_value *v = n->in[i];
            if (!v || (i && !arith)) continue;
            any |= (v->mark & OT_MARK_NORMALISED) != 0;
            all &=
                (v->mark & OT_MARK_NORMALISED) || v->role == OT_CONST || (!(v->mark & OT_MARK_FED) && !is_gate(v, 0));
        }
        bool near = (arith || ot_slot_at(n->op, 0) == '>') && n->out[0], normalised = near && any && all;
        if (near && (normalised || !fed)) add_sizes(n, &sizes);
        if (normalised) n->out[0]->mark |= arith && widens(n) ? OT_MARK_WIDENED : OT_MARK_NORMALISED;
    }
    end_sizes(g, &sizes);
    for (int i = 0; i < g->n_outputs; i++) g->outputs[i]->mark |= OT_MARK_REACHES;
    for (ot_node *n = g->last; n; n = n->prev) {
        if (!reaches(n) || n->op->grad_zero) continue;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && !ot_is_nondiff(n->op, i)) n->in[i]->mark |= OT_MARK_REACHES;
        for (int i = 0; ot_subgraph(n, i); i++) mark_captured(g, ot_subgraph(n, i));
    }
}

/* ---- the strongest slot ------------------------------------------------------ */

static ot_strength strength_of(char slot)
{
    return slot == 't'               ? OT_USE_STATISTIC
           : ot_slot_is_strong(slot) ? OT_USE_STRONG
           : ot_slot_is_weak(slot)   ? OT_USE_WEAK
                                     : OT_USE_NONE;
}

/* The input of the graph that v is, or is after arithmetic with constants. */
static ot_value *input_behind(ot_value *v)
{
    while (v->producer) {
        ot_value *from = NULL;
        for (int i = 0; i < v->producer->n_in && !from; i++) {
            ot_value *in = v->producer->in[i];
            if (in && in->mark & (OT_MARK_NORMALISED | OT_MARK_WIDENED)) from = in;
        }
        if (!from) break;
        v = from;
    }
    return v;
}

/* Is v computed from x, an input of g?  A few questions are answered: each of them looks at all nodes. */
static bool depends_on(const ot_graph *g, const ot_uses *u, ot_value *x, const ot_value *v)
{
    enum { MOST = 256 };
    if (++*u->passes > MOST) return false;
    x->mark |= OT_MARK_INSIDE;
    for (const ot_node *n = g->first; n; n = n->next) {
        int inside = 0;
        for (int i = 0; i < n->n_in; i++) inside |= n->in[i] ? n->in[i]->mark & OT_MARK_INSIDE : 0;
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i]) n->out[i]->mark |= inside;
    }
    bool depends = v->mark & OT_MARK_INSIDE;
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark &= ~OT_MARK_INSIDE;
    return depends;
}

/* Is v, an input x after arithmetic with constants, only added to what layers compute from x: a skip connection?  No layer and no
 * function reads it.  What is added to values of other inputs is a mask of scores; what is subtracted, targets of a loss. */
static bool is_skip(const ot_graph *g, const ot_uses *u, ot_value *v, int depth)
{
    if (u->output[v->id] || depth > 4) return false;
    for (int i = u->first[v->id]; i < u->first[v->id + 1]; i++) {
        const ot_node *n = u->list[i].node;
        char slot = ot_slot_at(n->op, u->list[i].input);
        if (!n->out[0] || !ot_graph_has(g, n->out[0]) || (!ot_slot_is_arithmetic(slot) && slot != '>')) return false;
        const ot_value *with = NULL;
        for (int k = 0; k < n->n_in && slot != '>'; k++)
            if (n->in[k] && n->in[k]->mark & OT_MARK_FED && !(n->in[k]->mark & (OT_MARK_NORMALISED | OT_MARK_WIDENED)))
                with = n->in[k];
        if (with ? n->op != &ot_op_Add || !depends_on(g, u, input_behind(v), with)
                 : !is_skip(g, u, n->out[0], depth + 1))
            return false;
    }
    return u->first[v->id] < u->first[v->id + 1];
}

/* Arithmetic between start, or what is computed from it, and an input that was not widened: the mean or the deviation of the input?  Not
 * what a gate computes, the factor of a skip connection, nor a centre of its own; where centres are steps, they are an even grid, which
 * is none. */
static bool at_input(const ot_graph *g, const ot_uses *u, const ot_node *n, int input, const ot_value *start)
{
    if (n->out[0]->mark & OT_MARK_WIDENED && ot_pattern_of(start) != OT_PATTERN_STEPS) return false;
    if (ot_name_is_of_layer(start->name) || is_gate(n->in[input], 0)) return false;
    for (int i = 0; i < n->n_in; i++)
        if (i != input && n->in[i] && n->in[i]->mark & OT_MARK_NORMALISED)
            return n->op != &ot_op_Mul || !ot_graph_has(g, n->out[0]) || !is_skip(g, u, n->out[0], 0);
    return false;
}

/* The scale of the integers times the scales of the QuantizeLinears on the way. */
static bool scales_integers(const ot_node *n, int input)
{
    for (int i = 0; i < n->n_in; i++) {
        const ot_node *p = i != input && n->in[i] ? n->in[i]->producer : NULL;
        if (p && p->op == &ot_op_DynamicQuantizeLinear) return true;
    }
    return false;
}

/* May what is computed from v alone lead to the slot that v feeds?  Not from single elements with generated names, and in files
 * that list their parameters from none with such names: from parameters the exporter would have computed the rest as well. */
static bool is_source(const ot_graph *g, const ot_value *v)
{
    return !v->from_constant && (!ot_name_is_made(v->name) || (!g->listed && ot_numel(&v->shape) > 1));
}

/* Keeps the strongest slot that marked values feed in the subgraph and below it, through nodes that move elements. */
static void judge_inside(const ot_graph *in, ot_verdict *best)
{
    for (const ot_node *n = in->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++) {
            if (!n->in[i] || !(n->in[i]->mark & OT_MARK_INSIDE)) continue;
            char slot = ot_slot_at(n->op, i);
            ot_strength s = strength_of(slot);
            if (ot_slot_is_one_of(slot, ">~") && n->out[0]) n->out[0]->mark |= OT_MARK_INSIDE;
            if (s != OT_USE_STATISTIC && s > best->how) best->how = s, best->node = n, best->input = i;
        }
        for (int i = 0; ot_subgraph(n, i); i++) judge_inside(ot_subgraph(n, i), best);
    }
    for (const ot_node *n = in->first; n; n = n->next)
        if (n->out[0]) n->out[0]->mark &= ~OT_MARK_INSIDE;
}

static void judge_in(const ot_graph *in, ot_value *v, ot_verdict *best)
{
    v->mark |= OT_MARK_INSIDE;
    judge_inside(in, best);
    v->mark &= ~OT_MARK_INSIDE;
}

/* Does the body of n read input `input` of n in parts?  num_scan_inputs may be any number: the shape rule, which judges it, has not run yet. */
static bool is_scanned(const ot_node *n, int input)
{
    const ot_scan_attrs *a = n->attrs;
    return n->op == &ot_op_Scan && n->n_in - input <= a->num_scan_inputs && input < a->body->n_inputs;
}

/* Is v a weight of a recurrent layer, which no formula has?  Not the zeros beside the one bias of a layer. */
static bool is_recurrent(const ot_value *v, const ot_verdict *d)
{
    return d->how == OT_USE_STRONG && strchr(d->node->op->slots, 'h') && ot_pattern_of(v) != OT_PATTERN_EQUAL;
}

/* Finds where start is used, following v; keeps the strongest slot.  computed: v no longer has the elements of
 * start. */
static void judge(const ot_graph *g, const ot_uses *u, const ot_value *start, const ot_value *v, bool computed,
                  int depth, ot_verdict *best)
{
    if (is_met(u, v, computed, depth)) return;
    for (int i = u->first[v->id]; i < u->first[v->id + 1]; i++) {
        const ot_slot_use *k = &u->list[i];
        const ot_node *n = k->node;
        bool here = n->out[0] && ot_graph_has(g, n->out[0]); /* else: a node of a subgraph */
        char slot = ot_slot_at(n->op, k->input);
        const ot_graph *body = is_scanned(n, k->input) ? ((const ot_scan_attrs *)n->attrs)->body : NULL;
        if (body) judge_in(body, body->inputs[k->input], best);
        if (!here && ot_slot_is_one_of(slot, ">~") && n->out[0]) judge_in(n->graph, n->out[0], best);
        bool moved = here && ot_slot_is_one_of(slot, ">~");
        bool apart = here && !(n->out[0]->mark & OT_MARK_FED) && !n->op->grad_zero && !ot_is_nondiff(n->op, k->input);
        bool source = is_source(g, start);
        bool joined = apart && !source && n->op == &ot_op_Concat; /* parts of gates, as PyTorch exports scripts */
        if (depth < DEEP && (moved || joined || (apart && source))) {
            ot_verdict before = *best;
            best->normaliser = false;
            for (int o = 0; o < n->n_out; o++)
                if (n->out[o]) judge(g, u, start, n->out[o], computed || !(moved || joined), depth + 1, best);
            /* a range from two limits, a deviation from a variance; not one number that multiplies a table */
            bool normaliser = best->normaliser && ot_numel(&start->shape) > 1;
            best->normaliser |= before.normaliser;
            if (joined && best->how > before.how && !is_recurrent(start, best)) *best = before;
            best->apart |= !moved && !joined && best->how > before.how;
            if (moved || normaliser || best->how > before.how) continue;
        }
        ot_strength s = strength_of(slot);
        if (s == OT_USE_STATISTIC && computed) continue;
        if (s != OT_USE_STATISTIC && here && !reaches(n)) continue;
        if (ot_slot_is_arithmetic(slot) && at_input(g, u, n, k->input, start) &&
            ot_folded_norm(g, start) != OT_NORM_FOLD_PARAMETER) {
            best->normaliser = true;
            continue;
        }
        if (here && n->out[0]->mark & OT_MARK_PREPARED) {
            best->prepares = true;
            continue;
        }
        if ((slot == 'x' && ot_is_rotary(g, start)) || (slot == 'M' && ot_is_transform(g, start))) {
            best->rotary = true;
            continue;
        }
        if (s == OT_USE_WEAK && scales_integers(n, k->input)) continue;
        if (s > best->how)
            *best = (ot_verdict){ s, n, k->input, best->normaliser, best->rotary, best->prepares, false, best->uses };
    }
}

ot_verdict ot_judge(const ot_graph *g, const ot_uses *u, const ot_value *v)
{
    ot_verdict d = { .uses = u->first[v->id + 1] - u->first[v->id] };
    judge(g, u, v, v, false, 0, &d);
    return d;
}

static bool only_gates(const ot_graph *g, const ot_uses *u, const ot_value *v, int depth)
{
    bool any = false;
    if (is_met(u, v, false, depth)) return true; /* else there would be no answer left to find */
    for (int i = u->first[v->id]; i < u->first[v->id + 1]; i++) {
        const ot_node *n = u->list[i].node;
        int input = u->list[i].input;
        if (ot_is_nondiff(n->op, input)) continue; /* a comparison with it */
        bool here = n->out[0] && ot_graph_has(g, n->out[0]);
        bool on = here && depth < DEEP &&
                  (ot_slot_is_one_of(ot_slot_at(n->op, input), ">~") || !(n->out[0]->mark & OT_MARK_FED));
        if (n->op != &ot_op_Mul && !(on && only_gates(g, u, n->out[0], depth + 1))) return false;
        any = true;
    }
    return any;
}

bool ot_only_gates(const ot_graph *g, const ot_uses *u, const ot_value *v) { return only_gates(g, u, v, 0); }
