/* sequence.c - resolves sequences and optionals while shapes are inferred.
 *
 * A sequence is the list of inputs of a SequenceConstruct, an optional the one input of an Optional, or none.  An
 * operator that makes a list from a list is replaced by such a node; one that reads an element, the length or the
 * concatenation reads the elements themselves.  No step computes a list: after inference these nodes have no readers
 * and are removed (infer.c).
 *
 * Positions and lengths must be known while planning; data-dependent ones are decisions. */
#include <stdlib.h>
#include <string.h>

#include "ops/onnx/sequence.h"
#include "runtime/passes/control.h"
#include "runtime/passes/passes.h"

/* The node whose inputs are the elements of input 0; NULL: error recorded. */
static const ot_node *elements(const ot_node *n, ot_error *err)
{
    if (ot_is_list(n->in[0])) return n->in[0]->producer;
    ot_node_fail(n, err, "input 0 ('%s') must be a sequence of known length", n->in[0]->name);
    return NULL;
}

/* The position in input i, from 0 to `last`; `dflt` if the input is missing. */
static ot_status position(const ot_node *n, int i, int count, int last, int dflt, int *at, ot_error *err)
{
    *at = dflt;
    if (i < n->n_in && n->in[i]) {
        ot_ints given;
        OT_TRY(ot_const_ints(n, i, &given, err));
        if (given.n != 1)
            return ot_node_fail(n, err, "input %d ('%s') has %d elements; a position is one number", i, n->in[i]->name,
                                given.n);
        if (!count && last < 0)
            return ot_node_fail(n, err,
                                "position %lld is out of range: the sequence '%s' is "
                                "empty",
                                (long long)given.v[0], n->in[0]->name);
        if (given.v[0] < -count || given.v[0] > last)
            return ot_node_fail(
                n, err,
                "position %lld (input %d, '%s') is out of range: the sequence '%s' has %d element%s, so that it may be %d to %d",
                (long long)given.v[0], i, n->in[i]->name, n->in[0]->name, count, count == 1 ? "" : "s", -count, last);
        *at = (int)(given.v[0] < 0 ? given.v[0] + count : given.v[0]);
    }
    if (*at < 0 || *at > last) return ot_node_fail(n, err, "the sequence is empty");
    return OT_OK;
}

static ot_value *emit(ot_graph *g, const ot_node *n, const char *op, ot_value *const *in, int n_in)
{
    ot_node *k = ot_graph_node(g, ot_find_op("", op), n->name, NULL, in, n_in, 1);
    return k ? k->out[0] : NULL;
}

static ot_value *number(ot_graph *g, int64_t v, int rank)
{
    return ot_graph_const(g, "", OT_I64, &(ot_shape){ .rank = rank, .dim = { 1 } }, &v);
}

/* ---- sequences ----------------------------------------------------------------- */

static ot_status at(ot_graph *g, ot_node *n)
{
    const ot_node *s = elements(n, g->err);
    int k;
    if (!s) return g->err->status;
    OT_TRY(position(n, 1, s->n_in, s->n_in - 1, -1, &k, g->err));
    return ot_deliver(g, n, 0, "Identity", &s->in[k], 1);
}

static ot_status empty(ot_graph *g, ot_node *n) { return ot_deliver(g, n, 0, "SequenceConstruct", NULL, 0); }

static ot_status length(ot_graph *g, ot_node *n)
{
    const ot_node *s = elements(n, g->err);
    if (!s) return g->err->status;
    return ot_deliver(g, n, 0, "Identity", OT_IN(number(g, s->n_in, 0)));
}

/* Makes n the list of these elements; frees the array.  A loop that grows a list copies it in every iteration: this
 * counts towards the limit of copies by loops, an element as a fraction of a node.  An error names the loop, not the
 * node in it. */
static ot_status deliver_list(ot_graph *g, ot_node *n, ot_value **list, int count)
{
    enum { ELEMENTS_OF_A_NODE = 32 };
    int64_t cost = count / ELEMENTS_OF_A_NODE;
    ot_status s = ot_deliver(g, n, 0, "SequenceConstruct", list, count);
    g->room->copies = g->room->copies > cost ? g->room->copies - cost : 0;
    free(list);
    return s;
}

static ot_value **list_of(ot_graph *g, const ot_node *n, int64_t count)
{
    ot_value **list = malloc((size_t)(count + 1) * sizeof *list);
    if (!list)
        ot_node_fail(n, g->err, "no memory for a sequence of %lld elements", (long long)count),
            g->err->status = OT_E_NOMEM;
    return list;
}

static ot_status erase(ot_graph *g, ot_node *n)
{
    const ot_node *s = elements(n, g->err);
    int k;
    if (!s) return g->err->status;
    OT_TRY(position(n, 1, s->n_in, s->n_in - 1, s->n_in - 1, &k, g->err));
    ot_value **list = list_of(g, n, s->n_in);
    if (!list) return g->err->status;
    for (int i = 0, to = 0; i < s->n_in; i++)
        if (i != k) list[to++] = s->in[i];
    return deliver_list(g, n, list, s->n_in - 1);
}

