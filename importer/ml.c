/* ml.c - rewrites operators of ai.onnx.ml that are arithmetic into operators of ai.onnx.
 *
 * Spec    ai.onnx.ml Scaler, Binarizer, Normalizer, Imputer, ArrayFeatureExtractor, FeatureVectorizer, OneHotEncoder,
 *         LinearRegressor, LinearClassifier, SVMRegressor 1; LabelEncoder 1, 2, 4.  Trees are in trees.c.
 *         Numbers in attributes are constants, except for the coefficients and intercepts of linear models, which train
 *         (ot_floats_value).  OneHotEncoder gives a row of zeros for a category that is not listed, with zeros=0 too,
 *         which asks for an error there.  ZipMap passes its input on: one row per map, columns in the order of the labels.
 * Grad    of what is linear or smooth in the input */
#include "importer/ml.h"

#include <float.h>
#include <stdio.h>

#define IN(...) (ot_value *[]){ __VA_ARGS__ }, (int)(sizeof((ot_value *[]){ __VA_ARGS__ }) / sizeof(ot_value *))

ot_status ot_ml_made(ot_form *f, ot_value *v)
{
    f->out[0] = v;
    f->done = true;
    if (v) return OT_OK;
    ot_status found = f->job->found->status;
    return found == OT_OK || found == OT_E_NOMEM ? OT_E_NOMEM : OT_E_MODEL;
}

ot_value *ot_ml_op(ot_form *f, const char *op, ot_value *a, ot_value *b)
{
    return a && b ? ot_form_before(f, op, IN(a, b)) : NULL;
}

ot_value *ot_ml_joined(ot_form *f, ot_value *a, ot_value *b, int64_t axis)
{
    return a && b ? ot_form_before_int(f, "Concat", IN(a, b), "axis", axis) : NULL;
}

ot_status ot_ml_tensor(ot_form *f, const char *name, ot_blob *out)
{
    const ot_attribute *a = ot_form_get(f, name);
    const ot_external *e = NULL;
    const char *what = ot_arena_printf(f->job->f->arena, "%.300s: %.60s", ot_form_who(f), name);
    if (!a || !a->t || !what) return ot_form_finding(f, "%s is missing", name);
    return ot_tensor_decode(f->job->f, f->job->f->arena, a->t, what, out, &e, f->job->found);
}

static ot_value *floats(ot_form *f, ot_value *x) { return ot_form_before_int(f, "Cast", IN(x), "to", OT_F32); }

static ot_value *number(ot_form *f, double v) { return ot_form_const(f, OT_F32, 0, 1, &v); }

/* Attribute `name` as a float constant of `rows` rows, or of rank 1 if that is 0; `dflt` if it is missing. */
static ot_value *table(ot_form *f, const char *name, int64_t rows, double dflt)
{
    const ot_attribute *a = ot_form_get(f, name);
    int64_t n = a ? (int64_t)a->n_floats : 0;
    if (!n) return number(f, dflt);
    ot_shape s = { .rank = 1, .dim = { n } };
    if (rows) s = (ot_shape){ .rank = 2, .dim = { rows, n / rows } };
    return ot_graph_const(f->scope->graph, name, OT_F32, &s, a->floats);
}

/* How many floats an attribute has. */
static int64_t count(const ot_form *f, const char *name)
{
    const ot_attribute *a = ot_form_get(f, name);
    return a ? (int64_t)a->n_floats : 0;
}

static ot_status scaler(ot_form *f)
{
    ot_value *x = floats(f, f->in[0]), *offset = table(f, "offset", 0, 0), *scale = table(f, "scale", 0, 1);
    if (!x || !offset || !scale || !(x = ot_form_before(f, "Sub", IN(x, offset)))) return OT_E_NOMEM;
    return ot_ml_made(f, ot_form_before(f, "Mul", IN(x, scale)));
}

static ot_status binarizer(ot_form *f)
{
    ot_value *at = ot_form_before(f, "CastLike", IN(number(f, ot_form_float(f, "threshold", 0)), f->in[0]));
    ot_value *above = at ? ot_form_before(f, "Greater", IN(f->in[0], at)) : NULL;
    OT_TRY(ot_status_of(above));
    return ot_ml_made(f, ot_form_before(f, "CastLike", IN(above, f->in[0])));
}

