/* training.c - writes a planned training into the file as its TrainingInfoProto.
 *
 * Our loss and updates are chains of a few operators, each a row of a Map.  A row becomes one or two operators of
 * ONNX, and gradients the standard's Gradient.  When the file is imported they become the same rows: training from
 * the file does the same arithmetic.  What depends on the batch size is found by comparing the graphs for two sizes.
 *
 * Spec    onnx.proto, TrainingInfoProto; ai.onnx.preview.training Gradient 1. */
#include "exporter/training.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "exporter/remake.h"
#include "ops/kernels/copy.h"
#include "ops/kernels/crossentropy.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/softmax.h"

enum { OLDEST = 13 };

typedef struct writer {
    ot_remake x;
    ot_arena *a;
    const ot_described *d;
    Onnx__GraphProto g;
    size_t cap[4];     /* of the lists: nodes, initializers, inputs, outputs */
    const char **name; /* of a value, by id; NULL: not yet */
    bool *needed;
    const char *batch; /* the number of samples, as float64; NULL: not needed so far */
    Onnx__TrainingInfoProto info;
    size_t cap_binding;
    int made; /* names */
    ot_error *err;
    const char *where; /* what is being written, for messages */
} writer;

static void *fail(writer *w, const char *fmt, ...) OT_PRINTF(2, 3);

static void *fail(writer *w, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    ot_vtext(text, sizeof text, fmt, ap);
    va_end(ap);
    ot_fail(w->err, OT_E_MODEL, "%s", text);
    return NULL;
}

static void *made(writer *w, void *p)
{
    if (!p) ot_fail(w->err, OT_E_NOMEM, "no memory to write the training");
    return p;
}

static void *room(writer *w, size_t n) { return made(w, ot_arena_alloc(w->a, n ? n : 1)); }

/* Of what one of the functions here made; NULL: the first error is in w->err. */
static ot_status status_of(const writer *w, const void *made)
{
    if (made) return OT_OK;
    return w->err->status != OT_OK ? w->err->status : OT_E_NOMEM;
}

static ot_status push(writer *w, void *list, size_t *n, size_t *cap, void *item)
{
    OT_TRY(status_of(w, item));
    return status_of(w, made(w, ot_message_push(w->a, list, n, cap, item) ? item : NULL));
}

static char *fresh(writer *w, const char *what)
{
    return made(w, ot_message_text(ot_remake_name(&w->x, "onnxtrain", what, ++w->made)));
}

/* ---- messages -------------------------------------------------------------------------- */

static Onnx__NodeProto *node(writer *w, const char *op, const char *domain, int n_in, int n_out)
{
    Onnx__NodeProto *n = room(w, sizeof *n);
    if (!n) return NULL;
    *n = (Onnx__NodeProto)ONNX__NODE_PROTO__INIT;
    n->op_type = ot_message_text(op);
    if (*domain) n->domain = ot_message_text(domain);
    n->input = room(w, (size_t)n_in * sizeof *n->input);
    n->output = room(w, (size_t)n_out * sizeof *n->output);
    n->attribute = room(w, 4 * sizeof *n->attribute);
    n->n_input = (size_t)n_in;
    n->n_output = (size_t)n_out;
    if (!n->input || !n->output || !n->attribute) return NULL;
    return push(w, &w->g.node, &w->g.n_node, &w->cap[0], n) == OT_OK ? n : NULL;
}

static Onnx__AttributeProto *attribute(writer *w, Onnx__NodeProto *n, const char *name,
                                       Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *a = n ? made(w, ot_message_attribute(w->a, name, type)) : NULL;
    return a ? n->attribute[n->n_attribute++] = a : NULL;
}

