/* loss.c - adds target inputs, the loss and, in evaluation, its metrics.
 *
 * A loss named by the user acts on an output.  If the graph ends in the operator that the loss inverts (Softmax with
 * cross_entropy, LogSoftmax with nll, Sigmoid with bce), the two are combined and act on the value before it: the
 * same function, computed without cancellation.  Without a named loss, one is chosen from the target and the tail of
 * the graph.  The formulas are in runtime/losses. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/losses/loss.h"
#include "runtime/passes/passes.h"

/* A loss while it is chosen and built. */
typedef struct choice {
    ot_loss l;
    ot_spec spec; /* the loss, by name and parameters */
    ot_plan *p;
    const ot_config *c;
    const ot_feed *feed; /* type of the target; NULL: there is no target */
    const char *hint;    /* other losses that were possible, or why none was chosen; NULL */
} choice;

/* ---- choosing ------------------------------------------------------------------- */

static bool is_target(const ot_plan *p, const ot_value *v)
{
    for (int i = 0; i < p->n_targets; i++)
        if (p->targets[i] == v) return true;
    return false;
}

/* The feed with the target of an output, by its name; -1: none. */
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

/* Is the target, in the shape of the output, a probability for each class: along axis 1, or along the last of a sequence? */
static bool are_probabilities(const choice *x)
{
    const ot_shape *z = &x->l.z->shape;
    int last = z->rank - 1;
    bool first = x->feed->adds_up[0] && last > 0 && z->dim[1] > 1,
         end = x->feed->adds_up[1] && last == 2 && z->dim[2] > 1;
    return (first || end) && ot_is_float(x->l.t->dtype) && ot_shape_eq(&x->l.t->shape, z);
}

/* For a target of as many elements as the output: values, or probabilities of the classes, such as one-hot. */
static const char *choose_by_values(choice *x)
{
    const ot_feed *f = x->feed;
    int axis = x->l.tail.axis, last = x->l.z->shape.rank - 1;
    bool shares = (axis == 1 && f->adds_up[0]) || (axis > 0 && axis == last && f->adds_up[1]);
    if (f->binary && (x->l.tail.kind == OT_TAIL_SIGMOID || ot_made_hard_sigmoid(x->l.out))) return "bce";
    if (shares || f->mixed) {
        x->l.axis = f->mixed ? 1 : axis;
        return x->l.tail.kind == OT_TAIL_LOG_SOFTMAX ? "nll" : "cross_entropy";
    }
    if (f->binary && x->l.tail.kind == OT_TAIL_LOG_SOFTMAX) {
        x->hint = "it contains log-probabilities (LogSoftmax), but the targets 0 and 1 of a sample do not sum to 1; "
                  "for several classes per sample use an output of logits (--loss bce_with_logits) or Sigmoid (bce)";
        return NULL;
    }
    bool one_hot = f->adds_up[0] && last > 0 && x->l.z->shape.dim[1] > 1;
    bool linear = ot_made_linear(x->l.out), labels = f->binary && f->varies && linear;
    if (!f->binary && linear && are_probabilities(x)) {
        x->hint = "; the target has probabilities: use --loss mse to fit them as values";
        return "cross_entropy";
    }
    if (ot_is_float(x->l.t->dtype) && !labels) {
        x->hint = one_hot && f->binary ? "; use --loss cross_entropy for one-hot targets" : NULL;
        return "mse";
    }
    if (one_hot) return "cross_entropy";
    bool single = ot_numel(&x->l.z->shape) == x->l.z->shape.dim[0]; /* no class axis */
    if (!f->binary && x->l.tail.kind != OT_TAIL_SIGMOID && single) return "mse";
    if (f->binary && f->named && ot_made_linear(x->l.out)) return "bce_with_logits"; /* strings name classes */
    x->hint = f->binary ? "its target contains 0 and 1 in the shape of the output, but the output does not end in "
                          "Sigmoid; use --loss bce_with_logits for logits, or mse for values"
              : single  ? "it ends in Sigmoid and its target contains other integers than 0 and 1; use 0 and 1 for two "
                          "classes, or --loss mse for values"
                        : "its target contains integers in the shape of the output; use --loss mse for values, or "
                          "remove the class axis for class numbers";
    return NULL;
}