static ot_status normalizer(ot_form *f)
{
    bool l1 = ot_form_says(f, "norm", "L1"), l2 = ot_form_says(f, "norm", "L2");
    ot_value *x = floats(f, f->in[0]), *last = ot_form_ints(f, &(int64_t){ -1 }, 1), *norm;
    if (!x || !last) return OT_E_NOMEM;
    if (l1 || l2) norm = ot_form_before(f, l1 ? "ReduceL1" : "ReduceL2", IN(x, last));
    else norm = ot_form_before(f, "ReduceMax", IN(ot_form_before(f, "Abs", IN(x)), last));
    if (!norm || !(norm = ot_form_before(f, "Max", IN(norm, number(f, 1e-30))))) return OT_E_NOMEM;
    return ot_ml_made(f, ot_form_before(f, "Div", IN(x, norm)));
}

static ot_status imputer(ot_form *f)
{
    double what = ot_form_float(f, "replaced_value_float", 0);
    ot_value *x = f->in[0], *values = table(f, "imputed_value_floats", 0, 0), *hit;
    if (!count(f, "imputed_value_floats"))
        return ot_form_finding(f, "imputed_value_floats is missing; integers are "
                                  "not supported");
    if (what != what) hit = ot_form_before(f, "IsNaN", IN(x));
    else hit = ot_form_before(f, "Equal", IN(x, number(f, what)));
    if (!hit || !values) return OT_E_NOMEM;
    return ot_ml_made(f, ot_form_before(f, "Where", IN(hit, values, x)));
}

/* Elements of the last axis; one row where the data has one axis. */
static ot_status extractor(ot_form *f)
{
    ot_value *x = f->in[0], *one = ot_form_ints(f, &(int64_t){ 1 }, 1), *all = ot_form_ints(f, &(int64_t){ -1 }, 1);
    ot_value *shape = ot_form_before(f, "Shape", IN(x)), *rank = shape ? ot_form_before(f, "Shape", IN(shape)) : NULL;
    ot_value *end = ot_form_ints(f, &(int64_t){ INT32_MAX }, 1), *wider, *from, *index;
    if (!one || !all || !rank || !end || !(from = ot_form_before(f, "Sub", IN(rank, one)))) return OT_E_NOMEM;
    if (!(from = ot_form_before(f, "Min", IN(from, one))) ||
        !(wider = ot_form_before_int(f, "Concat", IN(one, shape), "axis", 0)))
        return OT_E_NOMEM;
    if (!(wider = ot_form_before(f, "Slice", IN(wider, from, end))) ||
        !(x = ot_form_before(f, "Reshape", IN(x, wider))))
        return OT_E_NOMEM;
    if (!(index = ot_form_before(f, "Reshape", IN(f->in[1], all)))) return OT_E_NOMEM;
    return ot_ml_made(f, ot_form_before_int(f, "Gather", IN(x, index), "axis", -1));
}

/* A list of texts. */
static ot_value *texts(ot_form *f, const ot_attribute *a)
{
    const char **v = ot_job_alloc(f->job, (a->n_strings + 1) * sizeof *v);
    for (size_t i = 0; v && i < a->n_strings; i++) {
        char *c = ot_job_alloc(f->job, a->strings[i].len + 1);
        if (!c) return NULL;
        if (a->strings[i].len) memcpy(c, a->strings[i].data, a->strings[i].len);
        v[i] = c;
    }
    ot_value *list = v ? ot_graph_value(f->scope->graph, a->name, OT_CONST, OT_STRING,
                                        &(ot_shape){ .rank = 1, .dim = { (int64_t)a->n_strings } })
                       : NULL;
    if (list) list->data = v;
    return list;
}