static void with_int(writer *w, Onnx__NodeProto *n, const char *name, int64_t v)
{
    Onnx__AttributeProto *a = attribute(w, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (a) a->has_i = true, a->i = v;
}

static void with_text(writer *w, Onnx__NodeProto *n, const char *name, const char *text)
{
    Onnx__AttributeProto *a = attribute(w, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    if (a) a->has_s = true, a->s = (ProtobufCBinaryData){ strlen(text), (uint8_t *)(uintptr_t)text };
}

/* A node of up to three inputs with one output of a fresh name, which it returns. */
static const char *emit(writer *w, const char *op, const char *a, const char *b, const char *c)
{
    int n = c ? 3 : b ? 2 : 1;
    Onnx__NodeProto *k = a ? node(w, op, "", n, 1) : NULL;
    if (!k) return NULL;
    const char *in[] = { a, b, c };
    for (int i = 0; i < n; i++) k->input[i] = ot_message_text(in[i]);
    return k->output[0] = fresh(w, op);
}

static Onnx__NodeProto *last(writer *w) { return w->g.n_node ? w->g.node[w->g.n_node - 1] : NULL; }

static const char *cast(writer *w, const char *x, ot_dtype t)
{
    const char *y = emit(w, "Cast", x, NULL, NULL);
    if (y) with_int(w, last(w), "to", t);
    return y;
}

static const char *initializer(writer *w, const char *name, ot_dtype t, const ot_shape *s, const void *bytes)
{
    Onnx__TensorProto *p = name ? made(w, ot_message_tensor(w->a, name, t, s)) : NULL;
    size_t n = ot_bytes(s, t);
    uint8_t *copy = p ? room(w, n) : NULL;
    if (!copy) return NULL;
    if (n && bytes) memcpy(copy, bytes, n); /* else zeros */
    ot_message_payload(p, n, copy);
    return push(w, &w->g.initializer, &w->g.n_initializer, &w->cap[1], p) == OT_OK ? name : NULL;
}

static const char *number(writer *w, ot_dtype t, double v)
{
    uint64_t bytes = 0;
    ot_set_f64(&bytes, t, 0, v);
    return initializer(w, fresh(w, "number"), t, &OT_SCALAR, &bytes);
}

static const char *integers(writer *w, const int64_t *v, int n)
{
    return initializer(w, fresh(w, "integers"), OT_I64, &(ot_shape){ .rank = 1, .dim = { n } }, v);
}

/* An input or output; an axis of another size in `other` is open. */
static Onnx__ValueInfoProto *info(writer *w, const char *name, ot_dtype t, const ot_shape *s, const ot_shape *other)
{
    int64_t dim[OT_MAX_RANK];
    for (int i = 0; i < s->rank; i++) dim[i] = other && s->dim[i] != other->dim[i] ? -1 : s->dim[i];
    return made(w, ot_message_value(w->a, name, t, s->rank, dim, "onnxtrain_batch"));
}

static ot_status add_output(writer *w, const char *name, ot_dtype t, const ot_shape *s)
{
    return push(w, &w->g.output, &w->g.n_output, &w->cap[3], info(w, name, t, s, NULL));
}

static ot_status bind(writer *w, const char *key, const char *name)
{
    return push(w, &w->info.update_binding, &w->info.n_update_binding, &w->cap_binding,
                made(w, ot_message_entry(w->a, key, name)));
}

/* ---- what depends on the batch ------------------------------------------------------------ */

static const ot_value *twin(const writer *w, const ot_value *v)
{
    return v->id < w->d->graph[1]->n_values ? w->d->graph[1]->values[v->id] : NULL;
}

/* An input of the model with the samples along an axis; NULL: none. */
static const ot_value *with_batch(const writer *w, int *axis)
{
    const ot_graph *g = w->d->graph[0];
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i], *o = twin(w, v);
        for (int d = 0; o && d < v->shape.rank && d < o->shape.rank; d++)
            if (v->shape.dim[d] != o->shape.dim[d]) {
                *axis = d;
                return v;
            }
    }
    return NULL;
}

static const char *name_of(writer *w, const ot_value *v);

