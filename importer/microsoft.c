/* microsoft.c - rewrites operators of com.microsoft, as ONNX Runtime's optimizers and exporters write them, into
 * operators of ai.onnx.
 *
 * Spec    com.microsoft 1 of ONNX Runtime 1.32 (ContribOperators.md), apart from the quantised ones (quantised.c).
 * Grad    that of the operators they become, which also decide where weights are
 *
 * Shapes are not known here.  Where a rank decides what an input means, rank_of looks for it in the nodes before. */
#include "importer/build.h"

#define IN(...) (ot_value *[]){ __VA_ARGS__ }, (int)(sizeof((ot_value *[]){ __VA_ARGS__ }) / sizeof(ot_value *))
#define OP(name, ...) op(f, name, IN(__VA_ARGS__))

/* ---- words ------------------------------------------------------------------------------ */

/* A node with these inputs.  NULL if an input is NULL: there was no memory for it. */
static ot_value *op(ot_form *f, const char *name, ot_value *const *in, int n)
{
    for (int i = 0; i < n; i++)
        if (!in[i]) return NULL;
    return ot_form_before(f, name, in, n);
}

static ot_status made(ot_form *f, ot_value *v)
{
    f->out[0] = v;
    f->done = true;
    return ot_status_of(v);
}

static ot_value *input(const ot_form *f, int i) { return i < f->n_in ? f->in[i] : NULL; }

static bool asked(const ot_form *f, int i) { return i < f->n_out && *f->out_name[i]; }

static ot_value *list1(ot_form *f, int64_t a) { return ot_form_ints(f, &a, 1); }

static ot_value *number(ot_form *f, double v, ot_value *like)
{
    return OP("CastLike", ot_form_const(f, OT_F32, 0, 1, &v), like);
}

static ot_value *plus(ot_form *f, ot_value *x, ot_value *b) { return b ? OP("Add", x, b) : x; }

/* The size of axis `at`, which may count from the end, as a list of one number. */
static ot_value *size_of(ot_form *f, ot_value *x, int64_t at)
{
    ot_value *end = list1(f, at == -1 ? INT64_MAX : at + 1);
    return OP("Slice", OP("Shape", x), list1(f, at), end);
}

static ot_value *one_of(ot_form *f, ot_value *list) { return OP("Squeeze", list); }

/* Parts of x along its last axis, of these sizes. */
static ot_status split(ot_form *f, ot_value *x, ot_value *sizes, ot_value *part[3])
{
    ot_form g;
    if (!x || !sizes || ot_form_begin(f, &g, "Split", IN(x, sizes), 3) || ot_form_set_int(&g, "axis", -1) ||
        !ot_form_finish(&g))
        return OT_E_NOMEM;
    for (int i = 0; i < 3; i++) part[i] = g.out[i];
    return part[1] && part[2] ? OT_OK : OT_E_NOMEM;
}

/* The rank of v where something says it, else `dflt`. */
static int rank_of(const ot_value *v, int dflt)
{
    static const char *const keep[] = { "Cast", "CastLike", "Identity", "Relu", "Clip", "Not", "Transpose" };
    for (int deep = 0; v && deep < 16; deep++) {
        const ot_node *n = v->producer;
        bool same = false;
        if (v->shape.rank >= 0) return v->shape.rank;
        for (int i = 0; n && i < OT_LEN(keep); i++) same |= !strcmp(n->op->name, keep[i]);
        if (n && !strcmp(n->op->name, "ReduceSum")) return 1; /* lengths, counted in a mask */
        if (n && !strcmp(n->op->name, "Reshape") && n->in[1] && n->in[1]->shape.rank == 1 && n->in[1]->shape.dim[0] > 0)
            return (int)n->in[1]->shape.dim[0];
        v = same ? n->in[0] : NULL;
    }
    return dflt;
}

/* A finding where the node uses `what`. */
static ot_status refuse_if(ot_form *f, bool used, const char *what)
{
    return used ? ot_form_finding(f, "%s is not supported", what) : OT_OK;
}

/* ---- activations, products ---------------------------------------------------------------- */

static ot_status gelu(ot_form *f) { return made(f, OP("Gelu", plus(f, f->in[0], input(f, 1)))); }

static ot_status bias_add(ot_form *f) { return made(f, OP("Add", plus(f, f->in[0], f->in[1]), f->in[2])); }

/* Half of the channels times the Gelu of the other half. */
static ot_status bias_split_gelu(ot_form *f)
{
    ot_form g;
    ot_value *x = plus(f, f->in[0], f->in[1]);
    OT_TRY(ot_status_of(x));
    OT_TRY(ot_form_begin(f, &g, "Split", &x, 1, 2));
    OT_TRY(ot_form_set_int(&g, "axis", -1));
    OT_TRY(ot_form_set_int(&g, "num_outputs", 2));
    OT_TRY(ot_status_of(ot_form_finish(&g)));
    return made(f, OP("Mul", g.out[0], OP("Gelu", g.out[1])));
}

