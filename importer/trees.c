/* trees.c - rewrites ensembles of decision trees into operators of ai.onnx: every sample descends all trees at once.
 *
 * Spec    ai.onnx.ml TreeEnsemble 5; TreeEnsembleRegressor, TreeEnsembleClassifier 1, 3, 5.
 * Shapes  X: (N, F)   the node that each sample has reached in each tree: (N, trees)   Y: (N, targets)
 * Grad    none of X: comparisons have no gradient
 *
 * The trees are tables with a row per node.  A leaf is its own child, so that all samples take as many steps as the
 * deepest tree. */
#include "importer/ml.h"

#include <float.h>
#include <stdlib.h>

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF, MODES };
enum { AVERAGE, SUM, MIN, MAX };

static const char *const mode_names[] = { "BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                          "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF" };
static const char *const sums[] = { "AVERAGE", "SUM", "MIN", "MAX" };

typedef struct trees {
    int64_t n, roots, leaves, targets, members; /* nodes, trees, rows of weights, columns; length of the longest set */
    int64_t *feature, *mode, *yes, *no, *missing, *leaf, *root, *set; /* by node, but for root; leaf and set: the row */
    double *split, *weight, *member; /* weight: (leaves, targets); member: (sets, members), NaN behind each set's end */
    int depth, sum;
} trees;

static int64_t *int_list(ot_form *f, int64_t n) { return ot_job_alloc(f->job, (size_t)(n + 1) * sizeof(int64_t)); }
static double *double_list(ot_form *f, int64_t n) { return ot_job_alloc(f->job, (size_t)(n + 1) * sizeof(double)); }

static ot_status make_nodes(ot_form *f, trees *t, int64_t n)
{
    int64_t **list[] = { &t->feature, &t->mode, &t->yes, &t->no, &t->missing, &t->leaf, &t->root, &t->set };
    t->n = n;
    for (int i = 0; i < OT_LEN(list); i++) {
        *list[i] = int_list(f, n);
        OT_TRY(ot_status_of(*list[i]));
    }
    t->split = double_list(f, n);
    return ot_status_of(t->split);
}

/* Rows of weights, of what changes no aggregate. */
static ot_status make_weights(ot_form *f, trees *t)
{
    int64_t all;
    if (!ot_mul(t->leaves, t->targets, &all) || all > INT64_C(1) << 28)
        return ot_form_finding(f, "%lld leaves of %lld targets are too many", (long long)t->leaves,
                               (long long)t->targets);
    t->weight = double_list(f, all);
    OT_TRY(ot_status_of(t->weight));
    for (int64_t i = 0; i < all && (t->sum == MIN || t->sum == MAX); i++)
        t->weight[i] = t->sum == MIN ? (double)INFINITY : -(double)INFINITY;
    return OT_OK;
}

/* How deep the trees are; -1: one of them is none. */
static int measure(ot_form *f, const trees *t)
{
    int deepest = 0;
    int64_t top, steps = 0, *stack = int_list(f, 2 * t->n + 2);
    if (!stack) return -1;
    for (int64_t r = 0; r < t->roots; r++) {
        stack[0] = t->root[r], stack[1] = 0;
        for (top = 1; top > 0;) {
            int64_t at = stack[2 * --top], deep = stack[2 * top + 1];
            if (at < 0 || at >= t->n || ++steps > t->n || deep > 1000) return -1;
            if (deep > deepest) deepest = (int)deep;
            if (t->mode[at] == LEAF) continue;
            stack[2 * top] = t->yes[at], stack[2 * top++ + 1] = deep + 1;
            if (top > t->n) return -1;
            stack[2 * top] = t->no[at], stack[2 * top++ + 1] = deep + 1;
        }
    }
    return deepest;
}

/* ---- the walk --------------------------------------------------------------------- */

static ot_value *floats(ot_form *f, const double *v, int64_t rows, int64_t columns, ot_dtype type)
{
    ot_shape s = { .rank = rows ? 2 : 1, .dim = { rows ? rows : columns, columns } };
    void *p = ot_job_alloc(f->job, ot_bytes(&s, type) + 1);
    for (int64_t i = 0; p && i < ot_numel(&s); i++) ot_set_f64(p, type, i, v[i]);
    return p ? ot_graph_const(f->scope->graph, f->name, type, &s, p) : NULL;
}

static ot_value *pick(ot_form *f, ot_value *table, ot_value *at) { return ot_ml_op(f, "Gather", table, at); }

/* Where each sample is in each tree before the first step. */
static ot_value *start(ot_form *f, const trees *t, ot_value *x)
{
    ot_value *n = x ? ot_form_before(f, "Shape", &x, 1) : NULL, *all;
    if (!n || !(n = pick(f, n, ot_form_ints(f, &(int64_t){ 0 }, 1)))) return NULL;
    all = ot_ml_joined(f, n, ot_form_ints(f, &t->roots, 1), 0);
    return ot_ml_op(f, "Expand", ot_form_ints(f, t->root, (size_t)t->roots), all);
}

/* Is x in the set of the node? */
static ot_value *is_member(ot_form *f, const trees *t, int64_t sets, ot_value *x, ot_value *at, ot_dtype type)
{
    ot_value *last = ot_form_ints(f, &(int64_t){ -1 }, 1);
    ot_value *set =
        pick(f, floats(f, t->member, sets, t->members, type), pick(f, ot_form_ints(f, t->set, (size_t)t->n), at));
    ot_value *hit = ot_ml_op(f, "Equal", ot_ml_op(f, "Unsqueeze", x, last), set);
    hit = hit ? ot_form_before_int(f, "Cast", &hit, 1, "to", OT_I64) : NULL;
    hit = hit && last ? ot_form_before_int(f, "ReduceMax", (ot_value *[]){ hit, last }, 2, "keepdims", 0) : NULL;
    return ot_ml_op(f, "Greater", hit, ot_form_const(f, OT_I64, 0, 1, &(double){ 0 }));
}

/* Which samples go to the node's first child: (N, trees). */
static ot_value *decide(ot_form *f, const trees *t, int64_t sets, ot_value *x, ot_value *at, ot_dtype type)
{
    static const char *const compare[] = { "LessOrEqual", "Less", "GreaterOrEqual", "Greater", "Equal", "Equal" };
    ot_value *split = pick(f, floats(f, t->split, 0, t->n, type), at), *mode = NULL, *all = NULL;
    bool used[MODES] = { false }, missing = false;
    for (int64_t i = 0; i < t->n; i++) used[t->mode[i]] = true, missing |= t->missing[i] != 0;
    for (int m = 0; m < LEAF; m++) {
        if (!used[m]) continue;
        ot_value *hit = m == MEMBER ? is_member(f, t, sets, x, at, type) : ot_ml_op(f, compare[m], x, split);
        if (m == NEQ && hit) hit = ot_form_before(f, "Not", &hit, 1);
        if (!hit) return NULL;
        if (!all) {
            all = hit;
            continue;
        }
        if (!mode && !(mode = pick(f, ot_form_ints(f, t->mode, (size_t)t->n), at))) return NULL;
        ot_value *here = ot_ml_op(f, "Equal", mode, ot_form_const(f, OT_I64, 0, 1, &(double){ m }));
        if (!here || !(all = ot_form_before(f, "Where", (ot_value *[]){ here, hit, all }, 3))) return NULL;
    }
    if (!missing || !all) return all;
    ot_value *nan = ot_form_before(f, "IsNaN", &x, 1);
    ot_value *track = ot_ml_op(f, "Greater", pick(f, ot_form_ints(f, t->missing, (size_t)t->n), at),
                               ot_form_const(f, OT_I64, 0, 1, &(double){ 0 }));
    return ot_ml_op(f, "Or", all, ot_ml_op(f, "And", nan, track));
}

/* The aggregated weights, (N, targets), of element type `type`. */
static ot_value *walk(ot_form *f, trees *t, int64_t sets, ot_dtype type)
{
    ot_value *x = ot_form_before_int(f, "Cast", f->in, 1, "to", type), *at = start(f, t, x);
    t->depth = measure(f, t);
    if (t->depth < 0) {
        ot_form_finding(f, "its nodes do not form trees");
        return NULL;
    }
    ot_value *feature = ot_form_ints(f, t->feature, (size_t)t->n), *yes = ot_form_ints(f, t->yes, (size_t)t->n),
             *no = ot_form_ints(f, t->no, (size_t)t->n);
    for (int d = 0; d < t->depth && at; d++) {
        ot_value *which = pick(f, feature, at);
        ot_value *value =
            x && which ? ot_form_before_int(f, "GatherElements", (ot_value *[]){ x, which }, 2, "axis", 1) : NULL;
        ot_value *hit = decide(f, t, sets, value, at, type), *then = pick(f, yes, at), *other = pick(f, no, at);
        at = hit && then && other ? ot_form_before(f, "Where", (ot_value *[]){ hit, then, other }, 3) : NULL;
    }
    static const char *const reduce[] = { "ReduceMean", "ReduceSum", "ReduceMin", "ReduceMax" };
    ot_value *row = at ? pick(f, ot_form_ints(f, t->leaf, (size_t)t->n), at) : NULL,
             *one = ot_form_ints(f, &(int64_t){ 1 }, 1);
    ot_value *w = row ? pick(f, floats(f, t->weight, t->leaves, t->targets, type), row) : NULL;
    return w && one ? ot_form_before_int(f, reduce[t->sum], (ot_value *[]){ w, one }, 2, "keepdims", 0) : NULL;
}

/* ---- TreeEnsemble: leaves have tables of their own ------------------------------------------- */

/* A tensor attribute of n numbers; n < 0: of any count, which *n becomes. */
static double *tensor(ot_form *f, const char *name, int64_t *n, ot_dtype *type)
{
    ot_blob b = { 0 };
    if (ot_ml_tensor(f, name, &b) != OT_OK) return NULL;
    int64_t count = ot_numel(&b.shape);
    if (*n >= 0 && count != *n) {
        ot_form_finding(f, "%s has %lld elements, expected %lld", name, (long long)count, (long long)*n);
        return NULL;
    }
    double *v = double_list(f, count);
    for (int64_t i = 0; v && i < count; i++) v[i] = ot_get_f64(b.data, b.dtype, i);
    *n = count;
    if (type) *type = b.dtype;
    return v;
}

static const int64_t *ints(ot_form *f, const char *name, int64_t n)
{
    const ot_attribute *a = ot_form_get(f, name);
    if (a && (int64_t)a->n_ints == n) return a->ints;
    ot_form_finding(f, "%s has %lld elements, expected %lld", name, a ? (long long)a->n_ints : 0, (long long)n);
    return NULL;
}

/* The sets of the nodes that ask for membership: as listed, with a NaN behind each. */
static int64_t read_sets(ot_form *f, trees *t)
{
    int64_t count = -1, sets = 0, longest = 1, at = 0;
    for (int64_t i = 0; i < t->n; i++) t->set[i] = t->mode[i] == MEMBER ? sets++ : 0;
    if (!sets) return 0;
    double *all = tensor(f, "membership_values", &count, NULL);
    if (!all) return -1;
    for (int64_t i = 0, n = 0; i < count; i++) {
        n = isnan(all[i]) ? 0 : n + 1;
        if (n > longest) longest = n;
    }
    int64_t room;
    t->members = longest;
    if (!ot_mul(sets, longest, &room) || room > INT64_C(1) << 26) {
        ot_form_finding(f, "its sets are too large");
        return -1;
    }
    if (!(t->member = double_list(f, room))) return -1;
    for (int64_t i = 0; i < room; i++) t->member[i] = NAN;
    for (int64_t s = 0; s < sets; s++) {
        for (int64_t k = 0; at < count && !isnan(all[at]); at++) t->member[s * longest + k++] = all[at];
        if (at < count) at++;
    }
    return sets;
}

/* A child: a node, or a leaf behind all nodes; -1: there is none such. */
static int64_t child(int64_t id, int64_t leaf, int64_t inner, int64_t leaves)
{
    if (id < 0 || id >= (leaf ? leaves : inner)) return -1;
    return leaf ? inner + id : id;
}

ot_status ot_ml_tree_ensemble(ot_form *f)
{
    const ot_attribute *root = ot_form_get(f, "tree_roots"), *feature = ot_form_get(f, "nodes_featureids"),
                       *leaf = ot_form_get(f, "leaf_targetids");
    ot_ml_fixed(f, "nodes_splits and leaf_weights");
    if (!root || !feature || !leaf || !root->n_ints)
        return ot_form_finding(f, "tree_roots, nodes_featureids and "
                                  "leaf_targetids are required");
    int64_t n = (int64_t)feature->n_ints, leaves = (int64_t)leaf->n_ints, all = n + leaves;
    ot_dtype type = OT_F32;
    int64_t sum = ot_form_int(f, "aggregate_function", SUM);
    trees t = { .roots = (int64_t)root->n_ints, .leaves = leaves, .targets = ot_form_int(f, "n_targets", 1) };
    const int64_t *yes = ints(f, "nodes_truenodeids", n), *no = ints(f, "nodes_falsenodeids", n),
                  *yes_leaf = ints(f, "nodes_trueleafs", n), *no_leaf = ints(f, "nodes_falseleafs", n),
                  *missing = ot_form_get(f, "nodes_missing_value_tracks_true")
                                 ? ints(f, "nodes_missing_value_tracks_true", n)
                                 : NULL;
    double *mode = tensor(f, "nodes_modes", &n, NULL), *split = tensor(f, "nodes_splits", &n, &type),
           *weight = tensor(f, "leaf_weights", &leaves, NULL);
    if (!yes || !no || !yes_leaf || !no_leaf || !mode || !split || !weight) return OT_E_MODEL;
    if (sum < AVERAGE || sum > MAX || t.targets < 1 || t.roots > all)
        return ot_form_finding(f, "aggregate_function, n_targets or tree_roots");
    t.sum = (int)sum;
    OT_TRY(make_nodes(f, &t, all));
    OT_TRY(make_weights(f, &t));
    for (int64_t i = 0; i < all; i++) {
        bool inner = i < n;
        t.mode[i] = !inner ? LEAF : mode[i] >= 0 && mode[i] <= (double)MEMBER ? (int64_t)mode[i] : -1;
        t.yes[i] = inner ? child(yes[i], yes_leaf[i], n, leaves) : i;
        t.no[i] = inner ? child(no[i], no_leaf[i], n, leaves) : i;
        if (t.mode[i] < 0 || t.yes[i] < 0 || t.no[i] < 0)
            return ot_form_finding(f,
                                   "node %lld has an invalid child or an "
                                   "unknown mode",
                                   (long long)i);
        t.feature[i] = inner ? feature->ints[i] : 0;
        t.split[i] = inner ? split[i] : 0;
        t.missing[i] = inner && missing ? missing[i] : 0;
        t.leaf[i] = inner ? 0 : i - n;
    }
    for (int64_t i = 0; i < leaves; i++) {
        if (leaf->ints[i] < 0 || leaf->ints[i] >= t.targets)
            return ot_form_finding(f, "leaf %lld has invalid target %lld", (long long)i, (long long)leaf->ints[i]);
        t.weight[i * t.targets + leaf->ints[i]] = weight[i];
    }
    for (int64_t i = 0; i < t.roots; i++) t.root[i] = root->ints[i];
    int64_t sets = read_sets(f, &t), post = ot_form_int(f, "post_transform", 0);
    static const char *const names[] = { "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" };
    if (post < 0 || post >= OT_LEN(names)) return ot_form_finding(f, "unknown post_transform %lld", (long long)post);
    ot_value *y = sets < 0 ? NULL : ot_ml_transform(f, walk(f, &t, sets, type), names[post]);
    return ot_ml_made(f, y);
}

/* ---- TreeEnsembleRegressor, TreeEnsembleClassifier: nodes by (tree, node), weights by leaf ------- */

typedef struct key {
    int64_t tree, node, at;
} key;

static int by_key(const void *a, const void *b)
{
    const key *x = a, *y = b;
    if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static int64_t find(const key *k, int64_t n, int64_t tree, int64_t node)
{
    const key *hit = bsearch(&(key){ tree, node, 0 }, k, (size_t)n, sizeof *k, by_key);
    return hit ? hit->at : -1;
}

/* The floats of an attribute, or of its form as a tensor; *n < 0: it is missing. */
static double *numbers(ot_form *f, const char *name, int64_t *n, ot_dtype *type)
{
    const char *other = ot_arena_printf(f->job->f->arena, "%s_as_tensor", name);
    const ot_attribute *a = ot_form_get(f, name);
    *n = -1;
    if (other && ot_form_get(f, other)) return tensor(f, other, n, type);
    if (!other || !a) return NULL;
    double *v = double_list(f, (int64_t)a->n_floats);
    for (size_t i = 0; v && i < a->n_floats; i++) v[i] = (double)a->floats[i];
    *n = (int64_t)a->n_floats;
    return v;
}

static int mode_of(const ot_attribute *a, size_t i)
{
    int m = 0;
    while (m < MODES &&
           (strlen(mode_names[m]) != a->strings[i].len || memcmp(mode_names[m], a->strings[i].data, a->strings[i].len)))
        m++;
    return m;
}

/* Nodes and roots; the weights' keys in *index. */
static ot_status read_nodes(ot_form *f, trees *t, key **index, ot_dtype *type)
{
    const ot_attribute *modes = ot_form_get(f, "nodes_modes");
    int64_t n = modes ? (int64_t)modes->n_strings : 0, count;
    const int64_t *tree = ints(f, "nodes_treeids", n), *node = ints(f, "nodes_nodeids", n),
                  *feature = ints(f, "nodes_featureids", n), *yes = ints(f, "nodes_truenodeids", n),
                  *no = ints(f, "nodes_falsenodeids", n),
                  *missing = ot_form_get(f, "nodes_missing_value_tracks_true")
                                 ? ints(f, "nodes_missing_value_tracks_true", n)
                                 : NULL;
    double *split = numbers(f, "nodes_values", &count, type);
    if (!n || !tree || !node || !feature || !yes || !no || !split || count != n)
        return ot_form_finding(f, "its node attributes are incomplete");
    OT_TRY(make_nodes(f, t, n));
    *index = ot_job_alloc(f->job, (size_t)n * sizeof **index);
    OT_TRY(ot_status_of(*index));
    for (int64_t i = 0; i < n; i++) (*index)[i] = (key){ tree[i], node[i], i };
    qsort(*index, (size_t)n, sizeof **index, by_key);
    for (int64_t i = 0; i < n; i++) {
        bool leaf = (t->mode[i] = mode_of(modes, (size_t)i)) == LEAF;
        t->yes[i] = leaf ? i : find(*index, n, tree[i], yes[i]);
        t->no[i] = leaf ? i : find(*index, n, tree[i], no[i]);
        if (t->mode[i] > LEAF || t->mode[i] == MEMBER || t->yes[i] < 0 || t->no[i] < 0)
            return ot_form_finding(f, "node %lld has an invalid child or an unknown mode", (long long)i);
        t->feature[i] = leaf ? 0 : feature[i];
        t->split[i] = split[i];
        t->missing[i] = missing ? missing[i] : 0;
        if (leaf) t->leaf[i] = t->leaves++;
        if (i == 0 || tree[i] != tree[i - 1]) t->root[t->roots++] = i;
    }
    return OT_OK;
}

/* Weights of `what` ("target", "class"); *only: the one column that they all have, -1: several. */
static ot_status read_weights(ot_form *f, trees *t, const key *index, const char *what, int64_t *only, bool *positive)
{
    char name[64];
    int64_t n;
    *only = -1, *positive = true;
    snprintf(name, sizeof name, "%s_weights", what);
    double *w = numbers(f, name, &n, NULL);
    if (!w) return ot_form_finding(f, "%s is missing", name);
    snprintf(name, sizeof name, "%s_treeids", what);
    const int64_t *tree = ints(f, name, n);
    snprintf(name, sizeof name, "%s_nodeids", what);
    const int64_t *node = ints(f, name, n);
    snprintf(name, sizeof name, "%s_ids", what);
    const int64_t *id = ints(f, name, n);
    if (!tree || !node || !id) return OT_E_MODEL;
    OT_TRY(make_weights(f, t));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = find(index, t->n, tree[i], node[i]);
        if (at < 0 || t->mode[at] != LEAF || id[i] < 0 || id[i] >= t->targets)
            return ot_form_finding(f, "weight %lld has no leaf or no target", (long long)i);
        double *to = &t->weight[t->leaf[at] * t->targets + id[i]];
        *to = isinf(*to) ? w[i] : *to + w[i];
        *only = i == 0 ? id[0] : id[i] == *only ? *only : -1;
        *positive &= w[i] >= 0;
    }
    return OT_OK;
}

static ot_value *with_base(ot_form *f, ot_value *y, const trees *t, ot_dtype type)
{
    int64_t n;
    double *base = numbers(f, "base_values", &n, NULL);
    if (!base || n < 1 || !y) return y;
    if (n != 1 && n != t->targets) {
        ot_form_finding(f, "%lld base values for %lld targets", (long long)n, (long long)t->targets);
        return NULL;
    }
    return ot_ml_op(f, "Add", y, floats(f, base, 0, n, type));
}

static ot_value *narrow(ot_form *f, ot_value *y)
{
    return y ? ot_form_before_int(f, "Cast", &y, 1, "to", OT_F32) : NULL;
}

ot_status ot_ml_tree_regressor(ot_form *f)
{
    trees t = { .targets = ot_form_int(f, "n_targets", 1), .sum = SUM };
    key *index;
    int64_t only;
    bool positive;
    ot_dtype type = OT_F32;
    for (int i = 0; i < OT_LEN(sums); i++)
        if (ot_form_says(f, "aggregate_function", sums[i])) t.sum = i;
    ot_ml_fixed(f, "nodes_values and target_weights");
    if (t.targets < 1) return ot_form_finding(f, "invalid n_targets %lld", (long long)t.targets);
    OT_TRY(read_nodes(f, &t, &index, &type));
    OT_TRY(read_weights(f, &t, index, "target", &only, &positive));
    if (t.sum == AVERAGE) t.sum = SUM;
    ot_value *y = walk(f, &t, 0, type);
    if (ot_form_says(f, "aggregate_function", "AVERAGE"))
        y = ot_ml_op(f, "Div", y, ot_form_const(f, type, 0, 1, &(double){ (double)t.roots }));
    y = ot_ml_transform(f, narrow(f, with_base(f, y, &t, type)), ot_ml_post(f));
    return ot_ml_made(f, y);
}

ot_status ot_ml_tree_classifier(ot_form *f)
{
    trees t = { .targets = ot_ml_classes(f), .sum = SUM };
    key *index;
    int64_t only;
    bool positive;
    ot_dtype type = OT_F32;
    const char *post = ot_ml_post(f);
    ot_ml_fixed(f, "nodes_values and class_weights");
    if (t.targets < 1) return ot_form_finding(f, "its labels are missing");
    OT_TRY(read_nodes(f, &t, &index, &type));
    OT_TRY(read_weights(f, &t, index, "class", &only, &positive));
    ot_value *y = walk(f, &t, 0, type);
    int64_t bases = -1;
    double *base = numbers(f, "base_values", &bases, NULL);
    if (t.targets == 2 && only >= 0) { /* the score of one class determines that of the other */
        y = y ? ot_form_before_int(f, "Gather", (ot_value *[]){ y, ot_form_ints(f, &only, 1) }, 2, "axis", 1) : NULL;
        if (base && bases >= 1) y = ot_ml_op(f, "Add", y, ot_form_const(f, type, 0, 1, &base[bases - 1]));
        bool plain = !strcmp(post, "NONE") && positive;
        ot_value *other = plain ? ot_ml_op(f, "Sub", ot_form_const(f, type, 0, 1, &(double){ 1 }), y)
                          : y   ? ot_form_before(f, "Neg", &y, 1)
                                : NULL;
        y = ot_ml_joined(f, other, y, 1);
    } else {
        y = with_base(f, y, &t, type);
    }
    return ot_ml_labelled(f, ot_ml_transform(f, narrow(f, y), post));
}
