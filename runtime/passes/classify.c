/* classify.c - classifies every initializer as weight, statistic or constant, with the reason.
 *
 * An initializer is classified by the slots it feeds, through operators that only reshape or convert, and through
 * any operator that depends on no input of the graph (weight norm, exp of a temperature, a table that is gathered
 * once), in bodies of If, Loop and Scan too:
 *  strong   operands of Conv, Gemm, MatMul, Gather, recurrent layers ...: trains
 *  weak     norm scale and bias, operands of Add, Sub, Mul, Div, Concat, Where ..., PRelu: trains from rank 1 up;
 *           values of Constant nodes only if the file keeps all its weights in Constants
 *  neither  constants of arithmetic, bounds, sizes: does not train
 * If the exporter generated the name, the values count too (evidence.h): masks, positions, grids and single elements
 * are constants.  Values that look like weights train, because exporters compute weights (transposed, reshaped,
 * folded).
 * If the file lists its parameters and buffers (importer/signature.c), that list decides.
 * Scalars train only if named like a parameter, wherever they lead.
 * Integers that only DequantizeLinear reads are classified as the floats they represent, and become floats if they
 * train (stored.h).
 * Never trained: other integers, rotary tables, normalisers right at an input, the vectors of spectral_norm, values
 * that reach no output through a differentiable path.
 * --train and --freeze override. */
#include <math.h>
#include <string.h>

#include "ops/onnx/control.h"
#include "ops/op.h"
#include "runtime/passes/evidence.h"
#include "runtime/passes/exporters.h"
#include "runtime/passes/recognise.h"
#include "runtime/passes/stored.h"

typedef enum strength { NO_SLOT, WEAK, STRONG, STATISTIC } strength;

static bool is_one_of(char slot, const char *letters) { return strchr(letters, slot) != NULL; }

/* Add, Sub, Mul, Div. */
static bool is_arithmetic(char slot) { return is_one_of(slot, "axd"); }

/* ---- uses ------------------------------------------------------------------ */

typedef struct use {
    const ot_node *node;
    int input;
} use;
typedef struct uses {
    int *first;
    use *list;
    bool *output; /* by value id: of the graph */
    int *seen;    /* [2 * id + computed]: in which walk, and how deep */
    int *walk;    /* walks so far */
} uses;           /* list[first[id] .. first[id+1]) */

enum { DEEP = 24 }; /* nodes between an initializer and its slot */

/* Was v met in this walk, and no deeper?  There are more ways through a graph than values. */
static bool is_met(const uses *u, const ot_value *v, bool computed, int depth)
{
    if (!depth) ++*u->walk;
    int *seen = &u->seen[2 * v->id + computed], from = *u->walk * (DEEP + 1);
    bool met = *seen >= from && *seen - from <= depth;
    if (!met) *seen = from + depth;
    return met;
}

/* Visits every input that nodes of g, and of the subgraphs below them, read from g: once to count
 * (list NULL), once to fill. */
static void visit_uses(const ot_graph *g, const ot_graph *in, uses *u, int *total)
{
    for (const ot_node *n = in->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++) {
            if (!ot_graph_has(g, n->in[i])) continue;
            if (u->list) u->list[u->first[n->in[i]->id + 1]++] = (use){ n, i };
            else u->first[n->in[i]->id + 2]++, *total += 1;
        }
        for (int i = 0; ot_subgraph(n, i); i++) visit_uses(g, ot_subgraph(n, i), u, total);
    }
}

static ot_status find_uses(ot_graph *g, uses *u)
{
    int total = 0;
    *u = (uses){ .first = ot_graph_alloc(g, (size_t)(g->n_values + 2) * sizeof *u->first),
                 .output = ot_graph_alloc(g, (size_t)g->n_values + 1),
                 .seen = ot_graph_alloc(g, ((size_t)g->n_values + 1) * 2 * sizeof *u->seen),
                 .walk = ot_graph_alloc(g, sizeof *u->walk) };
    if (!u->first || !u->output || !u->seen || !u->walk) return g->err->status;
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

enum { REACHES = 1, NORMALISED = 2, FED = 4, PREPARED = 8, SPARE = 16, INSIDE = 32 }; /* value->mark */

/* Does any output of n lead to an output of the graph?  (Of an LSTM, the last state alone may be used.) */
static bool reaches(const ot_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->mark & REACHES) return true;
    return false;
}

