/* tfidfvectorizer.c - TfIdfVectorizer: counts each n-gram of a list in a sequence.
 *
 * Spec    ai.onnx TfIdfVectorizer 9.  An n-gram also matches with up to max_skip_count elements between every two of
 *         its own, the same number each time; single elements count once.
 * Shapes  X: (C) or (N, C), integers or strings   Y: (columns) or (N, columns), float32
 * Grad    none: X has no floats
 *
 * For each length and distance: the elements at these positions are compared with those of all n-grams of the length.
 * */
#include "ops/kernels/copy.h"
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/take.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct tfidf_attrs {
    int64_t max_gram_length, min_gram_length, max_skip_count, mode;
    ot_ints counts, indexes, pool;
    ot_strings texts;
    ot_floats weights;
} tfidf_attrs;

static const char *const modes[] = { "TF", "IDF", "TFIDF", NULL };
enum { TF, IDF, TFIDF };

static const ot_attr rows[] = {
    { "max_gram_length", OT_INT, offsetof(tfidf_attrs, max_gram_length), OT_REQUIRED, NULL },
    { "min_gram_length", OT_INT, offsetof(tfidf_attrs, min_gram_length), OT_REQUIRED, NULL },
    { "max_skip_count", OT_INT, offsetof(tfidf_attrs, max_skip_count), OT_REQUIRED, NULL },
    { "mode", OT_ENUM, offsetof(tfidf_attrs, mode), OT_REQUIRED, modes },
    { "ngram_counts", OT_INTS, offsetof(tfidf_attrs, counts), OT_REQUIRED, NULL },
    { "ngram_indexes", OT_INTS, offsetof(tfidf_attrs, indexes), OT_REQUIRED, NULL },
    { "pool_int64s", OT_INTS, offsetof(tfidf_attrs, pool), 0, NULL },
    { "pool_strings", OT_TEXTS, offsetof(tfidf_attrs, texts), 0, NULL },
    { "weights", OT_FLOATS, offsetof(tfidf_attrs, weights), 0, NULL },
    { 0 },
};

static int64_t columns(const tfidf_attrs *a)
{
    int64_t most = -1;
    for (int i = 0; i < a->indexes.n; i++)
        if (a->indexes.v[i] > most) most = a->indexes.v[i];
    return most + 1;
}

static int pool_size(const tfidf_attrs *a) { return a->pool.n ? a->pool.n : a->texts.n; }

/* The start of the n-grams of `length` in the pool, and their number. */
static void of_length(const tfidf_attrs *a, int length, int64_t *first, int64_t *n)
{
    *first = a->counts.v[length - 1];
    *n = ((length < a->counts.n ? a->counts.v[length] : pool_size(a)) - *first) / length;
}

static ot_status tfidf_infer(ot_node *n, ot_error *err)
{
    const tfidf_attrs *a = n->attrs;
    const ot_shape *x = &n->in[0]->shape;
    int64_t last = 0, all = 0, width = columns(a);
    if (x->rank < 1 || x->rank > 2) return ot_node_fail(n, err, "x has rank %d; expected 1 or 2", x->rank);
    if ((n->in[0]->dtype == OT_STRING) != (a->texts.n > 0) || (a->texts.n > 0 && a->pool.n > 0))
        return ot_node_fail(n, err, "pool_strings is for strings, pool_int64s for integers");
    for (int i = 0; i < a->counts.n; last = a->counts.v[i++])
        if (a->counts.v[i] < last || a->counts.v[i] > pool_size(a))
            return ot_node_fail(n, err,
                                "ngram_counts must be sorted and "
                                "within the pool");
    for (int i = 0; i < a->counts.n; i++) {
        int64_t first, many;
        of_length(a, i + 1, &first, &many);
        all += many;
    }
    for (int i = 0; i < a->indexes.n; i++)
        if (a->indexes.v[i] < 0 || a->indexes.v[i] > INT32_MAX)
            return ot_node_fail(n, err, "invalid ngram_indexes value %lld", (long long)a->indexes.v[i]);
    if (a->min_gram_length < 1 || a->max_gram_length < a->min_gram_length || a->max_skip_count < 0 ||
        all != a->indexes.n || (a->weights.n && a->weights.n != width))
        return ot_node_fail(n, err, "%lld n-grams do not match %d indexes and %d weights, or the lengths are invalid",
                            (long long)all, a->indexes.n, a->weights.n);
    ot_shape y = { .rank = x->rank, .dim = { x->rank == 2 ? x->dim[0] : width, width } };
    return ot_set(n->out[0], OT_F32, &y);
}

