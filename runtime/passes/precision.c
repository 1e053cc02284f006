/* precision.c - chooses what is computed in 16 bits.
 *
 * On the CPU all is computed in f32, f16 and bf16 of the file too; f64 stays f64.  bf16 permits the kernels of products
 * to round their operands, where that is faster.
 *
 * On a device fp32 and tf32 leave the graph unchanged: f64 stays f64, f16 and bf16 stay too, with arithmetic in f32
 * inside the kernels; tf32 permits kernels to round f32 operands of products to 11 bits.  bf16 and fp16 make a mixed
 * graph of an f32 one, before autodiff, so that gradients have the type of their values and follow from the rules of the casts:
 *
 *   products    Dot, FusedAttention and the convolutions read and write 16 bits; weights are cast once a step, and
 *               their gradients return to f32 through the cast
 *   movement    Views, Copies, pools ... keep the type of their input
 *   Map         computes 16 bits if an operand has them and no other activation is f32: scales, biases, masks that are
 *               weights or constants do not widen.  Functions whose results need more range or precision (exp, log,
 *               powers ...) return f32.  Arithmetic is always in f32
 *   places      values that Maps round to whole numbers (sampling coordinates, indices) stay f32, back to the first Map
 *               that computes them: 8 bits of precision do not identify a pixel
 *   norms       x and y in 16 bits, scale, bias and statistics in f32
 *   sums        return f32
 *   embeddings  rows gathered from a weight are cast after the gather
 *   the loss    and everything else that depends on a target: f32; also what depends on no input
 *
 * Anything else is computed in f32, as are the outputs of the graph and its state. */
#include <math.h>

#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/softmax.h"
#include "runtime/passes/passes.h"

/* value->mark: depends on an input, on a target; was f32 and has 16 bits now (of a file that is widened: has 16 bits);
 * a Map computes a position from it; had 16 bits and is f32 now */
enum { FED = 1, TARGET = 2, NARROW = 4, PLACE = 8, WIDENED = 16 };

typedef struct narrowing {
    ot_plan *p;
    ot_graph *g;
    ot_build b;
    ot_dtype half;
    ot_value **cast; /* by value id: the value in the other type, once needed */
    int cap, products, done;
    ot_node *first; /* of the graph; weights are cast before it, in a row: one launch on a device */
} narrowing;

static bool narrow(const ot_value *v) { return v && (v->mark & NARROW); }
static bool full(const ot_value *v) { return v && v->dtype == OT_F32; }
static bool fed(const ot_value *v) { return v && (v->mark & FED); }

/* ---- casts ----------------------------------------------------------------- */

static ot_value *cast_const(narrowing *x, const ot_value *v, ot_dtype t)
{
    int64_t n = ot_numel(&v->shape);
    void *data = ot_graph_alloc(x->g, ot_bytes(&v->shape, t) + 8);
    for (int64_t i = 0; data && i < n; i++) ot_set_f64(data, t, i, ot_get_f64(v->data, v->dtype, i));
    return data ? ot_graph_const(x->g, v->name, t, &v->shape, data) : NULL;
}

/* Casts v to the other of the two types, before n; weights are cast first of all, since the backward pass keeps the
 * casts anyway. */
static ot_value *other(narrowing *x, ot_node *n, ot_value *v)
{
    ot_value *y = v->id < x->cap ? x->cast[v->id] : NULL;
    if (y) return y;
    bool widens = narrow(v);
    ot_dtype t = widens ? OT_F32 : x->half;
    x->g->cursor = n && !v->producer && !fed(v) && x->first ? x->first : n;
    x->b.node = n;
    y = ot_is_const(v) ? cast_const(x, v, t) : ot_cast(&x->b, v, t);
    x->g->cursor = NULL;
    if (!y) return NULL;
    y->mark = (v->mark & (FED | TARGET)) | (widens ? 0 : NARROW);
    if (v->id < x->cap) x->cast[v->id] = y;
    return y;
}

static ot_status widen(narrowing *x, ot_node *n, int first)
{
    for (int i = first; i < n->n_in; i++)
        if (narrow(n->in[i]) && !(n->in[i] = other(x, n, n->in[i]))) return x->g->err->status;
    return OT_OK;
}