/* Values that a subgraph's nodes read from g reach what the owner of the subgraph reaches. */
static void mark_captured(const ot_graph *g, const ot_graph *sub)
{
    for (const ot_node *n = sub->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++)
            if (ot_graph_has(g, n->in[i]) && !ot_is_nondiff(n->op, i)) n->in[i]->mark |= REACHES;
        for (int i = 0; ot_subgraph(n, i); i++) mark_captured(g, ot_subgraph(n, i));
    }
    for (int i = 0; i < sub->n_outputs; i++)
        if (ot_graph_has(g, sub->outputs[i])) sub->outputs[i]->mark |= REACHES;
}

/* Do the elements of n's outputs depend on an input of the graph, or on random numbers?  Types and shapes of inputs
 * do not count; bodies of If, Loop and Scan count as dependent on inputs. */
static bool is_fed(const ot_node *n)
{
    bool fed = n->n_in == 0;
    for (int i = 0; i < n->n_in && !(n->op->flags & OT_FROM_SHAPES); i++)
        fed |= n->in[i] && n->in[i]->mark & FED && !ot_is_type_only(n->op, i);
    return fed || ot_subgraph(n, 0);
}

/* REACHES: a float path leads to an output.  NORMALISED: an input, or one after arithmetic with constants only.
 * FED: depends on an input. */
static void mark_values(ot_graph *g)
{
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    for (int i = 0; i < g->n_inputs; i++) g->inputs[i]->mark |= NORMALISED | FED;
    for (ot_node *n = g->first; n; n = n->next) {
        bool fed = is_fed(n);
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] && fed) n->out[i]->mark |= FED;
        bool arith = is_arithmetic(ot_slot_at(n->op, 0)), any = false, all = true;
        for (int i = 0; i < n->n_in; i++) {
            const ot_value *v = n->in[i];
            if (!v || (i && !arith)) continue;
            any |= (v->mark & NORMALISED) != 0;
            all &= (v->mark & NORMALISED) || v->role == OT_CONST;
        }
        if (any && all && (arith || ot_slot_at(n->op, 0) == '>') && n->out[0]) n->out[0]->mark |= NORMALISED;
    }
    for (int i = 0; i < g->n_outputs; i++) g->outputs[i]->mark |= REACHES;
    for (ot_node *n = g->last; n; n = n->prev) {
        if (!reaches(n) || n->op->grad_zero) continue;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && !ot_is_nondiff(n->op, i)) n->in[i]->mark |= REACHES;
        for (int i = 0; ot_subgraph(n, i); i++) mark_captured(g, ot_subgraph(n, i));
    }
}

/* ---- classifying one initializer -------------------------------------------- */

typedef struct verdict {
    strength how;
    const ot_node *node; /* the operator whose slot it is */
    int input;
    bool normaliser, rotary, prepares;
    bool apart; /* computed from the initializer alone before it reaches the operator */
    int uses;   /* nodes that read the initializer */
} verdict;

static strength strength_of(char slot)
{
    return slot == 't' ? STATISTIC : ot_slot_is_strong(slot) ? STRONG : ot_slot_is_weak(slot) ? WEAK : NO_SLOT;
}

static bool at_input(const ot_node *n, int input) /* arithmetic between it and a normalised input */
{
    for (int i = 0; i < n->n_in; i++)
        if (i != input && n->in[i] && n->in[i]->mark & NORMALISED) return true;
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
static void judge_inside(const ot_graph *in, verdict *best)
{
    for (const ot_node *n = in->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++) {
            if (!n->in[i] || !(n->in[i]->mark & INSIDE)) continue;
            char slot = ot_slot_at(n->op, i);
            strength s = strength_of(slot);
            if (is_one_of(slot, ">~") && n->out[0]) n->out[0]->mark |= INSIDE;
            if (s != STATISTIC && s > best->how) best->how = s, best->node = n, best->input = i;
        }
        for (int i = 0; ot_subgraph(n, i); i++) judge_inside(ot_subgraph(n, i), best);
    }
    for (const ot_node *n = in->first; n; n = n->next)
        if (n->out[0]) n->out[0]->mark &= ~INSIDE;
}

static void judge_in(const ot_graph *in, ot_value *v, verdict *best)
{
    v->mark |= INSIDE;
    judge_inside(in, best);
    v->mark &= ~INSIDE;
}

/* Does the body of n read input `input` of n in parts? */
static bool is_scanned(const ot_node *n, int input)
{
    const ot_scan_attrs *a = n->attrs;
    return n->op == &ot_op_Scan && input >= n->n_in - a->num_scan_inputs && input < a->body->n_inputs;
}

/* Finds where start is used, following v; keeps the strongest slot.  computed: v no longer has the elements of
 * start. */