/* ---- elements as numbers ------------------------------------------------------------- */

static ot_value *numbers(ot_build *b, const int64_t *v, int64_t n)
{
    return ot_broken(b) ? NULL : ot_graph_const(b->graph, "", OT_I64, &(ot_shape){ .rank = 1, .dim = { n } }, v);
}

/* Strings become their first index in the pool, from 1; 0: not in the pool.  *pool: the pool's own. */
static ot_value *places(ot_build *b, ot_value *x, int64_t N, int64_t C, int64_t *pool)
{
    const ot_strings *texts = &((const tfidf_attrs *)b->node->attrs)->texts;
    for (int i = 0; i < texts->n; i++) {
        int k = 0;
        while (strcmp(texts->v[k], texts->v[i])) k++;
        pool[i] = k + 1;
    }
    ot_value *list = ot_broken(b) ? NULL
                                  : ot_graph_value(b->graph, "pool", OT_CONST, OT_STRING,
                                                   &(ot_shape){ .rank = 1, .dim = { texts->n } });
    if (!list) return NULL;
    list->data = texts->v;
    ot_value *hit =
        ot_emit(b, &ot_op_StringEqual, NULL, OT_IN(ot_view(b, x, &(ot_shape){ .rank = 3, .dim = { N, C, 1 } }), list));
    ot_value *which = ot_map2(b, OT_FN_Mul, 0, 0, ot_cast(b, hit, OT_I64), numbers(b, pool, texts->n));
    return ot_reduce_axes(b, which, OT_REDUCE_MAX, 4, false);
}

/* ---- counting -------------------------------------------------------------------------- */

/* x[:, at : at + L] as (N, L, 1). */
static ot_value *window(ot_build *b, ot_value *x, int64_t N, int64_t at, int64_t L)
{
    int64_t start[] = { 0, at }, step[] = { 1, 1 };
    ot_shape s = { .rank = 2, .dim = { N, L } };
    ot_piece *p = ot_pieces(b, 1);
    if (!p) return NULL;
    ot_piece_box(p, &x->shape, start, step, s.dim);
    return ot_view(b, ot_copy_emit(b, &s, 0, p, 1, &x, 1), &(ot_shape){ .rank = 3, .dim = { N, L, 1 } });
}

/* The number of occurrences of each of n n-grams in x, with its elements `distance` apart: (N, n). */
static ot_value *count(ot_build *b, ot_value *x, const int64_t *pool, int length, int64_t n, int64_t distance)
{
    int64_t N = x->shape.dim[0], L = x->shape.dim[1] - distance * (length - 1),
            *element = ot_graph_alloc(b->graph, (size_t)n * sizeof *element);
    ot_value *all = NULL;
    for (int j = 0; j < length && element && !ot_broken(b); j++) {
        for (int64_t i = 0; i < n; i++) element[i] = pool[i * length + j];
        ot_value *hit = ot_map2(b, OT_FN_Equal, 0, 0, window(b, x, N, j * distance, L), numbers(b, element, n));
        all = all ? ot_map2(b, OT_FN_And, 0, 0, all, hit) : hit;
    }
    return ot_reduce_axes(b, ot_cast(b, all, OT_F32), OT_REDUCE_SUM, 2, false);
}