static ot_status halve(narrowing *x, ot_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (full(n->in[i]) && !(n->in[i] = other(x, n, n->in[i]))) return x->g->err->status;
    return OT_OK;
}

/* Types of the outputs follow those of the inputs. */
static ot_status follow(narrowing *x, ot_node *n)
{
    OT_TRY(ot_node_infer(n, x->g->err));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->dtype == x->half) n->out[i]->mark |= NARROW;
    return OT_OK;
}

/* ---- one rule per kind of operator ------------------------------------------- */

static bool any(const ot_node *n, bool (*is)(const ot_value *v))
{
    for (int i = 0; i < n->n_in; i++)
        if (is(n->in[i])) return true;
    return false;
}

static ot_status product(narrowing *x, ot_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !full(n->in[i]) && !narrow(n->in[i])) return widen(x, n, 0); /* f64, or 16 bits in the file */
    x->products++;
    if (!any(n, fed)) return widen(x, n, 0);
    x->done++;
    OT_TRY(halve(x, n));
    return follow(x, n);
}

/* Products of q, k and v; scores and mask are f32 inside. */
static ot_status attend(narrowing *x, ot_node *n)
{
    x->products++;
    for (int i = 0; i < 3; i++)
        if ((!full(n->in[i]) && !narrow(n->in[i])) || !fed(n->in[i])) return widen(x, n, 0);
    x->done++;
    OT_TRY(widen(x, n, 3));
    for (int i = 0; i < 3; i++)
        if (full(n->in[i]) && !(n->in[i] = other(x, n, n->in[i]))) return x->g->err->status;
    return follow(x, n);
}

static ot_status movement(narrowing *x, ot_node *n)
{
    bool wide = false;
    if (!any(n, narrow)) return OT_OK;
    for (int i = 0; i < n->n_in; i++) wide |= full(n->in[i]) && fed(n->in[i]);
    if (wide) return widen(x, n, 0);
    OT_TRY(halve(x, n));
    return follow(x, n);
}

/* Rows of a weight selected by a fed index are an activation. */
static ot_status take(narrowing *x, ot_node *n)
{
    if (any(n, narrow)) return movement(x, n);
    ot_value *y = n->out[0];
    if (!full(y) || fed(n->in[0]) || !fed(n->in[1])) return OT_OK;
    x->g->cursor = n->next;
    x->b.node = n;
    ot_value *h = ot_cast(&x->b, y, x->half);
    x->g->cursor = NULL;
    if (!h) return x->g->err->status;
    h->mark = FED | NARROW;
    ot_graph_replace(x->g, y, h);
    h->producer->in[0] = y;
    return OT_OK;
}

static ot_status norm(narrowing *x, ot_node *n)
{
    OT_TRY(widen(x, n, 1));
    return narrow(n->in[0]) ? follow(x, n) : OT_OK;
}

static ot_status softmax(narrowing *x, ot_node *n)
{
    if (((const ot_softmax_axis *)n->attrs)->log) return widen(x, n, 0);
    return follow(x, n);
}

static ot_status reduce(narrowing *x, ot_node *n)
{
    ot_reduce *a = (ot_reduce *)(uintptr_t)n->attrs;
    if (!narrow(n->in[0])) return OT_OK;
    a->wide = a->kind != OT_REDUCE_MAX && a->kind != OT_REDUCE_MIN;
    return follow(x, n);
}

/* The logits in their type; log-probabilities returned beside the loss are f32. */
static ot_status loss(narrowing *x, ot_node *n)
{
    OT_TRY(widen(x, n, n->n_out > 1 && n->out[1] ? 0 : 1));
    return follow(x, n);
}

/* Functions with results too large, too small or too steep for 16 bits. */
static bool leaves_range(int row)
{
    switch (row) {
    case OT_FN_Square:
    case OT_FN_Cube:
    case OT_FN_Pow:
    case OT_FN_PowP:
    case OT_FN_Rsqrt:
    case OT_FN_Reciprocal:
    case OT_FN_Exp:
    case OT_FN_Expm1:
    case OT_FN_Log:
    case OT_FN_Log1p:
    case OT_FN_Softplus:
    case OT_FN_Tan:
    case OT_FN_Sinh:
    case OT_FN_Cosh:
    case OT_FN_Asin:
    case OT_FN_Acos:
    case OT_FN_Quantize: return true;
    default: return false;
    }
}

