/* rebatch.c - adapts input shapes to the data, and a fixed batch size of the file to the batch.
 *
 * Exporters write the batch size of the traced example into inputs, into the constants of Reshape and Expand, into
 * index tables and masks.  Such a file defines the result for one micro-batch of its own size, and a larger batch
 * must give the same for each of its micro-batches.  The graph is inferred at the file's own sizes, which folds what
 * depends on them.  Then every operator is changed to compute all micro-batches at once, by its rule (ot_op.batch),
 * or is repeated once per micro-batch if it has no rule.  The loss is applied to the joined outputs: its mean is
 * over the whole batch, whatever elements it ignores.
 *
 * A batch that is no multiple of the file's is computed row by row if no operator acts along the batch; else the
 * last micro-batch is padded with repeated samples, whose outputs are removed. */
#include <stdio.h>
#include <string.h>

#include "ops/op.h"
#include "ops/onnx/batching.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/samples.h"

/* ---- binding inputs -------------------------------------------------------- */

/* The index of the feed of input v; -1: none. */
static int feed_of(const ot_plan *p, const ot_config *c, const ot_value *v)
{
    for (int i = 0; i < c->n_feeds; i++)
        if (p->fed[i] == v) return i;
    return -1;
}

/* Axis 0 may differ from the file's (a fixed batch size); any other difference is an error. */
static ot_status check_input(const ot_value *v, const ot_feed *f, int64_t *from, int64_t *to, ot_error *err)
{
    char a[128], b[128];
    const ot_shape *s = &f->shape;
    if (f->dtype != v->dtype)
        return ot_fail(err, OT_E_DATA, "input '%s' is %s, but the data is %s", v->name, ot_dtype_name(v->dtype),
                       ot_dtype_name(f->dtype));
    if (v->shape.rank < 0) return OT_OK;
    bool fits = s->rank == v->shape.rank;
    for (int d = 0; d < s->rank && fits; d++)
        fits = v->shape.dim[d] < 0 || v->shape.dim[d] == s->dim[d] || (d == 0 && !f->whole);
    if (!fits)
        return ot_fail(err, OT_E_DATA, "input '%s' is %s, but the data is %s", v->name, ot_shape_text(&v->shape, a),
                       ot_shape_text(s, b));
    if (!s->rank || v->shape.dim[0] <= 0 || v->shape.dim[0] == s->dim[0]) return OT_OK;
    if (*from && (*from != v->shape.dim[0] || *to != s->dim[0]))
        return ot_fail(err, OT_E_DATA,
                       "input '%s' is %s, but the data is %s; another input has batch size %lld in "
                       "the file and %lld in the data",
                       v->name, ot_shape_text(&v->shape, a), ot_shape_text(s, b), (long long)*from, (long long)*to);
    *from = v->shape.dim[0];
    *to = s->dim[0];
    return OT_OK;
}

/* Values known before the run become constants, also for bodies of If and Loop: the value itself changes. */
static ot_status bind_bytes(ot_plan *p, ot_value *v, const ot_config *c, int feed)
{
    const ot_value *known = ot_graph_const(p->graph, v->name, v->dtype, &v->shape, c->feeds[feed].data);
    if (!known) return p->graph->err->status;
    v->role = OT_CONST;
    v->data = known->data;
    p->fed[feed] = NULL;
    return OT_OK;
}

/* Checks every input; *from, *to: the batch size of the file and of the data, if they differ. */
static ot_status check_inputs(ot_plan *p, const ot_config *c, int64_t *from, int64_t *to)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_inputs; i++) {
        int k = feed_of(p, c, g->inputs[i]);
        if (k >= 0) OT_TRY(check_input(g->inputs[i], &c->feeds[k], from, to, g->err));
        else if (g->inputs[i] != g->seed && g->inputs[i] != g->counter && ot_graph_reads(g, g->inputs[i]))
            return ot_fail(g->err, OT_E_DATA, "the data has no array for input '%s'", g->inputs[i]->name);
    }
    return OT_OK;
}

