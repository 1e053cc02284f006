/* loss.c - target inputs, the loss, and in evaluation its metrics.
 *
 * A loss named by the user acts on an output; where the graph ends in the operator that the loss
 * undoes (Softmax under cross_entropy, LogSoftmax under nll, Sigmoid under bce) the two are joined
 * and act on the value before it, which is the same function computed without cancellation.  A loss
 * left out is chosen from target and tail.  losses.c has the formulas. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/passes/loss.h"

/* ---- choosing ------------------------------------------------------------------- */

static bool is_target(const ot_plan *p, const ot_value *v)
{
    for (int i = 0; i < p->n_targets; i++)
        if (p->targets[i] == v) return true;
    return false;
}

/* The feed with the target of an output, which people name after it; -1: none. */
static int find_target(const ot_plan *p, const ot_config *c, const char *output)
{
    int plain = -1;
    for (int i = 0; i < c->n_feeds; i++) {
        const char *n = c->feeds[i].name;
        if (p->fed[i] && !is_target(p, p->fed[i])) continue; /* an input of the model reads it */
        if (!strncmp(n, "target_", 7) && !strcmp(n + 7, output)) return i;
        if (!strcmp(n, "target")) plain = i;
    }
    return plain;
}

/* For a target of as many elements as the output: values, or shares of the classes, such as one-hot. */
static const char *choose_by_values(ot_loss *x)
{
    const ot_feed *f = x->feed;
    int            axis = x->tail.axis, last = x->z->shape.rank - 1;
    bool           shares = (axis == 1 && f->adds_up[0]) || (axis > 0 && axis == last && f->adds_up[1]);
    if (f->binary && x->tail.kind == OT_TAIL_SIGMOID) return "bce";
    if (shares) return x->axis = axis, x->tail.kind == OT_TAIL_LOG_SOFTMAX ? "nll" : "cross_entropy";
    if (f->binary && x->tail.kind == OT_TAIL_LOG_SOFTMAX) {
        x->hint = "it holds log-probabilities (LogSoftmax), and the 0 and 1 of a sample's target do not sum to 1. Several classes at once "
                  "need an output of scores (--loss bce_with_logits) or of Sigmoid (bce)";
        return NULL;
    }
    bool one_hot = f->adds_up[0] && last > 0 && x->z->shape.dim[1] > 1;
    if (ot_is_float(x->t->dtype)) {
        x->hint = one_hot && f->binary ? "; --loss cross_entropy takes the one-hot targets as classes" : NULL;
        return "mse";
    }
    if (one_hot) return "cross_entropy";
    if (!f->binary && x->tail.kind != OT_TAIL_SIGMOID && ot_numel(&x->z->shape) == x->z->shape.dim[0]) return "mse"; /* no classes: there is one value */
    x->hint = f->binary ? "its target holds 0 and 1 in the shape of the output, which does not end in a Sigmoid: --loss bce_with_logits takes "
                          "the output as scores of yes and no, mse as values"
                        : "its target holds integers in the shape of the output: --loss mse takes them as values; class numbers would have that "
                          "shape without the class axis";
    return NULL;
}

static const char *choose(ot_loss *x)
{
    const ot_value *t = x->t, *z = x->z;
    if (!t) return ot_numel(&z->shape) == 1 || ot_numel(&z->shape) == x->p->micro ? "output" : NULL;
    if (ot_numel(&t->shape) == ot_numel(&z->shape)) return choose_by_values(x);
    if (!ot_is_int(t->dtype)) return NULL;
    if (x->tail.kind != OT_TAIL_SIGMOID) return x->tail.kind == OT_TAIL_LOG_SOFTMAX ? "nll" : "cross_entropy";
    x->hint = "it ends in a Sigmoid, one probability for each class by itself, and its target holds class numbers. --loss bce takes a target "
              "of 0 and 1 in the shape of the output; class numbers need an output of scores or of Softmax (cross_entropy)";
    return NULL;
}

/* The graph's input that reads feed k. */
static ot_value *feed_value(ot_plan *p, const ot_config *c, int k)
{
    if (k < 0) return NULL;
    if (p->fed[k]) return p->fed[k]; /* another loss has the same */
    const ot_feed *f = &c->feeds[k];
    ot_value *v = ot_graph_value(p->graph, f->name, OT_INPUT, f->dtype, &f->shape);
    if (!v) return NULL;
    ot_value **list = ot_graph_alloc(p->graph, (size_t)(p->n_targets + 1) * sizeof *list);
    if (!list) return NULL;
    if (p->n_targets) memcpy(list, p->targets, (size_t)p->n_targets * sizeof *list);
    list[p->n_targets++] = v;
    p->targets = list;
    ot_graph_input(p->graph, v);
    p->fed[k] = v;
    return v;
}