static void judge(const ot_graph *g, const uses *u, const ot_value *start, const ot_value *v, bool computed, int depth,
                  verdict *best)
{
    if (is_met(u, v, computed, depth)) return;
    for (int i = u->first[v->id]; i < u->first[v->id + 1]; i++) {
        const use *k = &u->list[i];
        const ot_node *n = k->node;
        bool here = n->out[0] && ot_graph_has(g, n->out[0]); /* else: a node of a subgraph */
        char slot = ot_slot_at(n->op, k->input);
        const ot_graph *body = is_scanned(n, k->input) ? ((const ot_scan_attrs *)n->attrs)->body : NULL;
        if (body) judge_in(body, body->inputs[k->input], best);
        if (!here && is_one_of(slot, ">~") && n->out[0]) judge_in(n->graph, n->out[0], best);
        bool moved = here && is_one_of(slot, ">~");
        bool apart =
            here && !(n->out[0]->mark & FED) && !n->op->grad_zero && !ot_is_nondiff(n->op, k->input);
        if (depth < DEEP && (moved || (apart && is_source(g, start)))) {
            verdict before = *best;
            for (int o = 0; o < n->n_out; o++)
                if (n->out[o]) judge(g, u, start, n->out[o], computed || !moved, depth + 1, best);
            best->apart |= !moved && best->how > before.how;
            if (moved || best->how > before.how) continue;
        }
        strength s = strength_of(slot);
        if (s == STATISTIC && computed) continue;
        if (s != STATISTIC && here && !reaches(n)) continue;
        if (is_arithmetic(slot) && at_input(n, k->input) && ot_folded_norm(g, start) != OT_NORM_FOLD_PARAMETER) {
            best->normaliser = true;
            continue;
        }
        if (here && n->out[0]->mark & PREPARED) {
            best->prepares = true;
            continue;
        }
        if (slot == 'x' && ot_is_rotary(g, start)) {
            best->rotary = true;
            continue;
        }
        if (s == WEAK && scales_integers(n, k->input)) continue;
        if (s > best->how)
            *best = (verdict){ s, n, k->input, best->normaliser, best->rotary, best->prepares, false, best->uses };
    }
}

/* Is v, or what is computed from it alone, multiplied with something wherever it is read? */
static bool only_gates(const ot_graph *g, const uses *u, const ot_value *v, int depth)
{
    bool any = false;
    if (is_met(u, v, false, depth)) return true; /* else there would be no answer left to find */
    for (int i = u->first[v->id]; i < u->first[v->id + 1]; i++) {
        const ot_node *n = u->list[i].node;
        int input = u->list[i].input;
        if (ot_is_nondiff(n->op, input)) continue; /* a comparison with it */
        bool here = n->out[0] && ot_graph_has(g, n->out[0]);
        bool on = here && depth < DEEP && (is_one_of(ot_slot_at(n->op, input), ">~") || !(n->out[0]->mark & FED));
        if (n->op != &ot_op_Mul && !(on && only_gates(g, u, n->out[0], depth + 1))) return false;
        any = true;
    }
    return any;
}

/* ---- patterns over initializer names ---------------------------------------- */

/* The rank of the most specific matching pattern.  -1: none matches. */
static int best_rank(const char *const *pattern, int n, const char *name)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        int rank = ot_pattern_rank(pattern[i], name);
        if (rank > best) best = rank;
    }
    return best;
}

static ot_status check_patterns(const ot_graph *g, const char *option, const char *const *pattern, int n)
{
    for (int i = 0; i < n; i++) {
        bool hit = false;
        for (int k = 0; k < g->n_values && !hit; k++)
            hit = g->values[k]->source >= 0 && ot_pattern_rank(pattern[i], g->values[k]->name) >= 0;
        if (!hit)
            return ot_fail(g->err, OT_E_USAGE, "--%s %s: no initializer matches (see 'onnxtrain inspect')", option,
                           pattern[i]);
    }
    return OT_OK;
}

/* ---- the pass --------------------------------------------------------------- */

/* The DequantizeLinear that reads v, if v is integers that only DequantizeLinears like it read; else NULL. */
static ot_node *dequantiser(const ot_graph *g, const uses *u, const ot_value *v)
{
    int from = u->first[v->id], to = u->first[v->id + 1];
    ot_node *n = from < to && ot_is_int(v->dtype) ? (ot_node *)(uintptr_t)u->list[from].node : NULL;
    for (int i = from; n && i < to; i++) {
        const use *k = &u->list[i];
        bool here = k->node->op == &ot_op_DequantizeLinear && !k->input && ot_graph_has(g, k->node->out[0]);
        if (!here || !ot_stored_alike(k->node, n)) return NULL;
    }
    return n;
}

