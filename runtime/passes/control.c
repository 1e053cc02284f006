/* control.c - If, Loop and Scan are unrolled while shapes are inferred.
 *
 * If with a known condition: the branch replaces the node.  Exporters write such nodes for questions about shapes.
 * With a data-dependent condition the plan is for one of the branches (decide.h).  Without a decider both branches
 * replace the node, and Where selects between their outputs, which must have equal types and shapes.  In each case
 * the gradient of the branch not taken is zero.
 *
 * Loop and Scan: one copy of the body per iteration, in sequence.  Their number is known while planning, or
 * data-dependent.  The condition of a Loop is evaluated after every iteration, once the body that computes it has
 * been inferred; a Loop is therefore replaced by one iteration, followed by the same node for the remaining ones.
 *
 * Memory  The graph's size budget (ot_room) bounds the iterations of all loops together: nested loops multiply. */
#include <stdio.h>
#include <string.h>

#include "ops/onnx/control.h"
#include "runtime/passes/control.h"
#include "runtime/passes/decide.h"
#include "runtime/passes/passes.h"

ot_status ot_splice(ot_graph *g, ot_graph *sub)
{
    int n = g->n_values + sub->n_values;
    if (n > g->cap_values) {
        ot_value **values = ot_graph_alloc(g, 2 * (size_t)n * sizeof *values);
        if (!values) return g->err->status;
        memcpy(values, g->values, (size_t)g->n_values * sizeof *values);
        g->values = values;
        g->cap_values = 2 * n;
    }
    for (int i = 0; i < sub->n_values; i++) {
        sub->values[i]->id = g->n_values + i;
        g->values[g->n_values + i] = sub->values[i];
    }
    g->n_values = n;
    ot_node *at = g->cursor;
    for (ot_node *k = sub->first, *next; k; k = next) {
        next = k->next;
        k->graph = g;
        k->prev = at->prev;
        k->next = at;
        if (at->prev) at->prev->next = k;
        else g->first = k;
        at->prev = k;
        g->n_nodes++;
    }
    sub->first = sub->last = NULL;
    sub->n_values = 0;
    return OT_OK;
}

ot_status ot_deliver(ot_graph *g, ot_node *n, int i, const char *op, ot_value *const *in, int n_in)
{
    if (!n->out[i]) return OT_OK;
    ot_node *k = ot_graph_node(g, ot_find_op("", op), n->name, NULL, in, n_in, 1);
    if (!k) return g->err->status;
    k->out[0]->producer = NULL;
    k->out[0] = n->out[i];
    n->out[i]->producer = k;
    n->out[i]->port = 0;
    return OT_OK;
}

static ot_status take_branch(ot_graph *g, ot_node *n, ot_graph *branch)
{
    OT_TRY(ot_splice(g, branch));
    for (int i = 0; i < n->n_out; i++) OT_TRY(ot_deliver(g, n, i, "Identity", OT_IN(branch->outputs[i])));
    return OT_OK;
}

static ot_status take_both(ot_graph *g, ot_node *n, const ot_if *a)
{
    ot_graph *yes = a->then_branch, *no = a->else_branch;
    g->room->branches++;
    OT_TRY(ot_splice(g, yes));
    OT_TRY(ot_splice(g, no));
    for (int i = 0; i < n->n_out; i++)
        OT_TRY(ot_deliver(g, n, i, "Where", OT_IN(n->in[0], yes->outputs[i], no->outputs[i])));
    return OT_OK;
}

/* ---- Loop ---------------------------------------------------------------------- */

/* Limited by the graph's budget: a product that overflows is over the budget too. */
ot_value **ot_value_list(ot_graph *g, int64_t n, int64_t each)
{
    int64_t bytes;
    if (!ot_mul(n, each, &bytes) || !ot_mul(bytes, (int64_t)sizeof(ot_value *), &bytes)) bytes = INT64_MAX;
    return ot_graph_alloc(g, (size_t)bytes);
}

