/* train_mode.c - sets the mode of BatchNorm and Dropout (--bn, --dropout).
 *
 * BatchNorm trains where its input depends on an input of the graph, unless --bn frozen, its scale and bias are frozen,
 * or a channel has a single value; one whose input depends on weights alone (weight standardisation) keeps the mode of
 * the file.  Constant scale and bias leave it frozen, unless they are 1 and 0 (PyTorch's affine=False) or the file has
 * it in training mode: then running statistics are updated. In training its new running statistics are assigned.
 * Dropout acts in training only, and in `grad` with --dropout. */
#include <string.h>

#include "ops/kernels/batchnorm.h"
#include "runtime/passes/passes.h"

void ot_mark_fed(ot_graph *g)
{
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    for (int i = 0; i < g->n_inputs; i++) g->inputs[i]->mark = OT_FED;
    for (ot_node *n = g->first; n; n = n->next) {
        bool fed = false;
        for (int i = 0; i < n->n_in; i++) fed |= n->in[i] && n->in[i]->mark == OT_FED;
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] && fed) n->out[i]->mark = OT_FED;
    }
}

/* Ensures at least `want` outputs and creates the missing ones among them. */
static bool outputs(ot_graph *g, ot_node *n, int want)
{
    if (n->n_out < want) {
        ot_value **out = ot_graph_alloc(g, (size_t)want * sizeof *out);
        if (!out) return false;
        memcpy(out, n->out, (size_t)n->n_out * sizeof *out);
        n->out = out;
        n->n_out = want;
    }
    for (int i = 1; i < want; i++) {
        if (n->out[i]) continue;
        n->out[i] = ot_graph_value(g, n->name, OT_TEMP, OT_UNDEFINED, NULL);
        if (!n->out[i]) return false;
        n->out[i]->producer = n;
        n->out[i]->port = i;
    }
    return true;
}

/* The tensor of the file behind operators that forward it. */
static const ot_value *behind(const ot_value *v)
{
    while (v->producer && v->producer->n_in && v->producer->in[0] && v->producer->op == &ot_op_Identity)
        v = v->producer->in[0];
    return v;
}

static ot_value *origin(ot_value *v, bool copies)
{
    while (v->producer && (v->producer->op == &ot_op_Reshape || v->producer->op == &ot_op_Cast ||
                           (copies && v->producer->op == &ot_op_Identity)))
        v = v->producer->in[0];
    return v;
}

/* The tensor that a norm reads in another shape (recognise_batchnorm.c) or type (norms of files in 16 bits). */
static ot_value *stored(const ot_node *n, int input) { return origin(n->in[input], false); }

/* The running statistic that a norm reads, through Identity too: PyTorch's exporter writes one where a module is called
 * again. */
static ot_value *statistic(const ot_node *n, int input) { return origin(n->in[input], true); }

/* Is it a constant with every element equal to x? */
static bool is_all(const ot_value *v, double x)
{
    if (!ot_is_const(v)) return false;
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i++)
        if (ot_get_f64(v->data, v->dtype, i) != x) return false;
    return true;
}

/* Does a norm whose scale and bias do not train keep its running statistics?  f: receives the reason; may be NULL. */
static bool is_frozen(ot_findings *f, const ot_node *n, bool training_mode)
{
    static const char what[] = "BatchNormalization uses running statistics and is not trained: ";
    const ot_value *w = behind(stored(n, 1)), *b = behind(stored(n, 2));
    bool shared = w != stored(n, 1) || b != stored(n, 2) || w->role == OT_STATE || b->role == OT_STATE;
    if (w->said == OT_SAID_FROZEN) return true; /* classify recorded it */
    bool asked = ot_frozen(w) && ot_frozen(b);
    if (!asked && !shared && (training_mode || (is_all(w, 1) && is_all(b, 0)))) return false;
    if (asked)
        ot_find(f, OT_FINDING_NOTE, n->name, NULL, "%sits scale and bias are frozen%s", what,
                ot_frozen_by_name(w) ? " by --freeze" : "");
    else if (shared)
        ot_find(f, OT_FINDING_WARNING, n->name,
                "export the model with torch.onnx.export(..., dynamo=True, optimize=False)",
                "%sthe exporter stored equal tensors once, so its scale and bias are also used by other layers or as "
                "statistics",
                what);
    else if (w->producer || b->producer)
        ot_find(f, OT_FINDING_WARNING, n->name, "use --bn train for batch statistics",
                "%sits scale and bias are computed in "
                "the graph",
                what);
    else
        ot_find(f, OT_FINDING_WARNING, n->name,
                "see 'onnxtrain inspect' for the reasons; use --train PATTERN to "
                "train initializers by name",
                "%sits scale and bias are constants", what);
    return true;
}

