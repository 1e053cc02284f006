/* balance.c - class_weights=auto and pos_weight=auto of a loss: numbers from the labels of the training set.
 *
 * Source  class_weight="balanced" of scikit-learn; pos_weight of PyTorch's BCEWithLogitsLoss */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/losses/losses.h"
#include "runtime/train/feed/masks.h"

static const char *const keys[] = { "class_weights", "pos_weight" };

enum { MOST_CLASSES = 1 << 20, SHOWN = 20 };

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory to prepare the data"); }

/* w: how many samples each of n classes has, and becomes samples / (classes * samples of the class), of the classes that occur; of
 * ones, the samples of others / samples of the class, of the classes that have both.  1 for others. */
static void balance(double *w, int64_t n, bool ones)
{
    double all = 0, there = 0;
    for (int64_t c = 0; c < n; c++) all += w[c], there += w[c] > 0;
    for (int64_t c = 0; c < n; c++) {
        double of = ones ? all - w[c] : all / there;
        w[c] = w[c] > 0 && of > 0 ? of / w[c] : 1;
    }
}

static ot_status of_classes(const ot_spec *loss, const char *key, const ot_array *labels, ot_arena *a, double **out,
                            int *n, ot_error *err)
{
    const ot_param *ignore = ot_spec_find(loss, "ignore_index");
    int64_t skip = ignore && !isnan(ignore->num) ? (int64_t)ignore->num : OT_IGNORED, most = -1;
    const ot_tensor *t = &labels->t;
    ot_shape shape = ot_array_shape(labels);
    int64_t count = ot_numel(&shape);
    for (int64_t i = 0; i < count; i++) {
        double y = ot_get_f64(t->data, t->dtype, ot_array_at(labels, i));
        if (y != (double)skip && y > (double)most) most = (int64_t)y;
    }
    if (most < 0 || most >= MOST_CLASSES)
        return ot_fail(err, OT_E_DATA, "loss %s: %s=auto: the target contains no class numbers that count", loss->name,
                       key);
    double *w = ot_arena_alloc(a, (size_t)(most + 1) * sizeof *w);
    if (!w) return no_memory(err);
    memset(w, 0, (size_t)(most + 1) * sizeof *w);
    for (int64_t i = 0; i < count; i++) {
        double y = ot_get_f64(t->data, t->dtype, ot_array_at(labels, i));
        if (y != (double)skip && y >= 0) w[(int64_t)y]++;
    }
    balance(w, most + 1, !strcmp(key, keys[1]));
    *out = w;
    *n = (int)most + 1;
    return OT_OK;
}

/* Of masks in files: the pixels as they train, each a sample.  ones: zeros / ones instead, of each class unless the masks are of
 * 0 and 1. */
static ot_status of_masks(const ot_adapt_env *e, const ot_spec *loss, const ot_feeder *f, bool ones, double **out,
                          int *n, ot_error *err)
{
    int64_t count[256], most = -1;
    const ot_mask *m = f->mask;
    double *w = *out = ot_arena_alloc(e->a, 256 * sizeof *w);
    if (!w) return no_memory(err);
    OT_TRY(ot_masks_count(f->src, f, e->s, f->src->t.dim[0], count, err));
    for (int v = 0; v < 256; v++) {
        bool skip = v == m->except || (v == OT_MASK_VOID && m->voids);
        w[v] = skip ? 0 : (double)count[v];
        if (w[v] > 0) most = v;
    }
    if (most < 0) return ot_fail(err, OT_E_DATA, "loss %s: the masks contain no class numbers that count", loss->name);
    bool binary = ones && !ot_is_int(f->dtype);
    *n = binary ? 1 : (int)most + 1;
    if (binary) w[0] = w[0] > 0 && w[1] > 0 ? w[0] / w[1] : 1;
    else balance(w, *n, ones);
    ot_adapt_note(e, "loss %s: %lld masks are counted, %lldx%lld pixels each", loss->name, (long long)f->src->t.dim[0],
                  (long long)f->to.h, (long long)f->to.w);
    return OT_OK;
}

