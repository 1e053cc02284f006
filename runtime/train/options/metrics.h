/* metrics.h - what evaluations measure. */
#ifndef OT_METRICS_H
#define OT_METRICS_H

#include "runtime/base/registry.h"

/* X(id, name, MORE or LESS: which is better, meaning) */
#define OT_METRICS(X)                                                                                                          \
    X(LOSS, "loss", LESS, "mean over the evaluation set, the weighted sum of several losses") \
    X(ACCURACY, "accuracy", MORE, "fraction of correct predictions, for losses over classes and binary ones; each label of several, each pixel of a mask and each token counts as one") \
    X(TOP5, "top5", MORE, "fraction of the samples whose class is among the five with the highest scores, for more than five classes") \
    X(PRECISION, "precision", MORE, "fraction of the predictions of a class that are correct, mean over the classes; binary: of class 1") \
    X(RECALL, "recall", MORE, "fraction of the samples of a class that are predicted correctly, mean over the classes; binary: of class 1") \
    X(F1, "f1", MORE, "harmonic mean of precision and recall, mean over the classes; binary: of class 1; of several labels the mean over these") \
    X(AUC, "auc", MORE, "area under the ROC curve of each class against all other classes, mean over the classes; of several labels the mean over these") \
    X(LOG_LOSS, "log_loss", LESS, "mean negative logarithm of the probability of the true class") \
    X(PERPLEXITY, "perplexity", LESS, "exponential of log_loss, for language models") \
    X(IOU, "iou", MORE, "intersection over union of masks, mean over the classes; binary: of class 1") \
    X(DICE, "dice", MORE, "twice the intersection over the sum of masks, mean over the classes; binary: of class 1") \
    X(MAE, "mae", LESS, "mean absolute error, mean over the columns of the target") \
    X(RMSE, "rmse", LESS, "root of the mean squared error, mean over the columns") \
    X(R2, "r2", MORE, "coefficient of determination: fraction of the target's variance that is explained, mean over the columns")

enum {
#define X(id, name, better, meaning) OT_METRIC_##id,
    OT_METRICS(X)
#undef X
        OT_METRIC_COUNT
};

/* Is more better? */
bool ot_metric_rises(int metric);

extern const ot_registry ot_metrics; /* entries by OT_METRIC_ID; names are those of the log and of eval's JSON */

#endif
