/* upgrade.c - rewrites nodes of older opsets into the newest, the only one that ops/ implements.
 *
 * A row means: this function rewrites nodes of this operator in an opset below `before`.
 * The rows of an operator are in the order of its history, and all rows that apply run in turn.  A row
 * may rename the operator; then the rows of the new name below it apply.
 *
 * Shapes are not known here.  Where the old form depends on the rank of an input, the rewrite
 * computes it in the graph (Shape, Concat), and constant folding removes these nodes.
 *
 * To add one: write the change as a function of the form with the functions of form.c, and add its row.
 * Spec    ONNX Changelog.md; retired operators as they were in opset 1. */
#include <limits.h>
#include <strings.h>

#include "importer/build.h"

enum { EVER = INT_MAX };

#define IN(...) (ot_value *[]){ __VA_ARGS__ }, (int)(sizeof((ot_value *[]){ __VA_ARGS__ }) / sizeof(ot_value *))

/* ---- words ------------------------------------------------------------------------------ */

/* An attribute of integers becomes input i; an empty list means the same as none. */
static ot_status ints_to_input(ot_form *f, const char *name, int i)
{
    const ot_attribute *a = ot_form_get(f, name);
    if (!a) return OT_OK;
    ot_form_drop(f, name);
    return a->n_ints ? ot_form_set_input(f, i, ot_form_ints(f, a->ints, a->n_ints)) : OT_OK;
}

/* A float attribute becomes scalar input i of the type of input 0. */
static ot_status float_to_input(ot_form *f, const char *name, int i)
{
    const ot_attribute *a = ot_form_get(f, name);
    if (!a) return OT_OK;
    ot_form_drop(f, name);
    return ot_form_set_input(f, i, ot_form_const(f, ot_hint(f->n_in ? f->in[0] : NULL), 0, 1, &(double){ a->f }));
}

static ot_value *shape_of(ot_form *f, ot_value *x) { return ot_form_before(f, "Shape", IN(x)); }

/* n ones as a list, n being a list of one number. */
static ot_value *ones(ot_form *f, ot_value *n)
{
    ot_value *one = ot_form_ints(f, &(int64_t){ 1 }, 1);
    return ot_form_before(f, "Expand", IN(one, n));
}

/* The rank of x minus `less`, as a list of one number. */
static ot_value *rank_less(ot_form *f, ot_value *x, int64_t less)
{
    if (x->shape.rank >= 0) return ot_form_ints(f, &(int64_t){ x->shape.rank - less }, 1);
    ot_value *rank = shape_of(f, shape_of(f, x));
    return less ? ot_form_before(f, "Sub", IN(rank, ot_form_ints(f, &less, 1))) : rank;
}

/* b, whose first axis is axis `axis` of a: ones after it until both end together. */
static ot_value *align(ot_form *f, ot_value *b, ot_value *a, int64_t axis)
{
    ot_value *missing;
    if (a->shape.rank >= 0 && b->shape.rank >= 0) {
        int64_t n = a->shape.rank - axis - b->shape.rank;
        if (n <= 0) return b;
        missing = ot_form_ints(f, &n, 1);
    } else {
        missing = ot_form_before(f, "Sub", IN(rank_less(f, a, axis), rank_less(f, b, 0)));
    }
    ot_value *shape = ot_form_before_int(f, "Concat", IN(shape_of(f, b), ones(f, missing)), "axis", 0);
    return ot_form_before(f, "Reshape", IN(b, shape));
}

/* The operator is replaced by v altogether. */
static ot_status becomes(ot_form *f, ot_value *v)
{
    f->out[0] = v;
    f->done = true;
    return ot_status_of(v);
}

/* ---- element-wise -------------------------------------------------------------------------- */

static ot_status no_consumed(ot_form *f)
{
    ot_form_drop(f, "consumed_inputs");
    return OT_OK;
}

static ot_status legacy_broadcast(ot_form *f)
{
    bool on = ot_form_int(f, "broadcast", 0) != 0;
    int64_t axis = ot_form_int(f, "axis", -1);
    ot_form_drop(f, "broadcast");
    ot_form_drop(f, "axis");
    if (!on || axis < 0 || f->n_in < 2 || !f->in[0] || !f->in[1]) return OT_OK;
    if (axis >= OT_MAX_RANK) return ot_form_finding(f, "invalid axis %lld", (long long)axis);
    return ot_form_set_input(f, 1, align(f, f->in[1], f->in[0], axis));
}

