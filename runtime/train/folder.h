/* folder.h - the folder of a run. */
#ifndef OT_FOLDER_H
#define OT_FOLDER_H

#include "runtime/base/base.h"

/* Makes the run's folder and the ones above it.
 *   asked  NULL: runs/<stem of model>-<n>, n the first that is free; else exactly that, and an
 * older run in it moves to asked.1, that one to asked.2 ... *out: its path, of the arena.  Errors:
 * OT_E_IO. */
ot_status ot_folder_make(const char *asked, const char *model, ot_arena *a, const char **out,
                         ot_error *err);

/* "a/b/net.onnx" -> "net". */
const char *ot_stem(const char *path, ot_arena *a);

/* Whether a file can be made at `path`.  Errors: OT_E_IO. */
ot_status ot_folder_check(const char *path, ot_arena *a, ot_error *err);

#endif