/* Moves column k of x to column to[k] of `width`; columns with one target are added. */
static ot_value *spread(ot_build *b, ot_value *x, const int64_t *to, int64_t n, int64_t width)
{
    int64_t *from = ot_graph_alloc(b->graph, (size_t)(width + 1) * sizeof *from),
            *left = ot_graph_alloc(b->graph, (size_t)(n + 1) * sizeof *left);
    ot_shape line = { .rank = 1, .dim = { width } };
    ot_value *sum = NULL;
    for (int64_t i = 0; left && i < n; i++) left[i] = i;
    while (from && left && n > 0 && !ot_broken(b)) {
        int64_t rest = 0;
        float *mask = ot_graph_alloc(b->graph, ot_bytes(&line, OT_F32) + 1);
        if (!mask) return NULL;
        memset(from, 0, (size_t)width * sizeof *from);
        for (int64_t i = 0; i < n; i++) {
            int64_t k = left[i];
            if (mask[to[k]] != 0) left[rest++] = k;
            else from[to[k]] = k, mask[to[k]] = 1;
        }
        n = rest;
        ot_value *y = ot_emit(b, &ot_op_Take, &(ot_take){ 1 }, OT_IN(x, numbers(b, from, width)));
        y = ot_map2(b, OT_FN_Mul, 0, 0, y, ot_graph_const_of(b->graph, "", OT_F32, &line, mask));
        sum = sum ? ot_map2(b, OT_FN_Add, 0, 0, sum, y) : y;
    }
    return sum;
}

static ot_value *weighted(ot_build *b, ot_value *y, int64_t width)
{
    const tfidf_attrs *a = b->node->attrs;
    if (a->mode == IDF) y = ot_cast(b, ot_map2(b, OT_FN_Greater, 0, 0, y, ot_scalar(b, OT_F32, 0)), OT_F32);
    if (a->mode == TF || !a->weights.n || ot_broken(b)) return y;
    return ot_map2(b, OT_FN_Mul, 0, 0, y,
                   ot_graph_const(b->graph, "", OT_F32, &(ot_shape){ .rank = 1, .dim = { width } }, a->weights.v));
}

static void tfidf_lower(ot_build *b)
{
    const tfidf_attrs *a = b->node->attrs;
    ot_value *x = b->node->in[0], *y = NULL;
    bool line = x->shape.rank == 1;
    int64_t N = line ? 1 : x->shape.dim[0], C = x->shape.dim[!line], width = columns(a), from = 0;
    int64_t *pool = ot_broken(b) ? NULL : ot_graph_alloc(b->graph, (size_t)(pool_size(a) + 1) * sizeof *pool);
    if (!pool) return;
    for (int i = 0; i < a->pool.n; i++) pool[i] = a->pool.v[i];
    x = x->dtype == OT_STRING ? places(b, x, N, C, pool)
                              : ot_view(b, ot_cast(b, x, OT_I64), &(ot_shape){ .rank = 2, .dim = { N, C } });
    for (int length = 1; length <= a->counts.n && !ot_broken(b); length++) {
        int64_t first, n;
        of_length(a, length, &first, &n);
        ot_value *found = NULL;
        for (int64_t d = 1;
             n && d - 1 <= a->max_skip_count && length >= a->min_gram_length && length <= a->max_gram_length; d++) {
            if ((length == 1 && d > 1) || (length > 1 && d > (C - 1) / (length - 1)) || C < 1) break;
            ot_value *k = count(b, x, pool + first, length, n, d);
            found = found ? ot_map2(b, OT_FN_Add, 0, 0, found, k) : k;
        }
        if (found) found = spread(b, found, a->indexes.v + from, n, width);
        if (found) y = y ? ot_map2(b, OT_FN_Add, 0, 0, y, found) : found;
        from += n;
    }
    ot_shape s = { .rank = 2, .dim = { N, width } };
    if (!y) y = ot_expand(b, ot_scalar(b, OT_F32, 0), &s);
    ot_yield(b, 0, ot_view(b, weighted(b, y, width), &b->node->out[0]->shape));
}

const ot_op ot_op_TfIdfVectorizer = {
    .name = "TfIdfVectorizer",
    .types = { "T", .T = OT_SET_INDEX | OT_TYPE(OT_STRING) },
    .since = 9,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .nondiff = 1,
    .attrs = rows,
    .attr_size = sizeof(tfidf_attrs),
    .infer = tfidf_infer,
    .lower = tfidf_lower,
    .grad_zero = "x contains no floats",

};