/* Is it representable in 16 bits, apart from rounding?  Masks add the lowest number there is. */
static bool holds(const narrowing *x, const ot_value *v)
{
    if (!ot_is_const(v)) return true;
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i++) {
        double d = ot_get_f64(v->data, v->dtype, i);
        if (isfinite(d) && !isfinite(ot_float_decode(ot_float_encode(d, x->half, false), x->half))) return false;
    }
    return true;
}

static ot_status map(narrowing *x, ot_node *n)
{
    ot_program *m = (ot_program *)(uintptr_t)n->attrs;
    if (!any(n, narrow) || m->n_inst != 1 || m->n_out != 1 || m->out_dtype[0] != OT_F32) return OT_OK;
    int row = m->inst[0].row;
    if (leaves_range(row) || (n->out[0]->mark & PLACE)) return OT_OK;
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *v = n->in[i];
        if (narrow(v) || !ot_is_float(v->dtype)) continue;
        if (v->dtype != OT_F32 || fed(v) || (row != OT_FN_Clip && !holds(x, v))) return OT_OK;
    }
    m->out_dtype[0] = (uint8_t)x->half;
    return follow(x, n);
}

static ot_status (*const rules[OT_HALF_END])(narrowing *x, ot_node *n) = {
    [OT_HALF_PRODUCT] = product,  [OT_HALF_FOLLOWS] = movement, [OT_HALF_NORM] = norm,
    [OT_HALF_ATTENTION] = attend, [OT_HALF_TAKE] = take,        [OT_HALF_SOFTMAX] = softmax,
    [OT_HALF_REDUCE] = reduce,    [OT_HALF_LOSS] = loss,        [OT_HALF_MAP] = map,
};

static ot_status apply(narrowing *x, ot_node *n)
{
    int mark = 0;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) mark |= n->in[i]->mark & (FED | TARGET);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) n->out[i]->mark = mark | (n->out[i]->mark & PLACE);
    ot_half half = n->op->half;
    if (half != OT_HALF_NEVER && (!(mark & TARGET) || half == OT_HALF_LOSS)) return rules[half](x, n);
    return half == OT_HALF_MAP ? OT_OK : widen(x, n, 0); /* a Map reads any type */
}

/* ---- the pass ------------------------------------------------------------------ */

static bool rounds(const ot_program *m)
{
    int row = m->n_inst == 1 ? m->inst[0].row : OT_FN_END;
    return row == OT_FN_Floor || row == OT_FN_Ceil || row == OT_FN_Round || row == OT_FN_Trunc ||
           !ot_is_float((ot_dtype)(m->out_dtype[0] & ~OT_MAP_NO_SATURATE));
}

/* Marks values that Maps compute for a Map that rounds, directly or through moving operators.  Comparisons and logic
 * do not count: they are bool. */
static void mark_places(ot_graph *g)
{
    for (ot_node *n = g->last; n; n = n->prev) {
        bool maps = n->op->half == OT_HALF_MAP;
        if ((!maps && !(n->op->flags & OT_MOVES)) || !n->out[0]) continue;
        bool place = (n->out[0]->mark & PLACE) || (maps && n->out[0]->dtype != OT_BOOL && rounds(n->attrs));
        for (int i = 0; i < n->n_in && place; i++)
            if (full(n->in[i])) n->in[i]->mark |= PLACE;
    }
}