static ot_status fast_gelu(ot_form *f)
{
    ot_form g;
    ot_value *x = plus(f, f->in[0], input(f, 1));
    OT_TRY(ot_status_of(x));
    OT_TRY(ot_form_begin(f, &g, "Gelu", &x, 1, 1));
    OT_TRY(ot_form_set_text(&g, "approximate", "tanh"));
    return made(f, ot_form_finish(&g));
}

static ot_status quick_gelu(ot_form *f)
{
    ot_form g;
    OT_TRY(ot_form_begin(f, &g, "Swish", f->in, 1, 1));
    OT_TRY(ot_form_set_float(&g, "alpha", (float)ot_form_float(f, "alpha", 1.702)));
    return made(f, ot_form_finish(&g));
}

/* x with its axes in the order that an Einsum names; x itself without one. */
static ot_value *turned(ot_form *f, ot_value *x, const char *order)
{
    ot_form g;
    if (!x || !order) return x;
    if (ot_form_begin(f, &g, "Einsum", &x, 1, 1) || ot_form_set_text(&g, "equation", order)) return NULL;
    return ot_form_finish(&g);
}

/* The order of the axes that makes an operand of FusedMatMul one of MatMul; NULL: the operand is one.  transBatch moves the first
 * axis before the last, trans then turns the last two.  An Einsum of known rank: its dots stand for axes of a batch only. */
static ot_status order_of(ot_form *f, const ot_value *x, bool trans, bool batch, const char **order)
{
    static const char letters[] = "abcdefghijklmnop";
    int rank = rank_of(x, -1);
    *order = trans ? "...ij->...ji" : NULL;
    if (!batch || rank == 2) return OT_OK; /* of a matrix the rows are moved where they are */
    if (rank < 0 || rank >= (int)sizeof letters)
        return ot_form_finding(f, "transBatchA and transBatchB need an operand of known rank");
    if (rank < 2) return OT_OK;
    *order = trans ? ot_arena_printf(f->job->f->arena, "%.*s->%.*s%c%c", rank, letters, rank - 2, letters + 1,
                                     letters[rank - 1], letters[0])
                   : ot_arena_printf(f->job->f->arena, "%.*s->%.*s%c%c", rank, letters, rank - 2, letters + 1,
                                     letters[0], letters[rank - 1]);
    return ot_status_of(*order);
}

static ot_status fused_matmul(ot_form *f)
{
    static const char *const trans[] = { "transA", "transB" }, *const batch[] = { "transBatchA", "transBatchB" };
    double alpha = ot_form_float(f, "alpha", 1);
    ot_value *in[2];
    for (int i = 0; i < 2; i++) {
        const char *order;
        OT_TRY(order_of(f, f->in[i], ot_form_int(f, trans[i], 0) != 0, ot_form_int(f, batch[i], 0) != 0, &order));
        in[i] = turned(f, f->in[i], order);
    }
    ot_value *y = OP("MatMul", in[0], in[1]);
    return made(f, y && alpha != 1 ? OP("Mul", y, number(f, alpha, y)) : y);
}

/* The axis is an input of one element. */
static ot_status expand_dims(ot_form *f)
{
    ot_value *axis = OP("CastLike", f->in[1], list1(f, 0));
    return made(f, OP("Unsqueeze", f->in[0], OP("Reshape", axis, list1(f, -1))));
}

static double parameter(const ot_form *f, int i, double dflt)
{
    const ot_attribute *list = ot_form_get(f, "activation_params");
    if (list) return i < (int)list->n_floats ? (double)list->floats[i] : dflt;
    return ot_form_float(f, i ? "activation_beta" : "activation_alpha", dflt);
}

/* What attribute `activation` makes of y. */
static ot_value *activated(ot_form *f, ot_value *y)
{
    static const struct {
        const char *name, *p, *q;
        double a, b;
    } known[] = {
        { "Relu", NULL, NULL, 0, 0 },
        { "Tanh", NULL, NULL, 0, 0 },
        { "Sigmoid", NULL, NULL, 0, 0 },
        { "Softplus", NULL, NULL, 0, 0 },
        { "Softsign", NULL, NULL, 0, 0 },
        { "Gelu", NULL, NULL, 0, 0 },
        { "LeakyRelu", "alpha", NULL, 0.01, 0 },
        { "Elu", "alpha", NULL, 1, 0 },
        { "ThresholdedRelu", "alpha", NULL, 1, 0 },
        { "HardSigmoid", "alpha", "beta", 0.2, 0.5 },
    };
    const ot_attribute *a = ot_form_get(f, "activation");
    ot_form g;
    if (!a || !a->s.len || !y) return y;
    if (ot_form_says(f, "activation", "Clip"))
        return OP("Clip", y, number(f, parameter(f, 0, -3.4e38), y), number(f, parameter(f, 1, 3.4e38), y));
    for (int i = 0; i < OT_LEN(known); i++) {
        if (!ot_form_says(f, "activation", known[i].name)) continue;
        if (ot_form_begin(f, &g, known[i].name, &y, 1, 1)) return NULL;
        if (known[i].p && ot_form_set_float(&g, known[i].p, (float)parameter(f, 0, known[i].a))) return NULL;
        if (known[i].q && ot_form_set_float(&g, known[i].q, (float)parameter(f, 1, known[i].b))) return NULL;
        return ot_form_finish(&g);
    }
    ot_form_finding(f, "activation %.*s is not supported", (int)(a->s.len < 60 ? a->s.len : 60),
                    (const char *)a->s.data);
    return y;
}