ot_value *ot_loss_array(ot_loss *x, const char *name)
{
    for (int k = 0; k < x->c->n_feeds; k++)
        if (x->c->feeds[k].target && !strcmp(x->c->feeds[k].name, name)) return feed_value(x->p, x->c, k);
    return NULL;
}

static ot_value *find_output(ot_graph *g, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (!name || !strcmp(g->outputs[i]->name, name)) {
            const char *why = g->outputs[i]->left_out;
            return why ? (ot_fail(g->err, OT_E_MODEL, "output '%s' has no loss: %s", g->outputs[i]->name, why), NULL) : g->outputs[i];
        }
    ot_fail(g->err, OT_E_USAGE, "--loss %s=...: the model has no output of that name", name ? name : "");
    return NULL;
}

ot_value *ot_loss_batch_first(ot_loss *x, ot_value *v)
{
    int at = x->feed ? x->feed->batch_axis : 0, perm[OT_MAX_RANK] = { at }, n = 1;
    if (!v || !at || at >= v->shape.rank) return v;
    for (int d = 0; d < v->shape.rank; d++)
        if (d != at) perm[n++] = d;
    return ot_transpose(&x->b, v, perm);
}

/* tail=softmax and its like say how the graph ends: it must. */
static bool tail_is_there(ot_loss *x, const ot_loss_row *r)
{
    const char *said = ot_spec_text(x->how, "tail", "auto");
    if (x->joined || !strcmp(said, "auto") || !strcmp(said, "none")) return true;
    ot_fail(x->p->graph->err, OT_E_USAGE, "loss %s: tail=%s: output '%s' does not end in %s along the class axis", r->name, said, x->out->name,
            r->undoes & 1u << OT_TAIL_SOFTMAX       ? "Softmax"
            : r->undoes & 1u << OT_TAIL_LOG_SOFTMAX ? "LogSoftmax"
            : r->undoes                             ? "Sigmoid"
                                                    : "an operator that this loss can be joined with");
    return false;
}

/* Where the graph ends in what the loss undoes, along the class axis and no other, the loss acts on what is before. */
static void join(ot_loss *x, const ot_loss_row *r)
{
    unsigned sigmoid = 1u << OT_TAIL_SIGMOID, undoes = r->undoes;
    bool     elements = x->t && ot_numel(&x->t->shape) == ot_numel(&x->z->shape);
    if (undoes & sigmoid && undoes & ~sigmoid) undoes &= elements ? sigmoid : ~sigmoid; /* it is another one for each kind of target */
    if (!strcmp(ot_spec_text(x->how, "tail", "auto"), "none") || !(undoes >> x->tail.kind & 1)) return;
    if (r->classes_last && x->z) x->axis = x->z->shape.rank - 1;
    if (x->tail.kind != OT_TAIL_SIGMOID && (!x->t || x->tail.axis < 0 || x->tail.axis != ot_loss_axis(x))) return;
    x->z = ot_loss_batch_first(x, ot_tail_undo(&x->b, &x->tail));
    x->joined = true;
}

/* The graph ends in something that this loss cannot mean.  Probabilities taken for their logarithms have no loss at all: what
 * comes out is negative, and the less the surer the network is of anything. */
static void doubt(ot_loss *x, const ot_loss_row *r)
{
    char remedy[200];
    if (x->joined || !(r->unlike >> x->tail.kind & 1) || !strcmp(ot_spec_text(x->how, "tail", "auto"), "none")) return;
    const char *tail = ot_tail_name(&x->tail), *better = x->tail.kind == OT_TAIL_SIGMOID ? "bce" : x->tail.kind == OT_TAIL_SOFTMAX ? "cross_entropy" : "nll";
    if (r->logs) {
        ot_fail(x->p->graph->err, OT_E_USAGE, "loss %s takes %s, and output '%s' ends in a %s: --loss '%s=%s'; %s:tail=none says that this is meant", r->name,
                r->takes, x->out->name, tail, x->out->name, better, r->name);
        return;
    }
    snprintf(remedy, sizeof remedy, "the loss of a %s is %s; %s:tail=none says that this is meant", tail, better, r->name);
    ot_find(ot_plan_findings(x->p), OT_FINDING_WARNING, NULL, remedy, "loss %s takes %s, and output '%s' ends in a %s", r->name, r->takes,
            x->out->name, tail);
}