static const char *choose(choice *x)
{
    const ot_value *t = x->l.t, *z = x->l.z;
    if (!t) return ot_numel(&z->shape) == 1 || ot_numel(&z->shape) == x->p->micro ? "output" : NULL;
    if (ot_numel(&t->shape) == ot_numel(&z->shape)) return choose_by_values(x);
    if (!ot_is_int(t->dtype)) return NULL;
    return x->l.tail.kind == OT_TAIL_SIGMOID ? "bce" : x->l.tail.kind == OT_TAIL_LOG_SOFTMAX ? "nll" : "cross_entropy";
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

/* For formulas: constants and weights besides the targets. */
static ot_value *array(void *user, const char *name)
{
    const choice *x = user;
    for (int k = 0; k < x->c->n_feeds; k++)
        if (x->c->feeds[k].target && !strcmp(x->c->feeds[k].name, name)) return feed_value(x->p, x->c, k);
    return NULL;
}

static ot_value *find_output(ot_graph *g, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (!name || !strcmp(g->outputs[i]->name, name)) {
            const char *why = g->outputs[i]->left_out;
            return why ? (ot_fail(g->err, OT_E_MODEL, "output '%s' cannot have a loss: %s", g->outputs[i]->name, why),
                          NULL)
                       : g->outputs[i];
        }
    ot_fail(g->err, OT_E_USAGE, "--loss %s=...: the model has no output of that name", name ? name : "");
    return NULL;
}

/* tail=softmax and others declare how the graph ends: it must end so. */
static bool tail_is_there(choice *x, const ot_loss_kind *r)
{
    const char *said = ot_spec_text(x->l.how, "tail");
    if (x->l.joined || !strcmp(said, "auto") || !strcmp(said, "none")) return true;
    ot_fail(x->p->graph->err, OT_E_USAGE, "loss %s: tail=%s: output '%s' does not end in %s along the class axis",
            r->entry.name, said, x->l.out->name,
            r->undoes & 1u << OT_TAIL_SOFTMAX       ? "Softmax"
            : r->undoes & 1u << OT_TAIL_LOG_SOFTMAX ? "LogSoftmax"
            : r->undoes                             ? "Sigmoid"
                                                    : "an operator that this loss includes");
    return false;
}

/* If the graph ends in the operator that the loss inverts, along the class axis and no other, the loss acts on that
 * operator's input. */
static void join(choice *x, const ot_loss_kind *r)
{
    unsigned sigmoid = 1u << OT_TAIL_SIGMOID, undoes = r->undoes;
    bool elements = x->l.t && ot_numel(&x->l.t->shape) == ot_numel(&x->l.z->shape);
    if (undoes & sigmoid && undoes & ~sigmoid)
        undoes &= elements ? sigmoid : ~sigmoid; /* which depends on the kind of target */
    if (ot_spec_is(x->l.how, "tail", "none") || !(undoes >> x->l.tail.kind & 1)) return;
    if (r->classes_last && x->l.z) x->l.axis = x->l.z->shape.rank - 1;
    if (x->l.tail.kind != OT_TAIL_SIGMOID && (!x->l.t || x->l.tail.axis < 0 || x->l.tail.axis != ot_loss_axis(&x->l)))
        return;
    x->l.z = ot_loss_batch_first(&x->l, ot_tail_undo(&x->l.b, &x->l.tail));
    x->l.joined = true;
}

/* Scores in place of log-probabilities make no loss either, and neither does a target that is no distribution. */
static void doubt_logs(choice *x, const ot_loss_kind *r)
{
    const ot_feed *f = x->feed;
    if (r->logs && !x->l.joined && ot_made_linear(x->l.out) && !ot_spec_is(x->l.how, "tail", "none"))
        ot_find(ot_plan_findings(x->p), OT_FINDING_WARNING, NULL,
                "the loss can fall without limit; use loss cross_entropy, which takes probabilities as targets too, or "
                "end the model in LogSoftmax; tail=none in --loss keeps it",
                "loss %s needs %s, but output '%s' has no LogSoftmax", r->entry.name, r->acts_on, x->l.out->name);
    bool logs = ot_entry_key(&r->entry, "log_target") && ot_spec_flag(x->l.how, "log_target");
    if (r->distribution && !logs && f && f->examined && !f->adds_up[0] && !f->adds_up[1])
        ot_find(ot_plan_findings(x->p), OT_FINDING_WARNING, NULL,
                "log_target=true in --loss is for log-probabilities; for values use another loss, such as mse",
                "loss %s needs a target of probabilities, but '%s' has numbers below 0 or that do not add up to 1",
                r->entry.name, f->name);
}

/* Refuses tails that do not fit this loss.  Probabilities in place of their logarithms make no loss: the result is
 * negative, and decreases as the network gets less certain. */
static void doubt(choice *x, const ot_loss_kind *r)
{
    char remedy[200];
    doubt_logs(x, r);
    if (r->bounded && !x->l.joined && ot_made_linear(x->l.out) && !ot_spec_is(x->l.how, "tail", "none")) {
        ot_fail(x->p->graph->err, OT_E_USAGE,
                "loss %s needs %s, from 0 to 1, but output '%s' has no Sigmoid: use --loss '%s=%s_with_logits', or "
                "%s:tail=none to keep it",
                r->entry.name, r->acts_on, x->l.out->name, x->l.out->name, r->entry.name, r->entry.name);
        return;
    }
    if (x->l.joined || !(r->unlike >> x->l.tail.kind & 1) || ot_spec_is(x->l.how, "tail", "none")) return;
    const char *tail = ot_tail_name(&x->l.tail), *better = x->l.tail.kind == OT_TAIL_SIGMOID   ? "bce"
                                                           : x->l.tail.kind == OT_TAIL_SOFTMAX ? "cross_entropy"
                                                                                               : "nll";
    if (r->logs) {
        ot_fail(x->p->graph->err, OT_E_USAGE,
                "loss %s needs %s, but output '%s' ends in %s: use --loss '%s=%s', or "
                "%s:tail=none to keep it",
                r->entry.name, r->acts_on, x->l.out->name, tail, x->l.out->name, better, r->entry.name);
        return;
    }
    snprintf(remedy, sizeof remedy, "for %s use loss %s, or %s:tail=none to keep it", tail, better, r->entry.name);
    ot_find(ot_plan_findings(x->p), OT_FINDING_WARNING, NULL, remedy, "loss %s needs %s, but output '%s' ends in %s",
            r->entry.name, r->acts_on, x->l.out->name, tail);
}

/* Another output with floats that a loss could act on, by name. */
static void other_output(choice *x)
{
    const ot_graph *g = x->p->graph;
    const char *what = ot_dtype_name(x->l.out->dtype), *more = "; the model has no float output";
    char named[700];
    for (int i = 0; i < g->n_outputs; i++) {
        const ot_value *v = g->outputs[i];
        if (v->left_out) {
            snprintf(named, sizeof named, "; output '%.200s' cannot have one: %.400s", v->name, v->left_out);
            more = named;
        }
        if (!ot_is_float(v->dtype) || v->left_out) continue;
        snprintf(named, sizeof named, "; use another output: --loss '%.200s=%s'", v->name,
                 v->shape.rank > 1 ? "cross_entropy" : "mse");
        more = named;
        break;
    }
    ot_fail(x->p->graph->err, OT_E_MODEL, "output '%s' is %s, but a loss needs floats%s", x->l.out->name, what, more);
}

/* Class numbers and other integers have no gradient; the tensor that they were computed from may have one. */
static void no_float(choice *x)
{
    const ot_node *n = x->l.out->producer;
    while (n && n->op == &ot_op_Identity && n->in[0]->producer) n = n->in[0]->producer;
    const ot_value *before = n && n->n_in ? n->in[0] : NULL;
    if (before && ot_is_float(before->dtype))
        ot_fail(x->p->graph->err, OT_E_MODEL,
                "output '%s' is %s, produced by %s, but a loss needs floats; use --output '%s' to train the tensor "
                "before it (--loss '%s=%s')",
                x->l.out->name, ot_dtype_name(x->l.out->dtype), n->op->name, before->name, before->name,
                x->l.how->name);
    else if (x->l.z) other_output(x);
}

static void say_loss(const choice *x, const ot_loss_kind *r, bool given)
{
    char how[160] = "", behind[200];
    if (!given) snprintf(how, sizeof how, " (default; change with --loss%s)", x->hint ? x->hint : "");
    if (x->l.joined)
        ot_plan_note(x->p, "loss %s combined with the %s of output '%s'%s%s", r->entry.name, ot_tail_name(&x->l.tail),
                     x->l.out->name, ot_tail_moves(&x->l.tail, behind, sizeof behind), how);
    else ot_plan_note(x->p, "loss %s on output '%s'%s", r->entry.name, x->l.out->name, how);
}

/* The target with its leading axes joined into one, with as many elements as the output has rows. */
static ot_value *by_rows(choice *x)
{
    const ot_shape *t = &x->l.t->shape;
    ot_shape s = { .rank = 1, .dim = { 1 } };
    for (int d = 0; d < t->rank; d++) {
        if (s.rank == 1 && s.dim[0] < x->l.z->shape.dim[0]) s.dim[0] *= t->dim[d];
        else s.dim[s.rank++] = t->dim[d];
    }
    return ot_view(&x->l.b, x->l.t, &s);
}

/* The operands of the loss on output z: its target, its tail. */
static void look_at(choice *x)
{
    int k = find_target(x->p, x->c, x->l.out->name);
    x->l.t = feed_value(x->p, x->c, k);
    x->feed = x->l.t ? &x->c->feeds[k] : NULL;
    if (x->feed) {
        x->l.batch_axis = x->feed->batch_axis;
        x->l.ignores = x->feed->ignores;
        x->l.blank = x->feed->blank;
        memcpy(x->l.adds_up, x->feed->adds_up, sizeof x->l.adds_up);
    }
    x->l.tail = ot_tail_find(x->l.out);
    x->l.z = ot_loss_batch_first(&x->l, x->l.out);
    if (x->l.z && x->feed && x->feed->by_rows) x->l.t = by_rows(x);
    int front = x->l.batch_axis;
    if (x->l.tail.axis >= 0 && x->l.tail.axis <= front)
        x->l.tail.axis = x->l.tail.axis == front ? 0 : x->l.tail.axis + 1;
}

/* A loss without its weight, and its count of correct answers. */
typedef struct single {
    ot_value *loss, *right, *of, *divisor;
    const char *output, *kind;
    double weight;
} single;

typedef struct singles {
    int n;
    single one[OT_HEADS];
} singles;

/* An earlier loss on that output, with `counts` one that counts correct answers; NULL: there is none. */
static const single *earlier(const singles *s, const char *output, bool counts)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->one[i].output, output) && (s->one[i].right || !counts)) return &s->one[i];
    return NULL;
}

