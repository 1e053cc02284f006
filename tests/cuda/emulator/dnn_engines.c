/* dnn_engines.c - the emulated cuDNN's engines: the list for a graph, their notes, plans.
 *
 * For every graph the heuristics offer, best first, engines that must be skipped before those that may be used:
 * nondeterministic ones, ones that round operands, one that needs more memory than there is, one that makes no plan.  A
 * missing filter thus shows as wrong numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/dnn.h"

static bool is_convolution(const dnn *op)
{
    return op->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           op->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           op->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

static bool is_norm(const dnn *op)
{
    return op->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR ||
           op->type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR;
}

static const dnn *op_of(const dnn *graph, int i)
{
    const dnn_value *v = dnn_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    return v && i < v->n ? ((dnn *const *)v->list)[i] : NULL;
}

/* ---- finalizing ------------------------------------------------------------------------------ */

static cudnnStatus_t check_tensor(const dnn *d)
{
    const dnn_value *dims = dnn_find(d, CUDNN_ATTR_TENSOR_DIMENSIONS),
                    *strides = dnn_find(d, CUDNN_ATTR_TENSOR_STRIDES);
    if (dims->n != strides->n || dims->n < 3) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    for (int i = 0; i < dims->n; i++)
        if (dnn_number(d, CUDNN_ATTR_TENSOR_DIMENSIONS, i) < 1 || dnn_number(d, CUDNN_ATTR_TENSOR_STRIDES, i) < 1)
            return CUDNN_STATUS_BAD_PARAM;
    int type = (int)dnn_number(d, CUDNN_ATTR_TENSOR_DATA_TYPE, 0);
    if (type == CUDNN_DATA_INT32 && !dnn_number(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0))
        return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    return dnn_cuda_type(type) < 0 ? CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE : CUDNN_STATUS_SUCCESS;
}

typedef struct parts {
    dnn_tensor x, w, y;
    const dnn *conv;
} parts;

static parts parts_of(const dnn *op)
{
    if (op->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        return (parts){ dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X)),
                        dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W)),
                        dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y)),
                        dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC) };
    if (op->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        return (parts){ dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX)),
                        dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W)),
                        dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY)),
                        dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC) };
    return (parts){ dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X)),
                    dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW)),
                    dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY)),
                    dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC) };
}