static ot_status bind_inputs(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    for (int i = 0; i < g->n_inputs; i++) {
        int k = feed_of(p, c, g->inputs[i]);
        if (k < 0) continue;
        g->inputs[i]->shape = c->feeds[k].shape;
        if (c->feeds[k].data) OT_TRY(bind_bytes(p, g->inputs[i], c, k));
    }
    return OT_OK;
}

/* Gives g's inputs the sizes of one micro-batch.  g: the plan's graph or a clone of it. */
static void bind_own(const ot_plan *p, const ot_config *c, ot_graph *g, int64_t from, int64_t to)
{
    for (int i = 0; i < g->n_inputs; i++) {
        ot_value *v = g->inputs[i];
        int k = feed_of(p, c, p->graph->inputs[i]);
        v->mark = 0;
        if (k < 0) continue;
        const ot_feed *f = &c->feeds[k];
        int64_t said = v->shape.rank > 0 ? v->shape.dim[0] : -1; /* an open size is the same as the others */
        bool cut = f->shape.rank && f->shape.dim[0] == to && !f->whole && (said == from || said < 0);
        v->shape = f->shape;
        if (!cut) continue;
        v->shape.dim[0] = from;
        v->mark = ot_on_axis(0);
    }
}

/* ---- joining --------------------------------------------------------------- */

/* An operator may read the type of an input only. */
static bool any_batch(const ot_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->mark && !ot_is_type_only(n->op, i)) return true;
    return false;
}

/* Random numbers for a fixed batch: different ones for every sample. */
static bool draws_batch(const ot_batching *b, const ot_node *n)
{
    const ot_value *y = n->out[0];
    return (n->op->flags & OT_RANDOM) && (!n->n_in || ot_is_const(n->in[0])) && y && y->shape.rank &&
           y->shape.dim[0] == b->from;
}

/* Makes `v` the result of a new node at the cursor; n gets another output instead, with `mark` as its micro-batches. */
static ot_status deliver(ot_batching *b, ot_node *n, int i, const ot_shape *own, int mark)
{
    ot_graph *g = b->g;
    ot_value *v = n->out[i], *raw = ot_graph_value(g, v->name, OT_TEMP, v->dtype, &v->shape);
    ot_shape to;
    if (!raw || !ot_joined_shape(b, own, mark, &to)) return g->err->status ? g->err->status : OT_E_INTERNAL;
    raw->producer = n;
    raw->port = i;
    n->out[i] = raw;
    ot_node *k =
        ot_graph_node(g, ot_find_op("", "Reshape"), n->name, NULL, OT_IN(raw, ot_batch_ints(b, to.dim, to.rank)), 1);
    if (!k) return g->err->status;
    ot_set_attr(k, "allowzero", 1);
    k->out[0]->producer = NULL;
    k->out[0] = v;
    v->producer = k;
    v->port = 0;
    return ot_node_infer(k, g->err);
}

/* Are the results as the rule declares? */
static bool as_promised(const ot_batching *b, const ot_node *n, const ot_batched *r, const ot_shape *own)
{
    for (int i = 0; i < n->n_out; i++) {
        ot_shape want = own[i];
        if (!n->out[i]) continue;
        if (r->explicit_at >= 0) {
            int at = r->explicit_at;
            if (!b->count || at > want.rank || want.rank == OT_MAX_RANK) return false;
            for (int d = want.rank++; d > at; d--) want.dim[d] = want.dim[d - 1];
            want.dim[at] = b->count;
        } else if (!ot_joined_shape(b, &own[i], r->mark[i], &want)) return false;
        if (!ot_shape_eq(&n->out[i]->shape, &want)) return false;
    }
    return true;
}

