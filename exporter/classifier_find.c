/* classifier_find.c - the last linear layer before an output, by the nodes of the file. */
#include <string.h>

#include "exporter/classifier.h"
#include "exporter/messages.h"

typedef struct finder {
    const Onnx__GraphProto *g;
    ot_arena *a;
    ot_table tensor;   /* of initializers and Constants, by name */
    ot_table producer; /* place of the node in g->node, by output */
    ot_table reads;    /* inputs of nodes that read a name, as a pointer */
} finder;

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory to look for the last layer"); }

/* ---- the graph --------------------------------------------------------------------------- */

/* Counts the inputs of nodes, in subgraphs too, that read the elements of a tensor, by its name.  An output of the graph that is the
 * tensor itself does not count: it follows the new tensor. */
static bool count_node_reads(ot_table *reads, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        const ot_op *op = ot_find_op(ot_domain(n->domain), ot_text(n->op_type));
        for (size_t k = 0; k < n->n_input && !(op && op->flags & OT_FROM_SHAPES); k++) {
            uintptr_t so_far = (uintptr_t)ot_table_find(reads, n->input[k]);
            if (*n->input[k] && !ot_table_set(reads, n->input[k], (void *)(so_far + 1))) return false;
        }
        for (size_t k = 0; k < n->n_attribute; k++) {
            if (n->attribute[k]->g && !count_node_reads(reads, n->attribute[k]->g)) return false;
            for (size_t s = 0; s < n->attribute[k]->n_graphs; s++)
                if (!count_node_reads(reads, n->attribute[k]->graphs[s])) return false;
        }
    }
    return true;
}

static bool index_names(finder *x)
{
    x->tensor.arena = x->producer.arena = x->reads.arena = x->a;
    for (size_t i = 0; i < x->g->n_node; i++)
        for (size_t k = 0; k < x->g->node[i]->n_output; k++)
            if (!ot_table_set(&x->producer, x->g->node[i]->output[k], &x->g->node[i])) return false;
    return ot_graph_tensors(x->g, &x->tensor) && count_node_reads(&x->reads, x->g);
}

static const Onnx__NodeProto *producer_of(const finder *x, const char *name)
{
    Onnx__NodeProto *const *at = ot_table_find(&x->producer, name);
    return at ? *at : NULL;
}

static int64_t numel(const Onnx__TensorProto *t)
{
    int64_t n = 1;
    for (size_t i = 0; i < t->n_dims; i++) n *= t->dims[i]; /* the importer has checked it */
    return n;
}

/* ---- reasons ------------------------------------------------------------------------------- */

static ot_status refuse(ot_classifier *h, ot_error *err, const char *why)
{
    if (why) *h = (ot_classifier){ .output = h->output, .why = why };
    return why ? OT_OK : no_memory(err);
}

#define REFUSE(x, h, err, ...) refuse(h, err, ot_arena_printf((x)->a, __VA_ARGS__))

static const char *name_of(const Onnx__NodeProto *n)
{
    return *ot_text(n->name) ? n->name : n->n_output ? n->output[0] : "";
}

/* ---- the layer ------------------------------------------------------------------------------- */

/* The tensor that `name` is, through nodes that copy or transpose it; *last: its name, or that of what is in the way. */
static const Onnx__TensorProto *operand(const finder *x, const char *name, bool *turned, const char **last,
                                        bool *shared)
{
    for (;;) {
        const Onnx__TensorProto *t = ot_table_find(&x->tensor, name);
        const Onnx__NodeProto *n = producer_of(x, name);
        *last = name;
        *shared |= (uintptr_t)ot_table_find(&x->reads, name) > 1;
        if (t || !n || !n->n_input || *ot_domain(n->domain)) return t;
        if (ot_node_is(n, "Transpose")) *turned = !*turned; /* of a matrix, which is checked */
        else if (!ot_node_is(n, "Identity") && !ot_node_is(n, "Cast")) return NULL;
        name = n->input[0];
    }
}

