/* loader.h - threads that draw batches ahead of the step that needs them.
 *
 * The owner's callback (ot_ahead) predicts the next batches.  A batch that was not predicted is drawn when it is taken.
 * The contents of a batch therefore depend on its samples and on `given` alone, not on the number of threads.
 *
 * Threads  All functions are called by one thread, the owner's. */
#ifndef OT_LOADER_H
#define OT_LOADER_H

#include "runtime/train/feed/draw.h"

typedef struct ot_loader ot_loader;

/* A loader of batches of up to `most` samples of fs (which outlives it), with so many threads besides the owner's (0: the
 * owner draws each batch when it is needed).  budget: bytes left for decoded images that are kept (fs->again); borrowed;
 * NULL: none are kept.  Errors: OT_E_NOMEM. */
ot_status ot_loader_new(ot_feeders *fs, int64_t most, int workers, int64_t *budget, ot_loader **out, ot_error *err);
void ot_loader_free(ot_loader *l); /* NULL is allowed */

int64_t ot_loader_most(const ot_loader *l);
int64_t ot_loader_bytes(const ot_feeders *fs, int64_t most); /* upper limit of what it allocates */

/* Draws samples index[0..n), valid until the next call: ot_feeder_take and _raw of these samples then only convert.  A sample
 * that cannot be read is replaced by the next one that can, in index too, up to fs->skip_bad samples; each is reported to
 * fs->bad.  position: the batch's number, from which fs->ahead predicts the next.  Errors: those of ot_image_source.read. */
ot_status ot_loader_take(ot_loader *l, int64_t position, int64_t given, int64_t *index, int64_t n, ot_error *err);

#endif