/* How many samples there are, as float64. */
static const char *batch(writer *w)
{
    int axis;
    const ot_value *v = with_batch(w, &axis);
    if (w->batch) return w->batch;
    if (!v) return fail(w, "the batch size cannot be determined from the inputs");
    return w->batch =
               cast(w, emit(w, "Gather", emit(w, "Shape", name_of(w, v), NULL, NULL), number(w, OT_I64, axis), NULL),
                    OT_F64);
}

/* A number that is another for another batch: k / batch / n, or k * batch. */
static const char *by_batch(writer *w, const ot_value *v, const ot_value *o)
{
    int axis;
    const ot_value *in = with_batch(w, &axis);
    if (ot_numel(&v->shape) != 1 || !in) return fail(w, "a constant of the loss depends on the batch");
    double n0 = (double)in->shape.dim[axis], n1 = (double)twin(w, in)->shape.dim[axis];
    double c0 = ot_get_f64(v->data, v->dtype, 0), c1 = ot_get_f64(o->data, o->dtype, 0), per = nearbyint(1 / (c0 * n0)),
           each = c0 / n0;
    uint64_t a = 0, b = 0;
    ot_set_f64(&a, v->dtype, 0, 1 / (per * n0));
    ot_set_f64(&b, v->dtype, 0, 1 / (per * n1));
    const char *y = NULL;
    if (per > 0 && ot_get_f64(&a, v->dtype, 0) == c0 && ot_get_f64(&b, v->dtype, 0) == c1)
        y = emit(w, "Div", number(w, OT_F64, 1),
                 per == 1 ? batch(w) : emit(w, "Mul", batch(w), number(w, OT_F64, per), NULL), NULL);
    else if (each * n1 == c1) y = emit(w, "Mul", batch(w), number(w, OT_F64, each), NULL);
    else return fail(w, "a constant of the loss depends on the batch in an unsupported way");
    return v->dtype == OT_F64 || !y ? y : cast(w, y, v->dtype);
}

/* A shape: an axis that differs is what the others leave. */
static const char *shape_of(writer *w, const ot_value *v, const ot_value *o)
{
    int64_t dim[OT_MAX_RANK];
    int open = 0;
    for (int i = 0; i < v->shape.rank; i++) {
        dim[i] = v->shape.dim[i] == o->shape.dim[i] ? v->shape.dim[i] : -1;
        open += dim[i] < 0;
    }
    return open > 1 ? fail(w, "a shape of the loss depends on the batch along several axes")
                    : integers(w, dim, v->shape.rank);
}

/* ---- values --------------------------------------------------------------------------------- */

/* A tensor of the file that no other value is called like. */
static const char *file_name(writer *w, const ot_value *v)
{
    const Onnx__GraphProto *g = w->x.f->model->graph;
    const ot_graph *all = w->x.m->graph;
    int alike = 0;
    bool there = false;
    for (int i = 0; i < all->n_values; i++) alike += !strcmp(all->values[i]->name, v->name);
    for (size_t i = 0; i < g->n_node && !there; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) there |= !strcmp(g->node[i]->output[k], v->name);
    for (size_t i = 0; i < g->n_input; i++) there |= !strcmp(ot_text(g->input[i]->name), v->name);
    for (size_t i = 0; i < g->n_initializer; i++) there |= !strcmp(ot_text(g->initializer[i]->name), v->name);
    return there && alike == 1 ? v->name
                               : fail(w,
                                      "'%s', which the training uses, is not in the main graph of the "
                                      "file",
                                      v->name);
}

/* A state of the training starts in the file as it starts here. */
static const char *state(writer *w, const ot_value *v)
{
    char what[300];
    snprintf(what, sizeof what, "%.250s", v->name);
    for (char *c = what; *c; c++)
        if (*c == '/') *c = '_';
    return initializer(w, fresh(w, what), v->dtype, &v->shape, v->data);
}