/* The output, and the loss if the output has several. */
static const char *head_name(const ot_plan *p, const singles *s, int i)
{
    const single *o = &s->one[i];
    int n = 0;
    for (int k = 0; k < s->n; k++) n += !strcmp(s->one[k].output, o->output);
    const char *name = n > 1 ? ot_arena_printf(p->graph->arena, "%s/%s", o->output, o->kind) : o->output;
    return name ? name : o->output;
}

/* In an evaluation the counts of correct answers are kept for the host; those of the first loss also under the
 * plan's own names. */
static void keep_right(choice *x)
{
    ot_plan *p = x->p;
    if (!x->l.right) return;
    if (!p->correct) p->counted_of = x->l.out->name, p->correct = x->l.right, p->counted = x->l.of;
    ot_plan_keep(p, x->l.right);
    ot_plan_keep(p, x->l.of);
}

/* The teacher's output that output z learns from: the requested one (for the first loss), of the same name, or the only one of the same
 * shape; NULL: none. */
static ot_value *teacher_of(const choice *x)
{
    const ot_plan *p = x->p;
    const char *asked = p->n_taught ? ot_spec_text(&x->c->options.teacher->how, "output") : NULL;
    ot_value *found = NULL;
    int n = 0;
    for (int i = 0; i < p->n_taught; i++) {
        if (!strcmp(p->taught[i]->name, asked ? asked : x->l.out->name))
            return asked && p->n_losses ? NULL : p->taught[i];
        if (ot_shape_eq(&p->taught[i]->shape, &x->l.out->shape) && ot_is_float(p->taught[i]->dtype))
            found = p->taught[i], n++;
    }
    return asked || n != 1 || x->l.kind->takes == OT_TAKES_NOTHING ? NULL : found;
}

