/* select.c - Unique, NonMaxSuppression: results whose size depends on data.
 *
 * Spec    ai.onnx Unique 11, 28; NonMaxSuppression 10, 11.  How much is left is a size, so inputs must be known before the run.
 *         NaNs are equal to each other and larger than any number.  Scores must be above score_threshold.
 * Shapes  Unique: y: (u) or x with u slices on `axis`   indices, counts: (u)   inverse: one number per element or slice
 *         NonMaxSuppression: boxes: (N, B, 4)  scores: (N, classes, B)   y: (selected, 3): batch, class, box
 * Grad    none: y is a constant, the others are places. */
#include "ops/kernels/move.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* What looking at constants takes is part of what folding may. */
static bool afford(const ot_node *n, int64_t work)
{
    ot_room *room = n->graph->room;
    if (work > room->work) return false;
    room->work -= work;
    return true;
}

static ot_status too_long(const ot_node *n, ot_error *err)
{
    return ot_node_fail(n, err, "evaluating its constants would take too long for a file of this size");
}

/* Output i becomes a constant; its bytes.  NULL: nobody asked, or *s says why not. */
static void *known(ot_node *n, int i, ot_dtype t, const ot_shape *y, ot_status *s, ot_error *err)
{
    if (i >= n->n_out || !n->out[i] || *s != OT_OK) return NULL;
    void *bytes = ot_node_alloc(n, ot_bytes(y, t) + 1);
    *s = bytes ? ot_set(n->out[i], t, y) : ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    if (!bytes) return NULL;
    n->out[i]->data = bytes;
    n->out[i]->role = OT_CONST;
    return bytes;
}

static void lower(ot_build *b)
{
    for (int i = 0; i < b->node->n_out && !ot_broken(b); i++) {
        const ot_value *y = b->node->out[i];
        if (y) ot_yield(b, i, ot_graph_const_of(b->graph, y->name, y->dtype, &y->shape, y->data));
    }
}

/* ---- Unique ---------------------------------------------------------------- */

#define NO_AXIS (-0x1p62)

typedef struct unique_attrs {
    int64_t axis, sorted;
} unique_attrs;

static const ot_attr unique_rows[] = {
    { "axis", OT_INT, offsetof(unique_attrs, axis), NO_AXIS, NULL },
    { "sorted", OT_INT, offsetof(unique_attrs, sorted), 1, NULL },
    { 0 },
};

/* Slice `index` of x, seen as (outer, n, inner). */
typedef struct slice {
    const ot_value *x;
    int64_t outer, n, inner, index;
} slice;

static int numbers(const ot_value *x, int64_t i, int64_t j)
{
    if (ot_is_float(x->dtype)) {
        double a = ot_get_f64(x->data, x->dtype, i), c = ot_get_f64(x->data, x->dtype, j);
        if (a != a || c != c) return (a != a) - (c != c);
        return (a > c) - (a < c);
    }
    if (x->dtype == OT_U64) {
        uint64_t a = (uint64_t)ot_get_i64(x->data, x->dtype, i), c = (uint64_t)ot_get_i64(x->data, x->dtype, j);
        return (a > c) - (a < c);
    }
    int64_t a = ot_get_i64(x->data, x->dtype, i), c = ot_get_i64(x->data, x->dtype, j);
    return (a > c) - (a < c);
}

static int slices(const slice *a, const slice *c)
{
    int d = 0;
    for (int64_t o = 0; o < a->outer && !d; o++)
        for (int64_t k = 0; k < a->inner && !d; k++)
            d = numbers(a->x, (o * a->n + a->index) * a->inner + k, (o * a->n + c->index) * a->inner + k);
    return d;
}

static int by_value(const void *a, const void *c)
{
    const slice *s = a, *t = c;
    int d = slices(s, t);
    return d ? d : (s->index > t->index) - (s->index < t->index);
}

static ot_status unique_split(const ot_node *n, slice *s, int *axis, ot_error *err)
{
    int64_t a = ((const unique_attrs *)n->attrs)->axis;
    const ot_value *x = n->in[0];
    *axis = -1;
    if (!ot_is_const(x))
        return ot_node_fail(n, err,
                            "x must be known before the run, because the number of unique "
                            "elements is a size");
    *s = (slice){ x, 1, ot_numel(&x->shape), 1, 0 };
    if (a == (int64_t)NO_AXIS) return OT_OK;
    if (!ot_axis(a, x->shape.rank, axis))
        return ot_node_fail(n, err, "axis %lld is out of range for rank %d", (long long)a, x->shape.rank);
    s->n = x->shape.dim[*axis];
    for (int d = 0; d < x->shape.rank; d++)
        if (d != *axis) *(d < *axis ? &s->outer : &s->inner) *= x->shape.dim[d];
    return OT_OK;
}

/* first[u]: the first slice of group u; group[i]: that of slice i; both by value, in the order of first occurrence if unsorted. */
typedef struct groups {
    int64_t n, *first, *group, *count;
} groups;

