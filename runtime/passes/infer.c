/* infer.c - infers types and shapes of every value, and folds what depends on constants only.
 *
 * Folding lowers the node and runs the kernels of its operators, mostly the references: shape arithmetic, casts and weights
 * computed from constants use the same code as a step. */
#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/onnx/sequence.h"
#include "runtime/passes/decide.h"
#include "runtime/passes/passes.h"

/* A folded value is kept in memory for as long as the plan: larger ones are computed in the step. */
#define FOLD_LIMIT ((size_t)64 << 20)

/* ---- running a small graph of constants ------------------------------------ */

typedef struct bytes {
    void **at; /* by value id */
    int n;
    size_t total;
} bytes;

static void bytes_free(bytes *b)
{
    for (int i = 0; i < b->n && b->at; i++) free(b->at[i]);
    free(b->at);
}

static const void *read_from(const bytes *b, const ot_value *v) { return !v ? NULL : v->data ? v->data : b->at[v->id]; }

int64_t ot_node_work(const ot_node *n)
{
    int64_t sum = 1, out = 0, inner = 1;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        int64_t count = v && v->dtype != OT_STRING ? ot_numel(&v->shape) : 0;
        if (!ot_add(sum, count, &sum)) return INT64_MAX;
        if (i >= n->n_in && count > out) out = count;
    }
    if (n->op->inner) inner = n->op->inner(n);
    return ot_mul(out, inner, &out) && ot_add(sum, out, &sum) ? sum : INT64_MAX;
}

static const ot_value *operand(const ot_node *n, int i) { return i < n->n_in ? n->in[i] : n->out[i - n->n_in]; }

double ot_node_flops(const ot_node *n)
{
    int64_t most = 0;
    bool real = false;
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = operand(n, i);
        int64_t count = v && v->dtype != OT_STRING ? ot_numel(&v->shape) : 0;
        if (count > most) most = count;
        real |= i >= n->n_in && v && ot_is_float(v->dtype);
    }
    if (!real || n->op->flags & OT_MOVES || n->op->flops_each == OT_NO_FLOPS) return 0;
    return n->op->flops ? n->op->flops(n) : (n->op->flops_each ? n->op->flops_each : 1) * (double)most;
}

double ot_node_bytes(const ot_node *n)
{
    double sum = 0;
    if (n->op->flags & OT_ALIAS) return 0;
    if (n->op->bytes) return n->op->bytes(n);
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ot_value *v = operand(n, i);
        bool again = false; /* q, k and v are parts of one tensor */
        for (int k = 0; k < i && i < n->n_in && !again; k++) again = n->in[k] == v;
        if (v && v->dtype != OT_STRING && !again) sum += ot_value_bytes(v);
    }
    return sum;
}

/* Shape arithmetic is small and is always folded. */
enum { SMALL_WORK = 4096 };

/* May n be folded?  A few bytes of a file can require any amount of computation; what is not folded, steps compute. */
static bool affordable(ot_graph *g, const ot_node *n)
{
    int64_t work = ot_node_work(n);
    if (work <= SMALL_WORK) return true;
    if (work > g->room->work) return false;
    g->room->work -= work;
    return true;
}

/* Results may use up to half of the graph's size budget. */
static bool fits(const ot_graph *g, size_t n)
{
    size_t half = g->room->most / 2;
    return n <= SMALL_WORK || (n <= FOLD_LIMIT && n <= half && ot_arena_used(g->arena) <= half - n);
}

/* Large tensors are computed element by element, and copied, by the kernels of a step: the references of these take a second for
 * a few million elements.  Sums and products are left to their references, which are the most exact. */
static const ot_kernel *kernel_of(const ot_node *n, const bytes *b)
{
    enum { MANY = 1 << 14 };
    const char *why;
    if ((n->op != &ot_op_Map && n->op != &ot_op_Copy) || !n->out[0] || ot_numel(&n->out[0]->shape) < MANY)
        return ot_ref_kernel(n->op);
    for (int i = 0; i < n->n_in; i++)
        if ((uintptr_t)read_from(b, n->in[i]) % alignof(max_align_t)) return ot_ref_kernel(n->op);
    return ot_kernel_for(n, NULL, false, &why);
}