/* f: receives the reason if not; may be NULL. */
static bool norm_trains(ot_findings *f, const ot_config *c, const ot_node *n)
{
    bool training_mode = ((const ot_batch_normalization *)n->attrs)->training_mode;
    const ot_shape *x = &n->in[0]->shape;
    int64_t channels = x->rank > 1 ? x->dim[1] : 1;
    if (c->want != OT_WANT_TRAIN && c->want != OT_WANT_GRAD) return false;
    if (c->options.bn == OT_BN_FROZEN) return false;
    if (c->options.bn == OT_BN_TRAIN) return true;
    if (stored(n, 1)->role != OT_WEIGHT && stored(n, 2)->role != OT_WEIGHT && is_frozen(f, n, training_mode))
        return false;
    if (!channels || ot_numel(x) / channels != 1) return true;
    ot_find(f, OT_FINDING_WARNING, n->name,
            "use a larger --batch-size, or --drop-last to skip the "
            "last batch of an epoch",
            "BatchNormalization uses running statistics in batches of %lld, where a channel has a single value",
            (long long)(x->rank ? x->dim[0] : 1));
    return false;
}

/* v in the type and shape of another value. */
static ot_value *as(ot_graph *g, ot_node *at, ot_value *v, const ot_value *other)
{
    ot_build b = { .graph = g, .node = at };
    const ot_shape *s = &other->shape;
    g->cursor = at;
    if (v && v->dtype != other->dtype) v = ot_cast(&b, v, other->dtype);
    if (v && !ot_shape_eq(&v->shape, s))
        v = ot_emit(&b, &ot_op_Reshape, NULL, OT_IN(v, ot_ints_const(&b, s->dim, s->rank)));
    g->cursor = NULL;
    return v;
}

/* Assigns n's result to the statistic at that input.  A norm that several layers share updates it once per layer, in
 * order. */
static void move_state(ot_graph *g, ot_node *n, int input)
{
    ot_value *state = statistic(n, input), *now = as(g, n->next, n->out[input - 2], state);
    ot_assign *before = NULL;
    for (int i = 0; i < g->n_assigns && !before; i++)
        if (g->assigns[i].state == state) before = &g->assigns[i];
    if (!before) {
        ot_graph_assign(g, state, now);
        return;
    }
    n->in[input] = as(g, n, before->value, n->in[input]);
    before->value = now;
}

/* Is one tensor of the file a running statistic of this norm, and a scale or bias of it or another one?  What trains it and what
 * measures it would overwrite each other. */
static bool is_merged(const ot_node *n)
{
    for (int i = 1; i < 5; i++) {
        const ot_value *v = behind(stored(n, i));
        if (i < 3 ? v->role == OT_STATE : v->role == OT_WEIGHT) return true;
        for (int k = 3; k < 5 && i < 3; k++)
            if (v->source >= 0 && behind(stored(n, k)) == v) return true;
    }
    return false;
}

static ot_status set_norm(ot_graph *g, ot_node *n, bool train, const ot_config *c)
{
    ot_batch_normalization *a = ot_graph_alloc(g, sizeof *a);
    if (!a) return g->err->status;
    *a = *(const ot_batch_normalization *)n->attrs;
    a->training_mode = train;
    a->unbiased = c->options.bn_unbiased; /* no attribute of a file */
    n->attrs = a;
    if (train) {
        if (!outputs(g, n, 3)) return g->err->status;
    } else {
        /* The running statistics keep their values for other readers. */
        for (int i = 1; i < n->n_out && i < 3; i++)
            if (n->out[i]) ot_graph_replace(g, n->out[i], n->in[i + 2]);
        n->n_out = 1;
    }
    return ot_node_infer(n, g->err);
}