static ot_status group(ot_node *n, const slice *s, groups *g, ot_error *err)
{
    int64_t size = s->n, each = s->outer * s->inner, work;
    if (s->n > (int64_t)1 << 40) return too_long(n, err); /* slices of no elements can be that many */
    for (int64_t k = s->n; k > 1; k /= 2) size += s->n;
    if (!ot_mul(size, each > 0 ? each : 1, &work) || !afford(n, work)) return too_long(n, err);
    slice *list = ot_node_alloc(n, (size_t)(s->n + 1) * sizeof *list);
    int64_t *all = ot_node_alloc(n, (size_t)(s->n + 1) * 4 * sizeof *all), *rank = all + 3 * (s->n + 1);
    if (!list || !all) return ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    *g = (groups){ 0, all, all + s->n + 1, all + 2 * (s->n + 1) };
    for (int64_t i = 0; i < s->n; i++) {
        list[i] = *s;
        list[i].index = i;
    }
    if (s->n) qsort(list, (size_t)s->n, sizeof *list, by_value);
    for (int64_t i = 0; i < s->n; i++) { /* equal ones are in order: the first of them is the first occurrence */
        if (i == 0 || slices(&list[i - 1], &list[i])) g->first[g->n++] = list[i].index;
        g->group[list[i].index] = g->n - 1;
    }
    if (!((const unique_attrs *)n->attrs)->sorted) {
        int64_t next = 0;
        for (int64_t i = 0; i < s->n; i++) {
            int64_t u = g->group[i];
            if (g->first[u] == i) rank[u] = next++;
            g->group[i] = rank[u];
        }
        for (int64_t i = s->n - 1; i >= 0; i--) g->first[g->group[i]] = i;
    }
    for (int64_t i = 0; i < s->n; i++) g->count[g->group[i]]++;
    return OT_OK;
}

static ot_status unique_infer(ot_node *n, ot_error *err)
{
    slice s;
    groups g = { 0 };
    int axis;
    ot_status status = OT_OK;
    OT_TRY(unique_split(n, &s, &axis, err));
    OT_TRY(group(n, &s, &g, err));
    const ot_value *x = n->in[0];
    ot_shape y = x->shape, list = { .rank = 1, .dim = { g.n } }, all = { .rank = 1, .dim = { s.n } };
    size_t size = (size_t)ot_dtype_bits(x->dtype) / 8;
    if (axis < 0) y = list;
    else y.dim[axis] = g.n;
    char *to = known(n, 0, x->dtype, &y, &status, err);
    int64_t *index = known(n, 1, OT_I64, &list, &status, err), *inverse = known(n, 2, OT_I64, &all, &status, err);
    int64_t *count = known(n, 3, OT_I64, &list, &status, err);
    for (int64_t o = 0; o < s.outer && to; o++)
        for (int64_t u = 0; u < g.n; u++)
            memcpy(to + (size_t)((o * g.n + u) * s.inner) * size,
                   (const char *)x->data + (size_t)((o * s.n + g.first[u]) * s.inner) * size, (size_t)s.inner * size);
    for (int64_t u = 0; u < g.n; u++) {
        if (index) index[u] = g.first[u];
        if (count) count[u] = g.count[u];
    }
    for (int64_t i = 0; i < s.n && inverse; i++) inverse[i] = g.group[i];
    return status;
}

const ot_op ot_op_Unique = {
    .name = "Unique",
    .types = { "T", .T = OT_SET_COMMON },
    .since = 28,
    .in = { 1, 1 },
    .out = { 1, 4 },
    .flags = OT_COUNTED,
    .nondiff = 1,
    .attrs = unique_rows,
    .attr_size = sizeof(unique_attrs),
    .infer = unique_infer,
    .lower = lower,
    .grad_zero = "its input is a constant",
};

/* ---- NonMaxSuppression ----------------------------------------------------- */

typedef struct nms_attrs {
    int64_t center;
} nms_attrs;

static const ot_attr nms_rows[] = {
    { "center_point_box", OT_INT, offsetof(nms_attrs, center), 0, NULL },
    { 0 },
};

typedef struct scored {
    float score;
    int64_t box;
} scored;

static int best_first(const void *a, const void *c)
{
    const scored *s = a, *t = c;
    if (s->score != t->score) return s->score > t->score ? -1 : 1;
    return (s->box > t->box) - (s->box < t->box);
}

/* Corners of a box along axis k: *lo, *hi. */
static void extent(const float *box, bool center, int k, float *lo, float *hi)
{
    if (center) {
        *lo = box[k] - box[2 + k] / 2;
        *hi = box[k] + box[2 + k] / 2;
    } else {
        *lo = box[k] < box[2 + k] ? box[k] : box[2 + k];
        *hi = box[k] < box[2 + k] ? box[2 + k] : box[k];
    }
}

