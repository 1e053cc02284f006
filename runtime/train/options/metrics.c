/* metrics.c - the registry of metrics. */
#include "runtime/train/options/metrics.h"

#define X(id, name, better, meaning) static const ot_entry metric_##id = { name, meaning, NULL };
OT_METRICS(X)
#undef X

static const ot_entry *const entries[] = {
#define X(id, name, better, meaning) &metric_##id,
    OT_METRICS(X)
#undef X
        NULL
};

const ot_registry ot_metrics = { "metric", "what evaluations measure (onnxtrain eval, --val, --test)", entries };

enum { LESS, MORE };

bool ot_metric_rises(int metric)
{
    static const bool rises[] = {
#define X(id, name, better, meaning) better,
        OT_METRICS(X)
#undef X
    };
    return rises[metric];
}