static ot_status accept_bias(const finder *x, const Onnx__NodeProto *n, const char *name, bool last_axis,
                             ot_classifier *h, ot_error *err)
{
    bool turned = false, shared = false;
    const char *last;
    const Onnx__TensorProto *t = operand(x, name, &turned, &last, &shared);
    if (!t) return REFUSE(x, h, err, "the bias of node '%s' (%s) is computed", name_of(n), n->op_type);
    if (shared)
        return REFUSE(x, h, err, "the bias '%s' of node '%s' (%s) is also used by other nodes (see --untie)", last,
                      name_of(n), n->op_type);
    int axis = (int)t->n_dims - 1, channels = (int)t->n_dims - 3;
    for (int d = 0; d < (int)t->n_dims; d++)
        if (t->dims[d] > 1) axis = d;
    if (numel(t) == 1 && !last_axis && channels >= 0) axis = channels;
    h->bias = last;
    h->bias_axis = axis; /* -1: a scalar */
    return OT_OK;
}

static ot_status accept_layer(const finder *x, const Onnx__NodeProto *n, ot_classifier *h, ot_error *err)
{
    bool gemm = ot_node_is(n, "Gemm"), conv = ot_node_is(n, "Conv"), turned = gemm && ot_attr_int(n, "transB", 0),
         shared = false;
    const char *last = "";
    const Onnx__TensorProto *t = n->n_input > 1 ? operand(x, n->input[1], &turned, &last, &shared) : NULL;
    const Onnx__NodeProto *in_the_way = producer_of(x, last);
    h->op = n->op_type;
    h->spatial = conv;
    if (!t && in_the_way && strstr(ot_text(in_the_way->op_type), "uantizeLinear"))
        return REFUSE(x, h, err, "the weight of node '%s' (%s) is quantised", name_of(n), n->op_type);
    if (!t) return REFUSE(x, h, err, "the weight of node '%s' (%s) is not an initializer", name_of(n), n->op_type);
    if (conv ? t->n_dims < 3 || turned || ot_attr_int(n, "group", 1) != 1 : t->n_dims != 2)
        return REFUSE(x, h, err, "node '%s' (%s) is not a linear layer over all features", name_of(n), n->op_type);
    if (gemm && ot_attr_int(n, "transA", 0))
        return REFUSE(x, h, err, "node '%s' (Gemm) has transA, which is not supported", name_of(n));
    if (shared)
        return REFUSE(x, h, err, "the weight '%s' of node '%s' (%s) is also used by other nodes (see --untie)", last,
                      name_of(n), n->op_type);
    if (!ot_is_float((ot_dtype)t->data_type))
        return REFUSE(x, h, err, "the weight '%s' of node '%s' (%s) is not a float tensor", last, name_of(n),
                      n->op_type);
    h->weight = last;
    h->axis = conv || turned ? 0 : 1;
    h->classes = t->dims[h->axis];
    h->fan_in = h->classes ? numel(t) / h->classes : 0;
    h->node = *ot_text(n->name) ? n->name : last;
    if (h->classes < 1 || h->fan_in < 1)
        return REFUSE(x, h, err, "the weight '%s' of node '%s' (%s) is empty", last, name_of(n), n->op_type);
    if (n->n_input > 2 && *n->input[2] && h->bias)
        return REFUSE(x, h, err, "node '%s' (%s) has two biases", name_of(n), n->op_type);
    if (n->n_input > 2 && *n->input[2]) OT_TRY(accept_bias(x, n, n->input[2], !conv, h, err));
    const Onnx__TensorProto *b = h->bias && !h->why ? ot_table_find(&x->tensor, h->bias) : NULL;
    if (b && numel(b) != h->classes && numel(b) != 1)
        return REFUSE(x, h, err, "the bias '%s' of node '%s' (%s) does not have a value for each class", h->bias,
                      name_of(n), n->op_type);
    if (b && numel(b) == 1 && h->classes > 1) h->bias = NULL; /* the same for all classes: it stays */
    return OT_OK;
}

/* ---- from the output back --------------------------------------------------------------------- */