/* Runs n; *too_big: a result exceeds the limit. */
static ot_status run_node(const ot_node *n, bytes *b, bool *too_big, ot_error *err)
{
    const ot_kernel *k = kernel_of(n, b);
    const void *in[64] = { NULL };
    void *out[64] = { NULL };
    ot_prep prep = { .threads = 1, .err = err };
    if (!k) return ot_fail(err, OT_E_INTERNAL, "%s: %s has no reference kernel", n->name, n->op->name);
    if (n->n_in > 64 || n->n_out > 64 || !affordable(n->graph, n)) {
        *too_big = true;
        return OT_OK;
    }
    for (int i = 0; i < n->n_in; i++) in[i] = read_from(b, n->in[i]);
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        size_t size = ot_bytes(&n->out[i]->shape, n->out[i]->dtype);
        b->total += size;
        if (b->total > FOLD_LIMIT) {
            *too_big = true;
            return OT_OK;
        }
        out[i] = b->at[n->out[i]->id] = calloc(1, size ? size : 1);
        if (!out[i]) return ot_fail(err, OT_E_NOMEM, "%s: no memory to fold it", n->name);
    }
    if (k->prepare) OT_TRY(k->prepare(n, &prep));
    void *work = prep.work ? aligned_alloc(64, (prep.work + 63) / 64 * 64) : NULL;
    ot_status s = prep.work && !work ? ot_fail(err, OT_E_NOMEM, "%s: no memory to fold it", n->name) : OT_OK;
    ot_call call = { .node = n, .in = in, .out = out, .work = work, .state = prep.state, .threads = 1, .err = err };
    if (s == OT_OK) s = k->run(&call);
    if (k->release && prep.state) k->release(prep.state);
    free(work);
    return s;
}

/* Makes n the only node of a subgraph of g, with its inputs as constants; the subgraph is lowered. */
static ot_graph *isolate(ot_graph *g, const ot_node *n)
{
    ot_graph *s = ot_graph_sub(g, "");
    if (!s) return NULL;
    ot_value **in = ot_graph_alloc(g, (size_t)n->n_in * sizeof *in);
    if (!in) return NULL;
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *v = n->in[i];
        if (!v) continue;
        in[i] = ot_graph_value(s, v->name, ot_is_const(v) ? OT_CONST : OT_INPUT, v->dtype, &v->shape);
        if (!in[i]) return NULL;
        in[i]->data = v->data;
    }
    ot_node *c = ot_graph_node(s, n->op, n->name, n->attrs, in, n->n_in, n->n_out);
    if (!c || ot_node_infer(c, g->err) != OT_OK) return NULL;
    for (int i = 0; i < n->n_out; i++) ot_graph_output(s, c->out[i]);
    return ot_lower(s, NULL) == OT_OK ? s : NULL;
}

static ot_status adopt(ot_graph *g, ot_value *to, const ot_value *from, const bytes *b)
{
    size_t size = ot_bytes(&from->shape, from->dtype);
    void *copy = ot_graph_alloc(g, size);
    if (!copy) return g->err->status;
    if (size) memcpy(copy, read_from(b, from), size);
    to->data = copy;
    to->role = OT_CONST;
    return OT_OK;
}

static bool foldable(const ot_node *n)
{
    if (n->op->flags & OT_RANDOM) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !ot_is_const(n->in[i]) && !ot_is_type_only(n->op, i)) return false;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] &&
            (ot_dtype_bits(n->out[i]->dtype) == 0 || !fits(n->graph, ot_bytes(&n->out[i]->shape, n->out[i]->dtype))))
            return false;
    return !ot_subgraph(n, 0);
}

/* ---- equal nodes ------------------------------------------------------------ */

/* A folded node with results of LARGE bytes or more.  Every layer of a Transformer computes the same mask: it is computed, and kept, once. */
typedef struct ot_folded {
    const ot_node *node;      /* removed by now */
    const ot_value *in, *out; /* its operands and results as they were; dtype OT_UNDEFINED: missing */
    struct ot_folded *next;
} ot_folded;

enum { LARGE = 1 << 12, MOST_DIFFERENT = 256 /* that are searched, from the last one back */ };