static ot_status batch_norm(ot_plan *p, const ot_config *c, ot_node *n, int *trained)
{
    ot_graph *g = p->graph;
    if (n->in[0]->mark != OT_FED) return OT_OK;
    const ot_batch_normalization *a = n->attrs;
    bool train = norm_trains(ot_plan_findings(p), c, n);
    OT_TRY(set_norm(g, n, train, c));
    if (!train) return OT_OK;
    if (c->want == OT_WANT_TRAIN && c->options.bn == OT_BN_TRAIN && is_merged(n))
        return ot_fail(
            g->err, OT_E_USAGE,
            "%s: --bn train: the exporter stored equal tensors once, and one is a scale or bias as well as a running "
            "statistic; --untie auto gives each its own",
            n->name);
    *trained += 1;
    bool moved = false;
    for (int i = 3; i < 5 && c->want == OT_WANT_TRAIN; i++)
        if (statistic(n, i)->role == OT_STATE) move_state(g, n, i), moved = true;
    if (moved && a->momentum == 1) /* torch.onnx writes it for momentum=None, the mean of all batches */
        ot_find(ot_plan_findings(p), OT_FINDING_WARNING, n->name,
                "export the model with a momentum such as 0.1, or use --bn frozen",
                "BatchNormalization trains with the statistics of batches, but its momentum of 1 in the file keeps the "
                "running statistics, which evaluation uses, at their values");
    return g->err->status;
}

static ot_status set_dropout(ot_graph *g, ot_node *n, bool on, const ot_config *c)
{
    ot_value **in = ot_graph_alloc(g, 3 * sizeof *in);
    float ratio = (float)c->options.dropout;
    uint8_t train = on;
    if (!in) return g->err->status;
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    in[2] = ot_graph_const(g, "training_mode", OT_BOOL, &OT_SCALAR, &train);
    if (on && c->options.dropout > 0) in[1] = ot_graph_const(g, "ratio", OT_F32, &OT_SCALAR, &ratio);
    n->in = in;
    n->n_in = 3;
    return g->err->status;
}

static bool keeps_file_mode(const ot_config *c) { return c->want == OT_WANT_RUN && !c->options.eval_mode; }

bool ot_dropout_acts(const ot_config *c, const ot_node *n)
{
    const ot_value *ratio = n->n_in > 1 ? n->in[1] : NULL, *mode = n->n_in > 2 ? n->in[2] : NULL;
    if (ratio && ot_get_f64(ratio->data, ratio->dtype, 0) == 0 && c->options.dropout < 0) return false;
    if (keeps_file_mode(c)) return mode && ot_get_i64(mode->data, mode->dtype, 0);
    return (c->want == OT_WANT_TRAIN || c->want == OT_WANT_GRAD) && c->options.dropout != 0;
}

ot_status ot_set_mode_as(const ot_config *c, const ot_node *of, bool fed, ot_graph *g, ot_node *n)
{
    if (keeps_file_mode(c)) return OT_OK;
    if (n->op == &ot_op_Dropout) return set_dropout(g, n, ot_dropout_acts(c, of), c);
    return n->op == &ot_op_BatchNormalization && fed ? set_norm(g, n, norm_trains(NULL, c, of), c) : OT_OK;
}

ot_status ot_pass_train_mode(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    int norms = 0, trained = 0, drops = 0, acting = 0;
    if (keeps_file_mode(c)) return OT_OK;
    ot_mark_fed(g);
    for (ot_node *n = g->first; n; n = n->next) {
        if (n->op == &ot_op_BatchNormalization) norms++, batch_norm(p, c, n, &trained);
        if (n->op == &ot_op_Dropout) {
            bool acts = ot_dropout_acts(c, n);
            drops++, acting += acts, set_dropout(g, n, acts, c);
        }
        if (g->err->status != OT_OK) return g->err->status;
    }
    bool gradient = c->want == OT_WANT_GRAD && acting;
    if (gradient) ot_plan_note(p, "Dropout: %d of %d active (--dropout)", acting, drops);
    if (c->want != OT_WANT_TRAIN) return OT_OK;
    if (norms) ot_plan_note(p, "BatchNormalization: %d of %d use and update batch statistics (--bn)", trained, norms);
    else if (c->options.bn != OT_BN_AUTO)
        ot_plan_note(p, "--bn %s: no effect: the model has no BatchNormalization",
                     c->options.bn == OT_BN_FROZEN ? "frozen" : "train");
    if (!norms && c->options.bn_unbiased)
        ot_plan_note(p, "--bn-variance unbiased: no effect: the model has no BatchNormalization");
    if (drops) ot_plan_note(p, "Dropout: %d of %d active (--dropout)", acting, drops);
    else if (c->options.dropout > 0)
        ot_plan_note(p, "--dropout %g: no effect: the model has no Dropout", c->options.dropout);
    return OT_OK;
}