/* Values that leave the step keep their original type. */
static ot_status ends(narrowing *x)
{
    ot_graph *g = x->g;
    ot_plan *p = x->p;
    ot_value **fixed[] = { &p->loss, &p->correct, &p->counted, &p->divisor };
    for (int i = 0; i < g->n_outputs; i++) {
        ot_value *v = g->outputs[i];
        if (!narrow(v)) continue;
        if (!(g->outputs[i] = other(x, NULL, v))) return g->err->status;
        g->outputs[i]->name = v->name;
    }
    for (int i = 0; i < g->n_assigns; i++)
        if (narrow(g->assigns[i].value) && !(g->assigns[i].value = other(x, NULL, g->assigns[i].value)))
            return g->err->status;
    for (int i = 0; i < OT_LEN(fixed); i++)
        if (narrow(*fixed[i]) && !(*fixed[i] = other(x, NULL, *fixed[i]))) return g->err->status;
    for (int i = 0; i < p->n_kept; i++)
        if (narrow(p->kept[i]) && !(p->kept[i] = other(x, NULL, p->kept[i]))) return g->err->status;
    return OT_OK;
}

static ot_status start(narrowing *x, ot_plan *p, ot_dtype half)
{
    ot_graph *g = p->graph;
    *x = (narrowing){ .p = p, .g = g, .b = { .graph = g }, .half = half };
    x->cap = 4 * (g->n_values + g->n_nodes) + 16; /* number of values with the casts of this pass */
    x->cast = ot_graph_alloc(g, (size_t)x->cap * sizeof *x->cast);
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    return g->err->status;
}

static ot_status mixed(ot_plan *p, ot_dtype half, bool trains)
{
    ot_graph *g = p->graph;
    narrowing x;
    OT_TRY(start(&x, p, half));
    x.first = trains ? g->first : NULL;
    for (int i = 0; i < g->n_inputs; i++)
        if (g->inputs[i] != g->seed && g->inputs[i] != g->counter) g->inputs[i]->mark = FED;
    for (int i = 0; i < p->n_targets; i++) p->targets[i]->mark = FED | TARGET;
    for (int i = 0; i < p->n_sets; i++) p->sets[i].data->mark = p->sets[i].input->mark;
    mark_places(g);
    for (ot_node *n = g->first, *next; n; n = next) {
        next = n->next;
        OT_TRY(apply(&x, n));
    }
    OT_TRY(ends(&x));
    ot_plan_note(p, "precision %s: %d of %d matrix products and convolutions in %s; weights and updates in float32",
                 half == OT_F16 ? "fp16" : "bf16", x.done, x.products, ot_dtype_name(half));
    return g->err->status;
}

/* ---- the CPU -------------------------------------------------------------------- */

static bool widened(const ot_value *v) { return v && (v->mark & WIDENED); }

static bool is_half(const ot_value *v) { return v && (v->dtype == OT_F16 || v->dtype == OT_BF16); }

/* A new value in place of output i of n in all readers: the node writes a value in f32, from which it is rounded. */
static ot_status round_output(narrowing *x, ot_node *n, int i, ot_dtype t)
{
    ot_value *y = n->out[i], *v = ot_graph_value_named(x->g, y->name, OT_TEMP, OT_F32, &y->shape);
    if (!v) return x->g->err->status;
    n->out[i] = v;
    v->producer = n;
    v->port = i;
    x->g->cursor = n->next;
    x->b.node = n;
    ot_value *to = ot_cast(&x->b, v, t);
    x->g->cursor = NULL;
    if (!to) return x->g->err->status;
    ot_node *cast = to->producer;
    to->producer = NULL;
    cast->out[0] = y;
    y->producer = cast;
    y->port = 0;
    y->dtype = t;
    y->mark = NARROW;
    return OT_OK;
}

/* Reads f32 instead of 16 bits.  A Map keeps a type that its operands do not have: a Cast of the file rounds.  rounds: so
 * does every operator. */
