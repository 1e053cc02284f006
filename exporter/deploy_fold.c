/* deploy_fold.c - folds BatchNormalization in inference mode into the layer before it.
 *
 * With a = scale / sqrt(var + epsilon) and s = bias - mean * a, per channel: a * (W x + b) + s = (a W) x + (a b + s).
 * Only where this does not change the function: nothing but the normalisation reads the layer's result, and all
 * tensors of both are constant.
 *
 * Numerics  Computed in double, rounded once to the weight's type.
 * Spec      Conv, ConvTranspose, Gemm; MatMul whose result has rank 2: the normalisation becomes an Add. */
#include "exporter/body.h"

#include <math.h>

typedef struct norm {
    ot_body *b;
    ot_item *item, *layer;
    ot_name *x, *y; /* of the normalisation */
    int64_t channels;
    double *a, *s;        /* by channel */
    ot_blob w, bias;      /* of the layer; bias.data NULL: it has none */
    int64_t inner, group; /* of w: elements behind the channel axis; groups of ConvTranspose */
    bool transposed;      /* w has the channel in axis 1 */
    const char *why;      /* it cannot be folded; NULL: it can */
} norm;

/* ---- reading ---------------------------------------------------------------------------- */

static const char not_per_channel[] = "its scale, bias, mean and variance do not have one element per channel";
static const char out_of_range[] = "the folded weight or bias would be out of range for its element type";

/* One of the four vectors. */
static ot_status vector(norm *n, size_t at, ot_blob *out)
{
    ot_status s;
    *out = (ot_blob){ 0 };
    if (!ot_body_known(n->b, ot_item_in(n->b, n->item, at), out, &s)) {
        n->why = "its scale, bias, mean or variance is not a constant";
        return s;
    }
    if (out->shape.rank != 1 || !ot_is_float(out->dtype)) n->why = not_per_channel;
    return OT_OK;
}

static ot_status factors_read(norm *n)
{
    ot_blob v[4];
    for (size_t k = 0; k < 4 && !n->why; k++) OT_TRY(vector(n, k + 1, &v[k]));
    if (n->why) return OT_OK;
    n->channels = v[0].shape.dim[0];
    for (int k = 1; k < 4; k++)
        if (v[k].shape.dim[0] != n->channels) n->why = not_per_channel;
    if (!n->why && !ot_attr_int(n->item->n, "spatial", 1)) n->why = not_per_channel;
    n->a = ot_body_alloc(n->b, (size_t)n->channels * sizeof *n->a);
    n->s = ot_body_alloc(n->b, (size_t)n->channels * sizeof *n->s);
    double epsilon = ot_attr_float(n->item->n, "epsilon", (double)1e-5f);
    for (int64_t c = 0; c < n->channels && n->a && n->s && !n->why; c++) {
        double scale = ot_get_f64(v[0].data, v[0].dtype, c), bias = ot_get_f64(v[1].data, v[1].dtype, c);
        double mean = ot_get_f64(v[2].data, v[2].dtype, c), var = ot_get_f64(v[3].data, v[3].dtype, c);
        n->a[c] = scale / sqrt(var + epsilon);
        n->s[c] = bias - mean * n->a[c];
        if (!isfinite(n->a[c]) || !isfinite(n->s[c]))
            n->why = "its scale, bias, mean or variance is not finite, or the variance is negative";
    }
    return n->b->no_memory ? ot_fail(n->b->err, OT_E_NOMEM, "export: no memory to fold") : OT_OK;
}

static bool float_weight(ot_dtype t) { return t == OT_F32 || t == OT_F64 || t == OT_F16 || t == OT_BF16; }

/* Where w has its channels. */
static void axes_find(norm *n)
{
    const Onnx__NodeProto *l = n->layer->n;
    const ot_shape *s = &n->w.shape;
    bool gemm = !strcmp(l->op_type, "Gemm"), matmul = !strcmp(l->op_type, "MatMul");
    n->group = 1;
    n->inner = 1;
    n->transposed = matmul || (gemm && !ot_attr_int(l, "transB", 0)) || !strcmp(l->op_type, "ConvTranspose");
    if (!strcmp(l->op_type, "ConvTranspose")) n->group = ot_attr_int(l, "group", 1);
    bool fits = float_weight(n->w.dtype) && (gemm || matmul ? s->rank == 2 : s->rank > 2) && n->group > 0;
    if (fits && n->transposed) fits = s->dim[1] * n->group == n->channels && s->dim[0] % n->group == 0;
    else if (fits) fits = s->dim[0] == n->channels;
    for (int k = n->transposed ? 2 : 1; fits && k < s->rank; k++) n->inner *= s->dim[k];
    if (!fits) n->why = "the weight of the layer before it does not have one row or filter per channel";
}