/* zeros / ones; where a sample is a row, of each of its places.  1 where all are of one kind. */
static ot_status of_ones(const ot_feeder *f, ot_arena *a, double **out, int *n, ot_error *err)
{
    const ot_tensor *t = &f->src->t;
    ot_shape shape = ot_array_shape(f->src);
    int64_t places = f->sample.rank == 1 ? f->sample.dim[0] : 1, count = ot_numel(&shape);
    if (places < 1 || places > MOST_CLASSES) places = 1;
    double *w = ot_arena_alloc(a, (size_t)places * sizeof *w);
    if (!w) return no_memory(err);
    memset(w, 0, (size_t)places * sizeof *w);
    for (int64_t i = 0; i < count; i++) w[i % places] += ot_get_f64(t->data, t->dtype, ot_array_at(f->src, i));
    for (int64_t c = 0; c < places; c++) {
        double zeros = (double)(count / places) - w[c];
        w[c] = w[c] > 0 && zeros > 0 ? zeros / w[c] : 1;
    }
    *out = w;
    *n = (int)places;
    return OT_OK;
}

static ot_status set_list(ot_spec *t, const char *key, const double *list, int n, ot_arena *a, ot_error *err)
{
    ot_param *p = ot_arena_alloc(a, sizeof *p * (size_t)(t->n + 1));
    if (!p) return no_memory(err);
    memcpy(p, t->param, (size_t)t->n * sizeof *p);
    for (int i = 0; i < t->n; i++)
        if (!strcmp(p[i].key, key)) p[i].list = list, p[i].n = n;
    t->param = p;
    return OT_OK;
}

static void say(const ot_adapt_env *e, const ot_spec *loss, const char *key, const double *w, int n)
{
    char text[SHOWN * 16 + 100] = "";
    int least = 0, most = 0, at = 0;
    for (int i = 1; i < n; i++) {
        if (w[i] < w[least]) least = i;
        if (w[i] > w[most]) most = i;
    }
    for (int i = 0; i < n && n <= SHOWN; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%.6g", i ? "," : "[", w[i]);
    if (n <= SHOWN) snprintf(text + at, sizeof text - (size_t)at, "]");
    else snprintf(text, sizeof text, "%.6g (class %d) to %.6g (class %d)", w[least], least, w[most], most);
    ot_adapt_note(e, "loss %s: %s=auto: %s", loss->name, key, text);
}

ot_status ot_adapt_balance(const ot_adapt_env *e, ot_spec *loss, const ot_feeder *f, ot_error *err)
{
    for (int k = 0; k < OT_LEN(keys); k++) {
        const ot_param *p = ot_spec_find(loss, keys[k]);
        double *w = NULL;
        int n = 0;
        if (!p || p->n || strcmp(p->text, OT_LOSS_AUTO)) continue;
        if (!e->measure)
            return ot_fail(err, OT_E_USAGE,
                           "loss %s: %s=auto is the balance of the training set's labels: use the numbers that the "
                           "training printed, %s=[...], or evaluate the run: onnxtrain eval RUN",
                           loss->name, p->key, p->key);
        bool numbers = ot_is_int(f->dtype) && !f->adds_up[0];
        if (k == 0 && !numbers)
            return ot_fail(err, OT_E_USAGE, "loss %s: class_weights=auto needs class numbers as the target",
                           loss->name);
        if (f->mask) OT_TRY(of_masks(e, loss, f, k, &w, &n, err));
        else OT_TRY(numbers ? of_classes(loss, keys[k], f->src, e->a, &w, &n, err) : of_ones(f, e->a, &w, &n, err));
        OT_TRY(set_list(loss, keys[k], w, n, e->a, err));
        say(e, loss, keys[k], w, n);
    }
    return OT_OK;
}