/* The plain operator with this node's attributes, apart from those of the activation. */
static ot_value *plain(ot_form *f, const char *name, int n_in)
{
    static const char *const own[] = { "activation", "activation_params", "activation_alpha", "activation_beta",
                                       "activation_gamma" };
    ot_form g;
    if (ot_form_begin(f, &g, name, f->in, n_in, 1)) return NULL;
    for (int i = 0; i < f->n_attr; i++) {
        bool skip = false;
        for (int k = 0; k < OT_LEN(own); k++) skip |= !strcmp(ot_text(f->attr[i]->name), own[k]);
        if (!skip && ot_form_copy(&g, f->attr[i])) return NULL;
    }
    return ot_form_finish(&g);
}

static ot_status fused_gemm(ot_form *f) { return made(f, activated(f, plain(f, "Gemm", f->n_in < 3 ? f->n_in : 3))); }

static ot_status fused_conv(ot_form *f)
{
    ot_value *y = plain(f, "Conv", f->n_in < 3 ? f->n_in : 3);
    return made(f, activated(f, y ? plus(f, y, input(f, 3)) : NULL));
}

/* ---- channels last ------------------------------------------------------------------------------ */

ot_value *ot_channels(ot_form *f, ot_value *x, int rank, bool first)
{
    ot_form g;
    int64_t perm[OT_MAX_RANK] = { 0 };
    if (!x || ot_form_begin(f, &g, "Transpose", &x, 1, 1)) return NULL;
    for (int d = 1; d < rank; d++) perm[d] = first ? (d == 1 ? rank - 1 : d - 1) : (d == rank - 1 ? 1 : d + 1);
    return ot_form_set_ints(&g, "perm", perm, (size_t)rank) == OT_OK ? ot_form_finish(&g) : NULL;
}

/* The weight is laid out as Conv's; input 3 is added to what comes out. */
static ot_status nhwc_conv(ot_form *f)
{
    int rank = rank_of(input(f, 1), 4);
    if (rank < 3 || rank > OT_MAX_RANK) return ot_form_finding(f, "its weight has rank %d", rank);
    f->in[0] = ot_channels(f, f->in[0], rank, true);
    OT_TRY(ot_status_of(f->in[0]));
    ot_value *y = ot_channels(f, plain(f, "Conv", f->n_in < 3 ? f->n_in : 3), rank, false);
    return made(f, activated(f, y ? plus(f, y, input(f, 3)) : NULL));
}

/* A scale or bias in the type of x. */
static ot_value *as_type_of(ot_form *f, ot_value *v, ot_value *x)
{
    return !x || v->dtype == ot_hint(x) ? v : OP("CastLike", v, x);
}

static ot_value *group_norm_of(ot_form *f, ot_value *x)
{
    ot_form g;
    bool last = ot_form_int(f, "channels_last", 1) != 0;
    int64_t act = ot_form_int(f, "activation", 0);
    if (last) x = ot_channels(f, x, 4, true);
    if (act != 0 && act != 1)
        ot_form_finding(f, "activation %lld is not supported; supported: 0 (none), 1 (SiLU)", (long long)act);
    ot_value *scale = as_type_of(f, f->in[1], x), *bias = as_type_of(f, f->in[2], x);
    if (!x || !scale || !bias || ot_form_begin(f, &g, "GroupNormalization", IN(x, scale, bias), 1) ||
        ot_form_set_int(&g, "num_groups", ot_form_int(f, "groups", 1)) ||
        ot_form_set_float(&g, "epsilon", (float)ot_form_float(f, "epsilon", 1e-5)))
        return NULL;
    ot_value *y = ot_form_finish(&g);
    if (last) y = ot_channels(f, y, 4, false);
    return y && act == 1 ? OP("Swish", y) : y;
}

static ot_status group_norm(ot_form *f) { return made(f, group_norm_of(f, f->in[0])); }

/* A skip of (N, C) is one for all pixels: (N, 1, 1, C).  What has four axes keeps its shape. */
static ot_value *per_pixel(ot_form *f, ot_value *v)
{
    ot_value *shape = OP("Shape", v), *middle = shape ? OP("Slice", shape, list1(f, 1), list1(f, -1)) : NULL,
             *ones = ot_form_ints(f, (int64_t[]){ 1, 1 }, 2);
    if (!middle || !ones) return NULL;
    middle =
        OP("Slice", ot_form_before_int(f, "Concat", IN(ones, middle), "axis", 0), list1(f, -2), list1(f, INT64_MAX));
    ot_value *n = size_of(f, v, 0), *c = size_of(f, v, -1);
    if (!middle || !n || !c) return NULL;
    return OP("Reshape", v, ot_form_before_int(f, "Concat", IN(n, middle, c), "axis", 0));
}

