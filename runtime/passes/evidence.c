/* evidence.c - classifies one initializer by its values, and finds the one that it is a copy of.
 *
 * Values alone are not sufficient: all biases are equal before training.  classify.c combines them with names (evidence_names.c) and
 * with where the tensor is used. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/evidence.h"

/* ---- patterns ---------------------------------------------------------------- */

static double at(const ot_value *v, int64_t i) { return ot_get_f64(v->data, v->dtype, i); }

static bool all_equal(const ot_value *v, int64_t n)
{
    double a = at(v, 0);
    for (int64_t i = 1; i < n; i++)
        if (at(v, i) != a) return false;
    return true;
}

/* Is x a decimal of few digits? */
static bool is_short(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.5g", x);
    return fabs(strtod(text, NULL) - x) <= 2e-7 * fabs(x);
}

bool ot_value_is_usual(const ot_value *v)
{
    const double known[] = { .79788456, .39894228, 3.14159265, 2.71828183, .69314718, 2.30258509, 1.44269504 };
    double x = fabs(at(v, 0)), square = x * x;
    double tolerance = ot_dtype_bits(v->dtype) < 32 ? 2e-3 : 1e-5;
    if (is_short(x)) return true;
    for (int i = 0; i < OT_LEN(known); i++)
        if (fabs(x / known[i] - 1) < tolerance) return true;
    const double whole[] = { square, 1 / x, 1 / square }; /* roots and parts of whole numbers */
    for (int i = 0; i < OT_LEN(whole); i++)
        if (whole[i] < 4096.5 && rint(whole[i]) >= 1 && fabs(whole[i] / rint(whole[i]) - 1) < tolerance) return true;
    return false;
}

/* Three elements or more, each a constant step (or factor) from the one before.  Stored values are rounded: tolerance 1e-3 of a step.
 * Three weights are so even by chance once in some 500 times: of them 1e-5, if their type has as many digits. */
static bool line_of_steps(const ot_value *v, int64_t from, int64_t n, bool *moves)
{
    double a = at(v, from), b = at(v, from + 1), step = b - a, factor = a != 0 ? b / a : 0;
    double tolerance = n == 3 && ot_dtype_bits(v->dtype) >= 32 ? 1e-5 : 1e-3;
    bool sum = true, product = factor > 0 && factor != 1;
    *moves |= step != 0;
    for (int64_t i = 2; i < n && (sum || product); i++) {
        double c = at(v, from + i);
        sum &= fabs(c - b - step) <= tolerance * fabs(step) + 1e-6 * fabs(c);
        product &= fabs(c - b * factor) <= tolerance * fabs(c);
        b = c;
    }
    return sum || product;
}

static bool is_steps(const ot_value *v, int64_t n)
{
    int64_t last = 1;
    bool moves = false;
    for (int d = v->shape.rank - 1; d >= 0 && last == 1; d--) last = v->shape.dim[d];
    if (last < 3) return false;
    for (int64_t i = 0; i < n; i += last)
        if (!line_of_steps(v, i, last, &moves)) return false;
    return moves;
}

enum { LOW = -10000 }; /* what a mask adds to scores is this or less */

/* Do the other elements of every line change in even steps?  Penalties of distances (ALiBi) that were added to a mask. */
static bool is_masked_steps(const ot_value *v, int64_t n)
{
    int64_t last = v->shape.rank ? v->shape.dim[v->shape.rank - 1] : 1;
    bool moves = false;
    for (int64_t i = 0; i < n; i += last) {
        int64_t from = 0, to = last;
        while (from < last && at(v, i + from) <= LOW) from++;
        while (to > from && at(v, i + to - 1) <= LOW) to--;
        for (int64_t k = from; k < to; k++)
            if (!(at(v, i + k) > LOW)) return false;
        if (to - from > 2 && !line_of_steps(v, i + from, to - from, &moves)) return false;
    }
    return moves;
}

static bool is_mask(const ot_value *v, int64_t n)
{
    bool low = false, other = false;
    for (int64_t i = 0; i < n; i++) {
        double a = at(v, i);
        low |= a <= LOW;
        other |= !(a <= LOW) && a != 0;
    }
    return low && (!other || is_masked_steps(v, n));
}

