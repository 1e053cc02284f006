/* files.h - what a command reads is never what it writes. */
#ifndef OT_FILES_H
#define OT_FILES_H

#include "importer/import.h"
#include "runtime/data/data.h"
#include "runtime/train/options/options.h"

/* Everything a command reads; any may be NULL. */
typedef struct ot_inputs {
    const ot_imported *model, *teacher; /* and their external data */
    const ot_config_file *configs;
    const char *named[3]; /* what --data, --val, --test say, before they are open */
    const ot_dataset *data[3];
} ot_inputs;

/* What an output is; a file of another kind that is there already is not replaced. */
typedef enum ot_file_kind {
    OT_FILE_MODEL,
    OT_FILE_ARRAYS,
    OT_FILE_LOG,
    OT_FILE_SVG,
    OT_FILE_PNG,
    OT_FILE_PREDICTIONS
} ot_file_kind;

/* Whether `path`, seen from the open folder `at` (AT_FDCWD: as it stands), may be written: it is nothing that is
 * read, under whatever name; its ending is not that of another kind; what is there is of the kind, or empty; and a file
 * can be made there.  A log may be a device, or a pipe that somebody reads from.  `what`: how messages call it ("-o out.onnx").
 * Errors: OT_E_USAGE (refused), OT_E_IO (nothing can be made there). */
ot_status ot_output_check(const ot_inputs *in, int at, const char *path, ot_file_kind kind, const char *what,
                          ot_error *err);

/* The same, and opens it for writing: emptied, or with keep as it is.  Links are followed only from AT_FDCWD. */
ot_status ot_output_open(const ot_inputs *in, int at, const char *path, ot_file_kind kind, bool keep, const char *what,
                         int *fd, ot_error *err);

/* Refuses (OT_E_USAGE, naming the file) where the open folder, or one within it, holds something that is read. */
ot_status ot_inputs_outside(const ot_inputs *in, int folder, const char *what, ot_error *err);

#endif