static ot_status skip_group_norm(ot_form *f)
{
    OT_TRY(ot_form_require(f, 0xf));
    OT_TRY(refuse_if(f, !ot_form_int(f, "channels_last", 1), "channels_last=0"));
    ot_value *skip = per_pixel(f, f->in[3]), *x = skip ? plus(f, OP("Add", f->in[0], skip), input(f, 4)) : NULL;
    if (asked(f, 1)) f->out[1] = x;
    OT_TRY(ot_status_of(x));
    return made(f, group_norm_of(f, x));
}

/* ---- norms, embeddings ---------------------------------------------------------------------- */

static ot_value *norm(ot_form *f, const char *name, ot_value *x, ot_value *scale, ot_value *bias, double epsilon)
{
    ot_form g;
    if (!x || !scale || ot_form_begin(f, &g, name, IN(x, scale, bias), 1)) return NULL;
    if (!bias) g.n_in = 2;
    if (ot_form_set_int(&g, "axis", -1) ||
        ot_form_set_float(&g, "epsilon", (float)ot_form_float(f, "epsilon", epsilon)))
        return NULL;
    return ot_form_finish(&g);
}

static ot_status skip_norm(ot_form *f, const char *name, int bias)
{
    ot_value *x = plus(f, OP("Add", f->in[0], f->in[1]), input(f, bias));
    OT_TRY(refuse_if(f, asked(f, 1) || asked(f, 2), "output of mean or deviation"));
    if (asked(f, 3)) f->out[3] = x;
    OT_TRY(ot_status_of(x));
    return made(f, norm(f, name, x, f->in[2], bias == 4 ? input(f, 3) : NULL, 1e-12));
}

static ot_status skip_layer_norm(ot_form *f) { return skip_norm(f, "LayerNormalization", 4); }
static ot_status skip_rms_norm(ot_form *f) { return skip_norm(f, "RMSNormalization", 3); }

static ot_status rms_norm(ot_form *f)
{
    OT_TRY(refuse_if(f, asked(f, 1), "output of the deviation"));
    f->n_out = 1;
    f->op = "RMSNormalization";
    f->domain = "";
    return OT_OK;
}

ot_status ot_simplified_norm(ot_form *f) { return rms_norm(f); }

/* Inputs: ids, segments, tables of words, positions and segments, scale, bias, mask, positions. */
static ot_status embed_norm(ot_form *f);

/* Tables, scale and bias (inputs 2 to 6) in integers; their scales are inputs 8 to 12, zero points 13 to 17. */
static ot_status quantised_embed_norm(ot_form *f)
{
    for (int i = 2; i < 7; i++) {
        if (!input(f, i)) continue;
        if (!input(f, i + 6)) return ot_form_finding(f, "input %d is missing", i + 6);
        f->in[i] = ot_form_before(f, "DequantizeLinear", IN(f->in[i], f->in[i + 6], input(f, i + 11)));
        OT_TRY(ot_status_of(f->in[i]));
    }
    f->n_in = f->n_in < 8 ? f->n_in : 8;
    return embed_norm(f);
}

static ot_status embed_norm(ot_form *f)
{
    if (f->n_in < 6 || !f->in[2] || !f->in[3] || !f->in[5])
        return ot_form_finding(f, "a table of words or positions, or the "
                                  "scale, is missing");
    ot_value *ids = f->in[0], *x = OP("Gather", f->in[2], ids), *places = input(f, 8), *mask = input(f, 7);
    places = places ? OP("Gather", f->in[3], places) : OP("Slice", f->in[3], list1(f, 0), size_of(f, ids, 1));
    x = places && x ? OP("Add", x, places) : NULL;
    if (x && input(f, 1) && input(f, 4)) x = OP("Add", x, OP("Gather", f->in[4], f->in[1]));
    if (asked(f, 2)) f->out[2] = x;
    if (asked(f, 1)) { /* how many are not masked */
        ot_form g;
        ot_value *count = mask ? mask : OP("Sub", ids, ids), *axis = list1(f, 1);
        if (!count || !axis || ot_form_begin(f, &g, "ReduceSum", IN(count, axis), 1) ||
            ot_form_set_int(&g, "keepdims", 0))
            return OT_E_NOMEM;
        count = ot_form_finish(&g);
        if (!count || !(f->out[1] = ot_form_before_int(f, "Cast", &count, 1, "to", OT_I32))) return OT_E_NOMEM;
    }
    OT_TRY(ot_status_of(x));
    return made(f, norm(f, "LayerNormalization", x, f->in[5], input(f, 6), 1e-12));
}

/* ---- attention ------------------------------------------------------------------------------------ */