static ot_status onehot(ot_form *f)
{
    const ot_attribute *cats = ot_form_get(f, "cats_int64s"), *names = ot_form_get(f, "cats_strings");
    if (!(cats && cats->n_ints) && !(names && names->n_strings))
        return ot_form_finding(f, "its categories are missing");
    bool text = names && names->n_strings;
    ot_value *x = text ? f->in[0] : ot_form_before_int(f, "Cast", IN(f->in[0]), "to", OT_I64),
             *last = ot_form_ints(f, &(int64_t){ -1 }, 1);
    ot_value *list = text ? texts(f, names) : ot_form_ints(f, cats->ints, cats->n_ints), *hit;
    if (!x || !last || !list || !(x = ot_form_before(f, "Unsqueeze", IN(x, last))) ||
        !(hit = ot_form_before(f, "Equal", IN(x, list))))
        return OT_E_NOMEM;
    return ot_ml_made(f, floats(f, hit));
}

/* Do the two rows of a list have opposite elements? */
static bool are_opposite(const ot_form *f, const char *name)
{
    const ot_attribute *a = ot_form_get(f, name);
    size_t half = a ? a->n_floats / 2 : 0;
    bool opposite = !a || a->n_floats % 2 == 0;
    for (size_t i = 0; i < half && opposite; i++) opposite = a->floats[i] == -a->floats[half + i];
    return opposite;
}

/* Row 0 of two opposite rows as half of their difference: they get opposite gradients, and stay opposite. */
static ot_value *of_opposite(ot_form *f, ot_value *rows)
{
    ot_value *halves = ot_graph_const(f->scope->graph, "halves", OT_F32, &(ot_shape){ .rank = 2, .dim = { 1, 2 } },
                                      (float[]){ 0.5f, -0.5f });
    return ot_ml_op(f, "MatMul", halves, rows);
}

/* Scores in `rows` columns; of two opposite ones the first alone. */
static ot_value *linear(ot_form *f, int64_t rows, bool opposite)
{
    const ot_attribute *c = ot_form_get(f, "coefficients"), *i = ot_form_get(f, "intercepts");
    bool biased = i && i->n_floats;
    ot_value *x = floats(f, f->in[0]),
             *w = ot_floats_value(f, c, &(ot_shape){ .rank = 2, .dim = { rows, (int64_t)c->n_floats / rows } });
    ot_value *b = biased ? ot_floats_value(f, i, &(ot_shape){ .rank = 1, .dim = { rows } }) : number(f, 0);
    if (opposite) w = of_opposite(f, w);
    if (opposite && biased) b = of_opposite(f, b);
    return x && w && b ? ot_form_before_int(f, "Gemm", IN(x, w, b), "transB", 1) : NULL;
}

static bool fits(const ot_form *f, int64_t rows)
{
    int64_t n = count(f, "coefficients"), b = count(f, "intercepts");
    return rows > 0 && n > 0 && n % rows == 0 && (b == 0 || b == rows);
}

/* ---- scores ---------------------------------------------------------------------- */

const char *ot_ml_post(const ot_form *f)
{
    static const char *const names[] = { "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT", "NONE" };
    for (int i = 0; i < OT_LEN(names); i++)
        if (ot_form_says(f, "post_transform", names[i])) return names[i];
    return ot_form_get(f, "post_transform") ? "?" : "NONE";
}

/* What is 0 stays 0, and has no part in the sum. */
static ot_value *softmax_zero(ot_form *f, ot_value *y)
{
    ot_value *some = ot_ml_op(f, "Greater", ot_form_before(f, "Abs", IN(y)), number(f, 1e-7)),
             *low = number(f, -(double)FLT_MAX), *zero = number(f, 0);
    ot_value *kept = some && low ? ot_form_before(f, "Where", IN(some, y, low)) : NULL;
    ot_value *p = kept ? ot_form_before_int(f, "Softmax", IN(kept), "axis", -1) : NULL;
    return p && zero ? ot_form_before(f, "Where", IN(some, p, zero)) : NULL;
}

ot_value *ot_ml_transform(ot_form *f, ot_value *y, const char *post)
{
    if (!y || !strcmp(post, "NONE")) return y;
    if (!strcmp(post, "SOFTMAX")) return ot_form_before_int(f, "Softmax", IN(y), "axis", -1);
    if (!strcmp(post, "LOGISTIC")) return ot_form_before(f, "Sigmoid", IN(y));
    if (!strcmp(post, "SOFTMAX_ZERO")) return softmax_zero(f, y);
    ot_form_finding(f, "post_transform must be NONE, SOFTMAX, LOGISTIC or SOFTMAX_ZERO");
    return NULL;
}

