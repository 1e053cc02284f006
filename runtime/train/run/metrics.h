/* metrics.h - what evaluations measure. */
#ifndef OT_METRICS_H
#define OT_METRICS_H

#include "runtime/base/registry.h"

/* X(id, name, meaning) */
#define OT_METRICS(X)                                                                                                          \
    X(LOSS, "loss", "the mean over the set; of several losses their weighted sum. Less is better; watched where there is no accuracy") \
    X(ACCURACY, "accuracy", "the share of right answers, of losses over classes or yes and no. More is better")

enum {
#define X(id, name, meaning) OT_METRIC_##id,
    OT_METRICS(X)
#undef X
};

extern const ot_registry ot_metrics; /* entries by OT_METRIC_ID; names are those of the log and of eval's JSON */

#endif