/* A vector that only increases or only decreases: eight weights do so by chance once in 20,000 times. */
static bool is_monotone(const ot_value *v, int64_t n)
{
    bool rises = true, falls = true;
    if (n < 8) return false;
    for (int d = 0; d < v->shape.rank; d++)
        if (v->shape.dim[d] != 1 && v->shape.dim[d] != n) return false;
    for (int64_t i = 1; i < n && (rises || falls); i++) {
        double a = at(v, i - 1), b = at(v, i);
        rises &= b >= a;
        falls &= b <= a;
    }
    return rises || falls;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* At most a quarter of the first 4096 elements are distinct. */
static bool has_few(const ot_value *v, int64_t n)
{
    double first[4096];
    int m = n < OT_LEN(first) ? (int)n : OT_LEN(first), distinct = 1;
    if (m < 8) return false;
    for (int i = 0; i < m; i++) first[i] = at(v, i);
    qsort(first, (size_t)m, sizeof *first, by_value);
    for (int i = 1; i < m; i++) distinct += first[i] != first[i - 1];
    return distinct * 4 <= m;
}

/* Counts: whole numbers; weights are never all whole. */
static bool is_whole(const ot_value *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (at(v, i) != floor(at(v, i))) return false;
    return true;
}

/* ---- copies ------------------------------------------------------------------ */

typedef struct element {
    double x;
    int32_t at;
} element;

static int by_element(const void *a, const void *b)
{
    const element *x = a, *y = b;
    return x->x != y->x ? (x->x > y->x) - (x->x < y->x) : (x->at > y->at) - (x->at < y->at);
}

/* The sorted elements; NULL: too many, too few distinct values to distinguish copies from chance, or no memory. */
static element *sorted(const ot_value *v, int64_t n)
{
    if (n < 8 || n > 1 << 24 || ot_dtype_bits(v->dtype) < 32) return NULL;
    element *e = malloc((size_t)n * sizeof *e);
    for (int64_t i = 0; e && i < n; i++) e[i] = (element){ at(v, i), (int32_t)i };
    if (e) qsort(e, (size_t)n, sizeof *e, by_element);
    return e;
}

/* Values that people choose or that follow from such: zero, halves, and values whose negative occurs too. */
static bool is_chosen(const element *e, int64_t n, int64_t i)
{
    element minus = { -e[i].x, -1 };
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = (lo + hi) / 2;
        if (e[mid].x < minus.x) lo = mid + 1;
        else hi = mid;
    }
    return e[i].x * 4096 == floor(e[i].x * 4096) || (lo < n && e[lo].x == minus.x);
}

/* May half of the elements be copies?  Of a large tensor only elements with certain bits are compared, which selects
 * a value together with its copies.  Without this, every large weight would be sorted. */
static bool may_be_copies(const ot_value *v, int64_t n)
{
    enum { FIRST = 1 << 18, SOME = 4096 };
    double some[2 * SOME];
    int m = 0, distinct = 1;
    for (int64_t i = 0, first = n < FIRST ? n : FIRST; i < first; i++) {
        double x = at(v, i);
        uint64_t bits;
        memcpy(&bits, &x, sizeof bits);
        if ((bits * UINT64_C(0x9e3779b97f4a7c15)) >> 44 >=
            (UINT64_C(1) << 20) * SOME / (uint64_t)(first > SOME ? first : SOME))
            continue;
        if (m == OT_LEN(some)) return true; /* far more than expected: often few distinct values */
        some[m++] = x;
    }
    if (m < SOME / 8) return true; /* too few to decide */
    qsort(some, (size_t)m, sizeof *some, by_value);
    for (int i = 1; i < m; i++) distinct += some[i] != some[i - 1];
    return distinct * 4 <= m * 3;
}

/* Every element occurs twice or more on average, and few look chosen by hand: relative positions, rows of an
 * embedding. */