static ot_status no_teacher(ot_plan *p, const ot_config *c)
{
    const ot_teacher *t = c->options.teacher;
    const char *asked = ot_spec_text(&t->how, "output");
    char shape[128], list[600] = "";
    size_t at = 0;
    for (int i = 0; i < p->n_taught && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s'%.100s' %s%s", at ? ", " : "", p->taught[i]->name,
                               ot_dtype_name(p->taught[i]->dtype), ot_shape_text(&p->taught[i]->shape, shape));
    return ot_fail(p->graph->err, asked ? OT_E_USAGE : OT_E_MODEL, "--teacher %s: %s%s%s: %s", t->path,
                   asked ? "it has no output '"
                         : "no output of it has the name of an output with a loss, and not exactly one has its shape",
                   asked ? asked : "", asked ? "'; it has" : "", list);
}

/* A property of an output that metrics need. */
static void keep_property(ot_plan *p, const ot_value *output, bool **list)
{
    ot_graph *g = p->graph;
    if (!*list) *list = ot_graph_alloc(g, (size_t)g->n_outputs * sizeof **list);
    for (int i = 0; i < g->n_outputs && *list; i++) (*list)[i] |= g->outputs[i] == output;
}

/* What the trainer and metrics need of a loss on output z. */
static void keep_properties(const choice *x, const ot_spec *given, const ot_value *z)
{
    ot_plan *p = x->p;
    const ot_loss *l = &x->l;
    int k = given ? (int)(given - x->c->options.losses) : p->n_defaults;
    if (given && k < OT_HEADS) p->weighted_classes[k] = l->classes;
    if (k < OT_HEADS && z->shape.rank > 2 && l->axis > 0) p->class_axis[k] = l->axis;
    if (!given && l->t && k < OT_HEADS) p->defaults[p->n_defaults++] = (ot_default_loss){ z->name, x->spec.name };
    if (l->exponential && l->eval) keep_property(p, z, &p->exponential);
    if (l->by_class && l->eval) keep_property(p, z, &p->by_class);
}