void ot_ml_fixed(ot_form *f, const char *attributes)
{
    if (!f->job->m->fixed)
        f->job->m->fixed = ot_arena_printf(f->job->f->arena, "%s: its attributes %s", ot_form_who(f), attributes);
}

int64_t ot_ml_classes(const ot_form *f)
{
    static const char *const names[] = { "classlabels_ints", "classlabels_int64s", "classlabels_strings" };
    int64_t n = 0;
    for (int i = 0; i < OT_LEN(names); i++) {
        const ot_attribute *a = ot_form_get(f, names[i]);
        n += a ? (int64_t)(a->n_ints + a->n_strings) : 0;
    }
    return n;
}

ot_status ot_ml_labelled(ot_form *f, ot_value *scores)
{
    const ot_attribute *a =
        ot_form_get(f, "classlabels_ints") ? ot_form_get(f, "classlabels_ints") : ot_form_get(f, "classlabels_int64s");
    const ot_attribute *s = ot_form_get(f, "classlabels_strings");
    if (f->n_out > 1) f->out[1] = scores;
    ot_value *best = scores ? ot_form_before_int(f, "ArgMax", IN(scores), "axis", 1) : NULL;
    best = ot_ml_op(f, "Squeeze", best, ot_form_ints(f, &(int64_t){ 1 }, 1));
    return ot_ml_made(f, ot_ml_op(f, "Gather",
                                  s && s->n_strings ? texts(f, s)
                                  : a               ? ot_form_ints(f, a->ints, a->n_ints)
                                                    : NULL,
                                  best));
}

static ot_status regressor(ot_form *f)
{
    int64_t targets = ot_form_int(f, "targets", 1);
    if (!fits(f, targets))
        return ot_form_finding(f, "coefficients and intercepts do not match %lld targets", (long long)targets);
    return ot_ml_made(f, ot_ml_transform(f, linear(f, targets, false), ot_ml_post(f)));
}

/* With two classes and one row of coefficients the first class scores the opposite.  Two opposite rows, as skl2onnx writes them, are one
 * parameter: without a Softmax, the sum of the two probabilities would not stay 1. */
static ot_status classifier(ot_form *f)
{
    int64_t classes = ot_ml_classes(f), rows = classes;
    if (!classes) return ot_form_finding(f, "its labels are missing");
    if (classes == 2 && count(f, "intercepts") == 1) rows = 1;
    if (classes < 2 || !fits(f, rows))
        return ot_form_finding(f,
                               "coefficients and intercepts do not match %lld "
                               "classes",
                               (long long)classes);
    bool opposite = rows == 2 && !strcmp(ot_ml_post(f), "LOGISTIC") && are_opposite(f, "coefficients") &&
                    are_opposite(f, "intercepts");
    ot_value *s = linear(f, rows, opposite), *other = s ? ot_form_before(f, "Neg", IN(s)) : NULL;
    if (opposite) s = ot_ml_joined(f, s, other, 1);
    else if (rows < classes) s = ot_ml_joined(f, other, s, 1);
    return ot_ml_labelled(f, ot_ml_transform(f, s, ot_ml_post(f)));
}