static bool is_copies(const ot_value *v, int64_t n)
{
    element *e = may_be_copies(v, n) ? sorted(v, n) : NULL;
    bool found = e != NULL;
    int64_t distinct = 0, chosen = 0;
    for (int64_t i = 0; e && i < n; i++) {
        if (i && e[i].x == e[i - 1].x) continue;
        if (!isfinite(e[i].x)) distinct = n;
        distinct++;
        chosen += is_chosen(e, n, i);
    }
    free(e);
    return found && distinct >= 4 && distinct <= n / 2 && chosen * 20 <= distinct;
}

/* Is a quarter of the lines along an axis symmetric, lines of one value and zeros at the ends aside?  Filter kernels
 * are; tables of positions are not. */
bool ot_values_are_mirrored(const ot_value *v)
{
    for (int axis = v->shape.rank - 1; axis >= 0; axis--) {
        int64_t size = v->shape.dim[axis], inner = 1, lines = 0, same = 0;
        if (size < 3) continue;
        for (int d = axis + 1; d < v->shape.rank; d++) inner *= v->shape.dim[d];
        for (int64_t i = 0; i < ot_numel(&v->shape) / size; i++) {
            int64_t first = i / inner * size * inner + i % inner, lo = 0, hi = size - 1;
            while (lo < hi && at(v, first + lo * inner) == 0) lo++;
            while (lo < hi && at(v, first + hi * inner) == 0) hi--;
            bool varies = false;
            for (int64_t k = lo + 1; k <= hi && !varies; k++)
                varies = at(v, first + k * inner) != at(v, first + lo * inner);
            lines += varies;
            while (lo < hi && at(v, first + lo * inner) == at(v, first + hi * inner)) lo++, hi--;
            same += varies && lo >= hi;
        }
        if (lines && same * 4 >= lines) return true;
    }
    return false;
}

bool ot_holds_copies(const ot_value *v)
{
    return (v->from_constant || ot_name_is_made(v->name)) && ot_pattern_of(v) == OT_PATTERN_COPIES;
}

const int32_t *ot_copies_of(ot_graph *g, const ot_value *v, int64_t *groups)
{
    int64_t n = ot_numel(&v->shape);
    int32_t *group = ot_graph_alloc(g, (size_t)n * sizeof *group);
    element *e = group ? sorted(v, n) : NULL;
    bool found = e != NULL;
    *groups = 0;
    for (int64_t i = 0; e && i < n; i++) {
        *groups += !i || e[i].x != e[i - 1].x;
        group[e[i].at] = (int32_t)(*groups - 1);
    }
    if (!found && group) ot_fail(g->err, OT_E_NOMEM, "no memory to compare %lld elements", (long long)n);
    free(e);
    return found ? group : NULL;
}

static bool is_turned(const ot_value *v, const ot_value *w, size_t bytes)
{
    int64_t rows = v->shape.dim[0], columns = v->shape.dim[1];
    if (v->shape.rank != 2 || w->shape.rank != 2 || w->shape.dim[0] != columns || w->shape.dim[1] != rows) return false;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            if (memcmp((const char *)v->data + (size_t)(r * columns + c) * bytes,
                       (const char *)w->data + (size_t)(c * rows + r) * bytes, bytes) != 0)
                return false;
    return true;
}

bool ot_same_in_order(const ot_value *v, const ot_value *w)
{
    return v->dtype == w->dtype && ot_numel(&v->shape) == ot_numel(&w->shape) &&
           !memcmp(v->data, w->data, ot_bytes(&v->shape, v->dtype));
}

static bool made(const ot_value *v) { return v->from_constant || ot_name_is_made(v->name); }

/* The earlier tensor that v has the transposed elements of, if the names do not show which of the two is the copy.  Equal
 * elements in the same order are no sign: copies of a layer start equal. */
static ot_value *turned_before(const ot_graph *g, const ot_value *v)
{
    int64_t n = ot_numel(&v->shape);
    if (v->role != OT_WEIGHT || v->said != OT_SAID_NOTHING || !v->data || n < 16 || ot_dtype_bits(v->dtype) < 8 ||
        v->shape.rank != 2 || all_equal(v, n))
        return NULL;
    size_t bytes = (size_t)ot_dtype_bits(v->dtype) / 8;
    if (is_turned(v, v, bytes)) return NULL; /* symmetric: its transpose has the elements in the same order */
    for (int i = 0; i < v->id && i < g->n_values; i++) { /* what differs in most pairs first: there may be thousands */
        ot_value *w = g->values[i];
        if (w->role != OT_WEIGHT || w->said != OT_SAID_NOTHING || !w->data || w->dtype != v->dtype) continue;
        if (is_turned(v, w, bytes) && !ot_same_in_order(v, w) && made(w) == made(v)) return w;
    }
    return NULL;
}

