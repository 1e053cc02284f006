/* meter.c - metrics of the predictions of one output.
 *
 * Numerics  Sums are in float64.  AUC is computed from all scores at the end: the area under the curve of the ranks, ties
 *           count half.  Scores that differ by TIE of their size are ties: equal samples get such at different places of a
 *           batch.  Averages over classes leave out those that are neither a target nor an answer; AUC is NaN then.
 * Source    The definitions are those of scikit-learn (macro averages, zero_division=0, one-vs-rest). */
#include "runtime/train/run/meter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/options/metrics.h"

enum { MOST_RANKED = 1 << 26 }; /* scores that are kept */
static const double TIE = 1e-6;

/* Number of classes or labels over which scores are averaged. */
static int64_t tasks_of(const ot_meter *m)
{
    return m->kind == OT_METER_CLASSES ? m->classes : m->kind == OT_METER_BINARY && m->labels > 1 ? m->labels : 1;
}

ot_status ot_meter_open(ot_meter *m, ot_error *err)
{
    size_t c = (size_t)tasks_of(m), k = (size_t)(m->columns > 0 ? m->columns : 1);
    m->right = calloc(3 * c, sizeof *m->right);
    m->off = calloc(4 * k, sizeof *m->off);
    bool confused = m->kind == OT_METER_CLASSES && c <= OT_MOST_CONFUSED;
    if (confused) m->confusion = calloc(c * c, sizeof *m->confusion);
    m->ranks = ot_meter_gives(m, OT_METRIC_AUC);
    if (!m->right || !m->off || (confused && !m->confusion)) {
        ot_meter_close(m);
        return ot_fail(err, OT_E_NOMEM, "no memory for metrics");
    }
    m->said = m->right + c, m->is = m->said + c;
    m->square = m->off + k, m->mean = m->square + k, m->spread = m->mean + k;
    return OT_OK;
}

void ot_meter_close(ot_meter *m)
{
    free(m->right);
    free(m->off);
    free(m->confusion);
    free(m->score);
    free(m->label);
    free(m->ranked);
    m->right = m->label = m->confusion = NULL;
    m->off = m->score = NULL;
    m->ranked = NULL;
}

struct ot_ranked {
    double score;
    bool is;
};

/* Makes room for the scores of one more prediction; if there are too many, AUC is not computed. */
static ot_status make_room(ot_meter *m, int64_t width, ot_error *err)
{
    if (m->ranks && (m->n + 1) * width > MOST_RANKED) m->ranks = false;
    if (!m->ranks || m->n < m->room) return OT_OK;
    int64_t room = m->room ? 2 * m->room : 1024;
    double *score = realloc(m->score, (size_t)(room * width) * sizeof *score);
    if (score) m->score = score;
    int64_t *label = realloc(m->label, (size_t)room * sizeof *label);
    if (label) m->label = label;
    struct ot_ranked *ranked = realloc(m->ranked, (size_t)room * sizeof *ranked);
    if (ranked) m->ranked = ranked;
    if (!score || !label || !ranked) return ot_fail(err, OT_E_NOMEM, "no memory for the scores of AUC");
    m->room = room;
    return OT_OK;
}

/* ---- classes ----------------------------------------------------------------------------- */

/* The probability of a score, times j->sum. */
static double share(const ot_meter *m, const ot_judged *j, double v)
{
    return m->scale == OT_SCALE_PROBABILITIES ? v : exp(v - j->most);
}

static double minus_log(double p) { return -log(p > 1e-300 ? p : 1e-300); }

static void judge_class(const ot_meter *m, const void *y, ot_dtype type, ot_judged *j)
{
    double own = ot_get_f64(y, type, j->at + j->label * m->inner);
    j->most = ot_get_f64(y, type, j->at);
    j->odd = isnan(j->most);
    for (int64_t k = 1; k < m->classes; k++) {
        double v = ot_get_f64(y, type, j->at + k * m->inner);
        j->odd |= isnan(v);
        if (v > j->most) j->most = v, j->best = k;
    }
    double all = 0, least = 0;
    for (int64_t k = 0; k < m->classes; k++) {
        double v = ot_get_f64(y, type, j->at + k * m->inner);
        all += v;
        least = fmin(least, v);
        j->above += v > own;
        j->sum += share(m, j, v);
    }
    j->shares = least >= 0 && fabs(all - 1) < 1e-3;
    j->probability = share(m, j, j->most) / j->sum;
    j->loss = log(j->sum) + (m->scale == OT_SCALE_PROBABILITIES ? minus_log(own) : j->most - own);
}

static void judge_binary(const ot_meter *m, double y, ot_judged *j)
{
    bool logits = m->scale == OT_SCALE_LOGITS;
    double one = logits ? 1 / (1 + exp(-y)) : y;
    j->odd = isnan(y);
    j->best = j->odd ? !j->label : logits ? y > 0 : y > 0.5;
    j->probability = j->best ? one : 1 - one;
    j->loss =
        logits ? log1p(exp(-fabs(y))) + (j->label ? fmax(-y, 0) : fmax(y, 0)) : minus_log(j->label ? one : 1 - one);
}