static ot_status insert(ot_graph *g, ot_node *n)
{
    const ot_node *s = elements(n, g->err);
    int k;
    if (!s) return g->err->status;
    OT_TRY(position(n, 2, s->n_in, s->n_in, s->n_in, &k, g->err));
    ot_value **list = list_of(g, n, (int64_t)s->n_in + 1);
    if (!list) return g->err->status;
    for (int i = 0; i <= s->n_in; i++) list[i] = i < k ? s->in[i] : i == k ? n->in[1] : s->in[i - 1];
    return deliver_list(g, n, list, s->n_in + 1);
}

static ot_status concat(ot_graph *g, ot_node *n)
{
    const ot_sequence_attrs *a = n->attrs;
    const ot_node *s = elements(n, g->err);
    if (!s) return g->err->status;
    if (!s->n_in) return ot_node_fail(n, g->err, "the sequence is empty");
    ot_value **list = ot_value_list(g, s->n_in, 1), *axis = number(g, a->axis, 1);
    for (int i = 0; list && i < s->n_in; i++)
        list[i] = a->new_axis ? emit(g, n, "Unsqueeze", OT_IN(s->in[i], axis)) : s->in[i];
    if (g->err->status != OT_OK) return g->err->status;
    OT_TRY(ot_deliver(g, n, 0, "Concat", list, s->n_in));
    ot_set_attr(n->out[0]->producer, "axis", a->axis);
    return OT_OK;
}

/* ---- SplitToSequence -------------------------------------------------------------- */

/* Sizes of the parts along the axis: as listed, or `each` elements with a smaller last part. */
static ot_status part_sizes(ot_node *n, int64_t total, ot_ints *sizes, ot_error *err)
{
    int64_t each = 1, parts;
    OT_TRY(ot_const_ints(n, 1, sizes, err));
    bool given = n->n_in > 1 && n->in[1];
    if (given && n->in[1]->shape.rank == 1) return OT_OK;
    if (given) each = sizes->v[0];
    if (each < 1) return ot_node_fail(n, err, "parts of %lld elements: must be at least 1", (long long)each);
    parts = total / each + (total % each != 0);
    if (parts > INT32_MAX) return ot_node_fail(n, err, "%lld parts are too many", (long long)parts);
    int64_t *v = ot_node_alloc(n, (size_t)parts * sizeof *v);
    for (int64_t i = 0; v && i < parts; i++) v[i] = total - i * each < each ? total - i * each : each;
    *sizes = (ot_ints){ (int)parts, v };
    return v || !parts ? OT_OK : OT_E_NOMEM;
}

static ot_status split(ot_graph *g, ot_node *n)
{
    const ot_sequence_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    ot_ints sizes;
    int axis;
    if (n->in[0]->dtype == OT_UNDEFINED)
        return ot_node_fail(n, g->err,
                            "input 0 ('%s') is a sequence; expected a "
                            "tensor",
                            n->in[0]->name);
    OT_TRY(ot_node_axis(n, a->axis, x->rank, &axis, g->err));
    OT_TRY(part_sizes(n, x->dim[axis], &sizes, g->err));
    if (!sizes.n) return empty(g, n);
    if (sizes.n > g->room->copies) return ot_node_fail(n, g->err, "%d parts are too many", sizes.n);
    g->room->copies -= sizes.n;
    ot_value **part = ot_value_list(g, sizes.n, 1), *axes = number(g, axis, 1);
    bool squeeze = !a->keepdims && !(n->n_in > 1 && n->in[1]); /* with explicit sizes keepdims has no effect */
    int64_t from = 0, left = x->dim[axis];
    for (int i = 0; part && i < sizes.n; from += sizes.v[i], left -= sizes.v[i], i++) {
        if (sizes.v[i] < 0 || sizes.v[i] > left)
            return ot_node_fail(n, g->err,
                                "part %d has %lld elements, but only "
                                "%lld are left",
                                i, (long long)sizes.v[i], (long long)left);
        part[i] = emit(g, n, "Slice", OT_IN(n->in[0], number(g, from, 1), number(g, from + sizes.v[i], 1), axes));
        if (part[i] && squeeze) part[i] = emit(g, n, "Squeeze", OT_IN(part[i], axes));
    }
    if (g->err->status != OT_OK) return g->err->status;
    if (left)
        return ot_node_fail(n, g->err, "the sizes of the parts leave %lld elements of the axis over", (long long)left);
    return ot_deliver(g, n, 0, "SequenceConstruct", part, sizes.n);
}

/* ---- SequenceMap ------------------------------------------------------------------ */