static const char *constant(writer *w, const ot_value *v)
{
    const ot_value *o = twin(w, v);
    if (!o || !o->data || o->dtype != v->dtype) return fail(w, "the loss has another form for other batch sizes");
    if (ot_shape_eq(&v->shape, &o->shape) && !memcmp(v->data, o->data, ot_bytes(&v->shape, v->dtype)))
        return initializer(w, fresh(w, "constant"), v->dtype, &v->shape, v->data);
    return by_batch(w, v, o);
}

static const char *name_of(writer *w, const ot_value *v)
{
    const char **name = &w->name[v->id];
    if (*name) return *name;
    if (v == w->d->lr) return *name = initializer(w, fresh(w, "learning_rate"), OT_F64, &OT_SCALAR, &w->d->rate);
    if (v == w->d->momentum) return *name = initializer(w, fresh(w, "momentum"), OT_F64, &OT_SCALAR, &w->d->start);
    if (v->id < w->d->before) return *name = file_name(w, v);
    if (v->role == OT_STATE) return *name = state(w, v);
    if (v->role == OT_CONST && v->data) return *name = constant(w, v);
    return fail(w, "'%s' has no name", v->name);
}

/* The number of the update, from 1: one more than the file holds. */
static ot_status count(writer *w)
{
    static const double none = 0;
    const char *kept = initializer(w, fresh(w, "updates"), OT_F64, &OT_SCALAR, &none),
               *now = emit(w, "Add", kept, number(w, OT_F64, 1), NULL);
    OT_TRY(status_of(w, now));
    w->name[w->d->t->id] = now;
    OT_TRY(add_output(w, now, OT_F64, &OT_SCALAR));
    return bind(w, kept, now);
}

/* ---- operators -------------------------------------------------------------------------------- */

static const struct {
    int row;
    const char *op;
} same[] = {
    { OT_FN_Add, "Add" },
    { OT_FN_Sub, "Sub" },
    { OT_FN_Mul, "Mul" },
    { OT_FN_Div, "Div" },
    { OT_FN_Pow, "Pow" },
    { OT_FN_Max, "Max" },
    { OT_FN_Min, "Min" },
    { OT_FN_Neg, "Neg" },
    { OT_FN_Abs, "Abs" },
    { OT_FN_Sign, "Sign" },
    { OT_FN_Sqrt, "Sqrt" },
    { OT_FN_Exp, "Exp" },
    { OT_FN_Log, "Log" },
    { OT_FN_Tanh, "Tanh" },
    { OT_FN_Sigmoid, "Sigmoid" },
    { OT_FN_Softplus, "Softplus" },
    { OT_FN_Relu, "Relu" },
    { OT_FN_Reciprocal, "Reciprocal" },
    { OT_FN_Where, "Where" },
    { OT_FN_Clip, "Clip" },
    { OT_FN_Equal, "Equal" },
    { OT_FN_Less, "Less" },
    { OT_FN_LessOrEqual, "LessOrEqual" },
    { OT_FN_Greater, "Greater" },
    { OT_FN_GreaterOrEqual, "GreaterOrEqual" },
    { OT_FN_And, "And" },
    { OT_FN_Or, "Or" },
    { OT_FN_Not, "Not" },
    { OT_FN_Copy, "Identity" },
};

/* |a| below p: `near`, else p |a| - p/2 (times `far`). */
static const char *bend(writer *w, const char *a, ot_dtype t, const char *below, double p, double far, bool divided)
{
    const char *size = emit(w, "Abs", a, NULL, NULL), *q = number(w, t, p),
               *half = emit(w, "Mul", emit(w, "Mul", number(w, t, .5), a, NULL), a, NULL);
    const char *near = divided ? emit(w, "Div", half, q, NULL) : half,
               *line = emit(w, "Sub", size, number(w, t, .5 * p), NULL);
    return emit(w, "Where", emit(w, below, size, q, NULL), near,
                far == 1 ? line : emit(w, "Mul", number(w, t, far), line, NULL));
}

/* max(log a, -100) */
static const char *bounded_log(writer *w, const char *a, ot_dtype t)
{
    return emit(w, "Max", emit(w, "Log", a, NULL, NULL), number(w, t, -100), NULL);
}