/* Which keys are seen: before the ends (B); or before the ends and from the starts on, (2 B) in this order. */
static ot_value *seen_between(ot_form *f, ot_value *ends, ot_value *keys)
{
    ot_value *places = OP("Range", ot_form_const(f, OT_I64, 0, 1, &(double){ 0 }), one_of(f, keys),
                          ot_form_const(f, OT_I64, 0, 1, &(double){ 1 }));
    ot_value *each = ot_form_ints(f, (int64_t[]){ -1, 1, 1, 1 }, 4),
             *all = ot_form_before_int(f, "Cast", &ends, 1, "to", OT_I64), *first = list1(f, 0),
             *B = size_of(f, f->in[0], 0), *zeros = OP("Expand", first, B);
    if (!all || !zeros) return NULL;
    ot_value *both = ot_form_before_int(f, "Concat", IN(all, zeros), "axis", 0); /* without starts they are 0 */
    ot_value *end = OP("Reshape", OP("Slice", all, first, B), each),
             *start = OP("Reshape", OP("Slice", both, B, OP("Add", B, B)), each);
    return OP("And", OP("Less", places, end), OP("GreaterOrEqual", places, start));
}

/* What is added to the scores: for a mask of integers (B, S), (B, T, S), lengths (B) or ends and starts (2 B), and a
 * bias; NULL: nothing. */
static ot_value *added(ot_form *f, ot_value *mask, ot_value *keys, ot_value *bias, ot_value *like)
{
    if (!mask) return bias;
    int rank = rank_of(mask, 2);
    ot_value *zero = number(f, 0, like), *low = number(f, ot_form_float(f, "mask_filter_value", -10000), like), *seen;
    if (rank == 1) {
        seen = seen_between(f, mask, keys);
    } else if (rank == 2 || rank == 3) {
        ot_value *axes = rank == 2 ? ot_form_ints(f, (int64_t[]){ 1, 2 }, 2) : list1(f, 1);
        seen = OP("Unsqueeze",
                  OP("Greater", ot_form_before_int(f, "Cast", &mask, 1, "to", OT_I32),
                     ot_form_const(f, OT_I32, 0, 1, &(double){ 0 })),
                  axes);
    } else {
        ot_form_finding(f, "a mask of rank %d is not supported", rank);
        return mask;
    }
    ot_value *m = OP("Where", seen, zero, low);
    return m && bias ? OP("Add", m, bias) : m;
}

typedef struct attend {
    ot_value *q, *k, *v, *mask, *past_key, *past_value;
    int64_t heads, kv_heads, causal, window;
} attend;

/* Emits Attention; its outputs 1 and 2 to key and value, which may be NULL. */
static ot_value *attention_of(ot_form *f, const attend *a, ot_value **key, ot_value **value)
{
    ot_form g;
    bool present = key != NULL;
    int n = a->past_key ? 6 : a->mask ? 4 : 3;
    if (!a->q || !a->k || !a->v ||
        ot_form_begin(f, &g, "Attention", IN(a->q, a->k, a->v, a->mask, a->past_key, a->past_value), present ? 3 : 1))
        return NULL;
    g.n_in = n;
    if (ot_form_set_int(&g, "q_num_heads", a->heads) || ot_form_set_int(&g, "kv_num_heads", a->kv_heads) ||
        ot_form_set_int(&g, "is_causal", a->causal) ||
        ot_form_set_float(&g, "scale", (float)ot_form_float(f, "scale", 0)) ||
        ot_form_set_float(&g, "softcap", (float)ot_form_float(f, "softcap", 0)))
        return NULL;
    if (a->window >= 0 && ot_form_set_int(&g, "left_window_size", a->window)) return NULL;
    ot_value *y = ot_form_finish(&g);
    if (present) {
        *key = g.out[1];
        *value = g.out[2];
    }
    return y;
}

static ot_value *half_of(ot_form *f, ot_value *both, int64_t i)
{
    return both ? OP("Gather", both, ot_form_const(f, OT_I64, 0, 1, &(double){ (double)i })) : NULL;
}

/* all: x times the weights of q, k and v, with the bias; like: a tensor of the type of floats. */
static ot_status attention_with(ot_form *f, ot_value *all, ot_value *mask, ot_value *past, ot_value *bias,
                                ot_value *like)
{
    const ot_attribute *sizes = ot_form_get(f, "qkv_hidden_sizes");
    ot_value *part[3], *key = NULL, *value = NULL;
    attend a = { .heads = ot_form_int(f, "num_heads", 0), .causal = ot_form_int(f, "unidirectional", 0), .window = -1 };
    ot_value *cut = sizes ? ot_form_ints(f, sizes->ints, sizes->n_ints)
                          : OP("Tile", OP("Div", size_of(f, all, -1), list1(f, 3)), list1(f, 3));
    OT_TRY(split(f, all, cut, part));
    a.kv_heads = a.heads;
    a.q = part[0], a.k = part[1], a.v = part[2];
    a.past_key = half_of(f, past, 0), a.past_value = half_of(f, past, 1);
    ot_value *keys = size_of(f, f->in[0], 1);
    if (past) keys = OP("Add", keys, size_of(f, past, 3));
    if (mask || bias) {
        a.mask = added(f, mask, keys, bias, like);
        if (!a.mask) return OT_E_NOMEM;
    }
    ot_value *y = attention_of(f, &a, asked(f, 1) ? &key : NULL, &value);
    if (y && asked(f, 1)) {
        ot_value *first = list1(f, 0), *k = OP("Unsqueeze", key, first), *v = OP("Unsqueeze", value, first);
        if (!k || !v) return OT_E_NOMEM;
        f->out[1] = ot_form_before_int(f, "Concat", IN(k, v), "axis", 0);
        OT_TRY(ot_status_of(f->out[1]));
    }
    return made(f, y);
}