bool ot_meter_judge(const ot_meter *m, const void *y, ot_dtype type, const void *t, ot_dtype target, int64_t i,
                    ot_judged *out)
{
    *out =
        (ot_judged){ .label = m->kind == OT_METER_CLASSES ? ot_get_i64(t, target, i) : ot_get_f64(t, target, i) > 0.5 };
    if (m->kind != OT_METER_CLASSES) {
        judge_binary(m, ot_get_f64(y, type, i), out);
        return true;
    }
    if (out->label < 0 || out->label >= m->classes) return false;
    out->at = i / m->inner * m->classes * m->inner + i % m->inner;
    judge_class(m, y, type, out);
    return true;
}

static ot_status add_class(ot_meter *m, const void *y, ot_dtype type, const ot_judged *j, ot_error *err)
{
    OT_TRY(make_room(m, m->classes, err));
    for (int64_t k = 0; k < m->classes && m->ranks; k++) {
        double p = share(m, j, ot_get_f64(y, type, j->at + k * m->inner)) / j->sum;
        m->score[m->n * m->classes + k] = p;
        if (isnan(p)) m->ranks = false; /* it has no rank */
    }
    if (m->ranks) m->label[m->n] = j->label;
    m->right[j->label] += !j->odd && j->best == j->label;
    if (m->confusion) m->confusion[j->label * m->classes + j->best] += !j->odd;
    m->said[j->best] += !j->odd;
    m->is[j->label]++;
    m->in_five += !j->odd && j->above < 5;
    m->shares += j->shares;
    return OT_OK;
}

static ot_status add_binary(ot_meter *m, double y, const ot_judged *j, ot_error *err)
{
    if (isnan(y)) m->ranks = false; /* it has no rank */
    OT_TRY(make_room(m, 1, err));
    if (m->ranks) m->score[m->n] = y, m->label[m->n] = j->label;
    int64_t k = m->n % tasks_of(m);
    m->right[k] += j->best && j->label;
    m->said[k] += j->best;
    m->is[k] += j->label;
    return OT_OK;
}

double ot_meter_prediction(const ot_meter *m, double y) { return m->exponential ? exp(y) : y; }

/* Adds a row of values; Welford's update for mean and squared deviations of the targets. */
static void add_values(ot_meter *m, const void *y, ot_dtype type, const void *t, ot_dtype target, int64_t row)
{
    m->n++;
    for (int64_t k = 0; k < m->columns; k++) {
        double unit = m->unit ? m->unit[k % m->units] : 1, v = unit * ot_get_f64(t, target, row * m->columns + k);
        double d = unit * ot_meter_prediction(m, ot_get_f64(y, type, row * m->columns + k)) - v;
        double from = v - m->mean[k];
        m->off[k] += fabs(d);
        m->square[k] += d * d;
        m->mean[k] += from / (double)m->n;
        m->spread[k] += from * (v - m->mean[k]);
    }
}

ot_status ot_meter_add(ot_meter *m, const void *y, ot_dtype type, const void *t, ot_dtype target, int64_t rows,
                       ot_error *err)
{
    bool values = m->kind == OT_METER_VALUES, classes = m->kind == OT_METER_CLASSES;
    for (int64_t i = 0; values && i < rows; i++) add_values(m, y, type, t, target, i);
    for (int64_t i = 0; !values && i < rows * (classes ? m->inner : m->columns); i++) {
        ot_judged j;
        if (!ot_meter_judge(m, y, type, t, target, i, &j)) continue;
        OT_TRY(classes ? add_class(m, y, type, &j, err) : add_binary(m, ot_get_f64(y, type, i), &j, err));
        m->odd += j.odd;
        m->odd_yes += j.odd && !classes && j.label;
        m->log_loss += j.loss;
        m->n++;
    }
    return OT_OK;
}

/* ---- values -------------------------------------------------------------------------------- */

static int by_score(const void *a, const void *b)
{
    const struct ot_ranked *x = a, *y = b;
    return (x->score > y->score) - (x->score < y->score);
}

static bool is_tie(double low, double high) { return high == low || high - low <= TIE * fmax(fabs(low), fabs(high)); }

/* AUC of class c against the others, or of label c; NaN: all targets are in one class. */
static double auc_of(const ot_meter *m, int64_t c)
{
    struct ot_ranked *r = m->ranked;
    double below = 0, area = 0, no = 0, yes = 0;
    bool classes = m->kind == OT_METER_CLASSES;
    int64_t width = tasks_of(m), n = classes ? m->n : m->n / width;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * width + c;
        r[i] = (struct ot_ranked){ m->score[at], classes ? m->label[i] == c : m->label[at] != 0 };
    }
    qsort(r, (size_t)n, sizeof *r, by_score);
    for (int64_t i = 0, end; i < n; i = end) {
        double pos = 0, neg = 0;
        for (end = i; end < n && is_tie(r[i].score, r[end].score); end++) *(r[end].is ? &pos : &neg) += 1;
        area += pos * (below + neg / 2);
        below += neg;
        yes += pos, no += neg;
    }
    return yes > 0 && no > 0 ? area / (yes * no) : (double)NAN;
}

