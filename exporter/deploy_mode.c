/* deploy_mode.c - puts BatchNormalization and Dropout into inference mode.
 *
 * Spec  BatchNormalization: the mode is is_test up to opset 6, the number of outputs from 7 to 13, training_mode from
 *       14 on.  Dropout: is_test up to opset 6, never in training from 7 to 11, an input from 12 on. */
#include "exporter/body.h"
#include "ops/op.h"

static bool set(const ot_body *b, const ot_item *i, size_t at)
{
    return at < i->n->n_output && *ot_text(i->n->output[at]) && !b->no_memory;
}

/* An output that only training gives: the file does not give it any more.  The last output of a file stays. */
static void output_drop(ot_body *b, const ot_item *i, size_t at)
{
    ot_name *v = ot_item_out(b, i, at);
    if (!v || !v->output || v->makers != 1 || b->outputs < 2) return;
    ot_body_drop_output(b, v);
    ot_body_say(b, "output '%.200s' removed: it exists in training mode only", v->text);
}

/* Does the node read more of its k-th input than the type? */
static bool reads(const ot_item *i, size_t k)
{
    const ot_op *op = ot_find_op(ot_text(i->n->domain), ot_text(i->n->op_type));
    return !op || !ot_is_type_only(op, (int)k);
}

/* What depends on an input.  Nodes are sorted; what comes from a subgraph may. */
static void mark_fed(ot_body *b)
{
    for (const ot_frame *f = b->frames->next; f; f = f->next)
        for (size_t k = 0; k < f->owner->n->n_output; k++) {
            ot_name *v = ot_item_out(b, f->owner, k);
            if (v) v->fed = true;
        }
    for (ot_frame *f = b->frames; f; f = f->next) {
        for (ot_name *v = f == b->frames ? b->names : NULL; v; v = v->next) v->fed |= !v->tensor && !v->maker;
        for (ot_item *i = f->first; i; i = i->next) {
            bool fed = false;
            for (size_t k = 0; k < i->n->n_input; k++)
                fed |= ot_item_in(b, i, k) && ot_item_in(b, i, k)->fed && reads(i, k);
            for (size_t k = 0; k < i->n->n_output; k++)
                if (ot_item_out(b, i, k)) ot_item_out(b, i, k)->fed |= fed;
        }
    }
}

/* ---- BatchNormalization ------------------------------------------------------------------ */

/* Outputs behind Y.  A running statistic that is read is the one that goes in. */
static bool outputs_cut(ot_body *b, ot_item *i)
{
    for (size_t k = 1; k < i->n->n_output; k++) {
        output_drop(b, i, k);
        const ot_name *v = ot_item_out(b, i, k);
        if (k > 2 && v && (v->n_use || v->output)) return false; /* statistics of the batch */
    }
    for (size_t k = 1; k < 3 && k < i->n->n_output; k++) {
        ot_name *v = ot_item_out(b, i, k), *running = ot_item_in(b, i, k + 2);
        if (!v || !(v->n_use || v->output) || !running) continue;
        ot_item_set_out(b, i, k, NULL);
        ot_body_unary(b, i, false, "Identity", running, v);
    }
    ot_item_cut_out(b, i, 1);
    return true;
}

static bool norm_infer(ot_body *b, ot_item *i)
{
    Onnx__NodeProto *n = i->n;
    bool more = false, attribute = b->version >= 14 ? ot_attr_find(n, "training_mode") != NULL
                                                    : b->version < 7 && !ot_attr_int(n, "is_test", 0);
    for (size_t k = 1; k < n->n_output; k++) more |= set(b, i, k);
    const Onnx__AttributeProto *mode = ot_attr_find(n, "training_mode");
    bool trains = more || (b->version < 7 && attribute) ||
                  (b->version >= 14 && mode && (mode->i || (mode->ref_attr_name && *mode->ref_attr_name)));
    const ot_name *x = ot_item_in(b, i, 0);
    if (trains && x && !x->fed) {
        ot_body_say(b, "BatchNormalization '%.200s' unchanged: it normalises a weight, not data", ot_text(n->name));
        return false;
    }
    if (!outputs_cut(b, i)) {
        ot_body_say(b, "BatchNormalization '%.200s' kept in training mode: its batch statistics are used",
                    ot_text(n->name));
        return false;
    }
    if (b->version >= 14) ot_attr_drop(n, "training_mode");
    else if (b->version < 7) ot_attr_set_int(b, n, "is_test", 1);
    return trains;
}

/* ---- Dropout ---------------------------------------------------------------------------------- */

/* Whether `from` may be called `to` wherever it is read. */
static bool may_stand_for(const ot_name *to, const ot_name *from, const ot_frame *f)
{
    if (to->makers != 1 || from->makers != 1 || from->output) return false;
    /* What a subgraph or a function gives is made in it, and given once. */
    return !ot_used_outside_nodes(from) || (to->maker && to->frame == f && !ot_used_outside_nodes(to));
}

static void identity(ot_item *i)
{
    i->n->op_type = ot_message_text("Identity");
    i->n->n_attribute = 0;
    i->frame->changed = true;
}

static bool dropout_remove(ot_body *b, ot_item *i)
{
    output_drop(b, i, 1);
    const ot_name *mask = ot_item_out(b, i, 1);
    ot_name *x = ot_item_in(b, i, 0), *y = ot_item_out(b, i, 0);
    if (!x || !y) return false;
    if (mask && (mask->n_use || mask->output)) {
        if (b->version < 7) ot_attr_set_int(b, i->n, "is_test", 1);
        ot_item_cut_in(b, i, 2);
        ot_body_say(b, "Dropout '%.200s' kept in inference mode: its mask output '%.200s' is used", ot_text(i->n->name),
                    mask->text);
        return false;
    }
    ot_item_cut_out(b, i, 1);
    if (may_stand_for(x, y, i->frame)) {
        ot_body_replace(b, y, x);
        ot_item_kill(b, i);
    } else if (y->output && y->makers == 1 && x->makers == 1 && !x->output && x->maker && x->frame == i->frame &&
               !ot_used_outside_nodes(x)) {
        /* The file's output keeps its name: what made x makes it. */
        ot_item *maker = x->maker;
        size_t port = x->port;
        ot_item_kill(b, i);
        ot_body_replace(b, x, y);
        ot_item_set_out(b, maker, port, y);
    } else {
        ot_item_cut_in(b, i, 1);
        identity(i);
    }
    return true;
}

void ot_deploy_mode(ot_body *b, int *norms, int *dropouts)
{
    mark_fed(b);
    for (ot_frame *f = b->frames; f; f = f->next)
        for (ot_item *i = f->first, *next; i && !b->no_memory; i = next) {
            next = i->next;
            if (ot_item_is(i, "BatchNormalization")) *norms += norm_infer(b, i);
            else if (ot_item_is(i, "Dropout")) *dropouts += dropout_remove(b, i);
        }
}