/* Computes n for all micro-batches by its rule.  *fits: false if it has none; n is then unchanged. */
static ot_status by_rule(ot_batching *b, ot_node *n, const ot_shape *own, bool *fits)
{
    ot_graph *g = b->g;
    ot_batched r;
    ot_node old = *n;
    ot_error why = { 0 };
    ot_dtype types[OT_BATCHED_OUTPUTS];
    *fits = false;
    g->cursor = n;
    bool found = ot_batch_rule(b, n, own, &r);
    g->cursor = NULL;
    if (g->err->status) return g->err->status;
    if (!found) return OT_OK;
    for (int i = 0; i < n->n_out; i++) types[i] = n->out[i] ? n->out[i]->dtype : OT_UNDEFINED;
    n->op = r.op;
    n->attrs = r.attrs;
    n->in = r.in;
    n->n_in = r.n_in;
    if (ot_node_infer(n, &why) != OT_OK || !as_promised(b, n, &r, own)) {
        n->op = old.op;
        n->attrs = old.attrs;
        n->in = old.in;
        n->n_in = old.n_in;
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i]) ot_set(n->out[i], types[i], &own[i]);
        return OT_OK;
    }
    *fits = true;
    bool same = n->op == old.op;
    for (int i = 0; i < n->n_in && same; i++) same = i < old.n_in && n->in[i] == old.in[i];
    b->followed += !same;
    g->cursor = n->next;
    for (int i = 0; i < n->n_out; i++) {
        ot_value *v = n->out[i];
        if (!v) continue;
        v->mark = r.explicit_at < 0 ? r.mark[i] : own[i].rank ? ot_on_axis(r.explicit_at) : OT_ALONE;
        if (r.explicit_at >= 0 && own[i].rank) OT_TRY(deliver(b, n, i, &own[i], v->mark));
    }
    g->cursor = NULL;
    return OT_OK;
}

/* ---- one by one ------------------------------------------------------------- */

/* Allocates the list of v's micro-batches. */
static ot_value ***parts_of(ot_batching *b, const ot_value *v)
{
    if (v->id >= b->n_parts) {
        int n = 2 * v->id + 64;
        ot_value ***more = ot_graph_alloc(b->g, (size_t)n * sizeof *more);
        if (!more) return NULL;
        if (b->n_parts) memcpy(more, b->parts, (size_t)b->n_parts * sizeof *more);
        b->parts = more;
        b->n_parts = n;
    }
    return &b->parts[v->id];
}

/* v's micro-batches as separate values. */
static ot_value **part(ot_batching *b, ot_value *v)
{
    ot_graph *g = b->g;
    ot_value ***known = parts_of(b, v);
    if (!known || *known) return known ? *known : NULL;
    ot_shape own = ot_own_shape(b, v);
    ot_value **list = ot_graph_alloc(g, (size_t)b->count * sizeof *list);
    ot_node *s = ot_graph_node(g, ot_find_op("", "Split"), v->name, NULL, OT_IN(v), (int)b->count);
    if (!list || !s) return NULL;
    ot_set_attr(s, "axis", v->mark == OT_ALONE ? 0 : ot_batch_axis(v));
    ot_set_attr(s, "num_outputs", b->count);
    if (ot_node_infer(s, g->err) != OT_OK) return NULL;
    for (int64_t k = 0; k < b->count; k++)
        if (!(list[k] = ot_batch_reshape(b, s->out[k], &own, 0))) return NULL;
    *parts_of(b, v) = list;
    return list;
}

/* Makes output i of n the concatenation of its micro-batches in `list`. */
static ot_status join(ot_batching *b, ot_node *n, int i, ot_value **list, const ot_shape *own)
{
    ot_graph *g = b->g;
    ot_value *v = n->out[i], **in = ot_graph_alloc(g, (size_t)b->count * sizeof *in);
    if (!in || !parts_of(b, v)) return g->err->status;
    *parts_of(b, v) = list;
    for (int64_t k = 0; k < b->count; k++)
        if (!(in[k] = own->rank ? list[k] : ot_batch_reshape(b, list[k], &(ot_shape){ 1, { 1 } }, 0)))
            return g->err->status;
    ot_node *c = ot_graph_node(g, ot_find_op("", "Concat"), n->name, NULL, in, (int)b->count, 1);
    if (!c) return g->err->status;
    c->out[0]->producer = NULL;
    c->out[0] = v;
    v->producer = c;
    v->port = 0;
    v->mark = own->rank ? ot_on_axis(0) : OT_ALONE;
    return ot_node_infer(c, g->err);
}

