/* ml.c - operators of ai.onnx.ml that are arithmetic, spelled out in those of ai.onnx.
 *
 * Spec    ai.onnx.ml Scaler, Binarizer, Normalizer, Imputer, ArrayFeatureExtractor, OneHotEncoder, LinearRegressor,
 *         LinearClassifier 1; what they hold stands in attributes and is constant.  Strings are not read.
 * Grad    of what is linear or smooth in the input */
#include "importer/build.h"

#define IN(...) (ot_value *[]){ __VA_ARGS__ }, (int)(sizeof((ot_value *[]){ __VA_ARGS__ }) / sizeof(ot_value *))

/* The node is made: v is its first output. */
static bool made(ot_form *f, ot_value *v)
{
    f->out[0] = v;
    f->done = true;
    return v != NULL;
}

static ot_value *floats(ot_form *f, ot_value *x) { return ot_form_before_int(f, "Cast", IN(x), "to", OT_F32); }

static ot_value *number(ot_form *f, double v) { return ot_form_const(f, OT_F32, 0, 1, &v); }

/* Attribute `name` as a float constant of `rows` rows, or of rank 1 where that is 0; `dflt` where it is left out. */
static ot_value *table(ot_form *f, const char *name, int64_t rows, double dflt)
{
    const ot_attribute *a = ot_form_get(f, name);
    int64_t             n = a ? (int64_t)a->n_floats : 0;
    if (!n) return number(f, dflt);
    ot_shape s = { .rank = 1, .dim = { n } };
    if (rows) s = (ot_shape){ .rank = 2, .dim = { rows, n / rows } };
    return ot_graph_const(f->scope->graph, name, OT_F32, &s, a->floats);
}

static int64_t count(const ot_form *f, const char *name)
{
    const ot_attribute *a = ot_form_get(f, name);
    return a ? (int64_t)(a->n_floats + a->n_ints + a->n_strings) : 0;
}

static bool scaler(ot_form *f)
{
    ot_value *x = floats(f, f->in[0]), *offset = table(f, "offset", 0, 0), *scale = table(f, "scale", 0, 1);
    if (!x || !offset || !scale || !(x = ot_form_before(f, "Sub", IN(x, offset)))) return false;
    return made(f, ot_form_before(f, "Mul", IN(x, scale)));
}

static bool binarizer(ot_form *f)
{
    ot_value *at = ot_form_before(f, "CastLike", IN(number(f, ot_form_float(f, "threshold", 0)), f->in[0]));
    ot_value *above = at ? ot_form_before(f, "Greater", IN(f->in[0], at)) : NULL;
    return above && made(f, ot_form_before(f, "CastLike", IN(above, f->in[0])));
}

static bool normalizer(ot_form *f)
{
    bool        l1 = ot_form_says(f, "norm", "L1"), l2 = ot_form_says(f, "norm", "L2");
    ot_value   *x = floats(f, f->in[0]), *last = ot_form_ints(f, &(int64_t){ -1 }, 1), *norm;
    if (!x || !last) return false;
    if (l1 || l2) norm = ot_form_before(f, l1 ? "ReduceL1" : "ReduceL2", IN(x, last));
    else norm = ot_form_before(f, "ReduceMax", IN(ot_form_before(f, "Abs", IN(x)), last));
    if (!norm || !(norm = ot_form_before(f, "Max", IN(norm, number(f, 1e-30))))) return false;
    return made(f, ot_form_before(f, "Div", IN(x, norm)));
}

static bool imputer(ot_form *f)
{
    double    what = ot_form_float(f, "replaced_value_float", 0);
    ot_value *x = f->in[0], *values = table(f, "imputed_value_floats", 0, 0), *hit;
    if (!count(f, "imputed_value_floats")) return ot_form_finding(f, "imputed_value_floats is left out; integers are not replaced");
    if (what != what) hit = ot_form_before(f, "IsNaN", IN(x));
    else hit = ot_form_before(f, "Equal", IN(x, number(f, what)));
    return hit && values && made(f, ot_form_before(f, "Where", IN(hit, values, x)));
}

/* Elements of the last axis; one row where the data has one axis. */
static bool extractor(ot_form *f)
{
    ot_value *x = f->in[0], *one = ot_form_ints(f, &(int64_t){ 1 }, 1), *all = ot_form_ints(f, &(int64_t){ -1 }, 1);
    ot_value *shape = ot_form_before(f, "Shape", IN(x)), *rank = shape ? ot_form_before(f, "Shape", IN(shape)) : NULL;
    ot_value *end = ot_form_ints(f, &(int64_t){ INT32_MAX }, 1), *wider, *from, *index;
    if (!one || !all || !rank || !end || !(from = ot_form_before(f, "Sub", IN(rank, one)))) return false;
    if (!(from = ot_form_before(f, "Min", IN(from, one))) || !(wider = ot_form_before_int(f, "Concat", IN(one, shape), "axis", 0))) return false;
    if (!(wider = ot_form_before(f, "Slice", IN(wider, from, end))) || !(x = ot_form_before(f, "Reshape", IN(x, wider)))) return false;
    if (!(index = ot_form_before(f, "Reshape", IN(f->in[1], all)))) return false;
    return made(f, ot_form_before_int(f, "Gather", IN(x, index), "axis", -1));
}

