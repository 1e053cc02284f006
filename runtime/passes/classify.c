/* classify.c - classifies every initializer as weight, statistic or constant, with the reason.
 *
 * An initializer is classified by the slots it feeds, through operators that only reshape or convert, and through
 * any operator that depends on no input of the graph (weight norm, exp of a temperature, a table that is gathered
 * once), in bodies of If, Loop and Scan too (uses.h):
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
 * Never trained: other integers, cosines beside their sines, means and deviations right at an input, the vectors of spectral_norm, values
 * that reach no output through a differentiable path.
 * --train and --freeze override. */
#include <math.h>
#include <string.h>

#include "ops/op.h"
#include "runtime/passes/evidence.h"
#include "runtime/passes/exporters.h"
#include "runtime/passes/recognise.h"
#include "runtime/passes/stored.h"
#include "runtime/passes/uses.h"

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
static ot_node *dequantiser(const ot_uses *u, const ot_value *v)
{
    int from = u->first[v->id], to = u->first[v->id + 1];
    ot_node *n = from < to && ot_stored_type(v->dtype) ? (ot_node *)(uintptr_t)u->list[from].node : NULL;
    for (int i = from; n && i < to; i++) {
        const ot_slot_use *k = &u->list[i];
        if (k->node->op != &ot_op_DequantizeLinear || k->input || !ot_stored_alike(k->node, n)) return NULL;
    }
    return n;
}

/* How a file stores its weights. */
typedef struct habits {
    const ot_uses *uses;
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

static habits habits_of(ot_graph *g, const ot_uses *u)
{
    habits h = { .uses = u, .in_constants = true, .listed = g->listed, .biases = g->lost_biases };
    int tied = 0; /* computed by the exporter from parameters that have two names */
    if (g->lost_parameters) h.operand = ot_graph_alloc(g, (size_t)g->n_values * sizeof *h.operand);
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        if (v->source < 0 || v->from_constant || !v->data || (!ot_is_float(v->dtype) && !dequantiser(u, v))) continue;
        ot_verdict d = ot_judge(g, u, v);
        if (d.how == OT_USE_STRONG) h.in_constants = false;
        if (d.how == OT_USE_NONE || ot_numel(&v->shape) < 2) continue;
        h.layers |= d.how == OT_USE_STRONG;
        if (h.operand && d.how == OT_USE_STRONG && h.operands < g->lost_parameters && is_new_operand(g, v, &h))
            h.operand[h.operands++] = v;
        tied += h.operand && d.how == OT_USE_STRONG && v->shape.rank == 2 && ot_name_is_made(v->name) &&
                ot_copies_listed(g, v);
        h.names |= !ot_name_is_made(v->name);
        h.paths |= ot_name_is_path(v->name);
    }
    h.accounted = g->accounted = h.listed && g->lost_parameters <= h.operands + tied;
    return h;
}

static char slot_of(const ot_verdict *d) { return d->node ? ot_slot_at(d->node->op, d->input) : '-'; }

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
static const char *no_parameter(const ot_graph *g, const ot_value *v, const ot_verdict *d, const habits *h)
{
    ot_pattern p = pattern(v);
    char slot = slot_of(d);
    bool factor = ot_slot_is_one_of(slot, "MA"), product = factor || slot == 'G', left = factor && d->input == 0;
    /* A frozen norm: torch.onnx computes its scale from buffers.  Parameters per channel are only reshaped or
     * transposed. */
    if (h->listed && d->how == OT_USE_WEAK && v->shape.rank > 2 && is_per_channel(&v->shape) &&
        ot_name_is_computed(v->name))
        return "computed from buffers";
    if (h->listed && d->how == OT_USE_WEAK && ot_name_is_converted(v->name) && ot_values_are_whole(v))
        return "integers converted to float";
    if (h->listed && ot_name_is_function(v->name)) return "a function of another tensor";
    if (d->apart && (p == OT_PATTERN_COPIES || (p == OT_PATTERN_NONE && ot_values_are_mirrored(v))))
        return "a table of repeated values";
    if (h->accounted && (d->how == OT_USE_WEAK || !g->lost_parameters) && p != OT_PATTERN_COPIES &&
        !ot_name_is_looked_up(v->name) && !ot_copies_listed(g, v) && !copies_operand(v, h))
        return "computed from buffers";
    if (h->names && ot_name_is_constant(v->name)) return "the value of a Constant node";
    if (slot == 's' || (d->how == OT_USE_STRONG && (!product || !h->names))) return NULL;
    if (d->how == OT_USE_WEAK && !is_per_channel(&v->shape) && ot_values_are_rounded(v))
        return "equal elements up to rounding";
    switch (p) {
    case OT_PATTERN_COPIES: return NULL;
    case OT_PATTERN_NONE: return slot == 'M' && v->shape.rank == 1 && !d->apart ? "a vector of an outer product" : NULL;
    case OT_PATTERN_ONE: return d->how == OT_USE_WEAK ? ot_pattern_name(p) : NULL;
    case OT_PATTERN_EQUAL: /* the initial values of weights per channel */
        if (!h->names || (d->how == OT_USE_STRONG && !left)) return NULL;
        /* A norm without a bias: exporters add zeros. */
        if (h->listed && !h->biases && slot == 'a' && ot_get_f64(v->data, v->dtype, 0) == 0) return ot_pattern_name(p);
        return left || ot_slot_is_one_of(slot, "no") || !is_per_channel(&v->shape) ? ot_pattern_name(p) : NULL;
    default: return ot_pattern_name(p);
    }
}