/* Another output to put a loss on, by its name, where there is one of floats. */
static void other_output(ot_loss *x)
{
    const ot_graph *g = x->p->graph;
    const char     *what = ot_dtype_name(x->out->dtype), *more = "; no output of the model is of floats";
    char            named[300];
    for (int i = 0; i < g->n_outputs; i++) {
        const ot_value *v = g->outputs[i];
        if (!ot_is_float(v->dtype) || v->left_out) continue;
        snprintf(named, sizeof named, ": --loss '%.200s=%s' names another output", v->name, v->shape.rank > 1 ? "cross_entropy" : "mse");
        more = named;
        break;
    }
    ot_fail(x->p->graph->err, OT_E_MODEL, "output '%s' is %s, and a loss needs floats%s", x->out->name, what, more);
}

/* Class numbers and other integers have no gradient; the tensor they were made from may. */
static void no_float(ot_loss *x)
{
    const ot_node *n = x->out->producer;
    while (n && !strcmp(n->op->name, "Identity") && n->in[0]->producer) n = n->in[0]->producer;
    const ot_value *before = n && n->n_in ? n->in[0] : NULL;
    if (before && ot_is_float(before->dtype))
        ot_fail(x->p->graph->err, OT_E_MODEL,
                "output '%s' is %s, made by %s: a loss needs floats. --output '%s' trains the tensor before it (--loss '%s=%s')", x->out->name,
                ot_dtype_name(x->out->dtype), n->op->name, before->name, before->name, x->how->name);
    else if (x->z)
        other_output(x);
}

static void say_loss(const ot_loss *x, const ot_loss_row *r, bool given)
{
    char how[160] = "", behind[200];
    if (!given) snprintf(how, sizeof how, " (chosen; --loss names another%s)", x->hint ? x->hint : "");
    if (x->joined)
        ot_plan_note(x->p, "loss %s joined with the %s at output '%s'%s%s", r->name, ot_tail_name(&x->tail), x->out->name,
                     ot_tail_moves(&x->tail, behind, sizeof behind), how);
    else ot_plan_note(x->p, "loss %s on output '%s'%s", r->name, x->out->name, how);
}

/* The target with its leading axes as one, of as many elements as the output has rows. */
static ot_value *by_rows(ot_loss *x)
{
    const ot_shape *t = &x->t->shape;
    ot_shape        s = { .rank = 1, .dim = { 1 } };
    for (int d = 0; d < t->rank; d++) {
        if (s.rank == 1 && s.dim[0] < x->z->shape.dim[0]) s.dim[0] *= t->dim[d];
        else s.dim[s.rank++] = t->dim[d];
    }
    return ot_view(&x->b, x->t, &s);
}

/* What acts on output z: its target, its tail. */
static void look_at(ot_loss *x)
{
    int k = find_target(x->p, x->c, x->out->name);
    x->t = feed_value(x->p, x->c, k);
    x->feed = x->t ? &x->c->feeds[k] : NULL;
    x->tail = ot_tail_find(x->out);
    x->z = ot_loss_batch_first(x, x->out);
    if (x->z && x->feed && x->feed->by_rows) x->t = by_rows(x);
    int front = x->feed ? x->feed->batch_axis : 0;
    if (x->tail.axis >= 0 && x->tail.axis <= front) x->tail.axis = x->tail.axis == front ? 0 : x->tail.axis + 1;
}

/* A loss by itself, and its right answers. */
typedef struct single {
    ot_value   *loss, *right, *of;
    const char *output;
} single;

typedef struct singles {
    int    n;
    single one[OT_HEADS];
} singles;

/* One loss, its scalar times its weight, on output z; *alone without it.  given: NULL: what follows from target and tail. */
static ot_value *one_loss(ot_plan *p, const ot_config *c, const ot_spec *given, ot_value *z, single *alone)
{
    ot_graph *g = p->graph;
    ot_spec  chosen = { 0 };
    ot_loss   x = { .p = p, .c = c, .b = { .graph = g }, .how = given ? given : &chosen, .out = z, .axis = -1 };
    look_at(&x);
    if (!x.z) return NULL;
    if (!given && !(chosen.name = choose(&x))) {
        ot_fail(g->err, OT_E_USAGE, "no loss can be chosen for output '%s': %s", z->name,
                x.hint ? x.hint : "name one with --loss: cross_entropy (class numbers), mse, l1, bce (targets in the shape of the output), output "
                                  "(the output is the loss)");
        return NULL;
    }
    const ot_loss_row *r = ot_loss_find(x.how->name);
    if (!r) return ot_fail(g->err, OT_E_INTERNAL, "loss '%s' has no formula", x.how->name), NULL;
    join(&x, r);
    if (!tail_is_there(&x, r)) return NULL;
    say_loss(&x, r, given != NULL);
    doubt(&x, r);
    if (g->err->status) return NULL;
    if (x.z && (x.z->dtype == OT_F16 || x.z->dtype == OT_BF16)) x.z = ot_cast(&x.b, x.z, OT_F32);
    if (!x.z || !ot_is_float(x.z->dtype)) return no_float(&x), NULL;
    ot_value *l = r->build(&x);
    double    w = ot_spec_num(x.how, "weight", 1);
    *alone = (single){ l, x.right, x.of, z->name };
    return l && w != 1 ? mul(&x, l, num(&x, w)) : l;
}