/* How a file stores its weights. */
typedef struct habits {
    const uses *uses;
    bool in_constants;        /* all of them in Constant nodes: no initializer feeds a strong slot */
    bool names;               /* some have the names of the program that exported them */
    bool paths;               /* and those are paths: "fc.weight" */
    bool listed;              /* the file lists its parameters */
    bool layers;              /* some are weights of layers */
    bool biases;              /* and those that the exporter computed may be biases */
    bool accounted;           /* all that the exporter computed may be operands of products; others come from buffers */
    const ot_value **operand; /* these operands, where parameters are missing by name */
    int operands;
} habits;

/* Is v, an operand of a product, computed from a parameter that no other operand is computed from?  A layer that is
 * called twice has two copies. */
static bool is_new_operand(const ot_graph *g, const ot_value *v, const habits *h)
{
    if (v->shape.rank < 2 || !ot_name_is_made(v->name) || ot_pattern_of(v) != OT_PATTERN_NONE || ot_copies_listed(g, v))
        return false;
    for (int i = 0; i < h->operands; i++)
        if (ot_same_in_order(h->operand[i], v)) return false;
    return true;
}

/* Is v a second copy of the parameter that such an operand is computed from? */
static bool copies_operand(const ot_value *v, const habits *h)
{
    for (int i = 0; i < h->operands; i++)
        if (h->operand[i] != v && ot_same_in_order(h->operand[i], v)) return true;
    return false;
}

static habits habits_of(ot_graph *g, const uses *u)
{
    habits h = { .uses = u, .in_constants = true, .listed = g->listed, .biases = g->lost_biases };
    int tied = 0; /* computed by the exporter from parameters that have two names */
    if (g->lost_parameters) h.operand = ot_graph_alloc(g, (size_t)g->n_values * sizeof *h.operand);
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        if (v->source < 0 || v->from_constant || !v->data || (!ot_is_float(v->dtype) && !dequantiser(g, u, v)))
            continue;
        verdict d = { 0 };
        judge(g, u, v, v, false, 0, &d);
        if (d.how == STRONG) h.in_constants = false;
        if (d.how == NO_SLOT || ot_numel(&v->shape) < 2) continue;
        h.layers |= d.how == STRONG;
        if (h.operand && d.how == STRONG && h.operands < g->lost_parameters && is_new_operand(g, v, &h))
            h.operand[h.operands++] = v;
        tied +=
            h.operand && d.how == STRONG && v->shape.rank == 2 && ot_name_is_made(v->name) && ot_copies_listed(g, v);
        h.names |= !ot_name_is_made(v->name);
        h.paths |= ot_name_is_path(v->name);
    }
    h.accounted = g->accounted = h.listed && g->lost_parameters <= h.operands + tied;
    return h;
}

static char slot_of(const verdict *d) { return d->node ? ot_slot_at(d->node->op, d->input) : '-'; }

/* One axis of more than one element, followed by axes of one: a value per channel. */
static bool is_per_channel(const ot_shape *s)
{
    int wide = 0;
    for (int d = 0; d < s->rank; d++) wide += s->dim[d] > 1;
    return wide == 1 && s->dim[s->rank - 1] == 1;
}

/* Integers of 8 bits have few distinct values in any case, and a bias may start with two. */
static ot_pattern pattern(const ot_value *v)
{
    ot_pattern p = ot_pattern_of(v);
    return p == OT_PATTERN_FEW && (v->stored || ot_values_open_forget_gate(v)) ? OT_PATTERN_NONE : p;
}

/* For a tensor with a name generated by the exporter: why its values show that it is no parameter.  NULL: they do
 * not. */
