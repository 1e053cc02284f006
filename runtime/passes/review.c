/* review.c - reports what a user who trains a file should know: what does not train, and how other runtimes run the
 * result.
 *
 * Nothing is changed.  The findings name nodes and say what to do:
 *
 *   training mode   BatchNormalization with training_mode=1, Dropout with training_mode=true: the exported file
 *                   keeps them
 *   folded norms    convolutions with a BatchNormalization folded in during export, recognised by the names that
 *                   exporters generate
 *   quantised       weights that are integers before a DequantizeLinear, and train as floats or not; those in integer
 *                   products
 *   numbers         NaN and infinities in weights; weights of 16 bits */
#include <math.h>
#include <string.h>

#include "ops/op.h"
#include "runtime/passes/evidence.h"
#include "runtime/passes/stored.h"
#include "runtime/passes/unfold.h"

static const char deploy[] = "use 'onnxtrain export MODEL -o FILE', or --deploy FILE in training, to write the model "
                             "for inference";
static const char keep_norms[] = "use --unfold-bn to train them with a BatchNormalization, or export the model with "
                                 "torch.onnx.export(..., dynamo=True, optimize=False)";

typedef struct review {
    const ot_graph *g; /* the file's */
    const char *producer;
    bool named; /* some tensors have the names that they had in the exported program: "fc.weight" */
    ot_review *out;
} review;

static void find(const review *r, ot_severity s, const char *name, const char *remedy, const char *what)
{
    ot_find(r->out->findings, s, name, remedy, "%s", what);
}

/* ---- nodes -------------------------------------------------------------------- */

static bool is_true(const ot_value *v)
{
    return ot_is_const(v) && v->dtype == OT_BOOL && ot_numel(&v->shape) == 1 && ot_get_i64(v->data, v->dtype, 0);
}

/* Whether an evaluation computes something else than n says, or n each time. */
static bool has_mode(const ot_node *n)
{
    const ot_value *train = n->op == &ot_op_Dropout && n->n_in > 2 ? n->in[2] : NULL;
    if (train) return is_true(train) || !ot_is_const(train);
    if (n->op == &ot_op_BatchNormalization) return ot_attr_get(n, "training_mode", 0);
    return n->op->flags & OT_RANDOM && !(n->op->flags & OT_IN_TRAINING);
}

static void look_at_node(const review *r, const ot_node *n)
{
    r->out->modes += has_mode(n);
    if (n->op->domain && *n->op->domain) return;
    if (n->op == &ot_op_BatchNormalization && ot_attr_get(n, "training_mode", 0) && n->n_in && n->in[0] &&
        n->in[0]->mark == OT_FED) {
        r->out->norms++;
        find(r, OT_FINDING_WARNING, n->name, deploy,
             "BatchNormalization has training_mode=1 in the file and keeps it: other runtimes use batch statistics, "
             "so their outputs differ from the evaluation here");
    }
    if (n->op == &ot_op_Dropout && n->n_in > 2 && is_true(n->in[2])) {
        r->out->dropouts++;
        find(r, OT_FINDING_WARNING, n->name, deploy,
             "Dropout has training_mode=true in the file and keeps it: other runtimes drop random elements");
    }
    r->out->roundings += n->op == &ot_op_QuantizeLinear || n->op == &ot_op_DynamicQuantizeLinear;
    if (n->op->flags & OT_RANDOM && !(n->op->flags & OT_IN_TRAINING)) {
        r->out->draws++;
        find(r, OT_FINDING_NOTE, n->name, "if it is a Dropout, export the network in evaluation mode",
             "the graph uses random numbers, in evaluation and in other runtimes too");
    }
    if (!r->out->eval && !r->out->unfolds && n->op == &ot_op_Conv && ot_took_a_norm_in(n, r->producer, r->named))
        find(r, OT_FINDING_WARNING, n->name, keep_norms,
             "the exporter folded BatchNormalization into convolutions, which now train without normalization");
}

static void look_at_nodes(const review *r, const ot_graph *g)
{
    for (const ot_node *n = g->first; n; n = n->next) {
        look_at_node(r, n);
        for (int i = 0; ot_subgraph(n, i); i++) look_at_nodes(r, ot_subgraph(n, i));
    }
}