/* y = sum over the vectors of coefficient * kernel(x, vector), and rho */
static ot_status svm_regressor(ot_form *f)
{
    int64_t n = ot_form_int(f, "n_supports", 0), all = count(f, "support_vectors");
    const ot_attribute *p = ot_form_get(f, "kernel_params");
    double gamma = p && p->n_floats == 3 ? (double)p->floats[0] : 0,
           shift = p && p->n_floats == 3 ? (double)p->floats[1] : 0,
           degree = p && p->n_floats == 3 ? (double)p->floats[2] : 0;
    if (n == 0)
        return fits(f, 1) ? ot_ml_made(f, ot_ml_op(f, "Add", linear(f, 1, false), table(f, "rho", 0, 0)))
                          : ot_form_finding(f, "its coefficients do not match");
    if (n < 1 || all < n || all % n || count(f, "coefficients") != n)
        return ot_form_finding(f, "%lld support vectors do not match", (long long)n);
    ot_ml_fixed(f, "support_vectors and coefficients");
    ot_value *x = floats(f, f->in[0]), *v = table(f, "support_vectors", n, 0), *k = NULL,
             *last = ot_form_ints(f, &(int64_t){ -1 }, 1);
    if (!x || !v || !last) return OT_E_NOMEM;
    if (ot_form_says(f, "kernel_type", "RBF")) {
        ot_value *mid = ot_form_ints(f, &(int64_t){ 1 }, 1),
                 *d = ot_ml_op(f, "Sub", ot_ml_op(f, "Unsqueeze", x, mid), v);
        d = d ? ot_form_before_int(f, "ReduceSumSquare", IN(d, last), "keepdims", 0) : NULL;
        k = ot_ml_op(f, "Mul", d, number(f, -gamma));
        k = k ? ot_form_before(f, "Exp", IN(k)) : NULL;
    } else {
        k = ot_ml_op(f, "MatMul", x, ot_form_before(f, "Transpose", IN(v)));
        bool poly = ot_form_says(f, "kernel_type", "POLY"), sigmoid = ot_form_says(f, "kernel_type", "SIGMOID");
        if (poly || sigmoid) k = ot_ml_op(f, "Add", ot_ml_op(f, "Mul", k, number(f, gamma)), number(f, shift));
        if (poly) k = ot_ml_op(f, "Pow", k, number(f, degree));
        if (sigmoid && k) k = ot_form_before(f, "Tanh", IN(k));
    }
    ot_value *y = ot_ml_op(f, "Add", ot_ml_op(f, "MatMul", k, table(f, "coefficients", n, 0)), table(f, "rho", 0, 0));
    if (ot_form_int(f, "one_class", 0) && y)
        y = ot_ml_op(f, "Sub", ot_ml_op(f, "Mul", floats(f, ot_ml_op(f, "Greater", y, number(f, 0))), number(f, 2)),
                     number(f, 1));
    return ot_ml_made(f, ot_ml_transform(f, y, ot_ml_post(f)));
}

/* ---- columns and labels ----------------------------------------------------------------- */

/* Each input a matrix, side by side. */
static ot_status vectorizer(ot_form *f)
{
    const ot_attribute *sizes = ot_form_get(f, "inputdimensions");
    ot_value **part = ot_job_alloc(f->job, (size_t)(f->n_in + 1) * sizeof *part);
    if (!part) return OT_E_NOMEM;
    if (sizes && (int)sizes->n_ints != f->n_in)
        return ot_form_finding(f, "inputdimensions has %zu elements for %d inputs", sizes->n_ints, f->n_in);
    for (int i = 0; i < f->n_in; i++) {
        int64_t to[] = { -1, sizes ? sizes->ints[i] : -1 };
        if (!(part[i] = floats(f, f->in[i]))) return OT_E_NOMEM;
        if (sizes && !(part[i] = ot_ml_op(f, "Reshape", part[i], ot_form_ints(f, to, 2)))) return OT_E_NOMEM;
    }
    return ot_ml_made(f, ot_form_before_int(f, "Concat", part, f->n_in, "axis", 1));
}

/* A list of keys or values: `kind`_int64s, _floats, _strings or _tensor. */
static ot_value *labels(ot_form *f, const char *kind)
{
    char name[64];
    const ot_attribute *a;
    ot_blob b;
    snprintf(name, sizeof name, "%s_strings", kind);
    if ((a = ot_form_get(f, name)) && a->n_strings) return texts(f, a);
    snprintf(name, sizeof name, "%s_floats", kind);
    if ((a = ot_form_get(f, name)) && a->n_floats) return table(f, name, 0, 0);
    snprintf(name, sizeof name, "%s_int64s", kind);
    if ((a = ot_form_get(f, name)) && a->n_ints) return ot_form_ints(f, a->ints, a->n_ints);
    snprintf(name, sizeof name, "%s_tensor", kind);
    if (!ot_form_get(f, name)) {
        ot_form_finding(f, "its %s are missing", kind);
        return NULL;
    }
    if (ot_ml_tensor(f, name, &b) != OT_OK) return NULL;
    ot_value *v = ot_graph_value(f->scope->graph, name, OT_CONST, b.dtype,
                                 &(ot_shape){ .rank = 1, .dim = { ot_numel(&b.shape) } });
    if (v) v->data = b.data;
    return v;
}