/* An output without an activation that says it is on the scale that its loss expects: metrics read it so. */
static void settle_scale(choice *x, const ot_loss_kind *r)
{
    const ot_graph *g = x->p->graph;
    for (int i = 0; i < g->n_outputs && (r->bounded || r->logs); i++)
        if (g->outputs[i] == x->l.out && x->p->tails[i] == OT_TAIL_NONE)
            x->p->tails[i] = r->bounded ? OT_TAIL_SIGMOID : OT_TAIL_LOG_SOFTMAX;
}

/* One loss on output z: a scalar times its weight; *alone is without the weight.  given: NULL: chosen from target
 * and tail.  before: of several losses on an output one counts correct answers and learns from the teacher. */
static ot_value *one_loss(ot_plan *p, const ot_config *c, const ot_spec *given, ot_value *z, const singles *before,
                          single *alone)
{
    ot_graph *g = p->graph;
    choice x = { .p = p, .c = c };
    ot_loss *l = &x.l;
    if (given) x.spec = *given;
    *l = (ot_loss){ .b = { .graph = g },
                    .how = &x.spec,
                    .out = z,
                    .axis = -1,
                    .micro = p->micro,
                    .eval = c->want == OT_WANT_EVAL && !earlier(before, z->name, true),
                    .findings = ot_plan_findings(p),
                    .array = array,
                    .user = &x };
    look_at(&x);
    if (!l->z) return NULL;
    if (!given && !ot_is_float(z->dtype)) { /* whatever its target says */
        x.spec.name = x.feed && ot_is_int(x.feed->dtype) ? "cross_entropy" : "mse";
        no_float(&x);
        return NULL;
    }
    if (!given && !(x.spec.name = choose(&x))) {
        ot_fail(g->err, OT_E_USAGE, "no default loss for output '%s': %s", z->name,
                x.hint ? x.hint
                       : "choose one with --loss: cross_entropy (class numbers), mse, l1, bce (targets in "
                         "the shape of the output), output (the output is the loss)");
        return NULL;
    }
    const ot_loss_kind *r = l->kind = ot_loss_find(x.spec.name);
    if (!r) {
        ot_registry_unknown(&ot_losses, "loss", x.spec.name, g->arena, g->err);
        return NULL;
    }
    x.spec.entry = &r->entry;
    join(&x, r);
    if (!tail_is_there(&x, r)) return NULL;
    say_loss(&x, r, given != NULL);
    doubt(&x, r);
    if (g->err->status) return NULL;
    if (!x.l.joined) settle_scale(&x, r);
    if (l->z && (l->z->dtype == OT_F16 || l->z->dtype == OT_BF16)) l->z = ot_cast(&l->b, l->z, OT_F32);
    if (!l->z || !ot_is_float(l->z->dtype)) {
        no_float(&x);
        return NULL;
    }
    ot_value *v = r->build(l);
    double w = ot_spec_num(&x.spec, "weight");
    keep_right(&x);
    keep_properties(&x, given, z);
    *alone = (single){ v, l->right, l->of, l->divisor, z->name, r->entry.name, w };
    ot_value *teacher = v && !earlier(before, z->name, false) ? teacher_of(&x) : NULL;
    if (teacher) { /* its part of the mean has no weights */
        v = ot_loss_taught(l, v, &c->options.teacher->how, teacher);
        p->learns = true;
        alone->divisor = NULL;
    }
    return v && w != 1 ? mul(l, v, num(l, w)) : v;
}

