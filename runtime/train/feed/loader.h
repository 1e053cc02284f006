/* loader.h - batches that are drawn by threads ahead of the step that needs them.
 *
 * What comes next is asked of the owner (ot_ahead) and only a guess: a batch that was asked for and is not there is drawn
 * then.  What a batch contains is therefore a function of its samples and `given` alone, whatever the number of threads.
 *
 * Threads  All functions are called by one thread, the owner's. */
#ifndef OT_LOADER_H
#define OT_LOADER_H

#include "runtime/train/feed/draw.h"

typedef struct ot_loader ot_loader;

/* One that draws batches of up to `most` samples of fs, which outlives it, with so many threads beside the owner's (0: it
 * draws them alone, when they are needed).  budget: bytes for decoded images, of fs->again, which outlives it too; NULL: none.
 * Errors: OT_E_NOMEM. */
ot_status ot_loader_new(ot_feeders *fs, int64_t most, int workers, int64_t *budget, ot_loader **out, ot_error *err);
void ot_loader_free(ot_loader *l); /* NULL is allowed */

int64_t ot_loader_most(const ot_loader *l);
int64_t ot_loader_bytes(const ot_feeders *fs, int64_t most); /* what it allocates, at most */

/* Samples index[0..n), drawn, until the next call: ot_feeder_take and _raw of these samples then only convert.  A sample that
 * cannot be read is replaced by the next one that can, in index too, as often as fs->skip_bad says; fs->bad is told.
 * position: the batch's number, to ask what comes next.  Errors: those of ot_image_source.read. */
ot_status ot_loader_take(ot_loader *l, int64_t position, int64_t given, int64_t *index, int64_t n, ot_error *err);

#endif