static int64_t channel_of(const norm *n, int64_t i)
{
    int64_t row = i / n->inner;
    if (!n->transposed) return row;
    int64_t columns = n->channels / n->group, in = row / columns;
    return in / (n->w.shape.dim[0] / n->group) * columns + row % columns;
}

/* The bias must be one number per channel, or one for all. */
static ot_status bias_read(norm *n)
{
    const ot_name *v = ot_item_in(n->b, n->layer, 2);
    n->bias = (ot_blob){ 0 };
    if (!v) return OT_OK;
    ot_status known;
    if (!ot_body_known(n->b, v, &n->bias, &known)) {
        n->why = "the bias of the layer before it is not a constant";
        return known;
    }
    const ot_shape *s = &n->bias.shape;
    int64_t count = ot_numel(s), last = s->rank ? s->dim[s->rank - 1] : 1;
    if (!float_weight(n->bias.dtype) || !(count == 1 || (count == n->channels && last == count)) ||
        (n->b->version < 7 && s->rank != 1))
        n->why = "the bias of the layer before it does not have one element per channel";
    return OT_OK;
}

static ot_status layer_find(norm *n)
{
    static const char *const layers[] = { "Conv", "ConvTranspose", "Gemm", "MatMul" };
    n->x = ot_item_in(n->b, n->item, 0);
    n->y = ot_item_out(n->b, n->item, 0);
    n->layer = n->x && n->x->makers == 1 ? n->x->maker : NULL;
    bool known = false;
    for (int k = 0; n->layer && k < OT_LEN(layers); k++) known |= ot_item_is(n->layer, layers[k]);
    if (!known || !n->y || n->layer->frame != n->item->frame) {
        n->why = "its input is not the output of a Conv, ConvTranspose, Gemm or MatMul";
        return OT_OK;
    }
    if (n->x->n_use != 1 || n->x->output) {
        n->why = "the output of the layer before it has other uses";
        return OT_OK;
    }
    bool matmul = ot_item_is(n->layer, "MatMul");
    const ot_value *x = ot_body_value(n->b, n->x);
    if (matmul && (n->b->version < 7 || !x || x->shape.rank != 2)) {
        n->why = "the output of the MatMul before it does not have rank 2, or the opset is older than 7";
        return OT_OK;
    }
    ot_status s;
    if (!ot_body_known(n->b, ot_item_in(n->b, n->layer, 1), &n->w, &s)) {
        n->why = "the weight of the layer before it is not a constant";
        return s;
    }
    axes_find(n);
    return n->why || matmul ? OT_OK : bias_read(n);
}

/* ---- folding ------------------------------------------------------------------------------- */

static void *weight_make(norm *n)
{
    int64_t count = ot_numel(&n->w.shape);
    void *p = ot_body_alloc(n->b, ot_bytes(&n->w.shape, n->w.dtype));
    for (int64_t i = 0; p && i < count; i++) {
        double was = ot_get_f64(n->w.data, n->w.dtype, i);
        ot_set_f64(p, n->w.dtype, i, was * n->a[channel_of(n, i)]);
        if (isfinite(was) && !isfinite(ot_get_f64(p, n->w.dtype, i))) n->why = out_of_range;
    }
    return p;
}

static void *bias_make(norm *n, ot_dtype dtype)
{
    const ot_shape s = { .rank = 1, .dim = { n->channels } };
    bool one = n->bias.data && ot_numel(&n->bias.shape) == 1;
    double beta = ot_item_is(n->layer, "Gemm") ? ot_attr_float(n->layer->n, "beta", 1) : 1;
    void *p = ot_body_alloc(n->b, ot_bytes(&s, dtype));
    for (int64_t c = 0; p && c < n->channels; c++) {
        double was = n->bias.data ? beta * ot_get_f64(n->bias.data, n->bias.dtype, one ? 0 : c) : 0;
        ot_set_f64(p, dtype, c, was * n->a[c] + n->s[c]);
        if (!isfinite(ot_get_f64(p, dtype, c))) n->why = out_of_range;
    }
    return p;
}