/* Terms of losses.  NULL: of a row that no operator has. */
static const char *term(writer *w, const ot_inst *i, const char *const in[3], ot_dtype t)
{
    switch (i->row) {
    case OT_FN_Square: return emit(w, "Mul", in[0], in[0], NULL);
    case OT_FN_Rsqrt: return emit(w, "Reciprocal", emit(w, "Sqrt", in[0], NULL, NULL), NULL, NULL);
    case OT_FN_PowP: return emit(w, "Pow", in[0], number(w, t, i->p), NULL);
    case OT_FN_NotEqual: return emit(w, "Not", emit(w, "Equal", in[0], in[1], NULL), NULL, NULL);
    case OT_FN_BceWithLogits:
        return emit(w, "Sub", emit(w, "Softplus", in[0], NULL, NULL), emit(w, "Mul", in[0], in[1], NULL), NULL);
    case OT_FN_Bce: {
        const char *one = number(w, t, 1), *yes = emit(w, "Mul", in[1], bounded_log(w, in[0], t), NULL);
        const char *no =
            emit(w, "Mul", emit(w, "Sub", one, in[1], NULL), bounded_log(w, emit(w, "Sub", one, in[0], NULL), t), NULL);
        return emit(w, "Neg", emit(w, "Add", yes, no, NULL), NULL, NULL);
    }
    case OT_FN_KlTerm: {
        const char *zero = number(w, t, 0), *some = emit(w, "Greater", in[1], zero, NULL);
        const char *log = emit(w, "Log", emit(w, "Where", some, in[1], number(w, t, 1)), NULL, NULL);
        return emit(w, "Mul", in[1], emit(w, "Sub", log, in[0], NULL), NULL);
    }
    case OT_FN_Huber: return bend(w, in[0], t, "LessOrEqual", i->p, i->p, false);
    case OT_FN_SmoothL1: return bend(w, in[0], t, "Less", i->p, 1, true);
    default: return fail(w, "%s needs %s, which is not an ONNX operator", w->where, ot_fn_of(i->row)->name);
    }
}

static const char *map(writer *w, const ot_node *n)
{
    const ot_program *m = n->attrs;
    const ot_value *y = n->out[0];
    const char *in[3] = { NULL }, *out = NULL;
    int row = m->inst[0].row;
    ot_dtype t = y->dtype;
    if (m->n_inst != 1 || m->n_out != 1 || m->n_in > 3 || m->n_in < 1)
        return fail(w,
                    "%s has a form that ONNX does not "
                    "support",
                    w->where);
    if (ot_fn_is_compare(row)) /* computed in the type of what is compared */
        for (int i = m->n_in - 1; i >= 0; i--) t = n->in[i]->dtype == OT_BOOL && t != y->dtype ? t : n->in[i]->dtype;
    for (int i = 0; i < m->n_in; i++) {
        bool as_it_is = n->in[i]->dtype == t || row == OT_FN_Copy || (row == OT_FN_Where && i == 0);
        in[i] = name_of(w, n->in[i]);
        if (in[i] && !as_it_is) in[i] = cast(w, in[i], t);
        if (!in[i]) return NULL;
    }
    if (row == OT_FN_Copy && n->in[0]->dtype != y->dtype) return cast(w, in[0], y->dtype);
    for (int i = 0; i < OT_LEN(same) && !out; i++)
        if (same[i].row == row) return emit(w, same[i].op, in[0], in[1], in[2]);
    return term(w, &m->inst[0], in, t);
}