/* Operators of one operand that keep the classes apart. */
static bool passes(const Onnx__NodeProto *n)
{
    static const char *const op[] = { "Softmax",     "LogSoftmax",  "Log",       "Exp",           "Neg",
                                      "Sigmoid",     "HardSigmoid", "Identity",  "Cast",          "Flatten",
                                      "Reshape",     "Squeeze",     "Unsqueeze", "Dropout",       "ReduceMean",
                                      "ReduceSum",   "ReduceMax",   "Relu",      "LeakyRelu",     "Tanh",
                                      "Softplus",    "Clip",        "Transpose", "Hardmax",       "MaxPool",
                                      "AveragePool", "Resize",      "Upsample",  "GlobalMaxPool", "GlobalAveragePool" };
    for (int i = 0; i < OT_LEN(op); i++)
        if (ot_node_is(n, op[i])) return true;
    return false;
}

/* Arithmetic with a constant: *other is the operand that is none, *constant the tensor. */
static bool is_arithmetic(const finder *x, const Onnx__NodeProto *n, const char **other, const char **constant)
{
    if (n->n_input != 2 ||
        !(ot_node_is(n, "Add") || ot_node_is(n, "Sub") || ot_node_is(n, "Mul") || ot_node_is(n, "Div")))
        return false;
    for (int i = 0; i < 2; i++) {
        if (!ot_table_find(&x->tensor, n->input[i])) continue;
        *constant = n->input[i];
        *other = n->input[1 - i];
        return true;
    }
    return false;
}

/* An Add whose operand was computed from a bias: fp16 files cast it. */
static bool is_bias(const finder *x, const Onnx__NodeProto *n, const char **other, const char **constant)
{
    bool turned = false, shared = false;
    const char *last;
    for (int i = 0; i < 2 && n->n_input == 2 && ot_node_is(n, "Add"); i++) {
        const Onnx__TensorProto *t = operand(x, n->input[i], &turned, &last, &shared);
        if (!t || numel(t) == 1) continue;
        *constant = n->input[i];
        *other = n->input[1 - i];
        return true;
    }
    return false;
}

static ot_status walk(const finder *x, const char *name, ot_classifier *h, ot_error *err)
{
    const Onnx__NodeProto *bias_node = NULL;
    const char *other, *constant, *bias = NULL;
    for (size_t hops = 0;; hops++) {
        Onnx__NodeProto *const *at = ot_table_find(&x->producer, name);
        const Onnx__NodeProto *n = at ? *at : NULL;
        if (!n || !n->n_input || hops > x->g->n_node)
            return REFUSE(x, h, err, "it is not computed by a Gemm, MatMul or Conv");
        bool ours = !*ot_domain(n->domain) && !strcmp(n->output[0], name);
        if (ours && (ot_node_is(n, "Gemm") || ot_node_is(n, "MatMul") || ot_node_is(n, "Conv"))) {
            h->layer = (size_t)(at - x->g->node);
            if (bias) OT_TRY(accept_bias(x, bias_node, bias, !ot_node_is(n, "Conv"), h, err));
            return h->why ? OT_OK : accept_layer(x, n, h, err);
        }
        if (ours && passes(n)) {
            h->sigmoid |= ot_node_is(n, "Sigmoid");
            name = n->input[0];
        } else if (ours && !bias && is_bias(x, n, &other, &constant)) {
            bias_node = n;
            bias = constant;
            name = other;
        } else if (ours && is_arithmetic(x, n, &other, &constant) && numel(ot_table_find(&x->tensor, constant)) == 1) {
            if (!bias && ot_node_is(n, "Add")) bias_node = n, bias = constant; /* of one class, or it stays */
            name = other;
        } else {
            return REFUSE(x, h, err, "between it and the last linear layer is node '%s' (%s)%s", name_of(n),
                          ot_text(n->op_type),
                          strstr(ot_text(n->op_type), "uantizeLinear") ? ": the model is quantised" : "");
        }
    }
}

ot_status ot_classifier_find(const ot_imported *m, const char *output, ot_arena *a, ot_classifier *out, ot_error *err)
{
    finder x = { .g = ((const ot_file *)m->file)->model->graph, .a = a };
    *out = (ot_classifier){ .output = output };
    return index_names(&x) ? walk(&x, output, out, err) : no_memory(err);
}