static ot_status prelu_6(ot_form *f)
{
    if (f->n_in < 2 || !f->in[0] || !f->in[1] || f->in[1]->shape.rank == 0) return OT_OK;
    return ot_form_set_input(f, 1, align(f, f->in[1], f->in[0], 1)); /* one slope per channel */
}

static ot_status clip_6(ot_form *f)
{
    OT_TRY(float_to_input(f, "min", 1));
    return float_to_input(f, "max", 2);
}

static ot_status cast_1(ot_form *f)
{
    const ot_attribute *a = ot_form_get(f, "to");
    if (!a || a->has_i) return OT_OK;
    const ProtobufCEnumDescriptor *types = &onnx__tensor_proto__data_type__descriptor;
    for (unsigned i = 0; i < types->n_values; i++) {
        const char *name = types->values_by_name[i].name;
        if (strlen(name) == a->s.len && !strncasecmp(name, (const char *)a->s.data, a->s.len))
            return ot_form_set_int(f, "to", types->values[types->values_by_name[i].index].value);
    }
    return ot_form_finding(f, "to is not a valid element type");
}

static ot_status selu_1(ot_form *f)
{
    /* Version 1 had the constants in fewer digits. */
    if (!ot_form_get(f, "alpha")) OT_TRY(ot_form_set_float(f, "alpha", 1.6732f));
    return ot_form_get(f, "gamma") ? OT_OK : ot_form_set_float(f, "gamma", 1.0507f);
}

static ot_status dropout_10(ot_form *f)
{
    bool training = f->version < 7 && !ot_form_int(f, "is_test", 0);
    double ratio = ot_form_float(f, "ratio", 0.5);
    ot_form_drop(f, "is_test");
    ot_form_drop(f, "ratio");
    OT_TRY(ot_form_set_input(f, 1, ot_form_const(f, OT_F32, 0, 1, &ratio)));
    if (training) OT_TRY(ot_form_set_input(f, 2, ot_form_const(f, OT_BOOL, 0, 1, &(double){ 1 })));
    if (f->version >= 10 || f->n_out < 2 || !f->n_in || !f->in[0]) return OT_OK;
    /* Below 10 the mask has the type of the data. */
    OT_TRY(ot_form_emit(f));
    f->done = true;
    if (f->out[1]) f->out[1] = ot_form_before_int(f, "Cast", IN(f->out[1]), "to", ot_hint(f->in[0]));
    return *f->out_name[1] ? ot_status_of(f->out[1]) : OT_OK;
}

/* ---- movement ------------------------------------------------------------------------------- */

static ot_status reshape_1(ot_form *f) { return ints_to_input(f, "shape", 1); }
static ot_status squeeze_11(ot_form *f) { return ints_to_input(f, "axes", 1); }
static ot_status reduce_13(ot_form *f) { return ints_to_input(f, "axes", 1); }

static ot_status slice_1(ot_form *f)
{
    OT_TRY(ints_to_input(f, "starts", 1));
    OT_TRY(ints_to_input(f, "ends", 2));
    return ints_to_input(f, "axes", 3);
}

static ot_status split_11(ot_form *f) { return ints_to_input(f, "split", 1); }

static ot_status split_13(ot_form *f)
{
    bool sizes = f->n_in > 1 && f->in[1];
    return sizes ? OT_OK : ot_form_set_int(f, "num_outputs", f->n_listed);
}

static ot_status concat_1(ot_form *f) { return ot_form_get(f, "axis") ? OT_OK : ot_form_set_int(f, "axis", 1); }

static ot_status pad_2(ot_form *f)
{
    OT_TRY(ints_to_input(f, "paddings", 1));
    OT_TRY(ints_to_input(f, "pads", 1));
    return float_to_input(f, "value", 2);
}

