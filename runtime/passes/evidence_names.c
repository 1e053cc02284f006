/* evidence_names.c - classifies one initializer by its name.
 *
 * Exporters keep the names of parameters and generate names for tensors that they compute.  They compute parameters
 * too (a weight transposed for MatMul, a scale reshaped for its channels), so a name alone is not sufficient.
 *
 * Source  the names: torch.onnx (TorchScript: onnx::Mul_12, /layer/Constant_1_output_0, older versions plain
 *         numbers; dynamo: val_12 and names of ATen functions), spox and others that number values (v12), tf2onnx
 *         (const_fold_opt__12, .../mul/y:0), paddle2onnx (p2o.helper.constant.12, Constant@12); graph optimizers
 *         keep them. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "runtime/passes/evidence.h"

static bool starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), m = strlen(with);
    return n >= m && !strcmp(s + n - m, with);
}

/* Numbers separated by '_': copies of a name are numbered when functions are called twice. */
static bool digits(const char *s)
{
    if (!isdigit((unsigned char)*s)) return false;
    for (; *s; s++)
        if (!isdigit((unsigned char)*s) && *s != '_') return false;
    return true;
}

/* ATen functions whose names exporters give to computed tensors. */
static const char *const aten[] = {
    "_to_copy",
    "_unsafe_view",
    "abs",
    "add",
    "addmm",
    "amax",
    "arange",
    "bmm",
    "cat",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clone",
    "constant_pad_nd",
    "convert_element_type",
    "convert_element_type_default",
    "cos",
    "cumsum",
    "detach",
    "div",
    "embedding",
    "erf",
    "exp",
    "expand",
    "eye",
    "flip",
    "floor",
    "full",
    "full_like",
    "gather",
    "getitem",
    "index",
    "index_put",
    "index_select",
    "lift_fresh_copy",
    "linalg_vector_norm",
    "linear",
    "linspace",
    "log",
    "masked_fill",
    "matmul",
    "maximum",
    "minimum",
    "mm",
    "mul",
    "neg",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones",
    "ones_like",
    "outer",
    "permute",
    "pow",
    "reciprocal",
    "repeat",
    "roll",
    "rsqrt",
    "rsub",
    "scalar_tensor",
    "scalar_tensor_default",
    "scatter",
    "select",
    "select_scatter",
    "sigmoid",
    "sin",
    "slice",
    "slice_scatter",
    "softplus",
    "sqrt",
    "squeeze",
    "stack",
    "sub",
    "sum",
    "t",
    "tanh",
    "transpose",
    "tril",
    "triu",
    "unbind",
    "unsqueeze",
    "view",
    "where",
    "zeros",
    "zeros_like",
};

/* Is name one of those, possibly with a number: "unsqueeze_3"?  A lone "t" or "pow" is more likely a parameter. */
static bool is_one_of(const char *name, const char *const *list, int n_list)
{
    for (int i = 0; i < n_list; i++) {
        size_t n = strlen(list[i]);
        if (strncmp(list[i], name, n) != 0) continue;
        if (!name[n]) return n > 1;
        if (name[n] == '_' && digits(name + n + 1)) return true;
    }
    return false;
}

bool ot_name_is_computed(const char *name)
{
    static const char *const arithmetic[] = { "mul", "sub", "div", "rsqrt" };
    return is_one_of(name, arithmetic, OT_LEN(arithmetic));
}

bool ot_name_is_looked_up(const char *name)
{
    static const char *const lookups[] = { "embedding" };
    return is_one_of(name, lookups, OT_LEN(lookups));
}

bool ot_name_is_converted(const char *name)
{
    static const char *const conversions[] = { "_to_copy", "convert_element_type", "convert_element_type_default" };
    return is_one_of(name, conversions, OT_LEN(conversions));
}

bool ot_name_is_literal(const char *name)
{
    static const char *const literals[] = { "_tensor_constant", "lifted_tensor_", "c_lifted_tensor_" };
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    for (int i = 0; i < OT_LEN(literals); i++)
        if (starts(last, literals[i])) return true;
    return false;
}

bool ot_name_is_made(const char *name)
{
    static const char *const begin[] = { "onnx::", "const_fold", "Const__", "Constant_", "Constant@", "p2o.helper." };
    static const char *const end[] = { "/y:0", "/x:0", "/Const:0" };
    for (int i = 0; i < OT_LEN(begin); i++)
        if (starts(name, begin[i])) return true;
    if (ot_name_is_literal(name)) return true;
    for (int i = 0; i < OT_LEN(end); i++)
        if (ends(name, end[i])) return true;
    if (*name == '/' && strstr(name, "_output_")) return true;
    return digits(name) || (starts(name, "val_") && digits(name + 4)) || (*name == 'v' && digits(name + 1)) ||
           is_one_of(name, aten, OT_LEN(aten));
}