/* Does n read elements of its inputs, not only their shapes? */
static bool reads_data(const ot_node *n) { return !(n->op->flags & OT_FROM_SHAPES); }

/* Inputs from whose data no path leads to an output. */
static void look_for_ignored(const review *r, ot_graph *g)
{
    for (ot_node *n = g->first; n; n = n->next) n->mark = 0;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i]->producer) g->outputs[i]->producer->mark = 1;
    for (int i = 0; i < g->n_assigns; i++)
        if (g->assigns[i].value->producer) g->assigns[i].value->producer->mark = 1;
    for (ot_node *n = g->last; n; n = n->prev)
        for (int i = 0; i < n->n_in && n->mark && reads_data(n); i++)
            if (n->in[i] && n->in[i]->producer) n->in[i]->producer->mark = 1;
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i];
        bool leads = v->role != OT_INPUT || v->data || v == g->seed || v == g->counter;
        for (int k = 0; k < g->n_outputs && !leads; k++) leads = g->outputs[k] == v;
        for (const ot_node *n = g->first; n && !leads; n = n->next)
            for (int k = 0; k < n->n_in && n->mark && reads_data(n); k++) leads |= n->in[k] == v;
        if (!leads)
            find(r, OT_FINDING_WARNING, v->name, "their data have no effect; check how the model was exported",
                 "inputs whose data no output depends on");
    }
}

/* ---- quantised weights ---------------------------------------------------------- */

const char ot_remedy_quantised[] = "train the model before quantization, then quantise the result";

/* The quantised tensors that n is the first to read; value->mark: already seen. */
static void look_at_integers(const review *r, const ot_node *n)
{
    enum { SEEN = 1 << 20 };
    for (int i = 0; i < n->n_in && i < 32; i++) {
        ot_value *v = n->in[i];
        if (!(n->op->quantised >> i & 1) || !v || v->source < 0 || !v->data || ot_is_float(v->dtype) || v->mark & SEEN)
            continue;
        v->mark |= SEEN;
        r->out->quantised++;
        r->out->quantised_elements += ot_numel(&v->shape);
        if (!r->out->eval)
            find(r, OT_FINDING_WARNING, v->name, ot_remedy_quantised,
                 "quantised weights do not train: they are integers");
    }
}

/* ---- numbers ---------------------------------------------------------------------- */

/* Most tensors are float32, and these are scanned quickly. */
static bool all_finite(const ot_value *v)
{
    const uint32_t *p = v->data;
    int64_t n = ot_numel(&v->shape);
    uint32_t found = 0;
    if (v->dtype != OT_F32) return false;
#pragma omp simd reduction(| : found)
    for (int64_t i = 0; i < n; i++) found |= (p[i] & 0x7f800000) == 0x7f800000;
    return !found;
}

/* NaN, or an infinity where only an operand of a product is possible: masks are added, and may contain infinities. */
static const char *bad_number(const ot_value *v)
{
    bool infinity = false;
    if (all_finite(v)) return NULL;
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i++) {
        double d = ot_get_f64(v->data, v->dtype, i);
        if (isnan(d)) return "NaN";
        infinity |= isinf(d) != 0;
    }
    bool arithmetic = v->slot_op && strchr("axdecj", ot_slot_at(v->slot_op, v->slot_input));
    return infinity && !arithmetic ? "an infinity" : NULL;
}

static bool all_zero(const ot_value *v)
{
    int64_t n = ot_numel(&v->shape);
    for (int64_t i = 0; i < n; i++)
        if (ot_get_f64(v->data, v->dtype, i) != 0) return false;
    return n > 1;
}

/* A tensor of zeros only, among many weights, in a file that does not identify it: the last bias added, or a buffer. */
static void look_for_zeros(const review *r)
{
    enum { MANY = 8 };
    const ot_value *zeros = NULL;
    int n = 0, others = 0;
    for (int i = 0; i < r->g->n_values; i++) {
        const ot_value *v = r->g->values[i];
        if (v->source < 0 || v->role != OT_WEIGHT || !v->data || !ot_is_float(v->dtype)) continue;
        if (v->said != OT_SAID_NOTHING) return;
        if (all_zero(v)) zeros = v, n++;
        else others++;
    }
    if (n == 1 && others >= MANY)
        ot_find(r->out->findings, OT_FINDING_NOTE, zeros->name,
                "if it is a buffer and no parameter, which the file does not tell: --freeze NAME",
                "trains from zeros, as no other tensor does");
}

