/* files.h - checks and opens output files, so that a command does not write to a file that it reads. */
#ifndef OT_FILES_H
#define OT_FILES_H

#include "importer/import.h"
#include "runtime/data/data.h"
#include "runtime/train/options/options.h"

/* Everything a command reads; any may be NULL. */
typedef struct ot_inputs {
    const ot_imported *model, *teacher; /* and their external data */
    const ot_config_file *configs;
    const char *named[3]; /* values of --data, --val, --test, before they are open */
    const ot_dataset *data[3];
} ot_inputs;

/* The kind of an output file; an existing file of another kind is not replaced. */
typedef enum ot_file_kind {
    OT_FILE_MODEL,
    OT_FILE_ARRAYS,
    OT_FILE_LOG,
    OT_FILE_SVG,
    OT_FILE_PNG,
    OT_FILE_PREDICTIONS
} ot_file_kind;

/* Checks that `path`, relative to the open folder `at` (or AT_FDCWD), may be written: no input is the same file, also under
 * another name; its ending is not that of another kind; an existing file is empty or of that kind; and a file can be created
 * there.  A log may be a device, or a pipe with a reader.  `what`: its name in messages ("-o out.onnx").
 * Errors: OT_E_USAGE (refused), OT_E_IO (no file can be created there). */
ot_status ot_output_check(const ot_inputs *in, int at, const char *path, ot_file_kind kind, const char *what,
                          ot_error *err);

/* Checks a log likewise and opens it for writing: truncated, or unchanged with keep.  Links are followed only with AT_FDCWD. */
ot_status ot_output_open_log(const ot_inputs *in, int at, const char *path, bool keep, const char *what, int *fd,
                             ot_error *err);

/* Errors: OT_E_USAGE: the open folder or a folder in it contains an input; the message names the file. */
ot_status ot_inputs_outside(const ot_inputs *in, int folder, const char *what, ot_error *err);

#endif