static ot_status compute_wide(narrowing *x, ot_node *n, bool rounds)
{
    if (!any(n, narrow) && !any(n, widened)) return OT_OK;
    if (rounds && n->op == &ot_op_Map) return OT_OK;
    ot_dtype t = OT_UNDEFINED;
    for (int i = 0; i < n->n_out; i++)
        if (is_half(n->out[i])) t = n->out[i]->dtype;
    OT_TRY(widen(x, n, 0));
    if (rounds) {
        OT_TRY(ot_node_infer(n, x->g->err));
        for (int i = 0; i < n->n_out && t != OT_UNDEFINED; i++)
            if (n->out[i] && n->out[i]->dtype == OT_F32) OT_TRY(round_output(x, n, i, t));
        return OT_OK;
    }
    if (n->op == &ot_op_Map) {
        ot_program *m = (ot_program *)(uintptr_t)n->attrs;
        for (int i = 0; i < m->n_out; i++)
            if (is_half(n->out[i])) m->out_dtype[i] = OT_F32;
    }
    for (int i = 0; i < n->n_out; i++)
        if (is_half(n->out[i])) n->out[i]->mark = WIDENED;
    return ot_node_infer(n, x->g->err);
}

/* v in type t, which it had in the file. */
static ot_value *restored(narrowing *x, ot_value *v, ot_dtype t)
{
    if (!v || v->dtype == t) return v;
    ot_value *y = ot_cast(&x->b, v, t);
    if (y) y->name = v->name;
    return y;
}

/* Kernels of the CPU compute in f32: operators of the file in 16 bits read and write that, which is as fast as the same file
 * in f32.  Inputs, weights, outputs and state keep their types.  A run of the file as it is (rounds) also gives every result
 * the precision and range of its type: the check of an export to float16 finds overflows. */
static ot_status widen_file(ot_plan *p, bool rounds)
{
    ot_graph *g = p->graph;
    narrowing x;
    int count = 0;
    OT_TRY(start(&x, p, OT_F16));
    for (int i = 0; i < g->n_values; i++) count += is_half(g->values[i]);
    if (!count) return OT_OK;
    for (int i = 0; i < g->n_values; i++)
        if (is_half(g->values[i]) && !g->values[i]->producer) g->values[i]->mark = NARROW;
    int n_ends = g->n_outputs + g->n_assigns + p->n_kept;
    ot_dtype *type = ot_graph_alloc(g, (size_t)(n_ends + 1) * sizeof *type), *t = type;
    if (!type) return g->err->status;
    for (int i = 0; i < g->n_outputs; i++) *t++ = g->outputs[i]->dtype;
    for (int i = 0; i < g->n_assigns; i++) *t++ = g->assigns[i].value->dtype;
    for (int i = 0; i < p->n_kept; i++) *t++ = p->kept[i]->dtype;
    for (ot_node *n = g->first, *next; n; n = next) {
        next = n->next;
        OT_TRY(compute_wide(&x, n, rounds));
        for (int i = 0; i < n->n_out; i++)
            if (is_half(n->out[i])) n->out[i]->mark = NARROW;
    }
    t = type;
    for (int i = 0; i < g->n_outputs; i++) g->outputs[i] = restored(&x, g->outputs[i], *t++);
    for (int i = 0; i < g->n_assigns; i++) g->assigns[i].value = restored(&x, g->assigns[i].value, *t++);
    for (int i = 0; i < p->n_kept; i++) p->kept[i] = restored(&x, p->kept[i], *t++);
    ot_plan_note(p, "operators of the file in 16 bits are computed in float32 on the CPU");
    return g->err->status;
}

/* bf16 is a choice of the kernels of products (schedule.c tells): in memory, 16 bits would gain little, and every other
 * kernel computes in float32. */
static ot_status on_cpu(ot_plan *p, const ot_config *c)
{
    OT_TRY(widen_file(p, c->want == OT_WANT_RUN));
    if (c->options.precision == OT_TF32 || c->options.precision == OT_PREC_FP16)
        ot_plan_note(p, "precision %s: no effect on the CPU, which uses fp32",
                     c->options.precision == OT_TF32 ? "tf32" : "fp16");
    return p->graph->err->status;
}

ot_status ot_pass_precision(ot_plan *p, const ot_config *c)
{
    bool trains = c->want == OT_WANT_TRAIN || c->want == OT_WANT_GRAD;
    if (!c->device && !c->ref_only) return on_cpu(p, c);
    switch (c->options.precision) {
    case OT_PREC_BF16: return mixed(p, OT_BF16, trains);
    case OT_PREC_FP16: return mixed(p, OT_F16, trains);
    default: return p->graph->err->status;
    }
}