static ot_status zipmap(ot_form *f)
{
    ot_value *y = ot_form_before(f, "Identity", IN(f->in[0]));
    if (y && (ot_form_get(f, "classlabels_int64s") || ot_form_get(f, "classlabels_strings")))
        y->labels = labels(f, "classlabels");
    return ot_ml_made(f, y);
}

static ot_value *text(ot_form *f, const char *name, const char *dflt)
{
    const ot_attribute *a = ot_form_get(f, name);
    ProtobufCBinaryData one = { strlen(dflt), (uint8_t *)(uintptr_t)dflt };
    ot_attribute list = ONNX__ATTRIBUTE_PROTO__INIT;
    list.name = (char *)(uintptr_t)name;
    list.n_strings = 1;
    list.strings = a ? (ProtobufCBinaryData *)(uintptr_t)&a->s : &one;
    return texts(f, &list);
}

/* The value for what is no key, a list of one. */
static ot_value *no_label(ot_form *f, ot_dtype t)
{
    ot_blob b;
    if (ot_form_get(f, "default_tensor")) {
        if (ot_ml_tensor(f, "default_tensor", &b) != OT_OK) return NULL;
        if (ot_numel(&b.shape) != 1) {
            ot_form_finding(f, "default_tensor has %lld elements, expected 1", (long long)ot_numel(&b.shape));
            return NULL;
        }
        ot_value *v =
            ot_graph_value(f->scope->graph, "default", OT_CONST, b.dtype, &(ot_shape){ .rank = 1, .dim = { 1 } });
        if (v) v->data = b.data;
        return v;
    }
    if (t == OT_STRING) return text(f, "default_string", "_Unused");
    double d = ot_is_float(t) ? ot_form_float(f, "default_float", -0.0) : (double)ot_form_int(f, "default_int64", -1);
    return ot_form_const(f, t, 1, 1, &d);
}

/* Version 1 numbers the list classes_strings, whichever way round. */
static ot_status label_encoder_1(ot_form *f, ot_value **keys, ot_value **values)
{
    const ot_attribute *a = ot_form_get(f, "classes_strings");
    int64_t n = a ? (int64_t)a->n_strings : 0, *number_of = ot_job_alloc(f->job, (size_t)(n + 1) * sizeof *number_of);
    if (!n) return ot_form_finding(f, "classes_strings is empty");
    for (int64_t i = 0; number_of && i < n; i++) number_of[i] = i;
    ot_value *list = texts(f, a), *ids = number_of ? ot_form_ints(f, number_of, (size_t)n) : NULL;
    bool encodes = ot_hint(f->in[0]) == OT_STRING;
    *keys = encodes ? list : ids;
    *values = encodes ? ids : list;
    return list && ids ? OT_OK : OT_E_NOMEM;
}

/* The list with one more element. */
static ot_value *with_last(ot_form *f, const ot_value *list, const ot_value *last)
{
    size_t n = ot_bytes(&list->shape, list->dtype), one = ot_bytes(&last->shape, last->dtype);
    char *p = ot_job_alloc(f->job, n + one);
    ot_value *v = p ? ot_graph_value(f->scope->graph, "labels", OT_CONST, list->dtype,
                                     &(ot_shape){ .rank = 1, .dim = { ot_numel(&list->shape) + 1 } })
                    : NULL;
    if (!v) return NULL;
    memcpy(p, list->data, n);
    memcpy(p + n, last->data, one);
    v->data = p;
    return v;
}