static const char *no_parameter(const ot_graph *g, const ot_value *v, const verdict *d, const habits *h)
{
    ot_pattern p = pattern(v);
    char slot = slot_of(d);
    bool factor = is_one_of(slot, "MA"), product = factor || slot == 'G', left = factor && d->input == 0;
    /* A frozen norm: torch.onnx computes its scale from buffers.  Parameters per channel are only reshaped or
     * transposed. */
    if (h->listed && d->how == WEAK && v->shape.rank > 2 && is_per_channel(&v->shape) && ot_name_is_computed(v->name))
        return "computed from buffers";
    if (h->listed && d->how == WEAK && ot_name_is_converted(v->name) && ot_values_are_whole(v))
        return "integers converted to float";
    if (h->listed && ot_name_is_function(v->name)) return "a function of another tensor";
    if (d->apart && (p == OT_PATTERN_COPIES || (p == OT_PATTERN_NONE && ot_values_are_mirrored(v))))
        return "a table of repeated values";
    if (h->accounted && (d->how == WEAK || !g->lost_parameters) && p != OT_PATTERN_COPIES &&
        !ot_name_is_looked_up(v->name) && !ot_copies_listed(g, v) && !copies_operand(v, h))
        return "computed from buffers";
    if (h->names && ot_name_is_constant(v->name)) return "the value of a Constant node";
    if (slot == 's' || (d->how == STRONG && (!product || !h->names))) return NULL;
    if (d->how == WEAK && !is_per_channel(&v->shape) && ot_values_are_rounded(v))
        return "equal elements up to rounding";
    switch (p) {
    case OT_PATTERN_COPIES: return NULL;
    case OT_PATTERN_NONE: return slot == 'M' && v->shape.rank == 1 && !d->apart ? "a vector of an outer product" : NULL;
    case OT_PATTERN_ONE: return d->how == WEAK ? ot_pattern_name(p) : NULL;
    case OT_PATTERN_EQUAL: /* the initial values of weights per channel */
        if (!h->names || (d->how == STRONG && !left)) return NULL;
        /* A norm without a bias: exporters add zeros. */
        if (h->listed && !h->biases && slot == 'a' && ot_get_f64(v->data, v->dtype, 0) == 0) return ot_pattern_name(p);
        return left || is_one_of(slot, "no") || !is_per_channel(&v->shape) ? ot_pattern_name(p) : NULL;
    default: return ot_pattern_name(p);
    }
}

/* Is it the scale of an attention's scores: 1/sqrt(K) after a product of two activations?  K, a whole number, is not
 * known yet: shapes are inferred later. */
static bool scales_scores(const ot_value *v, const verdict *d)
{
    const ot_node *n = d->node;
    if ((n->op != &ot_op_Mul && n->op != &ot_op_Div) || !v->data || !ot_is_float(v->dtype)) return false;
    const ot_value *scores = n->in[1 - d->input];
    const ot_node *dot = scores ? scores->producer : NULL;
    if (!dot || dot->op != &ot_op_MatMul || dot->in[0]->data || dot->in[1]->data) return false;
    double scale = ot_get_f64(v->data, v->dtype, 0), terms = n->op == &ot_op_Div ? scale * scale : 1 / (scale * scale);
    return terms > 1.5 && terms < 4096.5 && fabs(terms / round(terms) - 1) < 1e-3; /* as 16 bits hold it */
}

static bool has_one_column(const ot_value *weight)
{
    bool one = !weight || weight->shape.rank < 1;
    for (int i = 0; !one && i < weight->shape.rank; i++) one = weight->shape.dim[i] == 1;
    return one;
}

/* Is it added to a product of matrices of one column: the bias of a layer with one output? */
static bool is_bias(const verdict *d)
{
    enum { FAR = 8 };
    const ot_value *x = d->node->op == &ot_op_Add ? d->node->in[1 - d->input] : NULL;
    for (int far = 0; x && x->producer && far < FAR; far++) {
        const ot_node *n = x->producer;
        if (n->op == &ot_op_MatMul || n->op == &ot_op_Gemm || n->op == &ot_op_Conv || n->op == &ot_op_ConvTranspose)
            return has_one_column(n->in[1]);
        x = ot_slot_at(n->op, 0) == '>' ? n->in[0] : NULL;
    }
    return false;
}

/* A single element trains if it is the slope of a PRelu, or a tensor of one element (the bias of a layer with one output, a
 * layer's scale), unless it is a usual number of a formula in a file with layers and without paths as names.  A scalar, a divisor
 * or a subtrahend trains only if named like a parameter: with a path or, if others have paths, with any name if a
 * single node reads it (a scale shared by all layers is a constant of the author's, and so is the usual scale of an
 * attention), and not if the file lists its parameters without it.  Operands of comparisons and selections never train. */
static bool single_trains(const ot_value *v, const verdict *d, const habits *h)
{
    char slot = slot_of(d);
    if (slot == 'c') return false;
    if (slot == 's' || (d->how == WEAK && ot_name_is_variable(v->name))) return true;
    if (v->shape.rank > 0 && !is_one_of(slot, "de"))
        return !is_arithmetic(slot) || h->paths || !h->layers || is_bias(d) || !ot_value_is_usual(v);
    if (v->from_constant || h->listed || ot_name_is_made(v->name)) return false;
    return ot_name_is_path(v->name) || (h->paths && (v->shape.rank > 0 || (d->uses == 1 && !scales_scores(v, d))));
}