/* Tile-1 repeats along one axis: tiles and axis are scalars or lists of one. */
static ot_status tile_1(ot_form *f)
{
    if (f->n_in < 3) return OT_OK;
    if (!ot_is_const(f->in[2]) || ot_numel(&f->in[2]->shape) != 1 ||
        !(fabs(ot_get_f64(f->in[2]->data, f->in[2]->dtype, 0)) < OT_MAX_RANK))
        return ot_form_finding(f, "below opset %lld the axis must be a single constant", (long long)f->version);
    int64_t axis = (int64_t)ot_get_f64(f->in[2]->data, f->in[2]->dtype, 0);
    if (axis < 0 || axis >= OT_MAX_RANK || !f->in[0]) return ot_form_finding(f, "invalid axis %lld", (long long)axis);
    ot_value *tiles = ot_form_before(f, "Reshape", IN(f->in[1], ot_form_ints(f, &(int64_t){ 1 }, 1)));
    tiles = ot_form_before_int(f, "Cast", IN(tiles), "to", OT_I64);
    ot_value *before = ones(f, ot_form_ints(f, &axis, 1)), *after = ones(f, rank_less(f, f->in[0], axis + 1));
    f->n_in = 2;
    return ot_form_set_input(f, 1, ot_form_before_int(f, "Concat", IN(before, tiles, after), "axis", 0));
}

static ot_status topk_1(ot_form *f)
{
    int64_t k = ot_form_int(f, "k", 0);
    ot_form_drop(f, "k");
    return ot_form_set_input(f, 1, ot_form_ints(f, &k, 1));
}

static ot_status scatter(ot_form *f)
{
    f->op = "ScatterElements";
    return OT_OK;
}

/* ---- softmax ---------------------------------------------------------------------------------- */

/* Below 13 the axes from `axis` on are one.  An operator that has the attribute `flatten` does that
 * itself (so that a loss can be joined with it); others are put between Flatten and Reshape. */
static ot_status softmax_11(ot_form *f)
{
    int64_t axis = ot_form_int(f, "axis", 1);
    OT_TRY(ot_form_set_int(f, "axis", axis));
    if (f->n_in < 1 || !f->in[0]) return OT_OK;
    int rank = f->in[0]->shape.rank;
    if (axis == -1 || (rank > 0 && axis == rank - 1)) return OT_OK;
    const ot_op *op = ot_find_op("", f->op);
    const ot_attr *row = op ? op->attrs : NULL;
    while (row && row->name && strcmp(row->name, "flatten")) row++;
    if (!op) return OT_OK;
    if (row && row->name) return ot_form_set_int(f, "flatten", 1);
    ot_value *x = f->in[0], *flat = ot_form_before_int(f, "Flatten", IN(x), "axis", axis);
    ot_value *y = ot_form_before_int(f, f->op, IN(flat), "axis", -1);
    return becomes(f, ot_form_before(f, "Reshape", IN(y, shape_of(f, x))));
}

/* ---- normalisation ------------------------------------------------------------------------------ */

/* spatial=0: statistics for every element of (C, D1, ...), which are the channels of a sample in one row.  With scales of rank 1
 * the attribute is a known mistake of exporters, and the statistics are per channel. */
static ot_status per_element_norm(ot_form *f, bool training)
{
    ot_form g;
    int64_t row[] = { -1 };
    ot_value *in[5] = { ot_form_before_int(f, "Flatten", f->in, 1, "axis", 1) };
    for (int i = 1; i < 5; i++) in[i] = ot_form_before(f, "Reshape", IN(f->in[i], ot_form_ints(f, row, 1)));
    for (int i = 0; i < 5; i++) OT_TRY(ot_status_of(in[i]));
    OT_TRY(ot_form_begin(f, &g, f->op, in, 5, training ? f->n_out : 1));
    OT_TRY(ot_form_set_float(&g, "epsilon", (float)ot_form_float(f, "epsilon", 1e-5)));
    OT_TRY(ot_form_set_float(&g, "momentum", (float)ot_form_float(f, "momentum", 0.9)));
    if (training) OT_TRY(ot_form_set_int(&g, "training_mode", 1));
    OT_TRY(ot_status_of(ot_form_finish(&g)));
    for (int i = 0; i < g.n_out; i++) {
        ot_value *like = f->in[i ? i + 2 : 0], *shape = shape_of(f, like);
        OT_TRY(ot_status_of(shape));
        f->out[i] = ot_form_before(f, "Reshape", IN(g.out[i], shape));
        OT_TRY(ot_status_of(f->out[i]));
    }
    f->done = true;
    return OT_OK;
}