static ot_status label_encoder(ot_form *f)
{
    ot_value *keys = NULL, *values = NULL, *x = f->in[0], *last = ot_form_ints(f, &(int64_t){ -1 }, 1), *other;
    if (ot_form_get(f, "classes_strings")) {
        OT_TRY(label_encoder_1(f, &keys, &values));
    } else if (!(keys = labels(f, "keys")) || !(values = labels(f, "values"))) {
        return ot_ml_made(f, NULL);
    }
    int64_t n = ot_numel(&keys->shape);
    if (n < 1 || ot_numel(&values->shape) != n)
        return ot_form_finding(f, "%lld keys and %lld values", (long long)n, (long long)ot_numel(&values->shape));
    if (!(other = no_label(f, values->dtype))) return ot_ml_made(f, NULL);
    if (other->dtype != values->dtype)
        return ot_form_finding(f, "its default is %s, but its values are %s", ot_dtype_name(other->dtype),
                               ot_dtype_name(values->dtype));
    /* the first key that is equal; behind all of them where none is.  NaN is equal to NaN */
    ot_value *at = ot_ml_op(f, "Unsqueeze", x, last), *hit = ot_ml_op(f, "Equal", at, keys);
    if (ot_is_float(keys->dtype))
        hit = ot_ml_op(
            f, "Or", hit,
            ot_ml_op(f, "And", at ? ot_form_before(f, "IsNaN", IN(at)) : NULL, ot_form_before(f, "IsNaN", IN(keys))));
    ot_value *one = hit ? ot_form_before_int(f, "Cast", IN(hit), "to", OT_I64) : NULL;
    ot_value *first = one ? ot_form_before_int(f, "ArgMax", IN(one), "axis", -1) : NULL;
    ot_value *some = one && last ? ot_form_before(f, "ReduceMax", IN(one, last)) : NULL,
             *beyond = ot_form_const(f, OT_I64, 0, 1, &(double){ (double)n });
    some = some ? ot_form_before_int(f, "Cast", IN(some), "to", OT_BOOL) : NULL;
    ot_value *place = some && first && beyond ? ot_form_before(f, "Where", IN(some, first, beyond)) : NULL;
    return ot_ml_made(f, ot_ml_op(f, "Gather", with_last(f, values, other), ot_ml_op(f, "Squeeze", place, last)));
}

static const struct {
    const char *op;
    int inputs, outputs;
    ot_status (*rewrite)(ot_form *f);
} table_of[] = {
    { "ArrayFeatureExtractor", 2, 1, extractor },
    { "Binarizer", 1, 1, binarizer },
    { "FeatureVectorizer", 0, 1, vectorizer },
    { "Imputer", 1, 1, imputer },
    { "LabelEncoder", 1, 1, label_encoder },
    { "LinearClassifier", 1, 2, classifier },
    { "LinearRegressor", 1, 1, regressor },
    { "Normalizer", 1, 1, normalizer },
    { "OneHotEncoder", 1, 1, onehot },
    { "SVMRegressor", 1, 1, svm_regressor },
    { "Scaler", 1, 1, scaler },
    { "TreeEnsemble", 1, 1, ot_ml_tree_ensemble },
    { "TreeEnsembleClassifier", 1, 2, ot_ml_tree_classifier },
    { "TreeEnsembleRegressor", 1, 1, ot_ml_tree_regressor },
    { "ZipMap", 1, 1, zipmap },
};

const char *ot_ml_at(int i) { return i < OT_LEN(table_of) ? table_of[i].op : NULL; }

ot_status ot_ml(ot_form *f)
{
    for (int i = 0; i < OT_LEN(table_of); i++) {
        if (strcmp(table_of[i].op, f->op) != 0) continue;
        bool whole =
            (table_of[i].inputs ? f->n_in == table_of[i].inputs : f->n_in > 0) && f->n_out <= table_of[i].outputs;
        for (int k = 0; k < f->n_in; k++) whole &= f->in[k] != NULL;
        if (!whole)
            return ot_form_finding(f,
                                   "%d inputs and %d outputs do not fit the operator, or a required input is missing",
                                   f->n_in, f->n_out);
        return table_of[i].rewrite(f);
    }
    return OT_OK;
}