/* The host reads single losses where there are several. */
static void keep_singles(ot_plan *p, const singles *s)
{
    for (int i = 0; i < s->n && p->n_losses > 1; i++) {
        const single *o = &s->one[i];
        int           kept = ot_plan_keep(p, o->loss);
        if (kept >= 0) p->head[p->n_heads++] = (ot_head){ o->output, kept, o->right ? ot_plan_keep(p, o->right) : -1, o->of ? ot_plan_keep(p, o->of) : -1 };
    }
}

static ot_status add_loss(ot_plan *p, const ot_config *c, const ot_spec *given, ot_value *z, singles *all)
{
    ot_graph *g = p->graph;
    ot_build  b = { .graph = g };
    single    alone = { 0 };
    ot_value *l = z ? one_loss(p, c, given, z, &alone) : NULL;
    if (!l) return g->err->status != OT_OK ? g->err->status : OT_E_INTERNAL;
    if (all->n < OT_HEADS) all->one[all->n++] = alone;
    if (p->loss && l->dtype != p->loss->dtype) l = ot_cast(&b, l, p->loss->dtype);
    p->loss = p->loss ? ot_map2(&b, OT_FN_Add, 0, 0, p->loss, l) : l;
    p->n_losses++;
    return g->err->status;
}

/* Running a file: the outputs asked for.  Training needs none of them. */
static ot_status outputs(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    if (c->want == OT_WANT_TRAIN || c->want == OT_WANT_GRAD) g->n_outputs = 0;
    for (int i = 0; i < c->n_wanted; i++)
        if (!find_output(g, c->wanted[i])) return g->err->status;
    return OT_OK;
}

static bool is_scalar(const ot_plan *p, const ot_value *v)
{
    return ot_is_float(v->dtype) && (ot_numel(&v->shape) == 1 || (p->micro && ot_numel(&v->shape) == p->micro));
}

/* The output that is the loss: of those with one element the one called so, else the first; the first of all where none has. */
static ot_value *loss_in_graph(const ot_plan *p)
{
    const ot_graph *g = p->graph;
    ot_value       *found = NULL;
    for (int i = 0; i < g->n_outputs; i++)
        if (is_scalar(p, g->outputs[i]) && (!found || (strcmp(found->name, "loss") && !strcmp(g->outputs[i]->name, "loss")))) found = g->outputs[i];
    return found ? found : g->outputs[0];
}

/* One per output with a target of its own; a target that names no output is the first one's.  Without any, an output must
 * be the loss. */
static ot_status chosen_losses(ot_plan *p, const ot_config *c, singles *all)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_outputs; i++) {
        int k = find_target(p, c, g->outputs[i]->name);
        if (k >= 0 && (i == 0 || strcmp(c->feeds[k].name, "target"))) OT_TRY(add_loss(p, c, NULL, g->outputs[i], all));
    }
    return p->loss ? OT_OK : add_loss(p, c, NULL, loss_in_graph(p), all);
}

/* A weight of 0 leaves an output out: what only it reaches neither trains nor decays. */
static ot_status given_losses(ot_plan *p, const ot_config *c, singles *all)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < c->n_losses; i++) {
        const ot_spec *t = &c->losses[i];
        bool            own = !t->output && !strcmp(t->name, "output");
        if (ot_spec_num(t, "weight", 1) != 0) OT_TRY(add_loss(p, c, t, own ? loss_in_graph(p) : find_output(g, t->output), all));
    }
    return p->loss ? OT_OK : ot_fail(g->err, OT_E_USAGE, "--loss: every loss has weight 0, so nothing trains");
}

ot_status ot_pass_loss(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    if (c->want == OT_WANT_RUN) return outputs(p, c);
    if (!g->n_outputs) return ot_fail(g->err, OT_E_MODEL, "the graph has no output to put a loss on");
    singles all = { 0 };
    p->before_loss = g->n_values;
    if (p->own) OT_TRY(ot_own_loss(p));
    else OT_TRY(c->n_losses ? given_losses(p, c, &all) : chosen_losses(p, c, &all));
    ot_plan_keep(p, p->loss);
    keep_singles(p, &all);
    return g->err->status != OT_OK ? g->err->status : outputs(p, c);
}
