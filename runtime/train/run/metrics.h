/* metrics.h - what evaluations measure. */
#ifndef OT_METRICS_H
#define OT_METRICS_H

#include "runtime/base/registry.h"

/* X(id, name, meaning) */
#define OT_METRICS(X)                                                                                                          \
    X(LOSS, "loss", "mean over the evaluation set, the weighted sum of several losses") \
    X(ACCURACY, "accuracy", "fraction of correct predictions, for losses over classes and binary ones") \
    X(TOP5, "top5", "fraction of the samples whose class is among the five with the highest scores, for more than five classes") \
    X(PRECISION, "precision", "fraction of the predictions of a class that are correct, mean over the classes; binary: of class 1") \
    X(RECALL, "recall", "fraction of the samples of a class that are predicted correctly, mean over the classes; binary: of class 1") \
    X(F1, "f1", "harmonic mean of precision and recall, mean over the classes; binary: of class 1; of several labels the mean over these") \
    X(AUC, "auc", "area under the ROC curve of each class against all other classes, mean over the classes; of several labels the mean over these") \
    X(LOG_LOSS, "log_loss", "mean negative logarithm of the probability of the true class") \
    X(PERPLEXITY, "perplexity", "exponential of log_loss, for language models") \
    X(IOU, "iou", "intersection over union of masks, mean over the classes; binary: of class 1") \
    X(DICE, "dice", "twice the intersection over the sum of masks, mean over the classes; binary: of class 1") \
    X(MAE, "mae", "mean absolute error, mean over the columns of the target") \
    X(RMSE, "rmse", "root of the mean squared error, mean over the columns") \
    X(R2, "r2", "coefficient of determination: fraction of the target's variance that is explained, mean over the columns")

enum {
#define X(id, name, meaning) OT_METRIC_##id,
    OT_METRICS(X)
#undef X
        OT_METRIC_COUNT
};

/* More is better. */
static inline bool ot_metric_rises(int metric)
{
    return metric != OT_METRIC_LOSS && metric != OT_METRIC_LOG_LOSS && metric != OT_METRIC_PERPLEXITY &&
           metric != OT_METRIC_MAE && metric != OT_METRIC_RMSE;
}

extern const ot_registry ot_metrics; /* entries by OT_METRIC_ID; names are those of the log and of eval's JSON */

#endif