/* Is w the copy of v that --untie made? */
static bool untied(const ot_value *v, const ot_value *w) { return ot_name_is_untied(w->name, v->name); }

enum { ANY_ROLE = -1 };

/* The tensor of that role that v copies: one that the file lists as a parameter (listed), or one with a name of its own that is
 * not listed. */
static ot_value *copied_by(const ot_graph *g, const ot_value *v, int role, bool listed, bool *turned)
{
    int64_t n = ot_numel(&v->shape);
    bool unlisted = g->listed && v->said == OT_SAID_NOTHING; /* computed by the exporter, whatever its name */
    if (!v->data || n < 16 || ot_dtype_bits(v->dtype) < 8 || !(made(v) || unlisted)) return NULL;
    for (int i = 0; i < g->n_values; i++) {
        ot_value *w = g->values[i];
        if (w == v || (role != ANY_ROLE && (int)w->role != role) || (w->said == OT_SAID_PARAMETER) != listed ||
            !w->data || w->dtype != v->dtype || ot_numel(&w->shape) != n)
            continue;
        if (!listed && (made(w) || untied(v, w))) continue;
        *turned = !ot_same_in_order(v, w);
        if ((!*turned || is_turned(v, w, (size_t)ot_dtype_bits(v->dtype) / 8)) && !all_equal(v, n)) return w;
    }
    return NULL;
}

ot_value *ot_twin_of(const ot_graph *g, const ot_value *v, bool *turned)
{
    if (v->role != OT_WEIGHT) return NULL;
    ot_value *w = copied_by(g, v, OT_WEIGHT, false, turned);
    if (w) return w;
    *turned = true;
    return turned_before(g, v);
}

/* The earlier tensor that the exporter computed from the same parameter as v, where it is known how many parameters it computed
 * tensors from. */
static ot_value *computed_before(const ot_graph *g, const ot_value *v)
{
    int64_t n = ot_numel(&v->shape);
    if (!g->accounted || !v->data || n < 16 || ot_dtype_bits(v->dtype) < 8 || !made(v) || all_equal(v, n)) return NULL;
    for (int i = 0; i < v->id && i < g->n_values; i++) {
        ot_value *w = g->values[i];
        if (w->role == OT_WEIGHT && w->data && made(w) && ot_same_in_order(v, w)) return w;
    }
    return NULL;
}

ot_value *ot_original_of(const ot_graph *g, const ot_value *v, bool *turned)
{
    if (v->role != OT_WEIGHT) return NULL;
    ot_value *w = copied_by(g, v, OT_WEIGHT, true, turned);
    if (w) return w;
    *turned = false;
    w = computed_before(g, v);
    return w || !g->tie ? w : ot_twin_of(g, v, turned);
}

ot_value *ot_copied_weight(const ot_graph *g, const ot_value *v, bool *turned)
{
    if (v->role != OT_CONST) return NULL;
    ot_value *w = copied_by(g, v, OT_WEIGHT, true, turned);
    return w ? w : copied_by(g, v, OT_WEIGHT, false, turned);
}

bool ot_copies_listed(const ot_graph *g, const ot_value *v)
{
    return copied_by(g, v, ANY_ROLE, true, &(bool){ false }) != NULL;
}

static bool is_zero_row(const ot_value *v, int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (at(v, from + i) != 0) return false;
    return true;
}