/* Mode: up to 6 by is_test and the number of outputs, from 7 to 13 by the number of outputs alone. */
static ot_status batchnorm_9(ot_form *f)
{
    bool tested = f->version < 7 && ot_form_int(f, "is_test", 0) != 0;
    bool training = !tested && f->n_out > 1, spatial = ot_form_int(f, "spatial", 1) != 0;
    ot_form_drop(f, "is_test");
    ot_form_drop(f, "spatial");
    if (!training) f->n_out = f->n_out > 0;
    else if (f->n_out > 3) f->n_out = 3; /* newer opsets have no saved statistics */
    bool full = f->n_in == 5 && f->in[0] && f->in[1] && f->in[2] && f->in[3] && f->in[4];
    if (!spatial && full && f->in[1]->shape.rank != 1) return per_element_norm(f, training);
    return training ? ot_form_set_int(f, "training_mode", 1) : OT_OK;
}

/* Below opset 9 across_channels selects the axes, and normalize_variance=0 subtracts the mean only. */
static ot_status meanvariance_1(ot_form *f)
{
    int64_t all[] = { 0, 1, 2, 3 }, each[] = { 0, 2, 3 };
    bool across = ot_form_int(f, "across_channels", 0) != 0, divides = ot_form_int(f, "normalize_variance", 1) != 0;
    const int64_t *axes = across ? all : each;
    size_t n = across ? 4 : 3;
    ot_form_drop(f, "across_channels");
    ot_form_drop(f, "normalize_variance");
    if (divides || !f->n_in || !f->in[0]) return ot_form_set_ints(f, "axes", axes, n);
    ot_value *mean = ot_form_before(f, "ReduceMean", IN(f->in[0], ot_form_ints(f, axes, n)));
    OT_TRY(ot_status_of(mean));
    return becomes(f, ot_form_before(f, "Sub", IN(f->in[0], mean)));
}

/* Below 21 scale and bias are per group: every one is repeated for the channels of its group. */
static ot_status groupnorm_18(ot_form *f)
{
    int64_t groups = ot_form_int(f, "num_groups", 0);
    if (f->n_in < 3 || !f->in[0] || !f->in[1] || !f->in[2] || groups < 1) return OT_OK;
    int64_t column[] = { groups, 1 }, flat[] = { -1 }, zero[] = { 0 }, one[] = { 1 }, two[] = { 2 };
    ot_value *axes = ot_form_ints(f, zero, 1);
    ot_value *channels =
        ot_form_before(f, "Slice", IN(shape_of(f, f->in[0]), ot_form_ints(f, one, 1), ot_form_ints(f, two, 1), axes));
    ot_value *g = ot_form_ints(f, &groups, 1), *each = ot_form_before(f, "Div", IN(channels, g));
    ot_value *wide = ot_form_before_int(f, "Concat", IN(g, each), "axis", 0);
    for (int i = 1; i <= 2; i++) {
        ot_value *v = ot_form_before(f, "Reshape", IN(f->in[i], ot_form_ints(f, column, 2)));
        v = ot_form_before(f, "Expand", IN(v, wide));
        OT_TRY(ot_form_set_input(f, i, ot_form_before(f, "Reshape", IN(v, ot_form_ints(f, flat, 1)))));
    }
    return OT_OK;
}

/* ---- pooling, resizing, recurrence ------------------------------------------------------------------ */

static ot_status lppool_1(ot_form *f)
{
    const ot_attribute *a = ot_form_get(f, "p");
    if (!a || !a->has_f) return OT_OK;
    if (!(fabsf(a->f) < 1e6f) || a->f != (float)(int64_t)a->f)
        return ot_form_finding(f, "p is %g, expected an integer", (double)a->f);
    return ot_form_set_int(f, "p", (int64_t)a->f);
}