static void look_at_values(const review *r)
{
    if (!r->out->eval) look_for_zeros(r);
    for (int i = 0; i < r->g->n_values; i++) {
        const ot_value *v = r->g->values[i];
        if (v->source < 0 || !v->data || !ot_is_float(v->dtype)) continue;
        bool weight = v->role == OT_WEIGHT, slot = v->slot_op || weight || v->role == OT_STATE;
        bool search = slot && !(r->out->unread && r->out->unread[v->source]);
        const char *bad = search ? bad_number(v) : NULL, *type = ot_dtype_name(v->dtype);
        r->out->weights += weight;
        if (bad)
            ot_find(r->out->findings, r->out->eval ? OT_FINDING_WARNING : OT_FINDING_ERROR, v->name,
                    "the file is damaged, or its training "
                    "diverged",
                    "weights contain %s in the file", bad);
        ot_pattern p = weight && v->table ? ot_pattern_of(v) : OT_PATTERN_NONE;
        if (weight && v->table && !r->out->eval)
            ot_find(r->out->findings, OT_FINDING_WARNING, v->name,
                    "if it is a computed table and not a parameter, "
                    "use --freeze NAME",
                    "the values of a trained tensor look like %s", ot_pattern_name(p ? p : OT_PATTERN_FEW));
        if (v->role == OT_CONST && v->undecided && !r->out->eval)
            ot_find(r->out->findings, OT_FINDING_NOTE, v->name, "if it is a parameter, use --train NAME",
                    "does not train: %s, as constants often are",
                    !v->slot_op                                    ? "it normalises an input"
                    : ot_slot_at(v->slot_op, v->slot_input) == 'h' ? "a recurrent layer starts from its zeros"
                                                                   : "a single number");
        bool turned = false;
        const ot_value *twin = weight && search && !r->out->eval && !r->g->tie ? ot_twin_of(r->g, v, &turned) : NULL;
        if (twin)
            ot_find(r->out->findings, OT_FINDING_WARNING, ot_arena_printf(r->g->arena, "%s of %s", v->name, twin->name),
                    "if the model ties them, use --tie",
                    "tensors are copies of another weight%s%s; the copies are trained independently",
                    turned ? ", transposed" : "",
                    ot_name_is_made(v->name) && !ot_name_is_made(twin->name) ? ", with names generated by the exporter"
                                                                             : "");
        const bool read = !(r->out->unread && r->out->unread[v->source]);
        const ot_value *original = read && !r->out->eval ? ot_copied_weight(r->g, v, &turned) : NULL;
        if (original)
            ot_find(r->out->findings, OT_FINDING_WARNING, v->name, "export the model without constant folding",
                    "a constant is a copy of weight '%s'%s: it keeps its values while the weight trains",
                    original->name, turned ? ", transposed" : "");
        if (weight && !r->out->eval && v->stored)
            ot_find(r->out->findings, OT_FINDING_NOTE, v->name, NULL,
                    "weights are quantised in the file, as %s: they train as float32 with the straight-through "
                    "estimator and are quantised again when the file is written, %s",
                    ot_dtype_name(v->stored->dtype),
                    v->stored->fitted ? "with new scales" : "with the scales of the file");
        if (weight && !r->out->eval && ot_dtype_bits(v->dtype) < 32)
            ot_find(r->out->findings, OT_FINDING_NOTE, v->name, NULL,
                    "weights are %s in the file: they train as float32 copies and are rounded to %s when the file is "
                    "written",
                    type, type);
    }
}

void ot_review_graph(ot_graph *g, const char *producer, ot_review *out)
{
    review r = { .g = g, .producer = producer, .named = ot_unfold_named(g), .out = out };
    ot_mark_fed(g);
    look_at_nodes(&r, g);
    for (const ot_node *n = g->first; n; n = n->next) look_at_integers(&r, n);
    look_at_values(&r);
    if (!out->eval && !out->part) look_for_ignored(&r, g);
}