bool ot_name_is_constant(const char *name)
{
    static const char operator[] = "/Constant_";
    const char *last = strrchr(name, '/');
    return *name == '/' && starts(last, operator) && strstr(last, "output_");
}

/* TensorFlow reads a variable by this operator, whose name its exporters keep. */
bool ot_name_is_variable(const char *name) { return strstr(name, "ReadVariableOp") != NULL; }

/* Functions that an exporter applied to a parameter: the result is no parameter. */
bool ot_name_is_function(const char *name)
{
    static const char *const functions[] = { "exp", "log", "neg", "pow", "sigmoid", "softplus", "sqrt", "tanh" };
    return is_one_of(name, functions, OT_LEN(functions));
}

bool ot_name_is_path(const char *name)
{
    bool dot = false;
    for (const char *s = name; *s; s++) {
        if (*s == '.') dot = true;
        else if (!isalnum((unsigned char)*s) && *s != '_') return false;
    }
    return dot && !ot_name_is_made(name);
}

bool ot_name_is_of_layer(const char *name)
{
    return ot_name_is_path(name) && (ends(name, ".weight") || ends(name, ".bias"));
}

/* Does the last part of the name end in one of these words? */
static bool ends_in_word(const char *name, const char *const *words, int n)
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    for (int i = 0; i < n; i++)
        if (ends(last, words[i]) &&
            (strlen(last) == strlen(words[i]) || last[strlen(last) - strlen(words[i]) - 1] == '_'))
            return true;
    return false;
}

bool ot_name_is_transform(const char *name)
{
    static const char *const words[] = { "forward_basis", "inverse_basis", "dct_mat", "filt" };
    return ends_in_word(name, words, OT_LEN(words));
}

bool ot_name_is_sparse(const char *name)
{
    static const char *const words[] = { "adj", "adjacency", "adj_mat", "laplacian", "fb", "mel_basis" };
    return ends_in_word(name, words, OT_LEN(words));
}

bool ot_name_is_unused_bias(const char *name)
{
    static const char *const words[] = { "final_logits_bias" };
    return ends_in_word(name, words, OT_LEN(words));
}

bool ot_name_is_table(const char *name)
{
    static const char *const words[] = { "mask",    "inv_freq", "freqs",   "anchors",      "anchor_grid",  "stride",
                                         "strides", "slope",    "slopes",  "coords_table", "position_ids", "pe",
                                         "buffer",  "grid",     "support", "knots",        "bins" };
    return ends_in_word(name, words, OT_LEN(words));
}

/* spectral_norm keeps `weight_u` and `weight_v` beside `weight_orig`; as a parametrization, `weight.0._u` and
 * `weight.0._v` beside `weight.original`. */
const ot_value *ot_normed_by(const ot_graph *g, const ot_value *v)
{
    const char *name = v->name, *weight = "_orig";
    size_t n = strlen(name);
    int64_t size = ot_numel(&v->shape);
    if (v->shape.rank != 1 || size < 1 || !(ends(name, "_u") || ends(name, "_v"))) return NULL;
    n -= 2;
    if (n && name[n - 1] == '.') {
        for (n--; n && isdigit((unsigned char)name[n - 1]); n--) {
        }
        if (!n || name[n - 1] != '.') return NULL;
        n--;
        weight = ".original";
    }
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *w = g->values[i];
        if (w->source >= 0 && !strncmp(w->name, name, n) && !strcmp(w->name + n, weight) &&
            ot_numel(&w->shape) % size == 0)
            return w;
    }
    return NULL;
}

const ot_value *ot_pruned_by(const ot_graph *g, const ot_value *v)
{
    size_t n = strlen(v->name) - strlen("mask");
    if (!ends(v->name, "_mask")) return NULL;
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *w = g->values[i];
        if (w->source >= 0 && !strncmp(w->name, v->name, n) && !strcmp(w->name + n, "orig") &&
            ot_shape_eq(&w->shape, &v->shape))
            return w;
    }
    return NULL;
}

bool ot_name_is_untied(const char *name, const char *original)
{
    return starts(name, original) && starts(name + strlen(original), "_untied_");
}

bool ot_name_is_mask(const char *name) { return ends(name, "mask"); }