static void name_repeated(ot_batching *b, const char *op)
{
    size_t used = strlen(b->names);
    b->repeated++;
    if (strstr(b->names, op) || used + strlen(op) + 3 > sizeof b->names) return;
    snprintf(b->names + used, sizeof b->names - used, "%s%s", used ? ", " : "", op);
}

/* Repeats n once per micro-batch. */
static ot_status one_by_one(ot_batching *b, ot_node *n, const ot_shape *own)
{
    ot_graph *g = b->g;
    int64_t all;
    ot_value ***in = ot_graph_alloc(g, (size_t)n->n_in * sizeof *in),
             ***out = ot_graph_alloc(g, (size_t)n->n_out * sizeof *out);
    if (!in || !out) return g->err->status;
    if (!ot_mul(b->count, 1 + n->n_in + n->n_out, &all) || all > g->room->copies)
        return ot_node_fail(n, g->err,
                            "the model has a fixed batch size of %lld and this operator would run for each "
                            "of %lld batches, which makes the model too large; use a smaller --batch-size "
                            "and --accumulate",
                            (long long)b->from, (long long)b->count);
    g->room->copies -= all;
    name_repeated(b, n->op->name);
    g->cursor = n;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->mark && !(in[i] = part(b, n->in[i]))) return g->err->status;
    for (int i = 0; i < n->n_out; i++)
        if (!(out[i] = ot_graph_alloc(g, (size_t)b->count * sizeof **out))) return g->err->status;
    for (int64_t k = 0; k < b->count; k++) {
        ot_node *c = ot_graph_node(g, n->op, n->name, n->attrs, n->in, n->n_in, n->n_out);
        if (!c) return g->err->status;
        for (int i = 0; i < n->n_in; i++)
            if (in[i]) c->in[i] = in[i][k];
        for (int i = 0; i < n->n_out; i++) {
            out[i][k] = c->out[i];
            if (n->out[i]) continue;
            c->out[i]->producer = NULL;
            c->out[i] = NULL;
        }
        OT_TRY(ot_node_infer(c, g->err));
    }
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) OT_TRY(join(b, n, i, out[i], &own[i]));
    g->cursor = NULL;
    n->n_out = 0;
    ot_graph_remove(g, n);
    return OT_OK;
}

/* Changes every node of g, inferred for one micro-batch, to compute all.  *fits: row by row only; false: impossible. */
static ot_status join_all(ot_batching *b, bool *fits)
{
    ot_graph *g = b->g;
    *fits = true;
    for (ot_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (!any_batch(n) && !draws_batch(b, n)) continue;
        ot_shape *own = ot_graph_alloc(g, (size_t)(n->n_out + 1) * sizeof *own);
        if (!own) return g->err->status;
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i]) own[i] = n->out[i]->shape;
        ot_graph_at(g, n);
        OT_TRY(by_rule(b, n, own, fits));
        if (!*fits && !b->count) return OT_OK;
        if (!*fits) OT_TRY(one_by_one(b, n, own));
        ot_graph_at(g, NULL);
    }
    *fits = true;
    return g->err->status;
}

/* ---- both ends --------------------------------------------------------------- */

/* Pads the last micro-batch: repeated samples follow those of the batch. */
static ot_status fill_up(ot_batching *b)
{
    ot_graph *g = b->g;
    int64_t all = b->count * b->from, *index = ot_graph_alloc(g, (size_t)all * sizeof *index);
    if (!index) return g->err->status;
    for (int64_t i = 0; i < all; i++) index[i] = i % b->to;
    for (int i = 0; i < g->n_inputs; i++) {
        ot_value *v = g->inputs[i];
        if (!v->mark) continue;
        v->shape.dim[0] = b->to;
        g->cursor = g->first;
        ot_node *k =
            ot_graph_node(g, ot_find_op("", "Gather"), v->name, NULL, OT_IN(v, ot_batch_ints(b, index, (int)all)), 1);
        g->cursor = NULL;
        if (!k) return g->err->status;
        ot_graph_replace(g, v, k->out[0]);
        k->in[0] = v;
        OT_TRY(ot_node_infer(k, g->err));
        k->out[0]->mark = v->mark;
        v->mark = 0;
    }
    return OT_OK;
}