static double auc(const ot_meter *m)
{
    if (!m->ranks || !m->n) return NAN;
    if (m->kind == OT_METER_CLASSES && m->classes == 2) return auc_of(m, 1);
    double sum = 0;
    int64_t n = tasks_of(m);
    for (int64_t c = 0; c < n; c++) sum += auc_of(m, c); /* NaN where a class or label is missing */
    return sum / (double)n;
}

void ot_meter_scores(int64_t right, int64_t said, int64_t is, double out[3])
{
    double n = (double)right;
    out[0] = said > 0 ? n / (double)said : 0;
    out[1] = is > 0 ? n / (double)is : 0;
    out[2] = said + is > 0 ? 2 * n / ((double)said + (double)is) : 0;
}

static void score_class(const ot_meter *m, int64_t c, double out[3])
{
    ot_meter_scores(m->right[c], m->said[c], m->is[c], out);
}

enum { PRECISION, RECALL, F1, IOU };

/* Precision, recall, F1 or IoU of class k, or of class 1 of label k. */
static double of_class(const ot_meter *m, int64_t k, int which)
{
    double v[3], both = (double)(m->said[k] + m->is[k] - m->right[k]);
    score_class(m, k, v);
    return which < IOU ? v[which] : both > 0 ? (double)m->right[k] / both : 0;
}

/* The mean of a score over classes, or of class 1 over labels. */
static double over_classes(const ot_meter *m, int which)
{
    int64_t c = tasks_of(m), used = 0;
    double sum = 0;
    for (int64_t k = 0; k < c; k++) {
        bool occurs = m->said[k] + m->is[k] - m->right[k] > 0;
        if (!occurs && m->kind == OT_METER_CLASSES && c > 1) continue;
        sum += of_class(m, k, which);
        used++;
    }
    return used ? sum / (double)used : (double)NAN;
}

static double of_column(const ot_meter *m, int64_t k, int metric)
{
    double n = (double)m->n;
    switch (metric) {
    case OT_METRIC_MAE: return m->off[k] / n;
    case OT_METRIC_RMSE: return sqrt(m->square[k] / n);
    case OT_METRIC_R2:
        return m->n < 2 ? (double)NAN : m->spread[k] > 0 ? 1 - m->square[k] / m->spread[k] : m->square[k] > 0 ? 0 : 1;
    default: return NAN;
    }
}

static double over_columns(const ot_meter *m, int metric)
{
    double sum = 0;
    for (int64_t k = 0; k < m->columns; k++) sum += of_column(m, k, metric);
    return sum / (double)m->columns;
}

int64_t ot_meter_parts(const ot_meter *m)
{
    int64_t n = m->kind == OT_METER_BINARY ? m->labels : m->kind == OT_METER_VALUES ? m->columns : 0;
    return n > 1 ? n : 0;
}

double ot_meter_part(const ot_meter *m, int64_t part, int metric)
{
    if (!m->n || !ot_meter_gives(m, metric)) return NAN;
    switch (metric) {
    case OT_METRIC_PRECISION: return of_class(m, part, PRECISION);
    case OT_METRIC_RECALL: return of_class(m, part, RECALL);
    case OT_METRIC_F1: return of_class(m, part, F1);
    case OT_METRIC_AUC: return m->ranks ? auc_of(m, part) : (double)NAN;
    default: return m->kind == OT_METER_VALUES ? of_column(m, part, metric) : (double)NAN;
    }
}

bool ot_meter_gives(const ot_meter *m, int metric)
{
    bool values = m->kind == OT_METER_VALUES;
    switch (metric) {
    case OT_METRIC_MAE:
    case OT_METRIC_RMSE:
    case OT_METRIC_R2: return values;
    case OT_METRIC_TOP5: return m->kind == OT_METER_CLASSES && m->classes > 5;
    case OT_METRIC_PRECISION:
    case OT_METRIC_RECALL:
    case OT_METRIC_F1:
    case OT_METRIC_LOG_LOSS: return !values;
    case OT_METRIC_IOU:
    case OT_METRIC_DICE: return !values && m->mask;
    case OT_METRIC_AUC: return !values && !m->mask && !m->text;
    case OT_METRIC_PERPLEXITY: return !values && m->text;
    default: return false;
    }
}

double ot_meter_value(const ot_meter *m, int metric)
{
    if (!m->n || !ot_meter_gives(m, metric)) return NAN;
    switch (metric) {
    case OT_METRIC_TOP5: return (double)m->in_five / (double)m->n;
    case OT_METRIC_PRECISION: return over_classes(m, PRECISION);
    case OT_METRIC_RECALL: return over_classes(m, RECALL);
    case OT_METRIC_F1:
    case OT_METRIC_DICE: return over_classes(m, F1);
    case OT_METRIC_IOU: return over_classes(m, IOU);
    case OT_METRIC_AUC: return auc(m);
    case OT_METRIC_LOG_LOSS: return m->log_loss / (double)m->n;
    case OT_METRIC_PERPLEXITY: return exp(m->log_loss / (double)m->n);
    default: return over_columns(m, metric);
    }
}
