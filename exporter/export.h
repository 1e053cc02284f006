/* export.h - trained tensors back into the user's file, byte for byte otherwise. */
#ifndef OT_EXPORT_H
#define OT_EXPORT_H

#include "importer/import.h"

/* What one tensor of the file becomes. */
typedef struct ot_export_tensor {
    int source;        /* index into m->sources */
    const void *bytes; /* row-major, in the source's dtype and shape; borrowed */
} ot_export_tensor;

typedef struct ot_export_metadata {
    const char *key,
        *value; /* "onnxtrain.*" replaces; any other key is only added where there is none.  value NULL: the entry goes */
    bool with_changes; /* of ot_export: written where a tensor changes; else the file stays as it is */
} ot_export_metadata;

typedef struct ot_export_options {
    int n_metadata; /* 0: the file keeps the metadata it has */
    const ot_export_metadata *metadata;

    /* Called with the written file read back, before it replaces anything: compare a batch.  A
     * failure leaves `path` as it was.  NULL: only the tensors are compared. */
    ot_status (*check)(const ot_imported *written, void *user, ot_error *err);
    void *user;

    bool dry;          /* everything is done but the last: the file gets no name, and is gone */
    const int *folder; /* `path` is seen from this open folder; NULL: from the working directory */
} ot_export_options;

/* Writes m's file to `path` with the payloads of the n given tensors changed and nothing else:
 * unknown fields, encodings, order stay.  An element equal to what it was (0 and -0 are) keeps its
 * bytes, so unchanged weights give the identical file.  `path` may be the file m came from; it
 * appears complete or not at all.
 *
 * External data stays external.  Where it changed, or where it is not to be found from the folder of
 * `path`, a new data file is written beside `path`: <stem>-<hash>.onnx.data, or, for one that did not change,
 * under the location's own name if that is free.  No existing data file is ever written to.  Model and data files
 * get their names when all are complete.  Then files of the name <stem>-<hash>.onnx.data that the model replaced
 * at `path` named are removed, unless m or a model in that folder has data in them.
 *
 * o may be NULL.  Errors: OT_E_DIVERGED (an element that changed is not finite), OT_E_IO (disk; or
 * what was written does not read back), OT_E_MODEL (the file would exceed 2 GiB), OT_E_NOMEM. */
ot_status ot_export(const ot_imported *m, const char *path, int n, const ot_export_tensor *t,
                    const ot_export_options *o, ot_error *err);

#endif