/* The host reads single losses if there are several. */
static void keep_singles(ot_plan *p, const singles *s)
{
    for (int i = 0; i < s->n && p->n_losses > 1; i++) {
        const single *o = &s->one[i];
        int kept = ot_plan_keep(p, o->loss);
        if (kept >= 0)
            p->head[p->n_heads++] = (ot_head){ .output = o->output,
                                               .name = head_name(p, s, i),
                                               .kept = kept,
                                               .right = o->right ? ot_plan_keep(p, o->right) : -1,
                                               .of = o->of ? ot_plan_keep(p, o->of) : -1,
                                               .divisor = o->divisor ? ot_plan_keep(p, o->divisor) : -1,
                                               .weight = o->weight };
    }
    if (p->n_losses == 1 && s->n == 1 && (p->divisor = s->one[0].divisor)) ot_plan_keep(p, p->divisor);
}

static ot_status add_loss(ot_plan *p, const ot_config *c, const ot_spec *given, ot_value *z, singles *all)
{
    ot_graph *g = p->graph;
    ot_build b = { .graph = g };
    single alone = { 0 };
    ot_value *l = z ? one_loss(p, c, given, z, all, &alone) : NULL;
    if (!l) return g->err->status != OT_OK ? g->err->status : OT_E_INTERNAL;
    if (all->n < OT_HEADS) all->one[all->n++] = alone;
    if (p->loss && l->dtype != p->loss->dtype) l = ot_cast(&b, l, p->loss->dtype);
    p->loss = p->loss ? ot_map2(&b, OT_FN_Add, 0, 0, p->loss, l) : l;
    p->n_losses++;
    return g->err->status;
}

/* Without training (run): the requested outputs. */
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

/* The output that is the loss: among outputs of one element the one named so, else the first; of others alike. */
static ot_value *loss_in_graph(const ot_plan *p)
{
    const ot_graph *g = p->graph;
    ot_value *found = NULL, *named = g->outputs[0];
    for (int i = 0; i < g->n_outputs; i++)
        if (ot_is_float(g->outputs[i]->dtype) && !strcmp(g->outputs[i]->name, "loss")) named = g->outputs[i];
    for (int i = 0; i < g->n_outputs; i++)
        if (is_scalar(p, g->outputs[i]) &&
            (!found || (strcmp(found->name, "loss") && !strcmp(g->outputs[i]->name, "loss"))))
            found = g->outputs[i];
    return found ? found : named;
}

/* One loss per output with a target of its own; a target that names no output belongs to the first.  Without any
 * target, an output must be the loss. */
static ot_status chosen_losses(ot_plan *p, const ot_config *c, singles *all)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_outputs; i++) {
        int k = find_target(p, c, g->outputs[i]->name);
        if (k >= 0 && (i == 0 || strcmp(c->feeds[k].name, "target"))) OT_TRY(add_loss(p, c, NULL, g->outputs[i], all));
    }
    return p->loss ? OT_OK : add_loss(p, c, NULL, loss_in_graph(p), all);
}

/* An output with weight 0 is ignored: values that only it depends on neither train nor decay. */
static ot_status given_losses(ot_plan *p, const ot_config *c, singles *all)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < c->options.n_losses; i++) {
        const ot_spec *t = &c->options.losses[i];
        bool own = !t->output && !strcmp(t->name, "output");
        if (!ot_loss_left_out(t)) OT_TRY(add_loss(p, c, t, own ? loss_in_graph(p) : find_output(g, t->output), all));
    }
    return p->loss ? OT_OK : ot_fail(g->err, OT_E_USAGE, "--loss: all losses have weight 0, so nothing trains");
}

ot_status ot_pass_loss(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    if (c->want == OT_WANT_RUN || c->want == OT_WANT_PREDICT) return outputs(p, c);
    if (!g->n_outputs) return ot_fail(g->err, OT_E_MODEL, "the graph has no output for the loss");
    singles all = { 0 };
    p->before_loss = g->n_values;
    if (p->own) OT_TRY(ot_own_loss(p));
    else OT_TRY(c->options.n_losses ? given_losses(p, c, &all) : chosen_losses(p, c, &all));
    if (p->teacher && !p->learns) return no_teacher(p, c);
    ot_plan_keep(p, p->loss);
    keep_singles(p, &all);
    return g->err->status != OT_OK ? g->err->status : outputs(p, c);
}