/* Pairs (2k, 2k+1) or (k, k + d/2) of each row of d elements with squares that add up to 1; a row of zeros represents padding. */
static bool is_angles(const ot_value *v, int64_t n)
{
    int64_t d = v->shape.rank > 1 ? v->shape.dim[v->shape.rank - 1] : 0;
    bool beside = true, halves = true, padding = false;
    if (d < 2 || d % 2 || n < 8) return false;
    for (int64_t r = 0; r < n && (beside || halves); r += d) {
        if (!padding && n > 2 * d && (padding = is_zero_row(v, r, d))) continue;
        for (int64_t k = 0; k < d / 2 && (beside || halves); k++) {
            double a = at(v, r + 2 * k), b = at(v, r + 2 * k + 1), c = at(v, r + k), e = at(v, r + k + d / 2);
            beside &= fabs(a * a + b * b - 1) < 1e-3;
            halves &= fabs(c * c + e * e - 1) < 1e-3;
        }
    }
    return beside || halves;
}

bool ot_values_are_whole(const ot_value *v)
{
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i++) {
        double x = ot_get_f64(v->data, v->dtype, i);
        if (x != rint(x)) return false;
    }
    return true;
}

/* Tensors of more elements are not searched: what looks alike is read to its end, and may be a file of any size. */
enum { SEARCHED = 1 << 26 };

bool ot_values_mask(const ot_value *v)
{
    bool zeros = false, ones = false;
    int64_t n = ot_numel(&v->shape);
    if (n > SEARCHED) return false;
    for (int64_t i = 0; i < n; i++) {
        double x = at(v, i);
        zeros |= x == 0;
        ones |= x == 1;
        if (x != 0 && x != 1) return false;
    }
    return (zeros && ones) || ot_name_is_mask(v->name);
}

bool ot_values_are_sparse(const ot_value *v)
{
    int64_t zeros = 0, n = ot_numel(&v->shape);
    if (n > SEARCHED) return false;
    for (int64_t i = 0; i < n; i++) {
        if (at(v, i) < 0) return false;
        zeros += at(v, i) == 0;
    }
    return zeros * 4 >= n && zeros < n;
}

bool ot_values_repeat(const ot_value *v)
{
    double first[4096];
    int m = 0, distinct = 1;
    int64_t n = ot_numel(&v->shape), line = v->shape.rank ? v->shape.dim[v->shape.rank - 1] : 1, last = -1;
    bool dense = false; /* a line has two */
    if (n > SEARCHED) return false;
    for (int64_t i = 0; i < n && m < OT_LEN(first); i++) {
        if (at(v, i) == 0) continue;
        dense |= last >= 0 && last / line == i / line;
        first[m++] = at(v, i);
        last = i;
    }
    if (m < 8 || !dense) return false;
    qsort(first, (size_t)m, sizeof *first, by_value);
    for (int i = 1; i < m; i++) distinct += first[i] != first[i - 1];
    return distinct * 4 <= m && (distinct > 1 || m < n); /* equal elements are how layers start, too */
}

bool ot_values_open_forget_gate(const ot_value *v)
{
    bool operand = v->shape.rank == 2; /* [directions, 8 * units] in the order of ONNX, the second half zeros */
    int64_t n = ot_numel(&v->shape), last = v->shape.rank ? v->shape.dim[v->shape.rank - 1] : 0;
    int64_t gates = operand ? 8 : 4, forgets = operand ? 2 : 1, gate = last / gates;
    if (v->shape.rank > 2 || !gate || last % gates) return false;
    for (int64_t i = 0; i < n; i++)
        if (at(v, i) != (i % last / gate == forgets)) return false;
    return true;
}

bool ot_values_are_rounded(const ot_value *v)
{
    int64_t n = ot_numel(&v->shape);
    double low = n ? at(v, 0) : 0, high = low;
    for (int64_t i = 1; i < n; i++) low = fmin(low, at(v, i)), high = fmax(high, at(v, i));
    return high > low && high - low <= 1e-5 * fmax(fabs(low), fabs(high));
}