/* Applies the body to every element; inputs that are tensors are passed to each call. */
static ot_status map(ot_graph *g, ot_node *n)
{
    const ot_sequence_attrs *a = n->attrs;
    const ot_node *s = elements(n, g->err);
    if (!s) return g->err->status;
    if (!a->body || a->body->n_inputs != n->n_in || a->body->n_outputs != n->n_out)
        return ot_node_fail(n, g->err, "the inputs and outputs of its body do not match the node");
    ot_value **in = ot_value_list(g, n->n_in, 1), **all = ot_value_list(g, s->n_in, n->n_out);
    if (!in || !all) return g->err->status;
    for (int k = 0; k < s->n_in; k++) {
        for (int i = 0; i < n->n_in; i++) {
            in[i] = n->in[i];
            if (!ot_is_list(in[i])) continue;
            if (in[i]->producer->n_in != s->n_in)
                return ot_node_fail(n, g->err, "input %d has %d elements, but input 0 has %d", i, in[i]->producer->n_in,
                                    s->n_in);
            in[i] = in[i]->producer->in[k];
        }
        ot_graph *body = ot_iteration(g, n, a->body, in);
        if (!body) return g->err->status;
        OT_TRY(ot_splice(g, body));
        for (int i = 0; i < n->n_out; i++) all[i * s->n_in + k] = body->outputs[i];
    }
    for (int i = 0; i < n->n_out; i++) OT_TRY(ot_deliver(g, n, i, "SequenceConstruct", all + i * s->n_in, s->n_in));
    return OT_OK;
}

/* ---- optionals --------------------------------------------------------------------- */

static ot_status has_element(ot_graph *g, ot_node *n)
{
    const ot_value *x = n->n_in ? n->in[0] : NULL;
    uint8_t has = x && (!ot_is_optional(x) || x->producer->n_in);
    return ot_deliver(g, n, 0, "Identity", OT_IN(ot_graph_const(g, "", OT_BOOL, &OT_SCALAR, &has)));
}

static ot_status get_element(ot_graph *g, ot_node *n)
{
    ot_value *x = n->in[0];
    if (!ot_is_optional(x)) return ot_deliver(g, n, 0, "Identity", &x, 1);
    if (!x->producer->n_in) return ot_node_fail(n, g->err, "optional '%s' is empty", x->name);
    return ot_deliver(g, n, 0, "Identity", x->producer->in, 1);
}

/* ---- operators on both tensors and lists --------------------------------------------- */

static ot_status same(ot_graph *g, ot_node *n)
{
    const ot_node *from = n->in[0]->producer;
    return ot_deliver(g, n, 0, from->op->name, from->in, from->n_in);
}

/* An If with a data-dependent condition: both lists must have one length, and every element is selected. */
static ot_status choose(ot_graph *g, ot_node *n)
{
    const ot_node *yes = n->in[1]->producer, *no = n->in[2]->producer;
    if (!yes || !no || yes->op != no->op || yes->n_in != no->n_in)
        return ot_node_fail(n, g->err,
                            "data selects between sequences or optionals of different lengths; their "
                            "lengths must be equal");
    ot_value **list = ot_value_list(g, yes->n_in, 1);
    for (int i = 0; list && i < yes->n_in; i++) list[i] = emit(g, n, "Where", OT_IN(n->in[0], yes->in[i], no->in[i]));
    return g->err->status != OT_OK ? g->err->status : ot_deliver(g, n, 0, yes->op->name, list, yes->n_in);
}

/* ---- all of them ----------------------------------------------------------------------- */

static const struct {
    const ot_op *op;
    ot_status (*run)(ot_graph *g, ot_node *n);
} spelled[] = {
    { &ot_op_ConcatFromSequence, concat },
    { &ot_op_Identity, same },
    { &ot_op_OptionalGetElement, get_element },
    { &ot_op_OptionalHasElement, has_element },
    { &ot_op_SequenceAt, at },
    { &ot_op_SequenceEmpty, empty },
    { &ot_op_SequenceErase, erase },
    { &ot_op_SequenceInsert, insert },
    { &ot_op_SequenceLength, length },
    { &ot_op_SequenceMap, map },
    { &ot_op_SplitToSequence, split },
    { &ot_op_Where, choose },
};

bool ot_reads_sequence(const ot_node *n)
{
    int i = 0;
    bool tensors = n->op == &ot_op_Identity || n->op == &ot_op_Where; /* unless it reads a list */
    while (i < OT_LEN(spelled) && spelled[i].op != n->op) i++;
    if (i == OT_LEN(spelled)) return false;
    for (int k = 0; k < n->n_in && tensors; k++) tensors = !ot_is_list(n->in[k]) && !ot_is_optional(n->in[k]);
    return !tensors;
}

ot_status ot_spell_sequence(ot_graph *g, ot_node *n, bool *over)
{
    int i = 0;
    while (spelled[i].op != n->op) i++;
    *over = true;
    return spelled[i].run(g, n);
}