/* The batch axis that an output would have in a file with an open batch size. */
static int natural_axis(const ot_batching *b, int output, const ot_value *v, const ot_shape *own)
{
    if (b->samples[output] >= 0) return b->samples[output];
    if (own->dim[ot_batch_axis(v)] == b->from) return ot_batch_axis(v);
    for (int d = 0; d < own->rank; d++)
        if (own->dim[d] == b->from) return d;
    return 0;
}

/* Gives outputs their batch at the expected axis, and removes padding. */
static ot_status finish_outputs(ot_batching *b)
{
    ot_graph *g = b->g;
    for (int i = 0; i < g->n_outputs; i++) {
        ot_value *v = g->outputs[i], *y = v;
        bool cut = v->mark && b->count && b->count * b->from != b->to;
        if (!v->mark) continue;
        ot_shape own = ot_own_shape(b, v);
        int axis = v->mark == OT_ALONE ? 0 : natural_axis(b, i, v, &own);
        if (v->mark != OT_ALONE && b->count) y = ot_batch_move(b, v, axis);
        if (cut && (v->mark == OT_ALONE || own.dim[axis] != b->from))
            return ot_fail(g->err, OT_E_DATA,
                           "output '%s' mixes the samples of a batch, which has a fixed size of "
                           "%lld: %lld samples are not a multiple of it; use --batch-size %lld "
                           "with --drop-last",
                           v->name, (long long)b->from, (long long)b->to, (long long)b->from);
        if (cut && y)
            y = ot_batch_emit(b, "Slice",
                              OT_IN(y, ot_batch_ints(b, &(int64_t){ 0 }, 1), ot_batch_ints(b, &b->to, 1),
                                    ot_batch_ints(b, &(int64_t){ axis }, 1)));
        if (!y) return g->err->status ? g->err->status : OT_E_INTERNAL;
        if (y == v) continue;
        y->name = v->name;
        y->declared = v->declared;
        g->outputs[i] = y;
    }
    return g->err->status;
}

/* ---- the pass ---------------------------------------------------------------- */

/* Changes g, whose inputs are bound for one micro-batch, to compute all.  *fits as in join_all. */
static ot_status join_graph(ot_batching *b, bool *fits)
{
    ot_graph *g = b->g;
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i]->producer || g->values[i]->role != OT_INPUT) g->values[i]->mark = 0;
    if (b->count && b->count * b->from != b->to) {
        OT_TRY(fill_up(b));
    } else {
        for (int i = 0; i < g->n_inputs; i++)
            if (g->inputs[i]->mark) g->inputs[i]->shape.dim[0] = b->to;
    }
    OT_TRY(join_all(b, fits));
    return *fits ? finish_outputs(b) : OT_OK;
}

/* Tries it on a clone, which is discarded. */
static bool goes(const ot_plan *p, const ot_config *c, ot_batching b)
{
    ot_error e = { 0 };
    bool fits = false;
    ot_graph *g = ot_graph_clone(p->graph, &e);
    if (!g) return false;
    b.g = g;
    bind_own(p, c, g, b.from, b.to);
    bool ok = ot_infer_graph(g) == OT_OK && ot_find_samples(g, b.from, &b.samples) == OT_OK &&
              (b.count || join_graph(&b, &fits) == OT_OK);
    ot_graph_free(g);
    return ok && (b.count || fits);
}