static const char *reduce(writer *w, const ot_node *n)
{
    const ot_reduce *a = n->attrs;
    const char *x = name_of(w, n->in[0]);
    int64_t axes[OT_MAX_RANK];
    int k = 0;
    bool half = ot_dtype_bits(n->in[0]->dtype) == 16;
    if (a->program || n->n_in != 1 || half || (a->kind != OT_REDUCE_SUM && a->kind != OT_REDUCE_SUMSQ))
        return fail(w, "%s has an unsupported reduction", w->where);
    for (int d = 0; d < n->in[0]->shape.rank; d++)
        if (a->axes >> d & 1) axes[k++] = d;
    if (a->kind == OT_REDUCE_SUMSQ && x) x = emit(w, "Mul", x, x, NULL);
    if (!k) return emit(w, "Identity", x, NULL, NULL);
    const char *y = emit(w, "ReduceSum", x, integers(w, axes, k), NULL);
    if (y) with_int(w, last(w), "keepdims", a->keepdims != 0);
    return y;
}

/* (1-s) loss - s mean(log p): classes along axis 1. */
static const char *smooth(writer *w, const char *x, const char *loss, ot_dtype t, double s)
{
    const char *log = emit(w, "LogSoftmax", x, NULL, NULL);
    if (log) with_int(w, last(w), "axis", 1);
    const char *mean = emit(w, "ReduceMean", log, NULL, NULL);
    if (mean) with_int(w, last(w), "keepdims", 0);
    const char *sharp = emit(w, "Mul", loss, number(w, t, 1 - s), NULL);
    return emit(w, "Sub", sharp, mean ? emit(w, "Mul", mean, number(w, t, s), NULL) : NULL, NULL);
}

static const char *cross_entropy(writer *w, const ot_node *n)
{
    static const char *const reductions[] = { "none", "sum", "mean" };
    const ot_cross_entropy *a = n->attrs;
    const char *x = name_of(w, n->in[0]), *t = name_of(w, n->in[1]),
               *k = n->n_in > 2 && n->in[2] ? name_of(w, n->in[2]) : NULL;
    int rank = n->in[0]->shape.rank;
    double s = a->label_smoothing;
    if (a->probs) return fail(w, "cross_entropy with targets of probabilities is not supported");
    if (s != 0 && (k || a->has_ignore || a->log_input || a->reduction != OT_REDUCTION_MEAN))
        return fail(w, "cross_entropy with label_smoothing is not supported together with class weights, an ignored "
                       "class, log-probabilities or a sum");
    if (n->n_out > 1 && n->out[1]) return fail(w, "%s has an unsupported form", w->where);
    if (a->axis != 1) {
        int64_t *perm = room(w, (size_t)rank * sizeof *perm);
        if (!perm || rank < 2 || !a->axis)
            return fail(w, "classes along axis %lld are not supported", (long long)a->axis);
        x = emit(w, "Transpose", x, NULL, NULL);
        Onnx__AttributeProto *p = x ? attribute(w, last(w), "perm", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS) : NULL;
        for (int d = 0, at = 1; d < rank; d++)
            perm[d] = d == 0 ? 0 : d == 1 ? a->axis : at == a->axis ? ++at, at++ : at++;
        if (p) p->n_ints = (size_t)rank, p->ints = perm;
    }
    const char *y = t ? emit(w, a->log_input ? "NegativeLogLikelihoodLoss" : "SoftmaxCrossEntropyLoss", x, t, k) : NULL;
    if (y) with_text(w, last(w), "reduction", reductions[a->reduction]);
    if (y && a->has_ignore) with_int(w, last(w), "ignore_index", a->ignore_index);
    return y && s != 0 ? smooth(w, x, y, n->in[0]->dtype, s) : y;
}