/* Is it the scale of an attention's scores: 1/sqrt(K) after a product of two activations?  K, a whole number, is not
 * known yet: shapes are inferred later. */
static bool scales_scores(const ot_value *v, const ot_verdict *d)
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
static bool is_bias(const ot_verdict *d)
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
static bool single_trains(const ot_value *v, const ot_verdict *d, const habits *h)
{
    char slot = slot_of(d);
    if (slot == 'c') return false;
    if (slot == 's' || (d->how == OT_USE_WEAK && ot_name_is_variable(v->name))) return true;
    if (v->shape.rank > 0 && !ot_slot_is_one_of(slot, "de"))
        return !ot_slot_is_arithmetic(slot) || h->paths || !h->layers || is_bias(d) || !ot_value_is_usual(v);
    if (v->from_constant || h->listed || ot_name_is_made(v->name)) return false;
    return ot_name_is_path(v->name) || (h->paths && (v->shape.rank > 0 || (d->uses == 1 && !scales_scores(v, d))));
}

static const char *describe(ot_graph *g, const ot_value *v, const ot_verdict *d, const char *what)
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
static bool starts_at_zero(const ot_value *v, const ot_verdict *d)
{
    return slot_of(d) == 'h' && !d->apart && ot_pattern_of(v) == OT_PATTERN_EQUAL &&
           ot_get_f64(v->data, v->dtype, 0) == 0;
}

/* ot_only_reader; user: the uses. */
static const ot_node *only_reader(const void *user, const ot_graph *g, const ot_value *v)
{
    const ot_uses *u = user;
    if (!ot_graph_has(g, v) || u->output[v->id] || u->first[v->id + 1] - u->first[v->id] != 1) return NULL;
    return u->list[u->first[v->id]].node;
}

/* Why v is a constant.  NULL: it trains. */
static const char *why_constant(ot_graph *g, ot_value *v, const ot_verdict *d, const habits *h)
{
    if (d->how == OT_USE_NONE)
        return d->rotary       ? "constant: sine or cosine table (position encoding or Fourier basis)"
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
        if (ot_only_gates(g, h->uses, v)) return "constant: a mask of zeros and ones";
    }
    if (d->how == OT_USE_WEAK && ot_name_is_unused_bias(v->name) && ot_pattern_of(v) == OT_PATTERN_EQUAL)
        return "constant: a buffer of equal elements, by its name";
    if (d->how == OT_USE_WEAK && ot_name_is_literal(v->name))
        return "constant: a tensor written in the module's code, by the name that the exporter gave it";
    if (ot_is_estimator_weight(g, v, d->node))
        return "constant: the weight of an estimator, which scikit-learn is given";
    if (ot_numel(&v->shape) == 1 && !single_trains(v, d, h))
        return v->shape.rank ? "constant: a single element" : "constant: a scalar";
    if (d->how == OT_USE_WEAK && v->from_constant && !h->in_constants)
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
    if (d->how == OT_USE_STRONG && !v->stored && ot_name_is_sparse(v->name) && ot_values_are_sparse(v))
        return "constant: mostly zeros, by name and values (neighbours in a graph, a bank of filters)";
    ot_pattern p = d->how == OT_USE_WEAK ? pattern(v) : OT_PATTERN_NONE;
    if (p == OT_PATTERN_MASK) return "constant: a mask";
    v->table = p >= OT_PATTERN_STEPS || (d->how == OT_USE_STRONG && !v->stored && !v->from_constant &&
                                         ot_values_repeat(v) && !ot_values_open_forget_gate(v));
    if (p < OT_PATTERN_STEPS || !ot_name_is_table(v->name)) return NULL;
    const char *s = ot_arena_printf(g->arena, "constant: %s, by name and values", ot_pattern_name(p));
    return s ? s : ot_pattern_name(p);
}