static ot_status upsample(ot_form *f)
{
    f->op = "Resize";
    if (f->n_in < 1 || !f->in[0]) return OT_OK;
    ot_value *scales = f->n_in > 1 ? f->in[1] : NULL;
    const ot_attribute *a = ot_form_get(f, "scales");
    double v[OT_MAX_RANK] = { 1, 1 };
    int n = 0;
    if (a)
        for (; n < (int)a->n_floats && n < OT_MAX_RANK; n++) v[n] = a->floats[n];
    if (ot_form_get(f, "height_scale")) {
        v[2] = ot_form_float(f, "height_scale", 1);
        v[3] = ot_form_float(f, "width_scale", 1);
        n = 4;
    }
    if (!scales && n) scales = ot_form_const(f, OT_F32, 1, n, v);
    if (!scales) return ot_form_finding(f, "scales are missing");
    for (int64_t i = 0; ot_is_const(scales) && i < ot_numel(&scales->shape); i++) {
        double by = ot_get_f64(scales->data, scales->dtype, i);
        if (!(by >= 1)) return ot_form_finding(f, "the scale %g is less than 1", by);
    }
    static const char *const gone[] = { "scales", "height_scale", "width_scale" };
    for (int i = 0; i < OT_LEN(gone); i++) ot_form_drop(f, gone[i]);
    if (ot_form_says(f, "mode", "bilinear")) OT_TRY(ot_form_set_text(f, "mode", "linear"));
    f->n_in = 1;
    f->version = EVER - 1;
    OT_TRY(ot_form_set_input(f, 2, scales));
    OT_TRY(ot_form_set_text(f, "coordinate_transformation_mode", "asymmetric"));
    return ot_form_set_text(f, "nearest_mode", "floor");
}

/* Resize-10 took the nearest below where it enlarges, above where it shrinks. */
static ot_status resize_10(ot_form *f)
{
    if (f->n_in < 2 || !f->in[1]) return OT_OK;
    ot_value *scales = f->in[1];
    f->n_in = 1;
    OT_TRY(ot_form_set_input(f, 2, scales));
    OT_TRY(ot_form_set_text(f, "coordinate_transformation_mode", "asymmetric"));
    return ot_form_set_text(f, "nearest_mode", "opset_10");
}

/* An empty constant means that the input is missing. */
static ot_status resize_empty(ot_form *f)
{
    for (int i = 1; i < f->n_in; i++)
        if (ot_is_const(f->in[i]) && ot_numel(&f->in[i]->shape) == 0) f->in[i] = NULL;
    while (f->n_in && !f->in[f->n_in - 1]) f->n_in--;
    return OT_OK;
}

/* The reference implementation of the standard, which makes its test cases, takes size * scale for the length of the result, also where
 * that is not whole. */
static ot_status resize_reference(ot_form *f)
{
    const char *by = f->job->graph->made_by;
    bool reference = by && !strcmp(by, "backend-test");
    return reference ? ot_form_set_int(f, "by_product", 1) : OT_OK;
}

/* The attribute is the type of a missing element; an existing element has its own type. */
static ot_status optional_type(ot_form *f)
{
    ot_form_drop(f, "type");
    return OT_OK;
}

static ot_status recurrent_1(ot_form *f)
{
    ot_form_drop(f, "output_sequence");
    return OT_OK;
}

static ot_status gridsample_16(ot_form *f)
{
    if (ot_form_says(f, "mode", "bicubic")) return ot_form_set_text(f, "mode", "cubic");
    if (ot_form_says(f, "mode", "bilinear")) return ot_form_set_text(f, "mode", "linear");
    return OT_OK;
}

static ot_status roialign_10(ot_form *f)
{
    return ot_form_set_text(f, "coordinate_transformation_mode", "output_half_pixel");
}

static ot_status dft_17(ot_form *f)
{
    int64_t axis = ot_form_int(f, "axis", 1);
    ot_form_drop(f, "axis");
    ot_value *v = ot_form_const(f, OT_I64, 0, 1, &(double){ (double)axis });
    return ot_form_set_input(f, 2, v);
}

/* Opset 8 had lengths in front, a batch axis on everything, and one list of directions. */
static ot_status scan_8(ot_form *f)
{
    const ot_attribute *d = ot_form_get(f, "directions");
    if (f->n_in < 1 || f->in[0]) return ot_form_finding(f, "lengths for each sample (opset 8) are not supported");
    for (int i = 1; i < f->n_in; i++) f->in[i - 1] = f->in[i];
    f->n_in--;
    if (d) OT_TRY(ot_form_set_ints(f, "scan_input_directions", d->ints, d->n_ints));
    ot_form_drop(f, "directions");
    return ot_form_set_int(f, "batched", 1);
}