/* The extents of y are those that the window gives; the factors have the type of the sums. */
static cudnnStatus_t check_convolution(const dnn *op)
{
    parts p = parts_of(op);
    int nd = (int)dnn_number(p.conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
    bool f64 = dnn_number(p.conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 0) == CUDNN_DATA_DOUBLE;
    if (p.x.rank != nd + 2 || p.w.rank != nd + 2 || p.y.rank != nd + 2) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    if (p.x.dim[0] != p.y.dim[0] || p.w.dim[0] != p.y.dim[1] || p.x.dim[1] % p.w.dim[1] ||
        p.w.dim[0] % (p.x.dim[1] / p.w.dim[1]))
        return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    for (int j = 0; j < nd; j++) {
        int64_t lo = dnn_number(p.conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, j),
                hi = dnn_number(p.conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, j);
        int64_t reach = (p.w.dim[2 + j] - 1) * dnn_number(p.conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, j) + 1;
        int64_t stride = dnn_number(p.conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, j);
        if (lo < 0 || hi < 0 || stride < 1 || (p.x.dim[2 + j] + lo + hi - reach) / stride + 1 != p.y.dim[2 + j])
            return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    }
    for (int i = 0; i < op->n; i++)
        if (op->value[i].type == (f64 ? CUDNN_TYPE_FLOAT : CUDNN_TYPE_DOUBLE))
            return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    return CUDNN_STATUS_SUCCESS;
}

/* Everything but the tensor itself is one number per channel, or one number. */
static cudnnStatus_t check_norm(const dnn *op)
{
    const dnn_tensor x = dnn_tensor_of(dnn_to(op, op->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
                                                      ? CUDNN_ATTR_OPERATION_NORM_FWD_XDESC
                                                      : CUDNN_ATTR_OPERATION_NORM_BWD_XDESC));
    for (int i = 0; i < op->n; i++) {
        if (op->value[i].type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
        dnn_tensor t = dnn_tensor_of(*(dnn *const *)op->value[i].list);
        int64_t n = 1;
        for (int k = 0; k < t.rank; k++) n *= t.dim[k];
        bool like_x =
            t.rank == x.rank && !memcmp(t.dim, x.dim, sizeof t.dim) && !memcmp(t.stride, x.stride, sizeof t.stride);
        bool listed =
            t.rank == x.rank && t.dim[1] == x.dim[1] && n == x.dim[1] && t.type == dnn_cuda_type(CUDNN_DATA_FLOAT);
        if (!like_x && !listed && !(t.by_value && n == 1)) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    }
    bool factor = dnn_find(op, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC),
         running = dnn_find(op, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC);
    return factor == running ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t restore(dnn *plan, const dnn_value *text)
{
    const char *at = text->list;
    dnn *config = dnn_read(&at);
    if (!config) return CUDNN_STATUS_BAD_PARAM;
    bool ok = dnn_put(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    dnn_drop(config);
    return ok ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

static cudnnStatus_t check_plan(dnn *d)
{
    const dnn_value *text = dnn_find(d, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    bool chosen = dnn_find(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    int engine;
    if (chosen == (text != NULL)) return CUDNN_STATUS_BAD_PARAM;
    if (text) return restore(d, text);
    dnn_graph_of(d, &engine);
    return engine == DNN_FICKLE ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_pack(const dnn *d)
{
    const dnn_value *ids = dnn_find(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                    *at = dnn_find(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    return ids->n == at->n ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t dnn_check(dnn *d)
{
    if (is_convolution(d)) return check_convolution(d);
    if (is_norm(d)) return check_norm(d);
    if (dnn_is_piece(d)) return dnn_check_piece(d);
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return check_tensor(d);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return check_plan(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return check_pack(d);
    default: return CUDNN_STATUS_SUCCESS;
    }
}

/* ---- engines ------------------------------------------------------------------------------------ */

int64_t dnn_work_of(int engine) { return engine == DNN_GREEDY ? (int64_t)1 << 45 : engine == DNN_WORKING ? 1000 : 0; }

/* Pieces alone, with the two products of attention or more. */
static bool is_attention(const dnn *graph)
{
    int products = 0;
    for (int i = 0; op_of(graph, i); i++) {
        if (!dnn_is_piece(op_of(graph, i))) return false;
        products += op_of(graph, i)->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
    }
    return products >= 2;
}

/* Whether attention's operands are f32: cuDNN 9.19 has engines then that round them to tf32, and none for the gradient, which
 * has three products more. */
static bool is_f32_attention(const dnn *graph, bool *gradient)
{
    int products = 0;
    bool f32 = false;
    for (int i = 0; op_of(graph, i); i++) {
        const dnn *op = op_of(graph, i);
        if (op->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
        if (!products++)
            f32 = dnn_tensor_of(dnn_to(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC)).type == dnn_cuda_type(CUDNN_DATA_FLOAT);
    }
    *gradient = products > 2;
    return f32;
}

static int64_t pointwise_of(const dnn *op)
{
    if (!op || op->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return -1;
    return dnn_number(dnn_to(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), CUDNN_ATTR_POINTWISE_MODE, 0);
}

/* What cuDNN 9.19 plans beside a norm, as tried with the real one: norm [+ z] then ReLU or Swish, or ReLU and its bits; (dy [+ dz])
 * times (y > 0) or bits, then the gradient (with dz it does not run: dnn_run.c).  A sum alone behind a norm, or the gradient of ReLU as one operation, it refuses. */
static bool is_norm_with_functions(const dnn *graph)
{
    int i = 0;
    if (op_of(graph, 0)->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR) {
        i = pointwise_of(op_of(graph, 1)) == CUDNN_POINTWISE_ADD ? 2 : 1;
        int64_t last = pointwise_of(op_of(graph, i));
        bool bits = last == CUDNN_POINTWISE_RELU_FWD && pointwise_of(op_of(graph, i + 1)) == CUDNN_POINTWISE_CMP_GT;
        return (last == CUDNN_POINTWISE_RELU_FWD || last == CUDNN_POINTWISE_SWISH_FWD) && !op_of(graph, i + 1 + bits);
    }
    if (pointwise_of(op_of(graph, i)) == CUDNN_POINTWISE_ADD) i++;
    if (pointwise_of(op_of(graph, i)) == CUDNN_POINTWISE_CMP_GT) i++; /* else bits are read */
    if (pointwise_of(op_of(graph, i++)) != CUDNN_POINTWISE_MUL) return false;
    const dnn *norm = op_of(graph, i);
    return norm && norm->type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR && !op_of(graph, i + 1);
}

/* Behind y or dx of a convolution, as tried with the real one: sums, ReLU, Swish, a selection by a comparison, in any order. */
static bool is_convolution_with_functions(const dnn *graph)
{
    if (!is_convolution(op_of(graph, 0)) || !op_of(graph, 1)) return false;
    if (op_of(graph, 0)->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) return false;
    for (int i = 1; op_of(graph, i); i++) {
        int64_t f = pointwise_of(op_of(graph, i));
        if (f == CUDNN_POINTWISE_CMP_GT) f = pointwise_of(op_of(graph, ++i)) == CUDNN_POINTWISE_BINARY_SELECT ? f : -1;
        else if (f != CUDNN_POINTWISE_ADD && f != CUDNN_POINTWISE_RELU_FWD && f != CUDNN_POINTWISE_SWISH_FWD) f = -1;
        if (f < 0) return false;
    }
    return true;
}

/* cuDNN 9.19 makes a plan for the gradient of a norm behind dy + dz, which then fails: seen on an H100.  With
 * ONNXTRAIN_EMULATOR_CUDNN=unrunnable no plan of one engine runs. */
bool dnn_runs(const dnn *graph, int engine)
{
    const char *how = getenv("ONNXTRAIN_EMULATOR_CUDNN");
    if (how && !strcmp(how, "unrunnable") && engine == DNN_WORKING) return false;
    return pointwise_of(op_of(graph, 0)) != CUDNN_POINTWISE_ADD || !is_norm_with_functions(graph);
}

/* Attention, a convolution or a norm, with functions beside it. */
static bool supported(const dnn *graph)
{
    bool gradient;
    if (is_attention(graph)) return !is_f32_attention(graph, &gradient) || !gradient;
    const dnn *first = op_of(graph, 0), *second = op_of(graph, 1);
    if (second) return is_norm_with_functions(graph) || is_convolution_with_functions(graph);
    return is_convolution(first) || is_norm(first);
}

static const int best_first[] = { DNN_RANDOM, DNN_HALF,  DNN_TF32,   DNN_GREEDY,   DNN_FICKLE, DNN_WORKING,
                                  DNN_PLAIN,  DNN_WRONG, DNN_BEYOND, DNN_WINOGRAD, DNN_SLOW };

/* Does an operation read or write bits in memory? */
static bool has_bits(const dnn *graph)
{
    for (int i = 0; op_of(graph, i); i++)
        for (int k = 0; k < op_of(graph, i)->n; k++) {
            const dnn_value *v = &op_of(graph, i)->value[k];
            const dnn *t = v->type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? *(dnn *const *)v->list : NULL;
            if (!t || t->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
            dnn_tensor d = dnn_tensor_of(t);
            if (d.type == dnn_cuda_type(CUDNN_DATA_BOOLEAN) && !d.is_virtual) return true;
        }
    return false;
}

/* ONNXTRAIN_EMULATOR_CUDNN is what this device lacks: "none" everything, "functions" those beside norms and convolutions but a bias, "bits" in memory; or
 * "faulty": it has engines whose results are a thousandth off, or that write beyond them.  cuDNN 9.19 has such on an H100: for
 * a strict f32 dW one that rounds to tf32, for a dX one that writes around it. */
static bool lacks(const dnn *graph)
{
    const char *what = getenv("ONNXTRAIN_EMULATOR_CUDNN");
    if (!what) return false;
    if (!strcmp(what, "functions") && op_of(graph, 1))
        return is_norm_with_functions(graph) ||
               (is_convolution_with_functions(graph) &&
                (op_of(graph, 2) || pointwise_of(op_of(graph, 1)) != CUDNN_POINTWISE_ADD));
    return !strcmp(what, "none") || (!strcmp(what, "bits") && has_bits(graph));
}

static bool offered(const dnn *graph, int64_t mode, int engine)
{
    const char *how = getenv("ONNXTRAIN_EMULATOR_CUDNN");
    if (lacks(graph) || !supported(graph)) return false;
    if (engine == DNN_WRONG || engine == DNN_BEYOND)
        return how && !strcmp(how, "faulty") && mode == CUDNN_HEUR_MODE_A && is_convolution(op_of(graph, 0));
    if (mode != CUDNN_HEUR_MODE_A) return engine == DNN_SLOW;
    if (engine == DNN_HALF || engine == DNN_TF32) return is_convolution(op_of(graph, 0)) || is_attention(graph);
    bool gradient;
    if (is_attention(graph) && is_f32_attention(graph, &gradient)) return false;
    if (engine == DNN_WINOGRAD) return is_convolution(op_of(graph, 0));
    return engine != DNN_SLOW;
}

static bool make_config(const dnn *graph, int64_t number, dnn *config)
{
    dnn *engine = dnn_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!engine) return false;
    bool ok = dnn_put(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph) &&
              dnn_put(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number) &&
              dnn_put(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    engine->final = config->final = ok;
    dnn_drop(engine);
    return ok;
}

static cudnnStatus_t give_configs(const dnn *heur, int64_t room, int64_t *n, dnn **list)
{
    const dnn *graph = dnn_to(heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    *n = 0;
    for (size_t i = 0; i < sizeof best_first / sizeof *best_first; i++) {
        int e = best_first[i];
        if (!offered(graph, dnn_number(heur, CUDNN_ATTR_ENGINEHEUR_MODE, 0), e)) continue;
        if (list && *n < room && !make_config(graph, e, list[*n]))
            return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
        if (!list || *n < room) ++*n;
    }
    return CUDNN_STATUS_SUCCESS;
}

static int notes_of(const dnn *engine, int *note)
{
    switch (dnn_number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0)) {
    case DNN_RANDOM: {
        note[0] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        return 1;
    }
    case DNN_WINOGRAD: {
        note[0] = CUDNN_NUMERICAL_NOTE_WINOGRAD;
        return 1;
    }
    case DNN_TF32: {
        note[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        return 1;
    }
    case DNN_HALF:
        note[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        note[1] = CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
        return 2;
    default: return 0;
    }
}

const dnn *dnn_graph_of(const dnn *plan, int *engine)
{
    const dnn *e = dnn_to(dnn_to(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), CUDNN_ATTR_ENGINECFG_ENGINE);
    *engine = (int)dnn_number(e, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
    return dnn_to(e, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}

/* ---- questions ------------------------------------------------------------------------------------ */

static cudnnStatus_t give(const void *from, size_t bytes, int64_t count, int64_t *n, void *list)
{
    if (list) memcpy(list, from, bytes);
    *n = count;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_text(const dnn *plan, int64_t room, int64_t *n, char *list)
{
    char *text = dnn_write(dnn_to(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
    if (!text) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    *n = (int64_t)strlen(text) + 1;
    bool fits = !list || room >= *n;
    if (list && fits) memcpy(list, text, (size_t)*n);
    free(text);
    return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
}

cudnnStatus_t dnn_ask(dnn *d, int name, int type, int64_t room, int64_t *n, void *list)
{
    int engine, note[4], count;
    int64_t work;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: return give_configs(d, room, n, list);
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
        const dnn *from = dnn_to(d, CUDNN_ATTR_ENGINECFG_ENGINE);
        dnn *to = *(dnn **)list;
        int64_t number = dnn_number(from, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
        const dnn *graph = dnn_to(from, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
        *n = 1;
        to->final = dnn_put(to, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph) &&
                    dnn_put(to, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
        return to->final ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: work = dnn_number(d, name, 0); return give(&work, sizeof work, 1, n, list);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        count = notes_of(d, note);
        if (type != CUDNN_TYPE_NUMERICAL_NOTE || count > room) return CUDNN_STATUS_BAD_PARAM;
        return give(note, (size_t)count * sizeof *note, count, n, list);
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
        work = dnn_work_of((int)dnn_number(dnn_to(d, CUDNN_ATTR_ENGINECFG_ENGINE), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0));
        return give(&work, sizeof work, 1, n, list);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        dnn_graph_of(d, &engine);
        work = dnn_work_of(engine);
        return give(&work, sizeof work, 1, n, list);
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: return give_text(d, room, n, list);
    default: return CUDNN_STATUS_NOT_SUPPORTED;
    }
}