/* The one node that asks for all gradients. */
static ot_status gradients(writer *w, const ot_node *n)
{
    int k = n->n_in - 1;
    Onnx__NodeProto *p = node(w, "Gradient", "ai.onnx.preview.training", k, n->n_out);
    Onnx__AttributeProto *xs = attribute(w, p, "xs", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    ProtobufCBinaryData *text = room(w, (size_t)k * sizeof *text);
    const char *y = name_of(w, n->in[k]);
    if (!xs || !text || !y) return status_of(w, NULL);
    for (int i = 0; i < k; i++) {
        const char *x = name_of(w, n->in[i]);
        OT_TRY(status_of(w, x));
        p->input[i] = ot_message_text(x);
        text[i] = (ProtobufCBinaryData){ strlen(x), (uint8_t *)(uintptr_t)x };
    }
    for (int i = 0; i < n->n_out; i++) {
        p->output[i] = fresh(w, "gradient");
        OT_TRY(status_of(w, p->output[i]));
        w->name[n->out[i]->id] = p->output[i];
    }
    xs->n_strings = (size_t)k;
    xs->strings = text;
    with_text(w, p, "y", y);
    return w->err->status;
}

static ot_status write_node(writer *w, const ot_node *n)
{
    const char *y = NULL;
    if (n->op == &ot_op_Gradient) return gradients(w, n);
    if (n->op == &ot_op_Map) y = map(w, n);
    else if (n->op == &ot_op_Reduce) y = reduce(w, n);
    else if (n->op == &ot_op_CrossEntropy) y = cross_entropy(w, n);
    else if (n->op == &ot_op_SoftmaxAxis) {
        const ot_softmax_axis *a = n->attrs;
        y = emit(w, a->log ? "LogSoftmax" : "Softmax", name_of(w, n->in[0]), NULL, NULL);
        if (y) with_int(w, last(w), "axis", a->axis);
    } else if (n->op == &ot_op_View) {
        const ot_value *o = twin(w, n->out[0]);
        const char *x = name_of(w, n->in[0]);
        y = o && x ? emit(w, "Reshape", x, shape_of(w, n->out[0], o), NULL) : NULL;
    } else fail(w, "%s needs %s, which is not supported", w->where, n->op->name);
    if (y) w->name[n->out[0]->id] = y;
    return status_of(w, y);
}

/* ---- all of it ----------------------------------------------------------------------------------- */

/* Running statistics of BatchNormalization are not written: the graph assigns them itself, before the loss. */
static bool is_ours(const writer *w, const ot_assign *a) { return a->value->id >= w->d->before; }

static void mark_needed(writer *w)
{
    const ot_graph *g = w->d->graph[0];
    for (int i = 0; i < g->n_assigns; i++)
        if (is_ours(w, &g->assigns[i])) w->needed[g->assigns[i].value->id] = true;
    for (const ot_node *n = g->last; n; n = n->prev) {
        bool on = false;
        for (int i = 0; i < n->n_out; i++) on |= n->out[i] && n->out[i]->id >= w->d->before && w->needed[n->out[i]->id];
        for (int i = 0; i < n->n_in && on; i++)
            if (n->in[i]) w->needed[n->in[i]->id] = true;
    }
}

/* Targets and what else is fed to the loss alone. */
static ot_status write_inputs(writer *w)
{
    const ot_graph *g = w->d->graph[0];
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i], *o = twin(w, v);
        if (v->id < w->d->before || !w->needed[v->id] || v == w->d->lr || v == w->d->momentum || v == w->d->t) continue;
        const Onnx__GraphProto *f = w->x.f->model->graph;
        for (size_t k = 0; k < f->n_node; k++)
            for (size_t j = 0; j < f->node[k]->n_output; j++)
                if (!strcmp(f->node[k]->output[j], v->name))
                    return ot_fail(w->err, OT_E_MODEL, "a tensor of the file has the name of the target, '%s'",
                                   v->name);
        OT_TRY(push(w, &w->g.input, &w->g.n_input, &w->cap[2],
                    info(w, v->name, v->dtype, &v->shape, o ? &o->shape : NULL)));
        w->name[v->id] = v->name;
    }
    return OT_OK;
}

static ot_status write_updates(writer *w)
{
    const ot_graph *g = w->d->graph[0];
    for (int i = 0; i < g->n_assigns; i++) {
        const ot_assign *a = &g->assigns[i];
        if (!is_ours(w, a)) continue;
        const char *key = name_of(w, a->state), *now = key ? name_of(w, a->value) : NULL;
        OT_TRY(status_of(w, now));
        OT_TRY(add_output(w, now, a->value->dtype, &a->value->shape));
        OT_TRY(bind(w, key, now));
    }
    return OT_OK;
}

