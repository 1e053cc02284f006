/* events.h - TensorBoard event files, derived from the log. */
#ifndef OT_EVENTS_H
#define OT_EVENTS_H

#include <jansson.h>

#include "runtime/graph/graph.h"
#include "runtime/train/run/log.h"

typedef struct ot_events ot_events;

/* Creates a new file in `folder`, seen from the open folder `at`; the folder must exist.  Several files in it are read as
 * one training.  shown: the folder in messages.  Errors: OT_E_IO, OT_E_NOMEM. */
ot_status ot_events_open(int at, const char *folder, const char *shown, ot_events **out, ot_error *err);

/* Scalars of an update; head: names of the n single losses, as JSON.  Buffered. */
void ot_events_step(ot_events *e, const ot_log_step *s, int n, char *const *head);

/* A line of the log: the options of "start", the numbers of "eval", the reason of "end"; after "resume" readers drop what
 * older files have of later steps.  Others are ignored. */
void ot_events_line(ot_events *e, json_t *line);

enum { OT_EVENTS_BUCKETS = 40 };

/* Numbers in buckets of equal width from the least to the most. */
typedef struct ot_events_buckets {
    int64_t n, count[OT_EVENTS_BUCKETS];
    double least, most, sum, squares;
} ot_events_buckets;

void ot_events_histogram(ot_events *e, int64_t step, const char *tag, const ot_events_buckets *b);

/* The graph of a model: its nodes, inputs and stored tensors by the names of their values, with shapes where they are known. */
void ot_events_graph(ot_events *e, const ot_graph *g);

void ot_events_flush(ot_events *e);
ot_status ot_events_close(ot_events *e, ot_error *err); /* frees e, which may be NULL; reports what failed on the way */

#endif