/* ---- retired operators ---------------------------------------------------------------------------------- */

static ot_value *scalar(ot_form *f, double v) { return ot_form_const(f, ot_hint(f->in[0]), 0, 1, &v); }

/* y = alpha x + beta */
static ot_status affine(ot_form *f)
{
    if (!f->n_in || !f->in[0]) return OT_OK;
    ot_value *y = ot_form_before(f, "Mul", IN(f->in[0], scalar(f, ot_form_float(f, "alpha", 1))));
    return becomes(f, ot_form_before(f, "Add", IN(y, scalar(f, ot_form_float(f, "beta", 0)))));
}

/* y = scale x + bias[channel] */
static ot_status image_scaler(ot_form *f)
{
    if (!f->n_in || !f->in[0]) return OT_OK;
    ot_value *y = ot_form_before(f, "Mul", IN(f->in[0], scalar(f, ot_form_float(f, "scale", 1))));
    const ot_attribute *a = ot_form_get(f, "bias");
    if (!a || !a->n_floats) return becomes(f, y);
    double *v = ot_job_alloc(f->job, a->n_floats * sizeof *v);
    if (!v) return OT_E_NOMEM;
    for (size_t i = 0; i < a->n_floats; i++) v[i] = (double)a->floats[i];
    int64_t shape[] = { (int64_t)a->n_floats, 1, 1 };
    ot_value *bias = ot_form_const(f, ot_hint(f->in[0]), 1, shape[0], v);
    bias = ot_form_before(f, "Reshape", IN(bias, ot_form_ints(f, shape, 3)));
    return becomes(f, ot_form_before(f, "Add", IN(y, bias)));
}

/* y = alpha tanh(beta x) */
static ot_status scaled_tanh(ot_form *f)
{
    if (!f->n_in || !f->in[0]) return OT_OK;
    ot_value *x = ot_form_before(f, "Mul", IN(f->in[0], scalar(f, ot_form_float(f, "beta", 1))));
    ot_value *y = ot_form_before(f, "Tanh", IN(x));
    return becomes(f, ot_form_before(f, "Mul", IN(y, scalar(f, ot_form_float(f, "alpha", 1)))));
}

/* y = alpha log(exp(beta x) + 1) */
static ot_status parametric_softplus(ot_form *f)
{
    if (!f->n_in || !f->in[0]) return OT_OK;
    ot_value *x = ot_form_before(f, "Mul", IN(f->in[0], scalar(f, ot_form_float(f, "beta", 1))));
    ot_value *y = ot_form_before(f, "Softplus", IN(x));
    return becomes(f, ot_form_before(f, "Mul", IN(y, scalar(f, ot_form_float(f, "alpha", 1)))));
}

/* Cuts left, top, right, bottom off the last two axes; with `scale` it keeps that size instead. */
static ot_status crop(ot_form *f)
{
    const ot_attribute *border = ot_form_get(f, "border"), *scale = ot_form_get(f, "scale");
    if (!f->n_in || !f->in[0]) return OT_OK;
    if (!border || border->n_ints != 4) return ot_form_finding(f, "border needs 4 values");
    const int64_t *b = border->ints;
    int64_t starts[] = { b[1], b[0] }, ends[] = { -b[3], -b[2] }, axes[] = { 2, 3 };
    if (scale && scale->n_ints == 2)
        for (int i = 0; i < 2; i++)
            if (!ot_add(starts[i], scale->ints[i], &ends[i])) return ot_form_finding(f, "scale is too large");
    for (int i = 0; i < 2; i++)
        if (ends[i] == 0) ends[i] = INT64_MAX;
    return becomes(f, ot_form_before(f, "Slice",
                                     IN(f->in[0], ot_form_ints(f, starts, 2), ot_form_ints(f, ends, 2),
                                        ot_form_ints(f, axes, 2))));
}

/* ---- the table --------------------------------------------------------------------------------------------- */

typedef struct upgrade {
    const char *op; /* NULL: every operator */
    int before;     /* nodes below this opset */
    ot_status (*rewrite)(ot_form *f);
} upgrade;