static ot_status write_graph(writer *w)
{
    const ot_graph *g = w->d->graph[0];
    bool updates = false;
    w->g = (Onnx__GraphProto)ONNX__GRAPH_PROTO__INIT;
    w->g.name = ot_message_text("training");
    w->name = room(w, (size_t)g->n_values * sizeof *w->name);
    w->needed = room(w, (size_t)g->n_values);
    if (!w->name || !w->needed) return status_of(w, NULL);
    mark_needed(w);
    OT_TRY(write_inputs(w));
    w->where = "the loss";
    for (const ot_node *n = g->first; n; n = n->next) {
        bool on = false;
        for (int i = 0; i < n->n_out; i++) on |= n->out[i] && n->out[i]->id >= w->d->before && w->needed[n->out[i]->id];
        if (!on) continue;
        if (updates && w->d->t && w->needed[w->d->t->id] && !w->name[w->d->t->id]) OT_TRY(count(w));
        OT_TRY(write_node(w, n));
        if (n->op != &ot_op_Gradient) continue;
        updates = true;
        w->where = "the optimizer";
    }
    const char *loss = name_of(w, w->d->loss);
    OT_TRY(status_of(w, loss));
    if (w->d->loss->id >= w->d->before) OT_TRY(add_output(w, loss, w->d->loss->dtype, &w->d->loss->shape));
    return write_updates(w);
}

/* The file without a training that it has, and with this one and the operators' domain. */
static ot_status add_to_file(writer *w)
{
    const Onnx__ModelProto *m = w->x.f->model;
    ot_patch *p = &w->x.patch;
    Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT;
    ot_field f;
    bool there = false;
    for (size_t at = 0; ot_field_next(p->p, &at, p->n, &f);)
        if (f.number == OT_MODEL_TRAINING && f.wire == 2) ot_patch_edit(p, 0, f.at, f.end, "", 0);
    for (size_t i = 0; i < m->n_opset_import; i++)
        there |= !strcmp(ot_text(m->opset_import[i]->domain), "ai.onnx.preview.training");
    set.domain = ot_message_text("ai.onnx.preview.training");
    set.has_version = true;
    set.version = 1;
    w->info.algorithm = &w->g;
    if (!there) OT_TRY(ot_remake_field(&w->x, OT_MODEL_OPSET, &set.base, w->err));
    const char *size = ot_arena_printf(w->a, "%lld", (long long)w->d->batch);
    if (!size) return OT_E_NOMEM;
    OT_TRY(ot_metadata_edit(p, OT_TRAINING_BATCH_KEY, size, w->err));
    return ot_remake_field(&w->x, OT_MODEL_TRAINING, &w->info.base, w->err);
}

ot_status ot_training_write(const ot_imported *m, const ot_described *d, ot_imported **out, ot_error *err)
{
    *out = NULL;
    if (m->opset < OLDEST)
        return ot_fail(err, OT_E_MODEL, "--training-info: the file has opset %lld; training needs opset %d or newer",
                       (long long)m->opset, OLDEST);
    ot_error first = { 0 };
    writer w = { .d = d, .err = &first, .info = ONNX__TRAINING_INFO_PROTO__INIT };
    OT_TRY(ot_remake_begin(&w.x, m, err));
    w.a = w.x.patch.arena;
    ot_status s = write_graph(&w);
    if (!s) s = first.status;
    if (!s) s = add_to_file(&w);
    if (!s) s = ot_remake_finish(&w.x, out, &first);
    ot_remake_end(&w.x);
    const char *remedy = s == OT_E_MODEL ? "; use another loss or optimizer, or train without --training-info and "
                                           "continue with 'onnxtrain resume RUN'"
                                         : "";
    return s ? ot_fail(err, s, "--training-info: %s%s", *first.text ? first.text : "no memory", remedy) : OT_OK;
}