/* Inputs: x, weights and bias of q, k, v in one, mask, past of both in one, bias of the scores. */
static ot_status attention(ot_form *f)
{
    ot_value *all = OP("MatMul", f->in[0], f->in[1]);
    OT_TRY(refuse_if(f, ot_form_int(f, "do_rotary", 0) || ot_form_int(f, "past_present_share_buffer", 0) || input(f, 6),
                     "do_rotary or a shared cache"));
    return attention_with(f, all ? plus(f, all, input(f, 2)) : NULL, input(f, 3), input(f, 4), input(f, 5), f->in[0]);
}

/* The same with x and weights in integers: scales are inputs 3 and 4, zero points 6 and 7, mask and past 5 and 8. */
static ot_status quantised_attention(ot_form *f)
{
    OT_TRY(ot_form_require(f, 0x1f));
    ot_value *all = ot_scaled_product(f, f->in[0], f->in[1], input(f, 6), input(f, 7), f->in[3], f->in[4]);
    OT_TRY(ot_status_of(all));
    return attention_with(f, plus(f, all, f->in[2]), input(f, 5), input(f, 8), NULL, f->in[2]);
}

/* The n parts of x (B, T, heads, n, channels), each (B, T, heads * channels). */
static ot_status unpack(ot_form *f, ot_value *x, int n, ot_value **part)
{
    ot_form g;
    if (!x || ot_form_begin(f, &g, "Split", &x, 1, n) || ot_form_set_int(&g, "axis", 3) ||
        ot_form_set_int(&g, "num_outputs", n) || !ot_form_finish(&g))
        return OT_E_NOMEM;
    for (int i = 0; i < n; i++) {
        part[i] = OP("Reshape", g.out[i], ot_form_ints(f, (int64_t[]){ 0, 0, -1 }, 3));
        OT_TRY(ot_status_of(part[i]));
    }
    return OT_OK;
}

/* Inputs: q, k, v, bias of all in one, mask of keys, bias of the scores, pasts.  All three may come in the first, k and v in the second. */
static ot_status multi_head(ot_form *f)
{
    attend a = { .q = f->in[0],
                 .k = input(f, 1),
                 .v = input(f, 2),
                 .heads = ot_form_int(f, "num_heads", 0),
                 .causal = ot_form_int(f, "unidirectional", 0),
                 .past_key = input(f, 6),
                 .past_value = input(f, 7),
                 .window = -1 };
    ot_value *b[3], *key = NULL, *value = NULL;
    ot_value *packed[3] = { a.q, a.k, a.v };
    if (!a.k && !a.v) OT_TRY(unpack(f, a.q, 3, packed));
    if (a.k && !a.v && !a.past_key) OT_TRY(unpack(f, a.k, 2, packed + 1));
    a.q = packed[0], a.k = packed[1], a.v = packed[2];
    OT_TRY(refuse_if(f, !a.k || !a.v, "this packing of q, k and v"));
    OT_TRY(refuse_if(f, input(f, 8) || input(f, 9) || asked(f, 3), "a shared cache or an output of the scores"));
    a.kv_heads = a.heads;
    if (input(f, 3)) {
        ot_value *q = size_of(f, a.q, -1), *k = size_of(f, a.k, -1), *v = size_of(f, a.v, -1);
        if (!q || !k || !v) return OT_E_NOMEM;
        OT_TRY(split(f, f->in[3], ot_form_before_int(f, "Concat", IN(q, k, v), "axis", 0), b));
        a.q = OP("Add", a.q, b[0]), a.k = OP("Add", a.k, b[1]), a.v = OP("Add", a.v, b[2]);
    }
    ot_value *keys = a.k ? size_of(f, a.k, 1) : NULL;
    if (a.past_key) keys = OP("Add", keys, size_of(f, a.past_key, 2));
    if (input(f, 4) || input(f, 5)) {
        a.mask = added(f, input(f, 4), keys, input(f, 5), f->in[0]);
        if (!a.mask) return OT_E_NOMEM;
    }
    ot_value *y = attention_of(f, &a, asked(f, 1) || asked(f, 2) ? &key : NULL, &value);
    if (asked(f, 1)) f->out[1] = key;
    if (asked(f, 2)) f->out[2] = value;
    return made(f, y);
}

/* The places of x's tokens (B, T), on that axis, behind `past` others, which may be NULL. */
static ot_value *places_of(ot_form *f, ot_value *x, int axis, ot_value *past)
{
    ot_value *zero = list1(f, 0), *T = size_of(f, x, axis), *from = past ? past : zero;
    ot_value *line =
        OP("Range", one_of(f, from), one_of(f, OP("Add", from, T)), ot_form_const(f, OT_I64, 0, 1, &(double){ 1 }));
    ot_value *B = size_of(f, x, 0), *shape = B && T ? ot_form_before_int(f, "Concat", IN(B, T), "axis", 0) : NULL;
    return OP("Expand", line, shape);
}