ot_graph *ot_iteration(ot_graph *g, const ot_node *n, const ot_graph *body, ot_value *const *in)
{
    int64_t size = 1 + ot_graph_size(body);
    if (g->err->status != OT_OK) return NULL;
    if (size > g->room->copies) {
        int64_t done = n->op == &ot_op_Loop ? ((const ot_loop_attrs *)n->attrs)->done : 0;
        char first[64] = "";
        if (done) snprintf(first, sizeof first, "not finished after %lld iterations: ", (long long)done);
        ot_node_fail(n, g->err,
                     "%sthe unrolled loops of the model are too large: the limit is about 250000 nodes and "
                     "values, and 500 for each in the file",
                     first);
        return NULL;
    }
    g->room->copies -= size;
    return ot_graph_copy_sub(body, in);
}

static ot_value *int_const(ot_graph *g, int64_t v, int rank)
{
    return ot_graph_const(g, "", OT_I64, &(ot_shape){ .rank = rank, .dim = { 1 } }, &v);
}

/* Concatenates the values of one output, one per iteration, along a new axis. */
static ot_value *stack(ot_graph *g, const ot_node *n, ot_value *const *list, int64_t count, int64_t stride,
                       int64_t axis, bool backwards)
{
    ot_value **parts = ot_value_list(g, count, 1);
    if (!parts) return NULL;
    for (int64_t k = 0; k < count; k++) {
        ot_value *one = list[(backwards ? count - 1 - k : k) * stride];
        ot_node *u = ot_graph_node(g, ot_find_op("", "Unsqueeze"), n->name, NULL, OT_IN(one, int_const(g, axis, 1)), 1);
        if (!u) return NULL;
        parts[k] = u->out[0];
    }
    ot_node *c = ot_graph_node(g, ot_find_op("", "Concat"), n->name, NULL, parts, (int)count, 1);
    if (!c) return NULL;
    ot_set_attr(c, "axis", axis);
    return c->out[0];
}

/* The end of the loop: the carried values, and the stacked scan outputs. */
static ot_status finish_loop(ot_graph *g, ot_node *n, const ot_loop_attrs *a)
{
    int carried = n->n_in - 2, scans = n->n_out - carried;
    for (int i = 0; i < carried && i < n->n_out; i++) OT_TRY(ot_deliver(g, n, i, "Identity", OT_IN(n->in[2 + i])));
    for (int i = 0; i < scans; i++) {
        if (!n->out[carried + i]) continue;
        if (!a->done)
            return ot_node_fail(n, g->err, "it has no iteration, so the size of scan output %d is unknown", i);
        ot_value *all = stack(g, n, a->scanned + i, a->done, scans, 0, false);
        if (!all) return g->err->status;
        OT_TRY(ot_deliver(g, n, carried + i, "Identity", OT_IN(all)));
    }
    return OT_OK;
}

static const ot_dtype *types_of(ot_graph *g, ot_value *const *v, int n)
{
    ot_dtype *t = ot_graph_alloc(g, (size_t)(n + 1) * sizeof *t);
    for (int i = 0; t && i < n; i++) t[i] = v[i]->dtype;
    return t;
}

/* Reserves space for the scan outputs of one more iteration. */
static bool grow_scanned(ot_graph *g, ot_loop_attrs *a, int scans)
{
    if (a->done < a->room || !scans) return true;
    int64_t room = a->room ? 2 * a->room : 8;
    ot_value **list = ot_value_list(g, room, scans);
    if (!list) return false;
    if (a->done) memcpy(list, a->scanned, (size_t)a->done * (size_t)scans * sizeof *list);
    a->scanned = list;
    a->room = room;
    return true;
}

/* Inserts one iteration before n; the iteration computes n's next condition. */
static ot_status one_iteration(ot_graph *g, ot_node *n, ot_loop_attrs *a)
{
    int carried = n->n_in - 2, scans = n->n_out - carried;
    ot_value *given[2] = { n->in[0], n->in[1] };
    uint8_t yes = 1;
    if (!a->carried && !(a->carried = types_of(g, n->in + 2, carried))) return g->err->status;
    n->in[0] = int_const(g, a->done, 0);
    if (!n->in[1]) n->in[1] = ot_graph_const(g, "", OT_BOOL, &OT_SCALAR, &yes);
    ot_graph *body = ot_iteration(g, n, a->body, n->in);
    n->in[0] = given[0];
    n->in[1] = given[1];
    if (!body || !grow_scanned(g, a, scans)) return g->err->status;
    OT_TRY(ot_splice(g, body));
    for (int i = 0; i < scans; i++) a->scanned[a->done * scans + i] = body->outputs[1 + carried + i];
    n->in[1] = body->outputs[0];
    for (int i = 0; i < carried; i++) n->in[2 + i] = body->outputs[1 + i];
    a->done++;
    return OT_OK;
}