static void say(ot_plan *p, const ot_batching *b, bool training)
{
    char each[48] = "sample";
    bool filled = b->count && b->count * b->from != b->to;
    if (b->from > 1) snprintf(each, sizeof each, "batch of %lld", (long long)b->from);
    ot_plan_note(p,
                 "the model has a fixed batch size of %lld and is adapted to batch size %lld (%d operator%s "
                 "changed)%s%s",
                 (long long)b->from, (long long)b->to, b->followed, b->followed == 1 ? "" : "s",
                 training ? "; the written file keeps its own" : "",
                 filled ? "; samples depend on their batch, so the last batch is filled with repeated samples, which "
                          "statistics over the batch (BatchNormalization) count"
                        : "");
    if (b->mixing)
        ot_plan_note(p,
                     "%s '%.200s'%s the samples of a batch: the fixed batch size %lld is kept there, and each %s "
                     "is computed separately; with a dynamic batch it would combine all samples of a batch",
                     b->mixed_op, b->mixed, b->mixing > 1 ? " and further nodes combine" : " combines",
                     (long long)b->from, each);
    if (b->pairs)
        ot_plan_note(p,
                     "%.200s: multiplies each sample with itself; with a dynamic batch it would combine all "
                     "samples of a batch",
                     b->pairs);
    if (b->repeated)
        ot_plan_note(p,
                     "%d operator%s cannot be adapted and run%s once for each %s: %s; results are the same, but "
                     "slower",
                     b->repeated, b->repeated == 1 ? "" : "s", b->repeated == 1 ? "s" : "", each, b->names);
}

/* A file that cannot be inferred at its own sizes is reported with the failure at the data's sizes.  If it fails
 * there only because sizes depend on elements of inputs, which are known for the whole batch only, samples would be
 * mixed. */
static ot_status bind_whole(ot_plan *p, const ot_config *c, const ot_batching *b)
{
    ot_error e = { 0 };
    bool known = false;
    for (int k = 0; k < c->n_feeds; k++) known |= c->feeds[k].data != NULL;
    if (!c->decisions) OT_TRY(bind_inputs(p, c));
    ot_graph *g = known ? ot_graph_clone(p->graph, &e) : NULL;
    bool mixes = c->decisions || (g && ot_infer_graph(g) == OT_OK);
    ot_graph_free(g);
    if (!mixes) return OT_OK;
    return ot_fail(p->graph->err, OT_E_DATA,
                   "sizes in this model depend on the data, so its fixed batch size %lld "
                   "cannot become %lld: use batches of %lld",
                   (long long)b->from, (long long)b->to, (long long)b->from);
}

ot_status ot_pass_rebatch(ot_plan *p, const ot_config *c)
{
    ot_graph *g = p->graph;
    ot_batching b = { .g = g, .apart = c->options.apart };
    bool fits;
    if (c->partial) OT_TRY(ot_leave_out_unsupported(p)); /* else no size of the file passes */
    OT_TRY(check_inputs(p, c, &b.from, &b.to));
    if (b.from && !b.to && !c->options.apart) return bind_inputs(p, c); /* no micro-batches */
    bool divides = b.from && b.to && b.to % b.from == 0;
    if (divides) b.count = b.to / b.from;
    if (b.from && !divides && (c->options.apart || !goes(p, c, b))) b.count = (b.to + b.from - 1) / b.from;
    if (b.from && !b.to && c->options.apart)
        return ot_fail(g->err, OT_E_DATA,
                       "the batch has 0 samples, expected %lld as in "
                       "the file",
                       (long long)b.from);
    if (!b.from) return bind_inputs(p, c);
    if (b.count && !goes(p, c, b)) return bind_whole(p, c, &b);
    p->micro = b.count;
    p->baked = b.from;
    bind_own(p, c, g, b.from, b.to);
    OT_TRY(ot_infer_graph(g));
    OT_TRY(ot_find_samples(g, b.from, &b.samples));
    OT_TRY(join_graph(&b, &fits));
    if (!fits)
        return ot_fail(g->err, OT_E_DATA, "the batch has %lld samples, expected %lld as in the file", (long long)b.to,
                       (long long)b.from);
    say(p, &b, c->want == OT_WANT_TRAIN);
    return g->err->status;
}