ot_pattern ot_pattern_of(const ot_value *v)
{
    int64_t n = ot_numel(&v->shape);
    if (n < 1) return OT_PATTERN_NONE;
    if (is_mask(v, n)) return OT_PATTERN_MASK;
    if (n == 1) return OT_PATTERN_ONE;
    if (all_equal(v, n)) return OT_PATTERN_EQUAL;
    if (is_steps(v, n) || is_monotone(v, n)) return OT_PATTERN_STEPS;
    if (is_angles(v, n)) return OT_PATTERN_ANGLES;
    if (is_whole(v, n)) return OT_PATTERN_FEW;
    return is_copies(v, n) && !ot_values_are_mirrored(v) ? OT_PATTERN_COPIES
           : has_few(v, n)                               ? OT_PATTERN_FEW
                                                         : OT_PATTERN_NONE;
}

/* Equal except for axes of one element. */
static bool alike(const ot_shape *a, const ot_shape *b)
{
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < a->rank && a->dim[i] == 1) i++;
        while (k < b->rank && b->dim[k] == 1) k++;
        if (i >= a->rank || k >= b->rank) return i >= a->rank && k >= b->rank;
        if (a->dim[i] != b->dim[k]) return false;
    }
}

/* Are the first n elements of v and those of w from `from` on cosines and sines of the same angles, times one factor? */
static bool on_a_circle(const ot_value *v, const ot_value *w, int64_t from, int64_t n)
{
    double radius = 0; /* squared */
    for (int64_t k = 0; k < n; k++) {
        double c = at(v, k), s = at(w, from + k);
        if (!k) radius = c * c + s * s;
        if (!(radius > 0 && fabs((c * c + s * s) / radius - 1) < 1e-3)) return false;
    }
    return true;
}

/* Ones and zeros are the initial scale and bias of a norm. */
bool ot_is_rotary(const ot_graph *g, const ot_value *v)
{
    int64_t n = ot_numel(&v->shape);
    if (v->shape.rank < 2 || n < 4 || n > 1 << 24 || ot_pattern_of(v) == OT_PATTERN_EQUAL) return false;
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *w = g->values[i];
        if (w == v || w->role != OT_CONST || !w->data || w->dtype != v->dtype || !alike(&w->shape, &v->shape)) continue;
        if (on_a_circle(v, w, 0, n) && !all_equal(w, n))
            return true; /* beside zeros, numbers of one size have one radius too */
    }
    return false;
}

/* Are the n elements in rows of `row` equal to the first one along the first row or the first column, as angles of 0 give? */
static bool begins_equal(const ot_value *v, int64_t row, int64_t n)
{
    bool first_row = true, first_column = true;
    double begin = at(v, 0);
    for (int64_t k = 1; k < row && first_row; k++) first_row = at(v, k) == begin;
    for (int64_t k = row; k < n && first_column; k += row) first_column = at(v, k) == begin;
    return first_row || first_column;
}

/* Are the halves of v, n elements each, cosines and sines? */
static bool halves_turn(const ot_value *v, int64_t n)
{
    bool cosines = false, sines = false; /* not one number throughout */
    for (int64_t k = 1; k < n; k++) {
        cosines |= at(v, k) != at(v, 0);
        sines |= at(v, n + k) != at(v, n);
    }
    return cosines && sines && on_a_circle(v, v, n, n);
}

/* The cosines and the sines are two tensors, or the two halves of one. */
bool ot_is_transform(const ot_graph *g, const ot_value *v)
{
    const ot_shape *s = &v->shape;
    bool halves = s->rank == 3 && s->dim[0] == 2;
    int64_t n = ot_numel(s) / (halves ? 2 : 1), row = halves || s->rank == 2 ? s->dim[s->rank - 1] : 0;
    if (row < 2 || n < 2 * row || !begins_equal(v, row, n)) return false;
    return halves ? halves_turn(v, n) : ot_is_rotary(g, v);
}

const char *ot_pattern_name(ot_pattern p)
{
    static const char *const name[] = {
        [OT_PATTERN_NONE] = "",
        [OT_PATTERN_COPIES] = "weights, each repeated",
        [OT_PATTERN_ONE] = "a single element",
        [OT_PATTERN_EQUAL] = "equal elements",
        [OT_PATTERN_MASK] = "a mask",
        [OT_PATTERN_STEPS] = "evenly spaced positions or frequencies",
        [OT_PATTERN_FEW] = "a table of few distinct values",
        [OT_PATTERN_ANGLES] = "a table of sines and cosines",
    };
    return name[p];
}