/* Does the body return the condition unchanged, or as true? */
static bool stays_true(const ot_graph *body)
{
    const ot_value *v = body->outputs[0];
    while (v->producer && v->producer->op == &ot_op_Identity) v = v->producer->in[0];
    return v == body->inputs[1] ||
           (ot_is_const(v) && v->dtype == OT_BOOL && ot_numel(&v->shape) == 1 && ot_get_i64(v->data, v->dtype, 0));
}

/* Checks that are possible before the first iteration, which may be expensive. */
static ot_status check_end(ot_graph *g, const ot_node *n, const ot_loop_attrs *a, bool known, int64_t trips)
{
    if (a->done || (known && trips <= g->room->copies) || !stays_true(a->body)) return OT_OK;
    if (known)
        return ot_node_fail(n, g->err,
                            "it has %lld iterations and its condition stays true: the unrolled loops of "
                            "the model are limited to about 250000 nodes and values, and 500 for each in "
                            "the file",
                            (long long)trips);
    return ot_node_fail(n, g->err, "it never ends: it has no trip count, and its condition stays true");
}

/* *over: the outputs exist; n is done. */
static ot_status loop(ot_graph *g, ot_node *n, bool *over)
{
    ot_loop_attrs *a = (ot_loop_attrs *)(uintptr_t)n->attrs; /* n belongs to the graph itself */
    for (int i = 0; i < 2; i++)
        if (n->in[i] && !ot_is_const(n->in[i])) OT_TRY(ot_decide_input(g, n, i));
    const ot_value *trips = n->in[0], *cond = n->in[1];
    int64_t count = trips ? ot_get_i64(trips->data, trips->dtype, 0) : 0;
    *over = (trips && a->done >= count) || (cond && !ot_get_i64(cond->data, cond->dtype, 0));
    if (!*over) OT_TRY(check_end(g, n, a, trips != NULL, count));
    return *over ? finish_loop(g, n, a) : one_iteration(g, n, a);
}

/* ---- Scan ----------------------------------------------------------------------- */

static int64_t at(ot_ints list, int i) { return i < list.n ? list.v[i] : 0; }

/* Element t of x along the axis, without it. */
static ot_value *slice(ot_graph *g, const ot_node *n, ot_value *x, int64_t axis, int64_t t)
{
    ot_node *k = ot_graph_node(g, ot_find_op("", "Gather"), n->name, NULL, OT_IN(x, int_const(g, t, 0)), 1);
    if (!k) return NULL;
    ot_set_attr(k, "axis", axis);
    return k->out[0];
}

/* Unrolls all iterations over these inputs; the values of the node's outputs go to out. */
static ot_status iterate(ot_graph *g, ot_node *n, ot_value *const *from, int64_t length, ot_value **out)
{
    const ot_scan_attrs *a = n->attrs;
    int ins = (int)a->num_scan_inputs, carried = n->n_in - ins, scans = n->n_out - carried;
    ot_value **in = ot_value_list(g, n->n_in, 1);
    ot_value **all = ot_value_list(g, length, scans);
    if (!in || !all) return g->err->status;
    memcpy(in, from, (size_t)n->n_in * sizeof *in);
    for (int64_t t = 0; t < length; t++) {
        for (int i = 0; i < ins; i++)
            in[carried + i] = slice(g, n, from[carried + i], at(a->scan_input_axes, i),
                                    at(a->scan_input_directions, i) ? length - 1 - t : t);
        ot_graph *body = ot_iteration(g, n, a->body, in);
        if (!body) return g->err->status;
        OT_TRY(ot_splice(g, body));
        for (int i = 0; i < carried; i++) in[i] = body->outputs[i];
        for (int i = 0; i < scans; i++) all[t * scans + i] = body->outputs[carried + i];
    }
    for (int i = 0; i < carried; i++) out[i] = in[i];
    for (int i = 0; i < scans; i++)
        out[carried + i] =
            stack(g, n, all + i, length, scans, at(a->scan_output_axes, i), at(a->scan_output_directions, i) != 0);
    return g->err->status;
}

