/* deploy_loss.c - removes outputs that are losses, the nodes that only they need, and training information.
 *
 * A loss is an output of one of ONNX's loss operators, or a scalar computed from an input that no other output needs
 * (a target).  ot_body_close removes the nodes that are unused then. */
#include "exporter/body.h"

#include <stdlib.h>

typedef struct walk {
    ot_body *b;
    ot_name **stack;
    size_t n, cap;
    int mark;
    bool loss; /* a loss operator's loss was met */
} walk;

static bool is_loss(const ot_item *i)
{
    return ot_item_is(i, "SoftmaxCrossEntropyLoss") || ot_item_is(i, "NegativeLogLikelihoodLoss");
}

static void push(walk *w, ot_name *v)
{
    if (!v || v->mark == w->mark) return;
    if (w->n == w->cap) {
        size_t more = w->cap ? 2 * w->cap : 256;
        ot_name **wide = realloc(w->stack, more * sizeof *wide);
        if (!wide) {
            w->b->no_memory = true;
            return;
        }
        w->stack = wide;
        w->cap = more;
    }
    v->mark = w->mark;
    w->stack[w->n++] = v;
}

static void push_inputs(walk *w, const ot_item *i)
{
    for (size_t k = 0; k < i->n->n_input; k++) push(w, ot_item_in(w->b, i, k));
    if (!i->n->n_attribute) return;
    for (const ot_frame *f = w->b->frames->next; f; f = f->next)
        for (const ot_item *in = f->owner == i ? f->first : NULL; in; in = in->next) push_inputs(w, in);
}

/* Marks what v is made from, v too. */
static void walk_from(walk *w, ot_name *v)
{
    w->mark++;
    w->loss = false;
    push(w, v);
    while (w->n && !w->b->no_memory) {
        ot_name *at = w->stack[--w->n];
        w->loss |= at->maker && at->port == 0 && is_loss(at->maker);
        if (at->maker) push_inputs(w, at->maker);
    }
}

/* Is v made from an input of the file that no other output needs? */
static bool has_target(walk *w, ot_name *v)
{
    walk_from(w, v);
    for (const ot_name *in = w->b->names; in; in = in->next)
        if (in->mark == w->mark && in->input && !in->tensor && in->frame == w->b->frames && !in->needed) return true;
    return false;
}

static bool is_scalar(const ot_body *b, const ot_name *v)
{
    const ot_value *known = ot_body_value(b, v);
    return known && known->shape.rank == 0 && ot_is_float(known->dtype);
}

/* Output log_prob of a loss whose output 0 is not used. */
static void only_log_prob(ot_body *b, ot_item *i)
{
    const ot_name *loss = ot_item_out(b, i, 0);
    ot_name *log_prob = ot_item_out(b, i, 1);
    if (!ot_item_is(i, "SoftmaxCrossEntropyLoss") || b->version < 13 || !log_prob || log_prob->makers != 1) return;
    if (!(log_prob->n_use || log_prob->output) || (loss && (loss->n_use || loss->output))) return;
    ot_item_cut_in(b, i, 1);
    ot_item_cut_out(b, i, 1);
    ot_item_set_out(b, i, 0, log_prob);
    i->n->op_type = ot_message_text("LogSoftmax");
    i->n->n_attribute = 0;
    ot_attr_set_int(b, i->n, "axis", 1);
}

static void losses_drop(ot_body *b, ot_name **out, const bool *loss, int n)
{
    int left = 0;
    for (int k = 0; k < n; k++) left += !loss[k];
    for (int k = 0; k < n; k++) {
        if (!loss[k]) continue;
        if (!left) {
            ot_body_say(b, "output '%.200s' is a loss, but is kept because the file has no other output", out[k]->text);
            continue;
        }
        ot_body_drop_output(b, out[k]);
        ot_body_say(b, "output '%.200s' removed: it is a loss", out[k]->text);
    }
    for (ot_item *i = b->frames->first; left && i && left < n; i = i->next) only_log_prob(b, i);
}

ot_status ot_deploy_losses(ot_body *b)
{
    const Onnx__GraphProto *g = b->model->graph;
    int n = 0, most = (int)g->n_output;
    ot_name **out = ot_body_alloc(b, (size_t)(most + 1) * sizeof *out);
    bool *loss = ot_body_alloc(b, 2 * (size_t)most + 1), *by_operator = loss ? loss + most : NULL;
    walk w = { .b = b };
    if (b->model->n_training_info) ot_body_say(b, "training information removed");
    b->model->n_training_info = 0;
    for (int k = 0; out && k < most; k++) {
        ot_name *v = ot_body_name(b, g->output[k]->name);
        if (v && v->output && v->makers == 1) out[n++] = v;
    }
    for (int k = 0; loss && k < n; k++) {
        walk_from(&w, out[k]);
        by_operator[k] = w.loss;
        loss[k] = w.loss || is_scalar(b, out[k]);
        for (ot_name *v = b->names; v && !loss[k]; v = v->next) v->needed |= v->mark == w.mark;
    }
    for (int k = 0; loss && k < n; k++) loss[k] = loss[k] && (by_operator[k] || has_target(&w, out[k]));
    if (loss && out) losses_drop(b, out, loss, n);
    free(w.stack);
    return b->no_memory ? ot_fail(b->err, OT_E_NOMEM, "export: no memory") : OT_OK;
}