static bool large(const ot_node *n)
{
    size_t sum = 0;
    for (int i = 0; i < n->n_out; i++) sum += n->out[i] ? ot_bytes(&n->out[i]->shape, n->out[i]->dtype) : 0;
    return sum >= LARGE;
}

/* Short values are compared, long ones must be the same memory. */
static bool same_operand(const ot_value *v, const ot_value *was, bool type_only)
{
    if (!v || was->dtype == OT_UNDEFINED) return !v && was->dtype == OT_UNDEFINED;
    if (v->dtype != was->dtype || !ot_shape_eq(&v->shape, &was->shape)) return false;
    if (type_only || v->data == was->data) return true;
    size_t n = ot_bytes(&v->shape, v->dtype);
    return v->dtype != OT_STRING && n < LARGE && v->data && was->data && !memcmp(v->data, was->data, n);
}

static bool same_node(const ot_node *n, const ot_folded *f)
{
    const ot_node *was = f->node;
    if (n->op != was->op || n->n_in != was->n_in || n->n_out != was->n_out) return false;
    size_t attrs = n->op->attr_size ? ot_attr_bytes(n->op, n->attrs) : 0;
    if (attrs && (attrs != ot_attr_bytes(n->op, was->attrs) || memcmp(n->attrs, was->attrs, attrs) != 0)) return false;
    for (int i = 0; i < n->n_in; i++)
        if (!same_operand(n->in[i], &f->in[i], ot_is_type_only(n->op, i))) return false;
    for (int i = 0; i < n->n_out; i++)
        if (!n->out[i] != (f->out[i].dtype == OT_UNDEFINED)) return false;
    return true;
}

/* Gives n the results of an equal node. */
static bool take_folded(ot_graph *g, ot_node *n)
{
    const ot_folded *f = g->room->folded;
    int searched = 0;
    while (f && !same_node(n, f)) f = ++searched < MOST_DIFFERENT ? f->next : NULL;
    for (int i = 0; f && i < n->n_out; i++)
        if (n->out[i]) n->out[i]->data = f->out[i].data, n->out[i]->role = OT_CONST;
    return f != NULL;
}

static const ot_value *values_of(ot_graph *g, ot_value *const *v, int n)
{
    ot_value *to = ot_graph_alloc(g, ((size_t)n + 1) * sizeof *to);
    for (int i = 0; i < n && to; i++)
        if (v[i]) to[i] = *v[i];
        else to[i].dtype = OT_UNDEFINED;
    return to;
}

static ot_status keep_folded(ot_graph *g, const ot_node *n)
{
    ot_folded *f = ot_graph_alloc(g, sizeof *f);
    if (!f) return g->err->status;
    *f = (ot_folded){ n, values_of(g, n->in, n->n_in), values_of(g, n->out, n->n_out), g->room->folded };
    if (!f->in || !f->out) return g->err->status;
    g->room->folded = f;
    return OT_OK;
}

/* Runs the reference kernels for a node whose inputs are all constant; its outputs become constants.  Does nothing
 * if a result is larger than the limit for folded values. */
static ot_status fold(ot_graph *g, ot_node *n)
{
    if (!foldable(n)) return OT_OK;
    bool keep = large(n);
    if (keep && take_folded(g, n)) return OT_OK;
    ot_graph *s = isolate(g, n);
    if (!s) return g->err->status != OT_OK ? g->err->status : OT_E_NOMEM;
    bytes b = { .at = calloc((size_t)s->n_values + 1, sizeof *b.at), .n = s->n_values };
    bool too_big = false;
    if (!b.at) return ot_fail(g->err, OT_E_NOMEM, "%s: no memory to fold it", n->name);
    ot_status st = OT_OK;
    for (const ot_node *k = s->first; k && st == OT_OK && !too_big; k = k->next) st = run_node(k, &b, &too_big, g->err);
    for (int i = 0; i < n->n_out && st == OT_OK && !too_big; i++)
        if (n->out[i]) st = adopt(g, n->out[i], s->outputs[i], &b);
    bytes_free(&b);
    return st == OT_OK && keep && !too_big ? keep_folded(g, n) : st;
}

/* ---- the pass -------------------------------------------------------------- */