/* Opset 8: every input has a leading batch axis, and each sample is scanned separately. */
static ot_status iterate_samples(ot_graph *g, ot_node *n, int64_t samples, int64_t length, ot_value **out)
{
    ot_value **all = ot_value_list(g, samples, n->n_out);
    ot_value **in = ot_value_list(g, n->n_in, 1);
    if (!all || !in) return g->err->status;
    for (int64_t k = 0; k < samples; k++) {
        for (int i = 0; i < n->n_in; i++) in[i] = slice(g, n, n->in[i], 0, k);
        OT_TRY(iterate(g, n, in, length, all + k * n->n_out));
    }
    for (int i = 0; i < n->n_out; i++) out[i] = stack(g, n, all + i, samples, n->n_out, 0, false);
    return g->err->status;
}

static ot_status scan(ot_graph *g, ot_node *n, bool *over)
{
    const ot_scan_attrs *a = n->attrs;
    int carried = n->n_in - (int)a->num_scan_inputs, first = 0;
    const ot_value *x = n->in[carried];
    ot_axis(at(a->scan_input_axes, 0), x->shape.rank - (a->batched != 0), &first);
    int64_t length = x->shape.dim[first + (a->batched != 0)], samples = a->batched ? x->shape.dim[0] : 1, steps;
    if (!ot_mul(length, samples, &steps) || steps < 1)
        return ot_node_fail(n, g->err, "it scans %lld elements; expected at least 1", (long long)length);
    ot_value **out = ot_value_list(g, n->n_out, 1);
    if (!out) return g->err->status;
    OT_TRY(a->batched ? iterate_samples(g, n, samples, length, out) : iterate(g, n, n->in, length, out));
    for (int i = 0; i < n->n_out; i++) OT_TRY(ot_deliver(g, n, i, "Identity", OT_IN(out[i])));
    *over = true;
    return OT_OK;
}

/* ---- entry --------------------------------------------------------------------- */

static ot_status branch(ot_graph *g, ot_node *n, bool *over)
{
    const ot_if *a = n->attrs;
    const ot_value *cond = n->in[0];
    *over = true;
    if (!ot_is_const(cond) && !g->room->decider) return take_both(g, n, a);
    if (!ot_is_const(cond)) OT_TRY(ot_decide_input(g, n, 0));
    cond = n->in[0];
    return take_branch(g, n, ot_get_i64(cond->data, cond->dtype, 0) ? a->then_branch : a->else_branch);
}

ot_status ot_spell_out(ot_graph *g, ot_node **at_node)
{
    static const struct {
        const ot_op *op;
        ot_status (*run)(ot_graph *g, ot_node *n, bool *over);
    } control[] = {
        { &ot_op_If, branch },       { &ot_op_Loop, loop },
        { &ot_op_Scan, scan },       { &ot_op_FlexAttention, ot_spell_flex },
        { NULL, ot_spell_sequence }, /* several operators */
    };
    for (int i = 0; *at_node && i < OT_LEN(control); i++) {
        ot_node *n = *at_node, *prev = n->prev;
        if (control[i].op ? n->op != control[i].op : !ot_reads_sequence(n)) continue;
        if (control[i].op) OT_TRY(ot_node_infer(n, g->err));
        bool over = false;
        g->cursor = n;
        ot_graph_at(g, n);
        ot_status s = control[i].run(g, n, &over);
        ot_graph_at(g, NULL);
        g->cursor = NULL;
        if (s != OT_OK) return s;
        if (over) ot_graph_remove(g, n);
        *at_node = prev ? prev->next : g->first;
        i = -1; /* the replacement may be control flow too */
    }
    return OT_OK;
}