static ot_value *rotated(ot_form *f, ot_value *x, ot_value *cos, ot_value *sin, ot_value *places, int64_t heads,
                         bool pairs)
{
    ot_form g;
    if (!x || !places || ot_form_begin(f, &g, "RotaryEmbedding", IN(x, cos, sin, places), 1)) return NULL;
    if (ot_form_set_int(&g, "interleaved", pairs) || ot_form_set_int(&g, "num_heads", heads ? heads : -1) ||
        ot_form_set_int(&g, "rotary_embedding_dim", ot_form_int(f, "rotary_embedding_dim", 0)))
        return NULL;
    return ot_form_finish(&g);
}

/* Inputs: x, places of the tokens or the first's, tables of cosines and sines. */
static ot_status rotary(ot_form *f)
{
    ot_value *x = f->in[0], *places = f->in[1];
    if (!places || !f->in[2] || !f->in[3])
        return ot_form_finding(f, "position ids or the tables of cosines and sines are "
                                  "missing");
    OT_TRY(refuse_if(f, ot_form_int(f, "is_packed_batching", 0) || ot_form_float(f, "scale", 1) != 1,
                     "packed batching or a scale"));
    if (rank_of(places, 2) == 1) {
        ot_value *all = places_of(f, x, -2, NULL); /* x: (B, T, H) or (B, heads, T, H) */
        places = OP("Add", all, ot_form_before_int(f, "Cast", &places, 1, "to", OT_I64));
    }
    return made(f, rotated(f, x, f->in[2], f->in[3], places, ot_form_int(f, "num_heads", 0),
                           ot_form_int(f, "interleaved", 0) != 0));
}

/* Inputs: q, k, v, pasts, lengths, tables of cosines and sines, places, bias of the scores. */
static ot_status grouped(ot_form *f)
{
    attend a = { .q = f->in[0],
                 .k = input(f, 1),
                 .v = input(f, 2),
                 .past_key = input(f, 3),
                 .past_value = input(f, 4),
                 .mask = input(f, 10),
                 .heads = ot_form_int(f, "num_heads", 0),
                 .kv_heads = ot_form_int(f, "kv_num_heads", 0),
                 .causal = 1 };
    int64_t window = ot_form_int(f, "local_window_size", -1); /* counts the token itself */
    ot_value *part[3], *key = NULL, *value = NULL, *places = input(f, 9);
    OT_TRY(refuse_if(f, input(f, 11) || ot_form_int(f, "smooth_softmax", 0) || asked(f, 3),
                     "smooth_softmax, a sink or an output of the scores"));
    if (a.heads < 1 || a.kv_heads < 1 || a.heads > INT32_MAX || a.kv_heads > INT32_MAX)
        return ot_form_finding(f, "num_heads and kv_num_heads are needed, from 1 to %d", INT32_MAX);
    if (a.k && !a.v) return ot_form_finding(f, "input 2 is missing");
    a.window = window > 0 ? window - 1 : -1;
    if (!a.k) {
        int64_t n[] = { a.heads, a.kv_heads, a.kv_heads };
        ot_value *each = OP("Div", size_of(f, a.q, -1), list1(f, a.heads + 2 * a.kv_heads));
        OT_TRY(split(f, a.q, OP("Mul", each, ot_form_ints(f, n, 3)), part));
        a.q = part[0], a.k = part[1], a.v = part[2];
    }
    if (a.past_key)
        ot_note(f->job, "%.200s: GroupQueryAttention: all sequences are assumed to fill the cache", f->name);
    if (ot_form_int(f, "do_rotary", 0)) {
        bool pairs = ot_form_int(f, "rotary_interleaved", 0) != 0;
        if (!input(f, 7) || !input(f, 8)) return ot_form_finding(f, "do_rotary needs tables of cosines and sines");
        if (!places) places = places_of(f, a.q, 1, a.past_key ? size_of(f, a.past_key, 2) : NULL);
        a.q = rotated(f, a.q, f->in[7], f->in[8], places, a.heads, pairs);
        a.k = rotated(f, a.k, f->in[7], f->in[8], places, a.kv_heads, pairs);
    }
    ot_value *y = attention_of(f, &a, asked(f, 1) || asked(f, 2) ? &key : NULL, &value);
    if (asked(f, 1)) f->out[1] = key;
    if (asked(f, 2)) f->out[2] = value;
    return made(f, y);
}

/* What ai.onnx has by the same name, as it was when ONNX Runtime had it alone. */
static ot_status grid_sample(ot_form *f)
{
    f->domain = "";
    f->version = 16;
    return ot_upgrade(f);
}