/* The tensor of an input gets new bytes; one that others read too stays, and a new one takes its place. */
static void put(norm *n, size_t at, const char *stem, ot_dtype dtype, const ot_shape *s, void *bytes)
{
    bool own;
    Onnx__TensorProto *t = ot_body_constant(n->b, ot_item_in(n->b, n->layer, at), &own);
    own &= t && t->n_dims == (size_t)s->rank;
    for (int k = 0; own && k < s->rank; k++) own = t->dims[k] == s->dim[k];
    if (own) ot_body_payload(n->b, t, dtype, s, bytes);
    else ot_item_set_in(n->b, n->layer, at, ot_body_initializer(n->b, stem, dtype, s, bytes));
}

static ot_status fold_one(norm *n)
{
    ot_body *b = n->b;
    const ot_shape vector = { .rank = 1, .dim = { n->channels } };
    ot_dtype dtype = n->bias.data ? n->bias.dtype : n->w.dtype;
    void *w = weight_make(n), *bias = bias_make(n, dtype);
    const char *stem = ot_arena_printf(b->arena, "%s_folded", ot_item_in(b, n->layer, 1)->text);
    const char *bias_stem = ot_arena_printf(b->arena, "%s_bias", ot_item_in(b, n->layer, 1)->text);
    if (!w || !bias || !stem || !bias_stem) return ot_fail(b->err, OT_E_NOMEM, "export: no memory to fold");
    if (n->why) return OT_OK;
    put(n, 1, stem, n->w.dtype, &n->w.shape, w);
    if (ot_item_is(n->layer, "MatMul")) {
        n->item->n->op_type = ot_message_text("Add");
        n->item->n->n_attribute = 0;
        ot_item_cut_in(b, n->item, 1);
        ot_item_set_in(b, n->item, 1, ot_body_initializer(b, bias_stem, dtype, &vector, bias));
    } else {
        put(n, 2, bias_stem, dtype, &vector, bias);
        ot_attr_drop(n->layer->n, "beta");
        if (b->version < 7 && ot_item_is(n->layer, "Gemm")) ot_attr_set_int(b, n->layer->n, "broadcast", 1);
        ot_item_kill(b, n->item);
        ot_item_set_out(b, n->layer, 0, n->y);
    }
    return b->no_memory ? ot_fail(b->err, OT_E_NOMEM, "export: no memory to fold") : OT_OK;
}

/* ---- all of them --------------------------------------------------------------------------- */

typedef struct reason {
    const char *why, *first;
    int n;
} reason;

static void count(reason *list, const char *why, const ot_item *i)
{
    while (list->why && strcmp(list->why, why) != 0) list++;
    if (!list->n++) *list = (reason){ why, i->n->name && *i->n->name ? i->n->name : ot_text(i->n->output[0]), 1 };
}

ot_status ot_deploy_fold(ot_body *b)
{
    reason left[16] = { { 0 } }; /* more than there are reasons */
    int folded = 0;
    for (ot_frame *f = b->frames; f; f = f->next)
        for (ot_item *i = f->first; i; i = i->next) {
            if (!ot_item_is(i, "BatchNormalization") || i->n->n_output != 1 || ot_attr_int(i->n, "training_mode", 0))
                continue;
            norm n = { .b = b, .item = i };
            OT_TRY(factors_read(&n));
            if (!n.why) OT_TRY(layer_find(&n));
            if (!n.why) OT_TRY(fold_one(&n));
            if (n.why) count(left, n.why, i);
            else folded++;
        }
    if (folded || !left->why) ot_body_say(b, "%d BatchNormalization folded into the layer before", folded);
    for (const reason *r = left; r->why; r++)
        ot_body_say(b, "%d BatchNormalization not folded, but set to inference mode ('%.200s'%s): %s", r->n, r->first,
                    r->n > 1 ? ", …" : "", r->why);
    return OT_OK;
}
