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
    for (const ot_frame *f = i->inner; f; f = f->sibling)
        for (const ot_item *in = f->first; in; in = in->next) push_inputs(w, in);
}

/* Marks what the names on the stack are made from. */
static void walk_back(walk *w)
{
    while (w->n && !w->b->no_memory) {
        const ot_name *at = w->stack[--w->n];
        if (at->maker) push_inputs(w, at->maker);
    }
}

/* Marks what is made from the names on the stack. */
static void walk_on(walk *w)
{
    while (w->n && !w->b->no_memory) {
        const ot_name *at = w->stack[--w->n];
        for (const ot_use *u = at->use; u; u = u->next)
            for (ot_item *i = u->item ? u->item : u->frame->owner; i && i->mark != w->mark; i = i->frame->owner) {
                i->mark = w->mark;
                for (size_t k = 0; k < i->n->n_output; k++) push(w, ot_item_out(w->b, i, k));
            }
    }
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
    /* Walks that are the same for all outputs, so that their time is that of the file. */
    w.mark++; /* 1: made from the result of a loss operator */
    for (const ot_frame *f = b->frames; f; f = f->next)
        for (const ot_item *i = f->first; i; i = i->next)
            if (is_loss(i)) push(&w, ot_item_out(b, i, 0));
    walk_on(&w);
    for (int k = 0; loss && k < n; k++) by_operator[k] = out[k]->mark == w.mark;
    w.mark++; /* 2: what the other outputs need */
    for (int k = 0; loss && k < n; k++) {
        loss[k] = by_operator[k] || is_scalar(b, out[k]);
        if (!loss[k]) push(&w, out[k]);
    }
    walk_back(&w);
    for (ot_name *v = b->names; v; v = v->next) v->needed = v->mark == w.mark;
    w.mark++; /* 3: made from a target, an input of the file that no other output needs */
    for (ot_name *v = b->names; v; v = v->next)
        if (v->input && !v->tensor && v->frame == b->frames && !v->needed) push(&w, v);
    walk_on(&w);
    for (int k = 0; loss && k < n; k++) loss[k] = loss[k] && (by_operator[k] || out[k]->mark == w.mark);
    if (loss && out) losses_drop(b, out, loss, n);
    free(w.stack);
    return b->no_memory ? ot_fail(b->err, OT_E_NOMEM, "export: no memory") : OT_OK;
}
