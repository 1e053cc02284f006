/* nonmaxsuppression.c - NonMaxSuppression: the boxes of each class that overlap no better one too much.
 *
 * Spec    ai.onnx NonMaxSuppression 10, 11.  How many are left is a size, so inputs must be known before the run.
 *         Scores must be above score_threshold.
 * Shapes  boxes: (N, B, 4)  scores: (N, classes, B)   y: (selected, 3): batch, class, box
 * Grad    none: y holds indices. */
#include "ops/onnx/counted.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
    if (!ot_counted_afford(n, B)) return -1;
    if (candidates) qsort(list, (size_t)candidates, sizeof *list, best_first);
    for (int64_t i = 0; i < candidates && (double)count < knobs[0]; i++) {
        bool stays = true;
        if (!ot_counted_afford(n, count + 1)) return -1;
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
        if ((many[i] = suppress(n, box, score, B, knobs, list, kept + count)) < 0) return ot_counted_too_long(n, err);
        count += many[i];
    }
    int64_t *y = ot_counted_output(n, 0, OT_I64, &(ot_shape){ .rank = 2, .dim = { count, 3 } }, &status, err);
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
    .lower = ot_counted_lower,
    .grad_zero = "the output contains indices",
};