/* Is v a constant because of where it is used?  For files that do not list their parameters, and names that the
 * program gave. */
static bool is_undecided(const ot_value *v, const ot_verdict *d, const habits *h)
{
    bool slot =
        d->how != OT_USE_NONE && d->how != OT_USE_STATISTIC; /* a strong one, too: a scalar that scales a weight */
    bool place = (d->how == OT_USE_NONE && d->normaliser && !d->rotary) || (slot && starts_at_zero(v, d)) ||
                 (slot && ot_numel(&v->shape) == 1 && !single_trains(v, d, h));
    return place && v->said == OT_SAID_NOTHING && !v->from_constant && !ot_name_is_made(v->name);
}

static void decide(ot_graph *g, ot_value *v, const ot_verdict *d, const habits *h)
{
    v->slot_op = d->node ? d->node->op : NULL;
    v->slot_input = d->input;
    const char *constant = d->how == OT_USE_STATISTIC || (v->said == OT_SAID_PARAMETER && d->how != OT_USE_NONE)
                               ? NULL
                               : why_constant(g, v, d, h);
    if (v->said == OT_SAID_BUFFER && d->how != OT_USE_STATISTIC) constant = "constant: declared a buffer in the file";
    if (v->said == OT_SAID_FROZEN && d->how != OT_USE_STATISTIC)
        constant = "constant: scale or bias of a BatchNormalization "
                   "built from separate operators, as exported by "
                   "PyTorch when frozen (see --train)";
    if (v->said == OT_SAID_PARAMETER && d->how == OT_USE_NONE && v->mark & OT_MARK_REACHES) {
        v->role = OT_WEIGHT;
        v->why = "trained: declared a parameter in the file";
        return;
    }
    v->undecided = constant && is_undecided(v, d, h);
    v->half = !constant && d->node && ot_recurrent_bias(g, v, d->node, d->input) == OT_BIAS_ONE;
    if (!constant) v->role = d->how == OT_USE_STATISTIC ? OT_STATE : OT_WEIGHT;
    v->why = constant ? constant : describe(g, v, d, d->how == OT_USE_STATISTIC ? "statistic" : "trained");
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
                     "recurrent layers: %d %s one bias, which tf2onnx writes with as many zeros in one tensor; the "
                     "zeros stay (see --train)",
                     n, n == 1 ? "has" : "have");
}

ot_status ot_pass_classify(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    int norms, frozen;
    ot_uses u;
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
    OT_TRY(ot_find_uses(g, &u));
    ot_mark_uses(g);
    ot_mark_preprocessing(g, OT_MARK_FED, OT_MARK_PREPARED, OT_MARK_SPARE);
    habits h = habits_of(g, &u);
    for (int i = 0; i < g->n_values; i++) {
        ot_value *v = g->values[i];
        if (v->source < 0 || !v->data || v->role != OT_CONST) continue;
        const ot_node *n = p->own ? NULL : dequantiser(&u, v);
        bool widened = n && ot_stored_widen(g, v, n);
        if (!ot_is_float(v->dtype)) v->why = "constant: not a float";
        if (!widened && !ot_is_float(v->dtype)) continue;
        ot_verdict d = ot_judge(g, &u, v);
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
    return c->options.fit_scales ? ot_stored_fit(p, &u) : g->err->status;
}
