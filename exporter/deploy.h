/* deploy.h - exports a file for inference: without what only training needs.
 *
 * Unlike ot_export this serializes the file's messages again; unknown fields are kept. */
#ifndef OT_DEPLOY_H
#define OT_DEPLOY_H

#include "exporter/export.h"

typedef struct ot_deploy_options {
    bool fold; /* BatchNormalization goes into the layer before it, where that is exact */
    bool half; /* weights and what is safe in float16; inputs and outputs keep their types */
    int n_metadata;
    const ot_export_metadata *metadata;
    const ot_graph *typed; /* m's graph, inferred: element types and ranks by the file's names; NULL: unknown,
                                      * which `half` does not allow.  Borrowed */

    /* Called with the written file read back, before it replaces anything; a failure leaves `path` as it was. */
    ot_status (*check)(const ot_imported *written, void *user, ot_error *err);
    void *user;
} ot_deploy_options;

/* Writes the deployable form of m's file to `path`, which is not m's own file:
 *   BatchNormalization  in inference mode (or folded), outputs that only training has dropped
 *   Dropout             removed
 *   losses              outputs that are losses, the inputs only they need, training information
 * Tensors and constants that nothing uses any more go; all else stays.  External data is in one new file beside
 * `path`, <stem>-<checksum>.onnx.data.  *lines: what was done, a line each; memory of `a`.
 *
 * Errors: OT_E_MODEL (over 2 GiB), OT_E_IO, OT_E_NOMEM, what `check` says. */
ot_status ot_deploy(const ot_imported *m, const char *path, const ot_deploy_options *o, ot_arena *a, const char **lines,
                    ot_error *err);

#endif