static bool overlap(const float *a, const float *c, bool center, double most)
{
    float common = 1, first = 1, second = 1;
    for (int k = 0; k < 2; k++) {
        float alo, ahi, clo, chi;
        extent(a, center, k, &alo, &ahi);
        extent(c, center, k, &clo, &chi);
        float lo = alo > clo ? alo : clo, hi = ahi < chi ? ahi : chi;
        if (!(hi > lo)) return false;
        common *= hi - lo;
        first *= ahi - alo;
        second *= chi - clo;
    }
    return common > 0 && first > 0 && second > 0 && common / (first + second - common) > (float)most;
}

/* Optional constant number i. */
static ot_status knob(const ot_node *n, int i, double other, double *out, ot_error *err)
{
    const ot_value *v = ot_node_in(n, i);
    *out = other;
    if (!v || (ot_shape_known(&v->shape) && ot_numel(&v->shape) == 0)) return OT_OK;
    if (!ot_is_const(v) || ot_numel(&v->shape) != 1)
        return ot_node_fail(n, err,
                            "input %d must be a single number "
                            "known before the run",
                            i);
    *out = ot_get_f64(v->data, v->dtype, 0);
    return OT_OK;
}

/* The boxes of one class of one sample that stay, at `kept`; how many, -1: too much work. */
static int64_t suppress(const ot_node *n, const float *box, const float *score, int64_t B, const double knobs[3],
                        scored *list, int64_t *kept)
{
    bool center = ((const nms_attrs *)n->attrs)->center != 0;
    int64_t candidates = 0, count = 0;
    for (int64_t i = 0; i < B; i++)
        if ((double)score[i] > knobs[2]) list[candidates++] = (scored){ score[i], i };
    if (!afford(n, B)) return -1;
    if (candidates) qsort(list, (size_t)candidates, sizeof *list, best_first);
    for (int64_t i = 0; i < candidates && (double)count < knobs[0]; i++) {
        bool stays = true;
        if (!afford(n, count + 1)) return -1;
        for (int64_t k = 0; k < count && stays; k++)
            stays = !overlap(box + 4 * list[i].box, box + 4 * kept[k], center, knobs[1]);
        if (stays) kept[count++] = list[i].box;
    }
    return count;
}

static ot_status nms_check(const ot_node *n, double knobs[3], ot_error *err)
{
    const ot_shape *boxes = &n->in[0]->shape, *scores = &n->in[1]->shape;
    char s[128], t[128];
    if (!ot_is_const(n->in[0]) || !ot_is_const(n->in[1]))
        return ot_node_fail(n, err,
                            "boxes and scores must be known before the run, because the number of selected "
                            "boxes is a size");
    if (boxes->rank != 3 || scores->rank != 3 || boxes->dim[2] != 4 || boxes->dim[0] != scores->dim[0] ||
        boxes->dim[1] != scores->dim[2])
        return ot_node_fail(n, err, "boxes are %s and scores %s; expected (N, B, 4) and (N, classes, B)",
                            ot_shape_text(boxes, s), ot_shape_text(scores, t));
    OT_TRY(knob(n, 2, 0, &knobs[0], err));
    OT_TRY(knob(n, 3, 0, &knobs[1], err));
    return knob(n, 4, -INFINITY, &knobs[2], err);
}

static ot_status nms_infer(ot_node *n, ot_error *err)
{
    const ot_shape *scores = &n->in[1]->shape;
    double knobs[3];
    ot_status status = OT_OK;
    OT_TRY(nms_check(n, knobs, err));
    int64_t classes = scores->dim[1], B = scores->dim[2], count = 0, all = ot_numel(scores),
            pairs = all ? scores->dim[0] * classes : 0;
    scored *list = ot_node_alloc(n, (size_t)(B + 1) * sizeof *list);
    int64_t *kept = ot_node_alloc(n, (size_t)(all + 1) * sizeof *kept),
            *many = ot_node_alloc(n, (size_t)(pairs + 1) * sizeof *many);
    if (!list || !kept || !many) return ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    for (int64_t i = 0; i < pairs; i++) {
        const float *box = (const float *)n->in[0]->data + i / classes * B * 4,
                    *score = (const float *)n->in[1]->data + i * B;
        if ((many[i] = suppress(n, box, score, B, knobs, list, kept + count)) < 0) return too_long(n, err);
        count += many[i];
    }
    int64_t *y = known(n, 0, OT_I64, &(ot_shape){ .rank = 2, .dim = { count, 3 } }, &status, err);
    for (int64_t i = 0, at = 0; i < pairs && y; i++)
        for (int64_t k = 0; k < many[i]; k++, at++)
            memcpy(y + 3 * at, (int64_t[]){ i / classes, i % classes, kept[at] }, 3 * sizeof *y);
    return status;
}

const ot_op ot_op_NonMaxSuppression = {
    .name = "NonMaxSuppression",
    .types = { "ffiff" },
    .since = 11,
    .in = { 2, 5 },
    .out = { 1, 1 },
    .flags = OT_COUNTED,
    .nondiff = 0x1f,
    .attrs = nms_rows,
    .attr_size = sizeof(nms_attrs),
    .infer = nms_infer,
    .lower = lower,
    .grad_zero = "the output contains indices",

};