static const upgrade table[] = {
    { NULL, 6, no_consumed },
    /* element-wise */
    { "Add", 7, legacy_broadcast },
    { "And", 7, legacy_broadcast },
    { "Cast", 6, cast_1 },
    { "Clip", 11, clip_6 },
    { "Div", 7, legacy_broadcast },
    { "Dropout", 12, dropout_10 },
    { "Equal", 7, legacy_broadcast },
    { "Gemm", 7, legacy_broadcast },
    { "Greater", 7, legacy_broadcast },
    { "Less", 7, legacy_broadcast },
    { "Mul", 7, legacy_broadcast },
    { "Or", 7, legacy_broadcast },
    { "PRelu", 7, prelu_6 },
    { "Pow", 7, legacy_broadcast },
    { "Selu", 6, selu_1 },
    { "Sub", 7, legacy_broadcast },
    { "Xor", 7, legacy_broadcast },
    /* movement */
    { "Concat", 4, concat_1 },
    { "Pad", 11, pad_2 },
    { "Reshape", 5, reshape_1 },
    { "Scatter", EVER, scatter },
    { "Slice", 10, slice_1 },
    { "Split", 13, split_11 },
    { "Split", 18, split_13 },
    { "Squeeze", 13, squeeze_11 },
    { "Tile", 6, tile_1 },
    { "TopK", 10, topk_1 },
    { "Unsqueeze", 13, squeeze_11 },
    /* reductions */
    { "ReduceL1", 18, reduce_13 },
    { "ReduceL2", 18, reduce_13 },
    { "ReduceLogSum", 18, reduce_13 },
    { "ReduceLogSumExp", 18, reduce_13 },
    { "ReduceMax", 18, reduce_13 },
    { "ReduceMean", 18, reduce_13 },
    { "ReduceMin", 18, reduce_13 },
    { "ReduceProd", 18, reduce_13 },
    { "ReduceSum", 13, reduce_13 },
    { "ReduceSumSquare", 18, reduce_13 },
    /* softmax, norms */
    { "BatchNormalization", 14, batchnorm_9 },
    { "GroupNormalization", 21, groupnorm_18 },
    { "MeanVarianceNormalization", 9, meanvariance_1 },
    { "SimplifiedLayerNormalization", EVER, ot_simplified_norm },
    { "Hardmax", 13, softmax_11 },
    { "LogSoftmax", 13, softmax_11 },
    { "Softmax", 13, softmax_11 },
    /* pooling, resizing, recurrence, the rest */
    { "DFT", 20, dft_17 },
    { "GRU", 7, recurrent_1 },
    { "GlobalLpPool", 2, lppool_1 },
    { "GridSample", 20, gridsample_16 },
    { "LSTM", 7, recurrent_1 },
    { "LpPool", 2, lppool_1 },
    { "Optional", EVER, optional_type },
    { "QLinearConv", EVER, ot_qlinear_conv },
    { "QLinearMatMul", EVER, ot_qlinear_matmul },
    { "RNN", 7, recurrent_1 },
    { "RoiAlign", 16, roialign_10 },
    { "Scan", 9, scan_8 },
    { "Upsample", EVER, upsample },
    { "Resize", 11, resize_10 },
    { "Resize", EVER, resize_empty },
    { "Resize", EVER, resize_reference },
    /* retired */
    { "Affine", EVER, affine },
    { "Crop", EVER, crop },
    { "ImageScaler", EVER, image_scaler },
    { "ParametricSoftplus", EVER, parametric_softplus },
    { "ScaledTanh", EVER, scaled_tanh },
};

ot_status ot_upgrade(ot_form *f)
{
    if (!strcmp(f->domain, "ai.onnx.ml")) return ot_ml(f);
    if (!strcmp(f->domain, "com.microsoft")) return ot_microsoft(f);
    if (!strcmp(f->domain, "ai.onnx.preview.training")) return ot_preview_training(f);
    if (*f->domain) return OT_OK;
    for (int i = 0; i < OT_LEN(table) && !f->done; i++) {
        const upgrade *u = &table[i];
        if (f->version >= u->before || (u->op && strcmp(u->op, f->op))) continue;
        OT_TRY(u->rewrite(f));
    }
    return OT_OK;
}

const char *ot_upgrade_at(int i)
{
    for (int k = 0; k < OT_LEN(table); k++)
        if (table[k].before == EVER && !ot_find_op("", table[k].op) && i-- == 0) return table[k].op;
    return NULL;
}