static const char *describe(ot_graph *g, const ot_value *v, const verdict *d, const char *what)
{
    const char *s =
        ot_arena_printf(g->arena, "%s: input %d of %s '%s'%s", what, d->input, d->node->op->name, d->node->name,
                        v->half              ? "; the second half, zeros that tf2onnx writes beside the one bias, stays"
                        : ot_holds_copies(v) ? "; equal elements are copies of one parameter and stay equal"
                                             : "");
    return s ? s : what;
}

static const char *belongs_to(ot_graph *g, const ot_value *weight)
{
    const char *s = ot_arena_printf(g->arena, "constant: a vector that spectral_norm keeps beside '%s'", weight->name);
    return s ? s : weight->name;
}

static const char *masks(ot_graph *g, const ot_value *weight)
{
    const char *s = ot_arena_printf(g->arena, "constant: the mask with which '%s' was pruned", weight->name);
    return s ? s : weight->name;
}

static const char folded_mean[] =
    "constant: mean of a BatchNormalization that the exporter folded into a scale and a shift";

/* Do recurrent layers start from v as it is, and from zeros?  They do so where the program says nothing, and the exporter then writes
 * the zeros.  What is first expanded to the samples of a batch is one state for all of them, as a parameter is. */
static bool starts_at_zero(const ot_value *v, const verdict *d)
{
    return slot_of(d) == 'h' && !d->apart && ot_pattern_of(v) == OT_PATTERN_EQUAL &&
           ot_get_f64(v->data, v->dtype, 0) == 0;
}

/* ot_only_reader; user: the uses. */
static const ot_node *only_reader(const void *user, const ot_graph *g, const ot_value *v)
{
    const uses *u = user;
    if (!ot_graph_has(g, v) || u->output[v->id] || u->first[v->id + 1] - u->first[v->id] != 1) return NULL;
    return u->list[u->first[v->id]].node;
}

/* Why v is a constant.  NULL: it trains. */
static const char *why_constant(ot_graph *g, ot_value *v, const verdict *d, const habits *h)
{
    if (d->how == NO_SLOT)
        return d->rotary       ? "constant: rotary table"
               : d->normaliser ? "constant: normalises an input"
               : d->prepares   ? "constant: preprocessing, which scikit-learn fits before the model"
                               : "constant: no operator uses it as a "
                                 "weight";
    if (ot_recurrent_bias(g, v, d->node, d->input) == OT_BIAS_NONE)
        return "constant: zeros that tf2onnx writes for a layer without a bias";
    if (starts_at_zero(v, d)) return "constant: zeros from which a recurrent layer starts";
    if (ot_is_kept_state(g, v, d->node, d->input))
        return "constant: the state of each sample of a batch, which a stateful layer keeps";
    if (ot_folded_norm(g, v) == OT_NORM_FOLD_STATISTIC)
        return "constant: computed from the statistics of a BatchNormalization alone, by its name";
    if (ot_is_folded_mean(g, v, d->node, d->input, only_reader, h->uses)) return folded_mean;
    const ot_value *weight = ot_normed_by(g, v);
    if (weight) return belongs_to(g, weight);
    if (ot_numel(&v->shape) > 1 && !v->stored && ot_values_mask(v)) {
        if ((weight = ot_pruned_by(g, v))) return masks(g, weight);
        if (only_gates(g, h->uses, v, 0)) return "constant: a mask of zeros and ones";
    }
    if (d->how == WEAK && ot_name_is_unused_bias(v->name) && ot_pattern_of(v) == OT_PATTERN_EQUAL)
        return "constant: a buffer of equal elements, by its name";
    if (d->how == WEAK && ot_name_is_literal(v->name))
        return "constant: a tensor written in the module's code, by the name that the exporter gave it";
    if (ot_is_estimator_weight(g, v, d->node))
        return "constant: the weight of an estimator, which scikit-learn is given";
    if (ot_numel(&v->shape) == 1 && !single_trains(v, d, h))
        return v->shape.rank ? "constant: a single element" : "constant: a scalar";
    if (d->how == WEAK && v->from_constant && !h->in_constants)
        return "constant: value of a Constant node; other "
               "weights are initializers";
    bool made = (v->from_constant && !h->in_constants) || ot_name_is_made(v->name);
    const char *what = made ? no_parameter(g, v, d, h) : NULL;
    if (made) {
        const char *s =
            what ? ot_arena_printf(g->arena, "constant: %s, and the exporter generated its name", what) : NULL;
        return s ? s : what;
    }
    if (v->shape.rank > 1 && ot_name_is_transform(v->name)) return "constant: a fixed transform, by its name";
    if (d->how == STRONG && !v->stored && ot_name_is_sparse(v->name) && ot_values_are_sparse(v))
        return "constant: mostly zeros, by name and values (neighbours in a graph, a bank of filters)";
    ot_pattern p = d->how == WEAK ? pattern(v) : OT_PATTERN_NONE;
    if (p == OT_PATTERN_MASK) return "constant: a mask";
    v->table = p >= OT_PATTERN_STEPS || (d->how == STRONG && !v->stored && !v->from_constant && ot_values_repeat(v));
    if (p < OT_PATTERN_STEPS || !ot_name_is_table(v->name)) return NULL;
    const char *s = ot_arena_printf(g->arena, "constant: %s, by name and values", ot_pattern_name(p));
    return s ? s : ot_pattern_name(p);
}