/* Calls the shape rule of n; if it fails for an unknown value that data decides, calls it again with that value. */
static ot_status rule(ot_graph *g, ot_node *n)
{
    ot_error before = *g->err, first;
    ot_status s = ot_node_infer(n, g->err);
    bool some = false;
    if (s != OT_E_MODEL || !g->room->decider) return s;
    first = *g->err;
    *g->err = before;
    s = ot_decide_sizes(g, n, &some);
    if (!s && some) return ot_node_infer(n, g->err);
    *g->err = s ? *g->err : first;
    return g->err->status;
}

static ot_status infer_node(ot_graph *g, ot_node *n)
{
    OT_TRY(rule(g, n));
    for (int i = 0; i < n->n_out; i++) {
        ot_value *v = n->out[i];
        if (!v) continue;
        if (v->declared != OT_UNDEFINED && v->declared != v->dtype)
            return ot_node_fail(n, g->err, "it produces '%s' as %s, but the file declares %s", v->name,
                                ot_dtype_name(v->dtype), ot_dtype_name(v->declared));
        if (v->dtype == OT_UNDEFINED) continue; /* a sequence */
        if (v->dtype != OT_STRING && (!ot_shape_known(&v->shape) || !ot_shape_fits(&v->shape, v->dtype)))
            return ot_node_fail(n, g->err, "the size of '%s' is unknown or too large", v->name);
        if (v->data) v->role = OT_CONST; /* a shape: infer has it already */
    }
    return fold(g, n);
}

ot_status ot_infer_node(ot_graph *g, ot_node *n)
{
    ot_graph_at(g, n);
    ot_status s = infer_node(g, n);
    ot_graph_at(g, NULL);
    return s;
}

/* Removes a node whose outputs are all constants; they lose their producer. */
static void drop_if_folded(ot_graph *g, ot_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && !n->out[i]->data) return;
    ot_graph_remove(g, n);
}

/* Readers of the elements read these values by now; an output of the file may still be such a list (partial.c). */
static ot_status drop_lists(ot_graph *g)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (ot_is_list(g->outputs[i]) || ot_is_optional(g->outputs[i]))
            return ot_node_fail(g->outputs[i]->producer, g->err,
                                "output '%s' is a sequence or optional; expected a "
                                "tensor",
                                g->outputs[i]->name);
    for (ot_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        if (n->op == &ot_op_SequenceConstruct || n->op == &ot_op_Optional) ot_graph_remove(g, n);
    }
    return OT_OK;
}

ot_status ot_infer_nodes(ot_graph *g, ot_node **at)
{
    for (ot_node *n = g->first, *next; n; n = next) {
        bool over;
        *at = n;
        OT_TRY(ot_spell_out(g, at));
        n = *at;
        next = n->next;
        OT_TRY(ot_decide_outputs(g, n, &over));
        if (over) {
            ot_graph_remove(g, n);
            continue;
        }
        OT_TRY(ot_infer_node(g, n));
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] && n->out[i]->data && n->out[i]->producer == n && n->n_out > 1) {
                /* One of several outputs is known: it becomes a value of its own, so that I4 is kept. */
                n->out[i]->producer = NULL;
                n->out[i] = NULL;
            }
        drop_if_folded(g, n);
    }
    *at = NULL;
    return g->err->status;
}

ot_status ot_infer_graph(ot_graph *g)
{
    ot_node *at;
    OT_TRY(ot_infer_nodes(g, &at));
    return drop_lists(g);
}

/* Their number and sizes come from the arrays of a run. */
static ot_status refuse_lists(const ot_graph *g)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i];
        if (v->list)
            return ot_fail(g->err, OT_E_MODEL, "input '%s' is %s: only 'onnxtrain run' accepts it, as %s '%s%s",
                           v->name, v->list & OT_INPUT_LIST ? "a sequence" : "optional",
                           v->list & OT_INPUT_LIST ? "arrays" : "array", v->name,
                           v->list & OT_INPUT_LIST ? "/0', '/1' ..." : "'");
    }
    return OT_OK;
}

ot_status ot_pass_infer(ot_plan *p, const ot_config *c)
{
    struct ot_decider *x;
    OT_TRY(refuse_lists(p->graph));
    OT_TRY(ot_decider_new(p, c, &x));
    ot_status s = ot_infer_plan(p, c);
    ot_decider_free(x);
    return s;
}