static bool onehot(ot_form *f)
{
    const ot_attribute *cats = ot_form_get(f, "cats_int64s");
    if (!cats || !cats->n_ints) return ot_form_finding(f, "its categories must be integers, cats_int64s");
    if (!ot_form_int(f, "zeros", 1)) return ot_form_finding(f, "zeros=0 would refuse what is in no category; that depends on data");
    ot_value *x = ot_form_before_int(f, "Cast", IN(f->in[0]), "to", OT_I64), *last = ot_form_ints(f, &(int64_t){ -1 }, 1);
    ot_value *list = ot_form_ints(f, cats->ints, cats->n_ints), *hit;
    if (!x || !last || !list || !(x = ot_form_before(f, "Unsqueeze", IN(x, last))) || !(hit = ot_form_before(f, "Equal", IN(x, list)))) return false;
    return made(f, floats(f, hit));
}

/* Scores in `rows` columns. */
static ot_value *linear(ot_form *f, int64_t rows)
{
    ot_value *x = floats(f, f->in[0]), *w = table(f, "coefficients", rows, 0), *b = table(f, "intercepts", 0, 0);
    return x && w && b ? ot_form_before_int(f, "Gemm", IN(x, w, b), "transB", 1) : NULL;
}

static bool fits(const ot_form *f, int64_t rows)
{
    int64_t n = count(f, "coefficients"), b = count(f, "intercepts");
    return rows > 0 && n > 0 && n % rows == 0 && (b == 0 || b == rows);
}

static bool regressor(ot_form *f)
{
    int64_t targets = ot_form_int(f, "targets", 1);
    if (!fits(f, targets)) return ot_form_finding(f, "coefficients and intercepts do not fit %lld targets", (long long)targets);
    if (ot_form_get(f, "post_transform") && !ot_form_says(f, "post_transform", "NONE")) return ot_form_finding(f, "post_transform must be NONE");
    return made(f, linear(f, targets));
}

/* With two classes and one row of coefficients the first class scores the opposite. */
static bool classifier(ot_form *f)
{
    const ot_attribute *labels = ot_form_get(f, "classlabels_ints");
    int64_t             classes = count(f, "classlabels_ints"), rows = classes;
    if (!classes || !labels) return ot_form_finding(f, "its labels must be integers, classlabels_ints");
    if (classes == 2 && count(f, "intercepts") == 1) rows = 1;
    if (classes < 2 || !fits(f, rows)) return ot_form_finding(f, "coefficients and intercepts do not fit %lld classes", (long long)classes);
    bool logistic = ot_form_says(f, "post_transform", "LOGISTIC"), softmax = ot_form_says(f, "post_transform", "SOFTMAX");
    if (ot_form_get(f, "post_transform") && !logistic && !softmax && !ot_form_says(f, "post_transform", "NONE"))
        return ot_form_finding(f, "post_transform must be NONE, LOGISTIC or SOFTMAX");
    ot_value *s = linear(f, rows), *other;
    if (rows < classes) {
        if (!s || !(other = ot_form_before(f, "Neg", IN(s)))) return false;
        s = ot_form_before_int(f, "Concat", IN(other, s), "axis", 1);
    }
    if (s && logistic) s = ot_form_before(f, "Sigmoid", IN(s));
    if (s && softmax) s = ot_form_before_int(f, "Softmax", IN(s), "axis", 1);
    if (!s || !(other = ot_form_before_int(f, "ArgMax", IN(s), "axis", 1))) return false;
    if (!(other = ot_form_before(f, "Squeeze", IN(other, ot_form_ints(f, &(int64_t){ 1 }, 1))))) return false;
    if (f->n_out > 1) f->out[1] = s;
    return made(f, ot_form_before(f, "Gather", IN(ot_form_ints(f, labels->ints, labels->n_ints), other)));
}

static const ot_rewriting table_of[] = {
    { "ArrayFeatureExtractor", 2, 1, extractor }, { "Binarizer", 1, 1, binarizer }, { "Imputer", 1, 1, imputer },
    { "LinearClassifier", 1, 2, classifier }, { "LinearRegressor", 1, 1, regressor }, { "Normalizer", 1, 1, normalizer },
    { "OneHotEncoder", 1, 1, onehot }, { "Scaler", 1, 1, scaler },
};

const char *ot_ml_at(int i) { return i >= 0 && i < OT_LEN(table_of) ? table_of[i].op : NULL; }

bool ot_ml(ot_form *f)
{
    for (int i = 0; i < OT_LEN(table_of); i++) {
        if (strcmp(table_of[i].op, f->op) != 0) continue;
        bool whole = f->n_in == table_of[i].inputs && f->n_out <= table_of[i].outputs;
        for (int k = 0; k < f->n_in; k++) whole &= f->in[k] != NULL;
        if (!whole) return ot_form_finding(f, "%d inputs and %d outputs", f->n_in, f->n_out);
        return table_of[i].rewrite(f);
    }
    return true;
}