/* Is v a constant because of where it is used?  For files that do not list their parameters, and names that the
 * program gave. */
static bool is_undecided(const ot_value *v, const verdict *d, const habits *h)
{
    bool slot = d->how != NO_SLOT && d->how != STATISTIC; /* a strong one, too: a scalar that scales a weight */
    bool place = (d->how == NO_SLOT && d->normaliser && !d->rotary) || (slot && starts_at_zero(v, d)) ||
                 (slot && ot_numel(&v->shape) == 1 && !single_trains(v, d, h));
    return place && v->said == OT_SAID_NOTHING && !v->from_constant && h->names && !ot_name_is_made(v->name);
}

static void decide(ot_graph *g, ot_value *v, const verdict *d, const habits *h)
{
    v->slot_op = d->node ? d->node->op : NULL;
    v->slot_input = d->input;
    const char *constant =
        d->how == STATISTIC || (v->said == OT_SAID_PARAMETER && d->how != NO_SLOT) ? NULL : why_constant(g, v, d, h);
    if (v->said == OT_SAID_BUFFER && d->how != STATISTIC) constant = "constant: declared a buffer in the file";
    if (v->said == OT_SAID_FROZEN && d->how != STATISTIC)
        constant = "constant: scale or bias of a BatchNormalization "
                   "built from separate operators, as exported by "
                   "PyTorch when frozen (see --train)";
    if (v->said == OT_SAID_PARAMETER && d->how == NO_SLOT && v->mark & REACHES) {
        v->role = OT_WEIGHT;
        v->why = "trained: declared a parameter in the file";
        return;
    }
    v->undecided = constant && is_undecided(v, d, h);
    v->half = !constant && d->node && ot_recurrent_bias(g, v, d->node, d->input) == OT_BIAS_ONE;
    if (!constant) v->role = d->how == STATISTIC ? OT_STATE : OT_WEIGHT;
    v->why = constant ? constant : describe(g, v, d, d->how == STATISTIC ? "statistic" : "trained");
}

static const char by_option[] = "frozen: --freeze", not_chosen[] = "frozen: only the chosen layers train";

bool ot_frozen_by_name(const ot_value *v) { return v->why && !strcmp(v->why, by_option); }

bool ot_frozen(const ot_value *v) { return ot_frozen_by_name(v) || (v->why && !strcmp(v->why, not_chosen)); }

static bool is_chosen(const ot_value *v, const ot_config *c)
{
    for (int i = 0; i < c->options.n_only; i++)
        if (!strcmp(c->options.only[i], v->name)) return true;
    return false;
}

static void override(ot_value *v, const ot_config *c)
{
    int train = best_rank(c->options.train, c->options.n_train, v->name),
        freeze = best_rank(c->options.freeze, c->options.n_freeze, v->name);
    if (v->role == OT_STATE) return;
    if (freeze >= 0 && freeze >= train) {
        v->role = OT_CONST;
        v->why = by_option;
    } else if (train >= 0) {
        v->role = OT_WEIGHT;
        v->half = false;
        v->why = "trained: --train";
    } else if (is_chosen(v, c)) {
        v->role = OT_WEIGHT;
        if (!v->why || strncmp(v->why, "trained", 7) != 0) v->why = "trained: chosen";
    } else if (v->role == OT_WEIGHT && c->options.n_only &&
               best_rank(c->options.unfreeze, c->options.n_unfreeze, v->name) < 0) {
        v->role = OT_CONST;
        v->why = not_chosen;
    }
}

/* A pattern of --train that matches statistics only has no effect. */
static ot_status check_trained(const ot_graph *g, const ot_config *c)
{
    for (int i = 0; i < c->options.n_train; i++) {
        const ot_value *state = NULL;
        bool other = false;
        for (int k = 0; k < g->n_values; k++) {
            const ot_value *v = g->values[k];
            if (v->source < 0 || ot_pattern_rank(c->options.train[i], v->name) < 0) continue;
            if (v->role == OT_STATE) state = v;
            else other = true;
        }
        if (state && !other)
            return ot_fail(g->err, OT_E_USAGE,
                           "--train %s: '%s' is a running statistic; it is updated from batches, "
                           "not by gradients (see --bn)",
                           c->options.train[i], state->name);
    }
    return OT_OK;
}