/* Distances of each row of the first from each of the second. */
static ot_status distances(ot_form *f)
{
    ot_value *a = OP("Unsqueeze", f->in[0], list1(f, 1)), *d = OP("Sub", a, f->in[1]), *axis = list1(f, -1);
    OT_TRY(refuse_if(f,
                     !ot_form_says(f, "metric", "euclidean") && ot_form_get(f, "metric") &&
                         !ot_form_says(f, "metric", "sqeuclidean"),
                     "another metric than euclidean and sqeuclidean"));
    if (!d || !axis) return OT_E_NOMEM;
    return made(f, ot_form_before_int(f, ot_form_says(f, "metric", "euclidean") ? "ReduceL2" : "ReduceSumSquare",
                                      IN(d, axis), "keepdims", 0));
}

static ot_status range(ot_form *f)
{
    ot_value *step = input(f, 2) ? f->in[2] : number(f, 1, f->in[0]);
    return made(f, OP("Range", f->in[0], f->in[1], step));
}

/* What ai.onnx has by the same name. */
static ot_status same_there(ot_form *f)
{
    f->domain = "";
    f->version = INT32_MAX;
    return OT_OK;
}

/* ---- the table ---------------------------------------------------------------------------------------- */

static const ot_rewriting table[] = {
    { "Attention", 2, 2, attention },
    { "BiasAdd", 3, 1, bias_add },
    { "BiasGelu", 2, 1, gelu },
    { "BiasSplitGelu", 2, 1, bias_split_gelu },
    { "CDist", 2, 1, distances },
    { "DequantizeLinear", 2, 1, same_there },
    { "DynamicQuantizeLSTM", 12, 3, ot_dynamic_quantize_lstm },
    { "DynamicQuantizeMatMul", 3, 1, ot_dynamic_quantize_matmul },
    { "EmbedLayerNormalization", 1, 3, embed_norm },
    { "ExpandDims", 2, 1, expand_dims },
    { "FastGelu", 1, 1, fast_gelu },
    { "FusedConv", 2, 1, fused_conv },
    { "FusedGemm", 2, 1, fused_gemm },
    { "FusedMatMul", 2, 1, fused_matmul },
    { "GatherBlockQuantized", 3, 1, ot_gather_blocks },
    { "GatherND", 2, 1, same_there },
    { "Gelu", 1, 1, gelu },
    { "GridSample", 2, 1, grid_sample },
    { "GroupNorm", 3, 1, group_norm },
    { "GroupQueryAttention", 1, 4, grouped },
    { "MatMulIntegerToFloat", 4, 1, ot_matmul_integer_to_float },
    { "MatMulNBits", 3, 1, ot_matmul_nbits },
    { "MultiHeadAttention", 1, 4, multi_head },
    { "NhwcConv", 2, 1, nhwc_conv },
    { "NhwcFusedConv", 2, 1, nhwc_conv },
    { "NhwcMaxPool", 1, 1, ot_nhwc_max_pool },
    { "Pad", 2, 1, same_there },
    { "QAttention", 5, 2, quantised_attention },
    { "QEmbedLayerNormalization", 13, 2, quantised_embed_norm },
    { "QGemm", 6, 1, ot_qgemm },
    { "QLinearAdd", 7, 1, ot_qlinear_sum },
    { "QLinearAveragePool", 4, 1, ot_qlinear_pool },
    { "QLinearConcat", 5, 1, ot_qlinear_concat },
    { "QLinearConv", 8, 1, ot_qlinear_conv },
    { "QLinearGlobalAveragePool", 4, 1, ot_qlinear_pool },
    { "QLinearLeakyRelu", 4, 1, ot_qlinear_unary },
    { "QLinearMul", 7, 1, ot_qlinear_sum },
    { "QLinearSigmoid", 4, 1, ot_qlinear_unary },
    { "QLinearSoftmax", 5, 1, ot_qlinear_softmax },
    { "QLinearWhere", 8, 1, ot_qlinear_where },
    { "QuantizeLinear", 2, 1, same_there },
    { "QuickGelu", 1, 1, quick_gelu },
    { "Range", 2, 1, range },
    { "RotaryEmbedding", 4, 1, rotary },
    { "SimplifiedLayerNormalization", 2, 2, rms_norm },
    { "SkipGroupNorm", 4, 2, skip_group_norm },
    { "SkipLayerNormalization", 3, 4, skip_layer_norm },
    { "SkipSimplifiedLayerNormalization", 3, 4, skip_rms_norm },
    { "TransposeMatMul", 2, 1, fused_matmul },
    { "Trilu", 1, 1, same_there },
};

const ot_rewriting *ot_microsoft_at(int i) { return i >= 0 && i < OT_LEN(table) ? &table[i] : NULL; }

ot_status ot_microsoft(ot_form *f)
{
    for (int i = 0; i < OT_LEN(table); i++) {
        const ot_rewriting *r = &table[i];
        if (strcmp(r->op, f->op) != 0) continue;
        bool whole = f->n_in >= r->inputs && f->n_out <= r->outputs && f->n_in && f->in[0];
        for (int k = 0; whole && k < r->inputs && r->inputs < 4; k++)
            whole = f->in[k] != NULL; /* longer lists have holes */
        if (!whole)
            return ot_form_finding(f,
                                   "%d inputs and %d outputs do not fit the operator, or a required input is missing",
                                   f->n_in, f->n_out);
        return r->rewrite(f);
    }
    return OT_OK;
}
