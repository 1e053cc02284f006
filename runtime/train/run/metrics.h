/* metrics.h - what evaluations measure. */
#ifndef OT_METRICS_H
#define OT_METRICS_H

#include "runtime/base/registry.h"

/* X(id, name, meaning) */
#define OT_METRICS(X)                                                                                                          \
    X(LOSS, "loss", "mean over the evaluation set, the weighted sum of several losses; the best model is chosen by it where there is no accuracy") \
    X(ACCURACY, "accuracy", "part of the answers that are right, for losses over classes and binary ones; the best model is chosen by it")

enum {
#define X(id, name, meaning) OT_METRIC_##id,
    OT_METRICS(X)
#undef X
};

extern const ot_registry ot_metrics; /* entries by OT_METRIC_ID; names are those of the log and of eval's JSON */

#endif