static void say_copy(ot_graph *g, ot_value *v)
{
    bool turned = false;
    const ot_value *w = v->why ? ot_original_of(g, v, &turned) : NULL;
    const char *s =
        w ? ot_arena_printf(g->arena, "%s; copy of '%s'%s, kept equal", v->why, w->name, turned ? ", transposed" : "")
          : NULL;
    if (s) v->why = s;
}

static void say_forms(ot_plan *p)
{
    int n = 0, means = 0;
    for (int i = 0; i < p->graph->n_values; i++) {
        const ot_value *v = p->graph->values[i];
        n += v->half;
        means += v->why == folded_mean;
    }
    if (means)
        ot_plan_note(p,
                     "BatchNormalization: %d found that the exporter folded into a mean, a scale and a shift; means "
                     "stay constant, and batch statistics are not used",
                     means);
    if (n)
        ot_plan_note(p,
                     "recurrent layers: %d have one bias, which tf2onnx writes with as many zeros in one tensor; the "
                     "zeros stay (see --train)",
                     n);
}

ot_status ot_pass_classify(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    int norms, frozen;
    uses u;
    p->own = g->n_assigns > 0;
    g->tie = c->options.tie;
    if (c->want == OT_WANT_RUN) { /* all initializers are constants */
        g->n_assigns = 0;
        return OT_OK;
    }
    OT_TRY(ot_hoist_invariants(g));
    OT_TRY(ot_spell_dynamic(g));
    OT_TRY(ot_recognise_batch_norms(g, &norms, &frozen));
    if (norms > frozen && c->want == OT_WANT_TRAIN)
        ot_plan_note(p,
                     "BatchNormalization: %d found as separate operators: mean and variance are running statistics "
                     "with momentum 0.9, the ONNX default",
                     norms - frozen);
    if (frozen && c->want == OT_WANT_TRAIN)
        ot_plan_note(p,
                     "BatchNormalization: %d found as separate operators, as exported by PyTorch when frozen: "
                     "scale and bias do not train (see --train)",
                     frozen);
    OT_TRY(check_patterns(g, "train", c->options.train, c->options.n_train));
    OT_TRY(check_patterns(g, "freeze", c->options.freeze, c->options.n_freeze));
    OT_TRY(check_patterns(g, "lr-scale", c->options.lr_scale, c->options.n_lr_scale));
    for (int i = 0; i < c->options.n_no_decay; i++)
        if (strcmp(c->options.no_decay[i], "norms") && strcmp(c->options.no_decay[i], "biases"))
            OT_TRY(check_patterns(g, "no-decay", &c->options.no_decay[i], 1));
    OT_TRY(find_uses(g, &u));
    mark_values(g);
    ot_mark_preprocessing(g, FED, PREPARED, SPARE);
    habits h = habits_of(g, &u);
    for (int i = 0; i < g->n_values; i++) {
        ot_value *v = g->values[i];
        if (v->source < 0 || !v->data || v->role != OT_CONST) continue;
        verdict d = { .uses = u.first[v->id + 1] - u.first[v->id] };
        if (!ot_is_float(v->dtype)) {
            const ot_node *n = dequantiser(g, &u, v);
            v->why = "constant: not a float";
            if (!n || p->own || !ot_stored_widen(g, v, n)) continue;
        }
        judge(g, &u, v, v, false, 0, &d);
        decide(g, v, &d, &h);
        override(v, c);
        if (!v->stored) continue;
        if (v->role != OT_WEIGHT) ot_stored_restore(v);
        for (int k = u.first[v->id]; k < u.first[v->id + 1] && v->stored; k++)
            if (!ot_stored_read(g, (ot_node *)(uintptr_t)u.list[k].node)) return g->err->status;
    }
    if (p->own) return ot_own_classify(p, c);
    for (int i = 0; i < g->n_values; i++) say_copy(g, g->values[i]);
    if (c->want == OT_WANT_TRAIN) say_forms(p);
    OT_TRY(check_trained(g, c));
    for (int i = 0; i < c->options.n_unfreeze; i++) OT_TRY(check_patterns(g, "unfreeze", &c->options.unfreeze[i], 1));
    if (c->want == OT_WANT_TRAIN && c->options.layer_decay > 0 && c->options.layer_decay != 1)
        OT_TRY(ot_find_layers(p));
    return c->options.fit_scales ? ot_stored_fit(p) : g->err->status;
}
