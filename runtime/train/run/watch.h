/* watch.h - epochs.csv: a row of numbers for each epoch of a run. */
#ifndef OT_WATCH_H
#define OT_WATCH_H

#include "runtime/train/run/log.h"

typedef struct ot_epoch_table {
    char *path; /* of epochs.csv, for messages; NULL: none is written */
    int fd;
    char **column; /* of the evaluation, as in the file */
    int n;
    bool headed; /* the first line is there */
    ot_error err;
} ot_epoch_table;

/* Opens epochs.csv in the open folder.  after: number of epochs whose rows are kept (a resumed run); 0: a new file.
 * Errors: OT_E_IO, OT_E_NOMEM. */
ot_status ot_epoch_table_open(ot_epoch_table *w, int folder, const char *shown, int64_t after, ot_error *err);

/* epoch, step, lr, train_loss, the numbers of eval (a line of the log; NULL: there was no evaluation), seconds. */
void ot_epoch_table_row(ot_epoch_table *w, int64_t epoch, int64_t step, double lr, double train_loss, json_t *eval,
                        double seconds);

ot_status ot_epoch_table_close(ot_epoch_table *w, ot_error *err); /* also reports earlier errors */

#endif
