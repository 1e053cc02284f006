/* training.h - a training that was planned, into the file as its own (TrainingInfoProto). */
#ifndef OT_EXPORT_TRAINING_H
#define OT_EXPORT_TRAINING_H

#include "importer/import.h"

/* What trains, as graphs of the file's operators, then of ours for the loss, one Gradient, and the updates, which are assigned. */
typedef struct ot_described {
    const ot_graph *graph[2];          /* the same for two sizes of batch: what differs is computed from the batch */
    int before;                        /* values with a smaller id are the file's */
    const ot_value *loss;              /* of graph[0], as those below */
    const ot_value *lr, *momentum, *t; /* inputs that the host sets; NULL: none */
    double rate, start;                /* of the first two */
    int64_t batch;                     /* samples of one, recorded for programs that continue the training */
} ot_described;

#define OT_TRAINING_BATCH_KEY "onnxtrain.training.batch_size" /* of the metadata: the batches that a written training had */

/* m's file with that behind it, in place of a training of its own, read; free with ot_import_free.  Nothing else of it changes.
 * Errors: OT_E_MODEL: it cannot be written in operators of ONNX. */
ot_status ot_training_write(const ot_imported *m, const ot_described *d, ot_imported **out, ot_error *err);

#endif
